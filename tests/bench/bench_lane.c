/* What a small predict request waits for while others send large ones, train, select, or more than one of these.
 *
 *   bench_lane [-t TCLD] [-r rounds] [-s seconds of one case] [-c only this case, 0..7] [-p candidates (100000)]
 *              [-o "--key=value"]...
 *
 * Starts a daemon of its own below $TMPDIR and trains a model on tests/data/demo. One keep-alive client asks for one
 * record at a time: alone, beside 1, 2 and 4 clients that send 2,048 records back to back, during a retrain, during a
 * retrain beside 2 clients, and while a tenth of a pool is selected, from the start of that job to its end; last, what
 * a request that computes nothing (/livez) takes. First back to back, then with pauses of 2 ms, after which caches and
 * cores are cold. Other load on the machine moves every figure: ratios are taken within a round, and medians over the
 * rounds are printed. */
#include "clients/client.h"
#include "tests/bench/bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_ROUNDS = 64, MAX_SAMPLES = 1 << 20, MAX_LARGE = 4, MAX_OPTIONS = 16, CASES = 8 };
enum { TASKS = 50, BODY = 10000 /* candidates in one request */ };
#define HW   "lane"
#define PATH "/v1/hardware/" HW "/predict"

static int port, rounds = 3, only = -1, candidates = 100000;
static double case_seconds = 1.5, pause_seconds;
static struct tc_daemon *server;
static struct tp_buf small, large, livez; /* whole requests as bytes */

/* ---- a keep-alive connection ---- */

struct peer {
    int fd;
    char *in;
    size_t n, cap;
};

static void peer_open(struct peer *p)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = 1;

    *p = (struct peer){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .cap = 1 << 20};
    p->in = malloc(p->cap);
    if (p->fd < 0 || !p->in || connect(p->fd, (struct sockaddr *)&a, sizeof a))
        bench_die("connect: failed");
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void peer_close(struct peer *p)
{
    close(p->fd);
    free(p->in);
}

/* One request and its whole reply; seconds. */
static double ask(struct peer *p, const struct tp_buf *request)
{
    double start = bench_wall();
    size_t want = 0;

    for (size_t at = 0; at < request->n;) {
        ssize_t k = send(p->fd, request->p + at, request->n - at, MSG_NOSIGNAL);
        if (k <= 0)
            bench_die("send: connection lost");
        at += (size_t)k;
    }
    p->n = 0;
    while (!want || p->n < want) {
        ssize_t k = recv(p->fd, p->in + p->n, p->cap - 1 - p->n, 0);
        if (k <= 0)
            bench_die("recv: connection lost");
        p->n += (size_t)k;
        p->in[p->n] = '\0';
        const char *end = want ? NULL : strstr(p->in, "\r\n\r\n"),
                   *length = end ? strcasestr(p->in, "content-length:") : NULL;
        if (length)
            want = (size_t)(end + 4 - p->in) + strtoul(length + 15, NULL, 10);
    }
    double took = bench_wall() - start;
    if (strncmp(p->in, "HTTP/1.1 200", 12) != 0)
        bench_die("%.200s", p->in);
    return took;
}

/* ---- load ---- */

struct load {
    pthread_t thread;
    atomic_bool stop;
    atomic_long done;
};

static void *send_large(void *arg)
{
    struct load *l = arg;
    struct peer p;

    peer_open(&p);
    while (!atomic_load(&l->stop)) {
        ask(&p, &large);
        atomic_fetch_add(&l->done, 1);
    }
    peer_close(&p);
    return NULL;
}

struct row {
    double p50[MAX_ROUNDS], p99[MAX_ROUNDS], max[MAX_ROUNDS], rate[MAX_ROUNDS], large[MAX_ROUNDS];
};

