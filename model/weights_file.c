/* Weights files on disk: atomic publication and bounded reading. What is in them: weights.c, weights_write.c.
 *
 * Invariant: a path that was published once always holds a whole file, whatever is killed when; a failed save leaves
 * the old file and no temporary one. Two savers of one path at a time are the caller's mistake. Stateless; any thread.
 */
#include "model/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int io_fail(struct tp_err *e, const char *what)
{
    return tp_fail(e, tp_code_of_errno(errno), "weights file: %s: %s", what, strerror(errno));
}

static int write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -1;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

/* The rename is durable only when its directory is. */
static int sync_directory(const char *path, struct tp_buf *scratch)
{
    const char *slash = strrchr(path, '/');
    scratch->n = 0;
    if (slash)
        tp_buf_put(scratch, path, slash == path ? 1 : (size_t)(slash - path));
    else
        tp_buf_putc(scratch, '.');
    tp_buf_putc(scratch, '\0');
    if (scratch->oom) {
        errno = ENOMEM;
        return -1;
    }
    int fd = open(scratch->p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int rc = fsync(fd);
    int saved = errno;
    close(fd);
    errno = saved;
    return rc;
}

int tm_weights_save(const char *path, const struct tm_model *m, const struct tm_provenance *p, struct tp_err *e)
{
    return tm_weights_save_beside(path, m, NULL, p, e);
}

int tm_weights_save_beside(const char *path, const struct tm_model *m, const struct tm_besides *b,
                           const struct tm_provenance *p, struct tp_err *e)
{
    struct tp_buf bytes = {0}, tmp = {0};
    int fd = -1;
    bool made = false;
    int rc = tm_weights_write_beside(m, b, p, &bytes, e);
    if (rc)
        goto out;
    tp_buf_puts(&tmp, path);
    tp_buf_put(&tmp, ".tmp", sizeof ".tmp");
    if (tmp.oom) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a path");
        goto out;
    }
    fd = open(tmp.p, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        rc = io_fail(e, "create");
        goto out;
    }
    made = true;
    if (write_all(fd, bytes.p, bytes.n) || fsync(fd)) {
        rc = io_fail(e, "write");
        goto out;
    }
    int closed = close(fd);
    fd = -1;
    if (closed) {
        rc = io_fail(e, "close");
        goto out;
    }
    if (rename(tmp.p, path)) {
        rc = io_fail(e, "rename");
        goto out;
    }
    made = false;
    if (sync_directory(path, &tmp))
        rc = io_fail(e, "fsync of the directory");
out:
    if (fd >= 0)
        close(fd);
    if (made)
        unlink(tmp.p);
    tp_buf_free(&tmp);
    tp_buf_free(&bytes);
    return rc;
}

int tm_weights_load(const char *path, struct tm_model **m, struct tm_provenance *p, struct tp_err *e)
{
    return tm_weights_load_beside(path, m, NULL, p, e);
}

int tm_weights_load_beside(const char *path, struct tm_model **m, struct tm_besides *b, struct tm_provenance *p,
                           struct tp_err *e)
{
    int rc;
    struct stat st;
    char *bytes = NULL;
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* NONBLOCK: a FIFO in the place of a file must not hang */
    if (fd < 0)
        return io_fail(e, "open");
    if (fstat(fd, &st)) {
        rc = io_fail(e, "stat");
        goto out;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > TM_WEIGHTS_MAX) {
        rc = tp_fail(e, TP_E_BAD_WEIGHTS, "not a regular file of at most %d bytes", (int)TM_WEIGHTS_MAX);
        goto out;
    }
    size_t size = (size_t)st.st_size;
    bytes = malloc(size + 1);
    if (!bytes) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a weights file");
        goto out;
    }
    while (n < size) {
        ssize_t k = read(fd, bytes + n, size - n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            rc = io_fail(e, "read");
            goto out;
        }
        if (k == 0)
            break; /* shortened meanwhile: the reader will say so */
        n += (size_t)k;
    }
    rc = tm_weights_read_beside(bytes, n, m, b, p, e);
out:
    free(bytes);
    close(fd);
    return rc;
}
