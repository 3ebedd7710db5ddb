/* A request body -> its records, one at a time.
 *
 * NDJSON is cut at line ends, so a bad line cannot hurt the next. In a JSON envelope the tokenizer `env` keeps the
 * place: the record reader is let loose at an item, and when it refuses, env skips that item by syntax alone.
 * Invariant: env always stands between two items, and what it cannot skip is not JSON, which makes the whole body
 * unusable. One owner, no thread. */
#include "proto/body.h"
#include "proto/ms.h"
#include "proto/record_mem.h"

#include <stdlib.h>
#include <string.h>

static const char ACCEPTED[] = "accepted: {\"records\": [record, ...]} or {\"task\": [workload_key, target, ...], "
                               "\"states\": [[stages, steps], ...]}";
static const char ACCEPTED_MS[] = "accepted: {\"format\": \"metaschedule\", then \"workload\", \"workloads\", "
                                  "\"target\", \"args_info\" as needed, and last \"records\": [...]}";

enum { SEEN_RECORDS = 1, SEEN_TASK = 2, SEEN_STATES = 4 };

struct tp_body {
    const char *p, *end;
    struct tp_json env; /* JSON forms only */
    enum tp_form form;
    enum { AT_START, IN_ITEMS, AT_END } at;
    long index, line;
    long count;
    unsigned seen;    /* keys of the envelope */
    bool tail_known;  /* the envelope behind the items was read already */
    const char *task; /* bytes of the shared task */
    size_t task_n;
    bool task_bad;
    const struct tp_record_mem *task_in; /* the record that holds it decoded, NULL none */
    uint64_t task_decoded;
    size_t limit; /* bytes of a record */
    bool ms;      /* the items are tuning records of MetaSchedule */
    struct tp_ms_context context;
    struct tp_buf text; /* one of them as a record */
    int rc;             /* what every call at the end returns */
    struct tp_err last, task_err;
};

static const char *skip_bom(const char *s, const char *end)
{
    return end - s >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0 ? s + 3 : s;
}

struct tp_body *tp_body_open(enum tp_form form, const char *bytes, size_t n, struct tp_err *e)
{
    struct tp_body *b = calloc(1, sizeof *b);
    if (b == NULL) {
        tp_fail(e, TP_E_NO_MEMORY, "out of memory for a request body");
        return NULL;
    }
    if (bytes == NULL)
        bytes = "";
    b->end = bytes + n;
    b->p = skip_bom(bytes, b->end);
    b->form = form;
    b->index = -1;
    b->limit = TP_MAX_LINE;
    return b;
}

void tp_body_limit(struct tp_body *b, size_t bytes)
{
    b->limit = bytes < TP_MAX_LINE ? bytes : TP_MAX_LINE;
}

void tp_body_close(struct tp_body *b)
{
    if (b != NULL)
        tp_buf_free(&b->text);
    free(b);
}

/* j stands behind a first key "format". */
static bool is_metaschedule(struct tp_json *j)
{
    struct tp_json_text t;
    return tp_json_next(j, &t) == TP_JSON_STRING && tp_json_is(&t, "metaschedule");
}

bool tp_body_is_metaschedule(const char *bytes, size_t n)
{
    struct tp_json j;
    struct tp_json_text t;
    const char *start = skip_bom(bytes, bytes + n);
    tp_json_init(&j, start, (size_t)(bytes + n - start), TP_JSON_MAX_DEPTH);
    return tp_json_next(&j, &t) == TP_JSON_OBJECT && tp_json_next(&j, &t) == TP_JSON_KEY && tp_json_is(&t, "format") &&
           is_metaschedule(&j);
}

long tp_body_index(const struct tp_body *b)
{
    return b->index;
}

long tp_body_line(const struct tp_body *b)
{
    return b->line;
}

/* The body ends here: with rc == 0, or for good with *e. */
static int finish(struct tp_body *b, int rc, struct tp_err *e)
{
    if (rc == 0 && b->count == 0)
        rc = tp_fail(&b->last, TP_E_NO_RECORDS, "the body holds no record");
    b->at = AT_END;
    b->rc = rc;
    if (rc != 0 && e != NULL)
        *e = b->last;
    return rc;
}

/* A record was read with result rc. */
static int give(struct tp_body *b, int rc, struct tp_err *e)
{
    if (rc == 0)
        return 1;
    if (rc == -TP_E_NO_MEMORY) {
        tp_fail(&b->last, TP_E_NO_MEMORY, "out of memory for a record");
        return finish(b, rc, e);
    }
    if (e != NULL) {
        e->index = b->index;
        e->line = b->line;
    }
    return 2;
}

static int too_long(const struct tp_body *b, struct tp_err *e)
{
    return tp_fail(e, TP_E_TOO_LONG, "a record holds at most %zu bytes", b->limit);
}

