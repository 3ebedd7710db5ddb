/* MetaSchedule tuning records as records: what they become, what is refused and why, and that nothing of a trace is
 * lost on the way through the store's form. */
#include "proto/body.h"
#include "proto/ms.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define TRACE                                                                                                          \
    "[[[\"GetBlock\", [], [\"mm\", \"main\"], [\"b0\"]], [\"GetLoops\", [\"b0\"], [], [\"l1\", \"l2\"]], "             \
    "[\"SamplePerfectTile\", [\"l1\"], [2, 64], [\"v3\", \"v4\"]], [\"Annotate\", [\"b0\", \"\\\"SSRSRS\\\"\"], "      \
    "[\"meta_schedule.tiling_structure\"], []]], [[2, [8, 16]]]]"
#define TARGET              "{\"kind\": \"llvm\", \"mcpu\": \"core-avx2\"}"
#define ARGS                "[[\"TENSOR\", \"float32\", [128, 128]]]"
#define BODY(head, records) "{\"format\": \"metaschedule\", " head "\"records\": [" records "]}"

static struct tp_record r;
static struct tp_err e;

static void set_up(void)
{
    tp_record_init(&r);
}

static void tear_down(void)
{
    tp_record_free(&r);
}

/* The first record's result of a body. */
static int first(const char *body)
{
    struct tp_body *b = tp_body_open(TP_FORM_JSON, body, strlen(body), &e);
    int rc = tp_body_next(b, &r, &e);
    tp_body_close(b);
    return rc;
}

static bool is(struct tp_str s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.s, text, s.n) == 0;
}

START_TEST(a_tuning_record_becomes_steps_with_their_decisions)
{
    ck_assert_msg(first(BODY("\"workload\": \"w1\", ", "[" TRACE ", [0.25, 0.5], " TARGET ", " ARGS "]")) == 1, "%s",
                  e.detail);
    ck_assert_uint_eq(r.n_steps, 4);
    ck_assert(tp_ms_is(&r));
    ck_assert(is(r.task.workload_key, "[\"w1\",[\"TENSOR\",\"float32\",[128,128]]]"));
    ck_assert(is(r.task.target, "{\"kind\":\"llvm\",\"mcpu\":\"core-avx2\"}"));
    ck_assert(is(r.steps[2].str, "[\"SamplePerfectTile\",[\"l1\"],[2,64],[\"v3\",\"v4\"],[8,16]]"));
    ck_assert(is(r.steps[3].str, "[\"Annotate\",[\"b0\",\"\\\"SSRSRS\\\"\"],[\"meta_schedule.tiling_structure\"],[]]"));
    ck_assert_uint_eq(r.result.n_costs, 2);
    ck_assert_double_eq(r.result.costs[1], 0.5);
    ck_assert_int_eq(tp_record_label(&r), TP_LABEL_VALID);
}
END_TEST

START_TEST(what_a_record_lacks_comes_from_the_body)
{
    ck_assert_int_eq(first(BODY("\"workload\": \"w1\", \"target\": \"llvm -mcpu=core-avx2\", \"args_info\": " ARGS ", ",
                                "[" TRACE "]")),
                     1);
    ck_assert(is(r.task.target, "llvm -mcpu=core-avx2"));
    ck_assert(is(r.task.workload_key, "[\"w1\",[\"TENSOR\",\"float32\",[128,128]]]"));
    ck_assert(!r.has_result);
    ck_assert_int_eq(first(BODY("\"workloads\": [\"x\", [\"12345\", \"bW9k\"]], \"target\": " TARGET ", ",
                                "[1, [" TRACE ", null, null, null]]")),
                     1);
    ck_assert(is(r.task.workload_key, "[\"12345\"]"));
    ck_assert(!r.has_result);
}
END_TEST

START_TEST(a_failed_run_is_a_failure)
{
    ck_assert_int_eq(first(BODY("\"workload\": \"w\", ", "[" TRACE ", [1e10], " TARGET "]")), 1);
    ck_assert_int_eq(tp_record_label(&r), TP_LABEL_FAILURE);
}
END_TEST

