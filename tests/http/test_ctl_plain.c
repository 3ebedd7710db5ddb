/* tclctl where no model is needed: the command line, settings, tokens, policies, completion, the manual, the terminal.
 */
#include "tests/http/ctl_run.h"

#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(similar_says_what_is_known_and_why_nothing_is)
{
    struct tc_daemon *d = bb_start(bb_path("alone"), NULL);
    ck_run(ctl("hardware add one --target llvm"), 0);
    struct run r = ctl("similar one");
    ck_run(r, 0);
    ck_has(r.out, "there is no hardware but one");
    ck_run(ctl("hardware add two --target llvm"), 0);
    r = ctl("similar one");
    ck_run(r, 0);
    ck_has(r.out, "CONCORDANCE");
    ck_has_not(r.out, "0.000");
    ck_run(ctl("hardware add one --target llvm --set num_cores=4"), 0);
    ck_run(ctl("hardware add two --target llvm --set num_cores=8"), 0);
    r = ctl("similar one");
    ck_run(r, 0);
    ck_has(r.out, "0.500");
    bb_stop(d);
}
END_TEST

START_TEST(a_policy_is_set_shown_and_taken_back)
{
    ck_run(ctl("hardware add auto --target llvm --family auto"), 0);
    struct run r = ctl("policy auto");
    ck_run(r, 0);
    ck_assert_str_eq(r.out, "auto never retrains by itself\n");
    r = ctl("policy auto --measurements 500 --drift 1.5 --cooldown 60");
    ck_run(r, 0);
    ck_has(r.out, "after 500 new measurements, or when");
    const json_t *h = bb_get("/v1/hardware/auto")->json;
    ck_assert_int_eq(tc_int(h, "/policy/measurements", 0), 500);
    ck_assert_double_eq_tol(tc_num(h, "/policy/drift"), 1.5, 1e-9);
    ck_assert_int_eq(tc_int(h, "/policy/cooldown_seconds", 0), 60);
    r = ctl("policy auto --json");
    ck_run(r, 0);
    ck_assert_int_eq(tc_int(r.json, "/measurements", 0), 500);
    ck_run(ctl("policy auto --off"), 0);
    ck_assert(json_is_null(tc_at(bb_get("/v1/hardware/auto")->json, "/policy")));
    ck_run(ctl("policy auto --off --drift 2"), USAGE);
    ck_run(ctl("policy auto --cooldown 60"), USAGE);
    ck_run(ctl("policy none-such"), REFUSED);
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
                                        "lease return",
                                        "lease renew",
                                        "lease end",
                                        "lease paint x",
                                        "candidates remove",
                                        "candidates unselect x y",
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

START_TEST(a_secret_goes_into_a_file_that_is_new_and_ours_alone)
{
    char *tokens = bb_path("tokens"), *secret = bb_path("secret");
    struct run r = ctl("token operate --name ops -o %s --secret-file %s", tokens, secret);
    struct stat st;
    ck_run(r, 0);
    ck_assert_str_eq(r.out, "");
    ck_assert_int_eq(stat(secret, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    struct tc_daemon *d = bb_start(bb_path("secret"), (const char *[]){"--tokens-file", tokens, NULL});
    ck_run(ctl("status --token-file %s", secret), 0);
    struct bb_text line = bb_file(tokens);
    ck_run(ctl("token operate --name ops -o %s --secret-file %s", tokens, secret), FAILED);
    ck_assert_str_eq(bb_file(tokens).p, line.p); /* no line without its token */
    bb_stop(d);
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

START_TEST(a_pool_at_its_limit_is_emptied_as_tclctl_is_told)
{
    struct tc_daemon *d = bb_start(bb_path("small"), (const char *[]){"--limit-candidates", "1", NULL});
    struct bb_text two = bb_printf("%s\n%s\n", bb_unmeasured(1).p, bb_unmeasured(2).p);
    const char *log = ctl_file("two.json", two.p, two.n);
    ck_run(ctl("hardware add small --target llvm"), 0);
    struct run r = ctl("candidates add small %s --patience 0", log);
    ck_run(r, REFUSED);
    ck_has(r.err, "tclctl candidates remove small");
    ck_has_not(r.err, "/v1");
    ck_run(ctl("candidates remove small"), 0);
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
                                  "COMP_WORDS=(tclctl select x --bud); COMP_CWORD=3; _tclctl; echo ${COMPREPLY[*]}; "
                                  "COMP_WORDS=(tclctl lease en); COMP_CWORD=2; _tclctl; echo ${COMPREPLY[*]}; "
                                  "COMP_WORDS=(tclctl candidates un); COMP_CWORD=2; _tclctl; echo ${COMPREPLY[*]}",
                                  path)
                            .p,
                        NULL};
    r = ctl_run_env(NULL, sh);
    if (r.status == 127)
        return; /* no bash here */
    ck_run(r, 0);
    ck_assert_str_eq(r.out, "retrain\nadd\n--budget\nend\nunselect\n");
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
    Suite *s = suite_create("http/ctl_plain");
    TCase *tc = bb_case(s, "plain", 60);
    tcase_add_test(tc, no_daemon_is_told_with_its_own_status);
    tcase_add_test(tc, a_wrong_command_line_is_told_with_its_own_status);
    tcase_add_test(tc, settings_come_from_flags_then_environment_then_file);
    tcase_add_test(tc, a_token_is_new_and_its_line_holds_its_hash);
    tcase_add_test(tc, a_pool_at_its_limit_is_emptied_as_tclctl_is_told);
    tcase_add_test(tc, a_backup_is_a_database);
    tcase_add_test(tc, a_secret_goes_into_a_file_that_is_new_and_ours_alone);
    tcase_add_test(tc, a_policy_is_set_shown_and_taken_back);
    tcase_add_test(tc, similar_says_what_is_known_and_why_nothing_is);
    tcase_add_test(tc, a_token_that_was_made_here_opens_a_daemon_that_wants_one);
    tcase_add_test(tc, completion_is_bash_and_knows_the_commands);
    tcase_add_test(tc, the_manual_names_every_command_and_option);
    tcase_add_test(tc, a_bar_is_drawn_on_a_terminal_only);
    return bb_main(s);
}
