/* Supervised training of the cost model. Its pieces, which distillation uses too, are in model/grad.h (forward,
 * backward, losses, Adam) and model/shards.h (chunks by task, gradients on several threads).
 *
 * Deterministic: the same seed gives the same weights bit for bit for any `threads` (a batch is cut into a fixed number
 * of shards; gradients are summed in shard order) on one kind of CPU. The caller's thread runs it, workers are its own.
 */
#ifndef TM_TRAIN_H
#define TM_TRAIN_H

#include "model/dataset.h"
#include "model/net.h"

#include <stdbool.h>

enum tm_rank_loss { TM_RANK_PAIRWISE, TM_RANK_LAMBDA };

struct tm_train_opts {
    int epochs;         /* default 12 */
    double max_seconds; /* 0 = no limit. Else the cosine runs over the time left when that ends first, so the schedule
                           is shortened, not cut; only then do the weights depend on the clock. Checked per batch. */
    uint64_t seed;
    int threads;           /* >= 1 */
    int tasks_per_batch;   /* 4 */
    int programs_per_task; /* 32 */
    enum tm_rank_loss rank;
    double list_weight;    /* 0.3: of tm_loss_list(), mean over the tasks of a batch, beside the ranking loss */
    double list_sharpness; /* 10 */
    double lr;             /* 1.4e-3, cosine to 0 over the epochs */
    double average;        /* 0.999: what the running mean of the weights keeps of itself at a step; 0 = no mean */
    double clip;           /* 1.0: norm of the data gradient */
    double weight_decay;   /* 1e-6; not on A_log, D, norms, biases */
    double latency_weight; /* 0.1 x Huber(ln latency) */
};
void tm_train_defaults(struct tm_train_opts *o);

struct tm_progress {
    int epoch, epochs;                 /* 1-based */
    double fraction;                   /* 0..1 of the whole training */
    double loss;                       /* running mean of this epoch */
    double valid_top1, valid_pairwise; /* of the last validation; NaN before the first */
};
/* Called after every batch and every validation, on the calling thread. Non-zero = stop: tm_train returns
 * -TP_E_CANCELLED. */
typedef int (*tm_progress_fn)(void *arg, const struct tm_progress *p);

/* Train m in place on programs train[0..n_train) (indices into ds), validating on valid[0..n_valid) after each epoch.
 * With a validation set the epoch whose mean weights have the best pairwise accuracy is kept and the calibration
 * (calib_a, calib_b, latency_shift, tm_latency_fit()) is fit on it; else the last, fit on the training programs. The
 * head's latency bias starts at the mean ln cost. Labels: y = best cost of the task among `train` / cost; failures y =
 * 0. Tasks with a single program are left out. Works on a private copy: after an error m is as before. Errors:
 * NOT_ENOUGH_DATA (no task with two programs, one of them valid), CANCELLED, NO_MEMORY, FEATURES_MISMATCH, UNUSABLE
 * (options, shape). */
int tm_train(struct tm_model *m, const struct tm_dataset *ds, const uint32_t *train, size_t n_train,
             const uint32_t *valid, size_t n_valid, const struct tm_train_opts *o, tm_progress_fn progress, void *arg,
             struct tp_err *e);

/* Split programs 0..n-1 by task: about `fraction` of the tasks (at least one when there are >= 4 tasks) become
 * validation. With fewer tasks the split is by program and *by_record is set. Writes indices; arrays hold ds->n each.
 */
void tm_split(const struct tm_dataset *ds, double fraction, uint64_t seed, uint32_t *train, size_t *n_train,
              uint32_t *valid, size_t *n_valid, bool *by_record);

#endif
