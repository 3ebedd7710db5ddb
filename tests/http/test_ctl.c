/* tclctl as a program, against a real daemon: what a newcomer does, and what is said when it goes wrong. Logs are in
 * test_ctl_import.c, what needs no model in test_ctl_plain.c. */
#include "tests/http/ctl_run.h"

#include <stdio.h>
#include <stdlib.h>

/* Of a job off a terminal: no percentage below the one before, no two lines within a tenth of one phase. */
static void progress_is_a_line_a_step(const char *err)
{
    int before = -1, percent;
    char phase[32], last[32] = "";
    for (const char *p = err; (p = strstr(p, " % ")); p++) {
        const char *from = p;
        while (from > err && strchr("0123456789 ", from[-1]))
            from--;
        ck_assert_msg(sscanf(from, "%d %%  %31[a-z]", &percent, phase) == 2, "%.2000s", err);
        ck_assert_msg(percent >= before, "%d %% after %d %%: %.2000s", percent, before, err);
        ck_assert_msg(strcmp(phase, last) || percent / 10 > before / 10, "%s twice: %.2000s", phase, err);
        before = percent;
        strcpy(last, phase);
    }
    ck_assert_int_ge(before, 0);
}

/* ---- from nothing to a rollback ---- */

/* To the newest knowledge base, back, and forth. */
static void the_family_switches_too(const char *family)
{
    const json_t *models = bb_get("/v1/families/%s/models", family)->json;
    long long newest = tc_int(models, "/items/0/id", 0);
    if (json_array_size(tc_at(models, "/items")) < 2)
        return; /* it was not taught */
    long long first = tc_int(models, "/items/1/id", 0);
    ck_run(ctl("activate --family %s %lld", family, newest), 0);
    struct run r = ctl("rollback --family %s", family);
    ck_run(r, 0);
    ck_assert_str_eq(r.out, bb_printf("model %lld is the knowledge base of %s\n", first, family).p);
    ck_run(ctl("rollback --family %s", family), REFUSED);
    ck_run(ctl("activate %s %lld --family", family, newest), 0);
}

static void the_knowledge_base_answers_and_the_model_again(const char *hw, const char *log)
{
    int64_t own = tc_int(bb_get("/v1/hardware/%s", hw)->json, "/active_model", 0);
    long status = bb_json("POST", "{\"model\": \"kb\"}", "/v1/hardware/%s/activate", hw)->status;
    if (status != 200)
        return; /* this tcld has no such route yet */
    struct run r = ctl("activate %s kb", hw);
    ck_run(r, 0);
    ck_has(r.out, "the knowledge base answers for ");
    r = ctl("predict %s %s --json", hw, log);
    ck_run(r, 0);
    ck_assert_str_eq(tc_str(r.json, "/model/role"), "kb");
    ck_run(ctl("rollback %s", hw), 0); /* to the one that answered last */
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/%s", hw)->json, "/active_model", 0), own);
}

START_TEST(a_newcomer_adapts_what_tcld_knows_watches_and_rolls_back)
{
    struct tc_daemon *d = bb_start(bb_path("knowing"), (const char *const[]){"--starter-knowledge", "config/kb", NULL});
    const char *log = "tests/data/demo/matmul_128x128x128.json";
    ck_run(ctl("hardware add mine --target llvm"), 0);
    struct run r = ctl("predict mine %s --json", log);
    ck_run(r, 0);
    ck_assert_str_eq(tc_str(r.json, "/model/role"), "kb");
    ck_run(ctl("import mine tests/data/demo"), 0);
    ck_assert_int_eq(ctl_measured("mine"), 2288);

    /* better than what tcld knew with each of five seeds, and with the same decision on every kernel set */
    r = ctl("adapt mine --per-task 100 --epochs 5 --seed 3 --json");
    ck_run(r, 0);
    long long job = tc_int(r.json, "/id", 0);
    r = ctl("watch %lld", job);
    ck_run(r, 0);
    ck_has(r.out, "activated (model ");
    ck_has(r.out, " answering for mine\n");
    ck_has(r.out, ", the knowledge base 0.");
    ck_has(r.out, " goes first\n");
    ck_has(r.out, "the knowledge base "); /* and what became of it */
    const json_t *done = bb_get("/v1/jobs/%lld", job)->json;
    ck_assert_str_eq(tc_str(done, "/params/mode"), "adapt");
    ck_assert_str_eq(tc_str(done, "/result/start"), "warm");
    ck_assert_str_eq(tc_str(done, "/result/against_kb/decision"), "activated");
    long long one = tc_int(done, "/result/model", 0);
    r = ctl("predict mine %s --json", log);
    ck_run(r, 0);
    ck_assert_int_eq(tc_int(r.json, "/model/id", 0), one);

    r = ctl("adapt mine --per-task 48 --epochs 1 --seed 5 --activate never --wait");
    ck_run(r, 0);
    ck_has(r.out, "it leaves what answered for mine before");
    ck_has(r.out, "the knowledge base stays as it was. ");
    progress_is_a_line_a_step(r.err);
    long long two = tc_int(bb_get("/v1/hardware/mine/models")->json, "/items/0/id", 0);
    ck_assert_int_gt(two, one);
    ck_run(ctl("activate mine %lld", two), 0);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/mine")->json, "/active_model", 0), two);
    r = ctl("rollback mine");
    ck_run(r, 0);
    ck_has(r.out, bb_printf("model %lld answers", one).p);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/mine")->json, "/active_model", 0), one);
    the_family_switches_too("cpu");
    the_knowledge_base_answers_and_the_model_again("mine", log);
    bb_stop(d);
}
END_TEST

