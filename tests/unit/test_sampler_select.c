/* The whole selection, all methods, in small pools and (exact_limit lowered) zone by zone: who is chosen how often,
 * threads, odd pools, progress and cancellation, what is refused. */
#include "sampler/groups.h"
#include "tests/unit/sampler_pool.h"
#include "tests/unit/sanitized.h"

enum { N = SANITIZED ? 900 : 2500, SMALL = 120 };

static struct ts_pick picks[N + 8], again[N + 8];

static struct ts_opts options(int method, bool zones)
{
    struct ts_opts o;
    ts_defaults(&o);
    o.method = (enum ts_method)method;
    o.exact_limit = zones ? 0 : SIZE_MAX;
    return o;
}

/* Each once, none known, terms in range. */
static size_t choose(const struct ts_pool *p, const struct ts_opts *o, struct ts_pick *out)
{
    size_t n = SIZE_MAX;
    struct tp_err e;
    uint8_t *seen = calloc(p->n + 1, 1);
    const int rc = ts_select(p, o, NULL, NULL, out, &n, &e);
    ck_assert_msg(rc == 0, "%s: %s", ts_method_name(o->method), e.detail);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_lt(out[i].index, p->n);
        ck_assert(!seen[out[i].index]++);
        ck_assert(!p->known || !p->known[out[i].index]);
        ck_assert_uint_lt(out[i].round, (unsigned)o->rounds);
        ck_assert(i == 0 || out[i].round >= out[i - 1].round);
        ck_assert(out[i].score >= 0.0f && out[i].score <= 1.0f);
        ck_assert(!(out[i].r < 0.0f || out[i].r > 1.0f || out[i].d < 0.0f || out[i].d > 1.0f));
        ck_assert(!(out[i].u < 0.0f || out[i].u > 1.0f));
    }
    free(seen);
    return n;
}

/* With a model and nothing measured all become surer than anyone was when the round began: û still tells them apart. */
START_TEST(a_round_that_makes_the_model_sure_does_not_end_in_draws)
{
    struct sampler_pool s;
    struct ts_opts o = options(TS_RDU, false);
    sampler_pool_init(&s, N, 21, 9, 4, 12, 1);
    s.p.known = NULL;
    o.weights = (struct ts_weights){.d = 1, .u = 1};
    o.rounds = 1;
    o.budget = N / 4;
    const size_t n = choose(&s.p, &o, picks);
    for (size_t i = 0; i < n; i++)
        ck_assert(picks[i].score > 0 || picks[i].d == 0);
    sampler_pool_free(&s);
}
END_TEST

/* _i: method, + TS_METHOD_COUNT for zones */
enum { EACH = 2 * TS_METHOD_COUNT };
#define OPTIONS_OF_I options(_i % TS_METHOD_COUNT, _i >= TS_METHOD_COUNT)

START_TEST(threads_change_nothing)
{
    struct sampler_pool s;
    struct ts_opts o = OPTIONS_OF_I;
    sampler_pool_init(&s, N, 21, 9, 4, 12, 1);
    o.budget = N / 8;
    ck_assert_uint_eq(choose(&s.p, &o, picks), N / 8);
    for (o.threads = 2; o.threads <= 4; o.threads += 2) {
        memset(again, 0xff, sizeof again);
        ck_assert_uint_eq(choose(&s.p, &o, again), N / 8);
        for (size_t i = 0; i < N / 8; i++)
            ck_assert_mem_eq(&picks[i], &again[i], sizeof *picks);
    }
    o.seed++;
    choose(&s.p, &o, again);
    size_t same = 0;
    for (size_t i = 0; i < N / 8; i++)
        same += picks[i].index == again[i].index;
    ck_assert(o.method == TS_UNCERTAINTY || o.method == TS_CORESET ||
              same < N / 8); /* these draw between equals only */
    sampler_pool_free(&s);
}
END_TEST

