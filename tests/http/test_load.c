/* Prediction while a training job runs and the active model is switched: every call is answered, and every answer comes
 * from one model whole.
 *
 * Most tests start daemons of their own, from the test's main thread, in folders of their own; one that a failing test
 * leaves behind dies with the test's process. No clock decides but as a generous upper bound. */
#include "tests/http/suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CLIENTS = 64, MAX_MODELS = 32 };

/* What one model said to the one question that everybody asks. */
struct answer {
    int64_t model, calibration;
    uint64_t hash; /* of everything behind "scores" */
    int times;
};

struct shared {
    const char *base, *hw;
    struct bb_text body;
    pthread_mutex_t lock; /* guards answer, n, problem */
    struct answer answer[MAX_MODELS];
    int n;
    char problem[500];
    atomic_bool stop;
    atomic_int calls;
};

static uint64_t fnv(const char *p)
{
    uint64_t h = 1469598103934665603u;
    for (; *p; p++)
        h = (h ^ (unsigned char)*p) * 1099511628211u;
    return h;
}

static void note(struct shared *s, const struct tc_reply *r)
{
    const char *model = strstr(r->body.p, "\"id\":"), *calibration = strstr(r->body.p, "\"calibration\":");
    const char *scores = strstr(r->body.p, "\"scores\"");
    pthread_mutex_lock(&s->lock);
    if (!model || !scores) {
        snprintf(s->problem, sizeof s->problem, "no model or scores: %.300s", r->body.p);
    } else {
        int64_t id = strtoll(model + 5, NULL, 10), cal = calibration ? strtoll(calibration + 14, NULL, 10) : 0;
        uint64_t hash = fnv(scores);
        int i = 0;
        while (i < s->n && (s->answer[i].model != id || s->answer[i].calibration != cal))
            i++;
        if (i == s->n && s->n < MAX_MODELS)
            s->answer[s->n++] = (struct answer){id, cal, hash, 0};
        if (i < MAX_MODELS) {
            s->answer[i].times++;
            if (s->answer[i].hash != hash)
                snprintf(s->problem, sizeof s->problem, "model %lld gave two different answers to one question",
                         (long long)id);
        }
    }
    pthread_mutex_unlock(&s->lock);
}

static void *ask(void *arg)
{
    struct shared *s = arg;
    struct tc_err e = {{0}};
    struct tc_reply r = {0};
    struct tc_http *h = tc_http_new(s->base, &e);
    char path[128];
    snprintf(path, sizeof path, "/v1/hardware/%s/predict", s->hw);
    while (h && !atomic_load(&s->stop)) {
        struct tc_request q = {.path = path, .body = s->body.p, .n = s->body.n, .content_type = "application/x-ndjson"};
        int rc = tc_call(h, &q, &r, &e);
        if (!rc && r.status == 200) {
            atomic_fetch_add(&s->calls, 1);
            note(s, &r);
            continue;
        }
        pthread_mutex_lock(&s->lock);
        snprintf(s->problem, sizeof s->problem, "%.200s", rc ? e.text : r.body.p);
        pthread_mutex_unlock(&s->lock);
        break;
    }
    tc_reply_free(&r);
    tc_http_free(h);
    return NULL;
}

/* Two models to switch between, and data to train more. */
static void prepare(const char *hw, int64_t id[2])
{
    bb_put_hardware(hw);
    bb_post_demo(hw, 8, 4);
    bb_train(hw, "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 1}");
    bb_train(hw, "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 2, \"activate\": \"never\"}");
    struct bb_reply *r = bb_get("/v1/hardware/%s/models", hw);
    id[0] = tc_int(r->json, "/items/1/id", 0);
    id[1] = tc_int(r->json, "/items/0/id", 0);
}

