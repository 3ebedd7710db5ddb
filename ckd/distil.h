/* Distillation: a frozen teacher's order as one more loss of a student's training.
 *
 *   L = L_task + beta phi L_dist        L_dist = mean over programs of (z_i - t_i)^2
 *
 * z and t are the rank scores of student and teacher, each less its mean and over its standard deviation within the
 * group (the programs of a task in the batch): only orders and relative distances are handed on, never the scale.
 * phi: ckd/concord.h. Owned by one thread; its hook is called as model/train.h says. */
#ifndef TK_DISTIL_H
#define TK_DISTIL_H

#include "ckd/concord.h"
#include "ckd/set.h"

#define TK_FLAT 1e-12 /* variance of scores that are all the same */

/* Adds scale * sum of (z_i - t_i)^2 of one group to the loss (returned) and its gradient to gs. Groups in which teacher
 * or student have the same score for all say nothing. */
double tk_distil_loss(const float *s, const double *teacher, uint32_t n, double scale, float *gs);

struct tk_distil_opts {
    const struct tm_model *teacher; /* NULL: no distillation */
    const double *committee; /* or, instead of a teacher, [ds->n]: rank scores of the programs of train by models that
                                have learned from the same labels, which are trusted: phi = 1. Borrowed; NULL: none */
    double beta;
    /* Elastic weight consolidation; fisher NULL: none. Both [n weights], borrowed. */
    const float *fisher, *anchor;
    double lambda;
};

struct tk_distil;
/* `student`: for its shape. train, valid: what tm_train() will be given (of one dataset); teacher scores are computed
 * here. With a validation set phi compares teacher and student on it, after each epoch; without, on each batch.
 * FEATURES_MISMATCH, NO_MEMORY. NULL in *out after an error. */
int tk_distil_new(const struct tk_distil_opts *o, const struct tm_model *student, const struct tk_set *train,
                  const struct tk_set *valid, int threads, struct tk_distil **out, struct tp_err *e);
void tk_distil_free(struct tk_distil *d);
/* For tm_train_opts.hook; as long as d lives. */
const struct tm_train_hook *tk_distil_hook(const struct tk_distil *d);
/* Present state: trust, and what it makes of beta. */
struct tk_trust tk_distil_trust(const struct tk_distil *d);

#endif
