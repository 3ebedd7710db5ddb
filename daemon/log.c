/* Structured logs: rendering, and the one thread that writes to stderr.
 *
 * Invariant: no caller ever waits for stderr. Lines go into a ring of TD_LOG_QUEUE_MAX bytes; when it is full they are
 * counted instead. A line is written a few milliseconds after it was made, so that busy threads do not wake another one
 * for each. The thread polls before it writes and writes at most PIPE_BUF bytes, so that even a full pipe cannot
 * hold it and the daemon can always end. This file holds the program's only globals: a log is a property of the
 * process, as stderr is. */
#include "daemon/log.h"

#include "proto/err.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum { VALUE_MAX = 512, STOP_PATIENCE_MS = 1000, GATHER_MS = 5 };

/* by level, TD_AUDIT first */
static const char *const LEVEL[] = {"audit", "error", "warning", "info", "debug"};
static const char *const PRIORITY[] = {"<5>", "<3>", "<4>", "<6>", "<7>"};

static _Atomic int log_level = TD_INFO;
static _Atomic bool log_json;
static _Atomic bool log_journal;
static _Atomic uint64_t log_dropped;

static struct {
    pthread_mutex_t lock; /* guards what follows; innermost lock of the program */
    pthread_cond_t wake;
    char *ring;         /* TD_LOG_QUEUE_MAX bytes, NULL: lines are written at once */
    size_t head, count; /* first byte that waits, how many wait */
    uint64_t told;      /* dropped lines that were reported */
    bool stop;
    pthread_t thread;
} q = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

/* ---- rendering ---- */

struct line {
    char *p;
    size_t n;
};

static bool fits(const struct line *l, size_t n)
{
    return l->n + n + 4 <= TD_LOG_LINE_MAX; /* room for the end of the line is kept */
}

static void put(struct line *l, const char *s, size_t n)
{
    if (fits(l, n)) {
        memcpy(l->p + l->n, s, n);
        l->n += n;
    }
}

static void puts_(struct line *l, const char *s)
{
    put(l, s, strlen(s));
}

/* Length of the valid UTF-8 sequence at s, 0 when there is none. */
static size_t utf8(const unsigned char *s)
{
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        return (s[1] & 0xc0) == 0x80 ? 2 : 0;
    if ((s[0] & 0xf0) == 0xe0) {
        unsigned char lo = s[0] == 0xe0 ? 0xa0 : 0x80, hi = s[0] == 0xed ? 0x9f : 0xbf;
        return s[1] >= lo && s[1] <= hi && (s[2] & 0xc0) == 0x80 ? 3 : 0;
    }
    if (s[0] >= 0xf0 && s[0] <= 0xf4) {
        unsigned char lo = s[0] == 0xf0 ? 0x90 : 0x80, hi = s[0] == 0xf4 ? 0x8f : 0xbf;
        return s[1] >= lo && s[1] <= hi && (s[2] & 0xc0) == 0x80 && (s[3] & 0xc0) == 0x80 ? 4 : 0;
    }
    return 0;
}

/* A quoted string; JSON's escapes serve logfmt as well. Control bytes and broken UTF-8 never reach a terminal. */
static void put_quoted(struct line *l, const char *s)
{
    static const char hex[] = "0123456789abcdef";
    const unsigned char *u = (const unsigned char *)s;
    size_t used = 0;

    puts_(l, "\"");
    while (*u && used < VALUE_MAX && fits(l, 8)) {
        size_t n = utf8(u);
        if (n == 0) {
            puts_(l, "\xef\xbf\xbd");
            n = 1;
        } else if (*u == '"' || *u == '\\') {
            char esc[2] = {'\\', (char)*u};
            put(l, esc, 2);
        } else if (*u == '\n' || *u == '\t' || *u == '\r') {
            puts_(l, *u == '\n' ? "\\n" : *u == '\t' ? "\\t" : "\\r");
        } else if (*u < 0x20 || *u == 0x7f) {
            char esc[6] = {'\\', 'u', '0', '0', hex[*u >> 4], hex[*u & 15]};
            put(l, esc, 6);
        } else {
            put(l, (const char *)u, n);
        }
        u += n;
        used += n;
    }
    if (*u)
        puts_(l, "\xe2\x80\xa6"); /* cut */
    puts_(l, "\"");
}

static bool bare(const char *s)
{
    size_t n = 0;
    for (; s[n]; n++)
        if (s[n] <= ' ' || s[n] >= 0x7f || s[n] == '"' || s[n] == '=' || s[n] == '\\' || n >= VALUE_MAX)
            return false;
    return n > 0;
}

static void put_key(struct line *l, bool json, const char *key)
{
    if (l->n > 1)
        puts_(l, json ? "," : " ");
    if (json)
        puts_(l, "\"");
    puts_(l, key);
    puts_(l, json ? "\":" : "=");
}

