/* Figures: their JSON, and which evaluation the gauges show. */
#include "daemon/figures.h"

#include "daemon/log.h"
#include "daemon/metrics.h"
#include "tests/unit/store_fixture.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct td_daemon daemon_;
static struct st_reader *rd;
static int64_t hw;

static void setup(void)
{
    td_log_level(TD_ERROR);
    sf_begin();
    sf_hardware("x", "cpu", "cpu");
    hw = sf_hardware_id("x");
    rd = sf_reader();
    daemon_ = (struct td_daemon){.store = sf_store, .metrics = td_metrics_new()};
}

static void teardown(void)
{
    td_metrics_free(daemon_.metrics);
    st_reader_free(rd);
    sf_end();
}

static int64_t model(const char *role, const char *owner, const char *metrics, bool activate)
{
    struct st_model m = {.features_version = "tclf-1", .state = "published", .metrics = (char *)metrics};
    struct tp_err e = {0};

    snprintf(m.role, sizeof m.role, "%s", role);
    snprintf(m.owner, sizeof m.owner, "%s", owner);
    ck_assert_int_eq(st_model_reserve(sf_store, &m.id, &e), 0);
    ck_assert_int_eq(st_model_insert(sf_store, &m, activate, &e), 0);
    return m.id;
}

static void keep(int64_t id, const char *result)
{
    struct tp_err e = {0};
    int64_t made = 0;

    ck_assert_msg(td_figures_keep(&daemon_, rd, "x", hw, id, 9, (char *)result, &made, &e) == 0, "%s", e.detail);
    ck_assert_int_gt(made, 0);
}

/* The two gauges of x as "top1 pairwise", "-" for one that is not shown. */
static const char *shown(void)
{
    static const char *const names[] = {"\ntcld_model_top1{hardware=\"x\"} ",
                                        "\ntcld_model_pairwise_accuracy{hardware=\"x\"} "};
    static char text[2][32], both[80];
    struct tp_buf b = {0};

    td_metrics_write(daemon_.metrics, &b);
    tp_buf_putc(&b, '\0');
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(b.p, names[i]);

        snprintf(text[i], sizeof text[i], "-");
        if (at != NULL)
            sscanf(at + strlen(names[i]), "%31s", text[i]);
    }
    tp_buf_free(&b);
    snprintf(both, sizeof both, "%s %s", text[0], text[1]);
    return both;
}

#define RESULT(held, all) "{\"held_out\": " held ", \"all\": " all "}"
#define GROUP(a, b)       "{\"tasks\": 3, \"top1_mean\": " a ", \"pairwise\": " b "}"

START_TEST(figures_are_json_members)
{
    struct tm_metrics m = {
        .tasks = 3, .programs = 40, .top1_mean = 0.5, .pairwise = NAN, .latency_mape = INFINITY, .latency_within_2 = 1};
    struct tp_buf b = {0};
    json_t *o;
    char *text;

    tp_buf_putc(&b, '{');
    td_put_figures(&b, &m);
    tp_buf_putc(&b, '}');
    text = td_take_text(&b);
    ck_assert_ptr_null(b.p);
    o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(o);
    ck_assert_int_eq(json_integer_value(json_object_get(o, "tasks")), 3);
    ck_assert_double_eq(json_number_value(json_object_get(o, "top1_mean")), 0.5);
    ck_assert(json_is_null(json_object_get(o, "pairwise")));
    ck_assert(json_is_null(json_object_get(o, "latency_mape")));
    ck_assert_double_eq(json_number_value(json_object_get(o, "latency_within_2")), 1);
    ck_assert_double_eq(json_number_value(json_object_get(o, "random_pairwise")), 0.5);
    json_decref(o);
    free(text);
}
END_TEST

START_TEST(held_out_figures_come_before_all)
{
    int64_t id = model("ac", "x", "{}", true);

    ck_assert_str_eq(shown(), "- -");
    keep(id, RESULT("null", GROUP("0.5", "0.75")));
    ck_assert_str_eq(shown(), "0.5 0.75");
    keep(id, RESULT(GROUP("0.25", "0.625"), GROUP("0.5", "0.75")));
    ck_assert_str_eq(shown(), "0.25 0.625");
    keep(id, RESULT(GROUP("0.875", "null"), "null"));
    ck_assert_str_eq(shown(), "0.875 -");
}
END_TEST

START_TEST(only_the_model_that_answers_is_shown)
{
    int64_t kb = model("kb", "cpu", "{}", true), first, second;
    struct tp_err e = {0};

    keep(kb, RESULT("null", GROUP("0.125", "0.5")));
    ck_assert_str_eq(shown(), "0.125 0.5");
    first = model("ac", "x", "{}", true);
    second = model("ac", "x", "{}", false);
    td_figures_show(&daemon_, rd, "x");
    ck_assert_str_eq(shown(), "- -"); /* it has none yet */
    keep(second, RESULT("null", GROUP("0.25", "0.5")));
    ck_assert_str_eq(shown(), "- -");
    keep(first, RESULT("null", GROUP("0.375", "0.5")));
    ck_assert_str_eq(shown(), "0.375 0.5");
    ck_assert_int_eq(st_model_activate(sf_store, "x", second, &e), 0);
    td_figures_show(&daemon_, rd, "x");
    ck_assert_str_eq(shown(), "0.25 0.5");
}
END_TEST

START_TEST(what_the_store_has_is_shown_after_a_restart)
{
    keep(model("ac", "x", "{}", true), RESULT("null", GROUP("0.5", "0.75")));
    td_metrics_free(daemon_.metrics);
    daemon_.metrics = td_metrics_new();
    ck_assert_str_eq(shown(), "- -");
    td_figures_show_all(&daemon_);
    ck_assert_str_eq(shown(), "0.5 0.75");
}
END_TEST

START_TEST(deleted_hardware_is_not_shown)
{
    keep(model("ac", "x", "{}", true), RESULT("null", GROUP("0.5", "0.75")));
    ck_assert_int_eq(st_hardware_delete(sf_store, "x", true, NULL), 0);
    td_figures_show(&daemon_, rd, "x");
    ck_assert_str_eq(shown(), "- -");
}
END_TEST

START_TEST(a_model_tells_how_programs_were_held_out)
{
    ck_assert_str_eq(td_model_holdout(rd, model("ac", "x", "{\"holdout\": \"task\"}", false)), "task");
    ck_assert_str_eq(td_model_holdout(rd, model("ac", "x", "{\"holdout\": \"record\"}", false)), "record");
    ck_assert_str_eq(td_model_holdout(rd, model("ac", "x", "{\"holdout\": \"moon\"}", false)), "unknown");
    ck_assert_str_eq(td_model_holdout(rd, model("ac", "x", "{\"imported\": {\"holdout\": \"task\"}}", false)),
                     "unknown");
    ck_assert_str_eq(td_model_holdout(rd, 999), "unknown");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon/figures");
    TCase *t = tcase_create("figures");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, figures_are_json_members);
    tcase_add_test(t, held_out_figures_come_before_all);
    tcase_add_test(t, only_the_model_that_answers_is_shown);
    tcase_add_test(t, what_the_store_has_is_shown_after_a_restart);
    tcase_add_test(t, deleted_hardware_is_not_shown);
    tcase_add_test(t, a_model_tells_how_programs_were_held_out);
    suite_add_tcase(s, t);
    return sf_main(s);
}
