/* Where models come from (daemon/story.h). Any thread. */
#include "daemon/story.h"

#include "daemon/figures.h"
#include "daemon/fleet.h"
#include "daemon/metrics.h"
#include "daemon/recalibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

void td_fill_training(struct tm_provenance *p, const char *text)
{
    if (text != NULL && strlen(text) < sizeof p->training)
        memcpy(p->training, text, strlen(text) + 1);
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
