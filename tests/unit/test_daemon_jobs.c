/* The job runner: order, lanes, cancellation, ends, restarts, followers. Jobs here wait for the test, never for time.
 */
#include "daemon/jobs.h"

#include "daemon/log.h"
#include "tests/unit/store_fixture.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct td_daemon daemon_;
static struct td_jobs *jobs;
static struct st_reader *rd;

/* What the job on the runner's thread waits for, and what it has done. */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int started, tickets;

static void setup(void)
{
    struct tp_err e = {0};

    td_log_level(TD_ERROR);
    started = tickets = 0;
    sf_begin();
    sf_hardware("a", "cpu", "cpu");
    sf_hardware("b", "cpu", "cpu");
    daemon_ = (struct td_daemon){.store = sf_store};
    ck_assert_msg(td_jobs_new(&daemon_, NULL, NULL, &jobs, &e) == 0, "%s", e.detail);
    ck_assert_int_eq(td_jobs_start(jobs, NULL), 0);
    rd = sf_reader();
}

static void teardown(void)
{
    td_jobs_free(jobs);
    st_reader_free(rd);
    sf_end();
}

static void allow(int n)
{
    pthread_mutex_lock(&mu);
    tickets += n;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mu);
}

static void wait_started(int n)
{
    pthread_mutex_lock(&mu);
    while (started < n)
        pthread_cond_wait(&cond, &mu);
    pthread_mutex_unlock(&mu);
}

/* Tells that it runs, then waits for a ticket. */
static void take_ticket(void)
{
    pthread_mutex_lock(&mu);
    started++;
    pthread_cond_broadcast(&cond);
    while (tickets == 0)
        pthread_cond_wait(&cond, &mu);
    tickets--;
    pthread_mutex_unlock(&mu);
}

static int good(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e)
{
    (void)d;
    (void)params;
    (void)e;
    take_ticket();
    td_job_progress(j, &(struct td_job_state){.phase = "train", .progress = 0.5, .epoch = 3, .loss = 0.25});
    *result = strdup("{\"epoch\": 3, \"loss\": 0.25, \"metrics\": {\"x\": 1}}");
    return 0;
}

static int bad(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e)
{
    (void)d;
    (void)j;
    (void)params;
    (void)result;
    return tp_fail(e, TP_E_NOT_ENOUGH_DATA, "too \"few\"");
}

/* Reports what it was told, waits until somebody cancels it. */
static int patient(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e)
{
    (void)d;
    (void)params;
    (void)result;
    td_job_progress(j,
                    &(struct td_job_state){
                        .phase = "train", .progress = 0.25, .epoch = 2, .loss = NAN, .metrics = "{\"pairwise\": 0.5}"});
    pthread_mutex_lock(&mu);
    started++;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mu);
    while (!td_job_cancelled(j))
        sched_yield();
    return tp_fail(e, TP_E_CANCELLED, "cancelled");
}

static int priority, policy;

static int tells_priority(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e)
{
    priority = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
    policy = sched_getscheduler(0);
    return good(d, j, params, result, e);
}

static int64_t submit_as(const char *hardware, const char *lane, const char *params, td_job_run run, bool *existing)
{
    struct tp_err e = {0};
    int64_t id = 0;

    ck_assert_msg(td_jobs_submit(jobs, "retrain", hardware, lane, params, run, &id, existing, &e) == 0, "%s", e.detail);
    return id;
}

static int64_t submit(const char *params, td_job_run run)
{
    bool existing;
    int64_t id = submit_as("a", "cpu", params, run, &existing);

    ck_assert(!existing);
    return id;
}

/* The job as JSON text; lives until the next call. */
static const char *show(int64_t id)
{
    static char text[4096];
    struct tp_buf b = {0};

    ck_assert_int_eq(td_jobs_json(jobs, rd, id, &b, NULL), 0);
    ck_assert_uint_lt(b.n, sizeof text);
    memcpy(text, b.p, b.n);
    text[b.n] = '\0';
    tp_buf_free(&b);
    return text;
}

static bool has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fprintf(stderr, "no %s in %s\n", part, text);
    return strstr(text, part) != NULL;
}

/* The end of a job is in the store before the runner is idle again. */
static void wait_idle(void)
{
    while (td_jobs_active(jobs) > 0)
        sched_yield();
}

