/* Reading measurements: pages, best, tasks, training sets, and how the queries are carried out. */
#include "tests/unit/store_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct st_reader *reader;
static int64_t m1;

static void setup(void)
{
    sf_begin();
    sf_hardware("m1", "cpu", "cpu");
    sf_hardware("m2", "cpu", "cpu");
    m1 = sf_hardware_id("m1");
    reader = sf_reader();
}

static void teardown(void)
{
    st_reader_free(reader);
    sf_end();
}

/* Notes what it is handed; returns `answer` at row number `at`. */
struct seen {
    int n, at, answer;
    int64_t ids[64];
    char tasks[64][TP_TASK_ID_LEN + 1];
    double costs[64];
    long timestamps[64];
};

static int see(void *arg, int64_t id, const char *task_id, const struct tp_record *rec)
{
    struct seen *s = arg;
    s->ids[s->n] = id;
    snprintf(s->tasks[s->n], sizeof s->tasks[0], "%s", task_id);
    s->costs[s->n] = rec->result.costs[0];
    s->timestamps[s->n] = (long)rec->result.timestamp;
    return ++s->n == s->at ? s->answer : 0;
}

static void post_ten(const char *hardware)
{
    struct sf_line lines[10];
    for (int i = 0; i < 10; i++)
        lines[i] = (struct sf_line){i % 2, i, 1e-3, 100 + i};
    ck_assert_uint_eq(sf_post(hardware, lines, 10).accepted, 10);
}

START_TEST(an_export_comes_in_pages_that_neither_miss_nor_repeat)
{
    struct seen s = {0};
    struct tp_err e;
    int64_t last = 0;
    int pages = 0;
    post_ten("m2"); /* not to be seen */
    post_ten("m1");
    for (int before = -1; s.n != before; pages++) {
        before = s.n;
        ck_assert_int_eq(st_export(reader, m1, NULL, last, 3, see, &s, &last, &e), 0);
    }
    ck_assert_int_eq(pages, 5);
    ck_assert_int_eq(s.n, 10);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(s.timestamps[i], 100 + i);
    ck_assert_int_eq(last, s.ids[9]);
}
END_TEST

START_TEST(a_callback_stops_an_export_and_its_row_counts_as_seen)
{
    struct seen s = {.at = 4, .answer = 1};
    struct tp_err e;
    int64_t last = 0;
    post_ten("m1");
    ck_assert_int_eq(st_export(reader, m1, NULL, 0, -1, see, &s, &last, &e), 0);
    ck_assert_int_eq(s.n, 4);
    ck_assert_int_eq(last, s.ids[3]);
    s = (struct seen){.at = 1, .answer = -TP_E_CANCELLED};
    ck_assert_int_eq(st_export(reader, m1, NULL, 0, -1, see, &s, &last, &e), -TP_E_CANCELLED);
    last = 77;
    ck_assert_int_eq(st_export(reader, m1, NULL, 1000, -1, see, &s, &last, &e), 0);
    ck_assert_int_eq(last, 77);
}
END_TEST

START_TEST(an_export_of_one_task_holds_that_task)
{
    struct seen all = {0}, one = {0};
    struct tp_err e;
    int64_t last = 0;
    post_ten("m1");
    ck_assert_int_eq(st_export(reader, m1, NULL, 0, -1, see, &all, &last, &e), 0);
    ck_assert_int_eq(st_export(reader, m1, all.tasks[1], 0, 3, see, &one, &last, &e), 0);
    ck_assert_int_eq(st_export(reader, m1, all.tasks[1], last, 3, see, &one, &last, &e), 0);
    ck_assert_int_eq(one.n, 5);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(one.ids[i], all.ids[2 * i + 1]);
}
END_TEST

START_TEST(a_task_the_hardware_has_not_measured_is_unknown)
{
    struct seen s = {0};
    struct tp_err e;
    int64_t last = 0;
    struct sf_line line = {1, 1, 1e-3, 1};
    sf_post("m2", &line, 1);
    ck_assert_int_eq(st_export(reader, sf_hardware_id("m2"), NULL, 0, -1, see, &s, &last, &e), 0);
    ck_assert_int_eq(st_export(reader, m1, s.tasks[0], 0, -1, see, &s, &last, &e), -TP_E_UNKNOWN_TASK);
    ck_assert_int_eq(st_export(reader, m1, "0123456789abcdef", 0, -1, see, &s, &last, &e), -TP_E_UNKNOWN_TASK);
}
END_TEST

