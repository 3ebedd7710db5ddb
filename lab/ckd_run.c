/* Cells of `lab ckd`, one after another. Within a transfer, seed and budget the hops follow each other and hand on what
 * each way of learning has made: knowledge bases, a fine-tuned model. */
#include "lab/ckd_make.h"

#include "lab/cli.h"
#include "lab/export.h"
#include "model/mem.h"
#include "sampler/select.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_LENGTH = 4096, SETTINGS = 2048 };

const char *tl_ckd_method_name(enum tl_ckd_method m)
{
    static const char *const name[] = {
#define X(id, text, what) text,
        TL_CKD_METHODS(X)
#undef X
    };
    return name[m];
}

static bool ablation(enum tl_ckd_method m)
{
    return m >= TL_CKD_PLAIN;
}

/* The parts of an ablation. */
bool tl_ckd_plain(enum tl_ckd_method m)
{
    return m == TL_CKD_PLAIN || m == TL_CKD_PLAIN_RDU || m == TL_CKD_PLAIN_CKD;
}

bool tl_ckd_wants(const struct tl_ckd_opts *o, enum tl_ckd_method m)
{
    return o->methods ? tl_listed(o->methods, tl_ckd_method_name(m)) : !ablation(m);
}

uint32_t tl_ckd_folds(const struct tl_ckd_opts *o)
{
    return o->folds ? o->folds : 1;
}

uint32_t tl_ckd_runs(const struct tl_ckd_opts *o)
{
    return o->seeds * tl_ckd_folds(o);
}

struct tl_ckd_cell *tl_ckd_at(const struct tl_ckd_results *r, uint32_t transfer, uint32_t hop, enum tl_ckd_method m,
                              uint32_t budget, uint32_t run)
{
    return &r->cell[(((transfer * TL_CKD_HOPS + hop) * TL_CKD_METHOD_COUNT + m) * (r->o->n_budgets + 1) + budget) *
                        (size_t)tl_ckd_runs(r->o) +
                    run];
}

static size_t cells(const struct tl_ckd_opts *o)
{
    return (size_t)o->n_transfers * TL_CKD_HOPS * TL_CKD_METHOD_COUNT * (o->n_budgets + 1) * tl_ckd_runs(o);
}

void tl_ckd_results_free(struct tl_ckd_results *r)
{
    const size_t n = r->cell ? cells(r->o) : 0;
    for (size_t i = 0; i < n; i++)
        tl_ckd_cell_free(&r->cell[i]);
    free(r->cell);
    r->cell = NULL;
}

/* ---- settings and files ---- */

static void put_phase(struct tp_buf *b, const char *name, const struct tk_learn_opts *o)
{
    tp_buf_printf(
        b,
        ", %s: %d epochs %u steps lr %g rate %d/%d batch %dx%d average %g clip %g list %g beta %g lambda %g worth %g",
        name, o->train.epochs, o->steps, o->train.lr, (int)o->train.rate, o->train.period, o->train.tasks_per_batch,
        o->train.programs_per_task, o->train.average, o->train.clip, o->train.list_weight, o->beta, o->lambda,
        o->worth);
    if (o->train.keep_last)
        tp_buf_puts(b, " last");
}

/* The untouched knowledge base is the sources' before the first hop only. */
static unsigned made_by(const struct tl_ckd_here *k, enum tl_ckd_method m)
{
    const unsigned ckd = TL_CKD_BY_SOURCE | TL_CKD_BY_SCRATCH | TL_CKD_BY_CKD;
    switch (m) {
    case TL_CKD_COLD:
        return TL_CKD_BY_SCRATCH | TL_CKD_BY_META;
    case TL_CKD_SCRATCH:
    case TL_CKD_PLAIN:
        return TL_CKD_BY_SCRATCH;
    case TL_CKD_PLAIN_RDU:
        return TL_CKD_BY_SCRATCH | TL_CKD_BY_RDU;
    case TL_CKD_ALL:
        return ckd | TL_CKD_BY_RDU;
    case TL_CKD_ZERO:
        return k->hop > 0 ? ckd : k->d->transfer->n_sources > 1 ? TL_CKD_BY_SOURCE | TL_CKD_BY_CKD : TL_CKD_BY_SOURCE;
    case TL_CKD_TUNE:
        return TL_CKD_BY_SOURCE | TL_CKD_BY_FINE | (k->d->transfer->n_sources > 1 ? TL_CKD_BY_CKD : 0);
    case TL_CKD_MTL:
        return TL_CKD_BY_SOURCE;
    default:
        return ckd;
    }
}

