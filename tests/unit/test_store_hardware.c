/* Hardware and families: put, list, delete, purge. */
#include "tests/unit/store_fixture.h"

#include <stdio.h>
#include <string.h>

static struct st_reader *reader;

static void setup(void)
{
    sf_begin();
    reader = sf_reader();
}

static void teardown(void)
{
    st_reader_free(reader);
    sf_end();
}

static struct st_hardware hw(const char *name, const char *family, const char *kind)
{
    struct st_hardware h = {.target = (char *)"llvm -mcpu=core-avx2",
                            .descriptor = (char *)"{\"x\": [1, \"\xc3\xa9\"]}"};
    snprintf(h.name, sizeof h.name, "%s", name);
    snprintf(h.family, sizeof h.family, "%s", family);
    snprintf(h.kind, sizeof h.kind, "%s", kind);
    return h;
}

static int put(struct st_hardware h, bool *created)
{
    struct tp_err e;
    return st_hardware_put(sf_store, &h, created, &e);
}

START_TEST(what_was_put_is_what_is_got)
{
    struct st_hardware got;
    struct tp_err e;
    bool created = false;
    ck_assert_int_eq(put(hw("xeon-8272", "cpu", "cpu"), &created), 0);
    ck_assert(created);
    ck_assert_int_eq(st_hardware_get(reader, "xeon-8272", &got, &e), 0);
    ck_assert_str_eq(got.name, "xeon-8272");
    ck_assert_str_eq(got.family, "cpu");
    ck_assert_str_eq(got.kind, "cpu");
    ck_assert_str_eq(got.target, "llvm -mcpu=core-avx2");
    ck_assert_str_eq(got.descriptor, "{\"x\": [1, \"\xc3\xa9\"]}");
    ck_assert_int_eq(got.active_model, 0);
    ck_assert_int_gt(got.created, 1600000000);
    st_hardware_clear(&got);
}
END_TEST

START_TEST(a_second_put_updates_and_keeps_id_and_age)
{
    struct st_hardware a, b, h = hw("x", "cpu", "cpu");
    struct tp_err e;
    bool created = true;
    put(h, &created);
    ck_assert_int_eq(st_hardware_get(reader, "x", &a, &e), 0);
    h.target = (char *)"llvm -mcpu=znver4";
    h.descriptor = NULL;
    snprintf(h.family, sizeof h.family, "zen");
    ck_assert_int_eq(put(h, &created), 0);
    ck_assert(!created);
    ck_assert_int_eq(st_hardware_get(reader, "x", &b, &e), 0);
    ck_assert_int_eq(a.id, b.id);
    ck_assert_int_eq(a.created, b.created);
    ck_assert_str_eq(b.target, "llvm -mcpu=znver4");
    ck_assert_str_eq(b.descriptor, "{}");
    ck_assert_str_eq(b.family, "zen");
    st_hardware_clear(&a);
    st_hardware_clear(&b);
}
END_TEST

START_TEST(bad_names_and_kinds_are_refused)
{
    bool created = false;
    struct st_hardware h = hw("x", "cpu", "cpu");
    ck_assert_int_eq(put(hw("X", "cpu", "cpu"), &created), -TP_E_BAD_IDENTIFIER);
    ck_assert_int_eq(put(hw("x", "", "cpu"), &created), -TP_E_BAD_IDENTIFIER);
    ck_assert_int_eq(put(hw("x", "cpu", "tpu"), &created), -TP_E_BAD_PARAMETER);
    h.target = NULL;
    ck_assert_int_eq(put(h, &created), -TP_E_BAD_PARAMETER);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM hardware"), 0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM family"), 0);
}
END_TEST

static void give_model(const char *role, const char *owner, bool activate)
{
    struct st_model m = {.features_version = "tclf-1", .state = "published", .sha256 = "00"};
    struct tp_err e;
    snprintf(m.role, sizeof m.role, "%s", role);
    snprintf(m.owner, sizeof m.owner, "%s", owner);
    ck_assert_int_eq(st_model_reserve(sf_store, &m.id, &e), 0);
    ck_assert_msg(st_model_insert(sf_store, &m, activate, &e) == 0, "%s", e.detail);
}

