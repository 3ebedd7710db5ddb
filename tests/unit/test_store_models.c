/* Models: ids, rows, who answers. */
#include "tests/unit/store_fixture.h"

#include <stdio.h>
#include <string.h>

static struct st_reader *reader;

static void setup(void)
{
    sf_begin();
    reader = sf_reader();
    sf_hardware("x", "cpu", "cpu");
    sf_hardware("y", "cpu", "cpu");
    sf_hardware("g", "gpu", "gpu");
}

static void teardown(void)
{
    st_reader_free(reader);
    sf_end();
}

static struct st_model model(const char *role, const char *owner)
{
    struct st_model m = {.features_version = "tclf-1",
                         .state = "candidate",
                         .job = 5,
                         .records = 100,
                         .tasks = 7,
                         .created = 1700000000,
                         .sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                         .parents = (char *)"[1, 2]",
                         .metrics = (char *)"{\"top1\": 0.9}",
                         .calibration = 1};
    struct tp_err e;
    snprintf(m.role, sizeof m.role, "%s", role);
    snprintf(m.owner, sizeof m.owner, "%s", owner);
    ck_assert_int_eq(st_model_reserve(sf_store, &m.id, &e), 0);
    return m;
}

static int insert(const struct st_model *m, bool activate)
{
    struct tp_err e;
    return st_model_insert(sf_store, m, activate, &e);
}

static int64_t active(const char *name)
{
    struct st_hardware h = {0};
    struct tp_err e;
    ck_assert_int_eq(st_hardware_get(reader, name, &h, &e), 0);
    int64_t id = h.active_model;
    st_hardware_clear(&h);
    return id;
}

static int64_t kb(const char *family)
{
    int64_t id = -1;
    struct tp_err e;
    ck_assert_int_eq(st_family_kb(reader, family, &id, &e), 0);
    return id;
}

START_TEST(a_reserved_id_is_never_given_again)
{
    int64_t a = 0, b = 0, c = 0;
    struct tp_err e;
    ck_assert_int_eq(st_model_reserve(sf_store, &a, &e), 0);
    ck_assert_int_eq(st_model_reserve(sf_store, &b, &e), 0);
    sf_reopen(); /* its row never came */
    ck_assert_int_eq(st_model_reserve(sf_store, &c, &e), 0);
    ck_assert_int_eq(a, 1);
    ck_assert_int_eq(b, 2);
    ck_assert_int_eq(c, 3);
}
END_TEST

START_TEST(what_was_inserted_is_what_is_got)
{
    struct st_model m = model("ac", "x"), got;
    struct tp_err e;
    ck_assert_int_eq(insert(&m, false), 0);
    ck_assert_int_eq(st_model_get(reader, m.id, &got, &e), 0);
    ck_assert_str_eq(got.role, "ac");
    ck_assert_str_eq(got.owner, "x");
    ck_assert_str_eq(got.features_version, "tclf-1");
    ck_assert_str_eq(got.state, "candidate");
    ck_assert_int_eq(got.job, 5);
    ck_assert_int_eq(got.records, 100);
    ck_assert_int_eq(got.tasks, 7);
    ck_assert_int_eq(got.created, 1700000000);
    ck_assert_str_eq(got.sha256, m.sha256);
    ck_assert_str_eq(got.parents, "[1, 2]");
    ck_assert_str_eq(got.metrics, "{\"top1\": 0.9}");
    ck_assert_int_eq(got.calibration, 1);
    st_model_clear(&got);
    ck_assert_int_eq(active("x"), 0);
    ck_assert_int_eq(st_model_get(reader, 999, &got, &e), -TP_E_UNKNOWN_MODEL);
}
END_TEST

