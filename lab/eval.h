/* One supervised experiment on log files: split by workload key, sample, train, score. Shared by the lab's commands. */
#ifndef TL_EVAL_H
#define TL_EVAL_H

#include "lab/corpus.h"
#include "model/bootstrap.h"
#include "model/metrics.h"
#include "model/train.h"

struct tl_eval_opts {
    bool tlp;               /* TLP's rows instead of tclf-1 */
    uint32_t per_task;      /* programs of a training task, 0 = all */
    uint32_t test_per_task; /* programs of a test task */
    uint32_t min_programs;  /* test tasks with fewer valid programs are left out */
    double
        valid_fraction; /* share of the training tasks that choose the epoch; 0 = train on all, keep the last epoch */
    struct tm_train_opts train;
    tm_progress_fn progress; /* may be NULL */
    void *progress_arg;
};
void tl_eval_defaults(struct tl_eval_opts *o);

/* Latency of test programs: tasks of which nothing was measured, and of which five programs were (the first of the
 * seeded draw, which are then left out). Shares of programs, all test tasks together. */
struct tl_latency {
    double median_ln_error, within_1_25, within_1_5, within_2; /* as in struct tm_metrics */
    double within_one_std, within_two_std; /* of the predicted standard deviation: 0.68 and 0.95 when it is right */
};

struct tl_eval_result {
    const char *features;
    struct tm_metrics by_min;  /* true cost = minimum of the repeats */
    struct tm_metrics by_mean; /* true cost = mean of the repeats, as published figures have it */
    struct tm_interval top1_mean, top5_mean, pairwise; /* bootstrap over tasks */
    struct tl_latency unknown, known;
    uint32_t train_tasks, valid_tasks, tasks_skipped;
    uint32_t train_programs, test_programs;
    size_t parameters;
    uint32_t distinct_rows;
    uint64_t rows;
    double encode_seconds, train_seconds, predict_seconds, predict_per_second;
};

/* test_keys[0..n_keys): sorted workload keys that are held out. */
int tl_eval_run(const struct tl_corpus *c, char *const *test_keys, size_t n_keys, const struct tl_eval_opts *o,
                struct tl_eval_result *out, struct tp_err *e);

#endif
