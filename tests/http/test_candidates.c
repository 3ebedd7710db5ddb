/* Candidates and selections, and how they are taken back: what every route does and every way in which it refuses.
 *
 * All tests of a case share its daemon and each uses hardware names of its own, so that they do not meet. */
#include "tests/http/pool.h"

#include <math.h>
#include <stdio.h>

/* ---- candidates ---- */

START_TEST(candidates_come_in_any_form_and_once)
{
    bb_put_hardware("forms");
    bb_counts(post("forms", "candidates", unmeasured(0, 10)), 10, 0, 0);
    bb_counts(post("forms", "candidates", unmeasured(5, 10)), 5, 5, 0);
    struct bb_text t =
        bb_printf("{\"records\": [%s, %s, %s]}", bb_unmeasured(20).p, bb_unmeasured(0).p, bb_unmeasured(20).p);
    bb_counts(bb_json("POST", t.p, "/v1/hardware/forms/candidates"), 1, 2, 0);
    t = bb_printf("{\"task\": " BB_TASK ", \"states\": [%s, %s]}", bb_state(20).p, bb_state(21).p);
    bb_counts(bb_json("POST", t.p, "/v1/hardware/forms/candidates"), 1, 1, 0);
    counts_are("forms", 17, 0, 0, 0, 0);
}
END_TEST

START_TEST(a_result_is_ignored_even_a_malformed_one)
{
    bb_put_hardware("results");
    bb_counts(post("results", "candidates", bb_records(0, 3)), 3, 0, 0);
    struct bb_text t = bb_printf("{\"i\": [" BB_TASK ", %s], \"r\": \"none\", \"v\": \"v0.6\"}\n", bb_state(9).p);
    bb_counts(post("results", "candidates", t), 1, 0, 0);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/results")->json, "/counts/measurements", -1), 0);
}
END_TEST

START_TEST(measured_programs_are_duplicates_until_more_are_wanted)
{
    bb_put_hardware("twice");
    bb_counts(post("twice", "measurements", bb_records(0, 4)), 4, 0, 0);
    bb_counts(post("twice", "candidates", unmeasured(0, 5)), 1, 4, 0);
    bb_counts(post("twice", "candidates?repeat=2", unmeasured(0, 5)), 4, 1, 0);
    bb_counts(post("twice", "candidates?repeat=2", unmeasured(0, 5)), 0, 5, 0);
    counts_are("twice", 5, 0, 0, 0, 0);
}
END_TEST

START_TEST(an_unusable_candidate_is_told_and_hurts_no_other)
{
    static const char bad_step[] = "{\"i\": [" BB_TASK ", [[], [[\"XX\", 2, 0]]]]}\n";
    static const char gpu[] =
        "{\"i\": [[\"[\\\"k\\\"]\", \"cuda -arch=sm_80\", [0, 0, 0, 0, 0, 0, 0, 0], \"\", 1, []], "
        "[[], []]]}\n";
    struct bb_text part[] = {
        unmeasured(0, 1), {(char *)bad_step, strlen(bad_step)}, {(char *)gpu, strlen(gpu)}, {(char *)"{\"i\"", 4}};
    bb_put_hardware("unusable");
    struct bb_reply *r = post("unusable", "candidates", bb_join(part, 4));
    bb_counts(r, 1, 0, 3);
    const char *const code[] = {"unknown-step", "wrong-target", "bad-json"};
    for (int i = 0; i < 3; i++) {
        ck_assert_str_eq(tc_str(r->json, bb_printf("/errors/%d/code", i).p), code[i]);
        ck_assert_int_eq(tc_int(r->json, bb_printf("/errors/%d/index", i).p, -1), i + 1);
        ck_assert_int_eq(tc_int(r->json, bb_printf("/errors/%d/line", i).p, -1), i + 2);
    }
    counts_are("unusable", 1, 0, 0, 0, 0);
}
END_TEST

