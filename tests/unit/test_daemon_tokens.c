/* Tokens: the file's grammar, recognition, quotas, making new ones. The hashes here are of `printf TEXT | sha256sum`.
 */
#include "daemon/tokens.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HASH_HELLO "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define HASH_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static struct td_tokens *t;
static char path[] = "/tmp/tcld-tokens-XXXXXX";
static struct tp_err e;

static void setup(void)
{
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    t = td_tokens_new();
}

static void teardown(void)
{
    td_tokens_free(t);
    unlink(path);
}

static int load(const char *text)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    return td_tokens_load(t, path, &e);
}

static struct td_token *find(const char *text)
{
    return td_tokens_find(t, text, strlen(text));
}

START_TEST(a_listed_token_is_found_with_its_role_and_name)
{
    char name[TD_TOKEN_NAME_MAX + 1];
    ck_assert_msg(load("# tokens\n\n" HASH_HELLO " measure rack7\r\n") == 0, "%s", e.detail);
    struct td_token *k = find("hello");
    ck_assert_ptr_nonnull(k);
    ck_assert_int_eq(td_token_role(k), TD_ROLE_MEASURE);
    td_token_name(k, name);
    ck_assert_str_eq(name, "rack7");
    td_token_release(k);
}
END_TEST

START_TEST(others_are_not_found)
{
    ck_assert_int_eq(load(HASH_HELLO " measure rack7\n"), 0);
    ck_assert_ptr_null(find("hellp"));
    ck_assert_ptr_null(find(""));
    ck_assert_ptr_null(find(HASH_HELLO));
    ck_assert_ptr_null(td_tokens_find(t, "hello\0", 6));
}
END_TEST

START_TEST(bad_lines_are_refused_and_the_list_stays)
{
    static const char *const bad[] = {"short predict a\n",
                                      HASH_HELLO "\n",
                                      HASH_HELLO " admin a\n",
                                      HASH_HELLO " predict Name\n",
                                      HASH_HELLO " predict a requests_per_minute\n",
                                      HASH_HELLO " predict a requests_per_minute=0\n",
                                      HASH_HELLO " predict a requests_per_minute=1x\n",
                                      HASH_HELLO " predict a colour=1\n",
                                      HASH_HELLO "00 predict a\n",
                                      HASH_EMPTY " predict a\n" HASH_EMPTY " measure b\n"};
    ck_assert_int_eq(load(HASH_HELLO " operate boss\n"), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(load(bad[i]) == -TP_E_CONFIG, "%s is accepted", bad[i]);
        ck_assert_msg(strstr(e.detail, path) && e.line > 0, "%s", e.detail);
        struct td_token *k = find("hello");
        ck_assert_ptr_nonnull(k);
        td_token_release(k);
    }
}
END_TEST

START_TEST(a_token_in_clear_is_not_repeated_in_the_error)
{
    ck_assert_int_eq(load("tcld_AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHHIIIIJJJJKKK predict a\n"), -TP_E_CONFIG);
    ck_assert_ptr_null(strstr(e.detail, "AAAABBBB"));
}
END_TEST

START_TEST(a_file_that_others_can_read_is_refused)
{
    ck_assert_int_eq(load(HASH_HELLO " operate boss\n"), 0);
    ck_assert_int_eq(chmod(path, 0644), 0);
    ck_assert_int_eq(td_tokens_load(t, path, &e), -TP_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.detail, "chmod"));
}
END_TEST

START_TEST(requests_per_minute_is_a_bucket_that_fills_again)
{
    int wait = 0;
    ck_assert_int_eq(load(HASH_HELLO " predict a requests_per_minute=3\n"), 0);
    struct td_token *k = find("hello");
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(td_token_take(k, 1000000, &wait, &e), 0);
        td_token_done(k, 0);
    }
    ck_assert_int_eq(td_token_take(k, 1000000, &wait, &e), -TP_E_TOO_MANY);
    ck_assert_int_eq(wait, 20);
    ck_assert_int_eq(td_token_take(k, 1000000 + 21000000, &wait, &e), 0);
    td_token_done(k, 0);
    ck_assert_int_eq(td_token_take(k, 1000000 + 21000000, &wait, &e), -TP_E_TOO_MANY);
    td_token_release(k);
}
END_TEST

