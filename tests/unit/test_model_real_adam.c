/* Clipping and Adam against PyTorch (tests/golden/model.py). */
#include "model_fixture.h"

START_TEST(five_clipped_steps_equal_pytorch_in_every_kernel_set)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    for (int set = 0; set < TM_SIMD_SETS; set++) {
        struct tm_params p;
        struct tm_adam adam;
        struct tm_shape shape[TM_TENSORS];
        size_t n = tm_layout(&h, shape);
        float *w = tm_alloc(n, sizeof *w), *grad = tm_alloc(n, sizeof *grad);
        ck_assert(w && grad);
        fixture_weights(&h, w);
        ck_assert_int_eq(tm_params_init(&p, &h, w, NULL), 0);
        ck_assert_int_eq(tm_adam_init(&adam, n), 0);
        p.ops = tm_ops_get((enum tm_simd_set)set);
        for (uint64_t step = 0; p.ops && step < 5; step++) {
            for (uint64_t t = 0; t < TM_TENSORS; t++)
                for (size_t j = 0; j < shape[t].size; j++)
                    grad[shape[t].offset + j] = (float)fixture_uniform(1000 + 100 * step + t, j);
            ck_assert_double_gt(tm_grad_clip(grad, n, 1.0), 100);
            ck_assert_double_eq_tol(tm_grad_norm(grad, n), 1, 1e-5);
            tm_adam_step(&adam, &p, w, grad, 3e-3, 0.02);
        }
        for (int t = 0; p.ops && t < TM_TENSORS && shape[t].size; t++) {
            char name[32] = "adam ";
            uint32_t count;
            strncat(name, shape[t].name, 26);
            float *expected = fixture_golden(name, &count);
            for (uint32_t j = 0; j < count; j++)
                ck_assert_msg(fabsf(w[shape[t].offset + j] - expected[j]) <= 1e-6f, "%s[%u]: %.9g, not %.9g",
                              shape[t].name, j, (double)w[shape[t].offset + j], (double)expected[j]);
            free(expected);
        }
        tm_adam_free(&adam);
        tm_params_free(&p);
        free(w);
        free(grad);
    }
}
END_TEST

START_TEST(a_short_gradient_is_not_clipped)
{
    float g[] = {0.3f, -0.4f};
    ck_assert_double_eq_tol(tm_grad_clip(g, 2, 1.0), 0.5, 1e-7);
    ck_assert_float_eq(g[0], 0.3f);
    ck_assert_double_eq_tol(tm_grad_clip(g, 2, 0), 0.5, 1e-7);
    ck_assert_float_eq(g[1], -0.4f);
}
END_TEST

START_TEST(a_broken_gradient_shows_in_its_norm)
{
    float g[] = {1, INFINITY}, h[] = {NAN, 1};
    ck_assert(!isfinite(tm_grad_clip(g, 2, 1.0)));
    ck_assert(!isfinite(tm_grad_clip(h, 2, 1.0)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model/real_adam");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, five_clipped_steps_equal_pytorch_in_every_kernel_set);
    tcase_add_test(c, a_short_gradient_is_not_clipped);
    tcase_add_test(c, a_broken_gradient_shows_in_its_norm);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
