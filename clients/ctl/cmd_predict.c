/* tclctl predict: scores of the programs of a log, or the best of them.
 *
 * Long logs go in several calls; each is answered by one model, and when tcld switches in between, that is said. */
#include "clients/ctl/ctl.h"
#include "clients/ctl/lines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_LINES = 8192, BATCH_BYTES = 8 << 20 };

const struct ctl_opt ctl_predict_opts[] = {{"model", "WHICH", "active, ac, kb or the id of a model"},
                                           {"uncertainty", NULL, "with the spread of ln(latency)"},
                                           {"top", "N", "only the N highest scores, highest first"},
                                           {0}};

struct row {
    const char *file;
    long long line;
    double score, latency, std;
};

struct predict {
    struct ctl *c;
    const char *path;
    struct row *row;
    size_t n, cap, unusable;
    json_t *errors, *model;
};

static int add_row(struct predict *p, struct row r)
{
    if (p->n == p->cap) {
        size_t cap = p->cap * 2 + 1024;
        struct row *more = realloc(p->row, cap * sizeof *more);
        if (!more)
            return ctl_fail(p->c, CTL_FAILED, "out of memory");
        p->row = more;
        p->cap = cap;
    }
    p->unusable += isnan(r.score);
    p->row[p->n++] = r;
    return CTL_OK;
}

static void take_errors(struct predict *p, const char *file, const struct ln_batch *b, const json_t *reply)
{
    json_t *error;
    size_t i;

    json_array_foreach(tc_at(reply, "/errors"), i, error)
    {
        long long line = b->line + tc_int(error, "/line", 1) - 1;
        json_object_set_new(error, "line", json_integer(line));
        json_object_set_new(error, "index", json_integer(tc_int(error, "/index", 0) + (json_int_t)p->n));
        json_object_set_new(error, "file", json_string(file));
        json_array_append(p->errors, error);
    }
}

/* Equal errors in one line: most often all records have the same. */
static void print_errors(const struct predict *p)
{
    enum { LINES_SHOWN = 3 };
    json_t *groups = json_object(), *error, *g;
    const char *why;
    size_t i;

    json_array_foreach(p->errors, i, error)
    {
        why = ctl_printf(p->c, "%s: %s", tc_str(error, "/code"), tc_str(error, "/detail"));
        if (!(g = json_object_get(groups, why)))
            json_object_set_new(groups, why, g = json_array());
        json_array_append(g, error);
    }
    json_object_foreach(groups, why, g)
    {
        size_t n = json_array_size(g);
        const char *file = "", *last = "";
        if (n > 1)
            fprintf(stderr, "%zu records: %s (", n, why);
        for (i = 0; i < n && i < LINES_SHOWN; i++, last = file) {
            file = tc_str(json_array_get(g, i), "/file");
            fprintf(stderr, "%s", i ? ", " : "");
            if (strcmp(file, last))
                fprintf(stderr, "%s:", file);
            fprintf(stderr, "%lld", (long long)tc_int(json_array_get(g, i), "/line", 0));
        }
        if (n > 1)
            fprintf(stderr, "%s)\n", n > LINES_SHOWN ? ", ..." : "");
        else
            fprintf(stderr, ": %s\n", why);
    }
    json_decref(groups);
}

static int take_reply(struct predict *p, const char *file, const struct ln_batch *b, const json_t *reply)
{
    const json_t *scores = tc_at(reply, "/scores"), *latency = tc_at(reply, "/latency_seconds"),
                 *std = tc_at(reply, "/latency_std_log"), *model = tc_at(reply, "/model");
    const char *at = b->p, *end = b->p + b->n;
    size_t i = 0;
    int rc = CTL_OK;

    take_errors(p, file, b, reply);
    if (p->model && !json_equal(p->model, model))
        ctl_note(p->c, "from %s:%lld on another model answers: its scores do not compare with those before", file,
                 b->line);
    json_decref(p->model);
    p->model = json_incref((json_t *)(uintptr_t)model);
    for (long long k = 0; !rc && at < end; k++) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        if (!ln_is_skipped(at, (size_t)(nl - at))) {
            const json_t *s = json_array_get(scores, i), *l = json_array_get(latency, i), *d = json_array_get(std, i);
            rc = add_row(p, (struct row){.file = file,
                                         .line = b->line + k,
                                         .score = json_is_number(s) ? json_number_value(s) : (double)NAN,
                                         .latency = json_is_number(l) ? json_number_value(l) : (double)NAN,
                                         .std = json_is_number(d) ? json_number_value(d) : (double)NAN});
            i++;
        }
        at = nl + 1;
    }
    if (!rc && i != json_array_size(scores))
        rc = ctl_fail(p->c, CTL_FAILED, "%s: %zu scores came for %zu records", file, json_array_size(scores), i);
    return rc;
}

