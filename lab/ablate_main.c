/* `lab ablate`: options in; what is missing is trained; a table, JSON and a plot out. */
#include "lab/ablate.h"
#include "lab/lab.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

static const char usage[] =
    "usage: lab ablate --logs DIR|FILE... --test KEYFILE [OPTION...]\n"
    "\n"
    "Trains the default model and variants of it on the tasks that are not in KEYFILE (workload keys, one a line),\n"
    "scores them on the ones that are, and prints what each change does: Markdown, differences paired by task and "
    "seed.\n"
    "\n"
    "  --list                  the variants\n"
    "  --only NAME,...         these groups or variants (all); the default is always run\n"
    "  --seeds N               seeds 1 to N (3)\n"
    "  --per-task N (all)  --test-per-task N (400)  --epochs N (15)  --valid X (0.1)  --threads N: as in lab eval\n"
    "  --out DIR               keep every run there and make only those that are missing; write ablations.md,\n"
    "                          .json and .svg. Runs know their settings, not the code: a new DIR for a new program\n"
    "  --kept                  train nothing: report the runs that --out DIR holds\n"
    "  --json                  JSON on standard output\n"
    "  --quiet                 no progress\n";

enum {
    O_LOGS = 1,
    O_TEST,
    O_LIST,
    O_ONLY,
    O_SEEDS,
    O_PER_TASK,
    O_TEST_PER_TASK,
    O_EPOCHS,
    O_VALID,
    O_THREADS,
    O_OUT,
    O_KEPT,
    O_JSON,
    O_QUIET,
    O_HELP
};
static const struct option options[] = {{"logs", required_argument, 0, O_LOGS},
                                        {"test", required_argument, 0, O_TEST},
                                        {"list", no_argument, 0, O_LIST},
                                        {"only", required_argument, 0, O_ONLY},
                                        {"seeds", required_argument, 0, O_SEEDS},
                                        {"per-task", required_argument, 0, O_PER_TASK},
                                        {"test-per-task", required_argument, 0, O_TEST_PER_TASK},
                                        {"epochs", required_argument, 0, O_EPOCHS},
                                        {"valid", required_argument, 0, O_VALID},
                                        {"threads", required_argument, 0, O_THREADS},
                                        {"out", required_argument, 0, O_OUT},
                                        {"kept", no_argument, 0, O_KEPT},
                                        {"json", no_argument, 0, O_JSON},
                                        {"quiet", no_argument, 0, O_QUIET},
                                        {"help", no_argument, 0, O_HELP},
                                        {0, 0, 0, 0}};

struct ablate {
    struct tl_corpus *corpus;
    char **keys;
    size_t n_keys;
    struct tl_eval_opts o;
    int seeds;
    const char *test, *only, *out;
    bool kept, json, quiet;
    char settings[512];
    struct tl_outcome *run; /* [tl_n_variants][seeds] */
};

static bool number(const char *opt, const char *text, double lo, double hi, double *out)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (errno || end == text || *end || !(v >= lo && v <= hi)) {
        fprintf(stderr, "lab ablate: --%s %s: a number from %g to %g is accepted\n", opt, text, lo, hi);
        return false;
    }
    *out = v;
    return true;
}

/* Is `name` one of the comma-separated `list`? Names hold commas themselves, so it is looked for as a whole. */
static bool listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at++)
        if ((at == list || at[-1] == ',') && (at[n] == '\0' || at[n] == ','))
            return true;
    return false;
}

static bool wanted(const struct ablate *a, int variant)
{
    const struct tl_variant_info *v = &tl_variants[variant];
    return variant == 0 || a->only == NULL || listed(a->only, v->group) || listed(a->only, v->name);
}

/* Everything that a run depends on, but for variant, seed and code. */
static void describe(struct ablate *a)
{
    const struct tl_corpus *c = a->corpus;
    uLong data = 0, keys = 0;
    for (uint32_t i = 0; i < c->n_programs; i++) {
        data = crc32(data, c->programs[i].hash, sizeof c->programs[i].hash);
        data = crc32(data, (const Bytef *)&c->programs[i].min_cost, sizeof c->programs[i].min_cost);
    }
    for (size_t i = 0; i < a->n_keys; i++)
        keys = crc32(keys, (const Bytef *)a->keys[i], (uInt)strlen(a->keys[i]) + 1);
    snprintf(a->settings, sizeof a->settings,
             "programs %u %08lx, test %08lx, features %08x, per-task %u, test-per-task %u, epochs %d, valid %g",
             c->n_programs, data, keys, tclfeat_crc(TCLFEAT_TCLF_1), a->o.split.per_task, a->o.split.test_per_task,
             a->o.train.epochs, a->o.split.valid_fraction);
}

static int run_seed(struct ablate *a, int seed, struct tp_err *e)
{
    struct tl_split split = {0};
    int rc = 0;
    for (int v = 0; v < tl_n_variants && rc == 0; v++) {
        struct tl_outcome *r = &a->run[v * a->seeds + seed - 1];
        if (!wanted(a, v) || (a->out && tl_outcome_load(a->out, a->settings, v, (uint64_t)seed, r)) || a->kept)
            continue;
        a->o.split.seed = (uint64_t)seed;
        if (split.d == NULL && (rc = tl_split_make(a->corpus, a->keys, a->n_keys, &a->o.split, &split, e)))
            break;
        rc = tl_outcome_make(a->corpus, &split, &a->o, v, r, e);
        if (rc == 0 && a->out)
            rc = tl_outcome_save(a->out, a->settings, v, (uint64_t)seed, r, e);
        if (rc == 0 && !a->quiet)
            fprintf(stderr, "  seed %d  %-26s pairwise %.4f  top-1 %.4f  %.0f CPU s\n", seed, tl_variants[v].name,
                    r->figure[TL_OUTCOME_pairwise], r->figure[TL_OUTCOME_top1], r->figure[TL_OUTCOME_cpu_seconds]);
    }
    if (split.d)
        tl_split_free(&split);
    return rc;
}

