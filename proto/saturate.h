/* Products of extents, which a hostile record makes as large as it likes. Private to proto/. Pure functions. */
#ifndef TP_SATURATE_H
#define TP_SATURATE_H

#include <stdint.h>

/* a * b for a, b >= 0, at most INT64_MAX. */
static inline int64_t tp_mul_sat(int64_t a, int64_t b)
{
    int64_t r;

    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

#endif
