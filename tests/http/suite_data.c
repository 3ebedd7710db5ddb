/* See suite.h. Records, files, training helpers and raw sockets. */
#include "tests/http/suite.h"
#include "tests/http/suite_private.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_JSON = 512 };
static json_t *given[MAX_JSON]; /* JSON values of this test */
static size_t n_given;

json_t *bb_keep_json(json_t *o)
{
    ck_assert_uint_lt(n_given, MAX_JSON);
    return given[n_given++] = o;
}

void bb_forget_json(void)
{
    while (n_given)
        json_decref(given[--n_given]);
}

/* ---- text ---- */

struct bb_text bb_printf(const char *fmt, ...)
{
    char *p = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&p, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    return (struct bb_text){.p = bb_keep(p), .n = (size_t)n};
}

static struct bb_text keep_buf(struct tp_buf *b)
{
    tp_buf_putc(b, '\0');
    if (b->oom)
        abort();
    return (struct bb_text){.p = bb_keep(b->p), .n = b->n - 1};
}

struct bb_text bb_join(const struct bb_text *parts, size_t n)
{
    struct tp_buf b = {0};
    for (size_t i = 0; i < n; i++)
        tp_buf_put(&b, parts[i].p, parts[i].n);
    return keep_buf(&b);
}

struct bb_text bb_file(const char *path)
{
    struct tc_err e;
    struct tp_buf b = {0};
    int rc = tc_read_file(path, &b, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    return keep_buf(&b);
}

size_t bb_line_count(const char *p, size_t n)
{
    size_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += p[i] == '\n';
    return lines;
}

/* ---- folders ---- */

static const char *wanted_suffix;

static int has_suffix(const struct dirent *d)
{
    size_t n = strlen(d->d_name), k = strlen(wanted_suffix);
    return d->d_name[0] != '.' && n > k && !strcmp(d->d_name + n - k, wanted_suffix);
}

char **bb_dir(const char *path, const char *suffix)
{
    struct dirent **name = NULL;
    wanted_suffix = suffix;
    int n = scandir(path, &name, has_suffix, alphasort);
    ck_assert_msg(n >= 0, "cannot list %s: %s", path, strerror(errno));
    char **out = bb_keep(calloc((size_t)n + 1, sizeof *out));
    for (int i = 0; i < n; i++) {
        out[i] = bb_printf("%s", name[i]->d_name).p;
        free(name[i]);
    }
    free(name);
    return out;
}

int bb_demo_count(void)
{
    char **name = bb_dir("tests/data/demo", ".json");
    int n = 0;
    while (name[n])
        n++;
    return n;
}

struct bb_text bb_demo(int from, int n)
{
    struct tp_buf b = {0};
    char **name = bb_dir("tests/data/demo", ".json");
    ck_assert_msg(from + n <= bb_demo_count(), "tests/data/demo has too few files");
    for (int i = from; i < from + n; i++) {
        struct bb_text t = bb_file(bb_printf("tests/data/demo/%s", name[i]).p);
        tp_buf_put(&b, t.p, t.n);
    }
    return keep_buf(&b);
}

const char *bb_shared(const char *below)
{
    const char *dir = getenv("TCLD_SHARED");
    struct bb_text path = bb_printf("%s/%s", dir && *dir ? dir : "../shared", below);
    if (!access(path.p, R_OK))
        return path.p;
    printf("skipped: %s is not there\n", path.p);
    return NULL;
}

/* ---- synthetic records ---- */

struct bb_text bb_state(int i)
{
    /* three splits by the digits of i to the base 16, so that 4,096 programs differ in tiling and more in their unroll
     * limit */
    return bb_printf(
        "[[], [[\"SP\", 2, 0, 512, [%d, 4, 2], 1], [\"SP\", 2, 4, 512, [%d, 1, 16], 1], [\"SP\", 2, 8, 512, [%d], 1], "
        "[\"RE\", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]], [\"FU\", 2, [0, 1, 2]], [\"AN\", 2, 0, 3], "
        "[\"PR\", 2, 0, \"auto_unroll_max_step$%d\"], [\"AN\", 2, 7, 2]]]",
        i % 16 + 1, i / 16 % 16 + 1, i / 256 % 16 + 1, i / 4096);
}

struct bb_text bb_record(int i, double cost, long timestamp)
{
    return bb_printf("{\"i\": [" BB_TASK ", %s], \"r\": [[%.6g], 0, 0.5, %ld], \"v\": \"v0.6\"}", bb_state(i).p, cost,
                     timestamp);
}

struct bb_text bb_unmeasured(int i)
{
    return bb_printf("{\"i\": [" BB_TASK ", %s], \"v\": \"v0.6\"}", bb_state(i).p);
}

struct bb_text bb_records(int from, int n)
{
    struct tp_buf b = {0};
    for (int i = from; i < from + n; i++) {
        struct bb_text t = bb_record(i, 0.0001 * (1 + (i * 7) % 16), 1700000000L + i);
        tp_buf_put(&b, t.p, t.n);
        tp_buf_putc(&b, '\n');
    }
    return keep_buf(&b);
}

struct bb_text bb_recost(struct bb_text t, double (*of)(double cost, bool failed))
{
    struct tp_buf b = {0};
    for (const char *line = t.p, *end = t.p + t.n; line < end;) {
        size_t len = strcspn(line, "\n");
        json_t *o = json_loadb(line, len, 0, NULL), *costs = json_array_get(json_object_get(o, "r"), 0);
        bool kept = true;
        ck_assert_ptr_nonnull(o);
        for (size_t i = 0; i < json_array_size(costs); i++) {
            double c = of(json_number_value(json_array_get(costs, i)), tc_int(o, "/r/1", 1) != 0);
            kept = kept && !isnan(c);
            json_array_set_new(costs, i, json_real(isnan(c) ? 0 : c));
        }
        char *text = json_dumps(o, JSON_REAL_PRECISION(9));
        if (kept)
            tp_buf_printf(&b, "%s\n", text);
        free(text);
        json_decref(o);
        line += len + (line[len] == '\n');
    }
    return keep_buf(&b);
}

/* ---- hardware, training ---- */

void bb_put_hardware(const char *name)
{
    struct bb_text body =
        bb_printf("{\"target\": \"llvm -mcpu=skylake-avx512\", \"kind\": \"cpu\", \"family\": \"%s\"}", name);
    bb_status(bb_json("PUT", body.p, "/v1/hardware/%s", name), 201);
}

void bb_post_demo(const char *hw, int from, int n)
{
    struct bb_text t = bb_demo(from, n);
    bb_counts(bb_lines(t.p, t.n, "/v1/hardware/%s/measurements", hw), (long)bb_line_count(t.p, t.n), 0, 0);
}

int64_t bb_retrain(const char *hw, const char *body)
{
    struct bb_reply *r = bb_json("POST", body, "/v1/hardware/%s/retrain", hw);
    bb_status(r, 202);
    int64_t id = tc_int(r->json, "/id", 0);
    ck_assert_msg(id > 0, "a job without an id: %s", r->body);
    return id;
}

json_t *bb_wait(int64_t job)
{
    struct tc_err e;
    json_t *end = NULL;
    struct tc_http *h = tc_http_new(bb_base(), &e);
    ck_assert_msg(h != NULL, "%s", e.text);
    int rc = tc_job_wait(h, job, bb_slow() ? 900 : 120, NULL, NULL, &end, &e);
    tc_http_free(h);
    ck_assert_msg(rc == 0, "%s", e.text);
    bb_keep_json(end);
    return end;
}

json_t *bb_train(const char *hw, const char *body)
{
    json_t *job = bb_wait(bb_retrain(hw, body));
    const char *state = tc_str(job, "/state");
    char *text = json_dumps(job, 0);
    bb_keep(text);
    ck_assert_msg(state && !strcmp(state, "succeeded"), "training did not succeed: %s", text);
    return job;
}

/* ---- raw sockets ---- */

int bb_connect(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)tc_daemon_port(bb_in_use())),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_msg(fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof a), "cannot connect: %s", strerror(errno));
    return fd;
}

void bb_send(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t put = send(fd, p, n, MSG_NOSIGNAL);
        ck_assert_msg(put > 0, "cannot send: %s", strerror(errno));
        p += put;
        n -= (size_t)put;
    }
}

struct bb_text bb_recv(int fd, const char *until, double seconds, bool *closed)
{
    struct tp_buf b = {0};
    bool end = false;
    for (double stop = tc_now() + seconds; !end && tc_now() < stop;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 20) <= 0)
            continue;
        char chunk[65536];
        ssize_t n = recv(fd, chunk, sizeof chunk, 0);
        end = n <= 0;
        if (n > 0)
            tp_buf_put(&b, chunk, (size_t)n);
        tp_buf_putc(&b, '\0');
        b.n--;
        if (until && b.p && strstr(b.p, until))
            break;
    }
    if (closed)
        *closed = end;
    return keep_buf(&b);
}
