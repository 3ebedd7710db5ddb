/* Job kind "retrain", mode "pretrain": a knowledge base for a family from several of its hardware (tk_pretrain()). */
#ifndef TD_PRETRAIN_JOB_H
#define TD_PRETRAIN_JOB_H

#include "daemon/jobs.h"
#include "daemon/train_params.h"

/* Result: {"decision": "activated" | "kept-champion" | "candidate", "reason", "gain", "model": id, "champion": id |
 * null, "sources": [{"hardware", "programs", "tasks", "learned", "before": {figures} | null, "after": {figures} |
 * null}], "phases", "train_seconds"}. Figures are of held-out programs. */
int td_pretrain_run(struct td_daemon *d, struct td_job *j, const struct td_train_params *p, char **result,
                    struct tp_err *e);

#endif
