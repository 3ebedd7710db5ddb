#include "lab/search_model.h"

#include "model/weights.h"

#include <stdio.h>
#include <stdlib.h>
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
