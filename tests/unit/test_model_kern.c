/* Kernels of the inference engine, set by set: accuracy of the elementary functions against libm in double, each kernel
 * against the portable one, and results that do not depend on the neighbours. Sets that this CPU cannot run are
 * skipped. */
#include "model/kern.h"
#include "model/mem.h"
#include "model/net.h"
#include "tests/unit/sanitized.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { I = 128, N = 8, K = 4, R = 8, LDT = 32, NODES = 53, MATRIX = 256 };

static const struct tm_kern *sets[TM_SIMD_SETS];
static int n_sets;

static float *array(size_t n, struct tm_rng *rng, double centre, double spread)
{
    float *p = tm_alloc(n, sizeof *p);
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < n; i++)
        p[i] = (float)(centre + spread * (2.0 * tm_rng_uniform(rng) - 1.0));
    return p;
}

typedef void function(const float *x, float *y, size_t n);

/* Largest relative error over [low, high]. */
static double worst(function *f, double (*exact)(double), double low, double high)
{
    enum { POINTS = 1 << 16 };
    float *x = tm_alloc(POINTS, sizeof *x), *y = tm_alloc(POINTS, sizeof *y);
    double max = 0.0;
    ck_assert(x && y);
    for (int i = 0; i < POINTS; i++)
        x[i] = (float)(low + (high - low) * i / (POINTS - 1));
    f(x, y, POINTS);
    for (int i = 0; i < POINTS; i++)
        max = fmax(max, fabs((double)y[i] / exact((double)x[i]) - 1.0));
    free(x);
    free(y);
    return max;
}

static double exact_silu2(double x)
{
    return x * M_LN2 / (1.0 + exp2(-x));
}

static double exact_softplus2(double x)
{
    return M_LN2 * fmax(x, 0.0) + log1p(exp2(-fabs(x)));
}

START_TEST(exponentials_are_accurate)
{
    const struct tm_kern *k = sets[_i];
    ck_assert_double_le(worst(k->exp, exp, -86.0, 87.0), 2e-7);
    ck_assert_double_le(worst(k->exp, exp, -1.0, 1.0), 2e-7);
    ck_assert_double_le(worst(k->exp2, exp2, -120.0, 126.0), 2.5e-7);
    ck_assert_double_le(worst(k->exp2, exp2, -1.0, 0.0), 2.5e-7);
    ck_assert_double_le(worst(k->silu2, exact_silu2, -80.0, -1e-3), 5e-7);
    ck_assert_double_le(worst(k->silu2, exact_silu2, 1e-3, 80.0), 5e-7);
    ck_assert_double_le(worst(k->softplus2, exact_softplus2, -80.0, 80.0), 5e-7);
    ck_assert_double_le(worst(k->softplus2, exact_softplus2, -1.0, 1.0), 5e-7);
}
END_TEST

START_TEST(extreme_arguments_stay_finite)
{
    const struct tm_kern *k = sets[_i];
    const float x[16]
        __attribute__((aligned(64))) = {-1e4f, -200.0f, -88.0f, 0.0f, -0.0f, 88.0f, 200.0f, 1e4f, -3e38f, 3e38f};
    const float t[16] __attribute__((aligned(64))) = {-1e4f, -126.0f, -3e38f, -1e9f, -150.0f, -125.5f};
    float y[16] __attribute__((aligned(64)));
    k->exp(x, y, 16);
    for (int i = 0; i < 10; i++)
        ck_assert(isfinite(y[i]) && y[i] >= 0.0f);
    k->softplus2(x, y, 16);
    for (int i = 0; i < 10; i++)
        ck_assert(isfinite(y[i]) && y[i] >= 0.0f);
    k->silu2(x, y, 16);
    for (int i = 0; i < 10; i++)
        ck_assert(isfinite(y[i]));
    memcpy(y, x, sizeof y);
    k->silu(y, 16, 16, 1);
    for (int i = 0; i < 10; i++)
        ck_assert(isfinite(y[i]));
    k->exp2(t, y, 16);
    for (int i = 0; i < 6; i++)
        ck_assert(y[i] >= 0.0f && y[i] < 1e-37f);
    ck_assert(y[6] == 1.0f);
}
END_TEST

/* A layer packed for a set from row-major [out][in] weights, as infer_plan.c does it. */
static struct tm_linear pack(const struct tm_kern *k, const float *w, const float *bias, int in, int out)
{
    struct tm_linear l = {.in = in, .out = out};
    float *p = tm_alloc(tm_linear_size(k, &l), sizeof *p), *b = tm_alloc((size_t)l.out_padded, sizeof *b);
    ck_assert(p && b);
    tm_linear_pack(k, &l, w, p);
    l.w = p;
    l.bias = b;
    memcpy(b, bias, (size_t)out * sizeof *b);
    return l;
}

