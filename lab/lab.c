/* Cores and clocks. */
#include "lab/lab.h"

#include <sched.h>
#include <time.h>

int tl_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static double clock_now(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double tl_seconds(void)
{
    return clock_now(CLOCK_MONOTONIC);
}

double tl_cpu_seconds(void)
{
    return clock_now(CLOCK_PROCESS_CPUTIME_ID);
}
