/* Knowledge that comes with tcld, and hardware that looks after itself: policies and the comparison of latencies. */
#include "tests/http/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *hw, const char *target)
{
    bb_status(bb_json("PUT", bb_printf("{\"target\": \"%s\"}", target).p, "/v1/hardware/%s", hw), 201);
}

static size_t models(const char *family)
{
    return json_array_size(tc_at(bb_get("/v1/families/%s/models", family)->json, "/items"));
}

/* ---- starter knowledge ---- */

START_TEST(the_first_prediction_needs_no_training)
{
    char *dir = bb_path("starter");
    const char *const args[] = {"--starter-knowledge", "auto", NULL};
    struct tc_daemon *d = bb_start(dir, args);
    struct bb_text t = bb_demo(0, 1);
    put("mine", "llvm -mcpu=core-avx2");
    struct bb_reply *r = bb_lines(t.p, t.n, "/v1/hardware/mine/predict");
    bb_status(r, 200);
    ck_assert_str_eq(tc_str(r->json, "/model/role"), "kb");
    ck_assert(json_is_number(tc_at(r->json, "/scores/0")) && json_is_number(tc_at(r->json, "/latency_seconds/0")));

    r = bb_get("/v1/families/cpu/models");
    ck_assert_str_eq(tc_str(r->json, "/items/0/state"), "imported");
    ck_assert_str_eq(tc_str(r->json, "/items/0/metrics/mode"), "starter");
    ck_assert_ptr_nonnull(tc_str(r->json, "/items/0/metrics/training/sources/0/licence"));
    ck_assert(json_is_true(tc_at(r->json, "/items/0/active")));

    put("card", "cuda -arch=sm_80");
    ck_assert_uint_eq(models("gpu"), 1);
    put("dsp", "hexagon");
    ck_assert_uint_eq(models("accelerator"), 0);
    bb_stop(d);

    d = bb_start(dir, args); /* it comes once */
    put("other", "llvm");
    ck_assert_uint_eq(models("cpu"), 1);
    bb_stop(d);
}
END_TEST

START_TEST(a_family_from_before_gets_it_at_the_next_start)
{
    char *dir = bb_path("late");
    struct tc_daemon *d = bb_start(dir, NULL);
    struct bb_text t = bb_demo(0, 1);
    put("mine", "llvm");
    bb_problem(bb_lines(t.p, t.n, "/v1/hardware/mine/predict"), 409, "no-model");
    bb_stop(d);
    d = bb_start(dir, (const char *const[]){"--starter-knowledge", "config/kb", NULL});
    bb_status(bb_lines(t.p, t.n, "/v1/hardware/mine/predict"), 200);
    bb_stop(d);
}
END_TEST

START_TEST(knowledge_outlives_the_hardware_of_its_family)
{
    char *dir = bb_path("outlives");
    const char *const args[] = {"--starter-knowledge", "auto", NULL};
    struct tc_daemon *d = bb_start(dir, args);
    struct bb_text t = bb_demo(0, 1);
    put("first", "llvm");
    bb_status(bb_delete("/v1/hardware/first"), 204);
    bb_stop(d);
    d = bb_start(dir, args);
    put("second", "llvm");
    bb_status(bb_lines(t.p, t.n, "/v1/hardware/second/predict?model=kb"), 200);
    bb_stop(d);
}
END_TEST

START_TEST(a_damaged_knowledge_base_is_named_and_another_one_can_be_made)
{
    char *dir = bb_path("damaged"), *file = bb_printf("%s/models/1.safetensors", dir).p;
    const char *const args[] = {"--starter-knowledge", "auto", NULL};
    struct tc_daemon *d = bb_start(dir, args);
    struct bb_text t = bb_demo(0, 1);
    put("mine", "llvm");
    bb_post_demo("mine", 0, 8);
    bb_stop(d);
    FILE *f = fopen(file, "r+");
    ck_assert_ptr_nonnull(f);
    fseek(f, -4, SEEK_END);
    fputs("harm", f);
    fclose(f);
    d = bb_start(dir, args);
    struct bb_reply *r = bb_lines(t.p, t.n, "/v1/hardware/mine/predict");
    bb_problem(r, 409, "no-model");
    ck_assert_ptr_nonnull(strstr(r->body, "knowledge base 1 of family \\\"cpu\\\" could not be loaded"));
    bb_problem(bb_json("POST", "{\"model\": \"kb\"}", "/v1/hardware/mine/activate"), 409, "conflict");
    json_t *job = bb_train("mine", "{\"mode\": \"pretrain\", \"epochs\": 1}");
    ck_assert_msg(!strcmp(tc_str(job, "/state"), "succeeded"), "%s", json_dumps(job, 0));
    ck_assert(json_is_true(tc_at(job, "/result/active")));
    bb_status(bb_lines(t.p, t.n, "/v1/hardware/mine/predict"), 200);
    bb_stop(d);
}
END_TEST

