/* The rules that a transform step must keep, whatever it was read from (JSON or packed bytes).
 *
 * Only what a record alone can tell is checked: the compute DAG, and so the number of loops, is unknown here.
 * Rules: docs/records.md. Source: the ICHECKs of apache/tvm v0.14.0 src/auto_scheduler/transform_step.cc. Pure
 * functions. */
#include "proto/ms.h"
#include "proto/record_mem.h"

#include <string.h>

enum { MAX_ANNOTATION = 11 };

static int negative(const struct tp_step *s, uint32_t k, struct tp_err *e)
{
    const char *g = tp_step_grammar(s->kind);
    int n_op = 0;
    /* SA's factor and offset are no ids: TVM takes any integer there. */
    int n_ids = s->kind == TP_STEP_SA ? 2 : 4;
    for (int i = 0; g[i] != '\0'; i++) {
        if (g[i] != 'i')
            continue;
        if (n_op < n_ids && s->op[n_op] < 0) {
            int n;
            const char *name = tp_step_operand(s->kind, i, &n);
            return tp_step_fail(e, TP_E_BAD_STEP, k, i, -1, "%s %.*s is %d; it must not be negative",
                                tp_step_tag(s->kind), n, name, s->op[n_op]);
        }
        n_op++;
    }
    return 0;
}

static int check_flag(const struct tp_step *s, uint32_t k, int op, int operand, struct tp_err *e)
{
    if (s->op[op] <= 1)
        return 0;
    int n;
    const char *name = tp_step_operand(s->kind, operand, &n);
    return tp_step_fail(e, TP_E_BAD_STEP, k, operand, -1, "%s %.*s is %d; it is 0 or 1", tp_step_tag(s->kind), n, name,
                        s->op[op]);
}

static int check_permutation(const struct tp_step *s, uint32_t k, const int32_t *list, struct tp_err *e)
{
    uint64_t seen[TP_MAX_LIST / 64] = {0};
    for (int i = 0; i < s->n_list; i++) {
        int32_t v = list[i];
        if (v < 0 || v >= s->n_list)
            return tp_step_fail(e, TP_E_BAD_STEP, k, 1, i, "RE entry %d is not in 0..%d", v, s->n_list - 1);
        uint64_t bit = (uint64_t)1 << (v % 64);
        if (seen[v / 64] & bit)
            return tp_step_fail(e, TP_E_BAD_STEP, k, 1, i, "RE names loop %d twice; it is a permutation of 0..%d", v,
                                s->n_list - 1);
        seen[v / 64] |= bit;
    }
    return 0;
}

static int check_consecutive(const struct tp_step *s, uint32_t k, const int32_t *list, struct tp_err *e)
{
    if (s->n_list > 0 && list[0] < 0)
        return tp_step_fail(e, TP_E_BAD_STEP, k, 1, 0, "FU iter is %d; it must not be negative", list[0]);
    for (int i = 1; i < s->n_list; i++)
        if (list[i] != (int64_t)list[i - 1] + 1)
            return tp_step_fail(e, TP_E_BAD_STEP, k, 1, i, "FU iters must ascend by one; %d follows %d", list[i],
                                list[i - 1]);
    return 0;
}

/* The lengths of the earlier SP that a following split names; < 0 when it names anything else. */
static int source_lengths(const struct tp_step *steps, uint32_t k, int32_t src)
{
    return src >= 0 && (uint32_t)src < k && steps[src].kind == TP_STEP_SP ? steps[src].n_list : -1;
}

static int check_fsp(const struct tp_step *steps, uint32_t k, struct tp_err *e)
{
    const struct tp_step *s = &steps[k];
    int lengths = source_lengths(steps, k, s->op[2]);
    if (lengths < 0)
        return tp_step_fail(e, TP_E_BAD_STEP, k, 2, -1, "FSP src_step %d is not an earlier SP", s->op[2]);
    if (s->op[3] < 1 || s->op[3] > lengths + 1)
        return tp_step_fail(e, TP_E_BAD_STEP, k, 3, -1, "FSP n_split is %d; 1..%d are possible with step %d", s->op[3],
                            lengths + 1, s->op[2]);
    return 0;
}

