/* The selective scan and its gradient, for one program.
 *
 * Channels never meet in the scan, so both kernels take TM_LANES of them at a time through all steps: the state and the
 * gradient it carries stay in registers. The gradient runs the scan again first and keeps every state and every decay
 * of its lanes in `scratch` (a few KB, near the core) rather than have the forward pass write them out for all
 * channels. Sums over channels (for B and C) are kept per lane until the last block and folded in a fixed order.
 * Reentrant; compiled once per kernel set. */
#include "model/ops.h"
#include "model/vec.h"

TM_INLINE void forward(const struct tm_scan *k, tm_real *q, int states, bool each)
{
    const size_t channels = (size_t)k->channels;
    for (size_t i = 0; i < channels; i += TM_LANES) {
        tm_vec h[TM_MAX_STATE], a[TM_MAX_STATE];
        tm_vec sum = v_set(0), d = v_load(k->d + i);
        TM_UNROLL
        for (int n = 0; n < states; n++) {
            h[n] = v_set(0);
            a[n] = v_load(k->a + (size_t)n * channels + i);
        }
        for (int t = 0; t < k->steps; t++) {
            const tm_real *b = k->b + (size_t)t * (size_t)k->ld_bc, *c = k->c + (size_t)t * (size_t)k->ld_bc;
            tm_vec x = v_load(k->x + (size_t)t * channels + i);
            tm_vec delta = v_load(k->delta + (size_t)t * channels + i);
            tm_vec y = d * x, dx = delta * x;
            TM_UNROLL
            for (int n = 0; n < states; n++) {
                h[n] = v_exp(delta * a[n]) * h[n] + dx * b[n];
                y += c[n] * h[n];
            }
            tm_vec gate = v_load(k->gate + k->row[t] * channels + i);
            if (each)
                v_store(q + (size_t)t * channels + i, y * gate);
            else
                sum += y * gate;
        }
        if (!each)
            v_store(q + i, sum);
    }
}

/* Scratch: decay and state of each step, and the lanes of the gradients of B and C: [steps][states] vectors each, and
 * one zero state before the first step. */
TM_INLINE void backward(const struct tm_scan *k, const struct tm_scan_grad *g, int states, bool each)
{
    const size_t channels = (size_t)k->channels, ld = (size_t)k->ld_bc;
    const size_t step = (size_t)states * TM_LANES, all = (size_t)k->steps * step;
    tm_real *decay = g->scratch, *state = decay + all + step, *lanes_b = state + all, *lanes_c = lanes_b + all;
    const tm_vec zero = v_set(0);

    for (size_t j = 0; j < 2 * all; j += TM_LANES)
        v_store(lanes_b + j, zero);
    for (size_t j = 0; j < step; j += TM_LANES)
        v_store(decay + all + j, zero);

    for (size_t i = 0; i < channels; i += TM_LANES) {
        tm_vec h[TM_MAX_STATE], a[TM_MAX_STATE], carry[TM_MAX_STATE], sum_a[TM_MAX_STATE];
        tm_vec d = v_load(k->d + i), gq = v_load(g->q + i), sum_d = zero;
        TM_UNROLL
        for (int n = 0; n < states; n++) {
            h[n] = zero;
            a[n] = v_load(k->a + (size_t)n * channels + i);
        }
        for (int t = 0; t < k->steps; t++) {
            const tm_real *b = k->b + (size_t)t * ld, *c = k->c + (size_t)t * ld;
            tm_real *decay_t = decay + (size_t)t * step, *state_t = state + (size_t)t * step;
            tm_vec x = v_load(k->x + (size_t)t * channels + i);
            tm_vec delta = v_load(k->delta + (size_t)t * channels + i);
            tm_vec y = d * x, dx = delta * x;
            TM_UNROLL
            for (int n = 0; n < states; n++) {
                tm_vec e = v_exp(delta * a[n]);
                h[n] = e * h[n] + dx * b[n];
                y += c[n] * h[n];
                v_store(decay_t + n * TM_LANES, e);
                v_store(state_t + n * TM_LANES, h[n]);
            }
            tm_real *gate = g->gate + k->row[t] * channels + i;
            if (each)
                gq = v_load(g->q + (size_t)t * channels + i);
            v_store(gate, v_load(gate) + gq * y);
        }

        TM_UNROLL
        for (int n = 0; n < states; n++)
            carry[n] = sum_a[n] = zero;
        for (int t = k->steps - 1; t >= 0; t--) {
            const tm_real *b = k->b + (size_t)t * ld, *c = k->c + (size_t)t * ld;
            const tm_real *decay_t = decay + (size_t)t * step, *state_t = state + (size_t)t * step;
            tm_real *gb = lanes_b + (size_t)t * step, *gc = lanes_c + (size_t)t * step;
            tm_vec x = v_load(k->x + (size_t)t * channels + i);
            tm_vec delta = v_load(k->delta + (size_t)t * channels + i);
            if (each)
                gq = v_load(g->q + (size_t)t * channels + i);
            tm_vec gy = gq * v_load(k->gate + k->row[t] * channels + i);
            tm_vec dx = delta * x, g_dx = zero, g_delta = zero;
            TM_UNROLL
            for (int n = 0; n < states; n++) {
                const tm_real *before = state_t - step + n * TM_LANES;
                tm_vec gh = carry[n] + c[n] * gy;
                v_store(gc + n * TM_LANES, v_load(gc + n * TM_LANES) + gy * v_load(state_t + n * TM_LANES));
                v_store(gb + n * TM_LANES, v_load(gb + n * TM_LANES) + gh * dx);
                g_dx += gh * b[n];
                carry[n] = gh * v_load(decay_t + n * TM_LANES);
                tm_vec g_arg = carry[n] * v_load(before); /* gradient of delta * a */
                sum_a[n] += g_arg * delta;
                g_delta += g_arg * a[n];
            }
            sum_d += gy * x;
            v_store(g->x + (size_t)t * channels + i, g_dx * delta + gy * d);
            v_store(g->pre + (size_t)t * channels + i,
                    (g_dx * x + g_delta) * v_load(g->dsoftplus + (size_t)t * channels + i));
        }

        TM_UNROLL
        for (int n = 0; n < states; n++) {
            tm_real *ga = g->a + (size_t)n * channels + i;
            v_store(ga, v_load(ga) + sum_a[n]);
        }
        v_store(g->d + i, v_load(g->d + i) + sum_d);
    }

    for (int t = 0; t < k->steps; t++) {
        for (int n = 0; n < states; n++) {
            g->b[(size_t)t * ld + (size_t)n] = v_sum(v_load(lanes_b + (size_t)t * step + n * TM_LANES));
            g->c[(size_t)t * ld + (size_t)n] = v_sum(v_load(lanes_c + (size_t)t * step + n * TM_LANES));
        }
    }
}

/* The published configuration, d_state 8, is compiled with its loops unrolled. */
void TM_OP(tm_scan_forward)(const struct tm_scan *k, tm_real *q)
{
    if (k->each)
        forward(k, q, k->states, true);
    else if (k->states == 8)
        forward(k, q, 8, false);
    else
        forward(k, q, k->states, false);
}

void TM_OP(tm_scan_backward)(const struct tm_scan *k, const struct tm_scan_grad *g)
{
    if (k->each)
        backward(k, g, k->states, true);
    else if (k->states == 8)
        backward(k, g, 8, false);
    else
        backward(k, g, k->states, false);
}
