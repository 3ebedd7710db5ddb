/* tclctl import and export: logs in and out, bad lines, interruptions, files that grow. */
#include "tests/http/ctl_run.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(an_export_is_what_was_imported)
{
    char *out = bb_path("out.json.gz");
    ck_run(ctl("hardware add round --target llvm"), 0);
    ck_run(ctl("import round tests/data/demo/matmul_32x1000x512.json"), 0);
    ck_run(ctl("export round -o %s", out), 0);
    struct bb_text want = bb_file("tests/data/demo/matmul_32x1000x512.json"), got = bb_file(out);
    ck_assert_uint_eq(got.n, want.n);
    ck_assert_mem_eq(got.p, want.p, want.n);
    struct run r = ctl("best round");
    ck_run(r, 0);
    ck_assert_int_eq(ctl_count(r.out, "\n"), 1);
    ck_run(ctl("export round -o /no/such/folder/x"), FAILED);
    ck_run(ctl("export none-such -o %s.2", out), REFUSED);
    ck_assert_int_ne(access(bb_printf("%s.2", out).p, F_OK), 0); /* nothing half is left */
}
END_TEST

START_TEST(a_bad_line_is_reported_once_with_file_and_line)
{
    struct bb_text good = bb_records(0, 3);
    struct bb_text text = bb_printf("# head\n%s{broken\n%s\n", good.p, bb_record(7, 0.1, 1700000000).p);
    const char *log = ctl_file("bad.json", text.p, text.n);
    ck_run(ctl("hardware add bad --target llvm"), 0);
    struct run r = ctl("import bad %s --json", log);
    ck_run(r, PARTLY);
    ck_assert_int_eq(ctl_count(r.err, bb_printf("%s:5: bad-json", log).p), 1);
    ck_assert_int_eq(tc_int(r.json, "/accepted", 0), 4);
    ck_assert_int_eq(tc_int(r.json, "/errors/0/line", 0), 5);
    r = ctl("import bad %s", log);
    ck_run(r, 0);
    ck_has_not(r.err, "bad-json");
    r = ctl("import bad %s --again --json", log);
    ck_run(r, PARTLY);
    ck_assert_int_eq(tc_int(r.json, "/duplicates", 0), 4);
}
END_TEST

START_TEST(every_one_of_many_bad_lines_is_reported)
{
    struct tp_buf b = {0};
    for (int i = 0; i < 3500; i++)
        tp_buf_printf(&b, "{bad %d\n", i);
    const char *log = ctl_file("worse.json", b.p, b.n);
    tp_buf_free(&b);
    ck_run(ctl("hardware add worse --target llvm"), 0);
    struct run r = ctl("import worse %s", log);
    ck_run(r, PARTLY);
    ck_assert_int_eq(ctl_count(r.err, ": bad-json"), 3500);
    ck_has(r.err, bb_printf("%s:3500: ", log).p);
    ck_has(r.out, "3500 rejected");
}
END_TEST

START_TEST(a_log_that_grows_is_continued_and_half_a_line_waits)
{
    struct bb_text first = bb_records(0, 5), line = bb_record(5, 0.2, 1700000005);
    struct bb_text half = bb_printf("%s%.*s", first.p, (int)line.n / 2, line.p),
                   whole = bb_printf("%s%s\n%s\n", first.p, line.p, bb_record(6, 0.2, 1700000006).p);
    char *path = bb_path("grows.json");
    ck_run(ctl("hardware add grows --target llvm"), 0);
    ck_assert_int_eq(tc_write_file(path, half.p, half.n, NULL), 0);
    ck_run(ctl("import grows %s", path), PARTLY);
    ck_assert_int_eq(ctl_measured("grows"), 5);
    ck_assert_int_eq(tc_write_file(path, whole.p, whole.n, NULL), 0);
    struct run r = ctl("import grows %s --json", path);
    ck_run(r, 0);
    ck_assert_int_eq(tc_int(r.json, "/accepted", 0), 2);
    ck_assert_int_eq(tc_int(r.json, "/duplicates", -1), 0);
    ck_has(r.err, "going on at line 6");
}
END_TEST

START_TEST(a_log_that_was_written_anew_in_its_place_is_read_anew)
{
    struct bb_text first = bb_records(0, 5), other = bb_records(20, 8);
    char *path = bb_path("rewritten.json");
    ck_run(ctl("hardware add rewritten --target llvm"), 0);
    ck_assert_int_eq(tc_write_file(path, first.p, first.n, NULL), 0);
    ck_run(ctl("import rewritten %s", path), 0);
    ck_assert_int_eq(tc_write_file(path, other.p, other.n, NULL), 0);
    struct run r = ctl("import rewritten %s --json", path);
    ck_run(r, 0);
    ck_assert_int_eq(tc_int(r.json, "/accepted", 0), 8);
    ck_assert_int_eq(ctl_measured("rewritten"), 13);
}
END_TEST

