/* New offsets for the tasks that need them, and what else is to be done when measurements came in: the comparison with
 * predictions, the policies of automatic retraining.
 *
 * Invariant: a row of offsets says how many valid measurements its task had when it was made, read before the programs
 * were; what came in between makes the task due a little earlier, never later. Work is bounded by the rule of
 * td_recal_due(), a pass by its two limits, passes by the clock. The thread gives way as job threads do, but is not one
 * of them: a training would keep it waiting for minutes. */
#include "daemon/recalibrate.h"

#include "daemon/drift.h"
#include "daemon/figures.h"
#include "daemon/fleet.h"
#include "daemon/giveway.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/policy.h"
#include "daemon/registry.h"
#include "daemon/train_load.h"
#include "model/mem.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NICE = 10, NAMES = 64 };

/* ---- one pass ---- */
struct pass {
    struct td_daemon *d;
    struct st_reader *reader;
    struct td_hw hw;
    struct td_snapshot *s;
    struct td_task_count *count; /* all tasks, by id */
    size_t n_counts;
    struct st_offset *have; /* of this hardware, by task id */
    size_t n_have, have_cap;
    struct st_offset *due; /* measurements is set, then the rest */
    size_t n_due;
    struct tm_batch *batch;
    double cost[TD_RECAL_PROGRAMS];
    int n;
};

bool td_recal_due(int64_t valid, const struct st_offset *have)
{
    return valid >= TM_OFFSET_MIN && (have == NULL || valid / 2 >= have->measurements);
}

static int note_have(void *arg, int64_t hw, const struct st_offset *o)
{
    struct pass *p = arg;

    if (hw != p->hw.id)
        return 0;
    if (tm_grow((void **)&p->have, &p->have_cap, p->n_have + 1, sizeof *p->have) != 0)
        return -TP_E_NO_MEMORY;
    p->have[p->n_have++] = *o;
    return 0;
}

/* Both lists ascend. */
static void find_due(struct pass *p, bool *more)
{
    size_t k = 0;

    for (size_t i = 0; i < p->n_counts; i++) {
        const struct td_task_count *c = &p->count[i];

        while (k < p->n_have && strcmp(p->have[k].task_id, c->id) < 0)
            k++;
        if (!td_recal_due(c->valid, k < p->n_have && strcmp(p->have[k].task_id, c->id) == 0 ? &p->have[k] : NULL))
            continue;
        if (p->n_due == TD_RECAL_TASKS) {
            *more = true;
            return;
        }
        p->due[p->n_due] = (struct st_offset){.measurements = c->valid};
        memcpy(p->due[p->n_due++].task_id, c->id, sizeof c->id);
    }
}

static int take(void *arg, const char *task_id, const uint8_t hash[16], const struct tp_record *rec, double min_cost,
                int64_t n)
{
    struct pass *p = arg;
    struct tp_err e;
    int at;

    (void)task_id, (void)hash, (void)n;
    if (!isfinite(min_cost))
        return 0;
    at = tm_batch_add(p->batch, rec, &p->hw.feat, &e);
    if (at < 0) /* a program that the encoder refuses is never predicted either */
        return at == -TP_E_NO_MEMORY ? at : 0;
    p->cost[at] = min_cost;
    p->n = at + 1;
    return p->n == TD_RECAL_PROGRAMS;
}

static int measure(struct pass *p, struct st_offset *o, struct tp_err *e)
{
    static const uint32_t one_task[TD_RECAL_PROGRAMS];
    double score[TD_RECAL_PROGRAMS], latency[TD_RECAL_PROGRAMS], residual[TD_RECAL_PROGRAMS];
    struct tm_offset fit = {0};
    int rc;

    p->n = 0;
    rc = tm_batch_begin(p->batch, p->s->plan);
    if (rc == 0)
        rc = st_training_task(p->reader, p->hw.id, o->task_id, take, p, e);
    if (rc == 0 && p->n > 0)
        rc = tm_batch_run(p->batch, score, latency, NULL);
    for (int i = 0; rc == 0 && i < p->n; i++)
        residual[i] = tm_latency_residual(p->s->model, latency[i], p->cost[i]);
    if (rc == 0 && p->n > 0)
        rc = tm_offsets_fit(residual, one_task, (size_t)p->n, 1, &fit);
    if (rc == -TP_E_NO_MEMORY)
        tp_fail(e, TP_E_NO_MEMORY, "no memory for the offset of a task");
    o->offset = fit.offset;
    o->programs = fit.n;
    return rc;
}

