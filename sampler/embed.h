/* Embeddings while there is no model: mean of a program's rows and its loop summary, through a fixed random projection.
 * Pure functions, any thread. */
#ifndef TS_EMBED_H
#define TS_EMBED_H

#include "model/dataset.h"

enum { TS_EMBED_DIM = 128 };

/* out[n][TS_EMBED_DIM] of programs idx[0..n) (NULL: 0..n) of d. A candidate joins a dataset as a failure (cost
 * INFINITY). NO_MEMORY. */
int ts_embed_rows(const struct tm_dataset *d, const uint32_t *idx, size_t n, float *out);

#endif
