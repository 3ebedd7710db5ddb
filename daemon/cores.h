/* How many cores this process may use: the smaller of its affinity mask and its cgroup's CPU quota (rounded up). At
 * least 1. */
#ifndef TD_CORES_H
#define TD_CORES_H

#include "daemon/daemon.h"

int td_cores(void);
/* The quota in a cgroup v2 cpu.max ("200000 100000" -> 2, "max 100000" -> 0 none), or of v1 by its two numbers as
 * "quota period". 0: no limit. */
int td_cores_of_quota(const char *text);
/* Fill in what the configuration leaves to us (0). */
void td_threads_resolve(const struct td_config *c, int cores, struct td_threads *out);

#endif
