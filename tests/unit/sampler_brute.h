/* The greedy choice of docs/sampler.md in small pools, written down directly: in double, every score anew for every
 * pick, the posterior by inversion. Cells come from ts_kmeans(), seats from
 * ts_groups_init(). Header only, one owner. */
#ifndef SAMPLER_BRUTE_H
#define SAMPLER_BRUTE_H

#include "sampler/groups.h"
#include "sampler/kmeans.h"
#include "sampler/quota.h"
#include "tests/unit/sampler_pool.h"

enum { BRUTE_MAX = 400, BRUTE_DIM = 32, BRUTE_FEATURES = 8 };

struct brute {
    const struct ts_pool *p;
    const struct ts_opts *o;
    struct ts_weights w;
    double cap_quantile;
    bool by_cell;
    struct ts_cells cells;
    double x[BRUTE_MAX][BRUTE_DIM], phi[BRUTE_MAX][BRUTE_FEATURES], r[BRUTE_MAX], u2[BRUTE_MAX], d2[BRUTE_MAX];
    double cov[BRUTE_FEATURES][BRUTE_FEATURES], knot[BRUTE_MAX], cap;
    size_t n_knots;
    bool known[BRUTE_MAX];
    struct ts_groups groups; /* seats: those left */
};

static inline int brute_order(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : *(const double *)a > *(const double *)b;
}

static inline void brute_standardise(struct brute *b)
{
    const size_t n = b->p->n, dim = (size_t)b->p->dim, f = (size_t)b->p->n_features;
    double scale = 0.0;
    for (size_t j = 0; j < dim; j++) {
        double mean = 0.0, var = 0.0;
        for (size_t i = 0; i < n; i++)
            mean += (double)b->p->embedding[i * dim + j] / (double)n;
        for (size_t i = 0; i < n; i++)
            var += pow((double)b->p->embedding[i * dim + j] - mean, 2) / (double)n;
        for (size_t i = 0; i < n; i++)
            b->x[i][j] = ((double)b->p->embedding[i * dim + j] - mean) / sqrt(var);
    }
    for (size_t i = 0; i < n * f; i++)
        scale += (double)b->p->feature[i] * (double)b->p->feature[i] / (double)(n * f);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < f; j++)
            b->phi[i][j] = (double)b->p->feature[i * f + j] / sqrt(scale);
}

/* closeness to the centre: share of the cell that is farther, ties by half */
static inline void brute_closeness(struct brute *b)
{
    const struct ts_cells *c = &b->cells;
    for (size_t i = 0; i < b->p->n; i++) {
        double farther = 0.0, size = 0.0;
        for (size_t j = 0; j < b->p->n; j++) {
            if (c->cell[j] != c->cell[i])
                continue;
            size += 1.0;
            farther += c->distance[j] > c->distance[i] ? 1.0 : c->distance[j] == c->distance[i] ? 0.5 : 0.0;
        }
        b->r[i] = farther / size;
    }
}

/* (alpha I + sum of known phi phi^T / noise)^-1 by Gauss-Jordan */
static inline void brute_posterior(struct brute *b)
{
    const int f = b->p->n_features;
    double a[BRUTE_FEATURES][2 * BRUTE_FEATURES] = {{0}};
    for (int i = 0; i < f; i++) {
        a[i][i] = b->o->alpha;
        a[i][f + i] = 1.0;
        for (size_t k = 0; k < b->p->n; k++)
            for (int j = 0; j < f && b->known[k]; j++)
                a[i][j] += b->phi[k][i] * b->phi[k][j] / b->o->noise;
    }
    for (int c = 0; c < f; c++) { /* positive definite: no pivoting needed */
        const double pivot = a[c][c];
        for (int j = 0; j < 2 * f; j++)
            a[c][j] /= pivot;
        for (int i = 0; i < f; i++) {
            const double factor = i == c ? 0.0 : a[i][c];
            for (int j = 0; j < 2 * f; j++)
                a[i][j] -= factor * a[c][j];
        }
    }
    for (size_t k = 0; k < b->p->n; k++) {
        b->u2[k] = 0.0;
        for (int i = 0; i < f; i++)
            for (int j = 0; j < f; j++)
                b->u2[k] += b->phi[k][i] * a[i][f + j] * b->phi[k][j];
    }
}

static inline void brute_distances(struct brute *b)
{
    for (size_t i = 0; i < b->p->n; i++) {
        b->d2[i] = INFINITY;
        for (size_t k = 0; k < b->p->n; k++) {
            double d2 = 0.0;
            for (int j = 0; j < b->p->dim && b->known[k]; j++)
                d2 += pow(b->x[i][j] - b->x[k][j], 2);
            b->d2[i] = b->known[k] ? fmin(b->d2[i], d2) : b->d2[i];
        }
    }
}

