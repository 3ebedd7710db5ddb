/* Listening sockets: addresses, binding, systemd's socket activation.
 *
 * Invariant: a td_listener that came out of a function that succeeded owns its fd; every failure leaves none open. */
#include "daemon/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_FD = 3 /* SD_LISTEN_FDS_START */, BACKLOG = 1024 };

static bool is_loopback(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_UNIX)
        return true;
    if (sa->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)sa)->sin_addr.s_addr) >> 24 == 127;
    if (sa->sa_family == AF_INET6) {
        const struct in6_addr *a = &((const struct sockaddr_in6 *)sa)->sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
    }
    return false;
}

static int parse_port(const char *s, in_port_t *out)
{
    unsigned long v = 0;
    size_t n = 0;

    for (; s[n] >= '0' && s[n] <= '9' && n < 6; n++)
        v = v * 10 + (unsigned long)(s[n] - '0');
    if (n == 0 || s[n] || v > 65535)
        return -1;
    *out = htons((in_port_t)v);
    return 0;
}

static int parse_unix(const char *path, struct td_addr *a, struct tp_err *e)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&a->sa;
    size_t n = strlen(path);

    if (n == 0 || n >= sizeof un->sun_path)
        return tp_fail(e, TP_E_CONFIG, "the path of a unix socket has 1 to %zu bytes", sizeof un->sun_path - 1);
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, n + 1);
    a->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    return 0;
}

int td_addr_parse(const char *text, struct td_addr *out, struct tp_err *e)
{
    struct td_addr a = {.len = 0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&a.sa;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&a.sa;
    const char *colon = strrchr(text, ':');
    char host[64];
    in_port_t port;
    bool bracket = text[0] == '[';
    int rc;

    if (strncmp(text, "unix:", 5) == 0) {
        if ((rc = parse_unix(text + 5, &a, e)) != 0)
            return rc;
        a.loopback = true;
        *out = a;
        return 0;
    }
    if (!colon || (size_t)(colon - text) >= sizeof host || parse_port(colon + 1, &port) != 0)
        goto bad;
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    if (bracket && colon - text >= 2 && colon[-1] == ']') {
        host[colon - text - 1] = '\0';
        if (inet_pton(AF_INET6, host + 1, &v6->sin6_addr) != 1)
            goto bad;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = port;
        a.len = sizeof *v6;
    } else {
        if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &v4->sin_addr) != 1)
            goto bad;
        v4->sin_family = AF_INET;
        v4->sin_port = port;
        a.len = sizeof *v4;
    }
    a.loopback = is_loopback((const struct sockaddr *)&a.sa);
    *out = a;
    return 0;
bad:
    return tp_fail(
        e, TP_E_CONFIG,
        "\"%.60s\" is no address; accepted are ADDR:PORT (127.0.0.1:8723), [ADDR]:PORT ([::1]:8723) and unix:PATH",
        text);
}

void td_addr_print(const struct sockaddr *sa, socklen_t len, char *buf, size_t n)
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)sa;
        inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
        snprintf(buf, n, "%s:%d", host, ntohs(v4->sin_port));
    } else if (sa->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sa;
        inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
        snprintf(buf, n, "[%s]:%d", host, ntohs(v6->sin6_port));
    } else if (sa->sa_family == AF_UNIX && len > offsetof(struct sockaddr_un, sun_path)) {
        snprintf(buf, n, "unix:%s", ((const struct sockaddr_un *)sa)->sun_path);
    } else {
        snprintf(buf, n, "unix:");
    }
}

void td_listener_init(struct td_listener *l)
{
    memset(l, 0, sizeof *l);
    l->fd = -1;
}

/* Fill port and address from the socket itself. */
static int describe(struct td_listener *l, struct td_addr *a)
{
    a->len = sizeof a->sa;
    memset(&a->sa, 0, sizeof a->sa);
    if (getsockname(l->fd, (struct sockaddr *)&a->sa, &a->len) != 0)
        return -1;
    a->loopback = is_loopback((struct sockaddr *)&a->sa);
    td_addr_print((struct sockaddr *)&a->sa, a->len, l->address, sizeof l->address);
    if (a->sa.ss_family == AF_INET)
        l->port = ntohs(((struct sockaddr_in *)&a->sa)->sin_port);
    else if (a->sa.ss_family == AF_INET6)
        l->port = ntohs(((struct sockaddr_in6 *)&a->sa)->sin6_port);
    return 0;
}

