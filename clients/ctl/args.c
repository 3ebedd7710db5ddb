/* The command line: one command, its words and options, in any order.
 *
 * Invariant: a->given holds only options that the command or all commands know, with a value where one is wanted. */
#include "clients/ctl/ctl.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct ctl_opt ctl_global_opts[] = {{"url", "URL", "of tcld: http://HOST:PORT, https://HOST:PORT or unix:PATH"},
                                          {"token-file", "FILE", "the file that holds the bearer token"},
                                          {"config", "FILE", "settings, instead of ~/.config/tclctl.conf"},
                                          {"timeout", "SECONDS", "of one call (120)"},
                                          {"json", NULL, "print JSON"},
                                          {"quiet", NULL, "no progress and no notes"},
                                          {"help", NULL, "what a command takes"},
                                          {"version", NULL, "print the version"},
                                          {0}};

static const struct ctl_opt *find(const struct ctl_opt *o, const char *name, size_t n)
{
    for (; o && o->name; o++)
        if (!strncmp(o->name, name, n) && !o->name[n])
            return o;
    return NULL;
}

const char *ctl_get(const struct ctl_args *a, const char *name)
{
    for (int i = a->n_given; i-- > 0;)
        if (!strcmp(a->given[i].name, name))
            return a->given[i].value;
    return NULL;
}

bool ctl_has(const struct ctl_args *a, const char *name)
{
    return ctl_get(a, name) != NULL;
}

/* argv[*i] is an option: takes it and, where it stands in the next word, its value. */
static int take(struct ctl *c, int argc, char **argv, int *i, struct ctl_args *a)
{
    const char *arg = argv[*i], *name = arg + 2, *value = strchr(arg, '=');
    size_t n = value ? (size_t)(value - name) : strlen(name);
    const struct ctl_opt *o;

    if (!strcmp(arg, "-h"))
        name = "help", n = 4, value = NULL;
    else if (!strcmp(arg, "-o"))
        name = "output", n = 6, value = NULL;
    else if (arg[1] != '-')
        return ctl_fail(c, CTL_USAGE, "unknown option %s", arg);
    o = find(ctl_global_opts, name, n);
    if (!o && c->command)
        o = find(c->command->opts, name, n);
    if (!o && !c->command)
        return ctl_fail(c, CTL_USAGE, "%s: the options of a command stand behind its name", arg);
    if (!o)
        return ctl_fail(c, CTL_USAGE, "%s: unknown option; tclctl %s --help lists them", arg, c->command->name);
    if (value && !o->value)
        return ctl_fail(c, CTL_USAGE, "--%s takes no value", o->name);
    if (o->value && !value) {
        if (*i + 1 >= argc)
            return ctl_fail(c, CTL_USAGE, "--%s needs a value: %s", o->name, o->value);
        value = argv[++*i];
    } else if (value) {
        value++;
    }
    if (a->n_given == CTL_OPTS_MAX)
        return ctl_fail(c, CTL_USAGE, "more than %d options", CTL_OPTS_MAX);
    a->given[a->n_given].name = o->name;
    a->given[a->n_given++].value = value ? value : "";
    return CTL_OK;
}

int ctl_args_parse(struct ctl *c, int argc, char **argv, struct ctl_args *a)
{
    bool options = true;

    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        int rc = CTL_OK;

        if (options && !strcmp(arg, "--")) {
            options = false;
        } else if (options && arg[0] == '-' && arg[1]) {
            rc = take(c, argc, argv, &i, a);
        } else if (!c->command) {
            c->command = ctl_command_find(arg);
            if (!c->command)
                rc = ctl_fail(c, CTL_USAGE, "\"%s\" is no command; tclctl --help lists them", arg);
        } else if (a->n == CTL_WORDS_MAX) {
            rc = ctl_fail(c, CTL_USAGE, "more than %d words; name their folder", CTL_WORDS_MAX);
        } else {
            a->word[a->n++] = arg;
        }
        if (rc)
            return rc;
    }
    if (c->command && !ctl_has(a, "help") && (a->n < c->command->min_words || a->n > c->command->max_words))
        return ctl_fail(c, CTL_USAGE, "usage: tclctl %s %s", c->command->name, c->command->usage);
    return CTL_OK;
}

int ctl_read_int(struct ctl *c, const char *what, const char *text, long long lo, long long *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < lo)
        return ctl_fail(c, CTL_USAGE, "%s: \"%s\" is no whole number from %lld on", what, text, lo);
    *out = v;
    return CTL_OK;
}

int ctl_read_num(struct ctl *c, const char *what, const char *text, double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !isfinite(v))
        return ctl_fail(c, CTL_USAGE, "%s: \"%s\" is no number", what, text);
    *out = v;
    return CTL_OK;
}

int ctl_put_int(struct ctl *c, const struct ctl_args *a, const char *name, json_t *body, const char *key, long long lo)
{
    const char *text = ctl_get(a, name);
    long long v = 0;
    int rc = text ? ctl_read_int(c, ctl_printf(c, "--%s", name), text, lo, &v) : CTL_OK;
    if (text && !rc)
        json_object_set_new(body, key, json_integer(v));
    return rc;
}

int ctl_put_num(struct ctl *c, const struct ctl_args *a, const char *name, json_t *body, const char *key)
{
    const char *text = ctl_get(a, name);
    double v = 0;
    int rc = text ? ctl_read_num(c, ctl_printf(c, "--%s", name), text, &v) : CTL_OK;
    if (text && !rc)
        json_object_set_new(body, key, json_real(v));
    return rc;
}

void ctl_put_str(const struct ctl_args *a, const char *name, json_t *body, const char *key)
{
    const char *text = ctl_get(a, name);
    if (text)
        json_object_set_new(body, key, json_string(text));
}
