/* Measurements: export, best records, tasks.
 *
 * Exports stream in chunks: each takes up a short read where the last one ended, so a slow client holds no transaction
 * open. */
#include "daemon/handlers.h"
#include "daemon/hardware.h"
#include "daemon/hcommon.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 48 << 10, /* bytes of a stream per call */
    PAGE = 500,       /* rows of it at most */
    EXPORTS_MAX = 16  /* streams at a time: each has a read connection */
};

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
