/* Printing records: byte for byte what TVM writes, on composed lines and on every real log at hand. */
#include "proto/record.h"
#include "tests/unit/proto_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void prints_as(const char *line, const char *want)
{
    struct tp_record r;
    struct tp_err e;
    struct tp_buf out = {0};
    tp_record_init(&r);
    ck_assert_msg(tp_record_parse(&r, line, strlen(line), &e) == 0, "%s", e.detail);
    tp_record_emit(&r, &out);
    ck_assert_msg(out.n == strlen(want) && memcmp(out.p, want, out.n) == 0, "got  %.*s\nwant %s", (int)out.n, out.p,
                  want);
    tp_buf_free(&out);
    tp_record_free(&r);
}

START_TEST(lines_of_every_age_come_back_as_they_were)
{
    prints_as(CPU_LINE, CPU_LINE);
    prints_as(GPU_LINE, GPU_LINE);
    prints_as(OLD_LINE, OLD_LINE);
}
END_TEST

START_TEST(a_task_keeps_the_length_it_came_with)
{
    static const char *const tasks[] = {"[\"k\", \"llvm\"]", "[\"k\", \"llvm\", [1, 2, 3, 4, 5, 6, 7, -8]]",
                                        "[\"k\", \"llvm\", [1, 2, 3, 4, 5, 6, 7, 8], \"llvm -keys=cpu \"]",
                                        "[\"k\", \"llvm\", [1, 2, 3, 4, 5, 6, 7, 8], \"\", 2]",
                                        "[\"k\", \"llvm\", [1, 2, 3, 4, 5, 6, 7, 8], \"\", 0, [\"a\", \"b\"]]"};
    char line[256];
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        snprintf(line, sizeof line, "{\"i\": [%s, [[], []]]}", tasks[i]);
        prints_as(line, line);
    }
}
END_TEST

START_TEST(foreign_spelling_becomes_that_of_tvm)
{
    prints_as("{\"v\":\"v\\u0030\",\"r\":[[10000000000.0,1.0,0.000012345678],-0,20.00,1700000000.9],\"i\":[["
              "\"a\\u00e9\\/\\t\\\"\",\"llvm\"],[[],"
              "[[\"PR\",0,0,\"auto_unroll_max_step$007\"],[\"FU\",1,[]],[\"SA\",1,2,-3,-4]]]]}",
              "{\"i\": [[\"a\xC3\xA9/\\t\\\"\", \"llvm\"], [[], [[\"PR\", 0, 0, \"auto_unroll_max_step$007\"], "
              "[\"FU\", 1, []], [\"SA\", 1, 2, "
              "-3, -4]]]], \"r\": [[1e+10, 1, 1.23457e-05], 0, 20, 1700000000], \"v\": \"v0\"}");
}
END_TEST

START_TEST(absent_results_and_versions_stay_absent)
{
    prints_as("{\"i\": [[\"k\", \"llvm\"], [[], []]]}", "{\"i\": [[\"k\", \"llvm\"], [[], []]]}");
    prints_as("{\"i\": [[\"k\", \"llvm\"], [[], []]], \"v\": \"\"}",
              "{\"i\": [[\"k\", \"llvm\"], [[], []]], \"v\": \"\"}");
    prints_as("{\"i\": [[\"k\", \"llvm\"], [[], []]], \"r\": [[], 0, 0, 0]}",
              "{\"i\": [[\"k\", \"llvm\"], [[], []]], \"r\": [[], 0, 0, 0]}");
}
END_TEST