START_TEST(candidates_are_added_again_for_more_measurements_each)
{
    struct bb_text t = bb_records(0, 3);
    const char *log = ctl_file("repeat.json", t.p, t.n);
    ck_run(ctl("hardware add repeat --target llvm"), 0);
    ck_run(ctl("candidates add repeat %s", log), 0);
    ck_run(ctl("candidates add repeat %s --repeat 3", log), 0);
    struct run r = ctl("candidates list repeat --json");
    ck_run(r, 0);
    ck_has(r.out, "\"repeat\": 3");
}
END_TEST

START_TEST(an_output_that_is_no_plain_file_is_written_to_as_it_is)
{
    struct bb_text t = bb_records(0, 5);
    const char *log = ctl_file("odd.json", t.p, t.n);
    char *real = bb_path("real.json"), *link = bb_path("link.json"), *pipe = bb_path("pipe"),
         *got = bb_path("got.json");
    struct stat st;
    ck_run(ctl("hardware add odd --target llvm"), 0);
    ck_run(ctl("import odd %s", log), 0);
    ck_assert_int_eq(tc_write_file(real, "old\n", 4, NULL), 0);
    ck_assert_int_eq(symlink(real, link), 0);
    ck_run(ctl("export odd -o %s", link), 0);
    ck_assert(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    ck_assert_uint_gt(bb_file(real).n, 100);
    ck_assert_int_eq(mkfifo(pipe, 0600), 0);
    ck_assert_int_eq(system(bb_printf("cat %s > %s &", pipe, got).p), 0);
    ck_run(ctl("export odd -o %s", pipe), 0);
    ck_assert(lstat(pipe, &st) == 0 && S_ISFIFO(st.st_mode));
    for (int i = 0; i < 200 && bb_file(got).n < bb_file(real).n; i++)
        tc_sleep(0.02);
    ck_assert_str_eq(bb_file(got).p, bb_file(real).p);
}
END_TEST

START_TEST(hardware_that_was_made_anew_gets_everything)
{
    struct bb_text t = bb_records(0, 5);
    const char *log = ctl_file("anew.json", t.p, t.n);
    ck_run(ctl("hardware add anew --target llvm"), 0);
    ck_run(ctl("import anew %s", log), 0);
    ck_run(ctl("hardware remove anew --purge"), 0);
    ck_run(ctl("hardware add anew --target llvm"), 0);
    ck_run(ctl("import anew %s", log), 0);
    ck_assert_int_eq(ctl_measured("anew"), 5);
}
END_TEST

START_TEST(folders_packed_files_and_standard_input_are_read)
{
    char *dir = bb_path("logs");
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    const char *make[] = {"sh", "-c",
                          bb_printf("mkdir %s/deep && head -20 tests/data/demo/norm_8x128.json > %s/a.json && "
                                    "head -30 tests/data/demo/norm_8x128.json | tail -10 | gzip > %s/deep/b.json.gz && "
                                    "echo no > %s/README.md",
                                    dir, dir, dir, dir)
                              .p,
                          NULL};
    ck_run(ctl_run_env(NULL, make), 0);
    ck_run(ctl("hardware add tree --target llvm"), 0);
    ck_run(ctl("import tree %s --agent lab-1", dir), 0);
    ck_assert_int_eq(ctl_measured("tree"), 30);
    const char *sh[] = {
        "sh", "-c",
        bb_printf("tail -n +31 tests/data/demo/norm_8x128.json | gzip | %s import tree - --json", ctl_binary()).p,
        NULL};
    const char *env[] = {bb_printf("TCLD_URL=%s", bb_base()).p, bb_printf("HOME=%s", ctl_home()).p, NULL};
    struct run r = ctl_run_env(env, sh);
    ck_run(r, 0);
    ck_assert_int_eq(tc_int(r.json, "/duplicates", -1), 0);
    struct bb_text all = bb_file("tests/data/demo/norm_8x128.json");
    ck_assert_int_eq(ctl_measured("tree"), (int64_t)bb_line_count(all.p, all.n));

    const char *cut[] = {
        "sh", "-c", bb_printf("gzip -c tests/data/demo/norm_8x128.json | head -c 3000 > %s/cut.json.gz", dir).p, NULL};
    ck_run(ctl_run_env(NULL, cut), 0);
    r = ctl("import tree %s/cut.json.gz", dir);
    ck_run(r, FAILED);
    ck_has(r.err, "cut off");
    ck_run(ctl("import tree /no/such/file"), FAILED);
    ck_run(ctl("import tree %s/deep/none", dir), FAILED);
}
END_TEST

START_TEST(an_import_that_was_interrupted_goes_on_where_it_was)
{
    struct bb_text t = bb_records(0, 20000);
    const char *log = ctl_file("long.json", t.p, t.n);
    const char *own = ctl_home();
    ck_run(ctl("hardware add long --target llvm"), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        dup2(null, 2);
        setenv("HOME", own, 1);
        execl(ctl_binary(), ctl_binary(), "--url", bb_base(), "import", "long", log, (char *)NULL);
        _exit(126);
    }
    while (ctl_measured("long") < 2000)
        tc_sleep(0.005);
    kill(pid, SIGINT);
    int status;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) { /* it was faster than we: nothing to see */
        ck_assert_int_eq(ctl_measured("long"), 20000);
        return;
    }
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 130, "status %x", (unsigned)status);
    struct run r = ctl("import long %s --json", log);
    ck_run(r, 0);
    ck_assert_int_eq(ctl_measured("long"), 20000);
    ck_has(r.err, "going on at line ");
    ck_assert_int_le(tc_int(r.json, "/duplicates", -1), 1000); /* the batch under way */
}
END_TEST

