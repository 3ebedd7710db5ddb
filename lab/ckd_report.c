/* Tables, JSON and plots of `lab ckd`. Differences are paired by test task and seed; the tasks of a seed's folds are
 * one list. */
#include "lab/ckd.h"
#include "lab/cli.h"
#include "lab/svg.h"

#include "model/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum field { PAIRWISE, TOP1, TOP5, FIELDS };
static const char *const field_name[FIELDS] = {"pairwise", "top1", "top5"};
static const char *const field_title[FIELDS] = {"pairwise", "top-1", "top-5"};

/* Where figures come from: a method at a budget, the model that serves or the knowledge base, on one hardware. */
struct source {
    const struct tl_ckd_results *r;
    uint32_t transfer, hop;
    enum tl_ckd_method method;
    uint32_t budget;
    int role;
    uint32_t hw;
};

static const struct tl_ckd_scores *scores(const struct source *s, uint32_t run)
{
    const struct tl_ckd_cell *c = tl_ckd_at(s->r, s->transfer, s->hop, s->method, s->budget, run);
    return c->done && c->score[s->role][s->hw].n ? &c->score[s->role][s->hw] : NULL;
}

static const double *values(const struct tl_ckd_scores *s, enum field f)
{
    return f == PAIRWISE ? s->pairwise : f == TOP1 ? s->top1 : s->top5;
}

struct figure {
    double value; /* NaN: there is none */
    struct tm_interval interval;
};

/* Of seed 0's runs: how many tasks; 0 if one of them has none. */
static uint32_t tasks(const struct source *s)
{
    uint32_t n = 0;
    for (uint32_t f = 0; f < tl_ckd_folds(s->r->o); f++) {
        const struct tl_ckd_scores *x = scores(s, f);
        if (!x)
            return 0;
        n += x->n;
    }
    return n;
}

/* A run's differences, in `to`; how many, or -1: not the same tasks. b may be NULL. */
static int differences(const struct source *a, const struct source *b, enum field f, uint32_t run, double *to)
{
    const struct tl_ckd_scores *x = scores(a, run), *y = b ? scores(b, run) : x;
    if (!x || !y || x->n != y->n)
        return -1;
    for (uint32_t i = 0; i < x->n; i++)
        to[i] = values(x, f)[i] - (b ? values(y, f)[i] : 0);
    return (int)x->n;
}

/* Mean over seeds and tasks of a, less b's where b is given. */
static int figure(const struct source *a, const struct source *b, enum field f, struct figure *out)
{
    const uint32_t n = tasks(a), runs = tl_ckd_runs(a->r->o), seeds = a->r->o->seeds;
    const size_t all = (size_t)n * seeds;
    double *v = tm_alloc(all, sizeof *v), sum = 0, counted = 0;
    size_t done = 0;
    *out = (struct figure){NAN, {NAN, NAN}};
    if (!v)
        return -TP_E_NO_MEMORY;
    for (uint32_t run = 0; run < runs && n; run++) {
        const struct tl_ckd_scores *x = scores(a, run);
        const int got = x && x->n <= all - done ? differences(a, b, f, run, v + done) : -1;
        if (got < 0)
            break;
        done += (size_t)got;
    }
    for (size_t i = 0; i < all && done == all; i++)
        if (!isnan(v[i])) {
            sum += v[i];
            counted++;
        }
    int rc = 0;
    if (counted > 0) {
        out->value = sum / counted;
        rc = tm_bootstrap_crossed(v, seeds, n, 1, &out->interval);
    }
    free(v);
    return rc;
}

static uint32_t target(const struct source *s)
{
    return s->r->o->transfer[s->transfer].n_sources + s->hop;
}

static const char *hardware(const struct source *s, uint32_t hw)
{
    return s->r->o->transfer[s->transfer].hardware[hw];
}

