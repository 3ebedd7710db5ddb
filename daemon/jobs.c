/* The job runner: one list of queued and running jobs, a few threads of low priority that take from it.
 *
 * Invariant: the end of a job is in the store before it shows in memory, so nobody is told what a crash could take
 * back. A job leaves the list when it is finished and stored; followers keep it alive. Job threads never hold `mu`
 * while they compute or wait for the disk. */
#include "daemon/jobs_priv.h"

#include "daemon/giveway.h"
#include "daemon/log.h"
#include "daemon/metrics.h"

#include <malloc.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NICE = 10, STORE_TRIES = 5 /* seconds that a finished job waits for a store that fails */ };

const char *td_job_stage_name(enum td_job_stage s)
{
    static const char *const name[] = {
#define X(n) #n,
#include "daemon/jobstates.def"
#undef X
    };

    return name[s];
}

static int64_t clock_ms(clockid_t c)
{
    struct timespec t;

    clock_gettime(c, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t td_wall_ms(void)
{
    return clock_ms(CLOCK_REALTIME);
}

int64_t td_mono_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC);
}

/* ---- jobs as objects ---- */
struct td_job *td_job_new(struct td_jobs *js, const char *kind, const char *hardware, const char *lane,
                          const char *params, td_job_run run)
{
    struct td_job *j = calloc(1, sizeof *j);

    if (j == NULL)
        return NULL;
    j->js = js;
    j->run = run;
    j->refs = 1;
    j->loss = NAN;
    j->stage = TD_JOB_queued;
    snprintf(j->lane, sizeof j->lane, "%s", lane);
    snprintf(j->row.kind, sizeof j->row.kind, "%s", kind);
    snprintf(j->row.hardware, sizeof j->row.hardware, "%s", hardware);
    snprintf(j->row.state, sizeof j->row.state, "%s", td_job_stage_name(TD_JOB_queued));
    j->row.created = td_wall_ms();
    j->row.params = strdup(params);
    if (j->row.params == NULL) {
        free(j);
        return NULL;
    }
    return j;
}

void td_job_unref_locked(struct td_job *j)
{
    if (--j->refs > 0)
        return;
    st_job_clear(&j->row);
    free(j->metrics);
    free(j);
}

struct td_job *td_jobs_find_locked(struct td_jobs *js, int64_t id)
{
    for (struct td_job *j = js->first; j != NULL; j = j->next)
        if (j->id == id)
            return j;
    return NULL;
}

void td_job_append_locked(struct td_jobs *js, struct td_job *j)
{
    struct td_job **link = &js->first;

    while (*link != NULL)
        link = &(*link)->next;
    *link = j;
    js->queued++;
}

static void unlink_locked(struct td_jobs *js, struct td_job *j)
{
    struct td_job **link = &js->first;

    while (*link != NULL && *link != j)
        link = &(*link)->next;
    if (*link == j)
        *link = j->next;
    j->next = NULL;
}

int64_t td_job_id(const struct td_job *j)
{
    return j->id;
}

const char *td_job_hardware(const struct td_job *j)
{
    return j->row.hardware;
}

int td_job_open(const struct td_job *j, struct st_store *store, struct st_reader **r, struct st_hardware *hw,
                struct tp_err *e)
{
    int rc = st_reader_new(store, r, e);

    return rc != 0 ? rc : st_hardware_get(*r, td_job_hardware(j), hw, e);
}

void td_job_close(struct st_reader *r, struct st_hardware *hw)
{
    st_hardware_clear(hw);
    st_reader_free(r);
    malloc_trim(0);
}

bool td_job_cancelled(const struct td_job *j)
{
    return atomic_load_explicit(&j->cancel, memory_order_relaxed);
}

