/* What the parts of libtclfeat share. Private to proto/tclfeat*.c.
 *
 * tclfeat.c owns the encoder and the table of sets; tclfeat_tclf1.c, tclfeat_task.c and tclfeat_summary.c make tclf-1,
 * tclfeat_tlp.c makes the TLP sets. All functions but the encoder's are pure. */
#ifndef TCLFEAT_PRIV_H
#define TCLFEAT_PRIV_H

#include "proto/replay.h"
#include "proto/tclfeat.h"

#include <math.h>
#include <string.h>

/* Column numbers and divisors of tclf-1: COL(STEP, EXTENT), DIV(STEP, EXTENT), COUNT_OF(STEP, PARTS). */
enum {
#define X(group, name, first, count, divisor, formula)                                                                 \
    COL_##group##_##name = (first), DIV_##group##_##name = (divisor), COUNT_##group##_##name = (count),
#include "proto/tclfeat_columns.def"
#undef X
    TCLF_COLS = 64,
    TCLF_SUMMARY = 72,
    TCLF_NEST = 32, /* columns of one nest in the summary */
    TCLF_KIND_HW = TP_STEP_KINDS,
    TCLF_KIND_TASK
};
#define COL(group, name)      ((int)COL_##group##_##name)
#define DIV(group, name)      ((float)DIV_##group##_##name)
#define COUNT_OF(group, name) ((int)COUNT_##group##_##name)

static inline float lg(float x)
{
    return log2f(1.0f + x);
}

static inline int32_t at_most(int64_t v, int32_t limit)
{
    return v < 0 ? 0 : v > limit ? limit : (int32_t)v;
}

/* Floats travel in keys as their bits. Integer to float conversion is exact by IEEE 754, so keys are the same
 * everywhere. */
static inline int32_t float_bits(float f)
{
    int32_t i;

    memcpy(&i, &f, sizeof i);
    return i;
}

static inline float bits_float(int32_t i)
{
    float f;

    memcpy(&f, &i, sizeof f);
    return f;
}

/* ---- tclf-1 ---- */
int tclf1_hw_key(const struct tp_task *t, const struct tclfeat_hw *hw, struct tclfeat_key *key, struct tp_err *err);
void tclf1_task_key(const struct tp_task *t, struct tclfeat_key *key);
void tclf1_step_key(const struct tp_step *s, const struct tp_step_view *v, struct tclfeat_key *key);
void tclf1_row(const struct tclfeat_key *key, float row[TCLF_COLS]);
void tclf1_task_row(const struct tclfeat_key *key, float row[TCLF_COLS]); /* row is zeroed but for the kind */
/* `stages` is scratch for TP_REPLAY_STAGES views; `views` is what the replay of r gave. */
void tclf1_summary(const struct tp_replay *p, const struct tp_record *r, const struct tp_step_view *views,
                   struct tp_stage_view *stages, float out[TCLF_SUMMARY]);
uint32_t tclf1_crc(uint32_t crc);

/* ---- tclm-1 ---- */
struct ms_walk; /* scratch, large */
struct ms_walk *ms_walk_new(void);
void ms_walk_free(struct ms_walk *w);
/* The rows of the instructions, >= 0 of them. */
int tclm1_encode(struct ms_walk *w, const struct tp_record *r, struct tclfeat_key *keys, float *summary,
                 struct tp_err *err);
void tclm1_row(const struct tclfeat_key *key, float row[TCLF_COLS]);
uint32_t tclm1_crc(uint32_t crc);

/* ---- TLP ---- */
int tlp_encode(enum tclfeat_set s, const struct tp_record *r, struct tclfeat_key *keys); /* returns the rows, >= 1 */
void tlp_row(enum tclfeat_set s, const struct tclfeat_key *key, float *row);
uint32_t tlp_crc(enum tclfeat_set s, uint32_t crc);
int tlp_cols(enum tclfeat_set s);

#endif
