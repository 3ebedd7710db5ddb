/* Every limit: what is answered at it, and that /metrics counts it.
 *
 * Every test starts a daemon of its own, from the test's main thread, in a folder of its own. No clock decides but as a
 * generous upper bound. */
#include "tests/http/suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char get_meta[] = "GET /v1 HTTP/1.1\r\nHost: a\r\n\r\n";

/* How often the limit was hit, by /metrics. */
static double refused(const char *limit)
{
    const char *line = bb_printf("\ntcld_limit_refusals_total{limit=\"%s\"} ", limit).p,
               *at = strstr(bb_get("/metrics")->body, line);
    ck_assert_msg(at != NULL, "no counter of %s", limit);
    return strtod(at + strlen(line), NULL);
}

/* A refusal on a raw connection: status line, problem, Retry-After from 1 to 60. */
static void refusal(const struct bb_text *got, const char *status, const char *slug)
{
    ck_assert_msg(!strncmp(got->p, bb_printf("HTTP/1.1 %s", status).p, 12), "%.300s", got->p);
    ck_assert_msg(strstr(got->p, slug) != NULL, "%.600s", got->p);
    const char *after = strcasestr(got->p, "Retry-After: ");
    long s = after ? strtol(after + 13, NULL, 10) : 0;
    ck_assert_msg(s >= 1 && s <= 60, "Retry-After: %ld", s);
}

static struct bb_text ask_raw(int fd, const char *request)
{
    bb_send(fd, request, strlen(request));
    return bb_recv(fd, "\"status\":", 10, NULL);
}

START_TEST(long_bodies_are_413_and_counted)
{
    struct tc_daemon *d = bb_start(bb_path("body"), (const char *[]){"--limit-control-bytes", "1024", NULL});
    char *text = malloc(3000);
    memset(text, ' ', 2999);
    text[2999] = '\0';
    bb_problem(bb_json("PUT", text, "/v1/hardware/x"), 413, "body-too-large");
    free(text);
    ck_assert_double_eq(refused("body"), 1);
    bb_stop(d);
}
END_TEST

START_TEST(long_records_are_rejected_alone_and_counted)
{
    struct tc_daemon *d = bb_start(bb_path("record"), (const char *[]){"--limit-record-bytes", "1024", NULL});
    bb_put_hardware("x");
    struct bb_text good = bb_record(1, 0.001, 1700000000);
    char pad[1500];
    memset(pad, 'p', sizeof pad - 1);
    pad[sizeof pad - 1] = '\0';
    struct bb_text lines = bb_printf("%s\n{\"i\": [\"%s\"]}\n", good.p, pad);
    struct bb_reply *r = bb_lines(lines.p, lines.n, "/v1/hardware/x/measurements");
    bb_counts(r, 1, 0, 1);
    ck_assert_str_eq(tc_str(r->json, "/errors/0/code"), "too-long");
    struct bb_text json = bb_printf("{\"records\": [%s, {\"i\": [\"%s\"]}]}", good.p, pad);
    bb_counts(bb_json("POST", json.p, "/v1/hardware/x/measurements"), 0, 1, 1);
    ck_assert_double_eq(refused("record"), 2);
    bb_stop(d);
}
END_TEST

/* A client that reads nothing holds the only backup: a socket and MHD keep less than the database has. */
START_TEST(a_second_backup_is_503_and_counted)
{
    struct tc_daemon *d = bb_start(bb_path("backups"), NULL);
    struct tc_request backup = {.method = "POST", .path = "/v1/admin/backup"};
    static const char post[] = "POST /v1/admin/backup HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    struct bb_text lines = bb_records(0, 20000);
    bb_put_hardware("x");
    bb_counts(bb_lines(lines.p, lines.n, "/v1/hardware/x/measurements"), 20000, 0, 0);
    int fd = bb_connect(), least = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
    bb_send(fd, post, sizeof post - 1);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, 30000), 1); /* its reply begins */

    struct bb_reply *r = bb_call(&backup);
    bb_problem(r, 503, "overloaded");
    const char *after = bb_header(r, "Retry-After");
    ck_assert_msg(after && strtol(after, NULL, 10) >= 1 && strtol(after, NULL, 10) <= 60, "Retry-After: %s", after);
    ck_assert_double_eq(refused("backups"), 1);
    bb_status(bb_get("/v1"), 200);

    close(fd); /* who goes away gives it back */
    for (double until = tc_now() + 30; tc_now() < until && bb_call(&backup)->status != 200;)
        tc_sleep(0.05);
    bb_status(bb_call(&backup), 200);
    bb_stop(d);
}
END_TEST

