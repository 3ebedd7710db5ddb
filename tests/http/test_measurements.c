/* Measurements: what is stored, what counts as a duplicate, what comes back: export, tasks, best.
 *
 * All tests of a case share its daemon and each uses hardware names of its own, so that they do not meet; where a case
 * needs a model, its first test trains one. No clock decides but as a generous upper bound. */
#include "tests/http/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The n-th line of a text with its newline. */
static struct bb_text line_of(struct bb_text t, size_t n)
{
    const char *p = t.p;
    while (n--)
        p = strchr(p, '\n') + 1;
    return bb_printf("%.*s", (int)(strcspn(p, "\n") + 1), p);
}

static struct bb_reply *post(const char *hw, struct bb_text t)
{
    return bb_lines(t.p, t.n, "/v1/hardware/%s/measurements", hw);
}

static void check_export(const char *hw, struct bb_text want)
{
    struct bb_reply *r = bb_get("/v1/hardware/%s/measurements", hw);
    bb_status(r, 200);
    ck_assert_str_eq(bb_header(r, "Content-Type"), "application/x-ndjson");
    if (r->n == want.n && !memcmp(r->body, want.p, want.n))
        return;
    size_t i = 0;
    while (i < r->n && i < want.n && r->body[i] == want.p[i])
        i++;
    size_t from = i > 60 ? i - 60 : 0;
    ck_abort_msg("%s: %zu bytes instead of %zu; at byte %zu: \"%.160s\" instead of \"%.160s\"", hw, r->n, want.n, i,
                 r->body + from, want.p + from);
}

/* ---- export ---- */

START_TEST(export_returns_every_byte_of_the_shipped_logs)
{
    struct bb_text all = bb_demo(0, bb_demo_count());
    bb_put_hardware("bytes");
    bb_counts(post("bytes", all), (long)bb_line_count(all.p, all.n), 0, 0);
    check_export("bytes", all);
}
END_TEST

START_TEST(export_keeps_the_order_of_acceptance)
{
    struct bb_text parts[3] = {bb_records(200, 50), bb_records(0, 50), bb_records(100, 50)};
    bb_put_hardware("ordered");
    for (int i = 0; i < 3; i++)
        bb_counts(post("ordered", parts[i]), 50, 0, 0);
    check_export("ordered", bb_join(parts, 3));
}
END_TEST

START_TEST(export_of_nothing_is_empty)
{
    bb_put_hardware("bare");
    check_export("bare", bb_records(0, 0));
}
END_TEST

START_TEST(export_of_one_task_holds_its_records_only)
{
    bb_put_hardware("by-task");
    struct bb_text a = bb_demo(9, 1), b = bb_demo(10, 1), both[2] = {a, b};
    struct bb_text all = bb_join(both, 2);
    bb_counts(post("by-task", all), (long)bb_line_count(all.p, all.n), 0, 0);
    struct bb_reply *tasks = bb_get("/v1/hardware/by-task/tasks");
    ck_assert_uint_eq(json_array_size(tc_at(tasks->json, "/items")), 2);
    bool seen_a = false, seen_b = false;
    for (size_t i = 0; i < 2; i++) {
        const char *id = tc_str(json_array_get(tc_at(tasks->json, "/items"), i), "/task");
        struct bb_reply *r = bb_get("/v1/hardware/by-task/measurements?task=%s", id);
        bb_status(r, 200);
        seen_a |= !strcmp(r->body, a.p);
        seen_b |= !strcmp(r->body, b.p);
    }
    ck_assert_msg(seen_a && seen_b, "the export by task is not what was posted");
    struct bb_reply *r = bb_get("/v1/hardware/by-task/measurements?task=0123456789abcdef");
    if (r->status == 200) /* an unknown task is an empty list or a 404, never somebody else's records */
        ck_assert_uint_eq(r->n, 0);
    else
        bb_problem(r, 404, "unknown-task");
    bb_problem(bb_get("/v1/hardware/by-task/measurements?task=xyz"), 400, "bad-parameter");
}
END_TEST

static void round_trip(const char *hw, const char *target, struct bb_text sent, struct bb_text want)
{
    bb_status(bb_json("PUT", bb_printf("{\"target\": \"%s\"}", target).p, "/v1/hardware/%s", hw), 201);
    bb_counts(post(hw, sent), (long)bb_line_count(sent.p, sent.n), 0, 0);
    check_export(hw, want);
}

