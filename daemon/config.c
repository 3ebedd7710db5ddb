/* Configuration from config.def: defaults, file (inih), environment, single settings; printing and reloading.
 *
 * Invariant: a td_config that went through td_config_defaults holds a valid value for every key at any time; a setting
 * that fails leaves it as it was. Thread: the main thread only, but for integers and booleans read elsewhere, which are
 * atomics. */
#include "daemon/config.h"

#include "daemon/auth.h"
#include "daemon/listen.h"
#include "daemon/log.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

enum kind { KIND_STR, KIND_INT, KIND_BOOL };

struct key {
    const char *name, *help;
    enum kind kind;
    bool reload;
    size_t offset;
    const char *str;       /* defaults */
    int64_t num, min, max; /* of KIND_INT; num 0 or 1 of KIND_BOOL */
};

#define FIELD(key) offsetof(struct td_config, key)
static const struct key keys[] = {
#define STR(key, def, reload, help)           {#key, help, KIND_STR, reload, FIELD(key), def, 0, 0, 0},
#define INT(key, def, min, max, reload, help) {#key, help, KIND_INT, reload, FIELD(key), NULL, def, min, max},
#define BOOL(key, def, reload, help)          {#key, help, KIND_BOOL, reload, FIELD(key), NULL, def, 0, 1},
#include "daemon/config.def"
#undef STR
#undef INT
#undef BOOL
};
enum { KEYS = sizeof keys / sizeof *keys };

const char *const td_config_keys[] = {
#define STR(key, def, reload, help)           #key,
#define INT(key, def, min, max, reload, help) #key,
#define BOOL(key, def, reload, help)          #key,
#include "daemon/config.def"
#undef STR
#undef INT
#undef BOOL
    NULL};

static char **str_of(const struct td_config *c, const struct key *k)
{
    return (char **)((char *)c + k->offset);
}

static int64_t num_of(const struct td_config *c, const struct key *k)
{
    const char *p = (const char *)c + k->offset;
    return k->kind == KIND_INT ? *(const _Atomic int64_t *)p : *(const _Atomic bool *)p;
}

static void set_num(struct td_config *c, const struct key *k, int64_t v)
{
    char *p = (char *)c + k->offset;
    if (k->kind == KIND_INT)
        *(_Atomic int64_t *)p = v;
    else
        *(_Atomic bool *)p = v != 0;
}

static const struct key *find(const char *name)
{
    for (int i = 0; i < KEYS; i++)
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

bool td_config_is_bool(const char *name)
{
    const struct key *k = find(name);
    return k && k->kind == KIND_BOOL;
}

/* ---- nearest name ---- */

enum { WORD_MAX = 64 };

/* Levenshtein distance, case and '-' / '_' ignored. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1], n = strlen(b);

    if (strlen(a) > WORD_MAX || n > WORD_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        int ca = a[i] == '-' ? '_' : tolower((unsigned char)a[i]);
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            int cb = b[j] == '-' ? '_' : tolower((unsigned char)b[j]);
            size_t best = diagonal + (ca != cb);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j + 1] + 1 < best)
                best = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return row[n];
}

const char *td_nearest(const char *word, const char *const *names)
{
    size_t best = strlen(word) / 3 + 2; /* one slip in a short word, more in a long one */
    const char *found = NULL;

    for (; *names; names++) {
        size_t d = distance(word, *names);
        if (d < best) {
            best = d;
            found = *names;
        }
    }
    return found;
}

/* ---- one value ---- */

int td_config_defaults(struct td_config *c)
{
    memset(c, 0, sizeof *c);
    for (int i = 0; i < KEYS; i++) {
        if (keys[i].kind != KIND_STR) {
            set_num(c, &keys[i], keys[i].num);
        } else if (!(*str_of(c, &keys[i]) = strdup(keys[i].str))) {
            td_config_free(c);
            return -TP_E_NO_MEMORY;
        }
    }
    return 0;
}

void td_config_free(struct td_config *c)
{
    if (!c)
        return;
    for (int i = 0; i < KEYS; i++)
        if (keys[i].kind == KIND_STR)
            free(*str_of(c, &keys[i]));
    free(c->file);
    free(c->port_file);
    memset(c, 0, sizeof *c);
}

static int set_str(char **to, const char *value, struct tp_err *e)
{
    char *copy = strdup(value);
    if (!copy)
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory");
    free(*to);
    *to = copy;
    return 0;
}

/* What a line of the file cannot hold is refused from every source, so that --print-config always gives a file that
 * reads back. */
