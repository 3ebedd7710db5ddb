/* Loop replay: each rule on a program small enough to follow by hand.
 * Programs are built step by step, so that a broken parser does not fail these. */
#include "proto/replay.h"

#include "tests/unit/program.h"

#include <check.h>
#include <stdarg.h>
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

static void parts(int step, int n, ...)
{
    va_list ap;

    ck_assert_int_eq(V[step].n_parts, n);
    va_start(ap, n);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(V[step].parts[i], va_arg(ap, int));
    va_end(ap);
}

/* ---- splits ---------------------------------------------------------------------------------------------- */

START_TEST(split_infers_the_outer_part)
{
    SP(&P, 2, 0, 96, 3, 4, 2);
    run();
    nest(2, "4 3 4 2");
    parts(0, 4, 4, 3, 4, 2);
    ck_assert_int_eq(V[0].extent, 96);
    ck_assert_int_eq(V[0].padded, 96);
    ck_assert_int_eq(V[0].n_loops, 4);
}
END_TEST

START_TEST(split_that_does_not_divide_rounds_up_and_tells_the_padding)
{
    SP(&P, 2, 0, 100, 8);
    run();
    parts(0, 2, 13, 8);
    ck_assert_int_eq(V[0].padded, 104);
}
END_TEST

START_TEST(split_from_outside_infers_the_inner_part)
{
    SP_OUTER(&P, 2, 0, 100, 3, 5);
    run();
    nest(2, "3 5 7");
    ck_assert_int_eq(V[0].padded, 105);
}
END_TEST

START_TEST(split_moves_later_loops)
{
    SP(&P, 1, 0, 64, 8);
    SP(&P, 1, 2, 32, 4);
    SP(&P, 1, 0, 8, 2);
    run();
    nest(1, "4 2 8 8 4");
    ck_assert_int_eq(V[2].n_loops, 5);
}
END_TEST

START_TEST(split_of_a_loop_never_seen_leaves_the_ones_before_unknown)
{
    SP(&P, 1, 2, 64, 8);
    run();
    nest(1, "0 0 8 8");
}
END_TEST

START_TEST(split_of_unknown_extent_uses_what_the_nest_knows)
{
    SP(&P, 1, 0, 64, 8);
    SP(&P, 1, 0, 0, 4);
    run();
    nest(1, "2 4 8");
    ck_assert_int_eq(V[1].extent, 8);
}
END_TEST

START_TEST(split_of_unknown_extent_and_loop_has_an_unknown_outer_part)
{
    SP(&P, 1, 0, 0, 4);
    run();
    nest(1, "0 4");
    ck_assert_int_eq(V[0].extent, 0);
    ck_assert_int_eq(V[0].padded, 0);
    ck_assert_int_eq(V[0].n_parts, 2);
}
END_TEST

START_TEST(follow_split_takes_the_first_lengths_and_the_product_of_the_rest)
{
    SP(&P, 2, 0, 128, 2, 4, 8); /* 2 | 2 4 8 */
    FSP(&P, 3, 0, 0, 1);        /* 2 | 64 */
    FSP(&P, 4, 0, 0, 2);        /* 2 | 2 32 */
    FSP(&P, 5, 0, 0, 3);        /* 2 | 2 4 8 */
    FSP(&P, 6, 0, 0, 4);        /* 2 | 2 4 8 1 */
    run();
    nest(3, "2 64");
    nest(4, "2 2 32");
    nest(5, "2 2 4 8");
    nest(6, "2 2 4 8 1");
    ck_assert_int_eq(V[1].extent, 128);
    ck_assert_int_eq(V[1].padded, 128);
}
END_TEST

START_TEST(follow_split_prefers_the_extent_of_its_own_loop)
{
    SP(&P, 2, 0, 128, 16);
    SP(&P, 3, 0, 96, 48); /* 2 | 48 */
    FSP(&P, 3, 1, 0, 1);
    run();
    nest(3, "2 3 16");
}
END_TEST

START_TEST(follow_fused_split_multiplies_the_level_of_its_sources)
{
    SP(&P, 3, 0, 64, 1, 4, 2);
    SP(&P, 3, 4, 64, 1, 8, 2);
    SP(&P, 4, 0, 128, 1);
    FFSP(&P, 4, 0, 1, 1, 0, 1); /* inner factor 4 * 8 */
    FFSP(&P, 4, 1, 2, 0, 0, 1); /* outer parts 2 * 2 of the 32 */
    run();
    nest(4, "4 4 8 1");
    parts(3, 2, 4, 32);
    parts(4, 2, 4, 8);
}
END_TEST

START_TEST(follow_fused_split_at_a_level_that_does_not_exist_changes_nothing)
{
    SP(&P, 3, 0, 64, 4);
    FFSP(&P, 4, 0, 7, 1, 0);
    run();
    nest(4, "");
    ck_assert_int_eq(V[1].n_parts, 0);
}
END_TEST