static int one_file(struct predict *p, const char *file)
{
    struct ln_reader *r = ln_open(file, &p->c->err);
    struct ln_batch b;
    int rc = r ? CTL_OK : CTL_FAILED, got = 0;

    while (!rc && (got = ln_next(r, BATCH_BYTES, BATCH_LINES, &b, &p->c->err)) > 0) {
        json_t *reply = NULL;
        struct tp_buf lines = {.p = (char *)(uintptr_t)b.p, .n = b.n};
        rc = ctl_post(p->c, p->path, &lines, 0, &reply);
        if (!rc)
            rc = take_reply(p, file, &b, reply);
        json_decref(reply);
        ctl_progress(p->c, "predict", NAN, "%zu programs", p->n);
    }
    ln_close(r);
    return !rc && got < 0 ? CTL_FAILED : rc;
}

static int by_score(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (isnan(x->score) || isnan(y->score))
        return isnan(x->score) - isnan(y->score);
    return (x->score < y->score) - (x->score > y->score);
}

static json_t *number(double v)
{
    return isnan(v) ? json_null() : json_real(v);
}

static void print_json(const struct predict *p, bool with_std, bool with_lines)
{
    json_t *scores = json_array(), *latency = json_array(), *std = json_array(), *lines = json_array();
    for (size_t i = 0; i < p->n; i++) {
        json_array_append_new(scores, number(p->row[i].score));
        json_array_append_new(latency, number(p->row[i].latency));
        json_array_append_new(std, number(p->row[i].std));
        json_array_append_new(lines, json_integer(p->row[i].line));
    }
    json_t *j = json_pack("{s:O?, s:o, s:o, s:O}", "model", p->model, "scores", scores, "latency_seconds", latency,
                          "errors", p->errors);
    if (with_std)
        json_object_set(j, "latency_std_log", std);
    if (with_lines)
        json_object_set(j, "lines", lines);
    json_decref(std);
    json_decref(lines);
    ctl_json_out(j);
    json_decref(j);
}

static void print_table(const struct predict *p, bool with_std)
{
    static const char *const heads[] = {"PROGRAM", "SCORE", "LATENCY", NULL}, *const with[] = {"PROGRAM", "SCORE",
                                                                                               "LATENCY", "STD-LN",
                                                                                               NULL};
    struct ctl_table *t = ctl_table_new(p->c, with_std ? with : heads);
    for (size_t i = 0; i < p->n; i++) {
        const struct row *r = &p->row[i];
        ctl_cell(t, "%s:%lld", r->file, r->line);
        ctl_cell_num(t, r->score, "%.6f");
        ctl_cell(t, "%s", ctl_seconds(p->c, r->latency));
        if (with_std)
            ctl_cell_num(t, r->std, "%.3f");
    }
    ctl_table_print(t);
}

int ctl_predict(struct ctl *c, const struct ctl_args *a)
{
    struct predict p = {.c = c, .errors = json_array()};
    const char *model = ctl_get(a, "model"), *top = ctl_get(a, "top");
    bool with_std = ctl_has(a, "uncertainty");
    long long most = 0;
    char **files = NULL;
    int rc = top ? ctl_read_int(c, "--top", top, 1, &most) : CTL_OK;

    p.path =
        ctl_printf(c, "%s%s", ctl_path(c, "/v1/hardware/%s/predict?model=%s", a->word[0], model ? model : "active"),
                   with_std ? "&uncertainty=true" : "");
    if (!rc && ln_files(a->word + 1, a->n - 1, &files, &c->err))
        rc = CTL_FAILED;
    for (char **f = files; !rc && f && *f; f++)
        rc = one_file(&p, *f);
    ctl_progress_end(c);
    print_errors(&p);
    if (!rc) {
        size_t unusable = p.unusable;
        if (most) {
            qsort(p.row, p.n, sizeof *p.row, by_score);
            p.n -= unusable; /* those stand last */
            p.n = (size_t)most < p.n ? (size_t)most : p.n;
        }
        if (c->json)
            print_json(&p, with_std, most > 0);
        else if (p.n > (most ? 0 : unusable)) /* not a table of dashes */
            print_table(&p, with_std);
        rc = unusable ? CTL_PARTLY : CTL_OK;
    }
    ln_files_free(files);
    json_decref(p.errors);
    json_decref(p.model);
    free(p.row);
    return rc;
}
