/* Bytes -> record: one pass, straight into the record's own buffers.
 *
 * The frame of a record and its result are read with the tokenizer's events; the steps, nine bytes of ten, with
 * primitives that know what must come. Whatever they do not like is looked at again by the tokenizer, so that broken
 * JSON is told from a wrong operand. Invariant: *r is written only at the end, when the whole record is fine (or all
 * but its "r"). */
#include "proto/number.h"
#include "proto/record_mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STATE_DEPTH = 3, MAX_ERROR_NO = 8 };

static const double MAX_TIMESTAMP = 9007199254740992.0; /* 2^53: prints exactly */

int tp_json_fail(const struct tp_json *j, const char *pointer, struct tp_err *e)
{
    return tp_fail_at(e, j->code, pointer, "byte %td: %s", j->p - j->begin, j->what);
}

int tp_json_unexpected(struct tp_json *j, enum tp_code code, const char *pointer, const char *wanted, struct tp_err *e)
{
    const char *p = tp_json_ws(j->p, j->end);
    j->state = TP_JSON_AT_VALUE;
    if (tp_json_skip(j) < 0)
        return tp_json_fail(j, pointer, e);
    if (*p == '-' || (*p >= '0' && *p <= '9')) {
        int n = j->p - p < 32 ? (int)(j->p - p) : 32;
        return tp_fail_at(e, code, pointer, "%s expected, not %.*s", wanted, n, p);
    }
    return tp_fail_at(e, code, pointer, "%s expected, not %s", wanted, tp_json_kind(p, j->end));
}

/* The task that is due. Its bytes are compared first: in a log, one line after the other has the same. */
static int read_task(struct tp_reader *c, struct tp_record *r)
{
    struct tp_json *j = &c->j;
    const struct tp_buf *raw = &c->m->task_raw;
    const char *p = tp_json_ws(j->p, j->end);
    if (c->m->task_ok && (size_t)(j->end - p) >= raw->n && memcmp(p, raw->p, raw->n) == 0) {
        tp_json_taken(j, p + raw->n);
        return 0;
    }
    if (tp_json_skip(j) < 0)
        return tp_json_fail(j, "/i/0", c->e);
    return tp_task_decode(r, p, (size_t)(j->p - p), c->e);
}

static int read_input(struct tp_reader *c, struct tp_record *r)
{
    struct tp_json *j = &c->j;
    struct tp_json_text t;
    const char *p = tp_json_ws(j->p, j->end);
    if (p < j->end && *p != '[')
        return tp_json_unexpected(j, TP_E_BAD_TASK, "/i", "[task, state]", c->e);
    if (tp_json_next(j, &t) < 0)
        return tp_json_fail(j, "/i", c->e);
    for (int i = 0; i < 2; i++) {
        int more = tp_json_more(j);
        if (more < 0)
            return tp_json_fail(j, "/i", c->e);
        if (more == 0)
            return tp_fail_at(c->e, i == 0 ? TP_E_BAD_TASK : TP_E_BAD_STATE, "/i",
                              "it has %d items; it is [task, state]", i);
        int rc = i == 0 ? read_task(c, r) : tp_read_state(c);
        if (rc != 0)
            return rc;
    }
    int more = tp_json_more(j);
    if (more < 0 || (more == 1 && tp_json_skip(j) < 0))
        return tp_json_fail(j, "/i", c->e);
    if (more == 1)
        return tp_fail_at(c->e, TP_E_BAD_STATE, "/i/2", "it has a third item; it is [task, state]");
    return 0;
}

static bool is_number(int event, const struct tp_json_text *t, double *v)
{
    return (event == TP_JSON_INT || event == TP_JSON_REAL) && tp_num_parse(t->s, t->n, v) == 0;
}

static int read_number(struct tp_reader *c, const char *pointer, const char *name, double *v)
{
    struct tp_json_text t;
    int event = tp_json_next(&c->j, &t);
    if (event < 0)
        return tp_json_fail(&c->j, pointer, c->e);
    if (!is_number(event, &t, v))
        return tp_fail_at(c->e, TP_E_BAD_RESULT, pointer, "%s is not a number in the range of a double", name);
    return 0;
}

