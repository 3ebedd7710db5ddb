/* Cold start: initial weights from which any task of the sources is learned quickly, for hardware that resembles none
 * of them. First-order meta-learning, Reptile (Nichol, Achiam, Schulman 2018): again and again train a copy on one task
 * for a few steps, and move the weights a little towards where it went. */
#ifndef TK_META_H
#define TK_META_H

#include "ckd/set.h"

struct tk_meta_opts {
    uint32_t rounds;    /* 1500 tasks */
    double max_seconds; /* 0: no limit; else outer_lr falls over the time left when that ends first, one round at least,
                           and the weights depend on the clock */
    uint32_t steps;     /* 8 steps of plain Adam on each */
    uint32_t batch;     /* 32 programs a step */
    double inner_lr;    /* 1e-3 */
    double outer_lr;    /* 0.5, falling linearly to 0 */
    double average;     /* as in training */
};
void tk_meta_defaults(struct tk_meta_opts *o);

/* sources[0..n): programs of the hardware that is known, a dataset each, all with m's features. start[m->n] gets the
 * weights; m (initial weights, shape) is left as it is. A task is drawn as likely as any other of its source, sources
 * alike. NOT_ENOUGH_DATA: no source has a task with two programs; CANCELLED, NO_MEMORY, FEATURES_MISMATCH. */
int tk_meta(const struct tm_model *m, const struct tk_set *sources, uint32_t n, const struct tk_meta_opts *o,
            const struct tk_run *run, float *start, struct tp_err *e);

#endif
