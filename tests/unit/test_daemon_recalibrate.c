/* Offsets that follow the measurements: when a task is due, what a pass makes, and the thread that runs passes. */
#include "daemon/recalibrate.h"

#include "daemon/drift.h"
#include "daemon/log.h"
#include "daemon/registry.h"
#include "tests/unit/store_fixture.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct td_daemon daemon_;
static char models[96];

static void setup(void)
{
    struct tp_err e = {0};

    td_log_level(TD_ERROR);
    sf_begin();
    sf_path(models, "models");
    sf_hardware("a", "cpu", "cpu");
    sf_hardware("b", "cpu", "cpu");
    daemon_ = (struct td_daemon){.store = sf_store, .drift = td_drift_new()};
    ck_assert_msg(td_registry_new(models, sf_store, NULL, NULL, &daemon_.registry, &e) == 0, "%s", e.detail);
}

static void teardown(void)
{
    DIR *d = opendir(models);
    struct dirent *x;

    td_registry_free(daemon_.registry);
    td_drift_free(daemon_.drift);
    while (d != NULL && (x = readdir(d)) != NULL)
        unlinkat(dirfd(d), x->d_name, 0);
    if (d != NULL)
        closedir(d);
    rmdir(models);
    sf_end();
}

static int64_t publish(const char *role, const char *owner, uint64_t seed)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, seed);
    struct tm_provenance p = {.seed = seed};
    struct st_model row = {.state = "published", .created = 1700000000};
    struct tp_err e = {0};

    m->latency_shift = -6;
    m->known_slope = 0.8;
    ck_assert_int_eq(st_model_reserve(sf_store, &row.id, &e), 0);
    snprintf(row.role, sizeof row.role, "%s", role);
    snprintf(row.owner, sizeof row.owner, "%s", owner);
    ck_assert_int_eq(td_registry_publish(daemon_.registry, m, &p, &row,
                                         strcmp(role, "ac") == 0 ? sf_hardware_id(owner) : 0, true, &e),
                     0);
    return row.id;
}

static double cost_of(int task, int program)
{
    return 1e-3 * task * (1 + (program * 7) % 11);
}

/* Programs from .. from + n - 1 of a task. */
static void post(const char *hardware, int task, int from, int n)
{
    struct sf_line *lines = calloc((size_t)n, sizeof *lines);

    for (int i = 0; i < n; i++)
        lines[i] = (struct sf_line){task, from + i, cost_of(task, from + i), 1000 + i};
    ck_assert_uint_eq(sf_post(hardware, lines, (size_t)n).accepted, (size_t)n);
    free(lines);
}

static int pass(const char *hardware, bool *more)
{
    struct tp_err e = {0};
    int tasks = -1;
    bool m;

    ck_assert_msg(td_recal_pass(&daemon_, hardware, NULL, &tasks, more != NULL ? more : &m, &e) == 0, "%s", e.detail);
    return tasks;
}

static struct td_snapshot *acquire(const char *hardware)
{
    struct td_snapshot *s = NULL;

    ck_assert_int_eq(td_registry_acquire(daemon_.registry, hardware, "cpu", "active", &s, NULL), 0);
    return s;
}