void td_job_progress(struct td_job *j, const struct td_job_state *s)
{
    struct td_jobs *js = j->js;

    pthread_mutex_lock(&js->mu);
    snprintf(j->phase, sizeof j->phase, "%s", s->phase);
    j->progress = s->progress < 0 ? 0 : s->progress > 1 ? 1 : s->progress;
    j->epoch = s->epoch;
    j->loss = s->loss;
    if (s->metrics != NULL && (j->metrics == NULL || strcmp(j->metrics, s->metrics) != 0)) {
        char *copy = strdup(s->metrics);

        if (copy != NULL) {
            free(j->metrics);
            j->metrics = copy;
        }
    }
    j->event++;
    pthread_mutex_unlock(&js->mu);
}

/* ---- the end of a job ---- */
static void count(struct td_jobs *js, enum td_counter c)
{
    if (js->d->metrics != NULL)
        td_count(js->d->metrics, c, 1);
}

/* "code: text" for the store; NULL when out of memory. */
static char *error_text(int code, const char *detail)
{
    const char *slug = tp_code_slug(code);
    size_t n = strlen(slug) + strlen(detail) + 3;
    char *s = malloc(n);

    if (s != NULL)
        snprintf(s, n, "%s: %s", slug, detail);
    return s;
}

/* What the row of j is once it is finished: takes result and error over. The strings stay shared with j->row until
 * take_row_locked(). */
static struct st_job end_row(const struct td_job *j, enum td_job_stage stage, char *result, char *error)
{
    struct st_job row = j->row;

    snprintf(row.state, sizeof row.state, "%s", td_job_stage_name(stage));
    row.result = result;
    row.error = error;
    row.finished = td_wall_ms();
    return row;
}

static void take_row_locked(struct td_job *j, const struct st_job *row, enum td_job_stage stage)
{
    j->row = *row;
    j->stage = stage;
    if (stage == TD_JOB_succeeded)
        j->progress = 1;
    j->event++;
}

/* A job that is done but not stored would be called interrupted after a restart, so a store that fails is asked again:
 * for a while, and until it has room where it has none. */
static void store_end(struct td_jobs *js, const struct st_job *row)
{
    struct tp_err e = {0};
    bool stop = false;
    int rc = 0;

    for (int i = 0; !stop && (i < STORE_TRIES || rc == -TP_E_DISK_FULL); i++) {
        struct timespec until;

        rc = st_job_update(js->d->store, row, &e);
        if (rc == 0 || rc == -TP_E_UNKNOWN_JOB)
            return; /* unknown: its hardware was purged */
        if (i == STORE_TRIES - 1)
            td_log(TD_WARNING, "job-waits-for-the-disk", TD_I("job", row->id), TD_S("detail", e.detail));
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        pthread_mutex_lock(&js->mu);
        while (!js->stop && pthread_cond_timedwait(&js->work, &js->mu, &until) == 0)
            continue;
        stop = js->stop;
        pthread_mutex_unlock(&js->mu);
    }
    td_log(TD_ERROR, "job-not-stored", TD_I("job", row->id), TD_S("error", tp_code_slug(rc)), TD_S("detail", e.detail));
}

/* ---- threads ---- */
static struct td_job *pick_locked(struct td_jobs *js)
{
    for (struct td_job *j = js->first; j != NULL; j = j->next) {
        bool busy = false;

        if (j->stage != TD_JOB_queued || td_job_cancelled(j))
            continue;
        for (const struct td_job *k = js->first; k != NULL; k = k->next)
            busy |= k->stage == TD_JOB_running && strcmp(k->lane, j->lane) == 0;
        if (!busy)
            return j;
    }
    return NULL;
}

