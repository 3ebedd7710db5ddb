/* Durable ingest: T agents post batches of B records and wait for each acknowledgement before the next post.
 *
 *   bench_store [DIR of .json logs] [seconds per case]
 *
 * Records are those of the logs, their first split changed so that every program is new and its rows have the usual
 * size; without logs one built-in record serves. Prints records per second, the time to an acknowledgement, and bytes
 * on disk per measurement. The database is made under $TMPDIR or /tmp: what is measured is that disk. */
#include "store/store.h"
#include "tests/bench/bench.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LINES = 8192, MAX_THREADS = 64, MAX_ACKS = 1 << 20 };

static char *lines[MAX_LINES];
static size_t n_lines, line_bytes;

static const char builtin[] =
    "{\"i\": [[\"[\\\"matmul\\\", 512, 64]\", \"llvm -keys=cpu -mcpu=core-avx2\", [8, 64, 64, 0, 0, 0, 0, 0], \"\", 1, "
    "[]], [[], [[\"CHW\", 2, \"local\"], [\"SP\", 2, 0, 512, [8, 4, 2], 1], [\"SP\", 2, 4, 512, [1, 1, 64], 1], "
    "[\"SP\", 2, 8, 512, [16], 1], [\"RE\", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]], [\"FSP\", 3, 0, 1, 1], [\"FSP\", 3, 2, "
    "2, 1], [\"RE\", 3, [0, 2, 1, 3]], [\"CA\", 2, 3, 1], [\"FU\", 3, [0, 1]], [\"AN\", 3, 0, 3], [\"PR\", 2, 0, "
    "\"auto_unroll_max_step$64\"]]]], \"r\": [[8.48286e-05, 8.60213e-05, 8.43801e-05, 0.000107498], 0, 0.302836, "
    "1700000000], \"v\": \"v0.6\"}";

struct agent {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    struct st_ingest_result result;
    struct st_store *store;
    size_t batch;
    int number;
    double until;
    double period; /* seconds between two posts of one agent; 0 = none */
    size_t accepted;
    double *acks; /* seconds each */
    size_t n_acks;
};

static void load(const char *dir)
{
    DIR *d = dir ? opendir(dir) : NULL;
    struct dirent *f;
    while (d && (f = readdir(d))) {
        char path[4096], *line = NULL;
        size_t cap = 0;
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        FILE *in = strstr(f->d_name, ".json") ? fopen(path, "r") : NULL;
        ssize_t n;
        while (in && n_lines < MAX_LINES && (n = getline(&line, &cap, in)) > 1) {
            line[n - 1] = '\0';
            lines[n_lines++] = strdup(line);
            line_bytes += (size_t)n;
        }
        free(line);
        if (in)
            fclose(in);
    }
    if (d)
        closedir(d);
    if (!n_lines) {
        lines[n_lines++] = strdup(builtin);
        line_bytes = sizeof builtin;
    }
}

/* The first step with a list gets a factor nobody had before. */
static void make_new(struct tp_record *r, int32_t serial)
{
    for (uint32_t k = 0; k < r->n_steps; k++)
        if (r->steps[k].kind == TP_STEP_SP && r->steps[k].n_list) {
            *(int32_t *)(uintptr_t)r->steps[k].list = serial;
            return;
        }
    r->result.timestamp += serial;
}

static void on_done(void *arg, const struct st_ingest_result *result)
{
    struct agent *a = arg;
    pthread_mutex_lock(&a->lock);
    a->result = *result;
    a->done = true;
    pthread_cond_signal(&a->cond);
    pthread_mutex_unlock(&a->lock);
}