START_TEST(family_and_kind_stay_while_there_are_models)
{
    bool created = false;
    put(hw("x", "cpu", "cpu"), &created);
    give_model("kb", "cpu", true); /* the family's, not x's */
    ck_assert_int_eq(put(hw("x", "cpu2", "cpu"), &created), 0);
    give_model("ac", "x", false);
    ck_assert_int_eq(put(hw("x", "cpu", "cpu"), &created), -TP_E_CONFLICT);
    ck_assert_int_eq(put(hw("x", "cpu2", "gpu"), &created), -TP_E_CONFLICT);
    ck_assert_int_eq(put(hw("x", "cpu2", "cpu"), &created), 0);
    ck_assert(!created);
}
END_TEST

struct names {
    int n, stop;
    char name[8][ST_ID_MAX + 1];
    int64_t kb, hardware;
};

static int see(void *arg, const struct st_hardware *h)
{
    struct names *a = arg;
    snprintf(a->name[a->n++], sizeof a->name[0], "%s", h->name);
    return a->n == a->stop;
}

START_TEST(lists_are_pages_by_name)
{
    struct names a = {0};
    struct tp_err e;
    bool created;
    put(hw("c", "cpu", "cpu"), &created);
    put(hw("a", "cpu", "cpu"), &created);
    put(hw("b", "gpu", "gpu"), &created);
    ck_assert_int_eq(st_hardware_list(reader, "", 2, see, &a, &e), 0);
    ck_assert_int_eq(st_hardware_list(reader, a.name[1], 2, see, &a, &e), 0);
    ck_assert_int_eq(a.n, 3);
    ck_assert_str_eq(a.name[0], "a");
    ck_assert_str_eq(a.name[1], "b");
    ck_assert_str_eq(a.name[2], "c");
    a = (struct names){.stop = 1};
    ck_assert_int_eq(st_hardware_list(reader, "", 10, see, &a, &e), 0);
    ck_assert_int_eq(a.n, 1);
}
END_TEST

static int see_family(void *arg, const struct st_family *f)
{
    struct names *a = arg;
    snprintf(a->name[a->n++], sizeof a->name[0], "%s", f->name);
    a->kb = f->kb_model;
    a->hardware = f->hardware;
    return a->n == a->stop;
}

START_TEST(families_are_listed_with_their_size_and_kb)
{
    struct names a = {0};
    struct tp_err e;
    bool created;
    put(hw("a", "gpu", "gpu"), &created);
    put(hw("b", "cpu", "cpu"), &created);
    put(hw("c", "gpu", "gpu"), &created);
    give_model("kb", "gpu", true);
    ck_assert_int_eq(st_family_list(reader, "", 10, see_family, &a, &e), 0);
    ck_assert_int_eq(a.n, 2);
    ck_assert_str_eq(a.name[0], "cpu");
    ck_assert_str_eq(a.name[1], "gpu");
    ck_assert_int_eq(a.kb, 1);
    ck_assert_int_eq(a.hardware, 2);
}
END_TEST

START_TEST(unknown_hardware_is_an_error_everywhere)
{
    struct st_hardware h;
    struct st_counts c;
    struct tp_err e;
    ck_assert_int_eq(st_hardware_get(reader, "x", &h, &e), -TP_E_UNKNOWN_HARDWARE);
    ck_assert_ptr_nonnull(strstr(e.detail, "\"x\""));
    ck_assert_int_eq(st_hardware_delete(sf_store, "x", false, &e), -TP_E_UNKNOWN_HARDWARE);
    ck_assert_int_eq(st_hardware_delete(sf_store, "x", true, &e), -TP_E_UNKNOWN_HARDWARE);
    ck_assert_int_eq(st_hardware_counts(reader, 99, &c, &e), 0);
    ck_assert_int_eq(c.measurements, 0);
}
END_TEST

/* Rows of every kind that hang on a hardware. */
static int fill(struct st_db *db, void *arg, struct tp_err *e)
{
    (void)arg;
    return st_db_exec(
        db,
        "INSERT INTO lease (token, hardware, agent, open, ttl, created, expires) SELECT 'l' || id, id, 'a', 4, 1, 1, 2 "
        "FROM hardware;"
        "INSERT INTO candidate (hardware, program, variant, state, repeat, lease, created) "
        "SELECT m.hardware, m.program, m.variant, 'leased', 1, l.id, 1 FROM measurement m JOIN lease l ON "
        "l.hardware = m.hardware WHERE 1 ON CONFLICT DO NOTHING;"
        "INSERT INTO evaluation (hardware, model, job, created, result) SELECT h.id, m.id, 0, 1, '{}' FROM "
        "hardware h, model m;"
        "INSERT INTO candidate_count SELECT hardware, state, count(*) FROM candidate GROUP BY hardware, state;"
        "INSERT INTO task_offset (model, hardware, task_id, ln_offset, programs, measurements) "
        "SELECT m.id, h.id, 't', 0.5, 9, 9 FROM hardware h, model m",
        e);
}