START_TEST(export_returns_every_byte_of_our_own_logs)
{
    static const char *const labels[] = {"host-avx512", "host-avx2", "host-sse42"};
    for (size_t i = 0; i < 3; i++) {
        const char *dir = bb_shared(bb_printf("data/own/%s", labels[i]).p);
        if (!dir)
            return;
        char **name = bb_dir(dir, ".json");
        struct bb_text part[64];
        size_t n = 0;
        while (name[n] && n < 64) {
            part[n] = bb_file(bb_printf("%s/%s", dir, name[n]).p);
            n++;
        }
        struct bb_text all = bb_join(part, n);
        round_trip(labels[i], "llvm", all, all);
    }
}
END_TEST

/* Every step-th line; foreign number forms as TVM's writer prints them. */
static struct bb_text thin(struct bb_text t, size_t step, size_t first, bool canonical)
{
    static const char foreign[] = "10000000000.0";
    struct tp_buf b = {0};
    size_t i = 0;
    for (const char *p = t.p; *p; i++) {
        size_t n = strcspn(p, "\n") + 1;
        if (i % step == first % step) {
            const char *at = canonical ? memmem(p, n, foreign, sizeof foreign - 1) : NULL;
            if (at) {
                size_t skip = (size_t)(at - p) + sizeof foreign - 1;
                tp_buf_put(&b, p, (size_t)(at - p));
                tp_buf_puts(&b, "1e+10");
                tp_buf_put(&b, p + skip, n - skip);
            } else {
                tp_buf_put(&b, p, n);
            }
        }
        p += n;
    }
    tp_buf_putc(&b, '\0');
    struct bb_text out = bb_printf("%s", b.p);
    tp_buf_free(&b);
    return out;
}

START_TEST(export_returns_every_byte_of_other_peoples_logs)
{
    static const struct {
        const char *name, *target;
    } hw[] = {{"x86-24t", "llvm"}, {"xeon-4t", "llvm"}, {"v100", "cuda"},   {"k80", "cuda"},
              {"mi50", "rocm"},    {"a100-40", "cuda"}, {"a100-80", "cuda"}};
    const char *dir = bb_shared(bb_printf("data/public/%s", hw[_i].name).p);
    if (!dir)
        return;
    size_t step = bb_big() ? 1 : bb_slow() ? 200 : 40, files = 0;
    struct bb_text sent[32], want[32];
    for (char **name = bb_dir(dir, ".json.gz"); *name && files < 32; name++, files++) {
        struct bb_text t = bb_file(bb_printf("%s/%s", dir, *name).p);
        sent[files] = thin(t, step, 7 + files, false);
        want[files] = thin(t, step, 7 + files, true);
    }
    bb_status(bb_json("PUT", bb_printf("{\"target\": \"%s\"}", hw[_i].target).p, "/v1/hardware/%s", hw[_i].name), 201);
    for (size_t i = 0; i < files; i++)
        bb_counts(post(hw[_i].name, sent[i]), (long)bb_line_count(sent[i].p, sent[i].n), 0, 0);
    check_export(hw[_i].name, bb_join(want, files));
}
END_TEST

/* ---- duplicates ---- */

START_TEST(same_body_twice_is_all_duplicates)
{
    struct bb_text t = bb_records(0, 100);
    bb_put_hardware("twice");
    bb_counts(post("twice", t), 100, 0, 0);
    bb_counts(post("twice", t), 0, 100, 0);
    check_export("twice", t);
}
END_TEST

START_TEST(duplicates_within_one_body_count_once)
{
    struct bb_text t = bb_records(0, 10), twice[2] = {t, t};
    bb_put_hardware("within");
    bb_counts(post("within", bb_join(twice, 2)), 10, 10, 0);
    check_export("within", t);
}
END_TEST

