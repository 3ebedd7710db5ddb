/* Bodies of the vector kernels, written once over a few primitives. Included by kern_avx512.c, kern_avx2.c and
 * kern_neon.c after they defined, for a vector type `vec` of LANES floats:
 *
 *   vload, vstore, vsplat, vadd, vmul, vfma (a b + c), vfnma (c - a b), vmax, vmin, vabs, vrecip (1/x, within 2 ulp),
 *   vsum (of the lanes, in a fixed tree)
 *   vpow2(p, z): p 2^k, where z = k + MAGIC as a float
 *   vexp2(t): 2^t for t <= 126, with no lower bound
 *   PAIRS (optional: the outputs of a layer that is packed in pairs), vload2 (two floats, over and over), vpairs(a, b):
 *   sums of neighbours of a, then of b
 *   EXP2_PRODUCT (optional), vexp2_product(a, b): 2^(a b)
 *   PANEL (vectors of a panel: 2 or 4, a macro; 6 rows of them must fit the registers), KERN_TABLE (name of the table)
 *
 * Order of operations: see kern.h. Each output of `linear` is one chain of fma over the inputs in order, whatever the
 * tile. */
#include "model/kern.h"
#include "model/net.h"

#include <math.h>

#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

enum { I = 128, N = 8, K = 4, R = 8, GROUPS = I / LANES }; /* fixed_mixer */

/* --- elementary functions ---------------------------------------------------------------------------------------- */

#define MAGIC 12582912.0f /* 1.5 * 2^23: adding it rounds to an integer in the low bits */

#ifndef EXP2_PRODUCT
INLINE vec vexp2_product(vec a, vec b)
{
    return vexp2(vmul(a, b));
}
#endif

/* exp: Cody-Waite reduction, then 1 + r + r^2 q(r); q by weighted minimax on |r| <= ln2/2, relative error 1.05e-7. */
INLINE vec vexp(vec x)
{
    x = vmin(vmax(x, vsplat(-87.0f)), vsplat(88.0f));
    vec z = vfma(x, vsplat(1.44269504f), vsplat(MAGIC));
    vec n = vadd(z, vsplat(-MAGIC));
    vec r = vfnma(n, vsplat(0.693359375f), x);
    r = vfnma(n, vsplat(-2.12194440e-4f), r);
    vec q = vfma(vsplat(0.008312524917f), r, vsplat(0.04189011336f));
    q = vfma(q, r, vsplat(0.1666711447f));
    q = vfma(q, r, vsplat(0.4999923179f));
    return vpow2(vadd(vfma(vmul(r, r), q, r), vsplat(1.0f)), z);
}

INLINE vec vsilu(vec x)
{
    return vmul(x, vrecip(vadd(vsplat(1.0f), vexp(vmul(x, vsplat(-1.0f))))));
}

#define LN2 0.6931471806f

/* SiLU(-t ln 2) */
INLINE vec vsilu2(vec t)
{
    vec r = vrecip(vadd(vsplat(1.0f), vexp2(vmin(t, vsplat(126.0f)))));
    return vmul(vmul(t, vsplat(-LN2)), r);
}

/* softplus(t ln 2) = max(t, 0) ln 2 + log1p(e), e = 2^-|t|; log1p(e) = e P(e) on [0,1], minimax, relative error 3e-8.
 */
INLINE vec vsoftplus2(vec t)
{
    vec e = vexp2(vmul(vabs(t), vsplat(-1.0f)));
    vec p = vfma(vsplat(0.005232694893f), e, vsplat(-0.02950524233f));
    p = vfma(p, e, vsplat(0.07822595963f));
    p = vfma(p, e, vsplat(-0.1366324666f));
    p = vfma(p, e, vsplat(0.1910600729f));
    p = vfma(p, e, vsplat(-0.248429824f));
    p = vfma(p, e, vsplat(0.3331909684f));
    p = vfma(p, e, vsplat(-0.4999949314f));
    p = vfma(p, e, vsplat(0.9999999699f));
    return vfma(p, e, vmul(vmax(t, vsplat(0.0f)), vsplat(LN2)));
}

/* --- layers ------------------------------------------------------------------------------------------------------- */

/* ROWS rows of WIDTH vectors of outputs in registers. A macro, so that every bound is a constant where the compiler
 * unrolls. */
