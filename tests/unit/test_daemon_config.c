/* Configuration: values, files, environment, precedence, printing, reloading; the shipped default file and the manual
 * hold every key. */
#include "daemon/options.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct td_config c;
static struct tp_err e;

static void setup(void)
{
    unsetenv("STATE_DIRECTORY");
    ck_assert_int_eq(td_config_defaults(&c), 0);
}

static void teardown(void)
{
    td_config_free(&c);
}

static void has(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in \"%s\"", part, text);
}

/* A file with `text` under a name that the test knows. */
static int read_text(const char *text)
{
    char path[] = "/tmp/tcld-config-XXXXXX";
    int fd = mkstemp(path), rc;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    rc = td_config_read_file(&c, path, &e);
    unlink(path);
    return rc;
}

/* ---- values ---- */

START_TEST(defaults_are_those_of_the_table)
{
    ck_assert_str_eq(c.listen, "127.0.0.1:8723");
    ck_assert_int_eq(c.limit_predict_records, 16384);
    ck_assert(!c.insecure);
    ck_assert_int_eq(td_config_check(&c, &e), 0);
}
END_TEST

START_TEST(an_integer_out_of_range_is_refused_and_the_old_one_stays)
{
    ck_assert_int_eq(td_config_set(&c, "connection_limit", "7", &e), -TP_E_CONFIG);
    has(e.detail, "from 8 to 100000");
    ck_assert_int_eq(td_config_set(&c, "connection_limit", "1e3", &e), -TP_E_CONFIG);
    ck_assert_int_eq(td_config_set(&c, "connection_limit", "", &e), -TP_E_CONFIG);
    ck_assert_int_eq(td_config_set(&c, "connection_limit", " 9", &e), -TP_E_CONFIG);
    ck_assert_int_eq(td_config_set(&c, "connection_limit", "99999999999999999999", &e), -TP_E_CONFIG);
    ck_assert_int_eq(c.connection_limit, 1024);
    ck_assert_int_eq(td_config_set(&c, "connection_limit", "8", &e), 0);
    ck_assert_int_eq(c.connection_limit, 8);
}
END_TEST

START_TEST(a_boolean_is_one_of_four_pairs)
{
    const char *const yes[] = {"true", "yes", "on", "1"}, *const no[] = {"false", "no", "off", "0"};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(td_config_set(&c, "insecure", yes[i], &e), 0);
        ck_assert(c.insecure);
        ck_assert_int_eq(td_config_set(&c, "insecure", no[i], &e), 0);
        ck_assert(!c.insecure);
    }
    ck_assert_int_eq(td_config_set(&c, "insecure", "maybe", &e), -TP_E_CONFIG);
}
END_TEST

START_TEST(text_that_a_file_cannot_hold_is_refused)
{
    ck_assert_int_eq(td_config_set(&c, "state_dir", "/var/a\nb", &e), -TP_E_CONFIG);
    ck_assert_int_eq(td_config_set(&c, "state_dir", " /var", &e), -TP_E_CONFIG);
    ck_assert_int_eq(td_config_set(&c, "state_dir", "/var ;x", &e), -TP_E_CONFIG);
    ck_assert_int_eq(td_config_set(&c, "state_dir", "/var/a b", &e), 0);
}
END_TEST

START_TEST(an_unknown_key_names_the_nearest)
{
    ck_assert_int_eq(td_config_set(&c, "lsiten", "x", &e), -TP_E_CONFIG);
    has(e.detail, "did you mean \"listen\"");
    ck_assert_int_eq(td_config_set(&c, "zzzzzzzzzzzz", "x", &e), -TP_E_CONFIG);
    ck_assert_ptr_null(strstr(e.detail, "did you mean"));
}
END_TEST

/* ---- which values go together ---- */

START_TEST(an_address_beyond_loopback_needs_insecure)
{
    const char *const open_[] = {"0.0.0.0:1", "[::]:1", "192.168.1.1:80"}, *const closed[] = {"127.0.0.5:1", "[::1]:0",
                                                                                              "unix:/tmp/x",
                                                                                              "localhost:9"};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(td_config_set(&c, "listen", open_[i], &e), 0);
        ck_assert_int_eq(td_config_check(&c, &e), -TP_E_CONFIG);
        has(e.detail, "insecure = true");
    }
    ck_assert_int_eq(td_config_set(&c, "insecure", "true", &e), 0);
    ck_assert_int_eq(td_config_check(&c, &e), 0);
    ck_assert_int_eq(td_config_set(&c, "insecure", "false", &e), 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(td_config_set(&c, "listen", closed[i], &e), 0);
        ck_assert_int_eq(td_config_check(&c, &e), 0);
    }
    ck_assert_int_eq(td_config_set(&c, "health_listen", "0.0.0.0:1", &e), 0);
    ck_assert_int_eq(td_config_check(&c, &e), -TP_E_CONFIG);
    has(e.detail, "health_listen");
}
END_TEST

