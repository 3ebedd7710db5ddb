/* Bearer tokens.
 *
 * Invariant: a td_token lives as long as the list or a request holds it; its role, name and quotas change only at a
 * reload, under the lock of the list, which every function here takes. The lock is held for a look-up of at most
 * TD_TOKENS_MAX hashes (some 30 µs). */
#include "daemon/tokens.h"

#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIGEST = SHA256_DIGEST_SIZE, WORDS_MAX = 8, RANDOM_BYTES = 32 };
static const char PREFIX[] = "tcld_";

static const char *const ROLE[TD_ROLES] = {"none", "predict", "measure", "operate"};

struct quota {
    double per_minute, level; /* per_minute 0: no limit */
};

struct td_token {
    struct td_tokens *list; /* for its lock; the list outlives every request */
    int refs;
    uint8_t digest[DIGEST];
    enum td_role role;
    char name[TD_TOKEN_NAME_MAX + 1];
    struct quota requests, bytes;
    long in_flight, in_flight_max; /* max 0: no limit */
    int64_t filled_us;             /* when the quotas were last filled up, 0 never */
};

struct td_tokens {
    pthread_mutex_t lock; /* guards what follows, and all tokens; no other lock is taken under it */
    int n;
    struct td_token *token[TD_TOKENS_MAX];
};

const char *td_role_name(enum td_role r)
{
    return ROLE[r];
}

int td_role_by_name(const char *name, size_t n)
{
    for (int i = TD_ROLE_PREDICT; i < TD_ROLES; i++)
        if (strlen(ROLE[i]) == n && strncmp(ROLE[i], name, n) == 0)
            return i;
    return -1;
}

/* ---- the list ---- */

struct td_tokens *td_tokens_new(void)
{
    struct td_tokens *t = calloc(1, sizeof *t);

    if (t)
        pthread_mutex_init(&t->lock, NULL);
    return t;
}

static void drop_locked(struct td_token *k)
{
    if (--k->refs == 0)
        free(k);
}

void td_tokens_free(struct td_tokens *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->n; i++)
        drop_locked(t->token[i]);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

size_t td_tokens_count(struct td_tokens *t)
{
    pthread_mutex_lock(&t->lock);
    size_t n = (size_t)t->n;
    pthread_mutex_unlock(&t->lock);
    return n;
}

/* ---- the file ---- */

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool parse_hash(const char *s, uint8_t out[DIGEST])
{
    for (int i = 0; i < DIGEST; i++) {
        int hi = digit(s[2 * i]), lo = hi < 0 ? -1 : digit(s[2 * i + 1]);
        if (lo < 0)
            return false;
        out[i] = (uint8_t)(hi << 4 | lo);
    }
    return s[2 * DIGEST] == '\0';
}

static int parse_quota(const char *word, struct td_token *k, struct tp_err *e)
{
    const char *eq = strchr(word, '=');
    size_t n = eq ? (size_t)(eq - word) : strlen(word);
    char *end = NULL;
    long long v = eq ? strtoll(eq + 1, &end, 10) : 0;

    if (!eq || end == eq + 1 || *end || v < 1 || v > 1000000000000)
        return tp_fail(e, TP_E_CONFIG, "\"%.60s\": a quota is NAME=N with N from 1", word);
    if (n == 19 && strncmp(word, "requests_per_minute", n) == 0)
        k->requests.per_minute = (double)v;
    else if (n == 21 && strncmp(word, "body_bytes_per_minute", n) == 0)
        k->bytes.per_minute = (double)v;
    else if (n == 9 && strncmp(word, "in_flight", n) == 0)
        k->in_flight_max = (long)v;
    else
        return tp_fail(e, TP_E_CONFIG,
                       "quota \"%.40s\" is not known; accepted are requests_per_minute, body_bytes_per_minute and "
                       "in_flight",
                       word);
    return 0;
}

