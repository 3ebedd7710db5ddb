/* tclctl import, candidates add: logs into tcld, batch by batch, resumable.
 *
 * A batch has at most 1,000 lines, which is as many errors as a reply lists: no bad line goes unreported, and since the
 * journal moves on with each answer, none is reported twice. The journal is believed when tcld still has what was
 * imported last: it may serve an older copy of its database now. */
#include "clients/ctl/ctl.h"
#include "clients/ctl/journal.h"
#include "clients/ctl/lines.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

enum {
    BATCH_LINES = 1000,
    BATCH_BYTES = 4 << 20,
    ERRORS_SHOWN = 1000, /* in --json */
    PROOF = 8            /* records that show whether tcld has what the journal says */
};
static const double save_seconds = 1; /* between writes of the journal */

const struct ctl_opt ctl_import_opts[] = {
    {"agent", "NAME", "who measured"},
    {"again", NULL, "post what was imported before, too"},
    {"patience", "SECONDS", "how long to try again while tcld does not answer (60)"},
    {0}};
const struct ctl_opt ctl_candidates_opts[] = {
    {"repeat", "N", "add: measure each so often (1)"},
    {"state", "STATE", "list: only pooled, selected, leased, measured or failed ones"},
    {"limit", "N", "list: at most so many (100; 0: all)"},
    {"again", NULL, "add: post what was added before, too"},
    {"patience", "SECONDS", "add: how long to try again while tcld does not answer (60)"},
    {0}};

struct import {
    struct ctl *c;
    const char *path; /* of the POST */
    const char *what; /* "import" */
    struct jn_journal *journal;
    double patience, began, saved;
    long long accepted, duplicates, rejected, files, skipped, bytes; /* so far */
    long long total;                                                 /* bytes of all files; 0 unknown */
    json_t *errors;
};

static void report(struct import *x, const char *file, const struct ln_batch *b, const json_t *reply)
{
    const json_t *error;
    size_t i;

    json_array_foreach(tc_at(reply, "/errors"), i, error)
    {
        long long line = b->line + tc_int(error, "/line", 1) - 1;
        const char *code = tc_str(error, "/code"), *detail = tc_str(error, "/detail");
        ctl_progress_end(x->c);
        fprintf(stderr, "%s:%lld: %s: %s\n", file, line, code ? code : "rejected", detail ? detail : "");
        if (json_array_size(x->errors) < ERRORS_SHOWN)
            json_array_append_new(x->errors, json_pack("{s:s, s:I, s:s?, s:s?}", "file", file, "line", (json_int_t)line,
                                                       "code", code, "detail", detail));
    }
}

static void show_progress(struct import *x, long long done)
{
    double seconds = tc_now() - x->began, share = x->total ? (double)done / (double)x->total : (double)NAN;
    long long records = x->accepted + x->duplicates + x->rejected;

    ctl_progress(x->c, x->what, share, "%lld records, %lld rejected, %.0f/s%s", records, x->rejected,
                 seconds > 0 ? (double)records / seconds : 0,
                 share > 0.02 ? ctl_printf(x->c, ", %s left", ctl_seconds(x->c, seconds / share * (1 - share))) : "");
}

static int one_batch(struct import *x, const char *file, long long size, struct ln_reader *r, const struct ln_batch *b)
{
    json_t *reply = NULL;
    struct tp_buf lines = {.p = (char *)(uintptr_t)b->p, .n = b->n};
    int rc = ctl_post(x->c, x->path, &lines, x->patience, &reply);
    bool regular = strcmp(file, "-") != 0;

    /* a body of comments alone has no records: that is said with 400 */
    if (rc == CTL_REFUSED && strstr(x->c->err.text, "400 No records")) {
        x->c->err.text[0] = '\0';
        rc = CTL_OK;
    }
    if (rc)
        return rc;
    long long rejected = tc_int(reply, "/rejected", 0);
    bool later = b->torn && rejected; /* half a line: it is written on, or will be read again when it is */
    x->accepted += tc_int(reply, "/accepted", 0);
    x->duplicates += tc_int(reply, "/duplicates", 0);
    x->rejected += rejected;
    report(x, file, b, reply);
    json_decref(reply);
    if (regular && !later)
        jn_set(x->journal, file,
               (struct jn_mark){.offset = ln_offset(r), .lines = b->line + b->lines - 1, .size = size});
    if (rejected || tc_now() - x->saved > save_seconds) {
        if (jn_save(x->journal, &x->c->err))
            return CTL_FAILED;
        x->saved = tc_now();
    }
    return CTL_OK;
}

