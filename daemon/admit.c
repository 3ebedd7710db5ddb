/* Admission: every limit on how much may be going on, and what is said to those who are too many.
 *
 * Nothing is begun that could not be finished: a request is refused before its body is read when what is there already
 * would keep it waiting for too long, by the pace of the last requests, and once more when its body is there. A refusal
 * costs little, counts by its limit, and its Retry-After is how long what waits now will take. Health is never refused.
 * HTTP threads; td_admit_run also on the predict pool. */
#include "daemon/request_int.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { RETRY_MAX_S = 60, TIMEOUT_MAX_MS = 3600000 };

static struct td_daemon *daemon_of(const struct td_request *r)
{
    return r->http->server->daemon;
}

static int retry_after(int64_t wait_ms)
{
    int64_t s = (wait_ms + 999) / 1000;

    return s < 1 ? 1 : s > RETRY_MAX_S ? RETRY_MAX_S : (int)s;
}

int td_limit(struct td_request *r, enum td_counter limit, int64_t wait_ms, struct tp_err *e, const char *fmt, ...)
{
    char text[sizeof e->detail];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    td_count(daemon_of(r)->metrics, limit, 1);
    r->retry_s = retry_after(wait_ms);
    return tp_fail(e, TP_E_OVERLOADED, "%s; try again later", text);
}

/* What waits for the predict pool, or for the store. */
static int64_t backlog_ms(const struct td_daemon *d, const struct td_route *route)
{
    int64_t api = td_pool_wait_us(d->api_pool, TD_LANE_MAIN) / 1000, store = st_ingest_wait_ms(d->store);

    if (route && route->where == TD_PREDICT)
        return td_pool_wait_us(d->predict_pool, TD_LANE_MAIN) / 1000;
    return api > store ? api : store;
}

int td_retry_after(const struct td_request *r)
{
    return r->retry_s > 0 ? r->retry_s : retry_after(backlog_ms(daemon_of(r), r->match.route));
}

/* X-Request-Timeout-Ms: how long the client will wait, from its first byte on. */
static int read_deadline(struct td_request *r, struct tp_err *e)
{
    const char *given = td_req_header(r, "X-Request-Timeout-Ms");
    char *end;
    long long ms;

    if (!given)
        return 0;
    errno = 0;
    ms = strtoll(given, &end, 10);
    if (*given < '0' || *given > '9' || *end || errno || ms < 1 || ms > TIMEOUT_MAX_MS)
        return tp_fail(e, TP_E_BAD_PARAMETER, "X-Request-Timeout-Ms: a whole number from 1 to %d is accepted",
                       TIMEOUT_MAX_MS);
    r->deadline_us = r->t0 + ms * 1000;
    return 0;
}

static int check_queue(struct td_request *r, enum td_lane lane, struct tp_err *e)
{
    struct td_daemon *d = daemon_of(r);
    bool predict = r->match.route->where == TD_PREDICT;
    struct td_pool *pool = predict ? d->predict_pool : d->api_pool;
    size_t waiting = td_pool_queued(pool, lane),
           most = (size_t)(predict ? d->config.predict_queue : d->config.api_queue);
    int64_t wait_ms = td_pool_wait_us(pool, lane) / 1000;

    if (waiting >= most)
        return td_limit(r, predict ? TD_C_LIMIT_PREDICT_QUEUE : TD_C_LIMIT_API_QUEUE, wait_ms, e,
                        "%zu requests wait already", waiting);
    if (predict && waiting > 0 && wait_ms > d->config.predict_wait_ms)
        return td_limit(r, TD_C_LIMIT_PREDICT_WAIT, wait_ms, e, "this would wait for about %lld ms",
                        (long long)wait_ms);
    if (r->deadline_us && waiting > 0 && td_now_us() + wait_ms * 1000 > r->deadline_us)
        return td_limit(r, TD_C_DEADLINE, wait_ms, e,
                        "this would wait for about %lld ms, which is too long for its deadline", (long long)wait_ms);
    return 0;
}

int td_admit(struct td_request *r, size_t length, struct tp_err *e)
{
    struct td_server *s = r->http->server;
    struct td_daemon *d = s->daemon;
    const struct td_config *c = &d->config;
    int64_t backlog = backlog_ms(d, r->match.route);
    int rc;

    if (atomic_load(&s->connections) > (size_t)c->connection_limit) {
        r->close = true;
        return td_limit(r, TD_C_LIMIT_CONNECTIONS, backlog, e, "too many connections are open");
    }
    if (r->conn && r->conn->surplus) {
        r->close = true;
        td_count(d->metrics, TD_C_LIMIT_ADDRESS, 1);
        return tp_fail(e, TP_E_TOO_MANY, "%lld connections of one address are accepted",
                       (long long)c->address_connections);
    }
    if (atomic_load(&s->busy) > (size_t)c->limit_requests)
        return td_limit(r, TD_C_LIMIT_REQUESTS, backlog, e, "too many requests are in flight");
    if (atomic_load(&d->memory_full))
        return td_limit(r, TD_C_LIMIT_MEMORY, backlog, e, "memory is short");
    if ((rc = read_deadline(r, e)) != 0)
        return rc;
    if (r->match.route->where == TD_INLINE)
        return 0;
    /* a length that is not known: in favour of the client */
    return check_queue(r,
                       r->match.route->where == TD_API ? TD_LANE_MAIN
                       : length == SIZE_MAX            ? TD_LANE_EXPRESS
                                                       : td_lane_of(length),
                       e);
}

int td_admit_queue(struct td_request *r, enum td_lane lane, struct tp_err *e)
{
    return check_queue(r, lane, e);
}

int td_admit_run(struct td_request *r, struct tp_err *e)
{
    if (!r->deadline_us || td_now_us() <= r->deadline_us)
        return 0;
    td_count(daemon_of(r)->metrics, TD_C_DEADLINE, 1);
    return tp_fail(e, TP_E_DEADLINE, "its turn came after the X-Request-Timeout-Ms of this request; nothing was done");
}
