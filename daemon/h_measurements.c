/* Measurements: POST, export, best records, tasks.
 *
 * A POST reads the whole body before anything is stored, so a broken envelope stores nothing; the reply is made by the
 * store's writer after the commit. Exports stream in chunks: each takes up a short read where the last one ended, so a
 * slow client holds no transaction open. */
#include "daemon/handlers.h"
#include "daemon/hardware.h"
#include "daemon/hcommon.h"
#include "daemon/metrics.h"
#include "daemon/recalibrate.h"
#include "daemon/registry.h"
#include "proto/body.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CHUNK = 48 << 10, /* bytes of a stream per call */
    PAGE = 500,       /* rows of it at most */
    EXPORTS_MAX = 16  /* streams at a time: each has a read connection */
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- POST ---- */
struct post {
    struct td_request *r;
    struct td_daemon *d;
    size_t rejected;
    struct tp_errlist errors;
    double handed_over;
};

static void post_free(struct post *p)
{
    if (p == NULL)
        return;
    tp_errlist_free(&p->errors);
    free(p);
}

static void post_reply(struct post *p, size_t accepted, size_t duplicates)
{
    struct tp_buf out = {0};

    td_count(p->d->metrics, TD_C_MEAS_ACCEPTED, accepted);
    td_count(p->d->metrics, TD_C_MEAS_DUPLICATE, duplicates);
    td_count(p->d->metrics, TD_C_MEAS_REJECTED, p->rejected);
    tp_write_reply_json(&out, accepted, duplicates, p->rejected, &p->errors);
    td_reply_json(p->r, 200, &out);
}

/* On the writer thread, after the commit. */
static void committed(void *arg, const struct st_ingest_result *res)
{
    struct post *p = arg;

    if (res->code == 0) {
        td_observe(p->d->metrics, TD_H_COMMIT, now() - p->handed_over);
        if (res->accepted > 0)
            td_recal_note(p->d->recal, td_req_param(p->r, 0));
        post_reply(p, res->accepted, res->duplicates);
    } else if (res->code == -TP_E_UNKNOWN_HARDWARE) {
        td_reply_fail(p->r, TP_E_UNKNOWN_HARDWARE,
                      "the hardware was removed while the measurements came in; nothing was stored");
    } else {
        td_reply_fail(p->r, (enum tp_code) - res->code, "the measurements could not be stored; nothing of them was");
    }
    post_free(p);
}

/* Everything usable of the body goes into b, everything else into p. */
static int read_body(struct post *p, const struct td_hw *hw, struct st_ingest *b, struct tp_err *e)
{
    size_t n;
    const char *bytes = td_req_body(p->r, &n);
    struct tp_body *body = tp_body_open(td_req_body_is_ndjson(p->r) ? TP_FORM_NDJSON : TP_FORM_JSON, bytes, n, e);
    struct tp_record rec;
    struct td_fit fit = {0};
    struct tp_err why;
    int got, rc = 0;

    if (body == NULL)
        return -TP_E_NO_MEMORY;
    tp_record_init(&rec);
    while (rc == 0 && (got = tp_body_next(body, &rec, &why)) != 0) {
        if (got < 0) {
            *e = why;
            rc = got;
        } else if (got == 1) {
            int bad = td_fit_check(&fit, &rec, hw->feat.kind, &why);

            if (bad == 0 && tp_record_label(&rec) == TP_LABEL_NONE)
                bad = tp_fail_at(&why, TP_E_NOT_MEASURED, rec.has_result ? "/r/0" : "",
                                 rec.has_result ? "error_no is 0 but costs are missing, zero or negative"
                                                : "the record has no \"r\"");
            if (bad == 0)
                bad = st_ingest_add(b, &rec, &why);
            if (bad == -TP_E_NO_MEMORY || bad == -TP_E_OVERLOADED) {
                *e = why;
                rc = bad;
            } else if (bad != 0) {
                why.index = tp_body_index(body);
                why.line = tp_body_line(body);
                got = 2;
            }
        }
        if (got == 2) {
            p->rejected++;
            tp_errlist_add(&p->errors, &why);
        }
    }
    tp_record_free(&rec);
    tp_body_close(body);
    return rc;
}

