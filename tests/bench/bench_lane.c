/* Whole predict requests over loopback: what a small one waits for, and what a large one costs beyond the model.
 *
 *   bench_lane [-t TCLD] [-r rounds] [-s seconds of one case] [-c only this case, 0..6] [-o "--key=value"]...
 *
 * Starts a daemon of its own below $TMPDIR, trains a model on tests/data/demo, then:
 *   small: one keep-alive client asks for one record at a time: alone, beside 1, 2 and 4 clients that send 2,048
 * records back to back, during a retrain, and both. Beside it, what a request that computes nothing (/livez) takes.
 * whole: 2,048 records as NDJSON, alternating with the same model on the same records in this process. Other load on
 * the machine moves every figure: compare within a round. Medians over the rounds are printed. */
#include "clients/client.h"
#include "model/infer.h"
#include "model/weights.h"

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

enum { MAX_ROUNDS = 64, MAX_SAMPLES = 1 << 20, MAX_LARGE = 4, MAX_RECORDS = 4096, MAX_OPTIONS = 16 };
#define HW   "lane"
#define PATH "/v1/hardware/" HW "/predict"

static int port, rounds = 5, only = -1;
static double case_seconds = 3;
static struct tp_buf small, large, livez; /* whole requests as bytes */

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_lane: %s: %s\n", what, why);
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *v, size_t n, double q)
{
    qsort(v, n, sizeof *v, by_value);
    return n ? v[(size_t)(q * (double)(n - 1))] : 0;
}

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
        die("connect", "failed");
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
    double start = tc_now();
    size_t want = 0;

    for (size_t at = 0; at < request->n;) {
        ssize_t k = send(p->fd, request->p + at, request->n - at, MSG_NOSIGNAL);
        if (k <= 0)
            die("send", "connection lost");
        at += (size_t)k;
    }
    p->n = 0;
    while (!want || p->n < want) {
        ssize_t k = recv(p->fd, p->in + p->n, p->cap - 1 - p->n, 0);
        if (k <= 0)
            die("recv", "connection lost");
        p->n += (size_t)k;
        p->in[p->n] = '\0';
        const char *end = want ? NULL : strstr(p->in, "\r\n\r\n"),
                   *length = end ? strcasestr(p->in, "content-length:") : NULL;
        if (length)
            want = (size_t)(end + 4 - p->in) + strtoul(length + 15, NULL, 10);
    }
    double took = tc_now() - start;
    if (strncmp(p->in, "HTTP/1.1 200", 12) != 0)
        die("status", p->in);
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
    const char *name;
    double p50[MAX_ROUNDS], p99[MAX_ROUNDS], max[MAX_ROUNDS], rate[MAX_ROUNDS], large[MAX_ROUNDS];
};

static void measure(struct row *row, int round, const struct tp_buf *request, int n_large)
{
    static double v[MAX_SAMPLES];
    struct load l[MAX_LARGE] = {0};
    struct peer p;
    long done = 0;
    size_t n = 0;

    peer_open(&p);
    for (int i = 0; i < n_large; i++)
        if (pthread_create(&l[i].thread, NULL, send_large, &l[i]))
            die("thread", "not created");
    for (int i = 0; i < n_large; i++)
        while (!atomic_load(&l[i].done))
            tc_sleep(0.001);
    for (int i = 0; i < n_large; i++)
        done -= atomic_load(&l[i].done);
    double start = tc_now(), took;
    while ((took = tc_now() - start) < case_seconds && n < MAX_SAMPLES)
        v[n++] = ask(&p, request);
    for (int i = 0; i < n_large; i++)
        done += atomic_load(&l[i].done);
    for (int i = 0; i < n_large; i++)
        atomic_store(&l[i].stop, true);
    for (int i = 0; i < n_large; i++)
        pthread_join(l[i].thread, NULL);
    peer_close(&p);
    row->p50[round] = quantile(v, n, 0.5);
    row->p99[round] = quantile(v, n, 0.99);
    row->max[round] = n ? v[n - 1] : 0;
    row->rate[round] = (double)n / took;
    row->large[round] = (double)done / took;
}

static double median(const double *v)
{
    double copy[MAX_ROUNDS];
    memcpy(copy, v, (size_t)rounds * sizeof *v);
    return quantile(copy, (size_t)rounds, 0.5);
}

