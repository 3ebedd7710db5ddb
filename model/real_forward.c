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
    free(t->mem->self);
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

struct array {
    tm_real **at;
    size_t rows, cols;
};

/* Give arrays their place in the arena, each on a cache line. With base NULL they are only counted. */
static size_t place_arrays(const struct array *table, size_t n, tm_real *base, size_t used)
{
    const size_t unit = TM_ALIGN / sizeof(tm_real);
    for (size_t i = 0; i < n; i++) {
        if (base)
            *table[i].at = base + used;
        used += (table[i].rows * table[i].cols + unit - 1) / unit * unit;
    }
    return used;
}

static size_t place_block(struct tm_tape_mem *m, const struct tm_hyper *h, int b, size_t n, tm_real *base, size_t used)
{
    struct tm_block *k = &m->block[b];
    const size_t d = (size_t)h->d_model, proj = (size_t)h->dt_rank + 2 * (size_t)h->d_state;
    const size_t outputs = tm_block_each(h, b) ? m->positions : n;
    k->rows = b ? m->positions : m->rows;
    k->row = b ? m->self : m->row;
    const struct array table[] = {
        {&k->h, k->rows, d},
        {&k->inv, k->rows, 1},
        {&k->u, k->rows, d},
        {&k->xz, k->rows, 2 * d},
        {&k->gate, k->rows, d},
        {&k->dgate, k->rows, d},
        {&k->x, m->positions, d},
        {&k->dx, m->positions, d},
        {&k->delta, m->positions, d},
        {&k->ddelta, m->positions, d},
        {&k->proj, m->positions, proj},
        {&k->q, outputs, d},
        {&k->g_q, outputs, d},
        {&k->g_x, m->positions, d},
        {&k->g_pre, m->positions, d},
        {&k->g_proj, m->positions, proj},
        {&k->g_gate, k->rows, d},
        {&k->g_xz, k->rows, 2 * d},
        {&k->g_u, k->rows, d},
        {&k->g_h, k->rows, d},
    };
    return place_arrays(table, sizeof table / sizeof *table, base, used);
}

/* Lay the arrays out in the arena: once to count, once to place. */
static size_t place(struct tm_tape_mem *m, const struct tm_hyper *h, size_t n, tm_real *base)
{
    const size_t d = (size_t)h->d_model, states = (size_t)h->d_state, width = (size_t)h->summary_width;
    const size_t summary = (size_t)h->summary, cat = d + (summary ? width : 0);
    const bool last = h->pooling == TM_POOL_LAST;
    const struct array table[] = {
        {&m->features, m->rows, (size_t)h->features},
        {&m->e0, m->rows, (size_t)h->embed},
        {&m->q, last ? n : 0, d},
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
        {&m->g_q, last ? n : 0, d},
        {&m->g_e0, m->rows, (size_t)h->embed},
        {&m->g_a, states, d},
        {&m->g_conv, (size_t)h->d_conv, d},
        {&m->scratch, (m->longest + 1) * states, TM_SCAN_SCRATCH},
    };
    size_t used = place_arrays(table, sizeof table / sizeof *table, base, 0);
    for (int b = 0; b <= h->more_blocks; b++)
        used = place_block(m, h, b, n, base, used);
    if (base && !last) { /* the sums are what is pooled */
        m->q = m->block[h->more_blocks].q;
        m->g_q = m->block[h->more_blocks].g_q;
    }
    return used;
}

static int reserve(struct tm_tape_mem *m, const struct tm_hyper *h, size_t n)
{
    if (h->more_blocks) {
        if (tm_grow((void **)&m->self, &m->cap_self, m->positions, sizeof *m->self))
            return -TP_E_NO_MEMORY;
        for (uint32_t t = 0; t < m->positions; t++)
            m->self[t] = t;
    }
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
    linear(m->rows, h->embed, h->d_model, m->e0, h->embed, TM_W(p, EMBED1_W), m->block[0].h, h->d_model);
    p->ops->bias_relu(m->block[0].h, TM_W(p, EMBED1_B), m->rows, d);
}

