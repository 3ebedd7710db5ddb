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

struct tm_chunk;
struct tm_tape;

enum tm_rank_loss { TM_RANK_PAIRWISE, TM_RANK_LAMBDA };
/* Learning rate over a training: a cosine from lr to 0 over all epochs; the same over every `period` epochs (Loshchilov
 * and Hutter 2017); lr, after every `period` epochs a tenth of it. */
enum tm_rate { TM_RATE_COSINE, TM_RATE_RESTARTS, TM_RATE_STEPS };

/* What a caller adds to the loss, as distillation does (ckd/). Each function may be NULL. */
struct tm_train_hook {
    void *arg;
    /* Before a batch, on the calling thread. The batch is programs[chunks[i].at ..+ chunks[i].n), chunk by chunk. */
    void (*begin)(void *arg, const uint32_t *programs, const struct tm_chunk *chunks, uint32_t n_chunks);
    /* Of one chunk, on the pool's threads, several at once: t holds the outputs of programs[0..n), a part of what begin
     * was given; y and noise are their labels (tm_loss_pairwise()). Adds to gs, gl and *loss; may write what belongs to
     * this chunk alone. 0 or a negative code. */
    int (*loss)(void *arg, const uint32_t *programs, uint32_t n, const double *y, const double *noise,
                const struct tm_tape *t, float *gs, float *gl, double *loss);
    /* Behind the clipping, on the calling thread: add to grad, given the weights w (both in the layout of the model).
     */
    void (*gradient)(void *arg, const float *w, float *grad);
    /* After each validation, on the calling thread: rank scores of valid[0..n_valid) by the mean weights. */
    void (*valid)(void *arg, const double *score);
};

struct tm_train_opts {
    int epochs;         /* default 12 */
    double max_seconds; /* 0 = no limit. Else the cosine runs over the time left when that ends first, so the schedule
                           is shortened, not cut, and holds one epoch at least, however little time there is; only then
                           do the weights depend on the clock. Checked per batch. */
    uint64_t seed;
    int threads;           /* >= 1 */
    int tasks_per_batch;   /* 4 */
    int programs_per_task; /* 32 */
    enum tm_rank_loss rank;
    double list_weight;    /* 0.3: of tm_loss_list(), mean over the tasks of a batch, beside the ranking loss */
    double list_sharpness; /* 10 */
    double lr;             /* 1.4e-3 */
    enum tm_rate rate;     /* cosine */
    int period;            /* epochs; not looked at by the cosine */
    bool warm; /* false. true: the model knows something already. Its latency bias is moved to the programs' level, not
                  reset, and its weights are validated before the first epoch, so they are what is kept when no epoch
                  ranks better */
    double average;      /* 0.999: what the running mean of the weights keeps of itself at a step; 0 = no mean */
    bool keep_last;      /* false. true: the last epoch is kept whatever the validation says; for small validation sets,
                            which would choose by chance. They calibrate all the same */
    double clip;         /* 1.0: norm of the data gradient */
    double weight_decay; /* 1e-6; not on A_log, D, norms, biases */
    double latency_weight;            /* 0.1 x Huber(ln latency) */
    uint64_t frozen;                  /* 0: bit t = tensor t (enum tm_tensor) keeps its weights */
    const struct tm_train_hook *hook; /* NULL */
};
void tm_train_defaults(struct tm_train_opts *o);
/* Share of lr when `fraction` (0..1) of the training is done. */
double tm_rate_at(enum tm_rate rate, int epochs, int period, double fraction);

struct tm_progress {
    int epoch, epochs; /* the one under way, 1-based, which has trained a batch at least; 0 before the first. Planned */
    int kept;          /* the epoch whose weights are kept so far; 0: those it began with, but for the latency bias */
    double fraction;   /* 0..1 of the whole training */
    double loss;       /* running mean of this epoch */
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

/* Fit m's calibration, with its weights as they are, on programs on[0..n) of ds; the tasks of train[0..n_train) are
 * known to it. What tm_train() ends with. NO_MEMORY, UNUSABLE (shape); then m is as before. */
int tm_train_calibrate(struct tm_model *m, const struct tm_dataset *ds, const uint32_t *train, size_t n_train,
                       const uint32_t *on, size_t n, int threads, struct tp_err *e);

/* Split programs 0..n-1 by task: about `fraction` of the tasks (at least one when there are >= 4 tasks) become
 * validation. With fewer tasks the split is by program and *by_record is set. Writes indices; arrays hold ds->n each.
 */
void tm_split(const struct tm_dataset *ds, double fraction, uint64_t seed, uint32_t *train, size_t *n_train,
              uint32_t *valid, size_t *n_valid, bool *by_record);

#endif
