/* tclctl retrain, adapt, evaluate, select: what starts jobs; jobs and watch: what becomes of them.
 *
 * A job is followed by its event stream. When that breaks off (tcld was restarted), it is asked for again from the last
 * event on. */
#include "clients/ctl/ctl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double patience = 60; /* seconds without an answer */

const struct ctl_opt ctl_retrain_opts[] = {{"mode", "MODE", "adapt, pretrain or finetune (by default what tcld does)"},
                                           {"epochs", "N", "at most so many"},
                                           {"max-seconds", "S", "at most so long"},
                                           {"seed", "N", "of chance"},
                                           {"per-task", "N", "programs of each task at most"},
                                           {"activate", "WHEN", "auto or never"},
                                           {"source", "HW", "pretrain: learn from it; may be given several times"},
                                           CTL_WAIT_OPT,
                                           {0}};
const struct ctl_opt ctl_evaluate_opts[] = {
    {"model", "WHICH", "active, ac, kb or the id of a model"}, CTL_WAIT_OPT, {0}};
const struct ctl_opt ctl_select_opts[] = {{"budget", "N", "choose so many"},
                                          {"fraction", "X", "choose this share of those that wait"},
                                          {"method", "NAME", "rdu, random, uncertainty, coreset or representative"},
                                          {"weights", "R,D,U", "of rdu: representative, diverse, uncertain"},
                                          {"seed", "N", "of chance"},
                                          CTL_WAIT_OPT,
                                          {0}};
const struct ctl_opt ctl_jobs_opts[] = {{"state", "STATE", "list: queued, running, succeeded, failed or cancelled"},
                                        {"hardware", "HW", "list: of this hardware"},
                                        {"limit", "N", "list: at most so many (20; 0: all)"},
                                        {0}};

/* ---- how a job is shown ---- */

static double job_seconds(const json_t *job)
{
    return ctl_time(tc_str(job, "/finished")) - ctl_time(tc_str(job, "/started"));
}

void ctl_print_jobs(struct ctl *c, const json_t *items)
{
    static const char *const heads[] = {"ID",   "KIND",  "HARDWARE", "STATE", "DONE", "PHASE",
                                        "LOSS", "TOP-1", "TOOK",     "AGO",   NULL};
    struct ctl_table *t = ctl_table_new(c, heads);
    const json_t *x;
    size_t i;

    json_array_foreach(items, i, x)
    {
        double top1 = tc_num(x, "/metrics/top1_mean"), progress = tc_num(x, "/progress");
        ctl_cell_int(t, x, "/id");
        ctl_cell_str(t, x, "/kind");
        ctl_cell_str(t, x, "/hardware");
        ctl_cell_str(t, x, "/state");
        ctl_cell_num(t, progress * 100, "%.0f%%");
        ctl_cell_str(t, x, "/phase");
        ctl_cell_num(t, tc_num(x, "/loss"), "%.4f");
        ctl_cell_num(t, top1, "%.3f");
        ctl_cell(t, "%s", ctl_seconds(c, job_seconds(x)));
        ctl_cell(t, "%s", ctl_age(c, tc_str(x, "/created")));
    }
    ctl_table_print(t);
}

/* A job that has ended: what came of it, and its exit code. */
static int ended(struct ctl *c, const json_t *job)
{
    const char *state = tc_str(job, "/state"), *error = tc_str(job, "/error"), *kind = tc_str(job, "/kind");
    bool good = state && !strcmp(state, "succeeded");

    ctl_progress_end(c);
    if (c->json) {
        ctl_json_out(job);
    } else if (good) {
        printf("job %lld (%s of %s) succeeded after %s\n", (long long)tc_int(job, "/id", 0), kind ? kind : "?",
               tc_str(job, "/hardware") ? tc_str(job, "/hardware") : "?", ctl_seconds(c, job_seconds(job)));
        ctl_print_outcome(c, job);
    }
    return good ? CTL_OK
                : ctl_fail(c, CTL_FAILED, "job %lld %s%s%s", (long long)tc_int(job, "/id", 0), state ? state : "?",
                           error ? ": " : "", error ? error : "");
}

/* ---- following ---- */

struct follow {
    struct ctl *c;
    struct tp_buf line;
    char last_id[32];
    double furthest; /* progress shown: a phase that is tried again does not take it back */
    int tenth;       /* of it, in the last plain line */
    char phase[32];
    json_t *end; /* the job as it ended */
    bool is_end;
};

