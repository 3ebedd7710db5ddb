/* Opening: what is made, what is refused, and that a refusal changes nothing. */
#include "tests/unit/store_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned mode_of(const char *path)
{
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    return st.st_mode & 0777;
}

START_TEST(directory_and_files_are_the_owners_alone)
{
    char dir[96], db[128];
    struct st_store *s;
    struct tp_err e;
    sf_path(dir, "state");
    ck_assert_int_eq(st_open(dir, &s, &e), 0);
    ck_assert_uint_eq(mode_of(dir), 0700);
    snprintf(db, sizeof db, "%s/tcld.db", dir);
    ck_assert_uint_eq(mode_of(db), 0600);
    st_close(s);
    unlink(db);
    snprintf(db, sizeof db, "%s/lock", dir);
    unlink(db);
    ck_assert_int_eq(rmdir(dir), 0); /* a clean close leaves no log behind */
}
END_TEST

START_TEST(a_second_daemon_is_kept_out_until_the_first_is_gone)
{
    struct st_store *s = NULL;
    struct tp_err e;
    ck_assert_int_eq(st_open(sf_dir, &s, &e), -TP_E_CONFLICT);
    ck_assert_ptr_nonnull(strstr(e.detail, "in use by another tcld"));
    ck_assert_ptr_null(s);
    sf_reopen();
}
END_TEST

START_TEST(missing_directories_above_are_made)
{
    static const char *const below[] = {"", "/b", "/b/state", NULL};
    char dir[96], path[128];
    struct st_store *s = NULL;
    struct tp_err e;
    umask(022);
    sf_path(dir, "a");
    for (int again = 0; again < 2; again++) { /* with all of them there, too */
        snprintf(path, sizeof path, "%s//b/state/", dir);
        ck_assert_int_eq(st_open(path, &s, &e), 0);
        st_close(s);
        for (int i = 0; below[i]; i++) {
            snprintf(path, sizeof path, "%s%s", dir, below[i]);
            ck_assert_uint_eq(mode_of(path), below[i + 1] ? 0755 : 0700);
        }
    }
    for (const char *const *p = (const char *const[]){"/b/state/tcld.db", "/b/state/lock", "/b/state", "/b", "", NULL};
         *p; p++) {
        snprintf(path, sizeof path, "%s%s", dir, *p);
        ck_assert_int_eq(remove(path), 0);
    }
}
END_TEST

START_TEST(a_directory_that_cannot_be_made_is_an_error_with_a_reason)
{
    struct st_store *s = NULL;
    struct tp_err e;
    ck_assert_int_eq(st_open("/dev/null/a/state", &s, &e), -TP_E_IO);
    ck_assert_str_eq(e.detail, "a directory above the state directory cannot be made: Not a directory");
    ck_assert_int_eq(st_open("/proc/state", &s, &e), -TP_E_IO);
    ck_assert_str_eq(e.detail, "the state directory cannot be made: No such file or directory");
    ck_assert_int_eq(st_open("/dev/null", &s, &e), -TP_E_IO);
    ck_assert_str_eq(e.detail, "the state directory cannot be opened: Not a directory");
    ck_assert_ptr_null(s);
}
END_TEST

