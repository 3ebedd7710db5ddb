/* The life of the daemon: parts in order, the port file, and the way back.
 *
 * Invariant: a part is freed after everything that uses it: HTTP first (no request is left), then jobs, pools, models,
 * store, log. Main thread. */
#include "daemon/daemon.h"

#include "daemon/auth.h"
#include "daemon/control.h"
#include "daemon/cores.h"
#include "daemon/drift.h"
#include "daemon/figures.h"
#include "daemon/handlers.h"
#include "daemon/jobs.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/notify.h"
#include "daemon/pool.h"
#include "daemon/recalibrate.h"
#include "daemon/registry.h"
#include "daemon/request.h"
#include "daemon/server.h"
#include "daemon/starter.h"
#include "daemon/train_job.h"
#include "daemon/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    FILES_MIN = 48, /* descriptors of the parts themselves, and room for a few connections */
    FILES_PER_READER = 4,
    LEASE_GRACE_MS = 30000, /* for agents to come back after a restart */
    LONG_WORK_NICE = 5      /* behind HTTP and express threads, before jobs */
};

static void *reader_new(void *arg)
{
    struct td_daemon *d = arg;
    struct st_reader *r = NULL;
    struct tp_err e;

    if (st_reader_new(d->store, &r, &e) != 0)
        td_log(TD_ERROR, "store-reader", TD_S("reason", e.detail));
    return r;
}

static void reader_free(void *r)
{
    st_reader_free(r);
}

static void on_bad_model(void *arg, int64_t id, const struct tp_err *e)
{
    (void)arg;
    td_log(TD_ERROR, "model-unusable", TD_I("model", id), TD_S("reason", e->detail));
}

/* As many descriptors as we may have: connections are what needs them. With too few, accepting them fails for ever,
 * and libmicrohttpd tries again for ever. */
static int raise_file_limit(const struct td_daemon *d, struct tp_err *e)
{
    struct rlimit files;
    rlim_t least = FILES_MIN + FILES_PER_READER * (rlim_t)d->threads.api + (rlim_t)d->threads.http;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return 0;
    if (files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &files) != 0)
            getrlimit(RLIMIT_NOFILE, &files);
    }
    if (files.rlim_cur < least)
        return tp_fail(e, TP_E_CONFIG, "this process may open %llu files; it needs %llu at least (see ulimit -n)",
                       (unsigned long long)files.rlim_cur, (unsigned long long)least);
    return 0;
}

/* Decimal port and newline, by rename, so that a reader never sees half of it. */
static int write_port_file(const char *path, int port, struct tp_err *e)
{
    char tmp[4096], text[16];
    int fd = -1, n = snprintf(tmp, sizeof tmp, "%s.%ld", path, (long)getpid()),
        len = snprintf(text, sizeof text, "%d\n", port);

    if (n < 0 || (size_t)n >= sizeof tmp)
        return tp_fail(e, TP_E_CONFIG, "--port-file: path too long");
    fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        goto fail;
    if (write(fd, text, (size_t)len) != len || close(fd) != 0 || rename(tmp, path) != 0)
        goto fail;
    return 0;
fail:
    n = tp_fail(e, TP_E_CONFIG, "--port-file %.150s: %s", path, strerror(errno));
    unlink(tmp);
    return n;
}

static int open_store(struct td_daemon *d, struct tp_err *e)
{
    char models[TD_CONFIG_VALUE_MAX + 16];
    const char *dir = td_config_state_dir(&d->config);
    struct stat st;
    int rc = st_open(dir, &d->store, e);

    if (rc)
        return rc;
    if (stat(dir, &st) == 0 && (st.st_mode & 077) != 0)
        td_log(TD_WARNING, "state-dir-open", TD_S("state_dir", dir),
               TD_S("reason", "others of this machine may look into it: chmod 700"));
    td_backup_sweep(dir);
    rc = st_lease_grace(d->store, td_wall_ms(), LEASE_GRACE_MS, e);
    if (rc == -TP_E_DISK_FULL || rc == -TP_E_IO) /* predictions need no disk */
        td_log(TD_WARNING, "leases-not-renewed", TD_S("error", tp_code_slug(rc)));
    else if (rc)
        return rc;
    snprintf(models, sizeof models, "%s/models", dir);
    rc = td_registry_new(models, d->store, on_bad_model, NULL, &d->registry, e);
    if (rc == 0)
        td_registry_keep_rejected(d->registry, d->config.rejected_models);
    return rc;
}

void td_daemon_apply_limits(struct td_daemon *d)
{
    td_pool_limit(d->predict_pool, (size_t)d->config.predict_queue);
    td_pool_limit(d->api_pool, (size_t)d->config.api_queue);
    st_queue_limit(d->store, (size_t)d->config.ingest_queue_rows, (size_t)d->config.ingest_queue_bytes);
    st_lease_limit(d->store, d->config.lease_max_seconds * 1000);
}

