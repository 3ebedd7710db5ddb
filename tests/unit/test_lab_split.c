/* Who trains and who is tested: both hold-outs, seeds, and that nobody is on two sides. */
#include "lab/split.h"

#include "lab_logs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 12, PROGRAMS = 100 };

/* Every tenth program fails. Costs of program p: p and 3 p milliseconds. */
static struct tl_corpus *corpus(bool backwards)
{
    struct logs l;
    logs_begin(&l);
    for (int i = 0; i < TASKS * PROGRAMS; i++) {
        int k = backwards ? TASKS * PROGRAMS - 1 - i : i, t = k / PROGRAMS, p = k % PROGRAMS + 1;
        if (p % 10 == 0)
            logs_add_failure(&l, t, p);
        else
            logs_add(&l, t, p, 1e-3 * p, 3e-3 * p);
    }
    return logs_read(&l);
}

static char *keys[2];

static void split(const struct tl_corpus *c, const struct tl_split_opts *o, struct tl_split *s)
{
    struct tp_err e = {0};
    keys[0] = logs_key(3);
    keys[1] = logs_key(7);
    ck_assert_msg(tl_split_make(c, keys, 2, o, s, &e) == 0, "%s", e.detail);
    free(keys[0]);
    free(keys[1]);
}

static struct tl_split_opts options(enum tl_holdout holdout)
{
    struct tl_split_opts o;
    tl_split_defaults(&o);
    o.holdout = holdout;
    o.min_programs = 8;
    return o;
}

static const struct tl_program *program(const struct tl_corpus *c, const struct tl_split *s, uint32_t i)
{
    return &c->programs[s->program[i]];
}

static bool in_test_task(const struct tl_corpus *c, const struct tl_split *s, uint32_t i)
{
    const char *key = c->tasks[program(c, s, i)->task].workload_key;
    return strncmp(key, "[\"task3\"", 8) == 0 || strncmp(key, "[\"task7\"", 8) == 0;
}

static void count(const uint32_t *list, size_t n, uint8_t *times)
{
    for (size_t i = 0; i < n; i++)
        times[list[i]]++;
}

static void check_nobody_twice(const struct tl_split *s)
{
    uint8_t *times = calloc(s->d->n, 1);
    count(s->train, s->n_train, times);
    count(s->valid, s->n_valid, times);
    count(s->test, s->n_test, times);
    for (uint32_t i = 0; i < s->d->n; i++)
        ck_assert_int_eq(times[i], 1);
    free(times);
}

START_TEST(listed_tasks_are_tested_and_nothing_else_of_them_is_known)
{
    struct tl_corpus *c = corpus(false);
    struct tl_split_opts o = options(TL_BY_TASK);
    struct tl_split s;
    split(c, &o, &s);
    check_nobody_twice(&s);
    ck_assert_uint_eq(s.n_test, 2 * 90); /* failures are not tested */
    ck_assert_uint_eq(s.n_train + s.n_valid, 10 * PROGRAMS);
    ck_assert_uint_eq(s.train_tasks + s.valid_tasks, 10);
    for (size_t i = 0; i < s.n_test; i++)
        ck_assert(in_test_task(c, &s, s.test[i]) && isfinite(program(c, &s, s.test[i])->min_cost));
    for (size_t i = 0; i < s.n_train; i++)
        ck_assert(!in_test_task(c, &s, s.train[i]));
    for (size_t i = 0; i < s.n_valid; i++)
        ck_assert(!in_test_task(c, &s, s.valid[i]));
    tl_split_free(&s);
    tl_corpus_free(c);
}
END_TEST

START_TEST(validation_tasks_are_not_trained_on)
{
    struct tl_corpus *c = corpus(false);
    struct tl_split_opts o = options(TL_BY_TASK);
    struct tl_split s;
    uint8_t side[TASKS] = {0};
    o.valid_fraction = 0.4;
    split(c, &o, &s);
    ck_assert_uint_gt(s.valid_tasks, 0);
    for (size_t i = 0; i < s.n_train; i++)
        side[s.d->task[s.train[i]]] |= 1;
    for (size_t i = 0; i < s.n_valid; i++)
        side[s.d->task[s.valid[i]]] |= 2;
    for (uint32_t t = 0; t < s.d->n_tasks; t++)
        ck_assert_int_ne(side[t], 3);
    tl_split_free(&s);
    tl_corpus_free(c);
}
END_TEST

START_TEST(a_tenth_of_every_known_task_is_tested)
{
    struct tl_corpus *c = corpus(false);
    struct tl_split_opts o = options(TL_BY_PROGRAM);
    struct tl_split s;
    uint32_t tested[TASKS] = {0};
    split(c, &o, &s);
    check_nobody_twice(&s);
    for (size_t i = 0; i < s.n_test; i++)
        tested[s.d->task[s.test[i]]]++;
    for (int t = 0; t < TASKS; t++) { /* the first ten of the draw, of which some fail and are not tested */
        ck_assert_uint_le(tested[t], PROGRAMS / 10);
        ck_assert_uint_ge(tested[t], 5);
    }
    ck_assert_uint_eq(s.n_train + s.n_valid, TASKS * 9 * PROGRAMS / 10);
    tl_split_free(&s);
    tl_corpus_free(c);
}
END_TEST

