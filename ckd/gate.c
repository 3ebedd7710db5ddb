/* The source gate (ckd/gate.h). */
#include "ckd/gate.h"

#include "model/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *tk_family_default(enum tp_target_kind hardware)
{
    return hardware == TP_TARGET_CPU ? "cpu" : hardware == TP_TARGET_GPU ? "gpu" : NULL;
}

bool tk_family_accepts(enum tp_target_kind family, enum tp_target_kind hardware)
{
    return family == hardware && tk_family_default(family) != NULL;
}

const char *tk_gate_name(enum tk_gate g)
{
    static const char *const name[] = {"scratch", "distil", "warm"};
    return name[g];
}

bool tk_probe_tells(const struct tk_concordance *c)
{
    return c->tasks >= TK_PROBE_TASKS && c->programs >= TK_PROBE_PROGRAMS && c->programs >= TK_CONCORD_EACH * c->tasks;
}

void tk_gate_judge(const struct tk_concordance *c, struct tk_verdict *out)
{
    const bool enough = c->tasks >= TK_PROBE_TASKS && c->programs >= TK_PROBE_PROGRAMS;
    *out = (struct tk_verdict){.gate = TK_GATE_SCRATCH, .concordance = *c};
    if (enough && c->lower >= TK_GATE_WARM)
        out->gate = TK_GATE_WARM_START;
    else if (enough && c->lower >= TK_GATE_DISTIL)
        out->gate = TK_GATE_UNSURE;
    else if (!tk_probe_tells(c) && c->mean > 0.5) {
        out->gate = TK_GATE_UNSURE;
        snprintf(
            out->reason, sizeof out->reason,
            "%u programs of %u tasks judge, concordance %.3f: too few to refuse what is known, learn from it if no "
            "rival is better.",
            c->programs, c->tasks, c->mean);
        return;
    }
    if (isnan(c->mean))
        snprintf(out->reason, sizeof out->reason, "No two programs of the probe are told apart by their costs.");
    else
        snprintf(out->reason, sizeof out->reason, "Concordance %.3f on the probe, at least %.3f: %s.", c->mean,
                 c->lower,
                 out->gate == TK_GATE_WARM_START ? "start from what is known"
                 : out->gate == TK_GATE_UNSURE   ? "learn from it if no rival is better"
                                                 : "what is known does not help here");
}

/* true: the verdict is there already. */
static bool refused(bool source, enum tp_target_kind kind, enum tp_target_kind hardware, struct tk_verdict *out)
{
    if (source && tk_family_accepts(kind, hardware))
        return false;
    *out = (struct tk_verdict){.gate = TK_GATE_SCRATCH, .concordance = {.mean = NAN, .lower = NAN}};
    if (source)
        snprintf(out->reason, sizeof out->reason, "Knowledge of %s hardware is not used for %s hardware.",
                 tp_target_kind_name(kind), tp_target_kind_name(hardware));
    else
        snprintf(out->reason, sizeof out->reason, "There is no knowledge yet.");
    return true;
}

int tk_gate_scores(const double *score, enum tp_target_kind kind, enum tp_target_kind hardware,
                   const struct tk_set *probe, uint64_t seed, struct tk_verdict *out, struct tp_err *e)
{
    struct tk_concordance c;
    uint32_t *programs = NULL;
    double *kept = NULL;
    size_t n = 0;
    int rc = 0;
    if (refused(score != NULL, kind, hardware, out))
        return 0;
    if (!(programs = tm_alloc(probe->n, sizeof *programs)) || !(kept = tm_alloc(probe->n, sizeof *kept)))
        rc = -TP_E_NO_MEMORY;
    for (size_t i = 0; rc == 0 && i < probe->n; i++)
        if (!isnan(score[i])) {
            programs[n] = probe->programs[i];
            kept[n++] = score[i];
        }
    if (rc == 0)
        rc = tk_concordance(probe->ds, programs, kept, n, seed, &c);
    if (rc == 0)
        tk_gate_judge(&c, out);
    free(programs);
    free(kept);
    return rc ? tp_fail(e, TP_E_NO_MEMORY, "no memory to judge %zu programs", probe->n) : 0;
}

int tk_gate_model(const struct tm_model *source, enum tp_target_kind kind, enum tp_target_kind hardware,
                  const struct tk_set *probe, const struct tk_run *run, struct tk_verdict *out, struct tp_err *e)
{
    double *score = NULL;
    int rc;
    if (refused(source != NULL, kind, hardware, out))
        return 0;
    if (!(score = tm_alloc(probe->n, sizeof *score)))
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to judge %zu programs", probe->n);
    rc = tk_scores(source, probe, run->threads, score, e);
    for (size_t i = 0; rc == 0 && i < probe->n; i++)
        score[i] = isnan(score[i]) ? -INFINITY : score[i]; /* a model has an opinion of every program */
    if (rc == 0)
        rc = tk_gate_scores(score, kind, hardware, probe, run->seed, out, e);
    free(score);
    return rc;
}

double tk_alike(const struct tclfeat_hw *a, const struct tclfeat_hw *b)
{
    double sum = 0, n = 0;
    for (int i = 0; i < TCLFEAT_HW; i++) {
        if (!(a->known & b->known & 1u << i) || !(a->value[i] > 0) || !(b->value[i] > 0))
            continue;
        sum += exp(-fabs(log(a->value[i] / b->value[i])));
        n++;
    }
    return tk_family_accepts(a->kind, b->kind) && n > 0 ? sum / n : 0;
}
