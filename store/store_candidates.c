/* The pool: candidates on their way in, what a measurement does to them, selections, lists.
 *
 * Invariants: a program is at most once in the pool of a hardware. `lease` is set exactly while the state is "leased",
 * and lease.open counts the candidates that point to it; a lease without any is deleted in the same transaction.
 * candidate_count agrees with the rows after every op. How often a program was measured is not kept here: the
 * measurements tell. Thread: writes on the writer, reads on the reader's. */
#include "store/db.h"

#include <string.h>

enum { SELECT_ROWS = ST_GROUP_ROWS /* of one step of a selection */ };

static const char *const state_name[ST_CANDIDATE_STATES] = {
    [ST_POOLED] = "pooled",     [ST_SELECTED] = "selected", [ST_LEASED] = "leased",
    [ST_MEASURED] = "measured", [ST_FAILED] = "failed",
};

const char *st_candidate_state_name(enum st_candidate_state s)
{
    return state_name[s];
}

static enum st_candidate_state state_of(struct tp_str s)
{
    for (int i = 0; i < ST_CANDIDATE_STATES; i++)
        if (strlen(state_name[i]) == s.n && memcmp(state_name[i], s.s, s.n) == 0)
            return (enum st_candidate_state)i;
    return ST_FAILED; /* the table's CHECK leaves no other */
}

/* ---- on the writer, within an ingest ---- */

int st_candidates_any(struct st_db *db, int64_t hw, bool *has, struct tp_err *e)
{
    int64_t one;
    struct st_q q = st_q_begin(db, ST_SQL_W_HAS_CANDIDATES);
    st_q_int(&q, hw);
    int rc = st_q_first(&q, &one, e);
    if (rc >= 0)
        *has = rc > 0;
    return rc < 0 ? rc : 0;
}

static int measured(struct st_db *db, int64_t hw, int64_t program, int64_t *n, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ST_SQL_W_MEASURED);
    st_q_int(&q, hw);
    st_q_int(&q, program);
    int rc = st_q_first(&q, n, e);
    return rc < 0 ? rc : 0;
}

/* 1 when it is that agent's lease. */
static int leased_by(struct st_db *db, int64_t lease, const char *agent, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ST_SQL_W_LEASE_AGENT);
    st_q_int(&q, lease);
    st_q_text(&q, agent);
    int64_t one;
    return st_q_first(&q, &one, e);
}

struct found {
    int64_t id, repeat, lease;
    enum st_candidate_state state;
};

/* 1 when the program is in the pool. */
static int find(struct st_db *db, int64_t hw, int64_t program, struct found *out, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ST_SQL_W_CANDIDATE_FIND);
    st_q_int(&q, hw);
    st_q_int(&q, program);
    int rc = st_q_step(&q, e);
    if (rc > 0)
        *out = (struct found){
            .id = st_col_int(&q, 0),
            .state = state_of(st_col_str(&q, 1)),
            .repeat = st_col_int(&q, 2),
            .lease = st_col_int(&q, 3),
        };
    st_q_end(&q);
    return rc;
}

static int move(struct st_db *db, const struct found *c, enum st_candidate_state to, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ST_SQL_W_CANDIDATE_MOVE);
    st_q_int(&q, c->id);
    st_q_text(&q, state_name[to]);
    int rc = st_q_run(&q, e);
    if (rc < 0 || c->lease == 0)
        return rc;
    q = st_q_begin(db, ST_SQL_W_LEASE_OPEN);
    st_q_int(&q, c->lease);
    st_q_int(&q, -1);
    if ((rc = st_q_run(&q, e)) < 0)
        return rc;
    q = st_q_begin(db, ST_SQL_W_LEASE_CLOSE);
    st_q_int(&q, c->lease);
    return st_q_run(&q, e);
}

int st_candidates_moved(struct st_db *db, int64_t hw, const struct st_moves *m, struct tp_err *e)
{
    int rc = 0;
    for (int i = 0; i < ST_CANDIDATE_STATES && rc == 0; i++) {
        if (m->n[i] == 0)
            continue;
        struct st_q q = st_q_begin(db, ST_SQL_W_CANDIDATE_COUNT);
        st_q_int(&q, hw);
        st_q_text(&q, state_name[i]);
        st_q_int(&q, m->n[i]);
        rc = st_q_run(&q, e);
    }
    return rc;
}

