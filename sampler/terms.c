/* r, u, percentiles and score. Everything that a score is made of falls or stays as picks are added, and each step from
 * there to the score is monotone in floating point, too: that is what makes a stale score an upper bound. */
#include "sampler/state.h"

#include "model/mem.h"

#include <math.h>

enum { SAMPLE = 1 << 16, KNOTS = 4096 };

struct ranked {
    float value;
    uint32_t task, index;
};

static int by_value(const void *pa, const void *pb)
{
    const struct ranked *a = pa, *b = pb;
    if (a->task != b->task)
        return a->task < b->task ? -1 : 1;
    if (a->value != b->value)
        return a->value < b->value ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int by_float(const void *pa, const void *pb)
{
    const float a = *(const float *)pa, b = *(const float *)pb;
    return a < b ? -1 : a > b;
}

/* out[index] = percentile within the equal tasks of v[n], sorted; ties share their middle */
static void percentiles(const struct ranked *v, size_t n, float *out)
{
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && v[to].task == v[from].task; to++)
            ;
        for (size_t i = from, j; i < to; i = j) {
            for (j = i; j < to && v[j].value <= v[i].value; j++)
                ;
            for (size_t k = i; k < j; k++)
                out[v[k].index] = (float)((double)(i - from + j - from) / (2.0 * (double)(to - from)));
        }
    }
}

/* ---- before the first pick ---- */

struct closeness {
    struct ts_state *s;
    struct ranked *ranked; /* [n]: cells lie side by side */
};

static void rank_cell(void *arg, uint32_t c, int worker)
{
    (void)worker;
    const struct closeness *w = arg;
    const struct ts_cells *cells = &w->s->cells;
    const uint32_t from = cells->start[c], n = cells->start[c + 1] - from;
    struct ranked *v = w->ranked + from;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t index = cells->order[from + i];
        v[i] = (struct ranked){-cells->distance[index], 0, index};
    }
    if (n > 1)
        qsort(v, n, sizeof *v, by_value);
    percentiles(v, n, w->s->r);
}

static int rank_closeness(struct ts_state *s)
{
    struct closeness w = {s, tm_alloc(s->pool->n, sizeof *w.ranked)};
    s->r = tm_alloc(s->pool->n, sizeof *s->r);
    if (s->r && w.ranked)
        tm_pool_run(s->run.workers, rank_cell, &w, s->cells.k);
    free(w.ranked);
    return s->r && w.ranked ? 0 : -TP_E_NO_MEMORY;
}

static uint32_t task_of(const struct ts_pool *p, size_t i)
{
    return p->task ? p->task[i] : 0;
}

static int rank_fast(struct ts_state *s)
{
    const struct ts_pool *p = s->pool;
    struct ranked *v = tm_alloc(p->n, sizeof *v);
    s->fast = tm_alloc(p->n, sizeof *s->fast);
    if (s->fast && v) {
        for (size_t i = 0; i < p->n; i++)
            v[i] = (struct ranked){isnan(p->fast[i]) ? -INFINITY : p->fast[i], task_of(p, i), (uint32_t)i};
        qsort(v, p->n, sizeof *v, by_value);
        percentiles(v, p->n, s->fast);
    }
    free(v);
    return s->fast && v ? 0 : -TP_E_NO_MEMORY;
}

/* Programs of one task lie side by side in v: mean and deviation of snapshot k, then Welford's step for each. */
static void add_snapshot(const struct ts_pool *p, const struct ranked *v, size_t n, int k, float *mean, float *m2)
{
    double sum = 0.0, square = 0.0, count = 0.0;
    for (int pass = 0; pass < 2; pass++) {
        const double centre = count > 0.0 ? sum / count : 0.0;
        for (size_t i = 0; i < n; i++) {
            const double x = (double)p->predicted[v[i].index * (size_t)p->n_snapshots + (size_t)k] - centre;
            if (!isfinite(x))
                continue;
            sum += pass ? 0.0 : x;
            square += pass ? x * x : 0.0;
            count += !pass;
        }
    }
    const double centre = count > 0.0 ? sum / count : 0.0, deviation = count > 0.0 ? sqrt(square / count) : 0.0;
    for (size_t i = 0; i < n; i++) {
        const size_t at = v[i].index;
        const double x = ((double)p->predicted[at * (size_t)p->n_snapshots + (size_t)k] - centre) / deviation;
        const float z = isfinite(x) ? (float)x : 0.0f, step = z - mean[at];
        mean[at] += step / (float)(k + 1);
        m2[at] += step * (z - mean[at]);
    }
}

static int snapshot_variance(struct ts_state *s)
{
    const struct ts_pool *p = s->pool;
    struct ranked *v = tm_alloc(p->n, sizeof *v);
    float *mean = tm_alloc(p->n, sizeof *mean);
    if (v && mean) {
        for (size_t i = 0; i < p->n; i++)
            v[i] = (struct ranked){0.0f, task_of(p, i), (uint32_t)i};
        qsort(v, p->n, sizeof *v, by_value);
        for (int k = 0; k < p->n_snapshots; k++)
            for (size_t from = 0, to; from < p->n; from = to) {
                for (to = from; to < p->n && v[to].task == v[from].task; to++)
                    ;
                add_snapshot(p, v + from, to - from, k, mean, s->u2);
            }
    }
    free(v);
    free(mean);
    return v && mean ? 0 : -TP_E_NO_MEMORY;
}

