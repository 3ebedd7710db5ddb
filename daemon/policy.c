/* Automatic retraining (daemon/policy.h). On the thread of the offsets (daemon/recalibrate.c); reading on any. */
#include "daemon/policy.h"

#include "daemon/drift.h"
#include "daemon/figures.h"
#include "daemon/fleet.h"
#include "daemon/hardware.h"
#include "daemon/jobs.h"
#include "daemon/log.h"
#include "daemon/train_job.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

bool td_policy_on(const struct td_policy *p)
{
    return p->measurements > 0 || p->drift > 0;
}

void td_policy_write(const struct td_policy *p, struct tp_buf *out)
{
    tp_buf_puts(out, "{\"measurements\": ");
    if (p->measurements > 0)
        tp_buf_i64(out, p->measurements);
    else
        tp_buf_puts(out, "null");
    tp_buf_puts(out, ", \"drift\": ");
    tp_buf_json_num(out, p->drift > 0 ? p->drift : NAN, 6);
    tp_buf_printf(out, ", \"cooldown_seconds\": %lld}", (long long)p->cooldown_seconds);
}

void td_policy_read(struct td_policy *p, const char *text)
{
    json_t *o = text != NULL ? json_loads(text, 0, NULL) : NULL;

    *p = (struct td_policy){.measurements = json_integer_value(json_object_get(o, "measurements")),
                            .drift = json_number_value(json_object_get(o, "drift")),
                            .cooldown_seconds = json_integer_value(json_object_get(o, "cooldown_seconds"))};
    json_decref(o);
}

/* ---- is it time? ---- */
struct last {
    int64_t value, records;
    int64_t newest; /* of an automatic retrain: the newest measurement then; else 0 */
};

static int note_watermark(void *arg, const struct st_model *m)
{
    struct last *l = arg;

    if (m->job == 0)
        return 0; /* imported: its measurements are another daemon's */
    l->value = td_model_watermark(m);
    l->records = m->records;
    return 1;
}

/* It failed for want of something that has nothing to do with the measurements: a restart, the disk, memory. */
static bool broke_off(const struct st_job *j)
{
    static const enum tp_code passing[] = {TP_E_INTERRUPTED, TP_E_DISK_FULL, TP_E_IO, TP_E_NO_MEMORY};

    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
        if (td_job_error_is(j->error, passing[i]))
            return true;
    return false;
}

static int note_retrain(void *arg, const struct st_job *j)
{
    struct td_train_params p;
    struct last *l = arg;

    if (strcmp(j->kind, "retrain") != 0)
        return 0;
    l->value = j->created;
    if (!broke_off(j) && td_train_params_read(&p, j->params, NULL) == 0 && p.automatic)
        l->newest = p.newest;
    return 1;
}

/* Why it is time: a word for the log; NULL: it is not. Without a measurement since the last one it would end as that
 * did. *newest: of the measurements. */
static int due(struct td_daemon *d, struct st_reader *r, const struct st_hardware *hw, const struct td_policy *p,
               const char **why, int64_t *newest, struct tp_err *e)
{
    struct last trained = {0}, job = {0};
    struct td_drift_view v;
    struct st_counts c = {0};
    int64_t newer = 0, model = 0;
    int rc;

    *why = NULL;
    rc = st_hardware_counts(r, hw->id, &c, e);
    if (rc == 0)
        rc = st_model_list(r, "ac", hw->name, 0, -1, note_watermark, &trained, e);
    if (rc == 0)
        rc = st_job_list(r, NULL, hw->name, 0, -1, note_retrain, &job, e);
    *newest = c.newest_measurement_id;
    if (rc != 0 || c.valid < TD_TRAIN_MIN || job.newest == *newest ||
        (job.value != 0 && td_wall_ms() < job.value + p->cooldown_seconds * 1000))
        return rc;
    rc = td_hardware_answers(r, hw, &model, e);
    if (rc == 0 && p->measurements > 0)
        rc = td_measured_since(r, hw->id, trained.value, trained.records, &c, &newer, e);
    if (rc != 0)
        return rc;
    if (p->measurements > 0 && newer >= p->measurements)
        *why = "measurements";
    else if (p->drift > 0 && td_drift_get(d->drift, hw->name, model, &v) && v.ratio >= p->drift)
        *why = "drift";
    return 0;
}

static int check(struct td_daemon *d, struct st_reader *r, const struct st_hardware *hw, int64_t *job, struct tp_err *e)
{
    struct td_train_params params = {.automatic = true};
    struct tp_buf text = {0};
    struct td_policy p;
    const char *why;
    bool existing;
    int rc;

    td_policy_read(&p, hw->policy);
    if (!td_policy_on(&p) || td_jobs_lane_busy(d->jobs, hw->family))
        return 0;
    rc = due(d, r, hw, &p, &why, &params.newest, e);
    if (rc != 0 || why == NULL)
        return rc;
    params.mode = td_train_default_mode(hw);
    td_train_params_write(&params, &text);
    tp_buf_putc(&text, '\0');
    rc = text.oom ? tp_fail(e, TP_E_NO_MEMORY, "no memory for a job")
                  : td_jobs_submit(d->jobs, "retrain", hw->name, hw->family, text.p, td_train_run, job, &existing, e);
    tp_buf_free(&text);
    if (rc == 0)
        td_log(TD_INFO, "retrain-due", TD_S("hardware", hw->name), TD_S("because", why), TD_I("job", *job));
    return rc;
}

int td_policy_check(struct td_daemon *d, struct st_reader *r, const char *hardware, int64_t *job, struct tp_err *e)
{
    struct st_hardware hw = {0};
    int rc = st_hardware_get(r, hardware, &hw, e);

    *job = 0;
    if (rc == 0 && hw.policy != NULL)
        rc = check(d, r, &hw, job, e);
    st_hardware_clear(&hw);
    return rc == -TP_E_UNKNOWN_HARDWARE ? 0 : rc;
}

void td_policy_check_all(struct td_daemon *d, struct st_reader *r)
{
    struct td_members m = {0};
    struct tp_err e = {0};
    int64_t job;

    if (td_members_list(r, NULL, NULL, &m, &e) != 0)
        td_log(TD_WARNING, "policies-unknown", TD_S("reason", e.detail));
    for (size_t i = 0; i < m.n; i++)
        if (m.v[i].policy != NULL && check(d, r, &m.v[i], &job, &e) != 0)
            td_log(TD_WARNING, "retrain-not-started", TD_S("hardware", m.v[i].name), TD_S("reason", e.detail));
    td_members_free(&m);
}
