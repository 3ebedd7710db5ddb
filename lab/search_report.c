#include "lab/search_report.h"

#include "lab/cli.h"
#include "proto/err.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *key;
    bool ln;
} figures[TL_SEARCH_FIGURES] = {
    [TL_SEARCH_LN_NEEDED] = {"needed", true},
    [TL_SEARCH_LN_IN_ROUNDS] = {"in_rounds", true},
    [TL_SEARCH_LN_RATIO] = {"ratio_to_random", true},
    [TL_SEARCH_LN_RATIO_IN_ROUNDS] = {"ratio_to_random_in_rounds", true},
    [TL_SEARCH_LN_RATIO_DRAWN] = {"ratio_to_drawn_orders", true},
    [TL_SEARCH_FIRST_ROUND] = {"within_first_round", false},
    [TL_SEARCH_QUARTER] = {"within_quarter_of_random", false},
};

static const char *const views[TL_SEARCH_VIEWS] = {"as_measured", "by_another_measurement"};

void tl_search_add(struct tl_search_tally *t, uint32_t task, double needed, double in_rounds, double first_round,
                   const struct tl_search_random *random)
{
    const double v[TL_SEARCH_FIGURES] = {
        [TL_SEARCH_LN_NEEDED] = log(needed),
        [TL_SEARCH_LN_IN_ROUNDS] = log(in_rounds),
        [TL_SEARCH_LN_RATIO] = log(needed / random->needed),
        [TL_SEARCH_LN_RATIO_IN_ROUNDS] = log(in_rounds / random->in_rounds),
        [TL_SEARCH_LN_RATIO_DRAWN] = log(needed) - random->ln_needed,
        [TL_SEARCH_FIRST_ROUND] = first_round,
        [TL_SEARCH_QUARTER] = 4 * needed <= random->needed,
    };
    for (int i = 0; i < TL_SEARCH_FIGURES; i++)
        t->sum[i][task] += v[i];
    t->replays[task]++;
    t->weight++;
}

/* Per-task means of a figure, of the tasks that were replayed; less those of `base` when there is one. */
static uint32_t task_means(const struct tl_search_tally *t, const struct tl_search_tally *base, int figure, double *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_tasks; i++) {
        if (t->replays[i] == 0 || (base && base->replays[i] == 0))
            continue;
        out[n] = t->sum[figure][i] / t->replays[i];
        if (base)
            out[n] -= base->sum[figure][i] / base->replays[i];
        n++;
    }
    return n;
}

static int mean_of(const double *v, uint32_t n, bool ln, double *mean, struct tm_interval *interval)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += v[i];
    *mean = sum / n;
    int rc = tm_bootstrap_mean(v, n, 1, interval);
    if (ln) {
        *mean = exp(*mean);
        interval->lo = exp(interval->lo);
        interval->hi = exp(interval->hi);
    }
    return rc;
}

int tl_search_summarise(const struct tl_search_tally *t, const struct tl_search_tally *base,
                        struct tl_search_summary *out)
{
    double *v = malloc((t->n_tasks + 1) * sizeof *v);
    int rc = v ? 0 : -TP_E_NO_MEMORY;
    *out = (struct tl_search_summary){.replays = (uint32_t)t->weight};
    for (int i = 0; i < TL_SEARCH_FIGURES && rc == 0; i++) {
        out->tasks = task_means(t, NULL, i, v);
        rc = mean_of(v, out->tasks, figures[i].ln, &out->value[i], &out->interval[i]);
    }
    if (rc == 0) {
        uint32_t n = task_means(t, base, TL_SEARCH_LN_NEEDED, v);
        rc = mean_of(v, n, true, &out->against, &out->against_interval);
    }
    for (int i = 0; i < TL_SEARCH_CURVE; i++)
        out->curve[i] = t->curve[i] / t->weight;
    free(v);
    return rc;
}

int tl_search_report_init(struct tl_search_report *r, const char *const *names, uint32_t n_rows, uint32_t n_tasks)
{
    bool ok = (r->row = calloc(n_rows, sizeof *r->row));
    r->n_rows = ok ? n_rows : 0;
    for (uint32_t i = 0; i < r->n_rows; i++) {
        ok = (r->row[i].name = strdup(names[i])) && ok;
        for (int v = 0; v < TL_SEARCH_VIEWS; v++) {
            struct tl_search_tally *t = &r->row[i].tally[v];
            t->n_tasks = n_tasks;
            ok = (t->replays = calloc(n_tasks, sizeof *t->replays)) && ok;
            for (int f = 0; f < TL_SEARCH_FIGURES; f++)
                ok = (t->sum[f] = calloc(n_tasks, sizeof *t->sum[f])) && ok;
        }
    }
    return ok ? 0 : -TP_E_NO_MEMORY;
}

void tl_search_report_free(struct tl_search_report *r)
{
    for (uint32_t i = 0; i < r->n_rows; i++) {
        free(r->row[i].name);
        for (int v = 0; v < TL_SEARCH_VIEWS; v++) {
            free(r->row[i].tally[v].replays);
            for (int f = 0; f < TL_SEARCH_FIGURES; f++)
                free(r->row[i].tally[v].sum[f]);
        }
    }
    free(r->row);
    *r = (struct tl_search_report){0};
}

