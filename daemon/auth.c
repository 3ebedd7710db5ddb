/* Who a request comes from and what it may do.
 *
 * Invariant: a refusal tells what is missing, never what would have been right, and takes the same way whether a token
 * is unknown, malformed or absent. Nothing here keeps or logs a token. */
#include "daemon/auth.h"

#include <arpa/inet.h>
#include <grp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PEERS_MAX = 64, GROUPS_MAX = 256 };

struct rule {
    bool group;
    id_t id;
    enum td_role role;
};

struct td_auth {
    struct td_tokens *tokens;
    bool insecure;        /* beyond loopback without tokens: the network is trusted, whatever its names */
    pthread_mutex_t lock; /* guards what follows */
    bool tokens_on;
    int n_rules; /* -1: no unix_peers */
    struct rule rule[PEERS_MAX];
};

/* ---- peers ---- */

void td_peer_of(int fd, struct td_peer *p)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof sa;
    struct ucred cred;
    socklen_t m = sizeof cred;

    memset(p, 0, sizeof *p);
    p->fd = fd;
    if (getpeername(fd, (struct sockaddr *)&sa, &len) != 0)
        return;
    if (sa.ss_family == AF_UNIX) {
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &m) != 0)
            return;
        p->local = true;
        p->uid = cred.uid;
        p->gid = cred.gid;
        snprintf(p->text, sizeof p->text, "uid:%lu", (unsigned long)cred.uid);
    } else if (sa.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&sa;
        p->addr[10] = p->addr[11] = 0xff;
        memcpy(p->addr + 12, &v4->sin_addr, 4);
        inet_ntop(AF_INET, &v4->sin_addr, p->text, sizeof p->text);
    } else if (sa.ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&sa;
        memcpy(p->addr, &v6->sin6_addr, 16);
        inet_ntop(AF_INET6, &v6->sin6_addr, p->text, sizeof p->text);
    }
}

static int parse_peer(const char *s, size_t n, struct rule *r, struct tp_err *e)
{
    const char *eq = memchr(s, '=', n);
    char name[64];
    size_t len = eq ? (size_t)(eq - s) : 0;
    int role = eq ? td_role_by_name(eq + 1, n - len - 1) : -1;

    r->group = *s == '@';
    s += r->group;
    len -= r->group && len;
    if (role < 0 || len == 0 || len >= sizeof name)
        return tp_fail(e, TP_E_CONFIG,
                       "accepted is USER=ROLE or @GROUP=ROLE, separated by commas; roles are predict, "
                       "measure and operate");
    memcpy(name, s, len);
    name[len] = '\0';
    r->role = (enum td_role)role;
    const struct passwd *pw = r->group ? NULL : getpwnam(name);
    const struct group *gr = r->group ? getgrnam(name) : NULL;
    char *end;
    unsigned long id = strtoul(name, &end, 10);
    if (pw)
        r->id = pw->pw_uid;
    else if (gr)
        r->id = gr->gr_gid;
    else if (name[0] >= '0' && name[0] <= '9' && !*end && id < UINT32_MAX)
        r->id = (id_t)id;
    else
        return tp_fail(e, TP_E_CONFIG, "there is no %s \"%s\"", r->group ? "group" : "user", name);
    return 0;
}

static int parse_peers(const char *text, struct rule *rule, int *n, struct tp_err *e)
{
    *n = *text ? 0 : -1;
    while (*text) {
        size_t len;
        int rc;

        text += strspn(text, " ,");
        len = strcspn(text, " ,");
        if (!len)
            break;
        if (*n == PEERS_MAX)
            return tp_fail(e, TP_E_CONFIG, "more than %d users and groups", PEERS_MAX);
        if ((rc = parse_peer(text, len, &rule[(*n)++], e)) != 0)
            return rc;
        text += len;
    }
    return 0;
}

int td_auth_check_peers(const char *text, struct tp_err *e)
{
    struct rule rule[PEERS_MAX];
    int n;

    return parse_peers(text, rule, &n, e);
}

static bool in_group(const struct td_peer *p, gid_t gid)
{
    gid_t groups[GROUPS_MAX];
    socklen_t n = sizeof groups;

    if (p->gid == gid)
        return true;
    if (getsockopt(p->fd, SOL_SOCKET, SO_PEERGROUPS, groups, &n) != 0)
        return false;
    for (size_t i = 0; i < n / sizeof *groups; i++)
        if (groups[i] == gid)
            return true;
    return false;
}

/* The highest role that a rule gives. */
static enum td_role role_of_peer_locked(const struct td_auth *a, const struct td_peer *p)
{
    enum td_role best = TD_ROLE_NONE;

    if (p->uid == 0 || p->uid == geteuid())
        return TD_ROLE_OPERATE;
    for (int i = 0; i < a->n_rules; i++) {
        const struct rule *r = &a->rule[i];
        if (r->role > best && (r->group ? in_group(p, (gid_t)r->id) : p->uid == (uid_t)r->id))
            best = r->role;
    }
    return best;
}

/* ---- life ---- */

