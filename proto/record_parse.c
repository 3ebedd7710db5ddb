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

enum { STATE_DEPTH = 3, STEP_DEPTH = 5, MAX_ERROR_NO = 8 };

static const double MAX_TIMESTAMP = 9007199254740992.0; /* 2^53: prints exactly */

/* One parse. Results wait here until all is well. */
struct reader {
    struct tp_json j;
    struct tp_record_mem *m;
    struct tp_err *e;
    int rc; /* of a primitive that returned NULL */
    uint32_t n_steps;
    struct tp_result result;
    bool has_result, has_version, bad_result;
};

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

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static const char *stop(struct reader *c, int rc)
{
    c->rc = rc;
    return NULL;
}

/* Broken JSON at p, in step k. */
static const char *syntax(struct reader *c, const char *p, uint32_t k, const char *what)
{
    char pointer[32];
    snprintf(pointer, sizeof pointer, "/i/1/1/%u", k);
    c->j.p = p;
    if (c->j.code == TP_OK) {
        c->j.code = TP_E_BAD_JSON;
        c->j.what = what;
    }
    return stop(c, tp_json_fail(&c->j, pointer, c->e));
}

/* Is the value at p sound JSON? Sets the error if not. */
static bool sound(struct reader *c, const char *p, uint32_t k, int depth)
{
    c->j.p = p;
    c->j.depth = depth;
    c->j.state = TP_JSON_AT_VALUE;
    if (tp_json_skip(&c->j) == 0)
        return true;
    syntax(c, c->j.p, k, NULL);
    return false;
}

static const char *bad_operand(struct reader *c, const char *p, uint32_t k, int operand, int item, const char *wanted)
{
    if (!sound(c, p, k, STEP_DEPTH + (item >= 0)))
        return NULL;
    int name_n, kind = c->m->steps[k].kind;
    const char *name = tp_step_operand(kind, operand, &name_n);
    bool number = *p == '-' || (*p >= '0' && *p <= '9');
    const char *is = number ? p : tp_json_kind(p, c->j.end);
    int is_n = !number ? (int)strlen(is) : c->j.p - p < 32 ? (int)(c->j.p - p) : 32;
    return stop(c, tp_step_fail(c->e, TP_E_BAD_STEP, k, operand, item, "%s %.*s is %.*s; it must be %s",
                                tp_step_tag(kind), name_n, name, is_n, is, wanted));
}

/* p at a step's first item. The kind, and p behind the tag; NULL: error. */
static const char *read_tag(struct reader *c, const char *p, uint32_t k, int *kind)
{
    static const struct {
        char text[7], n;
    } tags[TP_STEP_KINDS] = {
#define X(tag, grammar, meaning) {#tag, sizeof #tag - 1},
#include "proto/steps.def"
#undef X
    };
    const char *end = c->j.end;
    if (p < end && *p == '"') {
        char word[4] = {0};
        int n = 0;
        for (p++; n < 4 && p + n < end && p[n] != '"'; n++)
            word[n] = p[n];
        if (p + n < end && p[n] == '"') {
            uint32_t w, t;
            memcpy(&w, word, 4);
            for (int i = 0; i < TP_STEP_KINDS; i++) {
                memcpy(&t, tags[i].text, 4);
                if (w == t && n == tags[i].n) { /* the length: a NUL in the input looks like padding */
                    *kind = i;
                    return p + n + 1;
                }
            }
        }
        /* Unknown, longer, or written with escapes. */
        struct tp_json_text t;
        const char *after = tp_json_string(&c->j, p, &t);
        if (after == NULL)
            return syntax(c, c->j.p, k, NULL);
        for (int i = 0; i < TP_STEP_KINDS; i++)
            if (tp_json_is(&t, tags[i].text)) {
                *kind = i;
                return after;
            }
        return stop(c, tp_step_fail(c->e, TP_E_UNKNOWN_STEP, k, -1, -1, "kind \"%.*s\" is not known",
                                    t.n < 32 ? (int)t.n : 32, t.s));
    }
    if (p < end && *p == ']')
        return stop(c, tp_step_fail(c->e, TP_E_BAD_STEP, k, -1, -1, "is empty; a step starts with its kind"));
    if (!sound(c, p, k, STEP_DEPTH))
        return NULL;
    return stop(
        c, tp_step_fail(c->e, TP_E_BAD_STEP, k, -1, 0, "its kind is %s; it must be a string", tp_json_kind(p, end)));
}