static double budget_of(const struct tl_ckd_opts *o, uint32_t b)
{
    return b < o->n_budgets ? o->budget[b] : 1;
}

/* Mean over runs of a number of the cells. */
static double number(const struct source *s, size_t offset)
{
    double sum = 0, n = 0;
    for (uint32_t run = 0; run < tl_ckd_runs(s->r->o); run++) {
        const struct tl_ckd_cell *c = tl_ckd_at(s->r, s->transfer, s->hop, s->method, s->budget, run);
        double v;
        memcpy(&v, (const char *)c + offset, sizeof v);
        if (c->done && !isnan(v)) {
            sum += v;
            n++;
        }
    }
    return sum / n;
}
#define NUMBER(s, field) number((s), offsetof(struct tl_ckd_cell, field))

static void put(struct tp_buf *b, double v)
{
    if (isnan(v))
        tp_buf_puts(b, " |");
    else
        tp_buf_printf(b, " %.2f |", 100 * v);
}

static void put_plain(struct tp_buf *b, int digits, double v)
{
    if (isnan(v))
        tp_buf_puts(b, " |");
    else
        tp_buf_printf(b, " %.*f |", digits, v);
}

static void put_difference(struct tp_buf *b, const struct figure *f)
{
    if (isnan(f->value))
        tp_buf_puts(b, " |");
    else
        tp_buf_printf(b, " %+.2f (%+.2f to %+.2f) |", 100 * f->value, 100 * f->interval.lo, 100 * f->interval.hi);
}

static void put_name(struct tp_buf *b, const struct source *s)
{
    tp_buf_printf(b, "| %s", hardware(s, 0));
    for (uint32_t h = 1; h <= target(s); h++)
        tp_buf_printf(b, "%s%s", h < s->r->o->transfer[s->transfer].n_sources ? " + " : " → ", hardware(s, h));
    tp_buf_printf(b, " | %g %% |", 100 * budget_of(s->r->o, s->budget));
}

/* Calls fn for every transfer, hop and budget where the method has cells. */
typedef int (*row_fn)(struct source *s, const void *arg, struct tp_buf *b);
static int each(const struct tl_ckd_results *r, enum tl_ckd_method m, row_fn fn, const void *arg, struct tp_buf *b)
{
    int rc = 0;
    for (uint32_t t = 0; t < r->o->n_transfers; t++)
        for (uint32_t h = 0; h < r->o->transfer[t].n - r->o->transfer[t].n_sources; h++)
            for (uint32_t g = 0; g < r->o->n_budgets && rc == 0; g++) {
                struct source s = {r, t, h, m, g, TL_CKD_AC, 0};
                s.hw = target(&s);
                if (scores(&s, 0))
                    rc = fn(&s, arg, b);
            }
    return rc;
}

/* ---- figures of each method ---- */

static int figures_row(struct source *s, struct tp_buf *b)
{
    struct figure f;
    put_name(b, s);
    tp_buf_printf(b, " %s |", tl_ckd_method_name(s->method));
    for (int i = 0; i < FIELDS; i++) {
        if (figure(s, NULL, (enum field)i, &f))
            return -TP_E_NO_MEMORY;
        put(b, f.value);
    }
    tp_buf_printf(b, " %.0f | %.0f | %.1f |\n", NUMBER(s, programs), NUMBER(s, bytes) / 1024, NUMBER(s, seconds));
    return 0;
}

static int figures(const struct tl_ckd_results *r, struct tp_buf *b)
{
    int rc = 0;
    tp_buf_puts(b,
                "### Target's test tasks\n\n| transfer | data | method | pairwise, % | top-1 | top-5 | programs | KiB "
                "for the hardware | training, CPU s |\n|---|---|---|---|---|---|---|---|---|\n");
    for (uint32_t t = 0; t < r->o->n_transfers; t++)
        for (uint32_t h = 0; h < r->o->transfer[t].n - r->o->transfer[t].n_sources; h++)
            for (uint32_t g = 0; g <= r->o->n_budgets; g++)
                for (int m = 0; m < TL_CKD_METHOD_COUNT && rc == 0; m++) {
                    struct source s = {r, t, h, (enum tl_ckd_method)m, g, TL_CKD_AC, 0};
                    s.hw = target(&s);
                    if (scores(&s, 0))
                        rc = figures_row(&s, b);
                }
    return rc;
}