void td_h_measurements_post(struct td_request *r)
{
    static const char *const query[] = {"agent", NULL};
    struct td_daemon *d = td_req_daemon(r);
    const char *agent = td_req_query(r, "agent");
    struct st_ingest *b = NULL;
    struct post *p = NULL;
    struct td_hw hw;
    struct tp_err e = {0};
    int rc;

    if (!td_req_only_query(r, query))
        return;
    if (agent != NULL && !st_id_valid(agent))
        rc = tp_fail(&e, TP_E_BAD_IDENTIFIER, "agent is no identifier; accepted is [a-z0-9][a-z0-9._-]{0,62}");
    else
        rc = td_registry_hardware(d->registry, td_req_param(r, 0), &hw, &e);
    if (rc != 0)
        goto fail;
    p = calloc(1, sizeof *p);
    b = st_ingest_new(agent);
    if (p == NULL || b == NULL) {
        rc = tp_fail(&e, TP_E_NO_MEMORY, "no memory for a body of measurements");
        goto fail;
    }
    p->r = r;
    p->d = d;
    rc = read_body(p, &hw, b, &e);
    if (rc != 0)
        goto fail;
    if (st_ingest_size(b) == 0) {
        post_reply(p, 0, 0);
        goto done;
    }
    p->handed_over = now();
    rc = st_ingest_submit(d->store, hw.name, b, committed, p, &e);
    if (rc == 0)
        return; /* b and p are the store's; the request may be gone already */
fail:
    td_reply_problem(r, &e);
done:
    st_ingest_free(b);
    post_free(p);
}

/* ---- streams of records ---- */
struct export
{
    struct td_daemon *d;
    struct st_reader *reader;
    int64_t hw;
    char task[TP_TASK_ID_LEN + 1]; /* "" all */
    bool best;
    int64_t after, until; /* measurement ids; what came after the request is left out, or it might never end */
    char after_task[TP_TASK_ID_LEN + 1];
    struct tp_buf *out;
    size_t start; /* out->n when the call began */
    bool end;
};

static void export_free(void *arg)
{
    struct export *x = arg;

    if (x == NULL)
        return;
    st_reader_free(x->reader);
    atomic_fetch_sub(&x->d->exports, 1);
    free(x);
}

static int emit(void *arg, int64_t id, const char *task_id, const struct tp_record *rec)
{
    struct export *x = arg;

    if (!x->best && id > x->until) {
        x->end = true;
        return 1;
    }
    tp_record_emit(rec, x->out);
    tp_buf_putc(x->out, '\n');
    x->after = id;
    memcpy(x->after_task, task_id, sizeof x->after_task);
    return x->out->n - x->start >= CHUNK;
}

static int export_next(void *arg, struct tp_buf *out)
{
    struct export *x = arg;
    int64_t last;
    int rc;

    if (x->end)
        return 0;
    x->out = out;
    x->start = out->n;
    if (x->best)
        rc = st_best(x->reader, x->hw, x->after_task, PAGE, emit, x, NULL);
    else
        rc = st_export(x->reader, x->hw, x->task[0] != '\0' ? x->task : NULL, x->after, PAGE, emit, x, &last, NULL);
    if (rc != 0 || out->oom)
        return -1; /* the status is out already: a cut connection is all that can tell */
    return out->n > x->start ? 1 : 0;
}

/* A task id is 16 hex digits. */
static bool task_id_valid(const char *s)
{
    return strlen(s) == TP_TASK_ID_LEN && strspn(s, "0123456789abcdef") == TP_TASK_ID_LEN;
}

static int nothing(void *arg, int64_t id, const char *task_id, const struct tp_record *rec)
{
    (void)arg;
    (void)id;
    (void)task_id;
    (void)rec;
    return 1;
}

static int export_open(struct td_daemon *d, struct st_reader *r, const char *hardware, const char *task, bool best,
                       struct export **out, struct tp_err *e)
{
    struct export *x = NULL;
    struct st_hardware hw = {0};
    struct st_counts counts;
    int64_t last;
    int rc;

