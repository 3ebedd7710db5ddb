/* A recorded log as an oracle: what did this program cost when it was measured? */
#ifndef RP_LOG_H
#define RP_LOG_H

#include "clients/client.h"
#include "proto/record.h"

struct rp_log;
/* Reads Ansor logs (.gz too). Lines that do not parse or hold no measurement are left out. NULL + *e: a file cannot be
 * read, or nothing in them is of use. */
struct rp_log *rp_log_new(char *const *files, int n, struct tc_err *e);
void rp_log_free(struct rp_log *l);
size_t rp_log_records(const struct rp_log *l);
size_t rp_log_programs(const struct rp_log *l); /* distinct ones */

/* The result recorded for r's program into *out, whose costs live as long as the log; of several records each in turn.
 * False: the log does not know it. */
bool rp_log_find(struct rp_log *l, struct tp_record *r, struct tp_result *out);

#endif
