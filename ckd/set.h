/* What the parts of continual distillation hand each other: programs of one hardware, and how a run is driven. */
#ifndef TK_SET_H
#define TK_SET_H

#include "model/dataset.h"
#include "model/train.h"

/* Programs of ONE hardware: a dataset keys programs by task and steps alone, so two kinds of hardware never share one.
 * Borrowed; must outlive what it is given to. */
struct tk_set {
    const struct tm_dataset *ds;
    const uint32_t *programs; /* [n] indices into ds */
    size_t n;
};

struct tk_progress {
    const char *phase; /* tk_phase_name(), or the name of a step within it */
    double fraction;   /* 0..1 of that phase */
    int epoch, epochs; /* 1-based; 0 in phases without epochs */
    double loss, phi;  /* running mean of the epoch; the present trust in the teacher. NaN where there is none */
    double valid_top1, valid_pairwise; /* NaN before the first validation */
};
/* At `fraction` of a step that has no epochs. */
struct tk_progress tk_progress_at(const char *phase, double fraction);
/* On the calling thread, after every batch at least. Non-zero = stop: the phase returns -TP_E_CANCELLED and leaves no
 * trace. */
typedef int (*tk_progress_fn)(void *arg, const struct tk_progress *p);

/* How a phase runs. The results depend on seed alone, bit for bit, whatever `threads` (on one kind of CPU). */
struct tk_run {
    uint64_t seed;
    int threads;             /* >= 1; the caller's thread included */
    tk_progress_fn progress; /* may be NULL */
    void *arg;
};

/* The programs of a, then those of b, of one dataset: out->programs is the caller's to free. NO_MEMORY. */
int tk_set_join(const struct tk_set *a, const struct tk_set *b, struct tk_set *out, struct tp_err *e);

/* Rank scores of the programs of s by m: out[s->n]. Any network, also those the engine does not run. FEATURES_MISMATCH,
 * NO_MEMORY, UNUSABLE (shape). */
int tk_scores(const struct tm_model *m, const struct tk_set *s, int threads, double *out, struct tp_err *e);

/* The epochs that make at least `steps` optimiser steps of o's batches on s, at least o->epochs, a multiple of
 * `multiple`. NOT_ENOUGH_DATA, NO_MEMORY: negative. */
int tk_epochs_for(const struct tk_set *s, const struct tm_train_opts *o, uint32_t steps, int multiple,
                  struct tp_err *e);

#endif
