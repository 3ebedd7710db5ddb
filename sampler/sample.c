/* Seeded sample per task: sort by (task, draw) and keep the first few of each task.
 *
 * Invariant: the outcome is a function of the set of (task, key) and the seed; positions in the pool only break ties
 * between duplicates. Bottom-k sampling by hash (Cohen and Kaplan, PODC'07) rather than a reservoir, because a
 * reservoir depends on the order of arrival. Pure; any thread. */
#include "sampler/sample.h"

#include <stdlib.h>
#include <string.h>

struct draw {
    uint64_t value;
    const uint8_t *key;
    uint32_t task;
    size_t index;
};

static uint64_t mix(uint64_t x)
{
    /* finaliser of splitmix64 */
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9U;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

static uint64_t load_le(const uint8_t *p)
{
    uint64_t v = 0;

    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

uint64_t ts_draw(uint64_t seed, const uint8_t key[16])
{
    uint64_t h = mix(seed + 0x9e3779b97f4a7c15U);

    h = mix(h ^ load_le(key));
    return mix(h ^ load_le(key + 8));
}

static int by_draw(const void *pa, const void *pb)
{
    const struct draw *a = pa, *b = pb;
    int c;

    if (a->task != b->task)
        return a->task < b->task ? -1 : 1;
    if (a->value != b->value)
        return a->value < b->value ? -1 : 1;
    c = memcmp(a->key, b->key, 16);
    if (c != 0)
        return c;
    return a->index < b->index ? -1 : a->index > b->index;
}

int ts_sample(const uint32_t *task, const uint8_t (*key)[16], size_t n, uint32_t per_task, uint64_t seed, uint8_t *take,
              size_t *taken, struct tp_err *e)
{
    struct draw *v = NULL;
    size_t total = 0;
    uint32_t in_task = 0;

    if (n > 0) {
        v = calloc(n, sizeof *v);
        if (v == NULL)
            return tp_fail(e, TP_E_NO_MEMORY, "no memory to sample %zu programs", n);
    }
    for (size_t i = 0; i < n; i++) {
        v[i] = (struct draw){.value = ts_draw(seed, key[i]), .key = key[i], .task = task[i], .index = i};
        take[i] = 0;
    }
    if (n > 1)
        qsort(v, n, sizeof *v, by_draw);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || v[i].task != v[i - 1].task)
            in_task = 0;
        else if (memcmp(v[i].key, v[i - 1].key, 16) == 0)
            continue; /* the same program again */
        if (per_task != 0 && in_task >= per_task)
            continue;
        in_task++;
        take[v[i].index] = 1;
        total++;
    }
    free(v);
    if (taken != NULL)
        *taken = total;
    return 0;
}
