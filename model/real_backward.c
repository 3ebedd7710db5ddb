/* Backward pass: the forward pass of model/real_forward.c, line by line from its end.
 *
 * Gradients of positions are gathered per distinct row (g_gate, g_xz, g_h) before the GEMMs of in_proj and the
 * embedding, which therefore run once per distinct row, like the forward ones. */
#include "model/real_tape.h"

#include <string.h>

static void head_back(const struct tm_params *p, struct tm_tape_mem *m, uint32_t n, const tm_real *gs,
                      const tm_real *gl, tm_real *grad)
{
    const struct tm_hyper *h = &p->h;
    const size_t d = (size_t)h->d_model, width = h->summary ? (size_t)h->summary_width : 0, cat = d + width;

    for (uint32_t i = 0; i < n; i++) {
        m->g_out[2 * i] = gs ? gs[i] : 0;
        m->g_out[2 * i + 1] = gl ? gl[i] : 0;
    }
    p->ops->col_sum(TM_G(p, grad, HEAD2_B), m->g_out, n, 2);
    linear_back_w(n, h->head2, 2, m->g_out, 2, m->h1, h->head2, TM_G(p, grad, HEAD2_W));
    linear_back_x(n, h->head2, 2, m->g_out, 2, TM_W(p, HEAD2_W), 0, m->g_h1, h->head2);

    p->ops->relu_back(m->g_h1, m->h1, TM_G(p, grad, HEAD1_B), n, (size_t)h->head2);
    linear_back_w(n, h->head1, h->head2, m->g_h1, h->head2, m->h0, h->head1, TM_G(p, grad, HEAD1_W));
    linear_back_x(n, h->head1, h->head2, m->g_h1, h->head2, TM_W(p, HEAD1_W), 0, m->g_h0, h->head1);

    p->ops->relu_back(m->g_h0, m->h0, TM_G(p, grad, HEAD0_B), n, (size_t)h->head1);
    linear_back_w(n, (int)cat, h->head1, m->g_h0, h->head1, m->cat, (int)cat, TM_G(p, grad, HEAD0_W));
    linear_back_x(n, (int)cat, h->head1, m->g_h0, h->head1, TM_W(p, HEAD0_W), 0, m->g_cat, (int)cat);

    if (h->summary) {
        for (uint32_t i = 0; i < n; i++) {
            memcpy(m->g_s1 + i * width, m->g_cat + i * cat + d, width * sizeof *m->g_s1);
            p->ops->relu_back(m->g_s1 + i * width, m->cat + i * cat + d, TM_G(p, grad, SUMMARY1_B), 1, width);
        }
        linear_back_w(n, h->summary_width, h->summary_width, m->g_s1, h->summary_width, m->s0, h->summary_width,
                      TM_G(p, grad, SUMMARY1_W));
        linear_back_x(n, h->summary_width, h->summary_width, m->g_s1, h->summary_width, TM_W(p, SUMMARY1_W), 0, m->g_s0,
                      h->summary_width);
        p->ops->relu_back(m->g_s0, m->s0, TM_G(p, grad, SUMMARY0_B), n, width);
        linear_back_w(n, h->summary, h->summary_width, m->g_s0, h->summary_width, m->summary, h->summary,
                      TM_G(p, grad, SUMMARY0_W));
    }
}

