/* POST of records: measurements and candidates.
 *
 * The whole body is read before anything is stored, so a broken envelope stores nothing; the reply is made by the
 * store's writer after the commit. Candidates must be programs that can be encoded, or no selection could ever look at
 * them; what they say of a result is ignored. */
#include "daemon/dialect.h"
#include "daemon/handlers.h"
#include "daemon/hcommon.h"
#include "daemon/metrics.h"
#include "daemon/recalibrate.h"
#include "daemon/registry.h"
#include "proto/body.h"
#include "proto/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum { REPEAT_MAX = 1000 };

struct post {
    struct td_request *r;
    struct td_daemon *d;
    bool candidates;
    char hw[ST_ID_MAX + 1];          /* the records' */
    struct tclfeat_encoder *encoder; /* of candidates */
    struct tclfeat_key *keys;
    size_t rejected;
    struct tp_errlist errors;
    double handed_over;
};

static void post_free(struct post *p)
{
    if (p == NULL)
        return;
    tclfeat_encoder_free(p->encoder);
    free(p->keys);
    tp_errlist_free(&p->errors);
    free(p);
}

static struct post *post_new(struct td_request *r, const char *hw, bool candidates)
{
    struct post *p = calloc(1, sizeof *p);

    if (p == NULL)
        return NULL;
    p->r = r;
    p->d = td_req_daemon(r);
    p->candidates = candidates;
    snprintf(p->hw, sizeof p->hw, "%s", hw);
    if (!candidates)
        return p;
    p->encoder = tclfeat_encoder_new(td_dialect_features(hw));
    p->keys = malloc(TCLFEAT_MAX_ROWS * sizeof *p->keys);
    if (p->encoder != NULL && p->keys != NULL)
        return p;
    post_free(p);
    return NULL;
}

static void post_reply(struct post *p, size_t accepted, size_t duplicates)
{
    struct td_metrics *m = p->d->metrics;
    struct tp_buf out = {0};

    td_count(m, p->candidates ? TD_C_CAND_ACCEPTED : TD_C_MEAS_ACCEPTED, accepted);
    td_count(m, p->candidates ? TD_C_CAND_DUPLICATE : TD_C_MEAS_DUPLICATE, duplicates);
    td_count(m, p->candidates ? TD_C_CAND_REJECTED : TD_C_MEAS_REJECTED, p->rejected);
    tp_write_reply_json(&out, accepted, duplicates, p->rejected, &p->errors);
    td_reply_json(p->r, 200, &out);
}

static void post_failed(struct post *p, enum tp_code code)
{
    const char *what = p->candidates ? "candidates" : "measurements", *hw = p->hw;

    if (code == TP_E_UNKNOWN_HARDWARE)
        td_reply_fail(p->r, code, "the hardware was removed while the %s came in; nothing was stored", what);
    else if (code == TP_E_TOO_MANY) {
        td_count(p->d->metrics, TD_C_LIMIT_CANDIDATES, 1);
        td_reply_fail(p->r, code,
                      "hardware \"%s\" would have more than %lld candidates that wait to be measured "
                      "(limit_candidates); nothing of the body was stored; measure some, or remove what is pooled: "
                      "DELETE /v1/hardware/%s/candidates?state=pooled",
                      hw, (long long)p->d->config.limit_candidates, hw);
    } else
        td_reply_fail(p->r, code, "the %s could not be stored; nothing of them was", what);
}

/* On the writer thread, after the commit. */
static void committed(void *arg, const struct st_ingest_result *res)
{
    struct post *p = arg;

    if (res->code == 0) {
        td_observe(p->d->metrics, TD_H_COMMIT, tp_seconds() - p->handed_over);
        if (!p->candidates && res->accepted > 0)
            td_recal_note(p->d->recal, p->hw);
        post_reply(p, res->accepted, res->duplicates);
    } else {
        post_failed(p, (enum tp_code) - res->code);
    }
    post_free(p);
}

/* 0, or why the record is of no use. */
static int check(const struct post *p, const struct tp_record *rec, const struct td_hw *hw, struct tp_err *why)
{
    float summary[TCLFEAT_MAX_SUMMARY];
    int rc;

    if (p->candidates) {
        rc = tclfeat_encode(p->encoder, rec, &hw->feat, p->keys, summary, why);
        return rc < 0 ? rc : 0;
    }
    if (tp_record_label(rec) != TP_LABEL_NONE)
        return 0;
    return tp_fail_at(why, TP_E_NOT_MEASURED, rec->has_result ? "/r/0" : "",
                      rec->has_result ? "error_no is 0 but costs are missing, zero or negative"
                                      : "the record has no \"r\"");
}

