/* How bodies of records are read, on both routes that take them: the forms, per-record errors, and what a tuner's real
 * and broken logs do. The mutations follow what TVM 0.14.0's reader does with them; docs/records.md has the table.
 *
 * All tests of a case share its daemon and each uses hardware names of its own, so that they do not meet; where a case
 * needs a model, its first test trains one. No clock decides but as a generous upper bound. */
#include "tests/http/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one record and its parts ---- */
#define TARGET "\"llvm -keys=cpu -mcpu=core-avx2\""
#define PARAMS "[8, 64, 64, 0, 0, 0, 0, 0]"
#define STEPS                                                                                                          \
    "[\"SP\", 2, 0, 96, [3, 4, 2], 1], [\"SP\", 2, 4, 80, [1, 5, 16], 1], [\"RE\", 2, [0, 4, 1, 5, 2, 6, 3, 7]]"
#define TASK(n)             "[\"[\\\"t\\\", " #n ", 80]\", " TARGET ", " PARAMS ", \"\", 1, []]"
#define REC(task, state, r) "{\"i\": [" task ", " state "], \"r\": " r ", \"v\": \"v0.6\"}"
#define STATE               "[[], [" STEPS "]]"
#define WITH(step)          "[[], [" STEPS ", " step "]]"
#define R                   "[[0.002], 0, 0.5, 1700000000]"
#define GOOD_A              REC(TASK(1), STATE, R)
#define GOOD_B              REC(TASK(2), STATE, "[[0.004], 0, 0.5, 1700000001]")

