/* libtclfeat: versions and tables, keys, hardware and task rows, TLP rows, foreign callers.
 * What the columns of tclf-1 hold is compared with an independent encoder in test_proto_tclfeat_golden.c. */
#include "proto/tclfeat_priv.h"

#include "tests/unit/program.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static struct program P;
static struct tclfeat_key K[TCLFEAT_MAX_ROWS];
static float row[TCLFEAT_MAX_COLS], summary[TCLFEAT_MAX_SUMMARY];
static struct tp_err err;

static void set_task(const char *key, const char *target)
{
    P.r.task.workload_key = str_of(key);
    P.r.task.target = str_of(target);
}

static void set_up(void)
{
    program_init(&P);
    set_task("[\"f\", 1, 2]", "llvm -keys=cpu");
}

static int encode(enum tclfeat_set s, const struct tclfeat_hw *hw)
{
    struct tclfeat_encoder *e = tclfeat_encoder_new(s);
    int n = tclfeat_encode(e, &P.r, hw, K, s == TCLFEAT_TCLF_1 ? summary : NULL, &err);

    tclfeat_encoder_free(e);
    return n;
}

static bool same_key(const struct tclfeat_key *a, const struct tclfeat_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void near(float have, double want)
{
    ck_assert_msg(fabs((double)have - want) < 1e-6, "%.9g, not %.9g", (double)have, want);
}

/* ---- tables ---------------------------------------------------------------------------------------------- */

START_TEST(versions_are_found_by_name)
{
    static const char *const names[] = {"tclf-1", "tlp-cpu-1", "tlp-gpu-1", "tclm-1"};
    static const int cols[] = {64, 22, 20, 64}, sums[] = {72, 0, 0, 72};

    for (int i = 0; i < TCLFEAT_SETS; i++) {
        ck_assert_str_eq(tclfeat_version((enum tclfeat_set)i), names[i]);
        ck_assert_int_eq(tclfeat_by_version(names[i]), i);
        ck_assert_int_eq(tclfeat_cols((enum tclfeat_set)i), cols[i]);
        ck_assert_int_eq(tclfeat_summary_cols((enum tclfeat_set)i), sums[i]);
    }
    ck_assert_int_eq(tclfeat_by_version("tclf-2"), -1);
    ck_assert_int_eq(tclfeat_by_version(""), -1);
}
END_TEST

/* Weights in the field carry these numbers. When a change of a table is meant, the version changes too, or no weights
 * exist yet. */
START_TEST(table_checksums_are_the_published_ones)
{
    ck_assert_uint_eq(tclfeat_crc(TCLFEAT_TCLF_1), 0x988ab4ceu);
    ck_assert_uint_eq(tclfeat_crc(TCLFEAT_TLP_CPU_1), 0xc467ccbcu);
    ck_assert_uint_eq(tclfeat_crc(TCLFEAT_TLP_GPU_1), 0x048f91dfu);
}
END_TEST

struct column {
    const char *group, *name;
    int first, count, divisor;
    const char *formula;
};

static const struct column columns[] = {
#define X(group, name, first, count, divisor, formula) {#group, #name, first, count, divisor, formula},
#include "proto/tclfeat_columns.def"
#undef X
};
enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

START_TEST(columns_of_a_row_do_not_overlap)
{
    static const struct {
        const char *groups;
        int from, to;
    } rows[] = {{"ALL STEP", 0, 64}, {"ALL HW", 0, 50}, {"ALL TASK", 0, 48}, {"NEST", 0, 32}, {"SUM", 64, 72}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int uses[TCLFEAT_MAX_SUMMARY] = {0};

        for (int c = 0; c < N_COLUMNS; c++)
            for (int j = 0; strstr(rows[i].groups, columns[c].group) && j < columns[c].count; j++)
                uses[columns[c].first + j]++;
        for (int j = 0; j < TCLFEAT_MAX_SUMMARY; j++)
            ck_assert_msg(uses[j] == (j >= rows[i].from && j < rows[i].to), "%s: column %d is used %d times",
                          rows[i].groups, j, uses[j]);
    }
}
END_TEST

START_TEST(the_manual_shows_every_column)
{
    static char text[1 << 16];
    FILE *f = fopen("docs/features.md", "r");

    ck_assert_msg(f != NULL, "docs/features.md is missing; run in the project's root folder");
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    for (int i = 0; i < N_COLUMNS; i++) {
        const struct column *c = &columns[i];
        char range[32], line[512];

        snprintf(range, sizeof range, c->count > 1 ? "%d-%d" : "%d", c->first, c->first + c->count - 1);
        snprintf(line, sizeof line, "| %s | %s | %s | %d | %s |\n", c->group, c->name, range, c->divisor, c->formula);
        ck_assert_msg(strstr(text, line) != NULL, "docs/features.md lacks: %s", line);
    }
    for (int i = 0; i < TCLFEAT_HW; i++) {
        char cell[64];

        snprintf(cell, sizeof cell, "| %d | `%s` |", i, tclfeat_hw_name(i));
        ck_assert_msg(strstr(text, cell) != NULL, "docs/features.md lacks: %s", cell);
    }
}
END_TEST

START_TEST(descriptor_names_are_in_their_order)
{
    ck_assert_str_eq(tclfeat_hw_name(0), "num_cores");
    ck_assert_str_eq(tclfeat_hw_name(9), "max_shared_memory_per_block");
    ck_assert_str_eq(tclfeat_hw_name(14), "sm_count");
    ck_assert_ptr_null(tclfeat_hw_name(15));
    ck_assert_ptr_null(tclfeat_hw_name(-1));
}
END_TEST

/* ---- keys ------------------------------------------------------------------------------------------------ */

START_TEST(a_program_is_a_hardware_row_a_task_row_and_a_row_per_step)
{
    ck_assert_int_eq(encode(TCLFEAT_TCLF_1, NULL), 2);
    SP(&P, 1, 0, 64, 8);
    AN(&P, 1, 1, 2);
    ck_assert_int_eq(encode(TCLFEAT_TCLF_1, NULL), 4);
    static const int kind[] = {14, 15, TP_STEP_SP, TP_STEP_AN};
    for (int i = 0; i < 4; i++) {
        tclfeat_row(TCLFEAT_TCLF_1, &K[i], row);
        for (int c = 0; c < 16; c++)
            ck_assert(row[c] == (c == kind[i] ? 1.0f : 0.0f));
    }
}
END_TEST

START_TEST(a_step_has_the_same_key_wherever_it_stands)
{
    SP(&P, 1, 0, 64, 8);
    CI(&P, 7);
    SP(&P, 2, 0, 64, 8);
    SP(&P, 2, 0, 8, 2);
    CI(&P, 7);
    encode(TCLFEAT_TCLF_1, NULL);
    ck_assert(same_key(&K[3], &K[6]));
    ck_assert(!same_key(&K[2], &K[4])); /* another stage */
}
END_TEST

START_TEST(a_row_hangs_on_the_loops_and_not_only_on_the_operands)
{
    SP(&P, 1, 0, 64, 8);
    AN(&P, 1, 1, 2);
    encode(TCLFEAT_TCLF_1, NULL);
    struct tclfeat_key k = K[3];
    P.ints[0] = 16; /* the length of the split */
    encode(TCLFEAT_TCLF_1, NULL);
    ck_assert(!same_key(&K[3], &k));
}
END_TEST

START_TEST(ids_beyond_the_columns_range_look_alike)
{
    CR(&P, 127);
    CR(&P, 500);
    encode(TCLFEAT_TCLF_1, NULL);
    ck_assert(same_key(&K[2], &K[3]));
}
END_TEST

static int32_t rnd(int32_t n)
{
    static uint32_t seed = 99;

    seed = seed * 1664525u + 1013904223u;
    return (int32_t)(seed >> 8) % n;
}

/* false for NaN as well */
static bool all_within(const float *v, int n, float low, float high)
{
    bool ok = true;

    for (int i = 0; i < n; i++)
        ok = ok && v[i] >= low && v[i] <= high;
    return ok;
}

START_TEST(rows_and_summary_of_absurd_programs_are_finite_and_bounded)
{
    static const int32_t extremes[] = {0, 1, 3, 511, 512, 1023, 1024, INT32_MAX - 1, INT32_MAX};

    for (int round = 0; round < 60; round++) {
        set_up();
        for (int i = 0; i < 150; i++) {
            int32_t op[4], list[8];

            for (int j = 0; j < 4; j++)
                op[j] = rnd(4) ? rnd(6) : extremes[rnd(9)];
            for (int j = 0; j < 8; j++)
                list[j] = rnd(4) ? rnd(6) : extremes[rnd(9)];
            add_step(&P, (enum tp_step_kind)rnd(TP_STEP_KINDS), op, list, (size_t)rnd(9),
                     rnd(2) ? "shared" : "auto_unroll_max_step$16");
        }
        int n = encode(TCLFEAT_TCLF_1, NULL);
        ck_assert_int_eq(n, 152);
        for (int i = 0; i < n; i++) {
            tclfeat_row(TCLFEAT_TCLF_1, &K[i], row);
            ck_assert(all_within(row, TCLF_COLS, -8.0f, 16.0f));
        }
        ck_assert(all_within(summary, TCLF_SUMMARY, 0.0f, 32.0f));
    }
}
END_TEST

START_TEST(more_steps_than_a_record_may_have_are_refused)
{
    P.r.n_steps = TP_MAX_STEPS + 1;
    ck_assert_int_eq(encode(TCLFEAT_TCLF_1, NULL), -TP_E_TOO_MANY_STEPS);
    ck_assert_int_eq(encode(TCLFEAT_TLP_CPU_1, NULL), -TP_E_TOO_MANY_STEPS);
}
END_TEST

/* ---- hardware and task rows ------------------------------------------------------------------------------ */

static void hw_row_of(const struct tclfeat_hw *hw)
{
    ck_assert_int_gt(encode(TCLFEAT_TCLF_1, hw), 0);
    tclfeat_row(TCLFEAT_TCLF_1, &K[0], row);
}

START_TEST(the_records_own_parameters_win_over_the_descriptor)
{
    struct tclfeat_hw hw = {.value = {8, 3.0, [8] = 500}, .known = 1u << 0 | 1u << 1 | 1u << 8};

    P.r.task.has_hw_params = true;
    P.r.task.hw_params[0] = 24;
    hw_row_of(&hw);
    near(row[COL(HW, VALUE) + 0], log2(25.0) / 4);
    near(row[COL(HW, VALUE) + 1], log2(4.0) / 2);
    near(row[COL(HW, VALUE) + 8], log2(501.0) / 8);
    for (int i = 0; i < TCLFEAT_HW; i++)
        ck_assert(row[COL(HW, KNOWN) + i] == (float)(hw.known >> i & 1));
}
END_TEST

START_TEST(parameters_that_tell_nothing_leave_the_descriptor_standing)
{
    static const int32_t nothing[] = {-1, 0, INT32_MAX};
    struct tclfeat_hw hw = {.value = {8}, .known = 1};

    P.r.task.has_hw_params = true;
    for (int i = 0; i < 3; i++) {
        P.r.task.hw_params[0] = nothing[i];
        hw_row_of(&hw);
        near(row[COL(HW, VALUE)], log2(9.0) / 4);
        hw_row_of(NULL);
        near(row[COL(HW, VALUE)], 0);
        near(row[COL(HW, KNOWN)], 0);
    }
}
END_TEST

START_TEST(a_descriptor_value_that_is_no_quantity_is_unknown)
{
    static const double bad[] = {-1.0, (double)NAN, -(double)INFINITY};
    struct tclfeat_hw hw = {.known = 1};

    for (int i = 0; i < 3; i++) {
        hw.value[0] = bad[i];
        hw_row_of(&hw);
        near(row[COL(HW, KNOWN)], 0);
    }
    hw.value[0] = 0.0; /* a given zero is knowledge */
    hw_row_of(&hw);
    near(row[COL(HW, KNOWN)], 1);
    hw.value[0] = (double)INFINITY;
    hw_row_of(&hw);
    ck_assert(isfinite(row[COL(HW, VALUE)]));
}
END_TEST

START_TEST(the_targets_kind_comes_from_the_record_or_else_from_the_hardware)
{
    struct tclfeat_hw hw = {.kind = TP_TARGET_GPU};

    hw_row_of(&hw);
    near(row[COL(HW, TARGET) + TP_TARGET_CPU], 1);
    set_task("[\"f\"]", "somebody/some-board");
    hw_row_of(&hw);
    near(row[COL(HW, TARGET) + TP_TARGET_GPU], 1);
    hw_row_of(NULL);
    near(row[COL(HW, TARGET) + TP_TARGET_ANY], 1);
}
END_TEST

START_TEST(a_target_that_does_not_parse_is_a_bad_task)
{
    struct tclfeat_encoder *e = tclfeat_encoder_new(TCLFEAT_TCLF_1);

    set_task("[\"f\"]", "");
    ck_assert_int_eq(tclfeat_encode(e, &P.r, NULL, K, summary, &err), -TP_E_BAD_TASK);
    ck_assert_int_eq(tclfeat_encode(e, &P.r, NULL, K, summary, NULL), -TP_E_BAD_TASK);
    set_task("[\"f\"]", "llvm");
    ck_assert_int_eq(tclfeat_encode(e, &P.r, NULL, K, summary, &err), 2);
    tclfeat_encoder_free(e);
}
END_TEST

static struct tclfeat_key task_key_of(const char *key)
{
    set_task(key, "llvm");
    encode(TCLFEAT_TCLF_1, NULL);
    return K[1];
}

START_TEST(flat_and_nested_shapes_have_equal_arguments)
{
    float flat[TCLF_COLS];
    struct tclfeat_key k = task_key_of("[\"h\", 1, 56, 64, 3, 3]");

    tclfeat_row(TCLFEAT_TCLF_1, &k, flat);
    k = task_key_of("[\"h\", [1, 56, 64], [3, 3]]");
    tclfeat_row(TCLFEAT_TCLF_1, &k, row);
    for (int c = 0; c <= COL(TASK, N_ARGS); c++)
        ck_assert(row[c] == flat[c]);
    near(row[COL(TASK, ARGS) + 1], log2(57.0) / 6);
    near(row[COL(TASK, N_ARGS)], 5.0 / 16);
    near(row[COL(TASK, WIDTH)], 3.0 / 4);
    near(row[COL(TASK, WIDTH) + 1], 2.0 / 4);
}
END_TEST

START_TEST(the_name_of_a_workload_does_not_count)
{
    struct tclfeat_key a = task_key_of("[\"conv\", 7]"), b = task_key_of("[\"matmul\", 7]"), c = task_key_of("[5, 7]");

    ck_assert(same_key(&a, &b));
    ck_assert(same_key(&a, &c));
}
END_TEST

START_TEST(a_workload_key_that_is_no_array_has_no_arguments)
{
    static const char *const keys[] = {"gemm",        "",  "[]",          "{\"a\": 1}", "[\"f\", 3", "[\"f\", 3] x",
                                       "[\"f\", 3,]", "7", "[\"f\", nan]"};
    struct tclfeat_key none = task_key_of("[\"f\"]");

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct tclfeat_key k = task_key_of(keys[i]);

        ck_assert_msg(same_key(&k, &none), "%s", keys[i]);
    }
}
END_TEST

