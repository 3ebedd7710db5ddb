/* `lab eval`: options in, one experiment, a table or JSON out. */
#include "lab/eval.h"
#include "lab/lab.h"
#include "model/infer.h"

#include <errno.h>
#include <getopt.h>
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

enum {
    O_LOGS = 1,
    O_TEST,
    O_KNOWN,
    O_FEATURES,
    O_PER_TASK,
    O_TEST_PER_TASK,
    O_EPOCHS,
    O_SEED,
    O_THREADS,
    O_BT,
    O_BP,
    O_LR,
    O_RANK,
    O_LABELS,
    O_VALID,
    O_JSON,
    O_QUIET,
    O_HELP
};
static const struct option options[] = {{"logs", required_argument, 0, O_LOGS},
                                        {"test", required_argument, 0, O_TEST},
                                        {"known", no_argument, 0, O_KNOWN},
                                        {"features", required_argument, 0, O_FEATURES},
                                        {"per-task", required_argument, 0, O_PER_TASK},
                                        {"test-per-task", required_argument, 0, O_TEST_PER_TASK},
                                        {"epochs", required_argument, 0, O_EPOCHS},
                                        {"seed", required_argument, 0, O_SEED},
                                        {"threads", required_argument, 0, O_THREADS},
                                        {"batch-tasks", required_argument, 0, O_BT},
                                        {"batch-programs", required_argument, 0, O_BP},
                                        {"lr", required_argument, 0, O_LR},
                                        {"rank", required_argument, 0, O_RANK},
                                        {"labels", required_argument, 0, O_LABELS},
                                        {"valid", required_argument, 0, O_VALID},
                                        {"json", no_argument, 0, O_JSON},
                                        {"quiet", no_argument, 0, O_QUIET},
                                        {"help", no_argument, 0, O_HELP},
                                        {0, 0, 0, 0}};

static int progress(void *arg, const struct tm_progress *p)
{
    int *last = arg;
    if (isatty(2))
        fprintf(stderr, "\r  epoch %2d/%d  %3.0f %%  loss %.4f  valid pairwise %.4f ", p->epoch, p->epochs,
                100 * p->fraction, p->loss, p->valid_pairwise);
    else if (p->epoch != *last)
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
        fprintf(stderr, "lab eval: --%s %s: a number from %g to %g is accepted\n", opt, text, lo, hi);
        return false;
    }
    *out = v;
    return true;
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
    const char *test = NULL;
    bool json = false, quiet = false;
    int opt, rc = 2, last_epoch = 0;
    double v;
    char **keys = NULL;
    size_t n_keys = 0;
    struct tp_err e = {0};
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
        case O_KNOWN:
            o.split.holdout = TL_BY_PROGRAM;
            break;
        case O_FEATURES:
            o.split.tlp = strcmp(optarg, "tlp") == 0;
            if (!o.split.tlp && strcmp(optarg, "tclf-1") != 0) {
                fprintf(stderr, "lab eval: --features %s: tclf-1 and tlp are accepted\n", optarg);
                goto out;
            }
            break;
        case O_LABELS:
            o.split.by_mean = strcmp(optarg, "mean") == 0;
            if (!o.split.by_mean && strcmp(optarg, "min") != 0) {
                fprintf(stderr, "lab eval: --labels %s: min and mean are accepted\n", optarg);
                goto out;
            }
            break;
        case O_RANK:
            o.train.rank = strcmp(optarg, "lambda") == 0 ? TM_RANK_LAMBDA : TM_RANK_PAIRWISE;
            if (o.train.rank == TM_RANK_PAIRWISE && strcmp(optarg, "pairwise") != 0) {
                fprintf(stderr, "lab eval: --rank %s: pairwise and lambda are accepted\n", optarg);
                goto out;
            }
            break;
#define N(O, name, lo, hi, dest)                                                                                       \
    case O:                                                                                                            \
        if (!number(name, optarg, lo, hi, &v))                                                                         \
            goto out;                                                                                                  \
        dest = (__typeof__(dest))v;                                                                                    \
        break;
            N(O_PER_TASK, "per-task", 1, 1e9, o.split.per_task)
            N(O_TEST_PER_TASK, "test-per-task", 2, 1e9, o.split.test_per_task)
            N(O_EPOCHS, "epochs", 1, 10000, o.train.epochs)
            N(O_SEED, "seed", 0, 9007199254740992.0, o.split.seed)
            N(O_THREADS, "threads", 1, 256, o.train.threads)
            N(O_BT, "batch-tasks", 1, 1024, o.train.tasks_per_batch)
            N(O_BP, "batch-programs", 2, 4096, o.train.programs_per_task)
            N(O_LR, "lr", 1e-8, 1, o.train.lr)
            N(O_VALID, "valid", 0, 0.9, o.split.valid_fraction)
#undef N
        case O_JSON:
            json = true;
            break;
        case O_QUIET:
            quiet = true;
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
    if ((test == NULL) != (o.split.holdout == TL_BY_PROGRAM) || c->lines == 0) {
        fputs(usage, stderr);
        goto out;
    }
    if (test && tl_keys_read(test, &keys, &n_keys))
        goto out;
    if (c->rejected && !quiet)
        fprintf(stderr, "lab: %zu of %zu records not used; the first, line %ld: %s\n", c->rejected, c->lines,
                c->first_error.line, c->first_error.detail);
    if (!quiet) {
        o.progress = progress;
        o.progress_arg = &last_epoch;
    }
    struct tl_eval_result r;
    if (tl_eval_run(c, keys, n_keys, &o, &r, &e))
        goto fail;
    if (!quiet && isatty(2))
        fputc('\n', stderr);
    json ? print_json(&r, &o, c) : print_table(&r);
    tl_eval_free(&r);
    rc = 0;
    goto out;
fail:
    fprintf(stderr, "lab: %s\n", e.detail);
    rc = 1;
out:
    tl_keys_free(keys, n_keys);
    tl_corpus_free(c);
    return rc;
}