static void put_str(struct line *l, bool json, const char *key, const char *s)
{
    put_key(l, json, key);
    if (!json && bare(s))
        puts_(l, s);
    else
        put_quoted(l, s);
}

static void put_field(struct line *l, bool json, const struct td_field *f)
{
    char text[48];

    if (!f->key || (f->type == TD_FIELD_STR && !f->str) || !fits(l, strlen(f->key) + 80))
        return;
    switch (f->type) {
    case TD_FIELD_STR:
        put_str(l, json, f->key, f->str);
        break;
    case TD_FIELD_INT:
        put_key(l, json, f->key);
        snprintf(text, sizeof text, "%lld", (long long)f->i);
        puts_(l, text);
        break;
    case TD_FIELD_NUM:
        put_key(l, json, f->key);
        if (isfinite(f->num) && fabs(f->num) < 1e15)
            snprintf(text, sizeof text, "%.3f", f->num);
        else
            snprintf(text, sizeof text, "%s", json ? "null" : "nan");
        puts_(l, text);
        break;
    }
}

static void put_time(struct line *l, bool json, int64_t ts)
{
    static _Thread_local time_t second = -1; /* gmtime once per second and thread */
    static _Thread_local char date[40];
    time_t s = (time_t)(ts / 1000000);
    char text[64];

    if (s != second) {
        struct tm tm;
        gmtime_r(&s, &tm);
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
        second = s;
    }
    snprintf(text, sizeof text, "%s.%03dZ", date, (int)(ts / 1000 % 1000));
    put_str(l, json, "ts", text);
}

size_t td_log_render(char out[TD_LOG_LINE_MAX], bool json, enum td_level level, int64_t ts, const char *event,
                     const struct td_field *f, size_t n)
{
    struct line l = {.p = out};

    if (json)
        puts_(&l, "{");
    put_time(&l, json, ts);
    put_str(&l, json, "level", LEVEL[level - TD_AUDIT]);
    put_str(&l, json, "event", event);
    for (size_t i = 0; i < n; i++)
        put_field(&l, json, &f[i]);
    if (json)
        out[l.n++] = '}';
    out[l.n++] = '\n';
    return l.n;
}

/* ---- writing ---- */

/* For the time without the thread: what cannot be written soon is lost. */
static void write_now(const char *p, size_t n)
{
    while (n > 0) {
        struct pollfd pfd = {.fd = STDERR_FILENO, .events = POLLOUT};
        if (poll(&pfd, 1, STOP_PATIENCE_MS) <= 0 || !(pfd.revents & POLLOUT))
            return;
        ssize_t w = write(STDERR_FILENO, p, n < PIPE_BUF ? n : PIPE_BUF);
        if (w < 0 && errno != EINTR && errno != EAGAIN)
            return;
        if (w > 0) {
            p += w;
            n -= (size_t)w;
        }
    }
}

/* Returns whether the thread sleeps and must be woken. */
static bool enqueue_locked(const char *p, size_t n)
{
    if (q.count + n > TD_LOG_QUEUE_MAX) {
        atomic_fetch_add_explicit(&log_dropped, 1, memory_order_relaxed);
        return false;
    }
    size_t at = (q.head + q.count) % TD_LOG_QUEUE_MAX, first = TD_LOG_QUEUE_MAX - at < n ? TD_LOG_QUEUE_MAX - at : n;
    memcpy(q.ring + at, p, first);
    memcpy(q.ring, p + first, n - first);
    q.count += n;
    return q.count == n;
}

