/* Champion and challenger: which programs are held out to judge them, and who wins.
 *
 * The hold-out is a function of task ids (or program hashes) alone, not of a seed, and a task that is held out today
 * was held out, or unknown, at every earlier training. So a champion was not trained on what it is judged by, however
 * often the hardware is retrained. Pure functions; any thread. */
#ifndef TK_CHAMPION_H
#define TK_CHAMPION_H

#include "model/dataset.h"
#include "model/metrics.h"

#include <stdbool.h>

#define TK_HOLDOUT     0.15 /* share of the tasks (of the programs, when there are too few tasks) that is held out */
#define TK_HOLDOUT_MAX 0.20 /* few tasks: the share grows up to this, so that about TK_HOLDOUT_WANTED are held out */
enum {
    TK_HOLDOUT_WANTED = 3,
    TK_HOLDOUT_TASKS = 4,   /* fewer usable tasks than this: the hold-out is by program */
    TK_HOLDOUT_PROGRAMS = 2 /* then at least so many programs of each task, however few it has: a task that gave none
                               away while it was small would give away programs that were trained on */
};

/* The share of n usable tasks that is held out; falls as n grows. */
double tk_holdout_share(uint32_t n);
/* Where a task or program stands in [0,1); those below the share (of programs: TK_HOLDOUT) are held out. */
double tk_task_place(const char *task_id);
double tk_program_place(const uint8_t key[16]);

/* Split the programs of ds: train[0..*n_train) and valid[0..*n_valid) get indices in ascending order; both arrays hold
 * ds->n. key[i] = tp_program_hash of program i. A task counts when two of its programs have a valid cost. With >=
 * TK_HOLDOUT_TASKS of them whole tasks are held out: those placed below the share, or else the one with the lowest
 * place. With fewer, or when that would leave nothing to train on, programs are, and *by_record is true. NO_MEMORY. */
int tk_holdout_split(const struct tm_dataset *ds, const uint8_t (*key)[16], uint32_t *train, size_t *n_train,
                     uint32_t *valid, size_t *n_valid, bool *by_record, struct tp_err *e);

/* A challenger replaces the champion unless its quality on the held-out programs is lower by more than the margin.
 * Quality = mean of the mean top-1 and the pairwise accuracy: one looks at the fastest programs, the other at the order
 * of all, and their mean is steadier than either on few tasks. NaN when the figures judge nothing (no task with two
 * different costs). */
#define TK_MARGIN 0.005
double tk_quality(const struct tm_metrics *m);

enum tk_decision { TK_ACTIVATED, TK_KEPT_CHAMPION, TK_CANDIDATE };
const char *tk_decision_name(enum tk_decision d); /* "activated", "kept-champion", "candidate" */

struct tk_judgement {
    enum tk_decision decision;
    double gain;      /* quality of the challenger minus quality of the champion; NaN when one of them is missing */
    char reason[160]; /* one sentence for people */
};

/* champion NULL = there is none: the challenger wins. never = the caller only wants a candidate. A challenger without
 * figures loses against any champion; a champion without figures loses against a challenger with some. Both must be
 * measured on the same programs. */
void tk_judge(const struct tm_metrics *challenger, const struct tm_metrics *champion, bool never,
              struct tk_judgement *out);

#endif
