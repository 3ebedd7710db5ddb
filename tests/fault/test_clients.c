/* All hard clients at once: 500 connections that say nothing, 1,000 that send a byte now and then, 130 that ask without
 * a pause, and some that vanish in the middle of what they send or read. The busy ones are all answered, health answers
 * quickly, and in the end nothing is left of them. */
#include "tests/fault/with.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { IDLE = 500, SLOW = 1000, BUSY = 130 };
static const char get_meta[] = "GET /v1 HTTP/1.1\r\nHost: a\r\n\r\n";
static const char slow_post[] = "POST /v1/hardware/hard/measurements HTTP/1.1\r\nHost: a\r\nContent-Type: "
                                "application/x-ndjson\r\nContent-Length: 100000\r\n\r\n";

static double gauge(const char *name)
{
    const char *line = bb_printf("\n%s ", name).p, *at = strstr(bb_get("/metrics")->body, line);
    ck_assert_msg(at != NULL, "no %s", name);
    return strtod(at + strlen(line), NULL);
}

/* A client that goes while it sends (even) or while it is sent to (odd). */
static void vanish(int i)
{
    int fd = bb_connect();
    struct linger hard = {.l_onoff = 1};
    if (i % 2) {
        static const char get[] = "GET /v1/hardware/hard/measurements HTTP/1.1\r\nHost: a\r\n\r\n";
        bb_send(fd, get, sizeof get - 1);
        bb_recv(fd, "\r\n\r\n", 2, NULL);
    } else {
        bb_send(fd, slow_post, sizeof slow_post - 1);
        bb_send(fd, "{\"i\": [", 7);
    }
    if (i % 4 < 2)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
}

START_TEST(idle_busy_slow_and_vanishing_clients_at_once)
{
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < IDLE + SLOW + BUSY + 200) {
        printf("skipped: only %lu descriptors\n", (unsigned long)files.rlim_cur);
        return;
    }
    struct tc_daemon *d = bb_start(bb_path("hard"), (const char *[]){"--connection-limit", "4000", "--limit-requests",
                                                                     "4000", "--request-timeout-seconds", "20", NULL});
    bb_put_hardware("hard");
    struct bb_text some = bb_records(0, 3000);
    bb_counts(bb_lines(some.p, some.n, "/v1/hardware/hard/measurements"), 3000, 0, 0);
    double before = gauge("tcld_open_file_descriptors");
    int idle[IDLE], slow[SLOW];
    struct pollfd busy[BUSY];
    for (int i = 0; i < IDLE; i++)
        idle[i] = bb_connect();
    for (int i = 0; i < SLOW; i++) {
        slow[i] = bb_connect();
        bb_send(slow[i], slow_post, i % 3 ? sizeof slow_post - 1 : 20);
    }
    for (int i = 0; i < BUSY; i++) {
        busy[i] = (struct pollfd){.fd = bb_connect(), .events = POLLIN};
        bb_send(busy[i].fd, get_meta, sizeof get_meta - 1);
    }
    double seconds = bb_big() ? 30 : 4, worst = 0;
    long answers[BUSY] = {0}, total = 0;
    int round = 0;
    for (double until = tc_now() + seconds, look = 0; tc_now() < until; round++) {
        if (poll(busy, BUSY, 50) > 0)
            for (int i = 0; i < BUSY; i++) {
                char buf[4096];
                if (!busy[i].revents)
                    continue;
                ssize_t n = recv(busy[i].fd, buf, sizeof buf, 0);
                ck_assert_msg(n > 12 && !strncmp(buf, "HTTP/1.1 200", 12), "connection %d after %ld answers", i,
                              answers[i]);
                answers[i]++;
                total++;
                bb_send(busy[i].fd, get_meta, sizeof get_meta - 1);
            }
        if (tc_now() > look) {
            look = tc_now() + 0.25;
            struct bb_reply *r = bb_get("%s", round % 2 ? "/readyz" : "/livez");
            bb_status(r, 200);
            worst = r->seconds > worst ? r->seconds : worst;
            for (int i = 0; i < SLOW; i++)
                send(slow[i], "#", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
            vanish(round);
            vanish(round + 1);
        }
    }
    long least = answers[0];
    for (int i = 0; i < BUSY; i++) {
        least = answers[i] < least ? answers[i] : least;
        close(busy[i].fd);
    }
    printf("%ld answers, at least %ld for each of %d; health took %.0f ms at most\n", total, least, BUSY, worst * 1e3);
    ck_assert_int_gt(least, 0);
    ck_assert_double_lt(worst, bb_slow() ? 20 : 3);
    for (int i = 0; i < IDLE; i++)
        close(idle[i]);
    for (int i = 0; i < SLOW; i++)
        close(slow[i]);
    for (double until = tc_now() + 20; tc_now() < until && gauge("tcld_open_file_descriptors") > before + 4;)
        tc_sleep(0.1);
    ck_assert_double_le(gauge("tcld_open_file_descriptors"), before + 4);
    ck_assert_uint_eq(
        bb_line_count(bb_get("/v1/hardware/hard/measurements")->body, bb_get("/v1/hardware/hard/measurements")->n),
        3000);
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fault/clients");
    TCase *tc = bb_case_own(s, "clients", 180);
    tcase_add_test(tc, idle_busy_slow_and_vanishing_clients_at_once);
    return bb_main(s);
}
