/* Zones, their neighbours and waves, and the distances to what is known. Every zone remembers how far into its
 * neighbours' lists of known programs it has looked, so each pair of programs is compared once. */
#include "sampler/state.h"

#include "model/mem.h"

#include <math.h>

enum {
    MEMBERS = 512 /* of a zone that are looked at together */,
    STRIDE = 64 /* items between looks at the progress */
};

struct ts_item {
    uint32_t zone, from, to; /* places in member[] */
};

/* ---- making them ---- */

/* member[start..end): known ones first, either part in its order */
static void known_first(const struct ts_state *s, struct ts_zone *z, uint32_t *spare)
{
    uint32_t left = 0;
    z->known = z->start;
    for (uint32_t i = z->start; i < z->end; i++) {
        const uint32_t p = s->member[i];
        if (s->pool->known && s->pool->known[p])
            s->member[z->known++] = p;
        else
            spare[left++] = p;
    }
    memcpy(s->member + z->known, spare, left * sizeof *spare);
}

static int cut_cells(struct ts_state *s)
{
    const struct ts_cells *c = &s->cells;
    size_t n = 0;
    for (uint32_t k = 0; k < c->k; k++)
        n += (c->start[k + 1] - c->start[k] + TS_ZONE_MEMBERS - 1) / TS_ZONE_MEMBERS;
    s->zone = tm_alloc(n, sizeof *s->zone);
    if (!s->zone)
        return -TP_E_NO_MEMORY;
    for (uint32_t k = 0; k < c->k; k++) {
        const uint32_t from = c->start[k], size = c->start[k + 1] - from;
        const uint32_t parts = (size + TS_ZONE_MEMBERS - 1) / TS_ZONE_MEMBERS;
        for (uint32_t i = 0; i < parts; i++)
            s->zone[s->n_zones++] = (struct ts_zone){.start = from + (uint32_t)((uint64_t)size * i / parts),
                                                     .end = from + (uint32_t)((uint64_t)size * (i + 1) / parts),
                                                     .cell = k};
    }
    s->member = s->cells.order;
    s->cells.order = NULL;
    for (uint32_t z = 0; z < s->n_zones; z++)
        for (uint32_t i = s->zone[z].start; i < s->zone[z].end; i++)
            c->cell[s->member[i]] = z;
    return 0;
}

static int one_zone(struct ts_state *s)
{
    const uint32_t n = (uint32_t)s->pool->n;
    s->zone = tm_alloc(1, sizeof *s->zone);
    s->member = tm_alloc(n, sizeof *s->member);
    if (!s->zone || !s->member)
        return -TP_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        s->member[i] = i;
    s->zone[0].end = n;
    s->n_zones = 1;
    return 0;
}

/* The zone itself, then those with the nearest centres, equal ones by number. */
static int find_near(struct ts_state *s)
{
    const size_t dim = s->view.dim;
    float *centre = tm_alloc(s->n_zones * dim, sizeof *centre), *d = tm_alloc(s->n_zones, sizeof *d);
    for (uint32_t z = 0; centre && z < s->n_zones && s->cells.k; z++)
        memcpy(centre + z * dim, s->cells.centre + s->zone[z].cell * dim, dim * sizeof *centre);
    for (uint32_t z = 0; centre && d && z < s->n_zones; z++) {
        struct ts_zone *zone = &s->zone[z];
        s->view.ops->distances(centre + z * dim, centre, s->n_zones, dim, d);
        zone->near[zone->n_near++] = z;
        d[z] = INFINITY;
        while (zone->n_near < TS_NEAR && zone->n_near < s->n_zones) {
            uint32_t best = 0;
            for (uint32_t y = 1; y < s->n_zones; y++)
                best = d[y] < d[best] ? y : best;
            zone->near[zone->n_near++] = best;
            d[best] = INFINITY;
        }
    }
    free(centre);
    free(d);
    return centre && d ? 0 : -TP_E_NO_MEMORY;
}

/* Waves: a zone gets the first number that no zone has which it looks at or which looks at it. */
static int find_waves(struct ts_state *s)
{
    const size_t n = s->n_zones;
    uint8_t *edge = tm_alloc(n * n, 1), *taken = tm_alloc(n + 1, 1);
    for (size_t z = 0; edge && z < n; z++)
        for (uint32_t i = 1; i < s->zone[z].n_near; i++)
            edge[z * n + s->zone[z].near[i]] = edge[s->zone[z].near[i] * n + z] = 1;
    for (size_t z = 0; edge && taken && z < n; z++) {
        memset(taken, 0, n + 1);
        for (size_t y = 0; y < z; y++)
            if (edge[z * n + y])
                taken[s->zone[y].wave] = 1;
        while (taken[s->zone[z].wave])
            s->zone[z].wave++;
        s->n_waves = s->zone[z].wave + 1 > s->n_waves ? s->zone[z].wave + 1 : s->n_waves;
    }
    free(edge);
    free(taken);
    return edge && taken ? 0 : -TP_E_NO_MEMORY;
}

