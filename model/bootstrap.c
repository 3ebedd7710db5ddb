/* The percentile bootstrap of a mean.
 *
 * 2.5 % of the draws lie below the lower end and 2.5 % above the upper one, by count; with one value both ends are that
 * value. Pure; any thread. */
#include "model/bootstrap.h"

#include "model/net.h"
#include "proto/err.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *pa, const void *pb)
{
    double a = *(const double *)pa, b = *(const double *)pb;
    return (a > b) - (a < b);
}

int tm_bootstrap_mean(const double *v, size_t n, uint64_t seed, struct tm_interval *out)
{
    int rc = -TP_E_NO_MEMORY;
    double *kept = calloc(n ? n : 1, sizeof *kept), *means = calloc(TM_BOOTSTRAP_DRAWS, sizeof *means);
    size_t m = 0;
    struct tm_rng rng;

    if (!kept || !means || n > UINT32_MAX)
        goto out;
    for (size_t i = 0; i < n; i++)
        if (!isnan(v[i]))
            kept[m++] = v[i];
    rc = 0;
    if (m == 0) {
        *out = (struct tm_interval){NAN, NAN};
        goto out;
    }
    tm_rng_seed(&rng, seed);
    for (int b = 0; b < TM_BOOTSTRAP_DRAWS; b++) {
        double sum = 0.0;
        for (size_t i = 0; i < m; i++)
            sum += kept[tm_rng_below(&rng, (uint32_t)m)];
        means[b] = sum / (double)m;
    }
    qsort(means, TM_BOOTSTRAP_DRAWS, sizeof *means, by_value);
    *out =
        (struct tm_interval){means[TM_BOOTSTRAP_DRAWS / 40], means[TM_BOOTSTRAP_DRAWS - 1 - TM_BOOTSTRAP_DRAWS / 40]};
out:
    free(means);
    free(kept);
    return rc;
}