START_TEST(only_the_first_five_parts_are_told)
{
    SP(&P, 1, 0, 64, 2, 2, 2, 2, 2, 2);
    run();
    nest(1, "1 2 2 2 2 2 2");
    parts(0, 5, 1, 2, 2, 2, 2);
    ck_assert_int_eq(V[0].padded, 64);
}
END_TEST

/* ---- fuse, reorder, annotate ----------------------------------------------------------------------------- */

START_TEST(fuse_collapses_consecutive_loops)
{
    SP(&P, 1, 0, 64, 2, 4, 8);
    FU(&P, 1, 1, 2);
    run();
    nest(1, "1 8 8");
    ck_assert_int_eq(V[1].extent, 8);
    ck_assert_int_eq(V[1].iter, 1);
    ck_assert_int_eq(V[1].n_loops, 3);
}
END_TEST

START_TEST(fuse_with_an_unknown_loop_is_unknown)
{
    SP(&P, 1, 1, 64, 8);
    FU(&P, 1, 0, 1, 2);
    run();
    nest(1, "0");
    ck_assert_int_eq(V[1].extent, 0);
}
END_TEST

START_TEST(fuse_of_nothing_adds_one_loop_of_extent_one)
{
    FU_EMPTY(&P, 4);
    AN(&P, 4, 0, 3);
    run();
    nest(4, "1");
    ck_assert_int_eq(V[0].extent, 1);
    ck_assert_int_eq(V[1].extent, 1);
    ck_assert_int_eq(V[0].iter, 0);
}
END_TEST

START_TEST(fuse_drops_annotations_and_reorder_carries_them)
{
    SP(&P, 1, 0, 64, 8);
    SP(&P, 1, 2, 32, 4);
    AN(&P, 1, 3, 2);
    RE(&P, 1, 0, 3, 1, 2);
    run();
    ck_assert_int_eq(stage(1).loops[1].annotation, 2);
    FU(&P, 1, 0, 1);
    run();
    ck_assert_int_eq(stage(1).loops[0].annotation, 0);
}
END_TEST

START_TEST(reorder_permutes_and_tells_the_innermost_extents)
{
    SP(&P, 2, 0, 64, 2, 4); /* 8 2 4 */
    SP(&P, 2, 3, 15, 3, 5); /* 1 3 5 */
    RE(&P, 2, 0, 3, 1, 4, 2, 5);
    run();
    nest(2, "8 1 2 3 4 5");
    parts(2, 4, 5, 4, 3, 2);
    ck_assert_int_eq(V[2].extent, 8);
    ck_assert_int_eq(V[2].iter, -1);
}
END_TEST

START_TEST(reorder_tells_the_length_of_a_nest)
{
    SP(&P, 2, 0, 64, 2);
    RE(&P, 2, 3, 0, 1, 2);
    run();
    nest(2, "0 32 2 0");
    ck_assert_int_eq(V[1].n_loops, 4);
}
END_TEST

START_TEST(annotation_tells_the_loops_around)
{
    SP(&P, 2, 0, 64, 2, 4); /* 8 2 4 */
    SP(&P, 2, 3, 15, 5);    /* 3 5 */
    AN(&P, 2, 2, 2);
    run();
    ck_assert_int_eq(V[2].extent, 4);
    ck_assert_int_eq(V[2].outer, 16);
    ck_assert_int_eq(V[2].inner, 15);
    ck_assert_int_eq(V[2].inside, 2);
    ck_assert_int_eq(V[2].annotation, 2);
    ck_assert_int_eq(stage(2).loops[2].annotation, 2);
}
END_TEST

START_TEST(products_saturate)
{
    for (int i = 0; i < 5; i++)
        SP(&P, 2, 2 * i, 2000000000, 2);
    AN(&P, 2, 9, 2);
    run();
    ck_assert_int_eq(V[5].outer, INT64_MAX);
    SP(&P, 3, 0, 7, 2000000000, 2000000000, 2000000000);
    run();
    ck_assert_int_eq(V[6].parts[0], 1);
    ck_assert_int_eq(V[6].padded, INT64_MAX);
}
END_TEST

START_TEST(pragma_tells_its_limit)
{
    static const struct {
        const char *text;
        int64_t want;
    } t[] = {{"auto_unroll_max_step$512", 512},
             {"auto_unroll_max_step$0", 0},
             {"auto_unroll_max_step$8", 8},
             {"auto_unroll_max_step$", -1},
             {"auto_unroll_max_step", -1},
             {"debug_skip_region", -1},
             {"", -1},
             {"auto_unroll_max_step$99999999999999999999999", INT64_MAX}};

    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        program_init(&P);
        PR(&P, 2, 0, t[i].text);
        run();
        ck_assert_int_eq(V[0].unroll, t[i].want);
        ck_assert_int_eq(tp_replay_max_unroll(R), t[i].want < 0 ? 0 : t[i].want);
        ck_assert_int_eq(V[0].n_loops, 0); /* a pragma does not prove that there is a loop */
    }
}
END_TEST

