/* A bounded queue and a few threads that run closures in order of arrival. All functions but new and free are
 * thread-safe.
 */
#ifndef TD_POOL_H
#define TD_POOL_H

#include "proto/err.h"

#include <stddef.h>

struct td_pool;
/* worker_new/worker_free make per-thread state handed to every task (may be NULL); worker_new runs on the caller's
 * thread, worker_free on the one that frees the pool. NULL when out of memory or when worker_new gave NULL. */
struct td_pool *td_pool_new(const char *name, int threads, size_t max_queued, void *(*worker_new)(void *),
                            void (*worker_free)(void *), void *arg);
/* Runs what is queued to its end, then joins. */
void td_pool_free(struct td_pool *p);
/* OVERLOADED when max_queued tasks wait. */
int td_pool_submit(struct td_pool *p, void (*run)(void *task, void *worker), void *task, struct tp_err *e);
void td_pool_limit(struct td_pool *p, size_t max_queued); /* what waits already stays */
size_t td_pool_queued(const struct td_pool *p);
unsigned long td_pool_done(const struct td_pool *p); /* tasks finished: the watchdog's sign of life */

#endif
