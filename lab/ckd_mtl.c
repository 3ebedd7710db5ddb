/* The multi-task baseline of `lab ckd`: a shared trunk, a head for each hardware. A step takes a batch of every
 * hardware and adds up the trunk's gradients; the optimiser's state of each head is its own. */
#include "lab/ckd.h"

#include "model/mem.h"
#include "model/shards.h"

#include <math.h>
#include <string.h>

/* First weight of the heads: head.0 and what follows it in the layout. */
static size_t head_at(const struct tm_model *m)
{
    return m->shape[TM_T_HEAD0_W].offset;
}

struct hardware {
    struct tk_set set;
    struct tm_groups groups;
    uint32_t next; /* chunk */
    float *w, *mean, *grad;
    struct tm_params p;
    struct tm_adam adam; /* of everything; the trunk's part is replaced by the shared one */
};

struct multi {
    const struct tk_learn_opts *o;
    struct tm_shards *shards;
    struct hardware *hw;
    uint32_t n;
    size_t head;
    float *trunk; /* gradient, summed */
    struct tm_rng rng;
    uint64_t step;
    struct hardware *now;
    double rank_scale, list_scale, latency_scale;
};

/* Labels of n programs into y[2 * n], their noise behind them. */
static void labels(const struct hardware *h, const uint32_t *programs, uint32_t n, double *y)
{
    const struct tm_dataset *ds = h->set.ds;
    for (uint32_t i = 0; i < n; i++) {
        y[i] = h->groups.y[programs[i]];
        y[n + i] = ds->noise ? ds->noise[programs[i]] : 0;
    }
}

static int chunk_loss(void *arg, const uint32_t *programs, uint32_t n, const struct tm_tape *t, float *gs, float *gl,
                      double *loss)
{
    const struct multi *k = arg;
    double *y = tm_alloc(3 * (size_t)n, sizeof *y);
    if (!y)
        return -TP_E_NO_MEMORY;
    labels(k->now, programs, n, y);
    for (uint32_t i = 0; i < n; i++)
        y[2 * n + i] = k->now->groups.ln_cost[programs[i]];
    *loss = tm_loss_pairwise(t->s, y, y + n, n, k->rank_scale, gs) +
            tm_loss_list(t->s, y, k->o->train.list_sharpness, n, k->list_scale, gs) +
            tm_loss_huber(t->l, y + 2 * n, n, k->latency_scale, gl);
    free(y);
    return 0;
}

/* As the trainer of one hardware scales its batches (model/train.c). */
static int scale(struct multi *k, const struct hardware *h, const struct tm_chunk *chunks, uint32_t n)
{
    double weight = 0, valid = 0;
    double *y = tm_alloc(2 * (size_t)k->o->train.programs_per_task, sizeof *y);
    if (!y)
        return -TP_E_NO_MEMORY;
    for (uint32_t c = 0; c < n; c++) {
        labels(h, h->groups.programs + chunks[c].at, chunks[c].n, y);
        weight += tm_pair_weight(y, y + chunks[c].n, chunks[c].n);
        for (uint32_t i = 0; i < chunks[c].n; i++)
            valid += y[i] > 0;
    }
    free(y);
    k->rank_scale = 1 / fmax(weight, 1e-6);
    k->list_scale = k->o->train.list_weight / n;
    k->latency_scale = k->o->train.latency_weight / fmax(valid, 1);
    return 0;
}

static int gradient(struct multi *k, struct hardware *h)
{
    const struct tm_groups *g = &h->groups;
    const uint32_t per_batch = (uint32_t)k->o->train.tasks_per_batch;
    double loss;
    if (h->next + 1 > g->n_chunks) {
        tm_groups_shuffle(&h->groups, &k->rng);
        h->next = 0;
    }
    const uint32_t n = g->n_chunks - h->next < per_batch ? g->n_chunks - h->next : per_batch;
    const struct tm_chunk *chunks = g->chunks + h->next;
    h->next += n;
    k->now = h;
    if (scale(k, h, chunks, n))
        return -TP_E_NO_MEMORY;
    return tm_shards_grad(k->shards, &h->p, h->set.ds, g->programs, chunks, n, chunk_loss, k, h->grad, &loss);
}

