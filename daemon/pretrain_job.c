/* Mode "pretrain" of retraining: the sources one after another into one knowledge base, which then competes with the
 * family's present one on the held-out programs of all sources and on the probe sets of the others.
 *
 * The state that survives a restart is the names of the sources, and the knowledge base after the last one that was
 * finished. On a job thread. */
#include "daemon/pretrain_job.h"

#include "ckd/adapt.h"
#include "daemon/adapt_job.h"
#include "daemon/dialect.h"
#include "daemon/figures.h"
#include "daemon/fleet.h"
#include "daemon/hardware.h"
#include "daemon/log.h"
#include "daemon/pretrain_story.h"
#include "daemon/registry.h"
#include "daemon/story.h"
#include "daemon/train_job.h"
#include "daemon/train_parts.h"
#include "proto/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Shares of the job's progress at which its phases end. */
#define LOADED  0.1
#define LEARNED 0.9
#define JUDGED  0.97
#define META    0.2 /* of max_seconds, for the initial weights; the sources share the rest */

enum { META_PER_EPOCH = 50 /* rounds of meta-learning, where epochs are asked for */ };

struct run {
    struct td_daemon *d;
    struct td_job *job;
    struct td_train_params params;
    struct st_reader *reader;
    struct st_hardware hw;
    enum tp_target_kind kind;
    struct td_members members;
    struct td_source *source; /* [n] */
    bool *refused;            /* [n] of those that are done */
    uint32_t n, loaded;
    int64_t watermark; /* newest measurement of all sources when the job began: none that came later is looked at */
    int64_t present_id;
    struct tk_kb *present; /* NULL none */
    struct tk_kb *kb;      /* the new one */
    uint32_t done;         /* sources that are learned */
    char folder[TD_JOB_PATH];
    struct td_job_state state;
    double seconds;
    /* judgement */
    struct td_older older;           /* probe sets of hardware that is no source */
    struct tk_acceptance acceptance; /* by these; reason "": they were not asked */
    struct tk_judgement verdict;
    int64_t model;
    bool active;
    char *kept; /* what its row keeps: JSON object */
};

/* ---- progress ---- */
static int loading(void *arg, double share)
{
    struct run *x = arg;

    td_job_phase(x->job, &x->state, "load", LOADED * (x->loaded + share) / x->n);
    return td_job_cancelled(x->job);
}

static int progress(void *arg, const struct tk_progress *p)
{
    struct run *x = arg;

    x->state.epoch = p->epoch;
    x->state.loss = p->loss;
    if (x->done == x->n) {
        td_job_phase(x->job, &x->state, p->phase, LEARNED + (JUDGED - LEARNED) * p->fraction);
        return td_job_cancelled(x->job);
    }
    /* of a source, learning is half, teaching the other */
    td_job_phase(
        x->job, &x->state, p->phase,
        LOADED + (LEARNED - LOADED) *
                     (x->done + (strcmp(p->phase, "learn") == 0 ? 0.5 * p->fraction : 0.5 + 0.5 * p->fraction)) / x->n);
    return td_job_cancelled(x->job);
}

/* ---- state across restarts ---- */
static int save_note(struct run *x, json_int_t starts, struct tp_err *e)
{
    json_t *sources = json_array(), *refused = json_array(), *lessons = json_array(), *o;
    int rc;

    for (uint32_t i = 0; i < x->n; i++)
        json_array_append_new(sources, json_string(x->source[i].hw->name));
    for (uint32_t i = 0; i < x->done; i++) {
        json_array_append_new(refused, json_boolean(x->refused[i]));
        json_array_append_new(lessons, x->source[i].lesson != NULL ? json_string(x->source[i].lesson) : json_null());
    }
    o = json_pack("{s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "starts", starts, "done", (json_int_t)x->done, "present",
                  (json_int_t)x->present_id, "watermark", (json_int_t)x->watermark, "sources", sources, "refused",
                  refused, "lessons", lessons);
    rc = o != NULL ? td_job_note(x->folder, o, e) : tp_fail(e, TP_E_NO_MEMORY, "no memory for the state of a job");
    json_decref(o);
    return rc;
}

