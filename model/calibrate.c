/* The two-parameter logistic fit and the latency shift of a trained model.
 *
 * The cross-entropy is convex in (a, b): Newton with halving steps converges from anywhere. It runs on standardised
 * scores, so that the ridge and the stopping rule mean the same for every model, and is mapped back at the end. Pure,
 * any thread. */
#include "model/calibrate.h"
#include "proto/err.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { NEWTON_STEPS = 60, HALVINGS = 40 };
static const double min_slope = 1e-3;
static const double ridge =
    1e-6; /* bounds the fit when the labels are separable; far below any curvature of real data */

struct sample {
    double x, y; /* standardised score, label in [0,1] */
};

static bool is_valid(double cost)
{
    return isfinite(cost) && cost > 0.0;
}

static double softplus(double v)
{
    return fmax(v, 0.0) + log1p(exp(-fabs(v)));
}

/* Mean of softplus(v) - y v, which is the cross-entropy of sigmoid(v) against y, plus the ridge. */
static double loss(const struct sample *p, size_t n, double a, double b)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double v = a * p[i].x + b;
        sum += softplus(v) - p[i].y * v;
    }
    return sum / (double)n + 0.5 * ridge * (a * a + b * b);
}

/* Minimise over (a, b), or over b alone when a is held. */
static void fit(const struct sample *p, size_t n, bool hold_a, double *a_io, double *b_io)
{
    double a = *a_io, b = *b_io, at = loss(p, n, a, b);
    for (int step = 0; step < NEWTON_STEPS; step++) {
        double ga = 0.0, gb = 0.0, haa = 0.0, hab = 0.0, hbb = 0.0;
        for (size_t i = 0; i < n; i++) {
            double v = a * p[i].x + b;
            double q = 1.0 / (1.0 + exp(-v)), w = q * (1.0 - q), d = q - p[i].y;
            ga += d * p[i].x;
            gb += d;
            haa += w * p[i].x * p[i].x;
            hab += w * p[i].x;
            hbb += w;
        }
        double inv_n = 1.0 / (double)n;
        ga = ga * inv_n + ridge * a;
        gb = gb * inv_n + ridge * b;
        haa = haa * inv_n + ridge;
        hab *= inv_n;
        hbb = hbb * inv_n + ridge;
        double da, db;
        if (hold_a) {
            da = 0.0;
            db = -gb / hbb;
        } else {
            double det = haa * hbb - hab * hab; /* > 0: both ridges are */
            da = -(hbb * ga - hab * gb) / det;
            db = -(haa * gb - hab * ga) / det;
        }
        double t = 1.0, next = at;
        int halving = 0;
        for (; halving < HALVINGS; halving++, t *= 0.5) {
            next = loss(p, n, a + t * da, b + t * db);
            if (next < at)
                break;
        }
        if (halving == HALVINGS)
            break; /* no descent left in double: at the optimum */
        a += t * da;
        b += t * db;
        at = next;
        if (fabs(t * da) + fabs(t * db) < 1e-12 * (1.0 + fabs(a) + fabs(b)))
            break;
    }
    *a_io = a;
    *b_io = b;
}

static void fit_logistic(struct sample *p, size_t n, double *a_out, double *b_out)
{
    double mean = 0.0, var = 0.0;
    *a_out = 1.0;
    *b_out = 0.0;
    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        mean += p[i].x;
    mean /= (double)n;
    for (size_t i = 0; i < n; i++)
        var += (p[i].x - mean) * (p[i].x - mean);
    double sd = sqrt(var / (double)n);
    if (!isfinite(sd) || sd <= 1e-12 * (1.0 + fabs(mean)))
        return;
    for (size_t i = 0; i < n; i++)
        p[i].x = (p[i].x - mean) / sd;

    double a = 1.0, b = 0.0;
    fit(p, n, false, &a, &b);
    if (a < min_slope * sd) {
        /* the scores do not order the labels: keep the map increasing, but nearly flat */
        a = min_slope * sd;
        fit(p, n, true, &a, &b);
    }
    *a_out = fmax(a / sd, min_slope);
    *b_out = b - *a_out * mean;
}

static int by_value(const void *pa, const void *pb)
{
    double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

/* Sorts v. n > 0. */
static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

int tm_calibrate(const double *s, const double *l, const uint32_t *task, const double *cost, size_t n, uint32_t n_tasks,
                 double *a, double *b, double *shift)
{
    int rc = -TP_E_NO_MEMORY;
    struct sample *sample = NULL;
    double *residual = NULL, *best = NULL;
    size_t n_sample = 0, n_residual = 0;

    sample = calloc(n ? n : 1, sizeof *sample);
    residual = calloc(n ? n : 1, sizeof *residual);
    best = calloc(n_tasks ? n_tasks : 1, sizeof *best);
    if (!sample || !residual || !best)
        goto out;

    for (uint32_t t = 0; t < n_tasks; t++)
        best[t] = INFINITY;
    for (size_t i = 0; i < n; i++)
        if (is_valid(cost[i]) && cost[i] < best[task[i]])
            best[task[i]] = cost[i];
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(s[i]) || !isfinite(l[i]) || !is_valid(best[task[i]]))
            continue;
        sample[n_sample++] = (struct sample){s[i], is_valid(cost[i]) ? best[task[i]] / cost[i] : 0.0};
        if (is_valid(cost[i]))
            residual[n_residual++] = log(cost[i]) - l[i];
    }

    fit_logistic(sample, n_sample, a, b);
    *shift = n_residual ? median(residual, n_residual) : 0.0;
    rc = 0;
out:
    free(best);
    free(residual);
    free(sample);
    return rc;
}