#define TILE_FN(ROWS, WIDTH)                                                                                           \
    static void tile_##ROWS##_##WIDTH(const float *w, const float *bias, int in, const float *x, size_t ldx, float *y, \
                                      size_t ldy, unsigned flags)                                                      \
    {                                                                                                                  \
        vec acc[ROWS][WIDTH];                                                                                          \
        const float *start = flags & TM_LINEAR_ADD ? y : bias;                                                         \
        const size_t lds = flags & TM_LINEAR_ADD ? ldy : 0;                                                            \
        UNROLL for (int i = 0; i < ROWS; i++) UNROLL for (int j = 0; j < WIDTH; j++) acc[i][j] =                       \
            vload(start + (size_t)i * lds + j * LANES);                                                                \
        for (int k = 0; k < in; k++) {                                                                                 \
            vec wk[WIDTH];                                                                                             \
            UNROLL for (int j = 0; j < WIDTH; j++) wk[j] = vload(w + (k * WIDTH + j) * LANES);                         \
            UNROLL for (int i = 0; i < ROWS; i++)                                                                      \
            {                                                                                                          \
                vec xk = vsplat(x[(size_t)i * ldx + (size_t)k]);                                                       \
                UNROLL for (int j = 0; j < WIDTH; j++) acc[i][j] = vfma(xk, wk[j], acc[i][j]);                         \
            }                                                                                                          \
        }                                                                                                              \
        UNROLL for (int i = 0; i < ROWS; i++) UNROLL for (int j = 0; j < WIDTH; j++)                                   \
        {                                                                                                              \
            vec v = acc[i][j];                                                                                         \
            vstore(y + (size_t)i * ldy + j * LANES, flags & TM_LINEAR_RELU ? vmax(v, vsplat(0.0f)) : v);               \
        }                                                                                                              \
    }
/* One panel for all rows: whole tiles of 6, then one tile of what is left. */
#define PANEL_FN(WIDTH)                                                                                                \
    TILE_FN(1, WIDTH)                                                                                                  \
    TILE_FN(2, WIDTH)                                                                                                  \
    TILE_FN(3, WIDTH)                                                                                                  \
    TILE_FN(4, WIDTH)                                                                                                  \
    TILE_FN(5, WIDTH)                                                                                                  \
    TILE_FN(6, WIDTH)                                                                                                  \
    static void panel_##WIDTH(const float *w, const float *bias, int in, const float *x, size_t ldx, float *y,         \
                              size_t ldy, size_t rows, unsigned flags)                                                 \
    {                                                                                                                  \
        for (; rows >= 6; rows -= 6, x += 6 * ldx, y += 6 * ldy)                                                       \
            tile_6_##WIDTH(w, bias, in, x, ldx, y, ldy, flags);                                                        \
        switch (rows) {                                                                                                \
        case 1:                                                                                                        \
            tile_1_##WIDTH(w, bias, in, x, ldx, y, ldy, flags);                                                        \
            break;                                                                                                     \
        case 2:                                                                                                        \
            tile_2_##WIDTH(w, bias, in, x, ldx, y, ldy, flags);                                                        \
            break;                                                                                                     \
        case 3:                                                                                                        \
            tile_3_##WIDTH(w, bias, in, x, ldx, y, ldy, flags);                                                        \
            break;                                                                                                     \
        case 4:                                                                                                        \
            tile_4_##WIDTH(w, bias, in, x, ldx, y, ldy, flags);                                                        \
            break;                                                                                                     \
        case 5:                                                                                                        \
            tile_5_##WIDTH(w, bias, in, x, ldx, y, ldy, flags);                                                        \
            break;                                                                                                     \
        }                                                                                                              \
    }
PANEL_FN(1)
PANEL_FN(2)
#ifdef PAIRS
/* Three vectors for two inputs: each holds 8 outputs, input k in the even lanes and k + 1 in the odd ones, so that 24
 * outputs (x_proj) fill the lanes. */
