/* What the black-box tests share. Every test binary starts its own daemons ($TCLD, default build/tcld) in folders of
 * its own below one temporary folder, and none outlives it: a test case's daemon is stopped by its fixture in the
 * parent process, a test's own daemon dies with the test's process.
 *
 * What bb_*() returns lives until the end of the test and is never freed by the test. A transport failure (no reply)
 * fails the test. Not for use from other threads, except where said; those make their own tc_http. */
#ifndef BB_SUITE_H
#define BB_SUITE_H

#include "clients/client.h"

#include <check.h>

/* ---- suites and daemons ---- */
/* Runs the suite (CK_FORK), removes the temporary folder when all passed, tells where it is when not. For main(). */
int bb_main(Suite *s);
/* A case whose tests share one daemon (NULL args: default options). */
TCase *bb_case(Suite *s, const char *name, double timeout_seconds);
TCase *bb_case_own(Suite *s, const char *name, double timeout_seconds); /* no shared daemon: tests start their own */
bool bb_slow(void); /* $TCLD_SLOW: a sanitized daemon: fewer rounds, longer timeouts */
bool bb_big(void);  /* $TCLD_BIG: the long form of some tests */
const char *bb_binary(void);
char *bb_path(const char *name);   /* a fresh path below the temporary folder, nothing made there */
struct tc_daemon *bb_daemon(void); /* the case's daemon */
/* A daemon of the test's own. Arguments end with NULL. bb_stop() checks exit status 0 and a log without sanitizer
 * reports. */
struct tc_daemon *bb_start(const char *state_dir, const char *const *args);
void bb_stop(struct tc_daemon *d);
void bb_use(struct tc_daemon *d); /* the calls below go to this daemon from now on */
const char *bb_base(void);
char *bb_log(struct tc_daemon *d); /* its log so far */

/* ---- calls ---- */
struct bb_reply {
    long status;
    const char *body; /* NUL-terminated */
    size_t n;
    json_t *json; /* NULL when the body is no JSON */
    double seconds;
    struct tc_reply raw;
    struct bb_reply *next;
};
struct bb_reply *bb_call(const struct tc_request *q);
struct bb_reply *bb_get(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
struct bb_reply *bb_delete(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
struct bb_reply *bb_json(const char *method, const char *text, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
struct bb_reply *bb_lines(const void *p, size_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
const char *bb_header(const struct bb_reply *r, const char *name); /* NULL when absent */

/* ---- checks (the caller's line is reported) ---- */
#define bb_status(r, want) bb_status_at(__FILE__, __LINE__, r, want)
/* A whole problem document: type urn:tcld:problem:<slug>, title, status, detail, content type. slug NULL: any. */
#define bb_problem(r, status, slug) bb_problem_at(__FILE__, __LINE__, r, status, slug)
#define bb_fail(...)                bb_fail_at(__FILE__, __LINE__, __VA_ARGS__)
/* 200 and these counts in the reply of a write. */
#define bb_counts(r, accepted, duplicates, rejected) bb_counts_at(__FILE__, __LINE__, r, accepted, duplicates, rejected)
void bb_status_at(const char *file, int line, const struct bb_reply *r, long want);
void bb_problem_at(const char *file, int line, const struct bb_reply *r, long status, const char *slug);
void bb_counts_at(const char *file, int line, const struct bb_reply *r, long accepted, long duplicates, long rejected);
void bb_fail_at(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4), noreturn));

/* ---- hardware, training ---- */
void bb_put_hardware(const char *name); /* llvm, family = name: tests do not wait for each other's training */
void bb_post_demo(const char *hw, int from, int n);   /* tasks from .. from + n - 1 of tests/data/demo */
int64_t bb_retrain(const char *hw, const char *body); /* 202 is checked; the job's id */
json_t *bb_wait(int64_t job);                         /* the job as it ended, within 120 s */
json_t *bb_train(const char *hw, const char *body);   /* retrain, wait, "succeeded" is checked */

/* ---- data ---- */
struct bb_text {
    char *p; /* NUL-terminated */
    size_t n;
};
struct bb_text bb_file(const char *path); /* .gz is unpacked */
struct bb_text bb_demo(int from, int n);  /* the lines of n files of tests/data/demo, ordered by name */
int bb_demo_count(void);
struct bb_text bb_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
struct bb_text bb_join(const struct bb_text *parts, size_t n);
/* One synthetic measured line (no newline) of an llvm matmul; different i are different programs. */
struct bb_text bb_record(int i, double cost, long timestamp);
/* n of them with '\n' behind each, costs spread over a factor of 16. */
struct bb_text bb_records(int from, int n);
/* The lines with other costs: of(cost, the program failed); NaN: the line is left out. */
struct bb_text bb_recost(struct bb_text t, double (*of)(double cost, bool failed));
/* The same program without "r"; steps as JSON text for {"task", "states"}. */
struct bb_text bb_unmeasured(int i);
struct bb_text bb_state(int i);
#define BB_TASK                                                                                                        \
    "[\"[\\\"bb_matmul\\\", 512, 512, 512]\", \"llvm -keys=cpu -mcpu=core-avx2\", [8, 64, 64, 0, 0, 0, 0, 0], \"\", "  \
    "1, []]"
size_t bb_line_count(const char *p, size_t n);
/* A path below the shared data folder ($TCLD_SHARED, default ../shared), or NULL (and a line is printed) when it is not
 * there. */
const char *bb_shared(const char *below);
/* Names in a folder that end in `suffix`, sorted; NULL-terminated. */
char **bb_dir(const char *path, const char *suffix);

/* ---- below HTTP ---- */
int bb_connect(void); /* a TCP connection to the daemon in use */
void bb_send(int fd, const char *p, size_t n);
/* Reads until the peer closes, `until` occurs in the text, or seconds passed. *closed (may be NULL) tells which. */
struct bb_text bb_recv(int fd, const char *until, double seconds, bool *closed);

#endif
