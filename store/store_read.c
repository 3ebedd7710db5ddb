/* Measurements on their way out: exports, the best per task, tasks, training sets.
 *
 * Every record is put together in the reader's own tp_record: the task is parsed once per run of rows with the same
 * variant, the steps are unpacked over the last ones, the result points at the reader's costs.
 * Invariant: no query here walks rows of other hardware than the one asked for; a long walk (training set) is cut by
 * task into short read transactions, so that it never keeps the log from being checkpointed.
 * Thread: the reader's. */
#include "store/db.h"

#include <endian.h>
#include <math.h>
#include <string.h>

/* ---- one record ---- */

int st_damaged(struct tp_err *e, const char *what)
{
    return tp_fail(e, TP_E_IO, "the database is damaged: a stored %s cannot be read", what);
}

/* Make rec.task and rec.version those of a variant. */
static int load_variant(struct st_reader *r, int64_t id, struct tp_err *e)
{
    if (r->variant == id)
        return 0;
    r->variant = 0;
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_VARIANT);
    st_q_int(&q, id);
    int rc = st_q_step(&q, e);
    if (rc <= 0) {
        rc = rc < 0 ? rc : st_damaged(e, "task");
        goto out;
    }
    struct tp_str array = st_col_str(&q, 0), v = st_col_str(&q, 1);
    rc = tp_task_parse(&r->rec, array.s, array.n, e);
    if (rc < 0) {
        rc = rc == -TP_E_NO_MEMORY ? rc : st_damaged(e, "task");
        goto out;
    }
    r->version.n = 0;
    tp_buf_put(&r->version, v.s, v.n);
    if (r->version.oom) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to read a record");
        goto out;
    }
    r->rec.has_version = v.s != NULL;
    r->rec.version = (struct tp_str){r->version.p, v.n};
    r->variant = id;
out:
    st_q_end(&q);
    return rc;
}

int st_load_program(struct st_reader *r, int64_t variant, struct tp_str steps, struct tp_err *e)
{
    int rc = load_variant(r, variant, e);
    if (rc < 0)
        return rc;
    rc = tp_steps_unpack(&r->rec, steps.s, steps.n, e);
    return rc < 0 && rc != -TP_E_NO_MEMORY ? st_damaged(e, "program") : rc;
}

/* The blob's costs as rec.result's; the rest of the result is zero. */
static int load_costs(struct st_reader *r, struct tp_str costs, struct tp_err *e)
{
    if (costs.n % sizeof(double) || costs.n > sizeof r->costs)
        return st_damaged(e, "result");
    uint32_t n = costs.n / (uint32_t)sizeof(double);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, costs.s + i * sizeof bits, sizeof bits);
        bits = le64toh(bits);
        memcpy(&r->costs[i], &bits, sizeof bits);
    }
    r->rec.has_result = true;
    r->rec.result = (struct tp_result){.n_costs = n, .costs = r->costs};
    return 0;
}

/* Columns: m.id, t.task_id, m.variant, p.steps, m.costs, m.error_no, m.all_cost, m.timestamp */
static int load_record(struct st_reader *r, const struct st_q *q, struct tp_err *e)
{
    int rc = st_load_program(r, st_col_int(q, 2), st_col_str(q, 3), e);
    if (rc < 0 || (rc = load_costs(r, st_col_str(q, 4), e)) < 0)
        return rc;
    r->rec.result.error_no = (int32_t)st_col_int(q, 5);
    r->rec.result.all_cost = st_col_real(q, 6);
    r->rec.result.timestamp = st_col_real(q, 7);
    return 0;
}

