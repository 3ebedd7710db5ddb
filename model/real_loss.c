/* Losses of the programs of one task, with gradients. Small n (a chunk of a batch): every pair is visited, in double.
 * Pairwise logistic loss: RankNet (Burges 2005) weighted by the difference of the labels. LambdaRank: Burges 2006, in
 * the form of LambdaLoss (Wang et al. 2018) that TLP trains with. Listwise loss: ListNet, top one (Cao et al. 2007).
 * Pure functions. */
#include "model/grad.h"

#include "model/mem.h"

#include <math.h>

/* ln(1 + exp(-x)) and minus its derivative, 1 / (1 + exp(x)) */
static double logistic(double x, double *slope)
{
    double u = exp(-fabs(x));
    *slope = x >= 0 ? u / (1 + u) : 1 / (1 + u);
    return (x >= 0 ? 0 : -x) + log1p(u);
}

/* What a pair counts: y > 0 of both, else the order is sure. */
static double pair_weight(const double *y, const double *noise, uint32_t i, uint32_t j)
{
    double w = fabs(y[i] - y[j]), var;
    if (noise == NULL || w == 0 || y[i] == 0 || y[j] == 0)
        return w;
    var = noise[i] * noise[i] + noise[j] * noise[j];
    return var > 0 ? w * erf(fabs(log(y[i] / y[j])) / sqrt(2 * var)) : w;
}

double tm_pair_weight(const double *y, const double *noise, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            sum += pair_weight(y, noise, i, j);
    return sum;
}

double tm_loss_pairwise(const tm_real *s, const double *y, const double *noise, uint32_t n, double scale, tm_real *gs)
{
    double loss = 0;
    for (uint32_t i = 0; i < n; i++) {
        double g = 0;
        for (uint32_t j = 0; j < n; j++) {
            double slope, w = pair_weight(y, noise, i, j) * scale;
            if (y[i] > y[j]) {
                loss += w * logistic((double)s[i] - (double)s[j], &slope);
                g -= w * slope;
            } else if (y[i] < y[j]) {
                logistic((double)s[j] - (double)s[i], &slope);
                g += w * slope;
            }
        }
        gs[i] += (tm_real)g;
    }
    return loss;
}

int tm_loss_lambda(const tm_real *s, const double *y, uint32_t n, double scale, tm_real *gs, double *loss)
{
    double *gain = NULL, *discount = NULL, *g = NULL;
    double ideal = 0, sum = 0;
    int rc = -TP_E_NO_MEMORY;
    if (!(gain = tm_alloc(n, sizeof *gain)) || !(discount = tm_alloc(n, sizeof *discount)) ||
        !(g = tm_alloc(n, sizeof *g)))
        goto out;

    for (uint32_t i = 0; i < n; i++) {
        /* ranks count from 1, ties in the order of the list */
        uint32_t rank = 1, best = 1;
        for (uint32_t j = 0; j < n; j++) {
            rank += s[j] > s[i] || (s[j] == s[i] && j < i);
            best += y[j] > y[i] || (y[j] == y[i] && j < i);
        }
        gain[i] = exp2(y[i]) - 1;
        discount[i] = 1 / log2(1.0 + rank);
        ideal += gain[i] / log2(1.0 + best);
    }
    ideal = ideal < 1e-10 ? 1e-10 : ideal;

    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < n; j++) {
            if (!(y[i] > y[j]))
                continue;
            double slope, w = fabs(discount[i] - discount[j]) * (gain[i] - gain[j]) / ideal * scale / M_LN2;
            sum += w * logistic((double)s[i] - (double)s[j], &slope);
            g[i] -= w * slope;
            g[j] += w * slope;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        gs[i] += (tm_real)g[i];
    *loss = sum;
    rc = 0;
out:
    free(gain);
    free(discount);
    free(g);
    return rc;
}

double tm_loss_list(const tm_real *s, const double *y, double sharpness, uint32_t n, double scale, tm_real *gs)
{
    double top_s = -INFINITY, top_y = -INFINITY, sum_s = 0, sum_y = 0, loss = 0;
    for (uint32_t i = 0; i < n; i++) {
        top_s = fmax(top_s, (double)s[i]);
        top_y = fmax(top_y, y[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        sum_s += exp((double)s[i] - top_s);
        sum_y += exp(sharpness * (y[i] - top_y));
    }
    for (uint32_t i = 0; i < n; i++) {
        double ln_p = (double)s[i] - top_s - log(sum_s), q = exp(sharpness * (y[i] - top_y)) / sum_y;
        loss -= scale * q * ln_p;
        gs[i] += (tm_real)(scale * (exp(ln_p) - q));
    }
    return loss;
}

double tm_loss_huber(const tm_real *l, const double *target, uint32_t n, double scale, tm_real *gl)
{
    double loss = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!isfinite(target[i]))
            continue;
        double r = (double)l[i] - target[i], a = fabs(r);
        loss += scale * (a <= 1 ? 0.5 * r * r : a - 0.5);
        gl[i] += (tm_real)(scale * (a <= 1 ? r : copysign(1, r)));
    }
    return loss;
}
