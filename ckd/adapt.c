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
    *a = (struct tk_adapt){.folds = TK_FOLDS, .run = {.seed = 1, .threads = 1}};
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

bool tk_adapt_is_warm(const struct tk_adapt_state *s)
{
    return s->verdict.gate != TK_GATE_SCRATCH && !(s->contest.tasks && s->contest.winner == TK_RIVAL_SCRATCH);
}

bool tk_adapt_related(const struct tk_adapt_state *s)
{
    return tk_adapt_is_warm(s) && s->kb_verdict.gate != TK_GATE_SCRATCH;
}

static const struct tm_model *kb_model(const struct tk_adapt *a)
{
    return a->kb ? a->kb->model : NULL;
}

/* May this peer take the place of whom the AC would begin with? It must be right about more than that one, and than the
 * knowledge base, which has seen more hardware, surely: so never on a small probe. */
static int ask(const struct tk_adapt *a, const struct tk_peer *p, const struct tk_set *on, struct tk_adapt_state *s,
               struct tp_err *e)
{
    struct tk_verdict v;
    const double best = s->verdict.concordance.lower, kb = s->kb_verdict.concordance.mean;
    int rc = tk_gate_model(p->model, p->kind, a->kind, on, &a->run, &v, e);
    if (rc || v.gate == TK_GATE_SCRATCH || !tk_probe_tells(&v.concordance) || v.concordance.lower <= kb ||
        (s->source[0] && v.concordance.lower <= best))
        return rc;
    s->verdict = v;
    snprintf(s->source, sizeof s->source, "%s", p->name);
    s->source_id = p->id;
    char than[32] = "";
    if (!isnan(kb))
        snprintf(than, sizeof than, ", the knowledge base %.3f", kb);
    snprintf(s->verdict.reason, sizeof s->verdict.reason,
             "The model of %.63s: concordance %.3f on the probe, at least %.3f%s.", p->name, v.concordance.mean,
             v.concordance.lower, than);
    return 0;
}

static int probe(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    struct tk_set both = {0};
    int rc = a->probe.n ? 0 : tk_set_join(&a->train, &a->valid, &both, e);
    const struct tk_set *on = a->probe.n ? &a->probe : &both;
    if (rc == 0)
        rc = tk_gate_model(kb_model(a), a->kb ? a->kb->kind : a->kind, a->kind, on, &a->run, &s->kb_verdict, e);
    if (rc == 0) {
        s->verdict = s->kb_verdict;
        s->source[0] = '\0';
        s->source_id = 0;
    }
    for (uint32_t i = 0; i < a->n_peers && rc == 0; i++) {
        const struct tk_progress p = tk_progress_at(tk_phase_name(TK_PHASE_PROBE), (double)i / a->n_peers);
        rc = a->run.progress && a->run.progress(a->run.arg, &p) ? tp_fail(e, TP_E_CANCELLED, "cancelled")
                                                                : ask(a, &a->peers[i], on, s, e);
    }
    free((void *)both.programs);
    return rc;
}

