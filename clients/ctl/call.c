/* Calls to tcld, each with its exit code: no answer, refused, interrupted.
 *
 * A download is written beside its destination and renamed at the end, so a file that is there is whole. */
#include "clients/ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { PAGE = 1000 };

static volatile sig_atomic_t stop_asked;

static void on_signal(int sig)
{
    (void)sig;
    stop_asked = 1;
}

bool ctl_stopped(void)
{
    return stop_asked;
}

void ctl_catch_signals(struct ctl *c)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}; /* a second one ends at once */
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    tc_http_stop_on(c->http, &stop_asked);
}

int ctl_fail(struct ctl *c, enum ctl_exit code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->err.text, sizeof c->err.text, fmt, ap);
    va_end(ap);
    return code;
}

const char *ctl_path(struct ctl *c, const char *fmt, ...)
{
    struct tp_buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    for (; *fmt; fmt++) {
        if (fmt[0] != '%' || fmt[1] != 's') {
            tp_buf_putc(&b, *fmt);
            continue;
        }
        fmt++;
        for (const unsigned char *s = va_arg(ap, const unsigned char *); *s; s++)
            if ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || strchr("._-~", *s))
                tp_buf_putc(&b, (char)*s);
            else
                tp_buf_printf(&b, "%%%02X", *s);
    }
    va_end(ap);
    tp_buf_putc(&b, '\0');
    char *kept = ctl_printf(c, "%s", b.oom ? "" : b.p);
    tp_buf_free(&b);
    return kept;
}

static int transport(void)
{
    return stop_asked ? CTL_INTERRUPTED : CTL_NO_ANSWER; /* the text is in c->err */
}

int ctl_refused(struct ctl *c, const struct tc_reply *r)
{
    char why[800];
    tc_reply_explain(r, why, sizeof why);
    return ctl_fail(c, CTL_REFUSED, "%.900s", ctl_words(c, why));
}

/* r: a reply that came. */
static int take_json(struct ctl *c, const char *method, const char *path, const struct tc_reply *r, json_t **out)
{
    struct tc_err e;
    json_t *j;

    if (r->status < 200 || r->status > 299)
        return ctl_refused(c, r);
    if (!out)
        return CTL_OK;
    j = r->body.n ? tc_reply_json(r, &e) : json_null();
    if (!j)
        return ctl_fail(c, CTL_REFUSED, "%s %s: %.800s", method, path, e.text);
    *out = j;
    return CTL_OK;
}

int ctl_call(struct ctl *c, const char *method, const char *path, json_t *body, json_t **out)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    struct tc_request q = {.method = method,
                           .path = path,
                           .body = text,
                           .n = text ? strlen(text) : 0,
                           .content_type = text ? "application/json" : NULL};
    struct tc_reply r = {0};
    int rc = tc_call(c->http, &q, &r, &c->err) ? transport() : take_json(c, method, path, &r, out);

    tc_reply_free(&r);
    free(text);
    json_decref(body);
    return rc;
}

int ctl_list(struct ctl *c, const char *path, size_t most, json_t **out)
{
    json_t *all = json_array(), *page = NULL;
    const char *cursor = "";
    int rc = CTL_OK;

    while (cursor) {
        size_t limit = most && most - json_array_size(all) < PAGE ? most - json_array_size(all) : PAGE;
        const char *url = ctl_printf(c, "%s%climit=%zu%s%s", path, strchr(path, '?') ? '&' : '?', limit,
                                     *cursor ? "&cursor=" : "", cursor);
        rc = ctl_call(c, "GET", url, NULL, &page);
        if (rc)
            break;
        json_array_extend(all, tc_at(page, "/items"));
        cursor = tc_str(page, "/next_cursor");
        cursor = cursor && !(most && json_array_size(all) >= most) ? ctl_path(c, "%s", cursor) : NULL;
        json_decref(page);
    }
    if (rc)
        json_decref(all);
    else
        *out = all;
    return rc;
}

int ctl_post(struct ctl *c, const char *path, const struct tp_buf *lines, double patience, json_t **out)
{
    struct tc_request q = {
        .method = "POST", .path = path, .body = lines->p, .n = lines->n, .content_type = "application/x-ndjson"};
    struct tc_reply r = {0};
    double pause = 0.1, end = tc_now() + patience;
    int rc;

    for (bool told = false;;) {
        bool no_answer = tc_call(c->http, &q, &r, &c->err) != 0;
        rc = no_answer ? transport() : take_json(c, "POST", path, &r, out);
        bool again = no_answer || r.status == 429 || (r.status >= 500 && r.status != 501);
        if (!rc || !again || stop_asked || tc_now() + pause > end)
            break;
        if (!told)
            ctl_note(c, "%s: trying again for %.0f s", c->err.text, patience);
        told = true;
        tc_sleep(pause);
        pause = fmin(pause * 2, 5);
    }
    tc_reply_free(&r);
    return stop_asked && rc ? CTL_INTERRUPTED : rc;
}

