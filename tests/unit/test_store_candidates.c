/* The pool: what comes in, what a measurement does to it, selections, lists. */
#include "tests/unit/store_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct st_reader *reader;
static int64_t hw;

static void setup(void)
{
    sf_begin();
    sf_hardware("m1", "cpu", "cpu");
    sf_hardware("m2", "cpu", "cpu");
    reader = sf_reader();
    hw = sf_hardware_id("m1");
}

static void teardown(void)
{
    st_reader_free(reader);
    sf_end();
}

static int64_t count(const char *name, enum st_candidate_state state)
{
    int64_t n[ST_CANDIDATE_STATES];
    struct tp_err e;
    ck_assert_int_eq(st_candidate_counts(reader, sf_hardware_id(name), n, &e), 0);
    return n[state];
}

/* pooled, selected, leased, measured, failed of m1; the sums are checked against the rows. */
static void counts_are(int64_t pooled, int64_t selected, int64_t leased, int64_t measured, int64_t failed)
{
    const int64_t want[] = {pooled, selected, leased, measured, failed};
    for (int i = 0; i < ST_CANDIDATE_STATES; i++) {
        char sql[128];
        const char *name = st_candidate_state_name((enum st_candidate_state)i);
        snprintf(sql, sizeof sql, "SELECT count(*) FROM candidate WHERE hardware = %d AND state = '%s'", (int)hw, name);
        ck_assert_msg(count("m1", (enum st_candidate_state)i) == want[i], "%s: %d", name,
                      (int)count("m1", (enum st_candidate_state)i));
        ck_assert_int_eq(sf_query(sql), want[i]);
    }
    ck_assert_int_eq(
        sf_query("SELECT count(*) FROM lease l WHERE open <> (SELECT count(*) FROM candidate c WHERE c.lease = l.id)"),
        0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM candidate WHERE (lease IS NULL) = (state = 'leased')"), 0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM pragma_foreign_key_check"), 0);
    ck_assert_int_eq(
        sf_query("SELECT count(*) FROM candidate WHERE lease IS NOT NULL AND lease NOT IN (SELECT id FROM lease)"), 0);
}

static struct st_ingest_result pool_with(const char *name, const struct sf_line *l, size_t n, int repeat, int64_t limit)
{
    struct st_ingest *b = st_ingest_new_candidates(repeat, limit);
    struct tp_record r;
    struct tp_err e = {0};
    char line[1024];
    tp_record_init(&r);
    for (size_t i = 0; i < n; i++) {
        sf_print(line, sizeof line, l[i]);
        sf_parse(&r, line);
        ck_assert_msg(st_ingest_add(b, &r, &e) == 0, "%s", e.detail);
    }
    tp_record_free(&r);
    return sf_submit(name, b);
}

static void pooled(int task, int from, int n)
{
    struct sf_line l[64];
    for (int i = 0; i < n; i++)
        l[i] = (struct sf_line){task, from + i, 1, 1};
    struct st_ingest_result r = pool_with("m1", l, (size_t)n, 1, 1000);
    ck_assert_int_eq(r.code, 0);
    ck_assert_uint_eq(r.accepted, (size_t)n);
}

struct ids {
    int64_t id[256];
    int n;
};

static int note(void *arg, const struct st_candidate *c)
{
    struct ids *x = arg;
    x->id[x->n++] = c->id;
    return 0;
}

/* Every pooled candidate becomes selected, with scores 0.9, 0.8, ... in order of its id and turn 0. */
static void select_all(void)
{
    struct ids x = {0};
    struct st_pick p[256];
    struct tp_err e;
    ck_assert_int_eq(st_candidate_list(reader, hw, ST_POOLED, 0, -1, note, &x, &e), 0);
    for (int i = 0; i < x.n; i++)
        p[i] = (struct st_pick){.candidate = x.id[i], .score = 0.9 - 0.1 * i, .r = 0.1, .d = 0.2, .u = NAN};
    ck_assert_int_eq(st_candidates_select(sf_store, hw, 7, p, (size_t)x.n, &e), 0);
    for (int i = 0; i < x.n; i++)
        ck_assert(p[i].taken);
}

