/* Candidates, selections, leases: what every route does and every way in which it refuses.
 *
 * All tests of a case share its daemon and each uses hardware names of its own, so that they do not meet. No clock
 * decides but as a generous upper bound; the one test of expiry waits for a lease of one second. */
#include "tests/http/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Lines of programs from .. from + n - 1 without a result. */
static struct bb_text unmeasured(int from, int n)
{
    struct bb_text part[512], nl = {(char *)"\n", 1};
    for (int i = 0; i < n; i++) {
        part[2 * i] = bb_unmeasured(from + i);
        part[2 * i + 1] = nl;
    }
    return bb_join(part, (size_t)n * 2);
}

static struct bb_reply *post(const char *hw, const char *what, struct bb_text t)
{
    return bb_lines(t.p, t.n, "/v1/hardware/%s/%s", hw, what);
}

static void pool(const char *hw, int from, int n)
{
    bb_counts(post(hw, "candidates", unmeasured(from, n)), n, 0, 0);
}

/* {pooled, selected, leased, measured, failed} of the hardware */
#define counts_are(hw, ...)                                                                                            \
    do {                                                                                                               \
        const int want_[] = {__VA_ARGS__};                                                                             \
        check_counts(__LINE__, hw, want_);                                                                             \
    } while (0)
static void check_counts(int line, const char *hw, const int want[5])
{
    static const char *const state[] = {"pooled", "selected", "leased", "measured", "failed"};
    struct bb_reply *r = bb_get("/v1/hardware/%s", hw);
    bb_status(r, 200);
    for (int i = 0; i < 5; i++) {
        int64_t got = tc_int(r->json, bb_printf("/counts/candidates/%s", state[i]).p, -1);
        if (got != want[i])
            bb_fail_at(__FILE__, line, "%s: %lld %s, not %d", hw, (long long)got, state[i], want[i]);
    }
}

static json_t *ended(const char *hw, const char *body)
{
    struct bb_reply *r = bb_json("POST", body, "/v1/hardware/%s/selections", hw);
    bb_status(r, 202);
    ck_assert_str_eq(tc_str(r->json, "/kind"), "selection");
    ck_assert_str_eq(bb_header(r, "Location"), bb_printf("/v1/jobs/%d", (int)tc_int(r->json, "/id", 0)).p);
    return bb_wait(tc_int(r->json, "/id", 0));
}

static const json_t *chosen(const char *hw, const char *body)
{
    json_t *j = ended(hw, body);
    ck_assert_msg(!strcmp(tc_str(j, "/state"), "succeeded"), "%s", json_dumps(j, 0));
    return json_object_get(j, "result");
}

static struct bb_reply *lease(const char *hw, const char *agent, int max, double ttl)
{
    struct bb_reply *r =
        bb_json("POST", bb_printf("{\"agent\": \"%s\", \"max\": %d, \"ttl_seconds\": %g}", agent, max, ttl).p,
                "/v1/hardware/%s/leases", hw);
    bb_status(r, 200);
    return r;
}

static size_t leased(const struct bb_reply *r)
{
    return json_array_size(json_object_get(r->json, "candidates"));
}

static int64_t leased_id(const struct bb_reply *r, size_t i)
{
    return tc_int(json_array_get(json_object_get(r->json, "candidates"), i), "/id", 0);
}

/* The i-th leased record with a result, as a line. */
static struct bb_text answer(const struct bb_reply *r, size_t i, const char *result)
{
    const json_t *rec = json_object_get(json_array_get(json_object_get(r->json, "candidates"), i), "record");
    char *inputs = json_dumps(json_object_get(rec, "i"), 0);
    struct bb_text t = bb_printf("{\"i\": %s, \"r\": %s, \"v\": \"v0.6\"}\n", inputs, result);
    free(inputs);
    return t;
}

/* The route takes JSON and at most 1 MiB of it. */
static void control_bodies_only(const char *path)
{
    enum { BIG = (1 << 20) + 1 };
    char *body = malloc(BIG);
    memset(body, ' ', BIG);
    struct tc_request q = {.method = "POST", .path = path, .body = body, .n = BIG, .content_type = "application/json"};
    bb_problem(bb_call(&q), 413, "body-too-large");
    q.n = 2;
    q.content_type = "application/x-ndjson";
    bb_problem(bb_call(&q), 415, "unsupported-media-type");
    free(body);
}

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
    ck_assert_str_eq(bb_header(r, "Allow"), "POST, GET, HEAD, OPTIONS");
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

