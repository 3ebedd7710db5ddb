/* See the header. The store is read page by page, each a short transaction; programs are embedded in chunks, so that
 * only the arrays grow with the pool: (d_model + head2) floats a program.
 *
 * Invariant: arrays are made for what the counts promise and never grow; rows of a chunk that could not be encoded have
 * no place in them. On a job thread. */
#include "daemon/select_pool.h"

#include "daemon/dialect.h"
#include "daemon/hardware.h"
#include "model/mem.h"
#include "sampler/embed.h"
#include "sampler/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096 /* programs embedded at a time */, PAGE = 2048 /* rows of one read transaction */ };

struct task {
    char id[TP_TASK_ID_LEN + 1];
    uint32_t number;
};

struct load {
    const struct td_select_want *want;
    struct td_select_pool p;
    size_t cap, end;      /* room; this part of it */
    size_t done, total;   /* programs seen, expected */
    size_t pending;       /* programs at the end of the arrays that are not embedded yet */
    int64_t after, pages; /* last candidate seen, of this page */
    struct tclfeat_hw feat;
    struct tm_batch *batch;
    struct tm_dataset *ds; /* the chunk, without a model */
    double *score, *latency;
    struct task *tasks; /* by id */
    size_t n_tasks, cap_tasks;
    size_t last_task;
    uint64_t known_below; /* of ts_draw() */
    /* hashes of candidates that more than one measurement is wanted of; sorted once all are read */
    uint8_t (*again)[16];
    size_t n_again, cap_again;
};

void td_select_pool_free(struct td_select_pool *p)
{
    free(p->id);
    free(p->score);
    free(p->turn);
    free(p->embedding);
    free(p->feature);
    free(p->task);
    free(p->known);
    *p = (struct td_select_pool){0};
}

static int no_memory(struct tp_err *e)
{
    return tp_fail(e, TP_E_NO_MEMORY, "no memory to look at the candidates");
}

static bool allocate(struct load *l, size_t own)
{
    struct td_select_pool *p = &l->p;
    const struct tm_model *m = l->want->s != NULL ? l->want->s->model : NULL;

    p->id = tm_alloc(own, sizeof *p->id);
    p->score = tm_alloc(own, sizeof *p->score);
    p->turn = tm_alloc(own, sizeof *p->turn);
    p->task = tm_alloc(l->cap, sizeof *p->task);
    p->known = tm_alloc(l->cap, 1);
    if (p->id == NULL || p->score == NULL || p->turn == NULL || p->task == NULL || p->known == NULL)
        return false;
    p->pool = (struct ts_pool){.task = p->task, .known = p->known};
    if (l->want->bare)
        return true;
    p->pool.dim = m != NULL ? m->h.d_model : TS_EMBED_DIM;
    p->embedding = tm_alloc(l->cap, (size_t)p->pool.dim * sizeof *p->embedding);
    p->pool.embedding = p->embedding;
    if (m == NULL)
        return p->embedding != NULL;
    p->pool.n_features = m->h.head2;
    p->feature = tm_alloc(l->cap, (size_t)p->pool.n_features * sizeof *p->feature);
    p->pool.feature = p->feature;
    l->batch = tm_batch_new();
    l->score = tm_alloc(CHUNK, sizeof *l->score);
    l->latency = tm_alloc(CHUNK, sizeof *l->latency);
    if (l->batch != NULL)
        tm_batch_keep(l->batch, true);
    return p->embedding != NULL && p->feature != NULL && l->batch != NULL && l->score != NULL && l->latency != NULL;
}

/* ---- tasks ---- */

/* The number of a task; tasks come in runs and are few beside programs. -1: out of memory. */
static int64_t task_number(struct load *l, const char *id)
{
    size_t lo = 0, hi = l->n_tasks;

    if (l->last_task < l->n_tasks && strcmp(l->tasks[l->last_task].id, id) == 0)
        return l->tasks[l->last_task].number;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (strcmp(l->tasks[mid].id, id) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == l->n_tasks || strcmp(l->tasks[lo].id, id) != 0) {
        if (tm_grow((void **)&l->tasks, &l->cap_tasks, l->n_tasks + 1, sizeof *l->tasks) != 0)
            return -1;
        memmove(&l->tasks[lo + 1], &l->tasks[lo], (l->n_tasks - lo) * sizeof *l->tasks);
        memcpy(l->tasks[lo].id, id, sizeof l->tasks[lo].id);
        l->tasks[lo].number = (uint32_t)l->n_tasks++;
    }
    l->last_task = lo;
    return l->tasks[lo].number;
}

