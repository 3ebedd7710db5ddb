/* Jobs over a restart, most of all those that keep a state in a folder: suspended by a stop, resumed at the next start,
 * gone when they end. The job here waits for the test, never for time. */
#include "daemon/jobs.h"

#include "daemon/log.h"
#include "daemon/metrics.h"
#include "tests/unit/store_fixture.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct td_daemon daemon_;
static struct td_jobs *jobs;
static struct st_reader *rd;
static char dir[96];
static _Atomic int started;

/* Keeps a state, then waits until somebody stops it; where there is a state it ends at once. */
static int lasting(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e)
{
    char folder[TD_JOB_PATH];
    json_t *note;

    (void)d;
    (void)params;
    if (td_job_keep(j, folder, e) != 0)
        return -TP_E_IO;
    note = td_job_noted(folder);
    if (note != NULL) {
        *result = json_dumps(note, 0);
        json_decref(note);
        return 0;
    }
    note = json_pack("{s:i}", "seen", 7);
    ck_assert_int_eq(td_job_note(folder, note, e), 0);
    json_decref(note);
    started++;
    while (!td_job_cancelled(j))
        sched_yield();
    return tp_fail(e, TP_E_CANCELLED, "cancelled");
}

static void start(void)
{
    struct tp_err e = {0};

    ck_assert_msg(td_jobs_new(&daemon_, dir, lasting, &jobs, &e) == 0, "%s", e.detail);
    ck_assert_int_eq(td_jobs_start(jobs, NULL), 0);
}

static void restart(void)
{
    td_jobs_free(jobs);
    start();
}

static void setup(void)
{
    td_log_level(TD_ERROR);
    sf_begin();
    sf_hardware("a", "cpu", "cpu");
    sf_path(dir, "jobs");
    daemon_ = (struct td_daemon){.store = sf_store, .metrics = td_metrics_new()};
    rd = sf_reader();
    start();
}

static void teardown(void)
{
    td_jobs_free(jobs);
    td_metrics_free(daemon_.metrics);
    st_reader_free(rd);
    rmdir(dir);
    sf_end();
}

static int64_t submit_and_wait(void)
{
    bool existing;
    int64_t id = 0;

    ck_assert_int_eq(td_jobs_submit(jobs, "retrain", "a", "cpu", "{}", lasting, &id, &existing, NULL), 0);
    while (started == 0)
        sched_yield();
    return id;
}

static void wait_idle(void)
{
    while (td_jobs_active(jobs) > 0)
        sched_yield();
}

/* The job's row holds `part`. */
static bool shows(int64_t id, const char *part)
{
    struct tp_buf b = {0};
    bool yes;

    ck_assert_int_eq(td_jobs_json(jobs, rd, id, &b, NULL), 0);
    tp_buf_putc(&b, '\0');
    yes = strstr(b.p, part) != NULL;
    tp_buf_free(&b);
    return yes;
}

/* So many jobs ended in that state. */
static bool counted(const char *state, int n)
{
    char line[96];
    struct tp_buf b = {0};
    bool yes;

    snprintf(line, sizeof line, "tcld_jobs_total{state=\"%s\"} %d\n", state, n);
    td_metrics_write(daemon_.metrics, &b);
    tp_buf_putc(&b, '\0');
    yes = strstr(b.p, line) != NULL;
    tp_buf_free(&b);
    return yes;
}

START_TEST(a_job_that_kept_a_state_goes_on_after_a_stop)
{
    int64_t id = submit_and_wait();

    restart();
    wait_idle();
    ck_assert(shows(id, "\"state\": \"succeeded\""));
    ck_assert(shows(id, "\"result\": {\"seen\": 7}"));
    ck_assert_int_eq(rmdir(dir), 0); /* its folder went with it */
}
END_TEST

START_TEST(a_job_that_will_go_on_is_suspended_and_has_not_failed)
{
    submit_and_wait();
    restart();
    wait_idle();
    ck_assert(counted("suspended", 1));
    ck_assert(counted("failed", 0));
    ck_assert(counted("succeeded", 1));
}
END_TEST

START_TEST(a_kept_job_that_a_client_cancelled_does_not_go_on)
{
    bool running;
    int64_t id = submit_and_wait();

    ck_assert_int_eq(td_jobs_cancel(jobs, rd, id, &running, NULL), 0);
    restart();
    wait_idle();
    ck_assert(!shows(id, "succeeded"));
    ck_assert(counted("suspended", 0));
}
END_TEST

static int refuse_updates(struct st_db *db, void *refuse, struct tp_err *e)
{
    return st_db_exec(db,
                      refuse != NULL ? "CREATE TEMP TRIGGER no_update BEFORE UPDATE ON main.job "
                                       "BEGIN SELECT RAISE(ABORT, 'no'); END"
                                     : "DROP TRIGGER temp.no_update",
                      e);
}

START_TEST(a_kept_job_whose_cancellation_was_refused_goes_on)
{
    bool running = true;
    int64_t id = submit_and_wait();

    td_jobs_free(jobs);
    ck_assert_int_eq(td_jobs_new(&daemon_, dir, lasting, &jobs, NULL), 0); /* it waits: nothing runs yet */
    ck_assert_int_eq(st_write(sf_store, refuse_updates, &running, NULL), 0);
    ck_assert_int_eq(td_jobs_cancel(jobs, rd, id, &running, NULL), -TP_E_INTERNAL);
    ck_assert_int_eq(st_write(sf_store, refuse_updates, NULL, NULL), 0);
    restart();
    wait_idle();
    ck_assert(shows(id, "\"state\": \"succeeded\""));
}
END_TEST

START_TEST(a_folder_without_a_job_is_removed_at_start)
{
    char path[128];

    mkdir(dir, 0700);
    snprintf(path, sizeof path, "%s/77", dir);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    restart();
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(jobs_left_by_a_crash_without_a_state_are_interrupted_at_start)
{
    struct st_job row = {.kind = "retrain", .hardware = "a", .state = "running", .created = 1};

    row.params = strdup("{}");
    ck_assert_int_eq(st_job_insert(sf_store, &row, NULL), 0);
    restart();
    ck_assert(shows(row.id, "\"state\": \"failed\""));
    ck_assert(shows(row.id, "\"error\": \"interrupted: "));
    st_job_clear(&row);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon/jobs kept");
    TCase *t = tcase_create("kept");

    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_job_that_kept_a_state_goes_on_after_a_stop);
    tcase_add_test(t, a_job_that_will_go_on_is_suspended_and_has_not_failed);
    tcase_add_test(t, a_kept_job_that_a_client_cancelled_does_not_go_on);
    tcase_add_test(t, a_kept_job_whose_cancellation_was_refused_goes_on);
    tcase_add_test(t, a_folder_without_a_job_is_removed_at_start);
    tcase_add_test(t, jobs_left_by_a_crash_without_a_state_are_interrupted_at_start);
    suite_add_tcase(s, t);
    return sf_main(s);
}
