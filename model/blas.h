/* BLAS as this program uses it. */
#ifndef TM_BLAS_H
#define TM_BLAS_H

/* Whoever multiplies matrices calls this first: BLAS stays on the calling thread. Work is parallel above it; a BLAS
 * that forks inside would only cost, and its sums would depend on the number of cores. Any thread, any number of times.
 */
void tm_blas_init(void);

#endif
