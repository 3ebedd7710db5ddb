/* Encoded measured programs (model/dataset.h).
 *
 * Three open-addressing tables find a task by its id, a program by (task, key) and a row by its 128-byte key; slots
 * hold 1 + index, 0 is free, at most half are in use. tm_dataset_add() encodes and makes room first; what follows
 * cannot fail, so a program is there completely or not at all. The public pointers are renewed after every growth. One
 * owner while it is built. */
#include "model/dataset.h"

#include "model/mem.h"

#include <math.h>

/* ln min of two measurements of a program differs by about this times the root of the spread of the faster half */
#define NOISE_SCALE 0.115
enum { NOISE_REPEATS = 64 /* that are looked at, the first ones */ };

struct table {
    uint32_t *slot;
    size_t size; /* a power of two, or 0 */
    size_t used;
};

struct program_key {
    uint32_t task;
    uint8_t key[16];
};

struct task_name {
    char id[TP_TASK_ID_LEN + 1];
};

/* Arrays that grow together with their capacities, in elements. */
struct tm_dataset_mem {
    struct tclfeat_encoder *encoder;
    struct tclfeat_key *keys; /* of the program being added: [TCLFEAT_MAX_ROWS] */
    struct table tasks, programs, rows;

    struct task_name *name;
    struct tclfeat_key *row_key;
    struct program_key *program_key;
    float *row, *summary;
    uint32_t *start, *ids, *task;
    double *cost, *noise;
    size_t cap_name, cap_row_key, cap_program_key, cap_row, cap_summary, cap_start, cap_ids, cap_task, cap_cost,
        cap_noise;
};

/* Fold a string of bytes by 64 x 64 -> 128 bit products (as wyhash does). */
static uint64_t hash_bytes(uint64_t seed, const void *p, size_t n)
{
    const unsigned char *s = p;
    uint64_t h = seed ^ UINT64_C(0xa0761d6478bd642f) ^ n;
    while (n > 0) {
        uint64_t word = 0;
        size_t take = n < sizeof word ? n : sizeof word;
        memcpy(&word, s, take);
        __uint128_t m = (__uint128_t)(h ^ word) * UINT64_C(0xe7037ed1a0b428db);
        h = (uint64_t)m ^ (uint64_t)(m >> 64);
        s += take;
        n -= take;
    }
    return h ^ (h >> 29);
}

static uint64_t hash_task(const struct tm_dataset_mem *m, uint32_t i)
{
    return hash_bytes(1, m->name[i].id, sizeof m->name[i].id);
}

static uint64_t hash_program(const struct tm_dataset_mem *m, uint32_t i)
{
    return hash_bytes(m->program_key[i].task, m->program_key[i].key, sizeof m->program_key[i].key);
}

static uint64_t hash_row(const struct tm_dataset_mem *m, uint32_t i)
{
    return hash_bytes(2, &m->row_key[i], sizeof m->row_key[i]);
}

/* Room for `extra` more entries at half load. */
static int table_reserve(struct table *t, size_t extra, const struct tm_dataset_mem *m,
                         uint64_t (*hash)(const struct tm_dataset_mem *, uint32_t))
{
    size_t size = t->size ? t->size : 64;
    while (t->used + extra > size / 2)
        size *= 2;
    if (size == t->size)
        return 0;
    uint32_t *slot = tm_alloc(size, sizeof *slot);
    if (!slot)
        return -TP_E_NO_MEMORY;
    for (uint32_t i = 0; i < t->used; i++) {
        size_t at = hash(m, i) & (size - 1);
        while (slot[at])
            at = (at + 1) & (size - 1);
        slot[at] = i + 1;
    }
    free(t->slot);
    t->slot = slot;
    t->size = size;
    return 0;
}

/* The slot of the entry whose n bytes equal p's, or the free one where it belongs. */
static uint32_t *table_find(const struct table *t, uint64_t hash, const void *entries, const void *p, size_t n)
{
    size_t at = hash & (t->size - 1);
    while (t->slot[at] && memcmp((const char *)entries + (size_t)(t->slot[at] - 1) * n, p, n) != 0)
        at = (at + 1) & (t->size - 1);
    return &t->slot[at];
}

static void publish(struct tm_dataset *d)
{
    const struct tm_dataset_mem *m = d->mem;
    d->rows = m->row;
    d->start = m->start;
    d->ids = m->ids;
    d->summary = m->summary;
    d->task = m->task;
    d->cost = m->cost;
    d->noise = m->noise;
}