static void unpack(struct tm_linear *l)
{
    free((void *)(uintptr_t)l->w);
    free((void *)(uintptr_t)l->bias);
}

START_TEST(layers_of_any_width_and_height_are_exact_and_do_not_see_their_neighbours)
{
    static const int outs[] = {2, 24, 32, 40, 64, 120, 128, 256}, ins[] = {1, 20, 72, 128};
    const struct tm_kern *k = sets[_i];
    struct tm_rng rng;
    tm_rng_seed(&rng, 1);
    float *w = array(MATRIX * MATRIX, &rng, 0.0, 0.3), *bias = array(MATRIX, &rng, 0.0, 1.0),
          *x = array(NODES * MATRIX, &rng, 0.0, 1.0);
    float *start = array(NODES * MATRIX, &rng, 0.0, 1.0), *y = array(NODES * MATRIX, &rng, 0.0, 0.0),
          *one = array(MATRIX, &rng, 0.0, 0.0);
    for (size_t a = 0; a < sizeof outs / sizeof outs[0]; a++) {
        for (size_t c = 0; c < sizeof ins / sizeof ins[0]; c++) {
            const int in = ins[c], out = outs[a];
            struct tm_linear l = pack(k, w, bias, in, out);
            for (unsigned flags = 0; flags < 4; flags++) {
                for (size_t rows = 1; rows <= 14; rows += SANITIZED ? 13 : 1) {
                    memcpy(y, start, NODES * MATRIX * sizeof *y);
                    k->linear(&l, x, MATRIX - 1, y, MATRIX, rows, flags);
                    for (size_t r = 0; r < rows; r++) {
                        memcpy(one, start + r * MATRIX, MATRIX * sizeof *one);
                        k->linear(&l, x + r * (MATRIX - 1), MATRIX - 1, one, MATRIX, 1, flags);
                        ck_assert_mem_eq(one, y + r * MATRIX, (size_t)out * sizeof *one);
                        for (int o = 0; o < out && rows == 14; o++) {
                            double sum =
                                       flags & TM_LINEAR_ADD ? (double)start[r * MATRIX + (size_t)o] : (double)bias[o],
                                   size = fabs(sum);
                            for (int i = 0; i < in; i++) {
                                double p = (double)w[o * in + i] * (double)x[r * (MATRIX - 1) + (size_t)i];
                                sum += p;
                                size += fabs(p);
                            }
                            if (flags & TM_LINEAR_RELU)
                                sum = fmax(sum, 0.0);
                            ck_assert_double_eq_tol((double)one[o], sum, 1e-6 * size);
                        }
                    }
                    ck_assert_mem_eq(y + rows * MATRIX, start + rows * MATRIX,
                                     MATRIX * sizeof *y); /* nothing behind the rows */
                    ck_assert_mem_eq(y + l.out_padded, start + l.out_padded,
                                     (size_t)(MATRIX - l.out_padded) * sizeof *y);
                }
            }
            unpack(&l);
        }
    }
    free(one);
    free(y);
    free(start);
    free(x);
    free(bias);
    free(w);
}
END_TEST

struct mixer_data {
    struct tm_mixer m;
    float *row[NODES], *x, *delta, *t, *state;
    const float *path[NODES + K - 1];
};

static void mixer_init(struct mixer_data *d)
{
    struct tm_rng rng;
    tm_rng_seed(&rng, 2);
    d->m = (struct tm_mixer){I,
                             N,
                             K,
                             R,
                             array(K * I, &rng, 0.0, 0.5),
                             array(I, &rng, 0.0, 0.5),
                             array(R * I, &rng, 0.0, 0.35),
                             array(I, &rng, -3.0, 2.0),
                             array(N * I, &rng, -6.0, 5.9),
                             array(I, &rng, 1.0, 0.3)};
    for (int i = 0; i < NODES; i++)
        d->row[i] = array(3 * I, &rng, 0.1, 1.0);
    for (int i = 0; i < NODES + K - 1; i++)
        d->path[i] = d->row[tm_rng_below(&rng, NODES)];
    d->x = array(NODES * I, &rng, 0.2, 1.0);
    d->delta = array(NODES * I, &rng, 0.5, 0.499);
    d->t = array(NODES * LDT, &rng, 0.0, 1.0);
    d->state = array(tm_state_floats(I, N), &rng, 0.0, 1.0);
}

