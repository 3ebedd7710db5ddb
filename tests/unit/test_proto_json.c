/* The tokenizer: its own rules one by one, and against jansson over generated and damaged documents.
 *
 * Known differences, left out of the comparison: jansson refuses what it cannot hold (integers beyond int64, reals that
 * overflow, keys with a NUL) and, as it is used here, duplicate keys; the tokenizer leaves these to its callers.
 * jansson overlooks a NUL byte behind a number or a word; the tokenizer does not. The tokenizer stops at its depth. */
#include "proto/buf.h"
#include "proto/json.h"
#include "proto/number.h"
#include "tests/unit/proto_lines.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64, TEXT = 4096 };

/* One spelling of a document that both parsers can print. */
static void put_string(struct tp_buf *out, const struct tp_json_text *t)
{
    char *plain = malloc(t->n + 1);
    ck_assert_ptr_nonnull(plain);
    size_t n = tp_json_unescape(t->s, t->n, plain);
    ck_assert_uint_le(n, t->n);
    tp_buf_json_str(out, plain, n);
    free(plain);
}

static void put_number(struct tp_buf *out, int event, const struct tp_json_text *t)
{
    char text[TP_NUM_LEXEME];
    double v;
    if (event == TP_JSON_INT && t->n <= 20) {
        memcpy(text, t->s, t->n);
        text[t->n] = '\0';
        tp_buf_i64(out, strtoll(text, NULL, 10));
    } else if (event == TP_JSON_REAL && tp_num_parse(t->s, t->n, &v) == 0) {
        tp_buf_printf(out, "r%.17g", v);
    } else {
        tp_buf_puts(out, "beyond jansson");
    }
}

static int ours(const char *s, size_t n, struct tp_buf *out)
{
    struct tp_json j;
    struct tp_json_text t;
    tp_json_init(&j, s, n, DEPTH);
    for (;;) {
        int event = tp_json_next(&j, &t);
        if (event < 0)
            return event;
        switch (event) {
        case TP_JSON_END:
            return tp_json_finish(&j);
        case TP_JSON_KEY:
            put_string(out, &t);
            tp_buf_putc(out, ':');
            break;
        case TP_JSON_STRING:
            put_string(out, &t);
            break;
        case TP_JSON_INT:
        case TP_JSON_REAL:
            put_number(out, event, &t);
            break;
        default:
            tp_buf_putc(out, " {}[]...tfn"[event == TP_JSON_TRUE    ? 8
                                           : event == TP_JSON_FALSE ? 9
                                           : event == TP_JSON_NULL  ? 10
                                                                    : event]);
        }
        tp_buf_putc(out, ' ');
    }
}

static void theirs(const json_t *v, struct tp_buf *out)
{
    const char *key;
    json_t *item;
    size_t i;
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        tp_buf_puts(out, "{ ");
        json_object_foreach((json_t *)v, key, item)
        {
            tp_buf_json_str(out, key, strlen(key));
            tp_buf_puts(out, ": ");
            theirs(item, out);
        }
        tp_buf_puts(out, "} ");
        break;
    case JSON_ARRAY:
        tp_buf_puts(out, "[ ");
        json_array_foreach(v, i, item) theirs(item, out);
        tp_buf_puts(out, "] ");
        break;
    case JSON_STRING:
        tp_buf_json_str(out, json_string_value(v), json_string_length(v));
        tp_buf_putc(out, ' ');
        break;
    case JSON_INTEGER:
        tp_buf_i64(out, json_integer_value(v));
        tp_buf_putc(out, ' ');
        break;
    case JSON_REAL:
        tp_buf_printf(out, "r%.17g ", json_real_value(v));
        break;
    case JSON_TRUE:
        tp_buf_puts(out, "t ");
        break;
    case JSON_FALSE:
        tp_buf_puts(out, "f ");
        break;
    case JSON_NULL:
        tp_buf_puts(out, "n ");
    }
}

/* ---- generated documents ----------------------------------------------------------------------------------------- */

static void gen_blank(uint64_t *rng, struct tp_buf *out)
{
    for (uint32_t k = below(rng, 8); k > 5; k--)
        tp_buf_putc(out, " \n\t\r"[below(rng, 4)]);
}