START_TEST(tasks_with_few_programs_are_not_tested)
{
    struct tl_corpus *c = corpus(false);
    struct tl_split_opts o = options(TL_BY_TASK);
    struct tl_split s;
    struct tp_err e = {0};
    o.min_programs = 91;
    keys[0] = logs_key(3);
    ck_assert_int_eq(tl_split_make(c, keys, 1, &o, &s, &e), -TP_E_NOT_ENOUGH_DATA);
    free(keys[0]);
    tl_corpus_free(c);
}
END_TEST

/* Hashes of a list of programs, sorted: who is in it, whatever the order. */
static uint8_t (*members(const struct tl_corpus *c, const struct tl_split *s, const uint32_t *list, size_t n))[16]
{
    uint8_t(*h)[16] = calloc(n + 1, 16);
    for (size_t i = 0; i < n; i++)
        memcpy(h[i], program(c, s, list[i])->hash, 16);
    return h;
}

static int by_hash(const void *a, const void *b)
{
    return memcmp(a, b, 16);
}

static bool same_train(const struct tl_corpus *ca, const struct tl_split *a, const struct tl_corpus *cb,
                       const struct tl_split *b)
{
    if (a->n_train + a->n_valid != b->n_train + b->n_valid)
        return false;
    uint8_t(*x)[16] = members(ca, a, a->train, a->n_train), (*y)[16] = members(cb, b, b->train, b->n_train);
    bool same = a->n_train == b->n_train;
    if (same) {
        qsort(x, a->n_train, 16, by_hash);
        qsort(y, b->n_train, 16, by_hash);
        same = memcmp(x, y, a->n_train * 16) == 0;
    }
    free(x);
    free(y);
    return same;
}

START_TEST(the_seed_decides_not_the_order_of_lines)
{
    struct tl_corpus *c = corpus(false), *r = corpus(true);
    struct tl_split_opts o = options(TL_BY_TASK);
    struct tl_split one, reversed, other;
    o.per_task = 20;
    o.valid_fraction = 0; /* which tasks choose the epoch hangs on their order */
    split(c, &o, &one);
    split(r, &o, &reversed);
    o.seed = 2;
    split(c, &o, &other);
    ck_assert_uint_eq(one.n_train, 10 * 20);
    ck_assert(same_train(c, &one, r, &reversed));
    ck_assert(!same_train(c, &one, c, &other));
    tl_split_free(&one);
    tl_split_free(&reversed);
    tl_split_free(&other);
    tl_corpus_free(c);
    tl_corpus_free(r);
}
END_TEST

START_TEST(both_kinds_of_rows_have_the_same_programs)
{
    struct tl_corpus *c = corpus(false);
    struct tl_split_opts o = options(TL_BY_TASK);
    struct tl_split ours, tlp;
    o.per_task = 30;
    split(c, &o, &ours);
    o.tlp = true;
    split(c, &o, &tlp);
    ck_assert_uint_eq(ours.d->n, tlp.d->n);
    ck_assert_mem_eq(ours.program, tlp.program, ours.d->n * sizeof *ours.program);
    ck_assert_uint_eq(ours.n_valid, tlp.n_valid);
    ck_assert_mem_eq(ours.valid, tlp.valid, ours.n_valid * sizeof *ours.valid);
    ck_assert_mem_eq(ours.test, tlp.test, ours.n_test * sizeof *ours.test);
    tl_split_free(&ours);
    tl_split_free(&tlp);
    tl_corpus_free(c);
}
END_TEST

START_TEST(labels_are_the_minimum_or_the_mean_of_the_repeats)
{
    struct tl_corpus *c = corpus(false);
    struct tl_split_opts o = options(TL_BY_TASK);
    struct tl_split lowest, mean;
    split(c, &o, &lowest);
    o.by_mean = true;
    split(c, &o, &mean);
    for (uint32_t i = 0; i < mean.d->n; i++) {
        if (isinf(lowest.d->cost[i]))
            ck_assert(isinf(mean.d->cost[i]));
        else
            ck_assert_double_eq_tol(mean.d->cost[i] / lowest.d->cost[i], 2, 1e-6);
    }
    tl_split_free(&lowest);
    tl_split_free(&mean);
    tl_corpus_free(c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lab/split");
    TCase *c = tcase_create("all");
    tcase_add_test(c, listed_tasks_are_tested_and_nothing_else_of_them_is_known);
    tcase_add_test(c, validation_tasks_are_not_trained_on);
    tcase_add_test(c, a_tenth_of_every_known_task_is_tested);
    tcase_add_test(c, tasks_with_few_programs_are_not_tested);
    tcase_add_test(c, the_seed_decides_not_the_order_of_lines);
    tcase_add_test(c, both_kinds_of_rows_have_the_same_programs);
    tcase_add_test(c, labels_are_the_minimum_or_the_mean_of_the_repeats);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
