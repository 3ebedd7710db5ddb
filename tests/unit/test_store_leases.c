/* Leases: who gets what, in which order, until when. The clock is an argument. */
#include "tests/unit/store_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct st_reader *reader;
static int64_t hw;

static void setup(void)
{
    sf_begin();
    sf_hardware("m1", "cpu", "cpu");
    reader = sf_reader();
    hw = sf_hardware_id("m1");
}

static void teardown(void)
{
    st_reader_free(reader);
    sf_end();
}

/* n candidates of a task, selected with turns 0, 1, ... and scores that fall by 0.001 from `top`. Ids are in order. */
static void waiting(int task, int n, double top)
{
    struct st_ingest *b = st_ingest_new_candidates(1, 1000000);
    struct st_pick *p = calloc((size_t)n, sizeof *p);
    struct tp_record r;
    struct tp_err e = {0};
    char line[1024];
    int bad = 0;
    int64_t first = sf_query("SELECT ifnull(max(id), 0) FROM candidate") + 1;
    tp_record_init(&r);
    for (int i = 0; i < n; i++) {
        size_t len = sf_print(line, sizeof line, (struct sf_line){task, i, 1, 1});
        bad += tp_record_parse(&r, line, len, &e) != 0 || st_ingest_add(b, &r, &e) != 0;
        p[i] = (struct st_pick){.candidate = first + i, .score = top - 0.001 * i, .turn = i};
    }
    ck_assert_int_eq(bad, 0);
    tp_record_free(&r);
    ck_assert_uint_eq(sf_submit("m1", b).accepted, (size_t)n);
    ck_assert_int_eq(st_candidates_select(sf_store, hw, 1, p, (size_t)n, &e), 0);
    free(p);
}

static struct st_lease take(const char *agent, int64_t max, int64_t now)
{
    struct st_lease_ask ask = {.hardware = "m1", .agent = agent, .max = max, .ttl = 1000, .now = now};
    struct st_lease l;
    struct tp_err e = {0};
    ck_assert_msg(st_lease_take(sf_store, &ask, &l, &e) == 0, "%s", e.detail);
    return l;
}

struct ids {
    int64_t id[512];
    double score[512];
    int n;
};

static int note(void *arg, const struct st_candidate *c, const struct tp_record *rec)
{
    struct ids *x = arg;
    (void)rec;
    x->score[x->n] = c->score;
    x->id[x->n++] = c->id;
    return 0;
}

static struct ids held(const struct st_lease *l)
{
    struct ids x = {0};
    struct tp_err e;
    ck_assert_int_eq(st_lease_records(reader, l->id, note, &x, &e), 0);
    ck_assert_int_eq(x.n, l->open);
    return x;
}

START_TEST(the_highest_score_goes_first)
{
    waiting(1, 10, 0.9);
    struct st_lease a = take("a", 3, 0), b = take("b", 3, 0);
    struct ids x = held(&a), y = held(&b);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(x.id[i], 1 + i);
        ck_assert_int_eq(y.id[i], 4 + i);
    }
}
END_TEST

START_TEST(tasks_take_turns_and_a_lease_is_listed_by_score)
{
    waiting(1, 10, 0.9);
    waiting(2, 10, 0.5);
    waiting(3, 1, 0.7);
    struct st_lease a = take("a", 5, 0);
    struct ids x = held(&a);
    const int64_t want[] = {1, 2, 21, 11, 12}; /* turns 0 of three tasks, turns 1 of two */
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(x.id[i], want[i]);
    for (int i = 1; i < x.n; i++)
        ck_assert(x.score[i] <= x.score[i - 1]);
}
END_TEST

START_TEST(nothing_selected_is_no_lease)
{
    struct st_lease a = take("a", 5, 0);
    ck_assert_int_eq(a.id, 0);
    ck_assert_str_eq(a.token, "");
    ck_assert_int_eq(sf_query("SELECT count(*) FROM lease"), 0);
}
END_TEST

START_TEST(tokens_are_long_and_differ)
{
    waiting(1, 2, 0.9);
    struct st_lease a = take("a", 1, 0), b = take("a", 1, 0);
    ck_assert_uint_eq(strlen(a.token), ST_TOKEN_LEN);
    ck_assert_str_ne(a.token, b.token);
}
END_TEST

START_TEST(agents_share_the_tail_equally)
{
    waiting(1, 100, 0.9);
    ck_assert_int_eq(take("a", 64, 0).open, 64);
    ck_assert_int_eq(take("b", 64, 0).open, 36); /* half of 100 is more than is left */
    waiting(2, 20, 0.9);
    ck_assert_int_eq(take("c", 64, 0).open, 20);
    waiting(3, 30, 0.9);
    ck_assert_int_eq(take("c", 64, 0).open, 30); /* 150 by 3 is 50, of which it has 20 */
    waiting(4, 10, 0.9);
    ck_assert_int_eq(take("a", 64, 0).open, 1); /* has more than its share of 160 by 3 already */
    ck_assert_int_eq(take("d", 64, 0).open, 9);
}
END_TEST