/* One line, which is cut up. Texts of errors never hold its first word: somebody may have put a token there. */
static int parse_line(char *line, struct td_token *k, struct tp_err *e)
{
    char *word[WORDS_MAX], *save = NULL;
    int n = 0, role, rc = 0;

    for (char *w = strtok_r(line, " \t\r", &save); w; w = strtok_r(NULL, " \t\r", &save)) {
        if (n == WORDS_MAX)
            return tp_fail(e, TP_E_CONFIG, "too many words");
        word[n++] = w;
    }
    if (n < 3)
        return tp_fail(e, TP_E_CONFIG, "a line is HASH ROLE NAME [QUOTA=N ...]");
    if (!parse_hash(word[0], k->digest))
        return tp_fail(e, TP_E_CONFIG, "the first word is no SHA-256 in hex (64 digits)");
    if ((role = td_role_by_name(word[1], strlen(word[1]))) < 0)
        return tp_fail(e, TP_E_CONFIG, "\"%.40s\" is no role; accepted are predict, measure and operate", word[1]);
    if (!st_id_valid(word[2]))
        return tp_fail(e, TP_E_CONFIG, "\"%.70s\" is no name; accepted is [a-z0-9][a-z0-9._-]{0,62}", word[2]);
    k->role = (enum td_role)role;
    snprintf(k->name, sizeof k->name, "%s", word[2]);
    for (int i = 3; i < n && rc == 0; i++)
        rc = parse_quota(word[i], k, e);
    return rc;
}

static struct td_token *same(struct td_token *const *list, int n, const struct td_token *k)
{
    for (int i = 0; i < n; i++)
        if (memcmp(list[i]->digest, k->digest, DIGEST) == 0)
            return list[i];
    return NULL;
}

static int parse(char *text, struct td_token **list, int *n, long *line, struct tp_err *e)
{
    int rc = 0;

    for (char *next; text && rc == 0; text = next) {
        next = strchr(text, '\n');
        if (next)
            *next++ = '\0';
        ++*line;
        text += strspn(text, " \t\r");
        if (!*text || *text == '#')
            continue;
        struct td_token *k = calloc(1, sizeof *k);
        if (!k)
            return tp_fail(e, TP_E_NO_MEMORY, "out of memory");
        k->refs = 1;
        rc = parse_line(text, k, e);
        if (rc == 0 && same(list, *n, k))
            rc = tp_fail(e, TP_E_CONFIG, "the same token stands there twice");
        if (rc == 0 && *n == TD_TOKENS_MAX)
            rc = tp_fail(e, TP_E_CONFIG, "more than %d tokens", TD_TOKENS_MAX);
        if (rc == 0)
            list[(*n)++] = k;
        else
            free(k);
    }
    return rc;
}

