/* Hardware: create, show, list, remove. On the api pool; a write returns after its commit. */
#include "daemon/dialect.h"
#include "daemon/handlers.h"

#include "daemon/drift.h"
#include "daemon/figures.h"
#include "daemon/hardware.h"
#include "daemon/hcommon.h"
#include "daemon/jobs.h"
#include "daemon/log.h"
#include "daemon/policy.h"
#include "daemon/registry.h"
#include "daemon/starter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TARGET_MAX = 4096 /* bytes */, DESCRIPTOR_MAX = 64 /* keys */ };

static const char *const no_query[] = {NULL};

/* ---- printing ---- */

/* The members that every view of hardware has, without the closing brace. */
static void print_hardware(struct tp_buf *b, const struct st_hardware *h)
{
    tp_buf_printf(b, "{\"name\": \"%s\", \"family\": \"%s\", \"kind\": \"%s\", \"target\": ", h->name, h->family,
                  h->kind);
    tp_buf_json_str(b, h->target, strlen(h->target));
    tp_buf_puts(b, ", \"descriptor\": ");
    tp_buf_puts(b, h->descriptor && *h->descriptor ? h->descriptor : "{}");
    tp_buf_puts(b, ", \"active_model\": ");
    if (h->active_model)
        tp_buf_i64(b, h->active_model);
    else
        tp_buf_puts(b, "null");
    tp_buf_puts(b, ", \"created\": ");
    td_json_time(b, h->created * 1000);
}

/* Measurements accepted since the active model was trained; -1 without one. */
static int staleness(struct st_reader *r, const struct st_hardware *h, const struct st_counts *c, int64_t *out,
                     struct tp_err *e)
{
    struct st_model m = {0};
    int rc;

    *out = -1;
    if (!h->active_model)
        return 0;
    rc = st_model_get(r, h->active_model, &m, e);
    if (rc == 0)
        rc = td_measured_since(r, h->id, td_model_watermark(&m), m.records, c, out, e);
    st_model_clear(&m);
    return rc;
}

/* The running comparison of predicted and measured latency, and when the hardware retrains by itself. */
static void print_watch(struct td_drift *drift, const struct st_hardware *h, int64_t model, struct tp_buf *b)
{
    struct td_drift_view v;
    struct td_policy p;

    tp_buf_puts(b, ", \"drift\": ");
    if (td_drift_get(drift, h->name, model, &v)) {
        tp_buf_printf(b, "{\"model\": %lld, \"programs\": %lld", (long long)model, (long long)v.programs);
        td_put_num(b, "error_ln", v.error);
        td_put_num(b, "bias_ln", v.bias);
        td_put_num(b, "base_ln", v.base);
        td_put_num(b, "ratio", v.ratio);
        tp_buf_putc(b, '}');
    } else {
        tp_buf_puts(b, "null");
    }
    tp_buf_puts(b, ", \"policy\": ");
    td_policy_read(&p, h->policy);
    if (td_policy_on(&p))
        td_policy_write(&p, b);
    else
        tp_buf_puts(b, "null");
}

/* All that is known of it, without the closing brace. *answers = the model that answers for it, 0 none. */
static int print_detail(struct td_drift *drift, struct st_reader *r, const struct st_hardware *h, struct tp_buf *b,
                        int64_t *answers, struct tp_err *e)
{
    struct st_counts c = {0};
    int64_t kb = 0, stale, candidates[ST_CANDIDATE_STATES];
    int rc;

    if ((rc = st_hardware_counts(r, h->id, &c, e)) != 0 || (rc = st_candidate_counts(r, h->id, candidates, e)) != 0 ||
        (rc = st_family_kb(r, h->family, &kb, e)) != 0 || (rc = staleness(r, h, &c, &stale, e)) != 0)
        return rc;
    print_hardware(b, h);
    tp_buf_puts(b, ", \"kb_model\": ");
    if (kb)
        tp_buf_i64(b, kb);
    else
        tp_buf_puts(b, "null");
    tp_buf_printf(b,
                  ", \"counts\": {\"measurements\": %lld, \"valid\": %lld, \"failures\": %lld, \"tasks\": %lld, "
                  "\"programs\": %lld, \"candidates\": {",
                  (long long)c.measurements, (long long)c.valid, (long long)c.failures, (long long)c.tasks,
                  (long long)c.programs);
    for (int i = 0; i < ST_CANDIDATE_STATES; i++)
        tp_buf_printf(b, "%s\"%s\": %lld", i > 0 ? ", " : "", st_candidate_state_name((enum st_candidate_state)i),
                      (long long)candidates[i]);
    tp_buf_puts(b, "}}, \"staleness\": ");
    if (stale >= 0)
        tp_buf_i64(b, stale);
    else
        tp_buf_puts(b, "null");
    *answers = h->active_model ? h->active_model : kb;
    print_watch(drift, h, *answers, b);
    return 0;
}

