/* The acceptance rules of docs/records.md: what a record may be, one rule per case, and how a refusal tells the place.
 */
#include "proto/record.h"
#include "tests/unit/proto_lines.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void changed_accepted(const char *line, const char *from, const char *to)
{
    char *text = with(line, from, to);
    record_accepted(text);
    free(text);
}

static void changed_refused(const char *line, const char *from, const char *to, enum tp_code code, const char *pointer,
                            const char *says)
{
    char *text = with(line, from, to);
    record_refused(text, code, pointer, says);
    free(text);
}

/* ---- what is read --------------------------------------------------------------------------------------------------
 */

static bool str_is(struct tp_str s, const char *want)
{
    return s.n == strlen(want) && memcmp(s.s, want, s.n) == 0;
}

START_TEST(every_part_of_a_record_is_read)
{
    struct tp_record r;
    struct tp_err e;
    tp_record_init(&r);
    ck_assert_int_eq(tp_record_parse(&r, CPU_LINE, strlen(CPU_LINE), &e), 0);
    ck_assert_int_eq(r.task.n_items, 6);
    ck_assert(str_is(r.task.workload_key, "[\"gemm_demo\", 96, 80, 48, \"float32\"]"));
    ck_assert(str_is(r.task.target, "llvm -keys=cpu -mcpu=skylake-avx512 -model=lab-xeon-a"));
    ck_assert(r.task.has_hw_params);
    ck_assert_int_eq(r.task.hw_params[0], 16);
    ck_assert_int_eq(r.task.hw_params[2], 64);
    ck_assert_int_eq(r.task.hw_params[7], 0);
    ck_assert(str_is(r.task.target_host, ""));
    ck_assert_int_eq(r.task.layout, 1);
    ck_assert_uint_eq(r.task.n_names, 0);

    ck_assert_uint_eq(r.n_steps, 13);
    ck_assert_int_eq(r.steps[0].kind, TP_STEP_CHW);
    ck_assert(str_is(r.steps[0].str, "local"));
    const struct tp_step *sp = &r.steps[2];
    ck_assert_int_eq(sp->kind, TP_STEP_SP);
    ck_assert_int_eq(sp->op[0], 2);
    ck_assert_int_eq(sp->op[1], 4);
    ck_assert_int_eq(sp->op[2], 80);
    ck_assert_int_eq(sp->op[3], 1);
    ck_assert_int_eq(sp->n_list, 3);
    ck_assert_int_eq(sp->list[0], 1);
    ck_assert_int_eq(sp->list[2], 16);
    ck_assert_int_eq(r.steps[4].n_list, 10);
    ck_assert_int_eq(r.steps[4].list[9], 7);
    ck_assert(str_is(r.steps[11].str, "auto_unroll_max_step$64"));
    ck_assert_int_eq(r.steps[12].op[2], 2);

    ck_assert(r.has_result);
    ck_assert_uint_eq(r.result.n_costs, 3);
    ck_assert(r.result.costs[0] == 2.18407e-05 && r.result.costs[2] == 2.17964e-05);
    ck_assert_int_eq(r.result.error_no, 0);
    ck_assert(r.result.all_cost == 1.73552 && r.result.timestamp == 1700000123);
    ck_assert(r.has_version && str_is(r.version, "v0.6"));
    tp_record_free(&r);
    tp_record_free(NULL);
}
END_TEST

START_TEST(a_record_outlives_the_bytes_it_was_read_from)
{
    struct tp_record r;
    struct tp_err e;
    struct tp_buf out = {0};
    char *copy = strdup(CPU_LINE);
    tp_record_init(&r);
    ck_assert_int_eq(tp_record_parse(&r, copy, strlen(copy), &e), 0);
    memset(copy, 'x', strlen(copy));
    free(copy);
    tp_record_emit(&r, &out);
    ck_assert(out.n == strlen(CPU_LINE) && memcmp(out.p, CPU_LINE, out.n) == 0);
    tp_buf_free(&out);
    tp_record_free(&r);
}
END_TEST

