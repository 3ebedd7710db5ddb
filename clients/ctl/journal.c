/* See the header. The JSON is {"what": …, "files": {"/abs/path": {"inode", "size", "print", "offset", "lines",
 * "whole"}}}. */
#include "clients/ctl/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct jn_journal {
    char path[PATH_MAX];
    json_t *root, *files;
};

enum { ENDS = 4096 /* bytes of a file's beginning and end that are looked at */ };

/* FNV-1a, going on from h. */
#define HASH 0xcbf29ce484222325ULL
static uint64_t hash(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (; n > 0; n--)
        h = (h ^ *p++) * 0x100000001b3ULL;
    return h;
}

/* Of the beginning and the end of a file's first `size` bytes: a log that was written anew in the same place differs.
 * false: they cannot be read. */
static bool fingerprint(const char *path, long long size, char out[17])
{
    const size_t n = size < ENDS ? (size_t)size : ENDS;
    char bytes[2][ENDS];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool ok = fd >= 0 && pread(fd, bytes[0], n, 0) == (ssize_t)n &&
                    pread(fd, bytes[1], n, (off_t)(size - (long long)n)) == (ssize_t)n;
    if (fd >= 0)
        close(fd);
    if (ok)
        snprintf(out, 17, "%016llx", (unsigned long long)hash(hash(HASH, bytes[0], n), bytes[1], n));
    return ok;
}

/* Makes the folders above the last slash. */
static int make_folders(char *path, struct tc_err *e)
{
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = '\0';
        int rc = mkdir(path, 0700);
        if (rc && errno != EEXIST) {
            tc_fail(e, "cannot make %s, where the progress of imports is kept: %s", path, strerror(errno));
            *p = '/';
            return -1;
        }
        *p = '/';
    }
    return 0;
}

struct jn_journal *jn_open(const char *what, bool forget, struct tc_err *e)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME"), *said;
    struct jn_journal *j = calloc(1, sizeof *j);
    json_error_t why;

    if (!j) {
        tc_fail(e, "out of memory");
        return NULL;
    }
    bool ours = state && *state;
    snprintf(j->path, sizeof j->path, "%s%s/tclctl/import-%016llx.json",
             ours            ? state
             : home && *home ? home
                             : "/tmp",
             ours ? "" : "/.local/state", (unsigned long long)hash(HASH, what, strlen(what)));
    if (make_folders(j->path, e)) {
        free(j);
        return NULL;
    }
    j->root = forget ? NULL : json_load_file(j->path, 0, &why);
    said = tc_str(j->root, "/what");
    if (!said || strcmp(said, what) || !json_is_object(json_object_get(j->root, "files"))) {
        json_decref(j->root);
        j->root = json_pack("{s:s, s:{}}", "what", what, "files");
    }
    j->files = json_object_get(j->root, "files");
    if (!j->files) {
        tc_fail(e, "out of memory");
        jn_close(j);
        return NULL;
    }
    return j;
}

void jn_close(struct jn_journal *j)
{
    if (!j)
        return;
    json_decref(j->root);
    free(j);
}

struct jn_mark jn_find(struct jn_journal *j, const char *path)
{
    struct jn_mark m = {0};
    struct stat st;
    char *full = realpath(path, NULL), print[17];
    const json_t *f = full ? json_object_get(j->files, full) : NULL;
    const char *kept = tc_str(f, "/print");

    if (f && kept && !stat(full, &st) && (int64_t)st.st_ino == tc_int(f, "/inode", -1) &&
        (int64_t)st.st_size >= tc_int(f, "/size", 0) && fingerprint(full, tc_int(f, "/size", 0), print) &&
        !strcmp(print, kept)) {
        m.offset = tc_int(f, "/offset", 0);
        m.lines = tc_int(f, "/lines", 0);
        m.whole = json_is_true(json_object_get(f, "whole")) && st.st_size == tc_int(f, "/size", 0);
    }
    free(full);
    return m;
}

void jn_set(struct jn_journal *j, const char *path, struct jn_mark m)
{
    struct stat st;
    char *full = realpath(path, NULL), print[17];

    if (full && !stat(full, &st) && fingerprint(full, m.size, print)) {
        json_object_del(j->files, full); /* it goes to the end */
        json_object_set_new(j->files, full,
                            json_pack("{s:I, s:I, s:s, s:I, s:I, s:b}", "inode", (json_int_t)st.st_ino, "size",
                                      (json_int_t)m.size, "print", print, "offset", (json_int_t)m.offset, "lines",
                                      (json_int_t)m.lines, "whole", (int)m.whole));
    }
    free(full);
}

const char *jn_latest(struct jn_journal *j, char *const *files)
{
    json_t *known = json_object(), *x;
    const char *key, *latest = NULL;

    for (size_t i = 0; files[i]; i++) {
        char *full = jn_find(j, files[i]).offset > 0 ? realpath(files[i], NULL) : NULL;
        if (full)
            json_object_set_new(known, full, json_integer((json_int_t)i));
        free(full);
    }
    json_object_foreach(j->files, key, x)
    {
        const json_t *i = json_object_get(known, key);
        latest = i ? files[json_integer_value(i)] : latest;
    }
    json_decref(known);
    return latest;
}

void jn_forget(struct jn_journal *j)
{
    json_object_clear(j->files);
}

int jn_save(struct jn_journal *j, struct tc_err *e)
{
    char part[PATH_MAX + 8];
    snprintf(part, sizeof part, "%s.part", j->path);
    if (json_dump_file(j->root, part, JSON_INDENT(1)) || rename(part, j->path))
        return tc_fail(e, "cannot write %s, where the progress of imports is kept: %s", j->path, strerror(errno));
    return 0;
}
