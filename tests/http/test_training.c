/* Retraining: what is asked, how a job lives and ends, its events, and what comes of it.
 *
 * All tests of a case share its daemon and each uses hardware names of its own, so that they do not meet; where a case
 * needs a model, its first test trains one. No clock decides but as a generous upper bound. */
#include "tests/http/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUICK "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 1}"
/* long enough to be caught in the act, and never left to finish */
#define ENDLESS "{\"mode\": \"finetune\", \"epochs\": 1000, \"seed\": %d}"

static const char *state_of(const json_t *job)
{
    const char *s = tc_str(job, "/state");
    return s ? s : "(none)";
}

static struct bb_reply *job(int64_t id)
{
    struct bb_reply *r = bb_get("/v1/jobs/%lld", (long long)id);
    bb_status(r, 200);
    return r;
}

/* Poll until the job is in `state`. */
static struct bb_reply *until_state(int64_t id, const char *state)
{
    for (double until = tc_now() + (bb_slow() ? 120 : 30); tc_now() < until; tc_sleep(0.01)) {
        struct bb_reply *r = job(id);
        if (!strcmp(state_of(r->json), state))
            return r;
    }
    ck_abort_msg("job %lld is not %s: %s", (long long)id, state, job(id)->body);
    return NULL;
}

static int64_t endless(const char *hw, int seed)
{
    return bb_retrain(hw, bb_printf(ENDLESS, seed).p);
}

static void cancel(int64_t id)
{
    struct bb_reply *r = bb_delete("/v1/jobs/%lld", (long long)id);
    ck_assert_msg(r->status == 200 || r->status == 202, "%ld %s", r->status, r->body);
    until_state(id, "cancelled");
}

static bool is_time(const char *s)
{
    int y, mo, d, h, mi, end = 0;
    double sec;
    return s && sscanf(s, "%4d-%2d-%2dT%2d:%2d:%lfZ%n", &y, &mo, &d, &h, &mi, &sec, &end) == 6 && s[end] == '\0';
}

/* ---- asking ---- */

START_TEST(too_little_data_is_409_with_counts)
{
    bb_put_hardware("little");
    bb_problem(bb_json("POST", QUICK, "/v1/hardware/little/retrain"), 409, "not-enough-data");
    struct bb_text t = bb_records(0, 31);
    bb_counts(bb_lines(t.p, t.n, "/v1/hardware/little/measurements"), 31, 0, 0);
    struct tp_buf b = {0};
    for (int i = 100; i < 120; i++)
        tp_buf_printf(&b, "{\"i\": [" BB_TASK ", %s], \"r\": [[1e+10], 6, 20, 1700000001], \"v\": \"v0.6\"}\n",
                      bb_state(i).p);
    bb_counts(bb_lines(b.p, b.n, "/v1/hardware/little/measurements"), 20, 0, 0); /* failures are no labels */
    tp_buf_free(&b);
    struct bb_reply *r = bb_json("POST", QUICK, "/v1/hardware/little/retrain");
    bb_problem(r, 409, "not-enough-data");
    ck_assert_msg(strstr(r->body, "31") && strstr(r->body, "32"), "the counts are not told: %s", r->body);
    t = bb_records(31, 1);
    bb_counts(bb_lines(t.p, t.n, "/v1/hardware/little/measurements"), 1, 0, 0);
    bb_train("little", QUICK);
}
END_TEST

