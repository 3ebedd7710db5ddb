/* Followers of jobs: the text of their event streams, and one thread that wakes them.
 *
 * A training thread only raises the job's event number; the ticker compares it four times a second with what each
 * follower has, so a job that reports after every batch costs a follower one event in TD_JOB_EVENT_MS and nobody a
 * system call per batch. Invariant: `wake` is called under td_jobs.mu and never after td_follow_close() returned. */
#include "daemon/jobs_priv.h"

#include <stdlib.h>
#include <time.h>

struct td_follow {
    struct td_jobs *js;
    struct td_job *job; /* holds a reference */
    struct td_follow *next;
    int refs; /* the stream, and the caller of td_follow_new until td_follow_start */
    bool closed, ended;
    uint64_t seen;   /* number of the last event sent, or known to the client */
    int64_t sent_ms; /* when something was sent last */
    void (*wake)(void *);
    void *stream;
};

int td_follow_new(struct td_jobs *js, int64_t id, int64_t last_id, struct td_follow **out, struct tp_err *e)
{
    struct td_follow *f = calloc(1, sizeof *f);
    int rc = 0;

    if (f == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to follow a job");
    pthread_mutex_lock(&js->submit_mu); /* else a job may be in the store and not in the list yet */
    pthread_mutex_lock(&js->mu);
    f->job = td_jobs_find_locked(js, id);
    if (f->job == NULL) {
        rc = tp_fail(e, TP_E_UNKNOWN_JOB, "job %lld is neither queued nor running", (long long)id);
    } else {
        f->job->refs++;
        f->js = js;
        f->refs = 2;
        f->seen = last_id > 0 && (uint64_t)last_id <= f->job->event ? (uint64_t)last_id : 0;
        f->sent_ms = td_mono_ms() - TD_JOB_EVENT_MS;
        f->next = js->follows;
        js->follows = f;
        pthread_cond_signal(&js->tick);
    }
    pthread_mutex_unlock(&js->mu);
    pthread_mutex_unlock(&js->submit_mu);
    if (rc != 0)
        free(f);
    else
        *out = f;
    return rc;
}

static void unref_locked(struct td_follow *f)
{
    if (--f->refs == 0) {
        td_job_unref_locked(f->job);
        free(f);
    }
}

void td_follow_start(struct td_follow *f, void (*wake)(void *stream), void *stream)
{
    struct td_jobs *js = f->js;

    pthread_mutex_lock(&js->mu);
    if (!f->closed) {
        f->wake = wake;
        f->stream = stream;
    }
    unref_locked(f);
    pthread_mutex_unlock(&js->mu);
}

void td_follow_close(void *follow)
{
    struct td_follow *f = follow, **link;
    struct td_jobs *js = f->js;

    pthread_mutex_lock(&js->mu);
    for (link = &js->follows; *link != NULL; link = &(*link)->next) {
        if (*link == f) {
            *link = f->next;
            break;
        }
    }
    f->closed = true;
    f->wake = NULL;
    unref_locked(f);
    pthread_mutex_unlock(&js->mu);
}

/* What is due for f now? */
enum due { NOTHING, PING, EVENT, END };

static enum due due_locked(const struct td_follow *f, int64_t now)
{
    if (f->ended)
        return NOTHING;
    if (td_stage_finished(f->job->stage))
        return END;
    if (f->job->event > f->seen && now - f->sent_ms >= TD_JOB_EVENT_MS)
        return EVENT;
    return now - f->sent_ms >= TD_JOB_PING_MS ? PING : NOTHING;
}

int td_follow_next(void *follow, struct tp_buf *out)
{
    struct td_follow *f = follow;
    struct td_jobs *js = f->js;
    int64_t now = td_mono_ms();
    enum due due;
    bool ended;

    pthread_mutex_lock(&js->mu);
    ended = f->ended;
    due = due_locked(f, now);
    if (due == PING) {
        tp_buf_puts(out, ":\n\n");
    } else if (due != NOTHING) {
        f->seen = f->job->event;
        f->ended = due == END;
        tp_buf_printf(out, "event: %s\nid: %llu\ndata: ", due == END ? "end" : "progress", (unsigned long long)f->seen);
        td_job_json_locked(f->job, out);
        tp_buf_puts(out, "\n\n");
    }
    if (due != NOTHING)
        f->sent_ms = now;
    pthread_mutex_unlock(&js->mu);
    return ended ? 0 : due == NOTHING ? 2 : 1;
}

void td_follow_row(struct td_jobs *js, const struct st_job *row, struct tp_buf *out)
{
    tp_buf_puts(out, "event: end\ndata: ");
    td_job_row_json(js, row, false, out);
    tp_buf_puts(out, "\n\n");
}

void *td_ticker_main(void *arg)
{
    struct td_jobs *js = arg;

    pthread_setname_np(pthread_self(), "tcld-events");
    pthread_mutex_lock(&js->mu);
    while (!js->stop) {
        struct timespec until;
        int64_t now;

        if (js->follows == NULL) {
            pthread_cond_wait(&js->tick, &js->mu);
            continue;
        }
        now = td_mono_ms();
        for (struct td_follow *f = js->follows; f != NULL; f = f->next)
            if (f->wake != NULL && due_locked(f, now) != NOTHING)
                f->wake(f->stream);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TD_JOB_EVENT_MS * 1000000L;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_nsec -= 1000000000L;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&js->tick, &js->mu, &until);
    }
    pthread_mutex_unlock(&js->mu);
    return NULL;
}
