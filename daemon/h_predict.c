/* POST /v1/hardware/{hw}/predict: scores and latencies of programs.
 *
 * Runs on the predict pool, or on the HTTP thread when it is small. What a thread needs is kept between requests and
 * only grows, so in the steady state the reply is all that is allocated. One snapshot serves the whole request; nothing
 * here waits for the store, training or a model swap. */
#include "daemon/dialect.h"
#include "daemon/handlers.h"
#include "daemon/hcommon.h"
#include "daemon/metrics.h"
#include "daemon/registry.h"
#include "model/mem.h"
#include "proto/body.h"
#include "proto/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct worker {
    struct tm_batch *batch;
    struct tp_record record;
    struct td_fit fit;
    struct tp_errlist errors;
    /* per record of the request */
    int32_t *slot;                 /* index in the batch, -1 unusable */
    double *score, *latency, *std; /* first by program of the batch, then spread out by record */
    struct tm_offset *offset;      /* of its task, by program of the batch */
    size_t slot_cap, score_cap, latency_cap, std_cap, offset_cap;
};

void *td_predict_worker_new(void *daemon)
{
    struct worker *w = calloc(1, sizeof *w);

    (void)daemon;
    if (w == NULL)
        return NULL;
    w->batch = tm_batch_new();
    if (w->batch == NULL) {
        free(w);
        return NULL;
    }
    tp_record_init(&w->record);
    return w;
}

void td_predict_worker_free(void *worker)
{
    struct worker *w = worker;

    if (w == NULL)
        return;
    tm_batch_free(w->batch);
    tp_record_free(&w->record);
    tp_errlist_free(&w->errors);
    free(w->slot);
    free(w->score);
    free(w->latency);
    free(w->std);
    free(w->offset);
    free(w);
}

/* ---- which form the client wants (RFC 9110, 12.5.1) ---- */
struct range {
    double q;
    int rank; /* how precisely it names the type: 3 exact, 2 "application" and any, 1 any */
};

static void offer(struct range *best, const char *range, size_t n, const char *type, double q)
{
    size_t slash = strcspn(type, "/") + 1;
    int rank = 0;

    if (n == strlen(type) && strncasecmp(range, type, n) == 0)
        rank = 3;
    else if (n == slash + 1 && strncasecmp(range, type, slash) == 0 && range[slash] == '*')
        rank = 2;
    else if (n == 3 && memcmp(range, "*/*", 3) == 0)
        rank = 1;
    if (rank > best->rank)
        *best = (struct range){q, rank};
}

static double quality(const char *parameters, const char *end)
{
    const char *p = parameters;

    while (p < end) {
        p += strspn(p, "; \t");
        if (p + 1 < end && (p[0] == 'q' || p[0] == 'Q') && p[1] == '=') {
            double q = strtod(p + 2, NULL);

            return q >= 0 && q <= 1 ? q : 0;
        }
        p += strcspn(p, ";");
    }
    return 1;
}

/* Sets *binary; NOT_ACCEPTABLE when neither form is. */
static int negotiate(const char *accept, bool *binary, struct tp_err *e)
{
    struct range json = {0, 0}, octets = {0, 0};

    *binary = false;
    if (accept == NULL || *accept == '\0')
        return 0;
    while (*accept != '\0') {
        const char *end, *semi;

        accept += strspn(accept, ", \t");
        end = accept + strcspn(accept, ",");
        semi = accept + strcspn(accept, ";, \t");
        if (semi > accept) {
            double q = quality(semi, end);

            offer(&json, accept, (size_t)(semi - accept), "application/json", q);
            offer(&octets, accept, (size_t)(semi - accept), "application/octet-stream", q);
        }
        accept = end;
    }
    if (json.q <= 0 && octets.q <= 0)
        return tp_fail(e, TP_E_NOT_ACCEPTABLE, "the reply is application/json or application/octet-stream");
    *binary = octets.q > json.q;
    return 0;
}

/* ---- scoring ---- */
static bool record_error(int code)
{
    code = code < 0 ? -code : code;
    return code >= TP_E_BAD_JSON && code <= TP_E_WRONG_TARGET;
}

