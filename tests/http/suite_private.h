/* What the suite's own files share with each other. */
#ifndef BB_SUITE_PRIVATE_H
#define BB_SUITE_PRIVATE_H

#include <jansson.h>

struct tc_daemon;

void *bb_keep(void *p);          /* freed at the end of the test; aborts on NULL */
json_t *bb_keep_json(json_t *o); /* released at the end of the test; NULL is none */
void bb_forget_json(void);
struct tc_daemon *bb_in_use(void);

#endif
