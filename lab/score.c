#include "lab/score.h"

#include "model/latency.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LATENCY_SEEDS = 5, /* measured programs of a task */
    CEILING_TASKS = 10 /* fewer with two records: the halves tell more */
};

/* Latency errors of one way to predict: what lies within so many standard deviations. */
static void coverage(const double *ln_error, const double *std, size_t n, struct tl_latency *out)
{
    size_t one = 0, two = 0;
    for (size_t i = 0; i < n; i++) {
        one += fabs(ln_error[i]) <= std[i];
        two += fabs(ln_error[i]) <= 2 * std[i];
    }
    out->within_one_std = n && !isnan(std[0]) ? (double)one / (double)n : NAN;
    out->within_two_std = n && !isnan(std[0]) ? (double)two / (double)n : NAN;
}

static void errors(const struct tm_metrics *m, struct tl_latency *out)
{
    out->median_ln_error = m->latency_median_ln_error;
    out->within_1_25 = m->latency_within_1_25;
    out->within_1_5 = m->latency_within_1_5;
    out->within_2 = m->latency_within_2;
}

/* With the task's first LATENCY_SEEDS programs measured, and without: latency of the others. */
static int score_latency(const struct tm_model *m, const uint32_t *task, const double *cost, const double *s,
                         const double *lat, size_t n, struct tl_score *out)
{
    static const struct tm_model plain = {.calib_a = 1, .known_slope = 1};
    double *buf = malloc((5 * n + 1) * sizeof *buf), *true_cost = buf, *with = buf + n, *std = buf + 2 * n,
           *error = buf + 3 * n, *residual = buf + 4 * n;
    const struct tm_model *by = m ? m : &plain;
    struct tm_metrics five;
    size_t k = 0;
    int rc = buf ? 0 : -TP_E_NO_MEMORY;
    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++) {
        error[i] = log(cost[i] / lat[i]);
        std[i] = tm_latency_std(by, s[i], 0);
        residual[i] = tm_latency_residual(by, lat[i], cost[i]);
    }
    errors(&out->by_min, &out->unknown);
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
            with[k] = tm_latency_with(by, lat[p], offset.offset);
            error[k] = log(cost[p] / with[k]);
            std[k] = tm_latency_std(by, s[p], offset.n);
        }
    }
    coverage(error, std, k, &out->known);
    if (rc == 0 && k > 0)
        rc = tm_metrics_task(true_cost, with, with, k, &five); /* the ranks mean nothing, the errors do */
    if (rc == 0 && k > 0)
        errors(&five, &out->known);
    free(buf);
    return rc;
}

static int score_tasks(const uint32_t *task, const double *cost, const double *score, size_t n, uint32_t min_programs,
                       struct tl_score *out)
{
    int rc = 0;
    for (size_t i = 0, j; i < n && rc == 0; i = j) { /* a task's programs stand together */
        struct tm_metrics one;
        for (j = i; j < n && task[j] == task[i]; j++)
            ;
        if (j - i < min_programs)
            continue;
        rc = tm_metrics_task(cost + i, score + i, NULL, j - i, &one);
        out->top1[out->n] = one.top1_mean;
        out->top5[out->n] = one.top5_mean;
        out->pairwise[out->n++] = one.pairwise;
    }
    if (rc || (rc = tm_bootstrap_mean(out->top1, out->n, 1, &out->top1_mean)) ||
        (rc = tm_bootstrap_mean(out->top5, out->n, 1, &out->top5_mean)))
        return rc;
    return tm_bootstrap_mean(out->pairwise, out->n, 1, &out->pairwise_mean);
}