static struct st_lease take(int64_t max, int64_t now)
{
    struct st_lease_ask ask = {.hardware = "m1", .agent = "a1", .max = max, .ttl = 1000, .now = now};
    struct st_lease l;
    struct tp_err e = {0};
    ck_assert_msg(st_lease_take(sf_store, &ask, &l, &e) == 0, "%s", e.detail);
    return l;
}

START_TEST(a_program_is_pooled_once)
{
    struct sf_line l[] = {{1, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 2, 2}, {2, 1, 1, 1}};
    struct st_ingest_result r = pool_with("m1", l, 4, 1, 1000);
    ck_assert_uint_eq(r.accepted, 3);
    ck_assert_uint_eq(r.duplicates, 1);
    r = pool_with("m1", l, 4, 1, 1000);
    ck_assert_uint_eq(r.accepted, 0);
    ck_assert_uint_eq(r.duplicates, 4);
    counts_are(3, 0, 0, 0, 0);
    ck_assert_uint_eq(pool_with("m2", l, 4, 1, 1000).accepted, 3); /* another hardware has its own */
    counts_are(3, 0, 0, 0, 0);
}
END_TEST

START_TEST(what_was_measured_before_is_a_duplicate_unless_more_are_wanted)
{
    struct sf_line l[] = {{1, 1, 1e-3, 1}, {1, 2, 0, 1}, {1, 3, 1e-3, 1}};
    sf_post("m1", l, 2);
    struct st_ingest_result r = pool_with("m1", l, 3, 1, 1000);
    ck_assert_uint_eq(r.accepted, 1);
    ck_assert_uint_eq(r.duplicates, 2);
    r = pool_with("m1", l, 3, 2, 1000);
    ck_assert_uint_eq(r.accepted, 2);
    ck_assert_uint_eq(r.duplicates, 1); /* pooled already; it takes the higher repeat */
    ck_assert_int_eq(sf_query("SELECT min(repeat) FROM candidate"), 2);
    counts_are(3, 0, 0, 0, 0);
}
END_TEST

START_TEST(a_body_over_the_limit_is_refused_whole)
{
    struct sf_line l[] = {{1, 1, 1, 1}, {1, 2, 1, 1}, {1, 3, 1, 1}};
    ck_assert_uint_eq(pool_with("m1", l, 2, 1, 2).accepted, 2);
    ck_assert_int_eq(pool_with("m1", l, 3, 1, 2).code, -TP_E_TOO_MANY);
    counts_are(2, 0, 0, 0, 0);
    ck_assert_uint_eq(pool_with("m1", l, 2, 1, 2).duplicates, 2); /* nothing new: nothing to refuse */
    sf_post("m1", l, 1);
    ck_assert_uint_eq(pool_with("m1", l, 3, 1, 2).accepted, 1); /* measured ones do not wait */
}
END_TEST

START_TEST(a_measurement_moves_a_candidate_on_in_any_state)
{
    struct sf_line l[] = {{1, 1, 1e-3, 1}, {1, 2, 0, 1}, {1, 3, 1e-3, 1}, {1, 4, 1e-3, 1}};
    pooled(1, 1, 4);
    sf_post("m1", &l[0], 1);
    counts_are(3, 0, 0, 1, 0);
    select_all();
    counts_are(0, 3, 0, 1, 0);
    sf_post("m1", &l[1], 1);
    counts_are(0, 2, 0, 1, 1);
    struct st_lease lease = take(1, 1000);
    ck_assert_int_eq(lease.open, 1);
    counts_are(0, 1, 1, 1, 1);
    sf_post("m1", &l[2], 1);
    counts_are(0, 1, 0, 2, 1);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM lease"), 0); /* closed with its last candidate */
}
END_TEST

START_TEST(a_failed_candidate_that_measures_after_all_is_measured)
{
    struct sf_line fails = {1, 1, 0, 1}, works = {1, 1, 1e-3, 2};
    pooled(1, 1, 1);
    sf_post("m1", &fails, 1);
    counts_are(0, 0, 0, 0, 1);
    sf_post("m1", &works, 1);
    counts_are(0, 0, 0, 1, 0);
    fails.timestamp = 3;
    sf_post("m1", &fails, 1);
    counts_are(0, 0, 0, 1, 0);
}
END_TEST

