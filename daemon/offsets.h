/* Offsets of tasks as predictions need them: an immutable table by hardware and task, part of a snapshot. */
#ifndef TD_OFFSETS_H
#define TD_OFFSETS_H

#include "model/latency.h"
#include "store/store.h"

enum { TD_OFFSETS_MAX = 1 << 20 /* of one model; 40 bytes each */ };

struct td_offsets;
/* The offsets of one model as the store has them; *calibration is the one they belong to. *out is NULL when there are
 * none that count (fewer than TM_OFFSET_MIN programs behind each). */
int td_offsets_load(struct st_reader *r, int64_t model, struct td_offsets **out, int *calibration, struct tp_err *e);
/* What `old` (may be NULL) holds, with o[0..n) of hardware hw in place of what it has of those tasks. Sets *out, NULL
 * when nothing is in it. NO_MEMORY. */
int td_offsets_with(const struct td_offsets *old, int64_t hw, const struct st_offset *o, size_t n,
                    struct td_offsets **out, struct tp_err *e);
void td_offsets_free(struct td_offsets *t);
/* The task's offset on that hardware; n = 0: it has none. t may be NULL. */
struct tm_offset td_offsets_find(const struct td_offsets *t, int64_t hw, const char *task_id);
size_t td_offsets_count(const struct td_offsets *t); /* t may be NULL */

#endif
