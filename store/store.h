/* The store: hardware, tasks, programs, measurements, models and jobs, on disk.
 *
 * No SQLite type shows here, so another engine can stand behind it. Two kinds of handle:
 *   struct st_store   the whole store, with its one writer thread; shared by all threads
 *   struct st_reader  a read-only connection; one thread at a time (st_reader_new per thread, or lock)
 * Writes queue for the writer thread, which commits <= 512 rows or 5 ms of them per transaction with fsync (WAL,
 * synchronous=FULL), and only then acknowledges. A write call blocks until its commit unless it takes a callback.
 * A failed transaction fails only the writes in it (DISK_FULL, IO, NO_MEMORY) and leaves nothing of them. Any write may
 * also return DRAINING (st_close() has begun) or OVERLOADED (another process holds the database locked for too long).
 *
 * Callbacks: a positive return stops the walk, which then returns 0; a negative one (-TP_E_x) is what it returns. A
 * callback must not use the reader that calls it, nor start a blocking write from st_ingest_submit()'s done(). `limit`
 * < 0 = no limit. Texts handed to a callback live until it returns. */
#ifndef ST_STORE_H
#define ST_STORE_H

#include "proto/record.h"
#include "proto/tclfeat.h"

#include <stdbool.h>
#include <stdint.h>

enum { ST_SCHEMA_VERSION = 5, ST_ID_MAX = 63 /* identifiers [a-z0-9][a-z0-9._-]{0,62} */ };

struct st_store;
/* Open or create DIR/tcld.db (directory made with mode 0700, those above it as mkdir -p does), migrate forward.
 * NEWER_SCHEMA: refused, CONFIG: not a tcld database; both leave the file as it is. Also locks the directory against a
 * second daemon (CONFLICT). */
int st_open(const char *dir, struct st_store **out, struct tp_err *e);
void st_close(struct st_store *s); /* commits what is queued, checkpoints, stops the writer; readers are freed before */
bool st_healthy(const struct st_store *s); /* false after a write failed with DISK_FULL or IO, until one succeeds */
/* Tries a small write when nobody else does, so that st_healthy() tells of a disk that has room again. Does not wait.
 */
int st_probe(struct st_store *s, struct tp_err *e);
int64_t st_database_bytes(const struct st_store *s);
int64_t st_log_bytes(const struct st_store *s); /* of the write-ahead log, as of the last commit */
uint64_t st_commits(const struct st_store *s);  /* since st_open() */

struct st_reader;
int st_reader_new(struct st_store *s, struct st_reader **out, struct tp_err *e);
void st_reader_free(struct st_reader *r);

/* A consistent copy of the whole database, as of the call, into a new file made with mode 0600. Writes go on meanwhile.
 * go_on (may be NULL) is asked every few megabytes; false: CANCELLED. CONFLICT when the file exists. */
int st_backup(struct st_reader *r, const char *path, bool (*go_on)(void *arg), void *arg, struct tp_err *e);

bool st_id_valid(const char *s); /* [a-z0-9][a-z0-9._-]{0,62}: names of hardware, families, agents */

/* ---- hardware ---- */
struct st_hardware {
    char name[ST_ID_MAX + 1], family[ST_ID_MAX + 1];
    char kind[16];    /* "cpu" | "gpu" | "accelerator" */
    char *target;     /* owned */
    char *descriptor; /* owned: JSON object text as given (unknown keys kept) */
    int64_t id;
    int64_t active_model; /* 0 none */
    int64_t created;      /* unix seconds */
    char *policy;         /* owned: JSON object text, NULL none; st_hardware_put() leaves it as it is */
};
void st_hardware_clear(struct st_hardware *h);
/* created: true when new. CONFLICT when family or kind changes while models exist, and when the family has hardware or
 * a knowledge base of another kind. */
int st_hardware_put(struct st_store *s, const struct st_hardware *h, bool *created, struct tp_err *e);
/* UNKNOWN_HARDWARE. The caller clears *out. */
int st_hardware_get(struct st_reader *r, const char *name, struct st_hardware *out, struct tp_err *e);
/* CONFLICT while it has measurements and !purge. Removes measurements, candidates, models (not the family's KBs, not
 * the weights files) and jobs of it. A purge works task by task: one that fails half-way is finished by asking again.
 */
