/* Candidates: list, selections, leases. On the api pool; a write returns after its commit, but for taking back, which
 * may take long: the store's writer replies. */
#include "daemon/figures.h"
#include "daemon/handlers.h"
#include "daemon/hardware.h"
#include "daemon/hcommon.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/select_job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const no_query[] = {NULL};

/* ---- list ---- */
static int put_candidate(void *arg, const struct st_candidate *c)
{
    struct td_page *p = arg;

    if (!td_page_add(p, c->id))
        return 1;
    tp_buf_printf(&p->out,
                  "{\"id\": %lld, \"task\": \"%s\", \"state\": \"%s\", \"repeat\": %lld, \"measurements\": %lld",
                  (long long)c->id, c->task_id, st_candidate_state_name(c->state), (long long)c->repeat,
                  (long long)c->measurements);
    td_put_num(&p->out, "score", c->score);
    td_put_num(&p->out, "r", c->r);
    td_put_num(&p->out, "d", c->d);
    td_put_num(&p->out, "u", c->u);
    if (c->selection != 0)
        tp_buf_printf(&p->out, ", \"selection\": %lld", (long long)c->selection);
    else
        tp_buf_puts(&p->out, ", \"selection\": null");
    if (c->agent[0] != '\0')
        tp_buf_printf(&p->out, ", \"agent\": \"%s\", \"expires\": ", c->agent);
    else
        tp_buf_puts(&p->out, ", \"agent\": null, \"expires\": ");
    td_json_time(&p->out, c->expires);
    tp_buf_puts(&p->out, ", \"created\": ");
    td_json_time(&p->out, c->created);
    tp_buf_putc(&p->out, '}');
    return 0;
}

static int read_state(const char *name, int *state, struct tp_err *e)
{
    *state = -1;
    if (name == NULL)
        return 0;
    for (int i = 0; i < ST_CANDIDATE_STATES; i++)
        if (strcmp(name, st_candidate_state_name((enum st_candidate_state)i)) == 0) {
            *state = i;
            return 0;
        }
    return tp_fail(e, TP_E_BAD_PARAMETER, "state must be pooled, selected, leased, measured or failed");
}

void td_h_candidates_get(struct td_request *r)
{
    static const char *const query[] = {"state", "limit", "cursor", NULL};
    struct td_page p = {0};
    struct st_hardware hw = {0};
    struct tp_err e = {0};
    int64_t after;
    int state, rc;

    if (!td_req_only_query(r, query) || !td_req_page_id(r, &p.limit, &after))
        return;
    rc = read_state(td_req_query(r, "state"), &state, &e);
    if (rc == 0)
        rc = td_hardware_find(td_req_reader(r), td_req_param(r, 0), &hw, &e);
    if (rc == 0) {
        tp_buf_puts(&p.out, "{\"items\": [");
        rc = st_candidate_list(td_req_reader(r), hw.id, state, after, p.limit + 1, put_candidate, &p, &e);
    }
    st_hardware_clear(&hw);
    if (rc != 0) {
        tp_buf_free(&p.out);
        td_reply_problem(r, &e);
        return;
    }
    td_page_end_id(&p);
    td_reply_json(r, 200, &p.out);
}

/* ---- taking back ---- */

static int read_taken_back(const char *name, bool *selected, struct tp_err *e)
{
    *selected = name != NULL && strcmp(name, st_candidate_state_name(ST_SELECTED)) == 0;
    if (*selected || (name != NULL && strcmp(name, st_candidate_state_name(ST_POOLED)) == 0))
        return 0;
    return tp_fail(e, TP_E_BAD_PARAMETER,
                   "state must be selected (they are pooled again) or pooled (they leave the pool); leased ones are "
                   "given back by DELETE /v1/hardware/{hw}/leases, measured and failed ones stay");
}

/* On the writer thread, after the last step. */
static void reply_taken_back(struct td_request *r, const struct st_taken_back *t, int64_t unselected, int64_t removed)
{
    struct tp_buf out = {0};

    td_log(TD_INFO, "candidates-taken-back", TD_S("hardware", td_req_param(r, 0)), TD_I("unselected", unselected),
           TD_I("removed", removed), TD_S("request_id", td_req_id(r)));
    if (t->code != 0) {
        td_reply_problem(r, &t->err);
        return;
    }
    tp_buf_printf(&out, "{\"unselected\": %lld, \"removed\": %lld}", (long long)unselected, (long long)removed);
    td_reply_json(r, 200, &out);
}

