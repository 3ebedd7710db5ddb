/* Errors: one enum for the whole program, mapped by one table to HTTP status, URN and title.
 *
 * A fallible function returns 0 or a negative `-TP_E_x`. The human text goes into the caller's `struct tp_err`
 * (which may be NULL); other outputs are untouched on failure. Nobody logs and returns.
 * Thread-safety: all functions are pure. */
#ifndef TP_ERR_H
#define TP_ERR_H

#include <stddef.h>

enum tp_code {
    TP_OK = 0,
#define X(name, status, slug, title) TP_E_##name,
#include "proto/errors.def"
#undef X
    TP_E_COUNT
};

struct tp_err {
    enum tp_code code;
    long line;        /* 1-based physical line of an NDJSON body or config file; 0 = does not apply */
    long index;       /* 0-based number of the record in its body; -1 = does not apply */
    char pointer[96]; /* JSON pointer (RFC 6901) inside the record or body; "" = the whole */
    char detail[256]; /* what was wrong, where, and what is accepted; no file paths, no SQL */
};

/* Fill *e (when not NULL) and return -code. line = 0, index = -1, pointer = "". */
int tp_fail(struct tp_err *e, enum tp_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same with a JSON pointer. */
int tp_fail_at(struct tp_err *e, enum tp_code code, const char *pointer, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Accept both TP_E_x and -TP_E_x. */
int tp_code_status(int code);        /* HTTP status, e.g. 404 */
const char *tp_code_slug(int code);  /* "unknown-hardware": the last part of the URN, and the code of a record error */
const char *tp_code_title(int code); /* "Unknown hardware" */

/* What an errno of a file says: DISK_FULL or IO. A quota or a file-size limit is a full disk to whoever waits. */
enum tp_code tp_code_of_errno(int err);

#endif
