/* The table of offsets: what is found, what is replaced, what the store gives back. */
#include "daemon/offsets.h"

#include "tests/unit/store_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct st_offset offset(uint64_t task, double v, int64_t programs)
{
    struct st_offset o = {.offset = v, .programs = programs, .measurements = programs};

    snprintf(o.task_id, sizeof o.task_id, "%016llx", (unsigned long long)task);
    return o;
}

static struct td_offsets *with(const struct td_offsets *old, int64_t hw, const struct st_offset *o, size_t n)
{
    struct td_offsets *t = NULL;
    struct tp_err e = {0};

    ck_assert_msg(td_offsets_with(old, hw, o, n, &t, &e) == 0, "%s", e.detail);
    return t;
}

static double found(const struct td_offsets *t, int64_t hw, uint64_t task)
{
    struct st_offset o = offset(task, 0, 0);
    struct tm_offset f = td_offsets_find(t, hw, o.task_id);

    return f.n > 0 ? f.offset : -1;
}

START_TEST(nothing_is_in_no_table)
{
    ck_assert_uint_eq(td_offsets_find(NULL, 1, "0123456789abcdef").n, 0);
    ck_assert_uint_eq(td_offsets_count(NULL), 0);
    td_offsets_free(NULL);
    ck_assert_ptr_null(with(NULL, 1, NULL, 0));
}
END_TEST

START_TEST(every_task_is_found_on_its_hardware_only)
{
    enum { N = 3000 };
    struct st_offset *o = calloc(N, sizeof *o);
    struct td_offsets *one, *two;

    for (uint64_t i = 0; i < N; i++)
        o[i] = offset(i * 0x123456789abcdef1U, (double)i, 5);
    one = with(NULL, 7, o, N);
    for (uint64_t i = 0; i < N; i++)
        o[i].offset = 0.5;
    two = with(one, 8, o, N / 2);
    ck_assert_uint_eq(td_offsets_count(one), N);
    ck_assert_uint_eq(td_offsets_count(two), N + N / 2);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t task = i * 0x123456789abcdef1U;

        ck_assert_double_eq(found(one, 7, task), (double)i);
        ck_assert_double_eq(found(one, 8, task), -1);
        ck_assert_double_eq(found(two, 7, task), (double)i);
        ck_assert_double_eq(found(two, 8, task), i < N / 2 ? 0.5 : -1);
    }
    ck_assert_double_eq(found(one, 7, 1), -1);
    td_offsets_free(one);
    td_offsets_free(two);
    free(o);
}
END_TEST

START_TEST(new_offsets_take_the_place_of_old_ones_and_too_few_programs_take_them_away)
{
    const struct st_offset first[] = {offset(1, 0.1, 5), offset(2, 0.2, 5), offset(3, 0.3, 5)};
    const struct st_offset second[] = {offset(2, 0.9, 12), offset(3, 0.9, 4), offset(4, 0.4, 4)};
    struct td_offsets *a = with(NULL, 1, first, 3), *b = with(a, 1, second, 3), *none;
    const struct st_offset gone[] = {offset(1, 0, 0), offset(2, 0, 0)};

    ck_assert_uint_eq(td_offsets_count(b), 2);
    ck_assert_double_eq(found(b, 1, 1), 0.1);
    ck_assert_double_eq(found(b, 1, 2), 0.9);
    ck_assert_double_eq(found(b, 1, 3), -1);
    ck_assert_double_eq(found(b, 1, 4), -1);
    ck_assert_double_eq(found(a, 1, 2), 0.2); /* the old table is as it was */
    none = with(b, 1, gone, 2);
    ck_assert_ptr_null(none);
    td_offsets_free(a);
    td_offsets_free(b);
}
END_TEST

START_TEST(the_store_gives_back_what_counts)
{
    struct st_model m = {.role = "ac", .owner = "x", .features_version = "tclf-1", .state = "published"};
    struct st_offset o[40];
    struct td_offsets *t = NULL;
    struct st_reader *r;
    struct tp_err e = {0};
    int calibration = -1;

    sf_begin();
    sf_hardware("x", "cpu", "cpu");
    for (uint64_t i = 0; i < 40; i++)
        o[i] = offset(i + 1, (double)i, i < 3 ? 4 : 9);
    ck_assert_int_eq(st_model_reserve(sf_store, &m.id, &e), 0);
    ck_assert_int_eq(st_model_insert_with(sf_store, &m, 0, false, o, 40, &e), 0);
    r = sf_reader();
    ck_assert_int_eq(td_offsets_load(r, m.id, &t, &calibration, &e), 0);
    ck_assert_int_eq(calibration, 0);
    ck_assert_uint_eq(td_offsets_count(t), 37);
    for (uint64_t i = 0; i < 40; i++)
        ck_assert_double_eq(found(t, 1, i + 1), i < 3 ? -1 : (double)i);
    td_offsets_free(t);
    t = NULL;
    ck_assert_int_eq(td_offsets_load(r, 99, &t, &calibration, &e), -TP_E_UNKNOWN_MODEL);
    ck_assert_ptr_null(t);
    st_reader_free(r);
    sf_end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon/offsets");
    TCase *t = tcase_create("offsets");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, nothing_is_in_no_table);
    tcase_add_test(t, every_task_is_found_on_its_hardware_only);
    tcase_add_test(t, new_offsets_take_the_place_of_old_ones_and_too_few_programs_take_them_away);
    tcase_add_test(t, the_store_gives_back_what_counts);
    suite_add_tcase(s, t);
    return sf_main(s);
}
