/* MetaSchedule over HTTP: tuning records are accepted, learned from and ranked, and stay apart from those of
 * auto_scheduler on the same hardware. The records are composed (tests/golden/compose_ms.py): 6 matrix products of 80
 * schedules each, whose latencies are a formula of the tiles. */
#include "tests/http/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 6, EACH = 80, HELD_OUT = 5 /* the task that is not posted */ };

static json_t *data(const char *name)
{
    struct bb_text t = bb_file(bb_printf("tests/data/metaschedule/%s.json.gz", name).p);
    json_t *j = json_loads(t.p, 0, NULL);
    ck_assert_ptr_nonnull(j);
    return j;
}

/* The body with the records of tasks from .. to - 1; "format" comes first because jansson keeps the order. */
static char *body(const json_t *all, int from, int to)
{
    json_t *out = json_object(), *some = json_array(), *x;
    size_t i;
    json_array_foreach(json_object_get(all, "records"), i, x)
    {
        int task = (int)json_integer_value(json_array_get(x, 0));
        if (task >= from && task < to)
            json_array_append(some, x);
    }
    json_object_set_new(out, "format", json_string("metaschedule"));
    json_object_set(out, "workloads", json_object_get(all, "workloads"));
    json_object_set_new(out, "records", some);
    char *text = json_dumps(out, 0), *kept = bb_printf("%s", text).p;
    free(text);
    json_decref(out);
    return kept;
}

static double cost(const json_t *all, int i)
{
    const json_t *runs = json_array_get(json_array_get(json_array_get(json_object_get(all, "records"), i), 1), 1), *x;
    double sum = 0;
    size_t k;
    json_array_foreach(runs, k, x)
    {
        sum += json_number_value(x);
    }
    return sum / (double)json_array_size(runs);
}

static void put(const char *hw, const char *target)
{
    bb_status(bb_json("PUT", bb_printf("{\"target\": \"%s\"}", target).p, "/v1/hardware/%s", hw), 201);
}

START_TEST(records_are_learned_from_and_rank_a_task_that_was_never_seen)
{
    const char *name = _i == 0 ? "cpu" : "cuda", *target = _i == 0 ? "llvm" : "cuda";
    json_t *all = data(name);
    struct bb_reply *r;
    put(bb_printf("%s.ms", name).p, target);
    r = bb_json("POST", body(all, 0, HELD_OUT), "/v1/hardware/%s/measurements", name);
    bb_counts(r, HELD_OUT * EACH, 0, 0);
    r = bb_json("POST", body(all, 0, HELD_OUT), "/v1/hardware/%s/measurements", name);
    bb_counts(r, 0, HELD_OUT * EACH, 0);
    bb_train(bb_printf("%s.ms", name).p, "{\"mode\": \"finetune\", \"epochs\": 30, \"seed\": 1}");

    r = bb_json("POST", body(all, HELD_OUT, TASKS), "/v1/hardware/%s/predict", name);
    bb_status(r, 200);
    ck_assert_str_eq(tc_str(r->json, "/model/features_version"), "tclm-1");
    ck_assert_str_eq(tc_str(r->json, "/model/hardware"), bb_printf("%s.ms", name).p);
    const json_t *scores = tc_at(r->json, "/scores");
    ck_assert_uint_eq(json_array_size(scores), EACH);
    int right = 0, pairs = 0;
    for (int a = 0; a < EACH; a++)
        for (int b = 0; b < a; b++) {
            double ca = cost(all, HELD_OUT * EACH + a), cb = cost(all, HELD_OUT * EACH + b);
            double sa = json_number_value(json_array_get(scores, (size_t)a)),
                   sb = json_number_value(json_array_get(scores, (size_t)b));
            if (ca > 1e9 || cb > 1e9 || fabs(log(ca / cb)) < 0.1)
                continue;
            pairs++;
            right += (ca < cb) == (sa > sb);
        }
    ck_assert_int_gt(pairs, 200);
    ck_assert_msg(right > 0.7 * pairs, "%d of %d pairs in order", right, pairs);
    json_decref(all);
}
END_TEST

