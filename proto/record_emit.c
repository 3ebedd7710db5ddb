/* Record -> text, byte for byte as TVM's writer prints it.
 *
 * Separators ", " and ": ", floats by %.6g, strings with dmlc's few escapes.
 * Source: apache/tvm v0.14.0 src/auto_scheduler/measure_record.cc, dmlc-core include/dmlc/json.h. Pure printers. */
#include "proto/record.h"

#include <math.h>
#include <string.h>

enum { DIGITS = 6 }; /* of a default C++ ostream */

/* A non-finite number has no JSON form; the parser lets none in, so only a caller's own struct could hold one. */
static void put_num(struct tp_buf *out, double v)
{
    tp_buf_json_num(out, v, DIGITS);
}

static void put_ints(struct tp_buf *out, const int32_t *v, uint32_t n)
{
    tp_buf_putc(out, '[');
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0)
            tp_buf_put(out, ", ", 2);
        tp_buf_i64(out, v[i]);
    }
    tp_buf_putc(out, ']');
}

void tp_task_emit(const struct tp_task *t, struct tp_buf *out)
{
    tp_buf_putc(out, '[');
    tp_buf_tvm_str(out, t->workload_key.s, t->workload_key.n);
    tp_buf_put(out, ", ", 2);
    tp_buf_tvm_str(out, t->target.s, t->target.n);
    if (t->n_items > 2) {
        tp_buf_put(out, ", ", 2);
        put_ints(out, t->hw_params, TP_HW_PARAMS);
    }
    if (t->n_items > 3) {
        tp_buf_put(out, ", ", 2);
        tp_buf_tvm_str(out, t->target_host.s, t->target_host.n);
    }
    if (t->n_items > 4) {
        tp_buf_put(out, ", ", 2);
        tp_buf_i64(out, t->layout);
    }
    if (t->n_items > 5) {
        tp_buf_put(out, ", [", 3);
        for (uint32_t i = 0; i < t->n_names; i++) {
            if (i > 0)
                tp_buf_put(out, ", ", 2);
            tp_buf_tvm_str(out, t->names[i].s, t->names[i].n);
        }
        tp_buf_putc(out, ']');
    }
    tp_buf_putc(out, ']');
}

static char *write_int(char *w, int32_t v)
{
    char text[12], *p = text + sizeof text;
    uint32_t u = v < 0 ? 0 - (uint32_t)v : (uint32_t)v;
    if (u < 10 && v >= 0) {
        *w = (char)('0' + u);
        return w + 1;
    }
    do {
        *--p = (char)('0' + u % 10);
        u /= 10;
    } while (u != 0);
    if (v < 0)
        *--p = '-';
    size_t n = (size_t)(text + sizeof text - p);
    memcpy(w, p, n);
    return w + n;
}

/* Steps are nearly all of a record: room for a whole one is taken at once and filled without further checks. */
static void emit_step(const struct tp_step *s, struct tp_buf *out)
{
    enum { FRAME = 32, INT = 13 }; /* brackets, tag, commas; ", -2147483648" */
    const size_t room = FRAME + (4 + (size_t)s->n_list) * INT;
    char *w = tp_buf_grow(out, room);
    int n_op = 0;
    if (w == NULL)
        return;
    *w++ = '[';
    *w++ = '"';
    for (const char *tag = tp_step_tag(s->kind); *tag != '\0'; tag++)
        *w++ = *tag;
    *w++ = '"';
    for (const char *g = tp_step_grammar(s->kind); *g != '\0'; g++) {
        *w++ = ',';
        *w++ = ' ';
        if (*g == 'i') {
            w = write_int(w, s->op[n_op++]);
        } else if (*g == 'l') {
            *w++ = '[';
            for (int i = 0; i < s->n_list; i++) {
                if (i > 0) {
                    *w++ = ',';
                    *w++ = ' ';
                }
                w = write_int(w, s->list[i]);
            }
            *w++ = ']';
        } else {
            out->n = (size_t)(w - out->p);
            tp_buf_tvm_str(out, s->str.s, s->str.n);
            w = tp_buf_grow(out, room);
            if (w == NULL)
                return;
        }
    }
    *w++ = ']';
    out->n = (size_t)(w - out->p);
}

void tp_steps_emit(const struct tp_step *steps, uint32_t n, struct tp_buf *out)
{
    tp_buf_putc(out, '[');
    for (uint32_t k = 0; k < n; k++) {
        if (k > 0)
            tp_buf_put(out, ", ", 2);
        emit_step(&steps[k], out);
    }
    tp_buf_putc(out, ']');
}

void tp_result_emit(const struct tp_result *r, struct tp_buf *out)
{
    tp_buf_put(out, "[[", 2);
    for (uint32_t i = 0; i < r->n_costs; i++) {
        if (i > 0)
            tp_buf_put(out, ", ", 2);
        put_num(out, r->costs[i]);
    }
    tp_buf_put(out, "], ", 3);
    tp_buf_i64(out, r->error_no);
    tp_buf_put(out, ", ", 2);
    put_num(out, r->all_cost);
    tp_buf_put(out, ", ", 2);
    tp_buf_i64(out, fabs(r->timestamp) < 9e18 ? (int64_t)r->timestamp : 0);
    tp_buf_putc(out, ']');
}

void tp_record_emit(const struct tp_record *r, struct tp_buf *out)
{
    tp_buf_puts(out, "{\"i\": [");
    tp_task_emit(&r->task, out);
    tp_buf_puts(out, ", [[], ");
    tp_steps_emit(r->steps, r->n_steps, out);
    tp_buf_puts(out, "]]");
    if (r->has_result) {
        tp_buf_puts(out, ", \"r\": ");
        tp_result_emit(&r->result, out);
    }
    if (r->has_version) {
        tp_buf_puts(out, ", \"v\": ");
        tp_buf_tvm_str(out, r->version.s, r->version.n);
    }
    tp_buf_putc(out, '}');
}
