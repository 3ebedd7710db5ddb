/* See suite.h. Daemons, calls and checks; data is in suite_data.c.
 *
 * Invariant: `root` is made before the first fork and removed by the parent only; what a test allocates is on the
 * `kept` lists of its own process and freed by the checked teardown, so that leak checkers stay quiet. */
#include "tests/http/suite.h"
#include "tests/http/suite_private.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[256];
static struct tc_daemon *case_daemon, *in_use;
static struct tc_http *http; /* this process's connection to in_use */
static pid_t http_owner;
static bool broken; /* a fixture's check failed: Check does not count those of teardowns */
static struct bb_reply *replies;
static struct kept {
    struct kept *next;
    void *p;
} * kept;

/* ---- memory of a test ---- */

void *bb_keep(void *p)
{
    struct kept *k = malloc(sizeof *k);
    if (!p || !k)
        abort();
    *k = (struct kept){.next = kept, .p = p};
    kept = k;
    return p;
}

static void free_all(void)
{
    if (http && http_owner == getpid())
        tc_http_free(http);
    http = NULL;
    bb_forget_json();
    while (replies) {
        struct bb_reply *r = replies;
        replies = r->next;
        json_decref(r->json);
        tc_reply_free(&r->raw);
        free(r);
    }
    while (kept) {
        struct kept *k = kept;
        kept = k->next;
        free(k->p);
        free(k);
    }
}

/* ---- suites ---- */

bool bb_slow(void)
{
    const char *s = getenv("TCLD_SLOW");
    return s && *s && strcmp(s, "0");
}

bool bb_big(void)
{
    const char *s = getenv("TCLD_BIG");
    return s && *s && strcmp(s, "0");
}

const char *bb_binary(void)
{
    const char *s = getenv("TCLD");
    return s && *s ? s : "build/tcld";
}

char *bb_path(const char *name)
{
    static int count;
    char *path = NULL;
    if (asprintf(&path, "%s/%s-%d-%d", root, name, (int)getpid(), count++) < 0)
        abort();
    return bb_keep(path);
}

static struct tc_daemon *start(const char *state_dir, const char *const *args, struct tc_err *e)
{
    struct tc_daemon *d = NULL;
    struct tc_daemon_opts o = {
        .binary = bb_binary(), .state_dir = state_dir, .args = args, .ready_seconds = bb_slow() ? 120 : 30};
    for (const char *const *p = args; p && *p; p++)
        if (!strcmp(*p, "--listen") && p[1])
            o.listen = p[1];
    return tc_daemon_start(&o, &d, e) ? NULL : d;
}

static const char *sanitizer_report(const char *log)
{
    static const char *const marks[] = {"AddressSanitizer", "ThreadSanitizer", "LeakSanitizer",
                                        "runtime error:", "MHD_PANIC"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (strstr(log, marks[i]))
            return strstr(log, marks[i]);
    return NULL;
}

static void daemon_up(void)
{
    struct tc_err e;
    char path[300];
    static int count;
    snprintf(path, sizeof path, "%s/case-%d", root, count++);
    case_daemon = start(path, NULL, &e);
    if (!case_daemon) {
        broken = true;
        fprintf(stderr, "no daemon for this case: %s\n", e.text);
    }
    ck_assert_msg(case_daemon != NULL, "no daemon: %s", e.text);
    in_use = case_daemon;
}

static void daemon_down(void)
{
    if (!case_daemon)
        return;
    int status = tc_daemon_stop(case_daemon, bb_slow() ? 120 : 40);
    const char *report = sanitizer_report(bb_log(case_daemon));
    if (status || report) {
        broken = true;
        fprintf(stderr, "the case's daemon ended with status %d; log %s: %.400s\n", status, tc_daemon_log(case_daemon),
                report ? report : "");
    }
    tc_daemon_free(case_daemon);
    case_daemon = in_use = NULL;
    free_all();
}

static TCase *new_case(Suite *s, const char *name, double timeout)
{
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, timeout * (bb_slow() ? 6 : 1));
    tcase_add_checked_fixture(tc, NULL, free_all);
    suite_add_tcase(s, tc);
    return tc;
}

