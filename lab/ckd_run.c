/* Cells of `lab ckd`, one after another. Within a transfer, seed and budget the hops follow each other and hand on what
 * each way of learning has made: knowledge bases, a fine-tuned model. */
#include "lab/ckd.h"

#include "lab/cli.h"
#include "lab/export.h"
#include "lab/lab.h"
#include "model/mem.h"
#include "sampler/embed.h"
#include "sampler/select.h"

#include "model/infer.h"

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
static bool plain(enum tl_ckd_method m)
{
    return m == TL_CKD_PLAIN || m == TL_CKD_PLAIN_RDU || m == TL_CKD_PLAIN_CKD;
}

bool tl_ckd_wants(const struct tl_ckd_opts *o, enum tl_ckd_method m)
{
    return o->methods ? tl_listed(o->methods, tl_ckd_method_name(m)) : !ablation(m);
}

struct tl_ckd_cell *tl_ckd_at(const struct tl_ckd_results *r, uint32_t transfer, uint32_t hop, enum tl_ckd_method m,
                              uint32_t budget, uint32_t seed)
{
    return &r->cell[(((transfer * TL_CKD_HOPS + hop) * TL_CKD_METHOD_COUNT + m) * (TL_CKD_BUDGETS + 1) + budget) *
                        TL_CKD_SEEDS +
                    seed];
}

static size_t cells(const struct tl_ckd_opts *o)
{
    return (size_t)o->n_transfers * TL_CKD_HOPS * TL_CKD_METHOD_COUNT * (TL_CKD_BUDGETS + 1) * TL_CKD_SEEDS;
}

void tl_ckd_results_free(struct tl_ckd_results *r)
{
    const size_t n = r->cell ? cells(r->o) : 0;
    for (size_t i = 0; i < n; i++)
        tl_ckd_cell_free(&r->cell[i]);
    free(r->cell);
    r->cell = NULL;
}

/* ---- one cell's surroundings ---- */

struct run {
    const struct tl_ckd_opts *o;
    const struct tl_ckd_data *d;
    struct tk_run run;
    uint32_t hop, target; /* target: index of its hardware */
    double budget;
    /* programs of the target at this budget, random and by the sampler; train and valid are parts of them */
    uint32_t *sample, *train, *valid;
    size_t n, n_train, n_valid;
};

/* Held out as the daemon does, within programs[0..n). */
static int hold_out(const struct tl_ckd_hardware *h, const uint32_t *programs, size_t n, uint32_t *train,
                    size_t *n_train, uint32_t *valid, size_t *n_valid, struct tp_err *e)
{
    const struct tm_dataset *ds = h->split.d;
    uint8_t(*key)[16] = tm_alloc(ds->n, sizeof *key), *out = tm_alloc(ds->n, sizeof *out);
    uint32_t *a = tm_alloc(ds->n, sizeof *a), *b = tm_alloc(ds->n, sizeof *b);
    size_t na, nb;
    bool by_record;
    int rc = key && out && a && b ? 0 : tp_fail(e, TP_E_NO_MEMORY, "no memory to hold out programs");
    for (uint32_t i = 0; i < ds->n && rc == 0; i++)
        memcpy(key[i], h->corpus->programs[h->split.program[i]].hash, 16);
    if (rc == 0)
        rc = tk_holdout_split(ds, (const uint8_t(*)[16])key, a, &na, b, &nb, &by_record, e);
    for (size_t i = 0; rc == 0 && i < nb; i++)
        out[b[i]] = 1;
    *n_train = *n_valid = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (out[programs[i]])
            valid[(*n_valid)++] = programs[i];
        else
            train[(*n_train)++] = programs[i];
    free(key);
    free(out);
    free(a);
    free(b);
    return rc;
}

static struct tk_set set_of(const struct tl_ckd_hardware *h, const uint32_t *programs, size_t n)
{
    return (struct tk_set){h->split.d, programs, n};
}