/* What a cell or model depends on. */
static int settings(const struct tl_ckd_here *k, const char *what, unsigned by, char out[SETTINGS])
{
    struct tp_buf b = {0};
    const struct tl_ckd_opts *o = k->o;
    tp_buf_printf(&b, "%s, %s hop %u, data %016llx, seed %llu", what, k->d->transfer->name, k->hop,
                  (unsigned long long)k->d->digest, (unsigned long long)k->run.seed);
    if (k->budget > 0)
        tp_buf_printf(&b, ", budget %g", k->budget);
    if (by & TL_CKD_BY_SOURCE)
        put_phase(&b, "source", &o->source);
    if (by & TL_CKD_BY_SCRATCH)
        put_phase(&b, "scratch", &o->scratch);
    if (by & TL_CKD_BY_FINE)
        put_phase(&b, "fine", &o->fine);
    if (by & TL_CKD_BY_META)
        tp_buf_printf(&b, ", meta: %u x %u of %u, %g %g %g", o->meta.rounds, o->meta.steps, o->meta.batch,
                      o->meta.inner_lr, o->meta.outer_lr, o->meta.average);
    if (by & TL_CKD_BY_CKD) {
        put_phase(&b, "cl", &o->cl);
        put_phase(&b, "kd", &o->kd);
        tp_buf_printf(&b, ", folds %d, committee %g, drop %g %g, known by share, pairs of both", (int)TK_FOLDS,
                      TK_COMMITTEE_BETA, TK_TOP1_DROP, TK_PAIRWISE_DROP);
        if (k->hop > 0)
            tp_buf_puts(&b, ", peers");
        if (k->budget > 0 && tl_ckd_wants(o, TL_CKD_COLD)) /* not of the sources' knowledge */
            tp_buf_puts(&b, ", start");
    }
    if (by & TL_CKD_BY_RDU) {
        struct ts_opts s;
        ts_defaults(&s);
        tp_buf_printf(&b, ", rdu: %g %g %g", s.weights.r, s.weights.d, s.weights.u);
    }
    tp_buf_putc(&b, '\0');
    const bool ok = !b.oom && b.n <= SETTINGS;
    if (ok)
        memcpy(out, b.p, b.n);
    tp_buf_free(&b);
    return ok ? 0 : -1;
}

static bool path_of(const struct tl_ckd_here *k, const char *set_by, const char *suffix, char path[PATH_LENGTH])
{
    if (!k->o->cache)
        return false;
    snprintf(path, PATH_LENGTH, "%s/%016llx.%s", k->o->cache,
             (unsigned long long)tl_digest(TL_DIGEST, set_by, strlen(set_by)), suffix);
    return true;
}

struct tk_kb *tl_ckd_load_kb(const struct tl_ckd_here *k, const char *what, unsigned by)
{
    char set_by[SETTINGS], path[PATH_LENGTH];
    struct tk_kb *kb = NULL;
    if (settings(k, what, by, set_by) || !path_of(k, set_by, "safetensors", path) || access(path, R_OK) ||
        tk_kb_load(path, &kb, NULL, NULL))
        return NULL;
    return kb;
}

