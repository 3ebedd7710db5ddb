/* Configuration: one table (config.def) gives file keys, flags' and environment names, defaults, limits, the commented
 * default file and the manual. Precedence: flag > environment (TCLD_<KEY>) > file > default. */
#ifndef TD_CONFIG_H
#define TD_CONFIG_H

#include "proto/buf.h"
#include "proto/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Only the control thread changes a configuration after start (td_config_reload), and of strings only those that can be
 * reloaded, which it alone reads. */
struct td_config {
#define STR(key, def, reload, help)           char *key;
#define INT(key, def, min, max, reload, help) _Atomic int64_t key;
#define BOOL(key, def, reload, help)          _Atomic bool key;
#include "daemon/config.def"
#undef STR
#undef INT
#undef BOOL
    char *file;      /* path of the file read, NULL none */
    char *port_file; /* --port-file, NULL none */
#define STR(key, def, reload, help)           +1
#define INT(key, def, min, max, reload, help) +1
#define BOOL(key, def, reload, help)          +1
    long line[0
#include "daemon/config.def"
    ]; /* of the file, by key; 0: set elsewhere */
#undef STR
#undef INT
#undef BOOL
};

enum { TD_CONFIG_VALUE_MAX = 512 /* bytes of a value */, TD_CONFIG_LINE_MAX = 4096 /* bytes of a line */ };

int td_config_defaults(struct td_config *c); /* NO_MEMORY */
void td_config_free(struct td_config *c);    /* zeroes *c */
/* CONFIG with "FILE:LINE: ..." and the nearest key's name; remembers path in c->file. */
int td_config_read_file(struct td_config *c, const char *path, struct tp_err *e);
/* TCLD_<KEY>. Other TCLD_ names belong to other tools, but one that looks like a slip of a key is an error. */
int td_config_read_env(struct td_config *c, struct tp_err *e);
int td_config_set(struct td_config *c, const char *key, const char *value, struct tp_err *e);
/* Texts that mean nothing, values that do not go together; addresses beyond loopback without insecure. A value of the
 * file is named with "FILE:LINE: ". */
int td_config_check(const struct td_config *c, struct tp_err *e);
/* --print-config: a file that gives this configuration. */
void td_config_print(const struct td_config *c, struct tp_buf *out);
/* state_dir, else the first of $STATE_DIRECTORY, else "./var". */
const char *td_config_state_dir(const struct td_config *c);
/* Take over what `now` has otherwise and a running daemon can change. Calls fn(arg, key, reloaded) for each key that
 * differs. */
void td_config_reload(struct td_config *c, const struct td_config *now,
                      void (*fn)(void *arg, const char *key, bool reloaded), void *arg);

/* The nearest of names (NULL-terminated) by edit distance, or NULL when none is near enough to be a slip. */
const char *td_nearest(const char *word, const char *const *names);
extern const char *const td_config_keys[]; /* NULL-terminated */
bool td_config_is_bool(const char *key);

#endif
