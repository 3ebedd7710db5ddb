/* tclctl, the operators' command line: reads the command, runs it, says what went wrong, gives the exit code. */
#include "clients/ctl/ctl.h"

#include <stdlib.h>
#include <string.h>

static void print_opts(const struct ctl_opt *o)
{
    for (; o->name; o++)
        printf("  --%s%s%-*s %s\n", o->name, o->value ? " " : "",
               (int)(strlen(o->name) < 20 ? 20 - strlen(o->name) - (o->value != NULL) : 0), o->value ? o->value : "",
               o->help);
}

static void help(const struct ctl_command *k)
{
    if (k) {
        printf("usage: tclctl %s %s\n%s.\n", k->name, k->usage, k->summary);
        if (k->opts->name)
            printf("\noptions of %s:\n", k->name);
        print_opts(k->opts);
        printf("\noptions of every command:\n");
    } else {
        printf("usage: tclctl COMMAND [words] [options]\nTalks to tcld, the cost model daemon.\n\n");
        for (k = ctl_commands; k->name; k++)
            printf("  %-11s %s\n", k->name, k->summary);
        printf("\ntclctl COMMAND --help lists what it takes; tclctl(1) says more.\n\noptions of every command:\n");
    }
    print_opts(ctl_global_opts);
    printf("\nWithout --url and --token-file: $TCLD_URL, $TCLD_TOKEN, then ~/.config/tclctl.conf, then "
           "http://127.0.0.1:8723.\n");
}

static int run(struct ctl *c, const struct ctl_args *a)
{
    int rc = ctl_settings(c, a);
    if (rc)
        return rc;
    if (!(c->http = tc_http_new(c->url, &c->err)) || (c->token && tc_http_token(c->http, c->token, &c->err)))
        return CTL_USAGE;
    tc_http_timeout(c->http, c->timeout);
    ctl_catch_signals(c);
    return c->command->run(c, a);
}

int main(int argc, char **argv)
{
    static struct ctl_args a; /* large */
    struct ctl c = {0};
    int rc;

    signal(SIGPIPE, SIG_IGN); /* a reader of stdout that left is a write error */
    ctl_show_init(&c);
    rc = ctl_args_parse(&c, argc, argv, &a);
    if (!rc && ctl_has(&a, "version"))
        printf("tclctl %s\n", TCLD_VERSION);
    else if (!rc && (ctl_has(&a, "help") || argc == 1))
        help(c.command);
    else if (!rc && !c.command)
        rc = ctl_fail(&c, CTL_USAGE, "a command is wanted; tclctl --help lists them");
    else if (!rc)
        rc = run(&c, &a);
    ctl_progress_end(&c);
    if ((fflush(stdout) || ferror(stdout)) && !rc)
        rc = ctl_fail(&c, CTL_FAILED, "standard output cannot be written");
    if (rc && *c.err.text)
        fprintf(stderr, "tclctl: %s\n", c.err.text);
    tc_http_free(c.http);
    for (size_t i = 0; i < c.n_kept; i++)
        free(c.kept[i]);
    free(c.kept);
    return rc;
}
