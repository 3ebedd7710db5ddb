/* Job kind "retrain", mode "adapt": continual knowledge distillation of one hardware (ckd/adapt.h). */
#ifndef TD_ADAPT_JOB_H
#define TD_ADAPT_JOB_H

#include "daemon/jobs.h"
#include "daemon/train_params.h"

/* A job that was interrupted in the same phase so often does not go on. */
enum { TD_ADAPT_STARTS = 4 };

/* Result: that of finetune ("start" is "warm" or "scratch"), and {"watermark": newest measurement id, "gate":
 * {"decision", "concordance", "lower", "tasks", "programs", "reason"}, "peer": hardware whose model stood in the
 * knowledge base's place, by "gate" | null, "source": the same, if the AC began with it | null, "kb_gate": the verdict
 * on the knowledge base, as "gate", "learned": that of finetune and "from_start", "rivals": {"winner", "tasks",
 * "behind", "error", "quality": {name: quality}} | null ("kb": the peer's model, where there is one), "against_kb":
 * {"decision", "reason", "gain", "kb": {figures}} | null, "kb": {"decision", "reason", "model": id | null, "attempts",
 * "lambda", "worst", "drop", "pairwise_drop", "balance", "gain"}}. What "decision" of "kb" may be:
 * docs/distillation.md, section 2. Row and weights file of the AC keep all of it but "kb" and what finetune's keep not
 * either; those of the knowledge base "mode", "seed", "watermark", "decision", "gate", "learned", "acceptance" (what
 * "kb" has beside), and "before" and "after" on the held-out programs; its row also "older", by older hardware.
 */
int td_adapt_run(struct td_daemon *d, struct td_job *j, const struct td_train_params *p, char **result,
                 struct tp_err *e);

#endif
