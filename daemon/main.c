/* tcld: command line in, exit status out. 0 all went well, 1 it did not, 2 the command line is wrong. */
#include "daemon/daemon.h"
#include "daemon/options.h"

#include <stdio.h>
#include <stdlib.h>

static int print(struct tp_buf *b)
{
    int ok = !b->oom && fwrite(b->p, 1, b->n, stdout) == b->n && fflush(stdout) == 0;
    tp_buf_free(b);
    return ok ? 0 : 1;
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
        break;
    default:
        daemon.options = &options;
        status = td_daemon_run(&daemon);
    }
    td_config_free(&daemon.config);
    return status;
}
