/* Leases: which agent measures which candidates until when.
 *
 * Invariant: a candidate is on at most one lease, and every lease ends by itself: at `expires` by the clock, which a
 * restart does not stop. Whoever takes a lease first clears away what is over, so the sweep is only for the eye of
 * whoever counts. A clock that went back cannot keep one for longer than the longest time to live: whoever looks for
 * what is over first shortens those. Thread: any; everything runs on the writer. */
#include "store/db.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

static int moved(struct st_db *db, int64_t hw, int64_t to_leased, struct tp_err *e)
{
    struct st_moves m = {0};
    m.n[ST_SELECTED] = -to_leased;
    m.n[ST_LEASED] = to_leased;
    return st_candidates_moved(db, hw, &m, e);
}

/* Ends a lease; *returned = candidates that wait again. */
static int end(struct st_db *db, int64_t id, int64_t hw, int64_t *returned, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ST_SQL_W_CANDIDATE_RETURN);
    st_q_int(&q, id);
    int rc = st_q_run(&q, e);
    if (rc < 0)
        return rc;
    *returned = sqlite3_changes64(db->h);
    q = st_q_begin(db, ST_SQL_W_LEASE_DELETE);
    st_q_int(&q, id);
    rc = st_q_run(&q, e);
    return rc < 0 ? rc : moved(db, hw, -*returned, e);
}

int st_lease_end_first(struct st_db *db, struct st_q *q, int64_t *returned, struct tp_err *e)
{
    int64_t id = 0, hw = 0, n = 0;
    int rc = st_q_step(q, e);
    if (rc > 0) {
        id = st_col_int(q, 0);
        hw = st_col_int(q, 1);
    }
    st_q_end(q);
    if (rc <= 0 || (rc = end(db, id, hw, &n, e)) < 0)
        return rc;
    *returned += n;
    return 1;
}

struct clock {
    int64_t now, longest; /* time to live that a lease can have */
};

static struct clock at(const struct st_store *s, int64_t now)
{
    return (struct clock){now, s->lease_longest};
}

/* *returned = candidates of leases that are over. */
static int expire(struct st_db *db, struct clock c, int64_t *returned, struct tp_err *e)
{
    *returned = 0;
    struct st_q q = st_q_begin(db, ST_SQL_W_LEASE_TOO_LONG);
    st_q_int(&q, c.now);
    st_q_int(&q, c.longest);
    int rc = st_q_run(&q, e);
    if (rc < 0)
        return rc;
    do {
        q = st_q_begin(db, ST_SQL_W_LEASE_EXPIRED);
        st_q_int(&q, c.now);
        rc = st_lease_end_first(db, &q, returned, e);
    } while (rc > 0);
    return rc;
}

/* ---- take ---- */

struct take {
    const struct st_lease_ask *ask;
    struct clock clock;
    char token[ST_TOKEN_LEN + 1];
    struct st_lease lease;
};

static int with_agent(struct st_db *db, enum st_sql id, int64_t hw, const char *agent, int64_t *v, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, id);
    st_q_int(&q, hw);
    st_q_text(&q, agent);
    int rc = st_q_first(&q, v, e);
    return rc < 0 ? rc : 0;
}

static int counts(struct st_db *db, int64_t hw, int64_t *selected, int64_t *leased, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ST_SQL_W_CANDIDATE_WAITING);
    st_q_int(&q, hw);
    int rc = st_q_step(&q, e);
    if (rc > 0) {
        *selected = st_col_int(&q, 0);
        *leased = st_col_int(&q, 1);
    }
    st_q_end(&q);
    return rc < 0 ? rc : 0;
}

/* How many the agent may have now: an equal share, not more than it asks for; 0 when none wait. */
static int share(struct st_db *db, int64_t hw, const struct st_lease_ask *ask, int64_t *out, struct tp_err *e)
{
    int64_t selected = 0, leased = 0, others = 0, held = 0;
    int rc = counts(db, hw, &selected, &leased, e);
    if (rc == 0)
        rc = with_agent(db, ST_SQL_W_LEASE_OTHERS, hw, ask->agent, &others, e);
    if (rc == 0)
        rc = with_agent(db, ST_SQL_W_LEASE_HELD, hw, ask->agent, &held, e);
    if (rc < 0)
        return rc;
    int64_t n = (selected + leased + others) / (others + 1) - held;
    n = n < 1 ? 1 : n > ask->max ? ask->max : n;
    *out = selected < n ? selected : n;
    return 0;
}

