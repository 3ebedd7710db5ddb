/* Thresholds, families, probes that are too small, and descriptors. */
#include "ckd/gate.h"
#include "ckd_toy.h"

static enum tk_gate judged(double lower)
{
    const struct tk_concordance c = {.mean = lower + 0.01, .lower = lower, .tasks = 20, .programs = 256};
    struct tk_verdict v;
    tk_gate_judge(&c, &v);
    ck_assert(v.reason[0] && v.concordance.tasks == 20);
    return v.gate;
}

START_TEST(the_lower_bound_decides)
{
    ck_assert_int_eq(judged(0.95), TK_GATE_WARM_START);
    ck_assert_int_eq(judged(0.70), TK_GATE_WARM_START);
    ck_assert_int_eq(judged(0.6999), TK_GATE_UNSURE);
    ck_assert_int_eq(judged(0.55), TK_GATE_UNSURE);
    ck_assert_int_eq(judged(0.5499), TK_GATE_SCRATCH);
    ck_assert_int_eq(judged(NAN), TK_GATE_SCRATCH);
}
END_TEST

START_TEST(a_probe_too_small_trusts_nobody_and_refuses_only_who_is_mostly_wrong)
{
    const uint32_t tasks = TK_PROBE_TASKS, programs = TK_PROBE_PROGRAMS, each = TK_CONCORD_EACH;
    const struct {
        double mean, lower;
        uint32_t tasks, programs;
        enum tk_gate gate;
    } probe[] = {
        {1.0, 1.0, tasks, programs, TK_GATE_WARM_START},  {1.0, 1.0, tasks - 1, 256, TK_GATE_UNSURE},
        {1.0, 1.0, tasks, programs - 1, TK_GATE_UNSURE},  {0.6, 0.5, tasks, programs - 1, TK_GATE_UNSURE},
        {0.5, 0.4, tasks, programs - 1, TK_GATE_SCRATCH}, {NAN, NAN, 0, 0, TK_GATE_SCRATCH}, /* no pair */
        {0.6, 0.5, 40, each * 40, TK_GATE_SCRATCH},       {0.6, 0.5, 40, each * 40 - 1, TK_GATE_UNSURE},
        {0.5, 0.4, 40, each * 40 - 1, TK_GATE_SCRATCH},   {0.8, 0.7, 40, each * 40 - 1, TK_GATE_WARM_START},
    };
    for (size_t i = 0; i < sizeof probe / sizeof *probe; i++) {
        const struct tk_concordance c = {
            .mean = probe[i].mean, .lower = probe[i].lower, .tasks = probe[i].tasks, .programs = probe[i].programs};
        struct tk_verdict v;
        tk_gate_judge(&c, &v);
        ck_assert_msg(v.gate == probe[i].gate, "%zu: %s", i, v.reason);
    }
}
END_TEST

START_TEST(families_are_of_one_kind)
{
    ck_assert(tk_family_accepts(TP_TARGET_CPU, TP_TARGET_CPU));
    ck_assert(tk_family_accepts(TP_TARGET_GPU, TP_TARGET_GPU));
    ck_assert(!tk_family_accepts(TP_TARGET_GPU, TP_TARGET_CPU));
    ck_assert(!tk_family_accepts(TP_TARGET_CPU, TP_TARGET_GPU));
    ck_assert(!tk_family_accepts(TP_TARGET_ANY, TP_TARGET_ANY));
    ck_assert(!tk_family_accepts(TP_TARGET_ACCELERATOR, TP_TARGET_ACCELERATOR));
    ck_assert_str_eq(tk_family_default(TP_TARGET_CPU), "cpu");
    ck_assert_str_eq(tk_family_default(TP_TARGET_GPU), "gpu");
    ck_assert_ptr_null(tk_family_default(TP_TARGET_ANY));
}
END_TEST

