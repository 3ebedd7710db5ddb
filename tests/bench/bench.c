/* See bench.h. Peers are children with a pipe in each direction; they end when their input does. */
#include "tests/bench/bench.h"
#include "model/mem.h"
#include "proto/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum { MAX_RESULTS = 256, MAX_BYTES = 1 << 30 };

_Noreturn void bench_die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "bench: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    exit(1);
}

void *bench_alloc(size_t n, size_t size)
{
    void *p = tm_alloc(n, size);
    if (!p)
        bench_die("out of memory");
    return p;
}

void bench_folder(const char *name, char dir[BENCH_PATH])
{
    const char *tmp = getenv("TMPDIR");
    if (snprintf(dir, BENCH_PATH, "%s/%s-XXXXXX", tmp && *tmp ? tmp : "/tmp", name) >= BENCH_PATH || !mkdtemp(dir))
        bench_die("%s: %s", dir, strerror(errno));
}

/* ---- time ---- */

static double clock_seconds(clockid_t c)
{
    struct timespec t;
    clock_gettime(c, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_thread_cpu(void)
{
    return clock_seconds(CLOCK_THREAD_CPUTIME_ID);
}

double bench_process_cpu(void)
{
    return clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

double bench_wall(void)
{
    return clock_seconds(CLOCK_MONOTONIC);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(double *v, size_t n, double q)
{
    qsort(v, n, sizeof *v, by_value);
    size_t at = (size_t)(q * (double)n);
    return v[at < n ? at : n - 1];
}

int bench_pin(void)
{
    cpu_set_t set;
    int cpu = -1;
    if (sched_getaffinity(0, sizeof set, &set))
        bench_die("sched_getaffinity: %s", strerror(errno));
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            cpu = i;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        bench_die("sched_setaffinity: %s", strerror(errno));
    return cpu;
}

/* ---- results ---- */

struct result {
    char name[64], unit[16], peer[64], goal[16];
    double value, peer_value;
};
static struct result results[MAX_RESULTS];
static size_t n_results;

void bench_result(const char *name, double value, const char *unit, const char *peer, double peer_value,
                  const char *goal)
{
    if (isnan(value)) /* of a peer that is not there */
        return;
    if (n_results == MAX_RESULTS)
        bench_die("too many results");
    struct result *r = &results[n_results++];
    snprintf(r->name, sizeof r->name, "%s", name);
    snprintf(r->unit, sizeof r->unit, "%s", unit);
    snprintf(r->peer, sizeof r->peer, "%s", peer ? peer : "");
    snprintf(r->goal, sizeof r->goal, "%s", goal);
    r->value = value;
    r->peer_value = peer ? peer_value : NAN;
}

static double ratio_of(const struct result *r)
{
    return r->value / r->peer_value;
}

/* Of four significant digits, so that columns can be compared. */
static const char *figure(double v, char buf[32])
{
    if (isnan(v))
        snprintf(buf, 32, "-");
    else if (fabs(v) >= 1000)
        snprintf(buf, 32, "%.0f", v);
    else
        snprintf(buf, 32, "%.4g", v);
    return buf;
}

static const char *verdict(const struct result *r)
{
    double held = *r->peer ? ratio_of(r) : r->value, limit = strtod(r->goal + strcspn(r->goal, "0123456789"), NULL);
    if (!*r->goal || isnan(held))
        return "";
    return (*r->goal == '>' ? held >= limit : held <= limit) ? "met" : "missed";
}

static void json_number(struct tp_buf *b, const char *key, double v)
{
    tp_buf_printf(b, ", \"%s\": ", key);
    tp_buf_json_num(b, v, 9);
}

void bench_report(const char *bench)
{
    struct tp_buf b = {0};
    char v[32], p[32], path[128];
    printf("\n%-36s %12s %-10s %-20s %12s %9s  %-10s\n", bench, "value", "unit", "peer", "peer value", "ratio", "goal");
    tp_buf_puts(&b, "[\n");
    for (size_t i = 0; i < n_results; i++) {
        const struct result *r = &results[i];
        char ratio[32] = "";
        if (*r->peer)
            figure(ratio_of(r), ratio);
        printf("%-36s %12s %-10s %-20s %12s %9s  %-10s %s\n", r->name, figure(r->value, v), r->unit, r->peer,
               *r->peer ? figure(r->peer_value, p) : "", ratio, r->goal, verdict(r));
        tp_buf_printf(&b, "  {\"name\": \"%s\"", r->name);
        json_number(&b, "value", r->value);
        tp_buf_printf(&b, ", \"unit\": \"%s\", \"peer\": ", r->unit);
        tp_buf_printf(&b, *r->peer ? "\"%s\"" : "null", r->peer);
        json_number(&b, "peer_value", r->peer_value);
        json_number(&b, "ratio", ratio_of(r));
        tp_buf_printf(&b, ", \"goal\": \"%s\"}%s\n", r->goal, i + 1 < n_results ? "," : "");
    }
    tp_buf_puts(&b, "]\n");
    mkdir("build", 0777);
    mkdir("build/bench", 0777);
    snprintf(path, sizeof path, "build/bench/%s.json", bench);
    FILE *f = fopen(path, "w");
    if (b.oom || !f || fwrite(b.p, 1, b.n, f) != b.n || fclose(f))
        bench_die("%s: cannot write", path);
    tp_buf_free(&b);
    n_results = 0;
    printf("written to %s\n", path);
}

/* ---- records ---- */

struct bench_text bench_read(const char *path)
{
    struct tp_buf b = {0};
    gzFile f = gzopen(path, "rb"); /* reads plain files as well */
    int got;
    if (!f)
        bench_die("%s: cannot open", path);
    do {
        char *p = tp_buf_grow(&b, 1 << 16);
        if (!p || b.n > MAX_BYTES)
            bench_die("%s: too large", path);
        got = gzread(f, p, (1 << 16) - 1);
        if (got < 0)
            bench_die("%s: cannot read", path);
        b.n += (size_t)got;
    } while (got > 0);
    gzclose(f);
    b.p[b.n] = '\0';
    return (struct bench_text){b.p, b.n};
}

/* Pieces of one block of memory; without the block they are only counted. */
struct arena {
    char *p;
    size_t n;
};

static void *keep(struct arena *a, const void *from, size_t n)
{
    char *to = a->p ? a->p + a->n : NULL;
    if (to && n)
        memcpy(to, from, n);
    a->n += (n + 7) / 8 * 8;
    return to;
}

static struct tp_str keep_str(struct arena *a, struct tp_str s)
{
    return (struct tp_str){keep(a, s.s, s.n), s.n};
}

static void keep_task(struct arena *a, struct tp_task *t)
{
    t->workload_key = keep_str(a, t->workload_key);
    t->target = keep_str(a, t->target);
    t->target_host = keep_str(a, t->target_host);
    struct tp_str *names = keep(a, t->names, t->n_names * sizeof *names);
    for (uint32_t i = 0; i < t->n_names; i++) {
        struct tp_str name = keep_str(a, t->names[i]);
        if (names)
            names[i] = name;
    }
    t->names = names;
}

static bool same_task(const struct tp_task *a, const struct tp_task *b)
{
    struct tp_buf x = {0}, y = {0};
    tp_task_emit(a, &x);
    tp_task_emit(b, &y);
    bool same = x.n == y.n && memcmp(x.p, y.p, x.n) == 0;
    tp_buf_free(&x);
    tp_buf_free(&y);
    return same;
}

/* *to is a copy of *r whose parts are in the arena; `last` (may be NULL) lends its task when that is the same. */
static void keep_record(struct arena *a, const struct tp_record *r, const struct tp_record *last, struct tp_record *to)
{
    struct tp_record copy = *r;
    copy.mem = NULL;
    if (last && same_task(&last->task, &r->task))
        copy.task = last->task;
    else
        keep_task(a, &copy.task);
    copy.version = keep_str(a, r->version);
    copy.result.costs = keep(a, r->result.costs, r->has_result ? r->result.n_costs * sizeof *r->result.costs : 0);
    copy.steps = keep(a, r->steps, r->n_steps * sizeof *r->steps);
    for (uint32_t i = 0; i < r->n_steps; i++) {
        const struct tp_step *s = &r->steps[i];
        const int32_t *list = keep(a, s->list, s->n_list * sizeof *list);
        struct tp_str str = keep_str(a, s->str);
        if (copy.steps) {
            copy.steps[i].list = list;
            copy.steps[i].str = str;
        }
    }
    if (to)
        *to = copy;
}

/* Parses the text; with r it keeps the records, without it only counts what they take. */
static size_t parse_all(const char *path, const char *text, struct arena *a, struct tp_record *r)
{
    struct tp_record line;
    size_t n = 0;
    tp_record_init(&line);
    for (const char *p = text, *end; *p; p = *end ? end + 1 : end) {
        struct tp_err e;
        end = p + strcspn(p, "\n");
        if (end == p)
            continue;
        if (tp_record_parse(&line, p, (size_t)(end - p), &e))
            bench_die("%s: record %zu: %s", path, n, e.detail);
        keep_record(a, &line, r && n ? &r[n - 1] : NULL, r ? &r[n] : NULL);
        n++;
    }
    tp_record_free(&line);
    return n;
}

struct tp_record *bench_records(const char *path, size_t *n)
{
    struct bench_text t = bench_read(path);
    struct arena a = {0};
    *n = parse_all(path, t.p, &a, NULL);
    if (*n == 0)
        bench_die("%s: no records", path);
    struct tp_record *r = bench_alloc(a.n + *n * sizeof *r, 1);
    a = (struct arena){(char *)(r + *n), 0};
    parse_all(path, t.p, &a, r);
    free(t.p);
    return r;
}

void bench_records_free(struct tp_record *r)
{
    free(r);
}

struct tm_dataset *bench_dataset(enum tclfeat_set set, const struct tp_record *r, size_t n)
{
    struct tm_dataset *d = tm_dataset_new(set);
    for (size_t i = 0; d && i < n; i++) {
        struct tp_err e;
        char id[TP_TASK_ID_LEN + 1];
        uint8_t key[16] = {0};
        tp_task_id(&r[i].task, id);
        memcpy(key, &i, sizeof i);
        double cost = tp_record_label(&r[i]) == TP_LABEL_VALID ? tp_result_min_cost(&r[i].result) : INFINITY;
        if (tm_dataset_add(d, &r[i], id, key, cost, NULL, &e) < 0)
            bench_die("record %zu: %s", i, e.detail);
    }
    if (!d)
        bench_die("out of memory");
    return d;
}

static void put(FILE *f, const void *p, size_t n)
{
    if (n && fwrite(p, 1, n, f) != n)
        bench_die("cannot write what the peers read: %s", strerror(errno));
}

void bench_export(const char *path, const struct tm_dataset *d)
{
    const uint32_t ids = d->start[d->n],
                   head[] = {d->n, d->n_rows, (uint32_t)d->cols, (uint32_t)d->summary_cols, ids, d->n_tasks};
    FILE *f = fopen(path, "wb");
    if (!f)
        bench_die("%s: %s", path, strerror(errno));
    put(f, head, sizeof head);
    put(f, d->rows, (size_t)d->n_rows * (size_t)d->cols * sizeof *d->rows);
    put(f, d->start, ((size_t)d->n + 1) * sizeof *d->start);
    put(f, d->ids, ids * sizeof *d->ids);
    put(f, d->summary, (size_t)d->n * (size_t)d->summary_cols * sizeof *d->summary);
    put(f, d->task, d->n * sizeof *d->task);
    put(f, d->cost, d->n * sizeof *d->cost);
    if (fclose(f))
        bench_die("%s: %s", path, strerror(errno));
}

const char *bench_name(const char *path)
{
    static char name[128];
    const char *slash = strrchr(path, '/');
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
    char *suffix = strstr(name, ".json");
    if (suffix)
        *suffix = '\0';
    return name;
}

/* ---- peers ---- */

struct bench_peer {
    pid_t pid;
    FILE *to, *from;
    char *line, *about;
    size_t cap;
};

const char *bench_python(void)
{
    const char *p = getenv("TCLD_PYTHON");
    return p && *p ? p : "/usr/bin/python3";
}

static const char *read_line(struct bench_peer *p)
{
    ssize_t n = getline(&p->line, &p->cap, p->from);
    if (n <= 0)
        return NULL;
    p->line[strcspn(p->line, "\r\n")] = '\0';
    return p->line;
}

struct bench_peer *bench_peer_start(const char *const *argv)
{
    struct bench_peer *p = bench_alloc(1, sizeof *p);
    int to[2], from[2];
    posix_spawn_file_actions_t act;
    if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC) || posix_spawn_file_actions_init(&act))
        bench_die("pipe: %s", strerror(errno));
    posix_spawn_file_actions_adddup2(&act, to[0], 0);
    posix_spawn_file_actions_adddup2(&act, from[1], 1);
    int rc = posix_spawnp(&p->pid, argv[0], &act, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&act);
    close(to[0]);
    close(from[1]);
    p->to = fdopen(to[1], "w");
    p->from = fdopen(from[0], "r");
    if (!p->to || !p->from)
        bench_die("fdopen: %s", strerror(errno));
    const char *line = rc ? NULL : read_line(p);
    if (line && strncmp(line, "ready", 5) == 0) {
        p->about = strdup(line + 5 + (line[5] == ' '));
        if (!p->about)
            bench_die("out of memory");
        return p;
    }
    printf("skipped: %s %s: %s\n", argv[0], argv[1] ? argv[1] : "",
           rc                                       ? strerror(rc)
           : line && strncmp(line, "skip ", 5) == 0 ? line + 5
                                                    : "it did not start");
    if (rc)
        p->pid = 0;
    bench_peer_end(p);
    return NULL;
}

const char *bench_peer_about(const struct bench_peer *p)
{
    return p->about;
}

int bench_peer_pid(const struct bench_peer *p)
{
    return (int)p->pid;
}

static const char *ask(struct bench_peer *p, const char *fmt, va_list ap)
{
    vfprintf(p->to, fmt, ap);
    fputc('\n', p->to);
    const char *line = fflush(p->to) ? NULL : read_line(p);
    if (!line)
        bench_die("a peer has gone (it was asked \"%s\")", fmt);
    return line;
}

const char *bench_peer_ask(struct bench_peer *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *line = ask(p, fmt, ap);
    va_end(ap);
    return line;
}

double bench_peer_number(struct bench_peer *p, const char *fmt, ...)
{
    va_list ap;
    char *end;
    va_start(ap, fmt);
    const char *line = ask(p, fmt, ap);
    va_end(ap);
    double v = strtod(line, &end);
    if (end == line)
        bench_die("a peer answered \"%s\" to \"%s\"", line, fmt);
    return v;
}

void bench_peer_end(struct bench_peer *p)
{
    if (!p)
        return;
    fclose(p->to);
    fclose(p->from);
    if (p->pid > 0)
        waitpid(p->pid, NULL, 0);
    free(p->line);
    free(p->about);
    free(p);
}
