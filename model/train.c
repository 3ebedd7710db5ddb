/* Supervised training (model/train.h, docs/model.md section 4).
 *
 * The model given is written only at the very end: all work is on a private copy, so a cancelled or failed training
 * leaves no trace. Progress is the share of optimiser steps done; with max_seconds it is the share of the time used, if
 * that is larger, but in the first epoch no more than the share of this epoch. The learning rate is a function of
 * progress and training ends when it reaches 1, so a limit in time shortens the schedule instead of cutting it off, and
 * never to less than one epoch. Only then does the clock influence the weights. */
#include "model/train.h"

#include "model/calibrate.h"
#include "model/latency.h"
#include "model/mem.h"
#include "model/metrics.h"
#include "model/shards.h"
#include "proto/clock.h"

#include <math.h>

void tm_train_defaults(struct tm_train_opts *o)
{
    *o = (struct tm_train_opts){
        .epochs = 12,
        .seed = 1,
        .threads = 1,
        .tasks_per_batch = 4,
        .programs_per_task = 32,
        .rank = TM_RANK_PAIRWISE,
        .list_weight = 0.3,
        .list_sharpness = 10,
        .lr = 1.4e-3,
        .rate = TM_RATE_COSINE,
        .period = 10,
        .average = 0.999,
        .clip = 1.0,
        .weight_decay = 1e-6,
        .latency_weight = 0.1,
    };
}

double tm_rate_at(enum tm_rate rate, int epochs, int period, double fraction)
{
    const double at = fmax(fmin(fraction, 1), 0), epoch = at * epochs;
    switch (rate) {
    case TM_RATE_RESTARTS: /* the last moment belongs to the last cosine, it does not begin another */
        return at < 1 ? 0.5 * (1 + cos(M_PI * fmod(epoch, period) / period)) : 0;
    case TM_RATE_STEPS:
        return pow(0.1, floor(epoch / period));
    case TM_RATE_COSINE:
        break;
    }
    return 0.5 * (1 + cos(M_PI * at));
}

/* Predictions of a set of programs, with what metrics and calibration want to know about them. */
struct predictions {
    size_t n;
    const uint32_t *programs; /* borrowed */
    uint32_t *task;
    double *cost, *score, *ln_latency;
};

struct trainer {
    const struct tm_dataset *ds;
    const struct tm_train_opts *o;
    tm_progress_fn progress;
    void *arg;
    const float *initial; /* weights at the start */
    float *w, *mean_w, *best_w, *grad;
    struct tm_params p, mean; /* of w; of mean_w, the running mean of w, which is what is judged and kept */
    struct tm_adam adam;
    struct tm_shards *shards;
    struct tm_groups groups;
    struct tm_rng rng;
    struct predictions valid;
    uint64_t step, steps, per_epoch; /* optimiser steps done, planned, of an epoch */
    double began, valid_seconds;     /* clock; duration of the last validation */
    double best_pairwise;
    struct tm_progress at;
    /* of the batch under way, read by the loss on the pool's threads */
    double rank_scale, list_scale, latency_scale;
    struct tm_train_hook hook; /* all NULL when there is none */
};

static void predictions_free(struct predictions *p)
{
    free(p->task);
    free(p->cost);
    free(p->score);
    free(p->ln_latency);
    *p = (struct predictions){0};
}

static int predictions_init(struct predictions *p, const struct tm_dataset *ds, const uint32_t *programs, size_t n)
{
    *p = (struct predictions){.n = n, .programs = programs};
    p->task = tm_alloc(n, sizeof *p->task);
    p->cost = tm_alloc(n, sizeof *p->cost);
    p->score = tm_alloc(n, sizeof *p->score);
    p->ln_latency = tm_alloc(n, sizeof *p->ln_latency);
    if (!p->task || !p->cost || !p->score || !p->ln_latency) {
        predictions_free(p);
        return -TP_E_NO_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        p->task[i] = ds->task[programs[i]];
        p->cost[i] = ds->cost[programs[i]];
    }
    return 0;
}

