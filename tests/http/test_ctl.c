/* tclctl as a program, against a real daemon: what a newcomer does, and what is said when it goes wrong. Logs are in
 * test_ctl_import.c. */
#include "tests/http/ctl_run.h"

#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- from nothing to a rollback ---- */

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
    const json_t *done = bb_get("/v1/jobs/%lld", job)->json;
    ck_assert_str_eq(tc_str(done, "/params/mode"), "adapt");
    ck_assert_str_eq(tc_str(done, "/result/start"), "warm");
    ck_assert_str_eq(tc_str(done, "/result/against_kb/decision"), "activated");
    long long one = tc_int(done, "/result/model", 0);
    r = ctl("predict mine %s --json", log);
    ck_run(r, 0);
    ck_assert_int_eq(tc_int(r.json, "/model/id", 0), one);

    ck_run(ctl("adapt mine --per-task 48 --epochs 1 --seed 5 --activate never --wait"), 0);
    long long two = tc_int(bb_get("/v1/hardware/mine/models")->json, "/items/0/id", 0);
    ck_assert_int_gt(two, one);
    ck_run(ctl("activate mine %lld", two), 0);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/mine")->json, "/active_model", 0), two);
    r = ctl("rollback mine");
    ck_run(r, 0);
    ck_has(r.out, bb_printf("model %lld answers", one).p);
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/mine")->json, "/active_model", 0), one);
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

