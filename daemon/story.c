/* Where models come from (daemon/story.h). Any thread. */
#include "daemon/story.h"

#include "daemon/figures.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/recalibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void td_put_origin(struct tp_buf *b, const struct td_train_params *p, int64_t watermark)
{
    tp_buf_printf(b, "\"mode\": \"%s\", \"seed\": %lld, \"watermark\": %lld", td_train_mode_name(p->mode),
                  (long long)p->seed, (long long)watermark);
}

void td_put_learned(struct tp_buf *b, const struct tk_learned *l)
{
    tp_buf_printf(b, "\"epoch\": %d, \"epochs\": %d", l->epoch, l->epochs);
    td_put_num(b, "loss", l->loss);
    td_put_num(b, "phi", l->phi);
    td_put_num(b, "seconds", l->seconds);
}

void td_put_lesson(struct tp_buf *b, const struct tk_adapt_state *s)
{
    bool tried = s->attempts > 0;

    tp_buf_printf(b, "\"attempts\": %d", s->attempts);
    td_put_num(b, "lambda", tried ? s->lambda : NAN);
    td_put_num(b, "drop", tried ? s->acceptance.drop : NAN);
    td_put_num(b, "pairwise_drop", tried ? s->acceptance.pairwise_drop : NAN);
    td_put_num(b, "balance", tried ? s->acceptance.balance : NAN);
    td_put_num(b, "gain", tried ? s->acceptance.gain : NAN);
}

void td_put_gate(struct tp_buf *b, const struct tk_verdict *v)
{
    tp_buf_printf(b, "{\"decision\": \"%s\"", tk_gate_name(v->gate));
    td_put_num(b, "concordance", v->concordance.mean);
    td_put_num(b, "lower", v->concordance.lower);
    tp_buf_printf(b, ", \"tasks\": %u, \"programs\": %u, \"reason\": \"%s\"}", v->concordance.tasks,
                  v->concordance.programs, v->reason);
}

void td_put_contest(struct tp_buf *b, const struct tk_contest *c)
{
    if (c->tasks == 0) {
        tp_buf_puts(b, "null");
        return;
    }
    tp_buf_printf(b, "{\"winner\": \"%s\", \"tasks\": %u", tk_rival_name(c->winner), c->tasks);
    td_put_num(b, "behind", c->behind);
    td_put_num(b, "error", c->error);
    tp_buf_puts(b, ", \"quality\": {");
    for (int r = 0, n = 0; r < TK_RIVAL_COUNT; r++)
        if (!isnan(c->quality[r])) {
            tp_buf_printf(b, "%s\"%s\": ", n++ ? ", " : "", tk_rival_name((enum tk_rival)r));
            tp_buf_json_num(b, c->quality[r], 6);
        }
    tp_buf_puts(b, "}}");
}

void td_put_brief(struct tp_buf *b, const struct tm_metrics *m)
{
    if (m->tasks == 0) {
        tp_buf_puts(b, "null");
        return;
    }
    tp_buf_printf(b, "{\"tasks\": %u, \"programs\": %u", m->tasks, m->programs);
    td_put_num(b, "top1_mean", m->top1_mean);
    td_put_num(b, "pairwise", m->pairwise);
    tp_buf_putc(b, '}');
}

static int put_one(struct tp_buf *b, const struct td_older *o, uint32_t i, const struct tm_model *was,
                   const struct tm_model *is, struct tp_err *e)
{
    struct tk_run run = {.seed = 1, .threads = 1};
    struct tm_metrics before, after;
    struct tk_set all = {0};
    int rc = tk_set_join(&o->of[i].learned, &o->of[i].held_out, &all, e);

    if (rc == 0)
        rc = tk_measure(was, &all, &run, &before, e);
    if (rc == 0)
        rc = tk_measure(is, &all, &run, &after, e);
    free((void *)all.programs);
    if (rc != 0)
        return rc;
    tp_buf_printf(b, "{\"hardware\": \"%s\", \"before\": ", o->name[i]);
    td_put_brief(b, &before);
    tp_buf_puts(b, ", \"after\": ");
    td_put_brief(b, &after);
    tp_buf_putc(b, '}');
    return 0;
}

int td_put_older(struct tp_buf *b, const struct td_older *o, const struct tm_model *was, const struct tm_model *is,
                 struct tp_err *e)
{
    int rc = 0;

    tp_buf_putc(b, '[');
    for (uint32_t i = 0; i < o->n && was != NULL && rc == 0; i++) {
        tp_buf_puts(b, i > 0 ? ", " : "");
        rc = put_one(b, o, i, was, is, e);
    }
    tp_buf_putc(b, ']');
    return rc;
}

