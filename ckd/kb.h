/* A family's knowledge base: one model for every hardware of the family, and what it must not forget. Its size does not
 * depend on how many kinds of hardware it has learned. One owner. */
#ifndef TK_KB_H
#define TK_KB_H

#include "model/weights.h"
#include "proto/target.h"

struct tk_kb {
    struct tm_model *model;   /* owned; never NULL */
    enum tp_target_kind kind; /* CPU or GPU */
    uint32_t phases;          /* how often it was taught */
    /* owned, [model->n], layout of the weights */
    float *fisher, *anchor; /* F* and theta*; all zero and the weights in one that nothing was learned into */
    float *start; /* meta-learned initial weights (ckd/meta.h) for hardware that resembles nobody; NULL: none */
};

/* Takes the model, also after an error (then NULL, out of memory). anchor = its weights, fisher = 0. */
struct tk_kb *tk_kb_new(struct tm_model *model, enum tp_target_kind kind);
struct tk_kb *tk_kb_clone(const struct tk_kb *kb);
void tk_kb_free(struct tk_kb *kb);

/* A weights file (model/weights.h), which any reader of weights files reads as a model, with the tensors of F* and
 * theta* (and of the initial weights) beside, each under the name of its weight with "fisher.", "anchor." or "start."
 * before it. role "kb", kind and phases are set by the writer; p may be NULL: no provenance beyond that. Errors of
 * tm_weights_save(); BAD_WEIGHTS also for F* below zero. */
int tk_kb_save(const char *path, const struct tk_kb *kb, const struct tm_provenance *p, struct tp_err *e);
/* BAD_WEIGHTS: what tm_weights_load() refuses; a file without F* and theta* (a plain model); F* below zero; a kind that
 * has no family. FEATURES_MISMATCH. *kb is the caller's. p may be NULL. */
int tk_kb_load(const char *path, struct tk_kb **kb, struct tm_provenance *p, struct tp_err *e);
/* The same with bytes; out is appended to. */
int tk_kb_write(const struct tk_kb *kb, const struct tm_provenance *p, struct tp_buf *out, struct tp_err *e);
int tk_kb_read(const void *bytes, size_t n, struct tk_kb **kb, struct tm_provenance *p, struct tp_err *e);

#endif