#define TILE_PAIRS_FN(ROWS)                                                                                            \
    static void tile_##ROWS##_pairs(const float *w, const float *bias, int in, const float *x, size_t ldx, float *y,   \
                                    size_t ldy, unsigned flags)                                                        \
    {                                                                                                                  \
        vec acc[ROWS][3];                                                                                              \
        const float *start = flags & TM_LINEAR_ADD ? y : bias;                                                         \
        const size_t lds = flags & TM_LINEAR_ADD ? ldy : 0;                                                            \
        UNROLL for (int i = 0; i < ROWS; i++) UNROLL for (int j = 0; j < 3; j++) acc[i][j] = vsplat(0.0f);             \
        for (int k = 0; k < in; k += 2, w += 3 * LANES) {                                                              \
            vec wk[3];                                                                                                 \
            UNROLL for (int j = 0; j < 3; j++) wk[j] = vload(w + j * LANES);                                           \
            UNROLL for (int i = 0; i < ROWS; i++)                                                                      \
            {                                                                                                          \
                vec xk = vload2(x + (size_t)i * ldx + (size_t)k);                                                      \
                UNROLL for (int j = 0; j < 3; j++) acc[i][j] = vfma(xk, wk[j], acc[i][j]);                             \
            }                                                                                                          \
        }                                                                                                              \
        UNROLL for (int i = 0; i < ROWS; i++)                                                                          \
        {                                                                                                              \
            vec v = vadd(vload(start + (size_t)i * lds), vpairs(acc[i][0], acc[i][1]));                                \
            vec u = vadd(vload(start + (size_t)i * lds + LANES), vpairs(acc[i][2], vsplat(0.0f)));                     \
            vstore(y + (size_t)i * ldy, flags & TM_LINEAR_RELU ? vmax(v, vsplat(0.0f)) : v);                           \
            vstore(y + (size_t)i * ldy + LANES, flags & TM_LINEAR_RELU ? vmax(u, vsplat(0.0f)) : u);                   \
        }                                                                                                              \
    }
TILE_PAIRS_FN(1)
TILE_PAIRS_FN(6)
static void panel_pairs(const float *w, const float *bias, int in, const float *x, size_t ldx, float *y, size_t ldy,
                        size_t rows, unsigned flags)
{
    for (; rows >= 6; rows -= 6, x += 6 * ldx, y += 6 * ldy)
        tile_6_pairs(w, bias, in, x, ldx, y, ldy, flags);
    for (; rows > 0; rows--, x += ldx, y += ldy)
        tile_1_pairs(w, bias, in, x, ldx, y, ldy, flags);
}
#endif
#if PANEL == 4
PANEL_FN(3)
PANEL_FN(4)
#endif

static void linear(const struct tm_linear *l, const float *x, size_t ldx, float *y, size_t ldy, size_t rows,
                   unsigned flags)
{
#ifdef PAIRS
    if (l->pairs) {
        panel_pairs(l->w, l->bias, l->in, x, ldx, y, ldy, rows, flags);
        return;
    }
#endif
    for (int at = 0; at < l->out_padded; at += PANEL * LANES) {
        const float *w = l->w + (size_t)at * (size_t)l->in, *bias = l->bias + at;
        const int left = (l->out_padded - at) / LANES;
        switch (left < PANEL ? left : PANEL) {
        case 1:
            panel_1(w, bias, l->in, x, ldx, y + at, ldy, rows, flags);
            break;
        case 2:
            panel_2(w, bias, l->in, x, ldx, y + at, ldy, rows, flags);
            break;
#if PANEL == 4
        case 3:
            panel_3(w, bias, l->in, x, ldx, y + at, ldy, rows, flags);
            break;
        case 4:
            panel_4(w, bias, l->in, x, ldx, y + at, ldy, rows, flags);
            break;
#endif
        }
    }
}

static void norm(const float *w, const float *x, size_t ldx, float *y, size_t ldy, int n, size_t rows)
{
    for (size_t r = 0; r < rows; r++, x += ldx, y += ldy) {
        vec square = vsplat(0.0f);
        for (int i = 0; i < n; i += LANES)
            square = vfma(vload(x + i), vload(x + i), square);
        vec scale = vsplat(1.0f / sqrtf(vsum(square) / (float)n + (float)TM_NORM_EPS));
        for (int i = 0; i < n; i += LANES)
            vstore(y + i, vmul(vmul(vload(x + i), scale), vload(w + i)));
    }
}

static void silu(float *x, size_t ldx, int n, size_t rows)
{
    for (size_t r = 0; r < rows; r++, x += ldx)
        for (int i = 0; i < n; i += LANES)
            vstore(x + i, vsilu(vload(x + i)));
}

