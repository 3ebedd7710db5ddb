/* What the lab's commands share between command line and experiment: options, logs, keys, progress, folders and files.
 *
 * A command lists its options in a table, each with where its value goes; --logs, --test, --json and --help are every
 * command's and need no line. One thread. */
#ifndef TL_CLI_H
#define TL_CLI_H

#include "lab/corpus.h"
#include "model/train.h"

#include <jansson.h>

enum tl_option_kind {
    TL_FLAG, /* bool */
    TL_INT,
    TL_U32,
    TL_U64,
    TL_REAL,   /* double */
    TL_TEXT,   /* const char *, of argv */
    TL_CHOICE, /* bool: the second word was given, not the first */
    TL_CALL,   /* call(to, argument); the argument may be cut in place */
    TL_DO      /* call(to, NULL), without an argument */
};
enum { TL_GO_ON = -1 /* what else ends the command: its exit status, 0 done, 1 failed, 2 wrong usage */ };

struct tl_option {
    const char *name;
    enum tl_option_kind kind;
    void *to;
    double lo, hi; /* of a number */
    const char *first, *second;
    int (*call)(void *to, char *text); /* TL_GO_ON or an exit status */
};
/* A number goes to an int, uint32_t, uint64_t or double, as `to` points to. */
#define TL_NUMBER(name, to, lo, hi)                                                                                      \
    {                                                                                                                    \
        (name), _Generic((to), int *: TL_INT, uint32_t *: TL_U32, uint64_t *: TL_U64, double *: TL_REAL), (to), (lo),  \
            (hi), NULL, NULL, NULL \
    }

struct tl_cli {
    const char *command, *usage;
    bool known;    /* --known, where a command has it, stands in for --test */
    bool own_logs; /* the command finds its logs and keys itself: no --logs, no --test */
    /* read */
    struct tl_corpus *corpus; /* owned */
    char **keys;              /* owned: of --test, sorted */
    size_t n_keys;
    const char *logs; /* first argument of --logs */
    bool json;
};

/* Read options, logs and keys, in the order given. TL_GO_ON or the exit status; what is wrong has been said. To be
 * released with tl_cli_free() in any case. */
int tl_cli_read(struct tl_cli *c, int argc, char **argv, const struct tl_option *options, size_t n);
void tl_cli_free(struct tl_cli *c);
/* Says what is accepted and returns false when text is no number from lo to hi. */
bool tl_cli_number(const char *command, const char *option, const char *text, double lo, double hi, double *out);
/* Is `name` one of the comma-separated `list`? Names may hold commas. */
bool tl_listed(const char *list, const char *name);

/* A line on standard error for each epoch (tm_progress_fn). arg: int, the last epoch told, 0 at first. */
int tl_progress_lines(void *arg, const struct tm_progress *p);

/* mkdir -p. IO. */
int tl_folder(const char *path, struct tp_err *e);
/* path becomes b. IO, NO_MEMORY (b could not grow). */
int tl_write_file(const char *path, const struct tp_buf *b, struct tp_err *e);
/* STEM.json and STEM.md in dir (NULL: none), then one of them on standard output. */
int tl_publish(const char *dir, const char *stem, const struct tp_buf *json, const struct tp_buf *markdown,
               bool print_json, struct tp_err *e);
/* , "KEYSUFFIX": v to six digits; NaN: null. */
void tl_put_number(struct tp_buf *b, const char *key, const char *suffix, double v);
/* BEFORE"KEY": [v, ...] to nine digits; and back: NaN, NULL when it is not there, not n long, or no memory. */
void tl_put_array(struct tp_buf *b, const char *before, const char *key, const double *v, uint32_t n);
double tl_get_number(const json_t *o, const char *key);
double *tl_get_array(const json_t *o, const char *key, uint32_t n);

#endif
