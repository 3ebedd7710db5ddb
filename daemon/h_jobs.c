/* Jobs: retraining, evaluation, list, show, cancel, events. */
#include "daemon/evaluate.h"
#include "daemon/fleet.h"
#include "daemon/handlers.h"
#include "daemon/hardware.h"
#include "daemon/hcommon.h"
#include "daemon/jobs.h"
#include "daemon/registry.h"
#include "daemon/train_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- retrain ---- */
static int read_sources(const json_t *sources, struct td_train_params *p, struct tp_err *e)
{
    const json_t *x;
    size_t i;

    if (sources == NULL)
        return 0;
    if (!json_is_array(sources) || json_array_size(sources) > TD_TRAIN_SOURCES_MAX)
        return tp_fail_at(e, TP_E_BAD_PARAMETER, "/sources",
                          "\"sources\" must be an array of at most %d hardware names", (int)TD_TRAIN_SOURCES_MAX);
    json_array_foreach(sources, i, x)
    {
        if (!json_is_string(x) || json_string_length(x) != strlen(json_string_value(x)) ||
            !st_id_valid(json_string_value(x)))
            return tp_fail_at(e, TP_E_BAD_PARAMETER, "/sources", "item %zu of \"sources\" is no hardware name", i);
        for (int k = 0; k < p->n_sources; k++)
            if (strcmp(p->source[k], json_string_value(x)) == 0)
                return tp_fail_at(e, TP_E_BAD_PARAMETER, "/sources", "\"%s\" stands in \"sources\" twice",
                                  p->source[k]);
        snprintf(p->source[p->n_sources++], sizeof p->source[0], "%s", json_string_value(x));
    }
    if (p->n_sources > 0 && p->mode != TD_TRAIN_PRETRAIN)
        return tp_fail_at(e, TP_E_BAD_PARAMETER, "/sources", "\"sources\" goes with mode \"pretrain\" only");
    return 0;
}

static int find_sources(struct st_reader *reader, const struct td_train_params *p, struct tp_err *e)
{
    int rc = 0;

    for (int i = 0; i < p->n_sources && rc == 0; i++) {
        struct st_hardware hw = {0};

        rc = td_hardware_find(reader, p->source[i], &hw, e);
        st_hardware_clear(&hw);
    }
    return rc;
}

/* Hardware that shares knowledge is of one kind. (Families with several are from before that was checked.) */
static int check_kind(struct st_reader *reader, const struct st_hardware *hw, struct tp_err *e)
{
    struct td_members m = {0};
    int rc;

    if (!td_shares_knowledge(hw))
        return tp_fail_at(e, TP_E_BAD_PARAMETER, "/mode",
                          "hardware of kind %s shares no knowledge; mode \"finetune\" is for it", hw->kind);
    rc = td_members_list(reader, hw->family, NULL, &m, e);
    for (size_t i = 0; i < m.n && rc == 0; i++)
        if (strcmp(m.v[i].kind, hw->kind) != 0)
            rc = tp_fail(e, TP_E_CONFLICT,
                         "family \"%s\" holds hardware of several kinds, which share no knowledge; mode \"finetune\" "
                         "is for it",
                         hw->family);
    td_members_free(&m);
    return rc;
}

static int read_mode(struct st_reader *reader, const struct st_hardware *hw, const json_t *body,
                     struct td_train_params *p, struct tp_err *e)
{
    static const char *const modes[] = {"finetune", "adapt", "pretrain", NULL};
    int mode = (int)td_train_default_mode(hw), rc = td_body_enum(body, "mode", modes, &mode, e);

    p->mode = (enum td_train_mode)mode;
    return rc == 0 && p->mode != TD_TRAIN_FINETUNE ? check_kind(reader, hw, e) : rc;
}

/* The body -> *p. */
static int read_retrain(struct td_request *r, const struct st_hardware *hw, struct td_train_params *p, struct tp_err *e)
{
    static const char *const keys[] = {"mode",     "epochs",   "max_seconds", "seed",
                                       "per_task", "activate", "sources",     NULL};
    static const char *const activate[] = {"auto", "never", NULL};
    json_t *body = NULL;
    int never = 0, rc;

    *p = (struct td_train_params){0};
    rc = td_body_object(r, keys, &body, e);
    if (rc == 0)
        rc = read_mode(td_req_reader(r), hw, body, p, e);
    if (rc == 0)
        rc = td_body_int(body, "epochs", 1, 1000, &p->epochs, e);
    if (rc == 0)
        rc = td_body_num(body, "max_seconds", 0, 7 * 86400, &p->max_seconds, e);
    if (rc == 0)
        rc = td_body_int(body, "seed", 0, (int64_t)1 << 53, &p->seed, e);
    if (rc == 0)
        rc = td_body_int(body, "per_task", 0, 1000000, &p->per_task, e);
    if (rc == 0 && p->per_task == 1)
        rc = tp_fail_at(e, TP_E_BAD_PARAMETER, "/per_task",
                        "\"per_task\" must be 0 (all programs) or at least 2: a task teaches by pairs");
    if (rc == 0)
        rc = td_body_enum(body, "activate", activate, &never, e);
    p->never = never == 1;
    if (rc == 0)
        rc = read_sources(json_object_get(body, "sources"), p, e);
    if (rc == 0)
        rc = find_sources(td_req_reader(r), p, e);
    json_decref(body);
    return rc;
}

