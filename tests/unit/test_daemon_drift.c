/* The running comparison of predicted and measured latency, and policies as texts. */
#include "daemon/drift.h"

#include "daemon/policy.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct td_drift *x;

static void setup(void)
{
    x = td_drift_new();
    ck_assert_ptr_nonnull(x);
}

static void teardown(void)
{
    td_drift_free(x);
}

/* n measurements that are off by `factor`, one up, one down. */
static void add(int64_t model, int n, double factor)
{
    for (int i = 0; i < n; i++)
        td_drift_add(x, "a", model, 1e-3, i % 2 != 0 ? 1e-3 * factor : 1e-3 / factor);
}

START_TEST(nothing_compared_tells_nothing)
{
    struct td_drift_view v;

    ck_assert(!td_drift_get(x, "a", 1, &v));
    ck_assert(!td_drift_get(NULL, "a", 1, &v));
    td_drift_add(x, "a", 1, 1e-3, (double)INFINITY);
    ck_assert(!td_drift_get(x, "a", 1, &v));
}
END_TEST

START_TEST(the_error_is_the_median_of_the_last_ones)
{
    struct td_drift_view v;

    add(1, 10, exp(0.25));
    ck_assert(td_drift_get(x, "a", 1, &v));
    ck_assert_int_eq(v.programs, 10);
    ck_assert_double_eq_tol(v.error, 0.25, 1e-6);
    ck_assert_double_eq_tol(v.bias, 0, 1e-6);
    ck_assert(isnan(v.base) && isnan(v.ratio));
    td_drift_add(x, "b", 1, 1e-3, 2e-3);
    ck_assert(td_drift_get(x, "b", 1, &v));
    ck_assert_double_eq_tol(v.bias, log(2), 1e-6);
}
END_TEST

START_TEST(drift_is_the_error_over_that_of_the_beginning)
{
    struct td_drift_view v;

    add(1, TD_DRIFT_BASE, exp(0.2));
    add(1, TD_DRIFT_WINDOW - 1, exp(0.6));
    ck_assert(td_drift_get(x, "a", 1, &v));
    ck_assert_double_eq_tol(v.base, 0.2, 1e-6);
    ck_assert(isnan(v.ratio)); /* a beginning is in the window still */
    add(1, 1, exp(0.6));
    ck_assert(td_drift_get(x, "a", 1, &v));
    ck_assert_double_eq_tol(v.error, 0.6, 1e-6);
    ck_assert_double_eq_tol(v.ratio, 3, 1e-4);
}
END_TEST

START_TEST(noise_is_no_drift)
{
    struct td_drift_view v;

    add(1, TD_DRIFT_BASE, exp(0.001));
    add(1, TD_DRIFT_WINDOW, exp(0.02));
    ck_assert(td_drift_get(x, "a", 1, &v));
    ck_assert_double_eq_tol(v.ratio, 0.02 / TD_DRIFT_FLOOR, 1e-4);
}
END_TEST

START_TEST(another_model_begins_anew)
{
    struct td_drift_view v;

    add(1, 200, exp(0.5));
    add(2, 1, exp(0.1));
    ck_assert(!td_drift_get(x, "a", 1, &v)); /* what it had drifted says nothing of the other */
    ck_assert(td_drift_get(x, "a", 2, &v));
    ck_assert_int_eq(v.programs, 1);
    ck_assert(isnan(v.base));
    td_drift_forget(x, "a");
    ck_assert(!td_drift_get(x, "a", 2, &v));
}
END_TEST

START_TEST(a_policy_is_what_was_written)
{
    struct td_policy p = {.measurements = 500, .drift = 1.5, .cooldown_seconds = 60}, q;
    struct tp_buf b = {0};

    td_policy_write(&p, &b);
    tp_buf_putc(&b, 0);
    ck_assert_str_eq(b.p, "{\"measurements\": 500, \"drift\": 1.5, \"cooldown_seconds\": 60}");
    td_policy_read(&q, b.p);
    ck_assert_int_eq(q.measurements, 500);
    ck_assert_double_eq(q.drift, 1.5);
    ck_assert_int_eq(q.cooldown_seconds, 60);
    ck_assert(td_policy_on(&q));
    tp_buf_free(&b);
    td_policy_read(&q, NULL);
    ck_assert(!td_policy_on(&q));
    td_policy_read(&q, "no JSON");
    ck_assert(!td_policy_on(&q));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon/drift");
    TCase *t = tcase_create("drift");
    SRunner *r;
    int bad;

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, nothing_compared_tells_nothing);
    tcase_add_test(t, the_error_is_the_median_of_the_last_ones);
    tcase_add_test(t, drift_is_the_error_over_that_of_the_beginning);
    tcase_add_test(t, noise_is_no_drift);
    tcase_add_test(t, another_model_begins_anew);
    tcase_add_test(t, a_policy_is_what_was_written);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad > 0;
}
