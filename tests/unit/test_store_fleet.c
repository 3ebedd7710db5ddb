/* Probe sets, transfers, policies, kinds of families. */
#include "tests/unit/store_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct st_reader *rd;

static void setup(void)
{
    sf_begin();
    sf_hardware("a", "cpu", "cpu");
    sf_hardware("b", "cpu", "cpu");
    rd = sf_reader();
}

static void teardown(void)
{
    st_reader_free(rd);
    sf_end();
}

struct seen {
    struct st_probe p[16];
    double cost[16];
    int n;
};

static int note(void *arg, const char *task_id, const uint8_t hash[16], const struct tp_record *rec, double min_cost,
                int64_t n)
{
    struct seen *s = arg;

    (void)rec;
    (void)n;
    memcpy(s->p[s->n].task_id, task_id, sizeof s->p[0].task_id);
    memcpy(s->p[s->n].hash, hash, 16);
    s->cost[s->n++] = min_cost;
    return 0;
}

/* Four programs of two tasks on `a`, one of them failed. */
static struct seen post(void)
{
    static const struct sf_line lines[] = {{1, 1, 1e-3, 1}, {1, 2, 2e-3, 1}, {2, 3, 3e-3, 1}, {2, 4, 0, 1}};
    struct seen all = {.n = 0};

    ck_assert_uint_eq(sf_post("a", lines, 4).accepted, 4);
    ck_assert_int_eq(st_training_set(rd, sf_hardware_id("a"), INT64_MAX, note, &all, NULL), 0);
    ck_assert_int_eq(all.n, 4);
    return all;
}

/* A knowledge base that has learned it. */
static int put_probes(int64_t hw, struct st_probe *p, size_t n)
{
    struct st_model m = {.role = "kb", .owner = "cpu", .features_version = "tclf-1", .state = "published"};
    struct st_probe_set set = {hw, p, n};

    ck_assert_int_eq(st_model_reserve(sf_store, &m.id, NULL), 0);
    return st_kb_insert(sf_store, &m, true, &set, 1, NULL);
}

START_TEST(a_probe_set_is_replaced_as_a_whole)
{
    struct seen all = post(), got = {.n = 0};
    int64_t hw = sf_hardware_id("a");

    ck_assert_int_eq(put_probes(hw, all.p, 3), 0);
    ck_assert_int_eq(put_probes(hw, all.p + 1, 1), 0);
    ck_assert_int_eq(st_probe_set(rd, hw, note, &got, NULL), 0);
    ck_assert_int_eq(got.n, 1);
    ck_assert_mem_eq(got.p[0].hash, all.p[1].hash, 16);
    ck_assert_str_eq(got.p[0].task_id, all.p[1].task_id);
    ck_assert_double_eq(got.cost[0], all.cost[1]);
}
END_TEST

START_TEST(a_probe_tells_the_fastest_measurement_and_failures)
{
    static const struct sf_line again[] = {{1, 1, 5e-4, 2}};
    struct seen all = post(), got = {.n = 0};
    int64_t hw = sf_hardware_id("a");
    int failures = 0;

    ck_assert_int_eq(put_probes(hw, all.p, 4), 0);
    sf_post("a", again, 1);
    ck_assert_int_eq(st_probe_set(rd, hw, note, &got, NULL), 0);
    ck_assert_int_eq(got.n, 4);
    for (int i = 0; i < got.n; i++)
        failures += isinf(got.cost[i]) != 0;
    ck_assert_int_eq(failures, 1);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM probe"), 4);
}
END_TEST

START_TEST(programs_that_nobody_knows_are_left_out)
{
    struct seen all = post(), got = {.n = 0};
    struct st_probe p[2] = {all.p[0], all.p[1]};

    p[1].hash[0] ^= 1;
    ck_assert_int_eq(put_probes(sf_hardware_id("a"), p, 2), 0);
    ck_assert_int_eq(st_probe_set(rd, sf_hardware_id("a"), note, &got, NULL), 0);
    ck_assert_int_eq(got.n, 1);
    ck_assert_int_eq(put_probes(999, p, 2), 0); /* nor is hardware that is gone */
    ck_assert_int_eq(sf_query("SELECT count(*) FROM probe"), 1);
}
END_TEST

