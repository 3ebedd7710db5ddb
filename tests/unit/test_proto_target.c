/* Target strings in their three forms. */
#include "proto/target.h"
#include "tests/unit/proto_lines.h"

#include <string.h>

static struct tp_target parsed(const char *s)
{
    struct tp_target t;
    struct tp_err e;
    ck_assert_msg(tp_target_parse(s, strlen(s), &t, &e) == 0, "%s: %s", s, e.detail);
    return t;
}

static void refused(const char *s)
{
    struct tp_target t = {.kind = TP_TARGET_GPU};
    struct tp_err e;
    ck_assert_msg(tp_target_parse(s, strlen(s), &t, &e) == -TP_E_BAD_TASK, "%s", s);
    ck_assert_int_eq(t.kind, TP_TARGET_GPU);
}

START_TEST(kinds_are_told_apart)
{
    static const struct {
        const char *s, *name, *kind;
    } cases[] = {{"llvm", "llvm", "cpu"},
                 {"c -keys=arm_cpu,cpu", "c", "cpu"},
                 {"cuda -arch=sm_80", "cuda", "gpu"},
                 {"rocm", "rocm", "gpu"},
                 {"opencl -device=mali", "opencl", "gpu"},
                 {"vulkan", "vulkan", "gpu"},
                 {"metal", "metal", "gpu"},
                 {"hexagon", "hexagon", "accelerator"},
                 {"ext_dev -x=1", "ext_dev", "accelerator"},
                 {"nvidia/geforce-rtx-3090", "cuda", "gpu"},
                 {"nvidia/jetson-nano", "cuda", "gpu"},
                 {"aws/cpu/c5.large", "llvm", "cpu"},
                 {"raspberry-pi/4b-aarch64", "llvm", "cpu"},
                 {"apple/m1-gpu", "metal", "gpu"},
                 {"acme/npu-9000", "acme/npu-9000", "any"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tp_target t = parsed(cases[i].s);
        ck_assert_str_eq(t.name, cases[i].name);
        ck_assert_str_eq(tp_target_kind_name(t.kind), cases[i].kind);
    }
}
END_TEST

START_TEST(attributes_of_the_flat_form_are_found)
{
    struct tp_target t =
        parsed("llvm -keys=cpu -link-params=0 -mcpu=skylake-avx512 -model=lab-xeon-a -mtriple=x86_64-linux-gnu");
    ck_assert_str_eq(t.mcpu, "skylake-avx512");
    ck_assert_str_eq(t.model, "lab-xeon-a");
    ck_assert_str_eq(t.mtriple, "x86_64-linux-gnu");
    ck_assert_str_eq(t.arch, "");
    ck_assert_str_eq(t.device, "");
    t = parsed("  opencl \t -device=mali --model=\"a b\"   -arch 'x y'  -mcpu=a\\ b\n");
    ck_assert_str_eq(t.name, "opencl");
    ck_assert_str_eq(t.device, "mali");
    ck_assert_str_eq(t.model, "a b");
    ck_assert_str_eq(t.arch, "x y");
    ck_assert_str_eq(t.mcpu, "a b");
    t = parsed("llvm -mcpu -model=x -notmcpu=y -kind=cuda -mcp=z");
    ck_assert_str_eq(t.mcpu, "");
    ck_assert_str_eq(t.model, "x");
    ck_assert_str_eq(t.name, "llvm");
}
END_TEST

START_TEST(the_json_form_is_read)
{
    struct tp_target t = parsed("{\"kind\": \"cuda\", \"keys\": [\"cuda\", \"gpu\"], \"arch\": \"sm_\\u0038\\u0036\", "
                                "\"max_num_threads\": 1024, "
                                "\"host\": {\"kind\": \"llvm\", \"mcpu\": \"x\"}, \"model\": \"rtx\"}");
    ck_assert_str_eq(t.name, "cuda");
    ck_assert_int_eq(t.kind, TP_TARGET_GPU);
    ck_assert_str_eq(t.arch, "sm_86");
    ck_assert_str_eq(t.model, "rtx");
    ck_assert_str_eq(t.mcpu, "");
    ck_assert_str_eq(parsed(" {\"kind\": \"llvm\"} ").name, "llvm");
}
END_TEST

START_TEST(text_without_a_kind_is_refused)
{
    char s[128];
    refused("");
    refused(" \t ");
    refused("-mcpu=x llvm");
    refused("{}");
    refused("{\"mcpu\": \"x\"}");
    refused("{\"kind\": 7}");
    refused("{\"kind\": \"\"}");
    refused("{\"kind\": \"llvm\"");
    refused("{\"kind\": \"llvm\"} x");
    refused("{\"kind\": \"a\\u0000b\"}");
    memset(s, 'k', sizeof s);
    s[64] = '\0';
    refused(s);
    s[63] = '\0';
    ck_assert_uint_eq(strlen(parsed(s).name), 63);
}
END_TEST

START_TEST(long_attributes_are_cut_between_characters)
{
    char s[400] = "llvm -model=a";
    size_t n = strlen(s);
    for (int i = 0; i < 100; i++, n += 3)
        memcpy(s + n, "\xE2\x82\xAC", 4);
    struct tp_target t = parsed(s);
    ck_assert_uint_eq(strlen(t.model), 61);
    memmove(s + 12, s + 13, n - 12); /* without the a */
    t = parsed(s);
    ck_assert_uint_eq(strlen(t.model), 63);
}
END_TEST

int main(void)
{
    return RUN("proto/target", kinds_are_told_apart, attributes_of_the_flat_form_are_found, the_json_form_is_read,
               text_without_a_kind_is_refused, long_attributes_are_cut_between_characters);
}
