/* Model only: programs a second on whole predict calls of real searches, one core, from parsed records to scores.
 *
 * usage: bench_model [-r rounds] [file.json.gz...]     (Ansor records, one a line)
 *
 * engine           encoding, row hashing, summaries and network, everything shared that can be
 * engine_noshare   the same kernels on every row, node and program, 32 programs at a time so that rows stay in the
 * cache
 *
 * engine_<set>     the other kernel sets of this machine
 *
 * torch, torchscript, tlp_transformer   see peer_torch.py; their rows are ready-made, encoding is not counted
 *
 * All of them in turn on one core, in CPU time of the one thread that works; each figure is the median of the rounds,
 * `engine` and its kin being the sum over the files. Weights are freshly initialised and the same for all. */
#include "model/infer_internal.h"
#include "model/mem.h"
#include "tests/bench/bench.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MAX_FILES = 8,
    MAX_ROUNDS = 100,
    PER_ROUND = 5, /* measurements of an engine a round; they are short */
    NO_SHARING_BATCH = 32,
    PEERS = 4,
    ENGINE = 0,
    NO_SHARING = 1,
    FIRST_SET = 2,
    VARIANTS = FIRST_SET + TM_SIMD_SETS
};
static const char *const peer_names[PEERS] = {"torch", "torch_blocked", "torchscript", "tlp_transformer"};
static const double AGREE = 1e-4;
static const char sharing_goal[] = "conv2d_nhwc_28.call5"; /* the conv2d call of 2,048 */

struct file {
    char name[64];
    struct tp_record *record;
    size_t n;
    struct tm_batch_stats stats;
};

struct variant {
    char name[32];
    struct tm_plan *plan; /* NULL: not on this machine */
    bool share;
    size_t chunk;
    struct tm_batch *batch;
};

struct bench {
    struct file file[MAX_FILES];
    struct variant variant[VARIANTS];
    size_t n_files, rounds;
    double seconds[VARIANTS][MAX_FILES][MAX_ROUNDS * PER_ROUND];
    double peer[PEERS][MAX_FILES][MAX_ROUNDS];
    double *score, *latency, *raw; /* of the longest file */
};

static void predict(struct bench *b, const struct variant *v, const struct file *f)
{
    for (size_t at = 0; at < f->n; at += v->chunk) {
        const size_t end = f->n - at < v->chunk ? f->n : at + v->chunk;
        struct tp_err e;
        if (tm_batch_begin(v->batch, v->plan))
            bench_die("out of memory");
        for (size_t i = at; i < end; i++)
            if (tm_batch_add(v->batch, &f->record[i], NULL, &e) < 0)
                bench_die("%s: record %zu: %s", f->name, i, e.detail);
        if (tm_batch_run(v->batch, b->score + at, b->latency + at, b->raw + at))
            bench_die("out of memory");
    }
}

/* ---- set-up ---- */

static void add_file(struct bench *b, const char *path)
{
    if (b->n_files == MAX_FILES)
        bench_die("at most %d files", MAX_FILES);
    struct file *f = &b->file[b->n_files++];
    f->record = bench_records(path, &f->n);
    snprintf(f->name, sizeof f->name, "%.63s", bench_name(path));
}

static void add_variants(struct bench *b, const struct tm_model *m)
{
    for (int i = 0; i < VARIANTS; i++) {
        struct variant *v = &b->variant[i];
        const enum tm_simd_set set = i < FIRST_SET ? tm_simd_set() : (enum tm_simd_set)(i - FIRST_SET);
        if (i >= FIRST_SET && (set == tm_simd_set() || !tm_simd_supported(set)))
            continue;
        v->share = i != NO_SHARING;
        v->chunk = v->share ? TM_BATCH_PROGRAMS : NO_SHARING_BATCH;
        snprintf(v->name, sizeof v->name, "%s%s", i == NO_SHARING ? "engine_noshare" : "engine",
                 i >= FIRST_SET ? "_" : "");
        if (i >= FIRST_SET)
            snprintf(v->name + strlen(v->name), 16, "%s", tm_simd_set_name(set));
        v->plan = tm_plan_new_for(m, set);
        v->batch = tm_batch_new();
        if (!v->plan || !v->batch)
            bench_die("out of memory");
        tm_batch_share(v->batch, v->share);
    }
}

