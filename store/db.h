/* Inside the store: connections, statements, the writer's queue. Only the files of this folder and their tests include
 * this.
 *
 * A `struct st_db` is one SQLite connection with its prepared statements and belongs to one thread at a time: the
 * writer's to the writer thread (to st_open() before that thread runs, to st_close() after), a reader's to its user.
 * A statement is used through a `struct st_q` on the stack; binding never fails visibly, the step reports it. */
#ifndef ST_DB_H
#define ST_DB_H

#include "store/store.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

enum {
    ST_APPLICATION_ID = 0x74636c64, /* "tcld" */
    ST_GROUP_ROWS = 512,            /* rows that share a transaction; one larger batch is a transaction of its own */
    ST_GROUP_MS = 5,                /* a transaction takes in no more batches after this */
    ST_QUEUE_ROWS = 200000,         /* waiting rows, then OVERLOADED */
    ST_QUEUE_BYTES = 256 << 20,     /* memory of the waiting batches, then OVERLOADED */
    ST_PAGE_BYTES = 4096,           /* of the database and its log */
    ST_BUSY_MS = 5000,              /* wait for a lock that another process holds (an operator's sqlite3 shell) */
    ST_VARIANT_SLOTS = 1024         /* task variants whose row ids the writer remembers */
};

enum st_sql {
#define X(name, sql) ST_SQL_##name,
#include "store/sql.def"
#undef X
    ST_SQL_COUNT
};

/* ---- store_db.c: connections and statements ---- */
struct st_db {
    sqlite3 *h;
    sqlite3_stmt *stmt[ST_SQL_COUNT]; /* prepared on first use */
};
const char *st_sql_text(enum st_sql id);
int st_db_open(struct st_db *db, const char *path, bool write, struct tp_err *e);
void st_db_close(struct st_db *db);
int st_db_exec(struct st_db *db, const char *sql, struct tp_err *e);                   /* a script without results */
int st_db_pragma(struct st_db *db, const char *sql, int64_t *value, struct tp_err *e); /* one integer; 0 when no row */
/* Turn an SQLite result code into one of ours: DISK_FULL, IO, NO_MEMORY, OVERLOADED (locked by another process),
 * INTERNAL. */
int st_db_fail(struct st_db *db, int rc, struct tp_err *e);

struct st_q {
    struct st_db *db;
    sqlite3_stmt *st; /* NULL when it could not be prepared */
    int n;            /* parameters bound */
    int rc;           /* first SQLite error, SQLITE_OK */
};
struct st_q st_q_begin(struct st_db *db, enum st_sql id);
/* Bind the next parameter. Text and blobs are not copied: they must live until st_q_end(). */
void st_q_int(struct st_q *q, int64_t v);
void st_q_real(struct st_q *q, double v);      /* NaN = NULL */
void st_q_text(struct st_q *q, const char *s); /* NULL = NULL */
void st_q_textn(struct st_q *q, const char *s, size_t n);
void st_q_blob(struct st_q *q, const void *p, size_t n); /* never NULL, may be empty */
int st_q_step(struct st_q *q, struct tp_err *e);         /* 1 a row, 0 no more, < 0 -TP_E_x */
void st_q_end(struct st_q *q);                           /* always, also after an error: ends the read transaction */
int st_q_run(struct st_q *q, struct tp_err *e);          /* steps to the end and ends: 0 or -TP_E_x */
int st_q_first(struct st_q *q, int64_t *v, struct tp_err *e); /* first column of the first row, ends: 1, 0 none, < 0 */

/* Column helpers for the row that st_q_step() stands on. */
int64_t st_col_int(const struct st_q *q, int c);
double st_col_real(const struct st_q *q, int c);       /* NULL = NaN */
struct tp_str st_col_str(const struct st_q *q, int c); /* text or blob; .s NULL for NULL; valid until the next step */
void st_col_copy(const struct st_q *q, int c, char *dst, size_t n); /* cut to n - 1 bytes */
char *st_col_dup(const struct st_q *q, int c, bool *oom);           /* malloc'ed, NULL for NULL */

/* ---- store_migrate.c: schema ---- */
struct st_migration {
    int version; /* PRAGMA user_version after it */
    const char *sql;
};
extern const struct st_migration st_migrations[];
extern const int st_migrations_n;
/* Refuses what is not ours (CONFIG) or newer than the last of m (NEWER_SCHEMA) without a write, then applies what is
 * missing, each step in its own transaction. */
int st_migrate(struct st_db *db, const struct st_migration *m, int n, struct tp_err *e);

/* ---- store_writer.c: the queue and its thread ---- */
/* One unit of work: all of it is committed or none of it. */
struct st_op {
    struct st_op *next;
    size_t rows, bytes; /* what it counts for in the queue */
    int code;           /* outcome, set before finish() */
    struct tp_err err;
    /* On the writer thread, within a savepoint. May run twice when the transaction it shared was lost. */
    int (*run)(struct st_store *s, struct st_op *op, struct tp_err *e);
    void (*finish)(struct st_op *op); /* on the writer thread, after the commit; the op is the callee's from here */
};