static inline void brute_scale(struct brute *b)
{
    double v[BRUTE_MAX];
    size_t m = 0;
    b->n_knots = 0;
    for (size_t i = 0; i < b->p->n; i++) {
        if (b->known[i])
            continue;
        b->knot[b->n_knots++] = b->u2[i];
        if (isfinite(b->d2[i]))
            v[m++] = b->d2[i];
    }
    m = b->cap_quantile > 0 ? m : 0;
    if (m == 0 && b->cells.k) {
        for (size_t i = 0; i < b->p->n; i++)
            v[m++] = 2.0 * (double)b->cells.distance[i];
        qsort(v, m, sizeof *v, brute_order);
        b->cap = sqrt(v[(size_t)(0.95 * (double)(m - 1))]);
    } else if (m == 0) {
        for (size_t i = 0; i < b->p->n; i++) {
            v[i] = 0.0;
            for (int j = 0; j < b->p->dim; j++)
                v[i] += b->x[i][j] * b->x[i][j];
            v[0] = fmax(v[0], v[i]);
        }
        b->cap = 2.0 * sqrt(v[0]);
    } else {
        qsort(v, m, sizeof *v, brute_order);
        b->cap = sqrt(v[(size_t)(b->cap_quantile * (double)(m - 1))]);
    }
}

static inline void brute_score(const struct brute *b, size_t i, double *r, double *d, double *u, double *score)
{
    double below = 0.0;
    for (size_t k = 0; k < b->n_knots; k++)
        below += b->knot[k] < b->u2[i] - 1e-12 ? 1.0 : b->knot[k] <= b->u2[i] + 1e-12 ? 0.5 : 0.0;
    *r = b->r[i];
    *d = fmin(sqrt(b->d2[i]) / b->cap, 1.0);
    *u = below / (double)b->n_knots;
    double lowest = INFINITY;
    for (size_t k = 0; k < b->n_knots; k++)
        lowest = fmin(lowest, b->knot[k]);
    if (b->n_knots && b->u2[i] < lowest - 1e-12)
        *u = 0.5 / (double)b->n_knots * b->u2[i] / lowest;
    *score = b->o->form == TS_SUM && b->o->method == TS_RDU
                 ? b->w.r * *r + b->w.d * *d + b->w.u * *u
                 : (1 - b->w.r + b->w.r * *r) * (1 - b->w.d + b->w.d * *d) * (1 - b->w.u + b->w.u * *u);
}

/* picks[budget], as ts_select() gives them. */
static inline void brute_select(struct brute *b, const struct ts_pool *p, const struct ts_opts *o, size_t budget,
                                struct ts_pick *picks)
{
    struct ts_run run = {.workers = tm_pool_new(1)};
    struct ts_view v;
    size_t n = 0;
    *b = (struct brute){.p = p, .o = o, .w = o->weights, .cap_quantile = o->cap, .by_cell = o->by_cell};
    if (o->method != TS_RDU) {
        b->w = (struct ts_weights){
            .r = o->method == TS_REPRESENTATIVE, .d = o->method == TS_CORESET, .u = o->method == TS_UNCERTAINTY};
        b->by_cell = o->method == TS_REPRESENTATIVE;
        b->cap_quantile = 1.0;
    }
    ck_assert(p->n <= BRUTE_MAX && p->dim <= BRUTE_DIM && p->n_features <= BRUTE_FEATURES);
    ck_assert_int_eq(ts_view_init(&v, p, run.workers), 0);
    const bool cells = b->by_cell || b->w.r > 0;
    if (cells)
        ck_assert_int_eq(ts_kmeans(&b->cells, &v, ts_cell_count(p->n), o->seed, &run, 0, 1), 0);
    tm_pool_free(run.workers);
    for (size_t i = 0; i < p->n; i++)
        b->known[i] = p->known[i];
    brute_standardise(b);
    if (cells)
        brute_closeness(b);
    ck_assert_int_eq(ts_groups_init(&b->groups, p, b->by_cell ? b->cells.cell : NULL, budget, o->task_floor, o->seed),
                     0);
    for (int round = 0; round < o->rounds; round++) {
        brute_posterior(b);
        brute_distances(b);
        brute_scale(b);
        const size_t until = round + 1 == o->rounds ? budget : (size_t)((double)budget * (round + 1) / o->rounds + 0.5);
        for (; n < until; n++) {
            size_t best = BRUTE_MAX;
            double top = -1.0, r, d, u, score;
            brute_posterior(b);
            brute_distances(b);
            for (size_t i = 0; i < p->n; i++) {
                if (b->known[i] || b->groups.seats[b->groups.group[i]] == 0)
                    continue;
                brute_score(b, i, &r, &d, &u, &score);
                const bool tie = fabs(score - top) < 1e-9;
                if (tie ? (uint32_t)ts_mix(o->seed, i) < (uint32_t)ts_mix(o->seed, best) : score > top) {
                    best = i;
                    top = score;
                }
            }
            brute_score(b, best, &r, &d, &u, &score);
            picks[n] = (struct ts_pick){(uint32_t)best, (uint32_t)round, (float)r, (float)d, (float)u, (float)score};
            b->known[best] = true;
            b->groups.seats[b->groups.group[best]]--;
        }
    }
    ts_cells_free(&b->cells);
    ts_groups_free(&b->groups);
}

#endif
