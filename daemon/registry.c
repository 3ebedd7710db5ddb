/* The model registry: one slot per (AC, hardware) and (KB, family), each with the present and the previous snapshot.
 *
 * Invariant: a slot's present snapshot is the one whose id the store calls active, from the end of a publication to the
 * start of the next; publish_mu orders publications, activations and deletions, so that store and memory change in the
 * same order. `mu` is held for pointer work only: a prediction never waits for a disk. Order of locks: publish_mu,
 * load_mu, mu. */
#include "daemon/registry_int.h"

#include "daemon/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 256 /* rows of a list at a time */ };

/* ---- slots ---- */
static unsigned bucket_of(const char *role, const char *owner)
{
    uint32_t h = 2166136261U ^ (unsigned char)role[0]; /* FNV-1a */

    for (; *owner != '\0'; owner++)
        h = (h ^ (unsigned char)*owner) * 16777619U;
    return h % TD_REGISTRY_BUCKETS;
}

struct td_slot *td_slot_locked(struct td_registry *g, const char *role, const char *owner, bool make)
{
    unsigned b = bucket_of(role, owner);
    struct td_slot *x;

    for (x = g->bucket[b]; x != NULL; x = x->next)
        if (strcmp(x->owner, owner) == 0 && strcmp(x->role, role) == 0)
            return x;
    if (!make)
        return NULL;
    x = calloc(1, sizeof *x);
    if (x == NULL)
        return NULL;
    snprintf(x->role, sizeof x->role, "%s", role);
    snprintf(x->owner, sizeof x->owner, "%s", owner);
    x->next = g->bucket[b];
    g->bucket[b] = x;
    return x;
}

int td_registry_no_memory(struct tp_err *e)
{
    return tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
}

/* ---- start and end ---- */
void td_registry_path(const struct td_registry *g, int64_t id, char *buf, size_t n)
{
    snprintf(buf, n, "%s/%" PRId64 ".safetensors", g->dir, id);
}

void td_registry_keep_rejected(struct td_registry *g, int64_t n)
{
    g->rejected = n;
}

bool td_registry_dropped(const struct td_registry *g, const struct st_model *row, struct tp_err *e)
{
    char path[TD_REGISTRY_PATH];

    td_registry_path(g, row->id, path, sizeof path);
    if (strcmp(row->state, "rejected") != 0 || access(path, F_OK) == 0)
        return false;
    tp_fail(e, TP_E_UNKNOWN_MODEL,
            "model %" PRId64 " was rejected and its weights are not kept any more (rejected_models)", row->id);
    return true;
}

/* Removes files without a row: what a crash between file and row, or a deletion of hardware, left behind. Needs
 * publish_mu (or a registry that nobody else knows yet), for a publication writes its file before its row. */
static void sweep_locked(struct td_registry *g)
{
    DIR *d = opendir(g->dir);
    struct dirent *x;

    if (d == NULL)
        return;
    while ((x = readdir(d)) != NULL) {
        struct st_model row = {0};
        struct tp_err e;
        char *end = NULL;
        long long id;

        if (x->d_name[0] < '1' || x->d_name[0] > '9')
            continue;
        id = strtoll(x->d_name, &end, 10);
        if (strncmp(end, ".safetensors", 12) != 0)
            continue;
        if (strcmp(end, ".safetensors") == 0) {
            int rc = st_model_get(g->write_reader, id, &row, &e);

            st_model_clear(&row);
            if (rc != -TP_E_UNKNOWN_MODEL)
                continue; /* known, or the store does not answer: keep it */
        }
        unlinkat(dirfd(d), x->d_name, 0);
    }
    closedir(d);
}

/* One page of a list of owners: loading happens between pages, for a callback may not use the reader that calls it. */
struct page {
    int n;
    struct owner {
        char name[ST_ID_MAX + 1];
        int64_t active;
    } owner[PAGE];
};

static int collect(struct page *p, const char *name, int64_t active)
{
    struct owner *x;

    if (p->n == PAGE)
        return 1;
    x = &p->owner[p->n++];
    memcpy(x->name, name, sizeof x->name);
    x->active = active;
    return 0;
}

static int collect_hardware(void *arg, const struct st_hardware *h)
{
    return collect(arg, h->name, h->active_model);
}

static int collect_family(void *arg, const struct st_family *f)
{
    return collect(arg, f->name, f->kb_model);
}

struct on_error {
    void (*fn)(void *, int64_t, const struct tp_err *);
    void *arg;
};

int td_registry_load(struct td_registry *g, struct st_reader *r, const struct st_model *row, struct td_snapshot **out,
                     struct tp_err *e)
{
    struct td_snapshot *s = NULL;
    char path[TD_REGISTRY_PATH];
    int rc;

