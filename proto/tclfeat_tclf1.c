/* tclf-1: hardware row and step rows, first as keys, then as floats.
 *
 * A key holds what the row shows and nothing more (ids clamped, products as floats, no step number), so that the
 * thousands of variants of one task share most of their rows. Row types share columns: the one-hot of the kind tells
 * them apart. The columns themselves are tclfeat_columns.def, explained in docs/features.md. Pure functions. */
#include "proto/tclfeat_priv.h"

#include <zlib.h>

enum {
    MAX_ID = 127, /* larger ids, counts and positions look like this one */

    /* Where a step key keeps what. */
    K_KIND = 0,
    K_ANNOTATION,
    K_SCOPE,
    K_STAGE,
    K_ITER,
    K_TARGET_STAGE,
    K_EXTENT,
    K_UNKNOWN,
    K_PARTS,
    K_OUTER = K_PARTS + TP_PARTS,
    K_INNER,
    K_MOVED,
    K_INSIDE,
    K_N_LOOPS,
    K_UNROLL,
    K_PADDING,
    K_INNERMOST,
    K_COUNT,
    K_ORIGIN,
    K_DETAIL = K_ORIGIN + 2,
    K_STEP_END,

    /* ... and a hardware key. */
    K_HW_VALUE = 1,
    K_HW_KNOWN = K_HW_VALUE + TCLFEAT_HW,
    K_HW_TARGET
};
_Static_assert((int)K_STEP_END <= (int)TCLFEAT_KEY, "step key too long");
_Static_assert(COUNT_OF(STEP, PARTS) == (int)TP_PARTS, "columns of the parts");
_Static_assert(COUNT_OF(HW, VALUE) == (int)TCLFEAT_HW && COUNT_OF(HW, KNOWN) == (int)TCLFEAT_HW,
               "columns of the descriptor");
_Static_assert(COUNT_OF(ALL, KIND) == (int)TCLF_KIND_TASK + 1, "columns of the kind");

static const float MAX_PADDING = 4.0f;
static const float MAX_HW_VALUE = 1e18f;

/* ---- hardware row
 * ---------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    float divisor;
    int param;
} descriptor[TCLFEAT_HW] = {
#define X(name, divisor, param) {#name, divisor, param},
#include "proto/descriptor.def"
#undef X
};

const char *tclfeat_hw_name(int i)
{
    return i >= 0 && i < TCLFEAT_HW ? descriptor[i].name : NULL;
}

/* TVM writes -1 or 0 where a parameter does not apply and INT32_MAX for "no limit": none of them tells anything. */
static bool param_known(const struct tp_task *t, int i)
{
    return i >= 0 && t->has_hw_params && t->hw_params[i] > 0 && t->hw_params[i] < INT32_MAX;
}

int tclf1_hw_key(const struct tp_task *t, const struct tclfeat_hw *hw, struct tclfeat_key *key, struct tp_err *err)
{
    struct tp_target target;
    uint32_t known = 0;
    int rc = tp_target_parse(t->target.s, t->target.n, &target, err);

    if (rc < 0)
        return rc;
    memset(key, 0, sizeof *key);
    for (int i = 0; i < TCLFEAT_HW; i++) {
        double v = -1.0;

        if (param_known(t, descriptor[i].param))
            v = t->hw_params[descriptor[i].param];
        else if (hw && (hw->known >> i & 1))
            v = hw->value[i];
        if (!(v >= 0.0)) /* unknown, negative or NaN */
            continue;
        known |= 1u << i;
        key->k[K_HW_VALUE + i] = float_bits(v < (double)MAX_HW_VALUE ? (float)v : MAX_HW_VALUE);
    }
    key->k[K_KIND] = TCLF_KIND_HW;
    key->k[K_HW_KNOWN] = (int32_t)known;
    key->k[K_HW_TARGET] = (int32_t)(target.kind == TP_TARGET_ANY && hw ? hw->kind : target.kind);
    return 0;
}

static void hw_row(const struct tclfeat_key *key, float *row)
{
    int32_t target = key->k[K_HW_TARGET];

    for (int i = 0; i < TCLFEAT_HW; i++)
        if ((uint32_t)key->k[K_HW_KNOWN] >> i & 1) {
            row[COL(HW, VALUE) + i] = lg(bits_float(key->k[K_HW_VALUE + i])) / descriptor[i].divisor;
            row[COL(HW, KNOWN) + i] = 1.0f;
        }
    if (target >= 0 && target < COUNT_OF(HW, TARGET))
        row[COL(HW, TARGET) + target] = 1.0f;
}

