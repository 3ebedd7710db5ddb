/* Taking back: leases without their tokens, selections, what is pooled.
 *
 * There may be a million rows, so each goes in steps: an op that fills a transaction and is queued again behind those
 * who wait, until a step finds less than it could do. Counts agree with the rows after every step. Ids are never used
 * twice, so what a selection chose before and finds gone stays gone. Thread: any; everything runs on the writer. */
#include "store/db.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEP_ROWS = ST_GROUP_ROWS };

int st_candidates_delete(struct st_db *db, int64_t hw, enum st_candidate_state state, int64_t newest, int64_t most,
                         int64_t *n, struct tp_err *e)
{
    struct st_moves m = {0};
    struct st_q q = st_q_begin(db, ST_SQL_W_CANDIDATE_DELETE);
    st_q_int(&q, hw);
    st_q_text(&q, st_candidate_state_name(state));
    st_q_int(&q, newest);
    st_q_int(&q, most);
    int rc = st_q_run(&q, e);
    if (rc < 0)
        return rc;
    *n = sqlite3_changes64(db->h);
    m.n[state] = -*n;
    return st_candidates_moved(db, hw, &m, e);
}

/* ---- steps ---- */

struct work {
    struct st_op op; /* first: the writer hands it back */
    struct st_store *s;
    int (*step)(struct st_db *db, struct work *w, struct tp_err *e);
    int64_t hardware;
    char agent[ST_ID_MAX + 1];  /* "" any */
    int64_t newest;             /* id there was at the first step, 0 before it */
    int64_t leases, candidates; /* of this step */
    struct st_taken_back all;
    st_taken_back_fn done;
    void *arg;
};

static int run(struct st_store *s, struct st_op *op, struct tp_err *e)
{
    struct work *w = (struct work *)op;
    w->leases = w->candidates = 0;
    return w->step(&s->db, w, e);
}

static void finish(struct st_op *op)
{
    struct work *w = (struct work *)op;
    int rc = op->code;
    w->all.err = op->err;
    if (rc == 0) {
        w->all.leases += w->leases;
        w->all.candidates += w->candidates;
    }
    if (rc == 0 && w->candidates >= STEP_ROWS && (rc = st_writer_push(w->s, op, true, &w->all.err)) == 0)
        return;
    w->all.code = rc;
    w->done(w->arg, &w->all);
    free(w);
}

/* like: what differs. */
static int begin(struct st_store *s, const struct work *like, st_taken_back_fn done, void *arg, struct tp_err *e)
{
    struct work *w = malloc(sizeof *w);
    if (!w)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to take candidates back");
    *w = *like;
    w->op = (struct st_op){.rows = 1, .run = run, .finish = finish};
    w->s = s;
    w->done = done;
    w->arg = arg;
    int rc = st_writer_push(s, &w->op, true, e);
    if (rc < 0)
        free(w);
    return rc;
}

/* What comes in later than the first step is left alone: else somebody who is quick would keep it from ending. */
static int find_newest(struct st_db *db, enum st_sql id, struct work *w, struct tp_err *e)
{
    if (w->newest != 0)
        return 0;
    struct st_q q = st_q_begin(db, id);
    int rc = st_q_first(&q, &w->newest, e);
    return rc < 0 ? rc : 0;
}

/* ---- what is taken back ---- */

static int end_leases(struct st_db *db, struct work *w, struct tp_err *e)
{
    int rc = find_newest(db, ST_SQL_W_LEASE_NEWEST, w, e);
    if (rc < 0)
        return rc;
    while (w->candidates < STEP_ROWS) {
        struct st_q q = st_q_begin(db, *w->agent ? ST_SQL_W_LEASE_OF_AGENT : ST_SQL_W_LEASE_OF_HW);
        st_q_int(&q, w->hardware);
        st_q_int(&q, w->newest);
        if (*w->agent)
            st_q_text(&q, w->agent);
        rc = st_lease_end_first(db, &q, &w->candidates, e);
        if (rc <= 0)
            return rc;
        w->leases++;
    }
    return 0;
}

int st_leases_end(struct st_store *s, int64_t hw, const char *agent, st_taken_back_fn done, void *arg, struct tp_err *e)
{
    struct work w = {.step = end_leases, .hardware = hw};
    snprintf(w.agent, sizeof w.agent, "%s", agent ? agent : "");
    return begin(s, &w, done, arg, e);
}

static int unselect(struct st_db *db, struct work *w, struct tp_err *e)
{
    struct st_moves m = {0};
    struct st_q q = st_q_begin(db, ST_SQL_W_CANDIDATE_UNSELECT);
    st_q_int(&q, w->hardware);
    st_q_int(&q, STEP_ROWS);
    int rc = st_q_run(&q, e);
    if (rc < 0)
        return rc;
    w->candidates = sqlite3_changes64(db->h);
    m.n[ST_SELECTED] = -w->candidates;
    m.n[ST_POOLED] = w->candidates;
    return st_candidates_moved(db, w->hardware, &m, e);
}

int st_candidates_unselect(struct st_store *s, int64_t hw, st_taken_back_fn done, void *arg, struct tp_err *e)
{
    return begin(s, &(struct work){.step = unselect, .hardware = hw}, done, arg, e);
}

static int remove_pooled(struct st_db *db, struct work *w, struct tp_err *e)
{
    int rc = find_newest(db, ST_SQL_W_CANDIDATE_NEWEST, w, e);
    return rc < 0 ? rc : st_candidates_delete(db, w->hardware, ST_POOLED, w->newest, STEP_ROWS, &w->candidates, e);
}

int st_candidates_remove(struct st_store *s, int64_t hw, st_taken_back_fn done, void *arg, struct tp_err *e)
{
    return begin(s, &(struct work){.step = remove_pooled, .hardware = hw}, done, arg, e);
}
