/* Who is to serve a hardware: the rule on figures, and cross-fitting on two toy hardware. */
#include "ckd/rivals.h"

#include "ckd/champion.h"
#include "ckd_toy.h"

enum { TASKS = 8 };

struct figures {
    double q[TK_RIVAL_COUNT][TASKS];
};

/* Everyone at `level`, tasks differing. */
static struct figures all_at(double level)
{
    struct figures f;
    for (int r = 0; r < TK_RIVAL_COUNT; r++)
        for (int t = 0; t < TASKS; t++)
            f.q[r][t] = level + 0.01 * t;
    return f;
}

static void move(struct figures *f, int r, double by, double scatter)
{
    for (int t = 0; t < TASKS; t++)
        f->q[r][t] += by + (t % 2 ? scatter : -scatter);
}

static struct tk_contest judged(const struct figures *f)
{
    struct tk_contest c;
    tk_contest_judge(f->q[0], TASKS, &c);
    return c;
}

START_TEST(among_equals_the_one_that_learned_most_is_preferred)
{
    struct figures f = all_at(0.6);
    ck_assert_int_eq(judged(&f).winner, TK_RIVAL_COMMITTEE);
    for (int t = 0; t < TASKS; t++)
        f.q[TK_RIVAL_COMMITTEE][t] = NAN;
    const struct tk_contest c = judged(&f);
    ck_assert_int_eq(c.winner, TK_RIVAL_BLEND);
    ck_assert_uint_eq(c.tasks, TASKS);
    ck_assert_double_eq_tol(c.behind, 0, 1e-12);
    ck_assert_double_eq_tol(c.quality[TK_RIVAL_KB], 0.635, 1e-12);
}
END_TEST

START_TEST(one_that_is_surely_better_wins)
{
    for (int r = 0; r < TK_RIVAL_COUNT; r++) {
        struct figures f = all_at(0.6);
        move(&f, r, 0.05, 0.01);
        ck_assert_int_eq(judged(&f).winner, r);
    }
}
END_TEST

START_TEST(chance_on_few_tasks_does_not_bring_back_the_knowledge_base)
{
    struct figures f = all_at(0.6);
    move(&f, TK_RIVAL_KB, 0.03, 0.1);
    const struct tk_contest c = judged(&f);
    ck_assert_int_eq(c.winner, TK_RIVAL_COMMITTEE);
    ck_assert_double_eq_tol(c.behind, 0.03, 1e-12);
    ck_assert_double_gt(c.error, 0.03);
}
END_TEST

START_TEST(who_has_no_figures_takes_no_part_and_a_task_judges_all_or_none)
{
    struct figures f = all_at(0.6);
    move(&f, TK_RIVAL_SCRATCH, -0.05, 0);
    for (int r = 0; r < TK_RIVAL_COUNT; r++)
        for (int t = 0; t < TASKS; t++)
            if ((r != TK_RIVAL_SCRATCH && r != TK_RIVAL_KB) || (r == TK_RIVAL_KB && t == 3))
                f.q[r][t] = NAN;
    const struct tk_contest c = judged(&f);
    ck_assert_int_eq(c.winner, TK_RIVAL_KB);
    ck_assert_uint_eq(c.tasks, TASKS - 1);
    ck_assert(isnan(c.quality[TK_RIVAL_WHOLE]));
    struct tk_contest none;
    tk_contest_judge(NULL, 0, &none);
    ck_assert_uint_eq(none.tasks, 0);
    ck_assert_int_eq(none.winner, TK_RIVAL_BLEND);
    for (int r = 0; r < TK_RIVAL_COUNT; r++) /* all costs equal: nobody has a figure */
        for (int t = 0; t < TASKS; t++)
            f.q[r][t] = NAN;
    ck_assert_uint_eq(judged(&f).tasks, 0);
}
END_TEST

START_TEST(one_task_brings_the_knowledge_base_back_by_a_large_difference_only)
{
    for (int large = 0; large < 2; large++) {
        double q[TK_RIVAL_COUNT];
        struct tk_contest c;
        for (int r = 0; r < TK_RIVAL_COUNT; r++)
            q[r] = NAN;
        q[TK_RIVAL_SCRATCH] = 0.8;
        q[TK_RIVAL_KB] = 0.8 + TK_MARGIN + (large ? 1.1 : 0.9) * TK_ONE_TASK_ERROR;
        tk_contest_judge(q, 1, &c);
        ck_assert_int_eq(c.winner, large ? TK_RIVAL_KB : TK_RIVAL_SCRATCH);
    }
}
END_TEST

struct two {
    struct toy a, b;
    struct tk_kb *kb;
    struct tk_learn_opts cl, scratch;
    struct tk_run run;
    struct tm_model *ac;
    struct tk_learned told;
    struct tk_contest contest;
};

static void two_init(struct two *x, bool related)
{
    *x = (struct two){.run = toy_run(1)};
    toy_init(&x->a, false, 1);
    toy_init(&x->b, !related, 2);
    x->kb = toy_kb(&x->a, 10);
    tk_cl_defaults(&x->cl);
    tk_scratch_defaults(&x->scratch);
    x->cl.steps = x->scratch.steps = 0;
    x->cl.train.epochs = x->scratch.train.epochs = 10;
    x->scratch.train.lr = 4e-3;
}

static void two_free(struct two *x)
{
    tm_model_free(x->ac);
    tk_kb_free(x->kb);
    toy_free(&x->a);
    toy_free(&x->b);
}

