/* Job kind "retrain", mode "pretrain": a knowledge base for a family from several of its hardware (tk_pretrain()). */
#ifndef TD_PRETRAIN_JOB_H
#define TD_PRETRAIN_JOB_H

#include "daemon/jobs.h"
#include "daemon/train_params.h"

/* Result: {"job", "mode", "seed", "watermark", "decision": "activated" | "kept-champion" | "candidate" | "overtaken"
 * (another knowledge base was activated while the job ran: this one is a candidate), "reason", "gain", "phases",
 * "initial_weights", "acceptance": by hardware that is no source: {"accepted", "reason", "drop", "pairwise_drop"} |
 * null, "before", "after": {figures} | null, means over the sources, "source_count", "sources": [{"hardware",
 * "programs", "tasks", "learned", "lesson": td_lesson_text(), "before", "after"}], "model": id, "active", "champion":
 * id | null, "train_seconds"}. Figures are of held-out programs. The row keeps what stands before "model"; so does the
 * weights file, of the sources less, and of the first ones only where there is no room for all. */
int td_pretrain_run(struct td_daemon *d, struct td_job *j, const struct td_train_params *p, char **result,
                    struct tp_err *e);

#endif