/* A daemon at the same address whose database is `db`. */
static struct tc_daemon *restored(const char *db, const char *const *args)
{
    char *dir = bb_path("restored");
    struct bb_text t = bb_file(db), to = bb_printf("%s/tcld.db", dir);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    ck_assert_int_eq(tc_write_file(to.p, t.p, t.n, NULL), 0);
    return bb_start(dir, args);
}

START_TEST(what_an_older_backup_does_not_hold_is_sent_again)
{
    const char *args[] = {"--listen", bb_printf("unix:%s", bb_path("socket")).p, NULL};
    char *empty = bb_path("empty.db"), *dir = bb_path("logs");
    struct bb_text first = bb_records(0, 20), bad = bb_printf("%s{\"i\": []}\n", bb_records(20, 20).p);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    ck_assert_int_eq(tc_write_file(bb_printf("%s/b.json", dir).p, first.p, first.n, NULL), 0);
    ck_assert_int_eq(tc_write_file(bb_printf("%s/a.json", dir).p, bad.p, bad.n, NULL), 0);

    struct tc_daemon *d = bb_start(bb_path("before"), args);
    ck_run(ctl("hardware add box --target llvm"), 0);
    ck_run(ctl("import box %s/b.json", dir), 0);
    ck_run(ctl("backup -o %s", empty), 0);
    ck_run(ctl("import box %s", dir), PARTLY);
    ck_assert_int_eq(ctl_measured("box"), 40);
    struct run r = ctl("import box %s --json", dir); /* nothing was lost: nothing is sent */
    ck_run(r, 0);
    ck_has_not(r.err, "lost");
    ck_assert_int_eq(tc_int(r.json, "/skipped_files", 0), 2);
    ck_assert_int_eq(tc_int(r.json, "/accepted", -1), 0);
    bb_stop(d);

    d = restored(empty, args);
    ck_assert_int_eq(ctl_measured("box"), 20);
    r = ctl("import box %s --json", dir); /* a.json came last, and its last line was refused then, too */
    ck_run(r, PARTLY);
    ck_assert_int_eq(ctl_count(r.err, "lost what was imported before"), 1);
    ck_assert_int_eq(tc_int(r.json, "/skipped_files", -1), 0);
    ck_assert_int_eq(tc_int(r.json, "/accepted", 0), 20);
    ck_assert_int_eq(ctl_measured("box"), 40);
    r = ctl("import box %s --json", dir);
    ck_run(r, 0);
    ck_assert_int_eq(tc_int(r.json, "/skipped_files", 0), 2);
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/ctl_import");
    TCase *tc = bb_case(s, "logs", 120);
    tcase_add_test(tc, an_export_is_what_was_imported);
    tcase_add_test(tc, a_bad_line_is_reported_once_with_file_and_line);
    tcase_add_test(tc, every_one_of_many_bad_lines_is_reported);
    tcase_add_test(tc, a_log_that_grows_is_continued_and_half_a_line_waits);
    tcase_add_test(tc, a_log_that_was_written_anew_in_its_place_is_read_anew);
    tcase_add_test(tc, candidates_are_added_again_for_more_measurements_each);
    tcase_add_test(tc, an_output_that_is_no_plain_file_is_written_to_as_it_is);
    tcase_add_test(tc, hardware_that_was_made_anew_gets_everything);
    tcase_add_test(tc, folders_packed_files_and_standard_input_are_read);
    tcase_add_test(tc, an_import_that_was_interrupted_goes_on_where_it_was);
    tc = bb_case_own(s, "restored", 120);
    tcase_add_test(tc, what_an_older_backup_does_not_hold_is_sent_again);
    return bb_main(s);
}
