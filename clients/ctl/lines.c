/* See the header. buf[at..n) is read and not given out; what was given out starts at buf[0]. */
#include "clients/ctl/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { STEP = 256 << 10 };

struct ln_reader {
    gzFile gz;
    char *path;
    struct tp_buf buf;
    size_t given;     /* bytes at the front that were given out */
    long long offset; /* of the text behind them */
    long long line;   /* number of the next line */
    bool end;
};

struct ln_reader *ln_open(const char *path, struct tc_err *e)
{
    struct ln_reader *r = calloc(1, sizeof *r);
    bool in = !strcmp(path, "-");
    int fd = in ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        tc_fail(e, "cannot open %s: %s", path, strerror(errno));
        free(r);
        return NULL;
    }
    if (r)
        r->path = strdup(in ? "standard input" : path);
    if (!r || !r->path || !(r->gz = gzdopen(fd, "rb"))) {
        tc_fail(e, "out of memory");
        close(fd);
        if (r)
            free(r->path);
        free(r);
        return NULL;
    }
    gzbuffer(r->gz, STEP);
    r->line = 1;
    return r;
}

void ln_close(struct ln_reader *r)
{
    if (!r)
        return;
    gzclose(r->gz);
    tp_buf_free(&r->buf);
    free(r->path);
    free(r);
}

static int read_error(struct ln_reader *r, struct tc_err *e)
{
    int code;
    const char *why = gzerror(r->gz, &code);
    return tc_fail(e, "%s: %s", r->path,
                   code == Z_ERRNO       ? strerror(errno)
                   : code == Z_BUF_ERROR ? "the gzip file is cut off"
                                         : why);
}

int ln_skip(struct ln_reader *r, long long offset, long long lines, struct tc_err *e)
{
    char junk[4096];

    /* gzseek does not tell whether the file is that long, so the last byte is read */
    if (offset > 0 && (gzseek(r->gz, (z_off_t)(offset - 1), SEEK_SET) < 0 || gzread(r->gz, junk, 1) != 1))
        return tc_fail(e, "%s is shorter than it was", r->path);
    r->offset = offset;
    r->line = lines + 1;
    return 0;
}

/* More text behind buf.n. */
static int fill(struct ln_reader *r, struct tc_err *e)
{
    char *to = tp_buf_grow(&r->buf, STEP);
    int n;

    if (!to)
        return tc_fail(e, "out of memory");
    n = gzread(r->gz, to, STEP);
    if (n < 0)
        return read_error(r, e);
    r->buf.n += (size_t)n;
    if (n == 0) {
        int code;
        gzerror(r->gz, &code);
        if (code != Z_OK && code != Z_STREAM_END)
            return read_error(r, e);
        r->end = true;
    }
    return 0;
}

int ln_next(struct ln_reader *r, size_t most_bytes, long long most_lines, struct ln_batch *b, struct tc_err *e)
{
    size_t at = 0, whole = 0; /* looked at; whole lines */
    long long lines = 0;
    bool torn;

    if (r->given)
        memmove(r->buf.p, r->buf.p + r->given, r->buf.n - r->given);
    r->buf.n -= r->given;
    r->given = 0;
    while (lines < most_lines && (whole < most_bytes || lines == 0)) {
        char *nl = at < r->buf.n ? memchr(r->buf.p + at, '\n', r->buf.n - at) : NULL;
        if (nl && lines > 0 && (size_t)(nl + 1 - r->buf.p) > most_bytes)
            break;
        if (nl) {
            at = whole = (size_t)(nl + 1 - r->buf.p);
            lines++;
            continue;
        }
        at = r->buf.n;
        if (at - whole > LN_MAX_LINE)
            return tc_fail(e, "%s:%lld: a line of more than %d bytes: this is no log", r->path, r->line + lines,
                           LN_MAX_LINE);
        if (r->end)
            break;
        if (fill(r, e))
            return -1;
    }
    torn = r->end && whole == 0 && r->buf.n > 0;
    r->offset += (long long)(torn ? r->buf.n : whole);
    if (torn) { /* alone, so that it can be left for later */
        tp_buf_putc(&r->buf, '\n');
        if (r->buf.oom)
            return tc_fail(e, "out of memory");
        whole = r->buf.n;
        lines = 1;
    }
    *b = (struct ln_batch){.p = r->buf.p, .n = whole, .line = r->line, .lines = lines, .torn = torn};
    r->given = whole;
    r->line += lines;
    return lines > 0;
}

long long ln_offset(const struct ln_reader *r)
{
    return r->offset;
}

long long ln_done(const struct ln_reader *r)
{
    return (long long)gzoffset(r->gz);
}

bool ln_is_skipped(const char *p, size_t n)
{
    if (n >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) {
        p += 3;
        n -= 3;
    }
    if (n == 0 || *p == '#' || *p == ' ')
        return true;
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", p[i]) || !p[i])
            return false;
    return true;
}

/* ---- files ---- */

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool is_log(const char *name)
{
    static const char *const end[] = {".json", ".jsonl", ".ndjson", ".log"};
    size_t n = strlen(name);
    if (n > 3 && !strcmp(name + n - 3, ".gz"))
        n -= 3;
    for (size_t i = 0; i < sizeof end / sizeof *end; i++) {
        size_t k = strlen(end[i]);
        if (n > k && !strncmp(name + n - k, end[i], k))
            return true;
    }
    return false;
}

static int add_file(char ***files, size_t *n, const char *path, struct tc_err *e)
{
    char **more = realloc(*files, (*n + 2) * sizeof *more);
    if (more)
        *files = more;
    if (!more || !(more[*n] = strdup(path)))
        return tc_fail(e, "out of memory");
    more[++*n] = NULL;
    return 0;
}

static int add_folder(char ***files, size_t *n, const char *path, struct tc_err *e)
{
    char *const root[] = {(char *)(uintptr_t)path, NULL};
    FTS *tree = fts_open(root, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    int rc = tree ? 0 : tc_fail(e, "cannot read %s: %s", path, strerror(errno));

    for (FTSENT *x; !rc && (x = fts_read(tree));) {
        if (x->fts_info == FTS_F && is_log(x->fts_name))
            rc = add_file(files, n, x->fts_path, e);
        else if (x->fts_info == FTS_ERR || x->fts_info == FTS_DNR || x->fts_info == FTS_NS)
            rc = tc_fail(e, "cannot read %s: %s", x->fts_path, strerror(x->fts_errno));
    }
    if (tree)
        fts_close(tree);
    return rc;
}

int ln_files(const char *const *word, int n, char ***out, struct tc_err *e)
{
    char **files = calloc(1, sizeof *files);
    size_t count = 0;
    int rc = files ? 0 : tc_fail(e, "out of memory");

    for (int i = 0; !rc && i < n; i++) {
        struct stat st = {0};
        if (strcmp(word[i], "-") && stat(word[i], &st))
            rc = tc_fail(e, "cannot open %s: %s", word[i], strerror(errno));
        else if (S_ISDIR(st.st_mode))
            rc = add_folder(&files, &count, word[i], e);
        else
            rc = add_file(&files, &count, word[i], e);
    }
    if (!rc && !count)
        rc = tc_fail(e, "there is no log below %s (.json, .jsonl, .ndjson, .log, packed with gzip or not)", word[0]);
    if (rc)
        ln_files_free(files);
    else
        *out = files;
    return rc;
}

void ln_files_free(char **files)
{
    for (char **f = files; f && *f; f++)
        free(*f);
    free(files);
}
