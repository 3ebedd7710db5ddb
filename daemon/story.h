/* Where models come from, as rows and files tell it; shared by the jobs that make them. */
#ifndef TD_STORY_H
#define TD_STORY_H

#include "ckd/adapt.h"
#include "daemon/fleet.h"
#include "daemon/jobs.h"
#include "daemon/train_parts.h"
#include "model/metrics.h"
#include "model/weights.h"

/* The members, without braces, that every story begins with: "mode", "seed", "watermark" (the newest measurement that
 * was looked at). */
void td_put_origin(struct tp_buf *b, const struct td_train_params *p, int64_t watermark);
/* Members: "epoch" (how many were made), "epochs" (how many were planned), "loss", "phi", "seconds". */
void td_put_learned(struct tp_buf *b, const struct tk_learned *l);
/* Members: "attempts" to teach a knowledge base, and of the last (null without any) "lambda", "drop", "pairwise_drop",
 * "balance", "gain" (ckd/phases.h). */
void td_put_lesson(struct tp_buf *b, const struct tk_adapt_state *s);
/* {"decision": ..., ...} of the gate. */
void td_put_gate(struct tp_buf *b, const struct tk_verdict *v);
/* Of the rivals for an AC: {"winner", "tasks", "behind", "error", "quality": {name: quality}}, or null without any. */
void td_put_contest(struct tp_buf *b, const struct tk_contest *c);
/* {"tasks", "programs", "top1_mean", "pairwise"}, or null without tasks. */
void td_put_brief(struct tp_buf *b, const struct tm_metrics *m);
/* What every older hardware loses or wins when `is` takes the place of `was` (NULL: there was none): an array of
 * {"hardware", "before", "after"}. NO_MEMORY. */
int td_put_older(struct tp_buf *b, const struct td_older *o, const struct tm_model *was, const struct tm_model *is,
                 struct tp_err *e);
/* Who made a model and from what, but for the texts. */
void td_fill_provenance(struct tm_provenance *p, int64_t created, uint64_t seed);
/* What it was made of: one hardware's measurements, and the models it came from. */
void td_fill_made_of(struct tm_provenance *p, const struct td_train_set *set, const int64_t *parents, int n);
/* Figures on what was held out, as the weights file keeps them. */
void td_fill_metrics(struct tm_provenance *p, const struct tm_metrics *m, bool by_record);
/* JSON array, malloc'ed; NULL: no memory. */
char *td_ids_text(const int64_t *id, int n);
/* What a weights file keeps of a row's story (JSON object): the same, after "job" and "hardware". malloc'ed; NULL: no
 * memory, or row is NULL. */
char *td_story_file(const struct td_job *j, const char *hardware, const char *row);
/* Text (JSON object) becomes p->training, of model id; what does not fit is left out, which is logged. */
void td_fill_training(struct tm_provenance *p, const char *text, int64_t id);
/* The result of a job that made an AC, but for its last brace: the row's story, and what the job adds. seconds: of all
 * training. */
void td_put_result(struct tp_buf *b, const char *story, int64_t model, const struct td_train_set *set,
                   const struct tk_learned *l, double seconds);
/* A row's story says `decision`. */
bool td_story_says(const char *story, const char *decision);
/* State of the row of a model that was judged so. */
const char *td_row_state(enum tk_decision d);
/* After a family got another knowledge base: what its members show and how they are calibrated. */
void td_kb_changed(struct td_daemon *d, struct st_reader *r, const char *family);
/* The model that this job has published already, before it was interrupted: its id, 0 none. *metrics (may be NULL) is
 * malloc'ed. */
int td_published_by(const struct td_job *j, struct st_reader *r, const char *role, const char *owner, int64_t *id,
                    char **metrics, struct tp_err *e);

#endif
