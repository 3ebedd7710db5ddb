/* The phases one after another on two toy hardware: what is forgotten, what is kept, what is refused, and that a job
 * can be stopped and resumed anywhere. */
#include "ckd/adapt.h"

#include "ckd/fisher.h"
#include "ckd_job.h"

static struct tk_learn_opts kd(double lambda)
{
    struct tk_learn_opts o;
    tk_kd_defaults(&o);
    o.lambda = lambda;
    o.train.lr = 1e-3;
    return o;
}

START_TEST(without_ewc_the_old_hardware_is_forgotten_and_with_it_it_is_not)
{
    struct toy a, b;
    const struct tk_run run = toy_run(1);
    struct tk_learned told;
    struct tk_kb *free_kb, *held;
    struct tp_err e;
    toy_init(&a, false, 1);
    toy_init(&b, true, 2);
    struct tk_kb *kb = toy_kb(&a, 30), *own = toy_kb(&b, 30);
    const struct tk_learn_opts without = kd(0), with = kd(5 * TK_EWC_LAMBDA);
    ck_assert_int_eq(tk_teach(kb, own->model, &b.train_set, &b.valid_set, &without, &run, &free_kb, &told, &e), 0);
    ck_assert_int_eq(tk_teach(kb, own->model, &b.train_set, &b.valid_set, &with, &run, &held, &told, &e), 0);
    const double before = toy_pairwise(kb->model, &a), forgot = toy_pairwise(free_kb->model, &a),
                 kept = toy_pairwise(held->model, &a);
    ck_assert_msg(before > 0.9, "old %g", before);
    ck_assert_msg(forgot < before - 0.25, "old %g, without EWC %g", before, forgot);
    ck_assert_msg(kept > before - 0.12, "old %g, without %g, with EWC %g", before, forgot, kept);
    /* and it has still learned something */
    const double new_before = toy_pairwise(kb->model, &b), new_after = toy_pairwise(held->model, &b);
    ck_assert_msg(new_after > new_before + 0.01, "new %g, before %g", new_after, new_before);
    tk_kb_free(kb);
    tk_kb_free(own);
    tk_kb_free(free_kb);
    tk_kb_free(held);
    toy_free(&a);
    toy_free(&b);
}
END_TEST

/* However little time there is: what is told is what was done. */
START_TEST(a_phase_without_time_makes_one_epoch_and_says_so)
{
    struct job j;
    struct tk_adapt_state s = {0};
    struct tp_err e;
    job_init(&j, true);
    j.adapt.cl.train.max_seconds = j.adapt.kd.train.max_seconds = 1e-9;
    ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
    ck_assert_int_eq(s.cl.epoch, 1);
    ck_assert_int_eq(s.cl.epochs, 10);
    ck_assert_int_eq(s.kd.epoch, 1);
    ck_assert_int_eq(s.kd.epochs, 5);
    ck_assert(isfinite(s.cl.loss) && isfinite(s.kd.loss));
    ck_assert_mem_ne(s.ac->w, j.kb->model->w, s.ac->n * sizeof(float));
    tk_adapt_state_free(&s);
    job_free(&j);
}
END_TEST

START_TEST(related_hardware_starts_warm_and_teaches)
{
    struct job j;
    struct tk_adapt_state s = {0};
    struct tp_err e;
    job_init(&j, true);
    ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
    ck_assert_int_eq(s.phase, TK_PHASE_DONE);
    ck_assert_int_eq(s.verdict.gate, TK_GATE_WARM_START);
    ck_assert(s.activated && s.acceptance.accepted);
    ck_assert_ptr_nonnull(s.new_kb);
    ck_assert_uint_eq(s.new_kb->phases, j.kb->phases + 1);
    ck_assert_mem_eq(s.new_kb->anchor, s.new_kb->model->w, s.new_kb->model->n * sizeof(float));
    ck_assert_double_ge(s.acceptance.drop, -1);
    ck_assert_double_le(s.acceptance.drop, TK_TOP1_DROP);
    ck_assert_uint_gt(s.ac_metrics.tasks, 0);
    tk_adapt_state_free(&s);
    job_free(&j);
}
END_TEST

