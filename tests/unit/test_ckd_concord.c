/* Concordance, its lower bound, and the trust made of it. */
#include "ckd/concord.h"
#include "ckd_toy.h"

START_TEST(concordance_weighs_pairs_by_their_labels)
{
    /* pairs (1, .5): .5, (1, .1): .9, (.5, .1): .4; the last one is in the wrong order */
    const double y[3] = {1, 0.5, 0.1}, score[3] = {3, 1, 2};
    const struct tk_concord c = tk_concord_of(y, NULL, score, 3);
    ck_assert_double_eq_tol(c.weight, 1.8, 1e-12);
    ck_assert_double_eq_tol(c.right, 1.4, 1e-12);
    ck_assert_double_eq_tol(tk_concord_value(&c), 1.4 / 1.8, 1e-12);
    const float same[3] = {3, 1, 2};
    const struct tk_concord t = tk_concord_of_tape(y, NULL, same, 3);
    ck_assert_double_eq(t.right, c.right);
}
END_TEST

START_TEST(equal_scores_count_half_and_equal_costs_nothing)
{
    const double y[3] = {1, 0.5, 0.5}, score[3] = {1, 1, 0};
    const struct tk_concord c = tk_concord_of(y, NULL, score, 3);
    ck_assert_double_eq_tol(c.weight, 1, 1e-12);
    ck_assert_double_eq_tol(c.right, 0.75, 1e-12);
}
END_TEST

START_TEST(pairs_within_noise_hardly_count)
{
    const double y[2] = {1, 0.99}, noise[2] = {0.2, 0.2}, score[2] = {1, 0};
    const struct tk_concord sure = tk_concord_of(y, NULL, score, 2), unsure = tk_concord_of(y, noise, score, 2);
    ck_assert_double_lt(unsure.weight, 0.05 * sure.weight);
}
END_TEST

START_TEST(a_score_that_is_no_number_is_last)
{
    const double y[2] = {1, 0.5}, score[2] = {NAN, -5};
    const struct tk_concord c = tk_concord_of(y, NULL, score, 2);
    ck_assert_double_eq(c.right, 0);
}
END_TEST

START_TEST(nothing_to_compare_is_no_number)
{
    const double y[2] = {1, 1}, score[2] = {1, 2};
    const struct tk_concord c = tk_concord_of(y, NULL, score, 2);
    ck_assert(isnan(tk_concord_value(&c)));
    struct toy t;
    struct tk_concordance out;
    toy_init(&t, false, 1);
    ck_assert_int_eq(tk_concordance(&t.ds, NULL, NULL, 0, 1, &out), 0);
    ck_assert(isnan(out.mean) && isnan(out.lower));
    ck_assert_uint_eq(out.tasks, 0);
    toy_free(&t);
}
END_TEST

/* Score of program i: right in tasks below `right`, the reverse in the others. */
static void scores(const struct toy *t, uint32_t right, uint32_t *programs, double *score)
{
    for (uint32_t i = 0; i < TOY_N; i++) {
        programs[i] = TOY_N - 1 - i; /* the order given does not matter */
        score[i] = (t->task[programs[i]] < right ? -1 : 1) * log(t->cost[programs[i]]);
    }
}

START_TEST(the_bound_lies_below_the_mean_as_far_as_tasks_differ)
{
    struct toy t;
    struct tk_concordance all, most, again;
    uint32_t programs[TOY_N];
    double score[TOY_N];
    toy_init(&t, false, 1);
    scores(&t, TOY_TASKS, programs, score);
    ck_assert_int_eq(tk_concordance(&t.ds, programs, score, TOY_N, 1, &all), 0);
    ck_assert_double_eq(all.mean, 1);
    ck_assert_double_eq(all.lower, 1);
    ck_assert_uint_eq(all.tasks, TOY_TASKS);
    ck_assert_uint_eq(all.programs, TOY_N);
    scores(&t, 18, programs, score);
    ck_assert_int_eq(tk_concordance(&t.ds, programs, score, TOY_N, 1, &most), 0);
    ck_assert_double_eq_tol(most.mean, 18.0 / TOY_TASKS, 1e-9);
    /* a binomial of 24 at 3/4: its 5 % quantile is 14 or 15 of 24 */
    ck_assert_double_ge(most.lower, 14.0 / TOY_TASKS - 1e-9);
    ck_assert_double_le(most.lower, 15.0 / TOY_TASKS + 1e-9);
    ck_assert_int_eq(tk_concordance(&t.ds, programs, score, TOY_N, 1, &again), 0);
    ck_assert_double_eq(most.lower, again.lower);
    toy_free(&t);
}
END_TEST

