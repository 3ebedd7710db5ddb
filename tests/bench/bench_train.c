/* Training: programs a second of an epoch, beside PyTorch on the same network, records and batches of 16 x 32 programs.
 *
 * usage: bench_train [-r rounds] [-n programs] [-f 1] [file.json.gz...]
 *
 * Default input: 20,000 records spread over the logs in $TCLD_SHARED (else ../shared) data/public/x86-24t; where that
 * is absent, the records of tests/data/demo, and the table says how many they are. tcld runs whole epochs, as `retrain`
 * does, without validation; PyTorch, which is slower, PEER_STEPS batches a round, with rows ready-made and padded to
 * the longest of the batch. In turn; on one thread in CPU time, on all cores in wall time; medians of the rounds. All
 * cores are left out on a busy machine unless -f 1 forces it, as root best with a negative niceness. */
#include "model/simd.h"
#include "model/train.h"
#include "model/weights.h"
#include "tests/bench/bench.h"

#include <glob.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { MAX_ROUNDS = 50, PEER_STEPS = 3, PEER_BLOCK = 64, PEERS = 2, PROGRAMS = 20000 };

/* ---- data ---- */

static size_t count_lines(const char *path)
{
    static char buf[1 << 16];
    size_t n = 0;
    gzFile f = gzopen(path, "rb");
    if (!f)
        bench_die("%s: cannot open", path);
    for (int got; (got = gzread(f, buf, sizeof buf)) > 0;)
        for (int i = 0; i < got; i++)
            n += buf[i] == '\n';
    gzclose(f);
    return n;
}

/* Every stride-th line, counted over all files. */
static void add_lines(struct tm_dataset *d, const char *path, size_t stride, size_t want, size_t *line_no)
{
    static char line[TP_MAX_LINE + 2];
    struct tp_record r;
    struct tp_err e;
    gzFile f = gzopen(path, "rb");
    if (!f)
        bench_die("%s: cannot open", path);
    tp_record_init(&r);
    while (d->n < want && gzgets(f, line, sizeof line)) {
        const size_t n = strcspn(line, "\r\n");
        uint8_t key[16] = {0};
        if (n == 0 || (*line_no)++ % stride)
            continue;
        if (tp_record_parse(&r, line, n, &e))
            bench_die("%s: %s", path, e.detail);
        enum tp_label label = tp_record_label(&r);
        memcpy(key, line_no, sizeof *line_no);
        if (label != TP_LABEL_NONE &&
            tm_dataset_add(d, &r, tp_record_task_id(&r), key,
                           label == TP_LABEL_VALID ? tp_result_min_cost(&r.result) : INFINITY, NULL, &e) < 0)
            bench_die("%s: %s", path, e.detail);
    }
    tp_record_free(&r);
    gzclose(f);
}

static struct tm_dataset *load(size_t want, const glob_t *files)
{
    struct tm_dataset *d = tm_dataset_new(TCLFEAT_TCLF_1);
    size_t lines = 0, line_no = 0;
    for (size_t i = 0; i < files->gl_pathc; i++)
        lines += count_lines(files->gl_pathv[i]);
    if (!d || lines == 0)
        bench_die("no records");
    for (size_t i = 0; i < files->gl_pathc; i++)
        add_lines(d, files->gl_pathv[i], lines > want ? lines / want : 1, want, &line_no);
    return d;
}

/* ---- tcld ---- */

struct epoch {
    double cpu, wall; /* at the start */
    double cpu_spent, wall_spent;
    double loss;
};

/* After the last batch the epoch is over: stop, so that no calibration is counted. */
static int on_progress(void *arg, const struct tm_progress *p)
{
    struct epoch *e = arg;
    e->cpu_spent = bench_process_cpu() - e->cpu;
    e->wall_spent = bench_wall() - e->wall;
    e->loss = p->loss;
    return p->fraction >= 1;
}

static struct epoch run_epoch(const struct tm_model *fresh, const struct tm_dataset *d, const uint32_t *all,
                              int threads)
{
    struct tm_train_opts o;
    struct tp_err err;
    struct tm_model *m = tm_model_clone(fresh);
    tm_train_defaults(&o);
    o.epochs = 1;
    o.threads = threads;
    o.seed = 1;
    if (!m)
        bench_die("out of memory");
    struct epoch e = {.cpu = bench_process_cpu(), .wall = bench_wall()};
    int rc = tm_train(m, d, all, d->n, NULL, 0, &o, on_progress, &e, &err);
    if (rc != -TP_E_CANCELLED)
        bench_die("training: %s", rc ? err.detail : "the last batch was not told");
    tm_model_free(m);
    return e;
}

/* ---- PyTorch ---- */

static struct bench_peer *start_peer(const struct tm_model *m, const struct tm_dataset *d)
{
    const char *const argv[] = {bench_python(), "tests/bench/peer_torch.py", "build/bench/train.safetensors",
                                "build/bench/train.rows", NULL};
    const struct tm_provenance p = {.role = "ac", .owner = "bench"};
    struct tp_err e;
    mkdir("build", 0777);
    mkdir("build/bench", 0777);
    if (tm_weights_save(argv[2], m, &p, &e))
        bench_die("%s", e.detail);
    bench_export(argv[3], d);
    return bench_peer_start(argv);
}