static bool kb_path(const struct run *x, uint32_t done, char *path, size_t n)
{
    return snprintf(path, n, "%s/kb-%u.safetensors", x->folder, done) < (int)n;
}

static int checkpoint(void *arg, const struct tk_kb *kb, const struct tk_adapt_state *s, uint32_t done)
{
    struct run *x = arg;
    struct tp_err e = {0};
    char path[TD_JOB_PATH + 32], old[TD_JOB_PATH + 32];
    int rc = 0;

    free(x->source[done - 1].lesson);
    if ((x->source[done - 1].lesson = td_lesson_text(s)) == NULL)
        return -TP_E_NO_MEMORY;
    if (x->folder[0] != '\0' && kb != NULL && kb_path(x, done, path, sizeof path)) {
        uint32_t before = x->done;

        rc = tk_kb_save(path, kb, NULL, &e);
        x->done = done;
        if (rc == 0)
            rc = save_note(x, 1, &e);
        if (rc == 0 && before > 0 && kb_path(x, before, old, sizeof old))
            unlink(old);
        if (rc != 0)
            td_log(TD_WARNING, "job-state-not-kept", TD_I("job", td_job_id(x->job)), TD_S("reason", e.detail));
    }
    x->done = done;
    return rc == -TP_E_DISK_FULL ? rc : 0;
}

/* ---- sources ---- */
static struct st_hardware *member(struct run *x, const char *name)
{
    for (size_t i = 0; name != NULL && i < x->members.n; i++)
        if (strcmp(x->members.v[i].name, name) == 0)
            return &x->members.v[i];
    return NULL;
}

static int enough(struct run *x, const struct st_hardware *hw, bool *yes, struct tp_err *e)
{
    struct st_counts c;
    int rc = st_hardware_counts(x->reader, hw->id, &c, e);

    *yes = rc == 0 && c.valid >= TD_TRAIN_MIN;
    if (*yes && c.newest_measurement_id > x->watermark)
        x->watermark = c.newest_measurement_id;
    return rc;
}

/* At the first start: those that the request names, or all of the family that have enough. */
static int choose_sources(struct run *x, struct tp_err *e)
{
    bool yes;
    int rc = 0;

    for (size_t i = 0; i < x->members.n && x->params.n_sources == 0 && x->n < TK_OLDER_MAX && rc == 0; i++) {
        rc = enough(x, &x->members.v[i], &yes, e);
        if (yes)
            x->source[x->n++].hw = &x->members.v[i];
    }
    for (int i = 0; i < x->params.n_sources && rc == 0; i++) {
        struct st_hardware *hw = member(x, x->params.source[i]);

        if (hw == NULL)
            return tp_fail(e, TP_E_UNKNOWN_HARDWARE, "family \"%s\" has no hardware \"%s\"", x->hw.family,
                           x->params.source[i]);
        rc = enough(x, hw, &yes, e);
        if (rc == 0 && !yes)
            rc = tp_fail(e, TP_E_NOT_ENOUGH_DATA, "hardware \"%s\" has fewer than %d valid measurements", hw->name,
                         TD_TRAIN_MIN);
        x->source[x->n++].hw = hw;
    }
    if (rc == 0 && x->n == 0)
        rc = tp_fail(e, TP_E_NOT_ENOUGH_DATA, "no hardware of family \"%s\" has %d valid measurements", x->hw.family,
                     TD_TRAIN_MIN);
    if (rc == 0)
        rc = st_family_kb(x->reader, x->hw.family, &x->present_id, e);
    return rc;
}

