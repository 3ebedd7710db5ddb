/* Everything at once, for long: measurements, predictions of all sizes, candidates, selections, leases, retrains,
 * exports, backups, reloads, bad requests, clients that vanish. Memory and descriptors must stay flat, every reply must
 * be one that makes sense, and the end must be clean.
 *
 * $SOAK_SECONDS: how long (default 15, what `make check` does; `make soak`: 20 minutes). The first third warms up:
 * caches and pools reach their size. Of the rest, the median of the last third may exceed that of the middle third by 5
 * % and 4 MiB, and the number of descriptors by 8. */
#include "tests/http/suite.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HW "soak"
enum { WORKERS = 6, SAMPLES = 100000, PROGRAMS = 4000 };

static struct {
    const char *base;
    struct bb_text large, small, junk;
    atomic_bool stop;
    atomic_long calls, refused, unexpected;
    pthread_mutex_t lock; /* guards problem */
    char problem[300];
} soak = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double soak_seconds(void)
{
    const char *s = getenv("SOAK_SECONDS");
    double v = s && *s ? strtod(s, NULL) : 0;
    return v > 0 ? v : 15;
}

struct worker {
    pthread_t thread;
    int number;
    uint64_t seed;
    struct tc_http *h;
    struct tc_reply r;
};

static unsigned draw(struct worker *w, unsigned n)
{
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(w->seed >> 33) % n;
}

/* Statuses that make sense are listed; 429, 503 may always be. */
static long call(struct worker *w, const char *method, const char *path, const void *body, size_t n, const char *type,
                 const char *fine)
{
    struct tc_err e;
    struct tc_request q = {.method = method, .path = path, .body = body, .n = n, .content_type = type};
    atomic_fetch_add(&soak.calls, 1);
    if (tc_call(w->h, &q, &w->r, &e)) {
        if (!atomic_load(&soak.stop)) {
            atomic_fetch_add(&soak.unexpected, 1);
            pthread_mutex_lock(&soak.lock);
            snprintf(soak.problem, sizeof soak.problem, "%s %s: %.150s", method, path, e.text);
            pthread_mutex_unlock(&soak.lock);
        }
        return 0;
    }
    char text[16];
    snprintf(text, sizeof text, "%ld", w->r.status);
    if (w->r.status == 503 || w->r.status == 429) {
        atomic_fetch_add(&soak.refused, 1);
    } else if (!strstr(fine, text)) {
        atomic_fetch_add(&soak.unexpected, 1);
        pthread_mutex_lock(&soak.lock);
        snprintf(soak.problem, sizeof soak.problem, "%s %s: %ld %.150s", method, path, w->r.status, w->r.body.p);
        pthread_mutex_unlock(&soak.lock);
    }
    return w->r.status;
}

/* The set of programs is bounded and costs repeat, so the database reaches a size and stays there. */
static void records(struct worker *w, int n, bool measured, struct tp_buf *b)
{
    for (int i = 0; i < n; i++) {
        unsigned p = draw(w, PROGRAMS);
        tp_buf_printf(b,
                      "{\"i\": [" BB_TASK ", [[], [[\"SP\", 2, 0, 512, [%u, 4, 2], 1], [\"PR\", 2, 0, "
                      "\"auto_unroll_max_step$%u\"]]]]",
                      p % 1000 + 1, p / 1000);
        if (measured)
            tp_buf_printf(b, ", \"r\": [[%.6g], 0, 0.5, 1700000000]", 1e-4 * (1 + p % 16));
        tp_buf_puts(b, ", \"v\": \"v0.6\"}\n");
    }
}

static void vanish(struct worker *w)
{
    int fd = bb_connect();
    static const char head[] =
        "POST /v1/hardware/" HW "/measurements HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n{";
    if (send(fd, head, 20 + draw(w, sizeof head - 21), MSG_NOSIGNAL) < 0)
        atomic_fetch_add(&soak.refused, 1);
    close(fd);
}