static void *agent_main(void *arg)
{
    struct agent *a = arg;
    struct tp_record r;
    struct tp_err e;
    size_t i = (size_t)a->number * 131;
    int32_t serial = a->number * 10000000 + 1;
    double next = bench_wall() + a->period * a->number / MAX_THREADS;
    tp_record_init(&r);
    while (bench_wall() < a->until && a->n_acks < MAX_ACKS) {
        struct st_ingest *b = st_ingest_new("bench");
        for (size_t k = 0; k < a->batch; k++, i++, serial++) {
            const char *line = lines[i % n_lines];
            if (tp_record_parse(&r, line, strlen(line), &e) < 0)
                abort();
            make_new(&r, serial);
            if (st_ingest_add(b, &r, &e) < 0)
                abort();
        }
        for (double wait; a->period > 0 && (wait = next - bench_wall()) > 0;)
            usleep((useconds_t)(wait * 1e6));
        next += a->period;
        double t = bench_wall();
        a->done = false;
        if (st_ingest_submit(a->store, "bench", b, on_done, a, &e) < 0)
            abort();
        pthread_mutex_lock(&a->lock);
        while (!a->done)
            pthread_cond_wait(&a->cond, &a->lock);
        pthread_mutex_unlock(&a->lock);
        if (a->result.code < 0)
            abort();
        a->acks[a->n_acks++] = bench_wall() - t;
        a->accepted += a->result.accepted;
    }
    tp_record_free(&r);
    return NULL;
}

static int by_value(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
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

static void run(int threads, size_t batch, double rate, double seconds)
{
    static struct agent agents[MAX_THREADS];
    static double all[MAX_ACKS];
    char dir[BENCH_PATH], db[300];
    struct st_store *s;
    struct tp_err e;
    bench_folder("bench-store", dir);
    if (st_open(dir, &s, &e) < 0)
        abort();
    struct st_hardware h = {.name = "bench", .family = "cpu", .kind = "cpu", .target = (char *)"llvm"};
    bool created;
    if (st_hardware_put(s, &h, &created, &e) < 0)
        abort();
    double start = bench_wall();
    for (int i = 0; i < threads; i++) {
        struct agent *a = &agents[i];
        *a = (struct agent){.store = s, .batch = batch, .number = i, .until = start + seconds};
        a->period = rate > 0 ? (double)threads * (double)batch / rate : 0;
        pthread_mutex_init(&a->lock, NULL);
        pthread_cond_init(&a->cond, NULL);
        a->acks = malloc(MAX_ACKS * sizeof *a->acks);
        pthread_create(&a->thread, NULL, agent_main, a);
    }
    size_t accepted = 0, n = 0;
    for (int i = 0; i < threads; i++)
        pthread_join(agents[i].thread, NULL);
    double took = bench_wall() - start;
    for (int i = 0; i < threads; i++) {
        accepted += agents[i].accepted;
        for (size_t k = 0; k < agents[i].n_acks && n < MAX_ACKS; k++)
            all[n++] = agents[i].acks[k];
        free(agents[i].acks);
    }
    qsort(all, n, sizeof *all, by_value);
    st_close(s);
    struct stat st;
    snprintf(db, sizeof db, "%s/tcld.db", dir);
    if (stat(db, &st) < 0)
        abort();
    printf("%2d agents x %3zu records: %8.0f records/s, ack p50 %6.2f ms p99 %6.2f ms max %6.2f ms, %5.0f "
           "bytes/measurement "
           "(%zu measurements)\n",
           threads, batch, (double)accepted / took, 1e3 * all[n / 2], 1e3 * all[n * 99 / 100], 1e3 * all[n - 1],
           (double)st.st_size / (double)accepted, accepted);
    remove_dir(dir);
}

int main(int argc, char **argv)
{
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 5;
    load(argc > 1 ? argv[1] : NULL);
    printf("%zu different lines, %.0f bytes each\n", n_lines, (double)line_bytes / (double)n_lines);
    run(1, 1, 0, seconds);
    run(32, 1, 0, seconds);
    run(32, 32, 0, seconds);
    run(32, 64, 0, seconds);
    run(32, 512, 0, seconds);
    run(32, 64, 15000, seconds);
    return 0;
}