START_TEST(an_expired_lease_gives_its_candidates_to_the_next)
{
    struct st_lease l;
    struct tp_err e;
    waiting(1, 3, 0.9);
    struct st_lease a = take("a", 2, 5000);
    ck_assert_int_eq(a.expires, 6000);
    ck_assert_int_eq(take("b", 5, 5999).open, 1);
    struct st_lease c = take("c", 5, 6000);
    ck_assert_int_eq(c.expired, 2);
    ck_assert_int_eq(c.open, 2);
    ck_assert_int_eq(held(&c).id[0], 1);
    ck_assert_int_eq(st_lease_renew(sf_store, a.token, 0, 6000, &l, &e), -TP_E_UNKNOWN_LEASE);
}
END_TEST

START_TEST(a_renewed_lease_lasts_longer)
{
    struct st_lease l;
    struct tp_err e;
    waiting(1, 3, 0.9);
    struct st_lease a = take("a", 3, 5000);
    ck_assert_int_eq(st_lease_renew(sf_store, a.token, 0, 5900, &l, &e), 0);
    ck_assert_int_eq(l.expires, 6900);
    ck_assert_int_eq(l.open, 3);
    ck_assert_str_eq(l.token, a.token);
    ck_assert_int_eq(st_lease_renew(sf_store, a.token, 50, 6800, &l, &e), 0);
    ck_assert_int_eq(l.expires, 6850);
    ck_assert_int_eq(st_lease_renew(sf_store, a.token, 0, 6840, &l, &e), 0); /* the new time to live stays */
    ck_assert_int_eq(l.expires, 6890);
    ck_assert_int_eq(st_lease_renew(sf_store, a.token, 0, 6890, &l, &e), -TP_E_UNKNOWN_LEASE);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM candidate WHERE state = 'selected'"), 3);
}
END_TEST

START_TEST(a_returned_lease_is_gone_and_its_candidates_wait)
{
    int64_t n;
    struct tp_err e;
    waiting(1, 3, 0.9);
    struct st_lease a = take("a", 2, 0);
    ck_assert_int_eq(st_lease_return(sf_store, a.token, 10, &n, &e), 0);
    ck_assert_int_eq(n, 2);
    ck_assert_int_eq(st_lease_return(sf_store, a.token, 10, &n, &e), -TP_E_UNKNOWN_LEASE);
    ck_assert_int_eq(st_lease_return(sf_store, "x' OR 1", 10, &n, &e), -TP_E_UNKNOWN_LEASE);
    ck_assert_int_eq(take("b", 9, 20).open, 3);
}
END_TEST

START_TEST(bad_agents_and_hardware_are_refused)
{
    struct st_lease_ask ask = {.hardware = "none", .agent = "a", .max = 1, .ttl = 1};
    struct st_lease l;
    struct tp_err e;
    ck_assert_int_eq(st_lease_take(sf_store, &ask, &l, &e), -TP_E_UNKNOWN_HARDWARE);
    ask.agent = "A b";
    ck_assert_int_eq(st_lease_take(sf_store, &ask, &l, &e), -TP_E_BAD_IDENTIFIER);
}
END_TEST

struct swept {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int64_t n;
};

static void on_swept(void *arg, int64_t n)
{
    struct swept *w = arg;
    pthread_mutex_lock(&w->lock);
    w->n = n;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

static int64_t sweep(int64_t now)
{
    struct swept w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER, .n = -1};
    struct tp_err e;
    ck_assert_int_eq(st_lease_sweep(sf_store, now, on_swept, &w, &e), 0);
    pthread_mutex_lock(&w.lock);
    while (w.n < 0)
        pthread_cond_wait(&w.cond, &w.lock);
    pthread_mutex_unlock(&w.lock);
    return w.n;
}

START_TEST(a_sweep_ends_what_is_over_and_nothing_else)
{
    waiting(1, 5, 0.9);
    take("a", 2, 1000);
    take("b", 2, 1500);
    ck_assert_int_eq(sweep(1999), 0);
    ck_assert_int_eq(sweep(2000), 2);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM lease"), 1);
    ck_assert_int_eq(sweep(1000000), 2);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM candidate WHERE state = 'selected' AND lease IS NULL"), 5);
}
END_TEST

START_TEST(a_restart_gives_agents_time_to_come_back)
{
    struct st_lease l;
    struct tp_err e;
    waiting(1, 3, 0.9);
    struct st_lease a = take("a", 1, 1000), b = take("b", 1, 1500);
    sf_reopen();
    ck_assert_int_eq(st_lease_grace(sf_store, 5500, 700, &e), 0); /* they were over at 2000 and 2500 */
    ck_assert_int_eq(st_lease_renew(sf_store, a.token, 1, 6199, &l, &e), 0);
    ck_assert_int_eq(st_lease_renew(sf_store, b.token, 1, 6199, &l, &e), 0);
    ck_assert_int_eq(st_lease_grace(sf_store, 9000, 5000, &e), 0); /* but no longer than they last anyhow */
    ck_assert_int_eq(st_lease_renew(sf_store, a.token, 0, 9001, &l, &e), -TP_E_UNKNOWN_LEASE);
}
END_TEST

