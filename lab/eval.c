/* Split by workload key, sample, train, score.
 *
 * Everything is decided by the seed: programs are drawn by their hash (sampler/sample.h), so that neither the order of
 * files nor of lines matters. */
#include "lab/eval.h"

#include "model/infer.h"
#include "model/latency.h"
#include "sampler/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LATENCY_SEEDS = 5 /* measured programs of a task */ };

void tl_eval_defaults(struct tl_eval_opts *o)
{
    *o = (struct tl_eval_opts){.per_task = 0, .test_per_task = 400, .min_programs = 32, .valid_fraction = 0.1};
    tm_train_defaults(&o->train);
    o->train.epochs = 40;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct draw {
    const struct tl_program *programs;
    uint64_t seed;
};

/* Tasks together, each task's programs in the order of the draw. */
static int by_task_and_draw(const void *a, const void *b, void *arg)
{
    const struct draw *d = arg;
    const struct tl_program *x = &d->programs[*(const uint32_t *)a], *y = &d->programs[*(const uint32_t *)b];
    if (x->task != y->task)
        return x->task < y->task ? -1 : 1;
    uint64_t dx = ts_draw(d->seed, x->hash), dy = ts_draw(d->seed, y->hash);
    return dx != dy ? (dx < dy ? -1 : 1) : memcmp(x->hash, y->hash, 16);
}

struct lists {
    uint32_t *train, *valid, *test; /* programs of the dataset */
    size_t n_train, n_valid, n_test;
    double *test_mean; /* [n_test] mean-cost labels */
};

static bool is_test_key(const char *key, char *const *keys, size_t n)
{
    return n && bsearch(&key, keys, n, sizeof *keys, by_text) != NULL;
}

/* Encode one task's share of its programs, which stand in the order of the draw, into d. Test tasks take valid programs
 * only. Returns the number taken or an error. */
static int take_task(const struct tl_corpus *c, uint32_t *programs, uint32_t n, bool test, const struct tl_eval_opts *o,
                     struct tm_dataset *d, struct lists *l, struct tp_record *scratch, struct tp_err *e)
{
    uint32_t want = test ? o->test_per_task : o->per_task, kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!test || isfinite(c->programs[programs[i]].min_cost))
            programs[kept++] = programs[i];
    if (want && kept > want)
        kept = want;
    for (uint32_t i = 0; i < kept; i++) {
        int rc = tl_corpus_encode(c, programs[i], d, scratch, e);
        if (rc)
            return rc;
        if (test) {
            l->test_mean[l->n_test] = c->programs[programs[i]].mean_cost;
            l->test[l->n_test++] = d->n - 1;
        } else {
            l->train[l->n_train++] = d->n - 1;
        }
    }
    return (int)kept;
}

/* Hold out whole training tasks for choosing the epoch. */
static void hold_out(const struct tm_dataset *d, double fraction, uint64_t seed, struct lists *l,
                     struct tl_eval_result *out)
{
    size_t n = l->n_train, kept = 0;
    uint32_t last = UINT32_MAX;
    bool valid = false;
    struct tm_rng rng;
    tm_rng_seed(&rng, seed ^ 0x5eed);
    for (size_t i = 0; i < n; i++) {
        uint32_t p = l->train[i];
        if (d->task[p] != last) {
            last = d->task[p];
            valid = tm_rng_uniform(&rng) < fraction;
            valid ? out->valid_tasks++ : out->train_tasks++;
        }
        if (valid)
            l->valid[l->n_valid++] = p;
        else
            l->train[kept++] = p;
    }
    l->n_train = kept;
}

/* Latency errors of one way to predict: what lies within so many standard deviations. */
static void coverage(const double *ln_error, const double *std, size_t n, struct tl_latency *out)
{
    size_t one = 0, two = 0;
    for (size_t i = 0; i < n; i++) {
        one += fabs(ln_error[i]) <= std[i];
        two += fabs(ln_error[i]) <= 2 * std[i];
    }
    out->within_one_std = n ? (double)one / (double)n : NAN;
    out->within_two_std = n ? (double)two / (double)n : NAN;
}

/* With the task's first LATENCY_SEEDS programs measured, and without: latency of the others. Programs of a task stand
 * together, in the order of the draw. */
