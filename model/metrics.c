/* Ranking and latency metrics. Definitions: model/metrics.h and docs/model.md section 5.
 *
 * Everything is exact and O(n log n) per task: pairs are counted with a Fenwick tree over score ranks, the expectation
 * of a random order by the hypergeometric weights of its minimum. Sums run in task order, so a result depends on the
 * arrays alone. Pure, any thread. */
#include "model/metrics.h"
#include "proto/err.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* One program of the task at hand. */
struct item {
    double cost;   /* INFINITY for anything that is not a valid cost */
    double score;  /* NaN stays NaN: it sorts below -INFINITY */
    uint32_t at;   /* place in the caller's order: keeps sorting stable */
    uint32_t rank; /* 1-based dense rank of the score, 1 = lowest */
    double latency;
};

/* Per-task figures before they are averaged. */
struct ranking {
    double top1, top5, best, best1, best5; /* T/best_k; T_s; best_k with the substitute of the pooled figure */
    double random1, random5;
    double pairwise, pairwise_10pct, spearman; /* NaN: the task has no such pair */
};

/* A mean that skips NaN and is NaN when nothing came. */
struct mean {
    double sum;
    size_t n;
};

static void mean_add(struct mean *m, double v)
{
    if (!isnan(v)) {
        m->sum += v;
        m->n++;
    }
}

static double mean_get(const struct mean *m)
{
    return m->n ? m->sum / (double)m->n : NAN;
}

static double clean_cost(double cost)
{
    return isfinite(cost) && cost > 0.0 ? cost : INFINITY;
}

/* NaN is lower than every number and equal to itself. */
static int compare_scores(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(b) - isnan(a);
    return (a > b) - (a < b);
}

static int by_score_desc(const void *pa, const void *pb)
{
    const struct item *a = pa, *b = pb;
    int c = compare_scores(b->score, a->score);
    return c ? c : (a->at > b->at) - (a->at < b->at);
}

static int by_cost(const void *pa, const void *pb)
{
    const struct item *a = pa, *b = pb;
    int c = (a->cost > b->cost) - (a->cost < b->cost);
    return c ? c : (a->at > b->at) - (a->at < b->at);
}

static int by_value(const void *pa, const void *pb)
{
    double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

static void fenwick_add(uint32_t *tree, size_t n, size_t i)
{
    for (; i <= n; i += i & -i)
        tree[i]++;
}

static uint64_t fenwick_sum(const uint32_t *tree, size_t i)
{
    uint64_t sum = 0;
    for (; i; i -= i & -i)
        sum += tree[i];
    return sum;
}

/* Items in cost order. Over pairs whose costs differ by more than the factor: the share with the faster one scored
 * higher. */
static double concordance(const struct item *v, size_t n, double factor, uint32_t *tree)
{
    uint64_t pairs = 0;
    double good = 0.0;
    size_t in = 0;
    memset(tree, 0, (n + 1) * sizeof *tree);
    for (size_t j = 0; j < n; j++) {
        while (in < j && v[in].cost * factor < v[j].cost)
            fenwick_add(tree, n, v[in++].rank);
        uint64_t below = fenwick_sum(tree, v[j].rank - 1), upto = fenwick_sum(tree, v[j].rank);
        pairs += in;
        good += (double)(in - upto) + 0.5 * (double)(upto - below);
    }
    return pairs ? good / (double)pairs : NAN;
}

/* Expectation of best / (lowest cost among k programs drawn without replacement); items in cost order, failures give 0.
 * The i-th (0-based) is the lowest with probability C(n-1-i, k-1) / C(n, k). */
static double random_topk(const struct item *v, size_t n, size_t k)
{
    double sum = 0.0, p;
    if (k > n)
        k = n;
    p = (double)k / (double)n;
    for (size_t i = 0; i + k <= n && isfinite(v[i].cost); i++) {
        sum += p * (v[0].cost / v[i].cost);
        if (i + k < n)
            p *= (double)(n - i - k) / (double)(n - 1 - i);
    }
    return sum;
}

/* Pearson correlation of the mid-ranks of score and of -cost. Items in cost order, scores ranked densely. */
static double spearman(const struct item *v, size_t n, uint32_t *count)
{
    /* mid-rank of a score: programs with lower scores, plus half of its equals */
    memset(count, 0, (n + 1) * sizeof *count);
    for (size_t i = 0; i < n; i++)
        fenwick_add(count, n, v[i].rank);
    double mean = 0.5 * (double)(n + 1), sxy = 0.0, sxx = 0.0, syy = 0.0;
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && v[end].cost == v[i].cost)
            end++;
        double y = (double)n + 1.0 - 0.5 * (double)(i + 1 + end) - mean;
        for (; i < end; i++) {
            double x = 0.5 * (double)(fenwick_sum(count, v[i].rank - 1) + fenwick_sum(count, v[i].rank) + 1) - mean;
            sxy += x * y;
            sxx += x * x;
            syy += y * y;
        }
    }
    return sxx > 0.0 && syy > 0.0 ? sxy / sqrt(sxx * syy) : NAN;
}