START_TEST(best_is_the_fastest_valid_record_of_each_task)
{
    struct sf_line lines[] = {{1, 1, 3e-3, 1}, {1, 2, 2e-3, 2}, {1, 3, 2e-3, 3}, {1, 4, 0, 4},
                              {2, 1, 5e-3, 5}, {3, 1, 0, 6},    {4, 1, 1e-3, 7}};
    struct seen s = {0}, page = {0};
    struct tp_err e;
    sf_post("m1", lines, 7);
    ck_assert_int_eq(st_best(reader, m1, "", -1, see, &s, &e), 0);
    ck_assert_int_eq(s.n, 3); /* task 3 has none */
    for (int i = 0; i < s.n; i++) {
        ck_assert(s.timestamps[i] == 2 || s.timestamps[i] == 5 || s.timestamps[i] == 7);
        ck_assert(i == 0 || strcmp(s.tasks[i - 1], s.tasks[i]) < 0);
    }
    ck_assert_int_eq(st_best(reader, m1, s.tasks[0], 1, see, &page, &e), 0);
    ck_assert_int_eq(page.n, 1);
    ck_assert_str_eq(page.tasks[0], s.tasks[1]);
}
END_TEST

struct falls {
    int n;
    int64_t nth[8];
    double seconds[8];
};

static int see_fall(void *arg, int64_t nth, double seconds)
{
    struct falls *f = arg;
    f->nth[f->n] = nth;
    f->seconds[f->n] = seconds;
    return ++f->n == 8;
}

/* A task that came from two versions of TVM in one body: its sums come from two variants. */
START_TEST(best_of_equals_is_the_earliest_whatever_its_variant)
{
    static const double cost[] = {2e-3, 1e-3, 1e-3};
    struct st_ingest *b = st_ingest_new(NULL);
    struct tp_record r;
    struct seen s = {0};
    char line[1024];

    tp_record_init(&r);
    for (int i = 0; i < 3; i++) {
        size_t n = sf_print(line, sizeof line, (struct sf_line){9, 1 + i, cost[i], 1 + i});

        line[n - 3] = i == 1 ? '5' : '6'; /* "v0.6"} */
        sf_parse(&r, line);
        ck_assert_int_eq(st_ingest_add(b, &r, NULL), 0);
    }
    tp_record_free(&r);
    ck_assert_uint_eq(sf_submit("m2", b).accepted, 3);
    ck_assert_int_eq(st_best(reader, sf_hardware_id("m2"), "", -1, see, &s, NULL), 0);
    ck_assert_int_eq(s.n, 1);
    ck_assert_int_eq(s.timestamps[0], 2);
}
END_TEST

START_TEST(best_so_far_is_told_when_it_falls)
{
    /* task, program, cost, timestamp: a failure first, then 3, 3 again, 4, 1 of another task, 2 */
    struct sf_line lines[] = {{1, 1, 0, 1},    {1, 2, 3e-3, 2}, {1, 3, 3e-3, 3},
                              {1, 4, 4e-3, 4}, {2, 1, 1e-3, 5}, {1, 5, 2e-3, 6}};
    struct falls f = {0};
    struct seen s = {0};
    struct tp_err e;
    int64_t n = 0;
    sf_post("m1", lines, 6);
    sf_post("m2", lines, 1);
    ck_assert_int_eq(st_export(reader, m1, NULL, 0, -1, see, &s, &n, &e), 0);
    ck_assert_int_eq(st_best_so_far(reader, m1, s.tasks[0], see_fall, &f, &n, &e), 0);
    ck_assert_int_eq(n, 5);
    ck_assert_int_eq(f.n, 2);
    ck_assert(f.nth[0] == 2 && f.seconds[0] == 3e-3 && f.nth[1] == 5 && f.seconds[1] == 2e-3);
    f.n = 0;
    ck_assert_int_eq(st_best_so_far(reader, sf_hardware_id("m2"), s.tasks[0], see_fall, &f, &n, &e), 0);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(f.n, 0);
    ck_assert_int_eq(st_best_so_far(reader, m1, "0123456789abcdef", see_fall, &f, &n, &e), -TP_E_UNKNOWN_TASK);
}
END_TEST

