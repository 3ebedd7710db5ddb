/* What changes which snapshot answers: publication, activation, new offsets.
 *
 * Invariant: memory changes only after the commit of the row that says the same, and nothing can fail in between. All
 * of it runs under publish_mu. Any thread. */
#include "daemon/registry_int.h"

#include "daemon/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Makes s (whose reference is taken over) the present one. The slot must be there. */
static void swap_in(struct td_registry *g, struct td_slot *x, struct td_snapshot *s)
{
    struct td_snapshot *old;

    pthread_mutex_lock(&g->mu);
    old = x->previous;
    x->previous = x->present;
    x->present = s;
    x->unusable = 0;
    pthread_mutex_unlock(&g->mu);
    td_registry_release(old);
}

/* ---- publication ---- */
/* The file at path, read back, must predict what `made` predicts; *out is what was read. */
static int prove(const char *path, const struct td_snapshot *made, const struct st_model *row, struct td_snapshot **out,
                 struct tp_err *e)
{
    struct td_snapshot *read = NULL;
    int rc;

    rc = td_snapshot_load(path, row, &read, e);
    if (rc == 0)
        rc = td_snapshot_same(made, read, e);
    if (rc != 0) {
        td_registry_release(read);
        return rc;
    }
    *out = read;
    return 0;
}

static int file_sha256(const char *path, char hex[65], struct tp_err *e)
{
    struct tp_buf bytes = {0};
    int rc = td_weights_bytes(path, &bytes, e);

    if (rc == 0)
        td_sha256(bytes.p, bytes.n, hex);
    tp_buf_free(&bytes);
    return rc;
}

struct publication {
    struct tm_model *model; /* taken over */
    struct tk_kb *kb;       /* NULL: an AC */
    struct tm_provenance *p;
    struct st_model *row;
    int64_t hardware;
    bool activate;
    int64_t instead_of; /* activate only when this one is active; -1 any */
    const struct st_offset *offset;
    size_t n_offsets;
    struct td_kb_with with;
};

static int write_file(const char *path, const struct publication *x, const struct td_snapshot *made, struct tp_err *e)
{
    return x->kb != NULL ? tk_kb_save(path, x->kb, x->p, e) : tm_weights_save(path, made->model, x->p, e);
}

static int insert_row(struct td_registry *g, const struct publication *x, struct tp_err *e)
{
    return x->kb != NULL
               ? st_kb_insert(g->store, x->row, x->activate, x->with.probe, x->activate ? x->with.n_probes : 0, e)
               : st_model_insert_with(g->store, x->row, x->hardware, x->activate, x->offset, x->n_offsets, e);
}

/* The slot that is to change, made before the commit, after which nothing may fail. */
static int take_slot(struct td_registry *g, struct publication *x, struct td_slot **slot, struct tp_err *e)
{
    int64_t present;

    pthread_mutex_lock(&g->mu);
    *slot = td_slot_locked(g, x->row->role, x->row->owner, true);
    present = *slot == NULL ? 0 : (*slot)->present != NULL ? (*slot)->present->id : (*slot)->unusable;
    pthread_mutex_unlock(&g->mu);
    if (*slot == NULL)
        return td_registry_no_memory(e);
    if (x->instead_of >= 0 && x->instead_of != present)
        x->activate = false;
    return 0;
}

/* ---- rejected models ---- */
struct rejected {
    struct td_registry *g;
    int64_t answers[3]; /* ids, 0 none: by the store, in memory, in memory before */
    int64_t left;       /* to be kept */
};

static int drop_rejected(void *arg, const struct st_model *m)
{
    struct rejected *x = arg;
    char path[TD_REGISTRY_PATH];

    if (strcmp(m->state, "rejected") != 0 || x->left-- > 0)
        return 0;
    for (int i = 0; i < 3; i++)
        if (m->id == x->answers[i])
            return 0;
    td_registry_path(x->g, m->id, path, sizeof path);
    unlink(path);
    return 0;
}

