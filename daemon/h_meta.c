/* Health, metrics, identity. They run on the HTTP thread: counters and flags only, never the store.
 *
 * /livez asks whether the control loop turns, /readyz whether a request would be served well now. */
#include "daemon/handlers.h"

#include "daemon/hcommon.h"
#include "daemon/jobs.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/pool.h"
#include "daemon/registry.h"
#include "daemon/request_int.h"
#include "daemon/server.h"
#include "daemon/tls.h"

#include "model/infer.h"
#include "proto/tclfeat.h"

#include <stdio.h>
#include <string.h>

#ifdef __clang__
#define COMPILER "clang"
#else
#define COMPILER "gcc"
#endif

enum { HEARTBEAT_LATE_MS = 10000 };

static void reply_text(struct td_request *r, int status, struct tp_buf *b)
{
    td_reply_header(r, "Cache-Control", "no-store");
    td_reply(r, status, "text/plain; charset=utf-8", b);
}

void td_h_livez(struct td_request *r)
{
    struct tp_buf b = {0};
    struct td_daemon *d = td_req_daemon(r);
    bool turns = td_now_us() / 1000 - atomic_load(&d->heartbeat) < HEARTBEAT_LATE_MS;

    tp_buf_puts(&b, turns ? "ok\n" : "the control loop does not turn\n");
    reply_text(r, turns ? 200 : 503, &b);
}

struct check {
    const char *name, *why;
    bool ok;
};
enum { CHECKS = 4 };

/* Whether a request would be served well now. */
static bool checks(const struct td_daemon *d, struct check out[CHECKS])
{
    const struct check check[CHECKS] = {
        {"store", "the last write failed", st_healthy(d->store)},
        {"models", "models are being loaded", atomic_load(&d->ready)},
        {"control", "the control loop does not turn",
         td_now_us() / 1000 - atomic_load(&d->heartbeat) < HEARTBEAT_LATE_MS},
        {"drain", "the daemon is shutting down", !atomic_load(&d->draining)},
    };
    bool all = true;

    memcpy(out, check, sizeof check);
    for (size_t i = 0; i < CHECKS; i++)
        all = all && check[i].ok;
    return all;
}

void td_h_readyz(struct td_request *r)
{
    struct check check[CHECKS];
    const char *verbose = td_req_query(r, "verbose");
    struct tp_buf b = {0};
    bool all = checks(td_req_daemon(r), check);

    for (size_t i = 0; i < CHECKS; i++) {
        if (verbose)
            tp_buf_printf(&b, "[%s] %s%s%s\n", check[i].ok ? "+" : "-", check[i].name, check[i].ok ? " ok" : ": ",
                          check[i].ok ? "" : check[i].why);
    }
    if (!verbose)
        tp_buf_puts(&b, all ? "ok\n" : "not ready; ?verbose tells why\n");
    if (!all)
        td_reply_header(r, "Retry-After", "5");
    reply_text(r, all ? 200 : 503, &b);
}

void td_h_metrics(struct td_request *r)
{
    struct td_daemon *d = td_req_daemon(r);
    struct td_metrics *m = d->metrics;
    struct check check[CHECKS];
    struct tp_buf b = {0};

    td_gauge(
        m, TD_G_PREDICT_QUEUE,
        (double)(td_pool_queued(d->predict_pool, TD_LANE_MAIN) + td_pool_queued(d->predict_pool, TD_LANE_EXPRESS)));
    td_gauge(m, TD_G_API_QUEUE, (double)td_pool_queued(d->api_pool, TD_LANE_MAIN));
    td_gauge(m, TD_G_INGEST_QUEUE, (double)st_ingest_queued(d->store));
    td_gauge(m, TD_G_PREDICT_WAIT, (double)td_pool_wait_us(d->predict_pool, TD_LANE_MAIN) / 1e6);
    td_gauge(m, TD_G_INGEST_WAIT, (double)st_ingest_wait_ms(d->store) / 1e3);
    td_gauge(m, TD_G_WRITABLE, st_healthy(d->store));
    td_gauge(m, TD_G_DB_BYTES, (double)st_database_bytes(d->store));
    td_gauge(m, TD_G_WAL_BYTES, (double)st_log_bytes(d->store));
    td_gauge(m, TD_G_READY, checks(d, check));
    td_gauge(m, TD_G_TLS_EXPIRES, d->tls ? (double)td_tls_expires(d->tls) : 0);
    td_count_to(m, TD_C_COMMITS, st_commits(d->store));
    td_count_to(m, TD_C_LOG_DROPPED, td_log_dropped());
    td_gauge(m, TD_G_IN_FLIGHT, (double)td_server_busy(r->http->server));
    td_gauge(m, TD_G_CONNECTIONS, (double)td_server_connections(r->http->server));
    td_gauge(m, TD_G_BODIES, (double)td_server_body_bytes(r->http->server));
    td_gauge(m, TD_G_MODELS, td_registry_count(d->registry));
    td_gauge(m, TD_G_JOBS_ACTIVE, td_jobs_active(d->jobs));
    td_metrics_write(m, &b);
    td_reply(r, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
}

void td_h_meta(struct td_request *r)
{
    static const char *const query[] = {NULL};
    struct tp_buf b = {0};
    char build[160];

    if (!td_req_only_query(r, query))
        return;
    tp_buf_printf(
        &b,
        "{\"name\": \"tcld\", \"version\": \"%s\", \"api_version\": \"v1\", \"features_version\": \"%s\", \"build\": ",
        TCLD_VERSION, tclfeat_version(TCLFEAT_TCLF_1));
    snprintf(build, sizeof build, "%s %s, %s", COMPILER, __VERSION__, tm_simd_name());
    tp_buf_json_str(&b, build, strlen(build));
    tp_buf_putc(&b, '}');
    td_reply_json(r, 200, &b);
}
