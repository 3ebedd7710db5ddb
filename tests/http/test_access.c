/* Who may do what: every route against every role, tokens and their quotas, peers of a unix socket, TLS, web pages, and
 * that no secret gets out.
 *
 * Every test starts a daemon of its own, from the test's main thread, in a folder of its own. No clock decides but as a
 * generous upper bound. */
#include "tests/http/suite.h"

#include <curl/curl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum role { NONE, PREDICT, MEASURE, OPERATE, ROLES };
static const char *const role_name[ROLES] = {"", "predict", "measure", "operate"};

static const struct route {
    const char *method, *path;
    enum role role;
    const char *body; /* kind */
} routes[] = {
#define R(method, path, handler, role, body, where, summary) {method, path, role, #body},
#include "daemon/routes.def"
#undef R
};
enum { N_ROUTES = sizeof routes / sizeof *routes };

static char *filled(const char *path)
{
    char out[200] = "";
    size_t n = 0;
    while (*path && n + 16 < sizeof out) {
        if (*path != '{') {
            out[n++] = *path++;
            continue;
        }
        n += (size_t)snprintf(out + n, sizeof out - n, "%s", !strncmp(path, "{id}", 4) ? "1" : "some-name");
        path += strcspn(path, "}") + 1;
    }
    out[n] = '\0';
    return bb_printf("%s", out).p;
}

/* ---- tokens ---- */

/* `tcld --new-token`; the token. */
static char *new_token(const char *file, const char *role, const char *name)
{
    struct tc_err e;
    struct tp_buf out = {0}, err = {0};
    const char *argv[] = {bb_binary(), "--new-token", role, "--token-name", name, "--tokens-file", file, NULL};
    int status = tc_run(argv, NULL, 20, &out, &err, &e);
    ck_assert_msg(status == 0, "%d: %s", status, err.p ? err.p : "");
    char *token = bb_printf("%.*s", (int)strcspn(out.p, "\n"), out.p).p;
    ck_assert_uint_eq(strlen(token), 48);
    tp_buf_free(&out);
    tp_buf_free(&err);
    return token;
}

static struct bb_reply *call_as(const char *token, const char *method, const char *path, const char *body,
                                const char *type)
{
    const char *headers[] = {token ? bb_printf("Authorization: Bearer %s", token).p : NULL, NULL};
    return bb_call(&(struct tc_request){.method = method,
                                        .path = path,
                                        .body = body,
                                        .n = body ? strlen(body) : 0,
                                        .content_type = type,
                                        .headers = headers});
}

/* A request that its route takes: refusals of form come after those of rights. */
static struct bb_reply *call_route(const struct route *r, const char *token)
{
    const char *type = NULL, *body = NULL;
    if (!strcmp(r->body, "JSON"))
        body = "{}", type = "application/json";
    else if (!strcmp(r->body, "RECORDS"))
        body = "{}\n", type = "application/x-ndjson";
    else if (!strcmp(r->body, "WEIGHTS"))
        body = "xxxxxxxxxx", type = "application/octet-stream";
    return call_as(token, r->method, filled(r->path), body, type);
}

static char *guarded_dir; /* state directory of the daemon with tokens */

static struct tc_daemon *start_with_tokens(char **file, char *token[ROLES])
{
    guarded_dir = bb_path("guarded");
    *file = bb_path("tokens");
    for (int i = PREDICT; i < ROLES; i++)
        token[i] = new_token(*file, role_name[i], bb_printf("tester-%s", role_name[i]).p);
    return bb_start(guarded_dir, (const char *[]){"--tokens-file", *file, "--log-level", "debug", NULL});
}

static void no_token_in_log(const char *log, char *const token[ROLES])
{
    for (int i = PREDICT; i < ROLES; i++)
        ck_assert_msg(!strstr(log, token[i] + 5), "the log holds a token");
}

static void no_secret(const struct tc_daemon *d, const struct bb_reply *r, char *const token[ROLES])
{
    for (int i = PREDICT; i < ROLES; i++) {
        ck_assert_msg(!strstr(r->body, token[i] + 5), "a reply holds a token");
        ck_assert_msg(!strstr(r->raw.head.p, token[i] + 5), "a header holds a token");
    }
    static const char *const inner[] = {"SELECT", "INSERT", "sqlite", "tcld.db", "/models/1."};
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
        ck_assert_msg(!strstr(r->body, inner[i]) || r->status < 400, "an error tells of the inside: %.300s", r->body);
    const char *folder = strrchr(tc_daemon_log(d), '/');
    ck_assert_msg(!strstr(r->body, bb_printf("%.*s", (int)(folder - tc_daemon_log(d)), tc_daemon_log(d)).p),
                  "a reply holds a path: %.300s", r->body);
}