struct tasks {
    int n;
    struct st_task t[8];
    char key[8][64], kind[8][16];
};

static int see_task(void *arg, const struct st_task *t)
{
    struct tasks *a = arg;
    a->t[a->n] = *t;
    snprintf(a->key[a->n], sizeof a->key[0], "%s", t->workload_key);
    snprintf(a->kind[a->n], sizeof a->kind[0], "%s", t->target_kind);
    return ++a->n == 8;
}

START_TEST(tasks_are_listed_with_their_figures_by_id)
{
    struct sf_line lines[] = {{1, 1, 3e-3, 1}, {1, 1, 2e-3, 2}, {1, 2, 0, 3}, {2, 1, 0, 4}};
    struct tasks a = {0}, b = {0};
    struct tp_err e;
    sf_post("m1", lines, 4);
    sf_post("m2", lines, 1);
    ck_assert_int_eq(st_tasks(reader, m1, "", 10, see_task, &a, &e), 0);
    ck_assert_int_eq(a.n, 2);
    ck_assert_int_lt(strcmp(a.t[0].id, a.t[1].id), 0);
    int one = strstr(a.key[0], "matmul\", 1") ? 0 : 1;
    ck_assert_str_eq(a.key[one], "[\"matmul\", 1, 64]");
    ck_assert_str_eq(a.kind[one], "llvm");
    ck_assert_int_eq(a.t[one].programs, 2);
    ck_assert_int_eq(a.t[one].measurements, 3);
    ck_assert_int_eq(a.t[one].failures, 1);
    ck_assert_double_eq(a.t[one].best_seconds, 2e-3);
    ck_assert(isnan(a.t[!one].best_seconds));
    ck_assert_int_eq(st_tasks(reader, m1, a.t[0].id, 10, see_task, &b, &e), 0);
    ck_assert_int_eq(b.n, 1);
    ck_assert_str_eq(b.t[0].id, a.t[1].id);
}
END_TEST

/* ---- training sets ---- */

static int print_program(void *arg, const char *task_id, const uint8_t hash[16], const struct tp_record *rec,
                         double min_cost, int64_t n)
{
    struct tp_buf *b = arg;
    tp_buf_printf(b, "%s ", task_id);
    for (int i = 0; i < 16; i++)
        tp_buf_printf(b, "%02x", hash[i]);
    tp_buf_printf(b, " %g %lld ", min_cost, (long long)n);
    tp_record_emit(rec, b);
    tp_buf_putc(b, '\n');
    return 0;
}

static void training_set(struct tp_buf *out)
{
    struct tp_err e;
    out->n = 0;
    ck_assert_msg(st_training_set(reader, m1, INT64_MAX, print_program, out, &e) == 0, "%s", e.detail);
    tp_buf_putc(out, '\0');
}

START_TEST(later_measurements_are_as_if_they_were_not_there)
{
    static const struct sf_line first[] = {{1, 1, 1e-3, 1}, {1, 2, 2e-3, 1}, {2, 3, 3e-3, 1}},
                                later[] = {{1, 2, 5e-4, 2}, {1, 4, 1e-3, 2}, {3, 5, 1e-3, 2}};
    struct tp_buf before = {0}, upto = {0}, all = {0};
    struct st_counts c;
    struct tp_err e;
    int64_t newer;
    sf_post("m1", first, 3);
    training_set(&before);
    ck_assert_int_eq(st_hardware_counts(reader, m1, &c, &e), 0);
    sf_post("m1", later, 3);
    ck_assert_int_eq(st_training_set(reader, m1, c.newest_measurement_id, print_program, &upto, &e), 0);
    tp_buf_putc(&upto, '\0');
    ck_assert_str_eq(before.p, upto.p);
    training_set(&all);
    ck_assert_str_ne(before.p, all.p);
    ck_assert_int_eq(st_hardware_newer(reader, m1, c.newest_measurement_id, &newer, &e), 0);
    ck_assert_int_eq(newer, 3);
    tp_buf_free(&before);
    tp_buf_free(&upto);
    tp_buf_free(&all);
}
END_TEST

