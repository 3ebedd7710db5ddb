/* What retraining tells of the models that it makes: in the job's result, in the model's row, in the weights file. And
 * what it tells when it had no time, or when another model came while it ran. */
#include "tests/http/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 12 /* of the demo's */, MANY = 30 /* sources, more than a weights file has room for */ };

static void put(const char *hw, const char *family)
{
    bb_status(bb_json("PUT", bb_printf("{\"family\": \"%s\", \"target\": \"llvm\"}", family).p, "/v1/hardware/%s", hw),
              201);
}

static void measured(const char *hw, const char *family)
{
    put(hw, family);
    bb_post_demo(hw, 0, TASKS);
}

static int64_t kb_of(const char *hw)
{
    return tc_int(bb_get("/v1/hardware/%s", hw)->json, "/kb_model", 0);
}

static const json_t *row(int64_t model)
{
    struct bb_reply *r = bb_get("/v1/models/%lld", (long long)model);
    bb_status(r, 200);
    return r->json;
}

/* The header of a weights file. */
static json_t *header(const struct bb_reply *file)
{
    uint64_t n = 0;
    memcpy(&n, file->body, 8);
    json_t *head = json_loadb(file->body + 8, n, 0, NULL);
    ck_assert_ptr_nonnull(head);
    return head;
}

/* What the file says of itself under `key`; the caller's. */
static json_t *in_file(int64_t model, const char *key)
{
    struct bb_reply *file = bb_get("/v1/models/%lld/weights", (long long)model);
    bb_status(file, 200);
    json_t *head = header(file),
           *o = json_loads(json_string_value(json_object_get(json_object_get(head, "__metadata__"), key)), 0, NULL);
    ck_assert_msg(json_is_object(o), "model %lld tells no %s", (long long)model, key);
    json_decref(head);
    return o;
}

/* Share of the tensors of a that are others in b. */
static double moved(int64_t a, int64_t b)
{
    struct bb_reply *f[2] = {bb_get("/v1/models/%lld/weights", (long long)a),
                             bb_get("/v1/models/%lld/weights", (long long)b)};
    json_t *head[2] = {header(f[0]), header(f[1])}, *x;
    const char *name, *data[2];
    int n = 0, differ = 0;
    for (int i = 0; i < 2; i++) {
        uint64_t size = 0;
        memcpy(&size, f[i]->body, 8);
        data[i] = f[i]->body + 8 + size;
    }
    json_object_foreach(head[0], name, x)
    {
        if (!strcmp(name, "__metadata__") || strchr("af", name[0]) || !strncmp(name, "start.", 6))
            continue; /* anchor.*, fisher.* */
        json_t *y = json_object_get(head[1], name);
        json_int_t from[2] = {tc_int(x, "/data_offsets/0", -1), tc_int(y, "/data_offsets/0", -1)},
                   to = tc_int(x, "/data_offsets/1", -1);
        n++;
        differ += memcmp(data[0] + from[0], data[1] + from[1], (size_t)(to - from[0])) != 0;
    }
    json_decref(head[0]);
    json_decref(head[1]);
    ck_assert_int_gt(n, 10);
    return (double)differ / n;
}

static void wait_phase(int64_t job, const char *phase)
{
    for (double until = tc_now() + 60; tc_now() < until; tc_sleep(0.005)) {
        const char *now = tc_str(bb_get("/v1/jobs/%lld", (long long)job)->json, "/phase");
        if (now && !strcmp(now, phase))
            return;
    }
    ck_abort_msg("job %lld never came to phase %s", (long long)job, phase);
}

/* ---- no time ---- */

/* What was learned was learned: an epoch at least, however little time there is. */
static void an_epoch_was_made(const json_t *learned)
{
    ck_assert_int_eq(tc_int(learned, "/epoch", 0), 1);
    ck_assert_int_gt(tc_int(learned, "/epochs", 0), 1);
    ck_assert(json_is_number(tc_at(learned, "/loss")));
}