static int score(const struct run *k, const struct tm_model *m, uint32_t hw, struct tl_ckd_scores *out,
                 struct tp_err *e)
{
    const struct tl_ckd_hardware *h = &k->d->hw[hw];
    const struct tk_set test = set_of(h, h->split.test, h->split.n_test);
    struct tl_split_opts so;
    struct tl_score s;
    double *v = tm_alloc(test.n, sizeof *v);
    int rc = v ? tk_scores(m, &test, k->run.threads, v, e) : tp_fail(e, TP_E_NO_MEMORY, "no memory to score");
    tl_split_defaults(&so);
    if (rc == 0 && (rc = tl_score_make(h->corpus, &h->split, NULL, so.min_programs, v, NULL, &s, e)) == 0) {
        *out = (struct tl_ckd_scores){s.n, s.pairwise, s.top1, s.top5};
        s.pairwise = s.top1 = s.top5 = NULL;
        tl_score_free(&s);
    }
    free(v);
    return rc;
}

static int score_all(const struct run *k, const struct tm_model *m, int role, struct tl_ckd_cell *c, struct tp_err *e)
{
    int rc = 0;
    for (uint32_t h = 0; h <= k->target && rc == 0; h++)
        rc = score(k, m, h, &c->score[role][h], e);
    return rc;
}

/* ---- settings and files ---- */

static void put_phase(struct tp_buf *b, const char *name, const struct tk_learn_opts *o)
{
    tp_buf_printf(
        b, ", %s: %d epochs %u steps lr %g rate %d/%d batch %dx%d average %g clip %g beta %g lambda %g blend %g", name,
        o->train.epochs, o->steps, o->train.lr, (int)o->train.rate, o->train.period, o->train.tasks_per_batch,
        o->train.programs_per_task, o->train.average, o->train.clip, o->beta, o->lambda, o->blend);
}

/* What a cell or model depends on. */
static int settings(const struct run *k, const char *what, bool distilled, char out[SETTINGS])
{
    struct tp_buf b = {0};
    const struct tl_ckd_opts *o = k->o;
    tp_buf_printf(&b, "%s, %s hop %u, data %016llx, seed %llu", what, k->d->transfer->name, k->hop,
                  (unsigned long long)k->d->digest, (unsigned long long)k->run.seed);
    if (k->budget > 0)
        tp_buf_printf(&b, ", budget %g", k->budget);
    put_phase(&b, "source", &o->source);
    put_phase(&b, "scratch", &o->scratch);
    if (distilled || k->hop > 0) {
        put_phase(&b, "fine", &o->fine);
        put_phase(&b, "cl", &o->cl);
        put_phase(&b, "kd", &o->kd);
    }
    tp_buf_putc(&b, '\0');
    const bool ok = !b.oom && b.n <= SETTINGS;
    if (ok)
        memcpy(out, b.p, b.n);
    tp_buf_free(&b);
    return ok ? 0 : -1;
}

static bool path_of(const struct run *k, const char *set_by, const char *suffix, char path[PATH_LENGTH])
{
    if (!k->o->cache)
        return false;
    snprintf(path, PATH_LENGTH, "%s/%016llx.%s", k->o->cache,
             (unsigned long long)tl_digest(TL_DIGEST, set_by, strlen(set_by)), suffix);
    return true;
}

static struct tk_kb *load_kb(const struct run *k, const char *what, bool distilled)
{
    char set_by[SETTINGS], path[PATH_LENGTH];
    struct tk_kb *kb = NULL;
    if (settings(k, what, distilled, set_by) || !path_of(k, set_by, "safetensors", path) || access(path, R_OK) ||
        tk_kb_load(path, &kb, NULL, NULL))
        return NULL;
    return kb;
}

static int save_kb(const struct run *k, const char *what, bool distilled, const struct tk_kb *kb, struct tp_err *e)
{
    char set_by[SETTINGS], path[PATH_LENGTH];
    if (settings(k, what, distilled, set_by) || !path_of(k, set_by, "safetensors", path))
        return 0;
    return tk_kb_save(path, kb, NULL, e);
}

/* ---- knowledge of the sources ---- */

struct parts {
    uint32_t *train, *valid;
    size_t n_train, n_valid;
};

