/* The life of a struct tp_record, the tables of step kinds, and what a result means as a label.
 *
 * Invariant: a record that was initialised can be freed and parsed into at any time; mem is NULL until first use. */
#include "proto/record_mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *tag, *grammar, *meaning;
} kinds[TP_STEP_ALL] = {
#define X(tag, grammar, meaning) {#tag, grammar, meaning},
#include "proto/steps.def"
#undef X
    {"MS", "s", "an instruction of a MetaSchedule trace: instruction"},
};

static const double ERROR_COST = 1e10, NO_TIME = 1e9, SHORTEST = 1e-12; /* seconds */

const char *tp_step_tag(enum tp_step_kind k)
{
    return kinds[k].tag;
}

const char *tp_step_grammar(enum tp_step_kind k)
{
    return kinds[k].grammar;
}

int tp_step_by_tag(const char *s, size_t n)
{
    for (int k = 0; k < TP_STEP_ALL; k++)
        if (strlen(kinds[k].tag) == n && memcmp(kinds[k].tag, s, n) == 0)
            return k;
    return -1;
}

const char *tp_step_operand(enum tp_step_kind k, int operand, int *n)
{
    const char *p = strchr(kinds[k].meaning, ':') + 2;
    for (; operand > 0; operand--)
        p = strchr(p, ',') + 2;
    *n = (int)strcspn(p, ",");
    return p;
}

int tp_step_fail(struct tp_err *e, enum tp_code code, uint32_t k, int operand, int item, const char *fmt, ...)
{
    char pointer[64], text[224];
    int n = snprintf(pointer, sizeof pointer, "/i/1/1/%u", k);
    if (operand >= 0)
        n += snprintf(pointer + n, sizeof pointer - (size_t)n, "/%d", operand + 1);
    if (item >= 0)
        snprintf(pointer + n, sizeof pointer - (size_t)n, "/%d", item);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return tp_fail_at(e, code, pointer, "step %u: %s", k, text);
}

void tp_record_init(struct tp_record *r)
{
    memset(r, 0, sizeof *r);
}

void tp_record_free(struct tp_record *r)
{
    if (r == NULL)
        return;
    if (r->mem != NULL) {
        tp_buf_free(&r->mem->task_raw);
        tp_buf_free(&r->mem->task_text);
        tp_buf_free(&r->mem->text);
        tp_buf_free(&r->mem->version);
        free(r->mem->ints);
        free(r->mem);
    }
    memset(r, 0, sizeof *r);
}

struct tp_record_mem *tp_record_mem(struct tp_record *r, struct tp_err *e)
{
    if (r->mem == NULL) {
        r->mem = malloc(sizeof *r->mem);
        if (r->mem == NULL) {
            tp_fail(e, TP_E_NO_MEMORY, "out of memory for a record");
            return NULL;
        }
        /* The arrays at its end are written before they are read. */
        memset(r->mem, 0, offsetof(struct tp_record_mem, steps));
    }
    return r->mem;
}

int tp_record_room(struct tp_record_mem *m, size_t more, struct tp_err *e)
{
    if (more <= m->cap_ints - m->n_ints)
        return 0;
    size_t cap = m->cap_ints < 1024 ? 1024 : m->cap_ints;
    while (cap - m->n_ints < more)
        cap *= 2;
    int32_t *p = realloc(m->ints, cap * sizeof *p);
    if (p == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory for a record");
    m->ints = p;
    m->cap_ints = cap;
    return 0;
}

void tp_steps_bind(struct tp_record_mem *m, uint32_t n)
{
    const int32_t *ints = m->ints;
    const char *text = m->text.p != NULL ? m->text.p : ""; /* no string so far */
    for (uint32_t k = 0; k < n; k++) {
        struct tp_step *s = &m->steps[k];
        s->list = ints;
        ints += s->n_list;
        s->str.s = text;
        text += s->str.n;
    }
}

enum tp_label tp_record_label(const struct tp_record *r)
{
    if (!r->has_result)
        return TP_LABEL_NONE;
    if (r->result.error_no != 0)
        return TP_LABEL_FAILURE;
    bool positive = r->result.n_costs > 0;
    for (uint32_t i = 0; i < r->result.n_costs; i++) {
        double c = r->result.costs[i];
        if (c >= NO_TIME)
            return TP_LABEL_FAILURE;
        positive &= c >= SHORTEST;
    }
    return positive ? TP_LABEL_VALID : TP_LABEL_NONE;
}

double tp_result_min_cost(const struct tp_result *r)
{
    double min = ERROR_COST;
    for (uint32_t i = 0; i < r->n_costs; i++)
        if (r->costs[i] < min)
            min = r->costs[i];
    return min;
}
