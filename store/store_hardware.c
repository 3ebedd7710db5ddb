/* Hardware and families: the rows that everything else hangs on.
 *
 * Invariant: a family row exists for every hardware; rows of families outlive their hardware, because the knowledge
 * base does. A purge runs task by task, so that agents of other hardware are not kept waiting behind a million
 * deletions; each step leaves sums and rows in agreement, and the hardware itself goes last. Thread: writes from any
 * (they run on the writer), reads on the reader's. */
#include "store/db.h"

#include <stdlib.h>
#include <string.h>

void st_hardware_clear(struct st_hardware *h)
{
    if (!h)
        return;
    free(h->target);
    free(h->descriptor);
    free(h->policy);
    *h = (struct st_hardware){0};
}

static int unknown(struct tp_err *e, const char *name)
{
    return tp_fail(e, TP_E_UNKNOWN_HARDWARE, "no hardware is registered as \"%.63s\"", name);
}

/* ---- put ---- */

struct put {
    const struct st_hardware *h;
    bool created;
};

static int put_family(struct st_db *db, const char *name, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ST_SQL_W_FAMILY_PUT);
    st_q_text(&q, name);
    st_q_int(&q, st_now());
    return st_q_run(&q, e);
}

/* 1 when it exists, with its id, family and kind. */
static int find(struct st_db *db, const char *name, int64_t *id, char family[ST_ID_MAX + 1], char kind[16],
                struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ST_SQL_W_HW_FIND);
    st_q_text(&q, name);
    int rc = st_q_step(&q, e);
    if (rc > 0) {
        *id = st_col_int(&q, 0);
        st_col_copy(&q, 1, family, ST_ID_MAX + 1);
        st_col_copy(&q, 2, kind, 16);
    }
    st_q_end(&q);
    return rc;
}

/* 1 when the statement finds a row of the hardware. */
static int has_by_id(struct st_db *db, enum st_sql what, int64_t id, struct tp_err *e)
{
    int64_t one;
    struct st_q q = st_q_begin(db, what);
    st_q_int(&q, id);
    return st_q_first(&q, &one, e);
}

static int has_by_name(struct st_db *db, enum st_sql what, const char *name, struct tp_err *e)
{
    int64_t one;
    struct st_q q = st_q_begin(db, what);
    st_q_text(&q, name);
    return st_q_first(&q, &one, e);
}

/* Models, and jobs that make them, belong to a family; programs were made, and measured, for one kind. */
static int refuse_move(struct st_db *db, const char *name, int64_t id, bool kind, struct tp_err *e)
{
    int rc = has_by_name(db, ST_SQL_W_HW_HAS_MODEL, name, e);
    if (rc > 0)
        return tp_fail(e, TP_E_CONFLICT, "family and kind of \"%.63s\" cannot change while it has models", name);
    if (rc == 0 && (rc = has_by_name(db, ST_SQL_W_HW_HAS_JOB, name, e)) > 0)
        return tp_fail(e, TP_E_CONFLICT, "family and kind of \"%.63s\" cannot change while a job of it waits or runs",
                       name);
    if (rc == 0 && kind && (rc = has_by_id(db, ST_SQL_W_HW_HAS_DATA, id, e)) == 0)
        rc = has_by_id(db, ST_SQL_W_HW_HAS_CANDIDATE, id, e);
    return rc > 0 ? tp_fail(e, TP_E_CONFLICT,
                            "the kind of \"%.63s\" cannot change while it has measurements or candidates: register "
                            "another hardware, or purge this one",
                            name)
                  : rc;
}

/* The family, with the kind of its hardware. */
static int settle_family(struct st_db *db, const struct st_hardware *h, struct tp_err *e)
{
    char other[16] = "";
    int rc = put_family(db, h->family, e);
    if (rc < 0)
        return rc;
    struct st_q q = st_q_begin(db, ST_SQL_W_FAMILY_OTHER_KIND);
    st_q_text(&q, h->family);
    st_q_text(&q, h->name);
    st_q_text(&q, h->kind);
    rc = st_q_step(&q, e);
    if (rc > 0)
        st_col_copy(&q, 0, other, sizeof other);
    st_q_end(&q);
    if (rc < 0)
        return rc;
    if (rc > 0)
        return tp_fail(e, TP_E_CONFLICT,
                       "family \"%.63s\" is of %s hardware; give hardware of kind %s another family: they share no "
                       "knowledge",
                       h->family, other, h->kind);
    q = st_q_begin(db, ST_SQL_W_FAMILY_KIND);
    st_q_text(&q, h->family);
    st_q_text(&q, h->kind);
    return st_q_run(&q, e);
}

