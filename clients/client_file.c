/* Files and time for the client library: whole files in memory, a tree removed, a monotonic clock. No state. */
#include "clients/client.h"

#include "proto/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int read_fd(int fd, const char *path, struct tp_buf *out, struct tc_err *e)
{
    enum { STEP = 64 * 1024 };
    size_t start = out->n;
    for (;;) {
        char *to = out->n - start < TC_MAX_FILE ? tp_buf_grow(out, STEP + 1) : NULL;
        if (!to)
            return tc_fail(e, "%s is longer than %d bytes, or memory is short", path, TC_MAX_FILE);
        ssize_t n = read(fd, to, STEP);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return tc_fail(e, "cannot read %s: %s", path, strerror(errno));
        to[n] = '\0';
        if (!n)
            return 0;
        out->n += (size_t)n;
    }
}

int tc_read_file(const char *path, struct tp_buf *out, struct tc_err *e)
{
    struct tp_buf raw = {0};
    size_t len = strlen(path);
    bool packed = len > 3 && !strcmp(path + len - 3, ".gz");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return tc_fail(e, "cannot open %s: %s", path, strerror(errno));
    int rc = read_fd(fd, path, packed ? &raw : out, e);
    close(fd);
    if (!rc && packed) {
        rc = tc_gunzip(raw.p, raw.n, TC_MAX_FILE, out, e);
        tp_buf_putc(out, '\0');
        out->n -= !out->oom;
        if (!rc && out->oom)
            rc = tc_fail(e, "out of memory");
    }
    tp_buf_free(&raw);
    return rc;
}

int tc_write_file(const char *path, const void *p, size_t n, struct tc_err *e)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return tc_fail(e, "cannot write %s: %s", path, strerror(errno));
    int rc = 0;
    for (size_t done = 0; done < n && !rc;) {
        ssize_t put = write(fd, (const char *)p + done, n - done);
        if (put < 0 && errno != EINTR)
            rc = tc_fail(e, "cannot write %s: %s", path, strerror(errno));
        done += put > 0 ? (size_t)put : 0;
    }
    if (close(fd) && !rc)
        rc = tc_fail(e, "cannot write %s: %s", path, strerror(errno));
    return rc;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

int tc_remove_tree(const char *path, struct tc_err *e)
{
    enum { OPEN_DIRS = 16 };
    if (nftw(path, remove_one, OPEN_DIRS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) && errno != ENOENT)
        return tc_fail(e, "cannot remove %s: %s", path, strerror(errno));
    return 0;
}

double tc_now(void)
{
    return tp_seconds();
}

void tc_sleep(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    nanosleep(&t, NULL);
}
