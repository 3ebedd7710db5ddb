/* Hardware rows as handlers and encoders take them. */
#include "daemon/hardware.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static char descriptor[512];
static struct st_hardware h;
static struct tclfeat_hw feat;

static void convert(const char *kind, const char *json)
{
    memset(&h, 0, sizeof h);
    snprintf(h.kind, sizeof h.kind, "%s", kind);
    snprintf(descriptor, sizeof descriptor, "%s", json);
    h.descriptor = descriptor;
    td_hardware_feat(&h, &feat);
}

START_TEST(known_numbers_are_taken_in_the_order_of_the_encoders)
{
    convert("gpu", "{\"sm_count\": 80, \"num_cores\": 16, \"clock_ghz\": 1.5}");
    ck_assert_int_eq(feat.kind, TP_TARGET_GPU);
    ck_assert_uint_eq(feat.known, 1u << 0 | 1u << 1 | 1u << 14);
    ck_assert_double_eq(feat.value[0], 16);
    ck_assert_double_eq(feat.value[1], 1.5);
    ck_assert_double_eq(feat.value[14], 80);
}
END_TEST

START_TEST(what_is_no_usable_number_stays_unknown)
{
    convert("cpu", "{\"num_cores\": \"16\", \"clock_ghz\": -1, \"l2_bytes\": null, \"rack\": 7, \"warp_size\": 0}");
    ck_assert_uint_eq(feat.known, 1u << 13);
    convert("accelerator", "not json");
    ck_assert_uint_eq(feat.known, 0);
    ck_assert_int_eq(feat.kind, TP_TARGET_ACCELERATOR);
    convert("cpu", "[]");
    ck_assert_uint_eq(feat.known, 0);
}
END_TEST

START_TEST(the_kind_follows_the_target)
{
    const struct {
        const char *target, *kind;
    } want[] = {{"llvm -mcpu=core-avx2", "cpu"},
                {"c", "cpu"},
                {"cuda", "gpu"},
                {"rocm -model=x", "gpu"},
                {"opencl", "gpu"},
                {"vulkan", "gpu"},
                {"metal", "gpu"},
                {"hexagon", "accelerator"},
                {"ext_dev -device=vta", "accelerator"}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const char *kind = NULL;
        ck_assert_int_eq(td_hardware_kind(want[i].target, &kind, NULL), 0);
        ck_assert_str_eq(kind, want[i].kind);
    }
    const char *kind = "untouched";
    ck_assert_int_lt(td_hardware_kind("", &kind, NULL), 0);
    ck_assert_str_eq(kind, "untouched");
}
END_TEST

START_TEST(unknown_hardware_tells_which_put_to_send)
{
    struct tp_err e;
    ck_assert_int_eq(td_hardware_missing("xeon", &e), -TP_E_UNKNOWN_HARDWARE);
    ck_assert_ptr_nonnull(strstr(e.detail, "PUT /v1/hardware/xeon {\"target\": \"llvm -mcpu=core-avx2\"}"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon_hardware");
    TCase *c = tcase_create("all");
    tcase_add_test(c, known_numbers_are_taken_in_the_order_of_the_encoders);
    tcase_add_test(c, what_is_no_usable_number_stays_unknown);
    tcase_add_test(c, the_kind_follows_the_target);
    tcase_add_test(c, unknown_hardware_tells_which_put_to_send);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
