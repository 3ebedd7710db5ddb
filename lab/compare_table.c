/* What `lab compare` found, as Markdown, JSON and plots. A cell of the tables is a mean over the seeds. */
#include "lab/compare.h"

#include "lab/svg.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tl_compare_free(struct tl_compare *c)
{
    for (int i = 0; i < c->n_models; i++) {
        struct tl_contender *m = &c->model[i];
        for (int k = 0; m->trial && k < c->seeds; k++) {
            tl_score_free(&m->trial[k].score);
            free(m->trial[k].valid_pairwise);
        }
        free(m->trial);
        free(m->title);
        free(m->notes);
    }
    c->n_models = 0;
}

static const double *of_tasks(const struct tl_score *s, enum tl_figure f)
{
    return f == TL_TOP1 ? s->top1 : f == TL_TOP5 ? s->top5 : s->pairwise;
}

int tl_compare_estimate(const struct tl_compare *c, const struct tl_contender *m, const struct tl_contender *minus,
                        enum tl_figure f, struct tl_estimate *out, struct tp_err *e)
{
    const size_t n = m->trial[0].score.n, runs = (size_t)c->seeds;
    double *v = malloc((runs * n + 1) * sizeof *v), sum = 0;
    size_t counted = 0;
    if (v == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu figures", runs * n);
    for (size_t r = 0; r < runs; r++)
        for (size_t i = 0; i < n; i++) {
            double *x = &v[r * n + i];
            *x = of_tasks(&m->trial[r].score, f)[i] - (minus ? of_tasks(&minus->trial[r].score, f)[i] : 0);
            sum += isnan(*x) ? 0 : *x;
            counted += !isnan(*x);
        }
    out->mean = counted ? sum / (double)counted : NAN;
    int rc = tm_bootstrap_crossed(v, runs, n, 1, &out->interval);
    free(v);
    return rc ? tp_fail(e, TP_E_NO_MEMORY, "no memory for intervals") : 0;
}

/* Mean over the seeds of a double inside struct tl_trial. */
static double mean_at(const struct tl_compare *c, const struct tl_contender *m, size_t offset)
{
    double sum = 0, x;
    for (int k = 0; k < c->seeds; k++) {
        memcpy(&x, (const char *)&m->trial[k] + offset, sizeof x);
        sum += x;
    }
    return sum / c->seeds;
}
#define MEAN(c, m, field) mean_at(c, m, offsetof(struct tl_trial, field))

static double predictions_per_second(const struct tl_compare *c, const struct tl_contender *m)
{
    return c->test_programs / MEAN(c, m, predict_seconds);
}

/* Best pairwise accuracy on the validation tasks within the first `share` of the epochs, mean over the seeds. */
static double best_within(const struct tl_compare *c, const struct tl_contender *m, double share)
{
    double sum = 0;
    for (int k = 0; k < c->seeds; k++) {
        const struct tl_trial *t = &m->trial[k];
        double best = 0;
        for (int i = 0; i < t->epochs && i < ceil(share * t->epochs); i++)
            best = fmax(best, t->valid_pairwise[i]);
        sum += best;
    }
    return sum / c->seeds;
}

static bool learns(const struct tl_contender *m)
{
    return !m->skipped[0] && m->trial[0].epochs > 0;
}

/* ---- Markdown ---- */
static const char *const figure_name[TL_FIGURES] = {"top-1, mean", "top-5, mean", "pairwise"};

static int print_estimate(FILE *f, const struct tl_compare *c, const struct tl_contender *m,
                          const struct tl_contender *minus, enum tl_figure figure, struct tp_err *e)
{
    struct tl_estimate x;
    int rc = tl_compare_estimate(c, m, minus, figure, &x, e);
    if (rc)
        return rc;
    if (minus) {
        const char *bold = x.interval.lo > 0 || x.interval.hi < 0 ? "**" : "";
        fprintf(f, " %s%+.4f (%+.4f to %+.4f)%s |", bold, x.mean, x.interval.lo, x.interval.hi, bold);
    } else {
        fprintf(f, " %.4f (%.3f to %.3f) |", x.mean, x.interval.lo, x.interval.hi);
    }
    return 0;
}

static int print_model(FILE *f, const struct tl_compare *c, const struct tl_contender *m, struct tp_err *e)
{
    int rc;
    fprintf(f, "| %s |", m->title);
    if (m->skipped[0]) {
        fprintf(f,
                " skipped: %s |"
                "%s\n",
                m->skipped, " | | | | | | | | | | |");
        return 0;
    }
    if ((rc = print_estimate(f, c, m, NULL, TL_TOP1, e)) || (rc = print_estimate(f, c, m, NULL, TL_TOP5, e)))
        return rc;
    fprintf(f, " %.4f | %.4f |", MEAN(c, m, score.by_min.top1_pooled), MEAN(c, m, score.by_min.top5_pooled));
    if ((rc = print_estimate(f, c, m, NULL, TL_PAIRWISE, e)))
        return rc;
    fprintf(f, " %.4f | %.4f |", MEAN(c, m, score.by_min.pairwise_10pct), MEAN(c, m, score.by_mean.pairwise));
    if (m->latency)
        fprintf(f, " %.3f / %.3f |", MEAN(c, m, score.unknown.median_ln_error),
                MEAN(c, m, score.known.median_ln_error));
    else
        fputs(" - |", f);
    if (learns(m))
        fprintf(f, " %.0f | %.0f | %.0f |\n", m->parameters, MEAN(c, m, train_seconds), predictions_per_second(c, m));
    else
        fputs(" - | - | - |\n", f);
    return 0;
}

static void print_bounds(FILE *f, const struct tl_compare *c)
{
    const struct tl_ceiling *k = &c->ceiling;
    fprintf(f, "| random, expected | %.4f | %.4f | | | 0.5 | 0.5 | 0.5 | | | | |\n", c->random_top1, c->random_top5);
    fputs("| best possible | 1 | 1 | 1 | 1 | 1 | 1 | 1 | | | | |\n\n", f);
    if (k->tasks)
        fprintf(
            f,
            "The measurements themselves: two of them (%s; %u programs of %u tasks) order %.4f of the pairs alike "
            "(%.4f of "
            "those more than 10 %% apart), so that a model that knew the true costs would score about %.4f; picking by "
            "one and judging by the other gives a mean top-1 of %.4f and top-5 of %.4f.\n\n",
            k->by_record ? "records of the same program" : "halves of the repeats, which share what disturbed a record",
            k->programs, k->tasks, k->pairwise, k->pairwise_10pct, k->perfect, k->top1_mean, k->top5_mean);
}

static int print_paired(FILE *f, const struct tl_compare *c, struct tp_err *e)
{
    int rc = 0;
    fputs("tcld minus the other, same tasks and seeds, 95 % interval over tasks x seeds; bold: it does not hold 0.\n\n"
          "| tcld minus | pairwise | top-1, mean | top-5, mean |\n|---|---|---|---|\n",
          f);
    for (int i = 1; i < c->n_models && rc == 0; i++) {
        static const enum tl_figure order[] = {TL_PAIRWISE, TL_TOP1, TL_TOP5};
        if (c->model[i].skipped[0])
            continue;
        fprintf(f, "| %s |", c->model[i].title);
        for (int k = 0; k < 3 && rc == 0; k++)
            rc = print_estimate(f, c, &c->model[0], &c->model[i], order[k], e);
        fputc('\n', f);
    }
    fputc('\n', f);
    return rc;
}

static void print_epochs(FILE *f, const struct tl_compare *c)
{
    fputs("Epochs (trees: rounds): the one with the best pairwise accuracy on the validation tasks is kept. Best so "
          "far, mean of "
          "the seeds:\n\n| model | epochs | kept, by seed | after a quarter | half | three quarters | all |\n"
          "|---|---|---|---|---|---|---|\n",
          f);
    for (int i = 0; i < c->n_models; i++) {
        const struct tl_contender *m = &c->model[i];
        if (!learns(m))
            continue;
        fprintf(f, "| %s | %d |", m->title, m->trial[0].epochs);
        for (int k = 0; k < c->seeds; k++)
            fprintf(f, "%s%d", k ? ", " : " ", m->trial[k].best_epoch);
        fprintf(f, " | %.4f | %.4f | %.4f | %.4f |\n", best_within(c, m, 0.25), best_within(c, m, 0.5),
                best_within(c, m, 0.75), best_within(c, m, 1));
    }
    fputc('\n', f);
    for (int i = 0; i < c->n_models; i++)
        if (c->model[i].notes[0])
            fprintf(f, "- *%s*: %s.\n", c->model[i].title, c->model[i].notes);
}

static int print_markdown(FILE *f, const struct tl_compare *c, struct tp_err *e)
{
    int rc = 0;
    char limit[32] = "all";
    if (c->per_task)
        snprintf(limit, sizeof limit, "at most %u", c->per_task);
    fprintf(
        f,
        "`%s`: %u test tasks (%s; %u more have too few programs), %u programs; learned from %u programs of %u tasks "
        "(%s of a task), %u programs%s choose the epoch; label: %s of the repeats; %d seed%s.\n\n",
        c->logs ? c->logs : "", c->test_tasks, c->known ? "known: other programs of theirs are learned from" : "new",
        c->tasks_skipped, c->test_programs, c->train_programs, c->train_tasks, limit, c->valid_programs,
        c->known ? "" : " of other tasks", c->by_mean ? "mean" : "minimum", c->seeds, c->seeds == 1 ? "" : "s");
    fputs("| model | top-1, mean (95 %) | top-5, mean (95 %) | top-1, pooled | top-5, pooled | pairwise (95 %) | pairs "
          "> 10 % "
          "| pairwise by mean cost | median \\|ln latency error\\|, new / 5 measured | parameters | training, CPU s | "
          "predictions per CPU s |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
          f);
    for (int i = 0; i < c->n_models && rc == 0; i++)
        rc = print_model(f, c, &c->model[i], e);
    print_bounds(f, c);
    rc = rc ? rc : print_paired(f, c, e);
    print_epochs(f, c);
    return rc;
}

/* ---- JSON ---- */
static json_t *real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

#define PUT(to, from, field) json_object_set_new(to, #field, real((from)->field))

static json_t *metrics_json(const struct tm_metrics *m)
{
    json_t *j = json_object();
    PUT(j, m, top1_mean);
    PUT(j, m, top5_mean);
    PUT(j, m, top1_pooled);
    PUT(j, m, top5_pooled);
    PUT(j, m, pairwise);
    PUT(j, m, pairwise_10pct);
    PUT(j, m, spearman);
    return j;
}

static json_t *latency_json(const struct tl_latency *l)
{
    json_t *j = json_object();
    PUT(j, l, median_ln_error);
    PUT(j, l, within_1_25);
    PUT(j, l, within_1_5);
    PUT(j, l, within_2);
    PUT(j, l, within_one_std);
    PUT(j, l, within_two_std);
    return j;
}

static json_t *array(const double *v, size_t n)
{
    json_t *j = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(j, real(v[i]));
    return j;
}

static json_t *trial_json(const struct tl_contender *m, const struct tl_trial *t, int seed)
{
    json_t *j = json_object();
    json_object_set_new(j, "seed", json_integer(seed + 1));
    json_object_set_new(j, "by_min", metrics_json(&t->score.by_min));
    json_object_set_new(j, "by_mean", metrics_json(&t->score.by_mean));
    if (m->latency) {
        json_object_set_new(j, "latency_new_tasks", latency_json(&t->score.unknown));
        json_object_set_new(j, "latency_5_measured", latency_json(&t->score.known));
    }
    json_object_set_new(j, "tasks_top1", array(t->score.top1, t->score.n));
    json_object_set_new(j, "tasks_top5", array(t->score.top5, t->score.n));
    json_object_set_new(j, "tasks_pairwise", array(t->score.pairwise, t->score.n));
    if (!learns(m))
        return j;
    json_object_set_new(j, "best_epoch", json_integer(t->best_epoch));
    json_object_set_new(j, "valid_pairwise", array(t->valid_pairwise, (size_t)t->epochs));
    PUT(j, t, train_seconds);
    PUT(j, t, predict_seconds);
    return j;
}

static int estimates_json(const struct tl_compare *c, const struct tl_contender *m, const struct tl_contender *minus,
                          json_t *to, struct tp_err *e)
{
    static const char *const key[TL_FIGURES] = {"top1_mean", "top5_mean", "pairwise"};
    for (int f = 0; f < TL_FIGURES; f++) {
        struct tl_estimate x;
        int rc = tl_compare_estimate(c, m, minus, (enum tl_figure)f, &x, e);
        if (rc)
            return rc;
        json_t *j = json_object();
        json_object_set_new(j, "mean", real(x.mean));
        json_object_set_new(j, "lo", real(x.interval.lo));
        json_object_set_new(j, "hi", real(x.interval.hi));
        json_object_set_new(to, key[f], j);
    }
    return 0;
}

static json_t *model_json(const struct tl_compare *c, const struct tl_contender *m, struct tp_err *e, int *rc)
{
    json_t *j = json_object(), *trials = json_array(), *all = json_object(), *paired = json_object();
    json_object_set_new(j, "name", json_string(m->name));
    json_object_set_new(j, "title", json_string(m->title));
    json_object_set_new(j, "settings", json_string(m->notes));
    json_object_set_new(j, "skipped", m->skipped[0] ? json_string(m->skipped) : json_null());
    json_object_set_new(j, "parameters", learns(m) ? real(m->parameters) : json_null());
    json_object_set_new(j, "runs", trials);
    json_object_set_new(j, "all_seeds", all);
    json_object_set_new(j, "tcld_minus_this", paired);
    for (int k = 0; k < c->seeds && !m->skipped[0]; k++)
        json_array_append_new(trials, trial_json(m, &m->trial[k], k));
    if (!m->skipped[0] && (*rc = estimates_json(c, m, NULL, all, e)) == 0 && m != c->model)
        *rc = estimates_json(c, &c->model[0], m, paired, e);
    return j;
}

static int print_json(FILE *f, const struct tl_compare *c, struct tp_err *e)
{
    const struct tl_ceiling *k = &c->ceiling;
    json_t *j = json_object(), *models = json_array(), *ceiling = json_object();
    int rc = 0;
    json_object_set_new(j, "logs", json_string(c->logs ? c->logs : ""));
    json_object_set_new(j, "known_tasks", json_boolean(c->known));
    json_object_set_new(j, "labels", json_string(c->by_mean ? "mean" : "min"));
    PUT(j, c, seeds);
    PUT(j, c, per_task);
    PUT(j, c, test_tasks);
    PUT(j, c, tasks_skipped);
    PUT(j, c, test_programs);
    PUT(j, c, train_tasks);
    PUT(j, c, train_programs);
    PUT(j, c, valid_tasks);
    PUT(j, c, valid_programs);
    json_object_set_new(j, "random_top1_mean", real(c->random_top1));
    json_object_set_new(j, "random_top5_mean", real(c->random_top5));
    PUT(ceiling, k, tasks);
    PUT(ceiling, k, programs);
    PUT(ceiling, k, pairwise);
    PUT(ceiling, k, pairwise_10pct);
    PUT(ceiling, k, perfect);
    PUT(ceiling, k, top1_mean);
    PUT(ceiling, k, top5_mean);
    json_object_set_new(ceiling, "by_record", json_boolean(k->by_record));
    json_object_set_new(j, "ceiling", ceiling);
    json_object_set_new(j, "models", models);
    for (int i = 0; i < c->n_models && rc == 0; i++)
        json_array_append_new(models, model_json(c, &c->model[i], e, &rc));
    if (rc == 0 && json_dumpf(j, f, JSON_REAL_PRECISION(9) | JSON_INDENT(1)) != 0)
        rc = tp_fail(e, TP_E_IO, "the JSON cannot be written");
    fputc('\n', f);
    json_decref(j);
    return rc;
}

/* ---- plots ---- */
static int plot_figure(const struct tl_compare *c, enum tl_figure f, const char *path, double mark, struct tp_err *e)
{
    struct tl_svg_dot dots[TL_MODELS];
    struct tl_svg_labels l = {.title = figure_name[f], .x = figure_name[f], .mark = mark};
    size_t n = 0;
    for (int i = 0; i < c->n_models; i++) {
        struct tl_estimate x;
        if (c->model[i].skipped[0])
            continue;
        int rc = tl_compare_estimate(c, &c->model[i], NULL, f, &x, e);
        if (rc)
            return rc;
        dots[n++] = (struct tl_svg_dot){c->model[i].title, x.mean, x.interval.lo, x.interval.hi};
    }
    return tl_svg_dots(path, &l, dots, n, e);
}

/* The first seed's way to its best epoch: share of the epochs against validation pairwise. */
static int plot_epochs(const struct tl_compare *c, const char *path, struct tp_err *e)
{
    struct tl_svg_series series[TL_MODELS];
    struct tl_svg_labels l = {.title = "Pairwise accuracy on the validation tasks, seed 1",
                              .x = "share of the epochs",
                              .y = "pairwise",
                              .mark = NAN};
    double *x[TL_MODELS] = {NULL};
    size_t n = 0;
    int rc = 0;
    for (int i = 0; i < c->n_models; i++) {
        const struct tl_trial *t = &c->model[i].trial[0];
        if (!learns(&c->model[i]))
            continue;
        if ((x[n] = malloc((size_t)t->epochs * sizeof **x)) == NULL) {
            rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a plot");
            break;
        }
        for (int k = 0; k < t->epochs; k++)
            x[n][k] = (k + 1.0) / t->epochs;
        series[n] = (struct tl_svg_series){
            .name = c->model[i].title, .x = x[n], .y = t->valid_pairwise, .n = (size_t)t->epochs};
        n++;
    }
    rc = rc ? rc : tl_svg_lines(path, &l, series, n, e);
    for (int i = 0; i < TL_MODELS; i++)
        free(x[i]);
    return rc;
}

static int write_text(const struct tl_compare *c, const char *path,
                      int (*print)(FILE *, const struct tl_compare *, struct tp_err *), struct tp_err *e)
{
    FILE *f = fopen(path, "w");
    if (f == NULL)
        return tp_fail(e, TP_E_IO, "%s: %s", path, strerror(errno));
    int rc = print(f, c, e);
    if (fclose(f) != 0 && rc == 0)
        rc = tp_fail(e, TP_E_IO, "%s cannot be written", path);
    return rc;
}

int tl_compare_write(const struct tl_compare *c, const char *dir, struct tp_err *e)
{
    char path[4096];
    int rc;
#define IN(name) (snprintf(path, sizeof path, "%s/" name, dir), path)
    if ((rc = write_text(c, IN("compare.md"), print_markdown, e)) ||
        (rc = write_text(c, IN("compare.json"), print_json, e)) ||
        (rc =
             plot_figure(c, TL_PAIRWISE, IN("compare-pairwise.svg"), c->ceiling.tasks ? c->ceiling.perfect : NAN, e)) ||
        (rc = plot_figure(c, TL_TOP1, IN("compare-top1.svg"), c->random_top1, e)))
        return rc;
    return plot_epochs(c, IN("compare-epochs.svg"), e);
#undef IN
}