enum verdict { YES, NO, SKIP, EITHER };
struct mutation {
    const char *name, *line;
    enum verdict store, score;
    const char *code; /* of a refusal; alternatives parted by '|' */
    const char *back; /* how the export prints it; NULL: as it came */
};
static const struct mutation mutations[] = {
    {"CRLF ending", REC(TASK(96), STATE, R) "\r", YES, YES, NULL, REC(TASK(96), STATE, R)},
    {"comment line", "# " REC(TASK(96), STATE, R), SKIP, SKIP, NULL, NULL},
    {"line that starts with a blank", " " REC(TASK(96), STATE, R), SKIP, SKIP, NULL, NULL},
    {"empty line", "", SKIP, SKIP, NULL, NULL},
    {"lone carriage return", "\r", SKIP, SKIP, NULL, NULL},
    {"text after the closing brace", REC(TASK(96), STATE, R) " trailing", NO, NO, "bad-json", NULL},
    {"two records in one line", REC(TASK(96), STATE, R) REC(TASK(96), STATE, R), NO, NO, "bad-json", NULL},
    {"keys in another order", "{\"v\": \"v0.6\", \"r\": " R ", \"i\": [" TASK(96) ", " STATE "]}", YES, YES, NULL,
     REC(TASK(96), STATE, R)},
    {"no blanks",
     "{\"i\":[[\"[\\\"t\\\",96]\"," TARGET "],[[],[[\"CI\",1]]]],\"r\":[[0.002],0,0.5,1700000000],\"v\":\"v0.6\"}", YES,
     YES, NULL, REC("[\"[\\\"t\\\",96]\", " TARGET "]", "[[], [[\"CI\", 1]]]", R)},
    {"no result", "{\"i\": [" TASK(96) ", " STATE "], \"v\": \"v0.6\"}", NO, YES, "not-measured", NULL},
    {"no version", "{\"i\": [" TASK(96) ", " STATE "], \"r\": " R "}", YES, YES, NULL, NULL},
    {"no input", "{\"r\": " R ", \"v\": \"v0.6\"}", NO, NO, "bad-task|bad-state|bad-json", NULL},
    {"task length 2", REC("[\"[\\\"t\\\", 96]\", " TARGET "]", STATE, R), YES, YES, NULL, NULL},
    {"task length 3", REC("[\"[\\\"t\\\", 96]\", " TARGET ", " PARAMS "]", STATE, R), YES, YES, NULL, NULL},
    {"task length 4", REC("[\"[\\\"t\\\", 96]\", " TARGET ", " PARAMS ", \"llvm\"]", STATE, R), YES, YES, NULL, NULL},
    {"task length 5", REC("[\"[\\\"t\\\", 96]\", " TARGET ", " PARAMS ", \"\", 2]", STATE, R), YES, YES, NULL, NULL},
    {"task length 6", REC("[\"[\\\"t\\\", 96]\", " TARGET ", " PARAMS ", \"\", 2, [\"W_data\"]]", STATE, R), YES, YES,
     NULL, NULL},
    {"task length 1", REC("[\"[\\\"t\\\", 96]\"]", STATE, R), NO, NO, "bad-task", NULL},
    {"task length 7", REC("[\"[\\\"t\\\", 96]\", " TARGET ", " PARAMS ", \"\", 2, [], 7]", STATE, R), NO, NO,
     "bad-task", NULL},
    {"seven hardware parameters", REC("[\"[\\\"t\\\", 96]\", " TARGET ", [8, 64, 64, 0, 0, 0, 0]]", STATE, R), NO, NO,
     "bad-task", NULL},
    {"workload key is no JSON", REC("[\"my_key\", " TARGET "]", STATE, R), YES, YES, NULL, NULL},
    {"old version", "{\"i\": [[\"[\\\"t\\\", 96]\", " TARGET "], " STATE "], \"r\": " R ", \"v\": \"v0.2\"}", YES, YES,
     NULL, NULL},
    {"unknown top-level key", "{\"i\": [" TASK(96) ", " STATE "], \"r\": " R ", \"v\": \"v0.6\", \"x\": 1}", NO, NO,
     "unknown-key", NULL},
    {"target as a JSON object",
     REC("[\"[\\\"t\\\", 96]\", \"{\\\"kind\\\": \\\"llvm\\\", \\\"keys\\\": [\\\"cpu\\\"]}\"]", STATE, R), YES, YES,
     NULL, NULL},
    {"target as an unknown tag", REC("[\"[\\\"t\\\", 96]\", \"acme/never-heard-of-it\"]", STATE, R), YES, YES, NULL,
     NULL},
    {"integer costs", REC(TASK(96), STATE, "[[1, 2], 0, 20, 1700000000]"), YES, YES, NULL, NULL},
    {"float timestamp", REC(TASK(96), STATE, "[[0.002], 0, 0.5, 1700000000.75]"), YES, YES, NULL,
     REC(TASK(96), STATE, R)},
    {"empty costs", REC(TASK(96), STATE, "[[], 0, 0.5, 1700000000]"), NO, YES, "not-measured", NULL},
    {"zero cost", REC(TASK(96), STATE, "[[0], 0, 0, 1700000000]"), NO, YES, "not-measured", NULL},
    {"negative cost", REC(TASK(96), STATE, "[[-0.5], 0, 0, 1700000000]"), NO, YES, "not-measured", NULL},
    {"empty steps", REC(TASK(96), "[[], []]", R), YES, YES, NULL, NULL},
    {"failed measurement", REC(TASK(96), STATE, "[[1e+10], 2, 20, 1700000000]"), YES, YES, NULL, NULL},
    {"failure by another writer", REC(TASK(96), STATE, "[[10000000000.0], 6, 20, 1700000000]"), YES, YES, NULL,
     REC(TASK(96), STATE, "[[1e+10], 6, 20, 1700000000]")},
    {"huge cost without an error", REC(TASK(96), STATE, "[[1e+10], 0, 20, 1700000000]"), YES, YES, NULL, NULL},
    {"error_no as a float", REC(TASK(96), STATE, "[[0.002], 0.0, 0.5, 1700000000]"), NO, EITHER, "bad-result", NULL},
    {"error_no out of range", REC(TASK(96), STATE, "[[0.002], 9, 0.5, 1700000000]"), NO, EITHER, "bad-result", NULL},
    {"three items of result", REC(TASK(96), STATE, "[[0.002], 0, 0.5]"), NO, EITHER, "bad-result", NULL},
    {"five items of result", REC(TASK(96), STATE, "[[0.002], 0, 0.5, 1700000000, 1]"), NO, EITHER, "bad-result", NULL},
    {"infinite cost", REC(TASK(96), STATE, "[[inf], 0, 0.5, 1700000000]"), NO, NO, "bad-json", NULL},
    {"TS step", REC(TASK(96), WITH("[\"TS\", 2, 3, \"intrin\"]"), R), NO, NO, "unknown-step", NULL},
    {"unknown step", REC(TASK(96), WITH("[\"XX\", 2]"), R), NO, NO, "unknown-step", NULL},
    {"extra operand", REC(TASK(96), WITH("[\"CI\", 1, 2]"), R), NO, NO, "bad-step", NULL},
    {"missing operand", REC(TASK(96), WITH("[\"AN\", 2, 0]"), R), NO, NO, "bad-step", NULL},
    {"operand of another type", REC(TASK(96), WITH("[\"CI\", \"1\"]"), R), NO, NO, "bad-step", NULL},
    {"float operand", REC(TASK(96), WITH("[\"CI\", 1.5]"), R), NO, NO, "bad-step", NULL},
    {"operand beyond 32 bits", REC(TASK(96), WITH("[\"CI\", 2147483648]"), R), NO, NO, "bad-step", NULL},
    {"negative stage", REC(TASK(96), WITH("[\"CI\", -1]"), R), NO, NO, "bad-step", NULL},
    {"split into nothing", REC(TASK(96), WITH("[\"SP\", 2, 0, 96, [4, 0], 1]"), R), NO, NO, "bad-step", NULL},
    {"no permutation", REC(TASK(96), WITH("[\"RE\", 2, [0, 1, 1]]"), R), NO, NO, "bad-step", NULL},
    {"fuse of loops apart", REC(TASK(96), WITH("[\"FU\", 2, [0, 2]]"), R), NO, NO, "bad-step", NULL},
    {"follows a later split", REC(TASK(96), WITH("[\"FSP\", 3, 0, 7, 1]"), R), NO, NO, "bad-step", NULL},
    {"follows what is no split", REC(TASK(96), WITH("[\"FSP\", 3, 0, 2, 1]"), R), NO, NO, "bad-step", NULL},
    {"follows in too many parts", REC(TASK(96), WITH("[\"FSP\", 3, 0, 0, 5]"), R), NO, NO, "bad-step", NULL},
    {"unknown annotation", REC(TASK(96), WITH("[\"AN\", 2, 0, 12]"), R), NO, NO, "bad-step", NULL},
    {"step that is no array", REC(TASK(96), "[[], [7]]", R), NO, NO, "bad-step|bad-state", NULL},
    {"stages are not empty", REC(TASK(96), "[[1], [" STEPS "]]", R), NO, NO, "bad-state", NULL},
    {"state without steps", REC(TASK(96), "[[]]", R), NO, NO, "bad-state", NULL},
    {"cut in the middle", "{\"i\": [" TASK(96) ", [[], [[\"SP\", 2, 0, 9", NO, NO, "bad-json", NULL},
    {"no JSON at all", "hello", NO, NO, "bad-json", NULL},
    {"single quotes", "{'i': []}", NO, NO, "bad-json", NULL},
    {"an array", "[1, 2]", NO, NO, "bad-json|bad-task", NULL},
    {"trailing comma", "{\"i\": [" TASK(96) ", " STATE "], \"r\": " R ", \"v\": \"v0.6\",}", NO, NO, "bad-json", NULL},
    {"leading zero", REC(TASK(96), STATE, "[[00.5], 0, 0.5, 1700000000]"), NO, NO, "bad-json", NULL},
    {"bare control byte in a string", REC("[\"a\tb\", " TARGET "]", STATE, R), NO, NO, "bad-json", NULL},
    {"bad UTF-8", REC("[\"a\xc3(b\", " TARGET "]", STATE, R), NO, NO, "bad-utf8", NULL},
    {"overlong UTF-8", REC("[\"a\xc0\xaf\", " TARGET "]", STATE, R), NO, NO, "bad-utf8", NULL},
    {"surrogate half", REC("[\"a\\ud800\", " TARGET "]", STATE, R), NO, NO, "bad-json|bad-utf8", NULL},
    {"good UTF-8", REC("[\"caf\xc3\xa9\", " TARGET "]", STATE, R), YES, YES, NULL, NULL},
    {"gpu target on a cpu", REC("[\"[\\\"t\\\", 96]\", \"cuda -arch=sm_80\"]", STATE, R), NO, NO, "wrong-target", NULL},
    {"other cpu flags", REC("[\"[\\\"t\\\", 96]\", \"llvm -mcpu=znver4 -model=x\"]", STATE, R), YES, YES, NULL, NULL},
};
enum { N_MUTATIONS = sizeof mutations / sizeof *mutations };

