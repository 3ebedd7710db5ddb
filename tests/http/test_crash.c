/* Durability: the daemon is killed with SIGKILL at arbitrary moments while agents post measurements. Whatever was
 * acknowledged is there afterwards, once; whatever was not is there whole or not at all by record, and posting it again
 * completes it.
 *
 * Most tests start daemons of their own, from the test's main thread, in folders of their own; one that a failing test
 * leaves behind dies with the test's process. No clock decides but as a generous upper bound. */
#include "tests/http/suite.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AGENTS = 4, PER_BODY = 20, MAX_BODIES = 4000 };

struct agent {
    pthread_t thread;
    const char *base;
    int number, round;
    atomic_bool *stop;
    int first, posted,
        acknowledged; /* bodies first .. first + posted - 1 were sent, of which `acknowledged` were answered */
    char problem[300];
};

/* Distinct for every (agent, body, record) of the whole test. */
static int program(int agent, int body, int record)
{
    return (body * AGENTS + agent) * PER_BODY + record;
}

/* As bb_record(), but callable from any thread. */
static void print_body(int agent, int body, struct tp_buf *b)
{
    for (int i = 0; i < PER_BODY; i++) {
        int p = program(agent, body, i);
        tp_buf_printf(b,
                      "{\"i\": [" BB_TASK
                      ", [[], [[\"SP\", 2, 0, 512, [%d, 4, 2], 1], [\"PR\", 2, 0, \"auto_unroll_max_step$%d\"]]]], "
                      "\"r\": [[0.001], 0, 0.5, 1700000000], \"v\": \"v0.6\"}\n",
                      p % 1000 + 1, p / 1000);
    }
}

static void *post_until_stopped(void *arg)
{
    struct agent *a = arg;
    struct tc_err e = {{0}};
    struct tp_buf body = {0};
    struct tc_http *h = tc_http_new(a->base, &e);
    while (h && !atomic_load(a->stop) && a->first + a->posted < MAX_BODIES) {
        json_t *reply = NULL;
        body.n = 0;
        print_body(a->number, a->first + a->posted, &body);
        a->posted++;
        if (tc_post_lines(h, "/v1/hardware/crash/measurements", body.p, body.n, &reply, &e))
            break; /* killed: this one was not acknowledged */
        if (tc_int(reply, "/accepted", -1) != PER_BODY) {
            char *text = json_dumps(reply, 0);
            snprintf(a->problem, sizeof a->problem, "%.290s", text ? text : "?");
            free(text);
        }
        json_decref(reply);
        if (a->problem[0])
            break;
        a->acknowledged++;
    }
    tp_buf_free(&body);
    tc_http_free(h);
    return NULL;
}

/* How often each program stands in the export. */
static unsigned char *count_programs(size_t *total)
{
    unsigned char *seen = calloc((size_t)MAX_BODIES * AGENTS * PER_BODY, 1);
    struct bb_reply *r = bb_get("/v1/hardware/crash/measurements");
    bb_status(r, 200);
    *total = 0;
    for (const char *p = r->body; *p; p += strcspn(p, "\n") + 1) {
        const char *split = strstr(p, "512, ["), *unroll = strstr(p, "max_step$");
        if (!split || !unroll)
            ck_abort_msg("%.200s", p);
        long number = strtol(unroll + 9, NULL, 10) * 1000 + strtol(split + 6, NULL, 10) - 1;
        if (number < 0 || number >= MAX_BODIES * AGENTS * PER_BODY)
            ck_abort_msg("program %ld", number);
        seen[number]++;
        ++*total;
    }
    return seen;
}

START_TEST(acknowledged_measurements_survive_kill_9)
{
    int rounds = bb_big() ? 30 : bb_slow() ? 2 : 4;
    int next[AGENTS] = {0};
    char *dir = bb_path("crash");
    long acknowledged = 0;
    unsigned seed = 12345;
    struct tc_daemon *d = bb_start(dir, NULL);
    bb_put_hardware("crash");
    unsigned char *must = calloc((size_t)MAX_BODIES * AGENTS * PER_BODY, 1);

    for (int round = 0; round < rounds; round++) {
        atomic_bool stop = false;
        struct agent a[AGENTS];
        for (int i = 0; i < AGENTS; i++) {
            a[i] = (struct agent){.base = bb_base(), .number = i, .round = round, .stop = &stop, .first = next[i]};
            ck_assert_int_eq(pthread_create(&a[i].thread, NULL, post_until_stopped, &a[i]), 0);
        }
        seed = seed * 1103515245 + 12345;
        tc_sleep(0.05 + (double)(seed >> 16 & 0x7fff) / 0x7fff * 0.5);
        tc_daemon_signal(d, SIGKILL);
        ck_assert_int_eq(tc_daemon_wait(d, 10), 128 + SIGKILL);
        atomic_store(&stop, true);
        for (int i = 0; i < AGENTS; i++) {
            pthread_join(a[i].thread, NULL);
            ck_assert_msg(!a[i].problem[0], "agent %d: %s", i, a[i].problem);
            for (int b = 0; b < a[i].acknowledged; b++)
                for (int k = 0; k < PER_BODY; k++)
                    must[program(i, a[i].first + b, k)] = 1;
            acknowledged += a[i].acknowledged;
            next[i] += a[i].posted;
        }
        tc_daemon_free(d);

        d = bb_start(dir, NULL);
        size_t total;
        unsigned char *seen = count_programs(&total);
        for (size_t p = 0; p < (size_t)MAX_BODIES * AGENTS * PER_BODY; p++) {
            if (seen[p] > 1) /* not an assertion each: Check reports every one over a pipe */
                ck_abort_msg("round %d: program %zu is stored %d times", round, p, seen[p]);
            if (seen[p] < must[p])
                ck_abort_msg("round %d: program %zu was acknowledged and is lost", round, p);
        }
        free(seen);
        /* whoever got no answer simply posts again */
        for (int i = 0; i < AGENTS; i++)
            if (a[i].posted > a[i].acknowledged) {
                struct tp_buf body = {0};
                print_body(i, a[i].first + a[i].posted - 1, &body);
                struct bb_reply *r = bb_lines(body.p, body.n, "/v1/hardware/crash/measurements");
                tp_buf_free(&body);
                bb_status(r, 200);
                ck_assert_msg(tc_int(r->json, "/accepted", 0) + tc_int(r->json, "/duplicates", 0) == PER_BODY, "%s",
                              r->body);
                for (int k = 0; k < PER_BODY; k++)
                    must[program(i, a[i].first + a[i].posted - 1, k)] = 1;
            }
    }
    size_t total, wanted = 0;
    unsigned char *seen = count_programs(&total);
    for (size_t p = 0; p < (size_t)MAX_BODIES * AGENTS * PER_BODY; p++)
        wanted += must[p];
    free(seen);
    free(must);
    ck_assert_uint_eq(total, wanted);
    ck_assert_msg(acknowledged > rounds, "only %ld bodies were acknowledged", acknowledged);
    printf("%d kills, %ld bodies acknowledged, %zu records, none lost\n", rounds, acknowledged, total);
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/crash");
    TCase *tc = bb_case_own(s, "kill -9", bb_big() ? 300 : 60);
    tcase_add_test(tc, acknowledged_measurements_survive_kill_9);
    return bb_main(s);
}