START_TEST(too_many_records_are_413)
{
    struct tc_daemon *d = bb_start(bb_path("records"), (const char *[]){"--limit-measurements-records", "10", NULL});
    struct bb_text ten = bb_records(0, 10), eleven = bb_records(0, 11);
    bb_put_hardware("x");
    bb_problem(bb_lines(eleven.p, eleven.n, "/v1/hardware/x/measurements"), 413, "body-too-large");
    bb_counts(bb_lines(ten.p, ten.n, "/v1/hardware/x/measurements"), 10, 0, 0);
    bb_stop(d);
}
END_TEST

START_TEST(connections_of_one_address_are_limited)
{
    enum { LIMIT = 4, MORE = 3 };
    struct tc_daemon *d = bb_start(bb_path("address"), (const char *[]){"--address-connections", "4", NULL});
    int fd[LIMIT + MORE];
    tc_sleep(0.3); /* the connection of the readiness check goes away */
    for (int i = 0; i < LIMIT + MORE; i++) {
        fd[i] = bb_connect();
        bb_send(fd[i], get_meta, sizeof get_meta - 1);
        struct bb_text got = bb_recv(fd[i], i < LIMIT ? "}" : "\"status\":", 10, NULL);
        if (i < LIMIT)
            ck_assert_msg(!strncmp(got.p, "HTTP/1.1 200", 12), "%d: %.300s", i, got.p);
        else
            refusal(&got, "429", "too-many-requests");
    }
    for (int i = 0; i < LIMIT + MORE; i++)
        close(fd[i]);
    tc_sleep(0.3);
    ck_assert_double_eq(refused("address_connections"), MORE);
    bb_status(bb_get("/v1"), 200);
    bb_stop(d);
}
END_TEST

/* A POST that stops in the middle of its body. */
static int half_a_request(size_t declared, size_t sent)
{
    int fd = bb_connect();
    struct bb_text head = bb_printf("POST /v1/hardware/x/measurements HTTP/1.1\r\nHost: a\r\nContent-Type: "
                                    "application/x-ndjson\r\nContent-Length: %zu\r\n\r\n",
                                    declared);
    char *body = malloc(sent);
    memset(body, '#', sent);
    bb_send(fd, head.p, head.n);
    bb_send(fd, body, sent);
    free(body);
    return fd;
}

START_TEST(requests_in_flight_are_limited_and_health_is_not)
{
    struct tc_daemon *d = bb_start(bb_path("flight"), (const char *[]){"--limit-requests", "3", NULL});
    int fd[3], probe = bb_connect();
    bb_put_hardware("x");
    for (int i = 0; i < 3; i++)
        fd[i] = half_a_request(100000, 10);
    struct bb_text got = {0};
    for (double until = tc_now() + 10; tc_now() < until; tc_sleep(0.02)) {
        bb_send(probe, get_meta, sizeof get_meta - 1);
        got = bb_recv(probe, "}", 10, NULL);
        if (!strncmp(got.p, "HTTP/1.1 503", 12))
            break;
    }
    refusal(&got, "503", "overloaded");
    bb_status(bb_get("/livez"), 200);
    bb_status(bb_get("/readyz"), 200);
    ck_assert_double_ge(refused("requests"), 1);
    for (int i = 0; i < 3; i++)
        close(fd[i]);
    close(probe);
    bb_stop(d);
}
END_TEST

START_TEST(memory_of_all_bodies_is_limited)
{
    struct tc_daemon *d = bb_start(bb_path("bodies"), (const char *[]){"--limit-bodies-bytes", "1048576", NULL});
    bb_put_hardware("x");
    int first = half_a_request(3000000, 400000);
    struct bb_text got = {0};
    for (int i = 0; i < 20 && !got.n; i++) { /* the first one's bytes arrive at a time of their own */
        int second = half_a_request(700000, 700000);
        got = bb_recv(second, "\"status\":", 10, NULL);
        close(second);
        if (got.n && strncmp(got.p, "HTTP/1.1 503", 12) != 0)
            got.n = 0;
    }
    refusal(&got, "503", "overloaded");
    close(first);
    ck_assert_double_ge(refused("bodies"), 1);
    struct bb_text one = bb_records(0, 1);
    bb_counts(bb_lines(one.p, one.n, "/v1/hardware/x/measurements"), 1, 0, 0);
    bb_stop(d);
}
END_TEST

