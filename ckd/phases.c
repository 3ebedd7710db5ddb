/* The phases of continual knowledge distillation (ckd/phases.h). Each works on copies. */
#include "ckd/phases.h"

#include "ckd/champion.h"
#include "ckd/distil.h"
#include "ckd/fisher.h"
#include "model/mem.h"
#include "proto/clock.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CL_PERIOD = 10, KD_PERIOD = 5, KD_EPOCHS = 15 };

void tk_scratch_defaults(struct tk_learn_opts *o)
{
    *o = (struct tk_learn_opts){.steps = 600};
    tm_train_defaults(&o->train);
    o->train.epochs = 20;
    o->train.period = 1;
}

void tk_cl_defaults(struct tk_learn_opts *o)
{
    *o = (struct tk_learn_opts){.steps = 200, .beta = 1, .worth = 6};
    tm_train_defaults(&o->train);
    o->train.epochs = CL_PERIOD;
    o->train.lr = 1e-3;
    o->train.keep_last = true; /* nobody chooses an epoch by what judges him in a contest */
    o->train.rate = TM_RATE_RESTARTS;
    o->train.period = CL_PERIOD;
}

void tk_kd_defaults(struct tk_learn_opts *o)
{
    *o = (struct tk_learn_opts){.beta = 0.5, .lambda = TK_EWC_LAMBDA};
    tm_train_defaults(&o->train);
    o->train.epochs = KD_EPOCHS;
    o->train.keep_last = true; /* else often that before the first: the knowledge base as it was */
    o->train.rate = TM_RATE_STEPS;
    o->train.period = KD_PERIOD;
    o->train.lr = 7e-4;
}

/* Between tm_train() and the caller of the phase. */
struct training {
    const struct tk_run *run;
    const struct tk_distil *distil;
    const char *phase;
    struct tk_learned told;
};

static int relay(void *arg, const struct tm_progress *p)
{
    struct training *t = arg;
    t->told.epoch = p->epoch;
    if (isfinite(p->loss)) /* not before the first batch */
        t->told.loss = p->loss;
    const struct tk_trust trust = tk_distil_trust(t->distil);
    t->told.phi = isnan(trust.teacher) ? NAN : tk_trust_phi(&trust);
    const struct tk_progress out = {.phase = t->phase,
                                    .fraction = p->fraction,
                                    .epoch = p->epoch,
                                    .epochs = p->epochs,
                                    .loss = p->loss,
                                    .phi = t->told.phi,
                                    .valid_top1 = p->valid_top1,
                                    .valid_pairwise = p->valid_pairwise};
    return t->run->progress ? t->run->progress(t->run->arg, &out) : 0;
}

/* Train m, which is the phase's own, with a teacher and EWC as d says. */
static int train(struct tm_model *m, bool warm, const struct tk_distil_opts *d, const struct tk_set *set,
                 const struct tk_set *valid, const struct tk_learn_opts *o, const struct tk_run *run, const char *phase,
                 struct tk_learned *told, struct tp_err *e)
{
    struct training t = {.run = run, .phase = phase, .told = {.loss = NAN, .phi = NAN}};
    struct tm_train_opts opts = o->train;
    struct tk_distil *distil = NULL;
    const double began = tp_seconds();
    int rc = tk_epochs_for(set, &o->train, o->steps, o->train.rate == TM_RATE_RESTARTS ? o->train.period : 1, e);
    if (rc < 0)
        return rc;
    opts.epochs = rc;
    if ((rc = tk_distil_new(d, m, set, valid, run->threads, &distil, e)))
        return rc;
    opts.seed = run->seed;
    opts.threads = run->threads;
    opts.warm = warm;
    opts.hook = tk_distil_hook(distil);
    t.distil = distil;
    t.told.epochs = opts.epochs;
    rc = tm_train(m, set->ds, set->programs, set->n, valid->programs, valid->n, &opts, relay, &t, e);
    tk_distil_free(distil);
    t.told.seconds = tp_seconds() - began;
    if (rc == 0)
        *told = t.told;
    return rc;
}

