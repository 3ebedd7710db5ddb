/* SIGKILL at chosen moments of everything that writes: before the n-th call that changes a file, for n = 1, 2, 3, 5, 8
 * … (with $TCLD_BIG: every n) until the work gets through. Then the daemon starts again and everything that was
 * acknowledged is there, the model that was active predicts, and the work can be done again. */
#include "tests/fault/with.h"

#include "store/db.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HW "victim"

/* What survived, compared with what was before. */
struct before {
    struct bb_text measurements;
    int64_t model;
};

/* Does the work; true when it was acknowledged. Transport failures are what a kill looks like. */
typedef bool (*work_fn)(struct tc_http *h, const char *dir);

static json_t *call(struct tc_http *h, const char *method, const char *path, const void *body, size_t n,
                    const char *type, long want)
{
    struct tc_reply r = {0};
    json_t *out = NULL;
    struct tc_request q = {.method = method, .path = path, .body = body, .n = n, .content_type = type};
    if (!tc_call(h, &q, &r, NULL) && r.status == want)
        out = tc_reply_json(&r, NULL);
    tc_reply_free(&r);
    return out;
}

static bool job(struct tc_http *h, json_t *submitted)
{
    json_t *end = NULL;
    struct tc_err e;
    bool ok = submitted && !tc_job_wait(h, tc_int(submitted, "/id", 0), 120, NULL, NULL, &end, &e) &&
              !strcmp(tc_str(end, "/state"), "succeeded");
    json_decref(submitted);
    json_decref(end);
    return ok;
}

static bool ingest(struct tc_http *h, const char *dir)
{
    (void)dir;
    struct bb_text t = bb_records(100, 120);
    json_t *r = call(h, "POST", "/v1/hardware/" HW "/measurements", t.p, t.n, "application/x-ndjson", 200);
    bool ok = r && tc_int(r, "/accepted", 0) == 120;
    json_decref(r);
    return ok;
}

static bool import(struct tc_http *h, const char *dir)
{
    struct bb_text file = bb_file(bb_printf("%s/weights", dir).p);
    json_t *r =
        call(h, "POST", "/v1/hardware/" HW "/models?activate=true", file.p, file.n, "application/octet-stream", 201);
    bool ok = r != NULL;
    json_decref(r);
    return ok;
}

static bool select_some(struct tc_http *h, const char *dir)
{
    (void)dir;
    struct tp_buf b = {0};
    for (int i = 0; i < 40; i++)
        tp_buf_printf(&b, "%s\n", bb_unmeasured(1000 + i).p);
    json_t *r = call(h, "POST", "/v1/hardware/" HW "/candidates", b.p, b.n, "application/x-ndjson", 200);
    tp_buf_free(&b);
    bool posted = r != NULL;
    json_decref(r);
    return posted &&
           job(h, call(h, "POST", "/v1/hardware/" HW "/selections", "{\"budget\": 8}", 13, "application/json", 202));
}

static bool train(struct tc_http *h, const char *dir)
{
    static const char how[] = "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 2}";
    (void)dir;
    return job(h, call(h, "POST", "/v1/hardware/" HW "/retrain", how, sizeof how - 1, "application/json", 202));
}

static const struct work {
    const char *name;
    work_fn run;
} works[] = {{"ingest", ingest}, {"import", import}, {"selection", select_some}, {"training", train}};

static void check(const struct work *w, const char *dir, const struct before *was, bool acknowledged, long n)
{
    struct tc_daemon *d = bb_start(dir, NULL);
    struct bb_text now = {0};
    struct bb_reply *r = bb_get("/v1/hardware/" HW "/measurements");
    now.p = (char *)(uintptr_t)r->body;
    now.n = r->n;
    ck_assert_msg(now.n >= was->measurements.n && !memcmp(now.p, was->measurements.p, was->measurements.n),
                  "%s, %ld: measurements are lost", w->name, n);
    if (acknowledged && w->run == ingest)
        ck_assert_msg(bb_line_count(now.p, now.n) == bb_line_count(was->measurements.p, was->measurements.n) + 120,
                      "%s, %ld: acknowledged records are lost", w->name, n);
    r = bb_get("/v1/hardware/" HW "/models");
    bb_status(r, 200);
    if (acknowledged && w->run == import)
        ck_assert_msg(tc_int(r->json, "/items/0/id", 0) > was->model, "%s, %ld: the model is lost", w->name, n);
    struct bb_text one = bb_demo(8, 1);
    struct bb_reply *p = bb_lines(one.p, one.n, "/v1/hardware/" HW "/predict");
    bb_status(p, 200);
    r = bb_get("/v1/jobs?state=running");
    ck_assert_msg(json_array_size(tc_at(r->json, "/items")) == 0, "%s, %ld: a job of the dead runs", w->name, n);
    /* and all of it can be done (again) */
    struct tc_http *h = tc_http_new(bb_base(), NULL);
    bool again = w->run(h, dir);
    tc_http_free(h);
    ck_assert_msg(again || w->run == ingest || w->run == select_some, "%s, %ld: it cannot be done again", w->name, n);
    if (w->run == ingest) {
        struct bb_text t = bb_records(100, 120);
        bb_counts(bb_lines(t.p, t.n, "/v1/hardware/" HW "/measurements"), 0, 120, 0);
    }
    bb_stop(d);
}