/* For case_seconds, or until *over when that is given. */
static void measure(struct row *row, int round, const struct tp_buf *request, int n_large, const atomic_bool *over)
{
    static double v[MAX_SAMPLES];
    struct load l[MAX_LARGE] = {0};
    struct peer p;
    long done = 0;
    size_t n = 0;

    peer_open(&p);
    for (int i = 0; i < n_large; i++)
        if (pthread_create(&l[i].thread, NULL, send_large, &l[i]))
            bench_die("thread: not created");
    for (int i = 0; i < n_large; i++)
        while (!atomic_load(&l[i].done))
            tc_sleep(0.001);
    for (int i = 0; i < n_large; i++)
        done -= atomic_load(&l[i].done);
    double start = bench_wall(), took;
    while ((took = bench_wall() - start), (over ? !atomic_load(over) : took < case_seconds) && n < MAX_SAMPLES) {
        v[n++] = ask(&p, request);
        if (pause_seconds > 0)
            tc_sleep(pause_seconds);
    }
    for (int i = 0; i < n_large; i++)
        done += atomic_load(&l[i].done);
    for (int i = 0; i < n_large; i++)
        atomic_store(&l[i].stop, true);
    for (int i = 0; i < n_large; i++)
        pthread_join(l[i].thread, NULL);
    peer_close(&p);
    row->p50[round] = bench_quantile(v, n, 0.5);
    row->p99[round] = bench_quantile(v, n, 0.99);
    row->max[round] = n ? v[n - 1] : 0;
    row->rate[round] = (double)n / took;
    row->large[round] = (double)done / took;
}

static double median(const double *v)
{
    double copy[MAX_ROUNDS];
    memcpy(copy, v, (size_t)rounds * sizeof *v);
    return bench_quantile(copy, (size_t)rounds, 0.5);
}

static double median_ratio(const double *v, const double *base)
{
    double ratio[MAX_ROUNDS];
    for (int i = 0; i < rounds; i++)
        ratio[i] = v[i] / base[i];
    return median(ratio);
}

/* ---- the daemon ---- */

static json_t *call(struct tc_http *h, const char *method, const char *path, const char *body)
{
    struct tc_err e;
    json_t *out = NULL, *b = body ? json_loads(body, 0, NULL) : NULL;
    if (tc_json(h, method, path, b, &out, &e))
        bench_die("%s: %s", path, e.text);
    json_decref(b);
    return out;
}

static int64_t retrain(struct tc_http *h, const char *body)
{
    json_t *job = call(h, "POST", "/v1/hardware/" HW "/retrain", body);
    int64_t id = tc_int(job, "/id", 0);
    json_decref(job);
    return id;
}

static void post_demo(struct tc_http *h)
{
    static const char *const files[] = {"matmul_512x512x512", "conv2d_nhwc_1x28x28x64_64_3x3_s1p1_relu",
                                        "bmm_bias_relu_12x128x128x64", "softmax_128x1000"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct tp_buf lines = {0};
        struct tc_err e;
        char path[200];
        snprintf(path, sizeof path, "tests/data/demo/%s.json", files[i]);
        if (tc_read_file(path, &lines, &e) ||
            tc_post_lines(h, "/v1/hardware/" HW "/measurements", lines.p, lines.n, NULL, &e))
            bench_die("%s: %s", path, e.text);
        tp_buf_free(&lines);
    }
}

static void train(struct tc_http *h)
{
    struct tc_err e;
    json_t *end = NULL;
    json_decref(call(h, "PUT", "/v1/hardware/" HW, "{\"target\": \"llvm -mcpu=skylake-avx512\"}"));
    post_demo(h);
    if (tc_job_wait(h, retrain(h, "{\"mode\": \"finetune\", \"epochs\": 3, \"seed\": 1}"), 300, NULL, NULL, &end, &e))
        bench_die("training: %s", e.text);
    json_decref(end);
}

static void during_retrain(struct tc_http *h, struct row *row, int round, int n_large)
{
    static int seed = 100;
    char body[100], path[40];
    snprintf(body, sizeof body, "{\"mode\": \"finetune\", \"epochs\": 1000, \"seed\": %d, \"activate\": \"never\"}",
             ++seed);
    snprintf(path, sizeof path, "/v1/jobs/%lld", (long long)retrain(h, body));
    for (int epoch = 0; epoch < 1; tc_sleep(0.02)) { /* until it trains */
        json_t *job = call(h, "GET", path, NULL);
        epoch = (int)tc_int(job, "/epoch", 0);
        json_decref(job);
    }
    measure(row, round, &small, n_large, NULL);
    json_decref(call(h, "DELETE", path, NULL));
    for (const char *state = "running"; !strcmp(state, "running") || !strcmp(state, "cancelling"); tc_sleep(0.02)) {
        static char now[20];
        json_t *job = call(h, "GET", path, NULL);
        snprintf(now, sizeof now, "%s", tc_str(job, "/state"));
        state = now;
        json_decref(job);
    }
}