/* Replies with the hardware as it is now. */
static void reply_detail(struct td_request *r, int status, const char *name)
{
    struct st_reader *db = td_req_reader(r);
    struct st_hardware h = {0};
    struct tp_buf b = {0};
    struct tp_err e;
    int64_t model;

    if (td_hardware_find(db, name, &h, &e) == 0 && print_detail(td_req_daemon(r)->drift, db, &h, &b, &model, &e) == 0) {
        st_hardware_clear(&h);
        tp_buf_putc(&b, '}');
        td_reply_json(r, status, &b);
        return;
    }
    st_hardware_clear(&h);
    tp_buf_free(&b);
    td_reply_problem(r, &e);
}

/* ---- PUT ---- */

static int bad(struct tp_err *e, const char *pointer, const char *text)
{
    return tp_fail_at(e, TP_E_BAD_PARAMETER, pointer, "%s", text);
}

static int read_target(const json_t *body, const char **target, const char **kind, struct tp_err *e)
{
    const json_t *v = json_object_get(body, "target");
    const char *s = json_string_value(v);
    struct tp_err why;

    if (!v)
        return bad(e, "", "\"target\" is required, for example {\"target\": \"llvm -mcpu=core-avx2\"}");
    if (!s || json_string_length(v) != strlen(s) || !*s || strlen(s) > TARGET_MAX)
        return bad(e, "/target",
                   "target is a TVM target string, for example \"llvm -mcpu=core-avx2\" or \"cuda -arch=sm_86\"");
    if (td_hardware_kind(s, kind, &why) != 0)
        return tp_fail_at(e, TP_E_BAD_PARAMETER, "/target", "target: %.200s", why.detail);
    *target = s;
    return 0;
}

static int read_family(const json_t *body, struct st_hardware *h, struct tp_err *e)
{
    const json_t *v = json_object_get(body, "family");
    bool ms = td_dialect_is_ms(h->name);
    char by_kind[sizeof h->kind + sizeof TD_MS_SUFFIX];
    const char *s = v ? json_string_value(v) : by_kind;

    snprintf(by_kind, sizeof by_kind, "%s%s", h->kind, ms ? TD_MS_SUFFIX : "");

    if (!s || (v && json_string_length(v) != strlen(s)) || !st_id_valid(s))
        return tp_fail_at(e, TP_E_BAD_IDENTIFIER, "/family", "family is an identifier: [a-z0-9][a-z0-9._-]{0,62}");
    if (td_dialect_is_ms(s) != ms)
        return tp_fail_at(e, TP_E_BAD_PARAMETER, "/family",
                          "hardware and its family both end in \"" TD_MS_SUFFIX "\" (MetaSchedule), or none does");
    snprintf(h->family, sizeof h->family, "%s", s);
    return 0;
}

static int read_kind(const json_t *body, const char *by_target, struct st_hardware *h, struct tp_err *e)
{
    const char *const kinds[] = {"cpu", "gpu", "accelerator", NULL};
    int i = strcmp(by_target, "cpu") == 0 ? 0 : strcmp(by_target, "gpu") == 0 ? 1 : 2;
    int rc = td_body_enum(body, "kind", kinds, &i, e);

    if (rc == 0)
        snprintf(h->kind, sizeof h->kind, "%s", kinds[i]);
    return rc;
}

