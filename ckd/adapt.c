/* The jobs of continual distillation: which phase comes when (ckd/adapt.h). */
#include "ckd/adapt.h"

#include "model/mem.h"
#include "model/shards.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *tk_phase_name(enum tk_phase p)
{
    static const char *const name[] = {
#define X(id, text) text,
        TK_PHASES(X)
#undef X
    };
    return name[p];
}

void tk_adapt_defaults(struct tk_adapt *a)
{
    *a = (struct tk_adapt){.run = {.seed = 1, .threads = 1}};
    tk_scratch_defaults(&a->scratch);
    tk_cl_defaults(&a->cl);
    tk_kd_defaults(&a->kd);
}

void tk_adapt_state_free(struct tk_adapt_state *s)
{
    tm_model_free(s->ac);
    tk_kb_free(s->new_kb);
    *s = (struct tk_adapt_state){0};
}

static const struct tm_model *kb_model(const struct tk_adapt *a)
{
    return a->kb ? a->kb->model : NULL;
}

static int probe(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    struct tk_set set = a->probe;
    uint32_t *all = NULL;
    if (set.n == 0) {
        if (!(all = tm_alloc(a->train.n + a->valid.n, sizeof *all)))
            return tp_fail(e, TP_E_NO_MEMORY, "no memory for a probe");
        if (a->train.n)
            memcpy(all, a->train.programs, a->train.n * sizeof *all);
        if (a->valid.n)
            memcpy(all + a->train.n, a->valid.programs, a->valid.n * sizeof *all);
        set = (struct tk_set){a->train.ds, all, a->train.n + a->valid.n};
    }
    int rc = tk_gate_model(kb_model(a), a->kb ? a->kb->kind : a->kind, a->kind, &set, &a->run, &s->verdict, e);
    free(all);
    return rc;
}

/* From scratch: random weights, and the family's initial weights if they learn better. */
static int learn_alone(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    const float *start = a->kb ? a->kb->start : NULL;
    struct tm_model *random = NULL, *other = NULL;
    struct tk_learned told, told_other;
    struct tm_metrics m, m_other;
    int rc = tk_learn(a->kb, TK_GATE_SCRATCH, NULL, &a->train, &a->valid, &a->scratch, &a->run, &random, &told, e);
    if (rc || !start || !a->valid.n)
        goto out;
    if ((rc = tk_learn(a->kb, TK_GATE_SCRATCH, start, &a->train, &a->valid, &a->scratch, &a->run, &other, &told_other,
                       e)) ||
        (rc = tk_measure(random, &a->valid, &a->run, &m, e)) ||
        (rc = tk_measure(other, &a->valid, &a->run, &m_other, e)))
        goto out;
    s->from_start = tk_quality(&m_other) > tk_quality(&m);
out:
    if (rc == 0) {
        s->ac = s->from_start ? other : random;
        s->cl = s->from_start ? told_other : told;
        *(s->from_start ? &other : &random) = NULL;
    }
    tm_model_free(random);
    tm_model_free(other);
    return rc;
}

static int learn(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    if (s->verdict.gate == TK_GATE_SCRATCH)
        return learn_alone(a, s, e);
    return tk_learn(a->kb, s->verdict.gate, NULL, &a->train, &a->valid, &a->cl, &a->run, &s->ac, &s->cl, e);
}

/* Standard error, over held-out tasks, of how much better x is than y: the two are compared task by task. */
static int error_of_gain(const struct tk_adapt *a, const struct tm_model *x, const struct tm_model *y, double *se,
                         struct tp_err *e)
{
    const struct tk_set *v = &a->valid;
    struct tm_groups g = {0};
    double *of[2] = {tm_alloc(v->ds->n, sizeof(double)), tm_alloc(v->ds->n, sizeof(double))};
    double *score = tm_alloc(3 * v->n, sizeof *score), sum = 0, squares = 0, n = 0;
    int rc = of[0] && of[1] && score ? tm_groups_init(&g, v->ds, v->programs, v->n, UINT32_MAX, e)
                                     : tp_fail(e, TP_E_NO_MEMORY, "no memory to compare models");
    for (int i = 0; i < 2 && rc == 0; i++) {
        rc = tk_scores(i ? y : x, v, a->run.threads, score, e);
        for (size_t k = 0; k < v->n && rc == 0; k++)
            of[i][v->programs[k]] = score[k];
    }
    for (uint32_t t = 0; t < g.n_groups && rc == 0; t++) {
        const uint32_t *p = g.programs + g.start[t], size = g.start[t + 1] - g.start[t];
        double *cost = score, *sx = score + v->n, *sy = score + 2 * v->n;
        struct tm_metrics mx, my;
        for (uint32_t i = 0; i < size; i++) {
            cost[i] = v->ds->cost[p[i]];
            sx[i] = of[0][p[i]];
            sy[i] = of[1][p[i]];
        }
        if (tm_metrics_task(cost, sx, NULL, size, &mx) || tm_metrics_task(cost, sy, NULL, size, &my))
            rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to compare models");
        const double d = tk_quality(&mx) - tk_quality(&my);
        if (rc == 0 && !isnan(d)) {
            sum += d;
            squares += d * d;
            n++;
        }
    }
    if (rc == 0)
        *se = n > 1 ? sqrt(fmax(squares - sum * sum / n, 0) / (n - 1) / n) : 0;
    tm_groups_free(&g);
    free(of[0]);
    free(of[1]);
    free(score);
    return rc;
}

/* A tenth of the data holds out little: an AC that began with the knowledge base is refused only when it is worse by
 * more than the margin and one standard error. */