START_TEST(activation_comes_with_the_row_or_later)
{
    struct st_model a = model("ac", "x"), b = model("ac", "x"), k = model("kb", "cpu");
    struct tp_err e;
    ck_assert_int_eq(insert(&a, true), 0);
    ck_assert_int_eq(active("x"), a.id);
    ck_assert_int_eq(insert(&b, false), 0);
    ck_assert_int_eq(active("x"), a.id);
    ck_assert_int_eq(st_model_activate(sf_store, "x", b.id, &e), 0);
    ck_assert_int_eq(active("x"), b.id);
    ck_assert_int_eq(st_model_activate(sf_store, "x", a.id, &e), 0); /* rollback */
    ck_assert_int_eq(active("x"), a.id);
    ck_assert_int_eq(active("y"), 0);
    ck_assert_int_eq(kb("cpu"), 0);
    ck_assert_int_eq(insert(&k, true), 0);
    ck_assert_int_eq(kb("cpu"), k.id);
    ck_assert_int_eq(active("x"), a.id);
}
END_TEST

START_TEST(a_kb_is_activated_through_any_hardware_of_its_family)
{
    struct st_model a = model("kb", "cpu"), b = model("kb", "cpu");
    struct tp_err e;
    insert(&a, true);
    insert(&b, true);
    ck_assert_int_eq(st_model_activate(sf_store, "y", a.id, &e), 0);
    ck_assert_int_eq(kb("cpu"), a.id);
    ck_assert_int_eq(kb("gpu"), 0);
    ck_assert_int_eq(st_model_activate(sf_store, "g", a.id, &e), -TP_E_CONFLICT);
}
END_TEST

START_TEST(the_model_of_another_hardware_is_a_conflict)
{
    struct st_model a = model("ac", "x");
    struct tp_err e;
    insert(&a, false);
    ck_assert_int_eq(st_model_activate(sf_store, "y", a.id, &e), -TP_E_CONFLICT);
    ck_assert_ptr_nonnull(strstr(e.detail, "belongs to \"x\""));
    ck_assert_int_eq(st_model_activate(sf_store, "nobody", a.id, &e), -TP_E_UNKNOWN_HARDWARE);
    ck_assert_int_eq(st_model_activate(sf_store, "x", 99, &e), -TP_E_UNKNOWN_MODEL);
}
END_TEST

START_TEST(a_model_needs_an_owner_a_role_and_an_id)
{
    struct st_model m = model("ac", "nobody");
    ck_assert_int_eq(insert(&m, false), -TP_E_UNKNOWN_HARDWARE);
    m = model("kb", "nobody");
    ck_assert_int_eq(insert(&m, false), -TP_E_UNKNOWN_FAMILY);
    m = model("xx", "x");
    ck_assert_int_eq(insert(&m, false), -TP_E_BAD_PARAMETER);
    m = model("ac", "x");
    m.id = 0;
    ck_assert_int_eq(insert(&m, false), -TP_E_BAD_PARAMETER);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM model"), 0);
}
END_TEST

START_TEST(only_a_newer_calibration_takes_the_place_of_a_row)
{
    struct st_model m = model("ac", "x"), got;
    struct tp_err e;
    ck_assert_int_eq(insert(&m, true), 0);
    ck_assert_int_eq(insert(&m, false), -TP_E_CONFLICT);
    m.calibration = 2;
    m.metrics = (char *)"{}";
    snprintf(m.owner, sizeof m.owner, "y");
    ck_assert_int_eq(insert(&m, false), -TP_E_CONFLICT);
    snprintf(m.owner, sizeof m.owner, "x");
    ck_assert_int_eq(insert(&m, false), 0);
    ck_assert_int_eq(st_model_get(reader, m.id, &got, &e), 0);
    ck_assert_int_eq(got.calibration, 2);
    ck_assert_str_eq(got.metrics, "{}");
    st_model_clear(&got);
    ck_assert_int_eq(active("x"), m.id);
}
END_TEST

START_TEST(an_id_from_elsewhere_moves_the_counter)
{
    struct st_model m = model("ac", "x");
    int64_t next = 0;
    struct tp_err e;
    m.id = 40;
    ck_assert_int_eq(insert(&m, false), 0);
    ck_assert_int_eq(st_model_reserve(sf_store, &next, &e), 0);
    ck_assert_int_eq(next, 41);
}
END_TEST

struct ids {
    int n, stop;
    int64_t id[16];
};

static int see(void *arg, const struct st_model *m)
{
    struct ids *a = arg;
    a->id[a->n++] = m->id;
    return a->n == a->stop;
}

