/* The tokenizer's state machine.
 *
 * Invariant: between calls p stands right after the last token, and state says what may follow it; the container that
 * holds it is bit `depth` of the stack. depth never passes max_depth, so the stack cannot overflow. One owner, no
 * allocation. */
#include "proto/json.h"

#include <string.h>

#include "proto/utf8.h"

/* What ends the fast run inside a string: quote, backslash, control bytes, the first byte of longer characters. */
static const bool special[256] = {[0 ... 0x1F] = true, ['"'] = true, ['\\'] = true, [0x80 ... 0xFF] = true};

void tp_json_init(struct tp_json *j, const char *s, size_t n, int max_depth)
{
    j->p = j->begin = s;
    j->end = s + n;
    j->depth = 0;
    j->max_depth = max_depth;
    j->state = TP_JSON_AT_VALUE;
    j->code = TP_OK;
    j->what = NULL;
}

static int fail(struct tp_json *j, const char *p, enum tp_code code, const char *what)
{
    j->p = p;
    j->code = code;
    j->what = what;
    return -(int)code;
}

static int hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int d = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
        if (d < 0)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

/* p at a backslash: the byte after the escape, or NULL. */
static const char *scan_escape(struct tp_json *j, const char *p, struct tp_json_text *t)
{
    const char *end = j->end;
    if (end - p < 2) {
        fail(j, p, TP_E_BAD_JSON, "the string does not end");
        return NULL;
    }
    switch (p[1]) {
    case '"':
    case '\\':
    case '/':
    case 'n':
    case 'r':
    case 't':
        return p + 2;
    case 'b':
    case 'f':
        t->control = true;
        return p + 2;
    case 'u':
        break;
    default:
        fail(j, p, TP_E_BAD_JSON, "unknown escape in a string");
        return NULL;
    }
    int u = hex4(p + 2, end);
    if (u < 0) {
        fail(j, p, TP_E_BAD_JSON, "\\u needs four hex digits");
        return NULL;
    }
    if (u < 0x20 && u != '\t' && u != '\n' && u != '\r')
        t->control = true;
    if (u < 0xD800 || u > 0xDFFF)
        return p + 6;
    int low = u <= 0xDBFF && end - p >= 12 && p[6] == '\\' && p[7] == 'u' ? hex4(p + 8, end) : -1;
    if (low < 0xDC00 || low > 0xDFFF) {
        fail(j, p, TP_E_BAD_JSON, "lone surrogate escape in a string");
        return NULL;
    }
    return p + 12;
}

const char *tp_json_string(struct tp_json *j, const char *p, struct tp_json_text *t)
{
    const char *end = j->end;
    t->s = p;
    t->escaped = t->control = false;
    for (;;) {
        while (p < end && !special[(unsigned char)*p])
            p++;
        if (p == end) {
            fail(j, p, TP_E_BAD_JSON, "the string does not end");
            return NULL;
        }
        if (*p == '"') {
            t->n = (size_t)(p - t->s);
            return p + 1;
        }
        if (*p == '\\') {
            t->escaped = true;
            p = scan_escape(j, p, t);
            if (p == NULL)
                return NULL;
        } else if ((unsigned char)*p < 0x20) {
            fail(j, p, TP_E_BAD_JSON, "raw control character in a string");
            return NULL;
        } else {
            size_t n = tp_utf8_len(p, (size_t)(end - p));
            if (n == 0) {
                fail(j, p, TP_E_BAD_UTF8, "malformed UTF-8");
                return NULL;
            }
            p += n;
        }
    }
}

static bool is_digit(const char *p, const char *end)
{
    return p < end && *p >= '0' && *p <= '9';
}

/* The byte after the number at p, or NULL. */
static const char *scan_number(const char *p, const char *end, int *event)
{
    *event = TP_JSON_INT;
    if (p < end && *p == '-')
        p++;
    if (!is_digit(p, end))
        return NULL;
    if (*p == '0')
        p++;
    else
        while (is_digit(p, end))
            p++;
    if (p < end && *p == '.') {
        *event = TP_JSON_REAL;
        p++;
        if (!is_digit(p, end))
            return NULL;
        while (is_digit(p, end))
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        *event = TP_JSON_REAL;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (!is_digit(p, end))
            return NULL;
        while (is_digit(p, end))
            p++;
    }
    return p;
}

