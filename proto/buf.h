/* A growing byte buffer for everything that is printed: replies, records, logs.
 * An append never fails visibly: out of memory sets `oom`, later appends do nothing, and the owner checks once.
 * Not thread-safe; one owner. */
#ifndef TP_BUF_H
#define TP_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tp_buf {
    char *p;    /* owned; NUL is not kept */
    size_t n;   /* bytes used */
    size_t cap; /* bytes allocated */
    bool oom;
};

void tp_buf_free(struct tp_buf *b);                /* releases and zeroes; NULL is fine */
char *tp_buf_grow(struct tp_buf *b, size_t extra); /* room for `extra` more bytes at p + n; NULL when oom */
void tp_buf_put(struct tp_buf *b, const void *p, size_t n);
void tp_buf_puts(struct tp_buf *b, const char *s);
void tp_buf_putc(struct tp_buf *b, char c);
void tp_buf_printf(struct tp_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tp_buf_i64(struct tp_buf *b, int64_t v); /* decimal, no printf */
/* A JSON string with quotes; RFC 8259 escaping (control bytes as \u00xx). Bad UTF-8 becomes U+FFFD. */
void tp_buf_json_str(struct tp_buf *b, const char *s, size_t n);
/* A JSON string as TVM's dmlc writer prints it: only \r \n \t \\ \" are escaped, all other bytes raw. */
void tp_buf_tvm_str(struct tp_buf *b, const char *s, size_t n);
/* A double as JSON with `digits` significant digits (%.{digits}g); NaN and infinities become null. */
void tp_buf_json_num(struct tp_buf *b, double v, int digits);
/* The same with the fewest digits that read back as v: 0.1 stays 0.1. */
void tp_buf_json_exact(struct tp_buf *b, double v);

#endif