/* ---- what a method gains over others ---- */

struct gains {
    const char *title;
    enum tl_ckd_method method;
    int n;
    struct other {
        const char *name;
        enum tl_ckd_method method;
        bool all; /* with all of the target's programs, not the budget's */
    } other[8];
    enum field field;
};
static const struct gains gains_of[] = {
    {.title = "CKD less the others",
     .method = TL_CKD_CKD,
     .n = 5,
     .other = {{"scratch", TL_CKD_SCRATCH, false},
               {"fine-tune", TL_CKD_TUNE, false},
               {"zero-shot", TL_CKD_ZERO, false},
               {"multi-task", TL_CKD_MTL, false},
               {"scratch with all", TL_CKD_SCRATCH, true}}},
    {.title = "Cold start less the other",
     .method = TL_CKD_COLD,
     .n = 1,
     .other = {{"scratch", TL_CKD_SCRATCH, false}}},
    {.title = "Ablation, all less the others",
     .method = TL_CKD_ALL,
     .n = 8,
     .other = {{"plain, random", TL_CKD_PLAIN, false},
               {"+ RDU", TL_CKD_PLAIN_RDU, false},
               {"+ Mamba", TL_CKD_SCRATCH, false},
               {"+ CKD", TL_CKD_PLAIN_CKD, false},
               {"all but RDU", TL_CKD_CKD, false},
               {"fine-tune", TL_CKD_TUNE, false},
               {"zero-shot", TL_CKD_ZERO, false},
               {"scratch with all", TL_CKD_SCRATCH, true}}},
};

/* A row: the difference to each of them in one figure. */
static int gains_row(struct source *s, const void *arg, struct tp_buf *b)
{
    const struct gains *g = arg;
    put_name(b, s);
    for (int k = 0; k < g->n; k++) {
        struct source o = *s;
        struct figure d;
        o.method = g->other[k].method;
        o.budget = g->other[k].all ? s->r->o->n_budgets : s->budget;
        if (figure(s, &o, g->field, &d))
            return -TP_E_NO_MEMORY;
        put_difference(b, &d);
    }
    tp_buf_putc(b, '\n');
    return 0;
}

/* A table; none where the method has no cells. */
static int gains_table(const struct tl_ckd_results *r, const struct gains *g, struct tp_buf *b)
{
    struct tp_buf rows = {0};
    int rc = each(r, g->method, gains_row, g, &rows);
    if (rows.n) {
        tp_buf_printf(b, "\n### %s: %s, points with 95 %% intervals\n\n| transfer | data |", g->title,
                      field_title[g->field]);
        for (int k = 0; k < g->n; k++)
            tp_buf_printf(b, " %s |", g->other[k].name);
        tp_buf_puts(b, "\n|---|---|");
        for (int k = 0; k < g->n; k++)
            tp_buf_puts(b, "---|");
        tp_buf_putc(b, '\n');
        tp_buf_put(b, rows.p, rows.n);
    }
    rc = rc || rows.oom ? -TP_E_NO_MEMORY : 0;
    tp_buf_free(&rows);
    return rc;
}

static int gains(const struct tl_ckd_results *r, struct tp_buf *b)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof gains_of / sizeof *gains_of; i++)
        for (int f = 0; f < FIELDS && rc == 0; f++) {
            struct gains g = gains_of[i];
            g.field = (enum field)f;
            rc = gains_table(r, &g, b);
        }
    return rc;
}

/* ---- what older hardware loses ---- */