static int check_text(const struct key *k, const char *v, struct tp_err *e)
{
    size_t n = strlen(v);

    if (n > TD_CONFIG_VALUE_MAX)
        return tp_fail(e, TP_E_CONFIG, "%s: longer than %d bytes", k->name, TD_CONFIG_VALUE_MAX);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)v[i] < ' ' || v[i] == 0x7f)
            return tp_fail(e, TP_E_CONFIG, "%s: holds a control character", k->name);
    if (n > 0 && (isspace((unsigned char)v[0]) || isspace((unsigned char)v[n - 1]) || v[0] == ';' || strstr(v, " ;")))
        return tp_fail(e, TP_E_CONFIG, "%s: a value neither starts or ends with a space nor holds \" ;\"", k->name);
    return 0;
}

static int parse_int(const struct key *k, const char *v, int64_t *out, struct tp_err *e)
{
    char *end;

    errno = 0;
    long long n = strtoll(v, &end, 10);
    if (end == v || *end || isspace((unsigned char)v[0]) || errno || n < k->min || n > k->max)
        return tp_fail(e, TP_E_CONFIG, "%s: \"%.40s\" is no whole number from %lld to %lld", k->name, v,
                       (long long)k->min, (long long)k->max);
    *out = n;
    return 0;
}

static int parse_bool(const struct key *k, const char *v, bool *out, struct tp_err *e)
{
    static const char *const yes[] = {"true", "yes", "on", "1"}, *const no[] = {"false", "no", "off", "0"};

    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (strcmp(v, yes[i]) == 0 || strcmp(v, no[i]) == 0) {
            *out = v[0] == yes[i][0] && strcmp(v, yes[i]) == 0;
            return 0;
        }
    }
    return tp_fail(e, TP_E_CONFIG, "%s: \"%.40s\" is neither true nor false", k->name, v);
}

int td_config_set(struct td_config *c, const char *name, const char *value, struct tp_err *e)
{
    const struct key *k = find(name);
    int64_t num = 0;
    bool flag = false;
    int rc;

    if (!k) {
        const char *near = td_nearest(name, td_config_keys);
        return near ? tp_fail(e, TP_E_CONFIG, "unknown key \"%.60s\"; did you mean \"%s\"?", name, near)
                    : tp_fail(e, TP_E_CONFIG, "unknown key \"%.60s\"", name);
    }
    c->line[k - keys] = 0;
    switch (k->kind) {
    case KIND_INT:
        if ((rc = parse_int(k, value, &num, e)) == 0)
            set_num(c, k, num);
        return rc;
    case KIND_BOOL:
        if ((rc = parse_bool(k, value, &flag, e)) == 0)
            set_num(c, k, flag);
        return rc;
    case KIND_STR:
        break;
    }
    rc = check_text(k, value, e);
    return rc ? rc : set_str(str_of(c, k), value, e);
}

/* ---- file ---- */

struct reading {
    struct td_config *c;
    FILE *f;
    long line;
    bool seen[KEYS];
    bool has_value; /* of the present line, too long for inih */
    char value[TD_CONFIG_LINE_MAX + 2];
    long err_line; /* 0: no error yet; the first one is kept */
    struct tp_err err;
};

static void note(struct reading *r, const char *text)
{
    if (r->err_line == 0) {
        r->err_line = r->line;
        tp_fail(&r->err, TP_E_CONFIG, "%s", text);
    }
}

/* inih takes lines of 200 bytes. A longer one is given to it without its value, which waits in r->value. */
static char *without_value(struct reading *r, char *line, char *buf, size_t size)
{
    size_t key = strcspn(line, "=:");
    char *value = line + key + 1, *end;

    if (!line[key] || key + 2 >= size)
        return NULL;
    memcpy(buf, line, key + 1);
    memcpy(buf + key + 1, "\n", 2);
    while (isspace((unsigned char)*value))
        value++;
    end = strstr(value, " ;"); /* a comment, as inih sees it */
    end = end ? end : value + strlen(value);
    while (end > value && isspace((unsigned char)end[-1]))
        end--;
    *end = '\0';
    memcpy(r->value, value, (size_t)(end - value) + 1);
    r->has_value = true;
    return buf;
}

/* fgets for inih that counts lines, blanks comments (which may be longer than inih's buffer) and refuses what inih
 * would cut in two or pass over. */
static char *read_line(char *buf, int size, void *stream)
{
    struct reading *r = stream;
    char line[TD_CONFIG_LINE_MAX + 2];
    size_t n = 0;
    int ch = 0;

    r->has_value = false;
    if (r->err_line)
        return NULL;
    while (n < sizeof line - 1 && ch != '\n' && (ch = getc(r->f)) != EOF)
        line[n++] = (char)ch;
    if (n == 0)
        return NULL;
    line[n] = '\0';
    r->line++;
    const char *text = line + strspn(line, " \t");
    if (memchr(line, '\0', n)) {
        note(r, "a NUL byte");
        return NULL;
    }
    if (n == sizeof line - 1 && line[n - 1] != '\n') {
        note(r, "line too long");
        return NULL;
    }
    if (*text == '#' || *text == ';' || *text == '\n' || *text == '\r' || !*text) {
        memcpy(buf, "\n", 2);
        return buf;
    }
    if (*text == '[') {
        note(r, "sections are not used here");
        return NULL;
    }
    if (text != line) { /* inih would take it as the next line of the value above */
        note(r, "a line must not start with a space");
        return NULL;
    }
    if (n >= (size_t)size) {
        if (!without_value(r, line, buf, (size_t)size)) {
            note(r, "line too long");
            return NULL;
        }
        return buf;
    }
    memcpy(buf, line, n + 1);
    return buf;
}

