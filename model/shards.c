/* Gradients of a batch and predictions on several threads (model/shards.h).
 *
 * Chunk c of n belongs to shard c * TM_SHARDS / n, whatever thread runs it; a shard works through its chunks in order,
 * one at a time, which also keeps its activations near the core. */
#include "model/shards.h"

#include "model/mem.h"
#include "model/pool.h"

#include <stdatomic.h>

struct tm_shards {
    size_t n_params;
    struct tm_pool *pool;
    struct tm_tape *tape[TM_MAX_THREADS]; /* by worker */
    float *out[TM_MAX_THREADS];           /* by worker: gradients of the outputs, [2][out_cap] */
    size_t out_cap[TM_MAX_THREADS];
    float *grad[TM_SHARDS];
    double loss[TM_SHARDS];
    int error[TM_SHARDS];
};

struct tm_shards *tm_shards_new(size_t n_params, int threads)
{
    struct tm_shards *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->n_params = n_params;
    s->pool = tm_pool_new(threads);
    if (!s->pool)
        goto fail;
    for (int i = 0; i < tm_pool_threads(s->pool); i++)
        if (!(s->tape[i] = tm_tape_new()))
            goto fail;
    for (int i = 0; i < TM_SHARDS; i++)
        if (!(s->grad[i] = tm_alloc(n_params, sizeof *s->grad[i])))
            goto fail;
    return s;
fail:
    tm_shards_free(s);
    return NULL;
}

void tm_shards_free(struct tm_shards *s)
{
    if (!s)
        return;
    tm_pool_free(s->pool);
    for (int i = 0; i < TM_MAX_THREADS; i++) {
        tm_tape_free(s->tape[i]);
        free(s->out[i]);
    }
    for (int i = 0; i < TM_SHARDS; i++)
        free(s->grad[i]);
    free(s);
}

struct grad_job {
    struct tm_shards *s;
    const struct tm_params *p;
    const struct tm_dataset *ds;
    const uint32_t *programs;
    const struct tm_chunk *chunks;
    uint32_t n_chunks;
    tm_loss_fn fn;
    void *arg;
};

static int run_chunk(const struct grad_job *j, const struct tm_chunk *c, int worker, float *grad, double *loss)
{
    struct tm_shards *s = j->s;
    struct tm_tape *t = s->tape[worker];
    const uint32_t *programs = j->programs + c->at;
    double sum = 0;
    int rc;
    if (tm_grow((void **)&s->out[worker], &s->out_cap[worker], 2 * (size_t)c->n, sizeof(float)))
        return -TP_E_NO_MEMORY;
    float *gs = s->out[worker], *gl = gs + c->n;
    memset(gs, 0, 2 * (size_t)c->n * sizeof *gs);
    if ((rc = tm_forward(j->p, t, j->ds, programs, c->n)) || (rc = j->fn(j->arg, programs, c->n, t, gs, gl, &sum)))
        return rc;
    tm_backward(j->p, t, gs, gl, grad);
    *loss += sum;
    return 0;
}

static void run_shard(void *arg, uint32_t shard, int worker)
{
    const struct grad_job *j = arg;
    struct tm_shards *s = j->s;
    uint64_t from = (uint64_t)shard * j->n_chunks / TM_SHARDS, to = (uint64_t)(shard + 1) * j->n_chunks / TM_SHARDS;
    s->loss[shard] = 0;
    s->error[shard] = 0;
    memset(s->grad[shard], 0, s->n_params * sizeof *s->grad[shard]);
    for (uint64_t c = from; c < to && !s->error[shard]; c++)
        s->error[shard] = run_chunk(j, &j->chunks[c], worker, s->grad[shard], &s->loss[shard]);
}

int tm_shards_grad(struct tm_shards *s, const struct tm_params *p, const struct tm_dataset *ds,
                   const uint32_t *programs, const struct tm_chunk *chunks, uint32_t n_chunks, tm_loss_fn fn, void *arg,
                   float *grad, double *loss)
{
    struct grad_job j = {s, p, ds, programs, chunks, n_chunks, fn, arg};
    double sum = 0;
    tm_pool_run(s->pool, run_shard, &j, TM_SHARDS);
    for (int i = 0; i < TM_SHARDS; i++) {
        if (s->error[i])
            return s->error[i];
        sum += s->loss[i];
    }
    memcpy(grad, s->grad[0], s->n_params * sizeof *grad);
    for (int i = 1; i < TM_SHARDS; i++)
        p->ops->add(grad, s->grad[i], s->n_params);
    *loss = sum;
    return 0;
}

struct predict_job {
    struct tm_shards *s;
    const struct tm_params *p;
    const struct tm_dataset *ds;
    const uint32_t *programs;
    size_t n;
    double *score, *ln_latency;
    atomic_int error;
};

static void predict_chunk(void *arg, uint32_t item, int worker)
{
    struct predict_job *j = arg;
    struct tm_tape *t = j->s->tape[worker];
    size_t at = (size_t)item * TM_PREDICT_CHUNK, n = j->n - at < TM_PREDICT_CHUNK ? j->n - at : TM_PREDICT_CHUNK;
    int rc = tm_forward(j->p, t, j->ds, j->programs + at, (uint32_t)n);
    if (rc) {
        atomic_store(&j->error, rc);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (j->score)
            j->score[at + i] = (double)t->s[i];
        if (j->ln_latency)
            j->ln_latency[at + i] = (double)t->l[i];
    }
}

int tm_shards_predict(struct tm_shards *s, const struct tm_params *p, const struct tm_dataset *ds,
                      const uint32_t *programs, size_t n, double *score, double *ln_latency)
{
    struct predict_job j = {s, p, ds, programs, n, score, ln_latency, 0};
    tm_pool_run(s->pool, predict_chunk, &j, (uint32_t)((n + TM_PREDICT_CHUNK - 1) / TM_PREDICT_CHUNK));
    return atomic_load(&j.error);
}
