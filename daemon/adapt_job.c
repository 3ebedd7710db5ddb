/* Mode "adapt" of retraining: load, the phases of ckd/adapt.h, publish the AC, then the knowledge base.
 *
 * Invariant: a model is published in one step (daemon/registry.h), the AC before the knowledge base, and a job that
 * goes on after a restart looks in the store which of the two it has published already: so whatever is killed when,
 * each is published once or not at all, and nobody ever sees half of one. On a job thread. */
#include "daemon/adapt_job.h"

#include "ckd/adapt.h"
#include "daemon/dialect.h"
#include "daemon/drift.h"
#include "daemon/figures.h"
#include "daemon/fleet.h"
#include "daemon/hardware.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/recalibrate.h"
#include "daemon/registry.h"
#include "daemon/story.h"
#include "daemon/train_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Share of the job's progress at which each phase begins: they take about so long. */
static const struct {
    const char *name;
    double from, to;
} span[] = {{"load", 0, 0.05},     {"probe", 0.05, 0.08},  {"learn", 0.08, 0.6},  {"judge", 0.6, 0.62},
            {"teach", 0.62, 0.92}, {"settle", 0.92, 0.96}, {"publish", 0.96, 1.0}};

struct run {
    struct td_daemon *d;
    struct td_job *job;
    struct td_train_params params;
    struct st_reader *reader;
    struct st_hardware hw;
    struct tclfeat_hw feat;
    struct td_train_set set;
    struct td_older older;
    struct td_peers peers;
    int64_t kb_id;     /* the knowledge base that the job began with; 0 none */
    int64_t watermark; /* newest measurement when it began: none that came later is looked at */
    struct tk_kb *kb;
    struct td_snapshot *champion; /* that answers when the judging begins; NULL none */
    struct td_snapshot *rival;    /* the AC when the job (re)started, fit to be judged in it; NULL none */
    struct tk_adapt_state s;
    char folder[TD_JOB_PATH]; /* "": no state is kept */
    struct td_job_state state;
    char live[160];
    /* publication */
    struct td_verdict verdict;
    struct st_offset *offset;
    size_t n_offsets;
    char *ac_text;            /* what the AC's row keeps: JSON object */
    int64_t ac_id, new_kb_id; /* 0: not stored */
    bool kb_activated;
    struct tp_err kb_failed; /* why what the knowledge base learned is not stored; code 0: nothing failed */
};

/* ---- progress ---- */
static void report(struct run *x, const char *phase, double fraction)
{
    for (size_t i = 0; i < sizeof span / sizeof *span; i++) {
        if (strcmp(span[i].name, phase) != 0)
            continue;
        x->state.phase = span[i].name;
        x->state.progress = span[i].from + (span[i].to - span[i].from) * fraction;
    }
    td_job_progress(x->job, &x->state);
}

static int loading(void *arg, double share)
{
    struct run *x = arg;

    report(x, "load", share);
    return td_job_cancelled(x->job);
}

static int progress(void *arg, const struct tk_progress *p)
{
    struct run *x = arg;
    struct tp_buf b = {0};

    x->state.epoch = p->epoch;
    x->state.loss = p->loss;
    if (!isnan(p->valid_pairwise)) {
        tp_buf_puts(&b, "{\"top1_mean\": ");
        tp_buf_json_num(&b, p->valid_top1, 6);
        td_put_num(&b, "pairwise", p->valid_pairwise);
        td_put_num(&b, "phi", p->phi);
        tp_buf_putc(&b, '}');
        if (!b.oom && b.n < sizeof x->live) {
            memcpy(x->live, b.p, b.n);
            x->live[b.n] = '\0';
            x->state.metrics = x->live;
        }
        tp_buf_free(&b);
    }
    report(x, p->phase, p->fraction);
    return td_job_cancelled(x->job);
}

/* ---- state across restarts ---- */
static int save_note(struct run *x, json_int_t starts, struct tp_err *e)
{
    json_t *o = json_pack("{s:I, s:I, s:I, s:s}", "kb", (json_int_t)x->kb_id, "watermark", (json_int_t)x->watermark,
                          "starts", starts, "phase", tk_phase_name(x->s.phase));
    int rc = o != NULL ? td_job_note(x->folder, o, e) : tp_fail(e, TP_E_NO_MEMORY, "no memory for the state of a job");

    json_decref(o);
    return rc;
}

