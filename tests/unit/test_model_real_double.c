/* The double build: the gradient of every tensor against central differences, for the published network and for small
 * ones that take the general paths of the kernels (other d_state, d_conv, no summary branch). */
#define TM_DOUBLE
#include "model_fixture.h"

enum { PROBES = 16 };

struct net {
    struct tm_hyper h;
    struct tm_params p;
    struct tm_tape *t;
    struct fixture_data data;
    double *w, *grad;
};

static const uint32_t programs[] = {1, 3, 2, 7, 3, 0};
enum { LIST = sizeof programs / sizeof *programs };

static void net_init(struct net *n, struct tm_hyper h)
{
    struct tm_shape shape[TM_TENSORS];
    memset(n, 0, sizeof *n);
    n->h = h;
    size_t size = tm_layout(&h, shape);
    n->w = tm_alloc(size, sizeof *n->w);
    n->grad = tm_alloc(size, sizeof *n->grad);
    n->t = tm_tape_new();
    ck_assert(n->w && n->grad && n->t);
    fixture_weights(&h, n->w);
    fixture_data_init(&n->data, h.features, h.summary);
    /* narrow networks would hardly use their scan: larger B, C and time steps, or differences drown in rounding */
    for (int b = 0; h.d_model < 128 && b <= h.more_blocks; b++) {
        const struct tm_shape *x_proj = &shape[b ? TM_T_X_PROJ_W_2 : TM_T_X_PROJ_W];
        const struct tm_shape *dt_bias = &shape[b ? TM_T_DT_PROJ_B_2 : TM_T_DT_PROJ_B];
        for (size_t j = 0; j < x_proj->size; j++)
            n->w[x_proj->offset + j] *= 8;
        for (size_t j = 0; j < dt_bias->size; j++)
            n->w[dt_bias->offset + j] += 2.5;
    }
    ck_assert_int_eq(tm_params_init(&n->p, &h, n->w, NULL), 0);
}

static void net_free(struct net *n)
{
    tm_params_free(&n->p);
    tm_tape_free(n->t);
    fixture_data_free(&n->data);
    free(n->w);
    free(n->grad);
}

/* Any smooth function of the outputs will do: half the squares, with signs. Gradients are written when gs is given. */
static double objective(struct net *n, double *gs, double *gl)
{
    double sum = 0;
    tm_params_refresh(&n->p);
    ck_assert_int_eq(tm_forward(&n->p, n->t, &n->data.ds, programs, LIST), 0);
    for (int i = 0; i < LIST; i++) {
        double a = i % 2 ? 1 : -1, s = n->t->s[i] + 1, l = n->t->l[i] - 1;
        sum += 0.5 * (a * s * s + l * l);
        if (gs) {
            gs[i] = a * s;
            gl[i] = l;
        }
    }
    return sum;
}

static double central_difference(struct net *n, double *w, double eps)
{
    const double keep = *w;
    *w = keep + eps;
    double up = objective(n, NULL, NULL);
    *w = keep - eps;
    double down = objective(n, NULL, NULL);
    *w = keep;
    return (up - down) / (2 * eps);
}

/* The largest error relative to the tensor's largest gradient. Where a step of 1e-5 crosses the corner of a ReLU a
 * shorter one does not; where rounding drowns it a longer one helps; a wrong gradient agrees with none of them. */
static double tensor_error(struct net *n, int t)
{
    const struct tm_shape *shape = &n->p.shape[t];
    static const double steps[] = {1e-5, 1e-6, 1e-4, 3e-5, 3e-4};
    double max = 0, worst = 0;
    for (size_t j = 0; j < shape->size; j++)
        max = fmax(max, fabs(n->grad[shape->offset + j]));
    ck_assert_double_gt(max, 0);
    size_t stride = shape->size > PROBES ? shape->size / PROBES : 1;
    for (size_t j = shape->offset; j < shape->offset + shape->size; j += stride) {
        double error = INFINITY;
        for (size_t k = 0; k < sizeof steps / sizeof *steps && error > 1e-6; k++)
            error = fmin(error, fabs(central_difference(n, &n->w[j], steps[k]) - n->grad[j]) / max);
        worst = fmax(worst, error);
    }
    return worst;
}

