/* The records of one request body, one at a time, in any of the three input forms of API.md (Records):
 * NDJSON lines; {"records": [record, ...]}; {"task": [...], "states": [[stages, steps], ...]}; and for MetaSchedule
 * {"format": "metaschedule", "workload": name, "workloads": [...], "target": ..., "args_info": [...], "records":
 * [tuning record, ...]}, "format" first and "records" last, the others as needed (proto/ms.h).
 *
 * A record that cannot be used never fails its neighbours. An envelope that is broken fails the whole body, possibly
 * only at its end: a writer must read to the end before it stores anything. One owner, one thread; the bytes must
 * outlive it. */
#ifndef TP_BODY_H
#define TP_BODY_H

#include "proto/record.h"

enum tp_form { TP_FORM_NDJSON, TP_FORM_JSON };

struct tp_body;

/* `bytes` is not copied. UTF-8 BOM is skipped. NULL + err->code NO_MEMORY when out of memory. */
struct tp_body *tp_body_open(enum tp_form form, const char *bytes, size_t n, struct tp_err *e);
void tp_body_close(struct tp_body *b);
/* Records of more bytes than this are TOO_LONG; default and most: TP_MAX_LINE. */
void tp_body_limit(struct tp_body *b, size_t bytes);

/* The next record.  1: *r holds a usable record.  0: end of the body (NO_RECORDS is returned instead of 0 if there was
 * none). 2: this record is unusable, *e says why (code, index, line, pointer, detail); go on with the next. With
 * BAD_RESULT only "r" is bad and *r holds the rest of the record: a caller that ignores results may use it. < 0: the
 * body as a whole is unusable (BAD_BODY, NO_RECORDS) or memory ran out (NO_MEMORY): stop. NDJSON: blank lines and lines
 * starting with '#' or ' ' are skipped, a trailing '\r' is stripped, a torn last line is one unusable record, a line
 * over TP_MAX_LINE is TOO_LONG. */
/* With MetaSchedule, pointers are into the tuning record, or, from "/i" on, into the record that it became. */
int tp_body_next(struct tp_body *b, struct tp_record *r, struct tp_err *e);
long tp_body_index(const struct tp_body *b); /* index of the record that tp_body_next() returned last */
long tp_body_line(const struct tp_body *b);  /* its 1-based physical line; 0 for the JSON forms */

/* Does a JSON body begin with "format": "metaschedule"? Looks at the first key only. */
bool tp_body_is_metaschedule(const char *bytes, size_t n);

#endif
