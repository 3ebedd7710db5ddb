/* The task array of a record: [workload_key, target, hw_params, target_host, layout, names], two to six items.
 *
 * Invariant: mem->task is replaced as a whole, after everything was read; a bad task leaves task_ok false, so that
 * nothing half-decoded is ever taken for cached. Old logs are read too: v0.1 has 2 items, v0.3 3, v0.4 4, v0.5 5,
 * v0.6 6. */
#include "proto/record_mem.h"
#include "proto/target.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LAYOUT = 2, MIN_ITEMS = 2, MAX_ITEMS = 6 };

struct decoder {
    struct tp_json j;
    struct tp_record_mem *m;
    struct tp_err *e;
    struct tp_task t;
};

static int wrong(struct decoder *d, int item, const char *what)
{
    char pointer[16];
    snprintf(pointer, sizeof pointer, "/i/0/%d", item);
    return tp_fail_at(d->e, TP_E_BAD_TASK, pointer, "%s", what);
}

/* A string operand; task_text has room for all of them, so what it holds does not move. */
static int take_str(struct decoder *d, int event, const struct tp_json_text *t, int item, const char *what,
                    struct tp_str *out)
{
    if (event != TP_JSON_STRING)
        return wrong(d, item, what);
    if (t->control)
        return wrong(d, item, "holds a control character");
    if (!t->escaped) {
        *out = (struct tp_str){.s = t->s, .n = (uint32_t)t->n};
        return 0;
    }
    struct tp_buf *b = &d->m->task_text;
    size_t n = tp_json_unescape(t->s, t->n, b->p + b->n);
    *out = (struct tp_str){.s = b->p + b->n, .n = (uint32_t)n};
    b->n += n;
    return 0;
}

static int take_hw_params(struct decoder *d, int event)
{
    static const char what[] = "hardware parameters must be an array of 8 integers";
    struct tp_json_text t;
    if (event != TP_JSON_ARRAY)
        return wrong(d, 2, what);
    for (int i = 0; i < TP_HW_PARAMS; i++)
        if (tp_json_next(&d->j, &t) != TP_JSON_INT || tp_json_i32(t.s, t.s + t.n, &d->t.hw_params[i]) == NULL)
            return wrong(d, 2, what);
    if (tp_json_next(&d->j, &t) != TP_JSON_ARRAY_END)
        return wrong(d, 2, what);
    d->t.has_hw_params = true;
    return 0;
}

static int take_names(struct decoder *d, int event)
{
    static const char what[] = "task input names must be an array of strings";
    struct tp_json_text t;
    if (event != TP_JSON_ARRAY)
        return wrong(d, 5, what);
    uint32_t n = 0;
    while ((event = tp_json_next(&d->j, &t)) != TP_JSON_ARRAY_END) {
        if (n == TP_MAX_NAMES)
            return wrong(d, 5, "more than 256 task input names");
        int rc = take_str(d, event, &t, 5, what, &d->m->names[n++]);
        if (rc != 0)
            return rc;
    }
    d->t.n_names = n;
    d->t.names = d->m->names;
    return 0;
}

static int take_item(struct decoder *d, int item, int event, const struct tp_json_text *t)
{
    struct tp_target target;
    int rc;
    switch (item) {
    case 0:
        return take_str(d, event, t, 0, "the workload key must be a string", &d->t.workload_key);
    case 1:
        rc = take_str(d, event, t, 1, "the target must be a string", &d->t.target);
        if (rc == 0)
            rc = tp_target_parse(d->t.target.s, d->t.target.n, &target, d->e);
        if (rc != 0 && d->e != NULL)
            snprintf(d->e->pointer, sizeof d->e->pointer, "/i/0/1");
        return rc;
    case 2:
        return take_hw_params(d, event);
    case 3:
        return take_str(d, event, t, 3, "the host target must be a string", &d->t.target_host);
    case 4:
        if (event != TP_JSON_INT || tp_json_i32(t->s, t->s + t->n, &d->t.layout) == NULL || d->t.layout < 0 ||
            d->t.layout > MAX_LAYOUT)
            return wrong(d, 4, "the layout-rewrite option must be 0, 1 or 2");
        return 0;
    case 5:
        return take_names(d, event);
    default:
        return wrong(d, item, "a task has at most 6 items");
    }
}

static int decode(struct decoder *d)
{
    struct tp_json_text t = {0};
    int event = tp_json_next(&d->j, &t), item = 0;
    if (event < 0)
        return tp_json_fail(&d->j, "/i/0", d->e);
    if (event != TP_JSON_ARRAY)
        return tp_fail_at(d->e, TP_E_BAD_TASK, "/i/0", "the task must be an array [workload_key, target, ...]");
    while ((event = tp_json_next(&d->j, &t)) != TP_JSON_ARRAY_END) {
        int rc = take_item(d, item++, event, &t);
        if (rc != 0)
            return rc;
    }
    if (item < MIN_ITEMS)
        return tp_fail_at(d->e, TP_E_BAD_TASK, "/i/0", "the task has %d items; it has 2 to 6", item);
    d->t.n_items = item;
    return 0;
}

int tp_task_decode(struct tp_record *r, const char *s, size_t n, struct tp_err *e)
{
    struct tp_record_mem *m = tp_record_mem(r, e);
    if (m == NULL)
        return -TP_E_NO_MEMORY;
    struct decoder d = {.m = m, .e = e, .t.target_host.s = ""};
    m->task_ok = false;
    m->decoded++;
    m->task_id[0] = '\0';
    m->task_raw.n = m->task_text.n = 0;
    tp_buf_put(&m->task_raw, s, n);
    if (m->task_raw.oom || tp_buf_grow(&m->task_text, n + 1) == NULL) {
        m->task_raw.oom = m->task_text.oom = false;
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory for a task");
    }
    /* Sound JSON first: below, an event that is not the wanted one is then a wrong type and nothing else. */
    tp_json_init(&d.j, m->task_raw.p, n, TP_MAX_DEPTH - 2);
    if (tp_json_skip(&d.j) < 0 || tp_json_finish(&d.j) < 0)
        return tp_json_fail(&d.j, "/i/0", e);
    tp_json_init(&d.j, m->task_raw.p, n, TP_MAX_DEPTH - 2);
    int rc = decode(&d);
    if (rc != 0)
        return rc;
    m->task = d.t;
    m->task_ok = true;
    return 0;
}

int tp_task_parse(struct tp_record *r, const char *s, size_t n, struct tp_err *e)
{
    struct tp_record_mem *m = r->mem;
    if (n > TP_MAX_LINE)
        return tp_fail(e, TP_E_TOO_LONG, "a task holds at most %d bytes", TP_MAX_LINE);
    if (m == NULL || !m->task_ok || m->task_raw.n != n || memcmp(m->task_raw.p, s, n) != 0) {
        int rc = tp_task_decode(r, s, n, e);
        if (rc != 0)
            return rc;
    }
    r->task = r->mem->task;
    return 0;
}