START_TEST(a_record_is_reused_across_different_tasks_and_failures)
{
    static const char *const lines[] = {CPU_LINE, CPU_LINE, GPU_LINE, OLD_LINE, "{\"i\": [[\"k\", \"\"]",
                                        OLD_LINE, CPU_LINE, "[",      CPU_LINE};
    struct tp_record r;
    struct tp_buf out = {0};
    tp_record_init(&r);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        out.n = 0;
        if (tp_record_parse(&r, lines[i], strlen(lines[i]), NULL) != 0)
            continue;
        tp_record_emit(&r, &out);
        ck_assert_msg(out.n == strlen(lines[i]) && memcmp(out.p, lines[i], out.n) == 0, "%zu: %.*s", i, (int)out.n,
                      out.p);
    }
    tp_buf_free(&out);
    tp_record_free(&r);
}
END_TEST

START_TEST(a_task_that_only_begins_like_the_last_one_is_read_anew)
{
    /* ["k","llvm"] and ["k","llvm -x"]: neither array's bytes are a prefix of the other's; of numbers they could be */
    static const char one[] = "{\"i\": [[\"k\", \"llvm\", [1,1,1,1,1,1,1,1]], [[], []]]}";
    static const char two[] = "{\"i\": [[\"k\", \"llvm\", [1,1,1,1,1,1,1,1], \"cuda\"], [[], []]]}";
    struct tp_record r;
    tp_record_init(&r);
    ck_assert_int_eq(tp_record_parse(&r, one, sizeof one - 1, NULL), 0);
    ck_assert_int_eq(tp_record_parse(&r, two, sizeof two - 1, NULL), 0);
    ck_assert_int_eq(r.task.n_items, 4);
    ck_assert(str_is(r.task.target_host, "cuda"));
    ck_assert_int_eq(tp_record_parse(&r, one, sizeof one - 1, NULL), 0);
    ck_assert_int_eq(r.task.n_items, 3);
    tp_record_free(&r);
}
END_TEST

START_TEST(escapes_are_decoded_wherever_a_string_stands)
{
    static const char line[] = "{\"\\u0069\": [[\"[\\u0022a\\/b\\u00e9\\ud83d\\ude00\\u0022]\", \"ll\\u0076m\", "
                               "[1,2,3,4,5,6,7,8], \"\\t\", 0, "
                               "[\"n\\\\1\", \"m\"]], [[], [[\"\\u0053P\", 0, 0, 4, [2], 1], [\"CHW\", 1, "
                               "\"wm\\u006da.x\"]]]], \"v\": \"\\u0076\"}";
    struct tp_record r;
    struct tp_err e;
    tp_record_init(&r);
    ck_assert_msg(tp_record_parse(&r, line, sizeof line - 1, &e) == 0, "%s", e.detail);
    ck_assert(str_is(r.task.workload_key, "[\"a/b\xC3\xA9\xF0\x9F\x98\x80\"]"));
    ck_assert(str_is(r.task.target, "llvm"));
    ck_assert(str_is(r.task.target_host, "\t"));
    ck_assert_uint_eq(r.task.n_names, 2);
    ck_assert(str_is(r.task.names[0], "n\\1") && str_is(r.task.names[1], "m"));
    ck_assert_int_eq(r.steps[0].kind, TP_STEP_SP);
    ck_assert(str_is(r.steps[1].str, "wmma.x"));
    ck_assert(str_is(r.version, "v"));
    tp_record_free(&r);
}
END_TEST

/* ---- the frame ------------------------------------------------------------------------------------------------------
 */

START_TEST(keys_stand_in_any_order_and_blanks_anywhere)
{
    record_accepted("{\"v\":\"v0.6\",\"r\":[[1],0,1,1],\"i\":[[\"k\",\"llvm\"],[[],[]]]}");
    record_accepted(
        "\t{ \"i\" : [ [ \"k\" , \"llvm\" ] , [ [ ] , [ [ \"SP\" , 0 , 0 , 4 , [ 2 , 1 ] , 1 ] , [ \"FU\" , 0 , [ "
        "] ] ] ] ] \r\n}  ");
    record_accepted("{\"i\":[[\"k\",\"llvm\"],[[],[[\"SP\",0,0,4,[2,1],1]]]]}");
}
END_TEST

START_TEST(a_record_that_is_no_json_object_is_malformed)
{
    record_refused("", TP_E_BAD_JSON, "", "byte 0");
    record_refused("7", TP_E_BAD_JSON, "", "a record is a JSON object");
    record_refused("[1, 2]", TP_E_BAD_JSON, "", "a record is a JSON object");
    record_refused("null", TP_E_BAD_JSON, "", "a record is a JSON object");
    record_refused("{", TP_E_BAD_JSON, "", "byte 1");
    record_refused("{\"i\" 1}", TP_E_BAD_JSON, "", "':'");
}
END_TEST

