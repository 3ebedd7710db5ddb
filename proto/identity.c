/* Which task, which program: canonical bytes and their SHA-256.
 *
 * A workload key is JSON inside a string, and writers differ in blanks, escapes and number forms; the canonical form
 * has none of these freedoms: no blanks, strings with minimal escapes, integers as their digits, reals in the shortest
 * form that reads back as the same double (written as Python's repr writes it). Docs: docs/records.md. Pure but for the
 * id kept in a record. */
#include "proto/number.h"
#include "proto/record_mem.h"
#include "proto/target.h"

#include <nettle/sha2.h>

#include <stdio.h>
#include <string.h>

enum { REPR_FIXED = 16 };

static void put_real(struct tp_buf *out, double v)
{
    char text[TP_NUM_TEXT];
    const size_t n = tp_num_shortest(text, v, REPR_FIXED);
    tp_buf_put(out, text, n);
    if (memchr(text, '.', n) == NULL && memchr(text, 'e', n) == NULL)
        tp_buf_put(out, ".0", 2);
}

/* Append one string: t is checked, so it decodes to well-formed UTF-8. */
static void put_text(struct tp_buf *out, const struct tp_json_text *t)
{
    struct tp_buf plain = {0};
    if (!t->escaped) {
        tp_buf_json_str(out, t->s, t->n);
        return;
    }
    char *w = tp_buf_grow(&plain, t->n + 1);
    if (w == NULL)
        out->oom = true;
    else
        tp_buf_json_str(out, w, tp_json_unescape(t->s, t->n, w));
    tp_buf_free(&plain);
}

static bool put_scalar(struct tp_buf *out, int event, const struct tp_json_text *t)
{
    double v;
    switch (event) {
    case TP_JSON_STRING:
        put_text(out, t);
        return true;
    case TP_JSON_INT:
        if (t->n == 2 && memcmp(t->s, "-0", 2) == 0)
            tp_buf_putc(out, '0');
        else
            tp_buf_put(out, t->s, t->n);
        return true;
    case TP_JSON_REAL:
        if (tp_num_parse(t->s, t->n, &v) != 0)
            return false;
        put_real(out, v);
        return true;
    case TP_JSON_TRUE:
        tp_buf_puts(out, "true");
        return true;
    case TP_JSON_FALSE:
        tp_buf_puts(out, "false");
        return true;
    case TP_JSON_NULL:
        tp_buf_puts(out, "null");
        return true;
    default:
        return false;
    }
}

/* Re-serialise a key that is a non-empty JSON array. False: it is not, and *out has grown by rubbish. */
static bool put_key(struct tp_buf *out, const struct tp_str *key)
{
    struct tp_json j;
    struct tp_json_text t;
    size_t from = out->n;
    bool first = true; /* nothing stands before the next item of the open container */
    bool after_key = false;
    int event;
    tp_json_init(&j, key->s, key->n, TP_MAX_DEPTH);
    while ((event = tp_json_next(&j, &t)) != TP_JSON_END) {
        if (event < 0 || (out->n == from && event != TP_JSON_ARRAY))
            return false;
        bool closes = event == TP_JSON_ARRAY_END || event == TP_JSON_OBJECT_END;
        if (!first && !after_key && !closes)
            tp_buf_putc(out, ',');
        first = after_key = false;
        switch (event) {
        case TP_JSON_ARRAY:
        case TP_JSON_OBJECT:
            tp_buf_putc(out, event == TP_JSON_ARRAY ? '[' : '{');
            first = true;
            break;
        case TP_JSON_ARRAY_END:
        case TP_JSON_OBJECT_END:
            tp_buf_putc(out, event == TP_JSON_ARRAY_END ? ']' : '}');
            break;
        case TP_JSON_KEY:
            put_text(out, &t);
            tp_buf_putc(out, ':');
            after_key = true;
            break;
        default:
            if (!put_scalar(out, event, &t))
                return false;
        }
    }
    return tp_json_finish(&j) == 0 && out->n - from > 2;
}

void tp_task_identity(const struct tp_task *t, struct tp_buf *canonical)
{
    struct tp_target target;
    tp_buf_putc(canonical, '[');
    size_t from = canonical->n;
    if (!put_key(canonical, &t->workload_key) && !canonical->oom) {
        canonical->n = from;
        tp_buf_json_str(canonical, t->workload_key.s, t->workload_key.n);
    }
    tp_buf_putc(canonical, ',');
    if (tp_target_parse(t->target.s, t->target.n, &target, NULL) == 0)
        tp_buf_json_str(canonical, target.name, strlen(target.name));
    else /* no parsed record holds such a target */
        tp_buf_json_str(canonical, t->target.s, t->target.n);
    tp_buf_putc(canonical, ',');
    tp_buf_i64(canonical, t->layout);
    tp_buf_putc(canonical, ']');
}

void tp_task_id(const struct tp_task *t, char id[TP_TASK_ID_LEN + 1])
{
    struct tp_buf canonical = {0};
    struct sha256_ctx sha;
    uint8_t digest[TP_TASK_ID_LEN / 2];
    tp_task_identity(t, &canonical);
    id[0] = '\0';
    if (!canonical.oom) {
        sha256_init(&sha);
        sha256_update(&sha, canonical.n, (const uint8_t *)canonical.p);
        sha256_digest(&sha, sizeof digest, digest);
        for (size_t i = 0; i < sizeof digest; i++)
            snprintf(id + 2 * i, 3, "%02x", digest[i]);
    }
    tp_buf_free(&canonical);
}

const char *tp_record_task_id(struct tp_record *r)
{
    struct tp_record_mem *m = r->mem;
    if (m == NULL || !m->task_ok)
        return "";
    if (m->task_id[0] == '\0')
        tp_task_id(&m->task, m->task_id);
    return m->task_id;
}

void tp_program_hash(const char *task_id, const void *packed, size_t n, uint8_t hash[16])
{
    struct sha256_ctx sha;
    sha256_init(&sha);
    sha256_update(&sha, strlen(task_id) + 1, (const uint8_t *)task_id);
    sha256_update(&sha, n, packed);
    sha256_digest(&sha, 16, hash);
}