START_TEST(bad_posts_of_candidates_are_refused_whole)
{
    struct bb_text t = unmeasured(0, 2);
    bb_put_hardware("refused");
    bb_problem(post("none-such", "candidates", t), 404, "unknown-hardware");
    bb_problem(post("refused", "candidates?repeat=0", t), 400, "bad-parameter");
    bb_problem(post("refused", "candidates?repeat=x", t), 400, "bad-parameter");
    bb_problem(post("refused", "candidates?repeat=1001", t), 400, "bad-parameter");
    bb_problem(post("refused", "candidates?repeat=", t), 400, "bad-parameter");
    bb_problem(post("refused", "candidates?agent=a", t), 400, "bad-parameter");
    bb_problem(post("refused", "candidates", bb_printf("\n")), 400, "no-records");
    bb_problem(bb_json("POST", "{\"records\": [], \"x\": 1}", "/v1/hardware/refused/candidates"), 400, NULL);
    bb_problem(bb_json("POST", "[", "/v1/hardware/refused/candidates"), 400, "bad-body");
    bb_problem(bb_call(&(struct tc_request){.method = "POST",
                                            .path = "/v1/hardware/refused/candidates",
                                            .body = t.p,
                                            .n = t.n,
                                            .content_type = "text/plain"}),
               415, "unsupported-media-type");
    struct bb_reply *r = bb_call(&(struct tc_request){.method = "PUT", .path = "/v1/hardware/refused/candidates"});
    bb_problem(r, 405, "method-not-allowed");
    ck_assert_str_eq(bb_header(r, "Allow"), "POST, GET, HEAD, DELETE, OPTIONS");
    counts_are("refused", 0, 0, 0, 0, 0);
}
END_TEST

START_TEST(lists_are_pages_and_can_be_one_state)
{
    bb_put_hardware("listed");
    pool("listed", 0, 7);
    bb_counts(post("listed", "measurements", bb_records(0, 2)), 2, 0, 0);
    int n = 0;
    int64_t last = 0;
    const char *cursor = "";
    for (int pages = 0; cursor; pages++) {
        ck_assert_int_lt(pages, 4);
        struct bb_reply *r = bb_get("/v1/hardware/listed/candidates?limit=3%s%s", *cursor ? "&cursor=" : "", cursor);
        bb_status(r, 200);
        size_t i;
        const json_t *c;
        json_array_foreach(json_object_get(r->json, "items"), i, c)
        {
            ck_assert_int_gt(tc_int(c, "/id", 0), last);
            last = tc_int(c, "/id", 0);
            ck_assert_uint_eq(strlen(tc_str(c, "/task")), 16);
            ck_assert_str_eq(tc_str(c, "/state"), n < 2 ? "measured" : "pooled");
            ck_assert_int_eq(tc_int(c, "/measurements", -1), n < 2);
            ck_assert_int_eq(tc_int(c, "/repeat", -1), 1);
            ck_assert(json_is_null(json_object_get(c, "score")));
            ck_assert(json_is_null(json_object_get(c, "agent")));
            n++;
        }
        cursor = tc_str(r->json, "/next_cursor");
    }
    ck_assert_int_eq(n, 7);
    struct bb_reply *r = bb_get("/v1/hardware/listed/candidates?state=measured");
    ck_assert_uint_eq(json_array_size(json_object_get(r->json, "items")), 2);
    r = bb_get("/v1/hardware/listed/candidates?state=leased");
    ck_assert_uint_eq(json_array_size(json_object_get(r->json, "items")), 0);
    bb_problem(bb_get("/v1/hardware/listed/candidates?state=gone"), 400, "bad-parameter");
    bb_problem(bb_get("/v1/hardware/listed/candidates?limit=0"), 400, "bad-parameter");
    bb_problem(bb_get("/v1/hardware/listed/candidates?cursor=%%21"), 400, "bad-parameter");
    bb_problem(bb_get("/v1/hardware/listed/candidates?x=1"), 400, "bad-parameter");
    bb_problem(bb_get("/v1/hardware/none-such/candidates"), 404, "unknown-hardware");
}
END_TEST

/* ---- taking back ---- */

static void takes_back(const char *hw, const char *state, int unselected, int removed)
{
    struct bb_reply *r = bb_delete("/v1/hardware/%s/candidates?state=%s", hw, state);
    bb_status(r, 200);
    ck_assert_int_eq(tc_int(r->json, "/unselected", -1), unselected);
    ck_assert_int_eq(tc_int(r->json, "/removed", -1), removed);
}

