/* Inference: distinct work only. Rows are deduplicated by key; embedding, norm and W_in run once per distinct row;
 * sequences are sorted and walked as a trie so that the recurrent state advances once per distinct prefix; W_out,
 * residual and head run once per distinct program. A program's result does not depend on what else is in the batch, on
 * its order or on the thread: bit for bit.
 *
 * A `tm_plan` is a model prepared for the kernels (transposed, padded); immutable, shared by threads.
 * A `tm_batch` is one worker's arena; it grows to the largest batch seen and then allocates nothing. */
#ifndef TM_INFER_H
#define TM_INFER_H

#include "model/dataset.h"
#include "model/net.h"

struct tm_plan;
/* Copies what it needs. NULL when out of memory, or when the model is wider than model/weights.h allows or not
 * tm_hyper_published(). */
struct tm_plan *tm_plan_new(const struct tm_model *m);
void tm_plan_free(struct tm_plan *p);

struct tm_batch;
enum { TM_BATCH_PROGRAMS = 1 << 20 }; /* of one batch */
struct tm_batch *tm_batch_new(void);
void tm_batch_free(struct tm_batch *b);

/* Start a batch for programs encoded by the plan's feature set. */
int tm_batch_begin(struct tm_batch *b, const struct tm_plan *p);
/* Encode and add one program; returns its index in the batch (0, 1, ...) or -TP_E_x (the batch goes on without it). */
int tm_batch_add(struct tm_batch *b, const struct tp_record *r, const struct tclfeat_hw *hw, struct tp_err *e);
/* Add a program of a dataset (same feature set). */
int tm_batch_add_dataset(struct tm_batch *b, const struct tm_dataset *d, uint32_t program);

/* For benches and tests: share = false does every row, prefix and program by itself, with the same kernels. Default
 * true; before begin. */
void tm_batch_share(struct tm_batch *b, bool share);

/* Run. Arrays of the number of added programs: score = sigmoid(a s + b) in double, clamped to [1e-6, 1 - 1e-6];
 * latency = exp(l + shift) seconds, positive and finite; raw s (may be NULL). */
int tm_batch_run(struct tm_batch *b, double *score, double *latency, double *raw);

/* With keep on (default off; before begin), a run also keeps what the head saw. Of program i of the last run, valid
 * until the next begin: the pooled vector behind the final norm [d_model], and the input of the last layer [head2].
 * Scores are the same to the bit either way. */
void tm_batch_keep(struct tm_batch *b, bool keep);
const float *tm_batch_pooled(const struct tm_batch *b, size_t i);
const float *tm_batch_hidden(const struct tm_batch *b, size_t i);

/* What the last run shared, for metrics and benches. */
struct tm_batch_stats {
    uint64_t programs, rows, distinct_rows, distinct_prefixes, distinct_programs;
};
void tm_batch_stats(const struct tm_batch *b, struct tm_batch_stats *s);

/* The kernel set in use: "portable", "avx2", "avx512", "neon". Chosen once at the first call from the CPU and
 * TCLD_SIMD. */
const char *tm_simd_name(void);

/* Convenience for evaluation: predict programs idx[0..n) of a dataset in batches. */
int tm_predict_dataset(const struct tm_model *m, const struct tm_dataset *d, const uint32_t *idx, size_t n,
                       double *score, double *latency, double *raw);
/* The same for selection: pooled[n][d_model], hidden[n][head2], raw[n]; each may be NULL. */
int tm_embed_dataset(const struct tm_model *m, const struct tm_dataset *d, const uint32_t *idx, size_t n, float *pooled,
                     float *hidden, double *raw);

#endif