int td_auth_reload(struct td_auth *a, const struct td_config *c, struct tp_err *e)
{
    struct rule rule[PEERS_MAX];
    struct tp_err why;
    int n, rc = parse_peers(c->unix_peers, rule, &n, &why);

    if (rc)
        return tp_fail(e, why.code, "unix_peers: %.200s", why.detail);
    if (*c->tokens_file && (rc = td_tokens_load(a->tokens, c->tokens_file, e)) != 0)
        return rc;
    pthread_mutex_lock(&a->lock);
    a->tokens_on = *c->tokens_file != '\0';
    a->n_rules = n;
    memcpy(a->rule, rule, sizeof rule);
    pthread_mutex_unlock(&a->lock);
    return 0;
}

int td_auth_new(const struct td_config *c, struct td_auth **out, struct tp_err *e)
{
    struct td_auth *a = calloc(1, sizeof *a);
    int rc;

    if (!a || !(a->tokens = td_tokens_new())) {
        free(a);
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory");
    }
    a->insecure = c->insecure;
    pthread_mutex_init(&a->lock, NULL);
    if ((rc = td_auth_reload(a, c, e)) != 0) {
        td_auth_free(a);
        return rc;
    }
    *out = a;
    return 0;
}

void td_auth_free(struct td_auth *a)
{
    if (!a)
        return;
    td_tokens_free(a->tokens);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* ---- requests ---- */

static const char *bearer(const char *authorization)
{
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return NULL;
    return authorization + 7 + strspn(authorization + 7, " ");
}

/* "http://host:port" of the Origin is the Host? */
static bool same_host(const char *origin, const char *host)
{
    const char *at = strstr(origin, "://");

    return at && host && strcasecmp(at + 3, host) == 0;
}

/* An address or localhost, with or without a port: what no name server can make of another name. */
static bool fixed_host(const char *host)
{
    char name[INET6_ADDRSTRLEN + 3];
    struct in_addr v4;
    size_t n = host[0] == '[' ? strcspn(host, "]") : strcspn(host, ":");

    if (n >= sizeof name)
        return false;
    memcpy(name, host, n);
    name[n] = '\0';
    return name[0] == '[' || strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &v4) == 1;
}

static int by_token(struct td_auth *a, const char *given, int64_t now_us, enum td_role need, struct td_grant *g,
                    int *wait_s, struct tp_err *e)
{
    struct td_token *k = td_tokens_find(a->tokens, given ? given : "", given ? strlen(given) : 0);
    char name[TD_TOKEN_NAME_MAX + 1];
    int rc;

    if (!k)
        return tp_fail(e, TP_E_UNAUTHORIZED, "give a token that is known here as Authorization: Bearer TOKEN");
    td_token_name(k, name);
    snprintf(g->who, sizeof g->who, "token:%s", name);
    g->role = td_token_role(k);
    if (g->role < need)
        rc = tp_fail(e, TP_E_FORBIDDEN, "this needs the role %s; the token's is %s", td_role_name(need),
                     td_role_name(g->role));
    else
        rc = td_token_take(k, now_us, wait_s, e);
    if (rc)
        td_token_release(k);
    else
        g->token = k;
    return rc;
}

int td_auth_check(struct td_auth *a, const struct td_credentials *c, int64_t now_us, struct td_grant *g, int *wait_s,
                  struct tp_err *e)
{
    const char *given = bearer(c->authorization);
    bool local = c->peer && c->peer->local, tokens_on, peers_on;
    enum td_role role = TD_ROLE_NONE;

    memset(g, 0, sizeof *g);
    *wait_s = 0;
    pthread_mutex_lock(&a->lock);
    tokens_on = a->tokens_on;
    peers_on = local && (a->n_rules >= 0 || tokens_on);
    if (peers_on)
        role = role_of_peer_locked(a, c->peer);
    pthread_mutex_unlock(&a->lock);

    snprintf(g->who, sizeof g->who, "%s", local ? c->peer->text : "anyone");
    if (!tokens_on && !peers_on) {
        if (c->change && c->origin && !same_host(c->origin, c->host))
            return tp_fail(e, TP_E_FORBIDDEN, "web pages of other hosts may not change anything here");
        if (c->change && c->origin && !a->insecure && !fixed_host(c->host))
            return tp_fail(e, TP_E_FORBIDDEN,
                           "without tokens a web page may change something only by an address or as localhost: any "
                           "page could give this host a name of its own");
        g->role = TD_ROLE_OPERATE;
        return 0;
    }
    if (tokens_on && (given || role == TD_ROLE_NONE))
        return by_token(a, given, now_us, c->need, g, wait_s, e);
    g->role = role;
    if (role < c->need)
        return tp_fail(e, TP_E_FORBIDDEN, "this needs the role %s; your user's is %s", td_role_name(c->need),
                       td_role_name(role));
    return 0;
}

void td_auth_done(struct td_grant *g, size_t body_bytes)
{
    if (!g->token)
        return;
    td_token_done(g->token, body_bytes);
    td_token_release(g->token);
    g->token = NULL;
}
