/* A bounded queue and a few threads that run closures in order of arrival. */
#ifndef TD_POOL_H
#define TD_POOL_H

#include "proto/err.h"

#include <stddef.h>

struct td_pool;
/* worker_new/worker_free make per-thread state handed to every task (may be NULL). nice: added to the thread's nice value. */
struct td_pool *td_pool_new(const char *name, int threads, size_t max_queued, void *(*worker_new)(void *), void (*worker_free)(void *), void *arg);
/* Runs what is queued to its end, then joins. */
void td_pool_free(struct td_pool *p);
/* OVERLOADED when max_queued tasks wait. */
int td_pool_submit(struct td_pool *p, void (*run)(void *task, void *worker), void *task, struct tp_err *e);
size_t td_pool_queued(const struct td_pool *p);
unsigned long td_pool_done(const struct td_pool *p);    /* tasks finished: the watchdog's sign of life */

#endif
