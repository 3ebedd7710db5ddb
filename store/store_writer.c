/* The writer thread: takes units of work from the queue, commits several in one transaction, then acknowledges.
 *
 * Group commit without waiting: a transaction takes in what is queued until it holds ST_GROUP_ROWS rows or is
 * ST_GROUP_MS old; while it syncs, the next group gathers. Each op runs in a savepoint, so one that is refused leaves
 * its neighbours alone. When the transaction as a whole is lost (disk full, I/O error, no memory), each of its ops is
 * tried again in a transaction of its own, so that only those fail that cannot be stored.
 *
 * Invariant: an op is acknowledged (finish) exactly once, and with code 0 only after the COMMIT that holds it returned.
 * Threads: st_writer_push() and st_write() from any but the writer; the rest on the writer. */
#include "store/db.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CHECKPOINT_FRAMES = 4000,        /* pages of log between two checkpoints (16 MB) */
    CHECKPOINT_FORCE_FRAMES = 32000, /* a log this long (128 MB) means readers never let go of it: wait for them */
    CHECKPOINT_FORCE_MS = 50,
    PACE_ROWS = 16 /* least rows of a group that tells the pace */
};

/* ---- queue ---- */

int st_writer_push(struct st_store *s, struct st_op *op, bool force, struct tp_err *e)
{
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    size_t rows = s->queued_rows, bytes = s->queued_bytes;
    if (s->stop)
        rc = tp_fail(e, TP_E_DRAINING, "the store is closing");
    else if (!force && rows && (rows + op->rows > s->max_rows || bytes + op->bytes > s->max_bytes))
        rc = tp_fail(e, TP_E_OVERLOADED, "%zu records wait for the disk already", rows);
    else {
        op->next = NULL;
        *s->tail = op;
        s->tail = &op->next;
        s->queued_rows = rows + op->rows;
        s->queued_bytes = bytes + op->bytes;
        pthread_cond_signal(&s->wake);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* The next op if it may join a transaction that holds `rows` already. Waits for one when rows is 0; NULL then: stop. */
static struct st_op *take(struct st_store *s, size_t rows)
{
    pthread_mutex_lock(&s->lock);
    while (!s->head && !s->stop && !rows)
        pthread_cond_wait(&s->wake, &s->lock);
    struct st_op *op = s->head;
    if (op && rows && rows + op->rows > ST_GROUP_ROWS)
        op = NULL;
    if (op) {
        s->head = op->next;
        if (!s->head)
            s->tail = &s->head;
        op->next = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    return op;
}

/* ---- transactions ---- */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t now_ms(void)
{
    return now_ns() / 1000000;
}

/* Groups of one row say little of the pace: their time is the disk's, however many rows had shared it. */
static void note_pace(struct st_store *s, const struct st_op *op, int64_t ns)
{
    size_t rows = 0;
    for (; op; op = op->next)
        rows += op->rows;
    int64_t each = rows ? ns / (int64_t)rows : 0, mean = s->row_ns;
    if (rows >= PACE_ROWS)
        s->row_ns = mean ? mean + (each - mean) / 8 : each;
}

/* What was remembered about rows may have been rolled back with them. */
static void forget(struct st_store *s)
{
    memset(s->variants, 0, ST_VARIANT_SLOTS * sizeof *s->variants);
}

static bool lost(const struct st_store *s)
{
    return sqlite3_get_autocommit(s->db.h) != 0;
}

/* Returns < 0 only when the transaction is gone; the op's own refusal stands in op->code. */
static int run_op(struct st_store *s, struct st_op *op)
{
    op->code = st_db_exec(&s->db, "SAVEPOINT op", &op->err);
    if (op->code < 0)
        return op->code;
    op->code = op->run(s, op, &op->err);
    if (op->code < 0) {
        forget(s);
        if (lost(s) || st_db_exec(&s->db, "ROLLBACK TO op", NULL) < 0)
            return op->code;
    }
    return st_db_exec(&s->db, "RELEASE op", &op->err);
}

/* Commits, or undoes everything: after this no transaction is open. */
static int end(struct st_store *s, int rc, struct tp_err *e)
{
    if (rc == 0)
        rc = st_db_exec(&s->db, "COMMIT", e);
    if (rc < 0) {
        forget(s);
        if (!lost(s))
            st_db_exec(&s->db, "ROLLBACK", NULL);
    }
    return rc;
}

static void run_alone(struct st_store *s, struct st_op *op)
{
    int rc = st_db_exec(&s->db, "BEGIN IMMEDIATE", &op->err);
    if (rc == 0)
        rc = run_op(s, op);
    rc = end(s, rc, &op->err);
    if (rc < 0)
        op->code = rc;
}

/* Runs `first` and what else is waiting in one transaction. Afterwards `first` heads the list of what was run. */
static void run_group(struct st_store *s, struct st_op *first)
{
    struct st_op **tail = &first->next;
    size_t rows = first->rows;
    int64_t until = now_ms() + s->group_ms;

    int rc = st_db_exec(&s->db, "BEGIN IMMEDIATE", NULL);
    if (rc == 0)
        rc = run_op(s, first);
    while (rc == 0 && rows < ST_GROUP_ROWS && now_ms() < until) {
        struct st_op *op = take(s, rows);
        if (!op)
            break;
        *tail = op;
        tail = &op->next;
        rows += op->rows;
        rc = run_op(s, op);
    }
    if (end(s, rc, NULL) < 0)
        for (struct st_op *op = first; op; op = op->next)
            run_alone(s, op);
}

/* ---- the log ---- */

static int on_commit(void *arg, sqlite3 *h, const char *name, int frames)
{
    struct st_store *s = arg;
    (void)h;
    (void)name;
    if (frames < s->wal_frames)
        s->checkpoint_at = CHECKPOINT_FRAMES;
    s->wal_frames = frames;
    s->log_frames = frames;
    s->commits++;
    return SQLITE_OK;
}

/* After the acknowledgement, so that nobody waits for it but who comes next. A checkpoint that cannot finish because of
 * a reader is tried again CHECKPOINT_FRAMES later. Its failure is no write's failure: the log still holds everything.
 */
static void checkpoint(struct st_store *s)
{
    if (s->wal_frames < s->checkpoint_at)
        return;
    int mode = SQLITE_CHECKPOINT_PASSIVE;
    if (s->wal_frames >= CHECKPOINT_FORCE_FRAMES) {
        mode = SQLITE_CHECKPOINT_RESTART;
        sqlite3_busy_timeout(s->db.h, CHECKPOINT_FORCE_MS);
    }
    sqlite3_wal_checkpoint_v2(s->db.h, NULL, mode, NULL, NULL);
    s->checkpoint_at = s->wal_frames + CHECKPOINT_FRAMES;
    if (mode != SQLITE_CHECKPOINT_PASSIVE)
        sqlite3_busy_timeout(s->db.h, ST_BUSY_MS);
}

/* ---- the thread ---- */

static void acknowledge(struct st_store *s, struct st_op *op, uint64_t commits_before)
{
    bool failed = false;
    size_t rows = 0, bytes = 0;
    for (const struct st_op *o = op; o; o = o->next) {
        failed |= o->code == -TP_E_DISK_FULL || o->code == -TP_E_IO;
        rows += o->rows;
        bytes += o->bytes;
    }
    if (failed)
        s->healthy = false;
    else if (s->commits != commits_before)
        s->healthy = true;

    pthread_mutex_lock(&s->lock);
    s->queued_rows -= rows;
    s->queued_bytes -= bytes;
    pthread_mutex_unlock(&s->lock);
    while (op) {
        struct st_op *next = op->next;
        op->finish(op);
        op = next;
    }
}

static void *writer_main(void *arg)
{
    struct st_store *s = arg;
    struct st_op *op;
    while ((op = take(s, 0))) {
        uint64_t commits = s->commits;
        int64_t began = now_ns();
        run_group(s, op);
        note_pace(s, op, now_ns() - began);
        acknowledge(s, op, commits);
        checkpoint(s);
    }
    return NULL;
}

int st_writer_start(struct st_store *s, struct tp_err *e)
{
    sigset_t all, old;
    s->checkpoint_at = CHECKPOINT_FRAMES;
    s->group_ms = ST_GROUP_MS;
    sqlite3_wal_hook(s->db.h, on_commit, s);
    /* signals are for the thread that waits for them */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&s->writer, NULL, writer_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc)
        return tp_fail(e, TP_E_NO_MEMORY, "the store's writer thread cannot be started");
    pthread_setname_np(s->writer, "store-writer");
    s->writer_runs = true;
    return 0;
}

void st_writer_stop(struct st_store *s)
{
    if (!s->writer_runs)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->writer, NULL);
    s->writer_runs = false;
}

/* ---- blocking writes ---- */

struct st_call {
    struct st_op op;
    struct st_store *s;
    st_write_fn fn;
    void *arg;
    bool done; /* under s->lock */
};

static int call_run(struct st_store *s, struct st_op *op, struct tp_err *e)
{
    struct st_call *c = (struct st_call *)op;
    return c->fn(&s->db, c->arg, e);
}

static void call_finish(struct st_op *op)
{
    struct st_call *c = (struct st_call *)op;
    struct st_store *s = c->s;
    pthread_mutex_lock(&s->lock);
    c->done = true; /* the caller's stack may be gone once the lock is */
    pthread_cond_broadcast(&s->done);
    pthread_mutex_unlock(&s->lock);
}

int st_write(struct st_store *s, st_write_fn fn, void *arg, struct tp_err *e)
{
    struct st_call c = {.op = {.rows = 1, .run = call_run, .finish = call_finish}, .s = s, .fn = fn, .arg = arg};
    if (pthread_equal(pthread_self(), s->writer))
        return tp_fail(e, TP_E_INTERNAL, "a blocking write was asked for on the writer thread");
    int rc = st_writer_push(s, &c.op, true, e);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&s->lock);
    while (!c.done)
        pthread_cond_wait(&s->done, &s->lock);
    pthread_mutex_unlock(&s->lock);
    if (c.op.code < 0 && e)
        *e = c.op.err;
    return c.op.code;
}
