/* Evaluations: what is kept of them, by hardware and by model. */
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
    for (int i = 0; i < 2; i++) {
        struct st_model m = {.role = "kb", .owner = "cpu", .features_version = "tclf-1", .state = "published"};
        struct tp_err e;
        ck_assert_int_eq(st_model_reserve(sf_store, &m.id, &e), 0);
        ck_assert_int_eq(st_model_insert(sf_store, &m, false, &e), 0);
    }
}

static void teardown(void)
{
    st_reader_free(reader);
    sf_end();
}

static int put(int64_t hw, int64_t model, const char *result, int64_t *id)
{
    struct st_evaluation v = {
        .hardware = hw, .model = model, .job = 3, .created = 1700000000123, .result = (char *)result};
    struct tp_err e;
    int rc = st_evaluation_insert(sf_store, &v, &e);
    *id = v.id;
    return rc;
}

struct seen {
    int n, stop;
    int64_t id[16];
    struct st_evaluation last;
    char result[64];
};

static int see(void *arg, const struct st_evaluation *v)
{
    struct seen *s = arg;
    s->id[s->n++] = v->id;
    s->last = *v;
    snprintf(s->result, sizeof s->result, "%s", v->result);
    return s->n == s->stop;
}

static struct seen list(int64_t hw, int64_t model, int64_t before, int limit)
{
    struct seen s = {0};
    struct tp_err e;
    ck_assert_int_eq(st_evaluation_list(reader, hw, model, before, limit, see, &s, &e), 0);
    return s;
}

START_TEST(what_was_inserted_is_what_is_listed)
{
    int64_t id;
    ck_assert_int_eq(put(1, 2, "{\"top1\": 0.5}", &id), 0);
    struct seen s = list(0, 0, 0, 10);
    ck_assert_int_eq(s.n, 1);
    ck_assert_int_eq(s.id[0], id);
    ck_assert_int_eq(s.last.hardware, 1);
    ck_assert_int_eq(s.last.model, 2);
    ck_assert_int_eq(s.last.job, 3);
    ck_assert_int_eq(s.last.created, 1700000000123);
    ck_assert_str_eq(s.result, "{\"top1\": 0.5}");
}
END_TEST

START_TEST(lists_are_newest_first_in_pages_and_filtered)
{
    int64_t id[6];
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(put(1 + i % 2, 1 + i / 3, "{}", &id[i]), 0);
    struct seen a = list(0, 0, 0, 4), b = list(0, 0, a.id[3], 4);
    ck_assert_int_eq(a.n, 4);
    ck_assert_int_eq(a.id[0], id[5]);
    ck_assert_int_eq(b.n, 2);
    ck_assert_int_eq(b.id[1], id[0]);
    ck_assert_int_eq(list(1, 0, 0, 10).n, 3);
    ck_assert_int_eq(list(0, 2, 0, 10).n, 3);
    a = list(2, 2, 0, 10);
    ck_assert_int_eq(a.n, 2);
    ck_assert_int_eq(a.id[0], id[5]);
    ck_assert_int_eq(a.id[1], id[3]);
    struct seen s = {.stop = 1};
    struct tp_err e;
    ck_assert_int_eq(st_evaluation_list(reader, 1, 0, 0, 10, see, &s, &e), 0);
    ck_assert_int_eq(s.n, 1);
}
END_TEST

START_TEST(what_is_gone_cannot_be_evaluated)
{
    int64_t id = 0;
    ck_assert_int_eq(put(9, 1, "{}", &id), -TP_E_UNKNOWN_HARDWARE);
    ck_assert_int_eq(put(1, 9, "{}", &id), -TP_E_UNKNOWN_MODEL);
    ck_assert_int_eq(id, 0);
    ck_assert_int_eq(list(0, 0, 0, 10).n, 0);
}
END_TEST

START_TEST(a_model_shows_its_newest_evaluation)
{
    struct st_model m;
    struct tp_err e;
    int64_t id;
    ck_assert_int_eq(put(1, 1, "{\"n\": 1}", &id), 0);
    ck_assert_int_eq(put(2, 1, "{\"n\": 2}", &id), 0);
    ck_assert_int_eq(put(2, 2, "{\"n\": 3}", &id), 0);
    ck_assert_int_eq(st_model_get(reader, 1, &m, &e), 0);
    ck_assert_str_eq(m.evaluation, "{\"n\": 2}");
    st_model_clear(&m);
    ck_assert_int_eq(st_hardware_delete(sf_store, "y", true, &e), 0);
    ck_assert_int_eq(st_model_get(reader, 2, &m, &e), 0);
    ck_assert_ptr_null(m.evaluation);
    st_model_clear(&m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store evaluations");
    TCase *t = tcase_create("evaluations");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, what_was_inserted_is_what_is_listed);
    tcase_add_test(t, lists_are_newest_first_in_pages_and_filtered);
    tcase_add_test(t, what_is_gone_cannot_be_evaluated);
    tcase_add_test(t, a_model_shows_its_newest_evaluation);
    suite_add_tcase(s, t);
    return sf_main(s);
}
