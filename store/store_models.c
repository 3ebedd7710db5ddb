/* Models: history of weights files, which of them answers, and ids that are given out once.
 *
 * Invariant: hardware.active_model is an AC of that hardware, family.kb_model a KB of that family. The files themselves
 * are the daemon's; a row appears only after its file is on disk.
 * Thread: writes from any (they run on the writer), reads on the reader's. */
#include "store/db.h"

#include <stdlib.h>
#include <string.h>

void st_model_clear(struct st_model *m)
{
    if (!m)
        return;
    free(m->parents);
    free(m->metrics);
    free(m->evaluation);
    *m = (struct st_model){0};
}

static int unknown(struct tp_err *e, int64_t id)
{
    return tp_fail(e, TP_E_UNKNOWN_MODEL, "there is no model %lld", (long long)id);
}

static int reserve(struct st_db *db, void *arg, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ST_SQL_W_MODEL_RESERVE);
    int rc = st_q_step(&q, e);
    if (rc > 0)
        *(int64_t *)arg = st_col_int(&q, 0);
    else if (rc == 0)
        rc = tp_fail(e, TP_E_INTERNAL, "the counter of models is missing");
    int end = rc < 0 ? rc : st_q_step(&q, e); /* RETURNING shows its row before the update is over */
    st_q_end(&q);
    return end;
}

int st_model_reserve(struct st_store *s, int64_t *id, struct tp_err *e)
{
    int64_t v = 0;
    int rc = st_write(s, reserve, &v, e);
    if (rc == 0)
        *id = v;
    return rc;
}

/* The owner must exist: an AC belongs to a hardware (of id hw, 0 any of its name), a KB to a family. */
static int check_owner(struct st_db *db, const struct st_model *m, int64_t hw, struct tp_err *e)
{
    bool ac = strcmp(m->role, "ac") == 0;
    int64_t v;
    struct st_q q = st_q_begin(db, ac ? ST_SQL_W_HW_ID : ST_SQL_R_FAMILY_KB);
    st_q_text(&q, m->owner);
    int rc = st_q_first(&q, &v, e);
    if (rc > 0 && ac && hw != 0 && hw != v)
        return tp_fail(e, TP_E_UNKNOWN_HARDWARE,
                       "hardware \"%s\" was deleted meanwhile; the one of that name is another", m->owner);
    if (rc)
        return rc < 0 ? rc : 0;
    return ac ? tp_fail(e, TP_E_UNKNOWN_HARDWARE, "no hardware is registered as \"%s\"", m->owner)
              : tp_fail(e, TP_E_UNKNOWN_FAMILY, "no hardware belongs to a family \"%s\"", m->owner);
}

/* An id that is taken may only get a newer calibration. */
static int check_id(struct st_db *db, const struct st_model *m, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ST_SQL_W_MODEL_FIND);
    st_q_int(&q, m->id);
    int rc = st_q_step(&q, e);
    if (rc > 0) {
        struct st_model old = {0};
        st_col_copy(&q, 0, old.role, sizeof old.role);
        st_col_copy(&q, 1, old.owner, sizeof old.owner);
        rc = strcmp(old.role, m->role) || strcmp(old.owner, m->owner) || m->calibration <= st_col_int(&q, 2)
                 ? tp_fail(e, TP_E_CONFLICT, "model %lld exists already", (long long)m->id)
                 : 0;
    }
    st_q_end(&q);
    return rc;
}

static int set_active(struct st_db *db, bool ac, const char *owner, int64_t id, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ac ? ST_SQL_W_HW_ACTIVATE : ST_SQL_W_FAMILY_ACTIVATE);
    st_q_text(&q, owner);
    st_q_int(&q, id);
    const int rc = st_q_run(&q, e);
    if (rc < 0)
        return rc;
    q = st_q_begin(db, ST_SQL_W_MODEL_ACTIVATED);
    st_q_int(&q, id);
    st_q_int(&q, st_now_ms());
    return st_q_run(&q, e);
}

static int put_offsets(struct st_db *db, int64_t model, int64_t hw, const struct st_offset *o, size_t n,
                       struct tp_err *e)
{
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct st_q q = st_q_begin(db, ST_SQL_W_OFFSET_PUT);
        st_q_int(&q, model);
        st_q_int(&q, hw);
        st_q_text(&q, o[i].task_id);
        st_q_real(&q, o[i].offset);
        st_q_int(&q, o[i].programs);
        st_q_int(&q, o[i].measurements);
        rc = st_q_run(&q, e);
    }
    return rc;
}