    if (atomic_fetch_add(&d->exports, 1) >= EXPORTS_MAX) {
        atomic_fetch_sub(&d->exports, 1);
        return tp_fail(e, TP_E_OVERLOADED, "%d exports run already", EXPORTS_MAX);
    }
    x = calloc(1, sizeof *x);
    if (x == NULL) {
        atomic_fetch_sub(&d->exports, 1);
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for an export");
    }
    x->d = d;
    x->best = best;
    rc = td_hardware_find(r, hardware, &hw, e);
    if (rc == 0) {
        x->hw = hw.id;
        rc = st_hardware_counts(r, hw.id, &counts, e);
    }
    if (rc == 0 && task != NULL) {
        memcpy(x->task, task, sizeof x->task);
        rc = st_export(r, hw.id, task, 0, 1, nothing, NULL, &last, e);
    }
    if (rc == 0) {
        x->until = counts.newest_measurement_id;
        rc = st_reader_new(d->store, &x->reader, e);
    }
    st_hardware_clear(&hw);
    if (rc != 0)
        export_free(x);
    else
        *out = x;
    return rc;
}

static void stream_records(struct td_request *r, const char *task, bool best)
{
    struct export *x = NULL;
    struct tp_err e = {0};

    if (export_open(td_req_daemon(r), td_req_reader(r), td_req_param(r, 0), task, best, &x, &e) != 0)
        td_reply_problem(r, &e);
    else
        td_reply_stream(r, 200, "application/x-ndjson", export_next, x, export_free);
}

void td_h_measurements_get(struct td_request *r)
{
    static const char *const query[] = {"task", NULL};
    const char *task = td_req_query(r, "task");

    if (!td_req_only_query(r, query))
        return;
    if (task != NULL && !task_id_valid(task))
        td_reply_fail(r, TP_E_BAD_PARAMETER, "task must be a task id: %d lower-case hex digits", TP_TASK_ID_LEN);
    else
        stream_records(r, task, false);
}

void td_h_best(struct td_request *r)
{
    static const char *const query[] = {NULL};

    if (td_req_only_query(r, query))
        stream_records(r, NULL, true);
}

/* ---- tasks ---- */
struct task_page {
    struct tp_buf out;
    int n, limit;
    char last[TP_TASK_ID_LEN + 1];
    bool more;
};

static int put_task(void *arg, const struct st_task *t)
{
    struct task_page *p = arg;

    if (p->n == p->limit) {
        p->more = true;
        return 1;
    }
    tp_buf_printf(&p->out, "%s{\"task\": \"%s\", \"workload_key\": ", p->n++ > 0 ? ", " : "", t->id);
    tp_buf_json_str(&p->out, t->workload_key, strlen(t->workload_key));
    tp_buf_puts(&p->out, ", \"target_kind\": ");
    tp_buf_json_str(&p->out, t->target_kind, strlen(t->target_kind));
    tp_buf_printf(&p->out, ", \"programs\": %lld, \"measurements\": %lld, \"failures\": %lld, \"best_seconds\": ",
                  (long long)t->programs, (long long)t->measurements, (long long)t->failures);
    tp_buf_json_num(&p->out, t->best_seconds, 9);
    tp_buf_putc(&p->out, '}');
    memcpy(p->last, t->id, sizeof p->last);
    return 0;
}

void td_h_tasks(struct td_request *r)
{
    static const char *const query[] = {"limit", "cursor", NULL};
    struct task_page p = {0};
    struct st_hardware hw = {0};
    struct tp_err e = {0};
    const char *after;
    int rc;

    if (!td_req_only_query(r, query) || !td_req_page(r, &p.limit, &after))
        return;
    rc = td_hardware_find(td_req_reader(r), td_req_param(r, 0), &hw, &e);
    if (rc == 0) {
        tp_buf_puts(&p.out, "{\"items\": [");
        rc = st_tasks(td_req_reader(r), hw.id, after, p.limit + 1, put_task, &p, &e);
    }
    st_hardware_clear(&hw);
    if (rc != 0) {
        tp_buf_free(&p.out);
        td_reply_problem(r, &e);
        return;
    }
    td_page_end(&p.out, p.more ? p.last : NULL);
    td_reply_json(r, 200, &p.out);
}
