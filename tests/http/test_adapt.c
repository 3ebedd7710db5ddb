/* Continual distillation over HTTP: adapt, knowledge bases and their history, who resembles whom, pretraining.
 *
 * The tests of a case share its daemon and build on each other in their order: the first hardware founds the knowledge
 * of its family, the next ones learn from it. */
#include "tests/http/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUICK "{\"mode\": \"adapt\", \"epochs\": 2, \"seed\": 1}"

enum { TASKS = 12 /* of the demo's */ };

static void put(const char *hw, const char *family, const char *target, const char *descriptor)
{
    struct bb_text t = bb_printf("{\"family\": \"%s\", \"target\": \"%s\", \"descriptor\": %s}", family, target,
                                 descriptor ? descriptor : "{}");
    bb_status(bb_json("PUT", t.p, "/v1/hardware/%s", hw), 201);
}

/* What was slow becomes fast. */
static double reversed(double cost, bool failed)
{
    (void)failed;
    return 1e-7 / cost;
}

static int64_t kb_of(const char *family)
{
    struct bb_reply *r = bb_get("/v1/families");
    bb_status(r, 200);
    const json_t *items = json_object_get(r->json, "items"), *x;
    size_t i;
    json_array_foreach(items, i, x)
    {
        if (!strcmp(tc_str(x, "/family"), family))
            return tc_int(x, "/kb_model", 0);
    }
    return 0;
}

static const json_t *answered_by(const char *hw, const char *query)
{
    struct bb_text t = bb_demo(0, 1);
    struct bb_reply *r = bb_lines(t.p, strcspn(t.p, "\n") + 1, "/v1/hardware/%s/predict%s", hw, query);
    bb_status(r, 200);
    ck_assert(json_is_number(tc_at(r->json, "/scores/0")));
    return tc_at(r->json, "/model");
}

/* ---- one family ---- */

START_TEST(the_first_hardware_founds_the_knowledge_of_its_family)
{
    put("one", "fam", "llvm -mcpu=core-avx2", "{\"num_cores\": 8, \"l2_bytes\": 1048576}");
    ck_assert_int_eq(kb_of("fam"), 0);
    bb_post_demo("one", 0, TASKS);
    json_t *job = bb_train("one", QUICK);
    ck_assert_str_eq(tc_str(job, "/result/decision"), "activated");
    ck_assert_str_eq(tc_str(job, "/result/gate/decision"), "scratch");
    ck_assert_str_eq(tc_str(job, "/result/start"), "scratch");
    ck_assert_str_eq(tc_str(job, "/result/kb/decision"), "founded");
    ck_assert_int_gt(tc_int(job, "/result/watermark", 0), 0);
    ck_assert(tc_num(job, "/result/challenger/pairwise") > 0.5);
    ck_assert_int_eq(kb_of("fam"), tc_int(job, "/result/kb/model", 0));
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/one")->json, "/active_model", 0), tc_int(job, "/result/model", 0));
}
END_TEST