START_TEST(no_role_can_do_what_it_must_not)
{
    char *file, *token[ROLES] = {NULL};
    struct tc_daemon *d = start_with_tokens(&file, token);
    static const char *const strangers[] = {"", "x", "tcld_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                                            "tcld_\xff\xfe"};
    int calls = 0;
    for (int i = 0; i < N_ROUTES; i++) {
        const struct route *r = &routes[i];
        for (size_t k = 0; k <= sizeof strangers / sizeof *strangers; k++, calls++) {
            struct bb_reply *got = call_route(r, k ? strangers[k - 1] : NULL);
            if (r->role == NONE) {
                ck_assert_msg(got->status != 401 && got->status != 403, "%s: %ld", r->path, got->status);
            } else {
                bb_problem(got, 401, "unauthorized");
                ck_assert_str_eq(bb_header(got, "WWW-Authenticate"), "Bearer realm=\"tcld\"");
            }
            no_secret(d, got, token);
        }
        for (int role = PREDICT; role < ROLES; role++, calls++) {
            struct bb_reply *got = call_route(r, token[role]);
            if ((enum role)role < r->role)
                bb_problem(got, 403, "forbidden");
            else
                ck_assert_msg(got->status != 401 && got->status != 403, "%s %s as %s: %ld", r->method, r->path,
                              role_name[role], got->status);
            no_secret(d, got, token);
        }
    }
    const char *path = bb_printf("%s", tc_daemon_log(d)).p;
    bb_stop(d);
    const char *log = bb_file(path).p;
    no_token_in_log(log, token);
    ck_assert_ptr_nonnull(strstr(log, "who=token:tester-operate"));
    for (size_t k = 2; k < sizeof strangers / sizeof *strangers; k++)
        ck_assert_msg(!strstr(log, strangers[k]), "the log holds what was given for a token");
    printf("%d calls over %d routes\n", calls, N_ROUTES);
}
END_TEST

/* Tables that are gone and a folder that is no folder: every route that needs them fails, and none says of what. */
START_TEST(what_fails_inside_is_not_told_outside)
{
    char *file, *token[ROLES] = {NULL};
    struct tc_daemon *d = start_with_tokens(&file, token);
    sqlite3 *db = NULL;
    bb_status(call_as(token[OPERATE], "PUT", "/v1/hardware/some-name", "{\"target\": \"llvm\"}", "application/json"),
              201);
    ck_assert_int_eq(sqlite3_open(bb_printf("%s/tcld.db", guarded_dir).p, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db,
                                  "PRAGMA foreign_keys = off; DROP TABLE measurement; DROP TABLE model; DROP TABLE job",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    ck_assert_int_eq(tc_remove_tree(bb_printf("%s/models", guarded_dir).p, NULL), 0);
    int failed = 0;
    for (int i = 0; i < N_ROUTES; i++) {
        struct bb_reply *got = call_route(&routes[i], token[OPERATE]);
        no_secret(d, got, token);
        failed += got->status >= 500;
    }
    ck_assert_int_gt(failed, 5);
    no_token_in_log(bb_log(d), token);
    bb_stop(d);
}
END_TEST

START_TEST(the_role_of_each_route_is_the_contracts)
{
    /* API.md: predict reads all but weights and exports, and predicts; measure also measurements, candidates, leases,
     * exports; the rest is for operators */
    for (int i = 0; i < N_ROUTES; i++) {
        const struct route *r = &routes[i];
        enum role want = OPERATE;
        bool get = !strcmp(r->method, "GET");
        if (!strcmp(r->path, "/livez") || !strcmp(r->path, "/readyz") || !strcmp(r->path, "/metrics"))
            want = NONE;
        else if (strstr(r->path, "/weights") || (!strcmp(r->method, "DELETE") && strstr(r->path, "/hardware/")))
            want = OPERATE;
        else if ((get && (strstr(r->path, "/measurements") || !strcmp(strrchr(r->path, '/'), "/best"))) ||
                 (!get &&
                  (strstr(r->path, "/measurements") || strstr(r->path, "/candidates") || strstr(r->path, "/leases"))))
            want = MEASURE;
        else if (get || strstr(r->path, "/predict"))
            want = PREDICT;
        ck_assert_msg(r->role == want || (get && r->role == NONE && !strncmp(r->path, "/v1", 3) == 0), "%s %s needs %s",
                      r->method, r->path, role_name[r->role]);
    }
}
END_TEST

START_TEST(no_log_and_no_metric_holds_a_token)
{
    char *file, *token[ROLES] = {NULL};
    struct tc_daemon *d = start_with_tokens(&file, token);
    for (int role = PREDICT; role < ROLES; role++) {
        const char *headers[] = {bb_printf("Authorization: Bearer %s", token[role]).p,
                                 bb_printf("traceparent: %s", token[role]).p,
                                 bb_printf("X-Forwarded-For: %s", token[role]).p, NULL};
        bb_status(bb_call(&(struct tc_request){.path = bb_printf("/v1/hardware?access_token=%s", token[role]).p,
                                               .headers = headers}),
                  400);
        bb_status(call_as(token[role], "GET", "/v1", NULL, NULL), 200);
    }
    bb_status(call_as(token[OPERATE], "PUT", "/v1/hardware/secret", "{\"target\": \"llvm\"}", "application/json"), 201);
    struct bb_reply *metrics = bb_get("/metrics");
    tc_sleep(0.1);
    tc_daemon_signal(d, SIGHUP);
    for (double until = tc_now() + 10; tc_now() < until && !strstr(bb_log(d), "event=reloaded");)
        tc_sleep(0.02);
    no_token_in_log(bb_log(d), token);
    for (int role = PREDICT; role < ROLES; role++) {
        ck_assert_msg(!strstr(metrics->body, token[role] + 5), "the metrics hold a token");
        ck_assert_msg(!strstr(bb_file(file).p, token[role] + 5), "the file holds a token");
    }
    bb_stop(d);
}
END_TEST

START_TEST(every_change_has_an_audit_line_whatever_the_level)
{
    char *file = bb_path("tokens"), *token = new_token(file, "operate", "alice");
    struct tc_daemon *d =
        bb_start(bb_path("audit"), (const char *[]){"--tokens-file", file, "--log-level", "error", NULL});
    bb_status(call_as(token, "PUT", "/v1/hardware/noted", "{\"target\": \"llvm\"}", "application/json"), 201);
    bb_status(call_as(token, "GET", "/v1/hardware/noted", NULL, NULL), 200);
    bb_status(call_as(token, "DELETE", "/v1/hardware/noted", NULL, NULL), 204);
    for (double until = tc_now() + 5; tc_now() < until && !strstr(bb_log(d), "method=DELETE");)
        tc_sleep(0.02);
    const char *log = bb_log(d), *line = strstr(log, "event=change who=token:alice from=127.0.0.1 method=PUT "
                                                     "path=/v1/hardware/noted status=201");
    ck_assert_msg(line && strstr(line, "method=DELETE path=/v1/hardware/noted status=204"), "%s", log);
    ck_assert_msg(!strstr(log, "method=GET"), "%s", log);
    bb_stop(d);
}
END_TEST

START_TEST(sighup_takes_new_tokens_in_and_old_ones_out)
{
    char *file, *token[ROLES] = {NULL};
    struct tc_daemon *d = start_with_tokens(&file, token);
    char *fresh = new_token(file, "predict", "fresh");
    bb_problem(call_as(fresh, "GET", "/v1", NULL, NULL), 401, "unauthorized");
    tc_daemon_signal(d, SIGHUP);
    long status = 0;
    for (double until = tc_now() + 10; tc_now() < until && status != 200; tc_sleep(0.02))
        status = call_as(fresh, "GET", "/v1", NULL, NULL)->status;
    ck_assert_int_eq(status, 200);
    /* a damaged file changes nothing and is told */
    struct bb_text all = bb_file(file);
    ck_assert_int_eq(tc_write_file(file, "nonsense\n", 9, NULL), 0);
    chmod(file, 0600);
    tc_daemon_signal(d, SIGHUP);
    for (double until = tc_now() + 10; tc_now() < until && !strstr(bb_log(d), "event=reload-failed");)
        tc_sleep(0.02);
    ck_assert_ptr_nonnull(strstr(bb_log(d), "event=reload-failed"));
    bb_status(call_as(fresh, "GET", "/v1", NULL, NULL), 200);
    /* without the last line it is unknown again */
    const char *last = strstr(all.p, "predict fresh");
    while (last > all.p && last[-1] != '\n')
        last--;
    ck_assert_int_eq(tc_write_file(file, all.p, (size_t)(last - all.p), NULL), 0);
    chmod(file, 0600);
    tc_daemon_signal(d, SIGHUP);
    for (double until = tc_now() + 10; tc_now() < until && status == 200; tc_sleep(0.02))
        status = call_as(fresh, "GET", "/v1", NULL, NULL)->status;
    ck_assert_int_eq(status, 401);
    bb_status(call_as(token[PREDICT], "GET", "/v1", NULL, NULL), 200);
    bb_stop(d);
}
END_TEST

START_TEST(quotas_are_429_with_retry_after)
{
    char *file = bb_path("tokens"), *token = new_token(file, "operate", "busy");
    struct bb_text line = bb_file(file);
    struct bb_text with = bb_printf("%.*s requests_per_minute=5\n", (int)line.n - 1, line.p);
    ck_assert_int_eq(tc_write_file(file, with.p, with.n, NULL), 0);
    struct tc_daemon *d = bb_start(bb_path("quota"), (const char *[]){"--tokens-file", file, NULL});
    for (int i = 0; i < 5; i++)
        bb_status(call_as(token, "GET", "/v1", NULL, NULL), 200);
    struct bb_reply *r = call_as(token, "GET", "/v1", NULL, NULL);
    bb_problem(r, 429, "too-many-requests");
    long after = strtol(bb_header(r, "Retry-After"), NULL, 10);
    ck_assert_msg(after >= 1 && after <= 12, "Retry-After: %ld", after);
    bb_status(bb_get("/livez"), 200);
    ck_assert_ptr_nonnull(strstr(bb_get("/metrics")->body, "tcld_auth_refusals_total{reason=\"quota\"} 1"));
    bb_stop(d);
}
END_TEST

START_TEST(metrics_can_be_closed)
{
    char *file = bb_path("tokens"), *token = new_token(file, "predict", "prometheus");
    struct tc_daemon *d =
        bb_start(bb_path("closed"), (const char *[]){"--tokens-file", file, "--metrics-open=false", NULL});
    bb_problem(bb_get("/metrics"), 401, "unauthorized");
    bb_status(call_as(token, "GET", "/metrics", NULL, NULL), 200);
    bb_status(bb_get("/livez"), 200);
    bb_stop(d);
}
END_TEST

START_TEST(other_addresses_need_tokens_or_insecure)
{
    struct tc_err e;
    struct tp_buf err = {0};
    char *file = bb_path("tokens");
    new_token(file, "operate", "boss");
    const char *bare[] = {bb_binary(), "--listen", "0.0.0.0:0", "--check-config", NULL};
    const char *guarded[] = {bb_binary(), "--listen", "0.0.0.0:0", "--tokens-file", file, "--check-config", NULL};
    const char *missing[] = {bb_binary(),       "--listen",       "0.0.0.0:0", "--tokens-file",
                             "/nowhere/tokens", "--check-config", NULL};
    ck_assert_int_eq(tc_run(bare, NULL, 20, NULL, &err, &e), 1);
    ck_assert_msg(strstr(err.p, "tokens_file") && strstr(err.p, "insecure"), "%s", err.p);
    ck_assert_int_eq(tc_run(guarded, NULL, 20, NULL, NULL, &e), 0);
    ck_assert_int_eq(tc_run(missing, NULL, 20, NULL, NULL, &e), 1);
    tp_buf_free(&err);
}
END_TEST

/* ---- peers of a unix socket ---- */

/* GET or PUT as another user; the status. */
static long as_user(uid_t uid, gid_t gid, const char *method, const char *path)
{
    int p[2];
    ck_assert_int_eq(pipe(p), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct tc_reply r = {0};
        long status = -1;
        if (setgid(gid) == 0 && setuid(uid) == 0) {
            struct tc_http *h = tc_http_new(bb_base(), NULL);
            struct tc_request q = {.method = method,
                                   .path = path,
                                   .body = "{\"target\": \"llvm\"}",
                                   .n = strcmp(method, "PUT") ? 0 : 18,
                                   .content_type = "application/json"};
            if (h && !tc_call(h, &q, &r, NULL))
                status = r.status;
        }
        (void)!write(p[1], &status, sizeof status);
        _exit(0);
    }
    close(p[1]);
    long status = -2;
    (void)!read(p[0], &status, sizeof status);
    close(p[0]);
    waitpid(pid, NULL, 0);
    return status;
}

START_TEST(the_kernel_says_who_is_at_a_unix_socket)
{
    enum { READER = 61001, AGENTS = 61002, NOBODY = 61003 };
    if (geteuid() != 0) {
        printf("skipped: changing users needs root\n");
        return;
    }
    struct bb_text sock = bb_printf("/tmp/tcld-peer-%d.sock", (int)getpid());
    char *file = bb_path("tokens"), *token = new_token(file, "measure", "by-token");
    struct tc_daemon *d =
        bb_start(bb_path("peers"), (const char *[]){"--listen", bb_printf("unix:%s", sock.p).p, "--tokens-file", file,
                                                    "--unix-peers", "61001=predict, @61002=measure", NULL});
    ck_assert_int_eq(chmod(sock.p, 0666), 0);
    bb_status(bb_json("PUT", "{\"target\": \"llvm\"}", "/v1/hardware/root"), 201); /* we are the daemon's own user */
    ck_assert_int_eq(as_user(READER, 61000, "GET", "/v1/hardware"), 200);
    ck_assert_int_eq(as_user(READER, 61000, "PUT", "/v1/hardware/x"), 403);
    ck_assert_int_eq(as_user(READER, 61000, "GET", "/v1/hardware/root/measurements"), 403);
    ck_assert_int_eq(as_user(61009, AGENTS, "GET", "/v1/hardware/root/measurements"), 200);
    ck_assert_int_eq(as_user(NOBODY, 61000, "GET", "/v1/hardware"), 401);
    ck_assert_int_eq(as_user(NOBODY, 61000, "GET", "/livez"), 200);
    bb_problem(call_as(token, "PUT", "/v1/hardware/y", "{\"target\": \"llvm\"}", "application/json"), 403, "forbidden");
    bb_stop(d);
}
END_TEST

/* ---- web pages ---- */

START_TEST(web_pages_of_other_hosts_change_nothing)
{
    struct tc_daemon *d = bb_start(bb_path("pages"), NULL);
    bb_put_hardware("page");
    const char *evil[] = {"Origin: https://evil.example", NULL};
    const char *own[] = {bb_printf("Origin: %s", bb_base()).p, NULL};
    bb_problem(bb_call(&(struct tc_request){.method = "POST", .path = "/v1/hardware/page/retrain", .headers = evil}),
               403, "forbidden");
    bb_problem(bb_call(&(struct tc_request){.method = "DELETE", .path = "/v1/hardware/page", .headers = evil}), 403,
               "forbidden");
    const char *rebound[] = {"Origin: http://evil.example:8723", "Host: evil.example:8723", NULL};
    const char *named[] = {"Origin: http://localhost", "Host: localhost", NULL};
    bb_problem(bb_call(&(struct tc_request){.method = "DELETE", .path = "/v1/hardware/page", .headers = rebound}), 403,
               "forbidden");
    bb_problem(bb_call(&(struct tc_request){.method = "DELETE", .path = "/v1/hardware/nobody", .headers = named}), 404,
               "unknown-hardware");
    bb_status(bb_call(&(struct tc_request){.path = "/v1", .headers = evil}), 200);
    bb_status(bb_call(&(struct tc_request){.method = "DELETE", .path = "/v1/hardware/page", .headers = own}), 204);
    bb_stop(d);
}
END_TEST

/* ---- TLS ---- */

static void make_certificate(const char *cert, const char *key, const char *name)
{
    struct tc_err e;
    struct tp_buf err = {0};
    char *subject = bb_printf("/CN=%s", name).p;
    const char *argv[] = {
        "openssl", "req",     "-x509", "-newkey", "ec",    "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-out",
        cert,      "-keyout", key,     "-subj",   subject, "-addext",  "subjectAltName=IP:127.0.0.1",  "-days",  "2",
        NULL};
    ck_assert_msg(tc_run(argv, NULL, 30, NULL, &err, &e) == 0, "%s", err.p);
    tp_buf_free(&err);
}

static size_t nowhere(char *p, size_t size, size_t n, void *arg)
{
    (void)p, (void)arg;
    return size * n;
}

/* Status of a GET that trusts this certificate only; 0: no connection came about. */
static long https_get(const char *url, const char *cert, const char *token)
{
    long status = 0;
    CURL *c = curl_easy_init();
    struct curl_slist *h = token ? curl_slist_append(NULL, bb_printf("Authorization: Bearer %s", token).p) : NULL;
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_CAINFO, cert);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, h);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, nowhere);
    curl_easy_setopt(c, CURLOPT_TIMEOUT, 20L);
    if (curl_easy_perform(c) == CURLE_OK)
        curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(h);
    curl_easy_cleanup(c);
    return status;
}

