/* Health, metrics, meta data, and the manners every route shares: unknown paths and methods, media types, request ids.

 *
 * All tests of a case share its daemon and each uses hardware names of its own, so that they do not meet; where a case
 needs
 * a model, its first test trains one. No clock decides but as a generous upper bound. */
#include "tests/http/suite.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the route table, as the daemon was built with it ---- */
struct route {
    const char *method, *path;
};
static const struct route routes[] = {
#define R(method, path, handler, role, body, where, summary) {method, path},
#include "daemon/routes.def"
#undef R
};
enum { N_ROUTES = sizeof routes / sizeof *routes };

/* "/v1/models/{id}" -> "/v1/models/1" */
static char *fill(const char *path)
{
    char out[200] = "";
    size_t n = 0;
    while (*path && n + 16 < sizeof out) {
        if (*path != '{') {
            out[n++] = *path++;
            continue;
        }
        n += (size_t)sprintf(out + n, "%s", !strncmp(path, "{id}", 4) ? "1" : "some-name");
        path += strcspn(path, "}") + 1;
    }
    out[n] = '\0';
    return bb_printf("%s", out).p;
}

START_TEST(livez_answers_200)
{
    bb_status(bb_get("/livez"), 200);
}
END_TEST

START_TEST(readyz_answers_200_and_verbose_lists_each_check)
{
    bb_status(bb_get("/readyz"), 200);
    struct bb_reply *r = bb_get("/readyz?verbose");
    bb_status(r, 200);
    ck_assert_msg(strstr(r->body, "store") && strstr(r->body, "model"), "verbose says only: %s", r->body);
}
END_TEST

START_TEST(meta_names_program_and_versions)
{
    struct bb_reply *r = bb_get("/v1");
    bb_status(r, 200);
    ck_assert_str_eq(tc_str(r->json, "/name"), "tcld");
    ck_assert_str_eq(tc_str(r->json, "/features_version"), "tclf-1");
    ck_assert_msg(tc_str(r->json, "/version") && tc_at(r->json, "/api_version") && tc_at(r->json, "/build"), "%s",
                  r->body);
    ck_assert_str_eq(bb_header(r, "Content-Type"), "application/json");
}
END_TEST

/* ---- metrics ---- */

static bool is_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '_')
            return false;
    return n > 0 && !isdigit((unsigned char)*s);
}

/* A family "x" of a sample "x", "x_bucket", "x_sum" or "x_count" must have been announced. */
static bool announced(const char *text, const char *sample, size_t n)
{
    static const char *const tails[] = {"", "_bucket", "_sum", "_count"};
    for (size_t i = 0; i < 4; i++) {
        size_t k = strlen(tails[i]);
        if (n <= k || strncmp(sample + n - k, tails[i], k))
            continue;
        char line[256];
        snprintf(line, sizeof line, "# TYPE %.*s ", (int)(n - k), sample);
        const char *at = strstr(text, line);
        if (at && at < sample)
            return true;
    }
    return false;
}

START_TEST(metrics_are_prometheus_text)
{
    struct bb_reply *r = bb_get("/metrics");
    bb_status(r, 200);
    const char *type = bb_header(r, "Content-Type");
    ck_assert_msg(type && !strncmp(type, "text/plain; version=0.0.4", 25), "Content-Type: %s", type);
    ck_assert_msg(r->n && r->body[r->n - 1] == '\n', "the last line has no end");
    for (const char *p = r->body; *p; p += strcspn(p, "\n") + 1) {
        int len = (int)strcspn(p, "\n");
        if (*p == '#') {
            ck_assert_msg(!strncmp(p, "# HELP tcld_", 12) || !strncmp(p, "# TYPE tcld_", 12), "%.*s", len, p);
            continue;
        }
        size_t name = strcspn(p, "{ \n");
        ck_assert_msg(is_name(p, name) && !strncmp(p, "tcld_", 5), "%.*s", len, p);
        ck_assert_msg(announced(r->body, p, name), "no TYPE before: %.*s", len, p);
        const char *value = p[name] == '{' ? strchr(p, '}') + 1 : p + name;
        char *end;
        ck_assert_msg(*value == ' ', "%.*s", len, p);
        strtod(value, &end);
        ck_assert_msg(end != value && *end == '\n', "%.*s", len, p);
    }
}
END_TEST