static struct ids list(const char *role, const char *owner, int64_t before, int limit)
{
    struct ids a = {0};
    struct tp_err e;
    ck_assert_int_eq(st_model_list(reader, role, owner, before, limit, see, &a, &e), 0);
    return a;
}

START_TEST(lists_are_newest_first_in_pages_and_filtered)
{
    static const char *const who[][2] = {{"ac", "x"}, {"ac", "y"}, {"kb", "cpu"}, {"ac", "x"}, {"kb", "gpu"}};
    for (int i = 0; i < 5; i++) {
        struct st_model m = model(who[i][0], who[i][1]);
        ck_assert_int_eq(insert(&m, false), 0);
    }
    struct ids a = list(NULL, NULL, 0, 3), b = list(NULL, NULL, a.id[2], 3);
    ck_assert_int_eq(a.n, 3);
    ck_assert_int_eq(b.n, 2);
    ck_assert_int_eq(a.id[0], 5);
    ck_assert_int_eq(b.id[1], 1);
    a = list("ac", "x", 0, 10);
    ck_assert_int_eq(a.n, 2);
    ck_assert_int_eq(a.id[0], 4);
    ck_assert_int_eq(a.id[1], 1);
    ck_assert_int_eq(list("kb", NULL, 0, 10).n, 2);
    ck_assert_int_eq(list(NULL, "y", 0, 10).n, 1);
    ck_assert_int_eq(list("kb", "x", 0, 10).n, 0);
}
END_TEST

/* ---- offsets ---- */

static const struct st_offset two[] = {{"aaaaaaaaaaaaaaaa", 0.25, 6, 7}, {"bbbbbbbbbbbbbbbb", -0.5, 3, 5}};

/* "hardware task offset programs measurements" a line, and the calibration. */
static int print_offset(void *arg, int64_t hw, const struct st_offset *o)
{
    tp_buf_printf(arg, "%lld %.4s %g %lld %lld\n", (long long)hw, o->task_id, o->offset, (long long)o->programs,
                  (long long)o->measurements);
    return 0;
}

static const char *offsets(int64_t id, struct tp_buf *b)
{
    struct tp_err e;
    int calibration = -1;
    b->n = 0;
    ck_assert_msg(st_offset_list(reader, id, print_offset, b, &calibration, &e) == 0, "%s", e.detail);
    tp_buf_printf(b, "calibration %d", calibration);
    tp_buf_putc(b, '\0');
    return b->p;
}

START_TEST(offsets_come_with_their_model)
{
    struct st_model m = model("ac", "y"), k = model("kb", "cpu");
    struct tp_buf b = {0};
    struct tp_err e;
    int calibration;
    ck_assert_int_eq(st_model_insert_with(sf_store, &m, 0, true, two, 2, &e), 0);
    ck_assert_str_eq(offsets(m.id, &b), "2 aaaa 0.25 6 7\n2 bbbb -0.5 3 5\ncalibration 1");
    ck_assert_int_eq(st_model_insert_with(sf_store, &k, 0, true, two, 2, &e), -TP_E_BAD_PARAMETER);
    ck_assert_int_eq(insert(&k, true), 0);
    ck_assert_str_eq(offsets(k.id, &b), "calibration 1");
    ck_assert_int_eq(st_offset_list(reader, 99, print_offset, &b, &calibration, &e), -TP_E_UNKNOWN_MODEL);
    tp_buf_free(&b);
}
END_TEST

START_TEST(a_refused_model_leaves_no_offsets)
{
    struct st_model m = model("ac", "x");
    struct tp_err e;
    ck_assert_int_eq(insert(&m, false), 0);
    ck_assert_int_eq(st_model_insert_with(sf_store, &m, 0, true, two, 2, &e), -TP_E_CONFLICT);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM task_offset"), 0);
}
END_TEST

START_TEST(a_model_is_not_for_hardware_that_only_has_the_name)
{
    struct st_model m = model("ac", "x");
    struct tp_err e;
    int64_t id = sf_hardware_id("x");
    ck_assert_int_eq(st_model_insert_with(sf_store, &m, id + 1000, true, two, 2, &e), -TP_E_UNKNOWN_HARDWARE);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM model"), 0);
    ck_assert_int_eq(st_model_insert_with(sf_store, &m, id, true, two, 2, &e), 0);
}
END_TEST

