/* Cells of `lab rdu`, one after another. A cell is a function of split, method, budget and seed; methods share all code
 * but the choice itself. */
#include "lab/rdu.h"

#include "lab/export.h"
#include "lab/lab.h"
#include "model/infer.h"
#include "model/mem.h"
#include "model/shards.h"
#include "sampler/embed.h"
#include "sampler/quota.h"

#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- methods ---- */

static bool set(struct tl_rdu_method *m, const char *key, double v)
{
    struct ts_opts *o = &m->select;
    const struct {
        const char *key;
        double *to;
    } real[] = {{"r", &o->weights.r}, {"d", &o->weights.d}, {"u", &o->weights.u}, {"f", &o->weights.f},
                {"alpha", &o->alpha}, {"noise", &o->noise}, {"cap", &o->cap}};
    for (size_t i = 0; i < sizeof real / sizeof *real; i++)
        if (strcmp(key, real[i].key) == 0)
            return *real[i].to = v, true;
    if (strcmp(key, "cells") == 0 && (v == 0 || v == 1))
        return o->by_cell = v > 0, true;
    if (strcmp(key, "floor") == 0 && v >= 0 && v <= 1e6)
        return o->task_floor = (uint32_t)v, true;
    if (strcmp(key, "rounds") == 0 && v >= 1 && v <= TS_MAX_ROUNDS)
        return m->rounds = (int)v, true;
    return false;
}

static bool option(struct tl_rdu_method *m, char *text)
{
    char *value = strchr(text, '='), *end;
    if (strcmp(text, "sum") == 0 || strcmp(text, "product") == 0)
        return m->select.form = *text == 's' ? TS_SUM : TS_PRODUCT, true;
    if (strcmp(text, "rows") == 0)
        return m->rows = true;
    if (!value)
        return false;
    *value++ = '\0';
    const double v = strtod(value, &end);
    return end != value && *end == '\0' && set(m, text, v);
}

int tl_rdu_method_parse(const char *text, struct tl_rdu_method *m, struct tp_err *e)
{
    struct tl_rdu_method new = {0};
    char parts[TL_RDU_NAME], *save = NULL;
    if (strlen(text) >= sizeof parts)
        return tp_fail(e, TP_E_UNUSABLE, "method %s: at most %d characters", text, TL_RDU_NAME - 1);
    memcpy(parts, text, strlen(text) + 1);
    memcpy(new.name, text, strlen(text) + 1);
    char *name = strtok_r(parts, ":", &save);
    const int id = name ? ts_method_find(name) : -1;
    if (id < 0)
        return tp_fail(e, TP_E_UNUSABLE, "method %s: rdu, random, uncertainty, coreset and representative are accepted",
                       text);
    ts_defaults(&new.select);
    new.select.method = (enum ts_method)id;
    new.rounds = id == TS_RANDOM ? 1 : new.select.rounds;
    for (char *p; (p = strtok_r(NULL, ":", &save));)
        if (!option(&new, p))
            return tp_fail(e, TP_E_UNUSABLE,
                           "method %s: r=, d=, u=, f=, floor=, rounds=, cells=, cap=, alpha=, noise=, sum, product and "
                           "rows are accepted",
                           text);
    *m = new;
    return 0;
}

/* ---- a cell ---- */

struct run {
    const struct tl_corpus *c;
    const struct tl_rdu_opts *o;
    const struct tl_split *s;
    const struct tl_rdu_method *m;
    uint64_t seed;
    struct tl_rdu_cell *cell;
    /* [s->n_train] */
    uint8_t *known;
    uint32_t *task, *chosen; /* chosen: programs of the dataset, ascending */
    float *embedding, *feature, *fast;
    double *raw;
    struct ts_pick *picks;
    size_t n_chosen;
};

/* A line of /proc/self/status in bytes; 0 when it cannot be read. */
static double status_bytes(const char *key)
{
    char line[256];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            kib = strtod(line + strlen(key), NULL);
    if (f)
        fclose(f);
    return 1024 * kib;
}

/* From now on VmHWM is the peak since now. Returns what is in memory now. */
static double memory_begin(void)
{
    malloc_trim(0);
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) {
        fputs("5", f);
        fclose(f);
    }
    return status_bytes("VmRSS:");
}

