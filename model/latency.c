/* Offsets of tasks and the spread of latencies.
 *
 * Residuals that tell how good a prediction is are never touched by the program they belong to: an offset is the median
 * of the task's other programs, the level of a new task the median of the other tasks' levels. Every task weighs the
 * same, however many programs it has. Pure; any thread. */
#include "model/latency.h"

#include <math.h>
#include <stdlib.h>

enum { TILT_TASKS = 8, TILT_PROGRAMS = 64 /* fewer say nothing about how the spread depends on the score */ };
enum { SLOPE_LEAST = 8, SLOPE_MOST = 24, SLOPE_ONE = 20 /* twentieths */ };
static const double tilt_most = 6.0;
static const double within_one = 0.6827, within_two = 0.9545; /* of a normal distribution */

/* ---- prediction ---- */

double tm_latency_with(const struct tm_model *m, double latency, double offset)
{
    double ln = m->latency_shift + m->known_slope * (log(latency) - m->latency_shift) + offset;
    return exp(fmax(fmin(ln, 80.0), -80.0)); /* the engine's own bounds */
}

double tm_latency_residual(const struct tm_model *m, double latency, double cost)
{
    if (!(isfinite(cost) && cost > 0.0))
        return NAN;
    return log(cost) - m->latency_shift - m->known_slope * (log(latency) - m->latency_shift);
}

double tm_latency_std(const struct tm_model *m, double score, uint32_t n)
{
    double std = n ? m->known_std : m->latency_std, tilt = n ? m->known_tilt : m->latency_tilt;
    if (!(std > 0.0))
        return NAN;
    std *= exp(tilt * (0.5 - score));
    /* pi/2 / n: variance of the median of n values in units of theirs */
    return n ? std * sqrt(1.0 + 1.5707963267948966 / n) : std;
}

/* ---- programs by task ---- */

struct value {
    double v;
    uint32_t at; /* place in the caller's arrays */
};

/* Values that are numbers, those of task t at value[start[t] .. start[t + 1]), ascending. */
struct grouped {
    struct value *value;
    size_t *start;
};

static void grouped_free(struct grouped *g)
{
    free(g->value);
    free(g->start);
    *g = (struct grouped){0};
}

static int by_value(const void *pa, const void *pb)
{
    const struct value *a = pa, *b = pb;
    return (a->v > b->v) - (a->v < b->v);
}

static int grouped_init(struct grouped *g, const double *v, const uint32_t *task, size_t n, uint32_t n_tasks)
{
    size_t sum = 0;
    *g = (struct grouped){calloc(n + 1, sizeof *g->value), calloc((size_t)n_tasks + 2, sizeof *g->start)};
    if (!g->value || !g->start || n >= UINT32_MAX) {
        grouped_free(g);
        return -TP_E_NO_MEMORY;
    }
    size_t *next = g->start + 1; /* next[t] is where task t's next value goes, and ends as where t + 1 begins */
    for (size_t i = 0; i < n; i++)
        if (!isnan(v[i]))
            next[task[i]]++;
    for (uint32_t t = 0; t < n_tasks; t++) {
        size_t count = next[t];
        next[t] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        if (!isnan(v[i]))
            g->value[next[task[i]]++] = (struct value){v[i], (uint32_t)i};
    for (uint32_t t = 0; t < n_tasks; t++)
        qsort(g->value + g->start[t], g->start[t + 1] - g->start[t], sizeof *g->value, by_value);
    return 0;
}

/* Of an ascending list. n > 0. */
static double median(const struct value *v, size_t n)
{
    return 0.5 * (v[(n - 1) / 2].v + v[n / 2].v);
}

/* Of the others, when the one at `out` is taken away. n > 1. */
static double median_without(const struct value *v, size_t n, size_t out)
{
    size_t a = (n - 2) / 2, b = (n - 1) / 2;
    return 0.5 * (v[a + (a >= out)].v + v[b + (b >= out)].v);
}

/* ---- offsets ---- */

int tm_offsets_fit(const double *residual, const uint32_t *task, size_t n, uint32_t n_tasks, struct tm_offset *out)
{
    struct grouped g;
    int rc = grouped_init(&g, residual, task, n, n_tasks);
    if (rc)
        return rc;
    for (uint32_t t = 0; t < n_tasks; t++) {
        size_t count = g.start[t + 1] - g.start[t];
        out[t] = (struct tm_offset){count ? median(g.value + g.start[t], count) : 0.0, (uint32_t)count};
    }
    grouped_free(&g);
    return 0;
}

int tm_offsets_without(const double *residual, const uint32_t *task, size_t n, uint32_t n_tasks, struct tm_offset *out)
{
    struct grouped g;
    struct tm_offset *all = calloc((size_t)n_tasks + 1, sizeof *all);
    int rc = all ? tm_offsets_fit(residual, task, n, n_tasks, all) : -TP_E_NO_MEMORY;
    if (rc || (rc = grouped_init(&g, residual, task, n, n_tasks)))
        goto out;
    for (size_t i = 0; i < n; i++) /* programs without a residual */
        out[i] = all[task[i]].n >= TM_OFFSET_MIN ? all[task[i]] : (struct tm_offset){0};
    for (uint32_t t = 0; t < n_tasks; t++) {
        const struct value *v = g.value + g.start[t];
        size_t count = g.start[t + 1] - g.start[t];
        for (size_t i = 0; i < count; i++)
            out[v[i].at] = count > TM_OFFSET_MIN
                               ? (struct tm_offset){median_without(v, count, i), (uint32_t)(count - 1)}
                               : (struct tm_offset){0};
    }
    grouped_free(&g);
out:
    free(all);
    return rc;
}

/* ---- fit ---- */

/* Mean over tasks of the mean |residual - median|; tasks with too few valid programs for an offset are left out. NaN
 * when none is left. */
static int deviation(const double *residual, const uint32_t *task, size_t n, uint32_t n_tasks, double *out)
{
    struct grouped g;
    double sum = 0.0;
    size_t tasks = 0;
    int rc = grouped_init(&g, residual, task, n, n_tasks);
    if (rc)
        return rc;
    for (uint32_t t = 0; t < n_tasks; t++) {
        const struct value *v = g.value + g.start[t];
        size_t count = g.start[t + 1] - g.start[t];
        double s = 0.0;
        if (count <= TM_OFFSET_MIN)
            continue;
        for (size_t i = 0; i < count; i++)
            s += fabs(v[i].v - median(v, count));
        sum += s / (double)count;
        tasks++;
    }
    grouped_free(&g);
    *out = tasks ? sum / (double)tasks : NAN;
    return 0;
}

static int fit_slope(struct tm_model *m, const double *ln_latency, const uint32_t *task, const double *ln_cost,
                     size_t n, uint32_t n_tasks, double *residual)
{
    double best = INFINITY;
    for (int k = SLOPE_LEAST - 1; k <= SLOPE_MOST; k++) { /* first slope 1, which another one must beat */
        double slope = k < SLOPE_LEAST ? 1.0 : (double)k / SLOPE_ONE, d;
        for (size_t i = 0; i < n; i++)
            residual[i] = ln_cost[i] - m->latency_shift - slope * (ln_latency[i] - m->latency_shift);
        int rc = deviation(residual, task, n, n_tasks, &d);
        if (rc)
            return rc;
        if (d < best) { /* never when d is NaN */
            best = d;
            m->known_slope = slope;
        }
    }
    return 0;
}

/* A residual, what its spread may depend on, and its weight. */
struct sample {
    double r, z, w; /* |residual|, 1/2 - score, weight */
};

static double loss(const struct sample *p, size_t n, double c, double d)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += p[i].w * (c + d * p[i].z + p[i].r * exp(-(c + d * p[i].z)));
    return sum;
}