static int run_pass(struct pass *p, const _Atomic bool *stop, int *tasks, bool *more, struct tp_err *e)
{
    int calibration = 0, rc;

    rc = td_task_counts(p->reader, p->hw.id, &p->count, &p->n_counts, e);
    if (rc == 0)
        rc = st_offset_list(p->reader, p->s->id, note_have, p, &calibration, e);
    if (rc != 0)
        return rc;
    find_due(p, more);
    for (size_t i = 0; i < p->n_due && rc == 0; i++) {
        if (stop != NULL && atomic_load(stop))
            return 0;
        rc = measure(p, &p->due[i], e);
    }
    if (rc == 0 && p->n_due > 0)
        rc = td_registry_recalibrate(p->d->registry, p->hw.name, p->hw.family, p->hw.id, p->s->id, p->due, p->n_due,
                                     &calibration, e);
    if (rc == 0 && p->n_due > 0) {
        *tasks = (int)p->n_due;
        td_figures_show(p->d, p->reader, p->hw.name);
        td_log(TD_INFO, "model-recalibrated", TD_I("model", p->s->id), TD_S("hardware", p->hw.name),
               TD_I("calibration", calibration), TD_I("tasks", p->n_due));
        if (p->d->metrics != NULL)
            td_count(p->d->metrics, TD_C_RECALIBRATIONS, 1);
    }
    return rc;
}

int td_recal_pass(struct td_daemon *d, const char *hardware, const _Atomic bool *stop, int *tasks, bool *more,
                  struct tp_err *e)
{
    struct pass *p = calloc(1, sizeof *p);
    int rc = 0;

