/* What systemd relies on: notifications, the watchdog, sockets that outlive the daemon; and the backup that operators
 * take meanwhile.
 *
 * Every test starts a daemon of its own, from the test's main thread, in a folder of its own. No clock decides but as a
 * generous upper bound. */
#include "tests/http/suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- notifications ---- */

static int notify_socket(const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(un.sun_path, sizeof un.sun_path, "%s", path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
    return fd;
}

/* The next message that begins with `want`; others are passed over. */
static char *expect(int fd, const char *want)
{
    static char text[512];
    for (double until = tc_now() + (bb_slow() ? 60 : 15); tc_now() < until;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 100) <= 0)
            continue;
        ssize_t n = recv(fd, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        if (!strncmp(text, want, strlen(want)))
            return text;
    }
    ck_abort_msg("no message %s", want);
    return NULL;
}

START_TEST(start_life_reload_and_end_are_told)
{
    struct tc_err e;
    struct tc_daemon *d = NULL;
    struct bb_text path = bb_printf("/tmp/tcld-notify-%d", (int)getpid());
    int fd = notify_socket(path.p);
    struct tc_daemon_opts o = {
        .binary = bb_binary(),
        .state_dir = bb_path("told"),
        .env = (const char *[]){bb_printf("NOTIFY_SOCKET=%s", path.p).p, "WATCHDOG_USEC=400000", NULL},
        .ready_seconds = 30};
    ck_assert_msg(tc_daemon_start(&o, &d, &e) == 0, "%s", e.text);
    expect(fd, "READY=1");
    for (int i = 0; i < 3; i++)
        expect(fd, "WATCHDOG=1");
    tc_daemon_signal(d, SIGHUP);
    ck_assert_ptr_nonnull(strstr(expect(fd, "RELOADING=1"), "MONOTONIC_USEC="));
    expect(fd, "READY=1");
    tc_daemon_signal(d, SIGTERM);
    expect(fd, "STOPPING=1");
    ck_assert_int_eq(tc_daemon_wait(d, 30), 0);
    tc_daemon_free(d);
    close(fd);
    unlink(path.p);
}
END_TEST

/* ---- socket activation ---- */

/* As systemd starts it: the listening socket is descriptor 3. */
static pid_t activate(int listener, const char *state)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, SIG_DFL); /* Check's handler ends the whole test */
    char own[32], log[300];
    snprintf(own, sizeof own, "%d", (int)getpid());
    snprintf(log, sizeof log, "%s.log", state);
    setenv("LISTEN_PID", own, 1);
    setenv("LISTEN_FDS", "1", 1);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (dup2(out, 2) < 0 || dup2(listener, 3) < 0)
        _exit(126);
    fcntl(3, F_SETFD, 0);
    execl(bb_binary(), "tcld", "--state-dir", state, NULL);
    _exit(127);
}

static struct caller {
    int port;
    atomic_bool stop;
    atomic_int answered, busy;
    char problem[200];
} caller;

/* One new connection after the other, each with one request. */
static void *call_on_and_on(void *arg)
{
    static const char get[] = "GET /v1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)caller.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    (void)arg;
    while (!atomic_load(&caller.stop) && !caller.problem[0]) {
        char reply[600] = "";
        size_t n = 0;
        ssize_t k;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct timeval patience = {60, 0};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0 || send(fd, get, sizeof get - 1, MSG_NOSIGNAL) < 0)
            snprintf(caller.problem, sizeof caller.problem, "after %d answers: %s", caller.answered, strerror(errno));
        while (n + 1 < sizeof reply && (k = recv(fd, reply + n, sizeof reply - 1 - n, 0)) > 0)
            n += (size_t)k;
        close(fd);
        if (!strncmp(reply, "HTTP/1.1 200", 12))
            atomic_fetch_add(&caller.answered, 1);
        else if (!strncmp(reply, "HTTP/1.1 503", 12) && strcasestr(reply, "Retry-After"))
            atomic_fetch_add(&caller.busy, 1);
        else if (!caller.problem[0])
            snprintf(caller.problem, sizeof caller.problem, "after %d answers: \"%.100s\"", caller.answered, reply);
    }
    return NULL;
}

START_TEST(a_restart_refuses_no_connection_when_the_socket_is_systemds)
{
    char *state = bb_path("activated");
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0), rounds = bb_slow() ? 2 : 6;
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    ck_assert_int_eq(listen(fd, 1024), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    caller.port = ntohs(a.sin_port);
    pthread_t thread;
    pid_t pid = activate(fd, state);
    ck_assert_int_eq(pthread_create(&thread, NULL, call_on_and_on, NULL), 0);
    for (int i = 0; i < rounds; i++) {
        int before = caller.answered, status = -1;
        for (double until = tc_now() + 60; tc_now() < until && caller.answered < before + 20 && !caller.problem[0];)
            tc_sleep(0.01);
        ck_assert_msg(!caller.problem[0], "round %d: %s; log %s.log", i, caller.problem, state);
        kill(pid, SIGTERM);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "round %d: status %x; log %s.log", i, status,
                      state);
        pid = activate(fd, state);
    }
    int before = caller.answered;
    for (double until = tc_now() + 60; tc_now() < until && caller.answered < before + 20 && !caller.problem[0];)
        tc_sleep(0.01);
    atomic_store(&caller.stop, true);
    pthread_join(thread, NULL);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    close(fd);
    ck_assert_msg(!caller.problem[0], "%s", caller.problem);
    printf("%d restarts, %d answers, %d of 503 while draining, no connection refused\n", rounds, caller.answered,
           caller.busy);
}
END_TEST

