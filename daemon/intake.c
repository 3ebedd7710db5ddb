/* From the first header to the last byte of the body, and the end: libmicrohttpd's callbacks.
 *
 * Facts of libmicrohttpd 0.9.75 that shape this: a reply can be queued only on the first call (headers) or the last one
 * (body complete); one that is queued on the first call while a POST or PUT body is under way ends the connection, and
 * with other methods the body would be taken for the next request. So a refused request is answered at once only when
 * its body would be long, and then the connection closes; else its body is read, thrown away, and the reply comes at
 * the end. Everything here runs on the connection's HTTP thread. */
#include "daemon/request_int.h"

#include "daemon/linger.h"
#include "daemon/log.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct td_config *config_of(const struct td_request *r)
{
    return &r->http->server->daemon->config;
}

/* ---- the request line ---- */

static uint64_t mix(uint64_t x) /* splitmix64's finaliser */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* libmicrohttpd gives the raw target only here, before it parses headers. What is wrong with it is told later, when a
 * reply can be queued. */
void *td_intake_target(void *cls, const char *uri, struct MHD_Connection *c)
{
    struct td_http *h = cls;
    struct td_request *r = calloc(1, sizeof *r);
    const union MHD_ConnectionInfo *info;

    if (!r)
        return NULL;
    r->magic = TD_REQUEST_MAGIC;
    r->http = h;
    r->mhd = c;
    r->t0 = td_now_us();
    info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    r->conn = info ? info->socket_context : NULL;
    if (r->conn) {
        int64_t begun = atomic_exchange(&r->conn->begun, 0);
        atomic_store(&r->conn->idle, false);
        atomic_store(&r->conn->deadline, (begun ? begun : r->t0 / 1000) + config_of(r)->request_timeout_seconds * 1000);
    }
    if (td_target_parse(uri, &r->target, &r->refused) == 0)
        r->refused.code = TP_OK;
    atomic_fetch_add(&h->server->busy, 1);
    return r;
}

/* ---- the headers ---- */