START_TEST(where_nothing_is_known_measurements_alone_lead_to_a_rollback)
{
    struct run r;
    ck_run(ctl("hardware add first --target llvm --family first --set num_cores=4 --set clock_ghz=2.5"), 0);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/first")->json, "/descriptor/num_cores", 0), 4);
    ck_run(ctl("import first tests/data/demo"), 0);
    ck_assert_int_eq(ctl_measured("first"), 2288);

    r = ctl("retrain first --mode finetune --max-seconds 3 --seed 1 --wait");
    ck_run(r, 0);
    ck_has(r.out, "succeeded after");
    ck_has(r.out, "activated (model ");
    long long one = tc_int(bb_get("/v1/hardware/first")->json, "/active_model", 0);

    r = ctl("retrain first --mode finetune --epochs 2 --seed 2 --activate never --json");
    ck_run(r, 0);
    long long job = tc_int(r.json, "/id", 0);
    ck_assert_int_gt(job, 0);
    r = ctl("watch %lld", job);
    ck_run(r, 0);
    ck_has(r.out, "candidate (model ");
    ck_run(ctl("watch first"), 0); /* the newest job of the hardware */
    long long waits[2];
    for (int i = 0; i < 2; i++) {
        r = ctl("retrain first --mode finetune --epochs 1 --seed %d --activate never --json", 8 + i);
        waits[i] = tc_int(r.json, "/id", 0);
    }
    r = ctl("watch first"); /* all that run or wait, in their order */
    ck_run(r, 0);
    ck_has(r.out, bb_printf("job %lld (", waits[0]).p);
    ck_has(strstr(r.out, bb_printf("job %lld (", waits[0]).p), bb_printf("job %lld (", waits[1]).p);
    long long two = tc_int(bb_get("/v1/jobs/%lld", job)->json, "/result/model", 0);

    ck_run(ctl("activate first %lld", two), 0);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/first")->json, "/active_model", 0), two);
    r = ctl("rollback first");
    ck_run(r, 0);
    ck_has(r.out, bb_printf("model %lld answers", one).p);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/first")->json, "/active_model", 0), one);
    ck_run(ctl("rollback first"), REFUSED);

    r = ctl("models first");
    ck_run(r, 0);
    ck_has(r.out, "published");
    r = ctl("evaluate first --wait");
    ck_run(r, 0);
    ck_has(r.out, "pairs in order");
    ck_run(ctl("evaluate first --model ac"), 0);
    r = ctl("evaluate first --model kb");
    ck_run(r, REFUSED);
    ck_has(r.err, "first has no knowledge base");
    r = ctl("status");
    ck_run(r, 0);
    ck_has(r.out, "first");
    ck_has(r.out, "ready");
}
END_TEST

