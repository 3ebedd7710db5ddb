/* The measurement agents as programs: build/replay, and the HTTP part of the agent in clients/tvm. */
#include "tests/http/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *replay(void)
{
    const char *s = getenv("REPLAY");
    return s && *s ? s : "build/replay";
}

/* Hardware with the programs 0 .. n - 1 selected; their measured lines are in a file, whose path is returned. */
static char *selected(const char *hw, int n)
{
    struct bb_text all = bb_records(0, n);
    char *log = bb_path("log");
    struct tc_err e;
    ck_assert_int_eq(tc_write_file(log, all.p, all.n, &e), 0);
    bb_put_hardware(hw);
    bb_counts(bb_lines(all.p, all.n, "/v1/hardware/%s/candidates", hw), n, 0, 0);
    struct bb_reply *r = bb_json("POST", "{\"fraction\": 1, \"method\": \"random\"}", "/v1/hardware/%s/selections", hw);
    bb_status(r, 202);
    ck_assert_str_eq(tc_str(bb_wait(tc_int(r->json, "/id", 0)), "/state"), "succeeded");
    return log;
}

static void counts_are(const char *hw, int selected, int leased, int measured, int failed)
{
    struct bb_reply *r = bb_get("/v1/hardware/%s", hw);
    ck_assert_int_eq(tc_int(r->json, "/counts/candidates/selected", -1), selected);
    ck_assert_int_eq(tc_int(r->json, "/counts/candidates/leased", -1), leased);
    ck_assert_int_eq(tc_int(r->json, "/counts/candidates/measured", -1), measured);
    ck_assert_int_eq(tc_int(r->json, "/counts/candidates/failed", -1), failed);
}

/* Runs build/replay with these options and a log; *out = what it tells at the end. */
static int run(const char *hw, const char *log, const char *const *options, json_t **out, char *text, size_t n)
{
    const char *argv[40] = {replay(), "--url", bb_base(), "--hardware", hw, "--agent", "replay-1"};
    struct tp_buf o = {0}, err = {0};
    struct tc_err e;
    int k = 7;
    for (; *options; options++)
        argv[k++] = *options;
    argv[k++] = "--logs";
    argv[k++] = log;
    int status = tc_run(argv, NULL, 60, &o, &err, &e);
    tp_buf_putc(&o, '\0');
    tp_buf_putc(&err, '\0');
    if (out)
        *out = json_loads(o.p, 0, NULL);
    snprintf(text, n, "%s%s", err.p, o.p);
    tp_buf_free(&o);
    tp_buf_free(&err);
    return status;
}

START_TEST(replay_answers_every_lease_and_ends)
{
    static const char *const none[] = {"--max", "7", NULL};
    char text[1000], *log = selected("all", 30);
    json_t *j = NULL;
    ck_assert_msg(run("all", log, none, &j, text, sizeof text) == 0, "%s", text);
    ck_assert_int_eq(tc_int(j, "/leases", -1), 5);
    ck_assert_int_eq(tc_int(j, "/accepted", -1), 30);
    ck_assert_int_eq(tc_int(j, "/unknown", -1), 0);
    json_decref(j);
    counts_are("all", 0, 0, 30, 0);
    struct bb_reply *r = bb_get("/v1/hardware/all/tasks");
    ck_assert_int_eq(tc_int(r->json, "/items/0/measurements", -1), 30);
}
END_TEST

START_TEST(replay_fails_dies_and_stops_on_demand)
{
    static const char *const fail[] = {"--failures", "1", "--most", "5", "--max", "3", NULL},
                             *const die[] = {"--die", "1", NULL}, *const most[] = {"--most", "4", "--max", "10", NULL};
    char text[1000], *log = selected("some", 30);
    ck_assert_msg(run("some", log, fail, NULL, text, sizeof text) == 0, "%s", text);
    counts_are("some", 25, 0, 0, 5);
    ck_assert_msg(run("some", log, most, NULL, text, sizeof text) == 0, "%s", text);
    counts_are("some", 21, 0, 4, 5);
    ck_assert_int_eq(run("some", log, die, NULL, text, sizeof text), 3);
    counts_are("some", 0, 21, 4, 5); /* until the lease runs out */
}
END_TEST