/* ---- step rows
 * ------------------------------------------------------------------------------------------------------- */

void tclf1_step_key(const struct tp_step *s, const struct tp_step_view *v, struct tclfeat_key *key)
{
    int32_t *k = key->k;
    bool splits = false;

    k[K_KIND] = s->kind;
    k[K_ANNOTATION] = -1;
    k[K_STAGE] = at_most(v->stage, MAX_ID);
    k[K_ITER] = v->iter < 0 ? -1 : at_most(v->iter, MAX_ID);
    k[K_TARGET_STAGE] = at_most(v->target_stage, MAX_ID);
    k[K_SCOPE] = v->scope;
    k[K_EXTENT] = at_most(v->extent, INT32_MAX);
    k[K_UNKNOWN] = v->iter >= 0 && v->extent == 0;
    k[K_OUTER] = float_bits((float)v->outer);
    k[K_INNER] = float_bits((float)v->inner);
    k[K_MOVED] = float_bits((float)v->moved);
    k[K_INSIDE] = at_most(v->inside, MAX_ID);
    k[K_N_LOOPS] = 0;
    k[K_UNROLL] = v->unroll < 0 ? -1 : at_most(v->unroll, INT32_MAX);
    for (int32_t i = 0; i < TP_PARTS; i++)
        k[K_PARTS + i] = at_most(v->parts[i], INT32_MAX);
    for (int i = K_PADDING; i < TCLFEAT_KEY; i++)
        k[i] = 0;

    switch (s->kind) {
    case TP_STEP_AN:
        if (v->annotation >= 0 && v->annotation < COUNT_OF(STEP, ANNOTATION))
            k[K_ANNOTATION] = v->annotation;
        break;
    case TP_STEP_PR: /* its loop is where a whole nest begins: nothing that other steps do not tell */
        k[K_OUTER] = k[K_INNER] = k[K_INSIDE] = 0;
        k[K_EXTENT] = k[K_UNKNOWN] = 0;
        break;
    case TP_STEP_FU:
    case TP_STEP_CHR:
        k[K_COUNT] = at_most(s->n_list, MAX_ID);
        break;
    case TP_STEP_RE:
        k[K_N_LOOPS] = at_most(v->n_loops, MAX_ID);
        k[K_INNERMOST] = k[K_PARTS];
        for (int i = 0; i < 2 && i < s->n_list; i++)
            k[K_ORIGIN + i] = at_most(s->list[s->n_list - 1 - i], MAX_ID);
        break;
    case TP_STEP_FFSP:
        k[K_DETAIL] = at_most(s->op[2], MAX_ID);
        splits = true;
        break;
    case TP_STEP_SP:
    case TP_STEP_FSP:
        splits = true;
        break;
    case TP_STEP_SA:
        k[K_PARTS] = at_most(s->op[2], INT32_MAX);
        k[K_PARTS + 1] = at_most(s->op[3] < 0 ? -(int64_t)s->op[3] : s->op[3], INT32_MAX);
        break;
    case TP_STEP_RF:
        k[K_DETAIL] = at_most(s->op[2], MAX_ID);
        break;
    default:
        break;
    }
    if (splits) {
        k[K_COUNT] = v->n_parts;
        k[K_INNERMOST] = v->n_parts > 0 ? k[K_PARTS + v->n_parts - 1] : 0;
        if (v->extent > 0)
            k[K_PADDING] = float_bits((float)v->padded / (float)v->extent);
    }
}

static void divisible(int32_t x, float *row)
{
    for (int i = 0; i < COUNT_OF(STEP, EXTENT_DIVISIBLE); i++)
        row[i] = x > 0 && x % (4 << i) == 0 ? 1.0f : 0.0f;
}