START_TEST(numbers_of_a_workload_key_are_clamped)
{
    struct tclfeat_key k = task_key_of("[\"f\", 1e300, -1e999, -0.0, 12345678901234567890123]");

    tclfeat_row(TCLFEAT_TCLF_1, &k, row);
    near(row[COL(TASK, ARGS)], 40.0 / 6);
    near(row[COL(TASK, ARGS) + 1], -40.0 / 6);
    near(row[COL(TASK, ARGS) + 2], 0);
    near(row[COL(TASK, ARGS) + 3], 40.0 / 6);
    struct tclfeat_key zero = task_key_of("[\"f\", 0]"), minus = task_key_of("[\"f\", -0.0]");
    ck_assert(same_key(&zero, &minus));
}
END_TEST

/* One encoder that meets many tasks gives what a new one for each gives: nothing that a row hangs on escapes its
 * memory. */
START_TEST(an_encoder_notices_every_change_of_task_and_hardware)
{
    struct tclfeat_encoder *e = tclfeat_encoder_new(TCLFEAT_TCLF_1);
    static const char *const keys[] = {"[\"f\", 1, 2]", "[\"f\", 1, 3]", "[\"f\", 1, 22]"};
    static const char *const targets[] = {"llvm -keys=cpu", "cuda -keys=gpu"};
    struct tclfeat_hw hws[3] = {{.known = 0}, {.known = 1, .value = {4}}, {.known = 1, .value = {5}}};

    CR(&P, 3);
    for (int i = 0; i < 500; i++) {
        struct tclfeat_key got[TCLFEAT_MAX_ROWS];
        const struct tclfeat_hw *hw = rnd(4) ? &hws[rnd(3)] : NULL;

        set_task(keys[rnd(3)], targets[rnd(2)]);
        P.r.task.has_hw_params = rnd(2);
        P.r.task.hw_params[3] = rnd(2);
        P.r.task.layout = rnd(3);
        ck_assert_int_eq(tclfeat_encode(e, &P.r, hw, got, NULL, NULL), 3);
        ck_assert_int_eq(encode(TCLFEAT_TCLF_1, hw), 3);
        ck_assert_mem_eq(got, K, 3 * sizeof K[0]);
    }
    tclfeat_encoder_free(e);
}
END_TEST

