/* Members of families, their probe sets, peers, transfers between them (daemon/fleet.h). On a job thread; listing on
 * any. */
#include "daemon/fleet.h"

#include "daemon/hardware.h"
#include "model/mem.h"
#include "sampler/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- members ---- */
struct listing {
    const char *family, *kind;
    struct td_members out;
    size_t cap;
};

static char *copy(const char *s, bool *oom)
{
    char *c = s != NULL ? strdup(s) : NULL;

    *oom |= s != NULL && c == NULL;
    return c;
}

static int add_member(void *arg, const struct st_hardware *h)
{
    struct listing *l = arg;
    struct st_hardware *x;
    bool oom = false;

    if ((l->family != NULL && strcmp(h->family, l->family) != 0) || (l->kind != NULL && strcmp(h->kind, l->kind) != 0))
        return 0;
    if (tm_grow((void **)&l->out.v, &l->cap, l->out.n + 1, sizeof *l->out.v) != 0)
        return -TP_E_NO_MEMORY;
    x = &l->out.v[l->out.n++];
    *x = *h;
    x->target = copy(h->target, &oom);
    x->descriptor = copy(h->descriptor, &oom);
    x->policy = copy(h->policy, &oom);
    return oom ? -TP_E_NO_MEMORY : 0;
}

int td_members_list(struct st_reader *r, const char *family, const char *kind, struct td_members *out, struct tp_err *e)
{
    struct listing l = {.family = family, .kind = kind};
    int rc = st_hardware_list(r, "", -1, add_member, &l, e);

    if (rc == -TP_E_NO_MEMORY)
        tp_fail(e, TP_E_NO_MEMORY, "no memory for a list of hardware");
    if (rc != 0)
        td_members_free(&l.out);
    else
        *out = l.out;
    return rc;
}

void td_members_free(struct td_members *m)
{
    for (size_t i = 0; i < m->n; i++)
        st_hardware_clear(&m->v[i]);
    free(m->v);
    *m = (struct td_members){0};
}

/* ---- probe sets ---- */
void td_older_free(struct td_older *o)
{
    for (uint32_t i = 0; i < o->n; i++) {
        free((void *)o->of[i].learned.programs);
        free((void *)o->of[i].held_out.programs);
        td_train_data_free(&o->data[i]);
    }
    free(o->of);
    free(o->data);
    free(o->name);
    *o = (struct td_older){0};
}

/* Appends the probe set of hw, when it has one. */
static int add_older(struct st_reader *r, const struct st_hardware *hw, enum tclfeat_set features, struct td_older *o,
                     struct tp_err *e)
{
    struct td_train_want want = {.hw = hw, .features = features, .probe = true};
    struct td_train_data *data = &o->data[o->n];
    uint32_t *learned = NULL, *held_out = NULL;
    size_t n_learned, n_held_out;
    bool by_record;
    int rc = td_train_load(r, &want, data, e);

    if (rc != 0)
        return rc;
    if (data->ds->n == 0) {
        td_train_data_free(data);
        return 0;
    }
    if ((learned = tm_alloc(data->ds->n, sizeof *learned)) == NULL ||
        (held_out = tm_alloc(data->ds->n, sizeof *held_out)) == NULL) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for probe sets");
        goto out;
    }
    /* the tasks decide, and all of them are there: so the split is that of the training (but by program, and with more
     * tasks than the set has room for, where it may differ a little) */
    rc = tk_holdout_split(data->ds, (const uint8_t(*)[16])data->key, learned, &n_learned, held_out, &n_held_out,
                          &by_record, e);
    if (rc != 0)
        goto out;
    o->of[o->n] = (struct tk_older){{data->ds, learned, n_learned}, {data->ds, held_out, n_held_out}};
    memcpy(o->name[o->n++], hw->name, sizeof hw->name);
    return 0;
out:
    td_train_data_free(data);
    free(learned);
    free(held_out);
    return rc;
}

int td_older_load(struct st_reader *r, const char *family, const char *except, enum tclfeat_set features,
                  struct td_older *out, struct tp_err *e)
{
    struct td_members m = {0};
    struct td_older o = {0};
    int rc = td_members_list(r, family, NULL, &m, e);