/* What the running mean says. */
static int predict(struct trainer *t, struct predictions *p)
{
    tm_params_refresh(&t->mean);
    return tm_shards_predict(t->shards, &t->mean, t->ds, p->programs, p->n, p->score, p->ln_latency);
}

static double noise_of(const struct trainer *t, uint32_t program)
{
    return t->ds->noise ? t->ds->noise[program] : 0;
}

/* Loss of one chunk (tm_loss_fn). */
static int chunk_loss(void *arg, const uint32_t *programs, uint32_t n, const struct tm_tape *tape, float *gs, float *gl,
                      double *loss)
{
    const struct trainer *t = arg;
    double *y = tm_alloc(3 * (size_t)n, sizeof *y), rank = 0;
    int rc = 0;
    if (!y)
        return -TP_E_NO_MEMORY;
    double *ln_cost = y + n, *noise = y + 2 * n;
    for (uint32_t i = 0; i < n; i++) {
        y[i] = t->groups.y[programs[i]];
        ln_cost[i] = t->groups.ln_cost[programs[i]];
        noise[i] = noise_of(t, programs[i]);
    }
    if (t->o->rank == TM_RANK_LAMBDA)
        rc = tm_loss_lambda(tape->s, y, n, t->rank_scale, gs, &rank);
    else
        rank = tm_loss_pairwise(tape->s, y, noise, n, t->rank_scale, gs);
    if (t->list_scale > 0)
        rank += tm_loss_list(tape->s, y, t->o->list_sharpness, n, t->list_scale, gs);
    *loss = rank + tm_loss_huber(tape->l, ln_cost, n, t->latency_scale, gl);
    if (t->hook.loss && rc == 0)
        rc = t->hook.loss(t->hook.arg, programs, n, y, noise, tape, gs, gl, loss);
    free(y);
    return rc;
}

/* What the batch's losses are divided by is known from the labels, before any output is. */
static int scale_batch(struct trainer *t, const struct tm_chunk *chunks, uint32_t n_chunks)
{
    const struct tm_groups *g = &t->groups;
    double weight = 0, programs = 0, valid = 0;
    uint32_t longest = 0;
    for (uint32_t c = 0; c < n_chunks; c++)
        longest = chunks[c].n > longest ? chunks[c].n : longest;
    double *y = tm_alloc(2 * (size_t)longest, sizeof *y), *noise = y + longest;
    if (!y)
        return -TP_E_NO_MEMORY;
    for (uint32_t c = 0; c < n_chunks; c++) {
        for (uint32_t i = 0; i < chunks[c].n; i++) {
            uint32_t p = g->programs[chunks[c].at + i];
            y[i] = g->y[p];
            noise[i] = noise_of(t, p);
            valid += y[i] > 0;
        }
        weight += tm_pair_weight(y, noise, chunks[c].n);
        programs += chunks[c].n;
    }
    free(y);
    t->rank_scale = 1 / (t->o->rank == TM_RANK_LAMBDA ? programs : fmax(weight, 1e-6));
    t->list_scale = t->o->list_weight / n_chunks;
    t->latency_scale = t->o->latency_weight / fmax(valid, 1);
    return 0;
}

/* Never falls, also when a validation turns out shorter than the one before. */
static double fraction(struct trainer *t)
{
    double f = (double)t->step / (double)t->steps;
    if (t->o->max_seconds > 0) { /* what is left must hold one more validation */
        const double time = (tp_seconds() - t->began + t->valid_seconds) / t->o->max_seconds;
        f = fmax(f, fmin(time, (double)t->step / (double)t->per_epoch));
    }
    return t->at.fraction = fmax(t->at.fraction, fmin(f, 1));
}

