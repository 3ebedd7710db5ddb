/* Starter knowledge (daemon/starter.h).
 *
 * Invariant: a family gets it once: as long as it has ever had a knowledge base, nothing is done. */
#include "daemon/starter.h"

#include "ckd/kb.h"
#include "daemon/dialect.h"
#include "daemon/figures.h"
#include "daemon/log.h"
#include "daemon/registry.h"
#include "daemon/story.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, FAMILIES = 64 /* of one page */ };

struct td_starter {
    pthread_mutex_t mu; /* one family at a time: two requests may bring the same one */
    char dir[PATH_SIZE];
};

static bool kb_file(const char *dir, const char *kind, char path[PATH_SIZE + 32])
{
    snprintf(path, PATH_SIZE + 32, "%s/%s.safetensors", dir, kind);
    return access(path, R_OK) == 0;
}

static bool holds_knowledge(const char *dir)
{
    char path[PATH_SIZE + 32];

    return kb_file(dir, "cpu", path) || kb_file(dir, "gpu", path);
}

static bool beside_program(char dir[PATH_SIZE])
{
    static const char *const places[] = {"../share/tcld/kb", "../config/kb", "../../config/kb"};
    char program[PATH_SIZE - 64], *slash;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);

    if (n <= 0)
        return false;
    program[n] = '\0';
    slash = strrchr(program, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(dir, PATH_SIZE, "%s/%s", program, places[i]);
        if (holds_knowledge(dir))
            return true;
    }
    return false;
}

int td_starter_new(const struct td_config *c, struct td_starter **out, struct tp_err *e)
{
    struct td_starter *x;
    bool found;

    *out = NULL;
    if (strcmp(c->starter_knowledge, "off") == 0)
        return 0;
    x = calloc(1, sizeof *x);
    if (x == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for starter knowledge");
    pthread_mutex_init(&x->mu, NULL);
    if (strcmp(c->starter_knowledge, "auto") == 0) {
        found = beside_program(x->dir);
    } else {
        snprintf(x->dir, sizeof x->dir, "%s", c->starter_knowledge);
        found = holds_knowledge(x->dir);
        if (!found) {
            td_starter_free(x);
            return tp_fail(e, TP_E_CONFIG,
                           "starter_knowledge: %.150s holds neither cpu.safetensors nor gpu.safetensors; auto, off or "
                           "another directory is accepted",
                           c->starter_knowledge);
        }
    }
    if (found) {
        *out = x;
    } else {
        td_log(TD_INFO, "no-starter-knowledge");
        td_starter_free(x);
    }
    return 0;
}

void td_starter_free(struct td_starter *x)
{
    if (x == NULL)
        return;
    pthread_mutex_destroy(&x->mu);
    free(x);
}

struct wanted {
    const char *name;
    bool found;
    struct st_family family;
};

static int find_family(void *arg, const struct st_family *f)
{
    struct wanted *w = arg;

    w->found = strcmp(f->name, w->name) == 0;
    if (w->found)
        w->family = *f;
    return w->found;
}

static int publish(struct td_daemon *d, const char *path, const struct st_family *family, int64_t *id, struct tp_err *e)
{
    struct st_model row = {.role = "kb", .state = "imported", .created = (int64_t)time(NULL)};
    struct tm_provenance *p = calloc(1, sizeof *p);
    struct tp_buf b = {0};
    struct tk_kb *kb = NULL;
    bool active = true;
    int rc = p != NULL ? tk_kb_load(path, &kb, p, e) : tp_fail(e, TP_E_NO_MEMORY, "no memory for starter knowledge");

    if (rc == 0 && strcmp(tp_target_kind_name(kb->kind), family->kind) != 0)
        rc = tp_fail(e, TP_E_UNUSABLE, "%s holds knowledge of %s hardware, the family is of %s", path,
                     tp_target_kind_name(kb->kind), family->kind);
    if (rc == 0)
        rc = st_model_reserve(d->store, &row.id, e);
    if (rc != 0)
        goto out;
    memcpy(row.owner, family->name, sizeof row.owner);
    row.records = p->records;
    row.tasks = p->tasks;
    tp_buf_printf(&b, "{\"mode\": \"starter\", \"training\": %s}", p->training[0] != '\0' ? p->training : "null");
    row.metrics = td_take_text(&b);
    if (row.metrics == NULL) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for starter knowledge");
        goto out;
    }
    p->n_parents = 0; /* ids of another daemon mean nothing here */
    rc = td_registry_publish_kb(d->registry, kb, p, &row, 0, &active, e);
    kb = NULL;
    *id = row.id;
out:
    tk_kb_free(kb);
    st_model_clear(&row);
    free(p);
    return rc;
}

void td_starter_family(struct td_daemon *d, struct st_reader *r, const char *family)
{
    struct wanted w = {.name = family};
    char path[PATH_SIZE + 32];
    struct tp_err e = {0};
    int64_t id = 0;
    int rc;

    if (d->starter == NULL)
        return;
    pthread_mutex_lock(&d->starter->mu);
    rc = st_family_list(r, "", -1, find_family, &w, &e);
    if (rc == 0 && w.found && w.family.kb_model == 0 && !td_dialect_is_ms(family) && w.family.kind[0] != '\0' &&
        kb_file(d->starter->dir, w.family.kind, path)) {
        rc = publish(d, path, &w.family, &id, &e);
        if (rc == 0) {
            td_kb_changed(d, r, family);
            td_log(TD_INFO, "starter-knowledge", TD_S("family", family), TD_S("kind", w.family.kind),
                   TD_I("model", id));
        }
    }
    pthread_mutex_unlock(&d->starter->mu);
    if (rc != 0)
        td_log(TD_WARNING, "starter-knowledge-unusable", TD_S("family", family), TD_S("reason", e.detail));
}

struct page {
    int n;
    char name[FAMILIES][ST_ID_MAX + 1];
};

static int collect(void *arg, const struct st_family *f)
{
    struct page *p = arg;

    memcpy(p->name[p->n++], f->name, sizeof p->name[0]);
    return p->n == FAMILIES;
}

void td_starter_all(struct td_daemon *d)
{
    struct st_reader *r = NULL;
    struct page p = {.n = FAMILIES};
    char after[ST_ID_MAX + 1] = "";
    struct tp_err e;

    if (d->starter == NULL || st_reader_new(d->store, &r, &e) != 0)
        return;
    while (p.n == FAMILIES) {
        p.n = 0;
        if (st_family_list(r, after, FAMILIES, collect, &p, &e) != 0)
            break;
        for (int i = 0; i < p.n; i++)
            td_starter_family(d, r, p.name[i]);
        if (p.n > 0)
            memcpy(after, p.name[p.n - 1], sizeof after);
    }
    st_reader_free(r);
}
