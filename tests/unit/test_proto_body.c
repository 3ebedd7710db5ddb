/* The three forms of a request body, what is skipped, and whom a bad record hurts. */
#include "proto/body.h"
#include "tests/unit/proto_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What reading a body to its end gave: per record '+' or the slug's place, and how it ended. */
struct outcome {
    char marks[64]; /* '+' usable, '-' unusable */
    int end;        /* 0 or the code that stopped it */
    struct tp_err errors[8];
    int n_errors;
    struct tp_err last;
    uint32_t n_steps[8]; /* of the first usable records */
};

static struct outcome read_bytes(enum tp_form form, const char *bytes, size_t n)
{
    struct outcome o = {0};
    struct tp_record r;
    struct tp_err e;
    int k = 0, rc;
    char *exact = malloc(n > 0 ? n : 1);
    ck_assert_ptr_nonnull(exact);
    memcpy(exact, bytes, n);
    tp_record_init(&r);
    struct tp_body *b = tp_body_open(form, exact, n, &e);
    ck_assert_ptr_nonnull(b);
    memset(&e, 0, sizeof e);
    while ((rc = tp_body_next(b, &r, &e)) > 0) {
        ck_assert_int_lt(k, 60);
        ck_assert_int_eq(tp_body_index(b), k);
        o.marks[k++] = rc == 1 ? '+' : '-';
        if (rc == 1 && k <= 8)
            o.n_steps[k - 1] = r.n_steps;
        if (rc == 2) {
            ck_assert_int_eq(e.index, k - 1);
            ck_assert_int_eq(e.line, tp_body_line(b));
            ck_assert_int_eq(form == TP_FORM_NDJSON, e.line > 0);
            if (o.n_errors < 8)
                o.errors[o.n_errors++] = e;
        }
    }
    o.end = -rc;
    o.last = e;
    ck_assert_int_eq(tp_body_next(b, &r, &e), rc); /* the end stays the end */
    tp_body_close(b);
    tp_record_free(&r);
    free(exact);
    return o;
}

static struct outcome ndjson(const char *text)
{
    return read_bytes(TP_FORM_NDJSON, text, strlen(text));
}

static struct outcome envelope(const char *text)
{
    return read_bytes(TP_FORM_JSON, text, strlen(text));
}

static void marks(struct outcome o, const char *want, int end)
{
    ck_assert_msg(strcmp(o.marks, want) == 0 && o.end == end, "got %s %s (%s), want %s", o.marks, tp_code_slug(o.end),
                  o.last.detail, want);
}

#define SMALL "{\"i\": [[\"k\", \"llvm\"], [[], [[\"CI\", 0]]]]}"
#define WRONG "{\"i\": [[\"k\", \"llvm\"], [[], [[\"XX\", 0]]]]}"

/* ---- NDJSON
 * -------------------------------------------------------------------------------------------------------------- */

START_TEST(lines_are_records_and_blank_and_comment_lines_are_skipped)
{
    struct outcome o = ndjson("\xEF\xBB\xBF# a log\n" SMALL "\r\n\n\r\n \t\n\t\n  {\"note\"}\n#\n" WRONG "\n" SMALL);
    marks(o, "+-+", 0);
    ck_assert_int_eq((int)o.errors[0].code, TP_E_UNKNOWN_STEP);
    ck_assert_int_eq(o.errors[0].index, 1);
    ck_assert_int_eq(o.errors[0].line, 9);
    ck_assert_str_eq(o.errors[0].pointer, "/i/1/1/0");
}
END_TEST

START_TEST(a_byte_order_mark_between_glued_logs_is_stripped)
{
    marks(ndjson(SMALL "\n\xEF\xBB\xBF" SMALL "\n\xEF\xBB\xBF\n"), "++", 0);
}
END_TEST

START_TEST(a_torn_last_line_is_one_unusable_record)
{
    struct outcome o = ndjson(SMALL "\n{\"i\": [[\"k\", \"llvm\"], [[");
    marks(o, "+-", 0);
    ck_assert_int_eq((int)o.errors[0].code, TP_E_BAD_JSON);
    ck_assert_int_eq(o.errors[0].line, 2);
}
END_TEST