static const char *read_list(struct reader *c, const char *p, uint32_t k, int operand, struct tp_step *s)
{
    const char *end = c->j.end;
    int32_t *out = c->m->ints + c->m->n_ints;
    int n = 0;
    if (p == end || *p != '[')
        return bad_operand(c, p, k, operand, -1, "a list of integers");
    p = tp_json_ws(p + 1, end);
    if (p < end && *p == ']')
        return p + 1;
    for (;;) {
        if (n == TP_MAX_LIST)
            return stop(
                c, tp_step_fail(c->e, TP_E_BAD_STEP, k, operand, n, "a list holds more than %d integers", TP_MAX_LIST));
        const char *q = tp_json_i32(p, end, &out[n]);
        if (q == NULL)
            return bad_operand(c, p, k, operand, n, "a 32-bit integer");
        n++;
        p = tp_json_ws(q, end);
        if (p == end)
            return syntax(c, p, k, "expected ',' or ']'");
        if (*p == ']')
            break;
        if (*p != ',')
            return syntax(c, p, k, "expected ',' or ']'");
        p = tp_json_ws(p + 1, end);
    }
    s->n_list = (uint16_t)n;
    c->m->n_ints += (size_t)n;
    return p + 1;
}

static const char *read_str(struct reader *c, const char *p, uint32_t k, int operand, struct tp_step *s)
{
    struct tp_json_text t;
    if (p == c->j.end || *p != '"')
        return bad_operand(c, p, k, operand, -1, "a string");
    const char *after = tp_json_string(&c->j, p + 1, &t);
    if (after == NULL)
        return syntax(c, c->j.p, k, NULL);
    if (t.control)
        return stop(
            c, tp_step_fail(c->e, TP_E_BAD_STEP, k, operand, -1, "%s holds a control character", tp_step_tag(s->kind)));
    char *w = tp_buf_grow(&c->m->text, t.n + 1);
    if (w == NULL)
        return stop(c, tp_fail(c->e, TP_E_NO_MEMORY, "out of memory for a record"));
    if (t.escaped)
        t.n = tp_json_unescape(t.s, t.n, w);
    else
        memcpy(w, t.s, t.n);
    c->m->text.n += t.n;
    s->str = (struct tp_str){.s = w, .n = (uint32_t)t.n};
    return after;
}

/* p behind operand `operand - 1`: the start of the next one. */
static const char *next_operand(struct reader *c, const char *p, uint32_t k, int operand)
{
    const char *end = c->j.end;
    p = tp_json_ws(p, end);
    if (p < end && *p == ',')
        return tp_json_ws(p + 1, end);
    if (p == end || *p != ']')
        return syntax(c, p, k, "expected ',' or ']'");
    int kind = c->m->steps[k].kind, n;
    const char *name = tp_step_operand(kind, operand, &n);
    return stop(c,
                tp_step_fail(c->e, TP_E_BAD_STEP, k, -1, -1, "%s ends after %d operands; it takes %zu, %.*s is missing",
                             tp_step_tag(kind), operand, strlen(tp_step_grammar(kind)), n, name));
}

