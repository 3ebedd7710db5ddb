/* When a hardware retrains by itself: off unless an operator sets a policy (PUT .../policy). */
#ifndef TD_POLICY_H
#define TD_POLICY_H

#include "daemon/daemon.h"
#include "proto/buf.h"

enum {
    TD_POLICY_COOLDOWN = 3600, /* seconds, when the policy does not say */
    TD_POLICY_MS = 30000       /* policies are looked at so often, and whenever measurements came in */
};

struct td_policy {
    int64_t measurements;     /* retrain after so many new ones; 0: not for that */
    double drift;             /* retrain when the latency error has grown by this factor; 0: not for that */
    int64_t cooldown_seconds; /* from the start of the hardware's last retrain, automatic or not */
};
bool td_policy_on(const struct td_policy *p);
void td_policy_write(const struct td_policy *p, struct tp_buf *out); /* JSON object */
/* text NULL, or not of a policy: off. */
void td_policy_read(struct td_policy *p, const char *text);

/* Submits a retrain of that hardware when its policy asks for one, no other of its family waits or runs, and the time
 * since the last is over. *job: 0 none. Errors of td_jobs_submit() and of the store. */
int td_policy_check(struct td_daemon *d, struct st_reader *r, const char *hardware, int64_t *job, struct tp_err *e);
/* The same for all hardware with a policy; failures are logged. */
void td_policy_check_all(struct td_daemon *d, struct st_reader *r);

#endif