static int put(struct st_db *db, void *arg, struct tp_err *e)
{
    struct put *p = arg;
    const struct st_hardware *h = p->h;
    char family[ST_ID_MAX + 1], kind[16];
    int64_t id;
    int rc = find(db, h->name, &id, family, kind, e);
    if (rc < 0)
        return rc;
    bool exists = rc > 0;
    const bool moves = !exists || strcmp(family, h->family), turns = !exists || strcmp(kind, h->kind);
    if (exists && (moves || turns) && (rc = refuse_move(db, h->name, id, turns, e)) < 0)
        return rc;
    if ((moves || turns) && (rc = settle_family(db, h, e)) < 0)
        return rc;
    struct st_q q = st_q_begin(db, exists ? ST_SQL_W_HW_UPDATE : ST_SQL_W_HW_INSERT);
    st_q_text(&q, h->name);
    st_q_text(&q, h->family);
    st_q_text(&q, h->kind);
    st_q_text(&q, h->target);
    st_q_text(&q, h->descriptor ? h->descriptor : "{}");
    if (!exists)
        st_q_int(&q, st_now());
    p->created = !exists;
    return st_q_run(&q, e);
}

int st_hardware_put(struct st_store *s, const struct st_hardware *h, bool *created, struct tp_err *e)
{
    struct put p = {.h = h};
    if (!st_id_valid(h->name) || !st_id_valid(h->family))
        return tp_fail(e, TP_E_BAD_IDENTIFIER, "names of hardware and families match [a-z0-9][a-z0-9._-]{0,62}");
    if (strcmp(h->kind, "cpu") && strcmp(h->kind, "gpu") && strcmp(h->kind, "accelerator"))
        return tp_fail(e, TP_E_BAD_PARAMETER, "kind is one of cpu, gpu, accelerator");
    if (!h->target || !*h->target)
        return tp_fail(e, TP_E_BAD_PARAMETER, "target is needed");
    int rc = st_write(s, put, &p, e);
    if (rc == 0)
        *created = p.created;
    return rc;
}

struct policy {
    const char *hardware, *policy;
};

static int set_policy(struct st_db *db, void *arg, struct tp_err *e)
{
    const struct policy *p = arg;
    struct st_q q = st_q_begin(db, ST_SQL_W_HW_POLICY);
    st_q_text(&q, p->hardware);
    st_q_text(&q, p->policy);
    int rc = st_q_run(&q, e);
    return rc == 0 && sqlite3_changes64(db->h) == 0 ? unknown(e, p->hardware) : rc;
}

int st_policy_set(struct st_store *s, const char *hardware, const char *policy, struct tp_err *e)
{
    struct policy p = {hardware, policy};
    return st_write(s, set_policy, &p, e);
}

/* ---- delete ---- */

enum { PURGE_ROWS = 5000 /* candidates in one step */ };

struct purge {
    const char *name;
    bool all;  /* delete measurements too */
    bool more; /* there may be another task, or candidates, to purge */
};

static int run1(struct st_db *db, enum st_sql id, int64_t v, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, id);
    st_q_int(&q, v);
    return st_q_run(&q, e);
}

static int run_name(struct st_db *db, enum st_sql id, const char *name, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, id);
    st_q_text(&q, name);
    return st_q_run(&q, e);
}

