/* Job kind "retrain": load, train, judge, publish.
 *
 * Everything here is private to the job until td_registry_publish(). The champion is the model that answers when the
 * judging begins; it and the challenger predict the same held-out programs, which neither was trained on
 * (ckd/champion.h). On a job thread. */
#include "daemon/train_job.h"

#include "daemon/adapt_job.h"
#include "daemon/dialect.h"
#include "daemon/drift.h"
#include "daemon/figures.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/pretrain_job.h"
#include "daemon/recalibrate.h"
#include "daemon/registry.h"
#include "daemon/story.h"
#include "daemon/train_parts.h"
#include "model/train.h"
#include "proto/clock.h"

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
    struct td_train_set set;
    struct tm_model *model; /* the challenger */
    int64_t parent;         /* 0: fresh weights */
    struct td_job_state state;
    char live[160]; /* metrics of the last validation, JSON */
    struct tk_learned learned;
    int kept; /* the epoch that it kept; 0: none was better than the model was already */
    /* judgement */
    struct td_snapshot *champion; /* NULL none */
    struct st_offset *offset;     /* [n_offsets] of the challenger, for the tasks of data */
    size_t n_offsets;
    struct td_verdict verdict;
};

static int cancelled(struct run *x, struct tp_err *e)
{
    return td_job_cancelled(x->job) ? tp_fail(e, TP_E_CANCELLED, "cancelled") : 0;
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
    struct td_train_want want = {.hw = &x->hw,
                                 .features = td_dialect_features(x->hw.name),
                                 .per_task = (uint32_t)x->params.per_task,
                                 .seed = (uint64_t)x->params.seed,
                                 .progress = loading,
                                 .arg = x};

    td_job_phase(x->job, &x->state, "load", 0);
    return td_train_set_load(x->reader, &want, &x->set, e);
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

    x->state.epoch = x->learned.epoch = p->epoch;
    x->kept = p->kept;
    x->state.loss = p->loss;
    if (isfinite(p->loss)) /* not before the first batch */
        x->learned.loss = p->loss;
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
    td_job_phase(x->job, &x->state, "train", LOADED + (TRAINED - LOADED) * p->fraction);
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
    double start = tp_seconds();
    int rc;

    rc = start_weights(x, e);
    if (rc != 0)
        return rc;
    tm_train_defaults(&o);
    o.epochs = x->params.epochs > 0 ? (int)x->params.epochs : epochs_for(x->set.n_train, o.epochs);
    x->learned = (struct tk_learned){.epochs = o.epochs, .loss = NAN, .phi = NAN};
    o.max_seconds = x->params.max_seconds;
    o.seed = (uint64_t)x->params.seed;
    o.threads = x->d->threads.train;
    o.warm = x->parent > 0;
    td_job_phase(x->job, &x->state, "train", LOADED);
    rc = tm_train(x->model, x->set.data.ds, x->set.train, x->set.n_train, x->set.valid, x->set.n_valid, &o, training, x,
                  e);
    x->learned.seconds = tp_seconds() - start;
    return rc;
}

/* ---- judge ---- */
static int judge(struct run *x, struct tp_err *e)
{
    int rc;

    td_job_phase(x->job, &x->state, "validate", TRAINED);
    rc = td_registry_acquire(x->d->registry, x->hw.name, x->hw.family, "active", &x->champion, e);
    if (rc != 0 && rc != -TP_E_NO_MODEL)
        return rc;
    rc = td_train_judge(x->reader, &x->hw, &x->set, x->model, x->champion, x->params.never, &x->verdict, e);
    if (rc == 0 && x->champion != NULL && x->champion->id == x->parent && !x->params.never && x->kept == 0) {
        x->verdict.judgement.decision = TK_KEPT_CHAMPION;
        snprintf(x->verdict.judgement.reason, sizeof x->verdict.judgement.reason,
                 "No epoch ranks the held-out programs better than the model does already.");
    }
    return rc;
}

/* ---- publish ---- */

/* How the model came about: what row, file and result have in common. JSON object; NULL: no memory. */
static char *story(const struct run *x)
{
    struct tp_buf b = {0};

    tp_buf_putc(&b, '{');
    td_train_put_verdict(&b, &x->verdict, x->set.by_record, x->champion);
    tp_buf_puts(&b, ", ");
    td_put_origin(&b, &x->params, x->set.watermark);
    tp_buf_printf(&b, ", \"start\": \"%s\", \"learned\": {", x->parent > 0 ? "warm" : "fresh");
    td_put_learned(&b, &x->learned);
    tp_buf_puts(&b, "}}");
    return td_take_text(&b);
}

