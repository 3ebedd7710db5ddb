/* Job kind "selection": load, choose, store.
 *
 * Turns are given anew to all that wait, so that in each task the highest score goes first whichever selection it came
 * from, and tasks take turns. What a crash in the middle of storing leaves is a smaller selection, nothing broken.
 * On a job thread; one snapshot from start to end. */
#include "daemon/select_job.h"

#include "daemon/figures.h"
#include "daemon/log.h"
#include "daemon/metrics.h"
#include "daemon/select_pool.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shares of the job's progress at which its phases end. */
#define LOADED 0.5
#define CHOSEN 0.95

/* ---- parameters ---- */
void td_select_params_write(const struct td_select_params *p, struct tp_buf *out)
{
    tp_buf_printf(out, "{\"method\": \"%s\", ", ts_method_name(p->method));
    /* the job reads these again, so they come back the same */
    if (p->budget > 0) {
        tp_buf_printf(out, "\"budget\": %lld", (long long)p->budget);
    } else {
        tp_buf_puts(out, "\"fraction\": ");
        tp_buf_json_exact(out, p->fraction);
    }
    if (p->weighted) {
        tp_buf_puts(out, ", \"weights\": {\"r\": ");
        tp_buf_json_exact(out, p->r);
        tp_buf_puts(out, ", \"d\": ");
        tp_buf_json_exact(out, p->d);
        tp_buf_puts(out, ", \"u\": ");
        tp_buf_json_exact(out, p->u);
        tp_buf_putc(out, '}');
    }
    tp_buf_printf(out, ", \"seed\": %lld}", (long long)p->seed);
}

int td_select_params_read(struct td_select_params *p, const char *json, struct tp_err *e)
{
    json_t *o = json_loads(json, 0, NULL);
    const json_t *w = json_object_get(o, "weights");
    const char *method = json_string_value(json_object_get(o, "method"));
    int m = method != NULL ? ts_method_find(method) : -1;

    if (m < 0) {
        json_decref(o);
        return tp_fail(e, TP_E_INTERNAL, "the parameters of the job do not read");
    }
    *p = (struct td_select_params){
        .method = (enum ts_method)m,
        .budget = json_integer_value(json_object_get(o, "budget")),
        .fraction = json_number_value(json_object_get(o, "fraction")),
        .weighted = w != NULL,
        .r = json_number_value(json_object_get(w, "r")),
        .d = json_number_value(json_object_get(w, "d")),
        .u = json_number_value(json_object_get(w, "u")),
        .seed = json_integer_value(json_object_get(o, "seed")),
    };
    json_decref(o);
    return 0;
}

/* ---- the job ---- */
struct run {
    struct td_daemon *d;
    struct td_job *job;
    struct td_select_params params;
    struct st_reader *reader;
    struct st_hardware hw;
    struct td_snapshot *s; /* NULL: no model */
    struct td_select_pool data;
    struct td_job_state state;
    struct ts_pick *pick;
    size_t n_picks;
    struct st_pick *out; /* [n_picks + data.n_waiting]: the chosen, then those that wait */
    size_t n_out;
};

static int loading(void *arg, double share)
{
    struct run *x = arg;

    td_job_phase(x->job, &x->state, "load", share * LOADED);
    return td_job_cancelled(x->job);
}

static int acquire(struct run *x, struct tp_err *e)
{
    int rc;

    if (x->params.method == TS_RANDOM)
        return 0;
    rc = td_registry_acquire(x->d->registry, x->hw.name, x->hw.family, "active", &x->s, e);
    return rc == -TP_E_NO_MODEL ? 0 : rc;
}

static int load(struct run *x, struct tp_err *e)
{
    struct td_select_want want = {
        .hw = &x->hw,
        .s = x->s,
        .bare = x->params.method == TS_RANDOM,
        .known_max = TD_SELECT_KNOWN_MAX,
        .progress = loading,
        .arg = x,
    };

    td_job_phase(x->job, &x->state, "load", 0);
    return td_select_pool_load(x->reader, &want, &x->data, e);
}

static int choosing(void *arg, const struct ts_progress *p)
{
    struct run *x = arg;

    td_job_phase(x->job, &x->state, p->phase, LOADED + (CHOSEN - LOADED) * p->fraction);
    return td_job_cancelled(x->job);
}

static int choose(struct run *x, struct tp_err *e)
{
    struct ts_opts o;

    if (x->data.n_candidates == 0)
        return 0;
    ts_defaults(&o);
    o.method = x->params.method;
    o.budget = x->params.budget > 0 ? (size_t)x->params.budget : ts_budget_of(&x->data.pool, x->params.fraction);
    if (o.budget > x->data.n_candidates)
        o.budget = x->data.n_candidates;
    o.seed = (uint64_t)x->params.seed;
    o.threads = x->d->threads.train;
    if (x->params.weighted) {
        o.weights.r = x->params.r;
        o.weights.d = x->params.d;
        o.weights.u = x->params.u;
    }
    x->pick = calloc(o.budget, sizeof *x->pick);
    if (x->pick == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu chosen candidates", o.budget);
    return ts_select(&x->data.pool, &o, choosing, x, x->pick, &x->n_picks, e);
}

/* ---- turns ---- */
struct place {
    uint32_t task;
    double score;
    int64_t id;
    struct st_pick *p;
};

/* Falling, NaN last. */
static int by_score(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a < b) - (a > b);
}

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int c;

    if (x->task != y->task)
        return x->task < y->task ? -1 : 1;
    c = by_score(x->score, y->score);
    return c != 0 ? c : (x->id > y->id) - (x->id < y->id);
}