START_TEST(a_training_set_is_the_same_whatever_the_order_of_arrival)
{
    enum { N = 60 };
    struct sf_line lines[N], back[N];
    struct tp_buf a = {0}, b = {0};
    for (int i = 0; i < N; i++)
        lines[i] = back[N - 1 - i] = (struct sf_line){i % 3, i % 20, i % 7 ? 1e-3 + i * 1e-6 : 0, 100 + i};
    sf_post("m1", lines, N);
    training_set(&a);
    int64_t before = m1;
    struct tp_err e;
    ck_assert_int_eq(st_hardware_delete(sf_store, "m1", true, &e), 0);
    sf_hardware("m1", "cpu", "cpu");
    m1 = sf_hardware_id("m1");
    ck_assert_int_ne(m1, before); /* ids of rows are never used again */
    sf_post("m1", back, N);
    training_set(&b);
    ck_assert_str_eq(a.p, b.p);
    char prev[64] = "";
    for (char *p = a.p; *p; p = strchr(p, '\n') + 1) {
        ck_assert_int_lt(strncmp(prev, p, 49), 0); /* task, hash */
        memcpy(prev, p, 49);
    }
    tp_buf_free(&a);
    tp_buf_free(&b);
}
END_TEST

START_TEST(one_task_of_a_training_set_is_its_part_of_the_whole)
{
    struct sf_line lines[30];
    struct tp_buf all = {0}, parts = {0};
    struct tp_err e;
    char last[TP_TASK_ID_LEN + 1] = "";
    for (int i = 0; i < 30; i++)
        lines[i] = (struct sf_line){i % 3, i, 1e-3 + i * 1e-6, 100 + i};
    sf_post("m1", lines, 30);
    sf_post("m2", lines, 10);
    training_set(&all);
    for (const char *p = all.p; *p; p = strchr(p, '\n') + 1) {
        if (memcmp(last, p, TP_TASK_ID_LEN) == 0)
            continue;
        memcpy(last, p, TP_TASK_ID_LEN);
        ck_assert_int_eq(st_training_task(reader, m1, last, print_program, &parts, &e), 0);
    }
    tp_buf_putc(&parts, '\0');
    ck_assert_str_eq(parts.p, all.p);
    ck_assert_int_eq(st_training_task(reader, m1, "0123456789abcdef", print_program, &parts, &e), -TP_E_UNKNOWN_TASK);
    tp_buf_free(&all);
    tp_buf_free(&parts);
}
END_TEST

START_TEST(measurements_of_one_program_merge_into_their_minimum)
{
    struct sf_line lines[] = {{1, 1, 3e-3, 1}, {1, 1, 0, 2}, {1, 1, 2e-3, 3}};
    struct tp_buf a = {0};
    sf_post("m1", lines, 3);
    sf_post("m2", lines, 2);
    training_set(&a);
    ck_assert_ptr_nonnull(strstr(a.p, " 0.002 3 {\"i\": "));
    ck_assert_ptr_nonnull(strstr(a.p, "\"r\": [[0.002")); /* of the fastest measurement, the costs */
    ck_assert_ptr_nonnull(strstr(a.p, "\"v\": \"v0.6\"}\n"));
    ck_assert_ptr_eq(strchr(a.p, '\n') + 1, a.p + a.n - 1);
    tp_buf_free(&a);
}
END_TEST

START_TEST(a_program_that_only_failed_costs_infinity)
{
    struct sf_line lines[] = {{1, 1, 0, 1}, {1, 1, 0, 2}};
    struct tp_buf a = {0};
    sf_post("m1", lines, 2);
    training_set(&a);
    ck_assert_ptr_nonnull(strstr(a.p, " inf 2 {"));
    ck_assert_ptr_null(strstr(a.p, "\"r\""));
    tp_buf_free(&a);
}
END_TEST