/* 0.05 s, doubled up to 1 s: 5 pauses in the first 1.55 s, then at most one a second, and always the agent's own end.
 */
START_TEST(an_idle_replay_asks_less_and_less)
{
    static const char *const wait[] = {"--wait", "--seconds", "2.5", NULL};
    char text[1000], *log = selected("idle", 2);
    json_t *j = NULL;
    double began = tc_now();
    ck_assert_msg(run("idle", log, wait, &j, text, sizeof text) == 0, "%s", text);
    ck_assert_double_lt(tc_now() - began, 20);
    ck_assert_int_eq(tc_int(j, "/accepted", -1), 2);
    ck_assert_int_ge(tc_int(j, "/idle", -1), 1);
    ck_assert_int_le(tc_int(j, "/idle", -1), 7);
    json_decref(j);
}
END_TEST

START_TEST(replay_reports_a_program_that_its_log_does_not_know)
{
    static const char *const none[] = {NULL};
    char text[1000], *log = bb_path("other");
    struct bb_text other = bb_records(1000, 1);
    json_t *j = NULL;
    ck_assert_int_eq(tc_write_file(log, other.p, other.n, NULL), 0);
    selected("strange", 3);
    ck_assert_msg(run("strange", log, none, &j, text, sizeof text) == 0, "%s", text);
    ck_assert_int_eq(tc_int(j, "/unknown", -1), 3);
    json_decref(j);
    counts_are("strange", 0, 0, 0, 3);
}
END_TEST

START_TEST(replay_says_what_is_wrong)
{
    static const char *const none[] = {NULL}, *const bad[] = {"--failures", "2", NULL};
    char text[1000], *log = selected("wrong", 1), *empty = bb_path("empty");
    ck_assert_int_eq(tc_write_file(empty, "{}\n", 3, NULL), 0);
    ck_assert_int_eq(run("none-such", log, none, NULL, text, sizeof text), 1);
    ck_assert_msg(strstr(text, "none-such") != NULL, "%s", text);
    ck_assert_int_eq(run("wrong", empty, none, NULL, text, sizeof text), 1);
    ck_assert_msg(strstr(text, "no measured record") != NULL, "%s", text);
    ck_assert_int_eq(run("wrong", log, bad, NULL, text, sizeof text), 2);
    ck_assert_msg(strstr(text, "0 to 1") != NULL, "%s", text);
}
END_TEST

START_TEST(the_tvm_agent_speaks_http_without_tvm)
{
    const char *argv[] = {"python3", "tests/http/check_tcl_agent.py", bb_base(), "python", NULL};
    struct tp_buf out = {0}, err = {0};
    struct tc_err e;
    selected("python", 20);
    int status = tc_run(argv, NULL, 60, &out, &err, &e);
    tp_buf_putc(&err, '\0');
    if (status == 127)
        printf("skipped: python3 is not there\n");
    else
        ck_assert_msg(status == 0, "status %d: %s", status, err.p);
    tp_buf_free(&out);
    tp_buf_free(&err);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/agents");
    TCase *tc = bb_case(s, "agents", 60);
    tcase_add_test(tc, replay_answers_every_lease_and_ends);
    tcase_add_test(tc, replay_fails_dies_and_stops_on_demand);
    tcase_add_test(tc, an_idle_replay_asks_less_and_less);
    tcase_add_test(tc, replay_reports_a_program_that_its_log_does_not_know);
    tcase_add_test(tc, replay_says_what_is_wrong);
    tcase_add_test(tc, the_tvm_agent_speaks_http_without_tvm);
    return bb_main(s);
}
