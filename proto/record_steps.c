/* Bytes -> steps: nine bytes of ten of a log.
 *
 * Read with primitives that know what must come, not with the tokenizer's events: that is what makes records fast.
 * Whatever a primitive does not like is looked at again by the tokenizer, so that broken JSON is told from a wrong
 * operand. Invariant: steps carry counts only until tp_steps_bind(), because the buffers behind them may move. */
#include "proto/record_mem.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

enum { STEP_DEPTH = 5 }; /* of the items of a step */

static const char *stop(struct tp_reader *c, int rc)
{
    c->rc = rc;
    return NULL;
}

/* Broken JSON at p, in step k. */
static const char *syntax(struct tp_reader *c, const char *p, uint32_t k, const char *what)
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
static bool sound(struct tp_reader *c, const char *p, uint32_t k, int depth)
{
    c->j.p = p;
    c->j.depth = depth;
    c->j.state = TP_JSON_AT_VALUE;
    if (tp_json_skip(&c->j) == 0)
        return true;
    syntax(c, c->j.p, k, NULL);
    return false;
}

static const char *bad_operand(struct tp_reader *c, const char *p, uint32_t k, int operand, int item,
                               const char *wanted)
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

/* Tags as little-endian words, so that one is found by comparing numbers, without a branch that depends on the kind.
 * Sixteen of them make whole vectors. */
#define TAG_BYTE(tag, i) ((uint32_t)(sizeof #tag > (i) ? (uint8_t)(#tag)[sizeof #tag > (i) ? (i) : 0] : 0) << (8 * (i)))
static const uint32_t tag_word[16] = {
#define X(tag, grammar, meaning) TAG_BYTE(tag, 0) | TAG_BYTE(tag, 1) | TAG_BYTE(tag, 2) | TAG_BYTE(tag, 3),
#include "proto/steps.def"
#undef X
    TAG_BYTE(MS, 0) | TAG_BYTE(MS, 1)};
static const uint8_t tag_len[TP_STEP_ALL] = {
#define X(tag, grammar, meaning) sizeof #tag - 1,
#include "proto/steps.def"
#undef X
    2};

static const char tags[] =
#define X(tag, grammar, meaning) " " #tag
#include "proto/steps.def"
#undef X
    ;

/* The kind whose tag is p[0..*n), where p[*n] is the first quote; -1: none, or its tag is longer than four bytes. */
static inline int quick_tag(const char *p, unsigned *n)
{
    uint32_t w, found = 0;
    memcpy(&w, p, sizeof w);
    w = le32toh(w);
    uint32_t x = w ^ 0x22222222, quote = (x - 0x01010101) & ~x & 0x80808080; /* the lowest set bit is exact */
    *n = quote != 0 ? (unsigned)__builtin_ctz(quote) / 8 : 4;
    w &= (uint32_t)(((uint64_t)1 << (8 * *n)) - 1);
    for (uint32_t i = 0; i < 16; i++)
        found |= tag_word[i] == w ? i + 1 : 0;
    /* The length, because a NUL in the input looks like padding. */
    return found - 1 < TP_STEP_ALL && *n == tag_len[found - 1] && p[*n] == '"' ? (int)found - 1 : -1;
}

/* p at a step's first item. The kind, and p behind the tag; NULL: error. */
static const char *read_tag(struct tp_reader *c, const char *p, uint32_t k, int *kind)
{
    const char *end = c->j.end;
    if (p < end && *p == '"') {
        unsigned n;
        p++;
        *kind = end - p > 4 ? quick_tag(p, &n) : -1;
        if (*kind >= 0)
            return p + n + 1;
        /* Unknown, longer, or written with escapes. */
        struct tp_json_text t;
        const char *after = tp_json_string(&c->j, p, &t);
        if (after == NULL)
            return syntax(c, c->j.p, k, NULL);
        char text[32];
        *kind = t.n <= sizeof text ? tp_step_by_tag(text, tp_json_unescape(t.s, t.n, text)) : -1;
        if (*kind >= 0)
            return after;
        return stop(c, tp_step_fail(c->e, TP_E_UNKNOWN_STEP, k, -1, -1, "kind \"%.*s\" is not known; known are%s",
                                    t.n < 32 ? (int)t.n : 32, t.s, tags));
    }
    if (p < end && *p == ']')
        return stop(c, tp_step_fail(c->e, TP_E_BAD_STEP, k, -1, -1, "is empty; a step starts with its kind"));
    if (!sound(c, p, k, STEP_DEPTH))
        return NULL;
    return stop(
        c, tp_step_fail(c->e, TP_E_BAD_STEP, k, -1, 0, "its kind is %s; it must be a string", tp_json_kind(p, end)));
}

static const char *read_list(struct tp_reader *c, const char *p, uint32_t k, int operand, struct tp_step *s)
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

static const char *read_str(struct tp_reader *c, const char *p, uint32_t k, int operand, struct tp_step *s)
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
static const char *next_operand(struct tp_reader *c, const char *p, uint32_t k, int operand)
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
static const char *read_step(struct tp_reader *c, const char *p, uint32_t k)
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
    int rc = c->m->cap_ints - c->m->n_ints >= TP_MAX_LIST ? 0 : tp_record_room(c->m, TP_MAX_LIST, c->e);
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
int tp_read_state(struct tp_reader *c)
{
    struct tp_json *j = &c->j;
    struct tp_json_text t;
    c->m->n_ints = 0;
    c->m->text.n = 0;
    c->m->text.oom = false;
    c->n_steps = 0;
    const char *p = tp_json_ws(j->p, j->end);
    if (p < j->end && *p != '[')
        return tp_json_unexpected(j, TP_E_BAD_STATE, "/i/1", "a state [[], [step, ...]]", c->e);
    if (tp_json_next(j, &t) < 0)
        return tp_json_fail(j, "/i/1", c->e);

    static const char *const want[2] = {"an empty array (stages)", "an array of steps"};
    for (int i = 0; i < 2; i++) {
        const char *pointer = i == 0 ? "/i/1/0" : "/i/1/1";
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
