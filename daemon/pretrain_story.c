/* The story of a knowledge base from several sources (daemon/pretrain_story.h). Any thread. */
#include "daemon/pretrain_story.h"

#include "daemon/figures.h"
#include "daemon/log.h"
#include "daemon/story.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

/* Why it taught nothing: the gate, the rivals, or the bound on what the sources before may lose. */
static const char *reason_of(const struct tk_adapt_state *s)
{
    bool asked = s->cl.epochs > 0; /* an AC was made */

    return s->attempts > 0 || s->acceptance.accepted      ? s->acceptance.reason
           : !asked && s->verdict.gate == TK_GATE_SCRATCH ? s->verdict.reason
           : tk_adapt_few(s)                              ? "Fewer than 8 tasks were measured: they do not teach."
           : s->activated                                 ? "The rivals keep the two apart."
                                                          : s->over_kb.reason;
}

char *td_lesson_text(const struct tk_adapt_state *s)
{
    static const char *const name[] = {"ac", "kb"}; /* its own model, and the knowledge base by that one */
    const struct tk_learned *told[] = {&s->cl, &s->kd};
    bool tried = s->attempts > 0;
    struct tp_buf b = {0};

    tp_buf_printf(&b, "{\"decision\": \"%s\", \"reason\": \"%s\", \"gate\": ",
                  s->acceptance.accepted ? (tried ? "accepted" : "founded")
                  : tried                ? "refused"
                                         : "untouched",
                  reason_of(s));
    td_put_gate(&b, &s->verdict);
    for (int i = 0; i < 2; i++) {
        tp_buf_printf(&b, told[i]->epochs > 0 ? ", \"%s\": {" : ", \"%s\": null", name[i]);
        if (told[i]->epochs > 0) {
            td_put_learned(&b, told[i]);
            tp_buf_putc(&b, '}');
        }
    }
    tp_buf_puts(&b, ", ");
    td_put_lesson(&b, s);
    tp_buf_putc(&b, '}');
    return td_take_text(&b);
}

/* Means over the sources that tell. */
struct tm_metrics td_pretrained_mean(const struct td_source *source, uint32_t n_sources, bool after)
{
    struct tm_metrics sum = {0};
    int n = 0;

    for (uint32_t i = 0; i < n_sources; i++) {
        const struct tm_metrics *m = after ? &source[i].after : &source[i].before;

        if (m->tasks == 0 || isnan(tk_quality(m)))
            continue;
        n++;
        sum.tasks += m->tasks;
        sum.programs += m->programs;
        sum.top1_mean += (m->top1_mean - sum.top1_mean) / n;
        sum.top5_mean += (m->top5_mean - sum.top5_mean) / n;
        sum.pairwise += (m->pairwise - sum.pairwise) / n;
    }
    return sum;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s != NULL ? s : "";
}

/* What matters of a lesson, for the weights file. */
static void put_brief_source(struct tp_buf *b, const struct td_source *s)
{
    json_t *o = s->lesson != NULL ? json_loads(s->lesson, 0, NULL) : NULL;
    const json_t *ac = json_object_get(json_object_get(o, "ac"), "loss"),
                 *kb = json_object_get(json_object_get(o, "kb"), "loss"), *lambda = json_object_get(o, "lambda");

    tp_buf_printf(b, "{\"hardware\": \"%s\", \"programs\": %zu, \"gate\": \"%s\", \"decision\": \"%s\"", s->hw->name,
                  s->set.n_train, text_of(json_object_get(o, "gate"), "decision"), text_of(o, "decision"));
    td_put_num(b, "ac_loss", json_is_number(ac) ? json_number_value(ac) : NAN);
    td_put_num(b, "kb_loss", json_is_number(kb) ? json_number_value(kb) : NAN);
    td_put_num(b, "lambda", json_is_number(lambda) ? json_number_value(lambda) : NAN);
    tp_buf_putc(b, '}');
    json_decref(o);
}

static void put_source(struct tp_buf *b, const struct td_source *s, bool refused)
{
    tp_buf_printf(b, "{\"hardware\": \"%s\", \"programs\": %zu, \"tasks\": %u, \"learned\": %s, \"lesson\": %s",
                  s->hw->name, s->set.n_train, s->set.data.ds->n_tasks, refused ? "false" : "true",
                  s->lesson != NULL ? s->lesson : "null");
    tp_buf_puts(b, ", \"before\": ");
    td_put_brief(b, &s->before);
    tp_buf_puts(b, ", \"after\": ");
    td_put_brief(b, &s->after);
    tp_buf_putc(b, '}');
}

static void put_acceptance(struct tp_buf *b, const struct tk_acceptance *a)
{
    if (a->reason[0] == '\0') {
        tp_buf_puts(b, "null");
        return;
    }
    tp_buf_printf(b, "{\"accepted\": %s, \"reason\": \"%s\"", a->accepted ? "true" : "false", a->reason);
    td_put_num(b, "drop", a->drop);
    td_put_num(b, "pairwise_drop", a->pairwise_drop);
    tp_buf_putc(b, '}');
}

char *td_pretrained_story(const struct td_pretrained *x, size_t most)
{
    struct tm_metrics before = td_pretrained_mean(x->source, x->n, false),
                      after = td_pretrained_mean(x->source, x->n, true);
    struct tp_buf b = {0};

    tp_buf_printf(&b, "{\"job\": %lld, ", (long long)x->job);
    td_put_origin(&b, x->params, x->watermark);
    tp_buf_printf(&b, ", \"decision\": \"%s\", \"reason\": \"%s%s\"",
                  x->overtaken ? "overtaken" : tk_decision_name(x->verdict->decision), x->verdict->reason,
                  x->overtaken ? " Another knowledge base was activated meanwhile." : "");
    td_put_num(&b, "gain", x->verdict->gain);
    tp_buf_printf(&b, ", \"phases\": %u, \"initial_weights\": %s, \"acceptance\": ", x->kb->phases,
                  x->kb->start != NULL ? "true" : "false");
    put_acceptance(&b, x->acceptance);
    tp_buf_puts(&b, ", \"before\": ");
    td_put_brief(&b, &before);
    tp_buf_puts(&b, ", \"after\": ");
    td_put_brief(&b, &after);
    tp_buf_printf(&b, ", \"source_count\": %u, \"sources\": [", x->n);
    for (uint32_t i = 0; i < x->n; i++) {
        size_t end = b.n;

        tp_buf_puts(&b, i > 0 ? ", " : "");
        if (most == 0) {
            put_source(&b, &x->source[i], x->refused[i]);
            continue;
        }
        put_brief_source(&b, &x->source[i]);
        if (b.n + sizeof "]}" > most) {
            b.n = end;
            td_log(TD_INFO, "training-shortened", TD_I("job", x->job), TD_I("sources", x->n), TD_I("told", i));
            break;
        }
    }
    tp_buf_puts(&b, "]}");
    return td_take_text(&b);
}
