/* Evaluation: what is asked, what the figures are, where they stay; and the offsets of tasks that measurements bring.
 *
 * All tests of a case share its daemon and each uses hardware names of its own, so that they do not meet; where a case
 * needs a model, its first test trains one. No clock decides but as a generous upper bound. */
#include "tests/http/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUICK "{\"mode\": \"finetune\", \"epochs\": 2, \"seed\": 1}"

static json_t *evaluate(const char *hw, const char *body)
{
    struct bb_reply *r = bb_json("POST", body, "/v1/hardware/%s/evaluate", hw);
    ck_assert_msg(r->status == 200 || r->status == 202, "%ld %s", r->status, r->body);
    json_t *job = bb_wait(tc_int(r->json, "/id", 0));
    ck_assert_msg(tc_str(job, "/state") && !strcmp(tc_str(job, "/state"), "succeeded"), "it did not succeed: %s",
                  tc_str(job, "/error"));
    return job;
}

/* The value of a gauge of a hardware, NaN when it is not shown. */
static double gauge(const char *name, const char *hw)
{
    const char *sample = bb_printf("\n%s{hardware=\"%s\"} ", name, hw).p,
               *at = strstr(bb_get("/metrics")->body, sample);
    return at ? strtod(at + strlen(sample), NULL) : (double)NAN;
}

/* ---- asking ---- */

START_TEST(hardware_must_have_a_model_and_measurements)
{
    bb_problem(bb_json("POST", "{}", "/v1/hardware/nobody/evaluate"), 404, "unknown-hardware");
    bb_put_hardware("bare");
    bb_problem(bb_json("POST", "{}", "/v1/hardware/bare/evaluate"), 409, "no-model");
    bb_put_hardware("giver");
    bb_post_demo("giver", 9, 2);
    bb_train("giver", QUICK);
    struct bb_reply *w =
        bb_get("/v1/models/%lld/weights", (long long)tc_int(bb_get("/v1/hardware/giver")->json, "/active_model", 0));
    bb_status(w, 200);
    bb_status(bb_call(&(struct tc_request){.method = "POST",
                                           .path = "/v1/hardware/bare/models?activate=true",
                                           .content_type = "application/octet-stream",
                                           .body = w->body,
                                           .n = w->n}),
              201);
    bb_problem(bb_json("POST", "{}", "/v1/hardware/bare/evaluate"), 409, "not-enough-data");
    struct bb_text t = bb_records(0, 20);
    bb_counts(bb_lines(t.p, t.n, "/v1/hardware/bare/measurements"), 20, 0, 0);
    json_t *job = evaluate("bare", "{}");
    ck_assert_str_eq(tc_str(job, "/result/holdout"), "unknown"); /* nobody knows what it was trained on */
    ck_assert(json_is_null(tc_at(job, "/result/held_out")));
    ck_assert_int_eq(tc_int(job, "/result/all/programs", 0), 20);
    ck_assert_double_eq_tol(gauge("tcld_model_top1", "bare"), tc_num(job, "/result/all/top1_mean"), 1e-6);
}
END_TEST