/* ---- selections ---- */

static void post_candidates(struct tc_http *h)
{
    static const char form[] =
        "{\"i\": [[\"[\\\"lane\\\", %d, 64]\", \"llvm -mcpu=skylake-avx512\", [8, 64, 64, 0, 0, 0, 0, 0], \"\", 1, "
        "[]], "
        "[[], [[\"SP\", 2, 0, 512, [%d, 4, 2], 1], [\"SP\", 2, 4, 512, [%d, 1, 64], 1], [\"SP\", 2, 8, 512, [16], 1], "
        "[\"RE\", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]], [\"FSP\", 3, 0, 1, 1], [\"FSP\", 3, 2, 2, 1], [\"RE\", 3, [0, 2, "
        "1, "
        "3]], [\"CA\", 2, 3, 1], [\"FU\", 3, [0, 1]], [\"AN\", 3, 0, 3], [\"PR\", 2, 0, "
        "\"auto_unroll_max_step$64\"]]]], "
        "\"v\": \"v0.6\"}\n";
    struct tp_buf lines = {0};
    for (int i = 0; i < candidates; i++) {
        const int of_task = i / TASKS;
        struct tc_err e;
        tp_buf_printf(&lines, form, i % TASKS, 1 + of_task % 100, 1 + of_task / 100);
        if ((i + 1) % BODY != 0 && i + 1 < candidates)
            continue;
        if (tc_post_lines(h, "/v1/hardware/" HW "/candidates", lines.p, lines.n, NULL, &e))
            bench_die("candidates: %s", e.text);
        lines.n = 0;
    }
    tp_buf_free(&lines);
}

struct selection {
    pthread_t thread;
    int64_t job;
    atomic_bool over;
};

/* Twenty looks a second are no load. */
static void *await_selection(void *arg)
{
    struct selection *s = arg;
    struct tc_err e;
    json_t *end = NULL;
    struct tc_http *h = tc_http_new(tc_daemon_base(server), &e);
    if (!h || tc_job_wait(h, s->job, 600, NULL, NULL, &end, &e) || strcmp(tc_str(end, "/state"), "succeeded") != 0)
        bench_die("selection: %s", h && end ? tc_str(end, "/state") : e.text);
    json_decref(end);
    tc_http_free(h);
    atomic_store(&s->over, true);
    return NULL;
}

static void during_selection(struct tc_http *h, struct row *row, int round)
{
    static int seed;
    struct selection s = {0};
    char body[100];
    snprintf(body, sizeof body, "{\"fraction\": 0.1, \"seed\": %d}", ++seed);
    json_t *job = call(h, "POST", "/v1/hardware/" HW "/selections", body);
    s.job = tc_int(job, "/id", 0);
    json_decref(job);
    if (pthread_create(&s.thread, NULL, await_selection, &s))
        bench_die("thread: not created");
    measure(row, round, &small, 0, &s.over);
    pthread_join(s.thread, NULL);
}

/* ---- cases ---- */

static void make_request(struct tp_buf *out, const void *body, size_t n)
{
    tp_buf_printf(out,
                  "POST " PATH " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
                  "Content-Length: %zu\r\n\r\n",
                  n);
    tp_buf_put(out, body, n);
}

struct kase {
    const char *name;
    int n_large;
    enum { NOTHING, RETRAIN, SELECTION, LIVEZ } beside; /* LIVEZ: nothing, and it is asked for that */
    const char *to50, *to99;                            /* goals of the p99, against p50 and p99 alone */
};
static const struct kase cases[CASES] = {
    {"alone", 0, NOTHING, "", ""},
    {"beside 1 large client", 1, NOTHING, "<= 5", ""},
    {"beside 2 large clients", 2, NOTHING, "<= 5", ""},
    {"beside 4 large clients", 4, NOTHING, "<= 5", ""},
    {"during a retrain", 0, RETRAIN, "", "<= 2"},
    {"retrain and 2 large clients", 2, RETRAIN, "", ""},
    {"during a selection", 0, SELECTION, "", "<= 2"},
    {"/livez alone", 0, LIVEZ, "", ""},
};

