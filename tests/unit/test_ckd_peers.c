/* Other hardware's models as what an AC begins with. */
#include "ckd/adapt.h"

#include "ckd_job.h"

static int stop(void *arg, const struct tk_adapt_state *s)
{
    (void)arg;
    (void)s;
    return -TP_E_INTERRUPTED;
}

/* A model of the second hardware, from other programs than j->b's. */
static struct tm_model *model_of_second(const struct job *j)
{
    struct toy c;
    toy_init_wide(&c, true, 3, (uint32_t)j->b.ds.cols, (uint32_t)j->b.ds.summary_cols);
    struct tk_kb *kb = toy_kb(&c, 10);
    struct tm_model *m = tm_model_clone(kb->model);
    ck_assert_ptr_nonnull(m);
    tk_kb_free(kb);
    toy_free(&c);
    return m;
}

/* Makes that model the job's only peer, "twin". The model is the caller's. */
static struct tm_model *offer_twin(struct job *j, enum tp_target_kind kind, struct tk_peer *peer)
{
    struct tm_model *twin = model_of_second(j);
    *peer = (struct tk_peer){"twin", twin, kind, 7};
    j->adapt.peers = peer;
    j->adapt.n_peers = 1;
    return twin;
}

/* The knowledge base is of other hardware; a fleet's machine of the same kind has an AC. */
START_TEST(who_resembles_another_hardware_more_begins_with_its_model)
{
    struct job j;
    struct tk_adapt_state alone = {0}, s = {0};
    struct tp_err e;
    job_init(&j, false);
    struct tm_model *twin = model_of_second(&j);
    const struct tk_peer peers[] = {{"other", j.kb->model, TP_TARGET_GPU, 6}, {"twin", twin, TP_TARGET_GPU, 7}};
    ck_assert_msg(tk_adapt(&j.adapt, &alone, &e) == 0, "%s", e.detail);
    j.adapt.peers = peers;
    j.adapt.n_peers = 2;
    ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
    ck_assert_str_eq(s.source, "twin");
    ck_assert_int_ne(s.verdict.gate, TK_GATE_SCRATCH);
    ck_assert_int_eq(s.kb_verdict.gate, TK_GATE_SCRATCH);
    ck_assert_ptr_nonnull(strstr(s.verdict.reason, "twin"));
    ck_assert(s.activated && tk_adapt_is_warm(&s));
    ck_assert_double_gt(toy_pairwise(s.ac, &j.b), toy_pairwise(alone.ac, &j.b) - 0.01);
    ck_assert(s.attempts == 0 && !s.new_kb); /* what the gate has refused learns nothing by a detour */
    tk_adapt_state_free(&alone);
    tk_adapt_state_free(&s);
    tm_model_free(twin);
    job_free(&j);
}
END_TEST

START_TEST(a_peer_of_another_kind_is_never_begun_with)
{
    struct job j;
    struct tk_adapt_state s = {0};
    struct tp_err e;
    job_init(&j, false);
    struct tk_peer peer;
    struct tm_model *twin = offer_twin(&j, TP_TARGET_CPU, &peer); /* right about everything, but a CPU's */
    const struct tm_hyper h = toy_hyper();
    j.adapt.scratch.hyper = &h;
    for (int without_kb = 0; without_kb < 2; without_kb++) {
        j.adapt.kb = without_kb ? NULL : j.kb;
        ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
        ck_assert_str_eq(s.source, "");
        ck_assert_int_eq(s.verdict.gate, TK_GATE_SCRATCH);
        tk_adapt_state_free(&s);
    }
    tm_model_free(twin);
    job_free(&j);
}
END_TEST

START_TEST(a_peer_that_is_not_surely_better_is_left_alone)
{
    struct job j;
    struct tk_adapt_state s = {0};
    struct tp_err e;
    job_init(&j, true);
    const struct tk_peer same = {"same", j.kb->model, TP_TARGET_GPU, 6};
    j.adapt.peers = &same;
    j.adapt.n_peers = 1;
    ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
    ck_assert_str_eq(s.source, "");
    ck_assert_str_eq(s.verdict.reason, s.kb_verdict.reason);
    ck_assert(s.activated && s.new_kb);
    tk_adapt_state_free(&s);
    job_free(&j);
}
END_TEST

/* A peer's model on which training does no good: it serves as it is, calibrated for this hardware. */
START_TEST(a_peer_that_cannot_be_bettered_serves_as_it_is)
{
    struct job j;
    struct tk_adapt_state s = {0};
    struct tp_err e;
    job_init(&j, false);
    struct tk_peer peer;
    struct tm_model *twin = offer_twin(&j, TP_TARGET_GPU, &peer);
    j.adapt.cl.train.lr = 10; /* spoils whatever it touches */
    ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
    ck_assert_str_eq(s.source, "twin");
    ck_assert_int_eq(s.contest.winner, TK_RIVAL_KB);
    ck_assert_mem_eq(s.ac->w, twin->w, twin->n * sizeof *twin->w);
    ck_assert(s.activated);
    tk_adapt_state_free(&s);
    tm_model_free(twin);
    job_free(&j);
}
END_TEST

