/* The cost model of docs/model.md section 2 in double, one program at a time, straight from the formulas: what the
 * inference engine is compared with for shapes that have no golden vector. Header only. */
#ifndef INFER_REFERENCE_H
#define INFER_REFERENCE_H

#include "model/net.h"

#include <math.h>
#include <string.h>

enum { REFERENCE_WIDTH = 512, REFERENCE_STATE = 32, REFERENCE_CONV = 8 };

static inline const float *reference_tensor(const struct tm_model *m, enum tm_tensor t)
{
    return m->w + m->shape[t].offset;
}

/* y = W x (+ bias), ReLU when asked. bias < 0: none. */
static inline void reference_linear(const struct tm_model *m, enum tm_tensor weight, int bias, const double *x,
                                    double *y, int relu)
{
    const int out = m->shape[weight].dim[0], in = m->shape[weight].dim[1];
    const float *w = reference_tensor(m, weight);
    for (int o = 0; o < out; o++) {
        double sum = bias >= 0 ? (double)reference_tensor(m, (enum tm_tensor)bias)[o] : 0.0;
        for (int i = 0; i < in; i++)
            sum += (double)w[o * in + i] * x[i];
        y[o] = relu && sum < 0.0 ? 0.0 : sum;
    }
}

static inline void reference_norm(const float *w, const double *x, double *y, int n)
{
    double square = 0.0;
    for (int i = 0; i < n; i++)
        square += x[i] * x[i];
    for (int i = 0; i < n; i++)
        y[i] = x[i] / sqrt(square / n + TM_NORM_EPS) * (double)w[i];
}

static inline double reference_silu(double x)
{
    return x / (1.0 + exp(-x));
}

/* What a mixer block remembers of the rows before. */
struct reference_block {
    double state[REFERENCE_WIDTH * REFERENCE_STATE], past[REFERENCE_CONV][REFERENCE_WIDTH];
};

/* One row through block b: hidden += W_out q. */
static inline void reference_mix(const struct tm_model *m, int b, struct reference_block *k, double *hidden)
{
#define T(ID) (b ? TM_T_##ID##_2 : TM_T_##ID)
    const struct tm_hyper *h = &m->h;
    const int dm = h->d_model, ds = h->d_state;
    double u[REFERENCE_WIDTH], xz[2 * REFERENCE_WIDTH], x[REFERENCE_WIDTH], t[REFERENCE_WIDTH], delta[REFERENCE_WIDTH],
        q[REFERENCE_WIDTH], o[REFERENCE_WIDTH];
    reference_norm(reference_tensor(m, T(NORM_W)), hidden, u, dm);
    reference_linear(m, T(IN_PROJ_W), -1, u, xz, 0);
    memmove(k->past[0], k->past[1], sizeof k->past - sizeof k->past[0]);
    memcpy(k->past[REFERENCE_CONV - 1], xz, (size_t)dm * sizeof *xz);
    for (int i = 0; i < dm; i++) {
        double c = (double)reference_tensor(m, T(CONV_B))[i];
        for (int j = 0; j < h->d_conv; j++)
            c += (double)reference_tensor(m, T(CONV_W))[i * h->d_conv + j] * k->past[REFERENCE_CONV - h->d_conv + j][i];
        x[i] = reference_silu(c);
    }
    reference_linear(m, T(X_PROJ_W), -1, x, t, 0);
    reference_linear(m, T(DT_PROJ_W), T(DT_PROJ_B), t, delta, 0);
    for (int i = 0; i < dm; i++) {
        double d = fmax(delta[i], 0.0) + log1p(exp(-fabs(delta[i]))), y = (double)reference_tensor(m, T(D))[i] * x[i];
        for (int j = 0; j < ds; j++) {
            double *st = &k->state[i * ds + j];
            *st = exp(-d * exp((double)reference_tensor(m, T(A_LOG))[i * ds + j])) * *st + d * x[i] * t[h->dt_rank + j];
            y += t[h->dt_rank + ds + j] * *st;
        }
        q[i] = y * reference_silu(xz[dm + i]);
    }
    reference_linear(m, T(OUT_PROJ_W), -1, q, o, 0);
    for (int i = 0; i < dm; i++)
        hidden[i] += o[i];
#undef T
}

/* rows: [n] pointers to h.features floats. */
static inline void reference_forward(const struct tm_model *m, const float *const *rows, size_t n, const float *summary,
                                     double *s, double *l)
{
    const struct tm_hyper *h = &m->h;
    const int dm = h->d_model;
    double a[REFERENCE_WIDTH], hidden[REFERENCE_WIDTH], u[REFERENCE_WIDTH], t[REFERENCE_WIDTH], o[REFERENCE_WIDTH],
        total[REFERENCE_WIDTH] = {0};
    static _Thread_local struct reference_block block[TM_MAX_BLOCKS];
    memset(block, 0, sizeof block);
    for (size_t r = 0; r < n; r++) {
        for (int i = 0; i < h->features; i++)
            a[i] = (double)rows[r][i];
        reference_linear(m, TM_T_EMBED0_W, TM_T_EMBED0_B, a, u, 1);
        reference_linear(m, TM_T_EMBED1_W, TM_T_EMBED1_B, u, hidden, 1);
        for (int b = 0; b <= h->more_blocks; b++)
            reference_mix(m, b, &block[b], hidden);
        for (int i = 0; i < dm; i++)
            total[i] = (h->pooling == TM_POOL_LAST ? 0.0 : total[i]) + hidden[i];
    }
    for (int i = 0; i < dm && h->pooling == TM_POOL_MEAN; i++)
        total[i] /= (double)n;
    reference_norm(reference_tensor(m, TM_T_NORM_F_W), total, u, dm);
    if (h->summary) {
        for (int i = 0; i < h->summary; i++)
            a[i] = (double)summary[i];
        reference_linear(m, TM_T_SUMMARY0_W, TM_T_SUMMARY0_B, a, t, 1);
        reference_linear(m, TM_T_SUMMARY1_W, TM_T_SUMMARY1_B, t, u + dm, 1);
    }
    reference_linear(m, TM_T_HEAD0_W, TM_T_HEAD0_B, u, a, 1);
    reference_linear(m, TM_T_HEAD1_W, TM_T_HEAD1_B, a, t, 1);
    reference_linear(m, TM_T_HEAD2_W, TM_T_HEAD2_B, t, o, 0);
    *s = o[0];
    *l = o[1];
}

#endif