START_TEST(predict_prints_what_http_says)
{
    const char *log = "tests/data/demo/matmul_128x128x128.json";
    struct bb_text lines = bb_file(log);
    struct bb_reply *http = bb_lines(lines.p, lines.n, "/v1/hardware/first/predict?uncertainty=true");
    struct run r = ctl("predict first %s --uncertainty --json", log);
    bb_status(http, 200);
    ck_run(r, 0);
    const char *const key[] = {"/scores", "/latency_seconds", "/latency_std_log"};
    for (int k = 0; k < 3; k++) {
        const json_t *want = tc_at(http->json, key[k]), *got = tc_at(r.json, key[k]);
        ck_assert_uint_eq(json_array_size(got), 96);
        for (size_t i = 0; i < 96; i++)
            ck_assert_double_eq_tol(json_number_value(json_array_get(got, i)),
                                    json_number_value(json_array_get(want, i)), 1e-10);
    }
    ck_assert(json_equal(tc_at(r.json, "/model"), tc_at(http->json, "/model")));

    r = ctl("predict first %s --top 3 --json", log);
    ck_run(r, 0);
    ck_assert_uint_eq(json_array_size(tc_at(r.json, "/scores")), 3);
    double best = 0;
    for (size_t i = 0; i < 96; i++)
        best = json_number_value(json_array_get(tc_at(http->json, "/scores"), i)) > best
                   ? json_number_value(json_array_get(tc_at(http->json, "/scores"), i))
                   : best;
    ck_assert_double_eq_tol(tc_num(r.json, "/scores/0"), best, 1e-10);
}
END_TEST

START_TEST(equal_errors_are_one_line_and_what_has_no_score_is_no_best)
{
    const char *log = "tests/data/demo/matmul_128x128x128.json";
    ck_run(ctl("hardware add graphics --target cuda --family graphics"), 0);
    ck_run(ctl("models import graphics config/kb/gpu.safetensors --activate"), 0);
    struct run r = ctl("predict graphics %s --top 3", log);
    ck_run(r, PARTLY);
    ck_assert_int_eq(ctl_count(r.err, "\n"), 1);
    ck_has(r.err, "96 records: wrong-target: ");
    ck_has(r.err, bb_printf("(%s:1, 2, 3, ...)", log).p);
    ck_assert_str_eq(r.out, "");

    struct bb_text text = bb_printf("{\"i\": 1}\n%s\n{\"i\": 2}\n", bb_unmeasured(1).p);
    r = ctl("predict first %s --top 3 --json", ctl_file("mixed.json", text.p, text.n));
    ck_run(r, PARTLY);
    ck_assert_uint_eq(json_array_size(tc_at(r.json, "/scores")), 1);
    ck_assert_int_eq(tc_int(r.json, "/lines/0", 0), 2);
    ck_assert_uint_eq(json_array_size(tc_at(r.json, "/errors")), 2);
}
END_TEST

START_TEST(a_cancelled_job_is_a_sentence)
{
    struct run r = ctl("retrain first --mode finetune --epochs 1000 --seed 9 --json");
    ck_run(r, 0);
    long long id = tc_int(r.json, "/id", 0);
    r = ctl("jobs cancel %lld", id);
    ck_run(r, 0);
    ck_has(r.out, bb_printf("job %lld ", id).p);
    ck_assert_int_eq(ctl_count(r.out, "\n"), 1);
    ck_assert_msg(strstr(r.out, "will stop at its next step") || strstr(r.out, "is cancelled"), "%s", r.out);
    bb_wait(id);
}
END_TEST

START_TEST(predict_numbers_lines_and_reads_packed_standard_input)
{
    struct bb_text text = bb_printf("# comment\n\n%s\n{\"i\": 1}\n%s\n", bb_unmeasured(1).p, bb_unmeasured(2).p);
    const char *log = ctl_file("some.json", text.p, text.n);
    struct run r = ctl("predict first %s", log);
    ck_run(r, PARTLY);
    ck_has(r.err, bb_printf("%s:4: ", log).p);
    ck_has(r.out, bb_printf("%s:3 ", log).p);
    ck_has(r.out, bb_printf("%s:5 ", log).p);

    const char *sh[] = {"sh", "-c", bb_printf("gzip -c %s | %s predict first - --json", log, ctl_binary()).p, NULL};
    const char *env[] = {bb_printf("TCLD_URL=%s", bb_base()).p, bb_printf("HOME=%s", ctl_home()).p, NULL};
    r = ctl_run_env(env, sh);
    ck_run(r, PARTLY);
    ck_assert_uint_eq(json_array_size(tc_at(r.json, "/scores")), 3);
    ck_assert(json_is_null(tc_at(r.json, "/scores/1")));
    ck_assert_int_eq(tc_int(r.json, "/errors/0/line", 0), 4);
    ck_assert_int_eq(tc_int(r.json, "/errors/0/index", 0), 1);
}
END_TEST

