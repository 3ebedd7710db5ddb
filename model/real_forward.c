/* Forward pass on a list of programs (docs/model.md section 2).
 *
 * Programs of one task repeat their rows, and everything before the convolution is pointwise in a row: the list is
 * indexed by distinct rows first, embedding, norm and in_proj run once per distinct row, convolution and scan gather
 * from there. out_proj is linear, so it and the residual run once per program, behind the sum over rows. */
#include "model/real_tape.h"

#include "model/mem.h"

struct tm_tape *tm_tape_new(void)
{
    struct tm_tape *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->mem = calloc(1, sizeof *t->mem);
    if (!t->mem) {
        free(t);
        return NULL;
    }
    return t;
}

void tm_tape_free(struct tm_tape *t)
{
    if (!t)
        return;
    free(t->mem->start);
    free(t->mem->row);
    free(t->mem->source);
    free(t->mem->slot);
    free(t->mem->arena);
    free(t->mem);
    free(t);
}

/* Number the distinct rows of the list in order of first use. */
static int index_rows(struct tm_tape_mem *m, const struct tm_dataset *ds, const uint32_t *programs, uint32_t n)
{
    size_t positions = 0, longest = 0;
    for (uint32_t i = 0; i < n; i++) {
        size_t len = ds->start[programs[i] + 1] - ds->start[programs[i]];
        positions += len;
        longest = len > longest ? len : longest;
    }
    if (positions > INT32_MAX || tm_grow((void **)&m->start, &m->cap_start, (size_t)n + 1, sizeof *m->start) ||
        tm_grow((void **)&m->row, &m->cap_row, positions, sizeof *m->row) ||
        tm_grow((void **)&m->source, &m->cap_source, positions, sizeof *m->source) ||
        tm_grow((void **)&m->slot, &m->cap_slot, ds->n_rows, sizeof *m->slot))
        return -TP_E_NO_MEMORY;

    uint32_t rows = 0, at = 0;
    for (uint32_t i = 0; i < n; i++) {
        m->start[i] = at;
        for (uint32_t j = ds->start[programs[i]]; j < ds->start[programs[i] + 1]; j++) {
            uint32_t id = ds->ids[j];
            if (m->slot[id] == 0) {
                m->source[rows] = id;
                m->slot[id] = ++rows;
            }
            m->row[at++] = m->slot[id] - 1;
        }
    }
    m->start[n] = at;
    for (uint32_t r = 0; r < rows; r++)
        m->slot[m->source[r]] = 0;
    m->rows = rows;
    m->positions = positions;
    m->longest = longest;
    return 0;
}

