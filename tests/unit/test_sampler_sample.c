/* The seeded sample of programs per task. */
#include "sampler/sample.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { N = 600 };
static uint32_t task[N];
static uint8_t key[N][16];
static uint8_t take[N], again[N];

static void make_pool(void)
{
    for (uint32_t i = 0; i < N; i++) {
        task[i] = i % 3 == 0 ? 7 : i % 3;
        memset(key[i], 0, 16);
        memcpy(key[i], &i, sizeof i);
    }
}

static size_t count(uint32_t t)
{
    size_t n = 0;

    for (int i = 0; i < N; i++)
        n += task[i] == t && take[i] != 0;
    return n;
}

START_TEST(takes_at_most_per_task_of_each_task)
{
    size_t taken;

    make_pool();
    ck_assert_int_eq(ts_sample(task, key, N, 50, 1, take, &taken, NULL), 0);
    ck_assert_uint_eq(taken, 150);
    ck_assert_uint_eq(count(7), 50);
    ck_assert_uint_eq(count(1), 50);
    ck_assert_uint_eq(count(2), 50);
}
END_TEST

START_TEST(takes_all_when_there_are_fewer)
{
    size_t taken;

    make_pool();
    ck_assert_int_eq(ts_sample(task, key, N, 201, 1, take, &taken, NULL), 0);
    ck_assert_uint_eq(taken, N);
    ck_assert_int_eq(ts_sample(task, key, N, 0, 1, take, &taken, NULL), 0);
    ck_assert_uint_eq(taken, N);
}
END_TEST

START_TEST(same_seed_same_sample_other_seed_other_sample)
{
    make_pool();
    ck_assert_int_eq(ts_sample(task, key, N, 20, 5, take, NULL, NULL), 0);
    ck_assert_int_eq(ts_sample(task, key, N, 20, 5, again, NULL, NULL), 0);
    ck_assert_mem_eq(take, again, N);
    ck_assert_int_eq(ts_sample(task, key, N, 20, 6, again, NULL, NULL), 0);
    ck_assert_mem_ne(take, again, N);
}
END_TEST

START_TEST(order_of_the_pool_does_not_matter)
{
    uint32_t rtask[N];
    uint8_t rkey[N][16];

    make_pool();
    for (int i = 0; i < N; i++) {
        rtask[i] = task[N - 1 - i];
        memcpy(rkey[i], key[N - 1 - i], 16);
    }
    ck_assert_int_eq(ts_sample(task, key, N, 20, 5, take, NULL, NULL), 0);
    ck_assert_int_eq(ts_sample(rtask, rkey, N, 20, 5, again, NULL, NULL), 0);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(take[i], again[N - 1 - i]);
}
END_TEST

START_TEST(a_program_seen_twice_is_taken_once)
{
    size_t taken;

    make_pool();
    memcpy(key[3], key[0], 16); /* same task 7 */
    memcpy(key[1], key[0], 16); /* another task: another program */
    ck_assert_int_eq(ts_sample(task, key, N, 0, 9, take, &taken, NULL), 0);
    ck_assert_uint_eq(taken, N - 1);
    ck_assert_int_eq(take[0], 1);
    ck_assert_int_eq(take[1], 1);
    ck_assert_int_eq(take[3], 0);
}
END_TEST

START_TEST(draws_are_uniform)
{
    /* 60 of 600 over 200 seeds: each program is expected 20 times, standard deviation 4.2 */
    int hits[N] = {0};

    make_pool();
    for (int i = 0; i < N; i++)
        task[i] = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        ck_assert_int_eq(ts_sample(task, key, N, 60, seed, take, NULL, NULL), 0);
        for (int i = 0; i < N; i++)
            hits[i] += take[i];
    }
    for (int i = 0; i < N; i++) {
        ck_assert_int_gt(hits[i], 20 - 5 * 4);
        ck_assert_int_lt(hits[i], 20 + 6 * 4);
    }
}
END_TEST

START_TEST(draw_is_a_fixed_function)
{
    /* The same mixing written in Python. */
    uint8_t k[16];

    for (int i = 0; i < 16; i++)
        k[i] = (uint8_t)i;
    ck_assert_uint_eq(ts_draw(0, k), UINT64_C(0xc33684ddbb43dbbf));
    ck_assert_uint_eq(ts_draw(12345, k), UINT64_C(0xcdbee6ed3b18a4fc));
}
END_TEST

START_TEST(empty_pool_is_fine)
{
    size_t taken = 9;

    ck_assert_int_eq(ts_sample(NULL, NULL, 0, 5, 1, NULL, &taken, NULL), 0);
    ck_assert_uint_eq(taken, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sampler/sample");
    TCase *t = tcase_create("sample");
    SRunner *r = srunner_create(s);
    int failed;

    tcase_add_test(t, takes_at_most_per_task_of_each_task);
    tcase_add_test(t, takes_all_when_there_are_fewer);
    tcase_add_test(t, same_seed_same_sample_other_seed_other_sample);
    tcase_add_test(t, order_of_the_pool_does_not_matter);
    tcase_add_test(t, a_program_seen_twice_is_taken_once);
    tcase_add_test(t, draws_are_uniform);
    tcase_add_test(t, draw_is_a_fixed_function);
    tcase_add_test(t, empty_pool_is_fine);
    suite_add_tcase(s, t);
    srunner_run_all(r, CK_NORMAL);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
