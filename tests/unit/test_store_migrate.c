/* Migrations, with steps made for the test behind or instead of the real ones. */
#include "tests/unit/store_fixture.h"

static const struct st_migration chain[] = {
    {1, "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL); INSERT INTO meta VALUES ('a', 1)"},
    {2, "ALTER TABLE meta ADD COLUMN note TEXT; UPDATE meta SET note = 'two'"},
    {3, "INSERT INTO meta VALUES ('b', 2, 'three')"},
};

static struct st_db db;

static int64_t ask(const char *sql)
{
    int64_t v = 0;
    struct tp_err e;
    ck_assert_msg(st_db_pragma(&db, sql, &v, &e) == 0, "%s: %s", sql, e.detail);
    return v;
}

static void setup(void)
{
    struct tp_err e;
    ck_assert_int_eq(st_db_open(&db, ":memory:", true, &e), 0);
}

static void teardown(void)
{
    st_db_close(&db);
}

START_TEST(an_older_database_gets_only_the_steps_it_lacks)
{
    struct tp_err e;
    ck_assert_int_eq(st_migrate(&db, chain, 1, &e), 0);
    ck_assert_int_eq(ask("PRAGMA user_version"), 1);
    ck_assert_int_eq(st_db_exec(&db, "UPDATE meta SET value = 7", &e), 0);
    ck_assert_int_eq(st_migrate(&db, chain, 3, &e), 0);
    ck_assert_int_eq(ask("PRAGMA user_version"), 3);
    ck_assert_int_eq(ask("SELECT value FROM meta WHERE key = 'a' AND note = 'two'"), 7);
    ck_assert_int_eq(ask("SELECT count(*) FROM meta"), 2);
}
END_TEST

START_TEST(a_database_marked_ours_but_without_a_schema_is_version_0)
{
    struct tp_err e;
    ck_assert_int_eq(
        st_db_exec(&db, "PRAGMA application_id = 1952672868; CREATE TABLE old (x); INSERT INTO old VALUES (5)", &e), 0);
    ck_assert_int_eq(st_migrate(&db, st_migrations, st_migrations_n, &e), 0);
    ck_assert_int_eq(ask("PRAGMA user_version"), ST_SCHEMA_VERSION);
    ck_assert_int_eq(ask("SELECT x FROM old"), 5);
}
END_TEST

START_TEST(up_to_date_means_no_write)
{
    struct tp_err e;
    ck_assert_int_eq(st_migrate(&db, chain, 3, &e), 0);
    int before = sqlite3_total_changes(db.h);
    int64_t schema = ask("PRAGMA schema_version");
    ck_assert_int_eq(st_migrate(&db, chain, 3, &e), 0);
    ck_assert_int_eq(sqlite3_total_changes(db.h), before);
    ck_assert_int_eq(ask("PRAGMA schema_version"), schema);
}
END_TEST

START_TEST(a_step_that_fails_leaves_the_last_good_version)
{
    static const struct st_migration bad[] = {
        {1, "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL)"},
        {2, "INSERT INTO meta VALUES ('a', 1); INSERT INTO nowhere VALUES (1)"},
        {3, "INSERT INTO meta VALUES ('b', 1)"},
    };
    struct tp_err e;
    ck_assert_int_eq(st_migrate(&db, bad, 3, &e), -TP_E_INTERNAL);
    ck_assert_int_eq(ask("PRAGMA user_version"), 1);
    ck_assert_int_eq(ask("SELECT count(*) FROM meta"), 0);
    ck_assert_int_ne(sqlite3_get_autocommit(db.h), 0);
}
END_TEST

START_TEST(a_newer_version_is_named)
{
    struct tp_err e;
    ck_assert_int_eq(st_migrate(&db, chain, 3, &e), 0);
    ck_assert_int_eq(st_migrate(&db, chain, 2, &e), -TP_E_NEWER_SCHEMA);
    ck_assert_str_eq(e.detail, "the database has schema 3, this tcld knows up to 2");
}
END_TEST

START_TEST(models_of_the_first_schema_get_room_for_offsets)
{
    struct tp_err e;
    ck_assert_int_eq(st_migrate(&db, st_migrations, 1, &e), 0);
    ck_assert_int_eq(st_db_exec(&db,
                                "INSERT INTO model VALUES (4, 'ac', 'x', 'tclf-1', 'published', 0, 9, 1, 1, '', '[]', "
                                "'{}', 0)",
                                &e),
                     0);
    ck_assert_int_eq(st_migrate(&db, st_migrations, st_migrations_n, &e), 0);
    ck_assert_int_eq(ask("PRAGMA user_version"), ST_SCHEMA_VERSION);
    ck_assert_int_eq(ask("SELECT records FROM model WHERE id = 4"), 9);
    ck_assert_int_eq(ask("SELECT count(*) FROM task_offset"), 0);
}
END_TEST

