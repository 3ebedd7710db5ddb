/* `lab search`: options in, replays, a table, JSON and a drawing out. */
#include "lab/cli.h"
#include "lab/lab.h"
#include "lab/search_run.h"
#include "lab/svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* NAME=FILE */
static int peer(void *to, char *text)
{
    struct tl_search_opts *o = to;
    char *file = strchr(text, '=');
    if (o->n_peers == TL_SEARCH_PEERS || file == NULL || file == text) {
        fprintf(stderr, "lab search: --scores %s: NAME=FILE is accepted, %d times\n", text, TL_SEARCH_PEERS);
        return 2;
    }
    *file = '\0';
    o->peer[o->n_peers].name = text;
    o->peer[o->n_peers++].path = file + 1;
    return TL_GO_ON;
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

static int publish(const struct tl_search_report *r, const char *dir, bool json, struct tp_err *e)
{
    struct tp_buf j = {0}, m = {0};
    int rc =
        tl_search_json(r, &j) || tl_search_markdown(r, &m) ? tp_fail(e, TP_E_NO_MEMORY, "no memory for the report") : 0;
    if (rc == 0 && dir)
        rc = draw(r, dir, e);
    if (rc == 0)
        rc = tl_publish(dir, "search", &j, &m, json, e);
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
    const char *out = NULL;
    int last_epoch = 0;
    struct tp_err e = {0};
    struct tl_search_report r = {0};
    struct tl_cli cli = {.command = "search", .usage = usage};
    const struct tl_option options[] = {
        {.name = "scores", .kind = TL_CALL, .to = &o, .call = peer},
        {.name = "models", .kind = TL_TEXT, .to = &o.models},
        {.name = "out", .kind = TL_TEXT, .to = &out},
        {.name = "quiet", .kind = TL_FLAG, .to = &o.quiet},
        TL_NUMBER("within", &o.within, 0, 100),
        TL_NUMBER("round", &o.round, 1, 100000),
        TL_NUMBER("epsilon", &o.epsilon, 0, 1),
        TL_NUMBER("seeds", &o.seeds, 1, 1000),
        TL_NUMBER("epochs", &o.epochs, 1, 10000),
        TL_NUMBER("tlp-epochs", &o.tlp_epochs, 0, 10000),
        TL_NUMBER("per-task", &o.per_task, 1, 1e9),
        TL_NUMBER("test-per-task", &o.test_per_task, 2, 1e9),
        TL_NUMBER("threads", &o.threads, 1, 256),
    };
    int rc = tl_cli_read(&cli, argc, argv, options, sizeof options / sizeof *options);
    if (rc != TL_GO_ON)
        goto out;
    if (o.tlp_epochs < 0)
        o.tlp_epochs = o.epochs;
    if (!o.quiet) {
        o.progress = tl_progress_lines;
        o.progress_arg = &last_epoch;
    }
    rc = (o.models && tl_folder(o.models, &e)) || (out && tl_folder(out, &e)) ||
         tl_search_run(cli.corpus, cli.keys, cli.n_keys, &o, &r, &e) || publish(&r, out, cli.json, &e);
    if (rc)
        fprintf(stderr, "lab: %s\n", e.detail);
out:
    tl_search_report_free(&r);
    tl_cli_free(&cli);
    return rc;
}
