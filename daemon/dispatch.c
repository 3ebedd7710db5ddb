/* Where a request is computed once its body is there: on the HTTP thread or in a pool.
 *
 * Small predictions must not wait for large ones. In order of size: a few programs are computed at once on the HTTP
 * thread, which saves the ways to another thread and back (as long as the computation itself takes); what takes up to a
 * millisecond or two goes to the express lane of the predict pool; the rest to its main lane.
 * Packed bodies are unpacked by the pools: how long that takes is not known before. One that turns out to be large in
 * the express lane moves on to the main one. */
#include "daemon/request_int.h"

enum { SLICE = 64 * 1024 };

enum td_lane td_lane_of(size_t n)
{
    return n <= TD_EXPRESS_BYTES ? TD_LANE_EXPRESS : TD_LANE_MAIN;
}

/* ---- packed bodies ---- */

static int decode(struct td_request *r, size_t limit, struct tp_err *e)
{
    struct td_decoder *d = td_decoder_new(r->coding, limit);
    struct tp_buf out = {0};
    int rc = d ? 0 : tp_fail(e, TP_E_NO_MEMORY, "not enough memory for the body");

    for (size_t at = 0; at < r->body.n && rc == 0; at += SLICE) {
        rc = td_decoder_push(d, r->body.p + at, r->body.n - at < SLICE ? r->body.n - at : SLICE, &out, e);
        if (rc == 0)
            rc = td_body_charge(r, &out, e);
    }
    if (rc == 0)
        rc = td_decoder_end(d, e);
    if (rc == 0) {
        struct tp_buf packed = r->body;
        r->body = out;
        out = packed;
        r->coding = TD_IDENTITY;
    }
    tp_buf_free(&out);
    td_decoder_free(d);
    return rc;
}

/* ---- pools ---- */

static void run(void *task, void *worker);

static int submit(struct td_request *r, enum td_lane lane, struct tp_err *e)
{
    struct td_daemon *d = r->http->server->daemon;
    bool predict = r->match.route->where == TD_PREDICT;
    int rc = td_admit_queue(r, lane, e);

    r->lane = lane;
    if (rc == 0 && (rc = td_pool_submit(predict ? d->predict_pool : d->api_pool, lane, run, r, e)) != 0)
        td_count(d->metrics, predict ? TD_C_LIMIT_PREDICT_QUEUE : TD_C_LIMIT_API_QUEUE, 1);
    return rc;
}

static void run(void *task, void *worker)
{
    struct td_request *r = task;
    size_t limit = r->lane == TD_LANE_EXPRESS && r->limit > TD_EXPRESS_BYTES ? TD_EXPRESS_BYTES : r->limit;
    struct tp_err e;
    int rc = 0;

    if (atomic_load_explicit(&r->http->server->cut, memory_order_relaxed)) /* nobody waits for it any more */
        rc = tp_fail(&e, TP_E_DRAINING, "the daemon is shutting down");
    else if ((rc = td_admit_run(r, &e)) == 0 && r->coding != TD_IDENTITY)
        rc = decode(r, limit, &e);
    if (rc == -TP_E_BODY_TOO_LARGE && limit < r->limit) {
        rc = submit(r, TD_LANE_MAIN, &e);
        if (rc == 0)
            return;
    }
    if (rc != 0) {
        td_reply_problem(r, &e);
        return;
    }
    r->worker = worker;
    r->match.route->handler(r);
}

/* ---- at once ---- */

static struct td_seat *sit(struct td_server *s)
{
    for (int i = 0; i < s->n_seats; i++)
        if (!atomic_exchange_explicit(&s->seat[i].taken, true, memory_order_acquire))
            return &s->seat[i];
    return NULL;
}

/* Returns whether there is a reply. */
static bool compute_at_once(struct td_request *r)
{
    struct td_seat *seat;

    if (r->match.route->where != TD_PREDICT || r->coding != TD_IDENTITY || r->body.n > TD_AT_ONCE_BYTES ||
        (seat = sit(r->http->server)) == NULL)
        return false;
    r->at_once = true;
    r->worker = seat->worker;
    r->match.route->handler(r);
    r->at_once = false;
    atomic_store_explicit(&seat->taken, false, memory_order_release);
    return r->response != NULL;
}

enum MHD_Result td_dispatch(struct td_request *r)
{
    struct td_server *s = r->http->server;
    struct tp_err e;

    r->phase = TD_PHASE_RUN;
    if (r->conn)
        atomic_store(&r->conn->deadline, INT64_MAX);
    if (!r->response && r->refused.code)
        td_request_problem(r, &r->refused);
    else if (!r->response && r->match.route->where == TD_INLINE)
        r->match.route->handler(r);
    if (r->response || r->refused.code || r->match.route->where == TD_INLINE || compute_at_once(r))
        return td_request_queue(r);

    r->suspended = true;
    atomic_fetch_add(&s->suspended, 1);
    MHD_suspend_connection(r->mhd);
    if (submit(r, r->match.route->where == TD_PREDICT ? td_lane_of(r->body.n) : TD_LANE_MAIN, &e) != 0)
        td_request_problem(r, &e);
    return MHD_YES;
}