START_TEST(a_line_torn_anywhere_is_malformed)
{
    char text[2048];
    struct tp_err e;
    for (size_t n = 1; n < strlen(CPU_LINE); n++) {
        memcpy(text, CPU_LINE, n);
        text[n] = '\0';
        int rc = record_parse(text, &e);
        ck_assert_msg(rc == -TP_E_BAD_JSON, "cut at %zu: %s %s", n, tp_code_slug(rc), e.detail);
    }
}
END_TEST

START_TEST(text_behind_the_record_is_malformed)
{
    changed_refused(CPU_LINE, "\"v0.6\"}", "\"v0.6\"} x", TP_E_BAD_JSON, "", "text after the value");
    changed_refused(CPU_LINE, "\"v0.6\"}", "\"v0.6\"}{}", TP_E_BAD_JSON, "", "text after the value");
    changed_accepted(CPU_LINE, "\"v0.6\"}", "\"v0.6\"} \t\r");
}
END_TEST

START_TEST(an_unknown_key_is_refused_and_a_key_stands_once)
{
    changed_refused(CPU_LINE, "\"v\":", "\"w\":", TP_E_UNKNOWN_KEY, "", "\"w\"");
    changed_refused(CPU_LINE, "{\"i\"", "{\"id\": 1, \"i\"", TP_E_UNKNOWN_KEY, "", "\"id\"");
    changed_refused(CPU_LINE, "{\"i\"", "{\"\": 1, \"i\"", TP_E_UNKNOWN_KEY, "", "\"\"");
    changed_refused(CPU_LINE, "{\"i\"", "{\"v\": \"x\", \"i\"", TP_E_BAD_JSON, "", "\"v\" stands twice");
    changed_refused(CPU_LINE, "\"v\": \"v0.6\"", "\"\\u0069\": 1", TP_E_BAD_JSON, "", "\"i\" stands twice");
}
END_TEST

START_TEST(the_version_is_any_string)
{
    changed_accepted(CPU_LINE, "v0.6", "");
    changed_accepted(CPU_LINE, "v0.6", "v99.1-beta");
    changed_refused(CPU_LINE, "\"v0.6\"", "6", TP_E_BAD_JSON, "/v", "string");
    changed_refused(CPU_LINE, "\"v0.6\"", "\"\\u0001\"", TP_E_BAD_JSON, "/v", "control");
}
END_TEST

START_TEST(the_input_holds_a_task_and_a_state)
{
    record_refused("{}", TP_E_BAD_TASK, "", "\"i\" is missing");
    record_refused("{\"v\": \"v0.6\"}", TP_E_BAD_TASK, "", "\"i\" is missing");
    record_refused("{\"i\": {}}", TP_E_BAD_TASK, "/i", "[task, state]");
    record_refused("{\"i\": []}", TP_E_BAD_TASK, "/i", "0 items");
    record_refused("{\"i\": [[\"k\", \"llvm\"]]}", TP_E_BAD_STATE, "/i", "1 items");
    record_refused("{\"i\": [[\"k\", \"llvm\"], [[], []], 1]}", TP_E_BAD_STATE, "/i/2", "third item");
    record_refused("{\"i\": [[\"k\", \"llvm\"], [[], []], ]}", TP_E_BAD_JSON, "/i", "expected a value");
}
END_TEST

START_TEST(the_state_holds_no_stages_and_an_array_of_steps)
{
    record_accepted("{\"i\": [[\"k\", \"llvm\"], [[], []]]}");
    record_refused("{\"i\": [[\"k\", \"llvm\"], 5]}", TP_E_BAD_STATE, "/i/1", "not 5");
    record_refused("{\"i\": [[\"k\", \"llvm\"], []]}", TP_E_BAD_STATE, "/i/1/0", "0 items");
    record_refused("{\"i\": [[\"k\", \"llvm\"], [[]]]}", TP_E_BAD_STATE, "/i/1/1", "1 items");
    record_refused("{\"i\": [[\"k\", \"llvm\"], [[1], []]]}", TP_E_BAD_STATE, "/i/1/0", "must be empty");
    record_refused("{\"i\": [[\"k\", \"llvm\"], [{}, []]]}", TP_E_BAD_STATE, "/i/1/0", "an object");
    record_refused("{\"i\": [[\"k\", \"llvm\"], [[], null]]}", TP_E_BAD_STATE, "/i/1/1", "null");
    record_refused("{\"i\": [[\"k\", \"llvm\"], [[], [], []]]}", TP_E_BAD_STATE, "/i/1/2", "third item");
    record_refused("{\"i\": [[\"k\", \"llvm\"], [[tru], []]]}", TP_E_BAD_JSON, "/i/1/0", "expected a value");
}
END_TEST