/* ---- backup ---- */

static void *post_on_and_on(void *arg)
{
    struct tc_err e;
    struct tc_http *h = tc_http_new(arg, &e);
    char line[400];
    while (h && !atomic_load(&caller.stop)) {
        int i = atomic_fetch_add(&caller.answered, 1);
        int n = snprintf(line, sizeof line,
                         "{\"i\": [" BB_TASK ", [[], [[\"SP\", 2, 0, 512, [%d, 4, 2], 1]]]], "
                         "\"r\": [[0.001], 0, 0.5, 1700000000], \"v\": \"v0.6\"}\n",
                         i + 1);
        if (tc_post_lines(h, "/v1/hardware/copied/measurements", line, (size_t)n, NULL, &e))
            snprintf(caller.problem, sizeof caller.problem, "%.190s", e.text);
    }
    tc_http_free(h);
    return NULL;
}

static int count(const char *file, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    ck_assert_int_eq(sqlite3_open(file, &db), SQLITE_OK);
    ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
    ck_assert_int_eq(sqlite3_step(st), SQLITE_ROW);
    int n = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return n;
}

START_TEST(a_backup_is_whole_and_nothing_waits_for_it)
{
    char *dir = bb_path("original"), *copy = bb_path("copy");
    struct tc_daemon *d = bb_start(dir, NULL);
    bb_put_hardware("copied");
    struct bb_text lines = bb_records(0, bb_slow() ? 2000 : 20000);
    bb_counts(bb_lines(lines.p, lines.n, "/v1/hardware/copied/measurements"), (long)bb_line_count(lines.p, lines.n), 0,
              0);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, post_on_and_on, (void *)(uintptr_t)bb_base()), 0);
    int rows = 0;
    for (int i = 0; i < 3; i++) {
        struct bb_reply *r = bb_call(&(struct tc_request){.method = "POST", .path = "/v1/admin/backup"});
        bb_status(r, 200);
        ck_assert_str_eq(bb_header(r, "Content-Type"), "application/vnd.sqlite3");
        ck_assert_int_eq(tc_write_file(copy, r->body, r->n, NULL), 0);
        ck_assert_int_eq(count(copy, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
        int now = count(copy, "SELECT count(*) FROM measurement");
        ck_assert_int_ge(now, rows);
        ck_assert_int_ge(now, (int)bb_line_count(lines.p, lines.n));
        rows = now;
    }
    atomic_store(&caller.stop, true);
    pthread_join(thread, NULL);
    ck_assert_msg(!caller.problem[0], "%s", caller.problem);
    bb_stop(d);
    ck_assert_ptr_null(bb_dir(dir, ".tmp")[0]); /* nothing is left behind */

    /* and a daemon lives on from it */
    char *restored = bb_path("restored");
    struct bb_text bytes = bb_file(copy);
    bb_stop(bb_start(restored, NULL));
    ck_assert_int_eq(tc_write_file(bb_printf("%s/tcld.db", restored).p, bytes.p, bytes.n, NULL), 0);
    d = bb_start(restored, NULL);
    ck_assert_int_eq((int)tc_int(bb_get("/v1/hardware/copied")->json, "/counts/measurements", -1), rows);
    bb_stop(d);
}
END_TEST

START_TEST(what_a_crash_left_of_a_backup_is_removed_at_the_start)
{
    char *dir = bb_path("left");
    bb_stop(bb_start(dir, NULL));
    char *file = bb_printf("%s/backup-1-x.tmp", dir).p;
    ck_assert_int_eq(tc_write_file(file, "x", 1, NULL), 0);
    bb_stop(bb_start(dir, NULL));
    ck_assert_int_ne(access(file, F_OK), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/systemd");
    TCase *tc = bb_case_own(s, "systemd", 120);
    tcase_add_test(tc, start_life_reload_and_end_are_told);
    tcase_add_test(tc, a_restart_refuses_no_connection_when_the_socket_is_systemds);
    tc = bb_case_own(s, "backup", 60);
    tcase_add_test(tc, a_backup_is_whole_and_nothing_waits_for_it);
    tcase_add_test(tc, what_a_crash_left_of_a_backup_is_removed_at_the_start);
    return bb_main(s);
}
