/* What is left of the daemon when ten times as much is asked of it as it can do.
 *
 *   bench_overload [-t TCLD] [-s seconds of one phase] [-f times overload] [-n programs per request]
 *
 * Starts a daemon of its own below $TMPDIR and trains a model on tests/data/demo. First one client asks back to back
 * (the unloaded time of a request), then two (the peak of goodput). Then the daemon is started again with
 * predict_wait_ms at half of that time, and clients ask at f times the peak, each at moments fixed before (an open
 * loop: who is late does not ask less), with Expect: 100-continue, as a client does that does not want to send a large
 * body for nothing. Goodput is what was answered with 200; latencies are those of the 200s, from the moment the request
 * was sent. The clients run with less priority than the daemon, for they stand for other machines. */
#include "clients/client.h"
#include "tests/bench/bench.h"

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 48, SAMPLES = 100000 };
#define HW "overload"

static int port;
static double phase_seconds = 8;
static struct tp_buf head, body;

struct client {
    pthread_t thread;
    int fd;
    char *in;
    size_t n, cap;
    double every, offset; /* open loop: seconds between requests, and before the first; every 0: back to back */
    double until;
    long ok, refused, broken, late;
    double *took; /* of the 200s */
};

static void reconnect(struct client *c)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = 1;

    if (c->fd >= 0)
        close(c->fd);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, sizeof a))
        bench_die("connect: failed");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static bool send_all(struct client *c, const struct tp_buf *b)
{
    for (size_t at = 0; at < b->n;) {
        ssize_t k = send(c->fd, b->p + at, b->n - at, MSG_NOSIGNAL);
        if (k <= 0)
            return false;
        at += (size_t)k;
    }
    return true;
}

/* One reply; its status, 0 when the connection was lost. */
static int receive(struct client *c)
{
    size_t want = 0;

    c->n = 0;
    while (!want || c->n < want) {
        ssize_t k = recv(c->fd, c->in + c->n, c->cap - 1 - c->n, 0);
        if (k <= 0)
            return 0;
        c->n += (size_t)k;
        c->in[c->n] = '\0';
        const char *end = want ? NULL : strstr(c->in, "\r\n\r\n"),
                   *length = end ? strcasestr(c->in, "content-length:") : NULL;
        if (end && !strncmp(c->in, "HTTP/1.1 100", 12))
            return 100;
        if (length)
            want = (size_t)(end + 4 - c->in) + strtoul(length + 15, NULL, 10);
    }
    return (int)strtol(c->in + 9, NULL, 10);
}

static void one(struct client *c)
{
    double began = bench_wall();
    int status = send_all(c, &head) ? receive(c) : 0;

    if (status == 100)
        status = send_all(c, &body) ? receive(c) : 0;
    if (status == 200 && c->ok < SAMPLES)
        c->took[c->ok++] = bench_wall() - began;
    else if (status == 503)
        c->refused++;
    else
        c->broken++;
    if (status != 200)
        reconnect(c); /* a refusal that was sent before the body ends the connection */
}

static void *run(void *arg)
{
    struct client *c = arg;
    double next = bench_wall() + c->offset;

    if (setpriority(PRIO_PROCESS, 0, 19) != 0)
        bench_die("setpriority");
    while (next < c->until) {
        double now = bench_wall();
        if (now < next)
            tc_sleep(next - now);
        else if (c->every > 0 && now > next + c->every)
            c->late++;
        one(c);
        next = c->every > 0 ? next + c->every : bench_wall();
    }
    return NULL;
}

struct outcome {
    double goodput, offered, p50, p99;
    long refused, broken;
};

static struct outcome phase(int clients, double rate)
{
    static struct client c[CLIENTS];
    struct outcome o = {0};
    double began = bench_wall(), *all;
    size_t n = 0;

    for (int i = 0; i < clients; i++) {
        c[i] = (struct client){.fd = -1, .cap = 1 << 20, .until = began + phase_seconds};
        c[i].in = bench_alloc(c[i].cap, 1);
        c[i].took = bench_alloc(SAMPLES, sizeof(double));
        c[i].every = rate > 0 ? clients / rate : 0;
        c[i].offset = c[i].every * i / clients;
        reconnect(&c[i]);
        if (pthread_create(&c[i].thread, NULL, run, &c[i]) != 0)
            bench_die("pthread_create");
    }
    for (int i = 0; i < clients; i++)
        pthread_join(c[i].thread, NULL);
    double took = bench_wall() - began;
    for (int i = 0; i < clients; i++)
        n += (size_t)c[i].ok;
    all = bench_alloc(n ? n : 1, sizeof *all);
    n = 0;
    for (int i = 0; i < clients; i++) {
        memcpy(all + n, c[i].took, (size_t)c[i].ok * sizeof *all);
        n += (size_t)c[i].ok;
        o.refused += c[i].refused;
        o.broken += c[i].broken;
        close(c[i].fd);
        free(c[i].in);
        free(c[i].took);
    }
    if (!n)
        bench_die("no request was answered");
    o.goodput = (double)n / took;
    o.offered = ((double)n + (double)o.refused + (double)o.broken) / took;
    o.p50 = bench_quantile(all, n, 0.5);
    o.p99 = bench_quantile(all, n, 0.99);
    free(all);
    return o;
}

/* ---- the daemon ---- */