static void gen_string(uint64_t *rng, struct tp_buf *out, int unique)
{
    static const char *const pieces[] = {
        "a",   "SP",  "\\n",     "\\\"",    "\\\\",           "\\/",      "\\u0041",      "\\u00e9",          "\\u20AC",
        "\\b", "\\f", "\\r",     "\\t",     "\\ud83d\\ude00", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\x7f",
        " ",   "{",   "\\u0000", "\\u001f", "\\uD800"};
    tp_buf_putc(out, '"');
    for (uint32_t k = below(rng, 6); k > 0; k--)
        tp_buf_puts(out, pieces[below(rng, below(rng, 8) == 0 ? sizeof pieces / sizeof pieces[0] : 20)]);
    if (unique >= 0)
        tp_buf_printf(out, "%d", unique);
    tp_buf_putc(out, '"');
}

static void gen_number(uint64_t *rng, struct tp_buf *out)
{
    static const char *const odd[] = {"-0",
                                      "0",
                                      "-0.0",
                                      "1e5",
                                      "1E+05",
                                      "0.5e-10",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "9223372036854775808",
                                      "1e400",
                                      "01",
                                      "+1",
                                      "1.",
                                      ".5",
                                      "-",
                                      "1e",
                                      "nan",
                                      "Infinity"};
    switch (below(rng, 5)) {
    case 0:
        tp_buf_puts(out, odd[below(rng, below(rng, 4) == 0 ? 18 : 8)]);
        break;
    case 1:
        tp_buf_printf(out, "%.17g", (double)(int32_t)next_random(rng) / 1e4);
        break;
    case 2:
        tp_buf_printf(out, "%.6e", (double)next_random(rng) / 4e15);
        break;
    default:
        tp_buf_printf(out, "%d", (int)next_random(rng) >> below(rng, 32));
    }
}

/* Open and close containers at random; the stack is a string of brackets. */
static void gen_document(uint64_t *rng, struct tp_buf *out)
{
    char stack[DEPTH + 8];
    int depth = 0, keys = 0;
    bool first = true;
    do {
        bool object = depth > 0 && stack[depth - 1] == '{';
        gen_blank(rng, out);
        if (depth > 0 && (below(rng, 4) == 0 || out->n > TEXT / 2)) {
            tp_buf_putc(out, object ? '}' : ']');
            depth--;
            first = false;
            continue;
        }
        if (!first)
            tp_buf_putc(out, ',');
        gen_blank(rng, out);
        if (object) {
            gen_string(rng, out, keys++);
            gen_blank(rng, out);
            tp_buf_putc(out, ':');
            gen_blank(rng, out);
        }
        first = false;
        uint32_t what = below(rng, 10);
        if (what < 4 && depth < DEPTH) {
            stack[depth] = what & 1 ? '{' : '[';
            tp_buf_putc(out, stack[depth++]);
            first = true;
        } else if (what < 6) {
            gen_string(rng, out, -1);
        } else if (what < 9) {
            gen_number(rng, out);
        } else {
            static const char *const words[] = {"true", "false", "null"};
            tp_buf_puts(out, words[below(rng, 3)]);
        }
    } while (depth > 0);
    gen_blank(rng, out);
}

static void compare(const char *s, size_t n, struct tp_buf *a, struct tp_buf *b, size_t *both)
{
    json_error_t je;
    json_t *v = json_loadb(s, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &je);
    a->n = b->n = 0;
    int rc = ours(s, n, a);
    if (v == NULL) {
        enum json_error_code code = json_error_code(&je);
        if (rc >= 0 && code != json_error_numeric_overflow && code != json_error_duplicate_key &&
            code != json_error_null_byte_in_key)
            ck_abort_msg("only we accept %.*s (%s)", (int)n, s, je.text);
        return;
    }
    theirs(v, b);
    json_decref(v);
    if (rc < 0 && memchr(s, '\0', n) != NULL)
        return;
    if (rc < 0)
        ck_abort_msg("only jansson accepts %.*s", (int)n, s);
    if (a->n != b->n || memcmp(a->p, b->p, a->n) != 0)
        ck_abort_msg("%.*s\nours   %.*s\ntheirs %.*s", (int)n, s, (int)a->n, a->p, (int)b->n, b->p);
    ++*both;
}