static int forgetting_row(struct source *s, const void *arg, struct tp_buf *b)
{
    (void)arg;
    static const struct {
        enum tl_ckd_method method;
        int role;
    } model[] = {{TL_CKD_CKD, TL_CKD_KB}, {TL_CKD_NO_EWC, TL_CKD_KB}, {TL_CKD_TUNE, TL_CKD_AC}};
    struct figure f;
    for (uint32_t h = 0; h < target(s); h++) {
        /* before the first hop: the sources' knowledge base */
        const struct source before = {s->r, s->transfer, 0, TL_CKD_ZERO, s->budget, TL_CKD_AC, h};
        if (h >= s->r->o->transfer[s->transfer].n_sources)
            continue; /* learned on the way: there is no "before" */
        put_name(b, s);
        tp_buf_printf(b, " %s |", hardware(s, h));
        for (int i = 0; i < 2; i++)
            for (size_t k = 0; k < sizeof model / sizeof *model; k++) {
                const struct source after = {s->r, s->transfer, s->hop, model[k].method, s->budget, model[k].role, h};
                if (figure(&after, &before, (enum field)i, &f))
                    return -TP_E_NO_MEMORY;
                put_difference(b, &f);
            }
        tp_buf_putc(b, '\n');
    }
    return 0;
}

static int forgetting(const struct tl_ckd_results *r, struct tp_buf *b)
{
    tp_buf_puts(
        b, "\n### Older hardware's test tasks: change of the knowledge base, points with 95 % intervals\n\n| transfer "
           "| data | older | pairwise: CKD | without EWC | fine-tuned model | top-1: CKD | without EWC | fine-tuned "
           "model |\n|---|---|---|---|---|---|---|---|---|\n");
    return each(r, TL_CKD_CKD, forgetting_row, NULL, b);
}

/* ---- gate and trust ---- */

static int gate_row(struct source *s, const void *arg, struct tp_buf *b)
{
    (void)arg;
    put_name(b, s);
    for (uint32_t run = 0; run < tl_ckd_runs(s->r->o); run++) {
        const struct tl_ckd_cell *c = tl_ckd_at(s->r, s->transfer, s->hop, s->method, s->budget, run);
        tp_buf_printf(b, "%s%s", run ? ", " : " ", c->done ? tk_gate_name((enum tk_gate)c->gate) : "");
    }
    tp_buf_puts(b, " |");
    for (uint32_t run = 0; run < tl_ckd_runs(s->r->o); run++) {
        const struct tl_ckd_cell *c = tl_ckd_at(s->r, s->transfer, s->hop, s->method, s->budget, run);
        tp_buf_printf(b, "%s%s", run ? ", " : " ",
                      c->done && !isnan(c->rival) ? tk_rival_name((enum tk_rival)c->rival) : "none");
        if (c->done && !isnan(c->peer))
            tp_buf_printf(b, " (%s)", s->r->o->transfer[s->transfer].hardware[(uint32_t)c->peer]);
    }
    tp_buf_puts(b, " |");
    put_plain(b, 3, NUMBER(s, gate_mean));
    put_plain(b, 3, NUMBER(s, gate_lower));
    put_plain(b, 2, NUMBER(s, phi_cl));
    put_plain(b, 2, NUMBER(s, phi_kd));
    put_plain(b, 2, NUMBER(s, activated));
    put_plain(b, 2, NUMBER(s, accepted));
    put_plain(b, 2, NUMBER(s, attempts));
    tp_buf_putc(b, '\n');
    return 0;
}

static int gate(const struct tl_ckd_results *r, struct tp_buf *b)
{
    tp_buf_puts(b,
                "\n### Gate, trust and acceptance, mean over seeds\n\n| transfer | data | verdict by seed | rival that "
                "won | concordance | at least | Φ at the end of CL | of KD | AC activated | KB accepted | attempts "
                "|\n|---|---|---|---|---|---|---|---|---|---|---|\n");
    return each(r, TL_CKD_CKD, gate_row, NULL, b);
}