/* Hands out every row of a bound query until fn stops it. */
static int records(struct st_reader *r, struct st_q *q, st_record_fn fn, void *arg, int64_t *last, struct tp_err *e)
{
    int rc;
    while ((rc = st_q_step(q, e)) > 0) {
        char task_id[TP_TASK_ID_LEN + 1];
        int64_t id = st_col_int(q, 0);
        st_col_copy(q, 1, task_id, sizeof task_id);
        if ((rc = load_record(r, q, e)) < 0)
            break;
        if (last)
            *last = id;
        if ((rc = fn(arg, id, task_id, &r->rec)))
            break;
    }
    st_q_end(q);
    return rc < 0 ? rc : 0;
}

/* ---- exports ---- */

static int task_of_hardware(struct st_reader *r, int64_t hw, const char *task_id, int64_t *task, struct tp_err *e)
{
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_TASK_OF_HW);
    st_q_int(&q, hw);
    st_q_text(&q, task_id);
    int rc = st_q_first(&q, task, e);
    return rc > 0   ? 0
           : rc < 0 ? rc
                    : tp_fail(e, TP_E_UNKNOWN_TASK, "no task \"%.16s\" was measured on this hardware", task_id);
}

int st_export(struct st_reader *r, int64_t hw, const char *task_id, int64_t after, int limit, st_record_fn fn,
              void *arg, int64_t *last, struct tp_err *e)
{
    int64_t task = 0;
    int rc = task_id ? task_of_hardware(r, hw, task_id, &task, e) : 0;
    if (rc < 0)
        return rc;
    struct st_q q = st_q_begin(&r->db, task_id ? ST_SQL_R_EXPORT_TASK : ST_SQL_R_EXPORT);
    st_q_int(&q, hw);
    st_q_int(&q, after);
    st_q_int(&q, limit);
    if (task_id)
        st_q_int(&q, task);
    return records(r, &q, fn, arg, last, e);
}

int st_best(struct st_reader *r, int64_t hw, const char *after_task, int limit, st_record_fn fn, void *arg,
            struct tp_err *e)
{
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_BEST);
    st_q_int(&q, hw);
    st_q_text(&q, after_task);
    st_q_int(&q, limit);
    return records(r, &q, fn, arg, NULL, e);
}

int st_best_so_far(struct st_reader *r, int64_t hw, const char *task_id, st_step_fn fn, void *arg, int64_t *n,
                   struct tp_err *e)
{
    int64_t task = 0, nth = 0;
    double best = INFINITY;
    int rc = task_of_hardware(r, hw, task_id, &task, e);
    if (rc < 0)
        return rc;
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_COSTS_TASK);
    st_q_int(&q, hw);
    st_q_int(&q, task);
    while ((rc = st_q_step(&q, e)) > 0) {
        double cost = st_col_real(&q, 0); /* NaN: a failure */
        nth++;
        if (!(cost < best))
            continue;
        best = cost;
        if ((rc = fn(arg, nth, cost)))
            break;
    }
    st_q_end(&q);
    if (rc < 0)
        return rc;
    *n = nth;
    return 0;
}

int st_tasks(struct st_reader *r, int64_t hw, const char *after, int limit, st_task_fn fn, void *arg, struct tp_err *e)
{
    struct tp_buf text = {0};
    int rc;
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_TASKS);
    st_q_int(&q, hw);
    st_q_text(&q, after);
    st_q_int(&q, limit);
    while ((rc = st_q_step(&q, e)) > 0) {
        struct tp_str key = st_col_str(&q, 1), kind = st_col_str(&q, 2);
        struct st_task t = {.programs = st_col_int(&q, 3),
                            .measurements = st_col_int(&q, 4),
                            .failures = st_col_int(&q, 5),
                            .best_seconds = st_col_real(&q, 6)};
        st_col_copy(&q, 0, t.id, sizeof t.id);
        text.n = 0;
        tp_buf_put(&text, key.s, key.n);
        tp_buf_putc(&text, '\0');
        tp_buf_put(&text, kind.s, kind.n);
        tp_buf_putc(&text, '\0');
        if (text.oom) {
            rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to list tasks");
            break;
        }
        t.workload_key = text.p;
        t.target_kind = text.p + key.n + 1;
        if ((rc = fn(arg, &t)))
            break;
    }
    st_q_end(&q);
    tp_buf_free(&text);
    return rc < 0 ? rc : 0;
}