struct insert {
    const struct st_model *m;
    int64_t hw; /* 0 any */
    bool activate;
    const struct st_offset *offset;
    size_t n_offsets;
    const struct st_probe_set *probe;
    size_t n_probes;
};

/* Offsets of a model that is there, for the hardware that owns it. */
static int insert_offsets(struct st_db *db, const struct insert *a, struct tp_err *e)
{
    int64_t hw = 0;
    struct st_q q = st_q_begin(db, ST_SQL_W_HW_ID);
    st_q_text(&q, a->m->owner);
    int rc = st_q_first(&q, &hw, e);
    return rc < 0 ? rc : put_offsets(db, a->m->id, hw, a->offset, a->n_offsets, e);
}

static int insert(struct st_db *db, void *arg, struct tp_err *e)
{
    const struct insert *a = arg;
    const struct st_model *m = a->m;
    int rc = check_owner(db, m, a->hw, e);
    if (rc < 0 || (rc = check_id(db, m, e)) < 0)
        return rc;
    struct st_q q = st_q_begin(db, ST_SQL_W_MODEL_SEQ);
    st_q_int(&q, m->id);
    if ((rc = st_q_run(&q, e)) < 0)
        return rc;
    q = st_q_begin(db, ST_SQL_W_MODEL_PUT);
    st_q_int(&q, m->id);
    st_q_text(&q, m->role);
    st_q_text(&q, m->owner);
    st_q_text(&q, m->features_version);
    st_q_text(&q, m->state);
    st_q_int(&q, m->job);
    st_q_int(&q, m->records);
    st_q_int(&q, m->tasks);
    st_q_int(&q, m->created);
    st_q_text(&q, m->sha256);
    st_q_text(&q, m->parents ? m->parents : "[]");
    st_q_text(&q, m->metrics ? m->metrics : "{}");
    st_q_int(&q, m->calibration);
    rc = st_q_run(&q, e);
    for (size_t i = 0; i < a->n_probes && rc == 0; i++)
        rc = st_put_probes(db, &a->probe[i], e);
    if (rc < 0 || (a->n_offsets && (rc = insert_offsets(db, a, e)) < 0) || !a->activate)
        return rc;
    return set_active(db, strcmp(m->role, "ac") == 0, m->owner, m->id, e);
}

static int write_model(struct st_store *s, struct insert *a, struct tp_err *e)
{
    const bool ac = strcmp(a->m->role, "ac") == 0;
    if ((!ac && strcmp(a->m->role, "kb")) || (ac ? a->n_probes : a->n_offsets))
        return tp_fail(e, TP_E_BAD_PARAMETER,
                       "a model's role is ac or kb; only an ac comes with offsets, only a kb with probe sets");
    if (a->m->id <= 0)
        return tp_fail(e, TP_E_BAD_PARAMETER, "a model needs an id");
    return st_write(s, insert, a, e);
}

int st_model_insert(struct st_store *s, const struct st_model *m, bool activate, struct tp_err *e)
{
    return st_model_insert_with(s, m, 0, activate, NULL, 0, e);
}

int st_model_insert_with(struct st_store *s, const struct st_model *m, int64_t hw, bool activate,
                         const struct st_offset *o, size_t n, struct tp_err *e)
{
    struct insert a = {.m = m, .hw = hw, .activate = activate, .offset = o, .n_offsets = n};
    return write_model(s, &a, e);
}

int st_kb_insert(struct st_store *s, const struct st_model *m, bool activate, const struct st_probe_set *set, size_t n,
                 struct tp_err *e)
{
    struct insert a = {.m = m, .activate = activate, .probe = set, .n_probes = n};
    return write_model(s, &a, e);
}

struct recalibration {
    int64_t model, hw;
    const struct st_offset *offset;
    size_t n;
    int calibration;
};