static int score_latency(const struct tm_model *m, const uint32_t *task, const double *cost, const double *s,
                         const double *lat, size_t n, struct tl_eval_result *out)
{
    double *buf = malloc((5 * n + 1) * sizeof *buf), *true_cost = buf, *with = buf + n, *std = buf + 2 * n,
           *error = buf + 3 * n, *residual = buf + 4 * n;
    struct tm_metrics five;
    size_t k = 0;
    int rc = buf ? 0 : -TP_E_NO_MEMORY;
    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++) {
        error[i] = log(cost[i] / lat[i]);
        std[i] = tm_latency_std(m, s[i], 0);
        residual[i] = tm_latency_residual(m, lat[i], cost[i]);
    }
    coverage(error, std, n, &out->unknown);
    for (size_t i = 0, j; i < n && rc == 0; i = j) {
        static const uint32_t one_task[LATENCY_SEEDS];
        struct tm_offset offset;
        for (j = i; j < n && task[j] == task[i]; j++)
            ;
        if (j - i <= LATENCY_SEEDS)
            continue;
        rc = tm_offsets_fit(residual + i, one_task, LATENCY_SEEDS, 1, &offset);
        for (size_t p = i + LATENCY_SEEDS; p < j; p++, k++) {
            true_cost[k] = cost[p];
            with[k] = tm_latency_with(m, lat[p], offset.offset);
            error[k] = log(cost[p] / with[k]);
            std[k] = tm_latency_std(m, s[p], offset.n);
        }
    }
    coverage(error, std, k, &out->known);
    if (rc == 0 && k > 0)
        rc = tm_metrics_task(true_cost, with, with, k, &five); /* the ranks mean nothing, the errors do */
    if (rc == 0 && k > 0) {
        out->known.median_ln_error = five.latency_median_ln_error;
        out->known.within_1_25 = five.latency_within_1_25;
        out->known.within_1_5 = five.latency_within_1_5;
        out->known.within_2 = five.latency_within_2;
    }
    out->unknown.median_ln_error = out->by_min.latency_median_ln_error;
    out->unknown.within_1_25 = out->by_min.latency_within_1_25;
    out->unknown.within_1_5 = out->by_min.latency_within_1_5;
    out->unknown.within_2 = out->by_min.latency_within_2;
    free(buf);
    return rc;
}

static int score(const struct tm_model *m, const struct tm_dataset *d, const struct lists *l,
                 const struct tl_eval_opts *o, struct tl_eval_result *out, struct tp_err *e)
{
    size_t n = l->n_test, tasks = 0;
    double *buf = malloc((6 * n + 1) * sizeof *buf);
    uint32_t *task = malloc((n + 1) * sizeof *task);
    int rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu predictions", n);
    if (buf == NULL || task == NULL)
        goto out;
    double *s = buf, *lat = buf + n, *cost = buf + 2 * n, *top1 = buf + 3 * n, *top5 = buf + 4 * n, *pair = buf + 5 * n;
    double t0 = now();
    rc = tm_predict_dataset(m, d, l->test, n, s, lat, NULL);
    out->predict_seconds = now() - t0;
    out->predict_per_second = (double)n / out->predict_seconds;
    if (rc) {
        tp_fail(e, (enum tp_code) - rc, "prediction failed");
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        task[i] = d->task[l->test[i]];
        cost[i] = d->cost[l->test[i]];
    }
    if ((rc = tm_metrics_compute(task, cost, s, lat, n, d->n_tasks, o->min_programs, &out->by_min)) ||
        (rc = tm_metrics_compute(task, l->test_mean, s, lat, n, d->n_tasks, o->min_programs, &out->by_mean)))
        goto out;
    for (size_t i = 0, j; i < n; i = j) { /* a task's programs stand together */
        for (j = i; j < n && task[j] == task[i]; j++)
            ;
        struct tm_metrics one;
        if (j - i < o->min_programs)
            continue;
        if ((rc = tm_metrics_task(cost + i, s + i, lat + i, j - i, &one)))
            goto out;
        top1[tasks] = one.top1_mean;
        top5[tasks] = one.top5_mean;
        pair[tasks++] = one.pairwise;
    }
    if ((rc = tm_bootstrap_mean(top1, tasks, 1, &out->top1_mean)) ||
        (rc = tm_bootstrap_mean(top5, tasks, 1, &out->top5_mean)) ||
        (rc = tm_bootstrap_mean(pair, tasks, 1, &out->pairwise)))
        goto out;
    rc = score_latency(m, task, cost, s, lat, n, out);
out:
    free(buf);
    free(task);
    return rc;
}

