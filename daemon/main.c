/* tcld: command line in, exit status out. 0 all went well, 1 it did not, 2 the command line is wrong. */
#include "daemon/auth.h"
#include "daemon/daemon.h"
#include "daemon/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int print(struct tp_buf *b)
{
    int ok = !b->oom && fwrite(b->p, 1, b->n, stdout) == b->n && fflush(stdout) == 0;
    tp_buf_free(b);
    return ok ? 0 : 1;
}

/* The token on stdout, so that a script can take it; its line goes into tokens_file, or is shown when there is none. */
static int new_token(const struct td_options *o, const struct td_config *c)
{
    char token[TD_TOKEN_LEN + 1], line[192];
    struct tp_err e;
    int role = td_role_by_name(o->role, strlen(o->role));

    if (role < 0) {
        fprintf(stderr, "tcld: \"%.40s\" is no role; accepted are predict, measure and operate\n", o->role);
        return 2;
    }
    if (td_token_make((enum td_role)role, o->name, token, line, &e) != 0 ||
        (*c->tokens_file && td_token_append(c->tokens_file, line, &e) != 0)) {
        fprintf(stderr, "tcld: %s\n", e.detail);
        return 1;
    }
    printf("%s\n", token);
    if (*c->tokens_file)
        fprintf(stderr, "Its hash is in %s; SIGHUP makes a running tcld know it. The token is shown this once.\n",
                c->tokens_file);
    else
        fprintf(stderr, "Put this line into the tokens_file. The token is shown this once.\n%s", line);
    return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct td_options options; /* stays for reloads */
    static struct td_daemon daemon;
    struct tp_buf out = {0};
    struct tp_err e;
    int status = 0;

    if (td_options_parse(argc, argv, &options, &e) != 0) {
        fprintf(stderr, "tcld: %s\nTry tcld --help.\n", e.detail);
        return 2;
    }
    if (options.action == TD_VERSION) {
        tp_buf_printf(&out, "tcld %s\n", TCLD_VERSION);
        return print(&out);
    }
    if (options.action == TD_HELP) {
        td_options_help(&out);
        return print(&out);
    }
    if (td_options_load(&options, &daemon.config, &e) != 0) {
        fprintf(stderr, "tcld: %s\n", e.detail);
        return 1;
    }
    switch (options.action) {
    case TD_PRINT_CONFIG:
        td_config_print(&daemon.config, &out);
        status = print(&out);
        break;
    case TD_CHECK_CONFIG:
        status = td_daemon_check(&daemon.config, &e) == 0 ? 0 : 1;
        if (status)
            fprintf(stderr, "tcld: %s\n", e.detail);
        break;
    case TD_NEW_TOKEN:
        status = new_token(&options, &daemon.config);
        break;
    default:
        daemon.options = &options;
        status = td_daemon_run(&daemon);
    }
    td_config_free(&daemon.config);
    return status;
}