static bool is_code(const char *got, const char *wanted)
{
    size_t n = strlen(got);
    for (const char *p = wanted; p; p = strchr(p, '|'), p += p != NULL)
        if (!strncmp(p, got, n) && (p[n] == '\0' || p[n] == '|'))
            return true;
    return false;
}

/* The errors of a reply hold exactly one entry, about the record at `index` in `line`. */
static void check_error(const struct bb_reply *r, const struct mutation *m, int index, int line)
{
    const json_t *errors = tc_at(r->json, "/errors");
    ck_assert_msg(json_array_size(errors) == 1, "%s: %s", m->name, r->body);
    const json_t *e = json_array_get(errors, 0);
    ck_assert_msg(tc_int(e, "/index", -1) == index && tc_int(e, "/line", -1) == line, "%s: %s", m->name, r->body);
    ck_assert_msg(tc_str(e, "/code") && is_code(tc_str(e, "/code"), m->code), "%s: wanted %s: %s", m->name, m->code,
                  r->body);
    ck_assert_msg(tc_str(e, "/detail") && *tc_str(e, "/detail"), "%s: %s", m->name, r->body);
}

START_TEST(mutated_record_is_judged_by_measurements)
{
    const struct mutation *m = &mutations[_i];
    char *hw = bb_printf("store-%d", _i).p;
    bb_put_hardware(hw);
    struct bb_text body = bb_printf("%s\n%s\n%s\n", GOOD_A, m->line, GOOD_B);
    struct bb_reply *r = bb_lines(body.p, body.n, "/v1/hardware/%s/measurements", hw);
    bb_status(r, 200);
    ck_assert_msg(tc_int(r->json, "/accepted", -1) == 2 + (m->store == YES) &&
                      tc_int(r->json, "/rejected", -1) == (m->store == NO) && tc_int(r->json, "/duplicates", -1) == 0,
                  "%s: %s", m->name, r->body);
    if (m->store == NO)
        check_error(r, m, 1, 2);
    else
        ck_assert_msg(json_array_size(tc_at(r->json, "/errors")) == 0, "%s: %s", m->name, r->body);
    /* nothing but accepted records is stored, and those come back in their canonical form */
    const char *back = m->back ? m->back : m->line;
    struct bb_text want =
        m->store == YES ? bb_printf("%s\n%s\n%s\n", GOOD_A, back, GOOD_B) : bb_printf("%s\n%s\n", GOOD_A, GOOD_B);
    struct bb_reply *export = bb_get("/v1/hardware/%s/measurements", hw);
    bb_status(export, 200);
    ck_assert_str_eq(export->body, want.p);
}
END_TEST

