/* /metrics: one table (metrics.def) of counters, gauges and histograms; updates are relaxed atomics. */
#ifndef TD_METRICS_H
#define TD_METRICS_H

#include "proto/buf.h"

#include <stdint.h>

enum td_counter {
#define C(id, name, labels, help) TD_C_##id,
#define G(id, name, help)
#define H(id, name, help)
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
    TD_COUNTERS
};
enum td_gauge {
#define C(id, name, labels, help)
#define G(id, name, help) TD_G_##id,
#define H(id, name, help)
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
    TD_GAUGES
};
enum td_histogram {
#define C(id, name, labels, help)
#define G(id, name, help)
#define H(id, name, help) TD_H_##id,
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
    TD_HISTOGRAMS
};

struct td_metrics;
struct td_metrics *td_metrics_new(void);
void td_metrics_free(struct td_metrics *m);
void td_count(struct td_metrics *m, enum td_counter c, uint64_t n);
void td_gauge(struct td_metrics *m, enum td_gauge g, double v);
void td_observe(struct td_metrics *m, enum td_histogram h, double v); /* seconds */
void td_metrics_write(struct td_metrics *m, struct tp_buf *out);      /* text format 0.0.4 */

#endif
