/* Hardware rows as predictions need them, kept in memory so that a request does not touch the store. Thread-safe.
 *
 * Only hardware that exists is kept, at most TD_HWCACHE_MAX rows; an unknown name asks the store each time. Whoever
 * changes or deletes hardware calls td_hwcache_drop() after the commit; a look-up that began before it cannot bring the
 * old row back. */
#ifndef TD_HWCACHE_H
#define TD_HWCACHE_H

#include "proto/tclfeat.h"
#include "store/store.h"

enum { TD_HWCACHE_MAX = 4096 };

struct td_hw {
    int64_t id;
    char name[ST_ID_MAX + 1], family[ST_ID_MAX + 1];
    struct tclfeat_hw feat; /* .kind is the hardware's kind */
};

struct td_hwcache;
int td_hwcache_new(struct st_store *s, struct td_hwcache **out, struct tp_err *e);
void td_hwcache_free(struct td_hwcache *c);
/* Without touching the store: false when it is not kept. */
bool td_hwcache_peek(struct td_hwcache *c, const char *name, struct td_hw *out);
/* UNKNOWN_HARDWARE says which PUT to send first. */
int td_hwcache_get(struct td_hwcache *c, const char *name, struct td_hw *out, struct tp_err *e);
void td_hwcache_drop(struct td_hwcache *c, const char *name);

#endif
