/* Measurements in, measurements out again. */
#include "tests/unit/store_fixture.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void setup(void)
{
    sf_begin();
    sf_hardware("m1", "cpu", "cpu");
}

START_TEST(a_record_comes_back_byte_for_byte)
{
    static const char *const lines[] = {
        /* every length of a task array, with and without v, failures, one cost and many, an integral cost */
        "{\"i\": [[\"[\\\"k\\\", [1, 2], \\\"a b\\\"]\", \"cuda -keys=cuda,gpu -arch=sm_90\", "
        "[-1, 16, 64, 49152, 2147483647, 1024, 8, 32], \"llvm -keys=cpu \", 0, [\"x\", \"y\"]], [[], [[\"CI\", 1]]]], "
        "\"r\": [[1e+10], 7, 11.3042, 1700000456], \"v\": \"v0.6\"}",
        "{\"i\": [[\"[\\\"k\\\"]\", \"llvm\", [8, 64, 64, 0, 0, 0, 0, 0], \"\", 2], [[], []]], "
        "\"r\": [[1, 2.18407e-05, 0.5], 0, 1.73552, 1700000123], \"v\": \"v0.5\"}",
        "{\"i\": [[\"[\\\"k\\\"]\", \"llvm\", [8, 64, 64, 0, 0, 0, 0, 0], \"llvm\"], [[], []]], "
        "\"r\": [[0.00131], 0, 0.904518, 1606000000], \"v\": \"v0.4\"}",
        "{\"i\": [[\"[\\\"k\\\"]\", \"llvm\", [8, 64, 64, 0, 0, 0, 0, 0]], [[], [[\"RF\", 3, 3, 2], [\"FU\", 4, [0, "
        "1]]]]], "
        "\"r\": [[0.00132], 0, 0.904518, 1606000000], \"v\": \"v0.3\"}",
        "{\"i\": [[\"not json\", \"llvm\"], [[], [[\"CHR\", 1, \"shared\", [2, 3]]]]], \"r\": [[0.00133], 0, 20, "
        "1606000000]}",
        "{\"i\": [[\"not json\", \"llvm\"], [[], [[\"CR\", 1]]]], \"r\": [[], 4, 20, 1606000000], \"v\": \"\"}",
    };
    struct tp_buf want = {0}, got = {0};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct st_ingest_result res = sf_post_text("m1", lines[i]);
        ck_assert_msg(res.code == 0 && res.accepted == 1, "line %zu", i);
        tp_buf_puts(&want, lines[i]);
        tp_buf_putc(&want, '\n');
    }
    tp_buf_putc(&want, '\0');
    sf_export(&got, "m1", NULL);
    ck_assert_str_eq(got.p, want.p);
    sf_reopen();
    sf_export(&got, "m1", NULL);
    ck_assert_str_eq(got.p, want.p);
    tp_buf_free(&want);
    tp_buf_free(&got);
}
END_TEST

/* Adds the lines of one log to the batch and to want. */
static void add_log(const char *path, struct st_ingest *b, struct tp_record *r, struct tp_buf *want, size_t *n)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    struct tp_err e = {0};
    ck_assert_ptr_nonnull(f);
    while ((len = getline(&line, &cap, f)) > 0) {
        tp_buf_put(want, line, (size_t)len);
        ck_assert_msg(tp_record_parse(r, line, (size_t)len - 1, &e) == 0, "%s", e.detail);
        ck_assert_msg(st_ingest_add(b, r, &e) == 0, "%s", e.detail);
        ++*n;
    }
    free(line);
    fclose(f);
}

START_TEST(real_logs_come_back_byte_for_byte)
{
    const char *shared = getenv("TCLD_SHARED");
    char dir[256], path[600];
    struct tp_buf want = {0}, got = {0};
    struct tp_record r;
    struct st_ingest *b = st_ingest_new("rack7-n3");
    struct dirent *f;
    size_t n = 0;
    snprintf(dir, sizeof dir, "%s/data/own/host-avx2", shared ? shared : "../shared");
    DIR *d = opendir(dir);
    if (!d) {
        printf("skipped: no logs in %s\n", dir);
        st_ingest_free(b);
        return;
    }
    tp_record_init(&r);
    while ((f = readdir(d)))
        if (strstr(f->d_name, ".json")) {
            snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
            add_log(path, b, &r, &want, &n);
        }
    closedir(d);
    struct st_ingest_result res = sf_submit("m1", b);
    ck_assert_int_eq(res.code, 0);
    ck_assert_uint_eq(res.accepted, n);
    tp_buf_putc(&want, '\0');
    sf_export(&got, "m1", NULL);
    ck_assert(strcmp(got.p, want.p) == 0);
    tp_record_free(&r);
    tp_buf_free(&want);
    tp_buf_free(&got);
}
END_TEST