START_TEST(of_few_programs_a_task_pairs_count_by_their_weight)
{
    struct toy t;
    struct tk_concordance c;
    uint32_t programs[2 * TOY_TASKS];
    double score[2 * TOY_TASKS], right = 0, weight = 0;
    toy_init(&t, false, 1);
    for (uint32_t k = 0; k < TOY_TASKS; k++) { /* every third pair the wrong way round */
        const uint32_t a = k * TOY_PER_TASK, b = a + 1;
        const double fast = fmin(t.cost[a], t.cost[b]), w = 1 - fast / fmax(t.cost[a], t.cost[b]);
        programs[2 * k] = a;
        programs[2 * k + 1] = b;
        score[2 * k] = (k % 3 ? -1 : 1) * t.cost[a];
        score[2 * k + 1] = (k % 3 ? -1 : 1) * t.cost[b];
        right += k % 3 ? w : 0;
        weight += w;
    }
    ck_assert_int_eq(tk_concordance(&t.ds, programs, score, 2 * TOY_TASKS, 1, &c), 0);
    ck_assert_double_eq_tol(c.mean, right / weight, 1e-9);
    ck_assert_double_gt(fabs(c.mean - 2.0 / 3), 1e-3); /* that is of tasks that count alike */
    ck_assert(c.lower > 0.3 && c.lower < c.mean);
    toy_free(&t);
}
END_TEST

START_TEST(trust_fades_when_the_teacher_is_wrong_or_worse)
{
    ck_assert_double_eq(tk_phi(0.5, 0.2), 0);
    ck_assert_double_eq(tk_phi(0.3, 0.1), 0);
    ck_assert_double_eq(tk_phi(NAN, 0.5), 0);
    ck_assert_double_eq_tol(tk_phi(1, 0), 1, 1e-9);
    ck_assert_double_eq_tol(tk_phi(0.75, 0.75), 0.25, 1e-12);
    ck_assert_double_lt(tk_phi(0.7, 0.9), 0.4 * 0.0013);
    ck_assert_double_eq_tol(tk_phi(0.9, 0.87), 0.8 / (1 + exp(-1)), 1e-12);
    ck_assert_double_eq_tol(tk_phi(0.9, NAN), 0.8 / (1 + exp(-0.4 / TK_PHI_WIDTH)), 1e-12);
}
END_TEST

START_TEST(trust_follows_slowly)
{
    struct tk_trust t = {NAN, NAN};
    ck_assert_double_eq(tk_trust_phi(&t), 0);
    tk_trust_update(&t, 0.8, 0.6);
    ck_assert_double_eq(t.teacher, 0.8);
    tk_trust_update(&t, 0.8, 0.9);
    ck_assert_double_eq_tol(t.student, 0.66, 1e-12);
    tk_trust_update(&t, NAN, NAN);
    ck_assert_double_eq_tol(t.student, 0.66, 1e-12);
    ck_assert_double_eq_tol(tk_trust_phi(&t), tk_phi(0.8, 0.66), 1e-12);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ckd/concord");
    TCase *c = tcase_create("all");
    tcase_add_test(c, concordance_weighs_pairs_by_their_labels);
    tcase_add_test(c, equal_scores_count_half_and_equal_costs_nothing);
    tcase_add_test(c, pairs_within_noise_hardly_count);
    tcase_add_test(c, a_score_that_is_no_number_is_last);
    tcase_add_test(c, nothing_to_compare_is_no_number);
    tcase_add_test(c, the_bound_lies_below_the_mean_as_far_as_tasks_differ);
    tcase_add_test(c, trust_fades_when_the_teacher_is_wrong_or_worse);
    tcase_add_test(c, trust_follows_slowly);
    tcase_add_test(c, of_few_programs_a_task_pairs_count_by_their_weight);
    suite_add_tcase(suite, c);
    return toy_main(srunner_create(suite));
}
