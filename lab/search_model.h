/* The models behind the orders of `lab search`: trained on a split's training tasks, or read where that was done. */
#ifndef TL_SEARCH_MODEL_H
#define TL_SEARCH_MODEL_H

#include "lab/split.h"
#include "model/train.h"

struct tl_search_train {
    int epochs, threads;
    const char *dir;         /* NULL, or where weights are kept: trained models are written, those there are read */
    tm_progress_fn progress; /* may be NULL */
    void *progress_arg;
};

/* *m: the caller's, to be released with tm_model_free(). The seed is the split's, so are the rows. A file of dir is
 * named by rows, epochs, programs per task and seed (not by logs and keys: keep those apart by folder); weights are the
 * same, read or trained. */
int tl_search_model(const struct tl_split *s, const struct tl_split_opts *so, const struct tl_search_train *t,
                    struct tm_model **m, struct tp_err *e);

#endif