/* Later: those of the first start, and how far it came. */
static int recall(struct run *x, const json_t *note, struct tp_err *e)
{
    const json_t *sources = json_object_get(note, "sources"), *refused = json_object_get(note, "refused"),
                 *lessons = json_object_get(note, "lessons");
    json_int_t starts = json_integer_value(json_object_get(note, "starts"));
    char path[TD_JOB_PATH + 32];

    for (size_t i = 0; i < json_array_size(sources) && i < TK_OLDER_MAX; i++) {
        const char *name = json_string_value(json_array_get(sources, i)),
                   *lesson = json_string_value(json_array_get(lessons, i));

        x->refused[i] = json_is_true(json_array_get(refused, i));
        if (lesson != NULL && (x->source[i].lesson = strdup(lesson)) == NULL)
            return tp_fail(e, TP_E_NO_MEMORY, "no memory for the sources");
        if ((x->source[x->n++].hw = member(x, name)) == NULL)
            return tp_fail(e, TP_E_INTERRUPTED, "hardware \"%s\", a source, was deleted while tcld was stopped",
                           name != NULL ? name : "");
    }
    x->done = (uint32_t)json_integer_value(json_object_get(note, "done"));
    x->present_id = json_integer_value(json_object_get(note, "present"));
    x->watermark = json_integer_value(json_object_get(note, "watermark"));
    if (x->n == 0 || x->done > x->n)
        return tp_fail(e, TP_E_INTERRUPTED, "the state of the job is of another version of tcld");
    if (starts >= TD_ADAPT_STARTS)
        return tp_fail(e, TP_E_INTERRUPTED, "tcld stopped %d times while the job learned from its source number %u",
                       TD_ADAPT_STARTS, x->done + 1);
    if (x->done > 0 && kb_path(x, x->done, path, sizeof path) && tk_kb_load(path, &x->kb, NULL, e) != 0)
        return -(int)e->code;
    return save_note(x, starts + 1, e);
}

/* published: an earlier start has come to its end, but for telling so. */
static int begin(struct run *x, bool published, struct tp_err *e)
{
    json_t *note = NULL;
    int rc = td_members_list(x->reader, x->hw.family, x->hw.kind, &x->members, e);

    if (rc == 0)
        rc = td_job_keep(x->job, x->folder, e);
    if (rc != 0)
        return rc;
    x->source = calloc(TK_OLDER_MAX, sizeof *x->source);
    x->refused = calloc(TK_OLDER_MAX, sizeof *x->refused);
    if (x->source == NULL || x->refused == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for the sources");
    if (x->folder[0] != '\0')
        note = td_job_noted(x->folder);
    if (published)
        x->present_id = json_integer_value(json_object_get(note, "present"));
    else if (note != NULL)
        rc = recall(x, note, e);
    else if ((rc = choose_sources(x, e)) == 0 && x->folder[0] != '\0')
        rc = save_note(x, 1, e);
    json_decref(note);
    return rc;
}

static int load(struct run *x, struct tp_err *e)
{
    int rc = 0;

    td_job_phase(x->job, &x->state, "load", 0);
    if (x->present_id != 0)
        rc = td_registry_load_kb(x->d->registry, x->reader, x->present_id, &x->present, e);
    if (rc == -TP_E_BAD_WEIGHTS || rc == -TP_E_FEATURES_MISMATCH) { /* any new one is better than that */
        td_log(TD_WARNING, "knowledge-unusable", TD_I("model", x->present_id), TD_S("reason", e->detail));
        rc = 0;
    }
    for (; x->loaded < x->n && rc == 0; x->loaded += rc == 0) {
        struct td_train_want want = {.hw = x->source[x->loaded].hw,
                                     .features = td_dialect_features(x->hw.name),
                                     .per_task = (uint32_t)x->params.per_task,
                                     .seed = (uint64_t)x->params.seed,
                                     .upto = x->watermark,
                                     .progress = loading,
                                     .arg = x};

        rc = td_train_set_load(x->reader, &want, &x->source[x->loaded].set, e);
    }
    return rc;
}

/* ---- learn ---- */
static struct tk_set train_of(const struct td_source *s)
{
    return (struct tk_set){s->set.data.ds, s->set.train, s->set.n_train};
}

static struct tk_set valid_of(const struct td_source *s)
{
    return (struct tk_set){s->set.data.ds, s->set.valid, s->set.n_valid};
}

static int learn(struct run *x, struct tp_err *e)
{
    struct tk_source *source = calloc(x->n, sizeof *source);
    struct tk_pretrain p;
    struct tk_meta_opts meta;
    struct tk_kb *kb = x->kb, *out = NULL;
    double began = tp_seconds();
    int rc = 0;

    tk_pretrain_defaults(&p);
    p.kind = x->kind;
    p.sources = source;
    p.n = x->n;
    p.run = (struct tk_run){
        .seed = (uint64_t)x->params.seed, .threads = x->d->threads.train, .progress = progress, .arg = x};
    tk_meta_defaults(&meta);
    p.meta = &meta;
    p.checkpoint = checkpoint;
    p.checkpoint_arg = x;
    if (x->params.epochs > 0)
        meta.rounds = (uint32_t)x->params.epochs * META_PER_EPOCH;
    meta.max_seconds = META * x->params.max_seconds;
    td_phases_limit(&x->params, (1 - META) * x->params.max_seconds / x->n, &p.scratch, &p.cl, &p.kd);
    if (source == NULL) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for the sources");
    } else {
        for (uint32_t i = 0; i < x->n; i++)
            source[i] = (struct tk_source){
                .name = x->source[i].hw->name, .train = train_of(&x->source[i]), .valid = valid_of(&x->source[i])};
        x->kb = NULL;
        rc = tk_pretrain(&p, kb, x->done, x->refused, &out, e);
        x->kb = out;
    }
    x->seconds = tp_seconds() - began;
    free(source);
    return rc;
}

