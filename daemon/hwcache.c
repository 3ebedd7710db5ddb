/* Hardware rows in memory: a hash table of values, filled on demand.
 *
 * Invariant: an entry is the store's row as of a time after the last td_hwcache_drop() of any name. A drop raises
 * `generation`; a load that started under an older one is handed out but not kept. Any thread. */
#include "daemon/hwcache.h"

#include "daemon/hardware.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 256 };

struct entry {
    struct entry *next;
    struct td_hw hw;
};

struct td_hwcache {
    pthread_mutex_t load_mu; /* guards reader; taken before mu */
    struct st_reader *reader;
    pthread_mutex_t mu; /* guards what follows; held for look-ups only */
    struct entry *bucket[BUCKETS];
    size_t n;
    uint64_t generation;
};

static unsigned bucket_of(const char *name)
{
    uint32_t h = 2166136261U; /* FNV-1a */

    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 16777619U;
    return h % BUCKETS;
}

int td_hwcache_new(struct st_store *s, struct td_hwcache **out, struct tp_err *e)
{
    struct td_hwcache *c = calloc(1, sizeof *c);
    int rc;

    if (c == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for the hardware cache");
    rc = st_reader_new(s, &c->reader, e);
    if (rc != 0) {
        free(c);
        return rc;
    }
    pthread_mutex_init(&c->load_mu, NULL);
    pthread_mutex_init(&c->mu, NULL);
    *out = c;
    return 0;
}

static void clear_locked(struct td_hwcache *c)
{
    for (int b = 0; b < BUCKETS; b++) {
        while (c->bucket[b] != NULL) {
            struct entry *x = c->bucket[b];

            c->bucket[b] = x->next;
            free(x);
        }
    }
    c->n = 0;
}

void td_hwcache_free(struct td_hwcache *c)
{
    if (c == NULL)
        return;
    clear_locked(c);
    st_reader_free(c->reader);
    pthread_mutex_destroy(&c->mu);
    pthread_mutex_destroy(&c->load_mu);
    free(c);
}

static bool find_locked(const struct td_hwcache *c, const char *name, struct td_hw *out)
{
    for (const struct entry *x = c->bucket[bucket_of(name)]; x != NULL; x = x->next) {
        if (strcmp(x->hw.name, name) == 0) {
            *out = x->hw;
            return true;
        }
    }
    return false;
}

static void keep_locked(struct td_hwcache *c, const struct td_hw *hw)
{
    struct td_hw there;
    struct entry *x;
    unsigned b = bucket_of(hw->name);

    if (find_locked(c, hw->name, &there))
        return;
    if (c->n >= TD_HWCACHE_MAX)
        clear_locked(c);
    x = malloc(sizeof *x);
    if (x == NULL)
        return; /* the next look-up asks the store again */
    x->hw = *hw;
    x->next = c->bucket[b];
    c->bucket[b] = x;
    c->n++;
}

bool td_hwcache_peek(struct td_hwcache *c, const char *name, struct td_hw *out)
{
    bool hit;

    pthread_mutex_lock(&c->mu);
    hit = find_locked(c, name, out);
    pthread_mutex_unlock(&c->mu);
    return hit;
}

int td_hwcache_get(struct td_hwcache *c, const char *name, struct td_hw *out, struct tp_err *e)
{
    struct st_hardware row = {0};
    struct td_hw hw = {0};
    uint64_t generation;
    bool hit;
    int rc;

    pthread_mutex_lock(&c->mu);
    hit = find_locked(c, name, out);
    generation = c->generation;
    pthread_mutex_unlock(&c->mu);
    if (hit)
        return 0;

    pthread_mutex_lock(&c->load_mu);
    rc = td_hardware_find(c->reader, name, &row, e);
    pthread_mutex_unlock(&c->load_mu);
    if (rc != 0)
        return rc;
    hw.id = row.id;
    memcpy(hw.name, row.name, sizeof hw.name);
    memcpy(hw.family, row.family, sizeof hw.family);
    td_hardware_feat(&row, &hw.feat);
    st_hardware_clear(&row);

    pthread_mutex_lock(&c->mu);
    if (generation == c->generation)
        keep_locked(c, &hw);
    pthread_mutex_unlock(&c->mu);
    *out = hw;
    return 0;
}

void td_hwcache_drop(struct td_hwcache *c, const char *name)
{
    struct entry **link;

    pthread_mutex_lock(&c->mu);
    c->generation++;
    for (link = &c->bucket[bucket_of(name)]; *link != NULL; link = &(*link)->next) {
        if (strcmp((*link)->hw.name, name) == 0) {
            struct entry *x = *link;

            *link = x->next;
            free(x);
            c->n--;
            break;
        }
    }
    pthread_mutex_unlock(&c->mu);
}
