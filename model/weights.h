/* Weights files: safetensors (header length u64 LE, JSON header padded with spaces to 8, contiguous little-endian fp32 tensors).
 * `__metadata__` values are strings; structured ones hold JSON text. Keys: docs/model.md "Weights files". */
#ifndef TM_WEIGHTS_H
#define TM_WEIGHTS_H

#include "model/net.h"
#include "proto/buf.h"

enum { TM_WEIGHTS_MAX = 4 << 20 };

/* What a file says beside the tensors. */
struct tm_provenance {
    int64_t model_id;       /* 0 = none */
    char role[8];           /* "ac" | "kb" */
    char owner[64];         /* hardware of an AC, family of a KB */
    int64_t parents[8];
    int n_parents;
    int64_t records;        /* measurements trained on */
    int64_t programs;       /* distinct programs trained on */
    int64_t tasks;
    uint64_t seed;
    char created[32];       /* RFC 3339 UTC */
    char metrics[512];      /* JSON object text, "" none */
};

int tm_weights_write(const struct tm_model *m, const struct tm_provenance *p, struct tp_buf *out, struct tp_err *e);
/* Validates everything: header bounds, JSON, dtype F32, every tensor present once with its shape, contiguous without holes, finite values,
 * hyper-parameters within limits, features version known (else FEATURES_MISMATCH) and table CRC equal (else FEATURES_MISMATCH). BAD_WEIGHTS for the rest. */
int tm_weights_read(const void *bytes, size_t n, struct tm_model **m, struct tm_provenance *p, struct tp_err *e);

/* Atomic publication: write path.tmp, fsync, rename, fsync the directory. IO or DISK_FULL. */
int tm_weights_save(const char *path, const struct tm_model *m, const struct tm_provenance *p, struct tp_err *e);
int tm_weights_load(const char *path, struct tm_model **m, struct tm_provenance *p, struct tp_err *e);

#endif
