/* HTTP half of the client library: one curl easy handle per tc_http, reused for every call so that the connection is
 * kept alive.
 *
 * Invariant: between calls the handle carries no option of an earlier call (curl_easy_reset keeps connections and DNS,
 * drops the rest). No signals are used; the stop flag is looked at by curl's progress callback. One thread at a time
 * per handle. */
#include "clients/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>
#include <zstd.h>

enum {
    MAX_REPLY = 1 << 30,   /* bytes of one collected body */
    MAX_HEAD = 1 << 20,    /* bytes of one header block */
    CHUNK = 997,           /* odd on purpose: records are torn across chunks */
    CONNECT_MS = 10 * 1000 /* a local daemon answers at once; a remote one may need a moment */
};

struct tc_http {
    CURL *curl;
    char *base;      /* "http://host:port" */
    char *unix_path; /* NULL for TCP */
    char *shown;     /* base as the caller gave it */
    char *authorization;
    double timeout;
    const volatile sig_atomic_t *stop;
    char why[CURL_ERROR_SIZE];
};

/* One call in progress. */
struct call {
    const struct tc_http *h;
    const struct tc_request *q;
    struct tc_reply *r;
    const char *body; /* packed */
    size_t n, sent;
    bool sink_stopped, too_large;
};

int tc_fail(struct tc_err *e, const char *fmt, ...)
{
    if (e) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
    }
    return -1;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void global_init(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

struct tc_http *tc_http_new(const char *base, struct tc_err *e)
{
    pthread_once(&once, global_init);
    bool is_unix = !strncmp(base, "unix:", 5);
    if (!is_unix && strncmp(base, "http://", 7) && strncmp(base, "https://", 8)) {
        tc_fail(e, "\"%s\" is no address of a daemon; accepted: http://HOST:PORT, https://HOST:PORT, unix:PATH", base);
        return NULL;
    }
    struct tc_http *h = calloc(1, sizeof *h);
    if (!h)
        goto no_memory;
    h->timeout = 120;
    h->curl = curl_easy_init();
    h->shown = strdup(base);
    h->base = strdup(is_unix ? "http://localhost" : base);
    if (!h->curl || !h->shown || !h->base)
        goto no_memory;
    if (is_unix && !(h->unix_path = strdup(base + 5)))
        goto no_memory;
    for (size_t n = strlen(h->base); n && h->base[n - 1] == '/';)
        h->base[--n] = '\0';
    return h;
no_memory:
    tc_fail(e, "out of memory");
    tc_http_free(h);
    return NULL;
}

void tc_http_free(struct tc_http *h)
{
    if (!h)
        return;
    if (h->curl)
        curl_easy_cleanup(h->curl);
    free(h->base);
    free(h->unix_path);
    free(h->shown);
    free(h->authorization);
    free(h);
}

void tc_http_timeout(struct tc_http *h, double seconds)
{
    h->timeout = seconds;
}

int tc_http_token(struct tc_http *h, const char *token, struct tc_err *e)
{
    char *line = NULL;
    if (token && asprintf(&line, "Authorization: Bearer %s", token) < 0)
        return tc_fail(e, "out of memory");
    free(h->authorization);
    h->authorization = line;
    return 0;
}

void tc_http_stop_on(struct tc_http *h, const volatile sig_atomic_t *stop)
{
    h->stop = stop;
}

const char *tc_http_base(const struct tc_http *h)
{
    return h->shown;
}

/* ---- bodies on the way out ---- */

static int encode_gzip(const void *p, size_t n, struct tp_buf *out, struct tc_err *e)
{
    z_stream z = {0};
    if (n > UINT_MAX)
        return tc_fail(e, "a body of %zu bytes is too long to pack", n);
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return tc_fail(e, "out of memory");
    size_t room = deflateBound(&z, n);
    char *to = room <= UINT_MAX ? tp_buf_grow(out, room) : NULL;
    if (!to) {
        deflateEnd(&z);
        return tc_fail(e, "out of memory");
    }
    z.next_in = (Bytef *)(uintptr_t)p;
    z.avail_in = (uInt)n;
    z.next_out = (Bytef *)to;
    z.avail_out = (uInt)room;
    int rc = deflate(&z, Z_FINISH);
    out->n += z.total_out;
    deflateEnd(&z);
    return rc == Z_STREAM_END ? 0 : tc_fail(e, "zlib could not pack the body (%d)", rc);
}

static int encode_zstd(const void *p, size_t n, struct tp_buf *out, struct tc_err *e)
{
    size_t room = ZSTD_compressBound(n);
    char *to = tp_buf_grow(out, room);
    if (!to)
        return tc_fail(e, "out of memory");
    size_t got = ZSTD_compress(to, room, p, n, 3);
    if (ZSTD_isError(got))
        return tc_fail(e, "zstd could not pack the body: %s", ZSTD_getErrorName(got));
    out->n += got;
    return 0;
}

int tc_encode(enum tc_encoding how, const void *p, size_t n, struct tp_buf *out, struct tc_err *e)
{
    switch (how) {
    case TC_GZIP:
        return encode_gzip(p, n, out, e);
    case TC_ZSTD:
        return encode_zstd(p, n, out, e);
    default:
        tp_buf_put(out, p, n);
        return out->oom ? tc_fail(e, "out of memory") : 0;
    }
}

int tc_gunzip(const void *p, size_t n, size_t limit, struct tp_buf *out, struct tc_err *e)
{
    z_stream z = {0};
    if (n > UINT_MAX)
        return tc_fail(e, "a gzip file of %zu bytes is too long", n);
    if (inflateInit2(&z, 15 + 16) != Z_OK)
        return tc_fail(e, "out of memory");
    z.next_in = (Bytef *)(uintptr_t)p;
    z.avail_in = (uInt)n;
    int rc = Z_OK;
    size_t start = out->n;
    while (rc == Z_OK || (rc == Z_STREAM_END && z.avail_in > 0)) {
        enum { STEP = 256 * 1024 };
        if (rc == Z_STREAM_END && inflateReset(&z) != Z_OK) /* files glued together are one gzip file (RFC 1952, 2.2) */
            break;
        char *to = out->n - start < limit ? tp_buf_grow(out, STEP) : NULL;
        if (!to) {
            inflateEnd(&z);
            return tc_fail(e, "the unpacked file is longer than %zu bytes, or memory is short", limit);
        }
        z.next_out = (Bytef *)to;
        z.avail_out = STEP;
        rc = inflate(&z, Z_NO_FLUSH);
        out->n += STEP - z.avail_out;
        if (rc == Z_BUF_ERROR)
            break;
    }
    inflateEnd(&z);
    return rc == Z_STREAM_END ? 0 : tc_fail(e, "not a whole gzip file");
}

/* ---- one call ---- */

static size_t on_read(char *to, size_t size, size_t count, void *arg)
{
    struct call *c = arg;
    size_t n = size * count;
    if (n > CHUNK)
        n = CHUNK;
    if (n > c->n - c->sent)
        n = c->n - c->sent;
    if (n)
        memcpy(to, c->body + c->sent, n);
    c->sent += n;
    return n;
}

static int on_seek(void *arg, curl_off_t offset, int origin)
{
    struct call *c = arg;
    if (origin != SEEK_SET || offset < 0 || (size_t)offset > c->n)
        return CURL_SEEKFUNC_CANTSEEK;
    c->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static size_t on_head(char *p, size_t size, size_t count, void *arg)
{
    struct call *c = arg;
    size_t n = size * count;
    if (n > 5 && !strncmp(p, "HTTP/", 5))
        c->r->head.n = 0; /* an interim response came before */
    if (c->r->head.n + n > MAX_HEAD)
        return 0;
    tp_buf_put(&c->r->head, p, n);
    return c->r->head.oom ? 0 : n;
}

static size_t on_body(char *p, size_t size, size_t count, void *arg)
{
    struct call *c = arg;
    size_t n = size * count;
    if (c->q->sink) {
        c->sink_stopped = c->q->sink(c->q->sink_arg, p, n) != 0;
        return c->sink_stopped ? 0 : n;
    }
    if (n > MAX_REPLY - c->r->body.n) {
        c->too_large = true;
        return 0;
    }
    tp_buf_put(&c->r->body, p, n);
    return c->r->body.oom ? 0 : n;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t x, curl_off_t y)
{
    const struct call *c = arg;
    (void)a, (void)b, (void)x, (void)y;
    return c->h->stop && *c->h->stop;
}

static int add_header(struct curl_slist **l, const char *line)
{
    struct curl_slist *more = curl_slist_append(*l, line);
    if (!more)
        return -1;
    *l = more;
    return 0;
}

static int make_headers(const struct tc_http *h, const struct tc_request *q, struct curl_slist **out)
{
    char line[300];
    int rc = add_header(out, "Expect:"); /* a local daemon refuses fast enough; waiting for 100 costs a round trip */
    if (q->content_type) {
        snprintf(line, sizeof line, "Content-Type: %s", q->content_type);
        rc |= add_header(out, line);
    } else {
        rc |= add_header(out, "Content-Type:");
    }
    if (q->encoding != TC_IDENTITY)
        rc |= add_header(out, q->encoding == TC_GZIP ? "Content-Encoding: gzip" : "Content-Encoding: zstd");
    if (q->chunked)
        rc |= add_header(out, "Transfer-Encoding: chunked");
    if (h->authorization)
        rc |= add_header(out, h->authorization);
    for (const char *const *p = q->headers; p && *p; p++)
        rc |= add_header(out, *p);
    return rc;
}

static void set_body(CURL *curl, struct call *c, const char *method)
{
    const struct tc_request *q = c->q;
    if (q->chunked) {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(curl, CURLOPT_READDATA, c);
        curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
        curl_easy_setopt(curl, CURLOPT_SEEKDATA, c);
    } else if (q->body || !strcmp(method, "POST") || !strcmp(method, "PUT")) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->n);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, c->body ? c->body : "");
    }
    if (!strcmp(method, "HEAD"))
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
}

