/* Job kind "retrain", mode "adapt": continual knowledge distillation of one hardware (ckd/adapt.h). */
#ifndef TD_ADAPT_JOB_H
#define TD_ADAPT_JOB_H

#include "daemon/jobs.h"
#include "daemon/train_params.h"

/* A job that was interrupted in the same phase so often does not go on. */
enum { TD_ADAPT_STARTS = 4 };

/* Result: that of finetune ("start" is "warm" or "scratch"), and {"watermark": newest measurement id, "gate":
 * {"decision", "concordance", "lower", "tasks", "programs", "reason"}, "source": hardware whose model took the
 * knowledge base's place, by "gate" | null, "kb_gate": the verdict on the knowledge base, as "gate", "learned":
 * {"epochs", "loss", "phi", "seconds", "from_start"}, "rivals": {"winner", "tasks", "behind", "error", "quality":
 * {name: quality}} | null ("kb": the source's model, where there is one), "against_kb": {"decision", "reason", "gain",
 * "kb": {figures}} | null, "kb": {"decision": "founded" | "accepted" | "refused" | "untouched" | "overtaken", "reason",
 * "model": id | null, "attempts", "lambda", "worst", "drop", "pairwise_drop", "gain"}}.
 */
int td_adapt_run(struct td_daemon *d, struct td_job *j, const struct td_train_params *p, char **result,
                 struct tp_err *e);

#endif