static int one_file(struct import *x, const char *file)
{
    bool regular = strcmp(file, "-") != 0;
    struct jn_mark at = regular ? jn_find(x->journal, file) : (struct jn_mark){0};
    struct ln_reader *r = NULL;
    struct ln_batch b = {0};
    struct stat st = {0};
    int rc = CTL_OK, got = 0;

    if (regular)
        stat(file, &st);
    x->files++;
    if (at.whole) {
        x->skipped++;
        x->bytes += st.st_size;
        return CTL_OK;
    }
    if (!(r = ln_open(file, &x->c->err)) || ln_skip(r, at.offset, at.lines, &x->c->err)) {
        ln_close(r);
        return CTL_FAILED;
    }
    if (at.offset)
        ctl_note(x->c, "%s: going on at line %lld", file, at.lines + 1);
    while (!rc && (got = ln_next(r, BATCH_BYTES, BATCH_LINES, &b, &x->c->err)) > 0) {
        rc = ctl_stopped() ? CTL_INTERRUPTED : one_batch(x, file, st.st_size, r, &b);
        show_progress(x, x->bytes + ln_done(r));
    }
    if (!rc && got < 0)
        rc = CTL_FAILED;
    x->bytes += regular ? st.st_size : ln_done(r);
    if (!rc && regular) {
        at = jn_find(x->journal, file);
        at.whole = true;
        at.size = st.st_size;
        jn_set(x->journal, file, at);
    }
    ln_close(r);
    return rc;
}

/* ---- may the journal be believed? ---- */

/* The text of a file up to `end`, or the last part of it that is long enough. -1: it cannot be read. */
static int read_tail(const char *file, long long end, struct tp_buf *out)
{
    long long at = end > BATCH_BYTES ? end - BATCH_BYTES : 0;
    struct tc_err e;
    struct ln_batch b;
    struct ln_reader *r = ln_open(file, &e);
    int rc = r ? ln_skip(r, at, 0, &e) : -1, got = 0;

    while (!rc && at < end && (got = ln_next(r, BATCH_BYTES, BATCH_LINES, &b, &e)) > 0) {
        tp_buf_put(out, b.p, (long long)b.n > end - at ? (size_t)(end - at) : b.n);
        at = ln_offset(r);
    }
    ln_close(r);
    return rc || got < 0 || out->oom ? -1 : 0;
}

static bool is_measured(const char *line, size_t n)
{
    json_t *j = ln_is_skipped(line, n) ? NULL : json_loadb(line, n, 0, NULL);
    bool good = json_is_array(tc_at(j, "/i")) && json_is_array(tc_at(j, "/r"));
    json_decref(j);
    return good;
}

/* The last PROOF records of a text: tcld may have refused one of them. */
static void last_records(const struct tp_buf *text, struct tp_buf *out)
{
    size_t end = text->n;

    for (int found = 0; found < PROOF && end > 0;) {
        size_t at = end - (text->p[end - 1] == '\n'), n = at;
        while (at > 0 && text->p[at - 1] != '\n')
            at--;
        n -= at;
        if (is_measured(text->p + at, n)) {
            tp_buf_put(out, text->p + at, n);
            tp_buf_putc(out, '\n');
            found++;
        }
        end = at;
    }
}

