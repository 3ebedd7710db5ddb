/* Gradient clipping and Adam (Kingma and Ba 2015), step by step as PyTorch's. One owner. */
#include "model/grad.h"

#include "model/mem.h"

#include <math.h>

double tm_grad_norm(const tm_real *grad, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)grad[i] * (double)grad[i];
    return sqrt(sum);
}

double tm_grad_clip(tm_real *grad, size_t n, double max)
{
    double norm = tm_grad_norm(grad, n);
    double scale = max / (norm + 1e-6);
    if (max > 0 && scale < 1)
        for (size_t i = 0; i < n; i++)
            grad[i] *= (tm_real)scale;
    return norm;
}

int tm_adam_init(struct tm_adam *a, size_t n)
{
    struct tm_adam new = {.n = n, .m = tm_alloc(n, sizeof *new.m), .v = tm_alloc(n, sizeof *new.v)};
    if (!new.m || !new.v) {
        tm_adam_free(&new);
        return -TP_E_NO_MEMORY;
    }
    *a = new;
    return 0;
}

void tm_adam_free(struct tm_adam *a)
{
    if (!a)
        return;
    free(a->m);
    free(a->v);
    a->m = a->v = NULL;
}

void tm_adam_step(struct tm_adam *a, const struct tm_params *p, tm_real *w, const tm_real *grad, double lr,
                  double weight_decay)
{
    const double beta1 = 0.9, beta2 = 0.999;
    a->steps++;
    struct tm_adam_args args = {
        .beta1 = (tm_real)beta1,
        .beta2 = (tm_real)beta2,
        .rest1 = (tm_real)(1 - beta1),
        .rest2 = (tm_real)(1 - beta2),
        .step = (tm_real)(lr / (1 - pow(beta1, (double)a->steps))),
        .inv_bias2 = (tm_real)(1 / sqrt(1 - pow(beta2, (double)a->steps))),
        .eps = (tm_real)1e-8,
    };
    for (int t = 0; t < TM_TENSORS; t++) {
        size_t at = p->shape[t].offset;
        args.weight_decay = tm_tensor_decays((enum tm_tensor)t) ? (tm_real)weight_decay : 0;
        p->ops->adam(&args, w + at, grad + at, a->m + at, a->v + at, p->shape[t].size);
    }
}