static void move(struct multi *k, struct hardware *h, double lr)
{
    const size_t n = h->p.n;
    const double keep = fmin(k->o->train.average, (1.0 + (double)k->step) / (10.0 + (double)k->step));
    memcpy(h->grad, k->trunk, k->head * sizeof *h->grad);
    tm_grad_clip(h->grad, n, k->o->train.clip);
    tm_adam_step(&h->adam, &h->p, h->w, h->grad, lr, k->o->train.weight_decay);
    /* one trunk: that of the first hardware */
    memcpy(h->w, k->hw[0].w, k->head * sizeof *h->w);
    for (size_t i = 0; i < n; i++)
        h->mean[i] += (float)(1 - keep) * (h->w[i] - h->mean[i]);
    tm_params_refresh(&h->p);
}

static int step(struct multi *k, double lr)
{
    int rc = 0;
    memset(k->trunk, 0, k->head * sizeof *k->trunk);
    for (uint32_t i = 0; i < k->n && rc == 0; i++) {
        rc = gradient(k, &k->hw[i]);
        for (size_t j = 0; j < k->head && rc == 0; j++)
            k->trunk[j] += k->hw[i].grad[j] / (float)k->n;
    }
    k->step++;
    for (uint32_t i = 0; i < k->n && rc == 0; i++)
        move(k, &k->hw[i], lr);
    return rc;
}

static int prepare(struct hardware *h, const struct tk_set *set, const struct tm_model *m,
                   const struct tk_learn_opts *o, struct tp_err *e)
{
    h->set = *set;
    int rc = tm_groups_init(&h->groups, set->ds, set->programs, set->n, (uint32_t)o->train.programs_per_task, e);
    if (rc)
        return rc;
    h->next = h->groups.n_chunks;
    if (!(h->w = tm_alloc(m->n, sizeof *h->w)) || !(h->mean = tm_alloc(m->n, sizeof *h->mean)) ||
        !(h->grad = tm_alloc(m->n, sizeof *h->grad)) || tm_adam_init(&h->adam, m->n))
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for multi-task training");
    memcpy(h->w, m->w, m->n * sizeof *h->w);
    h->w[m->shape[TM_T_HEAD2_B].offset + 1] = (float)h->groups.mean_ln_cost;
    memcpy(h->mean, h->w, m->n * sizeof *h->mean);
    return tm_params_init(&h->p, &m->h, h->w, e);
}

int tl_ckd_multi_task(const struct tk_set *sets, uint32_t n, const struct tk_learn_opts *o, const struct tk_run *run,
                      struct tm_model **out, struct tp_err *e)
{
    const struct tm_hyper shape = tm_hyper_default(sets[0].ds->features);
    struct tm_model *m = tm_model_new(sets[0].ds->features, &shape, run->seed);
    struct multi k = {.o = o, .n = n};
    uint32_t longest = 0, made = 0;
    int rc = m && (k.hw = tm_alloc(n, sizeof *k.hw)) && (k.shards = tm_shards_new(m->n, run->threads)) &&
                     (k.trunk = tm_alloc(m->n, sizeof *k.trunk))
                 ? 0
                 : tp_fail(e, TP_E_NO_MEMORY, "no memory for multi-task training");
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        rc = prepare(&k.hw[i], &sets[i], m, o, e);
        longest = k.hw[i].groups.n_chunks > longest ? k.hw[i].groups.n_chunks : longest;
    }
    if (rc)
        goto out;
    k.head = head_at(m);
    tm_rng_seed(&k.rng, run->seed);
    const uint32_t per_epoch = (longest - 1) / (uint32_t)o->train.tasks_per_batch + 1;
    const uint64_t epochs = (uint64_t)o->train.epochs * per_epoch;
    const uint64_t steps = epochs > o->steps ? epochs : o->steps;
    for (uint64_t s = 0; s < steps && rc == 0; s++)
        if (step(&k, o->train.lr * tm_rate_at(TM_RATE_COSINE, 1, 1, (double)s / (double)steps)))
            rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for multi-task training");
    for (; made < n && rc == 0; made++) {
        if (!(out[made] = tm_model_clone(m))) {
            rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
            break;
        }
        memcpy(out[made]->w, k.hw[made].mean, m->n * sizeof *m->w);
    }
    while (rc && made > 0)
        tm_model_free(out[--made]);
out:
    for (uint32_t i = 0; k.hw && i < n; i++) {
        tm_groups_free(&k.hw[i].groups);
        tm_params_free(&k.hw[i].p);
        tm_adam_free(&k.hw[i].adam);
        free(k.hw[i].w);
        free(k.hw[i].mean);
        free(k.hw[i].grad);
    }
    tm_shards_free(k.shards);
    free(k.trunk);
    free(k.hw);
    tm_model_free(m);
    return rc;
}