/* Minimise sum w (ln b + r / b), ln b = c + d z: convex in (c, d), so Newton with halving steps gets there. */
static void fit_laplace(const struct sample *p, size_t n, bool with_tilt, double *c_io, double *d_io)
{
    double c = *c_io, d = 0.0, at = loss(p, n, c, d);
    for (int step = 0; step < 50; step++) {
        double gc = 0.0, gd = 0.0, hcc = 1e-9, hcd = 0.0, hdd = 1e-9, t = 1.0;
        for (size_t i = 0; i < n; i++) {
            double e = p[i].w * p[i].r * exp(-(c + d * p[i].z));
            gc += p[i].w - e;
            gd += (p[i].w - e) * p[i].z;
            hcc += e;
            hcd += e * p[i].z;
            hdd += e * p[i].z * p[i].z;
        }
        double det = hcc * hdd - hcd * hcd;
        double dc = with_tilt ? -(hdd * gc - hcd * gd) / det : -gc / hcc;
        double dd = with_tilt ? -(hcc * gd - hcd * gc) / det : 0.0;
        double next = at;
        int halving = 0;
        for (; halving < 30; halving++, t *= 0.5) {
            next = loss(p, n, c + t * dc, d + t * dd);
            if (next < at && fabs(d + t * dd) <= tilt_most)
                break;
        }
        if (halving == 30)
            break; /* no descent left */
        c += t * dc;
        d += t * dd;
        if (at - next < 1e-12 * (1.0 + fabs(at)))
            break;
        at = next;
    }
    *c_io = c;
    *d_io = d;
}

/* The smallest x with at least the share q of the weight at r / b <= x. Sorts v. */
static double quantile(struct value *v, size_t n, const struct sample *p, double q)
{
    double sum = 0.0, total = 0.0;
    for (size_t i = 0; i < n; i++)
        total += p[i].w;
    for (size_t i = 0; i < n; i++) {
        sum += p[v[i].at].w;
        if (sum >= q * total)
            return v[i].v;
    }
    return v[n - 1].v;
}

