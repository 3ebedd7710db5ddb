/* The dashboard's files as a browser gets them, and the routes that its charts need. What the page does with them is
 * tested in a browser: tests/web. */
#include "tests/http/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bb_reply *get_with(const char *path, const char *const *headers)
{
    return bb_call(&(struct tc_request){.path = path, .headers = headers});
}

/* The first path of the page that ends in `name`, with a slash in front. */
static const char *linked(const char *name)
{
    const char *page = bb_get("/")->body, *end = strstr(page, name), *start = end;
    ck_assert_msg(end != NULL, "the page does not load %s", name);
    while (start > page && start[-1] != '"')
        start--;
    return bb_printf("/%.*s", (int)(end + strlen(name) - start), start).p;
}

/* ---- files ---- */

START_TEST(the_page_is_served_with_a_strict_policy)
{
    struct bb_reply *r = bb_get("/");
    bb_status(r, 200);
    ck_assert_str_eq(bb_header(r, "Content-Type"), "text/html; charset=utf-8");
    ck_assert_str_eq(bb_header(r, "Cache-Control"), "no-cache");
    ck_assert_str_eq(bb_header(r, "X-Content-Type-Options"), "nosniff");
    ck_assert_str_eq(bb_header(r, "Referrer-Policy"), "no-referrer");
    const char *policy = bb_header(r, "Content-Security-Policy");
    ck_assert(policy && strstr(policy, "default-src 'none'") && strstr(policy, "frame-ancestors 'none'"));
    ck_assert_msg(!strstr(policy, "unsafe") && !strstr(policy, "data:") && !strstr(policy, "*"), "%s", policy);
    ck_assert_msg(!strstr(r->body, "@VERSION@") && !strstr(r->body, "<style") && !strstr(r->body, "style="), "%s",
                  r->body);
    ck_assert_msg(!strstr(r->body, "http:") && !strstr(r->body, "https:"), "it works offline");
}
END_TEST

START_TEST(everything_that_the_page_loads_is_there_for_ever)
{
    int n = 0;
    for (const char *page = bb_get("/")->body, *p = page; (p = strstr(p, "\"web/")); p++, n++) {
        struct bb_reply *r = bb_get("/%.*s", (int)strcspn(p + 1, "\""), p + 1);
        bb_status(r, 200);
        ck_assert_str_eq(bb_header(r, "Cache-Control"), "public, max-age=31536000, immutable");
        ck_assert(bb_header(r, "Content-Security-Policy") && bb_header(r, "ETag") && r->n > 0);
    }
    ck_assert_int_ge(n, 8);
}
END_TEST

START_TEST(a_browser_gets_gzip_and_a_304_the_second_time)
{
    static const char *const gzip[] = {"Accept-Encoding: br, gzip;q=0.5", NULL};
    static const char *const never[] = {"Accept-Encoding: gzip;q=0.00, identity", NULL};
    const char *path = linked("app.js");
    struct bb_text file = bb_file("daemon/web/app.js");
    struct tp_buf unpacked = {0};
    struct tc_err e;

    struct bb_reply *plain = bb_get("%s", path), *packed = get_with(path, gzip), *refused = get_with(path, never);
    ck_assert_ptr_null(bb_header(plain, "Content-Encoding"));
    ck_assert(plain->n == file.n && memcmp(plain->body, file.p, file.n) == 0);
    ck_assert(refused->n == file.n && !bb_header(refused, "Content-Encoding"));
    ck_assert_str_eq(bb_header(packed, "Content-Encoding"), "gzip");
    ck_assert_str_eq(bb_header(packed, "Vary"), "Accept-Encoding");
    ck_assert(packed->n < file.n);
    ck_assert_int_eq(tc_gunzip(packed->body, packed->n, 1 << 20, &unpacked, &e), 0);
    ck_assert(unpacked.n == file.n && memcmp(unpacked.p, file.p, file.n) == 0);
    tp_buf_free(&unpacked);
    ck_assert_str_ne(bb_header(packed, "ETag"), bb_header(plain, "ETag"));

    const char *again[] = {bb_printf("If-None-Match: %s", bb_header(packed, "ETag")).p, gzip[0], NULL};
    struct bb_reply *same = get_with(path, again);
    bb_status(same, 304);
    ck_assert_uint_eq(same->n, 0);
    bb_status(bb_call(&(struct tc_request){.method = "HEAD", .path = path}), 200);
}
END_TEST