static int write_file(const char *path, const struct tp_buf *b, struct tp_err *e)
{
    FILE *f = fopen(path, "w");
    bool failed = f == NULL || fwrite(b->p, 1, b->n, f) != b->n;
    if (f && fclose(f))
        failed = true;
    return failed ? tp_fail(e, TP_E_IO, "%s: %s", path, strerror(errno)) : 0;
}

static int report(const struct ablate *a, struct tp_err *e)
{
    const struct tl_ablation all = {.settings = a->settings, .seeds = a->seeds, .run = a->run};
    struct tp_buf md = {0}, json = {0};
    char path[4096];
    int rc = 0;
    if (tl_ablation_markdown(&all, &md) || tl_ablation_json(&all, &json))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for the report");
    if (rc == 0)
        fwrite(a->json ? json.p : md.p, 1, a->json ? json.n : md.n, stdout);
    if (rc == 0 && a->out) {
        snprintf(path, sizeof path, "%s/ablations.md", a->out);
        rc = write_file(path, &md, e);
    }
    if (rc == 0 && a->out) {
        snprintf(path, sizeof path, "%s/ablations.json", a->out);
        rc = write_file(path, &json, e);
    }
    if (rc == 0 && a->out) {
        snprintf(path, sizeof path, "%s/ablations.svg", a->out);
        rc = tl_ablation_plot(&all, path, e);
    }
    tp_buf_free(&md);
    tp_buf_free(&json);
    return rc;
}

static int list(void)
{
    for (int v = 0; v < tl_n_variants; v++)
        printf("%-10s %-26s %s\n", tl_variants[v].group, tl_variants[v].name, tl_variants[v].change);
    return 0;
}

/* 0 go on, else the exit status + 1. */
static int parse(int argc, char **argv, struct ablate *a, struct tp_err *e)
{
    int opt;
    double v;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case O_LOGS:
            if (tl_corpus_read(a->corpus, optarg, e))
                return 1 + 1;
            break;
        case O_TEST:
            a->test = optarg;
            break;
        case O_LIST:
            return 1 + list();
        case O_ONLY:
            a->only = optarg;
            break;
#define N(O, name, lo, hi, dest)                                                                                       \
    case O:                                                                                                            \
        if (!number(name, optarg, lo, hi, &v))                                                                         \
            return 1 + 2;                                                                                              \
        dest = (__typeof__(dest))v;                                                                                    \
        break;
            N(O_SEEDS, "seeds", 1, 100, a->seeds)
            N(O_PER_TASK, "per-task", 1, 1e9, a->o.split.per_task)
            N(O_TEST_PER_TASK, "test-per-task", 2, 1e9, a->o.split.test_per_task)
            N(O_EPOCHS, "epochs", 1, 10000, a->o.train.epochs)
            N(O_VALID, "valid", 0, 0.9, a->o.split.valid_fraction)
            N(O_THREADS, "threads", 1, 256, a->o.train.threads)
#undef N
        case O_OUT:
            a->out = optarg;
            break;
        case O_KEPT:
            a->kept = true;
            break;
        case O_JSON:
            a->json = true;
            break;
        case O_QUIET:
            a->quiet = true;
            break;
        case O_HELP:
            fputs(usage, stdout);
            return 1 + 0;
        default:
            fputs(usage, stderr);
            return 1 + 2;
        }
    }
    for (; optind < argc; optind++) /* --logs DIR FILE FILE */
        if (tl_corpus_read(a->corpus, argv[optind], e))
            return 1 + 1;
    if (a->test == NULL || a->corpus->lines == 0) {
        fputs(usage, stderr);
        return 1 + 2;
    }
    return 0;
}

int tl_ablate_main(int argc, char **argv)
{
    struct ablate a = {.seeds = 3};
    struct tp_err e = {0};
    int rc = 1;
    tl_eval_defaults(&a.o);
    a.o.train.epochs = 15;
    a.o.train.threads = tl_cores();
    if ((a.corpus = tl_corpus_new()) == NULL)
        return 1;
    if ((rc = parse(argc, argv, &a, &e)) != 0) {
        rc--;
        goto out;
    }
    rc = 1;
    if (tl_keys_read(a.test, &a.keys, &a.n_keys))
        goto out;
    describe(&a);
    a.run = calloc((size_t)(tl_n_variants * a.seeds), sizeof *a.run);
    if (a.run == NULL) {
        tp_fail(&e, TP_E_NO_MEMORY, "no memory for the runs");
        goto out;
    }
    if (a.out && mkdir(a.out, 0777) && errno != EEXIST) {
        tp_fail(&e, TP_E_IO, "%s: %s", a.out, strerror(errno));
        goto out;
    }
    for (int seed = 1; seed <= a.seeds; seed++)
        if (run_seed(&a, seed, &e))
            goto out;
    rc = report(&a, &e) ? 1 : 0;
out:
    if (rc == 1 && e.detail[0])
        fprintf(stderr, "lab: %s\n", e.detail);
    for (int i = 0; a.run && i < tl_n_variants * a.seeds; i++)
        tl_outcome_free(&a.run[i]);
    free(a.run);
    tl_keys_free(a.keys, a.n_keys);
    tl_corpus_free(a.corpus);
    return rc;
}