int st_hardware_delete(struct st_store *s, const char *name, bool purge, struct tp_err *e);
/* Pages by name: those after `after` ("" = from the start). Calls fn for up to `limit`; a non-zero return stops. */
typedef int (*st_hardware_fn)(void *arg, const struct st_hardware *h);
int st_hardware_list(struct st_reader *r, const char *after, int limit, st_hardware_fn fn, void *arg, struct tp_err *e);
/* JSON object text, or NULL: none. UNKNOWN_HARDWARE. */
int st_policy_set(struct st_store *s, const char *hardware, const char *policy, struct tp_err *e);
struct st_counts {
    int64_t measurements, valid, failures, tasks, programs;
    int64_t newest_measurement_id;
};
int st_hardware_counts(struct st_reader *r, int64_t hw, struct st_counts *out, struct tp_err *e);
/* How many measurements have a higher id than `after`, failures too. */
int st_hardware_newer(struct st_reader *r, int64_t hw, int64_t after, int64_t *n, struct tp_err *e);
/* Families come with their first hardware and stay. Pages by name. */
struct st_family {
    char name[ST_ID_MAX + 1];
    int64_t kb_model; /* 0 none */
    int64_t hardware; /* how many belong to it */
    int64_t created;
    char kind[16]; /* of its hardware; "": hardware of several kinds, from before that was refused */
};
typedef int (*st_family_fn)(void *arg, const struct st_family *f);
int st_family_list(struct st_reader *r, const char *after, int limit, st_family_fn fn, void *arg, struct tp_err *e);

/* ---- measurements ---- */
/* A batch is built by one thread from parsed records and then handed over. */
struct st_ingest;
struct st_ingest *st_ingest_new(const char *agent /* may be NULL */);
void st_ingest_free(struct st_ingest *b);
/* Adds a record with a result (label VALID or FAILURE; else NOT_MEASURED). Copies what it needs. After an error the
 * batch is as it was. */
int st_ingest_add(struct st_ingest *b, const struct tp_record *r, struct tp_err *e);
size_t st_ingest_size(const struct st_ingest *b);

/* A batch of candidates: programs to be measured until each has `repeat` measurements (1 ...) on the hardware. Takes
 * records with or without a result, which is ignored. Duplicates are programs that wait already or have as many; one
 * that waits takes the higher `repeat`. TOO_MANY (as the code of the result) when more than `limit` would wait. */
struct st_ingest *st_ingest_new_candidates(int repeat, int64_t limit);

struct st_ingest_result {
    int code; /* 0, or -TP_E_x: nothing of the batch is stored */
    size_t accepted, duplicates;
};
/* Takes ownership of b. done(arg, result) is called on the writer thread after the commit (or failure);
 * UNKNOWN_HARDWARE is reported through it. When this itself returns an error, b stays the caller's: OVERLOADED (the
 * queue is full), DRAINING, BAD_IDENTIFIER. */
int st_ingest_submit(struct st_store *s, const char *hardware, struct st_ingest *b,
                     void (*done)(void *arg, const struct st_ingest_result *), void *arg, struct tp_err *e);
size_t st_ingest_queued(const struct st_store *s); /* rows waiting */
/* How long what waits now will take, by the pace of the last commits. */
int64_t st_ingest_wait_ms(const struct st_store *s);
/* What may wait before st_ingest_submit() is OVERLOADED; a batch that comes to an empty queue is always let in. */
void st_queue_limit(struct st_store *s, size_t rows, size_t bytes);

/* Stream measurements in order of acceptance as records ready for tp_record_emit (task variant, steps, result, v as
 * they came). task_id NULL = all; UNKNOWN_TASK when the hardware has none of it. after = measurement id to start behind
 * (0 = start). fn returns non-zero to stop (e.g. a chunk is full); *last = last id handed out, untouched when there was
 * none. */
typedef int (*st_record_fn)(void *arg, int64_t id, const char *task_id, const struct tp_record *rec);
int st_export(struct st_reader *r, int64_t hw, const char *task_id, int64_t after, int limit, st_record_fn fn,
              void *arg, int64_t *last, struct tp_err *e);