/* Everything usable of the body goes into b, everything else into p. */
static int read_body(struct post *p, const struct td_hw *hw, struct st_ingest *b, struct tp_err *e)
{
    size_t n, count = 0, limit = (size_t)p->d->config.limit_measurements_records;
    const char *bytes = td_req_body(p->r, &n);
    struct tp_body *body = tp_body_open(td_req_body_is_ndjson(p->r) ? TP_FORM_NDJSON : TP_FORM_JSON, bytes, n, e);
    struct tp_record rec;
    struct td_fit fit = {0};
    struct tp_err why;
    int got, rc = 0;

    if (body == NULL)
        return -TP_E_NO_MEMORY;
    tp_body_limit(body, (size_t)p->d->config.limit_record_bytes);
    tp_record_init(&rec);
    while (rc == 0 && (got = tp_body_next(body, &rec, &why)) != 0) {
        if (got == 2 && p->candidates && why.code == TP_E_BAD_RESULT)
            got = 1;
        if (got < 0) {
            *e = why;
            rc = got;
        } else if (got == 1) {
            int bad = td_fit_check(&fit, &rec, hw->feat.kind, &why);

            if (bad == 0)
                bad = td_dialect_check(&rec, hw->name, &why);
            if (bad == 0)
                bad = check(p, &rec, hw, &why);
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
        if (got != 0 && rc == 0 && ++count > limit)
            rc = tp_fail(e, TP_E_BODY_TOO_LARGE,
                         "the body holds more than %zu records, which is the most in one request", limit);
        if (got == 2) {
            if (why.code == TP_E_TOO_LONG)
                td_count(p->d->metrics, TD_C_LIMIT_RECORD, 1);
            p->rejected++;
            tp_errlist_add(&p->errors, &why);
        }
    }
    tp_record_free(&rec);
    tp_body_close(body);
    return rc;
}

/* Takes b. rc, e: what went wrong before. */
static void post(struct td_request *r, struct st_ingest *b, bool candidates, int rc, struct tp_err *e)
{
    struct td_daemon *d = td_req_daemon(r);
    struct post *p = NULL;
    char name[ST_ID_MAX + 1];
    struct td_hw hw;

    if (rc == 0)
        rc = td_dialect_hardware(r, name, e);
    if (rc == 0)
        rc = td_registry_hardware(d->registry, name, &hw, e);
    if (rc != 0)
        goto fail;
    p = post_new(r, name, candidates);
    if (p == NULL || b == NULL) {
        tp_fail(e, TP_E_NO_MEMORY, "no memory for a body of records");
        goto fail;
    }
    rc = read_body(p, &hw, b, e);
    if (rc != 0)
        goto fail;
    if (st_ingest_size(b) == 0) {
        post_reply(p, 0, 0);
        goto done;
    }
    p->handed_over = tp_seconds();
    rc = st_ingest_submit(d->store, hw.name, b, committed, p, e);
    if (rc == -TP_E_OVERLOADED)
        td_count(d->metrics, TD_C_LIMIT_INGEST_QUEUE, 1);
    if (rc == 0)
        return; /* b and p are the store's; the request may be gone already */
fail:
    td_reply_problem(r, e);
done:
    st_ingest_free(b);
    post_free(p);
}

void td_h_measurements_post(struct td_request *r)
{
    static const char *const query[] = {"agent", NULL};
    const char *agent = NULL;
    struct tp_err e = {0};
    int rc;

    if (!td_req_only_query(r, query))
        return;
    rc = td_query_id(r, "agent", &agent, &e);
    post(r, rc == 0 ? st_ingest_new(agent) : NULL, false, rc, &e);
}

void td_h_candidates_post(struct td_request *r)
{
    static const char *const query[] = {"repeat", NULL};
    struct tp_err e = {0};
    int64_t repeat = 1;
    int rc;

    if (!td_req_only_query(r, query))
        return;
    rc = td_query_int(r, "repeat", 1, REPEAT_MAX, &repeat, &e);
    post(r, rc == 0 ? st_ingest_new_candidates((int)repeat, td_req_daemon(r)->config.limit_candidates) : NULL, true, rc,
         &e);
}
