/* The process: command line, configuration, listeners, state directory, signals, and what a violent end leaves behind.

 *
 * Most tests start daemons of their own, from the test's main thread, in folders of their own; one that a failing test
 leaves
 * behind dies with the test's process. No clock decides but as a generous upper bound. */
#include "tests/http/suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

struct run {
    int status;
    const char *out, *err;
};

/* Runs the daemon's binary to its end. */
static struct run run_env(const char *const *env, const char *const *args)
{
    enum { MAX = 32 };
    const char *argv[MAX] = {bb_binary()};
    for (size_t i = 0; args[i] && i + 2 < MAX; i++)
        argv[i + 1] = args[i];
    struct tc_err e = {{0}};
    struct tp_buf out = {0}, err = {0};
    int status = tc_run(argv, env, bb_slow() ? 120 : 20, &out, &err, &e);
    ck_assert_msg(status >= 0, "%s", e.text);
    struct run r = {status, bb_printf("%s", out.p ? out.p : "").p, bb_printf("%s", err.p ? err.p : "").p};
    tp_buf_free(&out);
    tp_buf_free(&err);
    return r;
}

#define RUN(...) run_env(NULL, (const char *[]){__VA_ARGS__, NULL})

static char *config_file(const char *text)
{
    char *path = bb_path("conf");
    ck_assert_int_eq(tc_write_file(path, text, strlen(text), NULL), 0);
    return path;
}

/* ---- command line and configuration ---- */

START_TEST(version_is_told)
{
    struct run r = RUN("--version");
    ck_assert_int_eq(r.status, 0);
    ck_assert_msg(strstr(r.out, "tcld") && strstr(r.out, TCLD_VERSION), "%s", r.out);
}
END_TEST

START_TEST(help_names_every_key)
{
    struct run r = RUN("--help");
    ck_assert_int_eq(r.status, 0);
#define STR(key, def, reload, help)           #key,
#define INT(key, def, min, max, reload, help) #key,
#define BOOL(key, def, reload, help)          #key,
    static const char *const keys[] = {
#include "daemon/config.def"
    };
#undef STR
#undef INT
#undef BOOL
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char *flag = bb_printf("--%s", keys[i]).p;
        for (char *p = flag; *p; p++)
            *p = *p == '_' ? '-' : *p;
        ck_assert_msg(strstr(r.out, flag) != NULL, "%s is missing", flag);
    }
}
END_TEST

START_TEST(unknown_option_names_the_nearest)
{
    struct run r = RUN("--lisen", "127.0.0.1:0");
    ck_assert_int_ne(r.status, 0);
    ck_assert_msg(strstr(r.err, "--lisen") && strstr(r.err, "--listen"), "%s", r.err);
}
END_TEST

START_TEST(check_config_accepts_a_good_file)
{
    struct run r = RUN("-c", config_file("# a comment\nlisten = 127.0.0.1:0\nlog_level = warning\n"), "--check-config");
    ck_assert_msg(r.status == 0, "%d %s %s", r.status, r.out, r.err);
}
END_TEST

START_TEST(unknown_key_is_an_error_with_file_line_and_nearest_name)
{
    char *path = config_file("listen = 127.0.0.1:0\n\nconection_limit = 7\n");
    struct run r = RUN("-c", path, "--check-config");
    ck_assert_int_ne(r.status, 0);
    ck_assert_msg(strstr(r.err, bb_printf("%s:3", path).p) != NULL, "file and line: %s", r.err);
    ck_assert_msg(strstr(r.err, "conection_limit") && strstr(r.err, "connection_limit"), "names: %s", r.err);
}
END_TEST

START_TEST(values_out_of_range_are_errors_with_file_and_line)
{
    static const char *const bad[] = {
        "connection_limit = many", "connection_limit = 0",    "connection_limit = 99999999999999999999",
        "insecure = perhaps",      "log_level = loud",        "log_format = xml",
        "listen = nowhere",        "listen = 127.0.0.1:99999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *path = config_file(bb_printf("# first line\n%s\n", bad[i]).p);
        struct run r = RUN("-c", path, "--check-config");
        ck_assert_msg(r.status != 0 && r.status < 128, "%s is accepted: %s", bad[i], r.err);
        char *key = bb_printf("%.*s", (int)strcspn(bad[i], " "), bad[i]).p;
        ck_assert_msg(strstr(r.err, key) != NULL, "%s: %s", bad[i], r.err);
    }
}
END_TEST

