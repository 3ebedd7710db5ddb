/* Job kind "evaluate": load, predict, measure, keep.
 *
 * Whatever it tells of latency is told of programs that did not help to predict themselves. On a job thread; one
 * snapshot from start to end. */
#include "daemon/evaluate.h"

#include "ckd/champion.h"
#include "daemon/figures.h"
#include "daemon/log.h"
#include "daemon/registry.h"
#include "daemon/train_load.h"
#include "model/bootstrap.h"
#include "model/latency.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 8192 /* predictions between two looks at a cancellation */, MIN_PROGRAMS = 2 /* of a task, valid */ };
/* Shares of the job's progress at which its phases end. */
#define LOADED    0.4
#define PREDICTED 0.95

struct run {
    struct td_daemon *d;
    struct td_job *job;
    struct td_evaluate_params params;
    struct st_reader *reader;
    struct st_hardware hw;
    struct td_snapshot *s;
    struct td_train_data data;
    struct td_job_state state;
    /* by program of data.ds */
    double *score, *plain, *latency, *std, *plain_std; /* plain: without an offset */
    bool *is_held_out;
    uint32_t *all; /* 0, 1, ... */
    uint32_t *held_out;
    size_t n_held_out;
    const char *holdout;
};

/* ---- parameters ---- */
void td_evaluate_params_write(const struct td_evaluate_params *p, struct tp_buf *out)
{
    if (p->model > 0)
        tp_buf_printf(out, "{\"model\": %lld}", (long long)p->model);
    else
        tp_buf_puts(out, "{\"model\": \"active\"}");
}

int td_evaluate_params_read(struct td_evaluate_params *p, const char *json, struct tp_err *e)
{
    json_t *o = json_loads(json, 0, NULL);
    const json_t *model = json_object_get(o, "model");
    int rc = 0;

    if (json_is_integer(model) || json_is_string(model))
        *p = (struct td_evaluate_params){.model = json_integer_value(model)}; /* 0 for the word */
    else
        rc = tp_fail(e, TP_E_INTERNAL, "the parameters of the job do not read");
    json_decref(o);
    return rc;
}

/* ---- load ---- */
static int loading(void *arg, double share)
{
    struct run *x = arg;

    td_job_phase(x->job, &x->state, "load", share * LOADED);
    return td_job_cancelled(x->job);
}

static int load(struct run *x, struct tp_err *e)
{
    struct td_train_want want = {.hw = &x->hw, .features = x->s->model->features, .progress = loading, .arg = x};
    uint32_t valid = 0;
    int rc;

    td_job_phase(x->job, &x->state, "load", 0);
    rc = td_train_load(x->reader, &want, &x->data, e);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < x->data.ds->n; i++)
        valid += isfinite(x->data.ds->cost[i]);
    return valid >= MIN_PROGRAMS
               ? 0
               : tp_fail(e, TP_E_NOT_ENOUGH_DATA,
                         "hardware \"%s\" has %u programs with a valid measurement; nothing can be compared",
                         x->hw.name, valid);
}

/* ---- what was held out ---- */

/* What today's split holds out was held out, or unknown, when the model was trained: ckd/champion.h. */
static int hold_out(struct run *x, struct tp_err *e)
{
    const struct tm_dataset *ds = x->data.ds;
    uint32_t *train = calloc(ds->n, sizeof *train);
    size_t n_train = 0, kept = 0;
    bool by_record = false, trained_by_record;
    int rc = train != NULL ? tk_holdout_split(ds, (const uint8_t(*)[16])x->data.key, train, &n_train, x->held_out,
                                              &x->n_held_out, &by_record, e)
                           : tp_fail(e, TP_E_NO_MEMORY, "no memory to evaluate a model");

    free(train);
    if (rc != 0)
        return rc;
    x->holdout = td_model_holdout(x->reader, x->s->id);
    trained_by_record = strcmp(x->holdout, "record") == 0;
    for (size_t i = 0; i < x->n_held_out; i++) {
        uint32_t p = x->held_out[i];
        /* The rule may have changed since: programs of every task were held out then, whole tasks are now. The other
         * way round the model has seen the programs of every task that is left. */
        bool fair = by_record ? trained_by_record : !trained_by_record || tk_program_place(x->data.key[p]) < TK_HOLDOUT;

        if (!fair || strcmp(x->holdout, "unknown") == 0)
            continue;
        x->held_out[kept++] = p;
        x->is_held_out[p] = true;
    }
    x->n_held_out = kept;
    return 0;
}

