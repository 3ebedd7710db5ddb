/* Who is to serve a hardware: rivals, compared by cross-fitting.
 *
 * A tenth of the data holds out too little to choose by. So the training tasks are dealt to folds; for each fold models
 * learn from the other folds and score this one, and every task is judged by models that have not seen it. The mean of
 * what the folds learned, which all began with the knowledge base's weights, is the model that is kept (model soup,
 * Wortsman et al. 2022). How much of it: a rival for each share. Where a model from scratch takes part, so does a
 * network that is taught by all models of all folds. */
#ifndef TK_RIVALS_H
#define TK_RIVALS_H

#include "ckd/phases.h"

enum { TK_FOLDS = 4 };

/* X(ID, "name") in the order of preference: what has learned from the hardware's own data before what has not */
#define TK_RIVALS(X)                                                                                                   \
    X(COMMITTEE, "committee") /* one network that has learned from the models of `blend` and `scratch`, where both are \
                                 made */                                                                               \
    X(BLEND, "blend") /* part of the way from the knowledge base's weights to the learned ones, tk_learn_opts.worth */ \
    X(WHOLE, "whole") /* all of the way */                                                                             \
    X(HALF, "half")   /* half of it */                                                                                 \
    X(QUARTER, "quarter") /* a quarter */                                                                              \
    X(SCRATCH, "scratch") /* own measurements alone */                                                                 \
    X(KB, "kb")           /* the knowledge base, untouched */
enum tk_rival {
#define X(id, name) TK_RIVAL_##id,
    TK_RIVALS(X)
#undef X
        TK_RIVAL_COUNT
};
const char *tk_rival_name(enum tk_rival r);

struct tk_contest {
    enum tk_rival winner;
    uint32_t tasks;                 /* that judged; 0: nobody was compared, the rest says nothing */
    double quality[TK_RIVAL_COUNT]; /* tk_quality(), mean over these tasks; NaN: took no part */
    double behind, error;           /* of the winner: less than the best; standard error of that over the tasks */
};
/* One task does not tell its error: what a model gains on a task is off by about so much (docs/distillation.md). */
#define TK_ONE_TASK_ERROR 0.1
/* The first rival that is not behind the best by more than TK_MARGIN and one standard error of the difference, task by
 * task. quality[r * tasks + t]; a rival with NaN everywhere takes no part, a task with NaN for one that does is left
 * out. Pure. */
void tk_contest_judge(const double *quality, uint32_t tasks, struct tk_contest *out);

/* An AC against the knowledge base on held-out programs: only TK_RIVAL_SCRATCH and TK_RIVAL_KB take part. */
int tk_contest_pair(const struct tm_model *ac, const struct tm_model *kb, const struct tk_set *held_out,
                    const struct tk_run *run, struct tk_contest *out, struct tp_err *e);

/* The CL phase of a warm start, cross-fitted in `folds` folds (1, or with fewer than TK_HOLDOUT_TASKS tasks to train
 * on: all of `train` is learned, and valid alone judges). valid is judged with the first fold. What is judged gives
 * the models nothing but the trust in the teacher, one number an epoch, and valid the calibration. cl, scratch:
 * max_seconds is for all folds together. scratch NULL, or fewer than TK_PROBE_PROGRAMS programs or TK_CONCORD_EACH
 * a task (a model of these alone is worth nothing): TK_RIVAL_SCRATCH and TK_RIVAL_COMMITTEE take no part. *ac: the
 * AC, the caller's; NULL when scratch has won, which is then the caller's to train; when the knowledge base has,
 * TK_RIVAL_QUARTER, a candidate. told: of the last fold, or of the committee's network when it has won; seconds of
 * everything. */
int tk_cross_fit(const struct tk_kb *kb, const struct tk_set *train, const struct tk_set *valid, uint32_t folds,
                 const struct tk_learn_opts *cl, const struct tk_learn_opts *scratch, const struct tk_run *run,
                 struct tm_model **ac, struct tk_learned *told, struct tk_contest *contest, struct tp_err *e);

#endif