int st_candidate_measured(struct st_db *db, const struct st_measured *x, struct st_moves *m, struct tp_err *e)
{
    struct found c;
    int64_t n = 1;
    int rc = find(db, x->hardware, x->program, &c, e);
    if (rc <= 0)
        return rc;
    if (c.state == ST_MEASURED || (!x->fresh && c.state != ST_LEASED))
        return 0;
    if (c.repeat > 1 && (rc = measured(db, x->hardware, x->program, &n, e)) < 0)
        return rc;
    if (!x->fresh && n < c.repeat && (!x->agent || (rc = leased_by(db, c.lease, x->agent, e)) <= 0))
        return rc; /* somebody says again what is known; the one with the lease is measuring once more */
    enum st_candidate_state to = c.state == ST_LEASED ? ST_SELECTED : c.state;
    if (n >= c.repeat)
        to = ST_MEASURED;
    if (x->failure && x->fresh)
        to = ST_FAILED;
    if (to == c.state)
        return 0;
    m->n[c.state]--;
    m->n[to]++;
    return move(db, &c, to, e);
}

static int insert(struct st_db *db, const struct st_candidate_row *c, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ST_SQL_W_CANDIDATE_INSERT);
    st_q_int(&q, c->hardware);
    st_q_int(&q, c->program);
    st_q_int(&q, c->variant);
    st_q_int(&q, c->repeat);
    st_q_int(&q, c->created);
    return st_q_run(&q, e);
}

static int set_repeat(struct st_db *db, enum st_sql how, int64_t id, int repeat, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, how);
    st_q_int(&q, id);
    st_q_int(&q, repeat);
    return st_q_run(&q, e);
}

int st_candidate_put(struct st_db *db, const struct st_candidate_row *c, struct st_moves *m, bool *accepted,
                     struct tp_err *e)
{
    struct found was;
    int64_t n = 0;
    int rc = c->measured ? measured(db, c->hardware, c->program, &n, e) : 0;
    if (rc < 0)
        return rc;
    *accepted = false;
    if (n >= c->repeat)
        return 0;
    rc = find(db, c->hardware, c->program, &was, e);
    if (rc < 0)
        return rc;
    bool over = rc > 0 && (was.state == ST_MEASURED || was.state == ST_FAILED);
    *accepted = rc == 0 || over;
    m->n[ST_POOLED] += *accepted;
    if (over)
        m->n[was.state]--;
    if (rc == 0)
        return insert(db, c, e);
    if (over)
        return set_repeat(db, ST_SQL_W_CANDIDATE_AGAIN, was.id, c->repeat, e);
    return c->repeat > was.repeat ? set_repeat(db, ST_SQL_W_CANDIDATE_REPEAT, was.id, c->repeat, e) : 0;
}

int st_candidates_limit(struct st_db *db, int64_t hw, int64_t limit, struct tp_err *e)
{
    int64_t n = 0;
    struct st_q q = st_q_begin(db, ST_SQL_W_CANDIDATE_OPEN);
    st_q_int(&q, hw);
    int rc = st_q_first(&q, &n, e);
    if (rc < 0)
        return rc;
    return n <= limit ? 0
                      : tp_fail(e, TP_E_TOO_MANY, "%lld candidates would wait, %lld is the limit", (long long)n,
                                (long long)limit);
}

/* ---- selections ---- */

struct selecting {
    int64_t hardware, selection;
    struct st_pick *p;
    size_t n;
};

static int select_some(struct st_db *db, void *arg, struct tp_err *e)
{
    struct selecting *w = arg;
    struct st_moves m = {0};
    for (size_t i = 0; i < w->n; i++) {
        struct st_pick *p = &w->p[i];
        struct st_q q = st_q_begin(db, p->waiting ? ST_SQL_W_CANDIDATE_TURN : ST_SQL_W_CANDIDATE_SELECT);
        st_q_int(&q, p->candidate);
        if (!p->waiting)
            st_q_int(&q, w->selection);
        st_q_int(&q, p->turn);
        if (!p->waiting) {
            st_q_real(&q, p->score);
            st_q_real(&q, p->r);
            st_q_real(&q, p->d);
            st_q_real(&q, p->u);
        }
        int rc = st_q_run(&q, e);
        if (rc < 0)
            return rc;
        p->taken = !p->waiting && sqlite3_changes64(db->h) > 0;
        m.n[ST_POOLED] -= p->taken;
        m.n[ST_SELECTED] += p->taken;
    }
    return st_candidates_moved(db, w->hardware, &m, e);
}

