/* Kernels of the inference engine: one table of functions per instruction set, one source per table.
 *
 * Every function treats its rows (or nodes) one by one in a fixed order of operations, so the result of a row does not
 * depend on which or how many other rows are passed along: that is what makes predictions bit-identical for any batch.
 * Sets agree with `portable` within 1e-5 relative, not to the bit. All arrays are 64-byte aligned and stay so row by
 * row unless a function says otherwise. Pure functions, any thread. */
#ifndef TM_KERN_H
#define TM_KERN_H

#include "model/simd.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* y = W x + b, packed for one kernel set by tm_linear_pack(): outputs in panels of `panel` columns, each panel
 * [in][width]; the last panel is as wide as what is left, rounded up to `lanes`. Panel p starts at w + p * panel * in.
 * Or in pairs: [in / 2][out][2]. */
struct tm_linear {
    int in, out;
    bool pairs;
    int out_padded; /* columns written: out rounded up to lanes */
    const float *w;
    const float *bias; /* [out_padded], zeros when the layer has none */
};
enum tm_linear_flags {
    TM_LINEAR_RELU = 1,
    TM_LINEAR_ADD = 2 /* start from what y holds instead of the bias */
};

/* The mixer between in_proj and out_proj; I = d_inner. Channels are contiguous. Everything that goes into an
 * exponential is scaled beforehand, so that the kernels only need powers of two. */
struct tm_mixer {
    int d_inner, d_state, d_conv, dt_rank;
    const float *conv_w; /* [d_conv][I], oldest row first; times -1/ln 2 */
    const float *conv_b; /* [I]; times -1/ln 2 */
    const float *dt_w;   /* [dt_rank][I]; times 1/ln 2 */
    const float *dt_b;   /* [I]; times 1/ln 2 */
    const float *a;      /* [d_state][I]: -exp(A_log) / ln 2 */
    const float *d;      /* [I] */
};

/* A distinct row behind in_proj, 3 I floats: convolution input, SiLU(z), h. */
static inline const float *tm_row_z(const float *row, int d_inner)
{
    return row + d_inner;
}
static inline const float *tm_row_h(const float *row, int d_inner)
{
    return row + 2 * d_inner;
}

/* The recurrent state after a prefix: [d_state][I] H, [I] sum of q, [I] sum of h. */
static inline size_t tm_state_floats(int d_inner, int d_state)
{
    return (size_t)d_inner * (size_t)(d_state + 2);
}

struct tm_kern {
    int lanes;        /* floats of a vector */
    int panel;        /* see struct tm_linear */
    int pairs;        /* layers with so many outputs and an even number of inputs are packed in pairs; 0 none */
    bool fixed_mixer; /* the mixer functions want d_inner 128, d_state 8, d_conv 4, dt_rank 8 */

    /* y[r][0 .. out_padded) for `rows` rows; leading dimensions in floats. Only y must be aligned. */
    void (*linear)(const struct tm_linear *l, const float *x, size_t ldx, float *y, size_t ldy, size_t rows,
                   unsigned flags);
    /* y[r][i] = x[r][i] w[i] / sqrt(mean(x[r]^2) + eps); n a multiple of lanes. y may be x. */
    void (*norm)(const float *w, const float *x, size_t ldx, float *y, size_t ldy, int n, size_t rows);
    /* x[r][i] <- x / (1 + exp(-x)); n a multiple of lanes. */
    void (*silu)(float *x, size_t ldx, int n, size_t rows);

    /* x[i][I] = SiLU(convolution) of node i of a path, over the d_conv rows row[i] ... row[i + d_conv - 1], oldest
     * first. */
    void (*conv)(const struct tm_mixer *m, const float *const *row, size_t nodes, float *x);
    /* delta[i][I] = softplus(dt_w tau_i + dt_b), tau_i = t[i * ldt .. + dt_rank). */
    void (*delta)(const struct tm_mixer *m, const float *t, size_t ldt, size_t nodes, float *delta);
    /* Advance the state along a path of nodes: from *in (which may be out) to *out. t[i * ldt] = tau, B, C of node i;
     * row[i] is its row. next[i] is any row, one that will be needed soon. */
    void (*scan)(const struct tm_mixer *m, const float *in, float *out, size_t nodes, const float *x,
                 const float *delta, const float *t, size_t ldt, const float *const *row, const float *const *next);

    /* For tests; n a multiple of 16: exp(x); 2^x for x <= 126; silu and softplus of x ln 2, as the mixer computes them.
     */
    void (*exp)(const float *x, float *y, size_t n);
    void (*exp2)(const float *x, float *y, size_t n);
    void (*silu2)(const float *x, float *y, size_t n);
    void (*softplus2)(const float *x, float *y, size_t n);
};

extern const struct tm_kern tm_kern_portable;
extern const struct tm_kern tm_kern_avx2;
extern const struct tm_kern tm_kern_avx512;
extern const struct tm_kern tm_kern_neon;

/* Floats of l->w and, per column, of l->bias for l->in and l->out, which sets out_padded and pairs. */
size_t tm_linear_size(const struct tm_kern *k, struct tm_linear *l);
/* weight[out][in] into w[tm_linear_size()]. */
void tm_linear_pack(const struct tm_kern *k, const struct tm_linear *l, const float *weight, float *w);

/* The table of a set; NULL when it is not built in or this CPU cannot run it. */
const struct tm_kern *tm_kern(enum tm_simd_set s);

#endif
