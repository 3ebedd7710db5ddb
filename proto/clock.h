/* Clocks in seconds, for what something took. Any thread. */
#ifndef TP_CLOCK_H
#define TP_CLOCK_H

#include <time.h>

static inline double tp_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double tp_seconds(void)
{
    return tp_clock(CLOCK_MONOTONIC);
}

#endif
