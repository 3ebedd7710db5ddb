/* Figures of a model: as JSON members of jobs, models and evaluations, and as gauges of their hardware. */
#ifndef TD_FIGURES_H
#define TD_FIGURES_H

#include "daemon/daemon.h"
#include "model/metrics.h"
#include "proto/buf.h"

/* , "name": value with 6 digits, null when it is not finite */
void td_put_num(struct tp_buf *b, const char *name, double v);
/* The members of one set of figures, without braces: "tasks", "programs", then those of struct tm_metrics. */
void td_put_figures(struct tp_buf *b, const struct tm_metrics *m);
void td_put_latency(struct tp_buf *b, const struct tm_metrics *m); /* only ", \"latency_...\"" */
/* Closes the text and hands it over; NULL when out of memory. *b is empty after. */
char *td_take_text(struct tp_buf *b);

/* How programs were held out when the model was trained: "task", "record", or "unknown" (it was not trained here). */
const char *td_model_holdout(struct st_reader *r, int64_t model);

/* The newest measurement that the model was made of; -1: it does not say (of an older tcld, or not made here). */
int64_t td_model_watermark(const struct st_model *m);

/* How many measurements of a hardware are newer than a model of that watermark, which was made of `records` of them;
 * about, when it does not say. c: the hardware's. IO. */
int td_measured_since(struct st_reader *r, int64_t hw, int64_t watermark, int64_t records, const struct st_counts *c,
                      int64_t *n, struct tp_err *e);

/* Keep the result of an evaluation, which is JSON object text with "held_out" and "all" (an object of figures or null),
 * and show it in the gauges when it is one of the model that answers. *id may be NULL. */
int td_figures_keep(struct td_daemon *d, struct st_reader *r, const char *hardware, int64_t hw, int64_t model,
                    int64_t job, char *result, int64_t *id, struct tp_err *e);
/* Show the newest evaluation of the model that answers for hardware: its held-out figures, else all; show nothing when
 * there is none. */
void td_figures_show(struct td_daemon *d, struct st_reader *r, const char *hardware);
void td_figures_show_all(struct td_daemon *d); /* at start */

#endif
