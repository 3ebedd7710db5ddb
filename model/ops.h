/* The kernels of training and selection, one table per kernel set. model/simd_*.c is compiled once per set and defines
 * the table tm_ops_<set> (tm_ops_portable_d in the double build); model/simd.c hands out the one in use.
 *
 * All arrays are row-major and aligned to 64 bytes; `channels` is a multiple of TM_CHANNEL_UNIT, so that rows are
 * aligned too. Arrays of different names never overlap unless said. No kernel allocates; all are reentrant. */
#ifndef TM_OPS_H
#define TM_OPS_H

#include "model/real.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TM_CHANNEL_UNIT = 16,
    TM_MAX_STATE = 16,       /* d_state */
    TM_MAX_CONV = 8,         /* d_conv */
    TM_SCAN_SCRATCH = 4 * 16 /* four arrays of vectors of at most 16 lanes */
};

#ifdef TM_DOUBLE
#define tm_ops       tm_ops_d
#define tm_conv      tm_conv_d
#define tm_scan      tm_scan_d
#define tm_scan_grad tm_scan_grad_d
#define tm_adam_args tm_adam_args_d
#endif

/* Causal depthwise convolution of one program's steps, then SiLU. */
struct tm_conv {
    int steps, channels, taps;
    const uint32_t *row; /* [steps]: which row of `in` a step reads */
    const tm_real *in;   /* rows of `channels`, ld_in apart */
    int ld_in;
    const tm_real *w;    /* [taps][channels]; w[taps - 1] meets the present step */
    const tm_real *bias; /* [channels] */
};

/* The selective scan of one program (arXiv 2312.00752, algorithm 2; B discretised by Euler's rule, as its authors' code
 * does) and its gated outputs q: their sum over the steps [channels], or each of them [steps][channels]. */
struct tm_scan {
    int steps, channels, states;
    bool each;
    const uint32_t *row;  /* [steps]: which row of `gate` a step reads */
    const tm_real *gate;  /* [rows][channels]: silu(z) */
    const tm_real *x;     /* [steps][channels] */
    const tm_real *delta; /* [steps][channels] > 0 */
    const tm_real *b, *c; /* [steps] rows of `states`, ld_bc apart, any alignment */
    int ld_bc;
    const tm_real *a; /* [states][channels] < 0 */
    const tm_real *d; /* [channels] */
};

struct tm_scan_grad {
    const tm_real *q;         /* in: as q of the scan */
    const tm_real *dsoftplus; /* in: [steps][channels], d delta / d its argument */
    tm_real *x;               /* out: [steps][channels] */
    tm_real *pre;             /* out: [steps][channels], gradient of delta's argument */
    tm_real *b, *c;           /* out: as b, c of tm_scan */
    tm_real *gate;            /* added to: [rows][channels] */
    tm_real *a, *d;           /* added to: [states][channels], [channels] */
    tm_real *scratch;         /* TM_SCAN_SCRATCH * (steps + 1) * states reals */
};

struct tm_adam_args {
    tm_real beta1, beta2;
    tm_real rest1, rest2; /* 1 - beta, rounded once */
    tm_real step;         /* lr / (1 - beta1^t) */
    tm_real inv_bias2;    /* 1 / sqrt(1 - beta2^t) */
    tm_real eps, weight_decay;
};