START_TEST(one_reader_serves_many_variants_of_a_task)
{
    /* other target strings and versions of the same task, in turn */
    static const char *const form = "{\"i\": [[\"[\\\"k\\\"]\", \"llvm -mcpu=%s\"], [[], [[\"CI\", %d]]]], "
                                    "\"r\": [[0.001], 0, 0.5, %d]%s}";
    struct tp_buf want = {0}, got = {0};
    char line[256];
    for (int i = 0; i < 12; i++) {
        snprintf(line, sizeof line, form, i % 2 ? "a" : "b", i, i, i % 3 ? ", \"v\": \"v0.2\"" : "");
        ck_assert_uint_eq(sf_post_text("m1", line).accepted, 1);
        tp_buf_puts(&want, line);
        tp_buf_putc(&want, '\n');
    }
    tp_buf_putc(&want, '\0');
    sf_export(&got, "m1", NULL);
    ck_assert_str_eq(got.p, want.p);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM task"), 1);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM task_variant"), 4);
    tp_buf_free(&want);
    tp_buf_free(&got);
}
END_TEST

START_TEST(damage_is_told_and_not_handed_out)
{
    struct sf_line line = {1, 1, 1e-3, 1};
    struct seen s = {0};
    struct tp_err e;
    int64_t last;
    sf_post("m1", &line, 1);
    st_writer_stop(sf_store);
    ck_assert_int_eq(st_db_exec(&sf_store->db, "UPDATE program SET steps = x'00'", &e), 0);
    ck_assert_int_eq(st_export(reader, m1, NULL, 0, -1, see, &s, &last, &e), -TP_E_IO);
    ck_assert_int_eq(s.n, 0);
}
END_TEST

/* ---- plans ---- */

START_TEST(no_statement_scans_a_table)
{
    struct tp_buf sql = {0};
    for (int id = 0; id < ST_SQL_COUNT; id++) {
        sqlite3_stmt *st = NULL;
        sql.n = 0;
        tp_buf_printf(&sql, "EXPLAIN QUERY PLAN %s", st_sql_text((enum st_sql)id));
        tp_buf_putc(&sql, '\0');
        ck_assert_msg(sqlite3_prepare_v2(reader->db.h, sql.p, -1, &st, NULL) == SQLITE_OK, "%s: %s", sql.p,
                      sqlite3_errmsg(reader->db.h));
        while (sqlite3_step(st) == SQLITE_ROW) {
            const char *step = (const char *)sqlite3_column_text(st, 3);
            ck_assert_msg(!strstr(step, "SCAN"), "%s\n%s", step, sql.p);
            ck_assert_msg(!strstr(step, "TEMP B-TREE"), "%s\n%s", step, sql.p);
            ck_assert_msg(!strstr(step, "AUTOMATIC"), "%s\n%s", step, sql.p);
        }
        sqlite3_finalize(st);
    }
    tp_buf_free(&sql);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store read");
    TCase *t = tcase_create("read");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, an_export_comes_in_pages_that_neither_miss_nor_repeat);
    tcase_add_test(t, a_callback_stops_an_export_and_its_row_counts_as_seen);
    tcase_add_test(t, an_export_of_one_task_holds_that_task);
    tcase_add_test(t, a_task_the_hardware_has_not_measured_is_unknown);
    tcase_add_test(t, best_is_the_fastest_valid_record_of_each_task);
    tcase_add_test(t, best_of_equals_is_the_earliest_whatever_its_variant);
    tcase_add_test(t, best_so_far_is_told_when_it_falls);
    tcase_add_test(t, tasks_are_listed_with_their_figures_by_id);
    tcase_add_test(t, later_measurements_are_as_if_they_were_not_there);
    tcase_add_test(t, a_training_set_is_the_same_whatever_the_order_of_arrival);
    tcase_add_test(t, one_task_of_a_training_set_is_its_part_of_the_whole);
    tcase_add_test(t, measurements_of_one_program_merge_into_their_minimum);
    tcase_add_test(t, a_program_that_only_failed_costs_infinity);
    tcase_add_test(t, one_reader_serves_many_variants_of_a_task);
    tcase_add_test(t, damage_is_told_and_not_handed_out);
    tcase_add_test(t, no_statement_scans_a_table);
    suite_add_tcase(s, t);
    return sf_main(s);
}
