/* Training kernels that work on one row or one element at a time: activations, norms, convolution, Adam.
 *
 * Loops without sums over a row are plain C for the compiler to vectorise; the others use model/vec.h, which fixes the
 * order of additions. Nothing here depends on the address or the thread. Compiled once per kernel set. */
#include "model/net.h"
#include "model/ops.h"
#include "model/vec.h"

static void bias_relu(tm_real *restrict y, const tm_real *restrict bias, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, y += cols) {
        for (size_t i = 0; i < cols; i++) {
            tm_real v = y[i] + bias[i];
            y[i] = v > 0 ? v : 0;
        }
    }
}

static void relu_back(tm_real *restrict g, const tm_real *restrict y, tm_real *restrict bias_grad, size_t rows,
                      size_t cols)
{
    for (size_t r = 0; r < rows; r++, g += cols, y += cols) {
        for (size_t i = 0; i < cols; i++) {
            tm_real v = y[i] > 0 ? g[i] : 0;
            g[i] = v;
            bias_grad[i] += v;
        }
    }
}

static void col_sum(tm_real *restrict sum, const tm_real *restrict g, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++, g += cols)
        for (size_t i = 0; i < cols; i++)
            sum[i] += g[i];
}

static void add(tm_real *restrict y, const tm_real *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

static void mul(tm_real *restrict y, const tm_real *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] *= x[i];
}

static void rmsnorm(tm_real *y, tm_real *inv, const tm_real *x, const tm_real *w, size_t rows, size_t channels)
{
    for (size_t r = 0; r < rows; r++, x += channels, y += channels) {
        tm_vec sum = v_set(0);
        for (size_t i = 0; i < channels; i += TM_LANES)
            sum += v_load(x + i) * v_load(x + i);
        inv[r] = 1 / TM_SQRT(v_sum(sum) / (tm_real)channels + (tm_real)TM_NORM_EPS);
        for (size_t i = 0; i < channels; i += TM_LANES)
            v_store(y + i, v_load(x + i) * inv[r] * v_load(w + i));
    }
}

/* y = x w s, s = (mean(x^2) + eps)^-1/2:  dx = s (g w - x s^2 mean(g w x)) */
static void rmsnorm_back(tm_real *gx, tm_real *gw, const tm_real *g, const tm_real *x, const tm_real *w,
                         const tm_real *inv, size_t rows, size_t channels)
{
    for (size_t r = 0; r < rows; r++, gx += channels, g += channels, x += channels) {
        tm_vec sum = v_set(0);
        tm_real s = inv[r];
        for (size_t i = 0; i < channels; i += TM_LANES) {
            tm_vec gi = v_load(g + i), xi = v_load(x + i);
            sum += gi * v_load(w + i) * xi;
            v_store(gw + i, v_load(gw + i) + gi * xi * s);
        }
        tm_real along = v_sum(sum) * s * s / (tm_real)channels;
        for (size_t i = 0; i < channels; i += TM_LANES)
            v_store(gx + i, v_load(gx + i) + s * (v_load(g + i) * v_load(w + i) - v_load(x + i) * along));
    }
}

/* silu(c) = c sigmoid(c), and its derivative sigmoid(c) + silu(c) (1 - sigmoid(c)) */
TM_INLINE void silu_store(tm_real *y, tm_real *dy, tm_vec c)
{
    tm_vec s = v_sigmoid(c), x = c * s;
    v_store(y, x);
    v_store(dy, s + x * (1 - s));
}

static void silu(tm_real *y, tm_real *dy, const tm_real *z, size_t ld, size_t rows, size_t channels)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < channels; i += TM_LANES)
            silu_store(y + r * channels + i, dy + r * channels + i, v_load(z + r * ld + i));
}

/* max(a, 0) + ln(1 + exp(-|a|)); its derivative, the sigmoid, from the same exponential */
static void softplus(tm_real *y, tm_real *dy, const tm_real *bias, size_t rows, size_t channels)
{
    for (size_t r = 0; r < rows; r++, y += channels, dy += channels) {
        for (size_t i = 0; i < channels; i += TM_LANES) {
            tm_vec a = v_load(y + i) + v_load(bias + i);
            tm_vec u = v_exp(-v_max(-a, a));
            v_store(y + i, v_max(v_set(0), a) + v_log1p(u));
            v_store(dy + i, v_select(a < 0, u, v_set(1)) / (1 + u));
        }
    }
}

