/* Programs in, distinct rows out. Rows get ids 0, 1, ... in order of arrival; ids only say which rows are equal, so
 * their order never reaches a result.
 *
 * Invariant: id[] holds the rows of all programs back to back; each row id has its key (or its features, when it came
 * from a dataset) and its feature floats. An add that fails leaves programs and ids as they were; rows it met may stay.
 */
#include "model/infer_internal.h"
#include "model/mem.h"

#include <limits.h>
#include <sys/random.h>
#include <time.h>

enum { FIRST_SLOTS = 1024 };

static void make_secret(struct tm_batch *b)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        seed = (uint64_t)t.tv_nsec ^ (uint64_t)t.tv_sec << 32 ^ (uint64_t)(uintptr_t)b;
    }
    struct tm_rng rng;
    tm_rng_seed(&rng, seed);
    for (size_t i = 0; i < sizeof b->secret / sizeof b->secret[0]; i++)
        b->secret[i] = tm_rng_next(&rng);
}

int tm_rows_new(struct tm_batch *b)
{
    b->keys = calloc(TCLFEAT_MAX_ROWS, sizeof *b->keys);
    b->last_keys = calloc(TCLFEAT_MAX_ROWS, sizeof *b->last_keys);
    b->slot = calloc(FIRST_SLOTS, sizeof *b->slot);
    if (!b->keys || !b->last_keys || !b->slot)
        return -1;
    b->n_slots = FIRST_SLOTS;
    make_secret(b);
    return 0;
}

void tm_rows_free(struct tm_batch *b)
{
    for (int s = 0; s < TCLFEAT_SETS; s++)
        tclfeat_encoder_free(b->encoder[s]);
    free(b->keys);
    free(b->last_keys);
    free(b->slot);
    free(b->key);
    free(b->feature);
    free(b->row);
    free(b->program);
    free(b->summary);
    free(b->id);
}

/* n bytes, a multiple of 16: a sum of products of secret-masked words, high and low halves folded. */
static inline uint64_t hash_bytes(const uint64_t *secret, const void *p, size_t n)
{
    const unsigned char *s = p;
    uint64_t sum = 0;
#pragma GCC unroll 8
    for (size_t i = 0; i < n / 16; i++) {
        uint64_t a, c;
        memcpy(&a, s + 16 * i, 8);
        memcpy(&c, s + 16 * i + 8, 8);
        unsigned __int128 m = (unsigned __int128)(a ^ secret[2 * i]) * (c ^ secret[2 * i + 1]);
        sum += (uint64_t)m ^ (uint64_t)(m >> 64);
    }
    sum ^= sum >> 32;
    return sum * UINT64_C(0x9e3779b97f4a7c15);
}

/* memcmp() for a constant, short length, without the call and the branches: most comparisons here find equality. */
static inline bool same_key(const struct tclfeat_key *a, const struct tclfeat_key *b)
{
    typedef uint64_t pair __attribute__((vector_size(16), aligned(4), may_alias));
    const pair *x = (const pair *)a->k, *y = (const pair *)b->k;
    pair differ = {0, 0};
    _Static_assert(sizeof *a == 8 * sizeof differ, "length of a key");
    for (int i = 0; i < 8; i += 4)
        differ |= (x[i] ^ y[i]) | (x[i + 1] ^ y[i + 1]) | (x[i + 2] ^ y[i + 2]) | (x[i + 3] ^ y[i + 3]);
    return (differ[0] | differ[1]) == 0;
}

static size_t slot_of(const struct tm_batch *b, uint64_t hash)
{
    return (size_t)(hash >> 20) & (b->n_slots - 1);
}

static int grow_slots(struct tm_batch *b)
{
    struct tm_row_slot *old = b->slot, *new = calloc(2 * b->n_slots, sizeof *new);
    const size_t n = b->n_slots;
    if (!new)
        return -1;
    b->slot = new;
    b->n_slots = 2 * n;
    for (size_t i = 0; i < n; i++) {
        if (old[i].generation != b->generation)
            continue;
        size_t at = slot_of(b, old[i].hash);
        while (new[at].generation == b->generation)
            at = (at + 1) & (b->n_slots - 1);
        new[at] = old[i];
    }
    free(old);
    return 0;
}