START_TEST(a_selection_by_mistake_is_taken_back)
{
    bb_put_hardware("mistake");
    pool("mistake", 0, 12);
    chosen("mistake", "{\"fraction\": 1}");
    ck_assert_uint_eq(leased(lease("mistake", "a", 2, 60)), 2);
    takes_back("mistake", "selected", 10, 0);
    counts_are("mistake", 10, 0, 2, 0, 0);
    const struct bb_reply *r = bb_get("/v1/hardware/mistake/candidates?state=pooled&limit=1");
    ck_assert(json_is_null(tc_at(r->json, "/items/0/score")));
    ck_assert(json_is_null(tc_at(r->json, "/items/0/selection")));
    ck_assert_uint_eq(leased(lease("mistake", "b", 2, 60)), 0);
    takes_back("mistake", "selected", 0, 0);
    chosen("mistake", "{\"budget\": 3}");
    counts_are("mistake", 7, 3, 2, 0, 0);
}
END_TEST

START_TEST(what_is_pooled_can_be_removed_and_posted_again)
{
    bb_put_hardware("emptied");
    pool("emptied", 0, 12);
    chosen("emptied", "{\"budget\": 3}");
    takes_back("emptied", "pooled", 0, 9);
    counts_are("emptied", 0, 3, 0, 0, 0);
    takes_back("emptied", "pooled", 0, 0);
    bb_counts(post("emptied", "candidates", unmeasured(0, 12)), 9, 3, 0);
    bb_counts(post("emptied", "measurements", bb_records(0, 12)), 12, 0, 0);
    takes_back("emptied", "pooled", 0, 0);
    counts_are("emptied", 0, 0, 0, 12, 0);
}
END_TEST

/* It ends well, and what it did not choose in time is gone and stays so. */
START_TEST(a_selection_does_not_bring_back_what_is_removed_meanwhile)
{
    bb_put_hardware("racing");
    for (int round = 0; round < 4; round++) {
        pool("racing", 0, 200);
        struct bb_reply *r = bb_json("POST", "{\"fraction\": 1}", "/v1/hardware/racing/selections");
        bb_status(r, 202);
        tc_sleep(0.01 * round);
        int64_t removed = tc_int(bb_delete("/v1/hardware/racing/candidates?state=pooled")->json, "/removed", -1);
        const json_t *end = bb_wait(tc_int(r->json, "/id", 0));
        ck_assert_str_eq(tc_str(end, "/state"), "succeeded");
        int64_t count = tc_int(end, "/result/count", -1);
        ck_assert_int_eq(count + removed, 200);
        counts_are("racing", 0, (int)count, 0, 0, 0);
        takes_back("racing", "selected", (int)count, 0);
        takes_back("racing", "pooled", 0, (int)count);
    }
}
END_TEST

START_TEST(only_pooled_and_selected_candidates_are_taken_back)
{
    static const char *const bad[] = {"", "?state=", "?state=leased", "?state=measured", "?state=failed", "?state=x"};
    bb_put_hardware("kept");
    pool("kept", 0, 6);
    chosen("kept", "{\"budget\": 4}");
    ck_assert_uint_eq(leased(lease("kept", "a", 2, 60)), 2);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct bb_reply *r = bb_delete("/v1/hardware/kept/candidates%s", bad[i]);
        bb_problem(r, 400, "bad-parameter");
        ck_assert_msg(strstr(tc_str(r->json, "/detail"), "state") != NULL, "%s: %s", bad[i], r->body);
    }
    ck_assert_ptr_nonnull(strstr(bb_delete("/v1/hardware/kept/candidates?state=leased")->body, "/leases"));
    bb_problem(bb_delete("/v1/hardware/kept/candidates?state=pooled&limit=1"), 400, "bad-parameter");
    bb_problem(bb_delete("/v1/hardware/none-such/candidates?state=pooled"), 404, "unknown-hardware");
    bb_problem(bb_delete("/v1/hardware/No/candidates?state=pooled"), 400, "bad-identifier");
    counts_are("kept", 2, 2, 2, 0, 0);
}
END_TEST