START_TEST(a_model_is_asked_about_the_probe_and_only_within_its_family)
{
    struct toy a, b;
    struct tk_verdict v;
    const struct tk_run run = toy_run(1);
    toy_init(&a, false, 1);
    toy_init(&b, true, 1);
    struct tk_kb *kb = toy_kb(&a, 12);
    const struct tk_set own = {&a.ds, a.train, a.train_set.n}, other = {&b.ds, b.train, b.train_set.n};
    ck_assert_int_eq(tk_gate_model(kb->model, TP_TARGET_GPU, TP_TARGET_GPU, &own, &run, &v, NULL), 0);
    ck_assert_int_eq(v.gate, TK_GATE_WARM_START);
    ck_assert_double_gt(v.concordance.mean, 0.9);
    ck_assert_int_eq(tk_gate_model(kb->model, TP_TARGET_GPU, TP_TARGET_GPU, &other, &run, &v, NULL), 0);
    ck_assert_int_eq(v.gate, TK_GATE_SCRATCH);
    ck_assert_double_lt(v.concordance.mean, TK_GATE_DISTIL);
    ck_assert_int_eq(tk_gate_model(kb->model, TP_TARGET_GPU, TP_TARGET_CPU, &own, &run, &v, NULL), 0);
    ck_assert_int_eq(v.gate, TK_GATE_SCRATCH);
    ck_assert(isnan(v.concordance.mean));
    ck_assert_ptr_nonnull(strstr(v.reason, "gpu"));
    ck_assert_int_eq(tk_gate_model(NULL, TP_TARGET_GPU, TP_TARGET_GPU, &own, &run, &v, NULL), 0);
    ck_assert_int_eq(v.gate, TK_GATE_SCRATCH);
    tk_kb_free(kb);
    toy_free(&a);
    toy_free(&b);
}
END_TEST

START_TEST(labels_of_another_hardware_can_be_asked_where_it_has_some)
{
    struct toy t;
    struct tk_verdict v;
    double score[TOY_N];
    toy_init(&t, false, 1);
    for (size_t i = 0; i < t.train_set.n; i++)
        score[i] = i % 3 ? -t.cost[t.train[i]] : NAN;
    ck_assert_int_eq(tk_gate_scores(score, TP_TARGET_CPU, TP_TARGET_CPU, &t.train_set, 1, &v, NULL), 0);
    ck_assert_int_eq(v.gate, TK_GATE_WARM_START);
    ck_assert_double_eq(v.concordance.mean, 1);
    ck_assert_uint_lt(v.concordance.programs, t.train_set.n);
    for (size_t i = 0; i < t.train_set.n; i++)
        score[i] = NAN;
    ck_assert_int_eq(tk_gate_scores(score, TP_TARGET_CPU, TP_TARGET_CPU, &t.train_set, 1, &v, NULL), 0);
    ck_assert_int_eq(v.gate, TK_GATE_SCRATCH);
    ck_assert_int_eq(tk_gate_scores(NULL, TP_TARGET_CPU, TP_TARGET_CPU, &t.train_set, 1, &v, NULL), 0);
    ck_assert_int_eq(v.gate, TK_GATE_SCRATCH);
    toy_free(&t);
}
END_TEST

START_TEST(descriptors_are_alike_in_what_both_know)
{
    struct tclfeat_hw a = {.kind = TP_TARGET_CPU, .value = {8, 3, 64}, .known = 7}, b = a, c = a;
    ck_assert_double_eq(tk_alike(&a, &b), 1);
    b.value[0] = 16;
    ck_assert_double_eq_tol(tk_alike(&a, &b), 2.5 / 3, 1e-12);
    b.known = 6;
    ck_assert_double_eq(tk_alike(&a, &b), 1);
    b.known = 0;
    ck_assert_double_eq(tk_alike(&a, &b), 0);
    c.kind = TP_TARGET_GPU;
    ck_assert_double_eq(tk_alike(&a, &c), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ckd/gate");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, the_lower_bound_decides);
    tcase_add_test(c, a_probe_too_small_trusts_nobody_and_refuses_only_who_is_mostly_wrong);
    tcase_add_test(c, families_are_of_one_kind);
    tcase_add_test(c, a_model_is_asked_about_the_probe_and_only_within_its_family);
    tcase_add_test(c, labels_of_another_hardware_can_be_asked_where_it_has_some);
    tcase_add_test(c, descriptors_are_alike_in_what_both_know);
    suite_add_tcase(suite, c);
    return toy_main(srunner_create(suite));
}