static int read_costs(struct tp_reader *c, struct tp_result *out)
{
    struct tp_json *j = &c->j;
    struct tp_json_text t;
    int event = tp_json_next(j, &t);
    if (event > 0 && event != TP_JSON_ARRAY)
        return tp_fail_at(c->e, TP_E_BAD_RESULT, "/r/0", "costs is not an array of numbers");
    uint32_t n = 0;
    while ((event = tp_json_next(j, &t)) > 0 && event != TP_JSON_ARRAY_END) {
        char pointer[24];
        double v = 0;
        if (n == TP_MAX_COSTS)
            return tp_fail_at(c->e, TP_E_BAD_RESULT, "/r/0", "more than %d costs", TP_MAX_COSTS);
        if (!is_number(event, &t, &v)) {
            snprintf(pointer, sizeof pointer, "/r/0/%u", n);
            return tp_fail_at(c->e, TP_E_BAD_RESULT, pointer, "cost is not a number in the range of a double");
        }
        c->m->costs[n++] = v;
    }
    if (event < 0)
        return tp_json_fail(j, "/r/0", c->e);
    out->n_costs = n;
    out->costs = c->m->costs;
    return 0;
}

static int read_error_no(struct tp_reader *c, struct tp_result *out)
{
    struct tp_json_text t;
    int32_t v;
    int event = tp_json_next(&c->j, &t);
    if (event < 0)
        return tp_json_fail(&c->j, "/r/1", c->e);
    if (event != TP_JSON_INT || tp_json_i32(t.s, t.s + t.n, &v) == NULL || v < 0 || v > MAX_ERROR_NO)
        return tp_fail_at(c->e, TP_E_BAD_RESULT, "/r/1", "error_no is not an integer in 0..%d", MAX_ERROR_NO);
    out->error_no = v;
    return 0;
}

/* The result that is due: [costs, error_no, all_cost, timestamp]. */
static int read_result(struct tp_reader *c)
{
    struct tp_json *j = &c->j;
    struct tp_json_text t;
    struct tp_result out = {0};
    int event = tp_json_next(j, &t);
    if (event < 0)
        return tp_json_fail(j, "/r", c->e);
    if (event != TP_JSON_ARRAY)
        return tp_fail_at(c->e, TP_E_BAD_RESULT, "/r", "it is not [costs, error_no, all_cost, timestamp]");
    for (int i = 0; i < 5; i++) {
        int more = tp_json_more(j);
        if (more < 0)
            return tp_json_fail(j, "/r", c->e);
        if (more != (i < 4))
            return tp_fail_at(c->e, TP_E_BAD_RESULT, "/r",
                              "it has %s than four items; it is [costs, error_no, all_cost, timestamp]",
                              more ? "more" : "less");
        if (i == 4)
            break;
        int rc = i == 0   ? read_costs(c, &out)
                 : i == 1 ? read_error_no(c, &out)
                 : i == 2 ? read_number(c, "/r/2", "all_cost", &out.all_cost)
                          : read_number(c, "/r/3", "timestamp", &out.timestamp);
        if (rc != 0)
            return rc;
    }
    if (fabs(out.timestamp) > MAX_TIMESTAMP)
        return tp_fail_at(c->e, TP_E_BAD_RESULT, "/r/3", "timestamp is beyond 2^53 seconds");
    c->result = out;
    return 0;
}

/* A result that is sound JSON but no result is remembered, and the rest is still read: prediction does not need it. */
static int read_result_or_go_on(struct tp_reader *c)
{
    struct tp_json before = c->j;
    int rc = read_result(c);
    c->has_result = rc == 0;
    if (rc != -TP_E_BAD_RESULT)
        return rc;
    c->j = before;
    c->bad_result = true;
    return tp_json_skip(&c->j) == 0 ? 0 : tp_json_fail(&c->j, "/r", c->e);
}

static int read_version(struct tp_reader *c)
{
    struct tp_json *j = &c->j;
    struct tp_json_text t;
    int event = tp_json_next(j, &t);
    if (event < 0)
        return tp_json_fail(j, "/v", c->e);
    if (event != TP_JSON_STRING || t.control)
        return tp_fail_at(c->e, TP_E_BAD_JSON, "/v", "the version is not a string without control characters");
    c->m->version.n = 0;
    c->m->version.oom = false;
    char *w = tp_buf_grow(&c->m->version, t.n + 1);
    if (w == NULL)
        return tp_fail(c->e, TP_E_NO_MEMORY, "out of memory for a record");
    c->m->version.n = tp_json_unescape(t.s, t.n, w);
    c->has_version = true;
    return 0;
}

static void publish(struct tp_reader *c, struct tp_record *r)
{
    struct tp_record_mem *m = c->m;
    tp_steps_bind(m, c->n_steps);
    r->task = m->task;
    r->n_steps = c->n_steps;
    r->steps = m->steps;
    r->has_result = c->has_result;
    r->result = c->has_result ? c->result : (struct tp_result){0};
    r->has_version = c->has_version;
    r->version = (struct tp_str){.s = "", .n = 0};
    if (c->has_version)
        r->version = (struct tp_str){.s = m->version.p, .n = (uint32_t)m->version.n};
}

static const char KEYS[3] = {'i', 'r', 'v'};

