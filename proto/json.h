/* JSON pull tokenizer: one pass over the bytes, no tree, no allocation, no copy. Private to proto/.
 *
 * Strict RFC 8259 and strict UTF-8: no comments, no trailing commas, no bare nan/inf, numbers exactly by the grammar.
 * A \u escape that is a lone surrogate is BAD_JSON (there is no character to decode it to); malformed bytes are
 * BAD_UTF8; nesting beyond max_depth is TOO_DEEP. Duplicate keys and the range of numbers are the caller's matter.
 *
 * The caller pulls events with tp_json_next(). Two shortcuts for readers that know what must come: tp_json_more() steps
 * to the next item of an array without reading it, and a reader that consumed a value's bytes by itself calls
 * tp_json_taken(). One owner; the input must outlive the texts handed out. After an error the tokenizer is done: `what`
 * and `p` tell why and where. */
#ifndef TP_JSON_H
#define TP_JSON_H

#include "proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TP_JSON_MAX_DEPTH = 512 };

enum tp_json_event {
    TP_JSON_END, /* the one value of the document is complete; see tp_json_finish() */
    TP_JSON_OBJECT,
    TP_JSON_OBJECT_END,
    TP_JSON_ARRAY,
    TP_JSON_ARRAY_END,
    TP_JSON_KEY,
    TP_JSON_STRING,
    TP_JSON_INT, /* no '.', no exponent; any length */
    TP_JSON_REAL,
    TP_JSON_TRUE,
    TP_JSON_FALSE,
    TP_JSON_NULL
};

/* A piece of the input: a number's text, or what stands between the quotes of a checked string. */
struct tp_json_text {
    const char *s;
    size_t n;
    bool escaped; /* has backslashes: needs tp_json_unescape() */
    bool control; /* an escape stands for a control character other than \t \r \n */
};

struct tp_json {
    const char *p, *end, *begin;
    int depth, max_depth;
    enum { TP_JSON_AT_VALUE, TP_JSON_AT_FIRST, TP_JSON_AFTER } state;
    enum tp_code code;                      /* of the error, TP_OK before one */
    const char *what;                       /* static text */
    uint64_t stack[TP_JSON_MAX_DEPTH / 64]; /* bit d: the container at depth d is an object */
};

/* max_depth <= TP_JSON_MAX_DEPTH */
void tp_json_init(struct tp_json *j, const char *s, size_t n, int max_depth);

/* The next event (enum tp_json_event), its text in *t for keys, strings and numbers; or -TP_E_x. A key's colon is
 * consumed with it. */
int tp_json_next(struct tp_json *j, struct tp_json_text *t);

/* Consume one whole value. Only where a value must come: after a key, or after tp_json_more() returned 1. */
int tp_json_skip(struct tp_json *j);

/* Inside an array: 1: another item starts at j->p. 0: the array has ended, its bracket is consumed. < 0: error. */
int tp_json_more(struct tp_json *j);

/* The caller has consumed the value that was due, up to p. */
static inline void tp_json_taken(struct tp_json *j, const char *p)
{
    j->p = p;
    j->state = TP_JSON_AFTER;
}

/* Nothing but white space may be left: 0 or BAD_JSON. */
int tp_json_finish(struct tp_json *j);

/* Decode a checked string. `out` needs n bytes; returns the length. out == s is allowed. */
size_t tp_json_unescape(const char *s, size_t n, char *out);

/* Compare a checked string with a literal, escapes included. */
bool tp_json_is(const struct tp_json_text *t, const char *literal);

/* "a string", "null", ...: the kind of value that starts with this byte, for messages; "nothing" at the end of the
 * input. */
const char *tp_json_kind(const char *p, const char *end);

static inline const char *tp_json_ws(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    return p;
}

/* A string whose opening quote is before p: the byte after its closing quote, or NULL with code, what and p of *j set.
 */
const char *tp_json_string(struct tp_json *j, const char *p, struct tp_json_text *t);

const char *tp_json_i32_slow(const char *p, const char *end, int32_t *v);

/* A 32-bit integer at p: the byte after it, or NULL when there is anything else (bad syntax, a real, out of range). */
static inline const char *tp_json_i32(const char *p, const char *end, int32_t *v)
{
    if (end - p < 11) /* the fast path below reads up to 10 bytes unchecked */
        return tp_json_i32_slow(p, end, v);
    const char *start = p;
    uint32_t u = (uint32_t)(unsigned char)*p - '0';
    if (u > 9)
        return tp_json_i32_slow(p, end, v);
    p++;
    if (u != 0) {
        uint32_t d;
        while ((d = (uint32_t)(unsigned char)*p - '0') <= 9) {
            if (p - start == 9)
                return tp_json_i32_slow(start, end, v);
            u = u * 10 + d;
            p++;
        }
    }
    if (*p == '.' || (*p | 0x20) == 'e')
        return NULL;
    *v = (int32_t)u;
    return p;
}

#endif
