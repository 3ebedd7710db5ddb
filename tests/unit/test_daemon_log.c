/* Log lines: logfmt and JSON, quoting, limits; and that a reader of stderr that does not read costs lines, not time. */
#include "daemon/log.h"

#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char line[TD_LOG_LINE_MAX];

/* 2023-11-14T22:13:20.123Z */
static const int64_t TS = 1700000000123456;

#define RENDER(json, ...)                                                                                              \
    render(json, (const struct td_field[]){__VA_ARGS__},                                                               \
           sizeof((const struct td_field[]){__VA_ARGS__}) / sizeof(struct td_field))
static const char *render(bool json, const struct td_field *f, size_t n)
{
    size_t len = td_log_render(line, json, TD_WARNING, TS, "thing", f, n);
    ck_assert_uint_le(len, sizeof line);
    ck_assert_int_eq(line[len - 1], '\n');
    line[len - 1] = '\0';
    return line;
}

START_TEST(logfmt_quotes_what_needs_it)
{
    ck_assert_str_eq(RENDER(false, TD_S("a", "plain-1/2:3"), TD_S("b", "two words"), TD_S("c", ""), TD_S("d", "x=y"),
                            TD_S("e", "say \"hi\"\\"), TD_S("f", "a\nb\x01\x7f"), TD_I("n", -5), TD_F("t", 1.23456)),
                     "ts=2023-11-14T22:13:20.123Z level=warning event=thing a=plain-1/2:3 b=\"two words\" c=\"\" "
                     "d=\"x=y\" e=\"say \\\"hi\\\"\\\\\" "
                     "f=\"a\\nb\\u0001\\u007f\" n=-5 t=1.235");
}
END_TEST

START_TEST(a_null_text_is_left_out)
{
    ck_assert_str_eq(RENDER(false, TD_S("a", NULL), TD_I("b", 1)),
                     "ts=2023-11-14T22:13:20.123Z level=warning event=thing b=1");
}
END_TEST

START_TEST(json_lines_parse_and_keep_the_text)
{
    const char *text = "q\" b\\ t\t n\n u\xc3\xa9 c\x02";
    json_t *o = json_loads(RENDER(true, TD_S("a", text), TD_I("n", INT64_MIN), TD_F("t", 0.5)), 0, NULL);
    ck_assert_ptr_nonnull(o);
    ck_assert_str_eq(json_string_value(json_object_get(o, "ts")), "2023-11-14T22:13:20.123Z");
    ck_assert_str_eq(json_string_value(json_object_get(o, "level")), "warning");
    ck_assert_str_eq(json_string_value(json_object_get(o, "event")), "thing");
    ck_assert_str_eq(json_string_value(json_object_get(o, "a")), text);
    ck_assert(json_integer_value(json_object_get(o, "n")) == INT64_MIN);
    json_decref(o);
}
END_TEST

START_TEST(broken_utf_8_is_replaced)
{
    json_t *o = json_loads(RENDER(true, TD_S("a", "\xff"
                                                  "a\xc3"
                                                  "b\xed\xa0\x80\xe2\x82")),
                           0, NULL);
    ck_assert_ptr_nonnull(o);
    const char *v = json_string_value(json_object_get(o, "a"));
    ck_assert_int_eq(strncmp(v,
                             "\xef\xbf\xbd"
                             "a\xef\xbf\xbd"
                             "b\xef\xbf\xbd",
                             11),
                     0);
    json_decref(o);
}
END_TEST

START_TEST(a_long_text_is_cut_and_the_line_stays_whole)
{
    static char text[20000];
    memset(text, '"', sizeof text - 1);
    struct td_field f[20];
    for (int i = 0; i < 20; i++)
        f[i] = (struct td_field)TD_S("a", text);
    json_t *o = json_loads(render(true, f, 20), 0, NULL);
    ck_assert_ptr_nonnull(o);
    json_decref(o);
    ck_assert_uint_lt(strlen(render(false, f, 20)), TD_LOG_LINE_MAX);
}
END_TEST

START_TEST(a_number_that_is_none_keeps_json_valid)
{
    json_t *o = json_loads(RENDER(true, TD_F("a", 0.0 / 0.0), TD_F("b", 1e300)), 0, NULL);
    ck_assert_ptr_nonnull(o);
    ck_assert(json_is_null(json_object_get(o, "a")));
    json_decref(o);
}
END_TEST

/* ---- writing: stderr is put aside for a pipe or a file ---- */

static int saved_stderr = -1;
static void redirect(int fd)
{
    saved_stderr = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
}
static void restore(void)
{
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
}