START_TEST(a_job_runs_and_its_result_is_stored)
{
    int64_t id = submit("{\"p\": 1}", good);

    allow(1);
    wait_idle();
    ck_assert(has(show(id), "\"state\": \"succeeded\", \"progress\": 1, \"phase\": null, \"epoch\": 3, \"loss\": 0.25, "
                            "\"metrics\": {\"x\": 1}"));
    ck_assert(has(show(id), "\"error\": null"));
    ck_assert(has(show(id), "\"params\": {\"p\": 1}"));
}
END_TEST

START_TEST(a_job_that_fails_tells_code_and_text)
{
    int64_t id = submit("{}", bad);

    wait_idle();
    ck_assert(has(show(id), "\"state\": \"failed\""));
    ck_assert(has(show(id), "\"error\": \"not-enough-data: too \\\"few\\\"\""));
    ck_assert(has(show(id), "\"result\": null"));
}
END_TEST

START_TEST(a_running_job_shows_its_progress)
{
    int64_t id = submit("{}", patient);
    bool running = false;

    wait_started(1);
    ck_assert(has(show(id), "\"state\": \"running\", \"progress\": 0.25, \"phase\": \"train\", \"epoch\": 2, \"loss\": "
                            "null, \"metrics\": {\"pairwise\": 0.5}"));
    ck_assert_int_eq(td_jobs_cancel(jobs, rd, id, &running, NULL), 0);
    ck_assert(running);
    wait_idle();
    ck_assert(has(show(id), "\"state\": \"cancelled\""));
}
END_TEST

START_TEST(the_same_job_asked_twice_while_queued_is_the_first)
{
    bool existing;
    int64_t first, second;

    submit("{}", good);
    wait_started(1); /* running: an equal one may queue */
    first = submit("{}", good);
    second = submit_as("a", "cpu", "{}", good, &existing);
    ck_assert(existing);
    ck_assert_int_eq(first, second);
    submit_as("a", "cpu", "{\"other\": 1}", good, &existing);
    ck_assert(!existing);
    submit_as("b", "cpu", "{}", good, &existing);
    ck_assert(!existing);
    allow(4);
    wait_idle();
}
END_TEST

START_TEST(jobs_of_one_lane_run_one_after_the_other)
{
    int64_t first = submit("{}", good), second = submit("{\"n\": 2}", good);

    wait_started(1);
    ck_assert(has(show(first), "running"));
    ck_assert(has(show(second), "queued"));
    allow(1);
    wait_started(2);
    ck_assert(has(show(first), "succeeded"));
    ck_assert(has(show(second), "running"));
    allow(1);
    wait_idle();
}
END_TEST

START_TEST(a_queued_job_is_cancelled_at_once)
{
    bool running = true;
    int64_t first = submit("{}", good), second = submit("{\"n\": 2}", good);

    wait_started(1);
    ck_assert_int_eq(td_jobs_cancel(jobs, rd, second, &running, NULL), 0);
    ck_assert(!running);
    ck_assert(has(show(second), "\"state\": \"cancelled\""));
    ck_assert_int_eq(td_jobs_active(jobs), 1);
    allow(1);
    wait_idle();
    ck_assert(has(show(first), "succeeded"));
    ck_assert_int_eq(started, 1);
}
END_TEST

START_TEST(a_finished_job_cannot_be_cancelled)
{
    bool running;
    struct tp_err e = {0};
    int64_t id = submit("{}", good);

    allow(1);
    wait_idle();
    ck_assert_int_eq(td_jobs_cancel(jobs, rd, id, &running, &e), -TP_E_CONFLICT);
    ck_assert(has(e.detail, "succeeded"));
    ck_assert_int_eq(td_jobs_cancel(jobs, rd, 999, &running, &e), -TP_E_UNKNOWN_JOB);
}
END_TEST

START_TEST(jobs_of_deleted_hardware_are_cancelled)
{
    bool existing;
    int64_t mine, queued, other;

    mine = submit("{}", patient);
    wait_started(1);
    queued = submit("{\"n\": 2}", good);
    other = submit_as("b", "cpu", "{}", good, &existing);
    td_jobs_cancel_hardware(jobs, "a");
    allow(1);
    wait_idle();
    ck_assert(has(show(mine), "cancelled"));
    ck_assert(has(show(queued), "cancelled"));
    ck_assert(has(show(other), "succeeded"));
}
END_TEST