int tl_eval_run(const struct tl_corpus *c, char *const *test_keys, size_t n_keys, const struct tl_eval_opts *o,
                struct tl_eval_result *out, struct tp_err *e)
{
    int rc = 0;
    struct tp_record scratch;
    struct lists l = {0};
    struct tm_dataset *d = NULL;
    struct tm_model *m = NULL;
    uint32_t *order = malloc((c->n_programs + 1) * sizeof *order);
    l.train = malloc((c->n_programs + 1) * sizeof *l.train);
    l.valid = malloc((c->n_programs + 1) * sizeof *l.valid);
    l.test = malloc((c->n_programs + 1) * sizeof *l.test);
    l.test_mean = malloc((c->n_programs + 1) * sizeof *l.test_mean);
    memset(out, 0, sizeof *out);
    tp_record_init(&scratch);
    enum tclfeat_set set = !o->tlp                         ? TCLFEAT_TCLF_1
                           : c->n_tasks && c->tasks[0].gpu ? TCLFEAT_TLP_GPU_1
                                                           : TCLFEAT_TLP_CPU_1;
    d = tm_dataset_new(set);
    if (order == NULL || l.train == NULL || l.valid == NULL || l.test == NULL || l.test_mean == NULL || d == NULL) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for %u programs", c->n_programs);
        goto out;
    }
    double t0 = now();
    for (uint32_t i = 0; i < c->n_programs; i++)
        order[i] = i;
    struct draw draw = {c->programs, o->train.seed};
    qsort_r(order, c->n_programs, sizeof *order, by_task_and_draw, &draw);
    for (uint32_t i = 0, j; i < c->n_programs; i = j) {
        const struct tl_task *t = &c->tasks[c->programs[order[i]].task];
        for (j = i; j < c->n_programs && c->programs[order[j]].task == c->programs[order[i]].task; j++)
            ;
        bool test = is_test_key(t->workload_key, test_keys, n_keys);
        if (o->tlp && t->gpu != c->tasks[0].gpu) {
            rc = tp_fail(e, TP_E_UNUSABLE, "TLP's rows differ between CPU and GPU: give logs of one of them");
            goto out;
        }
        if (test && t->valid < o->min_programs) {
            out->tasks_skipped++;
            continue;
        }
        if ((rc = take_task(c, order + i, j - i, test, o, d, &l, &scratch, e)) < 0)
            goto out;
    }
    out->rows = d->start[d->n];
    out->distinct_rows = d->n_rows;
    hold_out(d, o->valid_fraction, o->train.seed, &l, out);
    out->train_programs = (uint32_t)(l.n_train + l.n_valid);
    out->test_programs = (uint32_t)l.n_test;
    out->features = tclfeat_version(set);
    out->encode_seconds = now() - t0;
    if (l.n_test == 0 || l.n_train == 0) {
        rc = tp_fail(
            e, TP_E_NOT_ENOUGH_DATA,
            "%zu programs to train on and %zu to test: the key file must name some of the logs' workload keys, not all",
            l.n_train, l.n_test);
        goto out;
    }
    struct tm_hyper h = tm_hyper_default(set);
    out->parameters = tm_parameter_count(&h);
    m = tm_model_new(set, &h, o->train.seed);
    if (m == NULL) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
        goto out;
    }
    t0 = now();
    rc = tm_train(m, d, l.train, l.n_train, l.valid, l.n_valid, &o->train, o->progress, o->progress_arg, e);
    out->train_seconds = now() - t0;
    if (rc == 0)
        rc = score(m, d, &l, o, out, e);
    out->by_min.tasks_skipped = out->tasks_skipped;
out:
    tm_model_free(m);
    tm_dataset_free(d);
    tp_record_free(&scratch);
    free(order);
    free(l.train);
    free(l.valid);
    free(l.test);
    free(l.test_mean);
    return rc < 0 ? rc : 0;
}
