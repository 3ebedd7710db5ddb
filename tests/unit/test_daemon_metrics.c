/* The exposition: every metric of the table, one head per family, histograms that add up. */
#include "daemon/metrics.h"

#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct td_metrics *m;
static struct tp_buf out;

static void setup(void)
{
    m = td_metrics_new();
    ck_assert_ptr_nonnull(m);
}

static void teardown(void)
{
    td_metrics_free(m);
    tp_buf_free(&out);
}

static const char *scrape(void)
{
    tp_buf_free(&out);
    td_metrics_write(m, &out);
    tp_buf_putc(&out, '\0');
    ck_assert(!out.oom);
    return out.p;
}

static void has_line(const char *line)
{
    char whole[256];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    ck_assert_msg(strstr(scrape(), whole) != NULL, "no line: %s", line);
}

static int count_of(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        n++;
    return n;
}

START_TEST(every_family_has_one_head_with_its_help)
{
    const char *text = scrape();
    const char *const names[] = {
#define C(id, name, labels, help) name,
#define G(id, name, help)         name,
#define H(id, name, help)         name,
#define X(id, name, help)         name,
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char line[128];
        snprintf(line, sizeof line, "# HELP %s ", names[i]);
        ck_assert_msg(count_of(text, line) == 1, "%s: %d heads", names[i], count_of(text, line));
        snprintf(line, sizeof line, "# TYPE %s ", names[i]);
        ck_assert_int_eq(count_of(text, line), 1);
        ck_assert_msg(strncmp(names[i], "tcld_", 5) == 0, "%s", names[i]);
    }
    ck_assert_int_eq(count_of(text, " .\n"), 0); /* no head without a help */
}
END_TEST

static bool ends_with(const char *name, const char *end)
{
    return strlen(name) > strlen(end) && strcmp(&name[strlen(name) - strlen(end)], end) == 0;
}

START_TEST(counters_end_in_total_and_others_do_not)
{
#define C(id, name, labels, help) ck_assert(ends_with(name, "_total"));
#define G(id, name, help)         ck_assert(!ends_with(name, "_total"));
#define H(id, name, help)         ck_assert(ends_with(name, "_seconds"));
#define X(id, name, help)         ck_assert(!ends_with(name, "_total"));
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
#undef X
}
END_TEST

/* Dashboards and alerts name what there is. */
START_TEST(what_is_shipped_names_metrics_that_exist)
{
    static const char *const files[] = {"config/grafana-dashboard.json", "config/prometheus-alerts.yml"};
    static char shipped[1 << 18];
    const char *text = scrape();
    int names = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *f = fopen(files[i], "r");
        ck_assert_msg(f != NULL, "%s is missing: run from the root of the project", files[i]);
        size_t n = fread(shipped, 1, sizeof shipped - 1, f);
        fclose(f);
        shipped[n] = '\0';
        for (const char *p = shipped; (p = strstr(p, "tcld_")) != NULL; names++) {
            size_t len = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_");
            char line[160];
            snprintf(line, sizeof line, "# TYPE %.*s ", (int)len, p);
            bool known = strstr(text, line) != NULL;
            if (!known && len > 7 && strncmp(p + len - 7, "_bucket", 7) == 0) {
                snprintf(line, sizeof line, "# TYPE %.*s histogram", (int)len - 7, p);
                known = strstr(text, line) != NULL;
            }
            ck_assert_msg(known, "%s: there is no %.*s", files[i], (int)len, p);
            p += len;
        }
    }
    ck_assert_int_gt(names, 50);
}
END_TEST

START_TEST(counters_add_and_gauges_are_set)
{
    td_count(m, TD_C_REQ_4XX, 2);
    td_count(m, TD_C_REQ_4XX, 3);
    td_gauge(m, TD_G_CONNECTIONS, 17);
    td_gauge(m, TD_G_CONNECTIONS, 12);
    has_line("tcld_http_requests_total{code=\"4xx\"} 5");
    has_line("tcld_http_connections 12");
    has_line("tcld_model_swaps_total 0");
}
END_TEST

START_TEST(histogram_buckets_are_cumulative_and_bounds_belong_to_their_bucket)
{
    td_observe(m, TD_H_PREDICT, 0.001);
    td_observe(m, TD_H_PREDICT, 0.0011);
    td_observe(m, TD_H_PREDICT, 0.3);
    td_observe(m, TD_H_PREDICT, 1000);
    has_line("tcld_predict_duration_seconds_bucket{le=\"0.0005\"} 0");
    has_line("tcld_predict_duration_seconds_bucket{le=\"0.001\"} 1");
    has_line("tcld_predict_duration_seconds_bucket{le=\"0.0025\"} 2");
    has_line("tcld_predict_duration_seconds_bucket{le=\"0.5\"} 3");
    has_line("tcld_predict_duration_seconds_bucket{le=\"30\"} 3");
    has_line("tcld_predict_duration_seconds_bucket{le=\"+Inf\"} 4");
    has_line("tcld_predict_duration_seconds_count 4");
    has_line("tcld_predict_duration_seconds_sum 1000.3021");
}
END_TEST

