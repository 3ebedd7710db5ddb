/* Task-disjoint split of a dataset into training and validation programs (tm_split of model/train.h).
 *
 * A task (or, with few tasks, a program) is held out when the hash of its number is among the k smallest, so the split
 * needs no memory of its own, keeps programs in order, and hardly changes when programs are appended to old tasks. */
#include "model/train.h"

#include <math.h>
#include <stdlib.h>

enum { MIN_TASKS = 4 };

static uint32_t hash(uint64_t seed, uint32_t i)
{
    struct tm_rng r;
    tm_rng_seed(&r, seed + ((uint64_t)i + 1) * UINT64_C(0x9e3779b97f4a7c15));
    return (uint32_t)(tm_rng_next(&r) >> 32);
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void tm_split(const struct tm_dataset *ds, double fraction, uint64_t seed, uint32_t *train, size_t *n_train,
              uint32_t *valid, size_t *n_valid, bool *by_record)
{
    const bool by_task = ds->n_tasks >= MIN_TASKS;
    const uint32_t units = by_task ? ds->n_tasks : ds->n;
    uint32_t held = fraction > 0 ? (uint32_t)lround(fmin(fraction, 1) * units) : 0;
    if (held == 0 && by_task && fraction > 0)
        held = 1;
    if (held >= units && units > 0)
        held = units - 1; /* something must be left to learn from */

    /* every task has a program, so units <= ds->n and `train` can hold the hashes while the threshold is looked up */
    for (uint32_t i = 0; i < units; i++)
        train[i] = hash(seed, i);
    qsort(train, units, sizeof *train, ascending);
    uint32_t limit = held ? train[held - 1] : 0;

    size_t nt = 0, nv = 0;
    for (uint32_t i = 0; i < ds->n; i++) {
        if (held && hash(seed, by_task ? ds->task[i] : i) <= limit)
            valid[nv++] = i;
        else
            train[nt++] = i;
    }
    *n_train = nt;
    *n_valid = nv;
    *by_record = !by_task;
}
