/* Datasets: what is added, what is shared, what is merged, and that a refusal changes nothing. */
#include "model/dataset.h"
#include "program.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A little matmul whose tiles are v, w and whose unroll limit is u. */
static void matmul(struct program *p, const char *target, int v, int w, const char *unroll)
{
    program_init(p);
    p->r.task.n_items = 2;
    p->r.task.workload_key = str_of("[\"matmul\", 128, 128, 128]");
    p->r.task.target = str_of(target);
    SP(p, 2, 0, 128, v);
    SP(p, 2, 2, 128, w);
    RE(p, 2, 0, 2, 1, 3);
    AN(p, 2, 0, 3);
    PR(p, 2, 0, unroll);
}

static const uint8_t *key_of(int i)
{
    static uint8_t key[16];
    memset(key, 0, sizeof key);
    key[3] = (uint8_t)i;
    key[15] = (uint8_t)(i >> 8);
    return key;
}

/* Encode again, apart from the dataset, and compare row by row. */
static void check_program(const struct tm_dataset *d, uint32_t i, const struct tp_record *r)
{
    static struct tclfeat_key keys[TCLFEAT_MAX_ROWS];
    float summary[TCLFEAT_MAX_SUMMARY], row[TCLFEAT_MAX_COLS];
    struct tclfeat_encoder *enc = tclfeat_encoder_new(d->features);
    ck_assert_ptr_nonnull(enc);
    int n = tclfeat_encode(enc, r, NULL, keys, d->summary_cols ? summary : NULL, NULL);
    ck_assert_int_eq(n, (int)(d->start[i + 1] - d->start[i]));
    for (int k = 0; k < n; k++) {
        uint32_t id = d->ids[d->start[i] + (uint32_t)k];
        ck_assert_uint_lt(id, d->n_rows);
        tclfeat_row(d->features, &keys[k], row);
        ck_assert_mem_eq(row, d->rows + (size_t)id * (size_t)d->cols, (size_t)d->cols * sizeof *row);
    }
    if (d->summary_cols)
        ck_assert_mem_eq(summary, d->summary + (size_t)i * (size_t)d->summary_cols,
                         (size_t)d->summary_cols * sizeof *summary);
    tclfeat_encoder_free(enc);
}

static void holds_the_encoded_rows(enum tclfeat_set set)
{
    static struct program p;
    struct tm_dataset *d = tm_dataset_new(set);
    ck_assert_ptr_nonnull(d);
    ck_assert_uint_eq(d->n, 0);
    ck_assert_uint_eq(d->start[0], 0);
    for (int i = 0; i < 3; i++) {
        matmul(&p, "llvm", 2 << i, 8, "auto_unroll_max_step$16");
        ck_assert_int_eq(tm_dataset_add(d, &p.r, "a", key_of(i), 0.5, NULL, NULL), 1);
        check_program(d, (uint32_t)i, &p.r);
    }
    ck_assert_uint_eq(d->n, 3);
    ck_assert_uint_eq(d->n_tasks, 1);
    ck_assert_str_eq(tm_dataset_task_id(d, 0), "a");
    tm_dataset_free(d);
}

START_TEST(a_program_is_its_rows_in_every_feature_set)
{
    for (int s = 0; s < TCLFEAT_TCLM_1; s++)
        holds_the_encoded_rows((enum tclfeat_set)s);
}
END_TEST

START_TEST(equal_rows_are_stored_once)
{
    static struct program p;
    struct tm_dataset *d = tm_dataset_new(TCLFEAT_TCLF_1);
    ck_assert_ptr_nonnull(d);
    matmul(&p, "llvm", 4, 8, "auto_unroll_max_step$16");
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "a", key_of(1), 0.5, NULL, NULL), 1);
    uint32_t rows = d->n_rows;
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "a", key_of(2), 0.5, NULL, NULL), 1);
    ck_assert_uint_eq(d->n_rows, rows);
    ck_assert_mem_eq(d->ids, d->ids + d->start[1], d->start[1] * sizeof *d->ids);
    matmul(&p, "llvm", 4, 8, "auto_unroll_max_step$64");
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "a", key_of(3), 0.5, NULL, NULL), 1);
    ck_assert_uint_eq(d->n_rows, rows + 1);
    tm_dataset_free(d);
}
END_TEST