START_TEST(a_purged_job_ends_without_a_row)
{
    struct tp_buf b = {0};
    int64_t id = submit("{}", patient);

    wait_started(1);
    ck_assert_int_eq(st_hardware_delete(sf_store, "a", true, NULL), 0);
    td_jobs_cancel_hardware(jobs, "a");
    wait_idle();
    ck_assert_int_eq(td_jobs_json(jobs, rd, id, &b, NULL), -TP_E_UNKNOWN_JOB);
    tp_buf_free(&b);
}
END_TEST

START_TEST(too_many_queued_jobs_are_refused)
{
    char params[32];
    bool existing;
    struct tp_err e = {0};
    int64_t id;

    submit("{}", patient);
    wait_started(1);
    for (int i = 0; i < TD_JOBS_QUEUED_MAX; i++) {
        snprintf(params, sizeof params, "{\"n\": %d}", i);
        submit(params, patient);
    }
    ck_assert_int_eq(td_jobs_submit(jobs, "retrain", "a", "cpu", "{\"one\": \"more\"}", patient, &id, &existing, &e),
                     -TP_E_OVERLOADED);
    ck_assert_int_eq(td_jobs_active(jobs), TD_JOBS_QUEUED_MAX + 1);
}
END_TEST

START_TEST(a_stopped_runner_leaves_its_jobs_interrupted)
{
    int64_t first = submit("{}", patient), second = submit("{\"n\": 2}", good);

    wait_started(1);
    td_jobs_free(jobs);
    ck_assert_int_eq(td_jobs_new(&daemon_, NULL, NULL, &jobs, NULL), 0);
    ck_assert_int_eq(td_jobs_start(jobs, NULL), 0);
    ck_assert(has(show(first), "\"state\": \"failed\""));
    ck_assert(has(show(first), "\"error\": \"interrupted: "));
    ck_assert(has(show(second), "\"state\": \"failed\""));
    ck_assert(has(show(second), "\"error\": \"interrupted: "));
}
END_TEST

START_TEST(a_lane_is_busy_while_a_job_of_it_waits_or_runs)
{
    ck_assert(!td_jobs_lane_busy(jobs, "cpu"));
    submit("{}", good);
    ck_assert(td_jobs_lane_busy(jobs, "cpu"));
    ck_assert(!td_jobs_lane_busy(jobs, "gpu"));
    allow(1);
    wait_idle();
    ck_assert(!td_jobs_lane_busy(jobs, "cpu"));
}
END_TEST

START_TEST(a_full_disk_does_not_keep_the_runner_from_starting)
{
    struct st_job row = {.kind = "retrain", .hardware = "a", .state = "running", .created = 1};
    struct rlimit old, tight;
    struct tp_err e = {0};
    bool existing;
    int64_t id;

    row.params = strdup("{}");
    ck_assert_int_eq(st_job_insert(sf_store, &row, NULL), 0);
    td_jobs_free(jobs);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = (struct rlimit){.rlim_cur = 1, .rlim_max = old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &tight), 0);
    ck_assert_msg(td_jobs_new(&daemon_, NULL, NULL, &jobs, &e) == 0, "%s", e.detail);
    ck_assert_int_eq(td_jobs_start(jobs, NULL), 0);
    ck_assert(has(show(row.id), "\"state\": \"failed\""));
    ck_assert(has(show(row.id), "\"error\": \"interrupted: "));
    ck_assert_int_eq(td_jobs_submit(jobs, "retrain", "a", "cpu", "{}", good, &id, &existing, &e), -TP_E_DISK_FULL);
    ck_assert_int_eq(td_jobs_active(jobs), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    id = submit("{}", good);
    allow(1);
    wait_idle();
    ck_assert(has(show(id), "\"state\": \"succeeded\""));
    ck_assert(has(show(row.id), "\"error\": \"interrupted: tcld stopped while it ran\"")); /* the store knows now */
    st_job_clear(&row);
}
END_TEST

/* ---- a store that says no ---- */

/* Holds up the writer, then makes updates of jobs fail from here on. As many rows as a group has: alone in its own. */
struct gate {
    struct st_op op; /* first: the writer hands it back */
    bool refuse;
    _Atomic bool open, passed;
};