static int enough_data(struct st_reader *reader, const struct st_hardware *hw, struct tp_err *e)
{
    struct st_counts c;
    int rc = st_hardware_counts(reader, hw->id, &c, e);

    if (rc == 0 && c.valid < TD_TRAIN_MIN)
        rc = tp_fail(
            e, TP_E_NOT_ENOUGH_DATA,
            "hardware \"%s\" has %lld valid measurements and %lld failures; training needs at least %d valid ones",
            hw->name, (long long)c.valid, (long long)c.failures, TD_TRAIN_MIN);
    return rc;
}

void td_h_retrain(struct td_request *r)
{
    static const char *const query[] = {NULL};
    struct td_train_params p;
    struct st_hardware hw = {0};
    struct tp_buf params = {0};
    struct tp_err e = {0};
    int rc;

    if (!td_req_only_query(r, query))
        return;
    rc = td_hardware_find(td_req_reader(r), td_req_param(r, 0), &hw, &e);
    if (rc == 0)
        rc = read_retrain(r, &hw, &p, &e);
    if (rc == 0 && p.mode != TD_TRAIN_PRETRAIN) /* whose sources the job looks at */
        rc = enough_data(td_req_reader(r), &hw, &e);
    if (rc == 0)
        td_train_params_write(&p, &params);
    td_submit_job(r, rc, &e, "retrain", hw.name, hw.family, &params, td_train_run);
    st_hardware_clear(&hw);
}

/* ---- evaluate ---- */

/* No identifier: evaluations of all hardware go one after the other, beside a training where there is room for two. */
#define EVALUATE_LANE "#evaluate"

static int read_evaluate(struct td_request *r, struct td_evaluate_params *p, struct tp_err *e)
{
    static const char *const keys[] = {"model", NULL};
    json_t *body = NULL;
    const json_t *model;
    int rc = td_body_object(r, keys, &body, e);

    *p = (struct td_evaluate_params){0};
    model = json_object_get(body, "model");
    if (rc == 0 && json_is_integer(model) && json_integer_value(model) > 0)
        p->model = json_integer_value(model);
    else if (rc == 0 && model != NULL &&
             !(json_is_string(model) && json_string_length(model) == strlen("active") &&
               strcmp(json_string_value(model), "active") == 0))
        rc = tp_fail_at(e, TP_E_BAD_PARAMETER, "/model", "\"model\" is \"active\" or the id of a model");
    json_decref(body);
    return rc;
}

/* The job would find out too; better now. */
static int can_evaluate(struct td_request *r, const struct st_hardware *hw, const struct td_evaluate_params *p,
                        struct tp_err *e)
{
    struct td_snapshot *s = NULL;
    struct st_counts c = {0};
    char which[24] = "active";
    int rc;

    if (p->model > 0)
        snprintf(which, sizeof which, "%lld", (long long)p->model);
    rc = td_registry_acquire(td_req_daemon(r)->registry, hw->name, hw->family, which, &s, e);
    td_registry_release(s);
    if (rc == 0)
        rc = st_hardware_counts(td_req_reader(r), hw->id, &c, e);
    if (rc == 0 && c.valid < 2)
        rc = tp_fail(e, TP_E_NOT_ENOUGH_DATA,
                     "hardware \"%s\" has %lld valid measurements and %lld failures; an evaluation compares valid ones",
                     hw->name, (long long)c.valid, (long long)c.failures);
    return rc;
}

void td_h_evaluate(struct td_request *r)
{
    static const char *const query[] = {NULL};
    struct td_evaluate_params p;
    struct st_hardware hw = {0};
    struct tp_buf params = {0};
    struct tp_err e = {0};
    int rc;

    if (!td_req_only_query(r, query))
        return;
    rc = td_hardware_find(td_req_reader(r), td_req_param(r, 0), &hw, &e);
    if (rc == 0)
        rc = read_evaluate(r, &p, &e);
    if (rc == 0)
        rc = can_evaluate(r, &hw, &p, &e);
    if (rc == 0)
        td_evaluate_params_write(&p, &params);
    td_submit_job(r, rc, &e, "evaluate", hw.name, EVALUATE_LANE, &params, td_evaluate_run);
    st_hardware_clear(&hw);
}