/* From the head's input to q and h of the last block. */
static void pool_back(const struct tm_params *p, struct tm_tape_mem *m, uint32_t n, tm_real *grad)
{
    const struct tm_hyper *h = &p->h;
    const int b = h->more_blocks;
    struct tm_block *k = &m->block[b];
    const size_t d = (size_t)h->d_model, cat = d + (h->summary ? (size_t)h->summary_width : 0);

    memset(m->g_pool, 0, n * d * sizeof *m->g_pool);
    for (uint32_t i = 0; i < n; i++)
        p->ops->rmsnorm_back(m->g_pool + i * d, TM_G(p, grad, NORM_F_W), m->g_cat + i * cat, m->pool + i * d,
                             TM_W(p, NORM_F_W), m->inv_f + i, 1, d);
    if (h->pooling == TM_POOL_MEAN)
        tm_pool_divide(m, m->g_pool, n, d);
    linear_back_w(n, h->d_model, h->d_model, m->g_pool, h->d_model, m->q, h->d_model,
                  TM_BLOCK_G(p, b, grad, OUT_PROJ_W));
    linear_back_x(n, h->d_model, h->d_model, m->g_pool, h->d_model, TM_BLOCK_W(p, b, OUT_PROJ_W), 0, m->g_q,
                  h->d_model);
    if (h->pooling == TM_POOL_LAST)
        memset(k->g_q, 0, m->positions * d * sizeof *k->g_q);
    for (uint32_t i = 0; h->pooling == TM_POOL_LAST && i < n; i++)
        memcpy(k->g_q + tm_pool_from(h, m, i) * d, m->g_q + i * d, d * sizeof *k->g_q);

    memset(k->g_h, 0, k->rows * d * sizeof *k->g_h);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t t = tm_pool_from(h, m, i); t < m->start[i + 1]; t++)
            p->ops->add(k->g_h + k->row[t] * d, m->g_pool + i * d, d);
}

/* From h of block b + 1 to q and h of block b. */
static void pass_back(const struct tm_params *p, struct tm_tape_mem *m, int b, tm_real *grad)
{
    struct tm_block *k = &m->block[b];
    const tm_real *g = m->block[b + 1].g_h;
    const int d_model = p->h.d_model;
    const size_t d = (size_t)d_model;

    linear_back_w(m->positions, d_model, d_model, g, d_model, k->q, d_model, TM_BLOCK_G(p, b, grad, OUT_PROJ_W));
    linear_back_x(m->positions, d_model, d_model, g, d_model, TM_BLOCK_W(p, b, OUT_PROJ_W), 0, k->g_q, d_model);
    memset(k->g_h, 0, k->rows * d * sizeof *k->g_h);
    for (size_t t = 0; t < m->positions; t++)
        p->ops->add(k->g_h + k->row[t] * d, g + t * d, d);
}

/* From the block's q to its gate and to the inner half of its in_proj. */
static void positions_back(const struct tm_params *p, struct tm_tape_mem *m, int b, uint32_t n, tm_real *grad)
{
    const struct tm_hyper *h = &p->h;
    struct tm_block *k = &m->block[b];
    const size_t d = (size_t)h->d_model;
    const int states = h->d_state, taps = h->d_conv, ld_proj = h->dt_rank + 2 * states;

    memset(k->g_gate, 0, k->rows * d * sizeof *k->g_gate);
    memset(k->g_xz, 0, k->rows * 2 * d * sizeof *k->g_xz);
    memset(m->g_a, 0, (size_t)states * d * sizeof *m->g_a);
    memset(m->g_conv, 0, (size_t)taps * d * sizeof *m->g_conv);

    for (uint32_t i = 0; i < n; i++) {
        const size_t at = m->start[i];
        struct tm_scan s = tm_scan_of(p, m, b, i);
        struct tm_scan_grad g = {
            .q = tm_block_q(p, m, b, k->g_q, i),
            .dsoftplus = k->ddelta + at * d,
            .x = k->g_x + at * d,
            .pre = k->g_pre + at * d,
            .b = k->g_proj + at * (size_t)ld_proj + h->dt_rank,
            .c = k->g_proj + at * (size_t)ld_proj + h->dt_rank + states,
            .gate = k->g_gate,
            .a = m->g_a,
            .d = TM_BLOCK_G(p, b, grad, D),
            .scratch = m->scratch,
        };
        p->ops->scan_back(&s, &g);
    }

    p->ops->col_sum(TM_BLOCK_G(p, b, grad, DT_PROJ_B), k->g_pre, m->positions, d);
    linear_back_w(m->positions, h->dt_rank, h->d_model, k->g_pre, h->d_model, k->proj, ld_proj,
                  TM_BLOCK_G(p, b, grad, DT_PROJ_W));
    linear_back_x(m->positions, h->dt_rank, h->d_model, k->g_pre, h->d_model, TM_BLOCK_W(p, b, DT_PROJ_W), 0, k->g_proj,
                  ld_proj);
    linear_back_w(m->positions, h->d_model, ld_proj, k->g_proj, ld_proj, k->x, h->d_model,
                  TM_BLOCK_G(p, b, grad, X_PROJ_W));
    linear_back_x(m->positions, h->d_model, ld_proj, k->g_proj, ld_proj, TM_BLOCK_W(p, b, X_PROJ_W), 1, k->g_x,
                  h->d_model);

    for (uint32_t i = 0; i < n; i++) {
        struct tm_conv c = tm_conv_of(p, m, b, i);
        p->ops->conv_back(&c, k->g_x + m->start[i] * d, k->dx + m->start[i] * d, m->g_conv,
                          TM_BLOCK_G(p, b, grad, CONV_B), k->g_xz);
    }

    /* back from the kernels' transposed layout; A = -exp(A_log), so dA / dA_log = A */
    tm_real *a_log = TM_BLOCK_G(p, b, grad, A_LOG), *conv = TM_BLOCK_G(p, b, grad, CONV_W);
    for (size_t i = 0; i < d; i++) {
        for (size_t s = 0; s < (size_t)states; s++)
            a_log[i * (size_t)states + s] += m->g_a[s * d + i] * p->a[b][s * d + i];
        for (size_t s = 0; s < (size_t)taps; s++)
            conv[i * (size_t)taps + s] += m->g_conv[s * d + i];
    }
}