START_TEST(mutated_record_is_judged_by_predict)
{
    const struct mutation *m = &mutations[_i];
    struct bb_text body = bb_printf("%s\n%s\n%s\n", GOOD_A, m->line, GOOD_B);
    struct bb_reply *r = bb_lines(body.p, body.n, "/v1/hardware/trained/predict");
    bb_status(r, 200);
    const json_t *scores = tc_at(r->json, "/scores"), *latency = tc_at(r->json, "/latency_seconds");
    size_t n = m->score == SKIP ? 2 : 3;
    ck_assert_msg(json_array_size(scores) == n && json_array_size(latency) == n, "%s: %s", m->name, r->body);
    ck_assert_msg(json_is_number(json_array_get(scores, 0)) && json_is_number(json_array_get(scores, n - 1)), "%s: %s",
                  m->name, r->body);
    if (m->score == YES || m->score == NO)
        ck_assert_msg(json_is_number(json_array_get(scores, 1)) == (m->score == YES), "%s: %s", m->name, r->body);
    if (m->score == NO) {
        ck_assert_msg(json_is_null(json_array_get(scores, 1)) && json_is_null(json_array_get(latency, 1)), "%s: %s",
                      m->name, r->body);
        check_error(r, m, 1, 2);
    }
}
END_TEST

/* ---- forms ---- */

/* Posts `lines` in one form to fresh hardware and returns the export. */
static const char *stored_by(const char *hw, const struct tc_request *how, long accepted)
{
    bb_put_hardware(hw);
    struct tc_request q = *how;
    q.method = "POST";
    q.path = bb_printf("/v1/hardware/%s/measurements", hw).p;
    bb_counts(bb_call(&q), accepted, 0, 0);
    return bb_get("/v1/hardware/%s/measurements", hw)->body;
}

static struct bb_text as_records(struct bb_text lines)
{
    struct tp_buf b = {0};
    tp_buf_puts(&b, "{\"records\": [");
    for (size_t i = 0; i < lines.n; i++) {
        if (lines.p[i] == '\n' && i + 1 < lines.n)
            tp_buf_putc(&b, ',');
        tp_buf_putc(&b, lines.p[i]);
    }
    tp_buf_puts(&b, "]}");
    tp_buf_putc(&b, '\0');
    struct bb_text t = bb_printf("%s", b.p);
    tp_buf_free(&b);
    return t;
}

START_TEST(every_form_stores_the_same)
{
    enum { N = 300 };
    struct bb_text lines = bb_records(0, N), json = as_records(lines);
    static const char ndjson_type[] = "application/x-ndjson", json_type[] = "application/json";
    static const enum tc_encoding packing[] = {TC_IDENTITY, TC_GZIP, TC_ZSTD};
    for (int form = 0; form < 2; form++)
        for (int pack = 0; pack < 3; pack++)
            for (int chunked = 0; chunked < 2; chunked++) {
                const struct bb_text *t = form ? &json : &lines;
                struct tc_request q = {.body = t->p,
                                       .n = t->n,
                                       .content_type = form ? json_type : ndjson_type,
                                       .encoding = packing[pack],
                                       .chunked = chunked};
                const char *got = stored_by(bb_printf("form-%d-%d-%d", form, pack, chunked).p, &q, N);
                ck_assert_msg(!strcmp(got, lines.p), "form %d, packing %d, chunked %d: the export differs", form, pack,
                              chunked);
            }
}
END_TEST

