/* Job kind "retrain": supervised training of a hardware's model on its measurements, and the decision whether it
 * replaces the active one. */
#ifndef TD_TRAIN_JOB_H
#define TD_TRAIN_JOB_H

#include "daemon/jobs.h"

enum {
    TD_TRAIN_MIN = 32, /* valid measurements */
    /* Epochs when the request names none: the trainer's default, but with few programs so many that they are seen this
     * often altogether. 2,000 programs gain a twentieth of pairwise accuracy on new tasks from 40 epochs instead of 12.
     */
    TD_TRAIN_SEEN = 80000,
    TD_TRAIN_EPOCHS_MAX = 60
};

struct td_train_params {
    int64_t epochs;     /* 1..1000; 0 = by the number of programs */
    double max_seconds; /* 0 no limit */
    int64_t seed;
    int64_t per_task; /* programs of each task, at most; 0 all */
    bool never;       /* "activate": "never": the model stays a candidate */
};
/* As the job keeps them: every member, always in the same order, so that equal requests are equal texts. */
void td_train_params_write(const struct td_train_params *p, struct tp_buf *out);
int td_train_params_read(struct td_train_params *p, const char *json, struct tp_err *e);

/* The job (td_job_run). Result: {"decision": "activated" | "kept-champion" | "candidate", "reason", "gain", "model":
 * id, "challenger": {figures}, "champion": {"model", figures} | null, "holdout": "task" | "record", "start": "warm" |
 * "fresh", "programs", "tasks", "epochs", "epoch", "loss", "train_seconds"}. A challenger that
 * loses is kept, in state "rejected". */
int td_train_run(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e);

#endif