START_TEST(what_is_no_address_is_refused_with_the_forms)
{
    const char *const bad[] = {
        "8723",  "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:1x", "::1:80", "[::1]", "[::1:80", "host:80",
        "unix:", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(td_config_set(&c, "listen", bad[i], &e), 0);
        ck_assert_msg(td_config_check(&c, &e) == -TP_E_CONFIG, "%s was accepted", bad[i]);
    }
}
END_TEST

START_TEST(log_settings_are_words_of_a_list)
{
    ck_assert_int_eq(td_config_set(&c, "log_format", "xml", &e), 0);
    ck_assert_int_eq(td_config_check(&c, &e), -TP_E_CONFIG);
    ck_assert_int_eq(td_config_set(&c, "log_format", "json", &e), 0);
    ck_assert_int_eq(td_config_set(&c, "log_level", "loud", &e), 0);
    ck_assert_int_eq(td_config_check(&c, &e), -TP_E_CONFIG);
}
END_TEST

/* ---- files ---- */

START_TEST(a_file_sets_keys_between_comments)
{
    ck_assert_int_eq(
        read_text("# a comment\n\n; another\nlisten = [::1]:9 ; why\ndrain_seconds=0\r\nhealth_listen =\n"), 0);
    ck_assert_str_eq(c.listen, "[::1]:9");
    ck_assert_int_eq(c.drain_seconds, 0);
    ck_assert_str_eq(c.health_listen, "");
    ck_assert_ptr_nonnull(c.file);
}
END_TEST

START_TEST(a_wrong_line_is_named_with_its_number)
{
    ck_assert_int_eq(read_text("drain_seconds = 1\n\nlisen = x\n"), -TP_E_CONFIG);
    has(e.detail, ":3: unknown key \"lisen\"; did you mean \"listen\"?");
    ck_assert_int_eq(e.line, 3);
    ck_assert_int_eq(read_text("# x\ndrain_seconds = soon\n"), -TP_E_CONFIG);
    has(e.detail, ":2: drain_seconds");
    ck_assert_int_eq(read_text("drain_seconds\n"), -TP_E_CONFIG);
    has(e.detail, ":1: expected \"key = value\"");
    ck_assert_int_eq(read_text("drain_seconds = 1\njust words\ndrain_seconds = x\n"), -TP_E_CONFIG);
    has(e.detail, ":2: expected");
    ck_assert_int_eq(read_text("drain_seconds = 1\ndrain_seconds = 2\n"), -TP_E_CONFIG);
    has(e.detail, ":2: key given twice");
    ck_assert_int_eq(read_text("drain_seconds = 1\n [http]\n"), -TP_E_CONFIG);
    has(e.detail, ":2: sections");
    ck_assert_int_eq(read_text("listen = 127.0.0.1:1\n  127.0.0.1:2\n"), -TP_E_CONFIG);
    has(e.detail, ":2: a line must not start with a space");
}
END_TEST

START_TEST(a_value_that_is_checked_at_the_end_is_named_with_its_line)
{
    static const char *const texts[] = {
        "# x\nlisten = nowhere\n", "insecure = false\nlisten = 0.0.0.0:80\n",
        "\nhealth_listen = 1\n",   "\nlog_level = loud\n",
        "\nlog_format = xml\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        td_config_free(&c);
        ck_assert_int_eq(td_config_defaults(&c), 0);
        ck_assert_int_eq(read_text(texts[i]), 0);
        ck_assert_int_eq(td_config_check(&c, &e), -TP_E_CONFIG);
        has(e.detail, c.file);
        has(e.detail, i == 2 ? ":2: health_listen: " : i < 2 ? ":2: listen: " : ":2: log_");
        ck_assert_int_eq(e.line, 2);
    }
    ck_assert_int_eq(td_config_set(&c, "log_format", "yaml", &e), 0); /* an option is not in the file */
    ck_assert_int_eq(td_config_check(&c, &e), -TP_E_CONFIG);
    ck_assert_int_eq(strncmp(e.detail, "log_format: ", 12), 0);
}
END_TEST