START_TEST(missing_config_file_is_an_error)
{
    struct run r = RUN("-c", "/nowhere/tcld.conf", "--check-config");
    ck_assert_int_ne(r.status, 0);
    ck_assert_msg(strstr(r.err, "/nowhere/tcld.conf") != NULL, "%s", r.err);
}
END_TEST

START_TEST(print_config_is_accepted_back_and_fixed)
{
    struct run first = RUN("--connection-limit", "77", "--log-level=warning", "--print-config");
    ck_assert_int_eq(first.status, 0);
    ck_assert_msg(strstr(first.out, "77") != NULL, "%s", first.out);
    char *path = config_file(first.out);
    struct run check = RUN("-c", path, "--check-config");
    ck_assert_msg(check.status == 0, "%s", check.err);
    ck_assert_str_eq(RUN("-c", path, "--print-config").out, first.out);
}
END_TEST

START_TEST(flag_beats_environment_beats_file_beats_default)
{
    char *path = config_file("connection_limit = 21\nidle_timeout_seconds = 31\nrequest_timeout_seconds = 41\n");
    struct run r = run_env((const char *[]){"TCLD_IDLE_TIMEOUT_SECONDS=32", "TCLD_REQUEST_TIMEOUT_SECONDS=42", NULL},
                           (const char *[]){"-c", path, "--request-timeout-seconds", "43", "--print-config", NULL});
    ck_assert_msg(r.status == 0, "%s", r.err);
    static const struct {
        const char *key, *value;
    } want[] = {{"connection_limit", "21"},
                {"idle_timeout_seconds", "32"},
                {"request_timeout_seconds", "43"},
                {"drain_seconds", "30"}};
    for (size_t i = 0; i < 4; i++) {
        const char *at = strstr(r.out, bb_printf("\n%s", want[i].key).p);
        ck_assert_msg(at != NULL, "%s is not printed: %s", want[i].key, r.out);
        const char *eq = strchr(at, '=');
        ck_assert_msg(eq && strtol(eq + 1, NULL, 10) == strtol(want[i].value, NULL, 10), "%s: %.60s", want[i].key, at);
    }
}
END_TEST

/* ---- listeners ---- */

START_TEST(other_than_loopback_needs_insecure)
{
    struct run r = RUN("--listen", "0.0.0.0:0", "--state-dir", bb_path("open"));
    ck_assert_msg(r.status != 0 && r.status < 128, "%d", r.status);
    ck_assert_msg(strstr(r.err, "insecure") != NULL, "%s", r.err);
    struct tc_daemon *d = bb_start(bb_path("open"), (const char *[]){"--insecure", "--listen", "0.0.0.0:0", NULL});
    bb_status(bb_get("/livez"), 200);
    bb_stop(d);
}
END_TEST

START_TEST(port_in_use_is_an_error_that_names_it)
{
    struct tc_daemon *d = bb_start(bb_path("taken"), NULL);
    struct bb_text addr = bb_printf("127.0.0.1:%d", tc_daemon_port(d));
    struct run r = RUN("--listen", addr.p, "--state-dir", bb_path("late"));
    ck_assert_msg(r.status != 0 && r.status < 128, "%d", r.status);
    ck_assert_msg(strstr(r.err, addr.p) != NULL, "%s", r.err);
    bb_status(bb_get("/livez"), 200);
    bb_stop(d);
}
END_TEST

START_TEST(port_file_holds_the_port_and_a_newline)
{
    char *dir = bb_path("port");
    struct tc_daemon *d = bb_start(dir, NULL);
    ck_assert_str_eq(bb_file(bb_printf("%s.port", dir).p).p, bb_printf("%d\n", tc_daemon_port(d)).p);
    bb_stop(d);
}
END_TEST

START_TEST(ipv6_loopback_is_served)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool have = fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof a);
    if (fd >= 0)
        close(fd);
    if (!have) {
        printf("skipped: no IPv6 loopback here\n");
        return;
    }
    struct tc_daemon *d = bb_start(bb_path("six"), (const char *[]){"--listen", "[::1]:0", NULL});
    bb_status(bb_get("/livez"), 200);
    bb_stop(d);
}
END_TEST

