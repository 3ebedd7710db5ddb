/* Listening sockets: addresses as text, binding, sockets handed over by systemd. One thread (start and stop of the
 * daemon). */
#ifndef TD_LISTEN_H
#define TD_LISTEN_H

#include "proto/err.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

struct td_addr {
    struct sockaddr_storage sa;
    socklen_t len;
    bool loopback; /* nobody outside this machine can connect: 127.0.0.0/8, ::1, unix */
};
/* ADDR:PORT, [ADDR]:PORT, localhost:PORT or unix:PATH. No names are looked up. CONFIG with what is accepted. */
int td_addr_parse(const char *text, struct td_addr *out, struct tp_err *e);
/* "127.0.0.1:8723", "[::1]:8723", "unix:/run/tcld.sock" */
void td_addr_print(const struct sockaddr *sa, socklen_t len, char *buf, size_t n);

struct td_listener {
    int fd;            /* -1 none */
    int port;          /* 0 for a unix socket */
    bool inherited;    /* from systemd: not to be shut down or removed */
    bool health;       /* serves health and metrics only */
    bool tls;          /* its connections are encrypted */
    char address[160]; /* as td_addr_print */
    dev_t dev;         /* of the unix socket's file, so that only our own is removed */
    ino_t ino;
};
void td_listener_init(struct td_listener *l); /* fd = -1 */
/* Binds and listens, not blocking, close-on-exec. A unix socket gets mode 0660; a stale one, at which nobody listens,
 * is replaced. */
int td_listen(const char *text, struct td_listener *out, struct tp_err *e);
/* No new connections, though the descriptor stays open (libmicrohttpd polls it until it stops). */
void td_listener_shut(struct td_listener *l);
void td_listener_close(struct td_listener *l); /* also removes the unix socket */

enum { TD_LISTENERS_MAX = 8 };
/* Sockets from systemd (LISTEN_PID, LISTEN_FDS; a name "health" in LISTEN_FDNAMES marks the second listener). Returns
 * their number, 0 none. CONFIG: too many, not a listening stream socket, or not loopback while !trusted (insecure, or
 * there are tokens). Clears the variables. */
int td_listen_inherited(struct td_listener out[TD_LISTENERS_MAX], bool trusted, struct tp_err *e);

#endif