static struct bench_peer *start_peer(const struct bench *b, const struct tm_model *m)
{
    static char path[2 * MAX_FILES][128];
    const char *argv[2 * MAX_FILES + 6] = {bench_python(), "tests/bench/peer_torch.py",
                                           "build/bench/model.safetensors"};
    const struct tm_provenance p = {.role = "ac", .owner = "bench"};
    struct tp_err e;
    size_t n = 3;
    mkdir("build", 0777);
    mkdir("build/bench", 0777);
    if (tm_weights_save(argv[2], m, &p, &e))
        bench_die("%s: %s", argv[2], e.detail);
    for (size_t k = 0; k < 2 * b->n_files; k++) {
        const struct file *f = &b->file[k % b->n_files];
        const bool tlp = k >= b->n_files;
        struct tm_dataset *d = bench_dataset(tlp ? TCLFEAT_TLP_CPU_1 : TCLFEAT_TCLF_1, f->record, f->n);
        snprintf(path[k], sizeof path[k], "build/bench/%s.%s", f->name, tlp ? "tlp" : "rows");
        bench_export(path[k], d);
        tm_dataset_free(d);
        if (k == b->n_files)
            argv[n++] = "--";
        argv[n++] = path[k];
    }
    return bench_peer_start(argv);
}

/* ---- the same answers? ---- */

static double differ(const struct bench *b, const char *answer, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        char *end;
        double s = strtod(answer, &end), l = strtod(end, &end);
        if (end == answer)
            bench_die("the peer's scores end at %zu", i);
        answer = end;
        worst = fmax(worst, fmax(fabs(s - b->score[i]), fabs(l - log(b->latency[i]))));
    }
    return worst;
}

/* Largest difference of a score or a ln latency between the engine and PyTorch; also what the peers need before they
 * are measured. */
static void check(struct bench *b, struct bench_peer *p)
{
    double worst = 0;
    for (size_t f = 0; f < b->n_files; f++) {
        predict(b, &b->variant[ENGINE], &b->file[f]);
        for (int k = 0; k < PEERS; k++) {
            double chunk = bench_peer_number(p, "chunk %s %zu", peer_names[k], f);
            if (f == 0)
                printf("  %s: best with %.0f programs a call\n", peer_names[k], chunk);
            if (k < PEERS - 1) /* the last one is another network */
                worst = fmax(worst, differ(b, bench_peer_ask(p, "scores %s %zu", peer_names[k], f), b->file[f].n));
        }
    }
    bench_result("agreement with torch", worst, "max diff", NULL, NAN, "<= 0.0001");
    if (!(worst <= AGREE))
        bench_die("scores of engine and PyTorch differ by %g", worst);
}

/* ---- measurement ---- */

static void measure(struct bench *b, struct bench_peer *p)
{
    for (int v = 0; v < VARIANTS; v++) /* warm up: buffers grow */
        for (size_t f = 0; b->variant[v].plan && f < b->n_files; f++)
            predict(b, &b->variant[v], &b->file[f]);
    for (size_t round = 0; round < b->rounds; round++)
        for (size_t f = 0; f < b->n_files; f++) {
            for (int k = 0; k < PER_ROUND; k++)
                for (int v = 0; v < VARIANTS; v++) {
                    if (!b->variant[v].plan)
                        continue;
                    double start = bench_thread_cpu();
                    predict(b, &b->variant[v], &b->file[f]);
                    b->seconds[v][f][round * PER_ROUND + (size_t)k] = bench_thread_cpu() - start;
                }
            for (int k = 0; p && k < PEERS; k++)
                b->peer[k][f][round] = bench_peer_number(p, "time %s %zu", peer_names[k], f);
        }
}