START_TEST(budgets_from_none_to_more_than_all)
{
    struct sampler_pool s;
    struct ts_opts o = OPTIONS_OF_I;
    sampler_pool_init(&s, SMALL, 5, 4, 3, 4, 2);
    size_t candidates = 0;
    for (size_t i = 0; i < SMALL; i++)
        candidates += !s.known[i];
    const size_t budget[] = {0, 1, 2, 7, candidates - 1, candidates, candidates + 1, SMALL, SIZE_MAX};
    for (size_t i = 0; i < sizeof budget / sizeof *budget; i++) {
        o.budget = budget[i];
        ck_assert_uint_eq(choose(&s.p, &o, picks), budget[i] < candidates ? budget[i] : candidates);
    }
    memset(s.known, 1, SMALL);
    ck_assert_uint_eq(choose(&s.p, &o, picks), 0);
    s.p.n = 0;
    ck_assert_uint_eq(choose(&s.p, &o, picks), 0);
    for (s.p.n = 1; s.p.n < 12; s.p.n++) {
        memset(s.known, 0, SMALL);
        o.budget = s.p.n;
        ck_assert_uint_eq(choose(&s.p, &o, picks), s.p.n);
        o.budget = 1;
        ck_assert_uint_eq(choose(&s.p, &o, picks), 1);
    }
    sampler_pool_free(&s);
}
END_TEST

START_TEST(every_task_gets_its_seats)
{
    struct sampler_pool s;
    struct ts_opts o = OPTIONS_OF_I;
    struct ts_groups g;
    sampler_pool_init(&s, N, 6, 4, 9, 7, 3);
    o.budget = N / 10;
    ck_assert_uint_eq(choose(&s.p, &o, picks), N / 10);
    ck_assert_int_eq(ts_groups_init(&g, &s.p, NULL, o.budget, o.task_floor, o.seed), 0);
    ck_assert_uint_eq(g.n_groups, 9);
    for (size_t i = 0; i < N / 10; i++)
        g.seats[g.group[picks[i].index]]--;
    for (size_t i = 0; i < 9; i++)
        ck_assert_uint_eq(g.seats[i], 0);
    ts_groups_free(&g);
    sampler_pool_free(&s);
}
END_TEST

/* Nothing to tell programs apart by: still the whole budget, by the draw and not from the front. */
START_TEST(constant_embeddings)
{
    struct sampler_pool s;
    struct ts_opts o = OPTIONS_OF_I;
    size_t front = 0;
    sampler_pool_init(&s, N, 4, 3, 1, 0, 4);
    for (size_t i = 0; i < N * 4; i++)
        s.embedding[i] = 3.25f;
    for (size_t i = 0; i < N * 3; i++)
        s.feature[i] = 1.5f;
    o.budget = N / 5;
    ck_assert_uint_eq(choose(&s.p, &o, picks), N / 5);
    for (size_t i = 0; i < N / 5; i++)
        front += picks[i].index < N / 2;
    ck_assert_uint_gt(front, N / 5 * 3 / 10);
    ck_assert_uint_lt(front, N / 5 * 7 / 10);
    sampler_pool_free(&s);
}
END_TEST

START_TEST(values_that_are_not_finite_or_huge)
{
    struct sampler_pool s;
    struct ts_opts o = OPTIONS_OF_I;
    sampler_pool_init(&s, SMALL, 5, 4, 3, 5, 5);
    for (size_t i = 0; i < SMALL; i++) {
        s.embedding[i * 5] = i % 3 ? NAN : 1.0f;
        s.embedding[i * 5 + 1] = i % 2 ? 3e38f : -3e38f;
        s.embedding[i * 5 + 2] = NAN;
        s.feature[i * 4] = i % 3 ? INFINITY : 2.0f;
        s.feature[i * 4 + 1] = 3e38f;
    }
    o.budget = 40;
    ck_assert_uint_eq(choose(&s.p, &o, picks), 40);
    for (size_t i = 0; i < SMALL * 5; i++)
        s.embedding[i] = NAN;
    for (size_t i = 0; i < SMALL * 4; i++)
        s.feature[i] = NAN;
    ck_assert_uint_eq(choose(&s.p, &o, picks), 40);
    s.p.predicted = s.predicted;
    s.p.n_snapshots = 4;
    s.p.fast = s.fast;
    o.weights.f = o.method == TS_RDU ? 0.5 : 0.0;
    for (size_t i = 0; i < SMALL; i++)
        s.predicted[i * 4 + i % 4] = s.fast[i] = i % 3 ? NAN : INFINITY;
    ck_assert_uint_eq(choose(&s.p, &o, picks), 40);
    sampler_pool_free(&s);
}
END_TEST