START_TEST(an_impossible_duration_counts_as_none)
{
    td_observe(m, TD_H_PREDICT, NAN);
    td_observe(m, TD_H_PREDICT, -1);
    has_line("tcld_predict_duration_seconds_bucket{le=\"0.0001\"} 2");
    has_line("tcld_predict_duration_seconds_sum 0");
}
END_TEST

START_TEST(resident_memory_is_measured_at_the_scrape)
{
    double bytes = 0;
    ck_assert_int_eq(
        sscanf(strstr(scrape(), "\ntcld_resident_memory_bytes ") + 1, "tcld_resident_memory_bytes %lf", &bytes), 1);
    ck_assert(bytes > 100000);
}
END_TEST

static void *count_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20000; i++) {
        td_count(m, TD_C_PREDICTED, 1);
        td_observe(m, TD_H_REQUEST, 0.01);
    }
    return NULL;
}

START_TEST(updates_of_many_threads_are_all_counted)
{
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, count_many, NULL);
    scrape();
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    has_line("tcld_predicted_programs_total{verdict=\"scored\"} 80000");
    has_line("tcld_http_request_duration_seconds_count 80000");
    has_line("tcld_http_request_duration_seconds_sum 800");
}
END_TEST

static bool give(void *arg, const char *hardware, double *v)
{
    ck_assert_ptr_nonnull(hardware);
    for (int i = 0; i < TD_HW_GAUGES; i++)
        v[i] = NAN;
    v[TD_HW_TOP1] = *(const double *)arg;
    v[TD_HW_PAIRWISE] = 2 * *(const double *)arg;
    return v[TD_HW_TOP1] != 0;
}

START_TEST(gauges_of_a_hardware_are_shown_under_its_name_and_go)
{
    double a = 0.25, b = 0.5, none = 0, nan = NAN;
    const char *const *name = (const char *const[]){"tcld_model_top1", "tcld_model_pairwise_accuracy", NULL};

    for (; *name != NULL; name++) {
        char line[128];

        snprintf(line, sizeof line, "# HELP %s ", *name);
        ck_assert_int_eq(count_of(scrape(), line), 1);
        snprintf(line, sizeof line, "%s{", *name);
        ck_assert_int_eq(count_of(scrape(), line), 0);
    }
    td_hw_gauges(m, "b", give, &b);
    td_hw_gauges(m, "a", give, &a);
    has_line("tcld_model_top1{hardware=\"a\"} 0.25\ntcld_model_top1{hardware=\"b\"} 0.5");
    has_line("tcld_model_pairwise_accuracy{hardware=\"a\"} 0.5");
    td_hw_gauges(m, "a", give, &b);
    has_line("tcld_model_top1{hardware=\"a\"} 0.5");
    td_hw_gauges(m, "a", give, &none);
    td_hw_gauges(m, "never", give, &none);
    ck_assert_int_eq(count_of(scrape(), "hardware=\"a\""), 0);
    td_hw_gauges(m, "a", give, &nan);
    ck_assert_int_eq(count_of(scrape(), "hardware=\"a\""), 0);
    td_hw_gauges(m, "b", NULL, NULL);
    ck_assert_int_eq(count_of(scrape(), "hardware="), 0);
}
END_TEST

START_TEST(the_label_set_is_bounded)
{
    double v = 0.5;
    char name[32];

    for (int i = 0; i < TD_HW_GAUGES_MAX + 50; i++) {
        snprintf(name, sizeof name, "hw-%d", i);
        td_hw_gauges(m, name, give, &v);
    }
    ck_assert_int_eq(count_of(scrape(), "tcld_model_top1{"), TD_HW_GAUGES_MAX);
    td_hw_gauges(m, "hw-0", NULL, NULL);
    td_hw_gauges(m, "late", give, &v);
    has_line("tcld_model_top1{hardware=\"late\"} 0.5");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon_metrics");
    TCase *c = tcase_create("all");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, every_family_has_one_head_with_its_help);
    tcase_add_test(c, counters_end_in_total_and_others_do_not);
    tcase_add_test(c, what_is_shipped_names_metrics_that_exist);
    tcase_add_test(c, counters_add_and_gauges_are_set);
    tcase_add_test(c, histogram_buckets_are_cumulative_and_bounds_belong_to_their_bucket);
    tcase_add_test(c, an_impossible_duration_counts_as_none);
    tcase_add_test(c, resident_memory_is_measured_at_the_scrape);
    tcase_add_test(c, updates_of_many_threads_are_all_counted);
    tcase_add_test(c, gauges_of_a_hardware_are_shown_under_its_name_and_go);
    tcase_add_test(c, the_label_set_is_bounded);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
