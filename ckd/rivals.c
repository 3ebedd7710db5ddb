/* Rivals and cross-fitting (ckd/rivals.h). Folds come one after another, each is a function of the seed. */
#include "ckd/rivals.h"

#include "ckd/champion.h"
#include "ckd/distil.h"
#include "model/mem.h"
#include "model/shards.h"

#include <math.h>
#include <string.h>

const char *tk_rival_name(enum tk_rival r)
{
    static const char *const name[] = {
#define X(id, text) text,
        TK_RIVALS(X)
#undef X
    };
    return name[r];
}

/* ---- who wins ---- */

/* Quality by rival and task; those that take part. */
struct figures {
    const double *quality;
    uint32_t tasks;
    bool part[TK_RIVAL_COUNT];
};

static double of(const struct figures *f, int r, uint32_t t)
{
    return f->quality[(size_t)r * f->tasks + t];
}

static bool judges(const struct figures *f, uint32_t t)
{
    for (int r = 0; r < TK_RIVAL_COUNT; r++)
        if (f->part[r] && isnan(of(f, r, t)))
            return false;
    return true;
}

/* Mean of x less y (y < 0: of x) over the n tasks that judge; *error: its standard error. */
static double mean(const struct figures *f, int x, int y, uint32_t n, double *error)
{
    double sum = 0, squares = 0;
    for (uint32_t t = 0; t < f->tasks; t++)
        if (judges(f, t)) {
            const double d = of(f, x, t) - (y < 0 ? 0 : of(f, y, t));
            sum += d;
            squares += d * d;
        }
    *error = n > 1 ? sqrt(fmax(squares - sum * sum / n, 0) / (n - 1) / n) : x == y ? 0 : TK_ONE_TASK_ERROR;
    return sum / n;
}

void tk_contest_judge(const double *quality, uint32_t tasks, struct tk_contest *out)
{
    struct figures f = {quality, tasks, {false}};
    struct tk_contest c = {.winner = TK_RIVAL_BLEND};
    int best = -1;
    for (int r = 0; r < TK_RIVAL_COUNT; r++)
        for (uint32_t t = 0; t < tasks; t++)
            f.part[r] |= !isnan(of(&f, r, t));
    for (uint32_t t = 0; t < tasks; t++)
        c.tasks += judges(&f, t);
    for (int r = 0; r < TK_RIVAL_COUNT; r++) {
        c.quality[r] = f.part[r] && c.tasks ? mean(&f, r, -1, c.tasks, &c.error) : NAN;
        if (!isnan(c.quality[r]) && (best < 0 || c.quality[r] > c.quality[best]))
            best = r;
    }
    if (best < 0)
        c.tasks = 0;
    for (int r = 0; r < TK_RIVAL_COUNT && best >= 0; r++) {
        if (isnan(c.quality[r]))
            continue;
        c.winner = (enum tk_rival)r;
        c.behind = mean(&f, best, r, c.tasks, &c.error);
        if (c.behind <= TK_MARGIN + c.error)
            break;
    }
    *out = c;
}

/* ---- scores and figures ---- */

struct cross {
    const struct tk_kb *kb;
    const struct tk_set *train, *valid;
    struct tk_learn_opts cl, scratch;
    const struct tk_run *run;
    uint32_t folds;
    double each;                   /* programs a task to learn from */
    double share;                  /* of what was learned, in TK_RIVAL_BLEND */
    uint32_t *fold;                /* [n_tasks] */
    uint32_t *learn, *held;        /* of the fold under way */
    double *score[TK_RIVAL_COUNT]; /* [ds->n], of programs that were judged */
    struct tm_model *mean;         /* of the learned weights */
    double *committee; /* [ds->n] of train: scores by the models of all folds; NULL: no model from scratch takes part */
    uint32_t fits, n_fits; /* done, of how many */
};