static size_t finish(char *out, bool journal, enum td_level level, const char *event, const struct td_field *f,
                     size_t n)
{
    struct timespec t;
    size_t prefix = 0;

    clock_gettime(CLOCK_REALTIME, &t);
    if (journal) {
        memcpy(out, PRIORITY[level - TD_AUDIT], 3);
        prefix = 3;
    }
    return prefix + td_log_render(out + prefix, atomic_load_explicit(&log_json, memory_order_relaxed), level,
                                  (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000, event, f, n);
}

void td_log_fields(enum td_level level, const char *event, const struct td_field *f, size_t n)
{
    char line[TD_LOG_LINE_MAX + 4];

    if (!td_log_on(level))
        return;
    size_t len = finish(line, atomic_load_explicit(&log_journal, memory_order_relaxed), level, event, f, n);
    pthread_mutex_lock(&q.lock);
    if (q.ring) {
        bool wake = enqueue_locked(line, len);
        pthread_mutex_unlock(&q.lock);
        if (wake)
            pthread_cond_signal(&q.wake);
    } else {
        pthread_mutex_unlock(&q.lock);
        write_now(line, len);
    }
}

/* Tell of dropped lines as soon as there is room again. */
static void tell_dropped_locked(void)
{
    char line[TD_LOG_LINE_MAX + 4];
    uint64_t d = td_log_dropped();

    if (d == q.told || q.count > TD_LOG_QUEUE_MAX / 2)
        return;
    const struct td_field f = TD_I("lines", d - q.told);
    enqueue_locked(line, finish(line, atomic_load(&log_journal), TD_WARNING, "log-dropped", &f, 1));
    q.told = d;
}

static void *run(void *arg)
{
    (void)arg;
    pthread_setname_np(pthread_self(), "tcld-log");
    pthread_mutex_lock(&q.lock);
    for (;;) {
        if (q.count == 0 && !q.stop) {
            while (q.count == 0 && !q.stop)
                pthread_cond_wait(&q.wake, &q.lock);
            pthread_mutex_unlock(&q.lock);
            poll(NULL, 0, GATHER_MS); /* the lines of many requests, for one wake-up */
            pthread_mutex_lock(&q.lock);
        }
        if (q.count == 0)
            break;
        char *p = q.ring + q.head;
        size_t n = q.count;
        if (n > PIPE_BUF)
            n = PIPE_BUF;
        if (n > TD_LOG_QUEUE_MAX - q.head)
            n = TD_LOG_QUEUE_MAX - q.head;
        bool stopping = q.stop;
        pthread_mutex_unlock(&q.lock);

        /* the bytes stay counted while they are written, so nobody overwrites them */
        struct pollfd pfd = {.fd = STDERR_FILENO, .events = POLLOUT};
        int ready = poll(&pfd, 1, stopping ? STOP_PATIENCE_MS : 200);
        ssize_t w = ready > 0 && (pfd.revents & POLLOUT) ? write(STDERR_FILENO, p, n) : 0;
        bool broken = (ready > 0 && !(pfd.revents & POLLOUT)) || (w < 0 && errno != EINTR && errno != EAGAIN);

        pthread_mutex_lock(&q.lock);
        if (broken || (stopping && w <= 0))
            w = (ssize_t)q.count; /* nobody will ever read it */
        if (w > 0) {
            q.head = (q.head + (size_t)w) % TD_LOG_QUEUE_MAX;
            q.count -= (size_t)w;
        }
        tell_dropped_locked();
    }
    pthread_mutex_unlock(&q.lock);
    return NULL;
}

/* systemd sets JOURNAL_STREAM=device:inode; the variable is inherited by shells, so only a stderr that is that very
 * socket counts. */
static bool stderr_is_journal(void)
{
    const char *s = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;

    return s && sscanf(s, "%llu:%llu", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev &&
           st.st_ino == ino;
}

int td_log_start(void)
{
    char *ring = malloc(TD_LOG_QUEUE_MAX);

    atomic_store(&log_journal, stderr_is_journal());
    if (!ring)
        return -TP_E_NO_MEMORY;
    pthread_mutex_lock(&q.lock);
    q.ring = ring;
    q.head = q.count = 0;
    q.stop = false;
    int rc = pthread_create(&q.thread, NULL, run, NULL);
    if (rc != 0)
        q.ring = NULL;
    pthread_mutex_unlock(&q.lock);
    if (rc != 0)
        free(ring);
    return rc == 0 ? 0 : -TP_E_NO_MEMORY;
}

void td_log_stop(void)
{
    pthread_mutex_lock(&q.lock);
    if (!q.ring) {
        pthread_mutex_unlock(&q.lock);
        return;
    }
    q.stop = true;
    pthread_cond_signal(&q.wake);
    pthread_mutex_unlock(&q.lock);
    pthread_join(q.thread, NULL);

    pthread_mutex_lock(&q.lock);
    char *ring = q.ring;
    q.ring = NULL;
    pthread_mutex_unlock(&q.lock);
    free(ring);
}

/* ---- settings ---- */

bool td_log_on(enum td_level level)
{
    return (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

void td_log_level(enum td_level level)
{
    atomic_store_explicit(&log_level, (int)level, memory_order_relaxed);
}

int td_log_level_by_name(const char *name)
{
    for (int i = TD_ERROR; i <= TD_DEBUG; i++)
        if (strcmp(name, LEVEL[i - TD_AUDIT]) == 0)
            return i;
    return -1;
}

void td_log_format(bool json)
{
    atomic_store_explicit(&log_json, json, memory_order_relaxed);
}

bool td_log_format_by_name(const char *name, bool *json)
{
    if (strcmp(name, "json") != 0 && strcmp(name, "logfmt") != 0)
        return false;
    *json = name[0] == 'j';
    return true;
}

uint64_t td_log_dropped(void)
{
    return atomic_load_explicit(&log_dropped, memory_order_relaxed);
}