static int train(struct run *k, struct tm_model **m, struct tp_err *e)
{
    const struct tm_dataset *d = k->s->d;
    struct tm_hyper h = tm_hyper_default(d->features);
    struct tm_train_opts t = k->o->train;
    struct tm_groups g;
    const double began = tl_cpu_seconds();
    int rc = tm_groups_init(&g, d, k->chosen, k->n_chosen, (uint32_t)t.programs_per_task, e);
    if (rc)
        return rc;
    const uint32_t per_epoch = (g.n_chunks - 1) / (uint32_t)t.tasks_per_batch + 1;
    const int enough = (int)((k->o->steps + per_epoch - 1) / per_epoch);
    tm_groups_free(&g);
    t.epochs = enough > t.epochs ? enough : t.epochs;
    t.seed = k->seed;
    *m = tm_model_new(d->features, &h, k->seed);
    rc = *m ? tm_train(*m, d, k->chosen, k->n_chosen, NULL, 0, &t, NULL, NULL, e)
            : tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
    k->cell->epochs = (uint32_t)t.epochs;
    k->cell->steps = (uint64_t)t.epochs * per_epoch;
    k->cell->train_seconds += tl_cpu_seconds() - began;
    if (rc) {
        tm_model_free(*m);
        *m = NULL;
    }
    return rc;
}

/* What the sampler looks at: of the model that knows what is chosen so far, or of rows while that is not enough. */
static int look(struct run *k, struct ts_pool *p, struct tp_err *e)
{
    const struct tm_dataset *d = k->s->d;
    struct tm_model *m = NULL;
    int rc = 0;
    if (k->n_chosen && !k->m->rows && (rc = train(k, &m, e)) && rc != -TP_E_NOT_ENOUGH_DATA)
        return rc;
    const double began = tl_cpu_seconds();
    p->dim = m ? m->h.d_model : TS_EMBED_DIM;
    p->n_features = m ? m->h.head2 : 0;
    rc = m ? tm_embed_dataset(m, d, k->s->train, p->n, k->embedding, k->feature, k->raw)
           : ts_embed_rows(d, k->s->train, p->n, k->embedding);
    for (size_t i = 0; m && i < p->n; i++)
        k->fast[i] = (float)k->raw[i];
    p->embedding = k->embedding;
    p->feature = m ? k->feature : NULL;
    p->fast = m ? k->fast : NULL;
    tm_model_free(m);
    k->cell->select_seconds += tl_cpu_seconds() - began;
    return rc ? tp_fail(e, (enum tp_code) - rc, "no memory to embed %zu programs", p->n) : 0;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int choose_part(struct run *k, struct ts_pool *p, size_t want, int round, struct tp_err *e)
{
    struct ts_opts o = k->m->select;
    size_t n = 0;
    if (!p->fast) /* no model yet, nothing looks fast */
        o.weights.f = 0;
    o.budget = want;
    o.rounds = 1;
    o.seed = ts_mix(k->seed, (uint64_t)round);
    const double began = tl_cpu_seconds(), memory = memory_begin();
    int rc = ts_select(p, &o, NULL, NULL, k->picks, &n, e);
    k->cell->select_seconds += tl_cpu_seconds() - began;
    k->cell->select_bytes = fmax(k->cell->select_bytes, status_bytes("VmHWM:") - memory);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        k->known[k->picks[i].index] = 1;
        k->chosen[k->n_chosen++] = k->s->train[k->picks[i].index];
    }
    qsort(k->chosen, k->n_chosen, sizeof *k->chosen, by_number); /* order of choice does not reach the training */
    return rc;
}

static int choose(struct run *k, size_t budget, struct tp_err *e)
{
    const int rounds = budget < k->s->n_train ? k->m->rounds : 1; /* everything: nothing to choose */
    struct ts_pool p = {.n = k->s->n_train, .task = k->task, .known = k->known};
    int rc = 0;
    for (int round = 0; round < rounds && rc == 0; round++) {
        const size_t until = budget * (size_t)(round + 1) / (size_t)rounds;
        if (k->m->select.method != TS_RANDOM)
            rc = look(k, &p, e);
        if (rc == 0 && until > k->n_chosen)
            rc = choose_part(k, &p, until - k->n_chosen, round, e);
    }
    return rc;
}

