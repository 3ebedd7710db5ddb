/* Figures, table, JSON and plots of `lab rdu`. */
#include "lab/cli.h"
#include "lab/rdu.h"
#include "lab/svg.h"

#include "model/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Field of a cell. */
enum field { PAIRWISE, TOP1, TOP5, FIELDS = TL_RDU_FIELDS };
static const char *const field_names[FIELDS] = {"pairwise", "top1", "top5"};

static const double *field_of(const struct tl_rdu_cell *c, enum field f)
{
    return f == PAIRWISE ? c->pairwise : f == TOP1 ? c->top1 : c->top5;
}

static int method_of(const struct tl_rdu *r, enum ts_method id)
{
    for (uint32_t m = 0; m < r->o->n_methods; m++)
        if (r->o->method[m].select.method == id)
            return (int)m;
    return -1;
}

static int budget_of_all(const struct tl_rdu *r)
{
    const uint32_t n = r->o->n_budgets;
    return n && r->o->budget[n - 1] >= 1 ? (int)n - 1 : -1;
}

/* Mean over seeds and tasks; of the tasks that are defined. */
static double mean(const struct tl_rdu *r, uint32_t m, uint32_t b, enum field f)
{
    double sum = 0, n = 0;
    for (uint32_t s = 0; s < r->o->seeds; s++)
        for (uint32_t i = 0; i < r->cell[m][b][s].n; i++) {
            const double v = field_of(&r->cell[m][b][s], f)[i];
            sum += isnan(v) ? 0 : v;
            n += !isnan(v);
        }
    return sum / n;
}

static int difference(const struct tl_rdu *r, uint32_t m, uint32_t base, uint32_t b, enum field f,
                      struct tm_interval *out)
{
    const uint32_t n = r->cell[m][b][0].n, seeds = r->o->seeds;
    double *v = tm_alloc((size_t)n * seeds, sizeof *v);
    if (!v)
        return -TP_E_NO_MEMORY;
    for (uint32_t s = 0; s < seeds; s++)
        for (uint32_t i = 0; i < n; i++)
            v[(size_t)s * n + i] = field_of(&r->cell[m][b][s], f)[i] - field_of(&r->cell[base][b][s], f)[i];
    int rc = tm_bootstrap_crossed(v, seeds, n, 1, out);
    free(v);
    return rc;
}

int tl_rdu_figures(const struct tl_rdu *r, uint32_t m, uint32_t b, struct tl_rdu_figures *out)
{
    const int base = method_of(r, TS_RANDOM), all = budget_of_all(r);
    *out = (struct tl_rdu_figures){0};
    for (int f = 0; f < FIELDS; f++) {
        const double own = mean(r, m, b, f), random = base < 0 ? NAN : mean(r, (uint32_t)base, b, f);
        const double whole = all < 0 ? NAN : mean(r, 0, (uint32_t)all, f);
        out->mean[f] = own;
        out->less_random[f] = own - random;
        out->gap[f] = whole > random ? (own - random) / (whole - random) : NAN;
        out->interval[f] = (struct tm_interval){NAN, NAN};
        if (base >= 0 && difference(r, m, (uint32_t)base, b, f, &out->interval[f]))
            return -TP_E_NO_MEMORY;
    }
    for (uint32_t s = 0; s < r->o->seeds; s++) {
        const struct tl_rdu_cell *c = &r->cell[m][b][s];
        out->chosen = c->chosen;
        out->epochs = c->epochs;
        out->select_seconds += c->select_seconds / r->o->seeds;
        out->train_seconds += c->train_seconds / r->o->seeds;
        out->select_bytes = fmax(out->select_bytes, c->select_bytes);
    }
    return 0;
}

static void put_difference(struct tp_buf *b, double v, struct tm_interval i)
{
    tp_buf_printf(b, " (%+.2f: %+.2f to %+.2f)", 100 * v, 100 * i.lo, 100 * i.hi);
}

static void row(const struct tl_rdu *r, uint32_t m, uint32_t budget, const struct tl_rdu_figures *f, struct tp_buf *b)
{
    const bool all = r->o->budget[budget] >= 1, random = r->o->method[m].select.method == TS_RANDOM;
    tp_buf_printf(b, "| %g %% | %u | %s |", 100 * r->o->budget[budget], f->chosen, all ? "all" : r->o->method[m].name);
    for (int i = 0; i < FIELDS; i++) {
        tp_buf_printf(b, " %.2f", 100 * f->mean[i]);
        if (!all && !random && !isnan(f->less_random[i]))
            put_difference(b, f->less_random[i], f->interval[i]);
        tp_buf_puts(b, " |");
    }
    if (all || random || isnan(f->gap[PAIRWISE]))
        tp_buf_puts(b, " |");
    else
        tp_buf_printf(b, " %.0f %% |", 100 * f->gap[PAIRWISE]);
    tp_buf_printf(b, " %u | %.2f | %.1f | %.1f |\n", f->epochs, f->select_seconds, f->select_bytes / 1048576.0,
                  f->train_seconds);
}

