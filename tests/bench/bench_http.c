/* Whole predict requests over loopback: tcld beside FastAPI + PyTorch and beside an empty handler.
 *
 * usage: bench_http [-r rounds]     (build/tcld, tests/data/batches; a folder below $TMPDIR or /tmp)
 *
 * tcld       NDJSON, {"task", "states"}, a binary reply, a gzip body; 1, 64, 512, 2048 records of one search
 * fastapi    peer_fastapi.py: the same NDJSON and weights
 * floor      libmicrohttpd as tcld sets it up, with a handler that only reads the body; a reply of the same size
 * model only parsed records to scores on one thread of this process
 *
 * The client is one thread with one connection to each server, kept alive. Everything in turn, round after round; wall
 * time, p50 and p99 of all rounds; the CPU time of the server's threads beside it, which other load does not touch. */
#include "clients/client.h"
#include "model/infer.h"
#include "model/weights.h"
#include "proto/body.h"
#include "proto/problem.h"
#include "tests/bench/bench.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SIZES = 4, MAX_ROUNDS = 50, MAX_TIMES = 1 << 16 };
static const size_t sizes[SIZES] = {1, 64, 512, 2048};
static const size_t per_round[SIZES] = {200, 30, 8, 4}; /* requests to tcld and the floor */
static const size_t per_round_peer[SIZES] = {20, 3, 1, 1};

enum kind { NDJSON, STATES, BINARY, GZIP, KINDS, FLOOR = KINDS, FASTAPI, MODEL, SUBJECTS };
static const char *const kinds[SUBJECTS] = {"ndjson", "task+states", "binary reply", "gzip body",
                                            "floor",  "fastapi",     "model only"};

/* ---- client ---- */

struct reply {
    struct tp_buf text; /* head and body */
    size_t head;        /* bytes of the head */
};

static int dial(int port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) ||
        connect(fd, (const struct sockaddr *)&to, sizeof to))
        bench_die("port %d: %s", port, strerror(errno));
    return fd;
}

/* Send a request, wait for the last byte of the reply. Seconds; exits unless it is a 200 with a Content-Length. */
static double call(int fd, const struct tp_buf *request, struct reply *r)
{
    double start = bench_wall();
    size_t want = SIZE_MAX;
    for (size_t at = 0; at < request->n;) {
        ssize_t n = send(fd, request->p + at, request->n - at, MSG_NOSIGNAL);
        if (n < 0)
            bench_die("send: %s", strerror(errno));
        at += (size_t)n;
    }
    r->text.n = r->head = 0;
    while (r->text.n < want) {
        char *p = tp_buf_grow(&r->text, 1 << 16);
        ssize_t n = p ? recv(fd, p, (1 << 16) - 1, 0) : 0;
        if (n <= 0)
            bench_die("no reply: %s", n ? strerror(errno) : "the server closed the connection");
        r->text.n += (size_t)n;
        r->text.p[r->text.n] = '\0';
        const char *end = r->head ? NULL : strstr(r->text.p, "\r\n\r\n");
        if (!end)
            continue;
        const char *length = strcasestr(r->text.p, "\r\nContent-Length: ");
        r->head = (size_t)(end + 4 - r->text.p);
        if (strncmp(r->text.p, "HTTP/1.1 200", 12) != 0 || !length || length > end)
            bench_die("unexpected reply: %s", r->text.p);
        want = r->head + strtoul(length + 18, NULL, 10);
    }
    return bench_wall() - start;
}

/* ---- the floor ---- */

