/* What a tape holds between forward and backward, and the three GEMMs of a linear layer. Private to model/real_*.c. */
#ifndef TM_REAL_TAPE_H
#define TM_REAL_TAPE_H

#include "model/grad.h"

#include <cblas.h>

/* One mixer block. It reads rows, of which each position has one: the first block the distinct rows of the list, a
 * further block what the one before gives, which is another row for every position. */
struct tm_block {
    size_t rows;
    const uint32_t *row; /* [positions] */
    /* per row; h is the input */
    tm_real *h, *inv, *u, *xz, *gate, *dgate;
    /* per position */
    tm_real *x, *dx, *delta, *ddelta, *proj;
    /* gated outputs: their sum per program, or each (tm_block_each) */
    tm_real *q;
    /* gradients, named after what they belong to */
    tm_real *g_q, *g_x, *g_pre, *g_proj, *g_gate, *g_xz, *g_u, *g_h;
};

struct tm_tape_mem {
    /* the list: program i has positions start[i] .. start[i + 1); position -> row -> dataset row */
    uint32_t *start;  /* [n + 1] */
    uint32_t *row;    /* [positions]: distinct row of the list */
    uint32_t *source; /* [rows]: its id in the dataset */
    uint32_t *slot;   /* [dataset rows]: 1 + distinct row while a list is indexed, else 0 */
    uint32_t *self;   /* [positions]: 0, 1, 2, ...; with several blocks */
    size_t cap_start, cap_row, cap_source, cap_slot, cap_self;
    size_t rows, positions, longest;

    tm_real *arena;
    size_t arena_cap;

    /* per distinct row */
    tm_real *features, *e0;
    struct tm_block block[TM_MAX_BLOCKS];
    /* per program; cat = [pooled | summary branch] */
    tm_real *q, *pool, *inv_f, *summary, *s0, *cat, *h0, *h1, *out, *s, *l;
    /* gradients */
    tm_real *g_out, *g_h1, *g_h0, *g_cat, *g_s1, *g_s0, *g_pool, *g_q;
    tm_real *g_e0;
    tm_real *g_a, *g_conv, *scratch;
};

/* The weights (or, with grad for w, the gradient) of one tensor; of one tensor of block b, named as in the first. */
#define TM_W(p, ID)             ((p)->w + (p)->shape[TM_T_##ID].offset)
#define TM_G(p, grad, ID)       ((grad) + (p)->shape[TM_T_##ID].offset)
#define TM_BLOCK_T(b, ID)       ((b) ? TM_T_##ID##_2 : TM_T_##ID)
#define TM_BLOCK_W(p, b, ID)    ((p)->w + (p)->shape[TM_BLOCK_T(b, ID)].offset)
#define TM_BLOCK_G(p, b, g, ID) ((g) + (p)->shape[TM_BLOCK_T(b, ID)].offset)

/* Is every output of block b needed, not only their sum? */
static inline bool tm_block_each(const struct tm_hyper *h, int b)
{
    return b < h->more_blocks || h->pooling == TM_POOL_LAST;
}

/* The first position of program i that is pooled. */
static inline uint32_t tm_pool_from(const struct tm_hyper *h, const struct tm_tape_mem *m, uint32_t i)
{
    return h->pooling == TM_POOL_LAST && m->start[i + 1] > m->start[i] ? m->start[i + 1] - 1 : m->start[i];
}

/* Rows of programs: sums become means. */
static inline void tm_pool_divide(const struct tm_tape_mem *m, tm_real *rows, uint32_t n, size_t d)
{
    for (uint32_t i = 0; i < n; i++)
        for (size_t j = 0; j < d && m->start[i + 1] > m->start[i]; j++)
            rows[i * d + j] /= (tm_real)(m->start[i + 1] - m->start[i]);
}

/* Kernel arguments for program i of the list in block b */
static inline struct tm_conv tm_conv_of(const struct tm_params *p, const struct tm_tape_mem *m, int b, uint32_t i)
{
    return (struct tm_conv){
        .steps = (int)(m->start[i + 1] - m->start[i]),
        .channels = p->h.d_model,
        .taps = p->h.d_conv,
        .row = m->block[b].row + m->start[i],
        .in = m->block[b].xz,
        .ld_in = 2 * p->h.d_model,
        .w = p->conv[b],
        .bias = TM_BLOCK_W(p, b, CONV_B),
    };
}

static inline struct tm_scan tm_scan_of(const struct tm_params *p, const struct tm_tape_mem *m, int b, uint32_t i)
{
    const struct tm_block *k = &m->block[b];
    const size_t at = m->start[i], d = (size_t)p->h.d_model;
    const int ld_bc = p->h.dt_rank + 2 * p->h.d_state;
    const tm_real *proj = k->proj + at * (size_t)ld_bc;
    return (struct tm_scan){
        .steps = (int)(m->start[i + 1] - m->start[i]),
        .channels = p->h.d_model,
        .states = p->h.d_state,
        .each = tm_block_each(&p->h, b),
        .row = k->row + at,
        .gate = k->gate,
        .x = k->x + at * d,
        .delta = k->delta + at * d,
        .b = proj + p->h.dt_rank,
        .c = proj + p->h.dt_rank + p->h.d_state,
        .ld_bc = ld_bc,
        .a = p->a[b],
        .d = TM_BLOCK_W(p, b, D),
    };
}

/* Program i's part of an array like q: a row per program, or (each) a row per position */
static inline tm_real *tm_block_q(const struct tm_params *p, const struct tm_tape_mem *m, int b, tm_real *q, uint32_t i)
{
    return q + (tm_block_each(&p->h, b) ? m->start[i] : i) * (size_t)p->h.d_model;
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
