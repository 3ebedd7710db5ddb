/* TVM auto_scheduler (Ansor) measure records: parse, check, print again, pack.
 * Grammar and acceptance rules: docs/records.md. Upstream's reader and writer: apache/tvm v0.14.0
 * src/auto_scheduler/measure_record.cc.
 *
 * A `struct tp_record` owns growable buffers and is meant to be reused: parse into the same one again and again and
 * nothing is allocated in the steady state. Its pointers live until the next parse into it or tp_record_free().
 * Not thread-safe; one owner. Functions that take `const struct tp_record *` only read. */
#ifndef TP_RECORD_H
#define TP_RECORD_H

#include "proto/buf.h"
#include "proto/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TP_MAX_LINE = 1 << 20, /* bytes of one record */
    TP_MAX_STEPS = 512,    /* transform steps of one record */
    TP_MAX_LIST = 256,     /* ints in one list operand */
    TP_MAX_DEPTH = 64,     /* JSON nesting of one record */
    TP_MAX_COSTS = 1024,   /* repeats of one measurement */
    TP_MAX_NAMES = 256,    /* task input names */
    TP_HW_PARAMS = 8,
    TP_TASK_ID_LEN = 16 /* hex digits of a task id */
};

/* X(TAG, operand grammar): i = int, l = list of ints, s = string, in order after the tag. proto/steps.def */
enum tp_step_kind {
#define X(tag, grammar, meaning) TP_STEP_##tag,
#include "proto/steps.def"
#undef X
    TP_STEP_KINDS,              /* those of auto_scheduler */
    TP_STEP_MS = TP_STEP_KINDS, /* "s": an instruction of a MetaSchedule trace (proto/ms.h); alone among its like */
    TP_STEP_ALL
};
const char *tp_step_tag(enum tp_step_kind k);     /* "SP" */
const char *tp_step_grammar(enum tp_step_kind k); /* "iiili" */

struct tp_str {
    const char *s; /* decoded bytes, valid UTF-8, not NUL-terminated */
    uint32_t n;
};

/* Operands: op[] holds the `i` operands in the order of the grammar (so SP: stage, iter, extent, inner_to_outer;
 * FFSP: stage, iter, level, factor_or_nparts); `list` the one list operand; `str` the one string operand. */
struct tp_step {
    uint8_t kind; /* enum tp_step_kind */
    uint16_t n_list;
    int32_t op[4];
    const int32_t *list; /* n_list ints, inside the record's own buffer */
    struct tp_str str;
};

struct tp_task {
    int n_items; /* 2..6 items of the task array that were there */
    struct tp_str workload_key;
    struct tp_str target;
    bool has_hw_params;
    int32_t hw_params[TP_HW_PARAMS]; /* ANSOR order: num_cores, vector_unit_bytes, cache_line_bytes,
                                        max_shared_memory_per_block, max_local_memory_per_block, max_threads_per_block,
                                        max_vthread_extent, warp_size */
    struct tp_str target_host;
    int32_t layout; /* layout-rewrite option, 0 when absent */
    uint32_t n_names;
    const struct tp_str *names; /* task input names */
};

struct tp_result {
    uint32_t n_costs;
    const double *costs; /* seconds, as read */
    int32_t error_no;    /* 0..8 */
    double all_cost;     /* seconds */
    double timestamp;    /* unix seconds */
};

struct tp_record {
    struct tp_task task;
    uint32_t n_steps;
    struct tp_step *steps;
    bool has_result;
    struct tp_result result;
    bool has_version;
    struct tp_str version;     /* "v0.6"; only reported */
    struct tp_record_mem *mem; /* private */
};

void tp_record_init(struct tp_record *r);
void tp_record_free(struct tp_record *r);

/* Parse one record: `s[0..n)` is one JSON object, without line end. Strict JSON and UTF-8; text after the closing brace
 * is BAD_JSON. Keys "i", "r", "v" in any order, "i" required, others UNKNOWN_KEY. Errors: the record codes of
 * proto/errors.def, with err->pointer ("/i/1/1/7/3") and a detail that names the step index. Broken JSON wins over a
 * wrong operand at the same place; else the first fault in reading order is told. After a failure *r is unspecified but
 * may be parsed into again, with one exception: BAD_RESULT is told only when "r" is all that is wrong, and *r then is
 * the record without it (has_result false), good for a caller that ignores results. */
int tp_record_parse(struct tp_record *r, const char *s, size_t n, struct tp_err *e);

/* Is the result a valid label (error_no 0, at least one cost, each finite, >= 1e-12, < 1e9)? -> TP_LABEL_VALID.
 * A failure (error_no != 0, or a cost >= 1e9 with error_no 0)? -> TP_LABEL_FAILURE.
 * error_no 0 with no costs, lower ones (zero, negative) or no "r" at all -> TP_LABEL_NONE (not measured). */
enum tp_label { TP_LABEL_NONE, TP_LABEL_VALID, TP_LABEL_FAILURE };
enum tp_label tp_record_label(const struct tp_record *r);
double tp_result_min_cost(const struct tp_result *r); /* minimum of the repeats, seconds; 1e10 when there is none */

/* Print as TVM 0.14's writer does: keys i, r, v; ", " and ": "; floats by %.6g; timestamp truncated to an integer; no
 * newline. The task array keeps the length it came with. "r" and "v" are left out when the record has none. */
void tp_record_emit(const struct tp_record *r, struct tp_buf *out);
void tp_task_emit(const struct tp_task *t, struct tp_buf *out);                  /* only the task array */
void tp_steps_emit(const struct tp_step *steps, uint32_t n, struct tp_buf *out); /* only the steps array */
void tp_result_emit(const struct tp_result *r, struct tp_buf *out);              /* only the result array */

/* Re-read parts printed by the functions above (the store keeps tasks as their emitted text). Only .task of *r is
 * written. */
int tp_task_parse(struct tp_record *r, const char *s, size_t n, struct tp_err *e);

/* Steps <-> compact varint bytes, independent of JSON: what the store keeps and what programs are identified by. */
void tp_steps_pack(const struct tp_step *steps, uint32_t n, struct tp_buf *out);
int tp_steps_unpack(struct tp_record *r, const void *p, size_t n, struct tp_err *e); /* writes .steps/.n_steps of *r */

/* Canonical task identity (docs/records.md): compact JSON `[<workload key re-serialised compactly>,"<target
 * kind>",<layout>]`. id = first 16 hex digits of its SHA-256, NUL-terminated; "" when out of memory. */
void tp_task_identity(const struct tp_task *t, struct tp_buf *canonical);
void tp_task_id(const struct tp_task *t, char id[TP_TASK_ID_LEN + 1]);
/* The id of the task that was parsed into *r last, hashed once per distinct task text: cheap for record after record of
 * one task. "" when there is none or out of memory. Lives until the next parse. */
const char *tp_record_task_id(struct tp_record *r);

/* 16-byte program hash: SHA-256 over (task identity, NUL, packed steps), truncated. */
void tp_program_hash(const char *task_id, const void *packed, size_t n, uint8_t hash[16]);

#endif
