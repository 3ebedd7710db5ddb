/* Models in memory. A snapshot is immutable; acquire takes a reference under a tiny lock once per batch; publishing swaps the pointer; the last
 * release frees it. The previous snapshot of a slot stays in memory for instant rollback. All functions are thread-safe. */
#ifndef TD_REGISTRY_H
#define TD_REGISTRY_H

#include "model/infer.h"
#include "model/weights.h"
#include "store/store.h"

struct td_snapshot {            /* read-only for holders */
    struct tm_model *model;
    struct tm_plan *plan;
    struct tm_provenance provenance;
    int64_t id;
    char role[8], owner[64];
    int calibration;            /* counter: same id, newer offsets or calibration */
    uint64_t checksum;          /* of the weights */
    _Atomic int refs;
};

struct td_registry;
/* models_dir = STATE/models. Loads the active AC of every hardware and the KB of every family; a file that cannot be used is reported through
 * on_error and its slot stays empty (the daemon starts all the same). */
int td_registry_new(const char *models_dir, struct st_store *s, void (*on_error)(void *, int64_t id, const struct tp_err *), void *arg,
                    struct td_registry **out, struct tp_err *e);
void td_registry_free(struct td_registry *g);

/* The snapshot that answers for hardware: which = "active" (AC, else the family's KB), "ac", "kb", or a decimal model id. Errors: NO_MODEL, UNKNOWN_MODEL,
 * BAD_PARAMETER, FEATURES_MISMATCH, BAD_WEIGHTS. */
int td_registry_acquire(struct td_registry *g, const char *hardware, const char *family, const char *which, struct td_snapshot **out, struct tp_err *e);
void td_registry_release(struct td_snapshot *s);

/* Publication: write file -> fsync -> rename -> fsync dir -> reload it and compare predictions of golden rows -> store row -> swap when activate.
 * Takes ownership of m. row->id must be reserved. */
int td_registry_publish(struct td_registry *g, struct tm_model *m, struct tm_provenance *p, struct st_model *row, const char *hardware, bool activate,
                        struct tp_err *e);
/* Make an existing model the active one of hardware (also the rollback). CONFLICT, UNKNOWN_MODEL, FEATURES_MISMATCH, BAD_WEIGHTS. */
int td_registry_activate(struct td_registry *g, const char *hardware, int64_t id, struct tp_err *e);
void td_registry_forget(struct td_registry *g, const char *hardware);       /* hardware deleted */
/* Path of a model's weights file into buf. */
void td_registry_path(const struct td_registry *g, int64_t id, char *buf, size_t n);
int td_registry_count(struct td_registry *g);

#endif
