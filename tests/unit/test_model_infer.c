/* The inference engine: right against PyTorch (golden), against the formulas in double for other shapes, against the
 * training forward; the same to the bit for any batch; what it shares; its limits. Each for every kernel set that this
 * CPU can run. */
#include "model/infer_internal.h"
#include "model/mem.h"
#include "tests/unit/infer_reference.h"
#include "tests/unit/model_fixture.h"
#include "tests/unit/sanitized.h"

#include <malloc.h>
#include <pthread.h>

enum { MAX_PROGRAMS = 20000 };

static enum tm_simd_set sets[TM_SIMD_SETS];
static int n_sets;

/* Weights as in model_fixture.h, for any shape. */
static struct tm_model *make_model(enum tclfeat_set set, const struct tm_hyper *h)
{
    struct tm_model *m = tm_model_new(set, h, 1);
    ck_assert_ptr_nonnull(m);
    fixture_weights(h, m->w);
    m->calib_a = 0.7;
    m->calib_b = 0.2;
    m->latency_shift = -7.0;
    return m;
}

/* Programs made from few rows with common beginnings, as a search makes them. */
struct corpus {
    struct tm_dataset ds;
    float *rows, *summary;
    uint32_t *start, *ids;
};

static void corpus_init(struct corpus *c, enum tclfeat_set set, int cols, int summary, uint32_t n, uint32_t max_rows,
                        uint64_t seed)
{
    enum { ROWS = 60 };
    struct tm_rng rng;
    tm_rng_seed(&rng, seed);
    memset(c, 0, sizeof *c);
    c->rows = calloc((size_t)ROWS * (size_t)cols, sizeof *c->rows);
    c->summary = calloc((size_t)n * (size_t)summary + 1, sizeof *c->summary);
    c->start = calloc((size_t)n + 1, sizeof *c->start);
    c->ids = calloc((size_t)n * max_rows, sizeof *c->ids);
    ck_assert(c->rows && c->summary && c->start && c->ids);
    for (int i = 0; i < ROWS * cols; i++)
        c->rows[i] = tm_rng_below(&rng, 3) ? 0.0f : (float)(2.0 * tm_rng_uniform(&rng) - 0.5);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = c->start[i], len = 1 + tm_rng_below(&rng, max_rows), keep = 0;
        if (i && tm_rng_below(&rng, 8)) { /* branch off an earlier program, sometimes from its very end, or repeat it */
            uint32_t from = tm_rng_below(&rng, i), have = c->start[from + 1] - c->start[from];
            keep = tm_rng_below(&rng, have + 1);
            if (tm_rng_below(&rng, 4) == 0)
                len = keep = have;
            keep = keep < len ? keep : len;
            memcpy(c->ids + at, c->ids + c->start[from], keep * sizeof *c->ids);
            if (tm_rng_below(&rng, 2) == 0)
                memcpy(c->summary + (size_t)i * (size_t)summary, c->summary + (size_t)from * (size_t)summary,
                       (size_t)summary * sizeof *c->summary);
        }
        for (uint32_t j = keep; j < len; j++)
            c->ids[at + j] = tm_rng_below(&rng, tm_rng_below(&rng, 2) ? 4 : ROWS);
        for (int j = 0; j < summary && tm_rng_below(&rng, 3) == 0; j++)
            c->summary[(size_t)i * (size_t)summary + (size_t)j] = (float)tm_rng_uniform(&rng);
        c->start[i + 1] = at + len;
    }
    c->ds = (struct tm_dataset){.features = set,
                                .cols = cols,
                                .summary_cols = summary,
                                .n = n,
                                .n_rows = ROWS,
                                .rows = c->rows,
                                .start = c->start,
                                .ids = c->ids,
                                .summary = c->summary};
}

static void corpus_free(struct corpus *c)
{
    free(c->rows);
    free(c->summary);
    free(c->start);
    free(c->ids);
}

struct result {
    double score, latency, raw;
};