static void mixer_free(struct mixer_data *d)
{
    const float *const parts[] = {d->m.conv_w, d->m.conv_b, d->m.dt_w, d->m.dt_b, d->m.a, d->m.d};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        free((void *)(uintptr_t)parts[i]);
    for (int i = 0; i < NODES; i++)
        free(d->row[i]);
    free(d->x);
    free(d->delta);
    free(d->t);
    free(d->state);
}

static void agree(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_double_eq_tol((double)a[i], (double)b[i], 1e-5 * fmax(0.1, fabs((double)b[i])));
}

START_TEST(the_mixer_agrees_with_the_portable_one_within_1e_5)
{
    const struct tm_kern *k = sets[_i], *p = &tm_kern_portable;
    struct mixer_data d;
    mixer_init(&d);
    float *y = tm_alloc(NODES * 3 * I, sizeof *y), *want = tm_alloc(NODES * 3 * I, sizeof *want);
    ck_assert(y && want);
    k->conv(&d.m, d.path, NODES, y);
    p->conv(&d.m, d.path, NODES, want);
    agree(y, want, NODES * I);
    k->delta(&d.m, d.t, LDT, NODES, y);
    p->delta(&d.m, d.t, LDT, NODES, want);
    agree(y, want, NODES * I);
    k->scan(&d.m, d.state, y, NODES, d.x, d.delta, d.t, LDT, d.path + K - 1, d.path);
    p->scan(&d.m, d.state, want, NODES, d.x, d.delta, d.t, LDT, d.path + K - 1, d.path);
    agree(y, want, tm_state_floats(I, N));
    for (int i = 0; i < NODES; i++)
        memcpy(y + i * 3 * I, d.row[i], 3 * I * sizeof *y);
    memcpy(want, y, NODES * 3 * I * sizeof *y);
    k->norm(d.m.d, y, 3 * I, y, 3 * I, I, NODES);
    p->norm(d.m.d, want, 3 * I, want, 3 * I, I, NODES);
    k->silu(y + I, 3 * I, I, NODES);
    p->silu(want + I, 3 * I, I, NODES);
    agree(y, want, NODES * 3 * I);
    free(want);
    free(y);
    mixer_free(&d);
}
END_TEST

START_TEST(a_path_may_be_cut_anywhere)
{
    const struct tm_kern *k = sets[_i];
    const size_t size = tm_state_floats(I, N);
    struct mixer_data d;
    mixer_init(&d);
    float *whole = tm_alloc(size, sizeof *whole), *cut = tm_alloc(size, sizeof *cut),
          *x = tm_alloc(NODES * I, sizeof *x);
    float *delta = tm_alloc(NODES * I, sizeof *delta);
    ck_assert(whole && cut && x && delta);
    k->conv(&d.m, d.path, NODES, x);
    k->delta(&d.m, d.t, LDT, NODES, delta);
    k->scan(&d.m, d.state, whole, NODES, x, delta, d.t, LDT, d.path + K - 1, d.path);
    for (size_t at = 1; at < NODES; at += SANITIZED ? 9 : 1) {
        const float *const *rest = d.path + at;
        k->conv(&d.m, rest, NODES - at, d.x + at * I);
        ck_assert_mem_eq(d.x + at * I, x + at * I, (NODES - at) * I * sizeof *x);
        k->delta(&d.m, d.t + at * LDT, LDT, NODES - at, d.delta + at * I);
        ck_assert_mem_eq(d.delta + at * I, delta + at * I, (NODES - at) * I * sizeof *delta);
        k->scan(&d.m, d.state, cut, at, x, delta, d.t, LDT, d.path + K - 1, d.path);
        k->scan(&d.m, cut, cut, NODES - at, x + at * I, delta + at * I, d.t + at * LDT, LDT, rest + K - 1, d.path);
        ck_assert_mem_eq(cut, whole, size * sizeof *cut);
    }
    free(delta);
    free(x);
    free(cut);
    free(whole);
    mixer_free(&d);
}
END_TEST

int main(void)
{
    for (int s = 0; s < TM_SIMD_SETS; s++) {
        const struct tm_kern *k = tm_kern((enum tm_simd_set)s);
        if (k)
            sets[n_sets++] = k;
        else
            printf("skipped here: %s\n", tm_simd_set_name((enum tm_simd_set)s));
    }
    Suite *s = suite_create("model/kern");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, exponentials_are_accurate, 0, n_sets);
    tcase_add_loop_test(c, extreme_arguments_stay_finite, 0, n_sets);
    tcase_add_loop_test(c, layers_of_any_width_and_height_are_exact_and_do_not_see_their_neighbours, 0, n_sets);
    tcase_add_loop_test(c, the_mixer_agrees_with_the_portable_one_within_1e_5, 0, n_sets);
    tcase_add_loop_test(c, a_path_may_be_cut_anywhere, 0, n_sets);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
