/* Models: history, weights up and down, activation; families.
 *
 * Every GET carries a strong ETag. Weights are sent only when they are the ones that were published. */
#include "daemon/dialect.h"
#include "daemon/figures.h"
#include "daemon/handlers.h"
#include "daemon/hardware.h"
#include "daemon/hcommon.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/recalibrate.h"
#include "daemon/registry.h"
#include "daemon/snapshot.h"
#include "daemon/story.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What the row keeps, and the newest evaluation. */
static void put_metrics(struct tp_buf *out, const struct st_model *m)
{
    const char *kept = m->metrics != NULL ? m->metrics : "{}", *end = strrchr(kept, '}');

    if (m->evaluation == NULL || end == NULL) {
        tp_buf_puts(out, kept);
        return;
    }
    tp_buf_put(out, kept, (size_t)(end - kept));
    tp_buf_printf(out, "%s\"evaluation\": %s}", strspn(kept, "{ ") < (size_t)(end - kept) ? ", " : "", m->evaluation);
}

static void put_model(struct tp_buf *out, const struct st_model *m, int64_t active)
{
    bool ac = strcmp(m->role, "ac") == 0;

    tp_buf_printf(out, "{\"id\": %lld, \"role\": \"%s\", \"%s\": \"%s\", \"active\": %s, \"state\": \"%s\", ",
                  (long long)m->id, m->role, ac ? "hardware" : "family", m->owner, m->id == active ? "true" : "false",
                  m->state);
    tp_buf_printf(out, "\"features_version\": \"%s\", \"calibration\": %d, \"job\": ", m->features_version,
                  m->calibration);
    if (m->job > 0)
        tp_buf_i64(out, m->job);
    else
        tp_buf_puts(out, "null");
    tp_buf_printf(out, ", \"records\": %lld, \"tasks\": %lld, \"parents\": %s, \"metrics\": ", (long long)m->records,
                  (long long)m->tasks, m->parents != NULL ? m->parents : "[]");
    put_metrics(out, m);
    tp_buf_printf(out, ", \"sha256\": \"%s\", \"created\": ", m->sha256);
    td_json_time(out, m->created * 1000);
    tp_buf_puts(out, ", \"activated\": ");
    if (m->activated != 0)
        td_json_time(out, m->activated);
    else
        tp_buf_puts(out, "null");
    tp_buf_putc(out, '}');
}

/* The id that is active where m belongs, 0 none. */
static int active_of(struct st_reader *r, const struct st_model *m, int64_t *active, struct tp_err *e)
{
    struct st_hardware hw = {0};
    int rc;

    if (strcmp(m->role, "kb") == 0)
        return st_family_kb(r, m->owner, active, e);
    rc = td_hardware_find(r, m->owner, &hw, e);
    if (rc == 0)
        *active = hw.active_model;
    st_hardware_clear(&hw);
    return rc;
}

int td_model_json(struct st_reader *r, int64_t id, struct tp_buf *out, struct tp_err *e)
{
    struct st_model m = {0};
    int64_t active = 0;
    int rc = st_model_get(r, id, &m, e);

    if (rc == 0)
        rc = active_of(r, &m, &active, e);
    if (rc == 0)
        put_model(out, &m, active);
    st_model_clear(&m);
    return rc;
}

/* ---- lists ---- */
struct page {
    struct td_page page;
    int64_t active;
};

static int list_model(void *arg, const struct st_model *m)
{
    struct page *p = arg;

    if (!td_page_add(&p->page, m->id))
        return 1;
    put_model(&p->page.out, m, p->active);
    return 0;
}