/* Measurements only: a candidate that failed would be pooled again. */
static int doubt_journal(struct import *x, char *const *files)
{
    const char *file = jn_latest(x->journal, files);
    struct tp_buf text = {0}, lines = {0};
    json_t *reply = NULL;
    /* under a name, for what nobody posts ends leases of programs that are measured once more */
    const char *path = strchr(x->path, '?') ? x->path : ctl_printf(x->c, "%s?agent=tclctl", x->path);
    int rc = CTL_OK;

    if (file && !read_tail(file, jn_find(x->journal, file).offset, &text))
        last_records(&text, &lines);
    if (lines.n && !lines.oom)
        rc = ctl_post(x->c, path, &lines, x->patience, &reply);
    if (tc_int(reply, "/accepted", 0) > 0) {
        ctl_note(x->c, "tcld has lost what was imported before (an older backup?): everything is sent again");
        x->accepted += tc_int(reply, "/accepted", 0);
        jn_forget(x->journal);
    }
    json_decref(reply);
    tp_buf_free(&lines);
    tp_buf_free(&text);
    return rc;
}

static void summary(struct import *x, int rc)
{
    struct ctl *c = x->c;
    double seconds = tc_now() - x->began;

    ctl_progress_end(c);
    if (c->json) {
        json_t *j = json_pack("{s:I, s:I, s:I, s:I, s:I, s:f, s:b, s:O}", "accepted", (json_int_t)x->accepted,
                              "duplicates", (json_int_t)x->duplicates, "rejected", (json_int_t)x->rejected, "files",
                              (json_int_t)x->files, "skipped_files", (json_int_t)x->skipped, "seconds", seconds,
                              "complete", rc == CTL_OK, "errors", x->errors);
        ctl_json_out(j);
        json_decref(j);
        return;
    }
    printf("%lld accepted, %lld duplicates, %lld rejected; %lld files, %s\n", x->accepted, x->duplicates, x->rejected,
           x->files, ctl_seconds(c, seconds));
    if (x->skipped)
        ctl_note(c, "%lld of the files were imported before (--again posts them again)", x->skipped);
}

/* words: files and folders. kind: "measurements", or "candidates" and how often each: journals of their own. */
static int import(struct ctl *c, const struct ctl_args *a, const char *hw, const char *const *word, int n,
                  const char *kind, const char *path)
{
    struct import x = {.c = c, .path = path, .what = "import", .patience = 60, .errors = json_array()};
    json_t *hardware = NULL;
    char **files = NULL;
    const char *patience = ctl_get(a, "patience"), *created;
    struct tc_err e;
    int rc = patience ? ctl_read_num(c, "--patience", patience, &x.patience) : CTL_OK;

    if (!rc && ln_files(word, n, &files, &c->err))
        rc = CTL_FAILED;
    if (!rc)
        rc = ctl_call(c, "GET", ctl_path(c, "/v1/hardware/%s", hw), NULL, &hardware);
    if (rc)
        goto out;
    created = tc_str(hardware, "/created");
    x.journal =
        jn_open(ctl_printf(c, "%s %s %s %s", c->url, kind, hw, created ? created : ""), ctl_has(a, "again"), &c->err);
    if (!x.journal) {
        rc = CTL_FAILED;
        goto out;
    }
    for (char **f = files; *f; f++) {
        struct stat st;
        if (strcmp(*f, "-") && !stat(*f, &st))
            x.total += st.st_size;
    }
    x.began = x.saved = tc_now();
    if (!strcmp(kind, "measurements"))
        rc = doubt_journal(&x, files);
    for (char **f = files; *f && !rc; f++)
        rc = one_file(&x, *f);
    if (jn_save(x.journal, rc ? &e : &c->err) && !rc)
        rc = CTL_FAILED;
    summary(&x, rc);
    if (rc == CTL_NO_ANSWER || rc == CTL_INTERRUPTED)
        ctl_note(c, "the same command goes on where this one ended");
out:
    jn_close(x.journal);
    ln_files_free(files);
    json_decref(hardware);
    json_decref(x.errors);
    return rc ? rc : x.rejected ? CTL_PARTLY : CTL_OK;
}