START_TEST(nesting_too_deep_is_told_as_such)
{
    char deep[200] = {0}, steps[400];
    memset(deep, '[', 70);
    record_refused(deep, TP_E_TOO_DEEP, "", "too deep");
    snprintf(steps, sizeof steps, "[[\"AN\", 0, 0, %s", deep);
    char *line = wrap(steps);
    record_refused(line, TP_E_TOO_DEEP, "/i/1/1/0", "too deep");
    free(line);
}
END_TEST

START_TEST(a_record_longer_than_a_mebibyte_is_too_long)
{
    size_t n = TP_MAX_LINE + 1;
    char *line = malloc(n + 1);
    ck_assert_ptr_nonnull(line);
    memset(line, ' ', n);
    memcpy(line, CPU_LINE, strlen(CPU_LINE));
    line[n] = '\0';
    record_refused(line, TP_E_TOO_LONG, "", "1048576");
    line[n - 1] = '\0';
    record_accepted(line);
    free(line);
}
END_TEST

START_TEST(malformed_utf8_and_lone_surrogates_are_refused)
{
    changed_refused(CPU_LINE, "local", "lo\xC0\xAF", TP_E_BAD_UTF8, "/i/1/1/0", "UTF-8");
    changed_refused(CPU_LINE, "gemm", "\xED\xA0\x80", TP_E_BAD_UTF8, "/i/0", "UTF-8");
    changed_refused(CPU_LINE, "\"v0.6", "\"\xFF", TP_E_BAD_UTF8, "/v", "UTF-8");
    changed_refused(CPU_LINE, "local", "\\ud800", TP_E_BAD_JSON, "/i/1/1/0", "surrogate");
    changed_accepted(CPU_LINE, "local", "lo\xC3\xA9");
}
END_TEST

/* ---- the task
 * -------------------------------------------------------------------------------------------------------- */

START_TEST(a_task_has_two_to_six_items)
{
    static const char *const tail[] = {"", ", [1,2,3,4,5,6,7,8]", ", \"\"", ", 0", ", []"};
    char task[200] = "[\"k\", \"llvm\"", line[300];
    for (int i = 0; i < 5; i++) {
        strncat(task, tail[i], sizeof task - strlen(task) - 1);
        snprintf(line, sizeof line, "{\"i\": [%s], [[], []]]}", task);
        record_accepted(line);
    }
    snprintf(line, sizeof line, "{\"i\": [%s, 1], [[], []]]}", task);
    record_refused(line, TP_E_BAD_TASK, "/i/0/6", "at most 6");
    record_refused("{\"i\": [[\"k\"], [[], []]]}", TP_E_BAD_TASK, "/i/0", "1 items");
    record_refused("{\"i\": [[], [[], []]]}", TP_E_BAD_TASK, "/i/0", "0 items");
    record_refused("{\"i\": [\"k\", [[], []]]}", TP_E_BAD_TASK, "/i/0", "array");
    record_refused("{\"i\": [null, [[], []]]}", TP_E_BAD_TASK, "/i/0", "array");
}
END_TEST

