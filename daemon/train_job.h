/* Job kind "retrain". Mode finetune: supervised training of a hardware's model on its measurements, and the decision
 * whether it replaces the active one. The other modes: adapt_job.h, pretrain_job.h. */
#ifndef TD_TRAIN_JOB_H
#define TD_TRAIN_JOB_H

#include "daemon/jobs.h"
#include "daemon/train_params.h"

enum {
    TD_TRAIN_MIN = 32, /* valid measurements */
    /* Epochs when the request names none: the trainer's default, but with few programs so many that they are seen this
     * often altogether. 2,000 programs gain a twentieth of pairwise accuracy on new tasks from 40 epochs instead of 12.
     */
    TD_TRAIN_SEEN = 80000,
    TD_TRAIN_EPOCHS_MAX = 60
};

/* The job of any mode (td_job_run). Result of finetune: {"decision": "activated" | "kept-champion" | "candidate",
 * "reason", "gain", "challenger": {figures}, "champion": {"model", figures} | null, "holdout": "task" | "record",
 * "mode", "seed", "watermark": newest measurement id, "start": "warm" | "fresh", "learned": {"epoch": how many were
 * made, "epochs": how many were planned, "loss", "phi", "seconds"}, "model": id, "programs", "tasks", "epoch",
 * "epochs", "loss", "train_seconds"}. Row and weights file of the model keep what stands before "model". A challenger
 * that loses is kept, in state "rejected". */
int td_train_run(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e);

#endif