static void results(struct bench *b, bool peers)
{
    double total = 0, engine[VARIANTS] = {0}, peer[PEERS] = {0};
    static double median[VARIANTS + PEERS][MAX_FILES];
    for (size_t f = 0; f < b->n_files; f++) {
        total += (double)b->file[f].n;
        for (int v = 0; v < VARIANTS; v++)
            engine[v] += median[v][f] = bench_quantile(b->seconds[v][f], b->rounds * PER_ROUND, 0.5);
        for (int k = 0; k < PEERS; k++)
            peer[k] += median[VARIANTS + k][f] = peers ? bench_quantile(b->peer[k][f], b->rounds, 0.5) : NAN;
    }
    const char *unit = "programs/s";
    bench_result("engine", total / engine[ENGINE], unit, NULL, NAN, tm_simd_set() == TM_SIMD_AVX512 ? ">= 90000" : "");
    for (int k = 0; k < PEERS; k++)
        bench_result("engine", total / engine[ENGINE], unit, peer_names[k], total / peer[k], k ? "" : ">= 20");
    bench_result("engine", total / engine[ENGINE], unit, "engine_noshare", total / engine[NO_SHARING], "");
    bench_result("engine_noshare", total / engine[NO_SHARING], unit, "torch", total / peer[0], "");
    for (int v = FIRST_SET; v < VARIANTS; v++)
        if (b->variant[v].plan)
            bench_result(b->variant[v].name, total / engine[v], unit, "engine", total / engine[ENGINE],
                         v == FIRST_SET + TM_SIMD_AVX2 && tm_simd_set() == TM_SIMD_AVX512 ? ">= 0.5" : "");
    for (int k = 0; k < PEERS; k++)
        bench_result(peer_names[k], total / peer[k], unit, "engine", total / engine[ENGINE], "");
    for (size_t f = 0; f < b->n_files; f++) {
        const double n = (double)b->file[f].n, own = n / median[ENGINE][f];
        char name[64];
        snprintf(name, sizeof name, "engine, %.50s", b->file[f].name);
        bench_result(name, own, unit, "torch", n / median[VARIANTS][f], ">= 20");
        bench_result(name, own, unit, "engine_noshare", n / median[NO_SHARING][f],
                     strncmp(b->file[f].name, sharing_goal, strlen(sharing_goal)) ? "" : ">= 3");
    }
}

/* ---- where the time goes, and what could be left of it ---- */

static void no_head(struct tm_batch *b, size_t first, size_t n)
{
    (void)b;
    (void)first;
    (void)n;
}

/* Median of seconds of one part of a prediction; state of the batch as after a run. */
enum part { ENCODE, ADD, ROWS, SORT, WALK, WHOLE, PARTS };

static void run_part(struct bench *b, const struct file *f, enum part part)
{
    const struct variant *v = &b->variant[ENGINE];
    static struct tclfeat_key keys[TCLFEAT_MAX_ROWS];
    float summary[TCLFEAT_MAX_SUMMARY];
    const struct tm_plan *p = v->plan;
    struct tm_batch *batch = v->batch;
    switch (part) {
    case ENCODE:
        for (size_t i = 0; i < f->n; i++)
            tclfeat_encode(batch->encoder[p->features], &f->record[i], NULL, keys, summary, NULL);
        break;
    case ADD:
        tm_batch_begin(batch, p);
        for (size_t i = 0; i < f->n; i++)
            tm_batch_add(batch, &f->record[i], NULL, NULL);
        break;
    case ROWS: /* the layers of the distinct rows, as infer.c runs them */
        for (size_t at = 0; at < batch->n_rows; at += TM_BLOCK) {
            const size_t n = batch->n_rows - at < TM_BLOCK ? batch->n_rows - at : TM_BLOCK, dm = (size_t)p->h.d_model;
            float *row = batch->row + at * p->row_floats, *h = row + 2 * dm;
            struct tm_scratch *s = batch->scratch;
            p->kern->linear(&p->embed0, batch->feature + at * TM_FEATURES_LD, TM_FEATURES_LD, s->a,
                            (size_t)p->embed0.out_padded, n, TM_LINEAR_RELU);
            p->kern->linear(&p->embed1, s->a, (size_t)p->embed0.out_padded, h, p->row_floats, n, TM_LINEAR_RELU);
            p->kern->norm(p->norm, h, p->row_floats, s->b, dm, (int)dm, n);
            p->kern->linear(&p->in_proj, s->b, dm, row, p->row_floats, n, 0);
            p->kern->silu(row + dm, p->row_floats, (int)dm, n);
        }
        break;
    case SORT:
        tm_walk_sort(batch);
        break;
    case WALK:
        tm_walk_run(batch, no_head);
        break;
    default:
        predict(b, v, f);
        break;
    }
}

