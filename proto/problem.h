/* Problem details (RFC 9457), the lists of record errors, and the reply bodies of predict and of writes. Pure printers.
 */
#ifndef TP_PROBLEM_H
#define TP_PROBLEM_H

#include "proto/buf.h"
#include "proto/err.h"

enum { TP_MAX_REPORTED_ERRORS = 1000 };

/* Collects the first TP_MAX_REPORTED_ERRORS record errors of a body. */
struct tp_errlist {
    struct tp_err *v; /* owned */
    size_t n, cap;
    bool truncated; /* more happened than were kept */
};
void tp_errlist_add(struct tp_errlist *l, const struct tp_err *e);
void tp_errlist_free(struct tp_errlist *l);

/* {"type","title","status","detail"[,"errors":[{"pointer"|"line","detail"}]]} from one error. */
void tp_problem_write(struct tp_buf *out, const struct tp_err *e);

/* `"errors": [...]` and, if truncated, `, "errors_truncated": true`: the members that predict and write replies share.
 */
void tp_errlist_write(struct tp_buf *out, const struct tp_errlist *l);

struct tp_predict_reply {
    int64_t model_id;
    const char *role;     /* "ac" | "kb" */
    const char *hardware; /* hardware of an AC, family of a KB */
    const char *features_version;
    int calibration; /* counter of the snapshot */
    size_t n;
    const double *scores;          /* [n] in [1e-6, 1 - 1e-6]; NaN = unusable -> null */
    const double *latency_seconds; /* [n] > 0; NaN -> null */
    const double *latency_std_log; /* [n] or NULL */
    const struct tp_errlist *errors;
};
void tp_predict_reply_json(struct tp_buf *out, const struct tp_predict_reply *r); /* scores with >= 9 digits */
void tp_predict_reply_binary(struct tp_buf *out,
                             const struct tp_predict_reply *r); /* LE float32 scores, then latencies */

/* {"accepted","duplicates","rejected","errors"} */
void tp_write_reply_json(struct tp_buf *out, size_t accepted, size_t duplicates, size_t rejected,
                         const struct tp_errlist *errors);

#endif