static int fit_spread(const struct sample *p, size_t n, bool with_tilt, double *std, double *tilt)
{
    double mean = 0.0, total = 0.0, c, d = 0.0;
    for (size_t i = 0; i < n; i++) {
        mean += p[i].w * p[i].r;
        total += p[i].w;
    }
    if (n == 0 || !(mean > 0.0))
        return 0; /* nothing, or no error at all: the spread stays unknown */
    struct value *v = calloc(n, sizeof *v);
    if (!v)
        return -TP_E_NO_MEMORY;
    c = log(mean / total);
    fit_laplace(p, n, with_tilt, &c, &d);
    for (size_t i = 0; i < n; i++)
        v[i] = (struct value){p[i].r * exp(-(c + d * p[i].z)), (uint32_t)i};
    qsort(v, n, sizeof *v, by_value);
    /* both are the standard deviation when the residuals are normal; heavier tails pull the second one up */
    double one = quantile(v, n, p, within_one), two = 0.5 * quantile(v, n, p, within_two);
    free(v);
    *std = exp(c) * sqrt(one * two);
    *tilt = d;
    return 0;
}

/* Programs of tasks with an offset from their other programs. */
static int fit_known(struct tm_model *m, const double *score, const uint32_t *task, const double *residual, size_t n,
                     uint32_t n_tasks, struct sample *sample)
{
    struct tm_offset *other = calloc(n + 1, sizeof *other);
    size_t k = 0;
    int rc = other ? tm_offsets_without(residual, task, n, n_tasks, other) : -TP_E_NO_MEMORY;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (isnan(residual[i]) || other[i].n == 0)
            continue;
        double r = fabs(residual[i] - other[i].offset) / sqrt(1.0 + 1.5707963267948966 / other[i].n);
        sample[k++] = (struct sample){r, 0.5 - score[i], 1.0 / (other[i].n + 1.0)};
    }
    if (rc == 0)
        rc = fit_spread(sample, k, k >= TILT_PROGRAMS, &m->known_std, &m->known_tilt);
    free(other);
    return rc;
}

/* Programs of tasks that were not trained on, against the level of the other such tasks: with the shift of the model,
 * which was fitted to all of them, few tasks would look better predicted than the next one will be. */
static int fit_unknown(struct tm_model *m, const double *score, const uint32_t *task, const double *plain, size_t n,
                       uint32_t n_tasks, const bool *seen, struct sample *sample)
{
    struct tm_offset *level = calloc((size_t)n_tasks + 1, sizeof *level);
    struct value *sorted = calloc((size_t)n_tasks + 1, sizeof *sorted);
    double *without = calloc((size_t)n_tasks + 1, sizeof *without);
    size_t tasks = 0, k = 0;
    int rc = level && sorted && without ? tm_offsets_fit(plain, task, n, n_tasks, level) : -TP_E_NO_MEMORY;
    if (rc)
        goto out;
    for (uint32_t t = 0; t < n_tasks; t++)
        if (!seen[t] && level[t].n)
            sorted[tasks++] = (struct value){level[t].offset, t};
    qsort(sorted, tasks, sizeof *sorted, by_value);
    for (size_t i = 0; i < tasks; i++)
        /* a single task has no other to be compared with: the network alone, which was trained to need no shift */
        without[sorted[i].at] = tasks > 1 ? median_without(sorted, tasks, i) : -m->latency_shift;
    for (size_t i = 0; i < n; i++)
        if (!isnan(plain[i]) && !seen[task[i]])
            sample[k++] = (struct sample){fabs(plain[i] - without[task[i]]), 0.5 - score[i], 1.0 / level[task[i]].n};
    rc = fit_spread(sample, k, tasks >= TILT_TASKS && k >= TILT_PROGRAMS, &m->latency_std, &m->latency_tilt);
out:
    free(without);
    free(sorted);
    free(level);
    return rc;
}

int tm_latency_fit(struct tm_model *m, const double *score, const double *ln_latency, const uint32_t *task,
                   const double *cost, size_t n, uint32_t n_tasks, const bool *seen)
{
    double *ln_cost = calloc(n + 1, sizeof *ln_cost), *residual = calloc(n + 1, sizeof *residual);
    struct sample *sample = calloc(n + 1, sizeof *sample);
    struct tm_model fit = *m; /* the weights are shared, and not touched */
    int rc = -TP_E_NO_MEMORY;

    fit.known_slope = 1.0;
    fit.latency_std = fit.latency_tilt = fit.known_std = fit.known_tilt = 0.0;
    if (!ln_cost || !residual || !sample)
        goto out;
    for (size_t i = 0; i < n; i++) {
        bool usable = isfinite(cost[i]) && cost[i] > 0.0 && isfinite(ln_latency[i]) && isfinite(score[i]);
        ln_cost[i] = usable ? log(cost[i]) : (double)NAN;
        residual[i] = ln_cost[i] - ln_latency[i];
    }
    if ((rc = fit_unknown(&fit, score, task, residual, n, n_tasks, seen, sample)) ||
        (rc = fit_slope(&fit, ln_latency, task, ln_cost, n, n_tasks, residual)))
        goto out;
    for (size_t i = 0; i < n; i++)
        residual[i] = ln_cost[i] - fit.latency_shift - fit.known_slope * (ln_latency[i] - fit.latency_shift);
    rc = fit_known(&fit, score, task, residual, n, n_tasks, sample);
    if (rc == 0)
        *m = fit;
out:
    free(sample);
    free(residual);
    free(ln_cost);
    return rc;
}
