/* Weights files: safetensors (header length u64 LE, JSON header padded with spaces to 8, contiguous little-endian fp32
 * tensors).
 * `__metadata__` values are strings; structured ones hold JSON text. Keys: docs/model.md "Weights files". */
#ifndef TM_WEIGHTS_H
#define TM_WEIGHTS_H

#include "model/net.h"
#include "proto/buf.h"

enum { TM_WEIGHTS_MAX = 4 << 20 };

/* Widest shapes that are accepted (and that inference and training have room for). Each is at least 2; d_model and
 * summary_width are multiples of TM_LIMIT_UNIT; summary is 0 or its feature set's columns. */
enum { TM_LIMIT_WIDTH = 256, TM_LIMIT_STATE = 16, TM_LIMIT_CONV = 8, TM_LIMIT_RANK = 32, TM_LIMIT_UNIT = 16 };
/* Within these limits, within TM_MAX_PARAMETERS, and fit for the feature set? 0 or BAD_WEIGHTS; UNUSABLE when it is not
 * tm_hyper_published(). */
int tm_hyper_check(const struct tm_hyper *h, enum tclfeat_set s, struct tp_err *e);

/* What a file says beside the tensors. */
struct tm_provenance {
    int64_t model_id; /* 0 = none */
    char role[8];     /* "ac" | "kb" */
    char owner[64];   /* hardware of an AC, family of a KB */
    int64_t parents[8];
    int n_parents;
    int64_t records;  /* measurements trained on */
    int64_t programs; /* distinct programs trained on */
    int64_t tasks;
    uint64_t seed;
    char created[32];    /* RFC 3339 UTC */
    char metrics[512];   /* JSON object text, "" none */
    char training[4096]; /* JSON object text, "" none: how it came about, beyond the numbers above */
    char kind[8];        /* of the hardware, or of a knowledge base's family: "cpu", "gpu"; "" = not told */
    int64_t phases;      /* how often a knowledge base was taught */
};

/* Numbers beside the weights that a knowledge base keeps (ckd/kb.h): arrays in the layout of the weights, each stored
 * under the names of the weights with "fisher.", "anchor." or "start." before them. */
enum tm_beside { TM_BESIDE_FISHER, TM_BESIDE_ANCHOR, TM_BESIDE_START, TM_BESIDES };
struct tm_besides {
    float *of[TM_BESIDES]; /* [model->n] each; NULL: not there */
};
void tm_besides_free(struct tm_besides *b); /* releases the arrays and zeroes */

/* Append the file to *out. Byte-deterministic: the same model and provenance give the same bytes. BAD_WEIGHTS for what
 * the reader would refuse (a weight that is not finite, a provenance out of form), NO_MEMORY; then *out keeps its
 * bytes. */
int tm_weights_write(const struct tm_model *m, const struct tm_provenance *p, struct tp_buf *out, struct tp_err *e);
/* The same with numbers beside; b may be NULL. */
int tm_weights_write_beside(const struct tm_model *m, const struct tm_besides *b, const struct tm_provenance *p,
                            struct tp_buf *out, struct tp_err *e);
/* Validates everything: header bounds, JSON, dtype F32, every tensor present once with its shape, contiguous without
 * holes, finite values, hyper-parameters within limits, features version known (else FEATURES_MISMATCH) and table CRC
 * equal (else FEATURES_MISMATCH). BAD_WEIGHTS for the rest. Tensors may come in any order; unknown metadata keys are
 * ignored, absent provenance keys read as zero or "". p may be NULL. *m is the caller's, to be released with
 * tm_model_free(). Numbers beside the weights are validated and left out. */
int tm_weights_read(const void *bytes, size_t n, struct tm_model **m, struct tm_provenance *p, struct tp_err *e);
/* The same with them: *b is the caller's; NULL where the file has none. b NULL: left out. */
int tm_weights_read_beside(const void *bytes, size_t n, struct tm_model **m, struct tm_besides *b,
                           struct tm_provenance *p, struct tp_err *e);

/* Atomic publication: write path.tmp, fsync, rename, fsync the directory. IO or DISK_FULL. */
int tm_weights_save(const char *path, const struct tm_model *m, const struct tm_provenance *p, struct tp_err *e);
int tm_weights_save_beside(const char *path, const struct tm_model *m, const struct tm_besides *b,
                           const struct tm_provenance *p, struct tp_err *e);
int tm_weights_load(const char *path, struct tm_model **m, struct tm_provenance *p, struct tp_err *e);
int tm_weights_load_beside(const char *path, struct tm_model **m, struct tm_besides *b, struct tm_provenance *p,
                           struct tp_err *e);

#endif
