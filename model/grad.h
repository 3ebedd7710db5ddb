/* The trainable network: forward and backward on a list of programs, losses, Adam. What supervised training,
 * distillation and Fisher information are made of. Formulas: docs/model.md section 2; the backward pass is derived by
 * hand.
 *
 * Built twice, for float and (with -DTM_DOUBLE, names ending in _d) for double; the latter only checks the former.
 * Gradients and moments have the layout of the weights (tm_layout), padding zero. Everything is deterministic: a
 * program's outputs and gradients depend on the list it is in, not on the thread. Losses and their sums are in double.
 *
 * Threads: tm_params is shared while nobody refreshes it; a tm_tape belongs to one thread at a time. */
#ifndef TM_GRAD_H
#define TM_GRAD_H

#include "model/dataset.h"
#include "model/net.h"
#include "model/ops.h"
#include "model/real.h"

#ifdef TM_DOUBLE
#define tm_params         TM_NAME(tm_params)
#define tm_params_init    TM_NAME(tm_params_init)
#define tm_params_refresh TM_NAME(tm_params_refresh)
#define tm_params_free    TM_NAME(tm_params_free)
#define tm_tape           TM_NAME(tm_tape)
#define tm_tape_new       TM_NAME(tm_tape_new)
#define tm_tape_free      TM_NAME(tm_tape_free)
#define tm_forward        TM_NAME(tm_forward)
#define tm_backward       TM_NAME(tm_backward)
#define tm_loss_pairwise  TM_NAME(tm_loss_pairwise)
#define tm_loss_lambda    TM_NAME(tm_loss_lambda)
#define tm_loss_list      TM_NAME(tm_loss_list)
#define tm_loss_huber     TM_NAME(tm_loss_huber)
#define tm_pair_weight    TM_NAME(tm_pair_weight)
#define tm_grad_norm      TM_NAME(tm_grad_norm)
#define tm_grad_clip      TM_NAME(tm_grad_clip)
#define tm_adam           TM_NAME(tm_adam)
#define tm_adam_init      TM_NAME(tm_adam_init)
#define tm_adam_free      TM_NAME(tm_adam_free)
#define tm_adam_step      TM_NAME(tm_adam_step)
#endif

/* ---- weights as the passes read them ---- */

struct tm_params {
    struct tm_hyper h;
    struct tm_shape shape[TM_TENSORS];
    size_t n;         /* reals in w */
    const tm_real *w; /* borrowed, aligned to 64 bytes */
    /* of each block */
    tm_real *a[TM_MAX_BLOCKS];    /* [d_state][d_model]: -exp(A_log), transposed */
    tm_real *conv[TM_MAX_BLOCKS]; /* [d_conv][d_model]: conv1d.weight, transposed */
    const struct tm_ops *ops;     /* kernels; the set in use, tests may put another */
};

/* w must outlive p. UNUSABLE when h is outside what training supports (d_model and summary_width multiples of
 * TM_CHANNEL_UNIT, d_state and d_conv within TM_MAX_x, everything positive, summary may be 0), NO_MEMORY. */
int tm_params_init(struct tm_params *p, const struct tm_hyper *h, const tm_real *w, struct tp_err *e);
void tm_params_refresh(struct tm_params *p); /* after every change of w */
void tm_params_free(struct tm_params *p);    /* p zeroed or initialised */

/* ---- forward and backward ---- */

/* One worker's activations. Grows to the largest list seen, then allocates nothing. The public part is the result of
 * the last tm_forward(), valid until the next. */
struct tm_tape {
    uint32_t n;
    const tm_real *s, *l;  /* [n]: rank score, ln latency */
    const tm_real *pooled; /* [n] rows, ld_pooled apart, of d_model: the embedding of a program, after the final norm */
    size_t ld_pooled;
    const tm_real *features; /* [n][head2]: what the last layer sees */
    struct tm_tape_mem *mem; /* private */
};
struct tm_tape *tm_tape_new(void); /* NULL when out of memory */
void tm_tape_free(struct tm_tape *t);

/* Run programs[0..n) of ds (indices, any tasks, repeats allowed). ds must have p's columns. 0 or -TP_E_NO_MEMORY. */
int tm_forward(const struct tm_params *p, struct tm_tape *t, const struct tm_dataset *ds, const uint32_t *programs,
               uint32_t n);
/* grad[p->n] += d loss / d w, given d loss / d s and d loss / d l (NULL = zero) of the programs of the last
 * tm_forward(p, t). */
void tm_backward(const struct tm_params *p, struct tm_tape *t, const tm_real *gs, const tm_real *gl, tm_real *grad);

/* ---- losses: of n programs of one task, times `scale`; gradients are added to gs, gl ---- */

/* noise[n]: standard deviation of each program's ln label, 0 = exact; NULL: all exact. A pair counts as far as its
 * order is more than chance: w_ij = |y_i - y_j| erf(|ln(y_i / y_j)| / sqrt(2 (noise_i^2 + noise_j^2))), which is
 * |y_i - y_j| (2 P - 1) with P the probability of the order seen (docs/model.md section 4). A failure (y = 0) is sure.
 * tm_pair_weight: the sum of w over pairs, what the loss is divided by. */
double tm_pair_weight(const double *y, const double *noise, uint32_t n);
/* Sum over pairs with y_i > y_j of w_ij ln(1 + exp(s_j - s_i)). */
double tm_loss_pairwise(const tm_real *s, const double *y, const double *noise, uint32_t n, double scale, tm_real *gs);
/* LambdaRank as TLP's LambdaRankLoss: the logistic loss of a pair in bits, weighted by the change of NDCG that swapping
 * the two would make (gains 2^y - 1, ranks by the present s; the weight is a constant to the gradient). 0 or
 * -TP_E_NO_MEMORY. */
int tm_loss_lambda(const tm_real *s, const double *y, uint32_t n, double scale, tm_real *gs, double *loss);
/* Cross entropy between softmax(s) and softmax(sharpness y): which program is the fastest? 0 for n = 1. */
double tm_loss_list(const tm_real *s, const double *y, double sharpness, uint32_t n, double scale, tm_real *gs);
/* Sum of Huber(l - target), delta 1; targets that are not finite are left out. */
double tm_loss_huber(const tm_real *l, const double *target, uint32_t n, double scale, tm_real *gl);

/* ---- optimiser ---- */

double tm_grad_norm(const tm_real *grad, size_t n);
/* Scale grad so that its norm is at most `max` (0 = no limit); returns the norm before. As torch's clip_grad_norm_. */
double tm_grad_clip(tm_real *grad, size_t n, double max);

/* Adam with torch's defaults (0.9, 0.999, 1e-8) and L2 weight decay on the tensors that tm_tensor_decays(). */
struct tm_adam {
    size_t n;
    uint64_t steps;
    tm_real *m, *v;
};
int tm_adam_init(struct tm_adam *a, size_t n); /* 0 or -TP_E_NO_MEMORY */
void tm_adam_free(struct tm_adam *a);
/* w is p->w, writable; call tm_params_refresh(p) afterwards. */
void tm_adam_step(struct tm_adam *a, const struct tm_params *p, tm_real *w, const tm_real *grad, double lr,
                  double weight_decay);

#endif