/* p at step k: the byte behind it. */
static const char *read_step(struct reader *c, const char *p, uint32_t k)
{
    const char *end = c->j.end;
    struct tp_step *s = &c->m->steps[k];
    const size_t first_int = c->m->n_ints;
    int kind = 0;
    if (p == end || *p != '[') {
        if (!sound(c, p, k, STEP_DEPTH - 1))
            return NULL;
        return stop(c,
                    tp_step_fail(c->e, TP_E_BAD_STEP, k, -1, -1, "is %s; it must be an array", tp_json_kind(p, end)));
    }
    p = read_tag(c, tp_json_ws(p + 1, end), k, &kind);
    if (p == NULL)
        return NULL;
    memset(s, 0, sizeof *s);
    s->kind = (uint8_t)kind;
    int rc = tp_record_room(c->m, TP_MAX_LIST, c->e);
    if (rc != 0)
        return stop(c, rc);

    const char *g = tp_step_grammar(kind);
    int n_op = 0;
    for (int i = 0; g[i] != '\0'; i++) {
        p = next_operand(c, p, k, i);
        if (p == NULL)
            return NULL;
        if (g[i] == 'i') {
            const char *q = tp_json_i32(p, end, &s->op[n_op++]);
            p = q != NULL ? q : bad_operand(c, p, k, i, -1, "a 32-bit integer");
        } else if (g[i] == 'l') {
            p = read_list(c, p, k, i, s);
        } else {
            p = read_str(c, p, k, i, s);
        }
        if (p == NULL)
            return NULL;
    }
    p = tp_json_ws(p, end);
    if (p == end || *p != ']') {
        if (p == end || *p != ',')
            return syntax(c, p, k, "expected ',' or ']'");
        if (!sound(c, tp_json_ws(p + 1, end), k, STEP_DEPTH))
            return NULL;
        return stop(c, tp_step_fail(c->e, TP_E_BAD_STEP, k, (int)strlen(g), -1, "%s has an extra operand; it takes %zu",
                                    tp_step_tag(kind), strlen(g)));
    }
    rc = tp_step_check(c->m->steps, k, c->m->ints + first_int, c->e);
    return rc == 0 ? p + 1 : stop(c, rc);
}

/* The state that is due: [[], [step, ...]]. */
static int read_state(struct reader *c)
{
    struct tp_json *j = &c->j;
    struct tp_json_text t;
    c->m->n_ints = 0;
    c->m->text.n = 0;
    c->n_steps = 0;
    const char *p = tp_json_ws(j->p, j->end);
    if (p < j->end && *p != '[')
        return tp_json_unexpected(j, TP_E_BAD_STATE, "/i/1", "a state [[], [step, ...]]", c->e);
    if (tp_json_next(j, &t) < 0)
        return tp_json_fail(j, "/i/1", c->e);

    static const char *const want[2] = {"an empty array (stages)", "an array of steps"};
    for (int i = 0; i < 2; i++) {
        char pointer[8];
        snprintf(pointer, sizeof pointer, "/i/1/%d", i);
        int more = tp_json_more(j);
        if (more < 0)
            return tp_json_fail(j, pointer, c->e);
        if (more == 0)
            return tp_fail_at(c->e, TP_E_BAD_STATE, pointer, "the state ends after %d items; it is [[], [step, ...]]",
                              i);
        if (j->p < j->end && *j->p != '[')
            return tp_json_unexpected(j, TP_E_BAD_STATE, pointer, want[i], c->e);
        if (tp_json_next(j, &t) < 0)
            return tp_json_fail(j, pointer, c->e);
        while ((more = tp_json_more(j)) == 1) {
            if (i == 0) {
                if (tp_json_skip(j) < 0)
                    break;
                return tp_fail_at(c->e, TP_E_BAD_STATE, "/i/1/0", "stages are not serialised; the array must be empty");
            }
            if (c->n_steps == TP_MAX_STEPS)
                return tp_fail_at(c->e, TP_E_TOO_MANY_STEPS, "/i/1/1", "more than %d steps", TP_MAX_STEPS);
            p = read_step(c, j->p, c->n_steps);
            if (p == NULL)
                return c->rc;
            tp_json_taken(j, p);
            c->n_steps++;
        }
        if (j->code != TP_OK)
            return tp_json_fail(j, pointer, c->e);
    }
    int more = tp_json_more(j);
    if (more < 0 || (more == 1 && tp_json_skip(j) < 0))
        return tp_json_fail(j, "/i/1", c->e);
    if (more == 1)
        return tp_fail_at(c->e, TP_E_BAD_STATE, "/i/1/2", "the state has a third item; it is [[], [step, ...]]");
    return 0;
}