START_TEST(repeat_asks_for_that_many_measurements)
{
    struct sf_line l = {1, 1, 1e-3, 1};
    pool_with("m1", &l, 1, 3, 1000);
    select_all();
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(take(8, 1000).open, 1);
        counts_are(0, 0, 1, 0, 0);
        l.timestamp = 10 + i;
        sf_post("m1", &l, 1);
        if (i < 2)
            counts_are(0, 1, 0, 0, 0);
    }
    counts_are(0, 0, 0, 1, 0);
    ck_assert_uint_eq(pool_with("m1", &l, 1, 3, 1000).duplicates, 1);
    ck_assert_uint_eq(pool_with("m1", &l, 1, 4, 1000).accepted, 1);
    counts_are(1, 0, 0, 0, 0);
}
END_TEST

START_TEST(a_duplicate_of_somebody_else_leaves_a_lease_alone)
{
    struct sf_line l = {1, 1, 1e-3, 1};
    sf_post("m1", &l, 1);
    pool_with("m1", &l, 1, 2, 1000);
    select_all();
    ck_assert_int_eq(take(8, 1000).open, 1);
    ck_assert_uint_eq(sf_post("m1", &l, 1).duplicates, 1); /* another agent's */
    counts_are(0, 0, 1, 0, 0);
    char line[1024];
    ck_assert_uint_gt(sf_print(line, sizeof line, l), 0);
    ck_assert_uint_eq(sf_post_text("m1", line).duplicates, 1); /* nobody's */
    counts_are(0, 0, 1, 0, 0);                                 /* one measurement is still wanted */
    ck_assert_int_eq(sf_query("SELECT count(*) FROM lease"), 1);
}
END_TEST

START_TEST(only_pooled_candidates_are_selected)
{
    struct sf_line l = {1, 2, 1e-3, 1};
    struct st_pick p[3];
    struct tp_err e;
    pooled(1, 1, 3);
    sf_post("m1", &l, 1);
    for (int i = 0; i < 3; i++)
        p[i] = (struct st_pick){.candidate = i + 1, .score = 0.5, .r = NAN, .d = NAN, .u = NAN};
    ck_assert_int_eq(st_candidates_select(sf_store, hw, 9, p, 3, &e), 0);
    ck_assert(p[0].taken && !p[1].taken && p[2].taken);
    counts_are(0, 2, 0, 1, 0);
    p[0] = (struct st_pick){.candidate = 1, .turn = 4, .score = 0.7, .waiting = true};
    ck_assert_int_eq(st_candidates_select(sf_store, hw, 10, p, 1, &e), 0);
    ck_assert_int_eq(sf_query("SELECT turn FROM candidate WHERE id = 1 AND score = 0.5 AND selection = 9"), 4);
}
END_TEST

static int check_row(void *arg, const struct st_candidate *c, const struct tp_record *rec)
{
    struct tp_buf b = {0};
    char line[1024], *r;
    sf_print(line, sizeof line, (struct sf_line){1, 5, 1, 1});
    tp_record_emit(rec, &b);
    tp_buf_putc(&b, '\0');
    r = strstr(line, ", \"r\"");
    memmove(r, strstr(line, ", \"v\""), strlen(strstr(line, ", \"v\"")) + 1);
    ck_assert_str_eq(b.p, line);
    tp_buf_free(&b);
    ck_assert_int_eq(c->state, ST_LEASED);
    ck_assert_int_eq(c->repeat, 2);
    ck_assert_int_eq(c->measurements, 1);
    ck_assert_double_eq_tol(c->score, 0.9, 1e-12);
    ck_assert_double_eq_tol(c->d, 0.2, 1e-12);
    ck_assert(isnan(c->u));
    ck_assert_int_eq(c->selection, 7);
    ck_assert_str_eq(c->agent, "a1");
    ck_assert_int_eq(c->expires, 6000);
    ++*(int *)arg;
    return 0;
}