START_TEST(metrics_hold_every_family_of_the_table)
{
    static const char *const names[] = {
#define C(id, name, labels, help) name,
#define G(id, name, help)         name,
#define H(id, name, help)         name "_bucket",
#define X(id, name, help)         name,
#include "daemon/metrics.def"
#undef C
#undef G
#undef H
#undef X
    };
    struct bb_reply *r = bb_get("/metrics");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(strstr(r->body, names[i]) != NULL, "%s is missing", names[i]);
}
END_TEST

static bool has_promtool(void)
{
    struct tc_err e;
    return tc_run((const char *[]){"promtool", "--version", NULL}, NULL, 20, NULL, NULL, &e) == 0;
}

START_TEST(promtool_has_nothing_to_say)
{
    struct tc_err e;
    struct tp_buf out = {0}, err = {0};
    if (!has_promtool()) {
        printf("skipped: promtool is not installed\n");
        return;
    }
    struct bb_reply *r = bb_get("/metrics");
    char *file = bb_path("metrics");
    ck_assert_int_eq(tc_write_file(file, r->body, r->n, NULL), 0);
    char *line = bb_printf("promtool check metrics < %s", file).p;
    int status = tc_run((const char *[]){"sh", "-c", line, NULL}, NULL, 30, &out, &err, &e);
    ck_assert_msg(status == 0 && out.n + err.n == 0, "%s%s", out.p, err.p);
    status = tc_run((const char *[]){"promtool", "check", "rules", "config/prometheus-alerts.yml", NULL}, NULL, 30,
                    &out, &err, &e);
    ck_assert_msg(status == 0, "%s%s", out.p, err.p);
    tp_buf_free(&out);
    tp_buf_free(&err);
}
END_TEST

static double metric(const char *sample)
{
    const char *line = bb_printf("\n%s ", sample).p, *at = strstr(bb_get("/metrics")->body, line);
    ck_assert_msg(at != NULL, "no sample %s", sample);
    return strtod(at + strlen(line), NULL);
}

START_TEST(request_counter_counts_by_class)
{
    double good = metric("tcld_http_requests_total{code=\"2xx\"}"),
           bad = metric("tcld_http_requests_total{code=\"4xx\"}");
    for (int i = 0; i < 10; i++) {
        bb_get("/v1");
        bb_get("/no/such/path");
    }
    ck_assert_double_ge(metric("tcld_http_requests_total{code=\"2xx\"}"), good + 10);
    ck_assert_double_ge(metric("tcld_http_requests_total{code=\"4xx\"}"), bad + 10);
    ck_assert_double_gt(metric("tcld_resident_memory_bytes"), 1e6);
}
END_TEST

/* ---- manners ---- */

