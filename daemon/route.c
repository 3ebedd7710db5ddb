/* Request targets and the route table.
 *
 * Invariant: escapes are decoded after the path is cut at its slashes, so that an escaped slash never makes a segment.
 * Nothing decoded holds a NUL. */
#include "daemon/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* In place. */
static bool decode(char *s, bool plus)
{
    char *to = s;

    for (; *s; s++) {
        if (*s == '%') {
            int hi = hex(s[1]), lo = hi < 0 ? -1 : hex(s[2]);
            if (lo < 0 || (hi | lo) == 0)
                return false;
            *to++ = (char)(hi << 4 | lo);
            s += 2;
        } else {
            *to++ = plus && *s == '+' ? ' ' : *s;
        }
    }
    *to = '\0';
    return true;
}

static int parse_query(char *q, struct td_target *t, struct tp_err *e)
{
    while (q && *q) {
        char *next = strchr(q, '&'), *eq;
        if (next)
            *next++ = '\0';
        if (*q) {
            if ((eq = strchr(q, '=')) != NULL)
                *eq++ = '\0';
            if (!decode(q, true) || (eq && !decode(eq, true)))
                return tp_fail(e, TP_E_BAD_REQUEST, "the query holds a malformed percent-escape");
            if (td_target_query(t, q))
                return tp_fail(e, TP_E_BAD_PARAMETER, "query parameter \"%.60s\" is given twice", q);
            if (t->n_query == TD_QUERY_MAX)
                return tp_fail(e, TP_E_BAD_REQUEST, "more than %d query parameters", TD_QUERY_MAX);
            t->query[t->n_query++] = (struct td_pair){q, eq ? eq : ""};
        }
        q = next;
    }
    return 0;
}

int td_target_parse(const char *raw, struct td_target *t, struct tp_err *e)
{
    size_t n = strlen(raw);
    char *path, *work, *query;

    memset(t, 0, sizeof *t);
    t->mem = malloc(2 * (n + 1)); /* one copy stays as it came, for the log */
    if (!t->mem)
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory");
    path = t->mem;
    work = t->mem + n + 1;
    memcpy(path, raw, n + 1);
    if (strncasecmp(path, "http://", 7) == 0 || strncasecmp(path, "https://", 8) == 0) {
        path = strchr(path, ':') + 3;
        path += strcspn(path, "/?#");
        if (*path != '/')
            *--path = '/'; /* "http://host" is "http://host/" */
    }
    memcpy(work, path, strlen(path) + 1);
    path[strcspn(path, "?")] = '\0';
    t->path = path;

    query = strchr(work, '?');
    if (query)
        *query++ = '\0';
    if (strcmp(work, "*") == 0)
        return 0;
    if (*work != '/')
        return tp_fail(e, TP_E_BAD_REQUEST, "the request target must start with /");
    for (char *p = work; p;) {
        char *next = strchr(++p, '/');
        if (next)
            *next = '\0';
        if (!decode(p, false))
            return tp_fail(e, TP_E_BAD_REQUEST, "the path holds a malformed percent-escape");
        if (t->n_segments == TD_SEGMENTS_MAX)
            t->n_segments = -1;
        if (t->n_segments >= 0)
            t->segment[t->n_segments++] = p;
        p = next;
    }
    return parse_query(query, t, e);
}

void td_target_free(struct td_target *t)
{
    if (!t)
        return;
    free(t->mem);
    memset(t, 0, sizeof *t);
}

const char *td_target_query(const struct td_target *t, const char *name)
{
    for (int i = 0; i < t->n_query; i++)
        if (strcmp(t->query[i].name, name) == 0)
            return t->query[i].value;
    return NULL;
}

/* Does pattern match the segments? Fills param and names (the text after '{'). Returns the number of parameters or -1.
 */
static int match_path(const char *pattern, const struct td_target *t, const char *param[], const char *names[])
{
    int n = 0;

    for (int i = 0; i < t->n_segments; i++) {
        if (*pattern != '/')
            return -1;
        size_t len = strcspn(++pattern, "/");
        const char *s = t->segment[i];
        if (*pattern == '{') {
            if (!*s || n == TD_PARAMS_MAX)
                return -1;
            names[n] = pattern + 1;
            param[n++] = s;
        } else if (strncmp(pattern, s, len) != 0 || s[len]) {
            return -1;
        }
        pattern += len;
    }
    return *pattern ? -1 : n;
}

static void allow(struct td_match *m, const char *method)
{
    size_t n = strlen(m->allow);
    if (!strstr(m->allow, method))
        snprintf(m->allow + n, sizeof m->allow - n, "%s%s", n ? ", " : "", method);
}

int td_route_match(const struct td_route *routes, const char *method, const struct td_target *t, struct td_match *m,
                   struct tp_err *e)
{
    struct td_match best = {.n_params = TD_PARAMS_MAX + 1};
    const char *best_names[TD_PARAMS_MAX];
    bool head = strcmp(method, "HEAD") == 0;

    for (const struct td_route *r = routes; t->n_segments > 0 && r->method; r++) {
        const char *param[TD_PARAMS_MAX], *names[TD_PARAMS_MAX];
        int n = match_path(r->path, t, param, names);
        if (n < 0)
            continue;
        allow(&best, r->method);
        if (strcmp(r->method, "GET") == 0)
            allow(&best, "HEAD");
        if (strcmp(r->method, head ? "GET" : method) != 0 || n >= best.n_params)
            continue;
        best.route = r;
        best.n_params = n;
        memcpy(best.param, param, sizeof param);
        memcpy(best_names, names, sizeof names);
    }
    if (*best.allow)
        allow(&best, "OPTIONS");
    *m = best;
    if (!*best.allow)
        return tp_fail(e, TP_E_NO_ROUTE, "there is nothing at %.120s", t->path);
    if (!best.route)
        return tp_fail(e, TP_E_METHOD_NOT_ALLOWED, "%.16s is not offered here; accepted are %s", method, best.allow);
    for (int i = 0; i < best.n_params; i++) {
        bool id = strncmp(best_names[i], "hw}", 3) == 0 || strncmp(best_names[i], "family}", 7) == 0;
        if (id && !st_id_valid(best.param[i]))
            return tp_fail(e, TP_E_BAD_IDENTIFIER, "\"%.64s\" is no identifier; accepted is [a-z0-9][a-z0-9._-]{0,62}",
                           best.param[i]);
    }
    return 0;
}

/* The parameter at h: where it ends, NULL when it is malformed or names another charset than UTF-8. */
static const char *skip_parameter(const char *h)
{
    bool quoted;

    if (strncasecmp(h, "charset=", 8) == 0) {
        quoted = h[8] == '"';
        h += 8 + quoted;
        if (strncasecmp(h, "utf-8", 5) != 0 || (quoted && h[5] != '"'))
            return NULL;
        h += 5 + quoted;
        return h + strspn(h, " \t");
    }
    for (; *h && *h != ';'; h++) {
        if (*h != '"')
            continue;
        for (h++; *h && *h != '"'; h++)
            if (*h == '\\' && h[1])
                h++;
        if (!*h)
            return NULL;
    }
    return h;
}

bool td_media_is(const char *h, const char *type)
{
    size_t n = strlen(type);

    if (!h)
        return false;
    h += strspn(h, " \t");
    if (strncasecmp(h, type, n) != 0)
        return false;
    h += n + strspn(h + n, " \t");
    while (h && *h == ';') {
        h++;
        h = skip_parameter(h + strspn(h, " \t"));
    }
    return h && !*h;
}