/* --- mixer -------------------------------------------------------------------------------------------------------- */

static void conv(const struct tm_mixer *m, const float *const *row, size_t nodes, float *x)
{
    for (int c = 0; c < I; c += LANES) {
        const vec w0 = vload(m->conv_w + c), w1 = vload(m->conv_w + I + c), w2 = vload(m->conv_w + 2 * I + c),
                  w3 = vload(m->conv_w + 3 * I + c), b = vload(m->conv_b + c);
        vec r0 = vload(row[0] + c), r1 = vload(row[1] + c), r2 = vload(row[2] + c);
        for (size_t i = 0; i < nodes; i++) {
            const vec r3 = vload(row[i + K - 1] + c);
            vec v = vfma(w0, r0, b);
            v = vfma(w1, r1, v);
            v = vfma(w2, r2, v);
            v = vfma(w3, r3, v);
            vstore(x + i * I + c, vsilu2(v));
            r0 = r1;
            r1 = r2;
            r2 = r3;
        }
    }
}

static void delta(const struct tm_mixer *m, const float *t, size_t ldt, size_t nodes, float *out)
{
    for (int c = 0; c < I; c += LANES) {
        vec w[R], b = vload(m->dt_b + c);
        UNROLL for (int r = 0; r < R; r++) w[r] = vload(m->dt_w + r * I + c);
        for (size_t i = 0; i < nodes; i++) {
            vec v = b;
            UNROLL for (int r = 0; r < R; r++) v = vfma(vsplat(t[i * ldt + (size_t)r]), w[r], v);
            vstore(out + i * I + c, vsoftplus2(v));
        }
    }
}

/* Channels outside, nodes inside: the state of one vector of channels stays in registers along the whole path. */
static void scan(const struct tm_mixer *m, const float *in, float *out, size_t nodes, const float *x, const float *dt,
                 const float *t, size_t ldt, const float *const *row, const float *const *next)
{
    for (int c = 0; c < I; c += LANES) {
        vec h[N], a[N], q = vload(in + N * I + c), s = vload(in + (N + 1) * I + c);
        const vec d = vload(m->d + c);
        UNROLL for (int n = 0; n < N; n++)
        {
            h[n] = vload(in + n * I + c);
            a[n] = vload(m->a + n * I + c);
        }
        for (size_t i = 0; i < nodes; i++) {
            const float *b = t + i * ldt + R, *r = row[i];
            const vec di = vload(dt + i * I + c), xi = vload(x + i * I + c), dx = vmul(di, xi);
            vec y = vmul(d, xi);
            UNROLL for (int n = 0; n < N; n++)
            {
                h[n] = vfma(vexp2_product(di, a[n]), h[n], vmul(dx, vsplat(b[n])));
                y = vfma(vsplat(b[N + n]), h[n], y);
            }
            q = vfma(y, vload(tm_row_z(r, I) + c), q);
            s = vadd(s, vload(tm_row_h(r, I) + c));
            __builtin_prefetch(next[i] + c, 0, 2);
            __builtin_prefetch(tm_row_z(next[i], I) + c, 0, 2);
            __builtin_prefetch(tm_row_h(next[i], I) + c, 0, 2);
        }
        UNROLL for (int n = 0; n < N; n++) vstore(out + n * I + c, h[n]);
        vstore(out + N * I + c, q);
        vstore(out + (N + 1) * I + c, s);
    }
}

/* --- for tests ---------------------------------------------------------------------------------------------------- */

static void test_exp(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        vstore(y + i, vexp(vload(x + i)));
}

static void test_exp2(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        vstore(y + i, vexp2(vload(x + i)));
}

static void test_silu2(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        vstore(y + i, vsilu2(vmul(vload(x + i), vsplat(-1.0f))));
}

static void test_softplus2(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        vstore(y + i, vsoftplus2(vload(x + i)));
}

const struct tm_kern KERN_TABLE = {
    .lanes = LANES,
    .panel = PANEL * LANES,
#ifdef PAIRS
    .pairs = PAIRS,
#endif
    .fixed_mixer = true,
    .linear = linear,
    .norm = norm,
    .silu = silu,
    .conv = conv,
    .delta = delta,
    .scan = scan,
    .exp = test_exp,
    .exp2 = test_exp2,
    .silu2 = test_silu2,
    .softplus2 = test_softplus2,
};
