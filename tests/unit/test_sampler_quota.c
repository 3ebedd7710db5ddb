/* Seats: against a direct count, floors and caps, house-monotone; groups of tasks and cells. */
#include "sampler/groups.h"
#include "sampler/quota.h"
#include "tests/unit/sampler_pool.h"

enum { GROUPS = 40 };

static double weight[GROUPS];
static uint32_t cap[GROUPS], seats[GROUPS];

static size_t fill(uint64_t seed)
{
    struct tm_rng r;
    size_t sum = 0;
    tm_rng_seed(&r, seed);
    for (int i = 0; i < GROUPS; i++) {
        weight[i] = 1.0 + tm_rng_uniform(&r) * 50.0; /* no equal claims */
        cap[i] = tm_rng_below(&r, 30);
        sum += cap[i];
    }
    return sum;
}

static size_t total(void)
{
    size_t sum = 0;
    for (int i = 0; i < GROUPS; i++)
        sum += seats[i];
    return sum;
}

START_TEST(each_next_seat_goes_to_the_largest_claim)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        uint32_t want[GROUPS] = {0};
        const size_t all = fill(seed), budget = all * (seed + 1) / 20;
        for (size_t k = 0; k < budget; k++) {
            int best = -1;
            for (int i = 0; i < GROUPS; i++)
                if (want[i] < cap[i] &&
                    (best < 0 || weight[i] / (2 * want[i] + 1) > weight[best] / (2 * want[best] + 1)))
                    best = i;
            want[best]++;
        }
        ck_assert_int_eq(ts_apportion(weight, NULL, cap, GROUPS, budget, 0, seed, seats), 0);
        ck_assert_mem_eq(seats, want, sizeof want);
    }
}
END_TEST

START_TEST(floors_come_first)
{
    const size_t all = fill(3);
    ck_assert_int_eq(ts_apportion(weight, NULL, cap, GROUPS, all * 3 / 4, 8, 1, seats), 0);
    ck_assert_uint_eq(total(), all * 3 / 4);
    for (int i = 0; i < GROUPS; i++) {
        ck_assert_uint_ge(seats[i], cap[i] < 8 ? cap[i] : 8);
        ck_assert_uint_le(seats[i], cap[i]);
    }
    /* 40 groups, 100 seats: a floor of 8 does not fit, one of 2 does (small caps leave room for 2 or 3) */
    ck_assert_int_eq(ts_apportion(weight, NULL, cap, GROUPS, 100, 8, 1, seats), 0);
    ck_assert_uint_eq(total(), 100);
    for (int i = 0; i < GROUPS; i++)
        ck_assert_uint_ge(seats[i], cap[i] < 2 ? cap[i] : 2);
    ck_assert_int_eq(ts_apportion(weight, NULL, cap, GROUPS, 5, UINT32_MAX, 1, seats), 0);
    ck_assert_uint_eq(total(), 5);
}
END_TEST

START_TEST(a_larger_budget_takes_no_seat_away)
{
    uint32_t before[GROUPS] = {0};
    const size_t all = fill(9);
    for (size_t budget = 0; budget <= all + 3; budget++) {
        ck_assert_int_eq(ts_apportion(weight, NULL, cap, GROUPS, budget, 0, 4, seats), 0);
        ck_assert_uint_eq(total(), budget < all ? budget : all);
        for (int i = 0; i < GROUPS; i++)
            ck_assert_uint_ge(seats[i], before[i]);
        memcpy(before, seats, sizeof seats);
    }
}
END_TEST

/* In five parts, each told what the earlier ones gave. */
START_TEST(sharing_in_parts_comes_to_the_same)
{
    enum { PARTS = 5 };
    for (uint64_t seed = 0; seed < 20; seed++)
        for (uint32_t floor = 0; floor < 10; floor += 9) {
            uint32_t held[GROUPS] = {0}, left[GROUPS];
            const size_t all = fill(seed), budget = all * 2 / 3;
            memcpy(left, cap, sizeof cap);
            for (size_t part = 0; part < PARTS; part++) {
                const size_t want = budget * (part + 1) / PARTS - budget * part / PARTS;
                ck_assert_int_eq(ts_apportion(weight, held, left, GROUPS, want, floor, 4, seats), 0);
                ck_assert_uint_eq(total(), want);
                for (int i = 0; i < GROUPS; i++) {
                    held[i] += seats[i];
                    left[i] -= seats[i];
                }
            }
            ck_assert_int_eq(ts_apportion(weight, NULL, cap, GROUPS, budget, floor, 4, seats), 0);
            ck_assert_mem_eq(seats, held, sizeof held);
        }
}
END_TEST