static int publish(struct run *x, int64_t *id, struct tp_err *e)
{
    bool activate = x->verdict.judgement.decision == TK_ACTIVATED;
    struct st_model row = {
        .role = "ac", .job = td_job_id(x->job), .records = x->set.data.records, .tasks = x->set.data.ds->n_tasks};
    struct tm_provenance p;
    struct tm_model *m;
    char *training = NULL;
    int rc;

    td_job_phase(x->job, &x->state, "publish", VALIDATED);
    rc = td_train_offsets(x->model, &x->set.data, &x->offset, &x->n_offsets, e);
    if (rc == 0)
        rc = cancelled(x, e);
    if (rc == 0)
        rc = st_model_reserve(x->d->store, &row.id, e);
    if (rc != 0)
        return rc;
    row.created = (int64_t)time(NULL);
    memcpy(row.owner, x->hw.name, sizeof row.owner);
    snprintf(row.state, sizeof row.state, "%s", td_row_state(x->verdict.judgement.decision));
    row.metrics = story(x);
    training = td_story_file(x->job, x->hw.name, row.metrics);
    row.parents = td_ids_text(&x->parent, x->parent > 0);
    td_fill_provenance(&p, row.created, (uint64_t)x->params.seed);
    td_fill_metrics(&p, &x->verdict.challenger, x->set.by_record);
    td_fill_made_of(&p, &x->set, &x->parent, x->parent > 0);
    m = x->model;
    x->model = NULL;
    if (training == NULL || row.parents == NULL) {
        tm_model_free(m);
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to publish a model");
    } else {
        td_fill_training(&p, training, row.id);
        if (activate)
            td_drift_trained(x->d->drift, x->hw.name, x->set.watermark);
        rc = td_registry_publish_with(x->d->registry, m, &p, &row, x->hw.id, activate, x->offset, x->n_offsets, e);
    }
    if (rc == 0) {
        *id = row.id;
        td_log(TD_INFO, "model-published", TD_I("model", row.id), TD_S("hardware", x->hw.name),
               TD_S("state", row.state), TD_I("job", row.job), TD_S("reason", x->verdict.judgement.reason));
        if (activate && x->d->metrics != NULL)
            td_count(x->d->metrics, TD_C_SWAPS, 1);
        if (activate)
            td_recal_note(x->d->recal, x->hw.name); /* what was measured while it trained */
    }
    st_model_clear(&row);
    free(training);
    return rc;
}

static char *result_text(const struct run *x, int64_t model)
{
    struct tp_buf b = {0};
    char *kept = story(x);

    if (kept == NULL)
        return NULL;
    td_put_result(&b, kept, model, &x->set, &x->learned, x->learned.seconds);
    tp_buf_putc(&b, '}');
    free(kept);
    return td_take_text(&b);
}

static int finetune(struct td_daemon *d, struct td_job *j, const struct td_train_params *p, char **result,
                    struct tp_err *e)
{
    struct run x = {.d = d, .job = j, .params = *p, .state = {.loss = NAN}};
    int64_t model = 0;
    int rc;

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
        td_train_keep_verdict(d, j, x.reader, &x.hw, &x.verdict, x.set.by_record, model, x.champion);
        *result = result_text(&x, model);
        if (*result == NULL)
            rc = tp_fail(e, TP_E_NO_MEMORY, "model %lld is stored, but there is no memory for the result",
                         (long long)model);
    }
    td_registry_release(x.champion);
    tm_model_free(x.model);
    td_train_set_free(&x.set);
    free(x.offset);
    td_job_close(x.reader, &x.hw);
    return rc;
}

int td_train_run(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e)
{
    struct td_train_params p;
    int rc = td_train_params_read(&p, params, e);

    if (rc != 0)
        return rc;
    switch (p.mode) {
    case TD_TRAIN_ADAPT:
        return td_adapt_run(d, j, &p, result, e);
    case TD_TRAIN_PRETRAIN:
        return td_pretrain_run(d, j, &p, result, e);
    case TD_TRAIN_FINETUNE:
        break;
    }
    return finetune(d, j, &p, result, e);
}
