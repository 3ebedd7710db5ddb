#include "lab/eval.h"

#include "lab/lab.h"
#include "model/infer.h"
#include "model/shards.h"

#include <math.h>
#include <stdlib.h>

void tl_eval_defaults(struct tl_eval_opts *o)
{
    *o = (struct tl_eval_opts){0};
    tl_split_defaults(&o->split);
    tm_train_defaults(&o->train);
    o->train.epochs = 40;
}

/* Networks that the engine does not know: the forward pass of training, on this thread. */
static int predict_experiment(const struct tm_model *m, const struct tl_split *s, double *scores, double *latency,
                              struct tp_err *e)
{
    struct tm_params p = {0};
    struct tm_shards *shards = NULL;
    int rc = tm_params_init(&p, &m->h, m->w, e);
    if (rc)
        return rc;
    if (!(shards = tm_shards_new(m->n, 1)) || tm_shards_predict(shards, &p, s->d, s->test, s->n_test, scores, latency))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu predictions", s->n_test);
    for (size_t i = 0; i < s->n_test && rc == 0; i++) {
        scores[i] = 1 / (1 + exp(-(m->calib_a * scores[i] + m->calib_b)));
        latency[i] = exp(latency[i] + m->latency_shift);
    }
    tm_shards_free(shards);
    tm_params_free(&p);
    return rc;
}

static int predict(const struct tm_model *m, const struct tl_split *s, double *scores, double *latency,
                   struct tp_err *e)
{
    if (!tm_hyper_published(&m->h))
        return predict_experiment(m, s, scores, latency, e);
    int rc = tm_predict_dataset(m, s->d, s->test, s->n_test, scores, latency, NULL);
    return rc ? tp_fail(e, (enum tp_code) - rc, "prediction failed") : 0;
}

static int score(const struct tl_corpus *c, const struct tl_split *s, const struct tm_model *m, uint32_t min_programs,
                 struct tl_eval_result *out, struct tp_err *e)
{
    size_t n = s->n_test;
    double *scores = malloc((n + 1) * sizeof *scores), *latency = malloc((n + 1) * sizeof *latency);
    int rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu predictions", n);
    if (!scores || !latency)
        goto out;
    double t0 = tl_cpu_seconds();
    rc = predict(m, s, scores, latency, e);
    out->predict_seconds = tl_cpu_seconds() - t0;
    out->predict_per_second = (double)n / out->predict_seconds;
    if (rc == 0)
        rc = tl_score_make(c, s, m, min_programs, scores, latency, &out->score, e);
out:
    free(scores);
    free(latency);
    return rc;
}

int tl_eval_split(const struct tl_corpus *c, const struct tl_split *s, const struct tl_eval_opts *o,
                  struct tl_eval_result *out, struct tp_err *e)
{
    struct tm_hyper h = o->hyper ? *o->hyper : tm_hyper_default(s->d->features);
    struct tm_train_opts train = o->train;
    train.seed = o->split.seed;
    *out = (struct tl_eval_result){.features = tclfeat_version(s->d->features),
                                   .train_tasks = s->train_tasks,
                                   .valid_tasks = s->valid_tasks,
                                   .tasks_skipped = s->tasks_skipped,
                                   .train_programs = (uint32_t)(s->n_train + s->n_valid),
                                   .test_programs = (uint32_t)s->n_test,
                                   .parameters = tm_parameter_count(&h)};
    struct tm_model *m = tm_model_new(s->d->features, &h, train.seed);
    if (m == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
    double t0 = tl_seconds(), cpu0 = tl_cpu_seconds();
    int rc = tm_train(m, s->d, s->train, s->n_train, s->valid, s->n_valid, &train, o->progress, o->progress_arg, e);
    out->train_seconds = tl_seconds() - t0;
    out->train_cpu_seconds = tl_cpu_seconds() - cpu0;
    if (rc == 0)
        rc = score(c, s, m, o->split.min_programs, out, e);
    if (rc == 0)
        rc = tl_ceiling_make(c, s, o->split.min_programs, &out->ceiling, e);
    tm_model_free(m);
    return rc;
}

int tl_eval_run(const struct tl_corpus *c, char *const *test_keys, size_t n_keys, const struct tl_eval_opts *o,
                struct tl_eval_result *out, struct tp_err *e)
{
    struct tl_split s;
    int rc = tl_split_make(c, test_keys, n_keys, &o->split, &s, e);
    if (rc)
        return rc;
    rc = tl_eval_split(c, &s, o, out, e);
    tl_split_free(&s);
    return rc;
}

void tl_eval_free(struct tl_eval_result *r)
{
    tl_score_free(&r->score);
}
