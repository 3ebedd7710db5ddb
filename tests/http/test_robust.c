/* Hard clients: many connections, slow ones, ones that leave, more work than there is room for.
 *
 * Most tests start daemons of their own, from the test's main thread, in folders of their own; one that a failing test
 * leaves behind dies with the test's process. No clock decides but as a generous upper bound. */
#include "tests/http/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char get_meta[] = "GET /v1 HTTP/1.1\r\nHost: a\r\n\r\n";

/* ---- many connections ---- */

struct conn {
    int fd;
    int left;    /* requests still to send */
    size_t have; /* bytes of the present reply */
    size_t want; /* its whole size; 0 = header not seen yet */
    char buf[4096];
};

/* The size of the reply in c->buf once its header is whole, else 0. */
static size_t reply_size(const struct conn *c)
{
    const char *end = memmem(c->buf, c->have, "\r\n\r\n", 4);
    const char *len = end ? memmem(c->buf, c->have, "Content-Length: ", 16) : NULL;
    return len ? (size_t)(end + 4 - c->buf) + strtoul(len + 16, NULL, 10) : 0;
}

/* `connections` of them, each sending its next request when the last one is answered. Seconds until all are done; fails
 * the test after `limit`. */
static double run_keep_alive(int connections, int requests_each, double limit)
{
    struct conn *c = calloc((size_t)connections, sizeof *c);
    struct pollfd *p = calloc((size_t)connections, sizeof *p);
    int busy = connections, done = 0;
    double began = tc_now();
    for (int i = 0; i < connections; i++) {
        c[i].fd = bb_connect();
        c[i].left = requests_each;
        p[i] = (struct pollfd){.fd = c[i].fd, .events = POLLIN};
        bb_send(c[i].fd, get_meta, sizeof get_meta - 1);
    }
    while (busy && tc_now() - began < limit) {
        if (poll(p, (nfds_t)connections, 100) <= 0)
            continue;
        for (int i = 0; i < connections; i++) {
            if (p[i].fd < 0 || !p[i].revents)
                continue;
            ssize_t n = recv(c[i].fd, c[i].buf + c[i].have, sizeof c[i].buf - c[i].have, 0);
            ck_assert_msg(n > 0, "connection %d was closed after %d answers", i, done);
            c[i].have += (size_t)n;
            c[i].want = c[i].want ? c[i].want : reply_size(&c[i]);
            ck_assert_msg(c[i].want <= sizeof c[i].buf, "a reply of %zu bytes", c[i].want);
            if (!c[i].want || c[i].have < c[i].want)
                continue;
            ck_assert_msg(!strncmp(c[i].buf, "HTTP/1.1 200", 12), "%.100s", c[i].buf);
            done++;
            c[i].have = c[i].want = 0;
            if (--c[i].left > 0) {
                bb_send(c[i].fd, get_meta, sizeof get_meta - 1);
            } else {
                p[i].fd = -1;
                busy--;
            }
        }
    }
    double took = tc_now() - began;
    for (int i = 0; i < connections; i++)
        close(c[i].fd);
    free(c);
    free(p);
    ck_assert_msg(!busy, "%d connections stalled: %d of %d requests answered in %.1f s", busy, done,
                  connections * requests_each, took);
    return took;
}

START_TEST(connections_that_are_all_busy_do_not_stall)
{
    /* 128 ready events in one wake-up is where an epoll loop with a fixed event array comes to a halt */
    static const int counts[] = {1, 64, 127, 128, 129, 256};
    int total = bb_slow() ? 1280 : counts[_i] == 128 ? 12800 : 3200;
    double took = run_keep_alive(counts[_i], total / counts[_i], bb_slow() ? 100 : 20);
    printf("%d connections: %.0f requests/s\n", counts[_i], total / counts[_i] * counts[_i] / took);
}
END_TEST

START_TEST(idle_connections_cost_the_others_nothing)
{
    enum { IDLE = 300 };
    int fd[IDLE];
    for (int i = 0; i < IDLE; i++)
        fd[i] = bb_connect();
    run_keep_alive(16, bb_slow() ? 10 : 100, 20);
    for (int i = 0; i < IDLE; i++)
        close(fd[i]);
}
END_TEST