/* Lay the arrays out in the arena: once to count, once to place. */
static size_t place(struct tm_tape_mem *m, const struct tm_hyper *h, size_t n, tm_real *base)
{
    const size_t d = (size_t)h->d_model, states = (size_t)h->d_state, width = (size_t)h->summary_width;
    const size_t proj = (size_t)h->dt_rank + 2 * states;
    const size_t summary = (size_t)h->summary, cat = d + (summary ? width : 0);
    const struct {
        tm_real **array;
        size_t rows, cols;
    } table[] = {
        {&m->features, m->rows, (size_t)h->features},
        {&m->e0, m->rows, (size_t)h->embed},
        {&m->h, m->rows, d},
        {&m->inv, m->rows, 1},
        {&m->u, m->rows, d},
        {&m->xz, m->rows, 2 * d},
        {&m->gate, m->rows, d},
        {&m->dgate, m->rows, d},
        {&m->x, m->positions, d},
        {&m->dx, m->positions, d},
        {&m->delta, m->positions, d},
        {&m->ddelta, m->positions, d},
        {&m->proj, m->positions, proj},
        {&m->q, n, d},
        {&m->pool, n, d},
        {&m->inv_f, n, 1},
        {&m->summary, n, summary},
        {&m->s0, n, width},
        {&m->cat, n, cat},
        {&m->h0, n, (size_t)h->head1},
        {&m->h1, n, (size_t)h->head2},
        {&m->out, n, 2},
        {&m->s, n, 1},
        {&m->l, n, 1},
        {&m->g_out, n, 2},
        {&m->g_h1, n, (size_t)h->head2},
        {&m->g_h0, n, (size_t)h->head1},
        {&m->g_cat, n, cat},
        {&m->g_s1, n, width},
        {&m->g_s0, n, width},
        {&m->g_pool, n, d},
        {&m->g_q, n, d},
        {&m->g_x, m->positions, d},
        {&m->g_pre, m->positions, d},
        {&m->g_proj, m->positions, proj},
        {&m->g_gate, m->rows, d},
        {&m->g_xz, m->rows, 2 * d},
        {&m->g_u, m->rows, d},
        {&m->g_h, m->rows, d},
        {&m->g_e0, m->rows, (size_t)h->embed},
        {&m->g_a, states, d},
        {&m->g_conv, (size_t)h->d_conv, d},
        {&m->scratch, (m->longest + 1) * states, TM_SCAN_SCRATCH},
    };
    const size_t unit = TM_ALIGN / sizeof(tm_real);
    size_t used = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (base)
            *table[i].array = base + used;
        used += (table[i].rows * table[i].cols + unit - 1) / unit * unit;
    }
    return used;
}

static int reserve(struct tm_tape_mem *m, const struct tm_hyper *h, size_t n)
{
    size_t need = place(m, h, n, NULL);
    if (need > m->arena_cap) {
        free(m->arena);
        m->arena_cap = 0;
        m->arena = tm_alloc(need + need / 4, sizeof *m->arena);
        if (!m->arena)
            return -TP_E_NO_MEMORY;
        m->arena_cap = need + need / 4;
    }
    place(m, h, n, m->arena);
    return 0;
}

static void add_bias(tm_real *y, const tm_real *bias, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < cols; i++)
            y[r * cols + i] += bias[i];
}

static void embed_rows(const struct tm_params *p, struct tm_tape_mem *m, const struct tm_dataset *ds)
{
    const struct tm_hyper *h = &p->h;
    const size_t cols = (size_t)h->features, d = (size_t)h->d_model;
    for (size_t r = 0; r < m->rows; r++)
        for (size_t j = 0; j < cols; j++)
            m->features[r * cols + j] = ds->rows[m->source[r] * cols + j];

    linear(m->rows, h->features, h->embed, m->features, h->features, TM_W(p, EMBED0_W), m->e0, h->embed);
    p->ops->bias_relu(m->e0, TM_W(p, EMBED0_B), m->rows, (size_t)h->embed);
    linear(m->rows, h->embed, h->d_model, m->e0, h->embed, TM_W(p, EMBED1_W), m->h, h->d_model);
    p->ops->bias_relu(m->h, TM_W(p, EMBED1_B), m->rows, d);
    p->ops->rmsnorm(m->u, m->inv, m->h, TM_W(p, NORM_W), m->rows, d);
    linear(m->rows, h->d_model, 2 * h->d_model, m->u, h->d_model, TM_W(p, IN_PROJ_W), m->xz, 2 * h->d_model);
    p->ops->silu(m->gate, m->dgate, m->xz + d, 2 * d, m->rows, d);
}

