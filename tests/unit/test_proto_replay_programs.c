/* Loop replay of whole programs, then of absurd ones: no record may cost memory, time or a crash. */
#include "proto/replay.h"

#include "tests/unit/program.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static struct program P;
static struct tp_replay *R;
static struct tp_step_view V[TP_MAX_STEPS];

static void set_up(void)
{
    program_init(&P);
    R = tp_replay_new();
    ck_assert_ptr_nonnull(R);
}

static void tear_down(void)
{
    tp_replay_free(R);
}

static void run(void)
{
    tp_replay_run(R, &P.r, V);
}

static struct tp_stage_view stage(int id)
{
    static struct tp_stage_view s[TP_REPLAY_STAGES];
    int n = tp_replay_stages(R, s, TP_REPLAY_STAGES);

    for (int i = 0; i < n; i++)
        if (s[i].stage == id)
            return s[i];
    return (struct tp_stage_view){.stage = -1};
}

/* nest(3, "4 0 16"): stage 3 has three loops of extent 4, unknown, 16 */
static void nest(int id, const char *want)
{
    char got[4096] = "";
    struct tp_stage_view s = stage(id);
    size_t n = 0;

    for (int i = 0; i < s.n_loops; i++)
        n += (size_t)snprintf(got + n, sizeof got - n, i ? " %lld" : "%lld", (long long)s.loops[i].extent);
    ck_assert_str_eq(got, want);
}

/* ---- whole programs -------------------------------------------------------------------------------------- */

START_TEST(cpu_matmul_with_cache_write)
{
    CHW(&P, 2, "local");
    SP(&P, 2, 0, 96, 3, 4, 2);
    SP(&P, 2, 4, 80, 1, 5, 16);
    SP(&P, 2, 8, 48, 12);
    RE(&P, 2, 0, 4, 1, 5, 8, 2, 6, 9, 3, 7);
    FSP(&P, 3, 0, 1, 2);
    FSP(&P, 3, 3, 2, 2);
    RE(&P, 3, 0, 3, 1, 4, 2, 5);
    CA(&P, 2, 3, 3);
    FU(&P, 3, 0, 1, 2);
    AN(&P, 3, 0, 3);
    PR(&P, 2, 0, "auto_unroll_max_step$64");
    AN(&P, 2, 9, 2);
    run();
    nest(2, "4 1 3 1 4 4 5 12 2 16");
    nest(3, "12 1 8 80");
    ck_assert_int_eq(V[8].outer, 12);
    ck_assert_int_eq(V[8].moved, 4LL * 3 * 4 * 4 * 5 * 12 * 2 * 16);
    ck_assert_int_eq(V[9].extent, 12);
    ck_assert_int_eq(V[12].inside, 0);
    ck_assert_int_eq(stage(2).attach_iter, 1);
    ck_assert_int_eq(stage(3).loops[0].annotation, 3);
    ck_assert_int_eq(tp_replay_max_unroll(R), 64);
}
END_TEST

START_TEST(gpu_matmul_with_shared_memory)
{
    CHW(&P, 2, "local");
    SP(&P, 2, 0, 64, 1, 4, 2, 1);
    SP(&P, 2, 5, 96, 2, 8, 1, 2);
    SP(&P, 2, 10, 128, 4, 2);
    RE(&P, 2, 0, 5, 1, 6, 2, 7, 10, 11, 3, 8, 12, 4, 9);
    FSP(&P, 3, 0, 1, 3);
    FSP(&P, 3, 4, 2, 3);
    RE(&P, 3, 0, 4, 1, 5, 2, 6, 3, 7);
    CA(&P, 2, 3, 5);
    CHR(&P, 1, "shared", 2); /* the local stage is 3 now, the output 4 */
    CA(&P, 2, 3, 6);
    CHR(&P, 0, "shared", 3); /* 4 and 5 */
    CA(&P, 1, 4, 6);
    FU(&P, 5, 0, 1);
    AN(&P, 5, 0, 5);
    FU(&P, 5, 1, 2);
    AN(&P, 5, 1, 4);
    FU(&P, 5, 2, 3);
    AN(&P, 5, 2, 6);
    FU(&P, 3, 0, 1);
    SP(&P, 3, 0, 256, 4);
    AN(&P, 3, 1, 2);
    FFSP(&P, 3, 0, 1, 1, 1, 2);
    AN(&P, 3, 1, 6);
    PR(&P, 4, 0, "auto_unroll_max_step$512");
    run();
    nest(4, "8 3 1 2 4 8 16 4 2 1 2 1 2");
    nest(5, "24 2 32 2 2");
    nest(3, "2 32 4");
    nest(1, "");
    ck_assert_int_eq(stage(4).attach_stage, 5);
    ck_assert_int_eq(stage(4).attach_iter, 2);
    ck_assert_int_eq(stage(3).attach_stage, 4);
    ck_assert_int_eq(tp_replay_attached(R), 3);
    ck_assert_int_eq(V[14].extent, 24);
    ck_assert_int_eq(V[18].extent, 32);
}
END_TEST