static int wait_at_gate(struct st_store *s, struct st_op *op, struct tp_err *e)
{
    struct gate *g = (struct gate *)op;

    while (!g->open)
        sched_yield();
    return g->refuse ? st_db_exec(&s->db,
                                  "CREATE TEMP TRIGGER no_update BEFORE UPDATE ON main.job "
                                  "WHEN NEW.state = 'cancelled' BEGIN SELECT RAISE(ABORT, 'no'); END",
                                  e)
                     : 0;
}

static void pass_gate(struct st_op *op)
{
    ((struct gate *)op)->passed = true;
}

static void shut(struct gate *g, bool refuse)
{
    *g = (struct gate){.op = {.rows = ST_GROUP_ROWS, .run = wait_at_gate, .finish = pass_gate}, .refuse = refuse};
    ck_assert_int_eq(st_writer_push(sf_store, &g->op, true, NULL), 0);
}

static void wait_queued(size_t rows)
{
    while (st_ingest_queued(sf_store) < rows)
        sched_yield();
}

static int64_t to_cancel;

static void *cancels(void *rc)
{
    bool running;

    *(int *)rc = td_jobs_cancel(jobs, rd, to_cancel, &running, NULL);
    return NULL;
}

START_TEST(a_job_whose_cancellation_is_not_stored_still_runs)
{
    struct gate first, second;
    pthread_t thread;
    int rc = 0;

    submit("{}", good);
    to_cancel = submit("{\"n\": 2}", good);
    wait_started(1);
    shut(&first, false);
    allow(1);
    wait_queued(ST_GROUP_ROWS + 1); /* the end of the first job */
    shut(&second, true);
    ck_assert_int_eq(pthread_create(&thread, NULL, cancels, &rc), 0);
    wait_queued(2 * (ST_GROUP_ROWS + 1)); /* the cancellation of the second */
    first.open = true;
    while (td_jobs_active(jobs) > 1)
        sched_yield();
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); /* the runner looks for what is next, and finds nothing */
    second.open = true;
    pthread_join(thread, NULL);
    ck_assert(first.passed && second.passed);
    ck_assert_int_eq(rc, -TP_E_INTERNAL);
    allow(1);
    wait_idle();
    ck_assert(has(show(to_cancel), "\"state\": \"succeeded\""));
}
END_TEST

START_TEST(job_threads_stand_behind_requests)
{
    int mine = getpriority(PRIO_PROCESS, 0);

    submit("{}", tells_priority);
    allow(1);
    wait_idle();
    ck_assert_int_eq(priority, mine + 10 > 19 ? 19 : mine + 10);
    ck_assert_int_eq(policy, SCHED_BATCH);
}
END_TEST

/* ---- followers ---- */
static int woken;

static void wake(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&mu);
    woken++;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mu);
}

/* The text of the next event, as a sleeping stream would get it. */
static const char *next_event(struct td_follow *f)
{
    static char text[4096];
    struct tp_buf b = {0};
    int rc;

    while ((rc = td_follow_next(f, &b)) == 2) {
        int before;

        pthread_mutex_lock(&mu);
        for (before = woken; woken == before;)
            pthread_cond_wait(&cond, &mu);
        pthread_mutex_unlock(&mu);
    }
    ck_assert_int_eq(rc, 1);
    ck_assert_uint_lt(b.n, sizeof text);
    memcpy(text, b.p, b.n);
    text[b.n] = '\0';
    tp_buf_free(&b);
    return text;
}

START_TEST(a_follower_is_told_progress_and_the_end)
{
    struct td_follow *f = NULL;
    struct tp_buf b = {0};
    const char *text;
    int64_t id = submit("{}", patient);
    bool running;

    wait_started(1);
    ck_assert_int_eq(td_follow_new(jobs, id, -1, &f, NULL), 0);
    td_follow_start(f, wake, NULL);
    text = next_event(f);
    ck_assert_int_eq(strncmp(text, "event: progress\nid: ", 20), 0);
    ck_assert(has(text, "\"progress\": 0.25"));
    ck_assert_str_eq(text + strlen(text) - 3, "}\n\n");
    ck_assert_int_eq(td_follow_next(f, &b), 2);
    ck_assert_int_eq(td_jobs_cancel(jobs, rd, id, &running, NULL), 0);
    text = next_event(f);
    ck_assert_int_eq(strncmp(text, "event: end\nid: ", 15), 0);
    ck_assert(has(text, "\"state\": \"cancelled\""));
    ck_assert_int_eq(td_follow_next(f, &b), 0);
    td_follow_close(f);
    wait_idle();
}
END_TEST

