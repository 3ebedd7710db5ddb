/* Ranking metrics: golden values by brute force (tests/golden/metrics.py), and the rules for ties, failures and NaN one
 * by one. */
#include "model/metrics.h"
#include "tests/golden/metrics.inc"

#include <check.h>
#include <math.h>
#include <stdlib.h>

enum { N_GOLDEN = sizeof golden_cost / sizeof golden_cost[0], GOLDEN_TASKS = 6 };

static void close_to(double got, double want)
{
    if (isnan(want))
        ck_assert_double_nan(got);
    else
        ck_assert_double_eq_tol(got, want, 1e-12 * fmax(1.0, fabs(want)));
}

static void equals_golden(const struct tm_metrics *m, const double *want)
{
    ck_assert_uint_eq(m->tasks, (unsigned)want[0]);
    ck_assert_uint_eq(m->tasks_skipped, (unsigned)want[1]);
    ck_assert_uint_eq(m->programs, (unsigned)want[2]);
    close_to(m->top1_mean, want[3]);
    close_to(m->top5_mean, want[4]);
    close_to(m->top1_pooled, want[5]);
    close_to(m->top5_pooled, want[6]);
    close_to(m->pairwise, want[7]);
    close_to(m->pairwise_10pct, want[8]);
    close_to(m->random_top1_mean, want[9]);
    close_to(m->random_top5_mean, want[10]);
    close_to(m->spearman, want[11]);
    close_to(m->latency_mape, want[12]);
    close_to(m->latency_median_ln_error, want[13]);
    close_to(m->latency_within_1_25, want[14]);
    close_to(m->latency_within_1_5, want[15]);
    close_to(m->latency_within_2, want[16]);
}

START_TEST(agrees_with_brute_force)
{
    struct tm_metrics m;
    ck_assert_int_eq(
        tm_metrics_compute(golden_task, golden_cost, golden_score, golden_latency, N_GOLDEN, GOLDEN_TASKS, 1, &m), 0);
    equals_golden(&m, golden_all);
}
END_TEST

START_TEST(skips_tasks_with_too_few_valid_programs)
{
    struct tm_metrics m;
    ck_assert_int_eq(
        tm_metrics_compute(golden_task, golden_cost, golden_score, golden_latency, N_GOLDEN, GOLDEN_TASKS, 6, &m), 0);
    equals_golden(&m, golden_min6);
}
END_TEST

START_TEST(without_latency_its_figures_are_nan_and_the_rest_stays)
{
    struct tm_metrics m;
    ck_assert_int_eq(tm_metrics_compute(golden_task, golden_cost, golden_score, NULL, N_GOLDEN, GOLDEN_TASKS, 1, &m),
                     0);
    ck_assert_double_nan(m.latency_mape);
    ck_assert_double_nan(m.latency_median_ln_error);
    ck_assert_double_nan(m.latency_within_1_5);
    close_to(m.pairwise, golden_all[7]);
}
END_TEST

START_TEST(nothing_at_all_gives_nan)
{
    struct tm_metrics m;
    ck_assert_int_eq(tm_metrics_compute(NULL, NULL, NULL, NULL, 0, 0, 1, &m), 0);
    ck_assert_uint_eq(m.tasks, 0);
    ck_assert_double_nan(m.top1_mean);
    ck_assert_double_nan(m.top1_pooled);
    ck_assert_double_nan(m.pairwise);
}
END_TEST

START_TEST(equal_scores_keep_the_order_of_the_arrays)
{
    const double cost[] = {4.0, 1.0, 2.0}, score[] = {1.0, 1.0, 1.0};
    struct tm_metrics m;
    ck_assert_int_eq(tm_metrics_task(cost, score, NULL, 3, &m), 0);
    close_to(m.top1_mean, 0.25);
    close_to(m.top5_mean, 1.0);
    close_to(m.pairwise, 0.5);
    ck_assert_double_nan(m.spearman);
}
END_TEST

START_TEST(nan_scores_come_last_even_behind_minus_infinity)
{
    const double cost[] = {1.0, 2.0, 3.0}, score[] = {NAN, -INFINITY, NAN};
    struct tm_metrics m;
    ck_assert_int_eq(tm_metrics_task(cost, score, NULL, 3, &m), 0);
    close_to(m.top1_mean, 0.5);
    close_to(m.pairwise, (0.0 + 0.5 + 1.0) / 3.0); /* (1,2) wrong, (1,3) tie, (2,3) right */
}
END_TEST

START_TEST(a_failure_ranked_first_scores_zero_and_pools_as_the_slowest)
{
    const double cost[] = {INFINITY, 1.0, 2.0, 8.0}, score[] = {9.0, 3.0, 2.0, 1.0};
    struct tm_metrics m;
    ck_assert_int_eq(tm_metrics_task(cost, score, NULL, 4, &m), 0);
    close_to(m.top1_mean, 0.0);
    close_to(m.top1_pooled, 1.0 / 8.0);
    close_to(m.top5_mean, 1.0);
    close_to(m.pairwise, 0.5);
    ck_assert_uint_eq(m.programs, 4);
}
END_TEST

START_TEST(costs_that_are_not_positive_numbers_count_as_failures)
{
    const double cost[] = {0.0, -1.0, NAN, 2.0}, score[] = {1.0, 1.0, 1.0, 2.0};
    struct tm_metrics m;
    ck_assert_int_eq(tm_metrics_task(cost, score, NULL, 4, &m), 0);
    ck_assert_uint_eq(m.tasks, 1);
    close_to(m.top1_mean, 1.0);
    close_to(m.pairwise, 1.0);
}
END_TEST

START_TEST(a_perfect_order_gives_one_everywhere)
{
    enum { N = 500 };
    double cost[N], score[N];
    for (int i = 0; i < N; i++) {
        cost[i] = exp(0.01 * ((i * 37) % N));
        score[i] = -cost[i];
    }
    struct tm_metrics m;
    ck_assert_int_eq(tm_metrics_task(cost, score, cost, N, &m), 0);
    close_to(m.top1_mean, 1.0);
    close_to(m.pairwise, 1.0);
    close_to(m.pairwise_10pct, 1.0);
    close_to(m.spearman, 1.0);
    close_to(m.latency_mape, 0.0);
}
END_TEST

START_TEST(a_latency_that_is_no_number_is_an_infinite_error)
{
    const double cost[] = {1.0, 2.0, 3.0}, score[] = {3.0, 2.0, 1.0}, latency[] = {1.0, NAN, 3.0};
    struct tm_metrics m;
    ck_assert_int_eq(tm_metrics_task(cost, score, latency, 3, &m), 0);
    ck_assert_double_infinite(m.latency_mape);
    close_to(m.latency_median_ln_error, 0.0);
    close_to(m.latency_within_2, 2.0 / 3.0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model/metrics");
    TCase *c = tcase_create("all");
    tcase_add_test(c, agrees_with_brute_force);
    tcase_add_test(c, skips_tasks_with_too_few_valid_programs);
    tcase_add_test(c, without_latency_its_figures_are_nan_and_the_rest_stays);
    tcase_add_test(c, nothing_at_all_gives_nan);
    tcase_add_test(c, equal_scores_keep_the_order_of_the_arrays);
    tcase_add_test(c, nan_scores_come_last_even_behind_minus_infinity);
    tcase_add_test(c, a_failure_ranked_first_scores_zero_and_pools_as_the_slowest);
    tcase_add_test(c, costs_that_are_not_positive_numbers_count_as_failures);
    tcase_add_test(c, a_perfect_order_gives_one_everywhere);
    tcase_add_test(c, a_latency_that_is_no_number_is_an_infinite_error);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
