/* Offsets of models in memory: they come with a model, are replaced, and never change under who holds a snapshot.
 * Knowledge bases: published whole, rolled back. */
#include "daemon/registry.h"

#include "daemon/snapshot.h"
#include "tests/unit/store_fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct td_registry *registry;
static char models[96];

static void open_registry(void)
{
    struct tp_err e = {0};

    ck_assert_msg(td_registry_new(models, sf_store, NULL, NULL, &registry, &e) == 0, "%s", e.detail);
}

static void setup(void)
{
    sf_begin();
    sf_path(models, "models");
    sf_hardware("a", "cpu", "cpu");
    open_registry();
}

static void reopen(void)
{
    td_registry_free(registry);
    sf_reopen();
    open_registry();
}

static void teardown(void)
{
    DIR *d = opendir(models);
    struct dirent *x;

    td_registry_free(registry);
    while (d != NULL && (x = readdir(d)) != NULL)
        unlinkat(dirfd(d), x->d_name, 0);
    if (d != NULL)
        closedir(d);
    rmdir(models);
    sf_end();
}

static const struct st_offset some[] = {{"00000000000000aa", 0.25, 6, 6}, {"00000000000000bb", -0.5, 9, 9}};

static int64_t publish_as(const char *state, const char *owner, bool activate)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 3);
    struct tm_provenance p = {0};
    struct st_model row = {.role = "ac", .created = 1700000000};
    struct tp_err e = {0};

    ck_assert_int_eq(st_model_reserve(sf_store, &row.id, &e), 0);
    snprintf(row.owner, sizeof row.owner, "%s", owner);
    snprintf(row.state, sizeof row.state, "%s", state);
    ck_assert_int_eq(td_registry_publish_with(registry, m, &p, &row, sf_hardware_id(owner), activate, some, 2, &e), 0);
    return row.id;
}

static int64_t publish_with(const char *owner, bool activate)
{
    return publish_as("published", owner, activate);
}

/* Offset of a task of `some` (or of "cc") as predictions with that model get it; -1 none. */
static double offset(const char *which, const char *task, int *calibration)
{
    struct td_snapshot *s = NULL;
    struct tm_offset o;
    char id[TP_TASK_ID_LEN + 1];

    ck_assert_int_eq(td_registry_acquire(registry, "a", "cpu", which, &s, NULL), 0);
    snprintf(id, sizeof id, "00000000000000%s", task);
    o = td_offsets_find(s->offsets, sf_hardware_id("a"), id);
    if (calibration != NULL)
        *calibration = s->calibration;
    td_registry_release(s);
    return o.n > 0 ? o.offset : -1;
}

static int recalibrate(int64_t id)
{
    static const struct st_offset more[] = {{"00000000000000bb", 0.75, 18, 18}, {"00000000000000cc", 1, 5, 5}};
    struct tp_err e = {0};
    int calibration = -1;

    ck_assert_msg(td_registry_recalibrate(registry, "a", "cpu", sf_hardware_id("a"), id, more, 2, &calibration, &e) ==
                      0,
                  "%s", e.detail);
    return calibration;
}

START_TEST(a_model_comes_with_its_offsets)
{
    int calibration;

    publish_with("a", true);
    ck_assert_double_eq(offset("active", "aa", &calibration), 0.25);
    ck_assert_int_eq(calibration, 0);
    ck_assert_double_eq(offset("active", "cc", NULL), -1);
    reopen();
    ck_assert_double_eq(offset("active", "bb", &calibration), -0.5);
    ck_assert_int_eq(calibration, 0);
}
END_TEST