/* The best valid record per task (lowest minimum of its repeats, the earliest of equals), by task id. after_task "" =
 * start. */
int st_best(struct st_reader *r, int64_t hw, const char *after_task, int limit, st_record_fn fn, void *arg,
            struct tp_err *e);
/* The measurements of a task, in order of acceptance, that were faster than all before: the nth (from 1) took
 * `seconds`. *n = all of them, failures counted. UNKNOWN_TASK when the hardware has none of it. */
typedef int (*st_step_fn)(void *arg, int64_t nth, double seconds);
int st_best_so_far(struct st_reader *r, int64_t hw, const char *task_id, st_step_fn fn, void *arg, int64_t *n,
                   struct tp_err *e);

struct st_task {
    char id[TP_TASK_ID_LEN + 1];
    const char *workload_key; /* valid during the callback */
    const char *target_kind;
    int64_t programs, measurements, failures;
    double best_seconds; /* NaN none */
};
typedef int (*st_task_fn)(void *arg, const struct st_task *t);
int st_tasks(struct st_reader *r, int64_t hw, const char *after, int limit, st_task_fn fn, void *arg, struct tp_err *e);

/* For training: one call per (program, hardware): its record, whose result holds the costs of the fastest measurement
 * and no more (none: only failures), minimum cost over all measurements (INFINITY: only failures), hash. Ordered by
 * task then program, so that a seeded sample is repeatable. Measurements with a higher id than `upto` (INT64_MAX: none)
 * are as if they were not there. Each task is read as it stands when its turn comes. */
typedef int (*st_program_fn)(void *arg, const char *task_id, const uint8_t hash[16], const struct tp_record *rec,
                             double min_cost, int64_t n_measurements);
int st_training_set(struct st_reader *r, int64_t hw, int64_t upto, st_program_fn fn, void *arg, struct tp_err *e);

/* The same for one task. UNKNOWN_TASK when the hardware has none of it. */
int st_training_task(struct st_reader *r, int64_t hw, const char *task_id, st_program_fn fn, void *arg,
                     struct tp_err *e);

/* ---- candidates: programs that wait to be measured ---- */
/* pooled -> selected (st_candidates_select) -> leased (st_lease_take) -> measured, or failed: its measurement was an
 * error. A lease that ends without one gives back `selected`. A measurement counts whoever made it, whatever the state;
 * while the program has fewer than `repeat` of them it goes back to `selected`, or stays where it was. */
enum st_candidate_state { ST_POOLED, ST_SELECTED, ST_LEASED, ST_MEASURED, ST_FAILED, ST_CANDIDATE_STATES };
const char *st_candidate_state_name(enum st_candidate_state s); /* "pooled" ... */

struct st_candidate {
    int64_t id;
    enum st_candidate_state state;
    char task_id[TP_TASK_ID_LEN + 1];
    int64_t repeat, measurements; /* wanted; there are, on this hardware */
    double score, r, d, u;        /* NaN: never selected */
    int64_t turn;                 /* place among the waiting ones of its task when it was selected */
    int64_t selection;            /* the job that chose it, 0 none */
    char agent[ST_ID_MAX + 1];    /* who has it on lease, "" nobody */
    int64_t expires, created;     /* unix milliseconds; expires 0: no lease */
    uint8_t hash[16];             /* of the program */
};
int st_candidate_counts(struct st_reader *r, int64_t hw, int64_t n[ST_CANDIDATE_STATES], struct tp_err *e);
typedef int (*st_candidate_fn)(void *arg, const struct st_candidate *c);
/* By id, those above `after` (0 = start). state -1 = any. */
int st_candidate_list(struct st_reader *r, int64_t hw, int state, int64_t after, int limit, st_candidate_fn fn,
                      void *arg, struct tp_err *e);
/* The same with the program as a record without a result. */
typedef int (*st_candidate_record_fn)(void *arg, const struct st_candidate *c, const struct tp_record *rec);
int st_candidate_records(struct st_reader *r, int64_t hw, int state, int64_t after, int limit,
                         st_candidate_record_fn fn, void *arg, struct tp_err *e);