START_TEST(a_time_limit_leaves_each_training_an_epoch)
{
    static const char *const limit[] = {"1e-9", "0.01"};
    measured("slow", "hasty");
    bb_train("slow", "{\"mode\": \"adapt\", \"epochs\": 3}");
    for (int i = 0; i < 2; i++) {
        char *hw = bb_printf("hasty-%d", i).p;
        int64_t before = kb_of("slow");
        measured(hw, "hasty");
        json_t *job = bb_train(hw, bb_printf("{\"mode\": \"adapt\", \"max_seconds\": %s}", limit[i]).p);
        an_epoch_was_made(tc_at(job, "/result/learned"));
        ck_assert_int_eq(tc_int(job, "/result/epoch", 0), 1);
        ck_assert_int_eq(tc_int(job, "/epoch", 0), 1);
        ck_assert(json_is_number(tc_at(job, "/loss")));
        ck_assert_double_gt(moved(tc_int(job, "/result/model", 0), before), 0.9);
        int64_t kb = tc_int(job, "/result/kb/model", 0);
        if (kb) {
            an_epoch_was_made(tc_at(row(kb), "/metrics/learned"));
            ck_assert_double_gt(moved(kb, before), 0.9);
        }
    }
    json_t *job = bb_train("slow", "{\"mode\": \"finetune\", \"max_seconds\": 1e-9}");
    an_epoch_was_made(tc_at(job, "/result/learned"));
    ck_assert_int_eq(tc_int(job, "/result/epoch", 0), 1);
    if (strcmp(tc_str(job, "/result/decision"), "activated") == 0) /* else the epoch was no better than none */
        ck_assert_double_gt(moved(tc_int(job, "/result/model", 0), tc_int(job, "/result/champion/model", 0)), 0.9);
}
END_TEST

/* ---- provenance ---- */

/* The same in all three places. */
static void told_everywhere(const json_t *job, const char *path, int64_t model)
{
    json_t *file = in_file(model, "training");
    const json_t *in_row = tc_at(row(model), bb_printf("/metrics%s", path).p);
    ck_assert_msg(in_row != NULL && !json_is_null(in_row), "the row tells no %s", path);
    ck_assert_msg(json_equal(in_row, tc_at(file, path)), "the file tells another %s", path);
    if (job)
        ck_assert_msg(json_equal(in_row, tc_at(job, bb_printf("/result%s", path).p)), "the job tells another %s", path);
    json_decref(file);
}

static void all_told(const json_t *job, int64_t model, const char *const *path)
{
    for (; *path; path++)
        told_everywhere(job, *path, model);
}

START_TEST(a_model_of_its_own_tells_how_it_was_made)
{
    static const char *const path[] = {"/mode",         "/seed",       "/watermark",      "/decision",
                                       "/reason",       "/gain",       "/start",          "/learned/epoch",
                                       "/learned/loss", "/challenger", "/champion/model", NULL};
    measured("mine", "mine");
    bb_train("mine", "{\"mode\": \"finetune\", \"epochs\": 2, \"seed\": 4}");
    json_t *job = bb_train("mine", "{\"mode\": \"finetune\", \"epochs\": 2, \"seed\": 5}");
    all_told(job, tc_int(job, "/result/model", 0), path);
    ck_assert_int_eq(tc_int(job, "/result/seed", 0), 5);
    ck_assert_int_eq(tc_int(job, "/result/learned/epoch", 0), 2);
}
END_TEST

START_TEST(an_adapted_model_and_what_it_taught_tell_how_they_were_made)
{
    static const char *const ac[] = {"/mode",         "/seed",    "/watermark", "/decision", "/reason",
                                     "/learned/loss", "/gate",    "/kb_gate",   "/rivals",   "/against_kb",
                                     "/challenger",   "/holdout", "/start",     NULL};
    static const char *const kb[] = {"/mode",         "/seed", "/watermark",  "/decision", "/learned/epoch",
                                     "/learned/loss", "/gate", "/acceptance", "/after",    NULL};
    measured("tells-1", "tells");
    json_t *job = bb_train("tells-1", "{\"mode\": \"adapt\", \"epochs\": 2, \"seed\": 1}");
    all_told(NULL, tc_int(job, "/result/kb/model", 0), kb);
    measured("tells-2", "tells");
    job = bb_train("tells-2", "{\"mode\": \"adapt\", \"epochs\": 2, \"seed\": 2}");
    all_told(job, tc_int(job, "/result/model", 0), ac);
    ck_assert(json_is_null(tc_at(job, "/result/source")));
    if (tc_int(job, "/result/kb/model", 0))
        all_told(NULL, tc_int(job, "/result/kb/model", 0), kb);
}
END_TEST