START_TEST(every_model_tells_where_it_comes_from)
{
    struct bb_reply *list = bb_get("/v1/families/fam/models"), *file, *ac;
    bb_status(list, 200);
    ck_assert_uint_eq(json_array_size(tc_at(list->json, "/items")), 1);
    ck_assert_str_eq(tc_str(list->json, "/items/0/role"), "kb");
    ck_assert_str_eq(tc_str(list->json, "/items/0/family"), "fam");
    ck_assert(json_is_true(tc_at(list->json, "/items/0/active")));
    ck_assert_str_eq(tc_str(list->json, "/items/0/metrics/decision"), "founded");
    ck_assert_str_eq(tc_str(list->json, "/items/0/metrics/hardware"), "one");
    int64_t kb = tc_int(list->json, "/items/0/id", 0), own = tc_int(list->json, "/items/0/parents/0", 0);
    ac = bb_get("/v1/models/%lld", (long long)own);
    ck_assert_str_eq(tc_str(ac->json, "/role"), "ac");
    ck_assert_str_eq(tc_str(ac->json, "/metrics/mode"), "adapt");
    ck_assert_int_gt(tc_int(ac->json, "/metrics/learned/epochs", 0), 0);
    ck_assert(json_is_number(tc_at(ac->json, "/metrics/learned/loss")));

    /* and so do the files */
    file = bb_get("/v1/models/%lld/weights", (long long)kb);
    bb_status(file, 200);
    uint64_t n = 0;
    memcpy(&n, file->body, 8);
    json_t *head = json_loadb(file->body + 8, n, 0, NULL), *meta = json_object_get(head, "__metadata__");
    ck_assert_ptr_nonnull(head);
    ck_assert_str_eq(tc_str(meta, "/kind"), "cpu");
    ck_assert_str_eq(tc_str(meta, "/phases"), "1");
    ck_assert_str_eq(tc_str(meta, "/seed"), "1");
    ck_assert_ptr_nonnull(json_object_get(head, "fisher.embed.0.weight"));
    json_t *training = json_loads(tc_str(meta, "/training"), 0, NULL);
    ck_assert_str_eq(tc_str(training, "/mode"), "adapt");
    ck_assert_int_gt(tc_int(training, "/watermark", 0), 0);
    ck_assert_ptr_nonnull(tc_at(training, "/gate/reason"));
    ck_assert_ptr_nonnull(tc_at(training, "/acceptance/reason"));
    json_decref(training);
    json_decref(head);
}
END_TEST

START_TEST(new_hardware_is_answered_by_the_knowledge_of_its_family)
{
    put("two", "fam", "llvm -mcpu=core-avx2", "{\"num_cores\": 4, \"l2_bytes\": 1048576}");
    const json_t *m = answered_by("two", "");
    ck_assert_str_eq(tc_str(m, "/role"), "kb");
    ck_assert_int_eq(tc_int(m, "/id", 0), kb_of("fam"));
    ck_assert_str_eq(tc_str(answered_by("one", ""), "/role"), "ac");
    ck_assert_int_eq(tc_int(answered_by("one", "?model=kb"), "/id", 0), kb_of("fam"));
    struct bb_text t = bb_demo(0, 1);
    bb_problem(bb_lines(t.p, t.n, "/v1/hardware/two/predict?model=ac"), 409, "no-model");
}
END_TEST

START_TEST(related_hardware_starts_from_what_is_known_and_gives_back)
{
    int64_t before = kb_of("fam");
    bb_post_demo("two", 0, TASKS);
    json_t *job = bb_train("two", "{\"epochs\": 2, \"seed\": 3}"); /* no mode: there is knowledge */
    ck_assert_str_eq(tc_str(job, "/params/mode"), "adapt");
    ck_assert_str_eq(tc_str(job, "/result/gate/decision"), "warm");
    ck_assert_str_eq(tc_str(job, "/result/start"), "warm");
    ck_assert(json_is_null(tc_at(job, "/result/source"))); /* one's model is no better than what it has founded */
    ck_assert(tc_num(job, "/result/gate/lower") >= 0.7);
    ck_assert(json_is_object(tc_at(job, "/result/against_kb")));
    ck_assert_int_gt(tc_int(job, "/result/rivals/tasks", 0), 1);
    ck_assert(json_is_number(tc_at(job, "/result/rivals/quality/kb")));
    ck_assert(strcmp(tc_str(job, "/result/rivals/winner"), "scratch") != 0); /* is only asked when in doubt */
    const char *decision = tc_str(job, "/result/decision"), *kb = tc_str(job, "/result/kb/decision");
    struct bb_reply *ac = bb_get("/v1/models/%lld", (long long)tc_int(job, "/result/model", 0));
    ck_assert_int_eq(tc_int(ac->json, "/parents/0", 0), before);
    ck_assert_str_eq(tc_str(ac->json, "/metrics/rivals/winner"), tc_str(job, "/result/rivals/winner"));
    if (strcmp(decision, "activated") != 0)
        ck_assert_str_eq(kb, "untouched");
    if (strcmp(kb, "accepted") == 0) {
        int64_t now = kb_of("fam");
        struct bb_reply *new = bb_get("/v1/models/%lld", (long long)now);
        ck_assert_int_gt(now, before);
        ck_assert_int_eq(tc_int(new->json, "/parents/1", 0), before);
        ck_assert_str_eq(tc_str(new->json, "/metrics/older/0/hardware"), "one");
        ck_assert(tc_num(new->json, "/metrics/older/0/before/top1_mean") -
                      tc_num(new->json, "/metrics/older/0/after/top1_mean") <=
                  0.02);
    } else {
        ck_assert_int_eq(kb_of("fam"), before);
    }
}
END_TEST