/* Removes the weights of the rejected models of row's owner but the newest. Needs publish_mu. */
static void drop_weights(struct td_registry *g, const struct st_model *row)
{
    struct rejected x = {.g = g, .left = g->rejected};
    const struct td_slot *slot;
    struct st_hardware hw = {0};
    struct tp_err e;
    int rc;

    if (g->rejected == INT64_MAX)
        return;
    if (strcmp(row->role, "kb") == 0)
        rc = st_family_kb(g->write_reader, row->owner, &x.answers[0], &e);
    else if ((rc = st_hardware_get(g->write_reader, row->owner, &hw, &e)) == 0)
        x.answers[0] = hw.active_model;
    st_hardware_clear(&hw);
    pthread_mutex_lock(&g->mu);
    slot = td_slot_locked(g, row->role, row->owner, false);
    x.answers[1] = slot != NULL && slot->present != NULL ? slot->present->id : 0;
    x.answers[2] = slot != NULL && slot->previous != NULL ? slot->previous->id : 0;
    pthread_mutex_unlock(&g->mu);
    if (rc == 0) /* else the next publication does it */
        st_model_list(g->write_reader, row->role, row->owner, 0, -1, drop_rejected, &x, &e);
}

/* x->activate tells afterwards whether it was. */
static int publish(struct td_registry *g, struct publication *x, struct tp_err *e)
{
    struct td_snapshot *made = NULL, *read = NULL;
    struct st_hardware there = {0};
    struct td_slot *slot = NULL;
    struct tm_provenance *p = x->p;
    struct st_model *row = x->row;
    char path[TD_REGISTRY_PATH];
    bool wrote = false;
    int rc;

    td_registry_path(g, row->id, path, sizeof path);
    p->model_id = row->id;
    memcpy(p->role, row->role, sizeof p->role);
    memcpy(p->owner, row->owner, sizeof p->owner);
    snprintf(row->features_version, sizeof row->features_version, "%s", tclfeat_version(x->model->features));
    row->sha256[0] = '\0';
    rc = td_snapshot_new(x->model, p, row, 0, &made, e);
    if (rc != 0)
        return rc;

    pthread_mutex_lock(&g->publish_mu);
    if (x->hardware != 0)
        rc = st_hardware_get(g->write_reader, row->owner, &there, e);
    /* The file says it, so that hardware of another kind does not take the model. */
    if (rc == 0 && x->hardware != 0 && (strcmp(there.kind, "cpu") == 0 || strcmp(there.kind, "gpu") == 0))
        memcpy(p->kind, there.kind, sizeof "cpu");
    st_hardware_clear(&there);
    if (rc == 0 && x->activate)
        rc = take_slot(g, x, &slot, e);
    if (rc == 0 && x->with.tell != NULL)
        rc = x->with.tell(x->with.arg, x->activate, e);
    if (rc == 0) {
        rc = write_file(path, x, made, e);
        wrote = true;
    }
    if (rc == 0)
        rc = file_sha256(path, row->sha256, e);
    if (rc == 0)
        rc = prove(path, made, row, &read, e);
    if (rc == 0)
        rc = td_offsets_with(NULL, x->hardware, x->offset, x->n_offsets, &read->offsets, e);
    if (rc == 0)
        rc = insert_row(g, x, e);
    if (rc == 0 && x->activate) {
        swap_in(g, slot, read);
        read = NULL;
    }
    if (rc != 0 && wrote)
        unlink(path);
    if (rc == 0)
        drop_weights(g, row);
    pthread_mutex_unlock(&g->publish_mu);
    td_registry_release(read);
    td_registry_release(made);
    return rc;
}

int td_registry_publish(struct td_registry *g, struct tm_model *m, struct tm_provenance *p, struct st_model *row,
                        int64_t hardware, bool activate, struct tp_err *e)
{
    return td_registry_publish_with(g, m, p, row, hardware, activate, NULL, 0, e);
}

int td_registry_publish_with(struct td_registry *g, struct tm_model *m, struct tm_provenance *p, struct st_model *row,
                             int64_t hardware, bool activate, const struct st_offset *o, size_t n, struct tp_err *e)
{
    struct publication x = {.model = m,
                            .p = p,
                            .row = row,
                            .hardware = hardware,
                            .activate = activate,
                            .instead_of = -1,
                            .offset = o,
                            .n_offsets = n};

    return publish(g, &x, e);
}

int td_registry_publish_kb(struct td_registry *g, struct tk_kb *kb, struct tm_provenance *p, struct st_model *row,
                           int64_t instead_of, bool *activated, struct tp_err *e)
{
    return td_registry_publish_kb_with(g, kb, p, row, instead_of, &(struct td_kb_with){0}, activated, e);
}

int td_registry_publish_kb_with(struct td_registry *g, struct tk_kb *kb, struct tm_provenance *p, struct st_model *row,
                                int64_t instead_of, const struct td_kb_with *with, bool *activated, struct tp_err *e)
{
    struct publication x = {.model = tm_model_clone(kb->model),
                            .kb = kb,
                            .p = p,
                            .row = row,
                            .activate = *activated,
                            .instead_of = instead_of,
                            .with = *with};
    int rc = x.model != NULL ? publish(g, &x, e) : td_registry_no_memory(e);

    tk_kb_free(kb);
    if (rc == 0)
        *activated = x.activate;
    return rc;
}

