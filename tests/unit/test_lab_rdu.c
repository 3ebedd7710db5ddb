/* `lab rdu`: methods as text, cells on disk, figures by hand, and a whole run on small logs. */
#include "lab/rdu.h"
#include "tests/unit/lab_logs.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- methods ---- */

static struct tl_rdu_method method(const char *text)
{
    struct tl_rdu_method m;
    struct tp_err e = {0};
    ck_assert_msg(tl_rdu_method_parse(text, &m, &e) == 0, "%s", e.detail);
    return m;
}

START_TEST(a_method_says_how_it_differs_from_the_defaults)
{
    struct ts_opts d;
    ts_defaults(&d);
    struct tl_rdu_method m = method("rdu");
    ck_assert_int_eq(m.select.method, TS_RDU);
    ck_assert_int_eq(m.rounds, d.rounds);
    ck_assert(!m.rows);
    ck_assert_double_eq(m.select.weights.u, d.weights.u);

    m = method("rdu:r=0:u=0.5:f=0.25:sum:floor=3:rounds=2:rows");
    ck_assert_str_eq(m.name, "rdu:r=0:u=0.5:f=0.25:sum:floor=3:rounds=2:rows");
    ck_assert_double_eq(m.select.weights.r, 0);
    ck_assert_double_eq(m.select.weights.d, d.weights.d);
    ck_assert_double_eq(m.select.weights.u, 0.5);
    ck_assert_double_eq(m.select.weights.f, 0.25);
    ck_assert_int_eq(m.select.form, TS_SUM);
    ck_assert_uint_eq(m.select.task_floor, 3);
    ck_assert_int_eq(m.rounds, 2);
    ck_assert(m.rows);
    ck_assert_int_eq(method("random").rounds, 1);
}
END_TEST

START_TEST(a_method_that_is_none_is_refused)
{
    static const char *const bad[] = {"", "best", "rdu:x=1", "rdu:r=", "rdu:r=1x", "rdu:rounds=0", "rdu:columns"};
    struct tl_rdu_method m = method("coreset");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct tp_err e = {0};
        ck_assert_int_eq(tl_rdu_method_parse(bad[i], &m, &e), -TP_E_UNUSABLE);
        ck_assert_msg(*e.detail != '\0', "%s", bad[i]);
    }
    ck_assert_str_eq(m.name, "coreset"); /* untouched */
}
END_TEST

/* ---- figures ---- */

static void fill(struct tl_rdu_cell *c, double a, double b)
{
    *c = (struct tl_rdu_cell){.n = 2,
                              .top1 = malloc(2 * sizeof(double)),
                              .top5 = malloc(2 * sizeof(double)),
                              .pairwise = malloc(2 * sizeof(double)),
                              .chosen = 7,
                              .epochs = 3,
                              .steps = 12,
                              .select_seconds = 0.5,
                              .train_seconds = 2,
                              .select_bytes = 4096};
    c->pairwise[0] = a;
    c->pairwise[1] = b;
    c->top1[0] = c->top5[0] = 1;
    c->top1[1] = c->top5[1] = NAN;
}

START_TEST(figures_are_means_differences_and_the_share_of_the_gap)
{
    static struct tl_rdu_opts o = {.budget = {0.1, 1}, .n_budgets = 2, .n_methods = 2, .seeds = 2};
    struct tl_rdu *r = calloc(1, sizeof *r);
    struct tl_rdu_figures f;
    struct tp_buf b = {0};
    o.method[0] = method("rdu");
    o.method[1] = method("random");
    r->o = &o;
    for (int s = 0; s < 2; s++) {
        fill(&r->cell[0][0][s], 0.7, 0.8);   /* rdu */
        fill(&r->cell[1][0][s], 0.68, 0.78); /* random: 2 points less in each task */
        fill(&r->cell[0][1][s], 0.72, 0.82); /* all */
        fill(&r->cell[1][1][s], 0.72, 0.82);
    }
    ck_assert_int_eq(tl_rdu_figures(r, 0, 0, &f), 0);
    ck_assert_double_eq_tol(f.mean[0], 0.75, 1e-12);
    ck_assert_double_eq_tol(f.less_random[0], 0.02, 1e-12);
    ck_assert_double_eq_tol(f.interval[0].lo, 0.02, 1e-12); /* paired: what tasks have in common is gone */
    ck_assert_double_eq_tol(f.interval[0].hi, 0.02, 1e-12);
    ck_assert_double_eq_tol(f.gap[0], 0.5, 1e-12);
    ck_assert_double_eq_tol(f.mean[1], 1, 1e-12); /* the task without a figure is left out */
    ck_assert_double_nan(f.gap[1]);               /* no gap */
    ck_assert_uint_eq(f.chosen, 7);
    ck_assert_double_eq_tol(f.select_seconds, 0.5, 1e-12);

    ck_assert_int_eq(tl_rdu_markdown(r, &b), 0);
    tp_buf_putc(&b, '\0');
    ck_assert_ptr_nonnull(strstr(b.p, "| 10 % | 7 | rdu | 75.00 (+2.00: +2.00 to +2.00) | 100.00"));
    ck_assert_ptr_nonnull(strstr(b.p, "| 50 % | 3 | 0.50"));
    tp_buf_free(&b);
    tl_rdu_free(r);
    free(r);
}
END_TEST