/* Predict programs pick[0..n) (NULL: 0..n) of ds in one batch. */
static void run(struct tm_batch *b, const struct tm_plan *p, const struct tm_dataset *ds, const uint32_t *pick,
                size_t n, struct result *out)
{
    double *v = malloc((3 * n + 1) * sizeof *v);
    ck_assert_ptr_nonnull(v);
    ck_assert_int_eq(tm_batch_begin(b, p), 0);
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(tm_batch_add_dataset(b, ds, pick ? pick[i] : (uint32_t)i), (int)i);
    ck_assert_int_eq(tm_batch_run(b, v, v + n, v + 2 * n), 0);
    for (size_t i = 0; i < n; i++)
        out[i] = (struct result){v[i], v[n + i], v[2 * n + i]};
    free(v);
}

static void close_to(double got, double want, double tolerance)
{
    ck_assert_double_eq_tol(got, want, tolerance * fmax(1.0, fabs(want)));
}

/* --- right ------------------------------------------------------------------------------------------------------- */

START_TEST(agrees_with_pytorch)
{
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = make_model(TCLFEAT_TCLF_1, &h);
    struct tm_plan *p = tm_plan_new_for(m, sets[_i]);
    struct tm_batch *b = tm_batch_new();
    struct fixture_data f;
    struct result out[FIXTURE_PROGRAMS];
    uint32_t n;
    ck_assert(p && b);
    fixture_data_init(&f, h.features, h.summary);
    f.ds.features = TCLFEAT_TCLF_1;
    float *s = fixture_golden("s", &n), *l = fixture_golden("l", &n);
    ck_assert_uint_eq(n, FIXTURE_PROGRAMS);
    run(b, p, &f.ds, NULL, n, out);
    for (uint32_t i = 0; i < n; i++) {
        close_to(out[i].raw, (double)s[i], 1e-5);
        close_to(log(out[i].latency) - m->latency_shift, (double)l[i], 1e-5);
        close_to(out[i].score, 1.0 / (1.0 + exp(-(m->calib_a * out[i].raw + m->calib_b))), 1e-12);
    }
    free(s);
    free(l);
    fixture_data_free(&f);
    tm_batch_free(b);
    tm_plan_free(p);
    tm_model_free(m);
}
END_TEST

START_TEST(agrees_with_the_training_forward)
{
    enum { PROGRAMS = SANITIZED ? 60 : 300 };
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = make_model(TCLFEAT_TCLF_1, &h);
    struct tm_plan *p = tm_plan_new_for(m, sets[_i]);
    struct tm_batch *b = tm_batch_new();
    struct tm_tape *tape = tm_tape_new();
    struct tm_params params = {0};
    struct corpus c;
    static struct result out[PROGRAMS];
    uint32_t all[PROGRAMS];
    ck_assert(p && b && tape);
    corpus_init(&c, TCLFEAT_TCLF_1, h.features, h.summary, PROGRAMS, 40, 3);
    for (uint32_t i = 0; i < PROGRAMS; i++)
        all[i] = i;
    ck_assert_int_eq(tm_params_init(&params, &h, m->w, NULL), 0);
    ck_assert_int_eq(tm_forward(&params, tape, &c.ds, all, PROGRAMS), 0);
    run(b, p, &c.ds, NULL, PROGRAMS, out);
    for (uint32_t i = 0; i < PROGRAMS; i++) {
        close_to(out[i].raw, (double)tape->s[i], 1e-5);
        close_to(log(out[i].latency) - m->latency_shift, (double)tape->l[i], 1e-5);
    }
    corpus_free(&c);
    tm_params_free(&params);
    tm_tape_free(tape);
    tm_batch_free(b);
    tm_plan_free(p);
    tm_model_free(m);
}
END_TEST

