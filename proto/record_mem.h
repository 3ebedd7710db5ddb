/* What stands behind struct tp_record: its buffers, and the parts of the record reader that body.c shares. Private to
 * proto/.
 *
 * Invariant: while task_ok, `task` is the decoded form of the bytes task_raw and points only into this struct; so a
 * record whose task bytes are the same needs no second decoding. */
#ifndef TP_RECORD_MEM_H
#define TP_RECORD_MEM_H

#include "proto/json.h"
#include "proto/record.h"

struct tp_record_mem {
    struct tp_buf task_raw;  /* the task array as read last */
    struct tp_buf task_text; /* its decoded strings */
    struct tp_task task;     /* points into the two above and names */
    bool task_ok;
    uint64_t decoded;                 /* how many task arrays were decoded into it: which one it holds */
    char task_id[TP_TASK_ID_LEN + 1]; /* of task; "" until asked for */
    int32_t *ints;                    /* list operands of all steps, one after the other */
    size_t n_ints, cap_ints;
    struct tp_buf text;    /* string operands of all steps, one after the other */
    struct tp_buf version; /* "v" */
    struct tp_step steps[TP_MAX_STEPS];
    double costs[TP_MAX_COSTS];
    struct tp_str names[TP_MAX_NAMES];
};

/* One parse. Results wait here until all is well. */
struct tp_reader {
    struct tp_json j;
    struct tp_record_mem *m;
    struct tp_err *e;
    int rc; /* of a primitive that returned NULL */
    uint32_t n_steps;
    struct tp_result result;
    bool has_result, has_version, bad_result;
};

/* The state that is due at c->j: [[], [step, ...]]. Fills the steps of c->m and c->n_steps. */
int tp_read_state(struct tp_reader *c);

/* The memory of r, made at first use; NULL when out of memory (then *e is set). */
struct tp_record_mem *tp_record_mem(struct tp_record *r, struct tp_err *e);

/* Room for `more` ints after n_ints. */
int tp_record_room(struct tp_record_mem *m, size_t more, struct tp_err *e);

/* Steps were filled with counts only, because ints and text may move while they grow: set their pointers. */
void tp_steps_bind(struct tp_record_mem *m, uint32_t n);

/* Check step k against the rules and the steps before it. `list` is its list operand. */
int tp_step_check(const struct tp_step *steps, uint32_t k, const int32_t *list, struct tp_err *e);

/* An error at operand `operand` (0-based after the tag; -1: the step as a whole) and item `item` (-1: not in a list) of
 * step k. */
int tp_step_fail(struct tp_err *e, enum tp_code code, uint32_t k, int operand, int item, const char *fmt, ...)
    __attribute__((format(printf, 6, 7)));

/* "inner_to_outer": name of the operand of a kind, from steps.def; its length in *n. */
const char *tp_step_operand(enum tp_step_kind k, int operand, int *n);
int tp_step_by_tag(const char *s, size_t n); /* enum tp_step_kind or -1 */

/* The record at the start of s[0..n), which may go on behind it; *used = bytes up to and including its closing brace.
 */
int tp_record_parse_prefix(struct tp_record *r, const char *s, size_t n, size_t *used, struct tp_err *e);

/* The same for a record in two pieces: the task that tp_task_parse() gave r last, and a state at the start of s[0..n).
 * No "r", no "v". */
int tp_record_parse_state(struct tp_record *r, const char *s, size_t n, size_t *used, struct tp_err *e);

/* Decode a task array that stands alone in s[0..n). *r gets it only when it is fine. */
int tp_task_decode(struct tp_record *r, const char *s, size_t n, struct tp_err *e);

/* Turn the tokenizer's error into *e: "byte 17: expected ':'". */
int tp_json_fail(const struct tp_json *j, const char *pointer, struct tp_err *e);

/* Something else than the wanted value starts at j->p. Broken syntax wins over the wrong type. */
int tp_json_unexpected(struct tp_json *j, enum tp_code code, const char *pointer, const char *wanted, struct tp_err *e);

#endif
