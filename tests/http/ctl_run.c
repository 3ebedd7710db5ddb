/* See the header. */
#include "tests/http/ctl_run.h"

#include "tests/http/suite_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ARGS = 24 };

const char *ctl_binary(void)
{
    const char *s = getenv("TCLCTL");
    return s && *s ? s : "build/tclctl";
}

const char *ctl_home(void)
{
    static char *path;
    static pid_t owner;
    if (owner != getpid()) {
        path = bb_path("home");
        owner = getpid();
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    return path;
}

char *ctl_text(struct tp_buf *b)
{
    char *p = bb_printf("%.*s", (int)b->n, b->p ? b->p : "").p;
    tp_buf_free(b);
    return p;
}

struct run ctl_run_env(const char *const *env, const char *const *argv)
{
    struct tp_buf out = {0}, err = {0};
    struct tc_err e;
    struct run r = {0};
    r.status = tc_run(argv, env, bb_slow() ? 600 : 200, &out, &err, &e);
    r.out = ctl_text(&out);
    r.err = ctl_text(&err);
    r.json = bb_keep_json(json_loads(r.out, JSON_DECODE_ANY, NULL));
    return r;
}

struct run ctl(const char *fmt, ...)
{
    char *words, *save = NULL;
    const char *argv[MAX_ARGS + 1] = {ctl_binary()};
    int n = 1;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&words, fmt, ap) < 0)
        abort();
    va_end(ap);
    for (char *w = strtok_r(words, " ", &save); w && n < MAX_ARGS; w = strtok_r(NULL, " ", &save))
        argv[n++] = w;
    const char *env[] = {bb_printf("HOME=%s", ctl_home()).p,
                         bb_printf("TCLD_URL=%s", bb_base()).p,
                         "XDG_STATE_HOME=",
                         "XDG_CONFIG_HOME=",
                         "TCLD_TOKEN=",
                         NULL};
    struct run r = ctl_run_env(env, argv);
    free(words);
    return r;
}

const char *ctl_file(const char *name, const char *text, size_t n)
{
    char *path = bb_path(name);
    struct tc_err e;
    ck_assert_msg(tc_write_file(path, text, n, &e) == 0, "%s", e.text);
    return path;
}

int ctl_count(const char *text, const char *part)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, part)) != NULL; p += strlen(part))
        n++;
    return n;
}

int64_t ctl_measured(const char *hw)
{
    return tc_int(bb_get("/v1/hardware/%s", hw)->json, "/counts/measurements", -1);
}
