/* The lazy greedy choice against the full one, written down directly in double (sampler_brute.h). */
#include "tests/unit/sampler_brute.h"
#include "tests/unit/sanitized.h"

static struct brute brute;

/* Equal in which, when and why; scores that differ by rounding only may swap, and did not for these seeds. */
static void compare(const struct sampler_pool *s, struct ts_opts *o, size_t budget)
{
    struct ts_pick got[BRUTE_MAX], want[BRUTE_MAX];
    size_t n = 0;
    struct tp_err e;
    o->budget = budget;
    ck_assert_int_eq(ts_select(&s->p, o, NULL, NULL, got, &n, &e), 0);
    ck_assert_uint_eq(n, budget);
    brute_select(&brute, &s->p, o, budget, want);
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(got[i].index == want[i].index, "%s: pick %zu is %u, score %.7f, want %u, score %.7f",
                      ts_method_name(o->method), i, got[i].index, (double)got[i].score, want[i].index,
                      (double)want[i].score);
        ck_assert_uint_eq(got[i].round, want[i].round);
        ck_assert_float_eq_tol(got[i].score, want[i].score, 1e-4f);
        if (brute.w.r > 0)
            ck_assert_float_eq_tol(got[i].r, want[i].r, 1e-5f);
        if (brute.w.d > 0)
            ck_assert_float_eq_tol(got[i].d, want[i].d, 1e-4f);
        if (brute.w.u > 0)
            ck_assert_float_eq_tol(got[i].u, want[i].u, 1e-4f);
    }
}

static const enum ts_method greedy[] = {TS_RDU, TS_UNCERTAINTY, TS_CORESET, TS_REPRESENTATIVE};

START_TEST(lazy_greedy_is_full_greedy)
{
    for (uint64_t seed = 0; seed < (SANITIZED ? 2 : 8); seed++) {
        struct sampler_pool s;
        struct ts_opts o;
        ts_defaults(&o);
        o.method = greedy[_i];
        o.seed = seed;
        o.rounds = seed % 2 ? 5 : 1;
        o.task_floor = 3;
        o.noise = 0.5;
        sampler_pool_init(&s, 150 + 15 * seed, 7 + (int)seed, 5, 3, seed % 3 == 0 ? 0 : 10, 100 + seed);
        compare(&s, &o, 40);
        sampler_pool_free(&s);
    }
}
END_TEST

START_TEST(the_weighted_sum_is_exact_too)
{
    for (uint64_t seed = 0; seed < (SANITIZED ? 2 : 6); seed++) {
        struct sampler_pool s;
        struct ts_opts o;
        ts_defaults(&o);
        o.form = TS_SUM;
        o.weights = (struct ts_weights){.r = 0.3, .d = 1.7, .u = seed % 2 ? 0.9 : 3.0};
        o.seed = seed;
        o.rounds = 3;
        sampler_pool_init(&s, 200, 6, 8, 2, 8, 200 + seed);
        compare(&s, &o, 60);
        sampler_pool_free(&s);
    }
}
END_TEST

START_TEST(the_cap_can_be_a_quantile)
{
    for (uint64_t seed = 0; seed < (SANITIZED ? 2 : 6); seed++) {
        struct sampler_pool s;
        struct ts_opts o;
        ts_defaults(&o);
        o.cap = seed % 2 ? 0.95 : 0.5;
        o.seed = seed;
        o.rounds = 3;
        sampler_pool_init(&s, 200, 6, 8, 2, seed % 3 ? 12 : 0, 400 + seed);
        compare(&s, &o, 50);
        sampler_pool_free(&s);
    }
}
END_TEST

START_TEST(without_cells_seats_are_the_tasks)
{
    for (uint64_t seed = 0; seed < (SANITIZED ? 2 : 6); seed++) {
        struct sampler_pool s;
        struct ts_opts o;
        ts_defaults(&o);
        o.by_cell = false;
        o.cap = seed % 2 ? 1.0 : 0.8;
        o.weights.r = seed % 3 ? 0.0 : 0.5;
        o.seed = seed;
        o.rounds = 2;
        sampler_pool_init(&s, 200, 6, 8, 3, seed % 3 ? 12 : 0, 300 + seed);
        compare(&s, &o, 50);
        sampler_pool_free(&s);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sampler/greedy");
    TCase *c = tcase_create("greedy");
    tcase_add_loop_test(c, lazy_greedy_is_full_greedy, 0, sizeof greedy / sizeof *greedy);
    tcase_add_test(c, the_weighted_sum_is_exact_too);
    tcase_add_test(c, the_cap_can_be_a_quantile);
    tcase_add_test(c, without_cells_seats_are_the_tasks);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
