/* The phases of continual knowledge distillation, one function each. A phase takes models and data, leaves both as they
 * were and hands out something new; between phases there is no other state than what they hand out, so a job that was
 * killed begins again with the phase it was in. How they follow one another: ckd/adapt.h.
 *
 * Blocking, on the caller's thread and on workers of its own. After an error (NOT_ENOUGH_DATA, CANCELLED, NO_MEMORY,
 * FEATURES_MISMATCH, UNUSABLE) outputs are untouched. Figures behind the defaults: docs/distillation.md. */
#ifndef TK_PHASES_H
#define TK_PHASES_H

#include "ckd/gate.h"
#include "ckd/kb.h"
#include "ckd/set.h"
#include "model/metrics.h"

struct tk_learn_opts {
    struct tm_train_opts train;   /* seed, threads, hook, warm are set by the phase */
    const struct tm_hyper *hyper; /* of an AC that has no knowledge base to take the shape from; NULL: the default */
    uint32_t steps;               /* of the optimiser at least: small data gets more epochs (whole periods) */
    double beta;                  /* of the distillation */
    double lambda;                /* of EWC; 0: none, the CL phase's default */
    double worth; /* cross-fitting (ckd/rivals.h): how many programs a task the knowledge base counts for. Of n
                     measured ones the AC that is preferred has n / (n + worth) of what was learned, the rest of its
                     weights stays the knowledge base's. tk_learn() does not look at it */
};
void tk_scratch_defaults(struct tk_learn_opts *o); /* no teacher */
void tk_cl_defaults(struct tk_learn_opts *o);
void tk_kd_defaults(struct tk_learn_opts *o);

/* What a phase tells about itself. */
struct tk_learned {
    int epoch, epochs; /* made, the last perhaps in part; planned: more than made where the time was over before. 0, 0:
                          it has not run */
    double loss, phi;  /* of the last epoch, the loss where it last was finite; phi NaN without a teacher */
    double seconds;    /* wall clock */
};

/* CL: an AC learns, the knowledge base stays frozen.
 *   TK_GATE_SCRATCH     from `start` (weights; NULL: random) alone; kb is not looked at and may be NULL
 *   any other           from kb's weights, distilled from kb; held by EWC around its anchor if o->lambda > 0
 * valid: held-out programs of the same dataset; they choose the epoch, tell the trust in the teacher and calibrate. n =
 * 0: the last epoch is kept, calibration on the training programs. *ac is the caller's. */
int tk_learn(const struct tk_kb *kb, enum tk_gate gate, const float *start, const struct tk_set *train,
             const struct tk_set *valid, const struct tk_learn_opts *o, const struct tk_run *run, struct tm_model **ac,
             struct tk_learned *told, struct tp_err *e);

/* What the models of a committee know, in one network: it begins with start's weights and learns from the labels of
 * train and, with weight TK_COMMITTEE_BETA, the order that committee[ds->n] gives to its programs (ckd/distil.h). Of o,
 * train and steps count; the last epoch is kept; calibration on train. *out is the caller's. */
#define TK_COMMITTEE_BETA 2.0
int tk_learn_committee(const struct tm_model *start, const double *committee, const struct tk_set *train,
                       const struct tk_learn_opts *o, const struct tk_run *run, struct tm_model **out,
                       struct tk_learned *told, struct tp_err *e);

/* KD: the knowledge base learns from the AC, held back by EWC (scaled F* around the anchor). *out is a candidate: its
 * weights are new, F*, anchor and the rest are kb's still. */
int tk_teach(const struct tk_kb *kb, const struct tm_model *ac, const struct tk_set *train, const struct tk_set *valid,
             const struct tk_learn_opts *o, const struct tk_run *run, struct tk_kb **out, struct tk_learned *told,
             struct tp_err *e);

/* ---- acceptance ---- */

enum { TK_OLDER_MAX = 256 };
#define TK_TOP1_DROP     0.02
#define TK_PAIRWISE_DROP 0.01
/* What a hardware that was taught before must not lose: programs of tasks that the knowledge base was trained on, and
 * of tasks that were held out then. Either may be empty. */
struct tk_older {
    struct tk_set learned, held_out;
};
struct tk_acceptance {
    bool accepted;
    uint32_t worst;       /* index of the older hardware that loses most; 0 when there is none */
    double drop;          /* its loss of top-1, positive = worse; NaN when there is no older hardware */
    double pairwise_drop; /* the largest loss of pairwise accuracy, whoever's it is; NaN as above */
    double balance; /* pairwise accuracy that the new hardware gains on its held-out tasks, less what all older ones
                       lose on theirs; NaN without held-out programs of the new one */
    double gain;    /* quality (tk_quality()) of the candidate less that of the old on the new hardware's held-out
                       programs; NaN without any */
    char reason[160];
};
/* May `candidate` take old's place? older[i]: of each hardware taught before. It may when no older hardware loses more
 * than TK_TOP1_DROP of top-1, mean over all its tasks (on few, that of one decides), or TK_PAIRWISE_DROP of pairwise
 * accuracy, mean of the two sets: what was learned is known by heart, so any step away loses some of it though new
 * tasks lose nothing; and what was held out is little. */
int tk_accept(const struct tm_model *old, const struct tm_model *candidate, const struct tk_older *older, uint32_t n,
              const struct tk_set *valid, const struct tk_run *run, struct tk_acceptance *out, struct tp_err *e);
/* An accepted candidate settles: F* <- TK_FISHER_KEEP F* + the Fisher information on `learned`, anchor <- weights,
 * phases + 1. */
int tk_settle(struct tk_kb *kb, const struct tk_set *learned, const struct tk_run *run, struct tp_err *e);

/* Calibrates m, its weights as they are: on valid, or on train where nothing is held out. NO_MEMORY, UNUSABLE. */
int tk_calibrate(struct tm_model *m, const struct tk_set *train, const struct tk_set *valid, int threads,
                 struct tp_err *e);

/* Metrics of m on s (tasks with at least two valid programs). */
int tk_measure(const struct tm_model *m, const struct tk_set *s, const struct tk_run *run, struct tm_metrics *out,
               struct tp_err *e);

#endif
