/* The variants and a run of one. */
#include "lab/ablate.h"

#include <stdlib.h>
#include <string.h>

#define B(column)      TCLFEAT_BIT(column)
#define COLUMNS(which) v->mask.columns.columns = (which)
/* what a step row knows from the loops before it, not from its own operands */
#define REPLAYED                                                                                                       \
    (B(STEP_EXTENT) | B(STEP_PARTS) | B(STEP_OUTER) | B(STEP_INNER) | B(STEP_MOVED) | B(STEP_INSIDE) |                 \
     B(STEP_PADDING) | B(STEP_UNKNOWN) | B(STEP_EXTENT_DIVISIBLE) | B(STEP_EXTENT_ONE) | B(STEP_INNERMOST_DIVISIBLE) | \
     B(STEP_INNERMOST_ONE))

#define PASTE2(a, b) a##b
#define PASTE(a, b)  PASTE2(a, b)
#define X(group, name, change)                                                                                         \
    static void PASTE(apply_, __LINE__)(struct tl_variant * v)                                                         \
    {                                                                                                                  \
        change;                                                                                                        \
    }
#include "lab/ablate.def"
#undef X

const struct tl_variant_info tl_variants[] = {
#define X(group, name, change) {(group), (name), #change, PASTE(apply_, __LINE__)},
#include "lab/ablate.def"
#undef X
};
const int tl_n_variants = sizeof tl_variants / sizeof *tl_variants;

void tl_outcome_free(struct tl_outcome *r)
{
    for (int i = 0; i < TL_OUTCOME_BY_TASK; i++)
        free(r->by_task[i]);
    *r = (struct tl_outcome){0};
}

/* Takes the figures of the tasks out of the result. */
static void take(struct tl_outcome *r, struct tl_eval_result *from)
{
    const double mib = (double)from->parameters * sizeof(float) / (1 << 20);
    *r = (struct tl_outcome){
        .figure = {[TL_OUTCOME_pairwise] = from->score.by_min.pairwise,
                   [TL_OUTCOME_top1] = from->score.by_min.top1_mean,
                   [TL_OUTCOME_top5] = from->score.by_min.top5_mean,
                   [TL_OUTCOME_ln_error] = from->score.by_min.latency_median_ln_error,
                   [TL_OUTCOME_parameters] = (double)from->parameters,
                   [TL_OUTCOME_mib] = mib,
                   [TL_OUTCOME_cpu_seconds] = from->train_cpu_seconds,
                   [TL_OUTCOME_per_second] = from->predict_per_second},
        .n = from->score.n,
        .by_task = {[TL_OUTCOME_pairwise] = from->score.pairwise,
                    [TL_OUTCOME_top1] = from->score.top1,
                    [TL_OUTCOME_top5] = from->score.top5},
    };
    from->score.pairwise = from->score.top1 = from->score.top5 = NULL;
}

int tl_outcome_make(const struct tl_corpus *c, const struct tl_split *s, const struct tl_eval_opts *o, int variant,
                    struct tl_outcome *r, struct tp_err *e)
{
    struct tl_variant v = {.hyper = tm_hyper_default(s->d->features), .train = o->train};
    struct tl_eval_opts own = *o;
    struct tl_split masked = *s;
    struct tl_eval_result result;
    tl_variants[variant].apply(&v);
    v.mask.summary = v.hyper.summary == 0;
    own.hyper = &v.hyper;
    own.train = v.train;
    masked.d = tm_dataset_masked(s->d, &v.mask);
    if (!masked.d)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for a copy of %u programs", s->d->n);
    int rc = tl_eval_split(c, &masked, &own, &result, e);
    if (rc == 0) {
        take(r, &result);
        tl_eval_free(&result);
    }
    tm_dataset_free(masked.d);
    return rc;
}
