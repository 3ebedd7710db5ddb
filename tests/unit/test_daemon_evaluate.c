/* The job "evaluate": its parameters, what counts as held out, cancellation. What the figures are is tested over HTTP.
 */
#include "daemon/evaluate.h"

#include "daemon/jobs_priv.h"
#include "daemon/log.h"
#include "daemon/registry.h"
#include "tests/unit/store_fixture.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct td_daemon daemon_;
static struct st_reader *rd;
static char models[96];

static void setup(void)
{
    struct tp_err e = {0};

    td_log_level(TD_ERROR);
    sf_begin();
    sf_path(models, "models");
    sf_hardware("a", "cpu", "cpu");
    daemon_ = (struct td_daemon){.store = sf_store};
    ck_assert_int_eq(td_registry_new(models, sf_store, NULL, NULL, &daemon_.registry, &e), 0);
    ck_assert_int_eq(td_jobs_new(&daemon_, NULL, NULL, &daemon_.jobs, &e), 0);
    ck_assert_int_eq(td_jobs_start(daemon_.jobs, NULL), 0);
    rd = sf_reader();
}

static void teardown(void)
{
    DIR *d = opendir(models);
    struct dirent *x;

    td_jobs_free(daemon_.jobs);
    st_reader_free(rd);
    td_registry_free(daemon_.registry);
    while (d != NULL && (x = readdir(d)) != NULL)
        unlinkat(dirfd(d), x->d_name, 0);
    if (d != NULL)
        closedir(d);
    rmdir(models);
    sf_end();
}

static void publish(const char *metrics)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    struct tm_provenance p = {0};
    struct st_model row = {.role = "ac", .owner = "a", .state = "published", .metrics = (char *)metrics};
    struct tp_err e = {0};

    ck_assert_int_eq(st_model_reserve(sf_store, &row.id, &e), 0);
    ck_assert_int_eq(td_registry_publish(daemon_.registry, m, &p, &row, sf_hardware_id("a"), true, &e), 0);
}

static void post(int tasks, int programs)
{
    struct sf_line *lines = calloc((size_t)(tasks * programs), sizeof *lines);

    for (int i = 0; i < tasks * programs; i++)
        lines[i] =
            (struct sf_line){1 + i / programs, i % programs, i % 9 == 8 ? -1 : 1e-3 * (1 + (i * 7) % 11), 1000 + i};
    ck_assert_uint_eq(sf_post("a", lines, (size_t)(tasks * programs)).accepted, (size_t)(tasks * programs));
    free(lines);
}

/* Runs the job to its end. The row is the caller's. */
static struct st_job run_as(td_job_run fn)
{
    struct st_job row = {0};
    struct tp_err e = {0};
    int64_t id = 0;
    bool existing;

    ck_assert_int_eq(
        td_jobs_submit(daemon_.jobs, "evaluate", "a", "#", "{\"model\": \"active\"}", fn, &id, &existing, &e), 0);
    for (int i = 0; i < 6000; i++) {
        st_job_clear(&row);
        ck_assert_int_eq(st_job_get(rd, id, &row, &e), 0);
        if (row.finished > 0)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return row;
}

static struct st_job run(void)
{
    return run_as(td_evaluate_run);
}

static json_t *result(void)
{
    struct st_job row = run();
    json_t *o = row.result != NULL ? json_loads(row.result, JSON_REJECT_DUPLICATES, NULL) : NULL;

    ck_assert_msg(o != NULL, "%s: %s", row.state, row.error != NULL ? row.error : "");
    st_job_clear(&row);
    return o;
}

static json_int_t number(const json_t *o, const char *group, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(o, group), key));
}

START_TEST(parameters_are_written_as_they_are_read)
{
    static const char *const texts[] = {"{\"model\": \"active\"}", "{\"model\": 12}"};

    for (int i = 0; i < 2; i++) {
        struct td_evaluate_params p = {.model = 99};
        struct tp_buf b = {0};
        struct tp_err e = {0};

        ck_assert_int_eq(td_evaluate_params_read(&p, texts[i], &e), 0);
        ck_assert_int_eq(p.model, i * 12);
        td_evaluate_params_write(&p, &b);
        tp_buf_putc(&b, '\0');
        ck_assert_str_eq(b.p, texts[i]);
        tp_buf_free(&b);
        ck_assert_int_eq(td_evaluate_params_read(&p, "{}", &e), -TP_E_INTERNAL);
    }
}
END_TEST

