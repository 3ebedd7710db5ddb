/* What handlers share. Stateless; any thread. */
#include "daemon/hcommon.h"

#include "daemon/config.h"
#include "daemon/snapshot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- control bodies ---- */

/* "a, b, c" of a NULL-terminated list. */
static void name_list(char *buf, size_t n, const char *const *names)
{
    size_t at = 0;

    buf[0] = '\0';
    for (; *names != NULL && at < n; names++) {
        int k = snprintf(buf + at, n - at, "%s%s", at > 0 ? ", " : "", *names);

        at += k > 0 ? (size_t)k : 0;
    }
}

static void pointer_to(char *buf, size_t n, const char *key)
{
    size_t at = 0;

    /* RFC 6901: ~ and / are escaped */
    if (n > 1)
        buf[at++] = '/';
    for (; *key != '\0' && at + 3 < n; key++) {
        if (*key == '~' || *key == '/') {
            buf[at++] = '~';
            buf[at++] = *key == '~' ? '0' : '1';
        } else {
            buf[at++] = *key;
        }
    }
    buf[at] = '\0';
}

int td_body_object(struct td_request *r, const char *const *keys, json_t **out, struct tp_err *e)
{
    size_t n;
    const char *bytes = td_req_body(r, &n), *key;
    json_error_t je;
    json_t *o, *v;
    char pointer[96], accepted[160];

    if (n == 0)
        o = json_object();
    else
        o = json_loadb(bytes, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &je);
    if (o == NULL)
        return n == 0 ? tp_fail(e, TP_E_NO_MEMORY, "no memory for a request body")
                      : tp_fail(e, TP_E_BAD_BODY, "the body is not JSON: line %d, column %d: %.120s", je.line,
                                je.column, je.text);
    if (!json_is_object(o)) {
        json_decref(o);
        return tp_fail(e, TP_E_BAD_BODY, "the body must be a JSON object");
    }
    json_object_foreach(o, key, v)
    {
        const char *const *k = keys;

        while (*k != NULL && strcmp(*k, key) != 0)
            k++;
        if (*k != NULL)
            continue;
        name_list(accepted, sizeof accepted, keys);
        pointer_to(pointer, sizeof pointer, key);
        tp_fail_at(e, TP_E_UNKNOWN_KEY, pointer, "key \"%.60s\" is not known; accepted are %s", key, accepted);
        json_decref(o);
        return -TP_E_UNKNOWN_KEY;
    }
    *out = o;
    return 0;
}

static int bad_member(struct tp_err *e, const char *key, const char *accepted)
{
    char pointer[96];

    pointer_to(pointer, sizeof pointer, key);
    return tp_fail_at(e, TP_E_BAD_PARAMETER, pointer, "\"%s\" must be %s", key, accepted);
}

int td_body_int(const json_t *o, const char *key, int64_t min, int64_t max, int64_t *v, struct tp_err *e)
{
    const json_t *x = json_object_get(o, key);
    char accepted[80];

    if (x == NULL)
        return 0;
    if (!json_is_integer(x) || json_integer_value(x) < min || json_integer_value(x) > max) {
        snprintf(accepted, sizeof accepted, "an integer from %lld to %lld", (long long)min, (long long)max);
        return bad_member(e, key, accepted);
    }
    *v = json_integer_value(x);
    return 0;
}

int td_body_num(const json_t *o, const char *key, double min, double max, double *v, struct tp_err *e)
{
    const json_t *x = json_object_get(o, key);
    char accepted[80];

    if (x == NULL)
        return 0;
    if (!json_is_number(x) || !(json_number_value(x) >= min && json_number_value(x) <= max)) {
        snprintf(accepted, sizeof accepted, "a number from %g to %g", min, max);
        return bad_member(e, key, accepted);
    }
    *v = json_number_value(x);
    return 0;
}

int td_body_enum(const json_t *o, const char *key, const char *const *names, int *v, struct tp_err *e)
{
    const json_t *x = json_object_get(o, key);
    char list[120], accepted[140];

    if (x == NULL)
        return 0;
    for (int i = 0; json_is_string(x) && names[i] != NULL; i++) {
        /* the length too: a string may hold NUL */
        if (json_string_length(x) == strlen(names[i]) && strcmp(json_string_value(x), names[i]) == 0) {
            *v = i;
            return 0;
        }
    }
    name_list(list, sizeof list, names);
    snprintf(accepted, sizeof accepted, "one of %s", list);
    return bad_member(e, key, accepted);
}

int td_query_bool(const struct td_request *r, const char *name, bool *v, struct tp_err *e)
{
    const char *s = td_req_query(r, name);

    *v = s != NULL && strcmp(s, "true") == 0;
    if (s == NULL || *v || strcmp(s, "false") == 0)
        return 0;
    return tp_fail(e, TP_E_BAD_PARAMETER, "%s must be true or false", name);
}

int td_query_id(const struct td_request *r, const char *name, const char **v, struct tp_err *e)
{
    const char *s = td_req_query(r, name);

    if (s != NULL && !st_id_valid(s))
        return tp_fail(e, TP_E_BAD_IDENTIFIER, "%s is no identifier; accepted is [a-z0-9][a-z0-9._-]{0,62}", name);
    *v = s;
    return 0;
}

