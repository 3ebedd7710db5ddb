#include "lab/search_model.h"

#include "model/grad.h"
#include "model/infer.h"
#include "model/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tl_search_model(const struct tl_split *s, const struct tl_split_opts *so, const struct tl_search_train *t,
                    struct tm_model **m, struct tp_err *e)
{
    enum tclfeat_set set = s->d->features;
    struct tm_hyper h = tm_hyper_default(set);
    struct tm_train_opts o;
    struct tm_provenance from = {.seed = so->seed};
    char *path = NULL;
    int rc = 0;
    if (t->dir && asprintf(&path, "%s/%s-e%d-n%u-s%llu.safetensors", t->dir, tclfeat_version(set), t->epochs,
                           so->per_task, (unsigned long long)so->seed) < 0)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for a path");
    if (path && access(path, R_OK) == 0) {
        rc = tm_weights_load(path, m, NULL, e);
        free(path);
        return rc;
    }
    tm_train_defaults(&o);
    o.epochs = t->epochs;
    o.threads = t->threads;
    o.seed = so->seed;
    struct tm_model *new = tm_model_new(set, &h, o.seed);
    rc = new ? tm_train(new, s->d, s->train, s->n_train, s->valid, s->n_valid, &o, t->progress, t->progress_arg, e)
             : tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
    if (rc == 0 && path)
        rc = tm_weights_save(path, new, &from, e);
    free(path);
    if (rc)
        tm_model_free(new);
    else
        *m = new;
    return rc;
}

enum { LOOK_PROGRAMS = 256 /* of one forward pass */ };

int tl_look_make(const struct tm_dataset *d, const struct tm_model *m, const uint32_t *idx, size_t n, struct tl_look *v,
                 struct tp_err *e)
{
    const size_t f = (size_t)m->h.head2;
    struct tm_params p = {0};
    struct tm_tape *tape = tm_tape_new();
    int rc = tm_params_init(&p, &m->h, m->w, e);
    *v = (struct tl_look){.score = malloc((n + 1) * sizeof *v->score),
                          .features = malloc((n * f + 1) * sizeof *v->features),
                          .n_features = m->h.head2};
    double *latency = malloc((n + 1) * sizeof *latency);
    if (rc == 0 &&
        !(tape && v->score && v->features && latency && tm_predict_dataset(m, d, idx, n, v->score, latency, NULL) == 0))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu predictions", n);
    for (size_t at = 0; at < n && rc == 0; at += LOOK_PROGRAMS) {
        uint32_t some = n - at < LOOK_PROGRAMS ? (uint32_t)(n - at) : LOOK_PROGRAMS;
        if (tm_forward(&p, tape, d, idx + at, some))
            rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for %u programs", some);
        else
            memcpy(v->features + at * f, tape->features, some * f * sizeof *v->features);
    }
    free(latency);
    tm_tape_free(tape);
    tm_params_free(&p);
    if (rc)
        tl_look_free(v);
    return rc;
}

void tl_look_free(struct tl_look *v)
{
    free(v->score);
    free(v->features);
    *v = (struct tl_look){0};
}
