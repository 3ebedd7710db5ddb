/* Request targets, the route table, media types. */
#include "daemon/route.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static void nothing(struct td_request *r)
{
    (void)r;
}

static const struct td_route table[] = {
    {"GET", "/", nothing, TD_ROLE_NONE, TD_BODY_NONE, TD_INLINE, ""},
    {"GET", "/v1", nothing, TD_ROLE_NONE, TD_BODY_NONE, TD_INLINE, ""},
    {"GET", "/v1/hardware/{hw}", nothing, TD_ROLE_NONE, TD_BODY_NONE, TD_API, ""},
    {"GET", "/v1/hardware/all", nothing, TD_ROLE_NONE, TD_BODY_NONE, TD_API, ""},
    {"PUT", "/v1/hardware/{hw}", nothing, TD_ROLE_NONE, TD_BODY_JSON, TD_API, ""},
    {"POST", "/v1/hardware/{hw}/predict", nothing, TD_ROLE_NONE, TD_BODY_RECORDS, TD_PREDICT, ""},
    {"GET", "/v1/jobs/{id}/events", nothing, TD_ROLE_NONE, TD_BODY_NONE, TD_API, ""},
    {0}};

static struct td_target t;
static struct td_match m;
static struct tp_err e;

static void teardown(void)
{
    td_target_free(&t);
}

static int parse(const char *raw)
{
    td_target_free(&t);
    return td_target_parse(raw, &t, &e);
}

static int match(const char *method, const char *raw)
{
    ck_assert_int_eq(parse(raw), 0);
    return td_route_match(table, method, &t, &m, &e);
}

START_TEST(parameters_are_taken_from_their_segments)
{
    ck_assert_int_eq(match("POST", "/v1/hardware/xeon-8272/predict?model=ac"), 0);
    ck_assert_str_eq(m.route->path, "/v1/hardware/{hw}/predict");
    ck_assert_int_eq(m.n_params, 1);
    ck_assert_str_eq(m.param[0], "xeon-8272");
    ck_assert_int_eq(match("GET", "/v1/jobs/42/events"), 0);
    ck_assert_str_eq(m.param[0], "42");
    ck_assert_int_eq(match("GET", "/"), 0);
    ck_assert_int_eq(m.n_params, 0);
}
END_TEST