static int on_pair(void *arg, const char *section, const char *name, const char *value)
{
    struct reading *r = arg;
    const struct key *k = find(name);

    (void)section; /* read_line() lets none through */
    if (r->err_line)
        return 0;
    if (k && r->seen[k - keys])
        note(r, "key given twice");
    else if (td_config_set(r->c, name, r->has_value ? r->value : value, &r->err) != 0)
        r->err_line = r->line;
    if (k) {
        r->seen[k - keys] = true;
        r->c->line[k - keys] = r->line;
    }
    return r->err_line == 0;
}

int td_config_read_file(struct td_config *c, const char *path, struct tp_err *e)
{
    struct reading *r = calloc(1, sizeof *r);
    int rc = 0, bad;

    if (!r)
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory");
    r->c = c;
    r->f = fopen(path, "re");
    if (!r->f) {
        rc = tp_fail(e, TP_E_CONFIG, "%s: %s", path, strerror(errno));
        goto out;
    }
    bad = ini_parse_stream(read_line, r, on_pair, r);
    if (bad < 0)
        rc = tp_fail(e, TP_E_NO_MEMORY, "out of memory");
    else if (bad > 0 && r->err_line == 0) /* inih's own: a line without "=", or a broken section */
        rc = tp_fail(e, TP_E_CONFIG, "%s:%d: expected \"key = value\"", path, bad);
    else if (r->err_line && bad > 0 && bad < r->err_line)
        rc = tp_fail(e, TP_E_CONFIG, "%s:%d: expected \"key = value\"", path, bad);
    else if (r->err_line)
        rc = tp_fail(e, TP_E_CONFIG, "%s:%ld: %s", path, r->err_line, r->err.detail);
    else if (ferror(r->f))
        rc = tp_fail(e, TP_E_CONFIG, "%s: cannot be read", path);
    else
        rc = set_str(&c->file, path, e);
    if (rc && e)
        e->line = r->err_line ? r->err_line : bad > 0 ? bad : 0;
    fclose(r->f);
out:
    free(r);
    return rc;
}

/* ---- environment ---- */

static const char *nearest_env(const char *suffix)
{
    return strlen(suffix) < 6
               ? NULL
               : td_nearest(suffix, td_config_keys); /* short names are other tools' (TCLD_URL), not slips */
}

int td_config_read_env(struct td_config *c, struct tp_err *e)
{
    struct tp_err why;

    for (char **p = environ; *p; p++) {
        char name[WORD_MAX];
        const char *eq = strchr(*p, '=');
        size_t n;

        if (strncmp(*p, "TCLD_", 5) != 0 || !eq || (n = (size_t)(eq - *p) - 5) >= sizeof name)
            continue;
        for (size_t i = 0; i < n; i++)
            name[i] = (char)tolower((unsigned char)(*p)[5 + i]);
        name[n] = '\0';
        if (find(name)) {
            int rc = td_config_set(c, name, eq + 1, &why);
            if (rc)
                return tp_fail(e, why.code, "environment TCLD_%.*s: %.180s", (int)n, *p + 5, why.detail);
        } else if (nearest_env(name)) {
            char near[WORD_MAX];
            snprintf(near, sizeof near, "%s", nearest_env(name));
            for (char *s = near; *s; s++)
                *s = (char)toupper((unsigned char)*s);
            return tp_fail(e, TP_E_CONFIG, "environment TCLD_%.*s is no setting; did you mean TCLD_%s?", (int)n, *p + 5,
                           near);
        }
    }
    return 0;
}

/* ---- the whole ---- */

/* The value of a key is refused; it may stand in the file. */
static int refuse(const struct td_config *c, const char *key, struct tp_err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int refuse(const struct td_config *c, const char *key, struct tp_err *e, const char *fmt, ...)
{
    char text[sizeof e->detail];
    long line = c->line[find(key) - keys];
    va_list ap;
    int rc;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!line || !c->file)
        return tp_fail(e, TP_E_CONFIG, "%s: %s", key, text);
    rc = tp_fail(e, TP_E_CONFIG, "%s:%ld: %s: %s", c->file, line, key, text);
    if (e)
        e->line = line;
    return rc;
}