/* ---- leases ---- */

START_TEST(a_lease_holds_the_highest_scores_as_records)
{
    bb_put_hardware("lease");
    pool("lease", 0, 40);
    const json_t *list = json_object_get(chosen("lease", "{\"budget\": 10}"), "selected");
    struct bb_reply *r = lease("lease", "rack7-n3", 4, 60), *s = lease("lease", "rack7-n4", 100, 60);
    ck_assert_uint_eq(leased(r), 4);
    ck_assert_uint_eq(strlen(tc_str(r->json, "/lease")), 32);
    ck_assert_str_ne(tc_str(r->json, "/lease"), tc_str(s->json, "/lease"));
    ck_assert_uint_eq(strlen(tc_str(r->json, "/expires")) >= 20, 1);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(leased_id(r, i), tc_int(json_array_get(list, i), "/id", 0));
        bb_counts(post("lease", "candidates", answer(r, i, "[[1], 0, 1, 1]")), 0, 1, 0);
    }
    ck_assert_uint_eq(leased(s), 5); /* an equal share of 10 by two */
    counts_are("lease", 30, 1, 9, 0, 0);
    struct bb_reply *c = bb_get("/v1/hardware/lease/candidates?state=leased&limit=1");
    ck_assert_ptr_nonnull(strstr(tc_str(c->json, "/items/0/agent"), "rack7-n"));
    ck_assert_ptr_nonnull(tc_str(c->json, "/items/0/expires"));
    ck_assert_ptr_null(strstr(c->body, tc_str(r->json, "/lease"))); /* a token is its holder's alone */
}
END_TEST

START_TEST(nothing_selected_is_an_empty_lease)
{
    bb_put_hardware("idle");
    for (int i = 0; i < 2; i++) {
        struct bb_reply *r = lease("idle", "a", 4, 60);
        ck_assert(json_is_null(json_object_get(r->json, "lease")));
        ck_assert(json_is_array(json_object_get(r->json, "candidates")));
        ck_assert_uint_eq(leased(r), 0);
        if (i == 0)
            pool("idle", 0, 3); /* pooled is not selected */
    }
}
END_TEST

START_TEST(a_measurement_closes_a_lease_whoever_posts_it)
{
    bb_put_hardware("closing");
    pool("closing", 0, 10);
    chosen("closing", "{\"fraction\": 1}");
    struct bb_reply *l = lease("closing", "a", 3, 60);
    struct bb_text good = answer(l, 0, "[[0.001], 0, 0.1, 1700000000]"),
                   bad = answer(l, 1, "[[1e+10], 4, 0.1, 1700000000]");
    bb_counts(post("closing", "measurements?agent=b", good), 1, 0, 0);
    counts_are("closing", 0, 7, 2, 1, 0);
    bb_counts(post("closing", "measurements?agent=a", good), 0, 1, 0); /* no answer came: posted again */
    bb_counts(post("closing", "measurements", bad), 1, 0, 0);
    counts_are("closing", 0, 7, 1, 1, 1);
    bb_counts(post("closing", "measurements", answer(l, 2, "[[0.002], 0, 0.1, 1700000000]")), 1, 0, 0);
    counts_are("closing", 0, 7, 0, 2, 1);
    bb_problem(bb_json("POST", "", "/v1/leases/%s/renew", tc_str(l->json, "/lease")), 404, "unknown-lease");
    bb_counts(post("closing", "candidates", good), 0, 1, 0);
    bb_counts(post("closing", "candidates", bad), 0, 1, 0);
    ck_assert_uint_eq(leased(lease("closing", "a", 100, 60)), 7);
}
END_TEST