/* Sorts v. It holds n programs of which at least one is valid; tree has n + 1 elements. */
static void rank_task(struct item *v, size_t n, uint32_t *tree, struct ranking *out)
{
    double slowest = 0.0, best1 = INFINITY, best5 = INFINITY;
    qsort(v, n, sizeof *v, by_score_desc);
    uint32_t groups = 0;
    for (size_t i = n; i-- > 0;) {
        groups += i + 1 == n || compare_scores(v[i].score, v[i + 1].score) != 0;
        v[i].rank = groups;
        if (isfinite(v[i].cost))
            slowest = fmax(slowest, v[i].cost);
        if (i < 1)
            best1 = fmin(best1, v[i].cost);
        if (i < 5)
            best5 = fmin(best5, v[i].cost);
    }
    qsort(v, n, sizeof *v, by_cost);
    out->best = v[0].cost;
    out->top1 = v[0].cost / best1;
    out->top5 = v[0].cost / best5;
    out->best1 = isfinite(best1) ? best1 : slowest;
    out->best5 = isfinite(best5) ? best5 : slowest;
    out->random1 = random_topk(v, n, 1);
    out->random5 = random_topk(v, n, 5);
    out->pairwise = concordance(v, n, 1.0, tree);
    out->pairwise_10pct = concordance(v, n, 1.1, tree);
    out->spearman = spearman(v, n, tree);
}

/* Sorts v. NaN when empty. */
static double median(double *v, size_t n)
{
    if (n == 0)
        return NAN;
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

/* Group programs by task (stable): start[t] .. start[t + 1] of order[]. start has n_tasks + 1 zeroed elements. */
static void group(const uint32_t *task, size_t n, uint32_t n_tasks, size_t *start, uint32_t *order)
{
    for (size_t i = 0; i < n; i++)
        start[task[i]]++;
    size_t sum = 0;
    for (uint32_t t = 0; t <= n_tasks; t++) {
        size_t count = t < n_tasks ? start[t] : 0;
        start[t] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        order[start[task[i]]++] = (uint32_t)i;
    memmove(start + 1, start, n_tasks * sizeof *start);
    start[0] = 0;
}

/* Share of the ascending errors that are at most ln factor. NaN when empty. */
static double within(const double *error, size_t n, double factor)
{
    size_t k = 0;
    while (k < n && error[k] <= log(factor))
        k++;
    return n ? (double)k / (double)n : NAN;
}

int tm_metrics_compute(const uint32_t *task, const double *cost, const double *score, const double *latency, size_t n,
                       uint32_t n_tasks, uint32_t min_programs, struct tm_metrics *out)
{
    int rc = -TP_E_NO_MEMORY;
    size_t *start = NULL;
    uint32_t *order = NULL, *tree = NULL;
    struct item *item = NULL;
    double *error = NULL;
    struct tm_metrics m = {0};
    struct mean top1 = {0}, top5 = {0}, random1 = {0}, random5 = {0}, pairwise = {0}, pairwise_10 = {0}, rho = {0},
                mape = {0};
    double best = 0.0, best1 = 0.0, best5 = 0.0;
    size_t n_error = 0;

    if (n >= UINT32_MAX)
        return rc; /* order[] and ranks are 32 bits */
    start = calloc((size_t)n_tasks + 1, sizeof *start);
    order = calloc(n + 1, sizeof *order);
    tree = calloc(n + 1, sizeof *tree);
    item = calloc(n + 1, sizeof *item);
    error = calloc(n + 1, sizeof *error);
    if (!start || !order || !tree || !item || !error)
        goto out;

    group(task, n, n_tasks, start, order);
    for (uint32_t t = 0; t < n_tasks; t++) {
        size_t count = start[t + 1] - start[t], valid = 0;
        struct ranking r;
        for (size_t i = 0; i < count; i++) {
            uint32_t p = order[start[t] + i];
            item[i] = (struct item){clean_cost(cost[p]), score[p], (uint32_t)i, 0, latency ? latency[p] : NAN};
            valid += isfinite(item[i].cost);
        }
        if (valid == 0 || valid < min_programs) {
            m.tasks_skipped++;
            continue;
        }
        m.tasks++;
        m.programs += (uint32_t)count;
        rank_task(item, count, tree, &r);
        mean_add(&top1, r.top1);
        mean_add(&top5, r.top5);
        best += r.best;
        best1 += r.best1;
        best5 += r.best5;
        mean_add(&random1, r.random1);
        mean_add(&random5, r.random5);
        mean_add(&pairwise, r.pairwise);
        mean_add(&pairwise_10, r.pairwise_10pct);
        mean_add(&rho, r.spearman);
        for (size_t i = 0; latency && i < valid; i++) { /* in cost order: failures are last */
            bool usable = isfinite(item[i].latency) && item[i].latency > 0.0;
            mean_add(&mape, usable ? fabs(item[i].latency - item[i].cost) / item[i].cost : INFINITY);
            error[n_error++] = usable ? fabs(log(item[i].latency / item[i].cost)) : INFINITY;
        }
    }
    m.top1_mean = mean_get(&top1);
    m.top5_mean = mean_get(&top5);
    m.top1_pooled = m.tasks ? best / best1 : NAN;
    m.top5_pooled = m.tasks ? best / best5 : NAN;
    m.pairwise = mean_get(&pairwise);
    m.pairwise_10pct = mean_get(&pairwise_10);
    m.random_top1_mean = mean_get(&random1);
    m.random_top5_mean = mean_get(&random5);
    m.spearman = mean_get(&rho);
    m.latency_mape = mean_get(&mape);
    m.latency_median_ln_error = median(error, n_error); /* sorts them */
    m.latency_within_1_25 = within(error, n_error, 1.25);
    m.latency_within_1_5 = within(error, n_error, 1.5);
    m.latency_within_2 = within(error, n_error, 2.0);
    *out = m;
    rc = 0;
out:
    free(error);
    free(item);
    free(tree);
    free(order);
    free(start);
    return rc;
}

int tm_metrics_task(const double *cost, const double *score, const double *latency, size_t n, struct tm_metrics *out)
{
    uint32_t *task = calloc(n ? n : 1, sizeof *task);
    int rc = task ? tm_metrics_compute(task, cost, score, latency, n, 1, 1, out) : -TP_E_NO_MEMORY;
    free(task);
    return rc;
}