/* ---- absurd programs ------------------------------------------------------------------------------------- */

START_TEST(ids_beyond_the_limits_change_nothing)
{
    const int32_t big[] = {512, 1024, 100000, INT32_MAX - 1, INT32_MAX};

    for (size_t i = 0; i < sizeof big / sizeof big[0]; i++) {
        int32_t b = big[i];

        program_init(&P);
        SP(&P, 1, 0, 8, 2);
        SP(&P, 1, b, 8, 2);
        FSP(&P, 1, b, 0, 1);
        FFSP(&P, 1, b, 0, 1, 0);
        FU(&P, 1, b, b == INT32_MAX ? b : b + 1);
        AN(&P, 1, b, 3);
        SA(&P, 1, b, 1, 1);
        PR(&P, 1, b, "auto_unroll_max_step$64");
        RF(&P, 1, b, 0);
        CA(&P, 1, 2, b);
        run();
        nest(1, "4 2");
        if (b < TP_REPLAY_STAGES)
            continue;
        SP(&P, b, 0, 8, 2);
        AN(&P, b, 0, 3);
        FU(&P, b, 0, 1);
        RE(&P, b, 0, 1);
        CA(&P, b, b, 0);
        CI(&P, b);
        CR(&P, b);
        CHR(&P, b, "shared", b);
        CHW(&P, b, "local");
        RF(&P, b, 0, 0);
        run();
        ck_assert_int_le(tp_replay_known_stages(R), 2);
        nest(1, "4 2");
    }
}
END_TEST

START_TEST(a_nest_never_outgrows_its_limit)
{
    for (int i = 0; i < TP_MAX_STEPS - 2; i++)
        SP(&P, 1, 0, 1000000, 2, 3, 5);
    AN(&P, 1, TP_REPLAY_LOOPS - 1, 2);
    SP(&P, 1, TP_REPLAY_LOOPS - 1, 64, 4, 4);
    run();
    ck_assert_int_eq(stage(1).n_loops, TP_REPLAY_LOOPS);
    ck_assert_int_eq(V[TP_MAX_STEPS - 1].n_loops, TP_REPLAY_LOOPS);
}
END_TEST

START_TEST(stages_never_outgrow_their_limit)
{
    for (int i = 0; i < TP_MAX_STEPS; i++)
        CA(&P, 2 * i, 2 * i + 1, TP_REPLAY_LOOPS - 1);
    run();
    ck_assert_int_eq(tp_replay_known_stages(R), TP_REPLAY_STAGES);
    ck_assert_int_eq(tp_replay_attached(R), TP_MAX_STEPS);

    program_init(&P);
    SP(&P, TP_REPLAY_STAGES - 1, 0, 8, 2);
    for (int i = 1; i < TP_MAX_STEPS; i++)
        CHW(&P, 0, "local");
    run(); /* the last stage fell off */
    ck_assert_int_eq(tp_replay_known_stages(R), TP_MAX_STEPS - 1);
}
END_TEST

static int32_t rnd(int32_t n)
{
    static uint32_t seed = 12345;

    seed = seed * 1664525u + 1013904223u;
    return (int32_t)(seed >> 8) % n;
}

/* Steps that a strict parser refuses must still not do harm. */
START_TEST(random_steps_do_no_harm)
{
    for (int round = 0; round < 100; round++) {
        program_init(&P);
        while (P.r.n_steps < 200) {
            int32_t op[4], list[8];
            int range = rnd(8) ? 12 : 2000;

            for (int i = 0; i < 4; i++)
                op[i] = rnd(range) - (rnd(50) == 0) * 3;
            for (int i = 0; i < 8; i++)
                list[i] = rnd(range) - (rnd(50) == 0) * 3;
            add_step(&P, (enum tp_step_kind)rnd(TP_STEP_KINDS), op, list, (size_t)rnd(9),
                     rnd(2) ? "shared" : "auto_unroll_max_step$16");
        }
        run();
        for (uint32_t i = 0; i < P.r.n_steps; i++) {
            ck_assert_int_ge(V[i].n_parts, 0);
            ck_assert_int_le(V[i].n_parts, TP_PARTS);
            ck_assert_int_le(V[i].n_loops, TP_REPLAY_LOOPS);
            ck_assert_int_ge(V[i].extent, 0);
            ck_assert_int_ge(V[i].outer, 0);
            ck_assert_int_ge(V[i].inner, 0);
        }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("proto/replay (programs)");
    TCase *t = tcase_create("replay");
    SRunner *sr;
    int failed;
    const TTest *all[] = {cpu_matmul_with_cache_write,          gpu_matmul_with_shared_memory,
                          ids_beyond_the_limits_change_nothing, a_nest_never_outgrows_its_limit,
                          stages_never_outgrow_their_limit,     random_steps_do_no_harm};

    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, set_up, tear_down);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        tcase_add_test(t, all[i]);
    suite_add_tcase(s, t);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