static int part(const struct tl_ckd_hardware *h, struct parts *p, struct tp_err *e)
{
    p->train = tm_alloc(h->split.n_train, sizeof *p->train);
    p->valid = tm_alloc(h->split.n_train, sizeof *p->valid);
    if (!p->train || !p->valid)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory to hold out programs");
    return hold_out(h, h->split.train, h->split.n_train, p->train, &p->n_train, p->valid, &p->n_valid, e);
}

/* The same network with a block that adds nothing: rows are embedded and summed. */
static float *plain_start(const struct tm_model *m)
{
    float *w = tm_alloc(m->n, sizeof *w);
    if (!w)
        return NULL;
    memcpy(w, m->w, m->n * sizeof *w);
    memset(w + m->shape[TM_T_OUT_PROJ_W].offset, 0, m->shape[TM_T_OUT_PROJ_W].size * sizeof *w);
    return w;
}

static void make_plain(struct tk_learn_opts *o)
{
    o->train.frozen = UINT64_C(1) << TM_T_OUT_PROJ_W;
}

static int learn_plain(const struct run *k, const struct tk_set *train, const struct tk_set *valid,
                       const struct tk_learn_opts *with, struct tm_model **out, struct tp_err *e)
{
    struct tk_learn_opts o = *with;
    struct tk_learned told;
    const struct tm_hyper h = tm_hyper_default(train->ds->features);
    struct tm_model *m = tm_model_new(train->ds->features, &h, k->run.seed);
    float *start = m ? plain_start(m) : NULL;
    make_plain(&o);
    int rc = start ? tk_learn(NULL, TK_GATE_SCRATCH, start, train, valid, &o, &k->run, out, &told, e)
                   : tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
    free(start);
    tm_model_free(m);
    return rc;
}

static int source_kb(const struct run *k, bool is_plain, struct tk_kb **out, struct tp_err *e)
{
    struct tk_pretrain p;
    struct tk_source source[TL_CKD_HARDWARE];
    struct parts parts[TL_CKD_HARDWARE] = {{0}};
    struct tm_model *m;
    const uint32_t n = k->d->transfer->n_sources;
    int rc = 0;
    if ((*out = load_kb(k, is_plain ? "plain kb" : "kb", n > 1)))
        return 0;
    for (uint32_t i = 0; i < n && rc == 0; i++) {
        rc = part(&k->d->hw[i], &parts[i], e);
        source[i] = (struct tk_source){k->d->hw[i].name, set_of(&k->d->hw[i], parts[i].train, parts[i].n_train),
                                       set_of(&k->d->hw[i], parts[i].valid, parts[i].n_valid)};
    }
    tk_pretrain_defaults(&p);
    p.kind = k->d->hw[0].kind;
    p.sources = source;
    p.n = n;
    p.scratch = k->o->source;
    p.cl = k->o->cl;
    p.kd = k->o->kd;
    p.run = k->run;
    if (rc == 0 && !is_plain)
        rc = tk_pretrain(&p, NULL, 0, NULL, out, e);
    if (rc == 0 && is_plain && (rc = learn_plain(k, &source[0].train, &source[0].valid, &p.scratch, &m, e)) == 0) {
        *out = tk_kb_new(m, p.kind);
        rc = *out ? tk_settle(*out, &source[0].train, &k->run, e) : tp_fail(e, TP_E_NO_MEMORY, "no memory");
    }
    if (rc == 0)
        rc = save_kb(k, is_plain ? "plain kb" : "kb", n > 1, *out, e);
    for (uint32_t i = 0; i < n; i++) {
        free(parts[i].train);
        free(parts[i].valid);
    }
    return rc;
}

/* ---- methods ---- */

