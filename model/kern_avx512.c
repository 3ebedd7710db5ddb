/* Kernel set "avx512": primitives for kern_vec.h with AVX-512 F, DQ, BW, VL.
 *
 * The scan spends its time in 64 exponentials a node, so `decay` is its own: 2^t = 2^(k/32) (1 + f c1 + f^2 c2), k =
 * round(32 t), with the 32 powers in two registers, which costs three multiplies less than a polynomial over the whole
 * unit interval. */
#include <immintrin.h>

typedef __m512 vec;
enum { LANES = 16 };
#define PANEL      4
#define KERN_TABLE tm_kern_avx512
#define PRIM       static inline __attribute__((always_inline))

PRIM vec vload(const float *p)
{
    return _mm512_load_ps(p);
}
PRIM void vstore(float *p, vec v)
{
    _mm512_store_ps(p, v);
}
PRIM vec vsplat(float x)
{
    return _mm512_set1_ps(x);
}
#define PAIRS 24
PRIM vec vload2(const float *p)
{
    double d;
    __builtin_memcpy(&d, p, sizeof d);
    return _mm512_castpd_ps(_mm512_set1_pd(d));
}
PRIM vec vpairs(vec a, vec b)
{
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    return _mm512_add_ps(_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b));
}
PRIM vec vadd(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}
PRIM vec vmul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}
PRIM vec vfma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}
PRIM vec vfnma(vec a, vec b, vec c)
{
    return _mm512_fnmadd_ps(a, b, c);
}
PRIM vec vmax(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}
PRIM vec vmin(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}
PRIM vec vabs(vec a)
{
    return _mm512_abs_ps(a);
}
/* 14 bits, then one Newton step: cheaper than a division, and x is never 0 or infinite here. */
PRIM vec vrecip(vec x)
{
    vec r = _mm512_rcp14_ps(x);
    return vmul(r, vfnma(x, r, vsplat(2.0f)));
}
PRIM float vsum(vec v)
{
    return _mm512_reduce_add_ps(v);
}
PRIM vec vpow2(vec p, vec z)
{
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(z), 23)));
}

/* 2^(j/32), j = 0..31 */
static const float powers[32] __attribute__((aligned(64))) = {
    1.0f,        1.0218972f,  1.04427373f, 1.06714046f, 1.09050775f, 1.1143868f,  1.13878858f, 1.1637249f,
    1.18920708f, 1.21524739f, 1.24185777f, 1.26905096f, 1.29683959f, 1.32523668f, 1.35425556f, 1.38390994f,
    1.41421354f, 1.44518077f, 1.47682619f, 1.50916445f, 1.54221082f, 1.5759809f,  1.61049032f, 1.64575553f,
    1.68179286f, 1.71861935f, 1.75625217f, 1.79470909f, 1.8340081f,  1.87416768f, 1.91520655f, 1.95714414f,
};
#define SHIFT 393216.0f /* 1.5 * 2^18: the unit of the last place is 1/32 */
/* z = k/32 + SHIFT, n = k/32, f what is left of the exponent */
PRIM vec power_of(vec z, vec n, vec f)
{
    vec p = vfma(vfma(vsplat(0.2402264974f), f, vsplat(0.6931573298f)), f, vsplat(1.0f));
    vec base = _mm512_permutex2var_ps(_mm512_load_ps(powers), _mm512_castps_si512(z), _mm512_load_ps(powers + 16));
    return vmul(_mm512_scalef_ps(base, n), p); /* scalef: floor(n), and it underflows to 0 by itself */
}
PRIM vec vexp2(vec t)
{
    vec z = vadd(t, vsplat(SHIFT)), n = vadd(z, vsplat(-SHIFT));
    return power_of(z, n, _mm512_sub_ps(t, n));
}
#define EXP2_PRODUCT /* an instruction less than the product first */
PRIM vec vexp2_product(vec a, vec b)
{
    vec z = vfma(a, b, vsplat(SHIFT)), n = vadd(z, vsplat(-SHIFT));
    return power_of(z, n, _mm512_fmsub_ps(a, b, n));
}

#include "model/kern_vec.h"