/* A phase was finished: the starts count anew. */
static int checkpoint(void *arg, const struct tk_adapt_state *s)
{
    struct run *x = arg;
    struct tp_err e = {0};
    int rc = tk_adapt_save(x->folder, s, &e);

    if (rc == 0)
        rc = save_note(x, 1, &e);
    if (rc != 0)
        td_log(TD_WARNING, "job-state-not-kept", TD_I("job", td_job_id(x->job)), TD_S("reason", e.detail));
    report(x, s->phase == TK_PHASE_DONE ? "publish" : tk_phase_name(s->phase), 0);
    return rc == -TP_E_DISK_FULL ? rc : 0; /* an older state is there still, and good */
}

/* What the job works with, from its first start to its end. */
static int begin(struct run *x, struct tp_err *e)
{
    struct st_counts c;
    int rc = st_family_kb(x->reader, x->hw.family, &x->kb_id, e);

    if (rc == 0)
        rc = st_hardware_counts(x->reader, x->hw.id, &c, e);
    if (rc == 0)
        x->watermark = c.newest_measurement_id;
    return rc == 0 && x->folder[0] != '\0' ? save_note(x, 1, e) : rc;
}

/* What is there of an earlier start. */
static int recall(struct run *x, struct tp_err *e)
{
    json_t *note = NULL;
    const char *phase;
    json_int_t starts = 0;
    int rc;

    rc = td_job_keep(x->job, x->folder, e);
    if (rc == 0 && x->folder[0] != '\0')
        note = td_job_noted(x->folder);
    if (rc != 0 || note == NULL)
        return rc != 0 ? rc : begin(x, e);
    x->kb_id = json_integer_value(json_object_get(note, "kb"));
    x->watermark = json_integer_value(json_object_get(note, "watermark"));
    rc = tk_adapt_load(x->folder, &x->s, e);
    rc = rc < 0 ? rc : 0;
    phase = json_string_value(json_object_get(note, "phase"));
    if (phase != NULL && strcmp(phase, tk_phase_name(x->s.phase)) == 0)
        starts = json_integer_value(json_object_get(note, "starts"));
    if (rc == 0 && starts >= TD_ADAPT_STARTS)
        rc = tp_fail(e, TP_E_INTERRUPTED, "tcld stopped %d times while the job was in phase \"%s\"", TD_ADAPT_STARTS,
                     tk_phase_name(x->s.phase));
    if (rc == 0)
        rc = save_note(x, starts + 1, e);
    json_decref(note);
    return rc;
}

/* ---- load ---- */
static int load(struct run *x, struct tp_err *e)
{
    struct td_train_want want = {.hw = &x->hw,
                                 .features = td_dialect_features(x->hw.name),
                                 .per_task = (uint32_t)x->params.per_task,
                                 .seed = (uint64_t)x->params.seed,
                                 .upto = x->watermark,
                                 .progress = loading,
                                 .arg = x};
    int rc = 0;

    report(x, "load", 0);
    if (x->kb_id != 0)
        rc = td_registry_load_kb(x->d->registry, x->reader, x->kb_id, &x->kb, e);
    if (rc != 0)
        return rc;
    if (x->kb != NULL)
        want.features = x->kb->model->features;
    rc = td_train_set_load(x->reader, &want, &x->set, e);
    if (rc == 0)
        rc = td_older_load(x->reader, x->hw.family, x->hw.name, want.features, &x->older, e);
    if (rc == 0)
        rc = td_peers_load(x->d, x->reader, &x->hw, want.features, &x->peers, e);
    return rc;
}

/* The present AC can be judged within the job when it has the same features, and was not trained on what is held out
 * now. Any other is judged when the AC is published (td_train_judge()), which knows how. */
static int find_rival(struct run *x, struct tp_err *e)
{
    struct td_snapshot *s = NULL;
    int rc = td_registry_acquire(x->d->registry, x->hw.name, x->hw.family, "ac", &s, e);

    if (rc == -TP_E_NO_MODEL)
        return 0;
    if (rc != 0)
        return rc;
    if (s->model->features == x->set.data.ds->features &&
        (x->set.by_record || strcmp(td_model_holdout(x->reader, s->id), "record") != 0))
        x->rival = s;
    else
        td_registry_release(s);
    return 0;
}

