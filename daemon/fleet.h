/* What a family's hardware knows of each other: members, probe sets, peers, measured transfers. */
#ifndef TD_FLEET_H
#define TD_FLEET_H

#include "ckd/adapt.h"
#include "daemon/registry.h"
#include "daemon/train_parts.h"

/* ---- members ---- */
struct td_members {
    struct st_hardware *v; /* owned, by name */
    size_t n;
};
/* Hardware of a family, or (NULL) of a kind, or (both NULL) all of it. NO_MEMORY, IO. */
int td_members_list(struct st_reader *r, const char *family, const char *kind, struct td_members *out,
                    struct tp_err *e);
void td_members_free(struct td_members *m);

/* ---- probe sets: what a knowledge base must not forget ---- */
struct td_older {
    struct tk_older *of; /* [n] */
    struct td_train_data *data;
    char (*name)[ST_ID_MAX + 1];
    uint32_t n; /* <= TK_OLDER_MAX */
};
/* The stored probe sets of a family's hardware but for `except` (NULL: of all), encoded. NO_MEMORY, IO. */
int td_older_load(struct st_reader *r, const char *family, const char *except, enum tclfeat_set features,
                  struct td_older *out, struct tp_err *e);
void td_older_free(struct td_older *o);
/* The probe set of a hardware that was learned: about TD_PROBE_PROGRAMS of set, as many of each task. So many, because
 * on few tasks the top-1 of one decides; they take 6 MB while a job looks at them. out->p is malloc'ed. NO_MEMORY. */
enum { TD_PROBE_PROGRAMS = 4096 };
int td_probe_draw(const struct st_hardware *hw, const struct td_train_set *set, uint64_t seed, struct st_probe_set *out,
                  struct tp_err *e);

/* ---- peers: whose models a hardware may begin with ---- */
enum { TD_PEERS = 8 };
struct td_peers {
    struct tk_peer of[TD_PEERS];
    struct td_snapshot *snapshot[TD_PEERS];
    char name[TD_PEERS][ST_ID_MAX + 1];
    uint32_t n;
};
/* The active ACs, of these features, of the TD_PEERS other hardware of hw's family whose descriptors are most like its
 * own. NO_MEMORY, IO. */
int td_peers_load(struct td_daemon *d, struct st_reader *r, const struct st_hardware *hw, enum tclfeat_set features,
                  struct td_peers *out, struct tp_err *e);
void td_peers_free(struct td_peers *p);

/* ---- transfers ---- */
/* Asks the active AC of every other hardware of the same kind about measurements in set, by the source gate, and stores
 * what it found. At most TD_TRANSFER_PROGRAMS programs are looked at. CANCELLED when the job is, NO_MEMORY, IO. */
enum { TD_TRANSFER_PROGRAMS = 1024 };
int td_transfers_measure(struct td_daemon *d, const struct td_job *job, struct st_reader *r,
                         const struct st_hardware *hw, const struct td_train_set *set, const struct tk_run *run,
                         struct tp_err *e);

#endif
