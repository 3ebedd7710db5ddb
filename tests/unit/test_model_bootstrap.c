/* The bootstrap of a mean: coverage on data whose mean is known, and the degenerate inputs. */
#include "model/bootstrap.h"
#include "model/net.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

START_TEST(about_95_of_100_intervals_hold_the_true_mean)
{
    enum { N = 60, ROUNDS = 200 };
    struct tm_rng rng;
    int held = 0;
    tm_rng_seed(&rng, 7);
    for (int r = 0; r < ROUNDS; r++) {
        double v[N];
        struct tm_interval x;
        for (int i = 0; i < N; i++)
            v[i] = 3.0 + tm_rng_uniform(&rng) + tm_rng_uniform(&rng) - tm_rng_uniform(&rng); /* mean 3.5 */
        ck_assert_int_eq(tm_bootstrap_mean(v, N, 1, &x), 0);
        ck_assert_double_lt(x.lo, x.hi);
        held += x.lo <= 3.5 && 3.5 <= x.hi;
    }
    ck_assert_int_ge(held, 180);
    ck_assert_int_le(held, 199);
}
END_TEST

START_TEST(width_is_that_of_the_normal_approximation)
{
    enum { N = 400 };
    double v[N], mean = 0, var = 0;
    struct tm_interval x;
    struct tm_rng rng;
    tm_rng_seed(&rng, 3);
    for (int i = 0; i < N; i++)
        mean += (v[i] = tm_rng_uniform(&rng)) / N;
    for (int i = 0; i < N; i++)
        var += (v[i] - mean) * (v[i] - mean) / N;
    ck_assert_int_eq(tm_bootstrap_mean(v, N, 1, &x), 0);
    ck_assert_double_eq_tol((x.hi - x.lo) / (2 * 1.96 * sqrt(var / N)), 1.0, 0.06);
    ck_assert_double_eq_tol(0.5 * (x.lo + x.hi), mean, 0.1 * (x.hi - x.lo));
}
END_TEST

START_TEST(same_seed_same_interval)
{
    const double v[] = {0.1, 0.9, 0.4, 0.7, 0.2, 0.8};
    struct tm_interval a, b, c;
    ck_assert_int_eq(tm_bootstrap_mean(v, 6, 5, &a), 0);
    ck_assert_int_eq(tm_bootstrap_mean(v, 6, 5, &b), 0);
    ck_assert_int_eq(tm_bootstrap_mean(v, 6, 6, &c), 0);
    ck_assert(a.lo == b.lo && a.hi == b.hi);
    ck_assert(a.lo != c.lo || a.hi != c.hi);
}
END_TEST

START_TEST(nan_values_are_left_out)
{
    const double v[] = {0.1, NAN, 0.9, 0.4, NAN}, w[] = {0.1, 0.9, 0.4};
    struct tm_interval a, b;
    ck_assert_int_eq(tm_bootstrap_mean(v, 5, 1, &a), 0);
    ck_assert_int_eq(tm_bootstrap_mean(w, 3, 1, &b), 0);
    ck_assert(a.lo == b.lo && a.hi == b.hi);
}
END_TEST

START_TEST(nothing_gives_nan_and_one_value_gives_itself)
{
    const double nan = NAN, one = 0.25;
    struct tm_interval x;
    ck_assert_int_eq(tm_bootstrap_mean(NULL, 0, 1, &x), 0);
    ck_assert(isnan(x.lo) && isnan(x.hi));
    ck_assert_int_eq(tm_bootstrap_mean(&nan, 1, 1, &x), 0);
    ck_assert(isnan(x.lo) && isnan(x.hi));
    ck_assert_int_eq(tm_bootstrap_mean(&one, 1, 1, &x), 0);
    ck_assert(x.lo == 0.25 && x.hi == 0.25);
}
END_TEST

/* Two runs of 50 tasks whose values hang on the task alone: the second run tells nothing new. */
START_TEST(repeated_runs_do_not_narrow_the_crossed_interval)
{
    enum { N = 50, RUNS = 8 };
    double v[RUNS][N];
    struct tm_interval one, many;
    struct tm_rng rng;
    tm_rng_seed(&rng, 11);
    for (int i = 0; i < N; i++)
        for (int r = 0; r < RUNS; r++)
            v[r][i] = r ? v[0][i] : tm_rng_uniform(&rng);
    ck_assert_int_eq(tm_bootstrap_mean(v[0], N, 1, &one), 0);
    ck_assert_int_eq(tm_bootstrap_crossed(v[0], RUNS, N, 1, &many), 0);
    ck_assert_double_eq_tol((many.hi - many.lo) / (one.hi - one.lo), 1.0, 0.06);
}
END_TEST

/* Values that hang on the run alone: the interval is that of so many runs, however many tasks there are. */
START_TEST(the_crossed_interval_knows_how_few_runs_there_are)
{
    enum { N = 400, RUNS = 3 };
    static double v[RUNS][N];
    struct tm_interval x;
    for (int r = 0; r < RUNS; r++)
        for (int i = 0; i < N; i++)
            v[r][i] = r;
    ck_assert_int_eq(tm_bootstrap_crossed(v[0], RUNS, N, 1, &x), 0);
    ck_assert_double_eq_tol(x.lo, 0.0, 1e-12); /* one draw in 27 takes one run three times */
    ck_assert_double_eq_tol(x.hi, 2.0, 1e-12);
}
END_TEST

START_TEST(a_constant_difference_has_a_point_as_paired_interval)
{
    enum { N = 30 };
    double d[2][N];
    struct tm_interval x;
    for (int i = 0; i < N; i++) {
        d[0][i] = (0.25 + i) - i; /* tasks differ a lot, the models by the same everywhere */
        d[1][i] = i == 3 ? NAN : 0.25;
    }
    ck_assert_int_eq(tm_bootstrap_crossed(d[0], 2, N, 1, &x), 0);
    ck_assert_double_eq_tol(x.lo, 0.25, 1e-12);
    ck_assert_double_eq_tol(x.hi, 0.25, 1e-12);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model/bootstrap");
    TCase *c = tcase_create("all");
    tcase_add_test(c, about_95_of_100_intervals_hold_the_true_mean);
    tcase_add_test(c, width_is_that_of_the_normal_approximation);
    tcase_add_test(c, same_seed_same_interval);
    tcase_add_test(c, nan_values_are_left_out);
    tcase_add_test(c, nothing_gives_nan_and_one_value_gives_itself);
    tcase_add_test(c, repeated_runs_do_not_narrow_the_crossed_interval);
    tcase_add_test(c, the_crossed_interval_knows_how_few_runs_there_are);
    tcase_add_test(c, a_constant_difference_has_a_point_as_paired_interval);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
