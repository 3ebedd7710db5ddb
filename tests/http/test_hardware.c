/* Hardware: create, update, defaults, list, show, delete.
 *
 * All tests of a case share its daemon and each uses hardware names of its own, so that they do not meet; where a case
 * needs a model, its first test trains one. No clock decides but as a generous upper bound. */
#include "tests/http/suite.h"

#include <stdlib.h>
#include <string.h>

START_TEST(put_creates_then_updates)
{
    bb_status(bb_json("PUT", "{\"target\": \"llvm -mcpu=a\"}", "/v1/hardware/put-1"), 201);
    bb_status(bb_json("PUT", "{\"target\": \"llvm -mcpu=b\"}", "/v1/hardware/put-1"), 200);
    struct bb_reply *r = bb_get("/v1/hardware/put-1");
    bb_status(r, 200);
    ck_assert_str_eq(tc_str(r->json, "/target"), "llvm -mcpu=b");
}
END_TEST

START_TEST(kind_and_family_default_from_the_target)
{
    static const struct {
        const char *target, *kind;
    } cases[] = {{"llvm -mcpu=x", "cpu"},
                 {"c", "cpu"},
                 {"cuda -arch=sm_80", "gpu"},
                 {"rocm", "gpu"},
                 {"opencl", "gpu"},
                 {"vulkan", "gpu"},
                 {"metal", "gpu"},
                 {"hexagon", "accelerator"},
                 {"{\"kind\": \"cuda\", \"arch\": \"sm_90\"}", "gpu"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *body = json_pack("{s:s}", "target", cases[i].target);
        char *text = json_dumps(body, 0);
        struct bb_reply *r = bb_json("PUT", text, "/v1/hardware/default-%zu", i);
        free(text);
        json_decref(body);
        bb_status(r, 201);
        r = bb_get("/v1/hardware/default-%zu", i);
        bb_status(r, 200);
        ck_assert_msg(tc_str(r->json, "/kind") && tc_str(r->json, "/family"), "%s", r->body);
        ck_assert_msg(!strcmp(tc_str(r->json, "/kind"), cases[i].kind), "%s: %s", cases[i].target, r->body);
        ck_assert_str_eq(tc_str(r->json, "/family"), cases[i].kind);
    }
}
END_TEST

START_TEST(given_kind_and_family_win)
{
    bb_status(bb_json("PUT", "{\"target\": \"llvm\", \"kind\": \"accelerator\", \"family\": \"rack.7\"}",
                      "/v1/hardware/own-kind"),
              201);
    struct bb_reply *r = bb_get("/v1/hardware/own-kind");
    ck_assert_str_eq(tc_str(r->json, "/kind"), "accelerator");
    ck_assert_str_eq(tc_str(r->json, "/family"), "rack.7");
}
END_TEST

START_TEST(descriptor_comes_back_with_unknown_keys)
{
    bb_status(
        bb_json("PUT",
                "{\"target\": \"llvm\", \"descriptor\": {\"num_cores\": 24, \"clock_ghz\": 2.4, \"l2_bytes\": 1048576, "
                "\"rack\": \"seven\", \"tags\": [1, {\"x\": null}]}}",
                "/v1/hardware/described"),
        201);
    struct bb_reply *r = bb_get("/v1/hardware/described");
    ck_assert_int_eq(tc_int(r->json, "/descriptor/num_cores", 0), 24);
    ck_assert_double_eq(tc_num(r->json, "/descriptor/clock_ghz"), 2.4);
    ck_assert_int_eq(tc_int(r->json, "/descriptor/l2_bytes", 0), 1048576);
    ck_assert_str_eq(tc_str(r->json, "/descriptor/rack"), "seven");
    ck_assert_int_eq(tc_int(r->json, "/descriptor/tags/0", 0), 1);
}
END_TEST

START_TEST(known_descriptor_keys_must_be_numbers)
{
    struct bb_reply *r =
        bb_json("PUT", "{\"target\": \"llvm\", \"descriptor\": {\"num_cores\": \"many\"}}", "/v1/hardware/bad-desc");
    ck_assert_msg(r->status == 400 || r->status == 422, "%ld %s", r->status, r->body);
    bb_problem(r, r->status, NULL);
    ck_assert_msg(strstr(r->body, "num_cores") != NULL, "the key is not named: %s", r->body);
    bb_problem(bb_get("/v1/hardware/bad-desc"), 404, "unknown-hardware");
}
END_TEST

START_TEST(unusable_bodies_are_refused_and_nothing_is_made)
{
    static const char *const bodies[] = {"",
                                         "{",
                                         "[]",
                                         "null",
                                         "\"llvm\"",
                                         "{}",
                                         "{\"target\": 7}",
                                         "{\"target\": \"\"}",
                                         "{\"target\": \"llvm\", \"kind\": \"toaster\"}",
                                         "{\"target\": \"llvm\", \"family\": \"Not Valid\"}",
                                         "{\"target\": \"llvm\", \"descriptor\": 3}",
                                         "{\"target\": \"llvm\", \"descriptr\": {}}",
                                         "{\"target\": \"llvm\"} trailing",
                                         "{\"target\": \"\xff\"}"};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct bb_reply *r = bb_json("PUT", bodies[i], "/v1/hardware/refused");
        ck_assert_msg(r->status == 400 || r->status == 422, "body %s: %ld %s", bodies[i], r->status, r->body);
        bb_problem(r, r->status, NULL);
    }
    bb_problem(bb_get("/v1/hardware/refused"), 404, "unknown-hardware");
}
END_TEST

