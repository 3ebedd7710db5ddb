/* The control loop.
 *
 * Nothing here computes or blocks. Once a second it sweeps late connections, has the store end leases that ran out, and
 * beats the heart that /livez looks at.
 * The watchdog is fed only while every pool moves: a pool whose queue is not empty and that has finished nothing since
 * the last look holds it back.
 *
 * Drain: SIGTERM -> readiness 503, no new connections, requests in flight finish; after drain_seconds, or at a second
 * signal, connections are cut and only the handlers that still run are waited for, as their suspended connections must
 * be resumed before libmicrohttpd may stop. */
#include "daemon/control.h"

#include "daemon/auth.h"
#include "daemon/jobs.h"
#include "daemon/linger.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/notify.h"
#include "daemon/options.h"
#include "daemon/pool.h"
#include "daemon/server.h"
#include "daemon/tls.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <uv.h>

enum {
    TICK_MS = 1000,
    DRAIN_TICK_MS = 20,
    DRAIN_LEAST_MS = 250, /* while anybody is connected */
    STREAM_WAKE_TICKS = 15,
    PROBE_TICKS = 2,
    PATIENCE_AFTER_CUT_MS = 20000
};

struct td_control {
    struct td_daemon *d;
    uv_loop_t loop;
    uv_signal_t term, intr, hup;
    uv_timer_t tick, drain, watchdog;
    unsigned ticks;
    int stops; /* signals to stop so far */
    int64_t drain_from, drain_until, give_up;
    bool cut;
    int status;
    unsigned long predict_done, express_done, api_done; /* at the last look of the watchdog */
    bool stuck, store_healthy;
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- every second ---- */

/* On the store's writer. */
static void on_swept(void *arg, int64_t returned)
{
    struct td_daemon *d = arg;

    td_count(d->metrics, TD_C_LEASE_EXPIRED, (uint64_t)returned);
    if (returned > 0)
        td_log(TD_INFO, "leases-expired", TD_I("candidates", returned));
    atomic_store(&d->sweeping, false);
}

static void sweep_leases(struct td_daemon *d)
{
    if (!atomic_exchange(&d->sweeping, true) && st_lease_sweep(d->store, td_wall_ms(), on_swept, d, NULL) != 0)
        atomic_store(&d->sweeping, false);
}

/* Above the limit nothing new is let in until memory that was given back is below it. */
static void watch_memory(struct td_daemon *d)
{
    int64_t limit = d->config.limit_memory_bytes;
    bool full = limit > 0 && td_resident_bytes() > (double)limit;

    if (full) {
        malloc_trim(0);
        full = td_resident_bytes() > (double)limit;
    }
    if (atomic_exchange(&d->memory_full, full) != full)
        td_log(full ? TD_WARNING : TD_INFO, full ? "memory-full" : "memory-free", TD_I("limit_bytes", limit));
}

/* A disk that has room again is noticed though nobody writes: readiness has turned them away. */
static void watch_store(struct td_control *c)
{
    bool healthy = st_healthy(c->d->store);

    if (!healthy && c->ticks % PROBE_TICKS == 0)
        st_probe(c->d->store, NULL);
    if (healthy != c->store_healthy)
        td_log(healthy ? TD_INFO : TD_ERROR, healthy ? "store-writes-again" : "store-cannot-write");
    c->store_healthy = healthy;
}

static void on_tick(uv_timer_t *t)
{
    struct td_control *c = t->data;

    atomic_store(&c->d->heartbeat, now_ms());
    if (!c->d->server)
        return;
    td_server_sweep(c->d->server);
    sweep_leases(c->d);
    watch_memory(c->d);
    watch_store(c);
    if (++c->ticks % STREAM_WAKE_TICKS == 0)
        td_server_wake_streams(c->d->server);
}

static bool moves(struct td_pool *p, enum td_lane lane, unsigned long *before)
{
    unsigned long done = td_pool_done(p, lane);
    bool ok = td_pool_queued(p, lane) == 0 || done != *before;

    *before = done;
    return ok;
}

static void on_watchdog(uv_timer_t *t)
{
    struct td_control *c = t->data;
    bool predict = moves(c->d->predict_pool, TD_LANE_MAIN, &c->predict_done),
         express = moves(c->d->predict_pool, TD_LANE_EXPRESS, &c->express_done),
         api = moves(c->d->api_pool, TD_LANE_MAIN, &c->api_done);

    predict = predict && express;
    if (predict && api)
        td_notify("WATCHDOG=1");
    else if (!c->stuck)
        td_log(TD_ERROR, "pool-stuck", TD_S("pool", predict ? "api" : "predict"));
    c->stuck = !(predict && api);
}

/* ---- drain ---- */

static void finish(struct td_control *c, int status)
{
    c->status = status;
    uv_stop(&c->loop);
}

/* Nothing is in flight, and who connected just before has had the time to say what for. */
static bool drained(struct td_control *c, int64_t now)
{
    return td_server_busy(c->d->server) == 0 &&
           (td_server_connections(c->d->server) == 0 || now >= c->drain_from + DRAIN_LEAST_MS || c->stops > 1);
}

static void on_drain(uv_timer_t *t)
{
    struct td_control *c = t->data;
    struct td_server *s = c->d->server;
    int64_t now = now_ms();

    if (drained(c, now) || (c->cut && td_server_suspended(s) == 0)) {
        finish(c, 0);
        return;
    }
    if (!c->cut && (now >= c->drain_until || c->stops > 1)) {
        td_log(TD_WARNING, "drain-cut", TD_I("requests", td_server_busy(s)));
        td_server_cut(s);
        c->cut = true;
        c->give_up = now + PATIENCE_AFTER_CUT_MS;
    } else if (c->cut && (now >= c->give_up || c->stops > 2)) {
        td_log(TD_ERROR, "drain-failed", TD_I("requests", td_server_suspended(s)));
        finish(c, 1);
    }
}

static void on_stop(uv_signal_t *h, int signum)
{
    struct td_control *c = h->data;

    td_log(TD_INFO, "signal", TD_S("name", signum == SIGTERM ? "SIGTERM" : "SIGINT"),
           TD_S("does", c->stops ? "hurry" : "drain"));
    if (c->stops++ > 0)
        return;
    td_notify("STOPPING=1\nSTATUS=Draining");
    atomic_store(&c->d->draining, true);
    td_server_quiesce(c->d->server);
    c->drain_from = now_ms();
    c->drain_until = c->drain_from + c->d->config.drain_seconds * 1000;
    uv_timer_start(&c->drain, on_drain, DRAIN_TICK_MS, DRAIN_TICK_MS);
}

/* ---- reload ---- */

static void on_changed(void *arg, const char *key, bool reloaded)
{
    int *kept = arg;

    if (reloaded) {
        td_log(TD_INFO, "config-changed", TD_S("key", key));
    } else {
        td_log(TD_WARNING, "config-needs-restart", TD_S("key", key));
        ++*kept;
    }
}

/* What files hold that keys only name. Each part keeps what it had when its file is no good. */
static void reload_files(struct td_daemon *d)
{
    struct tp_err e;

    if (td_auth_reload(d->auth, &d->config, &e) != 0)
        td_log(TD_ERROR, "reload-failed", TD_S("part", "tokens"), TD_S("reason", e.detail));
    if (d->tls && td_tls_reload(d->tls, d->config.tls_cert, d->config.tls_key, &e) != 0)
        td_log(TD_ERROR, "reload-failed", TD_S("part", "certificate"), TD_S("reason", e.detail));
}

static void on_reload(uv_signal_t *h, int signum)
{
    struct td_control *c = h->data;
    struct td_daemon *d = c->d;
    struct td_config now = {0};
    struct tp_err e;
    char text[64];
    int kept = 0;

    (void)signum;
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld", (long long)now_ms() * 1000);
    td_notify(text);
    if (td_options_load(d->options, &now, &e) != 0) {
        td_log(TD_ERROR, "reload-failed", TD_S("reason", e.detail)); /* what was in effect stays */
    } else {
        td_config_reload(&d->config, &now, on_changed, &kept);
        td_log_level((enum td_level)td_log_level_by_name(d->config.log_level));
        td_daemon_apply_limits(d);
        reload_files(d);
        td_log(TD_INFO, "reloaded", TD_I("need_restart", kept));
        td_config_free(&now);
    }
    td_notify("READY=1");
}

/* ---- life ---- */

int td_control_new(struct td_daemon *d, struct td_control **out, struct tp_err *e)
{
    struct td_control *c = calloc(1, sizeof *c);
    int64_t watchdog = td_notify_watchdog_ms();

    if (!c || uv_loop_init(&c->loop) != 0) {
        free(c);
        return tp_fail(e, TP_E_NO_MEMORY, "cannot make the control loop");
    }
    c->d = d;
    c->store_healthy = true;
    c->term.data = c->intr.data = c->hup.data = c->tick.data = c->drain.data = c->watchdog.data = c;
    uv_signal_init(&c->loop, &c->term);
    uv_signal_init(&c->loop, &c->intr);
    uv_signal_init(&c->loop, &c->hup);
    uv_timer_init(&c->loop, &c->tick);
    uv_timer_init(&c->loop, &c->drain);
    uv_timer_init(&c->loop, &c->watchdog);
    uv_signal_start(&c->term, on_stop, SIGTERM);
    uv_signal_start(&c->intr, on_stop, SIGINT);
    uv_signal_start(&c->hup, on_reload, SIGHUP);
    uv_timer_start(&c->tick, on_tick, 0, TICK_MS);
    if (watchdog)
        uv_timer_start(&c->watchdog, on_watchdog, 0, (uint64_t)watchdog / 2);
    atomic_store(&d->heartbeat, now_ms());
    if (!(d->linger = td_linger_new(&c->loop))) {
        td_control_free(c);
        return tp_fail(e, TP_E_NO_MEMORY, "cannot make the control loop");
    }
    *out = c;
    return 0;
}

int td_control_run(struct td_control *c)
{
    uv_run(&c->loop, UV_RUN_DEFAULT);
    return c->status;
}

void td_control_free(struct td_control *c)
{
    if (!c)
        return;
    td_linger_free(c->d->linger);
    c->d->linger = NULL;
    uv_close((uv_handle_t *)&c->term, NULL);
    uv_close((uv_handle_t *)&c->intr, NULL);
    uv_close((uv_handle_t *)&c->hup, NULL);
    uv_close((uv_handle_t *)&c->tick, NULL);
    uv_close((uv_handle_t *)&c->drain, NULL);
    uv_close((uv_handle_t *)&c->watchdog, NULL);
    uv_run(&c->loop, UV_RUN_DEFAULT);
    uv_loop_close(&c->loop);
    free(c);
}
