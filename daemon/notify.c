/* sd_notify without libsystemd: one datagram per message. A message that cannot be sent is lost; systemd's timeouts
 * deal with that. */
#include "daemon/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void td_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t n = path ? strlen(path) : 0;
    int fd;

    if (n < 2 || n >= sizeof un.sun_path || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(un.sun_path, path, n);
    if (path[0] == '@')
        un.sun_path[0] = '\0'; /* abstract */
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&un,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    close(fd);
}

int64_t td_notify_watchdog_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    long long v = usec ? strtoll(usec, NULL, 10) : 0;

    if (v < 1000 || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    return v / 1000;
}
