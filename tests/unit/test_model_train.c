/* Training on a synthetic task that can be learned: a program's cost is the product of what its rows cost,
 * and one row makes it fail. */
#include "model/train.h"

#include "model/mem.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLOW = 1 }; /* sanitizers look at the code, not at how well it learns */
#else
enum { SLOW = 0 };
#endif

enum { TASKS = 60, PER_TASK = 30, ROWS = 60, MAX_STEPS = 9, COLS = 8, SUMMARY = 4 };

struct toy {
    struct tm_dataset ds;
    struct tm_model *m;
    float *rows, *summary;
    double *cost;
    uint32_t *start, *ids, *task, *train, *valid;
    size_t n_train, n_valid;
};

static void toy_init(struct toy *t, uint64_t seed)
{
    enum { N = TASKS * PER_TASK };
    double value[ROWS] = {0};
    struct tm_rng r;
    memset(t, 0, sizeof *t);
    tm_rng_seed(&r, seed);
    t->rows = tm_alloc(ROWS * COLS, sizeof *t->rows);
    t->summary = tm_alloc(N * SUMMARY, sizeof *t->summary);
    t->cost = tm_alloc(N, sizeof *t->cost);
    t->start = tm_alloc(N + 1, sizeof *t->start);
    t->ids = tm_alloc(N * MAX_STEPS, sizeof *t->ids);
    t->task = tm_alloc(N, sizeof *t->task);
    t->train = tm_alloc(N, sizeof *t->train);
    t->valid = tm_alloc(N, sizeof *t->valid);
    ck_assert(t->rows && t->summary && t->cost && t->start && t->ids && t->task && t->train && t->valid);
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLS; j++) {
            t->rows[i * COLS + j] = (float)(2 * tm_rng_uniform(&r) - 1);
            value[i] += (j % 2 ? 0.5 : -0.3) * (double)t->rows[i * COLS + j];
        }
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < N; i++) {
        double ln = -7 + 0.1 * (i / PER_TASK);
        uint32_t steps = 3 + tm_rng_below(&r, MAX_STEPS - 2);
        bool fails = false;
        t->start[i] = at;
        t->task[i] = i / PER_TASK;
        for (uint32_t k = 0; k < steps; k++) {
            t->ids[at] = tm_rng_below(&r, ROWS);
            fails |= t->ids[at] == 0;
            ln += value[t->ids[at++]];
        }
        for (int j = 0; j < SUMMARY; j++)
            t->summary[i * SUMMARY + (uint32_t)j] = (float)tm_rng_uniform(&r);
        t->cost[i] = fails ? INFINITY : exp(ln);
    }
    t->start[N] = at;
    t->ds = (struct tm_dataset){.features = TCLFEAT_TCLF_1,
                                .cols = COLS,
                                .summary_cols = SUMMARY,
                                .n = N,
                                .n_tasks = TASKS,
                                .n_rows = ROWS,
                                .rows = t->rows,
                                .start = t->start,
                                .ids = t->ids,
                                .summary = t->summary,
                                .task = t->task,
                                .cost = t->cost};
    struct tm_hyper h = {.features = COLS,
                         .embed = 16,
                         .d_model = 32,
                         .d_state = 8,
                         .d_conv = 4,
                         .dt_rank = 2,
                         .summary = SUMMARY,
                         .summary_width = 16,
                         .head1 = 16,
                         .head2 = 8};
    t->m = tm_model_new(TCLFEAT_TCLF_1, &h, 5);
    ck_assert_ptr_nonnull(t->m);
    bool by_record;
    tm_split(&t->ds, 0.2, 3, t->train, &t->n_train, t->valid, &t->n_valid, &by_record);
    ck_assert(!by_record);
}

static void toy_free(struct toy *t)
{
    tm_model_free(t->m);
    free(t->rows);
    free(t->summary);
    free(t->cost);
    free(t->start);
    free(t->ids);
    free(t->task);
    free(t->train);
    free(t->valid);
}

