/* Forward and backward passes in fp32: against PyTorch (tests/golden/model.py), across kernel sets, across lists. */
#include "infer_reference.h"
#include "model_fixture.h"

static const uint32_t all[FIXTURE_PROGRAMS] = {0, 1, 2, 3, 4, 5, 6, 7};

struct run {
    struct tm_hyper h;
    struct tm_params p;
    struct tm_tape *t;
    struct fixture_data data;
    float *w, *grad, gs[FIXTURE_PROGRAMS], gl[FIXTURE_PROGRAMS];
};

static void run_init(struct run *r)
{
    memset(r, 0, sizeof *r);
    r->h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_shape shape[TM_TENSORS];
    size_t n = tm_layout(&r->h, shape);
    r->w = tm_alloc(n, sizeof *r->w);
    r->grad = tm_alloc(n, sizeof *r->grad);
    r->t = tm_tape_new();
    ck_assert(r->w && r->grad && r->t);
    fixture_weights(&r->h, r->w);
    fixture_data_init(&r->data, r->h.features, r->h.summary);
    ck_assert_int_eq(tm_params_init(&r->p, &r->h, r->w, NULL), 0);
    for (int i = 0; i < FIXTURE_PROGRAMS; i++) {
        r->gs[i] = (float)fixture_uniform(4, 2 * (uint64_t)i);
        r->gl[i] = (float)fixture_uniform(4, 2 * (uint64_t)i + 1);
    }
}

static void run_free(struct run *r)
{
    tm_params_free(&r->p);
    tm_tape_free(r->t);
    fixture_data_free(&r->data);
    free(r->w);
    free(r->grad);
}

static void run_all(struct run *r)
{
    memset(r->grad, 0, r->p.n * sizeof *r->grad);
    ck_assert_int_eq(tm_forward(&r->p, r->t, &r->data.ds, all, FIXTURE_PROGRAMS), 0);
    tm_backward(&r->p, r->t, r->gs, r->gl, r->grad);
}

START_TEST(outputs_equal_pytorch)
{
    struct run r;
    uint32_t n;
    run_init(&r);
    ck_assert_int_eq(tm_forward(&r.p, r.t, &r.data.ds, all, FIXTURE_PROGRAMS), 0);
    float *s = fixture_golden("s", &n), *l = fixture_golden("l", &n);
    ck_assert_uint_eq(n, FIXTURE_PROGRAMS);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_float_eq_tol(r.t->s[i], s[i], 1e-5f);
        ck_assert_float_eq_tol(r.t->l[i], l[i], 1e-5f);
    }
    free(s);
    free(l);
    run_free(&r);
}
END_TEST

/* Largest error of a tensor's gradient, relative to its largest magnitude. */
static double gradient_error(const struct run *r, int t)
{
    const struct tm_shape *shape = &r->p.shape[t];
    char name[32] = "max ";
    uint32_t n;
    strncat(name, shape->name, sizeof name - 5);
    float *max = fixture_golden(name, &n), *g = fixture_golden(shape->name, &n);
    size_t stride = shape->size > 1024 ? shape->size / 1024 : 1;
    double worst = 0;
    ck_assert_uint_eq(n, shape->size > 1024 ? 1024 : shape->size);
    ck_assert_float_gt(max[0], 0);
    for (uint32_t k = 0; k < n; k++)
        worst = fmax(worst, fabs((double)r->grad[shape->offset + k * stride] - (double)g[k]) / (double)max[0]);
    free(max);
    free(g);
    return worst;
}

START_TEST(gradient_of_every_tensor_equals_pytorch)
{
    struct run r;
    run_init(&r);
    run_all(&r);
    for (int t = 0; t < TM_TENSORS && r.p.shape[t].size; t++) { /* the tensors of a second block come last */
        double error = gradient_error(&r, t);
        ck_assert_msg(error <= 1e-4, "%s: %g", r.p.shape[t].name, error);
    }
    run_free(&r);
}
END_TEST

START_TEST(outputs_of_every_pooling_and_number_of_blocks_follow_the_formulas)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct fixture_data data;
    struct tm_tape *t = tm_tape_new();
    fixture_data_init(&data, h.features, h.summary);
    for (int k = 0; k < TM_MAX_BLOCKS * 3; k++) {
        struct tm_params p = {0};
        h.more_blocks = k / 3;
        h.pooling = (enum tm_pooling)(k % 3);
        struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 5);
        ck_assert(t && m);
        fixture_weights(&h, m->w);
        ck_assert_int_eq(tm_params_init(&p, &h, m->w, NULL), 0);
        ck_assert_int_eq(tm_forward(&p, t, &data.ds, all, FIXTURE_PROGRAMS), 0);
        for (uint32_t i = 0; i < FIXTURE_PROGRAMS; i++) {
            const float *rows[64];
            uint32_t n = 0;
            double s, l;
            for (uint32_t j = data.start[i]; j < data.start[i + 1]; j++)
                rows[n++] = data.rows + data.ids[j] * (uint32_t)h.features;
            reference_forward(m, rows, n, data.summary + i * (uint32_t)h.summary, &s, &l);
            ck_assert_double_le(fabs((double)t->s[i] - s), 1e-4 * fmax(1, fabs(s)));
            ck_assert_double_le(fabs((double)t->l[i] - l), 1e-4 * fmax(1, fabs(l)));
        }
        tm_params_free(&p);
        tm_model_free(m);
    }
    tm_tape_free(t);
    fixture_data_free(&data);
}
END_TEST

