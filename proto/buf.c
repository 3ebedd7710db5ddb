/* The growing byte buffer.
 *
 * Invariant: n <= cap, and p is NULL exactly when cap is 0. After `oom` nothing is appended any more, so a reader
 * that forgets to check sees a cut text, never a wrong one. One owner, no thread of its own. */
#include "proto/buf.h"
#include "proto/number.h"
#include "proto/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 256 };

void tp_buf_free(struct tp_buf *b)
{
    if (b == NULL)
        return;
    free(b->p);
    memset(b, 0, sizeof *b);
}

char *tp_buf_grow(struct tp_buf *b, size_t extra)
{
    if (b->oom)
        return NULL;
    if (extra <= b->cap - b->n && b->p != NULL)
        return b->p + b->n;
    if (extra > SIZE_MAX / 2 - b->n)
        goto oom;
    size_t need = b->n + extra, cap = b->cap < FIRST_CAP ? FIRST_CAP : b->cap;
    while (cap < need)
        cap += cap / 2;
    char *p = realloc(b->p, cap);
    if (p == NULL)
        goto oom;
    b->p = p;
    b->cap = cap;
    return p + b->n;
oom:
    b->oom = true;
    return NULL;
}

void tp_buf_put(struct tp_buf *b, const void *p, size_t n)
{
    if (n == 0)
        return;
    char *w = tp_buf_grow(b, n);
    if (w == NULL)
        return;
    memcpy(w, p, n);
    b->n += n;
}

void tp_buf_puts(struct tp_buf *b, const char *s)
{
    tp_buf_put(b, s, strlen(s));
}

void tp_buf_putc(struct tp_buf *b, char c)
{
    char *w = tp_buf_grow(b, 1);
    if (w == NULL)
        return;
    *w = c;
    b->n++;
}

void tp_buf_printf(struct tp_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    char small[128];
    int n = vsnprintf(small, sizeof small, fmt, ap);
    if (n < 0) {
        b->oom = true;
    } else if ((size_t)n < sizeof small) {
        tp_buf_put(b, small, (size_t)n);
    } else {
        char *w = tp_buf_grow(b, (size_t)n + 1); /* vsnprintf wants room for its NUL */
        if (w != NULL) {
            vsnprintf(w, (size_t)n + 1, fmt, again);
            b->n += (size_t)n;
        }
    }
    va_end(again);
    va_end(ap);
}

void tp_buf_i64(struct tp_buf *b, int64_t v)
{
    char text[24], *p = text + sizeof text;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do {
        *--p = (char)('0' + u % 10);
        u /= 10;
    } while (u != 0);
    if (v < 0)
        *--p = '-';
    tp_buf_put(b, p, (size_t)(text + sizeof text - p));
}

static void put_range(struct tp_buf *b, const char *s, size_t from, size_t to)
{
    if (to > from)
        tp_buf_put(b, s + from, to - from);
}

void tp_buf_json_str(struct tp_buf *b, const char *s, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    size_t from = 0, i = 0;
    tp_buf_putc(b, '"');
    while (i < n) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
            i++;
            continue;
        }
        size_t len = c >= 0x80 ? tp_utf8_len(s + i, n - i) : 0;
        if (len > 0) {
            i += len;
            continue;
        }
        put_range(b, s, from, i);
        char esc[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        size_t esc_n = 2;
        switch (c) {
        case '"':
        case '\\':
            esc[1] = (char)c;
            break;
        case '\b':
            esc[1] = 'b';
            break;
        case '\f':
            esc[1] = 'f';
            break;
        case '\n':
            esc[1] = 'n';
            break;
        case '\r':
            esc[1] = 'r';
            break;
        case '\t':
            esc[1] = 't';
            break;
        default:
            esc_n = 6;
        }
        if (c >= 0x80)
            tp_buf_put(b, "\xEF\xBF\xBD", 3);
        else
            tp_buf_put(b, esc, esc_n);
        from = ++i;
    }
    put_range(b, s, from, n);
    tp_buf_putc(b, '"');
}

void tp_buf_tvm_str(struct tp_buf *b, const char *s, size_t n)
{
    size_t from = 0;
    tp_buf_putc(b, '"');
    for (size_t i = 0; i < n; i++) {
        const char *esc = NULL;
        switch (s[i]) {
        case '\r':
            esc = "\\r";
            break;
        case '\n':
            esc = "\\n";
            break;
        case '\t':
            esc = "\\t";
            break;
        case '\\':
            esc = "\\\\";
            break;
        case '"':
            esc = "\\\"";
            break;
        default:
            continue;
        }
        put_range(b, s, from, i);
        tp_buf_put(b, esc, 2);
        from = i + 1;
    }
    put_range(b, s, from, n);
    tp_buf_putc(b, '"');
}

void tp_buf_json_num(struct tp_buf *b, double v, int digits)
{
    if (!isfinite(v)) {
        tp_buf_put(b, "null", 4);
        return;
    }
    digits = digits < 1 ? 1 : digits > 17 ? 17 : digits;
    char *w = tp_buf_grow(b, TP_NUM_TEXT);
    if (w != NULL)
        b->n += tp_num_format(w, v, digits, digits);
}

void tp_buf_json_exact(struct tp_buf *b, double v)
{
    if (!isfinite(v)) {
        tp_buf_put(b, "null", 4);
        return;
    }
    char *w = tp_buf_grow(b, TP_NUM_TEXT);
    if (w != NULL)
        b->n += tp_num_shortest(w, v, 17);
}
