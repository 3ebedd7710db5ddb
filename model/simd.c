/* Choice of the kernel set. pthread_once guards the three file-local values below; after it they are constant.
 * avx512 means the Skylake-X subset (F, DQ, BW, VL), as the Makefile compiles it; both AVX sets need FMA and BMI2. */
#include "model/simd.h"

#include "model/ops.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[TM_SIMD_SETS] = {
    [TM_SIMD_PORTABLE] = "portable",
    [TM_SIMD_AVX2] = "avx2",
    [TM_SIMD_AVX512] = "avx512",
    [TM_SIMD_NEON] = "neon",
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum tm_simd_set chosen;
static char ignored[32];

bool tm_simd_supported(enum tm_simd_set s)
{
    switch (s) {
    case TM_SIMD_PORTABLE:
        return true;
#if defined(__x86_64__)
    case TM_SIMD_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    case TM_SIMD_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               tm_simd_supported(TM_SIMD_AVX2);
#elif defined(__aarch64__)
    case TM_SIMD_NEON:
        return true;
#endif
    default:
        return false;
    }
}

static void choose(void)
{
    static const enum tm_simd_set best_first[] = {TM_SIMD_AVX512, TM_SIMD_AVX2, TM_SIMD_NEON, TM_SIMD_PORTABLE};
    const char *want = getenv("TCLD_SIMD");
    size_t i = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
#endif
    while (!tm_simd_supported(best_first[i]))
        i++;
    chosen = best_first[i];
    if (!want || !*want)
        return;
    for (int s = 0; s < TM_SIMD_SETS; s++) {
        if (strcmp(want, names[s]) == 0 && tm_simd_supported((enum tm_simd_set)s)) {
            chosen = (enum tm_simd_set)s;
            return;
        }
    }
    strncpy(ignored, want, sizeof ignored - 1);
}

enum tm_simd_set tm_simd_set(void)
{
    pthread_once(&once, choose);
    return chosen;
}

const char *tm_simd_set_name(enum tm_simd_set s)
{
    return names[s];
}

const char *tm_simd_name(void)
{
    return names[tm_simd_set()];
}

const char *tm_simd_ignored(void)
{
    pthread_once(&once, choose);
    return ignored[0] ? ignored : NULL;
}

extern const struct tm_ops tm_ops_table_portable;
#if defined(__x86_64__)
extern const struct tm_ops tm_ops_table_avx2, tm_ops_table_avx512;
#elif defined(__aarch64__)
extern const struct tm_ops tm_ops_table_neon;
#endif

const struct tm_ops *tm_ops_get(enum tm_simd_set s)
{
    if (!tm_simd_supported(s))
        return NULL;
    switch (s) {
#if defined(__x86_64__)
    case TM_SIMD_AVX2:
        return &tm_ops_table_avx2;
    case TM_SIMD_AVX512:
        return &tm_ops_table_avx512;
#elif defined(__aarch64__)
    case TM_SIMD_NEON:
        return &tm_ops_table_neon;
#endif
    default:
        return &tm_ops_table_portable;
    }
}
