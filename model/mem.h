/* Allocation for numeric code: zeroed, on cache lines, overflow-checked. Released with free().
 * Arenas only grow: `tm_grow` keeps the contents, so a worker allocates nothing in the steady state.
 * Thread-safety: as malloc. */
#ifndef TM_MEM_H
#define TM_MEM_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TM_ALIGN = 64 };

/* n elements of `size` bytes, zeroed, aligned to TM_ALIGN; NULL when out of memory or when n * size overflows. Never
 * NULL for n = 0. */
static inline void *tm_alloc(size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX - TM_ALIGN)
        return NULL;
    bytes = (bytes + TM_ALIGN - 1) / TM_ALIGN * TM_ALIGN;
    if (bytes == 0)
        bytes = TM_ALIGN;
    void *p = aligned_alloc(TM_ALIGN, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

/* Make *p hold at least `need` elements, growing geometrically; old contents stay, new ones are zero.
 * Returns 0, or -1 with everything untouched. */
static inline int tm_grow(void **p, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap)
        return 0;
    size_t want = *cap > SIZE_MAX / 2 ? need : *cap + *cap / 2;
    if (want < need)
        want = need;
    void *q = tm_alloc(want, size);
    if (!q)
        return -1;
    if (*cap)
        memcpy(q, *p, *cap * size);
    free(*p);
    *p = q;
    *cap = want;
    return 0;
}

#endif