START_TEST(new_offsets_make_a_new_snapshot_of_the_same_model)
{
    int64_t id = publish_with("a", true);
    struct td_snapshot *held = NULL, *now = NULL;
    int calibration;

    ck_assert_int_eq(td_registry_acquire(registry, "a", "cpu", "active", &held, NULL), 0);
    ck_assert_int_eq(recalibrate(id), 1);
    ck_assert_int_eq(td_registry_acquire(registry, "a", "cpu", "active", &now, NULL), 0);
    ck_assert_ptr_ne(held, now);
    ck_assert_int_eq(now->id, id);
    ck_assert_int_eq(now->calibration, 1);
    ck_assert_int_eq(held->calibration, 0); /* who holds the old one keeps it as it was */
    ck_assert_double_eq(td_offsets_find(held->offsets, sf_hardware_id("a"), "00000000000000bb").offset, -0.5);
    ck_assert_int_eq(td_snapshot_same(held, now, NULL), 0);
    ck_assert_uint_eq(now->checksum, held->checksum);
    td_registry_release(held);
    td_registry_release(now);
    ck_assert_double_eq(offset("active", "aa", NULL), 0.25);
    ck_assert_double_eq(offset("active", "bb", NULL), 0.75);
    ck_assert_double_eq(offset("active", "cc", NULL), 1);
    ck_assert_int_eq(td_registry_count(registry), 1); /* no old snapshot is kept for a rollback */
    reopen();
    ck_assert_double_eq(offset("active", "bb", &calibration), 0.75);
    ck_assert_int_eq(calibration, 1);
}
END_TEST

START_TEST(new_offsets_reach_a_model_wherever_it_is)
{
    int64_t first = publish_with("a", true), second = publish_with("a", true), aside = publish_with("a", false),
            unloaded = publish_with("a", false);
    char name[24];
    int calibration;

    snprintf(name, sizeof name, "%lld", (long long)aside);
    ck_assert_double_eq(offset(name, "bb", NULL), -0.5); /* loaded by id */
    recalibrate(aside);
    ck_assert_double_eq(offset(name, "bb", &calibration), 0.75);
    ck_assert_int_eq(calibration, 1);
    recalibrate(first); /* kept for a rollback */
    ck_assert_double_eq(offset("active", "bb", NULL), -0.5);
    ck_assert_int_eq(td_registry_activate(registry, "a", first, NULL, NULL), 0);
    ck_assert_double_eq(offset("active", "bb", &calibration), 0.75);
    ck_assert_int_eq(calibration, 1);
    recalibrate(unloaded);
    snprintf(name, sizeof name, "%lld", (long long)unloaded);
    ck_assert_double_eq(offset(name, "bb", NULL), 0.75);
    snprintf(name, sizeof name, "%lld", (long long)second);
    ck_assert_double_eq(offset(name, "bb", NULL), -0.5);
}
END_TEST

START_TEST(offsets_that_cannot_be_stored_change_nothing)
{
    int64_t id = publish_with("a", true);
    struct tp_err e = {0};
    int calibration = -1;

    ck_assert_int_eq(td_registry_recalibrate(registry, "a", "cpu", 77, id, some, 2, &calibration, &e),
                     -TP_E_UNKNOWN_HARDWARE);
    ck_assert_int_eq(td_registry_recalibrate(registry, "a", "cpu", sf_hardware_id("a"), 99, some, 2, &calibration, &e),
                     -TP_E_UNKNOWN_MODEL);
    ck_assert_int_eq(calibration, -1);
    ck_assert_double_eq(offset("active", "bb", &calibration), -0.5);
    ck_assert_int_eq(calibration, 0);
}
END_TEST

/* ---- knowledge bases ---- */

static struct tk_kb *knowledge(uint64_t seed)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tk_kb *kb = tk_kb_new(tm_model_new(TCLFEAT_TCLF_1, &h, seed), TP_TARGET_CPU);

    ck_assert_ptr_nonnull(kb);
    kb->fisher[0] = 0.5f;
    kb->phases = (uint32_t)seed;
    return kb;
}

static int64_t publish_kb(uint64_t seed, int64_t instead_of, bool *active)
{
    struct st_model row = {.role = "kb", .owner = "cpu", .state = "published", .created = 1700000000};
    struct tm_provenance p = {.seed = seed, .training = "{\"mode\": \"adapt\"}"};
    struct tp_err e = {0};

    ck_assert_int_eq(st_model_reserve(sf_store, &row.id, &e), 0);
    ck_assert_msg(td_registry_publish_kb(registry, knowledge(seed), &p, &row, instead_of, active, &e) == 0, "%s",
                  e.detail);
    return row.id;
}

