/* The running comparison of latencies (daemon/drift.h): a ring of errors per hardware under one lock. */
#include "daemon/drift.h"

#include "daemon/figures.h"
#include "daemon/registry.h"
#include "model/latency.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct track {
    struct track *next;
    char hardware[ST_ID_MAX + 1];
    int64_t model, programs;
    int64_t seen; /* newest measurement that was looked at; -1: none */
    double base;
    float ring[TD_DRIFT_WINDOW]; /* ln(measured / predicted) */
};

struct td_drift {
    pthread_mutex_t mu; /* guards what follows; nothing is waited for under it */
    bool started;
    struct track *first;
};

struct td_drift *td_drift_new(void)
{
    struct td_drift *x = calloc(1, sizeof *x);

    if (x != NULL)
        pthread_mutex_init(&x->mu, NULL);
    return x;
}

void td_drift_free(struct td_drift *x)
{
    if (x == NULL)
        return;
    while (x->first != NULL) {
        struct track *t = x->first;

        x->first = t->next;
        free(t);
    }
    pthread_mutex_destroy(&x->mu);
    free(x);
}

void td_drift_started(struct td_drift *x)
{
    pthread_mutex_lock(&x->mu);
    x->started = true;
    pthread_mutex_unlock(&x->mu);
}

static struct track *find_locked(struct td_drift *x, const char *hardware, bool make)
{
    struct track *t = x->first;

    while (t != NULL && strcmp(t->hardware, hardware) != 0)
        t = t->next;
    if (t != NULL || !make || strlen(hardware) > ST_ID_MAX || (t = calloc(1, sizeof *t)) == NULL)
        return t;
    memcpy(t->hardware, hardware, strlen(hardware) + 1);
    t->seen = -1;
    t->base = NAN;
    t->next = x->first;
    x->first = t;
    return t;
}

void td_drift_forget(struct td_drift *x, const char *hardware)
{
    if (x == NULL)
        return;
    pthread_mutex_lock(&x->mu);
    for (struct track **link = &x->first; *link != NULL; link = &(*link)->next) {
        struct track *t = *link;

        if (strcmp(t->hardware, hardware) != 0)
            continue;
        *link = t->next;
        free(t);
        break;
    }
    pthread_mutex_unlock(&x->mu);
}

void td_drift_trained(struct td_drift *x, const char *hardware, int64_t watermark)
{
    struct track *t;

    if (x == NULL)
        return;
    pthread_mutex_lock(&x->mu);
    t = find_locked(x, hardware, true);
    if (t != NULL && t->seen < watermark)
        t->seen = watermark;
    pthread_mutex_unlock(&x->mu);
}

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static double median(const struct track *t, bool absolute)
{
    float v[TD_DRIFT_WINDOW];
    int n = t->programs < TD_DRIFT_WINDOW ? (int)t->programs : TD_DRIFT_WINDOW;

    if (n == 0)
        return NAN;
    for (int i = 0; i < n; i++)
        v[i] = absolute ? fabsf(t->ring[i]) : t->ring[i];
    qsort(v, (size_t)n, sizeof *v, ascending);
    return n % 2 != 0 ? (double)v[n / 2] : ((double)v[n / 2 - 1] + (double)v[n / 2]) / 2;
}

void td_drift_add(struct td_drift *x, const char *hardware, int64_t model, double predicted, double measured)
{
    const double error = log(measured / predicted);
    struct track *t;

    if (!isfinite(error))
        return;
    pthread_mutex_lock(&x->mu);
    t = find_locked(x, hardware, true);
    if (t != NULL) {
        if (t->model != model) {
            t->model = model;
            t->programs = 0;
            t->base = NAN;
        }
        t->ring[t->programs++ % TD_DRIFT_WINDOW] = (float)error;
        if (t->programs == TD_DRIFT_BASE)
            t->base = median(t, true);
    }
    pthread_mutex_unlock(&x->mu);
}