START_TEST(every_commit_is_synced_and_foreign_keys_hold)
{
    int64_t v = 0;
    struct tp_err e;
    st_writer_stop(sf_store); /* its connection is ours now */
    ck_assert_int_eq(st_db_pragma(&sf_store->db, "PRAGMA synchronous", &v, &e), 0);
    ck_assert_int_eq(v, 2); /* FULL */
    ck_assert_int_eq(st_db_pragma(&sf_store->db, "PRAGMA foreign_keys", &v, &e), 0);
    ck_assert_int_eq(v, 1);
    ck_assert_int_eq(sf_query("SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
    ck_assert_int_eq(sf_query("PRAGMA application_id"), ST_APPLICATION_ID);
    ck_assert_int_eq(sf_query("PRAGMA user_version"), ST_SCHEMA_VERSION);
}
END_TEST

START_TEST(a_reader_cannot_write)
{
    struct tp_err e;
    struct st_reader *r = sf_reader();
    ck_assert_int_lt(st_db_exec(&r->db, "DELETE FROM meta", &e), 0);
    st_reader_free(r);
}
END_TEST

/* Puts `bytes` where the database should be, sees st_open() fail with `code`, and the bytes untouched. */
static void refuse(const void *bytes, size_t n, int code, const char *text)
{
    char path[96], *back = malloc(n + 1);
    struct st_store *s = NULL;
    struct tp_err e;
    st_close(sf_store);
    sf_store = NULL;
    sf_path(path, "tcld.db");
    int fd = open(path, O_WRONLY | O_TRUNC);
    ck_assert_int_eq(write(fd, bytes, n), (ssize_t)n);
    close(fd);
    ck_assert_int_eq(st_open(sf_dir, &s, &e), -code);
    ck_assert_msg(strstr(e.detail, text) != NULL, "%s", e.detail);
    fd = open(path, O_RDONLY);
    ck_assert_int_eq(read(fd, back, n + 1), (ssize_t)n);
    close(fd);
    ck_assert_mem_eq(back, bytes, n);
    free(back);
}

START_TEST(a_file_that_is_no_database_is_refused)
{
    char text[4096];
    memset(text, 'x', sizeof text);
    refuse(text, sizeof text, TP_E_CONFIG, "not a tcld database");
}
END_TEST

/* Make a database by SQL and read its file. */
static size_t make(const char *sql, char *out, size_t n)
{
    char path[96];
    sqlite3 *h = NULL;
    sf_path(path, "other.db");
    ck_assert_int_eq(sqlite3_open(path, &h), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(h, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(h);
    int fd = open(path, O_RDONLY);
    ssize_t len = read(fd, out, n);
    close(fd);
    ck_assert(len > 0 && (size_t)len < n);
    return (size_t)len;
}

START_TEST(the_database_of_another_program_is_refused)
{
    static char bytes[65536];
    size_t n = make("CREATE TABLE bookmarks (url TEXT)", bytes, sizeof bytes);
    refuse(bytes, n, TP_E_CONFIG, "another program");
}
END_TEST

START_TEST(a_newer_schema_is_refused)
{
    static char bytes[65536];
    size_t n = make("PRAGMA application_id = 1952672868; PRAGMA user_version = 1000; CREATE TABLE meta (x)", bytes,
                    sizeof bytes);
    refuse(bytes, n, TP_E_NEWER_SCHEMA, "schema 1000, this tcld knows up to ");
}
END_TEST

START_TEST(identifiers_follow_their_grammar)
{
    static const struct {
        const char *s;
        bool ok;
    } cases[] = {
        {"a", true},    {"0", true},         {"xeon-8272", true}, {"a.b_c-d", true}, {"", false},
        {"-a", false},  {".a", false},       {"_a", false},       {"A", false},      {"a b", false},
        {"a/b", false}, {"\xc3\xa9", false}, {"a\n", false},      {"..", false},
    };
    char longest[65];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(st_id_valid(cases[i].s) == cases[i].ok, "\"%s\"", cases[i].s);
    memset(longest, 'a', sizeof longest);
    longest[64] = '\0';
    ck_assert(!st_id_valid(longest));
    longest[63] = '\0';
    ck_assert(st_id_valid(longest));
    ck_assert(!st_id_valid(NULL));
}
END_TEST

START_TEST(a_backup_is_a_whole_store)
{
    char path[96];
    struct sf_line lines[] = {{1, 1, 1e-3, 1}, {1, 2, 2e-3, 2}};
    struct tp_err e;
    sf_hardware("m1", "cpu", "cpu");
    sf_post("m1", lines, 2);
    sf_path(path, "copy");
    struct st_reader *r = sf_reader();
    ck_assert_msg(st_backup(r, path, NULL, NULL, &e) == 0, "%s", e.detail);
    ck_assert_int_eq(st_backup(r, path, NULL, NULL, &e), -TP_E_CONFLICT);
    st_reader_free(r);
    ck_assert_uint_eq(mode_of(path), 0600);
    st_close(sf_store);
    char db[96];
    sf_path(db, "tcld.db");
    ck_assert_int_eq(rename(path, db), 0);
    ck_assert_int_eq(st_open(sf_dir, &sf_store, &e), 0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM measurement"), 2);
    ck_assert_uint_eq(sf_post("m1", lines, 2).duplicates, 2);
}
END_TEST

/* What was written is in the log alone, and the log is gone under who reads it: an I/O error without an errno, since a
 * short read has none. */
static void cut_log(void)
{
    char path[96];
    sf_path(path, "tcld.db-wal");
    ck_assert_int_eq(truncate(path, 0), 0);
}

static struct st_reader *reader_of_log(void)
{
    struct tp_err e;
    st_writer_stop(sf_store); /* its connection is ours now */
    ck_assert_int_eq(
        st_db_exec(&sf_store->db, "CREATE TABLE later (x); INSERT INTO later VALUES (zeroblob(8000000))", &e), 0);
    return sf_reader();
}

START_TEST(an_errno_from_before_says_nothing_of_a_read)
{
    int64_t v = 0;
    struct st_reader *r = reader_of_log();
    cut_log();
    errno = ENOSPC;
    ck_assert_int_eq(st_db_pragma(&r->db, "SELECT count(*) FROM later", &v, NULL), -TP_E_IO);
    st_reader_free(r);
}
END_TEST

static bool cut_and_leave_an_errno(void *arg)
{
    if ((*(int *)arg)++ == 1) { /* the copy is begun */
        cut_log();
        errno = ENOSPC;
    }
    return true;
}

START_TEST(an_errno_from_before_says_nothing_of_a_backup)
{
    char path[96];
    int calls = 0;
    struct st_reader *r = reader_of_log();
    sf_path(path, "copy");
    ck_assert_int_eq(st_backup(r, path, cut_and_leave_an_errno, &calls, NULL), -TP_E_IO);
    ck_assert_int_eq(calls, 2);
    st_reader_free(r);
}
END_TEST

START_TEST(close_and_free_accept_null)
{
    st_close(NULL);
    st_reader_free(NULL);
    st_ingest_free(NULL);
    st_hardware_clear(NULL);
    st_model_clear(NULL);
    st_job_clear(NULL);
    st_evaluation_clear(NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store open");
    TCase *t = tcase_create("open");
    tcase_add_checked_fixture(t, sf_begin, sf_end);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, directory_and_files_are_the_owners_alone);
    tcase_add_test(t, a_second_daemon_is_kept_out_until_the_first_is_gone);
    tcase_add_test(t, missing_directories_above_are_made);
    tcase_add_test(t, a_directory_that_cannot_be_made_is_an_error_with_a_reason);
    tcase_add_test(t, every_commit_is_synced_and_foreign_keys_hold);
    tcase_add_test(t, a_reader_cannot_write);
    tcase_add_test(t, a_file_that_is_no_database_is_refused);
    tcase_add_test(t, the_database_of_another_program_is_refused);
    tcase_add_test(t, a_newer_schema_is_refused);
    tcase_add_test(t, identifiers_follow_their_grammar);
    tcase_add_test(t, a_backup_is_a_whole_store);
    tcase_add_test(t, an_errno_from_before_says_nothing_of_a_read);
    tcase_add_test(t, an_errno_from_before_says_nothing_of_a_backup);
    tcase_add_test(t, close_and_free_accept_null);
    suite_add_tcase(s, t);
    return sf_main(s);
}
