/* The wall clock jumps, as it does when a machine wakes up or its time is set. Deadlines, drains and heartbeats follow
 * the monotonic clock and do not care; leases follow the wall clock, so a jump ahead may end them, never hand one
 * candidate to two agents. */
#include "tests/fault/with.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define HW "clock"

static const struct jump {
    const char *name;
    long long seconds;
} jumps[] = {{"a day ahead", 86400},
             {"a day back", -86400},
             {"ten years ahead", 315360000},
             {"ten years back", -315360000},
             {"before 1970", -2000000000}};

static json_t *lease(const char *agent)
{
    struct bb_reply *r = bb_json("POST", bb_printf("{\"agent\": \"%s\", \"max\": 4, \"ttl_seconds\": 600}", agent).p,
                                 "/v1/hardware/" HW "/leases");
    bb_status(r, 200);
    return r->json;
}

START_TEST(a_jump_of_the_clock_stops_nothing)
{
    const struct jump *j = &jumps[_i];
    char *dir = fault_template(HW);
    struct fault_control *f = fault_new(dir);
    struct tc_daemon *d = fault_start(f, dir, (const char *[]){"--request-timeout-seconds", "5", NULL}, false);
    struct tp_buf pool = {0};
    for (int i = 0; i < 40; i++)
        tp_buf_printf(&pool, "%s\n", bb_unmeasured(1000 + i).p);
    bb_counts(bb_lines(pool.p, pool.n, "/v1/hardware/" HW "/candidates"), 40, 0, 0);
    tp_buf_free(&pool);
    bb_wait(tc_int(bb_json("POST", "{\"budget\": 16}", "/v1/hardware/" HW "/selections")->json, "/id", 0));
    json_t *first = lease("first");
    ck_assert_uint_eq(json_array_size(tc_at(first, "/candidates")), 4);
    int64_t job = bb_retrain(HW, "{\"mode\": \"finetune\", \"epochs\": 2, \"seed\": 3}");

    atomic_store(&f->clock_s, j->seconds);
    tc_sleep(2.5); /* sweeps, heartbeats */
    bb_status(bb_get("/readyz"), 200);
    struct bb_text one = bb_demo(8, 1), some = bb_records(0, 20);
    bb_status(bb_lines(one.p, one.n, "/v1/hardware/" HW "/predict"), 200);
    bb_counts(bb_lines(some.p, some.n, "/v1/hardware/" HW "/measurements"), 20, 0, 0);
    json_t *end = bb_wait(job);
    ck_assert_str_eq(tc_str(end, "/state"), "succeeded");
    json_t *second = lease("second");
    if (j->seconds < 0) /* the first lease holds still */
        for (size_t a = 0; a < json_array_size(tc_at(first, "/candidates")); a++)
            for (size_t b = 0; b < json_array_size(tc_at(second, "/candidates")); b++)
                ck_assert_int_ne(tc_int(first, bb_printf("/candidates/%zu/id", a).p, -1),
                                 tc_int(second, bb_printf("/candidates/%zu/id", b).p, -2));

    atomic_store(&f->clock_s, 0);
    tc_sleep(1.2);
    bb_status(bb_get("/readyz"), 200);
    bb_status(bb_lines(one.p, one.n, "/v1/hardware/" HW "/predict"), 200);
    tc_daemon_signal(d, SIGTERM);
    ck_assert_int_eq(tc_daemon_wait(d, 30), 0);
    tc_daemon_free(d);
    bb_stop(bb_start(dir, NULL));
}
END_TEST

static const char *expires(void)
{
    return tc_str(bb_get("/v1/hardware/" HW "/candidates?state=leased&limit=1")->json, "/items/0/expires");
}

/* The clock is set right while the daemon runs (0), or while it does not (1). */
START_TEST(a_lease_that_was_given_out_by_a_clock_ahead_ends_in_its_own_time)
{
    char *dir = fault_template(HW);
    struct fault_control *f = fault_new(dir);
    struct tc_daemon *d = fault_start(f, dir, NULL, false);
    struct tp_buf pool = {0};
    for (int i = 0; i < 8; i++)
        tp_buf_printf(&pool, "%s\n", bb_unmeasured(1000 + i).p);
    bb_counts(bb_lines(pool.p, pool.n, "/v1/hardware/" HW "/candidates"), 8, 0, 0);
    tp_buf_free(&pool);
    bb_wait(tc_int(bb_json("POST", "{\"budget\": 8}", "/v1/hardware/" HW "/selections")->json, "/id", 0));
    atomic_store(&f->clock_s, 315360000);
    tc_sleep(1.2); /* a sweep */
    const char *ahead = tc_str(lease("first"), "/expires");
    ck_assert_str_eq(expires(), ahead);
    atomic_store(&f->clock_s, 0);
    if (_i == 1) {
        bb_stop(d);
        d = bb_start(dir, NULL);
    }
    const char *now = ahead;
    for (double until = tc_now() + 20; tc_now() < until && !strcmp(now, ahead); tc_sleep(0.1))
        now = expires();
    time_t latest = time(NULL) + 600; /* what was asked for */
    char text[32];
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime(&latest));
    ck_assert_str_le(now, text);
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fault/clock");
    TCase *tc = bb_case_own(s, "jumps", 120);
    int n = sizeof jumps / sizeof *jumps;
    tcase_add_loop_test(tc, a_jump_of_the_clock_stops_nothing, bb_big() ? 0 : 1, bb_big() ? n : 3);
    tcase_add_loop_test(tc, a_lease_that_was_given_out_by_a_clock_ahead_ends_in_its_own_time, 0, 2);
    return bb_main(s);
}