/* Between the gate's verdict and the training the peer may be removed: then the gate is asked again. */
static void resume_without(int gone)
{
    struct job j;
    struct tk_adapt_state s = {0};
    struct tp_err e;
    char dir[] = "/tmp/adapt-XXXXXX";
    struct saver k = {dir, 1};
    ck_assert_ptr_nonnull(mkdtemp(dir));
    job_init(&j, false);
    struct tk_peer peer;
    struct tm_model *twin = offer_twin(&j, TP_TARGET_GPU, &peer);
    j.adapt.checkpoint = save;
    j.adapt.checkpoint_arg = &k;
    ck_assert_int_eq(tk_adapt(&j.adapt, &s, &e), -TP_E_INTERRUPTED);
    tk_adapt_state_free(&s);
    ck_assert_int_eq(tk_adapt_load(dir, &s, &e), 1);
    ck_assert_int_eq(s.phase, TK_PHASE_LEARN);
    ck_assert_str_eq(s.source, "twin");
    ck_assert_int_eq(s.source_id, 7);
    ck_assert_int_eq(s.kb_verdict.gate, TK_GATE_SCRATCH);
    j.adapt.checkpoint = NULL;
    if (gone == 0)
        j.adapt.n_peers = 0;
    else { /* it has learned meanwhile: another model */
        peer.id = 8;
        peer.model = j.kb->model;
    }
    ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
    ck_assert_str_eq(s.source, "");
    ck_assert_int_eq(s.source_id, 0);
    ck_assert_int_eq(s.verdict.gate, TK_GATE_SCRATCH);
    ck_assert(s.activated);
    files_in(dir, true);
    rmdir(dir);
    tk_adapt_state_free(&s);
    tm_model_free(twin);
    job_free(&j);
}

START_TEST(a_job_whose_peer_has_gone_asks_the_gate_again)
{
    resume_without(0);
    resume_without(1);
}
END_TEST

/* One task, on which the peer is right and the knowledge base wrong: chance, for all that one can tell. */
START_TEST(a_small_probe_does_not_choose_a_peer)
{
    struct job j;
    struct tk_adapt_state s = {0};
    struct tp_err e;
    job_init(&j, false);
    struct tk_peer peer;
    struct tm_model *twin = offer_twin(&j, TP_TARGET_GPU, &peer);
    j.adapt.probe = j.b.train_set;
    j.adapt.probe.n = 20;
    j.adapt.checkpoint = stop;
    ck_assert_int_eq(tk_adapt(&j.adapt, &s, &e), -TP_E_INTERRUPTED);
    ck_assert_int_eq(s.phase, TK_PHASE_LEARN);
    ck_assert_str_eq(s.source, "");
    tk_adapt_state_free(&s);
    j.adapt.probe = j.b.train_set; /* of all tasks it is */
    ck_assert_int_eq(tk_adapt(&j.adapt, &s, &e), -TP_E_INTERRUPTED);
    ck_assert_str_eq(s.source, "twin");
    tk_adapt_state_free(&s);
    tm_model_free(twin);
    job_free(&j);
}
END_TEST

/* The gate was asked on a probe; what is held out has the last word between the AC and the knowledge base. */
START_TEST(the_knowledge_base_may_still_win_on_what_is_held_out)
{
    const struct tm_hyper h = toy_hyper();
    for (int worse = 0; worse < 2; worse++) {
        struct job j;
        struct tk_adapt_state s = {.phase = TK_PHASE_JUDGE, .source = "twin", .source_id = 7};
        struct tp_err e;
        job_init(&j, true);
        s.verdict.gate = TK_GATE_WARM_START;
        s.contest = (struct tk_contest){.winner = TK_RIVAL_BLEND, .tasks = 12};
        s.ac = worse ? tm_model_new(TCLFEAT_TCLF_1, &h, 5) : tm_model_clone(j.kb->model);
        ck_assert_ptr_nonnull(s.ac);
        j.adapt.keep_kb = true;
        ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
        ck_assert(s.activated == !worse);
        ck_assert_ptr_nonnull(strstr(s.over_kb.reason, worse ? "the knowledge base" : "the trained model"));
        ck_assert_int_eq(s.contest.tasks, 12); /* that with the peer is kept */
        tk_adapt_state_free(&s);
        job_free(&j);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ckd/peers");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 240);
    tcase_add_test(c, who_resembles_another_hardware_more_begins_with_its_model);
    tcase_add_test(c, a_peer_of_another_kind_is_never_begun_with);
    tcase_add_test(c, a_peer_that_is_not_surely_better_is_left_alone);
    tcase_add_test(c, a_peer_that_cannot_be_bettered_serves_as_it_is);
    tcase_add_test(c, a_job_whose_peer_has_gone_asks_the_gate_again);
    tcase_add_test(c, a_small_probe_does_not_choose_a_peer);
    tcase_add_test(c, the_knowledge_base_may_still_win_on_what_is_held_out);
    suite_add_tcase(suite, c);
    return toy_main(srunner_create(suite));
}
