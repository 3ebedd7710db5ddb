/* See the header. JSON values are handled as spans of text that the tokenizer has checked: a tuning record is taken
 * apart level by level and put together again, compactly, without a tree. */
#include "proto/ms.h"

#include "proto/json.h"
#include "proto/number.h"

#include <stdio.h>
#include <string.h>

enum { MS_DEPTH = 64 };

struct span {
    const char *s;
    size_t n;
};

/* ---- spans ---- */

/* The items of an array into out[0..max); how many there are, which may be more. -1: not an array, or not JSON. */
static int items_of(struct span a, struct span *out, int max)
{
    struct tp_json j;
    struct tp_json_text t;
    int n = 0, more;

    tp_json_init(&j, a.s, a.n, MS_DEPTH);
    if (tp_json_next(&j, &t) != TP_JSON_ARRAY)
        return -1;
    while ((more = tp_json_more(&j)) == 1) {
        const char *start = j.p;

        if (tp_json_skip(&j) < 0)
            return -1;
        if (n < max)
            out[n] = (struct span){start, (size_t)(j.p - start)};
        n++;
    }
    return more < 0 || tp_json_finish(&j) < 0 ? -1 : n;
}

static char first(struct span a)
{
    const char *p = tp_json_ws(a.s, a.s + a.n);

    return p < a.s + a.n ? *p : '\0';
}

static bool is_null(struct span a)
{
    return a.n == 0 || first(a) == 'n';
}

/* The value without the white space between its tokens. */
static void put_compact(struct tp_buf *out, struct span a)
{
    bool in_string = false;

    for (size_t i = 0; i < a.n; i++) {
        char c = a.s[i];

        if (!in_string && (c == ' ' || c == '\n' || c == '\t' || c == '\r'))
            continue;
        tp_buf_putc(out, c);
        if (c == '"')
            in_string = !in_string;
        else if (in_string && c == '\\' && i + 1 < a.n)
            tp_buf_putc(out, a.s[++i]);
    }
}

/* text[from..) as a JSON string at the end of out; text is cut back to from. */
static void put_quoted(struct tp_buf *out, struct tp_buf *text)
{
    if (!text->oom)
        tp_buf_json_str(out, text->p ? text->p : "", text->n);
    out->oom = out->oom || text->oom;
    text->n = 0;
}

/* The decoded characters of a JSON string. */
static int put_decoded(struct tp_buf *out, struct span a)
{
    struct tp_json j;
    struct tp_json_text t;
    char *to;

    tp_json_init(&j, a.s, a.n, MS_DEPTH);
    if (tp_json_next(&j, &t) != TP_JSON_STRING || tp_json_finish(&j) < 0)
        return -1;
    to = tp_buf_grow(out, t.n + 1);
    if (to)
        out->n += tp_json_unescape(t.s, t.n, to);
    return 0;
}

/* ---- a tuning record ---- */

struct convert {
    const struct tp_ms_context *c;
    struct tp_buf *out, text; /* text: a string in the making */
    struct tp_err *e;
    struct span trace, run_secs, target, args_info, workload;
};

static struct span span_of(struct tp_str s)
{
    return (struct span){s.s, s.n};
}

static int workload_by_index(struct convert *x, struct span number)
{
    enum { MANY = 4096 };
    struct span item[MANY], part[2];
    int32_t k;
    int n;

    if (x->c->workloads.n == 0)
        return tp_fail_at(x->e, TP_E_BAD_TASK, "/0", "the record names workload %.*s, but there are no \"workloads\"",
                          (int)(number.n < 12 ? number.n : 12), number.s);
    n = items_of(span_of(x->c->workloads), item, MANY);
    if (!tp_json_i32(number.s, number.s + number.n, &k) || k < 0 || k >= n || k >= MANY)
        return tp_fail_at(x->e, TP_E_BAD_TASK, "/0", "there is no workload %.*s; there are %d",
                          (int)(number.n < 12 ? number.n : 12), number.s, n < 0 ? 0 : n);
    x->workload = item[k];
    if (first(item[k]) == '[' && items_of(item[k], part, 2) > 0)
        x->workload = part[0];
    return 0;
}

/* [index, record] or record: the spans of its parts. */
static int take_apart(struct convert *x, struct span whole)
{
    struct span item[4] = {{0}};
    int n = items_of(whole, item, 4), rc;

    x->workload = span_of(x->c->workload);
    if (n == 2 && first(item[0]) >= '0' && first(item[0]) <= '9') {
        rc = workload_by_index(x, item[0]);
        if (rc != 0)
            return rc;
        whole = item[1];
        memset(item, 0, sizeof item);
        n = items_of(whole, item, 4);
    }
    if (n < 1 || n > 4)
        return tp_fail_at(x->e, TP_E_BAD_STATE, "",
                          "a tuning record is [trace, run_secs, target, args_info], or [workload index, that]");
    x->trace = item[0];
    x->run_secs = item[1];
    x->target = is_null(item[2]) ? span_of(x->c->target) : item[2];
    x->args_info = is_null(item[3]) ? span_of(x->c->args_info) : item[3];
    return 0;
}

