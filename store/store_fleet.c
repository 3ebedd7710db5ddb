/* What kinds of hardware know of each other: probe sets and measured transfers.
 *
 * Invariant: a probe set is replaced as a whole, in one transaction. Thread: writes from any (they run on the writer),
 * reads on the reader's. */
#include "store/db.h"

struct fleet_write {
    int64_t hw;
    const struct st_transfer *transfer;
    size_t n;
};

/* 0 when there is such a hardware. */
static int check_hardware(struct st_db *db, int64_t hw, struct tp_err *e)
{
    int64_t one;
    struct st_q q = st_q_begin(db, ST_SQL_W_HW_EXISTS);
    st_q_int(&q, hw);
    int rc = st_q_first(&q, &one, e);
    return rc > 0 ? 0 : rc < 0 ? rc : tp_fail(e, TP_E_UNKNOWN_HARDWARE, "the hardware is gone");
}

int st_put_probes(struct st_db *db, const struct st_probe_set *set, struct tp_err *e)
{
    int rc = check_hardware(db, set->hw, e);
    if (rc < 0)
        return rc == -TP_E_UNKNOWN_HARDWARE ? 0 : rc;
    struct st_q q = st_q_begin(db, ST_SQL_W_PURGE_PROBES);
    st_q_int(&q, set->hw);
    rc = st_q_run(&q, e);
    for (size_t i = 0; i < set->n && rc == 0; i++) {
        q = st_q_begin(db, ST_SQL_W_PROBE_ADD);
        st_q_int(&q, set->hw);
        st_q_text(&q, set->p[i].task_id);
        st_q_blob(&q, set->p[i].hash, sizeof set->p[i].hash);
        rc = st_q_run(&q, e);
    }
    return rc;
}

static int put_transfers(struct st_db *db, void *arg, struct tp_err *e)
{
    const struct fleet_write *w = arg;
    int rc = check_hardware(db, w->hw, e);
    for (size_t i = 0; i < w->n && rc == 0; i++) {
        const struct st_transfer *t = &w->transfer[i];
        rc = check_hardware(db, t->source, e);
        if (rc == -TP_E_UNKNOWN_HARDWARE) {
            rc = 0;
            continue;
        }
        if (rc < 0)
            break;
        struct st_q q = st_q_begin(db, ST_SQL_W_TRANSFER_PUT);
        st_q_int(&q, w->hw);
        st_q_int(&q, t->source);
        st_q_text(&q, t->gate);
        st_q_real(&q, t->mean);
        st_q_real(&q, t->lower);
        st_q_int(&q, t->tasks);
        st_q_int(&q, t->programs);
        st_q_text(&q, t->reason);
        st_q_int(&q, t->created);
        rc = st_q_run(&q, e);
    }
    return rc;
}

int st_transfer_put(struct st_store *s, int64_t hw, const struct st_transfer *t, size_t n, struct tp_err *e)
{
    struct fleet_write w = {.hw = hw, .transfer = t, .n = n};
    return st_write(s, put_transfers, &w, e);
}

int st_transfer_list(struct st_reader *r, int64_t hw, st_transfer_fn fn, void *arg, struct tp_err *e)
{
    struct st_q q = st_q_begin(&r->db, ST_SQL_R_TRANSFERS);
    st_q_int(&q, hw);
    int rc;
    while ((rc = st_q_step(&q, e)) > 0) {
        struct st_transfer t = {.source = st_col_int(&q, 0),
                                .mean = st_col_real(&q, 2),
                                .lower = st_col_real(&q, 3),
                                .tasks = st_col_int(&q, 4),
                                .programs = st_col_int(&q, 5),
                                .created = st_col_int(&q, 7)};
        st_col_copy(&q, 1, t.gate, sizeof t.gate);
        st_col_copy(&q, 6, t.reason, sizeof t.reason);
        if ((rc = fn(arg, &t)))
            break;
    }
    st_q_end(&q);
    return rc < 0 ? rc : 0;
}
