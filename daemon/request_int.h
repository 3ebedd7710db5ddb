/* Inside of requests: shared by server.c (connections), intake.c (from first header to last byte), dispatch.c (where it
 * is computed), request.c (replies) and stream.c. Not for handlers.
 *
 * A request belongs to its HTTP thread, but between suspension and reply to whoever runs the handler. The connection is
 * suspended first and the request is enqueued after, so a reply can never come before the suspension. */
#ifndef TD_REQUEST_INT_H
#define TD_REQUEST_INT_H

#include "daemon/auth.h"
#include "daemon/decode.h"
#include "daemon/metrics.h"
#include "daemon/pool.h"
#include "daemon/request.h"
#include "daemon/route.h"
#include "daemon/server.h"
#include "daemon/listen.h"

#include <microhttpd.h>
#include <pthread.h>

enum {
    TD_REQUEST_MAGIC = 0x71e57001,
    TD_REPLY_HEADERS_MAX = 8,
    TD_REQUEST_ID_MAX = 64,
    TD_DISCARD_MAX = 256 * 1024, /* bytes of a refused body that are read to keep the connection */
    /* bytes that are read behind the point where a body of unknown length was refused; then it is cut off */
    TD_DISCARD_CHUNKED_MAX = 256 << 20,
    TD_HEALTH_CONNECTIONS = 64,
    /* decoded bytes of a predict body up to which it is computed at once on its HTTP thread (some 10 programs, 0.3 ms),
     * or in the express lane (some 50) */
    TD_AT_ONCE_BYTES = 8 * 1024,
    TD_EXPRESS_BYTES = 32 * 1024,
    TD_SEATS_MAX = 64
};

/* One connection. Made and freed by its HTTP thread; the sweep of the control thread reads it under the server's
 * conn_lock. */
struct td_conn {
    struct td_conn *prev, *next;
    struct td_server *server;
    int fd;
    struct td_peer peer;
    bool tcp;
    bool surplus; /* there were address_connections of this address already */
    /* When the connection is closed for being late, monotonic ms; INT64_MAX while a handler or a reply is at work. */
    _Atomic int64_t deadline;
    _Atomic bool idle;          /* between requests */
    _Atomic int64_t begun;      /* when the sweep saw the next request begin to come in, monotonic ms; 0 it did not */
    int64_t seen_bytes;         /* sweep only: TCP bytes received when first seen idle, -1 not looked yet */
    int64_t idle_since;         /* sweep only: which idle period seen_bytes belongs to */
    _Atomic int64_t idle_start; /* monotonic ms */
};

struct td_http { /* one listener and its threads */
    struct td_server *server;
    struct MHD_Daemon *mhd;
    struct td_listener listener;
};

/* What an HTTP thread needs to compute a prediction itself. Fewer seats than threads are no harm. */
struct td_seat {
    _Atomic bool taken;
    void *worker; /* td_predict_worker_new() */
};

struct td_server {
    struct td_daemon *daemon;
    struct td_http http[TD_LISTENERS_MAX + 3];
    int n_http;
    pthread_mutex_t conn_lock; /* guards the list of connections; innermost */
    struct td_conn *conns;
    pthread_mutex_t stream_lock; /* guards the list of streams; taken before a stream's own lock */
    struct td_stream *streams;
    bool streams_end; /* under stream_lock: new streams end at their first pause */
    _Atomic size_t connections, busy, suspended;
    _Atomic size_t body_bytes; /* memory of all bodies */
    _Atomic bool draining, cut;
    _Atomic uint64_t next_id;
    uint64_t id_seed;
    struct td_seat seat[TD_SEATS_MAX];
    int n_seats;
};

enum td_phase { TD_PHASE_NEW, TD_PHASE_BODY, TD_PHASE_RUN, TD_PHASE_QUEUED };

struct td_request {
    uint32_t magic;
    enum td_phase phase;
    struct td_http *http;
    struct MHD_Connection *mhd;
    struct td_conn *conn;
    struct td_target target;
    struct td_match match;
    char method[16], id[TD_REQUEST_ID_MAX + 1];
    int64_t t0;          /* monotonic us */
    int64_t deadline_us; /* after this the client does not want it any more, monotonic; 0 none */
    /* the body */
    struct tp_buf body; /* as it came until dispatch.c decodes it */
    enum td_coding coding;
    size_t limit, charged, bytes_in, discarded;
    bool wanted, ndjson;
    struct tp_err refused; /* code != OK: the rest of the body is read and thrown away, then this is the reply */
    struct td_grant grant; /* filled by check(): who asks */
    int retry_s;           /* for a refusal with 429 or 503; 0: by its code */
    /* the handler */
    void *worker;
    enum td_lane lane;
    bool suspended, at_once;
    char *cursor; /* decoded, owned */
    /* the reply */
    struct MHD_Response *response;
    int status;
    uint64_t bytes_out;
    bool close;  /* say "Connection: close" */
    bool linger; /* input is left unread: read it for a while after the reply */
    int n_headers;
    struct td_reply_header {
        char *name, *value; /* one allocation */
    } headers[TD_REPLY_HEADERS_MAX];
};

int64_t td_now_us(void); /* monotonic */

/* intake.c: libmicrohttpd's callbacks; cls is the struct td_http. */
void *td_intake_target(void *cls, const char *uri, struct MHD_Connection *c);
enum MHD_Result td_intake(void *cls, struct MHD_Connection *c, const char *url, const char *method, const char *version,
                          const char *data, size_t *n, void **req);
void td_intake_completed(void *cls, struct MHD_Connection *c, void **req, enum MHD_RequestTerminationCode code);

/* Keep the sum of all bodies below its limit: charges what `body` has grown by since the last call, after the fact. A
 * small one is never refused: connection_limit bounds those, and others' large ones must not keep them out. */
int td_body_charge(struct td_request *r, const struct tp_buf *body, struct tp_err *e);
void td_body_drop(struct td_request *r);

/* admit.c: OVERLOADED with that text and a Retry-After, counted. */
int td_limit(struct td_request *r, enum td_counter limit, int64_t wait_ms, struct tp_err *e, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* The limits, at three moments: before the body is read (length SIZE_MAX: not known), before the queue, at the turn. */
int td_admit(struct td_request *r, size_t length, struct tp_err *e);
int td_admit_queue(struct td_request *r, enum td_lane lane, struct tp_err *e);
int td_admit_run(struct td_request *r, struct tp_err *e);
int td_retry_after(const struct td_request *r); /* seconds, for 429 and 503 */

/* dispatch.c: the body is there */
enum MHD_Result td_dispatch(struct td_request *r);
enum td_lane td_lane_of(size_t body_bytes);

/* request.c */
void td_request_free(struct td_request *r);
void td_request_problem(struct td_request *r, const struct tp_err *e); /* sets the reply, does not resume */
enum MHD_Result td_request_queue(struct td_request *r); /* hands the reply to libmicrohttpd, on its thread */
/* reply is there: resume if suspended */
void td_request_ready(struct td_request *r, struct MHD_Response *resp, int status);
struct MHD_Response *td_request_response(struct tp_buf *body); /* takes the bytes */
/* headers that every reply has */
void td_request_decorate(struct td_request *r, struct MHD_Response *resp, const char *content_type);

/* server.c: for the handshake of a struct MHD_Connection; NULL: it has none. */
struct td_tls;
struct td_tls *td_server_tls_of(void *mhd_connection);

/* stream.c */
void td_streams_wake(struct td_server *s, bool end); /* end: no stream sleeps again */
void td_streams_sweep(struct td_server *s);

#endif
