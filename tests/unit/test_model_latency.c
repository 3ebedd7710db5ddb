/* Offsets and spread: golden fit by brute force (tests/golden/latency.py), coverage on data drawn from a known model,
 * and the cases in which nothing can be told. Every draw is seeded. */
#include "model/latency.h"
#include "tests/golden/latency.inc"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { N_GOLDEN = sizeof golden_cost / sizeof golden_cost[0] };

static struct tm_model identity(void)
{
    return (struct tm_model){.calib_a = 1, .known_slope = 1};
}

static double normal(struct tm_rng *r)
{
    double u = 1.0 - tm_rng_uniform(r), v = tm_rng_uniform(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

START_TEST(fit_agrees_with_brute_force)
{
    struct tm_model m = identity();
    m.latency_shift = golden_fit[0];
    ck_assert_int_eq(tm_latency_fit(&m, golden_score, golden_ln_latency, golden_task, golden_cost, N_GOLDEN,
                                    GOLDEN_TASKS, golden_seen),
                     0);
    ck_assert_double_eq(m.known_slope, golden_fit[1]);
    ck_assert_double_eq_tol(m.latency_std, golden_fit[2], 1e-4);
    ck_assert_double_eq_tol(m.latency_tilt, golden_fit[3], 1e-3);
    ck_assert_double_eq_tol(m.known_std, golden_fit[4], 1e-4);
    ck_assert_double_eq_tol(m.known_tilt, golden_fit[5], 1e-3);
    ck_assert_double_eq(m.latency_shift, golden_fit[0]);
}
END_TEST

START_TEST(offsets_agree_with_brute_force)
{
    struct tm_model m = identity();
    double residual[N_GOLDEN];
    struct tm_offset got[GOLDEN_TASKS];
    m.latency_shift = golden_fit[0];
    m.known_slope = golden_fit[1];
    for (int i = 0; i < N_GOLDEN; i++)
        residual[i] = tm_latency_residual(&m, exp(golden_ln_latency[i]), golden_cost[i]);
    ck_assert_int_eq(tm_offsets_fit(residual, golden_task, N_GOLDEN, GOLDEN_TASKS, got), 0);
    for (int t = 0; t < GOLDEN_TASKS; t++) {
        ck_assert_uint_eq(got[t].n, golden_offset_n[t]);
        ck_assert_double_eq_tol(got[t].offset, golden_offset[t], 1e-12);
    }
}
END_TEST

START_TEST(an_offset_takes_the_median_residual_away)
{
    struct tm_model m = {.known_slope = 0.8, .latency_shift = -0.3};
    const double latency[] = {1e-3, 2e-3, 5e-3}, cost[] = {4e-3, 5e-3, 20e-3};
    const uint32_t task[3] = {0};
    struct tm_offset o;
    double residual[3];
    for (int i = 0; i < 3; i++)
        residual[i] = tm_latency_residual(&m, latency[i], cost[i]);
    ck_assert_int_eq(tm_offsets_fit(residual, task, 3, 1, &o), 0);
    int below = 0, equal = 0;
    for (int i = 0; i < 3; i++) {
        double with = tm_latency_with(&m, latency[i], o.offset);
        equal += fabs(with / cost[i] - 1) < 1e-12;
        below += with < cost[i] * (1 - 1e-12);
        ck_assert_double_eq_tol(log(cost[i] / with), residual[i] - o.offset, 1e-12);
    }
    ck_assert_int_eq(equal, 1);
    ck_assert_int_eq(below, 1);
}
END_TEST

START_TEST(without_itself_an_outlier_does_not_move_its_own_offset)
{
    const double residual[] = {0.1, 0.2, 0.3, 0.4, 0.5, 9.0, NAN};
    const uint32_t task[7] = {0};
    struct tm_offset o[7];
    ck_assert_int_eq(tm_offsets_without(residual, task, 7, 1, o), 0);
    ck_assert_double_eq_tol(o[5].offset, 0.3, 1e-15);
    ck_assert_double_eq_tol(o[0].offset, 0.4, 1e-15);
    ck_assert_double_eq_tol(o[6].offset, 0.35, 1e-15); /* no residual of its own: all six */
    ck_assert_uint_eq(o[0].n, 5);
    ck_assert_uint_eq(o[6].n, 6);
}
END_TEST

START_TEST(five_programs_give_no_offset_to_one_of_them)
{
    const double residual[] = {0.1, 0.2, 0.3, 0.4, 0.5, NAN};
    const uint32_t task[6] = {0};
    struct tm_offset o[6];
    ck_assert_int_eq(tm_offsets_without(residual, task, 6, 1, o), 0);
    for (int i = 0; i < 5; i++)
        ck_assert_uint_eq(o[i].n, 0);
    ck_assert_uint_eq(o[5].n, 5);
}
END_TEST

START_TEST(latencies_stay_finite_and_costs_that_are_none_give_no_residual)
{
    struct tm_model m = identity();
    ck_assert(isfinite(tm_latency_with(&m, 1e300, 1e300)) && tm_latency_with(&m, 1e-300, -1e300) > 0);
    ck_assert_double_nan(tm_latency_residual(&m, 1e-3, INFINITY));
    ck_assert_double_nan(tm_latency_residual(&m, 1e-3, 0));
    ck_assert_double_nan(tm_latency_residual(&m, 1e-3, NAN));
}
END_TEST

START_TEST(more_programs_behind_an_offset_make_it_surer)
{
    struct tm_model m = {.known_std = 0.2, .known_tilt = 1, .latency_std = 0.5};
    ck_assert_double_eq_tol(tm_latency_std(&m, 0.5, 5), 0.2 * sqrt(1 + acos(-1.0) / 10), 1e-12);
    ck_assert_double_lt(tm_latency_std(&m, 0.5, 50), tm_latency_std(&m, 0.5, 5));
    ck_assert_double_lt(tm_latency_std(&m, 0.9, 5), tm_latency_std(&m, 0.1, 5));
    ck_assert_double_eq(tm_latency_std(&m, 0.9, 0), 0.5);
}
END_TEST

/* ---- coverage ---- */

/* Tasks with a level of their own; the error within one grows as the score falls, and is halved for what is known of
 * the level. */
struct drawn {
    uint32_t n, n_tasks, *task;
    double *score, *ln, *cost;
    bool *seen;
};

static void draw(struct drawn *d, uint32_t n_tasks, uint32_t per_task, uint64_t seed)
{
    struct tm_rng rng;
    tm_rng_seed(&rng, seed);
    *d = (struct drawn){.n = n_tasks * per_task, .n_tasks = n_tasks};
    d->task = calloc(d->n, sizeof *d->task);
    d->score = calloc(d->n, sizeof *d->score);
    d->ln = calloc(d->n, sizeof *d->ln);
    d->cost = calloc(d->n, sizeof *d->cost);
    d->seen = calloc(n_tasks, sizeof *d->seen);
    ck_assert(d->task && d->score && d->ln && d->cost && d->seen);
    for (uint32_t i = 0; i < d->n; i++) {
        static double level;
        if (i % per_task == 0)
            level = 0.4 * normal(&rng);
        d->task[i] = i / per_task;
        d->score[i] = 0.02 + 0.96 * tm_rng_uniform(&rng);
        d->ln[i] = -7 + normal(&rng);
        d->cost[i] = exp(d->ln[i] + level + 0.2 * exp(2 * (0.5 - d->score[i])) * normal(&rng));
    }
}

static void drawn_free(struct drawn *d)
{
    free(d->task);
    free(d->score);
    free(d->ln);
    free(d->cost);
    free(d->seen);
}

/* Shares of programs, the first `skip` of a task left out, within one and two standard deviations. */
static void cover(const struct tm_model *m, const struct drawn *d, uint32_t skip, double share[2])
{
    uint32_t per_task = d->n / d->n_tasks, n = 0;
    share[0] = share[1] = 0;
    for (uint32_t t = 0; t < d->n_tasks; t++) {
        static const uint32_t zero[64];
        double residual[64];
        struct tm_offset o = {0};
        ck_assert_uint_le(skip, 64);
        for (uint32_t i = 0; i < skip; i++)
            residual[i] = tm_latency_residual(m, exp(d->ln[t * per_task + i]), d->cost[t * per_task + i]);
        if (skip)
            ck_assert_int_eq(tm_offsets_fit(residual, zero, skip, 1, &o), 0);
        for (uint32_t i = t * per_task + skip; i < (t + 1) * per_task; i++, n++) {
            double latency = exp(d->ln[i]), std = tm_latency_std(m, d->score[i], o.n);
            double error = fabs(log(d->cost[i] / (o.n ? tm_latency_with(m, latency, o.offset) : latency)));
            share[0] += error <= std;
            share[1] += error <= 2 * std;
        }
    }
    share[0] /= n;
    share[1] /= n;
}

START_TEST(two_thirds_lie_within_one_standard_deviation_and_95_within_two)
{
    struct tm_model m = identity();
    struct drawn fit, fresh;
    double share[2];
    draw(&fit, 60, 60, 11);
    draw(&fresh, 200, 60, 12);
    ck_assert_int_eq(tm_latency_fit(&m, fit.score, fit.ln, fit.task, fit.cost, fit.n, fit.n_tasks, fit.seen), 0);
    ck_assert_double_eq_tol(m.known_std, 0.2, 0.02);
    ck_assert_double_eq_tol(m.known_tilt, 2, 0.2);
    ck_assert_double_eq_tol(m.known_slope, 1, 0.051);
    for (uint32_t known = 5; known <= 40; known *= 2) {
        cover(&m, &fresh, known, share);
        ck_assert_double_eq_tol(share[0], 0.683, 0.04);
        ck_assert_double_eq_tol(share[1], 0.954, 0.02);
    }
    cover(&m, &fresh, 0, share);
    ck_assert_double_eq_tol(share[0], 0.683, 0.08); /* sixty levels are known to a tenth */
    ck_assert_double_eq_tol(share[1], 0.954, 0.04);
    drawn_free(&fit);
    drawn_free(&fresh);
}
END_TEST

START_TEST(few_tasks_are_not_taken_for_all)
{
    /* three held-out tasks: over many such fits, fresh tasks still lie within two standard deviations */
    struct drawn fresh;
    double sum[2] = {0};
    draw(&fresh, 200, 20, 99);
    for (int round = 0; round < 60; round++) {
        struct tm_model m = identity();
        struct drawn fit;
        double share[2];
        draw(&fit, 3, 40, 1000 + (uint64_t)round);
        ck_assert_int_eq(tm_latency_fit(&m, fit.score, fit.ln, fit.task, fit.cost, fit.n, fit.n_tasks, fit.seen), 0);
        ck_assert_double_eq(m.latency_tilt, 0); /* three levels say nothing about it */
        cover(&m, &fresh, 0, share);
        sum[0] += share[0] / 60;
        sum[1] += share[1] / 60;
        drawn_free(&fit);
    }
    ck_assert_double_ge(sum[0], 0.62);
    ck_assert_double_ge(sum[1], 0.88);
    drawn_free(&fresh);
}
END_TEST

/* ---- what cannot be told ---- */

START_TEST(seen_tasks_say_nothing_about_new_ones)
{
    struct tm_model m = identity();
    struct drawn d;
    draw(&d, 10, 30, 5);
    memset(d.seen, true, d.n_tasks);
    ck_assert_int_eq(tm_latency_fit(&m, d.score, d.ln, d.task, d.cost, d.n, d.n_tasks, d.seen), 0);
    ck_assert_double_eq(m.latency_std, 0);
    ck_assert_double_nan(tm_latency_std(&m, 0.5, 0));
    ck_assert_double_gt(m.known_std, 0);
    drawn_free(&d);
}
END_TEST

START_TEST(tasks_with_five_programs_say_nothing_about_offsets)
{
    struct tm_model m = {.known_slope = 0.5, .known_std = 7};
    struct drawn d;
    draw(&d, 20, 5, 5);
    ck_assert_int_eq(tm_latency_fit(&m, d.score, d.ln, d.task, d.cost, d.n, d.n_tasks, d.seen), 0);
    ck_assert_double_eq(m.known_slope, 1);
    ck_assert_double_eq(m.known_std, 0);
    ck_assert_double_nan(tm_latency_std(&m, 0.5, 5));
    ck_assert_double_gt(m.latency_std, 0);
    drawn_free(&d);
}
END_TEST

START_TEST(nothing_and_only_failures_leave_everything_unknown)
{
    const double score[] = {0.1, 0.2}, ln[] = {-7, -8}, failed[] = {INFINITY, NAN};
    const uint32_t task[2] = {0};
    const bool seen[1] = {false};
    struct tm_model m = {.known_slope = 0.5, .known_std = 7, .latency_std = 7, .latency_tilt = 1};
    ck_assert_int_eq(tm_latency_fit(&m, NULL, NULL, NULL, NULL, 0, 0, NULL), 0);
    ck_assert(m.known_slope == 1 && m.known_std == 0 && m.latency_std == 0 && m.latency_tilt == 0);
    ck_assert_int_eq(tm_latency_fit(&m, score, ln, task, failed, 2, 1, seen), 0);
    ck_assert(m.known_slope == 1 && m.known_std == 0 && m.latency_std == 0);
}
END_TEST

START_TEST(one_new_task_is_compared_with_no_shift)
{
    /* the shift was fitted to this very task, so it tells nothing: the spread is what the network alone lacks */
    const double score[] = {0.5, 0.5, 0.5}, cost[] = {1e-3, 1e-3, 1e-3};
    const uint32_t task[3] = {0};
    const bool seen[1] = {false};
    struct tm_model m = identity();
    m.latency_shift = 0.7;
    const double ln[] = {log(1e-3), log(1e-3), log(1e-3)};
    ck_assert_int_eq(tm_latency_fit(&m, score, ln, task, cost, 3, 1, seen), 0);
    ck_assert_double_eq_tol(m.latency_std, 0.7 * sqrt(0.5), 1e-9); /* both quantiles are 0.7 of the normal's 1 and 2 */
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model/latency");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, fit_agrees_with_brute_force);
    tcase_add_test(c, offsets_agree_with_brute_force);
    tcase_add_test(c, an_offset_takes_the_median_residual_away);
    tcase_add_test(c, without_itself_an_outlier_does_not_move_its_own_offset);
    tcase_add_test(c, five_programs_give_no_offset_to_one_of_them);
    tcase_add_test(c, latencies_stay_finite_and_costs_that_are_none_give_no_residual);
    tcase_add_test(c, more_programs_behind_an_offset_make_it_surer);
    tcase_add_test(c, two_thirds_lie_within_one_standard_deviation_and_95_within_two);
    tcase_add_test(c, few_tasks_are_not_taken_for_all);
    tcase_add_test(c, seen_tasks_say_nothing_about_new_ones);
    tcase_add_test(c, tasks_with_five_programs_say_nothing_about_offsets);
    tcase_add_test(c, nothing_and_only_failures_leave_everything_unknown);
    tcase_add_test(c, one_new_task_is_compared_with_no_shift);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