struct tm_dataset *tm_dataset_new(enum tclfeat_set s)
{
    struct tm_dataset *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    struct tm_dataset_mem *m = d->mem = calloc(1, sizeof *d->mem);
    if (!m || !(m->encoder = tclfeat_encoder_new(s)) || !(m->keys = calloc(TCLFEAT_MAX_ROWS, sizeof *m->keys)) ||
        table_reserve(&m->tasks, 1, m, hash_task) || table_reserve(&m->programs, 1, m, hash_program) ||
        table_reserve(&m->rows, 1, m, hash_row) || tm_grow((void **)&m->start, &m->cap_start, 64, sizeof *m->start)) {
        tm_dataset_free(d);
        return NULL;
    }
    d->features = s;
    d->cols = tclfeat_cols(s);
    d->summary_cols = tclfeat_summary_cols(s);
    publish(d);
    return d;
}

void tm_dataset_free(struct tm_dataset *d)
{
    if (!d)
        return;
    struct tm_dataset_mem *m = d->mem;
    if (m) {
        tclfeat_encoder_free(m->encoder);
        free(m->keys);
        free(m->tasks.slot);
        free(m->programs.slot);
        free(m->rows.slot);
        free(m->name);
        free(m->row_key);
        free(m->program_key);
        free(m->row);
        free(m->summary);
        free(m->start);
        free(m->ids);
        free(m->task);
        free(m->cost);
        free(m->noise);
        free(m);
    }
    free(d);
}

/* Room for one program of n rows, all of them new, in a task that may be new. */
static int reserve(struct tm_dataset *d, size_t n)
{
    struct tm_dataset_mem *m = d->mem;
    const size_t ids = d->start[d->n], programs = (size_t)d->n + 1, rows = d->n_rows + n;
    const size_t summary = (size_t)d->summary_cols;
    bool failed = table_reserve(&m->tasks, 1, m, hash_task) || table_reserve(&m->programs, 1, m, hash_program) ||
                  table_reserve(&m->rows, n, m, hash_row) ||
                  tm_grow((void **)&m->name, &m->cap_name, (size_t)d->n_tasks + 1, sizeof *m->name) ||
                  tm_grow((void **)&m->program_key, &m->cap_program_key, programs, sizeof *m->program_key) ||
                  tm_grow((void **)&m->row_key, &m->cap_row_key, rows, sizeof *m->row_key) ||
                  tm_grow((void **)&m->row, &m->cap_row, rows * (size_t)d->cols, sizeof *m->row) ||
                  tm_grow((void **)&m->summary, &m->cap_summary, programs * summary, sizeof *m->summary) ||
                  tm_grow((void **)&m->start, &m->cap_start, programs + 1, sizeof *m->start) ||
                  tm_grow((void **)&m->ids, &m->cap_ids, ids + n, sizeof *m->ids) ||
                  tm_grow((void **)&m->task, &m->cap_task, programs, sizeof *m->task) ||
                  tm_grow((void **)&m->cost, &m->cap_cost, programs, sizeof *m->cost) ||
                  tm_grow((void **)&m->noise, &m->cap_noise, programs, sizeof *m->noise);
    publish(d); /* also after a failure: some arrays have moved */
    return failed ? -TP_E_NO_MEMORY : 0;
}

static uint32_t row_id(struct tm_dataset *d, const struct tclfeat_key *key)
{
    struct tm_dataset_mem *m = d->mem;
    uint32_t *slot = table_find(&m->rows, hash_bytes(2, key, sizeof *key), m->row_key, key, sizeof *key);
    if (*slot)
        return *slot - 1;
    uint32_t id = d->n_rows++;
    m->row_key[id] = *key;
    tclfeat_row(d->features, key, m->row + (size_t)id * (size_t)d->cols);
    *slot = id + 1;
    m->rows.used++;
    return id;
}