START_TEST(curl_data_binary_just_works)
{
    /* curl sends this type unless told otherwise, and the manual says `curl --data-binary @log.json` is enough */
    struct bb_text lines = bb_records(0, 10);
    struct tc_request q = {.body = lines.p, .n = lines.n, .content_type = "application/x-www-form-urlencoded"};
    ck_assert_str_eq(stored_by("curl", &q, 10), lines.p);
    q.content_type = NULL;
    ck_assert_str_eq(stored_by("untyped", &q, 10), lines.p);
}
END_TEST

START_TEST(expect_100_continue_is_answered)
{
    struct bb_text lines = bb_records(0, 2000);
    bb_put_hardware("expect");
    struct bb_text head =
        bb_printf("POST /v1/hardware/expect/measurements HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\n"
                  "Expect: 100-continue\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
                  lines.n);
    int fd = bb_connect();
    bb_send(fd, head.p, head.n);
    struct bb_text interim = bb_recv(fd, "\r\n\r\n", 5, NULL);
    ck_assert_msg(!strncmp(interim.p, "HTTP/1.1 100", 12), "%.200s", interim.p);
    bb_send(fd, lines.p, lines.n);
    struct bb_text got = bb_recv(fd, NULL, 10, NULL);
    ck_assert_msg(!strncmp(got.p, "HTTP/1.1 200", 12) && strstr(got.p, "\"accepted\":") != NULL, "%.400s", got.p);
}
END_TEST

START_TEST(blank_and_comment_lines_count_as_lines_not_records)
{
    bb_put_hardware("numbered");
    struct bb_text body = bb_printf("\xef\xbb\xbf# a log\n\n%s\n\n# more\nbroken\n%s\n", GOOD_A, GOOD_B);
    struct bb_reply *r = bb_lines(body.p, body.n, "/v1/hardware/numbered/measurements");
    bb_counts(r, 2, 0, 1);
    ck_assert_int_eq(tc_int(r->json, "/errors/0/index", -1), 1);
    ck_assert_int_eq(tc_int(r->json, "/errors/0/line", -1), 6);
}
END_TEST

START_TEST(torn_last_line_is_one_rejected_record)
{
    bb_put_hardware("torn");
    struct bb_text body = bb_printf("%s\n%.60s", GOOD_A, GOOD_B);
    struct bb_reply *r = bb_lines(body.p, body.n, "/v1/hardware/torn/measurements");
    bb_counts(r, 1, 0, 1);
    ck_assert_int_eq(tc_int(r->json, "/errors/0/line", -1), 2);
}
END_TEST

START_TEST(last_line_needs_no_newline)
{
    bb_put_hardware("no-newline");
    bb_counts(bb_lines(GOOD_A, strlen(GOOD_A), "/v1/hardware/no-newline/measurements"), 1, 0, 0);
}
END_TEST

START_TEST(task_with_states_has_nothing_to_store)
{
    bb_put_hardware("states");
    struct bb_reply *r = bb_json("POST", "{\"task\": " TASK(1) ", \"states\": [" STATE ", " STATE "]}",
                                 "/v1/hardware/states/measurements");
    bb_counts(r, 0, 0, 2);
    ck_assert_str_eq(tc_str(r->json, "/errors/0/code"), "not-measured");
    ck_assert_int_eq(tc_int(r->json, "/errors/1/index", -1), 1);
}
END_TEST

START_TEST(json_errors_have_index_and_pointer_but_no_line)
{
    bb_put_hardware("pointed");
    struct bb_reply *r =
        bb_json("POST", "{\"records\": [" GOOD_A ", " REC(TASK(3), WITH("[\"XX\", 1]"), R) ", 7, " GOOD_B "]}",
                "/v1/hardware/pointed/measurements");
    bb_counts(r, 2, 0, 2);
    ck_assert_int_eq(tc_int(r->json, "/errors/0/index", -1), 1);
    ck_assert_int_eq(tc_int(r->json, "/errors/1/index", -1), 2);
    ck_assert_msg(!json_is_integer(tc_at(r->json, "/errors/0/line")), "%s", r->body);
    const char *pointer = tc_str(r->json, "/errors/0/pointer");
    ck_assert_msg(pointer && !strncmp(pointer, "/i/1/1/3", 8), "%s", r->body);
}
END_TEST

