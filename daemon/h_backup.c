/* POST /v1/admin/backup: a consistent copy of the database, streamed while everything goes on.
 *
 * A thread of its own copies the database into a file of the state directory, which costs a second at most for each
 * gigabyte of a quick disk and holds nobody up; then the file, which has no name any more, is streamed at the client's
 * own pace. So a slow client never keeps a transaction open, which would let the log grow. One at a time. */
#include "daemon/handlers.h"

#include "daemon/giveway.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/request_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 64 << 10, COPY_NICE = 10, RETRY_MS = 5000 };
#define PREFIX "backup-"

struct backup {
    struct td_request *r; /* until the reply */
    struct td_daemon *d;
    struct st_reader *reader;
    char path[TD_CONFIG_VALUE_MAX + 64];
    int fd; /* of the copy, -1 not yet */
};

static void backup_free(void *arg)
{
    struct backup *b = arg;

    if (b->fd >= 0)
        close(b->fd);
    st_reader_free(b->reader);
    atomic_store(&b->d->backing_up, false);
    free(b);
}

static int next(void *arg, struct tp_buf *out)
{
    struct backup *b = arg;
    char *to = tp_buf_grow(out, BLOCK);
    ssize_t n = to ? read(b->fd, to, BLOCK) : -1;

    if (n > 0)
        out->n += (size_t)n;
    return n > 0 ? 1 : (int)n;
}

/* Nobody waits for it any more when the drain was cut short. */
static bool go_on(void *arg)
{
    const struct backup *b = arg;

    return !atomic_load(&b->r->http->server->cut);
}

static int copy(struct backup *b, struct tp_err *e)
{
    int rc = st_backup(b->reader, b->path, go_on, b, e);

    if (rc == 0) {
        b->fd = open(b->path, O_RDONLY | O_CLOEXEC);
        unlink(b->path);
        if (b->fd < 0)
            rc = tp_fail(e, TP_E_IO, "the copy cannot be read");
    }
    return rc;
}

static void *run(void *arg)
{
    struct backup *b = arg;
    struct td_request *r = b->r;
    struct tp_err e = {0};
    char name[96];
    time_t t = time(NULL);
    struct tm tm;

    pthread_setname_np(pthread_self(), "tcld-backup");
    td_give_way(COPY_NICE, true);
    if (copy(b, &e) != 0) {
        backup_free(b);
        td_reply_problem(r, &e);
        return NULL;
    }
    td_count(b->d->metrics, TD_C_BACKUPS, 1);
    gmtime_r(&t, &tm);
    strftime(name, sizeof name, "attachment; filename=\"tcld-%Y%m%dT%H%M%SZ.db\"", &tm);
    td_reply_header(r, "Content-Disposition", name);
    td_reply_header(r, "Cache-Control", "no-store");
    td_reply_stream(r, 200, "application/vnd.sqlite3", next, b, backup_free);
    return NULL;
}

void td_h_backup(struct td_request *r)
{
    static const char *const query[] = {NULL};
    struct td_daemon *d = td_req_daemon(r);
    struct backup *b = NULL;
    struct tp_err e = {0};
    pthread_t thread;
    int rc = 0;

    if (!td_req_only_query(r, query))
        return;
    if (atomic_exchange(&d->backing_up, true)) {
        td_limit(r, TD_C_LIMIT_BACKUPS, RETRY_MS, &e, "another backup is under way");
        td_reply_problem(r, &e);
        return;
    }
    b = calloc(1, sizeof *b);
    if (!b) {
        atomic_store(&d->backing_up, false);
        td_reply_fail(r, TP_E_NO_MEMORY, "no memory for a backup");
        return;
    }
    b->r = r;
    b->d = d;
    b->fd = -1;
    snprintf(b->path, sizeof b->path, "%s/" PREFIX "%ld-%s.tmp", td_config_state_dir(&d->config), (long)getpid(),
             td_req_id(r));
    rc = st_reader_new(d->store, &b->reader, &e);
    if (rc == 0) {
        pthread_attr_t attr;
        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        if (pthread_create(&thread, &attr, run, b) != 0)
            rc = tp_fail(&e, TP_E_NO_MEMORY, "no thread for a backup");
        pthread_attr_destroy(&attr);
    }
    if (rc != 0) {
        backup_free(b);
        td_reply_problem(r, &e);
    }
}

void td_backup_sweep(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *f;

    while (d && (f = readdir(d)) != NULL)
        if (strncmp(f->d_name, PREFIX, sizeof PREFIX - 1) == 0)
            unlinkat(dirfd(d), f->d_name, 0);
    if (d)
        closedir(d);
}
