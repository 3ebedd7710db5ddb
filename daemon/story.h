/* Where models come from, as rows and files tell it; shared by the jobs that make them. */
#ifndef TD_STORY_H
#define TD_STORY_H

#include "ckd/rivals.h"
#include "daemon/jobs.h"
#include "daemon/train_parts.h"
#include "model/metrics.h"
#include "model/weights.h"

/* {"decision": ..., ...} of the gate. */
void td_put_gate(struct tp_buf *b, const struct tk_verdict *v);
/* Of the rivals for an AC: {"winner", "tasks", "behind", "error", "quality": {name: quality}}, or null without any. */
void td_put_contest(struct tp_buf *b, const struct tk_contest *c);
/* {"tasks", "programs", "top1_mean", "pairwise"}, or null without tasks. */
void td_put_brief(struct tp_buf *b, const struct tm_metrics *m);
/* Who made a model and from what, but for the texts. */
void td_fill_provenance(struct tm_provenance *p, int64_t created, uint64_t seed);
/* What it was made of: one hardware's measurements, and the models it came from. */
void td_fill_made_of(struct tm_provenance *p, const struct td_train_set *set, const int64_t *parents, int n);
/* Figures on what was held out, as the weights file keeps them. */
void td_fill_metrics(struct tm_provenance *p, const struct tm_metrics *m, bool by_record);
/* JSON array, malloc'ed; NULL: no memory. */
char *td_ids_text(const int64_t *id, int n);
/* text (JSON object) becomes p->training, when it fits. */
void td_fill_training(struct tm_provenance *p, const char *text);
/* After a family got another knowledge base: what its members show and how they are calibrated. */
void td_kb_changed(struct td_daemon *d, struct st_reader *r, const char *family);
/* The model that this job has published already, before it was interrupted: its id, 0 none. *metrics (may be NULL) is
 * malloc'ed. */
int td_published_by(const struct td_job *j, struct st_reader *r, const char *role, const char *owner, int64_t *id,
                    char **metrics, struct tp_err *e);

#endif