    if (rc != 0)
        return rc;
    if ((o.of = tm_alloc(m.n, sizeof *o.of)) == NULL || (o.data = tm_alloc(m.n, sizeof *o.data)) == NULL ||
        (o.name = tm_alloc(m.n, sizeof *o.name)) == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for probe sets");
    for (size_t i = 0; i < m.n && o.n < TK_OLDER_MAX && rc == 0; i++)
        if (except == NULL || strcmp(m.v[i].name, except) != 0)
            rc = add_older(r, &m.v[i], features, &o, e);
    td_members_free(&m);
    if (rc != 0)
        td_older_free(&o);
    else
        *out = o;
    return rc;
}

/* About `want` of programs[0..n), as many of each task: *out is malloc'ed. */
static int draw(const struct td_train_data *data, const uint32_t *programs, size_t n, size_t want, uint64_t seed,
                uint32_t **out, size_t *n_out, struct tp_err *e)
{
    uint32_t *task = tm_alloc(n, sizeof *task), *some = tm_alloc(n, sizeof *some), tasks = 0;
    uint8_t(*key)[16] = tm_alloc(n, sizeof *key), *take = tm_alloc(n, 1), *seen = tm_alloc(data->ds->n_tasks, 1);
    size_t k = 0;
    int rc = -TP_E_NO_MEMORY;

    if (task == NULL || some == NULL || key == NULL || take == NULL || seen == NULL) {
        tp_fail(e, TP_E_NO_MEMORY, "no memory for a probe set");
        goto out;
    }
    for (size_t i = 0; i < n; i++) {
        task[i] = data->ds->task[programs[i]];
        memcpy(key[i], data->key[programs[i]], 16);
        tasks += !seen[task[i]];
        seen[task[i]] = 1;
    }
    rc = tasks > 0 ? ts_sample(task, (const uint8_t(*)[16])key, n, (uint32_t)((want + tasks - 1) / tasks), seed, take,
                               NULL, e)
                   : 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        if (take[i] != 0)
            some[k++] = programs[i];
out:
    free(task);
    free(key);
    free(take);
    free(seen);
    if (rc != 0) {
        free(some);
        return rc;
    }
    *out = some;
    *n_out = k;
    return 0;
}

static uint32_t *all_of(const struct tm_dataset *ds)
{
    uint32_t *all = tm_alloc(ds->n, sizeof *all);

    for (uint32_t i = 0; i < ds->n && all != NULL; i++)
        all[i] = i;
    return all;
}

int td_probe_draw(const struct st_hardware *hw, const struct td_train_set *set, uint64_t seed, struct st_probe_set *out,
                  struct tp_err *e)
{
    const struct tm_dataset *ds = set->data.ds;
    uint32_t *all = all_of(ds), *some = NULL;
    struct st_probe *p = NULL;
    size_t n = 0;
    int rc = all != NULL ? draw(&set->data, all, ds->n, TD_PROBE_PROGRAMS, seed, &some, &n, e)
                         : tp_fail(e, TP_E_NO_MEMORY, "no memory for a probe set");

    if (rc == 0 && (p = tm_alloc(n, sizeof *p)) == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a probe set");
    for (size_t i = 0; i < n && rc == 0; i++) {
        const char *id = tm_dataset_task_id(ds, ds->task[some[i]]);

        memcpy(p[i].task_id, id, strlen(id) + 1);
        memcpy(p[i].hash, set->data.key[some[i]], 16);
    }
    if (rc == 0)
        *out = (struct st_probe_set){hw->id, p, n};
    free(all);
    free(some);
    return rc;
}

/* ---- peers ---- */
void td_peers_free(struct td_peers *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        td_registry_release(p->snapshot[i]);
    *p = (struct td_peers){0};
}

/* 1: *s is hw's active AC; 0: it has none of these features. */
static int acquire_ac(struct td_daemon *d, const struct st_hardware *hw, enum tclfeat_set features,
                      struct td_snapshot **s, struct tp_err *e)
{
    int rc = td_registry_acquire(d->registry, hw->name, hw->family, "ac", s, e);

    if (rc != 0)
        return rc == -TP_E_NO_MODEL ? 0 : rc;
    if ((*s)->model->features == features)
        return 1;
    td_registry_release(*s);
    return 0;
}

/* Appends hw's AC, when it has one that can be asked. */
static int add_peer(struct td_daemon *d, const struct st_hardware *hw, enum tclfeat_set features, struct td_peers *p,
                    struct tp_err *e)
{
    struct td_snapshot *s = NULL;
    struct tclfeat_hw feat;
    int rc = acquire_ac(d, hw, features, &s, e);

