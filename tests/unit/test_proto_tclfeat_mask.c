/* Masks of tclf-1: each name clears its columns of its kind of row, and nothing else. Columns are written as numbers
 * here, from docs/features.md. */
#include "proto/tclfeat_mask.h"

#include "proto/tclfeat.h"

#include <check.h>
#include <stdlib.h>

/* A row of a kind, with ones in every other column. */
static void fill(float row[TCLFEAT_MAX_COLS], int kind)
{
    for (int i = 0; i < TCLFEAT_MAX_COLS; i++)
        row[i] = i >= 16 || i == kind ? 1.0f : 0.0f;
}

/* Is exactly first .. first + count cleared? */
static void check_row(const struct tclfeat_mask *m, int kind, int first, int count)
{
    float row[TCLFEAT_MAX_COLS];
    fill(row, kind);
    tclfeat_mask_row(m, row);
    for (int i = 0; i < TCLFEAT_MAX_COLS; i++)
        ck_assert_msg(row[i] == ((i >= 16 || i == kind) && !(i >= first && i < first + count) ? 1.0f : 0.0f),
                      "kind %d, column %d", kind, i);
}

START_TEST(the_kind_of_a_row_is_its_one_hot)
{
    float row[TCLFEAT_MAX_COLS];
    for (int kind = 0; kind <= TCLFEAT_ROW_TASK; kind++) {
        fill(row, kind);
        ck_assert_int_eq(tclfeat_row_kind(row), kind);
    }
    ck_assert_int_eq(TCLFEAT_ROW_HARDWARE, 14);
    ck_assert_int_eq(TCLFEAT_ROW_TASK, 15);
}
END_TEST

START_TEST(a_name_clears_its_columns_in_its_rows_only)
{
    const struct tclfeat_mask parts = {.columns = TCLFEAT_BIT(STEP_PARTS)}, args = {.columns = TCLFEAT_BIT(TASK_ARGS)},
                              known = {.columns = TCLFEAT_BIT(HW_KNOWN)}, kind = {.columns = TCLFEAT_BIT(ALL_KIND)};
    for (int k = 0; k < TP_STEP_KINDS; k++) {
        check_row(&parts, k, 36, 5);
        check_row(&args, k, 0, 0);
        check_row(&kind, k, 0, 16);
    }
    check_row(&parts, TCLFEAT_ROW_TASK, 0, 0);
    check_row(&args, TCLFEAT_ROW_TASK, 16, 24);
    check_row(&args, TCLFEAT_ROW_HARDWARE, 0, 0);
    check_row(&known, TCLFEAT_ROW_HARDWARE, 31, 15);
    check_row(&kind, TCLFEAT_ROW_TASK, 0, 16);
}
END_TEST

START_TEST(operands_of_a_split_outlive_a_mask_of_the_replay)
{
    const struct tclfeat_mask m = {.replayed = TCLFEAT_BIT(STEP_EXTENT)};
    check_row(&m, TP_STEP_SP, 0, 0);
    check_row(&m, TP_STEP_SA, 0, 0);
    check_row(&m, TP_STEP_FU, 35, 1);
    check_row(&m, TP_STEP_AN, 35, 1);
    check_row(&m, TCLFEAT_ROW_TASK, 0, 0);
}
END_TEST

START_TEST(names_of_a_nest_clear_both_nests)
{
    const struct tclfeat_mask m = {.columns = TCLFEAT_BIT(NEST_TILE) | TCLFEAT_BIT(SUM_STEPS)};
    float s[TCLFEAT_MAX_SUMMARY];
    for (int i = 0; i < TCLFEAT_MAX_SUMMARY; i++)
        s[i] = 1.0f;
    tclfeat_mask_summary(&m, s);
    for (int i = 0; i < TCLFEAT_MAX_SUMMARY; i++) {
        const int cleared = (i >= 14 && i < 20) || (i >= 46 && i < 52) || i == 67;
        ck_assert_msg(s[i] == (cleared ? 0.0f : 1.0f), "column %d", i);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proto/tclfeat_mask");
    TCase *c = tcase_create("all");
    tcase_add_test(c, the_kind_of_a_row_is_its_one_hot);
    tcase_add_test(c, a_name_clears_its_columns_in_its_rows_only);
    tcase_add_test(c, operands_of_a_split_outlive_a_mask_of_the_replay);
    tcase_add_test(c, names_of_a_nest_clear_both_nests);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
