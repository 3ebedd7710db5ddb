/* Metrics: relaxed atomics on cache lines of their own, and the text exposition.
 *
 * Invariant: a scrape never locks out an update of those. Histogram buckets are stored not cumulated and summed up when
 * printed, so that _count always equals the +Inf bucket. Gauges by hardware are few and change rarely: a list under a
 * lock. */
#include "daemon/metrics.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
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
struct hw_gauges {
    struct hw_gauges *next; /* by name */
    double v[TD_HW_GAUGES];
    char hardware[64];
};
struct td_metrics {
    struct counter c[TD_COUNTERS];
    _Atomic double g[TD_GAUGES];
    struct histogram h[TD_HISTOGRAMS];
    pthread_mutex_t update_mu; /* held from reading gauges of a hardware to showing them; taken before hw_mu */
    pthread_mutex_t hw_mu;     /* guards the list */
    struct hw_gauges *hw;
    int n_hw;
};

struct name {
    const char *name, *labels, *help;
};
static const struct name C_NAME[] = {
#define C(id, name, labels, help) {name, labels, help},
#define G(id, name, help)
#define H(id, name, help)
#define X(id, name, help)
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
#undef X
};
static const struct name G_NAME[] = {
#define C(id, name, labels, help)
#define G(id, name, help) {name, "", help},
#define H(id, name, help)
#define X(id, name, help)
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
#undef X
};
static const struct name H_NAME[] = {
#define C(id, name, labels, help)
#define G(id, name, help)
#define H(id, name, help) {name, "", help},
#define X(id, name, help)
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
#undef X
};

static const struct name HW_NAME[] = {
#define C(id, name, labels, help)
#define G(id, name, help)
#define H(id, name, help)
#define X(id, name, help) {name, "", help},
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
#undef X
};

struct td_metrics *td_metrics_new(void)
{
    struct td_metrics *m = aligned_alloc(64, (sizeof *m + 63) / 64 * 64);
    if (!m)
        return NULL;
    memset(m, 0, sizeof *m);
    pthread_mutex_init(&m->update_mu, NULL);
    pthread_mutex_init(&m->hw_mu, NULL);
    return m;
}

void td_metrics_free(struct td_metrics *m)
{
    if (!m)
        return;
    while (m->hw) {
        struct hw_gauges *x = m->hw;

        m->hw = x->next;
        free(x);
    }
    pthread_mutex_destroy(&m->update_mu);
    pthread_mutex_destroy(&m->hw_mu);
    free(m);
}

/* v NULL: takes it away. */
static void show_locked(struct td_metrics *m, const char *hardware, const double *v)
{
    struct hw_gauges **link = &m->hw, *x;

    while (*link && strcmp((*link)->hardware, hardware) < 0)
        link = &(*link)->next;
    x = *link && strcmp((*link)->hardware, hardware) == 0 ? *link : NULL;
    if (!v && x) {
        *link = x->next;
        free(x);
        m->n_hw--;
        return;
    }
    if (v && !x && m->n_hw < TD_HW_GAUGES_MAX && strlen(hardware) < sizeof x->hardware) {
        x = calloc(1, sizeof *x);
        if (!x)
            return; /* the next evaluation tries again */
        snprintf(x->hardware, sizeof x->hardware, "%s", hardware);
        x->next = *link;
        *link = x;
        m->n_hw++;
    }
    if (v && x)
        memcpy(x->v, v, sizeof x->v);
}

void td_hw_gauges(struct td_metrics *m, const char *hardware, td_hw_gauge_fn fn, void *arg)
{
    double v[TD_HW_GAUGES];
    bool shown;

    pthread_mutex_lock(&m->update_mu);
    shown = fn && fn(arg, hardware, v);
    pthread_mutex_lock(&m->hw_mu);
    show_locked(m, hardware, shown ? v : NULL);
    pthread_mutex_unlock(&m->hw_mu);
    pthread_mutex_unlock(&m->update_mu);
}

void td_count(struct td_metrics *m, enum td_counter c, uint64_t n)
{
    atomic_fetch_add_explicit(&m->c[c].v, n, memory_order_relaxed);
}

void td_count_to(struct td_metrics *m, enum td_counter c, uint64_t total)
{
    atomic_store_explicit(&m->c[c].v, total, memory_order_relaxed);
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

double td_resident_bytes(void)
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

static int count_entries(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n > 2 ? n - 2 : 0; /* "." and ".." */
}

static void measure_process(struct td_metrics *m)
{
    struct rlimit files = {0};

    getrlimit(RLIMIT_NOFILE, &files);
    td_gauge(m, TD_G_RSS, td_resident_bytes());
    td_gauge(m, TD_G_THREADS, count_entries("/proc/self/task"));
    td_gauge(m, TD_G_FDS, count_entries("/proc/self/fd"));
    td_gauge(m, TD_G_FDS_MAX, (double)files.rlim_cur);
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
    measure_process(m);
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
    pthread_mutex_lock(&m->hw_mu);
    for (int i = 0; i < TD_HW_GAUGES; i++) {
        head(out, &HW_NAME[i], "gauge");
        for (const struct hw_gauges *x = m->hw; x; x = x->next)
            if (!isnan(x->v[i])) /* names of hardware need no escapes */
                tp_buf_printf(out, "%s{hardware=\"%s\"} %.9g\n", HW_NAME[i].name, x->hardware, x->v[i]);
    }
    pthread_mutex_unlock(&m->hw_mu);
    for (int i = 0; i < TD_HISTOGRAMS; i++) {
        head(out, &H_NAME[i], "histogram");
        write_histogram(&m->h[i], H_NAME[i].name, out);
    }
}