START_TEST(whole_tasks_are_held_out_of_a_model_that_was_trained_so)
{
    json_t *o;

    publish("{\"holdout\": \"task\"}");
    post(12, 20);
    o = result();
    ck_assert_int_eq(number(o, "all", "tasks"), 12);
    ck_assert_int_eq(number(o, "all", "programs"), 240);
    ck_assert_int_ge(number(o, "held_out", "tasks"), 1);
    ck_assert_int_eq(number(o, "held_out", "programs"), 20 * number(o, "held_out", "tasks"));
    ck_assert_uint_eq(json_array_size(json_object_get(o, "per_task")), 12);
    json_decref(o);
}
END_TEST

START_TEST(of_a_model_that_was_trained_by_record_only_programs_that_were_held_out_then_count)
{
    json_t *o;

    publish("{\"holdout\": \"record\"}");
    post(12, 60);
    o = result();
    ck_assert_int_ge(number(o, "held_out", "tasks"), 1);
    ck_assert_int_lt(number(o, "held_out", "programs"), 60 * number(o, "held_out", "tasks") / 2);
    ck_assert_str_eq(json_string_value(json_object_get(o, "holdout")), "record");
    json_decref(o);
}
END_TEST

START_TEST(a_model_trained_by_task_has_seen_every_program_when_few_tasks_are_left)
{
    json_t *o;

    publish("{\"holdout\": \"task\"}");
    post(2, 40);
    o = result();
    ck_assert(json_is_null(json_object_get(o, "held_out")));
    ck_assert_int_eq(number(o, "all", "tasks"), 2);
    json_decref(o);
}
END_TEST

START_TEST(of_an_imported_model_nothing_is_known)
{
    json_t *o;

    publish("{\"imported\": {\"metrics\": {\"holdout\": \"task\"}}}");
    post(12, 20);
    o = result();
    ck_assert(json_is_null(json_object_get(o, "held_out")));
    ck_assert_str_eq(json_string_value(json_object_get(o, "holdout")), "unknown");
    json_decref(o);
}
END_TEST

START_TEST(nothing_to_compare_is_told)
{
    struct st_job row;

    publish("{\"holdout\": \"task\"}");
    post(1, 1);
    row = run();
    ck_assert_str_eq(row.state, "failed");
    ck_assert_ptr_nonnull(strstr(row.error, "not-enough-data"));
    st_job_clear(&row);
}
END_TEST

/* Somebody cancels it as it starts. */
static int cancelled(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e)
{
    atomic_store(&j->cancel, true);
    return td_evaluate_run(d, j, params, result, e);
}

static int count(void *arg, const struct st_evaluation *v)
{
    (void)v;
    ++*(int *)arg;
    return 0;
}

START_TEST(cancelling_ends_it_and_leaves_no_evaluation)
{
    struct st_job row;
    struct tp_err e = {0};
    int n = 0;

    publish("{\"holdout\": \"task\"}");
    post(12, 60);
    row = run_as(cancelled);
    ck_assert_str_eq(row.state, "cancelled");
    st_job_clear(&row);
    ck_assert_int_eq(st_evaluation_list(rd, 0, 0, 0, 10, count, &n, &e), 0);
    ck_assert_int_eq(n, 0);
}
END_TEST

START_TEST(single_programs_give_no_figures)
{
    json_t *o;

    publish("{\"holdout\": \"task\"}");
    post(7, 1); /* two valid programs, but nowhere in one task */
    o = result();
    ck_assert(json_is_null(json_object_get(o, "all")));
    ck_assert_uint_eq(json_array_size(json_object_get(o, "per_task")), 0);
    json_decref(o);
}
END_TEST

START_TEST(many_tasks_are_told_up_to_the_limit)
{
    json_t *o;

    publish("{\"holdout\": \"task\"}");
    post(TD_EVALUATE_TASKS_MAX + 5, 3);
    o = result();
    ck_assert_uint_eq(json_array_size(json_object_get(o, "per_task")), TD_EVALUATE_TASKS_MAX);
    ck_assert(json_is_true(json_object_get(o, "per_task_truncated")));
    ck_assert_int_eq(number(o, "all", "tasks"), TD_EVALUATE_TASKS_MAX + 5);
    json_decref(o);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon/evaluate");
    TCase *t = tcase_create("evaluate");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, parameters_are_written_as_they_are_read);
    tcase_add_test(t, whole_tasks_are_held_out_of_a_model_that_was_trained_so);
    tcase_add_test(t, of_a_model_that_was_trained_by_record_only_programs_that_were_held_out_then_count);
    tcase_add_test(t, a_model_trained_by_task_has_seen_every_program_when_few_tasks_are_left);
    tcase_add_test(t, of_an_imported_model_nothing_is_known);
    tcase_add_test(t, nothing_to_compare_is_told);
    tcase_add_test(t, cancelling_ends_it_and_leaves_no_evaluation);
    tcase_add_test(t, single_programs_give_no_figures);
    tcase_add_test(t, many_tasks_are_told_up_to_the_limit);
    suite_add_tcase(s, t);
    return sf_main(s);
}
