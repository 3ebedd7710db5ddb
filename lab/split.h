/* Who trains, who chooses the epoch, who is tested: one split of a corpus, encoded. Every model of a comparison, ours
 * or a peer's, gets the same one.
 *
 * Everything is decided by the seed: programs are drawn by their hash (sampler/sample.h), so that neither the order of
 * files nor of lines matters. */
#ifndef TL_SPLIT_H
#define TL_SPLIT_H

#include "lab/corpus.h"

enum tl_holdout {
    TL_BY_TASK,   /* tasks whose workload key is listed are tested: nothing of them is known */
    TL_BY_PROGRAM /* of every task with enough programs a tenth is tested, at least min_programs */
};

struct tl_split_opts {
    enum tl_holdout holdout;
    bool tlp;               /* TLP's rows instead of tclf-1 */
    bool by_mean;           /* the training label is the mean of the repeats, not their minimum */
    uint32_t per_task;      /* programs of a training task, 0 = all */
    uint32_t test_per_task; /* valid programs of a test task, 0 = all */
    uint32_t min_programs;  /* test tasks with fewer valid programs are left out */
    double
        valid_fraction; /* share of the training tasks that choose the epoch; 0 = train on all, keep the last epoch */
    uint64_t seed;
};
void tl_split_defaults(struct tl_split_opts *o);

struct tl_split {
    struct tm_dataset *d;
    uint32_t *program; /* [d->n] number in the corpus */
    /* Programs of d. The programs of a task stand together, in the order of the draw. */
    uint32_t *train, *valid, *test;
    size_t n_train, n_valid, n_test;
    uint32_t train_tasks, valid_tasks, tasks_skipped;
};

/* test_keys[0..n_keys): sorted workload keys that are held out; not looked at by TL_BY_PROGRAM. UNUSABLE: TLP's rows of
 * CPU and GPU tasks together; NOT_ENOUGH_DATA: nothing to train on or to test. After an error *s is empty. */
int tl_split_make(const struct tl_corpus *c, char *const *test_keys, size_t n_keys, const struct tl_split_opts *o,
                  struct tl_split *s, struct tp_err *e);
void tl_split_free(struct tl_split *s);

/* Workload keys of a file, one a line, sorted. On failure a line on standard error and -1. */
int tl_keys_read(const char *path, char ***keys, size_t *n);
void tl_keys_free(char **keys, size_t n);

#endif