static int start_parts(struct td_daemon *d, struct tp_err *e)
{
    char kept[TD_CONFIG_VALUE_MAX + 16];
    int rc;

    if (!(d->metrics = td_metrics_new()))
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory");
    td_gauge(d->metrics, TD_G_START, (double)time(NULL));
    if ((rc = td_auth_new(&d->config, &d->auth, e)) != 0)
        return rc;
    if (*d->config.tls_listen && (rc = td_tls_new(d->config.tls_cert, d->config.tls_key, &d->tls, e)) != 0)
        return rc;
    if ((rc = open_store(d, e)) != 0)
        return rc;
    d->predict_pool = td_pool_new(&(struct td_pool_opts){
        .name = "tcld-predict",
        .threads = {[TD_LANE_MAIN] = d->threads.predict, [TD_LANE_EXPRESS] = d->threads.express},
        .max_queued = (size_t)d->config.predict_queue,
        .nice = LONG_WORK_NICE,
        .worker_new = td_predict_worker_new,
        .worker_free = td_predict_worker_free,
        .arg = d,
    });
    d->api_pool = td_pool_new(&(struct td_pool_opts){
        .name = "tcld-api",
        .threads = {[TD_LANE_MAIN] = d->threads.api},
        .max_queued = (size_t)d->config.api_queue,
        .nice = LONG_WORK_NICE,
        .worker_new = reader_new,
        .worker_free = reader_free,
        .arg = d,
    });
    if (!d->predict_pool || !d->api_pool)
        return tp_fail(e, TP_E_NO_MEMORY, "cannot start the thread pools");
    if (!(d->drift = td_drift_new()))
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory");
    if ((rc = td_starter_new(&d->config, &d->starter, e)) != 0)
        return rc;
    td_starter_all(d);
    snprintf(kept, sizeof kept, "%s/jobs", td_config_state_dir(&d->config));
    if ((rc = td_jobs_new(d, kept, td_train_run, &d->jobs, e)) != 0 || (rc = td_recal_new(d, &d->recal, e)) != 0 ||
        (rc = td_jobs_start(d->jobs, e)) != 0)
        return rc;
    td_daemon_apply_limits(d);
    td_figures_show_all(d);
    return td_server_new(d, &d->server, e);
}

static void stop_parts(struct td_daemon *d)
{
    td_server_free(d->server);
    td_recal_stop(d->recal);
    td_jobs_free(d->jobs);
    td_recal_free(d->recal);
    td_drift_free(d->drift);
    td_starter_free(d->starter);
    td_pool_free(d->predict_pool);
    td_pool_free(d->api_pool);
    td_registry_free(d->registry);
    st_close(d->store);
    td_tls_free(d->tls);
    td_auth_free(d->auth);
    td_metrics_free(d->metrics);
}

int td_daemon_check(const struct td_config *c, struct tp_err *e)
{
    struct td_auth *auth = NULL;
    struct td_tls *tls = NULL;
    int rc = td_auth_new(c, &auth, e);

    if (rc == 0 && *c->tls_listen)
        rc = td_tls_new(c->tls_cert, c->tls_key, &tls, e);
    td_tls_free(tls);
    td_auth_free(auth);
    return rc;
}

static void log_settings(const struct td_config *c)
{
    bool json = false;

    td_log_format_by_name(c->log_format, &json);
    td_log_format(json);
    td_log_level((enum td_level)td_log_level_by_name(c->log_level));
}

int td_daemon_run(struct td_daemon *d)
{
    struct td_control *control = NULL;
    struct tp_err e = {0};
    int status = 1, rc;

    log_settings(&d->config);
    if (td_log_start() != 0)
        return 1;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is a full disk (EFBIG), not the end */
    td_threads_resolve(&d->config, td_cores(), &d->threads);
    td_log(TD_INFO, "starting", TD_S("version", TCLD_VERSION), TD_I("pid", getpid()),
           TD_I("http_threads", d->threads.http), TD_I("predict_threads", d->threads.predict),
           TD_I("express_threads", d->threads.express), TD_I("api_threads", d->threads.api),
           TD_I("train_threads", d->threads.train), TD_S("config", d->config.file),
           TD_S("state_dir", td_config_state_dir(&d->config)));

    rc = raise_file_limit(d, &e);
    if (rc == 0)
        rc = td_control_new(d, &control, &e);
    if (rc == 0)
        rc = start_parts(d, &e);
    if (rc == 0) {
        atomic_store(&d->ready, true);
        if (d->config.port_file)
            rc = write_port_file(d->config.port_file, td_server_port(d->server), &e);
    }
    if (rc == 0) {
        td_notify("READY=1\nSTATUS=Serving");
        td_log(TD_INFO, "ready", TD_I("port", td_server_port(d->server)));
        status = td_control_run(control);
        if (status !=
            0) { /* a handler never came back: nothing it may touch can be freed; what was acknowledged is on disk */
            td_log_stop();
            _exit(status);
        }
    } else {
        td_log(TD_ERROR, "start-failed", TD_S("code", tp_code_slug(e.code)), TD_S("reason", e.detail));
    }
    stop_parts(d);
    td_control_free(control);
    td_log(TD_INFO, "stopped", TD_I("status", status));
    td_log_stop();
    return status;
}