static void list_models(struct td_request *r, const char *role)
{
    static const char *const query[] = {"limit", "cursor", NULL};
    struct st_reader *reader = td_req_reader(r);
    const char *owner = td_req_param(r, 0);
    struct page p = {0};
    struct st_model key = {0};
    struct tp_err e = {0};
    int64_t before;
    int rc;

    if (!td_req_only_query(r, query) || !td_req_page_id(r, &p.page.limit, &before))
        return;
    snprintf(key.role, sizeof key.role, "%s", role);
    snprintf(key.owner, sizeof key.owner, "%s", owner);
    rc = active_of(reader, &key, &p.active, &e);
    if (rc == 0) {
        tp_buf_puts(&p.page.out, "{\"items\": [");
        rc = st_model_list(reader, role, owner, before, p.page.limit + 1, list_model, &p, &e);
    }
    if (rc != 0) {
        tp_buf_free(&p.page.out);
        td_reply_problem(r, &e);
        return;
    }
    td_page_end_id(&p.page);
    td_reply_tagged(r, "application/json", NULL, &p.page.out);
}

void td_h_models_list(struct td_request *r)
{
    list_models(r, "ac");
}

void td_h_family_models(struct td_request *r)
{
    list_models(r, "kb");
}

struct family_page {
    struct tp_buf out;
    int n, limit;
    char last[ST_ID_MAX + 1];
    bool more;
};

static int put_family(void *arg, const struct st_family *f)
{
    struct family_page *p = arg;

    if (p->n == p->limit) {
        p->more = true;
        return 1;
    }
    tp_buf_printf(&p->out, "%s{\"family\": \"%s\", \"hardware\": %lld, \"kb_model\": ", p->n++ > 0 ? ", " : "", f->name,
                  (long long)f->hardware);
    if (f->kb_model > 0)
        tp_buf_i64(&p->out, f->kb_model);
    else
        tp_buf_puts(&p->out, "null");
    tp_buf_puts(&p->out, ", \"kind\": ");
    if (f->kind[0] != '\0')
        tp_buf_json_str(&p->out, f->kind, strlen(f->kind));
    else
        tp_buf_puts(&p->out, "null");
    tp_buf_puts(&p->out, ", \"created\": ");
    td_json_time(&p->out, f->created * 1000);
    tp_buf_putc(&p->out, '}');
    memcpy(p->last, f->name, sizeof p->last);
    return 0;
}

void td_h_families(struct td_request *r)
{
    static const char *const query[] = {"limit", "cursor", NULL};
    struct family_page p = {0};
    struct tp_err e = {0};
    const char *after;

    if (!td_req_only_query(r, query) || !td_req_page(r, &p.limit, &after))
        return;
    tp_buf_puts(&p.out, "{\"items\": [");
    if (st_family_list(td_req_reader(r), after, p.limit + 1, put_family, &p, &e) != 0) {
        tp_buf_free(&p.out);
        td_reply_problem(r, &e);
        return;
    }
    td_page_end(&p.out, p.more ? p.last : NULL);
    td_reply_json(r, 200, &p.out);
}

/* ---- one model ---- */
void td_h_model_get(struct td_request *r)
{
    static const char *const query[] = {NULL};
    struct tp_buf out = {0};
    struct tp_err e = {0};
    int64_t id;

    if (!td_req_only_query(r, query) || !td_req_param_id(r, 0, TP_E_UNKNOWN_MODEL, &id))
        return;
    if (td_model_json(td_req_reader(r), id, &out, &e) != 0)
        td_reply_problem(r, &e);
    else
        td_reply_tagged(r, "application/json", NULL, &out);
}

