/* Predicted against measured latency: a running comparison per hardware, of what comes in.
 *
 * Each measurement that was posted since the last look (TD_DRIFT_PROGRAMS of them at most) is predicted by the model
 * that answers, as a client would be told. The error is the median of |ln(measured / predicted)| over the last
 * TD_DRIFT_WINDOW of them. Its first TD_DRIFT_BASE under a model are what that model is held to. In memory only: after
 * a restart, and with another model, the comparison begins anew. Thread-safe. */
#ifndef TD_DRIFT_H
#define TD_DRIFT_H

#include "daemon/daemon.h"

enum { TD_DRIFT_PROGRAMS = 512, TD_DRIFT_WINDOW = 128, TD_DRIFT_BASE = 64 };
#define TD_DRIFT_FLOOR 0.05 /* of the error that a model is held to: below it is noise of the measurements */

struct td_drift;
struct td_drift *td_drift_new(void);
void td_drift_free(struct td_drift *x);

/* From now on hardware that was never looked at is new: all its measurements count. */
void td_drift_started(struct td_drift *x);

struct td_drift_view {
    int64_t programs; /* compared since it answers */
    double error;     /* NaN before the first */
    double bias;      /* median of ln(measured / predicted): positive = the hardware is slower than predicted */
    double base;      /* the error that it is held to; NaN: not yet told */
    double ratio;     /* error / base, base at least TD_DRIFT_FLOOR; NaN until the window has moved on from base */
};
/* Of that model, which answers now; false: nothing was compared with it. x may be NULL. */
bool td_drift_get(struct td_drift *x, const char *hardware, int64_t model, struct td_drift_view *out);
/* One measurement of hardware: what the model said, what was measured; seconds. */
void td_drift_add(struct td_drift *x, const char *hardware, int64_t model, double predicted, double measured);
void td_drift_forget(struct td_drift *x, const char *hardware);

/* A model was trained on measurements up to this id: from now on they are not compared, a model knows them. */
void td_drift_trained(struct td_drift *x, const char *hardware, int64_t watermark);

/* Compare what was measured since the last look; *n = how many. Gauges follow. A hardware that is gone or has no model
 * is no error. NO_MEMORY, IO. */
int td_drift_look(struct td_daemon *d, struct st_reader *r, const char *hardware, int *n, struct tp_err *e);

#endif
