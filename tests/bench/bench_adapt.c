/* An adapt job on 10,000 records: how long it takes, and what predictions wait for meanwhile.
 *
 *   bench_adapt [-t TCLD] [-n records] [-p pause between requests, ms; 2] [-o "--key=value"]...
 *
 * Starts a daemon of its own below $TMPDIR with the starter knowledge. The records are those of tests/data/demo, again
 * and again as other tasks (one more number in the workload key). One keep-alive client asks for one program at a
 * time: alone before, during the whole job, alone after. Other load on the machine moves every figure: the p99 is the
 * median over windows of a second, and what was found before and after is printed apart. */
#include "clients/client.h"
#include "tests/bench/bench.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WINDOW = 1 << 18, MAX_WINDOWS = 3600, MAX_OPTIONS = 16, ALONE = 10 /* seconds */ };
#define HW "/v1/hardware/adapt"

static struct tp_buf small; /* one program */
static double pause_seconds = 0.002;

static json_t *call(struct tc_http *h, const char *method, const char *path, const char *body)
{
    struct tc_err e;
    json_t *out = NULL, *b = body ? json_loads(body, 0, NULL) : NULL;
    if (tc_json(h, method, path, b, &out, &e))
        bench_die("%s: %s", path, e.text);
    json_decref(b);
    return out;
}

/* ---- records ---- */

static int is_log(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');
    return dot && !strcmp(dot, ".json");
}

/* The lines of the demo as those of other tasks. */
static void add_copy(struct tp_buf *out, const char *text, int copy, long *left)
{
    for (const char *line = text; *line && *left > 0; line += strcspn(line, "\n") + 1) {
        size_t n = strcspn(line, "\n");
        const char *key = strstr(line, "]\", \"llvm");
        if (!key || key > line + n)
            bench_die("%.80s: no workload key", line);
        tp_buf_put(out, line, (size_t)(key - line));
        if (copy)
            tp_buf_printf(out, ", %d", copy);
        tp_buf_put(out, key, n - (size_t)(key - line));
        tp_buf_putc(out, '\n');
        --*left;
    }
}

static void post(struct tc_http *h, long records)
{
    struct dirent **name = NULL;
    const int n = scandir("tests/data/demo", &name, is_log, alphasort);
    if (n <= 0)
        bench_die("tests/data/demo: not found; run from the project's folder");
    for (int copy = 0; records > 0; copy++)
        for (int i = 0; i < n && records > 0; i++) {
            char path[400];
            struct tp_buf body = {0};
            struct tc_err e;
            snprintf(path, sizeof path, "tests/data/demo/%s", name[i]->d_name);
            struct bench_text t = bench_read(path);
            if (!small.n)
                tp_buf_put(&small, t.p, strcspn(t.p, "\n") + 1);
            add_copy(&body, t.p, copy, &records);
            if (tc_post_lines(h, HW "/measurements", body.p, body.n, NULL, &e))
                bench_die("measurements: %s", e.text);
            tp_buf_free(&body);
            free(t.p);
        }
    for (int i = 0; i < n; i++)
        free(name[i]);
    free(name);
}

/* ---- predictions ---- */

static double ask(struct tc_http *h)
{
    static struct tc_reply r;
    struct tc_request q = {
        .path = HW "/predict", .body = small.p, .n = small.n, .content_type = "application/x-ndjson"};
    struct tc_err e;
    const double began = bench_wall();
    if (tc_call(h, &q, &r, &e) || r.status != 200)
        bench_die("predict: failed");
    const double took = bench_wall() - began;
    if (pause_seconds > 0)
        tc_sleep(pause_seconds);
    return took;
}

/* p50 and p99 of each second. */
struct windows {
    double p50[MAX_WINDOWS], p99[MAX_WINDOWS];
    size_t n, requests;
};

static void window(struct tc_http *h, struct windows *w)
{
    static double v[MAX_WINDOW];
    size_t n = 0;
    for (const double began = bench_wall(); bench_wall() - began < 1 && n < MAX_WINDOW;)
        v[n++] = ask(h);
    if (w->n == MAX_WINDOWS)
        return;
    w->p50[w->n] = bench_quantile(v, n, 0.5);
    w->p99[w->n++] = bench_quantile(v, n, 0.99);
    w->requests += n;
}

static double median(const double *v, size_t n)
{
    double *copy = bench_alloc(n, sizeof *copy);
    memcpy(copy, v, n * sizeof *v);
    const double m = bench_quantile(copy, n, 0.5);
    free(copy);
    return m;
}

