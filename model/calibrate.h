/* Calibration of a trained model on labelled predictions (docs/model.md section "Calibration").
 *
 * The rank score s of the head is only an order. Reported scores must be positive and roughly linear in throughput, on
 * one scale for every batch; so s goes through a logistic fitted once, on labels y_i = best cost of the task / cost_i
 * (0 for a failure). Pure function over arrays, any thread. */
#ifndef TM_CALIBRATE_H
#define TM_CALIBRATE_H

#include <stddef.h>
#include <stdint.h>

/* s[i] raw rank score, l[i] ln latency of the head without a shift, task[i] in 0..n_tasks-1, cost[i] seconds (INFINITY
 * = failure). (a, b) minimise the mean cross-entropy of sigmoid(a s_i + b) against y_i, with a small ridge; a >= 1e-3.
 *   *shift = median of ln cost_i - l_i over valid programs. How far they spread around it: tm_latency_fit().
 * Programs whose s or l is not finite, and tasks without a valid program, are left out. With nothing left, or with s
 * constant, a = 1 and b = 0; without a valid program shift = 0. Returns 0 or -TP_E_NO_MEMORY (outputs untouched).
 */
int tm_calibrate(const double *s, const double *l, const uint32_t *task, const double *cost, size_t n, uint32_t n_tasks,
                 double *a, double *b, double *shift);

#endif