    td_registry_path(g, row->id, path, sizeof path);
    rc = td_snapshot_load(path, row, &s, e);
    if (rc == 0) /* the count that goes with these offsets: the row may have been read before they changed */
        rc = td_offsets_load(r, row->id, &s->offsets, &s->calibration, e);
    if (rc != 0) {
        td_registry_release(s);
        return rc;
    }
    *out = s;
    return 0;
}

/* A model that cannot be used leaves its slot empty; only running out of memory stops the start. */
static int load_slot(struct td_registry *g, const char *role, const char *owner, int64_t id, const struct on_error *bad,
                     struct tp_err *e)
{
    struct st_model row = {0};
    struct td_snapshot *s = NULL;
    struct td_slot *x;
    struct tp_err why = {0};
    int rc;

    if (id == 0 || td_slot_locked(g, role, owner, false) != NULL)
        return 0;
    rc = st_model_get(g->write_reader, id, &row, &why);
    if (rc == 0)
        rc = td_registry_load(g, g->write_reader, &row, &s, &why);
    st_model_clear(&row);
    if (rc == 0) {
        x = td_slot_locked(g, role, owner, true);
        if (x == NULL) {
            td_registry_release(s);
            return td_registry_no_memory(e);
        }
        x->present = s;
        return 0;
    }
    if (rc == -TP_E_NO_MEMORY || (x = td_slot_locked(g, role, owner, true)) == NULL)
        return td_registry_no_memory(e);
    x->unusable = id;
    if (bad->fn != NULL)
        bad->fn(bad->arg, id, &why);
    return 0;
}

/* role "kb": also of families that have no hardware at the moment. */
static int load_all(struct td_registry *g, const char *role, const struct on_error *bad, struct tp_err *e)
{
    struct page *p = calloc(1, sizeof *p);
    char after[ST_ID_MAX + 1] = "";
    int rc = 0;

    if (p == NULL)
        return td_registry_no_memory(e);
    do {
        p->n = 0;
        rc = strcmp(role, "kb") == 0 ? st_family_list(g->write_reader, after, PAGE, collect_family, p, e)
                                     : st_hardware_list(g->write_reader, after, PAGE, collect_hardware, p, e);
        for (int i = 0; i < p->n && rc == 0; i++)
            rc = load_slot(g, role, p->owner[i].name, p->owner[i].active, bad, e);
        if (p->n > 0)
            memcpy(after, p->owner[p->n - 1].name, sizeof after);
    } while (rc == 0 && p->n == PAGE);
    free(p);
    return rc;
}

int td_registry_new(const char *models_dir, struct st_store *s,
                    void (*on_error)(void *, int64_t id, const struct tp_err *), void *arg, struct td_registry **out,
                    struct tp_err *e)
{
    struct td_registry *g = NULL;
    struct on_error bad = {on_error, arg};
    int rc;

    if (strlen(models_dir) > TD_REGISTRY_PATH - 64)
        return tp_fail(e, TP_E_CONFIG, "the name of the state directory is too long");
    if (mkdir(models_dir, 0700) != 0 && errno != EEXIST)
        return tp_fail(e, TP_E_IO, "cannot make the directory of the models: %s", strerror(errno));
    g = calloc(1, sizeof *g);
    if (g == NULL)
        return td_registry_no_memory(e);
    pthread_mutex_init(&g->publish_mu, NULL);
    pthread_mutex_init(&g->load_mu, NULL);
    pthread_mutex_init(&g->mu, NULL);
    g->store = s;
    g->rejected = INT64_MAX;
    g->dir = strdup(models_dir);
    rc = g->dir != NULL ? 0 : td_registry_no_memory(e);
    if (rc == 0)
        rc = td_hwcache_new(s, &g->hardware, e);
    if (rc == 0)
        rc = st_reader_new(s, &g->write_reader, e);
    if (rc == 0)
        rc = st_reader_new(s, &g->load_reader, e);
    if (rc == 0)
        rc = load_all(g, "kb", &bad, e);
    if (rc == 0)
        rc = load_all(g, "ac", &bad, e);
    if (rc != 0) {
        td_registry_free(g);
        return rc;
    }
    sweep_locked(g);
    *out = g;
    return 0;
}