int tk_learn(const struct tk_kb *kb, enum tk_gate gate, const float *start, const struct tk_set *set,
             const struct tk_set *valid, const struct tk_learn_opts *o, const struct tk_run *run, struct tm_model **ac,
             struct tk_learned *told, struct tp_err *e)
{
    const bool warm = gate != TK_GATE_SCRATCH;
    const struct tm_hyper h = kb ? kb->model->h : o->hyper ? *o->hyper : tm_hyper_default(set->ds->features);
    const struct tk_distil_opts d = {.teacher = warm && kb ? kb->model : NULL,
                                     .beta = o->beta,
                                     .fisher = warm && kb ? kb->fisher : NULL,
                                     .anchor = warm && kb ? kb->anchor : NULL,
                                     .lambda = o->lambda};
    struct tm_model *m = warm && kb ? tm_model_clone(kb->model) : tm_model_new(set->ds->features, &h, run->seed);
    int rc;
    if (!m)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
    rc = kb || !warm ? 0 : tp_fail(e, TP_E_UNUSABLE, "there is no knowledge base to learn from");
    if (rc == 0 && !warm && start)
        memcpy(m->w, start, m->n * sizeof *m->w);
    if (rc == 0)
        rc = train(m, warm, &d, set, valid, o, run, "learn", told, e);
    if (rc) {
        tm_model_free(m);
        return rc;
    }
    *ac = m;
    return 0;
}

int tk_learn_committee(const struct tm_model *start, const double *committee, const struct tk_set *set,
                       const struct tk_learn_opts *o, const struct tk_run *run, struct tm_model **out,
                       struct tk_learned *told, struct tp_err *e)
{
    const struct tk_distil_opts d = {.committee = committee, .beta = TK_COMMITTEE_BETA};
    const struct tk_set none = {.ds = set->ds};
    struct tm_model *m = tm_model_clone(start);
    int rc = m ? train(m, true, &d, set, &none, o, run, "learn", told, e)
               : tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
    if (rc)
        tm_model_free(m);
    else
        *out = m;
    return rc;
}

int tk_teach(const struct tk_kb *kb, const struct tm_model *ac, const struct tk_set *set, const struct tk_set *valid,
             const struct tk_learn_opts *o, const struct tk_run *run, struct tk_kb **out, struct tk_learned *told,
             struct tp_err *e)
{
    const struct tk_distil_opts d = {
        .teacher = ac, .beta = o->beta, .fisher = kb->fisher, .anchor = kb->anchor, .lambda = o->lambda};
    struct tk_kb *new = tk_kb_clone(kb);
    if (!new)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for a knowledge base");
    int rc = train(new->model, true, &d, set, valid, o, run, "teach", told, e);
    if (rc) {
        tk_kb_free(new);
        return rc;
    }
    *out = new;
    return 0;
}

int tk_calibrate(struct tm_model *m, const struct tk_set *set, const struct tk_set *valid, int threads,
                 struct tp_err *e)
{
    const struct tk_set *on = valid->n ? valid : set;
    return tm_train_calibrate(m, set->ds, set->programs, set->n, on->programs, on->n, threads, e);
}

int tk_measure(const struct tm_model *m, const struct tk_set *s, const struct tk_run *run, struct tm_metrics *out,
               struct tp_err *e)
{
    uint32_t *task = tm_alloc(s->n, sizeof *task);
    double *cost = tm_alloc(2 * s->n, sizeof *cost);
    int rc = task && cost ? tk_scores(m, s, run->threads, cost + s->n, e)
                          : tp_fail(e, TP_E_NO_MEMORY, "no memory to measure %zu programs", s->n);
    for (size_t i = 0; i < s->n && rc == 0; i++) {
        task[i] = s->ds->task[s->programs[i]];
        cost[i] = s->ds->cost[s->programs[i]];
    }
    if (rc == 0 && tm_metrics_compute(task, cost, cost + s->n, NULL, s->n, s->ds->n_tasks, 2, out))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to measure %zu programs", s->n);
    free(task);
    free(cost);
    return rc;
}