START_TEST(similar_hardware_is_measured_by_the_gate)
{
    put("gpu", "gpus", "cuda -arch=sm_80", NULL);
    struct bb_reply *r = bb_get("/v1/hardware/two/similar");
    bb_status(r, 200);
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/items")), 2);
    ck_assert_str_eq(tc_str(r->json, "/items/0/hardware"), "one");
    ck_assert(tc_num(r->json, "/items/0/similarity") > 0.5);
    ck_assert(tc_num(r->json, "/items/0/measured_transfer_gain") > 0.7);
    ck_assert(json_is_true(tc_at(r->json, "/items/0/recommended")));
    ck_assert_str_eq(tc_str(r->json, "/items/1/hardware"), "gpu");
    ck_assert_double_eq(tc_num(r->json, "/items/1/similarity"), 0);
    ck_assert(json_is_null(tc_at(r->json, "/items/1/measured_transfer_gain")));
    ck_assert(json_is_false(tc_at(r->json, "/items/1/recommended")));
    bb_problem(bb_get("/v1/hardware/nobody/similar"), 404, "unknown-hardware");
}
END_TEST

/* New hardware of the family on which what is slow is fast, adapted: the job. */
static json_t *adapted_mirror(const char *hw)
{
    struct bb_text t = bb_recost(bb_demo(0, TASKS), reversed);
    put(hw, "fam", "llvm -mcpu=core-avx2", NULL);
    bb_status(bb_lines(t.p, t.n, "/v1/hardware/%s/measurements", hw), 200);
    return bb_train(hw, QUICK);
}

START_TEST(knowledge_that_does_not_help_is_kept_out)
{
    int64_t before = kb_of("fam");
    json_t *job = adapted_mirror("mirror");
    ck_assert_str_eq(tc_str(job, "/result/gate/decision"), "scratch");
    ck_assert_str_eq(tc_str(job, "/result/kb/decision"), "untouched");
    ck_assert_str_eq(tc_str(job, "/result/decision"), "activated");
    ck_assert_int_eq(kb_of("fam"), before);
    struct bb_reply *r = bb_get("/v1/hardware/mirror/similar");
    ck_assert(json_is_false(tc_at(r->json, "/items/0/recommended")));
    ck_assert(json_is_number(tc_at(r->json, "/items/0/measured_transfer_gain")));
}
END_TEST

/* The family's knowledge was refused, but a machine like this one has a model of its own. */
START_TEST(another_machine_of_the_same_kind_begins_with_the_first_ones_model)
{
    int64_t before = kb_of("fam");
    json_t *job = adapted_mirror("mirror-2");
    ck_assert_str_eq(tc_str(job, "/result/peer"), "mirror");
    ck_assert_str_eq(tc_str(job, "/result/source"), "mirror");
    ck_assert_str_eq(tc_str(job, "/result/start"), "warm");
    ck_assert_ptr_nonnull(strstr(tc_str(job, "/result/gate/reason"), "mirror"));
    ck_assert_str_eq(tc_str(job, "/result/decision"), "activated");
    ck_assert_str_eq(tc_str(job, "/result/kb/decision"), "untouched");
    ck_assert_int_eq(kb_of("fam"), before);
    struct bb_reply *first = bb_get("/v1/hardware/mirror");
    int64_t model = tc_int(first->json, "/active_model", 0);
    struct bb_reply *r = bb_get("/v1/models/%lld", (long long)tc_int(job, "/result/model", 0));
    ck_assert_int_gt(model, 0);
    ck_assert_int_eq(tc_int(r->json, "/parents/0", 0), model);
    ck_assert_str_eq(tc_str(r->json, "/metrics/source"), "mirror");
}
END_TEST

