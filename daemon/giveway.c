/* Scheduling of long computations. Stateless; each thread for itself.
 *
 * Niceness alone decides how much of a core a thread gets, not when: since Linux 6.6 (EEVDF) a running thread keeps its
 * core up to a slice even when one with more weight wakes up, unless that one asks for shorter slices (6.12,
 * sched_setattr(2), sched_runtime). It is simpler to ask here for longer ones. Older kernels go by niceness. */
#include "daemon/giveway.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLICE_NS = 10 * 1000 * 1000, NICE_MAX = 19 };

struct attr { /* struct sched_attr of the kernel, first version */
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

void td_give_way(int nice, bool batch)
{
    id_t tid = (id_t)syscall(SYS_gettid);
    int policy = sched_getscheduler(0);
    const struct sched_param none = {0};
    struct attr a = {.size = sizeof a, .runtime = SLICE_NS};

    /* an operator who started us as something else than SCHED_OTHER knows why */
    if (batch && policy != SCHED_IDLE)
        policy = SCHED_BATCH;
    if (policy != SCHED_OTHER && policy != SCHED_BATCH && policy != SCHED_IDLE)
        return;
    errno = 0;
    nice += getpriority(PRIO_PROCESS, tid);
    a.policy = (uint32_t)policy;
    a.nice = nice < NICE_MAX ? nice : NICE_MAX;
    if (syscall(SYS_sched_setattr, tid, &a, 0) == 0)
        return;
    setpriority(PRIO_PROCESS, tid, a.nice);
    sched_setscheduler(0, policy, &none);
}
