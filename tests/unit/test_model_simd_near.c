/* Kernels of selection, set by set, against double. Sets that this CPU cannot run are skipped. */
#include "model/mem.h"
#include "model/net.h"
#include "model/ops.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

enum { ROWS = 23, COLS = 144 };

static const struct tm_ops *ops;
static float x[COLS] __attribute__((aligned(64))), y[ROWS * COLS] __attribute__((aligned(64)));
static struct tm_rng rng;

static bool prepare(int set)
{
    ops = tm_ops_get((enum tm_simd_set)set);
    tm_rng_seed(&rng, 5);
    for (int i = 0; i < COLS; i++)
        x[i] = (float)(tm_rng_uniform(&rng) - 0.5);
    for (int i = 0; i < ROWS * COLS; i++)
        y[i] = (float)(tm_rng_uniform(&rng) - 0.5);
    return ops != NULL;
}

START_TEST(distances_and_products_are_right_and_independent_of_the_rows)
{
    static const size_t cols[] = {16, 32, 128, 144};
    if (!prepare(_i))
        return;
    for (size_t c = 0; c < sizeof cols / sizeof *cols; c++) {
        float d[ROWS], p[ROWS], one;
        ops->distances(x, y, ROWS, cols[c], d);
        ops->products(x, y, ROWS, cols[c], p);
        for (size_t r = 0; r < ROWS; r++) {
            double distance = 0.0, product = 0.0;
            for (size_t i = 0; i < cols[c]; i++) {
                distance += pow((double)x[i] - (double)y[r * cols[c] + i], 2);
                product += (double)x[i] * (double)y[r * cols[c] + i];
            }
            ck_assert_double_eq_tol((double)d[r], distance, 1e-6 * distance);
            ck_assert_double_eq_tol((double)p[r], product, 1e-5);
            ops->distances(x, y + r * cols[c], 1, cols[c], &one);
            ck_assert_mem_eq(&one, &d[r], sizeof one);
            ops->products(x, y + r * cols[c], 1, cols[c], &one);
            ck_assert_mem_eq(&one, &p[r], sizeof one);
        }
    }
}
END_TEST

START_TEST(equal_vectors_are_at_distance_0)
{
    float d[ROWS];
    if (!prepare(_i))
        return;
    for (int r = 0; r < ROWS; r++)
        memcpy(y + r * COLS, x, sizeof x);
    ops->distances(x, y, ROWS, COLS, d);
    for (int r = 0; r < ROWS; r++)
        ck_assert(d[r] == 0.0f);
}
END_TEST

START_TEST(argmin_is_the_first_place_of_the_minimum)
{
    if (!prepare(_i))
        return;
    for (size_t n = 16; n <= COLS; n += 16)
        for (size_t at = 0; at < n; at++) {
            for (size_t i = 0; i < n; i++)
                x[i] = (float)(1 + tm_rng_below(&rng, 3));
            x[at] = x[n - 1 - at] = -2.0f;
            ck_assert_uint_eq(ops->argmin(x, n), at < n - 1 - at ? at : n - 1 - at);
        }
    for (int i = 0; i < COLS; i++)
        x[i] = NAN;
    ck_assert_uint_eq(ops->argmin(x, COLS), 0);
}
END_TEST

START_TEST(standardised_values_are_finite)
{
    float mean[COLS], scale[COLS], out[COLS + 1];
    if (!prepare(_i))
        return;
    for (int i = 0; i < COLS; i++) {
        mean[i] = 0.25f;
        scale[i] = (float)(i % 7);
    }
    x[3] = NAN;
    x[4] = INFINITY;
    x[5] = -INFINITY;
    x[6] = 1e20f;
    x[8] = -3e38f;
    for (size_t n = 0; n <= COLS; n += 13) {
        out[n] = 77.0f;
        ops->standardise(out, x, mean, scale, 100.0f, n);
        for (size_t i = 0; i < n; i++) {
            const double want = fmin(fmax(((double)x[i] - 0.25) * (double)scale[i], -100.0), 100.0);
            ck_assert_double_eq_tol((double)out[i], isfinite(x[i]) ? want : 0.0, 1e-5);
        }
        ck_assert(out[n] == 77.0f);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model/simd_near");
    TCase *c = tcase_create("near");
    tcase_add_loop_test(c, distances_and_products_are_right_and_independent_of_the_rows, 0, TM_SIMD_SETS);
    tcase_add_loop_test(c, equal_vectors_are_at_distance_0, 0, TM_SIMD_SETS);
    tcase_add_loop_test(c, argmin_is_the_first_place_of_the_minimum, 0, TM_SIMD_SETS);
    tcase_add_loop_test(c, standardised_values_are_finite, 0, TM_SIMD_SETS);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