int tl_score_make(const struct tl_corpus *c, const struct tl_split *s, const struct tm_model *m, uint32_t min_programs,
                  const double *score, const double *latency, struct tl_score *out, struct tp_err *e)
{
    const struct tm_dataset *d = s->d;
    size_t n = s->n_test, tasks = d->n_tasks;
    double *cost = malloc((n + 1) * sizeof *cost), *mean = malloc((n + 1) * sizeof *mean);
    uint32_t *task = malloc((n + 1) * sizeof *task);
    int rc = -TP_E_NO_MEMORY;
    *out = (struct tl_score){.top1 = malloc((tasks + 1) * sizeof *out->top1),
                             .top5 = malloc((tasks + 1) * sizeof *out->top5),
                             .pairwise = malloc((tasks + 1) * sizeof *out->pairwise)};
    if (!cost || !mean || !task || !out->top1 || !out->top5 || !out->pairwise)
        goto out;
    for (size_t i = 0; i < n; i++) {
        const struct tl_program *p = &c->programs[s->program[s->test[i]]];
        task[i] = d->task[s->test[i]];
        cost[i] = p->min_cost;
        mean[i] = p->mean_cost;
    }
    if ((rc = tm_metrics_compute(task, cost, score, latency, n, d->n_tasks, min_programs, &out->by_min)) ||
        (rc = tm_metrics_compute(task, mean, score, latency, n, d->n_tasks, min_programs, &out->by_mean)) ||
        (rc = score_tasks(task, cost, score, n, min_programs, out)))
        goto out;
    out->by_min.tasks_skipped = s->tasks_skipped;
    if (latency)
        rc = score_latency(m, task, cost, score, latency, n, out);
out:
    free(cost);
    free(mean);
    free(task);
    if (rc)
        tl_score_free(out);
    return rc ? tp_fail(e, TP_E_NO_MEMORY, "no memory to score %zu predictions", n) : 0;
}

void tl_score_free(struct tl_score *s)
{
    free(s->top1);
    free(s->top5);
    free(s->pairwise);
    *s = (struct tl_score){0};
}

bool tl_two_measurements(const struct tl_corpus *c, const struct tl_program *p, bool by_record, double two[2])
{
    uint32_t n = 0;
    const double *costs;
    two[0] = two[1] = INFINITY;
    for (uint32_t r = p->first_run; r != TL_NO_RUN && n < 2; r = c->runs[r].next, n++) {
        costs = c->costs + c->runs[r].at;
        for (uint32_t i = 0; i < c->runs[r].n; i++) {
            double *to = &two[by_record ? n : i % 2];
            *to = fmin(*to, costs[i]);
        }
        if (!by_record)
            break;
    }
    return isfinite(two[0]) && isfinite(two[1]);
}

static int ceiling(const struct tl_corpus *c, const struct tl_split *s, uint32_t min_programs, bool by_record,
                   double *a, double *b, uint32_t *task, struct tl_ceiling *out)
{
    struct tm_metrics m;
    size_t n = 0;
    for (size_t i = 0; i < s->n_test; i++) {
        double two[2];
        if (!tl_two_measurements(c, &c->programs[s->program[s->test[i]]], by_record, two))
            continue;
        a[n] = -two[0];
        b[n] = two[1];
        task[n++] = s->d->task[s->test[i]];
    }
    int rc = tm_metrics_compute(task, b, a, NULL, n, s->d->n_tasks, min_programs, &m);
    if (rc)
        return rc;
    *out = (struct tl_ceiling){.tasks = m.tasks,
                               .programs = m.programs,
                               .by_record = by_record,
                               .pairwise = m.pairwise,
                               .pairwise_10pct = m.pairwise_10pct,
                               .perfect = 0.5 + 0.5 * sqrt(fmax(2 * m.pairwise - 1, 0)),
                               .top1_mean = m.top1_mean,
                               .top5_mean = m.top5_mean};
    return 0;
}

int tl_ceiling_make(const struct tl_corpus *c, const struct tl_split *s, uint32_t min_programs, struct tl_ceiling *out,
                    struct tp_err *e)
{
    size_t n = s->n_test;
    double *a = malloc((n + 1) * sizeof *a), *b = malloc((n + 1) * sizeof *b);
    uint32_t *task = malloc((n + 1) * sizeof *task);
    int rc = -TP_E_NO_MEMORY;
    struct tl_ceiling halves;
    if (a && b && task && (rc = ceiling(c, s, min_programs, true, a, b, task, out)) == 0 &&
        out->tasks < CEILING_TASKS && (rc = ceiling(c, s, min_programs, false, a, b, task, &halves)) == 0 &&
        halves.tasks > out->tasks)
        *out = halves;
    free(a);
    free(b);
    free(task);
    return rc ? tp_fail(e, TP_E_NO_MEMORY, "no memory for the ceiling of %zu programs", n) : 0;
}