static void set_options(struct tc_http *h, struct call *c, const char *url, struct curl_slist *headers)
{
    CURL *curl = h->curl;
    curl_easy_reset(curl);
    h->why[0] = '\0';
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    if (h->unix_path)
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, h->unix_path);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "127.0.0.1,::1,localhost");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, h->why);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    if (h->timeout > 0)
        curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(h->timeout * 1000));
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_head);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, c);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, c);
    if (h->stop) {
        curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(curl, CURLOPT_XFERINFODATA, c);
    }
}

static int explain_failure(const struct tc_http *h, CURLcode rc, const struct call *c, const char *method,
                           struct tc_err *e)
{
    const char *path = c->q->path;
    if (c->too_large)
        return tc_fail(e, "%s %s: the reply is longer than %d bytes", method, path, MAX_REPLY);
    switch (rc) {
    case CURLE_ABORTED_BY_CALLBACK:
        return tc_fail(e, "%s %s: interrupted", method, path);
    case CURLE_COULDNT_CONNECT:
        return tc_fail(e, "nothing answers at %s (%s): start tcld, or give the address it listens on", h->shown,
                       h->why);
    case CURLE_OPERATION_TIMEDOUT:
        return tc_fail(e, "%s %s: no reply within %.0f s from %s", method, path, h->timeout, h->shown);
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
        return tc_fail(e, "%s %s: %s closed the connection before its reply was whole (%s): see the daemon's log",
                       method, path, h->shown, h->why[0] ? h->why : curl_easy_strerror(rc));
    default:
        return tc_fail(e, "%s %s: %s", method, path, h->why[0] ? h->why : curl_easy_strerror(rc));
    }
}