/* ---- recalibration ---- */

/* Puts fresh, or nothing when it is NULL, in every place where a snapshot of that model is. Those that were there go to
 * gone[], *n of them. */
static void replace_locked(struct td_registry *g, int64_t id, const char *hardware, const char *family,
                           struct td_snapshot *fresh, struct td_snapshot **gone, int *n)
{
    struct td_slot *slot[2] = {td_slot_locked(g, "ac", hardware, false), td_slot_locked(g, "kb", family, false)};
    int kept = 0;

    for (int i = 0; i < 2; i++) {
        struct td_snapshot **place[2] = {slot[i] != NULL ? &slot[i]->present : NULL,
                                         slot[i] != NULL ? &slot[i]->previous : NULL};

        for (int k = 0; k < 2; k++) {
            if (fresh == NULL || place[k] == NULL || *place[k] == NULL || (*place[k])->id != id)
                continue;
            gone[(*n)++] = *place[k];
            *place[k] = td_snapshot_ref(fresh);
        }
    }
    for (int i = 0; i < g->n_extra; i++) {
        struct td_snapshot *s = g->extra[i];

        if (s->id == id) {
            gone[(*n)++] = s;
            s = fresh != NULL ? td_snapshot_ref(fresh) : NULL;
        }
        if (s != NULL)
            g->extra[kept++] = s;
    }
    g->n_extra = kept;
}

int td_registry_recalibrate(struct td_registry *g, const char *hardware, const char *family, int64_t hw, int64_t model,
                            const struct st_offset *o, size_t n, int *calibration, struct tp_err *e)
{
    struct td_snapshot *old = NULL, *fresh = NULL, *gone[TD_REGISTRY_EXTRA + 4] = {NULL};
    int n_gone = 0, rc = 0;

    pthread_mutex_lock(&g->publish_mu);
    pthread_mutex_lock(&g->mu);
    old = td_registry_by_id_locked(g, hardware, family, model);
    pthread_mutex_unlock(&g->mu);
    if (old != NULL) /* before the commit, after which nothing may fail */
        rc = td_snapshot_with_offsets(old, hw, o, n, &fresh, e);
    if (rc == 0)
        rc = st_offset_put(g->store, model, hw, o, n, calibration, e);
    if (rc == 0) {
        if (fresh != NULL)
            fresh->calibration = *calibration;
        pthread_mutex_lock(&g->mu);
        g->recalibrations++;
        replace_locked(g, model, hardware, family, fresh, gone, &n_gone);
        pthread_mutex_unlock(&g->mu);
    }
    pthread_mutex_unlock(&g->publish_mu);
    while (n_gone > 0)
        td_registry_release(gone[--n_gone]);
    td_registry_release(fresh);
    td_registry_release(old);
    return rc;
}

/* ---- activation ---- */

/* Puts row, a model of hardware or family `owner`, in its slot; `active` is what the store has now. */
static int activate_row(struct td_registry *g, const struct st_model *row, const char *owner, const char *family,
                        int64_t active, bool *changed, struct tp_err *e)
{
    bool ac = strcmp(row->role, "ac") == 0, same;
    struct td_snapshot *s;
    struct td_slot *slot;
    int rc = 0;

    if (td_registry_dropped(g, row, e)) /* also when it is in memory still: the next start would not find it */
        return -TP_E_UNKNOWN_MODEL;
    pthread_mutex_lock(&g->mu);
    slot = td_slot_locked(g, row->role, owner, true);
    s = td_registry_by_id_locked(g, ac ? owner : "", family, row->id);
    same = slot != NULL && s != NULL && slot->present == s && active == row->id;
    pthread_mutex_unlock(&g->mu);
    if (slot == NULL)
        return td_registry_no_memory(e);
    if (s == NULL)
        rc = td_registry_load(g, g->write_reader, row, &s, e);
    if (rc == 0 && !same)
        rc = ac ? st_model_activate(g->store, owner, row->id, e) : st_family_activate(g->store, owner, row->id, e);
    if (rc == 0 && !same) {
        swap_in(g, slot, s);
        s = NULL;
    }
    if (rc == 0 && changed != NULL)
        *changed = !same;
    td_registry_release(s);
    return rc;
}