START_TEST(the_last_pragma_of_a_stage_and_the_largest_of_all_count)
{
    SP(&P, 2, 0, 8, 2);
    PR(&P, 2, 0, "auto_unroll_max_step$512");
    PR(&P, 2, 0, "auto_unroll_max_step$16");
    run();
    ck_assert_int_eq(stage(2).unroll, 16);
    ck_assert_int_eq(tp_replay_max_unroll(R), 512);
    ck_assert_int_eq(V[1].outer, 1);
    ck_assert_int_eq(V[1].inner, 2);
}
END_TEST

/* ---- steps on stages ------------------------------------------------------------------------------------- */

START_TEST(cache_write_makes_both_nests_fresh_and_moves_later_stages)
{
    SP(&P, 2, 0, 64, 8);
    SP(&P, 3, 0, 32, 4);
    CHW(&P, 2, "local");
    SP(&P, 2, 0, 96, 6);
    run();
    nest(2, "16 6");
    nest(3, "");
    nest(4, "8 4");
    ck_assert_int_eq(V[2].scope, 1);
    ck_assert_int_eq(stage(2).scope, 1);
    ck_assert_int_eq(stage(4).scope, 0);
}
END_TEST

START_TEST(cache_read_adds_the_stage_behind)
{
    SP(&P, 2, 0, 64, 8);
    SP(&P, 3, 0, 32, 4);
    CHR(&P, 2, "shared", 3);
    run();
    nest(2, "8 8");
    nest(3, "");
    nest(4, "8 4");
    ck_assert_int_eq(V[2].scope, 2);
    ck_assert_int_eq(V[2].target_stage, 3);
}
END_TEST

START_TEST(scopes_are_told_apart)
{
    CHR(&P, 1, "local", 2);
    CHR(&P, 1, "shared", 2);
    CHR(&P, 1, "global", 2);
    CHR(&P, 1, "warp", 2);
    run();
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(V[i].scope, i + 1);
}
END_TEST

/* Reduction 512 of a stage with two axes, split to 32 x 16, the inner one factored out to place 2. */
START_TEST(rfactor_turns_the_factored_loop_into_an_axis)
{
    SP(&P, 3, 2, 512, 16);
    RF(&P, 3, 3, 2);
    run();
    nest(3, "0 0 16 32");
    nest(4, "0 0 16");
    ck_assert_int_eq(V[1].extent, 16);
}
END_TEST

START_TEST(rfactor_of_the_outer_part_keeps_the_inner_reduction)
{
    SP(&P, 3, 2, 512, 16);
    RF(&P, 3, 2, 2);
    run();
    nest(3, "0 0 32 16");
    nest(4, "0 0 32");
}
END_TEST

START_TEST(attach_point_tells_the_loops_around_it)
{
    SP(&P, 3, 0, 64, 2, 4); /* 8 2 4 */
    SP(&P, 2, 0, 48, 6);
    CA(&P, 2, 3, 1);
    run();
    ck_assert_int_eq(V[2].stage, 2);
    ck_assert_int_eq(V[2].target_stage, 3);
    ck_assert_int_eq(V[2].iter, 1);
    ck_assert_int_eq(V[2].extent, 2);
    ck_assert_int_eq(V[2].outer, 16);
    ck_assert_int_eq(V[2].inner, 4);
    ck_assert_int_eq(V[2].inside, 1);
    ck_assert_int_eq(V[2].moved, 48);
    ck_assert_int_eq(tp_replay_attached(R), 1);
    nest(2, "8 6"); /* the whole domain stays known */
}
END_TEST

START_TEST(attach_point_follows_its_loop)
{
    SP(&P, 3, 0, 64, 2, 4); /* 8 2 4 */
    CA(&P, 2, 3, 1);
    SP(&P, 2, 0, 4, 2); /* so that stage 2 has loops and is listed */
    run();
    ck_assert_int_eq(stage(2).attach_iter, 1);

    SP(&P, 3, 0, 8, 4); /* before it */
    run();
    ck_assert_int_eq(stage(2).attach_iter, 2);
    SP(&P, 3, 2, 2, 1); /* itself: the last part */
    run();
    ck_assert_int_eq(stage(2).attach_iter, 3);
    FU(&P, 3, 2, 3); /* itself */
    run();
    ck_assert_int_eq(stage(2).attach_iter, 2);
    FU(&P, 3, 0, 1); /* before it */
    run();
    ck_assert_int_eq(stage(2).attach_iter, 1);
    RE(&P, 3, 1, 2, 0); /* moved outermost */
    run();
    ck_assert_int_eq(stage(2).attach_iter, 0);
    FU(&P, 3, 1, 2); /* behind it */
    run();
    ck_assert_int_eq(stage(2).attach_iter, 0);
}
END_TEST