static struct tm_train_opts options(void)
{
    struct tm_train_opts o;
    tm_train_defaults(&o);
    o.epochs = SLOW ? 4 : 40;
    o.tasks_per_batch = 4;
    o.lr = 4e-3;
    return o;
}

static int train(struct toy *t, const struct tm_train_opts *o, tm_progress_fn fn, void *arg)
{
    struct tp_err e;
    return tm_train(t->m, &t->ds, t->train, t->n_train, t->valid, t->n_valid, o, fn, arg, &e);
}

struct watch {
    struct tm_progress last;
    double best, first_loss;
    int calls, stop_after;
};

static int watch(void *arg, const struct tm_progress *p)
{
    struct watch *w = arg;
    if (w->calls == 0)
        w->first_loss = p->loss;
    ck_assert(p->fraction >= w->last.fraction && p->fraction <= 1);
    if (p->valid_pairwise > w->best)
        w->best = p->valid_pairwise;
    w->last = *p;
    return ++w->calls == w->stop_after;
}

static void learns(enum tm_rank_loss rank, double reach)
{
    struct toy t;
    struct watch w = {0};
    struct tm_train_opts o = options();
    toy_init(&t, 1);
    o.rank = rank;
    ck_assert_int_eq(train(&t, &o, watch, &w), 0);
    ck_assert_msg(w.best > (SLOW ? 0.6 : reach), "pairwise %g", w.best);
    ck_assert_double_lt(w.last.loss, w.first_loss);
    ck_assert_int_eq(w.last.epoch, o.epochs);
    ck_assert_double_eq(w.last.fraction, 1);
    ck_assert_double_gt(t.m->calib_a, 0);
    ck_assert_double_lt(fabs(t.m->latency_shift), SLOW ? 2 : 1);
    ck_assert(t.m->latency_std > 0 && t.m->latency_std < (SLOW ? 20 : 2));
    toy_free(&t);
}

START_TEST(pairwise_loss_learns_to_rank_unseen_tasks)
{
    learns(TM_RANK_PAIRWISE, 0.95);
}
END_TEST

START_TEST(lambda_loss_learns_to_rank_unseen_tasks)
{
    learns(TM_RANK_LAMBDA, 0.85);
}
END_TEST

START_TEST(weights_do_not_depend_on_the_number_of_threads)
{
    static const int threads[] = {1, 2, 4};
    struct toy t[3];
    for (int i = 0; i < 3; i++) {
        struct tm_train_opts o = options();
        o.epochs = 3;
        o.threads = threads[i];
        toy_init(&t[i], 1);
        ck_assert_int_eq(train(&t[i], &o, NULL, NULL), 0);
        ck_assert_mem_eq(t[0].m->w, t[i].m->w, t[0].m->n * sizeof(float));
        ck_assert(t[0].m->calib_a == t[i].m->calib_a && t[0].m->latency_shift == t[i].m->latency_shift);
    }
    for (int i = 0; i < 3; i++)
        toy_free(&t[i]);
}
END_TEST

START_TEST(another_seed_gives_other_weights)
{
    struct toy a, b;
    struct tm_train_opts o = options();
    o.epochs = 1;
    toy_init(&a, 1);
    toy_init(&b, 1);
    ck_assert_int_eq(train(&a, &o, NULL, NULL), 0);
    o.seed++;
    ck_assert_int_eq(train(&b, &o, NULL, NULL), 0);
    ck_assert_mem_ne(a.m->w, b.m->w, a.m->n * sizeof(float));
    toy_free(&a);
    toy_free(&b);
}
END_TEST

START_TEST(cancelling_stops_within_a_batch_and_leaves_the_model_alone)
{
    struct toy t;
    struct watch w = {.stop_after = 7};
    struct tm_train_opts o = options();
    toy_init(&t, 1);
    struct tm_model *before = tm_model_clone(t.m);
    ck_assert_ptr_nonnull(before);
    ck_assert_int_eq(train(&t, &o, watch, &w), -TP_E_CANCELLED);
    ck_assert_int_eq(w.calls, 7);
    ck_assert_mem_eq(before->w, t.m->w, t.m->n * sizeof(float));
    ck_assert_double_eq(t.m->calib_a, before->calib_a);
    tm_model_free(before);
    toy_free(&t);
}
END_TEST