START_TEST(weights_go_out_and_in)
{
    char *path = bb_path("weights");
    long long id = tc_int(bb_get("/v1/hardware/first")->json, "/active_model", 0);
    ck_run(ctl("models weights %lld -o %s", id, path), 0);
    ck_run(ctl("hardware add copy --target llvm --family copy"), 0);
    struct run r = ctl("models import copy %s --activate --json", path);
    ck_run(r, 0);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/copy")->json, "/active_model", 0), tc_int(r.json, "/id", -1));
    ck_run(ctl("models import copy tests/data/README.md"), REFUSED);
    r = ctl("models show %lld --json", id);
    ck_run(r, 0);
    ck_assert_int_eq(tc_int(r.json, "/id", 0), id);
}
END_TEST

START_TEST(every_command_speaks_json)
{
    static const char *const command[] = {
        "status",        "hardware list",         "hardware show first", "jobs",       "jobs show 1", "models first",
        "models show 1", "candidates list first", "watch 1 --quiet",     "completion", NULL};
    for (int i = 0; command[i] && strcmp(command[i], "completion"); i++) {
        struct run r = ctl("%s --json", command[i]);
        ck_run(r, 0);
        ck_assert_msg(r.json != NULL, "%s: %s", command[i], r.out);
    }
}
END_TEST

/* A log of n candidates that nobody has measured. */
static const char *unmeasured(const char *name, int from, int n)
{
    struct tp_buf b = {0};
    for (int i = 0; i < n; i++) {
        struct bb_text t = bb_unmeasured(from + i);
        tp_buf_put(&b, t.p, t.n);
        tp_buf_putc(&b, '\n');
    }
    const char *path = ctl_file(name, b.p, b.n);
    tp_buf_free(&b);
    return path;
}

START_TEST(candidates_are_selected_leased_and_given_back)
{
    const char *log = unmeasured("cand.json", 5000, 20);
    ck_run(ctl("candidates add first %s", log), 0);
    struct run r = ctl("select first --budget 6 --method random --seed 3 --wait");
    ck_run(r, 0);
    ck_has(r.out, "6 of 20 candidates selected by random");
    r = ctl("lease first --agent hand --max 4 --ttl 60 --json");
    ck_run(r, 0);
    ck_assert_uint_eq(json_array_size(tc_at(r.json, "/candidates")), 4);
    const char *lease = tc_str(r.json, "/lease");
    ck_run(ctl("lease renew %s --ttl 90", lease), 0);
    struct run back = ctl("lease return %s --json", lease);
    ck_run(back, 0);
    ck_assert_int_eq(tc_int(back.json, "/returned", 0), 4);
    r = ctl("lease first --agent hand --max 2"); /* records as log lines */
    ck_run(r, 0);
    ck_assert_int_eq(ctl_count(r.out, "\n"), 2);
    ck_has(r.out, "bb_matmul");
    r = ctl("candidates list first --state leased");
    ck_assert_int_eq(ctl_count(r.out, "leased"), 2);
    ck_run(ctl("lease return nonsense"), REFUSED);
    ck_run(ctl("select first --weights 1,2"), USAGE);
    ck_run(ctl("select first"), REFUSED); /* tcld says what is missing */
}
END_TEST

