/* `lab ckd`: what a hardware gets from what other hardware knows, and what those lose by teaching. For each transfer,
 * share of the target's data, method and seed: train, score on test tasks of the target and of every older hardware.
 *
 * Tasks that any hardware of a transfer tests are trained on by none of them. A cell is a function of transfer, hop,
 * method, budget, seed and settings; finished cells, and the models that others begin with, are kept in files. */
#ifndef TL_CKD_H
#define TL_CKD_H

#include "ckd/adapt.h"
#include "lab/score.h"
#include "lab/split.h"

enum {
    TL_CKD_NAME = 32,
    TL_CKD_HARDWARE = 8, /* of a transfer */
    TL_CKD_HOPS = 6,
    TL_CKD_TRANSFERS = 24,
    TL_CKD_BUDGETS = 8,
    TL_CKD_SEEDS = 16,
    TL_CKD_FOLDS = 20
};

/* "v100+k80>mi50": sources, then targets one after another. */
struct tl_ckd_transfer {
    char name[4 * TL_CKD_NAME];
    char hardware[TL_CKD_HARDWARE][TL_CKD_NAME]; /* sources first */
    uint32_t n_sources, n;                       /* hops = n - n_sources */
};
int tl_ckd_transfer_parse(const char *text, struct tl_ckd_transfer *t, struct tp_err *e);

/* X(ID, "name", what) */
#define TL_CKD_METHODS(X)                                                                                              \
    X(ZERO, "zero-shot", "the sources' knowledge base, untouched")                                                     \
    X(SCRATCH, "scratch", "the target's programs alone")                                                               \
    X(COLD, "cold start", "the same, from initial weights that are meta-learned on the sources; ckd may use them")     \
    X(TUNE, "fine-tune", "from the knowledge base's weights, no teacher")                                              \
    X(MTL, "multi-task", "sources and target together, a head for each")                                               \
    X(CKD, "ckd", "gate, CL phase, champion, KD phase")                                                                \
    X(NO_EWC, "ckd without EWC", "the same, lambda 0, every candidate accepted")                                       \
    X(PLAIN, "plain, random", "ablation: rows summed without Mamba, random choice, scratch")                           \
    X(PLAIN_RDU, "plain, RDU", "ablation: chosen by the sampler")                                                      \
    X(PLAIN_CKD, "plain, CKD", "ablation: distilled from a knowledge base without Mamba")                              \
    X(ALL, "all", "ablation: Mamba, RDU and CKD")
enum tl_ckd_method {
#define X(id, name, what) TL_CKD_##id,
    TL_CKD_METHODS(X)
#undef X
        TL_CKD_METHOD_COUNT
};
const char *tl_ckd_method_name(enum tl_ckd_method m);

struct tl_ckd_opts {
    const char *data; /* folder: public/NAME or own/NAME are logs, splits/NAME.test.txt keys */
    struct tl_ckd_transfer transfer[TL_CKD_TRANSFERS];
    uint32_t n_transfers;
    double budget[TL_CKD_BUDGETS]; /* (0, 1], ascending; 1 is always run from scratch */
    uint32_t n_budgets;
    const char *methods; /* comma-separated names; NULL: all but the ablation */
    uint32_t seeds;
    uint32_t per_task; /* programs of a training task */
    double tune;       /* > 0: instead of the test tasks, so large a share of the training tasks is tested */
    uint32_t folds; /* > 0: instead, every task is tested in one of so many runs of each seed; every training task with
                       tune > 0, which says nothing more then */
    struct tk_learn_opts source, scratch, fine, cl, kd; /* train.seed and threads are set by the run */
    struct tk_meta_opts meta;                           /* of the cold start */
    int threads;
    const char *cache; /* NULL, or a folder of finished cells and models */
    bool quiet;
};
bool tl_ckd_wants(const struct tl_ckd_opts *o, enum tl_ckd_method m);

/* ---- data ---- */