static int grow(struct worker *w, size_t n, bool with_std, struct tp_err *e)
{
    if (tm_grow((void **)&w->slot, &w->slot_cap, n, sizeof *w->slot) != 0 ||
        tm_grow((void **)&w->score, &w->score_cap, n, sizeof *w->score) != 0 ||
        tm_grow((void **)&w->latency, &w->latency_cap, n, sizeof *w->latency) != 0 ||
        tm_grow((void **)&w->offset, &w->offset_cap, n, sizeof *w->offset) != 0 ||
        (with_std && tm_grow((void **)&w->std, &w->std_cap, n, sizeof *w->std) != 0))
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu predictions", n);
    return 0;
}

/* Takes in the body: fills the batch, slot[0..*n) and offset[]. Record errors go to w->errors. */
static int read_records(struct worker *w, struct td_request *r, const struct td_hw *hw, const struct td_snapshot *s,
                        bool with_std, size_t *n, struct tp_err *e)
{
    struct td_daemon *d = td_req_daemon(r);
    size_t bytes_n, count = 0, limit = (size_t)d->config.limit_predict_records;
    const char *bytes = td_req_body(r, &bytes_n);
    struct tp_body *body = tp_body_open(td_req_body_is_ndjson(r) ? TP_FORM_NDJSON : TP_FORM_JSON, bytes, bytes_n, e);
    struct tp_err why;
    int got, rc = 0;

    if (body == NULL)
        return -TP_E_NO_MEMORY;
    tp_body_limit(body, (size_t)d->config.limit_record_bytes);
    while (rc == 0 && (got = tp_body_next(body, &w->record, &why)) != 0) {
        if (got < 0) {
            *e = why;
            rc = got;
            break;
        }
        if (count == limit) {
            rc = tp_fail(e, TP_E_BODY_TOO_LARGE,
                         "the body holds more than %zu records, which is the most in one request", limit);
            break;
        }
        rc = grow(w, count + 1, with_std, e);
        if (rc != 0)
            break;
        /* A result is ignored here, so a malformed one is no fault. */
        if (got == 2 && why.code == TP_E_BAD_RESULT)
            got = 1;
        if (got == 1) {
            int at = td_fit_check(&w->fit, &w->record, hw->feat.kind, &why);

            if (at == 0)
                at = td_dialect_check(&w->record, hw->name, &why);
            if (at == 0)
                at = tm_batch_add(w->batch, &w->record, &hw->feat, &why);
            w->slot[count] = at;
            if (at >= 0)
                w->offset[at] = s->offsets != NULL ? td_offsets_find(s->offsets, hw->id, tp_record_task_id(&w->record))
                                                   : (struct tm_offset){0};
            if (at < 0) {
                if (!record_error(at)) {
                    *e = why;
                    rc = at;
                }
                why.index = tp_body_index(body);
                why.line = tp_body_line(body);
                got = 2;
            }
        }
        if (got == 2) {
            if (why.code == TP_E_TOO_LONG)
                td_count(d->metrics, TD_C_LIMIT_RECORD, 1);
            w->slot[count] = -1;
            tp_errlist_add(&w->errors, &why);
        }
        count++;
    }
    tp_body_close(body);
    if (rc == 0)
        *n = count;
    return rc;
}

/* What is known of its task goes into the latency of each program of the batch. */
static void calibrate(struct worker *w, const struct tm_model *m, size_t programs, bool with_std)
{
    for (size_t k = 0; k < programs; k++) {
        if (w->offset[k].n > 0)
            w->latency[k] = tm_latency_with(m, w->latency[k], w->offset[k].offset);
        if (with_std)
            w->std[k] = tm_latency_std(m, w->score[k], w->offset[k].n);
    }
}

/* score[], latency[] and std[] hold one value per program of the batch; spread them out to one per record, from the end
 * since slot[i] <= i. */
static size_t spread(struct worker *w, size_t n, bool with_std)
{
    size_t usable = 0;

    for (size_t i = n; i-- > 0;) {
        int32_t k = w->slot[i];

        w->score[i] = k >= 0 ? w->score[k] : NAN;
        w->latency[i] = k >= 0 ? w->latency[k] : NAN;
        if (with_std)
            w->std[i] = k >= 0 ? w->std[k] : NAN;
        usable += k >= 0;
    }
    return usable;
}