/* From the block's q to its h, whose gradient holds that of the residual already. */
static void mix_back(const struct tm_params *p, struct tm_tape_mem *m, int b, uint32_t n, tm_real *grad)
{
    const int d_model = p->h.d_model;
    const size_t d = (size_t)d_model;
    struct tm_block *k = &m->block[b];

    positions_back(p, m, b, n, grad);
    p->ops->mul(k->g_gate, k->dgate, k->rows * d);
    for (size_t r = 0; r < k->rows; r++)
        memcpy(k->g_xz + r * 2 * d + d, k->g_gate + r * d, d * sizeof *k->g_xz);
    linear_back_w(k->rows, d_model, 2 * d_model, k->g_xz, 2 * d_model, k->u, d_model,
                  TM_BLOCK_G(p, b, grad, IN_PROJ_W));
    linear_back_x(k->rows, d_model, 2 * d_model, k->g_xz, 2 * d_model, TM_BLOCK_W(p, b, IN_PROJ_W), 0, k->g_u, d_model);
    p->ops->rmsnorm_back(k->g_h, TM_BLOCK_G(p, b, grad, NORM_W), k->g_u, k->h, TM_BLOCK_W(p, b, NORM_W), k->inv,
                         k->rows, d);
}

static void embed_back(const struct tm_params *p, struct tm_tape_mem *m, tm_real *grad)
{
    const struct tm_hyper *h = &p->h;
    const struct tm_block *k = &m->block[0];

    p->ops->relu_back(k->g_h, k->h, TM_G(p, grad, EMBED1_B), m->rows, (size_t)h->d_model);
    linear_back_w(m->rows, h->embed, h->d_model, k->g_h, h->d_model, m->e0, h->embed, TM_G(p, grad, EMBED1_W));
    linear_back_x(m->rows, h->embed, h->d_model, k->g_h, h->d_model, TM_W(p, EMBED1_W), 0, m->g_e0, h->embed);
    p->ops->relu_back(m->g_e0, m->e0, TM_G(p, grad, EMBED0_B), m->rows, (size_t)h->embed);
    linear_back_w(m->rows, h->features, h->embed, m->g_e0, h->embed, m->features, h->features, TM_G(p, grad, EMBED0_W));
}

void tm_backward(const struct tm_params *p, struct tm_tape *t, const tm_real *gs, const tm_real *gl, tm_real *grad)
{
    head_back(p, t->mem, t->n, gs, gl, grad);
    pool_back(p, t->mem, t->n, grad);
    for (int b = p->h.more_blocks; b >= 0; b--) {
        mix_back(p, t->mem, b, t->n, grad);
        if (b > 0)
            pass_back(p, t->mem, b - 1, grad);
    }
    embed_back(p, t->mem, grad);
}
