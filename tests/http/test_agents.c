/* The measurement agents as programs: build/replay, and the HTTP part of the agent in clients/tvm. */
#include "tests/http/suite.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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

enum { MAX_ARGS = 40 };

static void command(const char *argv[MAX_ARGS], const char *hw, const char *log, const char *const *options)
{
    const char *const fixed[] = {replay(), "--url", bb_base(), "--hardware", hw, "--agent", "replay-1", NULL};
    int k = 0;
    for (const char *const *p = fixed; *p; p++)
        argv[k++] = *p;
    for (; *options; options++)
        argv[k++] = *options;
    argv[k++] = "--logs";
    argv[k++] = log;
    argv[k] = NULL;
}

/* Runs build/replay with these options and a log; *out = what it tells at the end. */
static int run(const char *hw, const char *log, const char *const *options, json_t **out, char *text, size_t n)
{
    const char *argv[MAX_ARGS];
    struct tp_buf o = {0}, err = {0};
    struct tc_err e;
    command(argv, hw, log, options);
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

/* build/replay in the background; what it tells goes to the file `out`. */
static pid_t start(const char *hw, const char *log, const char *const *options, const char *out)
{
    const char *argv[MAX_ARGS];
    command(argv, hw, log, options);
    pid_t parent = getpid(), pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = open(out, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    if (getppid() != parent || fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        _exit(127);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

/* Its status as a shell tells it; -1 when it still runs after so long. */
static int ended(pid_t pid, double seconds)
{
    int status;
    for (double until = tc_now() + seconds; waitpid(pid, &status, WNOHANG) != pid; tc_sleep(0.02))
        if (tc_now() > until)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int count_of(const char *hw, const char *state)
{
    return (int)tc_int(bb_get("/v1/hardware/%s", hw)->json, bb_printf("/counts/candidates/%s", state).p, -1);
}

static void until_leased_are(const char *hw, bool some)
{
    for (double until = tc_now() + 30; (count_of(hw, "leased") > 0) != some; tc_sleep(0.02))
        ck_assert_msg(tc_now() < until, "%s: still %d on lease", hw, count_of(hw, "leased"));
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

/* Stopped for longer than its lease lasts, it finds its programs with another. */
START_TEST(replay_drops_a_lease_that_is_gone)
{
    static const char *const slow[] = {"--ttl", "1", "--delay", "0.1", "--wait", NULL};
    char *log = selected("gone", 30), *out = bb_path("out");
    pid_t pid = start("gone", log, slow, out);
    until_leased_are("gone", true);
    kill(pid, SIGSTOP);
    until_leased_are("gone", false);
    struct bb_reply *r = bb_json("POST", "{\"agent\": \"another\"}", "/v1/hardware/gone/leases");
    bb_status(r, 200);
    int before = count_of("gone", "measured");
    kill(pid, SIGCONT);
    for (double until = tc_now() + 30; !strstr(bb_file(out).p, "is gone") && tc_now() < until;)
        tc_sleep(0.02);
    kill(pid, SIGTERM);
    ck_assert_msg(ended(pid, 30) == 0, "%s", bb_file(out).p);
    ck_assert_msg(strstr(bb_file(out).p, "is gone") != NULL, "%s", bb_file(out).p);
    int measured = count_of("gone", "measured");
    ck_assert_int_lt(before, 30);
    ck_assert_int_lt(measured, 30);
    counts_are("gone", 0, 30 - measured, measured, 0);
}
END_TEST

START_TEST(replay_asks_for_as_many_as_tcld_gives)
{
    static const char *const limit[] = {"--limit-lease-candidates=10", NULL}, *const most[] = {"--most", "3", NULL},
                             *const none[] = {NULL};
    char text[1000];
    json_t *j = NULL;
    struct tc_daemon *d = bb_start(bb_path("few"), limit);
    char *log = selected("few", 28);
    ck_assert_msg(run("few", log, most, NULL, text, sizeof text) == 0, "%s", text);
    counts_are("few", 25, 0, 3, 0);
    ck_assert_msg(run("few", log, none, &j, text, sizeof text) == 0, "%s", text);
    ck_assert_int_eq(tc_int(j, "/leases", -1), 3);
    json_decref(j);
    counts_are("few", 0, 0, 28, 0);
    bb_stop(d);
}
END_TEST

/* A result that is longer than the daemon takes. */
START_TEST(replay_tells_what_is_rejected_and_gives_it_back)
{
    static const char *const limit[] = {"--limit-record-bytes=1024", NULL}, *const none[] = {NULL};
    char text[1000], *log = bb_path("log");
    struct bb_text bare = bb_unmeasured(0), costs = bb_printf("0.001");
    struct tc_daemon *d = bb_start(bb_path("long"), limit);
    selected("long", 3);
    for (int i = 0; i < 128; i++)
        costs = bb_printf("%s, 0.001", costs.p);
    char *end = strstr(bare.p, ", \"v\"");
    ck_assert_ptr_nonnull(end);
    struct bb_text line = bb_printf("%.*s, \"r\": [[%s], 0, 1, 1]%s\n", (int)(end - bare.p), bare.p, costs.p, end);
    ck_assert_int_eq(tc_write_file(log, line.p, line.n, NULL), 0);
    ck_assert_msg(run("long", log, none, NULL, text, sizeof text) == 1, "%s", text);
    ck_assert_msg(strstr(text, "too-long") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "rejects 1 results") != NULL, "%s", text);
    counts_are("long", 1, 0, 0, 2);
    bb_stop(d);
}
END_TEST

START_TEST(replay_outlasts_a_short_absence_of_tcld_after_a_signal)
{
    static const char *const slow[] = {"--delay", "0.05", NULL};
    char *dir = bb_path("away"), *out = bb_path("out"), *listen = bb_printf("unix:%s", bb_path("socket")).p;
    const char *const args[] = {"--listen", listen, NULL};
    struct tc_daemon *d = bb_start(dir, args);
    pid_t pid = start("away", selected("away", 60), slow, out);
    until_leased_are("away", true);
    tc_sleep(0.3);
    tc_daemon_free(d);
    kill(pid, SIGTERM);
    ck_assert_int_eq(ended(pid, 1), -1);
    d = bb_start(dir, args);
    ck_assert_msg(ended(pid, 30) == 0, "%s", bb_file(out).p);
    int measured = count_of("away", "measured");
    ck_assert_int_gt(measured, 0);
    counts_are("away", 60 - measured, 0, measured, 0);
    ck_assert_msg(strstr(bb_file(out).p, bb_printf("\"measured\": %d,", measured).p) != NULL, "%s", bb_file(out).p);
    bb_stop(d);
}
END_TEST

START_TEST(a_second_signal_ends_replay_at_once)
{
    static const char *const slow[] = {"--delay", "0.05", NULL};
    char *out = bb_path("out");
    struct tc_daemon *d = bb_start(bb_path("impatient"), NULL);
    pid_t pid = start("impatient", selected("impatient", 60), slow, out);
    until_leased_are("impatient", true);
    tc_daemon_free(d);
    kill(pid, SIGTERM);
    kill(pid, SIGTERM); /* the same one, as timeout(1) sends it */
    ck_assert_int_eq(ended(pid, 1.5), -1);
    kill(pid, SIGTERM);
    ck_assert_int_eq(ended(pid, 10), 128 + SIGTERM);
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
    tcase_add_test(tc, replay_drops_a_lease_that_is_gone);
    tcase_add_test(tc, replay_says_what_is_wrong);
    tcase_add_test(tc, the_tvm_agent_speaks_http_without_tvm);
    tc = bb_case_own(s, "daemons of their own", 60);
    tcase_add_test(tc, replay_asks_for_as_many_as_tcld_gives);
    tcase_add_test(tc, replay_tells_what_is_rejected_and_gives_it_back);
    tcase_add_test(tc, replay_outlasts_a_short_absence_of_tcld_after_a_signal);
    tcase_add_test(tc, a_second_signal_ends_replay_at_once);
    return bb_main(s);
}
