/* The parameters of a selection as its job keeps them. */
#include "daemon/select_job.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *text(const struct td_select_params *p)
{
    static char buf[512];
    struct tp_buf b = {0};
    td_select_params_write(p, &b);
    ck_assert(!b.oom && b.n < sizeof buf);
    memcpy(buf, b.p, b.n);
    buf[b.n] = '\0';
    tp_buf_free(&b);
    return buf;
}

START_TEST(parameters_read_back_as_written)
{
    const struct td_select_params want[] = {
        {.method = TS_RDU, .budget = 512},
        {.method = TS_CORESET, .fraction = 0.1, .seed = (int64_t)1 << 53},
        {.method = TS_RDU, .fraction = 1, .weighted = true, .r = 0.25, .d = 1, .u = 1.0 / 3},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct td_select_params got;
        struct tp_err e;
        ck_assert_int_eq(td_select_params_read(&got, text(&want[i]), &e), 0);
        ck_assert_int_eq(got.method, want[i].method);
        ck_assert_int_eq(got.budget, want[i].budget);
        ck_assert_int_eq(got.seed, want[i].seed);
        ck_assert_int_eq(got.weighted, want[i].weighted);
        ck_assert(got.fraction == want[i].fraction && got.r == want[i].r && got.d == want[i].d && got.u == want[i].u);
    }
}
END_TEST

START_TEST(equal_requests_are_equal_texts)
{
    ck_assert_str_eq(text(&(struct td_select_params){.method = TS_RDU, .budget = 5}),
                     "{\"method\": \"rdu\", \"budget\": 5, \"seed\": 0}");
}
END_TEST

START_TEST(what_is_not_a_selection_does_not_read)
{
    static const char *const bad[] = {"", "[]", "{}", "{\"method\": \"best\"}", "{\"method\": 3}"};
    struct td_select_params p;
    struct tp_err e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(td_select_params_read(&p, bad[i], &e), -TP_E_INTERNAL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon select job");
    TCase *t = tcase_create("parameters");
    tcase_add_test(t, parameters_read_back_as_written);
    tcase_add_test(t, equal_requests_are_equal_texts);
    tcase_add_test(t, what_is_not_a_selection_does_not_read);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
