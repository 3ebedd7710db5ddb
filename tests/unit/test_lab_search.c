/* Replays of tuning: counts on tasks small enough to do by hand, random order against all permutations. */
#include "lab/npy.h"
#include "lab/search.h"
#include "lab/search_report.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct tl_search_task task(const double *seen, const double *judged, uint32_t n, double within)
{
    return (struct tl_search_task){n, seen, judged, tl_search_goal(seen, judged, n, within)};
}

START_TEST(counts_to_the_first_program_within_the_goal)
{
    const double cost[] = {4, 1.04, 2, 1, 1.06};
    const uint32_t order[] = {0, 4, 2, 1, 3}, best_first[] = {3, 0, 1, 2, 4};
    struct tl_search_task t = task(cost, cost, 5, 0.05);
    ck_assert_double_eq_tol(t.goal, 1.05, 1e-12);
    ck_assert_uint_eq(tl_search_needed(&t, order), 4); /* 1.06 is not good enough, 1.04 is */
    ck_assert_uint_eq(tl_search_needed(&t, best_first), 1);
    t = task(cost, cost, 5, 0.06);
    ck_assert_uint_eq(tl_search_needed(&t, order), 2);
    t = task(cost, cost, 5, 0);
    ck_assert_uint_eq(tl_search_needed(&t, order), 5);
}
END_TEST

/* The tuner holds what it saw to be fastest, whatever another measurement says: program 1 looks fastest and is judged
 * 2, so 2.1 is good enough. */
START_TEST(choice_is_by_one_measurement_and_judged_by_the_other)
{
    const double seen[] = {3, 1, 2, 5}, judged[] = {2.5, 2, 3, 1};
    struct tl_search_task t = task(seen, judged, 4, 0.05);
    const uint32_t a[] = {3, 0, 1, 2}, b[] = {2, 3, 0, 1}, c[] = {0, 2, 1, 3};
    ck_assert_double_eq_tol(t.goal, 2.1, 1e-12);
    ck_assert_uint_eq(tl_search_needed(&t, a), 1); /* by luck: it is judged 1 */
    ck_assert_uint_eq(tl_search_needed(&t, b), 4); /* 3 looks slower than 2, so it is never chosen */
    ck_assert_uint_eq(tl_search_needed(&t, c), 3);
}
END_TEST

START_TEST(whole_rounds_are_paid_for)
{
    ck_assert_uint_eq(tl_search_in_rounds(1, 35, 10), 10);
    ck_assert_uint_eq(tl_search_in_rounds(10, 35, 10), 10);
    ck_assert_uint_eq(tl_search_in_rounds(11, 35, 10), 20);
    ck_assert_uint_eq(tl_search_in_rounds(31, 35, 10), 35); /* the last round is short */
    ck_assert_uint_eq(tl_search_in_rounds(7, 35, 1), 7);
}
END_TEST

START_TEST(curve_is_the_best_over_the_choice_so_far)
{
    const double cost[] = {4, 2, 1};
    const uint32_t order[] = {0, 1, 2};
    const double expected[] = {0.25, 0.5, 1, 1, 1};
    struct tl_search_task t = task(cost, cost, 3, 0.05);
    double curve[5] = {0};
    tl_search_curve(&t, order, 1, curve, 5);
    tl_search_curve(&t, order, 2, curve, 5);
    for (int i = 0; i < 5; i++)
        ck_assert_double_eq_tol(curve[i], 3 * expected[i], 1e-12);
}
END_TEST

/* Next permutation in lexicographic order; false after the last. */
static bool next(uint32_t *v, uint32_t n)
{
    uint32_t i = n - 1, j = n - 1, x;
    while (i > 0 && v[i - 1] >= v[i])
        i--;
    if (i == 0)
        return false;
    while (v[j] <= v[i - 1])
        j--;
    x = v[j], v[j] = v[i - 1], v[i - 1] = x;
    for (j = n - 1; i < j; i++, j--)
        x = v[j], v[j] = v[i], v[i] = x;
    return true;
}

/* Means over all orders of a task. */
static void enumerate(const struct tl_search_task *t, uint32_t round, struct tl_search_random *r, double *curve)
{
    uint32_t order[8];
    double all = 1;
    *r = (struct tl_search_random){0};
    for (uint32_t i = 0; i < t->n; i++) {
        order[i] = i;
        all *= i + 1;
    }
    do {
        uint32_t m = tl_search_needed(t, order);
        r->needed += m / all;
        r->in_rounds += tl_search_in_rounds(m, t->n, round) / all;
        r->ln_needed += log(m) / all;
        r->first_round += (m <= round) / all;
        tl_search_curve(t, order, 1 / all, curve, 8);
    } while (next(order, t->n));
}