/* Choose by the sampler as many programs as the random draw has, looking through kb, or at rows without one. */
static int choose_rdu(struct run *k, const struct tk_kb *kb, struct tp_err *e)
{
    const struct tl_ckd_hardware *h = &k->d->hw[k->target];
    const struct tl_split *s = &h->split;
    struct ts_opts o;
    struct ts_pool p = {.n = s->n_train, .dim = kb ? kb->model->h.d_model : TS_EMBED_DIM};
    float *embedding = tm_alloc(p.n * (size_t)p.dim, sizeof *embedding);
    float *feature = kb ? tm_alloc(p.n * (size_t)kb->model->h.head2, sizeof *feature) : NULL;
    uint32_t *task = tm_alloc(p.n, sizeof *task);
    struct ts_pick *picks = tm_alloc(p.n, sizeof *picks);
    size_t n = 0;
    int rc = embedding && task && picks && (!kb || feature) ? 0 : -TP_E_NO_MEMORY;
    for (size_t i = 0; rc == 0 && i < p.n; i++)
        task[i] = s->d->task[s->train[i]];
    if (rc == 0)
        rc = kb ? tm_embed_dataset(kb->model, s->d, s->train, p.n, embedding, feature, NULL)
                : ts_embed_rows(s->d, s->train, p.n, embedding);
    if (rc)
        tp_fail(e, TP_E_NO_MEMORY, "no memory to choose");
    ts_defaults(&o);
    o.budget = k->n;
    o.seed = k->run.seed;
    o.threads = k->run.threads;
    p.embedding = embedding;
    p.feature = feature;
    p.n_features = kb ? kb->model->h.head2 : 0;
    p.task = task;
    if (rc == 0)
        rc = ts_select(&p, &o, NULL, NULL, picks, &n, e);
    for (size_t i = 0; i < n && rc == 0; i++)
        k->sample[i] = s->train[picks[i].index];
    free(embedding);
    free(feature);
    free(task);
    free(picks);
    return rc;
}

static int choose_random(struct run *k, struct tp_err *e)
{
    return tl_ckd_sample(&k->d->hw[k->target], k->budget, k->run.seed, k->sample, &k->n, e);
}

static int keep_parts(struct run *k, struct tp_err *e)
{
    return hold_out(&k->d->hw[k->target], k->sample, k->n, k->train, &k->n_train, k->valid, &k->n_valid, e);
}

static struct tl_ckd_cell fresh(const struct run *k)
{
    return (struct tl_ckd_cell){.done = true,
                                .programs = (double)k->n,
                                .gate = NAN,
                                .gate_mean = NAN,
                                .gate_lower = NAN,
                                .phi_cl = NAN,
                                .phi_kd = NAN,
                                .activated = NAN,
                                .accepted = NAN,
                                .attempts = NAN,
                                .from_start = NAN};
}

static double model_bytes(const struct tm_model *m)
{
    return (double)tm_parameter_count(&m->h) * sizeof(float);
}

/* Scratch, fine-tuning: one model from all programs of the budget. kb NULL: scratch. *keep (may be NULL): the model. */
static int make_single(const struct run *k, enum tl_ckd_method method, const struct tk_kb *kb, struct tk_kb **keep,
                       struct tl_ckd_cell *c, struct tp_err *e)
{
    const struct tl_ckd_hardware *h = &k->d->hw[k->target];
    const struct tk_set train = set_of(h, k->sample, k->n), none = set_of(h, NULL, 0);
    struct tm_model *m = NULL;
    struct tk_learned told;
    const double began = tl_cpu_seconds();
    int rc;
    *c = fresh(k);
    if (plain(method))
        rc = learn_plain(k, &train, &none, &k->o->scratch, &m, e);
    else
        rc = tk_learn(kb, kb ? TK_GATE_WARM_START : TK_GATE_SCRATCH, NULL, &train, &none,
                      kb ? &k->o->fine : &k->o->scratch, &k->run, &m, &told, e);
    c->seconds = tl_cpu_seconds() - began;
    if (rc == 0) {
        c->bytes = model_bytes(m);
        rc = score_all(k, m, TL_CKD_AC, c, e);
    }
    if (rc == 0 && keep)
        rc = (*keep = tk_kb_new(m, h->kind)) ? 0 : tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
    else
        tm_model_free(m);
    return rc;
}