int td_registry_activate(struct td_registry *g, const char *hardware, int64_t id, bool *changed, struct tp_err *e)
{
    struct st_model row = {0};
    struct st_hardware hw = {0};
    int rc;

    pthread_mutex_lock(&g->publish_mu);
    rc = st_hardware_get(g->write_reader, hardware, &hw, e);
    if (rc == 0)
        rc = st_model_get(g->write_reader, id, &row, e);
    if (rc == 0 && (strcmp(row.role, "ac") != 0 || strcmp(row.owner, hardware) != 0))
        rc = tp_fail(e, TP_E_CONFLICT,
                     "model %" PRId64 " belongs to %s \"%s\"; only models of hardware \"%s\" can be its active one", id,
                     strcmp(row.role, "ac") == 0 ? "hardware" : "family", row.owner, hardware);
    if (rc == 0)
        rc = activate_row(g, &row, hardware, hw.family, hw.active_model, changed, e);
    pthread_mutex_unlock(&g->publish_mu);
    st_model_clear(&row);
    st_hardware_clear(&hw);
    return rc;
}

int td_registry_deactivate(struct td_registry *g, const char *hardware, bool *changed, struct tp_err *e)
{
    struct st_hardware hw = {0};
    struct td_slot *slot;
    bool kb;
    int rc;

    pthread_mutex_lock(&g->publish_mu);
    rc = st_hardware_get(g->write_reader, hardware, &hw, e);
    if (rc == 0) { /* also one that is known, but could not be loaded */
        pthread_mutex_lock(&g->mu);
        slot = td_slot_locked(g, "kb", hw.family, false);
        kb = slot != NULL && slot->present != NULL;
        pthread_mutex_unlock(&g->mu);
        if (!kb)
            rc = tp_fail(e, TP_E_CONFLICT, "family \"%s\" has no knowledge base that could answer for hardware \"%s\"",
                         hw.family, hardware);
    }
    if (rc == 0 && hw.active_model != 0) {
        rc = st_model_deactivate(g->store, hardware, e);
        pthread_mutex_lock(&g->mu);
        slot = td_slot_locked(g, "ac", hardware, false);
        pthread_mutex_unlock(&g->mu);
        if (rc == 0 && slot != NULL)
            swap_in(g, slot, NULL);
        *changed = rc == 0;
    }
    pthread_mutex_unlock(&g->publish_mu);
    st_hardware_clear(&hw);
    return rc;
}

int td_registry_activate_kb(struct td_registry *g, const char *family, int64_t id, bool *changed, struct tp_err *e)
{
    struct st_model row = {0};
    int64_t active = 0;
    int rc;

    pthread_mutex_lock(&g->publish_mu);
    rc = st_family_kb(g->write_reader, family, &active, e);
    if (rc == 0)
        rc = st_model_get(g->write_reader, id, &row, e);
    if (rc == 0 && (strcmp(row.role, "kb") != 0 || strcmp(row.owner, family) != 0))
        rc = tp_fail(e, TP_E_CONFLICT,
                     "model %" PRId64
                     " belongs to %s \"%s\"; only knowledge bases of family \"%s\" can be its active one",
                     id, strcmp(row.role, "ac") == 0 ? "hardware" : "family", row.owner, family);
    if (rc == 0)
        rc = activate_row(g, &row, family, family, active, changed, e);
    pthread_mutex_unlock(&g->publish_mu);
    st_model_clear(&row);
    return rc;
}

/* ---- knowledge bases ---- */
int td_registry_load_kb(struct td_registry *g, struct st_reader *r, int64_t id, struct tk_kb **kb, struct tp_err *e)
{
    struct st_model row = {0};
    struct tp_buf bytes = {0};
    char path[TD_REGISTRY_PATH], hex[65];
    int rc = st_model_get(r, id, &row, e);

    if (rc == 0) {
        td_registry_path(g, id, path, sizeof path);
        rc = td_weights_bytes(path, &bytes, e);
    }
    if (rc == 0) {
        td_sha256(bytes.p, bytes.n, hex);
        if (strcmp(hex, row.sha256) != 0)
            rc = tp_fail(e, TP_E_BAD_WEIGHTS,
                         "the weights file of model %" PRId64 " is not the one that was published (SHA-256 differs)",
                         id);
    }
    if (rc == 0)
        rc = tk_kb_read(bytes.p, bytes.n, kb, NULL, e);
    tp_buf_free(&bytes);
    st_model_clear(&row);
    return rc;
}
