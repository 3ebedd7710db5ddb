/* The kernel set in use, chosen once per process from the CPU and the environment variable TCLD_SIMD
 * (portable | avx2 | avx512 | neon). A name that is unknown, not built in or not supported by this CPU is ignored and
 * the best set is used. Thread-safe: the first caller decides, later ones read. */
#ifndef TM_SIMD_H
#define TM_SIMD_H

#include <stdbool.h>

enum tm_simd_set { TM_SIMD_PORTABLE, TM_SIMD_AVX2, TM_SIMD_AVX512, TM_SIMD_NEON, TM_SIMD_SETS };

enum tm_simd_set tm_simd_set(void);         /* the choice */
bool tm_simd_supported(enum tm_simd_set s); /* built in, and this CPU can run it */
const char *tm_simd_set_name(enum tm_simd_set s);
const char *tm_simd_name(void);    /* name of the choice (also declared in model/infer.h) */
const char *tm_simd_ignored(void); /* what TCLD_SIMD asked for when that was not followed, else NULL */

#endif