static void check_random(const struct tl_search_random *a, const struct tl_search_random *b, double tol)
{
    ck_assert_double_eq_tol(a->needed, b->needed, tol);
    ck_assert_double_eq_tol(a->in_rounds, b->in_rounds, tol);
    ck_assert_double_eq_tol(a->ln_needed, b->ln_needed, tol);
    ck_assert_double_eq_tol(a->first_round, b->first_round, tol);
}

START_TEST(random_order_is_the_mean_over_all_orders)
{
    const double cost[] = {1, 1.01, 3, 4, 5, 6, 7};
    struct tl_search_task t = task(cost, cost, 7, 0.05);
    for (uint32_t round = 1; round <= 8; round++) {
        struct tl_search_random exact, all;
        double curve[8] = {0}, expected[8] = {0};
        uint32_t order[7];
        enumerate(&t, round, &all, expected);
        tl_search_random_exact(7, 2, round, &exact);
        check_random(&exact, &all, 1e-9);
        tl_search_random_curve(&t, 1, curve, 8, order);
        for (int i = 0; i < 8; i++)
            ck_assert_double_eq_tol(curve[i], expected[i], 1e-9);
    }
    struct tl_search_random one;
    tl_search_random_exact(7, 2, 1, &one);
    ck_assert_double_eq_tol(one.needed, 8.0 / 3, 1e-12);
    tl_search_random_exact(5, 5, 1, &one);
    ck_assert_double_eq_tol(one.needed, 1, 1e-12);
    ck_assert_double_eq_tol(one.ln_needed, 0, 1e-12);
}
END_TEST

START_TEST(drawn_orders_come_near_the_mean_over_all_orders)
{
    const double seen[] = {1, 1.5, 3, 4, 5, 6}, judged[] = {2, 2.05, 4, 2, 5, 1};
    struct tl_search_task t = task(seen, judged, 6, 0.05);
    struct tl_search_random drawn, all;
    double curve[8] = {0}, expected[8] = {0};
    uint32_t order[6];
    enumerate(&t, 2, &all, expected);
    tl_search_random_drawn(&t, 2, 40000, 1, order, &drawn);
    check_random(&drawn, &all, 0.03);
    tl_search_random_curve(&t, 1, curve, 8, order); /* exact, though two measurements differ */
    for (int i = 0; i < 8; i++)
        ck_assert_double_eq_tol(curve[i], expected[i], 1e-9);
}
END_TEST

START_TEST(order_is_by_score_then_place_and_nan_is_last)
{
    const double score[] = {0.1, NAN, 0.7, 0.1, 0.9};
    const uint32_t expected[] = {4, 2, 0, 3, 1};
    uint32_t order[5];
    ck_assert_int_eq(tl_search_order(score, 5, 0, 1, order), 0);
    ck_assert_mem_eq(order, expected, sizeof order);
}
END_TEST

START_TEST(epsilon_gives_places_away_and_keeps_a_permutation)
{
    enum { N = 2000 };
    static double score[N];
    static uint32_t order[N], again[N];
    static uint8_t seen[N];
    uint32_t in_turn = 0, top = 0;
    for (uint32_t i = 0; i < N; i++)
        score[i] = 1.0 - i / (double)N;
    ck_assert_int_eq(tl_search_order(score, N, 0.05, 3, order), 0);
    ck_assert_int_eq(tl_search_order(score, N, 0.05, 3, again), 0);
    ck_assert_mem_eq(order, again, sizeof order);
    for (uint32_t i = 0; i < N; i++) {
        ck_assert_uint_eq(seen[order[i]]++, 0);
        if (i < N / 2 && order[i] >= top &&
            order[i] < top + 10) { /* whose turn it is comes soon after the one before */
            in_turn++;
            top = order[i] + 1;
        }
    }
    ck_assert_double_ge(in_turn / (N / 2.0), 0.93);
    ck_assert_double_le(in_turn / (N / 2.0), 0.97);
}
END_TEST

/* Two tasks, the first replayed twice: 2 and 8 measurements make 4, the other 9; sqrt(4 * 9) = 6. Random needs 12 and
 * 3, so the ratios are 1/3 and 3. The other row needs 4 and 4. */