static void check_shape(enum tm_simd_set set, enum tclfeat_set features, struct tm_hyper h)
{
    enum { PROGRAMS = 60 };
    struct tm_model *m = make_model(features, &h);
    struct tm_plan *p = tm_plan_new_for(m, set);
    struct tm_batch *b = tm_batch_new();
    struct corpus c;
    struct result out[PROGRAMS];
    ck_assert(p && b);
    corpus_init(&c, features, h.features, h.summary, PROGRAMS, 30, 5);
    run(b, p, &c.ds, NULL, PROGRAMS, out);
    for (uint32_t i = 0; i < PROGRAMS; i++) {
        const float *rows[64];
        double s, l;
        size_t n = 0;
        for (uint32_t j = c.start[i]; j < c.start[i + 1]; j++)
            rows[n++] = c.rows + (size_t)c.ids[j] * (size_t)h.features;
        reference_forward(m, rows, n, c.summary + (size_t)i * (size_t)h.summary, &s, &l);
        close_to(out[i].raw, s, 1e-5);
        close_to(log(out[i].latency) - m->latency_shift, l, 1e-5);
    }
    corpus_free(&c);
    tm_batch_free(b);
    tm_plan_free(p);
    tm_model_free(m);
}

START_TEST(agrees_with_the_formulas_for_other_shapes)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    check_shape(sets[_i], TCLFEAT_TCLF_1, h);
    h.summary = 0;
    check_shape(sets[_i], TCLFEAT_TCLF_1, h);
    check_shape(sets[_i], TCLFEAT_TLP_CPU_1, tm_hyper_default(TCLFEAT_TLP_CPU_1));
    check_shape(sets[_i], TCLFEAT_TLP_GPU_1, tm_hyper_default(TCLFEAT_TLP_GPU_1));
    h = tm_hyper_default(TCLFEAT_TCLF_1); /* the vector mixer with odd layers around it */
    h.embed = 37;
    h.summary_width = 23;
    h.head1 = 19;
    h.head2 = 5;
    check_shape(sets[_i], TCLFEAT_TCLF_1, h);
    h.d_state = 5; /* not the vector mixer */
    h.d_conv = 3;
    h.dt_rank = 6;
    check_shape(sets[_i], TCLFEAT_TCLF_1, h);
    h = (struct tm_hyper){.features = 22,
                          .embed = 9,
                          .d_model = 20,
                          .d_state = 3,
                          .d_conv = 2,
                          .dt_rank = 3,
                          .summary_width = 7,
                          .head1 = 6,
                          .head2 = 3};
    check_shape(sets[_i], TCLFEAT_TLP_CPU_1, h);
    h.d_conv = 8;
    h.d_state = 16;
    h.d_model = 144;
    check_shape(sets[_i], TCLFEAT_TLP_CPU_1, h);
}
END_TEST

/* --- the same to the bit ----------------------------------------------------------------------------------------- */

static void same(const struct result *a, const struct result *b)
{
    ck_assert_mem_eq(a, b, sizeof *a);
}

START_TEST(no_result_depends_on_the_batch)
{
    enum { PROGRAMS = SANITIZED ? 120 : 700 };
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = make_model(TCLFEAT_TCLF_1, &h);
    struct tm_plan *p = tm_plan_new_for(m, sets[_i]);
    struct tm_batch *b = tm_batch_new();
    struct corpus c;
    static struct result want[PROGRAMS], out[2 * PROGRAMS];
    static uint32_t pick[2 * PROGRAMS];
    struct tm_rng rng;
    ck_assert(p && b);
    tm_rng_seed(&rng, 11);
    corpus_init(&c, TCLFEAT_TCLF_1, h.features, h.summary, PROGRAMS, 30, 7);
    run(b, p, &c.ds, NULL, PROGRAMS, want);

    for (uint32_t i = 0; i < PROGRAMS; i += 13) { /* alone */
        run(b, p, &c.ds, &i, 1, out);
        same(&out[0], &want[i]);
    }
    for (int round = 0; round < 4; round++) { /* shuffled, each program twice */
        for (uint32_t i = 0; i < 2 * PROGRAMS; i++)
            pick[i] = i % PROGRAMS;
        tm_rng_shuffle(&rng, pick, 2 * PROGRAMS);
        run(b, p, &c.ds, pick, 2 * PROGRAMS, out);
        for (uint32_t i = 0; i < 2 * PROGRAMS; i++)
            same(&out[i], &want[pick[i]]);
    }
    for (uint32_t at = 0; at < PROGRAMS;) { /* in pieces */
        uint32_t n = 1 + tm_rng_below(&rng, 60);
        n = n < PROGRAMS - at ? n : PROGRAMS - at;
        for (uint32_t i = 0; i < n; i++)
            pick[i] = at + i;
        run(b, p, &c.ds, pick, n, out);
        for (uint32_t i = 0; i < n; i++)
            same(&out[i], &want[at + i]);
        at += n;
    }
    tm_batch_share(b, false); /* nothing shared */
    run(b, p, &c.ds, NULL, PROGRAMS, out);
    for (uint32_t i = 0; i < PROGRAMS; i++)
        same(&out[i], &want[i]);
    corpus_free(&c);
    tm_batch_free(b);
    tm_plan_free(p);
    tm_model_free(m);
}
END_TEST

