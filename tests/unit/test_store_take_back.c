/* Taking back leases, selections and what is pooled: what goes, what stays, in how many steps. */
#include "tests/unit/store_fixture.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 2 * ST_GROUP_ROWS + 100 /* more than two steps */ };

static int64_t hw;

static void setup(void)
{
    sf_begin();
    sf_hardware("m1", "cpu", "cpu");
    sf_hardware("m2", "cpu", "cpu");
    hw = sf_hardware_id("m1");
}

/* pooled, selected, leased, measured of m1; the sums are checked against the rows. */
static void counts_are(int pooled, int selected, int leased, int measured)
{
    const int want[] = {pooled, selected, leased, measured};
    for (int i = 0; i < 4; i++) {
        const char *name = st_candidate_state_name((enum st_candidate_state)i);
        char rows[128], sum[128];
        snprintf(rows, sizeof rows, "SELECT count(*) FROM candidate WHERE hardware = %d AND state = '%s'", (int)hw,
                 name);
        snprintf(sum, sizeof sum, "SELECT ifnull(sum(n), 0) FROM candidate_count WHERE hardware = %d AND state = '%s'",
                 (int)hw, name);
        ck_assert_msg(sf_query(rows) == want[i] && sf_query(sum) == want[i], "%s: %d, counted as %d", name,
                      (int)sf_query(rows), (int)sf_query(sum));
    }
    ck_assert_int_eq(sf_query("SELECT count(*) FROM lease WHERE open = 0"), 0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM candidate WHERE (lease IS NULL) = (state = 'leased')"), 0);
}

/* Programs first .. first + n - 1 of one task; their ids go on from the last. */
static void pooled(const char *name, int first, int n)
{
    struct st_ingest *b = st_ingest_new_candidates(1, 1000000);
    struct tp_record r;
    struct tp_err e = {0};
    char line[1024];
    int bad = 0;
    tp_record_init(&r);
    for (int i = 0; i < n; i++) {
        size_t len = sf_print(line, sizeof line, (struct sf_line){1, first + i, 1, 1});
        bad += tp_record_parse(&r, line, len, &e) != 0 || st_ingest_add(b, &r, &e) != 0;
    }
    ck_assert_int_eq(bad, 0);
    tp_record_free(&r);
    ck_assert_uint_eq(sf_submit(name, b).accepted, (size_t)n);
}

/* Picks candidates id .. id + n - 1; how many are selected by it. */
static int picked(int64_t id, int n)
{
    struct st_pick *p = calloc((size_t)n, sizeof *p);
    struct tp_err e;
    int taken = 0;
    for (int i = 0; i < n; i++)
        p[i] = (struct st_pick){.candidate = id + i, .score = 0.9 - 1e-5 * i, .r = 0.1, .d = 0.2, .u = NAN, .turn = i};
    ck_assert_int_eq(st_candidates_select(sf_store, hw, 7, p, (size_t)n, &e), 0);
    for (int i = 0; i < n; i++)
        taken += p[i].taken;
    free(p);
    return taken;
}

static struct st_lease take(const char *agent, int64_t max)
{
    struct st_lease_ask ask = {.hardware = "m1", .agent = agent, .max = max, .ttl = 1000, .now = 0};
    struct st_lease l;
    struct tp_err e = {0};
    ck_assert_msg(st_lease_take(sf_store, &ask, &l, &e) == 0, "%s", e.detail);
    return l;
}

static int renewed(const struct st_lease *l)
{
    struct st_lease now;
    struct tp_err e;
    return st_lease_renew(sf_store, l->token, 0, 0, &now, &e);
}

static void measured(int program)
{
    sf_post("m1", &(struct sf_line){1, program, 1e-3, 1}, 1);
}

/* ---- a call and its answer ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    struct st_taken_back r;
} answer = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

static void on_done(void *arg, const struct st_taken_back *r)
{
    (void)arg;
    pthread_mutex_lock(&answer.lock);
    answer.r = *r;
    answer.done = true;
    pthread_cond_signal(&answer.cond);
    pthread_mutex_unlock(&answer.lock);
}

static struct st_taken_back wait_for(int rc)
{
    ck_assert_int_eq(rc, 0);
    pthread_mutex_lock(&answer.lock);
    while (!answer.done)
        pthread_cond_wait(&answer.cond, &answer.lock);
    answer.done = false;
    pthread_mutex_unlock(&answer.lock);
    return answer.r;
}

static void ends(const char *agent, int leases, int candidates)
{
    struct tp_err e;
    struct st_taken_back r = wait_for(st_leases_end(sf_store, hw, agent, on_done, NULL, &e));
    ck_assert_int_eq(r.code, 0);
    ck_assert_int_eq(r.leases, leases);
    ck_assert_int_eq(r.candidates, candidates);
}

static void unselects(int candidates)
{
    struct tp_err e;
    struct st_taken_back r = wait_for(st_candidates_unselect(sf_store, hw, on_done, NULL, &e));
    ck_assert_int_eq(r.code, 0);
    ck_assert_int_eq(r.candidates, candidates);
}

static void removes(int candidates)
{
    struct tp_err e;
    struct st_taken_back r = wait_for(st_candidates_remove(sf_store, hw, on_done, NULL, &e));
    ck_assert_int_eq(r.code, 0);
    ck_assert_int_eq(r.candidates, candidates);
}

/* ---- leases ---- */

static int first_id(void *arg, const struct st_candidate *c, const struct tp_record *rec)
{
    (void)rec;
    *(int64_t *)arg = c->id;
    return 1;
}

START_TEST(the_leases_of_one_agent_end)
{
    struct st_reader *reader = sf_reader();
    struct tp_err e;
    int64_t id = 0;
    pooled("m1", 1, 9);
    picked(1, 9);
    struct st_lease a = take("a", 2), again = take("a", 1), b = take("b", 2);
    ends("a", 2, 3);
    counts_are(0, 7, 2, 0);
    ck_assert_int_eq(renewed(&a), -TP_E_UNKNOWN_LEASE);
    ck_assert_int_eq(renewed(&again), -TP_E_UNKNOWN_LEASE);
    ck_assert_int_eq(renewed(&b), 0);
    struct st_lease c = take("c", 9);
    ck_assert_int_eq(st_lease_records(reader, c.id, first_id, &id, &e), 0);
    ck_assert_int_eq(id, 1); /* they wait where they did */
    ends("a", 0, 0);
    ends("nobody", 0, 0);
    st_reader_free(reader);
}
END_TEST

START_TEST(all_leases_of_a_hardware_end_and_no_others)
{
    struct tp_err e;
    pooled("m1", 1, 4);
    picked(1, 4);
    take("a", 1);
    take("b", 2);
    struct st_taken_back r = wait_for(st_leases_end(sf_store, sf_hardware_id("m2"), NULL, on_done, NULL, &e));
    ck_assert_int_eq(r.leases, 0);
    counts_are(0, 1, 3, 0);
    ends(NULL, 2, 3);
    counts_are(0, 4, 0, 0);
    ck_assert_int_eq(take("c", 9).open, 4);
}
END_TEST

START_TEST(what_the_holder_measures_after_the_end_counts)
{
    pooled("m1", 1, 2);
    picked(1, 2);
    take("a", 2);
    ends("a", 1, 2);
    measured(1);
    counts_are(0, 1, 0, 1);
    take("b", 1);
    measured(2);
    counts_are(0, 0, 0, 2);
}
END_TEST

START_TEST(more_leases_end_than_one_step_takes)
{
    pooled("m1", 1, MANY);
    picked(1, MANY);
    take("a", ST_GROUP_ROWS + 1);
    for (int i = 0; i < 3; i++)
        take("b", 100);
    ends(NULL, 4, ST_GROUP_ROWS + 301);
    counts_are(0, MANY, 0, 0);
}
END_TEST

/* ---- selections ---- */

START_TEST(an_unselected_candidate_is_as_if_it_had_never_been_chosen)
{
    pooled("m1", 1, 6);
    picked(1, 6);
    take("a", 2);
    measured(1);
    counts_are(0, 4, 1, 1);
    unselects(4);
    counts_are(4, 0, 1, 1); /* who measures goes on */
    ck_assert_int_eq(sf_query("SELECT count(*) FROM candidate WHERE state = 'pooled' AND selection IS NULL AND turn IS "
                              "NULL AND score IS NULL AND r IS NULL AND d IS NULL AND u IS NULL"),
                     4);
    ck_assert_int_eq(take("b", 8).id, 0);
    unselects(0);
    ck_assert_int_eq(picked(1, 6), 4);
    counts_are(0, 4, 1, 1);
}
END_TEST

/* ---- the pool ---- */

START_TEST(a_removed_candidate_can_be_posted_again_and_no_other_is_touched)
{
    pooled("m1", 1, 4);
    picked(1, 4);
    take("a", 1);
    measured(1);
    take("a", 1);
    pooled("m1", 11, 3);
    pooled("m2", 11, 3);
    removes(3);
    counts_are(0, 2, 1, 1);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM candidate"), 4 + 3);
    removes(0);
    pooled("m1", 11, 3);
    counts_are(3, 2, 1, 1);
    removes(3);
    measured(11); /* what is in no pool is measured as anything else */
    counts_are(0, 2, 1, 1);
}
END_TEST

START_TEST(a_selection_from_before_brings_nothing_back)
{
    pooled("m1", 1, 4);
    removes(4);
    pooled("m1", 1, 4); /* the same programs, but others in the pool */
    ck_assert_int_eq(picked(1, 4), 0);
    counts_are(4, 0, 0, 0);
    struct st_pick turn = {.candidate = 5, .turn = 3, .waiting = true};
    struct tp_err e;
    ck_assert_int_eq(picked(5, 4), 4);
    unselects(4);
    ck_assert_int_eq(st_candidates_select(sf_store, hw, 8, &turn, 1, &e), 0);
    counts_are(4, 0, 0, 0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM candidate WHERE turn IS NOT NULL"), 0);
}
END_TEST

START_TEST(more_candidates_are_taken_back_than_one_step_takes)
{
    pooled("m1", 1, MANY);
    picked(1, MANY);
    uint64_t commits = st_commits(sf_store);
    unselects(MANY);
    ck_assert_uint_eq(st_commits(sf_store) - commits, 3);
    counts_are(MANY, 0, 0, 0);
    removes(MANY);
    counts_are(0, 0, 0, 0);
    pooled("m1", 1, ST_GROUP_ROWS); /* just what one step takes */
    removes(ST_GROUP_ROWS);
    counts_are(0, 0, 0, 0);
}
END_TEST

START_TEST(a_step_that_fails_is_told_and_asking_again_goes_on)
{
    struct tp_err e;
    pooled("m1", 1, MANY);
    st_writer_stop(sf_store);
    ck_assert_int_eq(st_db_exec(&sf_store->db,
                                "CREATE TRIGGER full BEFORE DELETE ON candidate WHEN old.id > 600 BEGIN "
                                "SELECT raise(ABORT, 'no'); END",
                                &e),
                     0);
    sf_reopen();
    struct st_taken_back r = wait_for(st_candidates_remove(sf_store, hw, on_done, NULL, &e));
    ck_assert_int_lt(r.code, 0);
    ck_assert_uint_gt(strlen(r.err.detail), 0);
    ck_assert_int_eq(r.candidates, ST_GROUP_ROWS);
    counts_are(MANY - ST_GROUP_ROWS, 0, 0, 0);
    st_writer_stop(sf_store);
    ck_assert_int_eq(st_db_exec(&sf_store->db, "DROP TRIGGER full", &e), 0);
    sf_reopen();
    removes(MANY - ST_GROUP_ROWS);
}
END_TEST

START_TEST(a_store_that_closes_takes_nothing_back)
{
    struct tp_err e;
    st_writer_stop(sf_store);
    ck_assert_int_eq(st_candidates_remove(sf_store, hw, on_done, NULL, &e), -TP_E_DRAINING);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store take back");
    TCase *t = tcase_create("take back");
    tcase_add_checked_fixture(t, setup, sf_end);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_leases_of_one_agent_end);
    tcase_add_test(t, all_leases_of_a_hardware_end_and_no_others);
    tcase_add_test(t, what_the_holder_measures_after_the_end_counts);
    tcase_add_test(t, more_leases_end_than_one_step_takes);
    tcase_add_test(t, an_unselected_candidate_is_as_if_it_had_never_been_chosen);
    tcase_add_test(t, a_removed_candidate_can_be_posted_again_and_no_other_is_touched);
    tcase_add_test(t, a_selection_from_before_brings_nothing_back);
    tcase_add_test(t, more_candidates_are_taken_back_than_one_step_takes);
    tcase_add_test(t, a_step_that_fails_is_told_and_asking_again_goes_on);
    tcase_add_test(t, a_store_that_closes_takes_nothing_back);
    suite_add_tcase(s, t);
    return sf_main(s);
}
