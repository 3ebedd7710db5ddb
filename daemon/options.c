/* The command line: every configuration key is an option (dashes for underscores), beside a few that only make sense
 * there.
 *
 * Invariant: o->set[] holds keys that exist; values are checked when they are applied. Main thread. */
#include "daemon/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_ = 64 };

static const struct {
    const char *name, *value, *help;
} plain[] = {
    {"config", "FILE", "Read the configuration from FILE (also -c FILE)."},
    {"port-file", "FILE", "Write the port to FILE once requests are served."},
    {"check-config", NULL, "Check the configuration and exit."},
    {"print-config", NULL, "Print the configuration in effect and exit."},
    {"new-token", "ROLE",
     "Make a token for the role predict, measure or operate, print it, and add its hash to tokens_file."},
    {"token-name", "NAME", "Name of the new token, for logs and to find it in the file."},
    {"version", NULL, "Print the version and exit."},
    {"help", NULL, "Print this and exit."},
};
enum { PLAIN = sizeof plain / sizeof *plain };

/* All names an option can have, for "did you mean". */
static const char *nearest_option(const char *name)
{
    const char *near = td_nearest(name, td_config_keys), *const candidates[] = {
                                                             near,           "config",    "port-file",  "check-config",
                                                             "print-config", "new-token", "token-name", "version",
                                                             "help",         NULL};
    return td_nearest(name, near ? candidates : candidates + 1);
}

static int unknown(const char *name, struct tp_err *e)
{
    const char *near = nearest_option(name);
    char text[NAME_MAX_];

    if (!near)
        return tp_fail(e, TP_E_BAD_PARAMETER, "unknown option --%.60s", name);
    snprintf(text, sizeof text, "%s", near);
    for (char *p = text; *p; p++)
        if (*p == '_')
            *p = '-';
    return tp_fail(e, TP_E_BAD_PARAMETER, "unknown option --%.60s; did you mean --%s?", name, text);
}

/* The key of config.def that an option's name stands for, NULL none. Underscores are accepted too. */
static const char *key_of(const char *name)
{
    for (const char *const *k = td_config_keys; *k; k++) {
        size_t i = 0;
        while ((*k)[i] && ((*k)[i] == name[i] || ((*k)[i] == '_' && name[i] == '-')))
            i++;
        if (!(*k)[i] && !name[i])
            return *k;
    }
    return NULL;
}

static int is_plain(const char *name)
{
    for (int i = 0; i < PLAIN; i++)
        if (strcmp(plain[i].name, name) == 0)
            return i;
    return -1;
}

int td_options_parse(int argc, char **argv, struct td_options *o, struct tp_err *e)
{
    memset(o, 0, sizeof *o);
    for (int i = 1; i < argc; i++) {
        char name[NAME_MAX_];
        const char *arg = argv[i], *value = NULL;

        if (strcmp(arg, "-h") == 0)
            arg = "--help";
        else if (strcmp(arg, "-c") == 0)
            arg = "--config";
        if (strncmp(arg, "--", 2) != 0 || !arg[2])
            return tp_fail(e, TP_E_BAD_PARAMETER, "\"%.60s\" is no option", arg);
        const char *eq = strchr(arg, '=');
        size_t n = eq ? (size_t)(eq - arg) - 2 : strlen(arg) - 2;
        if (n >= sizeof name)
            return tp_fail(e, TP_E_BAD_PARAMETER, "unknown option %.60s", arg);
        memcpy(name, arg + 2, n);
        name[n] = '\0';

        int p = is_plain(name);
        const char *key = p < 0 ? key_of(name) : NULL;
        if (p < 0 && !key)
            return unknown(name, e);
        bool takes = key ? !td_config_is_bool(key) : plain[p].value != NULL;
        if (eq && !takes && !key)
            return tp_fail(e, TP_E_BAD_PARAMETER, "--%s takes no value", name);
        value = eq ? eq + 1 : key && !takes ? "true" : NULL;
        if (takes && !value && !(value = ++i < argc ? argv[i] : NULL))
            return tp_fail(e, TP_E_BAD_PARAMETER, "--%s needs a value", name);

        if (key) {
            if (o->n == TD_OPTIONS_MAX)
                return tp_fail(e, TP_E_BAD_PARAMETER, "more than %d settings", TD_OPTIONS_MAX);
            o->set[o->n++] = (struct td_setting){key, value};
        } else if (plain[p].value) {
            *(name[0] == 'c'   ? &o->file
              : name[0] == 'p' ? &o->port_file
              : name[0] == 'n' ? &o->role
                               : &o->name) = value;
            if (name[0] == 'n')
                o->action = TD_NEW_TOKEN;
        } else {
            o->action = name[0] == 'v'   ? TD_VERSION
                        : name[0] == 'h' ? TD_HELP
                        : name[0] == 'c' ? TD_CHECK_CONFIG
                                         : TD_PRINT_CONFIG;
        }
    }
    return 0;
}

int td_options_load(const struct td_options *o, struct td_config *c, struct tp_err *e)
{
    int rc = td_config_defaults(c);

    if (rc)
        return tp_fail(e, TP_E_NO_MEMORY, "out of memory");
    if (o->file && (rc = td_config_read_file(c, o->file, e)) != 0)
        goto out;
    if ((rc = td_config_read_env(c, e)) != 0)
        goto out;
    for (int i = 0; i < o->n; i++) {
        struct tp_err why;
        if ((rc = td_config_set(c, o->set[i].key, o->set[i].value, &why)) != 0) {
            tp_fail(e, why.code, "option %.220s", why.detail);
            goto out;
        }
    }
    if (o->port_file && !(c->port_file = strdup(o->port_file))) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "out of memory");
        goto out;
    }
    rc = td_config_check(c, e);
out:
    if (rc)
        td_config_free(c);
    return rc;
}

static void help_line(struct tp_buf *out, const char *name, const char *value, const char *help)
{
    size_t column = out->n;

    tp_buf_puts(out, "  --");
    for (const char *p = name; *p; p++)
        tp_buf_putc(out, *p == '_' ? '-' : *p);
    if (value)
        tp_buf_printf(out, "=%s", value);
    column = out->n - column;
    tp_buf_printf(out, "%*s%s\n", column < 33 ? (int)(34 - column) : 1, "", help);
}

void td_options_help(struct tp_buf *out)
{
    tp_buf_puts(out, "usage: tcld [-c FILE] [--KEY=VALUE ...]\n\n"
                     "Learns how fast tensor programs run and predicts it over HTTP.\n\n");
    for (int i = 0; i < PLAIN; i++)
        help_line(out, plain[i].name, plain[i].value, plain[i].help);
    tp_buf_puts(
        out,
        "\nSettings, also as KEY = VALUE in the file and TCLD_KEY in the environment (option > environment > file):\n");
#define STR(key, def, reload, help)           help_line(out, #key, "TEXT", help);
#define INT(key, def, min, max, reload, help) help_line(out, #key, "N", help);
#define BOOL(key, def, reload, help)          help_line(out, #key, NULL, help);
#include "daemon/config.def"
#undef STR
#undef INT
#undef BOOL
}
