/* K-means on standardised rows. Distances to all centres are one matrix product per block of BLOCK rows: |x - c|^2 =
 * |x|^2 - 2 x.c + |c|^2, on one BLAS thread. Blocks and the order of sums are fixed, so threads change nothing. */
#include "sampler/kmeans.h"

#include "model/blas.h"
#include "model/mem.h"
#include "model/net.h"

#include <cblas.h>
#include <float.h>
#include <math.h>

enum {
    BLOCK = 256,      /* rows of a matrix product */
    STRIDE = 64,      /* blocks between two looks at the progress */
    BATCH = 4096,     /* rows of a mini-batch */
    BATCHES = 60,     /* of them */
    SAMPLE = 16,      /* rows per centre that k-means++ draws from */
    LARGE_PASSES = 3, /* over a pool that had mini-batches */
    RESEED = 16       /* empty cells that get a new centre after a pass */
};

struct work {
    struct ts_cells *c;
    const struct ts_view *v;
    struct ts_run *run;
    struct tm_rng rng;
    size_t ldg;            /* k padded */
    float *norm;           /* [ldg] |c|^2, FLT_MAX behind k */
    float *scratch;        /* per worker: BLOCK rows, BLOCK products */
    size_t scratch_floats; /* of one worker */
    uint32_t *batch;       /* [BATCH] rows */
    uint32_t *batch_cell;
    uint32_t *batch_count; /* [k] */
    const uint32_t *rows;  /* of the assignment at hand: NULL = all */
    size_t n, first;       /* how many; the block that item 0 is */
    double from, to;
};

uint32_t ts_cell_count(size_t n)
{
    double k = fmin(fmax(ceil(sqrt((double)n)), TS_MIN_CELLS), TS_MAX_CELLS);
    return n < (size_t)k ? (uint32_t)n : (uint32_t)k;
}

void ts_cells_free(struct ts_cells *c)
{
    free(c->centre);
    free(c->cell);
    free(c->distance);
    free(c->start);
    free(c->order);
    *c = (struct ts_cells){0};
}

static float square_norm(const struct ts_view *v, const float *x)
{
    float s;
    v->ops->products(x, x, 1, v->dim, &s);
    return s;
}

static void assign_block(void *arg, uint32_t item, int worker)
{
    const struct work *w = arg;
    const struct ts_view *v = w->v;
    const struct ts_cells *c = w->c;
    const size_t at = (w->first + item) * BLOCK, n = w->n - at < BLOCK ? w->n - at : BLOCK;
    float *x = w->scratch + (size_t)worker * w->scratch_floats, *g = x + BLOCK * v->dim;
    for (size_t i = 0; i < n; i++) {
        ts_view_row(v, w->rows ? w->rows[at + i] : at + i, x + i * v->dim);
        memcpy(g + i * w->ldg, w->norm, w->ldg * sizeof *g);
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, (int)c->k, (int)v->dim, -2.0f, x, (int)v->dim,
                c->centre, (int)v->dim, 1.0f, g, (int)w->ldg);
    for (size_t i = 0; i < n; i++) {
        const size_t best = v->ops->argmin(g + i * w->ldg, w->ldg);
        if (w->rows) {
            w->batch_cell[at + i] = (uint32_t)best;
            continue;
        }
        c->cell[at + i] = (uint32_t)best;
        c->distance[at + i] = fmaxf(square_norm(v, x + i * v->dim) + g[i * w->ldg + best], 0.0f);
    }
}

/* Nearest centres of `rows` or all; ends at `fraction` of the whole. */
static int assign(struct work *w, const uint32_t *rows, size_t n, double fraction)
{
    const size_t blocks = (n + BLOCK - 1) / BLOCK;
    const double begin = w->run->done;
    for (uint32_t i = 0; i < w->c->k; i++)
        w->norm[i] = square_norm(w->v, w->c->centre + i * w->v->dim);
    w->rows = rows;
    w->n = n;
    for (w->first = 0; w->first < blocks; w->first += STRIDE) {
        const size_t items = blocks - w->first < STRIDE ? blocks - w->first : STRIDE;
        tm_pool_run(w->run->workers, assign_block, w, (uint32_t)items);
        const double end = fmax(w->from + (w->to - w->from) * fraction, begin);
        int rc = ts_tick(w->run, "cells", begin + (end - begin) * (double)(w->first + items) / (double)blocks);
        if (rc)
            return rc;
    }
    return 0;
}

