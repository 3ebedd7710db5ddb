/* Evaluations: figures of a model on a hardware, kept in order of making.
 *
 * What the figures are is the daemon's matter; the store keeps the text. Thread: writes from any (they run on the
 * writer), reads on the reader's. */
#include "store/db.h"

#include <stdlib.h>

void st_evaluation_clear(struct st_evaluation *v)
{
    if (!v)
        return;
    free(v->result);
    *v = (struct st_evaluation){0};
}

struct evaluation_write {
    const struct st_evaluation *v;
    int64_t id;
};

/* Is there a row with this id? */
static int look(struct st_db *db, enum st_sql sql, int64_t id, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, sql);
    st_q_int(&q, id);
    int rc = st_q_step(&q, e);
    st_q_end(&q);
    return rc;
}

static int insert(struct st_db *db, void *arg, struct tp_err *e)
{
    struct evaluation_write *w = arg;
    int rc = look(db, ST_SQL_W_HW_EXISTS, w->v->hardware, e);
    if (rc <= 0)
        return rc < 0 ? rc : tp_fail(e, TP_E_UNKNOWN_HARDWARE, "the hardware is gone");
    rc = look(db, ST_SQL_W_MODEL_FIND, w->v->model, e);
    if (rc <= 0)
        return rc < 0 ? rc : tp_fail(e, TP_E_UNKNOWN_MODEL, "there is no model %lld", (long long)w->v->model);
    struct st_q q = st_q_begin(db, ST_SQL_W_EVALUATION_INSERT);
    st_q_int(&q, w->v->hardware);
    st_q_int(&q, w->v->model);
    st_q_int(&q, w->v->job);
    st_q_int(&q, w->v->created);
    st_q_text(&q, w->v->result);
    rc = st_q_run(&q, e);
    w->id = sqlite3_last_insert_rowid(db->h);
    return rc;
}

int st_evaluation_insert(struct st_store *s, struct st_evaluation *v, struct tp_err *e)
{
    struct evaluation_write w = {.v = v};
    int rc = st_write(s, insert, &w, e);
    if (rc == 0)
        v->id = w.id;
    return rc;
}

int st_evaluation_list(struct st_reader *r, int64_t hw, int64_t model, int64_t before, int limit, st_evaluation_fn fn,
                       void *arg, struct tp_err *e)
{
    enum st_sql id = ST_SQL_R_EVALUATION_LIST;
    int rc;
    if (model)
        id = hw ? ST_SQL_R_EVALUATION_LIST_BOTH : ST_SQL_R_EVALUATION_LIST_MODEL;
    else if (hw)
        id = ST_SQL_R_EVALUATION_LIST_HW;
    struct st_q q = st_q_begin(&r->db, id);
    st_q_int(&q, before > 0 ? before : INT64_MAX);
    st_q_int(&q, limit);
    if (model)
        st_q_int(&q, model);
    if (hw)
        st_q_int(&q, hw);
    while ((rc = st_q_step(&q, e)) > 0) {
        bool oom = false;
        struct st_evaluation v = {.id = st_col_int(&q, 0),
                                  .hardware = st_col_int(&q, 1),
                                  .model = st_col_int(&q, 2),
                                  .job = st_col_int(&q, 3),
                                  .created = st_col_int(&q, 4)};
        v.result = st_col_dup(&q, 5, &oom);
        if (oom) {
            rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to read an evaluation");
            break;
        }
        rc = fn(arg, &v);
        st_evaluation_clear(&v);
        if (rc)
            break;
    }
    st_q_end(&q);
    return rc < 0 ? rc : 0;
}