START_TEST(unusable_requests_are_refused)
{
    static const char *const bodies[] = {"{\"epochz\": 3}",
                                         "{\"mode\": \"magic\"}",
                                         "{\"mode\": 3}",
                                         "{\"epochs\": 0}",
                                         "{\"epochs\": -3}",
                                         "{\"epochs\": 1.5}",
                                         "{\"epochs\": \"ten\"}",
                                         "{\"epochs\": 99999999999}",
                                         "{\"max_seconds\": -1}",
                                         "{\"seed\": \"x\"}",
                                         "{\"seed\": -1}",
                                         "{\"activate\": \"yes\"}",
                                         "{\"activate\": true}",
                                         "{\"sources\": \"a\"}",
                                         "{\"per_task\": -1}",
                                         "[]",
                                         "3",
                                         "{",
                                         "{} {}"};
    bb_put_hardware("asked");
    struct bb_text t = bb_records(0, 64);
    bb_counts(bb_lines(t.p, t.n, "/v1/hardware/asked/measurements"), 64, 0, 0);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct bb_reply *r = bb_json("POST", bodies[i], "/v1/hardware/asked/retrain");
        ck_assert_msg(r->status == 400 || r->status == 422, "%s: %ld %s", bodies[i], r->status, r->body);
        bb_problem(r, r->status, NULL);
    }
    ck_assert_uint_eq(json_array_size(tc_at(bb_get("/v1/jobs?hardware=asked")->json, "/items")), 0);
}
END_TEST

START_TEST(every_option_is_optional)
{
    bb_put_hardware("plain");
    struct bb_text t = bb_records(0, 64);
    bb_counts(bb_lines(t.p, t.n, "/v1/hardware/plain/measurements"), 64, 0, 0);
    struct bb_reply *r = bb_call(&(struct tc_request){.method = "POST", .path = "/v1/hardware/plain/retrain"});
    bb_status(r, 202);
    cancel(tc_int(r->json, "/id", 0));
    r = bb_json("POST", "{}", "/v1/hardware/plain/retrain");
    bb_status(r, 202);
    cancel(tc_int(r->json, "/id", 0));
}
END_TEST

/* ---- the life of a job ---- */

START_TEST(job_goes_from_queued_to_succeeded)
{
    bb_put_hardware("lived");
    bb_post_demo("lived", 8, 4);
    struct bb_reply *r =
        bb_json("POST", "{\"mode\": \"finetune\", \"epochs\": 3, \"seed\": 5}", "/v1/hardware/lived/retrain");
    bb_status(r, 202);
    int64_t id = tc_int(r->json, "/id", 0);
    ck_assert_str_eq(bb_header(r, "Location"), bb_printf("/v1/jobs/%lld", (long long)id).p);
    ck_assert_str_eq(tc_str(r->json, "/kind"), "retrain");
    ck_assert_str_eq(tc_str(r->json, "/hardware"), "lived");
    ck_assert_msg(is_time(tc_str(r->json, "/created")), "%s", r->body);
    double progress = 0;
    int64_t epoch = 0;
    for (;;) {
        r = job(id);
        const char *s = state_of(r->json);
        ck_assert_msg(!strcmp(s, "queued") || !strcmp(s, "running") || !strcmp(s, "succeeded"), "%s", r->body);
        ck_assert_msg(tc_num(r->json, "/progress") >= progress && tc_num(r->json, "/progress") <= 1,
                      "progress went back: %s", r->body);
        progress = tc_num(r->json, "/progress");
        int64_t e = tc_int(r->json, "/epoch", epoch);
        ck_assert_msg(e >= epoch && e <= 3, "%s", r->body);
        epoch = e;
        if (!strcmp(s, "succeeded"))
            break;
        tc_sleep(0.005);
    }
    ck_assert_double_eq(progress, 1);
    ck_assert_int_eq(epoch, 3);
    ck_assert_msg(isfinite(tc_num(r->json, "/loss")), "%s", r->body);
    ck_assert_msg(json_is_object(tc_at(r->json, "/metrics")), "%s", r->body);
    ck_assert_msg(json_is_null(tc_at(r->json, "/error")), "%s", r->body);
    const char *created = tc_str(r->json, "/created"), *started = tc_str(r->json, "/started"),
               *finished = tc_str(r->json, "/finished");
    ck_assert_msg(is_time(created) && is_time(started) && is_time(finished), "%s", r->body);
    ck_assert_msg(strcmp(created, started) <= 0 && strcmp(started, finished) <= 0, "%s", r->body);
}
END_TEST