static void split(struct bench *b, const struct file *f, double us[PARTS])
{
    static double t[PARTS][MAX_ROUNDS];
    predict(b, &b->variant[ENGINE], f);
    for (size_t round = 0; round < 15; round++)
        for (int part = 0; part < PARTS; part++) {
            double start = bench_thread_cpu();
            run_part(b, f, (enum part)part);
            t[part][round] = bench_thread_cpu() - start;
        }
    for (int part = 0; part < PARTS; part++)
        us[part] = 1e6 * bench_quantile(t[part], 15, 0.5) / (double)f->n;
}

/* The best rate of a kernel on data in the L1 cache: multiply-adds or exponentials a second. */
static double peak(const struct bench *b, bool exps)
{
    enum { ROWS_AT_ONCE = TM_BLOCK, EXPS = 1024, REPEAT = 200, TRIES = 30 };
    const struct tm_plan *p = b->variant[ENGINE].plan;
    float *x = bench_alloc(ROWS_AT_ONCE * TM_LIMIT_WIDTH, sizeof *x), *y = bench_alloc(ROWS_AT_ONCE * 512, sizeof *y);
    double best = 0;
    for (int i = 0; i < ROWS_AT_ONCE * TM_LIMIT_WIDTH; i++)
        x[i] = -(float)(i % 64) / 16.0f;
    for (int k = 0; k < TRIES; k++) {
        double start = bench_thread_cpu(), work;
        for (int i = 0; i < REPEAT; i++) {
            if (exps)
                p->kern->exp2(x, y, EXPS);
            else
                p->kern->linear(&p->embed1, x, 64, y, 128, ROWS_AT_ONCE, 0);
        }
        work = exps ? (double)EXPS : (double)p->embed1.in * (double)p->embed1.out * ROWS_AT_ONCE;
        best = fmax(best, work * REPEAT / (bench_thread_cpu() - start));
    }
    free(x);
    free(y);
    return best;
}

struct work {
    double madds, exps;
};

/* What one distinct row, one distinct prefix and one distinct program cost, from the shape alone. */
static struct work work_of(const struct tm_hyper *h, const struct tm_batch_stats *s)
{
    const double dm = h->d_model, proj = h->dt_rank + 2 * h->d_state;
    const double row = h->features * h->embed + h->embed * dm + dm * 2 * dm;
    const double node = dm * h->d_conv + dm * proj + h->dt_rank * dm + dm * (4 * h->d_state + 3);
    const double head = dm * dm + h->summary * h->summary_width + h->summary_width * h->summary_width +
                        (dm + h->summary_width) * h->head1 + h->head1 * h->head2 + h->head2 * 2;
    return (struct work){(double)s->distinct_rows * row + (double)s->distinct_prefixes * node +
                             (double)s->distinct_programs * head,
                         (double)s->distinct_rows * dm + (double)s->distinct_prefixes * dm * (h->d_state + 2)};
}