START_TEST(the_two_dialects_keep_apart)
{
    json_t *all = data("cpu");
    struct bb_reply *r;
    struct bb_text ansor = bb_records(0, 40);
    put("both", "llvm");
    put("both.ms", "llvm");
    ck_assert_str_eq(tc_str(bb_get("/v1/hardware/both.ms")->json, "/family"), "cpu.ms");
    bb_counts(bb_lines(ansor.p, ansor.n, "/v1/hardware/both/measurements"), 40, 0, 0);
    bb_counts(bb_json("POST", body(all, 0, 1), "/v1/hardware/both/measurements"), EACH, 0, 0);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/both")->json, "/counts/measurements", 0), 40);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/both.ms")->json, "/counts/measurements", 0), EACH);

    bb_train("both", "{\"mode\": \"finetune\", \"epochs\": 1}");
    int64_t model = tc_int(bb_get("/v1/hardware/both")->json, "/active_model", 0);
    r = bb_json("POST", body(all, 0, 1), "/v1/hardware/both/predict?model=%lld", (long long)model);
    ck_assert_int_ne(r->status, 200); /* a model of the other dialect never answers */

    /* neither takes the other's records, and both say so */
    r = bb_lines(ansor.p, ansor.n, "/v1/hardware/both.ms/measurements");
    bb_counts(r, 0, 0, 40);
    ck_assert_str_eq(tc_str(r->json, "/errors/0/code"), "bad-state");
    struct bb_reply *trace = bb_get("/v1/hardware/both.ms/measurements");
    r = bb_lines(trace->body, trace->n, "/v1/hardware/both/measurements");
    bb_counts(r, 0, 0, EACH);
    /* what was exported comes back as what it is */
    bb_counts(bb_lines(trace->body, trace->n, "/v1/hardware/both.ms/measurements"), 0, EACH, 0);

    struct bb_reply *w = bb_get("/v1/models/%lld/weights", (long long)model);
    r = bb_call(&(struct tc_request){.method = "POST",
                                     .path = "/v1/hardware/both.ms/models",
                                     .body = w->body,
                                     .n = w->n,
                                     .content_type = "application/octet-stream"});
    bb_problem(r, 409, "features-mismatch");
    json_decref(all);
}
END_TEST

START_TEST(a_pool_of_traces_is_selected_from_and_leased)
{
    json_t *all = data("cpu");
    struct bb_reply *r;
    put("pool.ms", "llvm");
    bb_counts(bb_json("POST", body(all, 1, 2), "/v1/hardware/pool/candidates"), EACH, 0, 0);
    r = bb_json("POST", "{\"budget\": 5}", "/v1/hardware/pool.ms/selections");
    bb_status(r, 202);
    ck_assert_str_eq(tc_str(bb_wait(tc_int(r->json, "/id", 0)), "/state"), "succeeded");
    r = bb_json("POST", "{\"agent\": \"a\", \"max\": 5}", "/v1/hardware/pool.ms/leases");
    bb_status(r, 200);
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/candidates")), 5);
    ck_assert_str_eq(tc_str(r->json, "/candidates/0/record/i/1/1/0/0"), "MS");
    bb_counts(bb_json("POST", body(all, 1, 2), "/v1/hardware/pool/measurements"), EACH, 0, 0);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/pool.ms")->json, "/counts/candidates/leased", -1), 0);
    json_decref(all);
}
END_TEST

START_TEST(what_cannot_be_used_is_told)
{
    struct bb_reply *r;
    static const char body[] = "{\"format\": \"metaschedule\", \"records\": []}";
    r = bb_json("POST", body, "/v1/hardware/nowhere/predict");
    bb_problem(r, 404, "unknown-hardware");
    ck_assert_msg(strstr(tc_str(r->json, "/detail"), "for records of MetaSchedule") != NULL, "%s", r->body);
    ck_assert(strstr(r->body, "nowhere.ms") != NULL);
    put("x.ms", "llvm");
    bb_problem(bb_json("POST", body, "/v1/hardware/x/measurements"), 400, "no-records");
    bb_problem(bb_json("POST", "{\"format\": \"onnx\", \"records\": []}", "/v1/hardware/x.ms/measurements"), 400,
               "bad-body");
    r = bb_json("POST",
                "{\"format\": \"metaschedule\", \"workload\": \"w\", \"target\": \"cuda\", \"records\": "
                "[[[[[\"EnterPostproc\", [], [], []]], []], [1]], 7]}",
                "/v1/hardware/x/measurements");
    bb_counts(r, 0, 0, 2);
    ck_assert_str_eq(tc_str(r->json, "/errors/0/code"), "wrong-target");
    ck_assert_str_eq(tc_str(r->json, "/errors/1/code"), "bad-state");
    bb_problem(bb_json("PUT", "{\"target\": \"llvm\", \"family\": \"cpu\"}", "/v1/hardware/y.ms"), 400,
               "bad-parameter");
    bb_problem(bb_json("PUT", "{\"target\": \"llvm\", \"family\": \"cpu.ms\"}", "/v1/hardware/y"), 400,
               "bad-parameter");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/metaschedule");
    TCase *tc = bb_case(s, "metaschedule", 120);
    tcase_add_loop_test(tc, records_are_learned_from_and_rank_a_task_that_was_never_seen, 0, 2);
    tcase_add_test(tc, the_two_dialects_keep_apart);
    tcase_add_test(tc, a_pool_of_traces_is_selected_from_and_leased);
    tcase_add_test(tc, what_cannot_be_used_is_told);
    return bb_main(s);
}
