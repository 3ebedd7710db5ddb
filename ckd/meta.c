/* First-order meta-learning over the tasks of the sources (ckd/meta.h). Tasks come one after another; only a step's
 * gradient is spread over threads. */
#include "ckd/meta.h"

#include "model/mem.h"
#include "model/shards.h"
#include "proto/clock.h"

#include <math.h>
#include <string.h>

void tk_meta_defaults(struct tk_meta_opts *o)
{
    *o = (struct tk_meta_opts){
        .rounds = 1500, .steps = 8, .batch = 32, .inner_lr = 1e-3, .outer_lr = 0.5, .average = 0.99};
}

struct meta {
    const struct tk_meta_opts *o;
    struct tm_params p; /* of w */
    struct tm_shards *shards;
    struct tm_groups *groups; /* [n] */
    const struct tk_set *sources;
    uint32_t n;
    float *slow, *mean, *w, *grad;
    struct tm_rng rng;
    /* of the step under way */
    uint32_t source;
    double scale;
};

static int step_loss(void *arg, const uint32_t *programs, uint32_t n, const struct tm_tape *t, float *gs, float *gl,
                     double *loss)
{
    const struct meta *k = arg;
    const struct tm_groups *g = &k->groups[k->source];
    const struct tm_dataset *ds = k->sources[k->source].ds;
    double *y = tm_alloc(2 * (size_t)n, sizeof *y);
    (void)gl;
    if (!y)
        return -TP_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        y[i] = g->y[programs[i]];
        y[n + i] = ds->noise ? ds->noise[programs[i]] : 0;
    }
    const double weight = tm_pair_weight(y, y + n, n);
    *loss = weight > 0 ? tm_loss_pairwise(t->s, y, y + n, n, 1 / weight, gs) : 0;
    free(y);
    return 0;
}

/* A few steps on one task, from the slow weights. */
static int adapt(struct meta *k)
{
    const struct tm_groups *g = &k->groups[k->source];
    const uint32_t task = tm_rng_below(&k->rng, g->n_groups), size = g->start[task + 1] - g->start[task];
    const struct tm_chunk chunk = {g->start[task], size < k->o->batch ? size : k->o->batch};
    struct tm_adam adam;
    double loss;
    int rc = tm_adam_init(&adam, k->p.n);
    memcpy(k->w, k->slow, k->p.n * sizeof *k->w);
    for (uint32_t i = 0; i < k->o->steps && rc == 0; i++) {
        tm_params_refresh(&k->p);
        tm_rng_shuffle(&k->rng, g->programs + g->start[task], size);
        rc = tm_shards_grad(k->shards, &k->p, k->sources[k->source].ds, g->programs, &chunk, 1, step_loss, k, k->grad,
                            &loss);
        if (rc == 0 && isfinite(tm_grad_clip(k->grad, k->p.n, 1)))
            tm_adam_step(&adam, &k->p, k->w, k->grad, k->o->inner_lr, 0);
    }
    tm_adam_free(&adam);
    return rc;
}

static int go(struct meta *k, const struct tk_run *run, struct tp_err *e)
{
    struct tk_progress at = tk_progress_at("meta", 0);
    const double began = tp_seconds(), most = k->o->max_seconds;
    for (uint32_t round = 0; round < k->o->rounds; round++) {
        const double time = most > 0 && round > 0 ? (tp_seconds() - began) / most : 0,
                     left = 1 - fmax((double)round / k->o->rounds, time);
        if (left <= 0)
            break;
        k->source = tm_rng_below(&k->rng, k->n);
        if (adapt(k))
            return tp_fail(e, TP_E_NO_MEMORY, "no memory for meta-learning");
        const float by = (float)(k->o->outer_lr * left);
        const float to_mean = (float)(1 - fmin(k->o->average, (1.0 + round) / (10.0 + round)));
        for (size_t i = 0; i < k->p.n; i++) {
            k->slow[i] += by * (k->w[i] - k->slow[i]);
            k->mean[i] += to_mean * (k->slow[i] - k->mean[i]);
        }
        at.fraction = (round + 1.0) / k->o->rounds;
        if (run->progress && run->progress(run->arg, &at))
            return tp_fail(e, TP_E_CANCELLED, "cancelled while meta-learning");
    }
    return 0;
}

int tk_meta(const struct tm_model *m, const struct tk_set *sources, uint32_t n, const struct tk_meta_opts *o,
            const struct tk_run *run, float *start, struct tp_err *e)
{
    struct meta k = {.o = o, .sources = sources};
    const size_t bytes = m->n * sizeof *k.w;
    struct tk_set *kept = tm_alloc(n, sizeof *kept);
    int rc = kept && (k.groups = tm_alloc(n, sizeof *k.groups))
                 ? 0
                 : tp_fail(e, TP_E_NO_MEMORY, "no memory for %u sources", n);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        const struct tm_dataset *ds = sources[i].ds;
        if (m->features != ds->features || m->h.features != ds->cols || m->h.summary != ds->summary_cols)
            rc = tp_fail(e, TP_E_FEATURES_MISMATCH, "the model and the programs are encoded by different features");
        else if ((rc = tm_groups_init(&k.groups[k.n], ds, sources[i].programs, sources[i].n, UINT32_MAX, e)) == 0)
            kept[k.n++] = sources[i];
        else if (rc == -TP_E_NOT_ENOUGH_DATA)
            rc = 0; /* the others may have tasks */
    }
    if (rc == 0 && k.n == 0)
        rc = tp_fail(e, TP_E_NOT_ENOUGH_DATA, "no source has a task with two programs of which one ran");
    if (rc)
        goto out;
    k.sources = kept;
    if (!(k.slow = tm_alloc(m->n, sizeof *k.slow)) || !(k.mean = tm_alloc(m->n, sizeof *k.mean)) ||
        !(k.w = tm_alloc(m->n, sizeof *k.w)) || !(k.grad = tm_alloc(m->n, sizeof *k.grad)) ||
        !(k.shards = tm_shards_new(m->n, run->threads))) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for meta-learning");
        goto out;
    }
    memcpy(k.slow, m->w, bytes);
    memcpy(k.mean, m->w, bytes);
    memcpy(k.w, m->w, bytes);
    if ((rc = tm_params_init(&k.p, &m->h, k.w, e)))
        goto out;
    tm_rng_seed(&k.rng, run->seed ^ 0x3e7a);
    if ((rc = go(&k, run, e)) == 0)
        memcpy(start, k.mean, bytes);
out:
    for (uint32_t i = 0; i < k.n; i++)
        tm_groups_free(&k.groups[i]);
    tm_params_free(&k.p);
    tm_shards_free(k.shards);
    free(k.slow);
    free(k.mean);
    free(k.w);
    free(k.grad);
    free(k.groups);
    free(kept);
    return rc;
}