/* ---- judge ---- */
static int measure(struct run *x, double *gain, struct tp_err *e)
{
    struct tk_run run = {.seed = 1, .threads = x->d->threads.train};
    double sum = 0;
    int n = 0, rc = 0;

    for (uint32_t i = 0; i < x->n && rc == 0; i++) {
        struct td_source *s = &x->source[i];
        struct tk_set valid = valid_of(s);
        double was, is;

        if (valid.n == 0)
            continue;
        rc = tk_measure(x->kb->model, &valid, &run, &s->after, e);
        if (rc == 0 && x->present != NULL)
            rc = tk_measure(x->present->model, &valid, &run, &s->before, e);
        was = tk_quality(&s->before);
        is = tk_quality(&s->after);
        if (rc == 0 && x->present != NULL && !isnan(was) && !isnan(is)) {
            sum += is - was;
            n++;
        }
    }
    *gain = n > 0 ? sum / n : NAN;
    return rc;
}

/* Probe sets of hardware that the new knowledge base was not made from, but the present one may know. */
static int forgets(struct run *x, struct tp_err *e)
{
    struct tk_run run = {.seed = 1, .threads = 1};
    struct tk_set none = {0};
    uint32_t kept = 0;
    int rc = td_older_load(x->reader, x->hw.family, NULL, td_dialect_features(x->hw.name), &x->older, e);

    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < x->older.n; i++) {
        bool source = false;

        for (uint32_t k = 0; k < x->n; k++)
            source |= strcmp(x->source[k].hw->name, x->older.name[i]) == 0;
        if (!source) { /* to the front; x->older keeps them all, for they are owned */
            struct tk_older other = x->older.of[kept];

            x->older.of[kept++] = x->older.of[i];
            x->older.of[i] = other;
        }
    }
    return tk_accept(x->present->model, x->kb->model, x->older.of, kept, &none, &run, &x->acceptance, e);
}

static int judge(struct run *x, struct tp_err *e)
{
    struct tk_judgement *v = &x->verdict;
    double gain = NAN;
    int rc;

    td_job_phase(x->job, &x->state, "judge", JUDGED);
    rc = measure(x, &gain, e);
    if (rc != 0)
        return rc;
    *v = (struct tk_judgement){.decision = TK_ACTIVATED, .gain = gain};
    if (x->params.never) {
        v->decision = TK_CANDIDATE;
        snprintf(v->reason, sizeof v->reason, "Only a candidate was asked for.");
    } else if (x->present == NULL) {
        snprintf(v->reason, sizeof v->reason,
                 x->present_id != 0 ? "The knowledge base of the family could not be loaded."
                                    : "The family had no knowledge base.");
    } else if (isnan(gain)) {
        v->decision = TK_KEPT_CHAMPION;
        snprintf(v->reason, sizeof v->reason, "Nothing that was held out tells the two apart.");
    } else if (gain < -TK_MARGIN) {
        v->decision = TK_KEPT_CHAMPION;
        snprintf(v->reason, sizeof v->reason,
                 "Quality on the sources' held-out programs changes by %+.4f (limit %.3f).", gain, -TK_MARGIN);
    } else if ((rc = forgets(x, e)) == 0 && !x->acceptance.accepted) {
        v->decision = TK_KEPT_CHAMPION;
        memcpy(v->reason, x->acceptance.reason, sizeof v->reason);
    } else {
        snprintf(v->reason, sizeof v->reason, "Quality on the sources' held-out programs changes by %+.4f.", gain);
    }
    return rc;
}