int tl_ckd_markdown(const struct tl_ckd_results *r, struct tp_buf *b)
{
    tp_buf_printf(b, "%u seeds, at most %u programs of each training task.%s", r->o->seeds, r->o->per_task,
                  r->o->tune > 0 ? " Tuning: the test tasks are not used." : "");
    if (r->o->folds)
        tp_buf_printf(b, " Every task is tested once, by models that learned from the other folds of %u.", r->o->folds);
    tp_buf_puts(b, "\n\n");
    return figures(r, b) || gains(r, b) || forgetting(r, b) || gate(r, b) || b->oom ? -TP_E_NO_MEMORY : 0;
}

/* ---- JSON ---- */

static int cell_json(const struct source *of, struct tp_buf *b, bool first)
{
    struct source s = *of;
    struct figure f;
    const struct tl_ckd_transfer *t = &s.r->o->transfer[s.transfer];
    tp_buf_puts(b, first ? "\n {\"transfer\": " : ",\n {\"transfer\": ");
    tp_buf_json_str(b, t->name, strlen(t->name));
    tp_buf_printf(b, ", \"target\": \"%s\", \"method\": \"%s\"", hardware(&s, target(&s)),
                  tl_ckd_method_name(s.method));
    tl_put_number(b, "budget", "", budget_of(s.r->o, s.budget));
    for (s.role = 0; s.role < TL_CKD_ROLES; s.role++)
        for (s.hw = 0; s.hw <= target(&s); s.hw++)
            for (int i = 0; i < FIELDS; i++) {
                char key[128];
                if (figure(&s, NULL, (enum field)i, &f))
                    return -TP_E_NO_MEMORY;
                snprintf(key, sizeof key, "%s_%s_", s.role == TL_CKD_AC ? "ac" : "kb", hardware(&s, s.hw));
                if (!isnan(f.value))
                    tl_put_number(b, key, field_name[i], f.value);
            }
    s.role = TL_CKD_AC;
    tl_put_number(b, "programs", "", NUMBER(&s, programs));
    tl_put_number(b, "bytes", "", NUMBER(&s, bytes));
    tl_put_number(b, "cpu_seconds", "", NUMBER(&s, seconds));
    tl_put_number(b, "gate", "", NUMBER(&s, gate));
    tl_put_number(b, "gate_mean", "", NUMBER(&s, gate_mean));
    tl_put_number(b, "gate_lower", "", NUMBER(&s, gate_lower));
    tl_put_number(b, "phi_cl", "", NUMBER(&s, phi_cl));
    tl_put_number(b, "phi_kd", "", NUMBER(&s, phi_kd));
    tl_put_number(b, "activated", "", NUMBER(&s, activated));
    tl_put_number(b, "accepted", "", NUMBER(&s, accepted));
    tp_buf_putc(b, '}');
    return 0;
}

int tl_ckd_json(const struct tl_ckd_results *r, struct tp_buf *b)
{
    bool first = true;
    tp_buf_printf(b, "{\"seeds\": %u, \"per_task\": %u, \"tune\": %g, \"folds\": %u, \"rows\": [", r->o->seeds,
                  r->o->per_task, r->o->tune, r->o->folds);
    for (uint32_t t = 0; t < r->o->n_transfers; t++)
        for (uint32_t h = 0; h < r->o->transfer[t].n - r->o->transfer[t].n_sources; h++)
            for (uint32_t g = 0; g <= r->o->n_budgets; g++)
                for (int m = 0; m < TL_CKD_METHOD_COUNT; m++) {
                    const struct source s = {r, t, h, (enum tl_ckd_method)m, g, TL_CKD_AC, 0};
                    if (!tl_ckd_at(r, t, h, s.method, g, 0)->done)
                        continue;
                    if (cell_json(&s, b, first))
                        return -TP_E_NO_MEMORY;
                    first = false;
                }
    tp_buf_puts(b, "\n]}\n");
    return b->oom ? -TP_E_NO_MEMORY : 0;
}

