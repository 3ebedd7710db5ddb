/* A tcld process of one's own: start it, know when it serves, stop it, and never leave it behind.
 *
 * Invariant: a daemon that is not detached dies with the thread that started it (PR_SET_PDEATHSIG), whatever way that
 * ends, so start it from a thread that lives as long as it is needed. Everything the child needs is built before
 * fork(): between fork and exec only async-signal-safe calls are made. */
#include "clients/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGS = 64, MAX_OUTPUT = 1 << 20 };
static const double POLL_SECONDS = 0.004;

struct tc_daemon {
    pid_t pid;
    int status; /* as tc_daemon_wait() gives it; -1 while it runs */
    int port;
    bool detached;
    char *base, *log, *port_file;
};

/* ---- processes ---- */

static int exit_code(int raw)
{
    return WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
}

/* environ with `extra` in front, so that getenv() finds ours first; only the array is owned. */
static char **make_env(const char *const *extra)
{
    size_t n = 0, more = 0;
    while (environ[n])
        n++;
    while (extra && extra[more])
        more++;
    char **env = calloc(n + more + 1, sizeof *env);
    if (!env)
        return NULL;
    for (size_t i = 0; i < more; i++)
        env[i] = (char *)(uintptr_t)extra[i];
    for (size_t i = 0, to = more; i < n; i++) {
        bool ours = false;
        for (size_t k = 0; k < more && !ours; k++) {
            size_t len = strcspn(extra[k], "=") + 1;
            ours = !strncmp(environ[i], extra[k], len);
        }
        if (!ours)
            env[to++] = environ[i];
    }
    return env;
}