START_TEST(a_second_post_is_a_duplicate)
{
    struct sf_line lines[] = {{1, 1, 1e-3, 100}, {1, 2, 2e-3, 100}, {2, 1, 0, 100}};
    struct st_ingest_result res = sf_post("m1", lines, 3);
    ck_assert_uint_eq(res.accepted, 3);
    sf_reopen(); /* what the writer remembered is gone */
    res = sf_post("m1", lines, 3);
    ck_assert_uint_eq(res.accepted, 0);
    ck_assert_uint_eq(res.duplicates, 3);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM measurement"), 3);
}
END_TEST

START_TEST(within_one_batch_the_first_of_equals_wins)
{
    struct sf_line lines[] = {{1, 1, 1e-3, 100}, {1, 1, 1e-3, 100}, {1, 1, 1e-3, 101}};
    struct st_ingest_result res = sf_post("m1", lines, 3);
    ck_assert_uint_eq(res.accepted, 2);
    ck_assert_uint_eq(res.duplicates, 1);
}
END_TEST

#define LINE(target, costs, error, all, ts, v)                                                                         \
    "{\"i\": [[\"[\\\"k\\\"]\", \"" target "\"], [[], [[\"CI\", 1]]]], \"r\": [[" costs "], " error ", " all ", " ts   \
    "]" v "}"

START_TEST(target_agent_version_and_total_time_do_not_count_for_duplicates)
{
    ck_assert_uint_eq(sf_post_text("m1", LINE("llvm", "0.001", "0", "1.5", "7", ", \"v\": \"v0.6\"")).accepted, 1);
    ck_assert_uint_eq(sf_post_text("m1", LINE("llvm", "0.001", "0", "2.5", "7", "")).duplicates, 1);
    ck_assert_uint_eq(sf_post_text("m1", LINE("llvm -mcpu=x", "1e-3", "0", "1.5", "7.9", "")).duplicates, 1);
    ck_assert_uint_eq(sf_post_text("m1", LINE("llvm", "0.00100000001", "0", "1.5", "7", "")).duplicates, 1);
}
END_TEST

START_TEST(costs_error_time_program_and_hardware_do_count)
{
    sf_hardware("m2", "cpu", "cpu");
    ck_assert_uint_eq(sf_post_text("m1", LINE("llvm", "0.001", "0", "1.5", "7", "")).accepted, 1);
    ck_assert_uint_eq(sf_post_text("m1", LINE("llvm", "0.00100001", "0", "1.5", "7", "")).accepted, 1);
    ck_assert_uint_eq(sf_post_text("m1", LINE("llvm", "0.001, 0.001", "0", "1.5", "7", "")).accepted, 1);
    ck_assert_uint_eq(sf_post_text("m1", LINE("llvm", "0.001", "2", "1.5", "7", "")).accepted, 1);
    ck_assert_uint_eq(sf_post_text("m1", LINE("llvm", "0.001", "0", "1.5", "8", "")).accepted, 1);
    ck_assert_uint_eq(sf_post_text("m1", LINE("cuda", "0.001", "0", "1.5", "7", "")).accepted, 1);
    ck_assert_uint_eq(sf_post_text("m2", LINE("llvm", "0.001", "0", "1.5", "7", "")).accepted, 1);
}
END_TEST

START_TEST(a_program_and_a_task_are_stored_once)
{
    sf_hardware("m2", "cpu", "cpu");
    struct sf_line lines[] = {{1, 1, 1e-3, 100}, {1, 1, 2e-3, 101}, {1, 2, 1e-3, 100}, {2, 1, 1e-3, 100}};
    sf_post("m1", lines, 4);
    sf_post("m2", lines, 4);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM program"), 3);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM task"), 2);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM task_variant"), 2);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM measurement"), 8);
}
END_TEST

START_TEST(sums_agree_with_the_rows)
{
    struct sf_line lines[] = {{1, 1, 3e-3, 1}, {1, 1, 2e-3, 2}, {1, 2, 0, 3}, {1, 3, 2e-3, 4}, {2, 1, 0, 5}};
    struct st_counts c;
    struct tp_err e;
    sf_post("m1", lines, 3);
    sf_post("m1", lines, 5);
    struct st_reader *r = sf_reader();
    ck_assert_int_eq(st_hardware_counts(r, sf_hardware_id("m1"), &c, &e), 0);
    ck_assert_int_eq(c.measurements, 5);
    ck_assert_int_eq(c.valid, 3);
    ck_assert_int_eq(c.failures, 2);
    ck_assert_int_eq(c.tasks, 2);
    ck_assert_int_eq(c.programs, 4);
    ck_assert_int_eq(c.newest_measurement_id, sf_query("SELECT max(id) FROM measurement"));
    st_reader_free(r);
    ck_assert_int_eq(
        sf_query("SELECT count(*) FROM hardware_task ht WHERE "
                 "(programs, measurements, failures, best_cost) IS NOT (SELECT count(DISTINCT program), "
                 "count(*), sum(min_cost IS NULL), min(min_cost) FROM measurement m "
                 "JOIN task t ON t.id = m.task WHERE m.hardware = ht.hardware AND t.task_id = ht.task_id)"),
        0);
    /* the earliest of equals is the best */
    ck_assert_int_eq(sf_query("SELECT m.timestamp FROM hardware_task JOIN measurement m ON m.id = best"), 2);
}
END_TEST