START_TEST(missing_target_is_named)
{
    struct bb_reply *r = bb_json("PUT", "{\"kind\": \"cpu\"}", "/v1/hardware/no-target");
    ck_assert_msg(r->status == 400 || r->status == 422, "%ld", r->status);
    ck_assert_msg(strstr(r->body, "target") != NULL, "%s", r->body);
}
END_TEST

START_TEST(replies_end_their_line)
{
    static const char *const paths[] = {"/v1", "/v1/hardware", "/v1/hardware/lines", "/v1/jobs", "/v1/nowhere"};
    bb_put_hardware("lines");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct bb_reply *r = bb_get("%s", paths[i]);
        ck_assert_msg(r->n > 1 && r->body[r->n - 1] == '\n' && r->body[r->n - 2] != '\n', "%s: %s", paths[i], r->body);
    }
}
END_TEST

START_TEST(other_media_types_are_415)
{
    static const char *const types[] = {"text/plain", "application/x-ndjson", "application/octet-stream", "nonsense"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        bb_problem(bb_call(&(struct tc_request){.method = "PUT",
                                                .path = "/v1/hardware/typed",
                                                .body = "{\"target\": \"llvm\"}",
                                                .n = 18,
                                                .content_type = types[i]}),
                   415, "unsupported-media-type");
    bb_problem(bb_get("/v1/hardware/typed"), 404, "unknown-hardware");
}
END_TEST

START_TEST(json_with_a_charset_is_accepted)
{
    bb_status(bb_call(&(struct tc_request){.method = "PUT",
                                           .path = "/v1/hardware/charset",
                                           .body = "{\"target\": \"llvm\"}",
                                           .n = 18,
                                           .content_type = "application/json; charset=utf-8"}),
              201);
}
END_TEST

START_TEST(control_bodies_over_the_limit_are_413)
{
    enum { BIG = (1 << 20) + 1000 };
    char *body = malloc(BIG + 1);
    memset(body, ' ', BIG);
    memcpy(body, "{\"target\": \"llvm\"}", 18);
    struct tc_request q = {
        .method = "PUT", .path = "/v1/hardware/big", .body = body, .n = BIG, .content_type = "application/json"};
    bb_problem(bb_call(&q), 413, "body-too-large");
    q.chunked = true;
    bb_problem(bb_call(&q), 413, "body-too-large");
    q.chunked = false;
    q.encoding = TC_GZIP; /* the limit counts decoded bytes */
    bb_problem(bb_call(&q), 413, "body-too-large");
    free(body);
}
END_TEST

START_TEST(unknown_hardware_is_404_everywhere)
{
    static const char *const below[] = {"", "/measurements", "/tasks", "/best", "/models"};
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        bb_problem(bb_get("/v1/hardware/absent%s", below[i]), 404, "unknown-hardware");
    struct bb_text t = bb_records(0, 1);
    bb_problem(bb_lines(t.p, t.n, "/v1/hardware/absent/predict"), 404, "unknown-hardware");
    bb_problem(bb_json("POST", "{}", "/v1/hardware/absent/retrain"), 404, "unknown-hardware");
    bb_problem(bb_json("POST", "{\"model\": 1}", "/v1/hardware/absent/activate"), 404, "unknown-hardware");
    bb_problem(bb_delete("/v1/hardware/absent"), 404, "unknown-hardware");
}
END_TEST

START_TEST(counts_follow_the_measurements)
{
    bb_put_hardware("counted");
    struct bb_reply *r = bb_get("/v1/hardware/counted");
    ck_assert_int_eq(tc_int(r->json, "/counts/measurements", -1), 0);
    ck_assert_int_eq(tc_int(r->json, "/counts/tasks", -1), 0);
    ck_assert_msg(json_is_null(tc_at(r->json, "/active_model")), "%s", r->body);
    struct bb_text t = bb_records(0, 50);
    bb_counts(bb_lines(t.p, t.n, "/v1/hardware/counted/measurements"), 50, 0, 0);
    r = bb_get("/v1/hardware/counted");
    ck_assert_int_eq(tc_int(r->json, "/counts/measurements", -1), 50);
    ck_assert_int_eq(tc_int(r->json, "/counts/tasks", -1), 1);
}
END_TEST

START_TEST(delete_refuses_measurements_and_purge_removes_them)
{
    bb_put_hardware("doomed");
    struct bb_text t = bb_records(0, 10);
    bb_counts(bb_lines(t.p, t.n, "/v1/hardware/doomed/measurements"), 10, 0, 0);
    bb_problem(bb_delete("/v1/hardware/doomed"), 409, "conflict");
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/doomed")->json, "/counts/measurements", -1), 10);
    struct bb_reply *r = bb_delete("/v1/hardware/doomed?purge=true");
    ck_assert_msg(r->status == 200 || r->status == 204, "%ld %s", r->status, r->body);
    bb_problem(bb_get("/v1/hardware/doomed"), 404, "unknown-hardware");
    bb_put_hardware("doomed");
    ck_assert_uint_eq(bb_get("/v1/hardware/doomed/measurements")->n, 0);
    bb_counts(bb_lines(t.p, t.n, "/v1/hardware/doomed/measurements"), 10, 0, 0);
}
END_TEST

START_TEST(a_kind_stays_while_programs_were_made_for_it)
{
    static const char gpu[] = "{\"target\": \"cuda -arch=sm_80\"}", cpu[] = "{\"target\": \"llvm\", \"kind\": \"cpu\"}";
    static const char *const routes[] = {"candidates", "measurements"};
    for (size_t i = 0; i < 2; i++) {
        bb_status(bb_json("PUT", gpu, "/v1/hardware/turned"), 201);
        bb_status(bb_json("PUT", cpu, "/v1/hardware/turned"), 200);
        struct bb_text t = bb_records(0, 10);
        bb_status(bb_lines(t.p, t.n, "/v1/hardware/turned/%s", routes[i]), 200);
        bb_problem(bb_json("PUT", gpu, "/v1/hardware/turned"), 409, "conflict");
        ck_assert_str_eq(tc_str(bb_get("/v1/hardware/turned")->json, "/kind"), "cpu");
        bb_status(bb_json("PUT", "{\"target\": \"llvm\", \"family\": \"other\"}", "/v1/hardware/turned"), 200);
        bb_delete("/v1/hardware/turned?purge=true");
    }
}
END_TEST

START_TEST(delete_of_empty_hardware_works)
{
    bb_put_hardware("empty");
    struct bb_reply *r = bb_delete("/v1/hardware/empty");
    ck_assert_msg(r->status == 200 || r->status == 204, "%ld %s", r->status, r->body);
    bb_problem(bb_get("/v1/hardware/empty"), 404, "unknown-hardware");
    bb_problem(bb_delete("/v1/hardware/empty"), 404, "unknown-hardware");
}
END_TEST

START_TEST(list_pages_through_all_by_name)
{
    enum { N = 25 };
    for (int i = N - 1; i >= 0; i--)
        bb_put_hardware(bb_printf("page-%02d", i).p);
    int seen = 0, pages = 0;
    const char *cursor = NULL;
    do {
        struct bb_reply *r =
            cursor ? bb_get("/v1/hardware?limit=10&cursor=%s", cursor) : bb_get("/v1/hardware?limit=10");
        bb_status(r, 200);
        const json_t *items = tc_at(r->json, "/items");
        ck_assert_msg(json_array_size(items) <= 10, "%s", r->body);
        for (size_t i = 0; i < json_array_size(items); i++) {
            const char *name = tc_str(json_array_get(items, i), "/hardware");
            if (!name)
                name = tc_str(json_array_get(items, i), "/name");
            ck_assert_msg(name != NULL, "an item without a name: %s", r->body);
            if (strncmp(name, "page-", 5))
                continue;
            ck_assert_str_eq(name, bb_printf("page-%02d", seen).p);
            seen++;
        }
        ck_assert_msg(tc_at(r->json, "/next_cursor") != NULL, "no next_cursor: %s", r->body);
        cursor = tc_str(r->json, "/next_cursor");
        ck_assert_int_lt(++pages, 100);
    } while (cursor);
    ck_assert_int_eq(seen, N);
}
END_TEST

START_TEST(malformed_pages_are_400)
{
    static const char *const queries[] = {
        "limit=0", "limit=1001", "limit=-1", "limit=ten", "limit=", "limit=1e2", "limit=99999999999999999999"};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        bb_problem(bb_get("/v1/hardware?%s", queries[i]), 400, "bad-parameter");
        bb_problem(bb_get("/v1/jobs?%s", queries[i]), 400, "bad-parameter");
    }
    bb_status(bb_get("/v1/hardware?limit=1000"), 200);
}
END_TEST