START_TEST(agrees_with_jansson_on_generated_and_damaged_documents)
{
    struct tp_buf doc = {0}, a = {0}, b = {0};
    uint64_t rng = 8259;
    size_t cases = 0, both = 0;
    char text[2 * TEXT];
    for (int i = 0; i < 12000; i++) {
        doc.n = 0;
        gen_document(&rng, &doc);
        ck_assert_uint_lt(doc.n, sizeof text);
        compare(doc.p, doc.n, &a, &b, &both);
        cases++;
        size_t n = doc.n;
        memcpy(text, doc.p, n);
        for (uint32_t k = 1 + below(&rng, 4); k > 0; k--, cases++) {
            mutate(&rng, text, &n, sizeof text);
            /* An exact copy on the heap, so that a sanitizer sees a read past the end. */
            char *exact = malloc(n > 0 ? n : 1);
            ck_assert_ptr_nonnull(exact);
            memcpy(exact, text, n);
            compare(exact, n, &a, &b, &both);
            free(exact);
        }
    }
    ck_assert_uint_ge(cases, 20000);
    ck_assert_uint_ge(both, 5000);
    ck_assert_uint_ge(cases - both, 5000);
    tp_buf_free(&doc);
    tp_buf_free(&a);
    tp_buf_free(&b);
}
END_TEST

static int outcome(const char *s, size_t n)
{
    struct tp_buf out = {0};
    int rc = ours(s, n, &out);
    tp_buf_free(&out);
    return rc;
}

START_TEST(refuses_everything_that_the_grammar_does_not_have)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "[1,]",
                                      "{\"a\":1,}",
                                      "{a:1}",
                                      "[1 2]",
                                      "01",
                                      "-",
                                      "+1",
                                      "1.",
                                      ".5",
                                      "1e",
                                      "0x10",
                                      "nan",
                                      "NaN",
                                      "Infinity",
                                      "'a'",
                                      "\"a",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\u12G4\"",
                                      "\"\t\"",
                                      "[1]]",
                                      "[}",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "tru",
                                      "truee",
                                      "// c\n1",
                                      "[1,,2]",
                                      "{,}",
                                      "[,1]",
                                      "{\"a\":1 \"b\":2}",
                                      "1 1",
                                      "-01",
                                      "\"\\ud800\"",
                                      "\"\\udc00\"",
                                      "\"\\ud800\\u0041\"",
                                      "\"\\ud800\\ud800\"",
                                      "\xEF\xBB\xBF 1",

                                      "-a",
                                      "1.e5",
                                      "1e+"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(outcome(bad[i], strlen(bad[i])) == -TP_E_BAD_JSON, "%s", bad[i]);
    ck_assert_int_eq(outcome("1\0", 2), -TP_E_BAD_JSON);
    ck_assert_int_eq(outcome("\"\0\"", 3), -TP_E_BAD_JSON);
}
END_TEST

START_TEST(refuses_malformed_utf8)
{
    static const char *const bad[] = {"\x80",
                                      "\xBF",
                                      "\xC0\xAF",
                                      "\xC1\xBF",
                                      "\xC3",
                                      "\xE0\x80\xAF",
                                      "\xE0\x9F\xBF",
                                      "\xE2\x82",
                                      "\xED\xA0\x80",
                                      "\xED\xBF\xBF",
                                      "\xF0\x80\x80\xAF",
                                      "\xF0\x8F\xBF\xBF",
                                      "\xF4\x90\x80\x80",
                                      "\xF5\x80\x80\x80",
                                      "\xFE",
                                      "\xFF",
                                      "\xE2\x28\xA1"};
    static const char *const good[] = {"\xC2\x80",     "\xDF\xBF",     "\xE0\xA0\x80",     "\xED\x9F\xBF",
                                       "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"};
    char text[16];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "\"%s\"", bad[i]);
        ck_assert_msg(outcome(text, strlen(text)) == -TP_E_BAD_UTF8, "case %zu", i);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snprintf(text, sizeof text, "\"%s\"", good[i]);
        ck_assert_msg(outcome(text, strlen(text)) == 0, "case %zu", i);
    }
}
END_TEST

START_TEST(nesting_is_limited_and_the_limit_itself_is_fine)
{
    char text[2 * DEPTH + 4];
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    ck_assert_int_eq(outcome(text, 2 * DEPTH), 0);
    memset(text, '[', DEPTH + 1);
    memset(text + DEPTH + 1, ']', DEPTH + 1);
    ck_assert_int_eq(outcome(text, 2 * DEPTH + 2), -TP_E_TOO_DEEP);
    for (int i = 0; i <= DEPTH; i++)
        text[i] = '[';
    ck_assert_int_eq(outcome(text, DEPTH + 1), -TP_E_TOO_DEEP);
}
END_TEST