int tl_rdu_markdown(const struct tl_rdu *r, struct tp_buf *b)
{
    const struct tl_rdu_opts *o = r->o;
    struct tl_rdu_figures f;
    tp_buf_printf(
        b,
        "%u programs of %u tasks to choose from; %u %s tasks, %u programs; %u seeds; every training at least "
        "%u steps and %d epochs.\n\n"
        "| budget | programs | method | pairwise, %% (less random's: 95 %% interval) | top-1 | top-5 | of the "
        "gap to all | epochs | choice, CPU s | MiB | training, CPU s |\n|---|---|---|---|---|---|---|---|---|"
        "---|---|\n",
        r->pool, r->tasks, r->test_tasks, o->tune > 0 ? "held-out training" : "test", r->test_programs, o->seeds,
        o->steps, o->train.epochs);
    for (uint32_t i = 0; i < o->n_budgets; i++)
        for (uint32_t m = 0; m < (o->budget[i] >= 1 ? 1 : o->n_methods); m++) {
            if (tl_rdu_figures(r, m, i, &f))
                return -TP_E_NO_MEMORY;
            row(r, m, i, &f, b);
        }
    return b->oom ? -TP_E_NO_MEMORY : 0;
}

static void row_json(const struct tl_rdu *r, uint32_t m, uint32_t budget, const struct tl_rdu_figures *f,
                     struct tp_buf *b)
{
    const char *name = r->o->method[m].name;
    tp_buf_puts(b, "{\"method\": ");
    tp_buf_json_str(b, name, strlen(name));
    tl_put_number(b, "budget", "", r->o->budget[budget]);
    tl_put_number(b, "programs", "", f->chosen);
    for (int i = 0; i < FIELDS; i++) {
        tl_put_number(b, field_names[i], "", f->mean[i]);
        tl_put_number(b, field_names[i], "_less_random", f->less_random[i]);
        tl_put_number(b, field_names[i], "_less_random_lo", f->interval[i].lo);
        tl_put_number(b, field_names[i], "_less_random_hi", f->interval[i].hi);
        tl_put_number(b, field_names[i], "_gap_closed", f->gap[i]);
    }
    tl_put_number(b, "epochs", "", f->epochs);
    tl_put_number(b, "select_cpu_seconds", "", f->select_seconds);
    tl_put_number(b, "select_bytes", "", f->select_bytes);
    tl_put_number(b, "train_cpu_seconds", "", f->train_seconds);
    tp_buf_puts(b, "}");
}

int tl_rdu_json(const struct tl_rdu *r, struct tp_buf *b)
{
    const struct tl_rdu_opts *o = r->o;
    struct tl_rdu_figures f;
    bool first = true;
    tp_buf_printf(b,
                  "{\"pool\": %u, \"tasks\": %u, \"test_tasks\": %u, \"test_programs\": %u, \"seeds\": %u, \"steps\": "
                  "%u, \"epochs\": %d, \"tune\": %g, \"rows\": [",
                  r->pool, r->tasks, r->test_tasks, r->test_programs, o->seeds, o->steps, o->train.epochs, o->tune);
    for (uint32_t i = 0; i < o->n_budgets; i++)
        for (uint32_t m = 0; m < o->n_methods; m++, first = false) {
            if (tl_rdu_figures(r, m, i, &f))
                return -TP_E_NO_MEMORY;
            tp_buf_puts(b, first ? "\n " : ",\n ");
            row_json(r, m, i, &f, b);
        }
    tp_buf_puts(b, "\n]}\n");
    return b->oom ? -TP_E_NO_MEMORY : 0;
}

static int draw(const struct tl_rdu *r, const char *dir, enum field f, const char *y_label, struct tp_err *e)
{
    const struct tl_svg_labels labels = {.title = "What a model learns from the chosen programs",
                                         .x = "programs measured, % of the pool",
                                         .y = y_label,
                                         .log_x = true,
                                         .mark = NAN};
    double x[TL_RDU_BUDGETS], y[TL_SVG_SERIES][TL_RDU_BUDGETS];
    struct tl_svg_series series[TL_SVG_SERIES];
    const uint32_t n = r->o->n_methods < TL_SVG_SERIES ? r->o->n_methods : TL_SVG_SERIES;
    char *path = NULL;
    if (asprintf(&path, "%s/rdu-%s.svg", dir, field_names[f]) < 0)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to draw");
    for (uint32_t b = 0; b < r->o->n_budgets; b++)
        x[b] = 100 * r->o->budget[b];
    for (uint32_t m = 0; m < n; m++) {
        for (uint32_t b = 0; b < r->o->n_budgets; b++)
            y[m][b] = mean(r, m, b, f);
        series[m] = (struct tl_svg_series){.name = r->o->method[m].name, .x = x, .y = y[m], .n = r->o->n_budgets};
    }
    int rc = tl_svg_lines(path, &labels, series, n, e);
    free(path);
    return rc;
}

int tl_rdu_draw(const struct tl_rdu *r, const char *dir, struct tp_err *e)
{
    int rc = draw(r, dir, PAIRWISE, "pairwise accuracy on unseen tasks", e);
    return rc ? rc : draw(r, dir, TOP1, "top-1 on unseen tasks, mean", e);
}
