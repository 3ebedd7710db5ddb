/* What jobs.c and jobs_events.c share. */
#ifndef TD_JOBS_PRIV_H
#define TD_JOBS_PRIV_H

#include "daemon/jobs.h"

#include <pthread.h>

struct td_job {
    struct td_jobs *js;
    struct td_job *next; /* in td_jobs.first */
    int64_t id;
    char lane[ST_ID_MAX + 1];
    td_job_run run;
    _Atomic bool cancel;   /* asked to stop, by whom ever */
    _Atomic bool given_up; /* ... by a client, while it ran: it does not go on after a restart */
    _Atomic bool kept;     /* it has a folder of its own */
    /* The rest is guarded by td_jobs.mu; row's id, kind, hardware, params do not change. */
    int refs;
    struct st_job row; /* as in the store, a little behind it */
    enum td_job_stage stage;
    char phase[16];
    double progress, loss;
    int epoch;
    char *metrics;
    uint64_t event; /* number of the last change */
};

struct td_jobs {
    struct td_daemon *d;
    char *dir;                 /* of the kept jobs' folders; NULL none */
    pthread_mutex_t submit_mu; /* one submission at a time, so that equal ones meet; taken before mu */
    pthread_mutex_t mu;        /* guards what follows and the jobs' live part; nothing is waited for under it */
    pthread_cond_t work;       /* something to run, or stop */
    pthread_cond_t tick;       /* something to tell followers, or stop */
    struct td_job *first;      /* queued and running jobs in order of submission */
    int queued, running;
    bool stop;
    struct td_follow *follows;
    /* The store could not take down that the jobs of the last run are over; asked again before the next job. Until then
     * what it calls queued or running, and is not in memory, is interrupted. */
    _Atomic bool stale;
    pthread_t *threads;
    int n_threads;
    pthread_t ticker;
    bool has_ticker;
};

static inline bool td_stage_finished(enum td_job_stage s)
{
    return s != TD_JOB_queued && s != TD_JOB_running;
}

int64_t td_mono_ms(void);
/* ---- jobs_kept.c ---- */
/* Ids of jobs that run according to the store and have a folder to go on from; folders of others are removed. *id is
 * malloc'ed. */
int td_kept_find(struct td_jobs *js, struct st_reader *r, int64_t **id, size_t *n, struct tp_err *e);
void td_kept_remove(struct td_jobs *js, int64_t id);
void td_kept_give_up(struct td_jobs *js, int64_t id); /* from now on it does not survive */
struct td_job *td_jobs_find_locked(struct td_jobs *js, int64_t id);
void td_job_unref_locked(struct td_job *j);
void td_job_json_locked(const struct td_job *j, struct tp_buf *out);
void *td_ticker_main(void *jobs); /* wakes followers */

#endif
