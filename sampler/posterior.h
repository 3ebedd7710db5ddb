/* How sure the last layer is: Bayesian linear regression on head features phi. Precision A = alpha I + sum phi phi^T /
 * sigma^2 over what was measured or chosen, covariance S = A^-1; variance of a program's mean prediction = phi^T S phi.
 * Choosing a program changes S by a rank-one term and lowers every variance by a square (Sherman-Morrison):
 *
 *   v = S phi / sqrt(sigma^2 + phi^T S phi),   S <- S - v v^T,   u^2(x) <- u^2(x) - (x^T v)^2
 *
 * All in double but for the copy that the kernels read. One owner; const functions from any thread. */
#ifndef TS_POSTERIOR_H
#define TS_POSTERIOR_H

#include "model/ops.h"

struct ts_posterior {
    size_t n, ld; /* n features, rows ld apart */
    double noise; /* sigma^2 */
    double *precision;
    double *covariance; /* [n][ld], of the last refit and the picks since */
    float *whiten;      /* [n][ld]: L^-1, A = L L^T, of the last refit */
};

/* n <= ld; alpha, noise > 0. -TP_E_NO_MEMORY. Usable as the prior at once. */
int ts_posterior_init(struct ts_posterior *p, size_t n, size_t ld, double alpha, double noise);
void ts_posterior_free(struct ts_posterior *p);
/* p as q is (covariance only, for picks of its own): buffers of p are reused. */
void ts_posterior_copy(struct ts_posterior *p, const struct ts_posterior *q);

/* A += phi phi^T / sigma^2; covariance and variances follow with the next refit. */
void ts_posterior_add(struct ts_posterior *p, const float *phi);
void ts_posterior_refit(struct ts_posterior *p);
/* phi^T S phi as of the last refit, as |L^-1 phi|^2: a sum of squares, so nothing cancels. phi[ld] aligned. */
double ts_posterior_variance(const struct ts_posterior *p, const struct tm_ops *ops, const float *phi);
/* The rank-one step on the covariance; v[ld] aligned, padded with 0. */
void ts_posterior_pick(struct ts_posterior *p, const float *phi, float *v);

#endif