START_TEST(a_nul_byte_is_refused_and_not_the_end_of_the_line)
{
    char path[] = "/tmp/tcld-config-XXXXXX";
    static const char text[] = "log_level = info\0x\n";
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, sizeof text - 1), (ssize_t)sizeof text - 1);
    close(fd);
    ck_assert_int_eq(td_config_read_file(&c, path, &e), -TP_E_CONFIG);
    unlink(path);
    has(e.detail, ":1: a NUL byte");
}
END_TEST

START_TEST(a_line_too_long_is_refused_and_a_long_value_or_comment_is_not)
{
    char text[6000], want[TD_CONFIG_VALUE_MAX + 1];

    memset(want, 'x', TD_CONFIG_VALUE_MAX);
    want[TD_CONFIG_VALUE_MAX] = '\0';
    snprintf(text, sizeof text, "state_dir =  %s  ; here\ndrain_seconds = 5\n", want);
    ck_assert_int_eq(read_text(text), 0);
    ck_assert_str_eq(c.state_dir, want);
    ck_assert_int_eq(c.drain_seconds, 5);
    snprintf(text, sizeof text, "\nstate_dir = y%s", want);
    ck_assert_int_eq(read_text(text), -TP_E_CONFIG);
    has(e.detail, ":2: state_dir: longer than 512 bytes");
    ck_assert_str_eq(c.state_dir, want);
    snprintf(text, sizeof text, "%s = 1", want);
    ck_assert_int_eq(read_text(text), -TP_E_CONFIG);
    has(e.detail, ":1: line too long");
    ck_assert_int_eq(read_text(want), -TP_E_CONFIG);
    has(e.detail, ":1: line too long");
    memset(text, 'x', 5000);
    memcpy(text, "state_dir = ", 12);
    text[5000] = '\0';
    ck_assert_int_eq(read_text(text), -TP_E_CONFIG);
    has(e.detail, ":1: line too long");
    text[0] = '#';
    memcpy(text + 3000, "\ndrain_seconds = 6\n", 20);
    ck_assert_int_eq(read_text(text), 0);
    ck_assert_int_eq(c.drain_seconds, 6);
}
END_TEST

START_TEST(a_missing_file_is_an_error)
{
    ck_assert_int_eq(td_config_read_file(&c, "/nonexistent/tcld.conf", &e), -TP_E_CONFIG);
    has(e.detail, "/nonexistent/tcld.conf: No such file");
}
END_TEST

/* ---- environment and command line ---- */

START_TEST(the_environment_sets_keys_and_slips_are_told)
{
    setenv("TCLD_DRAIN_SECONDS", "7", 1);
    setenv("TCLD_SIMD", "avx2", 1); /* not ours, and no slip */
    ck_assert_int_eq(td_config_read_env(&c, &e), 0);
    ck_assert_int_eq(c.drain_seconds, 7);
    setenv("TCLD_DRAIN_SECOND", "8", 1);
    ck_assert_int_eq(td_config_read_env(&c, &e), -TP_E_CONFIG);
    has(e.detail, "TCLD_DRAIN_SECONDS");
}
END_TEST

static int load(int argc, const char **argv)
{
    struct td_options o;
    int rc;

    td_config_free(&c);
    ck_assert_int_eq(td_options_parse(argc, (char **)argv, &o, &e), 0);
    rc = td_options_load(&o, &c, &e);
    if (rc != 0)
        ck_assert_int_eq(td_config_defaults(&c), 0); /* for teardown */
    return rc;
}

START_TEST(an_option_wins_over_environment_over_file_over_default)
{
    char path[] = "/tmp/tcld-config-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");
    fputs("drain_seconds = 1\nidle_timeout_seconds = 1\nrequest_timeout_seconds = 1\n", f);
    fclose(f);
    setenv("TCLD_DRAIN_SECONDS", "2", 1);
    setenv("TCLD_IDLE_TIMEOUT_SECONDS", "2", 1);
    int rc = load(4, (const char *[]){"tcld", "-c", path, "--drain-seconds=3"});
    unlink(path);
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(c.drain_seconds, 3);
    ck_assert_int_eq(c.idle_timeout_seconds, 2);
    ck_assert_int_eq(c.request_timeout_seconds, 1);
    ck_assert_int_eq(c.connection_limit, 1024);
}
END_TEST