START_TEST(sets_agree_within_1e_5)
{
    enum { PROGRAMS = SANITIZED ? 60 : 400 };
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = make_model(TCLFEAT_TCLF_1, &h);
    struct tm_plan *p = tm_plan_new_for(m, sets[_i]), *portable = tm_plan_new_for(m, TM_SIMD_PORTABLE);
    struct tm_batch *b = tm_batch_new();
    struct corpus c;
    static struct result got[PROGRAMS], want[PROGRAMS];
    ck_assert(p && portable && b);
    corpus_init(&c, TCLFEAT_TCLF_1, h.features, h.summary, PROGRAMS, 100, 9);
    run(b, p, &c.ds, NULL, PROGRAMS, got);
    run(b, portable, &c.ds, NULL, PROGRAMS, want);
    for (int i = 0; i < PROGRAMS; i++) {
        close_to(got[i].raw, want[i].raw, 1e-5);
        close_to(got[i].score, want[i].score, 1e-5);
        close_to(log(got[i].latency), log(want[i].latency), 1e-5);
    }
    corpus_free(&c);
    tm_batch_free(b);
    tm_plan_free(portable);
    tm_plan_free(p);
    tm_model_free(m);
}
END_TEST

struct worker {
    const struct tm_plan *p;
    const struct tm_dataset *ds;
    struct result *out;
    size_t n;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    struct tm_batch *b = tm_batch_new();
    for (int round = 0; round < 5; round++)
        run(b, w->p, w->ds, NULL, w->n, w->out);
    tm_batch_free(b);
    return NULL;
}

START_TEST(threads_share_a_plan)
{
    enum { PROGRAMS = SANITIZED ? 60 : 200, THREADS = 3 };
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = make_model(TCLFEAT_TCLF_1, &h);
    struct tm_plan *p = tm_plan_new(m);
    struct corpus c;
    static struct result out[THREADS][PROGRAMS];
    struct worker w[THREADS];
    pthread_t thread[THREADS];
    ck_assert_ptr_nonnull(p);
    corpus_init(&c, TCLFEAT_TCLF_1, h.features, h.summary, PROGRAMS, 30, 13);
    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){p, &c.ds, out[i], PROGRAMS};
        ck_assert_int_eq(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
    for (int i = 1; i < THREADS; i++)
        ck_assert_mem_eq(out[i], out[0], sizeof out[0]);
    corpus_free(&c);
    tm_plan_free(p);
    tm_model_free(m);
}
END_TEST

/* --- what is shared ---------------------------------------------------------------------------------------------- */