void td_h_model_weights(struct td_request *r)
{
    static const char *const query[] = {NULL};
    struct td_registry *g = td_req_daemon(r)->registry;
    struct st_model m = {0};
    struct tp_buf bytes = {0};
    struct tp_err e = {0};
    char path[4096], hex[65], disposition[80];
    int64_t id;
    int rc;

    if (!td_req_only_query(r, query) || !td_req_param_id(r, 0, TP_E_UNKNOWN_MODEL, &id))
        return;
    rc = st_model_get(td_req_reader(r), id, &m, &e);
    if (rc == 0 && td_registry_dropped(g, &m, &e))
        rc = -TP_E_UNKNOWN_MODEL;
    if (rc == 0) {
        td_registry_path(g, id, path, sizeof path);
        rc = td_weights_bytes(path, &bytes, &e);
    }
    if (rc == 0) {
        td_sha256(bytes.p, bytes.n, hex);
        if (strcmp(hex, m.sha256) != 0)
            rc = tp_fail(&e, TP_E_IO, "the weights file of model %lld is damaged (SHA-256 differs)", (long long)id);
    } else if (rc == -TP_E_BAD_WEIGHTS) {
        e.code = TP_E_IO; /* the client did nothing wrong */
    }
    st_model_clear(&m);
    if (rc != 0) {
        tp_buf_free(&bytes);
        td_reply_problem(r, &e);
        return;
    }
    snprintf(disposition, sizeof disposition, "attachment; filename=\"model-%lld.safetensors\"", (long long)id);
    td_reply_header(r, "Content-Disposition", disposition);
    td_reply_tagged(r, "application/octet-stream", hex, &bytes);
}

/* ---- import, activation ---- */