int tl_ckd_save_kb(const struct tl_ckd_here *k, const char *what, unsigned by, const struct tk_kb *kb, struct tp_err *e)
{
    char set_by[SETTINGS], path[PATH_LENGTH];
    if (settings(k, what, by, set_by) || !path_of(k, set_by, "safetensors", path))
        return 0;
    return tk_kb_save(path, kb, NULL, e);
}

/* ---- all cells ---- */

static double mean(const double *v, uint32_t n)
{
    double sum = 0, m = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!isnan(v[i])) {
            sum += v[i];
            m++;
        }
    return sum / m;
}

static void tell(const struct tl_ckd_here *k, enum tl_ckd_method m, const struct tl_ckd_cell *c)
{
    const struct tl_ckd_scores *t = &c->score[c->score[TL_CKD_AC][k->target].n ? TL_CKD_AC : TL_CKD_KB][k->target];
    const struct tl_ckd_scores *s = &c->score[c->score[TL_CKD_KB][0].n ? TL_CKD_KB : TL_CKD_AC][0];
    fprintf(stderr, "%s>%s %g %% seed %llu %-16s pairwise %.4f top-1 %.4f | %s pairwise %.4f top-1 %.4f | %.0f s",
            k->d->transfer->name, k->d->hw[k->target].name, 100 * k->budget, (unsigned long long)k->run.seed,
            tl_ckd_method_name(m), mean(t->pairwise, t->n), mean(t->top1, t->n), k->d->hw[0].name,
            mean(s->pairwise, s->n), mean(s->top1, s->n), c->seconds);
    if (!isnan(c->gate))
        fprintf(stderr, " | gate %s %.3f/%.3f rival %s phi %.2f/%.2f activated %g accepted %g after %g",
                tk_gate_name((enum tk_gate)c->gate), c->gate_mean, c->gate_lower,
                isnan(c->rival) ? "none" : tk_rival_name((enum tk_rival)c->rival), c->phi_cl, c->phi_kd, c->activated,
                c->accepted, c->attempts);
    fputc('\n', stderr);
}

/* How far the ways of learning have come within a transfer, budget and seed. */
struct line {
    struct tk_kb *kb, *no_ewc, *tuned, *plain, *all;
    struct tk_kb *serves[TL_CKD_HARDWARE]; /* [hardware] its model, by ckd; NULL: it has none of its own */
};

static void replace(struct tk_kb **old, struct tk_kb *new)
{
    tk_kb_free(*old);
    *old = new;
}

/* 1: the cell is there, and so are the models (may be NULL: none needed) that follow from it. */
static int kept(const struct tl_ckd_here *k, enum tl_ckd_method m, const char *model, struct tk_kb **kb,
                struct tl_ckd_cell *c)
{
    char set_by[SETTINGS], path[PATH_LENGTH];
    const bool more = model && kb && k->target + 1 < k->d->transfer->n;
    if (settings(k, tl_ckd_method_name(m), made_by(k, m), set_by) || !path_of(k, set_by, "json", path) ||
        !tl_ckd_cell_read(path, set_by, c))
        return 0;
    if (more) {
        struct tk_kb *next = tl_ckd_load_kb(k, model, made_by(k, m));
        if (!next) {
            tl_ckd_cell_free(c);
            return 0;
        }
        tk_kb_free(*kb);
        *kb = next;
    }
    return 1;
}

static int keep(const struct tl_ckd_here *k, enum tl_ckd_method m, const char *model, const struct tk_kb *kb,
                const struct tl_ckd_cell *c, struct tp_err *e)
{
    char set_by[SETTINGS], path[PATH_LENGTH];
    int rc = 0;
    if (!k->o->quiet)
        tell(k, m, c);
    if (!settings(k, tl_ckd_method_name(m), made_by(k, m), set_by) && path_of(k, set_by, "json", path))
        rc = tl_ckd_cell_write(path, set_by, c, e);
    if (rc == 0 && model && k->target + 1 < k->d->transfer->n)
        rc = tl_ckd_save_kb(k, model, made_by(k, m), kb, e);
    return rc;
}