START_TEST(connections_over_the_limit_get_503)
{
    enum { LIMIT = 16, MORE = 24 };
    struct tc_daemon *d = bb_start(bb_path("limit"), (const char *[]){"--connection-limit", "16", NULL});
    int fd[MORE], refused = 0;
    tc_sleep(0.3); /* the connection of the readiness check goes away */
    for (int i = 0; i < MORE; i++) {
        fd[i] = bb_connect();
        bb_send(fd[i], get_meta, sizeof get_meta - 1);
        struct bb_text got = bb_recv(fd[i], "\r\n\r\n", 5, NULL);
        ck_assert_msg(!strncmp(got.p, "HTTP/1.1 200", 12) || !strncmp(got.p, "HTTP/1.1 503", 12),
                      "connection %d: %.100s", i, got.p);
        if (!strncmp(got.p, "HTTP/1.1 503", 12)) {
            refused++;
            ck_assert_msg(strcasestr(got.p, "Retry-After:") != NULL, "%.400s", got.p);
        }
        ck_assert_msg(i >= LIMIT / 2 || !refused, "connection %d is refused already", i);
    }
    ck_assert_msg(refused > 0, "no connection of %d was refused at a limit of %d", MORE, LIMIT);
    for (int i = 0; i < MORE; i++)
        close(fd[i]);
    tc_sleep(0.3);
    bb_status(bb_get("/v1"), 200);
    bb_stop(d);
}
END_TEST

/* ---- slow and rude clients ---- */

/* One byte every 50 ms, so that no inactivity timeout ever fires. Seconds until the daemon closed, -1 if it never did.
 */
static double drip(int fd, char byte, double limit, struct bb_text *got)
{
    double began = tc_now();
    struct tp_buf b = {0};
    bool closed = false;
    while (!closed && tc_now() - began < limit) {
        if (send(fd, &byte, 1, MSG_NOSIGNAL) <= 0)
            break;
        char chunk[2048];
        ssize_t n;
        while ((n = recv(fd, chunk, sizeof chunk, MSG_DONTWAIT)) > 0)
            tp_buf_put(&b, chunk, (size_t)n);
        closed = n == 0 || (n < 0 && errno != EAGAIN);
        tc_sleep(0.05);
    }
    *got = bb_printf("%.*s", (int)b.n, b.p ? b.p : "");
    tp_buf_free(&b);
    double took = tc_now() - began;
    return took < limit ? took : -1;
}

START_TEST(slow_dripping_requests_are_closed_by_the_deadline)
{
    static const char
        body_head[] =
            "POST /v1/hardware/dripped/measurements HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\n"
            "Content-Length: 100000\r\n\r\n",
        chunk_head[] =
            "POST /v1/hardware/dripped/measurements HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\n"
            "Transfer-Encoding: chunked\r\n\r\nffff\r\n",
        header_head[] = "GET /v1 HTTP/1.1\r\nHost: a\r\nX-Slow: ";
    static const char *const heads[] = {body_head, chunk_head, header_head};
    struct tc_daemon *d = bb_start(bb_path("drip"), (const char *[]){"--request-timeout-seconds", "1", NULL});
    bb_put_hardware("dripped");
    int fd = bb_connect();
    bb_send(fd, heads[_i], strlen(heads[_i]));
    struct bb_text got;
    double took = drip(fd, 'x', bb_slow() ? 30 : 8, &got);
    close(fd);
    ck_assert_msg(took >= 0, "form %d still drips", _i);
    ck_assert_double_gt(took, 0.5);
    if (got.n)
        ck_assert_msg(!strncmp(got.p, "HTTP/1.1 408", 12) || !strncmp(got.p, "HTTP/1.1 400", 12), "%.100s", got.p);
    bb_status(bb_get("/v1"), 200);
    bb_stop(d);
}
END_TEST

START_TEST(drippers_leave_room_for_others)
{
    enum { DRIPPERS = 40 };
    int fd[DRIPPERS];
    static const char head[] = "POST /v1/hardware/x/measurements HTTP/1.1\r\nHost: a\r\nContent-Type: "
                               "application/x-ndjson\r\nContent-Length: 9999\r\n\r\nx";
    for (int i = 0; i < DRIPPERS; i++) {
        fd[i] = bb_connect();
        bb_send(fd[i], head, sizeof head - 1);
    }
    for (int i = 0; i < 20; i++)
        ck_assert_double_lt(bb_get("/v1")->seconds, bb_slow() ? 10 : 1);
    for (int i = 0; i < DRIPPERS; i++)
        close(fd[i]);
}
END_TEST

