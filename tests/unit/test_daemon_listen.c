/* Addresses and listening sockets. Sockets are made in a directory of the test's own or on ports that the kernel picks.
 */
#include "daemon/listen.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64], path[96], text[128];
static struct tp_err e;

static void setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/tcld-listen-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/s", dir);
    snprintf(text, sizeof text, "unix:%s", path);
}

static void teardown(void)
{
    unlink(path);
    rmdir(dir);
}

/* Uses nothing of Check: also called where Check's descriptors are gone. */
static bool connects(const char *address)
{
    struct td_addr a;
    if (td_addr_parse(address, &a, &e) != 0)
        return false;
    int fd = socket(a.sa.ss_family, SOCK_STREAM, 0);
    bool ok = connect(fd, (struct sockaddr *)&a.sa, a.len) == 0;
    close(fd);
    return ok;
}

START_TEST(addresses_print_as_they_parse)
{
    const char *const same[] = {"127.0.0.1:8723", "[::1]:80", "0.0.0.0:0", "unix:/run/tcld.sock"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct td_addr a;
        char out[128];
        ck_assert_int_eq(td_addr_parse(same[i], &a, &e), 0);
        td_addr_print((struct sockaddr *)&a.sa, a.len, out, sizeof out);
        ck_assert_str_eq(out, same[i]);
    }
}
END_TEST

START_TEST(only_this_machine_is_loopback)
{
    const char *const yes[] = {"127.0.0.1:1",          "127.255.0.1:1", "[::1]:1",
                               "[::ffff:127.0.0.1]:1", "localhost:1",   "unix:x"};
    const char *const no[] = {"0.0.0.0:1", "128.0.0.1:1", "[::]:1", "[::ffff:10.0.0.1]:1", "[fe80::1]:1"};
    struct td_addr a;
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        ck_assert_msg(td_addr_parse(yes[i], &a, &e) == 0 && a.loopback, "%s", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        ck_assert_msg(td_addr_parse(no[i], &a, &e) == 0 && !a.loopback, "%s", no[i]);
}
END_TEST

START_TEST(port_0_is_replaced_by_the_kernels_choice)
{
    struct td_listener l;
    char want[32];
    ck_assert_int_eq(td_listen("127.0.0.1:0", &l, &e), 0);
    ck_assert_int_gt(l.port, 0);
    snprintf(want, sizeof want, "127.0.0.1:%d", l.port);
    ck_assert_str_eq(l.address, want);
    ck_assert(connects(l.address));
    td_listener_shut(&l);
    ck_assert(!connects(want)); /* though the descriptor is open */
    ck_assert_int_ge(l.fd, 0);
    td_listener_close(&l);
    ck_assert_int_eq(l.fd, -1);
    td_listener_close(&l);
}
END_TEST

START_TEST(an_address_in_use_is_an_error)
{
    struct td_listener l, other;
    ck_assert_int_eq(td_listen("127.0.0.1:0", &l, &e), 0);
    td_listener_init(&other);
    ck_assert_int_eq(td_listen(l.address, &other, &e), -TP_E_CONFIG);
    ck_assert_int_eq(other.fd, -1);
    td_listener_close(&l);
}
END_TEST

START_TEST(a_unix_socket_is_closed_to_others_and_removed_at_the_end)
{
    struct td_listener l;
    struct stat st;
    ck_assert_int_eq(td_listen(text, &l, &e), 0);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0660);
    ck_assert_int_eq(l.port, 0);
    ck_assert(connects(text));
    td_listener_close(&l);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(a_stale_socket_is_replaced_and_a_live_one_is_not)
{
    struct td_listener l, again;
    ck_assert_int_eq(td_listen(text, &l, &e), 0);
    ck_assert_int_eq(td_listen(text, &again, &e), -TP_E_CONFIG);
    close(l.fd); /* as a crash would */
    ck_assert_int_eq(access(path, F_OK), 0);
    ck_assert_int_eq(td_listen(text, &again, &e), 0);
    ck_assert(connects(text));
    td_listener_close(&again);
}
END_TEST

START_TEST(a_file_that_is_no_socket_is_left_alone)
{
    struct td_listener l;
    FILE *f = fopen(path, "w");
    fputs("precious", f);
    fclose(f);
    ck_assert_int_eq(td_listen(text, &l, &e), -TP_E_CONFIG);
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_size, 8);
}
END_TEST