static int quality_of(const struct tk_set *on, double *const score[TK_RIVAL_COUNT], struct tk_contest *out,
                      struct tp_err *e)
{
    struct tm_groups g = {0};
    double *quality = NULL, *cost = NULL;
    int rc = tm_groups_init(&g, on->ds, on->programs, on->n, UINT32_MAX, e);
    if (rc == -TP_E_NOT_ENOUGH_DATA) { /* nothing that judges */
        tk_contest_judge(NULL, 0, out);
        return 0;
    }
    if (rc)
        return rc;
    rc = -TP_E_NO_MEMORY;
    if (!(quality = tm_alloc((size_t)TK_RIVAL_COUNT * g.n_groups, sizeof *quality)) ||
        !(cost = tm_alloc(2 * (size_t)g.n, sizeof *cost)))
        goto out;
    for (uint32_t t = 0; t < g.n_groups; t++) {
        const uint32_t *p = g.programs + g.start[t], n = g.start[t + 1] - g.start[t];
        for (int r = 0; r < TK_RIVAL_COUNT; r++) {
            struct tm_metrics m = {0};
            for (uint32_t i = 0; i < n; i++) {
                cost[i] = on->ds->cost[p[i]];
                cost[n + i] = score[r] ? score[r][p[i]] : 0;
            }
            if (score[r] && tm_metrics_task(cost, cost + n, NULL, n, &m))
                goto out;
            quality[(size_t)r * g.n_groups + t] = score[r] ? tk_quality(&m) : NAN;
        }
    }
    tk_contest_judge(quality, g.n_groups, out);
    rc = 0;
out:
    tm_groups_free(&g);
    free(quality);
    free(cost);
    return rc ? tp_fail(e, TP_E_NO_MEMORY, "no memory to compare models") : 0;
}

/* Scores of the programs of s by m, each to its own place in `to`. */
static int score(const struct tm_model *m, const struct tk_set *s, const struct tk_run *run, double *to,
                 struct tp_err *e)
{
    double *v = tm_alloc(s->n, sizeof *v);
    int rc = v ? tk_scores(m, s, run->threads, v, e) : tp_fail(e, TP_E_NO_MEMORY, "no memory to compare models");
    for (size_t i = 0; i < s->n && rc == 0; i++)
        to[s->programs[i]] = v[i];
    free(v);
    return rc;
}

int tk_contest_pair(const struct tm_model *ac, const struct tm_model *kb, const struct tk_set *held_out,
                    const struct tk_run *run, struct tk_contest *out, struct tp_err *e)
{
    double *of_rival[TK_RIVAL_COUNT] = {NULL}, *v = tm_alloc(2 * (size_t)held_out->ds->n, sizeof *v);
    if (!v)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to compare models");
    of_rival[TK_RIVAL_SCRATCH] = v;
    of_rival[TK_RIVAL_KB] = v + held_out->ds->n;
    int rc = score(ac, held_out, run, of_rival[TK_RIVAL_SCRATCH], e);
    if (rc == 0)
        rc = score(kb, held_out, run, of_rival[TK_RIVAL_KB], e);
    if (rc == 0)
        rc = quality_of(held_out, of_rival, out, e);
    free(v);
    return rc;
}

/* ---- cross-fitting ---- */

static double share_of(const struct cross *c, int rival)
{
    return rival == TK_RIVAL_BLEND ? c->share : rival == TK_RIVAL_WHOLE ? 1 : rival == TK_RIVAL_HALF ? 0.5 : 0.25;
}

/* The knowledge base's weights, and `share` of the way to m's. NULL: out of memory. */
static struct tm_model *blend(const struct cross *c, const struct tm_model *m, double share)
{
    const float *from = c->kb->model->w;
    struct tm_model *b = tm_model_clone(m);
    for (size_t i = 0; b && i < b->n; i++)
        b->w[i] = from[i] + (float)share * (b->w[i] - from[i]);
    return b;
}

/* Progress of a part of the phase. */
static int relay(void *arg, const struct tk_progress *p)
{
    const struct cross *c = arg;
    struct tk_progress q = *p;
    q.fraction = (c->fits + p->fraction) / c->n_fits;
    return c->run->progress(c->run->arg, &q);
}

/* The folds of the tasks that can be learned from; the others are judged with the first. */
static int deal(struct cross *c, struct tp_err *e)
{
    struct tm_groups g = {0};
    struct tm_rng rng;
    int rc = tm_groups_init(&g, c->train->ds, c->train->programs, c->train->n, UINT32_MAX, e);
    if (rc)
        return rc;
    uint32_t *order = tm_alloc(g.n_groups, sizeof *order);
    if (g.n_groups < TK_HOLDOUT_TASKS)
        c->folds = 1;
    c->each = (double)g.n / g.n_groups;
    c->share = c->each / (c->each + c->cl.worth);
    for (uint32_t i = 0; i < g.n_groups && order; i++)
        order[i] = c->train->ds->task[g.programs[g.start[i]]];
    if (order) {
        tm_rng_seed(&rng, c->run->seed);
        tm_rng_shuffle(&rng, order, g.n_groups);
    }
    for (uint32_t i = 0; i < g.n_groups && order; i++)
        c->fold[order[i]] = i % c->folds;
    tm_groups_free(&g);
    rc = order ? 0 : tp_fail(e, TP_E_NO_MEMORY, "no memory for folds");
    free(order);
    return rc;
}

