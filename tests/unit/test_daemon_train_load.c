/* What a training job reads: sampling, restriction, cancellation. */
#include "daemon/train_load.h"

#include "tests/unit/store_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 3, PROGRAMS = 12 };

static struct st_reader *rd;
static struct st_hardware hw;

/* Task t has PROGRAMS + t programs; the first of each failed, the second was measured twice. */
static void setup(void)
{
    struct sf_line lines[TASKS * (PROGRAMS + TASKS + 1)];
    size_t n = 0;

    sf_begin();
    sf_hardware("a", "cpu", "cpu");
    for (int t = 0; t < TASKS; t++) {
        for (int p = 1; p <= PROGRAMS + t; p++)
            lines[n++] = (struct sf_line){t + 1, p, p == 1 ? -1 : 1e-3 * p, 1000 + p};
        lines[n++] = (struct sf_line){t + 1, 2, 1e-4, 5000};
    }
    ck_assert_uint_eq(sf_post("a", lines, n).accepted, n);
    rd = sf_reader();
    ck_assert_int_eq(st_hardware_get(rd, "a", &hw, NULL), 0);
}

static void teardown(void)
{
    st_hardware_clear(&hw);
    st_reader_free(rd);
    sf_end();
}

static struct td_train_data load(uint32_t per_task, uint64_t seed)
{
    struct td_train_want want = {.hw = &hw, .features = TCLFEAT_TCLF_1, .per_task = per_task, .seed = seed};
    struct td_train_data d = {0};
    struct tp_err e = {0};

    ck_assert_msg(td_train_load(rd, &want, &d, &e) == 0, "%s", e.detail);
    return d;
}

START_TEST(everything_is_read_with_its_best_cost)
{
    struct td_train_data d = load(0, 0);
    int failures = 0, twice = 0;

    ck_assert_uint_eq(d.ds->n, 3 * PROGRAMS + 3);
    ck_assert_uint_eq(d.ds->n_tasks, TASKS);
    ck_assert_int_eq(d.records, 3 * PROGRAMS + 3 + 3);
    for (uint32_t i = 0; i < d.ds->n; i++) {
        failures += isinf(d.ds->cost[i]) != 0;
        twice += fabs(d.ds->cost[i] - 1e-4) < 1e-9;
    }
    ck_assert_int_eq(failures, TASKS);
    ck_assert_int_eq(twice, TASKS);
    td_train_data_free(&d);
}
END_TEST

START_TEST(a_sample_takes_so_many_of_each_task_and_depends_on_the_seed_alone)
{
    struct td_train_data a = load(5, 1), b = load(5, 1), c = load(5, 2);
    uint32_t of_task[TASKS] = {0};

    ck_assert_uint_eq(a.ds->n, 5 * TASKS);
    for (uint32_t i = 0; i < a.ds->n; i++)
        of_task[a.ds->task[i]]++;
    for (int t = 0; t < TASKS; t++)
        ck_assert_uint_eq(of_task[t], 5);
    ck_assert_uint_eq(b.ds->n, a.ds->n);
    ck_assert_mem_eq(a.key, b.key, 16 * a.ds->n);
    ck_assert_mem_ne(a.key, c.key, 16 * a.ds->n);
    td_train_data_free(&a);
    td_train_data_free(&b);
    td_train_data_free(&c);
}
END_TEST

START_TEST(only_what_was_asked_for_is_read)
{
    struct td_train_data all = load(0, 0), d = {0};
    struct td_train_want want = {.hw = &hw, .features = TCLFEAT_TLP_CPU_1, .n_only = 4};
    uint8_t only[4][16];

    for (int i = 0; i < 4; i++)
        memcpy(only[i], all.key[7 * i], 16);
    qsort(only, 4, 16, td_key_compare);
    want.only = (const uint8_t(*)[16])only;
    ck_assert_int_eq(td_train_load(rd, &want, &d, NULL), 0);
    ck_assert_uint_eq(d.ds->n, 4);
    ck_assert_int_eq(d.ds->features, TCLFEAT_TLP_CPU_1);
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_nonnull(bsearch(d.key[i], only, 4, 16, td_key_compare));
    td_train_data_free(&d);
    want.n_only = 0;
    ck_assert_int_eq(td_train_load(rd, &want, &d, NULL), 0);
    ck_assert_uint_eq(d.ds->n, 0);
    td_train_data_free(&d);
    td_train_data_free(&all);
}
END_TEST

static int shares;

static int stop_at_second(void *arg, double share)
{
    (void)arg;
    ck_assert(share >= 0 && share <= 1);
    return ++shares == 2;
}

START_TEST(loading_can_be_stopped_in_either_walk)
{
    struct td_train_want want = {.hw = &hw, .features = TCLFEAT_TCLF_1, .per_task = 5, .progress = stop_at_second};
    struct td_train_data d = {0};

    shares = 0; /* one report per walk, so the second walk is stopped */
    ck_assert_int_eq(td_train_load(rd, &want, &d, NULL), -TP_E_CANCELLED);
    ck_assert_ptr_null(d.ds);
    shares = 1;
    ck_assert_int_eq(td_train_load(rd, &want, &d, NULL), -TP_E_CANCELLED);
    ck_assert_ptr_null(d.ds);
}
END_TEST

START_TEST(hardware_without_measurements_is_an_empty_set)
{
    struct td_train_data d = {0};
    struct td_train_want want = {.hw = &hw, .features = TCLFEAT_TCLF_1, .per_task = 5};

    hw.id += 1000;
    ck_assert_int_eq(td_train_load(rd, &want, &d, NULL), 0);
    ck_assert_uint_eq(d.ds->n, 0);
    td_train_data_free(&d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon/train_load");
    TCase *t = tcase_create("train_load");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, everything_is_read_with_its_best_cost);
    tcase_add_test(t, a_sample_takes_so_many_of_each_task_and_depends_on_the_seed_alone);
    tcase_add_test(t, only_what_was_asked_for_is_read);
    tcase_add_test(t, loading_can_be_stopped_in_either_walk);
    tcase_add_test(t, hardware_without_measurements_is_an_empty_set);
    suite_add_tcase(s, t);
    return sf_main(s);
}
