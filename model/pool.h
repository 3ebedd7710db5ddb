/* A parallel for: a few threads that take numbered items one after another. Which thread runs which item is left to
 * chance, so results must depend on the item alone. Workers inherit niceness and scheduling class of the thread that
 * made the pool.
 *
 * tm_pool_run() is called by one thread at a time and works along; it returns when every item is done. */
#ifndef TM_POOL_H
#define TM_POOL_H

#include <stdint.h>

enum { TM_MAX_THREADS = 64 };

struct tm_pool;
typedef void (*tm_pool_fn)(void *arg, uint32_t item, int worker);

/* `threads` (clamped to 1..TM_MAX_THREADS) counts the caller. Threads that the system refuses are done without. NULL:
 * no memory. */
struct tm_pool *tm_pool_new(int threads);
void tm_pool_free(struct tm_pool *p);
int tm_pool_threads(const struct tm_pool *p);

/* fn(arg, i, worker) for every i in 0..n-1; worker in 0..threads-1 names the thread, for its scratch memory. */
void tm_pool_run(struct tm_pool *p, tm_pool_fn fn, void *arg, uint32_t n);

#endif
