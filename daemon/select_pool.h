/* The pool of a selection in memory: candidates, and what is known already, as arrays for ts_select(). */
#ifndef TD_SELECT_POOL_H
#define TD_SELECT_POOL_H

#include "daemon/registry.h"
#include "sampler/select.h"

/* Programs [0, n): first the candidates, then those that wait or are leased, then measured ones. */
struct td_select_pool {
    struct ts_pool pool;
    size_t n_candidates, n_waiting;
    int64_t *id;      /* [n_candidates + n_waiting] of candidates */
    double *score;    /* [n_candidates + n_waiting] as stored: of those that wait */
    int64_t *turn;    /* the same */
    size_t unusable;  /* pooled ones that cannot be encoded; they are left out */
    float *embedding; /* what pool points to, owned here */
    float *feature;
    uint32_t *task;
    uint8_t *known;
};

struct td_select_want {
    const struct st_hardware *hw;
    const struct td_snapshot *s; /* NULL: no model */
    bool bare;                   /* nothing but ids and tasks: method random */
    size_t known_max;
    /* Called now and then with the share done; non-zero = stop: CANCELLED. */
    int (*progress)(void *arg, double share);
    void *arg;
};
/* What comes in meanwhile is left out. NO_MEMORY, CANCELLED, IO. */
int td_select_pool_load(struct st_reader *r, const struct td_select_want *want, struct td_select_pool *out,
                        struct tp_err *e);
void td_select_pool_free(struct td_select_pool *p);

#endif