/* From the block's h to its q. */
static void mix(const struct tm_params *p, struct tm_tape_mem *m, int b, uint32_t n)
{
    const struct tm_hyper *h = &p->h;
    struct tm_block *k = &m->block[b];
    const size_t d = (size_t)h->d_model;
    const int ld_proj = h->dt_rank + 2 * h->d_state;

    p->ops->rmsnorm(k->u, k->inv, k->h, TM_BLOCK_W(p, b, NORM_W), k->rows, d);
    linear(k->rows, h->d_model, 2 * h->d_model, k->u, h->d_model, TM_BLOCK_W(p, b, IN_PROJ_W), k->xz, 2 * h->d_model);
    p->ops->silu(k->gate, k->dgate, k->xz + d, 2 * d, k->rows, d);
    for (uint32_t i = 0; i < n; i++) {
        struct tm_conv c = tm_conv_of(p, m, b, i);
        p->ops->conv(&c, k->x + m->start[i] * d, k->dx + m->start[i] * d);
    }
    linear(m->positions, h->d_model, ld_proj, k->x, h->d_model, TM_BLOCK_W(p, b, X_PROJ_W), k->proj, ld_proj);
    linear(m->positions, h->dt_rank, h->d_model, k->proj, ld_proj, TM_BLOCK_W(p, b, DT_PROJ_W), k->delta, h->d_model);
    p->ops->softplus(k->delta, k->ddelta, TM_BLOCK_W(p, b, DT_PROJ_B), m->positions, d);
    for (uint32_t i = 0; i < n; i++) {
        struct tm_scan s = tm_scan_of(p, m, b, i);
        p->ops->scan(&s, tm_block_q(p, m, b, k->q, i));
    }
}

/* What block b + 1 reads: W_out q and the residual of every position. */
static void pass_on(const struct tm_params *p, struct tm_tape_mem *m, int b)
{
    const struct tm_block *k = &m->block[b];
    const size_t d = (size_t)p->h.d_model;
    tm_real *next = m->block[b + 1].h;
    linear(m->positions, p->h.d_model, p->h.d_model, k->q, p->h.d_model, TM_BLOCK_W(p, b, OUT_PROJ_W), next,
           p->h.d_model);
    for (size_t t = 0; t < m->positions; t++)
        p->ops->add(next + t * d, k->h + k->row[t] * d, d);
}

static void pool(const struct tm_params *p, struct tm_tape_mem *m, uint32_t n)
{
    const struct tm_hyper *h = &p->h;
    const int b = h->more_blocks;
    const struct tm_block *k = &m->block[b];
    const size_t d = (size_t)h->d_model, cat = d + (h->summary ? (size_t)h->summary_width : 0);

    for (uint32_t i = 0; h->pooling == TM_POOL_LAST && i < n; i++)
        memcpy(m->q + i * d, k->q + tm_pool_from(h, m, i) * d, d * sizeof *m->q);
    linear(n, h->d_model, h->d_model, m->q, h->d_model, TM_BLOCK_W(p, b, OUT_PROJ_W), m->pool, h->d_model);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t t = tm_pool_from(h, m, i); t < m->start[i + 1]; t++)
            p->ops->add(m->pool + i * d, k->h + k->row[t] * d, d);
    if (h->pooling == TM_POOL_MEAN)
        tm_pool_divide(m, m->pool, n, d);
    for (uint32_t i = 0; i < n; i++)
        p->ops->rmsnorm(m->cat + i * cat, m->inv_f + i, m->pool + i * d, TM_W(p, NORM_F_W), 1, d);
}

static void head(const struct tm_params *p, struct tm_tape_mem *m, const struct tm_dataset *ds,
                 const uint32_t *programs, uint32_t n)
{
    const struct tm_hyper *h = &p->h;
    const size_t d = (size_t)h->d_model, width = h->summary ? (size_t)h->summary_width : 0, cat = d + width;

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
    for (int b = 0; b <= p->h.more_blocks; b++) {
        mix(p, m, b, n);
        if (b < p->h.more_blocks)
            pass_on(p, m, b);
    }
    pool(p, m, n);
    head(p, m, ds, programs, n);
    t->n = n;
    t->s = m->s;
    t->l = m->l;
    t->pooled = m->cat;
    t->ld_pooled = (size_t)p->h.d_model + (p->h.summary ? (size_t)p->h.summary_width : 0);
    t->features = m->h1;
    return 0;
}
