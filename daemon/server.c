/* Listeners, libmicrohttpd's threads, connections: start, sweep, drain, stop.
 *
 * Invariant: a td_conn is in the list exactly as long as its descriptor is open, so the sweep may shut it down under
 * conn_lock. Shutting down never closes: libmicrohttpd's thread sees the end of input and ends the connection in its
 * own order. */
#include "daemon/request_int.h"

#include "daemon/log.h"
#include "daemon/tls.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

enum {
    FD_RESERVE = 64 /* descriptors for the store, models, logs */,
    LIMIT_SLACK = 64,
    POOL_BYTES = 64 * 1024,
    STACK_BYTES = 512 * 1024,
    SURPLUS_MS = 5000 /* to fetch the refusal */
};
static char TLS_PRIORITIES[] = "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1";

/* ---- connections ---- */

/* Does n's address have as many connections as it may already? */
static bool surplus_locked(const struct td_server *s, const struct td_conn *n)
{
    int64_t most = s->daemon->config.address_connections, found = 0;

    if (most == 0 || n->peer.local)
        return false;
    for (const struct td_conn *c = s->conns; c && found < most; c = c->next)
        found += !c->peer.local && !c->surplus && memcmp(c->peer.addr, n->peer.addr, sizeof n->peer.addr) == 0;
    return found >= most;
}

static void opened(struct td_server *s, struct MHD_Connection *c, void **context)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct td_conn *n = calloc(1, sizeof *n);
    const struct td_config *conf = &s->daemon->config;
    int64_t now = td_now_us() / 1000, idle = conf->idle_timeout_seconds, request = conf->request_timeout_seconds;
    const int one = 1;

    atomic_fetch_add(&s->connections, 1);
    if (!n || !info) {
        free(n);
        return; /* served all the same, without deadlines but for libmicrohttpd's own */
    }
    n->server = s;
    n->fd = info->connect_fd;
    td_peer_of(n->fd, &n->peer);
    n->tcp = setsockopt(n->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) == 0 &&
             setsockopt(n->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0;
    n->seen_bytes = 0;
    n->idle_since = now;
    atomic_store(&n->deadline, now + (idle > request ? idle : request) * 1000);
    atomic_store(&n->idle_start, now);
    atomic_store(&n->idle, true);
    pthread_mutex_lock(&s->conn_lock);
    n->surplus = surplus_locked(s, n);
    if (n->surplus)
        atomic_store(&n->deadline, now + SURPLUS_MS);
    n->next = s->conns;
    if (n->next)
        n->next->prev = n;
    s->conns = n;
    pthread_mutex_unlock(&s->conn_lock);
    *context = n;
}

static void closed(struct td_server *s, void **context)
{
    struct td_conn *n = *context;

    atomic_fetch_sub(&s->connections, 1);
    if (!n)
        return;
    pthread_mutex_lock(&s->conn_lock);
    if (n->prev)
        n->prev->next = n->next;
    else
        s->conns = n->next;
    if (n->next)
        n->next->prev = n->prev;
    pthread_mutex_unlock(&s->conn_lock);
    free(n);
    *context = NULL;
}

static void on_connection(void *cls, struct MHD_Connection *c, void **context, enum MHD_ConnectionNotificationCode code)
{
    struct td_http *h = cls;

    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        opened(h->server, c, context);
    else
        closed(h->server, context);
}

/* Payload bytes that came on a TCP connection (struct tcp_info of the kernel, since 4.1; glibc's copy ends before), -1
 * unknown. */
static int64_t bytes_received(const struct td_conn *n)
{
    enum { OFFSET = 128 };
    char info[256];
    socklen_t len = sizeof info;
    uint64_t v;

    if (!n->tcp || getsockopt(n->fd, IPPROTO_TCP, TCP_INFO, info, &len) != 0 || len < OFFSET + sizeof v)
        return -1;
    memcpy(&v, info + OFFSET, sizeof v);
    return (int64_t)v;
}

/* libmicrohttpd tells of a request only when its first line is whole. That one has begun to drip in is seen from the
 * bytes received. */
static void watch_idle(struct td_conn *n, int64_t now, int64_t request_ms)
{
    int64_t start = atomic_load(&n->idle_start), seen = bytes_received(n);

    if (seen < 0)
        return;
    if (n->idle_since != start) {
        n->idle_since = start;
        n->seen_bytes = seen;
    } else if (seen != n->seen_bytes) {
        int64_t deadline = atomic_load(&n->deadline);
        n->seen_bytes = INT64_MAX; /* once: every later byte would differ too, and must not move the deadline */
        atomic_store(&n->begun, now);
        if (deadline > now + request_ms)
            atomic_compare_exchange_strong(&n->deadline, &deadline, now + request_ms);
    }
}

