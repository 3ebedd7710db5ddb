/* `lab rdu`: options in, cells, a table, JSON and plots out. */
#include "lab/cli.h"
#include "lab/lab.h"
#include "lab/rdu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Ascending percents. */
static int budgets(void *to, char *text)
{
    struct tl_rdu_opts *o = to;
    char *save = NULL;
    double v;
    o->n_budgets = 0;
    for (char *p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        if (!tl_cli_number("rdu", "budgets", p, 0.001, 100, &v))
            return 2;
        if (o->n_budgets == TL_RDU_BUDGETS || (o->n_budgets && v / 100 <= o->budget[o->n_budgets - 1])) {
            fprintf(stderr, "lab rdu: --budgets: at most %d, ascending\n", TL_RDU_BUDGETS);
            return 2;
        }
        o->budget[o->n_budgets++] = v / 100;
    }
    return o->n_budgets > 0 ? TL_GO_ON : 2;
}

static int methods(void *to, char *text)
{
    struct tl_rdu_opts *o = to;
    struct tp_err e;
    char *save = NULL;
    o->n_methods = 0;
    for (char *p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        if (o->n_methods == TL_RDU_METHODS) {
            fprintf(stderr, "lab rdu: --methods: at most %d\n", TL_RDU_METHODS);
            return 2;
        }
        if (tl_rdu_method_parse(p, &o->method[o->n_methods++], &e)) {
            fprintf(stderr, "lab rdu: %s\n", e.detail);
            return 2;
        }
    }
    return o->n_methods > 0 ? TL_GO_ON : 2;
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

static int publish(const struct tl_rdu *r, const char *dir, bool json, struct tp_err *e)
{
    struct tp_buf j = {0}, m = {0};
    int rc = tl_rdu_json(r, &j) || tl_rdu_markdown(r, &m) ? tp_fail(e, TP_E_NO_MEMORY, "no memory for the report") : 0;
    if (rc == 0 && dir)
        rc = tl_rdu_draw(r, dir, e);
    if (rc == 0)
        rc = tl_publish(dir, "rdu", &j, &m, json, e);
    tp_buf_free(&j);
    tp_buf_free(&m);
    return rc;
}

int tl_rdu_main(int argc, char **argv)
{
    struct tl_rdu_opts o;
    defaults(&o);
    char *cells = NULL;
    const char *out = NULL;
    struct tp_err e = {0};
    struct tl_cli cli = {.command = "rdu", .usage = usage};
    const struct tl_option options[] = {
        {.name = "budgets", .kind = TL_CALL, .to = &o, .call = budgets},
        {.name = "methods", .kind = TL_CALL, .to = &o, .call = methods},
        {.name = "out", .kind = TL_TEXT, .to = &out},
        {.name = "quiet", .kind = TL_FLAG, .to = &o.quiet},
        TL_NUMBER("per-task", &o.split.per_task, 2, 1e9),
        TL_NUMBER("test-per-task", &o.split.test_per_task, 2, 1e9),
        TL_NUMBER("seeds", &o.seeds, 1, TL_RDU_SEEDS),
        TL_NUMBER("steps", &o.steps, 1, 1e9),
        TL_NUMBER("epochs", &o.train.epochs, 1, 10000),
        TL_NUMBER("tune", &o.tune, 0.01, 0.9),
        TL_NUMBER("threads", &o.train.threads, 1, 256),
    };
    struct tl_rdu *r = calloc(1, sizeof *r);
    int rc = r ? tl_cli_read(&cli, argc, argv, options, sizeof options / sizeof *options) : 1;
    if (rc != TL_GO_ON)
        goto out;
    rc = 1;
    if (out && asprintf(&cells, "%s/cells", out) < 0) {
        cells = NULL;
        goto out;
    }
    o.cache = cells;
    rc = (cells && tl_folder(cells, &e)) || tl_rdu_run(cli.corpus, cli.keys, cli.n_keys, &o, r, &e) ||
         publish(r, out, cli.json, &e);
    if (rc)
        fprintf(stderr, "lab: %s\n", e.detail);
out:
    if (r)
        tl_rdu_free(r);
    free(r);
    free(cells);
    tl_cli_free(&cli);
    return rc;
}