void td_fill_provenance(struct tm_provenance *p, int64_t created, uint64_t seed)
{
    time_t t = (time_t)created;
    struct tm tm;

    *p = (struct tm_provenance){.seed = seed};
    if (gmtime_r(&t, &tm) != NULL)
        strftime(p->created, sizeof p->created, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

void td_fill_made_of(struct tm_provenance *p, const struct td_train_set *set, const int64_t *parents, int n)
{
    p->records = set->data.records;
    p->programs = (int64_t)set->n_train;
    p->tasks = set->data.ds->n_tasks;
    for (int i = 0; i < n; i++)
        p->parents[p->n_parents++] = parents[i];
}

void td_fill_metrics(struct tm_provenance *p, const struct tm_metrics *m, bool by_record)
{
    struct tp_buf b = {0};

    tp_buf_printf(&b, "{\"holdout\": \"%s\"", by_record ? "record" : "task");
    td_put_num(&b, "top1_mean", m->top1_mean);
    td_put_num(&b, "top5_mean", m->top5_mean);
    td_put_num(&b, "pairwise", m->pairwise);
    tp_buf_putc(&b, '}');
    if (!b.oom && b.n < sizeof p->metrics)
        memcpy(p->metrics, b.p, b.n);
    tp_buf_free(&b);
}

char *td_ids_text(const int64_t *id, int n)
{
    struct tp_buf b = {0};

    tp_buf_putc(&b, '[');
    for (int i = 0; i < n; i++)
        tp_buf_printf(&b, "%s%lld", i > 0 ? ", " : "", (long long)id[i]);
    tp_buf_putc(&b, ']');
    return td_take_text(&b);
}

char *td_story_file(const struct td_job *j, const char *hardware, const char *row)
{
    struct tp_buf b = {0};

    if (row == NULL)
        return NULL;
    tp_buf_printf(&b, "{\"job\": %lld, \"hardware\": \"%s\", ", (long long)td_job_id(j), hardware);
    tp_buf_puts(&b, row + 1); /* behind its first brace */
    return td_take_text(&b);
}

void td_fill_training(struct tm_provenance *p, const char *text, int64_t id)
{
    size_t n = strlen(text);

    if (n < sizeof p->training)
        memcpy(p->training, text, n + 1);
    else
        td_log(TD_WARNING, "training-not-in-file", TD_I("model", id), TD_I("bytes", (int64_t)n),
               TD_I("most", (int64_t)sizeof p->training - 1));
}

void td_put_result(struct tp_buf *b, const char *story, int64_t model, const struct td_train_set *set,
                   const struct tk_learned *l, double seconds)
{
    tp_buf_put(b, story, strlen(story) - 1);
    tp_buf_printf(b, ", \"model\": %lld, \"programs\": %u, \"tasks\": %u, \"epoch\": %d, \"epochs\": %d",
                  (long long)model, set->data.ds->n, set->data.ds->n_tasks, l->epoch, l->epochs);
    td_put_num(b, "loss", l->loss);
    td_put_num(b, "train_seconds", seconds);
}

bool td_story_says(const char *story, const char *decision)
{
    json_t *o = json_loads(story, 0, NULL);
    const char *said = json_string_value(json_object_get(o, "decision"));
    bool yes = said != NULL && strcmp(said, decision) == 0;

    json_decref(o);
    return yes;
}

const char *td_row_state(enum tk_decision d)
{
    static const char *const state[] = {
        [TK_ACTIVATED] = "published", [TK_KEPT_CHAMPION] = "rejected", [TK_CANDIDATE] = "candidate"};

    return state[d];
}

void td_kb_changed(struct td_daemon *d, struct st_reader *r, const char *family)
{
    struct td_members m = {0};

    if (d->metrics != NULL)
        td_count(d->metrics, TD_C_SWAPS, 1);
    if (td_members_list(r, family, NULL, &m, NULL) != 0)
        return;
    for (size_t i = 0; i < m.n; i++) {
        if (m.v[i].active_model != 0)
            continue;
        td_recal_note(d->recal, m.v[i].name);
        td_figures_show(d, r, m.v[i].name);
    }
    td_members_free(&m);
}

struct search {
    int64_t job, id;
    char *metrics;
};

static int of_job(void *arg, const struct st_model *m)
{
    struct search *x = arg;

    if (m->job != x->job)
        return 0;
    x->id = m->id;
    x->metrics = strdup(m->metrics != NULL ? m->metrics : "{}");
    return 1;
}

int td_published_by(const struct td_job *j, struct st_reader *r, const char *role, const char *owner, int64_t *id,
                    char **metrics, struct tp_err *e)
{
    struct search x = {.job = td_job_id(j)};
    int rc = st_model_list(r, role, owner, 0, -1, of_job, &x, e);

    if (rc == 0 && x.id != 0 && x.metrics == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for what a model's row keeps");
    if (rc != 0 || metrics == NULL)
        free(x.metrics);
    else
        *metrics = x.metrics;
    if (rc == 0)
        *id = x.id;
    return rc;
}