static int score(struct run *k, const struct tm_model *m, struct tp_err *e)
{
    const size_t n = k->s->n_test;
    struct tl_score s;
    double *scores = tm_alloc(n, sizeof *scores), *latency = tm_alloc(n, sizeof *latency);
    int rc = -TP_E_NO_MEMORY;
    if (!scores || !latency || tm_predict_dataset(m, k->s->d, k->s->test, n, scores, latency, NULL))
        tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu predictions", n);
    else
        rc = tl_score_make(k->c, k->s, NULL, k->o->split.min_programs, scores, NULL, &s, e);
    free(scores);
    free(latency);
    if (rc)
        return rc;
    k->cell->n = s.n;
    k->cell->top1 = s.top1;
    k->cell->top5 = s.top5;
    k->cell->pairwise = s.pairwise;
    s.top1 = s.top5 = s.pairwise = NULL;
    tl_score_free(&s);
    return 0;
}

static bool arrays_new(struct run *k)
{
    const size_t n = k->s->n_train;
    const struct tm_hyper h = tm_hyper_default(k->s->d->features);
    const size_t dim = h.d_model > TS_EMBED_DIM ? (size_t)h.d_model : TS_EMBED_DIM;
    k->known = tm_alloc(n, sizeof *k->known);
    k->task = tm_alloc(n, sizeof *k->task);
    k->chosen = tm_alloc(n, sizeof *k->chosen);
    k->embedding = tm_alloc(n * dim, sizeof *k->embedding);
    k->feature = tm_alloc(n * (size_t)h.head2, sizeof *k->feature);
    k->fast = tm_alloc(n, sizeof *k->fast);
    k->raw = tm_alloc(n, sizeof *k->raw);
    k->picks = tm_alloc(n, sizeof *k->picks);
    for (size_t i = 0; k->task && i < n; i++)
        k->task[i] = k->s->d->task[k->s->train[i]];
    return k->known && k->task && k->chosen && k->embedding && k->feature && k->fast && k->raw && k->picks;
}

static void arrays_free(struct run *k)
{
    free(k->known);
    free(k->task);
    free(k->chosen);
    free(k->embedding);
    free(k->feature);
    free(k->fast);
    free(k->raw);
    free(k->picks);
}

static int make_cell(struct run *k, size_t budget, struct tp_err *e)
{
    struct tm_model *m = NULL;
    int rc = arrays_new(k) ? choose(k, budget, e) : tp_fail(e, TP_E_NO_MEMORY, "no memory to choose");
    k->cell->chosen = (uint32_t)k->n_chosen;
    if (rc == 0)
        rc = train(k, &m, e);
    if (rc == 0)
        rc = score(k, m, e);
    tm_model_free(m);
    arrays_free(k);
    return rc;
}

/* ---- all cells ---- */

/* What a cell depends on, for its file. */
static char *settings(const struct tl_rdu *r, const struct tl_rdu_method *m, size_t budget, uint64_t seed)
{
    const struct tl_rdu_opts *o = r->o;
    const struct ts_opts *s = &m->select;
    const struct tm_train_opts *t = &o->train;
    char *text = NULL;
    int n =
        asprintf(&text,
                 "data %016llx, pool %u of %u tasks, test %u of %u, tune %g, steps %u, epochs %d, batch %d x %d, "
                 "lr %g, list %g, %s, form %d, weights %g %g %g %g, floor %u, cells %d, cap %g, alpha %g, noise %g, "
                 "rounds %d, rows %d, "
                 "budget %zu, seed %llu",
                 (unsigned long long)r->data, r->pool, r->tasks, r->test_programs, r->test_tasks, o->tune, o->steps,
                 t->epochs, t->tasks_per_batch, t->programs_per_task, t->lr, t->list_weight, ts_method_name(s->method),
                 (int)s->form, s->weights.r, s->weights.d, s->weights.u, s->weights.f, s->task_floor, s->by_cell,
                 s->cap, s->alpha, s->noise, m->rounds, m->rows, budget, (unsigned long long)seed);
    return n < 0 ? NULL : text;
}

static int cell(struct run *k, const struct tl_rdu *r, double share, struct tp_err *e)
{
    const struct ts_pool p = {.n = k->s->n_train};
    const size_t budget = ts_budget_of(&p, share);
    char *set_by = settings(r, k->m, budget, k->seed), *path = NULL;
    int rc = set_by && (!k->o->cache || asprintf(&path, "%s/%s-%g-%llu.json", k->o->cache, k->m->name, 100 * share,
                                                 (unsigned long long)k->seed) > 0)
                 ? 0
                 : tp_fail(e, TP_E_NO_MEMORY, "no memory for a path");
    if (rc == 0 && !(path && (rc = tl_rdu_cell_read(path, set_by, k->cell)))) {
        rc = make_cell(k, budget, e);
        if (rc == 0 && path)
            rc = tl_rdu_cell_write(path, set_by, k->cell, e);
    }
    free(set_by);
    free(path);
    return rc < 0 ? rc : 0;
}

