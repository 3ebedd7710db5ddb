/* The job runner: queue, threads at low priority (nice +10, SCHED_BATCH), progress, cancellation, events. At most one
 * training job per family runs; a second one waits; the same job asked again while queued is the first. All functions
 * are thread-safe. */
#ifndef TD_JOBS_H
#define TD_JOBS_H

#include "daemon/daemon.h"
#include "proto/buf.h"

#include <jansson.h>

enum td_job_stage {
#define X(name) TD_JOB_##name,
#include "daemon/jobstates.def"
#undef X
    TD_JOB_STAGES
};
/* A row's error, "code: text" (NULL: none), is of that code. */
bool td_job_error_is(const char *error, enum tp_code code);
const char *td_job_stage_name(enum td_job_stage s);

enum {
    TD_JOBS_QUEUED_MAX = 256, /* jobs that may wait; above it OVERLOADED */
    TD_JOB_EVENT_MS = 250,    /* a follower gets at most one event in this time */
    TD_JOB_PING_MS = 15000    /* ... and a comment when there was nothing else for so long */
};

int64_t td_wall_ms(void); /* unix milliseconds */

struct td_jobs;
struct td_job; /* the running side of a job */

/* What a job kind does: runs on a job thread; reports through td_job_progress; returns 0 with *result (JSON object
 * text, malloc'ed) or -TP_E_x with *e. -TP_E_CANCELLED when it stopped because td_job_cancelled() said so. */
typedef int (*td_job_run)(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e);

/* Marks the jobs of the last run failed: interrupted, but for those that kept a state in a folder below `dir`, which
 * are queued again, to be run by resume(). dir NULL: no job keeps a state. A disk that is full puts the marking off,
 * but does not hinder the start. */
int td_jobs_new(struct td_daemon *d, const char *dir, td_job_run resume, struct td_jobs **out, struct tp_err *e);
/* Starts the threads: from now on jobs run, and may use every part of d. */
int td_jobs_start(struct td_jobs *js, struct tp_err *e);
/* Ends what runs and what waits as failed: interrupted; what kept a state goes on at the next start. Joins. The server
 * must be gone: nobody follows a job any more. */
void td_jobs_free(struct td_jobs *js);

/* kind "retrain", "evaluate" or "selection"; lane = what must not run twice at once (the family); params = JSON object
 * text. *existing is set when an equal queued job was found, whose id it then is. The job is on disk when this returns.
 * OVERLOADED, DRAINING, IO, DISK_FULL. */
int td_jobs_submit(struct td_jobs *js, const char *kind, const char *hardware, const char *lane, const char *params,
                   td_job_run run, int64_t *id, bool *existing, struct tp_err *e);
/* A queued one ends at once (*running false), a running one within one batch (*running true). UNKNOWN_JOB, CONFLICT
 * when finished. */
int td_jobs_cancel(struct td_jobs *js, struct st_reader *r, int64_t id, bool *running, struct tp_err *e);
/* Hardware was deleted: what waits or runs for it is cancelled. */
void td_jobs_cancel_hardware(struct td_jobs *js, const char *hardware);

/* From the job's own thread. metrics: JSON object text or NULL (keeps the last). */
struct td_job_state {
    const char *phase; /* "load", "train", "validate", "publish"; "load", "probe", "learn", "judge", "teach", "settle",
                          "publish"; "load", "predict", "measure"; "load", "cells", "greedy", "store" */
    double progress;   /* 0..1 */
    int epoch;         /* 0 none */
    double loss;       /* NaN none */
    const char *metrics;
};
void td_job_progress(struct td_job *j, const struct td_job_state *s);
/* The same with another phase and progress. */
static inline void td_job_phase(struct td_job *j, struct td_job_state *s, const char *phase, double progress)
{
    s->phase = phase;
    s->progress = progress;
    td_job_progress(j, s);
}
bool td_job_cancelled(const struct td_job *j);
/* What a job works on: a reader of its own and its hardware, which may have been deleted meanwhile. *hw must be zeroed;
 * both are to be given to td_job_close(), also after an error. */
int td_job_open(const struct td_job *j, struct st_store *store, struct st_reader **r, struct st_hardware *hw,
                struct tp_err *e);
/* Last of all: data sets were most of the heap, and what comes next needs little, so it goes back to the system. */
void td_job_close(struct st_reader *r, struct st_hardware *hw);
int64_t td_job_id(const struct td_job *j);

/* ---- a job's state across restarts ---- */
enum { TD_JOB_PATH = 4096 };
/* Makes the job one that survives: a folder of its own, which goes when the job ends. From the job's own thread. "" in
 * folder when no job can keep a state here. IO, DISK_FULL. */
int td_job_keep(struct td_job *j, char folder[TD_JOB_PATH], struct tp_err *e);
/* A JSON object in that folder, replaced as a whole. Errors as above. */
int td_job_note(const char *folder, const json_t *note, struct tp_err *e);
/* New reference, or NULL: there is none that reads. */
json_t *td_job_noted(const char *folder);
const char *td_job_hardware(const struct td_job *j);

/* The job as JSON (store row merged with live progress). Of a finished one epoch, loss and metrics are the members of
 * that name in its result (metrics: else "challenger", "held_out" or "all"). UNKNOWN_JOB. */
int td_jobs_json(struct td_jobs *js, struct st_reader *r, int64_t id, struct tp_buf *out, struct tp_err *e);
/* brief, for lists: without "per_task", "points" and "selected" in the result, which may be long. */
void td_job_row_json(struct td_jobs *js, const struct st_job *row, bool brief, struct tp_buf *out);
int td_jobs_active(const struct td_jobs *js);
bool td_jobs_lane_busy(struct td_jobs *js, const char *lane); /* a job of it waits or runs */

/* ---- following a job: the text of a stream of Server-Sent Events ---- */
struct td_follow;
/* last_id: Last-Event-ID, -1 none: what the follower has seen already is not sent again. UNKNOWN_JOB when the job is
 * neither queued nor running: then its row tells all. */
int td_follow_new(struct td_jobs *js, int64_t id, int64_t last_id, struct td_follow **out, struct tp_err *e);
/* The next event, when one is due: 1 something was appended, 2 nothing now, 0 the last event was appended before. */
int td_follow_next(void *follow, struct tp_buf *out);
/* From now on wake(stream) is called when td_follow_next has something. The caller's share of the follow ends here. */
void td_follow_start(struct td_follow *f, void (*wake)(void *stream), void *stream);
void td_follow_close(void *follow); /* the stream is gone: wake is not called again */
/* `event: end` with the row, for a job that is finished. */
void td_follow_row(struct td_jobs *js, const struct st_job *row, struct tp_buf *out);

#endif