bool td_drift_get(struct td_drift *x, const char *hardware, int64_t model, struct td_drift_view *out)
{
    const struct track *t;
    bool found;

    if (x == NULL)
        return false;
    pthread_mutex_lock(&x->mu);
    t = find_locked(x, hardware, false);
    found = t != NULL && t->programs > 0 && t->model == model;
    if (found) {
        *out = (struct td_drift_view){
            .programs = t->programs, .error = median(t, true), .bias = median(t, false), .base = t->base, .ratio = NAN};
        if (t->programs >= TD_DRIFT_BASE + TD_DRIFT_WINDOW)
            out->ratio = out->error / fmax(t->base, TD_DRIFT_FLOOR);
    }
    pthread_mutex_unlock(&x->mu);
    return found;
}

/* ---- looking ---- */
struct look {
    struct tm_batch *batch;
    const struct td_hw *hw;
    const struct td_snapshot *s;
    int n;
    double cost[TD_DRIFT_PROGRAMS];
    struct tm_offset offset[TD_DRIFT_PROGRAMS];
};

static int take(void *arg, int64_t id, const char *task_id, const struct tp_record *rec)
{
    struct look *k = arg;
    struct tp_err e;
    int at;

    (void)id;
    if (tp_record_label(rec) != TP_LABEL_VALID)
        return 0;
    at = tm_batch_add(k->batch, rec, &k->hw->feat, &e);
    if (at < 0) /* a program that the encoder refuses is never predicted either */
        return at == -TP_E_NO_MEMORY ? at : 0;
    k->cost[at] = tp_result_min_cost(&rec->result);
    k->offset[at] = td_offsets_find(k->s->offsets, k->hw->id, task_id);
    k->n = at + 1;
    return k->n == TD_DRIFT_PROGRAMS;
}

static int64_t seen_before(struct td_drift *x, const char *hardware, int64_t newest)
{
    struct track *t;
    int64_t seen;

    pthread_mutex_lock(&x->mu);
    t = find_locked(x, hardware, true);
    seen = t != NULL && t->seen >= 0 ? t->seen : x->started ? 0 : newest;
    if (t != NULL)
        t->seen = newest;
    pthread_mutex_unlock(&x->mu);
    return seen;
}

static int compare(struct td_daemon *d, struct st_reader *r, struct look *k, int64_t after, struct tp_err *e)
{
    double score[TD_DRIFT_PROGRAMS], latency[TD_DRIFT_PROGRAMS];
    int64_t last = 0;
    int rc = tm_batch_begin(k->batch, k->s->plan);

    if (rc == 0)
        rc = st_export(r, k->hw->id, NULL, after, TD_DRIFT_PROGRAMS, take, k, &last, e);
    if (rc == 0 && k->n > 0)
        rc = tm_batch_run(k->batch, score, latency, NULL);
    for (int i = 0; i < k->n && rc == 0; i++) {
        double told = k->offset[i].n >= TM_OFFSET_MIN ? tm_latency_with(k->s->model, latency[i], k->offset[i].offset)
                                                      : latency[i];

        td_drift_add(d->drift, k->hw->name, k->s->id, told, k->cost[i]);
    }
    return rc == -TP_E_NO_MEMORY ? tp_fail(e, TP_E_NO_MEMORY, "no memory to compare latencies") : rc;
}

int td_drift_look(struct td_daemon *d, struct st_reader *r, const char *hardware, int *n, struct tp_err *e)
{
    struct look *k = calloc(1, sizeof *k);
    struct td_snapshot *s = NULL;
    struct st_counts c;
    struct td_hw hw;
    int64_t after;
    int rc = k != NULL && (k->batch = tm_batch_new()) != NULL
                 ? td_registry_hardware(d->registry, hardware, &hw, e)
                 : tp_fail(e, TP_E_NO_MEMORY, "no memory to compare latencies");

    *n = 0;
    if (rc == 0)
        rc = st_hardware_counts(r, hw.id, &c, e);
    if (rc == 0 && (after = seen_before(d->drift, hardware, c.newest_measurement_id)) < c.newest_measurement_id) {
        rc = td_registry_acquire(d->registry, hw.name, hw.family, "active", &s, e);
        if (rc == 0) {
            k->hw = &hw;
            k->s = s;
            rc = compare(d, r, k, after, e);
            *n = rc == 0 ? k->n : 0;
        }
        td_registry_release(s);
    }
    if (*n > 0)
        td_figures_show(d, r, hardware);
    if (k != NULL)
        tm_batch_free(k->batch);
    free(k);
    return rc == -TP_E_UNKNOWN_HARDWARE || rc == -TP_E_NO_MODEL ? 0 : rc;
}