START_TEST(an_operator_takes_back_leases_selections_and_candidates)
{
    const char *log = unmeasured("back.json", 6000, 10);
    ck_run(ctl("hardware add back --target llvm --family back"), 0);
    ck_run(ctl("candidates add back %s", log), 0);
    ck_run(ctl("select back --fraction 1 --method random --wait"), 0);
    ck_run(ctl("lease back --agent gone --max 3 --ttl 86400"), 0);
    ck_run(ctl("lease back --agent lives --max 2"), 0);
    struct run r = ctl("lease end back --agent gone");
    ck_run(r, 0);
    ck_has(r.out, "leases");
    r = ctl("lease end back --json");
    ck_run(r, 0);
    ck_assert_int_eq(tc_int(r.json, "/leases", -1), 1);
    ck_assert_int_eq(tc_int(r.json, "/returned", -1), 2);
    ck_run(ctl("lease end back --agent NOBODY"), REFUSED);
    r = ctl("candidates unselect back --json");
    ck_run(r, 0);
    ck_assert_int_eq(tc_int(r.json, "/unselected", -1), 10);
    r = ctl("candidates remove back");
    ck_run(r, 0);
    ck_has(r.out, "removed");
    ck_has(r.err, "--again");
    ck_run(ctl("candidates remove none-such"), REFUSED);
    ck_run(ctl("candidates add back %s --again", log), 0);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/back")->json, "/counts/candidates/pooled", -1), 10);
}
END_TEST

START_TEST(a_rejected_model_answers_only_by_force)
{
    long long good = tc_int(bb_get("/v1/hardware/first")->json, "/active_model", 0);
    struct run r = ctl("adapt first --per-task 3 --epochs 1 --seed 4 --wait"); /* from scratch, by next to nothing */
    ck_run(r, 0);
    const json_t *models = bb_get("/v1/hardware/first/models")->json;
    long long bad = tc_int(models, "/items/0/id", 0);
    ck_assert_str_eq(tc_str(models, "/items/0/state"), "rejected");
    ck_has(r.out, bb_printf("it leaves model %lld answering for first, not model %lld\n", good, bad).p);
    ck_has(r.out, "the knowledge base stays as it was. The model does not answer");
    r = ctl("activate first %lld", bad);
    ck_run(r, USAGE);
    ck_has(r.err, "--force");
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/first")->json, "/active_model", 0), good);
    ck_run(ctl("activate first %lld --force", bad), 0);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/first")->json, "/active_model", 0), bad);
    ck_run(ctl("activate first %lld", good), 0);
}
END_TEST

START_TEST(what_tcld_cannot_do_is_told_in_its_words)
{
    struct run r = ctl("jobs cancel 1");
    ck_run(r, REFUSED);
    ck_has(r.err, "409");
    r = ctl("hardware show none-such");
    ck_run(r, REFUSED);
    ck_has(r.err, "tclctl hardware add none-such --target TARGET");
    ck_has_not(r.err, "/v1");
    ck_run(ctl("hardware add fresh --target llvm --family fresh"), 0);
    r = ctl("predict fresh tests/data/demo/matmul_128x128x128.json");
    ck_run(r, REFUSED);
    ck_has(r.err, "import at least 32 measurements (tclctl import fresh FILE), then tclctl adapt fresh");
    r = ctl("select fresh --budget 2");
    ck_run(r, REFUSED);
    ck_has(r.err, "tclctl candidates add fresh FILE");
    r = ctl("hardware remove first");
    ck_run(r, REFUSED);
    ck_has(r.err, "--purge");
    ck_run(ctl("hardware remove copy --purge"), 0);
    r = ctl("export first --task 0123456789abcdef");
    ck_run(r, REFUSED);
    ck_has(r.err, "404");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/ctl");
    TCase *tc = bb_case(s, "life", 120);
    tcase_add_test(tc, where_nothing_is_known_measurements_alone_lead_to_a_rollback); /* the others use what it made */
    tcase_add_test(tc, predict_prints_what_http_says);
    tcase_add_test(tc, equal_errors_are_one_line_and_what_has_no_score_is_no_best);
    tcase_add_test(tc, a_cancelled_job_is_a_sentence);
    tcase_add_test(tc, predict_numbers_lines_and_reads_packed_standard_input);
    tcase_add_test(tc, weights_go_out_and_in);
    tcase_add_test(tc, every_command_speaks_json);
    tcase_add_test(tc, candidates_are_selected_leased_and_given_back);
    tcase_add_test(tc, an_operator_takes_back_leases_selections_and_candidates);
    tcase_add_test(tc, a_rejected_model_answers_only_by_force);
    tcase_add_test(tc, what_tcld_cannot_do_is_told_in_its_words);
    tc = bb_case_own(s, "knowing", 480);
    tcase_add_test(tc, a_newcomer_adapts_what_tcld_knows_watches_and_rolls_back);
    return bb_main(s);
}