static void on_unselected(void *r, const struct st_taken_back *t)
{
    reply_taken_back(r, t, t->candidates, 0);
}

static void on_removed(void *r, const struct st_taken_back *t)
{
    reply_taken_back(r, t, 0, t->candidates);
}

void td_h_candidates_delete(struct td_request *r)
{
    static const char *const query[] = {"state", NULL};
    struct st_store *store = td_req_daemon(r)->store;
    struct st_hardware hw = {0};
    struct tp_err e = {0};
    bool selected;
    int rc;

    if (!td_req_only_query(r, query))
        return;
    rc = read_taken_back(td_req_query(r, "state"), &selected, &e);
    if (rc == 0)
        rc = td_hardware_find(td_req_reader(r), td_req_param(r, 0), &hw, &e);
    if (rc == 0)
        rc = selected ? st_candidates_unselect(store, hw.id, on_unselected, r, &e)
                      : st_candidates_remove(store, hw.id, on_removed, r, &e);
    st_hardware_clear(&hw);
    if (rc != 0)
        td_reply_problem(r, &e); /* else the request is gone, or soon */
}

/* ---- selections ---- */

/* No identifier: selections go one after the other, beside a training where there is room for two. */
#define SELECTION_LANE "#selection"

static int read_method(const json_t *body, struct td_select_params *p, struct tp_err *e)
{
    const char *names[TS_METHOD_COUNT + 1] = {NULL};
    int method = TS_RDU, rc;

    for (int i = 0; i < TS_METHOD_COUNT; i++)
        names[i] = ts_method_name((enum ts_method)i);
    rc = td_body_enum(body, "method", names, &method, e);
    p->method = (enum ts_method)method;
    return rc;
}

static int read_weights(const json_t *body, struct td_select_params *p, struct tp_err *e)
{
    static const char *const keys[] = {"r", "d", "u"};
    json_t *o = json_object_get(body, "weights"), *v;
    struct ts_opts o_default;
    const char *key;

    ts_defaults(&o_default);
    double *const at[] = {&p->r, &p->d, &p->u};
    const double by_default[] = {o_default.weights.r, o_default.weights.d, o_default.weights.u};

    if (o == NULL)
        return 0;
    if (!json_is_object(o))
        return tp_fail_at(e, TP_E_BAD_PARAMETER, "/weights", "\"weights\" must be an object with r, d and u");
    if (p->method != TS_RDU)
        return tp_fail_at(e, TP_E_BAD_PARAMETER, "/weights", "\"weights\" go with method \"rdu\" only");
    p->weighted = true;
    for (size_t i = 0; i < 3; i++)
        *at[i] = by_default[i];
    json_object_foreach(o, key, v)
    {
        size_t i = 0;

        while (i < 3 && strcmp(key, keys[i]) != 0)
            i++;
        if (i == 3)
            return tp_fail_at(e, TP_E_UNKNOWN_KEY, "/weights", "\"weights\" has an unknown key; accepted: r, d, u");
        if (!json_is_number(v) || !(json_number_value(v) >= 0 && json_number_value(v) <= 1))
            return tp_fail_at(e, TP_E_BAD_PARAMETER,
                              i == 0   ? "/weights/r"
                              : i == 1 ? "/weights/d"
                                       : "/weights/u",
                              "\"%s\" must be a number from 0 to 1", keys[i]);
        *at[i] = json_number_value(v);
    }
    return 0;
}

static int read_selection(struct td_request *r, struct td_select_params *p, struct tp_err *e)
{
    static const char *const keys[] = {"budget", "fraction", "method", "weights", "seed", NULL};
    json_t *body = NULL;
    bool budget, fraction;
    int rc = td_body_object(r, keys, &body, e);

    *p = (struct td_select_params){0};
    budget = json_object_get(body, "budget") != NULL;
    fraction = json_object_get(body, "fraction") != NULL;
    if (rc == 0 && budget == fraction)
        rc = tp_fail(e, TP_E_BAD_PARAMETER,
                     "either \"budget\" (how many) or \"fraction\" (of the pooled candidates) is needed, not both; for "
                     "example {\"fraction\": 0.1}");
    if (rc == 0)
        rc = td_body_int(body, "budget", 1, TS_MAX_POOL, &p->budget, e);
    if (rc == 0)
        rc = td_body_num(body, "fraction", 0, 1, &p->fraction, e);
    if (rc == 0 && fraction && p->fraction <= 0)
        rc = tp_fail_at(e, TP_E_BAD_PARAMETER, "/fraction", "\"fraction\" must be above 0 and at most 1");
    if (rc == 0)
        rc = read_method(body, p, e);
    if (rc == 0)
        rc = read_weights(body, p, e);
    if (rc == 0)
        rc = td_body_int(body, "seed", 0, (int64_t)1 << 53, &p->seed, e);
    json_decref(body);
    return rc;
}