static int calibration(const char *hardware)
{
    struct td_snapshot *s = acquire(hardware);
    int c = s->calibration;

    td_registry_release(s);
    return c;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The offset by hand: predict each program alone, sort what is missing. */
static double by_hand(const char *hardware, int task, int n, char id[TP_TASK_ID_LEN + 1])
{
    struct td_snapshot *s = acquire(hardware);
    struct tm_batch *b = tm_batch_new();
    struct td_hw hw;
    struct tp_record r;
    double *v = calloc((size_t)n, sizeof *v), score, latency, mid;

    ck_assert_int_eq(td_registry_hardware(daemon_.registry, hardware, &hw, NULL), 0);
    tp_record_init(&r);
    for (int i = 0; i < n; i++) {
        char line[1024];

        sf_print(line, sizeof line, (struct sf_line){task, i, 1, 1});
        sf_parse(&r, line);
        ck_assert_int_eq(tm_batch_begin(b, s->plan), 0);
        ck_assert_int_eq(tm_batch_add(b, &r, &hw.feat, NULL), 0);
        ck_assert_int_eq(tm_batch_run(b, &score, &latency, NULL), 0);
        v[i] = log(cost_of(task, i)) - s->model->latency_shift -
               s->model->known_slope * (log(latency) - s->model->latency_shift);
    }
    snprintf(id, TP_TASK_ID_LEN + 1, "%s", tp_record_task_id(&r));
    qsort(v, (size_t)n, sizeof *v, ascending);
    mid = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
    free(v);
    tp_record_free(&r);
    tm_batch_free(b);
    td_registry_release(s);
    return mid;
}

static struct tm_offset offset_of(const char *hardware, const char *id)
{
    struct td_snapshot *s = acquire(hardware);
    struct tm_offset o = td_offsets_find(s->offsets, sf_hardware_id(hardware), id);

    td_registry_release(s);
    return o;
}

START_TEST(a_task_is_due_with_five_measurements_and_whenever_they_have_doubled)
{
    const struct st_offset five = {.measurements = 5}, none = {.measurements = 0};

    ck_assert(!td_recal_due(0, NULL));
    ck_assert(!td_recal_due(4, NULL));
    ck_assert(td_recal_due(5, NULL));
    ck_assert(!td_recal_due(5, &five));
    ck_assert(!td_recal_due(9, &five));
    ck_assert(td_recal_due(10, &five));
    ck_assert(td_recal_due(INT64_MAX, &five));
    ck_assert(td_recal_due(5, &none));
}
END_TEST

START_TEST(a_pass_gives_the_median_of_what_is_missing)
{
    char id[TP_TASK_ID_LEN + 1], other[TP_TASK_ID_LEN + 1];
    double want;

    publish("ac", "a", 1);
    post("a", 1, 0, 7);
    post("a", 2, 0, 4);
    ck_assert_int_eq(pass("a", NULL), 1);
    ck_assert_int_eq(calibration("a"), 1);
    want = by_hand("a", 1, 7, id);
    ck_assert_uint_eq(offset_of("a", id).n, 7);
    ck_assert_double_eq_tol(offset_of("a", id).offset, want, 1e-12);
    by_hand("a", 2, 1, other);
    ck_assert_uint_eq(offset_of("a", other).n, 0);
}
END_TEST

START_TEST(a_pass_does_what_is_due_and_no_more)
{
    char id[TP_TASK_ID_LEN + 1];

    publish("ac", "a", 1);
    post("a", 1, 0, 5);
    ck_assert_int_eq(pass("a", NULL), 1);
    ck_assert_int_eq(pass("a", NULL), 0);
    post("a", 1, 5, 4);
    ck_assert_int_eq(pass("a", NULL), 0);
    ck_assert_int_eq(calibration("a"), 1);
    post("a", 1, 9, 1);
    post("a", 2, 0, 5);
    ck_assert_int_eq(pass("a", NULL), 2);
    ck_assert_int_eq(calibration("a"), 2);
    by_hand("a", 1, 1, id);
    ck_assert_uint_eq(offset_of("a", id).n, 10);
}
END_TEST

START_TEST(failures_and_repeated_programs_do_not_make_an_offset)
{
    struct sf_line failed[6], again[6];
    char id[TP_TASK_ID_LEN + 1];

    publish("ac", "a", 1);
    for (int i = 0; i < 6; i++) {
        failed[i] = (struct sf_line){1, i, -1, i};
        again[i] = (struct sf_line){2, 0, 1e-3 + 1e-6 * i, i};
    }
    sf_post("a", failed, 6);
    ck_assert_int_eq(pass("a", NULL), 0);
    sf_post("a", again, 6);
    ck_assert_int_eq(pass("a", NULL), 1); /* looked at, and that is kept: not again with every measurement */
    ck_assert_int_eq(pass("a", NULL), 0);
    by_hand("a", 2, 1, id);
    ck_assert_uint_eq(offset_of("a", id).n, 0);
}
END_TEST

START_TEST(no_model_and_no_hardware_are_no_errors)
{
    post("a", 1, 0, 9);
    ck_assert_int_eq(pass("a", NULL), 0);
    ck_assert_int_eq(pass("nobody", NULL), 0);
}
END_TEST

START_TEST(a_knowledge_base_gets_offsets_of_each_hardware)
{
    char id[TP_TASK_ID_LEN + 1];
    double want;
    int64_t kb = publish("kb", "cpu", 1);
    struct td_snapshot *s;

    post("a", 1, 0, 6);
    post("b", 1, 0, 9);
    ck_assert_int_eq(pass("a", NULL), 1);
    ck_assert_int_eq(pass("b", NULL), 1);
    s = acquire("a");
    ck_assert_int_eq(s->id, kb);
    ck_assert_int_eq(s->calibration, 2);
    td_registry_release(s);
    want = by_hand("a", 1, 6, id);
    ck_assert_double_eq_tol(offset_of("a", id).offset, want, 1e-12);
    ck_assert_uint_eq(offset_of("b", id).n, 9);
}
END_TEST

START_TEST(many_tasks_take_several_passes)
{
    enum { N = TD_RECAL_TASKS + 10 };
    struct sf_line *lines = calloc((size_t)N * 5, sizeof *lines);
    bool more = false;

    publish("ac", "a", 1);
    for (int i = 0; i < N * 5; i++)
        lines[i] = (struct sf_line){1 + i / 5, i % 5, cost_of(1, i), 1};
    sf_post("a", lines, (size_t)N * 5);
    free(lines);
    ck_assert_int_eq(pass("a", &more), TD_RECAL_TASKS);
    ck_assert(more);
    ck_assert_int_eq(pass("a", &more), 10);
    ck_assert(!more);
    ck_assert_int_eq(pass("a", &more), 0);
}
END_TEST

START_TEST(a_large_task_is_sampled)
{
    char id[TP_TASK_ID_LEN + 1];

    publish("ac", "a", 1);
    post("a", 1, 0, TD_RECAL_PROGRAMS + 50);
    ck_assert_int_eq(pass("a", NULL), 1);
    by_hand("a", 1, 1, id);
    ck_assert_uint_eq(offset_of("a", id).n, TD_RECAL_PROGRAMS);
    ck_assert_int_eq(pass("a", NULL), 0);
}
END_TEST

/* ---- the thread ---- */

static bool reaches(const char *hardware, int want)
{
    for (int i = 0; i < 6000 && calibration(hardware) < want; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return calibration(hardware) == want;
}

START_TEST(the_thread_looks_at_everything_first_and_then_at_what_is_noted)
{
    struct tp_err e = {0};

    publish("ac", "a", 1);
    publish("ac", "b", 2);
    post("a", 1, 0, 5);
    ck_assert_int_eq(td_recal_new(&daemon_, &daemon_.recal, &e), 0);
    ck_assert(reaches("a", 1));
    ck_assert_int_eq(calibration("b"), 0);
    post("b", 1, 0, 5);
    for (int i = 0; i < 1000; i++)
        td_recal_note(daemon_.recal, "b");
    ck_assert(reaches("b", 1));
    ck_assert_int_eq(calibration("a"), 1);
    td_recal_free(daemon_.recal);
}
END_TEST

START_TEST(more_notes_than_it_has_room_for_make_it_look_at_everything)
{
    struct tp_err e = {0};
    char name[16];

    publish("ac", "b", 2);
    ck_assert_int_eq(td_recal_new(&daemon_, &daemon_.recal, &e), 0);
    post("b", 1, 0, 5);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "none-%d", i);
        td_recal_note(daemon_.recal, name);
    }
    ck_assert(reaches("b", 1));
    td_recal_free(daemon_.recal);
}
END_TEST

