/* The rules of transform steps, kind by kind, and how a refusal names the step and the operand. Rules: docs/records.md.
 */
#include "proto/record.h"
#include "tests/unit/proto_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void steps_accepted(const char *steps)
{
    char *line = wrap(steps);
    record_accepted(line);
    free(line);
}

static void steps_refused(const char *steps, enum tp_code code, const char *pointer, const char *says)
{
    char *line = wrap(steps);
    record_refused(line, code, pointer, says);
    free(line);
}

/* ---- steps, kind by kind
 * --------------------------------------------------------------------------------------------- */

START_TEST(unknown_kinds_are_refused_and_named)
{
    steps_refused("[[\"CI\", 0], [\"XX\", 1]]", TP_E_UNKNOWN_STEP, "/i/1/1/1", "step 1: kind \"XX\" is not known");
    steps_refused("[[\"XX\", 1]]", TP_E_UNKNOWN_STEP, "/i/1/1/0", "known are AN FU PR RE SP FSP");
    steps_refused("[[\"TS\", 0, 1, \"dot\"]]", TP_E_UNKNOWN_STEP, "/i/1/1/0", "\"TS\"");
    steps_refused("[[\"TB\", 0]]", TP_E_UNKNOWN_STEP, "/i/1/1/0", "\"TB\"");
    steps_refused("[[\"sp\", 0]]", TP_E_UNKNOWN_STEP, "/i/1/1/0", "\"sp\"");
    steps_refused("[[\"\", 0]]", TP_E_UNKNOWN_STEP, "/i/1/1/0", "\"\"");
    steps_refused("[[\"FFSPX\", 0]]", TP_E_UNKNOWN_STEP, "/i/1/1/0", "\"FFSPX\"");
}
END_TEST

START_TEST(a_step_is_an_array_that_starts_with_its_kind)
{
    steps_refused("[7]", TP_E_BAD_STEP, "/i/1/1/0", "step 0: is a number");
    steps_refused("[[]]", TP_E_BAD_STEP, "/i/1/1/0", "empty");
    steps_refused("[[1, 2]]", TP_E_BAD_STEP, "/i/1/1/0/0", "string");
    steps_refused("[\"CI\"]", TP_E_BAD_STEP, "/i/1/1/0", "array");
    steps_refused("[[\"CI\" 0]]", TP_E_BAD_JSON, "/i/1/1/0", "expected ','");
    steps_refused("[[CI, 0]]", TP_E_BAD_JSON, "/i/1/1/0", "expected a value");
    steps_refused("[[\"CI\", 0}]", TP_E_BAD_JSON, "/i/1/1/0", "expected ','");
    steps_refused("[[\"CI\", 0],]", TP_E_BAD_JSON, "/i/1/1/1", "expected a value");
}
END_TEST

/* One sound step of each kind, behind an SP that followers may name. */
static const struct {
    const char *tag, *operands;
} SOUND[TP_STEP_KINDS] = {
    {"AN", "1, 2, 11"},
    {"FU", "1, [2, 3, 4]"},
    {"PR", "1, 0, \"auto_unroll_max_step$16\""},
    {"RE", "1, [2, 0, 1]"},
    {"SP", "1, 0, 0, [2, 3], 0"},
    {"FSP", "1, 0, 0, 3"},
    {"FFSP", "1, 0, [0, 0], 1, 1"},
    {"SA", "1, 0, 32, -8"},
    {"CA", "1, 2, 3"},
    {"CI", "1"},
    {"CR", "1"},
    {"CHR", "1, \"shared\", [2, 5]"},
    {"CHW", "1, \"local\""},
    {"RF", "1, 2, 0"},
};

START_TEST(every_kind_takes_exactly_its_operands)
{
    for (int k = 0; k < TP_STEP_KINDS; k++) {
        char steps[200];
        const char *tag = SOUND[k].tag, *ops = SOUND[k].operands;
        ck_assert_str_eq(tp_step_tag(k), tag);
        snprintf(steps, sizeof steps, "[[\"SP\", 0, 0, 8, [2, 2], 1], [\"%s\", %s]]", tag, ops);
        steps_accepted(steps);
        snprintf(steps, sizeof steps, "[[\"SP\", 0, 0, 8, [2, 2], 1], [\"%s\", %s, 0]]", tag, ops);
        char pointer[32];
        snprintf(pointer, sizeof pointer, "/i/1/1/1/%zu", strlen(tp_step_grammar(k)) + 1);
        steps_refused(steps, TP_E_BAD_STEP, pointer, "step 1:");
        steps_refused(steps, TP_E_BAD_STEP, pointer, "extra operand");
        snprintf(steps, sizeof steps, "[[\"SP\", 0, 0, 8, [2, 2], 1], [\"%s\", %s, ]]", tag, ops);
        steps_refused(steps, TP_E_BAD_JSON, "/i/1/1/1", "expected a value");
        snprintf(steps, sizeof steps, "[[\"SP\", 0, 0, 8, [2, 2], 1], [\"%s\"]]", tag);
        steps_refused(steps, TP_E_BAD_STEP, "/i/1/1/1", "stage is missing");
    }
}
END_TEST