/* ---- TLP ------------------------------------------------------------------------------------------------- */

static void tlp_row_is(enum tclfeat_set s, int i, const float *want)
{
    tclfeat_row(s, &K[i], row);
    for (int c = 0; c < tclfeat_cols(s); c++)
        ck_assert_msg(row[c] == want[c], "row %d column %d: %g, not %g", i, c, (double)row[c], (double)want[c]);
}

START_TEST(tlp_rows_are_the_published_ones)
{
    SP(&P, 2, 0, 128, 4, 32, 1);
    PR(&P, 2, 0, "auto_unroll_max_step$512");
    CHW(&P, 5, "global");
    ck_assert_int_eq(encode(TCLFEAT_TLP_CPU_1, NULL), 3);
    tlp_row_is(TCLFEAT_TLP_CPU_1, 0,
               (float[22]){[5] = 1, [11] = 2, [13] = 128, [14] = 4, [15] = 32, [16] = 1, [17] = 1});
    tlp_row_is(TCLFEAT_TLP_CPU_1, 1, (float[22]){[10] = 1, [11] = 2, [13] = 3});
    tlp_row_is(TCLFEAT_TLP_CPU_1, 2, (float[22]){[4] = 1, [11] = 5, [12] = 3});
    CHR(&P, 1, "shared", 4, 6);
    FFSP(&P, 4, 1, 2, 1, 0, 0);
    ck_assert_int_eq(encode(TCLFEAT_TLP_GPU_1, NULL), 5);
    tlp_row_is(TCLFEAT_TLP_GPU_1, 0,
               (float[20]){[6] = 1, [11] = 2, [13] = 128, [14] = 4, [15] = 32, [16] = 1, [17] = 1});
    tlp_row_is(TCLFEAT_TLP_GPU_1, 1, (float[20]){[9] = 1, [11] = 2, [13] = 5});
    tlp_row_is(TCLFEAT_TLP_GPU_1, 3, (float[20]){[1] = 1, [11] = 1, [12] = 1, [13] = 4, [14] = 6});
    tlp_row_is(TCLFEAT_TLP_GPU_1, 4, (float[20]){[5] = 1, [11] = 4, [12] = 1, [15] = 2, [16] = 1});
}
END_TEST