int st_candidates_select(struct st_store *s, int64_t hw, int64_t selection, struct st_pick *p, size_t n,
                         struct tp_err *e)
{
    int rc = 0;
    for (size_t at = 0; at < n && rc == 0; at += SELECT_ROWS) {
        struct selecting w = {
            .hardware = hw, .selection = selection, .p = p + at, .n = n - at < SELECT_ROWS ? n - at : SELECT_ROWS};
        rc = st_write(s, select_some, &w, e);
    }
    return rc;
}

/* ---- reading ---- */

int st_candidate_counts(struct st_reader *r, int64_t hw, int64_t n[ST_CANDIDATE_STATES], struct tp_err *e)
{
    int64_t got[ST_CANDIDATE_STATES] = {0};
    int rc;
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_CANDIDATE_COUNTS);
    st_q_int(&q, hw);
    while ((rc = st_q_step(&q, e)) > 0)
        got[state_of(st_col_str(&q, 0))] = st_col_int(&q, 1);
    st_q_end(&q);
    if (rc == 0)
        memcpy(n, got, sizeof got);
    return rc;
}

/* The columns of sql.def's CANDIDATE_COLUMNS; variant and steps are left to the caller. */
enum { COL_VARIANT = 14, COL_HASH, COL_STEPS };

static int read_row(const struct st_q *q, struct st_candidate *c, struct tp_err *e)
{
    *c = (struct st_candidate){
        .id = st_col_int(q, 0),
        .state = state_of(st_col_str(q, 2)),
        .repeat = st_col_int(q, 3),
        .measurements = st_col_int(q, 4),
        .score = st_col_real(q, 5),
        .r = st_col_real(q, 6),
        .d = st_col_real(q, 7),
        .u = st_col_real(q, 8),
        .turn = st_col_int(q, 9),
        .selection = st_col_int(q, 10),
        .expires = st_col_int(q, 12),
        .created = st_col_int(q, 13),
    };
    struct tp_str hash = st_col_str(q, COL_HASH);
    if (hash.n != sizeof c->hash)
        return st_damaged(e, "program");
    memcpy(c->hash, hash.s, sizeof c->hash);
    st_col_copy(q, 1, c->task_id, sizeof c->task_id);
    st_col_copy(q, 11, c->agent, sizeof c->agent);
    return 0;
}

/* Hands out every row of a bound query until fn or with stops it; one of the two is NULL. */
static int walk(struct st_reader *r, struct st_q *q, st_candidate_fn fn, st_candidate_record_fn with, void *arg,
                struct tp_err *e)
{
    int rc;
    while ((rc = st_q_step(q, e)) > 0) {
        struct st_candidate c;
        if ((rc = read_row(q, &c, e)) < 0)
            break;
        if (with && (rc = st_load_program(r, st_col_int(q, COL_VARIANT), st_col_str(q, COL_STEPS), e)) < 0)
            break;
        r->rec.has_result = false;
        r->rec.result = (struct tp_result){0};
        if ((rc = with ? with(arg, &c, &r->rec) : fn(arg, &c)))
            break;
    }
    st_q_end(q);
    return rc < 0 ? rc : 0;
}

static struct st_q list(struct st_reader *r, int64_t hw, int state, int64_t after, int limit)
{
    struct st_q q = st_q_begin(&r->db, state < 0 ? ST_SQL_R_CANDIDATE_LIST : ST_SQL_R_CANDIDATE_LIST_STATE);
    st_q_int(&q, hw);
    st_q_int(&q, after);
    st_q_int(&q, limit);
    if (state >= 0)
        st_q_text(&q, state_name[state]);
    return q;
}

int st_candidate_list(struct st_reader *r, int64_t hw, int state, int64_t after, int limit, st_candidate_fn fn,
                      void *arg, struct tp_err *e)
{
    struct st_q q = list(r, hw, state, after, limit);
    return walk(r, &q, fn, NULL, arg, e);
}

int st_candidate_records(struct st_reader *r, int64_t hw, int state, int64_t after, int limit,
                         st_candidate_record_fn fn, void *arg, struct tp_err *e)
{
    struct st_q q = list(r, hw, state, after, limit);
    return walk(r, &q, NULL, fn, arg, e);
}

int st_lease_records(struct st_reader *r, int64_t lease, st_candidate_record_fn fn, void *arg, struct tp_err *e)
{
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_LEASE_CANDIDATES);
    st_q_int(&q, lease);
    return walk(r, &q, NULL, fn, arg, e);
}
