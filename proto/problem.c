/* Reply bodies: problem details, record errors, predictions, write counts.
 *
 * Every text goes through tp_buf_json_str, so whatever a client sent comes back as sound JSON. Pure printers. */
#include "proto/problem.h"

#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SCORE_DIGITS = 10, FIRST_CAP = 16 };

void tp_errlist_add(struct tp_errlist *l, const struct tp_err *e)
{
    if (l->n == TP_MAX_REPORTED_ERRORS) {
        l->truncated = true;
        return;
    }
    if (l->n == l->cap) {
        size_t cap = l->cap == 0 ? FIRST_CAP : l->cap * 2;
        struct tp_err *v = realloc(l->v, cap * sizeof *v);
        if (v == NULL) { /* the count of rejected records still tells */
            l->truncated = true;
            return;
        }
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = *e;
}

void tp_errlist_free(struct tp_errlist *l)
{
    if (l == NULL)
        return;
    free(l->v);
    memset(l, 0, sizeof *l);
}

static void put_str(struct tp_buf *out, const char *s)
{
    if (s == NULL)
        tp_buf_puts(out, "null");
    else
        tp_buf_json_str(out, s, strlen(s));
}

static void put_member(struct tp_buf *out, const char *name, const char *value)
{
    tp_buf_puts(out, name);
    put_str(out, value);
}

void tp_problem_write(struct tp_buf *out, const struct tp_err *e)
{
    tp_buf_puts(out, "{\"type\": \"urn:tcld:problem:");
    tp_buf_puts(out, tp_code_slug((int)e->code));
    put_member(out, "\", \"title\": ", tp_code_title((int)e->code));
    tp_buf_puts(out, ", \"status\": ");
    tp_buf_i64(out, tp_code_status((int)e->code));
    put_member(out, ", \"detail\": ", e->detail);
    if (e->pointer[0] != '\0' || e->line > 0) {
        tp_buf_puts(out, ", \"errors\": [{");
        if (e->line > 0) {
            tp_buf_puts(out, "\"line\": ");
            tp_buf_i64(out, e->line);
            tp_buf_puts(out, ", ");
        }
        if (e->pointer[0] != '\0') {
            put_member(out, "\"pointer\": ", e->pointer);
            tp_buf_puts(out, ", ");
        }
        put_member(out, "\"detail\": ", e->detail);
        tp_buf_puts(out, "}]");
    }
    tp_buf_putc(out, '}');
}

void tp_errlist_write(struct tp_buf *out, const struct tp_errlist *l)
{
    tp_buf_puts(out, "\"errors\": [");
    for (size_t i = 0; i < l->n; i++) {
        const struct tp_err *e = &l->v[i];
        tp_buf_puts(out, i > 0 ? ", {\"index\": " : "{\"index\": ");
        tp_buf_i64(out, e->index);
        if (e->line > 0) {
            tp_buf_puts(out, ", \"line\": ");
            tp_buf_i64(out, e->line);
        }
        put_member(out, ", \"pointer\": ", e->pointer);
        put_member(out, ", \"code\": ", tp_code_slug((int)e->code));
        put_member(out, ", \"detail\": ", e->detail);
        tp_buf_putc(out, '}');
    }
    tp_buf_putc(out, ']');
    if (l->truncated)
        tp_buf_puts(out, ", \"errors_truncated\": true");
}

static void put_errors(struct tp_buf *out, const struct tp_errlist *l)
{
    static const struct tp_errlist none = {0};
    tp_errlist_write(out, l != NULL ? l : &none);
}

static void put_numbers(struct tp_buf *out, const char *name, const double *v, size_t n)
{
    tp_buf_puts(out, name);
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            tp_buf_putc(out, ',');
        tp_buf_json_num(out, v[i], SCORE_DIGITS);
    }
    tp_buf_putc(out, ']');
}

void tp_predict_reply_json(struct tp_buf *out, const struct tp_predict_reply *r)
{
    tp_buf_puts(out, "{\"model\": {\"id\": ");
    tp_buf_i64(out, r->model_id);
    put_member(out, ", \"role\": ", r->role);
    put_member(out, ", \"hardware\": ", r->hardware);
    put_member(out, ", \"features_version\": ", r->features_version);
    tp_buf_puts(out, ", \"calibration\": ");
    tp_buf_i64(out, r->calibration);
    put_numbers(out, "}, \"scores\": [", r->scores, r->n);
    put_numbers(out, ", \"latency_seconds\": [", r->latency_seconds, r->n);
    if (r->latency_std_log != NULL)
        put_numbers(out, ", \"latency_std_log\": [", r->latency_std_log, r->n);
    tp_buf_puts(out, ", ");
    put_errors(out, r->errors);
    tp_buf_putc(out, '}');
}

static void put_floats(struct tp_buf *out, const double *v, size_t n)
{
    char *w = n <= SIZE_MAX / 4 ? tp_buf_grow(out, n * 4) : NULL;
    if (w == NULL) {
        out->oom = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float f = isnan(v[i]) ? NAN : (float)v[i];
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        bits = htole32(bits);
        memcpy(w + 4 * i, &bits, sizeof bits);
    }
    out->n += n * 4;
}

void tp_predict_reply_binary(struct tp_buf *out, const struct tp_predict_reply *r)
{
    put_floats(out, r->scores, r->n);
    put_floats(out, r->latency_seconds, r->n);
}

void tp_write_reply_json(struct tp_buf *out, size_t accepted, size_t duplicates, size_t rejected,
                         const struct tp_errlist *errors)
{
    tp_buf_puts(out, "{\"accepted\": ");
    tp_buf_i64(out, (int64_t)accepted);
    tp_buf_puts(out, ", \"duplicates\": ");
    tp_buf_i64(out, (int64_t)duplicates);
    tp_buf_puts(out, ", \"rejected\": ");
    tp_buf_i64(out, (int64_t)rejected);
    tp_buf_puts(out, ", ");
    put_errors(out, errors);
    tp_buf_putc(out, '}');
}
