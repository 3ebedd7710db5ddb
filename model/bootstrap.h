/* Confidence intervals by the bootstrap (Efron 1979, percentile method). */
#ifndef TM_BOOTSTRAP_H
#define TM_BOOTSTRAP_H

#include <stddef.h>
#include <stdint.h>

enum { TM_BOOTSTRAP_DRAWS = 2000 };

struct tm_interval {
    double lo, hi; /* 95 % */
};

/* Interval of the mean of v[0..n): the middle 95 % of the means of TM_BOOTSTRAP_DRAWS samples of as many values, drawn
 * with replacement. With one value per task it says how far the figure hangs on which tasks were at hand. NaN values
 * are left out; both ends are NaN when none is left. Depends on the values, their order and the seed alone. Pure; any
 * thread. Returns 0 or -TP_E_NO_MEMORY (*out untouched). */
int tm_bootstrap_mean(const double *v, size_t n, uint64_t seed, struct tm_interval *out);

/* Interval of the mean of the table v[runs][n], say n tasks of so many training runs: each draw takes as many columns
 * and as many rows with replacement and averages where they cross (Owen 2007, "The pigeonhole bootstrap"; somewhat
 * wide, never narrow). The values of a task in several runs are no independent values, and this does not count them as
 * such. For the difference of two models give the table of differences: the interval is then paired. NaN, seed, errors
 * as above; with one run it is tm_bootstrap_mean(). */
int tm_bootstrap_crossed(const double *v, size_t runs, size_t n, uint64_t seed, struct tm_interval *out);

#endif