/* ---- the phases ---- */
static int adapt(struct run *x, struct tp_err *e)
{
    struct tk_adapt a;
    int rc = 0;

    tk_adapt_defaults(&a);
    a.kind = x->feat.kind;
    a.kb = x->kb;
    a.champion = x->rival != NULL ? x->rival->model : NULL;
    a.train = (struct tk_set){x->set.data.ds, x->set.train, x->set.n_train};
    a.valid = (struct tk_set){x->set.data.ds, x->set.valid, x->set.n_valid};
    a.older = x->older.of;
    a.n_older = x->older.n;
    a.peers = x->peers.of;
    a.n_peers = x->peers.n;
    a.keep_kb = x->params.never;
    a.run = (struct tk_run){
        .seed = (uint64_t)x->params.seed, .threads = x->d->threads.train, .progress = progress, .arg = x};
    td_phases_limit(&x->params, x->params.max_seconds, &a.scratch, &a.cl, &a.kd);
    if (x->folder[0] != '\0') {
        a.checkpoint = checkpoint;
        a.checkpoint_arg = x;
    }
    report(x, x->s.phase == TK_PHASE_DONE ? "publish" : tk_phase_name(x->s.phase), 0);
    if (x->s.phase == TK_PHASE_PROBE)
        rc = td_transfers_measure(x->d, x->job, x->reader, &x->hw, &x->set, &a.run, e);
    return rc != 0 ? rc : tk_adapt(&a, &x->s, e);
}

/* ---- texts ---- */
static const char *start_name(const struct run *x)
{
    return tk_adapt_is_warm(&x->s) ? "warm" : "scratch";
}

/* , "name": "text", null when there is none */
static void put_name(struct tp_buf *b, const char *name, const char *text)
{
    tp_buf_printf(b, ", \"%s\": ", name);
    if (text != NULL && text[0] != '\0')
        tp_buf_printf(b, "\"%s\"", text);
    else
        tp_buf_puts(b, "null");
}

/* How the AC came about, without braces. */
static void put_ac_story(struct tp_buf *b, const struct run *x)
{
    td_train_put_verdict(b, &x->verdict, x->set.by_record, x->champion);
    tp_buf_puts(b, ", ");
    td_put_origin(b, &x->params, x->set.watermark);
    tp_buf_puts(b, ", \"gate\": ");
    td_put_gate(b, &x->s.verdict);
    put_name(b, "peer", x->s.source);
    put_name(b, "source", tk_adapt_is_warm(&x->s) ? x->s.source : NULL);
    tp_buf_puts(b, ", \"kb_gate\": ");
    td_put_gate(b, &x->s.kb_verdict);
    tp_buf_puts(b, ", \"learned\": {");
    td_put_learned(b, &x->s.cl);
    tp_buf_printf(b, ", \"from_start\": %s}, \"start\": \"%s\", \"rivals\": ", x->s.from_start ? "true" : "false",
                  start_name(x));
    td_put_contest(b, &x->s.contest);
    tp_buf_puts(b, ", \"against_kb\": ");
    if (x->s.kb_metrics.tasks == 0) {
        tp_buf_puts(b, "null");
        return;
    }
    tp_buf_printf(b, "{\"decision\": \"%s\", \"reason\": \"%s\"", tk_decision_name(x->s.over_kb.decision),
                  x->s.over_kb.reason);
    td_put_num(b, "gain", x->s.over_kb.gain);
    tp_buf_puts(b, ", \"kb\": ");
    td_put_brief(b, &x->s.kb_metrics);
    tp_buf_putc(b, '}');
}

static const char *kb_decision(const struct run *x)
{
    if (x->new_kb_id != 0)
        return !x->kb_activated ? "overtaken" : x->kb_id == 0 ? "founded" : "accepted";
    if (x->s.new_kb != NULL)
        return x->kb_failed.code != 0 ? "not-stored" : "withdrawn";
    return x->s.attempts > 0 ? "refused" : "untouched";
}

/* Why there was no lesson, or how it was judged and what became of it. */
static void put_kb_reason(struct tp_buf *b, const struct run *x)
{
    char text[sizeof x->s.acceptance.reason + sizeof x->kb_failed.detail + 64];
    const char *decision = kb_decision(x);
    const char *then = strcmp(decision, "overtaken") == 0   ? " Another knowledge base was activated meanwhile."
                       : strcmp(decision, "withdrawn") == 0 ? " But the model that taught it does not answer."
                                                            : "";

    if (strcmp(decision, "untouched") == 0)
        snprintf(text, sizeof text, "%s",
                 !x->s.activated   ? "The model does not answer, so it teaches nobody."
                 : x->params.never ? "Only a candidate was asked for."
                 : tk_adapt_is_warm(&x->s) && tk_adapt_few(&x->s)
                     ? "Fewer than 8 tasks were measured: they do not teach."
                     : "The gate or the rivals keep the two apart.");
    else if (strcmp(decision, "not-stored") == 0)
        snprintf(text, sizeof text, "%s It could not be stored: %s.", x->s.acceptance.reason, x->kb_failed.detail);
    else
        snprintf(text, sizeof text, "%s%s", x->s.acceptance.reason, then);
    tp_buf_puts(b, ", \"reason\": ");
    tp_buf_json_str(b, text, strlen(text));
}