/* Put `value` in place of operand `at` of the sound step of kind k. */
static void substitute(char *steps, size_t cap, int k, int at, const char *value)
{
    size_t n = (size_t)snprintf(steps, cap, "[[\"SP\", 0, 0, 8, [2, 2], 1], [\"%s\"", SOUND[k].tag);
    const char *p = SOUND[k].operands;
    for (int i = 0; tp_step_grammar(k)[i] != '\0'; i++) {
        size_t len = *p == '[' ? (size_t)(strchr(p, ']') + 1 - p) : strcspn(p, ",");
        n += (size_t)snprintf(steps + n, cap - n, ", %.*s", i == at ? (int)strlen(value) : (int)len,
                              i == at ? value : p);
        p += len;
        p += strspn(p, ", ");
    }
    snprintf(steps + n, cap - n, "]]");
}

START_TEST(every_operand_refuses_every_other_type)
{
    static const char *const wrong[] = {"null",  "true", "{}", "1.5",         "1e0",   "-",     "2147483648",
                                        "\"x\"", "[0]",  "7",  "\"\\u0000\"", "[[0]]", "[0.0]", "[\"a\"]"};
    /* which of `wrong` an operand of this type takes: its own type */
    char steps[300], pointer[40];
    struct tp_err e;
    for (int k = 0; k < TP_STEP_KINDS; k++)
        for (int at = 0; tp_step_grammar(k)[at] != '\0'; at++)
            for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
                char g = tp_step_grammar(k)[at];
                if ((g == 'i' && w == 9) || (g == 's' && w == 7) || (g == 'l' && w == 8))
                    continue;
                substitute(steps, sizeof steps, k, at, wrong[w]);
                char *line = wrap(steps);
                int rc = record_parse(line, &e), want = w == 5 ? -TP_E_BAD_JSON : -TP_E_BAD_STEP;
                ck_assert_msg(rc == want, "%s: got %s (%s)", steps, tp_code_slug(rc), e.detail);
                ck_assert_msg(strstr(e.detail, w == 5 ? "byte" : "step 1: ") != NULL, "%s", e.detail);
                snprintf(pointer, sizeof pointer, "/i/1/1/1/%d", at + 1);
                if (w != 5)
                    ck_assert_msg(strncmp(e.pointer, pointer, strlen(pointer)) == 0, "%s: %s", steps, e.pointer);
                free(line);
            }
}
END_TEST

START_TEST(ids_are_not_negative_but_storage_align_takes_any_factor)
{
    char steps[300], pointer[40];
    for (int k = 0; k < TP_STEP_KINDS; k++)
        for (int at = 0; tp_step_grammar(k)[at] != '\0'; at++) {
            char g = tp_step_grammar(k)[at];
            if (g == 's')
                continue;
            bool any = k == TP_STEP_SA && at >= 2;
            substitute(steps, sizeof steps, k, at, g == 'i' ? "-1" : "[-1]");
            if (any) {
                steps_accepted(steps);
                continue;
            }
            snprintf(pointer, sizeof pointer, g == 'i' ? "/i/1/1/1/%d" : "/i/1/1/1/%d/0", at + 1);
            steps_refused(steps, TP_E_BAD_STEP, pointer, "-1");
        }
}
END_TEST

START_TEST(annotations_are_those_of_upstream)
{
    steps_accepted("[[\"AN\", 0, 0, 0], [\"AN\", 0, 0, 11]]");
    steps_refused("[[\"AN\", 0, 0, 12]]", TP_E_BAD_STEP, "/i/1/1/0/3", "annotation is 12");
}
END_TEST

