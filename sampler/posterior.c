/* Last-layer Bayesian regression: see the header for the formulas. A is positive definite by alpha, up to rounding: a
 * pivot that rounding made too small is lifted to a 1e-14th of its diagonal element. */
#include "sampler/posterior.h"

#include "model/mem.h"
#include "sampler/select.h"

#include <math.h>

int ts_posterior_init(struct ts_posterior *p, size_t n, size_t ld, double alpha, double noise)
{
    *p = (struct ts_posterior){.n = n, .ld = ld, .noise = noise};
    p->precision = tm_alloc(n * ld, sizeof *p->precision);
    p->covariance = tm_alloc(n * ld, sizeof *p->covariance);
    p->whiten = tm_alloc(n * ld, sizeof *p->whiten);
    if (!p->precision || !p->covariance || !p->whiten) {
        ts_posterior_free(p);
        return -TP_E_NO_MEMORY;
    }
    for (size_t i = 0; i < n; i++)
        p->precision[i * ld + i] = alpha;
    ts_posterior_refit(p);
    return 0;
}

void ts_posterior_free(struct ts_posterior *p)
{
    free(p->precision);
    free(p->covariance);
    free(p->whiten);
    *p = (struct ts_posterior){0};
}

void ts_posterior_copy(struct ts_posterior *p, const struct ts_posterior *q)
{
    memcpy(p->covariance, q->covariance, q->n * q->ld * sizeof *q->covariance);
}

void ts_posterior_add(struct ts_posterior *p, const float *phi)
{
    for (size_t i = 0; i < p->n; i++)
        for (size_t j = 0; j < p->n; j++)
            p->precision[i * p->ld + j] += (double)phi[i] * (double)phi[j] / p->noise;
}

/* l (lower triangle, rows ld apart) = Cholesky factor of a */
static void cholesky(const double *a, double *l, size_t n, size_t ld)
{
    for (size_t j = 0; j < n; j++) {
        double pivot = a[j * ld + j];
        for (size_t k = 0; k < j; k++)
            pivot -= l[j * ld + k] * l[j * ld + k];
        const double root = sqrt(fmax(pivot, 1e-14 * a[j * ld + j]));
        l[j * ld + j] = root;
        for (size_t i = j + 1; i < n; i++) {
            double s = a[i * ld + j];
            for (size_t k = 0; k < j; k++)
                s -= l[i * ld + k] * l[j * ld + k];
            l[i * ld + j] = s / root;
        }
    }
}

/* l <- l^-1, in place, column by column */
static void invert_lower(double *l, size_t n, size_t ld)
{
    for (size_t j = 0; j < n; j++) {
        l[j * ld + j] = 1.0 / l[j * ld + j];
        for (size_t i = j + 1; i < n; i++) {
            double s = 0.0;
            for (size_t k = j; k < i; k++)
                s -= l[i * ld + k] * l[k * ld + j];
            l[i * ld + j] = s / l[i * ld + i];
        }
    }
}

void ts_posterior_refit(struct ts_posterior *p)
{
    const size_t n = p->n, ld = p->ld;
    double l[TS_MAX_FEATURES * TS_MAX_FEATURES] = {0};
    cholesky(p->precision, l, n, ld);
    invert_lower(l, n, ld);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < ld; j++)
            p->whiten[i * ld + j] = j <= i ? (float)l[i * ld + j] : 0.0f;
        for (size_t j = 0; j < n; j++) { /* S = L^-T L^-1 */
            double s = 0.0;
            for (size_t k = i > j ? i : j; k < n; k++)
                s += l[k * ld + i] * l[k * ld + j];
            p->covariance[i * ld + j] = s;
        }
    }
}

double ts_posterior_variance(const struct ts_posterior *p, const struct tm_ops *ops, const float *phi)
{
    float y[TS_MAX_FEATURES];
    double s = 0.0;
    ops->products(phi, p->whiten, p->n, p->ld, y);
    for (size_t i = 0; i < p->n; i++)
        s += (double)y[i] * (double)y[i];
    return s;
}

void ts_posterior_pick(struct ts_posterior *p, const float *phi, float *v)
{
    double s[TS_MAX_FEATURES] = {0}, along = p->noise;
    for (size_t i = 0; i < p->n; i++) {
        s[i] = 0.0;
        for (size_t j = 0; j < p->n; j++)
            s[i] += p->covariance[i * p->ld + j] * (double)phi[j];
        along += s[i] * (double)phi[i];
    }
    const double root = sqrt(fmax(along, p->noise));
    for (size_t i = 0; i < p->n; i++)
        s[i] /= root;
    for (size_t i = 0; i < p->n; i++)
        for (size_t j = 0; j < p->n; j++)
            p->covariance[i * p->ld + j] -= s[i] * s[j];
    for (size_t i = 0; i < p->ld; i++)
        v[i] = i < p->n ? (float)s[i] : 0.0f;
}
