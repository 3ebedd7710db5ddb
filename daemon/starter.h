/* Knowledge that came with tcld: what a family answers with before anything was measured or trained. */
#ifndef TD_STARTER_H
#define TD_STARTER_H

#include "daemon/daemon.h"

struct td_starter;
/* By the configuration (starter_knowledge). "auto" looks beside the program: ../share/tcld/kb, ../config/kb,
 * ../../config/kb; finding nothing is no error, a directory that was named and does not hold a knowledge base is:
 * CONFIG. *out NULL: none. */
int td_starter_new(const struct td_config *c, struct td_starter **out, struct tp_err *e);
void td_starter_free(struct td_starter *x);
/* Publishes the knowledge base of that kind for a family that has none; then, and when there is none for it, nothing.
 * Any thread; waits for the disk. Failures are logged. */
void td_starter_family(struct td_daemon *d, struct st_reader *r, const char *family);
void td_starter_all(struct td_daemon *d); /* at start: the families that are there */

#endif