START_TEST(the_pool_of_a_hardware_is_limited)
{
    static const char *const args[] = {
        "--limit-candidates", "10", "--limit-lease-candidates", "4", "--lease-max-seconds", "100", NULL};
    struct tc_daemon *d = bb_start(bb_path("limited"), args);
    bb_put_hardware("small");
    pool("small", 0, 8);
    struct bb_reply *r = post("small", "candidates", unmeasured(8, 3));
    bb_problem(r, 429, "too-many-requests");
    ck_assert_ptr_nonnull(strstr(r->body, "limit_candidates"));
    ck_assert_ptr_nonnull(strstr(r->body, "DELETE /v1/hardware/small/candidates?state=pooled"));
    ck_assert_ptr_nonnull(bb_header(r, "Retry-After"));
    counts_are("small", 8, 0, 0, 0, 0);
    pool("small", 8, 2);
    bb_counts(post("small", "measurements", bb_records(0, 5)), 5, 0, 0);
    pool("small", 20, 5);
    chosen("small", "{\"fraction\": 1, \"method\": \"random\"}");
    bb_problem(bb_json("POST", "{\"agent\": \"a\", \"max\": 5}", "/v1/hardware/small/leases"), 400, "bad-parameter");
    bb_problem(bb_json("POST", "{\"agent\": \"a\", \"ttl_seconds\": 101}", "/v1/hardware/small/leases"), 400,
               "bad-parameter");
    r = bb_json("POST", "{\"agent\": \"a\"}", "/v1/hardware/small/leases");
    bb_status(r, 200);
    ck_assert_uint_eq(leased(r), 4);
    takes_back("small", "selected", 6, 0);
    bb_problem(post("small", "candidates", unmeasured(40, 1)), 429, "too-many-requests");
    takes_back("small", "pooled", 0, 6);
    pool("small", 40, 6);
    bb_stop(d);
}
END_TEST

/* ---- selections ---- */

START_TEST(a_selection_lists_what_it_chose)
{
    static const char *const method[] = {"rdu", "random", "uncertainty", "coreset", "representative"};
    for (size_t m = 0; m < sizeof method / sizeof *method; m++) {
        const char *hw = bb_printf("by-%s", method[m]).p;
        bb_put_hardware(hw);
        pool(hw, 0, 40);
        const json_t *res = chosen(hw, bb_printf("{\"budget\": 12, \"method\": \"%s\"}", method[m]).p);
        const json_t *list = json_object_get(res, "selected"), *c;
        double before = INFINITY;
        size_t i;
        ck_assert_str_eq(tc_str(res, "/method"), method[m]);
        ck_assert_int_eq(tc_int(res, "/pooled", -1), 40);
        ck_assert_int_eq(tc_int(res, "/count", -1), 12);
        ck_assert(json_is_null(json_object_get(res, "model")));
        ck_assert_uint_eq(json_array_size(list), 12);
        json_array_foreach(list, i, c)
        {
            double score = tc_num(c, "/score");
            ck_assert_int_gt(tc_int(c, "/id", 0), 0);
            ck_assert(json_object_get(c, "r") && json_object_get(c, "d") && json_object_get(c, "u"));
            ck_assert(!(score > before));
            before = score;
        }
        counts_are(hw, 28, 12, 0, 0, 0);
        struct bb_reply *r = bb_get("/v1/hardware/%s/candidates?state=selected", hw);
        ck_assert_uint_eq(json_array_size(json_object_get(r->json, "items")), 12);
    }
}
END_TEST

START_TEST(a_fraction_is_of_what_is_pooled_and_rounded_up)
{
    bb_put_hardware("part");
    pool("part", 0, 41);
    chosen("part", "{\"fraction\": 0.1}");
    struct bb_reply *jobs = bb_get("/v1/jobs?hardware=part");
    ck_assert_msg(strstr(jobs->body, "\"fraction\": 0.1,") != NULL, "%s", jobs->body); /* as it was given */
    counts_are("part", 36, 5, 0, 0, 0);
    chosen("part", "{\"fraction\": 0.1, \"seed\": 5}");
    counts_are("part", 32, 9, 0, 0, 0);
    chosen("part", "{\"budget\": 1000}");
    counts_are("part", 0, 41, 0, 0, 0);
}
END_TEST

START_TEST(one_seed_chooses_the_same)
{
    int64_t first[20];
    for (int k = 0; k < 2; k++) {
        const char *hw = k ? "seed-b" : "seed-a";
        bb_put_hardware(hw);
        pool(hw, 0, 60);
        int64_t base = tc_int(bb_get("/v1/hardware/%s/candidates?limit=1", hw)->json, "/items/0/id", 0);
        const json_t *list = json_object_get(chosen(hw, "{\"budget\": 20, \"seed\": 3}"), "selected");
        for (size_t i = 0; i < 20; i++) {
            int64_t id = tc_int(json_array_get(list, i), "/id", 0) - base;
            if (k == 0)
                first[i] = id;
            ck_assert_int_eq(id, first[i]);
        }
    }
}
END_TEST