START_TEST(tlp_crops_operands_and_steps)
{
    RE(&P, 3, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 10, 11);
    for (int i = 0; i < 60; i++)
        CI(&P, i);
    ck_assert_int_eq(encode(TCLFEAT_TLP_CPU_1, NULL), 25);
    tlp_row_is(TCLFEAT_TLP_CPU_1, 0,
               (float[22]){[1] = 1,
                           [11] = 3,
                           [12] = 9,
                           [13] = 8,
                           [14] = 7,
                           [15] = 6,
                           [16] = 5,
                           [17] = 4,
                           [18] = 3,
                           [19] = 2,
                           [20] = 1,
                           [21] = 0});
    ck_assert_int_eq(encode(TCLFEAT_TLP_GPU_1, NULL), 40);
    tlp_row_is(
        TCLFEAT_TLP_GPU_1, 0,
        (float[20]){[8] = 1, [11] = 3, [12] = 9, [13] = 8, [14] = 7, [15] = 6, [16] = 5, [17] = 4, [18] = 3, [19] = 2});
    tlp_row_is(TCLFEAT_TLP_GPU_1, 39, (float[20]){[3] = 1, [11] = 38});
}
END_TEST

/* The published C++ encoder shifts such a row by 11 columns, the Python one raises. */
START_TEST(tlp_never_shifts_a_row_of_a_kind_it_does_not_know)
{
    SA(&P, 4, 1, 32, 8);
    FFSP(&P, 4, 1, 2, 1, 0, 0);
    CHR(&P, 1, "shared", 4);
    encode(TCLFEAT_TLP_CPU_1, NULL);
    tlp_row_is(TCLFEAT_TLP_CPU_1, 0, (float[22]){[11] = 4, [12] = 1, [13] = 32, [14] = 8});
    tlp_row_is(TCLFEAT_TLP_CPU_1, 1, (float[22]){[11] = 4, [12] = 1, [15] = 2, [16] = 1});
    tlp_row_is(TCLFEAT_TLP_CPU_1, 2, (float[22]){[11] = 1, [12] = 1, [13] = 4});
    program_init(&P);
    RF(&P, 3, 2, 1);
    CR(&P, 9);
    encode(TCLFEAT_TLP_GPU_1, NULL);
    tlp_row_is(TCLFEAT_TLP_GPU_1, 0, (float[20]){[11] = 3, [12] = 2, [13] = 1});
    tlp_row_is(TCLFEAT_TLP_GPU_1, 1, (float[20]){[11] = 9});
}
END_TEST