START_TEST(a_follower_that_comes_back_is_not_told_twice)
{
    struct td_follow *f = NULL;
    struct tp_buf b = {0};
    int64_t id = submit("{}", patient);
    long long last = 0;
    bool running;

    wait_started(1);
    ck_assert_int_eq(td_follow_new(jobs, id, -1, &f, NULL), 0);
    td_follow_start(f, wake, NULL);
    ck_assert_int_eq(sscanf(next_event(f), "event: progress\nid: %lld", &last), 1);
    td_follow_close(f);
    ck_assert_int_eq(td_follow_new(jobs, id, last, &f, NULL), 0);
    td_follow_start(f, wake, NULL);
    ck_assert_int_eq(td_follow_next(f, &b), 2);
    td_follow_close(f);
    /* An id from elsewhere does not make a follower deaf. */
    ck_assert_int_eq(td_follow_new(jobs, id, last + 1000, &f, NULL), 0);
    td_follow_start(f, wake, NULL);
    ck_assert_int_eq(td_follow_next(f, &b), 1);
    td_follow_close(f);
    tp_buf_free(&b);
    ck_assert_int_eq(td_jobs_cancel(jobs, rd, id, &running, NULL), 0);
    wait_idle();
}
END_TEST

START_TEST(a_stream_may_close_before_it_starts)
{
    struct td_follow *f = NULL;
    int64_t id = submit("{}", good);

    wait_started(1);
    ck_assert_int_eq(td_follow_new(jobs, id, -1, &f, NULL), 0);
    td_follow_close(f);
    td_follow_start(f, wake, NULL);
    allow(1);
    wait_idle();
}
END_TEST

START_TEST(a_finished_job_is_not_followed_but_told)
{
    struct td_follow *f = NULL;
    struct tp_buf b = {0};
    struct st_job row = {0};
    int64_t id = submit("{}", good);

    allow(1);
    wait_idle();
    ck_assert_int_eq(td_follow_new(jobs, id, -1, &f, NULL), -TP_E_UNKNOWN_JOB);
    ck_assert_int_eq(st_job_get(rd, id, &row, NULL), 0);
    td_follow_row(jobs, &row, &b);
    tp_buf_putc(&b, '\0');
    ck_assert_int_eq(strncmp(b.p, "event: end\ndata: {", 18), 0);
    ck_assert(has(b.p, "\"state\": \"succeeded\""));
    tp_buf_free(&b);
    st_job_clear(&row);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon/jobs");
    TCase *t = tcase_create("jobs");

    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_job_runs_and_its_result_is_stored);
    tcase_add_test(t, a_job_that_fails_tells_code_and_text);
    tcase_add_test(t, a_running_job_shows_its_progress);
    tcase_add_test(t, the_same_job_asked_twice_while_queued_is_the_first);
    tcase_add_test(t, jobs_of_one_lane_run_one_after_the_other);
    tcase_add_test(t, a_queued_job_is_cancelled_at_once);
    tcase_add_test(t, a_finished_job_cannot_be_cancelled);
    tcase_add_test(t, jobs_of_deleted_hardware_are_cancelled);
    tcase_add_test(t, a_purged_job_ends_without_a_row);
    tcase_add_test(t, too_many_queued_jobs_are_refused);
    tcase_add_test(t, a_stopped_runner_leaves_its_jobs_interrupted);
    tcase_add_test(t, a_full_disk_does_not_keep_the_runner_from_starting);
    tcase_add_test(t, a_lane_is_busy_while_a_job_of_it_waits_or_runs);
    tcase_add_test(t, a_job_whose_cancellation_is_not_stored_still_runs);
    tcase_add_test(t, job_threads_stand_behind_requests);
    tcase_add_test(t, a_follower_is_told_progress_and_the_end);
    tcase_add_test(t, a_follower_that_comes_back_is_not_told_twice);
    tcase_add_test(t, a_stream_may_close_before_it_starts);
    tcase_add_test(t, a_finished_job_is_not_followed_but_told);
    suite_add_tcase(s, t);
    return sf_main(s);
}
