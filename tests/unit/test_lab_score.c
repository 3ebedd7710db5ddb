/* Figures and the measurements' ceiling on programs few enough to score by hand. */
#include "lab/score.h"

#include "lab_logs.h"

#include <math.h>
#include <stdlib.h>

enum { TRAIN = 2 }; /* tasks 0 and 1 are there to be trained on */

static void add_training_tasks(struct logs *l)
{
    for (int t = 0; t < TRAIN; t++)
        for (int p = 1; p <= 4; p++)
            logs_add(l, t, p, 1e-3 * p, 1e-3 * p);
}

/* All tasks from number TRAIN to `last` are tested. */
static void split(const struct tl_corpus *c, int last, struct tl_split *s)
{
    struct tl_split_opts o;
    struct tp_err e = {0};
    char *keys[8];
    tl_split_defaults(&o);
    o.min_programs = 2;
    o.valid_fraction = 0;
    for (int t = TRAIN; t <= last; t++)
        keys[t - TRAIN] = logs_key(t);
    ck_assert_msg(tl_split_make(c, keys, (size_t)(last - TRAIN + 1), &o, s, &e) == 0, "%s", e.detail);
    for (int t = TRAIN; t <= last; t++)
        free(keys[t - TRAIN]);
}

static double true_cost(const struct tl_corpus *c, const struct tl_split *s, size_t i)
{
    return c->programs[s->program[s->test[i]]].min_cost;
}

/* Two tasks. The first: costs 1, 2, 4 ms, predicted in the order 2, 1, 4. The second: 10, 30 ms, predicted right.
 *   top-1: 1/2 and 1; pooled (1 + 10) / (2 + 10); top-5: 1 and 1; pairs: 2 of 3 and 1 of 1. */
START_TEST(figures_are_those_of_the_hand)
{
    struct logs l;
    struct tl_split s;
    struct tl_score x;
    double score[5];
    logs_begin(&l);
    add_training_tasks(&l);
    logs_add(&l, 2, 1, 1e-3, 2e-3);
    logs_add(&l, 2, 2, 2e-3, 3e-3);
    logs_add(&l, 2, 3, 4e-3, 4e-3);
    logs_add(&l, 3, 1, 10e-3, 10e-3);
    logs_add(&l, 3, 2, 30e-3, 40e-3);
    struct tl_corpus *c = logs_read(&l);
    split(c, 3, &s);
    ck_assert_uint_eq(s.n_test, 5);
    for (size_t i = 0; i < 5; i++) {
        double ms = 1e3 * true_cost(c, &s, i);
        score[i] = ms < 1.5 ? 0.5 : ms < 3 ? 0.9 : 1 / ms; /* 1 and 2 ms are mixed up */
    }
    ck_assert_int_eq(tl_score_make(c, &s, NULL, 2, score, NULL, &x, NULL), 0);
    ck_assert_uint_eq(x.n, 2);
    ck_assert_uint_eq(x.by_min.tasks, 2);
    ck_assert_double_eq_tol(x.by_min.top1_mean, 0.75, 1e-12);
    ck_assert_double_eq_tol(x.by_min.top1_pooled, 11.0 / 12, 1e-9);
    ck_assert_double_eq_tol(x.by_min.top5_mean, 1, 1e-12);
    ck_assert_double_eq_tol(x.by_min.pairwise, (2.0 / 3 + 1) / 2, 1e-12);
    ck_assert_double_eq_tol(x.by_min.random_top1_mean, ((1 + 1 / 2.0 + 1 / 4.0) / 3 + (1 + 1 / 3.0) / 2) / 2, 1e-9);
    ck_assert_double_eq_tol(x.by_mean.top1_mean, (1.5 / 2.5 + 1) / 2, 1e-9); /* means 1.5, 2.5, 4 and 10, 35 ms */
    ck_assert_double_eq_tol(fmin(x.pairwise[0], x.pairwise[1]), 2.0 / 3, 1e-12);
    ck_assert_double_eq_tol(fmax(x.top1[0], x.top1[1]), 1, 1e-12);
    ck_assert_double_ge(x.pairwise_mean.lo, 2.0 / 3 - 1e-12);
    ck_assert_double_le(x.pairwise_mean.hi, 1 + 1e-12);
    tl_score_free(&x);
    tl_split_free(&s);
    tl_corpus_free(c);
}
END_TEST