static int by_pick(const void *a, const void *b)
{
    const struct st_pick *x = a, *y = b;
    int c = by_score(x->score, y->score);

    return c != 0 ? c : (x->candidate > y->candidate) - (x->candidate < y->candidate);
}

/* Fills out with the chosen and those of the waiting whose turn changes. */
static int give_turns(struct run *x, struct tp_err *e)
{
    const struct td_select_pool *d = &x->data;
    size_t n = x->n_picks + d->n_waiting, k = x->n_picks;
    struct place *place = calloc(n > 0 ? n : 1, sizeof *place);

    x->out = calloc(n > 0 ? n : 1, sizeof *x->out);
    if (place == NULL || x->out == NULL) {
        free(place);
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu chosen candidates", x->n_picks);
    }
    for (size_t i = 0; i < n; i++) {
        size_t at = i < x->n_picks ? x->pick[i].index : d->n_candidates + i - x->n_picks;
        struct st_pick *p = &x->out[i];

        *p = (struct st_pick){.candidate = d->id[at], .score = d->score[at], .turn = d->turn[at], .waiting = true};
        if (i < x->n_picks) {
            const struct ts_pick *t = &x->pick[i];

            *p = (struct st_pick){
                .candidate = d->id[at], .score = t->score, .r = t->r, .d = t->d, .u = t->u, .turn = -1};
        }
        place[i] = (struct place){.task = d->task[at], .score = p->score, .id = p->candidate, .p = p};
    }
    qsort(place, n, sizeof *place, by_place);
    for (size_t i = 0, turn = 0; i < n; i++) {
        turn = i > 0 && place[i].task == place[i - 1].task ? turn + 1 : 0;
        if (place[i].p->turn == (int64_t)turn)
            place[i].p->candidate = 0; /* nothing to write */
        place[i].p->turn = (int64_t)turn;
    }
    free(place);
    for (size_t i = x->n_picks; i < n; i++)
        if (x->out[i].candidate != 0)
            x->out[k++] = x->out[i];
    x->n_out = k;
    return 0;
}

static int store(struct run *x, struct tp_err *e)
{
    td_job_phase(x->job, &x->state, "store", CHOSEN);
    if (td_job_cancelled(x->job))
        return tp_fail(e, TP_E_CANCELLED, "cancelled");
    return st_candidates_select(x->d->store, x->hw.id, td_job_id(x->job), x->out, x->n_out, e);
}

/* ---- result ---- */
static void put_picks(struct run *x, size_t count, struct tp_buf *b)
{
    size_t listed = 0;

    tp_buf_printf(b, ", \"count\": %zu, \"selected\": [", count);
    for (size_t i = 0; i < x->n_picks && listed < TD_SELECT_LISTED_MAX; i++) {
        const struct st_pick *p = &x->out[i];

        if (!p->taken)
            continue;
        tp_buf_printf(b, "%s{\"id\": %lld", listed++ > 0 ? ", " : "", (long long)p->candidate);
        td_put_num(b, "score", p->score);
        td_put_num(b, "r", p->r);
        td_put_num(b, "d", p->d);
        td_put_num(b, "u", p->u);
        tp_buf_putc(b, '}');
    }
    tp_buf_puts(b, count > listed ? "], \"selected_truncated\": true}" : "]}");
}

static int tell(struct run *x, char **result, struct tp_err *e)
{
    const struct td_select_pool *d = &x->data;
    struct tp_buf b = {0};
    size_t count = 0;

    for (size_t i = 0; i < x->n_picks; i++)
        count += x->out[i].taken;
    td_count(x->d->metrics, TD_C_CAND_SELECTED, count);
    qsort(x->out, x->n_picks, sizeof *x->out, by_pick);
    tp_buf_printf(&b, "{\"method\": \"%s\", \"model\": ", ts_method_name(x->params.method));
    if (x->s != NULL)
        tp_buf_i64(&b, x->s->id);
    else
        tp_buf_puts(&b, "null");
    tp_buf_printf(&b, ", \"pooled\": %zu, \"unusable\": %zu, \"known\": %zu", d->n_candidates, d->unusable,
                  d->pool.n - d->n_candidates);
    put_picks(x, count, &b);
    *result = td_take_text(&b);
    if (*result == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "%zu candidates are selected, but there is no memory for the result", count);
    td_log(TD_INFO, "candidates-selected", TD_S("hardware", x->hw.name), TD_I("job", td_job_id(x->job)),
           TD_S("method", ts_method_name(x->params.method)), TD_I("candidates", count));
    return 0;
}

int td_select_run(struct td_daemon *d, struct td_job *j, const char *params, char **result, struct tp_err *e)
{
    struct run x = {.d = d, .job = j, .state = {.loss = NAN}};
    int rc;

    rc = td_select_params_read(&x.params, params, e);
    if (rc == 0)
        rc = td_job_open(j, d->store, &x.reader, &x.hw, e);
    if (rc == 0)
        rc = acquire(&x, e);
    if (rc == 0)
        rc = load(&x, e);
    if (rc == 0)
        rc = choose(&x, e);
    if (rc == 0)
        rc = give_turns(&x, e);
    if (rc == 0)
        rc = store(&x, e);
    if (rc == 0)
        rc = tell(&x, result, e);
    free(x.pick);
    free(x.out);
    td_registry_release(x.s);
    td_select_pool_free(&x.data);
    td_job_close(x.reader, &x.hw);
    return rc;
}