/* Each program twice. A twin of what is known or chosen is at distance 0. */
START_TEST(twins_are_told_apart_last)
{
    for (int zones = 0; zones < 2; zones++) {
        struct sampler_pool s;
        struct ts_opts o = options(TS_CORESET, zones);
        uint8_t chosen[SMALL] = {0};
        sampler_pool_init(&s, SMALL, 5, 0, 1, 0, 6);
        for (size_t i = 0; i < SMALL / 2; i++) {
            memcpy(s.embedding + (i + SMALL / 2) * 5, s.embedding + i * 5, 5 * sizeof *s.embedding);
            s.known[i] = i % 4 == 0;
        }
        o.budget = 20; /* of 45 different ones */
        o.rounds = 2;
        ck_assert_uint_eq(choose(&s.p, &o, picks), 20);
        for (size_t i = 0; i < 20; i++) {
            const size_t twin = (picks[i].index + SMALL / 2) % SMALL;
            ck_assert_int_eq(s.known[twin] || chosen[twin], picks[i].d == 0.0f);
            ck_assert(zones || picks[i].d > 0.0f); /* a cell may have more seats than different programs */
            chosen[picks[i].index] = 1;
        }
        o.budget = SMALL;
        const size_t all = choose(&s.p, &o, picks);
        size_t zero = 0;
        for (size_t i = 0; i < all; i++)
            zero += picks[i].d == 0.0f;
        ck_assert_uint_eq(zero, SMALL / 2);
        sampler_pool_free(&s);
    }
}
END_TEST

/* 8 cells in a pool of 60, and each sees all the others: d at the time of the choice is the distance to all that was
 * known or chosen before, whichever zone that is in; only the order of choice within a round is hidden. */
START_TEST(zones_see_one_another)
{
    struct sampler_pool s;
    struct ts_opts o = options(TS_CORESET, true);
    sampler_pool_init(&s, 60, 5, 0, 1, 6, 7);
    for (size_t j = 0; j < 5; j++) { /* of mean 0 and variance 1, so that standardising changes nothing */
        double mean = 0.0, var = 0.0;
        for (size_t i = 0; i < 60; i++)
            mean += (double)s.embedding[i * 5 + j] / 60;
        for (size_t i = 0; i < 60; i++)
            var += pow((double)s.embedding[i * 5 + j] - mean, 2) / 60;
        for (size_t i = 0; i < 60; i++)
            s.embedding[i * 5 + j] = (float)(((double)s.embedding[i * 5 + j] - mean) / sqrt(var));
    }
    o.budget = 25;
    o.rounds = 25; /* nearly one at a time */
    const size_t n = choose(&s.p, &o, picks);
    size_t at = 0;
    for (size_t from = 0, to; from < n; from = to, at++) {
        double cap = 0.0, d[60];
        for (to = from; to < n && picks[to].round == picks[from].round; to++)
            ;
        for (size_t i = 0; i < 60; i++) { /* to what was known when the round began */
            d[i] = INFINITY;
            for (size_t k = 0; k < 60 && !s.known[i]; k++) {
                double d2 = 0.0;
                for (size_t j = 0; j < 5; j++)
                    d2 += pow((double)s.embedding[i * 5 + j] - (double)s.embedding[k * 5 + j], 2);
                if (s.known[k])
                    d[i] = fmin(d[i], sqrt(d2));
            }
            cap = s.known[i] ? cap : fmax(cap, d[i]);
        }
        for (size_t i = from; i < to; i++)
            ck_assert_double_le((double)picks[i].d, d[picks[i].index] / cap + 1e-5);
        if (to == from + 1)
            ck_assert_double_eq_tol((double)picks[from].d, d[picks[from].index] / cap, 1e-5);
        for (size_t i = from; i < to; i++)
            s.known[picks[i].index] = 1;
    }
    ck_assert_uint_gt(at, 8);
    sampler_pool_free(&s);
}
END_TEST

