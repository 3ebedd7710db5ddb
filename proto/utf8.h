/* Strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF. Pure. */
#ifndef TP_UTF8_H
#define TP_UTF8_H

#include <stddef.h>

/* Bytes of the well-formed multi-byte character at s (2..4), 0 when it is malformed, cut off, or a single byte. */
static inline size_t tp_utf8_len(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    if (n < 2 || u[0] < 0xC2 || u[0] > 0xF4 || (u[1] & 0xC0) != 0x80)
        return 0;
    if (u[0] < 0xE0)
        return 2;
    if (n < 3 || (u[2] & 0xC0) != 0x80)
        return 0;
    if (u[0] < 0xF0) /* E0: overlong below A0; ED: surrogates from A0 */
        return (u[0] == 0xE0 && u[1] < 0xA0) || (u[0] == 0xED && u[1] >= 0xA0) ? 0 : 3;
    if (n < 4 || (u[3] & 0xC0) != 0x80)
        return 0;
    return (u[0] == 0xF0 && u[1] < 0x90) || (u[0] == 0xF4 && u[1] >= 0x90) ? 0 : 4;
}

#endif