struct place {
    struct tl_ckd_results *r;
    uint32_t transfer, budget, run;
};

static struct tl_ckd_cell *at(const struct place *p, const struct tl_ckd_here *k, enum tl_ckd_method m)
{
    return tl_ckd_at(p->r, p->transfer, k->hop, m, p->budget, p->run);
}

static void set_peers(struct tl_ckd_here *k, const struct line *line)
{
    k->n_peers = 0;
    for (uint32_t h = 0; h < k->target; h++)
        if (line->serves[h])
            k->peer[k->n_peers++] = (struct tk_peer){k->d->hw[h].name, line->serves[h]->model, k->d->hw[h].kind, h};
}

/* What the next hop begins with; NULL: as before. */
static void hand_on(struct line *line, struct tk_kb **serves, struct tl_ckd_made *made, struct tk_kb *no_ewc)
{
    if (made->kb)
        replace(&line->kb, made->kb);
    if (made->serves)
        replace(serves, made->serves);
    if (no_ewc)
        replace(&line->no_ewc, no_ewc);
    made->kb = made->serves = NULL;
}

static int distilled(struct tl_ckd_here *k, const struct place *p, struct line *line, struct tp_err *e)
{
    const bool wants = tl_ckd_wants(k->o, TL_CKD_CKD), without = tl_ckd_wants(k->o, TL_CKD_NO_EWC);
    const bool more = k->target + 1 < k->d->transfer->n;
    struct tl_ckd_cell *c = at(p, k, TL_CKD_CKD), *n = at(p, k, TL_CKD_NO_EWC);
    struct tl_ckd_made made = {0};
    struct tk_kb *next_free = NULL, **serves = &line->serves[k->target];
    if (!wants && !without)
        return 0;
    if (kept(k, TL_CKD_CKD, "ckd kb", &made.kb, c) && (!without || kept(k, TL_CKD_NO_EWC, "free kb", &next_free, n)) &&
        (!more || c->activated < 1 || (made.serves = tl_ckd_load_kb(k, "ckd serves", made_by(k, TL_CKD_CKD))))) {
        hand_on(line, serves, &made, next_free);
        return 0;
    }
    tl_ckd_made_free(&made);
    tk_kb_free(next_free);
    next_free = NULL;
    tl_ckd_cell_free(c);
    tl_ckd_cell_free(n);
    set_peers(k, line);
    int rc = tl_ckd_make_ckd(k, line->kb, false, &made, c, e);
    if (rc == 0)
        rc = keep(k, TL_CKD_CKD, "ckd kb", made.kb, c, e);
    if (rc == 0 && more && made.serves)
        rc = tl_ckd_save_kb(k, "ckd serves", made_by(k, TL_CKD_CKD), made.serves, e);
    if (rc == 0 && without && (rc = tl_ckd_make_no_ewc(k, line->no_ewc, made.teacher, &next_free, n, e)) == 0)
        rc = keep(k, TL_CKD_NO_EWC, "free kb", next_free, n, e);
    hand_on(line, serves, &made, next_free);
    tl_ckd_made_free(&made);
    return rc;
}

static int ablated(struct tl_ckd_here *k, const struct place *p, enum tl_ckd_method m, struct line *line,
                   struct tp_err *e)
{
    const bool with_kb = m == TL_CKD_PLAIN_CKD || m == TL_CKD_ALL;
    struct tk_kb **kb = m == TL_CKD_ALL ? &line->all : &line->plain;
    struct tl_ckd_made made = {0};
    struct tl_ckd_cell *c = at(p, k, m);
    if (!tl_ckd_wants(k->o, m) || kept(k, m, with_kb ? tl_ckd_method_name(m) : NULL, kb, c))
        return 0;
    k->n_peers = 0;
    int rc = tl_ckd_choose_random(k, e);
    if (rc == 0 && (m == TL_CKD_PLAIN_RDU || m == TL_CKD_ALL))
        rc = tl_ckd_choose_rdu(k, m == TL_CKD_ALL ? *kb : NULL, e);
    if (rc == 0)
        rc = tl_ckd_keep_parts(k, e);
    if (rc == 0)
        rc = with_kb ? tl_ckd_make_ckd(k, *kb, m == TL_CKD_PLAIN_CKD, &made, c, e)
                     : tl_ckd_make_single(k, m, NULL, NULL, c, e);
    if (rc == 0)
        rc = keep(k, m, with_kb ? tl_ckd_method_name(m) : NULL, made.kb, c, e);
    if (made.kb) {
        replace(kb, made.kb);
        made.kb = NULL;
    }
    tl_ckd_made_free(&made);
    return rc;
}