/* What the candidate loses of one older hardware. */
static int losses(const struct tm_model *old, const struct tm_model *candidate, const struct tk_older *o,
                  const struct tk_run *run, double *top1, double *pairwise, double *held_out, struct tp_err *e)
{
    const struct tk_set *part[2] = {&o->learned, &o->held_out};
    double tasks = 0, parts = 0;
    *top1 = *pairwise = *held_out = 0;
    for (int i = 0; i < 2; i++) {
        struct tm_metrics was, is;
        int rc = part[i]->n ? tk_measure(old, part[i], run, &was, e) : 0;
        if (rc == 0 && part[i]->n)
            rc = tk_measure(candidate, part[i], run, &is, e);
        if (rc)
            return rc;
        if (part[i]->n == 0 || was.tasks == 0)
            continue;
        *top1 += was.tasks * (was.top1_mean - is.top1_mean);
        tasks += was.tasks;
        if (isnan(was.pairwise) || isnan(is.pairwise)) /* no two programs that differ */
            continue;
        *pairwise += was.pairwise - is.pairwise;
        *held_out = was.pairwise - is.pairwise; /* of the last part: what was held out, where there is any */
        parts++;
    }
    *top1 /= tasks; /* NaN without any */
    *pairwise /= parts;
    return 0;
}

int tk_accept(const struct tm_model *old, const struct tm_model *candidate, const struct tk_older *older, uint32_t n,
              const struct tk_set *valid, const struct tk_run *run, struct tk_acceptance *out, struct tp_err *e)
{
    struct tk_acceptance a = {.drop = NAN, .pairwise_drop = NAN, .gain = NAN};
    struct tm_metrics was, is;
    int rc = 0;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        double drop, pairwise, held_out;
        if ((rc = losses(old, candidate, &older[i], run, &drop, &pairwise, &held_out, e)))
            return rc;
        a.balance -= held_out;
        if (isnan(a.drop) || drop > a.drop) {
            a.drop = drop;
            a.worst = i;
        }
        a.pairwise_drop = fmax(a.pairwise_drop, pairwise); /* of NaN and a number: the number */
    }
    if (valid->n) {
        if ((rc = tk_measure(old, valid, run, &was, e)) || (rc = tk_measure(candidate, valid, run, &is, e)))
            return rc;
        a.gain = tk_quality(&is) - tk_quality(&was);
        a.balance += is.pairwise - was.pairwise;
    }
    if (!valid->n)
        a.balance = NAN;
    a.accepted = !(a.drop > TK_TOP1_DROP) && !(a.pairwise_drop > TK_PAIRWISE_DROP);
    if (isnan(a.drop))
        snprintf(a.reason, sizeof a.reason, "There is no older hardware that could lose.");
    else
        snprintf(a.reason, sizeof a.reason,
                 "Older hardware at worst: top-1 %+.4f (limit %.2f), pairwise %+.4f (limit %.2f): %s.", -a.drop,
                 -TK_TOP1_DROP, -a.pairwise_drop, -TK_PAIRWISE_DROP, a.accepted ? "accepted" : "refused");
    *out = a;
    return 0;
}

int tk_settle(struct tk_kb *kb, const struct tk_set *learned, const struct tk_run *run, struct tp_err *e)
{
    float *fisher = tm_alloc(kb->model->n, sizeof *fisher);
    int rc = fisher ? tk_fisher(kb->model, learned, run, fisher, e)
                    : tp_fail(e, TP_E_NO_MEMORY, "no memory for Fisher information");
    if (rc == 0) {
        tk_fisher_merge(kb->fisher, fisher, kb->model->n);
        memcpy(kb->anchor, kb->model->w, kb->model->n * sizeof *kb->anchor);
        kb->phases++;
    }
    free(fisher);
    return rc;
}
