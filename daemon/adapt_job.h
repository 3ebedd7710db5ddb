/* Job kind "retrain", mode "adapt": continual knowledge distillation of one hardware (ckd/adapt.h). */
#ifndef TD_ADAPT_JOB_H
#define TD_ADAPT_JOB_H

#include "ckd/adapt.h"
#include "daemon/jobs.h"
#include "daemon/train_params.h"
#include "model/weights.h"

/* A job that was interrupted in the same phase so often does not go on. */
enum { TD_ADAPT_STARTS = 4 };

/* Result: that of finetune ("start" is "warm", "fresh" or "scratch"), and {"watermark": newest measurement id, "gate":
 * {"decision", "concordance", "lower", "tasks", "programs", "reason"}, "learned": {"epochs", "loss", "phi", "seconds",
 * "from_start"}, "against_kb": {"decision", "reason", "gain", "kb": {figures}} | null, "kb": {"decision": "founded" |
 * "accepted" | "refused" | "untouched" | "overtaken", "reason", "model": id | null, "attempts", "lambda", "worst",
 * "drop", "gain", "phases"}}. */
int td_adapt_run(struct td_daemon *d, struct td_job *j, const struct td_train_params *p, char **result,
                 struct tp_err *e);

/* ---- what pretrain does alike ---- */
/* {"decision": ..., ...} of the gate. */
void td_put_gate(struct tp_buf *b, const struct tk_verdict *v);
/* {"tasks", "programs", "top1_mean", "pairwise"}, or null without tasks. */
void td_put_brief(struct tp_buf *b, const struct tm_metrics *m);
/* Who made a model and from what, but for the texts. */
void td_fill_provenance(struct tm_provenance *p, int64_t created, uint64_t seed);
/* text (JSON object) becomes p->training, when it fits. */
void td_fill_training(struct tm_provenance *p, const char *text);
/* After a family got another knowledge base: what its members show and how they are calibrated. */
void td_kb_changed(struct td_daemon *d, struct st_reader *r, const char *family);
/* The model that this job has published already, before it was interrupted: its id, 0 none. *metrics (may be NULL) is
 * malloc'ed. */
int td_published_by(const struct td_job *j, struct st_reader *r, const char *role, const char *owner, int64_t *id,
                    char **metrics, struct tp_err *e);

#endif
