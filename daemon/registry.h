/* Models in memory, and the hardware rows that go with them. A snapshot is immutable; acquire takes a reference under a
 * tiny lock once per batch; publishing swaps the pointer; the last release frees it. The previous snapshot of a slot
 * stays in memory for instant rollback. All functions are thread-safe. */
#ifndef TD_REGISTRY_H
#define TD_REGISTRY_H

#include "ckd/kb.h"
#include "daemon/hwcache.h"
#include "daemon/offsets.h"
#include "model/infer.h"
#include "model/weights.h"
#include "store/store.h"

struct td_snapshot { /* read-only for holders */
    struct tm_model *model;
    struct tm_plan *plan;
    struct td_offsets *offsets; /* daemon/offsets.h; NULL none */
    struct tm_provenance provenance;
    int64_t id;
    char role[8], owner[64];
    int calibration;   /* counter: same id, newer offsets or calibration */
    uint64_t checksum; /* of the weights */
    _Atomic int refs;
};

struct td_registry;
/* models_dir = STATE/models. Loads the active AC of every hardware and the KB of every family; a file that cannot be
 * used is reported through on_error and its slot stays empty (the daemon starts all the same). */
int td_registry_new(const char *models_dir, struct st_store *s,
                    void (*on_error)(void *, int64_t id, const struct tp_err *), void *arg, struct td_registry **out,
                    struct tp_err *e);
void td_registry_free(struct td_registry *g);
/* How many weights files of rejected models are kept, the newest of each owner; all until this is called. Before other
 * threads use g. */
void td_registry_keep_rejected(struct td_registry *g, int64_t n);

/* Hardware by name without touching the store in the steady state. UNKNOWN_HARDWARE says which PUT to send first. */
int td_registry_hardware(struct td_registry *g, const char *name, struct td_hw *out, struct tp_err *e);
/* The same for a thread that may not wait: false when it is not in memory. */
bool td_registry_hardware_peek(struct td_registry *g, const char *name, struct td_hw *out);
void td_registry_hardware_changed(struct td_registry *g, const char *name); /* after the commit of a PUT */

/* The snapshot that answers for hardware: which = "active" (AC, else the family's KB), "ac", "kb", or a decimal model
 * id. Errors: NO_MODEL, UNKNOWN_MODEL, BAD_PARAMETER, FEATURES_MISMATCH, BAD_WEIGHTS. An id that is not in memory is
 * loaded from its file (only then does this wait); the last TD_REGISTRY_EXTRA of those are kept. An id must be an AC of
 * this hardware or a KB of its family. */
enum { TD_REGISTRY_EXTRA = 8 };
int td_registry_acquire(struct td_registry *g, const char *hardware, const char *family, const char *which,
                        struct td_snapshot **out, struct tp_err *e);
void td_registry_release(struct td_snapshot *s);

/* Publication: write file -> fsync -> rename -> fsync dir -> reload it and compare predictions of golden rows -> store
 * row -> swap when activate. Takes ownership of m (also on failure). row->id must be reserved; id, role and owner of
 * *p, features version and sha256 of *row are filled in. hardware: id of the AC's, 0 for a KB. A model that fails any
 * step leaves no file and no row. Then the files of the owner's rejected models that are not to be kept are removed;
 * their rows stay, and so do files of models that answer or answered last. UNKNOWN_HARDWARE when it was deleted
 * meanwhile, even if there is one of that name again. */
int td_registry_publish(struct td_registry *g, struct tm_model *m, struct tm_provenance *p, struct st_model *row,
                        int64_t hardware, bool activate, struct tp_err *e);
/* The same with the offsets of an AC for its hardware. */
int td_registry_publish_with(struct td_registry *g, struct tm_model *m, struct tm_provenance *p, struct st_model *row,
                             int64_t hardware, bool activate, const struct st_offset *o, size_t n, struct tp_err *e);
/* A knowledge base for its family (row->owner). Takes ownership of kb (also on failure). instead_of: id of the one that
 * it came from, 0 none, -1 any; when another one is active by now it is stored, but not activated. *activated tells. */
int td_registry_publish_kb(struct td_registry *g, struct tk_kb *kb, struct tm_provenance *p, struct st_model *row,
                           int64_t instead_of, bool *activated, struct tp_err *e);
/* The same with what depends on whether it answers from then on. Each may be left out. */
struct td_kb_with {
    /* When that is known, and nothing is written yet: the last moment to fill in what p and row tell of it.
     * Publications and activations wait meanwhile, so it must not call for any. */
    int (*tell)(void *arg, bool active, struct tp_err *e);
    void *arg;
    const struct st_probe_set *probe; /* [n_probes] of what it has learned, stored with its row if it answers */
    size_t n_probes;
};
int td_registry_publish_kb_with(struct td_registry *g, struct tk_kb *kb, struct tm_provenance *p, struct st_model *row,
                                int64_t instead_of, const struct td_kb_with *with, bool *activated, struct tp_err *e);
/* The whole knowledge base of that id from its file, which must be the one that was published. r is the caller's.
 * UNKNOWN_MODEL, BAD_WEIGHTS, FEATURES_MISMATCH, IO. */
int td_registry_load_kb(struct td_registry *g, struct st_reader *r, int64_t id, struct tk_kb **kb, struct tp_err *e);
/* New offsets of a model for tasks of one hardware (id hw): stored with the next calibration, then a new snapshot of
 * the same model takes the place of the old one wherever that is. Those of other tasks stay. *calibration = the new
 * count. UNKNOWN_HARDWARE, UNKNOWN_MODEL. */
int td_registry_recalibrate(struct td_registry *g, const char *hardware, const char *family, int64_t hw, int64_t model,
                            const struct st_offset *o, size_t n, int *calibration, struct tp_err *e);
/* Make an existing model the active one of hardware (also the rollback). CONFLICT (not an AC of this hardware),
 * UNKNOWN_MODEL, FEATURES_MISMATCH, BAD_WEIGHTS. Sets *changed (may be NULL) when another model was active before. */
int td_registry_activate(struct td_registry *g, const char *hardware, int64_t id, bool *changed, struct tp_err *e);
/* The hardware has no model of its own from now on: the knowledge base of its family answers. CONFLICT: there is none.
 */
int td_registry_deactivate(struct td_registry *g, const char *hardware, bool *changed, struct tp_err *e);
/* The same for a family and its knowledge bases. */
int td_registry_activate_kb(struct td_registry *g, const char *family, int64_t id, bool *changed, struct tp_err *e);
/* After the commit of a DELETE: drops its models from memory, and the files whose rows are gone from the disk. What was
 * published since for new hardware of that name stays. */
void td_registry_forget(struct td_registry *g, const char *hardware);
/* Path of a model's weights file into buf. */
void td_registry_path(const struct td_registry *g, int64_t id, char *buf, size_t n);
/* Was the weights file of this model removed because the model was rejected? Then e says so (UNKNOWN_MODEL). */
bool td_registry_dropped(const struct td_registry *g, const struct st_model *row, struct tp_err *e);
int td_registry_count(struct td_registry *g);

#endif