START_TEST(kill_9_in_the_middle_loses_nothing)
{
    const struct work *w = &works[_i];
    char *template = fault_template(HW);
    struct before was = {0};
    struct tc_daemon *d = bb_start(template, NULL);
    was.model = tc_int(bb_get("/v1/hardware/" HW "/models")->json, "/items/0/id", 0);
    was.measurements = bb_printf("%s", bb_get("/v1/hardware/" HW "/measurements")->body);
    struct bb_reply *weights = bb_get("/v1/models/%lld/weights", (long long)was.model);
    bb_status(weights, 200);
    ck_assert_int_eq(tc_write_file(bb_printf("%s/weights", template).p, weights->body, weights->n, NULL), 0);
    bb_stop(d);

    int kills = 0;
    bool through = false;
    for (long n = 1, step = 1; !through; kills++) {
        char *dir = fault_copy(template);
        struct fault_control *f = fault_new(dir);
        d = fault_start(f, dir, NULL, false);
        struct tc_http *h = tc_http_new(bb_base(), NULL);
        tc_http_timeout(h, 120);
        atomic_store(&f->die_at, n);
        bool acknowledged = w->run(h, dir);
        tc_http_free(h);
        through = atomic_exchange(&f->die_at, 0) > 0;
        if (through) {
            ck_assert_msg(acknowledged, "%s does not get through without a kill", w->name);
            bb_stop(d);
        } else {
            ck_assert_int_eq(tc_daemon_wait(d, 60), 128 + SIGKILL);
            tc_daemon_free(d);
        }
        check(w, dir, &was, acknowledged, n);
        tc_remove_tree(dir, NULL);
        if (bb_big()) {
            n++;
        } else { /* 1, 2, 3, 5, 8 … */
            long next = n + step;
            step = n;
            n = next;
        }
    }
    printf("%s: %d moments\n", w->name, kills);
}
END_TEST

/* A database of the first schema, as the first version left it. */
static char *old_database(void)
{
    char *dir = bb_path("old");
    struct st_db db = {0};
    struct tp_err e;
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    ck_assert_int_eq(tc_write_file(bb_printf("%s/tcld.db", dir).p, "", 0, NULL), 0);
    ck_assert_msg(st_db_open(&db, bb_printf("%s/tcld.db", dir).p, true, &e) == 0 &&
                      st_migrate(&db, st_migrations, 1, &e) == 0 &&
                      st_db_exec(&db,
                                 "INSERT INTO family (name, created) VALUES ('cpu', 1);"
                                 "INSERT INTO hardware (name, family, kind, target, descriptor, created)"
                                 " SELECT 'kept', id, 'cpu', 'llvm', '{}', 1 FROM family",
                                 &e) == 0,
                  "%s", e.detail);
    st_db_close(&db);
    return dir;
}

START_TEST(kill_9_in_a_migration_is_made_good_at_the_next_start)
{
    char *template = old_database();
    int kills = 0;
    bool through = false;
    for (long n = 1; !through; n += bb_big() ? 1 : 1 + n / 2, kills++) {
        char *dir = fault_copy(template);
        struct fault_control *f = fault_new(dir);
        atomic_store(&f->die_at, n);
        struct tc_daemon *d = fault_start(f, dir, NULL, true);
        through = d != NULL;
        if (d) {
            atomic_store(&f->die_at, 0);
            bb_stop(d);
        }
        d = bb_start(dir, NULL);
        bb_status(bb_get("/v1/hardware/kept"), 200);
        bb_stop(d);
        tc_remove_tree(dir, NULL);
    }
    ck_assert_int_gt(kills, 3);
    printf("migration: %d moments\n", kills);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fault/kill");
    TCase *tc = bb_case_own(s, "kill", bb_big() ? 3000 : 200);
    tcase_add_loop_test(tc, kill_9_in_the_middle_loses_nothing, 0, sizeof works / sizeof *works);
    tcase_add_test(tc, kill_9_in_a_migration_is_made_good_at_the_next_start);
    return bb_main(s);
}
