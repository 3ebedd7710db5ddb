/* `lab rdu`: options in, cells, a table, JSON and plots out. */
#include "lab/lab.h"
#include "lab/rdu.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char usage[] =
    "usage: lab rdu --logs DIR|FILE... --test KEYFILE [OPTION...]\n"
    "\n"
    "Chooses programs of the tasks that are not in KEYFILE (workload keys, one a line), trains from scratch on the\n"
    "chosen and scores the tasks that are: what is each method of choice worth? docs/sampler.md.\n"
    "\n"
    "  --per-task N (400)      seeded sample of N distinct programs of each training task: the pool\n"
    "  --test-per-task N (400) at most N distinct valid programs of each test task\n"
    "  --budgets P,P,... (2,5,10,20,50,100)  percent of the pool\n"
    "  --methods M,M,... (rdu,random,uncertainty,coreset,representative)\n"
    "                          M may say more: rdu:r=0.5:d=1:u=0.5:f=0.2:sum:floor=4:rounds=1:rows, where `rows`\n"
    "                          does without a model between rounds\n"
    "  --seeds N (5)           of choice and training, 1 to N\n"
    "  --steps N (1000)        every training takes at least so many optimiser steps: epochs follow from that\n"
    "  --epochs N (20)         and at least so many epochs\n"
    "  --tune X                score on so large a share of the training tasks instead; the test tasks are not used\n"
    "  --out DIR               write rdu.json, rdu.md, plots, and every finished cell, which is then not made again\n"
    "  --threads N  --json     JSON instead of the table on standard output\n"
    "  --quiet                 no progress\n";

enum {
    O_LOGS = 1,
    O_TEST,
    O_PER_TASK,
    O_TEST_PER_TASK,
    O_BUDGETS,
    O_METHODS,
    O_SEEDS,
    O_STEPS,
    O_EPOCHS,
    O_TUNE,
    O_OUT,
    O_THREADS,
    O_JSON,
    O_QUIET,
    O_HELP
};
static const struct option options[] = {{"logs", required_argument, 0, O_LOGS},
                                        {"test", required_argument, 0, O_TEST},
                                        {"per-task", required_argument, 0, O_PER_TASK},
                                        {"test-per-task", required_argument, 0, O_TEST_PER_TASK},
                                        {"budgets", required_argument, 0, O_BUDGETS},
                                        {"methods", required_argument, 0, O_METHODS},
                                        {"seeds", required_argument, 0, O_SEEDS},
                                        {"steps", required_argument, 0, O_STEPS},
                                        {"epochs", required_argument, 0, O_EPOCHS},
                                        {"tune", required_argument, 0, O_TUNE},
                                        {"out", required_argument, 0, O_OUT},
                                        {"threads", required_argument, 0, O_THREADS},
                                        {"json", no_argument, 0, O_JSON},
                                        {"quiet", no_argument, 0, O_QUIET},
                                        {"help", no_argument, 0, O_HELP},
                                        {0, 0, 0, 0}};

static bool number(const char *opt, const char *text, double lo, double hi, double *out)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (errno || end == text || *end || !(v >= lo && v <= hi)) {
        fprintf(stderr, "lab rdu: --%s %s: a number from %g to %g is accepted\n", opt, text, lo, hi);
        return false;
    }
    *out = v;
    return true;
}

/* Ascending percents. text is cut in place, here and below. */
static bool budgets(struct tl_rdu_opts *o, char *text)
{
    char *save = NULL;
    double v;
    o->n_budgets = 0;
    for (char *p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        if (!number("budgets", p, 0.001, 100, &v))
            return false;
        if (o->n_budgets == TL_RDU_BUDGETS || (o->n_budgets && v / 100 <= o->budget[o->n_budgets - 1])) {
            fprintf(stderr, "lab rdu: --budgets: at most %d, ascending\n", TL_RDU_BUDGETS);
            return false;
        }
        o->budget[o->n_budgets++] = v / 100;
    }
    return o->n_budgets > 0;
}

static bool methods(struct tl_rdu_opts *o, char *text)
{
    struct tp_err e;
    char *save = NULL;
    o->n_methods = 0;
    for (char *p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        if (o->n_methods == TL_RDU_METHODS) {
            fprintf(stderr, "lab rdu: --methods: at most %d\n", TL_RDU_METHODS);
            return false;
        }
        if (tl_rdu_method_parse(p, &o->method[o->n_methods++], &e)) {
            fprintf(stderr, "lab rdu: %s\n", e.detail);
            return false;
        }
    }
    return o->n_methods > 0;
}