TCase *bb_case(Suite *s, const char *name, double timeout)
{
    TCase *tc = new_case(s, name, timeout);
    tcase_add_unchecked_fixture(tc, daemon_up, daemon_down);
    return tc;
}

TCase *bb_case_own(Suite *s, const char *name, double timeout)
{
    return new_case(s, name, timeout);
}

int bb_main(Suite *s)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/tcld-http-XXXXXX", tmp && *tmp && strlen(tmp) < 200 ? tmp : "/tmp");
    if (!mkdtemp(root)) {
        fprintf(stderr, "cannot make a folder like %s: %s\n", root, strerror(errno));
        return 1;
    }
    if (access(bb_binary(), X_OK)) {
        fprintf(stderr, "cannot run %s: build it, or name another in $TCLD\n", bb_binary());
        rmdir(root);
        return 1;
    }
    setenv("TCLD_STARTER_KNOWLEDGE", "off", 0); /* a family knows what a test teaches it */
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    bool bad = srunner_ntests_failed(sr) > 0 || broken;
    srunner_free(sr);
    free_all();
    if (bad)
        fprintf(stderr, "state and logs of the daemons are kept: %s\n", root);
    else
        tc_remove_tree(root, NULL);
    return bad;
}

/* ---- daemons of a test ---- */

struct tc_daemon *bb_daemon(void)
{
    ck_assert_msg(case_daemon != NULL, "the case has no daemon");
    return case_daemon;
}

struct tc_daemon *bb_start(const char *state_dir, const char *const *args)
{
    struct tc_err e;
    struct tc_daemon *d = start(state_dir, args, &e);
    ck_assert_msg(d != NULL, "%s", e.text);
    bb_use(d);
    return d;
}

void bb_use(struct tc_daemon *d)
{
    if (http && http_owner == getpid())
        tc_http_free(http);
    http = NULL;
    in_use = d;
}

void bb_stop(struct tc_daemon *d)
{
    if (d == in_use)
        bb_use(NULL);
    int status = tc_daemon_stop(d, bb_slow() ? 120 : 40);
    const char *report = sanitizer_report(bb_log(d));
    ck_assert_msg(status == 0, "the daemon ended with status %d; its log: %s", status, tc_daemon_log(d));
    ck_assert_msg(report == NULL, "the daemon's log holds: %.400s", report);
    tc_daemon_free(d);
}

const char *bb_base(void)
{
    ck_assert_msg(in_use != NULL, "no daemon is in use");
    return tc_daemon_base(in_use);
}

struct tc_daemon *bb_in_use(void)
{
    return in_use;
}

char *bb_log(struct tc_daemon *d)
{
    struct tp_buf b = {0};
    if (tc_read_file(tc_daemon_log(d), &b, NULL) || !b.p)
        return bb_keep(calloc(1, 1));
    return bb_keep(b.p);
}

/* ---- calls ---- */

static struct tc_http *own_http(void)
{
    if (!http || http_owner != getpid()) { /* a fork's copy of a connection is not ours to use */
        struct tc_err e;
        http = tc_http_new(bb_base(), &e);
        http_owner = getpid();
        ck_assert_msg(http != NULL, "%s", e.text);
        tc_http_timeout(http, bb_slow() ? 300 : 60);
    }
    return http;
}