static void step_row(const struct tclfeat_key *key, float *row)
{
    const int32_t *k = key->k;

    if (k[K_ANNOTATION] >= 0)
        row[COL(STEP, ANNOTATION) + k[K_ANNOTATION]] = 1.0f;
    if (k[K_SCOPE] > 0)
        row[COL(STEP, SCOPE) + k[K_SCOPE] - 1] = 1.0f;
    row[COL(STEP, STAGE)] = (float)k[K_STAGE] / DIV(STEP, STAGE);
    row[COL(STEP, ITER)] = k[K_ITER] < 0 ? 0.0f : (float)k[K_ITER] / DIV(STEP, ITER);
    row[COL(STEP, TARGET_STAGE)] = (float)k[K_TARGET_STAGE] / DIV(STEP, TARGET_STAGE);
    row[COL(STEP, EXTENT)] = lg((float)k[K_EXTENT]) / DIV(STEP, EXTENT);
    for (int i = 0; i < TP_PARTS; i++)
        row[COL(STEP, PARTS) + i] = lg((float)k[K_PARTS + i]) / DIV(STEP, PARTS);
    row[COL(STEP, OUTER)] = lg(bits_float(k[K_OUTER])) / DIV(STEP, OUTER);
    row[COL(STEP, INNER)] = lg(bits_float(k[K_INNER])) / DIV(STEP, INNER);
    row[COL(STEP, MOVED)] = lg(bits_float(k[K_MOVED])) / DIV(STEP, MOVED);
    row[COL(STEP, INSIDE)] = (float)k[K_INSIDE] / DIV(STEP, INSIDE);
    row[COL(STEP, N_LOOPS)] = (float)k[K_N_LOOPS] / DIV(STEP, N_LOOPS);
    if (k[K_UNROLL] >= 0)
        row[COL(STEP, UNROLL)] = lg((float)k[K_UNROLL]) / DIV(STEP, UNROLL);
    row[COL(STEP, UNROLL_ZERO)] = k[K_UNROLL] == 0 ? 1.0f : 0.0f;
    if (k[K_PADDING] != 0)
        row[COL(STEP, PADDING)] = fminf(log2f(bits_float(k[K_PADDING])), MAX_PADDING) / DIV(STEP, PADDING);
    row[COL(STEP, UNKNOWN)] = (float)k[K_UNKNOWN];
    divisible(k[K_EXTENT], &row[COL(STEP, EXTENT_DIVISIBLE)]);
    row[COL(STEP, EXTENT_ONE)] = k[K_EXTENT] == 1 ? 1.0f : 0.0f;
    divisible(k[K_INNERMOST], &row[COL(STEP, INNERMOST_DIVISIBLE)]);
    row[COL(STEP, INNERMOST_ONE)] = k[K_INNERMOST] == 1 ? 1.0f : 0.0f;
    row[COL(STEP, COUNT)] = (float)k[K_COUNT] / DIV(STEP, COUNT);
    row[COL(STEP, ORIGIN)] = (float)k[K_ORIGIN] / DIV(STEP, ORIGIN);
    row[COL(STEP, ORIGIN) + 1] = (float)k[K_ORIGIN + 1] / DIV(STEP, ORIGIN);
    row[COL(STEP, DETAIL)] = (float)k[K_DETAIL] / DIV(STEP, DETAIL);
}

/* ---- all rows
 * -------------------------------------------------------------------------------------------------------- */

void tclf1_row(const struct tclfeat_key *key, float row[TCLF_COLS])
{
    memset(row, 0, TCLF_COLS * sizeof *row);
    row[COL(ALL, KIND) + key->k[K_KIND]] = 1.0f;
    if (key->k[K_KIND] == TCLF_KIND_HW)
        hw_row(key, row);
    else if (key->k[K_KIND] == TCLF_KIND_TASK)
        tclf1_task_row(key, row);
    else
        step_row(key, row);
}

uint32_t tclf1_crc(uint32_t crc)
{
    /* Tables as text; "\n" parts entries, so that moving a character from one to the next shows. */
    static const char text[] =
#define X(group, name, first, count, divisor, formula)                                                                 \
#group "." #name " " #first "+" #count "/" #divisor " " formula "\n"
#include "proto/tclfeat_columns.def"
#undef X
#define X(name, divisor, param) #name "/" #divisor " " #param "\n"
#include "proto/descriptor.def"
#undef X
#define X(tag, grammar, meaning) #tag " " grammar "\n"
#include "proto/steps.def"
#undef X
        ;

    return (uint32_t)crc32(crc, (const Bytef *)text, sizeof text - 1);
}