static void check(struct tm_hyper h)
{
    struct net n;
    double gs[LIST], gl[LIST];
    net_init(&n, h);
    objective(&n, gs, gl);
    tm_backward(&n.p, n.t, gs, gl, n.grad);
    for (int t = 0; t < TM_TENSORS; t++) {
        if (n.p.shape[t].size == 0)
            continue;
        double error = tensor_error(&n, t);
        ck_assert_msg(error <= 1e-6, "pooling %d, %d blocks, %s: %g", (int)h.pooling, 1 + h.more_blocks,
                      n.p.shape[t].name, error);
    }
    net_free(&n);
}

START_TEST(gradients_of_the_published_network_are_derivatives)
{
    check(tm_hyper_default(TCLFEAT_TCLF_1));
}
END_TEST

START_TEST(gradients_of_a_small_network_without_summary_are_derivatives)
{
    check((struct tm_hyper){
        .features = 7, .embed = 5, .d_model = 16, .d_state = 3, .d_conv = 2, .dt_rank = 2, .head1 = 6, .head2 = 3});
}
END_TEST

START_TEST(gradients_of_an_odd_network_are_derivatives)
{
    check((struct tm_hyper){.features = 22,
                            .embed = 33,
                            .d_model = 48,
                            .d_state = 16,
                            .d_conv = 8,
                            .dt_rank = 3,
                            .summary = 5,
                            .summary_width = 16,
                            .head1 = 17,
                            .head2 = 9});
}
END_TEST

START_TEST(gradients_of_every_pooling_and_number_of_blocks_are_derivatives)
{
    struct tm_hyper h = {
        .features = 7, .embed = 5, .d_model = 16, .d_state = 3, .d_conv = 2, .dt_rank = 2, .head1 = 6, .head2 = 3};
    for (h.more_blocks = 0; h.more_blocks < TM_MAX_BLOCKS; h.more_blocks++) {
        for (int pooling = TM_POOL_SUM; pooling <= TM_POOL_LAST; pooling++) {
            h.pooling = (enum tm_pooling)pooling;
            check(h);
        }
    }
}
END_TEST

START_TEST(losses_have_the_gradients_they_return)
{
    enum { N = 9 };
    double s[N], y[N], gs[N], other[N], loss;
    for (int i = 0; i < N; i++) {
        s[i] = 2 * fixture_uniform(5, (uint64_t)i);
        y[i] = fixture_uniform(6, (uint64_t)i);
    }
    y[4] = y[5];
    for (int i = 0; i < N; i++) {
        const double eps = 1e-5, keep = s[i];
        double up, down;
        memset(gs, 0, sizeof gs);
        tm_loss_pairwise(s, y, NULL, N, 0.7, gs);
        s[i] = keep + eps;
        up = tm_loss_pairwise(s, y, NULL, N, 0.7, other);
        s[i] = keep - eps;
        down = tm_loss_pairwise(s, y, NULL, N, 0.7, other);
        s[i] = keep;
        ck_assert_double_eq_tol(gs[i], (up - down) / (2 * eps), 1e-8);

        memset(gs, 0, sizeof gs);
        ck_assert_int_eq(tm_loss_lambda(s, y, N, 0.7, gs, &loss), 0);
        s[i] = keep + eps;
        ck_assert_int_eq(tm_loss_lambda(s, y, N, 0.7, other, &up), 0);
        s[i] = keep - eps;
        ck_assert_int_eq(tm_loss_lambda(s, y, N, 0.7, other, &down), 0);
        s[i] = keep;
        ck_assert_double_eq_tol(gs[i], (up - down) / (2 * eps), 1e-8);

        memset(gs, 0, sizeof gs);
        tm_loss_huber(s, y, N, 0.7, gs);
        s[i] = keep + eps;
        up = tm_loss_huber(s, y, N, 0.7, other);
        s[i] = keep - eps;
        down = tm_loss_huber(s, y, N, 0.7, other);
        s[i] = keep;
        ck_assert_double_eq_tol(gs[i], (up - down) / (2 * eps), 1e-8);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model/real (double)");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, gradients_of_the_published_network_are_derivatives);
    tcase_add_test(c, gradients_of_a_small_network_without_summary_are_derivatives);
    tcase_add_test(c, gradients_of_an_odd_network_are_derivatives);
    tcase_add_test(c, gradients_of_every_pooling_and_number_of_blocks_are_derivatives);
    tcase_add_test(c, losses_have_the_gradients_they_return);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
