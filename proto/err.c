/* The error table: proto/errors.def once, looked up by code.
 *
 * Invariant: every code between TP_OK and TP_E_COUNT has a row; any other number reads as INTERNAL.
 * Pure functions, any thread. */
#include "proto/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int status;
    const char *slug, *title;
} table[TP_E_COUNT] = {
    {200, "ok", "OK"},
#define X(name, status, slug, title) {status, slug, title},
#include "proto/errors.def"
#undef X
};

static int index_of(int code)
{
    if (code > -TP_E_COUNT && code < 0)
        return -code;
    return code >= 0 && code < TP_E_COUNT ? code : TP_E_INTERNAL;
}

int tp_code_status(int code)
{
    return table[index_of(code)].status;
}

const char *tp_code_slug(int code)
{
    return table[index_of(code)].slug;
}

const char *tp_code_title(int code)
{
    return table[index_of(code)].title;
}

enum tp_code tp_code_of_errno(int err)
{
    return err == ENOSPC || err == EDQUOT || err == EFBIG ? TP_E_DISK_FULL : TP_E_IO;
}

/* A cut in the middle of a character would put U+FFFD into the reply. */
static void trim_utf8(char *s, size_t n)
{
    size_t i = n;
    while (i > 0 && ((unsigned char)s[i - 1] & 0xC0) == 0x80)
        i--;
    if (i == 0)
        return;
    unsigned char lead = (unsigned char)s[i - 1];
    size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (n - (i - 1) < want)
        s[i - 1] = '\0';
}

static int fail(struct tp_err *e, enum tp_code code, const char *pointer, const char *fmt, va_list ap)
{
    if (e == NULL)
        return -(int)code;
    e->code = code;
    e->line = 0;
    e->index = -1;
    snprintf(e->pointer, sizeof e->pointer, "%s", pointer);
    int n = vsnprintf(e->detail, sizeof e->detail, fmt, ap);
    if (n < 0)
        e->detail[0] = '\0';
    else if ((size_t)n >= sizeof e->detail)
        trim_utf8(e->detail, sizeof e->detail - 1);
    return -(int)code;
}

int tp_fail(struct tp_err *e, enum tp_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int rc = fail(e, code, "", fmt, ap);
    va_end(ap);
    return rc;
}

int tp_fail_at(struct tp_err *e, enum tp_code code, const char *pointer, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int rc = fail(e, code, pointer, fmt, ap);
    va_end(ap);
    return rc;
}