int td_query_int(const struct td_request *r, const char *name, int64_t min, int64_t max, int64_t *v, struct tp_err *e)
{
    const char *s = td_req_query(r, name);
    int64_t n = 0;
    size_t i = 0;

    if (s == NULL)
        return 0;
    for (; s[i] >= '0' && s[i] <= '9' && i < 18; i++)
        n = n * 10 + (s[i] - '0');
    if (i == 0 || s[i] != '\0' || n < min || n > max)
        return tp_fail(e, TP_E_BAD_PARAMETER, "%s must be a whole number from %lld to %lld", name, (long long)min,
                       (long long)max);
    *v = n;
    return 0;
}

/* ---- replies ---- */

void td_reply_json(struct td_request *r, int status, struct tp_buf *body)
{
    if (body->n > 0)
        tp_buf_putc(body, '\n'); /* a shell's prompt begins a line */
    if (body->oom) {
        tp_buf_free(body);
        td_reply_fail(r, TP_E_NO_MEMORY, "no memory for the reply");
        return;
    }
    td_reply(r, status, "application/json", body);
}

bool td_etag_listed(const char *list, const char *etag)
{
    size_t n = strlen(etag);

    while (*list != '\0') {
        const char *end;

        list += strspn(list, " \t,");
        if (*list == '*')
            return true;
        if (list[0] == 'W' && list[1] == '/')
            list += 2;
        if (*list != '"')
            return false; /* not a list of entity tags */
        end = strchr(++list, '"');
        if (end == NULL)
            return false;
        if ((size_t)(end - list) == n && memcmp(list, etag, n) == 0)
            return true;
        list = end + 1;
    }
    return false;
}

void td_reply_tagged(struct td_request *r, const char *content_type, const char *etag, struct tp_buf *body)
{
    const char *want = td_req_header(r, "If-None-Match");
    char hex[65], quoted[72];

    if (body->oom) {
        td_reply_json(r, 200, body);
        return;
    }
    if (etag == NULL) {
        td_sha256(body->p, body->n, hex);
        hex[32] = '\0'; /* 128 bits tell versions apart */
        etag = hex;
    }
    snprintf(quoted, sizeof quoted, "\"%s\"", etag);
    td_reply_header(r, "ETag", quoted);
    /* A 304 is given the body too: it is not sent, but its length is the one that may be told (RFC 9110, 8.6). */
    td_reply(r, want != NULL && td_etag_listed(want, etag) ? 304 : 200, content_type, body);
}

void td_json_time(struct tp_buf *out, int64_t ms)
{
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    char text[40];

    if (ms <= 0 || gmtime_r(&s, &tm) == NULL || strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        tp_buf_puts(out, "null");
    else if (ms % 1000 != 0)
        tp_buf_printf(out, "\"%s.%03dZ\"", text, (int)(ms % 1000));
    else
        tp_buf_printf(out, "\"%sZ\"", text);
}

/* ---- jobs ---- */

void td_reply_job(struct td_request *r, int status, int64_t id)
{
    struct tp_buf out = {0};
    struct tp_err e = {0};

    if (td_jobs_json(td_req_daemon(r)->jobs, td_req_reader(r), id, &out, &e) != 0) {
        tp_buf_free(&out);
        td_reply_problem(r, &e);
        return;
    }
    td_reply_json(r, status, &out);
}

void td_submit_job(struct td_request *r, int rc, struct tp_err *e, const char *kind, const char *hardware,
                   const char *lane, struct tp_buf *params, td_job_run run)
{
    char location[40];
    bool existing = false;
    int64_t id = 0;

    tp_buf_putc(params, '\0');
    if (rc == 0 && params->oom)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a job");
    if (rc == 0)
        rc = td_jobs_submit(td_req_daemon(r)->jobs, kind, hardware, lane, params->p, run, &id, &existing, e);
    tp_buf_free(params);
    if (rc != 0) {
        td_reply_problem(r, e);
        return;
    }
    snprintf(location, sizeof location, "/v1/jobs/%lld", (long long)id);
    td_reply_header(r, "Location", location);
    td_reply_job(r, existing ? 200 : 202, id);
}

/* ---- targets ---- */

int td_fit_check(struct td_fit *f, const struct tp_record *rec, enum tp_target_kind hardware, struct tp_err *e)
{
    const struct tp_str *s = &rec->task.target;
    struct tp_target t;
    int rc;

    if (f->n == 0 || f->n != s->n || memcmp(f->last, s->s, s->n) != 0) {
        f->n = 0;
        rc = tp_target_parse(s->s, s->n, &t, e);
        if (rc != 0) {
            if (e != NULL)
                snprintf(e->pointer, sizeof e->pointer, "/i/0/1");
            return rc;
        }
        f->kind = t.kind;
        if (s->n <= sizeof f->last) {
            memcpy(f->last, s->s, s->n);
            f->n = s->n;
        }
    }
    if (f->kind == TP_TARGET_ANY || hardware == TP_TARGET_ANY || f->kind == hardware)
        return 0;
    return tp_fail_at(e, TP_E_WRONG_TARGET, "/i/0/1", "target \"%.*s\" is of kind %s, the hardware of kind %s",
                      s->n > 80 ? 80 : (int)s->n, s->s, tp_target_kind_name(f->kind), tp_target_kind_name(hardware));
}