START_TEST(a_cost_beyond_a_billion_seconds_is_a_failure)
{
    ck_assert_uint_eq(sf_post_text("m1", LINE("llvm", "10000000000.0", "0", "1.5", "7", "")).accepted, 1);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM measurement WHERE min_cost IS NULL AND error_no = 0"), 1);
    ck_assert_int_eq(sf_query("SELECT failures FROM hardware_task"), 1);
}
END_TEST

START_TEST(a_record_without_a_measurement_is_refused_and_the_batch_goes_on)
{
    static const char *const bad[] = {
        "{\"i\": [[\"[\\\"k\\\"]\", \"llvm\"], [[], []]]}",
        LINE("llvm", "", "0", "1.5", "7", ""),
        LINE("llvm", "0", "0", "1.5", "7", ""),
    };
    struct sf_line good = {1, 1, 1e-3, 1};
    struct st_ingest *b = sf_batch(&good, 1);
    struct tp_record r;
    struct tp_err e;
    tp_record_init(&r);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sf_parse(&r, bad[i]);
        ck_assert_int_eq(st_ingest_add(b, &r, &e), -TP_E_NOT_MEASURED);
    }
    ck_assert_uint_eq(st_ingest_size(b), 1);
    tp_record_free(&r);
    ck_assert_uint_eq(sf_submit("m1", b).accepted, 1);
}
END_TEST

START_TEST(unknown_hardware_is_told_through_done_and_stores_nothing)
{
    struct sf_line line = {1, 1, 1e-3, 1};
    struct st_ingest_result res = sf_post("nobody", &line, 1);
    ck_assert_int_eq(res.code, -TP_E_UNKNOWN_HARDWARE);
    ck_assert_uint_eq(res.accepted, 0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM program"), 0);
    ck_assert(st_healthy(sf_store));
}
END_TEST

START_TEST(many_tasks_in_one_batch_keep_their_own_programs)
{
    enum { TASKS = 500 };
    static struct sf_line lines[2 * TASKS];
    for (int i = 0; i < 2 * TASKS; i++)
        lines[i] = (struct sf_line){i % TASKS, 1, 1e-3, 1 + i / TASKS};
    ck_assert_uint_eq(sf_post("m1", lines, 2 * TASKS).accepted, 2 * TASKS);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM task"), TASKS);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM task_variant"), TASKS);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM program"), TASKS);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM hardware_task WHERE measurements = 2 AND programs = 1"), TASKS);
}
END_TEST

START_TEST(agent_and_time_are_kept)
{
    struct sf_line line = {1, 1, 1e-3, 1};
    sf_post("m1", &line, 1);
    ck_assert_int_eq(sf_query("SELECT agent = 'tester' AND received > 1600000000 FROM measurement"), 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store ingest");
    TCase *t = tcase_create("ingest");
    tcase_add_checked_fixture(t, setup, sf_end);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_record_comes_back_byte_for_byte);
    tcase_add_test(t, real_logs_come_back_byte_for_byte);
    tcase_add_test(t, a_second_post_is_a_duplicate);
    tcase_add_test(t, within_one_batch_the_first_of_equals_wins);
    tcase_add_test(t, target_agent_version_and_total_time_do_not_count_for_duplicates);
    tcase_add_test(t, costs_error_time_program_and_hardware_do_count);
    tcase_add_test(t, a_program_and_a_task_are_stored_once);
    tcase_add_test(t, sums_agree_with_the_rows);
    tcase_add_test(t, a_cost_beyond_a_billion_seconds_is_a_failure);
    tcase_add_test(t, a_record_without_a_measurement_is_refused_and_the_batch_goes_on);
    tcase_add_test(t, unknown_hardware_is_told_through_done_and_stores_nothing);
    tcase_add_test(t, many_tasks_in_one_batch_keep_their_own_programs);
    tcase_add_test(t, agent_and_time_are_kept);
    suite_add_tcase(s, t);
    return sf_main(s);
}
