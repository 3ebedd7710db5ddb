/* Task identity and program hash. Golden values: tests/golden/identity.py (json.dumps and hashlib of Python). */
#include "proto/record.h"
#include "tests/unit/proto_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *key, *target;
    int layout; /* -1: the task array ends behind the target */
    const char *canonical, *id;
} GOLDEN[] = {
    {"[\"gemm_demo\", 96, 80, 48, \"float32\"]", "llvm -mcpu=x", 1, "[[\"gemm_demo\",96,80,48,\"float32\"],\"llvm\",1]",
     "faa4164a8816676a"},
    {"[\"00112233445566778899aabbccddeeff\", [8, 64], [32, 64], [8, 32]]", "cuda -arch=sm_90", 0,
     "[[\"00112233445566778899aabbccddeeff\",[8,64],[32,64],[8,32]],\"cuda\",0]", "c7ce7c359e9dcc32"},
    {"[\"ffeeddccbbaa99887766554433221100\"]", "llvm", -1, "[[\"ffeeddccbbaa99887766554433221100\"],\"llvm\",0]",
     "feae6fe822ee28a4"},
    {"[ \"f\" , {\"b\": 1, \"a\": [ true, false, null ]}, [], {}, -0, -7 ]", "rocm", 2,
     "[[\"f\",{\"b\":1,\"a\":[true,false,null]},[],{},0,-7],\"rocm\",2]", "5d345c795b05e358"},
    {"[\"r\", 0.1, 1.0, -0.0, 1e-5, 0.0001, 1e15, 1e16, 123456789012345680.0, 1.5e300, 5e-324, 100.0, 1E+2, "
     "12345678901234567.0, 0.30000000000000004]",
     "llvm", 0,
     "[[\"r\",0.1,1.0,-0.0,1e-05,0.0001,1000000000000000.0,1e+16,1.2345678901234568e+17,1.5e+300,5e-324,100.0,100.0,1."
     "2345678901234568e+16,0.30000000000000004],\"llvm\",0]",
     "9ade5c3a9e3b1810"},
    {"[\"\\u00e9\\ud83d\\ude00\\\"\\\\\\/\\n\\u0001 \xC3\xA9\"]", "metal", 0,
     "[[\"\xC3\xA9\xF0\x9F\x98\x80\\\"\\\\/\\n\\u0001 \xC3\xA9\"],\"metal\",0]", "61d332e2d4ce8dbc"},
    {"[\"big\", 123456789012345678901234567890]", "c", 0, "[[\"big\",123456789012345678901234567890],\"c\",0]",
     "067bca84e2a446af"},
    {"plain name, no JSON", "llvm", 0, "[\"plain name, no JSON\",\"llvm\",0]", "9203145c4c900d78"},
    {"", "llvm", 0, "[\"\",\"llvm\",0]", "6ab64ff777a7682c"},
    {"[]", "llvm", 0, "[\"[]\",\"llvm\",0]", "365603d109ddc5b4"},
    {"{\"a\": 1}", "llvm", 0, "[\"{\\\"a\\\": 1}\",\"llvm\",0]", "fe401cfa7f6b459b"},
    {"[1, 2", "llvm", 0, "[\"[1, 2\",\"llvm\",0]", "d31cecd14b2b2ece"},
    {"[\"a\"] x", "llvm", 0, "[\"[\\\"a\\\"] x\",\"llvm\",0]", "8cb26d55545d3b13"},
    {"\"s\"", "llvm", 0, "[\"\\\"s\\\"\",\"llvm\",0]", "b899a2239ee08de7"},
    {"[\"inf\", 1e]", "llvm", 0, "[\"[\\\"inf\\\", 1e]\",\"llvm\",0]", "2ec451b1a649d423"},
    {"[\"x\"]", " npu -a=b", 0, "[[\"x\"],\"npu\",0]", "6bb097be8d2ad59d"},
    {"[\"x\"]", "{\"kind\": \"vulkan\"}", 0, "[[\"x\"],\"vulkan\",0]", "ab1d9536b6f20259"},
    {"[[[\"deep\"]]]", "hexagon", 0, "[[[[\"deep\"]]],\"hexagon\",0]", "75e9de0e5b2db80a"},
    {"[\"x\", ]", "llvm", 0, "[\"[\\\"x\\\", ]\",\"llvm\",0]", "82621eab4e3e009c"},
};

