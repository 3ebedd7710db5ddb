/* What a cell of `lab ckd` is made by: each method on one target, budget and seed (lab/ckd_make.h). */
#include "lab/ckd_make.h"

#include "lab/lab.h"
#include "model/infer.h"
#include "model/mem.h"
#include "sampler/embed.h"
#include "sampler/select.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Within programs[0..n): those of the tasks that the daemon would hold out if it had all programs of ds. */
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

static int score(const struct tl_ckd_here *k, const struct tm_model *m, uint32_t hw, struct tl_ckd_scores *out,
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

static int score_all(const struct tl_ckd_here *k, const struct tm_model *m, int role, struct tl_ckd_cell *c,
                     struct tp_err *e)
{
    int rc = 0;
    for (uint32_t h = 0; h <= k->target && rc == 0; h++)
        rc = score(k, m, h, &c->score[role][h], e);
    return rc;
}

/* ---- knowledge of the sources ---- */

int tl_ckd_know(struct tl_ckd_here *k, uint32_t h, const uint32_t *programs, size_t n, struct tp_err *e)
{
    const struct tl_ckd_hardware *hw = &k->d->hw[h];
    uint32_t *learned = tm_alloc(n, sizeof *learned), *held_out = tm_alloc(n, sizeof *held_out);
    size_t n_learned = 0, n_held_out = 0;
    int rc = learned && held_out ? hold_out(hw, programs, n, learned, &n_learned, held_out, &n_held_out, e)
                                 : tp_fail(e, TP_E_NO_MEMORY, "no memory for known hardware");
    k->known[h] = (struct tk_older){set_of(hw, learned, n_learned), set_of(hw, held_out, n_held_out)};
    return rc;
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

static int learn_plain(const struct tl_ckd_here *k, const struct tk_set *train, const struct tk_set *valid,
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

int tl_ckd_source_kb(const struct tl_ckd_here *k, bool is_plain, struct tk_kb **out, struct tp_err *e)
{
    struct tk_pretrain p;
    struct tk_source source[TL_CKD_HARDWARE];
    bool refused[TL_CKD_HARDWARE];
    struct tm_model *m;
    const uint32_t n = k->d->transfer->n_sources;
    const unsigned by = TL_CKD_BY_SOURCE | (n > 1 ? TL_CKD_BY_CKD : 0);
    int rc = 0;
    if ((*out = tl_ckd_load_kb(k, is_plain ? "plain kb" : "kb", by)))
        return 0;
    for (uint32_t i = 0; i < n; i++)
        source[i] = (struct tk_source){k->d->hw[i].name, k->known[i].learned, k->known[i].held_out};
    tk_pretrain_defaults(&p);
    p.kind = k->d->hw[0].kind;
    p.sources = source;
    p.n = n;
    p.scratch = k->o->source;
    p.cl = k->o->cl;
    p.kd = k->o->kd;
    p.run = k->run;
    if (rc == 0 && !is_plain)
        rc = tk_pretrain(&p, NULL, 0, refused, out, e);
    if (rc == 0 && is_plain && (rc = learn_plain(k, &source[0].train, &source[0].valid, &p.scratch, &m, e)) == 0) {
        *out = tk_kb_new(m, p.kind);
        rc = *out ? tk_settle(*out, &source[0].train, &k->run, e) : tp_fail(e, TP_E_NO_MEMORY, "no memory");
    }
    if (rc == 0)
        rc = tl_ckd_save_kb(k, is_plain ? "plain kb" : "kb", by, *out, e);
    return rc;
}

/* ---- methods ---- */

/* Choose by the sampler as many programs as the random draw has, looking through kb, or at rows without one. */
int tl_ckd_choose_rdu(struct tl_ckd_here *k, const struct tk_kb *kb, struct tp_err *e)
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

int tl_ckd_choose_random(struct tl_ckd_here *k, struct tp_err *e)
{
    return tl_ckd_sample(&k->d->hw[k->target], k->budget, k->run.seed, k->sample, &k->n, e);
}

int tl_ckd_keep_parts(struct tl_ckd_here *k, struct tp_err *e)
{
    return hold_out(&k->d->hw[k->target], k->sample, k->n, k->train, &k->n_train, k->valid, &k->n_valid, e);
}

static struct tl_ckd_cell fresh(const struct tl_ckd_here *k)
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
                                .rival = NAN,
                                .peer = NAN,
                                .from_start = NAN};
}

static double model_bytes(const struct tm_model *m)
{
    return (double)tm_parameter_count(&m->h) * sizeof(float);
}

/* One model from all programs of the budget. kb, start NULL: scratch. *keep (may be NULL): the model. */
static int make_single(const struct tl_ckd_here *k, enum tl_ckd_method method, const struct tk_kb *kb,
                       const float *start, struct tk_kb **keep, struct tl_ckd_cell *c, struct tp_err *e)
{
    const struct tl_ckd_hardware *h = &k->d->hw[k->target];
    const struct tk_set train = set_of(h, k->sample, k->n), none = set_of(h, NULL, 0);
    struct tm_model *m = NULL;
    struct tk_learned told;
    const double began = tl_cpu_seconds();
    int rc;
    *c = fresh(k);
    if (tl_ckd_plain(method))
        rc = learn_plain(k, &train, &none, &k->o->scratch, &m, e);
    else
        rc = tk_learn(kb, kb ? TK_GATE_WARM_START : TK_GATE_SCRATCH, start, &train, &none,
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

int tl_ckd_make_single(const struct tl_ckd_here *k, enum tl_ckd_method method, const struct tk_kb *kb,
                       struct tk_kb **keep, struct tl_ckd_cell *c, struct tp_err *e)
{
    return make_single(k, method, kb, NULL, keep, c, e);
}

/* Initial weights as a knowledge base that knows nothing more. */
static int initial_weights(const struct tl_ckd_here *k, struct tk_kb **out, struct tp_err *e)
{
    struct tk_set source[TL_CKD_HARDWARE];
    const struct tl_ckd_hardware *h = k->d->hw;
    const struct tm_hyper hyper = tm_hyper_default(h->split.d->features);
    const uint32_t n = k->d->transfer->n_sources;
    struct tm_model *m = tm_model_new(h->split.d->features, &hyper, k->run.seed);
    int rc;
    *out = m ? tk_kb_new(tm_model_clone(m), h->kind) : NULL;
    for (uint32_t i = 0; i < n; i++)
        source[i] = set_of(&h[i], h[i].split.train, h[i].split.n_train);
    rc = *out ? tk_meta(m, source, n, &k->o->meta, &k->run, (*out)->model->w, e)
              : tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
    tm_model_free(m);
    return rc;
}

/* The sources' initial weights, kept or made. */
static int source_start(const struct tl_ckd_here *k, struct tk_kb **start, struct tp_err *e)
{
    struct tl_ckd_here source = *k;
    source.hop = 0; /* budget 0: whatever the target, as the knowledge base of the sources */
    source.budget = 0;
    int rc = 0;
    if (!(*start = tl_ckd_load_kb(&source, "start", TL_CKD_BY_META)) && (rc = initial_weights(k, start, e)) == 0)
        rc = tl_ckd_save_kb(&source, "start", TL_CKD_BY_META, *start, e);
    return rc;
}

int tl_ckd_source_start(const struct tl_ckd_here *k, struct tk_kb *kb, struct tp_err *e)
{
    struct tk_kb *start = NULL;
    int rc = source_start(k, &start, e);
    if (rc == 0 && !(kb->start = tm_alloc(kb->model->n, sizeof *kb->start)))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for initial weights");
    if (rc == 0)
        memcpy(kb->start, start->model->w, kb->model->n * sizeof *kb->start);
    tk_kb_free(start);
    return rc;
}

int tl_ckd_make_cold(const struct tl_ckd_here *k, struct tl_ckd_cell *c, struct tp_err *e)
{
    struct tk_kb *start = NULL;
    int rc = source_start(k, &start, e);
    if (rc == 0)
        rc = make_single(k, TL_CKD_COLD, NULL, start->model->w, NULL, c, e);
    tk_kb_free(start);
    return rc;
}

int tl_ckd_make_multi(const struct tl_ckd_here *k, struct tl_ckd_cell *c, struct tp_err *e)
{
    struct tk_set set[TL_CKD_HARDWARE] = {{0}};
    struct tm_model *m[TL_CKD_HARDWARE] = {NULL};
    const double began = tl_cpu_seconds();
    int rc = 0;
    *c = fresh(k);
    for (uint32_t h = 0; h < k->target && rc == 0; h++)
        rc = tk_set_join(&k->known[h].learned, &k->known[h].held_out, &set[h], e);
    set[k->target] = set_of(&k->d->hw[k->target], k->sample, k->n);
    if (rc == 0)
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
    for (uint32_t h = 0; h < k->target; h++)
        free((void *)set[h].programs);
    return rc;
}

void tl_ckd_made_free(struct tl_ckd_made *m)
{
    tk_kb_free(m->kb);
    tk_kb_free(m->serves);
    tm_model_free(m->teacher);
    *m = (struct tl_ckd_made){0};
}

/* CKD as the daemon does it, but that the whole of what was measured of older hardware is its probe set. */
int tl_ckd_make_ckd(const struct tl_ckd_here *k, const struct tk_kb *kb, bool is_plain, struct tl_ckd_made *out,
                    struct tl_ckd_cell *c, struct tp_err *e)
{
    const struct tl_ckd_hardware *h = &k->d->hw[k->target];
    struct tk_adapt a;
    struct tk_adapt_state s = {0};
    const double began = tl_cpu_seconds();
    const bool related = tk_family_accepts(kb->kind, h->kind);
    int rc;
    *c = fresh(k);
    tk_adapt_defaults(&a);
    a.kind = h->kind;
    a.kb = related ? kb : NULL;
    a.keep_kb = !related;
    a.train = set_of(h, k->train, k->n_train);
    a.valid = set_of(h, k->valid, k->n_valid);
    a.older = k->known;
    a.n_older = k->target;
    a.peers = k->peer;
    a.n_peers = k->n_peers;
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
    if (rc == 0 && !related && !s.source[0]) {
        /* what the gate says of it, and what it would say without the family's rule */
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
    c->phi_kd = s.attempts ? s.kd.phi : NAN;
    c->activated = s.activated;
    c->accepted = s.acceptance.accepted;
    c->attempts = s.attempts;
    c->from_start = s.from_start;
    c->rival = s.contest.tasks ? (double)s.contest.winner : NAN;
    for (uint32_t i = 0; i < k->target; i++)
        if (strcmp(s.source, k->d->hw[i].name) == 0)
            c->peer = i;
    c->bytes = model_bytes(s.ac);
    struct tl_ckd_made made = {.kb = s.new_kb ? s.new_kb : tk_kb_clone(kb)};
    s.new_kb = NULL;
    /* what serves the target: its AC, or the knowledge base while the AC is only a candidate */
    if (s.activated)
        made.serves = tk_kb_new(tm_model_clone(s.ac), h->kind);
    rc = made.kb && (made.serves || !s.activated)
             ? score_all(k, related && !s.activated ? kb->model : s.ac, TL_CKD_AC, c, e)
             : tp_fail(e, TP_E_NO_MEMORY, "no memory for a knowledge base");
    if (rc == 0)
        rc = score_all(k, made.kb->model, TL_CKD_KB, c, e);
    if (s.activated && tk_adapt_related(&s)) {
        made.teacher = s.ac;
        s.ac = NULL;
    }
    if (rc)
        tl_ckd_made_free(&made);
    *out = made;
out:
    tk_adapt_state_free(&s);
    return rc;
}

/* The same AC teaches a knowledge base that nothing holds back. */
int tl_ckd_make_no_ewc(const struct tl_ckd_here *k, const struct tk_kb *kb, const struct tm_model *ac,
                       struct tk_kb **next, struct tl_ckd_cell *c, struct tp_err *e)
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

int tl_ckd_make_zero(const struct tl_ckd_here *k, const struct tk_kb *kb, struct tl_ckd_cell *c, struct tp_err *e)
{
    *c = fresh(k);
    c->programs = 0;
    return score_all(k, kb->model, TL_CKD_AC, c, e);
}
