/* Core counts from quotas, and thread counts from cores. */
#include "daemon/cores.h"

#include <check.h>
#include <sched.h>
#include <stdlib.h>

START_TEST(a_quota_is_rounded_up_to_cores)
{
    ck_assert_int_eq(td_cores_of_quota("200000 100000\n"), 2);
    ck_assert_int_eq(td_cores_of_quota("150000 100000\n"), 2);
    ck_assert_int_eq(td_cores_of_quota("1000 100000\n"), 1);
    ck_assert_int_eq(td_cores_of_quota("50000 25000"), 2);
}
END_TEST

START_TEST(no_quota_is_no_limit)
{
    ck_assert_int_eq(td_cores_of_quota("max 100000\n"), 0);
    ck_assert_int_eq(td_cores_of_quota("-1 100000"), 0);
    ck_assert_int_eq(td_cores_of_quota("100000 0"), 0);
    ck_assert_int_eq(td_cores_of_quota(""), 0);
}
END_TEST

START_TEST(the_affinity_mask_limits_the_cores)
{
    cpu_set_t one;
    ck_assert_int_ge(td_cores(), 1);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0)
        ck_assert_int_eq(td_cores(), 1);
}
END_TEST

START_TEST(two_cores_get_one_thread_of_each_kind_but_two_for_http)
{
    struct td_config c;
    struct td_threads t;
    ck_assert_int_eq(td_config_defaults(&c), 0);
    td_threads_resolve(&c, 2, &t);
    ck_assert(t.http == 2 && t.predict == 1 && t.express == 1 && t.api == 2 && t.train == 1);
    td_threads_resolve(&c, 1, &t);
    ck_assert(t.http == 1 && t.predict == 1 && t.express == 1 && t.api == 2 && t.train == 1);
    td_threads_resolve(&c, 16, &t);
    ck_assert(t.http == 4 && t.predict == 8 && t.express == 4 && t.api == 4 && t.train == 8);
    td_threads_resolve(&c, 128, &t);
    ck_assert(t.http == 16 && t.predict == 64 && t.express == 8 && t.api == 8 && t.train == 64);
    td_config_free(&c);
}
END_TEST

START_TEST(what_is_configured_wins)
{
    struct td_config c;
    struct td_threads t;
    ck_assert_int_eq(td_config_defaults(&c), 0);
    ck_assert_int_eq(td_config_set(&c, "http_threads", "3", NULL), 0);
    ck_assert_int_eq(td_config_set(&c, "predict_threads", "5", NULL), 0);
    td_threads_resolve(&c, 2, &t);
    ck_assert(t.http == 3 && t.predict == 5 && t.train == 1);
    td_config_free(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon_cores");
    TCase *c = tcase_create("all");
    tcase_add_test(c, a_quota_is_rounded_up_to_cores);
    tcase_add_test(c, no_quota_is_no_limit);
    tcase_add_test(c, the_affinity_mask_limits_the_cores);
    tcase_add_test(c, two_cores_get_one_thread_of_each_kind_but_two_for_http);
    tcase_add_test(c, what_is_configured_wins);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