int tm_dataset_add(struct tm_dataset *d, const struct tp_record *r, const char *task_id, const uint8_t key[16],
                   double cost, const struct tclfeat_hw *hw, struct tp_err *e)
{
    struct tm_dataset_mem *m = d->mem;
    struct task_name name = {{0}};
    float summary[TCLFEAT_MAX_SUMMARY];
    if (!m->encoder)
        return tp_fail(e, TP_E_UNUSABLE, "nothing can be added to a masked copy");
    if (!(cost > 0))
        return tp_fail(e, TP_E_BAD_RESULT, "a cost must be positive, or infinite for a failure");
    if (strlen(task_id) > TP_TASK_ID_LEN)
        return tp_fail(e, TP_E_BAD_TASK, "a task id has at most %d characters", TP_TASK_ID_LEN);
    memcpy(name.id, task_id, strlen(task_id));

    uint32_t *task_slot = table_find(&m->tasks, hash_bytes(1, name.id, sizeof name.id), m->name, &name, sizeof name);
    struct program_key id = {.task = *task_slot ? *task_slot - 1 : d->n_tasks};
    memcpy(id.key, key, sizeof id.key);
    uint64_t program_hash = hash_bytes(id.task, id.key, sizeof id.key);
    uint32_t *slot = table_find(&m->programs, program_hash, m->program_key, &id, sizeof id);
    if (*slot) {
        double *known = &m->cost[*slot - 1];
        *known = fmin(*known, cost);
        return 0;
    }

    int n = tclfeat_encode(m->encoder, r, hw, m->keys, d->summary_cols ? summary : NULL, e);
    if (n < 0)
        return n;
    if (d->start[d->n] > UINT32_MAX - (uint32_t)n)
        return tp_fail(e, TP_E_NO_MEMORY, "too many programs for one training set");
    if (reserve(d, (size_t)n))
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory after %u programs", (unsigned)d->n);

    /* the tables may have moved */
    task_slot = table_find(&m->tasks, hash_bytes(1, name.id, sizeof name.id), m->name, &name, sizeof name);
    if (!*task_slot) {
        m->name[d->n_tasks] = name;
        *task_slot = ++d->n_tasks;
        m->tasks.used++;
    }
    slot = table_find(&m->programs, program_hash, m->program_key, &id, sizeof id);
    m->program_key[d->n] = id;
    *slot = d->n + 1;
    m->programs.used++;

    uint32_t at = m->start[d->n];
    for (int i = 0; i < n; i++)
        m->ids[at++] = row_id(d, &m->keys[i]);
    if (d->summary_cols)
        memcpy(m->summary + (size_t)d->n * (size_t)d->summary_cols, summary, (size_t)d->summary_cols * sizeof *summary);
    m->task[d->n] = id.task;
    m->cost[d->n] = cost;
    m->noise[d->n] = 0;
    m->start[++d->n] = at;
    return 1;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tm_noise(const double *costs, uint32_t n)
{
    double v[NOISE_REPEATS];
    size_t kept = n < NOISE_REPEATS ? n : NOISE_REPEATS;
    if (kept < 3)
        return 0;
    memcpy(v, costs, kept * sizeof *v);
    qsort(v, kept, sizeof *v, by_value);
    return NOISE_SCALE * sqrt(log(v[(kept - 1) / 2] / v[0]));
}

void tm_dataset_set_noise(struct tm_dataset *d, uint32_t program, double noise)
{
    d->mem->noise[program] = noise;
}

static void *copy(const void *p, size_t n, size_t size)
{
    void *c = tm_alloc(n, size);
    if (c && n)
        memcpy(c, p, n * size);
    return c;
}

/* Row ids without the rows that are left out. */
static void copy_ids(const struct tm_dataset *d, const struct tm_mask *mask, uint32_t *start, uint32_t *ids)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        for (uint32_t j = d->start[i]; j < d->start[i + 1]; j++) {
            const int kind = tclfeat_row_kind(d->rows + (size_t)d->ids[j] * (size_t)d->cols);
            if ((kind != TCLFEAT_ROW_HARDWARE || !mask->hardware_row) && (kind != TCLFEAT_ROW_TASK || !mask->task_row))
                ids[at++] = d->ids[j];
        }
        start[i + 1] = at;
    }
}

struct tm_dataset *tm_dataset_masked(const struct tm_dataset *d, const struct tm_mask *mask)
{
    const size_t cols = (size_t)d->cols, n = d->n;
    struct tm_dataset *c = copy(d, 1, sizeof *d);
    struct tm_dataset_mem *m = tm_alloc(1, sizeof *m);
    if (!c || !m) {
        free(c);
        free(m);
        return NULL;
    }
    c->mem = m;
    c->summary_cols = mask->summary ? 0 : d->summary_cols;
    if (!(m->row = copy(d->rows, d->n_rows * cols, sizeof *m->row)) ||
        !(m->summary = copy(d->summary, n * (size_t)c->summary_cols, sizeof *m->summary)) ||
        !(m->task = copy(d->task, n, sizeof *m->task)) || !(m->cost = copy(d->cost, n, sizeof *m->cost)) ||
        !(m->noise = mask->noise || !d->noise ? tm_alloc(n, sizeof *m->noise) : copy(d->noise, n, sizeof *m->noise)) ||
        !(m->name = copy(d->mem->name, d->n_tasks, sizeof *m->name)) ||
        !(m->start = tm_alloc(n + 1, sizeof *m->start)) || !(m->ids = tm_alloc(d->start[n], sizeof *m->ids)))
        goto fail;
    copy_ids(d, mask, m->start, m->ids);
    for (size_t r = 0; r < d->n_rows; r++)
        tclfeat_mask_row(&mask->columns, m->row + r * cols);
    for (size_t i = 0; i < n && c->summary_cols; i++)
        tclfeat_mask_summary(&mask->columns, m->summary + i * (size_t)c->summary_cols);
    publish(c);
    return c;
fail:
    tm_dataset_free(c);
    return NULL;
}

const char *tm_dataset_task_id(const struct tm_dataset *d, uint32_t task)
{
    return d->mem->name[task].id;
}
