/* Running tclctl for a test: in a home of the test's own, against the daemon in use. */
#ifndef BB_CTL_RUN_H
#define BB_CTL_RUN_H

#include "tests/http/suite.h"

#include <string.h>

enum { FAILED = 1, USAGE = 2, NO_ANSWER = 3, REFUSED = 4, PARTLY = 5 /* exit codes, tclctl(1) */ };

const char *ctl_binary(void); /* $TCLCTL, default build/tclctl */
const char *ctl_home(void);   /* its journals and settings; made at the first call in a process */

struct run {
    int status;
    char *out, *err; /* NUL-terminated, until the end of the test */
    json_t *json;    /* of out, NULL when it is none; borrowed from nobody: it goes with the test's process */
};
struct run ctl(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* the words are split at blanks */
struct run ctl_run_env(const char *const *env, const char *const *argv);
char *ctl_text(struct tp_buf *b); /* takes b */

#define ck_run(r, want)                                                                                                \
    do {                                                                                                               \
        struct run ck_r = (r);                                                                                         \
        ck_assert_msg(ck_r.status == (want), "status %d instead of %d\n%.1000s%.1000s", ck_r.status, (want), ck_r.out, \
                      ck_r.err);                                                                                       \
    } while (0)
#define ck_has(text, part)     ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in: %.2000s", part, text)
#define ck_has_not(text, part) ck_assert_msg(strstr(text, part) == NULL, "\"%s\" in: %.2000s", part, text)

const char *ctl_file(const char *name, const char *text, size_t n); /* writes it; its path */
int ctl_count(const char *text, const char *part);
int64_t ctl_measured(const char *hw);

#endif
