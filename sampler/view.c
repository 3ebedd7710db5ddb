/* Standardisation. One pass over the pool in fixed shards, sums in double relative to one row of the pool (so that
 * large means cost no accuracy), added up in the order of the shards: the same for any number of threads. */
#include "sampler/view.h"

#include "model/mem.h"

#include <float.h>
#include <math.h>

enum { SHARD = 16384 };

struct moments {
    double sum[TS_MAX_DIM], square[TS_MAX_DIM], count[TS_MAX_DIM];
    double feature_square;
    size_t feature_count;
};

struct survey {
    const struct ts_pool *pool;
    float origin[TS_MAX_DIM];
    struct moments *shard;
};

/* false for NaN, too */
static bool finite_float(float x)
{
    return fabsf(x) <= FLT_MAX;
}

static void survey_shard(void *arg, uint32_t item, int worker)
{
    (void)worker;
    const struct survey *s = arg;
    const struct ts_pool *p = s->pool;
    struct moments *m = &s->shard[item];
    const size_t dim = (size_t)p->dim, features = p->feature ? (size_t)p->n_features : 0;
    const size_t from = (size_t)item * SHARD, to = p->n - from < SHARD ? p->n : from + SHARD;
    for (size_t i = from; i < to; i++) {
        const float *x = p->embedding + i * dim;
        for (size_t j = 0; j < dim; j++) {
            const double ok = finite_float(x[j]), d = finite_float(x[j]) ? (double)x[j] - (double)s->origin[j] : 0.0;
            m->sum[j] += d;
            m->square[j] += d * d;
            m->count[j] += ok;
        }
        for (size_t j = 0; j < features; j++) {
            const float f = p->feature[i * features + j];
            if (!finite_float(f))
                continue;
            m->feature_square += (double)f * (double)f;
            m->feature_count++;
        }
    }
}

static void fold(struct ts_view *v, const struct survey *s, size_t shards)
{
    struct moments *all = &s->shard[0];
    const size_t dim = (size_t)v->pool->dim;
    for (size_t k = 1; k < shards; k++) {
        for (size_t j = 0; j < dim; j++) {
            all->sum[j] += s->shard[k].sum[j];
            all->square[j] += s->shard[k].square[j];
            all->count[j] += s->shard[k].count[j];
        }
        all->feature_square += s->shard[k].feature_square;
        all->feature_count += s->shard[k].feature_count;
    }
    for (size_t j = 0; j < dim; j++) {
        const double n = fmax(all->count[j], 1.0), d = all->sum[j] / n, mean = (double)s->origin[j] + d;
        const double deviation = sqrt(fmax(all->square[j] / n - d * d, 0.0));
        v->mean[j] = (float)mean;
        v->scale[j] = deviation > 2e-7 * fabs(mean) ? (float)fmin(1.0 / deviation, (double)FLT_MAX) : 0.0f;
    }
    const double square = all->feature_count ? all->feature_square / (double)all->feature_count : 0.0;
    for (size_t j = 0; j < TS_MAX_FEATURES; j++)
        v->feature_scale[j] = square > 0.0 ? (float)fmin(1.0 / sqrt(square), (double)FLT_MAX) : 0.0f;
}

int ts_view_init(struct ts_view *v, const struct ts_pool *p, struct tm_pool *workers)
{
    const size_t unit = TM_CHANNEL_UNIT, shards = (p->n + SHARD - 1) / SHARD;
    struct survey s = {.pool = p};
    *v = (struct ts_view){.pool = p, .ops = tm_ops_get(tm_simd_set())};
    if (!p->embedding || p->n == 0)
        return 0;
    v->dim = ((size_t)p->dim + unit - 1) / unit * unit;
    v->features = p->feature ? ((size_t)p->n_features + unit - 1) / unit * unit : 0;
    s.shard = tm_alloc(shards, sizeof *s.shard);
    if (!s.shard)
        return -TP_E_NO_MEMORY;
    for (size_t j = 0; j < (size_t)p->dim; j++) {
        size_t i = 0;
        while (i + 1 < p->n && !finite_float(p->embedding[i * (size_t)p->dim + j]))
            i++;
        const float x = p->embedding[i * (size_t)p->dim + j];
        s.origin[j] = finite_float(x) ? x : 0.0f;
    }
    tm_pool_run(workers, survey_shard, &s, (uint32_t)shards);
    fold(v, &s, shards);
    free(s.shard);
    return 0;
}

/* No value of n is farther than sqrt(n) standard deviations from the mean: the bound only stops overflow. */
static const float bound = 4096.0f; /* sqrt(TS_MAX_POOL) */

void ts_view_row(const struct ts_view *v, size_t i, float *out)
{
    const size_t dim = (size_t)v->pool->dim;
    v->ops->standardise(out, v->pool->embedding + i * dim, v->mean, v->scale, bound, dim);
    memset(out + dim, 0, (v->dim - dim) * sizeof *out);
}

void ts_view_feature(const struct ts_view *v, size_t i, float *out)
{
    static const float zero[TS_MAX_FEATURES];
    const size_t n = (size_t)v->pool->n_features;
    v->ops->standardise(out, v->pool->feature + i * n, zero, v->feature_scale, bound, n);
    memset(out + n, 0, (v->features - n) * sizeof *out);
}

int ts_tick(struct ts_run *r, const char *phase, double fraction)
{
    r->done = fmax(r->done, fmin(fraction, 1.0));
    return r->progress && r->progress(r->arg, &(struct ts_progress){phase, r->done}) ? -TP_E_CANCELLED : 0;
}