static enum MHD_Result empty(void *cls, struct MHD_Connection *c, const char *url, const char *method,
                             const char *version, const char *data, size_t *n, void **state)
{
    static int seen;
    (void)cls;
    (void)method;
    (void)version;
    (void)data;
    if (!*state) {
        *state = &seen;
        return MHD_YES;
    }
    if (*n) { /* some of the body: read and forgotten */
        *n = 0;
        return MHD_YES;
    }
    size_t size = strtoul(url + 1, NULL, 10);
    char *p = malloc(size + 1);
    if (!p)
        return MHD_NO;
    memset(p, 'x', size);
    struct MHD_Response *r = MHD_create_response_from_buffer(size, p, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result rc = MHD_queue_response(c, 200, r);
    MHD_destroy_response(r);
    return rc;
}

static int floor_server(void)
{
    struct MHD_Daemon *d = MHD_start_daemon(MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                                            empty, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)64 * 1024,
                                            MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    const union MHD_DaemonInfo *port = d ? MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (!port)
        bench_die("libmicrohttpd does not start");
    printf("ready %d\n", port->port);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    MHD_stop_daemon(d);
    return 0;
}

/* ---- requests ---- */

struct bench {
    struct tp_record *record;
    struct bench_text lines; /* of the search */
    struct tm_plan *plan;
    struct tm_batch *batch;
    double *score, *latency;
    struct tp_buf request[FASTAPI + 1][SIZES];
    struct reply reply;
    int fd[FASTAPI + 1]; /* -1: not there */
    pid_t pid[FASTAPI + 1];
    size_t rounds;
    double *seconds[SUBJECTS][SIZES];
    size_t n_times[SUBJECTS][SIZES];
    double cpu[SUBJECTS][SIZES]; /* of the server, sum */
};

static void make_request(struct tp_buf *out, const char *path, const char *headers, const struct tp_buf *body)
{
    out->n = 0;
    tp_buf_printf(out, "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n", path, headers, body->n);
    tp_buf_put(out, body->p, body->n);
    if (out->oom)
        bench_die("out of memory");
}

static void make_requests(struct bench *b)
{
    static const char path[] = "/v1/hardware/bench/predict", ndjson[] = "Content-Type: application/x-ndjson\r\n";
    for (size_t k = 0; k < SIZES; k++) {
        struct tp_buf lines = {0}, states = {0}, packed = {0};
        const char *p = b->lines.p;
        for (size_t i = 0; i < sizes[k]; i++)
            p += strcspn(p, "\n") + 1;
        tp_buf_put(&lines, b->lines.p, (size_t)(p - b->lines.p));
        tp_buf_puts(&states, "{\"task\": ");
        tp_task_emit(&b->record[0].task, &states);
        for (size_t i = 0; i < sizes[k]; i++) {
            tp_buf_puts(&states, i ? ", [[], " : ", \"states\": [[[], ");
            tp_steps_emit(b->record[i].steps, b->record[i].n_steps, &states);
            tp_buf_putc(&states, ']');
        }
        tp_buf_puts(&states, "]}");
        if (tc_encode(TC_GZIP, lines.p, lines.n, &packed, NULL))
            bench_die("gzip");
        make_request(&b->request[NDJSON][k], path, ndjson, &lines);
        make_request(&b->request[STATES][k], path, "Content-Type: application/json\r\n", &states);
        make_request(&b->request[BINARY][k], path,
                     "Content-Type: application/x-ndjson\r\nAccept: application/octet-stream\r\n", &lines);
        make_request(&b->request[GZIP][k], path, "Content-Type: application/x-ndjson\r\nContent-Encoding: gzip\r\n",
                     &packed);
        make_request(&b->request[FASTAPI][k], "/predict", ndjson, &lines);
        /* the floor answers as many bytes as tcld does */
        call(b->fd[NDJSON], &b->request[NDJSON][k], &b->reply);
        char url[32];
        snprintf(url, sizeof url, "/%zu", b->reply.text.n - b->reply.head);
        make_request(&b->request[FLOOR][k], url, ndjson, &lines);
        if (k == SIZES - 1)
            printf("%zu records: %.2f MB as NDJSON, %.2f MB as task and states, %.2f MB gzip; reply %.0f kB\n",
                   sizes[k], 1e-6 * (double)lines.n, 1e-6 * (double)states.n, 1e-6 * (double)packed.n,
                   1e-3 * (double)(b->reply.text.n - b->reply.head));
        tp_buf_free(&lines);
        tp_buf_free(&states);
        tp_buf_free(&packed);
    }
}

/* ---- servers ---- */

static struct tc_daemon *start_daemon(struct bench *b, const char *dir, struct tp_buf *weights)
{
    static const char *const args[] = {"--log-level", "error", NULL};
    char state[512];
    struct tc_daemon *d;
    struct tc_reply r = {0};
    struct tc_err e;
    snprintf(state, sizeof state, "%s/state", dir);
    struct tc_daemon_opts o = {.binary = "build/tcld", .state_dir = state, .args = args};
    if (tc_daemon_start(&o, &d, &e))
        bench_die("%s", e.text);
    struct tc_http *h = tc_http_new(tc_daemon_base(d), &e);
    json_t *hardware = json_pack("{s:s}", "target", "llvm");
    if (!h || tc_json(h, "PUT", "/v1/hardware/bench", hardware, NULL, &e) ||
        tc_call(h,
                &(struct tc_request){.path = "/v1/hardware/bench/models?activate=true",
                                     .body = weights->p,
                                     .n = weights->n,
                                     .content_type = "application/octet-stream"},
                &r, &e))
        bench_die("%s", e.text);
    if (r.status != 201)
        bench_die("the model is not taken: %s", r.body.p);
    json_decref(hardware);
    tc_reply_free(&r);
    tc_http_free(h);
    for (int k = 0; k < KINDS; k++) {
        b->fd[k] = dial(tc_daemon_port(d));
        b->pid[k] = tc_daemon_pid(d);
    }
    return d;
}

/* Nanoseconds on a CPU of all threads of a process, as seconds. */
static double cpu_of(pid_t pid)
{
    char path[300];
    double sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    for (struct dirent *t; d && (t = readdir(d));) {
        if (t->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.32s/schedstat", (int)pid, t->d_name);
        FILE *f = fopen(path, "r");
        double ns;
        if (f && fscanf(f, "%lf", &ns) == 1)
            sum += 1e-9 * ns;
        if (f)
            fclose(f);
    }
    if (d)
        closedir(d);
    return sum;
}

/* ---- the same answers? ---- */

/* Scores of a JSON reply, one after the other. */
static void check(const struct bench *b, const char *who, size_t n)
{
    const char *p = strstr(b->reply.text.p + b->reply.head, "\"scores\":");
    double worst = 0;
    p = p ? strchr(p, '[') : NULL;
    for (size_t i = 0; i < n; i++) {
        char *end = NULL;
        double s = p ? strtod(p + 1, &end) : NAN;
        if (!p || end == p + 1)
            bench_die("%s: no score %zu", who, i);
        worst = fmax(worst, fabs(s - b->score[i]));
        p = end;
    }
    if (!(worst <= 1e-4))
        bench_die("scores of %s differ from the engine by %g", who, worst);
    printf("%s: %zu scores agree with the engine within %.1g\n", who, n, worst);
}

/* ---- measurement ---- */

static void predict(struct bench *b, size_t n)
{
    if (tm_batch_begin(b->batch, b->plan))
        bench_die("out of memory");
    for (size_t i = 0; i < n; i++)
        if (tm_batch_add(b->batch, &b->record[i], NULL, NULL) < 0)
            bench_die("record %zu", i);
    if (tm_batch_run(b->batch, b->score, b->latency, NULL))
        bench_die("out of memory");
}

static void measure(struct bench *b, int subject, size_t k, size_t times)
{
    double cpu = subject == MODEL ? bench_thread_cpu() : cpu_of(b->pid[subject]);
    for (size_t i = 0; i < times; i++) {
        double start = bench_wall(), seconds;
        if (subject == MODEL) {
            predict(b, sizes[k]);
            seconds = bench_wall() - start;
        } else {
            seconds = call(b->fd[subject], &b->request[subject][k], &b->reply);
        }
        if (b->n_times[subject][k] < MAX_TIMES)
            b->seconds[subject][k][b->n_times[subject][k]++] = seconds;
    }
    b->cpu[subject][k] += (subject == MODEL ? bench_thread_cpu() : cpu_of(b->pid[subject])) - cpu;
}

static void run(struct bench *b)
{
    for (size_t k = 0; k < SIZES; k++) {
        for (int s = 0; s < SUBJECTS; s++)
            b->seconds[s][k] = bench_alloc(MAX_TIMES, sizeof(double));
        predict(b, sizes[k]);
        for (int s = 0; s <= FASTAPI; s++) /* warm up, and look at the answers once */
            for (int i = 0; i < 2 && b->fd[s] >= 0; i++) {
                call(b->fd[s], &b->request[s][k], &b->reply);
                if (i == 0 && sizes[k] == 64 && s != BINARY && s != FLOOR)
                    check(b, kinds[s], sizes[k]);
            }
    }
    for (size_t round = 0; round < b->rounds; round++)
        for (size_t k = 0; k < SIZES; k++)
            for (int s = 0; s < SUBJECTS; s++)
                if (s == MODEL || b->fd[s] >= 0)
                    measure(b, s, k, s == FASTAPI ? per_round_peer[k] : per_round[k]);
}

/* ---- where the time goes ---- */

static double cpu_each(const struct bench *b, int s, size_t k)
{
    return b->n_times[s][k] ? b->cpu[s][k] / (double)b->n_times[s][k] : NAN;
}

/* CPU microseconds of the parts of a request, run by themselves on this thread: parsing, encoding and model, printing
 * the reply. What tcld as a whole takes beyond these and the floor is hand-overs between threads, the log, the heap. */
static void breakdown(struct bench *b)
{
    enum { TIMES = 15 };
    printf("\nCPU time, us: %9s %9s %9s %9s | %9s\n", "parse", "model", "reply", "floor", "tcld");
    for (size_t k = 0; k < SIZES; k++) {
        double t[3][TIMES];
        const char *body = strstr(b->request[NDJSON][k].p, "\r\n\r\n") + 4;
        const size_t n = b->request[NDJSON][k].n - (size_t)(body - b->request[NDJSON][k].p);
        const struct tp_predict_reply reply = {.role = "ac",
                                               .hardware = "bench",
                                               .features_version = "tclf-1",
                                               .n = sizes[k],
                                               .scores = b->score,
                                               .latency_seconds = b->latency};
        struct tp_record r;
        struct tp_err e;
        tp_record_init(&r);
        for (int i = 0; i < TIMES; i++) {
            struct tp_buf out = {0};
            double at[4] = {bench_thread_cpu()};
            struct tp_body *open = tp_body_open(TP_FORM_NDJSON, body, n, &e);
            while (open && tp_body_next(open, &r, &e) == 1)
                ;
            tp_body_close(open);
            at[1] = bench_thread_cpu();
            predict(b, sizes[k]);
            at[2] = bench_thread_cpu();
            tp_predict_reply_json(&out, &reply);
            at[3] = bench_thread_cpu();
            tp_buf_free(&out);
            for (int part = 0; part < 3; part++)
                t[part][i] = at[part + 1] - at[part];
        }
        tp_record_free(&r);
        printf("%5zu records: %9.1f %9.1f %9.1f %9.1f | %9.1f\n", sizes[k], 1e6 * bench_quantile(t[0], TIMES, 0.5),
               1e6 * bench_quantile(t[1], TIMES, 0.5), 1e6 * bench_quantile(t[2], TIMES, 0.5),
               1e6 * cpu_each(b, FLOOR, k), 1e6 * cpu_each(b, NDJSON, k));
    }
}

/* ---- results ---- */

static double quantile(struct bench *b, int s, size_t k, double q)
{
    return b->n_times[s][k] ? bench_quantile(b->seconds[s][k], b->n_times[s][k], q) : NAN;
}

static void results(struct bench *b)
{
    char name[64];
    for (size_t k = 0; k < SIZES; k++) {
        const double n = (double)sizes[k];
        for (int s = 0; s < KINDS; s++) {
            snprintf(name, sizeof name, "%zu %s p50", sizes[k], kinds[s]);
            bench_result(name, 1e6 * quantile(b, s, k, 0.5), "us", NULL, NAN, k == 0 && s == 0 ? "<= 300" : "");
            snprintf(name, sizeof name, "%zu %s p99", sizes[k], kinds[s]);
            bench_result(name, 1e6 * quantile(b, s, k, 0.99), "us", NULL, NAN, "");
        }
        snprintf(name, sizeof name, "%zu ndjson p50", sizes[k]);
        bench_result(name, 1e6 * quantile(b, NDJSON, k, 0.5), "us", "floor", 1e6 * quantile(b, FLOOR, k, 0.5), "");
        bench_result(name, 1e6 * quantile(b, NDJSON, k, 0.5), "us", "model only", 1e6 * quantile(b, MODEL, k, 0.5),
                     sizes[k] == 2048 ? "<= 2.5" : "");
        snprintf(name, sizeof name, "%zu ndjson server CPU", sizes[k]);
        bench_result(name, 1e6 * cpu_each(b, NDJSON, k), "us", "model only", 1e6 * cpu_each(b, MODEL, k),
                     sizes[k] == 2048 ? "<= 2.5" : "");
        bench_result(name, 1e6 * cpu_each(b, NDJSON, k), "us", "floor", 1e6 * cpu_each(b, FLOOR, k), "");
        snprintf(name, sizeof name, "%zu ndjson", sizes[k]);
        bench_result(name, n / quantile(b, NDJSON, k, 0.5), "records/s", "fastapi", n / quantile(b, FASTAPI, k, 0.5),
                     sizes[k] == 2048 ? ">= 10" : "");
        snprintf(name, sizeof name, "%zu ndjson, by server CPU", sizes[k]);
        bench_result(name, n / cpu_each(b, NDJSON, k), "records/s", "fastapi", n / cpu_each(b, FASTAPI, k), "");
    }
}

int main(int argc, char **argv)
{
    static struct bench b = {.rounds = 5};
    if (argc == 2 && strcmp(argv[1], "--floor") == 0)
        return floor_server();
    if (argc == 3 && strcmp(argv[1], "-r") == 0)
        b.rounds = (size_t)strtoul(argv[2], NULL, 10);
    if (b.rounds < 1 || b.rounds > MAX_ROUNDS || argc == 2 || argc > 3)
        bench_die("usage: bench_http [-r rounds]");
    static const char *const search = "tests/data/batches/conv2d_nhwc_28.call5.json.gz";
    char dir[BENCH_PATH], weights_path[300];
    size_t n;
    struct tp_buf weights = {0};
    struct tp_err e;
    bench_folder("tcld-bench", dir);
    snprintf(weights_path, sizeof weights_path, "%s/model.safetensors", dir);
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    const struct tm_provenance provenance = {.role = "ac", .owner = "bench"};
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    b.lines = bench_read(search);
    b.record = bench_records(search, &n);
    b.plan = m ? tm_plan_new(m) : NULL;
    b.batch = tm_batch_new();
    b.score = bench_alloc(n, sizeof *b.score);
    b.latency = bench_alloc(n, sizeof *b.latency);
    if (!b.plan || !b.batch || n < sizes[SIZES - 1])
        bench_die("no plan, or too few records");
    if (tm_weights_write(m, &provenance, &weights, &e) || tm_weights_save(weights_path, m, &provenance, &e))
        bench_die("%s", e.detail);

    struct tc_daemon *d = start_daemon(&b, dir, &weights);
    struct bench_peer *floor_peer = bench_peer_start((const char *const[]){"/proc/self/exe", "--floor", NULL});
    if (!floor_peer)
        bench_die("no floor");
    b.fd[FLOOR] = dial((int)strtol(bench_peer_about(floor_peer), NULL, 10));
    b.pid[FLOOR] = bench_peer_pid(floor_peer);
    struct bench_peer *fastapi = bench_peer_start((const char *const[]){bench_python(), "tests/bench/peer_fastapi.py",
                                                                        weights_path, "build/libtclfeat.so", NULL});
    b.fd[FASTAPI] = -1;
    if (fastapi) {
        char *about;
        long port = strtol(bench_peer_about(fastapi), &about, 10);
        printf("peer:%s\n", about);
        b.fd[FASTAPI] = dial((int)port);
        b.pid[FASTAPI] = bench_peer_pid(fastapi);
    }
    make_requests(&b);
    run(&b);
    results(&b);
    bench_peer_end(fastapi);
    breakdown(&b);
    bench_report("http");

    bench_peer_end(floor_peer);
    if (tc_daemon_stop(d, 10))
        fprintf(stderr, "bench_http: tcld did not stop in order\n");
    tc_daemon_free(d);
    tc_remove_tree(dir, NULL);
    for (int s = 0; s < SUBJECTS; s++)
        for (size_t k = 0; k < SIZES; k++) {
            free(b.seconds[s][k]);
            if (s <= FASTAPI)
                tp_buf_free(&b.request[s][k]);
        }
    for (int s = 0; s <= FASTAPI; s++)
        if (b.fd[s] >= 0)
            close(b.fd[s]);
    tp_buf_free(&b.reply.text);
    tp_buf_free(&weights);
    bench_records_free(b.record);
    free(b.lines.p);
    free(b.score);
    free(b.latency);
    tm_batch_free(b.batch);
    tm_plan_free(b.plan);
    tm_model_free(m);
    return 0;
}