/* ---- chunks ---- */

static int chunk_begin(struct load *l)
{
    l->pending = 0;
    if (l->want->bare)
        return 0;
    if (l->batch != NULL)
        return tm_batch_begin(l->batch, l->want->s->plan);
    tm_dataset_free(l->ds);
    l->ds = tm_dataset_new(td_dialect_features(l->want->hw->name));
    return l->ds != NULL ? 0 : -TP_E_NO_MEMORY;
}

static void keep(struct load *l, size_t at)
{
    struct ts_pool *p = &l->p.pool;

    for (size_t i = 0; i < l->pending; i++) {
        memcpy(l->p.embedding + (at + i) * (size_t)p->dim, tm_batch_pooled(l->batch, i),
               (size_t)p->dim * sizeof(float));
        memcpy(l->p.feature + (at + i) * (size_t)p->n_features, tm_batch_hidden(l->batch, i),
               (size_t)p->n_features * sizeof(float));
    }
}

/* Embeds what is pending and begins anew. */
static int chunk_end(struct load *l)
{
    size_t at = l->p.pool.n - l->pending;
    int rc = 0;

    if (l->pending > 0 && l->batch != NULL) {
        rc = tm_batch_run(l->batch, l->score, l->latency, NULL);
        if (rc == 0)
            keep(l, at);
    } else if (l->pending > 0 && l->ds != NULL) {
        rc = ts_embed_rows(l->ds, NULL, l->pending, l->p.embedding + at * TS_EMBED_DIM);
    }
    return rc != 0 ? rc : chunk_begin(l);
}

/* 1 when the program has its place at the end of the arrays, 0 when it cannot be encoded. */
static int add(struct load *l, const char *task_id, const uint8_t hash[16], const struct tp_record *rec, bool known)
{
    struct ts_pool *p = &l->p.pool;
    int64_t task = task_number(l, task_id);
    struct tp_err why;
    int rc = 0;

    if (task < 0)
        return -TP_E_NO_MEMORY;
    if (l->batch != NULL)
        rc = tm_batch_add(l->batch, rec, &l->feat, &why);
    else if (l->ds != NULL)
        rc = tm_dataset_add(l->ds, rec, task_id, hash, INFINITY, &l->feat, &why);
    if (rc == -TP_E_NO_MEMORY)
        return rc;
    if (rc < 0 || (l->ds != NULL && rc == 0)) /* 0: a hash that is there already, which a store does not hand out */
        return 0;
    l->p.task[p->n] = (uint32_t)task;
    l->p.known[p->n++] = known;
    if (++l->pending == CHUNK) {
        rc = chunk_end(l);
        if (rc != 0)
            return rc;
    }
    return 1;
}

static int seen(struct load *l)
{
    double share = l->total > 0 ? (double)l->done / (double)l->total : 1;

    l->done++;
    if (l->done % 256 != 0 || l->want->progress == NULL)
        return 0;
    return l->want->progress(l->want->arg, share < 1 ? share : 1) != 0 ? -TP_E_CANCELLED : 0;
}

/* ---- walks ---- */

static int by_hash(const void *a, const void *b)
{
    return memcmp(a, b, 16);
}

static int note_again(struct load *l, const uint8_t hash[16])
{
    if (tm_grow((void **)&l->again, &l->cap_again, l->n_again + 1, sizeof *l->again) != 0)
        return -TP_E_NO_MEMORY;
    memcpy(l->again[l->n_again++], hash, sizeof *l->again);
    return 0;
}