START_TEST(the_second_schema_gets_a_pool_and_keeps_its_measurements)
{
    static const char filled[] = "INSERT INTO family VALUES (1, 'cpu', NULL, 1);"
                                 "INSERT INTO hardware VALUES (3, 'x', 1, 'cpu', 'llvm', '{}', NULL, 1);"
                                 "INSERT INTO task VALUES (1, 't', 'i', 'w', 'llvm');"
                                 "INSERT INTO task_variant VALUES (1, x'01', 1, '[]', NULL);"
                                 "INSERT INTO program VALUES (1, 1, x'02', x'03'), (2, 1, x'04', x'05');"
                                 "INSERT INTO measurement VALUES (8, 3, 1, 1, 1, 5, 1e-3, 0, 1.0, 1.0, x'', NULL, 1)";
    struct tp_err e;
    ck_assert_int_eq(st_migrate(&db, st_migrations, 2, &e), 0);
    ck_assert_int_eq(st_db_exec(&db, filled, &e), 0);
    ck_assert_msg(st_migrate(&db, st_migrations, st_migrations_n, &e) == 0, "%s", e.detail);
    ck_assert_int_eq(ask("SELECT id FROM measurement"), 8);
    ck_assert_int_eq(st_db_exec(&db,
                                "INSERT INTO candidate (hardware, program, variant, state, repeat, created) "
                                "VALUES (3, 1, 1, 'pooled', 1, 1), (3, 2, 1, 'failed', 1, 1)",
                                &e),
                     0);
    ck_assert_int_eq(ask("SELECT count(*) FROM candidate_count"), 0);
}
END_TEST

START_TEST(families_of_the_third_schema_get_the_kind_of_their_hardware)
{
    static const char filled[] =
        "INSERT INTO family VALUES (1, 'f', NULL, 1), (2, 'empty', NULL, 1), (3, 'mixed', NULL, 1);"
        "INSERT INTO hardware VALUES (3, 'x', 1, 'gpu', 'cuda', '{}', NULL, 1),"
        "(4, 'y', 3, 'gpu', 'cuda', '{}', NULL, 1), (5, 'z', 3, 'cpu', 'llvm', '{}', NULL, 1)";
    struct tp_err e;
    ck_assert_int_eq(st_migrate(&db, st_migrations, 3, &e), 0);
    ck_assert_int_eq(st_db_exec(&db, filled, &e), 0);
    ck_assert_msg(st_migrate(&db, st_migrations, st_migrations_n, &e) == 0, "%s", e.detail);
    ck_assert_int_eq(ask("SELECT count(*) FROM family WHERE kind = 'gpu'"), 1);
    ck_assert_int_eq(ask("SELECT count(*) FROM family WHERE kind IS NULL"), 2);
    ck_assert_int_eq(ask("SELECT count(*) FROM hardware WHERE policy IS NULL"), 3);
    ck_assert_int_eq(ask("SELECT (SELECT count(*) FROM probe) + (SELECT count(*) FROM transfer)"), 0);
}
END_TEST

START_TEST(models_of_the_fourth_schema_that_are_active_were_activated)
{
    static const char filled[] =
        "INSERT INTO model (id, role, owner, features_version, state, job, records, tasks, created, sha256, parents, "
        "metrics, calibration) VALUES (1, 'kb', 'f', 't', 's', 0, 0, 0, 7, '', '[]', '{}', 0), "
        "(2, 'ac', 'x', 't', 's', 0, 0, 0, 8, '', '[]', '{}', 0), (3, 'ac', 'x', 't', 's', 0, 0, 0, 9, '', '[]', '{}', "
        "0);"
        "INSERT INTO family (id, name, kb_model, created) VALUES (1, 'f', 1, 1);"
        "INSERT INTO hardware (id, name, family, kind, target, descriptor, active_model, created) "
        "VALUES (3, 'x', 1, 'gpu', 'cuda', '{}', 2, 1)";
    struct tp_err e;
    ck_assert_int_eq(st_migrate(&db, st_migrations, 4, &e), 0);
    ck_assert_msg(st_db_exec(&db, filled, &e) == 0, "%s", e.detail);
    ck_assert_msg(st_migrate(&db, st_migrations, st_migrations_n, &e) == 0, "%s", e.detail);
    ck_assert_int_eq(ask("SELECT activated FROM model WHERE id = 1"), 7000);
    ck_assert_int_eq(ask("SELECT activated FROM model WHERE id = 2"), 8000);
    ck_assert_int_eq(ask("SELECT activated IS NULL FROM model WHERE id = 3"), 1);
}
END_TEST

START_TEST(versions_count_up_from_one)
{
    for (int i = 0; i < st_migrations_n; i++)
        ck_assert_int_eq(st_migrations[i].version, i + 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store migrate");
    TCase *t = tcase_create("migrate");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, an_older_database_gets_only_the_steps_it_lacks);
    tcase_add_test(t, a_database_marked_ours_but_without_a_schema_is_version_0);
    tcase_add_test(t, up_to_date_means_no_write);
    tcase_add_test(t, a_step_that_fails_leaves_the_last_good_version);
    tcase_add_test(t, a_newer_version_is_named);
    tcase_add_test(t, models_of_the_first_schema_get_room_for_offsets);
    tcase_add_test(t, the_second_schema_gets_a_pool_and_keeps_its_measurements);
    tcase_add_test(t, families_of_the_third_schema_get_the_kind_of_their_hardware);
    tcase_add_test(t, models_of_the_fourth_schema_that_are_active_were_activated);
    tcase_add_test(t, versions_count_up_from_one);
    suite_add_tcase(s, t);
    return sf_main(s);
}