/* Medians over the rounds, of figures and of ratios to the same round of `base`. */
static void print_row(const struct row *r, const struct row *base)
{
    double to50[MAX_ROUNDS], to99[MAX_ROUNDS];
    for (int i = 0; i < rounds; i++) {
        to50[i] = r->p99[i] / base->p50[i];
        to99[i] = r->p99[i] / base->p99[i];
    }
    printf("%-30s %8.0f %8.0f %9.0f %8.0f %9.1f %8.1f %8.1f\n", r->name, 1e6 * median(r->p50), 1e6 * median(r->p99),
           1e6 * median(r->max), median(r->rate), median(r->large), median(to50), median(to99));
}

/* ---- the daemon ---- */

static json_t *call(struct tc_http *h, const char *method, const char *path, const char *body)
{
    struct tc_err e;
    json_t *out = NULL, *b = body ? json_loads(body, 0, NULL) : NULL;
    if (tc_json(h, method, path, b, &out, &e))
        die(path, e.text);
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
            die(path, e.text);
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
        die("training", e.text);
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
    measure(row, round, &small, n_large);
    json_decref(call(h, "DELETE", path, NULL));
    for (const char *state = "running"; !strcmp(state, "running") || !strcmp(state, "cancelling"); tc_sleep(0.02)) {
        static char now[20];
        json_t *job = call(h, "GET", path, NULL);
        snprintf(now, sizeof now, "%s", tc_str(job, "/state"));
        state = now;
        json_decref(job);
    }
}

/* ---- whole against model only ---- */

static void whole(struct tc_http *h, const struct tp_buf *lines)
{
    static struct tp_record r[MAX_RECORDS];
    static double score[MAX_RECORDS], latency[MAX_RECORDS];
    enum { TIMES = 25 };
    double http[TIMES], alone[TIMES];
    struct tc_reply weights = {0};
    struct tm_model *m = NULL;
    struct tm_plan *plan = NULL;
    struct tm_batch *b = tm_batch_new();
    struct tm_provenance prov;
    struct tp_err e = {0};
    struct tc_err te;
    struct peer p;
    char path[64];
    size_t n = 0;

    for (const char *s = lines->p, *end = s + lines->n; s < end && n < MAX_RECORDS; n++) {
        const char *nl = memchr(s, '\n', (size_t)(end - s));
        tp_record_init(&r[n]);
        if (tp_record_parse(&r[n], s, (size_t)((nl ? nl : end) - s), &e))
            die("record", e.detail);
        s = nl ? nl + 1 : end;
    }
    json_t *hw = call(h, "GET", "/v1/hardware/" HW, NULL);
    snprintf(path, sizeof path, "/v1/models/%lld/weights", (long long)tc_int(hw, "/active_model", 1));
    json_decref(hw);
    if (tc_call(h, &(struct tc_request){.path = path}, &weights, &te) || weights.status != 200)
        die(path, "no weights");
    if (tm_weights_read(weights.body.p, weights.body.n, &m, &prov, &e) || !(plan = tm_plan_new(m)) || !b)
        die("weights", e.detail);
    peer_open(&p);
    for (int i = -3; i < TIMES; i++) {
        int at = i < 0 ? 0 : i;
        double start = tc_now();
        if (tm_batch_begin(b, plan))
            die("batch", "begin");
        for (size_t k = 0; k < n; k++)
            if (tm_batch_add(b, &r[k], NULL, &e) < 0)
                die("batch", e.detail);
        if (tm_batch_run(b, score, latency, NULL))
            die("batch", "run");
        alone[at] = tc_now() - start;
        http[at] = ask(&p, &large);
    }
    double a50 = quantile(alone, TIMES, 0.5), h50 = quantile(http, TIMES, 0.5);
    printf(
        "%zu records, %.2f MB: model only %.2f ms (best %.2f), request %.2f ms (best %.2f): ratio %.2f (best %.2f)\n",
        n, (double)lines->n / 1e6, 1e3 * a50, 1e3 * alone[0], 1e3 * h50, 1e3 * http[0], h50 / a50, http[0] / alone[0]);
    peer_close(&p);
    for (size_t i = 0; i < n; i++)
        tp_record_free(&r[i]);
    tm_batch_free(b);
    tm_plan_free(plan);
    tm_model_free(m);
    tc_reply_free(&weights);
}

