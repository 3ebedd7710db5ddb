/* Damaged files: database, weights, configuration, tokens; cut short, overwritten, or somebody else's. The daemon says
 * what is wrong and does not start, or starts and serves what is sound; it never crashes, and never serves nonsense as
 * if nothing were. */
#include "tests/fault/with.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HW "damaged"

static uint64_t next(uint64_t *seed) /* splitmix64 */
{
    uint64_t x = *seed += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

enum { FLIP, CUT, NOISE, FOREIGN, KINDS };
static const char *const kind_name[KINDS] = {"flipped bytes", "cut short", "a block of noise", "another file"};

static void damage(const char *file, int kind, uint64_t seed)
{
    struct bb_text t = bb_file(file);
    char *p = malloc(t.n + 64);
    size_t n = t.n;
    memcpy(p, t.p, n);
    switch (kind) {
    case FLIP:
        for (int i = 0; i < 8; i++)
            p[next(&seed) % n] ^= (char)(1 + next(&seed) % 255);
        break;
    case CUT:
        n = next(&seed) % n;
        break;
    case NOISE: {
        size_t at = next(&seed) % n;
        for (size_t i = at; i < n && i < at + 4096; i++)
            p[i] = (char)next(&seed);
        break;
    }
    default:
        n = (size_t)snprintf(p, 64, "GIF89a, no file of ours %d", (int)seed);
    }
    ck_assert_int_eq(tc_write_file(file, p, n, NULL), 0);
    free(p);
}

/* Runs it until it is ready, asks it some things, ends it. Returns whether it came to serve. */
static bool try_to_serve(const char *dir, const char *what)
{
    struct tc_err e;
    struct tc_daemon *d = NULL;
    struct tc_daemon_opts o = {.binary = bb_binary(), .state_dir = dir, .ready_seconds = 60};
    if (tc_daemon_start(&o, &d, &e)) {
        struct bb_text log = bb_file(bb_printf("%s.log", dir).p);
        ck_assert_msg(strstr(e.text, "ended with status 1 "), "%s: %s", what, e.text); /* neither signal nor hang */
        ck_assert_msg(strstr(log.p, "event=start-failed") && strstr(log.p, "reason="), "%s: no reason: %s", what,
                      log.p);
        return false;
    }
    bb_use(d);
    static const char *const asked[] = {"/livez",       "/v1/hardware",
                                        "/v1/jobs",     "/v1/hardware/" HW,
                                        "/v1/models/1", "/v1/hardware/" HW "/models",
                                        "/metrics",     "/v1/hardware/" HW "/tasks"};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct bb_reply *r = bb_get("%s", asked[i]);
        ck_assert_msg(r->status < 600 && (r->status < 500 || strstr(r->body, "urn:tcld:problem:")), "%s: %s: %ld", what,
                      asked[i], r->status);
    }
    struct bb_text one = bb_demo(8, 1), few = bb_records(0, 10);
    struct bb_reply *r = bb_lines(one.p, one.n, "/v1/hardware/" HW "/predict");
    ck_assert_msg(r->status == 200 || tc_str(r->json, "/type"), "%s: predict %ld", what, r->status);
    r = bb_lines(few.p, few.n, "/v1/hardware/" HW "/measurements");
    ck_assert_msg(r->status == 200 || tc_str(r->json, "/type"), "%s: post %ld", what, r->status);
    /* an export of damaged rows may be cut off, but not hang or crash */
    struct tc_reply raw = {0};
    struct tc_http *h = tc_http_new(bb_base(), &e);
    (void)!tc_call(h, &(struct tc_request){.path = "/v1/hardware/" HW "/measurements"}, &raw, &e);
    tc_reply_free(&raw);
    tc_http_free(h);
    bb_status(bb_get("/livez"), 200);
    bb_stop(d);
    return true;
}

START_TEST(damaged_databases_are_refused_or_served_without_a_crash)
{
    char *template = fault_template(HW);
    int served = 0, refused = 0, rounds = bb_big() ? 60 : 5;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < (kind == FOREIGN ? 1 : rounds); i++) {
            char *dir = fault_copy(template);
            damage(bb_printf("%s/tcld.db", dir).p, kind, (uint64_t)(kind * 1000 + i));
            *(try_to_serve(dir, bb_printf("%s, %d", kind_name[kind], i).p) ? &served : &refused) += 1;
            tc_remove_tree(dir, NULL);
        }
    printf("damaged databases: %d refused, %d served\n", refused, served);
    ck_assert_int_gt(refused, 0);
}
END_TEST

START_TEST(damaged_weights_stop_neither_the_daemon_nor_other_models)
{
    char *template = fault_template(HW);
    int rounds = bb_big() ? 30 : 3;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < (kind == FOREIGN ? 1 : rounds); i++) {
            char *dir = fault_copy(template);
            char **files = bb_dir(bb_printf("%s/models", dir).p, ".safetensors");
            ck_assert_ptr_nonnull(files[0]);
            damage(bb_printf("%s/models/%s", dir, files[0]).p, kind, (uint64_t)(kind * 1000 + i));
            struct bb_text what = bb_printf("weights: %s, %d", kind_name[kind], i);
            ck_assert_msg(try_to_serve(dir, what.p), "%s: it does not start", what.p);
            ck_assert_msg(strstr(bb_file(bb_printf("%s.log", dir).p).p, "event=model-unusable"), "%s: not told",
                          what.p);
            tc_remove_tree(dir, NULL);
        }
}
END_TEST

START_TEST(damaged_configurations_are_told_by_line)
{
    struct tc_err e;
    struct bb_text good = bb_file("config/tcld.conf");
    char *file = bb_path("conf");
    uint64_t seed = 7;
    for (int i = 0; i < (bb_big() ? 300 : 30); i++) {
        char *p = malloc(good.n);
        memcpy(p, good.p, good.n);
        for (int k = 0; k < 6; k++) /* settings come alive, or lines turn to nonsense */
            p[next(&seed) % good.n] = "\n=#;\0\xff 9a"[next(&seed) % 9];
        ck_assert_int_eq(tc_write_file(file, p, good.n, NULL), 0);
        free(p);
        struct tp_buf err = {0};
        int status =
            tc_run((const char *[]){bb_binary(), "-c", file, "--check-config", NULL}, NULL, 20, NULL, &err, &e);
        ck_assert_msg(status == 0 || (status == 1 && err.n > 6), "%d: status %d: %s", i, status, err.p);
        tp_buf_free(&err);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fault/damage");
    TCase *tc = bb_case_own(s, "files", bb_big() ? 1200 : 150);
    tcase_add_test(tc, damaged_databases_are_refused_or_served_without_a_crash);
    tcase_add_test(tc, damaged_weights_stop_neither_the_daemon_nor_other_models);
    tcase_add_test(tc, damaged_configurations_are_told_by_line);
    return bb_main(s);
}