static int slurp(const char *path, char **out, struct tp_err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
    char *text = NULL;
    size_t n = 0;
    struct stat st;
    ssize_t got = 1;

    if (fd < 0 || fstat(fd, &st) != 0)
        rc = tp_fail(e, TP_E_CONFIG, "tokens_file %.150s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode) || st.st_size > TD_TOKEN_FILE_MAX)
        rc = tp_fail(e, TP_E_CONFIG, "tokens_file %.150s: no file of at most %d bytes", path, TD_TOKEN_FILE_MAX);
    else if (st.st_mode & 0007)
        rc = tp_fail(e, TP_E_CONFIG, "tokens_file %.150s: others can reach it; type chmod o= %.40s", path, path);
    else if (!(text = malloc(TD_TOKEN_FILE_MAX + 1)))
        rc = tp_fail(e, TP_E_NO_MEMORY, "out of memory");
    while (rc == 0 && n < TD_TOKEN_FILE_MAX && (got = read(fd, text + n, TD_TOKEN_FILE_MAX - n)) > 0)
        n += (size_t)got;
    if (rc == 0 && got < 0)
        rc = tp_fail(e, TP_E_CONFIG, "tokens_file %.150s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (rc == 0 && memchr(text, '\0', n))
        rc = tp_fail(e, TP_E_CONFIG, "tokens_file %.150s: no text file", path);
    if (rc) {
        free(text);
        return rc;
    }
    text[n] = '\0';
    *out = text;
    return 0;
}

/* A token that stays keeps its struct, and with it what of its quotas is used. */
static void adopt_locked(struct td_tokens *t, struct td_token **list, int n)
{
    for (int i = 0; i < n; i++) {
        struct td_token *old = same(t->token, t->n, list[i]), *now = list[i];
        now->list = t;
        if (!old)
            continue;
        old->role = now->role;
        memcpy(old->name, now->name, sizeof old->name);
        old->requests.per_minute = now->requests.per_minute;
        old->bytes.per_minute = now->bytes.per_minute;
        old->in_flight_max = now->in_flight_max;
        old->refs++;
        free(now);
        list[i] = old;
    }
    for (int i = 0; i < t->n; i++)
        drop_locked(t->token[i]);
    memcpy(t->token, list, (size_t)n * sizeof *list);
    t->n = n;
}

int td_tokens_load(struct td_tokens *t, const char *path, struct tp_err *e)
{
    struct td_token **list = calloc(TD_TOKENS_MAX, sizeof(*list));
    char *text = NULL;
    long line = 0;
    int n = 0, rc = list ? slurp(path, &text, e) : tp_fail(e, TP_E_NO_MEMORY, "out of memory");
    struct tp_err why;

    if (rc == 0 && (rc = parse(text, list, &n, &line, &why)) != 0) {
        tp_fail(e, why.code, "%.100s:%ld: %.130s", path, line, why.detail);
        if (e)
            e->line = line;
    }
    if (rc == 0) {
        pthread_mutex_lock(&t->lock);
        adopt_locked(t, list, n);
        pthread_mutex_unlock(&t->lock);
    } else {
        while (n > 0)
            free(list[--n]);
    }
    free(text);
    free(list);
    return rc;
}

/* ---- looking one up ---- */

static void hash(const char *text, size_t n, uint8_t digest[DIGEST])
{
    struct sha256_ctx sha;

    sha256_init(&sha);
    sha256_update(&sha, n, (const uint8_t *)text);
    sha256_digest(&sha, DIGEST, digest);
}

struct td_token *td_tokens_find(struct td_tokens *t, const char *given, size_t n)
{
    static const uint8_t nobody[DIGEST]; /* the hash of nothing that anyone knows */
    struct td_token *found = NULL;
    uint8_t digest[DIGEST];

    hash(given, n, digest);
    pthread_mutex_lock(&t->lock);
    for (int i = 0; i < t->n; i++)
        found = memeql_sec(t->token[i]->digest, digest, DIGEST) ? t->token[i] : found;
    if (memeql_sec(nobody, digest, DIGEST))
        found = NULL;
    if (found)
        found->refs++;
    pthread_mutex_unlock(&t->lock);
    return found;
}

void td_token_release(struct td_token *k)
{
    if (!k)
        return;
    struct td_tokens *t = k->list;
    pthread_mutex_lock(&t->lock);
    drop_locked(k);
    pthread_mutex_unlock(&t->lock);
}

enum td_role td_token_role(const struct td_token *k)
{
    pthread_mutex_lock(&k->list->lock);
    enum td_role role = k->role;
    pthread_mutex_unlock(&k->list->lock);
    return role;
}

void td_token_name(const struct td_token *k, char name[TD_TOKEN_NAME_MAX + 1])
{
    pthread_mutex_lock(&k->list->lock);
    memcpy(name, k->name, sizeof k->name);
    pthread_mutex_unlock(&k->list->lock);
}

/* ---- quotas ---- */

static void fill(struct quota *q, double minutes)
{
    q->level += minutes * q->per_minute;
    if (q->level > q->per_minute)
        q->level = q->per_minute;
}

/* Seconds until the bucket holds `least`, rounded up, at least 1. */
static int wait_for(const struct quota *q, double least)
{
    double s = ceil((least - q->level) / q->per_minute * 60);

    return s < 1 ? 1 : s > 3600 ? 3600 : (int)s;
}

static int take_locked(struct td_token *k, int64_t now_us, int *wait_s, struct tp_err *e)
{
    double minutes = k->filled_us ? (double)(now_us - k->filled_us) / 60e6 : 1;

    if (minutes > 0) {
        fill(&k->requests, minutes);
        fill(&k->bytes, minutes);
        k->filled_us = now_us;
    }
    *wait_s = 1;
    if (k->in_flight_max && k->in_flight >= k->in_flight_max)
        return tp_fail(e, TP_E_TOO_MANY, "this token may have %ld requests in flight", k->in_flight_max);
    if (k->bytes.per_minute > 0 && k->bytes.level <= 0) {
        *wait_s = wait_for(&k->bytes, 1);
        return tp_fail(e, TP_E_TOO_MANY, "this token may send %.0f bytes a minute", k->bytes.per_minute);
    }
    if (k->requests.per_minute > 0 && k->requests.level < 1) {
        *wait_s = wait_for(&k->requests, 1);
        return tp_fail(e, TP_E_TOO_MANY, "this token may make %.0f requests a minute", k->requests.per_minute);
    }
    if (k->requests.per_minute > 0)
        k->requests.level -= 1;
    k->in_flight++;
    return 0;
}

int td_token_take(struct td_token *k, int64_t now_us, int *wait_s, struct tp_err *e)
{
    pthread_mutex_lock(&k->list->lock);
    int rc = take_locked(k, now_us, wait_s, e);
    pthread_mutex_unlock(&k->list->lock);
    return rc;
}

void td_token_done(struct td_token *k, size_t body_bytes)
{
    pthread_mutex_lock(&k->list->lock);
    k->in_flight--;
    if (k->bytes.per_minute > 0)
        k->bytes.level -= (double)body_bytes; /* the length of a chunked body is known only now */
    pthread_mutex_unlock(&k->list->lock);
}

/* ---- making one ---- */

int td_token_make(enum td_role role, const char *name, char token[TD_TOKEN_LEN + 1], char line[192], struct tp_err *e)
{
    static const char B64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t bytes[RANDOM_BYTES], digest[DIGEST];
    char hex[2 * DIGEST + 1], own[TD_TOKEN_NAME_MAX + 1];
    uint32_t bits = 0;
    int have = 0;
    size_t n = sizeof PREFIX - 1;

    if (name && !st_id_valid(name))
        return tp_fail(e, TP_E_CONFIG, "\"%.70s\" is no name; accepted is [a-z0-9][a-z0-9._-]{0,62}", name);
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return tp_fail(e, TP_E_INTERNAL, "no random bytes: %s", strerror(errno));
    memcpy(token, PREFIX, n);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bits = bits << 8 | bytes[i];
        for (have += 8; have >= 6; have -= 6)
            token[n++] = B64[bits >> (have - 6) & 63];
    }
    token[n++] = B64[bits << (6 - have) & 63];
    token[n] = '\0';
    hash(token, n, digest);
    for (int i = 0; i < DIGEST; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    snprintf(own, sizeof own, "%s-%.8s", ROLE[role], hex);
    snprintf(line, 192, "%s %s %s\n", hex, ROLE[role], name ? name : own);
    explicit_bzero(bytes, sizeof bytes);
    return 0;
}

int td_token_append(const char *path, const char *line, struct tp_err *e)
{
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600), rc = 0;
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    char last = '\n', text[200];

    if (end > 0 && pread(fd, &last, 1, end - 1) != 1)
        last = '\n';
    int n = snprintf(text, sizeof text, "%s%s", last == '\n' ? "" : "\n", line);
    if (fd < 0 || write(fd, text, (size_t)n) != n || fsync(fd) != 0)
        rc = tp_fail(e, TP_E_CONFIG, "tokens_file %.150s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return rc;
}