/* ---- downloads ---- */

struct download {
    struct ctl *c;
    int fd;
    gzFile gz;
    struct tc_reply reply; /* its head tells what the body is, before it comes */
    struct tp_buf problem; /* the body of an error */
    long long bytes;
    bool failed;
};

static int write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t put = write(fd, p, n);
        if (put < 0 && errno != EINTR)
            return -1;
        p += put > 0 ? put : 0;
        n -= put > 0 ? (size_t)put : 0;
    }
    return 0;
}

/* "HTTP/1.1 200 OK": is the body what was asked for? */
static bool is_good(const struct tp_buf *head)
{
    const char *code = head->n > 12 ? memchr(head->p, ' ', 12) : NULL;
    return code && code[1] == '2';
}

static int on_bytes(void *arg, const char *p, size_t n)
{
    enum { PROBLEM_MAX = 64 << 10 };
    struct download *d = arg;

    if (!is_good(&d->reply.head)) {
        if (d->problem.n + n <= PROBLEM_MAX)
            tp_buf_put(&d->problem, p, n);
        return 0;
    }
    d->bytes += (long long)n;
    d->failed = d->gz ? gzwrite(d->gz, p, (unsigned)n) != (int)n : write_all(d->fd, p, n) != 0;
    ctl_progress(d->c, "download", NAN, "%.1f MB", (double)d->bytes / 1e6);
    return d->failed;
}

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n > k && !strcmp(s + n - k, end);
}

static int run_download(struct ctl *c, const char *method, const char *path, struct download *d, const char *where)
{
    struct tc_reply *r = &d->reply;
    struct tc_request q = {.method = method, .path = path, .sink = on_bytes, .sink_arg = d};
    int rc;

    tc_http_timeout(c->http, 0); /* as long as it takes */
    rc = tc_call(c->http, &q, r, &c->err) ? transport() : CTL_OK;
    tc_http_timeout(c->http, c->timeout);
    if (!rc && !is_good(&r->head)) {
        tp_buf_free(&r->body);
        r->body = d->problem;
        d->problem = (struct tp_buf){0};
        tp_buf_putc(&r->body, '\0');
        r->body.n -= !r->body.oom;
        rc = ctl_refused(c, r);
    }
    if (d->gz && gzclose(d->gz) != Z_OK)
        d->failed = true;
    if (!rc && d->failed)
        rc = ctl_fail(c, CTL_FAILED, "cannot write %s: %s", where, strerror(errno));
    tp_buf_free(&d->problem);
    tc_reply_free(r);
    return rc;
}

int ctl_download(struct ctl *c, const char *method, const char *path, const char *file, long long *bytes)
{
    bool to_stdout = !file || !strcmp(file, "-");
    const char *where = to_stdout ? "standard output" : file;
    struct download d = {.c = c, .fd = STDOUT_FILENO};
    struct stat st;
    bool there = !to_stdout && stat(file, &st) == 0;
    char *real = there ? realpath(file, NULL) : NULL; /* what a symbolic link leads to is replaced, not the link */
    const char *target = real ? real : file;
    /* a device or a pipe is written to as it is */
    char *part =
        to_stdout || (there && !S_ISREG(st.st_mode)) ? NULL : ctl_printf(c, "%s.part-%d", target, (int)getpid());
    int rc;

    if (part)
        d.fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    else if (!to_stdout)
        d.fd = open(file, O_WRONLY | O_CLOEXEC);
    if (d.fd < 0) {
        free(real);
        return ctl_fail(c, CTL_FAILED, "cannot write %s: %s", file, strerror(errno));
    }
    if (!to_stdout && ends_in(file, ".gz") && !(d.gz = gzdopen(dup(d.fd), "wb"))) {
        rc = ctl_fail(c, CTL_FAILED, "cannot write %s: no memory", file);
        goto out;
    }
    rc = run_download(c, method, path, &d, where);
    if (!rc && part && (fsync(d.fd) || rename(part, target)))
        rc = ctl_fail(c, CTL_FAILED, "cannot write %s: %s", file, strerror(errno));
    if (!rc && bytes)
        *bytes = d.bytes;
out:
    ctl_progress_end(c);
    if (!to_stdout)
        close(d.fd);
    if (part && rc)
        unlink(part);
    free(real);
    return rc;
}
