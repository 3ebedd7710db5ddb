/* Opening and closing: the directory and its lock, the database file, migration, the writer, readers.
 *
 * Invariant: whoever has a struct st_store holds the lock on DIR/lock, so two daemons never share a directory.
 * Thread: st_open() and st_close() from one thread; st_reader_new() from any. */
#include "store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BACKUP_PAGES = 1024 /* between two looks at go_on */ };

static int fail_errno(struct tp_err *e, const char *what)
{
    int err = errno;
    return tp_fail(e, tp_code_of_errno(err), "%s: %s", what, strerror(err));
}

/* A name that was just made lasts once the directory above it is synced. */
static void sync_above(const char *dir)
{
    int d = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int up = d >= 0 ? openat(d, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (up >= 0) {
        fsync(up);
        close(up);
    }
    if (d >= 0)
        close(d);
}

/* Makes the directory, and those above it, when they are missing. `path` is cut and mended on the way. */
static int make_dir(char *path, struct tp_err *e)
{
    int rc = 0;
    for (char *end = path; *end && rc == 0;) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char *next = end + strspn(end, "/"), cut = *end;
        *end = '\0';
        if (mkdir(path, *next ? 0755 : 0700) == 0)
            sync_above(path);
        else if (errno != EEXIST)
            rc = fail_errno(e, *next ? "a directory above the state directory cannot be made"
                                     : "the state directory cannot be made");
        *end = cut;
        end = next;
    }
    return rc;
}

static int open_dir(const char *dir, int *fd, struct tp_err *e)
{
    char *path = strdup(dir);
    int rc = path ? make_dir(path, e) : tp_fail(e, TP_E_NO_MEMORY, "no memory to open the store");
    free(path);
    if (rc < 0)
        return rc;
    *fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd < 0 ? fail_errno(e, "the state directory cannot be opened") : 0;
}

static int lock_dir(int dir_fd, int *lock_fd, struct tp_err *e)
{
    int fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_errno(e, "the state directory's lock cannot be made");
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int rc = errno == EWOULDBLOCK ? tp_fail(e, TP_E_CONFLICT, "the state directory is in use by another tcld")
                                      : fail_errno(e, "the state directory cannot be locked");
        close(fd);
        return rc;
    }
    *lock_fd = fd;
    return 0;
}