static void defaults(struct tl_rdu_opts *o)
{
    char percents[] = "2,5,10,20,50,100", names[] = "rdu,random,uncertainty,coreset,representative";
    *o = (struct tl_rdu_opts){.steps = 1000, .seeds = 5};
    tl_split_defaults(&o->split);
    tm_train_defaults(&o->train);
    o->split.per_task = 400;
    o->train.epochs = 20;
    o->train.threads = tl_cores();
    budgets(o, percents);
    methods(o, names);
}

static int write_file(const char *dir, const char *name, const struct tp_buf *b)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", dir, name) < 0)
        return -1;
    FILE *f = fopen(path, "w");
    int rc = f && fwrite(b->p, 1, b->n, f) == b->n ? 0 : -1;
    if (f && fclose(f))
        rc = -1;
    if (rc)
        fprintf(stderr, "lab: %s: %s\n", path, strerror(errno));
    free(path);
    return rc;
}

static int publish(const struct tl_rdu *r, const char *dir, bool json)
{
    struct tp_buf j = {0}, m = {0};
    struct tp_err e = {0};
    int rc = tl_rdu_json(r, &j) || tl_rdu_markdown(r, &m) ? -1 : 0;
    if (rc)
        fputs("lab: no memory for the report\n", stderr);
    if (rc == 0 && dir) {
        rc = write_file(dir, "rdu.json", &j) || write_file(dir, "rdu.md", &m) ? -1 : 0;
        if (rc == 0 && (rc = tl_rdu_draw(r, dir, &e)))
            fprintf(stderr, "lab: %s\n", e.detail);
    }
    if (rc == 0)
        fwrite(json ? j.p : m.p, 1, json ? j.n : m.n, stdout);
    tp_buf_free(&j);
    tp_buf_free(&m);
    return rc;
}

int tl_rdu_main(int argc, char **argv)
{
    struct tl_rdu_opts o;
    defaults(&o);
    const char *test = NULL;
    char *cells = NULL, *out = NULL;
    bool json = false;
    int opt, rc = 2;
    double v;
    char **keys = NULL;
    size_t n_keys = 0;
    struct tp_err e = {0};
    struct tl_rdu *r = calloc(1, sizeof *r);
    struct tl_corpus *c = tl_corpus_new();
    if (c == NULL || r == NULL)
        goto out;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case O_LOGS:
            if (tl_corpus_read(c, optarg, &e))
                goto fail;
            break;
        case O_TEST:
            test = optarg;
            break;
        case O_BUDGETS:
            if (!budgets(&o, optarg))
                goto out;
            break;
        case O_METHODS:
            if (!methods(&o, optarg))
                goto out;
            break;
        case O_OUT:
            out = optarg;
            break;
#define N(O, name, lo, hi, dest)                                                                                       \
    case O:                                                                                                            \
        if (!number(name, optarg, lo, hi, &v))                                                                         \
            goto out;                                                                                                  \
        dest = (__typeof__(dest))v;                                                                                    \
        break;
            N(O_PER_TASK, "per-task", 2, 1e9, o.split.per_task)
            N(O_TEST_PER_TASK, "test-per-task", 2, 1e9, o.split.test_per_task)
            N(O_SEEDS, "seeds", 1, TL_RDU_SEEDS, o.seeds)
            N(O_STEPS, "steps", 1, 1e9, o.steps)
            N(O_EPOCHS, "epochs", 1, 10000, o.train.epochs)
            N(O_TUNE, "tune", 0.01, 0.9, o.tune)
            N(O_THREADS, "threads", 1, 256, o.train.threads)
#undef N
        case O_JSON:
            json = true;
            break;
        case O_QUIET:
            o.quiet = true;
            break;
        case O_HELP:
            fputs(usage, stdout);
            rc = 0;
            goto out;
        default:
            fputs(usage, stderr);
            goto out;
        }
    }
    for (; optind < argc; optind++) /* --logs DIR FILE FILE */
        if (tl_corpus_read(c, argv[optind], &e))
            goto fail;
    if (test == NULL || c->lines == 0) {
        fputs(usage, stderr);
        goto out;
    }
    if (tl_keys_read(test, &keys, &n_keys))
        goto out;
    if (out && asprintf(&cells, "%s/cells", out) < 0)
        goto out;
    if (out) { /* when they cannot be made, writing says so */
        mkdir(out, 0777);
        mkdir(cells, 0777);
        o.cache = cells;
    }
    if (tl_rdu_run(c, keys, n_keys, &o, r, &e))
        goto fail;
    rc = publish(r, out, json) ? 1 : 0;
    goto out;
fail:
    fprintf(stderr, "lab: %s\n", e.detail);
    rc = 1;
out:
    if (r)
        tl_rdu_free(r);
    free(r);
    free(cells);
    tl_keys_free(keys, n_keys);
    tl_corpus_free(c);
    return rc;
}