static int make_items(struct ts_state *s)
{
    size_t n = 0;
    for (uint32_t z = 0; z < s->n_zones; z++)
        n += (s->zone[z].end - s->zone[z].start + MEMBERS - 1) / MEMBERS;
    s->item = tm_alloc(n, sizeof *s->item);
    if (!s->item)
        return -TP_E_NO_MEMORY;
    for (uint32_t z = 0; z < s->n_zones; z++)
        for (uint32_t at = s->zone[z].start; at < s->zone[z].end; at += MEMBERS) {
            const uint32_t to = s->zone[z].end - at < MEMBERS ? s->zone[z].end : at + MEMBERS;
            s->item[s->n_items++] = (struct ts_item){z, at, to};
        }
    return 0;
}

int ts_zones_init(struct ts_state *s, bool many)
{
    int rc = many ? cut_cells(s) : one_zone(s);
    uint32_t *spare = tm_alloc(s->pool->n, sizeof *spare);
    if (rc == 0 && !spare)
        rc = -TP_E_NO_MEMORY;
    for (uint32_t z = 0; rc == 0 && z < s->n_zones; z++)
        known_first(s, &s->zone[z], spare);
    free(spare);
    if (rc == 0)
        rc = find_near(s);
    if (rc == 0)
        rc = find_waves(s);
    return rc ? rc : make_items(s);
}

/* ---- looking ---- */

void ts_zone_look(const struct ts_state *s, const struct ts_zone *z, const float *row, size_t m, float *d2,
                  float *known)
{
    const size_t dim = s->view.dim;
    float d[TS_CHUNK];
    for (uint32_t i = 0; i < z->n_near; i++) {
        const struct ts_zone *y = &s->zone[z->near[i]];
        for (uint32_t at = y->start + z->seen[i]; at < y->known; at += TS_CHUNK) {
            const uint32_t n = y->known - at < TS_CHUNK ? y->known - at : TS_CHUNK;
            for (uint32_t j = 0; j < n; j++)
                ts_view_row(&s->view, s->member[at + j], known + j * dim);
            for (size_t j = 0; j < m; j++) {
                s->view.ops->distances(row + j * dim, known, n, dim, d);
                for (uint32_t k = 0; k < n; k++)
                    d2[j] = d[k] < d2[j] ? d[k] : d2[j];
            }
        }
    }
}

struct refresh {
    struct ts_state *s;
    float *scratch; /* per worker: MEMBERS rows, TS_CHUNK rows, one feature */
    size_t floats;
    size_t first; /* the item that item 0 is */
};

static void refresh_item(void *arg, uint32_t number, int worker)
{
    const struct refresh *w = arg;
    struct ts_state *s = w->s;
    const struct ts_item *item = &s->item[w->first + number];
    const struct ts_zone *z = &s->zone[item->zone];
    const size_t dim = s->view.dim;
    const uint32_t from = item->from > z->known ? item->from : z->known;
    float *row = w->scratch + (size_t)worker * w->floats, *known = row + MEMBERS * dim, *phi = known + TS_CHUNK * dim;
    if (s->uses_d && from < item->to) {
        const size_t m = item->to - from;
        float d2[MEMBERS];
        for (size_t i = 0; i < m; i++) {
            ts_view_row(&s->view, s->member[from + i], row + i * dim);
            d2[i] = s->d2[s->member[from + i]];
        }
        ts_zone_look(s, z, row, m, d2, known);
        for (size_t i = 0; i < m; i++)
            s->d2[s->member[from + i]] = d2[i];
    }
    for (uint32_t i = from; i < item->to && s->updates_u; i++) {
        ts_view_feature(&s->view, s->member[i], phi);
        s->u2[s->member[i]] = (float)ts_posterior_variance(&s->posterior, s->view.ops, phi);
    }
}

int ts_zones_refresh(struct ts_state *s, double fraction)
{
    struct refresh w = {.s = s, .floats = (MEMBERS + TS_CHUNK) * s->view.dim + TS_MAX_FEATURES};
    const double begin = s->run.done;
    int rc = 0;
    w.scratch = tm_alloc((size_t)tm_pool_threads(s->run.workers) * w.floats, sizeof *w.scratch);
    if (!w.scratch)
        return -TP_E_NO_MEMORY;
    for (; w.first < s->n_items && rc == 0; w.first += STRIDE) {
        const size_t n = s->n_items - w.first < STRIDE ? s->n_items - w.first : STRIDE;
        tm_pool_run(s->run.workers, refresh_item, &w, (uint32_t)n);
        rc = ts_tick(&s->run, "greedy", begin + (fraction - begin) * (double)(w.first + n) / (double)s->n_items);
    }
    for (uint32_t z = 0; z < s->n_zones; z++)
        for (uint32_t i = 0; i < s->zone[z].n_near; i++) {
            const struct ts_zone *y = &s->zone[s->zone[z].near[i]];
            s->zone[z].seen[i] = y->known - y->start;
        }
    free(w.scratch);
    return rc;
}