START_TEST(equal_claims_are_drawn)
{
    uint32_t first[GROUPS];
    int same = 0, hits[GROUPS] = {0};
    for (int i = 0; i < GROUPS; i++) {
        weight[i] = 1.0;
        cap[i] = 5;
    }
    ck_assert_int_eq(ts_apportion(weight, NULL, cap, GROUPS, 10, 0, 0, first), 0);
    for (uint64_t seed = 0; seed < 400; seed++) {
        ck_assert_int_eq(ts_apportion(weight, NULL, cap, GROUPS, 10, 0, seed, seats), 0);
        for (int i = 0; i < GROUPS; i++) {
            ck_assert_uint_le(seats[i], 1);
            hits[i] += (int)seats[i];
        }
        same += memcmp(first, seats, sizeof seats) == 0;
    }
    ck_assert_int_eq(same, 1);
    for (int i = 0; i < GROUPS; i++) { /* 100 expected, standard deviation 8.7 */
        ck_assert_int_gt(hits[i], 55);
        ck_assert_int_lt(hits[i], 145);
    }
}
END_TEST

START_TEST(nothing_to_share)
{
    ck_assert_int_eq(ts_apportion(weight, NULL, cap, 0, 10, 8, 0, seats), 0);
    memset(cap, 0, sizeof cap);
    ck_assert_int_eq(ts_apportion(weight, NULL, cap, GROUPS, 10, 8, 0, seats), 0);
    ck_assert_uint_eq(total(), 0);
}
END_TEST

/* A task and a cell that have been measured a lot wait until the others have caught up. */
START_TEST(what_is_known_has_its_seats)
{
    struct sampler_pool s;
    struct ts_groups g;
    uint32_t cell[200];
    sampler_pool_init(&s, 200, 2, 0, 1, 0, 1);
    for (uint32_t i = 0; i < 200; i++) { /* two tasks of two cells, 50 programs each */
        s.task[i] = i / 100;
        cell[i] = i / 50;
        s.known[i] = i < 10 || (i >= 100 && i < 104);
    }
    ck_assert_int_eq(ts_groups_init(&g, &s.p, cell, 26, 8, 3), 0);
    /* 20 of 40 each: 10 and 4 of them are there. In the first task 10 : 0 of 20, in the second 4 : 0 */
    ck_assert_uint_eq(g.seats[g.group[0]], 0);
    ck_assert_uint_eq(g.seats[g.group[50]], 10);
    ck_assert_uint_eq(g.seats[g.group[100]], 6);
    ck_assert_uint_eq(g.seats[g.group[150]], 10);
    ts_groups_free(&g);
    ck_assert_int_eq(ts_groups_init(&g, &s.p, NULL, 5, 8, 3), 0); /* floors: 10 are enough, 4 are not */
    ck_assert_uint_eq(g.seats[g.group[0]], 0);
    ck_assert_uint_eq(g.seats[g.group[100]], 5);
    ts_groups_free(&g);
    sampler_pool_free(&s);
}
END_TEST

/* Three tasks with 100, 16 and 4 candidates; cells of 64, 36 | 16 | 4. */
START_TEST(groups_are_tasks_and_cells)
{
    static const uint32_t size[] = {64, 36, 16, 4}, task[] = {5, 5, 9, 7}, number[] = {3, 1, 2, 2};
    struct sampler_pool s;
    struct ts_groups g;
    uint32_t cell[130];
    size_t at = 0;
    sampler_pool_init(&s, 130, 2, 0, 1, 0, 1);
    for (int k = 0; k < 4; k++)
        for (uint32_t i = 0; i < size[k]; i++, at++) {
            s.task[at] = task[k];
            cell[at] = number[k];
        }
    for (; at < 130; at++) { /* known: a group without candidates */
        s.task[at] = 1;
        cell[at] = 0;
        s.known[at] = 1;
    }
    ck_assert_int_eq(ts_groups_init(&g, &s.p, cell, 40, 8, 3), 0);
    ck_assert_uint_eq(g.n_groups, 5);
    /* floors 8, 8, 4; then 20 more to the first, whose claims 100/17 ... 100/55 beat 16/17 */
    ck_assert_uint_eq(g.seats[g.group[100]], 8);
    ck_assert_uint_eq(g.seats[g.group[116]], 4);
    ck_assert_uint_eq(g.seats[g.group[129]], 0);
    /* 28 by roots 8 : 6 */
    ck_assert_uint_eq(g.seats[g.group[0]], 16);
    ck_assert_uint_eq(g.seats[g.group[64]], 12);
    ck_assert(g.key[g.group[64]] == ((uint64_t)5 << 32 | 1));
    ts_groups_free(&g);
    ck_assert_int_eq(ts_groups_init(&g, &s.p, NULL, 1000, 8, 3), 0);
    ck_assert_uint_eq(g.n_groups, 4);
    ck_assert_uint_eq(g.seats[g.group[0]], 100);
    ck_assert_uint_eq(g.seats[g.group[100]], 16);
    ts_groups_free(&g);
    sampler_pool_free(&s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sampler/quota");
    TCase *c = tcase_create("quota");
    tcase_add_test(c, each_next_seat_goes_to_the_largest_claim);
    tcase_add_test(c, floors_come_first);
    tcase_add_test(c, a_larger_budget_takes_no_seat_away);
    tcase_add_test(c, sharing_in_parts_comes_to_the_same);
    tcase_add_test(c, equal_claims_are_drawn);
    tcase_add_test(c, nothing_to_share);
    tcase_add_test(c, what_is_known_has_its_seats);
    tcase_add_test(c, groups_are_tasks_and_cells);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
