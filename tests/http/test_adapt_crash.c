/* kill -9 at random moments of an adapt job: at the next start it goes on, or has failed cleanly; the models in use are
 * one whole state or another, and files and rows agree.
 *
 * Daemons of the test's own in one folder, one after another. The moments are drawn by a fixed seed over the time that
 * the job takes. */
#include "tests/http/suite.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TASKS = 10 };

static void put(const char *hw)
{
    bb_status(bb_json("PUT", "{\"family\": \"fam\", \"target\": \"llvm\"}", "/v1/hardware/%s", hw), 201);
}

/* Also of models that are rejected, however many. */
static const char *const keep_all[] = {"--rejected-models", "1000", NULL};

/* Every row has its file, which loads, and every file its row; no temporary files, no folders of jobs that are over. */
static void check_models(const char *dir, const char *const *hardware, bool idle)
{
    char path[4096];
    size_t rows = 0, files = 0;
    snprintf(path, sizeof path, "/v1/families/fam/models");
    for (int i = -1; i < 0 || hardware[i]; i++) {
        struct bb_reply *r = i < 0 ? bb_get("%s", path) : bb_get("/v1/hardware/%s/models", hardware[i]);
        bb_status(r, 200);
        const json_t *items = json_object_get(r->json, "items"), *m;
        size_t k;
        json_array_foreach(items, k, m)
        {
            long long id = tc_int(m, "/id", 0);
            bb_status(bb_get("/v1/models/%lld/weights", id), 200); /* which checks the SHA-256 of the row */
            rows++;
        }
    }
    snprintf(path, sizeof path, "%s/models", dir);
    DIR *d = opendir(path);
    ck_assert_ptr_nonnull(d);
    for (struct dirent *x; (x = readdir(d));)
        if (x->d_name[0] != '.') {
            ck_assert_msg(!strstr(x->d_name, ".tmp"), "%s was left behind", x->d_name);
            files++;
        }
    closedir(d);
    if (idle)
        ck_assert_uint_eq(files, rows);
    else
        ck_assert_uint_ge(files, rows); /* a file comes before its row */
}