START_TEST(unknown_paths_are_404_no_route)
{
    static const char *const paths[] = {"/web",
                                        "/nothing",
                                        "/v2",
                                        "/v1/nothing",
                                        "/v1/hardware/x/nothing",
                                        "/v1/jobs/1/nothing",
                                        "/livez/x",
                                        "/v1/models",
                                        "/v1/hardware/x/predict/y"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        bb_problem(bb_get("%s", paths[i]), 404, "no-route");
}
END_TEST

START_TEST(other_methods_are_405_with_allow)
{
    const struct route *own = &routes[_i];
    char *path = fill(own->path);
    struct bb_reply *r = bb_call(&(struct tc_request){.method = "PATCH", .path = path});
    bb_problem(r, 405, "method-not-allowed");
    const char *allow = bb_header(r, "Allow");
    ck_assert_msg(allow != NULL, "no Allow on %s", path);
    for (int i = 0; i < N_ROUTES; i++) {
        if (strcmp(routes[i].path, own->path))
            continue;
        ck_assert_msg(strstr(allow, routes[i].method) != NULL, "Allow: %s on %s lacks %s", allow, path,
                      routes[i].method);
    }
    ck_assert_msg(!strstr(allow, "PATCH"), "Allow: %s", allow);
}
END_TEST

START_TEST(refused_method_with_a_body_leaves_the_connection_usable)
{
    for (int i = 0; i < 3; i++) {
        struct bb_text body = bb_records(0, 100);
        bb_problem(bb_call(&(struct tc_request){.method = "PUT",
                                                .path = "/v1/hardware/x/predict",
                                                .body = body.p,
                                                .n = body.n,
                                                .content_type = "application/x-ndjson"}),
                   405, "method-not-allowed");
        bb_status(bb_get("/livez"), 200);
    }
}
END_TEST

START_TEST(malformed_identifiers_are_400)
{
    static const char *const names[] = {
        "Upper",  ".dot",  "-dash",  "sp%20ace",
        "%c3%a9", "a%2fb", "%2e%2e", "a234567890123456789012345678901234567890123456789012345678901234"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bb_problem(bb_get("/v1/hardware/%s", names[i]), 400, "bad-identifier");
        bb_problem(bb_json("PUT", "{\"target\": \"llvm\"}", "/v1/hardware/%s", names[i]), 400, "bad-identifier");
        bb_problem(bb_get("/v1/families/%s/models", names[i]), 400, "bad-identifier");
    }
}
END_TEST

START_TEST(malformed_numbers_in_paths_are_4xx)
{
    static const char *const ids[] = {"x", "-1", "0", "1x", "99999999999999999999", "1.5", "%31%30x"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct bb_reply *job = bb_get("/v1/jobs/%s", ids[i]), *model = bb_get("/v1/models/%s", ids[i]);
        ck_assert_msg(job->status == 400 || job->status == 404, "job %s: %ld", ids[i], job->status);
        ck_assert_msg(model->status == 400 || model->status == 404, "model %s: %ld", ids[i], model->status);
        bb_problem(job, job->status, NULL);
        bb_problem(model, model->status, NULL);
    }
}
END_TEST

START_TEST(bad_percent_encoding_is_400)
{
    struct bb_reply *r = bb_get("/v1/hardware/%%zz");
    ck_assert_msg(r->status == 400, "%ld %s", r->status, r->body);
}
END_TEST

START_TEST(unknown_query_parameters_are_400)
{
    static const char *const paths[] = {"/v1/hardware?colour=red", "/v1/jobs?colour=red", "/v1?x=1",
                                        "/v1/families?x=1"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        bb_problem(bb_get("%s", paths[i]), 400, "bad-parameter");
}
END_TEST

START_TEST(usual_accept_headers_are_served)
{
    static const char *const wanted[] = {"Accept: */*", "Accept: application/json", "Accept: application/*",
                                         "Accept: text/html, application/json;q=0.9, */*;q=0.1",
                                         "Accept: application/problem+json, application/json"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const char *headers[] = {wanted[i], NULL};
        bb_status(bb_call(&(struct tc_request){.path = "/v1", .headers = headers}), 200);
    }
}
END_TEST

START_TEST(request_id_is_echoed)
{
    const char *headers[] = {"X-Request-Id: tuner-7.round-3", NULL};
    struct bb_reply *r = bb_call(&(struct tc_request){.path = "/v1", .headers = headers});
    ck_assert_str_eq(bb_header(r, "X-Request-Id"), "tuner-7.round-3");
    r = bb_call(&(struct tc_request){.path = "/v1/hardware/absent", .headers = headers});
    ck_assert_str_eq(bb_header(r, "X-Request-Id"), "tuner-7.round-3");
}
END_TEST

START_TEST(request_id_is_made_when_absent)
{
    const char *a = bb_header(bb_get("/v1"), "X-Request-Id"), *b = bb_header(bb_get("/v1"), "X-Request-Id");
    ck_assert_msg(a && b && *a && *b, "no X-Request-Id");
    ck_assert_str_ne(a, b);
}
END_TEST

START_TEST(hostile_request_ids_break_no_log_line)
{
    static char longest[600];
    memset(longest, 'a', sizeof longest - 1);
    const char *ids[] = {"a\" level=error forged=\"b", "a b c", "\x01\x02", "", longest};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const char *headers[] = {bb_printf("X-Request-Id: %s", ids[i]).p, NULL};
        struct bb_reply *r = bb_call(&(struct tc_request){.path = "/v1", .headers = headers});
        ck_assert_msg(r->status == 200 || r->status == 400, "%ld", r->status);
    }
    tc_sleep(0.1);
    const char *forged = strstr(bb_log(bb_daemon()), "forged=");
    if (forged) /* logged, but as part of a quoted value */
        ck_assert_msg(forged[-1] == ' ' && strstr(bb_log(bb_daemon()), "a\\\" level=error"), "%.100s", forged - 40);
}
END_TEST

START_TEST(old_clients_get_http_1_0_answers)
{
    static const char get[] = "GET /v1/hardware HTTP/1.0\r\n\r\n";
    bool closed = false;
    int fd = bb_connect();
    bb_send(fd, get, sizeof get - 1);
    struct bb_text got = bb_recv(fd, NULL, 5, &closed);
    close(fd);
    ck_assert_msg(closed && strstr(got.p, " 200 ") && !strcasestr(got.p, "Transfer-Encoding: chunked"), "%.300s",
                  got.p);
}
END_TEST

START_TEST(request_and_trace_ids_are_logged)
{
    const char *headers[] = {"X-Request-Id: find-me-in-the-log",
                             "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", NULL};
    bb_status(bb_call(&(struct tc_request){.path = "/v1", .headers = headers}), 200);
    for (double until = tc_now() + 5; tc_now() < until; tc_sleep(0.02))
        if (strstr(bb_log(bb_daemon()), "0af7651916cd43dd8448eb211c80319c") &&
            strstr(bb_log(bb_daemon()), "find-me-in-the-log"))
            return;
    ck_abort_msg("neither in the log");
}
END_TEST

START_TEST(log_holds_one_line_per_request)
{
    const char *headers[] = {"X-Request-Id: exactly-once", NULL};
    bb_problem(bb_call(&(struct tc_request){.path = "/v1/hardware/absent", .headers = headers}), 404,
               "unknown-hardware");
    const char *at = NULL;
    for (double until = tc_now() + 5; !at && tc_now() < until; tc_sleep(0.02))
        at = strstr(bb_log(bb_daemon()), "exactly-once");
    ck_assert_msg(at != NULL, "not in the log");
    ck_assert_msg(!strstr(at + 1, "exactly-once"), "twice in the log");
    while (at[-1] != '\n') /* the daemon's own lines come before */
        at--;
    ck_assert_msg(strstr(at, "404") && strstr(at, "/v1/hardware/absent"), "%s", at);
}
END_TEST

START_TEST(head_answers_like_get_without_a_body)
{
    static const char *const paths[] = {"/livez", "/readyz", "/metrics", "/v1", "/v1/hardware"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct bb_reply *r = bb_call(&(struct tc_request){.method = "HEAD", .path = paths[i]});
        ck_assert_msg(r->status == 200, "HEAD %s: %ld", paths[i], r->status);
        ck_assert_uint_eq(r->n, 0);
    }
}
END_TEST

START_TEST(overlong_paths_are_refused)
{
    enum { LONG = 100000 };
    char *path = malloc(LONG + 1);
    memset(path, 'a', LONG);
    path[0] = '/';
    path[LONG] = '\0';
    struct tc_err e;
    struct tc_reply r = {0};
    struct tc_http *h = tc_http_new(bb_base(), &e);
    if (!tc_call(h, &(struct tc_request){.path = path}, &r, &e)) /* a closed connection is an answer too */
        ck_assert_msg(r.status >= 400 && r.status < 500, "%ld", r.status);
    tc_reply_free(&r);
    tc_http_free(h);
    free(path);
    bb_status(bb_get("/livez"), 200);
}
END_TEST

START_TEST(broken_request_lines_do_no_harm)
{
    static const char *const lines[] = {
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET /livez\r\n\r\n",
        "BLA BLA BLA\r\n\r\n",
        "GET /livez HTTP/9.9\r\n\r\n",
        "GET /livez HTTP/1.1\r\n\r\n",
        "GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        "POST /v1/hardware/x/predict HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST /v1/hardware/x/predict HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        int fd = bb_connect();
        bb_send(fd, lines[i], strlen(lines[i]));
        struct bb_text got = bb_recv(fd, "\r\n\r\n", 0.5, NULL);
        if (got.n)
            ck_assert_msg(!strncmp(got.p, "HTTP/1.", 7), "%.100s", got.p);
        close(fd);
        bb_status(bb_get("/livez"), 200);
    }
}
END_TEST

START_TEST(pipelined_requests_are_answered_in_order)
{
    static const char two[] =
        "GET /v1 HTTP/1.1\r\nHost: a\r\n\r\nGET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    int fd = bb_connect();
    bb_send(fd, two, sizeof two - 1);
    struct bb_text got = bb_recv(fd, NULL, 5, NULL);
    close(fd);
    const char *first = strstr(got.p, "HTTP/1.1 200"), *second = strstr(got.p, "HTTP/1.1 404");
    ck_assert_msg(first == got.p && second > first, "%s", got.p);
}
END_TEST

START_TEST(second_listener_serves_health_only)
{
    /* the second listener needs a port that is free; the kernel names one */
    int fd = bb_connect(), port = 0;
    close(fd);
    {
        struct tc_daemon *probe = bb_start(bb_path("probe"), NULL);
        port = tc_daemon_port(probe);
        bb_stop(probe);
    }
    struct bb_text addr = bb_printf("127.0.0.1:%d", port);
    struct tc_daemon *d = bb_start(bb_path("health"), (const char *[]){"--health-listen", addr.p, NULL});
    struct tc_err e;
    struct tc_reply r = {0};
    struct tc_http *h = tc_http_new(bb_printf("http://%s", addr.p).p, &e);
    static const char *const paths[] = {"/livez", "/readyz", "/metrics", "/v1"};
    for (size_t i = 0; i < 4; i++) {
        int rc = tc_call(h, &(struct tc_request){.path = paths[i]}, &r, &e);
        ck_assert_msg(rc == 0, "%s", e.text);
        ck_assert_msg(r.status == (i < 3 ? 200 : 404), "%s: %ld", paths[i], r.status);
    }
    tc_reply_free(&r);
    tc_http_free(h);
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/health");
    TCase *tc = bb_case(s, "health", 20);
    tcase_add_test(tc, livez_answers_200);
    tcase_add_test(tc, readyz_answers_200_and_verbose_lists_each_check);
    tcase_add_test(tc, meta_names_program_and_versions);
    tcase_add_test(tc, metrics_are_prometheus_text);
    tcase_add_test(tc, metrics_hold_every_family_of_the_table);
    tcase_add_test(tc, promtool_has_nothing_to_say);
    tcase_add_test(tc, request_counter_counts_by_class);
    tcase_add_test(tc, head_answers_like_get_without_a_body);
    tcase_add_test(tc, second_listener_serves_health_only);

    tc = bb_case(s, "manners", 20);
    tcase_add_test(tc, unknown_paths_are_404_no_route);
    tcase_add_loop_test(tc, other_methods_are_405_with_allow, 0, N_ROUTES);
    tcase_add_test(tc, refused_method_with_a_body_leaves_the_connection_usable);
    tcase_add_test(tc, malformed_identifiers_are_400);
    tcase_add_test(tc, malformed_numbers_in_paths_are_4xx);
    tcase_add_test(tc, bad_percent_encoding_is_400);
    tcase_add_test(tc, unknown_query_parameters_are_400);
    tcase_add_test(tc, usual_accept_headers_are_served);
    tcase_add_test(tc, request_id_is_echoed);
    tcase_add_test(tc, request_id_is_made_when_absent);
    tcase_add_test(tc, hostile_request_ids_break_no_log_line);
    tcase_add_test(tc, old_clients_get_http_1_0_answers);
    tcase_add_test(tc, request_and_trace_ids_are_logged);
    tcase_add_test(tc, log_holds_one_line_per_request);
    tcase_add_test(tc, overlong_paths_are_refused);
    tcase_add_test(tc, broken_request_lines_do_no_harm);
    tcase_add_test(tc, pipelined_requests_are_answered_in_order);
    return bb_main(s);
}
