/* The monotonic clock, for what something took. Any thread. */
#ifndef TP_CLOCK_H
#define TP_CLOCK_H

#include <time.h>

static inline double tp_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