START_TEST(pretraining_makes_a_knowledge_base_of_several_sources)
{
    int64_t before = kb_of("fam");
    json_t *job =
        bb_train("one", "{\"mode\": \"pretrain\", \"epochs\": 2, \"per_task\": 40, \"sources\": [\"two\", \"one\"]}");
    ck_assert_str_eq(tc_str(job, "/result/sources/0/hardware"), "two");
    ck_assert_str_eq(tc_str(job, "/result/sources/1/hardware"), "one");
    ck_assert_int_eq(tc_int(job, "/result/champion", 0), before);
    ck_assert(json_is_true(tc_at(job, "/result/sources/0/learned")));
    ck_assert(json_is_number(tc_at(job, "/result/sources/0/after/pairwise")));
    int64_t id = tc_int(job, "/result/model", 0);
    bool active = !strcmp(tc_str(job, "/result/decision"), "activated");
    ck_assert_int_eq(kb_of("fam"), active ? id : before);
    ck_assert_str_eq(tc_str(bb_get("/v1/models/%lld", (long long)id)->json, "/metrics/mode"), "pretrain");
}
END_TEST

/* "two", which has a probe set too, is no source. */
START_TEST(pretraining_is_bound_by_hardware_that_is_no_source)
{
    json_t *job = bb_train("one", "{\"mode\": \"pretrain\", \"epochs\": 1, \"sources\": [\"one\"]}");
    ck_assert_str_eq(tc_str(job, "/state"), "succeeded");
    ck_assert_uint_eq(json_array_size(tc_at(job, "/result/sources")), 1);
}
END_TEST

START_TEST(a_candidate_knowledge_base_is_activated_and_rolled_back)
{
    int64_t before = kb_of("fam");
    json_t *job =
        bb_train("one", "{\"mode\": \"pretrain\", \"epochs\": 1, \"activate\": \"never\", \"sources\": [\"one\"]}");
    int64_t id = tc_int(job, "/result/model", 0);
    ck_assert_str_eq(tc_str(job, "/result/decision"), "candidate");
    ck_assert_int_eq(kb_of("fam"), before);
    ck_assert_int_eq(tc_int(answered_by("one", bb_printf("?model=%lld", (long long)id).p), "/id", 0), id);

    struct bb_reply *r = bb_json("POST", bb_printf("{\"model\": %lld}", (long long)id).p, "/v1/families/fam/activate");
    bb_status(r, 200);
    ck_assert(json_is_true(tc_at(r->json, "/active")));
    ck_assert_int_eq(tc_int(answered_by("one", "?model=kb"), "/id", 0), id);
    bb_status(bb_json("POST", bb_printf("{\"model\": %lld}", (long long)before).p, "/v1/families/fam/activate"), 200);
    ck_assert_int_eq(tc_int(answered_by("one", "?model=kb"), "/id", 0), before);
}
END_TEST