/* On a terminal always; elsewhere a line for each phase and each tenth. */
static void show_progress(struct follow *f, const json_t *job)
{
    struct ctl *c = f->c;
    const char *phase = tc_str(job, "/phase"), *state = tc_str(job, "/state"), *hw = tc_str(job, "/hardware");
    double loss = tc_num(job, "/loss"), top1 = tc_num(job, "/metrics/top1_mean");
    long long epoch = tc_int(job, "/epoch", 0);

    phase = phase ? phase : state ? state : "";
    f->furthest = fmax(f->furthest, tc_num(job, "/progress"));
    if (!c->live && !strncmp(phase, f->phase, sizeof f->phase - 1) && (int)(f->furthest * 10) <= f->tenth)
        return;
    snprintf(f->phase, sizeof f->phase, "%s", phase);
    f->tenth = (int)(f->furthest * 10);
    c->last_line = -INFINITY; /* it is due */
    ctl_progress(c, hw ? hw : "job", f->furthest, "%s%s%s%s", phase, epoch ? ctl_printf(c, ", epoch %lld", epoch) : "",
                 isnan(loss) ? "" : ctl_printf(c, ", loss %.4f", loss),
                 isnan(top1) ? "" : ctl_printf(c, ", top-1 %.3f", top1));
}

static void on_line(struct follow *f, const char *s)
{
    if (!strncmp(s, "event: ", 7))
        f->is_end = !strcmp(s + 7, "end");
    else if (!strncmp(s, "id: ", 4))
        snprintf(f->last_id, sizeof f->last_id, "%s", s + 4);
    if (strncmp(s, "data: ", 6))
        return;
    json_t *job = json_loads(s + 6, 0, NULL);
    if (f->is_end) {
        json_decref(f->end);
        f->end = job;
        return;
    }
    if (f->c->json && !f->c->quiet) {
        ctl_json_out(job);
        fflush(stdout);
    } else if (!f->c->json) {
        show_progress(f, job);
    }
    json_decref(job);
}

static int on_bytes(void *arg, const char *p, size_t n)
{
    enum { LINE_MAX_ = 64 << 20 }; /* the result of a selection lists what it chose */
    struct follow *f = arg;
    for (size_t i = 0; i < n; i++) {
        if (p[i] != '\n') {
            tp_buf_putc(&f->line, p[i]);
            continue;
        }
        tp_buf_putc(&f->line, '\0');
        if (!f->line.oom)
            on_line(f, f->line.p);
        f->line.n = 0;
    }
    return f->line.oom || f->line.n > LINE_MAX_;
}

static int follow(struct ctl *c, long long id)
{
    struct follow f = {.c = c};
    char path[64], header[64];
    const char *const headers[] = {header, NULL};
    double silent_since = tc_now();
    int rc = CTL_OK;

    snprintf(path, sizeof path, "/v1/jobs/%lld/events", id);
    while (!f.end && !rc) {
        struct tc_reply r = {0};
        struct tc_request q = {.path = path, .headers = *f.last_id ? headers : NULL, .sink = on_bytes, .sink_arg = &f};
        snprintf(header, sizeof header, "Last-Event-ID: %s", f.last_id);
        f.line.n = 0;
        tc_http_timeout(c->http, 0);
        int failed = tc_call(c->http, &q, &r, &c->err);
        tc_http_timeout(c->http, c->timeout);
        if (ctl_stopped())
            rc = ctl_fail(c, CTL_INTERRUPTED, "the job goes on: tclctl watch %lld", id);
        else if (failed && tc_now() - silent_since > patience)
            rc = CTL_NO_ANSWER;
        else if (!failed && r.status == 200)
            silent_since = tc_now();
        else if (!failed && (r.status < 500 || tc_now() - silent_since > patience))
            rc = ctl_call(c, "GET", ctl_printf(c, "/v1/jobs/%lld", id), NULL, NULL); /* says it as JSON */
        tc_reply_free(&r);
        if (!f.end && !rc)
            tc_sleep(failed ? 0.5 : 0.1);
    }
    if (!rc)
        rc = ended(c, f.end);
    json_decref(f.end);
    tp_buf_free(&f.line);
    return rc;
}

int ctl_job_started(struct ctl *c, const struct ctl_args *a, json_t *job)
{
    long long id = tc_int(job, "/id", 0);

    if (!ctl_has(a, "wait") && c->json)
        ctl_json_out(job);
    else if (!ctl_has(a, "wait"))
        printf("job %lld is %s; tclctl watch %lld follows it\n", id, tc_str(job, "/state"), id);
    json_decref(job);
    return ctl_has(a, "wait") ? follow(c, id) : CTL_OK;
}