static int candidate(void *arg, const struct st_candidate *c, const struct tp_record *rec)
{
    struct load *l = arg;
    size_t at = l->p.pool.n;
    int rc;

    l->after = c->id;
    l->pages++;
    if (at == l->end)
        return 1; /* came in since they were counted */
    if (c->state == ST_POOLED && c->repeat > 1 && (rc = note_again(l, c->hash)) < 0)
        return rc;
    rc = add(l, c->task_id, c->hash, rec, c->state != ST_POOLED);
    if (rc < 0)
        return rc;
    if (rc == 0)
        l->p.unusable += c->state == ST_POOLED;
    if (rc == 1) {
        l->p.id[at] = c->id;
        l->p.score[at] = c->score;
        l->p.turn[at] = c->turn;
    }
    return seen(l);
}

/* Candidates of one state, at most `most`. */
static int candidates(struct load *l, struct st_reader *r, enum st_candidate_state state, int64_t most,
                      struct tp_err *e)
{
    int rc = 0;

    l->after = 0;
    l->end = l->p.pool.n + (size_t)most;
    do {
        l->pages = 0;
        rc = st_candidate_records(r, l->want->hw->id, (int)state, l->after, PAGE, candidate, l, e);
    } while (rc == 0 && l->pages > 0 && l->p.pool.n < l->end);
    return rc;
}

static int measured(void *arg, const char *task_id, const uint8_t hash[16], const struct tp_record *rec,
                    double min_cost, int64_t n)
{
    struct load *l = arg;
    int rc;

    (void)min_cost, (void)n;
    if (l->p.pool.n == l->cap)
        return 1;
    if (ts_draw(0, hash) > l->known_below)
        return 0;
    if (l->n_again > 0 && bsearch(hash, l->again, l->n_again, sizeof *l->again, by_hash) != NULL)
        return 0; /* else it would stand at distance 0 from itself, and never be chosen again */
    rc = add(l, task_id, hash, rec, true);
    return rc < 0 ? rc : seen(l);
}

static int walk(struct load *l, struct st_reader *r, const int64_t n[ST_CANDIDATE_STATES], int64_t programs,
                struct tp_err *e)
{
    size_t known = (size_t)programs < l->want->known_max ? (size_t)programs : l->want->known_max;
    size_t own = (size_t)(n[ST_POOLED] + n[ST_SELECTED] + n[ST_LEASED]);
    int rc;

    l->total = l->cap = own + known;
    /* in an even draw a sample of k out of n is below k/n; a little less, for there must be room for all of it */
    l->known_below =
        known < (size_t)programs ? (uint64_t)((double)known / (double)programs * 0.99 * 0x1p64) : UINT64_MAX;
    if (!allocate(l, own) || chunk_begin(l) != 0)
        return no_memory(e);
    rc = candidates(l, r, ST_POOLED, n[ST_POOLED], e);
    l->p.n_candidates = l->p.pool.n;
    if (rc == 0)
        rc = candidates(l, r, ST_SELECTED, n[ST_SELECTED], e);
    if (rc == 0)
        rc = candidates(l, r, ST_LEASED, n[ST_LEASED], e);
    l->p.n_waiting = l->p.pool.n - l->p.n_candidates;
    if (l->n_again > 0)
        qsort(l->again, l->n_again, sizeof *l->again, by_hash);
    if (rc == 0)
        rc = st_training_set(r, l->want->hw->id, INT64_MAX, measured, l, e);
    return rc == 0 ? chunk_end(l) : rc;
}

int td_select_pool_load(struct st_reader *r, const struct td_select_want *want, struct td_select_pool *out,
                        struct tp_err *e)
{
    struct load l = {.want = want};
    int64_t n[ST_CANDIDATE_STATES];
    struct st_counts counts;
    int rc = st_candidate_counts(r, want->hw->id, n, e);

    td_hardware_feat(want->hw, &l.feat);
    if (rc == 0)
        rc = st_hardware_counts(r, want->hw->id, &counts, e);
    if (rc == 0)
        rc = walk(&l, r, n, counts.programs, e);
    if (rc == -TP_E_NO_MEMORY)
        no_memory(e);
    if (rc == -TP_E_CANCELLED)
        tp_fail(e, TP_E_CANCELLED, "cancelled while the candidates were read");
    if (rc == 0)
        *out = l.p;
    else
        td_select_pool_free(&l.p);
    tm_batch_free(l.batch);
    tm_dataset_free(l.ds);
    free(l.score);
    free(l.latency);
    free(l.tasks);
    free(l.again);
    return rc;
}
