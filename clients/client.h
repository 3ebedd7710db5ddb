/* A small client of tcld: HTTP over libcurl, JSON by jansson, and a tcld process of one's own.
 *
 * Used by the demo, the black-box tests and command-line tools. Everything fallible returns 0, or -1 with one line of
 * text in `struct tc_err` (may be NULL) that says what happened and, where a person can help, what to do; other outputs
 * are untouched on failure. An HTTP status is never a failure of tc_call(): only the want of a reply is.
 *
 * Threads: a handle (tc_http, tc_daemon) belongs to one thread at a time; different handles may be used at once. */
#ifndef TC_CLIENT_H
#define TC_CLIENT_H

#include "proto/buf.h"

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tc_err {
    char text[1024];
};
/* Fill *e (when not NULL) and return -1. */
int tc_fail(struct tc_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- HTTP ----------------------------------------------------------------------------------------------------------
 */

/* One keep-alive connection to one daemon, opened at the first call and again when the daemon closed it. */
struct tc_http;
/* base: "http://127.0.0.1:8723" or "unix:/run/tcld.sock". NULL + *e when base is malformed or memory is short. */
struct tc_http *tc_http_new(const char *base, struct tc_err *e);
void tc_http_free(struct tc_http *h);
void tc_http_timeout(struct tc_http *h, double seconds);                   /* of one call, 0 = none; default 120 */
int tc_http_token(struct tc_http *h, const char *token, struct tc_err *e); /* sent as Authorization: Bearer */
/* A call in progress fails with "interrupted" soon after *stop became non-zero. NULL: none. */
void tc_http_stop_on(struct tc_http *h, const volatile sig_atomic_t *stop);
const char *tc_http_base(const struct tc_http *h);

enum tc_encoding { TC_IDENTITY, TC_GZIP, TC_ZSTD };
/* Pack bytes as Content-Encoding names it. The result is appended to out. */
int tc_encode(enum tc_encoding how, const void *p, size_t n, struct tp_buf *out, struct tc_err *e);
/* Unpack a whole gzip file in memory; `limit` bounds the result. */
int tc_gunzip(const void *p, size_t n, size_t limit, struct tp_buf *out, struct tc_err *e);

struct tc_request {
    const char *method; /* NULL: GET, or POST when there is a body */
    const char *path;   /* "/v1/hardware?limit=2": percent-encoded, starts with "/" */
    const void *body;   /* NULL: none. Not copied. */
    size_t n;
    const char *content_type;   /* NULL: the header is not sent */
    const char *const *headers; /* "Name: value", NULL-terminated; NULL: none */
    enum tc_encoding encoding;  /* packs the body and sends Content-Encoding */
    bool chunked;               /* Transfer-Encoding: chunked, in small pieces */
    /* When set, takes the reply's body as it comes (a stream of events, a large export). Non-zero stops the call, which
     * then counts as done. */
    int (*sink)(void *arg, const char *p, size_t n);
    void *sink_arg;
};

struct tc_reply {
    long status;
    struct tp_buf head; /* raw header block of the last response */
    struct tp_buf body; /* NUL-terminated behind body.n; empty when there was a sink */
    double seconds;     /* from the start of the call to the last byte */
};

/* *r must be zeroed or hold an earlier reply, whose memory is reused. Fails only when no reply came. */
int tc_call(struct tc_http *h, const struct tc_request *q, struct tc_reply *r, struct tc_err *e);
void tc_reply_free(struct tc_reply *r); /* releases and zeroes */
/* Value of a header (case-insensitive name) copied into buf; NULL when it is absent. */
const char *tc_reply_header(const struct tc_reply *r, const char *name, char *buf, size_t n);

/* ---- JSON ----------------------------------------------------------------------------------------------------------
 */

/* The body as JSON: a new reference, or NULL + *e. */
json_t *tc_reply_json(const struct tc_reply *r, struct tc_err *e);
/* "422 Unusable: <detail>" of a problem document, else the status and the first line of the body. */
void tc_reply_explain(const struct tc_reply *r, char *buf, size_t n);

/* Borrowed value at a JSON pointer ("/model/id", "/items/0"); NULL when it is not there. Keys hold no "~" or "/". */
json_t *tc_at(const json_t *j, const char *pointer);
double tc_num(const json_t *j, const char *pointer); /* NaN when absent or null */
int64_t tc_int(const json_t *j, const char *pointer, int64_t absent);
const char *tc_str(const json_t *j, const char *pointer); /* borrowed; NULL when absent or no string */

/* A call whose reply must be 2xx JSON: `body` (borrowed, may be NULL) is sent as application/json, *out (may be NULL)
 * becomes a new reference. The error text names the call and holds what the daemon said. */
int tc_json(struct tc_http *h, const char *method, const char *path, const json_t *body, json_t **out,
            struct tc_err *e);
/* POST log lines (application/x-ndjson); reply as tc_json(). */
int tc_post_lines(struct tc_http *h, const char *path, const void *lines, size_t n, json_t **out, struct tc_err *e);

/* Poll a job until it has ended. progress(arg, job) after each poll may return non-zero to give up. *out is the job as
 * it ended (any end is a success of this call), a new reference. */
int tc_job_wait(struct tc_http *h, int64_t id, double seconds, int (*progress)(void *arg, const json_t *job), void *arg,
                json_t **out, struct tc_err *e);

/* ---- a tcld of one's own -------------------------------------------------------------------------------------------
 */

struct tc_daemon_opts {
    const char *binary;      /* "build/tcld" */
    const char *state_dir;   /* made by the daemon when it is not there */
    const char *log;         /* its stderr and stdout are appended here; NULL: STATE_DIR.log */
    const char *listen;      /* NULL: "127.0.0.1:0" */
    const char *const *args; /* more arguments, NULL-terminated; NULL: none */
    const char *const *env;  /* "NAME=value" to add, NULL-terminated; NULL: none */
    double ready_seconds;    /* 0: 30 */
    bool detach;             /* own session, outlives us; else it is killed when we die */
};
struct tc_daemon;

/* Start it and wait until /readyz says 200. Fails when it exits or is not ready in time: the text holds its last words.
 */
int tc_daemon_start(const struct tc_daemon_opts *o, struct tc_daemon **out, struct tc_err *e);
const char *tc_daemon_base(const struct tc_daemon *d); /* for tc_http_new() */
int tc_daemon_port(const struct tc_daemon *d);         /* 0 for a unix socket */
pid_t tc_daemon_pid(const struct tc_daemon *d);
const char *tc_daemon_log(const struct tc_daemon *d);
bool tc_daemon_running(struct tc_daemon *d);
void tc_daemon_signal(struct tc_daemon *d, int sig);
/* Wait for its end: exit status 0..255, 128 + signal, or -1 when it still runs after `seconds`. */
int tc_daemon_wait(struct tc_daemon *d, double seconds);
/* SIGTERM, wait, SIGKILL after `seconds`. Returns as tc_daemon_wait(); freed by the caller. */
int tc_daemon_stop(struct tc_daemon *d, double seconds);
/* Stops what still runs unless it is detached. NULL is fine. */
void tc_daemon_free(struct tc_daemon *d);

/* Run a program to its end: argv[0] is looked up as execvp does; stdout and stderr are collected (1 MiB at most each;
 * may be NULL). Exit status as tc_daemon_wait(); killed after `seconds`. */
int tc_run(const char *const *argv, const char *const *env, double seconds, struct tp_buf *out, struct tp_buf *err,
           struct tc_err *e);

/* ---- files ---------------------------------------------------------------------------------------------------------
 */

enum { TC_MAX_FILE = 1 << 30 };
/* A whole file, appended and NUL-terminated behind n; names that end in ".gz" are unpacked. */
int tc_read_file(const char *path, struct tp_buf *out, struct tc_err *e);
int tc_write_file(const char *path, const void *p, size_t n, struct tc_err *e);
int tc_remove_tree(const char *path, struct tc_err *e); /* a directory and what is in it; no error when absent */
double tc_now(void);                                    /* monotonic seconds */
void tc_sleep(double seconds);                          /* ends early on a signal */

#endif
