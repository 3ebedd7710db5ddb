/* Vectors of tm_real for the training kernels: as wide as the kernel set (-DTM_SIMD, target flags) allows, one notation
 * for all sets through the vector extension of gcc and clang. Pointers must be aligned to TM_VEC_BYTES. Float: exp and
 * log1p by polynomials, maximum relative error 2e-7. Double (gradient check): libm, lane by lane. Only model/simd_*.c
 * include this. Pure functions. */
#ifndef TM_VEC_H
#define TM_VEC_H

#include "model/real.h"

#include <math.h>
#include <stdint.h>

#if !defined(TM_DOUBLE) && (defined(__AVX2__) || defined(__SSE2__))
#include <immintrin.h>
#elif !defined(TM_DOUBLE) && defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#if !defined(TM_DOUBLE) && defined(__AVX512F__)
#define TM_VEC_BYTES 64
#elif !defined(TM_DOUBLE) && defined(__AVX2__)
#define TM_VEC_BYTES 32
#else
#define TM_VEC_BYTES 16
#endif

typedef tm_real tm_vec __attribute__((vector_size(TM_VEC_BYTES), may_alias));
#ifdef TM_DOUBLE
typedef int64_t tm_ivec __attribute__((vector_size(TM_VEC_BYTES), may_alias));
#else
typedef int32_t tm_ivec __attribute__((vector_size(TM_VEC_BYTES), may_alias));
#endif

enum { TM_LANES = TM_VEC_BYTES / (int)sizeof(tm_real) };

/* Loops over states and taps keep vectors in registers only when they are unrolled completely. */
#if defined(__clang__)
#define TM_UNROLL _Pragma("clang loop unroll_count(8)")
#else
#define TM_UNROLL _Pragma("GCC unroll 8")
#endif
#define TM_INLINE static inline __attribute__((always_inline, unused))

TM_INLINE tm_vec v_load(const tm_real *p)
{
    return *(const tm_vec *)p;
}

TM_INLINE void v_store(tm_real *p, tm_vec v)
{
    *(tm_vec *)p = v;
}

TM_INLINE tm_vec v_set(tm_real x)
{
    return x - (tm_vec){0};
}

/* The larger (smaller) of the two; the second argument when one is NaN, so that a NaN in x survives a clamp. */
TM_INLINE tm_vec v_max(tm_vec bound, tm_vec x)
{
#if !defined(TM_DOUBLE) && defined(__AVX512F__)
    return (tm_vec)_mm512_max_ps((__m512)bound, (__m512)x);
#elif !defined(TM_DOUBLE) && defined(__AVX2__)
    return (tm_vec)_mm256_max_ps((__m256)bound, (__m256)x);
#elif !defined(TM_DOUBLE) && defined(__SSE2__)
    return (tm_vec)_mm_max_ps((__m128)bound, (__m128)x);
#elif !defined(TM_DOUBLE) && defined(__ARM_NEON)
    return (tm_vec)vmaxq_f32((float32x4_t)bound, (float32x4_t)x);
#else
    for (int l = 0; l < TM_LANES; l++)
        x[l] = bound[l] > x[l] ? bound[l] : x[l];
    return x;
#endif
}

TM_INLINE tm_vec v_min(tm_vec bound, tm_vec x)
{
    return -v_max(-bound, -x);
}

/* mask lanes are all ones or all zeros. */
TM_INLINE tm_vec v_select(tm_ivec mask, tm_vec yes, tm_vec no)
{
    return (tm_vec)((mask & (tm_ivec)yes) | (~mask & (tm_ivec)no));
}

/* Sum of the lanes, always by halves: the order depends on the width only. */
TM_INLINE tm_real v_sum(tm_vec v)
{
#if !defined(TM_DOUBLE) && defined(__SSE2__)
#if defined(__AVX512F__)
    const __m256 w = _mm512_castps512_ps256((__m512)v) + _mm512_extractf32x8_ps((__m512)v, 1);
#elif defined(__AVX2__)
    const __m256 w = (__m256)v;
#endif
#if defined(__AVX2__)
    __m128 x = _mm256_castps256_ps128(w) + _mm256_extractf128_ps(w, 1);
#else
    __m128 x = (__m128)v;
#endif
    x = x + _mm_movehl_ps(x, x);
    return _mm_cvtss_f32(x) + _mm_cvtss_f32(_mm_shuffle_ps(x, x, 1));
#else
    tm_real x[TM_LANES] __attribute__((aligned(TM_VEC_BYTES)));
    v_store(x, v);
    for (int half = TM_LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            x[l] += x[l + half];
    return x[0];
#endif
}

#ifdef TM_DOUBLE

TM_INLINE tm_vec v_exp(tm_vec x)
{
    for (int l = 0; l < TM_LANES; l++)
        x[l] = exp(x[l]);
    return x;
}

/* ln(1 + u), u in [0, 1] */
TM_INLINE tm_vec v_log1p(tm_vec u)
{
    for (int l = 0; l < TM_LANES; l++)
        u[l] = log1p(u[l]);
    return u;
}

#else

/* exp(x) = 2^n exp(r), |r| <= ln2 / 2, with the coefficients of Cephes' expf. x is clamped to [-87.33, 88.02], where
 * 2^n is a normal number. Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the mantissa. */
TM_INLINE tm_vec v_exp(tm_vec x)
{
    const tm_vec magic = v_set(12582912.0f);
    x = v_min(v_set(88.02f), v_max(v_set(-87.33f), x));
    tm_vec t = x * 1.44269504088896341f + magic;
    tm_vec n = t - magic;
    tm_vec r = x - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    tm_vec p = v_set(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    tm_ivec scale = ((tm_ivec)t + (127 - 0x4b400000)) << 23;
    return p * (tm_vec)scale;
}

/* ln(1 + u), u in [0, 1]: 2 atanh(z), z = u / (2 + u) <= 1/3, whose series has fallen below 2^-26 after eight terms. */
TM_INLINE tm_vec v_log1p(tm_vec u)
{
    tm_vec z = u / (u + 2.0f);
    tm_vec s = z * z;
    tm_vec p = v_set(1.0f / 15);
    p = p * s + 1.0f / 13;
    p = p * s + 1.0f / 11;
    p = p * s + 1.0f / 9;
    p = p * s + 1.0f / 7;
    p = p * s + 1.0f / 5;
    p = p * s + 1.0f / 3;
    return (z + z) * (p * s + 1.0f);
}

#endif

TM_INLINE tm_vec v_sigmoid(tm_vec x)
{
    return 1 / (1 + v_exp(-x));
}

#endif