TM_INLINE void conv_rows(const struct tm_conv *k, tm_real *x, tm_real *dx, int taps)
{
    const size_t channels = (size_t)k->channels;
    for (int t = 0; t < k->steps; t++) {
        for (size_t i = 0; i < channels; i += TM_LANES) {
            tm_vec c = v_load(k->bias + i);
            TM_UNROLL
            for (int j = 0; j < taps; j++) {
                int from = t - (taps - 1) + j;
                if (from >= 0)
                    c += v_load(k->w + (size_t)j * channels + i) * v_load(k->in + k->row[from] * (size_t)k->ld_in + i);
            }
            silu_store(x + (size_t)t * channels + i, dx + (size_t)t * channels + i, c);
        }
    }
}

static void conv(const struct tm_conv *k, tm_real *x, tm_real *dx)
{
    if (k->taps == 4)
        conv_rows(k, x, dx, 4);
    else
        conv_rows(k, x, dx, k->taps);
}

/* A step's input met taps outputs: its own and the next taps - 1. Gathering them means one update of `gin` per step. */
TM_INLINE void conv_rows_back(const struct tm_conv *k, tm_real *gx, const tm_real *dx, tm_real *gw, tm_real *gbias,
                              tm_real *gin, int taps)
{
    const size_t channels = (size_t)k->channels, ld = (size_t)k->ld_in;
    for (size_t i = 0; i < channels; i += TM_LANES) {
        tm_vec w[TM_MAX_CONV] = {{0}}, sum_w[TM_MAX_CONV] = {{0}}, sum = v_set(0);
        TM_UNROLL
        for (int j = 0; j < taps; j++)
            w[j] = v_load(k->w + (size_t)j * channels + i);
        for (int t = 0; t < k->steps; t++) {
            tm_real *at = gx + (size_t)t * channels + i;
            tm_vec gc = v_load(at) * v_load(dx + (size_t)t * channels + i);
            v_store(at, gc);
            sum += gc;
        }
        for (int t = 0; t < k->steps; t++) {
            tm_vec in = v_load(k->in + k->row[t] * ld + i), g = v_set(0);
            TM_UNROLL
            for (int j = 0; j < taps; j++) {
                int to = t + (taps - 1) - j;
                if (to < k->steps) {
                    tm_vec gc = v_load(gx + (size_t)to * channels + i);
                    g += w[j] * gc;
                    sum_w[j] += in * gc;
                }
            }
            tm_real *at = gin + k->row[t] * ld + i;
            v_store(at, v_load(at) + g);
        }
        TM_UNROLL
        for (int j = 0; j < taps; j++) {
            tm_real *at = gw + (size_t)j * channels + i;
            v_store(at, v_load(at) + sum_w[j]);
        }
        v_store(gbias + i, v_load(gbias + i) + sum);
    }
}

static void conv_back(const struct tm_conv *k, tm_real *gx, const tm_real *dx, tm_real *gw, tm_real *gbias,
                      tm_real *gin)
{
    if (k->taps == 4)
        conv_rows_back(k, gx, dx, gw, gbias, gin, 4);
    else
        conv_rows_back(k, gx, dx, gw, gbias, gin, k->taps);
}

/* torch.optim.Adam: L2 decay joins the gradient before the moments */
static void adam(const struct tm_adam_args *a, tm_real *restrict w, const tm_real *restrict g, tm_real *restrict m,
                 tm_real *restrict v, size_t n)
{
    const tm_real b1 = a->beta1, b2 = a->beta2, r1 = a->rest1, r2 = a->rest2, step = a->step, inv = a->inv_bias2,
                  eps = a->eps;
    const tm_real decay = a->weight_decay;
    for (size_t i = 0; i < n; i++) {
        tm_real gi = g[i] + decay * w[i];
        m[i] = b1 * m[i] + r1 * gi;
        v[i] = b2 * v[i] + r2 * gi * gi;
        w[i] -= step * m[i] / (TM_SQRT(v[i]) * inv + eps);
    }
}

static void exp_all(tm_real *y, const tm_real *x, size_t n)
{
    for (size_t i = 0; i < n; i += TM_LANES)
        v_store(y + i, v_exp(v_load(x + i)));
}

const struct tm_ops TM_OP(tm_ops_table) = {
    .bias_relu = bias_relu,
    .relu_back = relu_back,
    .col_sum = col_sum,
    .add = add,
    .mul = mul,
    .rmsnorm = rmsnorm,
    .rmsnorm_back = rmsnorm_back,
    .silu = silu,
    .softplus = softplus,
    .conv = conv,
    .conv_back = conv_back,
    .scan = TM_OP(tm_scan_forward),
    .scan_back = TM_OP(tm_scan_backward),
    .adam = adam,
    .exp = exp_all,
    .standardise = TM_OP(tm_near_standardise),
    .distances = TM_OP(tm_near_distances),
    .products = TM_OP(tm_near_products),
    .argmin = TM_OP(tm_near_argmin),
};