START_TEST(a_duplicate_measurement_closes_a_lease_too)
{
    bb_put_hardware("again");
    bb_counts(post("again", "measurements", bb_records(0, 1)), 1, 0, 0);
    bb_counts(post("again", "candidates?repeat=2", unmeasured(0, 1)), 1, 0, 0);
    chosen("again", "{\"budget\": 1}");
    ck_assert_uint_eq(leased(lease("again", "a", 1, 60)), 1);
    bb_counts(post("again", "measurements", bb_records(0, 1)), 0, 1, 0);
    counts_are("again", 0, 1, 0, 0, 0);
    struct bb_reply *l = lease("again", "a", 1, 60);
    ck_assert_uint_eq(leased(l), 1);
    bb_counts(post("again", "measurements", answer(l, 0, "[[0.5], 0, 0.1, 1700000001]")), 1, 0, 0);
    counts_are("again", 0, 0, 0, 1, 0);
}
END_TEST

START_TEST(a_returned_lease_can_be_taken_at_once)
{
    bb_put_hardware("returning");
    pool("returning", 0, 6);
    chosen("returning", "{\"fraction\": 1}");
    struct bb_reply *l = lease("returning", "a", 6, 600);
    bb_counts(post("returning", "measurements", answer(l, 0, "[[0.001], 0, 0.1, 1]")), 1, 0, 0);
    struct bb_reply *r = bb_delete("/v1/leases/%s", tc_str(l->json, "/lease"));
    bb_status(r, 200);
    ck_assert_int_eq(tc_int(r->json, "/returned", -1), 5);
    counts_are("returning", 0, 5, 0, 1, 0);
    bb_problem(bb_delete("/v1/leases/%s", tc_str(l->json, "/lease")), 404, "unknown-lease");
    ck_assert_uint_eq(leased(lease("returning", "b", 6, 600)), 5);
}
END_TEST

START_TEST(a_lease_that_runs_out_gives_back_and_a_renewed_one_does_not)
{
    bb_put_hardware("expiring");
    pool("expiring", 0, 8);
    chosen("expiring", "{\"fraction\": 1}");
    struct bb_reply *dies = lease("expiring", "a", 3, 1), *lives = lease("expiring", "b", 3, 1);
    struct bb_reply *r =
        bb_json("POST", "{\"ttl_seconds\": 600}", "/v1/leases/%s/renew", tc_str(lives->json, "/lease"));
    bb_status(r, 200);
    ck_assert_str_eq(tc_str(r->json, "/lease"), tc_str(lives->json, "/lease"));
    ck_assert_str_gt(tc_str(r->json, "/expires"), tc_str(lives->json, "/expires"));
    ck_assert_int_eq(tc_int(r->json, "/open", -1), 3);
    for (int i = 0; i < 300; i++) { /* the sweep sees to it, without anybody asking for a lease */
        tc_sleep(0.1);
        r = bb_get("/v1/hardware/expiring");
        if (tc_int(r->json, "/counts/candidates/leased", -1) == 3)
            break;
    }
    counts_are("expiring", 0, 5, 3, 0, 0);
    bb_problem(bb_json("POST", "", "/v1/leases/%s/renew", tc_str(dies->json, "/lease")), 404, "unknown-lease");
    bb_problem(bb_delete("/v1/leases/%s", tc_str(dies->json, "/lease")), 404, "unknown-lease");
    r = bb_get("/metrics");
    ck_assert_ptr_nonnull(strstr(r->body, "tcld_leased_candidates_total{event=\"expired\"} 3"));
    /* a measurement that comes late counts all the same */
    bb_counts(post("expiring", "measurements", answer(dies, 0, "[[0.001], 0, 0.1, 1]")), 1, 0, 0);
    counts_are("expiring", 0, 4, 3, 1, 0);
}
END_TEST