START_TEST(tlp_takes_an_unknown_string_as_zero)
{
    PR(&P, 2, 0, "auto_unroll_max_step$1024");
    PR(&P, 2, 0, "auto_unroll_max_step$5120");
    CHW(&P, 2, "warp");
    CHR(&P, 2, "local", 3);
    encode(TCLFEAT_TLP_CPU_1, NULL);
    tlp_row_is(TCLFEAT_TLP_CPU_1, 0, (float[22]){[10] = 1, [11] = 2});
    tlp_row_is(TCLFEAT_TLP_CPU_1, 1, (float[22]){[10] = 1, [11] = 2});
    tlp_row_is(TCLFEAT_TLP_CPU_1, 2, (float[22]){[4] = 1, [11] = 2});
    encode(TCLFEAT_TLP_GPU_1, NULL);
    tlp_row_is(TCLFEAT_TLP_GPU_1, 0, (float[20]){[9] = 1, [11] = 2, [13] = 4});
    tlp_row_is(TCLFEAT_TLP_GPU_1, 3, (float[20]){[1] = 1, [11] = 2, [13] = 3});
}
END_TEST

START_TEST(tlp_gives_one_empty_row_for_a_program_without_steps)
{
    ck_assert_int_eq(encode(TCLFEAT_TLP_CPU_1, NULL), 1);
    tlp_row_is(TCLFEAT_TLP_CPU_1, 0, (float[22]){0});
    ck_assert_int_eq(encode(TCLFEAT_TLP_GPU_1, NULL), 1);
    tlp_row_is(TCLFEAT_TLP_GPU_1, 0, (float[20]){0});
}
END_TEST