struct st_pick {
    int64_t candidate;
    double score, r, d, u;
    int64_t turn; /* leases take turn 0 of every task first, then turn 1, ...; within a turn the highest score */
    bool waiting; /* it is selected already: only its turn changes */
    bool taken;   /* set by the call: it was pooled and is selected now */
};
/* Those of p[0..n) (of one hardware) that are still pooled become selected by the job `selection`; `taken` tells which.
 * In steps of a few hundred rows, so that others are not kept waiting; an error leaves those of the steps before it
 * selected. */
int st_candidates_select(struct st_store *s, int64_t hw, int64_t selection, struct st_pick *p, size_t n,
                         struct tp_err *e);

enum { ST_TOKEN_LEN = 32, ST_LEASE_LONGEST = 604800000 /* milliseconds, when st_lease_limit() says nothing */ };
struct st_lease {
    int64_t id;
    char token[ST_TOKEN_LEN + 1]; /* "" none was given */
    int64_t open;                 /* candidates that it holds */
    int64_t expires;              /* unix milliseconds */
    int64_t expired;              /* st_lease_take: candidates of other leases that were over, given back first */
};
struct st_lease_ask {
    const char *hardware, *agent;
    int64_t max;      /* candidates, >= 1 */
    int64_t ttl, now; /* milliseconds; unix milliseconds */
};
/* Up to `max` selected candidates. While several agents hold leases of the hardware, nobody gets more than their equal
 * share of what is selected and leased, nor less than one. UNKNOWN_HARDWARE, BAD_IDENTIFIER. */
int st_lease_take(struct st_store *s, const struct st_lease_ask *ask, struct st_lease *out, struct tp_err *e);
/* ttl 0: the one it has. UNKNOWN_LEASE when it expired, was returned, or its last candidate was measured. */
int st_lease_renew(struct st_store *s, const char *token, int64_t ttl, int64_t now, struct st_lease *out,
                   struct tp_err *e);
/* *returned = candidates that wait again. UNKNOWN_LEASE. */
int st_lease_return(struct st_store *s, const char *token, int64_t now, int64_t *returned, struct tp_err *e);
/* At start: no agent could renew or post while the store was closed, so each lease lasts until now + grace milliseconds
 * (or its own time to live, when that is shorter) at least. */
int st_lease_grace(struct st_store *s, int64_t now, int64_t grace, struct tp_err *e);
/* The longest time to live that is given out, in milliseconds. A lease that is found to last longer was given out while
 * the clock was ahead (or the limit higher): it ends in its own time from then on, in `longest` at most. */
void st_lease_limit(struct st_store *s, int64_t longest);
/* What a lease holds, highest score first. Those measured since it was taken are left out. */
int st_lease_records(struct st_reader *r, int64_t lease, st_candidate_record_fn fn, void *arg, struct tp_err *e);
/* Leases that are over at `now` give back their candidates; st_lease_take() does so by itself. Does not wait: done(arg,
 * how many candidates) is called on the writer thread, also after a failure (0). DRAINING: it is not called. */
int st_lease_sweep(struct st_store *s, int64_t now, void (*done)(void *arg, int64_t returned), void *arg,
                   struct tp_err *e);

/* ---- taking back what agents, selections and posts did to the pool ---- */
struct st_taken_back {
    int code; /* 0, or -TP_E_x: what was done before it stays, and asking again goes on */
    struct tp_err err;
    int64_t leases, candidates;
};
/* These go in steps, each of them on disk before the next and with the writes of others in between. They do not wait:
 * done() is called on the writer thread, after the last step. When they return an error (DRAINING, NO_MEMORY), it is
 * not. */
typedef void (*st_taken_back_fn)(void *arg, const struct st_taken_back *r);
/* Ends the leases of a hardware, or of one agent there (NULL: of all), whoever holds their tokens; their candidates are
 * selected again. Leases that are taken meanwhile stay. */
int st_leases_end(struct st_store *s, int64_t hw, const char *agent, st_taken_back_fn done, void *arg,
                  struct tp_err *e);