START_TEST(clients_that_leave_in_the_middle_do_no_harm)
{
    static const char *const parts[] = {
        "P", "POST /v1/hardware/left/measurements HTTP/1.1\r\n",
        "POST /v1/hardware/left/measurements HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n{\"i\"",
        "POST /v1/hardware/left/measurements HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"};
    bb_put_hardware("left");
    for (int round = 0; round < 10; round++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            int fd = bb_connect();
            struct linger hard = {.l_onoff = 1};
            bb_send(fd, parts[i], strlen(parts[i]));
            if (round % 2) /* a reset instead of a close */
                setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
            close(fd);
        }
    ck_assert_uint_eq(bb_get("/v1/hardware/left/measurements")->n, 0);
    bb_status(bb_get("/readyz"), 200);
}
END_TEST

START_TEST(clients_that_do_not_wait_for_their_reply_lose_nothing)
{
    struct bb_text lines = bb_records(0, 50);
    struct bb_text req = bb_printf(
        "POST /v1/hardware/impatient/measurements HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\n"
        "Content-Length: %zu\r\n\r\n%s",
        lines.n, lines.p);
    bb_put_hardware("impatient");
    for (int i = 0; i < 10; i++) {
        int fd = bb_connect();
        bb_send(fd, req.p, req.n);
        close(fd);
    }
    for (double until = tc_now() + 20; tc_now() < until; tc_sleep(0.05))
        if (bb_get("/v1/hardware/impatient/measurements")->n)
            break;
    ck_assert_str_eq(bb_get("/v1/hardware/impatient/measurements")->body, lines.p);
}
END_TEST

START_TEST(a_reader_that_does_not_read_holds_nobody_up)
{
    /* a large export whose reader sleeps: the stream must wait without a thread */
    struct bb_text lines = bb_records(0, bb_slow() ? 3000 : 15000);
    bb_put_hardware("unread");
    bb_counts(bb_lines(lines.p, lines.n, "/v1/hardware/unread/measurements"), (long)bb_line_count(lines.p, lines.n), 0,
              0);
    static const char get[] = "GET /v1/hardware/unread/measurements HTTP/1.1\r\nHost: a\r\n\r\n";
    enum { READERS = 8 };
    int fd[READERS];
    for (int i = 0; i < READERS; i++) {
        fd[i] = bb_connect();
        bb_send(fd[i], get, sizeof get - 1);
    }
    for (int i = 0; i < 20; i++)
        ck_assert_double_lt(bb_get("/v1")->seconds, bb_slow() ? 10 : 1);
    bb_status(bb_get("/v1/hardware/unread/tasks"), 200);
    for (int i = 0; i < READERS; i++)
        close(fd[i]);
    ck_assert_str_eq(bb_get("/v1/hardware/unread/measurements")->body, lines.p);
}
END_TEST

/* ---- more work than room ---- */

struct asker {
    pthread_t thread;
    const char *base;
    struct bb_text body;
    int rounds, ok, refused;
    char problem[400];
};

static void *ask(void *arg)
{
    struct asker *a = arg;
    struct tc_err e = {{0}};
    struct tc_reply r = {0};
    struct tc_http *h = tc_http_new(a->base, &e);
    char buf[64];
    for (int i = 0; h && i < a->rounds && !a->problem[0]; i++) {
        struct tc_request q = {.path = "/v1/hardware/busy/predict",
                               .body = a->body.p,
                               .n = a->body.n,
                               .content_type = "application/x-ndjson"};
        if (tc_call(h, &q, &r, &e))
            snprintf(a->problem, sizeof a->problem, "%.390s", e.text);
        else if (r.status == 200)
            a->ok++;
        else if (r.status == 503 && tc_reply_header(&r, "Retry-After", buf, sizeof buf) &&
                 strstr(r.body.p, "urn:tcld:problem:overloaded"))
            a->refused++;
        else
            snprintf(a->problem, sizeof a->problem, "status %ld: %.300s", r.status, r.body.p);
    }
    if (!h)
        snprintf(a->problem, sizeof a->problem, "%.390s", e.text);
    tc_reply_free(&r);
    tc_http_free(h);
    return NULL;
}

static void run_askers(struct asker *a, int n, int rounds, int *ok, int *refused)
{
    struct bb_text body = bb_file("tests/data/batches/matmul_512.call5.json.gz");
    for (int i = 0; i < n; i++) {
        a[i] = (struct asker){.base = bb_base(), .body = body, .rounds = rounds};
        ck_assert_int_eq(pthread_create(&a[i].thread, NULL, ask, &a[i]), 0);
    }
    *ok = *refused = 0;
    for (int i = 0; i < n; i++) {
        pthread_join(a[i].thread, NULL);
        ck_assert_msg(!a[i].problem[0], "client %d: %s", i, a[i].problem);
        *ok += a[i].ok;
        *refused += a[i].refused;
    }
}