void td_registry_free(struct td_registry *g)
{
    if (g == NULL)
        return;
    for (int b = 0; b < TD_REGISTRY_BUCKETS; b++) {
        while (g->bucket[b] != NULL) {
            struct td_slot *x = g->bucket[b];

            g->bucket[b] = x->next;
            td_registry_release(x->present);
            td_registry_release(x->previous);
            free(x);
        }
    }
    for (int i = 0; i < g->n_extra; i++)
        td_registry_release(g->extra[i]);
    st_reader_free(g->load_reader);
    st_reader_free(g->write_reader);
    td_hwcache_free(g->hardware);
    free(g->dir);
    pthread_mutex_destroy(&g->mu);
    pthread_mutex_destroy(&g->load_mu);
    pthread_mutex_destroy(&g->publish_mu);
    free(g);
}

int td_registry_hardware(struct td_registry *g, const char *name, struct td_hw *out, struct tp_err *e)
{
    return td_hwcache_get(g->hardware, name, out, e);
}

bool td_registry_hardware_peek(struct td_registry *g, const char *name, struct td_hw *out)
{
    return td_hwcache_peek(g->hardware, name, out);
}

void td_registry_hardware_changed(struct td_registry *g, const char *name)
{
    td_hwcache_drop(g->hardware, name);
}

int td_registry_count(struct td_registry *g)
{
    int n;

    pthread_mutex_lock(&g->mu);
    n = g->n_extra;
    for (int b = 0; b < TD_REGISTRY_BUCKETS; b++)
        for (const struct td_slot *x = g->bucket[b]; x != NULL; x = x->next)
            n += (x->present != NULL) + (x->previous != NULL);
    pthread_mutex_unlock(&g->mu);
    return n;
}

/* ---- acquire ---- */
static bool owned_by(const char *role, const char *owner, const char *hardware, const char *family)
{
    return strcmp(owner, strcmp(role, "ac") == 0 ? hardware : family) == 0;
}

static struct td_snapshot *present_locked(struct td_registry *g, const char *role, const char *owner)
{
    const struct td_slot *x = td_slot_locked(g, role, owner, false);

    return x != NULL && x->present != NULL ? td_snapshot_ref(x->present) : NULL;
}

/* In memory under this id, wherever it is. */
struct td_snapshot *td_registry_by_id_locked(struct td_registry *g, const char *hardware, const char *family,
                                             int64_t id)
{
    const struct td_slot *slot[2] = {td_slot_locked(g, "ac", hardware, false), td_slot_locked(g, "kb", family, false)};

    for (int i = 0; i < 2; i++) {
        if (slot[i] == NULL)
            continue;
        if (slot[i]->present != NULL && slot[i]->present->id == id)
            return td_snapshot_ref(slot[i]->present);
        if (slot[i]->previous != NULL && slot[i]->previous->id == id)
            return td_snapshot_ref(slot[i]->previous);
    }
    for (int i = 0; i < g->n_extra; i++) {
        struct td_snapshot *s = g->extra[i];

        if (s->id != id || !owned_by(s->role, s->owner, hardware, family))
            continue;
        memmove(&g->extra[1], &g->extra[0], (size_t)i * sizeof g->extra[0]);
        g->extra[0] = s;
        return td_snapshot_ref(s);
    }
    return NULL;
}

static int unknown_model(int64_t id, const char *hardware, const char *family, struct tp_err *e)
{
    return tp_fail(e, TP_E_UNKNOWN_MODEL,
                   "model %" PRId64 " is neither a model of hardware \"%s\" nor a knowledge base of family \"%s\"", id,
                   hardware, family);
}

static int load_by_id(struct td_registry *g, const char *hardware, const char *family, int64_t id,
                      struct td_snapshot **out, struct tp_err *e)
{
    struct st_model row = {0};
    struct td_snapshot *s = NULL, *old = NULL;
    uint64_t recalibrations;
    int rc;

    pthread_mutex_lock(&g->load_mu);
    pthread_mutex_lock(&g->mu);
    s = td_registry_by_id_locked(g, hardware, family, id); /* somebody else may have loaded it while we waited */
    recalibrations = g->recalibrations;
    pthread_mutex_unlock(&g->mu);
    if (s != NULL) {
        pthread_mutex_unlock(&g->load_mu);
        *out = s;
        return 0;
    }
    rc = st_model_get(g->load_reader, id, &row, e);
    if (rc == -TP_E_UNKNOWN_MODEL || (rc == 0 && !owned_by(row.role, row.owner, hardware, family)))
        rc = unknown_model(id, hardware, family, e);
    if (rc == 0)
        rc = td_registry_dropped(g, &row, e) ? -TP_E_UNKNOWN_MODEL : td_registry_load(g, g->load_reader, &row, &s, e);
    if (rc == 0) {
        pthread_mutex_lock(&g->mu);
        if (recalibrations == g->recalibrations) { /* else good for this request, but not to be kept */
            if (g->n_extra == TD_REGISTRY_EXTRA)
                old = g->extra[--g->n_extra];
            memmove(&g->extra[1], &g->extra[0], (size_t)g->n_extra * sizeof g->extra[0]);
            g->extra[0] = td_snapshot_ref(s);
            g->n_extra++;
        }
        pthread_mutex_unlock(&g->mu);
        *out = s;
    }
    pthread_mutex_unlock(&g->load_mu);
    st_model_clear(&row);
    td_registry_release(old);
    return rc;
}