/* The end of a job that will not go on: result is taken over. */
static void finish(struct td_jobs *js, struct td_job *j, int rc, char *result, const struct tp_err *e)
{
    enum td_job_stage stage = rc == 0 ? TD_JOB_succeeded : rc == -TP_E_CANCELLED ? TD_JOB_cancelled : TD_JOB_failed;
    char *error = stage == TD_JOB_failed ? error_text(rc, e->detail) : NULL;
    struct st_job row = end_row(j, stage, result, error);

    store_end(js, &row);
    td_kept_remove(js, j->id);
    td_log(stage == TD_JOB_failed ? TD_WARNING : TD_INFO, "job-finished", TD_I("job", j->id),
           TD_S("state", td_job_stage_name(stage)), TD_S("error", error),
           TD_I("milliseconds", row.finished - row.started));
    count(js, rc == 0 ? TD_C_JOBS_OK : stage == TD_JOB_cancelled ? TD_C_JOBS_CANCELLED : TD_C_JOBS_FAILED);
    pthread_mutex_lock(&js->mu);
    take_row_locked(j, &row, stage);
    pthread_mutex_unlock(&js->mu);
}

static void run_one(struct td_jobs *js, struct td_job *j)
{
    struct tp_err e = {0};
    struct st_job row;
    char *result = NULL;
    bool stopped;
    int rc;

    row = j->row; /* shares strings; nobody else changes them */
    rc = st_job_update(js->d->store, &row, &e);
    td_log(TD_INFO, "job-started", TD_I("job", j->id), TD_S("kind", row.kind), TD_S("hardware", row.hardware));
    if (rc == 0)
        rc = j->run(js->d, j, j->row.params, &result, &e);
    pthread_mutex_lock(&js->mu);
    stopped = rc == -TP_E_CANCELLED && js->stop;
    pthread_mutex_unlock(&js->mu);
    if (rc != 0) {
        free(result);
        result = NULL;
    }
    if (stopped && atomic_load(&j->kept) && !atomic_load(&j->given_up)) {
        td_log(TD_INFO, "job-suspended", TD_I("job", j->id));
        count(js, TD_C_JOBS_SUSPENDED);
    } else {
        if (stopped)
            rc = tp_fail(&e, TP_E_INTERRUPTED, "the daemon was stopped while the job ran");
        finish(js, j, rc, result, &e);
    }

    pthread_mutex_lock(&js->mu);
    js->running--;
    unlink_locked(js, j);
    td_job_unref_locked(j);
    pthread_cond_broadcast(&js->work); /* its lane is free */
    pthread_cond_signal(&js->tick);
    pthread_mutex_unlock(&js->mu);
}

static void *thread_main(void *arg)
{
    struct td_jobs *js = arg;

    td_give_way(NICE, true); /* and the threads that a job starts */
    pthread_setname_np(pthread_self(), "tcld-job");
    pthread_mutex_lock(&js->mu);
    while (!js->stop) {
        struct td_job *j = pick_locked(js);

        if (j == NULL) {
            pthread_cond_wait(&js->work, &js->mu);
            continue;
        }
        j->stage = TD_JOB_running;
        j->row.started = td_wall_ms();
        snprintf(j->row.state, sizeof j->row.state, "%s", td_job_stage_name(TD_JOB_running));
        j->event++;
        js->queued--;
        js->running++;
        pthread_mutex_unlock(&js->mu);
        run_one(js, j);
        pthread_mutex_lock(&js->mu);
    }
    pthread_mutex_unlock(&js->mu);
    return NULL;
}

int td_jobs_start(struct td_jobs *js, struct tp_err *e)
{
    sigset_t all, old;
    cpu_set_t cpus;
    /* One job already uses several cores; a second one only where there are many. */
    int n = sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) >= 8 ? 2 : 1, rc = 0;

    js->threads = calloc((size_t)n, sizeof *js->threads);
    if (js->threads == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for job threads");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the control thread's */
    js->has_ticker = pthread_create(&js->ticker, NULL, td_ticker_main, js) == 0;
    while (js->has_ticker && js->n_threads < n && rc == 0) {
        rc = pthread_create(&js->threads[js->n_threads], NULL, thread_main, js);
        js->n_threads += rc == 0;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!js->has_ticker || rc != 0)
        return tp_fail(e, TP_E_NO_MEMORY, "cannot start job threads");
    return 0;
}