static int take(struct st_db *db, void *arg, struct tp_err *e)
{
    struct take *w = arg;
    const struct st_lease_ask *a = w->ask;
    int64_t hw, n = 0, got;
    w->lease = (struct st_lease){0};
    struct st_q q = st_q_begin(db, ST_SQL_W_HW_ID);
    st_q_text(&q, a->hardware);
    int rc = st_q_first(&q, &hw, e);
    if (rc <= 0)
        return rc < 0 ? rc : tp_fail(e, TP_E_UNKNOWN_HARDWARE, "no hardware is registered as \"%.63s\"", a->hardware);
    if ((rc = expire(db, w->clock, &w->lease.expired, e)) < 0 || (rc = share(db, hw, a, &n, e)) < 0 || n == 0)
        return rc;
    q = st_q_begin(db, ST_SQL_W_LEASE_INSERT);
    st_q_text(&q, w->token);
    st_q_int(&q, hw);
    st_q_text(&q, a->agent);
    st_q_int(&q, a->ttl);
    st_q_int(&q, a->now);
    st_q_int(&q, a->now + a->ttl);
    if ((rc = st_q_run(&q, e)) < 0)
        return rc;
    int64_t id = sqlite3_last_insert_rowid(db->h);
    q = st_q_begin(db, ST_SQL_W_CANDIDATE_LEASE);
    st_q_int(&q, id);
    st_q_int(&q, hw);
    st_q_int(&q, n);
    if ((rc = st_q_run(&q, e)) < 0)
        return rc;
    got = sqlite3_changes64(db->h);
    q = st_q_begin(db, ST_SQL_W_LEASE_OPEN);
    st_q_int(&q, id);
    st_q_int(&q, got);
    if ((rc = st_q_run(&q, e)) < 0 || (rc = moved(db, hw, got, e)) < 0)
        return rc;
    w->lease.id = id;
    w->lease.open = got;
    w->lease.expires = a->now + a->ttl;
    snprintf(w->lease.token, sizeof w->lease.token, "%s", w->token);
    return 0;
}