START_TEST(a_program_measured_again_keeps_its_minimum)
{
    static struct program p;
    struct tm_dataset *d = tm_dataset_new(TCLFEAT_TCLF_1);
    ck_assert_ptr_nonnull(d);
    matmul(&p, "llvm", 4, 8, "auto_unroll_max_step$16");
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "a", key_of(1), INFINITY, NULL, NULL), 1);
    ck_assert(isinf(d->cost[0]));
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "a", key_of(1), 0.5, NULL, NULL), 0);
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "a", key_of(1), 0.25, NULL, NULL), 0);
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "a", key_of(1), 0.75, NULL, NULL), 0);
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "a", key_of(1), INFINITY, NULL, NULL), 0);
    ck_assert_double_eq(d->cost[0], 0.25);
    ck_assert_uint_eq(d->n, 1);
    tm_dataset_free(d);
}
END_TEST

START_TEST(noise_comes_from_the_faster_half_of_the_repeats)
{
    double many[100];
    const double five[] = {1.3, 1.0, 1.2, 1.1, 1.05}, three[] = {2, 1, 3};
    for (int i = 0; i < 100; i++)
        many[i] = 1e-3 * (1 + (i * 37 % 101) / 100.0);
    ck_assert_double_eq_tol(tm_noise(five, 5), 0.03550319884055798, 1e-12);
    ck_assert_double_eq_tol(tm_noise(three, 3), 0.09574378028313524, 1e-12);
    ck_assert_double_eq_tol(tm_noise(many, 100), 0.07262103129559777, 1e-12); /* of the first 64 */
    ck_assert_double_eq(tm_noise(three, 2), 0);
    ck_assert_double_eq(tm_noise(three, 0), 0);
}
END_TEST

START_TEST(the_same_key_in_another_task_is_another_program)
{
    static struct program p;
    struct tm_dataset *d = tm_dataset_new(TCLFEAT_TCLF_1);
    ck_assert_ptr_nonnull(d);
    matmul(&p, "llvm", 4, 8, "auto_unroll_max_step$16");
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "0123456789abcdef", key_of(1), 1, NULL, NULL), 1);
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "0123456789abcdee", key_of(1), 2, NULL, NULL), 1);
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "0123456789abcdef", key_of(1), 3, NULL, NULL), 0);
    ck_assert_uint_eq(d->n_tasks, 2);
    ck_assert(d->task[0] == 0 && d->task[1] == 1);
    ck_assert_str_eq(tm_dataset_task_id(d, 1), "0123456789abcdee");
    tm_dataset_free(d);
}
END_TEST

START_TEST(a_refused_program_leaves_no_trace)
{
    static struct program p;
    struct tp_err e;
    struct tm_dataset *d = tm_dataset_new(TCLFEAT_TCLF_1);
    ck_assert_ptr_nonnull(d);
    matmul(&p, "{\"no\": \"kind\"}", 4, 8, "auto_unroll_max_step$16");
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "a", key_of(1), 1, NULL, &e), -TP_E_BAD_TASK);
    matmul(&p, "llvm", 4, 8, "auto_unroll_max_step$16");
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "a", key_of(1), NAN, NULL, &e), -TP_E_BAD_RESULT);
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "a", key_of(1), 0, NULL, &e), -TP_E_BAD_RESULT);
    ck_assert_int_eq(tm_dataset_add(d, &p.r, "0123456789abcdef0", key_of(1), 1, NULL, &e), -TP_E_BAD_TASK);
    ck_assert(d->n == 0 && d->n_tasks == 0 && d->n_rows == 0);
    tm_dataset_free(d);
}
END_TEST

START_TEST(thousands_of_programs_stay_what_they_were)
{
    enum { N = 3000 };
    static struct program p;
    struct tm_dataset *d = tm_dataset_new(TCLFEAT_TCLF_1);
    char task[24], unroll[40];
    ck_assert_ptr_nonnull(d);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < N; i++) {
            snprintf(task, sizeof task, "t%d", i % 150);
            snprintf(unroll, sizeof unroll, "auto_unroll_max_step$%d", i / 30);
            matmul(&p, "llvm", 1 + i % 61, 1 + i % 7, unroll);
            ck_assert_int_eq(tm_dataset_add(d, &p.r, task, key_of(i / 150), 1.0 / (1 + i + pass), NULL, NULL),
                             pass == 0);
        }
    }
    ck_assert_uint_eq(d->n, N);
    ck_assert_uint_eq(d->n_tasks, 150);
    ck_assert_uint_lt(d->n_rows, N * 7 / 4);
    for (int i = 0; i < N; i += 97) {
        snprintf(unroll, sizeof unroll, "auto_unroll_max_step$%d", i / 30);
        matmul(&p, "llvm", 1 + i % 61, 1 + i % 7, unroll);
        check_program(d, (uint32_t)i, &p.r);
        ck_assert_uint_eq(d->task[i], (uint32_t)i % 150);
        ck_assert_double_eq(d->cost[i], 1.0 / (2 + i));
    }
    tm_dataset_free(d);
}
END_TEST

