/* tclm-1 against tests/golden/ms_features.txt, which tests/golden/ms_features.py makes: an encoder of its own. Every
 * row and summary must agree within 1e-5. Runs in the project's root folder. */
#include "proto/body.h"
#include "proto/ms.h"
#include "proto/tclfeat.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const double TOLERANCE = 1e-5;
enum { FIRST_STEP_ROW = 2, HW_COLUMN = 22, TASK_COLUMN = 23 };

/* The whole body of records, unpacked. */
static char *read_data(const char *name, size_t *n)
{
    enum { MAX = 8 << 20 };
    char path[128], *text = malloc(MAX);
    snprintf(path, sizeof path, "tests/data/metaschedule/%s.json.gz", name);
    gzFile f = gzopen(path, "rb");
    ck_assert_msg(f != NULL && text != NULL, "%s is missing; run in the project's root folder", path);
    *n = (size_t)gzread(f, text, MAX);
    gzclose(f);
    return text;
}

struct reader {
    char name[16];
    char *text;
    struct tp_body *body;
    struct tp_record record;
    long at; /* record that is in `record`, -1 none */
};

static void move_to(struct reader *r, const char *name, long record)
{
    struct tp_err e;
    size_t n;
    if (strcmp(r->name, name) != 0) {
        tp_body_close(r->body);
        free(r->text);
        snprintf(r->name, sizeof r->name, "%s", name);
        r->text = read_data(name, &n);
        r->body = tp_body_open(TP_FORM_JSON, r->text, n, &e);
        r->at = -1;
    }
    while (r->at < record) {
        ck_assert_msg(tp_body_next(r->body, &r->record, &e) == 1, "record %ld: %s %s", r->at + 1, e.pointer, e.detail);
        r->at++;
    }
}

static void compare(const float *got, int n, char *p, const char *line)
{
    float want[TCLFEAT_MAX_SUMMARY] = {0};
    while (*p == ' ') {
        long col = strtol(p, &p, 10);
        want[col] = strtof(p + 1, &p);
    }
    for (int i = 0; i < n; i++)
        if (!(fabs((double)(got[i] - want[i])) <= TOLERANCE))
            ck_abort_msg("column %d: %.9g, golden %.9g: %.60s", i, (double)got[i], (double)want[i], line);
}

START_TEST(rows_and_summaries_agree_with_another_encoder)
{
    struct reader r = {.at = -1};
    struct tclfeat_encoder *enc = tclfeat_encoder_new(TCLFEAT_TCLM_1);
    struct tclfeat_key *keys = calloc(TCLFEAT_MAX_ROWS, sizeof *keys);
    float summary[TCLFEAT_MAX_SUMMARY], row[TCLFEAT_MAX_COLS];
    FILE *f = fopen("tests/golden/ms_features.txt", "r");
    char *line = NULL, name[16], what;
    size_t cap = 0;
    int rows = 0, lines = 0, used;
    ck_assert_ptr_nonnull(f);
    tp_record_init(&r.record);
    while (getline(&line, &cap, f) > 0) {
        long record, k;
        ck_assert_int_eq(sscanf(line, "%c %15s %ld %ld%n", &what, name, &record, &k, &used), 4);
        if (r.at != record || strcmp(r.name, name) != 0) {
            move_to(&r, name, record);
            rows = tclfeat_encode(enc, &r.record, NULL, keys, summary, NULL);
        }
        if (what == 'S') {
            ck_assert_int_eq(rows, k + FIRST_STEP_ROW);
            compare(summary, tclfeat_summary_cols(TCLFEAT_TCLM_1), line + used, line);
        } else {
            tclfeat_row(TCLFEAT_TCLM_1, &keys[FIRST_STEP_ROW + k], row);
            compare(row, tclfeat_cols(TCLFEAT_TCLM_1), line + used, line);
        }
        lines++;
    }
    ck_assert_int_gt(lines, 500);
    free(line);
    fclose(f);
    free(keys);
    tclfeat_encoder_free(enc);
    tp_body_close(r.body);
    tp_record_free(&r.record);
    free(r.text);
}
END_TEST

START_TEST(hardware_and_task_rows_are_those_of_tclf_1_further_right)
{
    static const char ms[] =
        "{\"i\": [[\"[\\\"mm\\\", [128, 64]]\", \"llvm -mcpu=core-avx2\", [16, 64, 64, 0, 0, 0, 0, "
        "0]], [[], [[\"MS\", \"[\\\"EnterPostproc\\\",[],[],[]]\"]]]]}",
                      an[] =
                          "{\"i\": [[\"[\\\"mm\\\", [128, 64]]\", \"llvm -mcpu=core-avx2\", [16, 64, 64, 0, 0, 0, 0, "
                          "0]], [[], [[\"CI\", 1]]]]}";
    float a[3 * TCLFEAT_MAX_COLS], b[3 * TCLFEAT_MAX_COLS], summary[TCLFEAT_MAX_SUMMARY];
    char why[256];
    ck_assert_msg(tclfeat_encode_line(TCLFEAT_TCLM_1, ms, sizeof ms - 1, a, 3, summary, why, sizeof why) == 3, "%s",
                  why);
    ck_assert_msg(tclfeat_encode_line(TCLFEAT_TCLF_1, an, sizeof an - 1, b, 3, summary, why, sizeof why) == 3, "%s",
                  why);
    for (int row = 0; row < 2; row++) {
        ck_assert_float_eq(a[row * 64 + (row == 0 ? HW_COLUMN : TASK_COLUMN)], 1);
        for (int i = 16; i + 8 < 64; i++)
            ck_assert_float_eq(a[row * 64 + i + 8], b[row * 64 + i]);
    }
}
END_TEST

START_TEST(each_set_refuses_the_other_dialect)
{
    static const char ms[] = "{\"i\": [[\"mm\", \"llvm\"], [[], [[\"MS\", \"[\\\"Fuse\\\",[],[],[]]\"]]]]}",
                      an[] = "{\"i\": [[\"mm\", \"llvm\"], [[], [[\"CI\", 1]]]]}";
    float rows[4 * TCLFEAT_MAX_COLS], summary[TCLFEAT_MAX_SUMMARY];
    char why[256];
    for (int set = 0; set < TCLFEAT_SETS; set++) {
        const char *wrong = set == TCLFEAT_TCLM_1 ? an : ms;
        int rc = tclfeat_encode_line((enum tclfeat_set)set, wrong, strlen(wrong), rows, 4, summary, why, sizeof why);
        ck_assert_int_eq(rc, -TP_E_BAD_STATE);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("proto/tclfeat_ms1");
    TCase *tc = tcase_create("tclm-1");
    tcase_add_test(tc, rows_and_summaries_agree_with_another_encoder);
    tcase_add_test(tc, hardware_and_task_rows_are_those_of_tclf_1_further_right);
    tcase_add_test(tc, each_set_refuses_the_other_dialect);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
