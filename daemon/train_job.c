/* Job kind "retrain": load, train, judge, publish.
 *
 * Everything here is private to the job until td_registry_publish(). The champion is the model that answers when the
 * judging begins; it and the challenger predict the same held-out programs, which neither was trained on
 * (ckd/champion.h). On a job thread. */
#include "daemon/train_job.h"

#include "ckd/champion.h"
#include "daemon/dialect.h"
#include "daemon/figures.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/recalibrate.h"
#include "daemon/registry.h"
#include "daemon/train_load.h"
#include "model/latency.h"
#include "model/train.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Shares of the job's progress at which its phases end. */
#define LOADED    0.05
#define TRAINED   0.92
#define VALIDATED 0.97

struct run {
    struct td_daemon *d;
    struct td_job *job;
    struct td_train_params params;
    struct st_reader *reader;
    struct st_hardware hw;
    struct td_train_data data;
    uint32_t *train, *valid;
    size_t n_train, n_valid;
    bool by_record;
    struct tm_model *model; /* the challenger */
    int64_t parent;         /* 0: fresh weights */
    struct td_job_state state;
    char live[160]; /* metrics of the last validation, JSON */
    int epochs;     /* asked of the trainer */
    double train_seconds;
    /* judgement */
    struct td_snapshot *champion; /* NULL none */
    struct st_offset *offset;     /* [n_offsets] of the challenger, for the tasks of data */
    size_t n_offsets;
    struct tm_metrics challenger_figures, champion_figures;
    struct tk_judgement verdict;
};

/* ---- parameters ---- */
void td_train_params_write(const struct td_train_params *p, struct tp_buf *out)
{
    tp_buf_puts(out, "{\"mode\": \"finetune\", \"epochs\": ");
    if (p->epochs > 0)
        tp_buf_i64(out, p->epochs);
    else
        tp_buf_puts(out, "null");
    tp_buf_puts(out, ", \"max_seconds\": ");
    tp_buf_json_num(out, p->max_seconds, 9);
    tp_buf_printf(out, ", \"seed\": %lld, \"per_task\": %lld, \"activate\": \"%s\"}", (long long)p->seed,
                  (long long)p->per_task, p->never ? "never" : "auto");
}

