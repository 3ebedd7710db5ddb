/* Embeddings without a model: a fixed linear map of mean row and summary that keeps distances. */
#include "sampler/embed.h"
#include "tests/unit/model_fixture.h"

enum { COLS = 64, SUMMARY = 72, WIDE = COLS + SUMMARY };

static struct fixture_data data;
static float out[FIXTURE_PROGRAMS * TS_EMBED_DIM];

static void setup(void)
{
    fixture_data_init(&data, COLS, SUMMARY);
    ck_assert_int_eq(ts_embed_rows(&data.ds, NULL, FIXTURE_PROGRAMS, out), 0);
}

static void teardown(void)
{
    fixture_data_free(&data);
}

static double distance(const double *a, const double *b, int n)
{
    double d2 = 0.0;
    for (int i = 0; i < n; i++)
        d2 += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(d2);
}

START_TEST(distances_stay_in_proportion)
{
    static double x[FIXTURE_PROGRAMS][WIDE], y[FIXTURE_PROGRAMS][TS_EMBED_DIM];
    double low = INFINITY, high = 0.0;
    for (int p = 0; p < FIXTURE_PROGRAMS; p++) {
        const uint32_t from = data.start[p], to = data.start[p + 1];
        for (uint32_t i = from; i < to; i++)
            for (int j = 0; j < COLS; j++)
                x[p][j] += (double)data.rows[data.ids[i] * COLS + (uint32_t)j] / (to - from);
        for (int j = 0; j < SUMMARY; j++)
            x[p][COLS + j] = (double)data.summary[p * SUMMARY + j];
        for (int j = 0; j < TS_EMBED_DIM; j++)
            y[p][j] = (double)out[p * TS_EMBED_DIM + j];
    }
    for (int p = 0; p < FIXTURE_PROGRAMS; p++)
        for (int q = 0; q < p; q++) {
            const double ratio = distance(y[p], y[q], TS_EMBED_DIM) / distance(x[p], x[q], WIDE);
            low = fmin(low, ratio);
            high = fmax(high, ratio);
        }
    /* sqrt(128 / 136) on average, standard deviation 1 / 16 of that */
    ck_assert_double_gt(low, 0.72);
    ck_assert_double_lt(high, 1.22);
}
END_TEST

START_TEST(lists_choose_programs)
{
    static const uint32_t idx[] = {5, 0, 5};
    float some[3 * TS_EMBED_DIM];
    ck_assert_int_eq(ts_embed_rows(&data.ds, idx, 3, some), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_mem_eq(some + i * TS_EMBED_DIM, out + idx[i] * TS_EMBED_DIM, TS_EMBED_DIM * sizeof *out);
    ck_assert_int_eq(ts_embed_rows(&data.ds, idx, 0, NULL), 0);
}
END_TEST

START_TEST(order_of_rows_does_not_matter)
{
    float turned[TS_EMBED_DIM];
    const uint32_t p = 4, from = data.start[p], to = data.start[p + 1];
    for (uint32_t i = from, j = to - 1; i < j; i++, j--) {
        const uint32_t t = data.ids[i];
        data.ids[i] = data.ids[j];
        data.ids[j] = t;
    }
    ck_assert_int_eq(ts_embed_rows(&data.ds, &p, 1, turned), 0);
    for (int j = 0; j < TS_EMBED_DIM; j++)
        ck_assert_double_eq_tol((double)turned[j], (double)out[p * TS_EMBED_DIM + (uint32_t)j], 1e-5);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sampler/embed");
    TCase *c = tcase_create("embed");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, distances_stay_in_proportion);
    tcase_add_test(c, lists_choose_programs);
    tcase_add_test(c, order_of_rows_does_not_matter);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