/* ---- predict ---- */
static int predict(struct run *x, struct tp_err *e)
{
    const struct tm_dataset *ds = x->data.ds;
    const struct tm_model *m = x->s->model;
    struct tm_batch *b = tm_batch_new();
    struct tm_offset *other = calloc(ds->n, sizeof *other);
    int rc = b != NULL && other != NULL ? 0 : -TP_E_NO_MEMORY;

    for (uint32_t at = 0; at < ds->n && rc == 0; at += CHUNK) {
        uint32_t end = ds->n - at < CHUNK ? ds->n : at + CHUNK;

        td_job_phase(x->job, &x->state, "predict", LOADED + (PREDICTED - LOADED) * at / ds->n);
        if (td_job_cancelled(x->job)) {
            rc = tp_fail(e, TP_E_CANCELLED, "cancelled");
            goto out;
        }
        rc = tm_batch_begin(b, x->s->plan);
        for (uint32_t i = at; i < end && rc == 0; i++) {
            int added = tm_batch_add_dataset(b, ds, i);

            rc = added < 0 ? added : 0;
        }
        if (rc == 0)
            rc = tm_batch_run(b, x->score + at, x->plain + at, NULL);
    }
    for (uint32_t i = 0; rc == 0 && i < ds->n; i++)
        x->latency[i] = tm_latency_residual(m, x->plain[i], ds->cost[i]);
    if (rc == 0)
        rc = tm_offsets_without(x->latency, ds->task, ds->n, ds->n_tasks, other);
    for (uint32_t i = 0; rc == 0 && i < ds->n; i++) {
        x->latency[i] = other[i].n > 0 ? tm_latency_with(m, x->plain[i], other[i].offset) : x->plain[i];
        x->std[i] = tm_latency_std(m, x->score[i], other[i].n);
        x->plain_std[i] = tm_latency_std(m, x->score[i], 0);
    }
    if (rc != 0)
        tp_fail(e, (enum tp_code) - rc, "the measured programs could not be predicted");
out:
    free(other);
    tm_batch_free(b);
    return rc;
}

/* ---- measure ---- */

/* Some programs of the data, by task: those of task t at start[t] .. start[t + 1]. */
struct group {
    size_t n, *start;
    uint32_t *task;
    double *cost, *score, *latency, *std;
};

static void group_free(struct group *g)
{
    free(g->start);
    free(g->task);
    free(g->cost);
    free(g->score);
    free(g->latency);
    free(g->std);
    *g = (struct group){0};
}

/* idx ascends, and so programs of a task stand together: the store hands them out task by task. */
static int group_init(struct group *g, const struct run *x, const uint32_t *idx, size_t n, const double *latency,
                      const double *std)
{
    const struct tm_dataset *ds = x->data.ds;
    size_t room = n > 0 ? n : 1;

    *g = (struct group){.n = n,
                        .start = calloc((size_t)ds->n_tasks + 1, sizeof *g->start),
                        .task = calloc(room, sizeof *g->task),
                        .cost = calloc(room, sizeof *g->cost),
                        .score = calloc(room, sizeof *g->score),
                        .latency = calloc(room, sizeof *g->latency),
                        .std = calloc(room, sizeof *g->std)};
    if (g->start == NULL || g->task == NULL || g->cost == NULL || g->score == NULL || g->latency == NULL ||
        g->std == NULL) {
        group_free(g);
        return -TP_E_NO_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        g->task[i] = ds->task[idx[i]];
        g->cost[i] = ds->cost[idx[i]];
        g->score[i] = x->score[idx[i]];
        g->latency[i] = latency[idx[i]];
        g->std[i] = std[idx[i]];
        g->start[g->task[i] + 1] = i + 1;
    }
    for (uint32_t t = 0; t < ds->n_tasks; t++)
        if (g->start[t + 1] == 0)
            g->start[t + 1] = g->start[t]; /* none of it is in the group */
    return 0;
}