static int make_multi(const struct run *k, struct tl_ckd_cell *c, struct tp_err *e)
{
    struct tk_set set[TL_CKD_HARDWARE];
    struct tm_model *m[TL_CKD_HARDWARE] = {NULL};
    const double began = tl_cpu_seconds();
    int rc = 0;
    *c = fresh(k);
    for (uint32_t h = 0; h < k->target; h++)
        set[h] = set_of(&k->d->hw[h], k->d->hw[h].split.train, k->d->hw[h].split.n_train);
    set[k->target] = set_of(&k->d->hw[k->target], k->sample, k->n);
    rc = tl_ckd_multi_task(set, k->target + 1, &k->o->source, &k->run, m, e);
    c->seconds = tl_cpu_seconds() - began;
    for (uint32_t h = 0; h <= k->target && rc == 0; h++)
        rc = score(k, m[h], h, &c->score[TL_CKD_AC][h], e);
    if (rc == 0) {
        const struct tm_shape *s = m[0]->shape;
        c->bytes = 0; /* the head alone */
        for (int t = TM_T_HEAD0_W; t <= TM_T_HEAD2_B; t++)
            c->bytes += (double)s[t].size * sizeof(float);
    }
    for (uint32_t h = 0; h <= k->target; h++)
        tm_model_free(m[h]);
    return rc;
}

/* What the family has learned before this hop, as probe sets: all that was measured there. */
static void older_sets(const struct run *k, struct tk_set older[TL_CKD_HARDWARE])
{
    for (uint32_t h = 0; h < k->target; h++)
        older[h] = set_of(&k->d->hw[h], k->d->hw[h].split.train, k->d->hw[h].split.n_train);
}

/* CKD as the daemon does it. *next: the knowledge base from now on (a copy of kb when it learned nothing). */
static int make_ckd(const struct run *k, const struct tk_kb *kb, bool is_plain, struct tk_kb **next,
                    struct tm_model **ac, struct tl_ckd_cell *c, struct tp_err *e)
{
    const struct tl_ckd_hardware *h = &k->d->hw[k->target];
    struct tk_set older[TL_CKD_HARDWARE];
    struct tk_adapt a;
    struct tk_adapt_state s = {0};
    const double began = tl_cpu_seconds();
    const bool related = tk_family_accepts(kb->kind, h->kind);
    int rc;
    *c = fresh(k);
    older_sets(k, older);
    tk_adapt_defaults(&a);
    a.kind = h->kind;
    a.kb = related ? kb : NULL;
    a.keep_kb = !related;
    a.train = set_of(h, k->train, k->n_train);
    a.valid = set_of(h, k->valid, k->n_valid);
    a.older = older;
    a.n_older = k->target;
    a.scratch = k->o->scratch;
    a.cl = k->o->cl;
    a.kd = k->o->kd;
    a.run = k->run;
    if (is_plain) {
        make_plain(&a.scratch);
        make_plain(&a.cl);
        make_plain(&a.kd);
    }
    rc = tk_adapt(&a, &s, e);
    c->seconds = tl_cpu_seconds() - began;
    if (rc == 0 && !related) { /* what the gate says of it, and what it would say without the family's rule */
        struct tk_verdict v;
        const struct tk_set probe = set_of(h, k->sample, k->n);
        if ((rc = tk_gate_model(kb->model, kb->kind, h->kind, &probe, &k->run, &s.verdict, e)) == 0 &&
            (rc = tk_gate_model(kb->model, h->kind, h->kind, &probe, &k->run, &v, e)) == 0)
            s.verdict.concordance = v.concordance;
    }
    if (rc)
        goto out;
    c->gate = s.verdict.gate;
    c->gate_mean = s.verdict.concordance.mean;
    c->gate_lower = s.verdict.concordance.lower;
    c->phi_cl = s.cl.phi;
    c->phi_kd = s.kd.phi;
    c->activated = s.activated;
    c->accepted = s.acceptance.accepted;
    c->attempts = s.attempts;
    c->from_start = s.from_start;
    c->bytes = model_bytes(s.ac);
    *next = s.new_kb ? s.new_kb : tk_kb_clone(kb);
    s.new_kb = NULL;
    if (!*next)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a knowledge base");
    /* what serves the target: its AC, or the knowledge base while the AC is only a candidate */
    if (rc == 0)
        rc = score_all(k, related && !s.activated ? kb->model : s.ac, TL_CKD_AC, c, e);
    if (rc == 0)
        rc = score_all(k, (*next)->model, TL_CKD_KB, c, e);
    if (rc == 0 && ac) {
        *ac = s.activated && s.verdict.gate != TK_GATE_SCRATCH ? s.ac : NULL;
        s.ac = *ac ? NULL : s.ac;
    }
out:
    tk_adapt_state_free(&s);
    return rc;
}