static int put_task(struct convert *x)
{
    struct span arg[TP_MS_ARGS];
    int n = is_null(x->args_info) ? 0 : items_of(x->args_info, arg, TP_MS_ARGS);

    if (first(x->workload) != '"')
        return tp_fail_at(x->e, TP_E_BAD_TASK, "", "the workload has no name: \"workload\" of the body, or an index");
    if (n < 0 || n > TP_MS_ARGS)
        return tp_fail_at(x->e, TP_E_BAD_TASK, "/3", "args_info is an array of at most %d items", TP_MS_ARGS);
    if (is_null(x->target))
        return tp_fail_at(x->e, TP_E_BAD_TASK, "/2", "the record has no target, and the body none for all");
    tp_buf_putc(&x->text, '[');
    put_compact(&x->text, x->workload);
    for (int i = 0; i < n; i++) {
        tp_buf_putc(&x->text, ',');
        put_compact(&x->text, arg[i]);
    }
    tp_buf_putc(&x->text, ']');
    tp_buf_puts(x->out, "{\"i\": [[");
    put_quoted(x->out, &x->text);
    tp_buf_puts(x->out, ", ");
    if (first(x->target) == '"')
        put_decoded(&x->text, x->target);
    else
        put_compact(&x->text, x->target);
    put_quoted(x->out, &x->text);
    tp_buf_puts(x->out, "], [[], [");
    return 0;
}

/* Puts each decision of [[index, decision], ...] at its instruction of of[0..n). */
static int read_decisions(struct span all, struct span *of, int n)
{
    struct span entry[TP_MAX_STEPS], part[2];
    int count = items_of(all, entry, TP_MAX_STEPS);
    int32_t at;

    memset(of, 0, (size_t)n * sizeof *of);
    if (count < 0 || count > TP_MAX_STEPS)
        return -1;
    for (int i = 0; i < count; i++) {
        if (items_of(entry[i], part, 2) != 2 || !tp_json_i32(part[0].s, part[0].s + part[0].n, &at) || at < 0 ||
            at >= n)
            return -1;
        of[at] = part[1];
    }
    return 0;
}

static int put_instructions(struct convert *x)
{
    struct span part[2], inst[TP_MAX_STEPS], decision[TP_MAX_STEPS], field[4];
    char pointer[32];
    int n;

    if (items_of(x->trace, part, 2) != 2 || (n = items_of(part[0], inst, TP_MAX_STEPS)) < 0)
        return tp_fail_at(x->e, TP_E_BAD_STATE, "/0", "a trace is [[instruction, ...], [[index, decision], ...]]");
    if (n == 0)
        return tp_fail_at(x->e, TP_E_BAD_STATE, "/0/0", "the trace has no instruction");
    if (n > TP_MAX_STEPS)
        return tp_fail_at(x->e, TP_E_TOO_MANY_STEPS, "/0/0", "%d instructions, at most %d are accepted", n,
                          TP_MAX_STEPS);
    if (read_decisions(part[1], decision, n) != 0)
        return tp_fail_at(x->e, TP_E_BAD_STATE, "/0/1", "decisions are [[index of the instruction, value], ...]");
    for (int k = 0; k < n; k++) {
        int fields = items_of(inst[k], field, 4);

        snprintf(pointer, sizeof pointer, "/0/0/%d", k);
        if (fields != 4 || first(field[0]) != '"' || first(field[1]) != '[' || first(field[2]) != '[' ||
            first(field[3]) != '[')
            return tp_fail_at(x->e, TP_E_BAD_STEP, pointer,
                              "an instruction is [name, [inputs], [attributes], [outputs]]");
        tp_buf_putc(&x->text, '[');
        for (int i = 0; i < 4; i++) {
            put_compact(&x->text, field[i]);
            tp_buf_putc(&x->text, i < 3 || decision[k].n > 0 ? ',' : ']');
        }
        if (decision[k].n > 0) {
            put_compact(&x->text, decision[k]);
            tp_buf_putc(&x->text, ']');
        }
        tp_buf_puts(x->out, k > 0 ? ", [\"MS\", " : "[\"MS\", ");
        put_quoted(x->out, &x->text);
        tp_buf_putc(x->out, ']');
    }
    tp_buf_puts(x->out, "]]]");
    return 0;
}

/* MetaSchedule keeps no time: 0, so that the same measurement is the same record however often it is posted. */
static int put_result(struct convert *x)
{
    if (!is_null(x->run_secs)) {
        if (first(x->run_secs) != '[')
            return tp_fail_at(x->e, TP_E_BAD_STATE, "/1", "run_secs is an array of seconds, or null");
        tp_buf_puts(x->out, ", \"r\": [");
        put_compact(x->out, x->run_secs);
        tp_buf_puts(x->out, ", 0, 0, 0]");
    }
    tp_buf_puts(x->out, ", \"v\": \"ms-1\"}");
    return 0;
}