START_TEST(no_error_and_no_mixed_reply_while_training_and_switching)
{
    static struct shared s = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t client[MAX_CLIENTS];
    int clients = bb_slow() ? 8 : MAX_CLIENTS;
    int64_t id[2];
    struct tc_daemon *d = bb_start(bb_path("load"), (const char *[]){"--predict-wait-ms", "600000", NULL});
    prepare("load", id);
    s.base = bb_base();
    s.hw = "load";
    s.body = bb_file("tests/data/batches/matmul_512.call5.json.gz");
    ck_assert_uint_eq(bb_line_count(s.body.p, s.body.n), 2048);

    for (int i = 0; i < clients; i++)
        ck_assert_int_eq(pthread_create(&client[i], NULL, ask, &s), 0);
    /* a retrain runs, the models change places, and the trained one joins them at its end */
    int64_t job =
        bb_retrain("load", bb_slow() ? "{\"mode\": \"finetune\", \"epochs\": 2, \"seed\": 3}"
                                     : "{\"mode\": \"finetune\", \"epochs\": 10, \"seed\": 3, \"max_seconds\": 8}");
    int switches = 0;
    const char *state = "queued";
    for (double until = tc_now() + (bb_slow() ? 300 : 60); tc_now() < until; switches++) {
        bb_status(bb_json("POST", bb_printf("{\"model\": %lld}", (long long)id[switches % 2]).p,
                          "/v1/hardware/load/activate"),
                  200);
        struct bb_reply *r = bb_get("/v1/jobs/%lld", (long long)job);
        state = tc_str(r->json, "/state");
        if (strcmp(state, "queued") && strcmp(state, "running"))
            break;
        tc_sleep(0.05);
    }
    bb_status(bb_json("POST", bb_printf("{\"model\": %lld}", (long long)id[0]).p, "/v1/hardware/load/activate"), 200);
    int enough = atomic_load(&s.calls) + clients; /* everybody sees the end */
    for (double until = tc_now() + (bb_slow() ? 200 : 30);
         atomic_load(&s.calls) < enough && !s.problem[0] && tc_now() < until;)
        tc_sleep(0.05);
    atomic_store(&s.stop, true);
    for (int i = 0; i < clients; i++)
        pthread_join(client[i], NULL);

    ck_assert_msg(!s.problem[0], "%s", s.problem);
    ck_assert_msg(!strcmp(state, "succeeded"), "the job is %s", state);
    ck_assert_int_ge(atomic_load(&s.calls), enough);
    ck_assert_msg(s.n >= 2, "only %d model answered %d calls over %d switches", s.n, atomic_load(&s.calls), switches);
    printf("%d clients, %d calls of 2,048 programs, %d switches, %d models, no error\n", clients, atomic_load(&s.calls),
           switches, s.n);

    /* and each of the two says at rest what it said under load */
    for (int k = 0; k < 2; k++) {
        struct bb_reply *r = bb_lines(s.body.p, s.body.n, "/v1/hardware/load/predict?model=%lld", (long long)id[k]);
        bb_status(r, 200);
        for (int i = 0; i < s.n; i++)
            ck_assert_msg(s.answer[i].model != id[k] || s.answer[i].hash == fnv(strstr(r->body, "\"scores\"")),
                          "model %lld answers otherwise", (long long)id[k]);
    }
    bb_stop(d);
}
END_TEST

START_TEST(predictions_keep_coming_while_measurements_are_stored)
{
    static struct shared s = {.lock = PTHREAD_MUTEX_INITIALIZER};
    enum { CLIENTS = 4 };
    pthread_t client[CLIENTS];
    int64_t id[2];
    struct tc_daemon *d = bb_start(bb_path("ingest"), NULL);
    prepare("both", id);
    s.base = bb_base();
    s.hw = "both";
    s.body = bb_file("tests/data/batches/matmul_512.call1.json.gz");
    for (int i = 0; i < CLIENTS; i++)
        ck_assert_int_eq(pthread_create(&client[i], NULL, ask, &s), 0);
    for (int i = 0; i < 20; i++) {
        struct bb_text t = bb_records(i * 200, 200);
        bb_counts(bb_lines(t.p, t.n, "/v1/hardware/both/measurements"), 200, 0, 0);
    }
    atomic_store(&s.stop, true);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(client[i], NULL);
    ck_assert_msg(!s.problem[0], "%s", s.problem);
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/load");
    TCase *tc = bb_case_own(s, "load", 120);
    tcase_add_test(tc, no_error_and_no_mixed_reply_while_training_and_switching);
    tcase_add_test(tc, predictions_keep_coming_while_measurements_are_stored);
    return bb_main(s);
}
