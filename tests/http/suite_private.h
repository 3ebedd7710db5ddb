/* What the suite's own files share with each other. */
#ifndef BB_SUITE_PRIVATE_H
#define BB_SUITE_PRIVATE_H

struct tc_daemon;

void *bb_keep(void *p);    /* freed at the end of the test; aborts on NULL */
void bb_forget_json(void); /* releases the JSON values that bb_wait() gave out */
struct tc_daemon *bb_in_use(void);

#endif