static int any_pooled(struct st_reader *reader, const struct st_hardware *hw, struct tp_err *e)
{
    int64_t n[ST_CANDIDATE_STATES];
    int rc = st_candidate_counts(reader, hw->id, n, e);

    if (rc == 0 && n[ST_POOLED] == 0)
        rc = tp_fail(e, TP_E_CONFLICT,
                     "hardware \"%s\" has no pooled candidates (%lld wait, %lld are leased); post some first: POST "
                     "/v1/hardware/%.63s/candidates",
                     hw->name, (long long)n[ST_SELECTED], (long long)n[ST_LEASED], hw->name);
    return rc;
}

void td_h_selections(struct td_request *r)
{
    struct td_select_params p;
    struct st_hardware hw = {0};
    struct tp_buf params = {0};
    struct tp_err e = {0};
    int rc;

    if (!td_req_only_query(r, no_query))
        return;
    rc = td_hardware_find(td_req_reader(r), td_req_param(r, 0), &hw, &e);
    if (rc == 0)
        rc = read_selection(r, &p, &e);
    if (rc == 0)
        rc = any_pooled(td_req_reader(r), &hw, &e);
    if (rc == 0)
        td_select_params_write(&p, &params);
    td_submit_job(r, rc, &e, "selection", hw.name, SELECTION_LANE, &params, td_select_run);
    st_hardware_clear(&hw);
}

/* ---- leases ---- */
enum { LEASE_DEFAULT = 64 /* candidates, when the agent does not say */ };

static int read_agent(const json_t *body, char agent[ST_ID_MAX + 1], struct tp_err *e)
{
    const json_t *v = json_object_get(body, "agent");
    const char *s = json_string_value(v);

    if (v == NULL)
        return tp_fail(e, TP_E_BAD_PARAMETER, "\"agent\" is required, for example {\"agent\": \"rack7-n3\"}");
    if (s == NULL || json_string_length(v) != strlen(s) || !st_id_valid(s))
        return tp_fail_at(e, TP_E_BAD_IDENTIFIER, "/agent", "agent is an identifier: [a-z0-9][a-z0-9._-]{0,62}");
    snprintf(agent, ST_ID_MAX + 1, "%s", s);
    return 0;
}

/* "ttl_seconds" in milliseconds; absent: *ttl keeps its value. */
static int read_ttl(const struct td_daemon *d, const json_t *body, int64_t *ttl, struct tp_err *e)
{
    double seconds = (double)*ttl / 1000;
    int rc = td_body_num(body, "ttl_seconds", 1, (double)d->config.lease_max_seconds, &seconds, e);

    *ttl = (int64_t)llround(seconds * 1000);
    return rc;
}

static int put_leased(void *arg, const struct st_candidate *c, const struct tp_record *rec)
{
    struct td_page *p = arg;

    tp_buf_printf(&p->out, "%s{\"id\": %lld, \"record\": ", p->n++ > 0 ? ", " : "", (long long)c->id);
    tp_record_emit(rec, &p->out);
    tp_buf_putc(&p->out, '}');
    return 0;
}

static void lease_head(struct tp_buf *b, const struct st_lease *l)
{
    if (l->id == 0)
        tp_buf_puts(b, "{\"lease\": null, \"expires\": null");
    else
        tp_buf_printf(b, "{\"lease\": \"%s\", \"expires\": ", l->token);
    if (l->id != 0)
        td_json_time(b, l->expires);
}

