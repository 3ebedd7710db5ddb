/* Measurements of one hardware, sampled and encoded.
 *
 * The store is walked twice when there is more than the sample takes: first for the hashes, which decide, then for the
 * programs. On a job thread. */
#include "daemon/train_load.h"

#include "daemon/hardware.h"
#include "model/mem.h"
#include "sampler/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REPORT = 256 /* programs between two reports, and two looks at a cancellation */ };

int td_key_compare(const void *a, const void *b)
{
    return memcmp(a, b, 16);
}

void td_train_data_free(struct td_train_data *d)
{
    if (d == NULL)
        return;
    tm_dataset_free(d->ds);
    free(d->count);
    free(d->key);
    memset(d, 0, sizeof *d);
}

/* ---- how many of each task ---- */
struct counts {
    struct td_task_count *v;
    size_t n, cap;
};

static int count_task(void *arg, const struct st_task *t)
{
    struct counts *c = arg;
    struct td_task_count *x;

    if (tm_grow((void **)&c->v, &c->cap, c->n + 1, sizeof *c->v) != 0)
        return -TP_E_NO_MEMORY;
    x = &c->v[c->n++];
    *x = (struct td_task_count){.programs = t->programs, .valid = t->measurements - t->failures};
    memcpy(x->id, t->id, sizeof x->id);
    return 0;
}

int td_task_counts(struct st_reader *r, int64_t hw, struct td_task_count **list, size_t *n, struct tp_err *e)
{
    struct counts c = {0};
    int rc = st_tasks(r, hw, "", -1, count_task, &c, e);

    if (rc == -TP_E_NO_MEMORY)
        tp_fail(e, TP_E_NO_MEMORY, "no memory for a list of tasks");
    if (rc != 0) {
        free(c.v);
        return rc;
    }
    *list = c.v;
    *n = c.n;
    return 0;
}

static int64_t taken(const struct td_task_count *v, size_t n, int64_t per_task)
{
    int64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += v[i].programs < per_task ? v[i].programs : per_task;
    return sum;
}

