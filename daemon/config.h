/* Configuration: one table (config.def) gives file keys, flags' and environment names, defaults, limits, the commented default file and the manual.
 * Precedence: flag > environment (TCLD_<KEY>) > file > default. */
#ifndef TD_CONFIG_H
#define TD_CONFIG_H

#include "proto/err.h"

#include <stdbool.h>
#include <stdint.h>

struct td_config {
#define STR(key, def, reload, help) char *key;
#define INT(key, def, min, max, reload, help) int64_t key;
#define BOOL(key, def, reload, help) bool key;
#include "daemon/config.def"
#undef STR
#undef INT
#undef BOOL
    char *file;             /* path of the file read, NULL none */
    char *port_file;        /* --port-file, NULL none */
};

void td_config_defaults(struct td_config *c);
void td_config_free(struct td_config *c);
/* CONFIG with "FILE:LINE: ..." and the nearest key's name. */
int td_config_read_file(struct td_config *c, const char *path, struct tp_err *e);
int td_config_read_env(struct td_config *c, struct tp_err *e);
int td_config_set(struct td_config *c, const char *key, const char *value, struct tp_err *e);
int td_config_check(const struct td_config *c, struct tp_err *e);  /* values that do not go together; addresses that need tokens or insecure */
void td_config_print(const struct td_config *c);                    /* --print-config: a file that gives this configuration */

#endif