static int reserve_row(struct tm_batch *b)
{
    const size_t n = b->n_rows + 1;
    if (n >= UINT32_MAX)
        return -1;
    if (tm_grow((void **)&b->key, &b->key_cap, n, sizeof *b->key) ||
        tm_grow((void **)&b->feature, &b->feature_cap, n * TM_FEATURES_LD, sizeof *b->feature))
        return -1;
    return 0;
}

/* The low bit of a hash tells which kind of row it is of, so equal hashes have contents that can be compared. */
static uint64_t mark(uint64_t hash, bool from_dataset)
{
    return (hash & ~UINT64_C(1)) | from_dataset;
}

/* The slot that holds this row, or the empty one where it belongs. */
static struct tm_row_slot *find(const struct tm_batch *b, uint64_t hash, bool from_dataset, const void *what, size_t n)
{
    for (size_t at = slot_of(b, hash);; at = (at + 1) & (b->n_slots - 1)) {
        struct tm_row_slot *s = &b->slot[at];
        if (s->generation != b->generation)
            return s;
        if (s->hash != hash)
            continue;
        if (from_dataset ? memcmp(b->feature + (size_t)s->row * TM_FEATURES_LD, what, n) == 0
                         : same_key(&b->key[s->row], what))
            return s;
    }
}

/* The id of the row that `what` (a key, or TM_FEATURES_LD floats of a dataset) describes; hash marked. */
static int row_id(struct tm_batch *b, uint64_t hash, bool from_dataset, const void *what, uint32_t *id)
{
    const size_t n = from_dataset ? TM_FEATURES_LD * sizeof(float) : sizeof(struct tclfeat_key);
    if (b->share) {
        struct tm_row_slot *s = find(b, hash, from_dataset, what, n);
        if (s->generation == b->generation) {
            *id = s->row;
            return 0;
        }
        if (2 * (b->n_rows + 1) > b->n_slots) {
            if (grow_slots(b))
                return -1;
            s = find(b, hash, from_dataset, what, n);
        }
        if (reserve_row(b))
            return -1;
        *s = (struct tm_row_slot){hash, (uint32_t)b->n_rows, b->generation};
    } else if (reserve_row(b)) {
        return -1;
    }
    const size_t row = b->n_rows++;
    float *feature = b->feature + row * TM_FEATURES_LD;
    if (from_dataset) {
        memcpy(feature, what, n);
    } else {
        memcpy(&b->key[row], what, n);
        tclfeat_row(b->plan->features, &b->key[row], feature);
    }
    *id = (uint32_t)row;
    return 0;
}

/* The ids of b->keys[0..n). Neighbours in a batch often agree place by place, which is cheaper than a look-up; the
 * other look-ups miss the caches twice, at the slot and at the key, so all of them are on their way before the first is
 * needed. */
static int key_ids(struct tm_batch *b, uint32_t n, uint32_t *id)
{
    uint64_t hash[TCLFEAT_MAX_ROWS];
    uint16_t open[TCLFEAT_MAX_ROWS]; /* places to look up */
    uint32_t n_open = 0;
    const uint32_t *last = id - b->last_n;
    for (uint32_t i = 0; i < n; i++) {
        if (i < b->last_n && b->share && same_key(&b->keys[i], &b->last_keys[i])) {
            id[i] = last[i];
            continue;
        }
        hash[n_open] = mark(hash_bytes(b->secret, &b->keys[i], sizeof b->keys[i]), false);
        __builtin_prefetch(&b->slot[slot_of(b, hash[n_open])]);
        open[n_open++] = (uint16_t)i;
    }
    for (uint32_t k = 0; k < n_open; k++) {
        const struct tm_row_slot *s = &b->slot[slot_of(b, hash[k])];
        if (s->hash != hash[k] || s->generation != b->generation)
            continue;
        __builtin_prefetch(&b->key[s->row]);
        __builtin_prefetch((const char *)&b->key[s->row] + sizeof *b->key - 1);
    }
    for (uint32_t k = 0; k < n_open; k++)
        if (row_id(b, hash[k], false, &b->keys[open[k]], &id[open[k]]))
            return -1;
    return 0;
}