/* The largest sample per task, at most `want` (0 no limit), that keeps within the memory; 0 when all fit. */
static int64_t limit_per_task(const struct td_task_count *v, size_t n, int64_t want)
{
    int64_t lo = 1, hi, most = 0;

    for (size_t i = 0; i < n; i++)
        most = v[i].programs > most ? v[i].programs : most;
    hi = want > 0 && want < most ? want : most;
    if (taken(v, n, hi) <= TD_TRAIN_PROGRAMS_MAX)
        return hi < most ? hi : 0;
    while (lo < hi) { /* taken() grows with its argument */
        int64_t mid = lo + (hi - lo + 1) / 2;

        if (taken(v, n, mid) <= TD_TRAIN_PROGRAMS_MAX)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* ---- the walks ---- */
struct walk {
    const struct td_train_want *want;
    double base, span, total; /* share = base + span * seen / total */
    int64_t seen;
    /* first walk */
    uint32_t *task;
    uint8_t (*key)[16];
    size_t n, task_cap, key_cap;
    uint32_t n_tasks;
    char last[TP_TASK_ID_LEN + 1];
    /* second walk */
    const uint8_t (*only)[16];
    size_t n_only;
    struct tclfeat_hw feat;
    struct td_train_data out;
    size_t out_cap;
};

static int report(struct walk *w)
{
    if (w->seen++ % REPORT != 0 || w->want->progress == NULL)
        return 0;
    return w->want->progress(w->want->arg,
                             w->base + w->span * ((double)w->seen < w->total ? (double)w->seen / w->total : 1)) != 0
               ? -TP_E_CANCELLED
               : 0;
}

static int note_key(void *arg, const char *task_id, const uint8_t hash[16], const struct tp_record *rec,
                    double min_cost, int64_t n)
{
    struct walk *w = arg;

    (void)rec;
    (void)min_cost;
    (void)n;
    if (tm_grow((void **)&w->task, &w->task_cap, w->n + 1, sizeof *w->task) != 0 ||
        tm_grow((void **)&w->key, &w->key_cap, w->n + 1, sizeof *w->key) != 0)
        return -TP_E_NO_MEMORY;
    if (strcmp(w->last, task_id) != 0) { /* the walk goes task by task */
        memcpy(w->last, task_id, sizeof w->last);
        w->n_tasks++;
    }
    w->task[w->n] = w->n_tasks;
    memcpy(w->key[w->n++], hash, 16);
    return report(w);
}

static int add_program(void *arg, const char *task_id, const uint8_t hash[16], const struct tp_record *rec,
                       double min_cost, int64_t n)
{
    struct walk *w = arg;
    struct tp_err e;
    int rc;

    if (w->only != NULL && (w->n_only == 0 || bsearch(hash, w->only, w->n_only, 16, td_key_compare) == NULL))
        return report(w);
    if (tm_grow((void **)&w->out.key, &w->out_cap, (size_t)w->out.ds->n + 1, sizeof *w->out.key) != 0)
        return -TP_E_NO_MEMORY;
    rc = tm_dataset_add(w->out.ds, rec, task_id, hash, min_cost, &w->feat, &e);
    if (rc == -TP_E_NO_MEMORY)
        return rc;
    if (rc == 1) {
        memcpy(w->out.key[w->out.ds->n - 1], hash, 16);
        tm_dataset_set_noise(w->out.ds, w->out.ds->n - 1, tm_noise(rec->result.costs, rec->result.n_costs));
    }
    if (rc >= 0)
        w->out.records += n;
    return report(w);
}

static int64_t upto(const struct td_train_want *want)
{
    return want->upto > 0 ? want->upto : INT64_MAX;
}

/* Which hashes are in the sample: *only, sorted, *n of them. */
static int choose(struct st_reader *r, struct walk *w, uint32_t per_task, uint8_t (**only)[16], size_t *n,
                  struct tp_err *e)
{
    uint8_t *take = NULL;
    size_t k = 0;
    int rc;

    rc = st_training_set(r, w->want->hw->id, upto(w->want), note_key, w, e);
    if (rc != 0)
        goto out;
    take = malloc(w->n > 0 ? w->n : 1);
    if (take == NULL) {
        rc = -TP_E_NO_MEMORY;
        goto out;
    }
    rc = ts_sample(w->task, (const uint8_t(*)[16])w->key, w->n, per_task, w->want->seed, take, NULL, e);
    if (rc != 0)
        goto out;
    for (size_t i = 0; i < w->n; i++)
        if (take[i] != 0)
            memmove(w->key[k++], w->key[i], 16);
    qsort(w->key, k, 16, td_key_compare);
    *only = w->key;
    *n = k;
    w->key = NULL;
out:
    free(take);
    free(w->task);
    free(w->key);
    w->task = NULL;
    w->key = NULL;
    return rc;
}

int td_train_load(struct st_reader *r, const struct td_train_want *want, struct td_train_data *out, struct tp_err *e)
{
    struct walk w = {.want = want, .span = 1, .only = want->only, .n_only = want->n_only};
    uint8_t(*chosen)[16] = NULL;
    int64_t per_task;
    int rc;

    td_hardware_feat(want->hw, &w.feat);
    rc = td_task_counts(r, want->hw->id, &w.out.count, &w.out.n_counts, e);
    if (rc != 0)
        return rc;
    w.total = fmax((double)taken(w.out.count, w.out.n_counts, INT64_MAX), 1);
    per_task = want->only == NULL && !want->probe ? limit_per_task(w.out.count, w.out.n_counts, want->per_task) : 0;
    if (per_task > 0) {
        w.span = 0.4;
        rc = choose(r, &w, (uint32_t)(per_task < UINT32_MAX ? per_task : UINT32_MAX), &chosen, &w.n_only, e);
        if (rc != 0)
            goto out;
        w.only = (const uint8_t(*)[16])chosen;
        w.base = 0.4;
        w.span = 0.6;
        w.seen = 0;
    }
    w.out.ds = tm_dataset_new(want->features);
    rc = w.out.ds == NULL ? -TP_E_NO_MEMORY
         : want->probe    ? st_probe_set(r, want->hw->id, add_program, &w, e)
                          : st_training_set(r, want->hw->id, upto(want), add_program, &w, e);
out:
    if (rc == -TP_E_NO_MEMORY)
        tp_fail(e, TP_E_NO_MEMORY, "no memory for the measurements to train on");
    if (rc == -TP_E_CANCELLED)
        tp_fail(e, TP_E_CANCELLED, "cancelled while the measurements were read");
    if (rc == 0)
        *out = w.out;
    else
        td_train_data_free(&w.out);
    free(chosen);
    return rc;
}