/* ---- publish ---- */
static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Of all sources, each once. */
static int count_tasks(const struct run *x, int64_t *tasks, struct tp_err *e)
{
    const char **id;
    size_t n = 0, k = 0;

    for (uint32_t i = 0; i < x->n; i++)
        n += x->source[i].set.data.ds->n_tasks;
    if ((id = calloc(n, sizeof *id)) == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to count tasks");
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t t = 0; t < x->source[i].set.data.ds->n_tasks; t++)
            id[k++] = tm_dataset_task_id(x->source[i].set.data.ds, t);
    qsort(id, n, sizeof *id, by_text);
    *tasks = 0;
    for (size_t i = 0; i < n; i++)
        *tasks += i == 0 || strcmp(id[i], id[i - 1]) != 0;
    free(id);
    return 0;
}

/* Of what it has learned: set[n], *k of them. */
static int draw_probes(const struct run *x, struct st_probe_set *set, size_t *k, struct tp_err *e)
{
    int rc = 0;

    for (uint32_t i = 0; i < x->n && rc == 0; i++)
        if (!x->refused[i] &&
            (rc = td_probe_draw(x->source[i].hw, &x->source[i].set, (uint64_t)x->params.seed, &set[*k], e)) == 0)
            (*k)++;
    return rc;
}

struct kb_story {
    struct run *x;
    struct st_model *row;
    struct tm_provenance *p;
};

static int tell(void *arg, bool active, struct tp_err *e)
{
    struct kb_story *k = arg;
    struct run *x = k->x;
    const struct td_pretrained of = {.job = td_job_id(x->job),
                                     .params = &x->params,
                                     .watermark = x->watermark,
                                     .kb = x->kb,
                                     .source = x->source,
                                     .refused = x->refused,
                                     .n = x->n,
                                     .acceptance = &x->acceptance,
                                     .verdict = &x->verdict,
                                     .overtaken = x->verdict.decision == TK_ACTIVATED && !active};
    char *training;

    snprintf(k->row->state, sizeof k->row->state, "%s",
             td_row_state(of.overtaken ? TK_CANDIDATE : x->verdict.decision));
    k->row->metrics = td_pretrained_story(&of, 0);
    training = td_pretrained_story(&of, sizeof k->p->training - 1);
    if (k->row->metrics == NULL || training == NULL || (x->kept = strdup(k->row->metrics)) == NULL) {
        free(training);
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to publish a knowledge base");
    }
    td_fill_training(k->p, training, k->row->id);
    free(training);
    return 0;
}

