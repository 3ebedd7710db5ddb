/* Parameters of a retraining as their job keeps them. */
#include "daemon/train_params.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *text(const struct td_train_params *p)
{
    struct tp_buf b = {0};

    td_train_params_write(p, &b);
    tp_buf_putc(&b, '\0');
    ck_assert(!b.oom);
    return b.p;
}

START_TEST(what_was_written_is_read)
{
    struct td_train_params p = {.mode = TD_TRAIN_PRETRAIN,
                                .epochs = 7,
                                .max_seconds = 2.5,
                                .seed = (int64_t)1 << 53,
                                .per_task = 100,
                                .never = true,
                                .n_sources = 2,
                                .source = {"a", "b-2"}},
                           q;
    char *s = text(&p);

    ck_assert_int_eq(td_train_params_read(&q, s, NULL), 0);
    ck_assert_int_eq(q.mode, TD_TRAIN_PRETRAIN);
    ck_assert_int_eq(q.epochs, 7);
    ck_assert_double_eq(q.max_seconds, 2.5);
    ck_assert_int_eq(q.seed, (int64_t)1 << 53);
    ck_assert_int_eq(q.per_task, 100);
    ck_assert(q.never && !q.automatic);
    ck_assert_int_eq(q.n_sources, 2);
    ck_assert_str_eq(q.source[1], "b-2");
    free(s);
}
END_TEST

START_TEST(every_mode_has_its_form)
{
    struct td_train_params p = {.mode = TD_TRAIN_FINETUNE};
    char *s = text(&p);

    ck_assert_str_eq(s, "{\"mode\": \"finetune\", \"epochs\": null, \"max_seconds\": 0, \"seed\": 0, \"per_task\": 0, "
                        "\"activate\": \"auto\"}");
    free(s);
    p = (struct td_train_params){.mode = TD_TRAIN_ADAPT, .automatic = true, .newest = 7};
    s = text(&p);
    ck_assert_str_eq(s, "{\"mode\": \"adapt\", \"epochs\": null, \"max_seconds\": 0, \"seed\": 0, \"per_task\": 0, "
                        "\"activate\": \"auto\", \"automatic\": true, \"newest_measurement\": 7}");
    ck_assert_int_eq(td_train_params_read(&p, s, NULL), 0);
    ck_assert(p.automatic && p.newest == 7);
    free(s);
}
END_TEST

START_TEST(what_is_no_parameters_is_refused)
{
    static const char *const bad[] = {"", "[]", "{}",
                                      "{\"mode\": \"guess\", \"max_seconds\": 0, \"seed\": 0, \"per_task\": 0, "
                                      "\"activate\": \"auto\"}"};
    struct td_train_params p;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_int_eq(td_train_params_read(&p, bad[i], NULL), -TP_E_INTERNAL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon/train params");
    TCase *t = tcase_create("params");
    SRunner *r;
    int bad;

    tcase_add_test(t, what_was_written_is_read);
    tcase_add_test(t, every_mode_has_its_form);
    tcase_add_test(t, what_is_no_parameters_is_refused);
    suite_add_tcase(s, t);
    r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    bad = srunner_ntests_failed(r);
    srunner_free(r);
    return bad > 0;
}