int td_jobs_new(struct td_daemon *d, const char *dir, td_job_run resume, struct td_jobs **out, struct tp_err *e)
{
    struct td_jobs *js = calloc(1, sizeof *js);
    pthread_condattr_t attr;
    int rc;

    if (js == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for the job runner");
    js->d = d;
    pthread_mutex_init(&js->submit_mu, NULL);
    pthread_mutex_init(&js->mu, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&js->work, &attr);
    pthread_cond_init(&js->tick, &attr);
    pthread_condattr_destroy(&attr);
    if (dir != NULL && (js->dir = strdup(dir)) == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for the job runner");
    else
        rc = td_kept_take_over(js, resume, e);
    if (rc != 0) {
        td_jobs_free(js);
        return rc;
    }
    *out = js;
    return 0;
}

void td_jobs_free(struct td_jobs *js)
{
    if (js == NULL)
        return;
    pthread_mutex_lock(&js->mu);
    js->stop = true;
    for (struct td_job *j = js->first; j != NULL; j = j->next)
        atomic_store(&j->cancel, true);
    pthread_cond_broadcast(&js->work);
    pthread_cond_broadcast(&js->tick);
    pthread_mutex_unlock(&js->mu);
    for (int i = 0; i < js->n_threads; i++)
        pthread_join(js->threads[i], NULL);
    if (js->has_ticker)
        pthread_join(js->ticker, NULL);
    while (js->first != NULL) { /* still queued */
        struct td_job *j = js->first;
        struct st_job row =
            end_row(j, TD_JOB_failed, NULL, error_text(TP_E_INTERRUPTED, "the daemon was stopped before the job ran"));

        if (!atomic_load(&j->kept))
            store_end(js, &row);
        take_row_locked(j, &row, TD_JOB_failed);
        unlink_locked(js, j);
        td_job_unref_locked(j);
    }
    free(js->threads);
    free(js->dir);
    pthread_cond_destroy(&js->work);
    pthread_cond_destroy(&js->tick);
    pthread_mutex_destroy(&js->mu);
    pthread_mutex_destroy(&js->submit_mu);
    free(js);
}

/* ---- submit, cancel ---- */
static struct td_job *find_equal_locked(struct td_jobs *js, const char *kind, const char *hardware, const char *params)
{
    for (struct td_job *j = js->first; j != NULL; j = j->next)
        if (j->stage == TD_JOB_queued && !td_job_cancelled(j) && strcmp(j->row.kind, kind) == 0 &&
            strcmp(j->row.hardware, hardware) == 0 && strcmp(j->row.params, params) == 0)
            return j;
    return NULL;
}

int td_jobs_submit(struct td_jobs *js, const char *kind, const char *hardware, const char *lane, const char *params,
                   td_job_run run, int64_t *id, bool *existing, struct tp_err *e)
{
    struct td_job *j = NULL;
    int rc = 0;

    pthread_mutex_lock(&js->submit_mu);
    pthread_mutex_lock(&js->mu);
    j = find_equal_locked(js, kind, hardware, params);
    if (js->stop)
        rc = tp_fail(e, TP_E_DRAINING, "the daemon is stopping");
    else if (j == NULL && js->queued >= TD_JOBS_QUEUED_MAX)
        rc = tp_fail(e, TP_E_OVERLOADED, "%d jobs wait already", js->queued);
    if (rc == 0 && j != NULL) {
        *id = j->id;
        *existing = true;
    }
    pthread_mutex_unlock(&js->mu);
    if (rc != 0 || j != NULL)
        goto out;

    j = td_job_new(js, kind, hardware, lane, params, run);
    if (j == NULL) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a job");
        goto out;
    }
    rc = js->stale ? td_jobs_interrupt_again(js, e) : 0;
    if (rc == 0) {
        js->stale = false;
        rc = st_job_insert(js->d->store, &j->row, e);
    }
    pthread_mutex_lock(&js->mu);
    if (rc != 0) {
        td_job_unref_locked(j);
    } else {
        j->id = j->row.id;
        j->event = 1;
        *id = j->id;
        *existing = false;
        td_job_append_locked(js, j);
        pthread_cond_broadcast(&js->work); /* store_end() may wait on it too */
    }
    pthread_mutex_unlock(&js->mu);
out:
    pthread_mutex_unlock(&js->submit_mu);
    return rc;
}

/* j is queued and flagged, so no thread picks it and nobody else ends it; the caller holds a reference. */
static int end_queued(struct td_jobs *js, struct td_job *j, struct tp_err *e)
{
    struct st_job row = end_row(j, TD_JOB_cancelled, NULL, NULL);
    int rc = st_job_update(js->d->store, &row, e);

    if (rc == -TP_E_UNKNOWN_JOB)
        rc = 0; /* purged with its hardware */
    pthread_mutex_lock(&js->mu);
    if (rc != 0) {
        atomic_store(&j->cancel, js->stop); /* not cancelled after all */
        pthread_cond_broadcast(&js->work);  /* a thread may have passed it over */
    } else {
        take_row_locked(j, &row, TD_JOB_cancelled);
        js->queued--;
        unlink_locked(js, j);
        td_job_unref_locked(j);
        pthread_cond_signal(&js->tick);
    }
    pthread_mutex_unlock(&js->mu);
    if (rc == 0) {
        count(js, TD_C_JOBS_CANCELLED);
        td_kept_remove(js, row.id);
    }
    return rc;
}

int td_jobs_cancel(struct td_jobs *js, struct st_reader *r, int64_t id, bool *running, struct tp_err *e)
{
    struct st_job row = {0};
    struct td_job *j;
    bool queued = false;
    int rc;

    pthread_mutex_lock(&js->submit_mu); /* two cancellations of one queued job, or one and the end of the runner */
    pthread_mutex_lock(&js->mu);
    j = td_jobs_find_locked(js, id);
    if (j != NULL) {
        queued = j->stage == TD_JOB_queued;
        atomic_store(&j->given_up, !queued);
        atomic_store(&j->cancel, true);
    }
    pthread_mutex_unlock(&js->mu);
    if (j != NULL) {
        *running = !queued;
        if (!queued)
            td_kept_give_up(js, id);
        rc = queued ? end_queued(js, j, e) : 0;
    } else {
        rc = st_job_get(r, id, &row, e);
        if (rc == 0)
            rc = tp_fail(e, TP_E_CONFLICT, "job %lld is finished: its state is \"%s\"", (long long)id, row.state);
        st_job_clear(&row);
    }
    pthread_mutex_unlock(&js->submit_mu);
    return rc;
}

void td_jobs_cancel_hardware(struct td_jobs *js, const char *hardware)
{
    struct td_job *j;

    pthread_mutex_lock(&js->submit_mu);
    do {
        pthread_mutex_lock(&js->mu);
        for (j = js->first; j != NULL; j = j->next) {
            if (strcmp(j->row.hardware, hardware) != 0 || td_job_cancelled(j))
                continue;
            atomic_store(&j->given_up, j->stage == TD_JOB_running);
            atomic_store(&j->cancel, true);
            if (j->stage == TD_JOB_queued)
                break;
        }
        pthread_mutex_unlock(&js->mu);
    } while (j != NULL && end_queued(js, j, NULL) == 0);
    pthread_mutex_unlock(&js->submit_mu);
}

int td_jobs_active(const struct td_jobs *js)
{
    struct td_jobs *w = (struct td_jobs *)js; /* to lock it */
    int n;

    pthread_mutex_lock(&w->mu);
    n = w->queued + w->running;
    pthread_mutex_unlock(&w->mu);
    return n;
}

bool td_jobs_lane_busy(struct td_jobs *js, const char *lane)
{
    bool busy = false;

    pthread_mutex_lock(&js->mu);
    for (const struct td_job *j = js->first; j != NULL && !busy; j = j->next)
        busy = strcmp(j->lane, lane) == 0;
    pthread_mutex_unlock(&js->mu);
    return busy;
}