static int report(struct trainer *t, struct tp_err *e)
{
    fraction(t);
    if (t->progress && t->progress(t->arg, &t->at))
        return tp_fail(e, TP_E_CANCELLED, "training was cancelled in epoch %d of %d", t->at.epoch, t->at.epochs);
    return 0;
}

/* Move the running mean towards the weights: by more at first, or the random weights at the start would linger. */
static void average(struct trainer *t)
{
    double n = (double)t->step, keep = fmin(t->o->average, (1 + n) / (10 + n));
    float by = (float)(1 - keep);
    for (size_t i = 0; i < t->p.n; i++)
        t->mean_w[i] += by * (t->w[i] - t->mean_w[i]);
}

/* Adam would move a weight also without a gradient, by decay alone: so they are put back. */
static void restore(const struct trainer *t)
{
    for (int k = 0; k < TM_TENSORS; k++)
        if (t->o->frozen >> k & 1)
            memcpy(t->w + t->p.shape[k].offset, t->initial + t->p.shape[k].offset, t->p.shape[k].size * sizeof *t->w);
}

static int train_batch(struct trainer *t, const struct tm_chunk *chunks, uint32_t n_chunks, double *loss,
                       struct tp_err *e)
{
    double lr = t->o->lr * tm_rate_at(t->o->rate, t->o->epochs, t->o->period, fraction(t));
    if (t->hook.begin)
        t->hook.begin(t->hook.arg, t->groups.programs, chunks, n_chunks);
    if (scale_batch(t, chunks, n_chunks) ||
        tm_shards_grad(t->shards, &t->p, t->ds, t->groups.programs, chunks, n_chunks, chunk_loss, t, t->grad, loss))
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory in a training batch");
    t->step++;
    /* a batch whose gradient overflowed teaches nothing and must not reach the moments */
    if (isfinite(tm_grad_clip(t->grad, t->p.n, t->o->clip))) {
        if (t->hook.gradient)
            t->hook.gradient(t->hook.arg, t->w, t->grad);
        tm_adam_step(&t->adam, &t->p, t->w, t->grad, lr, t->o->weight_decay);
        restore(t);
        tm_params_refresh(&t->p);
    }
    average(t);
    return 0;
}

static int train_epoch(struct trainer *t, struct tp_err *e)
{
    const uint32_t per_batch = (uint32_t)t->o->tasks_per_batch;
    double sum = 0;
    uint32_t batches = 0, c = 0;
    tm_groups_shuffle(&t->groups, &t->rng);
    do { /* an epoch that was begun has trained */
        uint32_t n = t->groups.n_chunks - c < per_batch ? t->groups.n_chunks - c : per_batch;
        double loss = 0;
        int rc = train_batch(t, t->groups.chunks + c, n, &loss, e);
        if (rc)
            return rc;
        sum += loss;
        t->at.loss = sum / ++batches;
        if ((rc = report(t, e)))
            return rc;
        c += per_batch;
    } while (c < t->groups.n_chunks && fraction(t) < 1);
    return 0;
}

/* Keep these weights if no earlier epoch ranked better, or in any case. */
static int validate(struct trainer *t, struct tp_err *e)
{
    struct tm_metrics m;
    double began = tp_seconds();
    if (predict(t, &t->valid) ||
        tm_metrics_compute(t->valid.task, t->valid.cost, t->valid.score, NULL, t->valid.n, t->ds->n_tasks, 2, &m))
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory in validation");
    if (t->hook.valid)
        t->hook.valid(t->hook.arg, t->valid.score);
    t->at.valid_top1 = m.top1_mean;
    t->at.valid_pairwise = m.pairwise;
    if (t->o->keep_last || !(m.pairwise < t->best_pairwise)) { /* also without a single pair to judge by */
        t->best_pairwise = isnan(m.pairwise) ? t->best_pairwise : m.pairwise;
        memcpy(t->best_w, t->mean_w, t->p.n * sizeof *t->w);
        t->at.kept = t->at.epoch;
    }
    t->valid_seconds = tp_seconds() - began;
    return report(t, e);
}

