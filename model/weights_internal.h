/* What reading (weights.c) and writing (weights_write.c) of weights files share: the layout, the keys, the checks. */
#ifndef TM_WEIGHTS_INTERNAL_H
#define TM_WEIGHTS_INTERNAL_H

#include "model/weights.h"

enum { LENGTH_BYTES = 8, HEADER_MAX = 64 << 10 };
#define FORMAT_NAME "tcld-1"

/* X(field, least, most) */
#define HYPER_FIELDS(X)                                                                                                \
    X(features, 2, TCLFEAT_MAX_COLS)                                                                                   \
    X(embed, 2, TM_LIMIT_WIDTH)                                                                                        \
    X(d_model, 2, TM_LIMIT_WIDTH)                                                                                      \
    X(d_state, 2, TM_LIMIT_STATE)                                                                                      \
    X(d_conv, 2, TM_LIMIT_CONV)                                                                                        \
    X(dt_rank, 2, TM_LIMIT_RANK)                                                                                       \
    X(summary, 0, TCLFEAT_MAX_SUMMARY)                                                                                 \
    X(summary_width, 2, TM_LIMIT_WIDTH)                                                                                \
    X(head1, 2, TM_LIMIT_WIDTH)                                                                                        \
    X(head2, 2, TM_LIMIT_WIDTH)

#define CALIBRATION_FIELDS(X)                                                                                          \
    X("a", calib_a)                                                                                                    \
    X("b", calib_b)                                                                                                    \
    X("latency_shift", latency_shift)                                                                                  \
    X("latency_std", latency_std)
/* Absent in files of older writers: what tm_model_new() sets stays. */
#define LATENCY_FIELDS(X)                                                                                              \
    X("latency_tilt", latency_tilt)                                                                                    \
    X("known_slope", known_slope)                                                                                      \
    X("known_std", known_std)                                                                                          \
    X("known_tilt", known_tilt)

#define COUNT_FIELDS(X)                                                                                                \
    X(model_id)                                                                                                        \
    X(phases)                                                                                                          \
    X(records)                                                                                                         \
    X(programs)                                                                                                        \
    X(tasks)

#define TEXT_FIELDS(X)                                                                                                 \
    X(kind)                                                                                                            \
    X(role)                                                                                                            \
    X(owner)                                                                                                           \
    X(created)                                                                                                         \
    X(metrics)                                                                                                         \
    X(training)

/* What a file may hold: the weights, then what stands beside them, by prefix of the tensors' names. */
enum { SETS = 1 + TM_BESIDES, TENSOR_NAME = 80 };

/* The name in the file of a tensor of a set; returns `name`. */
const char *tm_tensor_name(int set, const struct tm_shape *shape, char name[TENSOR_NAME]);

/* What no file may hold, whoever made it. */
bool tm_calibration_ok(const struct tm_model *m);
int tm_provenance_check(const struct tm_provenance *p, struct tp_err *e);
/* w: values of a set in the layout of m's weights. */
int tm_values_check(const struct tm_model *m, const float *w, int set, struct tp_err *e);

#endif
