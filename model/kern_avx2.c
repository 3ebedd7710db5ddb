/* Kernel set "avx2": primitives for kern_vec.h with AVX2 and FMA.
 *
 * `vexp2` as in kern_avx512.c, with 8 powers in the one register that a permute can look up: 2^t = 2^(k/8) p(f),
 * degree 3. The powers are stored with their index taken off the exponent field, so that adding k << 20 gives 2^(k/8)
 * in one go. */
#include <immintrin.h>
#include <stdint.h>

typedef __m256 vec;
enum { LANES = 8 };
#define PANEL      2
#define KERN_TABLE tm_kern_avx2
#define PRIM       static inline __attribute__((always_inline))

PRIM vec vload(const float *p)
{
    return _mm256_load_ps(p);
}
PRIM void vstore(float *p, vec v)
{
    _mm256_store_ps(p, v);
}
PRIM vec vsplat(float x)
{
    return _mm256_set1_ps(x);
}
PRIM vec vadd(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}
PRIM vec vmul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}
PRIM vec vfma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}
PRIM vec vfnma(vec a, vec b, vec c)
{
    return _mm256_fnmadd_ps(a, b, c);
}
PRIM vec vmax(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}
PRIM vec vmin(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}
PRIM vec vabs(vec a)
{
    return _mm256_andnot_ps(vsplat(-0.0f), a);
}
PRIM vec vrecip(vec x)
{
    return _mm256_div_ps(vsplat(1.0f), x);
}
PRIM float vsum(vec v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_shuffle_ps(s, s, 1));
    return _mm_cvtss_f32(s);
}
PRIM vec vpow2(vec p, vec z)
{
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(z), 23)));
}

/* bits of 2^(j/8), less j << 20 */
static const uint32_t powers[8] __attribute__((aligned(32))) = {
    0x3f800000, 0x3f7b95c2, 0x3f7837f0, 0x3f75fed7, 0x3f7504f3, 0x3f75672a, 0x3f7744fd, 0x3f7ac0c7,
};
PRIM vec vexp2(vec t)
{
    const vec magic = vsplat(1572864.0f); /* 1.5 * 2^20: the unit of the last place is 1/8 */
    t = vmax(t, vsplat(-125.0f));
    vec z = vadd(t, magic), f = _mm256_sub_ps(t, _mm256_sub_ps(z, magic));
    vec p = vfma(vfma(vsplat(0.0554962218f), f, vsplat(0.2402576298f)), f, vsplat(0.6931472143f));
    __m256i k = _mm256_castps_si256(z);
    __m256i base = _mm256_permutevar8x32_epi32(_mm256_load_si256((const __m256i *)powers), k);
    return vmul(_mm256_castsi256_ps(_mm256_add_epi32(base, _mm256_slli_epi32(k, 20))), vfma(p, f, vsplat(1.0f)));
}

#include "model/kern_vec.h"