START_TEST(unix_socket_serves_and_is_removed)
{
    char *dir = bb_path("unix");
    struct bb_text sock = bb_printf("%s.sock", dir), addr = bb_printf("unix:%s", sock.p);
    struct tc_daemon *d = bb_start(dir, (const char *[]){"--listen", addr.p, NULL});
    bb_status(bb_get("/v1"), 200);
    bb_put_hardware("by-socket");
    bb_stop(d);
    ck_assert_int_ne(access(sock.p, F_OK), 0);
}
END_TEST

START_TEST(stale_unix_socket_is_replaced)
{
    char *dir = bb_path("stale");
    struct bb_text sock = bb_printf("%s.sock", dir), addr = bb_printf("unix:%s", sock.p);
    struct tc_daemon *d = bb_start(dir, (const char *[]){"--listen", addr.p, NULL});
    tc_daemon_signal(d, SIGKILL);
    ck_assert_int_eq(tc_daemon_wait(d, 10), 128 + SIGKILL);
    tc_daemon_free(d);
    ck_assert_int_eq(access(sock.p, F_OK), 0);
    d = bb_start(dir, (const char *[]){"--listen", addr.p, NULL});
    bb_status(bb_get("/v1"), 200);
    bb_stop(d);
}
END_TEST

/* ---- the state directory ---- */