START_TEST(a_body_without_records_is_refused)
{
    marks(ndjson(""), "", TP_E_NO_RECORDS);
    marks(ndjson("\n# x\n\n"), "", TP_E_NO_RECORDS);
    marks(ndjson("x"), "-", 0);
    struct tp_err e;
    struct tp_record r;
    tp_record_init(&r);
    struct tp_body *b = tp_body_open(TP_FORM_NDJSON, NULL, 0, &e);
    ck_assert_int_eq(tp_body_next(b, &r, &e), -TP_E_NO_RECORDS);
    ck_assert_int_eq((int)e.code, TP_E_NO_RECORDS);
    tp_body_close(b);
    tp_body_close(NULL);
    tp_record_free(&r);
}
END_TEST

START_TEST(a_line_over_the_limit_is_too_long_and_hurts_no_other)
{
    size_t n = TP_MAX_LINE + 4096;
    char *text = malloc(n + 4096);
    ck_assert_ptr_nonnull(text);
    memset(text, ' ', n);
    memcpy(text, SMALL, strlen(SMALL));
    size_t k = n + (size_t)snprintf(text + n, 4096, "\n%s\n", SMALL);
    struct outcome o = read_bytes(TP_FORM_NDJSON, text, k);
    marks(o, "-+", 0);
    ck_assert_int_eq((int)o.errors[0].code, TP_E_TOO_LONG);
    free(text);
}
END_TEST