/* Index in KEYS, or 3. */
static int key_index(const struct tp_json_text *t)
{
    char name[6]; /* the longest spelling of one letter: \u0069 */
    int k = 0;
    if (t->n > sizeof name || tp_json_unescape(t->s, t->n, name) != 1)
        return 3;
    while (k < 3 && KEYS[k] != name[0])
        k++;
    return k;
}

static int read_record(struct tp_reader *c, struct tp_record *r)
{
    struct tp_json *j = &c->j;
    struct tp_json_text t;
    unsigned seen = 0;
    int event = tp_json_next(j, &t);
    if (event < 0)
        return tp_json_fail(j, "", c->e);
    if (event != TP_JSON_OBJECT) {
        if (event == TP_JSON_ARRAY) {
            j->p = tp_json_ws(j->begin, j->end);
            j->depth = 0;
            j->state = TP_JSON_AT_VALUE;
            if (tp_json_skip(j) < 0)
                return tp_json_fail(j, "", c->e);
        }
        return tp_fail(c->e, TP_E_BAD_JSON, "a record is a JSON object {\"i\": [task, state], \"r\": ..., \"v\": ...}");
    }
    while ((event = tp_json_next(j, &t)) == TP_JSON_KEY) {
        int k = key_index(&t);
        if (k == 3)
            return tp_fail(c->e, TP_E_UNKNOWN_KEY, "key \"%.*s\" is not known; a record has i, r and v",
                           t.n < 32 ? (int)t.n : 32, t.s);
        if (seen & 1u << k)
            return tp_fail(c->e, TP_E_BAD_JSON, "key \"%c\" stands twice", KEYS[k]);
        seen |= 1u << k;
        int rc = k == 0 ? read_input(c, r) : k == 1 ? read_result_or_go_on(c) : read_version(c);
        if (rc != 0)
            return rc;
    }
    if (event < 0)
        return tp_json_fail(j, "", c->e);
    if (!(seen & 1))
        return tp_fail(c->e, TP_E_BAD_TASK, "\"i\" is missing; a record has \"i\": [task, state]");
    return 0;
}

static int too_long(struct tp_err *e)
{
    return tp_fail(e, TP_E_TOO_LONG, "a record holds at most %d bytes", TP_MAX_LINE);
}

static void reader_init(struct tp_reader *c, struct tp_record_mem *m, const char *s, size_t n, struct tp_err *e)
{
    tp_json_init(&c->j, s, n, TP_MAX_DEPTH);
    c->m = m;
    c->e = e;
    c->rc = 0;
    c->n_steps = 0;
    c->has_result = c->has_version = c->bad_result = false;
}

static int parse(struct tp_record *r, const char *s, size_t n, size_t *used, struct tp_err *e)
{
    struct tp_record_mem *m = tp_record_mem(r, e);
    if (m == NULL)
        return -TP_E_NO_MEMORY;
    struct tp_reader c;
    reader_init(&c, m, s, n, e);
    int rc = read_record(&c, r);
    if (rc == 0 && used == NULL && tp_json_finish(&c.j) != 0)
        rc = tp_json_fail(&c.j, "", e);
    if (rc != 0)
        return rc;
    publish(&c, r);
    if (used != NULL)
        *used = (size_t)(c.j.p - s);
    return c.bad_result ? -TP_E_BAD_RESULT : 0;
}

int tp_record_parse(struct tp_record *r, const char *s, size_t n, struct tp_err *e)
{
    return n > TP_MAX_LINE ? too_long(e) : parse(r, s, n, NULL, e);
}

int tp_record_parse_prefix(struct tp_record *r, const char *s, size_t n, size_t *used, struct tp_err *e)
{
    size_t got = 0;
    int rc = parse(r, s, n < TP_MAX_LINE + 1 ? n : TP_MAX_LINE + 1, &got, e);
    if (rc == 0 || got > 0)
        *used = got;
    return got > TP_MAX_LINE ? too_long(e) : rc;
}

int tp_record_parse_state(struct tp_record *r, const char *s, size_t n, size_t *used, struct tp_err *e)
{
    struct tp_record_mem *m = r->mem;
    if (m == NULL || !m->task_ok)
        return tp_fail(e, TP_E_INTERNAL, "a state without a task");
    struct tp_reader c;
    reader_init(&c, m, s, n < TP_MAX_LINE + 1 ? n : TP_MAX_LINE + 1, e);
    c.j.depth = STATE_DEPTH - 1;
    int rc = tp_read_state(&c);
    if (rc != 0)
        return rc;
    *used = (size_t)(c.j.p - s);
    if (*used > TP_MAX_LINE)
        return too_long(e);
    publish(&c, r);
    return 0;
}
