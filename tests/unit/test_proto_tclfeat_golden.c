/* libtclfeat against tests/golden/features.txt, which tests/golden/features.py makes: an encoder of its own, written
 * from docs/features.md. Every row and summary of every record must agree within 1e-6. Runs in the project's root
 * folder. */
#include "proto/tclfeat.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VECTORS = 8192, WIDTH = 72 };
static const double TOLERANCE = 1e-6;

static float vectors[MAX_VECTORS][WIDTH];
static int n_vectors;

/* As HW in features.py. */
static const struct tclfeat_hw hw = {
    .kind = TP_TARGET_ANY,
    .value = {48, 2.75, 32, 0, 0, 2097152, 35651584.0, 204.8, 0, 0, 0, 0, 0, 0, 80},
    .known = 1u << 0 | 1u << 1 | 1u << 2 | 1u << 5 | 1u << 6 | 1u << 7 | 1u << 9 | 1u << 14,
};

static FILE *open_or_fail(const char *path)
{
    FILE *f = fopen(path, "r");

    ck_assert_msg(f != NULL, "%s is missing; run in the project's root folder", path);
    return f;
}

static void read_vector(char *text)
{
    char *p = text;
    long id = strtol(p, &p, 10);

    ck_assert_int_eq(id, n_vectors);
    ck_assert_int_lt(n_vectors, MAX_VECTORS);
    while (*p == ' ') {
        long col = strtol(p, &p, 10);

        if (*p != ':' || col < 0 || col >= WIDTH)
            ck_abort_msg("golden vector %ld is malformed", id);
        vectors[n_vectors][col] = strtof(p + 1, &p);
    }
    n_vectors++;
}

/* Checks only where it fails: each check costs a system call, and there are half a million numbers. */
static void compare(const float *got, int n, long id, long record, int row)
{
    ck_assert(id >= 0 && id < n_vectors);
    for (int i = 0; i < WIDTH; i++) {
        double want = (double)vectors[id][i], have = i < n ? (double)got[i] : 0.0;

        if (!(fabs(have - want) <= TOLERANCE))
            ck_abort_msg("record %ld, %s %d, column %d: %.9g, golden %.9g", record, row < 0 ? "summary" : "row", row, i,
                         have, want);
    }
}

static void compare_program(enum tclfeat_set set, char *ids, const struct tp_record *r, long record)
{
    static struct tclfeat_key keys[TCLFEAT_MAX_ROWS];
    struct tclfeat_encoder *e = tclfeat_encoder_new(set);
    float summary[TCLFEAT_MAX_SUMMARY], row[TCLFEAT_MAX_COLS];
    struct tp_err err;
    int n, i;

    ck_assert_ptr_nonnull(e);
    n = tclfeat_encode(e, r, record % 2 ? &hw : NULL, keys, set == TCLFEAT_TCLF_1 ? summary : NULL, &err);
    ck_assert_msg(n > 0, "record %ld: %s", record, err.detail);
    if (set == TCLFEAT_TCLF_1)
        compare(summary, TCLFEAT_MAX_SUMMARY, strtol(ids, &ids, 10), record, -1);
    else
        ids++; /* '-' */
    for (i = 0; *ids == ' '; i++) {
        ck_assert_int_lt(i, n);
        tclfeat_row(set, &keys[i], row);
        compare(row, tclfeat_cols(set), strtol(ids, &ids, 10), record, i);
    }
    ck_assert_int_eq(i, n);
    tclfeat_encoder_free(e);
}

START_TEST(rows_and_summaries_equal_the_golden_ones)
{
    FILE *records = open_or_fail("tests/golden/records.ndjson"), *golden = open_or_fail("tests/golden/features.txt");
    char *line = NULL, *text = NULL;
    size_t cap = 0, text_cap = 0;
    long at = -1;
    int programs = 0;
    struct tp_record r;

    tp_record_init(&r);
    while (getline(&line, &cap, golden) > 0) {
        char kind, set[32];
        long n;
        int used, s;

        if (sscanf(line, "V %31s %n", set, &used) == 1) {
            read_vector(line + used);
            continue;
        }
        ck_assert_int_eq(sscanf(line, "%c %ld %31s %n", &kind, &n, set, &used), 3);
        s = tclfeat_by_version(set);
        ck_assert_int_ge(s, 0);
        for (; at < n; at++) {
            struct tp_err err;
            ssize_t len = getline(&text, &text_cap, records);

            ck_assert_int_gt(len, 1);
            ck_assert_msg(tp_record_parse(&r, text, (size_t)len - 1, &err) == 0, "record %ld: %s", n, err.detail);
        }
        compare_program((enum tclfeat_set)s, line + used, &r, n);
        programs++;
    }
    ck_assert_int_ge(programs, 3 * 40);
    tp_record_free(&r);
    free(line);
    free(text);
    fclose(records);
    fclose(golden);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("proto/tclfeat (golden)");
    TCase *t = tcase_create("golden");
    SRunner *sr;
    int failed;

    tcase_set_timeout(t, 60);
    tcase_add_test(t, rows_and_summaries_equal_the_golden_ones);
    suite_add_tcase(s, t);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