/* Takes body. */
static int start(struct ctl *c, const struct ctl_args *a, const char *path, json_t *body, int rc)
{
    json_t *job = NULL;

    if (rc) {
        json_decref(body);
        return rc;
    }
    rc = ctl_call(c, "POST", path, body, &job);
    return rc ? rc : ctl_job_started(c, a, job);
}

/* ---- commands ---- */

static int retrain(struct ctl *c, const struct ctl_args *a, const char *mode)
{
    json_t *body = json_object(), *sources = json_array();
    int rc;

    ctl_put_str(a, "mode", body, "mode");
    if (mode)
        json_object_set_new(body, "mode", json_string(mode));
    ctl_put_str(a, "activate", body, "activate");
    for (int i = 0; i < a->n_given; i++)
        if (!strcmp(a->given[i].name, "source"))
            json_array_append_new(sources, json_string(a->given[i].value));
    if (json_array_size(sources))
        json_object_set(body, "sources", sources);
    json_decref(sources);
    rc = ctl_put_int(c, a, "epochs", body, "epochs", 1);
    if (!rc)
        rc = ctl_put_num(c, a, "max-seconds", body, "max_seconds");
    if (!rc)
        rc = ctl_put_int(c, a, "seed", body, "seed", 0);
    if (!rc)
        rc = ctl_put_int(c, a, "per-task", body, "per_task", 0);
    return start(c, a, ctl_path(c, "/v1/hardware/%s/retrain", a->word[0]), body, rc);
}

int ctl_retrain(struct ctl *c, const struct ctl_args *a)
{
    return retrain(c, a, NULL);
}

int ctl_adapt(struct ctl *c, const struct ctl_args *a)
{
    if (ctl_has(a, "mode"))
        return ctl_fail(c, CTL_USAGE, "adapt is retrain --mode adapt; it takes no --mode");
    return retrain(c, a, "adapt");
}

/* "kb" and "ac" as the id of the model that has this role now: tcld takes "active" and ids. */
static int put_model(struct ctl *c, const struct ctl_args *a, json_t *body)
{
    const char *which = ctl_get(a, "model"), *hw = a->word[0];
    bool kb = which && !strcmp(which, "kb"), ac = which && !strcmp(which, "ac");
    json_t *h = NULL;
    int rc;

    if (which && !strcmp(which, "active"))
        return CTL_OK;
    if (!kb && !ac)
        return ctl_put_int(c, a, "model", body, "model", 1);
    if ((rc = ctl_call(c, "GET", ctl_path(c, "/v1/hardware/%s", hw), NULL, &h)))
        return rc;
    long long id = tc_int(h, kb ? "/kb_model" : "/active_model", 0);
    json_decref(h);
    if (!id)
        return ctl_fail(c, CTL_REFUSED, "hardware %s has no %s", hw, kb ? "knowledge base" : "model of its own");
    json_object_set_new(body, "model", json_integer(id));
    return CTL_OK;
}

int ctl_evaluate(struct ctl *c, const struct ctl_args *a)
{
    json_t *body = json_object();
    int rc = put_model(c, a, body);
    return start(c, a, ctl_path(c, "/v1/hardware/%s/evaluate", a->word[0]), body, rc);
}

static int put_weights(struct ctl *c, const char *text, json_t *body)
{
    double v[3];
    char *end = NULL;
    const char *p = text;

    for (int i = 0; i < 3; i++, p = end + 1) {
        v[i] = strtod(p, &end);
        if (end == p || *end != (i < 2 ? ',' : '\0'))
            return ctl_fail(c, CTL_USAGE, "--weights %s: three numbers are wanted, for example 0.5,0.3,0.2", text);
    }
    json_object_set_new(body, "weights", json_pack("{s:f, s:f, s:f}", "r", v[0], "d", v[1], "u", v[2]));
    return CTL_OK;
}

int ctl_select(struct ctl *c, const struct ctl_args *a)
{
    json_t *body = json_object();
    const char *weights = ctl_get(a, "weights");
    int rc = ctl_put_int(c, a, "budget", body, "budget", 1);

    if (!rc)
        rc = ctl_put_num(c, a, "fraction", body, "fraction");
    if (!rc)
        rc = ctl_put_int(c, a, "seed", body, "seed", 0);
    if (!rc && weights)
        rc = put_weights(c, weights, body);
    ctl_put_str(a, "method", body, "method");
    return start(c, a, ctl_path(c, "/v1/hardware/%s/selections", a->word[0]), body, rc);
}