/* Figures of one task; false: nothing in it can be compared. */
static bool of_task(const struct group *g, uint32_t t, struct tm_metrics *out, int *rc)
{
    size_t at = g->start[t], n = g->start[t + 1] - at, valid = 0;

    for (size_t i = 0; i < n; i++)
        valid += isfinite(g->cost[at + i]);
    if (valid < MIN_PROGRAMS)
        return false;
    *rc = tm_metrics_task(g->cost + at, g->score + at, g->latency + at, n, out);
    return *rc == 0;
}

static void put_interval(struct tp_buf *b, const char *name, const struct tm_interval *v)
{
    tp_buf_printf(b, ", \"%s_lo\": ", name);
    tp_buf_json_num(b, v->lo, 6);
    tp_buf_printf(b, ", \"%s_hi\": ", name);
    tp_buf_json_num(b, v->hi, 6);
}

static void put_coverage(struct tp_buf *b, const struct group *g)
{
    size_t n = 0, one = 0, two = 0;

    for (size_t i = 0; i < g->n; i++) {
        double error = fabs(log(g->latency[i] / g->cost[i]));

        if (!isfinite(g->cost[i]) || isnan(g->std[i]))
            continue;
        n++;
        one += error <= g->std[i];
        two += error <= 2 * g->std[i];
    }
    td_put_num(b, "latency_within_one_std", n > 0 ? (double)one / (double)n : NAN);
    td_put_num(b, "latency_within_two_std", n > 0 ? (double)two / (double)n : NAN);
}

static int put_intervals(struct tp_buf *b, const struct group *g, uint32_t n_tasks)
{
    static const char *const name[] = {"top1_mean", "top5_mean", "pairwise"};
    double *v = calloc((size_t)n_tasks * 3 + 1, sizeof *v);
    struct tm_interval interval;
    size_t n = 0;
    int rc = v != NULL ? 0 : -TP_E_NO_MEMORY;

    for (uint32_t t = 0; t < n_tasks && rc == 0; t++) {
        struct tm_metrics m;

        if (!of_task(g, t, &m, &rc))
            continue;
        v[n] = m.top1_mean;
        v[n_tasks + n] = m.top5_mean;
        v[2 * (size_t)n_tasks + n++] = m.pairwise;
    }
    for (size_t k = 0; k < 3 && rc == 0; k++) {
        rc = tm_bootstrap_mean(v + k * n_tasks, n, 1, &interval);
        if (rc == 0)
            put_interval(b, name[k], &interval);
    }
    free(v);
    return rc;
}

/* {figures} of the programs idx[0..n), null when nothing in them can be compared. */
static int put_group(struct run *x, const uint32_t *idx, size_t n, struct tp_buf *b)
{
    uint32_t n_tasks = x->data.ds->n_tasks;
    struct group with = {0}, without = {0};
    struct tm_metrics m;
    int rc = group_init(&with, x, idx, n, x->latency, x->std);

    if (rc == 0)
        rc = group_init(&without, x, idx, n, x->plain, x->plain_std);
    if (rc == 0)
        rc = tm_metrics_compute(with.task, with.cost, with.score, with.latency, n, n_tasks, MIN_PROGRAMS, &m);
    if (rc == 0 && m.tasks == 0) {
        tp_buf_puts(b, "null");
        goto out;
    }
    if (rc == 0) {
        tp_buf_putc(b, '{');
        td_put_figures(b, &m);
        rc = put_intervals(b, &with, n_tasks);
    }
    if (rc == 0) {
        put_coverage(b, &with);
        rc = tm_metrics_compute(without.task, without.cost, without.score, without.latency, n, n_tasks, MIN_PROGRAMS,
                                &m);
    }
    if (rc == 0) {
        tp_buf_printf(b, ", \"without_offset\": {\"programs\": %u", m.programs);
        td_put_latency(b, &m);
        put_coverage(b, &without);
        tp_buf_puts(b, "}}");
    }
out:
    group_free(&with);
    group_free(&without);
    return rc;
}