START_TEST(every_item_of_a_task_has_its_type)
{
    changed_refused(OLD_LINE, "\"[\\\"ffeeddccbbaa99887766554433221100\\\"]\"", "7", TP_E_BAD_TASK, "/i/0/0",
                    "workload key");
    changed_refused(OLD_LINE, "\"llvm -keys=cpu -mcpu=core-avx2\"", "[]", TP_E_BAD_TASK, "/i/0/1", "target");
    changed_refused(OLD_LINE, "llvm -keys=cpu -mcpu=core-avx2", " ", TP_E_BAD_TASK, "/i/0/1", "kind");
    changed_refused(OLD_LINE, "[8, 64, 64, 0, 0, 0, 0, 0]", "[8, 64, 64, 0, 0, 0, 0]", TP_E_BAD_TASK, "/i/0/2",
                    "8 integers");
    changed_refused(OLD_LINE, "[8, 64, 64, 0, 0, 0, 0, 0]", "[8, 64, 64, 0, 0, 0, 0, 0, 0]", TP_E_BAD_TASK, "/i/0/2",
                    "8 integers");
    changed_refused(OLD_LINE, "[8, 64, 64, 0, 0, 0, 0, 0]", "[8, 64, 64.0, 0, 0, 0, 0, 0]", TP_E_BAD_TASK, "/i/0/2",
                    "8 integers");
    changed_refused(OLD_LINE, "[8, 64", "[8, 2147483648", TP_E_BAD_TASK, "/i/0/2", "8 integers");
    changed_refused(OLD_LINE, "[8, 64, 64, 0, 0, 0, 0, 0]", "null", TP_E_BAD_TASK, "/i/0/2", "8 integers");
    changed_refused(CPU_LINE, "\"\", 1, []]", "null, 1, []]", TP_E_BAD_TASK, "/i/0/3", "host");
    changed_refused(CPU_LINE, "\"\", 1, []]", "\"\", 3, []]", TP_E_BAD_TASK, "/i/0/4", "0, 1 or 2");
    changed_refused(CPU_LINE, "\"\", 1, []]", "\"\", -1, []]", TP_E_BAD_TASK, "/i/0/4", "0, 1 or 2");
    changed_refused(CPU_LINE, "\"\", 1, []]", "\"\", 1.0, []]", TP_E_BAD_TASK, "/i/0/4", "0, 1 or 2");
    changed_refused(CPU_LINE, "\"\", 1, []]", "\"\", 1, {}]", TP_E_BAD_TASK, "/i/0/5", "array of strings");
    changed_refused(CPU_LINE, "\"\", 1, []]", "\"\", 1, [1]]", TP_E_BAD_TASK, "/i/0/5", "array of strings");
    changed_accepted(CPU_LINE, "\"\", 1, []]", "\"cuda -arch=sm_80\", 2, [\"a\", \"\"]]");
    changed_accepted(OLD_LINE, "[8, 64", "[-1, -2147483648");
}
END_TEST

START_TEST(a_workload_key_need_not_be_json)
{
    record_accepted("{\"i\": [[\"\", \"llvm\"], [[], []]]}");
    record_accepted("{\"i\": [[\"my kernel\", \"llvm\"], [[], []]]}");
    record_refused("{\"i\": [[\"\\u0001\", \"llvm\"], [[], []]]}", TP_E_BAD_TASK, "/i/0/0", "control");
}
END_TEST

START_TEST(task_input_names_are_limited)
{
    char line[4096] = "{\"i\": [[\"k\", \"llvm\", [1,1,1,1,1,1,1,1], \"\", 0, [\"\"";
    size_t n = strlen(line);
    for (int i = 1; i < TP_MAX_NAMES; i++)
        n += (size_t)snprintf(line + n, sizeof line - n, ",\"\"");
    snprintf(line + n, sizeof line - n, "]], [[], []]]}");
    record_accepted(line);
    snprintf(line + n, sizeof line - n, ",\"\"]], [[], []]]}");
    record_refused(line, TP_E_BAD_TASK, "/i/0/5", "256");
}
END_TEST

/* ---- the result
 * -------------------------------------------------------------------------------------------------------- */

static void result(const char *r, enum tp_code code, const char *pointer)
{
    char line[512];
    snprintf(line, sizeof line, "{\"i\": [[\"k\", \"llvm\"], [[], []]], \"r\": %s}", r);
    if (code == TP_OK)
        record_accepted(line);
    else
        record_refused(line, code, pointer, "");
}

