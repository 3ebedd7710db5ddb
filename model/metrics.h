/* Ranking and latency metrics (docs/model.md section 5). Pure functions over arrays. */
#ifndef TM_METRICS_H
#define TM_METRICS_H

#include <stddef.h>
#include <stdint.h>

/* Means are over tasks; a task that leaves a figure undefined (no pair, constant ranks) is left out of that mean; NaN
 * when none is left. */
struct tm_metrics {
    uint32_t tasks, tasks_skipped; /* skipped: no valid program, or fewer than min_programs */
    uint32_t programs;             /* in the tasks counted, failures included */
    double top1_mean,
        top5_mean; /* mean over tasks of T_s / best_k(s); 0 for a task whose first k programs all failed */
    double top1_pooled, top5_pooled; /* sum T_s / sum best_k(s); where the first k all failed, best_k is the task's
                                        slowest valid cost */
    double pairwise,
        pairwise_10pct; /* over all pairs; over pairs with cost_j > 1.1 cost_i; mean over tasks, cost ties skipped,
                           score ties count 1/2; a failure is slower than every valid program, two failures tie */
    double random_top1_mean, random_top5_mean;    /* expectation of a random order (exact) */
    double spearman;                              /* of the mid-ranks of score and of -cost; +1 = the order is right */
    double latency_mape, latency_median_ln_error; /* over valid programs of all tasks counted: mean of |lat - cost| /
                                           cost, median of |ln(lat / cost)|; NaN when latency == NULL; a latency that is
                                           not positive and finite is an infinite error */
    double latency_within_1_25, latency_within_1_5,
        latency_within_2; /* share of the same programs with latency and cost within that factor of each other */
};

/* task[i] in 0..n_tasks-1 (in any order), cost[i] seconds (INFINITY = failure: counted in order, never the best),
 * score[i] higher = faster (NaN last), latency[i] seconds or latency == NULL. Tasks with fewer than min_programs valid
 * programs are skipped. Equal scores keep the order of the arrays. O(n log n). Returns 0 or -TP_E_NO_MEMORY. */
int tm_metrics_compute(const uint32_t *task, const double *cost, const double *score, const double *latency, size_t n,
                       uint32_t n_tasks, uint32_t min_programs, struct tm_metrics *out);
/* The same for one task only (n programs). */
int tm_metrics_task(const double *cost, const double *score, const double *latency, size_t n, struct tm_metrics *out);

#endif
