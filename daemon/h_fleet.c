/* Whose knowledge may help a hardware. On the api pool. */
#include "daemon/fleet.h"
#include "daemon/handlers.h"
#include "daemon/hardware.h"
#include "daemon/hcommon.h"
#include "daemon/policy.h"
#include "daemon/recalibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- similar ---- */
struct similar {
    const struct st_hardware *hw;
    double alike;
    struct st_transfer transfer; /* source 0: not measured */
    bool same_kind;
};

struct found {
    struct similar *v;
    size_t n;
};

static int note_transfer(void *arg, const struct st_transfer *t)
{
    const struct found *f = arg;

    for (size_t i = 0; i < f->n; i++)
        if (f->v[i].hw->id == t->source)
            f->v[i].transfer = *t;
    return 0;
}

/* Measured before not measured, the better before the worse. */
static int best_first(const void *x, const void *y)
{
    const struct similar *a = x, *b = y;
    double m = a->transfer.source != 0 && !isnan(a->transfer.mean) ? a->transfer.mean : -1,
           n = b->transfer.source != 0 && !isnan(b->transfer.mean) ? b->transfer.mean : -1;

    if (m != n)
        return m > n ? -1 : 1;
    if (a->alike != b->alike)
        return a->alike > b->alike ? -1 : 1;
    return strcmp(a->hw->name, b->hw->name);
}

static void put_number(struct tp_buf *b, const char *key, double v)
{
    tp_buf_printf(b, ", \"%s\": ", key);
    tp_buf_json_num(b, v, 6);
}

static void put_similar(struct tp_buf *b, const struct similar *s, const char *kind)
{
    bool measured = s->same_kind && s->transfer.source != 0;

    tp_buf_printf(b, "{\"hardware\": \"%s\"", s->hw->name);
    put_number(b, "similarity", s->alike);
    put_number(b, "measured_transfer_gain", measured ? s->transfer.mean : NAN);
    put_number(b, "lower_bound", measured ? s->transfer.lower : NAN);
    tp_buf_printf(b, ", \"recommended\": %s, \"measured\": ",
                  measured && strcmp(s->transfer.gate, tk_gate_name(TK_GATE_SCRATCH)) != 0 ? "true" : "false");
    td_json_time(b, measured ? s->transfer.created * 1000 : 0);
    tp_buf_puts(b, ", \"reason\": ");
    if (measured)
        tp_buf_json_str(b, s->transfer.reason, strlen(s->transfer.reason));
    else if (!s->same_kind)
        tp_buf_printf(b, "\"Knowledge of %s hardware is not used for %s hardware.\"", s->hw->kind, kind);
    else
        tp_buf_puts(b, s->hw->active_model != 0 ? "\"Not measured yet: the next retrain in mode adapt asks its model.\""
                                                : "\"It has no model of its own that could be asked.\"");
    tp_buf_putc(b, '}');
}

static int list_similar(struct td_request *r, const struct st_hardware *hw, struct tp_buf *out, struct tp_err *e)
{
    struct td_members m = {0};
    struct found f = {0};
    struct tclfeat_hw own, other;
    int rc = td_members_list(td_req_reader(r), NULL, NULL, &m, e);

    if (rc == 0 && (f.v = calloc(m.n + 1, sizeof *f.v)) == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a list of hardware");
    td_hardware_feat(hw, &own);
    for (size_t i = 0; i < m.n && rc == 0; i++) {
        if (m.v[i].id == hw->id)
            continue;
        td_hardware_feat(&m.v[i], &other);
        f.v[f.n++] = (struct similar){
            .hw = &m.v[i], .alike = tk_alike(&own, &other), .same_kind = tk_family_accepts(own.kind, other.kind)};
    }
    if (rc == 0)
        rc = st_transfer_list(td_req_reader(r), hw->id, note_transfer, &f, e);
    if (rc == 0) {
        qsort(f.v, f.n, sizeof *f.v, best_first);
        tp_buf_puts(out, "{\"items\": [");
        for (size_t i = 0; i < f.n; i++) {
            tp_buf_puts(out, i > 0 ? ", " : "");
            put_similar(out, &f.v[i], hw->kind);
        }
        tp_buf_puts(out, "]}");
    }
    free(f.v);
    td_members_free(&m);
    return rc;
}

void td_h_similar(struct td_request *r)
{
    static const char *const query[] = {NULL};
    struct st_hardware hw = {0};
    struct tp_buf out = {0};
    struct tp_err e = {0};
    int rc;

    if (!td_req_only_query(r, query))
        return;
    rc = td_hardware_find(td_req_reader(r), td_req_param(r, 0), &hw, &e);
    if (rc == 0)
        rc = list_similar(r, &hw, &out, &e);
    st_hardware_clear(&hw);
    if (rc != 0) {
        tp_buf_free(&out);
        td_reply_problem(r, &e);
    } else {
        td_reply_json(r, 200, &out);
    }
}

/* ---- policy ---- */
void td_h_policy_put(struct td_request *r)
{
    static const char *const query[] = {NULL}, *const keys[] = {"measurements", "drift", "cooldown_seconds", NULL};
    struct td_daemon *d = td_req_daemon(r);
    struct td_policy p = {.cooldown_seconds = TD_POLICY_COOLDOWN};
    struct st_hardware hw = {0};
    struct tp_buf text = {0}, out = {0};
    struct tp_err e = {0};
    json_t *body = NULL;
    int rc;

    if (!td_req_only_query(r, query))
        return;
    rc = td_hardware_find(td_req_reader(r), td_req_param(r, 0), &hw, &e);
    if (rc == 0)
        rc = td_body_object(r, keys, &body, &e);
    if (rc == 0)
        rc = td_body_int(body, "measurements", 1, 1000000000, &p.measurements, &e);
    if (rc == 0)
        rc = td_body_num(body, "drift", 1, 100, &p.drift, &e);
    if (rc == 0)
        rc = td_body_int(body, "cooldown_seconds", 0, 30 * 86400, &p.cooldown_seconds, &e);
    json_decref(body);
    td_policy_write(&p, &text);
    tp_buf_putc(&text, '\0');
    if (rc == 0 && text.oom)
        rc = tp_fail(&e, TP_E_NO_MEMORY, "no memory for a policy");
    if (rc == 0)
        rc = st_policy_set(d->store, hw.name, td_policy_on(&p) ? text.p : NULL, &e);
    tp_buf_free(&text);
    st_hardware_clear(&hw);
    if (rc != 0) {
        td_reply_problem(r, &e);
        return;
    }
    td_recal_note(d->recal, td_req_param(r, 0));
    td_policy_write(&p, &out);
    tp_buf_putc(&out, '\n');
    td_reply_json(r, 200, &out);
}