static void bench(struct tc_http *h, const char *how)
{
    static struct row row[CASES];
    printf("%-30s %8s %8s %9s %8s %9s %8s %8s\n", how, "p50 us", "p99 us", "max us", "per s", "large/s", "p99/p50",
           "p99/p99");
    for (int i = 0; i < rounds; i++)
        for (int k = 0; k < CASES; k++) {
            if (only >= 0 && only != k)
                continue;
            if (cases[k].beside == RETRAIN)
                during_retrain(h, &row[k], i, cases[k].n_large);
            else if (cases[k].beside == SELECTION)
                during_selection(h, &row[k], i);
            else
                measure(&row[k], i, cases[k].beside == LIVEZ ? &livez : &small, cases[k].n_large, NULL);
        }
    for (int k = 0; k < CASES; k++) {
        const struct row *r = &row[k], *base = &row[only < 0 ? 0 : k];
        char name[64];
        if (only >= 0 && only != k)
            continue;
        double p99 = 1e6 * median(r->p99), to50 = median_ratio(r->p99, base->p50),
               to99 = median_ratio(r->p99, base->p99);
        printf("%-30s %8.0f %8.0f %9.0f %8.0f %9.1f %8.1f %8.1f\n", cases[k].name, 1e6 * median(r->p50), p99,
               1e6 * median(r->max), median(r->rate), median(r->large), to50, to99);
        snprintf(name, sizeof name, "%s, %s", cases[k].name, how);
        if (*cases[k].to50)
            bench_result(name, p99, "us", "p50 alone", p99 / to50, cases[k].to50);
        if (*cases[k].to99)
            bench_result(name, p99, "us", "p99 alone", p99 / to99, cases[k].to99);
    }
}

/* One search's records as one request, and its first record as another. */
static void make_requests(void)
{
    struct bench_text t = bench_read("tests/data/batches/matmul_512.call5.json.gz");
    make_request(&large, t.p, t.n);
    make_request(&small, t.p, strcspn(t.p, "\n") + 1);
    tp_buf_puts(&livez, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    if (large.oom || small.oom || livez.oom)
        bench_die("out of memory");
    free(t.p);
}

int main(int argc, char **argv)
{
    const char *tcld = "build/tcld", *args[MAX_OPTIONS + 1] = {NULL};
    struct tc_err e;
    char root[BENCH_PATH], state[300];
    int opt, n_args = 0;

    while ((opt = getopt(argc, argv, "t:r:s:c:p:o:")) != -1) {
        if (opt == 't')
            tcld = optarg;
        else if (opt == 'r')
            rounds = (int)strtol(optarg, NULL, 10);
        else if (opt == 's')
            case_seconds = strtod(optarg, NULL);
        else if (opt == 'c')
            only = (int)strtol(optarg, NULL, 10);
        else if (opt == 'p')
            candidates = (int)strtol(optarg, NULL, 10);
        else if (opt == 'o' && n_args < MAX_OPTIONS)
            args[n_args++] = optarg;
        else
            bench_die("usage: bench_lane [-t TCLD] [-r rounds] [-s seconds] [-c case] [-p candidates] "
                      "[-o --key=value]...");
    }
    if (only >= CASES || candidates < TASKS || candidates > 1000000)
        bench_die("bench_lane: cases 0 to %d, %d to 1,000,000 candidates", CASES - 1, TASKS);
    rounds = rounds < 1 ? 1 : rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
    make_requests();
    bench_folder("tcld-lane", root);
    snprintf(state, sizeof state, "%s/state", root);
    if (tc_daemon_start(&(struct tc_daemon_opts){.binary = tcld, .state_dir = state, .args = args}, &server, &e))
        bench_die("daemon: %s", e.text);
    port = tc_daemon_port(server);
    struct tc_http *h = tc_http_new(tc_daemon_base(server), &e);
    if (!h)
        bench_die("client: %s", e.text);
    train(h);
    if (only < 0 || cases[only].beside == SELECTION)
        post_candidates(h);
    bench(h, "back to back");
    pause_seconds = 0.002;
    bench(h, "now and then");
    bench_report("lane");
    tc_http_free(h);
    if (tc_daemon_stop(server, 30))
        bench_die("daemon: ended with an error");
    tc_daemon_free(server);
    tc_remove_tree(root, NULL);
    tp_buf_free(&small);
    tp_buf_free(&large);
    tp_buf_free(&livez);
    return 0;
}