int tp_ms_convert(const struct tp_ms_context *c, const char *s, size_t n, struct tp_buf *out, struct tp_err *e)
{
    struct convert x = {.c = c, .out = out, .e = e};
    int rc = take_apart(&x, (struct span){s, n});

    if (rc == 0)
        rc = put_task(&x);
    if (rc == 0)
        rc = put_instructions(&x);
    if (rc == 0)
        rc = put_result(&x);
    if (rc == 0 && (out->oom || x.text.oom))
        rc = tp_fail(e, TP_E_NO_MEMORY, "out of memory for a record");
    tp_buf_free(&x.text);
    return rc;
}

bool tp_ms_is(const struct tp_record *r)
{
    return r->n_steps > 0 && r->steps[0].kind == TP_STEP_MS; /* tp_step_check(): then all are */
}

/* ---- one instruction ---- */

/* 'l12' and the like: a letter and a number. */
static bool is_name(const char *s)
{
    return (*s == 'b' || *s == 'l' || *s == 'v') && s[1] != '\0' && s[1 + strspn(s + 1, "0123456789")] == '\0';
}

static void take_string(const struct tp_json_text *t, struct tp_ms_arg *a)
{
    size_t n;

    a->kind = TP_MS_OTHER;
    a->text[0] = '\0';
    if (t->n >= TP_MS_TEXT)
        return;
    n = tp_json_unescape(t->s, t->n, a->text);
    a->text[n] = '\0';
    if (n >= 2 && a->text[0] == '"' && a->text[n - 1] == '"') { /* a constant among inputs */
        memmove(a->text, a->text + 1, n - 2);
        a->text[n - 2] = '\0';
        a->kind = TP_MS_STRING;
    } else {
        a->kind = is_name(a->text) ? TP_MS_NAME : TP_MS_STRING;
    }
}

/* The next value of j, arrays laid flat. Objects count as one value. */
static int take_values(struct tp_json *j, struct tp_ms_arg *out, int *n)
{
    struct tp_json_text t;
    int depth = 0, event, object = 0;

    do {
        struct tp_ms_arg a = {.kind = TP_MS_OTHER};
        bool value = true;

        event = tp_json_next(j, &t);
        if (event < 0 || event == TP_JSON_END)
            return -1;
        switch (event) {
        case TP_JSON_ARRAY:
        case TP_JSON_OBJECT:
            depth++;
            object += event == TP_JSON_OBJECT || object > 0;
            value = object == 1 && event == TP_JSON_OBJECT;
            break;
        case TP_JSON_ARRAY_END:
        case TP_JSON_OBJECT_END:
            depth--;
            object -= object > 0;
            value = false;
            break;
        case TP_JSON_KEY:
            value = false;
            break;
        case TP_JSON_STRING:
            take_string(&t, &a);
            break;
        case TP_JSON_INT:
        case TP_JSON_REAL:
            a.kind = tp_num_parse(t.s, t.n, &a.number) == 0 ? TP_MS_NUMBER : TP_MS_OTHER;
            break;
        case TP_JSON_TRUE:
            a.kind = TP_MS_NUMBER;
            a.number = 1;
            break;
        case TP_JSON_FALSE:
            a.kind = TP_MS_NUMBER;
            break;
        default:
            break;
        }
        if (value && (object == 0 || (object == 1 && event == TP_JSON_OBJECT)) && *n < TP_MS_ARGS)
            out[(*n)++] = a;
    } while (depth > 0);
    return 0;
}

static int bad(struct tp_err *e)
{
    return tp_fail(e, TP_E_BAD_STEP,
                   "MS is not the text of an instruction: [name, [inputs], [attributes], [outputs]], "
                   "and at most a decision");
}

int tp_ms_parse(const char *s, size_t n, struct tp_ms_inst *out, struct tp_err *e)
{
    struct tp_json j;
    struct tp_json_text t;
    struct tp_ms_arg decision[TP_MS_ARGS];
    struct {
        struct tp_ms_arg *to;
        int *n;
    } part[] = {{out->in, &out->n_in}, {out->attr, &out->n_attr}, {out->out, &out->n_out}};
    int more, n_decision = 0;

    out->n_in = out->n_attr = out->n_out = out->n_decision = 0;
    tp_json_init(&j, s, n, MS_DEPTH);
    if (tp_json_next(&j, &t) != TP_JSON_ARRAY || tp_json_next(&j, &t) != TP_JSON_STRING)
        return bad(e);
    snprintf(out->name, sizeof out->name, "%.*s", t.n < TP_MS_TEXT ? (int)t.n : 0, t.s);
    for (int i = 0; i < 3; i++) {
        if (tp_json_more(&j) != 1 || *j.p != '[' || take_values(&j, part[i].to, part[i].n) != 0)
            return bad(e);
    }
    more = tp_json_more(&j);
    if (more == 1) {
        if (take_values(&j, decision, &n_decision) != 0)
            return bad(e);
        for (int i = 0; i < n_decision; i++)
            if (decision[i].kind == TP_MS_NUMBER)
                out->decision[out->n_decision++] = decision[i].number;
        more = tp_json_more(&j);
    }
    return more != 0 || tp_json_finish(&j) < 0 ? bad(e) : 0;
}
