/* Model only: programs a second on whole predict calls of real searches, one core, from parsed records to scores.
 *
 * usage: bench_model [-r repeats] file.json.gz...     (Ansor records, one a line; TCLD_SIMD chooses the kernel set)
 * Prints for each file: the engine; the same kernels without sharing, in batches of 32 programs, so that its rows stay
 * in the cache; one program alone. Times are CPU time, the median and the best of the repeats; weights are freshly
 * initialised.
 */
#include "model/infer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

enum { MAX_RECORDS = 16384, NO_SHARING_BATCH = 32 };

/* CPU time of this thread: other load on the machine does not count. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t read_records(const char *path, struct tp_record *r)
{
    static char line[TP_MAX_LINE + 2];
    size_t n = 0;
    gzFile f = gzopen(path, "rb");
    if (!f) {
        fprintf(stderr, "%s: cannot open\n", path);
        exit(1);
    }
    while (n < MAX_RECORDS && gzgets(f, line, sizeof line)) {
        struct tp_err e;
        size_t len = strcspn(line, "\r\n");
        if (len == 0)
            continue;
        tp_record_init(&r[n]);
        if (tp_record_parse(&r[n], line, len, &e)) {
            fprintf(stderr, "%s: %s\n", path, e.detail);
            exit(1);
        }
        n++;
    }
    gzclose(f);
    return n;
}

static void predict(struct tm_batch *b, const struct tm_plan *p, const struct tp_record *r, size_t n, size_t chunk,
                    double *score, double *latency)
{
    for (size_t at = 0; at < n; at += chunk) {
        const size_t end = n - at < chunk ? n : at + chunk;
        struct tp_err e;
        if (tm_batch_begin(b, p))
            exit(1);
        for (size_t i = at; i < end; i++) {
            if (tm_batch_add(b, &r[i], NULL, &e) < 0) {
                fprintf(stderr, "record %zu: %s\n", i, e.detail);
                exit(1);
            }
        }
        if (tm_batch_run(b, score + at, latency + at, NULL))
            exit(1);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *what, bool share, const struct tm_plan *p, const struct tp_record *r, size_t n,
                    size_t chunk, int repeats)
{
    static double score[MAX_RECORDS], latency[MAX_RECORDS], seconds[1000];
    struct tm_batch *b = tm_batch_new();
    if (!b)
        exit(1);
    tm_batch_share(b, share);
    predict(b, p, r, n, chunk, score, latency);
    for (int i = 0; i < repeats; i++) {
        double start = now();
        predict(b, p, r, n, chunk, score, latency);
        seconds[i] = now() - start;
    }
    qsort(seconds, (size_t)repeats, sizeof *seconds, by_value);
    double median = seconds[repeats / 2], best = seconds[0];
    printf("  %-34s %9.0f programs/s (best %9.0f)  %7.2f us/program\n", what, (double)n / median, (double)n / best,
           1e6 * median / (double)n);
    tm_batch_free(b);
}

/* Encoding alone, to see what is left for the model. */
static void measure_encoding(const struct tp_record *r, size_t n, int repeats)
{
    static double seconds[1000];
    static struct tclfeat_key keys[TCLFEAT_MAX_ROWS];
    float summary[TCLFEAT_MAX_SUMMARY];
    struct tclfeat_encoder *e = tclfeat_encoder_new(TCLFEAT_TCLF_1);
    if (!e)
        exit(1);
    for (int i = 0; i < repeats; i++) {
        double start = now();
        for (size_t k = 0; k < n; k++)
            if (tclfeat_encode(e, &r[k], NULL, keys, summary, NULL) < 0)
                exit(1);
        seconds[i] = now() - start;
    }
    qsort(seconds, (size_t)repeats, sizeof *seconds, by_value);
    printf("  %-34s %33s %7.2f us/program\n", "(encoding alone)", "", 1e6 * seconds[repeats / 2] / (double)n);
    tclfeat_encoder_free(e);
}

static void bench(const char *path, const struct tm_plan *p, int repeats)
{
    static struct tp_record r[MAX_RECORDS];
    const size_t n = read_records(path, r);
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    if (n == 0) {
        fprintf(stderr, "%s: no records\n", path);
        exit(1);
    }
    struct tm_batch *b = tm_batch_new();
    double *out = malloc(2 * n * sizeof *out);
    if (!b || !out)
        exit(1);
    predict(b, p, r, n, n, out, out + n);
    struct tm_batch_stats s;
    tm_batch_stats(b, &s);
    printf("%s: %llu programs, %.1f rows each; distinct: rows %.1f %%, prefixes %.1f %%, programs %.1f %%\n", name,
           (unsigned long long)s.programs, (double)s.rows / (double)s.programs,
           100.0 * (double)s.distinct_rows / (double)s.rows, 100.0 * (double)s.distinct_prefixes / (double)s.rows,
           100.0 * (double)s.distinct_programs / (double)s.programs);
    free(out);
    tm_batch_free(b);
    measure("engine", true, p, r, n, n, repeats);
    measure("same kernels, nothing shared", false, p, r, n, NO_SHARING_BATCH, repeats);
    measure("engine, one program at a time", true, p, r, n, 1, repeats);
    measure_encoding(r, n, repeats);
    for (size_t i = 0; i < n; i++)
        tp_record_free(&r[i]);
}

int main(int argc, char **argv)
{
    int repeats = 21, at = 1;
    if (argc > 2 && strcmp(argv[1], "-r") == 0) {
        repeats = (int)strtol(argv[2], NULL, 10);
        at = 3;
    }
    if (repeats < 1 || repeats > 1000 || at >= argc) {
        fprintf(stderr, "usage: bench_model [-r repeats] file.json.gz...\n");
        return 2;
    }
    const struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    struct tm_plan *p = m ? tm_plan_new(m) : NULL;
    if (!p)
        return 1;
    printf("kernels: %s\n", tm_simd_name());
    for (; at < argc; at++)
        bench(argv[at], p, repeats);
    tm_plan_free(p);
    tm_model_free(m);
    return 0;
}