START_TEST(first_model_becomes_active)
{
    bb_put_hardware("first");
    bb_post_demo("first", 9, 2);
    bb_train("first", QUICK);
    struct bb_reply *models = bb_get("/v1/hardware/first/models");
    ck_assert_uint_eq(json_array_size(tc_at(models->json, "/items")), 1);
    ck_assert_msg(json_is_true(tc_at(models->json, "/items/0/active")), "%s", models->body);
    int64_t id = tc_int(models->json, "/items/0/id", 0);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/first")->json, "/active_model", 0), id);
    struct bb_text t = bb_unmeasured(1);
    ck_assert_int_eq(tc_int(bb_lines(t.p, t.n, "/v1/hardware/first/predict")->json, "/model/id", 0), id);
}
END_TEST

START_TEST(activate_never_leaves_the_model_aside)
{
    bb_put_hardware("never");
    bb_post_demo("never", 9, 2);
    bb_train("never", "{\"mode\": \"finetune\", \"epochs\": 1, \"activate\": \"never\"}");
    struct bb_reply *models = bb_get("/v1/hardware/never/models");
    ck_assert_uint_eq(json_array_size(tc_at(models->json, "/items")), 1);
    ck_assert_msg(json_is_false(tc_at(models->json, "/items/0/active")), "%s", models->body);
    struct bb_text t = bb_unmeasured(1);
    bb_problem(bb_lines(t.p, t.n, "/v1/hardware/never/predict"), 409, "no-model");
}
END_TEST