START_TEST(made_up_cursors_do_no_harm)
{
    static const char *const cursors[] = {"", "x", "%00", "..%2f..", "99999999999999999999999", "%ff%fe"};
    static const char *const lists[] = {"/v1/hardware", "/v1/jobs", "/v1/families"};
    for (size_t i = 0; i < sizeof cursors / sizeof *cursors; i++)
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
            struct bb_reply *r = bb_get("%s?cursor=%s", lists[k], cursors[i]);
            ck_assert_msg(r->status == 200 || r->status == 400, "%s?cursor=%s: %ld", lists[k], cursors[i], r->status);
        }
}
END_TEST

START_TEST(families_list_those_in_use)
{
    bb_status(bb_json("PUT", "{\"target\": \"llvm\", \"family\": \"fam-a\"}", "/v1/hardware/in-fam-a"), 201);
    struct bb_reply *r = bb_get("/v1/families?limit=1000");
    bb_status(r, 200);
    ck_assert_msg(strstr(r->body, "\"fam-a\"") != NULL, "%s", r->body);
    bb_status(bb_get("/v1/families/fam-a/models"), 200);
    bb_problem(bb_get("/v1/families/no-such-family/models"), 404, "unknown-family");
}
END_TEST

START_TEST(hardware_survives_a_restart)
{
    char *dir = bb_path("restart");
    struct tc_daemon *d = bb_start(dir, NULL);
    bb_status(bb_json("PUT",
                      "{\"target\": \"cuda\", \"family\": \"f\", \"descriptor\": {\"sm_count\": 108, \"x\": \"y\"}}",
                      "/v1/hardware/kept"),
              201);
    struct bb_reply *before = bb_get("/v1/hardware/kept");
    bb_stop(d);
    d = bb_start(dir, NULL);
    struct bb_reply *after = bb_get("/v1/hardware/kept");
    bb_status(after, 200);
    static const char *const at[] = {"/target", "/family", "/kind", "/descriptor"};
    for (size_t i = 0; i < 4; i++)
        ck_assert_msg(json_equal(tc_at(before->json, at[i]), tc_at(after->json, at[i])), "%s / %s", before->body,
                      after->body);
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/hardware");
    TCase *tc = bb_case(s, "hardware", 20);
    tcase_add_test(tc, put_creates_then_updates);
    tcase_add_test(tc, kind_and_family_default_from_the_target);
    tcase_add_test(tc, given_kind_and_family_win);
    tcase_add_test(tc, descriptor_comes_back_with_unknown_keys);
    tcase_add_test(tc, known_descriptor_keys_must_be_numbers);
    tcase_add_test(tc, unusable_bodies_are_refused_and_nothing_is_made);
    tcase_add_test(tc, missing_target_is_named);
    tcase_add_test(tc, replies_end_their_line);
    tcase_add_test(tc, other_media_types_are_415);
    tcase_add_test(tc, json_with_a_charset_is_accepted);
    tcase_add_test(tc, control_bodies_over_the_limit_are_413);
    tcase_add_test(tc, unknown_hardware_is_404_everywhere);
    tcase_add_test(tc, counts_follow_the_measurements);
    tcase_add_test(tc, delete_refuses_measurements_and_purge_removes_them);
    tcase_add_test(tc, a_kind_stays_while_programs_were_made_for_it);
    tcase_add_test(tc, delete_of_empty_hardware_works);
    tcase_add_test(tc, list_pages_through_all_by_name);
    tcase_add_test(tc, malformed_pages_are_400);
    tcase_add_test(tc, made_up_cursors_do_no_harm);
    tcase_add_test(tc, families_list_those_in_use);

    tc = bb_case_own(s, "restart", 60);
    tcase_add_test(tc, hardware_survives_a_restart);
    return bb_main(s);
}