START_TEST(state_directory_is_private)
{
    char *dir = bb_path("private");
    struct stat st;
    struct tc_daemon *d = bb_start(dir, NULL);
    ck_assert_int_eq(stat(dir, &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0700);
    bb_stop(d);
}
END_TEST

START_TEST(second_daemon_on_one_state_directory_is_refused)
{
    char *dir = bb_path("shared");
    struct tc_daemon *d = bb_start(dir, NULL);
    bb_put_hardware("mine");
    struct run r = RUN("--listen", "127.0.0.1:0", "--state-dir", dir);
    ck_assert_msg(r.status != 0 && r.status < 128, "%d", r.status);
    ck_assert_msg(r.err[0] != '\0', "it says nothing");
    bb_status(bb_get("/v1/hardware/mine"), 200);
    bb_stop(d);
}
END_TEST

START_TEST(unusable_state_directory_is_an_error)
{
    char *file = config_file("I am a file");
    struct run r = RUN("--listen", "127.0.0.1:0", "--state-dir", file);
    ck_assert_msg(r.status != 0 && r.status < 128 && r.err[0], "%d %s", r.status, r.err);
}
END_TEST

START_TEST(newer_schema_is_refused)
{
    char *dir = bb_path("newer");
    bb_stop(bb_start(dir, NULL));
    sqlite3 *db = NULL;
    ck_assert_int_eq(sqlite3_open(bb_printf("%s/tcld.db", dir).p, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, "PRAGMA user_version = 999", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    struct run r = RUN("--listen", "127.0.0.1:0", "--state-dir", dir);
    ck_assert_msg(r.status != 0 && r.status < 128, "%d", r.status);
    ck_assert_msg(strstr(r.err, "newer") != NULL, "%s", r.err);
}
END_TEST

START_TEST(damaged_database_is_an_error_not_a_crash)
{
    char *dir = bb_path("noise");
    char noise[8192];
    memset(noise, 'x', sizeof noise);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    ck_assert_int_eq(tc_write_file(bb_printf("%s/tcld.db", dir).p, noise, sizeof noise, NULL), 0);
    struct run r = RUN("--listen", "127.0.0.1:0", "--state-dir", dir);
    ck_assert_msg(r.status != 0 && r.status < 128 && r.err[0], "%d %s", r.status, r.err);
}
END_TEST

/* Whoever starts it that way learns it at once, not by connections that hang. */
START_TEST(too_few_open_files_are_an_error)
{
    struct rlimit few = {40, 40};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0); /* of this test's process */
    struct run r = RUN("--listen", "127.0.0.1:0", "--state-dir", bb_path("few"));
    ck_assert_int_eq(r.status, 1);
    ck_assert_msg(strstr(r.err, "may open 40 files") != NULL, "%s", r.err);
}
END_TEST

/* ---- signals ---- */

static const char post_head[] = "POST /v1/hardware/drained/measurements HTTP/1.1\r\nHost: a\r\nContent-Type: "
                                "application/x-ndjson\r\nContent-Length: ";

START_TEST(sigterm_finishes_the_request_in_flight)
{
    char *dir = bb_path("drain");
    struct tc_daemon *d = bb_start(dir, NULL);
    bb_put_hardware("drained");
    struct bb_text body = bb_records(0, 200), head = bb_printf("%s%zu\r\n\r\n", post_head, body.n);
    int fd = bb_connect();
    bb_send(fd, head.p, head.n);
    bb_send(fd, body.p, body.n / 2);
    tc_sleep(0.2);
    tc_daemon_signal(d, SIGTERM);
    tc_sleep(0.3);
    ck_assert_msg(tc_daemon_running(d), "it did not wait");
    bb_send(fd, body.p + body.n / 2, body.n - body.n / 2);
    struct bb_text got = bb_recv(fd, "\"errors\"", 10, NULL);
    close(fd);
    ck_assert_msg(!strncmp(got.p, "HTTP/1.1 200", 12) && strstr(got.p, "\"accepted\": 200"), "%.400s", got.p);
    ck_assert_int_eq(tc_daemon_wait(d, 10), 0);
    tc_daemon_free(d);
    d = bb_start(dir, NULL);
    ck_assert_str_eq(bb_get("/v1/hardware/drained/measurements")->body, body.p);
    bb_stop(d);
}
END_TEST

START_TEST(idle_connections_do_not_hold_the_drain)
{
    enum { N = 20 };
    int fd[N];
    struct tc_daemon *d = bb_start(bb_path("idle"), NULL);
    for (int i = 0; i < N; i++) {
        static const char get[] = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";
        fd[i] = bb_connect();
        if (i % 2) {
            bb_send(fd[i], get, sizeof get - 1);
            bb_recv(fd[i], "\r\n\r\n", 5, NULL);
        }
    }
    tc_daemon_signal(d, SIGTERM);
    ck_assert_int_eq(tc_daemon_wait(d, bb_slow() ? 30 : 5), 0);
    for (int i = 0; i < N; i++)
        close(fd[i]);
    tc_daemon_free(d);
}
END_TEST

START_TEST(sigint_stops_it_too)
{
    struct tc_daemon *d = bb_start(bb_path("int"), NULL);
    tc_daemon_signal(d, SIGINT);
    ck_assert_int_eq(tc_daemon_wait(d, bb_slow() ? 30 : 5), 0);
    tc_daemon_free(d);
}
END_TEST

START_TEST(second_sigterm_hurries)
{
    struct tc_daemon *d = bb_start(bb_path("hurry"), NULL);
    bb_put_hardware("drained");
    struct bb_text head = bb_printf("%s%d\r\n\r\n", post_head, 1000);
    int fd = bb_connect();
    bb_send(fd, head.p, head.n); /* and never a body */
    tc_sleep(0.2);
    tc_daemon_signal(d, SIGTERM);
    tc_sleep(0.5);
    ck_assert_msg(tc_daemon_running(d), "it did not wait for the request");
    tc_daemon_signal(d, SIGTERM);
    int status = tc_daemon_wait(d, bb_slow() ? 30 : 5);
    ck_assert_msg(status >= 0, "it still waits");
    close(fd);
    tc_daemon_free(d);
}
END_TEST

START_TEST(drain_seconds_bound_the_wait)
{
    struct tc_daemon *d = bb_start(bb_path("bound"), (const char *[]){"--drain-seconds", "1", NULL});
    bb_put_hardware("drained");
    struct bb_text head = bb_printf("%s%d\r\n\r\n", post_head, 1000);
    int fd = bb_connect();
    bb_send(fd, head.p, head.n);
    tc_sleep(0.2);
    tc_daemon_signal(d, SIGTERM);
    int status = tc_daemon_wait(d, bb_slow() ? 40 : 8);
    ck_assert_msg(status >= 0, "it still waits");
    close(fd);
    tc_daemon_free(d);
}
END_TEST

START_TEST(sighup_reloads_and_says_what_it_cannot)
{
    char *path = config_file("log_level = info\nlimit_predict_records = 100\nconnection_limit = 50\n");
    struct tc_daemon *d = bb_start(bb_path("hup"), (const char *[]){"-c", path, NULL});
    static const char other[] = "log_level = info\nlimit_predict_records = 3\nconnection_limit = 60\n";
    bb_put_hardware("reloaded");
    struct bb_text t = bb_records(0, 10);
    bb_problem(bb_lines(t.p, t.n, "/v1/hardware/reloaded/predict"), 409, "no-model");
    ck_assert_int_eq(tc_write_file(path, other, sizeof other - 1, NULL), 0);
    tc_daemon_signal(d, SIGHUP);
    bool told = false;
    for (double until = tc_now() + 10; !told && tc_now() < until; tc_sleep(0.02))
        told = strstr(bb_log(d), "connection_limit") != NULL;
    ck_assert_msg(told, "the log does not name the key that needs a restart");
    struct bb_reply *r = bb_lines(t.p, t.n, "/v1/hardware/reloaded/predict");
    ck_assert_msg(r->status == 413 || r->status == 409, "%ld %s", r->status, r->body);
    static const char broken[] = "no_such_key = 1\n";
    ck_assert_int_eq(tc_write_file(path, broken, sizeof broken - 1, NULL), 0);
    tc_daemon_signal(d, SIGHUP); /* a broken file changes nothing and ends nothing */
    for (double until = tc_now() + 10; tc_now() < until && !strstr(bb_log(d), "no_such_key"); tc_sleep(0.02))
        ;
    ck_assert_msg(strstr(bb_log(d), "no_such_key") != NULL, "the log does not name the unknown key");
    bb_status(bb_get("/readyz"), 200);
    bb_stop(d);
}
END_TEST

START_TEST(json_log_is_json)
{
    struct tc_daemon *d = bb_start(bb_path("jlog"), (const char *[]){"--log-format=json", NULL});
    bb_get("/v1");
    bb_get("/v1/hardware/nobody%%22%%0a%%5c");
    bb_get("/no/such/route?x=%%22");
    tc_sleep(0.1);
    char *log = bb_log(d);
    int lines = 0;
    for (const char *p = log; *p; p += strcspn(p, "\n") + 1, lines++) {
        json_t *j = json_loadb(p, strcspn(p, "\n"), 0, NULL);
        ck_assert_msg(json_is_object(j), "%.*s", (int)strcspn(p, "\n"), p);
        json_decref(j);
        if (!p[strcspn(p, "\n")])
            break;
    }
    ck_assert_int_ge(lines, 3);
    bb_stop(d);
}
END_TEST

/* ---- jobs and the end of the process ---- */

static void check_interrupted(char *dir, bool killed)
{
    struct bb_text t = bb_demo(9, 1);
    struct tc_daemon *d = bb_start(dir, NULL);
    bb_put_hardware("cut");
    bb_post_demo("cut", 9, 3);
    bb_train("cut", "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 1}");
    const char *before = bb_lines(t.p, t.n, "/v1/hardware/cut/predict")->body;
    int64_t id = bb_retrain("cut", "{\"mode\": \"finetune\", \"epochs\": 1000, \"seed\": 2}");
    int64_t waiting = bb_retrain("cut", "{\"mode\": \"finetune\", \"epochs\": 1000, \"seed\": 3}");
    for (double until = tc_now() + 20; tc_now() < until; tc_sleep(0.01)) {
        struct bb_reply *r = bb_get("/v1/jobs/%lld", (long long)id);
        if (!strcmp(tc_str(r->json, "/state"), "running") && tc_int(r->json, "/epoch", 0) > 0)
            break;
    }
    if (killed) {
        tc_daemon_signal(d, SIGKILL);
        ck_assert_int_eq(tc_daemon_wait(d, 10), 128 + SIGKILL);
    } else {
        tc_daemon_signal(d, SIGTERM);
        ck_assert_int_eq(tc_daemon_wait(d, bb_slow() ? 60 : 15), 0);
    }
    tc_daemon_free(d);
    d = bb_start(dir, NULL);
    int64_t both[2] = {id, waiting};
    for (int i = 0; i < 2; i++) {
        struct bb_reply *r = bb_get("/v1/jobs/%lld", (long long)both[i]);
        const char *state = tc_str(r->json, "/state");
        if (killed) {
            ck_assert_str_eq(state, "failed");
            ck_assert_msg(strstr(r->body, "interrupted") != NULL, "%s", r->body);
        } else {
            ck_assert_msg(!strcmp(state, "failed") || !strcmp(state, "cancelled"), "%s", r->body);
        }
        ck_assert_msg(tc_str(r->json, "/finished") != NULL, "%s", r->body);
    }
    ck_assert_str_eq(bb_lines(t.p, t.n, "/v1/hardware/cut/predict")->body, before);
    bb_train("cut", "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 4}"); /* and training works again */
    bb_stop(d);
}

START_TEST(kill_9_in_a_job_marks_it_interrupted_and_keeps_the_model)
{
    check_interrupted(bb_path("killed"), true);
}
END_TEST

START_TEST(sigterm_in_a_job_ends_in_time)
{
    check_interrupted(bb_path("termed"), false);
}
END_TEST

START_TEST(followers_of_a_job_do_not_hold_the_drain)
{
    enum { N = 8 };
    int fd[N];
    struct tc_daemon *d = bb_start(bb_path("followers"), NULL);
    bb_put_hardware("cut");
    bb_post_demo("cut", 9, 3);
    int64_t id = bb_retrain("cut", "{\"mode\": \"finetune\", \"epochs\": 1000}");
    struct bb_text get = bb_printf("GET /v1/jobs/%lld/events HTTP/1.1\r\nHost: a\r\n\r\n", (long long)id);
    for (int i = 0; i < N; i++) {
        fd[i] = bb_connect();
        bb_send(fd[i], get.p, get.n);
        bb_recv(fd[i], "event: progress", 10, NULL);
    }
    tc_daemon_signal(d, SIGTERM);
    ck_assert_int_eq(tc_daemon_wait(d, bb_slow() ? 60 : 10), 0);
    for (int i = 0; i < N; i++)
        close(fd[i]);
    tc_daemon_free(d);
}
END_TEST

START_TEST(stopping_right_after_a_reply_is_clean)
{
    /* a worker may still be on its way out of the last reply */
    struct bb_text t = bb_records(0, 20);
    for (int i = 0; i < (bb_slow() ? 5 : 20); i++) {
        struct tc_daemon *d = bb_start(bb_path("quick"), NULL);
        bb_put_hardware("quick");
        bb_counts(bb_lines(t.p, t.n, "/v1/hardware/quick/measurements"), 20, 0, 0);
        bb_problem(bb_lines(t.p, t.n, "/v1/hardware/quick/predict"), 409, "no-model");
        bb_stop(d);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/lifecycle");
    TCase *tc = bb_case_own(s, "command line", 30);
    tcase_add_test(tc, version_is_told);
    tcase_add_test(tc, help_names_every_key);
    tcase_add_test(tc, unknown_option_names_the_nearest);
    tcase_add_test(tc, check_config_accepts_a_good_file);
    tcase_add_test(tc, unknown_key_is_an_error_with_file_line_and_nearest_name);
    tcase_add_test(tc, values_out_of_range_are_errors_with_file_and_line);
    tcase_add_test(tc, missing_config_file_is_an_error);
    tcase_add_test(tc, print_config_is_accepted_back_and_fixed);
    tcase_add_test(tc, flag_beats_environment_beats_file_beats_default);

    tc = bb_case_own(s, "listeners", 30);
    tcase_add_test(tc, other_than_loopback_needs_insecure);
    tcase_add_test(tc, port_in_use_is_an_error_that_names_it);
    tcase_add_test(tc, port_file_holds_the_port_and_a_newline);
    tcase_add_test(tc, ipv6_loopback_is_served);
    tcase_add_test(tc, unix_socket_serves_and_is_removed);
    tcase_add_test(tc, stale_unix_socket_is_replaced);

    tc = bb_case_own(s, "state directory", 30);
    tcase_add_test(tc, state_directory_is_private);
    tcase_add_test(tc, second_daemon_on_one_state_directory_is_refused);
    tcase_add_test(tc, unusable_state_directory_is_an_error);
    tcase_add_test(tc, newer_schema_is_refused);
    tcase_add_test(tc, damaged_database_is_an_error_not_a_crash);
    tcase_add_test(tc, too_few_open_files_are_an_error);

    tc = bb_case_own(s, "signals", 60);
    tcase_add_test(tc, sigterm_finishes_the_request_in_flight);
    tcase_add_test(tc, idle_connections_do_not_hold_the_drain);
    tcase_add_test(tc, sigint_stops_it_too);
    tcase_add_test(tc, stopping_right_after_a_reply_is_clean);
    tcase_add_test(tc, second_sigterm_hurries);
    tcase_add_test(tc, drain_seconds_bound_the_wait);
    tcase_add_test(tc, sighup_reloads_and_says_what_it_cannot);
    tcase_add_test(tc, json_log_is_json);

    tc = bb_case_own(s, "jobs", 90);
    tcase_add_test(tc, kill_9_in_a_job_marks_it_interrupted_and_keeps_the_model);
    tcase_add_test(tc, sigterm_in_a_job_ends_in_time);
    tcase_add_test(tc, followers_of_a_job_do_not_hold_the_drain);
    return bb_main(s);
}