/* Five programs over the rows A..E: AB, ABC, ABD, ABC again with another summary, ABC with the same summary. */
START_TEST(counts_what_it_shared)
{
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = make_model(TCLFEAT_TCLF_1, &h);
    struct tm_plan *p = tm_plan_new_for(m, sets[_i]);
    struct tm_batch *b = tm_batch_new();
    struct corpus c;
    struct result out[5];
    struct tm_batch_stats s;
    static const uint32_t start[] = {0, 2, 5, 8, 11, 14}, ids[] = {0, 1, 0, 1, 2, 0, 1, 3, 0, 1, 2, 0, 1, 2};
    ck_assert(p && b);
    corpus_init(&c, TCLFEAT_TCLF_1, h.features, h.summary, 5, 5, 15);
    memcpy(c.start, start, sizeof start);
    memcpy(c.ids, ids, sizeof ids);
    memset(c.summary, 0, 5 * (size_t)h.summary * sizeof *c.summary);
    c.summary[3 * h.summary] = 1.0f;
    run(b, p, &c.ds, NULL, 5, out);
    tm_batch_stats(b, &s);
    ck_assert(s.programs == 5 && s.rows == 14 && s.distinct_rows == 4 && s.distinct_prefixes == 4 &&
              s.distinct_programs == 4);
    same(&out[1], &out[4]);
    ck_assert(out[1].raw != out[3].raw && out[1].raw != out[0].raw && out[1].raw != out[2].raw);
    tm_batch_share(b, false);
    run(b, p, &c.ds, NULL, 5, out);
    tm_batch_stats(b, &s);
    ck_assert(s.distinct_rows == 14 && s.distinct_prefixes == 14 && s.distinct_programs == 5);
    corpus_free(&c);
    tm_batch_free(b);
    tm_plan_free(p);
    tm_model_free(m);
}
END_TEST

START_TEST(a_warm_batch_allocates_nothing)
{
    if (SANITIZED) {
        printf("a_warm_batch_allocates_nothing: skipped, the sanitizer owns malloc\n");
        return;
    }
    enum { PROGRAMS = 500 };
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = make_model(TCLFEAT_TCLF_1, &h);
    struct tm_plan *p = tm_plan_new(m);
    struct tm_batch *b = tm_batch_new();
    struct corpus c;
    static double v[2 * PROGRAMS];
    size_t before = 0;
    ck_assert(p && b);
    corpus_init(&c, TCLFEAT_TCLF_1, h.features, h.summary, PROGRAMS, 30, 17);
    for (int round = 0; round < 3; round++) {
        struct mallinfo2 i = mallinfo2();
        before = i.uordblks + i.hblkhd;
        ck_assert_int_eq(tm_batch_begin(b, p), 0);
        for (uint32_t k = 0; k < PROGRAMS; k++)
            ck_assert_int_ge(tm_batch_add_dataset(b, &c.ds, k), 0);
        ck_assert_int_eq(tm_batch_run(b, v, v + PROGRAMS, NULL), 0);
    }
    struct mallinfo2 i = mallinfo2();
    ck_assert_uint_eq(i.uordblks + i.hblkhd, before);
    corpus_free(&c);
    tm_batch_free(b);
    tm_plan_free(p);
    tm_model_free(m);
}
END_TEST

/* --- limits ------------------------------------------------------------------------------------------------------ */

START_TEST(an_empty_batch_runs)
{
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = make_model(TCLFEAT_TCLF_1, &h);
    struct tm_plan *p = tm_plan_new(m);
    struct tm_batch *b = tm_batch_new();
    struct tm_batch_stats s;
    double v;
    ck_assert_int_eq(tm_batch_begin(b, p), 0);
    ck_assert_int_eq(tm_batch_run(b, &v, &v, &v), 0);
    tm_batch_stats(b, &s);
    ck_assert_uint_eq(s.programs, 0);
    tm_batch_free(b);
    tm_batch_free(NULL);
    tm_plan_free(p);
    tm_plan_free(NULL);
    tm_model_free(m);
}
END_TEST

START_TEST(a_batch_of_16384_runs_in_any_kernel_set)
{
    enum { PROGRAMS = SANITIZED ? 1500 : 16384 };
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TLP_GPU_1);
    struct tm_model *m = make_model(TCLFEAT_TLP_GPU_1, &h);
    struct tm_plan *p = tm_plan_new_for(m, sets[_i]);
    struct tm_batch *b = tm_batch_new();
    struct corpus c;
    static struct result out[PROGRAMS];
    ck_assert(p && b);
    corpus_init(&c, TCLFEAT_TLP_GPU_1, h.features, 0, PROGRAMS, 8, 19);
    run(b, p, &c.ds, NULL, PROGRAMS, out);
    for (int i = 0; i < PROGRAMS; i++)
        ck_assert(isfinite(out[i].raw) && out[i].score > 0.0 && out[i].score < 1.0 && out[i].latency > 0.0);
    corpus_free(&c);
    tm_batch_free(b);
    tm_plan_free(p);
    tm_model_free(m);
}
END_TEST

