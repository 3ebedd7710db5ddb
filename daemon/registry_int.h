/* What registry.c and registry_publish.c share. */
#ifndef TD_REGISTRY_INT_H
#define TD_REGISTRY_INT_H

#include "daemon/registry.h"

#include <pthread.h>

enum { TD_REGISTRY_BUCKETS = 256, TD_REGISTRY_PATH = 4096 };

struct td_slot {
    struct td_slot *next;
    char role[8], owner[ST_ID_MAX + 1];
    struct td_snapshot *present, *previous; /* NULL none */
    int64_t unusable; /* id of the model that should be present, but could not be loaded at the start; 0 none */
};

struct td_registry {
    struct st_store *store;
    struct td_hwcache *hardware;
    char *dir;
    int64_t rejected;           /* weights files of rejected models that an owner keeps */
    pthread_mutex_t publish_mu; /* guards write_reader and the models directory; held over file, row and swap */
    struct st_reader *write_reader;
    pthread_mutex_t load_mu; /* guards load_reader; held while a model is loaded for ?model=<id> */
    struct st_reader *load_reader;
    pthread_mutex_t mu; /* guards what follows */
    struct td_slot *bucket[TD_REGISTRY_BUCKETS];
    struct td_snapshot *extra[TD_REGISTRY_EXTRA]; /* loaded by id, most recently used first */
    int n_extra;
    uint64_t recalibrations; /* a model that was loaded while this rose may have older offsets than the store */
};

/* NULL: not there, or (make) no memory. */
struct td_slot *td_slot_locked(struct td_registry *g, const char *role, const char *owner, bool make);
/* In memory under this id, wherever it is: a reference, or NULL. */
struct td_snapshot *td_registry_by_id_locked(struct td_registry *g, const char *hardware, const char *family,
                                             int64_t id);
/* The file of a model with the offsets that the store has for it. r is the caller's for the call. */
int td_registry_load(struct td_registry *g, struct st_reader *r, const struct st_model *row, struct td_snapshot **out,
                     struct tp_err *e);
int td_registry_no_memory(struct tp_err *e);

#endif