START_TEST(fused_loops_are_consecutive)
{
    steps_accepted("[[\"FU\", 0, []], [\"FU\", 0, [4]], [\"FU\", 0, [3, 4, 5]]]");
    steps_refused("[[\"FU\", 0, [0, 2]]]", TP_E_BAD_STEP, "/i/1/1/0/2/1", "2 follows 0");
    steps_refused("[[\"FU\", 0, [1, 0]]]", TP_E_BAD_STEP, "/i/1/1/0/2/1", "0 follows 1");
    steps_refused("[[\"FU\", 0, [1, 1]]]", TP_E_BAD_STEP, "/i/1/1/0/2/1", "1 follows 1");
    steps_refused("[[\"FU\", 0, [2147483647, -2147483648]]]", TP_E_BAD_STEP, "/i/1/1/0/2/1", "ascend");
}
END_TEST

START_TEST(a_reorder_is_a_permutation)
{
    steps_accepted("[[\"RE\", 0, []], [\"RE\", 0, [0]], [\"RE\", 0, [3, 1, 0, 2]]]");
    steps_refused("[[\"RE\", 0, [0, 0]]]", TP_E_BAD_STEP, "/i/1/1/0/2/1", "loop 0 twice");
    steps_refused("[[\"RE\", 0, [1]]]", TP_E_BAD_STEP, "/i/1/1/0/2/0", "0..0");
    steps_refused("[[\"RE\", 0, [0, 1, 3]]]", TP_E_BAD_STEP, "/i/1/1/0/2/2", "3");
}
END_TEST

START_TEST(pragmas_are_the_two_that_upstream_knows)
{
    steps_accepted("[[\"PR\", 0, 9, \"auto_unroll_max_step$8\"], [\"PR\", 0, 0, \"debug_skip_region\"], "
                   "[\"PR\", 0, 0, \"auto_unroll_max_step$2147483647\"]]");
    static const char *const bad[] = {"",
                                      "auto_unroll_max_step",
                                      "auto_unroll_max_step$",
                                      "auto_unroll_max_step$-1",
                                      "auto_unroll_max_step$1x",
                                      "auto_unroll_max_step$2147483648",
                                      "unroll_explicit",
                                      "debug_skip_regio",
                                      "debug_skip_region2",
                                      "auto_unroll_max_step$99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char steps[200];
        snprintf(steps, sizeof steps, "[[\"PR\", 0, 0, \"%s\"]]", bad[i]);
        steps_refused(steps, TP_E_BAD_STEP, "/i/1/1/0/3", "pragma");
    }
}
END_TEST

START_TEST(a_split_has_positive_lengths_and_a_flag)
{
    steps_accepted(
        "[[\"SP\", 0, 0, 0, [1], 0], [\"SP\", 0, 0, 7, [], 1], [\"SP\", 0, 0, 2147483647, [2147483647], 1]]");
    steps_refused("[[\"SP\", 0, 0, 8, [2, 0], 1]]", TP_E_BAD_STEP, "/i/1/1/0/4/1", "length is 0");
    steps_refused("[[\"SP\", 0, 0, 8, [-2], 1]]", TP_E_BAD_STEP, "/i/1/1/0/4/0", "length is -2");
    steps_refused("[[\"SP\", 0, 0, 8, [2], 2]]", TP_E_BAD_STEP, "/i/1/1/0/5", "inner_to_outer is 2");
    steps_refused("[[\"SP\", 0, 0, -8, [2], 1]]", TP_E_BAD_STEP, "/i/1/1/0/3", "extent is -8");
    steps_refused("[[\"SP\", 0, 0, 8, [null], 1]]", TP_E_BAD_STEP, "/i/1/1/0/4/0", "null");
}
END_TEST

START_TEST(a_following_split_names_an_earlier_split)
{
    steps_accepted("[[\"SP\", 0, 0, 8, [2, 2], 1], [\"FSP\", 1, 0, 0, 1], [\"FSP\", 1, 0, 0, 3]]");
    steps_refused("[[\"SP\", 0, 0, 8, [2, 2], 1], [\"FSP\", 1, 0, 0, 4]]", TP_E_BAD_STEP, "/i/1/1/1/4", "n_split is 4");
    steps_refused("[[\"SP\", 0, 0, 8, [2, 2], 1], [\"FSP\", 1, 0, 0, 0]]", TP_E_BAD_STEP, "/i/1/1/1/4", "n_split is 0");
    steps_refused("[[\"FSP\", 1, 0, 1, 1], [\"SP\", 0, 0, 8, [2, 2], 1]]", TP_E_BAD_STEP, "/i/1/1/0/3",
                  "not an earlier SP");
    steps_refused("[[\"FSP\", 1, 0, 0, 1]]", TP_E_BAD_STEP, "/i/1/1/0/3", "not an earlier SP");
    steps_refused("[[\"CI\", 0], [\"FSP\", 1, 0, 0, 1]]", TP_E_BAD_STEP, "/i/1/1/1/3", "not an earlier SP");
    steps_refused("[[\"CI\", 0], [\"FSP\", 1, 0, 2147483647, 1]]", TP_E_BAD_STEP, "/i/1/1/1/3", "not an earlier SP");
}
END_TEST

