/* A bounded queue and its threads.
 *
 * Invariant: a task that was accepted runs exactly once, also when the pool is being freed. The ring grows up to
 * max_queued and never shrinks; in the steady state a submit allocates nothing. */
#include "daemon/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { RING_FIRST = 64 };

struct task {
    void (*run)(void *task, void *worker);
    void *arg;
};

struct worker {
    struct td_pool *pool;
    pthread_t thread;
    void *state;
};

struct td_pool {
    pthread_mutex_t lock; /* guards ring, cap, head, count, max, stop; no other lock is taken under it */
    pthread_cond_t wake;
    struct task *ring;
    size_t cap, head, count, max;
    bool stop;

    char name[16];
    int threads; /* that were started */
    struct worker *workers;
    void (*worker_free)(void *);
    _Atomic size_t queued;
    _Atomic unsigned long done;
};

static void *run(void *arg)
{
    struct worker *w = arg;
    struct td_pool *p = w->pool;

    pthread_setname_np(pthread_self(), p->name);
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->count == 0 && !p->stop)
            pthread_cond_wait(&p->wake, &p->lock);
        if (p->count == 0)
            break;
        struct task t = p->ring[p->head];
        p->head = (p->head + 1) % p->cap;
        atomic_store_explicit(&p->queued, --p->count, memory_order_relaxed);
        pthread_mutex_unlock(&p->lock);

        t.run(t.arg, w->state);
        atomic_fetch_add_explicit(&p->done, 1, memory_order_relaxed);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct td_pool *td_pool_new(const char *name, int threads, size_t max_queued, void *(*worker_new)(void *),
                            void (*worker_free)(void *), void *arg)
{
    struct td_pool *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    p->max = max_queued;
    p->worker_free = worker_free;
    snprintf(p->name, sizeof p->name, "%s", name);
    p->cap = max_queued < RING_FIRST ? max_queued : RING_FIRST;
    p->ring = calloc(p->cap ? p->cap : 1, sizeof *p->ring);
    p->workers = calloc((size_t)threads, sizeof *p->workers);
    if (!p->ring || !p->workers)
        goto fail;
    for (; p->threads < threads; p->threads++) {
        struct worker *w = &p->workers[p->threads];
        w->pool = p;
        if (worker_new && !(w->state = worker_new(arg)))
            goto fail;
        if (pthread_create(&w->thread, NULL, run, w) != 0) {
            if (worker_free)
                worker_free(w->state);
            goto fail;
        }
    }
    return p;
fail:
    td_pool_free(p);
    return NULL;
}

void td_pool_free(struct td_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->threads; i++)
        pthread_join(p->workers[i].thread, NULL);
    for (int i = 0; i < p->threads; i++)
        if (p->worker_free)
            p->worker_free(p->workers[i].state);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p->workers);
    free(p->ring);
    free(p);
}

static bool grow_locked(struct td_pool *p)
{
    size_t cap = p->cap * 2 < p->max ? p->cap * 2 : p->max;
    struct task *ring = cap > p->cap ? calloc(cap, sizeof *ring) : NULL;

    if (!ring)
        return false;
    for (size_t i = 0; i < p->count; i++)
        ring[i] = p->ring[(p->head + i) % p->cap];
    free(p->ring);
    p->ring = ring;
    p->cap = cap;
    p->head = 0;
    return true;
}

int td_pool_submit(struct td_pool *p, void (*run_task)(void *task, void *worker), void *task, struct tp_err *e)
{
    bool ok;

    pthread_mutex_lock(&p->lock);
    ok = p->count < p->max && !p->stop && (p->count < p->cap || grow_locked(p));
    if (ok) {
        p->ring[(p->head + p->count) % p->cap] = (struct task){run_task, task};
        atomic_store_explicit(&p->queued, ++p->count, memory_order_relaxed);
        pthread_cond_signal(&p->wake);
    }
    pthread_mutex_unlock(&p->lock);
    return ok ? 0 : tp_fail(e, TP_E_OVERLOADED, "too many requests wait already; try again later");
}

void td_pool_limit(struct td_pool *p, size_t max_queued)
{
    pthread_mutex_lock(&p->lock);
    p->max = max_queued;
    pthread_mutex_unlock(&p->lock);
}

size_t td_pool_queued(const struct td_pool *p)
{
    return atomic_load_explicit(&p->queued, memory_order_relaxed);
}

unsigned long td_pool_done(const struct td_pool *p)
{
    return atomic_load_explicit(&p->done, memory_order_relaxed);
}
