/* Which kernel table belongs to a set. The choice itself is made in simd.c. Pure, any thread. */
#include "model/kern.h"

const struct tm_kern *tm_kern(enum tm_simd_set s)
{
    if (!tm_simd_supported(s))
        return NULL;
    switch (s) {
    case TM_SIMD_PORTABLE:
        return &tm_kern_portable;
#if defined(__x86_64__)
    case TM_SIMD_AVX2:
        return &tm_kern_avx2;
    case TM_SIMD_AVX512:
        return &tm_kern_avx512;
#elif defined(__aarch64__)
    case TM_SIMD_NEON:
        return &tm_kern_neon;
#endif
    default:
        return NULL;
    }
}