static void make_request(struct tp_buf *out, const void *body, size_t n)
{
    tp_buf_printf(out,
                  "POST " PATH " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
                  "Content-Length: %zu\r\n\r\n",
                  n);
    tp_buf_put(out, body, n);
}

static void bench_small(struct tc_http *h)
{
    static struct row row[7] = {{.name = "alone"},
                                {.name = "beside 1 large client"},
                                {.name = "beside 2 large clients"},
                                {.name = "beside 4 large clients"},
                                {.name = "during a retrain"},
                                {.name = "both: a retrain and 2 clients"},
                                {.name = "(/livez alone)"}};
    static const int n_large[4] = {0, 1, 2, 4};
    for (int i = 0; i < rounds; i++) {
        for (int k = 0; k < 4; k++)
            if (only < 0 || only == k)
                measure(&row[k], i, &small, n_large[k]);
        if (only < 0 || only == 4)
            during_retrain(h, &row[4], i, 0);
        if (only < 0 || only == 5)
            during_retrain(h, &row[5], i, 2);
        if (only < 0 || only == 6)
            measure(&row[6], i, &livez, 0);
    }
    printf("%-30s %8s %8s %9s %8s %9s %8s %8s\n", "1-record predict", "p50 us", "p99 us", "max us", "per s", "large/s",
           "p99/p50", "p99/p99");
    for (int k = 0; k < 7; k++)
        if (only < 0 || only == k)
            print_row(&row[k], &row[only < 0 ? 0 : k]);
    printf("(the two ratios: to p50 and to p99 of the first row, same round)\n");
}

int main(int argc, char **argv)
{
    const char *tcld = "build/tcld", *args[MAX_OPTIONS + 1] = {NULL}, *tmp = getenv("TMPDIR");
    static const char *const batches[] = {"matmul_512.call5", "conv2d_nhwc_28.call5"};
    struct tc_daemon *d = NULL;
    struct tc_err e;
    char root[256], state[300];
    int opt, n_args = 0;

    while ((opt = getopt(argc, argv, "t:r:s:c:o:")) != -1) {
        if (opt == 't')
            tcld = optarg;
        else if (opt == 'r')
            rounds = (int)strtol(optarg, NULL, 10);
        else if (opt == 's')
            case_seconds = strtod(optarg, NULL);
        else if (opt == 'c')
            only = (int)strtol(optarg, NULL, 10);
        else if (opt == 'o' && n_args < MAX_OPTIONS)
            args[n_args++] = optarg;
        else
            die("usage", "bench_lane [-t TCLD] [-r rounds] [-s seconds] [-c case] [-o --key=value]...");
    }
    rounds = rounds < 0 ? 0 : rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
    snprintf(root, sizeof root, "%s/tcld-lane-XXXXXX", tmp && *tmp && strlen(tmp) < 200 ? tmp : "/tmp");
    if (!mkdtemp(root))
        die(root, "cannot make it");
    snprintf(state, sizeof state, "%s/state", root);
    if (tc_daemon_start(&(struct tc_daemon_opts){.binary = tcld, .state_dir = state, .args = args}, &d, &e))
        die("daemon", e.text);
    port = tc_daemon_port(d);
    struct tc_http *h = tc_http_new(tc_daemon_base(d), &e);
    if (!h)
        die("client", e.text);
    train(h);
    tp_buf_puts(&livez, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        struct tp_buf lines = {0};
        char path[200];
        snprintf(path, sizeof path, "tests/data/batches/%s.json.gz", batches[i]);
        if (tc_read_file(path, &lines, &e))
            die(path, e.text);
        large.n = small.n = 0;
        make_request(&large, lines.p, lines.n);
        make_request(&small, lines.p, strcspn(lines.p, "\n") + 1);
        printf("%s\n", batches[i]);
        whole(h, &lines);
        if (i == 0 && rounds > 0)
            bench_small(h);
        tp_buf_free(&lines);
    }
    tc_http_free(h);
    if (tc_daemon_stop(d, 30))
        die("daemon", "ended with an error");
    tc_daemon_free(d);
    tc_remove_tree(root, NULL);
    tp_buf_free(&small);
    tp_buf_free(&large);
    tp_buf_free(&livez);
    return 0;
}