START_TEST(once_stopped_it_takes_notes_and_looks_at_nothing)
{
    struct tp_err e = {0};

    publish("ac", "a", 1);
    ck_assert_int_eq(td_recal_new(&daemon_, &daemon_.recal, &e), 0);
    td_recal_stop(daemon_.recal);
    post("a", 1, 0, 5);
    td_recal_note(daemon_.recal, "a");
    td_recal_stop(daemon_.recal);
    td_recal_free(daemon_.recal);
    ck_assert_int_eq(calibration("a"), 0);
    td_recal_stop(NULL);
}
END_TEST

START_TEST(it_ends_at_once_and_null_is_accepted)
{
    struct tp_err e = {0};

    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(td_recal_new(&daemon_, &daemon_.recal, &e), 0);
        if (i % 2)
            td_recal_note(daemon_.recal, "a");
        td_recal_free(daemon_.recal);
    }
    td_recal_note(NULL, "a");
    td_recal_free(NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon/recalibrate");
    TCase *t = tcase_create("recalibrate");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_task_is_due_with_five_measurements_and_whenever_they_have_doubled);
    tcase_add_test(t, a_pass_gives_the_median_of_what_is_missing);
    tcase_add_test(t, a_pass_does_what_is_due_and_no_more);
    tcase_add_test(t, failures_and_repeated_programs_do_not_make_an_offset);
    tcase_add_test(t, no_model_and_no_hardware_are_no_errors);
    tcase_add_test(t, a_knowledge_base_gets_offsets_of_each_hardware);
    tcase_add_test(t, many_tasks_take_several_passes);
    tcase_add_test(t, a_large_task_is_sampled);
    tcase_add_test(t, the_thread_looks_at_everything_first_and_then_at_what_is_noted);
    tcase_add_test(t, more_notes_than_it_has_room_for_make_it_look_at_everything);
    tcase_add_test(t, once_stopped_it_takes_notes_and_looks_at_nothing);
    tcase_add_test(t, it_ends_at_once_and_null_is_accepted);
    suite_add_tcase(s, t);
    return sf_main(s);
}
