/* Task-disjoint splits. */
#include "model/train.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000 };

struct split {
    struct tm_dataset ds;
    uint32_t task[N], train[N], valid[N];
    size_t n_train, n_valid;
    bool by_record;
};

static void split(struct split *s, uint32_t tasks, double fraction, uint64_t seed)
{
    for (uint32_t i = 0; i < N; i++)
        s->task[i] = i % tasks;
    s->ds = (struct tm_dataset){.n = N, .n_tasks = tasks, .task = s->task};
    tm_split(&s->ds, fraction, seed, s->train, &s->n_train, s->valid, &s->n_valid, &s->by_record);
}

static void covers_everything_once(const struct split *s)
{
    int seen[N] = {0};
    ck_assert_uint_eq(s->n_train + s->n_valid, N);
    for (size_t i = 0; i < s->n_train; i++)
        seen[s->train[i]]++;
    for (size_t i = 0; i < s->n_valid; i++)
        seen[s->valid[i]]++;
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(seen[i], 1);
}

START_TEST(whole_tasks_are_held_out)
{
    static struct split s;
    split(&s, 50, 0.2, 7);
    covers_everything_once(&s);
    ck_assert(!s.by_record);
    ck_assert_uint_eq(s.n_valid, N / 50 * 10);
    for (size_t i = 0; i < s.n_train; i++)
        for (size_t j = 0; j < s.n_valid; j++)
            ck_assert_uint_ne(s.task[s.train[i]], s.task[s.valid[j]]);
}
END_TEST

START_TEST(a_small_fraction_still_holds_out_one_task)
{
    static struct split s;
    split(&s, 4, 0.01, 7);
    covers_everything_once(&s);
    ck_assert(!s.by_record);
    ck_assert_uint_eq(s.n_valid, N / 4);
}
END_TEST

START_TEST(few_tasks_split_by_record)
{
    static struct split s;
    for (uint32_t tasks = 1; tasks < 4; tasks++) {
        split(&s, tasks, 0.1, 7);
        covers_everything_once(&s);
        ck_assert(s.by_record);
        ck_assert_uint_eq(s.n_valid, N / 10);
    }
}
END_TEST

START_TEST(something_is_always_left_to_train_on)
{
    static struct split s;
    split(&s, 10, 1.0, 7);
    covers_everything_once(&s);
    ck_assert_uint_eq(s.n_train, N / 10);
    split(&s, 10, 0, 7);
    covers_everything_once(&s);
    ck_assert_uint_eq(s.n_valid, 0);
}
END_TEST

START_TEST(the_seed_decides)
{
    static struct split a, b;
    split(&a, 50, 0.2, 7);
    split(&b, 50, 0.2, 7);
    ck_assert_mem_eq(a.valid, b.valid, a.n_valid * sizeof *a.valid);
    split(&b, 50, 0.2, 8);
    ck_assert_mem_ne(a.valid, b.valid, a.n_valid * sizeof *a.valid);
}
END_TEST

START_TEST(an_empty_dataset_gives_two_empty_lists)
{
    struct tm_dataset ds = {0};
    uint32_t none[1];
    size_t n_train = 9, n_valid = 9;
    bool by_record;
    tm_split(&ds, 0.2, 1, none, &n_train, none, &n_valid, &by_record);
    ck_assert(n_train == 0 && n_valid == 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model/split");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, whole_tasks_are_held_out);
    tcase_add_test(c, a_small_fraction_still_holds_out_one_task);
    tcase_add_test(c, few_tasks_split_by_record);
    tcase_add_test(c, something_is_always_left_to_train_on);
    tcase_add_test(c, the_seed_decides);
    tcase_add_test(c, an_empty_dataset_gives_two_empty_lists);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