/* CPU time of the daemon so far, seconds. */
static double cpu_of(pid_t pid)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f) {
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
    }
    const char *rest = strrchr(text, ')'); /* the name may hold anything */
    if (!rest || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return NAN;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* Until the job ends; its seconds. */
static double through_job(struct tc_http *h, struct tc_http *other, struct windows *w, json_t **end)
{
    json_t *job = call(h, "POST", HW "/retrain", "{\"mode\": \"adapt\", \"seed\": 1}");
    char path[64];
    const double began = bench_wall();
    snprintf(path, sizeof path, "/v1/jobs/%lld", (long long)tc_int(job, "/id", 0));
    for (;;) {
        const char *state = tc_str(job, "/state");
        if (strcmp(state, "queued") && strcmp(state, "running")) {
            *end = job;
            return bench_wall() - began;
        }
        window(other, w);
        json_decref(job);
        job = call(h, "GET", path, NULL);
    }
}

int main(int argc, char **argv)
{
    const char *tcld = "build/tcld", *args[MAX_OPTIONS + 1] = {NULL};
    long records = 10000;
    struct tc_daemon *d = NULL;
    struct tc_err e;
    char root[BENCH_PATH], state[300];
    int opt, n_args = 0;

    while ((opt = getopt(argc, argv, "t:n:p:o:")) != -1) {
        if (opt == 't')
            tcld = optarg;
        else if (opt == 'n')
            records = strtol(optarg, NULL, 10);
        else if (opt == 'p')
            pause_seconds = strtod(optarg, NULL) / 1000;
        else if (opt == 'o' && n_args < MAX_OPTIONS)
            args[n_args++] = optarg;
        else
            bench_die("usage: bench_adapt [-t TCLD] [-n records] [-p ms] [-o --key=value]...");
    }
    bench_folder("tcld-adapt", root);
    snprintf(state, sizeof state, "%s/state", root);
    if (tc_daemon_start(&(struct tc_daemon_opts){.binary = tcld, .state_dir = state, .args = args}, &d, &e))
        bench_die("daemon: %s", e.text);
    struct tc_http *h = tc_http_new(tc_daemon_base(d), &e), *other = tc_http_new(tc_daemon_base(d), &e);
    if (!h || !other)
        bench_die("client: %s", e.text);
    json_decref(call(h, "PUT", HW, "{\"target\": \"llvm -mcpu=skylake-avx512\"}"));
    post(h, records);
    tc_sleep(2); /* offsets of the new tasks */

    static struct windows before, during, after;
    json_t *job = NULL;
    for (int i = 0; i < ALONE; i++)
        window(other, &before);
    const double cpu = cpu_of(tc_daemon_pid(d)), took = through_job(h, other, &during, &job),
                 spent = cpu_of(tc_daemon_pid(d)) - cpu;
    for (int i = 0; i < ALONE; i++)
        window(other, &after);
    if (strcmp(tc_str(job, "/state"), "succeeded")) {
        char *why = json_dumps(job, 0);
        bench_die("%s", why);
    }
    printf("%ld records, %lld tasks; gate %s, model %s, knowledge base %s\n", records,
           (long long)tc_int(job, "/result/tasks", 0), tc_str(job, "/result/gate/decision"),
           tc_str(job, "/result/decision"), tc_str(job, "/result/kb/decision"));
    const double first = median(before.p99, before.n), last = median(after.p99, after.n), alone = (first + last) / 2;
    printf("p50 %.0f us before, %.0f us during the job, %.0f us after; p99 %.0f, %.0f (%zu requests), %.0f us\n",
           1e6 * median(before.p50, before.n), 1e6 * median(during.p50, during.n), 1e6 * median(after.p50, after.n),
           1e6 * first, 1e6 * median(during.p99, during.n), during.requests, 1e6 * last);
    bench_result("adapt job", took, "s", NULL, NAN, "<= 300");
    bench_result("CPU of the daemon meanwhile", spent, "s", NULL, NAN, "");
    bench_result("p99 during it", 1e6 * median(during.p99, during.n), "us", "p99 alone", 1e6 * alone, "<= 2");
    bench_report("adapt");
    json_decref(job);
    tc_http_free(h);
    tc_http_free(other);
    if (tc_daemon_stop(d, 30))
        bench_die("daemon: ended with an error");
    tc_daemon_free(d);
    tc_remove_tree(root, NULL);
    tp_buf_free(&small);
    return 0;
}