void td_h_leases(struct td_request *r)
{
    static const char *const keys[] = {"agent", "max", "ttl_seconds", NULL};
    struct td_daemon *d = td_req_daemon(r);
    char agent[ST_ID_MAX + 1] = "";
    int64_t most = d->config.limit_lease_candidates, longest = d->config.lease_max_seconds * 1000;
    struct st_lease_ask ask = {.hardware = td_req_param(r, 0), .agent = agent};
    struct st_lease lease = {0};
    struct td_page p = {0};
    struct tp_err e = {0};
    json_t *body = NULL;
    int rc;

    if (!td_req_only_query(r, no_query))
        return;
    ask.max = most < LEASE_DEFAULT ? most : LEASE_DEFAULT;
    ask.ttl = d->config.lease_seconds * 1000 < longest ? d->config.lease_seconds * 1000 : longest;
    rc = td_body_object(r, keys, &body, &e);
    if (rc == 0)
        rc = read_agent(body, agent, &e);
    if (rc == 0)
        rc = td_body_int(body, "max", 1, most, &ask.max, &e);
    if (rc == 0)
        rc = read_ttl(d, body, &ask.ttl, &e);
    json_decref(body);
    ask.now = td_wall_ms();
    if (rc == 0)
        rc = st_lease_take(d->store, &ask, &lease, &e);
    if (rc == -TP_E_UNKNOWN_HARDWARE)
        td_hardware_missing(ask.hardware, &e);
    if (rc == 0) {
        td_count(d->metrics, TD_C_LEASED, (uint64_t)lease.open);
        td_count(d->metrics, TD_C_LEASE_EXPIRED, (uint64_t)lease.expired);
        lease_head(&p.out, &lease);
        tp_buf_puts(&p.out, ", \"candidates\": [");
        if (lease.id != 0)
            rc = st_lease_records(td_req_reader(r), lease.id, put_leased, &p, &e);
    }
    if (rc != 0) {
        tp_buf_free(&p.out);
        td_reply_problem(r, &e);
        return;
    }
    tp_buf_puts(&p.out, "]}");
    td_reply_json(r, 200, &p.out);
}

/* On the writer thread, after the last step. */
static void on_leases_ended(void *arg, const struct st_taken_back *t)
{
    struct td_request *r = arg;
    const char *agent = td_req_query(r, "agent");
    struct tp_buf out = {0};

    td_count(td_req_daemon(r)->metrics, TD_C_LEASE_ENDED, (uint64_t)t->candidates);
    td_log(TD_INFO, "leases-ended", TD_S("hardware", td_req_param(r, 0)), TD_S("agent", agent ? agent : ""),
           TD_I("leases", t->leases), TD_I("candidates", t->candidates), TD_S("request_id", td_req_id(r)));
    if (t->code != 0) {
        td_reply_problem(r, &t->err);
        return;
    }
    tp_buf_printf(&out, "{\"leases\": %lld, \"returned\": %lld}", (long long)t->leases, (long long)t->candidates);
    td_reply_json(r, 200, &out);
}

void td_h_leases_end(struct td_request *r)
{
    static const char *const query[] = {"agent", NULL};
    const char *agent = NULL;
    struct st_hardware hw = {0};
    struct tp_err e = {0};
    int rc;

    if (!td_req_only_query(r, query))
        return;
    rc = td_query_id(r, "agent", &agent, &e);
    if (rc == 0)
        rc = td_hardware_find(td_req_reader(r), td_req_param(r, 0), &hw, &e);
    if (rc == 0)
        rc = st_leases_end(td_req_daemon(r)->store, hw.id, agent, on_leases_ended, r, &e);
    st_hardware_clear(&hw);
    if (rc != 0)
        td_reply_problem(r, &e);
}

void td_h_lease_renew(struct td_request *r)
{
    static const char *const keys[] = {"ttl_seconds", NULL};
    struct td_daemon *d = td_req_daemon(r);
    struct st_lease lease = {0};
    struct tp_buf out = {0};
    struct tp_err e = {0};
    json_t *body = NULL;
    int64_t ttl = 0;
    int rc;

    if (!td_req_only_query(r, no_query))
        return;
    rc = td_body_object(r, keys, &body, &e);
    if (rc == 0)
        rc = read_ttl(d, body, &ttl, &e);
    json_decref(body);
    if (rc == 0)
        rc = st_lease_renew(d->store, td_req_param(r, 0), ttl, td_wall_ms(), &lease, &e);
    if (rc != 0) {
        td_reply_problem(r, &e);
        return;
    }
    lease_head(&out, &lease);
    tp_buf_printf(&out, ", \"open\": %lld}", (long long)lease.open);
    td_reply_json(r, 200, &out);
}

void td_h_lease_return(struct td_request *r)
{
    struct td_daemon *d = td_req_daemon(r);
    struct tp_buf out = {0};
    struct tp_err e = {0};
    int64_t returned = 0;

    if (!td_req_only_query(r, no_query))
        return;
    if (st_lease_return(d->store, td_req_param(r, 0), td_wall_ms(), &returned, &e) != 0) {
        td_reply_problem(r, &e);
        return;
    }
    td_count(d->metrics, TD_C_LEASE_RETURNED, (uint64_t)returned);
    tp_buf_printf(&out, "{\"returned\": %lld}", (long long)returned);
    td_reply_json(r, 200, &out);
}