/* The decision of the newest model's job, checked against what is active. */
static bool challenge(const char *hw, int seed)
{
    int64_t champion = tc_int(bb_get("/v1/hardware/%s", hw)->json, "/active_model", 0);
    json_t *end = bb_train(hw, bb_printf("{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": %d}", seed).p);
    const char *decision = tc_str(end, "/result/decision");
    ck_assert_msg(decision && (!strcmp(decision, "kept-champion") || !strcmp(decision, "activated")), "decision: %s",
                  decision ? decision : "(none)");
    bool kept = !strcmp(decision, "kept-champion");
    int64_t active = tc_int(bb_get("/v1/hardware/%s", hw)->json, "/active_model", 0);
    struct bb_reply *models = bb_get("/v1/hardware/%s/models", hw);
    int64_t challenger = tc_int(models->json, "/items/0/id", 0); /* a loser stays in the history, with its figures */
    ck_assert_int_ne(challenger, champion);
    ck_assert_int_eq(active, kept ? champion : challenger);
    ck_assert_msg(json_is_true(tc_at(models->json, "/items/0/active")) == !kept, "%s", models->body);
    ck_assert_msg(tc_at(end, "/result/challenger") && tc_at(end, "/result/champion"),
                  "the figures of both are not told");
    return kept;
}

START_TEST(a_worse_challenger_does_not_replace_the_champion_and_its_weights_go)
{
    /* one short epoch from a well-trained start loses more often than it wins; the seeds make it repeatable */
    enum { TRIES = 8 };
    bool kept = false;
    struct tc_daemon *d = bb_start(bb_path("champ"), (const char *[]){"--rejected-models", "0", NULL});
    bb_put_hardware("champ");
    bb_post_demo("champ", 0, 8);
    bb_train("champ", "{\"mode\": \"finetune\", \"epochs\": 12, \"seed\": 1}");
    for (int seed = 2; seed < 2 + TRIES && !kept; seed++)
        kept = challenge("champ", seed);
    ck_assert_msg(kept, "%d challengers of one epoch all won", TRIES);

    struct bb_reply *r = bb_get("/v1/hardware/champ/models");
    long long lost = tc_int(r->json, "/items/0/id", 0), won = tc_int(r->json, "/items/1/id", 0);
    ck_assert_str_eq(tc_str(r->json, "/items/0/state"), "rejected");
    bb_status(bb_get("/v1/models/%lld/weights", won), 200);
    r = bb_get("/v1/models/%lld/weights", lost);
    bb_problem(r, 404, "unknown-model");
    ck_assert_ptr_nonnull(strstr(r->body, "rejected_models"));
    bb_problem(bb_json("POST", bb_printf("{\"model\": %lld}", lost).p, "/v1/hardware/champ/activate"), 404,
               "unknown-model");
    bb_stop(d);
}
END_TEST

/* What is better takes the place of what it began with, until no epoch betters it: then it stays what it is. */
START_TEST(a_model_that_no_epoch_betters_stays)
{
    bb_put_hardware("steady");
    bb_post_demo("steady", 0, 6);
    json_t *job = bb_train("steady", "{\"mode\": \"finetune\", \"epochs\": 20, \"seed\": 1}");
    int64_t first = tc_int(job, "/result/model", 0);
    for (int seed = 2; seed < 22; seed++) {
        job = bb_train("steady", bb_printf("{\"mode\": \"finetune\", \"max_seconds\": 0.001, \"seed\": %d}", seed).p);
        if (strstr(tc_str(job, "/result/reason"), "No epoch ranks")) {
            ck_assert_str_eq(tc_str(job, "/result/decision"), "kept-champion");
            ck_assert_int_ne(tc_int(bb_get("/v1/hardware/steady")->json, "/active_model", 0),
                             tc_int(job, "/result/model", 0));
            return;
        }
    }
    ck_abort_msg("twenty epochs have each made model %lld better", (long long)first);
}
END_TEST

START_TEST(one_task_is_split_by_record_and_marked)
{
    bb_put_hardware("single");
    bb_post_demo("single", 9, 1);
    json_t *end = bb_train("single", QUICK);
    char *text = json_dumps(end, 0);
    ck_assert_msg(strstr(text, "record") != NULL, "the hold-out is not marked: %s", text);
    free(text);
}
END_TEST

START_TEST(same_seed_same_model)
{
    static const char body[] = "{\"mode\": \"finetune\", \"epochs\": 2, \"seed\": 7}";
    struct bb_text t = bb_demo(12, 1);
    struct bb_reply *r[2];
    for (int i = 0; i < 2; i++) {
        char *hw = bb_printf("seed-%d", i).p;
        bb_put_hardware(hw);
        bb_post_demo(hw, 9, 3);
        bb_train(hw, body);
        r[i] = bb_lines(t.p, t.n, "/v1/hardware/%s/predict", hw);
        bb_status(r[i], 200);
    }
    ck_assert_str_eq(strstr(r[0]->body, "\"scores\""), strstr(r[1]->body, "\"scores\""));
}
END_TEST

START_TEST(max_seconds_ends_the_training)
{
    bb_put_hardware("timed");
    bb_post_demo("timed", 0, 4);
    double began = tc_now();
    bb_train("timed", "{\"mode\": \"finetune\", \"epochs\": 1000, \"max_seconds\": 1}");
    ck_assert_double_lt(tc_now() - began, bb_slow() ? 60 : 15);
}
END_TEST

/* ---- cancelling, queueing ---- */

START_TEST(running_job_is_cancelled_within_a_batch)
{
    bb_put_hardware("stopped");
    bb_post_demo("stopped", 0, 4);
    int64_t id = endless("stopped", 1);
    until_state(id, "running");
    struct bb_reply *r = bb_delete("/v1/jobs/%lld", (long long)id);
    bb_status(r, 202);
    double began = tc_now();
    r = until_state(id, "cancelled");
    ck_assert_double_lt(tc_now() - began, bb_slow() ? 30 : 5);
    ck_assert_msg(is_time(tc_str(r->json, "/finished")), "%s", r->body);
    bb_problem(bb_delete("/v1/jobs/%lld", (long long)id), 409, "conflict");
    ck_assert_uint_eq(json_array_size(tc_at(bb_get("/v1/hardware/stopped/models")->json, "/items")), 0);
}
END_TEST

START_TEST(cancelling_touches_no_model_in_use)
{
    bb_put_hardware("untouched");
    bb_post_demo("untouched", 9, 2);
    bb_train("untouched", QUICK);
    struct bb_text t = bb_demo(9, 1);
    struct bb_reply *before = bb_lines(t.p, t.n, "/v1/hardware/untouched/predict");
    int64_t id = endless("untouched", 2);
    until_state(id, "running");
    cancel(id);
    ck_assert_str_eq(bb_lines(t.p, t.n, "/v1/hardware/untouched/predict")->body, before->body);
}
END_TEST

START_TEST(unknown_jobs_are_404)
{
    bb_problem(bb_get("/v1/jobs/999999"), 404, "unknown-job");
    bb_problem(bb_delete("/v1/jobs/999999"), 404, "unknown-job");
    bb_problem(bb_get("/v1/jobs/999999/events"), 404, "unknown-job");
}
END_TEST

START_TEST(one_training_per_family_and_equal_ones_are_one)
{
    static const char *const names[] = {"lane-a", "lane-b"};
    for (int i = 0; i < 2; i++) {
        bb_status(bb_json("PUT", "{\"target\": \"llvm\", \"family\": \"lane\"}", "/v1/hardware/%s", names[i]), 201);
        bb_post_demo(names[i], 0, 3);
    }
    int64_t running = endless("lane-a", 1);
    until_state(running, "running");
    struct bb_reply *r = bb_json("POST", QUICK, "/v1/hardware/lane-b/retrain");
    bb_status(r, 202);
    int64_t queued = tc_int(r->json, "/id", 0);
    ck_assert_str_eq(state_of(job(queued)->json), "queued");
    r = bb_json("POST", QUICK, "/v1/hardware/lane-b/retrain");
    bb_status(r, 200); /* the same job while it waits is the first one */
    ck_assert_int_eq(tc_int(r->json, "/id", 0), queued);
    r = bb_json("POST", "{\"mode\": \"finetune\", \"epochs\": 2, \"seed\": 1}", "/v1/hardware/lane-b/retrain");
    bb_status(r, 202);
    int64_t other = tc_int(r->json, "/id", 0);
    ck_assert_int_ne(other, queued);
    r = bb_delete("/v1/jobs/%lld", (long long)other); /* one that waits ends at once */
    bb_status(r, 200);
    ck_assert_str_eq(state_of(job(other)->json), "cancelled");
    ck_assert_str_eq(state_of(job(running)->json), "running");
    cancel(running);
    ck_assert_str_eq(state_of(bb_wait(queued)), "succeeded");
}
END_TEST

START_TEST(purging_hardware_ends_its_training)
{
    bb_put_hardware("purged");
    bb_post_demo("purged", 0, 3);
    int64_t id = endless("purged", 1);
    until_state(id, "running");
    struct bb_reply *r = bb_delete("/v1/hardware/purged?purge=true");
    if (r->status == 409) { /* refusing while a job runs is fair, if it says so */
        bb_problem(r, 409, "conflict");
        cancel(id);
        return;
    }
    ck_assert_msg(r->status == 200 || r->status == 204, "%ld %s", r->status, r->body);
    for (double until = tc_now() + 20; tc_now() < until; tc_sleep(0.05)) {
        r = bb_get("/v1/jobs/%lld", (long long)id);
        if (r->status == 404 || strcmp(state_of(r->json), "running"))
            break;
    }
    ck_assert_msg(r->status == 404 || strcmp(state_of(r->json), "running"), "trains on data that is gone: %s", r->body);
    /* and it does not go on unseen: the next training gets its turn */
    bb_put_hardware("purged");
    bb_post_demo("purged", 9, 2);
    double began = tc_now();
    bb_train("purged", QUICK);
    ck_assert_double_lt(tc_now() - began, bb_slow() ? 60 : 20);
    bb_status(bb_get("/readyz"), 200);
}
END_TEST

/* ---- lists ---- */

START_TEST(jobs_are_listed_newest_first_and_filtered)
{
    bb_put_hardware("listed");
    struct bb_text t = bb_records(0, 64);
    bb_counts(bb_lines(t.p, t.n, "/v1/hardware/listed/measurements"), 64, 0, 0);
    int64_t id[3];
    for (int i = 0; i < 3; i++)
        id[i] = tc_int(bb_train("listed", bb_printf("{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": %d}", i).p),
                       "/id", 0);
    struct bb_reply *r = bb_get("/v1/jobs?hardware=listed");
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/items")), 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(tc_int(json_array_get(tc_at(r->json, "/items"), i), "/id", 0), id[2 - i]);
    r = bb_get("/v1/jobs?hardware=listed&limit=2");
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/items")), 2);
    r = bb_get("/v1/jobs?hardware=listed&limit=2&cursor=%s", tc_str(r->json, "/next_cursor"));
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/items")), 1);
    ck_assert_int_eq(tc_int(r->json, "/items/0/id", 0), id[0]);
    ck_assert_uint_eq(json_array_size(tc_at(bb_get("/v1/jobs?hardware=listed&state=failed")->json, "/items")), 0);
    ck_assert_uint_eq(json_array_size(tc_at(bb_get("/v1/jobs?hardware=listed&state=succeeded")->json, "/items")), 3);
    bb_problem(bb_get("/v1/jobs?state=asleep"), 400, "bad-parameter");
    bb_status(bb_get("/v1/jobs?hardware=nobody"), 200);
}
END_TEST

/* ---- events ---- */

struct event {
    char name[32];
    long id;
    char data[2000];
};

/* The events of a text/event-stream body. */
static size_t parse_events(const char *p, struct event *out, size_t max)
{
    size_t n = 0;
    struct event e = {.id = -1};
    for (; *p; p += strcspn(p, "\n") + (p[strcspn(p, "\n")] == '\n')) {
        size_t len = strcspn(p, "\n");
        if (!len) {
            if (e.name[0] && n < max)
                out[n++] = e;
            e = (struct event){.id = -1};
        } else if (!strncmp(p, "event: ", 7)) {
            snprintf(e.name, sizeof e.name, "%.*s", (int)(len - 7), p + 7);
        } else if (!strncmp(p, "id: ", 4)) {
            e.id = strtol(p + 4, NULL, 10);
        } else if (!strncmp(p, "data: ", 6)) {
            snprintf(e.data, sizeof e.data, "%.*s", (int)(len - 6), p + 6);
        }
    }
    return n;
}

static size_t follow(int64_t id, const char *last_id, struct event *out, size_t max)
{
    char *line = last_id ? bb_printf("Last-Event-ID: %s", last_id).p : NULL;
    const char *headers[] = {"Accept: text/event-stream", line, NULL};
    struct bb_reply *r =
        bb_call(&(struct tc_request){.path = bb_printf("/v1/jobs/%lld/events", (long long)id).p, .headers = headers});
    bb_status(r, 200);
    ck_assert_msg(!strncmp(bb_header(r, "Content-Type"), "text/event-stream", 17), "%s", bb_header(r, "Content-Type"));
    return parse_events(r->body, out, max);
}

enum { MAX_EVENTS = 4096 };

START_TEST(events_follow_a_job_to_its_end)
{
    bb_put_hardware("followed");
    bb_post_demo("followed", 8, 4);
    struct event *e = calloc(MAX_EVENTS, sizeof *e);
    int64_t id = bb_retrain("followed", "{\"mode\": \"finetune\", \"epochs\": 4, \"seed\": 1}");
    size_t n = follow(id, NULL, e, MAX_EVENTS);
    ck_assert_uint_ge(n, 2);
    for (size_t i = 0; i < n; i++) {
        ck_assert_str_eq(e[i].name, i + 1 < n ? "progress" : "end");
        ck_assert_msg(i == 0 || e[i].id > e[i - 1].id, "ids do not grow");
        json_t *data = json_loads(e[i].data, 0, NULL);
        ck_assert_msg(tc_int(data, "/id", 0) == id, "%s", e[i].data);
        if (i + 1 == n)
            ck_assert_str_eq(state_of(data), "succeeded");
        json_decref(data);
    }
    /* resumed behind the last event but one: the end is told again, what came before is not */
    long from = e[n - 2].id;
    size_t more = follow(id, bb_printf("%ld", from).p, e, MAX_EVENTS);
    ck_assert_uint_ge(more, 1);
    ck_assert_str_eq(e[more - 1].name, "end");
    for (size_t i = 0; i < more; i++)
        ck_assert_msg(e[i].id > from || e[i].id < 0, "event %ld again", e[i].id);
    free(e);
}
END_TEST

START_TEST(events_of_a_finished_job_end_at_once)
{
    bb_put_hardware("over");
    bb_post_demo("over", 9, 2);
    int64_t id = tc_int(bb_train("over", QUICK), "/id", 0);
    struct event *e = calloc(MAX_EVENTS, sizeof *e);
    double began = tc_now();
    size_t n = follow(id, NULL, e, MAX_EVENTS);
    ck_assert_double_lt(tc_now() - began, 5);
    ck_assert_uint_ge(n, 1);
    ck_assert_str_eq(e[n - 1].name, "end");
    free(e);
}
END_TEST

START_TEST(followers_that_leave_do_no_harm)
{
    bb_put_hardware("left");
    bb_post_demo("left", 0, 3);
    int64_t id = endless("left", 1);
    for (int i = 0; i < 20; i++) {
        struct bb_text get = bb_printf("GET /v1/jobs/%lld/events HTTP/1.1\r\nHost: a\r\n\r\n", (long long)id);
        int fd = bb_connect();
        bb_send(fd, get.p, get.n);
        bb_recv(fd, "\r\n\r\n", 5, NULL);
        close(fd);
    }
    cancel(id);
    bb_status(bb_get("/readyz"), 200);
}
END_TEST

START_TEST(cancelling_ends_the_events)
{
    bb_put_hardware("cut-off");
    bb_post_demo("cut-off", 0, 3);
    int64_t id = endless("cut-off", 1);
    until_state(id, "running");
    struct bb_text get = bb_printf("GET /v1/jobs/%lld/events HTTP/1.1\r\nHost: a\r\n\r\n", (long long)id);
    int fd = bb_connect();
    bb_send(fd, get.p, get.n);
    bb_recv(fd, "event: progress", 10, NULL);
    cancel(id);
    struct bb_text got = bb_recv(fd, "event: end", 10, NULL);
    close(fd);
    ck_assert_msg(strstr(got.p, "event: end") != NULL, "%.300s", got.p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/training");
    TCase *tc = bb_case(s, "asking", 60);
    tcase_add_test(tc, too_little_data_is_409_with_counts);
    tcase_add_test(tc, unusable_requests_are_refused);
    tcase_add_test(tc, every_option_is_optional);

    tc = bb_case(s, "life", 120);
    tcase_add_test(tc, job_goes_from_queued_to_succeeded);
    tcase_add_test(tc, first_model_becomes_active);
    tcase_add_test(tc, activate_never_leaves_the_model_aside);
    tcase_add_test(tc, a_worse_challenger_does_not_replace_the_champion_and_its_weights_go);
    tcase_add_test(tc, a_model_that_no_epoch_betters_stays);
    tcase_add_test(tc, one_task_is_split_by_record_and_marked);
    tcase_add_test(tc, same_seed_same_model);
    tcase_add_test(tc, max_seconds_ends_the_training);

    tc = bb_case(s, "queue", 60);
    tcase_add_test(tc, running_job_is_cancelled_within_a_batch);
    tcase_add_test(tc, cancelling_touches_no_model_in_use);
    tcase_add_test(tc, unknown_jobs_are_404);
    tcase_add_test(tc, one_training_per_family_and_equal_ones_are_one);
    tcase_add_test(tc, jobs_are_listed_newest_first_and_filtered);

    tc = bb_case(s, "purge", 60);
    tcase_add_test(tc, purging_hardware_ends_its_training);

    tc = bb_case(s, "events", 60);
    tcase_add_test(tc, events_follow_a_job_to_its_end);
    tcase_add_test(tc, events_of_a_finished_job_end_at_once);
    tcase_add_test(tc, followers_that_leave_do_no_harm);
    tcase_add_test(tc, cancelling_ends_the_events);
    return bb_main(s);
}
