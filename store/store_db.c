/* One SQLite connection: opening, prepared statements, binding, columns, and what an SQLite error means to us.
 *
 * Invariant: a statement is reset whenever no struct st_q uses it, so no connection keeps a read transaction open
 * between two calls. SQLite's own texts never leave this file: they may hold SQL or paths.
 * Thread: whoever owns the connection (opened NOMUTEX). */
#include "store/db.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const sql_text[ST_SQL_COUNT] = {
#define X(name, sql) sql,
#include "store/sql.def"
#undef X
};

const char *st_sql_text(enum st_sql id)
{
    return sql_text[id];
}

int64_t st_now(void)
{
    return (int64_t)time(NULL);
}

int64_t st_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* SQLite tells ENOSPC, but calls the rest an I/O error and forgets its errno when it comes up in a commit. So errno is
 * cleared before each step, and the last one counts. */
int st_db_fail(struct st_db *db, int rc, struct tp_err *e)
{
    if (rc == SQLITE_IOERR_NOMEM)
        rc = SQLITE_NOMEM;
    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return tp_fail(e, TP_E_NO_MEMORY, "no memory left in the store");
    case SQLITE_FULL:
        return tp_fail(e, TP_E_DISK_FULL, "no space left for the database");
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        if (tp_code_of_errno(errno) == TP_E_DISK_FULL ||
            (db->h && tp_code_of_errno(sqlite3_system_errno(db->h)) == TP_E_DISK_FULL))
            return tp_fail(e, TP_E_DISK_FULL, "no space left for the database");
        return tp_fail(e, TP_E_IO, "the database cannot be read or written (error %d)", rc);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return tp_fail(e, TP_E_IO, "the database is damaged");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return tp_fail(e, TP_E_IO, "the database may not be written");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return tp_fail(e, TP_E_OVERLOADED, "another process holds the database locked");
    case SQLITE_TOOBIG:
        return tp_fail(e, TP_E_BODY_TOO_LARGE, "a value is too large for the database");
    default:
        return tp_fail(e, TP_E_INTERNAL, "the database refused a statement (error %d)", rc);
    }
}

int st_db_open(struct st_db *db, const char *path, bool write, struct tp_err *e)
{
    int flags = SQLITE_OPEN_NOMUTEX | (write ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY);
    int rc = sqlite3_open_v2(path, &db->h, flags, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_extended_result_codes(db->h, 1);
    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(db->h, ST_BUSY_MS);
    if (rc == SQLITE_OK)
        rc = sqlite3_db_config(db->h, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_db_config(db->h, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    if (rc == SQLITE_OK)
        return 0;
    rc = st_db_fail(db, rc, e);
    st_db_close(db);
    return rc;
}

void st_db_close(struct st_db *db)
{
    for (int i = 0; i < ST_SQL_COUNT; i++) {
        sqlite3_finalize(db->stmt[i]);
        db->stmt[i] = NULL;
    }
    sqlite3_close(db->h);
    db->h = NULL;
}

int st_db_exec(struct st_db *db, const char *sql, struct tp_err *e)
{
    errno = 0;
    int rc = sqlite3_exec(db->h, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : st_db_fail(db, rc, e);
}

int st_db_pragma(struct st_db *db, const char *sql, int64_t *value, struct tp_err *e)
{
    sqlite3_stmt *st = NULL;
    int64_t v = 0;
    errno = 0;
    int rc = sqlite3_prepare_v2(db->h, sql, -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) {
        v = sqlite3_column_int64(st, 0);
        rc = SQLITE_DONE;
    }
    sqlite3_finalize(st);
    if (rc != SQLITE_DONE)
        return st_db_fail(db, rc, e);
    *value = v;
    return 0;
}

struct st_q st_q_begin(struct st_db *db, enum st_sql id)
{
    struct st_q q = {.db = db, .rc = SQLITE_OK};
    if (!db->stmt[id])
        q.rc = sqlite3_prepare_v3(db->h, sql_text[id], -1, SQLITE_PREPARE_PERSISTENT, &db->stmt[id], NULL);
    q.st = db->stmt[id];
    return q;
}

static void note(struct st_q *q, int rc)
{
    if (q->rc == SQLITE_OK)
        q->rc = rc;
}

void st_q_int(struct st_q *q, int64_t v)
{
    if (q->rc == SQLITE_OK)
        note(q, sqlite3_bind_int64(q->st, ++q->n, v));
}

void st_q_real(struct st_q *q, double v)
{
    if (q->rc == SQLITE_OK)
        note(q, sqlite3_bind_double(q->st, ++q->n, v));
}

void st_q_text(struct st_q *q, const char *s)
{
    st_q_textn(q, s, s ? strlen(s) : 0);
}

void st_q_textn(struct st_q *q, const char *s, size_t n)
{
    if (q->rc == SQLITE_OK)
        note(q, s ? sqlite3_bind_text64(q->st, ++q->n, s, n, SQLITE_STATIC, SQLITE_UTF8)
                  : sqlite3_bind_null(q->st, ++q->n));
}

void st_q_blob(struct st_q *q, const void *p, size_t n)
{
    if (q->rc == SQLITE_OK)
        note(q, sqlite3_bind_blob64(q->st, ++q->n, p && n ? p : "", n, SQLITE_STATIC));
}

int st_q_step(struct st_q *q, struct tp_err *e)
{
    if (q->rc == SQLITE_OK) {
        errno = 0;
        int rc = sqlite3_step(q->st);
        if (rc == SQLITE_ROW)
            return 1;
        if (rc == SQLITE_DONE)
            return 0;
        q->rc = rc;
    }
    return st_db_fail(q->db, q->rc, e);
}

void st_q_end(struct st_q *q)
{
    if (!q->st)
        return;
    sqlite3_reset(q->st);
    sqlite3_clear_bindings(q->st);
    q->st = NULL;
}

int st_q_run(struct st_q *q, struct tp_err *e)
{
    int rc;
    do
        rc = st_q_step(q, e);
    while (rc > 0);
    st_q_end(q);
    return rc;
}

int st_q_first(struct st_q *q, int64_t *v, struct tp_err *e)
{
    int rc = st_q_step(q, e);
    if (rc > 0)
        *v = st_col_int(q, 0);
    st_q_end(q);
    return rc;
}

int64_t st_col_int(const struct st_q *q, int c)
{
    return sqlite3_column_int64(q->st, c);
}

double st_col_real(const struct st_q *q, int c)
{
    return sqlite3_column_type(q->st, c) == SQLITE_NULL ? (double)NAN : sqlite3_column_double(q->st, c);
}

struct tp_str st_col_str(const struct st_q *q, int c)
{
    if (sqlite3_column_type(q->st, c) == SQLITE_NULL)
        return (struct tp_str){NULL, 0};
    const void *p = sqlite3_column_blob(q->st, c);
    int n = sqlite3_column_bytes(q->st, c);
    return (struct tp_str){p ? p : "", (uint32_t)n};
}

void st_col_copy(const struct st_q *q, int c, char *dst, size_t n)
{
    struct tp_str s = st_col_str(q, c);
    size_t m = s.n < n ? s.n : n - 1;
    if (m)
        memcpy(dst, s.s, m);
    dst[m] = '\0';
}

char *st_col_dup(const struct st_q *q, int c, bool *oom)
{
    struct tp_str s = st_col_str(q, c);
    if (!s.s)
        return NULL;
    char *p = malloc((size_t)s.n + 1);
    if (!p) {
        *oom = true;
        return NULL;
    }
    memcpy(p, s.s, s.n);
    p[s.n] = '\0';
    return p;
}