static int64_t answers(void)
{
    struct td_snapshot *s = NULL;
    int64_t id = 0;

    if (td_registry_acquire(registry, "a", "cpu", "kb", &s, NULL) == 0)
        id = s->id;
    td_registry_release(s);
    return id;
}

START_TEST(knowledge_is_published_whole_and_comes_back_whole)
{
    struct st_reader *rd = sf_reader();
    struct td_snapshot *s = NULL;
    struct tk_kb *kb = NULL, *want = knowledge(3);
    bool active = true;
    int64_t id = publish_kb(3, 0, &active);

    ck_assert(active);
    ck_assert_int_eq(answers(), id);
    ck_assert_int_eq(td_registry_acquire(registry, "a", "cpu", "active", &s, NULL), 0);
    ck_assert_str_eq(s->role, "kb");
    ck_assert_str_eq(s->provenance.kind, "cpu");
    ck_assert_str_eq(s->provenance.training, "{\"mode\": \"adapt\"}");
    td_registry_release(s);
    ck_assert_int_eq(td_registry_load_kb(registry, rd, id, &kb, NULL), 0);
    ck_assert_mem_eq(kb->model->w, want->model->w, want->model->n * sizeof(float));
    ck_assert_mem_eq(kb->fisher, want->fisher, want->model->n * sizeof(float));
    ck_assert_uint_eq(kb->phases, 3);
    tk_kb_free(kb);
    tk_kb_free(want);
    st_reader_free(rd);
    reopen();
    ck_assert_int_eq(answers(), id);
}
END_TEST

START_TEST(knowledge_does_not_take_the_place_of_what_it_did_not_come_from)
{
    bool active = true;
    int64_t first = publish_kb(1, 0, &active), second, third;

    second = publish_kb(2, first, &active);
    ck_assert(active);
    third = publish_kb(3, first, &active);
    ck_assert(!active);
    ck_assert_int_eq(answers(), second);
    active = true;
    publish_kb(4, 0, &active);
    ck_assert(!active);
    active = true;
    ck_assert_int_gt(publish_kb(5, -1, &active), third);
    ck_assert(active);
}
END_TEST

static int tell(void *arg, bool active, struct tp_err *e)
{
    struct st_model *row = arg;

    (void)e;
    row->metrics = strdup(active ? "{\"decision\": \"accepted\"}" : "{\"decision\": \"overtaken\"}");
    return 0;
}

static int tell_nothing(void *arg, bool active, struct tp_err *e)
{
    (void)arg;
    (void)active;
    return tp_fail(e, TP_E_NO_MEMORY, "no memory");
}

static int note_probe(void *arg, const char *task_id, const uint8_t hash[16], const struct tp_record *rec,
                      double min_cost, int64_t n)
{
    struct st_probe *p = arg;

    (void)rec;
    (void)min_cost;
    (void)n;
    memcpy(p->task_id, task_id, sizeof p->task_id);
    memcpy(p->hash, hash, sizeof p->hash);
    return 0;
}