static int recalibrate(struct st_db *db, void *arg, struct tp_err *e)
{
    struct recalibration *a = arg;
    int64_t one;
    struct st_q q = st_q_begin(db, ST_SQL_W_HW_EXISTS);
    st_q_int(&q, a->hw);
    int rc = st_q_first(&q, &one, e);
    if (rc <= 0)
        return rc < 0 ? rc : tp_fail(e, TP_E_UNKNOWN_HARDWARE, "the hardware is gone");
    q = st_q_begin(db, ST_SQL_W_MODEL_RECALIBRATE);
    st_q_int(&q, a->model);
    rc = st_q_step(&q, e);
    if (rc > 0) {
        a->calibration = (int)st_col_int(&q, 0);
        rc = st_q_step(&q, e); /* RETURNING shows its row before the update is over */
    } else if (rc == 0) {
        rc = unknown(e, a->model);
    }
    st_q_end(&q);
    return rc < 0 ? rc : put_offsets(db, a->model, a->hw, a->offset, a->n, e);
}

int st_offset_put(struct st_store *s, int64_t model, int64_t hw, const struct st_offset *o, size_t n, int *calibration,
                  struct tp_err *e)
{
    struct recalibration a = {model, hw, o, n, 0};
    int rc = st_write(s, recalibrate, &a, e);
    if (rc == 0)
        *calibration = a.calibration;
    return rc;
}

struct activate {
    const char *hardware;
    int64_t id;
};

enum { ROLE_SIZE = 8 };

static int whose(struct st_db *db, int64_t id, char role[ROLE_SIZE], char owner[ST_ID_MAX + 1], struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ST_SQL_W_MODEL_FIND);
    st_q_int(&q, id);
    int rc = st_q_step(&q, e);
    if (rc > 0) {
        st_col_copy(&q, 0, role, ROLE_SIZE);
        st_col_copy(&q, 1, owner, ST_ID_MAX + 1);
    }
    st_q_end(&q);
    return rc > 0 ? 0 : rc < 0 ? rc : unknown(e, id);
}

static int activate(struct st_db *db, void *arg, struct tp_err *e)
{
    const struct activate *a = arg;
    char family[ST_ID_MAX + 1], role[ROLE_SIZE], owner[ST_ID_MAX + 1];
    struct st_q q = st_q_begin(db, ST_SQL_W_HW_FIND);
    st_q_text(&q, a->hardware);
    int rc = st_q_step(&q, e);
    if (rc > 0)
        st_col_copy(&q, 1, family, sizeof family);
    st_q_end(&q);
    if (rc <= 0)
        return rc < 0 ? rc : tp_fail(e, TP_E_UNKNOWN_HARDWARE, "no hardware is registered as \"%.63s\"", a->hardware);

    if ((rc = whose(db, a->id, role, owner, e)) != 0)
        return rc;

    bool ac = strcmp(role, "ac") == 0;
    if (strcmp(owner, ac ? a->hardware : family))
        return tp_fail(e, TP_E_CONFLICT, "model %lld belongs to \"%s\"", (long long)a->id, owner);
    return set_active(db, ac, owner, a->id, e);
}

int st_model_activate(struct st_store *s, const char *hardware, int64_t id, struct tp_err *e)
{
    struct activate a = {.hardware = hardware, .id = id};
    return st_write(s, activate, &a, e);
}

static int deactivate(struct st_db *db, void *arg, struct tp_err *e)
{
    const struct activate *a = arg;
    int64_t hw;
    struct st_q q = st_q_begin(db, ST_SQL_W_HW_ID);
    st_q_text(&q, a->hardware);
    int rc = st_q_first(&q, &hw, e);
    if (rc <= 0)
        return rc < 0 ? rc : tp_fail(e, TP_E_UNKNOWN_HARDWARE, "no hardware is registered as \"%.63s\"", a->hardware);
    q = st_q_begin(db, ST_SQL_W_HW_DEACTIVATE);
    st_q_int(&q, hw);
    return st_q_run(&q, e);
}

int st_model_deactivate(struct st_store *s, const char *hardware, struct tp_err *e)
{
    struct activate a = {.hardware = hardware};
    return st_write(s, deactivate, &a, e);
}

