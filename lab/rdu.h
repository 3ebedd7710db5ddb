/* `lab rdu`: how much a model learns from the programs that a sampler chose. For each budget, method and seed: choose
 * among the programs of the training tasks in rounds, train from scratch on the chosen, score on the test tasks.
 *
 * The split is one and the same (seed 1); the seed of a cell is that of its choice, its weights and its training. */
#ifndef TL_RDU_H
#define TL_RDU_H

#include "lab/score.h"
#include "lab/split.h"
#include "model/train.h"
#include "sampler/select.h"

enum { TL_RDU_BUDGETS = 16, TL_RDU_METHODS = 32, TL_RDU_SEEDS = 32, TL_RDU_NAME = 64 };

struct tl_rdu_method {
    char name[TL_RDU_NAME];
    struct ts_opts select; /* budget, seed and rounds are the cell's */
    int rounds;            /* parts of the budget; between them a model is trained on what is chosen so far */
    bool rows;             /* embeddings by ts_embed_rows() in every round: no model between rounds */
};
/* METHOD[:KEY=VALUE|:sum|:product|:rows]..., keys r, d, u, f (weights), floor (task_floor), cells (by_cell: 0, 1), cap,
 * rounds, alpha, noise. */
int tl_rdu_method_parse(const char *text, struct tl_rdu_method *m, struct tp_err *e);

struct tl_rdu_opts {
    struct tl_split_opts split;    /* seed and valid_fraction are set by the run */
    struct tm_train_opts train;    /* epochs: at least so many */
    uint32_t steps;                /* of the optimiser, at least so many in every training */
    double tune;                   /* > 0: score on so large a share of the training tasks instead of the test tasks */
    double budget[TL_RDU_BUDGETS]; /* (0, 1], ascending */
    uint32_t n_budgets;
    struct tl_rdu_method method[TL_RDU_METHODS];
    uint32_t n_methods;
    uint32_t seeds;
    const char *cache; /* NULL, or a folder of finished cells */
    bool quiet;
};

/* One budget, method and seed. */
struct tl_rdu_cell {
    uint32_t n;                     /* test tasks, in the order of the split */
    double *top1, *top5, *pairwise; /* [n], owned; NaN where undefined */
    uint32_t chosen, epochs;        /* programs; of the last training */
    uint64_t steps;
    double select_seconds, train_seconds; /* CPU; of all rounds */
    double select_bytes;                  /* most that a round of the choice added to the process */
};

struct tl_rdu {
    const struct tl_rdu_opts *o;
    uint32_t pool, tasks, test_tasks, test_programs;
    uint64_t data; /* digest of the split: a kept cell is of the same programs and costs */
    /* [method][budget][seed]; with all programs chosen every method is the same, and so are the cells */
    struct tl_rdu_cell cell[TL_RDU_METHODS][TL_RDU_BUDGETS][TL_RDU_SEEDS];
};

/* r->o stays borrowed. r: large, zeroed; to be released with tl_rdu_free(), also after an error. */
int tl_rdu_run(const struct tl_corpus *c, char *const *test_keys, size_t n_keys, const struct tl_rdu_opts *o,
               struct tl_rdu *r, struct tp_err *e);
void tl_rdu_free(struct tl_rdu *r);

/* Finished cells as files, read only when they were made with the same settings. path: of the file. 1 read, 0 there is
 * none, or -TP_E_x. */
int tl_rdu_cell_read(const char *path, const char *settings, struct tl_rdu_cell *c);
int tl_rdu_cell_write(const char *path, const char *settings, const struct tl_rdu_cell *c, struct tp_err *e);
void tl_rdu_cell_free(struct tl_rdu_cell *c);

/* ---- report ---- */
enum { TL_RDU_FIELDS = 3 }; /* pairwise, top-1, top-5 */
struct tl_rdu_figures {
    double mean[TL_RDU_FIELDS];                 /* over tasks and seeds */
    double less_random[TL_RDU_FIELDS];          /* less that of random at the same budget */
    struct tm_interval interval[TL_RDU_FIELDS]; /* of less_random: paired, crossed over tasks and seeds */
    double gap[TL_RDU_FIELDS]; /* less_random / (all programs' mean - random's); NaN: there is no gap */
    uint32_t chosen, epochs;
    double select_seconds, train_seconds; /* CPU, mean over seeds */
    double select_bytes;                  /* most over seeds */
};
/* NaN where there is no random method, or no budget of all programs. 0 or -TP_E_NO_MEMORY. */
int tl_rdu_figures(const struct tl_rdu *r, uint32_t method, uint32_t budget, struct tl_rdu_figures *f);
int tl_rdu_markdown(const struct tl_rdu *r, struct tp_buf *b);
int tl_rdu_json(const struct tl_rdu *r, struct tp_buf *b);
/* DIR/rdu-pairwise.svg, DIR/rdu-top1.svg */
int tl_rdu_draw(const struct tl_rdu *r, const char *dir, struct tp_err *e);

#endif
