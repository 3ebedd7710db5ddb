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

struct source {
    struct st_hardware *hw; /* borrowed */
    struct td_train_set set;
    struct tm_metrics before, after;
};

struct run {
    struct td_daemon *d;
    struct td_job *job;
    struct td_train_params params;
    struct st_reader *reader;
    struct st_hardware hw;
    enum tp_target_kind kind;
    struct td_members members;
    struct source *source; /* [n] */
    bool *refused;         /* [n] of those that are done */
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
    struct td_older older; /* probe sets of hardware that is no source */
    struct tk_judgement verdict;
    int64_t model;
    bool active;
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
    json_t *sources = json_array(), *refused = json_array(), *o;
    int rc;

    for (uint32_t i = 0; i < x->n; i++)
        json_array_append_new(sources, json_string(x->source[i].hw->name));
    for (uint32_t i = 0; i < x->done; i++)
        json_array_append_new(refused, json_boolean(x->refused[i]));
    o = json_pack("{s:I, s:I, s:I, s:I, s:o, s:o}", "starts", starts, "done", (json_int_t)x->done, "present",
                  (json_int_t)x->present_id, "watermark", (json_int_t)x->watermark, "sources", sources, "refused",
                  refused);
    rc = o != NULL ? td_job_note(x->folder, o, e) : tp_fail(e, TP_E_NO_MEMORY, "no memory for the state of a job");
    json_decref(o);
    return rc;
}

static bool kb_path(const struct run *x, uint32_t done, char *path, size_t n)
{
    return snprintf(path, n, "%s/kb-%u.safetensors", x->folder, done) < (int)n;
}

static int checkpoint(void *arg, const struct tk_kb *kb, uint32_t done)
{
    struct run *x = arg;
    struct tp_err e = {0};
    char path[TD_JOB_PATH + 32], old[TD_JOB_PATH + 32];
    int rc = 0;

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
    const json_t *sources = json_object_get(note, "sources"), *refused = json_object_get(note, "refused");
    json_int_t starts = json_integer_value(json_object_get(note, "starts"));
    char path[TD_JOB_PATH + 32];

    for (size_t i = 0; i < json_array_size(sources) && i < TK_OLDER_MAX; i++) {
        const char *name = json_string_value(json_array_get(sources, i));

        x->refused[i] = json_is_true(json_array_get(refused, i));
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
static struct tk_set train_of(const struct source *s)
{
    return (struct tk_set){s->set.data.ds, s->set.train, s->set.n_train};
}

static struct tk_set valid_of(const struct source *s)
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
        struct source *s = &x->source[i];
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
static int forgets(struct run *x, struct tk_acceptance *a, struct tp_err *e)
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
    return tk_accept(x->present->model, x->kb->model, x->older.of, kept, &none, &run, a, e);
}

static int judge(struct run *x, struct tp_err *e)
{
    struct tk_judgement *v = &x->verdict;
    struct tk_acceptance a;
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
    } else if ((rc = forgets(x, &a, e)) == 0 && !a.accepted) {
        v->decision = TK_KEPT_CHAMPION;
        memcpy(v->reason, a.reason, sizeof v->reason);
    } else {
        snprintf(v->reason, sizeof v->reason, "Quality on the sources' held-out programs changes by %+.4f.", gain);
    }
    return rc;
}

/* ---- publish ---- */
/* Without braces. */
static void put_story(struct tp_buf *b, const struct run *x, bool brief)
{
    tp_buf_printf(b, "\"mode\": \"pretrain\", \"decision\": \"%s\", \"reason\": \"%s\"",
                  tk_decision_name(x->verdict.decision), x->verdict.reason);
    td_put_num(b, "gain", x->verdict.gain);
    tp_buf_printf(b, ", \"watermark\": %lld, \"phases\": %u, \"initial_weights\": %s, \"sources\": [",
                  (long long)x->watermark, x->kb->phases, x->kb->start != NULL ? "true" : "false");
    for (uint32_t i = 0; i < x->n; i++) {
        const struct source *s = &x->source[i];

        if (brief) {
            tp_buf_printf(b, "%s{\"hardware\": \"%s\", \"programs\": %zu, \"learned\": %s}", i > 0 ? ", " : "",
                          s->hw->name, s->set.n_train, x->refused[i] ? "false" : "true");
            continue;
        }
        tp_buf_printf(b, "%s{\"hardware\": \"%s\", \"programs\": %zu, \"tasks\": %u, \"learned\": %s, \"before\": ",
                      i > 0 ? ", " : "", s->hw->name, s->set.n_train, s->set.data.ds->n_tasks,
                      x->refused[i] ? "false" : "true");
        td_put_brief(b, &s->before);
        tp_buf_puts(b, ", \"after\": ");
        td_put_brief(b, &s->after);
        tp_buf_putc(b, '}');
    }
    tp_buf_putc(b, ']');
}

static char *story(const struct run *x, bool brief)
{
    struct tp_buf b = {0};

    tp_buf_printf(&b, "{\"job\": %lld, ", (long long)td_job_id(x->job));
    put_story(&b, x, brief);
    tp_buf_putc(&b, '}');
    return td_take_text(&b);
}

