/* Kept runs and the report of `lab ablate`, without training anything. */
#include "lab/ablate.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TASKS = 4, SEEDS = 2 };

/* A run whose figures are those of the tasks; `shift` is added to every task's pairwise accuracy. */
static struct tl_outcome outcome(double shift)
{
    struct tl_outcome r = {.n = TASKS};
    for (int f = 0; f < TL_OUTCOME_N; f++)
        r.figure[f] = f + 0.5;
    r.figure[TL_OUTCOME_pairwise] = 0.7 + shift;
    for (int f = 0; f < TL_OUTCOME_BY_TASK; f++) {
        r.by_task[f] = malloc(TASKS * sizeof *r.by_task[f]);
        ck_assert_ptr_nonnull(r.by_task[f]);
        for (int t = 0; t < TASKS; t++)
            r.by_task[f][t] = 0.6 + 0.1 * t + (f == TL_OUTCOME_pairwise ? shift : 0);
    }
    return r;
}

static void remove_all(const char *dir)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(the_first_variant_changes_nothing_and_the_others_something)
{
    struct tl_variant fresh;
    memset(&fresh, 0, sizeof fresh);
    fresh.hyper = tm_hyper_default(TCLFEAT_TCLF_1);
    tm_train_defaults(&fresh.train);
    for (int i = 0; i < tl_n_variants; i++) {
        struct tl_variant v;
        memcpy(&v, &fresh, sizeof v);
        tl_variants[i].apply(&v);
        ck_assert_msg((memcmp(&v, &fresh, sizeof v) == 0) == (i == 0), "%s", tl_variants[i].name);
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(tl_variants[i].name, tl_variants[j].name);
    }
}
END_TEST

START_TEST(a_kept_run_is_found_again_under_its_settings_only)
{
    char dir[] = "/tmp/tl_ablate.XXXXXX";
    struct tl_outcome r = outcome(0.01), back;
    struct tp_err e;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert(!tl_outcome_load(dir, "a", 1, 1, &back));
    r.by_task[TL_OUTCOME_top1][2] = NAN;
    ck_assert_int_eq(tl_outcome_save(dir, "a", 1, 1, &r, &e), 0);
    ck_assert(tl_outcome_load(dir, "a", 1, 1, &back));
    ck_assert_uint_eq(back.n, TASKS);
    for (int f = 0; f < TL_OUTCOME_N; f++)
        ck_assert_double_eq_tol(back.figure[f], r.figure[f], 1e-8);
    ck_assert_double_eq_tol(back.by_task[TL_OUTCOME_pairwise][3], 0.91, 1e-8);
    ck_assert_double_nan(back.by_task[TL_OUTCOME_top1][2]);
    tl_outcome_free(&back);
    ck_assert(!tl_outcome_load(dir, "b", 1, 1, &back));
    ck_assert(!tl_outcome_load(dir, "a", 1, 2, &back));
    ck_assert(!tl_outcome_load(dir, "a", 2, 1, &back));
    tl_outcome_free(&r);
    remove_all(dir);
}
END_TEST

START_TEST(differences_are_paired_by_task_and_seed)
{
    struct tl_ablation a = {
        .settings = "s", .seeds = SEEDS, .run = calloc((size_t)(tl_n_variants * SEEDS), sizeof *a.run)};
    struct tp_buf md = {0}, json = {0};
    ck_assert_ptr_nonnull(a.run);
    for (int s = 0; s < SEEDS; s++) {
        a.run[s] = outcome(0.02 * s);                 /* the default */
        a.run[SEEDS + s] = outcome(0.02 * s + 0.003); /* better by as much on every task and seed */
    }
    a.run[2 * SEEDS] = outcome(-0.004); /* one seed only */
    ck_assert_int_eq(tl_ablation_markdown(&a, &md), 0);
    ck_assert_int_eq(tl_ablation_json(&a, &json), 0);
    tp_buf_putc(&md, '\0');
    tp_buf_putc(&json, '\0');
    char want[128];
    snprintf(want, sizeof want, "| %s | 2 | 0.7130 | +3.0 (+3.0 to +3.0) |", tl_variants[1].name);
    ck_assert_msg(strstr(md.p, want) != NULL, "%s", md.p);
    snprintf(want, sizeof want, "| %s | 1 | 0.6960 | -4.0 (-4.0 to -4.0) |", tl_variants[2].name);
    ck_assert_msg(strstr(md.p, want) != NULL, "%s", md.p);
    ck_assert_ptr_null(strstr(md.p, tl_variants[3].name));
    ck_assert_ptr_nonnull(strstr(json.p, "\"pairwise_difference\": 0.003"));
    for (int i = 0; i < tl_n_variants * SEEDS; i++)
        tl_outcome_free(&a.run[i]);
    free(a.run);
    tp_buf_free(&md);
    tp_buf_free(&json);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lab/ablate");
    TCase *c = tcase_create("all");
    tcase_add_test(c, the_first_variant_changes_nothing_and_the_others_something);
    tcase_add_test(c, a_kept_run_is_found_again_under_its_settings_only);
    tcase_add_test(c, differences_are_paired_by_task_and_seed);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