START_TEST(sockets_of_another_process_are_not_taken)
{
    struct td_listener l[TD_LISTENERS_MAX];
    setenv("LISTEN_PID", "1", 1);
    setenv("LISTEN_FDS", "1", 1);
    ck_assert_int_eq(td_listen_inherited(l, false, &e), 0);
    unsetenv("LISTEN_PID");
    ck_assert_int_eq(td_listen_inherited(l, false, &e), 0);
}
END_TEST

/* Runs `see` in a process that has listening sockets where systemd would put them: descriptors 3 and up are Check's own
 * in this one. */
static int in_unit(const char *const *addresses, int n, const char *names, bool (*see)(void))
{
    int status = -1;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        char number[16];
        struct td_listener l;
        for (int i = 0; i < n; i++)
            if (td_listen(addresses[i], &l, &e) != 0 || dup2(l.fd, 20 + i) < 0 || close(l.fd) != 0)
                _exit(2);
        for (int i = 0; i < n; i++)
            dup2(20 + i, 3 + i);
        snprintf(number, sizeof number, "%d", (int)getpid());
        setenv("LISTEN_PID", number, 1);
        snprintf(number, sizeof number, "%d", n);
        setenv("LISTEN_FDS", number, 1);
        setenv("LISTEN_FDNAMES", names, 1);
        _exit(see() ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static bool takes_both(void)
{
    struct td_listener l[TD_LISTENERS_MAX];
    if (td_listen_inherited(l, false, &e) != 2 || l[0].fd != 3 || l[0].health || !l[1].health || !l[0].inherited ||
        l[0].port <= 0 || getenv("LISTEN_FDS"))
        return false;
    td_listener_shut(&l[0]);
    return connects(l[0].address); /* systemd goes on listening */
}

START_TEST(sockets_from_systemd_are_taken_with_their_names)
{
    ck_assert_int_eq(in_unit((const char *const[]){"127.0.0.1:0", "127.0.0.1:0"}, 2, "tcld.socket:health", takes_both),
                     0);
}
END_TEST

static bool refuses(void)
{
    struct td_listener l[TD_LISTENERS_MAX];
    return td_listen_inherited(l, false, &e) == -TP_E_CONFIG && strstr(e.detail, "insecure = true");
}

static bool takes_insecure(void)
{
    struct td_listener l[TD_LISTENERS_MAX];
    return td_listen_inherited(l, true, &e) == 1;
}

START_TEST(a_socket_from_systemd_that_others_reach_needs_insecure)
{
    ck_assert_int_eq(in_unit((const char *const[]){"0.0.0.0:0"}, 1, "x", refuses), 0);
    ck_assert_int_eq(in_unit((const char *const[]){"0.0.0.0:0"}, 1, "x", takes_insecure), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon_listen");
    TCase *c = tcase_create("all");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, addresses_print_as_they_parse);
    tcase_add_test(c, only_this_machine_is_loopback);
    tcase_add_test(c, port_0_is_replaced_by_the_kernels_choice);
    tcase_add_test(c, an_address_in_use_is_an_error);
    tcase_add_test(c, a_unix_socket_is_closed_to_others_and_removed_at_the_end);
    tcase_add_test(c, a_stale_socket_is_replaced_and_a_live_one_is_not);
    tcase_add_test(c, a_file_that_is_no_socket_is_left_alone);
    tcase_add_test(c, sockets_of_another_process_are_not_taken);
    tcase_add_test(c, sockets_from_systemd_are_taken_with_their_names);
    tcase_add_test(c, a_socket_from_systemd_that_others_reach_needs_insecure);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