static int judge_over_kb(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    struct tk_judgement *j = &s->over_kb;
    double se = 0;
    tk_judge(&s->ac_metrics, a->kb ? &s->kb_metrics : NULL, false, j);
    if (j->decision != TK_KEPT_CHAMPION || isnan(j->gain))
        return 0;
    int rc = error_of_gain(a, s->ac, a->kb->model, &se, e);
    if (rc == 0 && j->gain >= -TK_MARGIN - se) {
        j->decision = TK_ACTIVATED;
        snprintf(j->reason, sizeof j->reason,
                 "Quality lower by %.4f, within the margin %.3f and one standard error %.4f.", -j->gain, TK_MARGIN, se);
    }
    return rc;
}

static int judge(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    const struct tm_model *kb = kb_model(a);
    if (!a->valid.n) { /* nothing to judge by: good enough where there is nothing else */
        s->activated = !a->champion;
        return 0;
    }
    int rc = tk_measure(s->ac, &a->valid, &a->run, &s->ac_metrics, e);
    if (rc || (a->champion && (rc = tk_measure(a->champion, &a->valid, &a->run, &s->champion_metrics, e))) ||
        (kb && (rc = tk_measure(kb, &a->valid, &a->run, &s->kb_metrics, e))))
        return rc;
    tk_judge(&s->ac_metrics, a->champion ? &s->champion_metrics : NULL, false, &s->over_champion);
    if ((rc = judge_over_kb(a, s, e)))
        return rc;
    s->activated = s->over_champion.decision == TK_ACTIVATED && s->over_kb.decision == TK_ACTIVATED;
    return 0;
}

/* One attempt. The phase comes again while a candidate is refused and attempts are left. */
static int teach(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    struct tk_learn_opts o = a->kd;
    struct tk_kb *new = NULL;
    struct tk_learned told;
    struct tk_acceptance acceptance;
    o.lambda = a->kd.lambda * pow(TK_LAMBDA_FACTOR, s->attempts);
    int rc = tk_teach(a->kb, s->ac, &a->train, &a->valid, &o, &a->run, &new, &told, e);
    if (rc == 0)
        rc = tk_accept(a->kb->model, new->model, a->older, a->n_older, &a->valid, &a->run, NULL, NULL, &acceptance, e);
    if (rc == 0 && a->valid.n)
        rc = tk_measure(new->model, &a->valid, &a->run, &s->new_kb_metrics, e);
    if (rc) {
        tk_kb_free(new);
        return rc;
    }
    s->kd = told;
    s->attempts++;
    s->lambda = o.lambda;
    s->acceptance = acceptance;
    if (acceptance.accepted)
        s->new_kb = new;
    else
        tk_kb_free(new);
    return 0;
}

/* The first hardware of a family: its AC is the knowledge base. */
static int found_kb(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    s->new_kb = tk_kb_new(tm_model_clone(s->ac), a->kind);
    if (!s->new_kb)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for a knowledge base");
    s->acceptance = (struct tk_acceptance){.accepted = true, .drop = NAN, .gain = NAN};
    snprintf(s->acceptance.reason, sizeof s->acceptance.reason, "The family had no knowledge base.");
    return 0;
}

static bool teaches(const struct tk_adapt *a, const struct tk_adapt_state *s)
{
    return !a->keep_kb && s->activated && tk_family_default(a->kind) && (!a->kb || s->verdict.gate != TK_GATE_SCRATCH);
}

static int run_phase(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    int rc = 0;
    switch (s->phase) {
    case TK_PHASE_PROBE:
        rc = probe(a, s, e);
        break;
    case TK_PHASE_LEARN:
        rc = learn(a, s, e);
        break;
    case TK_PHASE_JUDGE:
        rc = judge(a, s, e);
        if (rc == 0 && !teaches(a, s)) {
            s->phase = TK_PHASE_DONE;
            return 0;
        }
        break;
    case TK_PHASE_TEACH:
        rc = a->kb ? teach(a, s, e) : found_kb(a, s, e);
        if (rc == 0 && !s->new_kb) {
            s->phase = s->attempts < TK_ATTEMPTS ? TK_PHASE_TEACH : TK_PHASE_DONE;
            return 0;
        }
        break;
    case TK_PHASE_SETTLE:
        rc = tk_settle(s->new_kb, &a->train, &a->run, e);
        break;
    case TK_PHASE_DONE:
    case TK_PHASE_COUNT:
        break;
    }
    if (rc == 0)
        s->phase++;
    return rc;
}

static int check(const struct tk_adapt *a, struct tp_err *e)
{
    if ((a->valid.n && a->valid.ds != a->train.ds) || (a->probe.n && a->probe.ds != a->train.ds))
        return tp_fail(e, TP_E_UNUSABLE, "probe, training and held-out programs must be of one dataset");
    if (a->n_older > TK_OLDER_MAX)
        return tp_fail(e, TP_E_UNUSABLE, "%u older probe sets, at most %d", a->n_older, (int)TK_OLDER_MAX);
    if (a->kb && !tk_family_accepts(a->kb->kind, a->kind))
        return tp_fail(e, TP_E_UNUSABLE, "a knowledge base of %s hardware cannot adapt %s hardware",
                       tp_target_kind_name(a->kb->kind), tp_target_kind_name(a->kind));
    return 0;
}

int tk_adapt(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    int rc = check(a, e);
    while (rc == 0 && s->phase != TK_PHASE_DONE) {
        rc = run_phase(a, s, e);
        if (rc == 0 && a->checkpoint)
            rc = a->checkpoint(a->checkpoint_arg, s);
    }
    return rc;
}