/* The same AC teaches a knowledge base that nothing holds back. */
static int make_no_ewc(const struct run *k, const struct tk_kb *kb, const struct tm_model *ac, struct tk_kb **next,
                       struct tl_ckd_cell *c, struct tp_err *e)
{
    const struct tl_ckd_hardware *h = &k->d->hw[k->target];
    const struct tk_set train = set_of(h, k->train, k->n_train), valid = set_of(h, k->valid, k->n_valid);
    struct tk_learn_opts o = k->o->kd;
    struct tk_learned told = {.phi = NAN};
    const double began = tl_cpu_seconds();
    int rc = 0;
    o.lambda = 0;
    *c = fresh(k);
    if (ac)
        rc = tk_teach(kb, ac, &train, &valid, &o, &k->run, next, &told, e);
    else if (!(*next = tk_kb_clone(kb)))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a knowledge base");
    c->seconds = tl_cpu_seconds() - began;
    c->phi_kd = told.phi;
    if (rc == 0)
        rc = score_all(k, (*next)->model, TL_CKD_KB, c, e);
    return rc;
}

static int make_zero(const struct run *k, const struct tk_kb *kb, struct tl_ckd_cell *c, struct tp_err *e)
{
    *c = fresh(k);
    c->programs = 0;
    return score_all(k, kb->model, TL_CKD_AC, c, e);
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

static void tell(const struct run *k, enum tl_ckd_method m, const struct tl_ckd_cell *c)
{
    const struct tl_ckd_scores *t = &c->score[c->score[TL_CKD_AC][k->target].n ? TL_CKD_AC : TL_CKD_KB][k->target];
    const struct tl_ckd_scores *s = &c->score[c->score[TL_CKD_KB][0].n ? TL_CKD_KB : TL_CKD_AC][0];
    fprintf(stderr, "%s>%s %g %% seed %llu %-16s pairwise %.4f top-1 %.4f | %s pairwise %.4f top-1 %.4f | %.0f s",
            k->d->transfer->name, k->d->hw[k->target].name, 100 * k->budget, (unsigned long long)k->run.seed,
            tl_ckd_method_name(m), mean(t->pairwise, t->n), mean(t->top1, t->n), k->d->hw[0].name,
            mean(s->pairwise, s->n), mean(s->top1, s->n), c->seconds);
    if (!isnan(c->gate))
        fprintf(stderr, " | gate %s %.3f/%.3f phi %.2f/%.2f activated %g accepted %g after %g",
                tk_gate_name((enum tk_gate)c->gate), c->gate_mean, c->gate_lower, c->phi_cl, c->phi_kd, c->activated,
                c->accepted, c->attempts);
    fputc('\n', stderr);
}

/* How far the ways of learning have come within a transfer, budget and seed. */
struct line {
    struct tk_kb *kb, *no_ewc, *tuned, *plain, *all;
};

static void replace(struct tk_kb **old, struct tk_kb *new)
{
    tk_kb_free(*old);
    *old = new;
}

/* 1: the cell is there, and so are the models (may be NULL: none needed) that follow from it. */
static int kept(const struct run *k, enum tl_ckd_method m, const char *model, struct tk_kb **kb, struct tl_ckd_cell *c)
{
    char set_by[SETTINGS], path[PATH_LENGTH];
    const bool more = model && k->target + 1 < k->d->transfer->n;
    if (settings(k, tl_ckd_method_name(m), m != TL_CKD_SCRATCH && m != TL_CKD_MTL && m != TL_CKD_ZERO, set_by) ||
        !path_of(k, set_by, "json", path) || !tl_ckd_cell_read(path, set_by, c))
        return 0;
    if (more) {
        struct tk_kb *next = load_kb(k, model, true);
        if (!next)
            return 0;
        replace(kb, next);
    }
    return 1;
}

static int keep(const struct run *k, enum tl_ckd_method m, const char *model, const struct tk_kb *kb,
                const struct tl_ckd_cell *c, struct tp_err *e)
{
    char set_by[SETTINGS], path[PATH_LENGTH];
    int rc = 0;
    if (!k->o->quiet)
        tell(k, m, c);
    if (!settings(k, tl_ckd_method_name(m), m != TL_CKD_SCRATCH && m != TL_CKD_MTL && m != TL_CKD_ZERO, set_by) &&
        path_of(k, set_by, "json", path))
        rc = tl_ckd_cell_write(path, set_by, c, e);
    if (rc == 0 && model && k->target + 1 < k->d->transfer->n)
        rc = save_kb(k, model, true, kb, e);
    return rc;
}

struct place {
    struct tl_ckd_results *r;
    uint32_t transfer, budget, seed;
};

static struct tl_ckd_cell *at(const struct place *p, const struct run *k, enum tl_ckd_method m)
{
    return tl_ckd_at(p->r, p->transfer, k->hop, m, p->budget, p->seed);
}

static int distilled(const struct run *k, const struct place *p, struct line *line, struct tp_err *e)
{
    const bool wants = tl_ckd_wants(k->o, TL_CKD_CKD), without = tl_ckd_wants(k->o, TL_CKD_NO_EWC);
    struct tl_ckd_cell *c = at(p, k, TL_CKD_CKD), *n = at(p, k, TL_CKD_NO_EWC);
    struct tm_model *ac = NULL;
    struct tk_kb *next = NULL, *next_free = NULL;
    if ((!wants && !without) || (kept(k, TL_CKD_CKD, "ckd kb", &line->kb, c) &&
                                 (!without || kept(k, TL_CKD_NO_EWC, "free kb", &line->no_ewc, n))))
        return 0;
    tl_ckd_cell_free(c);
    tl_ckd_cell_free(n);
    int rc = make_ckd(k, line->kb, false, &next, &ac, c, e);
    if (rc == 0)
        rc = keep(k, TL_CKD_CKD, "ckd kb", next, c, e);
    if (rc == 0 && without && (rc = make_no_ewc(k, line->no_ewc, ac, &next_free, n, e)) == 0)
        rc = keep(k, TL_CKD_NO_EWC, "free kb", next_free, n, e);
    tm_model_free(ac);
    if (next)
        replace(&line->kb, next);
    if (next_free)
        replace(&line->no_ewc, next_free);
    return rc;
}

static int ablated(struct run *k, const struct place *p, enum tl_ckd_method m, struct line *line, struct tp_err *e)
{
    const bool with_kb = m == TL_CKD_PLAIN_CKD || m == TL_CKD_ALL;
    struct tk_kb **kb = m == TL_CKD_ALL ? &line->all : &line->plain, *next = NULL;
    struct tl_ckd_cell *c = at(p, k, m);
    if (!tl_ckd_wants(k->o, m) || kept(k, m, with_kb ? tl_ckd_method_name(m) : NULL, kb, c))
        return 0;
    int rc = choose_random(k, e);
    if (rc == 0 && (m == TL_CKD_PLAIN_RDU || m == TL_CKD_ALL))
        rc = choose_rdu(k, m == TL_CKD_ALL ? *kb : NULL, e);
    if (rc == 0)
        rc = keep_parts(k, e);
    if (rc == 0)
        rc = with_kb ? make_ckd(k, *kb, m == TL_CKD_PLAIN_CKD, &next, NULL, c, e) : make_single(k, m, NULL, NULL, c, e);
    if (rc == 0)
        rc = keep(k, m, with_kb ? tl_ckd_method_name(m) : NULL, next, c, e);
    if (next)
        replace(kb, next);
    return rc;
}

static int hop(struct run *k, const struct place *p, struct line *line, struct tp_err *e)
{
    struct tk_kb *next = NULL;
    struct tl_ckd_cell *c;
    int rc = choose_random(k, e);
    if (rc || (rc = keep_parts(k, e)))
        return rc;
    c = at(p, k, TL_CKD_ZERO);
    if (tl_ckd_wants(k->o, TL_CKD_ZERO) && k->budget < 1 && !kept(k, TL_CKD_ZERO, NULL, NULL, c) &&
        ((rc = make_zero(k, line->kb, c, e)) || (rc = keep(k, TL_CKD_ZERO, NULL, NULL, c, e))))
        return rc;
    c = at(p, k, TL_CKD_SCRATCH);
    if (tl_ckd_wants(k->o, TL_CKD_SCRATCH) && !kept(k, TL_CKD_SCRATCH, NULL, NULL, c) &&
        ((rc = make_single(k, TL_CKD_SCRATCH, NULL, NULL, c, e)) || (rc = keep(k, TL_CKD_SCRATCH, NULL, NULL, c, e))))
        return rc;
    if (k->budget >= 1)
        return 0;
    c = at(p, k, TL_CKD_TUNE);
    if (tl_ckd_wants(k->o, TL_CKD_TUNE) && !kept(k, TL_CKD_TUNE, "tuned", &line->tuned, c)) {
        if ((rc = make_single(k, TL_CKD_TUNE, line->tuned, &next, c, e)) ||
            (rc = keep(k, TL_CKD_TUNE, "tuned", next, c, e)))
            return rc;
        replace(&line->tuned, next);
    }
    c = at(p, k, TL_CKD_MTL);
    if (tl_ckd_wants(k->o, TL_CKD_MTL) && !kept(k, TL_CKD_MTL, NULL, NULL, c) &&
        ((rc = make_multi(k, c, e)) || (rc = keep(k, TL_CKD_MTL, NULL, NULL, c, e))))
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
}

static int hops(struct run *k, const struct place *p, struct tp_err *e)
{
    const struct tl_ckd_transfer *t = k->d->transfer;
    struct line line = {0};
    const double budget = k->budget;
    k->hop = 0;
    k->budget = 0; /* the sources' knowledge does not depend on it */
    k->target = t->n_sources;
    int rc = source_kb(k, false, &line.kb, e);
    if (rc == 0 && any_plain(k->o))
        rc = source_kb(k, true, &line.plain, e);
    if (rc == 0 && (!(line.no_ewc = tk_kb_clone(line.kb)) || !(line.tuned = tk_kb_clone(line.kb)) ||
                    !(line.all = tk_kb_clone(line.kb))))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for knowledge bases");
    for (k->hop = 0; k->target < t->n && rc == 0; k->hop++, k->target++) {
        const size_t n = k->d->hw[k->target].split.n_train;
        k->budget = budget;
        k->sample = tm_alloc(n, sizeof *k->sample);
        k->train = tm_alloc(n, sizeof *k->train);
        k->valid = tm_alloc(n, sizeof *k->valid);
        rc = k->sample && k->train && k->valid ? hop(k, p, &line, e)
                                               : tp_fail(e, TP_E_NO_MEMORY, "no memory for a sample");
        free(k->sample);
        free(k->train);
        free(k->valid);
    }
    line_free(&line);
    return rc;
}

int tl_ckd_run(const struct tl_ckd_opts *o, struct tl_ckd_results *r, struct tp_err *e)
{
    const size_t n = cells(o);
    int rc = 0;
    *r = (struct tl_ckd_results){.o = o, .cell = calloc(n, sizeof *r->cell)};
    if (!r->cell)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for cells");
    for (uint32_t t = 0; t < o->n_transfers && rc == 0; t++) {
        struct tl_ckd_data d;
        if ((rc = tl_ckd_data_read(o, &o->transfer[t], &d, e)))
            break;
        for (uint32_t s = 0; s < o->seeds && rc == 0; s++)
            for (uint32_t b = 0; b <= o->n_budgets && rc == 0; b++) {
                struct run k = {.o = o,
                                .d = &d,
                                .run = {.seed = s + 1, .threads = o->threads},
                                .budget = b < o->n_budgets ? o->budget[b] : 1};
                const struct place p = {r, t, b, s};
                rc = hops(&k, &p, e);
            }
        tl_ckd_data_free(&d);
    }
    if (rc)
        tl_ckd_results_free(r);
    return rc;
}