START_TEST(hardware_that_was_measured_on_few_tasks_teaches_nobody)
{
    struct job j;
    struct tk_adapt_state s = {0};
    struct tp_err e;
    job_init(&j, true);
    size_t n = 0, n_valid = 0;
    for (int few = 0; few < 5; few++) {
        const uint32_t task = j.b.ds.task[j.b.train_set.programs[n]];
        while (n < j.b.train_set.n && j.b.ds.task[j.b.train_set.programs[n]] == task)
            n++;
    }
    while (n_valid < j.b.valid_set.n &&
           j.b.ds.task[j.b.valid_set.programs[n_valid]] == j.b.ds.task[j.b.valid_set.programs[0]])
        n_valid++;
    j.adapt.train.n = n;
    j.adapt.valid.n = n_valid;
    ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
    ck_assert_uint_eq(s.verdict.concordance.tasks, 6);
    ck_assert(tk_adapt_few(&s) && tk_adapt_is_warm(&s) && s.activated);
    ck_assert_int_eq(s.attempts, 0);
    ck_assert_ptr_null(s.new_kb);
    tk_adapt_state_free(&s);
    job_free(&j);
}
END_TEST

START_TEST(bad_knowledge_is_kept_out_both_ways)
{
    struct job j;
    struct tk_adapt_state s = {0};
    struct tp_err e;
    job_init(&j, false);
    ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
    ck_assert_int_eq(s.verdict.gate, TK_GATE_SCRATCH);
    ck_assert(s.activated);
    ck_assert_ptr_null(s.new_kb);
    ck_assert_int_eq(s.attempts, 0);
    ck_assert_double_gt(toy_pairwise(s.ac, &j.b), 0.6);
    tk_adapt_state_free(&s);
    job_free(&j);
}
END_TEST

START_TEST(a_small_hold_out_does_not_bring_back_what_the_gate_refused)
{
    const struct tm_hyper h = toy_hyper();
    for (int small = 0; small < 2; small++) {
        struct job j;
        struct tk_adapt_state s = {.phase = TK_PHASE_JUDGE};
        struct tp_err e;
        job_init(&j, true);
        s.verdict = (struct tk_verdict){
            .gate = TK_GATE_SCRATCH,
            .concordance = {
                .mean = 0.5, .lower = 0.4, .tasks = small ? TK_PROBE_TASKS - 1 : TK_PROBE_TASKS, .programs = 400}};
        ck_assert_ptr_nonnull(s.ac = tm_model_new(TCLFEAT_TCLF_1, &h, 5)); /* much worse than the knowledge base */
        ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
        ck_assert_double_lt(s.ac_metrics.pairwise, s.kb_metrics.pairwise - 0.1);
        ck_assert(s.activated == !small);
        ck_assert((s.contest.tasks > 0) == (small != 0));
        ck_assert_double_lt(s.over_kb.gain, -0.1);
        ck_assert_ptr_null(s.new_kb);
        tk_adapt_state_free(&s);
        job_free(&j);
    }
}
END_TEST

START_TEST(nobody_is_judged_by_nothing)
{
    struct job j;
    struct tp_err e;
    job_init(&j, true);
    j.adapt.valid.n = 0;
    for (int champion = 0; champion < 2; champion++) {
        struct tk_adapt_state s = {.phase = TK_PHASE_JUDGE};
        s.verdict.gate = TK_GATE_SCRATCH; /* teaches nobody */
        j.adapt.champion = champion ? j.kb->model : NULL;
        ck_assert_ptr_nonnull(s.ac = tm_model_clone(j.kb->model));
        ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
        ck_assert(s.activated == !champion && isnan(s.over_champion.gain) && isnan(s.over_kb.gain));
        ck_assert_int_eq(s.over_champion.decision, champion ? TK_KEPT_CHAMPION : TK_ACTIVATED);
        ck_assert_str_eq(s.over_champion.reason, "Nothing was held out to judge by.");
        tk_adapt_state_free(&s);
    }
    job_free(&j);
}
END_TEST