static bool known_key(const char *key)
{
    for (int i = 0; i < TCLFEAT_HW; i++)
        if (strcmp(key, tclfeat_hw_name(i)) == 0)
            return true;
    return false;
}

/* Numbers for the keys we know; others are kept as they are. */
static int read_descriptor(const json_t *body, struct st_hardware *h, struct tp_err *e)
{
    json_t *o = json_object_get(body, "descriptor"), *v;
    const char *key;
    char pointer[96];

    if (!o) {
        h->descriptor = strdup("{}");
        return h->descriptor ? 0 : tp_fail(e, TP_E_NO_MEMORY, "out of memory");
    }
    if (!json_is_object(o))
        return bad(e, "/descriptor", "descriptor is an object of numbers");
    if (json_object_size(o) > DESCRIPTOR_MAX)
        return bad(e, "/descriptor", "descriptor has too many keys; at most 64 are accepted");
    json_object_foreach(o, key, v)
    {
        if (known_key(key) && !(json_is_number(v) && json_number_value(v) >= 0)) {
            snprintf(pointer, sizeof pointer, "/descriptor/%s", key);
            return tp_fail_at(e, TP_E_BAD_PARAMETER, pointer, "%s is a number, 0 or more", key);
        }
    }
    h->descriptor = json_dumps(o, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15));
    return h->descriptor ? 0 : tp_fail(e, TP_E_NO_MEMORY, "out of memory");
}

static int read_body(struct td_request *r, struct st_hardware *h, struct tp_err *e)
{
    static const char *const keys[] = {"family", "kind", "target", "descriptor", NULL};
    json_t *body = NULL;
    const char *target = NULL, *kind = NULL;
    int rc = td_body_object(r, keys, &body, e);

    if (rc == 0)
        rc = read_target(body, &target, &kind, e);
    if (rc == 0 && !(h->target = strdup(target)))
        rc = tp_fail(e, TP_E_NO_MEMORY, "out of memory");
    if (rc == 0)
        rc = read_kind(body, kind, h, e);
    if (rc == 0)
        rc = read_family(body, h, e);
    if (rc == 0)
        rc = read_descriptor(body, h, e);
    json_decref(body);
    return rc;
}

void td_h_hardware_put(struct td_request *r)
{
    struct td_daemon *d = td_req_daemon(r);
    struct st_hardware h = {0};
    struct tp_err e;
    bool created = false;
    int rc;

    if (!td_req_only_query(r, no_query))
        return;
    snprintf(h.name, sizeof h.name, "%s", td_req_param(r, 0));
    rc = read_body(r, &h, &e);
    if (rc == 0)
        rc = st_hardware_put(d->store, &h, &created, &e);
    if (rc != 0) {
        st_hardware_clear(&h);
        td_reply_problem(r, &e);
        return;
    }
    td_registry_hardware_changed(d->registry, h.name);
    td_starter_family(d, td_req_reader(r), h.family);
    td_log(TD_INFO, created ? "hardware-created" : "hardware-changed", TD_S("hardware", h.name),
           TD_S("family", h.family), TD_S("kind", h.kind), TD_S("request_id", td_req_id(r)));
    st_hardware_clear(&h);
    if (created) {
        char location[128];
        snprintf(location, sizeof location, "/v1/hardware/%s", td_req_param(r, 0));
        td_reply_header(r, "Location", location);
    }
    reply_detail(r, created ? 201 : 200, td_req_param(r, 0));
}

/* ---- GET ---- */

void td_h_hardware_get(struct td_request *r)
{
    if (td_req_only_query(r, no_query))
        reply_detail(r, 200, td_req_param(r, 0));
}

struct page {
    struct tp_buf out, names; /* names: each with its NUL; what is to be shown in detail after the list was read */
    int limit, n;
    char last[ST_ID_MAX + 1];
    bool more, detail;
};

