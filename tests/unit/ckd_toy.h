/* Two kinds of toy hardware for tests of ckd/. A program's cost is the product of what its rows cost; the first
 * hardware looks at the first half of a row's columns, the second at the second half, and a little at the first the
 * other way round. So the second can be learned beside the first, but whoever learns it alone forgets the first. Header
 * only. */
#ifndef TEST_CKD_TOY_H
#define TEST_CKD_TOY_H

#include "ckd/adapt.h"
#include "model/mem.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOY_TASKS = 24, TOY_PER_TASK = 24, TOY_ROWS = 60, TOY_STEPS = 6, TOY_COLS = 8, TOY_SUMMARY = 4 };
enum { TOY_N = TOY_TASKS * TOY_PER_TASK };

struct toy {
    struct tm_dataset ds;
    float *rows, *summary;
    double *cost;
    uint32_t *start, *ids, *task, *train, *valid;
    struct tk_set train_set, valid_set; /* task-disjoint */
};

static inline struct tm_hyper toy_hyper(void)
{
    return (struct tm_hyper){.features = TOY_COLS,
                             .embed = 16,
                             .d_model = 32,
                             .d_state = 8,
                             .d_conv = 4,
                             .dt_rank = 2,
                             .summary = TOY_SUMMARY,
                             .summary_width = 16,
                             .head1 = 16,
                             .head2 = 8};
}

static inline double toy_value(const float *row, bool second)
{
    double v = 0;
    for (int j = 0; j < TOY_COLS; j++) {
        const bool own = (j >= TOY_COLS / 2) == second;
        v += (j % 2 ? 0.5 : -0.3) * (double)row[j] * (own ? 1 : second ? -0.2 : 0);
    }
    return v;
}

/* Programs and rows follow from the seed, costs from which hardware it is. cols >= TOY_COLS, the rest is zero. */
static inline void toy_init_wide(struct toy *t, bool second, uint64_t seed, uint32_t cols, uint32_t summary)
{
    struct tm_rng r;
    uint32_t at = 0;
    memset(t, 0, sizeof *t);
    tm_rng_seed(&r, seed);
    t->rows = tm_alloc(TOY_ROWS * cols, sizeof *t->rows);
    t->summary = tm_alloc(TOY_N * summary, sizeof *t->summary);
    t->cost = tm_alloc(TOY_N, sizeof *t->cost);
    t->start = tm_alloc(TOY_N + 1, sizeof *t->start);
    t->ids = tm_alloc(TOY_N * TOY_STEPS, sizeof *t->ids);
    t->task = tm_alloc(TOY_N, sizeof *t->task);
    t->train = tm_alloc(TOY_N, sizeof *t->train);
    t->valid = tm_alloc(TOY_N, sizeof *t->valid);
    ck_assert(t->rows && t->summary && t->cost && t->start && t->ids && t->task && t->train && t->valid);
    for (uint32_t i = 0; i < TOY_ROWS * TOY_COLS; i++)
        t->rows[i / TOY_COLS * cols + i % TOY_COLS] = (float)(2 * tm_rng_uniform(&r) - 1);
    for (uint32_t i = 0; i < TOY_N; i++) {
        const uint32_t steps = 3 + tm_rng_below(&r, TOY_STEPS - 2);
        double ln = -7 + 0.1 * (i / TOY_PER_TASK);
        t->start[i] = at;
        t->task[i] = i / TOY_PER_TASK;
        for (uint32_t k = 0; k < steps; k++) {
            t->ids[at] = tm_rng_below(&r, TOY_ROWS);
            ln += toy_value(t->rows + t->ids[at++] * cols, second);
        }
        for (int j = 0; j < TOY_SUMMARY; j++)
            t->summary[i * summary + (uint32_t)j] = (float)tm_rng_uniform(&r);
        t->cost[i] = exp(ln);
    }
    t->start[TOY_N] = at;
    t->ds = (struct tm_dataset){.features = TCLFEAT_TCLF_1,
                                .cols = (int)cols,
                                .summary_cols = (int)summary,
                                .n = TOY_N,
                                .n_tasks = TOY_TASKS,
                                .n_rows = TOY_ROWS,
                                .rows = t->rows,
                                .start = t->start,
                                .ids = t->ids,
                                .summary = t->summary,
                                .task = t->task,
                                .cost = t->cost};
    bool by_record;
    t->train_set = (struct tk_set){&t->ds, t->train, 0};
    t->valid_set = (struct tk_set){&t->ds, t->valid, 0};
    tm_split(&t->ds, 0.34, 3, t->train, &t->train_set.n, t->valid, &t->valid_set.n, &by_record);
    ck_assert(!by_record);
}

static inline void toy_init(struct toy *t, bool second, uint64_t seed)
{
    toy_init_wide(t, second, seed, TOY_COLS, TOY_SUMMARY);
}

static inline void toy_free(struct toy *t)
{
    free(t->rows);
    free(t->summary);
    free(t->cost);
    free(t->start);
    free(t->ids);
    free(t->task);
    free(t->train);
    free(t->valid);
}

static inline struct tk_run toy_run(int threads)
{
    return (struct tk_run){.seed = 1, .threads = threads};
}

static inline double toy_pairwise(const struct tm_model *m, const struct toy *t)
{
    const struct tk_run run = toy_run(1);
    struct tm_metrics x;
    ck_assert_int_eq(tk_measure(m, &t->valid_set, &run, &x, NULL), 0);
    return x.pairwise;
}

/* A knowledge base of the first hardware. */
static inline struct tk_kb *toy_kb(const struct toy *t, int epochs)
{
    const struct tm_hyper h = t->ds.cols == TOY_COLS ? toy_hyper() : tm_hyper_default(TCLFEAT_TCLF_1);
    struct tk_learn_opts o;
    struct tk_learned told;
    struct tm_model *m;
    const struct tk_run run = toy_run(1);
    struct tp_err e;
    tk_scratch_defaults(&o);
    o.hyper = &h;
    o.steps = 0;
    o.train.epochs = epochs;
    o.train.lr = 4e-3;
    ck_assert_msg(tk_learn(NULL, TK_GATE_SCRATCH, NULL, &t->train_set, &t->valid_set, &o, &run, &m, &told, &e) == 0,
                  "%s", e.detail);
    struct tk_kb *kb = tk_kb_new(m, TP_TARGET_GPU);
    ck_assert_ptr_nonnull(kb);
    ck_assert_int_eq(tk_settle(kb, &t->train_set, &run, &e), 0);
    return kb;
}

static inline int toy_main(SRunner *r)
{
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
