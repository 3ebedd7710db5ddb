/* Daemons under faults, for the tests of this folder. As suite.h: what is returned lives until the end of the test. */
#ifndef FAULT_WITH_H
#define FAULT_WITH_H

#include "tests/fault/fault.h"
#include "tests/http/suite.h"

/* A fresh control block for a daemon with that state directory; nothing is wrong yet. */
struct fault_control *fault_new(const char *state_dir);
/* Starts the daemon with the block's faults. NULL when it ended before it was ready, if `may_fail`. */
struct tc_daemon *fault_start(struct fault_control *f, const char *state_dir, const char *const *args, bool may_fail);
/* A copy of a folder. */
char *fault_copy(const char *dir);
/* Waits until the log holds a text; fails the test after `seconds`. */
void fault_log_has(struct tc_daemon *d, const char *text, double seconds);
/* Polls GET path until its status is `want`; fails the test after `seconds`. */
void fault_status(const char *path, long want, double seconds);
/* A hardware with measurements of two tasks and a model, in a stopped daemon's state directory. */
char *fault_template(const char *hw);

#endif
