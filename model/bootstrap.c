/* The percentile bootstrap of a mean, and of the mean of a table.
 *
 * 2.5 % of the draws lie below the lower end and 2.5 % above the upper one, by count; with one value both ends are that
 * value. Pure; any thread. */
#include "model/bootstrap.h"

#include "model/net.h"
#include "proto/err.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static int by_value(const void *pa, const void *pb)
{
    double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

/* Sorts the means. Draws without any value are left out: NaN sorts nowhere. */
static struct tm_interval percentiles(double *means, size_t draws)
{
    if (draws == 0)
        return (struct tm_interval){NAN, NAN};
    qsort(means, draws, sizeof *means, by_value);
    return (struct tm_interval){means[draws / 40], means[draws - 1 - draws / 40]};
}

int tm_bootstrap_mean(const double *v, size_t n, uint64_t seed, struct tm_interval *out)
{
    return tm_bootstrap_crossed(v, 1, n, seed, out);
}

/* Columns without a value in any row are none. */
static size_t filled_columns(const double *v, size_t runs, size_t n, uint32_t *column)
{
    size_t m = 0;
    for (size_t j = 0; j < n; j++) {
        bool any = false;
        for (size_t r = 0; r < runs; r++)
            any |= !isnan(v[r * n + j]);
        if (any)
            column[m++] = (uint32_t)j;
    }
    return m;
}

int tm_bootstrap_crossed(const double *v, size_t runs, size_t n, uint64_t seed, struct tm_interval *out)
{
    int rc = -TP_E_NO_MEMORY;
    double *means = calloc(TM_BOOTSTRAP_DRAWS, sizeof *means);
    uint32_t *column = calloc(n ? n : 1, sizeof *column), *row = calloc(runs ? runs : 1, sizeof *row);
    size_t m, draws = 0;
    struct tm_rng rng;

    if (!means || !column || !row || n > UINT32_MAX || runs > UINT32_MAX)
        goto out;
    rc = 0;
    m = filled_columns(v, runs, n, column);
    tm_rng_seed(&rng, seed);
    for (int b = 0; b < TM_BOOTSTRAP_DRAWS && m; b++) {
        double sum = 0.0;
        size_t count = 0;
        for (size_t r = 0; r < runs; r++)
            row[r] = runs > 1 ? tm_rng_below(&rng, (uint32_t)runs) : 0;
        for (size_t i = 0; i < m; i++) {
            const size_t j = column[tm_rng_below(&rng, (uint32_t)m)];
            for (size_t r = 0; r < runs; r++) {
                const double x = v[row[r] * n + j];
                sum += isnan(x) ? 0 : x;
                count += !isnan(x);
            }
        }
        if (count)
            means[draws++] = sum / (double)count;
    }
    *out = percentiles(means, draws);
out:
    free(row);
    free(column);
    free(means);
    return rc;
}
