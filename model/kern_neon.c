/* Kernel set "neon": primitives for kern_vec.h with AArch64 Advanced SIMD.
 *
 * `vexp2` is a polynomial of degree 5 on the unit interval: table look-ups work on bytes here and would cost more. */
#include <arm_neon.h>

typedef float32x4_t vec;
enum { LANES = 4 };
#define PANEL      4
#define KERN_TABLE tm_kern_neon
#define PRIM       static inline __attribute__((always_inline))

PRIM vec vload(const float *p)
{
    return vld1q_f32(p);
}
PRIM void vstore(float *p, vec v)
{
    vst1q_f32(p, v);
}
PRIM vec vsplat(float x)
{
    return vdupq_n_f32(x);
}
PRIM vec vadd(vec a, vec b)
{
    return vaddq_f32(a, b);
}
PRIM vec vmul(vec a, vec b)
{
    return vmulq_f32(a, b);
}
PRIM vec vfma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}
PRIM vec vfnma(vec a, vec b, vec c)
{
    return vfmsq_f32(c, a, b);
}
PRIM vec vmax(vec a, vec b)
{
    return vmaxq_f32(a, b);
}
PRIM vec vmin(vec a, vec b)
{
    return vminq_f32(a, b);
}
PRIM vec vabs(vec a)
{
    return vabsq_f32(a);
}
PRIM vec vrecip(vec x)
{
    return vdivq_f32(vsplat(1.0f), x);
}
PRIM float vsum(vec v)
{
    return vaddvq_f32(v);
}
PRIM vec vpow2(vec p, vec z)
{
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), vshlq_n_s32(vreinterpretq_s32_f32(z), 23)));
}

/* 2^t = 2^n (1 + f c1 + ... + f^5 c5), n = round(t); minimax on |f| <= 1/2, relative error 9.2e-8. */
PRIM vec vexp2(vec t)
{
    const vec magic = vsplat(12582912.0f);
    t = vmax(t, vsplat(-125.0f));
    vec z = vadd(t, magic), f = vsubq_f32(t, vsubq_f32(z, magic));
    vec p = vfma(vsplat(0.001326472725f), f, vsplat(0.009671512688f));
    p = vfma(p, f, vsplat(0.05550733744f));
    p = vfma(p, f, vsplat(0.2402224208f));
    p = vfma(p, f, vsplat(0.6931469776f));
    return vpow2(vfma(p, f, vsplat(1.0f)), z);
}

#include "model/kern_vec.h"