START_TEST(options_take_values_in_both_forms)
{
    ck_assert_int_eq(load(6, (const char *[]){"tcld", "--listen", "127.0.0.1:1", "--log_level=debug", "--insecure",
                                              "--port-file=/tmp/p"}),
                     0);
    ck_assert_str_eq(c.listen, "127.0.0.1:1");
    ck_assert_str_eq(c.log_level, "debug");
    ck_assert(c.insecure);
    ck_assert_str_eq(c.port_file, "/tmp/p");
    ck_assert_int_eq(load(2, (const char *[]){"tcld", "--insecure=no"}), 0);
    ck_assert(!c.insecure);
    ck_assert_int_eq(load(2, (const char *[]){"tcld", "--drain-seconds=x"}), -TP_E_CONFIG);
}
END_TEST

/* Parses one argument that must be refused. */
static void refused(const char *arg, const char *part)
{
    struct td_options o;
    const char *argv[] = {"tcld", arg, NULL};

    ck_assert_int_eq(td_options_parse(2, (char **)argv, &o, &e), -TP_E_BAD_PARAMETER);
    has(e.detail, part);
}

START_TEST(a_wrong_option_is_named_with_the_nearest)
{
    refused("--lisen=x", "did you mean --listen?");
    refused("--print-confg", "did you mean --print-config?");
    refused("--helth-listen=x", "did you mean --health-listen?");
    refused("word", "\"word\" is no option");
    refused("--listen", "needs a value");
    refused("--version=1", "takes no value");
    refused("--", "is no option");
}
END_TEST

START_TEST(the_nearest_name_is_found_by_edit_distance)
{
    const char *const names[] = {"listen", "limit", "insecure", NULL};
    ck_assert_str_eq(td_nearest("lmit", names), "limit");
    ck_assert_str_eq(td_nearest("INSECURE", names), "insecure");
    ck_assert_str_eq(td_nearest("lisetn", names), "listen");
    ck_assert_ptr_null(td_nearest("cursor", names));
    ck_assert_ptr_null(td_nearest("", (const char *const[]){NULL}));
}
END_TEST

START_TEST(the_state_directory_is_the_first_that_is_given)
{
    ck_assert_str_eq(td_config_state_dir(&c), "./var");
    setenv("STATE_DIRECTORY", "/var/lib/tcld:/var/lib/other", 1);
    ck_assert_str_eq(td_config_state_dir(&c), "/var/lib/tcld");
    ck_assert_int_eq(td_config_set(&c, "state_dir", "/srv", &e), 0);
    ck_assert_str_eq(td_config_state_dir(&c), "/srv");
}
END_TEST

/* ---- printing and reloading ---- */

START_TEST(what_is_printed_reads_back)
{
    struct tp_buf a = {0}, b = {0};
    char dir[TD_CONFIG_VALUE_MAX + 1];
    memset(dir, '/', sizeof dir - 1);
    dir[sizeof dir - 1] = '\0';
    ck_assert_int_eq(td_config_set(&c, "state_dir", dir, &e), 0);
    ck_assert_int_eq(td_config_set(&c, "listen", "unix:/run/a b.sock", &e), 0);
    ck_assert_int_eq(td_config_set(&c, "insecure", "true", &e), 0);
    ck_assert_int_eq(td_config_set(&c, "drain_seconds", "3600", &e), 0);
    td_config_print(&c, &a);
    tp_buf_putc(&a, '\0');
    td_config_free(&c);
    ck_assert_int_eq(td_config_defaults(&c), 0);
    ck_assert_int_eq(read_text(a.p), 0);
    td_config_print(&c, &b);
    tp_buf_putc(&b, '\0');
    ck_assert_str_eq(a.p, b.p);
    tp_buf_free(&a);
    tp_buf_free(&b);
}
END_TEST

static char changes[256];
static void on_change(void *arg, const char *key, bool reloaded)
{
    size_t n = strlen(changes);
    (void)arg;
    snprintf(changes + n, sizeof changes - n, "%s%s ", reloaded ? "+" : "-", key);
}

START_TEST(a_reload_takes_what_it_can_and_names_the_rest)
{
    struct td_config now = {0};
    ck_assert_int_eq(td_config_defaults(&now), 0);
    ck_assert_int_eq(td_config_set(&now, "listen", "127.0.0.1:1", &e), 0);
    ck_assert_int_eq(td_config_set(&now, "log_level", "debug", &e), 0);
    ck_assert_int_eq(td_config_set(&now, "predict_queue", "9", &e), 0);
    changes[0] = '\0';
    td_config_reload(&c, &now, on_change, NULL);
    ck_assert_str_eq(changes, "-listen +log_level +predict_queue ");
    ck_assert_str_eq(c.listen, "127.0.0.1:8723");
    ck_assert_str_eq(c.log_level, "debug");
    ck_assert_int_eq(c.predict_queue, 9);
    td_config_free(&now);
}
END_TEST

