/* What retraining jobs share: data with their split, the champion's trial, offsets.
 *
 * The champion is the model that answers when the judging begins; it and the challenger predict the same held-out
 * programs, which neither was trained on (ckd/champion.h). On a job thread. */
#include "daemon/train_parts.h"

#include "daemon/figures.h"
#include "daemon/log.h"
#include "model/latency.h"
#include "model/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void td_phases_limit(const struct td_train_params *p, double seconds, struct tk_learn_opts *scratch,
                     struct tk_learn_opts *cl, struct tk_learn_opts *kd)
{
    if (p->epochs > 0) {
        scratch->train.epochs = cl->train.epochs = kd->train.epochs = (int)p->epochs;
        scratch->steps = cl->steps = kd->steps = 0;
        if (cl->train.period > cl->train.epochs) /* else a whole period would be made of less */
            cl->train.period = cl->train.epochs;
    }
    if (seconds > 0) {
        scratch->train.max_seconds = 0.22 * seconds; /* thrice at most: a rival, when it wins, from initial weights */
        cl->train.max_seconds = 0.3 * seconds;
        kd->train.max_seconds = 0.2 * seconds; /* TK_ATTEMPTS times at most */
    }
}

/* ---- data ---- */
/* Two programs of one task are left to train on. They stand together. */
static bool can_compare(const struct td_train_set *s)
{
    for (size_t i = 1; i < s->n_train; i++)
        if (s->data.ds->task[s->train[i]] == s->data.ds->task[s->train[i - 1]])
            return true;
    return false;
}

int td_train_set_load(struct st_reader *r, const struct td_train_want *want, struct td_train_set *out, struct tp_err *e)
{
    struct td_train_want now = *want;
    struct td_train_set s = {0};
    struct st_counts c;
    uint32_t valid = 0;
    int rc = want->upto > 0 ? 0 : st_hardware_counts(r, want->hw->id, &c, e);

    if (rc == 0 && now.upto == 0)
        now.upto = c.newest_measurement_id;
    if (rc == 0)
        rc = td_train_load(r, &now, &s.data, e);
    if (rc != 0)
        return rc;
    s.watermark = now.upto;
    for (uint32_t i = 0; i < s.data.ds->n; i++)
        valid += isfinite(s.data.ds->cost[i]);
    if (valid < 2) {
        rc = tp_fail(e, TP_E_NOT_ENOUGH_DATA,
                     "hardware \"%s\" has %u programs with a valid measurement; nothing can be compared",
                     want->hw->name, valid);
        goto out;
    }
    s.train = calloc(s.data.ds->n, sizeof *s.train);
    s.valid = calloc(s.data.ds->n, sizeof *s.valid);
    rc = s.train != NULL && s.valid != NULL ? tk_holdout_split(s.data.ds, (const uint8_t(*)[16])s.data.key, s.train,
                                                               &s.n_train, s.valid, &s.n_valid, &s.by_record, e)
                                            : tp_fail(e, TP_E_NO_MEMORY, "no memory to split the measurements");
    if (rc == 0 && !can_compare(&s))
        rc =
            tp_fail(e, TP_E_NOT_ENOUGH_DATA,
                    "hardware \"%s\" has too few programs: two of each task are held out while there are fewer than %d "
                    "tasks, and one task must keep two more",
                    want->hw->name, (int)TK_HOLDOUT_TASKS);
out:
    if (rc == 0)
        *out = s;
    else
        td_train_set_free(&s);
    return rc;
}

void td_train_set_free(struct td_train_set *s)
{
    td_train_data_free(&s->data);
    free(s->train);
    free(s->valid);
    *s = (struct td_train_set){0};
}