START_TEST(a_path_is_matched_whole)
{
    const char *const none[] = {"/v1/",
                                "/v1/hardware",
                                "/v1/hardware/",
                                "/v1/hardware/a/",
                                "/v1//hardware/a",
                                "/v2",
                                "/v1/hardware/a/predictx",
                                "/v1x",
                                "//",
                                "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ck_assert_msg(match("GET", none[i]) == -TP_E_NO_ROUTE, "%s", none[i]);
}
END_TEST

START_TEST(fewer_parameters_win)
{
    ck_assert_int_eq(match("GET", "/v1/hardware/all"), 0);
    ck_assert_str_eq(m.route->path, "/v1/hardware/all");
    ck_assert_int_eq(match("PUT", "/v1/hardware/all"), 0);
    ck_assert_str_eq(m.route->path, "/v1/hardware/{hw}");
}
END_TEST

START_TEST(head_is_answered_by_get)
{
    ck_assert_int_eq(match("HEAD", "/v1/hardware/a"), 0);
    ck_assert_str_eq(m.route->method, "GET");
    ck_assert_int_eq(match("HEAD", "/v1/hardware/a/predict"), -TP_E_METHOD_NOT_ALLOWED);
}
END_TEST

START_TEST(another_method_is_told_which_are_offered)
{
    ck_assert_int_eq(match("PATCH", "/v1/hardware/a"), -TP_E_METHOD_NOT_ALLOWED);
    ck_assert_str_eq(m.allow, "GET, HEAD, PUT, OPTIONS");
    ck_assert_int_eq(match("GET", "/v1/hardware/a/predict"), -TP_E_METHOD_NOT_ALLOWED);
    ck_assert_str_eq(m.allow, "POST, OPTIONS");
    ck_assert_int_eq(match("get", "/v1"), -TP_E_METHOD_NOT_ALLOWED);
}
END_TEST

START_TEST(hardware_names_are_identifiers)
{
    ck_assert_int_eq(match("GET", "/v1/hardware/Xeon"), -TP_E_BAD_IDENTIFIER);
    ck_assert_int_eq(match("GET", "/v1/hardware/-a"), -TP_E_BAD_IDENTIFIER);
    ck_assert_int_eq(match("GET", "/v1/hardware/.."), -TP_E_BAD_IDENTIFIER);
}
END_TEST

START_TEST(escapes_are_decoded_after_the_path_is_cut)
{
    ck_assert_int_eq(match("GET", "/v1/h%61rdware/%61"), 0);
    ck_assert_str_eq(m.param[0], "a");
    ck_assert_int_eq(match("GET", "/v1/hardware/a%2Fpredict"), -TP_E_BAD_IDENTIFIER);
    ck_assert_str_eq(m.param[0], "a/predict");
    ck_assert_str_eq(t.path, "/v1/hardware/a%2Fpredict");
}
END_TEST

START_TEST(malformed_escapes_are_refused)
{
    const char *const bad[] = {"/%", "/%1", "/%zz", "/a%2", "/?a=%", "/?%g0=1", "/%00", "/?a=%00"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(parse(bad[i]) == -TP_E_BAD_REQUEST, "%s", bad[i]);
}
END_TEST

START_TEST(query_parameters_are_decoded)
{
    ck_assert_int_eq(parse("/v1?a=1&b=x%3D%26y&c&=&d=&&e=p+q%2B"), 0);
    ck_assert_str_eq(td_target_query(&t, "a"), "1");
    ck_assert_str_eq(td_target_query(&t, "b"), "x=&y");
    ck_assert_str_eq(td_target_query(&t, "c"), "");
    ck_assert_str_eq(td_target_query(&t, "d"), "");
    ck_assert_str_eq(td_target_query(&t, "e"), "p q+");
    ck_assert_ptr_null(td_target_query(&t, "f"));
    ck_assert_str_eq(t.path, "/v1");
}
END_TEST

START_TEST(a_parameter_given_twice_is_refused)
{
    ck_assert_int_eq(parse("/v1?limit=1&limit=2"), -TP_E_BAD_PARAMETER);
    ck_assert_int_eq(parse("/v1?limit=1&l%69mit=1"), -TP_E_BAD_PARAMETER);
}
END_TEST

START_TEST(the_number_of_parameters_is_limited)
{
    char raw[512] = "/?";
    for (int i = 0; i < TD_QUERY_MAX + 1; i++) {
        char one[16];
        snprintf(one, sizeof one, "p%d&", i);
        strncat(raw, one, sizeof raw - strlen(raw) - 1);
    }
    ck_assert_int_eq(parse(raw), -TP_E_BAD_REQUEST);
}
END_TEST

START_TEST(an_absolute_target_is_its_path)
{
    ck_assert_int_eq(match("GET", "http://host:8723/v1?x=1"), 0);
    ck_assert_str_eq(td_target_query(&t, "x"), "1");
    ck_assert_int_eq(match("GET", "HTTP://host"), 0);
    ck_assert_str_eq(m.route->path, "/");
    ck_assert_int_eq(match("GET", "http://host?x=1"), 0);
    ck_assert_str_eq(td_target_query(&t, "x"), "1");
    ck_assert_int_eq(parse("v1"), -TP_E_BAD_REQUEST);
    ck_assert_int_eq(parse(""), -TP_E_BAD_REQUEST);
    ck_assert_int_eq(parse("*"), 0);
}
END_TEST

START_TEST(media_types_ignore_case_and_take_utf_8_only)
{
    ck_assert(td_media_is("application/json", "application/json"));
    ck_assert(td_media_is("Application/JSON ; charset=UTF-8", "application/json"));
    ck_assert(td_media_is("application/json;charset=\"utf-8\"", "application/json"));
    ck_assert(td_media_is("application/json;", "application/json"));
    ck_assert(td_media_is("application/json; version=1", "application/json"));
    ck_assert(td_media_is("application/json; a=\"x;\\\"charset=latin1\"; charset=utf-8 ; b", "application/json"));
    ck_assert(!td_media_is("application/json; version=1; charset=latin1", "application/json"));
    ck_assert(!td_media_is("application/json; charset=utf-8x", "application/json"));
    ck_assert(!td_media_is("application/json; charset=\"utf-8", "application/json"));
    ck_assert(!td_media_is("application/json; a=\"utf-8", "application/json"));
    ck_assert(!td_media_is("application/json; charset=latin1", "application/json"));
    ck_assert(!td_media_is("application/json-seq", "application/json"));
    ck_assert(!td_media_is("text/json", "application/json"));
    ck_assert(!td_media_is(NULL, "application/json"));
    ck_assert(!td_media_is("", "application/json"));
}
END_TEST

START_TEST(every_route_of_the_daemon_is_found_by_its_own_path)
{
    for (const struct td_route *r = td_routes; r->method; r++) {
        char raw[256];
        size_t n = 0;
        for (const char *p = r->path; *p; p++) {
            if (*p == '{') {
                raw[n++] = '7';
                p += strcspn(p, "}");
            } else {
                raw[n++] = *p;
            }
        }
        raw[n] = '\0';
        ck_assert_int_eq(parse(raw), 0);
        ck_assert_msg(td_route_match(td_routes, r->method, &t, &m, &e) == 0 && m.route == r, "%s %s", r->method,
                      r->path);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon_route");
    TCase *c = tcase_create("all");
    tcase_add_checked_fixture(c, NULL, teardown);
    tcase_add_test(c, parameters_are_taken_from_their_segments);
    tcase_add_test(c, a_path_is_matched_whole);
    tcase_add_test(c, fewer_parameters_win);
    tcase_add_test(c, head_is_answered_by_get);
    tcase_add_test(c, another_method_is_told_which_are_offered);
    tcase_add_test(c, hardware_names_are_identifiers);
    tcase_add_test(c, escapes_are_decoded_after_the_path_is_cut);
    tcase_add_test(c, malformed_escapes_are_refused);
    tcase_add_test(c, query_parameters_are_decoded);
    tcase_add_test(c, a_parameter_given_twice_is_refused);
    tcase_add_test(c, the_number_of_parameters_is_limited);
    tcase_add_test(c, an_absolute_target_is_its_path);
    tcase_add_test(c, media_types_ignore_case_and_take_utf_8_only);
    tcase_add_test(c, every_route_of_the_daemon_is_found_by_its_own_path);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
