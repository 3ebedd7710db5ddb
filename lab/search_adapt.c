/* What a tuner learns of a task while it measures it.
 *
 * The model is left alone: its last layer's features phi are the place where programs are compared. With y the measured
 * throughput over the best so far and f the model's score, y - f - mean is regressed on phi by ridge, in the dual (m
 * measured programs, not 32 features), which costs m^3 / 6 and lets the kernel be any. A ridge is the posterior mean of
 * a Gaussian process; `gain` is the prior variance of the correction over that of the noise. */
#include "lab/search.h"

#include "proto/err.h"

#include <math.h>
#include <stdlib.h>

/* z-scores of the features over the task's programs, so scaled that a program's mean square is 1. */
static void standardise(const struct tl_search_adapt *a, uint32_t n, double *z)
{
    const int f = a->n_features;
    for (int j = 0; j < f; j++) {
        double sum = 0, square = 0;
        for (uint32_t i = 0; i < n; i++)
            sum += a->features[i * (size_t)f + j];
        for (uint32_t i = 0; i < n; i++) {
            double d = a->features[i * (size_t)f + j] - sum / n;
            z[i * (size_t)f + j] = d;
            square += d * d;
        }
        double scale = square > 0 ? 1 / sqrt(square / n * f) : 0;
        for (uint32_t i = 0; i < n; i++)
            z[i * (size_t)f + j] *= scale;
    }
}

static double kernel(const double *x, const double *y, int f)
{
    double dot = 0;
    for (int j = 0; j < f; j++)
        dot += x[j] * y[j];
    return dot;
}

/* x := (L L^T)^-1 x, with L the Cholesky factor of the m x m matrix k, which is overwritten. */
static void solve(double *k, double *x, uint32_t m)
{
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t j = 0; j <= i; j++) {
            double s = k[i * (size_t)m + j];
            for (uint32_t c = 0; c < j; c++)
                s -= k[i * (size_t)m + c] * k[j * (size_t)m + c];
            k[i * (size_t)m + j] = i == j ? sqrt(s) : s / k[j * (size_t)m + j];
        }
    for (uint32_t i = 0; i < m; i++) {
        for (uint32_t c = 0; c < i; c++)
            x[i] -= k[i * (size_t)m + c] * x[c];
        x[i] /= k[i * (size_t)m + i];
    }
    for (uint32_t i = m; i-- > 0;) {
        for (uint32_t c = i + 1; c < m; c++)
            x[i] -= k[c * (size_t)m + i] * x[c];
        x[i] /= k[i * (size_t)m + i];
    }
}

int tl_search_adapted(const struct tl_search_task *t, const double *score, const struct tl_search_adapt *a,
                      const uint32_t *measured, uint32_t m, double *out)
{
    const int f = a->n_features;
    double *z = malloc(t->n * (size_t)f * sizeof *z), *k = malloc((size_t)m * m * sizeof *k),
           *x = malloc(m * sizeof *x), best = INFINITY, mean = 0;
    int rc = z && k && x ? 0 : -TP_E_NO_MEMORY;
    if (rc)
        goto out;
    standardise(a, t->n, z);
    for (uint32_t i = 0; i < m; i++)
        best = fmin(best, t->seen[measured[i]]);
    for (uint32_t i = 0; i < m; i++) {
        x[i] = (isfinite(t->seen[measured[i]]) ? best / t->seen[measured[i]] : 0) - score[measured[i]];
        mean += x[i] / m;
    }
    for (uint32_t i = 0; i < m; i++) {
        x[i] -= mean;
        for (uint32_t j = 0; j <= i; j++)
            k[i * (size_t)m + j] =
                a->gain * kernel(z + measured[i] * (size_t)f, z + measured[j] * (size_t)f, f) + (i == j);
    }
    solve(k, x, m);
    for (uint32_t p = 0; p < t->n; p++) {
        double add = 0;
        for (uint32_t i = 0; i < m; i++)
            add += x[i] * kernel(z + p * (size_t)f, z + measured[i] * (size_t)f, f);
        out[p] = score[p] + a->gain * add;
    }
out:
    free(z);
    free(k);
    free(x);
    return rc;
}
