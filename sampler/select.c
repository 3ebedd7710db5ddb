/* Options, methods and rounds of a selection. A method is a row of a table: a form, weights, whether seats are shared
 * between cells; one greedy choice serves all of them. Random is a draw and needs none. */
#include "sampler/select.h"

#include "model/mem.h"
#include "sampler/groups.h"
#include "sampler/quota.h"
#include "sampler/state.h"

#include <math.h>

static const struct method {
    const char *name;
    struct ts_weights weights; /* all 0: those of the options */
    bool by_cell;              /* seats within a task are shared between cells, in any pool */
    double cap_quantile;       /* of distances to what is known: where d is 1; 0: at the scale of a cell */
} methods[TS_METHOD_COUNT] = {
    [TS_RDU] = {"rdu", {0}, true, 0.0}, /* its options say */
    [TS_RANDOM] = {"random", {0}, false, 1.0},
    [TS_UNCERTAINTY] = {"uncertainty", {.u = 1}, false, 1.0},
    [TS_CORESET] = {"coreset", {.d = 1}, false, 1.0},
    [TS_REPRESENTATIVE] = {"representative", {.r = 1}, true, 1.0},
};

const char *ts_method_name(enum ts_method m)
{
    return methods[m].name;
}

int ts_method_find(const char *name)
{
    for (int i = 0; i < TS_METHOD_COUNT; i++)
        if (strcmp(name, methods[i].name) == 0)
            return i;
    return -1;
}

void ts_defaults(struct ts_opts *o)
{
    *o = (struct ts_opts){.method = TS_RDU,
                          .form = TS_PRODUCT,
                          .weights = {.r = 0.25, .d = 1.0, .u = 0.75},
                          .by_cell = methods[TS_RDU].by_cell,
                          .cap = methods[TS_RDU].cap_quantile,
                          .threads = 1,
                          .rounds = 5,
                          .task_floor = 8,
                          .alpha = 1.0,
                          .noise = 1.0,
                          .exact_limit = 50000};
}

static bool is_known(const struct ts_pool *p, size_t i)
{
    return p->known && p->known[i];
}

static size_t count_candidates(const struct ts_pool *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += !is_known(p, i);
    return n;
}

size_t ts_budget_of(const struct ts_pool *p, double fraction)
{
    /* 0.1 of 30 is 3, whatever 0.1 is in binary */
    const double n = (double)count_candidates(p), want = ceil(n * fraction * (1.0 - 1e-12));
    return !(fraction > 0) ? 0 : want < n ? (size_t)want : (size_t)n;
}

/* ---- what is allowed ---- */

static bool weight_ok(double w, enum ts_form form)
{
    return w >= 0 && w <= (form == TS_PRODUCT ? 1.0 : 1e6);
}

static int check(const struct ts_pool *p, const struct ts_opts *o, struct tp_err *e)
{
    const struct ts_weights *w = &o->weights;
    if ((unsigned)o->method >= TS_METHOD_COUNT || (o->form != TS_PRODUCT && o->form != TS_SUM))
        return tp_fail(e, TP_E_UNUSABLE, "unknown method or form of score");
    if (p->n > TS_MAX_POOL)
        return tp_fail(e, TP_E_UNUSABLE, "a pool of %zu programs: at most %d", p->n, (int)TS_MAX_POOL);
    if (o->method != TS_RANDOM && p->n > 0 && (!p->embedding || p->dim < 1 || p->dim > TS_MAX_DIM))
        return tp_fail(e, TP_E_UNUSABLE, "method %s needs embeddings of 1 to %d numbers", methods[o->method].name,
                       (int)TS_MAX_DIM);
    if (p->feature && (p->n_features < 0 || p->n_features > TS_MAX_FEATURES))
        return tp_fail(e, TP_E_UNUSABLE, "%d features: 0 to %d", p->n_features, (int)TS_MAX_FEATURES);
    if (p->predicted && (p->n_snapshots < 2 || p->n_snapshots > TS_MAX_SNAPSHOTS))
        return tp_fail(e, TP_E_UNUSABLE, "%d snapshots: 2 to %d", p->n_snapshots, (int)TS_MAX_SNAPSHOTS);
    if (!weight_ok(w->r, o->form) || !weight_ok(w->d, o->form) || !weight_ok(w->u, o->form) ||
        !weight_ok(w->f, o->form))
        return tp_fail(e, TP_E_UNUSABLE, "weights of a product lie in 0..1, of a sum in 0..1e6");
    if (o->rounds < 1 || o->rounds > TS_MAX_ROUNDS || o->threads < 1)
        return tp_fail(e, TP_E_UNUSABLE, "rounds: 1 to %d; threads: at least 1", (int)TS_MAX_ROUNDS);
    if (!(o->cap >= 0 && o->cap <= 1))
        return tp_fail(e, TP_E_UNUSABLE, "cap: 0 to 1");
    if (!(o->alpha >= 1e-9 && o->alpha <= 1e9 && o->noise >= 1e-9 && o->noise <= 1e9))
        return tp_fail(e, TP_E_UNUSABLE, "alpha and noise: 1e-9 to 1e9");
    return 0;
}

