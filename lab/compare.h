/* `lab compare`: several models, each trained and scored on the same splits, one split a seed. */
#ifndef TL_COMPARE_H
#define TL_COMPARE_H

#include "lab/score.h"
#include "model/train.h"

enum { TL_SEEDS = 16, TL_MODELS = 7, TL_PEER_SET = 16 };

/* A model on one seed's split. */
struct tl_trial {
    struct tl_score score;
    double train_seconds, predict_seconds; /* CPU time of all threads; predict: of the test programs, one thread */
    double *valid_pairwise;                /* [epochs], owned: after each epoch (xgb: round) */
    int epochs, best_epoch;                /* best_epoch: 1-based, the one kept */
};

struct tl_contender {
    const char *name;       /* "tcld": what --models takes */
    char *title, *notes;    /* owned; notes: the settings, for people */
    char skipped[256];      /* "": it ran; else why it did not */
    double parameters;      /* xgb: nodes of its trees */
    bool latency;           /* it predicts one */
    struct tl_trial *trial; /* [seeds], owned */
};

struct tl_compare {
    struct tl_contender model[TL_MODELS]; /* model[0] is tcld on tclf-1: the others are compared with it */
    int n_models, seeds;
    struct tl_ceiling ceiling; /* mean of the seeds */
    double random_top1, random_top5;
    uint32_t test_tasks, tasks_skipped, train_tasks, valid_tasks, train_programs, valid_programs, test_programs;
    uint32_t per_task; /* 0: all */
    bool known, by_mean;
    const char *logs; /* how to name the data */
};
void tl_compare_free(struct tl_compare *c);

/* One peer of tests/lab/peers.py. */
struct tl_peer_opts {
    const char *python, *script;
    const char *dir; /* where data and results go; results that are there for the same settings and split are read */
    int threads;
    const char *set[TL_PEER_SET]; /* "NAME.KEY=NUMBER": settings of peers that are not their own */
    int n_set;
};
/* Title, notes and whether it can run (else m->skipped). IO: the script cannot be started. */
int tl_peer_describe(struct tl_contender *m, const struct tl_peer_opts *o, struct tp_err *e);
/* The peer's rows: true TLP's, false tclf-1. */
bool tl_peer_wants_tlp(const char *name);
/* Train it, or read what it did. score[0 .. s->n_test) are filled, so is *t but for its score. */
int tl_peer_run(struct tl_contender *m, const struct tl_split *s, uint64_t seed, const struct tl_peer_opts *o,
                struct tl_trial *t, double *score, struct tp_err *e);

/* Figures for the table: mean over the seeds, interval over tasks x seeds. */
enum tl_figure { TL_TOP1, TL_TOP5, TL_PAIRWISE, TL_FIGURES };
struct tl_estimate {
    double mean;
    struct tm_interval interval;
};
/* Of model m; minus: NULL, or a model whose figures of the same tasks are subtracted. NO_MEMORY. */
int tl_compare_estimate(const struct tl_compare *c, const struct tl_contender *m, const struct tl_contender *minus,
                        enum tl_figure f, struct tl_estimate *out, struct tp_err *e);

/* DIR/compare.md, compare.json, compare-pairwise.svg, compare-top1.svg, compare-epochs.svg. */
int tl_compare_write(const struct tl_compare *c, const char *dir, struct tp_err *e);

#endif
