/* Fisher information of an order, and EWC (ckd/fisher.h).
 *
 * Pair k of n belongs to shard k * TM_SHARDS / n whatever thread runs it, and shards are summed in order, so the result
 * does not depend on the number of threads. A pair takes one forward pass of two programs; backward with +-sqrt(p(1-p))
 * gives the root of what is to be summed. */
#include "ckd/fisher.h"

#include "model/mem.h"
#include "model/pool.h"
#include "model/shards.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { ROUND = 256 /* pairs between two calls of progress */ };

struct job {
    const struct tm_params *p;
    const struct tm_dataset *ds;
    const uint32_t (*pair)[2]; /* of this round */
    uint32_t n;
    struct tm_tape *tape[TM_MAX_THREADS]; /* by worker */
    float *grad[TM_MAX_THREADS];          /* by worker */
    double *sum[TM_SHARDS];
    atomic_int error;
};

static void run_shard(void *arg, uint32_t shard, int worker)
{
    struct job *j = arg;
    struct tm_tape *t = j->tape[worker];
    float *g = j->grad[worker];
    const uint64_t from = (uint64_t)shard * j->n / TM_SHARDS, to = (uint64_t)(shard + 1) * j->n / TM_SHARDS;
    for (uint64_t k = from; k < to; k++) {
        if (tm_forward(j->p, t, j->ds, j->pair[k], 2)) {
            atomic_store(&j->error, -TP_E_NO_MEMORY);
            return;
        }
        const double p = 1 / (1 + exp((double)t->s[1] - (double)t->s[0]));
        const float root = (float)sqrt(p * (1 - p)), up[2] = {root, -root};
        memset(g, 0, j->p->n * sizeof *g);
        tm_backward(j->p, t, up, NULL, g);
        for (size_t i = 0; i < j->p->n; i++)
            j->sum[shard][i] += (double)g[i] * (double)g[i];
    }
}

static bool job_init(struct job *j, int threads)
{
    for (int i = 0; i < threads; i++)
        if (!(j->tape[i] = tm_tape_new()) || !(j->grad[i] = tm_alloc(j->p->n, sizeof *j->grad[i])))
            return false;
    for (int i = 0; i < TM_SHARDS; i++)
        if (!(j->sum[i] = tm_alloc(j->p->n, sizeof *j->sum[i])))
            return false;
    return true;
}

static void job_free(struct job *j)
{
    for (int i = 0; i < TM_MAX_THREADS; i++) {
        tm_tape_free(j->tape[i]);
        free(j->grad[i]);
    }
    for (int i = 0; i < TM_SHARDS; i++)
        free(j->sum[i]);
}

int tk_fisher_of_pairs(const struct tm_model *m, const struct tm_dataset *ds, const uint32_t (*pair)[2], uint32_t n,
                       const struct tk_run *run, float *fisher, struct tp_err *e)
{
    struct tm_params p = {0};
    struct job j = {.p = &p, .ds = ds};
    struct tm_pool *pool = NULL;
    struct tk_progress at = tk_progress_at("settle", 0);
    int rc;
    if (m->features != ds->features || m->h.features != ds->cols || m->h.summary != ds->summary_cols)
        return tp_fail(e, TP_E_FEATURES_MISMATCH, "the model and the programs are encoded by different features");
    if ((rc = tm_params_init(&p, &m->h, m->w, e)))
        return rc;
    if (!(pool = tm_pool_new(run->threads)) || !job_init(&j, tm_pool_threads(pool)))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for Fisher information");
    for (uint32_t k = 0; k < n && rc == 0; k += ROUND) {
        j.pair = pair + k;
        j.n = n - k < ROUND ? n - k : ROUND;
        tm_pool_run(pool, run_shard, &j, TM_SHARDS);
        at.fraction = (double)(k + j.n) / n;
        if (atomic_load(&j.error))
            rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for Fisher information");
        else if (run->progress && run->progress(run->arg, &at))
            rc = tp_fail(e, TP_E_CANCELLED, "cancelled while taking Fisher information");
    }
    for (size_t i = 0; i < p.n && rc == 0; i++) {
        double sum = 0;
        for (int s = 0; s < TM_SHARDS; s++)
            sum += j.sum[s][i];
        fisher[i] = (float)(sum / n);
    }
    job_free(&j);
    tm_pool_free(pool);
    tm_params_free(&p);
    return rc;
}

int tk_fisher(const struct tm_model *m, const struct tk_set *s, const struct tk_run *run, float *fisher,
              struct tp_err *e)
{
    struct tm_groups g;
    struct tm_rng rng;
    const uint32_t n = s->n < TK_PAIRS_MIN ? TK_PAIRS_MIN : s->n > TK_PAIRS_MAX ? TK_PAIRS_MAX : (uint32_t)s->n;
    int rc = tm_groups_init(&g, s->ds, s->programs, s->n, UINT32_MAX, e);
    if (rc)
        return rc;
    uint32_t(*pair)[2] = tm_alloc(n, sizeof *pair);
    if (!pair)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for %u pairs", n);
    tm_rng_seed(&rng, run->seed ^ 0xf15e);
    for (uint32_t k = 0; k < n && rc == 0; k++) {
        const uint32_t t = tm_rng_below(&rng, g.n_groups), size = g.start[t + 1] - g.start[t];
        const uint32_t i = tm_rng_below(&rng, size), other = tm_rng_below(&rng, size - 1);
        pair[k][0] = g.programs[g.start[t] + i];
        pair[k][1] = g.programs[g.start[t] + (other >= i ? other + 1 : other)];
    }
    if (rc == 0)
        rc = tk_fisher_of_pairs(m, s->ds, (const uint32_t(*)[2])pair, n, run, fisher, e);
    free(pair);
    tm_groups_free(&g);
    return rc;
}

void tk_fisher_merge(float *fisher, const float *new, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fisher[i] = (float)(TK_FISHER_KEEP * (double)fisher[i] + (double)new[i]);
}

void tk_ewc_scale(const struct tm_model *m, const float *fisher, float *scaled)
{
    double sum = 0;
    for (size_t i = 0; i < m->n; i++)
        sum += (double)fisher[i];
    const double by = sum > 0 ? TK_EWC_MEAN * (double)tm_parameter_count(&m->h) / sum : 0;
    for (size_t i = 0; i < m->n; i++)
        scaled[i] = (float)fmin(by * (double)fisher[i], TK_EWC_CAP * TK_EWC_MEAN);
}

double tk_ewc_penalty(const float *scaled, const float *anchor, const float *w, size_t n, double lambda)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)w[i] - (double)anchor[i];
        sum += (double)scaled[i] * d * d;
    }
    return lambda / 2 * sum;
}

void tk_ewc_gradient(const float *scaled, const float *anchor, const float *w, size_t n, double lambda, float *grad)
{
    const float by = (float)lambda;
    for (size_t i = 0; i < n; i++)
        grad[i] += by * scaled[i] * (w[i] - anchor[i]);
}
