/* Where tcld is and who we are: flag, then environment, then file, then default.
 *
 * The file ($XDG_CONFIG_HOME or ~/.config)/tclctl.conf holds "key = value" lines: url, token, token_file, timeout. */
#include "clients/ctl/ctl.h"

#include <ini.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_URL "http://127.0.0.1:8723"

struct reading {
    struct ctl *c;
    const char *token_file, *timeout;
    const char *bad; /* a key that is none */
};

static int on_pair(void *arg, const char *section, const char *key, const char *value)
{
    struct reading *r = arg;

    if (*section) {
        r->bad = ctl_printf(r->c, "section [%s]", section);
        return 0;
    }
    value = ctl_printf(r->c, "%s", value);
    if (!strcmp(key, "url"))
        r->c->url = r->c->url ? r->c->url : value;
    else if (!strcmp(key, "token"))
        r->c->token = r->c->token ? r->c->token : value;
    else if (!strcmp(key, "token_file"))
        r->token_file = value;
    else if (!strcmp(key, "timeout"))
        r->timeout = value;
    else
        r->bad = ctl_printf(r->c, "key \"%s\"; accepted are url, token, token_file, timeout", key);
    return r->bad == NULL;
}

static int read_file(struct ctl *c, struct reading *r)
{
    const char *home = getenv("HOME"), *config = getenv("XDG_CONFIG_HOME"), *path = c->config_file;
    int line;

    if (!path && config && *config)
        path = ctl_printf(c, "%s/tclctl.conf", config);
    else if (!path && home && *home)
        path = ctl_printf(c, "%s/.config/tclctl.conf", home);
    if (!path || (!c->config_file && access(path, F_OK)))
        return CTL_OK;
    line = ini_parse(path, on_pair, r);
    if (line < 0)
        return ctl_fail(c, CTL_USAGE, "cannot read %s", path);
    if (line > 0)
        return ctl_fail(c, CTL_USAGE, "%s:%d: %s", path, line, r->bad ? r->bad : "not \"key = value\"");
    return CTL_OK;
}

static int read_token(struct ctl *c, const char *path)
{
    struct tp_buf b = {0};
    int rc = tc_read_file(path, &b, &c->err) ? CTL_USAGE : CTL_OK;

    if (!rc)
        c->token = ctl_printf(c, "%.*s", (int)strcspn(b.p, " \t\r\n"), b.p);
    if (!rc && !*c->token)
        rc = ctl_fail(c, CTL_USAGE, "%s holds no token", path);
    tp_buf_free(&b);
    return rc;
}

int ctl_settings(struct ctl *c, const struct ctl_args *a)
{
    struct reading r = {.c = c};
    const char *file = ctl_get(a, "token-file"), *timeout = ctl_get(a, "timeout"), *env;
    int rc;

    c->url = ctl_get(a, "url");
    c->config_file = ctl_get(a, "config");
    c->json = ctl_has(a, "json");
    c->quiet = ctl_has(a, "quiet");
    if (file && (rc = read_token(c, file)))
        return rc;
    if (!c->url && (env = getenv("TCLD_URL")) && *env)
        c->url = env;
    if (!c->token && (env = getenv("TCLD_TOKEN")) && *env)
        c->token = env;
    if ((rc = read_file(c, &r)))
        return rc;
    if (!c->token && r.token_file && (rc = read_token(c, r.token_file)))
        return rc;
    if (!c->url)
        c->url = DEFAULT_URL;
    c->timeout = 120;
    timeout = timeout ? timeout : r.timeout;
    rc = timeout ? ctl_read_num(c, "timeout", timeout, &c->timeout) : CTL_OK;
    return !rc && c->timeout <= 0 ? ctl_fail(c, CTL_USAGE, "timeout must be above 0") : rc;
}