/* ---- foreign callers ------------------------------------------------------------------------------------- */

static const char line[] =
    "{\"i\": [[\"[\\\"f\\\", 8]\", \"llvm\"], [[], [[\"SP\", 1, 0, 64, [8], 1], [\"AN\", 1, 1, 2]]]]}";

START_TEST(a_line_gives_dense_rows_and_summary)
{
    float rows[8 * TCLF_COLS], s[TCLF_SUMMARY];
    char detail[64] = "untouched";

    SP(&P, 1, 0, 64, 8);
    AN(&P, 1, 1, 2);
    set_task("[\"f\", 8]", "llvm");
    ck_assert_int_eq(encode(TCLFEAT_TCLF_1, NULL), 4);
    ck_assert_int_eq(tclfeat_encode_line(TCLFEAT_TCLF_1, line, sizeof line - 1, rows, 8, s, detail, sizeof detail), 4);
    ck_assert_str_eq(detail, "");
    for (int i = 0; i < 4; i++) {
        tclfeat_row(TCLFEAT_TCLF_1, &K[i], row);
        ck_assert_mem_eq(rows + (size_t)i * TCLF_COLS, row, sizeof row);
    }
    ck_assert_mem_eq(s, summary, sizeof s);
}
END_TEST

START_TEST(a_line_never_writes_more_rows_than_there_is_room_for)
{
    float rows[3 * 22];

    for (int i = 0; i < 3 * 22; i++)
        rows[i] = -1.0f;
    ck_assert_int_eq(tclfeat_encode_line(TCLFEAT_TLP_CPU_1, line, sizeof line - 1, rows, 1, NULL, NULL, 0), 1);
    near(rows[5], 1);
    near(rows[22], -1);
    ck_assert_int_eq(tclfeat_encode_line(TCLFEAT_TLP_CPU_1, line, sizeof line - 1, rows, 3, NULL, NULL, 0), 2);
    near(rows[22 + 2], 1);
    near(rows[44], -1);
}
END_TEST