/* ---- the trial ---- */
struct trial {
    struct st_reader *reader;
    const struct st_hardware *hw;
    const struct td_train_set *set;
    const struct tm_model *challenger;
    const struct td_snapshot *champion; /* NULL none */
    struct td_verdict *out;
};

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
static int measure_other(const struct trial *x, const uint32_t *idx, size_t n, struct tm_metrics *out, struct tp_err *e)
{
    struct td_train_want want = {
        .hw = x->hw, .features = x->champion->model->features, .n_only = n, .upto = x->set->watermark};
    struct td_train_data data = {0};
    uint8_t(*only)[16] = calloc(n > 0 ? n : 1, 16);
    uint32_t *all = NULL;
    int rc;

    if (only == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to judge the champion");
    for (size_t i = 0; i < n; i++)
        memcpy(only[i], x->set->data.key[idx[i]], 16);
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

static int measure_both(struct trial *x, const uint32_t *idx, size_t n, struct tp_err *e)
{
    int rc = measure(x->challenger, x->set->data.ds, idx, n, &x->out->challenger, e);

    if (rc != 0 || x->champion == NULL)
        return rc;
    if (x->champion->model->features == x->set->data.ds->features)
        return measure(x->champion->model, x->set->data.ds, idx, n, &x->out->champion, e);
    return measure_other(x, idx, n, &x->out->champion, e);
}

/* Was the champion judged by held-out programs of tasks that it was trained on? */
static bool champion_by_record(const struct trial *x)
{
    return strcmp(td_model_holdout(x->reader, x->champion->id), "record") == 0;
}

int td_train_judge(struct st_reader *r, const struct st_hardware *hw, const struct td_train_set *set,
                   const struct tm_model *challenger, const struct td_snapshot *champion, bool never,
                   struct td_verdict *out, struct tp_err *e)
{
    struct trial x = {.reader = r, .hw = hw, .set = set, .challenger = challenger, .champion = champion, .out = out};
    uint32_t *fair = NULL;
    size_t n = 0;
    bool judged = false;
    int rc = 0;

    *out = (struct td_verdict){0};
    if (champion != NULL && !set->by_record && champion_by_record(&x)) {
        /* It has seen the tasks that are held out now, but not the programs of them that were held out then. */
        fair = calloc(set->n_valid > 0 ? set->n_valid : 1, sizeof *fair);
        if (fair == NULL)
            return tp_fail(e, TP_E_NO_MEMORY, "no memory to judge the champion");
        for (size_t i = 0; i < set->n_valid; i++)
            if (tk_program_place(set->data.key[set->valid[i]]) < TK_HOLDOUT)
                fair[n++] = set->valid[i];
        rc = measure_both(&x, fair, n, e);
        judged = rc == 0 && !isnan(tk_quality(&out->challenger)) && !isnan(tk_quality(&out->champion));
    }
    if (rc == 0 && !judged)
        rc = measure_both(&x, set->valid, set->n_valid, e);
    free(fair);
    if (rc == 0)
        tk_judge(&out->challenger, champion != NULL ? &out->champion : NULL, never, &out->judgement);
    return rc;
}

void td_train_put_verdict(struct tp_buf *b, const struct td_verdict *v, bool by_record,
                          const struct td_snapshot *champion)
{
    tp_buf_printf(b, "\"decision\": \"%s\", \"reason\": \"%s\"", tk_decision_name(v->judgement.decision),
                  v->judgement.reason);
    td_put_num(b, "gain", v->judgement.gain);
    tp_buf_printf(b, ", \"holdout\": \"%s\", \"challenger\": {", by_record ? "record" : "task");
    td_put_figures(b, &v->challenger);
    tp_buf_puts(b, "}, \"champion\": ");
    if (champion == NULL) {
        tp_buf_puts(b, "null");
        return;
    }
    tp_buf_printf(b, "{\"model\": %lld, \"role\": \"%s\", ", (long long)champion->id, champion->role);
    td_put_figures(b, &v->champion);
    tp_buf_putc(b, '}');
}

void td_train_keep_verdict(struct td_daemon *d, const struct td_job *job, struct st_reader *r,
                           const struct st_hardware *hw, const struct td_verdict *v, bool by_record, int64_t challenger,
                           const struct td_snapshot *champion)
{
    bool won = v->judgement.decision == TK_ACTIVATED;
    const struct tm_metrics *m = won ? &v->challenger : &v->champion;
    int64_t model = won ? challenger : champion != NULL ? champion->id : 0;
    struct tp_buf b = {0};
    struct tp_err e = {0};
    char *text;

    if (model == 0 || m->tasks == 0)
        return;
    tp_buf_printf(&b, "{\"source\": \"retrain\", \"model\": %lld, \"hardware\": \"%s\", \"job\": %lld, ",
                  (long long)model, hw->name, (long long)td_job_id(job));
    tp_buf_printf(&b, "\"holdout\": \"%s\", \"held_out\": {", by_record ? "record" : "task");
    td_put_figures(&b, m);
    tp_buf_puts(&b, "}, \"all\": null}");
    text = td_take_text(&b);
    if (text == NULL || td_figures_keep(d, r, hw->name, hw->id, model, td_job_id(job), text, NULL, &e) != 0)
        td_log(TD_WARNING, "evaluation-not-stored", TD_I("job", td_job_id(job)), TD_S("reason", e.detail));
    free(text);
}

/* ---- offsets ---- */
static int by_task_id(const void *id, const void *count)
{
    return strcmp(id, ((const struct td_task_count *)count)->id);
}

int td_train_offsets(const struct tm_model *m, const struct td_train_data *data, struct st_offset **offset,
                     size_t *n_offsets, struct tp_err *e)
{
    const struct tm_dataset *ds = data->ds;
    size_t n = ds->n;
    uint32_t *all = calloc(n, sizeof *all);
    double *score = calloc(n, sizeof *score), *latency = calloc(n, sizeof *latency);
    struct tm_offset *fit = calloc(ds->n_tasks, sizeof *fit);
    struct st_offset *out = calloc(ds->n_tasks, sizeof *out);
    int rc = -TP_E_NO_MEMORY;

    if (all == NULL || score == NULL || latency == NULL || fit == NULL || out == NULL)
        goto out;
    for (uint32_t i = 0; i < ds->n; i++)
        all[i] = i;
    rc = tm_predict_dataset(m, ds, all, n, score, latency, NULL);
    for (size_t i = 0; rc == 0 && i < n; i++)
        latency[i] = tm_latency_residual(m, latency[i], ds->cost[i]);
    if (rc == 0)
        rc = tm_offsets_fit(latency, ds->task, n, ds->n_tasks, fit);
    for (uint32_t t = 0; rc == 0 && t < ds->n_tasks; t++) {
        const char *id = tm_dataset_task_id(ds, t);
        const struct td_task_count *c = bsearch(id, data->count, data->n_counts, sizeof *data->count, by_task_id);

        out[t] =
            (struct st_offset){.offset = fit[t].offset, .programs = fit[t].n, .measurements = c != NULL ? c->valid : 0};
        memcpy(out[t].task_id, id, strlen(id) + 1);
    }
    if (rc == 0) {
        *offset = out;
        *n_offsets = ds->n_tasks;
        out = NULL;
    }
out:
    free(all);
    free(score);
    free(latency);
    free(fit);
    free(out);
    return rc == 0 ? 0 : tp_fail(e, (enum tp_code) - rc, "the offsets of the tasks could not be fitted");
}
