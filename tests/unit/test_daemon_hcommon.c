/* Entity tags, times, words of control bodies, and the check of a record's target. */
#include "daemon/hcommon.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(if_none_match_lists_are_searched)
{
    ck_assert(td_etag_listed("\"abc\"", "abc"));
    ck_assert(td_etag_listed("\"x\", \"abc\"", "abc"));
    ck_assert(td_etag_listed("W/\"abc\"", "abc"));
    ck_assert(td_etag_listed("*", "abc"));
    ck_assert(td_etag_listed(" , \"a,b\" ,\"abc\"", "abc"));
}
END_TEST

START_TEST(other_or_malformed_tags_do_not_match)
{
    static const char *const no[] = {"", "abc", "\"abcd\"", "\"ab\"", "\"abc", "\"x\" \"y\"", "W/abc", "\"ABC\""};

    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        ck_assert_msg(!td_etag_listed(no[i], "abc"), "%s", no[i]);
}
END_TEST

START_TEST(times_are_rfc_3339_in_utc)
{
    static const struct {
        int64_t ms;
        const char *text;
    } t[] = {{0, "null"}, {1700000000000, "\"2023-11-14T22:13:20Z\""}, {1700000000007, "\"2023-11-14T22:13:20.007Z\""}};

    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        struct tp_buf b = {0};

        td_json_time(&b, t[i].ms);
        ck_assert_uint_eq(b.n, strlen(t[i].text));
        ck_assert_mem_eq(b.p, t[i].text, b.n);
        tp_buf_free(&b);
    }
}
END_TEST

START_TEST(a_word_of_a_body_is_compared_whole)
{
    static const char *const names[] = {"auto", "never", NULL};
    json_t *o = json_pack("{s:s, s:s%, s:s, s:i}", "good", "never", "nul", "never\0x", (size_t)7, "long", "nevermore",
                          "number", 1);
    struct tp_err e = {0};
    int v = 0;

    ck_assert_ptr_nonnull(o);
    ck_assert_int_eq(td_body_enum(o, "good", names, &v, &e), 0);
    ck_assert_int_eq(v, 1);
    ck_assert_int_eq(td_body_enum(o, "nul", names, &v, &e), -TP_E_BAD_PARAMETER);
    ck_assert_str_eq(e.pointer, "/nul");
    ck_assert_int_eq(td_body_enum(o, "long", names, &v, &e), -TP_E_BAD_PARAMETER);
    ck_assert_int_eq(td_body_enum(o, "number", names, &v, &e), -TP_E_BAD_PARAMETER);
    ck_assert_int_eq(td_body_enum(o, "absent", names, &v, &e), 0);
    json_decref(o);
}
END_TEST

static int fit(struct td_fit *f, const char *target, enum tp_target_kind hw, struct tp_err *e)
{
    struct tp_record r = {0};

    r.task.target = (struct tp_str){target, (uint32_t)strlen(target)};
    return td_fit_check(f, &r, hw, e);
}

START_TEST(a_target_must_fit_the_kind_of_the_hardware)
{
    struct td_fit f = {0};
    struct tp_err e = {0};

    for (int round = 0; round < 2; round++) { /* the second time from memory */
        ck_assert_int_eq(fit(&f, "llvm -mcpu=core-avx2", TP_TARGET_CPU, &e), 0);
        ck_assert_int_eq(fit(&f, "llvm -mcpu=core-avx2", TP_TARGET_GPU, &e), -TP_E_WRONG_TARGET);
        ck_assert_str_eq(e.pointer, "/i/0/1");
        ck_assert_int_eq(fit(&f, "cuda -arch=sm_80", TP_TARGET_CPU, &e), -TP_E_WRONG_TARGET);
        ck_assert_int_eq(fit(&f, "cuda -arch=sm_80", TP_TARGET_GPU, &e), 0);
    }
}
END_TEST

START_TEST(a_target_that_tells_no_kind_fits_everywhere)
{
    struct td_fit f = {0};

    ck_assert_int_eq(fit(&f, "acme/board", TP_TARGET_CPU, NULL), 0);
    ck_assert_int_eq(fit(&f, "acme/board", TP_TARGET_GPU, NULL), 0);
}
END_TEST

START_TEST(a_target_that_does_not_parse_is_never_remembered)
{
    struct td_fit f = {0};
    struct tp_err e = {0};

    ck_assert_int_eq(fit(&f, "llvm", TP_TARGET_CPU, &e), 0);
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(fit(&f, "{\"no\": \"kind\"}", TP_TARGET_CPU, &e), -TP_E_BAD_TASK);
        ck_assert_str_eq(e.pointer, "/i/0/1");
        ck_assert_int_eq(fit(&f, "", TP_TARGET_CPU, &e), -TP_E_BAD_TASK);
    }
    ck_assert_int_eq(fit(&f, "llvm", TP_TARGET_CPU, &e), 0);
}
END_TEST

START_TEST(a_target_too_long_to_remember_is_checked_each_time)
{
    struct td_fit f = {0};
    char target[700];

    memset(target, 'x', sizeof target - 1);
    target[sizeof target - 1] = '\0';
    memcpy(target, "cuda -model=", 12);
    ck_assert_int_eq(fit(&f, target, TP_TARGET_GPU, NULL), 0);
    ck_assert_int_eq(fit(&f, target, TP_TARGET_CPU, NULL), -TP_E_WRONG_TARGET);
    ck_assert_uint_eq(f.n, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon/hcommon");
    TCase *t = tcase_create("hcommon");
    SRunner *r = srunner_create(s);
    int failed;

    tcase_add_test(t, if_none_match_lists_are_searched);
    tcase_add_test(t, other_or_malformed_tags_do_not_match);
    tcase_add_test(t, times_are_rfc_3339_in_utc);
    tcase_add_test(t, a_word_of_a_body_is_compared_whole);
    tcase_add_test(t, a_target_must_fit_the_kind_of_the_hardware);
    tcase_add_test(t, a_target_that_tells_no_kind_fits_everywhere);
    tcase_add_test(t, a_target_that_does_not_parse_is_never_remembered);
    tcase_add_test(t, a_target_too_long_to_remember_is_checked_each_time);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
