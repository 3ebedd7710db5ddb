/* The source gate: may what the fleet knows be used for a new hardware at all? Measured on a probe, the first round of
 * measurements of that hardware, before anything is trained. Pure functions; any thread. */
#ifndef TK_GATE_H
#define TK_GATE_H

#include "ckd/concord.h"
#include "ckd/set.h"
#include "proto/target.h"

/* Families: hardware that shares a knowledge base is of one kind, CPU or GPU. Other kinds teach nobody. */
bool tk_family_accepts(enum tp_target_kind family, enum tp_target_kind hardware);
/* "cpu", "gpu"; NULL: hardware of this kind has no knowledge base. */
const char *tk_family_default(enum tp_target_kind hardware);

enum {
    TK_PROBE_TASKS = 8, /* on a probe of fewer tasks, or fewer programs, nobody is trusted; and there, or on fewer than
                           TK_CONCORD_EACH programs a task, nobody is refused who is right more often than not */
    TK_PROBE_PROGRAMS = 64
};
#define TK_GATE_WARM   0.70 /* lower bound of the concordance: start from the source's weights */
#define TK_GATE_DISTIL 0.55 /* the same, if a model from scratch is not better */

enum tk_gate {
    TK_GATE_SCRATCH, /* the source is no help: learn from own measurements alone, and do not teach it */
    TK_GATE_UNSURE,  /* start from it if a model from scratch is not better (ckd/rivals.h) */
    TK_GATE_WARM_START
};
const char *tk_gate_name(enum tk_gate g); /* "scratch", "distil", "warm" */

struct tk_verdict {
    enum tk_gate gate;
    struct tk_concordance concordance; /* NaN, 0 when nothing was compared */
    char reason[160];                  /* one sentence for people */
};
/* The probe is large enough to tell one source from another: tasks, programs, programs a task. */
bool tk_probe_tells(const struct tk_concordance *c);
/* Thresholds on c->lower; a probe too small is TK_GATE_UNSURE if c->mean is above chance. */
void tk_gate_judge(const struct tk_concordance *c, struct tk_verdict *out);

/* Ask a model (the knowledge base, or another hardware's AC) about the probe. `kind`, `hardware`: who it was made for,
 * who is to use it; when tk_family_accepts() refuses, the verdict is TK_GATE_SCRATCH and nothing is computed. source
 * NULL: there is none, TK_GATE_SCRATCH. FEATURES_MISMATCH, NO_MEMORY. */
int tk_gate_model(const struct tm_model *source, enum tp_target_kind kind, enum tp_target_kind hardware,
                  const struct tk_set *probe, const struct tk_run *run, struct tk_verdict *out, struct tp_err *e);
/* Ask measurements of the same programs on another hardware: score[i] of probe->programs[i], higher = faster, NaN where
 * it was not measured there (left out). 0 or NO_MEMORY. */
int tk_gate_scores(const double *score, enum tp_target_kind kind, enum tp_target_kind hardware,
                   const struct tk_set *probe, uint64_t seed, struct tk_verdict *out, struct tp_err *e);

/* A shortlist before anything was measured: how alike two descriptors are, 0..1. Only the order matters, and only
 * within a family: the gate decides. Mean over what both know of exp(-|ln a - ln b|); 0 when they know nothing in
 * common. */
double tk_alike(const struct tclfeat_hw *a, const struct tclfeat_hw *b);

#endif
