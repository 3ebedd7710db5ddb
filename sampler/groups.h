/* Who may be chosen how often: seats per task in proportion to its programs, then per cell within the task in
 * proportion to the square root of its programs. What is known has its seats already. Pure functions. */
#ifndef TS_GROUPS_H
#define TS_GROUPS_H

#include "sampler/select.h"

struct ts_groups {
    uint32_t *group; /* [n] of each program, < n_groups */
    size_t n_groups;
    uint64_t *key;   /* [n_groups] task << 32 | cell, ascending */
    uint32_t *seats; /* [n_groups]; the sum is the smaller of budget and candidates */
};

/* cell: [n], NULL = the task is one group. g is to be released with ts_groups_free() in any case. -TP_E_NO_MEMORY. */
int ts_groups_init(struct ts_groups *g, const struct ts_pool *p, const uint32_t *cell, size_t budget,
                   uint32_t task_floor, uint64_t seed);
void ts_groups_free(struct ts_groups *g);

#endif