START_TEST(control_characters_by_escape_are_marked)
{
    static const struct {
        const char *text;
        bool control;
    } cases[] = {{"\"\\u0000\"", true}, {"\"\\b\"", true},      {"\"\\f\"", true},         {"\"\\u001f\"", true},
                 {"\"\\n\"", false},    {"\"\\u0009\"", false}, {"\"\\u0020\\r\"", false}, {"\"a\"", false}};
    struct tp_json j;
    struct tp_json_text t;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tp_json_init(&j, cases[i].text, strlen(cases[i].text), 1);
        ck_assert_int_eq(tp_json_next(&j, &t), TP_JSON_STRING);
        ck_assert_int_eq(t.control, cases[i].control);
    }
}
END_TEST

START_TEST(reads_32_bit_integers_and_nothing_else)
{
    static const struct {
        const char *text;
        bool ok;
        int32_t v;
    } cases[] = {{"0", true, 0},
                 {"7", true, 7},
                 {"-0", true, 0},
                 {"-12", true, -12},
                 {"123456789", true, 123456789},
                 {"2147483647", true, INT32_MAX},
                 {"-2147483648", true, INT32_MIN},
                 {"2147483648", false, 0},
                 {"-2147483649", false, 0},
                 {"99999999999999999999", false, 0},
                 {"1.0", false, 0},
                 {"1e1", false, 0},
                 {"1E1", false, 0},
                 {"0.5", false, 0},
                 {"-", false, 0},
                 {"x", false, 0},
                 {"\"1\"", false, 0},
                 {"", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int pad = 0; pad < 2; pad++) { /* far from the end and right at it */
            char text[64];
            int32_t v = 0;
            snprintf(text, sizeof text, "%s%s", cases[i].text, pad ? ", 1, 2, 3, 4, 5" : "");
            const char *q = tp_json_i32(text, text + strlen(text), &v);
            ck_assert_msg((q != NULL) == cases[i].ok, "%s", text);
            if (q != NULL) {
                ck_assert_int_eq(v, cases[i].v);
                ck_assert_uint_eq((size_t)(q - text), strlen(cases[i].text));
            }
        }
}
END_TEST

START_TEST(keys_compare_with_their_escapes_decoded)
{
    struct tp_json_text t = {.s = "\\u0069", .n = 6, .escaped = true};
    ck_assert(tp_json_is(&t, "i"));
    ck_assert(!tp_json_is(&t, "r"));
    t = (struct tp_json_text){.s = "states", .n = 6};
    ck_assert(tp_json_is(&t, "states"));
    ck_assert(!tp_json_is(&t, "state"));
}
END_TEST

START_TEST(skipping_and_stepping_lead_through_an_array)
{
    static const char text[] = "[ {\"a\": [1, {\"b\": []}]} , \"]\" , 3 ]";
    struct tp_json j;
    struct tp_json_text t;
    tp_json_init(&j, text, sizeof text - 1, 8);
    ck_assert_int_eq(tp_json_next(&j, &t), TP_JSON_ARRAY);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(tp_json_more(&j), 1);
        ck_assert_int_eq(*j.p, "{\"3"[i]);
        ck_assert_int_eq(tp_json_skip(&j), 0);
    }
    ck_assert_int_eq(tp_json_more(&j), 0);
    ck_assert_int_eq(tp_json_next(&j, &t), TP_JSON_END);
    ck_assert_int_eq(tp_json_finish(&j), 0);
}
END_TEST

START_TEST(an_error_stays)
{
    struct tp_json j;
    struct tp_json_text t;
    tp_json_init(&j, "[x", 2, 8);
    tp_json_next(&j, &t);
    ck_assert_int_eq(tp_json_next(&j, &t), -TP_E_BAD_JSON);
    ck_assert_int_eq(tp_json_next(&j, &t), -TP_E_BAD_JSON);
    ck_assert_int_eq(tp_json_more(&j), -TP_E_BAD_JSON);
    ck_assert_int_eq(tp_json_skip(&j), -TP_E_BAD_JSON);
    ck_assert_int_eq(tp_json_finish(&j), -TP_E_BAD_JSON);
    ck_assert_int_eq((int)(j.p - j.begin), 1);
}
END_TEST

int main(void)
{
    return RUN("proto/json", agrees_with_jansson_on_generated_and_damaged_documents,
               refuses_everything_that_the_grammar_does_not_have, refuses_malformed_utf8,
               nesting_is_limited_and_the_limit_itself_is_fine, control_characters_by_escape_are_marked,
               reads_32_bit_integers_and_nothing_else, keys_compare_with_their_escapes_decoded,
               skipping_and_stepping_lead_through_an_array, an_error_stays);
}