START_TEST(step_errors_name_the_step)
{
    bb_put_hardware("stepped");
    struct bb_text body =
        bb_printf("%s\n%s\n", REC(TASK(1), WITH("[\"TS\", 2, 3, \"x\"]"), R), REC(TASK(1), WITH("[\"CI\", 1, 2]"), R));
    struct bb_reply *r = bb_lines(body.p, body.n, "/v1/hardware/stepped/measurements");
    bb_counts(r, 0, 0, 2);
    for (int i = 0; i < 2; i++) {
        const json_t *e = tc_at(r->json, i ? "/errors/1" : "/errors/0");
        ck_assert_msg(tc_str(e, "/pointer") && !strncmp(tc_str(e, "/pointer"), "/i/1/1/3", 8), "%s", r->body);
        ck_assert_msg(tc_str(e, "/detail") && strstr(tc_str(e, "/detail"), "step 3"), "%s", r->body);
    }
}
END_TEST

START_TEST(errors_stop_at_a_thousand_and_say_so)
{
    enum { BAD = 1500 };
    bb_put_hardware("many-errors");
    struct tp_buf b = {0};
    for (int i = 0; i < BAD; i++)
        tp_buf_puts(&b, "broken\n");
    tp_buf_puts(&b, GOOD_A "\n");
    struct bb_reply *r = bb_lines(b.p, b.n, "/v1/hardware/many-errors/measurements");
    tp_buf_free(&b);
    bb_counts(r, 1, 0, BAD);
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/errors")), 1000);
    ck_assert_msg(json_is_true(tc_at(r->json, "/errors_truncated")), "errors_truncated is missing");
}
END_TEST

static struct bb_text repeat(const char *what, int n, const char *between)
{
    struct tp_buf b = {0};
    for (int i = 0; i < n; i++) {
        if (i)
            tp_buf_puts(&b, between);
        tp_buf_puts(&b, what);
    }
    tp_buf_putc(&b, '\0');
    struct bb_text t = bb_printf("%s", b.p);
    tp_buf_free(&b);
    return t;
}

START_TEST(sizes_inside_a_record_are_limited)
{
    static const char head[] = "{\"i\": [" TASK(9) ", [[], [", tail[] = "]]], \"r\": " R ", \"v\": \"v0.6\"}";
    struct {
        struct bb_text line;
        const char *code;
    } cases[] = {
        {bb_printf("%s%s%s", head, repeat("[\"CI\", 1]", 513, ", ").p, tail), "too-many-steps"},
        {bb_printf("%s[\"SP\", 2, 0, 512, [%s], 1]%s", head, repeat("1", 257, ", ").p, tail), "bad-step"},
        {bb_printf("%s%s%s", head, repeat("[\"CI\",     1]", 100000, ", ").p, tail), "too-long|too-many-steps"},
        {bb_printf("{\"i\": [%s%s], \"r\": " R "}", repeat("[", 5000, "").p, repeat("]", 5000, "").p),
         "too-deep|bad-task"},
        {bb_printf("{\"x\": %s%s}", repeat("[", 5000, "").p, repeat("]", 5000, "").p), "too-deep|unknown-key"},
    };
    bb_put_hardware("limited");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bb_text body = bb_printf("%s\n%s\n", cases[i].line.p, bb_record((int)i, 0.001, 1700000000).p);
        struct bb_reply *r = bb_lines(body.p, body.n, "/v1/hardware/limited/measurements");
        bb_counts(r, 1, 0, 1);
        ck_assert_msg(is_code(tc_str(r->json, "/errors/0/code"), cases[i].code), "wanted %s: %s", cases[i].code,
                      r->body);
    }
    struct bb_text most = bb_printf("%s%s%s\n", head, repeat("[\"CI\", 1]", 512, ", ").p, tail);
    bb_counts(bb_lines(most.p, most.n, "/v1/hardware/limited/measurements"), 1, 0, 0);
}
END_TEST

/* ---- bodies that are refused as a whole ---- */

