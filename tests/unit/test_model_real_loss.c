/* Losses against PyTorch (tests/golden/model.py). */
#include "model_fixture.h"

enum { N = 12 };

struct input {
    float s[N], gs[N];
    double y[N], target[N];
};

static struct input make(void)
{
    struct input in;
    memset(&in, 0, sizeof in);
    for (uint64_t i = 0; i < N; i++) {
        in.s[i] = (float)(3 * fixture_uniform(5, i));
        in.y[i] = (double)(float)((fixture_uniform(6, i) + 1) / 2);
        in.target[i] = (double)(float)fixture_uniform(7, i);
    }
    in.y[3] = in.y[2];
    in.y[4] = in.y[5] = 0;
    in.y[6] = 1;
    return in;
}

static void compare(const char *name, double loss, const float *gs)
{
    char label[32];
    uint32_t n;
    snprintf(label, sizeof label, "loss %s", name);
    float *value = fixture_golden(label, &n);
    ck_assert_double_eq_tol(loss, (double)value[0], 2e-7 * fabs(loss));
    snprintf(label, sizeof label, "grad %s", name);
    float *grad = fixture_golden(label, &n);
    ck_assert_uint_eq(n, N);
    for (int i = 0; i < N; i++)
        ck_assert_float_eq_tol(gs[i], grad[i], 1e-6f);
    free(value);
    free(grad);
}

START_TEST(pairwise_equals_pytorch)
{
    struct input in = make();
    double loss = tm_loss_pairwise(in.s, in.y, NULL, N, 1, in.gs);
    compare("pairwise", loss, in.gs);
}
END_TEST

START_TEST(lambda_equals_pytorch)
{
    struct input in = make();
    double loss = 0;
    ck_assert_int_eq(tm_loss_lambda(in.s, in.y, N, 1, in.gs, &loss), 0);
    compare("lambda", loss, in.gs);
}
END_TEST

START_TEST(huber_equals_pytorch)
{
    struct input in = make();
    double loss = tm_loss_huber(in.s, in.target, N, 1, in.gs);
    compare("huber", loss, in.gs);
}
END_TEST

START_TEST(scale_multiplies_and_gradients_add)
{
    struct input a = make(), b = make();
    double one = tm_loss_pairwise(a.s, a.y, NULL, N, 1, a.gs), half = tm_loss_pairwise(b.s, b.y, NULL, N, 0.5, b.gs);
    ck_assert_double_eq_tol(half, 0.5 * one, 1e-12);
    tm_loss_pairwise(b.s, b.y, NULL, N, 0.5, b.gs);
    for (int i = 0; i < N; i++)
        ck_assert_float_eq_tol(a.gs[i], b.gs[i], 1e-6f);
}
END_TEST

START_TEST(pair_weight_counts_every_pair_once)
{
    const double y[] = {0, 0.5, 1, 1};
    ck_assert_double_eq_tol(tm_pair_weight(y, NULL, 4), 0.5 + 1 + 1 + 0.5 + 0.5, 1e-15);
    ck_assert_double_eq(tm_pair_weight(y, NULL, 1), 0);
}
END_TEST

/* numbers of the formula in grad.h, computed apart from this code */
START_TEST(pairs_within_noise_count_less)
{
    const double y[] = {1, 0.98, 0.5, 0}, noise[] = {0.03, 0.02, 0, 0};
    const float s[] = {0.2f, 0.4f, -1, 0.1f}, want[] = {-0.5954291547f, -0.5073273331f, -0.1644407111f, 1.2671971988f};
    float gs[4] = {0};
    ck_assert_double_eq_tol(tm_pair_weight(y, noise, 4), 3.468494807415998, 1e-12);
    ck_assert_double_eq_tol(tm_loss_pairwise(s, y, noise, 4, 1, gs), 2.125554088626934, 1e-6);
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq_tol(gs[i], want[i], 1e-6f);
}
END_TEST

/* numbers of torch.nn.functional.cross_entropy(s, softmax(10 y)) in float64 and its gradient */
START_TEST(the_list_loss_equals_pytorch)
{
    const double y[] = {1, 0.9, 0.5, 0};
    const float s[] = {0.2f, 0.4f, -1, 0.1f}, want[] = {-0.2178438525f, 0.0443731694f, 0.0414879639f, 0.1319827192f};
    float gs[4] = {0};
    ck_assert_double_eq_tol(tm_loss_list(s, y, 10, 4, 0.5, gs), 0.592087130609689, 1e-7);
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq_tol(gs[i], want[i], 1e-7f);
    gs[0] = 0;
    ck_assert_double_eq(tm_loss_list(s, y, 10, 1, 1, gs), 0);
    ck_assert_float_eq(gs[0], 0);
}
END_TEST

START_TEST(failures_have_no_latency)
{
    struct input in = make();
    for (int i = 0; i < N; i++)
        in.target[i] = INFINITY;
    ck_assert_double_eq(tm_loss_huber(in.s, in.target, N, 1, in.gs), 0);
    for (int i = 0; i < N; i++)
        ck_assert_float_eq(in.gs[i], 0);
}
END_TEST

START_TEST(large_differences_stay_finite)
{
    float s[] = {-1e4f, 1e4f}, gs[2] = {0};
    const double y[] = {1, 0};
    double loss = tm_loss_pairwise(s, y, NULL, 2, 1, gs);
    ck_assert_double_eq_tol(loss, 2e4, 1e-6);
    ck_assert_float_eq(gs[0], -1);
    ck_assert_float_eq(gs[1], 1);
    s[0] = 1e4f;
    s[1] = -1e4f;
    gs[0] = gs[1] = 0;
    ck_assert_double_eq(tm_loss_pairwise(s, y, NULL, 2, 1, gs), 0);
    ck_assert_int_eq(tm_loss_lambda(s, y, 2, 1, gs, &loss), 0);
    ck_assert(isfinite(loss));
}
END_TEST

START_TEST(a_task_of_failures_only_has_no_loss)
{
    struct input in = make();
    double loss = 1;
    memset(in.y, 0, sizeof in.y);
    ck_assert_double_eq(tm_loss_pairwise(in.s, in.y, NULL, N, 1, in.gs), 0);
    ck_assert_int_eq(tm_loss_lambda(in.s, in.y, N, 1, in.gs, &loss), 0);
    ck_assert_double_eq(loss, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model/real_loss");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, pairwise_equals_pytorch);
    tcase_add_test(c, lambda_equals_pytorch);
    tcase_add_test(c, huber_equals_pytorch);
    tcase_add_test(c, scale_multiplies_and_gradients_add);
    tcase_add_test(c, pair_weight_counts_every_pair_once);
    tcase_add_test(c, pairs_within_noise_count_less);
    tcase_add_test(c, the_list_loss_equals_pytorch);
    tcase_add_test(c, failures_have_no_latency);
    tcase_add_test(c, large_differences_stay_finite);
    tcase_add_test(c, a_task_of_failures_only_has_no_loss);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
