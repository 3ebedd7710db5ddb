/* A bounded queue and a few threads that run closures. All functions but new and free are thread-safe.
 *
 * A pool has one lane or two. Each lane has its own queue, its own limit and its own threads; within a lane tasks begin
 * in order of arrival. What goes to the express lane must be short: its threads run nothing else, so it never waits for
 * a task of the main lane. Threads of the main lane run express tasks as well while they have none of their own, so no
 * thread idles while short work waits; long work waits for them alone. */
#ifndef TD_POOL_H
#define TD_POOL_H

#include "proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum td_lane { TD_LANE_MAIN, TD_LANE_EXPRESS, TD_LANES };

struct td_pool;
struct td_pool_opts {
    const char *name;               /* of its threads; those of the express lane get a "+" */
    int threads[TD_LANES];          /* [TD_LANE_EXPRESS] 0: no such lane, its tasks go to the main one */
    size_t max_queued;              /* tasks of one lane that may wait */
    int nice;                       /* of the main lane's threads: td_give_way() */
    void *(*worker_new)(void *arg); /* per-thread state, handed to every task; may be NULL. Caller's thread. */
    void (*worker_free)(void *);    /* on the thread that frees the pool */
    void *arg;
};
/* NULL when out of memory or when worker_new gave NULL. */
struct td_pool *td_pool_new(const struct td_pool_opts *o);
/* Runs what is queued to its end, then joins. */
void td_pool_free(struct td_pool *p);
/* OVERLOADED when max_queued tasks wait in the lane. */
int td_pool_submit(struct td_pool *p, enum td_lane lane, void (*run)(void *task, void *worker), void *task,
                   struct tp_err *e);
void td_pool_limit(struct td_pool *p, size_t max_queued); /* what waits already stays */
/* How long a task that comes now will wait for its turn: by what waits, and how long the last ones took. */
int64_t td_pool_wait_us(const struct td_pool *p, enum td_lane lane);
size_t td_pool_queued(const struct td_pool *p, enum td_lane lane);
/* Tasks of the lane that are finished: the watchdog's sign of life. */
unsigned long td_pool_done(const struct td_pool *p, enum td_lane lane);

#endif
