/* `lab eval`: options in, one experiment, a table or JSON out. */
#include "lab/cli.h"
#include "lab/eval.h"
#include "lab/lab.h"
#include "model/infer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: lab eval --logs DIR|FILE... --test KEYFILE | --known [OPTION...]\n"
    "\n"
    "Trains on the tasks that are not in KEYFILE (workload keys, one a line) and scores the ones that are.\n"
    "\n"
    "  --known                 instead: train on nine tenths of the programs of every task, score the others\n"
    "\n"
    "  --features tclf-1|tlp   rows of the model (tclf-1)\n"
    "  --per-task N            seeded sample of N distinct programs of each training task (all)\n"
    "  --test-per-task N       at most N distinct valid programs of each test task (400)\n"
    "  --epochs N (40)  --threads N  --batch-tasks N  --batch-programs N  --lr X\n"
    "  --seed N (1)            of split and training; --seeds N: means over as many of them, from --seed on (1)\n"
    "  --labels min|mean       what the model learns from: minimum or mean of the repeats (min)\n"
    "  --rank pairwise|lambda  ranking loss (pairwise)\n"
    "  --valid X               share of the training tasks that choose the epoch; 0: train on all, keep the last "
    "(0.1)\n"
    "  --json                  one JSON object on standard output\n"
    "  --quiet                 no progress\n";

static int progress(void *arg, const struct tm_progress *p)
{
    int *last = arg;
    if (isatty(2))
        fprintf(stderr, "\r  epoch %2d/%d  %3.0f %%  loss %.4f  valid pairwise %.4f ", p->epoch, p->epochs,
                100 * p->fraction, p->loss, p->valid_pairwise);
    else
        return tl_progress_lines(arg, p);
    *last = p->epoch;
    return 0;
}

/* What is told of an experiment: X(key, value of r); of several seeds their means. */
#define FIGURES(X)                                                                                                     \
    X(tasks, r->score.by_min.tasks)                                                                                    \
    X(tasks_skipped, r->tasks_skipped)                                                                                 \
    X(top1_mean, r->score.by_min.top1_mean)                                                                            \
    X(top5_mean, r->score.by_min.top5_mean)                                                                            \
    X(top1_pooled, r->score.by_min.top1_pooled)                                                                        \
    X(top5_pooled, r->score.by_min.top5_pooled)                                                                        \
    X(pairwise_accuracy, r->score.by_min.pairwise)                                                                     \
    X(pairwise_accuracy_10pct, r->score.by_min.pairwise_10pct)                                                         \
    X(random_top1_mean, r->score.by_min.random_top1_mean)                                                              \
    X(random_top5_mean, r->score.by_min.random_top5_mean)                                                              \
    X(best_top1_mean, 1)                                                                                               \
    X(top1_mean_lo, r->score.top1_mean.lo)                                                                             \
    X(top1_mean_hi, r->score.top1_mean.hi)                                                                             \
    X(top5_mean_lo, r->score.top5_mean.lo)                                                                             \
    X(top5_mean_hi, r->score.top5_mean.hi)                                                                             \
    X(pairwise_accuracy_lo, r->score.pairwise_mean.lo)                                                                 \
    X(pairwise_accuracy_hi, r->score.pairwise_mean.hi)                                                                 \
    X(spearman, r->score.by_min.spearman)                                                                              \
    X(latency_mape, r->score.by_min.latency_mape)                                                                      \
    X(latency_median_ln_error, r->score.by_min.latency_median_ln_error)                                                \
    X(latency_within_1_25, r->score.unknown.within_1_25)                                                               \
    X(latency_within_1_5, r->score.unknown.within_1_5)                                                                 \
    X(latency_within_2, r->score.unknown.within_2)                                                                     \
    X(latency_within_one_std, r->score.unknown.within_one_std)                                                         \
    X(latency_within_two_std, r->score.unknown.within_two_std)                                                         \
    X(latency_median_ln_error_5, r->score.known.median_ln_error)                                                       \
    X(latency_within_1_25_5, r->score.known.within_1_25)                                                               \
    X(latency_within_1_5_5, r->score.known.within_1_5)                                                                 \
    X(latency_within_2_5, r->score.known.within_2)                                                                     \
    X(latency_within_one_std_5, r->score.known.within_one_std)                                                         \
    X(latency_within_two_std_5, r->score.known.within_two_std)                                                         \
    X(by_mean_top1_mean, r->score.by_mean.top1_mean)                                                                   \
    X(by_mean_top5_mean, r->score.by_mean.top5_mean)                                                                   \
    X(by_mean_top1_pooled, r->score.by_mean.top1_pooled)                                                               \
    X(by_mean_top5_pooled, r->score.by_mean.top5_pooled)                                                               \
    X(by_mean_pairwise_accuracy, r->score.by_mean.pairwise)                                                            \
    X(ceiling_tasks, r->ceiling.tasks)                                                                                 \
    X(ceiling_pairwise, r->ceiling.pairwise)                                                                           \
    X(ceiling_pairwise_10pct, r->ceiling.pairwise_10pct)                                                               \
    X(ceiling_perfect, r->ceiling.perfect)                                                                             \
    X(ceiling_top1_mean, r->ceiling.top1_mean)                                                                         \
    X(ceiling_top5_mean, r->ceiling.top5_mean)                                                                         \
    X(parameters, (double)r->parameters)                                                                               \
    X(train_tasks, r->train_tasks)                                                                                     \
    X(valid_tasks, r->valid_tasks)                                                                                     \
    X(train_programs, r->train_programs)                                                                               \
    X(test_programs, r->test_programs)                                                                                 \
    X(train_seconds, r->train_seconds)                                                                                 \
    X(train_cpu_seconds, r->train_cpu_seconds)                                                                         \
    X(predict_per_second, r->predict_per_second)

