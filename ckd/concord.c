/* Concordance and trust (ckd/concord.h). Pair by pair, in double. */
#include "ckd/concord.h"

#include "model/mem.h"
#include "model/shards.h"

#include <math.h>

double tk_concord_value(const struct tk_concord *c)
{
    return c->weight > 0 ? c->right / c->weight : NAN;
}

static void add_pair(struct tk_concord *c, const double *y, const double *noise, uint32_t i, uint32_t j, double si,
                     double sj)
{
    const double yy[2] = {y[i], y[j]}, nn[2] = {noise ? noise[i] : 0, noise ? noise[j] : 0};
    const double w = tm_pair_weight(yy, nn, 2);
    si = isnan(si) ? -INFINITY : si;
    sj = isnan(sj) ? -INFINITY : sj;
    c->weight += w;
    c->right += si == sj ? w / 2 : (si > sj) == (y[i] > y[j]) ? w : 0;
}

struct tk_concord tk_concord_of(const double *y, const double *noise, const double *score, uint32_t n)
{
    struct tk_concord c = {0};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            add_pair(&c, y, noise, i, j, score[i], score[j]);
    return c;
}

struct tk_concord tk_concord_of_tape(const double *y, const double *noise, const float *score, uint32_t n)
{
    struct tk_concord c = {0};
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            add_pair(&c, y, noise, i, j, (double)score[i], (double)score[j]);
    return c;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of a task: the value, and how much it counts. */
struct task {
    double value, weight;
};

/* The 5 % quantile of the means of samples drawn with replacement. */
static int lower_bound(const struct task *v, uint32_t n, uint64_t seed, double *out)
{
    struct tm_rng rng;
    double *mean = tm_alloc(TK_CONCORD_DRAWS, sizeof *mean);
    if (!mean)
        return -TP_E_NO_MEMORY;
    tm_rng_seed(&rng, seed);
    for (int d = 0; d < TK_CONCORD_DRAWS; d++) {
        double sum = 0, weight = 0;
        for (uint32_t i = 0; i < n; i++) {
            const struct task *t = &v[tm_rng_below(&rng, n)];
            sum += t->weight * t->value;
            weight += t->weight;
        }
        mean[d] = sum / weight;
    }
    qsort(mean, TK_CONCORD_DRAWS, sizeof *mean, ascending);
    *out = mean[TK_CONCORD_DRAWS / 20];
    free(mean);
    return 0;
}

/* The tasks that have a pair, into v[g->n_groups]. */
static int by_task(const struct tm_groups *g, const struct tm_dataset *ds, const double *score_of, struct task *v,
                   struct tk_concordance *out)
{
    double *y = tm_alloc(3 * (size_t)g->n, sizeof *y);
    if (!y)
        return -TP_E_NO_MEMORY;
    double *noise = y + g->n, *score = y + 2 * (size_t)g->n;
    for (uint32_t t = 0; t < g->n_groups; t++) {
        const uint32_t *p = g->programs + g->start[t], n = g->start[t + 1] - g->start[t];
        for (uint32_t i = 0; i < n; i++) {
            y[i] = g->y[p[i]];
            noise[i] = ds->noise ? ds->noise[p[i]] : 0;
            score[i] = score_of[p[i]];
        }
        const struct tk_concord c = tk_concord_of(y, noise, score, n);
        if (!(c.weight > 0))
            continue;
        v[out->tasks++] = (struct task){tk_concord_value(&c), c.weight};
        out->programs += n;
    }
    free(y);
    return 0;
}

int tk_concordance(const struct tm_dataset *ds, const uint32_t *programs, const double *score, size_t n, uint64_t seed,
                   struct tk_concordance *out)
{
    struct tm_groups g = {0};
    struct tk_concordance c = {.mean = NAN, .lower = NAN};
    double *score_of = NULL, sum = 0, weight = 0;
    struct task *v = NULL;
    int rc = tm_groups_init(&g, ds, programs, n, UINT32_MAX, NULL);
    if (rc == -TP_E_NOT_ENOUGH_DATA) {
        *out = c;
        return 0;
    }
    if (rc)
        return rc;
    rc = -TP_E_NO_MEMORY;
    if (!(score_of = tm_alloc(ds->n, sizeof *score_of)) || !(v = tm_alloc(g.n_groups, sizeof *v)))
        goto out;
    for (size_t i = 0; i < n; i++)
        score_of[programs[i]] = score[i];
    if ((rc = by_task(&g, ds, score_of, v, &c)) || c.tasks == 0)
        goto out;
    for (uint32_t i = 0; i < c.tasks; i++) {
        if (c.programs >= TK_CONCORD_EACH * c.tasks)
            v[i].weight = 1;
        sum += v[i].weight * v[i].value;
        weight += v[i].weight;
    }
    c.mean = sum / weight;
    rc = lower_bound(v, c.tasks, seed, &c.lower);
out:
    if (rc == 0)
        *out = c;
    tm_groups_free(&g);
    free(score_of);
    free(v);
    return rc;
}

double tk_phi(double teacher, double student)
{
    teacher = isnan(teacher) ? 0.5 : teacher;
    student = isnan(student) ? 0.5 : student;
    return fmin(fmax((teacher - 0.5) / 0.5, 0), 1) / (1 + exp(-(teacher - student) / TK_PHI_WIDTH));
}

static double follow(double old, double new)
{
    return isnan(new) ? old : isnan(old) ? new : TK_PHI_KEEP *old + (1 - TK_PHI_KEEP) * new;
}

void tk_trust_update(struct tk_trust *t, double teacher, double student)
{
    t->teacher = follow(t->teacher, teacher);
    t->student = follow(t->student, student);
}

double tk_trust_phi(const struct tk_trust *t)
{
    return isnan(t->teacher) || isnan(t->student) ? 0 : tk_phi(t->teacher, t->student);
}
