/* Training programs by task, their labels and their chunks (model/shards.h).
 * Labels look only at the programs given: a label never knows a cost that the training set does not hold. */
#include "model/shards.h"

#include "model/mem.h"

#include <math.h>

/* Programs of each task, counted into start[task + 1], and each task's best cost. */
static void count_tasks(const struct tm_dataset *ds, const uint32_t *programs, size_t n, uint32_t *count, double *best)
{
    for (uint32_t t = 0; t < ds->n_tasks; t++)
        best[t] = INFINITY;
    for (size_t i = 0; i < n; i++) {
        uint32_t t = ds->task[programs[i]];
        count[t]++;
        best[t] = fmin(best[t], ds->cost[programs[i]]);
    }
}

static void label(struct tm_groups *g, const struct tm_dataset *ds, const double *best)
{
    double sum = 0;
    size_t valid = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        uint32_t p = g->programs[i];
        double cost = ds->cost[p];
        g->y[p] = isfinite(cost) ? best[ds->task[p]] / cost : 0;
        g->ln_cost[p] = isfinite(cost) ? log(cost) : INFINITY;
        if (isfinite(cost)) {
            sum += g->ln_cost[p];
            valid++;
        }
    }
    g->mean_ln_cost = valid ? sum / (double)valid : 0;
}

static void cut(struct tm_groups *g, uint32_t max_chunk)
{
    uint32_t made = 0;
    for (uint32_t t = 0; t < g->n_groups; t++) {
        uint32_t n = g->start[t + 1] - g->start[t], parts = (n - 1) / max_chunk + 1;
        for (uint32_t k = 0; k < parts; k++) {
            uint32_t from = (uint32_t)((uint64_t)n * k / parts), to = (uint32_t)((uint64_t)n * (k + 1) / parts);
            g->chunks[made++] = (struct tm_chunk){g->start[t] + from, to - from};
        }
    }
    g->n_chunks = made;
}

int tm_groups_init(struct tm_groups *g, const struct tm_dataset *ds, const uint32_t *programs, size_t n,
                   uint32_t max_chunk, struct tp_err *e)
{
    struct tm_groups new = {0};
    uint32_t *count = tm_alloc(ds->n_tasks, sizeof *count);
    uint32_t *place = tm_alloc(ds->n_tasks, sizeof *place);
    double *best = tm_alloc(ds->n_tasks, sizeof *best);
    int rc = -TP_E_NO_MEMORY;
    max_chunk = max_chunk < 3 ? 3 : max_chunk; /* or a rest of one is possible */
    if (!count || !place || !best)
        goto out;
    count_tasks(ds, programs, n, count, best);
    for (uint32_t t = 0; t < ds->n_tasks; t++) {
        if (count[t] >= 2 && isfinite(best[t])) {
            new.n_groups++;
            new.n += count[t];
            new.n_chunks += (count[t] - 1) / max_chunk + 1;
        }
    }
    if (new.n_groups == 0) {
        rc = tp_fail(e, TP_E_NOT_ENOUGH_DATA, "no task has two programs of which one ran: there is nothing to rank");
        goto out;
    }
    new.start = tm_alloc((size_t) new.n_groups + 1, sizeof *new.start);
    new.programs = tm_alloc(new.n, sizeof *new.programs);
    new.chunks = tm_alloc(new.n_chunks, sizeof *new.chunks);
    new.y = tm_alloc(ds->n, sizeof *new.y);
    new.ln_cost = tm_alloc(ds->n, sizeof *new.ln_cost);
    if (!new.start || !new.programs || !new.chunks || !new.y || !new.ln_cost)
        goto out;

    uint32_t group = 0, at = 0;
    for (uint32_t t = 0; t < ds->n_tasks; t++) {
        place[t] = UINT32_MAX;
        if (count[t] >= 2 && isfinite(best[t])) {
            place[t] = at;
            at += count[t];
            new.start[++group] = at;
        }
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t t = ds->task[programs[i]];
        if (place[t] != UINT32_MAX)
            new.programs[place[t]++] = programs[i];
    }
    label(&new, ds, best);
    cut(&new, max_chunk);
    *g = new;
    new = (struct tm_groups){0};
    rc = 0;
out:
    if (rc == -TP_E_NO_MEMORY)
        tp_fail(e, TP_E_NO_MEMORY, "out of memory while grouping %zu programs", n);
    tm_groups_free(&new);
    free(best);
    free(place);
    free(count);
    return rc;
}

void tm_groups_free(struct tm_groups *g)
{
    if (!g)
        return;
    free(g->start);
    free(g->programs);
    free(g->chunks);
    free(g->y);
    free(g->ln_cost);
    *g = (struct tm_groups){0};
}

void tm_groups_shuffle(struct tm_groups *g, struct tm_rng *rng)
{
    for (uint32_t t = 0; t < g->n_groups; t++)
        tm_rng_shuffle(rng, g->programs + g->start[t], g->start[t + 1] - g->start[t]);
    for (uint32_t i = g->n_chunks; i > 1; i--) {
        uint32_t j = tm_rng_below(rng, i);
        struct tm_chunk c = g->chunks[i - 1];
        g->chunks[i - 1] = g->chunks[j];
        g->chunks[j] = c;
    }
}