struct bb_reply *bb_call(const struct tc_request *q)
{
    struct tc_err e;
    struct bb_reply *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    r->next = replies;
    replies = r;
    int rc = tc_call(own_http(), q, &r->raw, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    r->status = r->raw.status;
    r->body = r->raw.body.p;
    r->n = r->raw.body.n;
    r->seconds = r->raw.seconds;
    const char *type = bb_header(r, "Content-Type");
    if (type && strstr(type, "json") && !strstr(type, "ndjson"))
        r->json = tc_reply_json(&r->raw, NULL);
    return r;
}

static char *vpath(const char *fmt, va_list ap)
{
    char *path = NULL;
    if (vasprintf(&path, fmt, ap) < 0)
        abort();
    return bb_keep(path);
}

#define PATH_OF(path, fmt)                                                                                             \
    va_list ap;                                                                                                        \
    va_start(ap, fmt);                                                                                                 \
    char *path = vpath(fmt, ap);                                                                                       \
    va_end(ap)

struct bb_reply *bb_get(const char *fmt, ...)
{
    PATH_OF(path, fmt);
    return bb_call(&(struct tc_request){.method = "GET", .path = path});
}

struct bb_reply *bb_delete(const char *fmt, ...)
{
    PATH_OF(path, fmt);
    return bb_call(&(struct tc_request){.method = "DELETE", .path = path});
}

struct bb_reply *bb_json(const char *method, const char *text, const char *fmt, ...)
{
    PATH_OF(path, fmt);
    return bb_call(&(struct tc_request){
        .method = method, .path = path, .body = text, .n = strlen(text), .content_type = "application/json"});
}

struct bb_reply *bb_lines(const void *p, size_t n, const char *fmt, ...)
{
    PATH_OF(path, fmt);
    return bb_call(&(struct tc_request){
        .method = "POST", .path = path, .body = p, .n = n, .content_type = "application/x-ndjson"});
}

const char *bb_header(const struct bb_reply *r, const char *name)
{
    enum { MAX = 2048 };
    char *buf = bb_keep(malloc(MAX));
    return tc_reply_header(&r->raw, name, buf, MAX);
}

/* ---- checks ---- */

void bb_fail_at(const char *file, int line, const char *fmt, ...)
{
    char text[1500];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    ck_abort_msg("%s:%d: %s", file, line, text);
    abort(); /* not reached */
}

void bb_status_at(const char *file, int line, const struct bb_reply *r, long want)
{
    if (r->status != want)
        bb_fail_at(file, line, "status %ld instead of %ld: %.600s", r->status, want, r->body);
}

void bb_problem_at(const char *file, int line, const struct bb_reply *r, long status, const char *slug)
{
    static const char urn[] = "urn:tcld:problem:";
    const char *type = bb_header(r, "Content-Type");
    bb_status_at(file, line, r, status);
    if (!type || strncmp(type, "application/problem+json", 24))
        bb_fail_at(file, line, "Content-Type of an error is %s", type ? type : "absent");
    const char *got = tc_str(r->json, "/type"), *title = tc_str(r->json, "/title"),
               *detail = tc_str(r->json, "/detail");
    if (!got || !title || !*title || !detail || !*detail || tc_int(r->json, "/status", 0) != status)
        bb_fail_at(file, line, "not a whole problem document: %.600s", r->body);
    if (strncmp(got, urn, sizeof urn - 1) || (slug && strcmp(got + sizeof urn - 1, slug)))
        bb_fail_at(file, line, "problem type %s instead of %s%s: %s", got, urn, slug ? slug : "*", detail);
}

void bb_counts_at(const char *file, int line, const struct bb_reply *r, long accepted, long duplicates, long rejected)
{
    bb_status_at(file, line, r, 200);
    if (tc_int(r->json, "/accepted", -1) != accepted || tc_int(r->json, "/duplicates", -1) != duplicates ||
        tc_int(r->json, "/rejected", -1) != rejected)
        bb_fail_at(file, line, "wanted %ld accepted, %ld duplicates, %ld rejected; got %.600s", accepted, duplicates,
                   rejected, r->body);
    if (!json_is_array(tc_at(r->json, "/errors")))
        bb_fail_at(file, line, "the reply of a write has no \"errors\": %.600s", r->body);
}