static void roofline(struct bench *b)
{
    const struct tm_hyper *h = &b->variant[ENGINE].plan->h;
    const double madds = peak(b, false), exps = peak(b, true);
    printf("\npeak of the kernels on data in the L1 cache: %.1f G multiply-adds/s, %.2f G exponentials/s\n"
           "microseconds a program:\n%-22s %7s %7s %7s %7s %7s %7s %7s | %9s %7s %7s %8s\n",
           madds * 1e-9, exps * 1e-9, "", "encode", "hash", "rows", "sort", "walk", "heads", "whole", "k madds", "exps",
           "limit", "reached");
    for (size_t i = 0; i < b->n_files; i++) {
        struct file *f = &b->file[i];
        double us[PARTS];
        split(b, f, us);
        tm_batch_stats(b->variant[ENGINE].batch, &f->stats);
        const struct work w = work_of(h, &f->stats);
        const double n = (double)f->n, limit = 1e6 * (w.madds / madds + w.exps / exps) / n;
        printf("%-22s %7.2f %7.2f %7.2f %7.2f %7.2f %7.2f %7.2f | %9.1f %7.0f %7.2f %7.0f%%\n", f->name, us[ENCODE],
               us[ADD] - us[ENCODE], us[ROWS], us[SORT], us[WALK], us[WHOLE] - us[ADD] - us[ROWS] - us[SORT] - us[WALK],
               us[WHOLE], 1e-3 * w.madds / n, w.exps / n, limit, 100 * limit / us[WHOLE]);
    }
}

int main(int argc, char **argv)
{
    static struct bench b = {.rounds = 3};
    int at = 1;
    if (argc > 2 && strcmp(argv[1], "-r") == 0) {
        b.rounds = (size_t)strtoul(argv[2], NULL, 10);
        at = 3;
    }
    if (b.rounds < 1 || b.rounds > MAX_ROUNDS)
        bench_die("usage: bench_model [-r rounds] [file.json.gz...]");
    glob_t files = {0};
    if (at == argc && glob("tests/data/batches/*.json.gz", 0, NULL, &files))
        bench_die("no tests/data/batches: run from the root of the project");
    for (size_t i = 0; i < files.gl_pathc; i++)
        add_file(&b, files.gl_pathv[i]);
    for (; at < argc; at++)
        add_file(&b, argv[at]);
    globfree(&files);

    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    size_t longest = 0;
    if (!m)
        bench_die("out of memory");
    for (size_t f = 0; f < b.n_files; f++)
        longest = b.file[f].n > longest ? b.file[f].n : longest;
    b.score = bench_alloc(longest, sizeof *b.score);
    b.latency = bench_alloc(longest, sizeof *b.latency);
    b.raw = bench_alloc(longest, sizeof *b.raw);
    printf("one core (CPU %d), kernels: %s\n", bench_pin(), tm_simd_name());
    add_variants(&b, m);
    struct bench_peer *p = start_peer(&b, m);
    if (p) {
        printf("%s\n", bench_peer_about(p));
        check(&b, p);
    }
    measure(&b, p);
    results(&b, p != NULL);
    bench_peer_end(p);
    for (size_t f = 0; f < b.n_files; f++) {
        predict(&b, &b.variant[ENGINE], &b.file[f]);
        struct tm_batch_stats s;
        tm_batch_stats(b.variant[ENGINE].batch, &s);
        printf("%s: %llu programs, %.1f rows each; distinct: rows %.1f %%, prefixes %.1f %%, programs %.1f %%\n",
               b.file[f].name, (unsigned long long)s.programs, (double)s.rows / (double)s.programs,
               100.0 * (double)s.distinct_rows / (double)s.rows, 100.0 * (double)s.distinct_prefixes / (double)s.rows,
               100.0 * (double)s.distinct_programs / (double)s.programs);
    }
    roofline(&b);
    bench_report("model");
    for (int v = 0; v < VARIANTS; v++) {
        tm_batch_free(b.variant[v].batch);
        tm_plan_free(b.variant[v].plan);
    }
    for (size_t f = 0; f < b.n_files; f++)
        bench_records_free(b.file[f].record);
    tm_model_free(m);
    free(b.score);
    free(b.latency);
    free(b.raw);
    return 0;
}