int td_registry_acquire(struct td_registry *g, const char *hardware, const char *family, const char *which,
                        struct td_snapshot **out, struct tp_err *e)
{
    bool active = strcmp(which, "active") == 0, ac = strcmp(which, "ac") == 0, kb = strcmp(which, "kb") == 0;
    const struct td_slot *slot;
    struct td_snapshot *s = NULL;
    int64_t unusable = 0;
    long long id = 0;

    if (!active && !ac && !kb) {
        char *end = NULL;

        errno = 0;
        if (which[0] >= '1' && which[0] <= '9')
            id = strtoll(which, &end, 10);
        if (id == 0 || errno != 0 || *end != '\0')
            return tp_fail(e, TP_E_BAD_PARAMETER, "model must be active, ac, kb or the id of a model");
    }
    pthread_mutex_lock(&g->mu);
    if (id != 0)
        s = td_registry_by_id_locked(g, hardware, family, id);
    if (active || ac)
        s = present_locked(g, "ac", hardware);
    if (s == NULL && (active || kb) && (s = present_locked(g, "kb", family)) == NULL &&
        (slot = td_slot_locked(g, "kb", family, false)) != NULL)
        unusable = slot->unusable;
    pthread_mutex_unlock(&g->mu);
    if (s == NULL && id != 0)
        return load_by_id(g, hardware, family, id, out, e);
    if (s == NULL && unusable != 0)
        return tp_fail(e, TP_E_NO_MODEL,
                       "knowledge base %" PRId64 " of family \"%s\" could not be loaded (the log of tcld's start tells "
                       "why): POST another to /v1/families/%s/activate, or make one: POST {\"mode\": \"pretrain\"} to "
                       "/v1/hardware/%s/retrain",
                       unusable, family, family, hardware);
    if (s == NULL)
        return tp_fail(
            e, TP_E_NO_MODEL,
            "hardware \"%s\" has no %s: POST at least 32 measurements to /v1/hardware/%.63s/measurements, then POST "
            "/v1/hardware/%.63s/retrain",
            hardware,
            active ? "model"
            : ac   ? "model of its own"
                   : "knowledge base",
            hardware, hardware);
    *out = s;
    return 0;
}

/* ---- deletion ---- */
void td_registry_forget(struct td_registry *g, const char *hardware)
{
    struct td_snapshot *gone[TD_REGISTRY_EXTRA + 2] = {NULL};
    struct st_hardware again = {0}; /* it may be registered and have a model again already */
    struct td_slot **link, *x = NULL;
    int64_t active = 0;
    int n = 0, kept = 0;

    td_hwcache_drop(g->hardware, hardware);
    pthread_mutex_lock(&g->publish_mu);
    if (st_hardware_get(g->write_reader, hardware, &again, NULL) == 0)
        active = again.active_model;
    st_hardware_clear(&again);
    pthread_mutex_lock(&g->load_mu); /* or a model that is being loaded would come after its deletion */
    pthread_mutex_lock(&g->mu);
    for (link = &g->bucket[bucket_of("ac", hardware)]; *link != NULL; link = &(*link)->next) {
        if (strcmp((*link)->owner, hardware) == 0 && strcmp((*link)->role, "ac") == 0) {
            struct td_slot *s = *link;

            gone[n++] = s->previous;
            s->previous = NULL;
            if (active == 0 || s->present == NULL || s->present->id != active) {
                gone[n++] = s->present;
                *link = s->next;
                x = s;
            }
            break;
        }
    }
    for (int i = 0; i < g->n_extra; i++) {
        struct td_snapshot *s = g->extra[i];

        if (strcmp(s->role, "ac") == 0 && strcmp(s->owner, hardware) == 0)
            gone[n++] = s;
        else
            g->extra[kept++] = s;
    }
    g->n_extra = kept;
    pthread_mutex_unlock(&g->mu);
    pthread_mutex_unlock(&g->load_mu);
    sweep_locked(g);
    pthread_mutex_unlock(&g->publish_mu);
    free(x);
    while (n > 0)
        td_registry_release(gone[--n]);
}