static bool top_is_object(const struct tp_json *j)
{
    return j->stack[(j->depth - 1) / 64] >> ((j->depth - 1) % 64) & 1;
}

static int enter(struct tp_json *j, const char *p, bool object)
{
    if (j->depth == j->max_depth)
        return fail(j, p, TP_E_TOO_DEEP, "nesting too deep");
    uint64_t bit = (uint64_t)1 << (j->depth % 64), *word = &j->stack[j->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    j->depth++;
    j->p = p + 1;
    j->state = TP_JSON_AT_FIRST;
    return object ? TP_JSON_OBJECT : TP_JSON_ARRAY;
}

static int leave(struct tp_json *j, const char *p, bool object)
{
    j->depth--;
    tp_json_taken(j, p + 1);
    return object ? TP_JSON_OBJECT_END : TP_JSON_ARRAY_END;
}

static int literal(struct tp_json *j, const char *p, const char *word, size_t n, int event)
{
    if ((size_t)(j->end - p) < n || memcmp(p, word, n) != 0)
        return fail(j, p, TP_E_BAD_JSON, "expected a value");
    tp_json_taken(j, p + n);
    return event;
}

static int value(struct tp_json *j, const char *p, struct tp_json_text *t)
{
    int event;
    const char *q;
    if (p == j->end)
        return fail(j, p, TP_E_BAD_JSON, "the text ends where a value is due");
    switch (*p) {
    case '{':
        return enter(j, p, true);
    case '[':
        return enter(j, p, false);
    case '"':
        q = tp_json_string(j, p + 1, t);
        if (q == NULL)
            return -(int)j->code;
        tp_json_taken(j, q);
        return TP_JSON_STRING;
    case 't':
        return literal(j, p, "true", 4, TP_JSON_TRUE);
    case 'f':
        return literal(j, p, "false", 5, TP_JSON_FALSE);
    case 'n':
        return literal(j, p, "null", 4, TP_JSON_NULL);
    case '-':
    case '0' ... '9':
        q = scan_number(p, j->end, &event);
        if (q == NULL)
            return fail(j, p, TP_E_BAD_JSON, "malformed number");
        *t = (struct tp_json_text){.s = p, .n = (size_t)(q - p)};
        tp_json_taken(j, q);
        return event;
    default:
        return fail(j, p, TP_E_BAD_JSON, "expected a value");
    }
}

static int key(struct tp_json *j, const char *p, struct tp_json_text *t)
{
    if (p == j->end || *p != '"')
        return fail(j, p, TP_E_BAD_JSON, "expected a key");
    p = tp_json_string(j, p + 1, t);
    if (p == NULL)
        return -(int)j->code;
    p = tp_json_ws(p, j->end);
    if (p == j->end || *p != ':')
        return fail(j, p, TP_E_BAD_JSON, "expected ':' after a key");
    j->p = p + 1;
    j->state = TP_JSON_AT_VALUE;
    return TP_JSON_KEY;
}

int tp_json_next(struct tp_json *j, struct tp_json_text *t)
{
    if (j->code != TP_OK)
        return -(int)j->code;
    const char *p = tp_json_ws(j->p, j->end);
    if (j->state == TP_JSON_AT_VALUE)
        return value(j, p, t);
    if (j->depth == 0)
        return TP_JSON_END;
    bool object = top_is_object(j);
    if (p < j->end && *p == (object ? '}' : ']'))
        return leave(j, p, object);
    if (j->state == TP_JSON_AFTER) {
        if (p == j->end || *p != ',')
            return fail(j, p, TP_E_BAD_JSON, object ? "expected ',' or '}'" : "expected ',' or ']'");
        p = tp_json_ws(p + 1, j->end);
    }
    return object ? key(j, p, t) : value(j, p, t);
}

int tp_json_skip(struct tp_json *j)
{
    struct tp_json_text t;
    int base = j->depth;
    do {
        int rc = tp_json_next(j, &t);
        if (rc < 0)
            return rc;
    } while (j->depth > base);
    return 0;
}

int tp_json_more(struct tp_json *j)
{
    if (j->code != TP_OK)
        return -(int)j->code;
    const char *p = tp_json_ws(j->p, j->end);
    if (p < j->end && *p == ']') {
        leave(j, p, false);
        return 0;
    }
    if (j->state == TP_JSON_AFTER) {
        if (p == j->end || *p != ',')
            return fail(j, p, TP_E_BAD_JSON, "expected ',' or ']'");
        p = tp_json_ws(p + 1, j->end);
    }
    j->p = p;
    j->state = TP_JSON_AT_VALUE;
    return 1;
}

int tp_json_finish(struct tp_json *j)
{
    if (j->code != TP_OK)
        return -(int)j->code;
    const char *p = tp_json_ws(j->p, j->end);
    if (p != j->end)
        return fail(j, p, TP_E_BAD_JSON, "text after the value");
    j->p = p;
    return 0;
}

static char *put_utf8(char *w, unsigned u)
{
    if (u < 0x80) {
        *w++ = (char)u;
    } else if (u < 0x800) {
        *w++ = (char)(0xC0 | u >> 6);
        *w++ = (char)(0x80 | (u & 0x3F));
    } else if (u < 0x10000) {
        *w++ = (char)(0xE0 | u >> 12);
        *w++ = (char)(0x80 | (u >> 6 & 0x3F));
        *w++ = (char)(0x80 | (u & 0x3F));
    } else {
        *w++ = (char)(0xF0 | u >> 18);
        *w++ = (char)(0x80 | (u >> 12 & 0x3F));
        *w++ = (char)(0x80 | (u >> 6 & 0x3F));
        *w++ = (char)(0x80 | (u & 0x3F));
    }
    return w;
}

size_t tp_json_unescape(const char *s, size_t n, char *out)
{
    const char *end = s + n;
    char *w = out;
    while (s < end) {
        if (*s != '\\') {
            *w++ = *s++;
            continue;
        }
        char c = s[1];
        s += 2;
        switch (c) {
        case 'b':
            *w++ = '\b';
            break;
        case 'f':
            *w++ = '\f';
            break;
        case 'n':
            *w++ = '\n';
            break;
        case 'r':
            *w++ = '\r';
            break;
        case 't':
            *w++ = '\t';
            break;
        case 'u': {
            unsigned u = (unsigned)hex4(s, end);
            s += 4;
            if (u >= 0xD800 && u <= 0xDBFF) {
                u = 0x10000 + ((u - 0xD800) << 10) + ((unsigned)hex4(s + 2, end) - 0xDC00);
                s += 6;
            }
            w = put_utf8(w, u);
            break;
        }
        default: /* the quote, the backslash, the slash */
            *w++ = c;
        }
    }
    return (size_t)(w - out);
}

bool tp_json_is(const struct tp_json_text *t, const char *literal_text)
{
    size_t n = strlen(literal_text);
    if (!t->escaped)
        return t->n == n && memcmp(t->s, literal_text, n) == 0;
    char decoded[128];
    if (t->n > sizeof decoded)
        return false;
    return tp_json_unescape(t->s, t->n, decoded) == n && memcmp(decoded, literal_text, n) == 0;
}

const char *tp_json_kind(const char *p, const char *end)
{
    if (p >= end)
        return "nothing";
    switch (*p) {
    case '{':
        return "an object";
    case '[':
        return "an array";
    case '"':
        return "a string";
    case 't':
    case 'f':
        return "a boolean";
    case 'n':
        return "null";
    case '-':
    case '0' ... '9':
        return "a number";
    default:
        return "something else";
    }
}

const char *tp_json_i32_slow(const char *p, const char *end, int32_t *v)
{
    int event;
    const char *q = scan_number(p, end, &event);
    if (q == NULL || event != TP_JSON_INT)
        return NULL;
    bool neg = *p == '-';
    int64_t x = 0;
    for (p += neg; p < q; p++) {
        x = x * 10 + (*p - '0');
        if (x > (int64_t)INT32_MAX + neg)
            return NULL;
    }
    *v = (int32_t)(neg ? -x : x);
    return q;
}