static int publish(struct run *x, struct tp_err *e)
{
    struct st_model row = {.role = "kb", .job = td_job_id(x->job), .created = (int64_t)time(NULL)};
    struct tm_provenance *p = calloc(1, sizeof *p);
    struct st_probe_set *probe = calloc(x->n, sizeof *probe);
    struct tk_kb *kb = tk_kb_clone(x->kb);
    struct tm_metrics after = td_pretrained_mean(x->source, x->n, true);
    struct kb_story told = {x, &row, p};
    struct td_kb_with with = {.tell = tell, .arg = &told, .probe = probe};
    bool by_record = false;
    int rc = 0;

    td_job_phase(x->job, &x->state, "publish", JUDGED);
    row.parents = strdup("[]");
    if (p == NULL || probe == NULL || kb == NULL || row.parents == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to publish a knowledge base");
    x->active = x->verdict.decision == TK_ACTIVATED;
    if (rc == 0 && x->active)
        rc = draw_probes(x, probe, &with.n_probes, e);
    if (rc == 0)
        rc = count_tasks(x, &row.tasks, e);
    if (rc == 0 && td_job_cancelled(x->job))
        rc = tp_fail(e, TP_E_CANCELLED, "cancelled");
    if (rc == 0)
        rc = st_model_reserve(x->d->store, &row.id, e);
    if (rc != 0)
        goto out;
    td_fill_provenance(p, row.created, (uint64_t)x->params.seed);
    for (uint32_t i = 0; i < x->n; i++) {
        p->records += x->source[i].set.data.records;
        p->programs += (int64_t)x->source[i].set.n_train;
        by_record |= x->source[i].set.by_record;
    }
    td_fill_metrics(p, &after, by_record);
    p->tasks = row.tasks;
    row.records = p->records;
    memcpy(row.owner, x->hw.family, sizeof row.owner);
    rc = td_registry_publish_kb_with(x->d->registry, kb, p, &row, x->present_id, &with, &x->active, e);
    kb = NULL;
    if (rc != 0)
        goto out;
    x->model = row.id;
    td_log(TD_INFO, "knowledge-published", TD_I("model", row.id), TD_S("family", x->hw.family),
           TD_S("active", x->active ? "true" : "false"), TD_I("job", row.job), TD_S("reason", x->verdict.reason));
    if (x->active)
        td_kb_changed(x->d, x->reader, x->hw.family);
out:
    for (size_t i = 0; i < with.n_probes; i++)
        free(probe[i].p);
    free(probe);
    tk_kb_free(kb);
    st_model_clear(&row);
    free(p);
    return rc;
}

static int tell_result(const struct run *x, char **result, struct tp_err *e)
{
    struct tp_buf b = {0};

    tp_buf_put(&b, x->kept, strlen(x->kept) - 1); /* without its last brace */
    tp_buf_printf(&b, ", \"model\": %lld, \"active\": %s, \"champion\": ", (long long)x->model,
                  x->active ? "true" : "false");
    if (x->present_id != 0)
        tp_buf_i64(&b, x->present_id);
    else
        tp_buf_puts(&b, "null");
    td_put_num(&b, "train_seconds", x->seconds);
    tp_buf_putc(&b, '}');
    *result = td_take_text(&b);
    return *result != NULL ? 0
                           : tp_fail(e, TP_E_NO_MEMORY, "model %lld is stored, but there is no memory for the result",
                                     (long long)x->model);
}

static int run_all(struct run *x, char **result, struct tp_err *e)
{
    int rc = td_published_by(x->job, x->reader, "kb", x->hw.family, &x->model, &x->kept, e);
    bool published = rc == 0 && x->model != 0; /* before an interruption: only its end was missing */

    if (rc == 0)
        rc = begin(x, published, e);
    if (published) {
        x->active = td_story_says(x->kept, tk_decision_name(TK_ACTIVATED));
        x->seconds = NAN;
    }
    if (rc == 0 && !published)
        rc = load(x, e);
    if (rc == 0 && !published)
        rc = learn(x, e);
    if (rc == 0 && !published)
        rc = judge(x, e);
    if (rc == 0 && !published)
        rc = publish(x, e);
    return rc == 0 ? tell_result(x, result, e) : rc;
}

int td_pretrain_run(struct td_daemon *d, struct td_job *j, const struct td_train_params *p, char **result,
                    struct tp_err *e)
{
    struct run x = {.d = d, .job = j, .params = *p, .state = {.loss = NAN}};
    struct tclfeat_hw feat;
    int rc = td_job_open(j, d->store, &x.reader, &x.hw, e);

    if (rc == 0) {
        td_hardware_feat(&x.hw, &feat);
        x.kind = feat.kind;
        rc = run_all(&x, result, e);
    }
    for (uint32_t i = 0; i < x.n; i++) {
        td_train_set_free(&x.source[i].set);
        free(x.source[i].lesson);
    }
    free(x.kept);
    free(x.source);
    free(x.refused);
    tk_kb_free(x.kb);
    tk_kb_free(x.present);
    td_older_free(&x.older);
    td_members_free(&x.members);
    td_job_close(x.reader, &x.hw);
    return rc;
}