static void train_busy(void)
{
    bb_put_hardware("busy");
    bb_post_demo("busy", 9, 2);
    bb_train("busy", "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 1}");
}

START_TEST(overload_is_503_with_retry_after)
{
    enum { CLIENTS = 24, ROUNDS = 4 };
    struct asker a[CLIENTS];
    int ok, refused;
    static const char *const limits[][2] = {{"--predict-queue", "predict_queue"},
                                            {"--predict-wait-ms", "predict_wait"}};
    struct tc_daemon *d =
        bb_start(bb_path("overload"), (const char *[]){"--predict-threads", "1", limits[_i][0], "1", NULL});
    train_busy();
    run_askers(a, CLIENTS, ROUNDS, &ok, &refused);
    ck_assert_int_gt(ok, 0);
    ck_assert_int_gt(refused, 0);
    struct bb_text counter = bb_printf("\ntcld_limit_refusals_total{limit=\"%s\"} ", limits[_i][1]);
    const char *at = strstr(bb_get("/metrics")->body, counter.p);
    ck_assert_msg(at && strtol(at + counter.n, NULL, 10) == refused, "%d refused; counter: %.80s", refused, at);
    struct bb_text t = bb_unmeasured(1);
    bb_status(bb_lines(t.p, t.n, "/v1/hardware/busy/predict"), 200);
    bb_stop(d);
}
END_TEST

static atomic_bool loaded;

static void *keep_asking(void *arg)
{
    struct asker *a = arg;
    a->rounds = 1;
    while (loaded && !a->problem[0])
        ask(a);
    return NULL;
}

START_TEST(health_and_small_requests_answer_under_load)
{
    enum { CLIENTS = 16, LOOKS = 40 };
    struct asker a[CLIENTS];
    struct tc_daemon *d = bb_start(bb_path("loaded"), NULL);
    train_busy();
    struct bb_text body = bb_file("tests/data/batches/matmul_512.call5.json.gz");
    loaded = true;
    for (int i = 0; i < CLIENTS; i++) {
        a[i] = (struct asker){.base = bb_base(), .body = body};
        ck_assert_int_eq(pthread_create(&a[i].thread, NULL, keep_asking, &a[i]), 0);
    }
    double worst = 0;
    for (int i = 0; i < LOOKS; i++) {
        static const char *const paths[] = {"/livez", "/readyz", "/metrics", "/v1", "/v1/hardware/busy"};
        struct bb_reply *r = bb_get("%s", paths[i % 5]);
        worst = r->seconds > worst ? r->seconds : worst;
        if (r->status != 200 && !a[0].problem[0])
            snprintf(a[0].problem, sizeof a[0].problem, "%s: %ld", paths[i % 5], r->status);
        tc_sleep(0.02);
    }
    loaded = false;
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(a[i].thread, NULL);
    for (int i = 0; i < CLIENTS; i++)
        ck_assert_msg(!a[i].problem[0], "client %d: %s", i, a[i].problem);
    ck_assert_msg(worst < (bb_slow() ? 20 : 2), "a small request took %.2f s", worst);
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/robust");
    TCase *tc = bb_case(s, "connections", 60);
    tcase_add_loop_test(tc, connections_that_are_all_busy_do_not_stall, 0, 6);
    tcase_add_test(tc, idle_connections_cost_the_others_nothing);

    tc = bb_case(s, "rude clients", 60);
    tcase_add_test(tc, drippers_leave_room_for_others);
    tcase_add_test(tc, clients_that_leave_in_the_middle_do_no_harm);
    tcase_add_test(tc, clients_that_do_not_wait_for_their_reply_lose_nothing);
    tcase_add_test(tc, a_reader_that_does_not_read_holds_nobody_up);

    tc = bb_case_own(s, "own limits", 60);
    tcase_add_test(tc, connections_over_the_limit_get_503);
    tcase_add_loop_test(tc, slow_dripping_requests_are_closed_by_the_deadline, 0, 3);
    tcase_add_loop_test(tc, overload_is_503_with_retry_after, 0, 2);
    tcase_add_test(tc, health_and_small_requests_answer_under_load);
    return bb_main(s);
}
