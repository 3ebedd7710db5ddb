/* Requests as handlers see them: accessors, and the replies.
 *
 * Invariant: a request gets one reply. When its connection is suspended, making the reply resumes it, and from then on
 * the request belongs to its HTTP thread again and may be gone. */
#include "daemon/request_int.h"

#include "proto/problem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t td_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void td_request_free(struct td_request *r)
{
    if (!r)
        return;
    assert(r->magic == TD_REQUEST_MAGIC);
    r->magic = 0;
    td_body_drop(r);
    td_target_free(&r->target);
    for (int i = 0; i < r->n_headers; i++)
        free(r->headers[i].name);
    free(r->cursor);
    if (r->response)
        MHD_destroy_response(r->response);
    free(r);
}

/* ---- what came ---- */

struct td_daemon *td_req_daemon(const struct td_request *r)
{
    return r->http->server->daemon;
}

const char *td_req_param(const struct td_request *r, int i)
{
    return i < r->match.n_params ? r->match.param[i] : NULL;
}

bool td_req_param_id(struct td_request *r, int i, enum tp_code unknown, int64_t *id)
{
    const char *s = td_req_param(r, i);
    int64_t v = 0;
    size_t n = 0;

    for (; s && s[n] >= '0' && s[n] <= '9' && n < 18; n++)
        v = v * 10 + (s[n] - '0');
    if (n == 0 || s[n] || v == 0 || s[0] == '0') {
        td_reply_fail(r, unknown, "\"%.60s\" is no id; ids are whole numbers from 1", s ? s : "");
        return false;
    }
    *id = v;
    return true;
}

const char *td_req_query(const struct td_request *r, const char *name)
{
    return td_target_query(&r->target, name);
}

const char *td_req_header(const struct td_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->mhd, MHD_HEADER_KIND, name);
}

const char *td_req_body(const struct td_request *r, size_t *n)
{
    *n = r->body.n;
    return r->body.p ? r->body.p : "";
}

void td_req_body_done(struct td_request *r)
{
    td_body_drop(r);
}

bool td_req_body_is_ndjson(const struct td_request *r)
{
    return r->ndjson;
}

const char *td_req_id(const struct td_request *r)
{
    return r->id;
}

struct st_reader *td_req_reader(const struct td_request *r)
{
    return r->match.route->where == TD_API ? r->worker : NULL;
}

void *td_req_worker(const struct td_request *r)
{
    return r->match.route->where == TD_PREDICT ? r->worker : NULL;
}

bool td_req_may_wait(const struct td_request *r)
{
    return !r->at_once;
}

bool td_req_only_query(struct td_request *r, const char *const *names)
{
    for (int i = 0; i < r->target.n_query; i++) {
        const char *name = r->target.query[i].name;
        const char *const *known = names;
        while (*known && strcmp(*known, name) != 0)
            known++;
        if (*known)
            continue;
        const char *near = td_nearest(name, names);
        if (near)
            td_reply_fail(r, TP_E_BAD_PARAMETER, "query parameter \"%.60s\" is not known here; did you mean \"%s\"?",
                          name, near);
        else
            td_reply_fail(r, TP_E_BAD_PARAMETER, "query parameter \"%.60s\" is not known here", name);
        return false;
    }
    return true;
}

/* ---- pages ---- */

static const char B64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* base64url without padding; strict: no other character, no left-over bits. Returns NULL when malformed or out of
 * memory. */
static char *cursor_decode(const char *s)
{
    size_t n = strlen(s), used = 0;
    char *out = n <= 1024 ? malloc(n + 1) : NULL;
    uint32_t bits = 0;
    int have = 0;

    for (size_t i = 0; out && i < n; i++) {
        const char *p = strchr(B64, s[i]);
        if (!p)
            goto bad;
        bits = bits << 6 | (uint32_t)(p - B64);
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[used] = (char)(bits >> have & 0xff);
            if (!out[used++])
                goto bad;
        }
    }
    if (!out || n % 4 == 1 || (bits & ((1u << have) - 1)))
        goto bad;
    out[used] = '\0';
    return out;
bad:
    free(out);
    return NULL;
}

void td_page_end(struct tp_buf *out, const char *key)
{
    uint32_t bits = 0;
    int have = 0;

    if (!key) {
        tp_buf_puts(out, "], \"next_cursor\": null}");
        return;
    }
    tp_buf_puts(out, "], \"next_cursor\": \"");
    for (; *key; key++) {
        bits = bits << 8 | (unsigned char)*key;
        for (have += 8; have >= 6; have -= 6)
            tp_buf_putc(out, B64[bits >> (have - 6) & 63]);
    }
    if (have)
        tp_buf_putc(out, B64[bits << (6 - have) & 63]);
    tp_buf_puts(out, "\"}");
}

bool td_page_add(struct td_page *p, int64_t id)
{
    if (p->n == p->limit) {
        p->more = true;
        return false;
    }
    if (p->n++ > 0)
        tp_buf_puts(&p->out, ", ");
    p->last = id;
    return true;
}

void td_page_end_id(struct td_page *p)
{
    char key[24];

    snprintf(key, sizeof key, "%lld", (long long)p->last);
    td_page_end(&p->out, p->more ? key : NULL);
}