START_TEST(candidates_are_selected_leased_and_given_back)
{
    struct tp_buf b = {0};
    for (int i = 0; i < 20; i++) {
        struct bb_text t = bb_unmeasured(5000 + i);
        tp_buf_put(&b, t.p, t.n);
        tp_buf_putc(&b, '\n');
    }
    const char *log = ctl_file("cand.json", b.p, b.n);
    tp_buf_free(&b);
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

START_TEST(what_tcld_cannot_do_is_told_in_its_words)
{
    struct run r = ctl("jobs cancel 1");
    ck_run(r, REFUSED);
    ck_has(r.err, "409");
    r = ctl("hardware show none-such");
    ck_run(r, REFUSED);
    ck_has(r.err, "none-such");
    r = ctl("hardware remove first");
    ck_run(r, REFUSED);
    ck_has(r.err, "purge");
    ck_run(ctl("hardware remove copy --purge"), 0);
    r = ctl("export first --task 0123456789abcdef");
    ck_run(r, REFUSED);
    ck_has(r.err, "404");
}
END_TEST

START_TEST(no_daemon_is_told_with_its_own_status)
{
    struct run r = ctl("status --url http://127.0.0.1:1");
    ck_run(r, NO_ANSWER);
    ck_has(r.err, "127.0.0.1:1");
    struct bb_text t = bb_records(0, 1);
    r = ctl("import x %s --patience 0.2 --url http://127.0.0.1:1", ctl_file("one.json", t.p, t.n));
    ck_run(r, NO_ANSWER);
}
END_TEST

START_TEST(a_wrong_command_line_is_told_with_its_own_status)
{
    static const char *const wrong[] = {"nonsense",
                                        "hardware add",
                                        "hardware paint x",
                                        "import",
                                        "jobs show",
                                        "jobs show x",
                                        "retrain x --epochs many",
                                        "retrain x --nonsense",
                                        "status --url",
                                        "status --json=1",
                                        "status extra",
                                        "status --url tcld:1",
                                        "--epochs 3 retrain x",
                                        "adapt x --mode finetune",
                                        "token king",
                                        "token measure --name A",
                                        "backup",
                                        "hardware add x --set y",
                                        "status --timeout 0",
                                        NULL};
    for (int i = 0; wrong[i]; i++) {
        struct run r = ctl("%s", wrong[i]);
        ck_assert_msg(r.status == USAGE, "%s: status %d: %s", wrong[i], r.status, r.err);
        ck_assert_msg(!strncmp(r.err, "tclctl: ", 8), "%s: %s", wrong[i], r.err);
        ck_assert_int_eq(ctl_count(r.err, "\n"), 1);
    }
    ck_run(ctl("--help"), 0);
    ck_run(ctl("import --help"), 0);
    ck_run(ctl("--version"), 0);
}
END_TEST

START_TEST(settings_come_from_flags_then_environment_then_file)
{
    const char *conf = bb_printf("%s/.config", ctl_home()).p;
    mkdir(conf, 0700);
    struct bb_text good = bb_printf("# tcld\nurl = %s\ntimeout = 30\n", bb_base());
    conf = bb_printf("%s/tclctl.conf", conf).p;
    ck_assert_int_eq(tc_write_file(conf, good.p, good.n, NULL), 0);
    const char *argv[] = {ctl_binary(), "status", NULL, NULL, NULL},
               *env[] = {bb_printf("HOME=%s", ctl_home()).p, "TCLD_URL=", "XDG_CONFIG_HOME=", NULL};
    ck_run(ctl_run_env(env, argv), 0);
    env[1] = "TCLD_URL=http://127.0.0.1:1";
    ck_run(ctl_run_env(env, argv), NO_ANSWER);
    argv[2] = "--url";
    argv[3] = bb_base();
    ck_run(ctl_run_env(env, argv), 0);
    ck_assert_int_eq(tc_write_file(conf, "url = x\ncolour = red\n", 21, NULL), 0);
    struct run r = ctl_run_env(env, argv);
    ck_run(r, USAGE);
    ck_has(r.err, "tclctl.conf:2: key \"colour\"");
    ck_run(ctl("status --config /no/such/file"), USAGE);
    ck_run(ctl("status --token-file /no/such/file"), USAGE);
    unlink(conf);
}
END_TEST

START_TEST(a_token_is_new_and_its_line_holds_its_hash)
{
    char *path = bb_path("tokens");
    struct run r = ctl("token measure --name rack-7 -o %s --json", path);
    ck_run(r, 0);
    const char *token = tc_str(r.json, "/token");
    ck_assert(token && strlen(token) == 48 && !strncmp(token, "tcld_", 5));
    const char *sum[] = {"sh", "-c", bb_printf("printf %%s %s | sha256sum | cut -c1-64", token).p, NULL};
    struct run hash = ctl_run_env(NULL, sum);
    struct bb_text line = bb_file(path);
    ck_assert_str_eq(line.p, bb_printf("%.64s measure rack-7\n", hash.out).p);
    ck_has_not(line.p, token);
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    ck_assert_str_ne(ctl("token predict --quiet").out, ctl("token predict --quiet").out);
}
END_TEST

START_TEST(a_token_that_was_made_here_opens_a_daemon_that_wants_one)
{
    char *path = bb_path("tokens"), *secret = bb_path("secret");
    struct run r = ctl("token operate --name ops -o %s --json", path);
    struct bb_text token = bb_printf("%s\n", tc_str(r.json, "/token"));
    const char *args[] = {bb_printf("--tokens-file=%s", path).p, NULL};
    ck_assert_int_eq(tc_write_file(secret, token.p, token.n, NULL), 0);
    struct tc_daemon *d = bb_start(bb_path("guarded"), args);
    r = ctl("status");
    ck_run(r, REFUSED);
    ck_has(r.err, "401");
    ck_run(ctl("status --token-file %s", secret), 0);
    ck_run(ctl("hardware add x --target llvm --token-file %s", secret), 0);
    bb_stop(d);
}
END_TEST

START_TEST(a_backup_is_a_database)
{
    char *path = bb_path("copy.db");
    ck_run(ctl("backup -o %s", path), 0);
    struct bb_text t = bb_file(path);
    ck_assert_uint_gt(t.n, 4096);
    ck_assert_mem_eq(t.p, "SQLite format 3", 16);
}
END_TEST

START_TEST(completion_is_bash_and_knows_the_commands)
{
    struct run r = ctl("completion");
    ck_run(r, 0);
    const char *path = ctl_file("completion", r.out, strlen(r.out));
    const char *sh[] = {"bash", "-c",
                        bb_printf("source %s; COMP_WORDS=(tclctl retr); COMP_CWORD=1; _tclctl; echo ${COMPREPLY[*]}; "
                                  "COMP_WORDS=(tclctl hardware ad); COMP_CWORD=2; _tclctl; echo ${COMPREPLY[*]}; "
                                  "COMP_WORDS=(tclctl select x --bud); COMP_CWORD=3; _tclctl; echo ${COMPREPLY[*]}",
                                  path)
                            .p,
                        NULL};
    r = ctl_run_env(NULL, sh);
    if (r.status == 127)
        return; /* no bash here */
    ck_run(r, 0);
    ck_assert_str_eq(r.out, "retrain\nadd\n--budget\n");
}
END_TEST

/* mdoc writes a dash as "Fl", so "--wait" stands there as "Fl -wait". */
START_TEST(the_manual_names_every_command_and_option)
{
    const char *manual = bb_file("docs/tclctl.1").p;
    char *help = ctl("--help").out, *save = NULL, *inner = NULL;
    for (char *l = strtok_r(help, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
        char name[40], option[40];
        if (strncmp(l, "  ", 2) || sscanf(l, " %39[a-z]", name) != 1)
            continue;
        ck_has(manual, bb_printf("Cm %s", name).p);
        char *of = ctl("%s --help", name).out;
        for (char *o = strtok_r(of, "\n", &inner); o; o = strtok_r(NULL, "\n", &inner))
            if (sscanf(o, "  --%39[a-z-]", option) == 1 && strcmp(option, "output"))
                ck_has(manual, bb_printf("Fl -%s", option).p);
    }
}
END_TEST

START_TEST(a_bar_is_drawn_on_a_terminal_only)
{
    struct bb_text t = bb_records(0, 3000);
    const char *log = ctl_file("bar.json", t.p, t.n);
    struct tp_buf seen = {0};
    int fd;
    const char *own = ctl_home();
    ck_run(ctl("hardware add bar --target llvm"), 0);
    pid_t pid = forkpty(&fd, NULL, NULL, NULL);
    if (pid == 0) {
        setenv("HOME", own, 1);
        setenv("TERM", "xterm", 1);
        execl(ctl_binary(), ctl_binary(), "--url", bb_base(), "import", "bar", log, (char *)NULL);
        _exit(126);
    }
    char chunk[4096];
    for (ssize_t n; (n = read(fd, chunk, sizeof chunk)) > 0;)
        tp_buf_put(&seen, chunk, (size_t)n);
    waitpid(pid, NULL, 0);
    close(fd);
    char *text = ctl_text(&seen);
    ck_has(text, "\rimport [");
    ck_has(text, "100 %");
    ck_has(text, "3000 accepted");
    struct run r = ctl("import bar %s --again", log);
    ck_has_not(r.err, "\r");
    ck_has_not(r.err, "\033");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/ctl");
    TCase *tc = bb_case(s, "life", 120);
    tcase_add_test(tc, where_nothing_is_known_measurements_alone_lead_to_a_rollback); /* the others use what it made */
    tcase_add_test(tc, predict_prints_what_http_says);
    tcase_add_test(tc, predict_numbers_lines_and_reads_packed_standard_input);
    tcase_add_test(tc, weights_go_out_and_in);
    tcase_add_test(tc, every_command_speaks_json);
    tcase_add_test(tc, candidates_are_selected_leased_and_given_back);
    tcase_add_test(tc, what_tcld_cannot_do_is_told_in_its_words);
    tc = bb_case_own(s, "knowing", 240);
    tcase_add_test(tc, a_newcomer_adapts_what_tcld_knows_watches_and_rolls_back);
    tc = bb_case(s, "trouble", 60);
    tcase_add_test(tc, no_daemon_is_told_with_its_own_status);
    tcase_add_test(tc, a_wrong_command_line_is_told_with_its_own_status);
    tcase_add_test(tc, settings_come_from_flags_then_environment_then_file);
    tcase_add_test(tc, a_token_is_new_and_its_line_holds_its_hash);
    tcase_add_test(tc, a_backup_is_a_database);
    tcase_add_test(tc, a_token_that_was_made_here_opens_a_daemon_that_wants_one);
    tcase_add_test(tc, completion_is_bash_and_knows_the_commands);
    tcase_add_test(tc, the_manual_names_every_command_and_option);
    tcase_add_test(tc, a_bar_is_drawn_on_a_terminal_only);
    return bb_main(s);
}