struct refusal {
    const char *name, *type, *encoding, *body;
    long status;
    const char *slug; /* NULL: any */
};
static const struct refusal refusals[] = {
    {"empty body", "application/x-ndjson", NULL, "", 400, "no-records"},
    {"only comments", "application/x-ndjson", NULL, "# nothing\n\n", 400, "no-records"},
    {"no records in the envelope", "application/json", NULL, "{\"records\": []}", 400, "no-records"},
    {"no states", "application/json", NULL, "{\"task\": " TASK(1) ", \"states\": []}", 400, "no-records"},
    {"empty JSON body", "application/json", NULL, "", 400, NULL},
    {"envelope is no JSON", "application/json", NULL, "{\"records\": [" GOOD_A, 400, "bad-body"},
    {"envelope with an unknown key", "application/json", NULL, "{\"records\": [" GOOD_A "], \"x\": 1}", 400,
     "bad-body"},
    {"unknown key before the records", "application/json", NULL, "{\"x\": 1, \"records\": [" GOOD_A "]}", 400,
     "bad-body"},
    {"envelope is an array", "application/json", NULL, "[" GOOD_A "]", 400, "bad-body"},
    {"both forms at once", "application/json", NULL,
     "{\"records\": [" GOOD_A "], \"task\": " TASK(1) ", \"states\": []}", 400, NULL},
    {"states without a task", "application/json", NULL, "{\"states\": [" STATE "]}", 400, NULL},
    {"text behind the envelope", "application/json", NULL, "{\"records\": [" GOOD_A "]} x", 400, "bad-body"},
    {"break between records", "application/json", NULL, "{\"records\": [" GOOD_A " " GOOD_B "]}", 400, "bad-body"},
    {"gzip that is none", "application/x-ndjson", "gzip", GOOD_A, 400, "bad-encoding"},
    {"zstd that is none", "application/x-ndjson", "zstd", GOOD_A, 400, "bad-encoding"},
    {"encoding that is not known", "application/x-ndjson", "br", GOOD_A, 415, NULL},
    {"media type that is not known", "text/csv", NULL, GOOD_A, 415, "unsupported-media-type"},
};
enum { N_REFUSALS = sizeof refusals / sizeof *refusals };

START_TEST(unusable_body_is_refused_whole)
{
    const struct refusal *c = &refusals[_i];
    char *hw = bb_printf("refuse-%d", _i).p;
    const char *headers[] = {c->encoding ? bb_printf("Content-Encoding: %s", c->encoding).p : NULL, NULL};
    bb_put_hardware(hw);
    struct tc_request q = {
        .method = "POST", .body = c->body, .n = strlen(c->body), .content_type = c->type, .headers = headers};
    for (int predict = 0; predict < 2; predict++) {
        q.path = bb_printf("/v1/hardware/%s/%s", predict ? "trained" : hw, predict ? "predict" : "measurements").p;
        struct bb_reply *r = bb_call(&q);
        ck_assert_msg(r->status == c->status, "%s on %s: %ld %s", c->name, q.path, r->status, r->body);
        bb_problem(r, c->status, c->slug);
    }
    ck_assert_uint_eq(bb_get("/v1/hardware/%s/measurements", hw)->n, 0);
    bb_status(bb_get("/livez"), 200);
}
END_TEST

START_TEST(truncated_packing_is_refused_whole)
{
    struct bb_text lines = bb_records(0, 500);
    bb_put_hardware("cut");
    for (int zstd = 0; zstd < 2; zstd++) {
        struct tp_buf packed = {0};
        const char *headers[] = {zstd ? "Content-Encoding: zstd" : "Content-Encoding: gzip", NULL};
        ck_assert_int_eq(tc_encode(zstd ? TC_ZSTD : TC_GZIP, lines.p, lines.n, &packed, NULL), 0);
        struct tc_request q = {.path = "/v1/hardware/cut/measurements",
                               .body = packed.p,
                               .n = packed.n / 2,
                               .content_type = "application/x-ndjson",
                               .headers = headers};
        bb_problem(bb_call(&q), 400, "bad-encoding");
        tp_buf_free(&packed);
    }
    ck_assert_uint_eq(bb_get("/v1/hardware/cut/measurements")->n, 0);
}
END_TEST

START_TEST(packing_that_no_header_tells_is_named)
{
    struct bb_text lines = bb_records(0, 5);
    bb_put_hardware("unsaid");
    for (int zstd = 0; zstd < 2; zstd++) {
        struct tp_buf packed = {0};
        ck_assert_int_eq(tc_encode(zstd ? TC_ZSTD : TC_GZIP, lines.p, lines.n, &packed, NULL), 0);
        for (int predict = 0; predict < 2; predict++) {
            struct tc_request q = {
                .path = bb_printf("/v1/hardware/%s", predict ? "trained/predict" : "unsaid/measurements").p,
                .method = "POST",
                .body = packed.p,
                .n = packed.n,
                .content_type = "application/x-ndjson"};
            struct bb_reply *r = bb_call(&q);
            bb_problem(r, 400, "bad-encoding");
            ck_assert_msg(
                strstr(tc_str(r->json, "/detail"), zstd ? "Content-Encoding: zstd" : "Content-Encoding: gzip") != NULL,
                "%s", r->body);
        }
        tp_buf_free(&packed);
    }
    ck_assert_uint_eq(bb_get("/v1/hardware/unsaid/measurements")->n, 0);
}
END_TEST