/* Where an imported model came from, as far as its file tells: what its row shows as metrics. */
static char *origin_json(const struct tm_provenance *p)
{
    json_t *metrics = p->metrics[0] != '\0' ? json_loads(p->metrics, 0, NULL) : NULL, *o;
    char *text;

    o = json_pack("{s:{s:I, s:s, s:s, s:s, s:o?}}", "imported", "model", (json_int_t)p->model_id, "role", p->role,
                  "owner", p->owner, "created", p->created, "metrics", metrics);
    text = o != NULL ? json_dumps(o, JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    return text;
}

void td_h_models_import(struct td_request *r)
{
    static const char *const query[] = {"activate", NULL};
    struct td_daemon *d = td_req_daemon(r);
    struct tm_model *m = NULL;
    struct tm_provenance p = {0};
    struct st_hardware hw = {0};
    struct st_model row = {.role = "ac", .state = "imported"};
    struct tp_buf out = {0};
    struct tp_err e = {0};
    size_t n;
    const char *bytes = td_req_body(r, &n);
    char location[48];
    bool activate;
    int rc;

    if (!td_req_only_query(r, query))
        return;
    rc = td_query_bool(r, "activate", &activate, &e);
    if (rc == 0)
        rc = td_hardware_find(td_req_reader(r), td_req_param(r, 0), &hw, &e);
    if (rc == 0)
        rc = tm_weights_read(bytes, n, &m, &p, &e);
    if (rc == 0 && (m->features == TCLFEAT_TCLM_1) != td_dialect_is_ms(hw.name))
        rc = tp_fail(&e, TP_E_FEATURES_MISMATCH, "a model of %s does not answer for hardware \"%s\"",
                     tclfeat_version(m->features), hw.name);
    if (rc == 0 && p.kind[0] != '\0' && strcmp(p.kind, hw.kind) != 0)
        rc = tp_fail(&e, TP_E_CONFLICT, "a model of %s hardware does not answer for hardware \"%s\" of kind %s", p.kind,
                     hw.name, hw.kind);
    if (rc == 0)
        rc = st_model_reserve(d->store, &row.id, &e);
    if (rc == 0) {
        memcpy(row.owner, hw.name, sizeof row.owner);
        row.records = p.records;
        row.tasks = p.tasks;
        row.created = (int64_t)time(NULL);
        row.metrics = origin_json(&p);
        p.n_parents = 0; /* ids of another daemon mean nothing here */
        rc = td_registry_publish(d->registry, m, &p, &row, hw.id, activate, &e);
        m = NULL;
    }
    tm_model_free(m);
    st_hardware_clear(&hw);
    st_model_clear(&row);
    if (rc != 0) {
        td_reply_problem(r, &e);
        return;
    }
    if (activate) {
        td_count(d->metrics, TD_C_SWAPS, 1);
        td_recal_note(d->recal, td_req_param(r, 0));
        td_figures_show(d, td_req_reader(r), td_req_param(r, 0));
    }
    td_log(TD_INFO, "model-imported", TD_I("model", p.model_id), TD_S("hardware", td_req_param(r, 0)),
           TD_S("active", activate ? "true" : "false"), TD_S("request_id", td_req_id(r)));
    snprintf(location, sizeof location, "/v1/models/%lld", (long long)p.model_id);
    td_reply_header(r, "Location", location);
    tp_buf_printf(&out, "{\"id\": %lld}", (long long)p.model_id);
    td_reply_json(r, 201, &out);
}

/* kb (may be NULL): "model" may be "kb", too; then *id is 0. */
static int read_activate(struct td_request *r, int64_t *id, bool *kb, struct tp_err *e)
{
    static const char *const keys[] = {"model", NULL};
    json_t *body = NULL;
    int rc = td_body_object(r, keys, &body, e);
    const char *word = rc == 0 && kb != NULL ? json_string_value(json_object_get(body, "model")) : NULL;

    *id = 0;
    if (word != NULL && strcmp(word, "kb") == 0) {
        *kb = true;
        json_decref(body);
        return 0;
    }
    if (rc == 0)
        rc = td_body_int(body, "model", 1, INT64_MAX, id, e);
    if (rc == 0 && *id == 0)
        rc = tp_fail_at(e, TP_E_BAD_PARAMETER, "/model", "\"model\" is missing: the id of the model to activate");
    json_decref(body);
    return rc;
}

/* rc, e: what went wrong before. */
static void reply_model(struct td_request *r, int rc, int64_t id, struct tp_err *e)
{
    struct tp_buf out = {0};

    if (rc == 0)
        rc = td_model_json(td_req_reader(r), id, &out, e);
    if (rc != 0)
        td_reply_problem(r, e);
    else
        td_reply_json(r, 200, &out);
}

void td_h_activate(struct td_request *r)
{
    static const char *const query[] = {NULL};
    struct td_daemon *d = td_req_daemon(r);
    struct tp_err e = {0};
    int64_t id = 0;
    bool changed = false, kb = false;
    struct td_hw hw;
    int rc;

    if (!td_req_only_query(r, query))
        return;
    rc = read_activate(r, &id, &kb, &e);
    if (rc == 0 && !kb)
        rc = td_registry_activate(d->registry, td_req_param(r, 0), id, &changed, &e);
    else if (rc == 0 && (rc = td_registry_deactivate(d->registry, td_req_param(r, 0), &changed, &e)) == 0 &&
             (rc = td_registry_hardware(d->registry, td_req_param(r, 0), &hw, &e)) == 0)
        rc = st_family_kb(td_req_reader(r), hw.family, &id, &e);
    if (changed) {
        td_count(d->metrics, TD_C_SWAPS, 1);
        td_recal_note(d->recal, td_req_param(r, 0));
        td_figures_show(d, td_req_reader(r), td_req_param(r, 0));
        td_log(TD_INFO, "model-activated", TD_I("model", id), TD_S("hardware", td_req_param(r, 0)),
               TD_S("request_id", td_req_id(r)));
    }
    reply_model(r, rc, id, &e);
}

void td_h_family_activate(struct td_request *r)
{
    static const char *const query[] = {NULL};
    struct td_daemon *d = td_req_daemon(r);
    const char *family = td_req_param(r, 0);
    struct tp_err e = {0};
    int64_t id = 0;
    bool changed = false;
    int rc;

    if (!td_req_only_query(r, query))
        return;
    rc = read_activate(r, &id, NULL, &e);
    if (rc == 0)
        rc = td_registry_activate_kb(d->registry, family, id, &changed, &e);
    if (changed) {
        td_kb_changed(d, td_req_reader(r), family);
        td_log(TD_INFO, "knowledge-activated", TD_I("model", id), TD_S("family", family),
               TD_S("request_id", td_req_id(r)));
    }
    reply_model(r, rc, id, &e);
}