int tm_batch_begin(struct tm_batch *b, const struct tm_plan *p)
{
    if (!b->encoder[p->features]) {
        b->encoder[p->features] = tclfeat_encoder_new(p->features);
        if (!b->encoder[p->features])
            return -TP_E_NO_MEMORY;
    }
    b->plan = p;
    b->n_programs = b->n_ids = b->n_rows = 0;
    b->longest = b->last_n = 0;
    if (++b->generation == 0) { /* once in 2^32 batches */
        memset(b->slot, 0, b->n_slots * sizeof *b->slot);
        b->generation = 1;
    }
    return 0;
}

/* Room for one more program of n rows. */
static int reserve_program(struct tm_batch *b, size_t n, struct tp_err *e)
{
    const size_t s = (size_t)b->plan->h.summary;
    if (b->n_programs >= TM_BATCH_PROGRAMS)
        return tp_fail(e, TP_E_TOO_MANY, "a batch holds at most %d programs", (int)TM_BATCH_PROGRAMS);
    if (tm_grow((void **)&b->program, &b->program_cap, b->n_programs + 1, sizeof *b->program) ||
        tm_grow((void **)&b->summary, &b->summary_cap, (b->n_programs + 1) * s, sizeof *b->summary) ||
        tm_grow((void **)&b->id, &b->id_cap, b->n_ids + n, sizeof *b->id))
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for a batch of programs");
    return 0;
}

/* The ids of the program are in place behind id[n_ids]. Returns its index. */
static int commit(struct tm_batch *b, size_t n)
{
    b->program[b->n_programs] = (struct tm_program){.start = b->n_ids, .n = (uint32_t)n};
    b->n_ids += n;
    if (n > b->longest)
        b->longest = (uint32_t)n;
    return (int)b->n_programs++;
}

int tm_batch_add(struct tm_batch *b, const struct tp_record *r, const struct tclfeat_hw *hw, struct tp_err *e)
{
    int rc = reserve_program(b, TCLFEAT_MAX_ROWS, e);
    if (rc)
        return rc;
    float unused[TCLFEAT_MAX_SUMMARY]; /* a model without the summary branch still has an encoder that writes one */
    float *summary = b->plan->h.summary ? b->summary + b->n_programs * (size_t)b->plan->h.summary : unused;
    int n = tclfeat_encode(b->encoder[b->plan->features], r, hw, b->keys, summary, e);
    if (n <= 0)
        return n < 0 ? n : tp_fail(e, TP_E_INTERNAL, "a program without rows");
    if (key_ids(b, (uint32_t)n, b->id + b->n_ids))
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for the rows of a batch");
    struct tclfeat_key *keys = b->keys;
    b->keys = b->last_keys;
    b->last_keys = keys;
    b->last_n = (uint32_t)n;
    return commit(b, (size_t)n);
}

int tm_batch_add_dataset(struct tm_batch *b, const struct tm_dataset *d, uint32_t program)
{
    if (d->features != b->plan->features || (b->plan->h.summary && d->summary_cols != b->plan->h.summary) ||
        program >= d->n || d->cols != b->plan->h.features)
        return -TP_E_FEATURES_MISMATCH;
    const uint32_t *from = d->ids + d->start[program];
    const size_t n = d->start[program + 1] - d->start[program], s = (size_t)b->plan->h.summary;
    if (n == 0)
        return -TP_E_INTERNAL;
    int rc = reserve_program(b, n, NULL);
    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++) {
        float feature[TM_FEATURES_LD] = {0};
        memcpy(feature, d->rows + (size_t)from[i] * (size_t)d->cols, (size_t)d->cols * sizeof *feature);
        if (row_id(b, mark(hash_bytes(b->secret, feature, sizeof feature), true), true, feature, &b->id[b->n_ids + i]))
            return -TP_E_NO_MEMORY;
    }
    if (s)
        memcpy(b->summary + b->n_programs * s, d->summary + (size_t)program * (size_t)d->summary_cols,
               s * sizeof *b->summary);
    b->last_n = 0; /* last_keys do not belong to this program */
    return commit(b, n);
}