START_TEST(parts_print_alone_and_a_task_is_read_back)
{
    struct tp_record r, back;
    struct tp_err e;
    struct tp_buf out = {0};
    tp_record_init(&r);
    tp_record_init(&back);
    ck_assert_int_eq(tp_record_parse(&r, CPU_LINE, strlen(CPU_LINE), NULL), 0);
    tp_task_emit(&r.task, &out);
    for (int i = 0; i < 2; i++) { /* the second time from the cache */
        ck_assert_msg(tp_task_parse(&back, out.p, out.n, &e) == 0, "%s", e.detail);
        ck_assert_int_eq(back.task.n_items, 6);
        ck_assert_int_eq(back.task.layout, 1);
        ck_assert(back.task.target.n == r.task.target.n &&
                  memcmp(back.task.target.s, r.task.target.s, r.task.target.n) == 0);
        memset(&back.task, 0, sizeof back.task);
    }
    out.n = 0;
    tp_steps_emit(r.steps, 1, &out);
    ck_assert(out.n == 21 && memcmp(out.p, "[[\"CHW\", 2, \"local\"]]", 21) == 0);
    out.n = 0;
    tp_result_emit(&r.result, &out);
    ck_assert(memcmp(out.p, "[[2.18407e-05, 2.20119e-05, 2.17964e-05], 0, 1.73552, 1700000123]", out.n) == 0);
    tp_buf_free(&out);
    tp_record_free(&r);
    tp_record_free(&back);
}
END_TEST

/* ---- real logs
 * --------------------------------------------------------------------------------------------------------- */

struct tally {
    struct tp_record r, unpacked;
    struct tp_buf out, packed;
    size_t lines, foreign;
};

static void round_trip(void *arg, const char *path, const char *line, size_t n)
{
    struct tally *t = arg;
    struct tp_err e;
    t->lines++;
    ck_assert_msg(tp_record_parse(&t->r, line, n, &e) == 0, "%s: %s %s: %.*s", path, e.pointer, e.detail, (int)n, line);
    t->out.n = t->packed.n = 0;
    tp_steps_pack(t->r.steps, t->r.n_steps, &t->packed);
    ck_assert_msg(tp_steps_unpack(&t->unpacked, t->packed.p, t->packed.n, &e) == 0, "%s: %s", path, e.detail);
    t->r.steps = t->unpacked.steps;
    t->r.n_steps = t->unpacked.n_steps;
    tp_record_emit(&t->r, &t->out);
    if (t->out.n == n && memcmp(t->out.p, line, n) == 0)
        return;
    t->foreign++;
    ck_assert_msg(memmem(line, n, "10000000000.0", 13) != NULL, "%s\n%.*s\n%.*s", path, (int)n, line, (int)t->out.n,
                  t->out.p);
}

static struct tally run(const char *part, size_t stride)
{
    struct tally t = {0};
    tp_record_init(&t.r);
    tp_record_init(&t.unpacked);
    each_log_line(part, stride, round_trip, &t);
    tp_buf_free(&t.out);
    tp_buf_free(&t.packed);
    tp_record_free(&t.r);
    tp_record_free(&t.unpacked);
    return t;
}

START_TEST(every_line_of_the_real_logs_comes_back_byte_for_byte)
{
    size_t stride = SANITIZED ? 17 : 1;
    struct tally all = run("", stride), v100 = run("/v100/", 1);
    if (all.lines == 0)
        printf("skipped: no logs below TCLD_SHARED, ../shared or tests/data\n");
    /* 62 failures of v100 were written by other software, which spells 1e+10 as 10000000000.0. */
    if (v100.lines > 0)
        ck_assert_uint_eq(v100.foreign, 62);
    if (stride == 1)
        ck_assert_uint_eq(all.foreign, v100.foreign);
    printf("%zu lines of real logs, %zu of them foreign\n", all.lines, all.foreign);
}
END_TEST

int main(void)
{
    return RUN("proto/record_emit", lines_of_every_age_come_back_as_they_were, a_task_keeps_the_length_it_came_with,
               foreign_spelling_becomes_that_of_tvm, absent_results_and_versions_stay_absent,
               parts_print_alone_and_a_task_is_read_back, every_line_of_the_real_logs_comes_back_byte_for_byte);
}