static const struct {
    const char *body;
    enum tp_code code;
    const char *pointer, *part;
} unusable[] = {
    {BODY("", "[" TRACE ", null, " TARGET "]"), TP_E_BAD_TASK, "", "workload"},
    {BODY("\"workload\": \"w\", ", "[" TRACE "]"), TP_E_BAD_TASK, "/2", "target"},
    {BODY("\"target\": \"llvm\", ", "[3, [" TRACE "]]"), TP_E_BAD_TASK, "/0", "workload 3"},
    {BODY("\"target\": \"llvm\", \"workloads\": [\"a\"], ", "[1, [" TRACE "]]"), TP_E_BAD_TASK, "/0", "there are 1"},
    {BODY("\"workload\": \"w\", \"target\": \"llvm\", ", "{}"), TP_E_BAD_STATE, "", "tuning record"},
    {BODY("\"workload\": \"w\", \"target\": \"llvm\", ", "[[[], []]]"), TP_E_BAD_STATE, "/0/0", "no instruction"},
    {BODY("\"workload\": \"w\", \"target\": \"llvm\", ", "[[[1], []]]"), TP_E_BAD_STEP, "/0/0/0", "an instruction is"},
    {BODY("\"workload\": \"w\", \"target\": \"llvm\", ", "[[[[\"Fuse\", [], []]], []]]"), TP_E_BAD_STEP, "/0/0/0",
     "an instruction is"},
    {BODY("\"workload\": \"w\", \"target\": \"llvm\", ", "[[[[\"Fuse\", [], [], []]], [[4, 1]]]]"), TP_E_BAD_STATE,
     "/0/1", "decisions"},
    {BODY("\"workload\": \"w\", \"target\": \"llvm\", ", "[[[[\"Fuse\", [], [], []]], []], 3]"), TP_E_BAD_STATE, "/1",
     "run_secs"},
    {BODY("\"workload\": \"w\", \"target\": {\"key\": 1}, ", "[" TRACE "]"), TP_E_BAD_TASK, "/i/0/1", "kind"},
    {BODY("\"workload\": \"w\", \"target\": \"llvm\", ", "[" TRACE ", [\"x\"]]"), TP_E_BAD_RESULT, "/r/0/0", ""},
};

START_TEST(an_unusable_one_says_why_and_leaves_its_neighbours)
{
    ck_assert_msg(first(unusable[_i].body) == 2, "%s", unusable[_i].body);
    ck_assert_msg(e.code == unusable[_i].code && strcmp(e.pointer, unusable[_i].pointer) == 0 &&
                      strstr(e.detail, unusable[_i].part),
                  "%s: %d at \"%s\": %s", unusable[_i].body, (int)e.code, e.pointer, e.detail);
    /* a good one behind it */
    size_t n = strlen(unusable[_i].body);
    char *two = calloc(1, n + sizeof TRACE + sizeof TARGET + 40);
    memcpy(two, unusable[_i].body, n - 2);
    strcat(two, ", [" TRACE ", null, " TARGET "]]}");
    struct tp_body *b = tp_body_open(TP_FORM_JSON, two, strlen(two), &e);
    ck_assert_int_eq(tp_body_next(b, &r, &e), 2);
    int rc = tp_body_next(b, &r, &e);
    ck_assert(rc == 1 || strstr(unusable[_i].body, "\"workload\":") == NULL);
    ck_assert_int_eq(tp_body_next(b, &r, &e), 0);
    tp_body_close(b);
    free(two);
}
END_TEST

static const char *const broken[] = {
    "{\"format\": \"tensorflow\", \"records\": []}",
    "{\"format\": \"metaschedule\"}",
    "{\"format\": \"metaschedule\", \"records\": 1}",
    "{\"format\": \"metaschedule\", \"colour\": 1, \"records\": []}",
    "{\"format\": \"metaschedule\", \"target\": 1, \"target\": 2, \"records\": []}",
    "{\"format\": \"metaschedule\", \"records\": [[]], \"workload\": \"w\"}",
    "{\"format\": \"metaschedule\", \"records\": [[1 2]]}",
    "{\"records\": [], \"format\": \"metaschedule\"}",
};

START_TEST(a_broken_envelope_fails_the_whole_body)
{
    struct tp_body *b = tp_body_open(TP_FORM_JSON, broken[_i], strlen(broken[_i]), &e);
    int rc;
    while ((rc = tp_body_next(b, &r, &e)) > 0)
        ;
    ck_assert_msg(rc == -TP_E_BAD_BODY, "%s: %d", broken[_i], rc);
    tp_body_close(b);
}
END_TEST

START_TEST(only_the_first_key_tells_the_format)
{
    static const char yes[] = " {\"format\": \"metaschedule\", ", no[] = "{\"records\": []}";
    ck_assert(tp_body_is_metaschedule(yes, sizeof yes - 1));
    ck_assert(!tp_body_is_metaschedule(no, sizeof no - 1));
    ck_assert(!tp_body_is_metaschedule("", 0));
    ck_assert(!tp_body_is_metaschedule("{\"format\": \"ansor\"", 18));
}
END_TEST