/* Programs a second: by CPU time on one thread, by wall time on more. NaN without a peer. */
static double ask(struct bench_peer *p, int threads, int block)
{
    double cpu, wall;
    unsigned programs;
    if (!p)
        return NAN;
    const char *answer = bench_peer_ask(p, "train %d %d %d", threads, PEER_STEPS, block);
    if (sscanf(answer, "%lf %lf %u", &cpu, &wall, &programs) != 3)
        bench_die("the peer answered \"%s\"", answer);
    return programs / (threads > 1 ? wall : cpu);
}

/* Threads that wait for each other say nothing about either side while others hold the cores. */
static bool busy(int cores)
{
    double load[1];
    if (getloadavg(load, 1) != 1 || load[0] < 0.5 * cores)
        return false;
    printf("skipped: %d threads (the machine is busy, load average %.1f)\n", cores, load[0]);
    return true;
}

/* Measure and add results; threads 1 or the number of cores. */
static void compare(const struct tm_model *m, const struct tm_dataset *d, const uint32_t *all, struct bench_peer *p,
                    int threads, size_t rounds)
{
    static const char *const peers[PEERS] = {"torch", "torch blocked"};
    static double own[MAX_ROUNDS], peer[PEERS][MAX_ROUNDS];
    char name[64];
    for (int k = 0; k < PEERS; k++)
        ask(p, threads, k ? PEER_BLOCK : 0); /* warm up */
    for (size_t round = 0; round < rounds; round++) {
        struct epoch e = run_epoch(m, d, all, threads);
        own[round] = d->n / (threads > 1 ? e.wall_spent : e.cpu_spent);
        for (int k = 0; k < PEERS; k++)
            peer[k][round] = ask(p, threads, k ? PEER_BLOCK : 0);
    }
    const double rate = bench_quantile(own, rounds, 0.5);
    for (int k = 0; k < PEERS; k++) {
        double other = bench_quantile(peer[k], rounds, 0.5);
        snprintf(name, sizeof name, "train, %d thread%s", threads, threads > 1 ? "s, wall time" : ", CPU time");
        bench_result(name, rate, "programs/s", peers[k], other, ">= 5");
        snprintf(name, sizeof name, "epoch of %u, %d thread%s", d->n, threads, threads > 1 ? "s" : "");
        bench_result(name, d->n / rate, "s", peers[k], d->n / other, "");
    }
}

int main(int argc, char **argv)
{
    size_t rounds = 5, want = PROGRAMS, force = 0;
    glob_t files = {0};
    char pattern[512];
    const char *shared = getenv("TCLD_SHARED");
    int at = 1;
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        size_t v = (size_t)strtoul(argv[at + 1], NULL, 10);
        if (strcmp(argv[at], "-r") == 0)
            rounds = v;
        else if (strcmp(argv[at], "-n") == 0)
            want = v;
        else if (strcmp(argv[at], "-f") == 0)
            force = v;
        else
            rounds = 0;
    }
    if (rounds < 1 || rounds > MAX_ROUNDS || want < 1)
        bench_die("usage: bench_train [-r rounds] [-n programs] [-f 1] [file...]");
    for (int flags = 0; at < argc; at++, flags = GLOB_APPEND)
        glob(argv[at], flags, NULL, &files);
    snprintf(pattern, sizeof pattern, "%s/data/public/x86-24t/*.json.gz", shared ? shared : "../shared");
    if (files.gl_pathc == 0 && glob(pattern, 0, NULL, &files)) {
        printf("%s is not there: the demo's records instead\n", pattern);
        if (glob("tests/data/demo/*.json", 0, NULL, &files))
            bench_die("no tests/data/demo: run from the root of the project");
    }
    struct tm_dataset *d = load(want, &files);
    globfree(&files);
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    uint32_t *all = bench_alloc(d->n, sizeof *all);
    if (!m)
        bench_die("out of memory");
    for (uint32_t i = 0; i < d->n; i++)
        all[i] = i;
    cpu_set_t set;
    const int cores = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    printf("%u programs of %u tasks, %.1f rows each, %.1f %% of them distinct; %d cores, kernels: %s\n", d->n,
           d->n_tasks, (double)d->start[d->n] / d->n, 100.0 * d->n_rows / d->start[d->n], cores, tm_simd_name());

    struct bench_peer *p = start_peer(m, d);
    if (p)
        printf("%s\n", bench_peer_about(p));
    compare(m, d, all, p, 1, rounds);
    if (cores > 1 && (force || !busy(cores)))
        compare(m, d, all, p, cores, rounds);
    bench_report("train");
    bench_peer_end(p);
    tm_dataset_free(d);
    tm_model_free(m);
    free(all);
    return 0;
}