void td_server_sweep(struct td_server *s)
{
    int64_t now = td_now_us() / 1000, request_ms = s->daemon->config.request_timeout_seconds * 1000;
    size_t late = 0;

    pthread_mutex_lock(&s->conn_lock);
    for (struct td_conn *n = s->conns; n; n = n->next) {
        if (atomic_load(&n->idle) && n->seen_bytes != INT64_MAX)
            watch_idle(n, now, request_ms);
        else if (n->seen_bytes == INT64_MAX && n->idle_since != atomic_load(&n->idle_start))
            n->seen_bytes = 0;
        if (atomic_load(&n->deadline) <= now) {
            atomic_store(&n->deadline, INT64_MAX);
            shutdown(n->fd, SHUT_RDWR);
            late++;
        }
    }
    pthread_mutex_unlock(&s->conn_lock);
    if (late) {
        td_count(s->daemon->metrics, TD_C_LATE, late);
        td_log(TD_WARNING, "late-requests-closed", TD_I("connections", late));
    }
    td_streams_sweep(s);
}

void td_server_wake_streams(struct td_server *s)
{
    td_streams_wake(s, false);
}

/* ---- start ---- */

static void on_log(void *cls, const char *fmt, va_list ap)
{
    char text[256];

    (void)cls;
    if (!td_log_on(TD_DEBUG))
        return;
    vsnprintf(text, sizeof text, fmt, ap);
    text[strcspn(text, "\n")] = '\0';
    td_log(TD_DEBUG, "libmicrohttpd", TD_S("text", text));
}

/* Our limit plus slack, within what the process may open: with EMFILE libmicrohttpd would spin. */
static unsigned connection_limit(const struct td_server *s, bool health, unsigned threads)
{
    struct rlimit files;
    uint64_t limit = health ? TD_HEALTH_CONNECTIONS : (uint64_t)s->daemon->config.connection_limit + LIMIT_SLACK;

    /* shared out to the threads evenly, while connections are not: each gets room for a surplus */
    limit += health ? 0 : (threads - 1) * (limit / 4);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
        uint64_t most = files.rlim_cur > 2 * FD_RESERVE + TD_HEALTH_CONNECTIONS
                            ? files.rlim_cur - FD_RESERVE - TD_HEALTH_CONNECTIONS
                            : files.rlim_cur / 2;
        if (limit > most) {
            td_log(TD_WARNING, "connection-limit-lowered", TD_I("to", most), TD_I("open_files", files.rlim_cur));
            limit = most;
        }
    }
    return (unsigned)limit;
}

struct td_tls *td_server_tls_of(void *mhd_connection)
{
    const union MHD_ConnectionInfo *info =
        mhd_connection ? MHD_get_connection_info(mhd_connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT) : NULL;
    const struct td_conn *n = info ? info->socket_context : NULL;

    return n ? n->server->daemon->tls : NULL;
}

static int start(struct td_server *s, struct td_listener *l, struct tp_err *e)
{
    struct td_http *h = &s->http[s->n_http];
    const struct td_config *c = &s->daemon->config;
    unsigned threads = l->health ? 1 : (unsigned)s->daemon->threads.http;

    bool l_tls = l->tls;
    struct MHD_OptionItem more[4];
    int n = 0;

    if (threads > 1)
        more[n++] = (struct MHD_OptionItem){MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)threads, NULL};
    if (l_tls)
        more[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, TLS_PRIORITIES};
    more[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    h->server = s;
    h->listener = *l;
    td_listener_init(l);
    h->mhd = MHD_start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | (l_tls ? MHD_USE_TLS : 0u), 0,
        NULL, NULL, td_intake, h, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET, h->listener.fd,
        MHD_OPTION_CONNECTION_LIMIT, connection_limit(s, l->health, threads), MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)c->idle_timeout_seconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_URI_LOG_CALLBACK, td_intake_target, h,
        MHD_OPTION_NOTIFY_COMPLETED, td_intake_completed, h, MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
        MHD_OPTION_ARRAY, more, l_tls ? MHD_OPTION_HTTPS_CERT_CALLBACK2 : MHD_OPTION_END, td_tls_retrieve,
        MHD_OPTION_END);
    if (!h->mhd) {
        int rc = tp_fail(e, TP_E_CONFIG, "cannot serve on %.100s: %s", h->listener.address, strerror(errno));
        td_listener_close(&h->listener);
        return rc;
    }
    s->n_http++;
    td_log(TD_INFO, "listening", TD_S("address", h->listener.address), TD_I("threads", threads),
           TD_S("serves", h->listener.health ? "health" : "all"), TD_S("tls", l_tls ? "true" : NULL));
    return 0;
}

