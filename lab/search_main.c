/* `lab search`: options in, replays, a table, JSON and a drawing out. */
#include "lab/lab.h"
#include "lab/search_run.h"
#include "lab/split.h"
#include "lab/svg.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
    "usage: lab search --logs DIR|FILE... --test KEYFILE [OPTION...]\n"
    "\n"
    "Replays tuning on the tasks of KEYFILE (workload keys, one a line), whose programs are all measured: the "
    "programs\n"
    "are measured in the order of a model that was trained on the other tasks, and it is counted how many\n"
    "measurements come before one that is nearly the fastest. docs/search.md.\n"
    "\n"
    "  --within X (0.05)       nearly: at most so much slower than the task's best\n"
    "  --round N (10)          programs a tuner measures before it chooses the next\n"
    "  --epsilon X (0)         chance of a program of a round to be drawn at random (Ansor: 0.05)\n"
    "  --seeds N (3)           splits and trainings, seeds 1 to N\n"
    "  --epochs N (20)         of the model; --tlp-epochs N (as --epochs) of the one on TLP's rows, 0: leave it out\n"
    "  --per-task N            seeded sample of N distinct programs of each training task (all)\n"
    "  --test-per-task N       at most N distinct valid programs of each test task (400)\n"
    "  --scores NAME=FILE.npy  another order: scores of the test programs in the order of the split, higher = faster;\n"
    "                          {seed} in FILE stands for the seed\n"
    "  --models DIR            keep trained weights in DIR, read those that are there\n"
    "  --out DIR               write search.json, search.md and search.svg\n"
    "  --threads N  --json     JSON instead of the table on standard output\n"
    "  --quiet                 no progress\n";

enum {
    O_LOGS = 1,
    O_TEST,
    O_WITHIN,
    O_ROUND,
    O_EPSILON,
    O_SEEDS,
    O_EPOCHS,
    O_TLP_EPOCHS,
    O_PER_TASK,
    O_TEST_PER_TASK,
    O_SCORES,
    O_MODELS,
    O_OUT,
    O_THREADS,
    O_JSON,
    O_QUIET,
    O_HELP
};
static const struct option options[] = {{"logs", required_argument, 0, O_LOGS},
                                        {"test", required_argument, 0, O_TEST},
                                        {"within", required_argument, 0, O_WITHIN},
                                        {"round", required_argument, 0, O_ROUND},
                                        {"epsilon", required_argument, 0, O_EPSILON},
                                        {"seeds", required_argument, 0, O_SEEDS},
                                        {"epochs", required_argument, 0, O_EPOCHS},
                                        {"tlp-epochs", required_argument, 0, O_TLP_EPOCHS},
                                        {"per-task", required_argument, 0, O_PER_TASK},
                                        {"test-per-task", required_argument, 0, O_TEST_PER_TASK},
                                        {"scores", required_argument, 0, O_SCORES},
                                        {"models", required_argument, 0, O_MODELS},
                                        {"out", required_argument, 0, O_OUT},
                                        {"threads", required_argument, 0, O_THREADS},
                                        {"json", no_argument, 0, O_JSON},
                                        {"quiet", no_argument, 0, O_QUIET},
                                        {"help", no_argument, 0, O_HELP},
                                        {0, 0, 0, 0}};

static int progress(void *arg, const struct tm_progress *p)
{
    int *last = arg;
    if (p->epoch != *last)
        fprintf(stderr, "  epoch %2d/%d  loss %.4f  valid pairwise %.4f\n", p->epoch, p->epochs, p->loss,
                p->valid_pairwise);
    *last = p->epoch;
    return 0;
}

static bool number(const char *opt, const char *text, double lo, double hi, double *out)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (errno || end == text || *end || !(v >= lo && v <= hi)) {
        fprintf(stderr, "lab search: --%s %s: a number from %g to %g is accepted\n", opt, text, lo, hi);
        return false;
    }
    *out = v;
    return true;
}