    if (rc <= 0)
        return rc;
    td_hardware_feat(hw, &feat);
    memcpy(p->name[p->n], hw->name, sizeof hw->name);
    p->snapshot[p->n] = s;
    p->of[p->n] = (struct tk_peer){p->name[p->n], s->model, feat.kind, s->id};
    p->n++;
    return 0;
}

struct other {
    const struct st_hardware *hw;
    double alike;
};

static int most_alike(const void *a, const void *b)
{
    const struct other *x = a, *y = b;

    return x->alike > y->alike ? -1 : x->alike < y->alike ? 1 : strcmp(x->hw->name, y->hw->name);
}

int td_peers_load(struct td_daemon *d, struct st_reader *r, const struct st_hardware *hw, enum tclfeat_set features,
                  struct td_peers *out, struct tp_err *e)
{
    struct td_members m = {0};
    struct tclfeat_hw own, other;
    struct other *c = NULL;
    size_t n = 0;
    int rc = td_members_list(r, hw->family, NULL, &m, e);

    *out = (struct td_peers){0};
    if (rc == 0 && (c = tm_alloc(m.n, sizeof *c)) == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a list of hardware");
    td_hardware_feat(hw, &own);
    for (size_t i = 0; i < m.n && rc == 0; i++) {
        if (m.v[i].id == hw->id)
            continue;
        td_hardware_feat(&m.v[i], &other);
        c[n++] = (struct other){&m.v[i], tk_alike(&own, &other)};
    }
    if (n > 0)
        qsort(c, n, sizeof *c, most_alike);
    for (size_t i = 0; i < n && out->n < TD_PEERS && rc == 0; i++)
        rc = add_peer(d, c[i].hw, features, out, e);
    free(c);
    td_members_free(&m);
    if (rc != 0)
        td_peers_free(out);
    return rc;
}

/* ---- transfers ---- */

/* 1: *t was measured, 0: it has no model that can be asked. */
static int measure_one(struct td_daemon *d, const struct st_hardware *source, const struct st_hardware *hw,
                       const struct tk_set *probe, const struct tk_run *run, struct st_transfer *t, struct tp_err *e)
{
    struct td_snapshot *s = NULL;
    struct tclfeat_hw a, b;
    struct tk_verdict v;
    int rc = acquire_ac(d, source, probe->ds->features, &s, e);

    if (rc <= 0)
        return rc;
    td_hardware_feat(source, &a);
    td_hardware_feat(hw, &b);
    rc = tk_gate_model(s->model, a.kind, b.kind, probe, run, &v, e);
    td_registry_release(s);
    if (rc != 0)
        return rc;
    *t = (struct st_transfer){.source = source->id,
                              .mean = v.concordance.mean,
                              .lower = v.concordance.lower,
                              .tasks = v.concordance.tasks,
                              .programs = v.concordance.programs,
                              .created = (int64_t)time(NULL)};
    memcpy(t->gate, tk_gate_name(v.gate), strlen(tk_gate_name(v.gate)) + 1);
    memcpy(t->reason, v.reason, sizeof t->reason);
    return 1;
}

int td_transfers_measure(struct td_daemon *d, const struct td_job *job, struct st_reader *r,
                         const struct st_hardware *hw, const struct td_train_set *set, const struct tk_run *run,
                         struct tp_err *e)
{
    struct td_members m = {0};
    uint32_t *all = all_of(set->data.ds), *some = NULL;
    struct st_transfer *t = NULL;
    struct tk_set probe = {.ds = set->data.ds};
    size_t n = 0;
    int rc = td_members_list(r, NULL, hw->kind, &m, e);

    if (rc == 0 && (all == NULL || (t = tm_alloc(m.n, sizeof *t)) == NULL))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to measure transfers");
    if (rc == 0)
        rc = draw(&set->data, all, set->data.ds->n, TD_TRANSFER_PROGRAMS, run->seed, &some, &probe.n, e);
    probe.programs = some;
    for (size_t i = 0; i < m.n && rc == 0; i++) {
        if (m.v[i].id == hw->id)
            continue;
        rc = td_job_cancelled(job) ? tp_fail(e, TP_E_CANCELLED, "cancelled")
                                   : measure_one(d, &m.v[i], hw, &probe, run, &t[n], e);
        if (rc > 0) {
            n++;
            rc = 0;
        }
    }
    if (rc == 0 && n > 0)
        rc = st_transfer_put(d->store, hw->id, t, n, e);
    td_members_free(&m);
    free(all);
    free(some);
    free(t);
    return rc;
}