static void run_with(struct two *x, const struct tk_learn_opts *scratch)
{
    struct tp_err e;
    tm_model_free(x->ac);
    x->ac = NULL;
    ck_assert_msg(tk_cross_fit(x->kb, &x->b.train_set, &x->b.valid_set, TK_FOLDS, &x->cl, scratch, &x->run, &x->ac,
                               &x->told, &x->contest, &e) == 0,
                  "%s", e.detail);
}

static void run(struct two *x)
{
    run_with(x, &x->scratch);
}

START_TEST(every_task_judges_and_related_knowledge_is_built_on)
{
    struct two x;
    two_init(&x, true);
    run(&x);
    ck_assert_uint_eq(x.contest.tasks, TOY_TASKS);
    ck_assert_int_lt(x.contest.winner, TK_RIVAL_SCRATCH);
    ck_assert(!isnan(x.contest.quality[TK_RIVAL_COMMITTEE]));
    ck_assert_ptr_nonnull(x.ac);
    ck_assert_double_gt(toy_pairwise(x.ac, &x.b), toy_pairwise(x.kb->model, &x.b) - 0.02);
    ck_assert_int_gt(x.told.epochs, 0);
    two_free(&x);
}
END_TEST

START_TEST(knowledge_that_misleads_loses_to_a_model_from_scratch)
{
    struct two x;
    two_init(&x, false);
    x.cl.train.lr = 1e-5; /* stays where the knowledge base is */
    run(&x);
    ck_assert_int_eq(x.contest.winner, TK_RIVAL_SCRATCH);
    ck_assert_ptr_null(x.ac);
    run_with(&x, NULL); /* which only wins where it may take part */
    ck_assert(isnan(x.contest.quality[TK_RIVAL_SCRATCH]));
    ck_assert(isnan(x.contest.quality[TK_RIVAL_COMMITTEE]));
    ck_assert_ptr_nonnull(x.ac);
    two_free(&x);
}
END_TEST

START_TEST(with_few_tasks_the_held_out_programs_judge_alone)
{
    struct two x;
    size_t n = 0;
    two_init(&x, true);
    for (size_t i = 0; i < x.b.train_set.n; i++) { /* of three tasks */
        const uint32_t p = x.b.train[i];
        if (x.b.task[p] == x.b.task[x.b.train[0]] || x.b.task[p] == x.b.task[x.b.train[30]] ||
            x.b.task[p] == x.b.task[x.b.train[60]])
            x.b.train[n++] = p;
    }
    x.b.train_set.n = n;
    run(&x);
    ck_assert_uint_gt(x.contest.tasks, 0);
    ck_assert_uint_lt(x.contest.tasks, TOY_TASKS / 2);
    x.b.valid_set.n = 0; /* and without any nobody is compared */
    run(&x);
    ck_assert_uint_eq(x.contest.tasks, 0);
    ck_assert_ptr_nonnull(x.ac);
    two_free(&x);
}
END_TEST

/* Of every task the first `each` programs. */
static void thin_out(struct two *x, uint32_t each)
{
    uint32_t seen[TOY_TASKS] = {0};
    size_t n = 0;
    for (size_t i = 0; i < x->b.train_set.n; i++)
        if (seen[x->b.task[x->b.train[i]]]++ < each)
            x->b.train[n++] = x->b.train[i];
    x->b.train_set.n = n;
}

/* n / (n + worth) of the way from the knowledge base to what was learned, which is the AC when the base is worth 0. */
START_TEST(the_more_was_measured_the_less_of_the_knowledge_base_stays)
{
    struct two x;
    two_init(&x, true);
    thin_out(&x, 8);
    x.cl.worth = 0;
    x.b.valid_set.n = 0;
    x.b.train_set.n = 3 * 8; /* three tasks and no hold-out: nobody is compared, the blend it is */
    run_with(&x, NULL);
    ck_assert_int_eq(x.contest.winner, TK_RIVAL_BLEND);
    struct tm_model *learned = tm_model_clone(x.ac);
    x.cl.worth = 24;
    run_with(&x, NULL);
    for (size_t i = 0; i < learned->n; i++) {
        const double kb = (double)x.kb->model->w[i], expected = kb + 0.25 * ((double)learned->w[i] - kb);
        ck_assert_double_eq_tol((double)x.ac->w[i], expected, 1e-6 + 1e-5 * fabs(expected));
    }
    tm_model_free(learned);
    two_free(&x);
}
END_TEST

START_TEST(of_three_programs_a_task_no_model_is_made_from_scratch)
{
    struct two x;
    two_init(&x, true);
    thin_out(&x, 3);
    run(&x);
    ck_assert(isnan(x.contest.quality[TK_RIVAL_SCRATCH]) && isnan(x.contest.quality[TK_RIVAL_COMMITTEE]));
    ck_assert_ptr_nonnull(x.ac);
    two_free(&x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ckd/rivals");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 240);
    tcase_add_test(c, among_equals_the_one_that_learned_most_is_preferred);
    tcase_add_test(c, one_that_is_surely_better_wins);
    tcase_add_test(c, chance_on_few_tasks_does_not_bring_back_the_knowledge_base);
    tcase_add_test(c, who_has_no_figures_takes_no_part_and_a_task_judges_all_or_none);
    tcase_add_test(c, every_task_judges_and_related_knowledge_is_built_on);
    tcase_add_test(c, knowledge_that_misleads_loses_to_a_model_from_scratch);
    tcase_add_test(c, one_task_brings_the_knowledge_base_back_by_a_large_difference_only);
    tcase_add_test(c, with_few_tasks_the_held_out_programs_judge_alone);
    tcase_add_test(c, the_more_was_measured_the_less_of_the_knowledge_base_stays);
    tcase_add_test(c, of_three_programs_a_task_no_model_is_made_from_scratch);
    suite_add_tcase(suite, c);
    return toy_main(srunner_create(suite));
}
