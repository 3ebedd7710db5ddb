/* Threads that compute for long give way to those that somebody waits for. */
#ifndef TD_GIVEWAY_H
#define TD_GIVEWAY_H

#include <stdbool.h>

/* The calling thread, and every thread it starts from now on: `nice` is added to its niceness. batch: SCHED_BATCH too,
 * it never takes a core from others when it wakes. What the system does not allow is done without. */
void td_give_way(int nice, bool batch);

#endif