/* Nobody can guess a token, so only the agent that holds a lease ends it. */
static int make_token(char out[ST_TOKEN_LEN + 1], struct tp_err *e)
{
    uint8_t bytes[ST_TOKEN_LEN / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return tp_fail(e, TP_E_INTERNAL, "the system gives no random bytes");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

int st_lease_take(struct st_store *s, const struct st_lease_ask *ask, struct st_lease *out, struct tp_err *e)
{
    struct take w = {.ask = ask, .clock = at(s, ask->now)};
    if (!st_id_valid(ask->agent))
        return tp_fail(e, TP_E_BAD_IDENTIFIER, "names of agents match [a-z0-9][a-z0-9._-]{0,62}");
    int rc = make_token(w.token, e);
    if (rc == 0)
        rc = st_write(s, take, &w, e);
    if (rc == 0)
        *out = w.lease;
    return rc;
}

/* ---- renew, return ---- */

struct with_token {
    const char *token;
    struct clock clock;
    int64_t ttl, returned;
    struct st_lease lease;
};

struct found {
    int64_t id, hardware, ttl, open;
};

/* 1 when there is such a lease. */
static int find(struct st_db *db, const struct with_token *w, struct found *out, struct tp_err *e)
{
    int64_t returned;
    int rc = expire(db, w->clock, &returned, e);
    if (rc < 0)
        return rc;
    struct st_q q = st_q_begin(db, ST_SQL_W_LEASE_FIND);
    st_q_text(&q, w->token);
    rc = st_q_step(&q, e);
    if (rc > 0) {
        out->id = st_col_int(&q, 0);
        out->hardware = st_col_int(&q, 1);
        out->ttl = st_col_int(&q, 2);
        out->open = st_col_int(&q, 3);
    }
    st_q_end(&q);
    return rc;
}

static int unknown(const char *token, struct tp_err *e)
{
    return tp_fail(e, TP_E_UNKNOWN_LEASE,
                   "there is no lease \"%.40s\": it was returned or ended, ran out, or all of it is measured", token);
}

static int renew(struct st_db *db, void *arg, struct tp_err *e)
{
    struct with_token *w = arg;
    struct found l;
    w->lease.id = 0;
    int rc = find(db, w, &l, e);
    if (rc <= 0) /* not an error of the write: what had run out stays returned */
        return rc;
    int64_t ttl = w->ttl ? w->ttl : l.ttl < w->clock.longest ? l.ttl : w->clock.longest;
    struct st_q q = st_q_begin(db, ST_SQL_W_LEASE_RENEW);
    st_q_int(&q, l.id);
    st_q_int(&q, ttl);
    st_q_int(&q, w->clock.now + ttl);
    w->lease = (struct st_lease){.id = l.id, .open = l.open, .expires = w->clock.now + ttl};
    return st_q_run(&q, e);
}

int st_lease_renew(struct st_store *s, const char *token, int64_t ttl, int64_t now, struct st_lease *out,
                   struct tp_err *e)
{
    struct with_token w = {.token = token, .ttl = ttl, .clock = at(s, now)};
    int rc = st_write(s, renew, &w, e);
    if (rc == 0 && w.lease.id == 0)
        rc = unknown(token, e);
    if (rc < 0)
        return rc;
    *out = w.lease;
    snprintf(out->token, sizeof out->token, "%s", token);
    return 0;
}

static int give_back(struct st_db *db, void *arg, struct tp_err *e)
{
    struct with_token *w = arg;
    struct found l;
    w->lease.id = 0;
    int rc = find(db, w, &l, e);
    if (rc <= 0)
        return rc;
    w->lease.id = l.id;
    return end(db, l.id, l.hardware, &w->returned, e);
}

int st_lease_return(struct st_store *s, const char *token, int64_t now, int64_t *returned, struct tp_err *e)
{
    struct with_token w = {.token = token, .clock = at(s, now)};
    int rc = st_write(s, give_back, &w, e);
    if (rc == 0 && w.lease.id == 0)
        rc = unknown(token, e);
    if (rc == 0)
        *returned = w.returned;
    return rc;
}

/* ---- start, sweep ---- */

static int grace_run(struct st_db *db, void *arg, struct tp_err *e)
{
    const struct with_token *w = arg;
    struct st_q q = st_q_begin(db, ST_SQL_W_LEASE_GRACE);
    st_q_int(&q, w->clock.now);
    st_q_int(&q, w->ttl);
    return st_q_run(&q, e);
}

int st_lease_grace(struct st_store *s, int64_t now, int64_t grace, struct tp_err *e)
{
    struct with_token w = {.ttl = grace, .clock = at(s, now)};
    return st_write(s, grace_run, &w, e);
}

struct sweep {
    struct st_op op; /* first: the writer hands it back */
    int64_t now, returned;
    void (*done)(void *arg, int64_t returned);
    void *arg;
};

static int sweep_run(struct st_store *s, struct st_op *op, struct tp_err *e)
{
    struct sweep *w = (struct sweep *)op;
    return expire(&s->db, at(s, w->now), &w->returned, e);
}

static void sweep_finish(struct st_op *op)
{
    struct sweep *w = (struct sweep *)op;
    w->done(w->arg, op->code == 0 ? w->returned : 0);
    free(w);
}

int st_lease_sweep(struct st_store *s, int64_t now, void (*done)(void *arg, int64_t returned), void *arg,
                   struct tp_err *e)
{
    struct sweep *w = calloc(1, sizeof *w);
    if (!w)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to end leases");
    *w = (struct sweep){
        .op = {.rows = 1, .run = sweep_run, .finish = sweep_finish}, .now = now, .done = done, .arg = arg};
    int rc = st_writer_push(s, &w->op, true, e);
    if (rc < 0)
        free(w);
    return rc;
}
