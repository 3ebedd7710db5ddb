/* systemd's notification protocol (sd_notify(3)) over a plain datagram socket. Does nothing when NOTIFY_SOCKET is not
 * set. Any thread. */
#ifndef TD_NOTIFY_H
#define TD_NOTIFY_H

#include <stdint.h>

void td_notify(const char *state);   /* "READY=1\nSTATUS=..." */
int64_t td_notify_watchdog_ms(void); /* how long systemd waits for WATCHDOG=1; 0: it does not */

#endif