/* NAME=FILE, cut in place. */
static bool peer(struct tl_search_opts *o, char *text)
{
    char *file = strchr(text, '=');
    if (o->n_peers == TL_SEARCH_PEERS || file == NULL || file == text) {
        fprintf(stderr, "lab search: --scores %s: NAME=FILE is accepted, %d times\n", text, TL_SEARCH_PEERS);
        return false;
    }
    *file = '\0';
    o->peer[o->n_peers].name = text;
    o->peer[o->n_peers++].path = file + 1;
    return true;
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

/* Best so far against measurements, as measured. */
static int draw(const struct tl_search_report *r, const char *dir, struct tp_err *e)
{
    static double x[TL_SEARCH_CURVE];
    const struct tl_svg_labels labels = {.title = "Best so far on unseen tasks",
                                         .x = "measurements",
                                         .y = "task's best / best so far, mean",
                                         .log_x = true,
                                         .mark = NAN};
    struct tl_svg_series series[TL_SVG_SERIES];
    double(*y)[TL_SEARCH_CURVE] = malloc(TL_SVG_SERIES * sizeof *y);
    uint32_t n = r->n_rows < TL_SVG_SERIES ? r->n_rows : TL_SVG_SERIES;
    char *path = NULL;
    int rc = y && asprintf(&path, "%s/search.svg", dir) > 0 ? 0 : tp_fail(e, TP_E_NO_MEMORY, "no memory to draw");
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        const struct tl_search_tally *t = &r->row[i].tally[TL_SEARCH_AS_MEASURED];
        for (int m = 0; m < TL_SEARCH_CURVE; m++) {
            x[m] = m + 1;
            y[i][m] = t->curve[m] / t->weight;
        }
        series[i] = (struct tl_svg_series){.name = r->row[i].name, .x = x, .y = y[i], .n = TL_SEARCH_CURVE};
    }
    if (rc == 0)
        rc = tl_svg_lines(path, &labels, series, n, e);
    free(path);
    free(y);
    return rc;
}

static int publish(const struct tl_search_report *r, const char *dir, bool json)
{
    struct tp_buf j = {0}, m = {0};
    struct tp_err e = {0};
    int rc = tl_search_json(r, &j) || tl_search_markdown(r, &m) ? -1 : 0;
    if (rc)
        fputs("lab: no memory for the report\n", stderr);
    if (rc == 0 && dir) {
        mkdir(dir, 0777); /* if it cannot be made, writing says so */
        rc = write_file(dir, "search.json", &j) || write_file(dir, "search.md", &m) ? -1 : 0;
        if (rc == 0 && (rc = draw(r, dir, &e)))
            fprintf(stderr, "lab: %s\n", e.detail);
    }
    if (rc == 0)
        fwrite(json ? j.p : m.p, 1, json ? j.n : m.n, stdout);
    tp_buf_free(&j);
    tp_buf_free(&m);
    return rc;
}

int tl_search_main(int argc, char **argv)
{
    struct tl_search_opts o;
    tl_search_defaults(&o);
    o.threads = tl_cores();
    o.tlp_epochs = -1;
    const char *test = NULL, *out = NULL;
    bool json = false;
    int opt, rc = 2, last_epoch = 0;
    double v;
    char **keys = NULL;
    size_t n_keys = 0;
    struct tp_err e = {0};
    struct tl_search_report r = {0};
    struct tl_corpus *c = tl_corpus_new();
    if (c == NULL)
        return 1;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case O_LOGS:
            if (tl_corpus_read(c, optarg, &e))
                goto fail;
            break;
        case O_TEST:
            test = optarg;
            break;
        case O_SCORES:
            if (!peer(&o, optarg))
                goto out;
            break;
        case O_MODELS:
            o.models = optarg;
            mkdir(optarg, 0777); /* as with --out: if it cannot be made, writing says so */
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
            N(O_WITHIN, "within", 0, 100, o.within)
            N(O_ROUND, "round", 1, 100000, o.round)
            N(O_EPSILON, "epsilon", 0, 1, o.epsilon)
            N(O_SEEDS, "seeds", 1, 1000, o.seeds)
            N(O_EPOCHS, "epochs", 1, 10000, o.epochs)
            N(O_TLP_EPOCHS, "tlp-epochs", 0, 10000, o.tlp_epochs)
            N(O_PER_TASK, "per-task", 1, 1e9, o.per_task)
            N(O_TEST_PER_TASK, "test-per-task", 2, 1e9, o.test_per_task)
            N(O_THREADS, "threads", 1, 256, o.threads)
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
    if (o.tlp_epochs < 0)
        o.tlp_epochs = o.epochs;
    if (!o.quiet) {
        o.progress = progress;
        o.progress_arg = &last_epoch;
    }
    if (tl_search_run(c, keys, n_keys, &o, &r, &e))
        goto fail;
    rc = publish(&r, out, json) ? 1 : 0;
    goto out;
fail:
    fprintf(stderr, "lab: %s\n", e.detail);
    rc = 1;
out:
    tl_search_report_free(&r);
    tl_keys_free(keys, n_keys);
    tl_corpus_free(c);
    return rc;
}