static int predict(struct worker *w, struct td_request *r, const struct td_hw *hw, const struct td_snapshot *s,
                   bool with_std, size_t *n, struct tp_err *e)
{
    struct td_metrics *m = td_req_daemon(r)->metrics;
    struct tm_batch_stats stats;
    size_t usable;
    int rc;

    w->errors.n = 0;
    w->errors.truncated = false;
    rc = tm_batch_begin(w->batch, s->plan);
    if (rc != 0)
        return tp_fail(e, (enum tp_code) - rc, "the batch cannot be started");
    rc = read_records(w, r, hw, s, with_std, n, e);
    td_req_body_done(r);
    if (rc != 0)
        return rc;
    rc = tm_batch_run(w->batch, w->score, w->latency, NULL);
    if (rc != 0)
        return tp_fail(e, (enum tp_code) - rc, "the batch cannot be run");
    tm_batch_stats(w->batch, &stats);
    calibrate(w, s->model, (size_t)stats.programs, with_std);
    usable = spread(w, *n, with_std);
    td_count(m, TD_C_BATCHES, 1);
    td_count(m, TD_C_PREDICTED, usable);
    td_count(m, TD_C_UNUSABLE, *n - usable);
    td_count(m, TD_C_ROWS, stats.rows);
    td_count(m, TD_C_ROWS_DISTINCT, stats.distinct_rows);
    return 0;
}

static void reply(struct td_request *r, const struct worker *w, const struct td_snapshot *s, size_t n, bool with_std,
                  bool binary)
{
    struct tp_predict_reply p = {
        .model_id = s->id,
        .role = s->role,
        .hardware = s->owner,
        .features_version = tclfeat_version(s->model->features),
        .calibration = s->calibration,
        .n = n,
        .scores = w->score,
        .latency_seconds = w->latency,
        .latency_std_log = with_std ? w->std : NULL,
        .errors = &w->errors,
    };
    struct tp_buf out = {0};
    char id[24];

    if (binary) {
        tp_predict_reply_binary(&out, &p);
        snprintf(id, sizeof id, "%lld", (long long)s->id);
        td_reply_header(r, "X-Model-Id", id);
        if (!out.oom) {
            td_reply(r, 200, "application/octet-stream", &out);
            return;
        }
    } else {
        tp_predict_reply_json(&out, &p);
    }
    td_reply_json(r, 200, &out);
}

/* Hardware and snapshot. Returns 1 when that would take longer than the thread may wait. */
static int find(struct td_request *r, const char *which, struct td_hw *hw, struct td_snapshot **s, struct tp_err *e)
{
    struct td_registry *g = td_req_daemon(r)->registry;
    char name[ST_ID_MAX + 1];
    int rc = td_dialect_hardware(r, name, e);
    bool hit = rc == 0 && td_registry_hardware_peek(g, name, hw);

    if (rc != 0)
        return rc;
    if (!td_req_may_wait(r) && (!hit || (which[0] >= '0' && which[0] <= '9')))
        return 1;
    td_count(td_req_daemon(r)->metrics, hit ? TD_C_HW_HIT : TD_C_HW_MISS, 1);
    if (!hit)
        rc = td_registry_hardware(g, name, hw, e);
    return rc != 0 ? rc : td_registry_acquire(g, hw->name, hw->family, which, s, e);
}

void td_h_predict(struct td_request *r)
{
    static const char *const query[] = {"model", "uncertainty", NULL};
    struct td_daemon *d = td_req_daemon(r);
    struct worker *w = td_req_worker(r);
    const char *which = td_req_query(r, "model");
    struct td_snapshot *s = NULL;
    struct td_hw hw;
    struct tp_err e = {0};
    bool binary, with_std;
    double start = tp_seconds();
    size_t n = 0;
    int rc;

    if (!td_req_only_query(r, query))
        return;
    rc = td_query_bool(r, "uncertainty", &with_std, &e);
    if (rc == 0)
        rc = negotiate(td_req_header(r, "Accept"), &binary, &e);
    if (rc == 0)
        rc = find(r, which != NULL ? which : "active", &hw, &s, &e);
    if (rc > 0)
        return;
    if (rc == 0)
        rc = predict(w, r, &hw, s, with_std, &n, &e);
    if (rc == 0)
        reply(r, w, s, n, with_std, binary);
    else
        td_reply_problem(r, &e);
    td_registry_release(s);
    if (rc == 0)
        td_observe(d->metrics, TD_H_PREDICT, tp_seconds() - start);
}