static struct tc_daemon *start(const char *tcld, const char *state, const char *const *args)
{
    struct tc_daemon_opts o = {.binary = tcld, .state_dir = state, .args = args};
    struct tc_daemon *d = NULL;
    struct tc_err e;

    if (tc_daemon_start(&o, &d, &e))
        bench_die("%s", e.text);
    port = tc_daemon_port(d);
    return d;
}

static void train(struct tc_daemon *d)
{
    struct tc_err e;
    struct tc_http *h = tc_http_new(tc_daemon_base(d), &e);
    json_t *put = json_pack("{s:s}", "target", "llvm"), *how = json_pack("{s:s,s:i}", "mode", "finetune", "epochs", 1),
           *job = NULL, *end = NULL;
    struct bench_text log = bench_read("tests/data/demo/matmul_128x128x128.json");

    if (!h || tc_json(h, "PUT", "/v1/hardware/" HW, put, NULL, &e) ||
        tc_post_lines(h, "/v1/hardware/" HW "/measurements", log.p, log.n, NULL, &e) ||
        tc_json(h, "POST", "/v1/hardware/" HW "/retrain", how, &job, &e) ||
        tc_job_wait(h, tc_int(job, "/id", 0), 120, NULL, NULL, &end, &e))
        bench_die("%s", e.text);
    json_decref(put);
    json_decref(how);
    json_decref(job);
    json_decref(end);
    free(log.p);
    tc_http_free(h);
}

/* Resident MiB of the daemon, by /metrics. */
static double resident(const struct tc_daemon *d)
{
    static const char name[] = "\ntcld_resident_memory_bytes ";
    struct tc_http *h = tc_http_new(tc_daemon_base(d), NULL);
    struct tc_reply r = {0};
    const char *at =
        h && !tc_call(h, &(struct tc_request){.path = "/metrics"}, &r, NULL) ? strstr(r.body.p, name) : NULL;
    double v = at ? strtod(at + sizeof name - 1, NULL) / 1048576 : NAN;

    tc_reply_free(&r);
    tc_http_free(h);
    return v;
}

static void make_request(int programs)
{
    struct bench_text t = bench_read("tests/data/batches/matmul_512.call5.json.gz");
    const char *p = t.p;

    for (int i = 0; i < programs && *p; i++)
        p += strcspn(p, "\n") + 1;
    tp_buf_put(&body, t.p, (size_t)(p - t.p));
    tp_buf_printf(&head,
                  "POST /v1/hardware/" HW "/predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\n"
                  "Expect: 100-continue\r\nContent-Length: %zu\r\n\r\n",
                  body.n);
    free(t.p);
}

int main(int argc, char **argv)
{
    const char *tcld = "build/tcld";
    char dir[BENCH_PATH], state[BENCH_PATH + 16], wait[32];
    double factor = 10.5; /* a little is lost when clients are late */
    int programs = 1024, c;

    while ((c = getopt(argc, argv, "t:s:f:n:")) != -1) {
        if (c == 't')
            tcld = optarg;
        else if (c == 's')
            phase_seconds = strtod(optarg, NULL);
        else if (c == 'f')
            factor = strtod(optarg, NULL);
        else if (c == 'n')
            programs = (int)strtol(optarg, NULL, 10);
        else
            return 2;
    }
    make_request(programs);
    bench_folder("overload", dir);
    snprintf(state, sizeof state, "%s/state", dir);
    struct tc_daemon *d = start(tcld, state, NULL);
    train(d);
    phase_seconds /= 4;
    phase(1, 0); /* warms up */
    phase_seconds *= 4;
    struct outcome alone = phase(1, 0), peak = phase(2, 0);
    tc_daemon_stop(d, 30);
    tc_daemon_free(d);

    snprintf(wait, sizeof wait, "%.0f", ceil(alone.p50 * 1000 / 2));
    d = start(tcld, state, (const char *[]){"--predict-wait-ms", wait, "--limit-memory-bytes", "134217728", NULL});
    struct outcome over = phase(CLIENTS, factor * peak.goodput);
    double memory = resident(d);
    tc_daemon_stop(d, 30);
    tc_daemon_free(d);
    tc_remove_tree(dir, NULL);

    printf("requests of %d programs; predict_wait_ms %s; %.0f s each\n", programs, wait, phase_seconds);
    bench_result("one client: requests", alone.goodput, "1/s", NULL, NAN, "");
    bench_result("one client: p99", alone.p99 * 1e3, "ms", NULL, NAN, "");
    bench_result("peak (two clients): requests", peak.goodput, "1/s", NULL, NAN, "");
    bench_result("overload: offered", over.offered, "1/s", "peak", peak.goodput, ">= 10");
    bench_result("overload: answered", over.goodput, "1/s", "peak", peak.goodput, ">= 0.8");
    bench_result("overload: p50 of the answered", over.p50 * 1e3, "ms", "unloaded p99", alone.p99 * 1e3, "");
    bench_result("overload: p99 of the answered", over.p99 * 1e3, "ms", "unloaded p99", alone.p99 * 1e3, "<= 3");
    bench_result("overload: refused", (double)over.refused, "requests", NULL, NAN, "");
    bench_result("overload: neither 200 nor 503", (double)over.broken, "requests", NULL, NAN, "<= 0");
    bench_result("overload: resident memory (cap 128)", memory, "MiB", NULL, NAN, "<= 128");
    bench_report("overload");
    tp_buf_free(&head);
    tp_buf_free(&body);
    return 0;
}