START_TEST(the_level_decides_which_lines_are_written)
{
    char path[] = "/tmp/tcld-log-XXXXXX", text[4096] = "";
    int fd = mkstemp(path);
    redirect(fd);
    td_log_level(TD_WARNING);
    ck_assert_int_eq(td_log_start(), 0);
    td_log(TD_INFO, "not-this");
    td_log(TD_WARNING, "but-this", TD_I("n", 1));
    td_log(TD_ERROR, "and-this");
    td_log_stop();
    td_log(TD_ERROR, "after-stop");
    restore();
    ck_assert_int_gt(pread(fd, text, sizeof text - 1, 0), 0);
    close(fd);
    unlink(path);
    ck_assert_ptr_null(strstr(text, "not-this"));
    ck_assert_ptr_nonnull(strstr(text, "level=warning event=but-this n=1\n"));
    ck_assert_ptr_nonnull(strstr(text, "level=error event=and-this\n"));
    ck_assert_ptr_nonnull(strstr(text, "event=after-stop\n"));
}
END_TEST

START_TEST(lines_have_a_priority_only_when_stderr_is_the_journal)
{
    char path[] = "/tmp/tcld-log-XXXXXX", text[4096] = "", stream[64];
    struct stat st;
    int fd = mkstemp(path);
    ck_assert_int_eq(fstat(fd, &st), 0);
    redirect(fd);
    setenv("JOURNAL_STREAM", "1:2", 1); /* inherited from a session that is not ours */
    ck_assert_int_eq(td_log_start(), 0);
    td_log(TD_INFO, "one");
    td_log_stop();
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    ck_assert_int_eq(td_log_start(), 0);
    td_log(TD_INFO, "two");
    td_log(TD_ERROR, "three");
    td_log_stop();
    restore();
    ck_assert_int_gt(pread(fd, text, sizeof text - 1, 0), 0);
    close(fd);
    unlink(path);
    ck_assert_int_eq(strncmp(text, "ts=", 3), 0);
    ck_assert_ptr_nonnull(strstr(text, "\n<6>ts="));
    ck_assert_ptr_nonnull(strstr(text, "\n<3>ts="));
}
END_TEST

START_TEST(a_pipe_that_nobody_reads_costs_lines_and_not_time)
{
    int fd[2];
    char pad[401];
    ck_assert_int_eq(pipe(fd), 0);
    memset(pad, 'x', 400);
    pad[400] = '\0';
    redirect(fd[1]);
    ck_assert_int_eq(td_log_start(), 0);
    for (int i = 0; i < 5000; i++) /* 2 MB into a pipe of 64 KiB and a queue of 1 MiB */
        td_log(TD_INFO, "flood", TD_S("pad", pad));
    ck_assert_uint_gt(td_log_dropped(), 0);
    td_log_stop(); /* ends though the pipe is full */
    restore();
    close(fd[0]);
    close(fd[1]);
}
END_TEST

START_TEST(dropped_lines_are_told_once_the_reader_is_back)
{
    int fd[2];
    char pad[401], buf[65536 + 1];
    bool told = false;
    ck_assert_int_eq(pipe(fd), 0);
    memset(pad, 'x', 400);
    pad[400] = '\0';
    redirect(fd[1]);
    ck_assert_int_eq(td_log_start(), 0);
    while (td_log_dropped() == 0)
        td_log(TD_INFO, "flood", TD_S("pad", pad));
    for (size_t total = 0, kept = 0; total < (4u << 20) && !told;) {
        ssize_t n = read(fd[0], buf + kept, sizeof buf - 1 - kept);
        ck_assert_int_gt(n, 0);
        kept += (size_t)n;
        buf[kept] = '\0';
        told = strstr(buf, "event=log-dropped lines=") != NULL;
        total += (size_t)n;
        size_t tail = kept < 64 ? kept : 64; /* the line may come in two reads */
        memmove(buf, buf + kept - tail, tail);
        kept = tail;
    }
    ck_assert(told);
    td_log_stop();
    restore();
    close(fd[0]);
    close(fd[1]);
}
END_TEST

START_TEST(names_of_levels_and_formats)
{
    bool json = false;
    ck_assert_int_eq(td_log_level_by_name("debug"), TD_DEBUG);
    ck_assert_int_eq(td_log_level_by_name("INFO"), -1);
    ck_assert(td_log_format_by_name("json", &json) && json);
    ck_assert(td_log_format_by_name("logfmt", &json) && !json);
    ck_assert(!td_log_format_by_name("xml", &json));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon_log");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 30);
    tcase_add_test(c, logfmt_quotes_what_needs_it);
    tcase_add_test(c, a_null_text_is_left_out);
    tcase_add_test(c, json_lines_parse_and_keep_the_text);
    tcase_add_test(c, broken_utf_8_is_replaced);
    tcase_add_test(c, a_long_text_is_cut_and_the_line_stays_whole);
    tcase_add_test(c, a_number_that_is_none_keeps_json_valid);
    tcase_add_test(c, the_level_decides_which_lines_are_written);
    tcase_add_test(c, lines_have_a_priority_only_when_stderr_is_the_journal);
    tcase_add_test(c, a_pipe_that_nobody_reads_costs_lines_and_not_time);
    tcase_add_test(c, dropped_lines_are_told_once_the_reader_is_back);
    tcase_add_test(c, names_of_levels_and_formats);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