START_TEST(the_first_hardware_founds_the_knowledge_base)
{
    struct job j;
    struct tk_adapt_state s = {0};
    struct tp_err e;
    const struct tm_hyper h = toy_hyper();
    job_init(&j, true);
    j.adapt.kb = NULL;
    j.adapt.n_older = 0;
    j.adapt.scratch.hyper = &h;
    ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
    ck_assert(s.activated && s.new_kb);
    ck_assert_mem_eq(s.new_kb->model->w, s.ac->w, s.ac->n * sizeof(float));
    ck_assert_uint_eq(s.new_kb->phases, 1);
    tk_adapt_state_free(&s);
    job_free(&j);
}
END_TEST

START_TEST(a_candidate_that_spoils_the_old_is_tried_again_and_then_dropped)
{
    struct job j;
    struct tk_adapt_state s = {0};
    struct tp_err e;
    job_init(&j, true);
    /* the second hardware's AC is right about the second; the probe of the older one is about the first */
    struct toy other;
    toy_init(&other, true, 2);
    struct tk_kb *teacher = toy_kb(&other, 30);
    j.adapt.train = other.train_set;
    j.adapt.valid = other.valid_set;
    j.adapt.kd = kd(1e-6);
    j.adapt.kd.train.epochs = 15;
    s.phase = TK_PHASE_TEACH;
    s.ac = teacher->model;
    teacher->model = tm_model_clone(s.ac);
    s.activated = true;
    ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
    ck_assert_int_eq(s.attempts, TK_ATTEMPTS);
    ck_assert_double_eq_tol(s.lambda, 3e-6, 1e-12);
    ck_assert(!s.acceptance.accepted);
    ck_assert_double_gt(s.acceptance.drop, TK_TOP1_DROP);
    ck_assert_ptr_null(s.new_kb);
    tk_kb_free(teacher);
    tk_adapt_state_free(&s);
    toy_free(&other);
    job_free(&j);
}
END_TEST

START_TEST(results_do_not_depend_on_the_number_of_threads)
{
    struct job j;
    struct tk_adapt_state s[2] = {{0}};
    struct tp_err e;
    job_init(&j, true);
    for (int i = 0; i < 2; i++) {
        j.adapt.run.threads = 1 + 2 * i;
        ck_assert_msg(tk_adapt(&j.adapt, &s[i], &e) == 0, "%s", e.detail);
    }
    const size_t bytes = s[0].ac->n * sizeof(float);
    ck_assert_mem_eq(s[0].ac->w, s[1].ac->w, bytes);
    ck_assert_mem_eq(s[0].new_kb->model->w, s[1].new_kb->model->w, bytes);
    ck_assert_mem_eq(s[0].new_kb->fisher, s[1].new_kb->fisher, bytes);
    for (int i = 0; i < 2; i++)
        tk_adapt_state_free(&s[i]);
    job_free(&j);
}
END_TEST

static int stop_after(void *arg, const struct tk_progress *p)
{
    int *left = arg;
    ck_assert(p->phase[0] && p->fraction >= 0 && p->fraction <= 1);
    return --*left < 0;
}

START_TEST(cancelling_leaves_the_state_of_the_last_phase)
{
    struct job j;
    struct tk_adapt_state s = {0};
    struct tp_err e;
    int left = 3;
    job_init(&j, true);
    j.adapt.run.progress = stop_after;
    j.adapt.run.arg = &left;
    ck_assert_int_eq(tk_adapt(&j.adapt, &s, &e), -TP_E_CANCELLED);
    ck_assert_int_eq(s.phase, TK_PHASE_LEARN);
    ck_assert_ptr_null(s.ac);
    tk_adapt_state_free(&s);
    job_free(&j);
}
END_TEST

