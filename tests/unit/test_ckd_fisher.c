/* Fisher information against PyTorch's autograd (tests/golden/ckd.py), scaling, and EWC's gradient. */
#include "ckd/fisher.h"
#include "ckd_toy.h"
#include "model_fixture.h"

static struct tm_model *golden_model(void)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    ck_assert_ptr_nonnull(m);
    fixture_weights(&h, m->w);
    return m;
}

START_TEST(fisher_of_pairs_equals_autograd)
{
    static const uint32_t pair[12][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3},
                                         {4, 5}, {4, 6}, {4, 7}, {5, 6}, {5, 7}, {6, 7}};
    struct tm_model *m = golden_model();
    struct fixture_data data;
    const struct tk_run run = {.seed = 1, .threads = 2};
    float *f = tm_alloc(m->n, sizeof *f);
    fixture_data_init(&data, m->h.features, m->h.summary);
    data.ds.features = TCLFEAT_TCLF_1;
    ck_assert_int_eq(tk_fisher_of_pairs(m, &data.ds, pair, 12, &run, f, NULL), 0);
    for (int t = 0; t < TM_TENSORS; t++) {
        const struct tm_shape *s = &m->shape[t];
        const size_t stride = s->size > 1024 ? s->size / 1024 : 1;
        char name[32] = "max ";
        uint32_t n;
        if (s->size == 0)
            continue;
        strncat(name, s->name, sizeof name - 5);
        float *max = fixture_golden_in("tests/golden/ckd.bin", name, &n);
        float *want = fixture_golden_in("tests/golden/ckd.bin", s->name, &n);
        for (uint32_t k = 0; k < n; k++)
            ck_assert_msg(fabsf(f[s->offset + k * stride] - want[k]) <= 2e-4f * max[0] + 1e-12f, "%s[%u]: %g, not %g",
                          s->name, k, (double)f[s->offset + k * stride], (double)want[k]);
        free(max);
        free(want);
    }
    free(f);
    fixture_data_free(&data);
    tm_model_free(m);
}
END_TEST

START_TEST(fisher_does_not_depend_on_the_number_of_threads)
{
    struct toy t;
    const struct tm_hyper h = toy_hyper();
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    const struct tk_run one = toy_run(1), three = toy_run(3);
    float *a = tm_alloc(m->n, sizeof *a), *b = tm_alloc(m->n, sizeof *b);
    toy_init(&t, false, 1);
    ck_assert_int_eq(tk_fisher(m, &t.train_set, &one, a, NULL), 0);
    ck_assert_int_eq(tk_fisher(m, &t.train_set, &three, b, NULL), 0);
    ck_assert_mem_eq(a, b, m->n * sizeof *a);
    double sum = 0;
    for (size_t i = 0; i < m->n; i++) {
        ck_assert(a[i] >= 0);
        sum += (double)a[i];
    }
    ck_assert_double_gt(sum, 0);
    free(a);
    free(b);
    tm_model_free(m);
    toy_free(&t);
}
END_TEST

START_TEST(single_programs_make_no_pairs)
{
    struct toy t;
    const struct tm_hyper h = toy_hyper();
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    const struct tk_run run = toy_run(1);
    float *f = tm_alloc(m->n, sizeof *f);
    struct tp_err e;
    toy_init(&t, false, 1);
    const uint32_t apart[3] = {0, TOY_PER_TASK, 2 * TOY_PER_TASK};
    const struct tk_set set = {&t.ds, apart, 3};
    ck_assert_int_eq(tk_fisher(m, &set, &run, f, &e), -TP_E_NOT_ENOUGH_DATA);
    t.ds.features = TCLFEAT_TLP_GPU_1;
    ck_assert_int_eq(tk_fisher(m, &t.train_set, &run, f, &e), -TP_E_FEATURES_MISMATCH);
    free(f);
    tm_model_free(m);
    toy_free(&t);
}
END_TEST

static int stop(void *arg, const struct tk_progress *p)
{
    ck_assert(p->fraction > 0 && p->fraction <= 1);
    return ++*(int *)arg == 2;
}

