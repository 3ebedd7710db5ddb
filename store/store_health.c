/* Whether the store can be written, how fast it is, and how much may wait for it.
 *
 * Invariant: healthy turns false with the first write that fails with DISK_FULL or IO, and true again with the first
 * commit that reaches the log. A store that nobody writes to is asked by st_probe(), which first makes sure that there
 * is room: a single page may still fit into a log whose disk is full. Any thread but where said. */
#include "store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROBE_BYTES = 1 << 20 };

bool st_healthy(const struct st_store *s)
{
    return s->healthy;
}

size_t st_ingest_queued(const struct st_store *s)
{
    return s->queued_rows;
}

int64_t st_ingest_wait_ms(const struct st_store *s)
{
    return (int64_t)s->queued_rows * s->row_ns / 1000000;
}

int64_t st_database_bytes(const struct st_store *s)
{
    struct stat st;

    return stat(s->path, &st) == 0 ? (int64_t)st.st_size : 0;
}

int64_t st_log_bytes(const struct st_store *s)
{
    return (int64_t)s->log_frames * ST_PAGE_BYTES;
}

uint64_t st_commits(const struct st_store *s)
{
    return s->commits;
}

void st_queue_limit(struct st_store *s, size_t rows, size_t bytes)
{
    s->max_rows = rows;
    s->max_bytes = bytes;
}

void st_lease_limit(struct st_store *s, int64_t longest)
{
    s->lease_longest = longest;
}

/* Room for PROBE_BYTES in the directory of the database. */
static int room(const struct st_store *s, struct tp_err *e)
{
    char *dir = strdup(s->path), *slash = dir ? strrchr(dir, '/') : NULL;
    int fd = -1, err = ENOMEM;

    if (slash) {
        *slash = '\0';
        fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
        if (fd >= 0)
            err = posix_fallocate(fd, 0, PROBE_BYTES);
        else
            err = errno == EOPNOTSUPP ? 0 : errno; /* then the commit alone has to tell */
    }
    if (fd >= 0)
        close(fd);
    free(dir);
    if (err == 0 || err == EOPNOTSUPP)
        return 0;
    return tp_fail(e, tp_code_of_errno(err), "no room: %s", strerror(err));
}

static int probe_run(struct st_store *s, struct st_op *op, struct tp_err *e)
{
    (void)op;
    int rc = room(s, e);
    if (rc < 0)
        return rc;
    struct st_q q = st_q_begin(&s->db, ST_SQL_W_PROBE);
    return st_q_run(&q, e);
}

static void probe_finish(struct st_op *op)
{
    free(op);
}

int st_probe(struct st_store *s, struct tp_err *e)
{
    struct st_op *op = calloc(1, sizeof *op);
    if (!op)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to look after the store");
    *op = (struct st_op){.rows = 1, .run = probe_run, .finish = probe_finish};
    int rc = st_writer_push(s, op, true, e);
    if (rc < 0)
        free(op);
    return rc;
}
