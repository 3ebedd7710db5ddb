/* The job runner: queue, threads at low priority (nice +10, SCHED_BATCH), progress, cancellation, events. At most one training job per family runs; a second
 * one waits; the same job asked again while queued is the first. All functions are thread-safe. */
#ifndef TD_JOBS_H
#define TD_JOBS_H

#include "daemon/daemon.h"

struct td_jobs;
struct td_job;  /* the running side of a job */

/* What a job kind does: runs on a job thread; reports through td_job_progress; returns 0 with *result (JSON object text, malloc'ed) or -TP_E_x with *e. */
typedef int (*td_job_run)(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e);

int td_jobs_new(struct td_daemon *d, struct td_jobs **out, struct tp_err *e);   /* marks stale jobs failed: interrupted */
void td_jobs_free(struct td_jobs *js);      /* cancels what runs, joins */

/* kind "retrain"; lane = what must not run twice at once (the family). *existing is set when an equal queued job was found. */
int td_jobs_submit(struct td_jobs *js, const char *kind, const char *hardware, const char *lane, const char *params, td_job_run run, int64_t *id,
                   bool *existing, struct tp_err *e);
/* A queued one ends at once, a running one within one batch. UNKNOWN_JOB, CONFLICT when finished. */
int td_jobs_cancel(struct td_jobs *js, int64_t id, struct tp_err *e);

/* From the job's own thread. metrics: JSON object text or NULL. */
struct td_job_state {
    const char *phase;      /* "load", "train", "validate", "publish" */
    double progress;        /* 0..1 */
    int epoch;              /* 0 none */
    double loss;            /* NaN none */
    const char *metrics;
};
void td_job_progress(struct td_job *j, const struct td_job_state *s);
bool td_job_cancelled(const struct td_job *j);
int64_t td_job_id(const struct td_job *j);
const char *td_job_hardware(const struct td_job *j);

/* The job as JSON (store row merged with live progress). */
int td_jobs_json(struct td_jobs *js, struct st_reader *r, int64_t id, struct tp_buf *out, struct tp_err *e);
void td_job_row_json(struct td_jobs *js, const struct st_job *row, struct tp_buf *out);
int td_jobs_active(const struct td_jobs *js);

#endif
