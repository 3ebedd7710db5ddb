/* Jobs: insert, update, list, and what a restart does to them. */
#include "tests/unit/store_fixture.h"

#include <stdio.h>
#include <string.h>

static struct st_reader *reader;

static void setup(void)
{
    sf_begin();
    reader = sf_reader();
}

static void teardown(void)
{
    st_reader_free(reader);
    sf_end();
}

static struct st_job job(const char *hardware, const char *state)
{
    struct st_job j = {.kind = "retrain", .params = (char *)"{\"seed\": 1}", .created = 1700000000123};
    struct tp_err e;
    snprintf(j.hardware, sizeof j.hardware, "%s", hardware);
    snprintf(j.state, sizeof j.state, "%s", state);
    ck_assert_int_eq(st_job_insert(sf_store, &j, &e), 0);
    return j;
}

static struct st_job get(int64_t id)
{
    struct st_job j = {0};
    struct tp_err e;
    ck_assert_int_eq(st_job_get(reader, id, &j, &e), 0);
    return j;
}

START_TEST(a_job_is_kept_through_its_life)
{
    struct st_job j = job("x", "queued"), got = get(j.id);
    struct tp_err e;
    ck_assert_int_eq(j.id, 1);
    ck_assert_str_eq(got.kind, "retrain");
    ck_assert_str_eq(got.hardware, "x");
    ck_assert_str_eq(got.state, "queued");
    ck_assert_str_eq(got.params, "{\"seed\": 1}");
    ck_assert_ptr_null(got.result);
    ck_assert_ptr_null(got.error);
    ck_assert_int_eq(got.created, 1700000000123);
    ck_assert_int_eq(got.started, 0);
    st_job_clear(&got);
    snprintf(j.state, sizeof j.state, "failed");
    j.result = (char *)"{}";
    j.error = (char *)"not-enough-data: 3 of 32";
    j.started = 5;
    j.finished = 6;
    ck_assert_int_eq(st_job_update(sf_store, &j, &e), 0);
    got = get(j.id);
    ck_assert_str_eq(got.state, "failed");
    ck_assert_str_eq(got.result, "{}");
    ck_assert_str_eq(got.error, "not-enough-data: 3 of 32");
    ck_assert_int_eq(got.started, 5);
    ck_assert_int_eq(got.finished, 6);
    st_job_clear(&got);
}
END_TEST

START_TEST(an_unknown_job_is_an_error)
{
    struct st_job j = {.id = 9, .kind = "retrain", .hardware = "x", .state = "queued"};
    struct tp_err e;
    ck_assert_int_eq(st_job_update(sf_store, &j, &e), -TP_E_UNKNOWN_JOB);
    ck_assert_int_eq(st_job_get(reader, 9, &j, &e), -TP_E_UNKNOWN_JOB);
    ck_assert_int_eq(j.id, 9);
}
END_TEST

struct ids {
    int n;
    int64_t id[16];
};

static int see(void *arg, const struct st_job *j)
{
    struct ids *a = arg;
    a->id[a->n++] = j->id;
    return 0;
}

static struct ids list(const char *state, const char *hardware, int64_t before, int limit)
{
    struct ids a = {0};
    struct tp_err e;
    ck_assert_int_eq(st_job_list(reader, state, hardware, before, limit, see, &a, &e), 0);
    return a;
}

START_TEST(lists_are_newest_first_in_pages_and_filtered)
{
    job("x", "running");
    job("y", "queued");
    job("x", "queued");
    job("x", "failed");
    struct ids a = list(NULL, NULL, 0, 3), b = list(NULL, NULL, a.id[2], 3);
    ck_assert_int_eq(a.n + b.n, 4);
    ck_assert_int_eq(a.id[0], 4);
    ck_assert_int_eq(b.id[0], 1);
    a = list("queued", NULL, 0, 10);
    ck_assert_int_eq(a.n, 2);
    ck_assert_int_eq(a.id[0], 3);
    a = list(NULL, "x", 4, 10);
    ck_assert_int_eq(a.n, 2);
    ck_assert_int_eq(a.id[1], 1);
    a = list("queued", "x", 0, 10);
    ck_assert_int_eq(a.n, 1);
    ck_assert_int_eq(a.id[0], 3);
    ck_assert_int_eq(list("cancelled", "x", 0, 10).n, 0);
}
END_TEST

START_TEST(a_restart_fails_what_was_running_or_queued_and_nothing_else)
{
    static const char *const states[] = {"queued", "running", "succeeded", "failed", "cancelled"};
    struct tp_err e;
    int n = -1;
    for (int i = 0; i < 5; i++)
        job("x", states[i]);
    sf_reopen();
    ck_assert_int_eq(st_jobs_interrupt(sf_store, NULL, 0, &n, &e), 0);
    ck_assert_int_eq(n, 2);
    for (int i = 0; i < 5; i++) {
        struct st_job j = get(i + 1);
        ck_assert_str_eq(j.state, i < 2 ? "failed" : states[i]);
        ck_assert_int_eq(j.finished > 1600000000000, i < 2);
        if (i < 2)
            ck_assert_ptr_eq(strstr(j.error, "interrupted: "), j.error);
        else
            ck_assert_ptr_null(j.error);
        st_job_clear(&j);
    }
    ck_assert_int_eq(st_jobs_interrupt(sf_store, NULL, 0, &n, &e), 0);
    ck_assert_int_eq(n, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store jobs");
    TCase *t = tcase_create("jobs");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_job_is_kept_through_its_life);
    tcase_add_test(t, an_unknown_job_is_an_error);
    tcase_add_test(t, lists_are_newest_first_in_pages_and_filtered);
    tcase_add_test(t, a_restart_fails_what_was_running_or_queued_and_nothing_else);
    suite_add_tcase(s, t);
    return sf_main(s);
}