/* 1 when there was a task to purge. */
static int purge_task(struct st_db *db, int64_t hw, struct tp_err *e)
{
    char task_id[TP_TASK_ID_LEN + 1];
    int64_t task = 0;
    struct st_q q = st_q_begin(db, ST_SQL_W_PURGE_NEXT_TASK);
    st_q_int(&q, hw);
    int rc = st_q_step(&q, e);
    if (rc > 0) {
        task = st_col_int(&q, 0);
        st_col_copy(&q, 1, task_id, sizeof task_id);
    }
    st_q_end(&q);
    if (rc <= 0)
        return rc;
    q = st_q_begin(db, ST_SQL_W_PURGE_TASK);
    st_q_int(&q, hw);
    st_q_int(&q, task);
    rc = st_q_run(&q, e);
    if (rc < 0)
        return rc;
    q = st_q_begin(db, ST_SQL_W_PURGE_HW_TASK);
    st_q_int(&q, hw);
    st_q_text(&q, task_id);
    rc = st_q_run(&q, e);
    return rc < 0 ? rc : 1;
}

static int purge_candidates(struct st_db *db, int64_t hw, bool *more, struct tp_err *e)
{
    int64_t left = PURGE_ROWS, n = 0;
    int rc = 0;
    for (int i = 0; i < ST_CANDIDATE_STATES && left > 0 && rc == 0; i++, left -= n)
        rc = st_candidates_delete(db, hw, (enum st_candidate_state)i, INT64_MAX, left, &n, e);
    *more = left == 0;
    return rc;
}

static int purge_step(struct st_db *db, void *arg, struct tp_err *e)
{
    struct purge *p = arg;
    int64_t id;
    char family[ST_ID_MAX + 1], kind[16];
    int rc = find(db, p->name, &id, family, kind, e);
    if (rc <= 0)
        return rc < 0 ? rc : unknown(e, p->name);
    rc = purge_task(db, id, e);
    p->more = rc > 0;
    return rc != 0 ? rc < 0 ? rc : 0 : purge_candidates(db, id, &p->more, e);
}

static int purge_rest(struct st_db *db, void *arg, struct tp_err *e)
{
    struct purge *p = arg;
    int64_t id;
    char family[ST_ID_MAX + 1], kind[16];
    int rc = find(db, p->name, &id, family, kind, e);
    if (rc <= 0)
        return rc < 0 ? rc : unknown(e, p->name);
    if (!p->all && (rc = has_by_id(db, ST_SQL_W_HW_HAS_DATA, id, e)) != 0)
        return rc < 0 ? rc : tp_fail(e, TP_E_CONFLICT, "\"%.63s\" has measurements; purge deletes them too", p->name);
    while ((rc = purge_task(db, id, e)) > 0) /* came in between the steps */
        ;
    do
        rc = rc < 0 ? rc : purge_candidates(db, id, &p->more, e);
    while (rc == 0 && p->more);
    if (rc < 0 || (rc = run1(db, ST_SQL_W_PURGE_COUNTS, id, e)) < 0 ||
        (rc = run1(db, ST_SQL_W_PURGE_LEASES, id, e)) < 0)
        return rc;
    /* the hardware's own rows, and those of its models */
    static const enum st_sql owned[] = {ST_SQL_W_PURGE_EVALUATIONS, ST_SQL_W_PURGE_OFFSETS};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        struct st_q q = st_q_begin(db, owned[i]);
        st_q_int(&q, id);
        st_q_text(&q, p->name);
        if ((rc = st_q_run(&q, e)) < 0)
            return rc;
    }
    if ((rc = run1(db, ST_SQL_W_PURGE_PROBES, id, e)) < 0 || (rc = run1(db, ST_SQL_W_PURGE_TRANSFERS, id, e)) < 0 ||
        (rc = run1(db, ST_SQL_W_PURGE_TRANSFERS_FROM, id, e)) < 0)
        return rc;
    if ((rc = run1(db, ST_SQL_W_HW_DEACTIVATE, id, e)) < 0 ||
        (rc = run_name(db, ST_SQL_W_PURGE_MODELS, p->name, e)) < 0 ||
        (rc = run_name(db, ST_SQL_W_PURGE_JOBS, p->name, e)) < 0)
        return rc;
    return run1(db, ST_SQL_W_HW_DELETE, id, e);
}

int st_hardware_delete(struct st_store *s, const char *name, bool purge, struct tp_err *e)
{
    struct purge p = {.name = name, .all = purge, .more = purge};
    int rc = 0;
    while (rc == 0 && p.more)
        rc = st_write(s, purge_step, &p, e);
    return rc < 0 ? rc : st_write(s, purge_rest, &p, e);
}

/* ---- reading ---- */

