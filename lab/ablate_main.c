/* `lab ablate`: options in; what is missing is trained; a table, JSON and a plot out. */
#include "lab/ablate.h"
#include "lab/cli.h"
#include "lab/lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

struct ablate {
    struct tl_cli cli;
    struct tl_eval_opts o;
    int seeds;
    const char *only, *out;
    bool kept, quiet;
    char settings[512];
    struct tl_outcome *run; /* [tl_n_variants][seeds] */
};

static bool wanted(const struct ablate *a, int variant)
{
    const struct tl_variant_info *v = &tl_variants[variant];
    return variant == 0 || a->only == NULL || tl_listed(a->only, v->group) || tl_listed(a->only, v->name);
}

/* Everything that a run depends on, but for variant, seed and code. */
static void describe(struct ablate *a)
{
    const struct tl_corpus *c = a->cli.corpus;
    uLong data = 0, keys = 0;
    for (uint32_t i = 0; i < c->n_programs; i++) {
        data = crc32(data, c->programs[i].hash, sizeof c->programs[i].hash);
        data = crc32(data, (const Bytef *)&c->programs[i].min_cost, sizeof c->programs[i].min_cost);
    }
    for (size_t i = 0; i < a->cli.n_keys; i++)
        keys = crc32(keys, (const Bytef *)a->cli.keys[i], (uInt)strlen(a->cli.keys[i]) + 1);
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
        if (split.d == NULL && (rc = tl_split_make(a->cli.corpus, a->cli.keys, a->cli.n_keys, &a->o.split, &split, e)))
            break;
        rc = tl_outcome_make(a->cli.corpus, &split, &a->o, v, r, e);
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

static int report(const struct ablate *a, struct tp_err *e)
{
    const struct tl_ablation all = {.settings = a->settings, .seeds = a->seeds, .run = a->run};
    struct tp_buf md = {0}, json = {0};
    char path[4096];
    int rc = 0;
    if (tl_ablation_markdown(&all, &md) || tl_ablation_json(&all, &json))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for the report");
    if (rc == 0)
        rc = tl_publish(a->out, "ablations", &json, &md, a->cli.json, e);
    if (rc == 0 && a->out) {
        snprintf(path, sizeof path, "%s/ablations.svg", a->out);
        rc = tl_ablation_plot(&all, path, e);
    }
    tp_buf_free(&md);
    tp_buf_free(&json);
    return rc;
}

static int list(void *to, char *text)
{
    (void)to, (void)text;
    for (int v = 0; v < tl_n_variants; v++)
        printf("%-10s %-26s %s\n", tl_variants[v].group, tl_variants[v].name, tl_variants[v].change);
    return 0;
}

static int run(struct ablate *a, struct tp_err *e)
{
    int rc = a->out ? tl_folder(a->out, e) : 0;
    describe(a);
    a->run = calloc((size_t)(tl_n_variants * a->seeds), sizeof *a->run);
    if (rc == 0 && a->run == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for the runs");
    for (int seed = 1; seed <= a->seeds && rc == 0; seed++)
        rc = run_seed(a, seed, e);
    return rc ? rc : report(a, e);
}

int tl_ablate_main(int argc, char **argv)
{
    struct ablate a = {.seeds = 3, .cli = {.command = "ablate", .usage = usage}};
    struct tp_err e = {0};
    tl_eval_defaults(&a.o);
    a.o.train.epochs = 15;
    a.o.train.threads = tl_cores();
    const struct tl_option options[] = {
        {.name = "list", .kind = TL_DO, .call = list},
        {.name = "only", .kind = TL_TEXT, .to = &a.only},
        {.name = "out", .kind = TL_TEXT, .to = &a.out},
        {.name = "kept", .kind = TL_FLAG, .to = &a.kept},
        {.name = "quiet", .kind = TL_FLAG, .to = &a.quiet},
        TL_NUMBER("seeds", &a.seeds, 1, 100),
        TL_NUMBER("per-task", &a.o.split.per_task, 1, 1e9),
        TL_NUMBER("test-per-task", &a.o.split.test_per_task, 2, 1e9),
        TL_NUMBER("epochs", &a.o.train.epochs, 1, 10000),
        TL_NUMBER("valid", &a.o.split.valid_fraction, 0, 0.9),
        TL_NUMBER("threads", &a.o.train.threads, 1, 256),
    };
    int rc = tl_cli_read(&a.cli, argc, argv, options, sizeof options / sizeof *options);
    if (rc == TL_GO_ON) {
        rc = run(&a, &e) ? 1 : 0;
        if (rc)
            fprintf(stderr, "lab: %s\n", e.detail);
    }
    for (int i = 0; a.run && i < tl_n_variants * a.seeds; i++)
        tl_outcome_free(&a.run[i]);
    free(a.run);
    tl_cli_free(&a.cli);
    return rc;
}
