/* MetaSchedule (TVM's second tuner) for a program that speaks Ansor: a tuning record becomes a record whose steps are
 * of kind MS, one for each instruction of its trace.
 *
 * The text of such a step is the instruction as TVM prints it, compact, with its decision, if it has one, as a fifth
 * item: ["SamplePerfectTile",["l1"],[4,64],["v4","v5","v6","v7"],[2,4,2,8]]. So nothing of a trace is lost: it can be
 * stored, exported, and made a trace again. The workload key of such a record is the array of the workload's name (or
 * its structural hash) and its args_info. Grammar: apache/tvm src/tir/schedule/trace.cc (AsJSON),
 * src/meta_schedule/database/database.cc (TuningRecordNode::AsJSON). docs/metaschedule.md.
 *
 * Pure functions but for the buffers given. */
#ifndef TP_MS_H
#define TP_MS_H

#include "proto/record.h"

enum {
    TP_MS_ARGS = 64, /* inputs, attributes, outputs, decisions: what is looked at; more is skipped */
    TP_MS_TEXT = 48  /* bytes of a string that is looked at, with its NUL; longer ones look empty */
};

struct tp_ms_arg {
    enum { TP_MS_OTHER, TP_MS_NUMBER, TP_MS_STRING, TP_MS_NAME } kind; /* NAME: a variable; STRING: a quoted text */
    double number;
    char text[TP_MS_TEXT];
};

/* One instruction; arrays within its parts are laid flat. */
struct tp_ms_inst {
    char name[TP_MS_TEXT];
    int n_in, n_attr, n_out, n_decision;
    struct tp_ms_arg in[TP_MS_ARGS], attr[TP_MS_ARGS], out[TP_MS_ARGS];
    double decision[TP_MS_ARGS];
};
/* The text of an MS step. BAD_STEP when it is not an array of a name, three arrays and at most a decision. */
int tp_ms_parse(const char *s, size_t n, struct tp_ms_inst *out, struct tp_err *e);

/* What stands around the records of a body; texts of JSON values, n = 0: absent. */
struct tp_ms_context {
    struct tp_str workload;  /* a string */
    struct tp_str workloads; /* an array: strings, or [hash, module] as database_workload.json has them */
    struct tp_str target;    /* a string or an object, for records without one */
    struct tp_str args_info; /* an array, for records without one */
};
/* A tuning record, [trace, run_secs, target, args_info] with nulls or fewer items, or [index of its workload, that], as
 * the text of a record that tp_record_parse() takes. The pointers of errors are into the tuning record. BAD_TASK,
 * BAD_STATE, BAD_STEP, TOO_MANY_STEPS, NO_MEMORY. */
int tp_ms_convert(const struct tp_ms_context *c, const char *s, size_t n, struct tp_buf *out, struct tp_err *e);

/* Is every step (none: neither) of this record a MetaSchedule instruction? */
bool tp_ms_is(const struct tp_record *r);

#endif