/* What TVM 0.14 does with these mutations of a line, and what tcld does: docs/records.md, last section. */
START_TEST(mutations_of_a_line_are_treated_as_documented)
{
    const struct {
        const char *from, *to, *marks;
        enum tp_code code; /* of the unusable one */
    } cases[] = {
        {"{\"i\"", "{\"i\"", "+", TP_OK},                              /* 1: as it was, CRLF below */
        {"{\"i\"", "# {\"i\"", "", TP_E_NO_RECORDS},                   /* 2 */
        {"{\"i\"", " {\"i\"", "", TP_E_NO_RECORDS},                    /* 3 */
        {"\"v0.6\"}", "\"v0.6\"} trailing", "-", TP_E_BAD_JSON},       /* 4 */
        {"{\"i\": ", "{\"v\": \"v0.6\", \"i\": ", "-", TP_E_BAD_JSON}, /* 5: a key twice */
        {"\"r\": [[2.18407e-05, 2.20119e-05, 2.17964e-05], 0, 1.73552, 1700000123], ", "", "+", TP_OK}, /* 6 */
        {"{\"i\"", "\n{\"i\"", "+", TP_OK},                               /* 7: an empty line */
        {"{\"i\"", "\xEF\xBB\xBF{\"i\"", "+", TP_OK},                     /* 8 */
        {", [16, 64, 64, 0, 0, 0, 0, 0], \"\", 1, []]", "]", "+", TP_OK}, /* 9: task length 2 */
        {", \"\", 1, []]", "]", "+", TP_OK},                              /* 10: 3 */
        {", 1, []]", "]", "+", TP_OK},                                    /* 11: 4 */
        {", []]", "]", "+", TP_OK},                                       /* 12: 5 */
        {"\"v\": ", "\"x\": 1, \"v\": ", "-", TP_E_UNKNOWN_KEY},          /* 13 */
        {"llvm -keys=cpu -mcpu=skylake-avx512 -model=lab-xeon-a", "{\\\"kind\\\": \\\"llvm\\\"}", "+", TP_OK}, /* 14 */
        {"llvm -keys=cpu -mcpu=skylake-avx512 -model=lab-xeon-a", "nvidia/geforce-rtx-3090", "+", TP_OK},      /* 15 */
        {"[2.18407e-05, 2.20119e-05, 2.17964e-05]", "[1, 2]", "+", TP_OK},                                     /* 16 */
        {"1700000123", "1700000123.5", "+", TP_OK},                                                            /* 17 */
        {"[2.18407e-05, 2.20119e-05, 2.17964e-05]", "[]", "+", TP_OK},                                         /* 18 */
        {", 0, 1.73552", ", 0.0, 1.73552", "-", TP_E_BAD_RESULT},                                              /* 19 */
        {"[\"CA\", 2, 3, 3]", "[\"TS\", 2, 3, \"dot\"]", "-", TP_E_UNKNOWN_STEP},                              /* 20 */
        {"[\"CA\", 2, 3, 3]", "[\"CA\", 2, 3, 3, 0]", "-", TP_E_BAD_STEP},                                     /* 21 */
        {"[[], [[\"CHW\"", "[[0], [[\"CHW\"", "-", TP_E_BAD_STATE},                                            /* 22 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int crlf = 0; crlf < 2; crlf++) {
            char *line = with(CPU_LINE, cases[i].from, cases[i].to), *text = NULL;
            ck_assert_int_gt(asprintf(&text, "%s%s", line, crlf ? "\r\n" : "\n"), 0);
            struct outcome o = ndjson(text);
            marks(o, cases[i].marks, cases[i].code == TP_E_NO_RECORDS ? TP_E_NO_RECORDS : 0);
            if (cases[i].marks[0] == '-')
                ck_assert_int_eq((int)o.errors[0].code, (int)cases[i].code);
            free(text);
            free(line);
        }
    /* an empty STEPS; keys in another order */
    marks(ndjson("{\"v\": \"v0.6\", \"r\": [[1], 0, 1, 1], \"i\": [[\"k\", \"llvm\"], [[], []]]}"), "+", 0);
}
END_TEST

/* ---- {"records": [...]}
 * ---------------------------------------------------------------------------------------------------- */

START_TEST(records_of_an_envelope_are_read_and_a_bad_one_is_unusable_alone)
{
    struct outcome o =
        envelope("\xEF\xBB\xBF {\"records\": [" SMALL ", " WRONG ",\n" SMALL ", 7, {\"x\": [1, {}]}, " SMALL " ] } \n");
    marks(o, "+-+--+", 0);
    ck_assert_int_eq((int)o.errors[0].code, TP_E_UNKNOWN_STEP);
    ck_assert_str_eq(o.errors[0].pointer, "/i/1/1/0");
    ck_assert_int_eq(o.errors[0].index, 1);
    ck_assert_int_eq(o.errors[0].line, 0);
    ck_assert_int_eq((int)o.errors[1].code, TP_E_BAD_JSON);
    ck_assert_int_eq((int)o.errors[2].code, TP_E_UNKNOWN_KEY);
    ck_assert_uint_eq(o.n_steps[5], 1);
}
END_TEST

START_TEST(broken_json_in_an_envelope_is_a_bad_body)
{
    static const struct {
        const char *text, *marks;
    } cases[] = {
        {"", ""},
        {"[]", ""},
        {"7", ""},
        {"null", ""},
        {"{", ""},
        {"{}", ""},
        {"{\"records\": [" SMALL, "+"},
        {"{\"records\": [" SMALL "]", "+"},
        {"{\"records\": [" SMALL "]} x", "+"},
        {"{\"records\": [" SMALL ",]}", "+"},
        {"{\"records\": [" SMALL " " SMALL "]}", "+"},
        {"{\"records\": [" SMALL ", {\"i\": [}]}", "+"},
        {"{\"records\": [" SMALL ", tru]}", "+"},
        {"{\"records\": [\"\xFF\"]}", ""},
        {"{\"records\": [\"\\ud800\"]}", ""},
        {"{\"records\" [" SMALL "]}", ""},
        {SMALL, ""},
        {SMALL "\n" SMALL, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome o = envelope(cases[i].text);
        marks(o, cases[i].marks, TP_E_BAD_BODY);
        ck_assert_ptr_nonnull(strstr(o.last.detail, "accepted: {\"records\""));
    }
}
END_TEST

START_TEST(unknown_double_missing_and_mixed_keys_are_a_bad_body)
{
    static const struct {
        const char *text, *marks, *says;
    } cases[] = {
        {"{\"rows\": []}", "", "\"rows\""},
        {"{\"records\": [" SMALL "], \"x\": 1}", "+", "\"x\""},
        {"{\"records\": [" SMALL "], \"records\": []}", "+", "twice"},
        {"{\"records\": [" SMALL "], \"task\": []}", "+", "excludes"},
        {"{\"task\": [\"k\", \"llvm\"], \"records\": []}", "", "excludes"},
        {"{\"states\": [], \"records\": []}", "", "excludes"},
        {"{\"task\": [\"k\", \"llvm\"]}", "", "\"states\" is missing"},
        {"{\"states\": [[[], []]]}", "", "\"task\" is missing"},
        {"{\"task\": [\"k\", \"llvm\"], \"task\": 1, \"states\": []}", "", "twice"},
        {"{\"task\": [\"k\", \"llvm\"], \"states\": [[[], []]], \"states\": []}", "+", "twice"},
        {"{\"states\": [[[], []]], \"task\": [\"k\", \"llvm\"], \"x\": 0}", "", "\"x\""},
        {"{\"records\": {}}", "", "an object"},
        {"{\"records\": null}", "", "null"},
        {"{\"task\": [\"k\", \"llvm\"], \"states\": 3}", "", "a number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome o = envelope(cases[i].text);
        marks(o, cases[i].marks, TP_E_BAD_BODY);
        ck_assert_msg(strstr(o.last.detail, cases[i].says) != NULL, "%s", o.last.detail);
        ck_assert_msg(strstr(o.last.detail, "accepted: ") != NULL, "%s", o.last.detail);
    }
    ck_assert_str_eq(envelope("{\"records\": {}}").last.pointer, "/records");
    ck_assert_str_eq(envelope("{\"task\": 1, \"states\": {}}").last.pointer, "/states");
}
END_TEST

START_TEST(an_envelope_without_records_is_refused)
{
    marks(envelope("{\"records\": []}"), "", TP_E_NO_RECORDS);
    marks(envelope("{\"task\": [\"k\", \"llvm\"], \"states\": []}"), "", TP_E_NO_RECORDS);
    marks(envelope("{\"states\": [ ], \"task\": 1}"), "", TP_E_NO_RECORDS);
}
END_TEST

static struct outcome nested(int depth, const char *format)
{
    char open[600], close[600], text[2048];
    memset(open, '[', (size_t)depth);
    memset(close, ']', (size_t)depth);
    snprintf(text, sizeof text, format, depth, open, depth, close);
    return envelope(text);
}

START_TEST(a_record_nested_too_deep_is_unusable_alone_up_to_the_limit_of_the_body)
{
    static const char format[] = "{\"records\": [" SMALL ", {\"i\": %.*s%.*s}, " SMALL "]}";
    struct outcome o = nested(100, format);
    marks(o, "+-+", 0);
    o = nested(500, format);
    marks(o, "+-+", 0);
    marks(nested(590, format), "+", TP_E_BAD_BODY);
    /* inside a step, where nothing but a list may stand */
    o = nested(80, "{\"records\": [" SMALL ", {\"i\": [[\"k\", \"llvm\"], [[], [[\"CI\", %.*s%.*s]]]]}, " SMALL "]}");
    marks(o, "+-+", 0);
    ck_assert_int_eq((int)o.errors[0].code, TP_E_TOO_DEEP);
}
END_TEST

START_TEST(an_overlong_record_in_an_envelope_is_unusable_alone)
{
    size_t n = TP_MAX_LINE;
    char *text = malloc(3 * n);
    ck_assert_ptr_nonnull(text);
    for (int form = 0; form < 3; form++) {
        /* sound but for its length: blanks inside; or a string that never was short */
        static const char *const head[] = {"{\"records\": [" SMALL ", {\"i\": ", "{\"records\": [" SMALL ", \"",
                                           "{\"task\": [\"k\", \"llvm\"], \"states\": [[[], []], [[], "};
        static const char *const tail[] = {"[[\"k\", \"llvm\"], [[], []]]}, " SMALL "]}", "\", " SMALL "]}",
                                           "[]], [[], []]]}"};
        size_t k = strlen(head[form]);
        memcpy(text, head[form], k);
        memset(text + k, ' ', n);
        k += n;
        memcpy(text + k, tail[form], strlen(tail[form]));
        struct outcome o = read_bytes(TP_FORM_JSON, text, k + strlen(tail[form]));
        marks(o, "+-+", 0);
        ck_assert_int_eq((int)o.errors[0].code, TP_E_TOO_LONG);
    }
    free(text);
}
END_TEST

/* ---- {"task": ..., "states": ...}
 * -------------------------------------------------------------------------------------------- */

START_TEST(one_task_serves_all_states_wherever_it_stands)
{
    static const char *const texts[] = {"{\"task\": [\"[\\\"k\\\"]\", \"llvm\"], \"states\": [[[], []], [[], [[\"CI\", "
                                        "0]]], [[], [[\"XX\"]]], [[], [[\"CI\", 0], [\"CI\", 1]]]]}",
                                        "{ \"states\" : [[[], []], [[], [[\"CI\", 0]]], [[], [[\"XX\"]]], [[], "
                                        "[[\"CI\", 0], [\"CI\", 1]]]] ,\n\"task\": [\"[\\\"k\\\"]\", \"llvm\"] } "};
    for (int i = 0; i < 2; i++) {
        struct outcome o = envelope(texts[i]);
        marks(o, "++-+", 0);
        ck_assert_uint_eq(o.n_steps[0], 0);
        ck_assert_uint_eq(o.n_steps[1], 1);
        ck_assert_uint_eq(o.n_steps[3], 2);
        ck_assert_int_eq((int)o.errors[0].code, TP_E_UNKNOWN_STEP);
        ck_assert_str_eq(o.errors[0].pointer, "/i/1/1/0");
    }
}
END_TEST

START_TEST(a_bad_task_makes_every_state_unusable_for_that_reason)
{
    struct outcome o = envelope("{\"task\": [\"k\", 7], \"states\": [[[], []], 5, [[], [[\"XX\"]]]]}");
    marks(o, "---", 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq((int)o.errors[i].code, TP_E_BAD_TASK);
        ck_assert_str_eq(o.errors[i].pointer, "/i/0/1");
        ck_assert_int_eq(o.errors[i].index, i);
    }
    marks(envelope("{\"task\": null, \"states\": [[[], []]]}"), "-", 0);
    marks(envelope("{\"states\": [[[], []], [[], []]], \"task\": {}}"), "--", 0);
    marks(envelope("{\"task\": [\"k\", 7], \"states\": [[[], []], [[]}"), "-", TP_E_BAD_BODY);
}
END_TEST

START_TEST(another_record_object_for_each_state_gets_the_task_too)
{
    static const char text[] = "{\"task\": [\"k\", \"llvm\"], \"states\": [[[], []], [[], []]]}";
    struct tp_err e;
    struct tp_record r[2];
    struct tp_body *b = tp_body_open(TP_FORM_JSON, text, sizeof text - 1, &e);
    for (int i = 0; i < 2; i++) {
        tp_record_init(&r[i]);
        ck_assert_int_eq(tp_body_next(b, &r[i], &e), 1);
        ck_assert_uint_eq(r[i].task.target.n, 4);
    }
    tp_record_free(&r[0]);
    ck_assert(memcmp(r[1].task.target.s, "llvm", 4) == 0);
    ck_assert(!r[1].has_result && !r[1].has_version);
    tp_record_free(&r[1]);
    tp_body_close(b);
}
END_TEST

START_TEST(a_record_that_read_another_task_in_between_gets_the_task_again)
{
    static const char text[] = "{\"task\": [\"k\", \"llvm\"], \"states\": [[[], []], [[], []]]}";
    static const char other[] = "{\"i\": [[\"x\", \"cuda\"], [[], []]]}";
    struct tp_err e;
    struct tp_record r;
    tp_record_init(&r);
    struct tp_body *b = tp_body_open(TP_FORM_JSON, text, sizeof text - 1, &e);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(tp_body_next(b, &r, &e), 1);
        ck_assert(r.task.target.n == 4 && memcmp(r.task.target.s, "llvm", 4) == 0);
        ck_assert_int_eq(tp_record_parse(&r, other, sizeof other - 1, &e), 0);
    }
    ck_assert_int_eq(tp_body_next(b, &r, &e), 0);
    tp_body_close(b);
    tp_record_free(&r);
}
END_TEST

/* A megabyte that is looked at again for every state of eight bytes: minutes, and the time limit of a test
 * tells. */
START_TEST(a_large_task_is_looked_at_once)
{
    enum { KEY = 1000000, STATES = SANITIZED ? 500000 : 4000000 };
    static const char head[] = "{\"task\": [\"", mid[] = "\", \"llvm\"], \"states\": [", state[] = "[[],[]],",
                      tail[] = "[[],[]]]}";
    char *text = malloc(KEY + STATES * (sizeof state - 1) + 128), *w = text;
    struct tp_err e;
    struct tp_record r;
    int n = 0, rc;
    ck_assert_ptr_nonnull(text);
    w = mempcpy(w, head, sizeof head - 1);
    memset(w, 'x', KEY);
    w = mempcpy(w + KEY, mid, sizeof mid - 1);
    for (int i = 0; i < STATES; i++)
        w = mempcpy(w, state, sizeof state - 1);
    w = mempcpy(w, tail, sizeof tail - 1);
    tp_record_init(&r);
    struct tp_body *b = tp_body_open(TP_FORM_JSON, text, (size_t)(w - text), &e);
    while ((rc = tp_body_next(b, &r, &e)) == 1)
        n++;
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(n, STATES + 1);
    ck_assert_uint_eq(r.task.workload_key.n, KEY);
    tp_body_close(b);
    tp_record_free(&r);
    free(text);
}
END_TEST

START_TEST(a_bad_result_leaves_the_record_to_callers_that_ignore_results)
{
    static const char record[] = "{\"i\": [[\"k\", \"llvm\"], [[], [[\"CI\", 0]]]], \"r\": null}";
    char text[256];
    struct tp_err e;
    struct tp_record r;
    tp_record_init(&r);
    for (int form = 0; form < 2; form++) {
        snprintf(text, sizeof text, form == TP_FORM_JSON ? "{\"records\": [%s]}" : "%s\n", record);
        struct tp_body *b = tp_body_open((enum tp_form)form, text, strlen(text), &e);
        ck_assert_int_eq(tp_body_next(b, &r, &e), 2);
        ck_assert_int_eq((int)e.code, TP_E_BAD_RESULT);
        ck_assert_uint_eq(r.n_steps, 1);
        ck_assert_int_eq(tp_body_next(b, &r, &e), 0);
        tp_body_close(b);
    }
    tp_record_free(&r);
}
END_TEST

START_TEST(damaged_envelopes_end_and_index_every_record_once)
{
    static const char *const seeds[] = {
        "{\"records\": [" SMALL ", " WRONG ", " SMALL "]}",
        "{\"states\": [[[], [[\"CI\", 0]]], [[], []]], \"task\": [\"k\", \"llvm\"]}",
        "{\"task\": [\"k\", \"llvm\"], \"states\": [[[], [[\"CI\", 0]]], [[], []]]}",
        SMALL "\n# x\n\n" SMALL "\r\n",
    };
    uint64_t rng = 5;
    char text[1024];
    for (int i = 0; i < 20000; i++) {
        size_t n = strlen(seeds[i % 4]);
        memcpy(text, seeds[i % 4], n);
        for (uint32_t k = below(&rng, 4); k < 4; k++)
            mutate(&rng, text, &n, sizeof text);
        struct outcome o = read_bytes(i % 4 == 3 ? TP_FORM_NDJSON : TP_FORM_JSON, text, n);
        ck_assert(o.end == 0 || o.end == TP_E_NO_RECORDS || (o.end == TP_E_BAD_BODY && i % 4 != 3));
    }
}
END_TEST

int main(void)
{
    return RUN(
        "proto/body", lines_are_records_and_blank_and_comment_lines_are_skipped,
        a_byte_order_mark_between_glued_logs_is_stripped, a_torn_last_line_is_one_unusable_record,
        a_body_without_records_is_refused, a_line_over_the_limit_is_too_long_and_hurts_no_other,
        mutations_of_a_line_are_treated_as_documented, records_of_an_envelope_are_read_and_a_bad_one_is_unusable_alone,
        broken_json_in_an_envelope_is_a_bad_body, unknown_double_missing_and_mixed_keys_are_a_bad_body,
        an_envelope_without_records_is_refused, a_record_nested_too_deep_is_unusable_alone_up_to_the_limit_of_the_body,
        an_overlong_record_in_an_envelope_is_unusable_alone, one_task_serves_all_states_wherever_it_stands,
        a_bad_task_makes_every_state_unusable_for_that_reason, another_record_object_for_each_state_gets_the_task_too,
        a_record_that_read_another_task_in_between_gets_the_task_again, a_large_task_is_looked_at_once,
        a_bad_result_leaves_the_record_to_callers_that_ignore_results,
        damaged_envelopes_end_and_index_every_record_once);
}
