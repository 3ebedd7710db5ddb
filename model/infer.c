/* The run of a batch: distinct rows through the layers before the convolution, the walk (infer_walk.c), sums through
 * the layers behind it. Everything passes in blocks of TM_BLOCK so that activations stay in the L1 cache.
 *
 * Invariant: no kernel result depends on which rows share a block (kern.h), so neither does a prediction.
 * A batch has one owner; plans are shared. */
#include "model/infer_internal.h"
#include "model/mem.h"

#include <math.h>

struct tm_batch *tm_batch_new(void)
{
    struct tm_batch *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->share = true;
    b->scratch = tm_alloc(1, sizeof *b->scratch);
    if (!b->scratch || tm_rows_new(b)) {
        tm_batch_free(b);
        return NULL;
    }
    return b;
}

void tm_batch_free(struct tm_batch *b)
{
    if (!b)
        return;
    tm_rows_free(b);
    free(b->item);
    free(b->item_tmp);
    free(b->leaf);
    free(b->head);
    free(b->state);
    free(b->output);
    free(b->kept);
    free(b->scratch);
    free(b);
}

void tm_batch_share(struct tm_batch *b, bool share)
{
    b->share = share;
}

void tm_batch_keep(struct tm_batch *b, bool keep)
{
    b->keep = keep;
}

static size_t kept_floats(const struct tm_plan *p)
{
    return (size_t)p->h.d_model + (size_t)p->h.head2;
}

const float *tm_batch_pooled(const struct tm_batch *b, size_t i)
{
    return b->kept + b->program[i].head * kept_floats(b->plan);
}

const float *tm_batch_hidden(const struct tm_batch *b, size_t i)
{
    return tm_batch_pooled(b, i) + b->plan->h.d_model;
}

/* h = ReLU(W1 ReLU(W0 x)); [x~, z] = W_in RMSNorm(h); stored as x~, SiLU(z), h. */
static int run_rows(struct tm_batch *b)
{
    const struct tm_plan *p = b->plan;
    const struct tm_kern *k = p->kern;
    struct tm_scratch *s = b->scratch;
    const size_t ld = p->row_floats, dm = (size_t)p->h.d_model, lde = (size_t)p->embed0.out_padded;
    if (tm_grow((void **)&b->row, &b->row_cap, b->n_rows * ld, sizeof *b->row))
        return -TP_E_NO_MEMORY;
    for (size_t at = 0; at < b->n_rows; at += TM_BLOCK) {
        const size_t n = b->n_rows - at < TM_BLOCK ? b->n_rows - at : TM_BLOCK;
        float *row = b->row + at * ld, *h = row + 2 * dm;
        k->linear(&p->embed0, b->feature + at * TM_FEATURES_LD, TM_FEATURES_LD, s->a, lde, n, TM_LINEAR_RELU);
        k->linear(&p->embed1, s->a, lde, h, ld, n, TM_LINEAR_RELU);
        k->norm(p->norm, h, ld, s->b, dm, (int)dm, n);
        k->linear(&p->in_proj, s->b, dm, row, ld, n, 0);
        k->silu(row + dm, ld, (int)dm, n);
    }
    return 0;
}

/* The heads from..to, all of leaves first, first + 1, ...; pooled vectors of the leaves are in scratch->q. */
static void run_heads(struct tm_batch *b, size_t first, size_t from, size_t to, size_t leaf)
{
    const struct tm_plan *p = b->plan;
    const struct tm_kern *k = p->kern;
    struct tm_scratch *s = b->scratch;
    const size_t n = to - from, dm = (size_t)p->h.d_model, cols = (size_t)p->h.summary;
    const size_t wide = p->h.summary ? (size_t)p->summary1.out_padded : 0, ldc = dm + wide;
    for (size_t i = 0; i < n && cols; i++) /* in order of arrival, not of the walk */
        for (size_t j = 0; j < cols; j += 16)
            __builtin_prefetch(b->summary + b->head[from + i] * cols + j);
    for (size_t i = 0; i < n; i++) {
        while (leaf + 1 < b->n_leaves && b->leaf[leaf + 1].head <= from + i)
            leaf++;
        memcpy(s->cat + i * ldc, s->q + (leaf - first) * dm, dm * sizeof *s->cat);
        if (cols)
            memcpy(s->c + i * cols, b->summary + b->head[from + i] * cols, cols * sizeof *s->c);
    }
    if (cols) {
        const size_t ld = (size_t)p->summary0.out_padded;
        k->linear(&p->summary0, s->c, cols, s->d, ld, n, TM_LINEAR_RELU);
        k->linear(&p->summary1, s->d, ld, s->cat + dm, ldc, n, TM_LINEAR_RELU);
    }
    const size_t ld1 = (size_t)p->head0.out_padded, ld2 = (size_t)p->head1.out_padded,
                 ld3 = (size_t)p->head2.out_padded;
    k->linear(&p->head0, s->cat, ldc, s->c, ld1, n, TM_LINEAR_RELU);
    k->linear(&p->head1, s->c, ld1, s->d, ld2, n, TM_LINEAR_RELU);
    k->linear(&p->head2, s->d, ld2, s->c, ld3, n, 0);
    for (size_t i = 0; i < n && b->keep; i++) {
        float *kept = b->kept + (from + i) * kept_floats(p);
        memcpy(kept, s->cat + i * ldc, dm * sizeof *kept);
        memcpy(kept + dm, s->d + i * ld2, (size_t)p->h.head2 * sizeof *kept);
    }
    for (size_t i = 0; i < n; i++) {
        b->output[2 * (from + i)] = s->c[i * ld3];
        b->output[2 * (from + i) + 1] = s->c[i * ld3 + 1];
    }
}

