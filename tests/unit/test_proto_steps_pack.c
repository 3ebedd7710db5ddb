/* The packed form of steps: golden bytes, one form per program, and no damage that passes. */
#include "proto/record.h"
#include "tests/unit/proto_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void pack_line(const char *line, struct tp_buf *packed)
{
    struct tp_record r;
    struct tp_err e;
    tp_record_init(&r);
    ck_assert_msg(tp_record_parse(&r, line, strlen(line), &e) == 0, "%s", e.detail);
    packed->n = 0;
    tp_steps_pack(r.steps, r.n_steps, packed);
    tp_record_free(&r);
}

static int unpack(const void *p, size_t n, struct tp_err *e)
{
    struct tp_record r;
    tp_record_init(&r);
    void *exact = malloc(n > 0 ? n : 1);
    ck_assert_ptr_nonnull(exact);
    memcpy(exact, p, n);
    int rc = tp_steps_unpack(&r, exact, n, e);
    tp_record_free(&r);
    free(exact);
    return rc;
}

static void packs_to(const char *line, const char *hex)
{
    struct tp_buf packed = {0};
    char got[2048];
    pack_line(line, &packed);
    ck_assert_uint_lt(packed.n * 2, sizeof got);
    for (size_t i = 0; i < packed.n; i++)
        snprintf(got + 2 * i, 3, "%02x", (unsigned char)packed.p[i]);
    ck_assert_str_eq(got, hex);
    tp_buf_free(&packed);
}

/* tests/golden/identity.py */
START_TEST(packed_bytes_are_those_of_the_reference)
{
    packs_to(CPU_LINE,
             "010d0c020004020060030304020104020450030105100104020830010c0103020a0004010508020609030705030001020503"
             "03020203030600030104020508020303010303000102000300030202000600020902");
    packs_to(GPU_LINE,
             "010b040200080401040101010402052004010802010104020a400204020103020d0005010602070a0b03080c040901020200"
             "010002000501020201020002010401020202030002020602020007");
    packs_to(OLD_LINE, "0108090104030280040110010d030302030304000103020a0501040200010004000302030004");
}
END_TEST

START_TEST(every_kind_survives_packing)
{
    static const char steps[] = "[[\"SP\", 0, 0, 0, [2, 3], 0], [\"AN\", 1, 2, 11], [\"FU\", 1, []], [\"PR\", 300, "
                                "70000, \"auto_unroll_max_step$128\"], "
                                "[\"PR\", 0, 0, \"debug_skip_region\"], [\"RE\", 1, [2, 0, 1]], [\"FSP\", 1, 0, 0, 3], "
                                "[\"FFSP\", 1, 0, [0, 0], 1, 1], "
                                "[\"SA\", 1, 0, -2147483648, 2147483647], [\"CA\", 1, 2, 3], [\"CI\", 1], [\"CR\", 1], "
                                "[\"CHR\", 1, \"shared\", [2, 5]], "
                                "[\"CHW\", 1, \"w\xC3\xA9\"], [\"CHW\", 1, \"\"], [\"RF\", 1, 2, 0]]";
    char *line = wrap(steps);
    struct tp_buf packed = {0}, out = {0};
    struct tp_record r;
    struct tp_err e;
    tp_record_init(&r);
    pack_line(line, &packed);
    ck_assert_msg(tp_steps_unpack(&r, packed.p, packed.n, &e) == 0, "%s", e.detail);
    tp_steps_emit(r.steps, r.n_steps, &out);
    ck_assert_msg(out.n == sizeof steps - 1 && memcmp(out.p, steps, out.n) == 0, "%.*s", (int)out.n, out.p);
    tp_buf_free(&packed);
    tp_buf_free(&out);
    tp_record_free(&r);
    free(line);
}
END_TEST

START_TEST(unpacking_leaves_task_and_result_of_the_record_alone)
{
    struct tp_record r;
    struct tp_buf packed = {0}, out = {0};
    tp_record_init(&r);
    pack_line(CPU_LINE, &packed);
    ck_assert_int_eq(tp_record_parse(&r, GPU_LINE, strlen(GPU_LINE), NULL), 0);
    ck_assert_int_eq(tp_steps_unpack(&r, packed.p, packed.n, NULL), 0);
    tp_record_emit(&r, &out);
    ck_assert_ptr_nonnull(memmem(out.p, out.n, "\"cuda -keys", 11));
    ck_assert_ptr_nonnull(memmem(out.p, out.n, "$64", 3));
    ck_assert_ptr_nonnull(memmem(out.p, out.n, "11.3042", 7));
    tp_buf_free(&packed);
    tp_buf_free(&out);
    tp_record_free(&r);
}
END_TEST

