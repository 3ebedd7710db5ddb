/* Small named changes to the default model, each trained and scored on the same splits: what is each part worth?
 *
 * The variants are lab/ablate.def. A run (one variant, one seed) can be kept in a file and is then not made again. One
 * thread calls everything. */
#ifndef TL_ABLATE_H
#define TL_ABLATE_H

#include "lab/eval.h"
#include "proto/buf.h"

/* What a variant changes. */
struct tl_variant {
    struct tm_hyper hyper;
    struct tm_train_opts train;
    struct tm_mask mask;
};
struct tl_variant_info {
    const char *group, *name, *change;
    void (*apply)(struct tl_variant *v);
};
extern const struct tl_variant_info tl_variants[];
extern const int tl_n_variants;

/* X(field, title, format): figures of a run; the first three are means over test tasks */
#define TL_OUTCOME_FIGURES                                                                                             \
    X(pairwise, "pairwise", "%.4f")                                                                                    \
    X(top1, "top-1", "%.4f")                                                                                           \
    X(top5, "top-5", "%.4f")                                                                                           \
    X(ln_error, "median ln error", "%.3f")                                                                             \
    X(parameters, "parameters", "%.0f")                                                                                \
    X(mib, "MiB", "%.3f")                                                                                              \
    X(cpu_seconds, "training CPU s", "%.0f")                                                                           \
    X(per_second, "programs/s", "%.0f")
enum {
#define X(field, title, format) TL_OUTCOME_##field,
    TL_OUTCOME_FIGURES
#undef X
        TL_OUTCOME_N,
    TL_OUTCOME_BY_TASK = TL_OUTCOME_top5 + 1
};

struct tl_outcome {
    double figure[TL_OUTCOME_N];
    uint32_t n;                          /* test tasks; 0: there is no such run */
    double *by_task[TL_OUTCOME_BY_TASK]; /* [n] each, owned */
};
void tl_outcome_free(struct tl_outcome *r);

/* Train and score variant `variant` on s. o: the options of the default. */
int tl_outcome_make(const struct tl_corpus *c, const struct tl_split *s, const struct tl_eval_opts *o, int variant,
                    struct tl_outcome *r, struct tp_err *e);

/* Kept runs. `settings`: everything that a run depends on beside variant, seed and the code; a run with others is
 * another run, under another name. Of the code nobody knows: a folder belongs to one state of it. */
bool tl_outcome_load(const char *dir, const char *settings, int variant, uint64_t seed, struct tl_outcome *r);
int tl_outcome_save(const char *dir, const char *settings, int variant, uint64_t seed, const struct tl_outcome *r,
                    struct tp_err *e);

/* The runs of an experiment; the default was run with seed 1, the first: run[variant * seeds + seed - 1]. Variants
 * without a run are left out. */
struct tl_ablation {
    const char *settings;
    int seeds;
    struct tl_outcome *run;
};
int tl_ablation_markdown(const struct tl_ablation *a, struct tp_buf *out);
int tl_ablation_json(const struct tl_ablation *a, struct tp_buf *out);
/* Differences in pairwise accuracy with their intervals, as SVG; no file when only the default was run. */
int tl_ablation_plot(const struct tl_ablation *a, const char *path, struct tp_err *e);

#endif
