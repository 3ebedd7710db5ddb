/* Offsets of tasks kept up to date without training: as measurements come in, the active model of their hardware gets
 * new offsets for the tasks that need them. */
#ifndef TD_RECALIBRATE_H
#define TD_RECALIBRATE_H

#include "daemon/daemon.h"

enum {
    TD_RECAL_TASKS = 256,    /* tasks of one pass; the next pass goes on */
    TD_RECAL_PROGRAMS = 128, /* of a task, drawn by their hash: the median of more is not better by what anyone sees */
    TD_RECAL_MS = 1000       /* from the start of one pass to the start of the next */
};

struct td_recal;
/* Starts the thread, which first looks at all hardware. */
int td_recal_new(struct td_daemon *d, struct td_recal **out, struct tp_err *e);
/* The thread submits jobs, and jobs note hardware: it ends before the runner goes, the rest goes after it. From here on
 * notes are accepted and looked at by nobody. Main thread, as is the next. */
void td_recal_stop(struct td_recal *c);
void td_recal_free(struct td_recal *c);
/* Measurements of that hardware were stored, or another model answers for it. Any thread, never waits; c may be NULL.
 */
void td_recal_note(struct td_recal *c, const char *hardware);

/* Does a task with so many valid measurements need a new offset? When it has none (NULL) and TM_OFFSET_MIN
 * measurements, and whenever these have doubled since: so the number of offsets made of n measurements grows with
 * log n. */
bool td_recal_due(int64_t valid, const struct st_offset *have);
/* One pass over one hardware, on the calling thread. *tasks: offsets made; *more: there are more that are due. A
 * hardware that is gone or has no model is no error. `stop` may be NULL. */
int td_recal_pass(struct td_daemon *d, const char *hardware, const _Atomic bool *stop, int *tasks, bool *more,
                  struct tp_err *e);

#endif