static void summary_json(const struct tl_search_summary *s, struct tp_buf *b)
{
    tp_buf_printf(b, "{\"tasks\": %u, \"replays\": %u", s->tasks, s->replays);
    for (int i = 0; i < TL_SEARCH_FIGURES; i++) {
        tl_put_number(b, figures[i].key, "", s->value[i]);
        tl_put_number(b, figures[i].key, "_lo", s->interval[i].lo);
        tl_put_number(b, figures[i].key, "_hi", s->interval[i].hi);
    }
    tl_put_number(b, "needed_over_first", "", s->against);
    tl_put_number(b, "needed_over_first", "_lo", s->against_interval.lo);
    tl_put_number(b, "needed_over_first", "_hi", s->against_interval.hi);
    tp_buf_puts(b, ", \"best_so_far\": [");
    for (int i = 0; i < TL_SEARCH_CURVE; i++) {
        tp_buf_puts(b, i ? ", " : "");
        tp_buf_json_num(b, s->curve[i], 5);
    }
    tp_buf_puts(b, "]}");
}

int tl_search_json(const struct tl_search_report *r, struct tp_buf *b)
{
    struct tl_search_summary s;
    int rc = 0;
    tp_buf_printf(b,
                  "{\"round\": %u, \"within\": %g, \"epsilon\": %g, \"seeds\": %u, \"epochs\": %u, \"tlp_epochs\": %u, "
                  "\"per_task\": %u, \"test_per_task\": %u, \"train_programs\": %zu, \"test_programs\": %zu",
                  r->round, r->within, r->epsilon, r->seeds, r->epochs, r->tlp_epochs, r->per_task, r->test_per_task,
                  r->train_programs, r->test_programs);
    tp_buf_puts(b, ", \"orders\": [");
    for (uint32_t i = 0; i < r->n_rows && rc == 0; i++) {
        tp_buf_puts(b, i ? ",\n {\"order\": " : "\n {\"order\": ");
        tp_buf_json_str(b, r->row[i].name, strlen(r->row[i].name));
        for (int v = 0; v < TL_SEARCH_VIEWS && rc == 0; v++) {
            if (r->row[i].tally[v].weight == 0)
                continue;
            rc = tl_search_summarise(&r->row[i].tally[v], &r->row[0].tally[v], &s);
            tp_buf_printf(b, ",\n  \"%s\": ", views[v]);
            summary_json(&s, b);
        }
        tp_buf_puts(b, "}");
    }
    tp_buf_puts(b, "\n]}\n");
    return rc ? rc : b->oom ? -TP_E_NO_MEMORY : 0;
}

static int view_markdown(const struct tl_search_report *r, enum tl_search_view v, struct tp_buf *b)
{
    struct tl_search_summary s;
    int rc = 0;
    tp_buf_printf(b,
                  "| order | measurements | of random's | of drawn orders' | in rounds | of random's | times %s's | ≤ "
                  "¼ of random's | "
                  "done in round 1 | T/best after 1 | after %u |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
                  r->row[0].name, r->round);
    for (uint32_t i = 0; i < r->n_rows && rc == 0; i++) {
        rc = tl_search_summarise(&r->row[i].tally[v], &r->row[0].tally[v], &s);
        const double *x = s.value;
        const struct tm_interval *c = s.interval;
        tp_buf_printf(b,
                      "| %s | %.2f (%.2f–%.2f) | %.3f (%.3f–%.3f) | %.3f (%.3f–%.3f) | %.1f | %.3f | %.2f "
                      "(%.2f–%.2f) | %.0f %% | %.0f %% | %.3f | %.3f |\n",
                      r->row[i].name, x[TL_SEARCH_LN_NEEDED], c[TL_SEARCH_LN_NEEDED].lo, c[TL_SEARCH_LN_NEEDED].hi,
                      x[TL_SEARCH_LN_RATIO], c[TL_SEARCH_LN_RATIO].lo, c[TL_SEARCH_LN_RATIO].hi,
                      x[TL_SEARCH_LN_RATIO_DRAWN], c[TL_SEARCH_LN_RATIO_DRAWN].lo, c[TL_SEARCH_LN_RATIO_DRAWN].hi,
                      x[TL_SEARCH_LN_IN_ROUNDS], x[TL_SEARCH_LN_RATIO_IN_ROUNDS], s.against, s.against_interval.lo,
                      s.against_interval.hi, 100 * x[TL_SEARCH_QUARTER], 100 * x[TL_SEARCH_FIRST_ROUND], s.curve[0],
                      s.curve[r->round < TL_SEARCH_CURVE ? r->round - 1 : TL_SEARCH_CURVE - 1]);
    }
    return rc;
}

int tl_search_markdown(const struct tl_search_report *r, struct tp_buf *b)
{
    const struct tl_search_tally *all = r->row[0].tally;
    int rc = 0;
    for (int v = 0; v < TL_SEARCH_VIEWS && rc == 0; v++) {
        if (all[v].weight == 0)
            continue;
        tp_buf_printf(b,
                      v == TL_SEARCH_AS_MEASURED
                          ? "Judged as measured: %.0f replays, within %g %% of the task's best.\n\n"
                          : "\nChosen by one measurement, judged by another: %.0f replays, "
                            "within %g %% of what a complete search chooses.\n\n",
                      all[v].weight, 100 * r->within);
        rc = view_markdown(r, v, b);
    }
    return rc ? rc : b->oom ? -TP_E_NO_MEMORY : 0;
}
