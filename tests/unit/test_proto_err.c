/* The error table and the two ways to fill an error. */
#include "proto/err.h"
#include "tests/unit/proto_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

START_TEST(every_code_has_a_status_a_slug_and_a_title_of_its_own)
{
    for (int c = 1; c < TP_E_COUNT; c++) {
        ck_assert_int_ge(tp_code_status(c), 400);
        ck_assert_int_le(tp_code_status(c), 599);
        ck_assert_str_eq(tp_code_slug(c), tp_code_slug(-c));
        ck_assert_uint_eq(strspn(tp_code_slug(c), "abcdefghijklmnopqrstuvwxyz-8"), strlen(tp_code_slug(c)));
        ck_assert_uint_gt(strlen(tp_code_title(c)), 3);
        for (int d = 1; d < c; d++)
            ck_assert_str_ne(tp_code_slug(c), tp_code_slug(d));
    }
}
END_TEST

START_TEST(a_code_that_does_not_exist_reads_as_internal)
{
    ck_assert_str_eq(tp_code_slug(TP_E_COUNT), "internal");
    ck_assert_str_eq(tp_code_slug(-TP_E_COUNT), "internal");
    ck_assert_str_eq(tp_code_slug(INT32_MIN), "internal");
    ck_assert_str_eq(tp_code_slug(INT32_MAX), "internal");
    ck_assert_int_eq(tp_code_status(TP_OK), 200);
}
END_TEST

START_TEST(a_quota_and_a_size_limit_are_a_full_disk_too)
{
    ck_assert_int_eq(tp_code_of_errno(ENOSPC), TP_E_DISK_FULL);
    ck_assert_int_eq(tp_code_of_errno(EDQUOT), TP_E_DISK_FULL);
    ck_assert_int_eq(tp_code_of_errno(EFBIG), TP_E_DISK_FULL);
    ck_assert_int_eq(tp_code_of_errno(EROFS), TP_E_IO);
    ck_assert_int_eq(tp_code_of_errno(0), TP_E_IO);
}
END_TEST

START_TEST(failing_fills_the_error_and_returns_the_negative_code)
{
    struct tp_err e;
    memset(&e, 'x', sizeof e);
    ck_assert_int_eq(tp_fail(&e, TP_E_NO_MODEL, "none for %s", "hw-1"), -TP_E_NO_MODEL);
    ck_assert_int_eq(e.code, TP_E_NO_MODEL);
    ck_assert_int_eq(e.line, 0);
    ck_assert_int_eq(e.index, -1);
    ck_assert_str_eq(e.pointer, "");
    ck_assert_str_eq(e.detail, "none for hw-1");
    ck_assert_int_eq(tp_fail_at(&e, TP_E_BAD_STEP, "/i/1", "no"), -TP_E_BAD_STEP);
    ck_assert_str_eq(e.pointer, "/i/1");
    ck_assert_int_eq(tp_fail(NULL, TP_E_IO, "unheard"), -TP_E_IO);
}
END_TEST

START_TEST(a_long_detail_is_cut_between_characters)
{
    char text[600];
    struct tp_err e;
    for (int shift = 0; shift < 4; shift++) {
        memset(text, 'a', sizeof text);
        for (size_t i = (size_t)shift; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 3);
        tp_fail(&e, TP_E_IO, "%.*s", 500, text);
        size_t n = strlen(e.detail);
        ck_assert_uint_ge(n, sizeof e.detail - 4);
        ck_assert_uint_eq((n - (size_t)shift) % 3, 0);
    }
}
END_TEST

int main(void)
{
    return RUN("proto/err", every_code_has_a_status_a_slug_and_a_title_of_its_own,
               a_code_that_does_not_exist_reads_as_internal, a_quota_and_a_size_limit_are_a_full_disk_too,
               failing_fills_the_error_and_returns_the_negative_code, a_long_detail_is_cut_between_characters);
}
