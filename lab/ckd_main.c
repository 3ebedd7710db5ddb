/* `lab ckd`: options in, cells, tables, JSON and plots out. */
#include "lab/ckd.h"
#include "lab/cli.h"
#include "lab/lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: lab ckd --data DIR --out DIR [OPTION...]\n"
    "\n"
    "What a hardware gets from what others know, and what these lose by teaching it: docs/distillation.md.\n"
    "Logs are DIR/public/NAME or DIR/own/NAME, workload keys of the tests DIR/splits/NAME.test.txt.\n"
    "\n"
    "  --transfers T,T,...     SOURCE[+SOURCE...]>TARGET[>TARGET...]; default: a100-80>a100-40 and back, v100>k80 and\n"
    "                          back, v100+k80>mi50, mi50>v100, x86-24t>xeon-4t, x86-24t>host-avx512,\n"
    "                          host-avx512>host-avx2>host-sse42, v100>host-avx2 (to be refused)\n"
    "  --budgets P,P,... (2,5,10,20)  percent of the target's programs; all of them from scratch is always run\n"
    "  --methods M,M,...       zero-shot,scratch,cold start,fine-tune,multi-task,ckd,ckd without EWC; or of the\n"
    "                          ablation\n"
    "  --ablate                the ablation: plain, random; plain, RDU; scratch; plain, CKD; all\n"
    "  --seeds N (3)           1 to N\n"
    "  --per-task N (100)      seeded sample of N distinct programs of each training task\n"
    "  --tune X                score on so large a share of the training tasks instead; the test tasks are not used\n"
    "  --folds N               instead test every task, with models that were made without it: N runs a seed, each\n"
    "                          without another Nth of all tasks; with --tune every training task\n"
    "  --out DIR               write ckd.json, ckd.md, plots, and every finished cell, which is then not made again\n"
    "  --set KEY=VALUE,...     cl.lr, cl.epochs, cl.steps, cl.beta, cl.worth, cl.rate, cl.period, cl.list, cl.last,\n"
    "                          the same of kd, kd.lambda, and of source, scratch, fine\n"
    "  --threads N  --json     JSON instead of the table on standard output\n"
    "  --quiet                 no progress\n";

static int transfers(void *to, char *text)
{
    struct tl_ckd_opts *o = to;
    struct tp_err e;
    char *save = NULL;
    o->n_transfers = 0;
    for (char *p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        if (o->n_transfers == TL_CKD_TRANSFERS) {
            fprintf(stderr, "lab ckd: --transfers: at most %d\n", TL_CKD_TRANSFERS);
            return 2;
        }
        if (tl_ckd_transfer_parse(p, &o->transfer[o->n_transfers++], &e)) {
            fprintf(stderr, "lab ckd: %s\n", e.detail);
            return 2;
        }
    }
    return o->n_transfers ? TL_GO_ON : 2;
}

static int budgets(void *to, char *text)
{
    struct tl_ckd_opts *o = to;
    char *save = NULL;
    double v;
    o->n_budgets = 0;
    for (char *p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        if (!tl_cli_number("ckd", "budgets", p, 0.001, 99.9, &v))
            return 2;
        if (o->n_budgets == TL_CKD_BUDGETS || (o->n_budgets && v / 100 <= o->budget[o->n_budgets - 1])) {
            fprintf(stderr, "lab ckd: --budgets: at most %d, ascending\n", TL_CKD_BUDGETS);
            return 2;
        }
        o->budget[o->n_budgets++] = v / 100;
    }
    return o->n_budgets > 0 ? TL_GO_ON : 2;
}

static bool set_field(struct tk_learn_opts *p, const char *field, double v)
{
    const struct {
        const char *name;
        double *to;
    } real[] = {
        {"lr", &p->train.lr},           {"beta", &p->beta},       {"lambda", &p->lambda},         {"worth", &p->worth},
        {"average", &p->train.average}, {"clip", &p->train.clip}, {"list", &p->train.list_weight}};
    const struct {
        const char *name;
        int *to;
    } whole[] = {{"epochs", &p->train.epochs},
                 {"period", &p->train.period},
                 {"tasks", &p->train.tasks_per_batch},
                 {"programs", &p->train.programs_per_task}};
    for (size_t i = 0; i < sizeof real / sizeof *real; i++)
        if (strcmp(field, real[i].name) == 0)
            return *real[i].to = v, true;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (strcmp(field, whole[i].name) == 0 && v >= 1 && v <= 1e6)
            return *whole[i].to = (int)v, true;
    if (strcmp(field, "steps") == 0 && v >= 0 && v <= 1e9)
        return p->steps = (uint32_t)v, true;
    if (strcmp(field, "last") == 0 && (v == 0 || v == 1))
        return p->train.keep_last = v != 0, true;
    if (strcmp(field, "rate") == 0 && v >= 0 && v <= TM_RATE_STEPS)
        return p->train.rate = (enum tm_rate)v, true;
    return false;
}

