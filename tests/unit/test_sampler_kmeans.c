/* K-means: assignments against brute force in double, the objective, empty cells, threads. */
#include "sampler/kmeans.h"
#include "tests/unit/sampler_pool.h"

static struct ts_run make_run(int threads)
{
    struct ts_run r = {.workers = tm_pool_new(threads)};
    ck_assert_ptr_nonnull(r.workers);
    return r;
}

static void cluster(struct ts_cells *c, struct ts_view *v, const struct ts_pool *p, uint32_t k, uint64_t seed,
                    int threads)
{
    struct ts_run run = make_run(threads);
    ck_assert_int_eq(ts_view_init(v, p, run.workers), 0);
    ck_assert_int_eq(ts_kmeans(c, v, k, seed, &run, 0.0, 1.0), 0);
    tm_pool_free(run.workers);
}

START_TEST(number_of_cells)
{
    ck_assert_uint_eq(ts_cell_count(1), 1);
    ck_assert_uint_eq(ts_cell_count(7), 7);
    ck_assert_uint_eq(ts_cell_count(50), 8);
    ck_assert_uint_eq(ts_cell_count(65), 9);
    ck_assert_uint_eq(ts_cell_count(4000), 64);
    ck_assert_uint_eq(ts_cell_count(1000000), 1000);
    ck_assert_uint_eq(ts_cell_count(2000000), 1024);
}
END_TEST

/* d2 in double of standardised values computed anew */
static double distance(const struct ts_view *v, const struct ts_cells *c, size_t i, uint32_t k)
{
    double d2 = 0.0;
    for (int j = 0; j < v->pool->dim; j++) {
        const double x = ((double)v->pool->embedding[i * (size_t)v->pool->dim + (size_t)j] - (double)v->mean[j]) *
                         (double)v->scale[j];
        d2 += (x - (double)c->centre[k * v->dim + (size_t)j]) * (x - (double)c->centre[k * v->dim + (size_t)j]);
    }
    return d2;
}

START_TEST(every_program_is_in_the_nearest_cell)
{
    struct sampler_pool s;
    struct ts_cells c;
    struct ts_view v;
    sampler_pool_init(&s, 700, 19, 0, 3, 0, 5);
    cluster(&c, &v, &s.p, 27, 1, 1);
    for (size_t i = 0; i < 700; i++) {
        const double own = distance(&v, &c, i, c.cell[i]);
        ck_assert_double_eq_tol((double)c.distance[i], own, 1e-3);
        for (uint32_t k = 0; k < c.k; k++)
            ck_assert_double_ge(distance(&v, &c, i, k), own - 1e-4);
    }
    size_t seen = 0;
    for (uint32_t k = 0; k < c.k; k++)
        for (uint32_t i = c.start[k]; i < c.start[k + 1]; i++, seen++)
            ck_assert_uint_eq(c.cell[c.order[i]], k);
    ck_assert_uint_eq(seen, 700);
    ts_cells_free(&c);
    sampler_pool_free(&s);
}
END_TEST

START_TEST(objective_never_rises)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct sampler_pool s;
        struct ts_cells c;
        struct ts_view v;
        sampler_pool_init(&s, 900 + 300 * seed, 5 + (int)seed, 0, 1, 0, seed);
        cluster(&c, &v, &s.p, 8 + (uint32_t)seed * 5, seed, 2);
        ck_assert_int_ge(c.n_passes, 2);
        for (int i = 1; i < c.n_passes; i++)
            ck_assert_double_le(c.objective[i], c.objective[i - 1] * (1.0 + 1e-6));
        ts_cells_free(&c);
        sampler_pool_free(&s);
    }
}
END_TEST

START_TEST(threads_change_nothing)
{
    /* above TS_BATCH_POOL: mini-batches, too */
    struct sampler_pool s;
    struct ts_cells c[3];
    struct ts_view v;
    const size_t n = TS_BATCH_POOL + 1000;
    static const int threads[] = {1, 2, 4};
    sampler_pool_init(&s, n, 6, 0, 1, 0, 3);
    for (int i = 0; i < 3; i++)
        cluster(&c[i], &v, &s.p, 40, 7, threads[i]);
    for (int i = 1; i < 3; i++) {
        ck_assert_mem_eq(c[0].cell, c[i].cell, n * sizeof *c->cell);
        ck_assert_mem_eq(c[0].centre, c[i].centre, 40 * v.dim * sizeof *c->centre);
        ck_assert_mem_eq(c[0].objective, c[i].objective, sizeof c->objective);
    }
    for (int i = 0; i < 3; i++)
        ts_cells_free(&c[i]);
    sampler_pool_free(&s);
}
END_TEST

START_TEST(fewer_distinct_rows_than_cells)
{
    struct sampler_pool s;
    struct ts_cells c;
    struct ts_view v;
    sampler_pool_init(&s, 300, 4, 0, 1, 0, 3);
    for (size_t i = 0; i < 300 * 4; i++)
        s.embedding[i] = (float)(i / 4 % 3);
    cluster(&c, &v, &s.p, 18, 7, 1);
    for (size_t i = 0; i < 300; i++) {
        ck_assert_float_le(c.distance[i], 1e-5f);
        ck_assert_uint_eq(c.cell[i], c.cell[i % 3]);
    }
    ts_cells_free(&c);
    sampler_pool_free(&s);
}
END_TEST

START_TEST(standardised_rows_have_mean_0_and_variance_1)
{
    struct sampler_pool s;
    struct ts_view v;
    struct ts_run run = make_run(2);
    float row[TS_MAX_DIM] __attribute__((aligned(64)));
    double sum[9] = {0}, square[9] = {0};
    const size_t n = 40000;
    sampler_pool_init(&s, n, 9, 3, 1, 0, 3);
    for (size_t i = 0; i < n; i++) {
        s.embedding[i * 9 + 4] = 1e6f + (float)(i % 2); /* small beside its mean */
        s.embedding[i * 9 + 5] = 0.1f;                  /* constant */
    }
    s.embedding[6] = NAN;
    s.embedding[9 + 6] = -INFINITY;
    ck_assert_int_eq(ts_view_init(&v, &s.p, run.workers), 0);
    for (size_t i = 0; i < n; i++) {
        ts_view_row(&v, i, row);
        for (int j = 0; j < 9; j++) {
            sum[j] += (double)row[j];
            square[j] += (double)row[j] * (double)row[j];
        }
        for (size_t j = 9; j < v.dim; j++)
            ck_assert(row[j] == 0.0f);
        if (i < 2)
            ck_assert(row[6] == 0.0f);
    }
    for (int j = 0; j < 9; j++) {
        ck_assert_double_eq_tol(sum[j] / (double)n, 0.0, j == 4 ? 0.1 : 1e-4); /* the mean is a float */
        ck_assert_double_eq_tol(square[j] / (double)n, j != 5, j == 4 ? 0.1 : 1e-3);
    }
    tm_pool_free(run.workers);
    sampler_pool_free(&s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sampler/kmeans");
    TCase *c = tcase_create("kmeans");
    tcase_add_test(c, number_of_cells);
    tcase_add_test(c, every_program_is_in_the_nearest_cell);
    tcase_add_test(c, objective_never_rises);
    tcase_add_test(c, threads_change_nothing);
    tcase_add_test(c, fewer_distinct_rows_than_cells);
    tcase_add_test(c, standardised_rows_have_mean_0_and_variance_1);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
