/* The parallel for of model/pool.h. Workers sleep on `wake` between runs; a run is announced by a new generation number
 * and is over when every worker has reported back, so that no worker can look at a run that is gone. */
#include "model/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

struct worker {
    struct tm_pool *pool;
    int number;
    pthread_t thread;
};

struct tm_pool {
    pthread_mutex_t lock; /* guards generation, busy, stop; and fn, arg, n, which change only while busy is 0 */
    pthread_cond_t wake, done;
    uint64_t generation;
    int busy;
    bool stop;
    tm_pool_fn fn;
    void *arg;
    uint32_t n;
    atomic_uint_fast32_t next;
    int n_workers; /* beside the caller, which is number 0 */
    struct worker worker[TM_MAX_THREADS];
};

static void take_items(struct tm_pool *p, int number)
{
    uint_fast32_t i;
    while ((i = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed)) < p->n)
        p->fn(p->arg, (uint32_t)i, number);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct tm_pool *p = w->pool;
    uint64_t seen = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->stop && p->generation == seen)
            pthread_cond_wait(&p->wake, &p->lock);
        if (p->stop)
            break;
        seen = p->generation;
        pthread_mutex_unlock(&p->lock);
        take_items(p, w->number);
        pthread_mutex_lock(&p->lock);
        if (--p->busy == 0)
            pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct tm_pool *tm_pool_new(int threads)
{
    struct tm_pool *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->done, NULL);
    threads = threads < 1 ? 1 : threads > TM_MAX_THREADS ? TM_MAX_THREADS : threads;

    /* signals belong to the threads that asked for them */
    sigset_t block, before;
    sigfillset(&block);
    pthread_sigmask(SIG_SETMASK, &block, &before);
    while (p->n_workers < threads - 1) {
        struct worker *w = &p->worker[p->n_workers];
        *w = (struct worker){.pool = p, .number = p->n_workers + 1};
        if (pthread_create(&w->thread, NULL, work, w) != 0)
            break;
        p->n_workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return p;
}

void tm_pool_free(struct tm_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_workers; i++)
        pthread_join(p->worker[i].thread, NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

int tm_pool_threads(const struct tm_pool *p)
{
    return p->n_workers + 1;
}

void tm_pool_run(struct tm_pool *p, tm_pool_fn fn, void *arg, uint32_t n)
{
    pthread_mutex_lock(&p->lock);
    p->fn = fn;
    p->arg = arg;
    p->n = n;
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    p->busy = p->n_workers;
    p->generation++;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);

    take_items(p, 0);

    pthread_mutex_lock(&p->lock);
    while (p->busy > 0)
        pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}
