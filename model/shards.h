/* One optimiser step's work spread over threads: programs grouped by task, cut into chunks, chunks dealt to a fixed
 * number of shards with a gradient buffer each, buffers summed in order. The result is the same bit for bit for any
 * number of threads. Supervised training and distillation differ only in the loss they hand in.
 *
 * Threads: everything here is called from one thread; tm_loss_fn runs on the pool's threads, several at once. */
#ifndef TM_SHARDS_H
#define TM_SHARDS_H

#include "model/grad.h"

enum { TM_SHARDS = 8, TM_PREDICT_CHUNK = 64 };

/* ---- programs by task, with labels ---- */

struct tm_chunk {
    uint32_t at, n; /* programs[at .. at + n), of one task */
};

struct tm_groups {
    uint32_t n;        /* programs kept */
    uint32_t n_groups; /* tasks with at least two programs, one of them valid */
    uint32_t n_chunks;
    uint32_t *start;         /* [n_groups + 1] */
    uint32_t *programs;      /* [n] indices into the dataset, by task; shuffled within a task */
    struct tm_chunk *chunks; /* [n_chunks], shuffled */
    double *y;               /* [ds->n]: best cost of the task among the programs given / cost; 0 = failure */
    double *ln_cost;         /* [ds->n]: INFINITY = failure */
    double mean_ln_cost;     /* of the valid programs kept */
};

/* Group programs[0..n) of ds by task. Tasks with one program, or without a valid one, have nothing to rank and are left
 * out. Chunks hold at most max_chunk (>= 3) programs, of nearly equal size within a task, at least two each.
 * NOT_ENOUGH_DATA when no task is left, NO_MEMORY. */
int tm_groups_init(struct tm_groups *g, const struct tm_dataset *ds, const uint32_t *programs, size_t n,
                   uint32_t max_chunk, struct tp_err *e);
void tm_groups_free(struct tm_groups *g); /* g zeroed or initialised */
/* A new epoch: shuffle programs within tasks, then the chunks. */
void tm_groups_shuffle(struct tm_groups *g, struct tm_rng *rng);

/* ---- gradients and predictions on several threads ---- */

struct tm_shards;
struct tm_shards *tm_shards_new(size_t n_params, int threads); /* n_params: tm_params.n; NULL when out of memory */
void tm_shards_free(struct tm_shards *s);

/* Loss of one chunk: t holds the outputs of programs[0..n) (t->s, t->l); add to gs[0..n), gl[0..n), which come zeroed,
 * and set *loss. 0 or a negative code. Must depend on nothing but its arguments. */
typedef int (*tm_loss_fn)(void *arg, const uint32_t *programs, uint32_t n, const struct tm_tape *t, float *gs,
                          float *gl, double *loss);

/* grad[0..n_params) = gradient of the sum of fn over the chunks (chunks[i].at indexes `programs`); *loss = that sum. */
int tm_shards_grad(struct tm_shards *s, const struct tm_params *p, const struct tm_dataset *ds,
                   const uint32_t *programs, const struct tm_chunk *chunks, uint32_t n_chunks, tm_loss_fn fn, void *arg,
                   float *grad, double *loss);

/* Outputs of programs[0..n): raw rank score and ln latency (either may be NULL). */
int tm_shards_predict(struct tm_shards *s, const struct tm_params *p, const struct tm_dataset *ds,
                      const uint32_t *programs, size_t n, double *score, double *ln_latency);

#endif