/* ---- cells on disk ---- */

START_TEST(a_cell_is_read_back_when_the_settings_are_the_same)
{
    char path[] = "/tmp/rdu-cell-XXXXXX";
    struct tl_rdu_cell c, got;
    struct tp_err e = {0};
    close(mkstemp(path));
    fill(&c, 0.123456789, NAN);
    ck_assert_int_eq(tl_rdu_cell_write(path, "a \"b\"", &c, &e), 0);
    ck_assert_int_eq(tl_rdu_cell_read(path, "other", &got), 0);
    ck_assert_int_eq(tl_rdu_cell_read(path, "a \"b\"", &got), 1);
    ck_assert_uint_eq(got.n, 2);
    ck_assert_double_eq_tol(got.pairwise[0], 0.123456789, 1e-9);
    ck_assert_double_nan(got.pairwise[1]);
    ck_assert_double_eq(got.top1[0], 1);
    ck_assert_uint_eq(got.chosen, 7);
    ck_assert_uint_eq(got.epochs, 3);
    ck_assert_uint_eq(got.steps, 12);
    ck_assert_double_eq(got.select_bytes, 4096);
    tl_rdu_cell_free(&got);
    ck_assert_int_eq(truncate(path, 40), 0); /* what a killed run leaves is no cell */
    ck_assert_int_eq(tl_rdu_cell_read(path, "a \"b\"", &got), 0);
    unlink(path);
    ck_assert_int_eq(tl_rdu_cell_read(path, "a \"b\"", &got), 0);
    ck_assert_int_eq(tl_rdu_cell_write("/does/not/exist", "a", &c, &e), -TP_E_IO);
    tl_rdu_cell_free(&c);
}
END_TEST

/* ---- a whole run ---- */

enum { TASKS = 8, PROGRAMS = 30 };

/* Programs around the 12th are the fastest ones of each task, a millisecond times `slower`. */
static struct tl_corpus *corpus_of(double slower)
{
    struct logs l;
    logs_begin(&l);
    for (int t = 0; t < TASKS; t++)
        for (int p = 1; p <= PROGRAMS; p++)
            logs_add(&l, t, p, slower * 1e-3 * (1 + abs(p - 12)), slower * 1e-3 * (1.01 + abs(p - 12)));
    return logs_read(&l);
}

static struct tl_corpus *corpus(void)
{
    return corpus_of(1);
}

static void options(struct tl_rdu_opts *o)
{
    *o = (struct tl_rdu_opts){
        .budget = {0.2, 1}, .n_budgets = 2, .n_methods = 3, .seeds = 2, .steps = 20, .quiet = true};
    tl_split_defaults(&o->split);
    tm_train_defaults(&o->train);
    o->split.min_programs = 10;
    o->train.epochs = 1;
    o->method[0] = method("random");
    o->method[1] = method("rdu");
    o->method[2] = method("coreset:rows:rounds=1");
}

static struct tl_rdu *run(const struct tl_corpus *c, const struct tl_rdu_opts *o)
{
    char *keys[] = {logs_key(3), logs_key(5)};
    struct tl_rdu *r = calloc(1, sizeof *r);
    struct tp_err e = {0};
    ck_assert_msg(tl_rdu_run(c, keys, 2, o, r, &e) == 0, "%s", e.detail);
    free(keys[0]);
    free(keys[1]);
    return r;
}

static void done(struct tl_rdu *r)
{
    tl_rdu_free(r);
    free(r);
}