static void populate(void)
{
    struct sf_line lines[] = {{1, 1, 1e-3, 1}, {1, 2, 1e-3, 2}, {2, 1, 1e-3, 3}, {3, 1, 0, 4}};
    struct st_job j = {.kind = "retrain", .state = "succeeded"};
    struct tp_err e;
    bool created;
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "y" : "x";
        put(hw(name, "cpu", "cpu"), &created);
        sf_post(name, lines, 4);
        snprintf(j.hardware, sizeof j.hardware, "%s", name);
        ck_assert_int_eq(st_job_insert(sf_store, &j, &e), 0);
        give_model("ac", name, true);
    }
    give_model("kb", "cpu", true);
    ck_assert_msg(st_write(sf_store, fill, NULL, &e) == 0, "%s", e.detail);
}

START_TEST(delete_is_refused_while_there_are_measurements)
{
    struct tp_err e;
    populate();
    ck_assert_int_eq(st_hardware_delete(sf_store, "x", false, &e), -TP_E_CONFLICT);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM measurement"), 8);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM hardware"), 2);
}
END_TEST

START_TEST(a_purge_takes_everything_of_one_hardware_and_nothing_of_another)
{
    struct tp_err e;
    int64_t kb = 0;
    populate();
    ck_assert_msg(st_hardware_delete(sf_store, "x", true, &e) == 0, "%s", e.detail);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM hardware"), 1);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM measurement"), 4);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM hardware_task"), 3);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM candidate"), 4);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM lease"), 1);
    ck_assert_int_eq(sf_query("SELECT sum(n) FROM candidate_count"), 4);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM model"), 2);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM evaluation"), 2);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM task_offset"), 2);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM job"), 1);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM pragma_foreign_key_check"), 0);
    ck_assert_int_eq(st_family_kb(reader, "cpu", &kb, &e), 0);
    ck_assert_int_eq(kb, 3);
}
END_TEST

START_TEST(deleting_without_measurements_needs_no_purge)
{
    struct tp_err e;
    bool created;
    put(hw("x", "cpu", "cpu"), &created);
    give_model("ac", "x", true);
    ck_assert_int_eq(st_hardware_delete(sf_store, "x", false, &e), 0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM model"), 0);
}
END_TEST

START_TEST(measurements_can_come_again_after_a_purge)
{
    struct sf_line line = {1, 1, 1e-3, 1};
    struct tp_err e;
    bool created;
    put(hw("x", "cpu", "cpu"), &created);
    sf_post("x", &line, 1);
    int64_t before = sf_query("SELECT max(id) FROM measurement");
    ck_assert_int_eq(st_hardware_delete(sf_store, "x", true, &e), 0);
    ck_assert_int_eq(sf_post("x", &line, 1).code, -TP_E_UNKNOWN_HARDWARE);
    put(hw("x", "cpu", "cpu"), &created);
    ck_assert(created);
    ck_assert_uint_eq(sf_post("x", &line, 1).accepted, 1);
    ck_assert_int_gt(sf_query("SELECT max(id) FROM measurement"), before);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store hardware");
    TCase *t = tcase_create("hardware");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, what_was_put_is_what_is_got);
    tcase_add_test(t, a_second_put_updates_and_keeps_id_and_age);
    tcase_add_test(t, bad_names_and_kinds_are_refused);
    tcase_add_test(t, family_and_kind_stay_while_there_are_models);
    tcase_add_test(t, lists_are_pages_by_name);
    tcase_add_test(t, families_are_listed_with_their_size_and_kb);
    tcase_add_test(t, unknown_hardware_is_an_error_everywhere);
    tcase_add_test(t, delete_is_refused_while_there_are_measurements);
    tcase_add_test(t, a_purge_takes_everything_of_one_hardware_and_nothing_of_another);
    tcase_add_test(t, deleting_without_measurements_needs_no_purge);
    tcase_add_test(t, measurements_can_come_again_after_a_purge);
    suite_add_tcase(s, t);
    return sf_main(s);
}
