/* What a retraining is asked for. */
#ifndef TD_TRAIN_PARAMS_H
#define TD_TRAIN_PARAMS_H

#include "proto/buf.h"
#include "proto/err.h"
#include "store/store.h"

enum td_train_mode { TD_TRAIN_FINETUNE, TD_TRAIN_ADAPT, TD_TRAIN_PRETRAIN };
const char *td_train_mode_name(enum td_train_mode m); /* "finetune", "adapt", "pretrain" */
/* What a retrain does when nobody says: adapt, where knowledge is shared. */
enum td_train_mode td_train_default_mode(const struct st_hardware *hw);

enum { TD_TRAIN_SOURCES_MAX = 64 };

struct td_train_params {
    enum td_train_mode mode;
    int64_t epochs;     /* 1..1000; 0 = by the number of programs */
    double max_seconds; /* 0 no limit */
    int64_t seed;
    int64_t per_task; /* programs of each task, at most; 0 all */
    bool never;       /* "activate": "never": the model stays a candidate */
    bool automatic;   /* asked for by the hardware's policy, */
    int64_t newest;   /* when this was its newest measurement */
    /* pretrain: hardware to learn from, in this order; none: every one of the family that has enough measurements */
    int n_sources;
    char source[TD_TRAIN_SOURCES_MAX][ST_ID_MAX + 1];
};
/* As the job keeps them: every member, always in the same order, so that equal requests are equal texts. */
void td_train_params_write(const struct td_train_params *p, struct tp_buf *out);
int td_train_params_read(struct td_train_params *p, const char *json, struct tp_err *e);

#endif