/* A model that was only a candidate is not what answered before. */
START_TEST(hardware_goes_back_to_the_knowledge_of_its_family)
{
    int64_t ac = tc_int(bb_get("/v1/hardware/two")->json, "/active_model", 0);
    json_t *job = bb_train("two", "{\"mode\": \"finetune\", \"epochs\": 1, \"activate\": \"never\"}");
    int64_t candidate = tc_int(job, "/result/model", 0);
    ck_assert_int_ne(ac, 0);
    ck_assert(json_is_null(tc_at(bb_get("/v1/models/%lld", (long long)candidate)->json, "/activated")));
    const char *before = tc_str(bb_get("/v1/models/%lld", (long long)ac)->json, "/activated");
    ck_assert_ptr_nonnull(before);

    struct bb_reply *r = bb_json("POST", "{\"model\": \"kb\"}", "/v1/hardware/two/activate");
    bb_status(r, 200);
    ck_assert_int_eq(tc_int(r->json, "/id", 0), kb_of("fam"));
    ck_assert(json_is_null(tc_at(bb_get("/v1/hardware/two")->json, "/active_model")));
    ck_assert_int_eq(tc_int(answered_by("two", ""), "/id", 0), kb_of("fam"));
    bb_status(bb_json("POST", "{\"model\": \"kb\"}", "/v1/hardware/two/activate"), 200); /* no error */

    bb_status(bb_json("POST", bb_printf("{\"model\": %lld}", (long long)candidate).p, "/v1/hardware/two/activate"),
              200);
    bb_status(bb_json("POST", bb_printf("{\"model\": %lld}", (long long)ac).p, "/v1/hardware/two/activate"), 200);
    ck_assert_int_eq(tc_int(answered_by("two", ""), "/id", 0), ac);
    const char *after = tc_str(bb_get("/v1/models/%lld", (long long)ac)->json, "/activated"),
               *other = tc_str(bb_get("/v1/models/%lld", (long long)candidate)->json, "/activated");
    ck_assert_str_gt(other, before);
    ck_assert_str_gt(after, other);
    bb_problem(bb_json("POST", "{\"model\": \"ac\"}", "/v1/hardware/two/activate"), 400, "bad-parameter");
    bb_problem(bb_json("POST", "{\"model\": \"kb\"}", "/v1/families/fam/activate"), 400, "bad-parameter");
}
END_TEST

START_TEST(an_activation_of_what_is_no_knowledge_base_is_refused)
{
    long long ac = tc_int(bb_get("/v1/hardware/one")->json, "/active_model", 0), kb = kb_of("fam");
    bb_problem(bb_json("POST", bb_printf("{\"model\": %lld}", ac).p, "/v1/families/fam/activate"), 409, "conflict");
    bb_problem(bb_json("POST", bb_printf("{\"model\": %lld}", kb).p, "/v1/families/gpus/activate"), 409, "conflict");
    bb_problem(bb_json("POST", "{\"model\": 9999}", "/v1/families/fam/activate"), 404, "unknown-model");
    bb_problem(bb_json("POST", "{\"model\": 1}", "/v1/families/nobody/activate"), 404, "unknown-family");
    bb_problem(bb_json("POST", "{}", "/v1/families/fam/activate"), 400, NULL);
    bb_problem(bb_json("POST", bb_printf("{\"model\": %lld}", kb).p, "/v1/hardware/one/activate"), 409, "conflict");
}
END_TEST

/* ---- what is refused ---- */

START_TEST(cpus_and_gpus_share_no_family)
{
    put("cpu", "kinds", "llvm", NULL);
    bb_problem(bb_json("PUT", "{\"family\": \"kinds\", \"target\": \"cuda\"}", "/v1/hardware/gpu1"), 409, "conflict");
    bb_status(bb_json("PUT", "{\"target\": \"cuda\"}", "/v1/hardware/gpu1"), 201);
    struct bb_reply *r = bb_get("/v1/families");
    ck_assert_str_eq(tc_str(r->json, "/items/0/family"), "gpu");
    ck_assert_str_eq(tc_str(r->json, "/items/0/kind"), "gpu");
    ck_assert_str_eq(tc_str(r->json, "/items/1/kind"), "cpu");
}
END_TEST