static void set(struct tp_task *t, size_t i)
{
    *t = (struct tp_task){.n_items = GOLDEN[i].layout < 0 ? 2 : 5,
                          .workload_key = {GOLDEN[i].key, (uint32_t)strlen(GOLDEN[i].key)},
                          .target = {GOLDEN[i].target, (uint32_t)strlen(GOLDEN[i].target)},
                          .layout = GOLDEN[i].layout < 0 ? 0 : GOLDEN[i].layout};
}

START_TEST(identities_and_ids_are_those_of_the_reference)
{
    struct tp_buf out = {0};
    for (size_t i = 0; i < sizeof GOLDEN / sizeof GOLDEN[0]; i++) {
        struct tp_task t;
        char id[TP_TASK_ID_LEN + 1];
        set(&t, i);
        out.n = 0;
        tp_task_identity(&t, &out);
        ck_assert_msg(out.n == strlen(GOLDEN[i].canonical) && memcmp(out.p, GOLDEN[i].canonical, out.n) == 0,
                      "got %.*s, want %s", (int)out.n, out.p, GOLDEN[i].canonical);
        tp_task_id(&t, id);
        ck_assert_str_eq(id, GOLDEN[i].id);
    }
    tp_buf_free(&out);
}
END_TEST

START_TEST(spelling_host_parameters_and_names_do_not_make_another_task)
{
    static const char *const same[] = {
        "{\"i\": [[\"[\\\"k\\\", 1, [2, 3.5]]\", \"llvm -mcpu=a\", [1,2,3,4,5,6,7,8], \"\", 0, []], [[], []]]}",
        "{\"i\": [[\" [ \\\"\\\\u006b\\\",1 , [2,3.50] ]\", \"llvm -mcpu=b\", [8,7,6,5,4,3,2,1], \"llvm\", 0, "
        "[\"x\"]], [[], []]]}",
        "{\"i\": [[\"[\\\"k\\\",1,[2,35e-1]]\", \"{\\\"kind\\\": \\\"llvm\\\", \\\"mcpu\\\": \\\"c\\\"}\"], [[], "
        "[]]]}"};
    static const char *const other[] = {
        "{\"i\": [[\"[\\\"k\\\", 1, [2, 3.5]]\", \"cuda\"], [[], []]]}",
        "{\"i\": [[\"[\\\"k\\\", 1, [2, 3.5]]\", \"llvm\", [1,2,3,4,5,6,7,8], \"\", 1], [[], []]]}",
        "{\"i\": [[\"[\\\"k\\\", 1.0, [2, 3.5]]\", \"llvm\"], [[], []]]}"};
    struct tp_record r;
    char first[TP_TASK_ID_LEN + 1];
    tp_record_init(&r);
    ck_assert_str_eq(tp_record_task_id(&r), "");
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(tp_record_parse(&r, same[i], strlen(same[i]), NULL), 0);
        if (i == 0)
            tp_task_id(&r.task, first);
        ck_assert_str_eq(tp_record_task_id(&r), first);
        ck_assert_str_eq(tp_record_task_id(&r), first);
    }
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(tp_record_parse(&r, other[i], strlen(other[i]), NULL), 0);
        ck_assert_str_ne(tp_record_task_id(&r), first);
    }
    ck_assert_int_ne(tp_task_parse(&r, "[1]", 3, NULL), 0);
    ck_assert_str_eq(tp_record_task_id(&r), "");
    tp_record_free(&r);
}
END_TEST

static void hash_is(const char *line, const char *want)
{
    struct tp_record r;
    struct tp_buf packed = {0};
    uint8_t hash[16];
    char hex[33];
    tp_record_init(&r);
    ck_assert_int_eq(tp_record_parse(&r, line, strlen(line), NULL), 0);
    tp_steps_pack(r.steps, r.n_steps, &packed);
    tp_program_hash(tp_record_task_id(&r), packed.p, packed.n, hash);
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    ck_assert_str_eq(hex, want);
    tp_buf_free(&packed);
    tp_record_free(&r);
}

START_TEST(program_hashes_are_those_of_the_reference)
{
    hash_is(CPU_LINE, "cf1b78afdd2266122d5f4f83b7cabe73");
    hash_is(GPU_LINE, "804e7338c033cfe14c12ed99d6cdf340");
    hash_is(OLD_LINE, "ec36a4d8c2341605c5dc94439a4f7f2e");
}
END_TEST

int main(void)
{
    return RUN("proto/identity", identities_and_ids_are_those_of_the_reference,
               spelling_host_parameters_and_names_do_not_make_another_task, program_hashes_are_those_of_the_reference);
}