static void mix_positions(const struct tm_params *p, struct tm_tape_mem *m, uint32_t n)
{
    const struct tm_hyper *h = &p->h;
    const size_t d = (size_t)h->d_model;
    const int ld_proj = h->dt_rank + 2 * h->d_state;
    for (uint32_t i = 0; i < n; i++) {
        struct tm_conv k = tm_conv_of(p, m, i);
        p->ops->conv(&k, m->x + m->start[i] * d, m->dx + m->start[i] * d);
    }
    linear(m->positions, h->d_model, ld_proj, m->x, h->d_model, TM_W(p, X_PROJ_W), m->proj, ld_proj);
    linear(m->positions, h->dt_rank, h->d_model, m->proj, ld_proj, TM_W(p, DT_PROJ_W), m->delta, h->d_model);
    p->ops->softplus(m->delta, m->ddelta, TM_W(p, DT_PROJ_B), m->positions, d);
    for (uint32_t i = 0; i < n; i++) {
        struct tm_scan k = tm_scan_of(p, m, i);
        p->ops->scan(&k, m->q + i * d);
    }
}

static void pool_and_head(const struct tm_params *p, struct tm_tape_mem *m, const struct tm_dataset *ds,
                          const uint32_t *programs, uint32_t n)
{
    const struct tm_hyper *h = &p->h;
    const size_t d = (size_t)h->d_model, width = h->summary ? (size_t)h->summary_width : 0, cat = d + width;

    linear(n, h->d_model, h->d_model, m->q, h->d_model, TM_W(p, OUT_PROJ_W), m->pool, h->d_model);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t t = m->start[i]; t < m->start[i + 1]; t++)
            p->ops->add(m->pool + i * d, m->h + m->row[t] * d, d);
    for (uint32_t i = 0; i < n; i++)
        p->ops->rmsnorm(m->cat + i * cat, m->inv_f + i, m->pool + i * d, TM_W(p, NORM_F_W), 1, d);

    if (h->summary) {
        const size_t cols = (size_t)h->summary;
        for (uint32_t i = 0; i < n; i++)
            for (size_t j = 0; j < cols; j++)
                m->summary[i * cols + j] = ds->summary[programs[i] * cols + j];
        linear(n, h->summary, h->summary_width, m->summary, h->summary, TM_W(p, SUMMARY0_W), m->s0, h->summary_width);
        p->ops->bias_relu(m->s0, TM_W(p, SUMMARY0_B), n, width);
        linear(n, h->summary_width, h->summary_width, m->s0, h->summary_width, TM_W(p, SUMMARY1_W), m->cat + d,
               (int)cat);
        for (uint32_t i = 0; i < n; i++)
            p->ops->bias_relu(m->cat + i * cat + d, TM_W(p, SUMMARY1_B), 1, width);
    }

    linear(n, (int)cat, h->head1, m->cat, (int)cat, TM_W(p, HEAD0_W), m->h0, h->head1);
    p->ops->bias_relu(m->h0, TM_W(p, HEAD0_B), n, (size_t)h->head1);
    linear(n, h->head1, h->head2, m->h0, h->head1, TM_W(p, HEAD1_W), m->h1, h->head2);
    p->ops->bias_relu(m->h1, TM_W(p, HEAD1_B), n, (size_t)h->head2);
    linear(n, h->head2, 2, m->h1, h->head2, TM_W(p, HEAD2_W), m->out, 2);
    add_bias(m->out, TM_W(p, HEAD2_B), n, 2);
    for (uint32_t i = 0; i < n; i++) {
        m->s[i] = m->out[2 * i];
        m->l[i] = m->out[2 * i + 1];
    }
}

int tm_forward(const struct tm_params *p, struct tm_tape *t, const struct tm_dataset *ds, const uint32_t *programs,
               uint32_t n)
{
    struct tm_tape_mem *m = t->mem;
    if (index_rows(m, ds, programs, n) || reserve(m, &p->h, n))
        return -TP_E_NO_MEMORY;
    embed_rows(p, m, ds);
    mix_positions(p, m, n);
    pool_and_head(p, m, ds, programs, n);
    t->n = n;
    t->s = m->s;
    t->l = m->l;
    t->pooled = m->cat;
    t->ld_pooled = (size_t)p->h.d_model + (p->h.summary ? (size_t)p->h.summary_width : 0);
    t->features = m->h1;
    return 0;
}