START_TEST(a_result_has_four_items_of_their_types)
{
    result("[[1], 0, 20, 1700000000]", TP_OK, "");
    result("[[1, 2.5, 1e-3], 8, 0.25, 1700000000.75]", TP_OK, "");
    result("[[], 0, 0, 0]", TP_OK, "");
    result("[[0], 0, 0, 0]", TP_OK, "");
    result("[[-1.5], 0, -1, -3]", TP_OK, "");
    result("[[1], 0, 20]", TP_E_BAD_RESULT, "/r");
    result("[[1], 0, 20, 1, 1]", TP_E_BAD_RESULT, "/r");
    result("[]", TP_E_BAD_RESULT, "/r");
    result("{}", TP_E_BAD_RESULT, "/r");
    result("null", TP_E_BAD_RESULT, "/r");
    result("[1, 0, 20, 1]", TP_E_BAD_RESULT, "/r/0");
    result("[[null], 0, 20, 1]", TP_E_BAD_RESULT, "/r/0/0");
    result("[[1, [2]], 0, 20, 1]", TP_E_BAD_RESULT, "/r/0/1");
    result("[[1e400], 0, 20, 1]", TP_E_BAD_RESULT, "/r/0/0");
    result("[[1], 0.0, 20, 1]", TP_E_BAD_RESULT, "/r/1");
    result("[[1], 9, 20, 1]", TP_E_BAD_RESULT, "/r/1");
    result("[[1], -1, 20, 1]", TP_E_BAD_RESULT, "/r/1");
    result("[[1], \"0\", 20, 1]", TP_E_BAD_RESULT, "/r/1");
    result("[[1], 4294967296, 20, 1]", TP_E_BAD_RESULT, "/r/1");
    result("[[1], 0, \"20\", 1]", TP_E_BAD_RESULT, "/r/2");
    result("[[1], 0, 20, null]", TP_E_BAD_RESULT, "/r/3");
    result("[[1], 0, 20, 1e300]", TP_E_BAD_RESULT, "/r/3");
    result("[[nan], 0, 20, 1]", TP_E_BAD_JSON, "/r/0");
    result("[[inf], 0, 20, 1]", TP_E_BAD_JSON, "/r/0");
    result("[[1], 0, 20, 1", TP_E_BAD_JSON, "/r");
}
END_TEST

START_TEST(the_number_of_costs_is_limited)
{
    char line[8192] = "{\"i\": [[\"k\", \"llvm\"], [[], []]], \"r\": [[1";
    size_t n = strlen(line);
    for (int i = 1; i < TP_MAX_COSTS; i++)
        n += (size_t)snprintf(line + n, sizeof line - n, ",2");
    snprintf(line + n, sizeof line - n, "], 0, 1, 1]}");
    record_accepted(line);
    snprintf(line + n, sizeof line - n, ",2], 0, 1, 1]}");
    record_refused(line, TP_E_BAD_RESULT, "/r/0", "1024");
}
END_TEST

START_TEST(a_bad_result_leaves_the_rest_of_the_record_usable)
{
    static const char line[] = "{\"r\": null, \"i\": [[\"k\", \"llvm\"], [[], [[\"CI\", 3]]]], \"v\": \"x\"}";
    struct tp_record r;
    struct tp_err e;
    tp_record_init(&r);
    ck_assert_int_eq(tp_record_parse(&r, line, sizeof line - 1, &e), -TP_E_BAD_RESULT);
    ck_assert_str_eq(e.pointer, "/r");
    ck_assert_uint_eq(r.n_steps, 1);
    ck_assert_int_eq(r.steps[0].op[0], 3);
    ck_assert(!r.has_result);
    ck_assert(r.has_version);
    tp_record_free(&r);
    record_refused("{\"r\": null, \"i\": [[\"k\", \"llvm\"], [[], [[\"CI\"]]]]}", TP_E_BAD_STEP, "/i/1/1/0", "step 0");
    record_refused("{\"r\": 1, \"i\": [[\"k\", \"llvm\"], [[], []]]} x", TP_E_BAD_JSON, "", "after");
}
END_TEST

START_TEST(labels_follow_error_number_and_costs)
{
    static const struct {
        const char *r;
        enum tp_label label;
        double min;
    } cases[] = {
        {"[[2, 1, 3], 0, 1, 1]", TP_LABEL_VALID, 1},
        {"[[999999999], 0, 1, 1]", TP_LABEL_VALID, 999999999},
        {"[[1e9], 0, 1, 1]", TP_LABEL_FAILURE, 1e9},
        {"[[1, 1e10], 0, 1, 1]", TP_LABEL_FAILURE, 1},
        {"[[1e+10], 2, 20, 1]", TP_LABEL_FAILURE, 1e10},
        {"[[1], 8, 20, 1]", TP_LABEL_FAILURE, 1},
        {"[[], 1, 20, 1]", TP_LABEL_FAILURE, 1e10},
        {"[[], 0, 0, 0]", TP_LABEL_NONE, 1e10},
        {"[[0], 0, 0, 0]", TP_LABEL_NONE, 0},
        {"[[1, -1], 0, 0, 0]", TP_LABEL_NONE, -1},
    };
    struct tp_record r;
    char line[256];
    tp_record_init(&r);
    ck_assert_int_eq(tp_record_label(&r), TP_LABEL_NONE);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        snprintf(line, sizeof line, "{\"i\": [[\"k\", \"llvm\"], [[], []]], \"r\": %s}", cases[i].r);
        ck_assert_int_eq(tp_record_parse(&r, line, strlen(line), NULL), 0);
        ck_assert_msg(tp_record_label(&r) == cases[i].label, "%s", cases[i].r);
        ck_assert(tp_result_min_cost(&r.result) == cases[i].min);
    }
    static const char unmeasured[] = "{\"i\": [[\"k\", \"llvm\"], [[], []]]}";
    ck_assert_int_eq(tp_record_parse(&r, unmeasured, sizeof unmeasured - 1, NULL), 0);
    ck_assert_int_eq(tp_record_label(&r), TP_LABEL_NONE);
    tp_record_free(&r);
}
END_TEST

