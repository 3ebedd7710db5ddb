/* Latency beyond the head of the network: offsets of tasks that were measured, and how sure a latency is.
 *
 * The network says how the programs of a task differ better than where the task as a whole lies. So once a task has
 * TM_OFFSET_MIN valid programs, its latencies are moved by the median of what they lack (docs/model.md, "Latency").
 * Pure functions; any thread. */
#ifndef TM_LATENCY_H
#define TM_LATENCY_H

#include "model/net.h"

enum { TM_OFFSET_MIN = 5 /* valid programs of a task before it gets an offset */ };

/* latency: of the engine, seconds, for a task without offset: exp(l + shift). Returns the latency of a task with one:
 * exp(shift + slope l + offset), positive and finite. Depends on nothing else, so not on the batch either. */
double tm_latency_with(const struct tm_model *m, double latency, double offset);
/* What is missing to a measured cost before the offset: ln cost - shift - slope l. NaN when cost is no valid cost. */
double tm_latency_residual(const struct tm_model *m, double latency, double cost);
/* Standard deviation of ln latency. score: the reported one, in (0, 1). n: programs behind the task's offset, 0: it has
 * none. NaN: not known. */
double tm_latency_std(const struct tm_model *m, double score, uint32_t n);

/* ---- offsets ---- */
struct tm_offset {
    double offset; /* median of the residuals; 0 when there are none */
    uint32_t n;    /* residuals behind it */
};
/* residual[i] of a program of task[i] in 0..n_tasks-1, in any order; NaN is left out. Fills out[0..n_tasks). 0 or
 * -TP_E_NO_MEMORY. */
int tm_offsets_fit(const double *residual, const uint32_t *task, size_t n, uint32_t n_tasks, struct tm_offset *out);
/* For each program the offset that its task has without it: out[i].n = 0 when fewer than TM_OFFSET_MIN others are
 * there. What evaluation uses: a program does not help to predict itself. */
int tm_offsets_without(const double *residual, const uint32_t *task, size_t n, uint32_t n_tasks, struct tm_offset *out);

/* ---- fit ---- */
/* Sets m->known_slope and the four numbers of the spread from held-out programs: score[i] reported score, ln_latency[i]
 * = l + shift, cost[i] seconds (INFINITY = failure: left out). seen[t]: the model was trained on programs of task t;
 * such tasks say nothing about tasks that are new. What cannot be told stays at slope 1, std 0. 0 or -TP_E_NO_MEMORY.
 *
 * slope: least absolute deviation within tasks, each task weighing the same, from 0.4 to 1.2.
 * std: log-linear in the score, by maximum likelihood of a Laplace distribution (outliers weigh less than with a normal
 * one), then scaled to lie between what 68.3 % within one and 95.4 % within two ask for. */
int tm_latency_fit(struct tm_model *m, const double *score, const double *ln_latency, const uint32_t *task,
                   const double *cost, size_t n, uint32_t n_tasks, const bool *seen);

#endif
