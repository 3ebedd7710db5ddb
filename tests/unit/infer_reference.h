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

/* rows: [n] pointers to h.features floats. */
static inline void reference_forward(const struct tm_model *m, const float *const *rows, size_t n, const float *summary,
                                     double *s, double *l)
{
    const struct tm_hyper *h = &m->h;
    const int dm = h->d_model, ds = h->d_state;
    double a[REFERENCE_WIDTH], hidden[REFERENCE_WIDTH], u[REFERENCE_WIDTH], xz[2 * REFERENCE_WIDTH], x[REFERENCE_WIDTH];
    double t[REFERENCE_WIDTH], delta[REFERENCE_WIDTH], q[REFERENCE_WIDTH], o[REFERENCE_WIDTH],
        total[REFERENCE_WIDTH] = {0};
    static _Thread_local double state[REFERENCE_WIDTH * REFERENCE_STATE], past[REFERENCE_CONV][REFERENCE_WIDTH];
    memset(state, 0, sizeof state);
    memset(past, 0, sizeof past);
    for (size_t r = 0; r < n; r++) {
        for (int i = 0; i < h->features; i++)
            a[i] = (double)rows[r][i];
        reference_linear(m, TM_T_EMBED0_W, TM_T_EMBED0_B, a, u, 1);
        reference_linear(m, TM_T_EMBED1_W, TM_T_EMBED1_B, u, hidden, 1);
        reference_norm(reference_tensor(m, TM_T_NORM_W), hidden, u, dm);
        reference_linear(m, TM_T_IN_PROJ_W, -1, u, xz, 0);
        memmove(past[0], past[1], sizeof past - sizeof past[0]);
        memcpy(past[REFERENCE_CONV - 1], xz, (size_t)dm * sizeof *xz);
        for (int i = 0; i < dm; i++) {
            double c = (double)reference_tensor(m, TM_T_CONV_B)[i];
            for (int k = 0; k < h->d_conv; k++)
                c += (double)reference_tensor(m, TM_T_CONV_W)[i * h->d_conv + k] *
                     past[REFERENCE_CONV - h->d_conv + k][i];
            x[i] = reference_silu(c);
        }
        reference_linear(m, TM_T_X_PROJ_W, -1, x, t, 0);
        reference_linear(m, TM_T_DT_PROJ_W, TM_T_DT_PROJ_B, t, delta, 0);
        for (int i = 0; i < dm; i++) {
            double d = fmax(delta[i], 0.0) + log1p(exp(-fabs(delta[i]))),
                   y = (double)reference_tensor(m, TM_T_D)[i] * x[i];
            for (int k = 0; k < ds; k++) {
                double *st = &state[i * ds + k];
                *st = exp(-d * exp((double)reference_tensor(m, TM_T_A_LOG)[i * ds + k])) * *st +
                      d * x[i] * t[h->dt_rank + k];
                y += t[h->dt_rank + ds + k] * *st;
            }
            q[i] = y * reference_silu(xz[dm + i]);
        }
        reference_linear(m, TM_T_OUT_PROJ_W, -1, q, o, 0);
        for (int i = 0; i < dm; i++)
            total[i] += hidden[i] + o[i];
    }
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