static void set_id(struct td_request *r)
{
    const char *given = td_req_header(r, "X-Request-Id");
    size_t n = given ? strspn(given, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") : 0;

    if (n > 0 && n <= TD_REQUEST_ID_MAX && !given[n])
        memcpy(r->id, given, n + 1);
    else
        snprintf(r->id, sizeof r->id, "%016" PRIx64,
                 mix(r->http->server->id_seed + atomic_fetch_add(&r->http->server->next_id, 1)));
}

/* The declared length of the body: 0 none, SIZE_MAX unknown (chunked). libmicrohttpd has refused malformed ones. */
static size_t declared(const struct td_request *r)
{
    const char *te = td_req_header(r, MHD_HTTP_HEADER_TRANSFER_ENCODING),
               *cl = td_req_header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    unsigned long long n;

    if (te)
        return SIZE_MAX;
    if (!cl)
        return 0;
    n = strtoull(cl, NULL, 10); /* too large for it: ULLONG_MAX, which is beyond every limit */
    return n < SIZE_MAX ? (size_t)n : SIZE_MAX - 1;
}

static enum MHD_Result count_framing(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    (void)kind, (void)value;
    if (strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0 || strcasecmp(key, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0)
        ++*(int *)cls;
    return MHD_YES;
}

/* A body whose end two readers could see in different places is refused: a proxy in front of us may be the other one.
 * libmicrohttpd takes the first of several lengths, and chunks before a length. */
static int check_framing(struct td_request *r, size_t length, struct tp_err *e)
{
    const char *te = td_req_header(r, MHD_HTTP_HEADER_TRANSFER_ENCODING);
    int n = 0;

    if (length == 0 && !td_req_header(r, MHD_HTTP_HEADER_CONTENT_LENGTH))
        return 0;
    MHD_get_connection_values(r->mhd, MHD_HEADER_KIND, count_framing, &n);
    if (n == 1 && (!te || strcasecmp(te, "chunked") == 0))
        return 0;
    r->close = true;
    return tp_fail(e, TP_E_BAD_REQUEST,
                   "give the length of the body once, as Content-Length or as Transfer-Encoding: chunked");
}

static size_t limit_of(const struct td_request *r)
{
    const struct td_config *c = config_of(r);
    const struct td_route *route = r->match.route;

    if (route->body == TD_BODY_WEIGHTS)
        return (size_t)c->limit_weights_bytes;
    if (route->body == TD_BODY_RECORDS)
        return (size_t)(route->where == TD_PREDICT ? c->limit_predict_bytes : c->limit_measurements_bytes);
    return (size_t)c->limit_control_bytes;
}

/* NDJSON is also what a body without a type, or with the type that curl gives everything, is taken for, unless a web
 * page sends it: browsers may post such bodies anywhere without asking, and name the page in Origin. */
static int check_media(struct td_request *r, size_t length, struct tp_err *e)
{
    const char *type = td_req_header(r, MHD_HTTP_HEADER_CONTENT_TYPE);

    switch (r->match.route->body) {
    case TD_BODY_NONE:
        break;
    case TD_BODY_JSON:
        if (td_media_is(type, "application/json") || (!type && length == 0))
            return 0;
        return tp_fail(e, TP_E_MEDIA_TYPE, "send the body as Content-Type: application/json");
    case TD_BODY_WEIGHTS:
        if (td_media_is(type, "application/octet-stream"))
            return 0;
        return tp_fail(e, TP_E_MEDIA_TYPE, "send a safetensors file as Content-Type: application/octet-stream");
    case TD_BODY_RECORDS:
        if (td_media_is(type, "application/json"))
            return 0;
        r->ndjson = td_media_is(type, "application/x-ndjson") || td_media_is(type, "application/ndjson") ||
                    ((!type || td_media_is(type, "application/x-www-form-urlencoded")) && !td_req_header(r, "Origin"));
        if (r->ndjson)
            return 0;
        return tp_fail(e, TP_E_MEDIA_TYPE,
                       "send records as Content-Type: application/x-ndjson (log lines) or application/json");
    }
    return 0;
}

static int prepare_body(struct td_request *r, size_t length, struct tp_err *e)
{
    int coding, rc;

    r->limit = limit_of(r);
    if (length != SIZE_MAX && length > r->limit)
        return tp_fail(e, TP_E_BODY_TOO_LARGE, "the body has %zu bytes; at most %zu are accepted", length, r->limit);
    if (r->match.route->body == TD_BODY_NONE)
        return 0;
    if ((rc = check_media(r, length, e)) != 0)
        return rc;
    if ((coding = td_coding_parse(td_req_header(r, MHD_HTTP_HEADER_CONTENT_ENCODING), e)) < 0)
        return coding;
    r->coding = (enum td_coding)coding;
    r->wanted = length > 0;
    return 0;
}

static bool is_health(const struct td_route *route)
{
    return strcmp(route->path, "/livez") == 0 || strcmp(route->path, "/readyz") == 0 ||
           strcmp(route->path, "/metrics") == 0;
}

static bool changes(const char *method)
{
    return strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0 && strcmp(method, "OPTIONS") != 0;
}

/* May who asks do this? Refusals count, and say when a quota is free again. */
static int authorise(struct td_request *r, const char *method, struct tp_err *e)
{
    struct td_daemon *d = r->http->server->daemon;
    enum td_role need = r->match.route->role;
    int rc;

    if (need == TD_ROLE_NONE && strcmp(r->match.route->path, "/metrics") == 0 && !d->config.metrics_open)
        need = TD_ROLE_PREDICT;
    if (need == TD_ROLE_NONE)
        return 0;
    rc = td_auth_check(d->auth,
                       &(struct td_credentials){.peer = r->conn ? &r->conn->peer : NULL,
                                                .authorization = td_req_header(r, MHD_HTTP_HEADER_AUTHORIZATION),
                                                .origin = td_req_header(r, "Origin"),
                                                .host = td_req_header(r, MHD_HTTP_HEADER_HOST),
                                                .change = changes(method),
                                                .need = need},
                       r->t0, &r->grant, &r->retry_s, e);
    if (rc)
        td_count(d->metrics,
                 rc == -TP_E_UNAUTHORIZED ? TD_C_AUTH_UNKNOWN
                 : rc == -TP_E_TOO_MANY   ? TD_C_AUTH_QUOTA
                                          : TD_C_AUTH_ROLE,
                 1);
    return rc;
}

/* Every reason to refuse a request that can be seen before its body. */
static int check(struct td_request *r, const char *method, size_t length, struct tp_err *e)
{
    int rc;

    if (r->refused.code)
        return -(int)r->refused.code;
    if ((rc = check_framing(r, length, e)) != 0)
        return rc;
    rc = td_route_match(td_routes, method, &r->target, &r->match, e);
    if (rc)
        return rc;
    const struct td_route *route = r->match.route;
    if (r->http->listener.health && !is_health(route))
        return tp_fail(e, TP_E_NO_ROUTE, "this listener serves /livez, /readyz and /metrics only");
    if ((rc = authorise(r, method, e)) != 0)
        return rc;
    if (is_health(route))
        return prepare_body(r, length, e);
    if (atomic_load(&r->http->server->draining)) {
        r->close = true;
        return tp_fail(e, TP_E_DRAINING, "the daemon is shutting down");
    }
    if ((rc = td_admit(r, length, e)) != 0)
        return rc;
    return prepare_body(r, length, e);
}

/* OPTIONS is answered from the table. */
static bool options(struct td_request *r, const char *method)
{
    struct tp_err e;
    struct MHD_Response *resp;
    struct tp_buf nothing = {0};

    if (strcmp(method, "OPTIONS") != 0 || r->refused.code)
        return false;
    if (strcmp(r->target.path, "*") == 0)
        snprintf(r->match.allow, sizeof r->match.allow, "GET, HEAD, POST, PUT, DELETE, OPTIONS");
    else if (td_route_match(td_routes, method, &r->target, &r->match, &e) != -TP_E_METHOD_NOT_ALLOWED)
        return false;
    resp = td_request_response(&nothing);
    if (resp) {
        td_reply_header(r, MHD_HTTP_HEADER_ALLOW, r->match.allow);
        td_request_decorate(r, resp, NULL);
    }
    td_request_ready(r, resp, 204);
    return true;
}

static enum MHD_Result begin(struct td_request *r, const char *method)
{
    struct tp_err e;
    size_t length;
    const char *expect;

    r->phase = TD_PHASE_BODY;
    snprintf(r->method, sizeof r->method, "%s", method);
    set_id(r);
    length = declared(r);
    if (options(r, method))
        return MHD_YES; /* queued on the last call */
    if (check(r, method, length, &e) == 0)
        return MHD_YES;
    if (!r->refused.code)
        r->refused = e;
    expect = td_req_header(r, MHD_HTTP_HEADER_EXPECT);
    if (length <= TD_DISCARD_MAX && !r->close && !(length > 0 && expect))
        return MHD_YES;
    r->close = true;
    r->linger = true;
    td_request_problem(r, &r->refused);
    return td_request_queue(r);
}

/* ---- the body ---- */

void td_body_drop(struct td_request *r)
{
    tp_buf_free(&r->body);
    atomic_fetch_sub(&r->http->server->body_bytes, r->charged);
    r->charged = 0;
}

int td_body_charge(struct td_request *r, const struct tp_buf *body, struct tp_err *e)
{
    struct td_server *s = r->http->server;
    size_t cap = body->cap + (body != &r->body ? r->body.cap : 0), more = cap > r->charged ? cap - r->charged : 0;

    r->charged += more;
    if (more && atomic_fetch_add(&s->body_bytes, more) + more > (size_t)config_of(r)->limit_bodies_bytes &&
        body->n > TD_EXPRESS_BYTES)
        return td_limit(r, TD_C_LIMIT_BODIES, 0, e, "the bodies of all requests need too much memory");
    return 0;
}

static int collect(struct td_request *r, const char *data, size_t n, struct tp_err *e)
{
    if (n > r->limit - r->body.n)
        return tp_fail(e, TP_E_BODY_TOO_LARGE, "the body is larger than %zu bytes", r->limit);
    tp_buf_put(&r->body, data, n);
    if (r->body.oom)
        return tp_fail(e, TP_E_NO_MEMORY, "not enough memory for the body");
    return td_body_charge(r, &r->body, e);
}

static enum MHD_Result take(struct td_request *r, const char *data, size_t n)
{
    struct tp_err e;

    r->bytes_in += n;
    if (r->refused.code || r->response || !r->wanted) {
        r->discarded += n; /* a body that goes on and on is cut off in the end */
        return r->discarded <= TD_DISCARD_CHUNKED_MAX ? MHD_YES : MHD_NO;
    }
    if (collect(r, data, n, &e) != 0) {
        r->refused = e;
        td_body_drop(r);
    }
    return MHD_YES;
}

enum MHD_Result td_intake(void *cls, struct MHD_Connection *c, const char *url, const char *method, const char *version,
                          const char *data, size_t *n, void **req)
{
    struct td_request *r = *req;

    (void)cls, (void)c, (void)url, (void)version;
    if (!r)
        return MHD_NO; /* there was no memory for it */
    assert(r->magic == TD_REQUEST_MAGIC);
    switch (r->phase) {
    case TD_PHASE_NEW:
        return begin(r, method);
    case TD_PHASE_BODY:
        if (*n == 0)
            return td_dispatch(r);
        if (take(r, data, *n) != MHD_YES)
            return MHD_NO;
        *n = 0;
        return MHD_YES;
    case TD_PHASE_RUN: /* resumed: the reply is there */
        return td_request_queue(r);
    case TD_PHASE_QUEUED:
        break;
    }
    *n = 0;
    return MHD_YES;
}

/* ---- the end ---- */

static const char *how_it_ended(enum MHD_RequestTerminationCode code)
{
    switch (code) {
    case MHD_REQUEST_TERMINATED_COMPLETED_OK:
        return NULL;
    case MHD_REQUEST_TERMINATED_TIMEOUT_REACHED:
        return "timeout";
    case MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN:
        return "shutdown";
    default:
        return "connection";
    }
}

/* W3C traceparent, NULL when there is none. Only what has its form is logged: anything could stand in a header. */
static const char *trace_of(const struct td_request *r)
{
    static const int group[] = {2, 32, 16, 2};
    const char *given = td_req_header(r, "traceparent"), *p = given;

    for (int i = 0; p && i < 4; i++) {
        if ((int)strspn(p, "0123456789abcdef") != group[i] || p[group[i]] != (i < 3 ? '-' : '\0'))
            return NULL;
        p += group[i] + 1;
    }
    return given;
}

/* A line for every change that was asked for and got as far as its handler, whatever the level of the log: who, what,
 * and how it ended. Those that were refused before stand among the requests. */
static void audit(const struct td_request *r, int status, const char *aborted)
{
    if (!r->match.route || r->match.route->role < TD_ROLE_MEASURE || r->refused.code || r->phase < TD_PHASE_RUN ||
        !changes(r->method))
        return;
    td_log(TD_AUDIT, "change", TD_S("who", r->grant.who),
           TD_S("from", r->conn && *r->conn->peer.text ? r->conn->peer.text : NULL), TD_S("method", r->method),
           TD_S("path", r->target.path), TD_I("status", status), TD_S("request_id", *r->id ? r->id : NULL),
           TD_S("aborted", aborted));
}

static void account(struct td_request *r, enum MHD_RequestTerminationCode code)
{
    static const enum td_counter by_class[] = {TD_C_REQ_2XX, TD_C_REQ_3XX, TD_C_REQ_4XX, TD_C_REQ_5XX};
    struct td_metrics *m = r->http->server->daemon->metrics;
    int64_t us = td_now_us() - r->t0;
    int status = r->phase == TD_PHASE_QUEUED ? r->status : 0;

    if (status == 0) { /* libmicrohttpd's own refusal, or none at all */
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(r->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
        status = info ? (int)info->http_status : 0;
    }
    if (status >= 200 && status < 600)
        td_count(m, by_class[status / 100 - 2], 1);
    td_observe(m, TD_H_REQUEST, (double)us / 1e6);
    audit(r, status, how_it_ended(code));
    td_log(TD_INFO, "request", TD_S("method", *r->method ? r->method : NULL), TD_S("path", r->target.path),
           TD_I("status", status), TD_I("bytes_in", r->bytes_in), TD_I("bytes_out", r->bytes_out),
           TD_F("duration_ms", (double)us / 1e3), TD_S("request_id", *r->id ? r->id : NULL),
           TD_S("traceparent", trace_of(r)), TD_S("who", *r->grant.who ? r->grant.who : NULL),
           TD_S("from", r->conn && *r->conn->peer.text ? r->conn->peer.text : NULL),
           TD_S("aborted", how_it_ended(code)));
}

void td_intake_completed(void *cls, struct MHD_Connection *c, void **req, enum MHD_RequestTerminationCode code)
{
    struct td_request *r = *req;

    (void)cls, (void)c;
    if (!r)
        return;
    *req = NULL;
    account(r, code);
    td_auth_done(&r->grant, r->bytes_in);
    if (r->conn) {
        int64_t now = td_now_us() / 1000;
        const struct td_config *conf = config_of(r);
        int64_t patience = conf->idle_timeout_seconds > conf->request_timeout_seconds ? conf->idle_timeout_seconds
                                                                                      : conf->request_timeout_seconds;
        atomic_store(&r->conn->deadline, now + patience * 1000);
        atomic_store(&r->conn->idle_start, now);
        atomic_store(&r->conn->begun, 0);
        atomic_store(&r->conn->idle, true);
    }
    struct td_server *s = r->http->server;
    int fd = r->linger && r->conn ? fcntl(r->conn->fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (fd >= 0)
        td_linger_add(s->daemon->linger, fd);
    td_request_free(r);
    atomic_fetch_sub(&s->busy, 1);
}