/* ---- random ---- */

struct drawn {
    uint64_t draw;
    uint32_t index;
};

static int by_draw(const void *pa, const void *pb)
{
    const struct drawn *a = pa, *b = pb;
    if (a->draw != b->draw)
        return a->draw < b->draw ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* All candidates in the order of their draws; each is taken that finds a seat. */
static int choose_random(const struct ts_pool *p, const struct ts_opts *o, size_t budget, struct ts_run *run,
                         struct ts_pick *picks, size_t *n_picks)
{
    struct ts_groups g;
    size_t m = 0, taken = 0;
    int rc = ts_groups_init(&g, p, NULL, budget, o->task_floor, o->seed);
    struct drawn *v = tm_alloc(p->n, sizeof *v);
    if (rc == 0)
        rc = v ? ts_tick(run, "greedy", 0.5) : -TP_E_NO_MEMORY;
    if (rc)
        goto out;
    for (size_t i = 0; i < p->n; i++)
        if (!is_known(p, i))
            v[m++] = (struct drawn){ts_mix(o->seed, i), (uint32_t)i};
    qsort(v, m, sizeof *v, by_draw);
    for (size_t i = 0; i < m; i++) {
        uint32_t *left = &g.seats[g.group[v[i].index]];
        if (*left == 0)
            continue;
        --*left;
        picks[taken] = (struct ts_pick){.index = v[i].index,
                                        .round = (uint32_t)(taken * (size_t)o->rounds / budget),
                                        .r = NAN,
                                        .d = NAN,
                                        .u = NAN,
                                        .score = (float)(1.0 - 0x1p-64 * (double)v[i].draw)};
        taken++;
    }
    rc = ts_tick(run, "greedy", 1.0);
    if (rc == 0)
        *n_picks = taken;
out:
    ts_groups_free(&g);
    free(v);
    return rc;
}

/* ---- greedy ---- */

static void state_free(struct ts_state *s, int threads)
{
    for (int i = 0; s->scratch && i < threads; i++)
        ts_scratch_free(&s->scratch[i]);
    free(s->scratch);
    ts_cells_free(&s->cells);
    ts_groups_free(&s->groups);
    ts_posterior_free(&s->posterior);
    free(s->r);
    free(s->fast);
    free(s->d2);
    free(s->u2);
    free(s->zone);
    free(s->member);
    free(s->item);
    free(s->scale.knots);
}

/* What is known makes the last layer sure. */
static int init_posterior(struct ts_state *s)
{
    float phi[TS_MAX_FEATURES] __attribute__((aligned(TM_ALIGN)));
    int rc =
        ts_posterior_init(&s->posterior, (size_t)s->pool->n_features, s->view.features, s->opts->alpha, s->opts->noise);
    for (size_t i = 0; rc == 0 && i < s->pool->n; i++) {
        if (!is_known(s->pool, i))
            continue;
        ts_view_feature(&s->view, i, phi);
        ts_posterior_add(&s->posterior, phi);
    }
    return rc;
}

static int share_seats(struct ts_state *s, size_t budget, bool by_cell)
{
    int rc =
        ts_groups_init(&s->groups, s->pool, by_cell ? s->cells.cell : NULL, budget, s->opts->task_floor, s->opts->seed);
    if (rc)
        return rc;
    for (size_t i = 0; i < s->groups.n_groups; i++) {
        struct ts_zone *z = &s->zone[s->n_zones > 1 ? (uint32_t)s->groups.key[i] : 0];
        z->seats += s->groups.seats[i];
    }
    for (uint32_t z = 0; z < s->n_zones; z++)
        s->zone[z].dither = s->n_zones > 1 ? 0x1p-53 * (double)(ts_mix(s->opts->seed + 1, z) >> 11) : 0.5;
    return 0;
}

static int init_state(struct ts_state *s, const struct method *m, size_t budget)
{
    const size_t n = s->pool->n;
    const bool many = n > s->opts->exact_limit, cells = m->by_cell || many || s->scale.w.r > 0;
    int rc = ts_view_init(&s->view, s->pool, s->run.workers);
    if (rc == 0 && cells)
        rc = ts_kmeans(&s->cells, &s->view, ts_cell_count(n), s->opts->seed, &s->run, 0.0, many ? 0.5 : 0.2);
    s->d2 = s->uses_d ? tm_alloc(n, sizeof *s->d2) : NULL;
    s->u2 = s->uses_u ? tm_alloc(n, sizeof *s->u2) : NULL;
    s->scratch = tm_alloc((size_t)s->opts->threads, sizeof *s->scratch);
    if (rc == 0 && ((s->uses_d && !s->d2) || (s->uses_u && !s->u2) || !s->scratch))
        rc = -TP_E_NO_MEMORY;
    for (size_t i = 0; rc == 0 && s->uses_d && i < n; i++)
        s->d2[i] = INFINITY;
    if (rc == 0)
        rc = ts_terms_init(s);
    if (rc == 0)
        rc = ts_zones_init(s, many);
    if (rc == 0 && s->updates_u)
        rc = init_posterior(s);
    return rc ? rc : share_seats(s, budget, m->by_cell || many);
}

struct wave {
    struct ts_state *s;
    uint32_t *zone; /* of the wave */
};

static void run_zone(void *arg, uint32_t item, int worker)
{
    const struct wave *w = arg;
    struct ts_scratch *scratch = &w->s->scratch[worker];
    if (scratch->rc == 0)
        ts_greedy(w->s, &w->s->zone[w->zone[item]], scratch, false, 0.0);
}

/* All zones of wave number `wave`; what they chose makes the later ones surer. */
static int run_wave(struct ts_state *s, uint32_t wave, uint32_t *zones, double fraction)
{
    struct wave w = {s, zones};
    float phi[TS_MAX_FEATURES] __attribute__((aligned(TM_ALIGN)));
    uint32_t n = 0;
    for (uint32_t z = 0; z < s->n_zones; z++)
        if (s->zone[z].wave == wave)
            zones[n++] = z;
    if (s->n_zones == 1)
        ts_greedy(s, &s->zone[0], &s->scratch[0], true, fraction);
    else
        tm_pool_run(s->run.workers, run_zone, &w, n);
    for (int i = 0; i < s->opts->threads; i++)
        if (s->scratch[i].rc)
            return s->scratch[i].rc;
    for (uint32_t i = 0; i < n && s->updates_u; i++)
        for (uint32_t k = 0; k < s->zone[zones[i]].n_picks; k++) {
            ts_view_feature(&s->view, s->zone[zones[i]].picks[k].index, phi);
            ts_posterior_add(&s->posterior, phi);
        }
    if (s->updates_u)
        ts_posterior_refit(&s->posterior);
    return ts_tick(&s->run, "greedy", fraction);
}

static int by_score(const void *pa, const void *pb)
{
    const struct ts_pick *a = pa, *b = pb;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Seats of a zone up to and with a round, -1 = before the first: grows from 0 to all of them. */
static uint32_t seats_until(const struct ts_zone *z, int round, int rounds)
{
    return (uint32_t)((double)z->seats * (round + 1) / rounds + (round + 1 < rounds ? z->dither : 0.0));
}

static int run_round(struct ts_state *s, const struct method *m, int round, uint32_t *zones, struct ts_pick *picks,
                     size_t *n_picks)
{
    const int rounds = s->opts->rounds;
    const double begin = s->run.done, end = 1.0 - (1.0 - begin) * (rounds - round - 1) / (rounds - round);
    const double looked = begin + 0.3 * (end - begin);
    size_t n = 0;
    for (uint32_t z = 0; z < s->n_zones; z++) {
        struct ts_zone *zone = &s->zone[z];
        zone->picks = picks + *n_picks + n;
        zone->n_picks = 0;
        zone->want = seats_until(zone, round, rounds) - seats_until(zone, round - 1, rounds);
        n += zone->want;
    }
    if (n == 0)
        return 0;
    if (s->updates_u)
        ts_posterior_refit(&s->posterior);
    int rc = ts_zones_refresh(s, looked);
    if (rc == 0)
        rc = ts_scale_update(s, m->cap_quantile);
    for (uint32_t w = 0; rc == 0 && w < s->n_waves; w++)
        rc = run_wave(s, w, zones, looked + (end - looked) * (w + 1) / s->n_waves);
    if (rc)
        return rc;
    if (s->n_zones > 1)
        qsort(picks + *n_picks, n, sizeof *picks, by_score);
    for (size_t i = 0; i < n; i++)
        picks[*n_picks + i].round = (uint32_t)round;
    *n_picks += n;
    return 0;
}

static int choose_greedy(const struct ts_pool *p, const struct ts_opts *o, size_t budget, const struct ts_run *run,
                         struct ts_pick *picks, size_t *n_picks)
{
    struct method m = methods[o->method];
    const bool own = o->method != TS_RDU;
    struct ts_opts opts = *o;
    struct ts_state s = {.pool = p, .opts = &opts, .run = *run};
    size_t n = 0;
    uint32_t *zones = NULL;
    opts.threads = tm_pool_threads(run->workers);
    s.scale.form = own ? TS_PRODUCT : o->form;
    s.scale.w = own ? m.weights : o->weights;
    m.by_cell = own ? m.by_cell : o->by_cell;
    m.cap_quantile = own ? m.cap_quantile : o->cap;
    s.uses_d = s.scale.w.d > 0;
    s.uses_u = s.scale.w.u > 0 && ((p->feature && p->n_features > 0) || p->predicted);
    s.updates_u = s.uses_u && !p->predicted;
    int rc = init_state(&s, &m, budget);
    if (rc == 0 && !(zones = tm_alloc(s.n_zones, sizeof *zones)))
        rc = -TP_E_NO_MEMORY;
    for (int round = 0; round < o->rounds && rc == 0; round++)
        rc = run_round(&s, &m, round, zones, picks, &n);
    if (rc == 0)
        *n_picks = n;
    free(zones);
    state_free(&s, opts.threads);
    return rc;
}

int ts_select(const struct ts_pool *p, const struct ts_opts *o, ts_progress_fn progress, void *arg,
              struct ts_pick *picks, size_t *n_picks, struct tp_err *e)
{
    int rc = check(p, o, e);
    if (rc)
        return rc;
    const size_t candidates = count_candidates(p), budget = o->budget < candidates ? o->budget : candidates;
    if (budget == 0) {
        *n_picks = 0;
        return 0;
    }
    struct ts_run run = {.workers = tm_pool_new(o->threads), .progress = progress, .arg = arg};
    rc = !run.workers             ? -TP_E_NO_MEMORY
         : o->method == TS_RANDOM ? choose_random(p, o, budget, &run, picks, n_picks)
                                  : choose_greedy(p, o, budget, &run, picks, n_picks);
    tm_pool_free(run.workers);
    if (rc == -TP_E_CANCELLED)
        return tp_fail(e, TP_E_CANCELLED, "the selection was cancelled");
    return rc ? tp_fail(e, TP_E_NO_MEMORY, "no memory to choose from %zu programs", p->n) : 0;
}
