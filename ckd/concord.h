/* How far an order agrees with measurements, and how much a teacher is worth listening to.
 *
 * Concordance: over pairs of programs of a task, the weight of the pairs in the right order over the weight of all. A
 * pair weighs what it weighs in the loss (tm_loss_pairwise(): difference of labels, less what noise explains), so that
 * pairs nobody can tell apart do not count. Score ties count half, ties in cost not at all. 1/2 = chance. Pure
 * functions, any thread. */
#ifndef TK_CONCORD_H
#define TK_CONCORD_H

#include "model/dataset.h"

/* Weight of all pairs and of those in the right order. */
struct tk_concord {
    double weight, right;
};
/* right / weight; NaN without a pair. */
double tk_concord_value(const struct tk_concord *c);
/* Of n programs of one task. y: best cost / cost, 0 = failure; noise: standard deviation of ln label, may be NULL;
 * score: higher = faster, NaN last. */
struct tk_concord tk_concord_of(const double *y, const double *noise, const double *score, uint32_t n);
/* The same with scores in float, as a tape has them. */
struct tk_concord tk_concord_of_tape(const double *y, const double *noise, const float *score, uint32_t n);

/* Mean over tasks and how low it may be: programs[0..n) of ds, in any order; score[i] is of programs[i]. Tasks count
 * alike, but with fewer than TK_CONCORD_EACH programs a task each by the weight of its pairs: of two programs that are
 * nearly as fast the order is chance. */
enum { TK_CONCORD_EACH = 4 };
struct tk_concordance {
    double mean;  /* over tasks with a pair; NaN when there is none */
    double lower; /* one-sided 95 %: the 5 % quantile of TK_CONCORD_DRAWS bootstrap means over tasks; NaN as above */
    uint32_t tasks, programs; /* with a pair; of those tasks */
};
enum { TK_CONCORD_DRAWS = 2000 };
/* Tasks are labelled by the programs given alone. 0 or -TP_E_NO_MEMORY. */
int tk_concordance(const struct tm_dataset *ds, const uint32_t *programs, const double *score, size_t n, uint64_t seed,
                   struct tk_concordance *out);

/* Trust in a teacher, from the running concordances of teacher and student with the labels (docs/distillation.md):
 *   phi = clip((c_T - 1/2) / (1/2), 0, 1) * sigmoid((c_T - c_S) / TK_PHI_WIDTH)
 * A teacher at chance is worth nothing, and so is one that is clearly worse than its student. NaN counts as chance. */
#define TK_PHI_WIDTH 0.03
#define TK_PHI_KEEP  0.8 /* what a running concordance keeps of itself when a new one comes */
double tk_phi(double teacher, double student);

struct tk_trust {
    double teacher, student; /* running concordances; NaN before the first */
};
/* NaN leaves a side as it was. */
void tk_trust_update(struct tk_trust *t, double teacher, double student);
/* 0 before the first update. */
double tk_trust_phi(const struct tk_trust *t);

#endif
