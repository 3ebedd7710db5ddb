/* Lazy greedy choice in one zone (Minoux 1978): scores never rise while picks are added, so a score that was right some
 * picks ago is an upper bound; only what comes to the top of the heap is brought up to date, and what is still on top
 * then is the maximum.
 *
 * Each member takes the picks in their order, one minimum and one subtraction each, whenever that happens: its score
 * does not depend on how lazy one was, so the choice equals that of the full greedy to the bit. */
#include "sampler/state.h"

#include "model/mem.h"
#include "sampler/quota.h"

#include <math.h>

enum { TICK = 64 /* picks between looks at the progress */ };

struct greedy {
    struct ts_state *s;
    struct ts_zone *z;
    struct ts_scratch *w;
    const uint32_t *member; /* [n] */
    size_t n;               /* in the heap */
};

void ts_scratch_free(struct ts_scratch *w)
{
    free(w->row);
    free(w->feature);
    free(w->d2);
    free(w->u2);
    free(w->bound);
    free(w->heap);
    free(w->seen);
    free(w->tie);
    free(w->pick_row);
    free(w->pick_v);
    free(w->known);
    ts_posterior_free(&w->posterior);
    *w = (struct ts_scratch){0};
}

/* Room for m members and `picks` picks. */
static int reserve(const struct ts_state *s, struct ts_scratch *w, size_t m, size_t picks)
{
    const size_t dim = s->uses_d ? s->view.dim : 0, features = s->updates_u ? s->view.features : 0;
    const struct {
        void **p;
        size_t *cap, n, size;
    } table[] = {
        {(void **)&w->row, &w->cap_row, m * dim, sizeof *w->row},
        {(void **)&w->feature, &w->cap_feature, m * features, sizeof *w->feature},
        {(void **)&w->d2, &w->cap_d2, m, sizeof *w->d2},
        {(void **)&w->u2, &w->cap_u2, m, sizeof *w->u2},
        {(void **)&w->bound, &w->cap_bound, m, sizeof *w->bound},
        {(void **)&w->heap, &w->cap_heap, m, sizeof *w->heap},
        {(void **)&w->seen, &w->cap_seen, m, sizeof *w->seen},
        {(void **)&w->tie, &w->cap_tie, m, sizeof *w->tie},
        {(void **)&w->pick_row, &w->cap_pick_row, picks * dim, sizeof *w->pick_row},
        {(void **)&w->pick_v, &w->cap_pick_v, picks * features, sizeof *w->pick_v},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (tm_grow(table[i].p, table[i].cap, table[i].n, table[i].size))
            return -TP_E_NO_MEMORY;
    if (dim && !w->known && !(w->known = tm_alloc(TS_CHUNK * dim, sizeof *w->known)))
        return -TP_E_NO_MEMORY;
    if (features && !w->posterior.covariance)
        return ts_posterior_init(&w->posterior, s->posterior.n, s->posterior.ld, 1.0, s->posterior.noise);
    return 0;
}

/* ---- the heap: members by bound, equal ones by a draw ---- */

static bool before(const struct greedy *g, uint32_t a, uint32_t b)
{
    const struct ts_scratch *w = g->w;
    if (w->bound[a] != w->bound[b])
        return w->bound[a] > w->bound[b];
    return w->tie[a] != w->tie[b] ? w->tie[a] < w->tie[b] : g->member[a] < g->member[b];
}

static void sift_down(const struct greedy *g, size_t i)
{
    uint32_t *heap = g->w->heap;
    const uint32_t top = heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= g->n)
            break;
        if (child + 1 < g->n && before(g, heap[child + 1], heap[child]))
            child++;
        if (!before(g, heap[child], top))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = top;
}

static void drop_top(struct greedy *g)
{
    g->w->heap[0] = g->w->heap[--g->n];
    if (g->n > 0)
        sift_down(g, 0);
}

/* ---- scores ---- */

/* Take the picks that member m has not seen. */
static void catch_up(struct greedy *g, uint32_t m)
{
    const struct ts_state *s = g->s;
    struct ts_scratch *w = g->w;
    const size_t dim = s->view.dim, features = s->view.features;
    float x[TS_CHUNK];
    for (uint32_t at = w->seen[m]; at < g->z->n_picks; at += TS_CHUNK) {
        const uint32_t n = g->z->n_picks - at < TS_CHUNK ? g->z->n_picks - at : TS_CHUNK;
        if (s->uses_d) {
            s->view.ops->distances(w->row + m * dim, w->pick_row + at * dim, n, dim, x);
            for (uint32_t i = 0; i < n; i++)
                w->d2[m] = x[i] < w->d2[m] ? x[i] : w->d2[m];
        }
        if (s->updates_u) {
            s->view.ops->products(w->feature + m * features, w->pick_v + at * features, n, features, x);
            for (uint32_t i = 0; i < n; i++)
                w->u2[m] = fmax(w->u2[m] - (double)x[i] * (double)x[i], 0.0);
        }
    }
    w->seen[m] = g->z->n_picks;
    w->bound[m] = ts_score(s, g->member[m], w->d2[m], w->u2[m], NULL);
}