/* What a row says, and what is kept of the hardware that was learned, is decided with whether the model answers. */
START_TEST(knowledge_tells_whether_it_was_overtaken_and_then_keeps_no_probe)
{
    static const struct sf_line line = {1, 1, 1e-3, 1};
    struct st_reader *r = sf_reader();
    struct st_probe probe;
    struct st_probe_set set = {sf_hardware_id("a"), &probe, 1};
    bool active = true;
    int64_t instead_of[2] = {0, publish_kb(1, 0, &active)};

    ck_assert_uint_eq(sf_post("a", &line, 1).accepted, 1);
    ck_assert_int_eq(st_training_set(r, set.hw, INT64_MAX, note_probe, &probe, NULL), 0);
    for (int i = 0; i < 2; i++) {
        struct st_model row = {.role = "kb", .owner = "cpu", .state = "published", .created = 1700000000}, got = {0};
        struct tm_provenance p = {0};
        struct td_kb_with with = {.tell = tell, .arg = &row, .probe = &set, .n_probes = 1};

        active = true;
        ck_assert_int_eq(st_model_reserve(sf_store, &row.id, NULL), 0);
        ck_assert_int_eq(
            td_registry_publish_kb_with(registry, knowledge(2), &p, &row, instead_of[i], &with, &active, NULL), 0);
        ck_assert_int_eq(active, i == 1);
        ck_assert_int_eq(st_model_get(r, row.id, &got, NULL), 0);
        ck_assert_ptr_nonnull(strstr(got.metrics, i == 1 ? "accepted" : "overtaken"));
        ck_assert_int_eq(sf_query("SELECT count(*) FROM probe"), i);
        st_model_clear(&got);
        st_model_clear(&row);
    }
    st_reader_free(r);
}
END_TEST

