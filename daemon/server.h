/* The HTTP side of the daemon: listeners, libmicrohttpd's threads, connections, drain. Start, drain and stop belong to
 * the control thread; the rest says its own.
 *
 * libmicrohttpd 0.9.75 runs with poll threads: its epoll mode stalls when one wake-up returns 128 events. At its own
 * connection limit it stops to accept without a word, so that limit lies above ours, and ours is answered with 503. */
#ifndef TD_SERVER_H
#define TD_SERVER_H

#include "daemon/daemon.h"

struct td_server;

/* Binds (or takes what systemd hands over), then serves at once. CONFIG, NO_MEMORY. d->config, pools and metrics must
 * be there. */
int td_server_new(struct td_daemon *d, struct td_server **out, struct tp_err *e);
/* Stops the threads. Every request must have been replied to: td_server_busy() == 0 after td_server_quiesce(). NULL is
 * fine. */
void td_server_free(struct td_server *s);

int td_server_port(const struct td_server *s);           /* of the first TCP listener, 0 none */
size_t td_server_connections(const struct td_server *s); /* any thread */
size_t td_server_body_bytes(const struct td_server *s);  /* memory of all request bodies; any thread */
/* Requests whose reply is not handed over yet, and those of them that wait suspended for a handler. Any thread. */
size_t td_server_busy(const struct td_server *s);
size_t td_server_suspended(const struct td_server *s);

/* Every second: close connections whose request is late, notice vanished readers of sleeping streams. */
void td_server_sweep(struct td_server *s);
void td_server_wake_streams(struct td_server *s); /* lets every sleeping stream send a sign of life */

/* Drain: no new connections, no new requests but health; sleeping streams end. Then, if it takes too long: cut every
 * connection. */
void td_server_quiesce(struct td_server *s);
void td_server_cut(struct td_server *s);

#endif
