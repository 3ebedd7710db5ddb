/* Scheduling of long computations. Stateless; each thread for itself. */
#include "daemon/giveway.h"

#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NICE_MAX = 19 };

void td_give_way(int nice, bool batch)
{
    id_t tid = (id_t)syscall(SYS_gettid);
    const struct sched_param none = {0};

    errno = 0;
    nice += getpriority(PRIO_PROCESS, tid);
    setpriority(PRIO_PROCESS, tid, nice < NICE_MAX ? nice : NICE_MAX);
    /* an operator who started us as something else knows why */
    if (batch && sched_getscheduler(0) == SCHED_OTHER)
        sched_setscheduler(0, SCHED_BATCH, &none);
}
