/* Metrics: relaxed atomics on cache lines of their own, and the text exposition.
 *
 * Invariant: a scrape never locks out an update. Histogram buckets are stored not cumulated and summed up when printed,
 * so that _count always equals the +Inf bucket. */
#include "daemon/metrics.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seconds. From a health check to a whole import; the steps follow 1, 2.5, 5. */
static const double BOUND[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                               0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30};
enum { BOUNDS = sizeof BOUND / sizeof *BOUND };

struct counter {
    _Alignas(64) _Atomic uint64_t v;
};
struct histogram {
    _Alignas(64) _Atomic uint64_t bucket[BOUNDS + 1];
    _Atomic uint64_t nanoseconds; /* sum: integers add without a loop, and 584 years fit */
};
struct td_metrics {
    struct counter c[TD_COUNTERS];
    _Atomic double g[TD_GAUGES];
    struct histogram h[TD_HISTOGRAMS];
};

struct name {
    const char *name, *labels, *help;
};
static const struct name C_NAME[] = {
#define C(id, name, labels, help) {name, labels, help},
#define G(id, name, help)
#define H(id, name, help)
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
};
static const struct name G_NAME[] = {
#define C(id, name, labels, help)
#define G(id, name, help) {name, "", help},
#define H(id, name, help)
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
};
static const struct name H_NAME[] = {
#define C(id, name, labels, help)
#define G(id, name, help)
#define H(id, name, help) {name, "", help},
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
};

struct td_metrics *td_metrics_new(void)
{
    struct td_metrics *m = aligned_alloc(64, (sizeof *m + 63) / 64 * 64);
    if (m)
        memset(m, 0, sizeof *m);
    return m;
}

void td_metrics_free(struct td_metrics *m)
{
    free(m);
}

void td_count(struct td_metrics *m, enum td_counter c, uint64_t n)
{
    atomic_fetch_add_explicit(&m->c[c].v, n, memory_order_relaxed);
}

void td_gauge(struct td_metrics *m, enum td_gauge g, double v)
{
    atomic_store_explicit(&m->g[g], v, memory_order_relaxed);
}

void td_observe(struct td_metrics *m, enum td_histogram h, double v)
{
    int i = 0;

    if (!(v > 0)) /* also NaN */
        v = 0;
    while (i < BOUNDS && v > BOUND[i])
        i++;
    atomic_fetch_add_explicit(&m->h[h].bucket[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->h[h].nanoseconds, (uint64_t)(v < 1e9 ? v * 1e9 : 1e18), memory_order_relaxed);
}

static double resident_bytes(void)
{
    unsigned long size, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (!f)
        return 0;
    if (fscanf(f, "%lu %lu", &size, &resident) != 2)
        resident = 0;
    fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static void head(struct tp_buf *out, const struct name *n, const char *type)
{
    tp_buf_printf(out, "# HELP %s %s.\n# TYPE %s %s\n", n->name, n->help, n->name, type);
}

static void write_histogram(const struct histogram *h, const char *name, struct tp_buf *out)
{
    uint64_t sum = 0;

    for (int i = 0; i <= BOUNDS; i++) {
        sum += atomic_load_explicit(&h->bucket[i], memory_order_relaxed);
        if (i < BOUNDS)
            tp_buf_printf(out, "%s_bucket{le=\"%g\"} %llu\n", name, BOUND[i], (unsigned long long)sum);
    }
    tp_buf_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n", name, (unsigned long long)sum);
    tp_buf_printf(out, "%s_sum %.9g\n", name,
                  (double)atomic_load_explicit(&h->nanoseconds, memory_order_relaxed) / 1e9);
    tp_buf_printf(out, "%s_count %llu\n", name, (unsigned long long)sum);
}

void td_metrics_write(struct td_metrics *m, struct tp_buf *out)
{
    td_gauge(m, TD_G_RSS, resident_bytes());
    for (int i = 0; i < TD_COUNTERS; i++) {
        const struct name *n = &C_NAME[i];
        if (i == 0 || strcmp(n->name, C_NAME[i - 1].name) != 0)
            head(out, n, "counter");
        tp_buf_puts(out, n->name);
        if (*n->labels)
            tp_buf_printf(out, "{%s}", n->labels);
        tp_buf_printf(out, " %llu\n", (unsigned long long)atomic_load_explicit(&m->c[i].v, memory_order_relaxed));
    }
    for (int i = 0; i < TD_GAUGES; i++) {
        head(out, &G_NAME[i], "gauge");
        tp_buf_printf(out, "%s %.15g\n", G_NAME[i].name, atomic_load_explicit(&m->g[i], memory_order_relaxed));
    }
    for (int i = 0; i < TD_HISTOGRAMS; i++) {
        head(out, &H_NAME[i], "histogram");
        write_histogram(&m->h[i], H_NAME[i].name, out);
    }
}
