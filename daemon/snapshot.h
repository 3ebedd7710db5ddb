/* Making snapshots: from a model in memory, from a weights file; and the proof that two of them predict the same. For
 * daemon/registry.c. */
#ifndef TD_SNAPSHOT_H
#define TD_SNAPSHOT_H

#include "daemon/registry.h"

/* Takes ownership of m (also on failure). The new snapshot has one reference. id, role, owner and calibration come from
 * row. */
int td_snapshot_new(struct tm_model *m, const struct tm_provenance *p, const struct st_model *row, uint64_t checksum,
                    struct td_snapshot **out, struct tp_err *e);
/* Read, check and prepare the file. row->sha256, when not "", must be the file's. BAD_WEIGHTS, FEATURES_MISMATCH, IO.
 */
int td_snapshot_load(const char *path, const struct st_model *row, struct td_snapshot **out, struct tp_err *e);
/* The same model with other offsets of hardware hw for the tasks of o[0..n). NO_MEMORY, TOO_MANY. */
int td_snapshot_with_offsets(const struct td_snapshot *old, int64_t hw, const struct st_offset *o, size_t n,
                             struct td_snapshot **out, struct tp_err *e);
struct td_snapshot *td_snapshot_ref(struct td_snapshot *s);

/* Whole file into *out, at most TM_WEIGHTS_MAX bytes. BAD_WEIGHTS when it is gone or too long, IO. */
int td_weights_bytes(const char *path, struct tp_buf *out, struct tp_err *e);
/* Lower-case hex SHA-256, NUL-terminated; returns its first 8 bytes as a number. */
uint64_t td_sha256(const void *bytes, size_t n, char hex[65]);

/* Golden rows: a few fixed programs predicted by both. INTERNAL unless every score, latency and raw output is the same
 * bit for bit, BAD_WEIGHTS when one is not finite. */
int td_snapshot_same(const struct td_snapshot *a, const struct td_snapshot *b, struct tp_err *e);

#endif
