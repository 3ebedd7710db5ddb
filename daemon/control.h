/* The control loop (libuv, main thread): signals, timers, watchdog, reload, drain. */
#ifndef TD_CONTROL_H
#define TD_CONTROL_H

#include "daemon/daemon.h"

struct td_control;
/* Installs the signal handlers, so that a SIGTERM during a long start is kept until td_control_run. */
int td_control_new(struct td_daemon *d, struct td_control **out, struct tp_err *e);
/* Runs until the drain that SIGTERM or SIGINT began is over. 0: every request was replied to; 1: some did not come to
 * an end in time and must not be waited for. */
int td_control_run(struct td_control *c);
void td_control_free(struct td_control *c);

#endif