static void sets_of(const struct cross *c, uint32_t fold, struct tk_set *learn, struct tk_set *held)
{
    const struct tk_set *t = c->train, *v = c->valid;
    size_t nl = 0, nh = 0;
    for (size_t i = 0; i < t->n; i++)
        if (c->folds > 1 && c->fold[t->ds->task[t->programs[i]]] == fold)
            c->held[nh++] = t->programs[i];
        else
            c->learn[nl++] = t->programs[i];
    for (size_t i = 0; i < v->n && fold == 0; i++)
        c->held[nh++] = v->programs[i];
    *learn = (struct tk_set){t->ds, c->learn, nl};
    *held = (struct tk_set){t->ds, c->held, nh};
}

static int score_blends(struct cross *c, const struct tm_model *m, const struct tk_set *held, struct tp_err *e)
{
    int rc = 0;
    for (int r = TK_RIVAL_BLEND; r <= TK_RIVAL_QUARTER && rc == 0; r++) {
        struct tm_model *b = blend(c, m, share_of(c, r));
        rc = b ? score(b, held, c->run, c->score[r], e) : tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
        tm_model_free(b);
    }
    return rc ? rc : score(c->kb->model, held, c->run, c->score[TK_RIVAL_KB], e);
}

/* Add m's scores of train to `to`, each task's with mean 0 and deviation 1. */
static int add_scores(const struct cross *c, const struct tm_model *m, double *to, struct tp_err *e)
{
    const struct tk_set *t = c->train;
    struct figure {
        double n, sum, squares;
    } *of = tm_alloc(t->ds->n_tasks, sizeof *of);
    double *v = tm_alloc(t->n, sizeof *v);
    int rc = of && v ? tk_scores(m, t, c->run->threads, v, e) : tp_fail(e, TP_E_NO_MEMORY, "no memory for scores");
    for (size_t i = 0; i < t->n && rc == 0; i++) {
        struct figure *f = &of[t->ds->task[t->programs[i]]];
        f->n++;
        f->sum += v[i];
        f->squares += v[i] * v[i];
    }
    for (size_t i = 0; i < t->n && rc == 0; i++) {
        const struct figure *f = &of[t->ds->task[t->programs[i]]];
        const double mean = f->sum / f->n, variance = f->squares / f->n - mean * mean;
        to[t->programs[i]] += variance > TK_FLAT ? (v[i] - mean) / sqrt(variance) : 0;
    }
    free(of);
    free(v);
    return rc;
}

/* A fold's model from scratch, and what it and the warm one give together. */
static int fit_others(struct cross *c, const struct tm_model *warm, const struct tk_set *learn,
                      const struct tk_set *held, const struct tk_run *run, struct tk_learned *told, struct tp_err *e)
{
    const struct tk_set none = {.ds = c->train->ds};
    struct tm_model *scratch = NULL, *start = blend(c, warm, c->share), *both = NULL;
    double *says = tm_alloc(c->train->ds->n, sizeof *says);
    struct tk_learned part[2];
    int rc = start && says ? 0 : tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
    if (rc == 0)
        rc = tk_learn(c->kb, TK_GATE_SCRATCH, NULL, learn, &none, &c->scratch, run, &scratch, &part[0], e);
    c->fits++;
    if (rc == 0 && (rc = score(scratch, held, c->run, c->score[TK_RIVAL_SCRATCH], e)) == 0 &&
        (rc = add_scores(c, start, says, e)) == 0 && (rc = add_scores(c, scratch, says, e)) == 0)
        rc = tk_learn_committee(start, says, learn, &c->cl, run, &both, &part[1], e);
    c->fits++;
    if (rc == 0 && (rc = score(both, held, c->run, c->score[TK_RIVAL_COMMITTEE], e)) == 0) {
        for (size_t i = 0; i < c->train->n; i++)
            c->committee[c->train->programs[i]] += says[c->train->programs[i]];
        told->seconds += part[0].seconds + part[1].seconds;
    }
    tm_model_free(scratch);
    tm_model_free(start);
    tm_model_free(both);
    free(says);
    return rc;
}

static struct tk_run run_of(struct cross *c)
{
    return (struct tk_run){
        .seed = c->run->seed, .threads = c->run->threads, .progress = c->run->progress ? relay : NULL, .arg = c};
}

static int fit(struct cross *c, uint32_t fold, struct tk_learned *told, struct tp_err *e)
{
    const struct tk_run run = run_of(c);
    struct tk_set learn, held;
    struct tm_model *m = NULL;
    sets_of(c, fold, &learn, &held);
    int rc = tk_learn(c->kb, TK_GATE_WARM_START, NULL, &learn, &held, &c->cl, &run, &m, told, e);
    c->fits++;
    if (rc == 0 && held.n)
        rc = score_blends(c, m, &held, e);
    if (rc == 0 && held.n && c->committee)
        rc = fit_others(c, m, &learn, &held, &run, told, e);
    if (rc == 0 && !c->mean) {
        c->mean = m;
        m = NULL;
    }
    for (size_t i = 0; rc == 0 && m && i < m->n; i++)
        c->mean->w[i] += (m->w[i] - c->mean->w[i]) / (float)(fold + 1);
    tm_model_free(m);
    return rc;
}

