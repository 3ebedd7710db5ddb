/* Ranking and latency metrics (docs/model.md section 5). Pure functions over arrays. */
#ifndef TM_METRICS_H
#define TM_METRICS_H

#include <stddef.h>
#include <stdint.h>

struct tm_metrics {
    uint32_t tasks, tasks_skipped;      /* skipped: no valid program, or fewer than min_programs */
    uint32_t programs;
    double top1_mean, top5_mean;        /* mean over tasks of T_s / best_k(s) */
    double top1_pooled, top5_pooled;    /* sum T_s / sum best_k(s) */
    double pairwise, pairwise_10pct;    /* over all pairs; over pairs that differ by > 10 %; mean over tasks, cost ties skipped, score ties count 1/2 */
    double random_top1_mean, random_top5_mean; /* expectation of a random order (exact) */
    double spearman;                    /* mean over tasks */
    double latency_mape, latency_median_ln_error; /* NaN when latency == NULL */
};

/* task[i] in 0..n_tasks-1 (in any order), cost[i] seconds (INFINITY = failure: counted in order, never the best),
 * score[i] higher = faster (NaN last), latency[i] seconds or latency == NULL. Tasks with fewer than min_programs valid programs are skipped.
 * Returns 0 or -TP_E_NO_MEMORY. */
int tm_metrics_compute(const uint32_t *task, const double *cost, const double *score, const double *latency, size_t n, uint32_t n_tasks,
                       uint32_t min_programs, struct tm_metrics *out);
/* The same for one task only (n programs). */
int tm_metrics_task(const double *cost, const double *score, const double *latency, size_t n, struct tm_metrics *out);

#endif