static void take(struct greedy *g, uint32_t m)
{
    struct ts_state *s = g->s;
    struct ts_scratch *w = g->w;
    const size_t dim = s->view.dim, features = s->view.features, at = g->z->n_picks;
    ts_score(s, g->member[m], w->d2[m], w->u2[m], &g->z->picks[at]);
    if (s->uses_d)
        memcpy(w->pick_row + at * dim, w->row + m * dim, dim * sizeof *w->row);
    if (s->updates_u)
        ts_posterior_pick(&w->posterior, w->feature + m * features, w->pick_v + at * features);
    s->groups.seats[s->groups.group[g->member[m]]]--;
    g->z->n_picks++;
    drop_top(g);
}

/* Members with scores as of now, in the heap. */
static void load(struct greedy *g)
{
    struct ts_state *s = g->s;
    struct ts_scratch *w = g->w;
    const size_t dim = s->view.dim, features = s->view.features;
    for (size_t m = 0; m < g->n; m++) {
        const uint32_t p = g->member[m];
        if (s->uses_d)
            ts_view_row(&s->view, p, w->row + m * dim);
        if (s->updates_u)
            ts_view_feature(&s->view, p, w->feature + m * features);
        w->d2[m] = s->d2 ? s->d2[p] : 0.0f;
        w->u2[m] = s->updates_u ? ts_posterior_variance(&s->posterior, s->view.ops, w->feature + m * features)
                   : s->u2      ? (double)s->u2[p]
                                : 0.0;
        w->tie[m] = (uint32_t)ts_mix(s->opts->seed, p);
        w->heap[m] = (uint32_t)m;
    }
    if (s->uses_d)
        ts_zone_look(s, g->z, w->row, g->n, w->d2, w->known);
    for (size_t m = 0; m < g->n; m++) {
        if (s->uses_d)
            s->d2[g->member[m]] = w->d2[m];
        w->seen[m] = 0;
        w->bound[m] = ts_score(s, g->member[m], w->d2[m], w->u2[m], NULL);
    }
    for (uint32_t i = 0; s->uses_d && i < g->z->n_near; i++) {
        const struct ts_zone *y = &s->zone[g->z->near[i]];
        g->z->seen[i] = y->known - y->start;
    }
    for (size_t i = g->n / 2; i-- > 0;)
        sift_down(g, i);
}

/* The picks move to the known members of the zone. */
static void make_known(struct ts_state *s, struct ts_zone *z)
{
    uint32_t at = z->known;
    for (uint32_t i = 0; i < z->n_picks; i++)
        s->groups.group[z->picks[i].index] |= TS_PICKED;
    for (uint32_t i = z->known; i < z->end; i++) {
        const uint32_t p = s->member[i];
        if (!(s->groups.group[p] & TS_PICKED))
            continue;
        s->groups.group[p] &= ~TS_PICKED;
        s->member[i] = s->member[at];
        s->member[at++] = p;
    }
    z->known = at;
}

void ts_greedy(struct ts_state *s, struct ts_zone *z, struct ts_scratch *w, bool tick, double fraction)
{
    struct greedy g = {s, z, w, s->member + z->known, z->end - z->known};
    const double begin = s->run.done;
    z->n_picks = 0;
    if (z->want == 0)
        return;
    w->rc = reserve(s, w, g.n, z->want);
    if (w->rc)
        return;
    if (s->updates_u)
        ts_posterior_copy(&w->posterior, &s->posterior);
    load(&g);
    while (z->n_picks < z->want && g.n > 0 && w->rc == 0) {
        const uint32_t m = w->heap[0];
        if (s->groups.seats[s->groups.group[g.member[m]]] == 0) {
            drop_top(&g); /* its group is full for good */
        } else if (w->seen[m] < z->n_picks) {
            catch_up(&g, m);
            sift_down(&g, 0);
        } else {
            take(&g, m);
            if (tick && z->n_picks % TICK == 0)
                w->rc = ts_tick(&s->run, "greedy", begin + (fraction - begin) * z->n_picks / z->want);
        }
    }
    make_known(s, z);
}