int td_train_params_read(struct td_train_params *p, const char *json, struct tp_err *e)
{
    json_t *o = json_loads(json, 0, NULL);
    json_int_t seed, per_task;
    const char *activate;
    double max_seconds;
    int rc = 0;

    if (o == NULL || json_unpack(o, "{s:F, s:I, s:I, s:s}", "max_seconds", &max_seconds, "seed", &seed, "per_task",
                                 &per_task, "activate", &activate) != 0)
        rc = tp_fail(e, TP_E_INTERNAL, "the parameters of the job do not read");
    else
        *p = (struct td_train_params){.epochs = json_integer_value(json_object_get(o, "epochs")), /* 0 for null */
                                      .max_seconds = max_seconds,
                                      .seed = seed,
                                      .per_task = per_task,
                                      .never = strcmp(activate, "never") == 0};
    json_decref(o);
    return rc;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int cancelled(struct run *x, struct tp_err *e)
{
    return td_job_cancelled(x->job) ? tp_fail(e, TP_E_CANCELLED, "cancelled") : 0;
}

static void report(struct run *x, const char *phase, double progress)
{
    x->state.phase = phase;
    x->state.progress = progress;
    td_job_progress(x->job, &x->state);
}

/* ---- load ---- */
static int loading(void *arg, double share)
{
    struct run *x = arg;

    report(x, "load", share * LOADED);
    return td_job_cancelled(x->job);
}

static int load(struct run *x, struct tp_err *e)
{
    struct td_train_want want = {.hw = &x->hw,
                                 .features = td_dialect_features(x->hw.name),
                                 .per_task = (uint32_t)x->params.per_task,
                                 .seed = (uint64_t)x->params.seed,
                                 .progress = loading,
                                 .arg = x};
    uint32_t valid = 0;
    int rc;

    report(x, "load", 0);
    rc = td_train_load(x->reader, &want, &x->data, e);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < x->data.ds->n; i++)
        valid += isfinite(x->data.ds->cost[i]);
    if (valid < 2)
        return tp_fail(e, TP_E_NOT_ENOUGH_DATA,
                       "hardware \"%s\" has %u programs with a valid measurement; nothing can be compared", x->hw.name,
                       valid);
    x->train = calloc(x->data.ds->n, sizeof *x->train);
    x->valid = calloc(x->data.ds->n, sizeof *x->valid);
    if (x->train == NULL || x->valid == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to split the measurements");
    return tk_holdout_split(x->data.ds, (const uint8_t(*)[16])x->data.key, x->train, &x->n_train, x->valid, &x->n_valid,
                            &x->by_record, e);
}

/* ---- train ---- */

/* The weights to start from: the hardware's own model when it has the same shape, else fresh ones. */
static int start_weights(struct run *x, struct tp_err *e)
{
    const enum tclfeat_set features = td_dialect_features(x->hw.name);
    struct tm_hyper h = tm_hyper_default(features);
    struct td_snapshot *s = NULL;
    int rc;

    rc = td_registry_acquire(x->d->registry, x->hw.name, x->hw.family, "ac", &s, e);
    if (rc == 0 && s->model->features == features && memcmp(&s->model->h, &h, sizeof h) == 0) {
        x->model = tm_model_clone(s->model);
        x->parent = s->id;
    } else if (rc == 0 || rc == -TP_E_NO_MODEL) {
        x->model = tm_model_new(features, &h, (uint64_t)x->params.seed);
        rc = 0;
    }
    td_registry_release(s);
    if (rc == 0 && x->model == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
    return rc;
}

static int training(void *arg, const struct tm_progress *p)
{
    struct run *x = arg;
    struct tp_buf b = {0};

    x->state.epoch = p->epoch;
    x->state.loss = p->loss;
    if (!isnan(p->valid_pairwise)) {
        tp_buf_puts(&b, "{\"top1_mean\": ");
        tp_buf_json_num(&b, p->valid_top1, 6);
        tp_buf_puts(&b, ", \"pairwise\": ");
        tp_buf_json_num(&b, p->valid_pairwise, 6);
        tp_buf_puts(&b, "}");
        if (!b.oom && b.n < sizeof x->live) {
            memcpy(x->live, b.p, b.n);
            x->live[b.n] = '\0';
            x->state.metrics = x->live;
        }
        tp_buf_free(&b);
    }
    report(x, "train", LOADED + (TRAINED - LOADED) * p->fraction);
    return td_job_cancelled(x->job);
}

static int epochs_for(size_t programs, int least)
{
    size_t n = programs > 0 ? (TD_TRAIN_SEEN + programs - 1) / programs : 0;

    return n > TD_TRAIN_EPOCHS_MAX ? TD_TRAIN_EPOCHS_MAX : n > (size_t)least ? (int)n : least;
}

static int train(struct run *x, struct tp_err *e)
{
    struct tm_train_opts o;
    double start = now();
    int rc;

    rc = start_weights(x, e);
    if (rc != 0)
        return rc;
    tm_train_defaults(&o);
    o.epochs = x->params.epochs > 0 ? (int)x->params.epochs : epochs_for(x->n_train, o.epochs);
    x->epochs = o.epochs;
    o.max_seconds = x->params.max_seconds;
    o.seed = (uint64_t)x->params.seed;
    o.threads = x->d->threads.train > 0 ? x->d->threads.train : 1;
    report(x, "train", LOADED);
    rc = tm_train(x->model, x->data.ds, x->train, x->n_train, x->valid, x->n_valid, &o, training, x, e);
    x->train_seconds = now() - start;
    return rc;
}

/* ---- judge ---- */
static int measure(const struct tm_model *m, const struct tm_dataset *ds, const uint32_t *idx, size_t n,
                   struct tm_metrics *out, struct tp_err *e)
{
    size_t room = n > 0 ? n : 1;
    double *score = calloc(room, sizeof *score), *latency = calloc(room, sizeof *latency),
           *cost = calloc(room, sizeof *cost);
    uint32_t *task = calloc(room, sizeof *task);
    int rc = -TP_E_NO_MEMORY;

    if (score != NULL && latency != NULL && cost != NULL && task != NULL) {
        for (size_t i = 0; i < n; i++) {
            task[i] = ds->task[idx[i]];
            cost[i] = ds->cost[idx[i]];
        }
        rc = n > 0 ? tm_predict_dataset(m, ds, idx, n, score, latency, NULL) : 0;
        if (rc == 0)
            rc = tm_metrics_compute(task, cost, score, latency, n, ds->n_tasks, 2, out);
    }
    free(score);
    free(latency);
    free(cost);
    free(task);
    return rc == 0 ? 0 : tp_fail(e, (enum tp_code) - rc, "the held-out programs could not be predicted");
}

/* The same programs encoded for a champion that has other features. */
static int measure_other(struct run *x, const uint32_t *idx, size_t n, struct tm_metrics *out, struct tp_err *e)
{
    struct td_train_want want = {.hw = &x->hw, .features = x->champion->model->features, .n_only = n};
    struct td_train_data data = {0};
    uint8_t(*only)[16] = calloc(n > 0 ? n : 1, 16);
    uint32_t *all = NULL;
    int rc;

    if (only == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to judge the champion");
    for (size_t i = 0; i < n; i++)
        memcpy(only[i], x->data.key[idx[i]], 16);
    qsort(only, n, 16, td_key_compare);
    want.only = (const uint8_t(*)[16])only;
    rc = td_train_load(x->reader, &want, &data, e);
    if (rc == 0) {
        all = calloc(data.ds->n > 0 ? data.ds->n : 1, sizeof *all);
        rc = all != NULL ? 0 : tp_fail(e, TP_E_NO_MEMORY, "no memory to judge the champion");
    }
    if (rc == 0) {
        for (uint32_t i = 0; i < data.ds->n; i++)
            all[i] = i;
        rc = measure(x->champion->model, data.ds, all, data.ds->n, out, e);
    }
    td_train_data_free(&data);
    free(only);
    free(all);
    return rc;
}

static int measure_both(struct run *x, const uint32_t *idx, size_t n, struct tp_err *e)
{
    int rc = measure(x->model, x->data.ds, idx, n, &x->challenger_figures, e);

    if (rc != 0 || x->champion == NULL)
        return rc;
    if (x->champion->model->features == x->data.ds->features)
        return measure(x->champion->model, x->data.ds, idx, n, &x->champion_figures, e);
    return measure_other(x, idx, n, &x->champion_figures, e);
}

/* Was the champion judged by held-out programs of tasks that it was trained on? */
static bool champion_by_record(const struct run *x)
{
    return strcmp(td_model_holdout(x->reader, x->champion->id), "record") == 0;
}

static int judge(struct run *x, struct tp_err *e)
{
    uint32_t *fair = NULL;
    size_t n = 0;
    bool judged = false;
    int rc;

    report(x, "validate", TRAINED);
    rc = td_registry_acquire(x->d->registry, x->hw.name, x->hw.family, "active", &x->champion, e);
    if (rc != 0 && rc != -TP_E_NO_MODEL)
        return rc;
    rc = 0;
    if (x->champion != NULL && !x->by_record && champion_by_record(x)) {
        /* It has seen the tasks that are held out now, but not the programs of them that were held out then. */
        fair = calloc(x->n_valid > 0 ? x->n_valid : 1, sizeof *fair);
        if (fair == NULL)
            return tp_fail(e, TP_E_NO_MEMORY, "no memory to judge the champion");
        for (size_t i = 0; i < x->n_valid; i++)
            if (tk_program_place(x->data.key[x->valid[i]]) < TK_HOLDOUT)
                fair[n++] = x->valid[i];
        rc = measure_both(x, fair, n, e);
        judged = rc == 0 && !isnan(tk_quality(&x->challenger_figures)) && !isnan(tk_quality(&x->champion_figures));
    }
    if (rc == 0 && !judged)
        rc = measure_both(x, x->valid, x->n_valid, e);
    free(fair);
    if (rc == 0)
        tk_judge(&x->challenger_figures, x->champion != NULL ? &x->champion_figures : NULL, x->params.never,
                 &x->verdict);
    return rc;
}

/* ---- publish ---- */
/* What the job and the model keep of the decision, without braces. */
static void put_decision(struct tp_buf *b, const struct run *x)
{
    tp_buf_printf(b, "\"decision\": \"%s\", \"reason\": \"%s\"", tk_decision_name(x->verdict.decision),
                  x->verdict.reason);
    td_put_num(b, "gain", x->verdict.gain);
    tp_buf_printf(b, ", \"holdout\": \"%s\", \"challenger\": {", x->by_record ? "record" : "task");
    td_put_figures(b, &x->challenger_figures);
    tp_buf_puts(b, "}, \"champion\": ");
    if (x->champion == NULL) {
        tp_buf_puts(b, "null");
        return;
    }
    tp_buf_printf(b, "{\"model\": %lld, \"role\": \"%s\", ", (long long)x->champion->id, x->champion->role);
    td_put_figures(b, &x->champion_figures);
    tp_buf_putc(b, '}');
}

static char *text_of_id(int64_t id)
{
    struct tp_buf b = {0};

    tp_buf_putc(&b, '[');
    if (id > 0)
        tp_buf_i64(&b, id);
    tp_buf_putc(&b, ']');
    return td_take_text(&b);
}

static void fill_provenance(const struct run *x, time_t created, struct tm_provenance *p)
{
    struct tp_buf b = {0};
    struct tm *tm, mem;

    *p = (struct tm_provenance){.records = x->data.records,
                                .programs = (int64_t)x->n_train,
                                .tasks = x->data.ds->n_tasks,
                                .seed = (uint64_t)x->params.seed};
    if (x->parent > 0)
        p->parents[p->n_parents++] = x->parent;
    tm = gmtime_r(&created, &mem);
    if (tm != NULL)
        strftime(p->created, sizeof p->created, "%Y-%m-%dT%H:%M:%SZ", tm);
    tp_buf_printf(&b, "{\"holdout\": \"%s\"", x->by_record ? "record" : "task");
    td_put_num(&b, "top1_mean", x->challenger_figures.top1_mean);
    td_put_num(&b, "top5_mean", x->challenger_figures.top5_mean);
    td_put_num(&b, "pairwise", x->challenger_figures.pairwise);
    tp_buf_putc(&b, '}');
    if (!b.oom && b.n < sizeof p->metrics)
        memcpy(p->metrics, b.p, b.n);
    tp_buf_free(&b);
}

static int by_task_id(const void *id, const void *count)
{
    return strcmp(id, ((const struct td_task_count *)count)->id);
}

/* Where each task lies for the challenger, held out or not. */
static int fit_offsets(struct run *x, struct tp_err *e)
{
    const struct tm_dataset *ds = x->data.ds;
    size_t n = ds->n;
    uint32_t *all = calloc(n, sizeof *all);
    double *score = calloc(n, sizeof *score), *latency = calloc(n, sizeof *latency);
    struct tm_offset *fit = calloc(ds->n_tasks, sizeof *fit);
    int rc = -TP_E_NO_MEMORY;

    x->offset = calloc(ds->n_tasks, sizeof *x->offset);
    if (all == NULL || score == NULL || latency == NULL || fit == NULL || x->offset == NULL)
        goto out;
    for (uint32_t i = 0; i < ds->n; i++)
        all[i] = i;
    rc = tm_predict_dataset(x->model, ds, all, n, score, latency, NULL);
    for (size_t i = 0; rc == 0 && i < n; i++)
        latency[i] = tm_latency_residual(x->model, latency[i], ds->cost[i]);
    if (rc == 0)
        rc = tm_offsets_fit(latency, ds->task, n, ds->n_tasks, fit);
    for (uint32_t t = 0; rc == 0 && t < ds->n_tasks; t++) {
        const char *id = tm_dataset_task_id(ds, t);
        const struct td_task_count *c = bsearch(id, x->data.count, x->data.n_counts, sizeof *x->data.count, by_task_id);
        struct st_offset *o = &x->offset[x->n_offsets++];

        *o =
            (struct st_offset){.offset = fit[t].offset, .programs = fit[t].n, .measurements = c != NULL ? c->valid : 0};
        memcpy(o->task_id, id, strlen(id) + 1);
    }
out:
    free(all);
    free(score);
    free(latency);
    free(fit);
    return rc == 0 ? 0 : tp_fail(e, (enum tp_code) - rc, "the offsets of the tasks could not be fitted");
}

static int publish(struct run *x, int64_t *id, struct tp_err *e)
{
    static const char *const state[] = {
        [TK_ACTIVATED] = "published", [TK_KEPT_CHAMPION] = "rejected", [TK_CANDIDATE] = "candidate"};
    bool activate = x->verdict.decision == TK_ACTIVATED;
    struct st_model row = {
        .role = "ac", .job = td_job_id(x->job), .records = x->data.records, .tasks = x->data.ds->n_tasks};
    struct tm_provenance p;
    struct tp_buf b = {0};
    struct tm_model *m;
    int rc;

    report(x, "publish", VALIDATED);
    rc = fit_offsets(x, e);
    if (rc == 0)
        rc = cancelled(x, e);
    if (rc == 0)
        rc = st_model_reserve(x->d->store, &row.id, e);
    if (rc != 0)
        return rc;
    row.created = (int64_t)time(NULL);
    memcpy(row.owner, x->hw.name, sizeof row.owner);
    snprintf(row.state, sizeof row.state, "%s", state[x->verdict.decision]);
    tp_buf_putc(&b, '{');
    put_decision(&b, x);
    tp_buf_putc(&b, '}');
    row.metrics = td_take_text(&b);
    row.parents = text_of_id(x->parent);
    fill_provenance(x, row.created, &p);
    m = x->model;
    x->model = NULL;
    if (row.metrics == NULL || row.parents == NULL) {
        tm_model_free(m);
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to publish a model");
    } else {
        rc = td_registry_publish_with(x->d->registry, m, &p, &row, x->hw.id, activate, x->offset, x->n_offsets, e);
    }
    if (rc == 0) {
        *id = row.id;
        td_log(TD_INFO, "model-published", TD_I("model", row.id), TD_S("hardware", x->hw.name),
               TD_S("state", row.state), TD_I("job", row.job), TD_S("reason", x->verdict.reason));
        if (activate && x->d->metrics != NULL)
            td_count(x->d->metrics, TD_C_SWAPS, 1);
        if (activate)
            td_recal_note(x->d->recal, x->hw.name); /* what was measured while it trained */
    }
    st_model_clear(&row);
    return rc;
}

/* The verdict is an evaluation of the model that answers from now on. The job has done its work: a failure is only
 * told. */
static void keep_figures(const struct run *x, int64_t challenger)
{
    bool won = x->verdict.decision == TK_ACTIVATED;
    const struct tm_metrics *m = won ? &x->challenger_figures : &x->champion_figures;
    int64_t model = won ? challenger : x->champion != NULL ? x->champion->id : 0;
    struct tp_buf b = {0};
    struct tp_err e = {0};
    char *text;

    if (model == 0 || m->tasks == 0)
        return;
    tp_buf_printf(&b, "{\"source\": \"retrain\", \"model\": %lld, \"hardware\": \"%s\", \"job\": %lld, ",
                  (long long)model, x->hw.name, (long long)td_job_id(x->job));
    tp_buf_printf(&b, "\"holdout\": \"%s\", \"held_out\": {", x->by_record ? "record" : "task");
    td_put_figures(&b, m);
    tp_buf_puts(&b, "}, \"all\": null}");
    text = td_take_text(&b);
    if (text == NULL ||
        td_figures_keep(x->d, x->reader, x->hw.name, x->hw.id, model, td_job_id(x->job), text, NULL, &e) != 0)
        td_log(TD_WARNING, "evaluation-not-stored", TD_I("job", td_job_id(x->job)), TD_S("reason", e.detail));
    free(text);
}

static char *result_text(const struct run *x, int64_t model)
{
    struct tp_buf b = {0};

    tp_buf_putc(&b, '{');
    put_decision(&b, x);
    tp_buf_printf(
        &b, ", \"model\": %lld, \"start\": \"%s\", \"programs\": %u, \"tasks\": %u, \"epochs\": %d, \"epoch\": %d",
        (long long)model, x->parent > 0 ? "warm" : "fresh", x->data.ds->n, x->data.ds->n_tasks, x->epochs,
        x->state.epoch);
    td_put_num(&b, "loss", x->state.loss);
    td_put_num(&b, "train_seconds", x->train_seconds);
    tp_buf_putc(&b, '}');
    return td_take_text(&b);
}

int td_train_run(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e)
{
    struct run x = {.d = d, .job = j, .state = {.loss = NAN}};
    int64_t model = 0;
    int rc;

    rc = td_train_params_read(&x.params, params, e);
    if (rc == 0)
        rc = td_job_open(j, d->store, &x.reader, &x.hw, e);
    if (rc == 0)
        rc = load(&x, e);
    if (rc == 0)
        rc = train(&x, e);
    if (rc == 0)
        rc = cancelled(&x, e);
    if (rc == 0)
        rc = judge(&x, e);
    if (rc == 0)
        rc = publish(&x, &model, e);
    if (rc == 0) {
        keep_figures(&x, model);
        *result = result_text(&x, model);
        if (*result == NULL)
            rc = tp_fail(e, TP_E_NO_MEMORY, "model %lld is stored, but there is no memory for the result",
                         (long long)model);
    }
    td_registry_release(x.champion);
    tm_model_free(x.model);
    td_train_data_free(&x.data);
    free(x.offset);
    free(x.train);
    free(x.valid);
    td_job_close(x.reader, &x.hw);
    return rc;
}