static int next_line(struct tp_body *b, struct tp_record *r, struct tp_err *e)
{
    while (b->p < b->end) {
        const char *s = b->p, *nl = memchr(s, '\n', (size_t)(b->end - s)), *end = nl != NULL ? nl : b->end;
        b->p = nl != NULL ? nl + 1 : b->end;
        b->line++;
        s = skip_bom(s, end); /* of logs that were glued together */
        if (end > s && end[-1] == '\r')
            end--;
        if (s == end || *s == '#' || *s == ' ' || tp_json_ws(s, end) == end)
            continue;
        b->index = b->count++;
        return give(b, (size_t)(end - s) > b->limit ? too_long(b, e) : tp_record_parse(r, s, (size_t)(end - s), e), e);
    }
    return finish(b, 0, e);
}

/* ---- envelopes --------------------------------------------------------------------------------------------------- */

static int bad_json(struct tp_body *b)
{
    return tp_fail(&b->last, TP_E_BAD_BODY, "byte %td: %s; %s", b->env.p - b->env.begin, b->env.what, ACCEPTED);
}

/* Note a key of the envelope. */
static int take_key(struct tp_body *b, const struct tp_json_text *t, unsigned *key)
{
    if (tp_json_is(t, "records"))
        *key = SEEN_RECORDS;
    else if (tp_json_is(t, "task"))
        *key = SEEN_TASK;
    else if (tp_json_is(t, "states"))
        *key = SEEN_STATES;
    else
        return tp_fail(&b->last, TP_E_BAD_BODY, "key \"%.*s\" is not known; %s", t->n < 32 ? (int)t->n : 32, t->s,
                       ACCEPTED);
    if (b->seen & *key)
        return tp_fail(&b->last, TP_E_BAD_BODY, "key \"%.*s\" stands twice; %s", t->n < 32 ? (int)t->n : 32, t->s,
                       ACCEPTED);
    b->seen |= *key;
    if ((b->seen & SEEN_RECORDS) && b->seen != SEEN_RECORDS)
        return tp_fail(&b->last, TP_E_BAD_BODY, "\"records\" excludes \"task\" and \"states\"; %s", ACCEPTED);
    return 0;
}

static int bad_ms(struct tp_body *b, const char *what)
{
    return tp_fail(&b->last, TP_E_BAD_BODY, "%s; %s", what, ACCEPTED_MS);
}

/* A MetaSchedule envelope behind its "format", up to the first record. */
static int open_ms(struct tp_body *b)
{
    static const char *const name[] = {"workload", "workloads", "target", "args_info"};
    struct tp_str *const value[] = {&b->context.workload, &b->context.workloads, &b->context.target,
                                    &b->context.args_info};
    struct tp_json *j = &b->env;
    struct tp_json_text t;
    int event;
    while ((event = tp_json_next(j, &t)) == TP_JSON_KEY) {
        const char *start = tp_json_ws(j->p, j->end);
        if (tp_json_is(&t, "records")) {
            if (start < j->end && *start != '[')
                return bad_ms(b, "\"records\" is not an array");
            b->seen = SEEN_RECORDS;
            b->ms = true;
            return tp_json_next(j, &t) < 0 ? bad_json(b) : 0;
        }
        size_t k = 0;
        while (k < 4 && !tp_json_is(&t, name[k]))
            k++;
        if (k == 4 || value[k]->n > 0)
            return bad_ms(b, k == 4 ? "an unknown key" : "a key stands twice");
        if (tp_json_skip(j) < 0)
            return bad_json(b);
        *value[k] = (struct tp_str){.s = start, .n = (uint32_t)(j->p - start)};
    }
    return event < 0 ? bad_json(b) : bad_ms(b, "\"records\" is missing");
}

/* Up to the first item of the array of records or states. */
static int open_envelope(struct tp_body *b)
{
    struct tp_json *j = &b->env;
    struct tp_json_text t;
    struct tp_json states = {0};
    unsigned key = 0;
    tp_json_init(j, b->p, (size_t)(b->end - b->p), TP_JSON_MAX_DEPTH);
    int event = tp_json_next(j, &t);
    if (event > 0 && event != TP_JSON_OBJECT)
        return tp_fail(&b->last, TP_E_BAD_BODY, "the body is not a JSON object; %s", ACCEPTED);
    while ((event = tp_json_next(j, &t)) == TP_JSON_KEY) {
        if (b->seen == 0 && tp_json_is(&t, "format"))
            return is_metaschedule(j) ? open_ms(b) : bad_ms(b, "\"format\" is none that is known");
        int rc = take_key(b, &t, &key);
        if (rc != 0)
            return rc;
        const char *value = tp_json_ws(j->p, j->end);
        if (key != SEEN_TASK) {
            if (value < j->end && *value != '[')
                return tp_fail_at(&b->last, TP_E_BAD_BODY, key == SEEN_RECORDS ? "/records" : "/states",
                                  "it is %s, not an array; %s", tp_json_kind(value, j->end), ACCEPTED);
            if (key == SEEN_RECORDS || (b->seen & SEEN_TASK))
                return tp_json_next(j, &t) < 0 ? bad_json(b) : 0;
            states = *j; /* the task comes behind them */
        }
        if (tp_json_skip(j) < 0)
            return bad_json(b);
        if (key == SEEN_TASK) {
            b->task = value;
            b->task_n = (size_t)(j->p - value);
        }
    }
    if (event < 0 || tp_json_finish(j) < 0)
        return bad_json(b);
    if (b->seen != (SEEN_TASK | SEEN_STATES))
        return tp_fail(&b->last, TP_E_BAD_BODY, "%s is missing; %s",
                       b->seen == SEEN_TASK     ? "\"states\""
                       : b->seen == SEEN_STATES ? "\"task\""
                                                : "\"records\"",
                       ACCEPTED);
    b->tail_known = true;
    *j = states;
    return tp_json_next(j, &t) < 0 ? bad_json(b) : 0;
}