/* What became of the knowledge base, without braces. */
static void put_kb_story(struct tp_buf *b, const struct run *x)
{
    const struct tk_acceptance *a = &x->s.acceptance;
    bool told = x->s.attempts > 0 && !isnan(a->drop) && a->worst < x->older.n;

    td_put_lesson(b, &x->s);
    put_name(b, "worst", told ? x->older.name[a->worst] : NULL);
    put_kb_reason(b, x);
}

/* ---- publication ---- */
static int judge(struct run *x, struct tp_err *e)
{
    struct td_verdict *v = &x->verdict;
    /* the present AC; the knowledge base, which answers where there is none, was its rival within the job */
    int rc = td_registry_acquire(x->d->registry, x->hw.name, x->hw.family, "ac", &x->champion, e);

    if (rc != 0 && rc != -TP_E_NO_MODEL)
        return rc;
    rc = td_train_judge(x->reader, &x->hw, &x->set, x->s.ac, x->champion, x->params.never, v, e);
    if (rc == 0 && v->judgement.decision == TK_ACTIVATED && !x->s.activated) {
        /* it must beat the knowledge base as well, and the AC that was there when it began */
        v->judgement = x->s.over_kb.decision == TK_ACTIVATED ? x->s.over_champion : x->s.over_kb;
    }
    return rc;
}

/* The model that the AC began with; 0 none. */
static int64_t parent_of(const struct run *x)
{
    if (!tk_adapt_is_warm(&x->s))
        return x->s.from_start ? x->kb_id : 0;
    return x->s.source[0] != '\0' ? x->s.source_id : x->kb_id;
}

static int publish_ac(struct run *x, struct tp_err *e)
{
    struct st_model row = {
        .role = "ac", .job = td_job_id(x->job), .records = x->set.data.records, .tasks = x->set.data.ds->n_tasks};
    struct tm_provenance *p = calloc(1, sizeof *p);
    struct tm_model *m = NULL;
    struct tp_buf b = {0};
    char *training = NULL;
    int64_t parent = parent_of(x);
    bool activate;
    int rc;

    rc = judge(x, e);
    if (rc == 0)
        rc = td_train_offsets(x->s.ac, &x->set.data, &x->offset, &x->n_offsets, e);
    if (rc == 0 && td_job_cancelled(x->job))
        rc = tp_fail(e, TP_E_CANCELLED, "cancelled");
    if (rc == 0)
        rc = st_model_reserve(x->d->store, &row.id, e);
    if (rc != 0)
        goto out;
    activate = x->verdict.judgement.decision == TK_ACTIVATED;
    row.created = (int64_t)time(NULL);
    memcpy(row.owner, x->hw.name, sizeof row.owner);
    snprintf(row.state, sizeof row.state, "%s", td_row_state(x->verdict.judgement.decision));
    tp_buf_putc(&b, '{');
    put_ac_story(&b, x);
    tp_buf_putc(&b, '}');
    row.metrics = td_take_text(&b);
    row.parents = td_ids_text(&parent, parent != 0);
    training = td_story_file(x->job, x->hw.name, row.metrics);
    m = tm_model_clone(x->s.ac);
    if (p == NULL || m == NULL || training == NULL || row.parents == NULL ||
        (x->ac_text = strdup(row.metrics)) == NULL) {
        tm_model_free(m);
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to publish a model");
        goto out;
    }
    td_fill_provenance(p, row.created, (uint64_t)x->params.seed);
    td_fill_training(p, training, row.id);
    td_fill_metrics(p, &x->verdict.challenger, x->set.by_record);
    td_fill_made_of(p, &x->set, &parent, parent != 0);
    if (activate)
        td_drift_trained(x->d->drift, x->hw.name, x->set.watermark);
    rc = td_registry_publish_with(x->d->registry, m, p, &row, x->hw.id, activate, x->offset, x->n_offsets, e);
    if (rc != 0)
        goto out;
    x->ac_id = row.id;
    td_log(TD_INFO, "model-published", TD_I("model", row.id), TD_S("hardware", x->hw.name), TD_S("state", row.state),
           TD_I("job", row.job), TD_S("reason", x->verdict.judgement.reason));
    if (activate && x->d->metrics != NULL)
        td_count(x->d->metrics, TD_C_SWAPS, 1);
    if (activate)
        td_recal_note(x->d->recal, x->hw.name); /* what was measured while it trained */
    td_train_keep_verdict(x->d, x->job, x->reader, &x->hw, &x->verdict, x->set.by_record, row.id, x->champion);
out:
    st_model_clear(&row);
    free(training);
    free(p);
    return rc;
}