/* Made here and not by SQLite for the sake of its mode, which its log inherits. */
static int make_file(int dir_fd, struct tp_err *e)
{
    int fd = openat(dir_fd, "tcld.db", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail_errno(e, "tcld.db cannot be opened");
    close(fd);
    return 0;
}

static int set_up(struct st_db *db, struct tp_err *e)
{
    static const char pragmas[] = "PRAGMA journal_mode = WAL;"
                                  "PRAGMA synchronous = FULL;"
                                  "PRAGMA foreign_keys = ON;"
                                  "PRAGMA secure_delete = OFF;"
                                  "PRAGMA temp_store = MEMORY;"
                                  "PRAGMA cache_size = -32768;"
                                  "PRAGMA journal_size_limit = 67108864;"
                                  "PRAGMA wal_autocheckpoint = 0";
    int64_t fk = 0;
    int rc = st_migrate(db, st_migrations, st_migrations_n, e);
    if (rc == 0)
        rc = st_db_exec(db, pragmas, e);
    if (rc == 0)
        rc = st_db_pragma(db, "PRAGMA foreign_keys", &fk, e);
    if (rc == 0 && !fk)
        rc = tp_fail(e, TP_E_INTERNAL, "this SQLite has no foreign keys");
    return rc;
}

int st_open(const char *dir, struct st_store **out, struct tp_err *e)
{
    int rc = 0, dir_fd = -1;
    struct st_store *s = calloc(1, sizeof *s);
    if (!s)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to open the store");
    s->lock_fd = -1;
    s->tail = &s->head;
    s->healthy = true;
    st_queue_limit(s, ST_QUEUE_ROWS, ST_QUEUE_BYTES);
    st_lease_limit(s, ST_LEASE_LONGEST);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    pthread_cond_init(&s->done, NULL);
    s->variants = calloc(ST_VARIANT_SLOTS, sizeof *s->variants);
    if (!s->variants || asprintf(&s->path, "%s/tcld.db", dir) < 0) {
        s->path = NULL;
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to open the store");
        goto out;
    }
    if ((rc = open_dir(dir, &dir_fd, e)) < 0 || (rc = lock_dir(dir_fd, &s->lock_fd, e)) < 0 ||
        (rc = make_file(dir_fd, e)) < 0 || (rc = st_db_open(&s->db, s->path, true, e)) < 0 ||
        (rc = set_up(&s->db, e)) < 0 || (rc = st_writer_start(s, e)) < 0)
        goto out;
    *out = s;
    s = NULL;
out:
    if (dir_fd >= 0)
        close(dir_fd);
    st_close(s);
    return rc;
}

void st_close(struct st_store *s)
{
    if (!s)
        return;
    st_writer_stop(s);
    if (s->db.h)
        sqlite3_wal_checkpoint_v2(s->db.h, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    st_db_close(&s->db);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    pthread_cond_destroy(&s->done);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s->variants);
    free(s->path);
    free(s);
}

int st_reader_new(struct st_store *s, struct st_reader **out, struct tp_err *e)
{
    struct st_reader *r = calloc(1, sizeof *r);
    if (!r)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for a reader of the store");
    tp_record_init(&r->rec);
    int rc = st_db_open(&r->db, s->path, false, e);
    if (rc == 0)
        rc = st_db_exec(&r->db, "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -4096", e);
    if (rc < 0) {
        st_reader_free(r);
        return rc;
    }
    *out = r;
    return 0;
}

void st_reader_free(struct st_reader *r)
{
    if (!r)
        return;
    st_db_close(&r->db);
    tp_record_free(&r->rec);
    tp_buf_free(&r->version);
    free(r);
}

int st_backup(struct st_reader *r, const char *path, bool (*go_on)(void *arg), void *arg, struct tp_err *e)
{
    int fd =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600); /* SQLite keeps the mode of a file that is there */
    if (fd < 0)
        return errno == EEXIST ? tp_fail(e, TP_E_CONFLICT, "the backup's file exists already")
                               : fail_errno(e, "the backup's file cannot be made");
    close(fd);
    struct st_db to = {0};
    sqlite3_backup *copy = NULL;
    int rc = st_db_open(&to, path, true, e);
    /* one read transaction for all pages: without, a write of others would begin the copy anew */
    if (rc == 0)
        rc = st_db_exec(&r->db, "BEGIN; SELECT count(*) FROM sqlite_schema", e);
    if (rc < 0)
        goto out;
    copy = sqlite3_backup_init(to.h, "main", r->db.h, "main");
    if (!copy) {
        rc = st_db_fail(&to, sqlite3_extended_errcode(to.h), e);
        goto out;
    }
    int step = SQLITE_OK;
    bool stopped = false;
    while (step == SQLITE_OK && !(stopped = go_on && !go_on(arg))) {
        errno = 0; /* st_db_fail() */
        step = sqlite3_backup_step(copy, BACKUP_PAGES);
    }
    int end = sqlite3_backup_finish(copy); /* says nothing of a step that was only busy */
    if (stopped)
        rc = tp_fail(e, TP_E_CANCELLED, "the backup was cancelled");
    else if (end != SQLITE_OK || step != SQLITE_DONE)
        rc = st_db_fail(&to, end != SQLITE_OK ? end : step, e);
out:
    if (!sqlite3_get_autocommit(r->db.h))
        st_db_exec(&r->db, "COMMIT", NULL);
    st_db_close(&to);
    if (rc < 0)
        unlink(path);
    return rc;
}

bool st_id_valid(const char *s)
{
    size_t n = 0;
    for (; s && s[n]; n++) {
        char c = s[n];
        bool alnum = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (n >= ST_ID_MAX || (!alnum && (n == 0 || !strchr("._-", c))))
            return false;
    }
    return n > 0;
}
