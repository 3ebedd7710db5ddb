/* Scores and sizes of sets of programs (ckd/set.h). */
#include "ckd/set.h"

#include "model/infer.h"
#include "model/mem.h"
#include "model/shards.h"

#include <math.h>

struct tk_progress tk_progress_at(const char *phase, double fraction)
{
    return (struct tk_progress){
        .phase = phase, .fraction = fraction, .loss = NAN, .phi = NAN, .valid_top1 = NAN, .valid_pairwise = NAN};
}

int tk_set_join(const struct tk_set *a, const struct tk_set *b, struct tk_set *out, struct tp_err *e)
{
    uint32_t *all = tm_alloc(a->n + b->n, sizeof *all);
    if (!all)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu programs", a->n + b->n);
    if (a->n)
        memcpy(all, a->programs, a->n * sizeof *all);
    if (b->n)
        memcpy(all + a->n, b->programs, b->n * sizeof *all);
    *out = (struct tk_set){a->ds, all, a->n + b->n};
    return 0;
}

int tk_scores(const struct tm_model *m, const struct tk_set *s, int threads, double *out, struct tp_err *e)
{
    struct tm_params p = {0};
    struct tm_shards *shards = NULL;
    int rc;
    if (m->features != s->ds->features || m->h.features != s->ds->cols || m->h.summary != s->ds->summary_cols)
        return tp_fail(e, TP_E_FEATURES_MISMATCH, "the model and the programs are encoded by different features");
    if (tm_hyper_published(&m->h) && tm_predict_dataset(m, s->ds, s->programs, s->n, NULL, NULL, out) == 0)
        return 0;
    /* a network that the engine does not run */
    if ((rc = tm_params_init(&p, &m->h, m->w, e)))
        return rc;
    if (!(shards = tm_shards_new(m->n, threads)) || tm_shards_predict(shards, &p, s->ds, s->programs, s->n, out, NULL))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu predictions", s->n);
    tm_shards_free(shards);
    tm_params_free(&p);
    return rc;
}

int tk_epochs_for(const struct tk_set *s, const struct tm_train_opts *o, uint32_t steps, int multiple, struct tp_err *e)
{
    struct tm_groups g;
    int rc = tm_groups_init(&g, s->ds, s->programs, s->n, (uint32_t)o->programs_per_task, e);
    if (rc)
        return rc;
    const uint32_t per_epoch = (g.n_chunks - 1) / (uint32_t)o->tasks_per_batch + 1;
    const int enough = (int)((steps + per_epoch - 1) / per_epoch), want = enough > o->epochs ? enough : o->epochs;
    tm_groups_free(&g);
    return (want + multiple - 1) / multiple * multiple;
}
