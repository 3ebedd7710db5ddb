/* Jobs: what was asked for, how it went. The states are the daemon's (job runner); the store only keeps them, and knows
 * that `queued` and `running` do not survive a restart.
 *
 * Thread: writes from any (they run on the writer), reads on the reader's. */
#include "store/db.h"

#include <stdlib.h>

void st_job_clear(struct st_job *j)
{
    if (!j)
        return;
    free(j->params);
    free(j->result);
    free(j->error);
    *j = (struct st_job){0};
}

static int unknown(struct tp_err *e, int64_t id)
{
    return tp_fail(e, TP_E_UNKNOWN_JOB, "there is no job %lld", (long long)id);
}

static void bind(struct st_q *q, const struct st_job *j)
{
    st_q_text(q, j->kind);
    st_q_text(q, j->hardware);
    st_q_text(q, j->state);
    st_q_text(q, j->params);
    st_q_text(q, j->result);
    st_q_text(q, j->error);
    st_q_int(q, j->created);
    st_q_int(q, j->started);
    st_q_int(q, j->finished);
}

struct job_write {
    const struct st_job *j;
    int64_t id;
};

static int insert(struct st_db *db, void *arg, struct tp_err *e)
{
    struct job_write *w = arg;
    struct st_q q = st_q_begin(db, ST_SQL_W_JOB_INSERT);
    bind(&q, w->j);
    int rc = st_q_run(&q, e);
    w->id = sqlite3_last_insert_rowid(db->h);
    return rc;
}

int st_job_insert(struct st_store *s, struct st_job *j, struct tp_err *e)
{
    struct job_write w = {.j = j};
    int rc = st_write(s, insert, &w, e);
    if (rc == 0)
        j->id = w.id;
    return rc;
}

static int update(struct st_db *db, void *arg, struct tp_err *e)
{
    const struct job_write *w = arg;
    struct st_q q = st_q_begin(db, ST_SQL_W_JOB_UPDATE);
    st_q_int(&q, w->j->id);
    bind(&q, w->j);
    int rc = st_q_run(&q, e);
    return rc == 0 && sqlite3_changes64(db->h) == 0 ? unknown(e, w->j->id) : rc;
}

int st_job_update(struct st_store *s, const struct st_job *j, struct tp_err *e)
{
    struct job_write w = {.j = j};
    return st_write(s, update, &w, e);
}

struct interrupt {
    const char *keep; /* ids, a comma before and after each */
    int count;
};

static int interrupt(struct st_db *db, void *arg, struct tp_err *e)
{
    struct interrupt *a = arg;
    struct st_q q = st_q_begin(db, ST_SQL_W_JOB_INTERRUPT);
    st_q_int(&q, st_now_ms());
    st_q_text(&q, a->keep);
    int rc = st_q_run(&q, e);
    a->count = (int)sqlite3_changes64(db->h);
    return rc;
}

int st_jobs_interrupt(struct st_store *s, const int64_t *keep, size_t n_keep, int *n, struct tp_err *e)
{
    struct tp_buf text = {0};
    tp_buf_putc(&text, ',');
    for (size_t i = 0; i < n_keep; i++)
        tp_buf_printf(&text, "%lld,", (long long)keep[i]);
    tp_buf_putc(&text, '\0');
    struct interrupt a = {.keep = text.p};
    int rc = text.oom ? tp_fail(e, TP_E_NO_MEMORY, "no memory for a list of jobs") : st_write(s, interrupt, &a, e);
    tp_buf_free(&text);
    if (rc == 0 && n)
        *n = a.count;
    return rc;
}

/* ---- reading ---- */

static int read_row(struct st_q *q, struct st_job *j, struct tp_err *e)
{
    bool oom = false;
    *j = (struct st_job){.id = st_col_int(q, 0)};
    st_col_copy(q, 1, j->kind, sizeof j->kind);
    st_col_copy(q, 2, j->hardware, sizeof j->hardware);
    st_col_copy(q, 3, j->state, sizeof j->state);
    j->params = st_col_dup(q, 4, &oom);
    j->result = st_col_dup(q, 5, &oom);
    j->error = st_col_dup(q, 6, &oom);
    j->created = st_col_int(q, 7);
    j->started = st_col_int(q, 8);
    j->finished = st_col_int(q, 9);
    if (!oom)
        return 0;
    st_job_clear(j);
    return tp_fail(e, TP_E_NO_MEMORY, "no memory to read a job");
}

int st_job_get(struct st_reader *r, int64_t id, struct st_job *out, struct tp_err *e)
{
    struct st_job j = {0};
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_JOB_GET);
    st_q_int(&q, id);
    int rc = st_q_step(&q, e);
    if (rc > 0)
        rc = read_row(&q, &j, e);
    else if (rc == 0)
        rc = unknown(e, id);
    st_q_end(&q);
    if (rc == 0)
        *out = j;
    return rc;
}

int st_job_list(struct st_reader *r, const char *state, const char *hardware, int64_t before, int limit, st_job_fn fn,
                void *arg, struct tp_err *e)
{
    enum st_sql id = ST_SQL_R_JOB_LIST;
    int rc;
    if (state)
        id = hardware ? ST_SQL_R_JOB_LIST_BOTH : ST_SQL_R_JOB_LIST_STATE;
    else if (hardware)
        id = ST_SQL_R_JOB_LIST_HW;
    struct st_q q = st_q_begin(&r->db, id);
    st_q_int(&q, before > 0 ? before : INT64_MAX);
    st_q_int(&q, limit);
    if (state)
        st_q_text(&q, state);
    if (hardware)
        st_q_text(&q, hardware);
    while ((rc = st_q_step(&q, e)) > 0) {
        struct st_job j = {0};
        if ((rc = read_row(&q, &j, e)) < 0)
            break;
        rc = fn(arg, &j);
        st_job_clear(&j);
        if (rc)
            break;
    }
    st_q_end(&q);
    return rc < 0 ? rc : 0;
}