/* ---- frame ------------------------------------------------------------------------------------------------------- */

/* The task that is due. Its bytes are compared first: in a log, one line after the other has the same. */
static int read_task(struct reader *c, struct tp_record *r)
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

static int read_input(struct reader *c, struct tp_record *r)
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
        int rc = i == 0 ? read_task(c, r) : read_state(c);
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

static int read_number(struct reader *c, const char *pointer, const char *name, double *v)
{
    struct tp_json_text t;
    int event = tp_json_next(&c->j, &t);
    if (event < 0)
        return tp_json_fail(&c->j, pointer, c->e);
    if (!is_number(event, &t, v))
        return tp_fail_at(c->e, TP_E_BAD_RESULT, pointer, "%s is not a number in the range of a double", name);
    return 0;
}

static int read_costs(struct reader *c, struct tp_result *out)
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

static int read_error_no(struct reader *c, struct tp_result *out)
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
static int read_result(struct reader *c)
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
static int read_result_or_go_on(struct reader *c)
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

static int read_version(struct reader *c)
{
    struct tp_json *j = &c->j;
    struct tp_json_text t;
    int event = tp_json_next(j, &t);
    if (event < 0)
        return tp_json_fail(j, "/v", c->e);
    if (event != TP_JSON_STRING || t.control)
        return tp_fail_at(c->e, TP_E_BAD_JSON, "/v", "the version is not a string without control characters");
    c->m->version.n = 0;
    char *w = tp_buf_grow(&c->m->version, t.n + 1);
    if (w == NULL)
        return tp_fail(c->e, TP_E_NO_MEMORY, "out of memory for a record");
    c->m->version.n = tp_json_unescape(t.s, t.n, w);
    c->has_version = true;
    return 0;
}

static void publish(struct reader *c, struct tp_record *r)
{
    struct tp_record_mem *m = c->m;
    tp_steps_bind(m, c->n_steps);
    r->task = m->task;
    r->n_steps = c->n_steps;
    r->steps = m->steps;
    r->has_result = c->has_result;
    r->result = c->has_result ? c->result : (struct tp_result){0};
    r->has_version = c->has_version;
    r->version = (struct tp_str){.s = m->version.p, .n = c->has_version ? (uint32_t)m->version.n : 0};
}

static int read_record(struct reader *c, struct tp_record *r)
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
        static const char names[3] = {'i', 'r', 'v'};
        int k;
        for (k = 0; k < 3; k++) {
            const char name[2] = {names[k], '\0'};
            if (tp_json_is(&t, name))
                break;
        }
        if (k == 3)
            return tp_fail(c->e, TP_E_UNKNOWN_KEY, "key \"%.*s\" is not known; a record has i, r and v",
                           t.n < 32 ? (int)t.n : 32, t.s);
        if (seen & 1u << k)
            return tp_fail(c->e, TP_E_BAD_JSON, "key \"%c\" stands twice", names[k]);
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

static void reader_init(struct reader *c, struct tp_record_mem *m, const char *s, size_t n, struct tp_err *e)
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
    struct reader c;
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

int tp_record_parse_state(struct tp_record *r, const char *task, size_t task_n, const char *s, size_t n, size_t *used,
                          struct tp_err *e)
{
    struct tp_record_mem *m = tp_record_mem(r, e);
    if (m == NULL)
        return -TP_E_NO_MEMORY;
    if (!m->task_ok || m->task_raw.n != task_n || memcmp(m->task_raw.p, task, task_n) != 0) {
        int rc = tp_task_decode(r, task, task_n, e);
        if (rc != 0)
            return rc;
    }
    struct reader c;
    reader_init(&c, m, s, n < TP_MAX_LINE + 1 ? n : TP_MAX_LINE + 1, e);
    c.j.depth = STATE_DEPTH - 1;
    int rc = read_state(&c);
    if (rc != 0)
        return rc;
    *used = (size_t)(c.j.p - s);
    if (*used > TP_MAX_LINE)
        return too_long(e);
    publish(&c, r);
    return 0;
}
