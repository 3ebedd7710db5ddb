/* What retraining jobs share. All of it on a job thread. */
#ifndef TD_TRAIN_PARTS_H
#define TD_TRAIN_PARTS_H

#include "ckd/champion.h"
#include "ckd/phases.h"
#include "daemon/jobs.h"
#include "daemon/registry.h"
#include "daemon/train_load.h"
#include "daemon/train_params.h"

/* Measurements of one hardware with the split that judges what is trained on them. */
struct td_train_set {
    struct td_train_data data;
    uint32_t *train, *valid; /* programs of data.ds */
    size_t n_train, n_valid;
    bool by_record;    /* the held-out programs are of tasks that are trained on */
    int64_t watermark; /* newest measurement that was read, or want->upto */
};
/* want->upto 0: up to the newest measurement. Errors of td_train_load(); NOT_ENOUGH_DATA: nothing can be compared. */
int td_train_set_load(struct st_reader *r, const struct td_train_want *want, struct td_train_set *out,
                      struct tp_err *e);
void td_train_set_free(struct td_train_set *s); /* zeroes it */

struct td_verdict {
    struct tm_metrics challenger, champion; /* on the same held-out programs; tasks 0: none */
    struct tk_judgement judgement;
};
/* champion NULL: none. Programs are encoded again for a champion of other features. never: only a candidate is wanted.
 * NO_MEMORY, IO. */
int td_train_judge(struct st_reader *r, const struct st_hardware *hw, const struct td_train_set *set,
                   const struct tm_model *challenger, const struct td_snapshot *champion, bool never,
                   struct td_verdict *out, struct tp_err *e);
/* What job and model keep of it: members of a JSON object, without braces. */
void td_train_put_verdict(struct tp_buf *b, const struct td_verdict *v, bool by_record,
                          const struct td_snapshot *champion);
/* The verdict is an evaluation of the model that answers from now on. A failure is only told: the job has done its
 * work. */
void td_train_keep_verdict(struct td_daemon *d, const struct td_job *job, struct st_reader *r,
                           const struct st_hardware *hw, const struct td_verdict *v, bool by_record, int64_t challenger,
                           const struct td_snapshot *champion);

/* The epochs that a request asks for, and its time (0 no limit), dealt to the phases of one hardware (ckd/phases.h). */
void td_phases_limit(const struct td_train_params *p, double seconds, struct tk_learn_opts *scratch,
                     struct tk_learn_opts *cl, struct tk_learn_opts *kd);

/* Where each task of data lies for m, held out or not. *offset is malloc'ed. NO_MEMORY. */
int td_train_offsets(const struct tm_model *m, const struct td_train_data *data, struct st_offset **offset,
                     size_t *n_offsets, struct tp_err *e);

#endif