static int list(struct ctl *c, const struct ctl_args *a)
{
    const char *state = ctl_get(a, "state"), *hw = ctl_get(a, "hardware"), *limit = ctl_get(a, "limit"), *path;
    json_t *items = NULL;
    long long most = 20;
    int rc = limit ? ctl_read_int(c, "--limit", limit, 0, &most) : CTL_OK;

    path = state && hw ? ctl_path(c, "/v1/jobs?state=%s&hardware=%s", state, hw)
           : state     ? ctl_path(c, "/v1/jobs?state=%s", state)
           : hw        ? ctl_path(c, "/v1/jobs?hardware=%s", hw)
                       : "/v1/jobs";
    if (!rc)
        rc = ctl_list(c, path, (size_t)most, &items);
    if (rc)
        return rc;
    if (c->json)
        ctl_json_out(items);
    else
        ctl_print_jobs(c, items);
    json_decref(items);
    return CTL_OK;
}

int ctl_jobs(struct ctl *c, const struct ctl_args *a)
{
    const char *verb = a->n ? a->word[0] : "list", *path;
    json_t *job = NULL;
    long long id;
    int rc;

    if (!strcmp(verb, "list") && a->n < 2)
        return list(c, a);
    if ((strcmp(verb, "show") && strcmp(verb, "cancel")) || a->n < 2)
        return ctl_fail(c, CTL_USAGE, "usage: tclctl jobs %s", c->command->usage);
    if ((rc = ctl_read_int(c, "the id of a job", a->word[1], 1, &id)))
        return rc;
    path = ctl_printf(c, "/v1/jobs/%lld", id);
    rc = ctl_call(c, strcmp(verb, "show") ? "DELETE" : "GET", path, NULL, &job);
    if (!rc && (c->json || !strcmp(verb, "show")))
        ctl_print_object(c, job);
    else if (!rc)
        printf(tc_str(job, "/state") && !strcmp(tc_str(job, "/state"), "running")
                   ? "job %lld will stop at its next step\n"
                   : "job %lld is cancelled\n",
               id);
    json_decref(job);
    return rc;
}

/* The jobs of the hardware that are in this state, oldest first, behind those that are in `ids`. */
static int jobs_in(struct ctl *c, const char *hw, const char *state, json_t *ids)
{
    json_t *items = NULL;
    int rc = ctl_list(c, ctl_path(c, "/v1/jobs?state=%s&hardware=%s", state, hw), 0, &items);

    for (size_t i = json_array_size(items); !rc && i-- > 0;)
        json_array_append(ids, json_object_get(json_array_get(items, i), "id"));
    json_decref(items);
    return rc;
}

static int newest_job(struct ctl *c, const char *hw, json_t *ids)
{
    json_t *items = NULL;
    int rc = ctl_list(c, ctl_path(c, "/v1/jobs?hardware=%s", hw), 1, &items);

    if (!rc && json_array_size(items) == 0)
        rc = ctl_fail(c, CTL_REFUSED, "hardware %s has no job", hw);
    else if (!rc)
        json_array_append(ids, json_object_get(json_array_get(items, 0), "id"));
    json_decref(items);
    return rc;
}

/* What runs and then what waits, or else the newest. What waits is asked for first, so that a job that begins between
 * the two calls is in one list at least. */
static int watch_hardware(struct ctl *c, const char *hw)
{
    json_t *queued = json_array(), *ids = json_array();
    int rc = jobs_in(c, hw, "queued", queued), worst = CTL_OK;

    if (!rc)
        rc = jobs_in(c, hw, "running", ids);
    for (size_t i = 0; i < json_array_size(queued); i++) {
        size_t k = 0;
        while (k < json_array_size(ids) && !json_equal(json_array_get(ids, k), json_array_get(queued, i)))
            k++;
        if (k == json_array_size(ids))
            json_array_append(ids, json_array_get(queued, i));
    }
    if (!rc && json_array_size(ids) == 0)
        rc = newest_job(c, hw, ids);
    for (size_t i = 0; !rc && i < json_array_size(ids); i++) {
        rc = follow(c, json_integer_value(json_array_get(ids, i)));
        if (rc == CTL_FAILED && i + 1 < json_array_size(ids)) { /* the others are followed all the same */
            fprintf(stderr, "tclctl: %s\n", c->err.text);
            c->err.text[0] = '\0';
            worst = rc;
            rc = CTL_OK;
        }
    }
    json_decref(queued);
    json_decref(ids);
    return rc ? rc : worst;
}

int ctl_watch(struct ctl *c, const struct ctl_args *a)
{
    long long id = 0;
    int rc;

    if (a->word[0][strspn(a->word[0], "0123456789")])
        return watch_hardware(c, a->word[0]);
    rc = ctl_read_int(c, "the id of a job", a->word[0], 1, &id);
    return rc ? rc : follow(c, id);
}