static int hop(struct tl_ckd_here *k, const struct place *p, struct line *line, struct tp_err *e)
{
    struct tk_kb *next = NULL;
    struct tl_ckd_cell *c;
    int rc = tl_ckd_choose_random(k, e);
    if (rc || (rc = tl_ckd_keep_parts(k, e)))
        return rc;
    c = at(p, k, TL_CKD_ZERO);
    if (tl_ckd_wants(k->o, TL_CKD_ZERO) && k->budget < 1 && !kept(k, TL_CKD_ZERO, NULL, NULL, c) &&
        ((rc = tl_ckd_make_zero(k, line->kb, c, e)) || (rc = keep(k, TL_CKD_ZERO, NULL, NULL, c, e))))
        return rc;
    c = at(p, k, TL_CKD_SCRATCH);
    if (tl_ckd_wants(k->o, TL_CKD_SCRATCH) && !kept(k, TL_CKD_SCRATCH, NULL, NULL, c) &&
        ((rc = tl_ckd_make_single(k, TL_CKD_SCRATCH, NULL, NULL, c, e)) ||
         (rc = keep(k, TL_CKD_SCRATCH, NULL, NULL, c, e))))
        return rc;
    if (k->budget >= 1)
        return 0;
    c = at(p, k, TL_CKD_COLD);
    if (tl_ckd_wants(k->o, TL_CKD_COLD) && !kept(k, TL_CKD_COLD, NULL, NULL, c) &&
        ((rc = tl_ckd_make_cold(k, c, e)) || (rc = keep(k, TL_CKD_COLD, NULL, NULL, c, e))))
        return rc;
    c = at(p, k, TL_CKD_TUNE);
    if (tl_ckd_wants(k->o, TL_CKD_TUNE) && !kept(k, TL_CKD_TUNE, "tuned", &line->tuned, c)) {
        if ((rc = tl_ckd_make_single(k, TL_CKD_TUNE, line->tuned, &next, c, e)) ||
            (rc = keep(k, TL_CKD_TUNE, "tuned", next, c, e)))
            return rc;
        replace(&line->tuned, next);
    }
    c = at(p, k, TL_CKD_MTL);
    if (tl_ckd_wants(k->o, TL_CKD_MTL) && !kept(k, TL_CKD_MTL, NULL, NULL, c) &&
        ((rc = tl_ckd_make_multi(k, c, e)) || (rc = keep(k, TL_CKD_MTL, NULL, NULL, c, e))))
        return rc;
    rc = distilled(k, p, line, e);
    for (int m = TL_CKD_PLAIN; m <= TL_CKD_ALL && rc == 0; m++)
        rc = ablated(k, p, (enum tl_ckd_method)m, line, e);
    return rc;
}

static bool any_plain(const struct tl_ckd_opts *o)
{
    return tl_ckd_wants(o, TL_CKD_PLAIN_CKD);
}

static void line_free(struct line *l)
{
    tk_kb_free(l->kb);
    tk_kb_free(l->no_ewc);
    tk_kb_free(l->tuned);
    tk_kb_free(l->plain);
    tk_kb_free(l->all);
    for (uint32_t h = 0; h < TL_CKD_HARDWARE; h++)
        tk_kb_free(l->serves[h]);
}