START_TEST(what_makes_a_duplicate)
{
#define STEPS2 "[[], [[\"SP\", 2, 0, 512, [2], 1]]]"
#define LINE(target, params, steps, r, v)                                                                              \
    "{\"i\": [[\"[\\\"dup\\\", 1]\", \"" target "\", " params ", \"\", 1, []], " steps "], \"r\": " r ", \"v\": \"" v  \
    "\"}\n"
#define P8   "[8, 64, 64, 0, 0, 0, 0, 0]"
#define BASE LINE("llvm -mcpu=a", P8, STEPS2, "[[0.00123456, 0.002], 0, 0.5, 1700000000]", "v0.6")
    static const struct {
        const char *name, *line;
        bool duplicate;
    } cases[] = {
        {"another target string", LINE("llvm -mcpu=b", P8, STEPS2, "[[0.00123456, 0.002], 0, 0.5, 1700000000]", "v0.6"),
         true},
        {"another total time", LINE("llvm -mcpu=a", P8, STEPS2, "[[0.00123456, 0.002], 0, 0.75, 1700000000]", "v0.6"),
         true},
        {"another version", LINE("llvm -mcpu=a", P8, STEPS2, "[[0.00123456, 0.002], 0, 0.5, 1700000000]", "v0.5"),
         true},
        {"costs equal in six digits",
         LINE("llvm -mcpu=a", P8, STEPS2, "[[0.001234561, 0.002], 0, 0.5, 1700000000]", "v0.6"), true},
        {"another time", LINE("llvm -mcpu=a", P8, STEPS2, "[[0.00123456, 0.002], 0, 0.5, 1700000001]", "v0.6"), false},
        {"another cost", LINE("llvm -mcpu=a", P8, STEPS2, "[[0.00123457, 0.002], 0, 0.5, 1700000000]", "v0.6"), false},
        {"one cost fewer", LINE("llvm -mcpu=a", P8, STEPS2, "[[0.00123456], 0, 0.5, 1700000000]", "v0.6"), false},
        {"another error", LINE("llvm -mcpu=a", P8, STEPS2, "[[0.00123456, 0.002], 7, 0.5, 1700000000]", "v0.6"), false},
        {"another program",
         LINE("llvm -mcpu=a", P8, "[[], [[\"SP\", 2, 0, 512, [4], 1]]]", "[[0.00123456, 0.002], 0, 0.5, 1700000000]",
              "v0.6"),
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *hw = bb_printf("dup-%zu", i).p;
        bb_put_hardware(hw);
        bb_counts(post(hw, bb_printf("%s", BASE)), 1, 0, 0);
        struct bb_reply *r = post(hw, bb_printf("%s", cases[i].line));
        bb_status(r, 200);
        ck_assert_msg(tc_int(r->json, "/duplicates", -1) == cases[i].duplicate &&
                          tc_int(r->json, "/accepted", -1) == !cases[i].duplicate,
                      "%s: %s", cases[i].name, r->body);
    }
}
END_TEST

START_TEST(another_agent_does_not_make_it_new)
{
    struct bb_text t = bb_records(0, 5);
    bb_put_hardware("agents");
    bb_counts(bb_lines(t.p, t.n, "/v1/hardware/agents/measurements?agent=rack7-n3"), 5, 0, 0);
    bb_counts(bb_lines(t.p, t.n, "/v1/hardware/agents/measurements?agent=rack7-n4"), 0, 5, 0);
    bb_counts(post("agents", t), 0, 5, 0);
}
END_TEST

START_TEST(the_same_record_on_other_hardware_is_new)
{
    struct bb_text t = bb_records(0, 5);
    bb_put_hardware("here");
    bb_put_hardware("there");
    bb_counts(post("here", t), 5, 0, 0);
    bb_counts(post("there", t), 5, 0, 0);
}
END_TEST

START_TEST(malformed_agent_names_are_400)
{
    struct bb_text t = bb_records(0, 5);
    bb_put_hardware("bad-agent");
    static const char *const names[] = {"", "A", "a%20b", "-x", "a%00b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct bb_reply *r = bb_lines(t.p, t.n, "/v1/hardware/bad-agent/measurements?agent=%s", names[i]);
        ck_assert_msg(r->status == 400, "agent \"%s\": %ld", names[i], r->status);
        bb_problem(r, 400, NULL);
    }
    check_export("bad-agent", bb_records(0, 0));
}
END_TEST

START_TEST(unknown_hardware_shows_how_to_register)
{
    struct bb_text t = bb_records(0, 5);
    struct bb_reply *r = post("not-registered", t);
    bb_problem(r, 404, "unknown-hardware");
    ck_assert_msg(strstr(tc_str(r->json, "/detail"), "PUT /v1/hardware/not-registered"), "%s", r->body);
}
END_TEST

/* ---- failures, tasks, best ---- */

START_TEST(failures_are_stored_and_never_the_best)
{
    bb_put_hardware("failing");
    struct bb_text t = bb_printf(
        "%s\n%s\n%s\n", bb_record(1, 0.5, 1700000000).p,
        bb_printf("{\"i\": [" BB_TASK ", %s], \"r\": [[1e+10], 6, 20, 1700000001], \"v\": \"v0.6\"}", bb_state(2).p).p,
        bb_printf("{\"i\": [" BB_TASK ", %s], \"r\": [[0.001], 4, 20, 1700000002], \"v\": \"v0.6\"}", bb_state(3).p).p);
    bb_counts(post("failing", t), 3, 0, 0);
    check_export("failing", t);
    struct bb_reply *tasks = bb_get("/v1/hardware/failing/tasks");
    bb_status(tasks, 200);
    const json_t *task = tc_at(tasks->json, "/items/0");
    ck_assert_msg(tc_int(task, "/programs", -1) == 3 && tc_int(task, "/measurements", -1) == 3 &&
                      tc_int(task, "/failures", -1) == 2,
                  "%s", tasks->body);
    ck_assert_double_eq(tc_num(task, "/best_seconds"), 0.5);
    ck_assert_str_eq(bb_get("/v1/hardware/failing/best")->body, line_of(t, 0).p);
}
END_TEST

START_TEST(task_with_failures_only_has_no_best)
{
    bb_put_hardware("only-failures");
    struct bb_text t =
        bb_printf("{\"i\": [" BB_TASK ", %s], \"r\": [[1e+10], 6, 20, 1700000001], \"v\": \"v0.6\"}\n", bb_state(2).p);
    bb_counts(post("only-failures", t), 1, 0, 0);
    struct bb_reply *tasks = bb_get("/v1/hardware/only-failures/tasks");
    ck_assert_msg(json_is_null(tc_at(tasks->json, "/items/0/best_seconds")), "%s", tasks->body);
    struct bb_reply *best = bb_get("/v1/hardware/only-failures/best");
    bb_status(best, 200);
    ck_assert_uint_eq(best->n, 0);
}
END_TEST

START_TEST(tasks_tell_counts_and_best)
{
    bb_put_hardware("told");
    bb_post_demo("told", 9, 3);
    struct bb_reply *r = bb_get("/v1/hardware/told/tasks");
    bb_status(r, 200);
    const json_t *items = tc_at(r->json, "/items");
    ck_assert_uint_eq(json_array_size(items), 3);
    for (size_t i = 0; i < 3; i++) {
        const json_t *t = json_array_get(items, i);
        const char *id = tc_str(t, "/task");
        ck_assert_msg(id && strlen(id) == 16 && strspn(id, "0123456789abcdef") == 16, "%s", r->body);
        ck_assert_msg(tc_str(t, "/workload_key") && !strncmp(tc_str(t, "/workload_key"), "[\"tc_matmul\", ", 14), "%s",
                      r->body);
        ck_assert_str_eq(tc_str(t, "/target_kind"), "llvm");
        ck_assert_msg(tc_int(t, "/measurements", 0) >= 96 && tc_int(t, "/programs", 0) <= tc_int(t, "/measurements", 0),
                      "%s", r->body);
        ck_assert_msg(tc_num(t, "/best_seconds") > 0 && tc_num(t, "/best_seconds") < 0.01, "%s", r->body);
    }
    ck_assert_msg(json_is_null(tc_at(r->json, "/next_cursor")), "%s", r->body);
}
END_TEST

START_TEST(tasks_come_in_pages)
{
    enum { N = 7 };
    bb_put_hardware("paged");
    for (int i = 0; i < N; i++) {
        struct bb_text t = bb_printf(
            "{\"i\": [[\"[\\\"paged\\\", %d]\", \"llvm\"], %s], \"r\": [[0.5], 0, 1, 1700000000]}\n", i, bb_state(i).p);
        bb_counts(post("paged", t), 1, 0, 0);
    }
    char seen[N][64];
    int n = 0, pages = 0;
    const char *cursor = NULL;
    do {
        struct bb_reply *r = cursor ? bb_get("/v1/hardware/paged/tasks?limit=3&cursor=%s", cursor)
                                    : bb_get("/v1/hardware/paged/tasks?limit=3");
        bb_status(r, 200);
        const json_t *items = tc_at(r->json, "/items");
        ck_assert_uint_le(json_array_size(items), 3);
        for (size_t i = 0; i < json_array_size(items); i++) {
            ck_assert_int_lt(n, N);
            snprintf(seen[n], sizeof seen[n], "%s", tc_str(json_array_get(items, i), "/task"));
            for (int k = 0; k < n; k++)
                ck_assert_str_ne(seen[k], seen[n]);
            n++;
        }
        cursor = tc_str(r->json, "/next_cursor");
        ck_assert_int_lt(++pages, 10);
    } while (cursor);
    ck_assert_int_eq(n, N);
}
END_TEST

START_TEST(best_streams_the_fastest_record_of_each_task)
{
    bb_put_hardware("bests");
    struct bb_text a = bb_demo(9, 1), b = bb_demo(10, 1), both[2] = {a, b};
    bb_status(post("bests", bb_join(both, 2)), 200);
    struct bb_reply *best = bb_get("/v1/hardware/bests/best");
    bb_status(best, 200);
    ck_assert_str_eq(bb_header(best, "Content-Type"), "application/x-ndjson");
    ck_assert_uint_eq(bb_line_count(best->body, best->n), 2);
    struct bb_reply *tasks = bb_get("/v1/hardware/bests/tasks");
    for (int i = 0; i < 2; i++) {
        struct bb_text line = line_of((struct bb_text){(char *)(uintptr_t)best->body, best->n}, (size_t)i);
        ck_assert_msg(strstr(a.p, line.p) || strstr(b.p, line.p), "not a posted line: %s", line.p);
        json_t *rec = json_loads(line.p, 0, NULL);
        double cost = 1e9;
        for (size_t k = 0; k < json_array_size(tc_at(rec, "/r/0")); k++)
            if (json_number_value(json_array_get(tc_at(rec, "/r/0"), k)) < cost)
                cost = json_number_value(json_array_get(tc_at(rec, "/r/0"), k));
        bool told = false;
        for (size_t k = 0; k < 2; k++)
            told |= tc_num(json_array_get(tc_at(tasks->json, "/items"), k), "/best_seconds") == cost;
        ck_assert_msg(told, "no task has this best: %s / %s", line.p, tasks->body);
        json_decref(rec);
    }
}
END_TEST

START_TEST(a_faster_measurement_becomes_the_best)
{
    bb_put_hardware("faster");
    bb_counts(post("faster", bb_printf("%s\n", bb_record(1, 0.5, 1700000000).p)), 1, 0, 0);
    bb_counts(post("faster", bb_printf("%s\n", bb_record(2, 0.25, 1700000001).p)), 1, 0, 0);
    bb_counts(post("faster", bb_printf("%s\n", bb_record(3, 0.75, 1700000002).p)), 1, 0, 0);
    ck_assert_str_eq(bb_get("/v1/hardware/faster/best")->body, bb_printf("%s\n", bb_record(2, 0.25, 1700000001).p).p);
}
END_TEST

/* ---- gpu hardware ---- */

START_TEST(target_kinds_must_fit)
{
    static const char *const targets[] = {"cuda -arch=sm_90", "{\\\"kind\\\": \\\"cuda\\\"}", "rocm -mcpu=gfx906",
                                          "nvidia/geforce-rtx-3090", "acme/unknown-tag"};
    bb_status(bb_json("PUT", "{\"target\": \"cuda\"}", "/v1/hardware/gpu"), 201);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct bb_text t =
            bb_printf("{\"i\": [[\"[\\\"g\\\", %zu]\", \"%s\"], %s], \"r\": [[0.5], 0, 1, 1700000000]}\n", i,
                      targets[i], bb_state(1).p);
        struct bb_reply *r = post("gpu", t);
        bb_status(r, 200);
        ck_assert_msg(tc_int(r->json, "/accepted", 0) == 1, "%s: %s", targets[i], r->body);
    }
    struct bb_reply *r = post("gpu", bb_records(0, 1));
    bb_counts(r, 0, 0, 1);
    ck_assert_str_eq(tc_str(r->json, "/errors/0/code"), "wrong-target");
}
END_TEST

