/* Calibration: golden fit by gradient descent (tests/golden/metrics.py), recovery of a known map, and the degenerate
 * inputs. */
#include "model/calibrate.h"
#include "tests/golden/metrics.inc"

#include <check.h>
#include <math.h>
#include <stdlib.h>

enum { N_GOLDEN = sizeof golden_cost / sizeof golden_cost[0], GOLDEN_TASKS = 6 };

static double golden_min(uint32_t task)
{
    double best = INFINITY;
    for (int i = 0; i < N_GOLDEN; i++)
        if (golden_task[i] == task)
            best = fmin(best, golden_cost[i]);
    return best;
}

static double entropy(const double *s, const double *y, int n, double a, double b)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        double v = a * s[i] + b;
        sum += fmax(v, 0.0) + log1p(exp(-fabs(v))) - y[i] * v;
    }
    return sum / n;
}

START_TEST(agrees_with_gradient_descent)
{
    double s[N_GOLDEN], l[N_GOLDEN], a, b, shift;
    for (int i = 0; i < N_GOLDEN; i++) {
        s[i] = 0.3 * golden_score[i] - 4.0;
        l[i] = log(golden_latency[i]);
    }
    ck_assert_int_eq(tm_calibrate(s, l, golden_task, golden_cost, N_GOLDEN, GOLDEN_TASKS, &a, &b, &shift), 0);
    ck_assert_double_eq_tol(a, golden_calibration[0], 1e-4); /* the ridge moves the fit by about 1e-5 */
    ck_assert_double_eq_tol(b, golden_calibration[1], 4e-4);
    ck_assert_double_eq_tol(shift, golden_calibration[2], 1e-12);
    ck_assert(golden_min(3) == INFINITY); /* the golden data holds a task without a valid program */
}
END_TEST

START_TEST(recovers_a_known_map)
{
    enum { N = 1000 };
    static double s[N], l[N], y[N], cost[N];
    static uint32_t task[N];
    for (int i = 0; i < N; i++) {
        s[i] = -6.0 + 16.0 * i / (N - 1); /* up to y = 1 - 6e-8, so that dividing by the best changes no label */
        y[i] = 1.0 / (1.0 + exp(-(1.7 * s[i] - 0.4)));
        cost[i] = 1e-3 / y[i];
        l[i] = log(cost[i]) - 0.25;
    }
    double a, b, shift;
    ck_assert_int_eq(tm_calibrate(s, l, task, cost, N, 1, &a, &b, &shift), 0);
    ck_assert_double_eq_tol(a, 1.7, 1e-3);
    ck_assert_double_eq_tol(b, -0.4, 1e-3);
    ck_assert_double_eq_tol(shift, 0.25, 1e-9);
    double at = entropy(s, y, N, a, b);
    for (int k = 0; k < 8; k++) {
        double angle = k * 0.7853981633974483;
        ck_assert_double_gt(entropy(s, y, N, a + 0.01 * cos(angle), b + 0.01 * sin(angle)), at);
    }
}
END_TEST

START_TEST(the_fit_follows_shift_and_scale_of_the_scores)
{
    double s[N_GOLDEN], t[N_GOLDEN], l[N_GOLDEN], a, b, a2, b2, shift;
    for (int i = 0; i < N_GOLDEN; i++) {
        s[i] = golden_score[i];
        t[i] = 1e4 * golden_score[i] + 5e6;
        l[i] = log(golden_latency[i]);
    }
    ck_assert_int_eq(tm_calibrate(s, l, golden_task, golden_cost, N_GOLDEN, GOLDEN_TASKS, &a, &b, &shift), 0);
    ck_assert_int_eq(tm_calibrate(t, l, golden_task, golden_cost, N_GOLDEN, GOLDEN_TASKS, &a2, &b2, &shift), 0);
    /* a2 would be a / 1e4 < 1e-3: the floor holds and only b is fitted */
    ck_assert_double_eq(a2, 1e-3);
    for (int i = 0; i < N_GOLDEN; i++)
        t[i] = 0.1 * golden_score[i] + 50.0;
    ck_assert_int_eq(tm_calibrate(t, l, golden_task, golden_cost, N_GOLDEN, GOLDEN_TASKS, &a2, &b2, &shift), 0);
    ck_assert_double_eq_tol(a2, 10.0 * a, 1e-6 * a2);
    ck_assert_double_eq_tol(a2 * t[0] + b2, a * s[0] + b, 1e-6);
}
END_TEST

START_TEST(scores_that_rank_backwards_keep_a_positive_slope)
{
    const double s[] = {0, 1, 2, 3}, l[4] = {0}, cost[] = {1, 2, 3, 4};
    const uint32_t task[4] = {0};
    double a, b, shift;
    ck_assert_int_eq(tm_calibrate(s, l, task, cost, 4, 1, &a, &b, &shift), 0);
    ck_assert_double_eq(a, 1e-3);
    double mean = (1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 4) / 4;
    ck_assert_double_eq_tol(1.0 / (1.0 + exp(-(a * 1.5 + b))), mean, 1e-5);
}
END_TEST

START_TEST(separable_labels_stay_finite)
{
    const double s[] = {0, 1}, l[2] = {0}, cost[] = {INFINITY, 1e-3};
    const uint32_t task[2] = {0};
    double a, b, shift;
    ck_assert_int_eq(tm_calibrate(s, l, task, cost, 2, 1, &a, &b, &shift), 0);
    ck_assert(isfinite(a) && isfinite(b));
    ck_assert_double_gt(a + b, 5.0);
    ck_assert_double_lt(b, -5.0);
}
END_TEST

START_TEST(degenerate_inputs_give_the_identity)
{
    const double constant[] = {2, 2, 2}, l[] = {0, 0, 0}, cost[] = {1, 2, 4}, failed[] = {INFINITY, INFINITY, INFINITY};
    const double broken[] = {NAN, INFINITY, NAN}, s[] = {1, 2, 3};
    const uint32_t task[3] = {0};
    double a = 7, b = 7, shift = 7;
    ck_assert_int_eq(tm_calibrate(NULL, NULL, NULL, NULL, 0, 0, &a, &b, &shift), 0);
    ck_assert(a == 1 && b == 0 && shift == 0);
    ck_assert_int_eq(tm_calibrate(s, l, task, failed, 3, 1, &a, &b, &shift), 0);
    ck_assert(a == 1 && b == 0 && shift == 0);
    ck_assert_int_eq(tm_calibrate(broken, l, task, cost, 3, 1, &a, &b, &shift), 0);
    ck_assert(a == 1 && b == 0 && shift == 0);
    ck_assert_int_eq(tm_calibrate(constant, l, task, cost, 3, 1, &a, &b, &shift), 0);
    ck_assert(a == 1 && b == 0);
    ck_assert_double_eq_tol(shift, log(2.0), 1e-15);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model/calibrate");
    TCase *c = tcase_create("all");
    tcase_add_test(c, agrees_with_gradient_descent);
    tcase_add_test(c, recovers_a_known_map);
    tcase_add_test(c, the_fit_follows_shift_and_scale_of_the_scores);
    tcase_add_test(c, scores_that_rank_backwards_keep_a_positive_slope);
    tcase_add_test(c, separable_labels_stay_finite);
    tcase_add_test(c, degenerate_inputs_give_the_identity);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