START_TEST(bytes_and_requests_in_flight_have_quotas)
{
    int wait = 0;
    ck_assert_int_eq(load(HASH_HELLO " predict a body_bytes_per_minute=1000 in_flight=2\n"), 0);
    struct td_token *k = find("hello");
    ck_assert_int_eq(td_token_take(k, 1, &wait, &e), 0);
    ck_assert_int_eq(td_token_take(k, 1, &wait, &e), 0);
    ck_assert_int_eq(td_token_take(k, 1, &wait, &e), -TP_E_TOO_MANY);
    td_token_done(k, 2500);
    ck_assert_int_eq(td_token_take(k, 1, &wait, &e), -TP_E_TOO_MANY); /* 1,500 over: a minute and a half and a bit */
    ck_assert_int_ge(wait, 90);
    ck_assert_int_le(wait, 91);
    ck_assert_int_eq(td_token_take(k, 100000000, &wait, &e), 0);
    td_token_done(k, 0);
    td_token_done(k, 0);
    td_token_release(k);
}
END_TEST

START_TEST(a_reload_keeps_what_is_used_of_a_quota)
{
    int wait = 0;
    ck_assert_int_eq(load(HASH_HELLO " predict a requests_per_minute=1\n"), 0);
    struct td_token *k = find("hello");
    ck_assert_int_eq(td_token_take(k, 5, &wait, &e), 0);
    ck_assert_int_eq(load(HASH_HELLO " operate b requests_per_minute=1\n" HASH_EMPTY " predict c\n"), 0);
    ck_assert_int_eq(td_token_role(k), TD_ROLE_OPERATE);
    ck_assert_int_eq(td_token_take(k, 5, &wait, &e), -TP_E_TOO_MANY);
    ck_assert_int_eq(load(HASH_EMPTY " predict c\n"), 0);
    ck_assert_ptr_null(find("hello"));
    td_token_done(k, 0); /* what is in flight ends in peace */
    td_token_release(k);
}
END_TEST

START_TEST(a_new_token_is_accepted_and_stands_nowhere)
{
    char token[TD_TOKEN_LEN + 1], other[TD_TOKEN_LEN + 1], line[192], name[TD_TOKEN_NAME_MAX + 1];
    ck_assert_int_eq(td_token_make(TD_ROLE_MEASURE, "rack7", other, line, &e), 0);
    ck_assert_int_eq(td_token_append(path, line, &e), 0);
    ck_assert_int_eq(td_token_make(TD_ROLE_OPERATE, NULL, token, line, &e), 0);
    ck_assert_uint_eq(strlen(token), TD_TOKEN_LEN);
    ck_assert_str_ne(token, other);
    ck_assert_ptr_null(strstr(line, token));
    ck_assert_int_eq(td_token_append(path, line, &e), 0);
    ck_assert_msg(td_tokens_load(t, path, &e) == 0, "%s", e.detail);
    ck_assert_uint_eq(td_tokens_count(t), 2);
    struct td_token *k = find(token);
    ck_assert_ptr_nonnull(k);
    ck_assert_int_eq(td_token_role(k), TD_ROLE_OPERATE);
    td_token_name(k, name);
    ck_assert_int_eq(strncmp(name, "operate-", 8), 0);
    td_token_release(k);
}
END_TEST

START_TEST(a_last_line_without_end_is_not_spoiled)
{
    char token[TD_TOKEN_LEN + 1], line[192];
    ck_assert_int_eq(load(HASH_HELLO " predict a"), 0);
    ck_assert_int_eq(td_token_make(TD_ROLE_PREDICT, "b", token, line, &e), 0);
    ck_assert_int_eq(td_token_append(path, line, &e), 0);
    ck_assert_msg(td_tokens_load(t, path, &e) == 0, "%s", e.detail);
    ck_assert_uint_eq(td_tokens_count(t), 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon/tokens");
    TCase *tc = tcase_create("tokens");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_listed_token_is_found_with_its_role_and_name);
    tcase_add_test(tc, others_are_not_found);
    tcase_add_test(tc, bad_lines_are_refused_and_the_list_stays);
    tcase_add_test(tc, a_token_in_clear_is_not_repeated_in_the_error);
    tcase_add_test(tc, a_file_that_others_can_read_is_refused);
    tcase_add_test(tc, requests_per_minute_is_a_bucket_that_fills_again);
    tcase_add_test(tc, bytes_and_requests_in_flight_have_quotas);
    tcase_add_test(tc, a_reload_keeps_what_is_used_of_a_quota);
    tcase_add_test(tc, a_new_token_is_accepted_and_stands_nowhere);
    tcase_add_test(tc, a_last_line_without_end_is_not_spoiled);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
