/* Bounded queues and their threads.
 *
 * Invariant: a task that was accepted runs exactly once, also when the pool is being freed. Whenever tasks of a lane
 * wait, so many threads that may run them are awake or signalled, as far as there are any. A ring grows up to
 * max_queued and never shrinks; in the steady state a submit allocates nothing. */
#include "daemon/pool.h"

#include "daemon/giveway.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { RING_FIRST = 64 };

struct task {
    void (*run)(void *task, void *worker);
    void *arg;
};

struct worker {
    struct td_pool *pool;
    enum td_lane lane;
    pthread_t thread;
    void *state;
};

struct lane {
    struct task *ring;
    size_t cap, head, count;
    size_t idle; /* threads of this lane that wait, also when signalled */
    pthread_cond_t wake;
    _Atomic size_t queued; /* = count */
    _Atomic unsigned long done;
    _Atomic int64_t task_ns; /* time of a task, a moving mean; 0 not known yet */
};

struct td_pool {
    pthread_mutex_t lock; /* guards the lanes but for their atomics, max, stop; no other lock is taken under it */
    struct lane lane[TD_LANES];
    size_t max;
    bool stop;

    struct td_pool_opts opts;
    char name[TD_LANES][16];
    int n_workers; /* that were started */
    struct worker *workers;
};

static bool take_locked(struct td_pool *p, enum td_lane from, struct task *t)
{
    struct lane *l = &p->lane[from];

    if (l->count == 0)
        return false;
    *t = l->ring[l->head];
    l->head = (l->head + 1) % l->cap;
    atomic_store_explicit(&l->queued, --l->count, memory_order_relaxed);
    return true;
}

