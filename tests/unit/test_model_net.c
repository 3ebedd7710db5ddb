/* Shape, initialisation, copies, random generator. */
#include "model/net.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t seed = 42;

static struct tm_model *fresh(uint64_t s)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    h.features = 64;
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, s);
    ck_assert_ptr_nonnull(m);
    return m;
}

START_TEST(the_published_network_has_91234_parameters)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    h.features = 64;
    ck_assert_uint_eq(tm_parameter_count(&h), 91234);
    ck_assert_uint_le(tm_parameter_count(&h), TM_MAX_PARAMETERS);
    for (int s = 0; s < TCLFEAT_SETS; s++) {
        h = tm_hyper_default((enum tclfeat_set)s);
        ck_assert_uint_le(tm_parameter_count(&h), TM_MAX_PARAMETERS);
    }
}
END_TEST

START_TEST(tensors_follow_each_other_on_cache_lines)
{
    struct tm_model *m = fresh(seed);
    size_t end = 0;
    for (int t = 0; t < TM_TENSORS; t++) {
        ck_assert_uint_eq(m->shape[t].offset % 16, 0);
        ck_assert_uint_eq(m->shape[t].offset, (end + 15) / 16 * 16);
        end = m->shape[t].offset + m->shape[t].size;
    }
    ck_assert_uint_eq(m->n, (end + 15) / 16 * 16);
    ck_assert_uint_eq((uintptr_t)m->w % 64, 0);
    tm_model_free(m);
}
END_TEST

START_TEST(shapes_are_those_of_pytorch)
{
    struct tm_model *m = fresh(seed);
    const struct tm_shape *conv = &m->shape[TM_T_CONV_W], *dt = &m->shape[TM_T_DT_PROJ_B],
                          *in = &m->shape[TM_T_IN_PROJ_W];
    ck_assert_str_eq(conv->name, "mixer.conv1d.weight");
    ck_assert_int_eq(conv->n_dims, 3);
    ck_assert(conv->dim[0] == 128 && conv->dim[1] == 1 && conv->dim[2] == 4);
    ck_assert_int_eq(dt->n_dims, 1);
    ck_assert_int_eq(dt->dim[0], 128);
    ck_assert_int_eq(in->n_dims, 2);
    ck_assert(in->dim[0] == 256 && in->dim[1] == 128);
    tm_model_free(m);
}
END_TEST

START_TEST(a_network_without_summary_has_no_summary_tensors)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TLP_CPU_1);
    struct tm_shape shape[TM_TENSORS];
    h.summary = 0;
    tm_layout(&h, shape);
    for (int t = TM_T_SUMMARY0_W; t <= TM_T_SUMMARY1_B; t++)
        ck_assert_uint_eq(shape[t].size, 0);
    ck_assert_int_eq(shape[TM_T_HEAD0_W].dim[1], h.d_model);
}
END_TEST

START_TEST(a_second_block_follows_the_published_network)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *one = tm_model_new(TCLFEAT_TCLF_1, &h, seed);
    h.more_blocks = 1;
    struct tm_model *two = tm_model_new(TCLFEAT_TCLF_1, &h, seed);
    ck_assert(one && two);
    ck_assert_mem_eq(one->w, two->w, one->n * sizeof *one->w);
    for (int t = TM_T_NORM_W; t <= TM_T_OUT_PROJ_W; t++) {
        const int second = t - TM_T_NORM_W + TM_T_NORM_W_2;
        ck_assert_uint_eq(one->shape[second].size, 0);
        ck_assert_uint_eq(two->shape[second].size, two->shape[t].size);
        ck_assert_int_eq(tm_tensor_decays((enum tm_tensor)second), tm_tensor_decays((enum tm_tensor)t));
    }
    tm_model_free(one);
    tm_model_free(two);
}
END_TEST

START_TEST(initial_values_lie_in_their_ranges)
{
    struct tm_model *m = fresh(seed);
    const float *w = m->w + m->shape[TM_T_IN_PROJ_W].offset;
    double bound = 1 / sqrt(128), sum = 0, square = 0;
    size_t n = m->shape[TM_T_IN_PROJ_W].size;
    for (size_t i = 0; i < n; i++) {
        ck_assert_double_le(fabs((double)w[i]), bound);
        sum += (double)w[i];
        square += (double)w[i] * (double)w[i];
    }
    ck_assert_double_lt(fabs(sum / (double)n), bound / 50);
    ck_assert_double_eq_tol(square / (double)n, bound * bound / 3, bound * bound / 100); /* variance of a uniform */
    for (int i = 0; i < 128; i++) {
        double a = (double)m->w[m->shape[TM_T_DT_PROJ_B].offset + (size_t)i], dt = log1p(exp(a));
        ck_assert(dt >= 0.99e-3 && dt <= 1.01e-1);
        ck_assert_float_eq(m->w[m->shape[TM_T_D].offset + (size_t)i], 1);
        ck_assert_float_eq(m->w[m->shape[TM_T_NORM_W].offset + (size_t)i], 1);
        for (int k = 0; k < 8; k++)
            ck_assert_float_eq(m->w[m->shape[TM_T_A_LOG].offset + (size_t)(8 * i + k)], (float)log(k + 1.0));
    }
    tm_model_free(m);
}
END_TEST

