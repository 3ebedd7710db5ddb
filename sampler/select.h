/* Which programs of a pool are worth measuring: representativeness, diversity and uncertainty (docs/sampler.md), and
 * the simpler methods that they are compared with.
 *
 * A pool is plain arrays that belong to the caller and are only read; for 1,000,000 programs ts_select() adds about 40
 * bytes a program. The choice is a function of pool and options: the same bit for bit for any `threads` (on one kind of
 * CPU). Pure functions but for their worker threads; any thread. */
#ifndef TS_SELECT_H
#define TS_SELECT_H

#include "proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TS_MAX_POOL = 1 << 24,
    TS_MAX_DIM = 256,      /* of an embedding */
    TS_MAX_FEATURES = 64,  /* of a head feature */
    TS_MAX_SNAPSHOTS = 64, /* predictions of one program */
    TS_MAX_ROUNDS = 100
};

/* Values that are not finite count as the mean of the column (embedding), zero (feature), the mean of the task
 * (predicted); NaN is the slowest (fast). */
struct ts_pool {
    size_t n; /* <= TS_MAX_POOL: candidates, and what was measured or chosen earlier */

    int dim;                /* 1..TS_MAX_DIM */
    const float *embedding; /* [n][dim]: tm_batch_pooled(), or ts_embed_rows() while there is no model. As it comes: the
                               sampler standardises it on the pool. NULL: method random only */
    const uint32_t *task;   /* [n] any numbers, the same for programs of one task; NULL = one task */
    const uint8_t *known; /* [n] 1 = measured, leased or selected already: never chosen, keeps others at a distance and
                             makes the model sure; 0 = candidate. NULL = all are candidates */

    /* What u is made of: predictions when given, else features, else nothing (then u = 1/2 for all). */
    int n_features;         /* 0..TS_MAX_FEATURES, 0 = none */
    const float *feature;   /* [n][n_features]: tm_batch_hidden() */
    int n_snapshots;        /* 0 or 2..TS_MAX_SNAPSHOTS */
    const float *predicted; /* [n][n_snapshots]: rank scores by several snapshots of the model */

    const float *fast; /* [n] predicted rank score, for the weight f; may be NULL */
};

/* X(ID, "name") in the order of the API */
#define TS_METHODS(X)                                                                                                  \
    X(RDU, "rdu")                                                                                                      \
    X(RANDOM, "random")                                                                                                \
    X(UNCERTAINTY, "uncertainty")                                                                                      \
    X(CORESET, "coreset")                                                                                              \
    X(REPRESENTATIVE, "representative")
enum ts_method {
#define X(id, name) TS_##id,
    TS_METHODS(X)
#undef X
        TS_METHOD_COUNT
};
const char *ts_method_name(enum ts_method m);
int ts_method_find(const char *name); /* -1: no such method */

/* How terms in [0,1] become a score. Product: the product of 1 - w + w x over the terms, w in [0,1]; sum: the sum of
 * w x, w >= 0. Either way a weight of 0 leaves the term out. */
enum ts_form { TS_PRODUCT, TS_SUM };
struct ts_weights {
    double r, d, u;
    double f; /* programs that the model believes fast: percentile of pool.fast within the task */
};

struct ts_opts {
    enum ts_method method;
    enum ts_form form;         /* of rdu: product */
    struct ts_weights weights; /* of rdu: 0.25, 1, 0.75, 0; the other methods have their own */
    bool by_cell;              /* of rdu: true: seats within a task are shared between its cells */
    double cap;                /* of rdu: d is 1 from this quantile of the distances to what is known; 0 (default): from
                                  the scale of a cell */
    size_t budget;             /* programs to choose; more than there are candidates = all of them. No default: 0 */
    uint64_t seed;
    int threads;         /* 1, the caller's own included */
    int rounds;          /* 5: parts of the budget; each begins with percentiles taken anew */
    uint32_t task_floor; /* 8: each task gets so many first, or all it has; lowered when the budget is too small */
    double alpha, noise; /* 1, 1: prior precision and variance sigma^2 of the last layer, features scaled to mean
                            square 1 */
    size_t exact_limit;  /* 50000 programs (pool.n): above it the greedy choice looks at the own and the 8 nearest cells
                            only */
};
void ts_defaults(struct ts_opts *o);
/* budget = fraction (0..1] of the candidates, rounded up */
size_t ts_budget_of(const struct ts_pool *p, double fraction);

struct ts_pick {
    uint32_t index;       /* in the pool */
    uint32_t round;       /* 0-based */
    float r, d, u, score; /* when it was chosen; NaN for a term that the method does not use */
};

struct ts_progress {
    const char *phase; /* "cells", "greedy" */
    double fraction;   /* 0..1 of everything, never falls */
};
/* Called on the calling thread, several times a second. Non-zero = stop. */
typedef int (*ts_progress_fn)(void *arg, const struct ts_progress *p);

/* Choose min(budget, candidates) programs, each once. picks: room for that many; *n_picks is written on success. Order:
 * by round; within a round as chosen, in pools above exact_limit by falling score. progress may be NULL.
 * Errors: UNUSABLE (options or shapes outside the limits above, no embedding), CANCELLED, NO_MEMORY. */
int ts_select(const struct ts_pool *p, const struct ts_opts *o, ts_progress_fn progress, void *arg,
              struct ts_pick *picks, size_t *n_picks, struct tp_err *e);

#endif