/* ---- plots ---- */

enum { DOTS = 128, DOT_NAME = 192 };

struct dots {
    struct tl_svg_dot dot[DOTS];
    char name[DOTS][DOT_NAME];
    size_t n;
};

static void add_dot(struct dots *d, const struct source *s, const char *what, const struct figure *f)
{
    if (d->n == DOTS || isnan(f->value))
        return;
    snprintf(d->name[d->n], DOT_NAME, "%s (%s) %s", hardware(s, target(s)), s->r->o->transfer[s->transfer].name, what);
    d->dot[d->n] = (struct tl_svg_dot){d->name[d->n], 100 * f->value, 100 * f->interval.lo, 100 * f->interval.hi};
    d->n++;
}

/* The budget nearest to a tenth. */
static uint32_t tenth(const struct tl_ckd_opts *o)
{
    uint32_t best = 0;
    for (uint32_t b = 1; b < o->n_budgets; b++)
        if (fabs(o->budget[b] - 0.1) < fabs(o->budget[best] - 0.1))
            best = b;
    return best;
}

static int collect(const struct tl_ckd_results *r, bool old, struct dots *d)
{
    struct figure f;
    for (uint32_t t = 0; t < r->o->n_transfers; t++)
        for (uint32_t h = 0; h < r->o->transfer[t].n - r->o->transfer[t].n_sources; h++) {
            struct source s = {r, t, h, TL_CKD_CKD, tenth(r->o), TL_CKD_AC, 0}, o = s;
            s.hw = o.hw = target(&s);
            const struct source zero = {r, t, 0, TL_CKD_ZERO, s.budget, TL_CKD_AC, 0};
            const struct source with = {r, t, h, TL_CKD_CKD, s.budget, TL_CKD_KB, 0};
            const struct source without = {r, t, h, TL_CKD_NO_EWC, s.budget, TL_CKD_KB, 0};
            o.method = TL_CKD_SCRATCH;
            if (figure(old ? &with : &s, old ? &zero : &o, PAIRWISE, &f))
                return -TP_E_NO_MEMORY;
            add_dot(d, &s, old ? "with EWC" : "less scratch", &f);
            o.method = TL_CKD_TUNE;
            if (figure(old ? &without : &s, old ? &zero : &o, PAIRWISE, &f))
                return -TP_E_NO_MEMORY;
            add_dot(d, &s, old ? "without" : "less fine-tune", &f);
        }
    return 0;
}

static int draw(const struct tl_ckd_results *r, const char *dir, bool old, struct tp_err *e)
{
    char title[128], path[4096];
    struct dots *d = calloc(1, sizeof *d);
    int rc = d ? collect(r, old, d) : -TP_E_NO_MEMORY;
    if (rc)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to draw");
    snprintf(title, sizeof title, "%s, %g %% of the target's programs",
             old ? "Pairwise change on the first source's test tasks" : "Pairwise of CKD on the target's test tasks",
             100 * budget_of(r->o, tenth(r->o)));
    const struct tl_svg_labels labels = {.title = title, .x = "points", .y = "", .mark = 0};
    snprintf(path, sizeof path, "%s/%s.svg", dir, old ? "ckd-forgetting" : "ckd-pairwise");
    if (rc == 0 && d->n)
        rc = tl_svg_dots(path, &labels, d->dot, d->n, e);
    free(d);
    return rc;
}

int tl_ckd_draw(const struct tl_ckd_results *r, const char *dir, struct tp_err *e)
{
    int rc = r->o->n_budgets ? draw(r, dir, false, e) : 0;
    return rc ? rc : draw(r, dir, true, e);
}
