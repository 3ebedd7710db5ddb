/* Groups are the distinct (task, cell) of the pool, numbered in that order, so those of a task are neighbours. */
#include "sampler/groups.h"

#include "model/mem.h"
#include "sampler/quota.h"

#include <math.h>

static int by_key(const void *pa, const void *pb)
{
    const uint64_t a = *(const uint64_t *)pa, b = *(const uint64_t *)pb;
    return a < b ? -1 : a > b;
}

static uint64_t key_of(const struct ts_pool *p, const uint32_t *cell, size_t i)
{
    return (uint64_t)(p->task ? p->task[i] : 0) << 32 | (cell ? cell[i] : 0);
}

static int number(struct ts_groups *g, const struct ts_pool *p, const uint32_t *cell)
{
    g->key = tm_alloc(p->n, sizeof *g->key);
    g->group = tm_alloc(p->n, sizeof *g->group);
    if (!g->key || !g->group)
        return -TP_E_NO_MEMORY;
    for (size_t i = 0; i < p->n; i++)
        g->key[i] = key_of(p, cell, i);
    qsort(g->key, p->n, sizeof *g->key, by_key);
    for (size_t i = 0; i < p->n; i++)
        if (i == 0 || g->key[i] != g->key[i - 1])
            g->key[g->n_groups++] = g->key[i]; /* n_groups <= i: what is compared next is still there */
    for (size_t i = 0; i < p->n; i++) {
        const uint64_t key = key_of(p, cell, i), *at = bsearch(&key, g->key, g->n_groups, sizeof key, by_key);
        g->group[i] = (uint32_t)(at - g->key);
    }
    return 0;
}

struct count {
    double *weight;
    uint32_t *left, *known;             /* [n_groups] candidates; what is known */
    uint32_t *task, *held, *task_seats; /* likewise of tasks; [n_groups] is room for them, too */
};

static int share(struct ts_groups *g, const struct count *c, size_t budget, uint32_t floor, uint64_t seed)
{
    size_t tasks = 0, t = 0;
    for (size_t i = 0; i < g->n_groups; i++) {
        tasks += i == 0 || g->key[i] >> 32 != g->key[i - 1] >> 32;
        c->task[tasks - 1] += c->left[i];
        c->held[tasks - 1] += c->known[i];
    }
    for (t = 0; t < tasks; t++)
        c->weight[t] = (double)c->task[t] + (double)c->held[t];
    int rc = ts_apportion(c->weight, c->held, c->task, tasks, budget, floor, seed, c->task_seats);
    for (size_t i = 0; i < g->n_groups; i++)
        c->weight[i] = sqrt((double)c->left[i] + (double)c->known[i]);
    t = 0;
    for (size_t from = 0, to; rc == 0 && from < g->n_groups; from = to, t++) {
        for (to = from; to < g->n_groups && g->key[to] >> 32 == g->key[from] >> 32; to++)
            ;
        rc = ts_apportion(c->weight + from, c->known + from, c->left + from, to - from, c->task_seats[t], 0,
                          ts_mix(seed, t), g->seats + from);
    }
    return rc;
}

int ts_groups_init(struct ts_groups *g, const struct ts_pool *p, const uint32_t *cell, size_t budget,
                   uint32_t task_floor, uint64_t seed)
{
    *g = (struct ts_groups){0};
    int rc = number(g, p, cell);
    if (rc)
        return rc;
    struct count c = {.weight = tm_alloc(g->n_groups, sizeof *c.weight)};
    uint32_t **const of_groups[] = {&c.left, &c.known, &c.task, &c.held, &c.task_seats, &g->seats};
    enum { ARRAYS = sizeof of_groups / sizeof *of_groups };
    rc = c.weight ? 0 : -TP_E_NO_MEMORY;
    for (int i = 0; i < ARRAYS; i++)
        if (!(*of_groups[i] = tm_alloc(g->n_groups, sizeof **of_groups[i])))
            rc = -TP_E_NO_MEMORY;
    for (size_t i = 0; rc == 0 && i < p->n; i++)
        (p->known && p->known[i] ? c.known : c.left)[g->group[i]]++;
    if (rc == 0)
        rc = share(g, &c, budget, task_floor, seed);
    free(c.weight);
    for (int i = 0; i < ARRAYS - 1; i++) /* seats are g's */
        free(*of_groups[i]);
    return rc;
}

void ts_groups_free(struct ts_groups *g)
{
    free(g->group);
    free(g->key);
    free(g->seats);
    *g = (struct ts_groups){0};
}