START_TEST(older_hardware_may_lose_little_of_either_figure)
{
    struct toy t;
    const struct tk_run run = toy_run(1);
    const struct tk_set none = {0};
    struct tm_metrics was, is;
    struct tk_acceptance a;
    struct tp_err e;
    bool seen[2] = {false};
    toy_init(&t, false, 1);
    struct tk_kb *kb = toy_kb(&t, 12);
    struct tm_model *m = tm_model_clone(kb->model);
    for (int step = 0; step <= 20; step++) {
        for (size_t i = 0; i < m->n; i++) /* away from what was learned, weight by weight */
            m->w[i] = kb->model->w[i] * (i % 7 < 3 ? 1 - 0.05F * (float)step : 1);
        struct tk_older older = {.learned = t.train_set};
        ck_assert_int_eq(tk_accept(kb->model, m, &older, 1, &none, &run, &a, &e), 0);
        ck_assert_int_eq(tk_measure(kb->model, &t.train_set, &run, &was, &e), 0);
        ck_assert_int_eq(tk_measure(m, &t.train_set, &run, &is, &e), 0);
        ck_assert_double_eq_tol(a.drop, was.top1_mean - is.top1_mean, 1e-12);
        ck_assert_double_eq_tol(a.pairwise_drop, was.pairwise - is.pairwise, 1e-12);
        older.held_out = t.valid_set;
        const double learned[2] = {was.tasks * a.drop, a.pairwise_drop}, tasks = was.tasks;
        ck_assert_int_eq(tk_accept(kb->model, m, &older, 1, &none, &run, &a, &e), 0);
        ck_assert_int_eq(tk_measure(kb->model, &t.valid_set, &run, &was, &e), 0);
        ck_assert_int_eq(tk_measure(m, &t.valid_set, &run, &is, &e), 0);
        ck_assert_double_eq_tol(a.drop, (learned[0] + was.tasks * (was.top1_mean - is.top1_mean)) / (tasks + was.tasks),
                                1e-12);
        ck_assert_double_eq_tol(a.pairwise_drop, (learned[1] + was.pairwise - is.pairwise) / 2, 1e-12);
        ck_assert(a.accepted == (a.drop <= TK_TOP1_DROP && a.pairwise_drop <= TK_PAIRWISE_DROP));
        seen[a.accepted] = true;
    }
    ck_assert(seen[0] && seen[1]);
    ck_assert_ptr_nonnull(strstr(a.reason, "pairwise"));
    ck_assert_int_eq(tk_accept(kb->model, m, NULL, 0, &none, &run, &a, &e), 0);
    ck_assert(a.accepted && isnan(a.drop) && isnan(a.pairwise_drop));
    tm_model_free(m);
    tk_kb_free(kb);
    toy_free(&t);
}
END_TEST

START_TEST(a_job_that_was_killed_goes_on_and_ends_the_same)
{
    struct job j;
    struct tk_adapt_state whole = {0}, s = {0};
    struct tp_err e;
    char dir[] = "/tmp/adapt-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(dir));
    job_init_wide(&j);
    ck_assert_int_eq(tk_adapt_load(dir, &s, &e), 0);
    ck_assert_msg(tk_adapt(&j.adapt, &whole, &e) == 0, "%s", e.detail);
    for (int kills = 0;; kills++) {
        struct saver k = {dir, 1};
        const int loaded = tk_adapt_load(dir, &s, &e);
        ck_assert_msg(loaded >= 0, "%s", e.detail);
        ck_assert_int_eq(loaded, kills > 0);
        if (s.phase == TK_PHASE_DONE)
            break;
        ck_assert_int_eq((int)s.phase, kills); /* one phase at a time */
        j.adapt.checkpoint = save;
        j.adapt.checkpoint_arg = &k;
        ck_assert_int_eq(tk_adapt(&j.adapt, &s, &e), -TP_E_INTERRUPTED);
        tk_adapt_state_free(&s);
    }
    const size_t bytes = whole.ac->n * sizeof(float);
    ck_assert_mem_eq(s.ac->w, whole.ac->w, bytes);
    ck_assert_mem_eq(s.new_kb->model->w, whole.new_kb->model->w, bytes);
    ck_assert_mem_eq(s.new_kb->fisher, whole.new_kb->fisher, bytes);
    ck_assert_double_eq(s.acceptance.drop, whole.acceptance.drop);
    ck_assert_str_eq(s.verdict.reason, whole.verdict.reason);
    ck_assert(s.activated == whole.activated && s.cl.epochs == whole.cl.epochs);
    ck_assert(s.contest.winner == whole.contest.winner && s.contest.tasks == whole.contest.tasks);
    ck_assert_mem_eq(s.contest.quality, whole.contest.quality, sizeof s.contest.quality);
    ck_assert_double_eq(s.ac_metrics.pairwise, whole.ac_metrics.pairwise);
    ck_assert_int_eq(files_in(dir, true), 3); /* state.json, ac-N, kb-N: nothing is left of older states */
    rmdir(dir);
    tk_adapt_state_free(&s);
    tk_adapt_state_free(&whole);
    job_free(&j);
}
END_TEST