/* ---- list, show, cancel ---- */
struct page {
    struct td_page page;
    struct td_jobs *js;
};

static int put_job(void *arg, const struct st_job *j)
{
    struct page *p = arg;

    if (!td_page_add(&p->page, j->id))
        return 1;
    td_job_row_json(p->js, j, true, &p->page.out);
    return 0;
}

static int check_state(const char *state, struct tp_err *e)
{
    bool known = state == NULL;

    for (int i = 0; i < TD_JOB_STAGES && !known; i++)
        known = strcmp(state, td_job_stage_name((enum td_job_stage)i)) == 0;
    return known ? 0 : tp_fail(e, TP_E_BAD_PARAMETER, "state must be queued, running, succeeded, failed or cancelled");
}

void td_h_jobs_list(struct td_request *r)
{
    static const char *const query[] = {"state", "hardware", "limit", "cursor", NULL};
    struct page p = {.js = td_req_daemon(r)->jobs};
    const char *state = td_req_query(r, "state"), *hardware = NULL;
    struct tp_err e = {0};
    int64_t before;
    int rc;

    if (!td_req_only_query(r, query) || !td_req_page_id(r, &p.page.limit, &before))
        return;
    rc = check_state(state, &e);
    if (rc == 0)
        rc = td_query_id(r, "hardware", &hardware, &e);
    if (rc == 0) {
        tp_buf_puts(&p.page.out, "{\"items\": [");
        rc = st_job_list(td_req_reader(r), state, hardware, before, p.page.limit + 1, put_job, &p, &e);
    }
    if (rc != 0) {
        tp_buf_free(&p.page.out);
        td_reply_problem(r, &e);
        return;
    }
    td_page_end_id(&p.page);
    td_reply_json(r, 200, &p.page.out);
}

void td_h_job_get(struct td_request *r)
{
    static const char *const query[] = {NULL};
    int64_t id;

    if (td_req_only_query(r, query) && td_req_param_id(r, 0, TP_E_UNKNOWN_JOB, &id))
        td_reply_job(r, 200, id);
}

void td_h_job_cancel(struct td_request *r)
{
    static const char *const query[] = {NULL};
    struct tp_err e = {0};
    bool running = false;
    int64_t id;

    if (!td_req_only_query(r, query) || !td_req_param_id(r, 0, TP_E_UNKNOWN_JOB, &id))
        return;
    if (td_jobs_cancel(td_req_daemon(r)->jobs, td_req_reader(r), id, &running, &e) != 0)
        td_reply_problem(r, &e);
    else
        td_reply_job(r, running ? 202 : 200, id);
}

/* ---- events ---- */
static void wake(void *stream)
{
    td_stream_wake(stream);
}

/* How long an EventSource waits before it asks again: a restart takes about as long. */
static const char retry[] = "retry: 2000\n\n";

void td_h_job_events(struct td_request *r)
{
    static const char *const query[] = {NULL};
    struct td_jobs *js = td_req_daemon(r)->jobs;
    const char *last = td_req_header(r, "Last-Event-ID");
    struct td_follow *f = NULL;
    struct st_job row = {0};
    struct tp_buf out = {0};
    struct tp_err e = {0};
    int64_t id, last_id;
    int rc;

    if (!td_req_only_query(r, query) || !td_req_param_id(r, 0, TP_E_UNKNOWN_JOB, &id))
        return;
    last_id = last != NULL && last[0] >= '0' && last[0] <= '9' ? strtoll(last, NULL, 10) : -1;
    td_reply_header(r, "Cache-Control", "no-store");
    if (td_follow_new(js, id, last_id, &f, &e) == 0) {
        struct td_stream *s = td_reply_stream(r, 200, "text/event-stream", td_follow_next, f, td_follow_close);

        td_follow_start(f, wake, s);
        return;
    }
    /* Finished, or unknown: its end is stored before it leaves the runner. */
    rc = st_job_get(td_req_reader(r), id, &row, &e);
    if (rc == 0) {
        tp_buf_puts(&out, retry);
        td_follow_row(js, &row, &out);
    }
    st_job_clear(&row);
    if (rc == 0 && out.oom)
        rc = tp_fail(&e, TP_E_NO_MEMORY, "no memory for the reply");
    if (rc != 0) {
        tp_buf_free(&out);
        td_reply_problem(r, &e);
        return;
    }
    td_reply(r, 200, "text/event-stream", &out);
}