START_TEST(a_candidate_reads_back_with_all_that_is_known_of_it)
{
    struct sf_line l = {1, 5, 1e-3, 1};
    struct tp_err e;
    int n = 0;
    sf_post("m1", &l, 1);
    pool_with("m1", &l, 1, 2, 1000);
    select_all();
    struct st_lease lease = take(8, 5000);
    ck_assert_int_eq(st_candidate_records(reader, hw, -1, 0, -1, check_row, &n, &e), 0);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(st_lease_records(reader, lease.id, check_row, &n, &e), 0);
    ck_assert_int_eq(n, 2);
}
END_TEST

START_TEST(lists_are_pages_by_id)
{
    struct ids x = {0};
    struct tp_err e;
    pooled(1, 1, 10);
    for (int64_t after = 0;;) {
        int before = x.n;
        ck_assert_int_eq(st_candidate_list(reader, hw, -1, after, 3, note, &x, &e), 0);
        if (x.n == before)
            break;
        after = x.id[x.n - 1];
    }
    ck_assert_int_eq(x.n, 10);
    for (int i = 1; i < x.n; i++)
        ck_assert_int_gt(x.id[i], x.id[i - 1]);
    x.n = 0;
    ck_assert_int_eq(st_candidate_list(reader, hw, ST_LEASED, 0, -1, note, &x, &e), 0);
    ck_assert_int_eq(x.n, 0);
}
END_TEST

START_TEST(pool_and_leases_survive_a_restart)
{
    struct st_lease lease, again;
    struct tp_err e;
    pooled(1, 1, 4);
    select_all();
    lease = take(2, 1000);
    st_reader_free(reader);
    sf_reopen();
    reader = sf_reader();
    counts_are(0, 2, 2, 0, 0);
    ck_assert_int_eq(st_lease_renew(sf_store, lease.token, 0, 1500, &again, &e), 0);
    ck_assert_int_eq(again.open, 2);
    ck_assert_int_eq(again.expires, 2500);
}
END_TEST

START_TEST(a_purge_takes_more_candidates_than_one_step)
{
    struct tp_err e;
    char line[1024];
    struct st_ingest *b = st_ingest_new_candidates(1, 100000);
    struct tp_record r;
    tp_record_init(&r);
    for (int i = 0; i < 5001; i++) {
        sf_print(line, sizeof line, (struct sf_line){1, i, 1, 1});
        if (i % 100 == 0)
            sf_parse(&r, line);
        else if (tp_record_parse(&r, line, strlen(line), &e) != 0)
            ck_abort_msg("%s", e.detail);
        if (st_ingest_add(b, &r, &e) != 0)
            ck_abort_msg("%s", e.detail);
    }
    tp_record_free(&r);
    ck_assert_uint_eq(sf_submit("m1", b).accepted, 5001);
    ck_assert_int_eq(st_hardware_delete(sf_store, "m1", false, &e), 0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM candidate"), 0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM candidate_count"), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store candidates");
    TCase *t = tcase_create("candidates");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_program_is_pooled_once);
    tcase_add_test(t, what_was_measured_before_is_a_duplicate_unless_more_are_wanted);
    tcase_add_test(t, a_body_over_the_limit_is_refused_whole);
    tcase_add_test(t, a_measurement_moves_a_candidate_on_in_any_state);
    tcase_add_test(t, a_failed_candidate_that_measures_after_all_is_measured);
    tcase_add_test(t, repeat_asks_for_that_many_measurements);
    tcase_add_test(t, a_duplicate_of_somebody_else_leaves_a_lease_alone);
    tcase_add_test(t, only_pooled_candidates_are_selected);
    tcase_add_test(t, a_candidate_reads_back_with_all_that_is_known_of_it);
    tcase_add_test(t, lists_are_pages_by_id);
    tcase_add_test(t, pool_and_leases_survive_a_restart);
    tcase_add_test(t, a_purge_takes_more_candidates_than_one_step);
    suite_add_tcase(s, t);
    return sf_main(s);
}
