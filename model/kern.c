/* Which kernel table belongs to a set (the choice itself is made in simd.c), and how its matrices are packed. Pure, any
 * thread. */
#include "model/kern.h"

size_t tm_linear_size(const struct tm_kern *k, struct tm_linear *l)
{
    l->out_padded = (l->out + k->lanes - 1) / k->lanes * k->lanes;
    l->pairs = l->out == k->pairs && l->in % 2 == 0;
    return (size_t)(l->pairs ? l->out : l->out_padded) * (size_t)l->in;
}

void tm_linear_pack(const struct tm_kern *k, const struct tm_linear *l, const float *weight, float *w)
{
    const size_t in = (size_t)l->in, out = (size_t)l->out;
    for (size_t i = 0; i < in && l->pairs; i++)
        for (size_t o = 0; o < out; o++)
            w[(i / 2 * out + o) * 2 + i % 2] = weight[o * in + i];
    for (int at = 0; at < l->out_padded && !l->pairs; at += k->panel) {
        const int width = l->out_padded - at < k->panel ? l->out_padded - at : k->panel;
        for (size_t i = 0; i < in; i++)
            for (int j = 0; j < width; j++)
                *w++ = at + j < l->out ? weight[(size_t)(at + j) * in + i] : 0.0f;
    }
}

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
