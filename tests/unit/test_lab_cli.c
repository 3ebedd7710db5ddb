/* The lab's command lines: what is taken, what is refused and how a command ends. */
#include "lab/cli.h"
#include "lab/lab.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG "tests/data/demo/softmax_1536x128.json"

struct given {
    int whole;
    uint32_t small;
    uint64_t large;
    double real;
    bool flag, second;
    const char *text;
    int calls;
};

static int called(void *to, char *text)
{
    ((struct given *)to)->calls++;
    return text && strcmp(text, "stop") == 0 ? 0 : TL_GO_ON;
}

/* The words of "NAME line", NULL behind them, in static memory. */
static int words(char **argv, const char *name, const char *line)
{
    static char copy[512];
    char *save = NULL;
    int argc = 0;
    snprintf(copy, sizeof copy, "%s %s", name, line);
    for (char *p = strtok_r(copy, " ", &save); p; p = strtok_r(NULL, " ", &save))
        argv[argc++] = p;
    argv[argc] = NULL;
    optind = 0; /* glibc: begin anew */
    return argc;
}

static int read_line(struct tl_cli *c, struct given *g, const char *line)
{
    const struct tl_option options[] = {
        {.name = "known", .kind = TL_FLAG, .to = &c->known},
        {.name = "flag", .kind = TL_FLAG, .to = &g->flag},
        {.name = "text", .kind = TL_TEXT, .to = &g->text},
        {.name = "word", .kind = TL_CHOICE, .to = &g->second, .first = "one", .second = "two"},
        {.name = "call", .kind = TL_CALL, .to = g, .call = called},
        {.name = "do", .kind = TL_DO, .to = g, .call = called},
        TL_NUMBER("whole", &g->whole, -5, 5),
        TL_NUMBER("small", &g->small, 1, 1e9),
        TL_NUMBER("large", &g->large, 0, 9007199254740992.0),
        TL_NUMBER("real", &g->real, 0, 1),
    };
    char *argv[32];
    const int argc = words(argv, "test", line);
    *c = (struct tl_cli){.command = "test", .usage = "usage\n"};
    *g = (struct given){0};
    return tl_cli_read(c, argc, argv, options, sizeof options / sizeof *options);
}

START_TEST(values_go_where_the_table_says)
{
    struct tl_cli c;
    struct given g;
    ck_assert_int_eq(read_line(&c, &g,
                               "--known --flag --text a=b --word two --call x --do --whole -3 --small 1000000000 "
                               "--large 9007199254740992 --real 0.25 --json --logs " LOG " " LOG),
                     TL_GO_ON);
    ck_assert(c.known && g.flag && g.second && c.json);
    ck_assert_str_eq(g.text, "a=b");
    ck_assert_int_eq(g.calls, 2);
    ck_assert_int_eq(g.whole, -3);
    ck_assert_uint_eq(g.small, 1000000000);
    ck_assert(g.large == UINT64_C(9007199254740992));
    ck_assert_double_eq(g.real, 0.25);
    ck_assert_str_eq(c.logs, LOG);
    ck_assert_uint_eq(c.corpus->lines % 2, 0); /* the log and, without an option before it, the log again */
    ck_assert_uint_gt(c.corpus->lines, c.corpus->n_programs);
    ck_assert_uint_eq(c.n_keys, 0);
    tl_cli_free(&c);
}
END_TEST

static const struct {
    const char *line;
    int status;
} ends[] = {
    {"--help", 0},
    {"--call stop", 0},
    {"--logs /nowhere --known", 1},
    {"", 2},
    {"--logs " LOG, 2},
    {"--logs " LOG " --known --test tests/data/held-out.txt", 2},
    {"--logs " LOG " --test /nowhere", 2},
    {"--unheard-of", 2},
    {"--word three", 2},
    {"--whole 6", 2},
    {"--whole 1x", 2},
    {"--small 0", 2},
    {"--real nan", 2},
};

START_TEST(a_command_ends_where_it_cannot_go_on)
{
    struct tl_cli c;
    struct given g;
    ck_assert_int_eq(read_line(&c, &g, ends[_i].line), ends[_i].status);
    tl_cli_free(&c);
}
END_TEST