/* Where the latency bias starts: at the mean ln cost, or, of a model that predicts something already, where its
 * predictions have that mean. */
static int place_bias(struct trainer *t, const struct tm_model *m, struct tp_err *e)
{
    float *bias = &t->w[m->shape[TM_T_HEAD2_B].offset + 1];
    double *l = t->o->warm ? tm_alloc(t->groups.n, sizeof *l) : NULL, sum = 0, n = 0;
    int rc = t->o->warm && !l ? -TP_E_NO_MEMORY : 0;
    if (!t->o->warm) {
        *bias = (float)t->groups.mean_ln_cost;
    } else if (rc == 0 &&
               (rc = tm_shards_predict(t->shards, &t->p, t->ds, t->groups.programs, t->groups.n, NULL, l)) == 0) {
        for (uint32_t i = 0; i < t->groups.n; i++)
            if (isfinite(t->groups.ln_cost[t->groups.programs[i]])) {
                sum += t->groups.ln_cost[t->groups.programs[i]] - l[i];
                n++;
            }
        *bias += (float)(sum / fmax(n, 1));
    }
    free(l);
    return rc ? tp_fail(e, TP_E_NO_MEMORY, "out of memory before training") : 0;
}

/* On programs whose outputs are in p; they are overwritten. */
static int calibrate(struct tm_model *m, const struct tm_dataset *ds, struct predictions *p, const uint32_t *train,
                     size_t n_train)
{
    bool *seen = tm_alloc(ds->n_tasks, sizeof *seen);
    int rc = seen ? tm_calibrate(p->score, p->ln_latency, p->task, p->cost, p->n, ds->n_tasks, &m->calib_a, &m->calib_b,
                                 &m->latency_shift)
                  : -TP_E_NO_MEMORY;
    if (rc)
        goto out;
    for (size_t i = 0; i < n_train; i++)
        seen[ds->task[train[i]]] = true;
    for (size_t i = 0; i < p->n; i++) {
        p->score[i] = 1 / (1 + exp(-(m->calib_a * p->score[i] + m->calib_b)));
        p->ln_latency[i] += m->latency_shift;
    }
    rc = tm_latency_fit(m, p->score, p->ln_latency, p->task, p->cost, p->n, ds->n_tasks, seen);
out:
    free(seen);
    return rc;
}

int tm_train_calibrate(struct tm_model *m, const struct tm_dataset *ds, const uint32_t *train, size_t n_train,
                       const uint32_t *on, size_t n, int threads, struct tp_err *e)
{
    struct predictions p = {0};
    struct tm_params params = {0};
    struct tm_shards *shards = NULL;
    struct tm_model fit = *m;
    int rc = tm_params_init(&params, &m->h, m->w, e);
    if (rc)
        return rc;
    if (!(shards = tm_shards_new(m->n, threads)) || predictions_init(&p, ds, on, n) ||
        tm_shards_predict(shards, &params, ds, on, n, p.score, p.ln_latency) || calibrate(&fit, ds, &p, train, n_train))
        rc = tp_fail(e, TP_E_NO_MEMORY, "out of memory in the calibration");
    else
        *m = fit;
    predictions_free(&p);
    tm_shards_free(shards);
    tm_params_free(&params);
    return rc;
}

/* Fit the calibration on the weights that are kept, and hand both over. */
static int finish(struct trainer *t, struct tm_model *m, const uint32_t *train, size_t n_train, struct tp_err *e)
{
    const bool held_out = t->valid.n > 0;
    struct tm_model fit = *m;
    fit.w = held_out ? t->best_w : t->mean_w;
    int rc = tm_train_calibrate(&fit, t->ds, train, n_train, held_out ? t->valid.programs : train,
                                held_out ? t->valid.n : n_train, t->o->threads, e);
    if (rc)
        return rc;
    memcpy(m->w, fit.w, m->n * sizeof *m->w);
    fit.w = m->w;
    *m = fit;
    return 0;
}