/* A model that is 1.3 times too slow everywhere is right once five programs of the task are measured. */
START_TEST(five_measured_programs_take_a_constant_error_away)
{
    enum { N = 20 };
    struct logs l;
    struct tl_split s;
    struct tl_score x;
    double score[N], latency[N];
    logs_begin(&l);
    add_training_tasks(&l);
    for (int p = 1; p <= N; p++)
        logs_add(&l, 2, p, 1e-3 * (1 + p), 1e-3 * (1 + p));
    struct tl_corpus *c = logs_read(&l);
    split(c, 2, &s);
    for (size_t i = 0; i < N; i++) {
        latency[i] = 1.3 * true_cost(c, &s, i);
        score[i] = -latency[i];
    }
    ck_assert_int_eq(tl_score_make(c, &s, NULL, 2, score, latency, &x, NULL), 0);
    ck_assert_double_eq_tol(x.unknown.median_ln_error, log(1.3), 1e-6);
    ck_assert_double_eq_tol(x.unknown.within_1_25, 0, 1e-12);
    ck_assert_double_eq_tol(x.unknown.within_1_5, 1, 1e-12);
    ck_assert_double_eq_tol(x.known.median_ln_error, 0, 1e-6);
    ck_assert_double_eq_tol(x.by_min.pairwise, 1, 1e-12);
    tl_score_free(&x);
    tl_split_free(&s);
    tl_corpus_free(c);
}
END_TEST

/* Measured twice: 1, 2, 3 ms, then 1, 3, 2 ms. Two of three pairs agree, so p^2 + (1 - p)^2 = 2/3; the first choice by
 * one measurement is the other's too. */
START_TEST(ceiling_comes_from_two_records_of_a_program)
{
    static const double again[] = {1e-3, 3e-3, 2e-3};
    struct logs l;
    struct tl_split s;
    struct tl_ceiling k;
    logs_begin(&l);
    add_training_tasks(&l);
    for (int p = 1; p <= 3; p++)
        logs_add(&l, 2, p, 1e-3 * p, 1e-3 * p);
    for (int p = 1; p <= 3; p++)
        logs_add(&l, 2, p, again[p - 1], again[p - 1]);
    struct tl_corpus *c = logs_read(&l);
    split(c, 2, &s);
    ck_assert_int_eq(tl_ceiling_make(c, &s, 2, &k, NULL), 0);
    ck_assert(k.by_record);
    ck_assert_uint_eq(k.tasks, 1);
    ck_assert_uint_eq(k.programs, 3);
    ck_assert_double_eq_tol(k.pairwise, 2.0 / 3, 1e-12);
    ck_assert_double_eq_tol(k.perfect, 0.5 + 0.5 / sqrt(3), 1e-12);
    ck_assert_double_eq_tol(k.top1_mean, 1, 1e-12);
    tl_split_free(&s);
    tl_corpus_free(c);
}
END_TEST

/* Measured once, two repeats: they are the halves. The second repeat turns 1 and 2 ms around: one of three pairs is
 * wrong, and the first choice costs 2.5 instead of 2 ms. */
START_TEST(ceiling_falls_back_to_halves_of_the_repeats)
{
    struct logs l;
    struct tl_split s;
    struct tl_ceiling k;
    logs_begin(&l);
    add_training_tasks(&l);
    logs_add(&l, 2, 1, 1e-3, 2.5e-3);
    logs_add(&l, 2, 2, 1.5e-3, 2e-3);
    logs_add(&l, 2, 3, 4e-3, 4e-3);
    struct tl_corpus *c = logs_read(&l);
    split(c, 2, &s);
    ck_assert_int_eq(tl_ceiling_make(c, &s, 2, &k, NULL), 0);
    ck_assert(!k.by_record);
    ck_assert_double_eq_tol(k.pairwise, 2.0 / 3, 1e-12);
    ck_assert_double_eq_tol(k.top1_mean, 2 / 2.5, 1e-9);
    tl_split_free(&s);
    tl_corpus_free(c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lab/score");
    TCase *c = tcase_create("all");
    tcase_add_test(c, figures_are_those_of_the_hand);
    tcase_add_test(c, five_measured_programs_take_a_constant_error_away);
    tcase_add_test(c, ceiling_comes_from_two_records_of_a_program);
    tcase_add_test(c, ceiling_falls_back_to_halves_of_the_repeats);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