static int put_tasks(struct run *x, struct tp_buf *b)
{
    const struct tm_dataset *ds = x->data.ds;
    struct group g = {0};
    uint32_t told = 0;
    bool more = false;
    int rc = group_init(&g, x, x->all, ds->n, x->latency, x->std);

    tp_buf_puts(b, ", \"per_task\": [");
    for (uint32_t t = 0; t < ds->n_tasks && rc == 0 && !more; t++) {
        struct tm_metrics m;
        size_t held_out = 0;

        if (!of_task(&g, t, &m, &rc))
            continue;
        if (told == TD_EVALUATE_TASKS_MAX) {
            more = true;
            break;
        }
        for (size_t i = g.start[t]; i < g.start[t + 1]; i++)
            held_out += x->is_held_out[i];
        tp_buf_printf(b, "%s{\"task\": \"%s\", \"programs\": %u, \"held_out\": %zu", told++ > 0 ? ", " : "",
                      tm_dataset_task_id(ds, t), m.programs, held_out);
        td_put_num(b, "top1", m.top1_mean);
        td_put_num(b, "top5", m.top5_mean);
        td_put_num(b, "pairwise", m.pairwise);
        td_put_num(b, "latency_median_ln_error", m.latency_median_ln_error);
        tp_buf_putc(b, '}');
    }
    tp_buf_puts(b, more ? "], \"per_task_truncated\": true" : "]");
    group_free(&g);
    return rc;
}

/* Of n things in a row, is the i-th among the `max` that stand evenly spaced? */
static bool sampled(size_t i, size_t n, size_t max)
{
    return n <= max || (i + 1) * max / n > i * max / n;
}

/* Programs for a chart: as many held out as not, where there are, spread over the tasks. */
static int put_points(const struct run *x, struct tp_buf *b)
{
    const struct tm_dataset *ds = x->data.ds;
    size_t total[2] = {0}, seen[2] = {0}, n = 0;
    uint32_t *pick = calloc(2 * (size_t)TD_EVALUATE_POINTS_MAX, sizeof *pick), tasks = 0;

    if (pick == NULL)
        return -TP_E_NO_MEMORY;
    for (uint32_t i = 0; i < ds->n; i++)
        total[x->is_held_out[i]] += isfinite(ds->cost[i]);
    for (uint32_t i = 0; i < ds->n; i++) {
        bool h = x->is_held_out[i];

        if (isfinite(ds->cost[i]) && sampled(seen[h]++, total[h], TD_EVALUATE_POINTS_MAX))
            pick[n++] = i;
    }
    tp_buf_puts(b, ", \"points\": {\"tasks\": [");
    for (size_t k = 0; k < n; k++)
        if (k == 0 || ds->task[pick[k]] != ds->task[pick[k - 1]])
            tp_buf_printf(b, "%s\"%s\"", tasks++ > 0 ? ", " : "", tm_dataset_task_id(ds, ds->task[pick[k]]));
    tp_buf_puts(b, "], \"task\": [");
    tasks = 0;
    for (size_t k = 0; k < n; k++) {
        tasks += k > 0 && ds->task[pick[k]] != ds->task[pick[k - 1]];
        tp_buf_printf(b, "%s%u", k > 0 ? ", " : "", tasks);
    }
    tp_buf_puts(b, "], \"held_out\": [");
    for (size_t k = 0; k < n; k++)
        tp_buf_printf(b, "%s%s", k > 0 ? ", " : "", x->is_held_out[pick[k]] ? "true" : "false");
    tp_buf_puts(b, "], \"measured_seconds\": [");
    for (size_t k = 0; k < n; k++) {
        tp_buf_puts(b, k > 0 ? ", " : "");
        tp_buf_json_num(b, ds->cost[pick[k]], 4);
    }
    tp_buf_puts(b, "], \"predicted_seconds\": [");
    for (size_t k = 0; k < n; k++) {
        tp_buf_puts(b, k > 0 ? ", " : "");
        tp_buf_json_num(b, x->latency[pick[k]], 4);
    }
    tp_buf_puts(b, "]}");
    free(pick);
    return 0;
}