    *tasks = 0;
    *more = false;
    if (p != NULL) {
        p->d = d;
        p->due = calloc(TD_RECAL_TASKS, sizeof *p->due);
        p->batch = tm_batch_new();
    }
    if (p == NULL || p->due == NULL || p->batch == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for the offsets of tasks");
    if (rc == 0)
        rc = td_registry_hardware(d->registry, hardware, &p->hw, e);
    if (rc == 0)
        rc = td_registry_acquire(d->registry, p->hw.name, p->hw.family, "active", &p->s, e);
    if (rc == 0)
        rc = st_reader_new(d->store, &p->reader, e);
    if (rc == 0)
        rc = run_pass(p, stop, tasks, more, e);
    if (rc == -TP_E_UNKNOWN_HARDWARE || rc == -TP_E_NO_MODEL || rc == -TP_E_UNKNOWN_MODEL || rc == -TP_E_UNKNOWN_TASK)
        rc = 0; /* deleted meanwhile, or nothing to do yet */
    if (p != NULL) {
        st_reader_free(p->reader);
        td_registry_release(p->s);
        tm_batch_free(p->batch);
        free(p->count);
        free(p->have);
        free(p->due);
    }
    free(p);
    return rc;
}

/* ---- the thread ---- */
struct td_recal {
    struct td_daemon *d;
    pthread_t thread;
    bool joined; /* the owner's */
    _Atomic bool stop;
    pthread_mutex_t mu; /* guards what follows; nothing is waited for under it */
    pthread_cond_t wake;
    bool all; /* look at every hardware: at the start, or more than NAMES were noted */
    int n;
    char name[NAMES][ST_ID_MAX + 1];
};

void td_recal_note(struct td_recal *c, const char *hardware)
{
    bool known;

    if (c == NULL)
        return;
    pthread_mutex_lock(&c->mu);
    known = c->all;
    for (int i = 0; i < c->n && !known; i++)
        known = strcmp(c->name[i], hardware) == 0;
    if (!known && c->n == NAMES) {
        c->all = true;
    } else if (!known && strlen(hardware) <= ST_ID_MAX) {
        memcpy(c->name[c->n++], hardware, strlen(hardware) + 1);
        pthread_cond_signal(&c->wake);
    }
    pthread_mutex_unlock(&c->mu);
}

/* First what came in is compared with what was predicted, before it is learned from; last the policy. */
static void look_at(struct td_recal *c, const char *hardware)
{
    struct st_reader *r = NULL;
    struct tp_err e = {0};
    int64_t job;
    int tasks, compared;
    bool more;

    if (st_reader_new(c->d->store, &r, &e) != 0 || td_drift_look(c->d, r, hardware, &compared, &e) != 0)
        td_log(TD_WARNING, "latencies-not-compared", TD_S("hardware", hardware), TD_S("reason", e.detail));
    if (td_recal_pass(c->d, hardware, &c->stop, &tasks, &more, &e) != 0)
        td_log(TD_WARNING, "recalibration-failed", TD_S("hardware", hardware), TD_S("reason", e.detail));
    else if (more)
        td_recal_note(c, hardware);
    if (r != NULL && td_policy_check(c->d, r, hardware, &job, &e) != 0)
        td_log(TD_WARNING, "retrain-not-started", TD_S("hardware", hardware), TD_S("reason", e.detail));
    st_reader_free(r);
}

static void look_at_policies(struct td_recal *c)
{
    struct st_reader *r = NULL;
    struct tp_err e;

    if (st_reader_new(c->d->store, &r, &e) == 0) /* else the next time */
        td_policy_check_all(c->d, r);
    st_reader_free(r);
}

static void look_at_all(struct td_recal *c)
{
    struct td_members m = {0};
    struct st_reader *r = NULL;
    struct tp_err e;

    if (st_reader_new(c->d->store, &r, &e) == 0) /* else whoever measures next brings its hardware back */
        td_members_list(r, NULL, NULL, &m, &e);
    st_reader_free(r);
    for (size_t i = 0; i < m.n && !atomic_load(&c->stop); i++)
        look_at(c, m.v[i].name);
    td_members_free(&m);
}

static struct timespec in_ms(int ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

static bool passed(const struct timespec *t)
{
    struct timespec now = in_ms(0);

    return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

static void *thread_main(void *arg)
{
    struct td_recal *c = arg;
    struct timespec policies = in_ms(TD_POLICY_MS);
    char name[NAMES][ST_ID_MAX + 1];

    td_give_way(NICE, true);
    pthread_setname_np(pthread_self(), "tcld-offsets");
    pthread_mutex_lock(&c->mu);
    while (!atomic_load(&c->stop)) {
        struct timespec next;
        bool all = c->all;
        int n = c->n;

        if (passed(&policies)) {
            pthread_mutex_unlock(&c->mu);
            look_at_policies(c);
            pthread_mutex_lock(&c->mu);
            policies = in_ms(TD_POLICY_MS);
            continue;
        }
        if (n == 0 && !all) {
            pthread_cond_timedwait(&c->wake, &c->mu, &policies);
            continue;
        }
        memcpy(name, c->name, sizeof name);
        c->all = false;
        c->n = 0;
        pthread_mutex_unlock(&c->mu);
        next = in_ms(TD_RECAL_MS);
        if (all) {
            look_at_all(c);
            td_drift_started(c->d->drift);
        }
        for (int i = 0; i < n && !all && !atomic_load(&c->stop); i++)
            look_at(c, name[i]);
        pthread_mutex_lock(&c->mu);
        while (!atomic_load(&c->stop) && pthread_cond_timedwait(&c->wake, &c->mu, &next) == 0)
            continue;
    }
    pthread_mutex_unlock(&c->mu);
    return NULL;
}

int td_recal_new(struct td_daemon *d, struct td_recal **out, struct tp_err *e)
{
    struct td_recal *c = calloc(1, sizeof *c);
    pthread_condattr_t attr;
    sigset_t all, old;
    int rc;

    if (c == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for the offsets of tasks");
    c->d = d;
    c->all = true;
    pthread_mutex_init(&c->mu, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->wake, &attr);
    pthread_condattr_destroy(&attr);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the control thread's */
    rc = pthread_create(&c->thread, NULL, thread_main, c);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0) {
        pthread_cond_destroy(&c->wake);
        pthread_mutex_destroy(&c->mu);
        free(c);
        return tp_fail(e, TP_E_NO_MEMORY, "cannot start the thread of the offsets");
    }
    *out = c;
    return 0;
}

void td_recal_stop(struct td_recal *c)
{
    if (c == NULL || c->joined)
        return;
    pthread_mutex_lock(&c->mu);
    atomic_store(&c->stop, true);
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->mu);
    pthread_join(c->thread, NULL);
    c->joined = true;
}

void td_recal_free(struct td_recal *c)
{
    if (c == NULL)
        return;
    td_recal_stop(c);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->mu);
    free(c);
}