static int check_listen(const struct td_config *c, const char *key, const char *text, struct tp_err *e)
{
    struct td_addr a;
    struct tp_err why;

    if (td_addr_parse(text, &a, &why) != 0)
        return refuse(c, key, e, "%s", why.detail);
    if (!a.loopback && !c->insecure && !*c->tokens_file)
        return refuse(c, key, e,
                      "%.60s can be reached from other machines and nothing would ask them who they are; give a "
                      "tokens_file, listen on 127.0.0.1, [::1] or unix:PATH, or set insecure = true if the network is "
                      "trusted",
                      text);
    return 0;
}

static int check_tls(const struct td_config *c, struct tp_err *e)
{
    if (strncmp(c->tls_listen, "unix:", 5) == 0)
        return refuse(c, "tls_listen", e, "a unix socket needs no TLS; use listen");
    if (!*c->tls_cert || !*c->tls_key)
        return refuse(c, "tls_listen", e, "needs tls_cert and tls_key");
    return check_listen(c, "tls_listen", c->tls_listen, e);
}

int td_config_check(const struct td_config *c, struct tp_err *e)
{
    bool json;
    struct tp_err why;
    int rc = check_listen(c, "listen", c->listen, e);

    if (rc == 0 && *c->health_listen)
        rc = check_listen(c, "health_listen", c->health_listen, e);
    if (rc == 0 && *c->tls_listen)
        rc = check_tls(c, e);
    if (rc)
        return rc;
    if ((rc = td_auth_check_peers(c->unix_peers, &why)) != 0)
        return refuse(c, "unix_peers", e, "%s", why.detail);
    if (strncmp(c->health_listen, "unix:", 5) == 0 && strcmp(c->health_listen, c->listen) == 0)
        return refuse(c, "health_listen", e, "the same socket as listen");
    if (!td_log_format_by_name(c->log_format, &json))
        return refuse(c, "log_format", e, "\"%.40s\" is neither logfmt nor json", c->log_format);
    if (td_log_level_by_name(c->log_level) < 0)
        return refuse(c, "log_level", e, "\"%.40s\" is none of error, warning, info, debug", c->log_level);
    return 0;
}

/* The help as comment lines of at most 100 columns. */
static void print_help(const struct key *k, struct tp_buf *out)
{
    const char *word = k->help;
    size_t column = 0;

    while (*word) {
        size_t n = strcspn(word, " ");
        if (column == 0 || column + n + 1 > 100) {
            tp_buf_puts(out, column ? "\n# " : "# ");
            column = 2;
        } else {
            tp_buf_putc(out, ' ');
            column++;
        }
        tp_buf_put(out, word, n);
        column += n;
        word += n + strspn(word + n, " ");
    }
    if (k->kind == KIND_INT)
        tp_buf_printf(out, "\n# From %lld to %lld.", (long long)k->min, (long long)k->max);
    tp_buf_puts(out, k->reload ? " Can be reloaded.\n" : "\n");
}

void td_config_print(const struct td_config *c, struct tp_buf *out)
{
    for (int i = 0; i < KEYS; i++) {
        const struct key *k = &keys[i];
        if (i > 0)
            tp_buf_putc(out, '\n');
        print_help(k, out);
        tp_buf_printf(out, "%s =", k->name);
        if (k->kind == KIND_STR)
            tp_buf_printf(out, "%s%s\n", **str_of(c, k) ? " " : "", *str_of(c, k));
        else if (k->kind == KIND_INT)
            tp_buf_printf(out, " %lld\n", (long long)num_of(c, k));
        else
            tp_buf_puts(out, num_of(c, k) ? " true\n" : " false\n");
    }
}

const char *td_config_state_dir(const struct td_config *c)
{
    static char first[TD_CONFIG_VALUE_MAX + 1];
    const char *env = getenv("STATE_DIRECTORY");

    if (*c->state_dir)
        return c->state_dir;
    if (!env || !*env)
        return "./var";
    snprintf(first, sizeof first, "%.*s", (int)strcspn(env, ":"), env); /* systemd lists several with colons */
    return first;
}

void td_config_reload(struct td_config *c, const struct td_config *now, void (*fn)(void *, const char *, bool),
                      void *arg)
{
    for (int i = 0; i < KEYS; i++) {
        const struct key *k = &keys[i];
        bool done = k->reload;
        if (k->kind == KIND_STR) {
            if (strcmp(*str_of(c, k), *str_of(now, k)) == 0)
                continue;
            done = done && set_str(str_of(c, k), *str_of(now, k), NULL) == 0;
        } else {
            if (num_of(c, k) == num_of(now, k))
                continue;
            if (done)
                set_num(c, k, num_of(now, k));
        }
        fn(arg, k->name, done);
    }
}
