/* Who a request comes from and what it may do: bearer tokens, peers of a unix socket, browsers.
 *
 * Without a tokens_file every request may do everything (the daemon then listens on loopback and unix sockets only,
 * or was told to be insecure), but for what a web page sends: one whose Origin is another host than its Host gets no
 * change done, nor, unless told to be insecure, one that calls the daemon by a name other than localhost (DNS
 rebinding). Over a unix socket the kernel says who the peer is: root and the daemon's own user may do everything,
 * others what unix_peers gives them. A token that is given is used in any case, so that it can also take rights away.
 */
#ifndef TD_AUTH_H
#define TD_AUTH_H

#include "daemon/config.h"
#include "daemon/tokens.h"

#include <sys/types.h>

enum { TD_PEER_MAX = 64, TD_WHO_MAX = 96 };

struct td_peer { /* of a connection */
    bool local;  /* a unix socket: the next two are known */
    uid_t uid;
    gid_t gid;
    int fd;                 /* the connection's, to ask for the peer's groups */
    char text[TD_PEER_MAX]; /* "192.0.2.7" or "uid:1000", for the log */
    unsigned char addr[16]; /* the address as IPv6; all zero for a unix socket */
};
/* Asks the kernel about the other end of fd. */
void td_peer_of(int fd, struct td_peer *p);

struct td_grant {
    enum td_role role;
    struct td_token *token; /* counts as in flight; NULL: no token */
    char who[TD_WHO_MAX];   /* "token:rack7", "uid:0", "anyone" */
};

struct td_auth;
/* Reads tokens_file and unix_peers. CONFIG, NO_MEMORY. */
int td_auth_new(const struct td_config *c, struct td_auth **out, struct tp_err *e);
void td_auth_free(struct td_auth *a);
/* Reads both again; on an error all stays as it was. Control thread. */
int td_auth_reload(struct td_auth *a, const struct td_config *c, struct tp_err *e);
/* Syntax of unix_peers: "NAME=ROLE, @GROUP=ROLE, ...". CONFIG. Names are looked up. */
int td_auth_check_peers(const char *text, struct tp_err *e);

struct td_credentials {
    const struct td_peer *peer; /* NULL: not known */
    const char *authorization;  /* header, NULL absent */
    const char *origin, *host;  /* headers */
    bool change;                /* the method changes something */
    enum td_role need;          /* of the route */
};
/* OK: *g is filled, and ended with td_auth_done. UNAUTHORIZED, FORBIDDEN, TOO_MANY (*wait_s: seconds until a quota is
 * free again). g->who is filled in any case. now_us: monotonic. Any thread. */
int td_auth_check(struct td_auth *a, const struct td_credentials *c, int64_t now_us, struct td_grant *g, int *wait_s,
                  struct tp_err *e);
void td_auth_done(struct td_grant *g, size_t body_bytes); /* once; a zeroed grant is fine */

#endif