static const struct tm_model *source_model(const struct tk_adapt *a, const struct tk_adapt_state *s)
{
    for (uint32_t i = 0; i < a->n_peers && s->source[0]; i++)
        if (strcmp(a->peers[i].name, s->source) == 0 && a->peers[i].id == s->source_id)
            return a->peers[i].model;
    return s->source[0] ? NULL : kb_model(a);
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

/* Nothing was learned that is better than the peer's model: *ac becomes a copy of it, calibrated here. */
static int take_over(const struct tk_adapt *a, const struct tm_model *peer, struct tm_model **ac, struct tp_err *e)
{
    struct tm_model *m = tm_model_clone(peer);
    int rc = m ? tk_calibrate(m, &a->train, &a->valid, a->run.threads, e)
               : tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
    if (rc) {
        tm_model_free(m);
        return rc;
    }
    tm_model_free(*ac);
    *ac = m;
    return 0;
}

static int learn(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    if (s->verdict.gate == TK_GATE_SCRATCH)
        return learn_alone(a, s, e);
    /* where the source is surely right about most, a model from scratch is not worth its time */
    const struct tk_learn_opts *scratch = s->verdict.gate == TK_GATE_WARM_START ? NULL : &a->scratch;
    /* a peer's model is what is known, as if it were a knowledge base that is only read */
    const struct tk_kb peer = {.kind = a->kind, .model = (struct tm_model *)source_model(a, s)};
    int rc = tk_cross_fit(s->source[0] ? &peer : a->kb, &a->train, &a->valid, a->folds, &a->cl, scratch, &a->run,
                          &s->ac, &s->cl, &s->contest, e);
    if (rc == 0 && s->source[0] && s->contest.winner == TK_RIVAL_KB)
        rc = take_over(a, peer.model, &s->ac, e);
    return rc || s->ac ? rc : learn_alone(a, s, e);
}

/* The gate has looked at enough to refuse the knowledge base. */
static bool refused(const struct tk_verdict *v)
{
    return v->gate == TK_GATE_SCRATCH && v->concordance.tasks >= TK_PROBE_TASKS &&
           v->concordance.programs >= TK_PROBE_PROGRAMS;
}

/* What a contest says of the AC, which stands in it as `ac`, and the knowledge base. */
static void judge_by(const struct tk_contest *c, enum tk_rival ac, const char *winner, struct tk_judgement *j)
{
    j->decision = c->winner == TK_RIVAL_KB ? TK_KEPT_CHAMPION : TK_ACTIVATED;
    j->gain = c->quality[ac] - c->quality[TK_RIVAL_KB];
    snprintf(j->reason, sizeof j->reason, "Of %u held-out tasks: %s, %.4f behind the best, margin %.3f, error %.4f.",
             c->tasks, winner, c->behind, TK_MARGIN, c->error);
}

/* What began with a peer has met the peer among its rivals, but not the knowledge base. */
static int judge_peer_over_kb(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    struct tk_contest c;
    int rc = tk_contest_pair(s->ac, a->kb->model, &a->valid, &a->run, &c, e);
    if (rc == 0 && c.tasks)
        judge_by(&c, TK_RIVAL_SCRATCH, c.winner == TK_RIVAL_KB ? "the knowledge base" : "the trained model",
                 &s->over_kb);
    return rc;
}

/* After a warm start the rivals have met already. An AC from scratch meets the knowledge base only where the probe was
 * too small to tell: a small hold-out must not bring back what the gate has refused on all there is. */
static int judge_over_kb(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    struct tk_judgement *j = &s->over_kb;
    struct tk_contest *c = &s->contest;
    int rc = 0;
    tk_judge(&s->ac_metrics, a->kb ? &s->kb_metrics : NULL, false, j);
    if (!a->kb)
        return 0;
    if (s->source[0])
        return judge_peer_over_kb(a, s, e);
    if (s->verdict.gate == TK_GATE_SCRATCH && !refused(&s->verdict))
        rc = tk_contest_pair(s->ac, a->kb->model, &a->valid, &a->run, c, e);
    if (rc || (!c->tasks && !refused(&s->verdict)))
        return rc;
    if (!c->tasks) {
        j->decision = TK_ACTIVATED;
        snprintf(j->reason, sizeof j->reason, "The gate has refused the knowledge base.");
        return 0;
    }
    const enum tk_rival ac = c->winner != TK_RIVAL_KB             ? c->winner
                             : s->verdict.gate == TK_GATE_SCRATCH ? TK_RIVAL_SCRATCH
                                                                  : TK_RIVAL_QUARTER;
    judge_by(c, ac, tk_rival_name(c->winner), j);
    return 0;
}

static int judge(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    const struct tm_model *kb = kb_model(a);
    if (!a->valid.n) { /* good enough where there is nothing else */
        s->activated = !a->champion;
        s->over_champion =
            (struct tk_judgement){.decision = s->activated ? TK_ACTIVATED : TK_KEPT_CHAMPION, .gain = NAN};
        snprintf(s->over_champion.reason, sizeof s->over_champion.reason, "Nothing was held out to judge by.");
        s->over_kb = (struct tk_judgement){.decision = TK_ACTIVATED, .gain = NAN};
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

/* One attempt, kept if it is accepted. The phase comes again while attempts are left and nothing is kept, or for a
 * knowledge base that nobody relies on yet: of those the one is kept that gains most over what it costs. */
static int teach(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    struct tk_learn_opts o = a->kd;
    struct tk_kb *new = NULL;
    struct tk_learned told;
    struct tk_acceptance acceptance;
    struct tm_metrics metrics = {0};
    o.lambda = a->kd.lambda * pow(TK_LAMBDA_FACTOR, s->attempts);
    int rc = tk_teach(a->kb, s->ac, &a->train, &a->valid, &o, &a->run, &new, &told, e);
    if (rc == 0)
        rc = tk_accept(a->kb->model, new->model, a->older, a->n_older, &a->valid, &a->run, &acceptance, e);
    if (rc == 0 && a->valid.n)
        rc = tk_measure(new->model, &a->valid, &a->run, &metrics, e);
    if (rc) {
        tk_kb_free(new);
        return rc;
    }
    if (a->kb_only) {
        const double least = s->new_kb ? s->acceptance.balance : 0;
        acceptance.accepted = acceptance.balance > least;
        snprintf(acceptance.reason, sizeof acceptance.reason,
                 "Pairwise accuracy gained on the new hardware less what the older ones lose: %+.4f, more than %.4f "
                 "wanted: %s.",
                 acceptance.balance, least, acceptance.accepted ? "accepted" : "refused");
    }
    s->attempts++;
    if (s->new_kb && !acceptance.accepted) {
        tk_kb_free(new);
        return 0;
    }
    s->kd = told;
    s->lambda = o.lambda;
    s->acceptance = acceptance;
    s->new_kb_metrics = metrics;
    tk_kb_free(s->new_kb);
    s->new_kb = acceptance.accepted ? new : NULL;
    if (!acceptance.accepted)
        tk_kb_free(new);
    return 0;
}

/* The first hardware of a family: its AC is the knowledge base. */
static int found_kb(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    s->new_kb = tk_kb_new(tm_model_clone(s->ac), a->kind);
    if (!s->new_kb)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for a knowledge base");
    s->acceptance = (struct tk_acceptance){.accepted = true, .drop = NAN, .pairwise_drop = NAN, .gain = NAN};
    snprintf(s->acceptance.reason, sizeof s->acceptance.reason, "The family had no knowledge base.");
    return 0;
}

/* What was learned on a few tasks is of these tasks rather than of the hardware. */
bool tk_adapt_few(const struct tk_adapt_state *s)
{
    return s->verdict.concordance.tasks < TK_PROBE_TASKS;
}

static bool teaches(const struct tk_adapt *a, const struct tk_adapt_state *s)
{
    return !a->keep_kb && s->activated && tk_family_default(a->kind) &&
           (!a->kb || (tk_adapt_related(s) && !tk_adapt_few(s)));
}

static int run_phase(const struct tk_adapt *a, struct tk_adapt_state *s, struct tp_err *e)
{
    bool again;
    int rc = 0;
    switch (s->phase) {
    case TK_PHASE_PROBE:
        rc = probe(a, s, e);
        if (rc == 0 && a->kb_only && a->kb && (s->verdict.gate == TK_GATE_SCRATCH || tk_adapt_few(s))) {
            s->phase = TK_PHASE_DONE;
            return 0;
        }
        break;
    case TK_PHASE_LEARN:
        if (s->source[0] && !source_model(a, s)) { /* it has gone since, or has learned */
            s->phase = TK_PHASE_PROBE;
            return 0;
        }
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
        again = a->kb && s->attempts < TK_ATTEMPTS && (!s->new_kb || a->kb_only);
        if (rc == 0 && (again || !s->new_kb)) {
            s->phase = again ? TK_PHASE_TEACH : TK_PHASE_DONE;
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
        if (rc == 0 && a->checkpoint && (rc = a->checkpoint(a->checkpoint_arg, s)))
            tp_fail(e, (enum tp_code) - rc, "the state after a phase could not be kept");
    }
    return rc;
}