START_TEST(keys_are_read)
{
    struct tl_cli c;
    struct given g;
    ck_assert_int_eq(read_line(&c, &g, "--logs " LOG " --test tests/data/held-out.txt"), TL_GO_ON);
    ck_assert_uint_gt(c.n_keys, 1);
    ck_assert_int_le(strcmp(c.keys[0], c.keys[1]), 0);
    tl_cli_free(&c);
}
END_TEST

START_TEST(a_list_holds_whole_names)
{
    ck_assert(tl_listed("tcld,xgb", "tcld"));
    ck_assert(tl_listed("tcld-tlp,tcld", "tcld"));
    ck_assert(tl_listed("a,two of 96, bare,b", "two of 96, bare"));
    ck_assert(!tl_listed("tcld-tlp,xgbrank", "tcld"));
    ck_assert(!tl_listed("", "tcld"));
}
END_TEST

START_TEST(folders_are_made_with_their_parents_and_files_say_why_not)
{
    char dir[] = "/tmp/lab-cli-XXXXXX", path[64];
    struct tp_buf b = {0};
    struct tp_err e;
    struct stat st;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a/b", dir);
    ck_assert_int_eq(tl_folder(path, &e), 0);
    ck_assert_int_eq(tl_folder(path, &e), 0);
    snprintf(path, sizeof path, "%s/a/b/x", dir);
    tp_buf_puts(&b, "text");
    ck_assert_int_eq(tl_write_file(path, &b, &e), 0);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_size, 4);
    ck_assert_int_eq(tl_folder("/dev/null/a", &e), -TP_E_IO);
    ck_assert_int_eq(tl_write_file("/dev/null/a", &b, &e), -TP_E_IO);
    ck_assert_ptr_nonnull(strstr(e.detail, "/dev/null/a: "));
    b.oom = true;
    ck_assert_int_eq(tl_write_file(path, &b, &e), -TP_E_NO_MEMORY);
    tp_buf_free(&b);
    unlink(path);
    snprintf(path, sizeof path, "%s/a/b", dir);
    rmdir(path);
    snprintf(path, sizeof path, "%s/a", dir);
    rmdir(path);
    rmdir(dir);
}
END_TEST

/* What `lab eval` says of the pairs of a short training. */
static double pairwise(int seed, int seeds)
{
    char line[256], text[8192] = {0}, *argv[32];
    snprintf(line, sizeof line,
             "--known --epochs 1 --per-task 40 --threads 1 --seed %d --seeds %d --json --quiet --logs tests/data/demo",
             seed, seeds);
    const int argc = words(argv, "eval", line);
    FILE *to = tmpfile();
    int kept = dup(STDOUT_FILENO);
    fflush(stdout);
    ck_assert(to && kept >= 0 && dup2(fileno(to), STDOUT_FILENO) >= 0);
    int rc = tl_eval_main(argc, argv);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    ck_assert_int_eq(rc, 0);
    rewind(to);
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, to), 0);
    fclose(to);
    const char *at = strstr(text, "\"pairwise_accuracy\": ");
    ck_assert_ptr_nonnull(at);
    return strtod(strchr(at, ' '), NULL);
}

START_TEST(several_seeds_give_their_mean)
{
    const double one = pairwise(1, 1), two = pairwise(2, 1);
    ck_assert_double_ne(one, two);
    ck_assert_double_eq_tol(pairwise(1, 2), (one + two) / 2, 1e-8);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lab/cli");
    TCase *c = tcase_create("all");
    tcase_add_test(c, values_go_where_the_table_says);
    tcase_add_loop_test(c, a_command_ends_where_it_cannot_go_on, 0, sizeof ends / sizeof *ends);
    tcase_add_test(c, keys_are_read);
    tcase_add_test(c, a_list_holds_whole_names);
    tcase_add_test(c, folders_are_made_with_their_parents_and_files_say_why_not);
    tcase_add_test(c, several_seeds_give_their_mean);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
