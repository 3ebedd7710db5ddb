/* Weights as the passes read them: the array itself plus the two tensors that the kernels want transposed.
 * A refresh costs microseconds and happens once per optimiser step, on the thread that made it. */
#include "model/real_tape.h"

#include "model/blas.h"
#include "model/mem.h"
#include "model/simd.h"

#include <math.h>

static bool supported(const struct tm_hyper *h)
{
    return h->features > 0 && h->embed > 0 && h->d_model > 0 && h->d_model % TM_CHANNEL_UNIT == 0 && h->d_state > 0 &&
           h->d_state <= TM_MAX_STATE && h->d_conv > 0 && h->d_conv <= TM_MAX_CONV && h->dt_rank > 0 &&
           h->summary >= 0 && (h->summary == 0 || (h->summary_width > 0 && h->summary_width % TM_CHANNEL_UNIT == 0)) &&
           h->head1 > 0 && h->head2 > 0 && h->pooling >= TM_POOL_SUM && h->pooling <= TM_POOL_LAST &&
           h->more_blocks >= 0 && h->more_blocks < TM_MAX_BLOCKS;
}

int tm_params_init(struct tm_params *p, const struct tm_hyper *h, const tm_real *w, struct tp_err *e)
{
    struct tm_params n = {.h = *h, .w = w};
    if (!supported(h))
        return tp_fail(
            e, TP_E_UNUSABLE,
            "this network cannot be trained: d_model must be a multiple of %d, d_state at most %d, d_conv at "
            "most %d",
            TM_CHANNEL_UNIT, TM_MAX_STATE, TM_MAX_CONV);
    n.n = tm_layout(h, n.shape);
#ifdef TM_DOUBLE
    n.ops = &tm_ops_table_portable_d;
#else
    n.ops = tm_ops_get(tm_simd_set());
#endif
    for (int b = 0; b <= h->more_blocks; b++) {
        n.a[b] = tm_alloc((size_t)h->d_state * (size_t)h->d_model, sizeof *n.a[b]);
        n.conv[b] = tm_alloc((size_t)h->d_conv * (size_t)h->d_model, sizeof *n.conv[b]);
        if (!n.a[b] || !n.conv[b]) {
            tm_params_free(&n);
            return tp_fail(e, TP_E_NO_MEMORY, "out of memory for the kernels' copy of the weights");
        }
    }
    tm_blas_init();
    *p = n;
    tm_params_refresh(p);
    return 0;
}

void tm_params_refresh(struct tm_params *p)
{
    const int channels = p->h.d_model, states = p->h.d_state, taps = p->h.d_conv;
    for (int b = 0; b <= p->h.more_blocks; b++) {
        const tm_real *a_log = TM_BLOCK_W(p, b, A_LOG), *conv = TM_BLOCK_W(p, b, CONV_W);
        for (int i = 0; i < channels; i++) {
            for (int n = 0; n < states; n++)
                p->a[b][n * channels + i] = -TM_EXP(a_log[i * states + n]);
            for (int k = 0; k < taps; k++)
                p->conv[b][k * channels + i] = conv[i * taps + k];
        }
    }
}

void tm_params_free(struct tm_params *p)
{
    if (!p)
        return;
    for (int b = 0; b < TM_MAX_BLOCKS; b++) {
        free(p->a[b]);
        free(p->conv[b]);
        p->a[b] = p->conv[b] = NULL;
    }
}