static int read_row(struct st_q *q, struct st_hardware *h, struct tp_err *e)
{
    bool oom = false;
    *h = (struct st_hardware){.id = st_col_int(q, 0)};
    st_col_copy(q, 1, h->name, sizeof h->name);
    st_col_copy(q, 2, h->family, sizeof h->family);
    st_col_copy(q, 3, h->kind, sizeof h->kind);
    h->target = st_col_dup(q, 4, &oom);
    h->descriptor = st_col_dup(q, 5, &oom);
    h->active_model = st_col_int(q, 6);
    h->created = st_col_int(q, 7);
    h->policy = st_col_dup(q, 8, &oom);
    if (!oom)
        return 0;
    st_hardware_clear(h);
    return tp_fail(e, TP_E_NO_MEMORY, "no memory to read hardware");
}

int st_hardware_get(struct st_reader *r, const char *name, struct st_hardware *out, struct tp_err *e)
{
    struct st_hardware h = {0};
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_HW_GET);
    st_q_text(&q, name);
    int rc = st_q_step(&q, e);
    if (rc > 0)
        rc = read_row(&q, &h, e);
    else if (rc == 0)
        rc = unknown(e, name);
    st_q_end(&q);
    if (rc == 0)
        *out = h;
    return rc;
}

int st_hardware_list(struct st_reader *r, const char *after, int limit, st_hardware_fn fn, void *arg, struct tp_err *e)
{
    int rc;
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_HW_LIST);
    st_q_text(&q, after);
    st_q_int(&q, limit);
    while ((rc = st_q_step(&q, e)) > 0) {
        struct st_hardware h = {0};
        if ((rc = read_row(&q, &h, e)) < 0)
            break;
        rc = fn(arg, &h);
        st_hardware_clear(&h);
        if (rc)
            break;
    }
    st_q_end(&q);
    return rc < 0 ? rc : 0;
}

int st_hardware_counts(struct st_reader *r, int64_t hw, struct st_counts *out, struct tp_err *e)
{
    struct st_counts c = {0};
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_HW_COUNTS);
    st_q_int(&q, hw);
    int rc = st_q_step(&q, e);
    if (rc > 0) {
        c.tasks = st_col_int(&q, 0);
        c.programs = st_col_int(&q, 1);
        c.measurements = st_col_int(&q, 2);
        c.failures = st_col_int(&q, 3);
        c.valid = c.measurements - c.failures;
    }
    st_q_end(&q);
    if (rc < 0)
        return rc;
    q = st_q_begin(&r->db, ST_SQL_R_HW_NEWEST);
    st_q_int(&q, hw);
    rc = st_q_first(&q, &c.newest_measurement_id, e);
    if (rc < 0)
        return rc;
    *out = c;
    return 0;
}

int st_hardware_newer(struct st_reader *r, int64_t hw, int64_t after, int64_t *n, struct tp_err *e)
{
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_HW_NEWER);
    st_q_int(&q, hw);
    st_q_int(&q, after);
    const int rc = st_q_first(&q, n, e);
    return rc < 0 ? rc : 0;
}

int st_family_kb(struct st_reader *r, const char *family, int64_t *id, struct tp_err *e)
{
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_FAMILY_KB);
    st_q_text(&q, family);
    int rc = st_q_first(&q, id, e);
    return rc > 0   ? 0
           : rc < 0 ? rc
                    : tp_fail(e, TP_E_UNKNOWN_FAMILY, "no hardware belongs to a family \"%.63s\"", family);
}

int st_family_list(struct st_reader *r, const char *after, int limit, st_family_fn fn, void *arg, struct tp_err *e)
{
    int rc;
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_FAMILY_LIST);
    st_q_text(&q, after);
    st_q_int(&q, limit);
    while ((rc = st_q_step(&q, e)) > 0) {
        struct st_family f = {
            .kb_model = st_col_int(&q, 1), .hardware = st_col_int(&q, 2), .created = st_col_int(&q, 3)};
        st_col_copy(&q, 0, f.name, sizeof f.name);
        st_col_copy(&q, 4, f.kind, sizeof f.kind);
        if ((rc = fn(arg, &f)))
            break;
    }
    st_q_end(&q);
    return rc < 0 ? rc : 0;
}
