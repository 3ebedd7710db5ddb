/* What the files jobs*.c share. */
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
/* What becomes of the jobs of the last run: those that can go on are queued again and run `resume`, the rest is
 * interrupted. Nobody else knows js yet. A store that cannot be written makes js stale and is no error. */
int td_kept_take_over(struct td_jobs *js, td_job_run resume, struct tp_err *e);
/* The store takes down that the jobs of the last run are over, but for those that are in memory. Needs submit_mu. */
int td_jobs_interrupt_again(struct td_jobs *js, struct tp_err *e);
void td_kept_remove(struct td_jobs *js, int64_t id);
void td_kept_give_up(struct td_jobs *js, int64_t id); /* from now on it does not survive */
/* ---- jobs.c ---- */
/* A queued job of no list and no row yet, with one reference; NULL when out of memory. */
struct td_job *td_job_new(struct td_jobs *js, const char *kind, const char *hardware, const char *lane,
                          const char *params, td_job_run run);
/* j, which is queued, goes to the end of the list with the caller's reference. */
void td_job_append_locked(struct td_jobs *js, struct td_job *j);
struct td_job *td_jobs_find_locked(struct td_jobs *js, int64_t id);
void td_job_unref_locked(struct td_job *j);
void td_job_json_locked(const struct td_job *j, struct tp_buf *out);
void *td_ticker_main(void *jobs); /* wakes followers */

#endif
