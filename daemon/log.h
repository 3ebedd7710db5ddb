/* Structured logs on stderr: one line per event, logfmt or JSON, with a journald priority when stderr is the journal.
 *
 * A line is made on the caller's thread and written by one thread of the log, which nobody waits for: a reader of
 * stderr that stops reading costs lines (counted, and told in a line of its own), never a request. Before td_log_start
 * and after td_log_stop lines are written at once. All functions but start and stop are thread-safe. */
#ifndef TD_LOG_H
#define TD_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* TD_AUDIT lines are written whatever the level. */
enum td_level { TD_AUDIT = -1, TD_ERROR, TD_WARNING, TD_INFO, TD_DEBUG };
enum { TD_LOG_LINE_MAX = 4096 /* longer values are cut */, TD_LOG_QUEUE_MAX = 1 << 20 /* bytes waiting for stderr */ };

struct td_field {
    const char *key; /* [a-z0-9_]+; NULL: skipped */
    enum { TD_FIELD_STR, TD_FIELD_INT, TD_FIELD_NUM } type;
    const char *str; /* NULL: the field is left out */
    int64_t i;
    double num; /* three decimals */
};
#define TD_S(k, v)                                                                                                     \
    {                                                                                                                  \
        .key = (k), .type = TD_FIELD_STR, .str = (v)                                                                   \
    }
#define TD_I(k, v)                                                                                                     \
    {                                                                                                                  \
        .key = (k), .type = TD_FIELD_INT, .i = (int64_t)(v)                                                            \
    }
#define TD_F(k, v)                                                                                                     \
    {                                                                                                                  \
        .key = (k), .type = TD_FIELD_NUM, .num = (v)                                                                   \
    }

/* td_log(TD_INFO, "listening", TD_S("address", a), TD_I("port", p)); */
#define td_log(level, event, ...)                                                                                      \
    td_log_fields((level), (event), (const struct td_field[]){{.key = NULL}, ##__VA_ARGS__},                           \
                  sizeof((const struct td_field[]){{.key = NULL}, ##__VA_ARGS__}) / sizeof(struct td_field))
void td_log_fields(enum td_level level, const char *event, const struct td_field *f, size_t n);

bool td_log_on(enum td_level level);
void td_log_level(enum td_level level);
int td_log_level_by_name(const char *name); /* "info" -> TD_INFO, or -1 */
void td_log_format(bool json);
bool td_log_format_by_name(const char *name, bool *json);

int td_log_start(void); /* starts the thread; 0 or -TP_E_NO_MEMORY */
void td_log_stop(void); /* writes what waits (for at most a second), ends the thread */
uint64_t td_log_dropped(void);

/* One line without its priority, as td_log writes it, for tests: returns its length. ts: unix microseconds. */
size_t td_log_render(char line[TD_LOG_LINE_MAX], bool json, enum td_level level, int64_t ts, const char *event,
                     const struct td_field *f, size_t n);

#endif
