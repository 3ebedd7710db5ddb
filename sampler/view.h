/* A pool as the sampler sees it: rows standardised column by column (mean 0, variance 1 over the pool) and padded for
 * the kernels; what is not finite is 0. Rows are made on demand, so the pool itself stays as it is and no second copy
 * of it exists. Immutable once made; shared by threads. Also here: what a run carries along. */
#ifndef TS_VIEW_H
#define TS_VIEW_H

#include "model/ops.h"
#include "model/pool.h"
#include "sampler/select.h"

struct ts_view {
    const struct ts_pool *pool;
    const struct tm_ops *ops;
    size_t dim;                           /* of a row: pool.dim padded to TM_CHANNEL_UNIT; 0 = no embedding */
    size_t features;                      /* likewise of a feature; 0 = none */
    float mean[TS_MAX_DIM];               /* 0 behind pool.dim, so is scale */
    float scale[TS_MAX_DIM];              /* 1 / standard deviation; 0 for a column that is constant up to rounding */
    float feature_scale[TS_MAX_FEATURES]; /* all the same: 1 / root mean square over all features */
};

/* Workers, progress and cancellation of one ts_select(). */
struct ts_run {
    struct tm_pool *workers;
    ts_progress_fn progress; /* may be NULL */
    void *arg;
    double done; /* largest fraction reported */
};

/* 0 or -TP_E_NO_MEMORY */
int ts_view_init(struct ts_view *v, const struct ts_pool *p, struct tm_pool *workers);
/* Row i to out[v->dim], feature i to out[v->features]; aligned to 64 bytes. */
void ts_view_row(const struct ts_view *v, size_t i, float *out);
void ts_view_feature(const struct ts_view *v, size_t i, float *out);

/* Report; -TP_E_CANCELLED when the caller wants to stop. Calling thread only. */
int ts_tick(struct ts_run *r, const char *phase, double fraction);

#endif