START_TEST(bad_leases_are_refused)
{
    static const struct {
        const char *body, *slug, *says;
    } bad[] = {
        {"", "bad-parameter", "agent"},
        {"{\"max\": 3}", "bad-parameter", "agent"},
        {"{\"agent\": \"A\"}", "bad-identifier", "/agent"},
        {"{\"agent\": \"a\\u0000b\"}", "bad-identifier", "/agent"},
        {"{\"agent\": 7}", "bad-identifier", "/agent"},
        {"{\"agent\": \"a\", \"max\": 0}", "bad-parameter", "/max"},
        {"{\"agent\": \"a\", \"max\": 1025}", "bad-parameter", "1024"},
        {"{\"agent\": \"a\", \"max\": \"all\"}", "bad-parameter", "/max"},
        {"{\"agent\": \"a\", \"ttl_seconds\": 0}", "bad-parameter", "/ttl_seconds"},
        {"{\"agent\": \"a\", \"ttl_seconds\": 86401}", "bad-parameter", "86400"},
        {"{\"agent\": \"a\", \"ttl\": 60}", "unknown-key", "/ttl"},
        {"{\"agent\": \"a\"", "bad-body", ""},
    };
    bb_put_hardware("unleased");
    pool("unleased", 0, 3);
    chosen("unleased", "{\"fraction\": 1}");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct bb_reply *r = bb_json("POST", bad[i].body, "/v1/hardware/unleased/leases");
        bb_problem(r, 400, bad[i].slug);
        ck_assert_msg(strstr(r->body, bad[i].says) != NULL, "%s: %s", bad[i].body, r->body);
    }
    bb_problem(bb_json("POST", "{\"agent\": \"a\"}", "/v1/hardware/none-such/leases"), 404, "unknown-hardware");
    bb_problem(bb_json("POST", "{\"agent\": \"a\"}", "/v1/hardware/unleased/leases?max=3"), 400, "bad-parameter");
    counts_are("unleased", 0, 3, 0, 0, 0);
    struct bb_reply *l = lease("unleased", "a", 1, 60);
    const char *token = tc_str(l->json, "/lease");
    bb_problem(bb_json("POST", "{\"ttl_seconds\": 0}", "/v1/leases/%s/renew", token), 400, "bad-parameter");
    bb_problem(bb_json("POST", "{\"ttl_seconds\": 86401}", "/v1/leases/%s/renew", token), 400, "bad-parameter");
    bb_problem(bb_json("POST", "{\"max\": 1}", "/v1/leases/%s/renew", token), 400, "unknown-key");
    bb_problem(bb_json("POST", "{", "/v1/leases/%s/renew", token), 400, "bad-body");
    bb_problem(bb_json("POST", "", "/v1/leases/%s/renew?x=1", token), 400, "bad-parameter");
    bb_problem(bb_delete("/v1/leases/%s?x=1", token), 400, "bad-parameter");
    bb_problem(bb_json("POST", "", "/v1/leases/0123/renew"), 404, "unknown-lease");
    bb_problem(bb_delete("/v1/leases/%%27%%20or%%201=1"), 404, "unknown-lease");
    bb_problem(bb_get("/v1/leases/%s", token), 405, "method-not-allowed");
    bb_problem(bb_get("/v1/leases/%s/renew", token), 405, "method-not-allowed");
    bb_problem(bb_get("/v1/hardware/unleased/leases"), 405, "method-not-allowed");
    control_bodies_only("/v1/hardware/unleased/leases");
    control_bodies_only(bb_printf("/v1/leases/%s/renew", token).p);
    counts_are("unleased", 0, 2, 1, 0, 0);
}
END_TEST

START_TEST(deleting_hardware_takes_pool_and_leases_along)
{
    bb_put_hardware("gone");
    pool("gone", 0, 6);
    chosen("gone", "{\"budget\": 4}");
    struct bb_reply *l = lease("gone", "a", 2, 60);
    bb_counts(post("gone", "measurements", answer(l, 0, "[[0.001], 0, 0.1, 1]")), 1, 0, 0);
    bb_problem(bb_delete("/v1/hardware/gone"), 409, "conflict");
    bb_status(bb_delete("/v1/hardware/gone?purge=true"), 204);
    bb_problem(bb_delete("/v1/leases/%s", tc_str(l->json, "/lease")), 404, "unknown-lease");
    bb_put_hardware("gone");
    counts_are("gone", 0, 0, 0, 0, 0);
    pool("gone", 0, 6);
}
END_TEST