START_TEST(a_knowledge_base_of_several_sources_tells_how_each_was_learned)
{
    static const char *const path[] = {"/mode",   "/seed",  "/watermark",    "/decision", "/reason",
                                       "/phases", "/after", "/source_count", NULL};
    measured("src-1", "src");
    measured("src-2", "src");
    json_t *job = bb_train("src-1", "{\"mode\": \"pretrain\", \"epochs\": 2}");
    int64_t id = tc_int(job, "/result/model", 0);
    all_told(job, id, path);
    ck_assert_int_eq(tc_int(row(id), "/tasks", 0), TASKS); /* of both, the same */
    ck_assert_str_eq(tc_str(job, "/result/sources/0/lesson/decision"), "founded");
    ck_assert_str_eq(tc_str(job, "/result/sources/0/lesson/gate/decision"), "scratch");
    ck_assert_int_eq(tc_int(job, "/result/sources/0/lesson/ac/epoch", 0), 2);
    ck_assert(json_is_null(tc_at(job, "/result/sources/0/lesson/kb")));
    const json_t *second = tc_at(job, "/result/sources/1/lesson");
    ck_assert_str_eq(tc_str(second, "/gate/decision"), "warm");
    ck_assert(json_is_number(tc_at(second, "/ac/loss")));
    ck_assert(json_is_number(tc_at(second, "/kb/loss")));
    ck_assert(json_is_number(tc_at(second, "/lambda")));
    ck_assert(json_is_number(tc_at(second, "/balance")));
    bool accepted = json_is_true(tc_at(job, "/result/sources/1/learned"));
    ck_assert_str_eq(tc_str(second, "/decision"), accepted ? "accepted" : "refused");
    ck_assert_ptr_nonnull(strstr(tc_str(second, "/reason"), accepted ? ": accepted." : ": refused."));
    json_t *file = in_file(id, "training");
    ck_assert_str_eq(tc_str(file, "/sources/1/decision"), tc_str(second, "/decision"));
    ck_assert_double_eq(tc_num(file, "/sources/1/ac_loss"), tc_num(second, "/ac/loss"));
    json_decref(file);
    file = in_file(id, "metrics");
    ck_assert_double_eq(tc_num(file, "/pairwise"), tc_num(job, "/result/after/pairwise"));
    json_decref(file);
}
END_TEST

START_TEST(of_many_sources_the_file_tells_the_first)
{
    for (int i = 0; i < MANY; i++) {
        char *hw = bb_printf("a-machine-with-a-name-as-long-as-names-may-be-in-this-fleet-%03d", i).p;
        put(hw, "many");
        bb_post_demo(hw, 0, 2);
    }
    json_t *job = bb_train("a-machine-with-a-name-as-long-as-names-may-be-in-this-fleet-000",
                           "{\"mode\": \"pretrain\", \"epochs\": 1, \"per_task\": 20}");
    ck_assert_uint_eq(json_array_size(tc_at(job, "/result/sources")), MANY);
    json_t *file = in_file(tc_int(job, "/result/model", 0), "training");
    size_t told = json_array_size(json_object_get(file, "sources"));
    ck_assert_int_eq(tc_int(file, "/source_count", 0), MANY);
    ck_assert(told > 5 && told < MANY);
    ck_assert_str_eq(tc_str(file, "/sources/0/hardware"),
                     "a-machine-with-a-name-as-long-as-names-may-be-in-this-fleet-000");
    ck_assert_ptr_nonnull(strstr(bb_log(bb_daemon()), "event=training-shortened"));
    json_decref(file);
}
END_TEST

/* ---- another model came meanwhile ---- */

/* A knowledge base that nobody uses yet, of a family that has none. */
static int64_t aside(const char *hw)
{
    json_t *job = bb_train(hw, "{\"mode\": \"pretrain\", \"epochs\": 1, \"activate\": \"never\"}");
    ck_assert_int_eq(kb_of(hw), 0);
    return tc_int(job, "/result/model", 0);
}

/* The job, in whose phase "learn" the family got another knowledge base. */
static json_t *overtaken(const char *hw, const char *body, int64_t by)
{
    int64_t id = bb_retrain(hw, body);
    wait_phase(id, "learn");
    bb_status(bb_json("POST", bb_printf("{\"model\": %lld}", (long long)by).p, "/v1/families/%s/activate", hw), 200);
    json_t *job = bb_wait(id);
    ck_assert_str_eq(tc_str(job, "/state"), "succeeded");
    ck_assert_int_eq(kb_of(hw), by);
    return job;
}

static void is_aside(int64_t model)
{
    const json_t *r = row(model);
    ck_assert_str_eq(tc_str(r, "/state"), "candidate");
    ck_assert(json_is_false(tc_at(r, "/active")));
    told_everywhere(NULL, "/decision", model);
    ck_assert_str_eq(tc_str(r, "/metrics/decision"), "overtaken");
}