/* ---- many at once ---- */

enum { WRITERS = 8, BODIES = 6, PER_BODY = 60 };
struct writer {
    pthread_t thread;
    const char *base;
    struct bb_text body[BODIES];
    char problem[300];
};

static void *write_bodies(void *arg)
{
    struct writer *w = arg;
    struct tc_err e = {{0}};
    struct tc_http *h = tc_http_new(w->base, &e);
    for (int i = 0; h && i < BODIES && !w->problem[0]; i++) {
        json_t *reply = NULL;
        if (tc_post_lines(h, "/v1/hardware/crowd/measurements", w->body[i].p, w->body[i].n, &reply, &e))
            snprintf(w->problem, sizeof w->problem, "%.290s", e.text);
        else if (tc_int(reply, "/accepted", -1) != PER_BODY)
            snprintf(w->problem, sizeof w->problem, "accepted %lld", (long long)tc_int(reply, "/accepted", -1));
        json_decref(reply);
    }
    tc_http_free(h);
    return NULL;
}

START_TEST(many_agents_at_once_lose_nothing)
{
    struct writer w[WRITERS] = {{0}};
    bb_put_hardware("crowd");
    for (int i = 0; i < WRITERS; i++) {
        w[i].base = bb_base();
        for (int k = 0; k < BODIES; k++)
            w[i].body[k] = bb_records((i * BODIES + k) * PER_BODY, PER_BODY);
    }
    for (int i = 0; i < WRITERS; i++)
        ck_assert_int_eq(pthread_create(&w[i].thread, NULL, write_bodies, &w[i]), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(w[i].thread, NULL);
    for (int i = 0; i < WRITERS; i++)
        ck_assert_msg(!w[i].problem[0], "writer %d: %s", i, w[i].problem);
    struct bb_reply *r = bb_get("/v1/hardware/crowd/measurements");
    ck_assert_uint_eq(bb_line_count(r->body, r->n), WRITERS * BODIES * PER_BODY);
    for (int i = 0; i < WRITERS; i++)
        for (int k = 0; k < BODIES; k++) /* one body is one transaction's neighbours: its lines stay together */
            ck_assert_msg(strstr(r->body, line_of(w[i].body[k], PER_BODY / 2).p), "a record of writer %d is lost", i);
}
END_TEST

START_TEST(a_large_body_is_stored_whole)
{
    int n = bb_slow() ? 4000 : 20000;
    struct bb_text t = bb_records(0, n);
    bb_put_hardware("large");
    bb_counts(post("large", t), n, 0, 0);
    check_export("large", t);
}
END_TEST

START_TEST(a_reader_that_leaves_in_the_middle_does_no_harm)
{
    struct bb_text t = bb_records(0, 4000);
    bb_put_hardware("leaving");
    bb_counts(post("leaving", t), 4000, 0, 0);
    static const char get[] = "GET /v1/hardware/leaving/measurements HTTP/1.1\r\nHost: a\r\n\r\n";
    for (int i = 0; i < 20; i++) {
        int fd = bb_connect();
        bb_send(fd, get, sizeof get - 1);
        bb_recv(fd, "\r\n\r\n", 5, NULL);
        close(fd);
    }
    check_export("leaving", t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/measurements");
    TCase *tc = bb_case(s, "export", 60);
    tcase_add_test(tc, export_returns_every_byte_of_the_shipped_logs);
    tcase_add_test(tc, export_keeps_the_order_of_acceptance);
    tcase_add_test(tc, export_of_nothing_is_empty);
    tcase_add_test(tc, export_of_one_task_holds_its_records_only);
    tcase_add_test(tc, export_returns_every_byte_of_our_own_logs);
    tcase_add_test(tc, a_reader_that_leaves_in_the_middle_does_no_harm);

    tc = bb_case(s, "public logs", bb_big() ? 600 : 60);
    tcase_add_loop_test(tc, export_returns_every_byte_of_other_peoples_logs, 0, 7);

    tc = bb_case(s, "duplicates", 30);
    tcase_add_test(tc, same_body_twice_is_all_duplicates);
    tcase_add_test(tc, duplicates_within_one_body_count_once);
    tcase_add_test(tc, what_makes_a_duplicate);
    tcase_add_test(tc, another_agent_does_not_make_it_new);
    tcase_add_test(tc, the_same_record_on_other_hardware_is_new);
    tcase_add_test(tc, malformed_agent_names_are_400);
    tcase_add_test(tc, unknown_hardware_shows_how_to_register);

    tc = bb_case(s, "tasks", 30);
    tcase_add_test(tc, failures_are_stored_and_never_the_best);
    tcase_add_test(tc, task_with_failures_only_has_no_best);
    tcase_add_test(tc, tasks_tell_counts_and_best);
    tcase_add_test(tc, tasks_come_in_pages);
    tcase_add_test(tc, best_streams_the_fastest_record_of_each_task);
    tcase_add_test(tc, a_faster_measurement_becomes_the_best);
    tcase_add_test(tc, target_kinds_must_fit);

    tc = bb_case(s, "crowd", 60);
    tcase_add_test(tc, many_agents_at_once_lose_nothing);
    tcase_add_test(tc, a_large_body_is_stored_whole);
    return bb_main(s);
}
