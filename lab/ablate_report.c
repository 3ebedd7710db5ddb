/* The runs as a table, as JSON and as a plot: means over seeds, and the paired difference to the default (the same test
 * tasks, the same seed) with its 95 % interval over tasks and seeds. */
#include "lab/ablate.h"
#include "lab/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *title, *format;
} figures[TL_OUTCOME_N] = {
#define X(field, title, format) {#field, (title), (format)},
    TL_OUTCOME_FIGURES
#undef X
};

static const struct tl_outcome *run_of(const struct tl_ablation *a, int variant, int seed)
{
    return &a->run[variant * a->seeds + seed];
}

/* Mean over the seeds that were run; their number. */
static int mean(const struct tl_ablation *a, int variant, int figure, double *out)
{
    double sum = 0;
    int n = 0;
    for (int s = 0; s < a->seeds; s++) {
        if (run_of(a, variant, s)->n) {
            sum += run_of(a, variant, s)->figure[figure];
            n++;
        }
    }
    *out = sum / n;
    return n;
}

struct difference {
    double mean; /* NaN: no seed that both were run with */
    struct tm_interval interval;
};

/* Over the seeds that both were run with. */
static int difference(const struct tl_ablation *a, int variant, int figure, struct difference *out)
{
    const size_t n = run_of(a, 0, 0)->n;
    size_t runs = 0, valid = 0;
    double sum = 0, *d = malloc(((size_t)a->seeds * n + 1) * sizeof *d);
    if (d == NULL)
        return -TP_E_NO_MEMORY;
    for (int s = 0; s < a->seeds; s++) {
        const struct tl_outcome *v = run_of(a, variant, s), *base = run_of(a, 0, s);
        if (v->n != n || base->n != n)
            continue;
        for (size_t t = 0; t < n; t++) {
            const double x = d[runs * n + t] = v->by_task[figure][t] - base->by_task[figure][t];
            sum += isnan(x) ? 0 : x;
            valid += !isnan(x);
        }
        runs++;
    }
    out->mean = sum / (double)valid;
    int rc = tm_bootstrap_crossed(d, runs, n, 1, &out->interval);
    free(d);
    return rc;
}

static bool any(const struct tl_ablation *a, int variant)
{
    double ignored;
    return mean(a, variant, 0, &ignored) > 0;
}

static int row(const struct tl_ablation *a, int v, struct tp_buf *out)
{
    struct difference d;
    double x;
    int rc = 0, n = mean(a, v, 0, &x);
    tp_buf_printf(out, "| %s | %d |", tl_variants[v].name, n);
    for (int f = 0; f < TL_OUTCOME_N && rc == 0; f++) {
        mean(a, v, f, &x);
        tp_buf_puts(out, " ");
        tp_buf_printf(out, figures[f].format, x);
        tp_buf_puts(out, " |");
        if (f >= TL_OUTCOME_BY_TASK)
            continue;
        rc = difference(a, v, f, &d);
        if (v == 0 || isnan(d.mean))
            tp_buf_puts(out, " |");
        else
            tp_buf_printf(out, " %+.1f (%+.1f to %+.1f) |", 1e3 * d.mean, 1e3 * d.interval.lo, 1e3 * d.interval.hi);
    }
    tp_buf_puts(out, "\n");
    return rc;
}

int tl_ablation_markdown(const struct tl_ablation *a, struct tp_buf *out)
{
    const char *group = "";
    int rc = 0;
    for (int v = 0; v < tl_n_variants && rc == 0; v++) {
        if (!any(a, v))
            continue;
        if (strcmp(group, tl_variants[v].group) != 0) {
            group = tl_variants[v].group;
            tp_buf_printf(out, "\n| %s | seeds |", group);
            for (int f = 0; f < TL_OUTCOME_N; f++)
                tp_buf_printf(out, f < TL_OUTCOME_BY_TASK ? " %s | difference x 1000 |" : " %s |", figures[f].title);
            tp_buf_puts(out, "\n|---|---|");
            for (int f = 0; f < TL_OUTCOME_N; f++)
                tp_buf_puts(out, f < TL_OUTCOME_BY_TASK ? "---|---|" : "---|");
            tp_buf_puts(out, "\n");
        }
        rc = row(a, v, out);
    }
    return rc ? rc : out->oom ? -TP_E_NO_MEMORY : 0;
}

static int object(const struct tl_ablation *a, int v, struct tp_buf *out)
{
    double x;
    int rc = 0, n = mean(a, v, 0, &x);
    tp_buf_puts(out, "{\"group\": ");
    tp_buf_json_str(out, tl_variants[v].group, strlen(tl_variants[v].group));
    tp_buf_puts(out, ", \"name\": ");
    tp_buf_json_str(out, tl_variants[v].name, strlen(tl_variants[v].name));
    tp_buf_puts(out, ", \"change\": ");
    tp_buf_json_str(out, tl_variants[v].change, strlen(tl_variants[v].change));
    tp_buf_printf(out, ", \"seeds\": %d", n);
    for (int f = 0; f < TL_OUTCOME_N && rc == 0; f++) {
        struct difference d;
        mean(a, v, f, &x);
        tp_buf_printf(out, ", \"%s\": ", figures[f].name);
        tp_buf_json_num(out, x, 9);
        if (v == 0 || f >= TL_OUTCOME_BY_TASK)
            continue;
        rc = difference(a, v, f, &d);
        const double ends[] = {d.mean, d.interval.lo, d.interval.hi};
        static const char *const suffix[] = {"difference", "lo", "hi"};
        for (int i = 0; i < 3; i++) {
            tp_buf_printf(out, ", \"%s_%s\": ", figures[f].name, suffix[i]);
            tp_buf_json_num(out, ends[i], 9);
        }
    }
    tp_buf_puts(out, "}");
    return rc;
}

int tl_ablation_json(const struct tl_ablation *a, struct tp_buf *out)
{
    const char *sep = "";
    int rc = 0;
    tp_buf_puts(out, "{\"settings\": ");
    tp_buf_json_str(out, a->settings, strlen(a->settings));
    tp_buf_puts(out, ", \"variants\": [\n");
    for (int v = 0; v < tl_n_variants && rc == 0; v++) {
        if (!any(a, v))
            continue;
        tp_buf_puts(out, sep);
        sep = ",\n";
        rc = object(a, v, out);
    }
    tp_buf_puts(out, "\n]}\n");
    return rc ? rc : out->oom ? -TP_E_NO_MEMORY : 0;
}

int tl_ablation_plot(const struct tl_ablation *a, const char *path, struct tp_err *e)
{
    const struct tl_svg_labels labels = {.title = "Pairwise accuracy less that of the default, x 1000",
                                         .x = "difference, and 95 % of it over tasks and seeds",
                                         .mark = 0};
    struct tl_svg_dot *dots = calloc((size_t)tl_n_variants, sizeof *dots);
    size_t n = 0;
    int rc = dots ? 0 : -TP_E_NO_MEMORY;
    for (int v = 1; v < tl_n_variants && rc == 0; v++) {
        struct difference d;
        if (!any(a, v))
            continue;
        rc = difference(a, v, TL_OUTCOME_pairwise, &d);
        dots[n++] = (struct tl_svg_dot){tl_variants[v].name, 1e3 * d.mean, 1e3 * d.interval.lo, 1e3 * d.interval.hi};
    }
    if (rc)
        tp_fail(e, TP_E_NO_MEMORY, "no memory for the plot");
    else if (n > 0)
        rc = tl_svg_dots(path, &labels, dots, n, e);
    free(dots);
    return rc;
}