START_TEST(snapshots_that_disagree_make_u)
{
    struct sampler_pool s;
    struct ts_opts o = options(TS_UNCERTAINTY, false);
    double z[4][SMALL], spread[SMALL];
    sampler_pool_init(&s, SMALL, 3, 0, 1, 0, 8);
    s.p.predicted = s.predicted;
    s.p.n_snapshots = 4;
    for (int k = 0; k < 4; k++) {
        double mean = 0.0, var = 0.0;
        for (size_t i = 0; i < SMALL; i++) {
            s.predicted[i * 4 + (size_t)k] = s.predicted[i * 4 + (size_t)k] * (float)(k + 1) + 100.0f * (float)k;
            mean += (double)s.predicted[i * 4 + (size_t)k] / SMALL;
        }
        for (size_t i = 0; i < SMALL; i++)
            var += pow((double)s.predicted[i * 4 + (size_t)k] - mean, 2) / SMALL;
        for (size_t i = 0; i < SMALL; i++)
            z[k][i] = ((double)s.predicted[i * 4 + (size_t)k] - mean) / sqrt(var);
    }
    for (size_t i = 0; i < SMALL; i++) {
        const double mean = (z[0][i] + z[1][i] + z[2][i] + z[3][i]) / 4;
        spread[i] = 0.0;
        for (int k = 0; k < 4; k++)
            spread[i] += pow(z[k][i] - mean, 2);
    }
    o.rounds = 1;
    o.budget = SMALL;
    choose(&s.p, &o, picks);
    for (size_t i = 1; i < SMALL; i++)
        ck_assert_double_ge(spread[picks[i - 1].index], spread[picks[i].index] - 1e-5);
    sampler_pool_free(&s);
}
END_TEST

START_TEST(fast_programs_when_asked_for)
{
    struct sampler_pool s;
    struct ts_opts o = options(TS_RDU, false);
    sampler_pool_init(&s, SMALL, 3, 0, 1, 0, 9);
    s.p.fast = s.fast;
    o.weights = (struct ts_weights){.f = 1.0};
    o.rounds = 1;
    o.budget = SMALL;
    choose(&s.p, &o, picks);
    for (size_t i = 1; i < SMALL; i++)
        ck_assert_float_ge(s.fast[picks[i - 1].index], s.fast[picks[i].index]);
    sampler_pool_free(&s);
}
END_TEST

/* ---- progress ---- */

struct watch {
    int calls, stop_at;
    double last;
};

static int on_progress(void *arg, const struct ts_progress *p)
{
    struct watch *w = arg;
    ck_assert(strcmp(p->phase, "cells") == 0 || strcmp(p->phase, "greedy") == 0);
    ck_assert(p->fraction >= w->last && p->fraction <= 1.0);
    w->last = p->fraction;
    return w->calls++ == w->stop_at;
}

START_TEST(stops_whenever_it_is_told_to)
{
    struct sampler_pool s;
    struct ts_opts o = OPTIONS_OF_I;
    size_t n = 4711;
    struct tp_err e;
    struct watch w = {.stop_at = -1};
    sampler_pool_init(&s, N, 5, 4, 3, 9, 10);
    o.budget = N / 6;
    o.threads = 2;
    ck_assert_int_eq(ts_select(&s.p, &o, on_progress, &w, picks, &n, &e), 0);
    ck_assert_double_eq_tol(w.last, 1.0, 1e-9);
    ck_assert_int_ge(w.calls, 2);
    const int calls = w.calls, step = calls / 7 + 1;
    for (int at = 0; at < calls; at += step) {
        w = (struct watch){.stop_at = at};
        n = 4711;
        ck_assert_int_eq(ts_select(&s.p, &o, on_progress, &w, picks, &n, &e), -TP_E_CANCELLED);
        ck_assert_int_eq(w.calls, at + 1);
        ck_assert_uint_eq(n, 4711);
    }
    sampler_pool_free(&s);
}
END_TEST

/* ---- options ---- */

static void refused(const struct ts_pool *p, const struct ts_opts *o)
{
    size_t n = 4711;
    struct tp_err e = {0};
    ck_assert_int_eq(ts_select(p, o, NULL, NULL, picks, &n, &e), -TP_E_UNUSABLE);
    ck_assert_uint_eq(n, 4711);
    ck_assert_int_ne(e.detail[0], 0);
}