/* k-means++ (Arthur and Vassilvitskii, SODA'07) on a sample. */
static int draw_centres(struct work *w)
{
    const struct ts_view *v = w->v;
    struct ts_cells *c = w->c;
    const size_t n = v->pool->n, dim = v->dim, want = (size_t)c->k * SAMPLE, m = n < want ? n : want;
    int rc = -TP_E_NO_MEMORY;
    float *x = tm_alloc(m * dim, sizeof *x), *near = tm_alloc(m, sizeof *near), *d = tm_alloc(m, sizeof *d);
    if (!x || !near || !d)
        goto out;
    for (size_t i = 0; i < m; i++) { /* one of each of m equal parts of the pool */
        const size_t lo = i * n / m, hi = (i + 1) * n / m;
        ts_view_row(v, lo + tm_rng_below(&w->rng, (uint32_t)(hi - lo)), x + i * dim);
        near[i] = FLT_MAX;
    }
    size_t pick = tm_rng_below(&w->rng, (uint32_t)m);
    for (uint32_t k = 0; k < c->k; k++) {
        memcpy(c->centre + k * dim, x + pick * dim, dim * sizeof *x);
        v->ops->distances(c->centre + k * dim, x, m, dim, d);
        double total = 0.0, at = 0.0;
        for (size_t i = 0; i < m; i++) {
            near[i] = fminf(near[i], d[i]);
            total += (double)near[i];
        }
        const double target = tm_rng_uniform(&w->rng) * total;
        for (pick = 0; pick + 1 < m; pick++) {
            at += (double)near[pick];
            if (at > target)
                break;
        }
        rc = k % 64 ? 0 : ts_tick(w->run, "cells", w->from);
        if (rc)
            goto out;
    }
    rc = 0;
out:
    free(x);
    free(near);
    free(d);
    return rc;
}

static int mini_batches(struct work *w)
{
    const struct ts_view *v = w->v;
    struct ts_cells *c = w->c;
    float row[TS_MAX_DIM] __attribute__((aligned(TM_ALIGN)));
    for (int b = 0; b < BATCHES; b++) {
        for (size_t i = 0; i < BATCH; i++)
            w->batch[i] = tm_rng_below(&w->rng, (uint32_t)v->pool->n);
        int rc = assign(w, w->batch, BATCH, 0.2 * (b + 1) / BATCHES);
        if (rc)
            return rc;
        for (size_t i = 0; i < BATCH; i++) {
            float *centre = c->centre + w->batch_cell[i] * v->dim;
            const float rate = 1.0f / (float)++w->batch_count[w->batch_cell[i]];
            ts_view_row(v, w->batch[i], row);
            for (size_t j = 0; j < v->dim; j++)
                centre[j] += rate * (row[j] - centre[j]);
        }
    }
    return 0;
}

/* order and start from cell */
static void sort_by_cell(struct ts_cells *c, size_t n)
{
    memset(c->start, 0, ((size_t)c->k + 1) * sizeof *c->start);
    for (size_t i = 0; i < n; i++)
        c->start[c->cell[i]]++;
    uint32_t at = 0;
    for (uint32_t k = 0; k <= c->k; k++) {
        const uint32_t size = c->start[k];
        c->start[k] = at;
        at += size;
    }
    for (size_t i = 0; i < n; i++)
        c->order[c->start[c->cell[i]]++] = (uint32_t)i;
    memmove(c->start + 1, c->start, c->k * sizeof *c->start);
    c->start[0] = 0;
}

static void move_centre(void *arg, uint32_t k, int worker)
{
    (void)worker;
    const struct work *w = arg;
    const struct ts_view *v = w->v;
    const struct ts_cells *c = w->c;
    float row[TS_MAX_DIM] __attribute__((aligned(TM_ALIGN)));
    double sum[TS_MAX_DIM] = {0};
    const double n = (double)(c->start[k + 1] - c->start[k]);
    if (c->start[k + 1] == c->start[k])
        return;
    for (uint32_t i = c->start[k]; i < c->start[k + 1]; i++) {
        ts_view_row(v, c->order[i], row);
        for (size_t j = 0; j < v->dim; j++)
            sum[j] += (double)row[j];
    }
    for (size_t j = 0; j < v->dim; j++)
        c->centre[k * v->dim + j] = (float)(sum[j] / n);
}