/* So little was measured that neither a model can be made of it alone nor two models be told apart by it. */
static bool thin(const struct cross *c)
{
    return c->train->n + c->valid->n < TK_PROBE_PROGRAMS || c->each < TK_CONCORD_EACH;
}

/* Everything that was judged. c->held has room for train and valid. */
static struct tk_set judged(const struct cross *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->train->n && c->folds > 1; i++)
        c->held[n++] = c->train->programs[i];
    for (size_t i = 0; i < c->valid->n; i++)
        c->held[n++] = c->valid->programs[i];
    return (struct tk_set){c->train->ds, c->held, n};
}

static int finish(struct cross *c, enum tk_rival winner, struct tm_model **ac, struct tk_learned *told,
                  struct tp_err *e)
{
    const struct tk_set *t = c->train;
    const struct tk_run run = run_of(c);
    struct tm_model *m = NULL;
    int rc = 0;
    if (winner == TK_RIVAL_COMMITTEE) {
        struct tm_model *start = blend(c, c->mean, c->share);
        struct tk_learned last;
        rc = start ? tk_learn_committee(start, c->committee, t, &c->cl, &run, &m, &last, e)
                   : tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
        if (rc == 0) {
            last.seconds += told->seconds;
            *told = last;
        }
        tm_model_free(start);
    } else if (winner != TK_RIVAL_SCRATCH)
        m = blend(c, c->mean, share_of(c, winner));
    if (rc == 0 && winner != TK_RIVAL_SCRATCH) {
        rc = m ? tk_calibrate(m, t, c->valid, c->run->threads, e) : tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
    }
    if (rc)
        tm_model_free(m);
    else
        *ac = m;
    return rc;
}

int tk_cross_fit(const struct tk_kb *kb, const struct tk_set *train, const struct tk_set *valid, uint32_t folds,
                 const struct tk_learn_opts *cl, const struct tk_learn_opts *scratch, const struct tk_run *run,
                 struct tm_model **ac, struct tk_learned *told, struct tk_contest *contest, struct tp_err *e)
{
    struct cross c = {.kb = kb, .train = train, .valid = valid, .cl = *cl, .run = run, .folds = folds};
    struct tk_learned part, all = {.loss = NAN, .phi = NAN};
    struct tk_contest who;
    const size_t n = train->ds->n;
    double *scores = tm_alloc(TK_RIVAL_COUNT * n, sizeof *scores);
    c.fold = tm_alloc(train->ds->n_tasks, sizeof *c.fold);
    c.learn = tm_alloc(train->n, sizeof *c.learn);
    c.held = tm_alloc(train->n + valid->n, sizeof *c.held);
    int rc = scores && c.fold && c.learn && c.held ? deal(&c, e) : tp_fail(e, TP_E_NO_MEMORY, "no memory for folds");
    if (rc == 0 && thin(&c))
        scratch = NULL;
    if (scratch) {
        c.scratch = *scratch;
        c.scratch.train.keep_last = true; /* as in cl */
        if (rc == 0 && !(c.committee = tm_alloc(n, sizeof *c.committee)))
            rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for folds");
    }
    for (size_t r = 0; r < TK_RIVAL_COUNT && rc == 0; r++)
        c.score[r] = (r == TK_RIVAL_SCRATCH || r == TK_RIVAL_COMMITTEE) && !scratch ? NULL : scores + r * n;
    const bool others = scratch && (c.folds > 1 || valid->n); /* else there is nothing to judge by */
    c.n_fits = c.folds + (others ? 2 * c.folds + 1 : 0);
    c.cl.train.max_seconds /= c.folds + (others ? c.folds + 1 : 0);
    c.scratch.train.max_seconds /= c.folds;
    for (uint32_t f = 0; f < c.folds && rc == 0; f++) {
        if ((rc = fit(&c, f, &part, e)))
            break;
        part.seconds += all.seconds;
        all = part;
    }
    if (rc == 0) {
        const struct tk_set on = judged(&c);
        rc = quality_of(&on, c.score, &who, e);
    }
    if (rc == 0)
        rc = finish(&c, who.winner, ac, &all, e);
    if (rc == 0) {
        *told = all;
        *contest = who;
    }
    tm_model_free(c.mean);
    free(scores);
    free(c.committee);
    free(c.fold);
    free(c.learn);
    free(c.held);
    return rc;
}