START_TEST(fisher_can_be_cancelled)
{
    struct toy t;
    const struct tm_hyper h = toy_hyper();
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    int calls = 0;
    const struct tk_run run = {.seed = 1, .threads = 1, .progress = stop, .arg = &calls};
    float *f = tm_alloc(m->n, sizeof *f);
    struct tp_err e;
    toy_init(&t, false, 1);
    ck_assert_int_eq(tk_fisher(m, &t.train_set, &run, f, &e), -TP_E_CANCELLED);
    ck_assert_int_eq(calls, 2);
    for (size_t i = 0; i < m->n; i++)
        ck_assert(f[i] == 0);
    free(f);
    tm_model_free(m);
    toy_free(&t);
}
END_TEST

START_TEST(scaled_information_has_the_given_mean_and_cap)
{
    const struct tm_hyper h = toy_hyper();
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    const size_t parameters = tm_parameter_count(&h);
    float *f = tm_alloc(m->n, sizeof *f), *s = tm_alloc(m->n, sizeof *s);
    double sum = 0;
    for (int t = 0; t < TM_TENSORS; t++)
        for (size_t i = 0; i < m->shape[t].size; i++)
            f[m->shape[t].offset + i] = 1e-9f * (float)(1 + i % 7);
    tk_ewc_scale(m, f, s);
    for (size_t i = 0; i < m->n; i++)
        sum += (double)s[i];
    ck_assert_double_eq_tol(sum / (double)parameters, TK_EWC_MEAN, 1e-9);
    ck_assert_float_eq_tol(s[3] / s[0], 4, 1e-4f);
    f[5] = 1; /* everything else is nothing beside it */
    tk_ewc_scale(m, f, s);
    ck_assert_float_eq_tol(s[5], (float)(TK_EWC_CAP * TK_EWC_MEAN), 1e-6f);
    memset(f, 0, m->n * sizeof *f);
    tk_ewc_scale(m, f, s);
    for (size_t i = 0; i < m->n; i++)
        ck_assert(s[i] == 0);
    free(f);
    free(s);
    tm_model_free(m);
}
END_TEST

START_TEST(the_gradient_of_ewc_is_that_of_its_penalty)
{
    enum { N = 16 };
    float f[N], anchor[N], w[N], grad[N], moved[N];
    for (int i = 0; i < N; i++) {
        f[i] = (float)(1e-4 * (fixture_uniform(1, (uint64_t)i) + 1));
        anchor[i] = (float)fixture_uniform(2, (uint64_t)i);
        w[i] = (float)fixture_uniform(3, (uint64_t)i);
        grad[i] = 1; /* it adds */
    }
    tk_ewc_gradient(f, anchor, w, N, 1e4, grad);
    for (int i = 0; i < N; i++) {
        const float eps = 0.0625f; /* a power of two: w +- eps is nearly exact, and the penalty is a parabola */
        memcpy(moved, w, sizeof w);
        moved[i] = w[i] + eps;
        const double up = tk_ewc_penalty(f, anchor, moved, N, 1e4);
        moved[i] = w[i] - eps;
        const double down = tk_ewc_penalty(f, anchor, moved, N, 1e4);
        ck_assert_double_eq_tol((up - down) / (2 * (double)eps), (double)grad[i] - 1, 1e-4);
    }
}
END_TEST

START_TEST(older_information_fades)
{
    float f[2] = {1, 0};
    const float new[2] = {2, 4};
    tk_fisher_merge(f, new, 2);
    ck_assert_float_eq_tol(f[0], 2.95f, 1e-6f);
    ck_assert_float_eq_tol(f[1], 4, 1e-6f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ckd/fisher");
    TCase *c = tcase_create("all");
    tcase_add_test(c, fisher_of_pairs_equals_autograd);
    tcase_add_test(c, fisher_does_not_depend_on_the_number_of_threads);
    tcase_add_test(c, single_programs_make_no_pairs);
    tcase_add_test(c, fisher_can_be_cancelled);
    tcase_add_test(c, scaled_information_has_the_given_mean_and_cap);
    tcase_add_test(c, the_gradient_of_ewc_is_that_of_its_penalty);
    tcase_add_test(c, older_information_fades);
    suite_add_tcase(suite, c);
    return toy_main(srunner_create(suite));
}