START_TEST(a_fused_following_split_names_earlier_splits_and_a_level_they_have)
{
    steps_accepted("[[\"SP\", 0, 0, 8, [2, 2], 1], [\"SP\", 0, 3, 8, [4], 1], [\"FFSP\", 1, 0, [0, 1], 0, 0], "
                   "[\"FFSP\", 1, 0, [0], 1, 1], "
                   "[\"FFSP\", 1, 0, [], 9, 1]]");
    steps_refused("[[\"SP\", 0, 0, 8, [2, 2], 1], [\"SP\", 0, 3, 8, [4], 1], [\"FFSP\", 1, 0, [0, 1], 1, 0]]",
                  TP_E_BAD_STEP, "/i/1/1/2/4", "level is 1, but step 1 has 1");
    steps_refused("[[\"SP\", 0, 0, 8, [2, 2], 1], [\"FFSP\", 1, 0, [0, 1], 0, 0]]", TP_E_BAD_STEP, "/i/1/1/1/3/1",
                  "not an earlier SP");
    steps_refused("[[\"SP\", 0, 0, 8, [2, 2], 1], [\"FFSP\", 1, 0, [0], 0, 2]]", TP_E_BAD_STEP, "/i/1/1/1/5",
                  "factor_or_nparts is 2");
}
END_TEST

START_TEST(scopes_are_any_text_without_control_characters)
{
    steps_accepted("[[\"CHW\", 0, \"wmma.accumulator\"], [\"CHW\", 0, \"\"], [\"CHR\", 0, \"global\", []]]");
    steps_refused("[[\"CHW\", 0, \"a\\u0007\"]]", TP_E_BAD_STEP, "/i/1/1/0/2", "control");
}
END_TEST

START_TEST(steps_and_list_items_are_limited)
{
    size_t cap = 64 * 1024;
    char *steps = malloc(cap);
    ck_assert_ptr_nonnull(steps);
    size_t n = (size_t)snprintf(steps, cap, "[[\"CI\", 0]");
    for (int i = 1; i < TP_MAX_STEPS; i++)
        n += (size_t)snprintf(steps + n, cap - n, ",[\"CI\", 0]");
    snprintf(steps + n, cap - n, "]");
    steps_accepted(steps);
    snprintf(steps + n, cap - n, ",[\"CI\", 0]]");
    steps_refused(steps, TP_E_TOO_MANY_STEPS, "/i/1/1", "512");

    n = (size_t)snprintf(steps, cap, "[[\"FU\", 0, [0");
    for (int i = 1; i < TP_MAX_LIST; i++)
        n += (size_t)snprintf(steps + n, cap - n, ",%d", i);
    snprintf(steps + n, cap - n, "]]]");
    steps_accepted(steps);
    snprintf(steps + n, cap - n, ",256]]]");
    steps_refused(steps, TP_E_BAD_STEP, "/i/1/1/0/2/256", "256");
    free(steps);
}
END_TEST

int main(void)
{
    return RUN("proto/step_check", unknown_kinds_are_refused_and_named, a_step_is_an_array_that_starts_with_its_kind,
               every_kind_takes_exactly_its_operands, every_operand_refuses_every_other_type,
               ids_are_not_negative_but_storage_align_takes_any_factor, annotations_are_those_of_upstream,
               fused_loops_are_consecutive, a_reorder_is_a_permutation, pragmas_are_the_two_that_upstream_knows,
               a_split_has_positive_lengths_and_a_flag, a_following_split_names_an_earlier_split,
               a_fused_following_split_names_earlier_splits_and_a_level_they_have,
               scopes_are_any_text_without_control_characters, steps_and_list_items_are_limited);
}