struct figures {
#define X(key, value) double key;
    FIGURES(X)
#undef X
};

static void add(struct figures *f, const struct tl_eval_result *r, uint32_t seeds)
{
#define X(key, value) f->key += (value) / (double)seeds;
    FIGURES(X)
#undef X
}

static void print_json(const struct figures *f, const char *features, const struct tl_eval_opts *o, uint32_t seeds,
                       const struct tl_corpus *c)
{
    struct tp_buf b = {0};
    tp_buf_printf(&b,
                  "{\"features\": \"%s\", \"epochs\": %d, \"seed\": %" PRIu64
                  ", \"seeds\": %u, \"records\": %zu, \"records_rejected\": %zu",
                  features, o->train.epochs, o->split.seed, seeds, c->records, c->rejected);
#define X(key, value)                                                                                                  \
    tp_buf_puts(&b, ", \"" #key "\": ");                                                                               \
    tp_buf_json_num(&b, f->key, 9);
    FIGURES(X)
#undef X
    tp_buf_puts(&b, "}\n");
    fwrite(b.p, 1, b.n, stdout);
    tp_buf_free(&b);
}

static void print_latency(const char *what, const double v[6])
{
    printf(
        "  latency %s: median |ln error| %.3f; %.0f %% within 1.25x, %.0f %% within 1.5x, %.0f %% within 2x; %.0f %% "
        "within one standard deviation, %.0f %% within two\n",
        what, v[0], 100 * v[1], 100 * v[2], 100 * v[3], 100 * v[4], 100 * v[5]);
}

static void print_table(const struct figures *f, const char *features, uint32_t seeds, bool by_record)
{
    printf("%.0f test tasks (%.0f skipped), %.0f programs; trained on %.0f programs of %.0f tasks in %.1f s; %.0f "
           "parameters, %s",
           f->tasks, f->tasks_skipped, f->test_programs, f->train_programs, f->train_tasks + f->valid_tasks,
           f->train_seconds, f->parameters, features);
    printf(seeds > 1 ? "; means of %u seeds\n" : "\n", seeds);
    printf("                         tcld   (95 %% interval)   random   best   by mean cost\n");
    printf("  top-1, mean           %6.4f  (%.3f to %.3f)   %6.4f  1.000   %6.4f\n", f->top1_mean, f->top1_mean_lo,
           f->top1_mean_hi, f->random_top1_mean, f->by_mean_top1_mean);
    printf("  top-5, mean           %6.4f  (%.3f to %.3f)   %6.4f  1.000   %6.4f\n", f->top5_mean, f->top5_mean_lo,
           f->top5_mean_hi, f->random_top5_mean, f->by_mean_top5_mean);
    printf("  top-1, pooled         %6.4f                               1.000   %6.4f\n", f->top1_pooled,
           f->by_mean_top1_pooled);
    printf("  top-5, pooled         %6.4f                               1.000   %6.4f\n", f->top5_pooled,
           f->by_mean_top5_pooled);
    printf("  pairwise accuracy     %6.4f  (%.3f to %.3f)   0.5000  1.000   %6.4f\n", f->pairwise_accuracy,
           f->pairwise_accuracy_lo, f->pairwise_accuracy_hi, f->by_mean_pairwise_accuracy);
    printf("  pairs > 10 %% apart    %6.4f\n", f->pairwise_accuracy_10pct);
    if (f->ceiling_tasks >= 1)
        printf(
            "  two measurements (%s) of programs of %.0f tasks agree in %.4f of pairs (%.4f of those > 10 %% apart), "
            "so a perfect order gets about %.4f; one picks by the other: top-1 %.4f, top-5 %.4f\n",
            by_record ? "records" : "halves of the repeats", f->ceiling_tasks, f->ceiling_pairwise,
            f->ceiling_pairwise_10pct, f->ceiling_perfect, f->ceiling_top1_mean, f->ceiling_top5_mean);
    print_latency("of new tasks",
                  (double[]){f->latency_median_ln_error, f->latency_within_1_25, f->latency_within_1_5,
                             f->latency_within_2, f->latency_within_one_std, f->latency_within_two_std});
    print_latency("of tasks with 5 measured",
                  (double[]){f->latency_median_ln_error_5, f->latency_within_1_25_5, f->latency_within_1_5_5,
                             f->latency_within_2_5, f->latency_within_one_std_5, f->latency_within_two_std_5});
    printf("  %.0f predictions/s (%s)\n", f->predict_per_second, tm_simd_name());
}

int tl_eval_main(int argc, char **argv)
{
    struct tl_eval_opts o;
    tl_eval_defaults(&o);
    o.train.threads = tl_cores();
    bool quiet = false, lambda = false;
    int last_epoch = 0;
    uint32_t seeds = 1;
    struct tp_err e = {0};
    struct tl_cli cli = {.command = "eval", .usage = usage};
    const struct tl_option options[] = {
        {.name = "known", .kind = TL_FLAG, .to = &cli.known},
        {.name = "features", .kind = TL_CHOICE, .to = &o.split.tlp, .first = "tclf-1", .second = "tlp"},
        {.name = "labels", .kind = TL_CHOICE, .to = &o.split.by_mean, .first = "min", .second = "mean"},
        {.name = "rank", .kind = TL_CHOICE, .to = &lambda, .first = "pairwise", .second = "lambda"},
        {.name = "quiet", .kind = TL_FLAG, .to = &quiet},
        TL_NUMBER("per-task", &o.split.per_task, 1, 1e9),
        TL_NUMBER("test-per-task", &o.split.test_per_task, 2, 1e9),
        TL_NUMBER("epochs", &o.train.epochs, 1, 10000),
        TL_NUMBER("seed", &o.split.seed, 0, 9007199254740992.0),
        TL_NUMBER("seeds", &seeds, 1, 1000),
        TL_NUMBER("threads", &o.train.threads, 1, 256),
        TL_NUMBER("batch-tasks", &o.train.tasks_per_batch, 1, 1024),
        TL_NUMBER("batch-programs", &o.train.programs_per_task, 2, 4096),
        TL_NUMBER("lr", &o.train.lr, 1e-8, 1),
        TL_NUMBER("valid", &o.split.valid_fraction, 0, 0.9),
    };
    int rc = tl_cli_read(&cli, argc, argv, options, sizeof options / sizeof *options);
    if (rc != TL_GO_ON)
        goto out;
    const struct tl_corpus *c = cli.corpus;
    o.split.holdout = cli.known ? TL_BY_PROGRAM : TL_BY_TASK;
    o.train.rank = lambda ? TM_RANK_LAMBDA : TM_RANK_PAIRWISE;
    if (c->rejected && !quiet)
        fprintf(stderr, "lab: %zu of %zu records not used; the first, line %ld: %s\n", c->rejected, c->lines,
                c->first_error.line, c->first_error.detail);
    if (!quiet) {
        o.progress = progress;
        o.progress_arg = &last_epoch;
    }
    struct figures f = {0};
    struct tl_eval_opts one = o;
    const char *name = NULL;
    bool by_record = false;
    for (uint32_t i = 0; i < seeds; i++, one.split.seed++) {
        struct tl_eval_result r;
        if (tl_eval_run(c, cli.keys, cli.n_keys, &one, &r, &e)) {
            fprintf(stderr, "lab: %s\n", e.detail);
            rc = 1;
            goto out;
        }
        add(&f, &r, seeds);
        name = r.features;
        by_record = r.ceiling.by_record;
        tl_eval_free(&r);
        if (!quiet && isatty(2))
            fputc('\n', stderr);
    }
    cli.json ? print_json(&f, name, &o, seeds, c) : print_table(&f, name, seeds, by_record);
    rc = 0;
out:
    tl_cli_free(&cli);
    return rc;
}