/* ---- damaged records
 * ------------------------------------------------------------------------------------------------- */

START_TEST(what_is_accepted_is_json_and_survives_printing_and_reading)
{
    static const char *const lines[] = {CPU_LINE, GPU_LINE, OLD_LINE};
    struct tp_record r, again;
    struct tp_buf out = {0}, twice = {0};
    struct tp_err e;
    uint64_t rng = 4242;
    char text[4096];
    int good = 0, bad = 0;
    tp_record_init(&r);
    tp_record_init(&again);
    for (int i = 0; i < 40000; i++) {
        size_t n = strlen(lines[i % 3]);
        memcpy(text, lines[i % 3], n);
        for (uint32_t k = below(&rng, 3); k < 3; k++)
            mutate(&rng, text, &n, sizeof text);
        char *exact = malloc(n > 0 ? n : 1);
        ck_assert_ptr_nonnull(exact);
        memcpy(exact, text, n);
        int rc = tp_record_parse(&r, exact, n, &e);
        free(exact);
        if (rc != 0) {
            bad++;
            ck_assert_int_eq((int)e.code, -rc);
            ck_assert_int_le(-rc, TP_E_BAD_RESULT);
            ck_assert_uint_gt(strlen(e.detail), 0);
            continue;
        }
        good++;
        json_error_t je;
        json_t *v = json_loadb(text, n, 0, &je);
        ck_assert_msg(v != NULL || json_error_code(&je) == json_error_numeric_overflow, "%s: %.*s", je.text, (int)n,
                      text);
        json_decref(v);
        out.n = twice.n = 0;
        tp_record_emit(&r, &out);
        ck_assert_msg(tp_record_parse(&again, out.p, out.n, &e) == 0, "%s: %.*s", e.detail, (int)out.n, out.p);
        tp_record_emit(&again, &twice);
        ck_assert(out.n == twice.n && memcmp(out.p, twice.p, out.n) == 0);
    }
    ck_assert_int_gt(good, 2000);
    ck_assert_int_gt(bad, 2000);
    tp_buf_free(&out);
    tp_buf_free(&twice);
    tp_record_free(&r);
    tp_record_free(&again);
}
END_TEST

int main(void)
{
    return RUN(
        "proto/record_parse", every_part_of_a_record_is_read, a_record_outlives_the_bytes_it_was_read_from,
        a_record_is_reused_across_different_tasks_and_failures, a_task_that_only_begins_like_the_last_one_is_read_anew,
        escapes_are_decoded_wherever_a_string_stands, keys_stand_in_any_order_and_blanks_anywhere,
        a_record_that_is_no_json_object_is_malformed, a_line_torn_anywhere_is_malformed,
        text_behind_the_record_is_malformed, an_unknown_key_is_refused_and_a_key_stands_once, the_version_is_any_string,
        the_input_holds_a_task_and_a_state, the_state_holds_no_stages_and_an_array_of_steps,
        nesting_too_deep_is_told_as_such, a_record_longer_than_a_mebibyte_is_too_long,
        malformed_utf8_and_lone_surrogates_are_refused, a_task_has_two_to_six_items, every_item_of_a_task_has_its_type,
        a_workload_key_need_not_be_json, task_input_names_are_limited, a_result_has_four_items_of_their_types,
        the_number_of_costs_is_limited, a_bad_result_leaves_the_rest_of_the_record_usable,
        labels_follow_error_number_and_costs, what_is_accepted_is_json_and_survives_printing_and_reading);
}