static int publish(struct run *x, struct tp_err *e)
{
    static const char *const state[] = {
        [TK_ACTIVATED] = "published", [TK_KEPT_CHAMPION] = "rejected", [TK_CANDIDATE] = "candidate"};
    struct st_model row = {.role = "kb", .job = td_job_id(x->job), .created = (int64_t)time(NULL)};
    struct tm_provenance *p = calloc(1, sizeof *p);
    struct tk_kb *kb = tk_kb_clone(x->kb);
    char *training = story(x, true);
    int rc = 0;

    td_job_phase(x->job, &x->state, "publish", JUDGED);
    row.metrics = story(x, false);
    row.parents = strdup("[]");
    if (p == NULL || kb == NULL || training == NULL || row.metrics == NULL || row.parents == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to publish a knowledge base");
    x->active = x->verdict.decision == TK_ACTIVATED;
    for (uint32_t i = 0; i < x->n && x->active && rc == 0; i++)
        if (!x->refused[i] && (rc = td_probe_keep(x->d->store, x->source[i].hw, &x->source[i].set,
                                                  (uint64_t)x->params.seed, e)) == -TP_E_UNKNOWN_HARDWARE)
            rc = 0; /* deleted meanwhile */
    if (rc == 0 && td_job_cancelled(x->job))
        rc = tp_fail(e, TP_E_CANCELLED, "cancelled");
    if (rc == 0)
        rc = st_model_reserve(x->d->store, &row.id, e);
    if (rc != 0)
        goto out;
    td_fill_provenance(p, row.created, (uint64_t)x->params.seed);
    td_fill_training(p, training);
    for (uint32_t i = 0; i < x->n; i++) {
        p->records += x->source[i].set.data.records;
        p->programs += (int64_t)x->source[i].set.n_train;
        p->tasks += x->source[i].set.data.ds->n_tasks;
    }
    row.records = p->records;
    row.tasks = p->tasks;
    memcpy(row.owner, x->hw.family, sizeof row.owner);
    snprintf(row.state, sizeof row.state, "%s", state[x->verdict.decision]);
    rc = td_registry_publish_kb(x->d->registry, kb, p, &row, x->present_id, &x->active, e);
    kb = NULL;
    if (rc != 0)
        goto out;
    x->model = row.id;
    td_log(TD_INFO, "knowledge-published", TD_I("model", row.id), TD_S("family", x->hw.family),
           TD_S("active", x->active ? "true" : "false"), TD_I("job", row.job), TD_S("reason", x->verdict.reason));
    if (x->active)
        td_kb_changed(x->d, x->reader, x->hw.family);
out:
    tk_kb_free(kb);
    st_model_clear(&row);
    free(training);
    free(p);
    return rc;
}

static char *result_text(const struct run *x, const char *kept)
{
    struct tp_buf b = {0};
    size_t n = strlen(kept);

    tp_buf_put(&b, kept, n > 0 ? n - 1 : 0); /* without its last brace */
    tp_buf_printf(&b, ", \"model\": %lld, \"active\": %s, \"champion\": ", (long long)x->model,
                  x->active ? "true" : "false");
    if (x->present_id != 0)
        tp_buf_i64(&b, x->present_id);
    else
        tp_buf_puts(&b, "null");
    td_put_num(&b, "train_seconds", x->seconds);
    tp_buf_putc(&b, '}');
    return td_take_text(&b);
}

/* Before an interruption it was published already: only its end was missing. */
static int tell_again(struct run *x, const char *kept, char **result, struct tp_err *e)
{
    int64_t active = 0;
    int rc = st_family_kb(x->reader, x->hw.family, &active, e);

    x->active = active == x->model;
    x->seconds = NAN;
    *result = rc == 0 ? result_text(x, kept) : NULL;
    return rc == 0 && *result == NULL ? tp_fail(e, TP_E_NO_MEMORY, "no memory for the result") : rc;
}

static int run_all(struct run *x, char **result, struct tp_err *e)
{
    char *kept = NULL;
    int rc = td_published_by(x->job, x->reader, "kb", x->hw.family, &x->model, &kept, e);

    if (rc == 0)
        rc = begin(x, x->model != 0, e);
    if (rc == 0 && x->model != 0) {
        rc = tell_again(x, kept, result, e);
        free(kept);
        return rc;
    }
    if (rc == 0)
        rc = load(x, e);
    if (rc == 0)
        rc = learn(x, e);
    if (rc == 0)
        rc = judge(x, e);
    if (rc == 0)
        rc = publish(x, e);
    if (rc == 0 && ((kept = story(x, false)) == NULL || (*result = result_text(x, kept)) == NULL))
        rc = tp_fail(e, TP_E_NO_MEMORY, "model %lld is stored, but there is no memory for the result",
                     (long long)x->model);
    free(kept);
    return rc;
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
    for (uint32_t i = 0; i < x.n; i++)
        td_train_set_free(&x.source[i].set);
    free(x.source);
    free(x.refused);
    tk_kb_free(x.kb);
    tk_kb_free(x.present);
    td_older_free(&x.older);
    td_members_free(&x.members);
    td_job_close(x.reader, &x.hw);
    return rc;
}