START_TEST(attach_reference_moves_with_its_stage)
{
    SP(&P, 2, 0, 8, 2);
    SP(&P, 3, 0, 8, 2);
    CA(&P, 2, 3, 0);
    CHR(&P, 1, "shared", 2);
    run();
    ck_assert_int_eq(stage(3).attach_stage, 4);
    CHW(&P, 4, "local"); /* the target itself becomes stage 5 */
    run();
    ck_assert_int_eq(stage(3).attach_stage, 5);
    ck_assert_int_eq(tp_replay_attached(R), 1);
}
END_TEST

START_TEST(root_and_inline_end_an_attachment)
{
    SP(&P, 2, 0, 12, 2);
    CA(&P, 2, 3, 0);
    CR(&P, 2);
    run();
    ck_assert_int_eq(tp_replay_attached(R), 0);
    ck_assert_int_eq(stage(2).attach_stage, -1);
    ck_assert_int_eq(V[2].moved, 12);
    CA(&P, 2, 3, 0);
    CI(&P, 2);
    run();
    ck_assert_int_eq(tp_replay_attached(R), 0);
    nest(2, ""); /* inlined: no nest of its own */
    CR(&P, 2);
    run();
    nest(2, "6 2");
}
END_TEST

START_TEST(storage_align_changes_nothing)
{
    SP(&P, 2, 0, 12, 2);
    SA(&P, 2, 1, 32, 4);
    run();
    nest(2, "6 2");
    ck_assert_int_eq(V[1].extent, 2);
    ck_assert_int_eq(V[1].iter, 1);
}
END_TEST

START_TEST(a_run_forgets_the_one_before)
{
    SP(&P, 7, 0, 12, 2);
    CA(&P, 7, 8, 0);
    PR(&P, 7, 0, "auto_unroll_max_step$64");
    run();
    program_init(&P);
    SP(&P, 1, 1, 12, 2);
    run();
    ck_assert_int_eq(tp_replay_known_stages(R), 1);
    ck_assert_int_eq(tp_replay_attached(R), 0);
    ck_assert_int_eq(tp_replay_max_unroll(R), 0);
    nest(1, "0 6 2");
    program_init(&P);
    run();
    ck_assert_int_eq(tp_replay_known_stages(R), 0);
}
END_TEST

START_TEST(free_accepts_null)
{
    tp_replay_free(NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("proto/replay");
    TCase *t = tcase_create("replay");
    SRunner *sr;
    int failed;
    const TTest *all[] = {split_infers_the_outer_part,
                          split_that_does_not_divide_rounds_up_and_tells_the_padding,
                          split_from_outside_infers_the_inner_part,
                          split_moves_later_loops,
                          split_of_a_loop_never_seen_leaves_the_ones_before_unknown,
                          split_of_unknown_extent_uses_what_the_nest_knows,
                          split_of_unknown_extent_and_loop_has_an_unknown_outer_part,
                          follow_split_takes_the_first_lengths_and_the_product_of_the_rest,
                          follow_split_prefers_the_extent_of_its_own_loop,
                          follow_fused_split_multiplies_the_level_of_its_sources,
                          follow_fused_split_at_a_level_that_does_not_exist_changes_nothing,
                          only_the_first_five_parts_are_told,
                          fuse_collapses_consecutive_loops,
                          fuse_with_an_unknown_loop_is_unknown,
                          fuse_of_nothing_adds_one_loop_of_extent_one,
                          fuse_drops_annotations_and_reorder_carries_them,
                          reorder_permutes_and_tells_the_innermost_extents,
                          reorder_tells_the_length_of_a_nest,
                          annotation_tells_the_loops_around,
                          products_saturate,
                          pragma_tells_its_limit,
                          the_last_pragma_of_a_stage_and_the_largest_of_all_count,
                          cache_write_makes_both_nests_fresh_and_moves_later_stages,
                          cache_read_adds_the_stage_behind,
                          scopes_are_told_apart,
                          rfactor_turns_the_factored_loop_into_an_axis,
                          rfactor_of_the_outer_part_keeps_the_inner_reduction,
                          attach_point_tells_the_loops_around_it,
                          attach_point_follows_its_loop,
                          attach_reference_moves_with_its_stage,
                          root_and_inline_end_an_attachment,
                          storage_align_changes_nothing,
                          a_run_forgets_the_one_before,
                          free_accepts_null};

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
