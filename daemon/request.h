/* One HTTP request as the handlers see it. Handlers know nothing of libmicrohttpd.
 *
 * Life: the HTTP thread matches the route, checks role, headers, admission, collects the body, then the handler runs
 * where the route says (routes.def): INLINE on the HTTP thread (must not block), PREDICT on the predict pool, API on
 * the api pool; pools decode the body first (limit on decoded bytes). A small PREDICT request is tried on the HTTP
 * thread itself: see td_req_may_wait(). A handler ends the request with exactly one td_reply_*() call, then or later,
 * on any thread; after it the request is gone. The connection is suspended meanwhile; a client that vanishes is noticed
 * at the reply. An INLINE handler must reply before it returns. HEAD is answered by the GET route, OPTIONS and 405 from
 * the table: no handler sees them. */
#ifndef TD_REQUEST_H
#define TD_REQUEST_H

#include "daemon/daemon.h"
#include "daemon/tokens.h"
#include "proto/buf.h"
#include "proto/err.h"

#include <stdbool.h>

enum td_where { TD_INLINE, TD_PREDICT, TD_API };
enum td_body_kind {
    TD_BODY_NONE,    /* a body is ignored */
    TD_BODY_JSON,    /* control body, application/json, <= limit_control */
    TD_BODY_RECORDS, /* application/x-ndjson or application/json */
    TD_BODY_WEIGHTS  /* application/octet-stream, <= limit_weights */
};

struct td_request;
typedef void (*td_handler)(struct td_request *r);

struct td_route {
    const char *method, *path; /* "/v1/hardware/{hw}/predict"; segments in braces are parameters */
    td_handler handler;
    enum td_role role;
    enum td_body_kind body;
    enum td_where where;
    const char *summary; /* one line for humans (OpenAPI) */
};
extern const struct td_route td_routes[]; /* from routes.def; last has method NULL */

/* ---- what came ---- */
struct td_daemon *td_req_daemon(const struct td_request *r);
/* The i-th {parameter}, percent-decoded, identifier-checked for {hw} and {family}. */
const char *td_req_param(const struct td_request *r, int i);
/* Percent-decoded, NULL when absent, "" when without value. */
const char *td_req_query(const struct td_request *r, const char *name);
const char *td_req_header(const struct td_request *r, const char *name); /* NULL when absent */
const char *td_req_body(const struct td_request *r, size_t *n);          /* decoded bytes */
void td_req_body_done(struct td_request *r); /* gives the memory of the body back before the reply */
bool td_req_body_is_ndjson(const struct td_request *r);
const char *td_req_id(const struct td_request *r); /* X-Request-Id */
/* What the thread that runs the handler keeps between requests. Only while the handler runs; gone for a reply that
 * comes later. td_req_reader: API handlers, the thread's own read connection. td_req_worker: PREDICT handlers, what
 * td_predict_worker_new() made. Else NULL. */
struct st_reader *td_req_reader(const struct td_request *r);
void *td_req_worker(const struct td_request *r);
/* False when a PREDICT handler runs on the HTTP thread: it takes no lock that is held for longer than a look-up, and
 * reads no disk. If it has to, it returns without a reply and is called again on the pool. */
bool td_req_may_wait(const struct td_request *r);
/* h_predict.c: the state of one thread of the predict pool; arg is the struct td_daemon. NULL: the daemon does not
 * start. */
void *td_predict_worker_new(void *daemon);
void td_predict_worker_free(void *worker);
/* Unknown query parameters are BAD_PARAMETER: names = NULL-terminated list of those accepted. Replies and returns false
 * when it fails. */
bool td_req_only_query(struct td_request *r, const char *const *names);
/* ?limit= (1..1000, default 100) and ?cursor= (opaque: base64url of the last key of the page before). *cursor: that
 * key, "" at the start; it lives as long as the request. Replies and returns false when malformed. */
bool td_req_page(struct td_request *r, int *limit, const char **cursor);
/* The same for a key that is an id > 0; 0 at the start. */
bool td_req_page_id(struct td_request *r, int *limit, int64_t *cursor);
/* The end of a page: `], "next_cursor": "..."}` or null when last_key is NULL. */
void td_page_end(struct tp_buf *out, const char *last_key);
/* A page of things with ids. The store hands them over one by one, one more than the limit if there are more. */
struct td_page {
    struct tp_buf out; /* the reply; begins with `{"items": [` */
    int n, limit;
    int64_t last;
    bool more;
};
/* Is there room for id? false: the page is full, the callback returns 1. true: its text comes next. */
bool td_page_add(struct td_page *p, int64_t id);
void td_page_end_id(struct td_page *p);
/* The i-th parameter as a model or job id > 0. Replies with `unknown` (404) and returns false when it is none. */
bool td_req_param_id(struct td_request *r, int i, enum tp_code unknown, int64_t *id);

/* ---- the reply: exactly one of these ---- */
void td_reply_header(struct td_request *r, const char *name, const char *value); /* before the reply */
/* Takes the bytes of *body (left empty). content_type must be a string literal. */
void td_reply(struct td_request *r, int status, const char *content_type, struct tp_buf *body);
/* problem+json with the status of the code; adds Retry-After to 429 and 503, Allow to 405. */
void td_reply_problem(struct td_request *r, const struct tp_err *e);
/* The same from a text. */
void td_reply_fail(struct td_request *r, enum tp_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A streamed reply (chunked). `next` is called on the HTTP thread when the client can take more: append up to ~64 KiB
 * to out; return 1 more follows, 0 end, 2 nothing now (the stream sleeps until td_stream_wake), < 0 abort the
 * connection. `free_arg` is called once at the end, on an HTTP thread, also when the client vanished, possibly before
 * td_reply_stream returns; after a NULL return too. A sleeping stream is also woken every 15 seconds, so that `next`
 * may send a comment that keeps proxies awake, and is ended when the daemon drains. */
struct td_stream;
typedef int (*td_stream_fn)(void *arg, struct tp_buf *out);
struct td_stream *td_reply_stream(struct td_request *r, int status, const char *content_type, td_stream_fn next,
                                  void *arg, void (*free_arg)(void *));
void td_stream_wake(struct td_stream *s); /* any thread; only valid until free_arg was called */

#endif