bool td_req_page(struct td_request *r, int *limit, const char **cursor)
{
    const char *l = td_req_query(r, "limit"), *c = td_req_query(r, "cursor");
    int v = l ? 0 : 100;

    for (size_t n = 0; l && *l; l++, n++) {
        if (*l < '0' || *l > '9' || n >= 4) {
            v = 0;
            break;
        }
        v = v * 10 + (*l - '0');
    }
    if (v < 1 || v > 1000) {
        td_reply_fail(r, TP_E_BAD_PARAMETER, "limit: a whole number from 1 to 1000 is accepted");
        return false;
    }
    if (c && *c && !r->cursor && !(r->cursor = cursor_decode(c))) {
        td_reply_fail(r, TP_E_BAD_PARAMETER, "cursor: give the next_cursor of the page before, unchanged");
        return false;
    }
    *limit = v;
    *cursor = r->cursor ? r->cursor : "";
    return true;
}

bool td_req_page_id(struct td_request *r, int *limit, int64_t *cursor)
{
    const char *text;
    int64_t v = 0;
    size_t n = 0;

    if (!td_req_page(r, limit, &text))
        return false;
    for (; text[n] >= '0' && text[n] <= '9' && n < 18; n++)
        v = v * 10 + (text[n] - '0');
    if (text[n] || (n > 0 && v == 0)) {
        td_reply_fail(r, TP_E_BAD_PARAMETER, "cursor: give the next_cursor of the page before, unchanged");
        return false;
    }
    *cursor = v;
    return true;
}

/* ---- replies ---- */

void td_reply_header(struct td_request *r, const char *name, const char *value)
{
    size_t n = strlen(name) + 1, m = strlen(value) + 1;
    char *p = r->n_headers < TD_REPLY_HEADERS_MAX ? malloc(n + m) : NULL;

    if (!p)
        return;
    memcpy(p, name, n);
    memcpy(p + n, value, m);
    r->headers[r->n_headers++] = (struct td_reply_header){p, p + n};
}

struct MHD_Response *td_request_response(struct tp_buf *body)
{
    static char empty[1];
    struct MHD_Response *resp = NULL;

    if (!body->oom)
        resp = MHD_create_response_from_buffer(body->n, body->n ? body->p : empty,
                                               body->n ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
    if (resp && body->n)
        *body = (struct tp_buf){0}; /* libmicrohttpd frees the bytes */
    tp_buf_free(body);
    return resp;
}

void td_request_decorate(struct td_request *r, struct MHD_Response *resp, const char *content_type)
{
    if (content_type)
        MHD_add_response_header(resp, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    if (*r->id)
        MHD_add_response_header(resp, "X-Request-Id", r->id);
    for (int i = 0; i < r->n_headers; i++)
        MHD_add_response_header(resp, r->headers[i].name, r->headers[i].value);
    if (r->close)
        MHD_add_response_header(resp, MHD_HTTP_HEADER_CONNECTION, "close");
}

void td_request_ready(struct td_request *r, struct MHD_Response *resp, int status)
{
    struct td_server *s = r->http->server;

    assert(r->magic == TD_REQUEST_MAGIC && !r->response);
    r->response = resp;
    r->status = status;
    if (r->suspended) {
        r->suspended = false;
        MHD_resume_connection(r->mhd); /* r may be gone from here on */
        atomic_fetch_sub(&s->suspended, 1);
    }
}

/* When not even a problem can be written for want of memory, the connection is closed: queueing NULL does that. */
void td_request_problem(struct td_request *r, const struct tp_err *e)
{
    struct tp_buf b = {0};
    int status = tp_code_status(e->code);
    struct MHD_Response *resp;
    char seconds[12];

    if (e->code == TP_E_BODY_TOO_LARGE)
        td_count(r->http->server->daemon->metrics, TD_C_LIMIT_BODY, 1);
    tp_problem_write(&b, e);
    tp_buf_putc(&b, '\n');
    r->bytes_out = b.n;
    resp = td_request_response(&b);
    if (resp) {
        td_request_decorate(r, resp, "application/problem+json");
        if (status == 429 || status == 503) {
            snprintf(seconds, sizeof seconds, "%d", e->code == TP_E_DRAINING ? 5 : td_retry_after(r));
            MHD_add_response_header(resp, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
        }
        if (status == 405)
            MHD_add_response_header(resp, MHD_HTTP_HEADER_ALLOW, r->match.allow);
        if (status == 415)
            MHD_add_response_header(resp, "Accept-Encoding", "gzip, zstd");
        if (status == 401)
            MHD_add_response_header(resp, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"tcld\"");
    }
    td_request_ready(r, resp, status);
}

void td_reply_problem(struct td_request *r, const struct tp_err *e)
{
    td_request_problem(r, e);
}

void td_reply_fail(struct td_request *r, enum tp_code code, const char *fmt, ...)
{
    struct tp_err e;
    char text[sizeof e.detail];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    tp_fail(&e, code, "%s", text);
    td_request_problem(r, &e);
}

void td_reply(struct td_request *r, int status, const char *content_type, struct tp_buf *body)
{
    size_t n = body->n;
    struct MHD_Response *resp = td_request_response(body);

    if (!resp) {
        td_reply_fail(r, TP_E_NO_MEMORY, "not enough memory for the reply");
        return;
    }
    r->bytes_out = status == 304 || strcmp(r->method, "HEAD") == 0 ? 0 : n;
    td_request_decorate(r, resp, n || status == 200 ? content_type : NULL);
    td_request_ready(r, resp, status);
}

enum MHD_Result td_request_queue(struct td_request *r)
{
    struct MHD_Response *resp = r->response;
    enum MHD_Result ok;

    if (!resp)
        return MHD_NO;
    r->response = NULL;
    r->phase = TD_PHASE_QUEUED;
    ok = MHD_queue_response(r->mhd, (unsigned)r->status, resp);
    MHD_destroy_response(resp); /* libmicrohttpd holds its own reference */
    return ok;
}