START_TEST(other_versions_and_names_are_404)
{
    const char *path = linked("app.js"), *name = strrchr(path, '/');
    bb_problem(bb_get("/web/0000000000000000%s", name), 404, "no-route");
    bb_problem(bb_get("%.*s/nothing.js", (int)(name - path), path), 404, "no-route");
    bb_problem(bb_get("%.*s/..%%2fapp.js", (int)(name - path), path), 404, "no-route");
    bb_problem(bb_get("%.*s/embed.sh", (int)(name - path), path), 404, "no-route");
    bb_problem(bb_get("%.*s/", (int)(name - path), path), 404, "no-route");
}
END_TEST

/* ---- charts ---- */

static int64_t job_of(const char *hw)
{
    struct bb_reply *r = bb_json("POST", "{}", "/v1/hardware/%s/evaluate", hw);
    bb_status(r, 202);
    return tc_int(r->json, "/id", 0);
}

START_TEST(evaluations_are_listed_newest_first_in_pages)
{
    bb_problem(bb_get("/v1/hardware/nobody/evaluations"), 404, "unknown-hardware");
    bb_put_hardware("charted");
    struct bb_reply *none = bb_get("/v1/hardware/charted/evaluations");
    bb_status(none, 200);
    ck_assert_uint_eq(json_array_size(tc_at(none->json, "/items")), 0);
    bb_post_demo("charted", 0, 8);
    bb_train("charted", "{\"mode\": \"finetune\", \"epochs\": 2, \"seed\": 1}");
    int64_t job = job_of("charted");
    ck_assert_str_eq(tc_str(bb_wait(job), "/state"), "succeeded");

    struct bb_reply *r = bb_get("/v1/hardware/charted/evaluations");
    size_t n = json_array_size(tc_at(r->json, "/items"));
    ck_assert_uint_ge(n, 2);
    ck_assert_int_eq(tc_int(r->json, "/items/0/job", 0), job);
    ck_assert_str_eq(tc_str(r->json, "/items/0/result/source"), "evaluate");
    ck_assert_str_eq(tc_str(r->json, "/items/1/result/source"), "retrain");
    ck_assert_int_gt(tc_int(r->json, "/items/0/id", 0), tc_int(r->json, "/items/1/id", 0));
    ck_assert_ptr_nonnull(tc_str(r->json, "/items/0/created"));
    ck_assert_ptr_null(tc_at(r->json, "/items/0/result/per_task"));

    struct bb_reply *one = bb_get("/v1/hardware/charted/evaluations?limit=1");
    ck_assert_uint_eq(json_array_size(tc_at(one->json, "/items")), 1);
    struct bb_reply *next =
        bb_get("/v1/hardware/charted/evaluations?limit=1&cursor=%s", tc_str(one->json, "/next_cursor"));
    ck_assert_int_eq(tc_int(next->json, "/items/0/id", 0), tc_int(r->json, "/items/1/id", 0));
    bb_problem(bb_get("/v1/hardware/charted/evaluations?cursor=!"), 400, "bad-parameter");
    bb_problem(bb_get("/v1/hardware/charted/evaluations?model=1"), 400, "bad-parameter");
}
END_TEST

