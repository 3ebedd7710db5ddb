/* The runs as a table, as JSON and as a plot: means over seeds, and the paired difference to the default (the same test
 * tasks, the same seed) with its 95 % interval over tasks and seeds. */
#include "lab/ablate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *title, *format;
} figures[TL_TRIAL_N] = {
#define X(field, title, format) {#field, (title), (format)},
    TL_TRIAL_FIGURES
#undef X
};

static const struct tl_trial *run_of(const struct tl_ablation *a, int variant, int seed)
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

static int difference(const struct tl_ablation *a, int variant, int figure, struct difference *out)
{
    size_t n = 0, most = 0;
    double sum = 0;
    for (int s = 0; s < a->seeds; s++)
        most += run_of(a, variant, s)->n;
    double *d = malloc((most + 1) * sizeof *d);
    if (d == NULL)
        return -TP_E_NO_MEMORY;
    for (int s = 0; s < a->seeds; s++) {
        const struct tl_trial *v = run_of(a, variant, s), *base = run_of(a, 0, s);
        for (uint32_t t = 0; v->n == base->n && t < v->n; t++)
            if (!isnan(v->by_task[figure][t] - base->by_task[figure][t]))
                sum += d[n++] = v->by_task[figure][t] - base->by_task[figure][t];
    }
    out->mean = sum / (double)n;
    int rc = tm_bootstrap_mean(d, n, 1, &out->interval);
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
    for (int f = 0; f < TL_TRIAL_N && rc == 0; f++) {
        mean(a, v, f, &x);
        tp_buf_puts(out, " ");
        tp_buf_printf(out, figures[f].format, x);
        tp_buf_puts(out, " |");
        if (f >= TL_TRIAL_BY_TASK)
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
            for (int f = 0; f < TL_TRIAL_N; f++)
                tp_buf_printf(out, f < TL_TRIAL_BY_TASK ? " %s | difference x 1000 |" : " %s |", figures[f].title);
            tp_buf_puts(out, "\n|---|---|");
            for (int f = 0; f < TL_TRIAL_N; f++)
                tp_buf_puts(out, f < TL_TRIAL_BY_TASK ? "---|---|" : "---|");
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
    for (int f = 0; f < TL_TRIAL_N && rc == 0; f++) {
        struct difference d;
        mean(a, v, f, &x);
        tp_buf_printf(out, ", \"%s\": ", figures[f].name);
        tp_buf_json_num(out, x, 9);
        if (v == 0 || f >= TL_TRIAL_BY_TASK)
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