/* ---- training ---- */

/* The task behind `id` in the order of task ids: 1, 0 none. */
static int next_task(struct st_reader *r, int64_t hw, char id[TP_TASK_ID_LEN + 1], int64_t *task, struct tp_err *e)
{
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_NEXT_TASK);
    st_q_int(&q, hw);
    st_q_text(&q, id);
    char next[TP_TASK_ID_LEN + 1];
    int rc = st_q_step(&q, e);
    if (rc > 0) {
        *task = st_col_int(&q, 0);
        st_col_copy(&q, 1, next, sizeof next);
    }
    st_q_end(&q);
    if (rc > 0) /* only now: id was bound until here */
        memcpy(id, next, sizeof next);
    return rc;
}

/* Hand out the program that q stands on: columns hash, steps, variant, cost, measurements, costs. */
static int hand_out(struct st_reader *r, const struct st_q *q, const char *task_id, st_program_fn fn, void *arg,
                    struct tp_err *e)
{
    uint8_t hash[16];
    struct tp_str h = st_col_str(q, 0);
    int rc;
    if (h.n != sizeof hash)
        return st_damaged(e, "program");
    memcpy(hash, h.s, sizeof hash);
    if ((rc = st_load_program(r, st_col_int(q, 2), st_col_str(q, 1), e)) < 0)
        return rc;
    double cost = st_col_real(q, 3);
    if ((rc = load_costs(r, st_col_str(q, 5), e)) < 0)
        return rc;
    if (isnan(cost)) { /* only failures: nothing to tell */
        r->rec.has_result = false;
        r->rec.result = (struct tp_result){0};
    }
    return fn(arg, task_id, hash, &r->rec, isnan(cost) ? (double)INFINITY : cost, st_col_int(q, 4));
}

static int programs_of_task(struct st_reader *r, int64_t hw, int64_t task, const char *task_id, int64_t upto,
                            st_program_fn fn, void *arg, struct tp_err *e)
{
    int rc;
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_PROGRAMS);
    st_q_int(&q, hw);
    st_q_int(&q, task);
    st_q_int(&q, upto);
    while ((rc = st_q_step(&q, e)) > 0)
        if ((rc = hand_out(r, &q, task_id, fn, arg, e)))
            break;
    st_q_end(&q);
    return rc;
}

int st_training_task(struct st_reader *r, int64_t hw, const char *task_id, st_program_fn fn, void *arg,
                     struct tp_err *e)
{
    int64_t task = 0;
    int rc = task_of_hardware(r, hw, task_id, &task, e);
    if (rc == 0)
        rc = programs_of_task(r, hw, task, task_id, INT64_MAX, fn, arg, e);
    return rc < 0 ? rc : 0;
}

int st_training_set(struct st_reader *r, int64_t hw, int64_t upto, st_program_fn fn, void *arg, struct tp_err *e)
{
    char task_id[TP_TASK_ID_LEN + 1] = "";
    int64_t task = 0;
    int rc;
    while ((rc = next_task(r, hw, task_id, &task, e)) > 0)
        if ((rc = programs_of_task(r, hw, task, task_id, upto, fn, arg, e)))
            break;
    return rc < 0 ? rc : 0;
}

int st_probe_set(struct st_reader *r, int64_t hw, st_program_fn fn, void *arg, struct tp_err *e)
{
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_PROBE);
    st_q_int(&q, hw);
    int rc;
    while ((rc = st_q_step(&q, e)) > 0) {
        char task_id[TP_TASK_ID_LEN + 1];
        st_col_copy(&q, 6, task_id, sizeof task_id);
        if ((rc = hand_out(r, &q, task_id, fn, arg, e)))
            break;
    }
    st_q_end(&q);
    return rc < 0 ? rc : 0;
}