START_TEST(knowledge_of_another_kind_is_not_taken)
{
    char *dir = bb_path("swapped"), *folder = bb_path("swapped-kb");
    struct tp_buf kb = {0};
    struct tc_err e;
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    ck_assert_int_eq(tc_read_file("config/kb/gpu.safetensors", &kb, &e), 0);
    ck_assert_int_eq(tc_write_file(bb_printf("%s/cpu.safetensors", folder).p, kb.p, kb.n, &e), 0);
    tp_buf_free(&kb);
    struct tc_daemon *d = bb_start(dir, (const char *const[]){"--starter-knowledge", folder, NULL});
    put("mine", "llvm");
    ck_assert_uint_eq(models("cpu"), 0);
    bb_stop(d);
}
END_TEST

START_TEST(a_folder_without_knowledge_is_an_error)
{
    struct tp_buf out = {0}, err = {0};
    const char *const argv[] = {bb_binary(),           "--listen", "127.0.0.1:0", "--state-dir", bb_path("x"),
                                "--starter-knowledge", "/nowhere", NULL};
    struct tc_err e;
    ck_assert_int_ne(tc_run(argv, NULL, 20, &out, &err, &e), 0);
    tp_buf_putc(&err, '\0');
    ck_assert_msg(strstr(err.p, "starter_knowledge: /nowhere holds neither cpu.safetensors nor gpu.safetensors"), "%s",
                  err.p);
    tp_buf_free(&out);
    tp_buf_free(&err);
}
END_TEST

/* ---- policies ---- */

static json_t *jobs_of(const char *hw)
{
    struct bb_reply *r = bb_get("/v1/jobs?hardware=%s", hw);
    bb_status(r, 200);
    return json_object_get(r->json, "items");
}

static json_t *wait_job(const char *hw)
{
    for (double until = tc_now() + (bb_slow() ? 120 : 30); tc_now() < until; tc_sleep(0.02)) {
        json_t *items = jobs_of(hw);
        if (json_array_size(items) > 0)
            return json_array_get(items, 0);
    }
    ck_abort_msg("%s did not retrain", hw);
    return NULL;
}

static void post_records(const char *hw, int from, int n)
{
    struct bb_text t = bb_records(from, n);
    bb_counts(bb_lines(t.p, t.n, "/v1/hardware/%s/measurements", hw), n, 0, 0);
}

START_TEST(no_hardware_retrains_unasked)
{
    bb_put_hardware("quiet");
    ck_assert(json_is_null(tc_at(bb_get("/v1/hardware/quiet")->json, "/policy")));
    post_records("quiet", 0, 200);
    tc_sleep(2.5); /* two looks */
    ck_assert_uint_eq(json_array_size(jobs_of("quiet")), 0);
}
END_TEST

static void wait_jobs(const char *hw, size_t n)
{
    for (double until = tc_now() + 30; tc_now() < until && json_array_size(jobs_of(hw)) < n; tc_sleep(0.05))
        ;
    ck_assert_uint_eq(json_array_size(jobs_of(hw)), n);
}