/* Own work first: helping must not hold up a long task that nobody else would run. */
static bool find_locked(struct td_pool *p, enum td_lane own, struct task *t, enum td_lane *from)
{
    *from = own;
    if (take_locked(p, own, t))
        return true;
    *from = TD_LANE_EXPRESS;
    return own == TD_LANE_MAIN && take_locked(p, TD_LANE_EXPRESS, t);
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Two threads may lose each other's update; a mean does not mind. */
static void note(struct lane *l, int64_t ns)
{
    int64_t mean = atomic_load_explicit(&l->task_ns, memory_order_relaxed);

    atomic_store_explicit(&l->task_ns, mean ? mean + (ns - mean) / 8 : ns, memory_order_relaxed);
}

static void *run(void *arg)
{
    struct worker *w = arg;
    struct td_pool *p = w->pool;
    struct lane *own = &p->lane[w->lane];
    enum td_lane from;
    struct task t;

    pthread_setname_np(pthread_self(), p->name[w->lane]);
    if (p->opts.nice && w->lane == TD_LANE_MAIN)
        td_give_way(p->opts.nice, false);
    pthread_mutex_lock(&p->lock);
    for (;;) {
        if (find_locked(p, w->lane, &t, &from)) {
            pthread_mutex_unlock(&p->lock);
            int64_t began = now_ns();
            t.run(t.arg, w->state);
            note(&p->lane[from], now_ns() - began);
            atomic_fetch_add_explicit(&p->lane[from].done, 1, memory_order_relaxed);
            pthread_mutex_lock(&p->lock);
        } else if (p->stop) {
            break;
        } else {
            own->idle++;
            pthread_cond_wait(&own->wake, &p->lock);
            own->idle--;
        }
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- life ---- */

static bool start(struct td_pool *p, enum td_lane lane)
{
    struct worker *w = &p->workers[p->n_workers];

    *w = (struct worker){.pool = p, .lane = lane};
    if (p->opts.worker_new && !(w->state = p->opts.worker_new(p->opts.arg)))
        return false;
    if (pthread_create(&w->thread, NULL, run, w) != 0) {
        if (p->opts.worker_free)
            p->opts.worker_free(w->state);
        return false;
    }
    p->n_workers++;
    return true;
}

struct td_pool *td_pool_new(const struct td_pool_opts *o)
{
    struct td_pool *p = calloc(1, sizeof *p);
    bool ok;

    if (!p)
        return NULL;
    p->opts = *o;
    p->max = o->max_queued;
    pthread_mutex_init(&p->lock, NULL);
    p->workers = calloc((size_t)(o->threads[TD_LANE_MAIN] + o->threads[TD_LANE_EXPRESS]), sizeof *p->workers);
    ok = p->workers != NULL;
    for (int i = 0; i < TD_LANES; i++) {
        struct lane *l = &p->lane[i];
        pthread_cond_init(&l->wake, NULL);
        snprintf(p->name[i], sizeof p->name[i], "%.14s%s", o->name, i == TD_LANE_EXPRESS ? "+" : "");
        l->cap = p->max < RING_FIRST ? p->max : RING_FIRST;
        l->ring = calloc(l->cap ? l->cap : 1, sizeof *l->ring);
        ok = ok && l->ring;
    }
    for (int i = 0; i < TD_LANES; i++)
        for (int k = 0; k < o->threads[i] && ok; k++)
            ok = start(p, (enum td_lane)i);
    if (!ok) {
        td_pool_free(p);
        return NULL;
    }
    return p;
}

void td_pool_free(struct td_pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    for (int i = 0; i < TD_LANES; i++)
        pthread_cond_broadcast(&p->lane[i].wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->n_workers; i++)
        pthread_join(p->workers[i].thread, NULL);
    for (int i = 0; i < p->n_workers; i++)
        if (p->opts.worker_free)
            p->opts.worker_free(p->workers[i].state);
    for (int i = 0; i < TD_LANES; i++) {
        pthread_cond_destroy(&p->lane[i].wake);
        free(p->lane[i].ring);
    }
    pthread_mutex_destroy(&p->lock);
    free(p->workers);
    free(p);
}

/* ---- work ---- */

static bool grow_locked(struct lane *l, size_t max)
{
    size_t cap = l->cap * 2 < max ? l->cap * 2 : max;
    struct task *ring = cap > l->cap ? calloc(cap, sizeof *ring) : NULL;

    if (!ring)
        return false;
    for (size_t i = 0; i < l->count; i++)
        ring[i] = l->ring[(l->head + i) % l->cap];
    free(l->ring);
    l->ring = ring;
    l->cap = cap;
    l->head = 0;
    return true;
}

/* Whom to wake for the task that was just queued, NULL nobody. A thread that was signalled counts as idle until it runs
 * again, and so do the tasks that it was signalled for: only what is beyond them needs help. */
static pthread_cond_t *whom_locked(struct td_pool *p, struct lane *l)
{
    struct lane *helper = &p->lane[TD_LANE_MAIN];

    if (l->count <= l->idle)
        return &l->wake;
    return l != helper && helper->count < helper->idle ? &helper->wake : NULL;
}

int td_pool_submit(struct td_pool *p, enum td_lane lane, void (*run_task)(void *task, void *worker), void *task,
                   struct tp_err *e)
{
    struct lane *l = &p->lane[p->opts.threads[lane] > 0 ? lane : TD_LANE_MAIN];
    pthread_cond_t *wake = NULL;
    bool ok;

    pthread_mutex_lock(&p->lock);
    ok = l->count < p->max && !p->stop && (l->count < l->cap || grow_locked(l, p->max));
    if (ok) {
        l->ring[(l->head + l->count) % l->cap] = (struct task){run_task, task};
        atomic_store_explicit(&l->queued, ++l->count, memory_order_relaxed);
        wake = whom_locked(p, l);
    }
    pthread_mutex_unlock(&p->lock);
    if (wake) /* with the lock free: who wakes up wants it first of all */
        pthread_cond_signal(wake);
    return ok ? 0 : tp_fail(e, TP_E_OVERLOADED, "too many requests wait already; try again later");
}

void td_pool_limit(struct td_pool *p, size_t max_queued)
{
    pthread_mutex_lock(&p->lock);
    p->max = max_queued;
    pthread_mutex_unlock(&p->lock);
}

int64_t td_pool_wait_us(const struct td_pool *p, enum td_lane lane)
{
    enum td_lane own = p->opts.threads[lane] > 0 ? lane : TD_LANE_MAIN;
    const struct lane *l = &p->lane[own];
    int64_t queued = (int64_t)atomic_load_explicit(&l->queued, memory_order_relaxed),
            each = atomic_load_explicit(&l->task_ns, memory_order_relaxed);

    return queued * each / (p->opts.threads[own] * (int64_t)1000);
}

size_t td_pool_queued(const struct td_pool *p, enum td_lane lane)
{
    return atomic_load_explicit(&p->lane[lane].queued, memory_order_relaxed);
}

unsigned long td_pool_done(const struct td_pool *p, enum td_lane lane)
{
    return atomic_load_explicit(&p->lane[lane].done, memory_order_relaxed);
}