START_TEST(the_longest_program_and_all_its_prefixes_fit)
{
    enum { PROGRAMS = TCLFEAT_MAX_ROWS, STEP = SANITIZED ? 257 : 73 };
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TLP_CPU_1);
    struct tm_model *m = make_model(TCLFEAT_TLP_CPU_1, &h);
    struct tm_plan *p = tm_plan_new_for(m, sets[_i]);
    struct tm_batch *b = tm_batch_new();
    struct corpus c;
    static struct result out[PROGRAMS], alone;
    struct tm_batch_stats s;
    ck_assert(p && b);
    corpus_init(&c, TCLFEAT_TLP_CPU_1, h.features, 0, PROGRAMS, PROGRAMS, 21);
    uint32_t at = 0;
    for (uint32_t i = 0; i < PROGRAMS; i++) { /* program i is a prefix of i + 1 rows of one sequence */
        for (uint32_t j = 0; j <= i; j++)
            c.ids[at + j] = (j * 7) % 60;
        at += i + 1;
        c.start[i + 1] = at;
    }
    run(b, p, &c.ds, NULL, PROGRAMS, out);
    tm_batch_stats(b, &s);
    ck_assert_uint_eq(s.distinct_prefixes, PROGRAMS);
    for (uint32_t i = 0; i < PROGRAMS; i += STEP) {
        run(b, p, &c.ds, &i, 1, &alone);
        same(&alone, &out[i]);
    }
    corpus_free(&c);
    tm_batch_free(b);
    tm_plan_free(p);
    tm_model_free(m);
}
END_TEST

START_TEST(outputs_are_clamped_and_finite_for_wild_weights)
{
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = make_model(TCLFEAT_TCLF_1, &h);
    struct tm_batch *b = tm_batch_new();
    struct corpus c;
    struct result out[20];
    static const float scale[] = {1e3f, 1e18f};
    corpus_init(&c, TCLFEAT_TCLF_1, h.features, h.summary, 20, 20, 23);
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < m->n; i++)
            m->w[i] *= scale[k];
        struct tm_plan *p = tm_plan_new_for(m, sets[_i]);
        run(b, p, &c.ds, NULL, 20, out);
        for (int i = 0; i < 20; i++) {
            ck_assert(out[i].score >= 1e-6 && out[i].score <= 1.0 - 1e-6);
            float latency = (float)out[i].latency; /* as the binary reply has it */
            ck_assert(isfinite(latency) && latency > 0.0f);
        }
        tm_plan_free(p);
    }
    corpus_free(&c);
    tm_batch_free(b);
    tm_model_free(m);
}
END_TEST

START_TEST(experiments_have_no_plan)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    for (int k = 0; k < 2; k++) {
        h.more_blocks = k == 0;
        h.pooling = k == 0 ? TM_POOL_SUM : TM_POOL_LAST;
        struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
        ck_assert_ptr_nonnull(m);
        ck_assert_ptr_null(tm_plan_new(m));
        tm_model_free(m);
    }
}
END_TEST