static bool usable(const struct tm_train_opts *o)
{
    return o->epochs >= 1 && o->max_seconds >= 0 && o->tasks_per_batch >= 1 && o->programs_per_task >= 2 &&
           o->lr >= 0 && o->list_weight >= 0 && o->list_sharpness >= 0 && o->period >= 1 && o->average >= 0 &&
           o->average < 1 && o->clip >= 0 && o->weight_decay >= 0 && o->latency_weight >= 0;
}

int tm_train(struct tm_model *m, const struct tm_dataset *ds, const uint32_t *train, size_t n_train,
             const uint32_t *valid, size_t n_valid, const struct tm_train_opts *o, tm_progress_fn progress, void *arg,
             struct tp_err *e)
{
    struct trainer t = {.ds = ds, .o = o, .progress = progress, .arg = arg, .began = tp_seconds(), .best_pairwise = -1};
    int rc;
    if (!usable(o))
        return tp_fail(e, TP_E_UNUSABLE, "training options out of range: epochs and batch sizes must be positive");
    if (m->features != ds->features || m->h.features != ds->cols || m->h.summary != ds->summary_cols)
        return tp_fail(e, TP_E_FEATURES_MISMATCH, "the model and the programs are encoded by different features");

    if ((rc = tm_groups_init(&t.groups, ds, train, n_train, (uint32_t)o->programs_per_task, e)))
        goto out;
    if (!(t.w = tm_alloc(m->n, sizeof *t.w)) || !(t.mean_w = tm_alloc(m->n, sizeof *t.mean_w)) ||
        !(t.best_w = tm_alloc(m->n, sizeof *t.best_w)) || !(t.grad = tm_alloc(m->n, sizeof *t.grad)) ||
        !(t.shards = tm_shards_new(m->n, o->threads)) || predictions_init(&t.valid, ds, valid, n_valid) ||
        tm_adam_init(&t.adam, m->n)) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "out of memory before training");
        goto out;
    }
    t.initial = m->w;
    memcpy(t.w, m->w, m->n * sizeof *t.w);
    if ((rc = tm_params_init(&t.p, &m->h, t.w, e)) || (rc = place_bias(&t, m, e)))
        goto out;
    tm_params_refresh(&t.p);
    memcpy(t.mean_w, t.w, m->n * sizeof *t.w);
    memcpy(t.best_w, t.w, m->n * sizeof *t.w);
    if ((rc = tm_params_init(&t.mean, &m->h, t.mean_w, e)))
        goto out;

    tm_rng_seed(&t.rng, o->seed);
    t.per_epoch = (t.groups.n_chunks - 1) / (uint32_t)o->tasks_per_batch + 1;
    t.steps = (uint64_t)o->epochs * t.per_epoch;
    t.at = (struct tm_progress){.epochs = o->epochs, .valid_top1 = NAN, .valid_pairwise = NAN, .loss = NAN};
    if (o->hook)
        t.hook = *o->hook;
    if (o->warm && n_valid && (rc = validate(&t, e)))
        goto out;
    for (int epoch = 1; epoch <= o->epochs && fraction(&t) < 1; epoch++) {
        t.at.epoch = epoch;
        if (n_valid == 0)
            t.at.kept = epoch;
        if ((rc = train_epoch(&t, e)) || (n_valid && (rc = validate(&t, e))))
            goto out;
    }
    rc = finish(&t, m, train, n_train, e);
out:
    predictions_free(&t.valid);
    tm_params_free(&t.p);
    tm_params_free(&t.mean);
    tm_adam_free(&t.adam);
    tm_shards_free(t.shards);
    tm_groups_free(&t.groups);
    free(t.grad);
    free(t.best_w);
    free(t.mean_w);
    free(t.w);
    return rc;
}