/* An empty cell moves to the program that is farthest from its centre. */
static void reseed(struct work *w)
{
    struct ts_cells *c = w->c;
    const size_t n = w->v->pool->n;
    int left = RESEED;
    for (uint32_t k = 0; k < c->k && left > 0; k++) {
        if (c->start[k + 1] > c->start[k])
            continue;
        size_t far = 0;
        for (size_t i = 1; i < n; i++)
            if (c->distance[i] > c->distance[far])
                far = i;
        if (c->distance[far] <= 0.0f)
            return;
        c->distance[far] = 0.0f;
        ts_view_row(w->v, far, c->centre + k * w->v->dim);
        left--;
    }
}

static double objective(const struct ts_cells *c, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)c->distance[i];
    return sum / (double)n;
}

/* Ends with an assignment to the centres as they are. */
static int passes(struct work *w, int most)
{
    struct ts_cells *c = w->c;
    const size_t n = w->v->pool->n;
    const double base = most == LARGE_PASSES ? 0.2 : 0.0;
    for (;;) {
        int rc = assign(w, NULL, n, base + (1.0 - base) * (c->n_passes + 1) / most);
        if (rc)
            return rc;
        sort_by_cell(c, n);
        const double now = objective(c, n), before = c->n_passes ? c->objective[c->n_passes - 1] : INFINITY;
        c->objective[c->n_passes++] = now;
        if (c->n_passes == most || now <= 0.0 || (c->n_passes > 1 && before - now < 1e-3 * before))
            return 0;
        tm_pool_run(w->run->workers, move_centre, w, c->k);
        reseed(w);
    }
}

int ts_kmeans(struct ts_cells *c, const struct ts_view *v, uint32_t k, uint64_t seed, struct ts_run *run, double from,
              double to)
{
    const size_t n = v->pool->n;
    struct work w = {.c = c,
                     .v = v,
                     .run = run,
                     .ldg = ((size_t)k + TM_CHANNEL_UNIT - 1) / TM_CHANNEL_UNIT * TM_CHANNEL_UNIT,
                     .from = from,
                     .to = to};
    int rc = -TP_E_NO_MEMORY;
    tm_blas_init();
    tm_rng_seed(&w.rng, seed);
    w.scratch_floats = BLOCK * (v->dim + w.ldg);
    *c = (struct ts_cells){.k = k};
    c->centre = tm_alloc(k * v->dim, sizeof *c->centre);
    c->cell = tm_alloc(n, sizeof *c->cell);
    c->distance = tm_alloc(n, sizeof *c->distance);
    c->start = tm_alloc((size_t)k + 1, sizeof *c->start);
    c->order = tm_alloc(n, sizeof *c->order);
    w.norm = tm_alloc(w.ldg, sizeof *w.norm);
    w.scratch = tm_alloc((size_t)tm_pool_threads(run->workers) * w.scratch_floats, sizeof *w.scratch);
    w.batch = tm_alloc(BATCH, sizeof *w.batch);
    w.batch_cell = tm_alloc(BATCH, sizeof *w.batch_cell);
    w.batch_count = tm_alloc(k, sizeof *w.batch_count);
    if (!c->centre || !c->cell || !c->distance || !c->start || !c->order || !w.norm || !w.scratch || !w.batch ||
        !w.batch_cell || !w.batch_count)
        goto out;
    for (size_t i = k; i < w.ldg; i++)
        w.norm[i] = FLT_MAX;
    rc = draw_centres(&w);
    if (rc == 0 && n > TS_BATCH_POOL)
        rc = mini_batches(&w);
    if (rc == 0)
        rc = passes(&w, n > TS_BATCH_POOL ? LARGE_PASSES : TS_MAX_PASSES);
out:
    free(w.norm);
    free(w.scratch);
    free(w.batch);
    free(w.batch_cell);
    free(w.batch_count);
    return rc;
}
