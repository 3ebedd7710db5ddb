/* Last-layer posterior: rank-one steps against a refit, variances against Gauss elimination in double. */
#include "sampler/posterior.h"

#include "model/mem.h"
#include "tests/unit/sampler_pool.h"

enum { N = 32, LD = 32, SEEN = 40, PICKS = 30 };

static float phi[SEEN + PICKS][LD] __attribute__((aligned(64)));
static const struct tm_ops *ops;

static void setup(void)
{
    struct tm_rng r;
    tm_rng_seed(&r, 11);
    ops = tm_ops_get(tm_simd_set());
    for (int i = 0; i < SEEN + PICKS; i++)
        for (int j = 0; j < N; j++)
            phi[i][j] = (float)fmax(2.0 * tm_rng_uniform(&r) - 0.7, 0.0);
}

static void see(struct ts_posterior *p, int from, int to)
{
    for (int i = from; i < to; i++)
        ts_posterior_add(p, phi[i]);
}

/* x^T (alpha I + sum phi phi^T / noise)^-1 x by elimination with pivots */
static double brute_variance(const float *x, int n_phi, double alpha, double noise)
{
    static double a[N][N + 1];
    double s = 0.0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            a[i][j] = i == j ? alpha : 0.0;
            for (int k = 0; k < n_phi; k++)
                a[i][j] += (double)phi[k][i] * (double)phi[k][j] / noise;
        }
        a[i][N] = (double)x[i];
    }
    for (int c = 0; c < N; c++) {
        int best = c;
        for (int i = c + 1; i < N; i++)
            best = fabs(a[i][c]) > fabs(a[best][c]) ? i : best;
        for (int j = 0; j <= N; j++) {
            const double t = a[c][j];
            a[c][j] = a[best][j];
            a[best][j] = t;
        }
        for (int i = 0; i < N; i++) {
            const double f = i == c ? 0.0 : a[i][c] / a[c][c];
            for (int j = c; j <= N && f != 0.0; j++)
                a[i][j] -= f * a[c][j];
        }
    }
    for (int i = 0; i < N; i++)
        s += (double)x[i] * a[i][N] / a[i][i];
    return s;
}

START_TEST(variance_is_the_formula)
{
    static const double alpha[] = {1.0, 0.01, 100.0}, noise[] = {1.0, 0.1, 3.0};
    for (int t = 0; t < 3; t++) {
        struct ts_posterior p;
        ck_assert_int_eq(ts_posterior_init(&p, N, LD, alpha[t], noise[t]), 0);
        see(&p, 0, SEEN);
        ts_posterior_refit(&p);
        for (int i = 0; i < SEEN + PICKS; i++) {
            const double want = brute_variance(phi[i], SEEN, alpha[t], noise[t]);
            ck_assert_double_eq_tol(ts_posterior_variance(&p, ops, phi[i]), want, 1e-5 * want);
        }
        ts_posterior_free(&p);
    }
}
END_TEST

START_TEST(rank_one_steps_are_a_refit)
{
    struct ts_posterior p, q;
    float v[LD] __attribute__((aligned(64)));
    double u2[SEEN + PICKS];
    ck_assert_int_eq(ts_posterior_init(&p, N, LD, 0.5, 0.3), 0);
    ck_assert_int_eq(ts_posterior_init(&q, N, LD, 0.5, 0.3), 0);
    see(&p, 0, SEEN);
    ts_posterior_refit(&p);
    see(&q, 0, SEEN + PICKS);
    ts_posterior_refit(&q);
    for (int i = 0; i < SEEN + PICKS; i++)
        u2[i] = ts_posterior_variance(&p, ops, phi[i]);
    for (int k = SEEN; k < SEEN + PICKS; k++) {
        ts_posterior_pick(&p, phi[k], v);
        for (int i = 0; i < SEEN + PICKS; i++) {
            float along;
            ops->products(phi[i], v, 1, LD, &along);
            u2[i] -= (double)along * (double)along;
        }
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            ck_assert_double_eq_tol(p.covariance[i * LD + j], q.covariance[i * LD + j], 1e-9);
    for (int i = 0; i < SEEN + PICKS; i++) {
        const double want = brute_variance(phi[i], SEEN + PICKS, 0.5, 0.3);
        ck_assert_double_eq_tol(u2[i], want, 1e-4 * want);
    }
    ts_posterior_free(&p);
    ts_posterior_free(&q);
}
END_TEST

START_TEST(sizes_that_do_not_suit_the_kernels)
{
    struct ts_posterior p;
    float x[LD] __attribute__((aligned(64))) = {1, 2, 3}, v[LD] __attribute__((aligned(64)));
    ck_assert_int_eq(ts_posterior_init(&p, 3, 16, 2.0, 1.0), 0);
    ck_assert_double_eq_tol(ts_posterior_variance(&p, ops, x), 14.0 / 2.0, 1e-6);
    ts_posterior_pick(&p, x, v);
    for (int i = 3; i < 16; i++)
        ck_assert(v[i] == 0.0f);
    ck_assert_double_eq_tol(p.covariance[0], 0.5 - 0.25 / (1.0 + 7.0), 1e-12);
    ts_posterior_free(&p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sampler/posterior");
    TCase *c = tcase_create("posterior");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, variance_is_the_formula);
    tcase_add_test(c, rank_one_steps_are_a_refit);
    tcase_add_test(c, sizes_that_do_not_suit_the_kernels);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