static int activate_kb(struct st_db *db, void *arg, struct tp_err *e)
{
    const struct activate *a = arg; /* hardware: the family */
    char role[ROLE_SIZE], owner[ST_ID_MAX + 1];
    int64_t present;
    struct st_q q = st_q_begin(db, ST_SQL_R_FAMILY_KB);
    st_q_text(&q, a->hardware);
    int rc = st_q_first(&q, &present, e);
    if (rc <= 0)
        return rc < 0 ? rc : tp_fail(e, TP_E_UNKNOWN_FAMILY, "no hardware belongs to a family \"%.63s\"", a->hardware);
    if ((rc = whose(db, a->id, role, owner, e)) != 0)
        return rc;
    if (strcmp(role, "kb") || strcmp(owner, a->hardware))
        return tp_fail(e, TP_E_CONFLICT, "model %lld is no knowledge base of family \"%.63s\"", (long long)a->id,
                       a->hardware);
    return set_active(db, false, owner, a->id, e);
}

int st_family_activate(struct st_store *s, const char *family, int64_t id, struct tp_err *e)
{
    struct activate a = {.hardware = family, .id = id};
    return st_write(s, activate_kb, &a, e);
}

/* ---- reading ---- */

static int read_row(struct st_q *q, struct st_model *m, struct tp_err *e)
{
    bool oom = false;
    *m = (struct st_model){.id = st_col_int(q, 0)};
    st_col_copy(q, 1, m->role, sizeof m->role);
    st_col_copy(q, 2, m->owner, sizeof m->owner);
    st_col_copy(q, 3, m->features_version, sizeof m->features_version);
    st_col_copy(q, 4, m->state, sizeof m->state);
    m->job = st_col_int(q, 5);
    m->records = st_col_int(q, 6);
    m->tasks = st_col_int(q, 7);
    m->created = st_col_int(q, 8);
    st_col_copy(q, 9, m->sha256, sizeof m->sha256);
    m->parents = st_col_dup(q, 10, &oom);
    m->metrics = st_col_dup(q, 11, &oom);
    m->calibration = (int)st_col_int(q, 12);
    m->activated = st_col_int(q, 13);
    m->evaluation = st_col_dup(q, 14, &oom);
    if (!oom)
        return 0;
    st_model_clear(m);
    return tp_fail(e, TP_E_NO_MEMORY, "no memory to read a model");
}

int st_model_get(struct st_reader *r, int64_t id, struct st_model *out, struct tp_err *e)
{
    struct st_model m = {0};
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_MODEL_GET);
    st_q_int(&q, id);
    int rc = st_q_step(&q, e);
    if (rc > 0)
        rc = read_row(&q, &m, e);
    else if (rc == 0)
        rc = unknown(e, id);
    st_q_end(&q);
    if (rc == 0)
        *out = m;
    return rc;
}

int st_model_list(struct st_reader *r, const char *role, const char *owner, int64_t before, int limit, st_model_fn fn,
                  void *arg, struct tp_err *e)
{
    enum st_sql id = ST_SQL_R_MODEL_LIST;
    int rc;
    if (owner)
        id = role ? ST_SQL_R_MODEL_LIST_BOTH : ST_SQL_R_MODEL_LIST_OWNER;
    else if (role)
        id = ST_SQL_R_MODEL_LIST_ROLE;
    struct st_q q = st_q_begin(&r->db, id);
    st_q_int(&q, before > 0 ? before : INT64_MAX);
    st_q_int(&q, limit);
    if (owner)
        st_q_text(&q, owner);
    if (role)
        st_q_text(&q, role);
    while ((rc = st_q_step(&q, e)) > 0) {
        struct st_model m = {0};
        if ((rc = read_row(&q, &m, e)) < 0)
            break;
        rc = fn(arg, &m);
        st_model_clear(&m);
        if (rc)
            break;
    }
    st_q_end(&q);
    return rc < 0 ? rc : 0;
}

int st_offset_list(struct st_reader *r, int64_t model, st_offset_fn fn, void *arg, int *calibration, struct tp_err *e)
{
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_OFFSETS);
    st_q_int(&q, model);
    int rc, rows = 0;
    while ((rc = st_q_step(&q, e)) > 0) {
        struct st_offset o = {
            .offset = st_col_real(&q, 3), .programs = st_col_int(&q, 4), .measurements = st_col_int(&q, 5)};
        if (rows++ == 0)
            *calibration = (int)st_col_int(&q, 0);
        st_col_copy(&q, 2, o.task_id, sizeof o.task_id);
        if (st_col_int(&q, 1) && (rc = fn(arg, st_col_int(&q, 1), &o))) /* hardware 0: a model without offsets */
            break;
    }
    st_q_end(&q);
    return rc < 0 ? rc : rows ? 0 : unknown(e, model);
}