START_TEST(every_kernel_set_agrees_with_portable)
{
    struct run r;
    run_init(&r);
    float *grad = tm_alloc(r.p.n, sizeof *grad), s[FIXTURE_PROGRAMS];
    ck_assert_ptr_nonnull(grad);
    r.p.ops = tm_ops_get(TM_SIMD_PORTABLE);
    run_all(&r);
    memcpy(s, r.t->s, sizeof s);
    memcpy(grad, r.grad, r.p.n * sizeof *grad);
    for (int set = 0; set < TM_SIMD_SETS; set++) {
        r.p.ops = tm_ops_get((enum tm_simd_set)set);
        if (!r.p.ops)
            continue;
        run_all(&r);
        for (int i = 0; i < FIXTURE_PROGRAMS; i++)
            ck_assert_float_le(fabsf(r.t->s[i] - s[i]), 1e-5f * fmaxf(1, fabsf(s[i])));
        for (int t = 0; t < TM_TENSORS; t++) {
            const struct tm_shape *shape = &r.p.shape[t];
            double max = 0, worst = 0;
            for (size_t j = shape->offset; j < shape->offset + shape->size; j++) {
                max = fmax(max, fabs((double)grad[j]));
                worst = fmax(worst, fabs((double)grad[j] - (double)r.grad[j]));
            }
            ck_assert_msg(worst <= 1e-5 * max, "%s with %s: %g", shape->name, tm_simd_set_name((enum tm_simd_set)set),
                          worst / max);
        }
    }
    free(grad);
    run_free(&r);
}
END_TEST

START_TEST(padding_gets_no_gradient)
{
    struct run r;
    run_init(&r);
    run_all(&r);
    for (int t = 0; t < TM_TENSORS; t++) {
        size_t end = t + 1 < TM_TENSORS ? r.p.shape[t + 1].offset : r.p.n;
        for (size_t j = r.p.shape[t].offset + r.p.shape[t].size; j < end; j++)
            ck_assert_float_eq(r.grad[j], 0);
    }
    run_free(&r);
}
END_TEST

START_TEST(the_same_list_gives_the_same_bits_on_another_tape)
{
    struct run r;
    run_init(&r);
    run_all(&r);
    float *grad = tm_alloc(r.p.n, sizeof *grad);
    ck_assert_ptr_nonnull(grad);
    memcpy(grad, r.grad, r.p.n * sizeof *grad);
    tm_tape_free(r.t);
    free(malloc(12345));
    r.t = tm_tape_new();
    ck_assert_ptr_nonnull(r.t);
    uint32_t big[40];
    for (uint32_t i = 0; i < 40; i++)
        big[i] = i % FIXTURE_PROGRAMS;
    ck_assert_int_eq(tm_forward(&r.p, r.t, &r.data.ds, big, 40), 0);
    run_all(&r);
    ck_assert_mem_eq(grad, r.grad, r.p.n * sizeof *grad);
    free(grad);
    run_free(&r);
}
END_TEST

START_TEST(gradients_add_up_over_programs)
{
    struct run r;
    run_init(&r);
    run_all(&r);
    float *sum = tm_alloc(r.p.n, sizeof *sum);
    ck_assert_ptr_nonnull(sum);
    for (uint32_t i = 0; i < FIXTURE_PROGRAMS; i++) {
        ck_assert_int_eq(tm_forward(&r.p, r.t, &r.data.ds, &i, 1), 0);
        tm_backward(&r.p, r.t, &r.gs[i], &r.gl[i], sum);
    }
    for (size_t j = 0; j < r.p.n; j++)
        ck_assert_float_le(fabsf(sum[j] - r.grad[j]), 1e-4f * fmaxf(1, fabsf(sum[j])));
    free(sum);
    run_free(&r);
}
END_TEST

START_TEST(an_empty_list_is_harmless)
{
    struct run r;
    run_init(&r);
    ck_assert_int_eq(tm_forward(&r.p, r.t, &r.data.ds, all, 0), 0);
    tm_backward(&r.p, r.t, NULL, NULL, r.grad);
    for (size_t j = 0; j < r.p.n; j++)
        ck_assert_float_eq(r.grad[j], 0);
    run_free(&r);
}
END_TEST

START_TEST(unsupported_widths_are_refused)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_params p;
    struct tp_err e;
    h.d_model = 100;
    ck_assert_int_eq(tm_params_init(&p, &h, NULL, &e), -TP_E_UNUSABLE);
    h = tm_hyper_default(TCLFEAT_TCLF_1);
    h.d_state = TM_MAX_STATE + 1;
    ck_assert_int_eq(tm_params_init(&p, &h, NULL, &e), -TP_E_UNUSABLE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model/real_backward");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, outputs_equal_pytorch);
    tcase_add_test(c, gradient_of_every_tensor_equals_pytorch);
    tcase_add_test(c, outputs_of_every_pooling_and_number_of_blocks_follow_the_formulas);
    tcase_add_test(c, every_kernel_set_agrees_with_portable);
    tcase_add_test(c, padding_gets_no_gradient);
    tcase_add_test(c, the_same_list_gives_the_same_bits_on_another_tape);
    tcase_add_test(c, gradients_add_up_over_programs);
    tcase_add_test(c, an_empty_list_is_harmless);
    tcase_add_test(c, unsupported_widths_are_refused);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