START_TEST(tls_serves_and_takes_a_new_certificate)
{
    struct tc_err e;
    if (tc_run((const char *[]){"openssl", "version", NULL}, NULL, 20, NULL, NULL, &e)) {
        printf("skipped: openssl is not installed\n");
        return;
    }
    char *cert = bb_path("cert"), *key = bb_path("key"), *next = bb_path("next"), *file = bb_path("tokens");
    char *token = new_token(file, "predict", "remote");
    make_certificate(cert, key, "first");
    struct tc_daemon *d =
        bb_start(bb_path("tls"), (const char *[]){"--tokens-file", file, "--tls-listen", "127.0.0.1:0", "--tls-cert",
                                                  cert, "--tls-key", key, NULL});
    const char *line = NULL, *at;
    for (double until = tc_now() + 5; !line && tc_now() < until; tc_sleep(0.02))
        line = strstr(bb_log(d), " serves=all tls=true");
    at = line;
    ck_assert_msg(line != NULL, "%s", bb_log(d));
    while (strncmp(at, "address=", 8))
        at--;
    char *url = bb_printf("https://%.*s/v1", (int)strcspn(at + 8, " "), at + 8).p;
    ck_assert_int_eq(https_get(url, cert, token), 200);
    ck_assert_int_eq(https_get(url, cert, NULL), 401);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(https_get(url, cert, token), 200);

    /* a key that does not fit is told, and the old pair stays */
    struct bb_text was = bb_file(cert);
    make_certificate(next, bb_path("other"), "second");
    struct bb_text now = bb_file(next);
    ck_assert_int_eq(tc_write_file(cert, now.p, now.n, NULL), 0);
    ck_assert_int_eq(tc_write_file(next, was.p, was.n, NULL), 0); /* `next` holds the old one from here on */
    tc_daemon_signal(d, SIGHUP);
    for (double until = tc_now() + 10; tc_now() < until && !strstr(bb_log(d), "part=certificate");)
        tc_sleep(0.02);
    ck_assert_int_eq(https_get(url, next, token), 200);
    ck_assert_int_eq(https_get(url, cert, token), 0);
    make_certificate(cert, key, "third");
    tc_daemon_signal(d, SIGHUP);
    long status = 0;
    for (double until = tc_now() + 10; tc_now() < until && status != 200; tc_sleep(0.02))
        status = https_get(url, cert, token);
    ck_assert_int_eq(status, 200);
    ck_assert_int_eq(https_get(url, next, token), 0);
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/access");
    TCase *tc = bb_case_own(s, "tokens", 60);
    tcase_add_test(tc, no_role_can_do_what_it_must_not);
    tcase_add_test(tc, what_fails_inside_is_not_told_outside);
    tcase_add_test(tc, the_role_of_each_route_is_the_contracts);
    tcase_add_test(tc, no_log_and_no_metric_holds_a_token);
    tcase_add_test(tc, every_change_has_an_audit_line_whatever_the_level);
    tcase_add_test(tc, sighup_takes_new_tokens_in_and_old_ones_out);
    tcase_add_test(tc, quotas_are_429_with_retry_after);
    tcase_add_test(tc, metrics_can_be_closed);
    tcase_add_test(tc, other_addresses_need_tokens_or_insecure);
    tc = bb_case_own(s, "peers", 60);
    tcase_add_test(tc, the_kernel_says_who_is_at_a_unix_socket);
    tcase_add_test(tc, web_pages_of_other_hosts_change_nothing);
    tcase_add_test(tc, tls_serves_and_takes_a_new_certificate);
    return bb_main(s);
}