START_TEST(memory_of_the_process_is_limited)
{
    struct tc_daemon *d = bb_start(bb_path("memory"), (const char *[]){"--limit-memory-bytes", "1000000", NULL});
    struct bb_reply *r = NULL;
    for (double until = tc_now() + 10; tc_now() < until; tc_sleep(0.05))
        if ((r = bb_get("/v1"))->status == 503)
            break;
    bb_problem(r, 503, "overloaded");
    ck_assert_ptr_nonnull(bb_header(r, "Retry-After"));
    bb_status(bb_get("/livez"), 200);
    ck_assert_double_ge(refused("memory"), 1);
    for (double until = tc_now() + 5; tc_now() < until && !strstr(bb_log(d), "event=memory-full");)
        tc_sleep(0.02);
    ck_assert_ptr_nonnull(strstr(bb_log(d), "event=memory-full"));
    bb_stop(d);
}
END_TEST

/* Many requests at once on raw connections; counts replies by status. */
static void burst(int n, const struct bb_text *request, int *ok, int *refusals)
{
    int *fd = calloc((size_t)n, sizeof *fd);
    *ok = *refusals = 0;
    for (int i = 0; i < n; i++) {
        fd[i] = bb_connect();
        bb_send(fd[i], request->p, request->n);
    }
    for (int i = 0; i < n; i++) {
        struct bb_text got = bb_recv(fd[i], "}", bb_slow() ? 120 : 30, NULL);
        if (!strncmp(got.p, "HTTP/1.1 200", 12)) {
            ++*ok;
        } else {
            refusal(&got, "503", "overloaded");
            ++*refusals;
        }
        close(fd[i]);
    }
    free(fd);
}

START_TEST(waiting_requests_of_the_api_are_limited)
{
    struct tc_daemon *d = bb_start(bb_path("api"), (const char *[]){"--api-queue", "1", NULL});
    bb_put_hardware("x");
    struct bb_text lines = bb_records(0, 300);
    struct bb_text request = bb_printf("POST /v1/hardware/x/measurements HTTP/1.1\r\nHost: a\r\nContent-Type: "
                                       "application/x-ndjson\r\nContent-Length: %zu\r\n\r\n%s",
                                       lines.n, lines.p);
    int ok, refusals;
    burst(64, &request, &ok, &refusals);
    ck_assert_int_gt(ok, 0);
    ck_assert_int_gt(refusals, 0);
    ck_assert_double_ge(refused("api_queue"), refusals);
    bb_stop(d);
}
END_TEST

START_TEST(a_request_whose_deadline_passed_is_504_and_does_nothing)
{
    struct tc_daemon *d = bb_start(bb_path("deadline"), NULL);
    bb_put_hardware("x");
    struct bb_text lines = bb_records(0, 5);
    struct bb_text head = bb_printf("POST /v1/hardware/x/measurements HTTP/1.1\r\nHost: a\r\nContent-Type: "
                                    "application/x-ndjson\r\nX-Request-Timeout-Ms: 20\r\nContent-Length: %zu\r\n\r\n",
                                    lines.n);
    int fd = bb_connect();
    bb_send(fd, head.p, head.n);
    tc_sleep(0.2);
    struct bb_text got = ask_raw(fd, lines.p);
    close(fd);
    ck_assert_msg(!strncmp(got.p, "HTTP/1.1 504", 12) && strstr(got.p, "deadline-passed"), "%.500s", got.p);
    ck_assert_uint_eq(bb_get("/v1/hardware/x/measurements")->n, 0);
    ck_assert_double_ge(refused("deadline"), 1);

    static const char *const bad[] = {"", "0", "-1", "1.5", "x", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *headers[] = {bb_printf("X-Request-Timeout-Ms:%s%s", *bad[i] ? " " : "", bad[i]).p, NULL};
        struct bb_reply *r = bb_call(&(struct tc_request){.path = "/v1/hardware", .headers = headers});
        if (*bad[i]) /* curl leaves an empty header out */
            bb_problem(r, 400, "bad-parameter");
    }
    const char *headers[] = {"X-Request-Timeout-Ms: 60000", NULL};
    bb_status(bb_call(&(struct tc_request){.path = "/v1/hardware", .headers = headers}), 200);
    bb_stop(d);
}
END_TEST