/* Behind the last item. */
static int close_envelope(struct tp_body *b)
{
    struct tp_json_text t;
    unsigned key;
    int event;
    if (b->tail_known)
        return 0;
    while ((event = tp_json_next(&b->env, &t)) == TP_JSON_KEY) {
        if (b->ms)
            return bad_ms(b, "a key stands behind \"records\"");
        int rc = take_key(b, &t, &key);
        if (rc != 0)
            return rc;
        if (tp_json_skip(&b->env) < 0)
            return bad_json(b);
    }
    return event < 0 || tp_json_finish(&b->env) < 0 ? bad_json(b) : 0;
}

/* Not a comparison of bytes: they may be a megabyte, for states of eight. */
static bool holds_task(const struct tp_body *b, const struct tp_record *r)
{
    return b->task_in != NULL && r->mem == b->task_in && r->mem->decoded == b->task_decoded && r->mem->task_ok;
}

/* The task is decoded once for each record object; when it is bad, every state is unusable for that one reason. */
static int read_state(struct tp_body *b, struct tp_record *r, size_t *used, struct tp_err *e)
{
    size_t rest = (size_t)(b->env.end - b->env.p);
    if (!b->task_bad && !holds_task(b, r)) {
        int rc = b->task_n > TP_MAX_LINE
                     ? tp_fail(&b->task_err, TP_E_TOO_LONG, "a task holds at most %d bytes", TP_MAX_LINE)
                     : tp_task_parse(r, b->task, b->task_n, &b->task_err);
        b->task_bad = rc != 0;
        b->task_in = r->mem;
        b->task_decoded = r->mem != NULL ? r->mem->decoded : 0;
    }
    if (b->task_bad) {
        if (e != NULL)
            *e = b->task_err;
        return -(int)b->task_err.code;
    }
    return tp_record_parse_state(r, b->env.p, rest, used, e);
}

/* A tuning record at the tokenizer's place, which is moved behind it. */
static int read_ms(struct tp_body *b, struct tp_record *r, struct tp_err *e)
{
    struct tp_json *j = &b->env;
    const char *start = j->p;
    if (tp_json_skip(j) < 0)
        return 1;
    b->text.n = 0;
    int rc = tp_ms_convert(&b->context, start, (size_t)(j->p - start), &b->text, e);
    return rc != 0 ? rc : tp_record_parse(r, b->text.p, b->text.n, e);
}

static int next_item(struct tp_body *b, struct tp_record *r, struct tp_err *e)
{
    struct tp_json *j = &b->env;
    int more = tp_json_more(j);
    if (more < 0)
        return finish(b, bad_json(b), e);
    if (more == 0)
        return finish(b, close_envelope(b), e);

    const char *start = j->p;
    size_t used = 0;
    int rc = b->ms                    ? read_ms(b, r, e)
             : b->seen & SEEN_RECORDS ? tp_record_parse_prefix(r, start, (size_t)(j->end - start), &used, e)
                                      : read_state(b, r, &used, e);
    if (b->ms && rc > 0)
        return finish(b, bad_json(b), e);
    if (rc == 0 && !b->ms)
        tp_json_taken(j, start + used);
    else if (!b->ms && rc != -TP_E_NO_MEMORY && tp_json_skip(j) < 0)
        return finish(b, bad_json(b), e);
    if ((size_t)(j->p - start) > b->limit)
        rc = too_long(b, e);
    b->index = b->count++;
    return give(b, rc, e);
}

int tp_body_next(struct tp_body *b, struct tp_record *r, struct tp_err *e)
{
    if (b->at == AT_END) {
        if (b->rc != 0 && e != NULL)
            *e = b->last;
        return b->rc;
    }
    if (b->form == TP_FORM_NDJSON)
        return next_line(b, r, e);
    if (b->at == AT_START) {
        int rc = open_envelope(b);
        if (rc != 0)
            return finish(b, rc, e);
        b->at = IN_ITEMS;
    }
    return next_item(b, r, e);
}