int td_server_new(struct td_daemon *d, struct td_server **out, struct tp_err *e)
{
    struct td_server *s = calloc(1, sizeof *s);
    struct td_listener l[TD_LISTENERS_MAX + 3];
    int n = 0, rc = 0;
    bool health = false, main_one = false;

    if (!s)
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory");
    for (int i = 0; i < TD_LISTENERS_MAX + 3; i++)
        td_listener_init(&l[i]);
    s->daemon = d;
    pthread_mutex_init(&s->conn_lock, NULL);
    pthread_mutex_init(&s->stream_lock, NULL);
    if (getrandom(&s->id_seed, sizeof s->id_seed, 0) != sizeof s->id_seed)
        s->id_seed = (uint64_t)td_now_us();

    for (; s->n_seats < d->threads.http && s->n_seats < TD_SEATS_MAX; s->n_seats++)
        if (!(s->seat[s->n_seats].worker = td_predict_worker_new(d))) {
            rc = tp_fail(e, TP_E_NO_MEMORY, "out of memory");
            goto out;
        }
    n = td_listen_inherited(l, d->config.insecure || *d->config.tokens_file, e);
    if (n < 0) {
        rc = n;
        n = TD_LISTENERS_MAX;
        goto out;
    }
    for (int i = 0; i < n; i++) {
        health = health || l[i].health;
        main_one = main_one || !l[i].health;
    }
    if (!main_one && (rc = td_listen(d->config.listen, &l[n], e)) == 0)
        n++;
    if (rc == 0 && !health && *d->config.health_listen && (rc = td_listen(d->config.health_listen, &l[n], e)) == 0)
        l[n++].health = true;
    if (rc == 0 && *d->config.tls_listen && (rc = td_listen(d->config.tls_listen, &l[n], e)) == 0)
        l[n++].tls = true;
    for (int i = 0; i < n && rc == 0; i++)
        rc = start(s, &l[i], e);
out:
    for (int i = 0; i < n; i++)
        td_listener_close(&l[i]);
    if (rc) {
        td_server_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

/* ---- end ---- */

void td_server_quiesce(struct td_server *s)
{
    if (atomic_exchange(&s->draining, true))
        return;
    for (int i = 0; i < s->n_http; i++) {
        if (s->http[i].listener.health)
            continue; /* tells of the drain until the end */
        MHD_quiesce_daemon(s->http[i].mhd);
        td_listener_shut(&s->http[i].listener);
    }
    td_streams_wake(s, true);
}

void td_server_cut(struct td_server *s)
{
    atomic_store(&s->cut, true);
    pthread_mutex_lock(&s->conn_lock);
    for (struct td_conn *n = s->conns; n; n = n->next)
        shutdown(n->fd, SHUT_RDWR);
    pthread_mutex_unlock(&s->conn_lock);
    td_streams_wake(s, true);
}

void td_server_free(struct td_server *s)
{
    if (!s)
        return;
    td_server_quiesce(s);
    for (int i = 0; i < s->n_http; i++) {
        if (s->http[i].listener.health)
            MHD_quiesce_daemon(s->http[i].mhd); /* or it would close the listener's descriptor itself */
        MHD_stop_daemon(s->http[i].mhd);
        td_listener_close(&s->http[i].listener);
    }
    /* Every connection was resumed, but whoever did it may still be on its way to the counter. */
    while (atomic_load(&s->suspended) > 0)
        sched_yield();
    for (int i = 0; i < s->n_seats; i++)
        td_predict_worker_free(s->seat[i].worker);
    pthread_mutex_destroy(&s->stream_lock);
    pthread_mutex_destroy(&s->conn_lock);
    free(s);
}

/* ---- figures ---- */

int td_server_port(const struct td_server *s)
{
    for (int i = 0; i < s->n_http; i++)
        if (!s->http[i].listener.health && s->http[i].listener.port)
            return s->http[i].listener.port;
    return 0;
}

size_t td_server_connections(const struct td_server *s)
{
    return atomic_load(&s->connections);
}

size_t td_server_body_bytes(const struct td_server *s)
{
    return atomic_load(&s->body_bytes);
}

size_t td_server_busy(const struct td_server *s)
{
    return atomic_load(&s->busy);
}

size_t td_server_suspended(const struct td_server *s)
{
    return atomic_load(&s->suspended);
}