START_TEST(requests_that_stall_at_any_byte_are_closed)
{
    /* every cut of a request's head, and some of its body: a header drip at each of its stages */
    static const char request[] = "POST /v1/hardware/x/measurements?agent=a HTTP/1.1\r\nHost: a\r\nContent-Type: "
                                  "application/x-ndjson\r\nContent-Length: 100\r\n\r\n##########";
    enum { CUTS = sizeof request - 1 };
    struct tc_daemon *d = bb_start(
        bb_path("stall"), (const char *[]){"--request-timeout-seconds", "1", "--idle-timeout-seconds", "1", NULL});
    struct pollfd p[CUTS];
    bb_put_hardware("x");
    for (int i = 0; i < CUTS; i++) {
        p[i] = (struct pollfd){.fd = bb_connect(), .events = POLLRDHUP};
        bb_send(p[i].fd, request, (size_t)i + 1);
    }
    int open = CUTS;
    for (double until = tc_now() + (bb_slow() ? 60 : 15); open && tc_now() < until;) {
        if (poll(p, CUTS, 200) <= 0)
            continue;
        for (int i = 0; i < CUTS; i++)
            if (p[i].fd >= 0 && p[i].revents) {
                close(p[i].fd);
                p[i].fd = -1;
                open--;
            }
    }
    ck_assert_msg(open == 0, "%d of %d are still open", open, (int)CUTS);
    bb_status(bb_get("/v1"), 200);
    bb_stop(d);
}
END_TEST

START_TEST(health_and_metrics_answer_while_the_main_listener_is_full)
{
    enum { HELD = 200 };
    int fd[HELD];
    struct tc_daemon *d = bb_start(bb_path("full"), (const char *[]){"--connection-limit", "16", "--http-threads", "1",
                                                                     "--health-listen", "127.0.0.1:0", NULL});
    const char *line = NULL;
    for (double until = tc_now() + 5; !line && tc_now() < until; tc_sleep(0.02))
        line = strstr(bb_log(d), " serves=health");
    ck_assert_ptr_nonnull(line);
    const char *at = line;
    while (strncmp(at, "address=", 8))
        at--;
    struct bb_text base = bb_printf("http://%.*s", (int)strcspn(at + 8, " "), at + 8);
    for (int i = 0; i < HELD;
         i++) /* 16, and the slack in which 503 is said, are taken; the rest waits in the backlog */
        fd[i] = bb_connect();
    tc_sleep(0.2);
    struct tc_err e;
    struct tc_reply r = {0};
    struct tc_http *h = tc_http_new(base.p, &e);
    static const char *const paths[] = {"/livez", "/readyz", "/metrics"};
    for (int i = 0; i < 30; i++) {
        int rc = tc_call(h, &(struct tc_request){.path = paths[i % 3]}, &r, &e);
        ck_assert_msg(rc == 0 && r.status == 200, "%s: %s %ld", paths[i % 3], rc ? e.text : "", r.status);
        ck_assert_double_lt(r.seconds, bb_slow() ? 10 : 2);
    }
    tc_reply_free(&r);
    tc_http_free(h);
    for (int i = 0; i < HELD; i++)
        close(fd[i]);
    bb_status(bb_get("/v1"), 200);
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/limits");
    TCase *tc = bb_case_own(s, "sizes", 60);
    tcase_add_test(tc, long_bodies_are_413_and_counted);
    tcase_add_test(tc, long_records_are_rejected_alone_and_counted);
    tcase_add_test(tc, a_second_backup_is_503_and_counted);
    tcase_add_test(tc, too_many_records_are_413);
    tc = bb_case_own(s, "numbers", 60);
    tcase_add_test(tc, connections_of_one_address_are_limited);
    tcase_add_test(tc, requests_in_flight_are_limited_and_health_is_not);
    tcase_add_test(tc, memory_of_all_bodies_is_limited);
    tcase_add_test(tc, memory_of_the_process_is_limited);
    tcase_add_test(tc, waiting_requests_of_the_api_are_limited);
    tc = bb_case_own(s, "time", 60);
    tcase_add_test(tc, a_request_whose_deadline_passed_is_504_and_does_nothing);
    tcase_add_test(tc, requests_that_stall_at_any_byte_are_closed);
    tcase_add_test(tc, health_and_metrics_answer_while_the_main_listener_is_full);
    return bb_main(s);
}