struct st_variant_slot {
    uint8_t digest[16];
    int64_t variant, task; /* row ids; variant 0 = empty */
};

struct st_store {
    /* set by st_open(), constant afterwards */
    char *path;
    int lock_fd;
    pthread_t writer;
    bool writer_runs;

    /* lock guards head, tail, stop and every struct st_call's done. Nothing else is locked while it is held. */
    pthread_mutex_t lock;
    pthread_cond_t wake; /* the writer waits: head or stop */
    pthread_cond_t done; /* blocking writes wait: their done */
    struct st_op *head, **tail;
    bool stop;
    /* written under lock, read without */
    _Atomic size_t queued_rows, queued_bytes;
    /* read and written without */
    _Atomic bool healthy;
    _Atomic size_t max_rows, max_bytes; /* of the queue */
    _Atomic int64_t lease_longest;      /* milliseconds, st_lease_limit() */
    _Atomic int64_t row_ns;             /* time of a row in the last groups, a moving mean; 0 not known yet */
    _Atomic int log_frames;             /* pages in the log */

    /* the writer thread's own */
    struct st_db db;
    struct st_variant_slot *variants; /* [ST_VARIANT_SLOTS] direct-mapped by digest */
    int wal_frames, checkpoint_at;    /* pages in the log; when to checkpoint next */
    int group_ms;                     /* ST_GROUP_MS; a test without a clock makes it longer */
    _Atomic uint64_t commits;         /* that reached the log */
};

int st_writer_start(struct st_store *s, struct tp_err *e);
void st_writer_stop(struct st_store *s); /* drains, joins */
/* OVERLOADED, DRAINING: the op stays the caller's. force: control writes are let in over the limit. */
int st_writer_push(struct st_store *s, struct st_op *op, bool force, struct tp_err *e);
/* Run fn on the writer thread as one op and wait for its commit. fn writes its results into *arg only; they count when
 * this returns 0. INTERNAL when called on the writer thread itself. */
typedef int (*st_write_fn)(struct st_db *db, void *arg, struct tp_err *e);
int st_write(struct st_store *s, st_write_fn fn, void *arg, struct tp_err *e);

/* ---- readers ---- */
struct st_reader {
    struct st_db db;
    struct tp_record rec;       /* reused for every record that is handed out */
    int64_t variant;            /* whose task stands in rec.task; 0 none */
    struct tp_buf version;      /* bytes of rec.version */
    double costs[TP_MAX_COSTS]; /* of rec.result */
};

/* Make rec.task, rec.version and rec.steps those of a program as a variant of its task has it. */
int st_load_program(struct st_reader *r, int64_t variant, struct tp_str steps, struct tp_err *e);
int st_damaged(struct tp_err *e, const char *what);

/* ---- store_fleet.c. On the writer ---- */
/* In the place of the hardware's earlier one. Hardware that is gone gets none. */
int st_put_probes(struct st_db *db, const struct st_probe_set *set, struct tp_err *e);

/* ---- store_candidates.c: what the ingest of records does to the pool. On the writer ---- */
/* *has: there are candidates of this hardware, so that the next function has something to find. */
int st_candidates_any(struct st_db *db, int64_t hw, bool *has, struct tp_err *e);
/* What an op does to the numbers of candidates by state, for st_candidates_moved() at its end. */
struct st_moves {
    int64_t n[ST_CANDIDATE_STATES];
};
int st_candidates_moved(struct st_db *db, int64_t hw, const struct st_moves *m, struct tp_err *e);
/* A measurement of the program came in (fresh), or one that was there already: closes its lease, moves it on. One that
 * was there already leaves another agent's lease alone while more are wanted. */
struct st_measured {
    int64_t hardware, program;
    bool failure, fresh;
    const char *agent; /* NULL: nobody is named */
};
int st_candidate_measured(struct st_db *db, const struct st_measured *x, struct st_moves *m, struct tp_err *e);
struct st_candidate_row {
    int64_t hardware, program, variant, created /* unix milliseconds */;
    int repeat;
    bool measured; /* there are measurements of the program on this hardware */
};
/* *accepted: it was not there, or needs more measurements than it has. */
int st_candidate_put(struct st_db *db, const struct st_candidate_row *c, struct st_moves *m, bool *accepted,
                     struct tp_err *e);
int st_candidates_limit(struct st_db *db, int64_t hw, int64_t limit, struct tp_err *e); /* TOO_MANY beyond it */

/* ---- store_take_back.c, store_leases.c: steps of what removes much. On the writer ---- */
/* Up to `most` candidates of that state, of ids up to `newest`, are no more; *n = how many. */
int st_candidates_delete(struct st_db *db, int64_t hw, enum st_candidate_state state, int64_t newest, int64_t most,
                         int64_t *n, struct tp_err *e);
/* Ends the first lease (id, hardware) of a bound query, which it ends too, and adds to *returned the candidates that
 * wait again; 1 when there was one, else 0. */
int st_lease_end_first(struct st_db *db, struct st_q *q, int64_t *returned, struct tp_err *e);

int64_t st_now(void); /* unix seconds */
int64_t st_now_ms(void);

#endif