START_TEST(a_line_that_is_no_record_says_why)
{
    char detail[256] = "";
    float rows[TCLF_COLS];

    ck_assert_int_eq(tclfeat_encode_line(TCLFEAT_TCLF_1, "{", 1, rows, 1, NULL, detail, sizeof detail), -TP_E_BAD_JSON);
    ck_assert_str_ne(detail, "");
    ck_assert_int_eq(tclfeat_encode_line((enum tclfeat_set)9, line, sizeof line - 1, rows, 1, NULL, detail, 8),
                     -TP_E_BAD_PARAMETER);
    ck_assert_int_eq(strlen(detail), 7);
}
END_TEST

START_TEST(free_accepts_null)
{
    tclfeat_encoder_free(NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("proto/tclfeat");
    TCase *t = tcase_create("tclfeat");
    SRunner *sr;
    int failed;
    const TTest *all[] = {versions_are_found_by_name,
                          table_checksums_are_the_published_ones,
                          columns_of_a_row_do_not_overlap,
                          the_manual_shows_every_column,
                          descriptor_names_are_in_their_order,
                          a_program_is_a_hardware_row_a_task_row_and_a_row_per_step,
                          a_step_has_the_same_key_wherever_it_stands,
                          a_row_hangs_on_the_loops_and_not_only_on_the_operands,
                          ids_beyond_the_columns_range_look_alike,
                          rows_and_summary_of_absurd_programs_are_finite_and_bounded,
                          more_steps_than_a_record_may_have_are_refused,
                          the_records_own_parameters_win_over_the_descriptor,
                          parameters_that_tell_nothing_leave_the_descriptor_standing,
                          a_descriptor_value_that_is_no_quantity_is_unknown,
                          the_targets_kind_comes_from_the_record_or_else_from_the_hardware,
                          a_target_that_does_not_parse_is_a_bad_task,
                          flat_and_nested_shapes_have_equal_arguments,
                          the_name_of_a_workload_does_not_count,
                          a_workload_key_that_is_no_array_has_no_arguments,
                          numbers_of_a_workload_key_are_clamped,
                          an_encoder_notices_every_change_of_task_and_hardware,
                          tlp_rows_are_the_published_ones,
                          tlp_crops_operands_and_steps,
                          tlp_never_shifts_a_row_of_a_kind_it_does_not_know,
                          tlp_takes_an_unknown_string_as_zero,
                          tlp_gives_one_empty_row_for_a_program_without_steps,
                          a_line_gives_dense_rows_and_summary,
                          a_line_never_writes_more_rows_than_there_is_room_for,
                          a_line_that_is_no_record_says_why,
                          free_accepts_null};

    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, set_up, NULL);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        tcase_add_test(t, all[i]);
    suite_add_tcase(s, t);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
