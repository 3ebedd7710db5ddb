/* The methods of `lab ckd`, and what they share with the loop over cells (ckd_run.c). */
#ifndef TL_CKD_MAKE_H
#define TL_CKD_MAKE_H

#include "lab/ckd.h"

/* Where a cell stands. */
struct tl_ckd_here {
    const struct tl_ckd_opts *o;
    const struct tl_ckd_data *d;
    struct tk_run run;
    uint32_t hop, target; /* target: index of its hardware */
    double budget;
    /* programs of the target at this budget, random and by the sampler; train and valid are parts of them */
    uint32_t *sample, *train, *valid;
    size_t n, n_train, n_valid;
    struct tk_older known[TL_CKD_HARDWARE]; /* [target] what was measured of the hardware before: all of a source, the
                                               random share of an earlier target. Its programs are owned */
    struct tk_peer peer[TL_CKD_HARDWARE];   /* whom ckd may begin with beside the knowledge base */
    uint32_t n_peers;
};

bool tl_ckd_plain(enum tl_ckd_method m); /* of the ablation, without Mamba */

/* Whose options a cell or model depends on, beside the data. */
enum {
    TL_CKD_BY_SOURCE = 1,
    TL_CKD_BY_SCRATCH = 2,
    TL_CKD_BY_FINE = 4,
    TL_CKD_BY_CKD = 8,
    TL_CKD_BY_META = 16,
    TL_CKD_BY_RDU = 32
};
/* Models that other cells begin with; NULL: it is not kept. */
struct tk_kb *tl_ckd_load_kb(const struct tl_ckd_here *k, const char *what, unsigned by);
int tl_ckd_save_kb(const struct tl_ckd_here *k, const char *what, unsigned by, const struct tk_kb *kb,
                   struct tp_err *e);
/* Sets known[h] of programs[0..n). */
int tl_ckd_know(struct tl_ckd_here *k, uint32_t h, const uint32_t *programs, size_t n, struct tp_err *e);
/* The knowledge base of the transfer's sources, which are known, kept or made. */
int tl_ckd_source_kb(const struct tl_ckd_here *k, bool is_plain, struct tk_kb **out, struct tp_err *e);
/* Adds the sources' initial weights (ckd/meta.h), kept or made, to their knowledge base, which has none. */
int tl_ckd_source_start(const struct tl_ckd_here *k, struct tk_kb *kb, struct tp_err *e);

/* Set sample and n: a random share of every task; as many programs by the sampler, which looks through kb (NULL: at
 * rows). Then train and valid. */
int tl_ckd_choose_random(struct tl_ckd_here *k, struct tp_err *e);
int tl_ckd_choose_rdu(struct tl_ckd_here *k, const struct tk_kb *kb, struct tp_err *e);
int tl_ckd_keep_parts(struct tl_ckd_here *k, struct tp_err *e);

/* One cell each; *c is overwritten. */
/* Scratch (kb NULL) and fine-tuning from kb, on all programs of the sample. *keep (may be NULL): the model. */
int tl_ckd_make_single(const struct tl_ckd_here *k, enum tl_ckd_method method, const struct tk_kb *kb,
                       struct tk_kb **keep, struct tl_ckd_cell *c, struct tp_err *e);
/* From initial weights of the sources (ckd/meta.h), kept or made. */
int tl_ckd_make_cold(const struct tl_ckd_here *k, struct tl_ckd_cell *c, struct tp_err *e);
int tl_ckd_make_multi(const struct tl_ckd_here *k, struct tl_ckd_cell *c, struct tp_err *e);
/* CKD as the daemon does it. Out, the caller's; NULL where there is none: */
struct tl_ckd_made {
    struct tk_kb *kb;         /* from now on; a copy of the old one when it learned nothing */
    struct tk_kb *serves;     /* the AC, if it is activated */
    struct tm_model *teacher; /* the AC, if it may teach */
};
void tl_ckd_made_free(struct tl_ckd_made *m);
int tl_ckd_make_ckd(const struct tl_ckd_here *k, const struct tk_kb *kb, bool is_plain, struct tl_ckd_made *out,
                    struct tl_ckd_cell *c, struct tp_err *e);
/* The same AC (NULL: there is none that may teach) and nothing that holds the knowledge base back. */
int tl_ckd_make_no_ewc(const struct tl_ckd_here *k, const struct tk_kb *kb, const struct tm_model *ac,
                       struct tk_kb **next, struct tl_ckd_cell *c, struct tp_err *e);
int tl_ckd_make_zero(const struct tl_ckd_here *k, const struct tk_kb *kb, struct tl_ckd_cell *c, struct tp_err *e);

#endif
