/* /metrics: one table (metrics.def) of counters, gauges and histograms; updates are relaxed atomics. */
#ifndef TD_METRICS_H
#define TD_METRICS_H

#include "proto/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum td_counter {
#define C(id, name, labels, help) TD_C_##id,
#define G(id, name, help)
#define H(id, name, help)
#define X(id, name, help)
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
#undef X
    TD_COUNTERS
};
enum td_gauge {
#define C(id, name, labels, help)
#define G(id, name, help) TD_G_##id,
#define H(id, name, help)
#define X(id, name, help)
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
#undef X
    TD_GAUGES
};
enum td_histogram {
#define C(id, name, labels, help)
#define G(id, name, help)
#define H(id, name, help) TD_H_##id,
#define X(id, name, help)
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
#undef X
    TD_HISTOGRAMS
};

/* Gauges of a hardware. */
enum td_hw_gauge {
#define C(id, name, labels, help)
#define G(id, name, help)
#define H(id, name, help)
#define X(id, name, help) TD_HW_##id,
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
#undef X
    TD_HW_GAUGES
};
enum { TD_HW_GAUGES_MAX = 4096 /* hardware shown; the label set stays bounded whatever is registered */ };

struct td_metrics;
struct td_metrics *td_metrics_new(void);
void td_metrics_free(struct td_metrics *m);
void td_count(struct td_metrics *m, enum td_counter c, uint64_t n);
void td_count_to(struct td_metrics *m, enum td_counter c, uint64_t total); /* for what is counted elsewhere */
void td_gauge(struct td_metrics *m, enum td_gauge g, double v);
void td_observe(struct td_metrics *m, enum td_histogram h, double v); /* seconds */
/* fn fills v[TD_HW_GAUGES] (NaN: not shown) with what the store says now, or returns false: the hardware is no longer
 * shown. fn NULL is such an fn. Only one fn runs at a time, so a value that was read before another one, or before the
 * hardware was deleted, never comes to stand after it; scrapes do not wait for fn. */
typedef bool (*td_hw_gauge_fn)(void *arg, const char *hardware, double *v);
void td_hw_gauges(struct td_metrics *m, const char *hardware, td_hw_gauge_fn fn, void *arg);
double td_resident_bytes(void);                                  /* of this process */
void td_metrics_write(struct td_metrics *m, struct tp_buf *out); /* text format 0.0.4 */

#endif