START_TEST(a_dataset_of_other_features_is_refused_and_the_batch_goes_on)
{
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = make_model(TCLFEAT_TCLF_1, &h);
    struct tm_plan *p = tm_plan_new(m);
    struct tm_batch *b = tm_batch_new();
    struct corpus right, wrong;
    double v[4];
    corpus_init(&right, TCLFEAT_TCLF_1, h.features, h.summary, 4, 9, 25);
    corpus_init(&wrong, TCLFEAT_TLP_CPU_1, 22, 0, 4, 9, 25);
    ck_assert_int_eq(tm_batch_begin(b, p), 0);
    ck_assert_int_eq(tm_batch_add_dataset(b, &right.ds, 0), 0);
    ck_assert_int_eq(tm_batch_add_dataset(b, &wrong.ds, 0), -TP_E_FEATURES_MISMATCH);
    ck_assert_int_eq(tm_batch_add_dataset(b, &right.ds, 4), -TP_E_FEATURES_MISMATCH); /* no such program */
    ck_assert_int_eq(tm_batch_add_dataset(b, &right.ds, 1), 1);
    ck_assert_int_eq(tm_batch_run(b, v, v + 2, NULL), 0);
    corpus_free(&wrong);
    corpus_free(&right);
    tm_batch_free(b);
    tm_plan_free(p);
    tm_model_free(m);
}
END_TEST

START_TEST(predicting_a_dataset_gives_what_batches_give)
{
    enum { PROGRAMS = SANITIZED ? 4300 : 5000, PICKED = SANITIZED ? 4200 : 4500 };
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TLP_CPU_1);
    struct tm_model *m = make_model(TCLFEAT_TLP_CPU_1, &h);
    struct tm_plan *p = tm_plan_new(m);
    struct tm_batch *b = tm_batch_new();
    struct corpus c;
    static struct result want[PICKED];
    static double score[PICKED], latency[PICKED], raw[PICKED];
    static uint32_t pick[PROGRAMS];
    struct tm_rng rng;
    tm_rng_seed(&rng, 1);
    corpus_init(&c, TCLFEAT_TLP_CPU_1, h.features, 0, PROGRAMS, 6, 27);
    for (uint32_t i = 0; i < PROGRAMS; i++)
        pick[i] = i;
    tm_rng_shuffle(&rng, pick, PROGRAMS);
    run(b, p, &c.ds, pick, PICKED, want);
    ck_assert_int_eq(tm_predict_dataset(m, &c.ds, pick, PICKED, score, latency, raw), 0);
    for (int i = 0; i < PICKED; i++)
        ck_assert(score[i] == want[i].score && latency[i] == want[i].latency && raw[i] == want[i].raw);
    ck_assert_int_eq(tm_predict_dataset(m, &c.ds, pick, 3, score, latency, NULL), 0);
    ck_assert(score[2] == want[2].score);
    corpus_free(&c);
    tm_batch_free(b);
    tm_plan_free(p);
    tm_model_free(m);
}
END_TEST

int main(void)
{
    for (int s = 0; s < TM_SIMD_SETS; s++)
        if (tm_kern((enum tm_simd_set)s))
            sets[n_sets++] = (enum tm_simd_set)s;
    Suite *s = suite_create("model/infer");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, agrees_with_pytorch, 0, n_sets);
    tcase_add_loop_test(c, agrees_with_the_training_forward, 0, n_sets);
    tcase_add_loop_test(c, agrees_with_the_formulas_for_other_shapes, 0, n_sets);
    tcase_add_loop_test(c, no_result_depends_on_the_batch, 0, n_sets);
    tcase_add_loop_test(c, sets_agree_within_1e_5, 0, n_sets);
    tcase_add_test(c, threads_share_a_plan);
    tcase_add_loop_test(c, counts_what_it_shared, 0, n_sets);
    tcase_add_test(c, a_warm_batch_allocates_nothing);
    tcase_add_test(c, an_empty_batch_runs);
    tcase_add_loop_test(c, a_batch_of_16384_runs_in_any_kernel_set, 0, n_sets);
    tcase_add_loop_test(c, the_longest_program_and_all_its_prefixes_fit, 0, n_sets);
    tcase_add_loop_test(c, outputs_are_clamped_and_finite_for_wild_weights, 0, n_sets);
    tcase_add_test(c, experiments_have_no_plan);
    tcase_add_test(c, a_dataset_of_other_features_is_refused_and_the_batch_goes_on);
    tcase_add_test(c, predicting_a_dataset_gives_what_batches_give);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