START_TEST(a_time_limit_ends_the_schedule)
{
    struct toy t;
    struct watch w = {0};
    struct tm_train_opts o = options();
    o.epochs = 1000000;
    o.max_seconds = 0.3;
    toy_init(&t, 1);
    ck_assert_int_eq(train(&t, &o, watch, &w), 0);
    ck_assert_double_eq(w.last.fraction, 1);
    ck_assert_int_lt(w.last.epoch, o.epochs);
    toy_free(&t);
}
END_TEST

START_TEST(a_time_limit_that_is_over_leaves_one_epoch)
{
    static const double limit[] = {1e-9, 1e-3};
    for (int i = 0; i < 2; i++) {
        struct toy t;
        struct watch w = {0};
        struct tm_train_opts o = options();
        o.epochs = 1000000;
        o.max_seconds = limit[i];
        toy_init(&t, 1);
        struct tm_model *before = tm_model_clone(t.m);
        ck_assert_int_eq(train(&t, &o, watch, &w), 0);
        ck_assert_double_eq(w.last.fraction, 1);
        ck_assert_int_ge(w.last.epoch, 1);
        ck_assert(isfinite(w.last.loss));
        if (i == 0)
            ck_assert_int_eq(w.last.epoch, 1);
        for (int k = 0; k < TM_TENSORS; k++) /* all of the network has learned */
            if (t.m->shape[k].size > 0)
                ck_assert_mem_ne(before->w + t.m->shape[k].offset, t.m->w + t.m->shape[k].offset,
                                 t.m->shape[k].size * sizeof(float));
        tm_model_free(before);
        toy_free(&t);
    }
}
END_TEST

START_TEST(the_last_epoch_stays_without_a_validation_set)
{
    struct toy t;
    struct watch w = {0};
    struct tm_train_opts o = options();
    struct tp_err e;
    o.epochs = 2;
    toy_init(&t, 1);
    ck_assert_int_eq(tm_train(t.m, &t.ds, t.train, t.n_train, NULL, 0, &o, watch, &w, &e), 0);
    ck_assert(isnan(w.last.valid_pairwise) && isnan(w.last.valid_top1));
    ck_assert_double_eq(t.m->latency_std, 0); /* tasks that were trained on do not tell about new ones */
    ck_assert_double_gt(t.m->known_std, 0);
    toy_free(&t);
}
END_TEST

START_TEST(nothing_to_rank_is_not_enough_data)
{
    struct toy t;
    struct tm_train_opts o = options();
    struct tp_err e;
    uint32_t one_per_task[TASKS];
    toy_init(&t, 1);
    for (uint32_t i = 0; i < TASKS; i++)
        one_per_task[i] = i * PER_TASK;
    ck_assert_int_eq(tm_train(t.m, &t.ds, one_per_task, TASKS, NULL, 0, &o, NULL, NULL, &e), -TP_E_NOT_ENOUGH_DATA);
    ck_assert_int_eq(tm_train(t.m, &t.ds, NULL, 0, NULL, 0, &o, NULL, NULL, &e), -TP_E_NOT_ENOUGH_DATA);
    for (uint32_t i = 0; i < PER_TASK; i++)
        t.cost[i] = INFINITY;
    ck_assert_int_eq(tm_train(t.m, &t.ds, t.train, 0, NULL, 0, &o, NULL, NULL, &e), -TP_E_NOT_ENOUGH_DATA);
    uint32_t failed[] = {0, 1, 2};
    ck_assert_int_eq(tm_train(t.m, &t.ds, failed, 3, NULL, 0, &o, NULL, NULL, &e), -TP_E_NOT_ENOUGH_DATA);
    toy_free(&t);
}
END_TEST