START_TEST(a_policy_retrains_after_so_many_measurements_and_then_cools_down)
{
    bb_put_hardware("busy");
    struct bb_reply *r =
        bb_json("PUT", "{\"measurements\": 50, \"cooldown_seconds\": 3600}", "/v1/hardware/busy/policy");
    bb_status(r, 200);
    ck_assert_int_eq(tc_int(r->json, "/measurements", 0), 50);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/busy")->json, "/policy/cooldown_seconds", 0), 3600);
    post_records("busy", 0, 49);
    tc_sleep(1.5);
    ck_assert_uint_eq(json_array_size(jobs_of("busy")), 0);
    post_records("busy", 49, 1);
    json_t *job = wait_job("busy");
    ck_assert(json_is_true(tc_at(job, "/params/automatic")));
    ck_assert_str_eq(tc_str(job, "/params/mode"), "adapt");
    ck_assert_str_eq(tc_str(bb_wait(tc_int(job, "/id", 0)), "/state"), "succeeded");
    post_records("busy", 50, 60);
    tc_sleep(1.5);
    ck_assert_uint_eq(json_array_size(jobs_of("busy")), 1);
    bb_status(bb_json("PUT", "{\"measurements\": 50, \"cooldown_seconds\": 0}", "/v1/hardware/busy/policy"), 200);
    wait_jobs("busy", 2);
}
END_TEST

START_TEST(what_failed_is_not_asked_for_again_without_new_measurements)
{
    static const char policy[] = "{\"measurements\": 1, \"cooldown_seconds\": 0}";
    bb_put_hardware("single");
    for (int i = 0; i < 40; i++) { /* of one program: nothing can be compared */
        struct bb_text t = bb_record(0, 1e-3 + 1e-5 * i, 1700000000L + i);
        bb_counts(bb_lines(t.p, t.n, "/v1/hardware/single/measurements"), 1, 0, 0);
    }
    bb_status(bb_json("PUT", policy, "/v1/hardware/single/policy"), 200);
    wait_jobs("single", 1);
    ck_assert_str_eq(tc_str(bb_wait(tc_int(wait_job("single"), "/id", 0)), "/state"), "failed");
    bb_status(bb_json("PUT", policy, "/v1/hardware/single/policy"), 200);
    tc_sleep(1.5);
    ck_assert_uint_eq(json_array_size(jobs_of("single")), 1);
    post_records("single", 0, 1);
    wait_jobs("single", 2);
}
END_TEST

START_TEST(a_restart_does_not_lose_what_is_due)
{
    char *dir = bb_path("due");
    struct tc_daemon *d = bb_start(dir, NULL);
    bb_status(bb_json("PUT", "{\"target\": \"llvm\", \"family\": \"busy\"}", "/v1/hardware/first"), 201);
    bb_status(bb_json("PUT", "{\"target\": \"llvm\", \"family\": \"due\"}", "/v1/hardware/second"), 201);
    post_records("first", 0, 200);
    post_records("second", 0, 200);
    bb_retrain("first", "{\"mode\": \"finetune\", \"epochs\": 1000}");
    bb_status(bb_json("PUT", "{\"measurements\": 50, \"cooldown_seconds\": 0}", "/v1/hardware/second/policy"), 200);
    wait_jobs("second", 1); /* it waits for the other, where there is one thread for jobs */
    bb_stop(d);
    d = bb_start(dir, NULL);
    for (double until = tc_now() + 60; tc_now() < until; tc_sleep(0.05))
        if (!json_is_null(tc_at(bb_get("/v1/hardware/second")->json, "/active_model")))
            break;
    ck_assert(!json_is_null(tc_at(bb_get("/v1/hardware/second")->json, "/active_model")));
    bb_stop(d);
}
END_TEST

START_TEST(a_policy_is_checked_and_taken_back)
{
    bb_put_hardware("strict");
    bb_problem(bb_json("PUT", "{\"measurements\": 0}", "/v1/hardware/strict/policy"), 400, NULL);
    bb_problem(bb_json("PUT", "{\"drift\": 0.5}", "/v1/hardware/strict/policy"), 400, NULL);
    bb_problem(bb_json("PUT", "{\"when\": 1}", "/v1/hardware/strict/policy"), 400, NULL);
    bb_problem(bb_json("PUT", "{}", "/v1/hardware/nobody/policy"), 404, "unknown-hardware");
    bb_status(bb_json("PUT", "{\"drift\": 1.5}", "/v1/hardware/strict/policy"), 200);
    ck_assert_double_eq(tc_num(bb_get("/v1/hardware/strict")->json, "/policy/drift"), 1.5);
    bb_status(bb_json("PUT", "{}", "/v1/hardware/strict/policy"), 200);
    ck_assert(json_is_null(tc_at(bb_get("/v1/hardware/strict")->json, "/policy")));
}
END_TEST

