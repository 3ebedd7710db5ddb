/* Pools for the tests of the sampler: clouds of programs in a few tasks. Header only, one owner. */
#ifndef SAMPLER_POOL_H
#define SAMPLER_POOL_H

#include "model/net.h"
#include "sampler/select.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct sampler_pool {
    struct ts_pool p;
    float *embedding, *feature, *predicted, *fast;
    uint32_t *task;
    uint8_t *known;
};

static inline float *sampler_floats(size_t n, struct tm_rng *r)
{
    float *v = malloc((n + 1) * sizeof *v);
    ck_assert_ptr_nonnull(v);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(2.0 * tm_rng_uniform(r) - 1.0);
    return v;
}

/* `tasks` of falling size; one in `known_every` is known (0: none). dim and features need not suit the kernels. */
static inline void sampler_pool_init(struct sampler_pool *s, size_t n, int dim, int features, uint32_t tasks,
                                     uint32_t known_every, uint64_t seed)
{
    struct tm_rng r;
    tm_rng_seed(&r, seed);
    memset(s, 0, sizeof *s);
    s->embedding = sampler_floats(n * (size_t)dim, &r);
    s->feature = sampler_floats(n * (size_t)features, &r);
    s->predicted = sampler_floats(n * 4, &r);
    s->fast = sampler_floats(n, &r);
    s->task = malloc((n + 1) * sizeof *s->task);
    s->known = calloc(n + 1, 1);
    ck_assert(s->task && s->known);
    for (size_t i = 0; i < n; i++) {
        const uint32_t a = tm_rng_below(&r, tasks), b = tm_rng_below(&r, tasks), cloud = tm_rng_below(&r, 6);
        s->task[i] = 17 + 1000 * (a < b ? a : b);
        s->known[i] = known_every && tm_rng_below(&r, known_every) == 0;
        for (int j = 0; j < dim; j++)
            s->embedding[i * (size_t)dim + (size_t)j] += 3.0f * (float)((cloud + (uint32_t)j) % 3) + 10.0f * (float)j;
    }
    s->p = (struct ts_pool){.n = n,
                            .dim = dim,
                            .embedding = s->embedding,
                            .task = s->task,
                            .known = s->known,
                            .n_features = features,
                            .feature = s->feature};
}

static inline void sampler_pool_free(struct sampler_pool *s)
{
    free(s->embedding);
    free(s->feature);
    free(s->predicted);
    free(s->fast);
    free(s->task);
    free(s->known);
}

#endif