START_TEST(other_features_and_bad_options_are_refused)
{
    struct toy t;
    struct tm_train_opts o = options();
    toy_init(&t, 1);
    o.epochs = 0;
    ck_assert_int_eq(train(&t, &o, NULL, NULL), -TP_E_UNUSABLE);
    o = options();
    t.ds.features = TCLFEAT_TLP_CPU_1;
    ck_assert_int_eq(train(&t, &o, NULL, NULL), -TP_E_FEATURES_MISMATCH);
    toy_free(&t);
}
END_TEST

START_TEST(rates_follow_their_schedules)
{
    ck_assert_double_eq(tm_rate_at(TM_RATE_COSINE, 20, 10, 0), 1);
    ck_assert_double_eq_tol(tm_rate_at(TM_RATE_COSINE, 20, 10, 0.5), 0.5, 1e-12);
    ck_assert_double_eq_tol(tm_rate_at(TM_RATE_COSINE, 20, 10, 1), 0, 1e-12);
    /* 20 epochs in periods of 10: epochs 0 and 10 begin at the top, epochs 5 and 15 are half way */
    ck_assert_double_eq(tm_rate_at(TM_RATE_RESTARTS, 20, 10, 0), 1);
    ck_assert_double_eq_tol(tm_rate_at(TM_RATE_RESTARTS, 20, 10, 0.25), 0.5, 1e-12);
    ck_assert_double_lt(tm_rate_at(TM_RATE_RESTARTS, 20, 10, 0.4999), 1e-6);
    ck_assert_double_eq(tm_rate_at(TM_RATE_RESTARTS, 20, 10, 0.5), 1);
    ck_assert_double_eq(tm_rate_at(TM_RATE_RESTARTS, 20, 10, 1), 0);
    /* 15 epochs, a tenth after every 5 */
    ck_assert_double_eq(tm_rate_at(TM_RATE_STEPS, 15, 5, 0.3), 1);
    ck_assert_double_eq_tol(tm_rate_at(TM_RATE_STEPS, 15, 5, 0.4), 0.1, 1e-12);
    ck_assert_double_eq_tol(tm_rate_at(TM_RATE_STEPS, 15, 5, 0.7), 0.01, 1e-12);
}
END_TEST

START_TEST(frozen_tensors_keep_their_weights)
{
    struct toy t;
    struct tm_train_opts o = options();
    toy_init(&t, 1);
    struct tm_model *before = tm_model_clone(t.m);
    o.epochs = 2;
    o.weight_decay = 0.1;
    o.frozen = UINT64_C(1) << TM_T_OUT_PROJ_W;
    ck_assert_int_eq(train(&t, &o, NULL, NULL), 0);
    const struct tm_shape *s = &t.m->shape[TM_T_OUT_PROJ_W], *other = &t.m->shape[TM_T_HEAD0_W];
    /* the running mean of a constant is that constant, but for rounding */
    for (size_t i = 0; i < s->size; i++)
        ck_assert_float_eq_tol(before->w[s->offset + i], t.m->w[s->offset + i], 1e-6f);
    ck_assert_mem_ne(before->w + other->offset, t.m->w + other->offset, other->size * sizeof(float));
    tm_model_free(before);
    toy_free(&t);
}
END_TEST

START_TEST(a_warm_start_never_ends_worse_on_the_validation_set)
{
    struct toy t;
    struct watch w = {0};
    struct tm_train_opts o = options();
    o.epochs = 10;
    toy_init(&t, 1);
    ck_assert_int_eq(train(&t, &o, NULL, NULL), 0);
    struct tm_model *before = tm_model_clone(t.m);
    o.warm = true;
    o.lr = 1; /* ruins whatever it touches */
    o.epochs = 2;
    ck_assert_int_eq(train(&t, &o, watch, &w), 0);
    /* what was there ranked best; its latency bias alone has moved */
    const size_t bias = t.m->shape[TM_T_HEAD2_B].offset + 1;
    for (size_t i = 0; i < t.m->n; i++)
        ck_assert(i == bias || before->w[i] == t.m->w[i]);
    tm_model_free(before);
    toy_free(&t);
}
END_TEST

