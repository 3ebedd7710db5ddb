/* Faults on demand: what the tests and the library that is preloaded into their daemons share.
 *
 * build/fault/shim.so stands before libc's calls on files below `path` and before the clock, and does what this block
 * of shared memory says at the moment of the call. All zero: nothing. */
#ifndef FAULT_H
#define FAULT_H

#include <stdatomic.h>

struct fault_control {
    _Atomic int write_errno, sync_errno, read_errno; /* the call fails with it; 0 does not */
    _Atomic int short_writes;                        /* not 0: a write takes half of its bytes, at least one */
    _Atomic int sync_ms;                             /* fsync takes so much longer */
    _Atomic long die_at;       /* n > 0: the n-th call that changes a file from now on is SIGKILL instead */
    _Atomic long changes;      /* calls that changed a file */
    _Atomic long long clock_s; /* is added to the wall clock */
    char path[256];            /* with a slash at its end */
};

#endif