/* ---- drift ---- */

static double gauge(const char *name, const char *hw)
{
    struct bb_reply *r = bb_get("/metrics");
    const char *at = strstr(r->body, bb_printf("\n%s{hardware=\"%s\"} ", name, hw).p);
    return at ? strtod(strchr(at, '}') + 1, NULL) : (double)NAN;
}

static double eight_times(double cost, bool failed)
{
    (void)failed;
    return 8 * cost;
}

static const json_t *drift_of(const char *hw, int64_t programs)
{
    for (double until = tc_now() + (bb_slow() ? 120 : 30); tc_now() < until; tc_sleep(0.02)) {
        const json_t *d = tc_at(bb_get("/v1/hardware/%s", hw)->json, "/drift");
        if (tc_int(d, "/programs", 0) >= programs)
            return d;
    }
    ck_abort_msg("%s: not compared: %s", hw, bb_get("/v1/hardware/%s", hw)->body);
    return NULL;
}

START_TEST(hardware_that_grew_slower_is_noticed_and_retrained)
{
    bb_put_hardware("aging");
    post_records("aging", 0, 300);
    bb_train("aging", "{\"mode\": \"finetune\", \"epochs\": 30}");
    bb_status(bb_json("PUT", "{\"drift\": 1.5, \"cooldown_seconds\": 0}", "/v1/hardware/aging/policy"), 200);
    post_records("aging", 300, 64);
    const json_t *d = drift_of("aging", 64);
    ck_assert_double_eq_tol(tc_num(d, "/error_ln"), tc_num(d, "/base_ln"), 1e-9);
    ck_assert(json_is_null(tc_at(d, "/ratio")));
    double was = tc_num(d, "/bias_ln");
    struct bb_text slower = bb_recost(bb_records(364, 140), eight_times);
    bb_counts(bb_lines(slower.p, slower.n, "/v1/hardware/aging/measurements"), 140, 0, 0);
    d = drift_of("aging", 204);
    ck_assert_msg(tc_num(d, "/bias_ln") - was > 1, "%s", json_dumps(d, 0));
    ck_assert_msg(tc_num(d, "/ratio") > 1.5, "%s", json_dumps(d, 0));
    double shown = NAN; /* a moment later */
    for (double until = tc_now() + 30; tc_now() < until && isnan(shown); tc_sleep(0.05))
        shown = gauge("tcld_model_latency_drift_ratio", "aging");
    ck_assert_double_eq_tol(shown, tc_num(d, "/ratio"), 1e-3);
    for (double until = tc_now() + 30; tc_now() < until && json_array_size(jobs_of("aging")) < 2; tc_sleep(0.05))
        ;
    ck_assert_uint_ge(json_array_size(jobs_of("aging")), 2);
    bb_status(bb_json("PUT", "{}", "/v1/hardware/aging/policy"), 200);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/starter");
    TCase *tc = bb_case_own(s, "starter", bb_slow() ? 120 : 30);
    tcase_add_test(tc, the_first_prediction_needs_no_training);
    tcase_add_test(tc, a_family_from_before_gets_it_at_the_next_start);
    tcase_add_test(tc, knowledge_outlives_the_hardware_of_its_family);
    tcase_add_test(tc, a_damaged_knowledge_base_is_named_and_another_one_can_be_made);
    tcase_add_test(tc, knowledge_of_another_kind_is_not_taken);
    tcase_add_test(tc, a_folder_without_knowledge_is_an_error);
    tc = bb_case(s, "policy", bb_slow() ? 300 : 120);
    tcase_add_test(tc, no_hardware_retrains_unasked);
    tcase_add_test(tc, a_policy_retrains_after_so_many_measurements_and_then_cools_down);
    tcase_add_test(tc, what_failed_is_not_asked_for_again_without_new_measurements);
    tcase_add_test(tc, a_restart_does_not_lose_what_is_due);
    tcase_add_test(tc, a_policy_is_checked_and_taken_back);
    tcase_add_test(tc, hardware_that_grew_slower_is_noticed_and_retrained);
    return bb_main(s);
}