START_TEST(a_selection_uses_the_model_and_what_is_measured)
{
    bb_put_hardware("modelled");
    bb_post_demo("modelled", 0, 2);
    bb_train("modelled", "{\"epochs\": 2, \"seed\": 1}");
    struct bb_text all = bb_demo(2, 1);
    size_t n = bb_line_count(all.p, all.n);
    bb_counts(post("modelled", "candidates", all), (long)n, 0, 0);
    for (int i = 0; i < 2; i++) {
        const json_t *res =
            chosen("modelled", i ? "{\"budget\": 10, \"weights\": {\"r\": 0.5, \"u\": 1}}" : "{\"budget\": 10}");
        ck_assert_int_gt(tc_int(res, "/model", 0), 0);
        ck_assert_int_gt(tc_int(res, "/known", 0), 10);
        ck_assert_int_eq(tc_int(res, "/count", 0), 10);
        ck_assert(tc_num(res, "/selected/0/u") >= 0 && tc_num(res, "/selected/0/u") <= 1);
    }
    counts_are("modelled", (int)n - 20, 20, 0, 0, 0);
}
END_TEST

START_TEST(what_is_measured_has_its_seats_whatever_the_method)
{
    static const char *const method[] = {"rdu", "random"};
    for (size_t m = 0; m < 2; m++) {
        const char *hw = bb_printf("seats-%s", method[m]).p;
        bb_put_hardware(hw);
        bb_counts(post(hw, "measurements", bb_records(0, 30)), 30, 0, 0);
        pool(hw, 30, 30);
        const json_t *res = chosen(hw, bb_printf("{\"budget\": 6, \"method\": \"%s\"}", method[m]).p);
        ck_assert_int_eq(tc_int(res, "/known", -1), 30);
    }
}
END_TEST

START_TEST(what_is_wanted_again_is_chosen_among_the_others)
{
    bb_put_hardware("anew");
    bb_counts(post("anew", "measurements", bb_records(0, 40)), 40, 0, 0);
    bb_counts(post("anew", "candidates?repeat=2", unmeasured(0, 80)), 80, 0, 0);
    const json_t *res = chosen("anew", "{\"budget\": 40}");
    ck_assert_int_eq(tc_int(res, "/known", -1), 0);
    struct bb_reply *r = bb_get("/v1/hardware/anew/candidates?state=selected&limit=100");
    int again = 0;
    for (size_t i = 0; i < 40; i++)
        again += tc_int(r->json, bb_printf("/items/%zu/measurements", i).p, -1) == 1;
    ck_assert_int_ge(again, 10); /* half of the pool, half of the choice but for chance */
    ck_assert_int_le(again, 30);
}
END_TEST

START_TEST(bad_selections_are_refused)
{
    static const struct {
        const char *body, *slug, *says;
    } bad[] = {
        {"{}", "bad-parameter", "fraction"},
        {"", "bad-parameter", "budget"},
        {"{\"budget\": 3, \"fraction\": 0.5}", "bad-parameter", "not both"},
        {"{\"budget\": 0}", "bad-parameter", "/budget"},
        {"{\"budget\": 1.5}", "bad-parameter", "/budget"},
        {"{\"fraction\": 0}", "bad-parameter", "/fraction"},
        {"{\"fraction\": 1.01}", "bad-parameter", "/fraction"},
        {"{\"fraction\": \"all\"}", "bad-parameter", "/fraction"},
        {"{\"budget\": 1, \"method\": \"best\"}", "bad-parameter", "coreset"},
        {"{\"budget\": 1, \"seed\": -1}", "bad-parameter", "/seed"},
        {"{\"budget\": 1, \"weights\": 3}", "bad-parameter", "/weights"},
        {"{\"budget\": 1, \"weights\": {\"x\": 1}}", "unknown-key", "r, d, u"},
        {"{\"budget\": 1, \"weights\": {\"r\": 2}}", "bad-parameter", "/weights/r"},
        {"{\"budget\": 1, \"weights\": {\"u\": null}}", "bad-parameter", "/weights/u"},
        {"{\"budget\": 1, \"method\": \"random\", \"weights\": {\"r\": 1}}", "bad-parameter", "rdu"},
        {"{\"budget\": 1, \"count\": 3}", "unknown-key", "/count"},
        {"[1]", "bad-body", ""},
        {"{", "bad-body", ""},
    };
    bb_put_hardware("unselected");
    bb_problem(bb_json("POST", "{\"budget\": 3}", "/v1/hardware/unselected/selections"), 409, "conflict");
    pool("unselected", 0, 3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct bb_reply *r = bb_json("POST", bad[i].body, "/v1/hardware/unselected/selections");
        bb_problem(r, 400, bad[i].slug);
        ck_assert_msg(strstr(r->body, bad[i].says) != NULL, "%s: %s", bad[i].body, r->body);
    }
    bb_problem(bb_json("POST", "{\"budget\": 3}", "/v1/hardware/none-such/selections"), 404, "unknown-hardware");
    bb_problem(bb_json("POST", "{\"budget\": 3}", "/v1/hardware/unselected/selections?x=1"), 400, "bad-parameter");
    bb_problem(bb_get("/v1/hardware/unselected/selections"), 405, "method-not-allowed");
    control_bodies_only("/v1/hardware/unselected/selections");
    counts_are("unselected", 3, 0, 0, 0, 0);
}
END_TEST

