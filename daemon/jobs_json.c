/* Jobs as JSON: the store's row, merged with what a job that is not finished yet reports. Any thread. */
#include "daemon/jobs_priv.h"

#include "daemon/hcommon.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool td_job_error_is(const char *error, enum tp_code code)
{
    const char *slug = tp_code_slug(code);
    size_t n = strlen(slug);

    return error != NULL && strncmp(error, slug, n) == 0 && error[n] == ':';
}

static void put_time(struct tp_buf *out, const char *key, int64_t ms)
{
    tp_buf_printf(out, ", \"%s\": ", key);
    td_json_time(out, ms);
}

static void put_str(struct tp_buf *out, const char *key, const char *s)
{
    tp_buf_printf(out, ", \"%s\": ", key);
    if (s == NULL || *s == '\0')
        tp_buf_puts(out, "null");
    else
        tp_buf_json_str(out, s, strlen(s));
}

static void put_json(struct tp_buf *out, const char *key, const char *text)
{
    tp_buf_printf(out, ", \"%s\": %s", key, text != NULL ? text : "null");
}

struct view {
    double progress, loss;
    const char *phase, *metrics;
    int epoch;
};

static void put_job(struct tp_buf *out, const struct st_job *row, const struct view *v)
{
    tp_buf_printf(out, "{\"id\": %lld", (long long)row->id);
    put_str(out, "kind", row->kind);
    put_str(out, "hardware", row->hardware);
    put_str(out, "state", row->state);
    tp_buf_puts(out, ", \"progress\": ");
    tp_buf_json_num(out, v->progress, 4);
    put_str(out, "phase", v->phase);
    tp_buf_puts(out, ", \"epoch\": ");
    if (v->epoch > 0)
        tp_buf_i64(out, v->epoch);
    else
        tp_buf_puts(out, "null");
    tp_buf_puts(out, ", \"loss\": ");
    tp_buf_json_num(out, v->loss, 6);
    put_json(out, "metrics", v->metrics);
    put_str(out, "error", row->error);
    put_time(out, "created", row->created);
    put_time(out, "started", row->started);
    put_time(out, "finished", row->finished);
    put_json(out, "params", row->params);
    put_json(out, "result", row->result);
    tp_buf_putc(out, '}');
}

void td_job_json_locked(const struct td_job *j, struct tp_buf *out)
{
    struct view v = {
        .progress = j->progress, .loss = j->loss, .phase = j->phase, .metrics = j->metrics, .epoch = j->epoch};

    put_job(out, &j->row, &v);
}

/* A job that is over: what it reported last stands in its result. */
static void put_finished(struct tp_buf *out, const struct st_job *job, bool brief)
{
    static const char *const figures[] = {"metrics", "challenger", "held_out", "all"};
    static const char *const lists[] = {"per_task", "points", "selected"};
    struct st_job shown = *job, *row = &shown;
    struct view v = {.progress = strcmp(row->state, "succeeded") == 0, .loss = NAN};
    json_t *result = row->result != NULL ? json_loads(row->result, 0, NULL) : NULL;
    const json_t *x;
    char *metrics = NULL, *shorter = NULL;
    bool cut = false;

    x = json_object_get(result, "epoch");
    if (json_is_integer(x))
        v.epoch = (int)json_integer_value(x);
    x = json_object_get(result, "loss");
    if (json_is_number(x))
        v.loss = json_number_value(x);
    for (size_t i = 0; i < sizeof figures / sizeof *figures && metrics == NULL; i++) {
        x = json_object_get(result, figures[i]);
        if (json_is_object(x))
            metrics = json_dumps(x, JSON_REAL_PRECISION(9));
    }
    v.metrics = metrics;
    for (size_t i = 0; brief && i < sizeof lists / sizeof *lists; i++)
        cut |= json_object_del(result, lists[i]) == 0;
    if (cut) {
        shorter = json_dumps(result, JSON_REAL_PRECISION(9));
        row->result = shorter;
    }
    put_job(out, row, &v);
    free(metrics);
    free(shorter);
    json_decref(result);
}

/* Of a job that is in memory, memory tells: DELETE looks there too, and the two must not contradict each other while
 * the end of a job is stored. */
static bool put_live(struct td_jobs *js, int64_t id, struct tp_buf *out)
{
    const struct td_job *j;

    pthread_mutex_lock(&js->mu);
    j = td_jobs_find_locked(js, id);
    if (j != NULL)
        td_job_json_locked(j, out);
    pthread_mutex_unlock(&js->mu);
    return j != NULL;
}

/* A row of a job that is not in memory. */
static void put_row(const struct td_jobs *js, const struct st_job *row, bool brief, struct tp_buf *out)
{
    static char interrupted[] = "interrupted: tcld stopped before it ended";
    struct st_job over = *row;

    if (js->stale && (strcmp(row->state, "queued") == 0 || strcmp(row->state, "running") == 0)) {
        snprintf(over.state, sizeof over.state, "failed");
        over.error = interrupted;
    }
    put_finished(out, &over, brief);
}

void td_job_row_json(struct td_jobs *js, const struct st_job *row, bool brief, struct tp_buf *out)
{
    if (!put_live(js, row->id, out))
        put_row(js, row, brief, out);
}

int td_jobs_json(struct td_jobs *js, struct st_reader *r, int64_t id, struct tp_buf *out, struct tp_err *e)
{
    struct st_job row = {0};
    int rc;

    if (put_live(js, id, out))
        return 0;
    rc = st_job_get(r, id, &row, e); /* a job leaves memory only when its end is stored */
    if (rc == 0)
        put_row(js, &row, false, out);
    st_job_clear(&row);
    return rc;
}
