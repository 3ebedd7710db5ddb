/* A family's knowledge base in memory and on disk (ckd/kb.h). Which bytes: model/weights_write.c, model/weights.c. */
#include "ckd/kb.h"

#include "ckd/gate.h"
#include "model/mem.h"

#include <stdlib.h>
#include <string.h>

static float *copy(const float *from, size_t n)
{
    float *to = from ? tm_alloc(n, sizeof *to) : NULL;
    if (to)
        memcpy(to, from, n * sizeof *to);
    return to;
}

struct tk_kb *tk_kb_new(struct tm_model *model, enum tp_target_kind kind)
{
    struct tk_kb *kb = model ? calloc(1, sizeof *kb) : NULL;
    if (!kb) {
        tm_model_free(model);
        return NULL;
    }
    *kb = (struct tk_kb){.model = model,
                         .kind = kind,
                         .fisher = tm_alloc(model->n, sizeof *kb->fisher),
                         .anchor = copy(model->w, model->n)};
    if (!kb->fisher || !kb->anchor) {
        tk_kb_free(kb);
        return NULL;
    }
    return kb;
}

struct tk_kb *tk_kb_clone(const struct tk_kb *kb)
{
    struct tk_kb *c = tk_kb_new(tm_model_clone(kb->model), kb->kind);
    if (!c)
        return NULL;
    const size_t n = kb->model->n;
    c->phases = kb->phases;
    memcpy(c->fisher, kb->fisher, n * sizeof *c->fisher);
    memcpy(c->anchor, kb->anchor, n * sizeof *c->anchor);
    if (kb->start && !(c->start = copy(kb->start, n))) {
        tk_kb_free(c);
        return NULL;
    }
    return c;
}

void tk_kb_free(struct tk_kb *kb)
{
    if (!kb)
        return;
    tm_model_free(kb->model);
    free(kb->fisher);
    free(kb->anchor);
    free(kb->start);
    free(kb);
}

/* F* is a mean of squares. */
static int check_fisher(const float *fisher, size_t n, struct tp_err *e)
{
    for (size_t i = 0; i < n; i++)
        if (fisher[i] < 0)
            return tp_fail(e, TP_E_BAD_WEIGHTS, "Fisher information below zero: this is no knowledge base");
    return 0;
}

/* Borrows from kb. */
static int prepare(const struct tk_kb *kb, const struct tm_provenance *p, struct tm_provenance *own,
                   struct tm_besides *b, struct tp_err *e)
{
    *own = p ? *p : (struct tm_provenance){0};
    memset(own->role, 0, sizeof own->role);
    memset(own->kind, 0, sizeof own->kind);
    memcpy(own->role, "kb", 2);
    if (!tk_family_default(kb->kind))
        return tp_fail(e, TP_E_BAD_WEIGHTS, "hardware of kind %s has no knowledge base", tp_target_kind_name(kb->kind));
    memcpy(own->kind, tp_target_kind_name(kb->kind), 3);
    own->phases = kb->phases;
    *b = (struct tm_besides){{kb->fisher, kb->anchor, kb->start}};
    return check_fisher(kb->fisher, kb->model->n, e);
}

int tk_kb_save(const char *path, const struct tk_kb *kb, const struct tm_provenance *p, struct tp_err *e)
{
    struct tm_provenance own;
    struct tm_besides b;
    int rc = prepare(kb, p, &own, &b, e);
    return rc ? rc : tm_weights_save_beside(path, kb->model, &b, &own, e);
}

int tk_kb_write(const struct tk_kb *kb, const struct tm_provenance *p, struct tp_buf *out, struct tp_err *e)
{
    struct tm_provenance own;
    struct tm_besides b;
    int rc = prepare(kb, p, &own, &b, e);
    return rc ? rc : tm_weights_write_beside(kb->model, &b, &own, out, e);
}

/* Takes model and arrays. */
static int assemble(struct tm_model *m, struct tm_besides *b, const struct tm_provenance *p, struct tk_kb **kb,
                    struct tp_err *e)
{
    struct tk_kb *new = NULL;
    int rc;
    if (strcmp(p->role, "kb") != 0 || !b->of[TM_BESIDE_FISHER] || !b->of[TM_BESIDE_ANCHOR])
        rc = tp_fail(e, TP_E_BAD_WEIGHTS,
                     "not a knowledge base: role \"kb\" and the tensors fisher.* and anchor.* are expected");
    else if (!p->kind[0])
        rc = tp_fail(e, TP_E_BAD_WEIGHTS, "metadata kind is missing: whose knowledge is this?");
    else if (p->phases > UINT32_MAX)
        rc = tp_fail(e, TP_E_BAD_WEIGHTS, "metadata phases is out of range");
    else if ((rc = check_fisher(b->of[TM_BESIDE_FISHER], m->n, e)) == 0 && !(new = calloc(1, sizeof *new)))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a knowledge base");
    if (rc) {
        tm_model_free(m);
        tm_besides_free(b);
        return rc;
    }
    *new = (struct tk_kb){.model = m,
                          .kind = p->kind[0] == 'c' ? TP_TARGET_CPU : TP_TARGET_GPU,
                          .phases = (uint32_t)p->phases,
                          .fisher = b->of[TM_BESIDE_FISHER],
                          .anchor = b->of[TM_BESIDE_ANCHOR],
                          .start = b->of[TM_BESIDE_START]};
    *kb = new;
    return 0;
}

int tk_kb_load(const char *path, struct tk_kb **kb, struct tm_provenance *p, struct tp_err *e)
{
    struct tm_provenance own;
    struct tm_besides b = {0};
    struct tm_model *m;
    int rc = tm_weights_load_beside(path, &m, &b, &own, e);
    if (rc || (rc = assemble(m, &b, &own, kb, e)))
        return rc;
    if (p)
        *p = own;
    return 0;
}

int tk_kb_read(const void *bytes, size_t n, struct tk_kb **kb, struct tm_provenance *p, struct tp_err *e)
{
    struct tm_provenance own;
    struct tm_besides b = {0};
    struct tm_model *m;
    int rc = tm_weights_read_beside(bytes, n, &m, &b, &own, e);
    if (rc || (rc = assemble(m, &b, &own, kb, e)))
        return rc;
    if (p)
        *p = own;
    return 0;
}