START_TEST(a_seed_fixes_the_weights)
{
    struct tm_model *a = fresh(seed), *b = fresh(seed), *c = fresh(seed + 1);
    ck_assert_mem_eq(a->w, b->w, a->n * sizeof *a->w);
    ck_assert_mem_ne(a->w, c->w, a->n * sizeof *a->w);
    tm_model_free(a);
    tm_model_free(b);
    tm_model_free(c);
}
END_TEST

START_TEST(a_clone_is_equal_and_independent)
{
    struct tm_model *a = fresh(seed);
    a->calib_b = 3;
    struct tm_model *b = tm_model_clone(a);
    ck_assert_ptr_nonnull(b);
    ck_assert_mem_eq(a->w, b->w, a->n * sizeof *a->w);
    ck_assert_double_eq(b->calib_b, 3);
    b->w[0] += 1;
    ck_assert(a->w[0] != b->w[0]);
    tm_model_free(a);
    tm_model_free(b);
    tm_model_free(NULL);
}
END_TEST

START_TEST(decay_spares_a_log_d_norms_and_biases)
{
    struct tm_model *m = fresh(seed);
    for (int t = 0; t < TM_TENSORS; t++)
        ck_assert_int_eq(tm_tensor_decays((enum tm_tensor)t),
                         m->shape[t].n_dims >= 2 && t != TM_T_A_LOG && t != TM_T_A_LOG_2);
    tm_model_free(m);
}
END_TEST

/* Outputs of the authors' C code for this state (also in the documentation of Rust's rand_xoshiro). */
START_TEST(the_generator_is_xoshiro256_starstar)
{
    static const uint64_t expected[] = {11520,
                                        0,
                                        1509978240,
                                        UINT64_C(1215971899390074240),
                                        UINT64_C(1216172134540287360),
                                        UINT64_C(607988272756665600),
                                        UINT64_C(16172922978634559625)};
    struct tm_rng r = {{1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        ck_assert_uint_eq(tm_rng_next(&r), expected[i]);
    tm_rng_seed(&r, 0);
    ck_assert_uint_eq(r.s[0], UINT64_C(0xe220a8397b1dcdaf)); /* first output of splitmix64 from 0 */
}
END_TEST

START_TEST(below_is_uniform_and_within_its_limit)
{
    struct tm_rng r;
    uint32_t count[7] = {0};
    tm_rng_seed(&r, 1);
    for (int i = 0; i < 70000; i++) {
        uint32_t v = tm_rng_below(&r, 7);
        ck_assert_uint_lt(v, 7);
        count[v]++;
    }
    for (int i = 0; i < 7; i++)
        ck_assert(count[i] > 9600 && count[i] < 10400);
    ck_assert_uint_eq(tm_rng_below(&r, 1), 0);
    for (int i = 0; i < 1000; i++) {
        double u = tm_rng_uniform(&r);
        ck_assert(u >= 0 && u < 1);
    }
}
END_TEST

START_TEST(a_shuffle_is_a_permutation)
{
    struct tm_rng r;
    uint32_t v[100], seen[100] = {0}, moved = 0;
    tm_rng_seed(&r, 9);
    for (uint32_t i = 0; i < 100; i++)
        v[i] = i;
    tm_rng_shuffle(&r, v, 100);
    for (uint32_t i = 0; i < 100; i++) {
        seen[v[i]]++;
        moved += v[i] != i;
    }
    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(seen[i], 1);
    ck_assert_uint_gt(moved, 80);
    tm_rng_shuffle(&r, v, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model/net");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, the_published_network_has_91234_parameters);
    tcase_add_test(c, tensors_follow_each_other_on_cache_lines);
    tcase_add_test(c, shapes_are_those_of_pytorch);
    tcase_add_test(c, a_network_without_summary_has_no_summary_tensors);
    tcase_add_test(c, a_second_block_follows_the_published_network);
    tcase_add_test(c, initial_values_lie_in_their_ranges);
    tcase_add_test(c, a_seed_fixes_the_weights);
    tcase_add_test(c, a_clone_is_equal_and_independent);
    tcase_add_test(c, decay_spares_a_log_d_norms_and_biases);
    tcase_add_test(c, the_generator_is_xoshiro256_starstar);
    tcase_add_test(c, below_is_uniform_and_within_its_limit);
    tcase_add_test(c, a_shuffle_is_a_permutation);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