static int copy_cell(const struct tl_rdu_cell *from, struct tl_rdu_cell *to, struct tp_err *e)
{
    const size_t size = from->n * sizeof *from->top1;
    *to = *from;
    to->top1 = tm_alloc(from->n, sizeof *to->top1);
    to->top5 = tm_alloc(from->n, sizeof *to->top5);
    to->pairwise = tm_alloc(from->n, sizeof *to->pairwise);
    if (!to->top1 || !to->top5 || !to->pairwise)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for the figures of %u tasks", from->n);
    memcpy(to->top1, from->top1, size);
    memcpy(to->top5, from->top5, size);
    memcpy(to->pairwise, from->pairwise, size);
    return 0;
}

static void tell(const struct tl_rdu_cell *c, const struct tl_rdu_method *m, double share, uint64_t seed)
{
    double sum = 0, n = 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (!isnan(c->pairwise[i])) {
            sum += c->pairwise[i];
            n++;
        }
    fprintf(stderr, "%4g %%  %-24s seed %llu: %u programs, %u epochs, pairwise %.4f; CPU %.1f s\n", 100 * share,
            m->name, (unsigned long long)seed, c->chosen, c->epochs, sum / n, c->train_seconds + c->select_seconds);
}

static int all_cells(const struct tl_corpus *c, const struct tl_split *s, struct tl_rdu *r, struct tp_err *e)
{
    const struct tl_rdu_opts *o = r->o;
    struct tl_rdu_method all;
    int rc = tl_rdu_method_parse("random", &all, e);
    strcpy(all.name, "all");
    for (uint32_t seed = 0; seed < o->seeds; seed++)
        for (uint32_t b = 0; b < o->n_budgets; b++)
            for (uint32_t m = 0; m < o->n_methods && rc == 0; m++) {
                struct run k = {
                    .c = c, .o = o, .s = s, .m = &o->method[m], .seed = seed + 1, .cell = &r->cell[m][b][seed]};
                if (o->budget[b] >= 1)
                    k.m = &all;
                if (m > 0 && k.m == &all) {
                    rc = copy_cell(&r->cell[0][b][seed], k.cell, e);
                    continue;
                }
                rc = cell(&k, r, o->budget[b], e);
                if (rc == 0 && !o->quiet)
                    tell(k.cell, k.m, o->budget[b], k.seed);
            }
    return rc;
}

/* Held-out training tasks take the place of the test tasks. */
static void test_on_valid(struct tl_split *s)
{
    uint32_t *v = s->test;
    s->n_test = 0;
    for (size_t i = 0; i < s->n_valid; i++)
        if (isfinite(s->d->cost[s->valid[i]]))
            s->valid[s->n_test++] = s->valid[i];
    s->test = s->valid;
    s->valid = v;
    s->n_valid = 0;
}

int tl_rdu_run(const struct tl_corpus *c, char *const *test_keys, size_t n_keys, const struct tl_rdu_opts *o,
               struct tl_rdu *r, struct tp_err *e)
{
    struct tl_split_opts so = o->split;
    struct tl_split s;
    so.seed = 1;
    so.valid_fraction = o->tune;
    r->o = o;
    int rc = tl_split_make(c, test_keys, n_keys, &so, &s, e);
    if (rc)
        return rc;
    if (o->tune > 0)
        test_on_valid(&s);
    r->pool = (uint32_t)s.n_train;
    r->tasks = s.train_tasks;
    r->test_programs = (uint32_t)s.n_test;
    for (size_t i = 0; i < s.n_test; i++)
        r->test_tasks += i == 0 || s.d->task[s.test[i]] != s.d->task[s.test[i - 1]];
    if (o->cache) /* what learns from the split is all in it but the noise of the costs */
        r->data = tl_digest(tl_export_digest(&s), s.d->noise, s.d->n * sizeof *s.d->noise);
    rc = all_cells(c, &s, r, e);
    tl_split_free(&s);
    return rc;
}

void tl_rdu_free(struct tl_rdu *r)
{
    for (uint32_t m = 0; m < TL_RDU_METHODS; m++)
        for (uint32_t b = 0; b < TL_RDU_BUDGETS; b++)
            for (uint32_t s = 0; s < TL_RDU_SEEDS; s++)
                tl_rdu_cell_free(&r->cell[m][b][s]);
}