static int set(void *to, char *text)
{
    struct tl_ckd_opts *o = to;
    const struct {
        const char *name;
        struct tk_learn_opts *phase;
    } phases[] = {{"source", &o->source}, {"scratch", &o->scratch}, {"fine", &o->fine}, {"cl", &o->cl}, {"kd", &o->kd}};
    char *save = NULL;
    for (char *p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        char *dot = strchr(p, '.'), *is = strchr(p, '='), *end = NULL;
        bool done = false;
        const double v = is ? strtod(is + 1, &end) : 0;
        for (size_t i = 0; dot && is && dot < is && end != is + 1 && !*end && i < sizeof phases / sizeof *phases; i++) {
            if (strncmp(p, phases[i].name, (size_t)(dot - p)) != 0 || phases[i].name[dot - p])
                continue;
            *is = '\0';
            done = set_field(phases[i].phase, dot + 1, v);
        }
        if (!done) {
            fprintf(stderr, "lab ckd: --set %s: PHASE.FIELD=NUMBER is accepted, see --help\n", p);
            return 2;
        }
    }
    return TL_GO_ON;
}

static int ablate(void *to, char *text)
{
    (void)text;
    ((struct tl_ckd_opts *)to)->methods = "plain, random,plain, RDU,scratch,plain, CKD,all";
    return TL_GO_ON;
}

static void defaults(struct tl_ckd_opts *o)
{
    char percents[] = "2,5,10,20";
    char all[] = "a100-80>a100-40,a100-40>a100-80,v100>k80,k80>v100,v100+k80>mi50,mi50>v100,x86-24t>xeon-4t,"
                 "x86-24t>host-avx512,host-avx512>host-avx2>host-sse42,v100>host-avx2";
    *o = (struct tl_ckd_opts){.seeds = 3, .per_task = 100, .threads = tl_cores()};
    tk_scratch_defaults(&o->source);
    tk_scratch_defaults(&o->scratch);
    tk_scratch_defaults(&o->fine);
    tk_cl_defaults(&o->cl);
    tk_kd_defaults(&o->kd);
    tk_meta_defaults(&o->meta);
    o->fine.steps = 400;
    budgets(o, percents);
    transfers(o, all);
}

static int publish(const struct tl_ckd_results *r, const char *dir, bool json, struct tp_err *e)
{
    struct tp_buf j = {0}, m = {0};
    int rc = tl_ckd_json(r, &j) || tl_ckd_markdown(r, &m) ? tp_fail(e, TP_E_NO_MEMORY, "no memory for the report") : 0;
    if (rc == 0)
        rc = tl_ckd_draw(r, dir, e);
    if (rc == 0)
        rc = tl_publish(dir, "ckd", &j, &m, json, e);
    tp_buf_free(&j);
    tp_buf_free(&m);
    return rc;
}

int tl_ckd_main(int argc, char **argv)
{
    struct tl_ckd_opts o;
    char *cells = NULL;
    const char *out = NULL;
    struct tp_err e = {0};
    struct tl_ckd_results r = {0};
    struct tl_cli cli = {.command = "ckd", .usage = usage, .own_logs = true};
    const struct tl_option options[] = {
        {.name = "data", .kind = TL_TEXT, .to = &o.data},
        {.name = "transfers", .kind = TL_CALL, .to = &o, .call = transfers},
        {.name = "budgets", .kind = TL_CALL, .to = &o, .call = budgets},
        {.name = "methods", .kind = TL_TEXT, .to = &o.methods},
        {.name = "ablate", .kind = TL_DO, .to = &o, .call = ablate},
        {.name = "set", .kind = TL_CALL, .to = &o, .call = set},
        {.name = "out", .kind = TL_TEXT, .to = &out},
        {.name = "quiet", .kind = TL_FLAG, .to = &o.quiet},
        TL_NUMBER("seeds", &o.seeds, 1, TL_CKD_SEEDS),
        TL_NUMBER("per-task", &o.per_task, 2, 1e9),
        TL_NUMBER("tune", &o.tune, 0.01, 0.9),
        TL_NUMBER("folds", &o.folds, 2, TL_CKD_FOLDS),
        TL_NUMBER("threads", &o.threads, 1, 256),
    };
    defaults(&o);
    int rc = tl_cli_read(&cli, argc, argv, options, sizeof options / sizeof *options);
    if (rc != TL_GO_ON)
        goto out;
    if (!o.data || !out) {
        fputs(usage, stderr);
        rc = 2;
        goto out;
    }
    rc = 1;
    if (asprintf(&cells, "%s/cells", out) < 0) {
        cells = NULL;
        goto out;
    }
    o.cache = cells;
    rc = tl_folder(cells, &e) || tl_ckd_run(&o, &r, &e) || publish(&r, out, cli.json, &e);
    if (rc)
        fprintf(stderr, "lab: %s\n", e.detail);
out:
    tl_ckd_results_free(&r);
    free(cells);
    tl_cli_free(&cli);
    return rc;
}