int ctl_import(struct ctl *c, const struct ctl_args *a)
{
    const char *agent = ctl_get(a, "agent"), *hw = a->word[0],
               *path = agent ? ctl_path(c, "/v1/hardware/%s/measurements?agent=%s", hw, agent)
                             : ctl_path(c, "/v1/hardware/%s/measurements", hw);
    return import(c, a, hw, a->word + 1, a->n - 1, "measurements", path);
}

static int list_candidates(struct ctl *c, const struct ctl_args *a, const char *hw)
{
    static const char *const heads[] = {"ID", "TASK",   "STATE",    "SCORE", "R", "D",
                                        "U",  "REPEAT", "MEASURED", "AGENT", NULL};
    const char *state = ctl_get(a, "state"), *limit = ctl_get(a, "limit");
    json_t *items = NULL, *x;
    long long most = 100;
    size_t i;
    int rc = limit ? ctl_read_int(c, "--limit", limit, 0, &most) : CTL_OK;

    if (!rc)
        rc = ctl_list(c,
                      state ? ctl_path(c, "/v1/hardware/%s/candidates?state=%s", hw, state)
                            : ctl_path(c, "/v1/hardware/%s/candidates", hw),
                      (size_t)most, &items);
    if (rc)
        return rc;
    if (c->json) {
        ctl_json_out(items);
    } else {
        struct ctl_table *t = ctl_table_new(c, heads);
        json_array_foreach(items, i, x)
        {
            ctl_cell_int(t, x, "/id");
            ctl_cell_str(t, x, "/task");
            ctl_cell_str(t, x, "/state");
            ctl_cell_num(t, tc_num(x, "/score"), "%.3f");
            ctl_cell_num(t, tc_num(x, "/r"), "%.3f");
            ctl_cell_num(t, tc_num(x, "/d"), "%.3f");
            ctl_cell_num(t, tc_num(x, "/u"), "%.3f");
            ctl_cell_int(t, x, "/repeat");
            ctl_cell_int(t, x, "/measurements");
            ctl_cell_str(t, x, "/agent");
        }
        ctl_table_print(t);
    }
    json_decref(items);
    return CTL_OK;
}

static int take_back(struct ctl *c, const char *hw, const char *state)
{
    json_t *reply = NULL;
    int rc = ctl_call(c, "DELETE", ctl_path(c, "/v1/hardware/%s/candidates?state=%s", hw, state), NULL, &reply);

    if (rc)
        return rc;
    ctl_print_object(c, reply);
    if (tc_int(reply, "/removed", 0) > 0)
        ctl_note(c, "what was added from a file before is added again with --again");
    json_decref(reply);
    return CTL_OK;
}

int ctl_candidates(struct ctl *c, const struct ctl_args *a)
{
    const char *hw = a->word[1], *repeat = ctl_get(a, "repeat"), *path;

    if (!strcmp(a->word[0], "unselect") && a->n == 2)
        return take_back(c, hw, "selected");
    if (!strcmp(a->word[0], "remove") && a->n == 2)
        return take_back(c, hw, "pooled");
    if (!strcmp(a->word[0], "list") && a->n == 2)
        return list_candidates(c, a, hw);
    if (strcmp(a->word[0], "add") || a->n < 3)
        return ctl_fail(c, CTL_USAGE, "usage: tclctl candidates %s", c->command->usage);
    path = repeat ? ctl_path(c, "/v1/hardware/%s/candidates?repeat=%s", hw, repeat)
                  : ctl_path(c, "/v1/hardware/%s/candidates", hw);
    return import(c, a, hw, a->word + 2, a->n - 2, ctl_printf(c, "candidates %s", repeat ? repeat : "1"), path);
}