static int hops(struct tl_ckd_here *k, const struct place *p, struct tp_err *e)
{
    const struct tl_ckd_transfer *t = k->d->transfer;
    struct line line = {0};
    const double budget = k->budget;
    k->hop = 0;
    k->budget = 0; /* the sources' knowledge does not depend on it */
    k->target = t->n_sources;
    int rc = 0;
    for (uint32_t h = 0; h < t->n_sources && rc == 0; h++)
        rc = tl_ckd_know(k, h, k->d->hw[h].split.train, k->d->hw[h].split.n_train, e);
    if (rc == 0)
        rc = tl_ckd_source_kb(k, false, &line.kb, e);
    if (rc == 0 && tl_ckd_wants(k->o, TL_CKD_COLD))
        rc = tl_ckd_source_start(k, line.kb, e);
    if (rc == 0 && any_plain(k->o))
        rc = tl_ckd_source_kb(k, true, &line.plain, e);
    if (rc == 0 &&
        (!(line.no_ewc = tk_kb_clone(line.kb)) || !(line.tuned = tk_kb_clone(line.kb)) ||
         !(line.all = tk_kb_clone(line.kb)) || (t->n_sources == 1 && !(line.serves[0] = tk_kb_clone(line.kb)))))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for knowledge bases");
    for (k->hop = 0; k->target < t->n && rc == 0; k->hop++, k->target++) {
        const size_t n = k->d->hw[k->target].split.n_train;
        k->budget = budget;
        k->sample = tm_alloc(n, sizeof *k->sample);
        k->train = tm_alloc(n, sizeof *k->train);
        k->valid = tm_alloc(n, sizeof *k->valid);
        rc = k->sample && k->train && k->valid ? hop(k, p, &line, e)
                                               : tp_fail(e, TP_E_NO_MEMORY, "no memory for a sample");
        if (rc == 0 && (rc = tl_ckd_choose_random(k, e)) == 0)
            rc = tl_ckd_know(k, k->target, k->sample, k->n, e);
        free(k->sample);
        free(k->train);
        free(k->valid);
    }
    for (uint32_t h = 0; h < TL_CKD_HARDWARE; h++) {
        free((void *)k->known[h].learned.programs);
        free((void *)k->known[h].held_out.programs);
    }
    line_free(&line);
    return rc;
}

static int fold(const struct tl_ckd_opts *o, struct tl_ckd_results *r, uint32_t transfer, uint32_t f, struct tp_err *e)
{
    struct tl_ckd_data d;
    int rc = tl_ckd_data_read(o, &o->transfer[transfer], f, &d, e);
    if (rc)
        return rc;
    for (uint32_t s = 0; s < o->seeds && rc == 0; s++)
        for (uint32_t b = 0; b <= o->n_budgets && rc == 0; b++) {
            struct tl_ckd_here k = {.o = o,
                                    .d = &d,
                                    .run = {.seed = s + 1, .threads = o->threads},
                                    .budget = b < o->n_budgets ? o->budget[b] : 1};
            const struct place p = {r, transfer, b, s * tl_ckd_folds(o) + f};
            rc = hops(&k, &p, e);
        }
    tl_ckd_data_free(&d);
    return rc;
}

int tl_ckd_run(const struct tl_ckd_opts *o, struct tl_ckd_results *r, struct tp_err *e)
{
    const size_t n = cells(o);
    int rc = 0;
    *r = (struct tl_ckd_results){.o = o, .cell = calloc(n, sizeof *r->cell)};
    if (!r->cell)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for cells");
    for (uint32_t t = 0; t < o->n_transfers; t++)
        for (uint32_t f = 0; f < tl_ckd_folds(o) && rc == 0; f++)
            rc = fold(o, r, t, f, e);
    if (rc)
        tl_ckd_results_free(r);
    return rc;
}
