/* The hold-out that judges models, and the verdict between champion and challenger. */
#include "ckd/champion.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 200, PER_TASK = 8 };

/* A record that encodes; what it says does not matter here. */
static const char line[] = "{\"i\": [[\"[\\\"m\\\", 4]\", \"llvm\"], [[], [[\"AN\", 0, 0, 3]]]]}";

struct set {
    struct tm_dataset *ds;
    uint8_t key[TASKS * PER_TASK][16];
    uint32_t train[TASKS * PER_TASK], valid[TASKS * PER_TASK];
    size_t n_train, n_valid;
    bool by_record;
};

static void task_name(char id[17], int t)
{
    snprintf(id, 17, "%016llx", (unsigned long long)t * 0x9e3779b97f4a7c15U + 12345U);
}

/* Tasks first..last-1 with n programs each; those of `failed` have no valid cost. */
static struct set *make(int first, int last, int n, int failed)
{
    struct set *s = calloc(1, sizeof *s);
    struct tp_record r;
    char id[17];

    ck_assert_ptr_nonnull(s);
    tp_record_init(&r);
    ck_assert_int_eq(tp_record_parse(&r, line, strlen(line), NULL), 0);
    s->ds = tm_dataset_new(TCLFEAT_TCLF_1);
    for (int t = first; t < last; t++) {
        task_name(id, t);
        for (int i = 0; i < n; i++) {
            uint8_t *key = s->key[s->ds->n];

            memset(key, 0, 16);
            memcpy(key, &t, sizeof t);
            memcpy(key + 8, &i, sizeof i);
            ck_assert_int_eq(tm_dataset_add(s->ds, &r, id, key, t == failed ? INFINITY : 1e-3 * (i + 1), NULL, NULL),
                             1);
        }
    }
    tp_record_free(&r);
    ck_assert_int_eq(tk_holdout_split(s->ds, (const uint8_t(*)[16])s->key, s->train, &s->n_train, s->valid, &s->n_valid,
                                      &s->by_record, NULL),
                     0);
    ck_assert_uint_eq(s->n_train + s->n_valid, s->ds->n);
    return s;
}

static void drop(struct set *s)
{
    tm_dataset_free(s->ds);
    free(s);
}

static bool is_valid(const struct set *s, const uint8_t key[16])
{
    for (size_t i = 0; i < s->n_valid; i++)
        if (memcmp(s->key[s->valid[i]], key, 16) == 0)
            return true;
    return false;
}

START_TEST(about_fifteen_percent_of_many_tasks_are_held_out_whole)
{
    struct set *s = make(0, TASKS, PER_TASK, -1);
    size_t of_task[TASKS] = {0}, held = 0;

    ck_assert(!s->by_record);
    for (size_t i = 0; i < s->n_valid; i++)
        of_task[s->ds->task[s->valid[i]]]++;
    for (int t = 0; t < TASKS; t++) {
        ck_assert(of_task[t] == 0 || of_task[t] == PER_TASK);
        held += of_task[t] > 0;
    }
    ck_assert_uint_ge(held, 15); /* expected 30, standard deviation 5 */
    ck_assert_uint_le(held, 45);
    drop(s);
}
END_TEST

START_TEST(four_tasks_hold_out_at_least_one_and_keep_at_least_one)
{
    int by_task = 0;

    for (int first = 0; first + 4 <= TASKS; first++) {
        struct set *s = make(first, first + 4, 3, -1);

        ck_assert_uint_gt(s->n_train, 0);
        if (!s->by_record) /* all four below the share: once in 600 */
            ck_assert_uint_ge(s->n_valid, 3);
        by_task += !s->by_record;
        drop(s);
    }
    ck_assert_int_ge(by_task, TASKS - 4 - 3);
}
END_TEST

START_TEST(what_was_trained_on_is_never_held_out_later)
{
    struct set *before = make(0, 4, 3, -1);

    for (int n = 5; n <= 80; n++) {
        struct set *now = make(0, n, 3, -1);

        for (size_t i = 0; i < before->n_train; i++)
            ck_assert(!is_valid(now, before->key[before->train[i]]));
        drop(before);
        before = now;
    }
    drop(before);
}
END_TEST

START_TEST(few_tasks_hold_out_programs_of_each)
{
    struct set *s = make(0, 3, PER_TASK, -1);
    size_t of_task[3] = {0};

    ck_assert(s->by_record);
    for (size_t i = 0; i < s->n_valid; i++)
        of_task[s->ds->task[s->valid[i]]]++;
    for (int t = 0; t < 3; t++) {
        ck_assert_uint_ge(of_task[t], 2);
        ck_assert_uint_lt(of_task[t], PER_TASK);
    }
    drop(s);
}
END_TEST

START_TEST(a_program_that_was_trained_on_is_never_held_out_later)
{
    for (int first = 0; first < TASKS - 3; first += 3) {
        struct set *before = make(first, first + 3, 2, -1);

        for (int n = 3; n <= PER_TASK; n++) {
            struct set *now = make(first, first + 3, n, -1);

            ck_assert(now->by_record);
            ck_assert_uint_ge(now->n_valid, 6);
            for (size_t i = 0; i < before->n_train; i++)
                ck_assert(!is_valid(now, before->key[before->train[i]]));
            drop(before);
            before = now;
        }
        drop(before);
    }
}
END_TEST