START_TEST(what_cannot_be_is_refused)
{
    struct sampler_pool s;
    const struct ts_opts good = options(TS_RDU, false);
    sampler_pool_init(&s, SMALL, 3, 2, 1, 0, 11);
#define BAD_OPTION(field, value)                                                                                       \
    do {                                                                                                               \
        struct ts_opts o = good;                                                                                       \
        o.field = value;                                                                                               \
        refused(&s.p, &o);                                                                                             \
    } while (0)
#define BAD_POOL(field, value)                                                                                         \
    do {                                                                                                               \
        struct ts_pool p = s.p;                                                                                        \
        p.field = value;                                                                                               \
        refused(&p, &good);                                                                                            \
    } while (0)
    BAD_OPTION(method, TS_METHOD_COUNT);
    BAD_OPTION(form, (enum ts_form)2);
    BAD_OPTION(rounds, 0);
    BAD_OPTION(rounds, TS_MAX_ROUNDS + 1);
    BAD_OPTION(threads, 0);
    BAD_OPTION(weights.r, -0.1);
    BAD_OPTION(weights.d, 1.1);
    BAD_OPTION(weights.u, NAN);
    BAD_OPTION(weights.f, INFINITY);
    BAD_OPTION(alpha, 0.0);
    BAD_OPTION(cap, -0.1);
    BAD_OPTION(cap, 1.5);
    BAD_OPTION(noise, NAN);
    BAD_POOL(n, (size_t)TS_MAX_POOL + 1);
    BAD_POOL(embedding, NULL);
    BAD_POOL(dim, 0);
    BAD_POOL(dim, TS_MAX_DIM + 1);
    BAD_POOL(n_features, -1);
    BAD_POOL(n_features, TS_MAX_FEATURES + 1);
    s.p.predicted = s.predicted;
    BAD_POOL(n_snapshots, 1);
    BAD_POOL(n_snapshots, TS_MAX_SNAPSHOTS + 1);
    sampler_pool_free(&s);
}
END_TEST

START_TEST(random_needs_no_embedding_and_rdu_no_features)
{
    struct sampler_pool s;
    struct ts_opts o = options(TS_RANDOM, false);
    sampler_pool_init(&s, SMALL, 3, 2, 1, 0, 12);
    s.p.feature = NULL;
    o.budget = 30;
    const struct ts_pool bare = {.n = SMALL};
    ck_assert_uint_eq(choose(&bare, &o, picks), 30);
    ck_assert(isnan(picks[0].r) && isnan(picks[0].d) && isnan(picks[0].u));
    for (int zones = 0; zones < 2; zones++) {
        o = options(TS_RDU, zones);
        o.budget = 30;
        ck_assert_uint_eq(choose(&s.p, &o, picks), 30);
        for (size_t i = 0; i < 30; i++)
            ck_assert(picks[i].u == 0.5f);
    }
    sampler_pool_free(&s);
}
END_TEST

START_TEST(methods_have_names)
{
    for (int m = 0; m < TS_METHOD_COUNT; m++)
        ck_assert_int_eq(ts_method_find(ts_method_name((enum ts_method)m)), m);
    ck_assert_int_eq(ts_method_find("rdu"), TS_RDU);
    ck_assert_int_eq(ts_method_find("representative"), TS_REPRESENTATIVE);
    ck_assert_int_eq(ts_method_find(""), -1);
    ck_assert_int_eq(ts_method_find("RDU"), -1);
}
END_TEST

START_TEST(budget_of_a_fraction_is_rounded_up)
{
    uint8_t known[33] = {[4] = 1, [9] = 1, [32] = 1};
    const struct ts_pool p = {.n = 33, .known = known};
    ck_assert_uint_eq(ts_budget_of(&p, 0.1), 3);
    ck_assert_uint_eq(ts_budget_of(&p, 0.11), 4);
    ck_assert_uint_eq(ts_budget_of(&p, 1.0), 30);
    ck_assert_uint_eq(ts_budget_of(&p, 7.0), 30);
    ck_assert_uint_eq(ts_budget_of(&p, 0.0), 0);
    ck_assert_uint_eq(ts_budget_of(&p, NAN), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sampler/select");
    TCase *c = tcase_create("select");
    tcase_add_loop_test(c, threads_change_nothing, 0, EACH);
    tcase_add_loop_test(c, budgets_from_none_to_more_than_all, 0, EACH);
    tcase_add_loop_test(c, every_task_gets_its_seats, 0, EACH);
    tcase_add_loop_test(c, constant_embeddings, 0, EACH);
    tcase_add_loop_test(c, values_that_are_not_finite_or_huge, 0, EACH);
    tcase_add_test(c, a_round_that_makes_the_model_sure_does_not_end_in_draws);
    tcase_add_test(c, twins_are_told_apart_last);
    tcase_add_test(c, zones_see_one_another);
    tcase_add_test(c, snapshots_that_disagree_make_u);
    tcase_add_test(c, fast_programs_when_asked_for);
    tcase_add_loop_test(c, stops_whenever_it_is_told_to, 0, EACH);
    tcase_add_test(c, what_cannot_be_is_refused);
    tcase_add_test(c, random_needs_no_embedding_and_rdu_no_features);
    tcase_add_test(c, methods_have_names);
    tcase_add_test(c, budget_of_a_fraction_is_rounded_up);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
