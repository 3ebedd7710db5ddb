/* Loop replay: what each transform step does to the loop nests, as far as a record alone tells.
 * Rules: docs/records.md (5.1), source apache/tvm v0.14.0 src/auto_scheduler/transform_step.cc. The compute DAG is not
 * in a record, so extents are learned from SP steps and pass through FSP, FFSP, FU, RE, CHW, CHR, RF; 0 = unknown. One
 * `struct tp_replay` per thread, reused without allocation in the steady state. */
#ifndef TP_REPLAY_H
#define TP_REPLAY_H

#include "proto/record.h"

enum { TP_REPLAY_STAGES = 1024, TP_REPLAY_LOOPS = 512, TP_PARTS = 5 };

/* What one step means. Products saturate at INT64_MAX and count an unknown extent as 1.
 * stage, iter and target_stage are the record's own ids at the moment of the step (CHR: target_stage = first reader);
 * ids beyond TP_REPLAY_STAGES or TP_REPLAY_LOOPS leave the nests as they are. */
struct tp_step_view {
    int32_t stage, iter, target_stage; /* iter -1 when the step has none */
    int64_t extent;  /* of the loop acted on (FU: the fused one, RE: the outermost, CA: the attach loop); 0 unknown */
    int32_t n_parts; /* parts kept below (<= TP_PARTS) */
    int64_t parts[TP_PARTS]; /* SP, FSP, FFSP: resulting extents, outermost first; RE: the four innermost, innermost
                                first */
    int64_t outer;           /* AN, PR, CA: product of the loops outside (CA: and the attach loop itself); 0 n/a */
    int64_t inner;           /* AN, PR, CA: product of the loops inside; 0 n/a */
    int32_t inside;          /* AN, PR, CA: number of the loops inside; -1 n/a */
    int64_t moved;           /* CA, CR: product of the loops of the stage that is moved; 0 n/a */
    int32_t n_loops;         /* loops of the stage after the step */
    int64_t padded;          /* splits: product of the parts (> extent when the split pads); 0 n/a */
    int32_t annotation;      /* AN code, else -1 */
    int32_t scope;           /* CHR, CHW: 1 local, 2 shared, 3 global, 4 other; else 0 */
    int64_t unroll;          /* PR auto_unroll_max_step$N: N, else -1 */
};

struct tp_loop {
    int64_t extent;     /* 0 = unknown */
    int32_t annotation; /* AN code, 0 none */
};

struct tp_stage_view {
    int32_t stage; /* final stage id */
    int32_t n_loops;
    const struct tp_loop *loops; /* outermost first, valid until the next replay */
    int32_t attach_stage;        /* CA: follows later SP, FU, RE of the target and new stages; -1 when not attached */
    int32_t attach_iter;
    int32_t scope;  /* of a stage made by CHR or CHW, coded as above; 0 other stages */
    int64_t unroll; /* last auto_unroll_max_step of the stage, -1 none */
};

struct tp_replay;
struct tp_replay *tp_replay_new(void);
void tp_replay_free(struct tp_replay *p);

/* Replay all steps of r; views[0..n_steps) are filled. Never fails on a record that tp_record_parse() accepted. */
void tp_replay_run(struct tp_replay *p, const struct tp_record *r, struct tp_step_view *views);

/* The stages known after the last run that have loops and are not inlined, by stage id; returns how many (<= max). */
int tp_replay_stages(const struct tp_replay *p, struct tp_stage_view *out, int max);
int64_t tp_replay_max_unroll(const struct tp_replay *p); /* largest unroll limit met, 0 when none */
int tp_replay_attached(const struct tp_replay *p);       /* number of attached stages */
int tp_replay_known_stages(const struct tp_replay *p);

#endif