START_TEST(sources_that_cannot_be_are_refused)
{
    put("lone", "lone", "llvm", NULL);
    bb_problem(bb_json("POST", "{\"mode\": \"adapt\"}", "/v1/hardware/lone/retrain"), 409, "not-enough-data");
    bb_problem(bb_json("POST", "{\"mode\": \"finetune\", \"sources\": [\"lone\"]}", "/v1/hardware/lone/retrain"), 400,
               NULL);
    bb_problem(
        bb_json("POST", "{\"mode\": \"pretrain\", \"sources\": [\"lone\", \"lone\"]}", "/v1/hardware/lone/retrain"),
        400, NULL);
    bb_problem(bb_json("POST", "{\"mode\": \"pretrain\", \"sources\": [\"nobody\"]}", "/v1/hardware/lone/retrain"), 404,
               "unknown-hardware");
    json_t *job = bb_wait(bb_retrain("lone", "{\"mode\": \"pretrain\"}"));
    ck_assert_ptr_nonnull(strstr(tc_str(job, "/error"), "not-enough-data"));
    bb_status(bb_json("PUT", "{\"target\": \"hexagon\"}", "/v1/hardware/dsp"), 201);
    bb_problem(bb_json("POST", "{\"mode\": \"adapt\"}", "/v1/hardware/dsp/retrain"), 400, NULL);
}
END_TEST

START_TEST(a_cancelled_adapt_leaves_no_trace)
{
    put("stopped", "stopped", "llvm", NULL);
    bb_post_demo("stopped", 0, 4);
    int64_t id = bb_retrain("stopped", "{\"mode\": \"adapt\", \"epochs\": 1000}");
    for (double until = tc_now() + 60; tc_now() < until; tc_sleep(0.02)) {
        const char *phase = tc_str(bb_get("/v1/jobs/%lld", (long long)id)->json, "/phase");
        if (phase && !strcmp(phase, "learn"))
            break;
    }
    bb_status(bb_delete("/v1/jobs/%lld", (long long)id), 202);
    ck_assert_str_eq(tc_str(bb_wait(id), "/state"), "cancelled");
    ck_assert_uint_eq(json_array_size(tc_at(bb_get("/v1/hardware/stopped/models")->json, "/items")), 0);
    ck_assert_int_eq(kb_of("stopped"), 0);
}
END_TEST

START_TEST(a_candidate_teaches_nobody)
{
    put("shy", "shy", "llvm", NULL);
    bb_post_demo("shy", 0, 4);
    json_t *job = bb_train("shy", "{\"mode\": \"adapt\", \"epochs\": 1, \"activate\": \"never\"}");
    ck_assert_str_eq(tc_str(job, "/result/decision"), "candidate");
    ck_assert_str_eq(tc_str(job, "/result/kb/decision"), "untouched");
    ck_assert_int_eq(kb_of("shy"), 0);
    ck_assert(json_is_null(tc_at(bb_get("/v1/hardware/shy")->json, "/active_model")));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/adapt");
    TCase *tc = bb_case(s, "family", bb_slow() ? 600 : 120);
    tcase_add_test(tc, the_first_hardware_founds_the_knowledge_of_its_family);
    tcase_add_test(tc, every_model_tells_where_it_comes_from);
    tcase_add_test(tc, new_hardware_is_answered_by_the_knowledge_of_its_family);
    tcase_add_test(tc, related_hardware_starts_from_what_is_known_and_gives_back);
    tcase_add_test(tc, similar_hardware_is_measured_by_the_gate);
    tcase_add_test(tc, knowledge_that_does_not_help_is_kept_out);
    tcase_add_test(tc, another_machine_of_the_same_kind_begins_with_the_first_ones_model);
    tcase_add_test(tc, pretraining_makes_a_knowledge_base_of_several_sources);
    tcase_add_test(tc, pretraining_is_bound_by_hardware_that_is_no_source);
    tcase_add_test(tc, a_candidate_knowledge_base_is_activated_and_rolled_back);
    tcase_add_test(tc, hardware_goes_back_to_the_knowledge_of_its_family);
    tcase_add_test(tc, an_activation_of_what_is_no_knowledge_base_is_refused);
    tc = bb_case(s, "refused", bb_slow() ? 300 : 60);
    tcase_add_test(tc, cpus_and_gpus_share_no_family);
    tcase_add_test(tc, sources_that_cannot_be_are_refused);
    tcase_add_test(tc, a_cancelled_adapt_leaves_no_trace);
    tcase_add_test(tc, a_candidate_teaches_nobody);
    return bb_main(s);
}
