#include "lab/search.h"

#include "model/net.h"
#include "proto/err.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

double tl_search_goal(const double *seen, const double *judged, uint32_t n, double within)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (seen[i] < seen[best])
            best = i;
    return judged[best] * (1 + within);
}

uint32_t tl_search_needed(const struct tl_search_task *t, const uint32_t *order)
{
    uint32_t choice = order[0], i = 1;
    while (t->judged[choice] > t->goal && i < t->n) {
        if (t->seen[order[i]] < t->seen[choice])
            choice = order[i];
        i++;
    }
    return i;
}

uint32_t tl_search_in_rounds(uint32_t needed, uint32_t n, uint32_t round)
{
    uint32_t whole = (needed + round - 1) / round * round;
    return whole < n ? whole : n;
}

void tl_search_curve(const struct tl_search_task *t, const uint32_t *order, double weight, double *curve,
                     uint32_t n_curve)
{
    double best = tl_search_goal(t->seen, t->judged, t->n, 0);
    uint32_t choice = order[0];
    for (uint32_t i = 0; i < n_curve; i++) {
        if (i < t->n && t->seen[order[i]] < t->seen[choice])
            choice = order[i];
        curve[i] += weight * best / t->judged[choice];
    }
}

void tl_search_random_exact(uint32_t n, uint32_t k, uint32_t round, struct tl_search_random *out)
{
    double more = 1; /* P(more than m - 1 are needed) = C(n - k, m - 1) / C(n, m - 1) */
    *out = (struct tl_search_random){.needed = (n + 1.0) / (k + 1.0)};
    for (uint32_t m = 1; m <= n && more > 0; m++) {
        if ((m - 1) % round == 0)
            out->in_rounds += more * (round < n - m + 1 ? round : n - m + 1);
        double now = more * k / (n - m + 1.0);
        out->ln_needed += now * log(m);
        out->first_round += m <= round ? now : 0;
        more = n - k >= m ? more - now : 0;
    }
}

void tl_search_random_drawn(const struct tl_search_task *t, uint32_t round, uint32_t draws, uint64_t seed,
                            uint32_t *order, struct tl_search_random *out)
{
    struct tm_rng rng;
    tm_rng_seed(&rng, seed);
    *out = (struct tl_search_random){0};
    for (uint32_t i = 0; i < t->n; i++)
        order[i] = i;
    for (uint32_t d = 0; d < draws; d++) {
        tm_rng_shuffle(&rng, order, t->n);
        uint32_t m = tl_search_needed(t, order);
        out->needed += m / (double)draws;
        out->in_rounds += tl_search_in_rounds(m, t->n, round) / (double)draws;
        out->ln_needed += log(m) / draws;
        out->first_round += (m <= round) / (double)draws;
    }
}

struct by_value {
    const double *v;
    double sign; /* -1: descending */
};

static int by_value(const void *a, const void *b, void *arg)
{
    const struct by_value *k = arg;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    double x = k->sign * k->v[i], y = k->sign * k->v[j];
    if (isnan(x) || isnan(y))
        return isnan(x) != isnan(y) ? (isnan(x) ? 1 : -1) : (i > j) - (i < j);
    return x != y ? (x > y) - (x < y) : (i > j) - (i < j);
}

static void sort_by(const double *v, double sign, uint32_t *order, uint32_t n)
{
    struct by_value k = {v, sign};
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, n, sizeof *order, by_value, &k);
}

void tl_search_random_curve(const struct tl_search_task *t, double weight, double *curve, uint32_t n_curve,
                            uint32_t *order)
{
    double best = tl_search_goal(t->seen, t->judged, t->n, 0);
    sort_by(t->seen, 1, order, t->n);
    for (uint32_t c = 0; c < n_curve; c++) {
        uint32_t m = c < t->n ? c + 1 : t->n;
        double p = (double)m / t->n, sum = 0; /* of rank 0; then C(n-2-i, m-1) / C(n-1-i, m-1) times that of rank i */
        for (uint32_t i = 0; i + m <= t->n && p > 0; i++) {
            sum += p * best / t->judged[order[i]];
            p *= i + m < t->n ? (double)(t->n - i - m) / (t->n - 1 - i) : 0;
        }
        curve[c] += weight * sum;
    }
}

int tl_search_order(const double *score, uint32_t n, double epsilon, uint64_t seed, uint32_t *order)
{
    uint32_t *ranked = malloc((n + 1) * sizeof *ranked), next = 0;
    bool *taken = calloc(n + 1, sizeof *taken);
    int rc = ranked && taken ? 0 : -TP_E_NO_MEMORY;
    struct tm_rng rng;
    tm_rng_seed(&rng, seed);
    if (rc == 0)
        sort_by(score, -1, ranked, n);
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        while (taken[ranked[next]])
            next++;
        uint32_t p = ranked[next];
        if (epsilon > 0 && tm_rng_uniform(&rng) < epsilon) {
            uint32_t skip = tm_rng_below(&rng, n - i); /* of those that are left */
            for (p = 0; taken[p] || skip-- > 0; p++)
                ;
        }
        taken[p] = true;
        order[i] = p;
    }
    free(ranked);
    free(taken);
    return rc;
}