START_TEST(a_task_of_failures_does_not_count)
{
    struct set *s = make(0, 4, PER_TASK, 2);

    ck_assert(s->by_record); /* three usable ones are left */
    drop(s);
}
END_TEST

START_TEST(the_share_grows_for_few_tasks_only)
{
    ck_assert_double_eq(tk_holdout_share(4), 0.20);
    ck_assert_double_eq_tol(tk_holdout_share(17), 3.0 / 17, 1e-12);
    ck_assert_double_eq(tk_holdout_share(20), 0.15);
    ck_assert_double_eq(tk_holdout_share(1000), 0.15);
}
END_TEST

/* ---- the verdict ---- */
static struct tm_metrics figures(double top1, double pairwise)
{
    return (struct tm_metrics){.tasks = 3, .programs = 90, .top1_mean = top1, .pairwise = pairwise};
}

static enum tk_decision verdict(const struct tm_metrics *a, const struct tm_metrics *b, bool never)
{
    struct tk_judgement j;

    tk_judge(a, b, never, &j);
    ck_assert_uint_gt(strlen(j.reason), 0);
    ck_assert_ptr_null(strpbrk(j.reason, "\"\\")); /* goes into JSON as it is */
    return j.decision;
}

START_TEST(the_first_model_is_activated)
{
    struct tm_metrics a = figures(0.1, 0.4);

    ck_assert_int_eq(verdict(&a, NULL, false), TK_ACTIVATED);
}
END_TEST

START_TEST(a_candidate_is_never_activated)
{
    struct tm_metrics a = figures(0.9, 0.9), b = figures(0.1, 0.1);

    ck_assert_int_eq(verdict(&a, NULL, true), TK_CANDIDATE);
    ck_assert_int_eq(verdict(&a, &b, true), TK_CANDIDATE);
}
END_TEST

START_TEST(a_better_or_equal_challenger_wins)
{
    struct tm_metrics a = figures(0.8, 0.7), b = figures(0.7, 0.7);

    ck_assert_int_eq(verdict(&a, &b, false), TK_ACTIVATED);
    ck_assert_int_eq(verdict(&b, &b, false), TK_ACTIVATED);
}
END_TEST

START_TEST(the_margin_forgives_a_little_and_no_more)
{
    struct tm_metrics b = figures(0.8, 0.7), little = figures(0.8, 0.7 - 2 * 0.0049),
                      more = figures(0.8, 0.7 - 2 * 0.0051);

    ck_assert_int_eq(verdict(&little, &b, false), TK_ACTIVATED);
    ck_assert_int_eq(verdict(&more, &b, false), TK_KEPT_CHAMPION);
}
END_TEST

START_TEST(figures_that_judge_nothing_do_not_win)
{
    struct tm_metrics good = figures(0.8, 0.7), none = {0}, nan_pairs = figures(1.0, NAN);

    ck_assert_int_eq(verdict(&none, &good, false), TK_KEPT_CHAMPION);
    ck_assert_int_eq(verdict(&nan_pairs, &good, false), TK_KEPT_CHAMPION);
    ck_assert_int_eq(verdict(&none, &none, false), TK_KEPT_CHAMPION);
    ck_assert_int_eq(verdict(&good, &none, false), TK_ACTIVATED);
}
END_TEST

START_TEST(the_gain_is_the_difference_of_qualities)
{
    struct tm_metrics a = figures(0.8, 0.7), b = figures(0.6, 0.8);
    struct tk_judgement j;

    tk_judge(&a, &b, false, &j);
    ck_assert_double_eq_tol(j.gain, 0.05, 1e-12);
    tk_judge(&a, NULL, false, &j);
    ck_assert(isnan(j.gain));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ckd/champion");
    TCase *t = tcase_create("champion");
    SRunner *r = srunner_create(s);
    int failed;

    tcase_add_test(t, about_fifteen_percent_of_many_tasks_are_held_out_whole);
    tcase_add_test(t, four_tasks_hold_out_at_least_one_and_keep_at_least_one);
    tcase_add_test(t, what_was_trained_on_is_never_held_out_later);
    tcase_add_test(t, few_tasks_hold_out_programs_of_each);
    tcase_add_test(t, a_program_that_was_trained_on_is_never_held_out_later);
    tcase_add_test(t, a_task_of_failures_does_not_count);
    tcase_add_test(t, the_share_grows_for_few_tasks_only);
    tcase_add_test(t, the_first_model_is_activated);
    tcase_add_test(t, a_candidate_is_never_activated);
    tcase_add_test(t, a_better_or_equal_challenger_wins);
    tcase_add_test(t, the_margin_forgives_a_little_and_no_more);
    tcase_add_test(t, figures_that_judge_nothing_do_not_win);
    tcase_add_test(t, the_gain_is_the_difference_of_qualities);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
