/* What the tests of the trainable network share: the generator of tests/golden/model.py, weights and a dataset made
 * from it, and a reader of tests/golden/model.bin. For float and (TM_DOUBLE) double. Header only, one owner. */
#ifndef MODEL_FIXTURE_H
#define MODEL_FIXTURE_H

#include "model/grad.h"
#include "model/mem.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The k-th (from 0) of the uniforms in [-1, 1) of a stream. */
static inline double fixture_uniform(uint64_t seed, uint64_t k)
{
    uint64_t z = (seed << 32) + (k + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z = z ^ (z >> 31);
    return (double)(z >> 11) * 0x1p-52 - 1;
}

/* Centre and spread of the weights, in the order of model/tensors.def; A_log is centred on ln(1 + n). */
static inline void fixture_weights(const struct tm_hyper *h, tm_real *w)
{
    static const double centre[TM_TENSORS] = {
        [TM_T_NORM_W] = 1,   [TM_T_NORM_F_W] = 1, [TM_T_D] = 1,           [TM_T_DT_PROJ_B] = -3,
        [TM_T_NORM_W_2] = 1, [TM_T_D_2] = 1,      [TM_T_DT_PROJ_B_2] = -3};
    static const double spread[TM_TENSORS] = {0.2, 0.2, 0.2, 0.2,  0.3,  0.1,  0.5,  0.5, 0.1, 0.35, 2,    0.3,
                                              0.3, 0.1, 0.3, 0.12, 0.12, 0.12, 0.12, 0.1, 0.1, 0.15, 0.15, 0.2,
                                              0.2, 0.3, 0.1, 0.5,  0.5,  0.1,  0.35, 2,   0.3, 0.3,  0.1};
    struct tm_shape shape[TM_TENSORS];
    tm_layout(h, shape);
    for (int t = 0; t < TM_TENSORS; t++) {
        for (size_t j = 0; j < shape[t].size; j++) {
            double c = t == TM_T_A_LOG || t == TM_T_A_LOG_2 ? log(1.0 + (double)(j % (size_t)h->d_state)) : centre[t];
            w[shape[t].offset + j] = (float)(c + spread[t] * fixture_uniform(100 + (uint64_t)t, j));
        }
    }
}

/* Eight programs over 29 distinct rows. */
enum { FIXTURE_PROGRAMS = 8, FIXTURE_ROWS = 29 };
struct fixture_data {
    struct tm_dataset ds;
    float *rows, *summary;
    uint32_t start[FIXTURE_PROGRAMS + 1], ids[128], task[FIXTURE_PROGRAMS];
    double cost[FIXTURE_PROGRAMS];
};

static inline void fixture_data_init(struct fixture_data *f, int cols, int summary)
{
    static const uint32_t lengths[FIXTURE_PROGRAMS] = {1, 2, 3, 5, 23, 37, 12, 4};
    memset(f, 0, sizeof *f);
    f->rows = tm_alloc((size_t)(FIXTURE_ROWS * cols), sizeof *f->rows);
    f->summary = tm_alloc((size_t)(FIXTURE_PROGRAMS * summary), sizeof *f->summary);
    ck_assert(f->rows && f->summary);
    for (int i = 0; i < FIXTURE_ROWS * cols; i++)
        f->rows[i] = (float)fixture_uniform(1, (uint64_t)i);
    for (int i = 0; i < FIXTURE_PROGRAMS * summary; i++)
        f->summary[i] = (float)fixture_uniform(3, (uint64_t)i);
    uint32_t at = 0;
    for (int i = 0; i < FIXTURE_PROGRAMS; i++) {
        for (uint32_t j = 0; j < lengths[i]; j++, at++)
            f->ids[at] = (uint32_t)floor((fixture_uniform(2, at) + 1) / 2 * FIXTURE_ROWS);
        f->start[i + 1] = at;
        f->task[i] = (uint32_t)i / 4;
        f->cost[i] = 1e-3 * (1 + i);
    }
    f->ds = (struct tm_dataset){.cols = cols,
                                .summary_cols = summary,
                                .n = FIXTURE_PROGRAMS,
                                .n_tasks = 2,
                                .n_rows = FIXTURE_ROWS,
                                .rows = f->rows,
                                .start = f->start,
                                .ids = f->ids,
                                .summary = f->summary,
                                .task = f->task,
                                .cost = f->cost};
}

static inline void fixture_data_free(struct fixture_data *f)
{
    free(f->rows);
    free(f->summary);
}

/* The named array of a file of golden vectors; fails the test when it is not there. Caller frees. */
static inline float *fixture_golden_in(const char *path, const char *name, uint32_t *count)
{
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f, "%s: run from the root of the project", path);
    char label[32];
    float *v = NULL;
    while (!v && fread(label, sizeof label, 1, f) == 1 && fread(count, sizeof *count, 1, f) == 1) {
        ck_assert_uint_lt(*count, 1u << 20);
        if (strncmp(label, name, sizeof label) == 0) {
            v = malloc(*count * sizeof *v);
            ck_assert(v && fread(v, sizeof *v, *count, f) == *count);
        } else {
            ck_assert_int_eq(fseek(f, (long)(*count * sizeof *v), SEEK_CUR), 0);
        }
    }
    fclose(f);
    ck_assert_msg(v, "no golden vector '%s'", name);
    return v;
}

static inline float *fixture_golden(const char *name, uint32_t *count)
{
    return fixture_golden_in("tests/golden/model.bin", name, count);
}

#endif
