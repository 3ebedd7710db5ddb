/* JSON half of the client library: replies as jansson values, values at pointers, calls that must succeed, waiting for
 * jobs.
 *
 * Invariant: the text of a failure names the call and repeats what the daemon said, so that it can be printed as it is.
 */
#include "clients/client.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *tc_reply_json(const struct tc_reply *r, struct tc_err *e)
{
    json_error_t je;
    json_t *j = json_loadb(r->body.p ? r->body.p : "", r->body.n, JSON_DECODE_ANY, &je);
    if (!j)
        tc_fail(e, "the reply (status %ld, %zu bytes) is not JSON: %s", r->status, r->body.n, je.text);
    return j;
}

void tc_reply_explain(const struct tc_reply *r, char *buf, size_t n)
{
    json_t *j = tc_reply_json(r, NULL);
    const char *title = tc_str(j, "/title"), *detail = tc_str(j, "/detail");
    if (title && detail) {
        snprintf(buf, n, "%ld %s: %s", r->status, title, detail);
    } else {
        const char *text = r->body.p ? r->body.p : "";
        snprintf(buf, n, "status %ld: %.*s", r->status, (int)strcspn(text, "\r\n"), text);
    }
    json_decref(j);
}

json_t *tc_at(const json_t *j, const char *pointer)
{
    const json_t *at = j;
    while (at && *pointer == '/') {
        char key[128];
        size_t n = strcspn(++pointer, "/");
        if (n >= sizeof key)
            return NULL;
        memcpy(key, pointer, n);
        key[n] = '\0';
        pointer += n;
        at = json_is_array(at) ? json_array_get(at, strtoul(key, NULL, 10)) : json_object_get(at, key);
    }
    return (json_t *)(uintptr_t)at;
}

double tc_num(const json_t *j, const char *pointer)
{
    const json_t *v = tc_at(j, pointer);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

int64_t tc_int(const json_t *j, const char *pointer, int64_t absent)
{
    const json_t *v = tc_at(j, pointer);
    return json_is_integer(v) ? (int64_t)json_integer_value(v) : absent;
}

const char *tc_str(const json_t *j, const char *pointer)
{
    return json_string_value(tc_at(j, pointer));
}

static int call_json(struct tc_http *h, const struct tc_request *q, json_t **out, struct tc_err *e)
{
    int rc = -1;
    struct tc_reply r = {0};
    const char *method = q->method ? q->method : "POST";
    if (tc_call(h, q, &r, e))
        goto out;
    if (r.status < 200 || r.status > 299) {
        char why[700];
        tc_reply_explain(&r, why, sizeof why);
        tc_fail(e, "%s %s: %s", method, q->path, why);
        goto out;
    }
    if (out && r.body.n) {
        struct tc_err inner;
        json_t *j = tc_reply_json(&r, &inner);
        if (!j) {
            tc_fail(e, "%s %s: %.800s", method, q->path, inner.text);
            goto out;
        }
        *out = j;
    } else if (out) {
        *out = json_null();
    }
    rc = 0;
out:
    tc_reply_free(&r);
    return rc;
}

int tc_json(struct tc_http *h, const char *method, const char *path, const json_t *body, json_t **out, struct tc_err *e)
{
    char *text = body ? json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (body && !text)
        return tc_fail(e, "out of memory");
    struct tc_request q = {.method = method,
                           .path = path,
                           .body = text,
                           .n = text ? strlen(text) : 0,
                           .content_type = text ? "application/json" : NULL};
    int rc = call_json(h, &q, out, e);
    free(text);
    return rc;
}

int tc_post_lines(struct tc_http *h, const char *path, const void *lines, size_t n, json_t **out, struct tc_err *e)
{
    struct tc_request q = {
        .method = "POST", .path = path, .body = lines, .n = n, .content_type = "application/x-ndjson"};
    return call_json(h, &q, out, e);
}

int tc_job_wait(struct tc_http *h, int64_t id, double seconds, int (*progress)(void *arg, const json_t *job), void *arg,
                json_t **out, struct tc_err *e)
{
    enum { POLL_MS = 100 };
    char path[64];
    snprintf(path, sizeof path, "/v1/jobs/%lld", (long long)id);
    for (double until = tc_now() + seconds;;) {
        json_t *job = NULL;
        if (tc_json(h, "GET", path, NULL, &job, e))
            return -1;
        const char *state = tc_str(job, "/state");
        bool ended = state && strcmp(state, "queued") && strcmp(state, "running");
        bool stop = progress && progress(arg, job);
        if (ended) {
            *out = job;
            return 0;
        }
        json_decref(job);
        if (stop)
            return tc_fail(e, "interrupted while job %lld ran", (long long)id);
        if (tc_now() > until)
            return tc_fail(e, "job %lld has not ended within %.0f s: look at GET %s", (long long)id, seconds, path);
        tc_sleep(POLL_MS / 1000.0);
    }
}