/* Every selected candidate is pooled again, without score, as if no selection had chosen it. */
int st_candidates_unselect(struct st_store *s, int64_t hw, st_taken_back_fn done, void *arg, struct tp_err *e);
/* Every pooled candidate leaves the pool, but for those that come in meanwhile. It can be posted again. */
int st_candidates_remove(struct st_store *s, int64_t hw, st_taken_back_fn done, void *arg, struct tp_err *e);

/* ---- models ---- */
struct st_model {
    int64_t id;
    char role[8];              /* "ac" | "kb" */
    char owner[ST_ID_MAX + 1]; /* hardware (ac) or family (kb) */
    char features_version[16];
    char state[16]; /* "candidate" | "published" | "rejected" | "imported" */
    int64_t job;    /* 0 none */
    int64_t records, tasks;
    int64_t created;
    char sha256[65]; /* of the weights file */
    char *parents;   /* owned JSON array text */
    char *metrics;   /* owned JSON object text: figures of challenger and champion, decision */
    int calibration;
    int64_t activated; /* unix ms of the last time that it became active, later than any other of its owner; 0 never */
    char *evaluation;  /* owned: result of its newest evaluation, NULL none; only read */
};
void st_model_clear(struct st_model *m);
/* A fresh id, never given again even if no row follows: the weights file is written before the row. */
int st_model_reserve(struct st_store *s, int64_t *id, struct tp_err *e);
/* Row (and activation) in one transaction. UNKNOWN_HARDWARE, UNKNOWN_FAMILY: no such owner. An id that exists:
 * CONFLICT, unless m is the same model with a higher `calibration`, which then takes the row's place (`created` and
 * features_version stay). */
int st_model_insert(struct st_store *s, const struct st_model *m, bool activate, struct tp_err *e);
/* A task's own move of ln latency under one model on one hardware (model/latency.h). */
struct st_offset {
    char task_id[TP_TASK_ID_LEN + 1];
    double offset;
    int64_t programs;     /* behind it; too few: the row only says that somebody looked */
    int64_t measurements; /* valid ones of the task when it was taken */
};
/* st_model_insert with the offsets of an AC for its hardware, in the same transaction. hw: id of the hardware that it
 * was made for, 0 whichever has the name; UNKNOWN_HARDWARE: another has the name now. */
int st_model_insert_with(struct st_store *s, const struct st_model *m, int64_t hw, bool activate,
                         const struct st_offset *o, size_t n, struct tp_err *e);
/* Set offsets (those of other tasks stay) and count the calibration of the model up by one, in one transaction.
 * *calibration = the new count. UNKNOWN_MODEL, UNKNOWN_HARDWARE. */
int st_offset_put(struct st_store *s, int64_t model, int64_t hw, const struct st_offset *o, size_t n, int *calibration,
                  struct tp_err *e);
/* All offsets of a model and the calibration that they belong to, as one consistent state. By hardware, then task.
 * UNKNOWN_MODEL. */
typedef int (*st_offset_fn)(void *arg, int64_t hw, const struct st_offset *o);
int st_offset_list(struct st_reader *r, int64_t model, st_offset_fn fn, void *arg, int *calibration, struct tp_err *e);
int st_model_get(struct st_reader *r, int64_t id, struct st_model *out, struct tp_err *e);
typedef int (*st_model_fn)(void *arg, const struct st_model *m);
/* Newest first, ids below `before` (0 = start). role/owner NULL = any. */
int st_model_list(struct st_reader *r, const char *role, const char *owner, int64_t before, int limit, st_model_fn fn,
                  void *arg, struct tp_err *e);
/* An AC becomes the hardware's active model, a KB of its family the family's. CONFLICT: another hardware's model.
 * `state` stays. */
int st_model_activate(struct st_store *s, const char *hardware, int64_t id, struct tp_err *e);
/* The hardware has no active model from now on. UNKNOWN_HARDWARE. */
int st_model_deactivate(struct st_store *s, const char *hardware, struct tp_err *e);
int st_family_kb(struct st_reader *r, const char *family, int64_t *id, struct tp_err *e); /* 0 none; UNKNOWN_FAMILY */
/* CONFLICT: not a knowledge base of this family. UNKNOWN_FAMILY, UNKNOWN_MODEL. */
int st_family_activate(struct st_store *s, const char *family, int64_t id, struct tp_err *e);

