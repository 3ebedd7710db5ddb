/* Cores and clocks. */
#include "lab/lab.h"

#include "proto/clock.h"

#include <sched.h>

int tl_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

double tl_seconds(void)
{
    return tp_seconds();
}

double tl_cpu_seconds(void)
{
    return tp_clock(CLOCK_PROCESS_CPUTIME_ID);
}