int tc_call(struct tc_http *h, const struct tc_request *q, struct tc_reply *r, struct tc_err *e)
{
    int rc = -1;
    char *url = NULL;
    struct curl_slist *headers = NULL;
    struct tp_buf packed = {0};
    struct call c = {.h = h, .q = q, .r = r, .body = q->body, .n = q->n};
    const char *method = q->method ? q->method : q->body ? "POST" : "GET";

    r->status = 0;
    r->head.n = r->body.n = 0;
    r->head.oom = r->body.oom = false;
    if (asprintf(&url, "%s%s", h->base, q->path) < 0) {
        url = NULL;
        tc_fail(e, "out of memory");
        goto out;
    }
    if (q->encoding != TC_IDENTITY) {
        if (tc_encode(q->encoding, q->body, q->n, &packed, e))
            goto out;
        c.body = packed.p;
        c.n = packed.n;
    }
    if (make_headers(h, q, &headers)) {
        tc_fail(e, "out of memory");
        goto out;
    }
    set_options(h, &c, url, headers);
    set_body(h->curl, &c, method);

    double began = tc_now();
    CURLcode got = curl_easy_perform(h->curl);
    r->seconds = tc_now() - began;
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &r->status);
    if (got != CURLE_OK && !(c.sink_stopped && got == CURLE_WRITE_ERROR)) {
        explain_failure(h, got, &c, method, e);
        goto out;
    }
    tp_buf_putc(&r->head, '\0');
    tp_buf_putc(&r->body, '\0');
    if (r->head.oom || r->body.oom) {
        tc_fail(e, "out of memory");
        goto out;
    }
    r->head.n--;
    r->body.n--;
    rc = 0;
out:
    curl_slist_free_all(headers);
    tp_buf_free(&packed);
    free(url);
    return rc;
}

void tc_reply_free(struct tc_reply *r)
{
    if (!r)
        return;
    tp_buf_free(&r->head);
    tp_buf_free(&r->body);
    *r = (struct tc_reply){0};
}

const char *tc_reply_header(const struct tc_reply *r, const char *name, char *buf, size_t n)
{
    size_t len = strlen(name);
    for (const char *p = r->head.p; p && *p;) {
        const char *end = strstr(p, "\r\n");
        if (!end)
            break;
        if ((size_t)(end - p) > len && p[len] == ':' && !strncasecmp(p, name, len)) {
            p += len + 1;
            p += strspn(p, " \t");
            int got = p < end ? (int)(end - p) : 0;
            snprintf(buf, n, "%.*s", got, p);
            return buf;
        }
        p = end + 2;
    }
    return NULL;
}