/* All that is held out is among the points here, so that its figures can be counted again. */
START_TEST(points_of_an_evaluation_are_its_programs)
{
    bb_put_hardware("pointed");
    bb_post_demo("pointed", 0, bb_demo_count());
    bb_train("pointed", "{\"mode\": \"finetune\", \"epochs\": 2, \"seed\": 1}");
    json_t *job = bb_wait(job_of("pointed"));
    json_t *p = tc_at(job, "/result/points"), *measured = tc_at(p, "/measured_seconds"),
           *predicted = tc_at(p, "/predicted_seconds"), *held = tc_at(p, "/held_out"), *task = tc_at(p, "/task");
    size_t n = json_array_size(measured), tasks = json_array_size(tc_at(p, "/tasks")), n_held = 0, near = 0;
    ck_assert_uint_gt(n, 300);
    ck_assert_uint_le(n, 600);
    ck_assert(json_array_size(predicted) == n && json_array_size(held) == n && json_array_size(task) == n);
    ck_assert_uint_eq(tasks, (size_t)bb_demo_count());
    for (size_t i = 0; i < n; i++) {
        double m = json_number_value(json_array_get(measured, i)), q = json_number_value(json_array_get(predicted, i));
        ck_assert(m > 0 && q > 0 && (size_t)json_integer_value(json_array_get(task, i)) < tasks);
        n_held += json_is_true(json_array_get(held, i));
        near += json_is_true(json_array_get(held, i)) && fabs(log(q / m)) <= log(2);
    }
    ck_assert_uint_gt(n_held, 0);
    ck_assert_uint_le(n_held, 300);
    ck_assert_int_eq((int64_t)n_held, tc_int(job, "/result/held_out/programs", 0));
    /* four digits may move one over the border */
    ck_assert_double_eq_tol((double)near / (double)n_held, tc_num(job, "/result/held_out/latency_within_2"),
                            1.5 / (double)n_held);

    struct bb_reply *list = bb_get("/v1/jobs?hardware=pointed");
    ck_assert_ptr_null(tc_at(list->json, "/items/0/result/points"));
    ck_assert_ptr_null(tc_at(list->json, "/items/0/result/per_task"));
}
END_TEST

START_TEST(best_so_far_is_what_the_export_says)
{
    bb_put_hardware("fallen");
    bb_post_demo("fallen", 0, 2);
    struct bb_reply *tasks = bb_get("/v1/hardware/fallen/tasks");
    for (size_t t = 0; t < 2; t++) {
        const char *id = tc_str(json_array_get(tc_at(tasks->json, "/items"), t), "/task");
        struct bb_reply *r = bb_get("/v1/hardware/fallen/tasks/%s/best-so-far", id),
                        *lines = bb_get("/v1/hardware/fallen/measurements?task=%s", id);
        bb_status(r, 200);
        ck_assert_str_eq(tc_str(r->json, "/task"), id);
        int64_t nth = 0;
        size_t k = 0;
        double best = INFINITY;
        for (const char *p = lines->body; *p; p += strcspn(p, "\n") + 1) {
            json_t *rec = json_loadb(p, strcspn(p, "\n"), 0, NULL), *fall = json_array_get(tc_at(r->json, "/items"), k);
            double cost = INFINITY;
            nth++;
            for (size_t i = 0; i < json_array_size(tc_at(rec, "/r/0")) && tc_int(rec, "/r/1", 1) == 0; i++)
                cost = fmin(cost, json_number_value(json_array_get(tc_at(rec, "/r/0"), i)));
            json_decref(rec);
            if (cost >= best)
                continue;
            best = cost;
            k++;
            ck_assert_int_eq(tc_int(fall, "/measurement", 0), nth);
            ck_assert_double_eq_tol(tc_num(fall, "/best_seconds"), cost, 1e-5 * cost);
        }
        ck_assert_uint_eq(json_array_size(tc_at(r->json, "/items")), k);
        ck_assert_int_eq(tc_int(r->json, "/measurements", 0), nth);
    }
    bb_problem(bb_get("/v1/hardware/fallen/tasks/0123456789abcdef/best-so-far"), 404, "unknown-task");
    bb_problem(bb_get("/v1/hardware/fallen/tasks/x/best-so-far"), 404, "unknown-task");
    bb_problem(bb_get("/v1/hardware/nobody/tasks/0123456789abcdef/best-so-far"), 404, "unknown-hardware");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/web");
    TCase *tc = bb_case(s, "files", 60);
    tcase_add_test(tc, the_page_is_served_with_a_strict_policy);
    tcase_add_test(tc, everything_that_the_page_loads_is_there_for_ever);
    tcase_add_test(tc, a_browser_gets_gzip_and_a_304_the_second_time);
    tcase_add_test(tc, other_versions_and_names_are_404);

    tc = bb_case(s, "charts", 120);
    tcase_add_test(tc, evaluations_are_listed_newest_first_in_pages);
    tcase_add_test(tc, points_of_an_evaluation_are_its_programs);
    tcase_add_test(tc, best_so_far_is_what_the_export_says);
    return bb_main(s);
}