START_TEST(the_last_epoch_is_kept_when_asked)
{
    struct toy t;
    struct tm_train_opts o = options();
    o.epochs = 10;
    toy_init(&t, 1);
    ck_assert_int_eq(train(&t, &o, NULL, NULL), 0);
    struct tm_model *before = tm_model_clone(t.m);
    o.warm = o.keep_last = true;
    o.lr = 0.05; /* worse than what was there */
    o.epochs = 2;
    ck_assert_int_eq(train(&t, &o, NULL, NULL), 0);
    ck_assert_mem_ne(before->w, t.m->w, t.m->n * sizeof(float));
    tm_model_free(before);
    toy_free(&t);
}
END_TEST

struct extra {
    int begun, valid;
    double first;
};

static void begin(void *arg, const uint32_t *programs, const struct tm_chunk *chunks, uint32_t n)
{
    struct extra *x = arg;
    ck_assert(programs && chunks && n > 0);
    x->begun++;
}

static int nothing(void *arg, const uint32_t *programs, uint32_t n, const double *y, const double *noise,
                   const struct tm_tape *t, float *gs, float *gl, double *loss)
{
    (void)arg, (void)programs, (void)y, (void)noise, (void)t, (void)gs, (void)gl;
    ck_assert_uint_gt(n, 1);
    *loss += 1000;
    return 0;
}

static int fails(void *arg, const uint32_t *programs, uint32_t n, const double *y, const double *noise,
                 const struct tm_tape *t, float *gs, float *gl, double *loss)
{
    (void)arg, (void)programs, (void)n, (void)y, (void)noise, (void)t, (void)gs, (void)gl, (void)loss;
    return -TP_E_NO_MEMORY;
}

/* Holds the first weight where it is, against anything the data may want. */
static void hold(void *arg, const float *w, float *grad)
{
    struct extra *x = arg;
    grad[0] += 1e6f * (w[0] - (float)x->first);
}

static void valid(void *arg, const double *score)
{
    struct extra *x = arg;
    ck_assert(isfinite(score[0]));
    x->valid++;
}

START_TEST(a_hook_adds_to_loss_and_gradient)
{
    struct toy t;
    struct watch w = {0};
    struct tm_train_opts o = options();
    toy_init(&t, 1);
    struct extra x = {.first = (double)t.m->w[0] + 0.25};
    struct tm_train_hook h = {.arg = &x, .begin = begin, .loss = nothing, .gradient = hold, .valid = valid};
    o.epochs = 40;
    o.hook = &h;
    ck_assert_int_eq(train(&t, &o, watch, &w), 0);
    ck_assert_double_gt(w.last.loss, 1000);
    ck_assert_int_eq(x.valid, o.epochs);
    ck_assert_int_eq(x.begun, w.calls - x.valid);
    ck_assert_double_eq_tol((double)t.m->w[0], x.first, 0.05);
    h.loss = fails;
    ck_assert_int_eq(train(&t, &o, NULL, NULL), -TP_E_NO_MEMORY);
    toy_free(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model/train");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, pairwise_loss_learns_to_rank_unseen_tasks);
    tcase_add_test(c, lambda_loss_learns_to_rank_unseen_tasks);
    tcase_add_test(c, weights_do_not_depend_on_the_number_of_threads);
    tcase_add_test(c, another_seed_gives_other_weights);
    tcase_add_test(c, cancelling_stops_within_a_batch_and_leaves_the_model_alone);
    tcase_add_test(c, a_time_limit_ends_the_schedule);
    tcase_add_test(c, a_time_limit_that_is_over_leaves_one_epoch);
    tcase_add_test(c, the_last_epoch_stays_without_a_validation_set);
    tcase_add_test(c, nothing_to_rank_is_not_enough_data);
    tcase_add_test(c, other_features_and_bad_options_are_refused);
    tcase_add_test(c, rates_follow_their_schedules);
    tcase_add_test(c, frozen_tensors_keep_their_weights);
    tcase_add_test(c, a_warm_start_never_ends_worse_on_the_validation_set);
    tcase_add_test(c, the_last_epoch_is_kept_when_asked);
    tcase_add_test(c, a_hook_adds_to_loss_and_gradient);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