struct tm_ops {
    /* y = max(0, y + bias) */
    void (*bias_relu)(tm_real *y, const tm_real *bias, size_t rows, size_t cols);
    /* g = 0 where y = 0; bias_grad += column sums of g */
    void (*relu_back)(tm_real *g, const tm_real *y, tm_real *bias_grad, size_t rows, size_t cols);
    /* sum += column sums of g */
    void (*col_sum)(tm_real *sum, const tm_real *g, size_t rows, size_t cols);
    /* y += x */
    void (*add)(tm_real *y, const tm_real *x, size_t n);
    /* y *= x */
    void (*mul)(tm_real *y, const tm_real *x, size_t n);
    /* y = x w / rms(x); inv[rows] = 1 / rms(x) */
    void (*rmsnorm)(tm_real *y, tm_real *inv, const tm_real *x, const tm_real *w, size_t rows, size_t channels);
    /* gx += ..., gw += ... for g = gradient of y */
    void (*rmsnorm_back)(tm_real *gx, tm_real *gw, const tm_real *g, const tm_real *x, const tm_real *w,
                         const tm_real *inv, size_t rows, size_t channels);
    /* y = silu(z), dy = its derivative; rows of z are ld apart */
    void (*silu)(tm_real *y, tm_real *dy, const tm_real *z, size_t ld, size_t rows, size_t channels);
    /* y = softplus(y + bias), dy = its derivative */
    void (*softplus)(tm_real *y, tm_real *dy, const tm_real *bias, size_t rows, size_t channels);
    /* x = silu(conv), dx = its derivative: [steps][channels] */
    void (*conv)(const struct tm_conv *k, tm_real *x, tm_real *dx);
    /* gx (gradient of x; overwritten), dx as above; gw, gbias, and gin (rows as `in`) are added to */
    void (*conv_back)(const struct tm_conv *k, tm_real *gx, const tm_real *dx, tm_real *gw, tm_real *gbias,
                      tm_real *gin);
    /* q[i] = sum over steps of y_t[i] gate_t[i], or q[t][i] = y_t[i] gate_t[i] */
    void (*scan)(const struct tm_scan *k, tm_real *q);
    void (*scan_back)(const struct tm_scan *k, const struct tm_scan_grad *g);
    /* One step of Adam on w[0..n), gradient g, moments m, v */
    void (*adam)(const struct tm_adam_args *a, tm_real *w, const tm_real *g, tm_real *m, tm_real *v, size_t n);
    /* y = exp(x), n a multiple of TM_CHANNEL_UNIT; for tests */
    void (*exp)(tm_real *y, const tm_real *x, size_t n);

    /* Selection. y = (x - mean) scale, held within +-bound; 0 where x is not finite. Any alignment, any n. */
    void (*standardise)(tm_real *y, const tm_real *x, const tm_real *mean, const tm_real *scale, tm_real bound,
                        size_t n);
    /* out[r] = |x - y_r|^2, or x . y_r; x[cols], y[rows][cols], cols a multiple of TM_CHANNEL_UNIT */
    void (*distances)(const tm_real *x, const tm_real *y, size_t rows, size_t cols, tm_real *out);
    void (*products)(const tm_real *x, const tm_real *y, size_t rows, size_t cols, tm_real *out);
    /* The first place of the minimum of x[n], n > 0 a multiple of TM_CHANNEL_UNIT */
    size_t (*argmin)(const tm_real *x, size_t n);
};

#ifdef TM_DOUBLE
extern const struct tm_ops tm_ops_table_portable_d;
#else
#include "model/simd.h"
const struct tm_ops *tm_ops_get(enum tm_simd_set s); /* NULL when the set is not built in or this CPU cannot run it */
#endif

#ifdef TM_SIMD
/* Inside model/simd_*.c: TM_OP(f) is f_<set>, in the double build f_<set>_d. */
#define TM_PASTE2(a, b) a##_##b
#define TM_PASTE(a, b)  TM_PASTE2(a, b)
#ifdef TM_DOUBLE
#define TM_OP(name) TM_PASTE(TM_PASTE(name, TM_SIMD), d)
#else
#define TM_OP(name) TM_PASTE(name, TM_SIMD)
#endif
void TM_OP(tm_scan_forward)(const struct tm_scan *k, tm_real *q);
void TM_OP(tm_scan_backward)(const struct tm_scan *k, const struct tm_scan_grad *g);
void TM_OP(tm_near_standardise)(tm_real *y, const tm_real *x, const tm_real *mean, const tm_real *scale, tm_real bound,
                                size_t n);
void TM_OP(tm_near_distances)(const tm_real *x, const tm_real *y, size_t rows, size_t cols, tm_real *out);
void TM_OP(tm_near_products)(const tm_real *x, const tm_real *y, size_t rows, size_t cols, tm_real *out);
size_t TM_OP(tm_near_argmin)(const tm_real *x, size_t n);
extern const struct tm_ops TM_OP(tm_ops_table);
#endif

#endif
