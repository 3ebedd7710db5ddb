/* Measurements of one hardware, sampled and encoded, for a training job. */
#ifndef TD_TRAIN_LOAD_H
#define TD_TRAIN_LOAD_H

#include "model/dataset.h"
#include "store/store.h"

enum { TD_TRAIN_PROGRAMS_MAX = 500000 /* programs in memory, 1 to 2 kB each */ };

struct td_task_count {
    char id[TP_TASK_ID_LEN + 1];
    int64_t programs; /* failures included */
    int64_t valid;    /* measurements */
};
/* All tasks of a hardware, ascending by id: *list is malloc'ed. NO_MEMORY, IO. */
int td_task_counts(struct st_reader *r, int64_t hw, struct td_task_count **list, size_t *n, struct tp_err *e);

struct td_train_data {
    struct tm_dataset *ds;
    struct td_task_count *count; /* [n_counts] of all tasks that the hardware had before the programs were read */
    size_t n_counts;
    uint8_t (*key)[16]; /* [ds->n] program hashes */
    int64_t records;    /* measurements behind the programs */
};

struct td_train_want {
    const struct st_hardware *hw;
    enum tclfeat_set features;
    /* at most so many programs of each task, 0 all; less when TD_TRAIN_PROGRAMS_MAX asks for it */
    uint32_t per_task;
    uint64_t seed;             /* of the sample */
    const uint8_t (*only)[16]; /* not NULL: just these, ascending by memcmp, and no sampling */
    size_t n_only;
    int64_t upto; /* measurements with a higher id are as if they were not there; 0: all count. Not for a probe */
    bool probe;   /* the hardware's probe set (st_probe_set()), whole */
    /* Called now and then with the share done; non-zero = stop: CANCELLED. */
    int (*progress)(void *arg, double share);
    void *arg;
};
/* Programs that cannot be encoded are left out. NO_MEMORY, CANCELLED, IO. */
int td_train_load(struct st_reader *r, const struct td_train_want *want, struct td_train_data *out, struct tp_err *e);
void td_train_data_free(struct td_train_data *d);

int td_key_compare(const void *a, const void *b); /* of two program hashes, for qsort */

#endif