/* A new folder whose state.json is `text`. */
static void make_folder(char *dir, const char *text)
{
    char path[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/state.json", dir);
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

static int load_text(const char *text, struct tk_adapt_state *s, struct tp_err *e)
{
    char dir[] = "/tmp/adapt-XXXXXX";
    make_folder(dir, text);
    const int rc = tk_adapt_load(dir, s, e);
    files_in(dir, true);
    rmdir(dir);
    return rc;
}

#define STATE(gate, winner)                                                                                            \
    "{\"phase\": \"judge\", \"gate\": " gate ", \"kb_gate\": \"warm\", \"champion_decision\": \"activated\", "         \
    "\"kb_decision\": \"activated\", \"winner\": " winner

START_TEST(a_state_that_is_damaged_is_refused)
{
    static const char *const text[] = {"", "[]", STATE("\"warm\"", "\"blend\"") ", \"ac\": null}",
                                       STATE("\"warm\"", "\"blend\"") ", \"ac\": \"../../etc/passwd\"}",
                                       STATE("\"warm\"", "\"blend\"") ", \"ac\": \"ac-1.safetensors\"}"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        struct tk_adapt_state s = {0};
        struct tp_err e = {0};
        ck_assert_int_lt(load_text(text[i], &s, &e), 0);
        ck_assert(e.detail[0] && !s.ac && !s.new_kb);
    }
}
END_TEST

START_TEST(a_state_that_is_damaged_is_written_over)
{
    char dir[] = "/tmp/adapt-XXXXXX";
    struct tk_adapt_state s = {.phase = TK_PHASE_LEARN}, back = {0};
    make_folder(dir, "[1]");
    ck_assert_int_eq(tk_adapt_save(dir, &s, NULL), 0);
    ck_assert_int_eq(tk_adapt_load(dir, &back, NULL), 1);
    ck_assert(back.phase == TK_PHASE_LEARN);
    files_in(dir, true);
    rmdir(dir);
}
END_TEST

START_TEST(a_job_of_another_version_begins_again)
{
    static const char *const text[] = {"{\"phase\": \"no such\"}", STATE("7", "\"blend\"") "}",
                                       STATE("\"warm\"", "\"somebody\"") "}", STATE("\"sure\"", "\"blend\"") "}"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        struct tk_adapt_state s = {0};
        struct tp_err e = {0};
        ck_assert_int_eq(load_text(text[i], &s, &e), 0);
        ck_assert(s.phase == TK_PHASE_PROBE && !s.ac);
    }
}
END_TEST

/* After the verdict `distil` all rivals meet; whoever wins, threads and kills change nothing. */
START_TEST(a_contest_with_a_committee_ends_the_same_however_it_is_run)
{
    struct job j;
    struct tk_adapt_state first = {0};
    struct tp_err e;
    char dir[] = "/tmp/adapt-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(dir));
    job_init_wide(&j);
    for (int threads = 1; threads <= 2; threads++) {
        struct tk_adapt_state s = {.phase = TK_PHASE_LEARN,
                                   .verdict = {.gate = TK_GATE_UNSURE, .concordance.tasks = TK_PROBE_TASKS},
                                   .kb_verdict.gate = TK_GATE_UNSURE},
                              again = {0};
        struct saver k = {dir, 1};
        j.adapt.run.threads = threads;
        j.adapt.checkpoint = save;
        j.adapt.checkpoint_arg = &k;
        ck_assert_int_eq(tk_adapt(&j.adapt, &s, &e), -TP_E_INTERRUPTED);
        ck_assert_int_eq(tk_adapt_load(dir, &again, &e), 1);
        ck_assert(!isnan(again.contest.quality[TK_RIVAL_COMMITTEE]) && !isnan(again.contest.quality[TK_RIVAL_SCRATCH]));
        ck_assert_int_eq(again.contest.winner, TK_RIVAL_COMMITTEE);
        j.adapt.checkpoint = NULL;
        ck_assert_msg(tk_adapt(&j.adapt, &again, &e) == 0, "%s", e.detail);
        ck_assert(again.activated && again.new_kb);
        if (threads == 1)
            first = again;
        else
            ck_assert_mem_eq(again.ac->w, first.ac->w, first.ac->n * sizeof(float));
        if (threads > 1)
            tk_adapt_state_free(&again);
        tk_adapt_state_free(&s);
        files_in(dir, true);
    }
    rmdir(dir);
    tk_adapt_state_free(&first);
    job_free(&j);
}
END_TEST

START_TEST(inputs_that_do_not_belong_together_are_refused)
{
    struct job j;
    struct tk_adapt_state s = {0};
    struct tp_err e;
    job_init(&j, true);
    j.adapt.kind = TP_TARGET_CPU;
    ck_assert_int_eq(tk_adapt(&j.adapt, &s, &e), -TP_E_UNUSABLE);
    j.adapt.kind = TP_TARGET_GPU;
    j.adapt.valid = j.a.valid_set;
    ck_assert_int_eq(tk_adapt(&j.adapt, &s, &e), -TP_E_UNUSABLE);
    j.adapt.valid = j.b.valid_set;
    j.adapt.train.n = 0;
    ck_assert_int_eq(tk_adapt(&j.adapt, &s, &e), -TP_E_NOT_ENOUGH_DATA);
    ck_assert_ptr_null(s.ac);
    tk_adapt_state_free(&s);
    job_free(&j);
}
END_TEST

/* Each source tells how it was learned. */
static int count_sources(void *arg, const struct tk_kb *kb, const struct tk_adapt_state *s, uint32_t done)
{
    ck_assert_ptr_nonnull(kb);
    ck_assert_int_eq(s->verdict.gate == TK_GATE_SCRATCH,
                     done != 2); /* the first has nobody, the third resembles none */
    ck_assert_int_eq(s->cl.epochs > 0, done != 3);
    ck_assert_int_eq(s->kd.epochs > 0, done == 2);
    if (s->attempts > 0)
        ck_assert_ptr_nonnull(strstr(s->acceptance.reason, s->acceptance.accepted ? ": accepted." : ": refused."));
    *(uint32_t *)arg = done;
    return 0;
}

START_TEST(pretraining_learns_one_source_after_another_and_refuses_what_would_hurt)
{
    struct toy a, b, c;
    struct tk_pretrain p;
    struct tk_kb *kb = NULL;
    bool refused[3] = {true, true, true};
    uint32_t done = 0;
    struct tp_err e;
    const struct tm_hyper h = toy_hyper();
    toy_init(&a, false, 1);
    toy_init(&b, false, 2);
    toy_init(&c, true, 3);
    const struct tk_source s[3] = {
        {"a", a.train_set, a.valid_set}, {"b", b.train_set, b.valid_set}, {"c", c.train_set, c.valid_set}};
    tk_pretrain_defaults(&p);
    p.kind = TP_TARGET_CPU;
    p.sources = s;
    p.n = 3;
    p.scratch.hyper = &h;
    p.scratch.steps = p.cl.steps = 0;
    p.scratch.train.epochs = p.cl.train.epochs = 10;
    p.scratch.train.lr = 4e-3;
    p.checkpoint = count_sources;
    p.checkpoint_arg = &done;
    ck_assert_msg(tk_pretrain(&p, NULL, 0, refused, &kb, &e) == 0, "%s", e.detail);
    ck_assert_uint_eq(done, 3);
    ck_assert(!refused[0] && !refused[1] && refused[2]);
    ck_assert_uint_eq(kb->phases, 2);
    /* the same from the middle */
    struct tk_kb *first = NULL, *resumed = NULL;
    p.n = 1;
    ck_assert_int_eq(tk_pretrain(&p, NULL, 0, refused, &first, &e), 0);
    p.n = 3;
    ck_assert_int_eq(tk_pretrain(&p, first, 1, refused, &resumed, &e), 0);
    ck_assert_mem_eq(kb->model->w, resumed->model->w, kb->model->n * sizeof(float));
    ck_assert_ptr_null(kb->start);
    tk_kb_free(kb);
    tk_kb_free(resumed);
    toy_free(&a);
    toy_free(&b);
    toy_free(&c);
}
END_TEST

START_TEST(hardware_that_resembles_nobody_may_begin_with_the_start_weights)
{
    struct job j;
    struct tk_adapt_state s = {0};
    struct tk_pretrain p;
    struct tk_kb *kb = NULL;
    bool refused;
    struct tk_meta_opts meta;
    struct tp_err e;
    const struct tm_hyper h = toy_hyper();
    job_init(&j, false);
    const struct tk_source source = {"a", j.a.train_set, j.a.valid_set};
    tk_meta_defaults(&meta);
    meta.rounds = 200;
    meta.inner_lr = 3e-3;
    tk_pretrain_defaults(&p);
    p.kind = TP_TARGET_GPU;
    p.sources = &source;
    p.n = 1;
    p.meta = &meta;
    p.scratch.hyper = &h;
    p.scratch.steps = 0;
    p.scratch.train.epochs = 10;
    p.scratch.train.lr = 4e-3;
    ck_assert_msg(tk_pretrain(&p, NULL, 0, &refused, &kb, &e) == 0, "%s", e.detail);
    ck_assert_ptr_nonnull(kb->start);
    ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail); /* the job's own has none */
    ck_assert_int_eq(s.verdict.gate, TK_GATE_SCRATCH);
    ck_assert(!s.from_start);
    const double random = s.ac_metrics.pairwise + s.ac_metrics.top1_mean;
    tk_adapt_state_free(&s);
    j.adapt.kb = kb;
    ck_assert_msg(tk_adapt(&j.adapt, &s, &e) == 0, "%s", e.detail);
    ck_assert_int_eq(s.verdict.gate, TK_GATE_SCRATCH);
    const double best = s.ac_metrics.pairwise + s.ac_metrics.top1_mean;
    ck_assert_double_ge(best, random); /* whichever is better on the held-out programs */
    ck_assert(s.from_start == (best > random));
    tk_adapt_state_free(&s);
    tk_kb_free(kb);
    job_free(&j);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ckd/adapt");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 240);
    tcase_add_test(c, without_ewc_the_old_hardware_is_forgotten_and_with_it_it_is_not);
    tcase_add_test(c, a_phase_without_time_makes_one_epoch_and_says_so);
    tcase_add_test(c, related_hardware_starts_warm_and_teaches);
    tcase_add_test(c, hardware_that_was_measured_on_few_tasks_teaches_nobody);
    tcase_add_test(c, bad_knowledge_is_kept_out_both_ways);
    tcase_add_test(c, a_small_hold_out_does_not_bring_back_what_the_gate_refused);
    tcase_add_test(c, nobody_is_judged_by_nothing);
    tcase_add_test(c, the_first_hardware_founds_the_knowledge_base);
    tcase_add_test(c, a_candidate_that_spoils_the_old_is_tried_again_and_then_dropped);
    tcase_add_test(c, results_do_not_depend_on_the_number_of_threads);
    tcase_add_test(c, cancelling_leaves_the_state_of_the_last_phase);
    tcase_add_test(c, a_job_that_was_killed_goes_on_and_ends_the_same);
    tcase_add_test(c, a_state_that_is_damaged_is_refused);
    tcase_add_test(c, a_state_that_is_damaged_is_written_over);
    tcase_add_test(c, older_hardware_may_lose_little_of_either_figure);
    tcase_add_test(c, a_job_of_another_version_begins_again);
    tcase_add_test(c, a_contest_with_a_committee_ends_the_same_however_it_is_run);
    tcase_add_test(c, inputs_that_do_not_belong_together_are_refused);
    tcase_add_test(c, pretraining_learns_one_source_after_another_and_refuses_what_would_hurt);
    tcase_add_test(c, hardware_that_resembles_nobody_may_begin_with_the_start_weights);
    suite_add_tcase(suite, c);
    return toy_main(srunner_create(suite));
}
