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

/* From the head's input to q (sum of gated outputs) and to the residual of every row. */
static void pool_back(const struct tm_params *p, struct tm_tape_mem *m, uint32_t n, tm_real *grad)
{
    const struct tm_hyper *h = &p->h;
    const size_t d = (size_t)h->d_model, cat = d + (h->summary ? (size_t)h->summary_width : 0);

    memset(m->g_pool, 0, n * d * sizeof *m->g_pool);
    for (uint32_t i = 0; i < n; i++)
        p->ops->rmsnorm_back(m->g_pool + i * d, TM_G(p, grad, NORM_F_W), m->g_cat + i * cat, m->pool + i * d,
                             TM_W(p, NORM_F_W), m->inv_f + i, 1, d);
    linear_back_w(n, h->d_model, h->d_model, m->g_pool, h->d_model, m->q, h->d_model, TM_G(p, grad, OUT_PROJ_W));
    linear_back_x(n, h->d_model, h->d_model, m->g_pool, h->d_model, TM_W(p, OUT_PROJ_W), 0, m->g_q, h->d_model);

    memset(m->g_h, 0, m->rows * d * sizeof *m->g_h);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t t = m->start[i]; t < m->start[i + 1]; t++)
            p->ops->add(m->g_h + m->row[t] * d, m->g_pool + i * d, d);
}

static void mix_back(const struct tm_params *p, struct tm_tape_mem *m, uint32_t n, tm_real *grad)
{
    const struct tm_hyper *h = &p->h;
    const size_t d = (size_t)h->d_model;
    const int states = h->d_state, taps = h->d_conv, ld_proj = h->dt_rank + 2 * states;

    memset(m->g_gate, 0, m->rows * d * sizeof *m->g_gate);
    memset(m->g_xz, 0, m->rows * 2 * d * sizeof *m->g_xz);
    memset(m->g_a, 0, (size_t)states * d * sizeof *m->g_a);
    memset(m->g_conv, 0, (size_t)taps * d * sizeof *m->g_conv);

    for (uint32_t i = 0; i < n; i++) {
        const size_t at = m->start[i];
        struct tm_scan k = tm_scan_of(p, m, i);
        struct tm_scan_grad g = {
            .q = m->g_q + i * d,
            .dsoftplus = m->ddelta + at * d,
            .x = m->g_x + at * d,
            .pre = m->g_pre + at * d,
            .b = m->g_proj + at * (size_t)ld_proj + h->dt_rank,
            .c = m->g_proj + at * (size_t)ld_proj + h->dt_rank + states,
            .gate = m->g_gate,
            .a = m->g_a,
            .d = TM_G(p, grad, D),
            .scratch = m->scratch,
        };
        p->ops->scan_back(&k, &g);
    }

    p->ops->col_sum(TM_G(p, grad, DT_PROJ_B), m->g_pre, m->positions, d);
    linear_back_w(m->positions, h->dt_rank, h->d_model, m->g_pre, h->d_model, m->proj, ld_proj,
                  TM_G(p, grad, DT_PROJ_W));
    linear_back_x(m->positions, h->dt_rank, h->d_model, m->g_pre, h->d_model, TM_W(p, DT_PROJ_W), 0, m->g_proj,
                  ld_proj);
    linear_back_w(m->positions, h->d_model, ld_proj, m->g_proj, ld_proj, m->x, h->d_model, TM_G(p, grad, X_PROJ_W));
    linear_back_x(m->positions, h->d_model, ld_proj, m->g_proj, ld_proj, TM_W(p, X_PROJ_W), 1, m->g_x, h->d_model);

    for (uint32_t i = 0; i < n; i++) {
        struct tm_conv k = tm_conv_of(p, m, i);
        p->ops->conv_back(&k, m->g_x + m->start[i] * d, m->dx + m->start[i] * d, m->g_conv, TM_G(p, grad, CONV_B),
                          m->g_xz);
    }

    /* back from the kernels' transposed layout; A = -exp(A_log), so dA / dA_log = A */
    tm_real *a_log = TM_G(p, grad, A_LOG), *conv = TM_G(p, grad, CONV_W);
    for (size_t i = 0; i < d; i++) {
        for (size_t s = 0; s < (size_t)states; s++)
            a_log[i * (size_t)states + s] += m->g_a[s * d + i] * p->a[s * d + i];
        for (size_t s = 0; s < (size_t)taps; s++)
            conv[i * (size_t)taps + s] += m->g_conv[s * d + i];
    }
}

static void embed_back(const struct tm_params *p, struct tm_tape_mem *m, tm_real *grad)
{
    const struct tm_hyper *h = &p->h;
    const size_t d = (size_t)h->d_model;

    p->ops->mul(m->g_gate, m->dgate, m->rows * d);
    for (size_t r = 0; r < m->rows; r++)
        memcpy(m->g_xz + r * 2 * d + d, m->g_gate + r * d, d * sizeof *m->g_xz);
    linear_back_w(m->rows, h->d_model, 2 * h->d_model, m->g_xz, 2 * h->d_model, m->u, h->d_model,
                  TM_G(p, grad, IN_PROJ_W));
    linear_back_x(m->rows, h->d_model, 2 * h->d_model, m->g_xz, 2 * h->d_model, TM_W(p, IN_PROJ_W), 0, m->g_u,
                  h->d_model);
    p->ops->rmsnorm_back(m->g_h, TM_G(p, grad, NORM_W), m->g_u, m->h, TM_W(p, NORM_W), m->inv, m->rows, d);

    p->ops->relu_back(m->g_h, m->h, TM_G(p, grad, EMBED1_B), m->rows, d);
    linear_back_w(m->rows, h->embed, h->d_model, m->g_h, h->d_model, m->e0, h->embed, TM_G(p, grad, EMBED1_W));
    linear_back_x(m->rows, h->embed, h->d_model, m->g_h, h->d_model, TM_W(p, EMBED1_W), 0, m->g_e0, h->embed);
    p->ops->relu_back(m->g_e0, m->e0, TM_G(p, grad, EMBED0_B), m->rows, (size_t)h->embed);
    linear_back_w(m->rows, h->features, h->embed, m->g_e0, h->embed, m->features, h->features, TM_G(p, grad, EMBED0_W));
}

void tm_backward(const struct tm_params *p, struct tm_tape *t, const tm_real *gs, const tm_real *gl, tm_real *grad)
{
    head_back(p, t->mem, t->n, gs, gl, grad);
    pool_back(p, t->mem, t->n, grad);
    mix_back(p, t->mem, t->n, grad);
    embed_back(p, t->mem, grad);
}
