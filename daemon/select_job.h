/* Job kind "selection": which pooled candidates of a hardware shall be measured. */
#ifndef TD_SELECT_JOB_H
#define TD_SELECT_JOB_H

#include "daemon/jobs.h"
#include "sampler/select.h"

enum {
    TD_SELECT_KNOWN_MAX = 100000, /* measured programs that a selection looks at; of more a sample by hash */
    TD_SELECT_LISTED_MAX = 10000  /* in "selected" of a result */
};

struct td_select_params {
    enum ts_method method;
    int64_t budget;  /* programs, 0: by fraction */
    double fraction; /* of the pooled ones, 0 < f <= 1 */
    bool weighted;   /* else the method's own */
    double r, d, u;
    int64_t seed;
};
/* As the job keeps them, so that equal requests are equal texts. */
void td_select_params_write(const struct td_select_params *p, struct tp_buf *out);
int td_select_params_read(struct td_select_params *p, const char *json, struct tp_err *e);

/* The job (td_job_run). Candidates, and what is measured, selected or leased already, are embedded by the model that
 * answers for the hardware (without one by ts_embed_rows()); ts_select() chooses; the chosen become `selected`, and the
 * waiting ones of each task get their turns by falling score. Result: {"method", "model": id | null, "pooled": those
 * looked at, "unusable": pooled ones that the model's features cannot encode, "known", "count": of those selected,
 * "selected": [{"id", "score", "r", "d", "u"}] by falling score, "selected_truncated": true when there were more}.
 * A candidate that was measured meanwhile is not selected. Cancelled before it begins to store, or not at all. */
int td_select_run(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e);

#endif
