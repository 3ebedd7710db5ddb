/* Programs built by hand, without the parser: a list of steps that a test writes down one per line. */
#ifndef TEST_PROGRAM_H
#define TEST_PROGRAM_H

#include "proto/record.h"

#include <string.h>

struct program {
    struct tp_record r; /* give &p->r to the code under test */
    struct tp_step steps[TP_MAX_STEPS];
    int32_t ints[TP_MAX_STEPS * 8];
    uint32_t n_ints;
};

static inline void program_init(struct program *p)
{
    memset(p, 0, sizeof *p);
    p->r.steps = p->steps;
}

static inline struct tp_str str_of(const char *s)
{
    return (struct tp_str){s, (uint32_t)strlen(s)};
}

static inline void add_step(struct program *p, enum tp_step_kind kind, const int32_t op[4], const int32_t *list,
                            size_t n_list, const char *str)
{
    struct tp_step *s = &p->steps[p->r.n_steps++];

    s->kind = (uint8_t)kind;
    memcpy(s->op, op, sizeof s->op);
    s->list = p->ints + p->n_ints;
    s->n_list = (uint16_t)n_list;
    if (n_list)
        memcpy(p->ints + p->n_ints, list, n_list * sizeof *list);
    p->n_ints += (uint32_t)n_list;
    s->str = str_of(str);
}

#define OPS(...)  ((const int32_t[4]){__VA_ARGS__})
#define LIST(...) ((const int32_t[]){__VA_ARGS__}), sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)
#define NO_LIST   NULL, 0

#define AN(p, stage, iter, ann)         add_step(p, TP_STEP_AN, OPS(stage, iter, ann), NO_LIST, "")
#define FU(p, stage, ...)               add_step(p, TP_STEP_FU, OPS(stage), LIST(__VA_ARGS__), "")
#define FU_EMPTY(p, stage)              add_step(p, TP_STEP_FU, OPS(stage), NO_LIST, "")
#define PR(p, stage, iter, pragma)      add_step(p, TP_STEP_PR, OPS(stage, iter), NO_LIST, pragma)
#define RE(p, stage, ...)               add_step(p, TP_STEP_RE, OPS(stage), LIST(__VA_ARGS__), "")
#define SP(p, stage, iter, extent, ...) add_step(p, TP_STEP_SP, OPS(stage, iter, extent, 1), LIST(__VA_ARGS__), "")
#define SP_OUTER(p, stage, iter, extent, ...)                                                                          \
    add_step(p, TP_STEP_SP, OPS(stage, iter, extent, 0), LIST(__VA_ARGS__), "")
#define FSP(p, stage, iter, src, n) add_step(p, TP_STEP_FSP, OPS(stage, iter, src, n), NO_LIST, "")
#define FFSP(p, stage, iter, level, factor, ...)                                                                       \
    add_step(p, TP_STEP_FFSP, OPS(stage, iter, level, factor), LIST(__VA_ARGS__), "")
#define SA(p, stage, iter, factor, offset) add_step(p, TP_STEP_SA, OPS(stage, iter, factor, offset), NO_LIST, "")
#define CA(p, stage, target, iter)         add_step(p, TP_STEP_CA, OPS(stage, target, iter), NO_LIST, "")
#define CI(p, stage)                       add_step(p, TP_STEP_CI, OPS(stage), NO_LIST, "")
#define CR(p, stage)                       add_step(p, TP_STEP_CR, OPS(stage), NO_LIST, "")
#define CHR(p, stage, scope, ...)          add_step(p, TP_STEP_CHR, OPS(stage), LIST(__VA_ARGS__), scope)
#define CHW(p, stage, scope)               add_step(p, TP_STEP_CHW, OPS(stage), NO_LIST, scope)
#define RF(p, stage, iter, at)             add_step(p, TP_STEP_RF, OPS(stage, iter, at), NO_LIST, "")

#endif
