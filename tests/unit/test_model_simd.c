/* Choice of the kernel set, and the accuracy of the kernels' exponential, softplus and norm in every set this CPU runs.
 */
#include "model/mem.h"
#include "model/infer.h"
#include "model/ops.h"
#include "model/simd.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

START_TEST(the_environment_chooses_a_supported_set)
{
    setenv("TCLD_SIMD", "portable", 1);
    ck_assert_str_eq(tm_simd_name(), "portable");
    ck_assert_ptr_null(tm_simd_ignored());
}
END_TEST

START_TEST(an_unknown_name_falls_back_to_the_best_and_is_reported)
{
    setenv("TCLD_SIMD", "sse9", 1);
    ck_assert(tm_simd_supported(tm_simd_set()));
    ck_assert_str_eq(tm_simd_ignored(), "sse9");
    for (int s = tm_simd_set() + 1; s < TM_SIMD_SETS; s++)
        ck_assert(!tm_simd_supported((enum tm_simd_set)s));
}
END_TEST

START_TEST(no_wish_means_the_best)
{
    unsetenv("TCLD_SIMD");
    ck_assert(tm_simd_supported(tm_simd_set()));
    ck_assert_ptr_null(tm_simd_ignored());
    ck_assert_ptr_nonnull(tm_ops_get(tm_simd_set()));
}
END_TEST

START_TEST(a_set_of_another_architecture_is_ignored)
{
    const char *foreign = tm_simd_supported(TM_SIMD_NEON) ? "avx2" : "neon";
    setenv("TCLD_SIMD", foreign, 1);
    ck_assert_str_ne(tm_simd_name(), foreign);
    ck_assert_str_eq(tm_simd_ignored(), foreign);
}
END_TEST

enum { N = 1 << 16 };

START_TEST(exp_is_accurate_to_2e_7)
{
    float *x = tm_alloc(N, sizeof *x), *y = tm_alloc(N, sizeof *y);
    ck_assert(x && y);
    for (int s = 0; s < TM_SIMD_SETS; s++) {
        const struct tm_ops *ops = tm_ops_get((enum tm_simd_set)s);
        if (!ops)
            continue;
        for (int i = 0; i < N; i++)
            x[i] = -87.3f + 175.3f * (float)i / N;
        x[0] = -0.0f;
        ops->exp(y, x, N);
        for (int i = 0; i < N; i++)
            ck_assert_msg(fabs((double)y[i] / exp((double)x[i]) - 1) <= 2e-7, "exp(%g) = %g", (double)x[i],
                          (double)y[i]);
    }
    free(x);
    free(y);
}
END_TEST

START_TEST(exp_saturates_and_keeps_nan)
{
    float x[16] __attribute__((aligned(64))) = {-1e30f, -INFINITY, 1e30f, INFINITY, NAN, 0},
                y[16] __attribute__((aligned(64)));
    for (int s = 0; s < TM_SIMD_SETS; s++) {
        const struct tm_ops *ops = tm_ops_get((enum tm_simd_set)s);
        if (!ops)
            continue;
        ops->exp(y, x, 16);
        ck_assert(y[0] >= 0 && y[0] < 2e-38f && y[1] == y[0]);
        ck_assert(y[2] > 1e38f && isfinite(y[2]) && y[3] == y[2]);
        ck_assert(isnan(y[4]));
        ck_assert_float_eq(y[5], 1);
    }
}
END_TEST

START_TEST(softplus_and_its_slope_are_accurate)
{
    enum { ROWS = 512, COLS = 16 };
    float *y = tm_alloc(ROWS * COLS, sizeof *y), *dy = tm_alloc(ROWS * COLS, sizeof *dy),
          *bias = tm_alloc(COLS, sizeof *bias);
    ck_assert(y && dy && bias);
    for (int s = 0; s < TM_SIMD_SETS; s++) {
        const struct tm_ops *ops = tm_ops_get((enum tm_simd_set)s);
        if (!ops)
            continue;
        for (int i = 0; i < ROWS * COLS; i++)
            y[i] = -40 + 80 * (float)i / (ROWS * COLS);
        ops->softplus(y, dy, bias, ROWS, COLS);
        for (int i = 0; i < ROWS * COLS; i++) {
            double a = (double)(-40 + 80 * (float)i / (ROWS * COLS)), u = exp(-fabs(a));
            ck_assert_double_le(fabs((double)y[i] / (fmax(a, 0) + log1p(u)) - 1), 4e-7);
            ck_assert_double_le(fabs((double)dy[i] / (1 / (1 + exp(-a))) - 1), 4e-7);
        }
    }
    free(y);
    free(dy);
    free(bias);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model/simd");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, the_environment_chooses_a_supported_set);
    tcase_add_test(c, an_unknown_name_falls_back_to_the_best_and_is_reported);
    tcase_add_test(c, no_wish_means_the_best);
    tcase_add_test(c, a_set_of_another_architecture_is_ignored);
    tcase_add_test(c, exp_is_accurate_to_2e_7);
    tcase_add_test(c, exp_saturates_and_keeps_nan);
    tcase_add_test(c, softplus_and_its_slope_are_accurate);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