/* A socket file at which nobody listens is left over from a crash. */
static void remove_stale(const struct sockaddr_un *un)
{
    struct stat st;
    int fd = -1;

    if (lstat(un->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (connect(fd, (const struct sockaddr *)un, sizeof *un) != 0 && errno == ECONNREFUSED)
        unlink(un->sun_path);
    close(fd);
}

int td_listen(const char *text, struct td_listener *out, struct tp_err *e)
{
    struct td_addr a;
    struct td_listener l;
    const int one = 1;
    const char *step = "socket";
    int rc = td_addr_parse(text, &a, e);

    td_listener_init(&l);
    if (rc)
        return rc;
    const struct sockaddr_un *un = (const struct sockaddr_un *)&a.sa;
    bool local = a.sa.ss_family == AF_UNIX;
    l.fd = socket(a.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l.fd < 0)
        goto fail;
    if (local)
        remove_stale(un);
    else if (setsockopt(l.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0)
        goto fail;
    if (a.sa.ss_family == AF_INET6 && setsockopt(l.fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) != 0)
        goto fail;
    step = "bind";
    mode_t old = umask(0117); /* the socket's file is never reachable for others, not even for a moment */
    int bound = bind(l.fd, (const struct sockaddr *)&a.sa, a.len);
    umask(old);
    if (bound != 0)
        goto fail;
    struct stat st;
    if (local && lstat(un->sun_path, &st) == 0) {
        l.dev = st.st_dev;
        l.ino = st.st_ino;
    }
    step = "listen";
    if (listen(l.fd, BACKLOG) != 0 || describe(&l, &a) != 0)
        goto fail;
    *out = l;
    return 0;
fail:
    rc = tp_fail(e, TP_E_CONFIG, "cannot listen on %.100s: %s: %s", text, step, strerror(errno));
    if (l.fd >= 0)
        close(l.fd);
    return rc;
}

void td_listener_shut(struct td_listener *l)
{
    if (l->fd >= 0 && !l->inherited)
        shutdown(l->fd, SHUT_RDWR);
}

void td_listener_close(struct td_listener *l)
{
    struct stat st;

    if (!l || l->fd < 0)
        return;
    if (!l->inherited && l->ino && strncmp(l->address, "unix:", 5) == 0) {
        const char *path = l->address + 5;
        if (lstat(path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
            unlink(path);
    }
    close(l->fd);
    td_listener_init(l);
}

/* ---- systemd ---- */

/* The i-th of a colon-separated list is "health"? */
static bool named_health(const char *names, int i)
{
    while (names && i-- > 0) {
        names = strchr(names, ':');
        if (names)
            names++;
    }
    return names && strcspn(names, ":") == 6 && strncmp(names, "health", 6) == 0;
}

static int adopt(int fd, struct td_listener *l, bool trusted, struct tp_err *e)
{
    struct td_addr a;
    int type = 0, listening = 0;
    socklen_t n = sizeof type, m = sizeof listening;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) != 0 || type != SOCK_STREAM ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &m) != 0 || !listening)
        return tp_fail(e, TP_E_CONFIG, "descriptor %d from systemd is no listening stream socket", fd);
    l->fd = fd;
    l->inherited = true;
    if (describe(l, &a) != 0)
        return tp_fail(e, TP_E_CONFIG, "descriptor %d from systemd: %s", fd, strerror(errno));
    if (!a.loopback && !trusted)
        return tp_fail(e, TP_E_CONFIG,
                       "the socket unit listens on %.80s, which other machines can reach, and nothing would ask them "
                       "who they are. Give a tokens_file, use a loopback "
                       "address, or set insecure = true if the network is trusted.",
                       l->address);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return 0;
}

int td_listen_inherited(struct td_listener out[TD_LISTENERS_MAX], bool trusted, struct tp_err *e)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS"), *names = getenv("LISTEN_FDNAMES");
    int n, rc = 0;

    if (!pid || !fds || strtol(pid, NULL, 10) != (long)getpid())
        return 0;
    n = (int)strtol(fds, NULL, 10);
    if (n < 0 || n > TD_LISTENERS_MAX)
        return tp_fail(e, TP_E_CONFIG, "LISTEN_FDS: at most %d sockets", TD_LISTENERS_MAX);
    for (int i = 0; i < n && rc == 0; i++) {
        td_listener_init(&out[i]);
        rc = adopt(FIRST_FD + i, &out[i], trusted, e);
        out[i].health = named_health(names, i);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return rc ? rc : n;
}