/* How the new knowledge base came about, without braces. */
static void put_new_kb(struct tp_buf *b, const struct run *x)
{
    td_put_origin(b, &x->params, x->set.watermark);
    tp_buf_printf(b, ", \"decision\": \"%s\", \"gate\": ", kb_decision(x));
    td_put_gate(b, &x->s.kb_verdict);
    tp_buf_puts(b, ", \"learned\": {");
    td_put_learned(b, x->kb_id == 0 ? &x->s.cl : &x->s.kd);
    tp_buf_puts(b, "}, \"acceptance\": {");
    put_kb_story(b, x);
    tp_buf_puts(b, "}, \"before\": ");
    td_put_brief(b, &x->s.kb_metrics);
    tp_buf_puts(b, ", \"after\": ");
    td_put_brief(b, x->kb_id == 0 ? &x->s.ac_metrics : &x->s.new_kb_metrics);
}

/* Of the knowledge base that is published. */
struct kb_story {
    struct run *x;
    struct st_model *row;
    struct tm_provenance *p;
    const char *older; /* td_put_older() */
};

static int tell_kb(void *arg, bool active, struct tp_err *e)
{
    struct kb_story *k = arg;
    struct tp_buf b = {0};
    char *kept, *training;
    int rc = 0;

    k->x->kb_activated = active;
    tp_buf_putc(&b, '{');
    put_new_kb(&b, k->x);
    tp_buf_putc(&b, '}');
    kept = td_take_text(&b);
    training = td_story_file(k->x->job, k->x->hw.name, kept);
    if (training != NULL)
        tp_buf_printf(&b, "%.*s, \"hardware\": \"%s\", \"older\": %s}", (int)strlen(kept) - 1, kept, k->x->hw.name,
                      k->older);
    k->row->metrics = td_take_text(&b);
    snprintf(k->row->state, sizeof k->row->state, "%s", td_row_state(active ? TK_ACTIVATED : TK_CANDIDATE));
    if (training == NULL || k->row->metrics == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to publish a knowledge base");
    else
        td_fill_training(k->p, training, k->row->id);
    free(kept);
    free(training);
    return rc;
}

static int publish_kb(struct run *x, struct tp_err *e)
{
    struct st_model row = {
        .role = "kb", .job = td_job_id(x->job), .records = x->set.data.records, .tasks = x->set.data.ds->n_tasks};
    struct tm_provenance *p = calloc(1, sizeof *p);
    struct st_probe_set probe = {0};
    struct tk_kb *kb = NULL;
    struct tp_buf b = {0};
    char *older = NULL;
    struct kb_story story = {.x = x, .row = &row, .p = p};
    int64_t parents[2] = {x->ac_id, x->kb_id};
    int rc;

    rc = td_probe_draw(&x->hw, &x->set, (uint64_t)x->params.seed, &probe, e);
    if (rc == 0)
        rc = st_model_reserve(x->d->store, &row.id, e);
    if (rc == 0)
        rc = td_put_older(&b, &x->older, x->kb != NULL ? x->kb->model : NULL, x->s.new_kb->model, e);
    if (rc != 0)
        goto out;
    row.created = (int64_t)time(NULL);
    memcpy(row.owner, x->hw.family, sizeof row.owner);
    row.parents = td_ids_text(parents, x->kb_id != 0 ? 2 : 1);
    story.older = older = td_take_text(&b);
    kb = tk_kb_clone(x->s.new_kb);
    if (p == NULL || kb == NULL || row.parents == NULL || older == NULL) {
        tk_kb_free(kb);
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to publish a knowledge base");
        goto out;
    }
    td_fill_provenance(p, row.created, (uint64_t)x->params.seed);
    td_fill_metrics(p, x->kb_id == 0 ? &x->s.ac_metrics : &x->s.new_kb_metrics, x->set.by_record);
    td_fill_made_of(p, &x->set, parents, x->kb_id != 0 ? 2 : 1);
    x->kb_activated = true;
    x->new_kb_id = row.id;
    rc = td_registry_publish_kb_with(
        x->d->registry, kb, p, &row, x->kb_id,
        &(struct td_kb_with){.tell = tell_kb, .arg = &story, .probe = &probe, .n_probes = 1}, &x->kb_activated, e);
    if (rc != 0)
        goto out;
    td_log(TD_INFO, "knowledge-published", TD_I("model", row.id), TD_S("family", x->hw.family),
           TD_S("hardware", x->hw.name), TD_S("active", x->kb_activated ? "true" : "false"), TD_I("job", row.job),
           TD_S("reason", x->s.acceptance.reason));
    if (x->kb_activated)
        td_kb_changed(x->d, x->reader, x->hw.family);
out:
    if (rc != 0)
        x->new_kb_id = 0;
    tp_buf_free(&b);
    st_model_clear(&row);
    free(probe.p);
    free(older);
    free(p);
    return rc;
}

/* An earlier start may have published the one, or both. */
static int publish(struct run *x, struct tp_err *e)
{
    char *kept = NULL;
    int rc;

    report(x, "publish", 0);
    rc = td_published_by(x->job, x->reader, "ac", x->hw.name, &x->ac_id, &x->ac_text, e);
    if (rc == 0 && x->ac_id == 0)
        rc = publish_ac(x, e);
    else if (rc == 0 && !td_story_says(x->ac_text, tk_decision_name(TK_ACTIVATED)))
        x->verdict.judgement.decision = TK_KEPT_CHAMPION;
    if (rc != 0 || x->s.new_kb == NULL || x->verdict.judgement.decision != TK_ACTIVATED)
        return rc;
    rc = td_published_by(x->job, x->reader, "kb", x->hw.family, &x->new_kb_id, &kept, e);
    if (rc == 0 && x->new_kb_id == 0) {
        /* the AC answers, which is what was asked for: the job is no failure for want of the other */
        if (publish_kb(x, &x->kb_failed) != 0)
            td_log(TD_WARNING, "knowledge-not-stored", TD_S("family", x->hw.family), TD_S("hardware", x->hw.name),
                   TD_I("job", td_job_id(x->job)), TD_S("reason", x->kb_failed.detail));
    } else if (rc == 0) {
        x->kb_activated = !td_story_says(kept, "overtaken");
    }
    free(kept);
    return rc;
}

static char *result_text(const struct run *x)
{
    struct tp_buf b = {0};

    td_put_result(&b, x->ac_text, x->ac_id, &x->set, &x->s.cl,
                  x->s.cl.seconds + (x->s.attempts > 0 ? x->s.kd.seconds : 0));
    tp_buf_printf(&b, ", \"kb\": {\"decision\": \"%s\", \"model\": ", kb_decision(x));
    if (x->new_kb_id != 0)
        tp_buf_i64(&b, x->new_kb_id);
    else
        tp_buf_puts(&b, "null");
    tp_buf_puts(&b, ", ");
    put_kb_story(&b, x);
    tp_buf_puts(&b, "}}");
    return td_take_text(&b);
}

int td_adapt_run(struct td_daemon *d, struct td_job *j, const struct td_train_params *p, char **result,
                 struct tp_err *e)
{
    struct run x = {.d = d, .job = j, .params = *p, .state = {.loss = NAN}};
    int rc = td_job_open(j, d->store, &x.reader, &x.hw, e);

    if (rc == 0) {
        td_hardware_feat(&x.hw, &x.feat);
        rc = recall(&x, e);
    }
    if (rc == 0)
        rc = load(&x, e);
    if (rc == 0)
        rc = find_rival(&x, e);
    if (rc == 0)
        rc = adapt(&x, e);
    if (rc == 0)
        rc = publish(&x, e);
    if (rc == 0 && (*result = result_text(&x)) == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "model %lld is stored, but there is no memory for the result",
                     (long long)x.ac_id);
    td_registry_release(x.champion);
    td_registry_release(x.rival);
    tk_adapt_state_free(&x.s);
    tk_kb_free(x.kb);
    td_older_free(&x.older);
    td_peers_free(&x.peers);
    td_train_set_free(&x.set);
    free(x.offset);
    free(x.ac_text);
    td_job_close(x.reader, &x.hw);
    return rc;
}