START_TEST(a_cut_or_longer_form_is_refused)
{
    struct tp_buf packed = {0};
    struct tp_err e;
    pack_line(CPU_LINE, &packed);
    for (size_t n = 0; n < packed.n; n++)
        ck_assert_msg(unpack(packed.p, n, &e) == -TP_E_BAD_STEP, "cut at %zu", n);
    tp_buf_putc(&packed, 0);
    ck_assert_int_eq(unpack(packed.p, packed.n, &e), -TP_E_BAD_STEP);
    tp_buf_free(&packed);
}
END_TEST

START_TEST(a_second_spelling_of_a_program_is_refused)
{
    static const struct {
        const char *bytes;
        size_t n;
    } bad[] = {
        {"\x02\x00", 2},                             /* another format */
        {"\x01\x80\x00", 3},                         /* varint longer than needed */
        {"\x01\x01\x09\x81\x00", 5},                 /* the same, an operand */
        {"\x01\x01\x09\xFF\xFF\xFF\xFF\x1F", 8},     /* beyond 32 bits */
        {"\x01\x01\x09\xFF\xFF\xFF\xFF\xFF\x01", 9}, /* far beyond */
        {"\x01\x01\x0E\x00", 4},                     /* no such kind */
        {"\x01\x01\x0C\x01\x15local", 10},           /* a shorthand spelled out */
        {"\x01\x01\x0C\x01\x0F", 5},                 /* a shorthand that is none */
        {"\x01\x01\x0C\x01\x7Fxyz", 8},              /* text beyond the end */
        {"\x01\x01\x0C\x01\x11\xFF", 6},             /* not UTF-8 */
        {"\x01\x01\x0C\x01\x11\x01", 6},             /* a control character */
        {"\x01\x81\x04", 3},                         /* 513 steps */
        {"\x01\x01\x01\x00\x81\x02", 6},             /* a list of 257 */
        {"\x01\x01\x03\x00\x02\x00\x00", 7},         /* RE, no permutation */
        {"\x01\x01\x09\xFF\xFF\xFF\xFF\x0F", 8},     /* CI -1 */
    };
    struct tp_err e;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(unpack(bad[i].bytes, bad[i].n, &e) == -TP_E_BAD_STEP, "case %zu", i);
    ck_assert_int_eq(unpack("\x01\x00", 2, &e), 0);
    ck_assert_int_eq(unpack("\x01\x01\x09\x01", 4, &e), 0);
}
END_TEST

START_TEST(what_unpacks_packs_to_the_same_bytes)
{
    static const char *const lines[] = {CPU_LINE, GPU_LINE, OLD_LINE};
    struct tp_record r;
    struct tp_buf packed = {0}, again = {0};
    uint64_t rng = 99;
    char bytes[1024];
    int good = 0;
    tp_record_init(&r);
    for (int i = 0; i < 60000; i++) {
        pack_line(lines[i % 3], &packed);
        size_t n = packed.n;
        memcpy(bytes, packed.p, n);
        for (uint32_t k = below(&rng, 3); k < 3; k++)
            mutate(&rng, bytes, &n, sizeof bytes);
        if (tp_steps_unpack(&r, bytes, n, NULL) != 0)
            continue;
        good++;
        again.n = 0;
        tp_steps_pack(r.steps, r.n_steps, &again);
        ck_assert(again.n == n && memcmp(again.p, bytes, n) == 0);
    }
    ck_assert_int_gt(good, 1000);
    tp_buf_free(&packed);
    tp_buf_free(&again);
    tp_record_free(&r);
}
END_TEST

int main(void)
{
    return RUN("proto/steps_pack", packed_bytes_are_those_of_the_reference, every_kind_survives_packing,
               unpacking_leaves_task_and_result_of_the_record_alone, a_cut_or_longer_form_is_refused,
               a_second_spelling_of_a_program_is_refused, what_unpacks_packs_to_the_same_bytes);
}