START_TEST(unusable_requests_are_refused)
{
    static const struct {
        const char *body;
        long status;
        const char *slug;
    } cases[] = {{"{\"modle\": 1}", 400, "unknown-key"},
                 {"{\"model\": \"best\"}", 400, "bad-parameter"},
                 {"{\"model\": 0}", 400, "bad-parameter"},
                 {"{\"model\": -1}", 400, "bad-parameter"},
                 {"{\"model\": 1.5}", 400, "bad-parameter"},
                 {"{\"model\": null}", 400, "bad-parameter"},
                 {"{\"model\": [1]}", 400, "bad-parameter"},
                 {"{\"model\": 99999}", 404, "unknown-model"},
                 {"[]", 400, NULL},
                 {"{", 400, NULL}};
    bb_put_hardware("asked");
    bb_put_hardware("stranger");
    bb_post_demo("asked", 9, 2);
    bb_post_demo("stranger", 9, 2);
    bb_train("asked", QUICK);
    bb_train("stranger", QUICK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        bb_problem(bb_json("POST", cases[i].body, "/v1/hardware/asked/evaluate"), cases[i].status, cases[i].slug);
    int64_t other = tc_int(bb_get("/v1/hardware/stranger")->json, "/active_model", 0);
    bb_problem(bb_json("POST", bb_printf("{\"model\": %lld}", (long long)other).p, "/v1/hardware/asked/evaluate"), 404,
               "unknown-model");
    bb_problem(bb_json("POST", "{}", "/v1/hardware/asked/evaluate?model=active"), 400, "bad-parameter");
    struct bb_reply *r = bb_get("/v1/hardware/asked/evaluate");
    bb_status(r, 405);
    ck_assert_msg(strncmp(bb_header(r, "Allow"), "POST", 4) == 0, "%s", bb_header(r, "Allow"));
}
END_TEST

START_TEST(the_body_is_optional_and_the_reply_is_the_job)
{
    bb_put_hardware("plain");
    bb_post_demo("plain", 9, 2);
    bb_train("plain", QUICK);
    struct bb_reply *r = bb_call(&(struct tc_request){.method = "POST", .path = "/v1/hardware/plain/evaluate"});
    bb_status(r, 202);
    int64_t id = tc_int(r->json, "/id", 0);
    ck_assert_str_eq(bb_header(r, "Location"), bb_printf("/v1/jobs/%lld", (long long)id).p);
    ck_assert_str_eq(tc_str(r->json, "/kind"), "evaluate");
    ck_assert_str_eq(tc_str(r->json, "/params/model"), "active");
    json_t *job = bb_wait(id);
    ck_assert_str_eq(tc_str(job, "/state"), "succeeded");
    ck_assert_double_eq(tc_num(job, "/progress"), 1);
    ck_assert_double_eq(tc_num(job, "/metrics/pairwise"), tc_num(job, "/result/held_out/pairwise"));
}
END_TEST

START_TEST(a_waiting_evaluation_is_one_and_can_be_cancelled)
{
    bb_put_hardware("busy");
    bb_put_hardware("busier");
    bb_post_demo("busy", 0, 4);
    bb_post_demo("busier", 0, 4);
    bb_train("busy", QUICK);
    /* both job threads, if there are two, have a training that does not end */
    int64_t a = bb_retrain("busy", "{\"epochs\": 1000}"), b = bb_retrain("busier", "{\"epochs\": 1000}");
    struct bb_reply *first = bb_json("POST", "{}", "/v1/hardware/busy/evaluate"),
                    *again = bb_json("POST", "{\"model\": \"active\"}", "/v1/hardware/busy/evaluate");
    bb_status(first, 202);
    bb_status(again, 200);
    int64_t id = tc_int(first->json, "/id", 0);
    ck_assert_int_eq(tc_int(again->json, "/id", 0), id);
    bb_status(bb_delete("/v1/jobs/%lld", (long long)id), 200);
    ck_assert_str_eq(tc_str(bb_get("/v1/jobs/%lld", (long long)id)->json, "/state"), "cancelled");
    bb_delete("/v1/jobs/%lld", (long long)a);
    bb_delete("/v1/jobs/%lld", (long long)b);
    bb_wait(a);
    bb_wait(b);
}
END_TEST

/* ---- figures ---- */

struct program {
    char task[20];
    double cost, score, latency;
};

/* Measured programs of a hardware with what is predicted for them. */
static size_t measured(const char *hw, struct program **out)
{
    struct tp_buf lines = {0};
    struct program *v = calloc(4096, sizeof *v);
    size_t n = 0;
    struct bb_reply *tasks = bb_get("/v1/hardware/%s/tasks?limit=1000", hw);
    for (size_t t = 0; t < json_array_size(tc_at(tasks->json, "/items")); t++) {
        const char *id = tc_str(json_array_get(tc_at(tasks->json, "/items"), t), "/task");
        struct bb_reply *r = bb_get("/v1/hardware/%s/measurements?task=%s", hw, id);
        bb_status(r, 200);
        for (const char *p = r->body; *p; p += strcspn(p, "\n") + 1) {
            json_t *rec = json_loadb(p, strcspn(p, "\n"), 0, NULL);
            ck_assert_msg(rec != NULL && n < 4096, "%.80s", p);
            snprintf(v[n].task, sizeof v[n].task, "%s", id);
            v[n].cost = INFINITY;
            for (size_t i = 0; i < json_array_size(tc_at(rec, "/r/0")) && tc_int(rec, "/r/1", 1) == 0; i++)
                v[n].cost = fmin(v[n].cost, json_number_value(json_array_get(tc_at(rec, "/r/0"), i)));
            json_decref(rec);
            n++;
        }
        tp_buf_put(&lines, r->body, r->n);
    }
    struct bb_reply *r = bb_lines(lines.p, lines.n, "/v1/hardware/%s/predict", hw);
    bb_status(r, 200);
    tp_buf_free(&lines);
    for (size_t i = 0; i < n; i++) {
        v[i].score = json_number_value(json_array_get(tc_at(r->json, "/scores"), i));
        v[i].latency = json_number_value(json_array_get(tc_at(r->json, "/latency_seconds"), i));
    }
    *out = v;
    return n;
}

/* Pairs in the right order, and best cost over cost of the first, of v[from..to). */
static void rank(const struct program *v, size_t from, size_t to, double *top1, double *pairwise)
{
    size_t first = from, pairs = 0;
    double best = INFINITY, right = 0;
    for (size_t i = from; i < to; i++) {
        first = v[i].score > v[first].score ? i : first;
        best = fmin(best, v[i].cost);
        for (size_t k = from; k < to; k++)
            if (v[i].cost < v[k].cost) {
                pairs++;
                right += v[i].score > v[k].score ? 1 : v[i].score == v[k].score ? 0.5 : 0;
            }
    }
    *top1 = best / v[first].cost;
    *pairwise = right / (double)pairs;
}

START_TEST(train_first)
{
    bb_put_hardware("known");
    bb_post_demo("known", 0, 8);
    bb_train("known", bb_slow() ? QUICK : "{\"mode\": \"finetune\", \"epochs\": 8, \"seed\": 1}");
}
END_TEST

START_TEST(figures_are_those_of_the_predictions)
{
    json_t *job = evaluate("known", "{}");
    const json_t *per_task = tc_at(job, "/result/per_task");
    struct program *v = NULL;
    size_t n = measured("known", &v), from = 0, tasks = 0, held_out = 0;
    double top1 = 0, pairwise = 0;
    for (size_t to; from < n; from = to) {
        double t, p;
        for (to = from; to < n && !strcmp(v[to].task, v[from].task); to++)
            ;
        rank(v, from, to, &t, &p);
        const json_t *one = json_array_get(per_task, tasks);
        ck_assert_str_eq(tc_str(one, "/task"), v[from].task);
        ck_assert_int_eq(tc_int(one, "/programs", 0), (int64_t)(to - from));
        ck_assert_double_eq_tol(tc_num(one, "/top1"), t, 1e-4); /* exports print six digits of a cost */
        ck_assert_double_eq_tol(tc_num(one, "/pairwise"), p, 1e-3);
        held_out += tc_int(one, "/held_out", 0) > 0;
        top1 += t;
        pairwise += p;
        tasks++;
    }
    free(v);
    ck_assert_uint_eq(json_array_size(per_task), tasks);
    ck_assert_int_eq(tc_int(job, "/result/all/tasks", 0), (int64_t)tasks);
    ck_assert_int_eq(tc_int(job, "/result/all/programs", 0), (int64_t)n);
    ck_assert_double_eq_tol(tc_num(job, "/result/all/top1_mean"), top1 / (double)tasks, 1e-4);
    ck_assert_double_eq_tol(tc_num(job, "/result/all/pairwise"), pairwise / (double)tasks, 1e-3);
    ck_assert_double_eq(tc_num(job, "/result/all/random_pairwise"), 0.5);
    ck_assert_msg(held_out > 0 && held_out < tasks, "%zu of %zu tasks held out", held_out, tasks);
    ck_assert_int_eq(tc_int(job, "/result/held_out/tasks", 0), (int64_t)held_out);
    ck_assert_str_eq(tc_str(job, "/result/holdout"), "task");
}
END_TEST

START_TEST(intervals_hold_their_figure_and_shares_grow)
{
    json_t *job = evaluate("known", "{\"model\": \"active\"}");
    static const char *const names[] = {"top1_mean", "top5_mean", "pairwise"};
    for (size_t i = 0; i < 3; i++) {
        double v = tc_num(job, bb_printf("/result/all/%s", names[i]).p),
               lo = tc_num(job, bb_printf("/result/all/%s_lo", names[i]).p),
               hi = tc_num(job, bb_printf("/result/all/%s_hi", names[i]).p);
        ck_assert_msg(lo < v && v < hi, "%s: %g in %g to %g", names[i], v, lo, hi);
    }
    for (int without = 0; without < 2; without++) {
        const char *at = without ? "/result/all/without_offset" : "/result/all";
        double a = tc_num(job, bb_printf("%s/latency_within_1_25", at).p),
               b = tc_num(job, bb_printf("%s/latency_within_1_5", at).p),
               c = tc_num(job, bb_printf("%s/latency_within_2", at).p),
               one = tc_num(job, bb_printf("%s/latency_within_one_std", at).p),
               two = tc_num(job, bb_printf("%s/latency_within_two_std", at).p);
        ck_assert_msg(0 <= a && a <= b && b <= c && c <= 1, "%g %g %g", a, b, c);
        ck_assert_msg(0 < one && one < two && two <= 1, "%g %g", one, two);
        ck_assert(isfinite(tc_num(job, bb_printf("%s/latency_mape", at).p)));
    }
    ck_assert_double_lt(tc_num(job, "/result/all/latency_median_ln_error"),
                        tc_num(job, "/result/all/without_offset/latency_median_ln_error"));
}
END_TEST

START_TEST(evaluation_and_training_hold_out_the_same)
{
    /* nothing was measured since: the verdict of the training and the evaluation are about the same programs */
    int64_t id = tc_int(bb_get("/v1/hardware/known")->json, "/active_model", 0);
    struct bb_reply *m = bb_get("/v1/models/%lld", (long long)id);
    json_t *job = evaluate("known", "{}");
    ck_assert_int_eq(tc_int(job, "/result/held_out/programs", -1), tc_int(m->json, "/metrics/challenger/programs", -2));
    ck_assert_double_eq_tol(tc_num(job, "/result/held_out/pairwise"), tc_num(m->json, "/metrics/challenger/pairwise"),
                            1e-3);
    ck_assert_double_eq_tol(tc_num(job, "/result/held_out/top1_mean"), tc_num(m->json, "/metrics/challenger/top1_mean"),
                            1e-3);
}
END_TEST

START_TEST(one_task_is_held_out_by_record)
{
    bb_put_hardware("single");
    struct bb_text t = bb_records(0, 64);
    bb_counts(bb_lines(t.p, t.n, "/v1/hardware/single/measurements"), 64, 0, 0);
    bb_train("single", QUICK);
    json_t *job = evaluate("single", "{}");
    ck_assert_str_eq(tc_str(job, "/result/holdout"), "record");
    int64_t held_out = tc_int(job, "/result/held_out/programs", 0);
    ck_assert_msg(held_out >= 2 && held_out < 32, "%lld", (long long)held_out);
    ck_assert_int_eq(tc_int(job, "/result/per_task/0/held_out", 0), held_out);
    ck_assert_int_eq(tc_int(job, "/result/per_task/0/programs", 0), 64);
}
END_TEST

/* ---- where they stay ---- */

START_TEST(figures_stay_on_job_model_and_gauges)
{
    json_t *job = evaluate("known", "{}");
    int64_t id = tc_int(job, "/result/model", 0);
    struct bb_reply *m = bb_get("/v1/models/%lld", (long long)id);
    ck_assert_int_eq(tc_int(m->json, "/metrics/evaluation/job", 0), tc_int(job, "/id", -1));
    ck_assert_double_eq(tc_num(m->json, "/metrics/evaluation/held_out/pairwise"),
                        tc_num(job, "/result/held_out/pairwise"));
    ck_assert_msg(tc_at(m->json, "/metrics/decision") != NULL, "the verdict is gone: %s", m->body);
    ck_assert_msg(tc_at(m->json, "/metrics/evaluation/per_task") == NULL, "%s", m->body);
    struct bb_reply *list = bb_get("/v1/hardware/known/models");
    ck_assert_int_eq(tc_int(list->json, "/items/0/metrics/evaluation/job", 0), tc_int(job, "/id", -1));
    ck_assert_double_eq_tol(gauge("tcld_model_top1", "known"), tc_num(job, "/result/held_out/top1_mean"), 1e-6);
    ck_assert_double_eq_tol(gauge("tcld_model_pairwise_accuracy", "known"), tc_num(job, "/result/held_out/pairwise"),
                            1e-6);
    struct bb_reply *jobs = bb_get("/v1/jobs?hardware=known");
    ck_assert_msg(tc_at(jobs->json, "/items/0/result/all") != NULL, "%s", jobs->body);
    ck_assert_msg(tc_at(jobs->json, "/items/0/result/per_task") == NULL, "a list with long members: %s", jobs->body);
    ck_assert_msg(tc_at(bb_get("/v1/jobs/%lld", (long long)tc_int(job, "/id", 0))->json, "/result/per_task") != NULL,
                  "no tasks on the job");
}
END_TEST

START_TEST(only_the_model_that_answers_is_in_the_gauges)
{
    bb_put_hardware("switched");
    bb_post_demo("switched", 6, 6);
    bb_train("switched", "{\"epochs\": 1, \"seed\": 1}");
    int64_t first = tc_int(bb_get("/v1/hardware/switched")->json, "/active_model", 0);
    double before = gauge("tcld_model_pairwise_accuracy", "switched");
    ck_assert(isfinite(before)); /* from the training's own verdict */
    bb_train("switched", "{\"epochs\": 6, \"seed\": 2, \"activate\": \"never\"}");
    int64_t second = tc_int(bb_get("/v1/hardware/switched/models")->json, "/items/0/id", 0);
    ck_assert_int_ne(first, second);
    double other =
        tc_num(evaluate("switched", bb_printf("{\"model\": %lld}", (long long)second).p), "/result/held_out/pairwise");
    ck_assert_double_eq(gauge("tcld_model_pairwise_accuracy", "switched"), before);
    ck_assert_double_ne(other, before);
    bb_status(bb_json("POST", bb_printf("{\"model\": %lld}", (long long)second).p, "/v1/hardware/switched/activate"),
              200);
    ck_assert_double_eq_tol(gauge("tcld_model_pairwise_accuracy", "switched"), other, 1e-6);
    bb_status(bb_delete("/v1/hardware/switched?purge=true"), 204);
    ck_assert(isnan(gauge("tcld_model_pairwise_accuracy", "switched")));
}
END_TEST

START_TEST(gauges_and_offsets_survive_a_restart)
{
    char *state = bb_path("restart");
    struct tc_daemon *d = bb_start(state, NULL);
    bb_use(d);
    bb_put_hardware("kept");
    bb_post_demo("kept", 6, 6);
    bb_train("kept", QUICK);
    double v = gauge("tcld_model_top1", "kept");
    struct bb_text t = bb_demo(6, 1);
    struct bb_reply *before = bb_lines(t.p, t.n, "/v1/hardware/kept/predict?uncertainty=true");
    bb_status(before, 200);
    bb_stop(d);
    d = bb_start(state, NULL);
    bb_use(d);
    ck_assert(isfinite(v));
    ck_assert_double_eq(gauge("tcld_model_top1", "kept"), v);
    struct bb_reply *after = bb_lines(t.p, t.n, "/v1/hardware/kept/predict?uncertainty=true");
    ck_assert_str_eq(after->body, before->body);
    bb_stop(d);
}
END_TEST

/* ---- offsets ---- */

static struct bb_reply *predict(struct bb_text lines)
{
    struct bb_reply *r = bb_lines(lines.p, lines.n, "/v1/hardware/known/predict?uncertainty=true");
    bb_status(r, 200);
    return r;
}

static double at(const struct bb_reply *r, const char *array, size_t i)
{
    const json_t *v = json_array_get(tc_at(r->json, array), i);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static struct bb_text unmeasured(int n)
{
    struct tp_buf b = {0};
    for (int i = 0; i < n; i++)
        tp_buf_printf(&b, "%s\n", bb_unmeasured(i).p);
    tp_buf_putc(&b, '\0');
    return (struct bb_text){.p = b.p, .n = b.n - 1};
}

/* Predict until the model has a calibration of at least `want`. */
static struct bb_reply *until_calibration(struct bb_text lines, int64_t want)
{
    for (double until = tc_now() + (bb_slow() ? 120 : 30); tc_now() < until; tc_sleep(0.05)) {
        struct bb_reply *r = predict(lines);
        if (tc_int(r->json, "/model/calibration", -1) >= want)
            return r;
    }
    ck_abort_msg("no calibration %lld", (long long)want);
    return NULL;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

START_TEST(measurements_of_a_task_move_its_latencies_without_training)
{
    enum { N = 9, MEASURED = 5 };
    struct bb_text lines = unmeasured(N), old_task = bb_demo(0, 1);
    struct bb_reply *before = predict(lines), *old_before = predict(old_task);
    int64_t model = tc_int(before->json, "/model/id", 0), calibration = tc_int(before->json, "/model/calibration", -1);
    struct bb_text m = bb_records(0, MEASURED - 1);
    bb_counts(bb_lines(m.p, m.n, "/v1/hardware/known/measurements"), MEASURED - 1, 0, 0);
    m = bb_records(MEASURED - 1, 1);
    bb_counts(bb_lines(m.p, m.n, "/v1/hardware/known/measurements"), 1, 0, 0);
    struct bb_reply *after = until_calibration(lines, calibration + 1);
    ck_assert_int_eq(tc_int(after->json, "/model/id", 0), model);
    ck_assert_int_eq(tc_int(bb_get("/v1/models/%lld", (long long)model)->json, "/calibration", -1), calibration + 1);

    double lacks[MEASURED], factor = 0;
    for (int i = 0; i < MEASURED; i++) /* as bb_records() has them */
        lacks[i] = log(0.0001 * (1 + (i * 7) % 16) / at(after, "/latency_seconds", (size_t)i));
    qsort(lacks, MEASURED, sizeof *lacks, ascending);
    ck_assert_double_eq_tol(lacks[MEASURED / 2], 0, 1e-5); /* the median of the five is hit */
    for (size_t i = 0; i < N; i++) {
        ck_assert_double_eq(at(after, "/scores", i), at(before, "/scores", i)); /* the order is the network's */
        ck_assert(isfinite(at(after, "/latency_std_log", i)) && at(after, "/latency_std_log", i) > 0);
        factor = fmax(factor, fabs(log(at(after, "/latency_seconds", i) / at(before, "/latency_seconds", i))));
    }
    ck_assert_double_gt(factor, 1e-3);
    struct bb_reply *old_after = predict(old_task);
    for (size_t i = 0; i < json_array_size(tc_at(old_after->json, "/scores")); i++)
        ck_assert_double_eq(at(old_after, "/latency_seconds", i), at(old_before, "/latency_seconds", i));

    for (size_t i = 0; i < N; i++) { /* alone, and among programs of another task */
        struct bb_text one = bb_printf("%s\n", bb_unmeasured((int)i).p);
        const struct bb_text both[] = {old_task, one};
        struct bb_reply *alone = predict(one), *among = predict(bb_join(both, 2));
        size_t last = json_array_size(tc_at(among->json, "/scores")) - 1;
        ck_assert_double_eq(at(alone, "/latency_seconds", 0), at(after, "/latency_seconds", i));
        ck_assert_double_eq(at(among, "/latency_seconds", last), at(after, "/latency_seconds", i));
        ck_assert_double_eq(at(among, "/latency_std_log", last), at(after, "/latency_std_log", i));
    }
    free(lines.p);
}
END_TEST

START_TEST(more_measurements_make_a_latency_surer)
{
    struct bb_text one = bb_printf("%s\n", bb_unmeasured(200).p);
    struct bb_reply *five = predict(one);
    int64_t calibration = tc_int(five->json, "/model/calibration", -1);
    struct bb_text m = bb_records(5, 60);
    bb_counts(bb_lines(m.p, m.n, "/v1/hardware/known/measurements"), 60, 0, 0);
    struct bb_reply *many = until_calibration(one, calibration + 1);
    ck_assert_double_lt(at(many, "/latency_std_log", 0), at(five, "/latency_std_log", 0));
}
END_TEST

START_TEST(a_retrained_model_starts_with_offsets)
{
    bb_train("known", QUICK); /* a new model, with the tasks of all measurements */
    struct bb_reply *m = bb_get("/v1/hardware/known/models?limit=1");
    int64_t newest = tc_int(m->json, "/items/0/id", 0);
    enum { N = 40 };
    struct bb_text lines = unmeasured(N);
    struct bb_reply *r = bb_lines(lines.p, lines.n, "/v1/hardware/known/predict?model=%lld", (long long)newest);
    bb_status(r, 200);
    double lacks[N];
    for (int i = 0; i < N; i++)
        lacks[i] = log(0.0001 * (1 + (i * 7) % 16) / at(r, "/latency_seconds", (size_t)i));
    qsort(lacks, N, sizeof *lacks, ascending);
    ck_assert_double_eq_tol(lacks[N / 2], 0, 0.5);
    free(lines.p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/evaluate");
    TCase *tc = bb_case(s, "asking", 120);
    tcase_add_test(tc, hardware_must_have_a_model_and_measurements);
    tcase_add_test(tc, unusable_requests_are_refused);
    tcase_add_test(tc, the_body_is_optional_and_the_reply_is_the_job);
    tcase_add_test(tc, a_waiting_evaluation_is_one_and_can_be_cancelled);

    tc = bb_case(s, "figures", 120);
    tcase_add_test(tc, train_first);
    tcase_add_test(tc, figures_are_those_of_the_predictions);
    tcase_add_test(tc, intervals_hold_their_figure_and_shares_grow);
    tcase_add_test(tc, evaluation_and_training_hold_out_the_same);
    tcase_add_test(tc, one_task_is_held_out_by_record);
    tcase_add_test(tc, figures_stay_on_job_model_and_gauges);
    tcase_add_test(tc, only_the_model_that_answers_is_in_the_gauges);

    tc = bb_case_own(s, "restart", 120);
    tcase_add_test(tc, gauges_and_offsets_survive_a_restart);

    tc = bb_case(s, "offsets", 120);
    tcase_add_test(tc, train_first);
    tcase_add_test(tc, measurements_of_a_task_move_its_latencies_without_training);
    tcase_add_test(tc, more_measurements_make_a_latency_surer);
    tcase_add_test(tc, a_retrained_model_starts_with_offsets);
    return bb_main(s);
}