START_TEST(a_lesson_that_was_overtaken_says_so_everywhere)
{
    measured("late", "late");
    json_t *job = overtaken("late", "{\"mode\": \"adapt\", \"epochs\": 10}", aside("late"));
    ck_assert_str_eq(tc_str(job, "/result/decision"), "activated");
    ck_assert_str_eq(tc_str(job, "/result/kb/decision"), "overtaken");
    ck_assert_ptr_nonnull(strstr(tc_str(job, "/result/kb/reason"), "Another knowledge base was activated meanwhile."));
    is_aside(tc_int(job, "/result/kb/model", 0));

    /* nor must the other one remember what it has not learned */
    measured("later", "late");
    job = bb_train("later", "{\"mode\": \"adapt\", \"epochs\": 2}");
    ck_assert(json_is_null(tc_at(job, "/result/kb/worst")));
}
END_TEST

START_TEST(a_pretraining_that_was_overtaken_says_so_everywhere)
{
    measured("later-still", "later-still");
    json_t *job = overtaken("later-still", "{\"mode\": \"pretrain\", \"epochs\": 4}", aside("later-still"));
    ck_assert_str_eq(tc_str(job, "/result/decision"), "overtaken");
    ck_assert(json_is_false(tc_at(job, "/result/active")));
    ck_assert_ptr_nonnull(strstr(tc_str(job, "/result/reason"), "Another knowledge base was activated meanwhile."));
    is_aside(tc_int(job, "/result/model", 0));
}
END_TEST

/* Every program as fast as any other: nothing that is held out tells two models apart. A failure would be slower. */
static double flat(double cost, bool failed)
{
    (void)cost;
    return failed ? (double)NAN : 1e-3;
}

/* Where nothing tells, a model is good enough if there is no other: so it founds the knowledge of its family, but by
 * the time that it is to answer there is another. */
START_TEST(what_a_model_taught_that_does_not_answer_is_withdrawn)
{
    measured("other", "other");
    int64_t good = tc_int(bb_train("other", "{\"mode\": \"finetune\", \"epochs\": 1}"), "/result/model", 0);
    struct bb_text t = bb_recost(bb_demo(0, 3), flat);
    put("beaten", "beaten");
    bb_status(bb_lines(t.p, t.n, "/v1/hardware/beaten/measurements"), 200);
    int64_t id = bb_retrain("beaten", "{\"mode\": \"adapt\", \"epochs\": 50}");
    wait_phase(id, "learn");
    struct bb_reply *w = bb_get("/v1/models/%lld/weights", (long long)good);
    struct bb_reply *r = bb_call(&(struct tc_request){.method = "POST",
                                                      .path = "/v1/hardware/beaten/models?activate=true",
                                                      .body = w->body,
                                                      .n = w->n,
                                                      .content_type = "application/octet-stream"});
    bb_status(r, 201);
    int64_t better = tc_int(bb_get("/v1/hardware/beaten")->json, "/active_model", 0);
    json_t *job = bb_wait(id);
    ck_assert_str_eq(tc_str(job, "/result/decision"), "kept-champion");
    ck_assert_str_eq(tc_str(job, "/result/kb/decision"), "withdrawn");
    ck_assert_ptr_nonnull(strstr(tc_str(job, "/result/kb/reason"), "But the model that taught it does not answer."));
    ck_assert(json_is_null(tc_at(job, "/result/kb/model")));
    ck_assert_int_eq(kb_of("beaten"), 0);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/beaten")->json, "/active_model", 0), better);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/adapt story");
    TCase *tc = bb_case(s, "no time", bb_slow() ? 300 : 60);
    tcase_add_test(tc, a_time_limit_leaves_each_training_an_epoch);
    tc = bb_case(s, "provenance", bb_slow() ? 600 : 120);
    tcase_add_test(tc, a_model_of_its_own_tells_how_it_was_made);
    tcase_add_test(tc, an_adapted_model_and_what_it_taught_tell_how_they_were_made);
    tcase_add_test(tc, a_knowledge_base_of_several_sources_tells_how_each_was_learned);
    tcase_add_test(tc, of_many_sources_the_file_tells_the_first);
    tc = bb_case(s, "meanwhile", bb_slow() ? 600 : 120);
    tcase_add_test(tc, a_lesson_that_was_overtaken_says_so_everywhere);
    tcase_add_test(tc, a_pretraining_that_was_overtaken_says_so_everywhere);
    tcase_add_test(tc, what_a_model_taught_that_does_not_answer_is_withdrawn);
    return bb_main(s);
}
