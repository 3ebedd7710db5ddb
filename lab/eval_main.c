/* `lab eval`: options in, one experiment, a table or JSON out. */
#include "lab/cli.h"
#include "lab/eval.h"
#include "lab/lab.h"
#include "model/infer.h"

#include <math.h>
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
    "  --epochs N (40)  --seed N  --threads N  --batch-tasks N  --batch-programs N  --lr X\n"
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

static void print_json(const struct tl_eval_result *r, const struct tl_eval_opts *o, const struct tl_corpus *c)
{
    const struct tm_metrics *m = &r->score.by_min, *a = &r->score.by_mean;
    struct tp_buf b = {0};
    tp_buf_printf(&b, "{\"features\": \"%s\", \"tasks\": %u, \"tasks_skipped\": %u", r->features, m->tasks,
                  r->tasks_skipped);
    const struct {
        const char *key;
        double v;
    } num[] = {{"top1_mean", m->top1_mean},
               {"top5_mean", m->top5_mean},
               {"top1_pooled", m->top1_pooled},
               {"top5_pooled", m->top5_pooled},
               {"pairwise_accuracy", m->pairwise},
               {"pairwise_accuracy_10pct", m->pairwise_10pct},
               {"random_top1_mean", m->random_top1_mean},
               {"random_top5_mean", m->random_top5_mean},
               {"best_top1_mean", 1.0},
               {"top1_mean_lo", r->score.top1_mean.lo},
               {"top1_mean_hi", r->score.top1_mean.hi},
               {"top5_mean_lo", r->score.top5_mean.lo},
               {"top5_mean_hi", r->score.top5_mean.hi},
               {"pairwise_accuracy_lo", r->score.pairwise_mean.lo},
               {"pairwise_accuracy_hi", r->score.pairwise_mean.hi},
               {"spearman", m->spearman},
               {"latency_mape", m->latency_mape},
               {"latency_median_ln_error", m->latency_median_ln_error},
               {"latency_within_1_25", r->score.unknown.within_1_25},
               {"latency_within_1_5", r->score.unknown.within_1_5},
               {"latency_within_2", r->score.unknown.within_2},
               {"latency_within_one_std", r->score.unknown.within_one_std},
               {"latency_within_two_std", r->score.unknown.within_two_std},
               {"latency_median_ln_error_5", r->score.known.median_ln_error},
               {"latency_within_1_25_5", r->score.known.within_1_25},
               {"latency_within_1_5_5", r->score.known.within_1_5},
               {"latency_within_2_5", r->score.known.within_2},
               {"latency_within_one_std_5", r->score.known.within_one_std},
               {"latency_within_two_std_5", r->score.known.within_two_std},
               {"by_mean_top1_mean", a->top1_mean},
               {"by_mean_top5_mean", a->top5_mean},
               {"by_mean_pairwise_accuracy", a->pairwise},
               {"ceiling_tasks", r->ceiling.tasks},
               {"ceiling_pairwise", r->ceiling.pairwise},
               {"ceiling_perfect", r->ceiling.perfect},
               {"ceiling_top1_mean", r->ceiling.top1_mean},
               {"ceiling_top5_mean", r->ceiling.top5_mean},
               {"parameters", (double)r->parameters},
               {"train_tasks", r->train_tasks},
               {"valid_tasks", r->valid_tasks},
               {"train_programs", r->train_programs},
               {"test_programs", r->test_programs},
               {"epochs", o->train.epochs},
               {"seed", (double)o->split.seed},
               {"records", (double)c->records},
               {"records_rejected", (double)c->rejected},
               {"train_seconds", r->train_seconds},
               {"predict_per_second", r->predict_per_second}};
    for (size_t i = 0; i < sizeof num / sizeof *num; i++) {
        tp_buf_printf(&b, ", \"%s\": ", num[i].key);
        tp_buf_json_num(&b, num[i].v, 9);
    }
    tp_buf_puts(&b, "}\n");
    fwrite(b.p, 1, b.n, stdout);
    tp_buf_free(&b);
}

static void print_latency(const char *what, const struct tl_latency *l)
{
    printf(
        "  latency %s: median |ln error| %.3f; %.0f %% within 1.25x, %.0f %% within 1.5x, %.0f %% within 2x; %.0f %% "
        "within one standard deviation, %.0f %% within two\n",
        what, l->median_ln_error, 100 * l->within_1_25, 100 * l->within_1_5, 100 * l->within_2, 100 * l->within_one_std,
        100 * l->within_two_std);
}

static void print_table(const struct tl_eval_result *r)
{
    const struct tm_metrics *m = &r->score.by_min, *a = &r->score.by_mean;
    printf(
        "%u test tasks (%u skipped), %u programs; trained on %u programs of %u tasks in %.1f s; %zu parameters, %s\n",
        m->tasks, r->tasks_skipped, r->test_programs, r->train_programs, r->train_tasks + r->valid_tasks,
        r->train_seconds, r->parameters, r->features);
    printf("                         tcld   (95 %% interval)   random   best   by mean cost\n");
    printf("  top-1, mean           %6.4f  (%.3f to %.3f)   %6.4f  1.000   %6.4f\n", m->top1_mean,
           r->score.top1_mean.lo, r->score.top1_mean.hi, m->random_top1_mean, a->top1_mean);
    printf("  top-5, mean           %6.4f  (%.3f to %.3f)   %6.4f  1.000   %6.4f\n", m->top5_mean,
           r->score.top5_mean.lo, r->score.top5_mean.hi, m->random_top5_mean, a->top5_mean);
    printf("  top-1, pooled         %6.4f                               1.000   %6.4f\n", m->top1_pooled,
           a->top1_pooled);
    printf("  top-5, pooled         %6.4f                               1.000   %6.4f\n", m->top5_pooled,
           a->top5_pooled);
    printf("  pairwise accuracy     %6.4f  (%.3f to %.3f)   0.5000  1.000   %6.4f\n", m->pairwise,
           r->score.pairwise_mean.lo, r->score.pairwise_mean.hi, a->pairwise);
    printf("  pairs > 10 %% apart    %6.4f\n", m->pairwise_10pct);
    if (r->ceiling.tasks)
        printf(
            "  two measurements (%s) of %u programs of %u tasks agree in %.4f of pairs (%.4f of those > 10 %% apart), "
            "so a perfect order gets about %.4f; one picks by the other: top-1 %.4f, top-5 %.4f\n",
            r->ceiling.by_record ? "records" : "halves of the repeats", r->ceiling.programs, r->ceiling.tasks,
            r->ceiling.pairwise, r->ceiling.pairwise_10pct, r->ceiling.perfect, r->ceiling.top1_mean,
            r->ceiling.top5_mean);
    print_latency("of new tasks", &r->score.unknown);
    print_latency("of tasks with 5 measured", &r->score.known);
    printf("  %.0f predictions/s (%s)\n", r->predict_per_second, tm_simd_name());
}

int tl_eval_main(int argc, char **argv)
{
    struct tl_eval_opts o;
    tl_eval_defaults(&o);
    o.train.threads = tl_cores();
    bool quiet = false, lambda = false;
    int last_epoch = 0;
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
    struct tl_eval_result r;
    rc = tl_eval_run(c, cli.keys, cli.n_keys, &o, &r, &e) ? 1 : 0;
    if (rc) {
        fprintf(stderr, "lab: %s\n", e.detail);
        goto out;
    }
    if (!quiet && isatty(2))
        fputc('\n', stderr);
    cli.json ? print_json(&r, &o, c) : print_table(&r);
    tl_eval_free(&r);
out:
    tl_cli_free(&cli);
    return rc;
}