START_TEST(a_trace_survives_packing_and_printing)
{
    struct tp_record back, again;
    struct tp_buf packed = {0}, text = {0}, other = {0};
    ck_assert_int_eq(first(BODY("\"workload\": \"w\", ", "[" TRACE ", [0.5], " TARGET ", " ARGS "]")), 1);
    tp_record_init(&back);
    tp_record_init(&again);
    tp_steps_pack(r.steps, r.n_steps, &packed);
    ck_assert_int_eq(tp_steps_unpack(&back, packed.p, packed.n, &e), 0);
    tp_steps_emit(r.steps, r.n_steps, &text);
    tp_steps_emit(back.steps, back.n_steps, &other);
    ck_assert_uint_eq(text.n, other.n);
    ck_assert_mem_eq(text.p, other.p, text.n);
    text.n = 0;
    tp_record_emit(&r, &text);
    ck_assert_msg(tp_record_parse(&again, text.p, text.n, &e) == 0, "%s", e.detail);
    ck_assert_uint_eq(again.n_steps, 4);
    ck_assert(is(again.steps[2].str, "[\"SamplePerfectTile\",[\"l1\"],[2,64],[\"v3\",\"v4\"],[8,16]]"));
    tp_record_free(&back);
    tp_record_free(&again);
    tp_buf_free(&packed);
    tp_buf_free(&text);
    tp_buf_free(&other);
}
END_TEST

START_TEST(the_dialects_do_not_mix_in_one_program)
{
    static const char a[] = "{\"i\": [[\"k\", \"llvm\"], [[], [[\"CI\", 1], [\"MS\", \"[\\\"Fuse\\\",[],[],[]]\"]]]]}",
                      b[] = "{\"i\": [[\"k\", \"llvm\"], [[], [[\"MS\", \"[\\\"Fuse\\\",[],[],[]]\"], [\"CI\", 1]]]]}",
                      c[] = "{\"i\": [[\"k\", \"llvm\"], [[], [[\"MS\", \"no instruction\"]]]]}";
    ck_assert_int_eq(tp_record_parse(&r, a, sizeof a - 1, &e), -TP_E_BAD_STEP);
    ck_assert_int_eq(tp_record_parse(&r, b, sizeof b - 1, &e), -TP_E_BAD_STEP);
    ck_assert_int_eq(tp_record_parse(&r, c, sizeof c - 1, &e), -TP_E_BAD_STEP);
}
END_TEST

START_TEST(an_instruction_is_laid_flat)
{
    static const char text[] = "[\"SampleCategorical\",[\"b1\",[\"l2\",3],\"\\\"x\\\"\",{\"a\":[1,2]},null],[[0,16],"
                               "[0.5,0.5]],[\"v7\"],1]";
    struct tp_ms_inst i;
    ck_assert_int_eq(tp_ms_parse(text, sizeof text - 1, &i, &e), 0);
    ck_assert_str_eq(i.name, "SampleCategorical");
    ck_assert_int_eq(i.n_in, 6);
    ck_assert_int_eq(i.in[0].kind, TP_MS_NAME);
    ck_assert_int_eq(i.in[1].kind, TP_MS_NAME);
    ck_assert_double_eq(i.in[2].number, 3);
    ck_assert_int_eq(i.in[3].kind, TP_MS_STRING);
    ck_assert_str_eq(i.in[3].text, "x");
    ck_assert_int_eq(i.in[4].kind, TP_MS_OTHER);
    ck_assert_int_eq(i.n_attr, 4);
    ck_assert_double_eq(i.attr[1].number, 16);
    ck_assert_int_eq(i.n_out, 1);
    ck_assert_int_eq(i.n_decision, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("proto/ms");
    TCase *tc = tcase_create("records");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_tuning_record_becomes_steps_with_their_decisions);
    tcase_add_test(tc, what_a_record_lacks_comes_from_the_body);
    tcase_add_test(tc, a_failed_run_is_a_failure);
    tcase_add_loop_test(tc, an_unusable_one_says_why_and_leaves_its_neighbours, 0,
                        (int)(sizeof unusable / sizeof *unusable));
    tcase_add_loop_test(tc, a_broken_envelope_fails_the_whole_body, 0, (int)(sizeof broken / sizeof *broken));
    tcase_add_test(tc, only_the_first_key_tells_the_format);
    tcase_add_test(tc, a_trace_survives_packing_and_printing);
    tcase_add_test(tc, the_dialects_do_not_mix_in_one_program);
    tcase_add_test(tc, an_instruction_is_laid_flat);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
