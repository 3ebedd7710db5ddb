/* The distillation loss against PyTorch (tests/golden/ckd.py). */
#include "ckd/distil.h"
#include "ckd_toy.h"
#include "model_fixture.h"

START_TEST(loss_and_gradient_equal_pytorch)
{
    float s[12], grad[12] = {0};
    double teacher[12];
    uint32_t n;
    float *loss = fixture_golden_in("tests/golden/ckd.bin", "loss distil", &n);
    float *want = fixture_golden_in("tests/golden/ckd.bin", "grad distil", &n);
    for (uint32_t i = 0; i < 12; i++) {
        s[i] = (float)(3 * fixture_uniform(5, i));
        teacher[i] = (double)(float)fixture_uniform(7, i);
    }
    ck_assert_double_eq_tol(tk_distil_loss(s, teacher, 12, 0.25, grad), (double)loss[0], 1e-6);
    for (uint32_t i = 0; i < 12; i++)
        ck_assert_float_eq_tol(grad[i], want[i], 1e-6f);
    free(loss);
    free(want);
}
END_TEST

START_TEST(the_scale_of_the_teacher_does_not_matter)
{
    const float s[4] = {1, 3, 2, 0};
    const double a[4] = {0, 1, 2, 5}, b[4] = {7, 10, 13, 22}; /* 3 a + 7 */
    float ga[4] = {0}, gb[4] = {0};
    ck_assert_double_eq_tol(tk_distil_loss(s, a, 4, 1, ga), tk_distil_loss(s, b, 4, 1, gb), 1e-12);
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq_tol(ga[i], gb[i], 1e-7f);
}
END_TEST

START_TEST(a_student_with_the_teachers_order_and_distances_has_nothing_to_learn)
{
    const float s[3] = {10, 20, 40};
    const double t[3] = {1, 2, 4};
    float g[3] = {0};
    ck_assert_double_eq_tol(tk_distil_loss(s, t, 3, 1, g), 0, 1e-12);
    for (int i = 0; i < 3; i++)
        ck_assert_float_eq_tol(g[i], 0, 1e-7f);
}
END_TEST

START_TEST(scores_that_are_all_the_same_say_nothing)
{
    const float s[3] = {1, 2, 3}, flat[3] = {2, 2, 2};
    const double t[3] = {1, 2, 3}, none[3] = {5, 5, 5}, broken[3] = {1, NAN, 2};
    float g[3] = {0};
    ck_assert_double_eq(tk_distil_loss(s, none, 3, 1, g), 0);
    ck_assert_double_eq(tk_distil_loss(flat, t, 3, 1, g), 0);
    ck_assert_double_eq(tk_distil_loss(s, broken, 3, 1, g), 0);
    for (int i = 0; i < 3; i++)
        ck_assert(g[i] == 0);
}
END_TEST

START_TEST(a_teacher_of_other_features_is_refused)
{
    struct toy t;
    const struct tm_hyper h = toy_hyper();
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    struct tk_distil *d;
    struct tp_err e;
    toy_init(&t, false, 1);
    const struct tk_distil_opts o = {.teacher = m, .beta = 1};
    t.ds.features = TCLFEAT_TLP_GPU_1;
    ck_assert_int_eq(tk_distil_new(&o, m, &t.train_set, &t.valid_set, 1, &d, &e), -TP_E_FEATURES_MISMATCH);
    ck_assert_ptr_null(d);
    tm_model_free(m);
    toy_free(&t);
}
END_TEST

/* Training with a teacher and without labels that differ: the student takes the teacher's order over. */
START_TEST(trust_is_taken_from_held_out_programs_and_from_batches_without_them)
{
    struct toy t;
    struct tp_err e;
    toy_init(&t, false, 1);
    struct tk_kb *kb = toy_kb(&t, 6);
    const struct tm_hyper h = toy_hyper();
    const struct tk_set none = {&t.ds, NULL, 0};
    for (int held_out = 0; held_out < 2; held_out++) {
        struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 9);
        const struct tk_set *valid = held_out ? &t.valid_set : &none;
        const struct tk_distil_opts o = {.teacher = kb->model, .beta = 0.5};
        struct tk_distil *d;
        struct tm_train_opts to;
        tm_train_defaults(&to);
        to.epochs = 1;
        ck_assert_int_eq(tk_distil_new(&o, m, &t.train_set, valid, 1, &d, &e), 0);
        ck_assert(isnan(tk_distil_trust(d).teacher));
        to.hook = tk_distil_hook(d);
        ck_assert_int_eq(
            tm_train(m, &t.ds, t.train_set.programs, t.train_set.n, valid->programs, valid->n, &to, NULL, NULL, &e), 0);
        const struct tk_trust trust = tk_distil_trust(d);
        ck_assert_double_gt(trust.teacher, 0.7);
        ck_assert(trust.student > 0 && trust.student < 1);
        tk_distil_free(d);
        tm_model_free(m);
    }
    tk_kb_free(kb);
    toy_free(&t);
}
END_TEST

/* A committee says the reverse of the labels: what is heard regardless turns the student round. */
START_TEST(a_committee_is_followed_whatever_the_labels_say)
{
    struct toy t;
    struct tp_err e;
    double says[TOY_N];
    toy_init(&t, false, 1);
    struct tk_kb *kb = toy_kb(&t, 6);
    struct tk_learn_opts o;
    struct tk_learned told;
    const struct tk_run run = toy_run(1);
    struct tm_model *m = NULL;
    tk_cl_defaults(&o);
    o.steps = 0;
    o.train.epochs = 40;
    o.train.lr = 4e-3;
    for (uint32_t i = 0; i < t.ds.n; i++)
        says[i] = t.ds.cost[i];
    ck_assert_int_eq(tk_learn_committee(kb->model, says, &t.train_set, &o, &run, &m, &told, &e), 0);
    ck_assert_double_gt(toy_pairwise(kb->model, &t), 0.7);
    ck_assert_double_lt(toy_pairwise(m, &t), 0.5);
    ck_assert_int_eq(told.epochs, 40);
    tm_model_free(m);
    tk_kb_free(kb);
    toy_free(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ckd/distil");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, loss_and_gradient_equal_pytorch);
    tcase_add_test(c, the_scale_of_the_teacher_does_not_matter);
    tcase_add_test(c, a_student_with_the_teachers_order_and_distances_has_nothing_to_learn);
    tcase_add_test(c, scores_that_are_all_the_same_say_nothing);
    tcase_add_test(c, a_teacher_of_other_features_is_refused);
    tcase_add_test(c, a_committee_is_followed_whatever_the_labels_say);
    tcase_add_test(c, trust_is_taken_from_held_out_programs_and_from_batches_without_them);
    suite_add_tcase(suite, c);
    return toy_main(srunner_create(suite));
}