START_TEST(every_cell_has_its_budget_its_steps_and_the_test_tasks)
{
    struct tl_corpus *c = corpus();
    struct tl_rdu_opts o;
    options(&o);
    struct tl_rdu *r = run(c, &o), *again = run(c, &o);
    ck_assert_uint_eq(r->pool, (TASKS - 2) * PROGRAMS);
    ck_assert_uint_eq(r->test_tasks, 2);
    for (uint32_t m = 0; m < o.n_methods; m++)
        for (uint32_t b = 0; b < 2; b++)
            for (uint32_t s = 0; s < 2; s++) {
                const struct tl_rdu_cell *x = &r->cell[m][b][s];
                ck_assert_uint_eq(x->chosen, b ? 180 : 36);
                ck_assert_uint_ge(x->steps, 20);
                ck_assert_uint_eq(x->n, 2);
                for (uint32_t i = 0; i < 2; i++) {
                    ck_assert_double_ge(x->pairwise[i], 0);
                    ck_assert_double_eq(x->pairwise[i], again->cell[m][b][s].pairwise[i]);
                }
            }
    done(r);
    done(again);
    tl_corpus_free(c);
}
END_TEST

START_TEST(with_all_programs_chosen_methods_do_not_differ)
{
    struct tl_corpus *c = corpus();
    struct tl_rdu_opts o;
    options(&o);
    struct tl_rdu *r = run(c, &o);
    for (uint32_t m = 1; m < o.n_methods; m++)
        for (uint32_t i = 0; i < 2; i++)
            ck_assert_double_eq(r->cell[m][1][0].pairwise[i], r->cell[0][1][0].pairwise[i]);
    done(r);
    tl_corpus_free(c);
}
END_TEST

START_TEST(tuning_sees_training_tasks_only)
{
    struct tl_corpus *c = corpus();
    struct tl_rdu_opts o;
    options(&o);
    o.tune = 0.4;
    o.n_methods = 1;
    struct tl_rdu *r = run(c, &o);
    ck_assert_uint_gt(r->test_tasks, 0);
    ck_assert_uint_gt(r->tasks, 0);
    ck_assert_uint_eq(r->test_tasks + r->tasks, TASKS - 2);
    ck_assert_uint_eq(r->pool, r->tasks * PROGRAMS);
    done(r);
    tl_corpus_free(c);
}
END_TEST

START_TEST(finished_cells_are_not_made_again)
{
    char dir[] = "/tmp/rdu-cells-XXXXXX", path[128];
    struct tl_corpus *c = corpus();
    struct tl_rdu_opts o;
    struct stat a, b;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    options(&o);
    o.cache = dir;
    o.n_methods = 1;
    o.seeds = 1;
    struct tl_rdu *r = run(c, &o);
    snprintf(path, sizeof path, "%s/random-20-1.json", dir);
    ck_assert_int_eq(stat(path, &a), 0);
    struct tl_rdu *again = run(c, &o);
    ck_assert_int_eq(stat(path, &b), 0);
    ck_assert(a.st_ino == b.st_ino && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec && a.st_mtim.tv_sec == b.st_mtim.tv_sec);
    ck_assert_double_eq_tol(again->cell[0][0][0].pairwise[0], r->cell[0][0][0].pairwise[0], 1e-8);
    /* the same programs with other costs are other data */
    struct tl_corpus *slow = corpus_of(2);
    struct tl_rdu *other = run(slow, &o);
    ck_assert_int_eq(stat(path, &b), 0);
    ck_assert(a.st_mtim.tv_nsec != b.st_mtim.tv_nsec || a.st_mtim.tv_sec != b.st_mtim.tv_sec);
    done(other);
    tl_corpus_free(slow);
    unlink(path);
    snprintf(path, sizeof path, "%s/all-100-1.json", dir);
    unlink(path);
    ck_assert_int_eq(rmdir(dir), 0);
    done(r);
    done(again);
    tl_corpus_free(c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lab/rdu");
    TCase *t = tcase_create("rdu");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_method_says_how_it_differs_from_the_defaults);
    tcase_add_test(t, a_method_that_is_none_is_refused);
    tcase_add_test(t, figures_are_means_differences_and_the_share_of_the_gap);
    tcase_add_test(t, a_cell_is_read_back_when_the_settings_are_the_same);
    tcase_add_test(t, every_cell_has_its_budget_its_steps_and_the_test_tasks);
    tcase_add_test(t, with_all_programs_chosen_methods_do_not_differ);
    tcase_add_test(t, tuning_sees_training_tasks_only);
    tcase_add_test(t, finished_cells_are_not_made_again);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
