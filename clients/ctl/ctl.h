/* tclctl: what its commands share. One thread, one `struct ctl` that lives as long as the program.
 *
 * A command returns one of the exit codes below. When it is not CTL_OK and something has to be said, c->err holds one
 * line, which main() prints: nothing below main() reports an error of its own, but for bad lines of a log, which are
 * many. Results go to stdout, progress and notes to stderr. Text from ctl_printf() lives until the end. */
#ifndef CTL_H
#define CTL_H

#include "clients/client.h"

#include <stdio.h>

enum ctl_exit {
    CTL_OK = 0,
    CTL_FAILED = 1,    /* a job did not succeed; a local file could not be read or written */
    CTL_USAGE = 2,     /* the command line or the settings */
    CTL_NO_ANSWER = 3, /* no reply from tcld */
    CTL_REFUSED = 4,   /* tcld answered with an error */
    CTL_PARTLY = 5,    /* done, but some records were refused */
    CTL_INTERRUPTED = 130
};

/* ---- the command line: args.c ---- */
enum { CTL_OPTS_MAX = 64, CTL_WORDS_MAX = 4096 };

struct ctl_opt {
    const char *name;  /* without dashes */
    const char *value; /* "N": what it takes; NULL: nothing */
    const char *help;
};
/* What a command was given. Pointers go into argv. */
struct ctl_args {
    const struct ctl_opt *opts; /* of the command, ended by a NULL name */
    int n_given;
    struct {
        const char *name, *value;
    } given[CTL_OPTS_MAX];
    int n;
    const char *word[CTL_WORDS_MAX]; /* what is no option */
};

struct ctl {
    /* settings.c */
    const char *url, *token, *config_file;
    double timeout; /* of one call, seconds */
    bool json, quiet;
    /* main.c */
    const struct ctl_command *command;
    struct tc_http *http;
    struct tc_err err;
    /* show.c */
    bool live, bar_open; /* stderr is a terminal; a progress bar stands on it */
    double last_line;
    char **kept; /* of ctl_printf() */
    size_t n_kept, cap_kept;
};

struct ctl_command {
    const char *name, *usage, *summary;
    int min_words, max_words; /* without the command's name */
    const struct ctl_opt *opts;
    int (*run)(struct ctl *c, const struct ctl_args *a);
};
extern const struct ctl_command ctl_commands[]; /* commands.c; ended by a NULL name */
extern const struct ctl_opt ctl_global_opts[];  /* args.c */
const struct ctl_command *ctl_command_find(const char *name);

/* argv[1..]: the command is the first word, options may stand anywhere, "--" ends them. Global options go into c. */
int ctl_args_parse(struct ctl *c, int argc, char **argv, struct ctl_args *a);
const char *ctl_get(const struct ctl_args *a, const char *name); /* the last value, "" without one, NULL not given */
bool ctl_has(const struct ctl_args *a, const char *name);
/* Puts the option into body[key] as what it is; nothing when it was not given. CTL_USAGE when it is out of range. */
int ctl_put_int(struct ctl *c, const struct ctl_args *a, const char *name, json_t *body, const char *key, long long lo);
int ctl_put_num(struct ctl *c, const struct ctl_args *a, const char *name, json_t *body, const char *key);
void ctl_put_str(const struct ctl_args *a, const char *name, json_t *body, const char *key);
int ctl_read_int(struct ctl *c, const char *what, const char *text, long long lo, long long *out);
int ctl_read_num(struct ctl *c, const char *what, const char *text, double *out);

/* ---- settings: settings.c ---- */
/* Flags are in c already; the environment, then the file fill what is open. */
int ctl_settings(struct ctl *c, const struct ctl_args *a);

/* ---- calls: call.c ---- */
int ctl_fail(struct ctl *c, enum ctl_exit code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool ctl_stopped(void); /* SIGINT or SIGTERM came */
void ctl_catch_signals(struct ctl *c);
int ctl_refused(struct ctl *c, const struct tc_reply *r); /* CTL_REFUSED and why, in tclctl's words */
/* A call whose reply is 2xx JSON. body: a reference that is taken, or NULL; *out: a new reference (out may be NULL). */
int ctl_call(struct ctl *c, const char *method, const char *path, json_t *body, json_t **out);
/* All pages of a list: *out is a new array. most > 0: no more items than that. */
int ctl_list(struct ctl *c, const char *path, size_t most, json_t **out);
/* POST of log lines, made again while there is no answer, 429 or 5xx, for `patience` seconds. */
int ctl_post(struct ctl *c, const char *path, const struct tp_buf *lines, double patience, json_t **out);
/* Streams a reply into a file ("-" or NULL: stdout), which appears whole by a rename; packed when its name ends in
 * ".gz". *bytes (may be NULL): of the reply. */
int ctl_download(struct ctl *c, const char *method, const char *path, const char *file, long long *bytes);
/* "/v1/hardware/%s": each %s is a path segment and is percent-encoded. Lives until the end. */
const char *ctl_path(struct ctl *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- what tcld advises: words.c ---- */
const char *ctl_words(struct ctl *c, const char *text); /* "PUT /v1/hardware/x {…}" as "tclctl hardware add x …" */

/* ---- what people see: show.c ---- */
void ctl_show_init(struct ctl *c);
char *ctl_printf(struct ctl *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ctl_note(struct ctl *c, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* stderr, unless --quiet */
/* A bar on a terminal, a line every few seconds elsewhere; fraction NaN: unknown. */
void ctl_progress(struct ctl *c, const char *what, double fraction, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void ctl_progress_end(struct ctl *c); /* the next output begins a line of its own */
void ctl_json_out(const json_t *j);   /* stdout, one line */
/* A table of text: columns as wide as they need to be, those that hold numbers to the right. */
struct ctl_table;
struct ctl_table *ctl_table_new(struct ctl *c, const char *const *heads); /* NULL-terminated */
void ctl_cell(struct ctl_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ctl_cell_num(struct ctl_table *t, double v, const char *fmt); /* "-" for NaN; fmt takes a double */
void ctl_cell_int(struct ctl_table *t, const json_t *j, const char *pointer);
void ctl_cell_str(struct ctl_table *t, const json_t *j, const char *pointer);
void ctl_table_print(struct ctl_table *t);               /* and frees it */
const char *ctl_seconds(struct ctl *c, double seconds);  /* "48.2 us", "1.33 ms", "12.4 s"; "-" for NaN */
double ctl_time(const char *rfc3339);                    /* seconds since 1970, NaN for NULL and what is no time */
const char *ctl_age(struct ctl *c, const char *rfc3339); /* "3 min", "2 h", "5 d" ago; "-" for NULL */

/* ---- jobs: cmd_jobs.c ---- */
/* After a 202: prints the job, or with --wait follows it to its end and says how it ended. Takes job. */
int ctl_job_started(struct ctl *c, const struct ctl_args *a, json_t *job);
#define CTL_WAIT_OPT                                                                                                   \
    {                                                                                                                  \
        "wait", NULL, "follow the job to its end"                                                                      \
    }

void ctl_print_jobs(struct ctl *c, const json_t *items);
void ctl_print_outcome(struct ctl *c, const json_t *job); /* of a job that succeeded, indented lines: outcome.c */

/* An object as "key value" lines, or as JSON: cmd_hardware.c */
void ctl_print_object(struct ctl *c, const json_t *o);

#define C(name, function, opts, min, max, usage, summary)                                                              \
    int function(struct ctl *c, const struct ctl_args *a);                                                             \
    extern const struct ctl_opt opts[];
#include "clients/ctl/commands.def"
#undef C

#endif