START_TEST(knowledge_that_cannot_tell_is_not_published)
{
    struct st_model row = {.role = "kb", .owner = "cpu", .state = "published", .created = 1700000000};
    struct tm_provenance p = {0};
    struct td_kb_with with = {.tell = tell_nothing};
    bool active = true;
    int64_t id = publish_kb(1, 0, &active);
    char path[128];

    ck_assert_int_eq(st_model_reserve(sf_store, &row.id, NULL), 0);
    ck_assert_int_eq(td_registry_publish_kb_with(registry, knowledge(2), &p, &row, id, &with, &active, NULL),
                     -TP_E_NO_MEMORY);
    ck_assert_int_eq(answers(), id);
    td_registry_path(registry, row.id, path, sizeof path);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(knowledge_is_rolled_back)
{
    struct tp_err e = {0};
    bool active = true, changed = false;
    int64_t first = publish_kb(1, 0, &active), second = publish_kb(2, first, &active), ac = publish_with("a", false);

    ck_assert_int_eq(td_registry_activate_kb(registry, "cpu", first, &changed, &e), 0);
    ck_assert(changed);
    ck_assert_int_eq(answers(), first);
    ck_assert_int_eq(td_registry_activate_kb(registry, "cpu", first, &changed, &e), 0);
    ck_assert(!changed);
    ck_assert_int_eq(td_registry_activate_kb(registry, "cpu", ac, &changed, &e), -TP_E_CONFLICT);
    ck_assert_int_eq(td_registry_activate_kb(registry, "tpu", first, &changed, &e), -TP_E_UNKNOWN_FAMILY);
    ck_assert_int_eq(td_registry_activate_kb(registry, "cpu", 99, &changed, &e), -TP_E_UNKNOWN_MODEL);
    reopen();
    ck_assert_int_eq(answers(), first);
    ck_assert_int_eq(td_registry_activate_kb(registry, "cpu", second, &changed, &e), 0);
    ck_assert_int_eq(answers(), second);
}
END_TEST

START_TEST(knowledge_whose_file_was_changed_is_not_loaded)
{
    struct st_reader *rd = sf_reader();
    struct tk_kb *kb = NULL;
    char path[4096];
    bool active = true;
    int64_t id = publish_kb(1, 0, &active);
    FILE *f;

    td_registry_path(registry, id, path, sizeof path);
    f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    fseek(f, -8, SEEK_END);
    fputc(1, f);
    fclose(f);
    ck_assert_int_eq(td_registry_load_kb(registry, rd, id, &kb, NULL), -TP_E_BAD_WEIGHTS);
    ck_assert_int_eq(td_registry_load_kb(registry, rd, 99, &kb, NULL), -TP_E_UNKNOWN_MODEL);
    st_reader_free(rd);
}
END_TEST

/* ---- rejected models ---- */

static bool has_weights(int64_t id)
{
    char path[4096];

    td_registry_path(registry, id, path, sizeof path);
    return access(path, F_OK) == 0;
}

START_TEST(only_the_newest_rejected_models_keep_their_weights)
{
    struct st_reader *rd = sf_reader();
    struct st_model row = {0};
    struct td_snapshot *s = NULL;
    struct tp_err e = {0};
    int64_t good = publish_with("a", true), id[5];

    sf_hardware("b", "cpu", "cpu");
    id[0] = publish_as("rejected", "b", false);
    td_registry_keep_rejected(registry, 2);
    for (int i = 1; i < 5; i++)
        id[i] = publish_as("rejected", "a", false);
    ck_assert(has_weights(good));
    ck_assert(has_weights(id[0])); /* each owner has its own */
    ck_assert(!has_weights(id[1]) && !has_weights(id[2]) && has_weights(id[3]) && has_weights(id[4]));

    ck_assert_int_eq(st_model_get(rd, id[1], &row, &e), 0); /* history stays */
    ck_assert(td_registry_dropped(registry, &row, &e));
    st_model_clear(&row);
    ck_assert_int_eq(td_registry_activate(registry, "a", id[1], NULL, &e), -TP_E_UNKNOWN_MODEL);
    char which[24];
    snprintf(which, sizeof which, "%lld", (long long)id[2]);
    ck_assert_int_eq(td_registry_acquire(registry, "a", "cpu", which, &s, &e), -TP_E_UNKNOWN_MODEL);
    st_reader_free(rd);
}
END_TEST

START_TEST(rejected_models_that_answer_or_answered_last_keep_their_weights)
{
    int64_t active, before, next;

    td_registry_keep_rejected(registry, 1);
    before = publish_as("rejected", "a", false);
    ck_assert_int_eq(td_registry_activate(registry, "a", before, NULL, NULL), 0);
    active = publish_as("rejected", "a", false);
    ck_assert_int_eq(td_registry_activate(registry, "a", active, NULL, NULL), 0);
    publish_as("rejected", "a", false);
    ck_assert(has_weights(active) && has_weights(before));
    reopen();
    td_registry_keep_rejected(registry, 0);
    next = publish_as("rejected", "a", false);
    ck_assert(has_weights(active));
    ck_assert(!has_weights(before) && !has_weights(next));
}
END_TEST

START_TEST(a_rejected_model_that_is_in_memory_only_is_not_activated)
{
    struct td_snapshot *s = NULL;
    struct tp_err e = {0};
    char which[24];
    int64_t id;

    publish_with("a", true);
    td_registry_keep_rejected(registry, 1);
    id = publish_as("rejected", "a", false);
    snprintf(which, sizeof which, "%lld", (long long)id);
    ck_assert_int_eq(td_registry_acquire(registry, "a", "cpu", which, &s, &e), 0);
    td_registry_release(s);
    publish_as("rejected", "a", false);
    ck_assert_int_eq(td_registry_activate(registry, "a", id, NULL, &e), -TP_E_UNKNOWN_MODEL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon/registry publish");
    TCase *t = tcase_create("offsets");

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_model_comes_with_its_offsets);
    tcase_add_test(t, new_offsets_make_a_new_snapshot_of_the_same_model);
    tcase_add_test(t, new_offsets_reach_a_model_wherever_it_is);
    tcase_add_test(t, offsets_that_cannot_be_stored_change_nothing);
    tcase_add_test(t, knowledge_is_published_whole_and_comes_back_whole);
    tcase_add_test(t, knowledge_does_not_take_the_place_of_what_it_did_not_come_from);
    tcase_add_test(t, knowledge_tells_whether_it_was_overtaken_and_then_keeps_no_probe);
    tcase_add_test(t, knowledge_that_cannot_tell_is_not_published);
    tcase_add_test(t, knowledge_is_rolled_back);
    tcase_add_test(t, knowledge_whose_file_was_changed_is_not_loaded);
    tcase_add_test(t, only_the_newest_rejected_models_keep_their_weights);
    tcase_add_test(t, rejected_models_that_answer_or_answered_last_keep_their_weights);
    tcase_add_test(t, a_rejected_model_that_is_in_memory_only_is_not_activated);
    suite_add_tcase(s, t);
    return sf_main(s);
}