START_TEST(pool_selection_and_leases_survive_a_restart)
{
    char *dir = bb_path("kept");
    struct tc_daemon *d = bb_start(dir, NULL);
    bb_put_hardware("kept");
    pool("kept", 0, 9);
    chosen("kept", "{\"budget\": 6}");
    struct bb_reply *l = lease("kept", "a", 2, 600);
    tc_daemon_signal(d, SIGKILL);
    tc_daemon_wait(d, 30);
    tc_daemon_free(d);
    d = bb_start(dir, NULL);
    counts_are("kept", 3, 4, 2, 0, 0);
    bb_status(bb_json("POST", "", "/v1/leases/%s/renew", tc_str(l->json, "/lease")), 200);
    bb_counts(post("kept", "measurements", answer(l, 0, "[[0.001], 0, 0.1, 1]")), 1, 0, 0);
    counts_are("kept", 3, 4, 1, 1, 0);
    bb_stop(d);
}
END_TEST

static void limit_files(const struct tc_daemon *d, rlim_t bytes)
{
    struct rlimit l = {bytes, RLIM_INFINITY};
    ck_assert_int_eq(prlimit(tc_daemon_pid(d), RLIMIT_FSIZE, &l, NULL), 0);
}

/* No file can grow any more: every write is refused as 507, nothing is half done, and all goes on when there is room.
 */
START_TEST(a_full_disk_refuses_every_write_and_loses_nothing)
{
    struct tc_daemon *d = bb_start(bb_path("full"), NULL);
    bb_put_hardware("full");
    pool("full", 0, 9);
    chosen("full", "{\"budget\": 6}");
    struct bb_reply *l = lease("full", "a", 2, 600);
    const char *token = tc_str(l->json, "/lease");
    limit_files(d, 1);
    bb_problem(post("full", "candidates", unmeasured(100, 2)), 507, "disk-full");
    bb_problem(bb_json("POST", "{\"budget\": 1}", "/v1/hardware/full/selections"), 507, "disk-full");
    bb_problem(bb_json("POST", "{\"agent\": \"b\"}", "/v1/hardware/full/leases"), 507, "disk-full");
    bb_problem(bb_json("POST", "{\"ttl_seconds\": 700}", "/v1/leases/%s/renew", token), 507, "disk-full");
    bb_problem(bb_delete("/v1/leases/%s", token), 507, "disk-full");
    bb_problem(post("full", "measurements", answer(l, 0, "[[0.001], 0, 0.1, 1]")), 507, "disk-full");
    bb_status(bb_get("/v1/hardware/full/candidates"), 200);
    counts_are("full", 3, 4, 2, 0, 0);
    limit_files(d, RLIM_INFINITY);
    bb_counts(post("full", "measurements", answer(l, 0, "[[0.001], 0, 0.1, 1]")), 1, 0, 0);
    bb_status(bb_delete("/v1/leases/%s", token), 200);
    pool("full", 100, 2);
    chosen("full", "{\"budget\": 1}");
    counts_are("full", 4, 6, 0, 1, 0);
    bb_stop(d);
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
    tcase_add_test(tc, bad_selections_are_refused);
    tcase_add_test(tc, a_waiting_selection_can_be_cancelled_and_an_equal_one_is_the_first);
    tc = bb_case(s, "leases", 60);
    tcase_add_test(tc, a_lease_holds_the_highest_scores_as_records);
    tcase_add_test(tc, nothing_selected_is_an_empty_lease);
    tcase_add_test(tc, a_measurement_closes_a_lease_whoever_posts_it);
    tcase_add_test(tc, a_duplicate_measurement_closes_a_lease_too);
    tcase_add_test(tc, a_returned_lease_can_be_taken_at_once);
    tcase_add_test(tc, a_lease_that_runs_out_gives_back_and_a_renewed_one_does_not);
    tcase_add_test(tc, bad_leases_are_refused);
    tcase_add_test(tc, deleting_hardware_takes_pool_and_leases_along);
    tc = bb_case_own(s, "daemons of their own", 60);
    tcase_add_test(tc, the_pool_of_a_hardware_is_limited);
    tcase_add_test(tc, pool_selection_and_leases_survive_a_restart);
    tcase_add_test(tc, a_full_disk_refuses_every_write_and_loses_nothing);
    return bb_main(s);
}