/* ---- what is shipped ---- */

static char *slurp(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 16);
    ck_assert_msg(f != NULL, "%s is missing: run from the root of the project", path);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_lt(fread(text, 1, (1 << 16) - 1, f), (1 << 16) - 1);
    fclose(f);
    return text;
}

/* config/tcld.conf is --print-config of the defaults behind a head, with every setting commented out. */
START_TEST(the_shipped_file_shows_every_default)
{
    struct tp_buf b = {0}, want = {0};
    char *text = slurp("config/tcld.conf");
    td_config_print(&c, &b);
    for (size_t i = 0, start = 0; i < b.n; i++) {
        if (b.p[i] != '\n')
            continue;
        if (i > start && b.p[start] != '#')
            tp_buf_putc(&want, '#');
        tp_buf_put(&want, b.p + start, i + 1 - start);
        start = i + 1;
    }
    tp_buf_putc(&want, '\0');
    const char *body = strstr(text, "\n\n");
    ck_assert_ptr_nonnull(body);
    ck_assert_str_eq(body + 2, want.p);
    free(text);
    tp_buf_free(&b);
    tp_buf_free(&want);
}
END_TEST

START_TEST(the_manual_has_every_key_with_its_default)
{
    char *text = slurp("docs/tcld.conf.5"), line[256];
    for (const char *const *k = td_config_keys; *k; k++) {
        snprintf(line, sizeof line, "\n.It Ic %s\n", *k);
        ck_assert_msg(strstr(text, line) != NULL, "docs/tcld.conf.5 lacks %s", *k);
    }
#define STR(key, def, reload, help)                                                                                    \
    snprintf(line, sizeof line, "\n.It Ic %s\n.Pq text, default %s\n", #key, *(def) ? def : "empty");                  \
    has(text, line);
#define INT(key, def, min, max, reload, help)                                                                          \
    snprintf(line, sizeof line, "\n.It Ic %s\n.Pq %lld to %lld, default %lld\n", #key, (long long)(min),               \
             (long long)(max), (long long)(def));                                                                      \
    has(text, line);
#define BOOL(key, def, reload, help)                                                                                   \
    snprintf(line, sizeof line, "\n.It Ic %s\n.Pq boolean, default %s\n", #key, (def) ? "true" : "false");             \
    has(text, line);
#include "daemon/config.def"
#undef STR
#undef INT
#undef BOOL
    size_t items = 0, keys = 0;
    for (const char *p = text; (p = strstr(p, "\n.It Ic ")) != NULL; p++)
        items++;
    while (td_config_keys[keys])
        keys++;
    ck_assert_uint_eq(items, keys); /* and no other */
    free(text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon_config");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, defaults_are_those_of_the_table);
    tcase_add_test(t, an_integer_out_of_range_is_refused_and_the_old_one_stays);
    tcase_add_test(t, a_boolean_is_one_of_four_pairs);
    tcase_add_test(t, text_that_a_file_cannot_hold_is_refused);
    tcase_add_test(t, an_unknown_key_names_the_nearest);
    tcase_add_test(t, an_address_beyond_loopback_needs_insecure);
    tcase_add_test(t, what_is_no_address_is_refused_with_the_forms);
    tcase_add_test(t, log_settings_are_words_of_a_list);
    tcase_add_test(t, a_file_sets_keys_between_comments);
    tcase_add_test(t, a_wrong_line_is_named_with_its_number);
    tcase_add_test(t, a_value_that_is_checked_at_the_end_is_named_with_its_line);
    tcase_add_test(t, a_nul_byte_is_refused_and_not_the_end_of_the_line);
    tcase_add_test(t, a_line_too_long_is_refused_and_a_long_value_or_comment_is_not);
    tcase_add_test(t, a_missing_file_is_an_error);
    tcase_add_test(t, the_environment_sets_keys_and_slips_are_told);
    tcase_add_test(t, an_option_wins_over_environment_over_file_over_default);
    tcase_add_test(t, options_take_values_in_both_forms);
    tcase_add_test(t, a_wrong_option_is_named_with_the_nearest);
    tcase_add_test(t, the_nearest_name_is_found_by_edit_distance);
    tcase_add_test(t, the_state_directory_is_the_first_that_is_given);
    tcase_add_test(t, what_is_printed_reads_back);
    tcase_add_test(t, a_reload_takes_what_it_can_and_names_the_rest);
    tcase_add_test(t, the_shipped_file_shows_every_default);
    tcase_add_test(t, the_manual_has_every_key_with_its_default);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
