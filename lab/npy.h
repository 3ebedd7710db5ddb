/* One-dimensional NumPy files of scores, so that models of other software can be compared. */
#ifndef TL_NPY_H
#define TL_NPY_H

#include "proto/err.h"

#include <stddef.h>

/* *v: owned by the caller (free()), *n numbers. Little-endian fp64 or fp32 of shape (n,). IO, or UNUSABLE for another
 * type or shape. After an error both are untouched. */
int tl_npy_read(const char *path, double **v, size_t *n, struct tp_err *e);

#endif