static int check_ffsp(const struct tp_step *steps, uint32_t k, const int32_t *list, struct tp_err *e)
{
    const struct tp_step *s = &steps[k];
    for (int i = 0; i < s->n_list; i++) {
        int lengths = source_lengths(steps, k, list[i]);
        if (lengths < 0)
            return tp_step_fail(e, TP_E_BAD_STEP, k, 2, i, "FFSP src_step %d is not an earlier SP", list[i]);
        if (s->op[2] >= lengths)
            return tp_step_fail(e, TP_E_BAD_STEP, k, 3, -1, "FFSP level is %d, but step %d has %d lengths", s->op[2],
                                list[i], lengths);
    }
    return check_flag(s, k, 3, 4, e);
}

/* TVM aborts on any other pragma (StateNode / PragmaStepNode::ApplyToState). */
static bool pragma_known(const struct tp_str *s)
{
    static const char unroll[] = "auto_unroll_max_step$", skip[] = "debug_skip_region";
    if (s->n == sizeof skip - 1 && memcmp(s->s, skip, s->n) == 0)
        return true;
    size_t n = sizeof unroll - 1;
    if (s->n <= n || memcmp(s->s, unroll, n) != 0)
        return false;
    int64_t v = 0;
    for (size_t i = n; i < s->n; i++) {
        if (s->s[i] < '0' || s->s[i] > '9')
            return false;
        v = v * 10 + (s->s[i] - '0');
        if (v > INT32_MAX)
            return false;
    }
    return true;
}

static int check_ms(const struct tp_step *s, uint32_t k, struct tp_err *e)
{
    struct tp_ms_inst inst;
    struct tp_err why;

    if (tp_ms_parse(s->str.s, s->str.n, &inst, &why) == 0)
        return 0;
    return tp_step_fail(e, TP_E_BAD_STEP, k, 0, -1, "%s", why.detail);
}

int tp_step_check(const struct tp_step *steps, uint32_t k, const int32_t *list, struct tp_err *e)
{
    const struct tp_step *s = &steps[k];
    if ((s->kind == TP_STEP_MS) != (steps[0].kind == TP_STEP_MS))
        return tp_step_fail(e, TP_E_BAD_STEP, k, -1, -1, "%s and %s do not stand in one program", tp_step_tag(s->kind),
                            tp_step_tag(steps[0].kind));
    /* One test for the common case; negative() finds out which operand, and lets SA pass. */
    if ((s->op[0] | s->op[1] | s->op[2] | s->op[3]) < 0) {
        int rc = negative(s, k, e);
        if (rc != 0)
            return rc;
    }
    switch ((enum tp_step_kind)s->kind) {
    case TP_STEP_AN:
        if (s->op[2] > MAX_ANNOTATION)
            return tp_step_fail(e, TP_E_BAD_STEP, k, 2, -1, "AN annotation is %d; 0..%d are known", s->op[2],
                                MAX_ANNOTATION);
        return 0;
    case TP_STEP_FU:
        return check_consecutive(s, k, list, e);
    case TP_STEP_PR:
        if (!pragma_known(&s->str))
            return tp_step_fail(e, TP_E_BAD_STEP, k, 2, -1,
                                "PR pragma \"%.*s\" is not known; auto_unroll_max_step$N and debug_skip_region are",
                                s->str.n < 48 ? (int)s->str.n : 48, s->str.s);
        return 0;
    case TP_STEP_RE:
        return check_permutation(s, k, list, e);
    case TP_STEP_SP:
        for (int i = 0; i < s->n_list; i++)
            if (list[i] <= 0)
                return tp_step_fail(e, TP_E_BAD_STEP, k, 3, i, "SP length is %d; it must be positive", list[i]);
        return check_flag(s, k, 3, 4, e);
    case TP_STEP_FSP:
        return check_fsp(steps, k, e);
    case TP_STEP_FFSP:
        return check_ffsp(steps, k, list, e);
    case TP_STEP_CHR:
        for (int i = 0; i < s->n_list; i++)
            if (list[i] < 0)
                return tp_step_fail(e, TP_E_BAD_STEP, k, 2, i, "CHR reader stage is %d; it must not be negative",
                                    list[i]);
        return 0;
    case TP_STEP_SA:
    case TP_STEP_CA:
    case TP_STEP_CI:
    case TP_STEP_CR:
    case TP_STEP_CHW:
    case TP_STEP_RF:
        break;
    case TP_STEP_MS:
        return check_ms(s, k, e);
    case TP_STEP_ALL:
        break;
    }
    return 0;
}