static const float *row_of(const struct tm_dataset *d, uint32_t i, uint32_t r)
{
    return d->rows + (size_t)d->ids[d->start[i] + r] * (size_t)d->cols;
}

START_TEST(a_masked_copy_lacks_rows_and_columns_and_nothing_else)
{
    static struct program p;
    struct tm_dataset *d = tm_dataset_new(TCLFEAT_TCLF_1);
    for (int i = 0; i < 3; i++) {
        matmul(&p, "llvm", 2 << i, 8, "auto_unroll_max_step$16");
        ck_assert_int_eq(tm_dataset_add(d, &p.r, "a", key_of(i), 0.5 + i, NULL, NULL), 1);
    }
    tm_dataset_set_noise(d, 1, 0.25);
    const struct tm_mask nothing = {0}, rows = {.noise = true, .hardware_row = true, .task_row = true, .summary = true},
                         unroll = {.columns.columns = TCLFEAT_BIT(STEP_UNROLL)};
    struct tm_dataset *same = tm_dataset_masked(d, &nothing), *less = tm_dataset_masked(d, &rows),
                      *mask = tm_dataset_masked(d, &unroll);
    ck_assert(same && less && mask);
    ck_assert_mem_eq(same->rows, d->rows, d->n_rows * (size_t)d->cols * sizeof *d->rows);
    ck_assert_mem_eq(same->summary, d->summary, d->n * (size_t)d->summary_cols * sizeof *d->summary);
    ck_assert_mem_eq(same->ids, d->ids, d->start[d->n] * sizeof *d->ids);
    ck_assert_mem_eq(same->cost, d->cost, d->n * sizeof *d->cost);
    ck_assert_mem_eq(same->noise, d->noise, d->n * sizeof *d->noise);
    ck_assert_double_eq(less->noise[1], 0);
    ck_assert_str_eq(tm_dataset_task_id(same, 0), "a");
    ck_assert_int_eq(less->summary_cols, 0);
    for (uint32_t i = 0; i < d->n; i++) {
        ck_assert_uint_eq(less->start[i + 1] - less->start[i], d->start[i + 1] - d->start[i] - 2);
        ck_assert_mem_eq(row_of(less, i, 0), row_of(d, i, 2), (size_t)d->cols * sizeof *d->rows);
        check_program(d, i, (matmul(&p, "llvm", 2 << i, 8, "auto_unroll_max_step$16"), &p.r)); /* d is as it was */
    }
    /* the pragma is the last row; its limit is column 46 */
    ck_assert_float_gt(row_of(d, 0, 6)[46], 0);
    ck_assert_float_eq(row_of(mask, 0, 6)[46], 0);
    ck_assert_mem_eq(row_of(mask, 0, 2), row_of(d, 0, 2), (size_t)d->cols * sizeof *d->rows);
    ck_assert_int_eq(tm_dataset_add(less, &p.r, "a", key_of(9), 0.5, NULL, NULL), -TP_E_UNUSABLE);
    tm_dataset_free(d);
    tm_dataset_free(same);
    tm_dataset_free(less);
    tm_dataset_free(mask);
}
END_TEST

START_TEST(freeing_nothing_is_fine)
{
    tm_dataset_free(NULL);
    tm_dataset_free(tm_dataset_new(TCLFEAT_TLP_GPU_1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model/dataset");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, a_program_is_its_rows_in_every_feature_set);
    tcase_add_test(c, equal_rows_are_stored_once);
    tcase_add_test(c, a_program_measured_again_keeps_its_minimum);
    tcase_add_test(c, noise_comes_from_the_faster_half_of_the_repeats);
    tcase_add_test(c, the_same_key_in_another_task_is_another_program);
    tcase_add_test(c, a_refused_program_leaves_no_trace);
    tcase_add_test(c, thousands_of_programs_stay_what_they_were);
    tcase_add_test(c, a_masked_copy_lacks_rows_and_columns_and_nothing_else);
    tcase_add_test(c, freeing_nothing_is_fine);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
