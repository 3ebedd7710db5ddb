/* Figures of anyone's predictions for the test programs of a split: ours, a peer's, a random order's. */
#ifndef TL_SCORE_H
#define TL_SCORE_H

#include "lab/split.h"
#include "model/bootstrap.h"
#include "model/metrics.h"

/* Latency of test programs: tasks of which nothing was measured, and of which five programs were (the first of the
 * seeded draw, which are then left out). Shares of programs, all test tasks together. */
struct tl_latency {
    double median_ln_error, within_1_25, within_1_5, within_2; /* as in struct tm_metrics */
    double within_one_std, within_two_std; /* of the predicted standard deviation: 0.68 and 0.95 when it is right */
};

struct tl_score {
    struct tm_metrics by_min;  /* true cost = minimum of the repeats */
    struct tm_metrics by_mean; /* true cost = mean of the repeats, as published figures have it */
    struct tl_latency unknown, known;
    uint32_t n;                                             /* test tasks, in the order of the split */
    double *top1, *top5, *pairwise;                         /* [n], owned: of each task, by minimum */
    struct tm_interval top1_mean, top5_mean, pairwise_mean; /* bootstrap over these */
};

/* score[i], latency[i] (seconds; NULL: none) of s->test[i]. m: the model they come from, for the offsets and standard
 * deviations of latencies; NULL: offsets with slope 1, no deviations. min_programs as in the split. */
int tl_score_make(const struct tl_corpus *c, const struct tl_split *s, const struct tm_model *m, uint32_t min_programs,
                  const double *score, const double *latency, struct tl_score *out, struct tp_err *e);
void tl_score_free(struct tl_score *s);

/* Figures of the measurements themselves: what an order that knows every program's true cost would get when it is
 * scored by another measurement of the same programs. From programs that were measured in at least two records (the
 * minimum of each); where too few tasks have two, from the repeats of a record, odd against even. Tasks with at least
 * min_programs such programs. */
struct tl_ceiling {
    uint32_t tasks, programs;
    bool by_record;                  /* false: by halves of the repeats, which share what disturbed the record */
    double pairwise, pairwise_10pct; /* of one measurement judged by the other */
    double perfect;              /* pairwise of the true order judged by one measurement: p^2 + (1-p)^2 = pairwise */
    double top1_mean, top5_mean; /* of one measurement judged by the other */
};
/* Two measurements of a program that know nothing of each other, as far as the log has them: the minima of its first
 * two records, or of a record's repeats, odd against even. false: there is one only. */
bool tl_two_measurements(const struct tl_corpus *c, const struct tl_program *p, bool by_record, double two[2]);
int tl_ceiling_make(const struct tl_corpus *c, const struct tl_split *s, uint32_t min_programs, struct tl_ceiling *out,
                    struct tp_err *e);

#endif
