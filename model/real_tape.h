/* What a tape holds between forward and backward, and the three GEMMs of a linear layer. Private to model/real_*.c. */
#ifndef TM_REAL_TAPE_H
#define TM_REAL_TAPE_H

#include "model/grad.h"

#include <cblas.h>

struct tm_tape_mem {
    /* the list: program i has positions start[i] .. start[i + 1); position -> row -> dataset row */
    uint32_t *start;  /* [n + 1] */
    uint32_t *row;    /* [positions]: distinct row of the list */
    uint32_t *source; /* [rows]: its id in the dataset */
    uint32_t *slot;   /* [dataset rows]: 1 + distinct row while a list is indexed, else 0 */
    size_t cap_start, cap_row, cap_source, cap_slot;
    size_t rows, positions, longest;

    tm_real *arena;
    size_t arena_cap;

    /* per distinct row */
    tm_real *features, *e0, *h, *inv, *u, *xz, *gate, *dgate;
    /* per position */
    tm_real *x, *dx, *delta, *ddelta, *proj;
    /* per program; cat = [pooled | summary branch] */
    tm_real *q, *pool, *inv_f, *summary, *s0, *cat, *h0, *h1, *out, *s, *l;
    /* gradients, named after what they belong to */
    tm_real *g_out, *g_h1, *g_h0, *g_cat, *g_s1, *g_s0, *g_pool, *g_q;
    tm_real *g_x, *g_pre, *g_proj;
    tm_real *g_gate, *g_xz, *g_u, *g_h, *g_e0;
    tm_real *g_a, *g_conv, *scratch;
};

/* The weights (or, with grad for w, the gradient) of one tensor. */
#define TM_W(p, ID)       ((p)->w + (p)->shape[TM_T_##ID].offset)
#define TM_G(p, grad, ID) ((grad) + (p)->shape[TM_T_##ID].offset)

/* Kernel arguments for program i of the list */
static inline struct tm_conv tm_conv_of(const struct tm_params *p, const struct tm_tape_mem *m, uint32_t i)
{
    return (struct tm_conv){
        .steps = (int)(m->start[i + 1] - m->start[i]),
        .channels = p->h.d_model,
        .taps = p->h.d_conv,
        .row = m->row + m->start[i],
        .in = m->xz,
        .ld_in = 2 * p->h.d_model,
        .w = p->conv,
        .bias = TM_W(p, CONV_B),
    };
}

static inline struct tm_scan tm_scan_of(const struct tm_params *p, const struct tm_tape_mem *m, uint32_t i)
{
    const size_t at = m->start[i], d = (size_t)p->h.d_model;
    const int ld_bc = p->h.dt_rank + 2 * p->h.d_state;
    const tm_real *proj = m->proj + at * (size_t)ld_bc;
    return (struct tm_scan){
        .steps = (int)(m->start[i + 1] - m->start[i]),
        .channels = p->h.d_model,
        .states = p->h.d_state,
        .row = m->row + at,
        .gate = m->gate,
        .x = m->x + at * d,
        .delta = m->delta + at * d,
        .b = proj + p->h.dt_rank,
        .c = proj + p->h.dt_rank + p->h.d_state,
        .ld_bc = ld_bc,
        .a = p->a,
        .d = TM_W(p, D),
    };
}

/* y[rows][out] = x[rows][in] w[out][in]^T; ld_x, ld_y: distance of rows */
static inline void linear(size_t rows, int in, int out, const tm_real *x, int ld_x, const tm_real *w, tm_real *y,
                          int ld_y)
{
    if (rows && in && out)
        TM_GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, out, in, 1, x, ld_x, w, in, 0, y, ld_y);
}

/* gx[rows][in] = beta gx + gy[rows][out] w[out][in] */
static inline void linear_back_x(size_t rows, int in, int out, const tm_real *gy, int ld_gy, const tm_real *w,
                                 tm_real beta, tm_real *gx, int ld_gx)
{
    if (rows && in && out)
        TM_GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, in, out, 1, gy, ld_gy, w, in, beta, gx, ld_gx);
}

/* gw[out][in] += gy[rows][out]^T x[rows][in] */
static inline void linear_back_w(size_t rows, int in, int out, const tm_real *gy, int ld_gy, const tm_real *x, int ld_x,
                                 tm_real *gw)
{
    if (rows && in && out)
        TM_GEMM(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, (int)rows, 1, gy, ld_gy, x, ld_x, 1, gw, in);
}

#endif