/* ---- what kinds of hardware know of each other ---- */
struct st_probe {
    char task_id[TP_TASK_ID_LEN + 1];
    uint8_t hash[16];
};
/* Programs that are kept to ask a knowledge base whether it still knows this hardware. */
struct st_probe_set {
    int64_t hw;
    struct st_probe *p; /* [n] */
    size_t n;
};
/* st_model_insert of a knowledge base with the probe sets of what it has learned, in the same transaction: each takes
 * the place of an earlier one of its hardware. Hardware that is gone is left out. */
int st_kb_insert(struct st_store *s, const struct st_model *m, bool activate, const struct st_probe_set *set, size_t n,
                 struct tp_err *e);
/* As st_training_set() hands out programs, but in no order of tasks. */
int st_probe_set(struct st_reader *r, int64_t hw, st_program_fn fn, void *arg, struct tp_err *e);

/* What the source gate (ckd/gate.h) found about the model of `source` on measurements of another hardware. */
struct st_transfer {
    int64_t source; /* hardware id */
    char gate[16];
    double mean, lower; /* NaN: too few programs to tell */
    int64_t tasks, programs;
    char reason[160];
    int64_t created; /* unix seconds */
};
/* A row per source; an earlier one of the same is replaced. A source that is gone is left out. UNKNOWN_HARDWARE. */
int st_transfer_put(struct st_store *s, int64_t hw, const struct st_transfer *t, size_t n, struct tp_err *e);
typedef int (*st_transfer_fn)(void *arg, const struct st_transfer *t);
int st_transfer_list(struct st_reader *r, int64_t hw, st_transfer_fn fn, void *arg, struct tp_err *e);

/* ---- evaluations: how good a model was on a hardware's measurements ---- */
struct st_evaluation {
    int64_t id, hardware, model, job; /* job 0: none */
    int64_t created;                  /* unix milliseconds */
    char *result;                     /* owned JSON object text */
};
void st_evaluation_clear(struct st_evaluation *v);
/* Sets v->id. UNKNOWN_HARDWARE, UNKNOWN_MODEL when it is gone. */
int st_evaluation_insert(struct st_store *s, struct st_evaluation *v, struct tp_err *e);
typedef int (*st_evaluation_fn)(void *arg, const struct st_evaluation *v);
/* Newest first, ids below `before` (0 = start). hw, model 0 = any. */
int st_evaluation_list(struct st_reader *r, int64_t hw, int64_t model, int64_t before, int limit, st_evaluation_fn fn,
                       void *arg, struct tp_err *e);

/* ---- jobs ---- */
struct st_job {
    int64_t id;
    char kind[16]; /* "retrain", "evaluate", "selection" */
    char hardware[ST_ID_MAX + 1];
    char state[16];                     /* job states: daemon/jobstates.def */
    char *params, *result;              /* owned JSON texts */
    char *error;                        /* owned: code slug + ": " + text, or NULL */
    int64_t created, started, finished; /* unix milliseconds, 0 not yet */
};
void st_job_clear(struct st_job *j);
int st_job_insert(struct st_store *s, struct st_job *j, struct tp_err *e);       /* sets j->id */
int st_job_update(struct st_store *s, const struct st_job *j, struct tp_err *e); /* UNKNOWN_JOB */
int st_job_get(struct st_reader *r, int64_t id, struct st_job *out, struct tp_err *e);
typedef int (*st_job_fn)(void *arg, const struct st_job *j);
/* Newest first, ids below `before` (0 = start). state/hardware NULL = any. */
int st_job_list(struct st_reader *r, const char *state, const char *hardware, int64_t before, int limit, st_job_fn fn,
                void *arg, struct tp_err *e);
/* At start: running and queued jobs but keep[0..n_keep) become failed, error "interrupted: ...". *n (may be NULL) = how
 * many. */
int st_jobs_interrupt(struct st_store *s, const int64_t *keep, size_t n_keep, int *n, struct tp_err *e);

#endif