START_TEST(new_offsets_count_the_calibration_up_and_leave_other_tasks_alone)
{
    static const struct st_offset more[] = {{"bbbbbbbbbbbbbbbb", 0.75, 10, 10}, {"cccccccccccccccc", 1, 5, 5}};
    struct st_model m = model("ac", "x");
    struct tp_buf b = {0};
    struct tp_err e;
    struct st_model got;
    int calibration = 0;
    ck_assert_int_eq(st_model_insert_with(sf_store, &m, 0, true, two, 2, &e), 0);
    ck_assert_int_eq(st_offset_put(sf_store, m.id, 1, more, 2, &calibration, &e), 0);
    ck_assert_int_eq(calibration, 2);
    ck_assert_str_eq(offsets(m.id, &b), "1 aaaa 0.25 6 7\n1 bbbb 0.75 10 10\n1 cccc 1 5 5\ncalibration 2");
    ck_assert_int_eq(st_model_get(reader, m.id, &got, &e), 0);
    ck_assert_int_eq(got.calibration, 2);
    st_model_clear(&got);
    tp_buf_free(&b);
}
END_TEST

START_TEST(a_kb_has_offsets_for_each_hardware)
{
    struct st_model k = model("kb", "cpu");
    struct tp_buf b = {0};
    struct tp_err e;
    int calibration = 0;
    ck_assert_int_eq(insert(&k, true), 0);
    ck_assert_int_eq(st_offset_put(sf_store, k.id, 2, two, 1, &calibration, &e), 0);
    ck_assert_int_eq(st_offset_put(sf_store, k.id, 1, two, 1, &calibration, &e), 0);
    ck_assert_str_eq(offsets(k.id, &b), "1 aaaa 0.25 6 7\n2 aaaa 0.25 6 7\ncalibration 3");
    ck_assert_int_eq(st_hardware_delete(sf_store, "x", true, &e), 0);
    ck_assert_str_eq(offsets(k.id, &b), "2 aaaa 0.25 6 7\ncalibration 3");
    ck_assert_int_eq(st_offset_put(sf_store, k.id, 1, two, 1, &calibration, &e), -TP_E_UNKNOWN_HARDWARE);
    ck_assert_int_eq(st_offset_put(sf_store, 77, 2, two, 1, &calibration, &e), -TP_E_UNKNOWN_MODEL);
    ck_assert_str_eq(offsets(k.id, &b), "2 aaaa 0.25 6 7\ncalibration 3");
    tp_buf_free(&b);
}
END_TEST

START_TEST(an_unknown_family_has_no_kb)
{
    int64_t id = -1;
    struct tp_err e;
    ck_assert_int_eq(st_family_kb(reader, "tpu", &id, &e), -TP_E_UNKNOWN_FAMILY);
    ck_assert_int_eq(id, -1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store models");
    TCase *t = tcase_create("models");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_reserved_id_is_never_given_again);
    tcase_add_test(t, what_was_inserted_is_what_is_got);
    tcase_add_test(t, activation_comes_with_the_row_or_later);
    tcase_add_test(t, a_kb_is_activated_through_any_hardware_of_its_family);
    tcase_add_test(t, the_model_of_another_hardware_is_a_conflict);
    tcase_add_test(t, a_model_needs_an_owner_a_role_and_an_id);
    tcase_add_test(t, only_a_newer_calibration_takes_the_place_of_a_row);
    tcase_add_test(t, an_id_from_elsewhere_moves_the_counter);
    tcase_add_test(t, lists_are_newest_first_in_pages_and_filtered);
    tcase_add_test(t, offsets_come_with_their_model);
    tcase_add_test(t, a_refused_model_leaves_no_offsets);
    tcase_add_test(t, a_model_is_not_for_hardware_that_only_has_the_name);
    tcase_add_test(t, new_offsets_count_the_calibration_up_and_leave_other_tasks_alone);
    tcase_add_test(t, a_kb_has_offsets_for_each_hardware);
    tcase_add_test(t, an_unknown_family_has_no_kb);
    suite_add_tcase(s, t);
    return sf_main(s);
}