/* Fork and exec; in[0..2] become stdin, stdout, stderr. The pid, or -1 with errno. */
static pid_t spawn(char *const argv[], char *const env[], const int fd[3], bool detach)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    if (detach) {
        setsid();
    } else {
        setpgid(0, 0); /* the terminal's Ctrl-C is for us, who then stop it in order */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(127);
    }
    for (int i = 0; i < 3; i++)
        if (dup2(fd[i], i) < 0)
            _exit(127);
    close_range(3, ~0U, 0);
    for (int sig = 1; sig < 32; sig++)
        signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(argv[0], argv, env);
    dprintf(2, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static int wait_until(pid_t pid, double until)
{
    for (;;) {
        int raw;
        pid_t got = waitpid(pid, &raw, WNOHANG);
        if (got == pid)
            return exit_code(raw);
        if (got < 0 && errno != EINTR)
            return 255; /* not our child any more */
        if (tc_now() >= until)
            return -1;
        tc_sleep(POLL_SECONDS);
    }
}

/* Move what a pipe holds; false at its end. Beyond the limit bytes are dropped, so that the child never blocks. */
static bool drain(int fd, struct tp_buf *to)
{
    char chunk[4096];
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n > 0 && to && to->n < MAX_OUTPUT)
        tp_buf_put(to, chunk, (size_t)n);
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

int tc_run(const char *const *argv, const char *const *env, double seconds, struct tp_buf *out, struct tp_buf *err,
           struct tc_err *e)
{
    int rc = -1, null = -1, pipes[2][2] = {{-1, -1}, {-1, -1}};
    pid_t pid = -1;
    char **full = make_env(env);
    double until = tc_now() + seconds;

    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (!full || null < 0 || pipe2(pipes[0], O_CLOEXEC) || pipe2(pipes[1], O_CLOEXEC)) {
        tc_fail(e, "cannot prepare to run %s: %s", argv[0], strerror(errno));
        goto done;
    }
    pid = spawn((char *const *)(uintptr_t)argv, full, (int[]){null, pipes[0][1], pipes[1][1]}, false);
    if (pid < 0) {
        tc_fail(e, "cannot fork: %s", strerror(errno));
        goto done;
    }
    for (int i = 0; i < 2; i++) {
        close(pipes[i][1]);
        pipes[i][1] = -1;
    }
    struct pollfd p[2] = {{.fd = pipes[0][0], .events = POLLIN}, {.fd = pipes[1][0], .events = POLLIN}};
    while ((p[0].fd >= 0 || p[1].fd >= 0) && tc_now() < until) {
        if (poll(p, 2, 50) <= 0)
            continue;
        for (int i = 0; i < 2; i++)
            if (p[i].fd >= 0 && p[i].revents && !drain(p[i].fd, i ? err : out))
                p[i].fd = -1;
    }
    rc = wait_until(pid, until);
    if (rc < 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        tc_fail(e, "%s has not ended within %.0f s", argv[0], seconds);
    }
    if (out)
        tp_buf_putc(out, '\0'), out->n -= !out->oom;
    if (err)
        tp_buf_putc(err, '\0'), err->n -= !err->oom;
done:
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            if (pipes[i][k] >= 0)
                close(pipes[i][k]);
    if (null >= 0)
        close(null);
    free(full);
    return rc;
}

/* ---- the daemon ---- */

/* The last lines of its log, for error texts. */
static void last_words(const char *path, char *buf, size_t n)
{
    struct tp_buf b = {0};
    buf[0] = '\0';
    if (!tc_read_file(path, &b, NULL)) {
        size_t from = b.n > n - 1 ? b.n - (n - 1) : 0;
        while (from && from < b.n && b.p[from - 1] != '\n')
            from++;
        size_t len = b.n - from;
        while (len && b.p[from + len - 1] == '\n')
            len--;
        snprintf(buf, n, "%.*s", (int)len, b.p + from);
    }
    tp_buf_free(&b);
}

static int read_port(const char *path)
{
    char text[16];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return -1;
    text[n] = '\0';
    char *end;
    long port = strtol(text, &end, 10);
    return end != text && *end == '\n' && port >= 0 && port <= 65535 ? (int)port : -1;
}

static int is_ready(struct tc_daemon *d)
{
    struct tc_reply r = {0};
    struct tc_http *h = tc_http_new(d->base, NULL);
    if (!h)
        return 0;
    tc_http_timeout(h, 5);
    int ok = !tc_call(h, &(struct tc_request){.path = "/readyz"}, &r, NULL) && r.status == 200;
    tc_reply_free(&r);
    tc_http_free(h);
    return ok;
}

static int wait_ready(struct tc_daemon *d, const char *listen, double seconds, struct tc_err *e)
{
    char words[700];
    bool is_unix = !strncmp(listen, "unix:", 5);
    double until = tc_now() + seconds;
    if (is_unix && !(d->base = strdup(listen)))
        return tc_fail(e, "out of memory");
    while (tc_now() < until) {
        if (!tc_daemon_running(d)) {
            last_words(d->log, words, sizeof words);
            return tc_fail(e, "tcld ended with status %d before it was ready. Its last words: %s", d->status, words);
        }
        if (!d->base && (d->port = read_port(d->port_file)) > 0) {
            const char *colon = strrchr(listen, ':');
            if (asprintf(&d->base, "http://%.*s:%d", (int)(colon ? colon - listen : 0), listen, d->port) < 0) {
                d->base = NULL;
                return tc_fail(e, "out of memory");
            }
        }
        if (d->base && is_ready(d))
            return 0;
        tc_sleep(POLL_SECONDS);
    }
    last_words(d->log, words, sizeof words);
    return tc_fail(e, "tcld is not ready after %.0f s. Its last words: %s", seconds, words);
}

static int launch(struct tc_daemon *d, const struct tc_daemon_opts *o, const char *listen, struct tc_err *e)
{
    int rc = -1, null = -1, log = -1;
    char *argv[MAX_ARGS];
    char **env = make_env(o->env);
    int n = 0;
    const char *const fixed[] = {o->binary,    "--listen",    listen,      "--port-file",
                                 d->port_file, "--state-dir", o->state_dir};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        argv[n++] = (char *)(uintptr_t)fixed[i];
    for (const char *const *p = o->args; p && *p && n < MAX_ARGS - 1; p++)
        argv[n++] = (char *)(uintptr_t)*p;
    argv[n] = NULL;

    if (access(o->binary, X_OK)) {
        tc_fail(e, "cannot run %s: %s. Build it with `make` or name another with --tcld", o->binary, strerror(errno));
        goto out;
    }
    unlink(d->port_file);
    null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    log = open(d->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (!env || null < 0 || log < 0) {
        tc_fail(e, "cannot write the log %s: %s", d->log, strerror(errno));
        goto out;
    }
    d->pid = spawn(argv, env, (int[]){null, log, log}, o->detach);
    if (d->pid < 0) {
        tc_fail(e, "cannot fork: %s", strerror(errno));
        goto out;
    }
    d->status = -1;
    rc = 0;
out:
    if (null >= 0)
        close(null);
    if (log >= 0)
        close(log);
    free(env);
    return rc;
}

int tc_daemon_start(const struct tc_daemon_opts *o, struct tc_daemon **out, struct tc_err *e)
{
    const char *listen = o->listen ? o->listen : "127.0.0.1:0";
    struct tc_daemon *d = calloc(1, sizeof *d);
    if (!d)
        return tc_fail(e, "out of memory");
    d->pid = -1;
    d->status = 255;
    if ((o->log ? asprintf(&d->log, "%s", o->log) : asprintf(&d->log, "%s.log", o->state_dir)) < 0) {
        d->log = NULL;
        goto no_memory;
    }
    if (asprintf(&d->port_file, "%s.port", o->state_dir) < 0) {
        d->port_file = NULL;
        goto no_memory;
    }
    if (launch(d, o, listen, e) || wait_ready(d, listen, o->ready_seconds > 0 ? o->ready_seconds : 30, e)) {
        tc_daemon_free(d);
        return -1;
    }
    d->detached = o->detach; /* only from now on: one that is not ready is ours to stop */
    *out = d;
    return 0;
no_memory:
    tc_daemon_free(d);
    return tc_fail(e, "out of memory");
}

const char *tc_daemon_base(const struct tc_daemon *d)
{
    return d->base;
}

int tc_daemon_port(const struct tc_daemon *d)
{
    return d->port;
}

pid_t tc_daemon_pid(const struct tc_daemon *d)
{
    return d->pid;
}

const char *tc_daemon_log(const struct tc_daemon *d)
{
    return d->log;
}

bool tc_daemon_running(struct tc_daemon *d)
{
    return tc_daemon_wait(d, 0) < 0;
}

void tc_daemon_signal(struct tc_daemon *d, int sig)
{
    if (d->status < 0)
        kill(d->pid, sig);
}

int tc_daemon_wait(struct tc_daemon *d, double seconds)
{
    if (d->status < 0)
        d->status = wait_until(d->pid, tc_now() + seconds);
    return d->status;
}

int tc_daemon_stop(struct tc_daemon *d, double seconds)
{
    tc_daemon_signal(d, SIGTERM);
    if (tc_daemon_wait(d, seconds) < 0) {
        tc_daemon_signal(d, SIGKILL);
        tc_daemon_wait(d, 60);
    }
    return d->status;
}

void tc_daemon_free(struct tc_daemon *d)
{
    if (!d)
        return;
    if (!d->detached && d->pid > 0)
        tc_daemon_stop(d, 10);
    if (d->port_file && !d->detached)
        unlink(d->port_file);
    free(d->base);
    free(d->log);
    free(d->port_file);
    free(d);
}
