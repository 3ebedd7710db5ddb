/* What must not be forgotten: Fisher information of an order, and elastic weight consolidation.
 *
 * All arrays are in the layout of the weights (tm_layout()), padding zero. Sources: EWC, Kirkpatrick et al. 2017;
 * online EWC, Schwarz et al. 2018 (Progress & Compress). */
#ifndef TK_FISHER_H
#define TK_FISHER_H

#include "ckd/set.h"

enum { TK_PAIRS_MIN = 600, TK_PAIRS_MAX = 4000 };

/* Fisher information of the Bradley-Terry model P(i before j) = sigmoid(s_i - s_j), whose labels are drawn from the
 * model itself: fisher[m->n] = mean over pairs of p (1 - p) (d(s_i - s_j) / dw)^2, p = P(i before j). Pairs: two
 * programs of one task, drawn by the seed, as many as there are programs but TK_PAIRS_MIN to TK_PAIRS_MAX; every task
 * with two programs is equally likely. Labels are not looked at. (Squared gradients of minibatches would vanish at the
 * optimum, this does not.) NOT_ENOUGH_DATA: no task with two programs; NO_MEMORY, CANCELLED, FEATURES_MISMATCH. */
int tk_fisher(const struct tm_model *m, const struct tk_set *s, const struct tk_run *run, float *fisher,
              struct tp_err *e);
/* The same over the pairs given (indices into ds). */
int tk_fisher_of_pairs(const struct tm_model *m, const struct tm_dataset *ds, const uint32_t (*pair)[2], uint32_t n,
                       const struct tk_run *run, float *fisher, struct tp_err *e);

/* Online EWC: fisher <- TK_FISHER_KEEP fisher + new. */
#define TK_FISHER_KEEP 0.95
void tk_fisher_merge(float *fisher, const float *new, size_t n);

/* EWC adds lambda / 2 * sum of F_i (w_i - anchor_i)^2 to a loss. F is scaled to mean TK_EWC_MEAN over the parameters
 * and then cut at TK_EWC_CAP times that mean, so that a lambda means the same for any number of sources; around lambda
 * * mean = 0.3 to 1 old and new are in balance. */
#define TK_EWC_MEAN   5e-5
#define TK_EWC_CAP    1000.0
#define TK_EWC_LAMBDA 1e4
/* scaled[m->n] from fisher[m->n]; all zero when fisher is. m: for the shape. */
void tk_ewc_scale(const struct tm_model *m, const float *fisher, float *scaled);
double tk_ewc_penalty(const float *scaled, const float *anchor, const float *w, size_t n, double lambda);
/* grad += lambda F (w - anchor). To be added behind clipping: it must not be scaled down with the data's gradient. */
void tk_ewc_gradient(const float *scaled, const float *anchor, const float *w, size_t n, double lambda, float *grad);

#endif
