/* The pool of candidates at size: what posting, selecting, leasing, measuring and expiring cost in the store.
 *
 *   bench_pool [candidates]            default 1,000,000 of 100 tasks; a tenth is selected
 *
 * The database is made under $TMPDIR or /tmp: every write includes its fsync on that disk. */
#include "store/store.h"

#include "tests/bench/bench.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TASKS = 100, BODY = 5000, LEASES = 300 };

static struct st_store *store;
static struct st_reader *reader;
static int64_t hw;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int64_t answer; /* -1: none yet */

static void check(int rc, const struct tp_err *e)
{
    if (rc < 0)
        bench_die("%s", e->detail);
}

static void wake(int64_t v)
{
    pthread_mutex_lock(&lock);
    answer = v;
    pthread_cond_signal(&cond);
    pthread_mutex_unlock(&lock);
}

static void on_done(void *arg, const struct st_ingest_result *r)
{
    (void)arg;
    if (r->code < 0)
        bench_die("a batch failed with code %d", r->code);
    wake((int64_t)r->accepted);
}

static void on_swept(void *arg, int64_t n)
{
    (void)arg;
    wake(n);
}

static int64_t await(void)
{
    pthread_mutex_lock(&lock);
    while (answer < 0)
        pthread_cond_wait(&cond, &lock);
    int64_t v = answer;
    answer = -1;
    pthread_mutex_unlock(&lock);
    return v;
}

static void add(struct st_ingest *b, struct tp_record *r, int i)
{
    static const char form[] =
        "{\"i\": [[\"[\\\"matmul\\\", %d, 64]\", \"llvm -keys=cpu -mcpu=core-avx2\", [8, 64, 64, 0, 0, 0, 0, 0], \"\", "
        "1, "
        "[]], [[], [[\"SP\", 2, 0, 512, [%d, 4, 2], 1], [\"SP\", 2, 4, 512, [%d, 1, 64], 1], [\"SP\", 2, 8, 512, [16], "
        "1], [\"RE\", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]], [\"FSP\", 3, 0, 1, 1], [\"FSP\", 3, 2, 2, 1], [\"RE\", 3, "
        "[0, "
        "2, 1, 3]], [\"CA\", 2, 3, 1], [\"FU\", 3, [0, 1]], [\"AN\", 3, 0, 3], [\"PR\", 2, 0, "
        "\"auto_unroll_max_step$64\"]]]], \"r\": [[8.4e-05, 8.6e-05, 8.4e-05], 0, 0.3, 1700000000], \"v\": \"v0.6\"}";
    char line[1024];
    struct tp_err e;
    int n = snprintf(line, sizeof line, form, i % TASKS, 1 + i / TASKS % 1000, 1 + i / TASKS / 1000);
    check(tp_record_parse(r, line, (size_t)n, &e), &e);
    check(st_ingest_add(b, r, &e), &e);
}

/* Seconds that the store took. */
static double post(int from, int n, bool candidates)
{
    struct st_ingest *b = candidates ? st_ingest_new_candidates(1, INT64_MAX) : st_ingest_new("bench");
    struct tp_record r;
    struct tp_err e;
    tp_record_init(&r);
    for (int i = from; i < from + n; i++)
        add(b, &r, i);
    tp_record_free(&r);
    double t = bench_wall();
    check(st_ingest_submit(store, "bench", b, on_done, NULL, &e), &e);
    await();
    return bench_wall() - t;
}

static int nothing(void *arg, const struct st_candidate *c, const struct tp_record *rec)
{
    (void)c, (void)rec;
    ++*(int *)arg;
    return 0;
}

static struct st_lease lease(int64_t max, int64_t now)
{
    char agent[16];
    static int turn;
    struct st_lease_ask ask = {.hardware = "bench", .agent = agent, .max = max, .ttl = 1000, .now = now};
    struct st_lease l;
    struct tp_err e;
    int n = 0;
    snprintf(agent, sizeof agent, "a%d", turn++ % 32);
    check(st_lease_take(store, &ask, &l, &e), &e);
    check(st_lease_records(reader, l.id, nothing, &n, &e), &e);
    return l;
}

