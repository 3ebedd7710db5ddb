/* The daemon's one state object and the life of its parts. Nothing else is global but the log level.
 *
 * Start order: config -> log -> store (migrate, interrupt stale jobs) -> registry (load models) -> pools -> jobs,
 * offsets -> HTTP -> port file -> READY=1. Drain is the reverse: stop accepting, finish what is in flight, cancel jobs,
 * flush the store, exit 0. */
#ifndef TD_DAEMON_H
#define TD_DAEMON_H

#include "daemon/config.h"
#include "store/store.h"

#include <stdatomic.h>

struct td_daemon {
    struct td_config config; /* immutable after start but for reloadable keys (atomics inside) */
    struct st_store *store;
    struct td_registry *registry;     /* models in memory: daemon/registry.h */
    struct td_pool *predict_pool;     /* predictions only: daemon/pool.h */
    struct td_pool *api_pool;         /* requests that read or write the store, measurement parsing */
    struct td_jobs *jobs;             /* job threads: daemon/jobs.h */
    struct td_recal *recal;           /* offsets of tasks: daemon/recalibrate.h */
    struct td_drift *drift;           /* predicted against measured latency: daemon/drift.h */
    struct td_starter *starter;       /* knowledge that came with tcld: daemon/starter.h */
    struct td_server *server;         /* HTTP: daemon/server.h */
    struct td_auth *auth;             /* tokens and peers: daemon/auth.h */
    struct td_tls *tls;               /* certificate of tls_listen, NULL none: daemon/tls.h */
    struct td_metrics *metrics;       /* daemon/metrics.h */
    struct td_linger *linger;         /* connections closed with care, on the control loop: daemon/linger.h */
    const struct td_options *options; /* the command line, applied again at a reload: daemon/options.h */
    struct td_threads {               /* resolved: what 0 in the configuration became */
        int http, predict, express /* of the predict pool too */, api, train;
    } threads;
    _Atomic bool draining;
    _Atomic bool ready;
    _Atomic bool memory_full;  /* above limit_memory_bytes, as of the last second */
    _Atomic bool sweeping;     /* the store is looking for leases that ran out */
    _Atomic bool backing_up;   /* one copy at a time */
    _Atomic int exports;       /* streams of records that run */
    _Atomic int64_t heartbeat; /* monotonic milliseconds of the control loop's last turn */
};

/* What td_config_check cannot see: the files that the configuration names. CONFIG. */
int td_daemon_check(const struct td_config *c, struct tp_err *e);
/* Hands the limits of the configuration to the parts that keep a copy: at start and after a reload. */
void td_daemon_apply_limits(struct td_daemon *d);
/* Run until SIGTERM/SIGINT. Returns the exit status of the process. */
int td_daemon_run(struct td_daemon *d);

#endif