START_TEST(a_waiting_selection_can_be_cancelled_and_an_equal_one_is_the_first)
{
    bb_put_hardware("queue");
    bb_post_demo("queue", 0, 3);
    pool("queue", 0, 30);
    int64_t training = bb_retrain("queue", "{\"epochs\": 500}"); /* holds the job thread of a small machine */
    struct bb_reply *a = bb_json("POST", "{\"budget\": 5}", "/v1/hardware/queue/selections");
    bb_status(a, 202);
    if (!strcmp(tc_str(a->json, "/state"), "queued")) {
        struct bb_reply *b = bb_json("POST", "{\"budget\": 5}", "/v1/hardware/queue/selections");
        bb_status(b, 200);
        ck_assert_int_eq(tc_int(b->json, "/id", 0), tc_int(a->json, "/id", -1));
        struct bb_reply *c = bb_delete("/v1/jobs/%d", (int)tc_int(a->json, "/id", 0));
        ck_assert_msg(c->status == 200, "%s", c->body);
        ck_assert_str_eq(tc_str(c->json, "/state"), "cancelled");
        counts_are("queue", 30, 0, 0, 0, 0);
    }
    bb_delete("/v1/jobs/%d", (int)training);
    bb_wait(training);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/candidates");
    TCase *tc = bb_case(s, "candidates", 60);
    tcase_add_test(tc, candidates_come_in_any_form_and_once);
    tcase_add_test(tc, a_result_is_ignored_even_a_malformed_one);
    tcase_add_test(tc, measured_programs_are_duplicates_until_more_are_wanted);
    tcase_add_test(tc, an_unusable_candidate_is_told_and_hurts_no_other);
    tcase_add_test(tc, bad_posts_of_candidates_are_refused_whole);
    tcase_add_test(tc, lists_are_pages_and_can_be_one_state);
    tc = bb_case(s, "selections", 60);
    tcase_add_test(tc, a_selection_lists_what_it_chose);
    tcase_add_test(tc, a_fraction_is_of_what_is_pooled_and_rounded_up);
    tcase_add_test(tc, one_seed_chooses_the_same);
    tcase_add_test(tc, a_selection_uses_the_model_and_what_is_measured);
    tcase_add_test(tc, what_is_measured_has_its_seats_whatever_the_method);
    tcase_add_test(tc, what_is_wanted_again_is_chosen_among_the_others);
    tcase_add_test(tc, bad_selections_are_refused);
    tcase_add_test(tc, a_waiting_selection_can_be_cancelled_and_an_equal_one_is_the_first);
    tc = bb_case(s, "taking back", 60);
    tcase_add_test(tc, a_selection_by_mistake_is_taken_back);
    tcase_add_test(tc, what_is_pooled_can_be_removed_and_posted_again);
    tcase_add_test(tc, a_selection_does_not_bring_back_what_is_removed_meanwhile);
    tcase_add_test(tc, only_pooled_and_selected_candidates_are_taken_back);
    tc = bb_case_own(s, "daemons of their own", 60);
    tcase_add_test(tc, the_pool_of_a_hardware_is_limited);
    return bb_main(s);
}