static void leases(int64_t max)
{
    double took[LEASES];
    char name[64];
    for (int i = 0; i < LEASES; i++) {
        double t = bench_wall();
        lease(max, 0);
        took[i] = 1e3 * (bench_wall() - t);
    }
    snprintf(name, sizeof name, "lease of %d, records read: p50", (int)max);
    bench_result(name, bench_quantile(took, LEASES, 0.5), "ms", NULL, NAN, "");
    snprintf(name, sizeof name, "lease of %d, records read: p99", (int)max);
    bench_result(name, bench_quantile(took, LEASES, 0.99), "ms", NULL, NAN, "");
}

static int by_id(void *arg, const struct st_candidate *c)
{
    struct st_pick **p = arg;
    *(*p)++ = (struct st_pick){.candidate = c->id, .score = 1 - 1e-7 * (double)c->id, .turn = c->id / TASKS, .u = NAN};
    return 0;
}

static void select_tenth(int total)
{
    struct st_pick *p = bench_alloc((size_t)total / 10, sizeof *p), *end = p;
    struct tp_err e;
    double t = bench_wall();
    check(st_candidate_list(reader, hw, ST_POOLED, 0, total / 10, by_id, &end, &e), &e);
    bench_result("list a tenth of the pool", 1e3 * (bench_wall() - t), "ms", NULL, NAN, "");
    t = bench_wall();
    check(st_candidates_select(store, hw, 1, p, (size_t)(end - p), &e), &e);
    bench_result("select a tenth", bench_wall() - t, "s", NULL, NAN, "");
    free(p);
}

static void remove_dir(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *f;
    while (d && (f = readdir(d)))
        unlinkat(dirfd(d), f->d_name, 0);
    if (d)
        closedir(d);
    rmdir(dir);
}

int main(int argc, char **argv)
{
    int total = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1000000;
    char dir[BENCH_PATH];
    struct st_hardware h = {.name = "bench", .family = "cpu", .kind = "cpu", .target = (char *)"llvm"};
    struct tp_err e = {0};
    int64_t counts[ST_CANDIDATE_STATES];
    bool created;
    double took = 0, t;

    answer = -1;
    bench_folder("bench-pool", dir);
    check(st_open(dir, &store, &e), &e);
    check(st_hardware_put(store, &h, &created, &e), &e);
    check(st_reader_new(store, &reader, &e), &e);
    check(st_hardware_get(reader, "bench", &h, &e), &e);
    hw = h.id;
    st_hardware_clear(&h);

    for (int at = 0; at < total; at += BODY)
        took += post(at, total - at < BODY ? total - at : BODY, true);
    bench_result("post candidates", total / took, "1/s", NULL, NAN, "");
    select_tenth(total);
    leases(64);
    leases(1);
    t = bench_wall();
    check(st_candidate_counts(reader, hw, counts, &e), &e);
    bench_result("counts", 1e3 * (bench_wall() - t), "ms", NULL, NAN, "");
    bench_result("post 5,000 measurements of leased ones", 5000 / post(0, 5000, false), "1/s", NULL, NAN, "");
    t = bench_wall();
    check(st_lease_sweep(store, 1000000, on_swept, NULL, &e), &e);
    double n = (double)await();
    bench_result("expire what is leased", n / (bench_wall() - t), "1/s", NULL, NAN, "");
    t = bench_wall();
    st_reader_free(reader);
    check(st_hardware_delete(store, "bench", true, &e), &e);
    bench_result("delete all", bench_wall() - t, "s", NULL, NAN, "");
    st_close(store);
    bench_report("pool");
    remove_dir(dir);
    return 0;
}
