/* Meta-learned initial weights: a new task of a kind that the sources have is learned sooner from them. */
#include "ckd/meta.h"
#include "ckd_toy.h"

static struct tk_meta_opts few(uint32_t rounds)
{
    struct tk_meta_opts o;
    tk_meta_defaults(&o);
    o.rounds = rounds;
    o.inner_lr = 3e-3;
    return o;
}

START_TEST(learning_from_the_start_weights_is_quicker_than_from_random_ones)
{
    struct toy a, b;
    const struct tk_run run = toy_run(1);
    const struct tm_hyper h = toy_hyper();
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1), *random, *warm;
    float *start = tm_alloc(m->n, sizeof *start);
    const struct tk_meta_opts o = few(300);
    struct tk_learn_opts learn;
    struct tk_learned told;
    toy_init(&a, false, 1);
    toy_init(&b, false, 2);
    ck_assert_int_eq(tk_meta(m, &a.train_set, 1, &o, &run, start, NULL), 0);
    tk_scratch_defaults(&learn);
    learn.hyper = &h;
    learn.steps = 0;
    learn.train.epochs = 1;
    const struct tk_set none = {&b.ds, NULL, 0};
    ck_assert_int_eq(tk_learn(NULL, TK_GATE_SCRATCH, NULL, &b.train_set, &none, &learn, &run, &random, &told, NULL), 0);
    ck_assert_int_eq(tk_learn(NULL, TK_GATE_SCRATCH, start, &b.train_set, &none, &learn, &run, &warm, &told, NULL), 0);
    const double without = toy_pairwise(random, &b), with = toy_pairwise(warm, &b);
    ck_assert_msg(with > without + 0.1, "random %g, start %g", without, with);
    tm_model_free(random);
    tm_model_free(warm);
    tm_model_free(m);
    free(start);
    toy_free(&a);
    toy_free(&b);
}
END_TEST

START_TEST(the_same_seed_gives_the_same_weights_for_any_number_of_threads)
{
    struct toy a;
    const struct tm_hyper h = toy_hyper();
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    const struct tk_meta_opts o = few(10);
    float *start[3];
    toy_init(&a, false, 1);
    for (int i = 0; i < 3; i++) {
        struct tk_run run = toy_run(i == 1 ? 3 : 1);
        run.seed = i == 2 ? 2 : 1;
        ck_assert_ptr_nonnull(start[i] = tm_alloc(m->n, sizeof **start));
        ck_assert_int_eq(tk_meta(m, &a.train_set, 1, &o, &run, start[i], NULL), 0);
    }
    ck_assert_mem_eq(start[0], start[1], m->n * sizeof **start);
    ck_assert_mem_ne(start[0], start[2], m->n * sizeof **start);
    for (int i = 0; i < 3; i++)
        free(start[i]);
    tm_model_free(m);
    toy_free(&a);
}
END_TEST

START_TEST(without_time_one_task_is_learned)
{
    struct toy a;
    const struct tm_hyper h = toy_hyper();
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    struct tk_meta_opts o = few(10);
    const struct tk_run run = toy_run(1);
    float *start = tm_alloc(m->n, sizeof *start);
    toy_init(&a, false, 1);
    o.max_seconds = 1e-9;
    ck_assert_int_eq(tk_meta(m, &a.train_set, 1, &o, &run, start, NULL), 0);
    ck_assert_mem_ne(start, m->w, m->n * sizeof *start);
    free(start);
    tm_model_free(m);
    toy_free(&a);
}
END_TEST

static int stop(void *arg, const struct tk_progress *p)
{
    (void)arg;
    return p->fraction >= 0.5;
}

START_TEST(it_can_be_cancelled_and_needs_something_to_rank)
{
    struct toy a;
    const struct tm_hyper h = toy_hyper();
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    const struct tk_meta_opts o = few(10);
    struct tk_run run = toy_run(1);
    float *start = tm_alloc(m->n, sizeof *start);
    struct tp_err e;
    toy_init(&a, false, 1);
    const struct tk_set one = {&a.ds, a.train, 1};
    ck_assert_int_eq(tk_meta(m, &one, 1, &o, &run, start, &e), -TP_E_NOT_ENOUGH_DATA);
    ck_assert_int_eq(tk_meta(m, NULL, 0, &o, &run, start, &e), -TP_E_NOT_ENOUGH_DATA);
    run.progress = stop;
    ck_assert_int_eq(tk_meta(m, &a.train_set, 1, &o, &run, start, &e), -TP_E_CANCELLED);
    a.ds.features = TCLFEAT_TLP_GPU_1;
    ck_assert_int_eq(tk_meta(m, &a.train_set, 1, &o, &run, start, &e), -TP_E_FEATURES_MISMATCH);
    for (size_t i = 0; i < m->n; i++)
        ck_assert(start[i] == 0);
    free(start);
    tm_model_free(m);
    toy_free(&a);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ckd/meta");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, learning_from_the_start_weights_is_quicker_than_from_random_ones);
    tcase_add_test(c, the_same_seed_gives_the_same_weights_for_any_number_of_threads);
    tcase_add_test(c, without_time_one_task_is_learned);
    tcase_add_test(c, it_can_be_cancelled_and_needs_something_to_rank);
    suite_add_tcase(suite, c);
    return toy_main(srunner_create(suite));
}