static void lease(struct worker *w)
{
    char body[80];
    snprintf(body, sizeof body, "{\"agent\": \"a%d\", \"max\": 8, \"ttl_seconds\": 5}", w->number);
    if (call(w, "POST", "/v1/hardware/" HW "/leases", body, strlen(body), "application/json", "200") == 200 &&
        draw(w, 2)) {
        json_t *j = tc_reply_json(&w->r, NULL);
        const char *id = tc_str(j, "/lease");
        if (id) {
            char path[200];
            snprintf(path, sizeof path, "/v1/leases/%.100s", id);
            call(w, "DELETE", path, NULL, 0, NULL, "200 204 404");
        }
        json_decref(j);
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct tp_buf b = {0};
    static const char *const reads[] = {"/v1/hardware",
                                        "/v1/hardware/" HW,
                                        "/v1/hardware/" HW "/tasks",
                                        "/v1/hardware/" HW "/models",
                                        "/v1/hardware/" HW "/best",
                                        "/v1/jobs?limit=5",
                                        "/metrics",
                                        "/readyz?verbose",
                                        "/v1/hardware/" HW "/candidates?limit=10",
                                        "/v1/families"};
    w->h = tc_http_new(soak.base, NULL);
    tc_http_timeout(w->h, 120);
    while (!atomic_load(&soak.stop)) {
        b.n = 0;
        switch (draw(w, 16)) {
        case 0:
        case 1:
        case 2:
            records(w, 1 + (int)draw(w, 300), true, &b);
            call(w, "POST", "/v1/hardware/" HW "/measurements", b.p, b.n, "application/x-ndjson", "200");
            break;
        case 3:
        case 4:
            call(w, "POST", "/v1/hardware/" HW "/predict", soak.large.p, soak.large.n, "application/x-ndjson", "200");
            break;
        case 5:
        case 6:
        case 7:
            call(w, "POST", "/v1/hardware/" HW "/predict", soak.small.p, soak.small.n, "application/x-ndjson", "200");
            break;
        case 8:
            records(w, 20, false, &b);
            call(w, "POST", "/v1/hardware/" HW "/candidates", b.p, b.n, "application/x-ndjson", "200");
            break;
        case 9:
            lease(w);
            break;
        case 10:
            vanish(w);
            break;
        case 11:
            call(w, "POST", "/v1/hardware/" HW "/measurements", soak.junk.p, soak.junk.n, "application/x-ndjson",
                 "200");
            call(w, "PUT", "/v1/hardware/" HW, "{", 1, "application/json", "400");
            call(w, "GET", "/v1/nothing", NULL, 0, NULL, "404");
            break;
        case 12:
            if (!draw(w, 20))
                call(w, "GET", "/v1/hardware/" HW "/measurements", NULL, 0, NULL, "200");
            else if (!draw(w, 40))
                call(w, "POST", "/v1/admin/backup", NULL, 0, NULL, "200");
            break;
        default:
            call(w, "GET", reads[draw(w, sizeof reads / sizeof *reads)], NULL, 0, NULL, "200");
        }
    }
    tp_buf_free(&b);
    tc_reply_free(&w->r);
    tc_http_free(w->h);
    return NULL;
}

static double gauge(const char *text, const char *name)
{
    char line[96];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(text, line);
    return at ? strtod(at + strlen(line), NULL) : 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(const double *v, int from, int to)
{
    static double copy[SAMPLES];
    int n = to - from;
    memcpy(copy, v + from, (size_t)n * sizeof *copy);
    qsort(copy, (size_t)n, sizeof *copy, by_value);
    return n ? copy[n / 2] : 0;
}

START_TEST(memory_and_descriptors_stay_flat)
{
    static double rss[SAMPLES], fds[SAMPLES];
    static struct worker w[WORKERS];
    double seconds = soak_seconds();
    struct tc_daemon *d = bb_start(bb_path("soak"), NULL);
    bb_put_hardware(HW);
    bb_post_demo(HW, 8, 3);
    bb_train(HW, "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 1}");
    soak.base = bb_base();
    soak.large = bb_file("tests/data/batches/matmul_512.call1.json.gz");
    soak.small = bb_unmeasured(5);
    soak.junk = bb_printf("{\"i\": [\nnot json\n[[[[[[[[\n\xff\xfe\n");
    for (int i = 0; i < WORKERS; i++) {
        w[i].number = i;
        w[i].seed = (uint64_t)i * 7919 + 1;
        ck_assert_int_eq(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    }
    int n = 0;
    double began = tc_now(), job_at = began + seconds / 20, every = seconds < 60 ? 0.1 : 1;
    while (tc_now() < began + seconds && n < SAMPLES) {
        tc_sleep(every);
        struct bb_reply *r = bb_get("/metrics");
        rss[n] = gauge(r->body, "tcld_resident_memory_bytes");
        fds[n++] = gauge(r->body, "tcld_open_file_descriptors");
        tc_reply_free(&r->raw); /* or the test itself would grow */
        if (tc_now() > job_at) {
            job_at += seconds / 15;
            if (n % 2)
                bb_json("POST", "{\"budget\": 16}", "/v1/hardware/" HW "/selections");
            bb_json("POST", bb_printf("{\"mode\": \"finetune\", \"epochs\": 1, \"max_seconds\": 5, \"seed\": %d}", n).p,
                    "/v1/hardware/" HW "/retrain");
            tc_daemon_signal(d, SIGHUP);
        }
    }
    atomic_store(&soak.stop, true);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(w[i].thread, NULL);
    double mid = median(rss, n / 3, 2 * n / 3), end = median(rss, 2 * n / 3, n);
    double fd_mid = median(fds, n / 3, 2 * n / 3), fd_end = median(fds, 2 * n / 3, n);
    printf("%.0f s, %ld calls, %ld refused; resident %.1f -> %.1f MiB, descriptors %.0f -> %.0f\n", tc_now() - began,
           soak.calls, soak.refused, mid / 1048576, end / 1048576, fd_mid, fd_end);
    ck_assert_msg(soak.unexpected == 0, "%ld unexpected replies: %s", soak.unexpected, soak.problem);
    if (seconds >= 120) { /* a short run is all warm-up */
        ck_assert_double_le(end, mid * 1.05 + 4 * 1048576);
        ck_assert_double_le(fd_end, fd_mid + 8);
    }
    ck_assert_msg(!strstr(bb_log(d), "level=error"), "the log holds errors: %.300s", strstr(bb_log(d), "level=error"));
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fault/soak");
    TCase *tc = bb_case_own(s, "soak", soak_seconds() * 1.5 + 120);
    tcase_add_test(tc, memory_and_descriptors_stay_flat);
    return bb_main(s);
}