START_TEST(figures_are_geometric_means_over_seeds_then_tasks)
{
    const char *const names[] = {"a", "b"};
    const struct tl_search_random twelve = {12, 20, log(12), 0}, three = {3, 10, log(3), 1};
    struct tl_search_report r = {.round = 10, .within = 0.05};
    struct tl_search_summary s;
    ck_assert_int_eq(tl_search_report_init(&r, names, 2, 5), 0);
    struct tl_search_tally *a = &r.row[0].tally[0], *b = &r.row[1].tally[0];
    tl_search_add(a, 1, 2, 10, 1, &twelve);
    tl_search_add(a, 1, 8, 10, 1, &twelve);
    tl_search_add(a, 4, 9, 20, 0, &three);
    tl_search_add(b, 1, 4, 10, 1, &twelve);
    tl_search_add(b, 4, 4, 10, 1, &three);
    ck_assert_int_eq(tl_search_summarise(a, b, &s), 0);
    ck_assert_uint_eq(s.tasks, 2);
    ck_assert_uint_eq(s.replays, 3);
    ck_assert_double_eq_tol(s.value[TL_SEARCH_LN_NEEDED], 6, 1e-9);
    ck_assert_double_eq_tol(s.value[TL_SEARCH_LN_RATIO], 1, 1e-9);
    ck_assert_double_eq_tol(s.value[TL_SEARCH_LN_RATIO_IN_ROUNDS], 1, 1e-9); /* 10/20 and 20/10 */
    ck_assert_double_eq_tol(s.value[TL_SEARCH_FIRST_ROUND], 0.5, 1e-9);
    ck_assert_double_eq_tol(s.value[TL_SEARCH_QUARTER], 0.25, 1e-9); /* 2 of 12, but not 8; nor 9 of 3 */
    ck_assert_double_eq_tol(s.against, 1.5, 1e-9);                   /* sqrt(4/4 * 9/4) */
    ck_assert_double_eq_tol(s.interval[TL_SEARCH_LN_NEEDED].lo, 4, 1e-9);
    ck_assert_double_eq_tol(s.interval[TL_SEARCH_LN_NEEDED].hi, 9, 1e-9);
    tl_search_report_free(&r);
}
END_TEST

static void write_npy(char *path, const char *descr, const void *data, size_t bytes, unsigned count)
{
    char header[119];
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%u,), }", descr, count);
    memset(header + n, ' ', sizeof header - (size_t)n);
    header[117] = '\n';
    FILE *f = fdopen(mkstemp(path), "wb");
    ck_assert_ptr_nonnull(f);
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, f);
    fwrite(header, 1, 118, f);
    fwrite(data, 1, bytes, f);
    fclose(f);
}

START_TEST(numpy_files_of_both_widths_are_read_and_others_refused)
{
    const double d[] = {1.5, -2, 1e-300};
    const float f[] = {1.5f, -2, 3};
    char a[] = "/tmp/tcld-npy-XXXXXX", b[] = "/tmp/tcld-npy-XXXXXX", c[] = "/tmp/tcld-npy-XXXXXX",
         s[] = "/tmp/tcld-npy-XXXXXX";
    double *v = NULL;
    size_t n = 0;
    struct tp_err e = {0};
    write_npy(a, "<f8", d, sizeof d, 3);
    write_npy(b, "<f4", f, sizeof f, 3);
    write_npy(c, ">f8", d, sizeof d, 3);
    write_npy(s, "<f8", d, sizeof d, 4);
    ck_assert_int_eq(tl_npy_read(a, &v, &n, &e), 0);
    ck_assert_uint_eq(n, 3);
    ck_assert(v[0] == 1.5 && v[1] == -2 && v[2] == 1e-300);
    free(v);
    ck_assert_int_eq(tl_npy_read(b, &v, &n, &e), 0);
    ck_assert(n == 3 && v[0] == 1.5 && v[1] == -2 && v[2] == 3);
    free(v);
    ck_assert_int_eq(tl_npy_read(c, &v, &n, &e), -TP_E_UNUSABLE);
    ck_assert_int_eq(tl_npy_read(s, &v, &n, &e), -TP_E_UNUSABLE);
    ck_assert_int_eq(tl_npy_read("/nonexistent", &v, &n, &e), -TP_E_IO);
    unlink(a), unlink(b), unlink(c), unlink(s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lab/search");
    TCase *t = tcase_create("search");
    tcase_add_test(t, counts_to_the_first_program_within_the_goal);
    tcase_add_test(t, choice_is_by_one_measurement_and_judged_by_the_other);
    tcase_add_test(t, whole_rounds_are_paid_for);
    tcase_add_test(t, curve_is_the_best_over_the_choice_so_far);
    tcase_add_test(t, random_order_is_the_mean_over_all_orders);
    tcase_add_test(t, drawn_orders_come_near_the_mean_over_all_orders);
    tcase_add_test(t, order_is_by_score_then_place_and_nan_is_last);
    tcase_add_test(t, epsilon_gives_places_away_and_keeps_a_permutation);
    tcase_add_test(t, figures_are_geometric_means_over_seeds_then_tasks);
    tcase_add_test(t, numpy_files_of_both_widths_are_read_and_others_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