static size_t folders(const char *dir)
{
    char path[4096];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/jobs", dir);
    DIR *d = opendir(path);
    for (struct dirent *x; d && (x = readdir(d));)
        n += x->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static long long active(const char *hw)
{
    return tc_int(bb_get("/v1/hardware/%s", hw)->json, "/active_model", 0);
}

/* The scores of a fixed body: the state of the model that answers, in short. */
static char *scores(const char *hw, const char *query)
{
    struct bb_text t = bb_demo(TASKS, 1);
    struct bb_reply *r = bb_lines(t.p, t.n, "/v1/hardware/%s/predict%s", hw, query);
    bb_status(r, 200);
    return json_dumps(json_object_get(r->json, "scores"), 0);
}

static unsigned seed = 4711;

static double draw(void)
{
    seed = seed * 1103515245 + 12345;
    return (double)(seed >> 16 & 0x7fff) / 0x7fff;
}

START_TEST(an_adapt_job_survives_kill_9_at_any_moment)
{
    static const char *const hardware[] = {"old", "new", NULL};
    const int kills = bb_slow() ? 4 : 20;
    char *dir = bb_path("adapt");
    struct tc_daemon *d = bb_start(dir, keep_all);
    int resumed = 0, failed = 0, whole = 0;
    double took = 0;

    put("old");
    put("new");
    bb_post_demo("old", 0, TASKS);
    bb_post_demo("new", 0, TASKS);
    bb_train("old", "{\"mode\": \"adapt\", \"epochs\": 1}");
    double began = tc_now();
    bb_train("new", "{\"mode\": \"adapt\", \"epochs\": 1, \"seed\": 1000}");
    took = tc_now() - began;

    for (int i = 0; i < kills; i++) {
        long long ac = active("new"), kb = tc_int(bb_get("/v1/hardware/new")->json, "/kb_model", 0);
        char *before = scores("new", ""), *kb_before = scores("old", "?model=kb");
        int64_t id = bb_retrain("new", bb_printf("{\"mode\": \"adapt\", \"epochs\": 1, \"seed\": %d}", i).p);
        tc_sleep(draw() * 1.1 * took);
        tc_daemon_signal(d, SIGKILL);
        ck_assert_int_eq(tc_daemon_wait(d, 10), 128 + SIGKILL);
        tc_daemon_free(d);

        d = bb_start(dir, keep_all);
        check_models(dir, hardware, false);
        json_t *job = bb_wait(id);
        const char *state = tc_str(job, "/state"), *log = bb_log(d);
        if (strstr(log, "job-resumed")) {
            ck_assert_msg(!strcmp(state, "succeeded"), "job %d: %s", i, json_dumps(job, 0));
            resumed++;
        } else if (!strcmp(state, "failed")) { /* before it began */
            ck_assert_ptr_nonnull(strstr(tc_str(job, "/error"), "interrupted"));
            ck_assert_int_eq(active("new"), ac);
            failed++;
        } else {
            ck_assert_str_eq(state, "succeeded");
            whole++;
        }
        /* what the job says is what answers */
        long long now_ac = active("new"), now_kb = tc_int(bb_get("/v1/hardware/new")->json, "/kb_model", 0);
        if (!strcmp(state, "succeeded")) {
            const char *decision = tc_str(job, "/result/decision"), *kb_decision = tc_str(job, "/result/kb/decision");
            ck_assert_int_eq(now_ac, !strcmp(decision, "activated") ? tc_int(job, "/result/model", 0) : ac);
            ck_assert_int_eq(now_kb, !strcmp(kb_decision, "accepted") ? tc_int(job, "/result/kb/model", 0) : kb);
        }
        char *after = scores("new", ""), *kb_after = scores("old", "?model=kb");
        if (now_ac == ac)
            ck_assert_str_eq(after, before);
        if (now_kb == kb)
            ck_assert_str_eq(kb_after, kb_before);
        free(before);
        free(after);
        free(kb_before);
        free(kb_after);
        check_models(dir, hardware, true);
        ck_assert_uint_eq(folders(dir), 0);
    }
    printf("%d kills within %.1f s: %d jobs went on, %d had failed, %d were over; files and rows agree\n", kills, took,
           resumed, failed, whole);
    ck_assert_int_gt(resumed, 0);
    bb_stop(d);
}
END_TEST

START_TEST(a_job_that_is_killed_again_and_again_in_one_phase_fails)
{
    char *dir = bb_path("again");
    struct tc_daemon *d = bb_start(dir, keep_all);
    put("new");
    bb_post_demo("new", 0, TASKS);
    int64_t id = bb_retrain("new", "{\"mode\": \"adapt\", \"epochs\": 1000}");
    for (int i = 0; i < 8; i++) {
        for (double until = tc_now() + 60; tc_now() < until; tc_sleep(0.02)) {
            const json_t *job = bb_get("/v1/jobs/%lld", (long long)id)->json;
            const char *phase = tc_str(job, "/phase");
            if (strcmp(tc_str(job, "/state"), "failed") == 0 || (phase && !strcmp(phase, "learn")))
                break;
        }
        if (strcmp(tc_str(bb_get("/v1/jobs/%lld", (long long)id)->json, "/state"), "failed") == 0)
            break;
        tc_daemon_signal(d, SIGKILL);
        tc_daemon_wait(d, 10);
        tc_daemon_free(d);
        d = bb_start(dir, keep_all);
    }
    const json_t *job = bb_get("/v1/jobs/%lld", (long long)id)->json;
    ck_assert_str_eq(tc_str(job, "/state"), "failed");
    ck_assert_ptr_nonnull(
        strstr(tc_str(job, "/error"), "interrupted: tcld stopped 4 times while the job was in phase"));
    ck_assert_uint_eq(folders(dir), 0);
    bb_stop(d);
}
END_TEST

START_TEST(a_job_goes_on_after_an_orderly_stop)
{
    char *dir = bb_path("stop");
    struct tc_daemon *d = bb_start(dir, keep_all);
    put("new");
    bb_post_demo("new", 0, TASKS);
    int64_t id = bb_retrain("new", "{\"mode\": \"adapt\", \"epochs\": 20}");
    for (double until = tc_now() + 60; tc_now() < until; tc_sleep(0.02)) {
        const char *phase = tc_str(bb_get("/v1/jobs/%lld", (long long)id)->json, "/phase");
        if (phase && !strcmp(phase, "learn"))
            break;
    }
    ck_assert_int_eq(tc_daemon_stop(d, bb_slow() ? 120 : 40), 0);
    ck_assert_ptr_nonnull(strstr(bb_log(d), "event=job-suspended"));
    ck_assert_ptr_null(strstr(bb_log(d), "event=job-finished")); /* it has not failed */
    tc_daemon_free(d);
    ck_assert_uint_eq(folders(dir), 1);
    d = bb_start(dir, keep_all);
    ck_assert_str_eq(tc_str(bb_wait(id), "/state"), "succeeded");
    ck_assert_uint_eq(folders(dir), 0);
    bb_stop(d);
}
END_TEST

/* While it is stopped more is measured, of a source and of hardware that was none. */
START_TEST(a_pretraining_goes_on_with_the_sources_and_the_measurements_it_began_with)
{
    char *dir = bb_path("pretrain");
    struct tc_daemon *d = bb_start(dir, keep_all);
    put("first");
    put("more");
    put("other");
    bb_post_demo("more", 0, TASKS);
    bb_post_demo("other", 0, TASKS);
    long long measured = tc_int(bb_get("/v1/hardware/more")->json, "/counts/measurements", 0) +
                         tc_int(bb_get("/v1/hardware/other")->json, "/counts/measurements", 0);
    double began = tc_now();
    int64_t id = bb_retrain("more", "{\"mode\": \"pretrain\", \"epochs\": 1000, \"max_seconds\": 20}");
    char *learned = bb_printf("%s/jobs/%lld/kb-1.safetensors", dir, (long long)id).p;
    for (double until = tc_now() + 60; tc_now() < until && access(learned, R_OK) != 0; tc_sleep(0.02))
        continue;
    bb_post_demo("first", 0, TASKS);
    bb_post_demo("more", TASKS, bb_demo_count() - TASKS);
    tc_daemon_signal(d, SIGKILL);
    tc_daemon_wait(d, 10);
    tc_daemon_free(d);

    d = bb_start(dir, keep_all);
    json_t *job = bb_wait(id);
    ck_assert_msg(!strcmp(tc_str(job, "/state"), "succeeded"), "%s", json_dumps(job, 0));
    ck_assert_ptr_nonnull(strstr(bb_log(d), "job-resumed"));
    ck_assert_uint_eq(json_array_size(tc_at(job, "/result/sources")), 2);
    ck_assert_str_eq(tc_str(job, "/result/sources/0/hardware"), "more");
    ck_assert_str_eq(tc_str(job, "/result/sources/1/hardware"), "other");
    ck_assert_int_eq(tc_int(job, "/result/watermark", 0), measured);
    ck_assert_int_eq(tc_int(job, "/result/sources/0/tasks", 0), tc_int(job, "/result/sources/1/tasks", 0));
    if (!bb_slow())
        ck_assert_double_lt(tc_now() - began, 60);
    bb_stop(d);
}
END_TEST

START_TEST(a_job_that_was_cancelled_does_not_come_back)
{
    char *dir = bb_path("cancel");
    struct tc_daemon *d = bb_start(dir, keep_all);
    put("new");
    bb_post_demo("new", 0, TASKS);
    int64_t id = bb_retrain("new", "{\"mode\": \"adapt\", \"epochs\": 1000}");
    for (double until = tc_now() + 60; tc_now() < until; tc_sleep(0.02))
        if (!strcmp(tc_str(bb_get("/v1/jobs/%lld", (long long)id)->json, "/state"), "running"))
            break;
    bb_status(bb_delete("/v1/jobs/%lld", (long long)id), 202);
    tc_daemon_signal(d, SIGKILL); /* before or after it has ended */
    tc_daemon_wait(d, 10);
    tc_daemon_free(d);
    d = bb_start(dir, keep_all);
    const char *state = tc_str(bb_get("/v1/jobs/%lld", (long long)id)->json, "/state");
    ck_assert_msg(!strcmp(state, "failed") || !strcmp(state, "cancelled"), "%s", state);
    ck_assert_uint_eq(folders(dir), 0);
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/adapt crash");
    TCase *tc = bb_case_own(s, "kill -9", 600);
    tcase_add_test(tc, an_adapt_job_survives_kill_9_at_any_moment);
    tcase_add_test(tc, a_job_that_is_killed_again_and_again_in_one_phase_fails);
    tcase_add_test(tc, a_job_goes_on_after_an_orderly_stop);
    tcase_add_test(tc, a_pretraining_goes_on_with_the_sources_and_the_measurements_it_began_with);
    tcase_add_test(tc, a_job_that_was_cancelled_does_not_come_back);
    return bb_main(s);
}
