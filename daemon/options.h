/* The command line. It is parsed once and applied at start and at every reload, last of all sources. Pointers go into
 * argv, which must stay. */
#ifndef TD_OPTIONS_H
#define TD_OPTIONS_H

#include "daemon/config.h"

enum td_action { TD_RUN, TD_CHECK_CONFIG, TD_PRINT_CONFIG, TD_NEW_TOKEN, TD_VERSION, TD_HELP };
enum { TD_OPTIONS_MAX = 128 };

struct td_options {
    enum td_action action;
    const char *file;      /* -c FILE, NULL none */
    const char *port_file; /* --port-file FILE, NULL none */
    const char *role;      /* --new-token ROLE */
    const char *name;      /* --token-name NAME, NULL none */
    int n;
    struct td_setting {
        const char *key; /* of config.def */
        const char *value;
    } set[TD_OPTIONS_MAX]; /* --key=value, --key value; a bare --key sets a boolean */
};

/* BAD_PARAMETER: unknown option (with the nearest name), missing value, a word that is no option. */
int td_options_parse(int argc, char **argv, struct td_options *o, struct tp_err *e);
/* defaults, file, environment, options; then td_config_check. *c must be zeroed or from td_config_defaults; it is freed
 * on failure. */
int td_options_load(const struct td_options *o, struct td_config *c, struct tp_err *e);
void td_options_help(struct tp_buf *out);

#endif
