/* `lab search` on a corpus: models of several seeds, their orders replayed on every test task. */
#ifndef TL_SEARCH_RUN_H
#define TL_SEARCH_RUN_H

#include "lab/corpus.h"
#include "lab/search_report.h"
#include "model/train.h"

enum { TL_SEARCH_PEERS = 8 };

struct tl_search_opts {
    uint32_t per_task, test_per_task, seeds, round, min_programs;
    int epochs, tlp_epochs; /* 0: no order by TLP's rows */
    int threads;
    double within, epsilon;
    const char *models; /* NULL, or a folder of weights (lab/search_model.h) */
    /* Scores of other software for the test programs, in the order of the split; {seed} in a path is the seed. */
    struct {
        const char *name, *path;
    } peer[TL_SEARCH_PEERS];
    uint32_t n_peers;
    tm_progress_fn progress; /* may be NULL */
    void *progress_arg;
    bool quiet;
};
void tl_search_defaults(struct tl_search_opts *o);

/* Seeds 1 .. o->seeds. *r: to be released with tl_search_report_free(), also after an error. */
int tl_search_run(const struct tl_corpus *c, char *const *test_keys, size_t n_keys, const struct tl_search_opts *o,
                  struct tl_search_report *r, struct tp_err *e);

#endif