START_TEST(a_probe_set_comes_with_its_knowledge_base_or_not_at_all)
{
    struct seen all = post();
    struct st_probe_set set = {sf_hardware_id("a"), all.p, 4};
    struct st_model m = {.role = "kb", .owner = "nobody", .features_version = "tclf-1", .state = "published"};

    ck_assert_int_eq(st_model_reserve(sf_store, &m.id, NULL), 0);
    ck_assert_int_eq(st_kb_insert(sf_store, &m, true, &set, 1, NULL), -TP_E_UNKNOWN_FAMILY);
    memcpy(m.role, "ac", 3);
    memcpy(m.owner, "a", 2);
    ck_assert_int_eq(st_kb_insert(sf_store, &m, true, &set, 1, NULL), -TP_E_BAD_PARAMETER);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM probe"), 0);
}
END_TEST

static int take_transfer(void *arg, const struct st_transfer *t)
{
    *(struct st_transfer *)arg = *t;
    return 0;
}

START_TEST(a_transfer_is_kept_per_pair_and_goes_with_either)
{
    struct st_transfer t = {.source = sf_hardware_id("b"),
                            .gate = "warm",
                            .mean = 0.8,
                            .lower = NAN,
                            .tasks = 9,
                            .programs = 90,
                            .reason = "because",
                            .created = 5},
                       gone = t, got = {0};

    gone.source = 999;
    ck_assert_int_eq(st_transfer_put(sf_store, sf_hardware_id("a"), &t, 1, NULL), 0);
    t.mean = 0.75;
    ck_assert_int_eq(st_transfer_put(sf_store, sf_hardware_id("a"), (struct st_transfer[]){gone, t}, 2, NULL), 0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM transfer"), 1);
    ck_assert_int_eq(st_transfer_list(rd, sf_hardware_id("a"), take_transfer, &got, NULL), 0);
    ck_assert_double_eq(got.mean, 0.75);
    ck_assert(isnan(got.lower));
    ck_assert_str_eq(got.gate, "warm");
    ck_assert_str_eq(got.reason, "because");
    ck_assert_int_eq(st_hardware_delete(sf_store, "b", true, NULL), 0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM transfer"), 0);
}
END_TEST

START_TEST(a_purge_takes_the_probe_set)
{
    struct seen all = post();

    ck_assert_int_eq(put_probes(sf_hardware_id("a"), all.p, 4), 0);
    ck_assert_int_eq(st_hardware_delete(sf_store, "a", true, NULL), 0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM probe"), 0);
}
END_TEST

START_TEST(a_family_is_of_one_kind)
{
    struct st_hardware h = {.name = "g", .family = "cpu", .kind = "gpu", .target = (char[]){"cuda"}};
    struct tp_err e = {0};
    bool created;

    ck_assert_int_eq(st_hardware_put(sf_store, &h, &created, &e), -TP_E_CONFLICT);
    ck_assert_ptr_nonnull(strstr(e.detail, "family \"cpu\" is of cpu hardware"));
    memcpy(h.family, "gpu", 4);
    ck_assert_int_eq(st_hardware_put(sf_store, &h, &created, &e), 0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM family WHERE name = kind"), 2);
}
END_TEST

START_TEST(knowledge_keeps_a_family_of_its_kind_without_hardware)
{
    struct st_model m = {.role = "kb", .owner = "cpu", .features_version = "tclf-1", .state = "published"};
    struct st_hardware h = {.name = "g", .family = "cpu", .kind = "gpu", .target = (char[]){"cuda"}};
    struct tp_err e = {0};
    int64_t kb = 0;
    bool created;

    ck_assert_int_eq(st_model_reserve(sf_store, &m.id, NULL), 0);
    ck_assert_int_eq(st_model_insert(sf_store, &m, true, NULL), 0);
    ck_assert_int_eq(st_hardware_delete(sf_store, "a", true, NULL), 0);
    ck_assert_int_eq(st_hardware_delete(sf_store, "b", true, NULL), 0);
    ck_assert_int_eq(st_hardware_put(sf_store, &h, &created, &e), -TP_E_CONFLICT);
    ck_assert_int_eq(st_family_kb(rd, "cpu", &kb, NULL), 0);
    ck_assert_int_eq(kb, m.id);
}
END_TEST

START_TEST(a_family_without_knowledge_or_hardware_takes_another_kind)
{
    struct st_hardware h = {.name = "g", .family = "cpu", .kind = "gpu", .target = (char[]){"cuda"}};
    bool created;

    ck_assert_int_eq(st_hardware_delete(sf_store, "a", true, NULL), 0);
    ck_assert_int_eq(st_hardware_delete(sf_store, "b", true, NULL), 0);
    ck_assert_int_eq(st_hardware_put(sf_store, &h, &created, NULL), 0);
}
END_TEST

START_TEST(only_a_familys_own_knowledge_becomes_active)
{
    struct st_model kb = {.role = "kb", .owner = "cpu", .features_version = "tclf-1", .state = "published"},
                    ac = {.role = "ac", .owner = "a", .features_version = "tclf-1", .state = "published"};
    int64_t active = 0;

    ck_assert_int_eq(st_model_reserve(sf_store, &kb.id, NULL), 0);
    ck_assert_int_eq(st_model_insert(sf_store, &kb, false, NULL), 0);
    ck_assert_int_eq(st_model_reserve(sf_store, &ac.id, NULL), 0);
    ck_assert_int_eq(st_model_insert(sf_store, &ac, false, NULL), 0);
    ck_assert_int_eq(st_family_activate(sf_store, "cpu", ac.id, NULL), -TP_E_CONFLICT);
    ck_assert_int_eq(st_family_activate(sf_store, "cpu", 99, NULL), -TP_E_UNKNOWN_MODEL);
    ck_assert_int_eq(st_family_activate(sf_store, "tpu", kb.id, NULL), -TP_E_UNKNOWN_FAMILY);
    ck_assert_int_eq(st_family_activate(sf_store, "cpu", kb.id, NULL), 0);
    ck_assert_int_eq(st_family_kb(rd, "cpu", &active, NULL), 0);
    ck_assert_int_eq(active, kb.id);
}
END_TEST

START_TEST(a_policy_survives_a_put_of_its_hardware)
{
    struct st_hardware h = {0}, put = {.name = "a", .family = "cpu", .kind = "cpu", .target = (char[]){"llvm"}};
    bool created;

    ck_assert_int_eq(st_policy_set(sf_store, "a", "{\"measurements\": 5}", NULL), 0);
    ck_assert_int_eq(st_hardware_put(sf_store, &put, &created, NULL), 0);
    ck_assert_int_eq(st_hardware_get(rd, "a", &h, NULL), 0);
    ck_assert_str_eq(h.policy, "{\"measurements\": 5}");
    st_hardware_clear(&h);
    ck_assert_int_eq(st_policy_set(sf_store, "a", NULL, NULL), 0);
    ck_assert_int_eq(st_hardware_get(rd, "a", &h, NULL), 0);
    ck_assert_ptr_null(h.policy);
    st_hardware_clear(&h);
    ck_assert_int_eq(st_policy_set(sf_store, "nobody", NULL, NULL), -TP_E_UNKNOWN_HARDWARE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store fleet");
    TCase *t = tcase_create("fleet");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_probe_set_is_replaced_as_a_whole);
    tcase_add_test(t, a_probe_tells_the_fastest_measurement_and_failures);
    tcase_add_test(t, programs_that_nobody_knows_are_left_out);
    tcase_add_test(t, a_probe_set_comes_with_its_knowledge_base_or_not_at_all);
    tcase_add_test(t, a_transfer_is_kept_per_pair_and_goes_with_either);
    tcase_add_test(t, a_purge_takes_the_probe_set);
    tcase_add_test(t, a_family_is_of_one_kind);
    tcase_add_test(t, knowledge_keeps_a_family_of_its_kind_without_hardware);
    tcase_add_test(t, a_family_without_knowledge_or_hardware_takes_another_kind);
    tcase_add_test(t, only_a_familys_own_knowledge_becomes_active);
    tcase_add_test(t, a_policy_survives_a_put_of_its_hardware);
    suite_add_tcase(s, t);
    return sf_main(s);
}
