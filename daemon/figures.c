/* Figures of models.
 *
 * Invariant: the gauges say what the newest evaluation in the store says of the model that answers; whoever changes
 * either calls td_figures_show() after the commit. Any thread. */
#include "daemon/figures.h"

#include "daemon/drift.h"
#include "daemon/fleet.h"
#include "daemon/hardware.h"
#include "daemon/log.h"
#include "daemon/metrics.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- JSON ---- */
void td_put_num(struct tp_buf *b, const char *name, double v)
{
    tp_buf_printf(b, ", \"%s\": ", name);
    tp_buf_json_num(b, v, 6);
}

void td_put_latency(struct tp_buf *b, const struct tm_metrics *m)
{
    td_put_num(b, "latency_mape", m->latency_mape);
    td_put_num(b, "latency_median_ln_error", m->latency_median_ln_error);
    td_put_num(b, "latency_within_1_25", m->latency_within_1_25);
    td_put_num(b, "latency_within_1_5", m->latency_within_1_5);
    td_put_num(b, "latency_within_2", m->latency_within_2);
}

void td_put_figures(struct tp_buf *b, const struct tm_metrics *m)
{
    tp_buf_printf(b, "\"tasks\": %u, \"programs\": %u", m->tasks, m->programs);
    td_put_num(b, "top1_mean", m->top1_mean);
    td_put_num(b, "top5_mean", m->top5_mean);
    td_put_num(b, "top1_pooled", m->top1_pooled);
    td_put_num(b, "top5_pooled", m->top5_pooled);
    td_put_num(b, "pairwise", m->pairwise);
    td_put_num(b, "pairwise_10pct", m->pairwise_10pct);
    td_put_num(b, "spearman", m->spearman);
    td_put_latency(b, m);
    td_put_num(b, "random_top1_mean", m->random_top1_mean);
    td_put_num(b, "random_top5_mean", m->random_top5_mean);
    tp_buf_puts(b, ", \"random_pairwise\": 0.5");
}

char *td_take_text(struct tp_buf *b)
{
    char *s = NULL;

    tp_buf_putc(b, '\0');
    if (b->oom)
        tp_buf_free(b);
    else
        s = b->p;
    *b = (struct tp_buf){0};
    return s;
}

int64_t td_model_watermark(const struct st_model *m)
{
    json_t *o = m->job != 0 && m->metrics != NULL ? json_loads(m->metrics, 0, NULL) : NULL, *v;
    int64_t id = (v = json_object_get(o, "watermark")) != NULL ? json_integer_value(v) : -1;

    json_decref(o);
    return id;
}

int td_measured_since(struct st_reader *r, int64_t hw, int64_t watermark, int64_t records, const struct st_counts *c,
                      int64_t *n, struct tp_err *e)
{
    if (watermark >= 0)
        return st_hardware_newer(r, hw, watermark, n, e);
    *n = c->measurements > records ? c->measurements - records : 0;
    return 0;
}

const char *td_model_holdout(struct st_reader *r, int64_t model)
{
    static const char *const kinds[] = {"task", "record"};
    struct st_model row = {0};
    json_t *o = NULL;
    const char *holdout, *kind = "unknown";

    if (st_model_get(r, model, &row, NULL) == 0 && row.metrics != NULL)
        o = json_loads(row.metrics, 0, NULL);
    holdout = json_string_value(json_object_get(o, "holdout"));
    for (size_t i = 0; holdout != NULL && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(holdout, kinds[i]) == 0)
            kind = kinds[i];
    json_decref(o);
    st_model_clear(&row);
    return kind;
}

/* ---- gauges ---- */
static double member(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);

    return json_is_number(v) ? json_number_value(v) : NAN;
}

static int read_result(void *arg, const struct st_evaluation *v)
{
    json_t *o = json_loads(v->result, 0, NULL);
    const json_t *group = json_object_get(o, "held_out");
    double *out = arg;

    if (!json_is_object(group))
        group = json_object_get(o, "all");
    out[TD_HW_TOP1] = member(group, "top1_mean");
    out[TD_HW_PAIRWISE] = member(group, "pairwise");
    json_decref(o);
    return 0;
}

struct moves {
    int64_t hw, tasks;
    double sum;
};

static int add_move(void *arg, int64_t hw, const struct st_offset *o)
{
    struct moves *d = arg;

    if (hw == d->hw && o->programs > 0) {
        d->sum += fabs(o->offset);
        d->tasks++;
    }
    return 0;
}

struct source {
    struct td_drift *drift;
    struct st_reader *reader;
};

/* td_hw_gauge_fn; arg: struct source. */
static bool newest(void *arg, const char *hardware, double *v)
{
    const struct source *from = arg;
    struct st_reader *r = from->reader;
    struct td_drift_view seen;
    struct st_hardware hw = {0};
    struct st_model row = {0};
    struct moves moves = {0};
    int64_t model = 0;
    int calibration;
    bool found = false;

    for (int i = 0; i < TD_HW_GAUGES; i++)
        v[i] = NAN;
    if (st_hardware_get(r, hardware, &hw, NULL) == 0) {
        td_hardware_answers(r, &hw, &model, NULL);
        if (model != 0)
            st_evaluation_list(r, hw.id, model, 0, 1, read_result, v, NULL);
        if (model != 0 && st_model_get(r, model, &row, NULL) == 0)
            v[TD_HW_CREATED] = (double)row.created;
        moves.hw = hw.id;
        if (model != 0 && st_offset_list(r, model, add_move, &moves, &calibration, NULL) == 0 && moves.tasks > 0)
            v[TD_HW_DRIFT] = moves.sum / (double)moves.tasks;
        st_model_clear(&row);
    }
    if (model != 0 && td_drift_get(from->drift, hardware, model, &seen)) {
        v[TD_HW_LATENCY_ERROR] = seen.error;
        v[TD_HW_LATENCY_BIAS] = seen.bias;
        v[TD_HW_LATENCY_DRIFT] = seen.ratio;
    }
    for (int i = 0; i < TD_HW_GAUGES; i++)
        found |= !isnan(v[i]);
    st_hardware_clear(&hw);
    return found;
}

void td_figures_show(struct td_daemon *d, struct st_reader *r, const char *hardware)
{
    struct source from = {d->drift, r};

    if (d->metrics != NULL)
        td_hw_gauges(d->metrics, hardware, newest, &from);
}

int td_figures_keep(struct td_daemon *d, struct st_reader *r, const char *hardware, int64_t hw, int64_t model,
                    int64_t job, char *result, int64_t *id, struct tp_err *e)
{
    struct st_evaluation v = {.hardware = hw, .model = model, .job = job, .result = result};
    struct timespec now;
    int rc;

    clock_gettime(CLOCK_REALTIME, &now);
    v.created = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    rc = st_evaluation_insert(d->store, &v, e);
    if (rc != 0)
        return rc;
    if (id != NULL)
        *id = v.id;
    td_figures_show(d, r, hardware);
    return 0;
}

void td_figures_show_all(struct td_daemon *d)
{
    struct td_members m = {0};
    struct st_reader *r = NULL;
    struct tp_err e;

    if (st_reader_new(d->store, &r, &e) != 0 || td_members_list(r, NULL, NULL, &m, &e) != 0)
        td_log(TD_WARNING, "figures-unknown", TD_S("reason", e.detail));
    for (size_t i = 0; i < m.n; i++)
        td_figures_show(d, r, m.v[i].name);
    td_members_free(&m);
    st_reader_free(r);
}