/* pooled = RMSNorm(sum h + W_out sum q), then the heads of these leaves. */
static void flush(struct tm_batch *b, size_t first, size_t n)
{
    const struct tm_plan *p = b->plan;
    struct tm_scratch *s = b->scratch;
    const size_t dm = (size_t)p->h.d_model;
    const size_t from = b->leaf[first].head, to = first + n < b->n_leaves ? b->leaf[first + n].head : b->n_heads;
    p->kern->linear(&p->out_proj, s->q, dm, s->h, dm, n, TM_LINEAR_ADD);
    p->kern->norm(p->norm_f, s->h, dm, s->q, dm, (int)dm, n);
    size_t leaf = first;
    for (size_t at = from; at < to; at += TM_BLOCK) {
        while (leaf + 1 < first + n && b->leaf[leaf + 1].head <= at)
            leaf++;
        run_heads(b, first, at, to - at < TM_BLOCK ? to : at + TM_BLOCK, leaf);
    }
}

static double score_of(const struct tm_plan *p, double s)
{
    double v = 1.0 / (1.0 + exp(-(p->calib_a * s + p->calib_b)));
    return fmin(fmax(v, 1e-6), 1.0 - 1e-6); /* fmax takes the number when v is NaN */
}

static double latency_of(const struct tm_plan *p, double l)
{
    return exp(fmax(fmin(l + p->latency_shift, 80.0), -80.0)); /* a positive number as float, too */
}

int tm_batch_run(struct tm_batch *b, double *score, double *latency, double *raw)
{
    int rc = run_rows(b);
    if (rc == 0)
        rc = tm_walk_sort(b);
    if (rc == 0 && tm_grow((void **)&b->output, &b->output_cap, 2 * b->n_heads, sizeof *b->output))
        rc = -TP_E_NO_MEMORY;
    if (rc == 0 && b->keep &&
        tm_grow((void **)&b->kept, &b->kept_cap, b->n_heads * kept_floats(b->plan), sizeof *b->kept))
        rc = -TP_E_NO_MEMORY;
    if (rc == 0)
        rc = tm_walk_run(b, flush);
    if (rc)
        return rc;
    for (size_t i = 0; i < b->n_programs; i++) {
        const float *o = b->output + 2 * (size_t)b->program[i].head;
        score[i] = score_of(b->plan, o[0]);
        latency[i] = latency_of(b->plan, o[1]);
        if (raw)
            raw[i] = o[0];
    }
    b->stats = (struct tm_batch_stats){b->n_programs, b->n_ids, b->n_rows, b->n_prefixes, b->n_heads};
    return 0;
}

void tm_batch_stats(const struct tm_batch *b, struct tm_batch_stats *s)
{
    *s = b->stats;
}

/* Of programs idx[0..n); what is NULL is not wanted. */
struct outputs {
    double *score, *latency, *raw;
    float *pooled, *hidden;
};

static int run_dataset(const struct tm_model *m, const struct tm_dataset *d, const uint32_t *idx, size_t n,
                       const struct outputs *out)
{
    enum { CHUNK = 4096 };
    const size_t dm = (size_t)m->h.d_model, h2 = (size_t)m->h.head2;
    double unused[3][CHUNK] = {{0}};
    int rc = -TP_E_NO_MEMORY;
    struct tm_plan *p = tm_plan_new(m);
    struct tm_batch *b = tm_batch_new();
    if (!p || !b)
        goto out;
    rc = 0;
    tm_batch_keep(b, out->pooled || out->hidden);
    for (size_t at = 0; at < n && rc == 0; at += CHUNK) {
        const size_t end = n - at < CHUNK ? n : at + CHUNK;
        rc = tm_batch_begin(b, p);
        for (size_t i = at; i < end && rc == 0; i++) {
            int added = tm_batch_add_dataset(b, d, idx[i]);
            rc = added < 0 ? added : 0;
        }
        if (rc == 0)
            rc = tm_batch_run(b, out->score ? out->score + at : unused[0], out->latency ? out->latency + at : unused[1],
                              out->raw ? out->raw + at : unused[2]);
        for (size_t i = at; i < end && rc == 0 && out->pooled; i++)
            memcpy(out->pooled + i * dm, tm_batch_pooled(b, i - at), dm * sizeof *out->pooled);
        for (size_t i = at; i < end && rc == 0 && out->hidden; i++)
            memcpy(out->hidden + i * h2, tm_batch_hidden(b, i - at), h2 * sizeof *out->hidden);
    }
out:
    tm_batch_free(b);
    tm_plan_free(p);
    return rc;
}

int tm_predict_dataset(const struct tm_model *m, const struct tm_dataset *d, const uint32_t *idx, size_t n,
                       double *score, double *latency, double *raw)
{
    return run_dataset(m, d, idx, n, &(struct outputs){.score = score, .latency = latency, .raw = raw});
}

int tm_embed_dataset(const struct tm_model *m, const struct tm_dataset *d, const uint32_t *idx, size_t n, float *pooled,
                     float *hidden, double *raw)
{
    return run_dataset(m, d, idx, n, &(struct outputs){.raw = raw, .pooled = pooled, .hidden = hidden});
}
