/* Selection: seconds of wall time, of CPU time over all threads, and peak memory of the whole process, pool included.
 *
 * usage: bench_select [-n programs] [-m method] [-t threads]   (only that)
 *
 * The pool is generated: tasks of 2,000 programs, each task a cloud of smaller clouds in 128 dimensions, as embeddings
 * of variants of one program are; features are 32 rectified projections of them. 10 % are chosen. */
#include "model/net.h"
#include "model/simd.h"
#include "sampler/select.h"
#include "tests/bench/bench.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 128, FEATURES = 32, TASK = 2000, CLOUDS = 12, MAX_ROUNDS = 15 };

struct arrays {
    float *embedding, *feature;
    uint32_t *task;
};

/* Sum of four uniforms: close enough to normal, variance 1 */
static float deviate(struct tm_rng *r)
{
    const uint64_t x = tm_rng_next(r);
    const double sum =
        (double)(x & 0xffff) + (double)(x >> 16 & 0xffff) + (double)(x >> 32 & 0xffff) + (double)(x >> 48);
    return (float)((sum / 65536.0 - 2.0) * 1.7320508);
}

static void fill(float *v, size_t n, float spread, struct tm_rng *r)
{
    for (size_t i = 0; i < n; i++)
        v[i] = spread * deviate(r);
}

static struct ts_pool make_pool(size_t n, struct arrays *a)
{
    static float task[DIM], cloud[CLOUDS][DIM], mix[FEATURES][4];
    struct tm_rng r;
    tm_rng_seed(&r, 7);
    a->embedding = bench_alloc(n * DIM, sizeof *a->embedding);
    a->feature = bench_alloc(n * FEATURES, sizeof *a->feature);
    a->task = bench_alloc(n, sizeof *a->task);
    fill(&mix[0][0], FEATURES * 4, 0.5f, &r);
    for (size_t i = 0; i < n; i++) {
        float *x = a->embedding + i * DIM, *f = a->feature + i * FEATURES;
        if (i % TASK == 0) {
            fill(task, DIM, 1.0f, &r);
            fill(&cloud[0][0], CLOUDS * DIM, 0.5f, &r);
        }
        fill(x, DIM, 0.3f, &r);
        const float *c = cloud[tm_rng_below(&r, CLOUDS)];
        for (int j = 0; j < DIM; j++)
            x[j] += task[j] + c[j];
        for (int j = 0; j < FEATURES; j++) {
            f[j] = 0.0f;
            for (int k = 0; k < 4; k++)
                f[j] += mix[j][k] * x[4 * j + k];
            f[j] = fmaxf(f[j], 0.0f);
        }
        a->task[i] = (uint32_t)(i / TASK);
    }
    return (struct ts_pool){
        .n = n, .dim = DIM, .embedding = a->embedding, .task = a->task, .n_features = FEATURES, .feature = a->feature};
}

/* MiB, since the last reset where the kernel allows one */
static double peak_memory(void)
{
    char line[256];
    double kib = NAN;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lf", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib / 1024;
}

static void reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) {
        fputs("5", f);
        fclose(f);
    }
}

static void measure(size_t n, enum ts_method method, int threads, size_t rounds, const char *time_goal,
                    const char *memory_goal)
{
    double seconds[MAX_ROUNDS], cpu[MAX_ROUNDS];
    char name[96];
    struct arrays a;
    struct ts_opts o;
    size_t chosen = 0;
    reset_peak();
    const struct ts_pool p = make_pool(n, &a);
    ts_defaults(&o);
    o.method = method;
    o.threads = threads;
    o.budget = ts_budget_of(&p, 0.1);
    struct ts_pick *picks = bench_alloc(o.budget, sizeof *picks);
    for (size_t i = 0; i < rounds; i++) {
        struct tp_err e;
        const double start = bench_wall(), busy = bench_process_cpu();
        if (ts_select(&p, &o, NULL, NULL, picks, &chosen, &e) || chosen != o.budget)
            bench_die("selection: %s", e.detail);
        seconds[i] = bench_wall() - start;
        cpu[i] = bench_process_cpu() - busy;
    }
    snprintf(name, sizeof name, "%s, %zu of %zu, %d thread%s", ts_method_name(method), chosen, n, threads,
             threads > 1 ? "s" : "");
    bench_result(name, bench_quantile(seconds, rounds, 0.5), "s", NULL, NAN, time_goal);
    snprintf(name, sizeof name, "%s, %zu of %zu, %d thread%s, CPU time", ts_method_name(method), chosen, n, threads,
             threads > 1 ? "s" : "");
    bench_result(name, bench_quantile(cpu, rounds, 0.5), "s", NULL, NAN, "");
    snprintf(name, sizeof name, "%s, %zu of %zu, peak memory", ts_method_name(method), chosen, n);
    bench_result(name, peak_memory(), "MiB", NULL, NAN, memory_goal);
    free(picks);
    free(a.embedding);
    free(a.feature);
    free(a.task);
}

int main(int argc, char **argv)
{
    cpu_set_t set;
    int threads = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set), method = TS_RDU;
    size_t only = 0;
    for (int at = 1; at + 1 < argc; at += 2) {
        if (strcmp(argv[at], "-n") == 0)
            only = (size_t)strtoul(argv[at + 1], NULL, 10);
        else if (strcmp(argv[at], "-t") == 0)
            threads = (int)strtoul(argv[at + 1], NULL, 10);
        else if (strcmp(argv[at], "-m") == 0)
            method = ts_method_find(argv[at + 1]);
    }
    if (method < 0 || threads < 1 || argc % 2 == 0)
        bench_die("usage: bench_select [-n programs] [-m method] [-t threads]");
    printf("%d threads, kernels: %s\n", threads, tm_simd_name());
    if (only) {
        measure(only, (enum ts_method)method, threads, 1, "", "");
    } else {
        for (int m = 0; m < TS_METHOD_COUNT; m++)
            measure(4000, (enum ts_method)m, threads, MAX_ROUNDS, m == TS_RDU ? "<= 0.2" : "", "");
        measure(4000, TS_RDU, 1, MAX_ROUNDS, "<= 0.2", "");
        measure(50000, TS_RDU, threads, 3, "", "");
        measure(1000000, TS_RDU, threads, 1, "<= 120", "<= 1024");
    }
    bench_report("select");
    return 0;
}
