/* Offsets of tasks: a table with open addressing, built once, then only read.
 *
 * Invariant: at most half of the slots are taken; n = 0 marks a free one, so an entry that does not count (too few
 * programs) is never put in. A task id is 64 bits in hex, so it is kept as a number. Any thread. */
#include "daemon/offsets.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    int64_t hw;
    uint64_t task;
    struct tm_offset o;
};

struct td_offsets {
    size_t n, size; /* entries, slots (a power of two) */
    struct entry slot[];
};

static uint64_t task_number(const char *id)
{
    return strtoull(id, NULL, 16);
}

static size_t home(const struct td_offsets *t, int64_t hw, uint64_t task)
{
    uint64_t h = (task ^ (uint64_t)hw * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);

    return (size_t)(h >> 32) & (t->size - 1);
}

/* Its slot, or the free one where it belongs. */
static size_t find(const struct td_offsets *t, int64_t hw, uint64_t task)
{
    size_t at = home(t, hw, task);

    while (t->slot[at].o.n != 0 && (t->slot[at].task != task || t->slot[at].hw != hw))
        at = (at + 1) & (t->size - 1);
    return at;
}

static struct td_offsets *new_table(size_t room)
{
    struct td_offsets *t;
    size_t size = 8;

    while (size < 2 * room)
        size *= 2;
    t = calloc(1, sizeof *t + size * sizeof t->slot[0]);
    if (t != NULL)
        t->size = size;
    return t;
}

static void put(struct td_offsets *t, int64_t hw, uint64_t task, struct tm_offset o)
{
    struct entry *x = &t->slot[find(t, hw, task)];

    t->n += x->o.n == 0;
    *x = (struct entry){hw, task, o};
}

void td_offsets_free(struct td_offsets *t)
{
    free(t);
}

size_t td_offsets_count(const struct td_offsets *t)
{
    return t != NULL ? t->n : 0;
}

struct tm_offset td_offsets_find(const struct td_offsets *t, int64_t hw, const char *task_id)
{
    return t != NULL ? t->slot[find(t, hw, task_number(task_id))].o : (struct tm_offset){0};
}

static bool counts(const struct st_offset *o)
{
    return o->programs >= TM_OFFSET_MIN && o->programs <= UINT32_MAX;
}

static bool replaced(const struct td_offsets *fresh, const struct entry *x)
{
    return fresh->slot[find(fresh, x->hw, x->task)].o.n != 0;
}

int td_offsets_with(const struct td_offsets *old, int64_t hw, const struct st_offset *o, size_t n,
                    struct td_offsets **out, struct tp_err *e)
{
    struct td_offsets *fresh, *t = NULL;

    if (n > TD_OFFSETS_MAX || td_offsets_count(old) > TD_OFFSETS_MAX - n)
        return tp_fail(e, TP_E_TOO_MANY, "a model has offsets for at most %d tasks", (int)TD_OFFSETS_MAX);
    fresh = new_table(n); /* all of them, also those that do not count and so take others away */
    if (fresh != NULL)
        t = new_table(td_offsets_count(old) + n);
    if (t == NULL) {
        free(fresh);
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for the offsets of %zu tasks", td_offsets_count(old) + n);
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t task = task_number(o[i].task_id);

        put(fresh, hw, task, (struct tm_offset){0, 1});
        if (counts(&o[i]))
            put(t, hw, task, (struct tm_offset){o[i].offset, (uint32_t)o[i].programs});
    }
    for (size_t i = 0; old != NULL && i < old->size; i++)
        if (old->slot[i].o.n != 0 && !replaced(fresh, &old->slot[i]))
            put(t, old->slot[i].hw, old->slot[i].task, old->slot[i].o);
    free(fresh);
    if (t->n == 0) {
        free(t);
        t = NULL;
    }
    *out = t;
    return 0;
}

/* ---- from the store ---- */
struct list {
    struct td_offsets *t;
};

static int take(void *arg, int64_t hw, const struct st_offset *o)
{
    struct list *l = arg;

    if (!counts(o))
        return 0;
    if (l->t == NULL || 2 * (l->t->n + 1) > l->t->size) {
        struct td_offsets *wider;

        if (td_offsets_count(l->t) >= TD_OFFSETS_MAX)
            return -TP_E_TOO_MANY;
        wider = new_table(l->t != NULL ? l->t->size : 1);
        if (wider == NULL)
            return -TP_E_NO_MEMORY;
        for (size_t i = 0; l->t != NULL && i < l->t->size; i++)
            if (l->t->slot[i].o.n != 0)
                put(wider, l->t->slot[i].hw, l->t->slot[i].task, l->t->slot[i].o);
        free(l->t);
        l->t = wider;
    }
    put(l->t, hw, task_number(o->task_id), (struct tm_offset){o->offset, (uint32_t)o->programs});
    return 0;
}

int td_offsets_load(struct st_reader *r, int64_t model, struct td_offsets **out, int *calibration, struct tp_err *e)
{
    struct list l = {0};
    int rc = st_offset_list(r, model, take, &l, calibration, e);

    if (rc == -TP_E_NO_MEMORY)
        tp_fail(e, TP_E_NO_MEMORY, "no memory for the offsets of model %lld", (long long)model);
    if (rc == -TP_E_TOO_MANY)
        tp_fail(e, TP_E_TOO_MANY, "model %lld has offsets for more than %d tasks", (long long)model,
                (int)TD_OFFSETS_MAX);
    if (rc != 0) {
        td_offsets_free(l.t);
        return rc;
    }
    *out = l.t;
    return 0;
}
