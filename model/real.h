/* The scalar type of training code: float, or double when built with -DTM_DOUBLE (the gradient check). */
#ifndef TM_REAL_H
#define TM_REAL_H

#ifdef TM_DOUBLE
typedef double tm_real;
#define TM_GEMM    cblas_dgemm
#define TM_NAME(n) n##_d
#define TM_SQRT    sqrt
#define TM_EXP     exp
#else
typedef float tm_real;
#define TM_GEMM    cblas_sgemm
#define TM_NAME(n) n
#define TM_SQRT    sqrtf
#define TM_EXP     expf
#endif

#endif