/* ---- the whole ---- */
static int measure(struct run *x, char **result, struct tp_err *e)
{
    struct tp_buf b = {0};
    size_t head;
    int64_t id = 0;
    char *kept = NULL;
    int rc;

    td_job_phase(x->job, &x->state, "measure", PREDICTED);
    tp_buf_printf(&b, "{\"source\": \"evaluate\", \"model\": %lld, \"role\": \"%s\", \"hardware\": \"%s\", ",
                  (long long)x->s->id, x->s->role, x->hw.name);
    tp_buf_printf(&b, "\"calibration\": %d, \"job\": %lld, \"holdout\": \"%s\", \"held_out\": ", x->s->calibration,
                  (long long)td_job_id(x->job), x->holdout);
    rc = put_group(x, x->held_out, x->n_held_out, &b);
    tp_buf_puts(&b, ", \"all\": ");
    if (rc == 0)
        rc = put_group(x, x->all, x->data.ds->n, &b);
    if (rc != 0) {
        tp_fail(e, (enum tp_code) - rc, "the figures could not be computed");
        goto out;
    }
    head = b.n;
    tp_buf_puts(&b, "}"); /* what the store keeps is this much */
    tp_buf_putc(&b, '\0');
    kept = b.oom ? NULL : strdup(b.p);
    rc = kept != NULL
             ? td_figures_keep(x->d, x->reader, x->hw.name, x->hw.id, x->s->id, td_job_id(x->job), kept, &id, e)
             : tp_fail(e, TP_E_NO_MEMORY, "no memory for the figures");
    if (rc != 0)
        goto out;
    b.n = head;
    tp_buf_printf(&b, ", \"evaluation\": %lld", (long long)id);
    rc = put_tasks(x, &b);
    if (rc == 0)
        rc = put_points(x, &b);
    tp_buf_putc(&b, '}');
    if (rc == 0)
        *result = td_take_text(&b);
    if (rc != 0 || *result == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "evaluation %lld is stored, but there is no memory for the result",
                     (long long)id);
out:
    tp_buf_free(&b);
    free(kept);
    return rc;
}

static int allocate(struct run *x, struct tp_err *e)
{
    size_t n = x->data.ds->n;

    x->score = calloc(n, sizeof *x->score);
    x->plain = calloc(n, sizeof *x->plain);
    x->latency = calloc(n, sizeof *x->latency);
    x->std = calloc(n, sizeof *x->std);
    x->plain_std = calloc(n, sizeof *x->plain_std);
    x->is_held_out = calloc(n, sizeof *x->is_held_out);
    x->all = calloc(n, sizeof *x->all);
    x->held_out = calloc(n, sizeof *x->held_out);
    if (x->score == NULL || x->plain == NULL || x->latency == NULL || x->std == NULL || x->plain_std == NULL ||
        x->is_held_out == NULL || x->all == NULL || x->held_out == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to evaluate a model");
    for (size_t i = 0; i < n; i++)
        x->all[i] = (uint32_t)i;
    return 0;
}

static int acquire(struct run *x, struct tp_err *e)
{
    char which[24] = "active";

    if (x->params.model > 0)
        snprintf(which, sizeof which, "%lld", (long long)x->params.model);
    return td_registry_acquire(x->d->registry, x->hw.name, x->hw.family, which, &x->s, e);
}

int td_evaluate_run(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e)
{
    struct run x = {.d = d, .job = j, .state = {.loss = NAN}};
    int rc;

    rc = td_evaluate_params_read(&x.params, params, e);
    if (rc == 0)
        rc = td_job_open(j, d->store, &x.reader, &x.hw, e);
    if (rc == 0)
        rc = acquire(&x, e);
    if (rc == 0)
        rc = load(&x, e);
    if (rc == 0)
        rc = allocate(&x, e);
    if (rc == 0)
        rc = hold_out(&x, e);
    if (rc == 0)
        rc = predict(&x, e);
    if (rc == 0)
        rc = measure(&x, result, e);
    if (rc == 0)
        td_log(TD_INFO, "model-evaluated", TD_I("model", x.s->id), TD_S("hardware", x.hw.name),
               TD_I("job", td_job_id(j)), TD_I("programs", x.data.ds->n));
    free(x.score);
    free(x.plain);
    free(x.latency);
    free(x.std);
    free(x.plain_std);
    free(x.is_held_out);
    free(x.all);
    free(x.held_out);
    td_registry_release(x.s);
    td_train_data_free(&x.data);
    td_job_close(x.reader, &x.hw);
    return rc;
}
