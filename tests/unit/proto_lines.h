/* What the tests of proto/ share: three composed log lines, text surgery, a seeded generator, real logs where there are
 * any. */
#ifndef PROTO_LINES_H
#define PROTO_LINES_H

#include "proto/record.h"

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

/* main() of a test file: RUN("proto/err", test, test); 0 when all passed. */
int run_tests(const char *suite, const TTest *const *tests);
#define RUN(suite, ...) run_tests(suite, (const TTest *const[]){__VA_ARGS__, NULL})

extern const char CPU_LINE[]; /* v0.6, 13 steps, valid measurement */
extern const char GPU_LINE[]; /* v0.6, a failed run */
extern const char OLD_LINE[]; /* v0.3: a task of three items */

/* A copy of `line` with its first `from` replaced by `to`; fails the test when there is no `from`. */
char *with(const char *line, const char *from, const char *to);
char *wrap(const char *steps); /* a record without "r" and "v" around a steps array: [["CI", 1]] */

/* Parse a record from a copy that a sanitizer guards. refused: with this code, this JSON pointer, and a detail that
 * holds `says`. */
int record_parse(const char *line, struct tp_err *e);
void record_accepted(const char *line);
void record_refused(const char *line, enum tp_code code, const char *pointer, const char *says);

/* xorshift64*: the same numbers everywhere. */
uint32_t next_random(uint64_t *state);
uint32_t below(uint64_t *state, uint32_t n);

/* One random change to text[0..*n) with room for `cap` bytes: flip, delete, insert, cut, or copy a piece. */
void mutate(uint64_t *rng, char *text, size_t *n, size_t cap);

/* Call fn for every line of every log below $TCLD_SHARED/data (default ../shared/data) and tests/data whose path holds
 * `part`; every `stride`-th line only. Returns the number of lines, 0 when there are no logs. */
typedef void (*line_fn)(void *arg, const char *path, const char *line, size_t n);
size_t each_log_line(const char *part, size_t stride, line_fn fn, void *arg);

#endif