int ts_terms_init(struct ts_state *s)
{
    int rc = 0;
    if (s->scale.w.r > 0)
        rc = rank_closeness(s);
    if (rc == 0 && s->scale.w.f > 0 && s->pool->fast)
        rc = rank_fast(s);
    if (rc == 0 && s->uses_u && s->pool->predicted)
        rc = snapshot_variance(s);
    return rc;
}

/* ---- of a round ---- */

double ts_percentile(const float *knots, size_t n, float x)
{
    size_t low = 0, high = n;
    if (n == 0)
        return 0.5;
    if (x < knots[0]) /* on to 0 in proportion: while picks are added many fall below, and still differ */
        return x > 0 ? 0.5 / (double)n * (double)(x / knots[0]) : 0;
    while (low < high) { /* knots < x */
        const size_t middle = (low + high) / 2;
        if (knots[middle] < x)
            low = middle + 1;
        else
            high = middle;
    }
    const size_t below = low;
    for (high = n; low < high;) { /* knots <= x */
        const size_t middle = (low + high) / 2;
        if (knots[middle] <= x)
            low = middle + 1;
        else
            high = middle;
    }
    return (double)(below + low) / (2.0 * (double)n);
}

/* Up to SAMPLE values of candidates left, or of all programs, evenly from all zones, sorted; those that are not finite
 * are left out. */
static size_t sample(const struct ts_state *s, const float *value, bool all, float *out)
{
    const size_t n = s->pool->n, step = (n + SAMPLE - 1) / SAMPLE;
    size_t m = 0, at = 0;
    for (uint32_t z = 0; z < s->n_zones; z++)
        for (size_t i = all ? s->zone[z].start : s->zone[z].known; i < s->zone[z].end; i++)
            if (at++ % step == 0 && isfinite(value[s->member[i]]))
                out[m++] = value[s->member[i]];
    qsort(out, m, sizeof *out, by_float);
    return m;
}

static float quantile(const float *sorted, size_t n, double q)
{
    return sorted[(size_t)(q * (double)(n - 1))];
}

/* The scale of a cell (two of its programs are sqrt 2 as far apart as either is from the centre), or without cells the
 * whole pool's, which is at least twice the longest row. */
static double scale_of_cells(struct ts_state *s, float *v)
{
    if (s->cells.k) {
        size_t m = sample(s, s->cells.distance, true, v);
        return m ? sqrt(2.0 * (double)quantile(v, m, 0.95)) : 0.0;
    }
    double longest = 0.0;
    float row[TS_MAX_DIM] __attribute__((aligned(TM_ALIGN))), norm;
    for (size_t i = 0; i < s->pool->n; i++) {
        ts_view_row(&s->view, i, row);
        s->view.ops->products(row, row, 1, s->view.dim, &norm);
        longest = fmax(longest, (double)norm);
    }
    return 2.0 * sqrt(longest);
}

int ts_scale_update(struct ts_state *s, double cap_quantile)
{
    float *v = tm_alloc(SAMPLE, sizeof *v);
    if (!v)
        return -TP_E_NO_MEMORY;
    if (!s->scale.knots)
        s->scale.knots = tm_alloc(KNOTS, sizeof *v);
    if (!s->scale.knots) {
        free(v);
        return -TP_E_NO_MEMORY;
    }
    if (s->uses_u) {
        const size_t m = sample(s, s->u2, false, v), n = m < KNOTS ? m : KNOTS;
        for (size_t i = 0; i < n; i++)
            s->scale.knots[i] = v[i * m / n];
        s->scale.n_knots = n;
    }
    if (s->uses_d) {
        const size_t m = cap_quantile > 0.0 ? sample(s, s->d2, false, v) : 0;
        s->scale.cap = m ? sqrt((double)quantile(v, m, cap_quantile)) : scale_of_cells(s, v);
    }
    free(v);
    return 0;
}

static double blend(enum ts_form form, double score, double w, double x)
{
    return form == TS_SUM ? score + w * x : score * (1.0 - w + w * x);
}

double ts_score(const struct ts_state *s, size_t i, float d2, double u2, struct ts_pick *terms)
{
    const struct ts_scale *c = &s->scale;
    double r = NAN, d = NAN, u = NAN, score = c->form == TS_SUM ? 0.0 : 1.0;
    if (s->r) {
        r = (double)s->r[i];
        score = blend(c->form, score, c->w.r, r);
    }
    if (s->fast)
        score = blend(c->form, score, c->w.f, (double)s->fast[i]);
    if (s->uses_d) {
        const double distance = sqrt((double)d2);
        d = distance >= c->cap ? distance > 0.0 : distance / c->cap;
        score = blend(c->form, score, c->w.d, d);
    }
    if (c->w.u > 0) {
        u = ts_percentile(c->knots, c->n_knots, (float)u2);
        score = blend(c->form, score, c->w.u, u);
    }
    if (terms) {
        terms->index = (uint32_t)i;
        terms->r = (float)r;
        terms->d = (float)d;
        terms->u = (float)u;
        terms->score = (float)score;
    }
    return score;
}
