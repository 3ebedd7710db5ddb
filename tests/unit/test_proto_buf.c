/* The byte buffer and the text forms it prints. */
#include "proto/buf.h"
#include "tests/unit/proto_lines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void same(struct tp_buf *b, const char *want)
{
    ck_assert_msg(b->n == strlen(want) && memcmp(b->p, want, b->n) == 0, "got %.*s, want %s", (int)b->n, b->p, want);
    b->n = 0;
}

START_TEST(appends_follow_each_other_over_many_growths)
{
    struct tp_buf b = {0};
    for (int i = 0; i < 10000; i++)
        tp_buf_printf(&b, "%05d", i);
    ck_assert_uint_eq(b.n, 50000);
    ck_assert(memcmp(b.p + 5 * 1234, "01234", 5) == 0);
    ck_assert(!b.oom);
    tp_buf_free(&b);
    ck_assert_ptr_null(b.p);
    tp_buf_free(NULL);
}
END_TEST

START_TEST(printf_text_longer_than_its_scratch_is_whole)
{
    char text[1001];
    struct tp_buf b = {0};
    memset(text, 'z', sizeof text);
    text[1000] = '\0';
    tp_buf_printf(&b, "<%s>", text);
    ck_assert_uint_eq(b.n, 1002);
    ck_assert_int_eq(b.p[1001], '>');
    tp_buf_free(&b);
}
END_TEST

START_TEST(an_impossible_size_sets_oom_and_later_appends_do_nothing)
{
    struct tp_buf b = {0};
    tp_buf_puts(&b, "kept");
    ck_assert_ptr_null(tp_buf_grow(&b, SIZE_MAX / 2));
    ck_assert(b.oom);
    tp_buf_puts(&b, "lost");
    tp_buf_i64(&b, 7);
    tp_buf_json_str(&b, "x", 1);
    same(&b, "kept");
    tp_buf_free(&b);
}
END_TEST

START_TEST(integers_print_over_the_whole_range)
{
    struct tp_buf b = {0};
    tp_buf_i64(&b, 0);
    same(&b, "0");
    tp_buf_i64(&b, -1);
    same(&b, "-1");
    tp_buf_i64(&b, INT64_MAX);
    same(&b, "9223372036854775807");
    tp_buf_i64(&b, INT64_MIN);
    same(&b, "-9223372036854775808");
    tp_buf_free(&b);
}
END_TEST

START_TEST(json_strings_escape_what_must_be_and_mend_bad_utf8)
{
    struct tp_buf b = {0};
    tp_buf_json_str(&b, "a\"\\/\b\f\n\r\t\x01\x1f\x7f", 12);
    same(&b, "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"");
    tp_buf_json_str(&b, "\0", 1);
    same(&b, "\"\\u0000\"");
    tp_buf_json_str(&b, "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 9);
    same(&b, "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
    tp_buf_json_str(&b, "a\xC0\xAF\xED\xA0\x80z\xE2\x82", 9);
    same(&b, "\"a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\"");
    tp_buf_json_str(&b, NULL, 0);
    same(&b, "\"\"");
    tp_buf_free(&b);
}
END_TEST

START_TEST(tvm_strings_escape_five_characters_only)
{
    struct tp_buf b = {0};
    tp_buf_tvm_str(&b, "\r\n\t\\\"/\x01\xC3\xA9", 9);
    same(&b, "\"\\r\\n\\t\\\\\\\"/\x01\xC3\xA9\"");
    tp_buf_free(&b);
}
END_TEST

START_TEST(numbers_without_a_json_form_become_null)
{
    struct tp_buf b = {0};
    tp_buf_json_num(&b, NAN, 9);
    same(&b, "null");
    tp_buf_json_num(&b, -INFINITY, 9);
    same(&b, "null");
    tp_buf_json_num(&b, 0.5, 0);
    same(&b, "0.5");
    tp_buf_json_num(&b, 0.1, 99);
    same(&b, "0.10000000000000001");
    tp_buf_free(&b);
}
END_TEST

START_TEST(exact_numbers_have_the_fewest_digits_that_read_back)
{
    struct tp_buf b = {0};

    tp_buf_json_exact(&b, 0.1);
    same(&b, "0.1");
    tp_buf_json_exact(&b, 0.1 + 0.2);
    same(&b, "0.30000000000000004");
    tp_buf_json_exact(&b, 10);
    same(&b, "10");
    tp_buf_json_exact(&b, 1e-300);
    same(&b, "1e-300");
    tp_buf_json_exact(&b, NAN);
    same(&b, "null");
    tp_buf_free(&b);
}
END_TEST

int main(void)
{
    return RUN("proto/buf", appends_follow_each_other_over_many_growths, printf_text_longer_than_its_scratch_is_whole,
               an_impossible_size_sets_oom_and_later_appends_do_nothing, integers_print_over_the_whole_range,
               json_strings_escape_what_must_be_and_mend_bad_utf8, tvm_strings_escape_five_characters_only,
               numbers_without_a_json_form_become_null, exact_numbers_have_the_fewest_digits_that_read_back);
}