static int add_item(void *arg, const struct st_hardware *h)
{
    struct page *p = arg;

    if (p->n == p->limit) { /* one more was asked for, only to know that there is one */
        p->more = true;
        return 1;
    }
    if (p->detail) {
        tp_buf_put(&p->names, h->name, strlen(h->name) + 1);
    } else {
        tp_buf_puts(&p->out, p->n ? ", " : "");
        print_hardware(&p->out, h);
        tp_buf_putc(&p->out, '}');
    }
    p->n++;
    memcpy(p->last, h->name, sizeof p->last);
    return 0;
}

/* One item with its counts and its model; nothing when it was deleted meanwhile. */
static int add_detail(struct td_drift *drift, struct st_reader *db, const char *name, struct tp_buf *out,
                      struct tp_err *e)
{
    struct st_hardware h = {0};
    struct tp_buf item = {0};
    int64_t model = 0;
    int rc = st_hardware_get(db, name, &h, e);

    if (rc == 0)
        rc = print_detail(drift, db, &h, &item, &model, e);
    if (rc == 0) {
        tp_buf_puts(&item, ", \"model\": ");
        if (model == 0 || (rc = td_model_json(db, model, &item, e)) == -TP_E_UNKNOWN_MODEL) {
            tp_buf_puts(&item, "null");
            rc = 0;
        }
    }
    if (rc == 0) {
        tp_buf_puts(out, out->p[out->n - 1] == '[' ? "" : ", ");
        tp_buf_put(out, item.p, item.n);
        tp_buf_putc(out, '}');
    }
    tp_buf_free(&item);
    st_hardware_clear(&h);
    return rc == -TP_E_UNKNOWN_HARDWARE || rc == -TP_E_UNKNOWN_FAMILY || rc == -TP_E_UNKNOWN_MODEL ? 0 : rc;
}

void td_h_hardware_list(struct td_request *r)
{
    static const char *const query[] = {"limit", "cursor", "detail", NULL};
    struct st_reader *db = td_req_reader(r);
    struct page p = {0};
    const char *after;
    struct tp_err e;
    int rc;

    if (!td_req_only_query(r, query) || !td_req_page(r, &p.limit, &after))
        return;
    tp_buf_puts(&p.out, "{\"items\": [");
    rc = td_query_bool(r, "detail", &p.detail, &e);
    if (rc == 0)
        rc = st_hardware_list(db, after, p.limit + 1, add_item, &p, &e);
    for (size_t i = 0; rc == 0 && i < p.names.n; i += strlen(p.names.p + i) + 1)
        rc = add_detail(td_req_daemon(r)->drift, db, p.names.p + i, &p.out, &e);
    tp_buf_free(&p.names);
    if (rc != 0) {
        tp_buf_free(&p.out);
        td_reply_problem(r, &e);
        return;
    }
    td_page_end(&p.out, p.more ? p.last : NULL);
    td_reply_json(r, 200, &p.out);
}

/* ---- DELETE ---- */

void td_h_hardware_delete(struct td_request *r)
{
    static const char *const query[] = {"purge", NULL};
    struct td_daemon *d = td_req_daemon(r);
    const char *name = td_req_param(r, 0);
    struct tp_buf nothing = {0};
    struct tp_err e;
    bool purge = false;
    int rc;

    if (!td_req_only_query(r, query))
        return;
    rc = td_query_bool(r, "purge", &purge, &e);
    if (rc == 0)
        rc = st_hardware_delete(d->store, name, purge, &e);
    if (rc != 0) {
        if (rc == -TP_E_UNKNOWN_HARDWARE)
            td_hardware_missing(name, &e);
        td_reply_problem(r, &e);
        return;
    }
    td_jobs_cancel_hardware(d->jobs, name); /* at once: a later one may be for new hardware of that name */
    td_registry_forget(d->registry, name);
    td_drift_forget(d->drift, name);
    td_figures_show(d, td_req_reader(r), name);
    td_log(TD_INFO, "hardware-deleted", TD_S("hardware", name), TD_S("purge", purge ? "true" : "false"),
           TD_S("request_id", td_req_id(r)));
    td_reply(r, 204, NULL, &nothing);
}
