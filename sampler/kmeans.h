/* Cells of a pool: k-means++ on a sample, mini-batches (Sculley, WWW'10) in pools above TS_BATCH_POOL, then passes over
 * the whole pool (Lloyd), whose objective never rises. Deterministic by seed for any number of threads. */
#ifndef TS_KMEANS_H
#define TS_KMEANS_H

#include "sampler/view.h"

enum { TS_MIN_CELLS = 8, TS_MAX_CELLS = 1024, TS_BATCH_POOL = 1 << 16, TS_MAX_PASSES = 12 };

struct ts_cells {
    uint32_t k;
    float *centre;   /* [k][view.dim] */
    uint32_t *cell;  /* [n] its nearest centre, the first of equals */
    float *distance; /* [n] squared, to that */
    uint32_t *start; /* [k + 1] */
    uint32_t *order; /* [n] programs by cell, then by index: order[start[c]..start[c + 1]) are of cell c */
    int n_passes;
    double objective[TS_MAX_PASSES]; /* mean squared distance after each pass */
};

/* clamp(ceil(sqrt(n)), 8, 1024), but never more than n */
uint32_t ts_cell_count(size_t n);

/* n > 0, 1 <= k <= n. Cells may stay empty when there are fewer distinct rows. Reports progress as `phase` from
 * `from` to `to`. c is to be released with ts_cells_free() in any case. NO_MEMORY, CANCELLED. */
int ts_kmeans(struct ts_cells *c, const struct ts_view *v, uint32_t k, uint64_t seed, struct ts_run *run, double from,
              double to);
void ts_cells_free(struct ts_cells *c);

#endif
