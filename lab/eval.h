/* One supervised experiment on log files: split, train, score. Shared by the lab's commands. */
#ifndef TL_EVAL_H
#define TL_EVAL_H

#include "lab/score.h"
#include "model/train.h"

struct tl_eval_opts {
    struct tl_split_opts split; /* its seed is the training's too */
    struct tm_train_opts train;
    const struct tm_hyper *hyper; /* NULL: the default. Shapes that the engine does not run are predicted by the forward
                                     pass of training */
    tm_progress_fn progress;      /* may be NULL */
    void *progress_arg;
};
void tl_eval_defaults(struct tl_eval_opts *o);

struct tl_eval_result {
    const char *features;
    struct tl_score score;
    struct tl_ceiling ceiling;
    uint32_t train_tasks, valid_tasks, tasks_skipped;
    uint32_t train_programs, test_programs;
    size_t parameters;
    double train_seconds, train_cpu_seconds;
    double predict_seconds, predict_per_second; /* of CPU: one thread */
};

/* test_keys[0..n_keys): sorted workload keys that are held out. */
int tl_eval_run(const struct tl_corpus *c, char *const *test_keys, size_t n_keys, const struct tl_eval_opts *o,
                struct tl_eval_result *out, struct tp_err *e);
/* The same on a split that is there. */
int tl_eval_split(const struct tl_corpus *c, const struct tl_split *s, const struct tl_eval_opts *o,
                  struct tl_eval_result *out, struct tp_err *e);
void tl_eval_free(struct tl_eval_result *r);

#endif
