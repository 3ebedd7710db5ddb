/* Job kind "evaluate": how good a model is on the measurements of a hardware. */
#ifndef TD_EVALUATE_H
#define TD_EVALUATE_H

#include "daemon/jobs.h"

enum {
    TD_EVALUATE_TASKS_MAX = 1000, /* in "per_task" of a result; the figures are over all of them */
    TD_EVALUATE_POINTS_MAX = 300  /* in "points" of it: held out, and as many that were not */
};

struct td_evaluate_params {
    int64_t model; /* 0: the one that answers when the job begins */
};
/* As the job keeps them, so that equal requests are equal texts: {"model": "active"} or {"model": id}. */
void td_evaluate_params_write(const struct td_evaluate_params *p, struct tp_buf *out);
int td_evaluate_params_read(struct td_evaluate_params *p, const char *json, struct tp_err *e);

/* The job (td_job_run). Every stored program with a valid cost is predicted. Result: {"source": "evaluate", "model",
 * "role", "hardware", "calibration", "job", "holdout": "task" | "record" | "unknown", "held_out": {group} | null,
 * "all": {group}, "evaluation": id, "per_task": [{"task", "programs", "held_out", "top1", "top5", "pairwise",
 * "latency_median_ln_error"}], "per_task_truncated": true when there were more, "points": {"tasks": [id], and by
 * program: "task": [index in tasks], "held_out", "measured_seconds", "predicted_seconds"}}. The points are a sample.
 *
 * held_out: what the model was not trained on, by the rule of ckd/champion.h; null when the model does not come from a
 * training here ("unknown") or nothing is held out. A group has the figures of td_put_figures(), 95 % intervals by
 * bootstrap over its tasks ("..._lo", "..._hi"), and "latency_within_one_std", "latency_within_two_std". Its latencies
 * are moved by the offset of their task as the other programs of the task give it; "without_offset" has the same
 * latency figures as if nothing of the task had been measured. */
int td_evaluate_run(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e);

#endif