START_TEST(packed_members_glued_together_are_one_body)
{
    struct bb_text a = bb_records(0, 20), b = bb_records(20, 20), both[2] = {a, b};
    bb_put_hardware("glued");
    struct tp_buf packed = {0};
    ck_assert_int_eq(tc_encode(TC_ZSTD, a.p, a.n, &packed, NULL) | tc_encode(TC_ZSTD, b.p, b.n, &packed, NULL), 0);
    const char *headers[] = {"Content-Encoding: zstd", NULL};
    struct tc_request q = {.path = "/v1/hardware/glued/measurements",
                           .body = packed.p,
                           .n = packed.n,
                           .content_type = "application/x-ndjson",
                           .headers = headers};
    bb_counts(bb_call(&q), 40, 0, 0);
    tp_buf_free(&packed);
    ck_assert_str_eq(bb_get("/v1/hardware/glued/measurements")->body, bb_join(both, 2).p);
}
END_TEST

START_TEST(decompression_bombs_are_refused_not_unpacked)
{
    enum { SIZE = 200 << 20 };
    static const char *const routes[] = {"/v1/hardware/trained/predict", "/v1/hardware/trained/measurements"};
    char *zeros = calloc(1, SIZE);
    memset(zeros, '\n', SIZE);
    for (int zstd = 0; zstd < 2; zstd++) {
        struct tp_buf packed = {0};
        ck_assert_int_eq(tc_encode(zstd ? TC_ZSTD : TC_GZIP, zeros, SIZE, &packed, NULL), 0);
        const char *headers[] = {zstd ? "Content-Encoding: zstd" : "Content-Encoding: gzip", NULL};
        for (int i = 0; i < 2; i++) {
            struct tc_request q = {.path = routes[i],
                                   .body = packed.p,
                                   .n = packed.n,
                                   .content_type = "application/x-ndjson",
                                   .headers = headers};
            bb_problem(bb_call(&q), 413, "body-too-large");
        }
        tp_buf_free(&packed);
    }
    free(zeros);
}
END_TEST

START_TEST(long_bodies_are_413_by_either_framing)
{
    enum { SIZE = (16 << 20) + 4096 };
    char *blank = malloc(SIZE);
    memset(blank, '\n', SIZE);
    struct tc_request q = {
        .path = "/v1/hardware/trained/predict", .body = blank, .n = SIZE, .content_type = "application/x-ndjson"};
    bb_problem(bb_call(&q), 413, "body-too-large");
    q.chunked = true;
    bb_problem(bb_call(&q), 413, "body-too-large");
    free(blank);
    bb_status(bb_get("/livez"), 200);
}
END_TEST

/* ---- a case with trained hardware ---- */

static TCase *with_model;

START_TEST(train_first)
{
    bb_put_hardware("trained");
    bb_post_demo("trained", 8, 3);
    bb_train("trained", "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 1}");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/records");
    with_model = bb_case(s, "records", 60);
    tcase_add_test(with_model, train_first);
    tcase_add_loop_test(with_model, mutated_record_is_judged_by_measurements, 0, N_MUTATIONS);
    tcase_add_loop_test(with_model, mutated_record_is_judged_by_predict, 0, N_MUTATIONS);
    tcase_add_loop_test(with_model, unusable_body_is_refused_whole, 0, N_REFUSALS);
    tcase_add_test(with_model, decompression_bombs_are_refused_not_unpacked);
    tcase_add_test(with_model, long_bodies_are_413_by_either_framing);
    tcase_add_test(with_model, every_form_stores_the_same);
    tcase_add_test(with_model, curl_data_binary_just_works);
    tcase_add_test(with_model, expect_100_continue_is_answered);
    tcase_add_test(with_model, blank_and_comment_lines_count_as_lines_not_records);
    tcase_add_test(with_model, torn_last_line_is_one_rejected_record);
    tcase_add_test(with_model, last_line_needs_no_newline);
    tcase_add_test(with_model, task_with_states_has_nothing_to_store);
    tcase_add_test(with_model, json_errors_have_index_and_pointer_but_no_line);
    tcase_add_test(with_model, step_errors_name_the_step);
    tcase_add_test(with_model, errors_stop_at_a_thousand_and_say_so);
    tcase_add_test(with_model, sizes_inside_a_record_are_limited);
    tcase_add_test(with_model, truncated_packing_is_refused_whole);
    tcase_add_test(with_model, packing_that_no_header_tells_is_named);
    tcase_add_test(with_model, packed_members_glued_together_are_one_body);
    return bb_main(s);
}
