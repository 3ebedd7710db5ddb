/* Kernel set "portable": plain C, any shape within the limits of model/weights.h, and the reference for the other sets.
 *
 * Loops run over contiguous channels so that a compiler can vectorise them without changing the order of any sum. */
#include "model/kern.h"
#include "model/net.h"
#include "model/weights.h"

#include <math.h>
#include <string.h>

enum { PANEL = 256 };

static inline float pow2_of(float p, float z)
{
    uint32_t bits, shift;
    memcpy(&bits, &p, 4);
    memcpy(&shift, &z, 4);
    bits += shift << 23;
    memcpy(&p, &bits, 4);
    return p;
}

static inline float clamp(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

static const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */

/* Cody-Waite reduction, then 1 + r + r^2 q(r); q by weighted minimax on |r| <= ln2/2, relative error 1.05e-7. */
static inline float exp_of(float x)
{
    x = clamp(x, -87.0f, 88.0f);
    float z = x * 1.44269504f + magic, n = z - magic;
    float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float q = ((0.008312524917f * r + 0.04189011336f) * r + 0.1666711447f) * r + 0.4999923179f;
    return pow2_of(r * r * q + r + 1.0f, z);
}

static inline float silu_of(float x)
{
    return x / (1.0f + exp_of(-x));
}

/* 2^t for t <= 126; minimax on |f| <= 1/2, relative error 9.2e-8. */
static inline float exp2_of(float t)
{
    t = t < -125.0f ? -125.0f : t;
    float z = t + magic, f = t - (z - magic);
    float p = ((0.001326472725f * f + 0.009671512688f) * f + 0.05550733744f) * f + 0.2402224208f;
    return pow2_of((p * f + 0.6931469776f) * f + 1.0f, z);
}

static const float ln2 = 0.6931471806f;

/* SiLU(-t ln 2) */
static inline float silu2_of(float t)
{
    return t * -ln2 / (1.0f + exp2_of(t < 126.0f ? t : 126.0f));
}

/* softplus(t ln 2) = max(t, 0) ln 2 + log1p(e), e = 2^-|t|; log1p(e) = e P(e) on [0,1], minimax, relative error 3e-8.
 */
static inline float softplus2_of(float t)
{
    float e = exp2_of(-fabsf(t));
    float p = 0.005232694893f * e + -0.02950524233f;
    p = p * e + 0.07822595963f;
    p = p * e + -0.1366324666f;
    p = p * e + 0.1910600729f;
    p = p * e + -0.248429824f;
    p = p * e + 0.3331909684f;
    p = p * e + -0.4999949314f;
    p = p * e + 0.9999999699f;
    return p * e + (t > 0.0f ? t : 0.0f) * ln2;
}

/* y += w x, four inputs a pass: each output still adds its products in the order of the inputs. */
static void add_products(const float *restrict w, int in, int out, const float *restrict x, float *restrict y)
{
    int k = 0;
    for (; k + 4 <= in; k += 4, w += 4 * out) {
        const float x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];
        for (int j = 0; j < out; j++)
            y[j] = (((y[j] + x0 * w[j]) + x1 * w[out + j]) + x2 * w[2 * out + j]) + x3 * w[3 * out + j];
    }
    for (; k < in; k++, w += out)
        for (int j = 0; j < out; j++)
            y[j] += x[k] * w[j];
}

static void linear(const struct tm_linear *l, const float *x, size_t ldx, float *y, size_t ldy, size_t rows,
                   unsigned flags)
{
    for (size_t r = 0; r < rows; r++, x += ldx, y += ldy) {
        for (int at = 0; at < l->out; at += PANEL) {
            const int width = l->out - at < PANEL ? l->out - at : PANEL;
            if (!(flags & TM_LINEAR_ADD))
                memcpy(y + at, l->bias + at, (size_t)width * sizeof *y);
            add_products(l->w + (size_t)at * (size_t)l->in, l->in, width, x, y + at);
        }
        for (int j = 0; flags & TM_LINEAR_RELU && j < l->out; j++)
            y[j] = y[j] < 0.0f ? 0.0f : y[j];
    }
}

static void norm(const float *w, const float *x, size_t ldx, float *y, size_t ldy, int n, size_t rows)
{
    for (size_t r = 0; r < rows; r++, x += ldx, y += ldy) {
        float square = 0.0f;
        for (int i = 0; i < n; i++)
            square += x[i] * x[i];
        float scale = 1.0f / sqrtf(square / (float)n + (float)TM_NORM_EPS);
        for (int i = 0; i < n; i++)
            y[i] = x[i] * scale * w[i];
    }
}

static void silu(float *x, size_t ldx, int n, size_t rows)
{
    for (size_t r = 0; r < rows; r++, x += ldx)
        for (int i = 0; i < n; i++)
            x[i] = silu_of(x[i]);
}

static void conv(const struct tm_mixer *m, const float *const *row, size_t nodes, float *x)
{
    const int n = m->d_inner;
    for (size_t i = 0; i < nodes; i++, x += n, row++) {
        memcpy(x, m->conv_b, (size_t)n * sizeof *x);
        for (int k = 0; k < m->d_conv; k++)
            for (int c = 0; c < n; c++)
                x[c] += m->conv_w[k * n + c] * row[k][c];
        for (int c = 0; c < n; c++)
            x[c] = silu2_of(x[c]);
    }
}

static void delta(const struct tm_mixer *m, const float *t, size_t ldt, size_t nodes, float *out)
{
    const int n = m->d_inner;
    for (size_t i = 0; i < nodes; i++, out += n, t += ldt) {
        memcpy(out, m->dt_b, (size_t)n * sizeof *out);
        for (int r = 0; r < m->dt_rank; r++)
            for (int c = 0; c < n; c++)
                out[c] += t[r] * m->dt_w[r * n + c];
        for (int c = 0; c < n; c++)
            out[c] = softplus2_of(out[c]);
    }
}

static void scan(const struct tm_mixer *m, const float *in, float *out, size_t nodes, const float *x, const float *dt,
                 const float *t, size_t ldt, const float *const *row, const float *const *next)
{
    const int n = m->d_inner;
    float *q = out + (size_t)m->d_state * (size_t)n, *s = q + n;
    float y[TM_LIMIT_WIDTH];
    (void)next;
    if (in != out)
        memcpy(out, in, tm_state_floats(n, m->d_state) * sizeof *out);
    for (size_t i = 0; i < nodes; i++, x += n, dt += n, t += ldt, row++) {
        const float *b = t + m->dt_rank, *z = tm_row_z(*row, n), *r = tm_row_h(*row, n);
        for (int c = 0; c < n; c++)
            y[c] = m->d[c] * x[c];
        for (int k = 0; k < m->d_state; k++) {
            float *h = out + k * n;
            const float *a = m->a + k * n, bk = b[k], ck = b[m->d_state + k];
            for (int c = 0; c < n; c++) {
                h[c] = exp2_of(dt[c] * a[c]) * h[c] + dt[c] * x[c] * bk;
                y[c] += ck * h[c];
            }
        }
        for (int c = 0; c < n; c++) {
            q[c] += y[c] * z[c];
            s[c] += r[c];
        }
    }
}

static void test_exp(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = exp_of(x[i]);
}

static void test_exp2(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = exp2_of(x[i]);
}

static void test_silu2(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = silu2_of(-x[i]);
}

static void test_softplus2(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = softplus2_of(x[i]);
}

const struct tm_kern tm_kern_portable = {
    .lanes = 1,
    .panel = PANEL,
    .fixed_mixer = false,
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