/* The clock was years ahead when the leases were given out. */
START_TEST(a_clock_that_went_back_leaves_a_lease_its_own_time)
{
    const int64_t years = 315360000000;
    struct st_lease l;
    struct tp_err e;
    waiting(1, 5, 0.9);
    struct st_lease a = take("a", 2, years), b = take("b", 2, years);
    st_lease_limit(sf_store, 5000);
    ck_assert_int_eq(sweep(1000), 0); /* agents that live may renew */
    ck_assert_int_eq(sf_query("SELECT min(expires) FROM lease"), 2000);
    ck_assert_int_eq(sf_query("SELECT max(expires) FROM lease"), 2000);
    ck_assert_int_eq(st_lease_renew(sf_store, b.token, 0, 1900, &l, &e), 0);
    ck_assert_int_eq(sweep(2000), 2);
    ck_assert_int_eq(st_lease_renew(sf_store, a.token, 0, 2000, &l, &e), -TP_E_UNKNOWN_LEASE);
    ck_assert_int_eq(take("c", 5, 2899).open, 3); /* b has renewed its own */
}
END_TEST

START_TEST(a_lease_of_the_longest_time_is_left_as_it_is)
{
    waiting(1, 3, 0.9);
    take("a", 1, 4000);
    st_lease_limit(sf_store, 1000);
    ck_assert_int_eq(sweep(4000), 0);
    ck_assert_int_eq(sf_query("SELECT expires FROM lease"), 5000);
}
END_TEST

START_TEST(a_lower_limit_holds_for_leases_that_are_out)
{
    struct st_lease l;
    struct tp_err e;
    waiting(1, 3, 0.9);
    struct st_lease a = take("a", 3, 1000);
    st_lease_limit(sf_store, 400);
    ck_assert_int_eq(sweep(1100), 0);
    ck_assert_int_eq(sf_query("SELECT expires FROM lease"), 1500);
    ck_assert_int_eq(st_lease_renew(sf_store, a.token, 0, 1200, &l, &e), 0);
    ck_assert_int_eq(l.expires, 1600);
    ck_assert_int_eq(sweep(1600), 3);
}
END_TEST

enum { THREADS = 8, EACH = 25 };

struct grabber {
    pthread_t thread;
    char name[8];
    int bad;
};

static void *grab(void *arg)
{
    struct grabber *g = arg;
    for (int i = 0; i < EACH; i++) {
        struct st_lease_ask ask = {.hardware = "m1", .agent = g->name, .max = 2, .ttl = 1000, .now = 0};
        struct st_lease l;
        g->bad += st_lease_take(sf_store, &ask, &l, NULL) != 0 || l.open != 2;
    }
    return NULL;
}

START_TEST(two_agents_never_hold_the_same_candidate)
{
    struct grabber g[THREADS];
    waiting(1, THREADS * EACH * 2, 0.9);
    for (int i = 0; i < THREADS; i++) {
        g[i] = (struct grabber){0};
        snprintf(g[i].name, sizeof g[i].name, "a%d", i);
        ck_assert_int_eq(pthread_create(&g[i].thread, NULL, grab, &g[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(g[i].thread, NULL);
        ck_assert_int_eq(g[i].bad, 0);
    }
    ck_assert_int_eq(sf_query("SELECT count(*) FROM candidate WHERE state = 'leased'"), THREADS * EACH * 2);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM lease"), THREADS * EACH);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store leases");
    TCase *t = tcase_create("leases");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_highest_score_goes_first);
    tcase_add_test(t, tasks_take_turns_and_a_lease_is_listed_by_score);
    tcase_add_test(t, nothing_selected_is_no_lease);
    tcase_add_test(t, tokens_are_long_and_differ);
    tcase_add_test(t, agents_share_the_tail_equally);
    tcase_add_test(t, an_expired_lease_gives_its_candidates_to_the_next);
    tcase_add_test(t, a_renewed_lease_lasts_longer);
    tcase_add_test(t, a_returned_lease_is_gone_and_its_candidates_wait);
    tcase_add_test(t, bad_agents_and_hardware_are_refused);
    tcase_add_test(t, a_sweep_ends_what_is_over_and_nothing_else);
    tcase_add_test(t, a_restart_gives_agents_time_to_come_back);
    tcase_add_test(t, a_clock_that_went_back_leaves_a_lease_its_own_time);
    tcase_add_test(t, a_lease_of_the_longest_time_is_left_as_it_is);
    tcase_add_test(t, a_lower_limit_holds_for_leases_that_are_out);
    tcase_add_test(t, two_agents_never_hold_the_same_candidate);
    suite_add_tcase(s, t);
    return sf_main(s);
}