struct tl_ckd_hardware {
    char name[TL_CKD_NAME];
    enum tp_target_kind kind;
    struct tl_corpus *corpus;
    struct tl_split split; /* train: the pool, test: its own test tasks */
};
struct tl_ckd_data {
    const struct tl_ckd_transfer *transfer;
    struct tl_ckd_hardware hw[TL_CKD_HARDWARE];
    uint64_t digest;
};
/* fold: 0, or below o->folds: which of them is tested. */
int tl_ckd_data_read(const struct tl_ckd_opts *o, const struct tl_ckd_transfer *t, uint32_t fold, struct tl_ckd_data *d,
                     struct tp_err *e);
void tl_ckd_data_free(struct tl_ckd_data *d);
/* Of each task of the pool the share `budget`, rounded, at least two: the first by a draw of `seed`. out[n_train]. */
int tl_ckd_sample(const struct tl_ckd_hardware *h, double budget, uint64_t seed, uint32_t *out, size_t *n,
                  struct tp_err *e);

/* ---- cells ---- */

/* Of one hardware's test tasks; owned. */
struct tl_ckd_scores {
    uint32_t n;
    double *pairwise, *top1, *top5;
};
enum { TL_CKD_AC, TL_CKD_KB, TL_CKD_ROLES };
struct tl_ckd_cell {
    bool done;
    /* by hardware of the transfer, up to the hop's target; of the model that serves the target, and of the knowledge
     * base after the hop (n = 0: there is none of its own) */
    struct tl_ckd_scores score[TL_CKD_ROLES][TL_CKD_HARDWARE];
    double programs, seconds, bytes; /* of the target; CPU; model bytes for the added hardware */
    /* of ckd; NaN else */
    double gate, gate_mean, gate_lower, phi_cl, phi_kd, activated, accepted, attempts, from_start;
    double rival; /* that won (enum tk_rival); NaN: there was no contest */
    double peer;  /* index of the hardware whose AC was begun with; NaN: it was the knowledge base, or nobody */
};
void tl_ckd_cell_free(struct tl_ckd_cell *c);
int tl_ckd_cell_read(const char *path, const char *settings, struct tl_ckd_cell *c);
int tl_ckd_cell_write(const char *path, const char *settings, const struct tl_ckd_cell *c, struct tp_err *e);

struct tl_ckd_results {
    const struct tl_ckd_opts *o;
    /* [transfer][hop][method][budget][run]; methods without a budget stand at 0, scratch on everything at n_budgets */
    struct tl_ckd_cell *cell;
};
/* A run is a seed, or a fold of one: the folds of a seed (1: there are none) stand together. */
uint32_t tl_ckd_folds(const struct tl_ckd_opts *o);
uint32_t tl_ckd_runs(const struct tl_ckd_opts *o);
struct tl_ckd_cell *tl_ckd_at(const struct tl_ckd_results *r, uint32_t transfer, uint32_t hop, enum tl_ckd_method m,
                              uint32_t budget, uint32_t run);
int tl_ckd_run(const struct tl_ckd_opts *o, struct tl_ckd_results *r, struct tp_err *e);
void tl_ckd_results_free(struct tl_ckd_results *r);

/* One network for several kinds of hardware, with a head for each (MTL-TLP, ASPLOS'23): everything before head.0 is
 * shared. sets[0..n): programs; out[0..n): the models, equal but for their heads. */
int tl_ckd_multi_task(const struct tk_set *sets, uint32_t n, const struct tk_learn_opts *o, const struct tk_run *run,
                      struct tm_model **out, struct tp_err *e);

/* ---- report ---- */
int tl_ckd_markdown(const struct tl_ckd_results *r, struct tp_buf *b);
int tl_ckd_json(const struct tl_ckd_results *r, struct tp_buf *b);
/* DIR/ckd-pairwise.svg, one plot of differences at the budget nearest to 10 %, and DIR/ckd-forgetting.svg */
int tl_ckd_draw(const struct tl_ckd_results *r, const char *dir, struct tp_err *e);

#endif
