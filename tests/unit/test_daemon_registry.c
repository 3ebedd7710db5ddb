/* Models in memory: publication, rollback, what answers for a hardware, start and deletion. */
#include "daemon/registry.h"

#include "daemon/snapshot.h"
#include "tests/unit/store_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct td_registry *registry;
static char models[96];

static int errors;
static int64_t error_id;

static void on_error(void *arg, int64_t id, const struct tp_err *e)
{
    (void)arg;
    ck_assert_int_ne(e->code, TP_OK);
    errors++;
    error_id = id;
}

static void open_registry(void)
{
    struct tp_err e = {0};

    errors = 0;
    ck_assert_msg(td_registry_new(models, sf_store, on_error, NULL, &registry, &e) == 0, "%s", e.detail);
}

static void setup(void)
{
    sf_begin();
    sf_path(models, "models");
    sf_hardware("a", "cpu", "cpu");
    sf_hardware("b", "cpu", "cpu");
    open_registry();
}

static void reopen(void)
{
    td_registry_free(registry);
    sf_reopen();
    open_registry();
}

static int files(bool remove_them)
{
    DIR *d = opendir(models);
    struct dirent *x;
    int n = 0;

    while (d != NULL && (x = readdir(d)) != NULL) {
        n += x->d_name[0] != '.';
        if (remove_them)
            unlinkat(dirfd(d), x->d_name, 0);
    }
    if (d != NULL)
        closedir(d);
    return n;
}

static void teardown(void)
{
    td_registry_free(registry);
    registry = NULL;
    files(true);
    rmdir(models);
    sf_end();
}

/* Of the hardware that an AC is for; "nobody" was never registered. */
static int64_t owner_id(const char *role, const char *owner)
{
    if (strcmp(role, "ac") != 0)
        return 0;
    return strcmp(owner, "nobody") != 0 ? sf_hardware_id(owner) : 999;
}

static int try_publish(const char *role, const char *owner, uint64_t seed, bool activate, int64_t *id, struct tp_err *e)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, seed);
    struct tm_provenance p = {.seed = seed};
    struct st_model row = {.state = "published", .created = 1700000000};
    int rc;

    ck_assert_ptr_nonnull(m);
    ck_assert_int_eq(st_model_reserve(sf_store, &row.id, e), 0);
    snprintf(row.role, sizeof row.role, "%s", role);
    snprintf(row.owner, sizeof row.owner, "%s", owner);
    rc = td_registry_publish(registry, m, &p, &row, owner_id(role, owner), activate, e);
    *id = row.id;
    return rc;
}

static int64_t publish(const char *role, const char *owner, uint64_t seed, bool activate)
{
    struct tp_err e = {0};
    int64_t id = 0;

    ck_assert_msg(try_publish(role, owner, seed, activate, &id, &e) == 0, "%s", e.detail);
    return id;
}

/* Id of what answers, or the negative code. */
static int64_t answers(const char *hardware, const char *which)
{
    struct td_snapshot *s = NULL;
    struct tp_err e = {0};
    int rc = td_registry_acquire(registry, hardware, "cpu", which, &s, &e);
    int64_t id;

    if (rc != 0) {
        ck_assert_int_eq(e.code, -rc);
        return rc;
    }
    id = s->id;
    td_registry_release(s);
    return id;
}

static int64_t active_in_store(const char *hardware)
{
    struct st_reader *r = sf_reader();
    struct st_hardware h = {0};
    int64_t id;

    ck_assert_int_eq(st_hardware_get(r, hardware, &h, NULL), 0);
    id = h.active_model;
    st_hardware_clear(&h);
    st_reader_free(r);
    return id;
}

static void damage(int64_t id)
{
    char path[200], byte;
    int fd;

    td_registry_path(registry, id, path, sizeof path);
    fd = open(path, O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pread(fd, &byte, 1, 300000), 1);
    byte ^= 1;
    ck_assert_int_eq(pwrite(fd, &byte, 1, 300000), 1);
    close(fd);
}

START_TEST(without_a_model_the_error_says_how_to_get_one)
{
    struct td_snapshot *s;
    struct tp_err e = {0};

    ck_assert_int_eq(td_registry_acquire(registry, "a", "cpu", "active", &s, &e), -TP_E_NO_MODEL);
    ck_assert_ptr_nonnull(strstr(e.detail, "/v1/hardware/a/measurements"));
    ck_assert_ptr_nonnull(strstr(e.detail, "/v1/hardware/a/retrain"));
}
END_TEST

START_TEST(a_published_model_answers_and_is_active_in_the_store)
{
    int64_t id = publish("ac", "a", 1, true);

    ck_assert_int_eq(answers("a", "active"), id);
    ck_assert_int_eq(answers("a", "ac"), id);
    ck_assert_int_eq(active_in_store("a"), id);
    ck_assert_int_eq(answers("b", "active"), -TP_E_NO_MODEL);
    ck_assert_int_eq(td_registry_count(registry), 1);
}
END_TEST

START_TEST(a_candidate_is_stored_but_does_not_answer)
{
    int64_t first = publish("ac", "a", 1, true), second = publish("ac", "a", 2, false);
    char name[24];

    ck_assert_int_eq(answers("a", "active"), first);
    snprintf(name, sizeof name, "%lld", (long long)second);
    ck_assert_int_eq(answers("a", name), second);
    ck_assert_int_eq(files(false), 2);
}
END_TEST

START_TEST(the_knowledge_base_answers_for_hardware_without_a_model)
{
    int64_t kb = publish("kb", "cpu", 1, true), ac;

    ck_assert_int_eq(answers("a", "active"), kb);
    ck_assert_int_eq(answers("a", "kb"), kb);
    ck_assert_int_eq(answers("a", "ac"), -TP_E_NO_MODEL);
    ac = publish("ac", "a", 2, true);
    ck_assert_int_eq(answers("a", "active"), ac);
    ck_assert_int_eq(answers("a", "kb"), kb);
    ck_assert_int_eq(answers("b", "active"), kb);
}
END_TEST

START_TEST(a_model_can_be_asked_for_by_its_id_only_where_it_belongs)
{
    char name[24];

    snprintf(name, sizeof name, "%lld", (long long)publish("ac", "a", 1, true));
    ck_assert_int_gt(answers("a", name), 0);
    ck_assert_int_eq(answers("b", name), -TP_E_UNKNOWN_MODEL);
    snprintf(name, sizeof name, "%lld", (long long)publish("ac", "a", 2, false));
    ck_assert_int_gt(answers("a", name), 0);
    ck_assert_int_eq(answers("b", name), -TP_E_UNKNOWN_MODEL);
    ck_assert_int_eq(answers("a", "999"), -TP_E_UNKNOWN_MODEL);
}
END_TEST

START_TEST(a_malformed_model_name_is_refused)
{
    static const char *const bad[] = {"", "x", "0", "-1", "1x", " 1", "99999999999999999999", "Active"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_int_eq(answers("a", bad[i]), -TP_E_BAD_PARAMETER);
}
END_TEST

START_TEST(models_loaded_by_id_do_not_pile_up)
{
    char name[24];

    for (uint64_t i = 0; i < TD_REGISTRY_EXTRA + 4; i++) {
        snprintf(name, sizeof name, "%lld", (long long)publish("ac", "a", i, false));
        ck_assert_int_gt(answers("a", name), 0);
        ck_assert_int_gt(answers("a", name), 0);
    }
    ck_assert_int_eq(td_registry_count(registry), TD_REGISTRY_EXTRA);
}
END_TEST

START_TEST(rollback_needs_no_file)
{
    int64_t first = publish("ac", "a", 1, true), second = publish("ac", "a", 2, true);
    bool changed = false;

    ck_assert_int_eq(answers("a", "active"), second);
    damage(first);
    ck_assert_int_eq(td_registry_activate(registry, "a", first, &changed, NULL), 0);
    ck_assert(changed);
    ck_assert_int_eq(answers("a", "active"), first);
    ck_assert_int_eq(active_in_store("a"), first);
    ck_assert_int_eq(td_registry_activate(registry, "a", second, NULL, NULL), 0);
    ck_assert_int_eq(answers("a", "active"), second);
}
END_TEST

START_TEST(activating_the_active_model_changes_nothing)
{
    int64_t id = publish("ac", "a", 1, true);
    bool changed = true;

    ck_assert_int_eq(td_registry_activate(registry, "a", id, &changed, NULL), 0);
    ck_assert(!changed);
    ck_assert_int_eq(td_registry_count(registry), 1);
}
END_TEST

START_TEST(only_models_of_the_hardware_can_be_activated)
{
    int64_t id = publish("ac", "a", 1, true);
    struct tp_err e = {0};

    ck_assert_int_eq(td_registry_activate(registry, "b", id, NULL, &e), -TP_E_CONFLICT);
    ck_assert_int_eq(td_registry_activate(registry, "a", 77, NULL, &e), -TP_E_UNKNOWN_MODEL);
    ck_assert_int_eq(td_registry_activate(registry, "c", id, NULL, &e), -TP_E_UNKNOWN_HARDWARE);
    ck_assert_int_eq(answers("b", "active"), -TP_E_NO_MODEL);
}
END_TEST

START_TEST(a_damaged_file_cannot_be_activated)
{
    int64_t first = publish("ac", "a", 1, true), second = publish("ac", "a", 2, false);
    struct tp_err e = {0};

    damage(second);
    ck_assert_int_eq(td_registry_activate(registry, "a", second, NULL, &e), -TP_E_BAD_WEIGHTS);
    ck_assert_int_eq(answers("a", "active"), first);
    ck_assert_int_eq(active_in_store("a"), first);
}
END_TEST

START_TEST(a_publication_that_fails_leaves_no_file_and_no_row)
{
    struct tp_err e = {0};
    struct st_reader *r = sf_reader();
    struct st_model row = {0};
    int64_t id;

    ck_assert_int_eq(try_publish("ac", "nobody", 1, true, &id, &e), -TP_E_UNKNOWN_HARDWARE);
    ck_assert_int_eq(files(false), 0);
    ck_assert_int_eq(st_model_get(r, id, &row, &e), -TP_E_UNKNOWN_MODEL);
    ck_assert_int_eq(td_registry_count(registry), 0);
    st_reader_free(r);
}
END_TEST

START_TEST(a_model_that_predicts_no_number_is_not_published)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    struct tm_provenance p = {0};
    struct st_model row = {.role = "ac", .owner = "a", .state = "imported"};
    struct tp_err e = {0};
    int rc;

    for (size_t i = 0; i < m->shape[TM_T_HEAD2_W].size; i++)
        m->w[m->shape[TM_T_HEAD2_W].offset + i] = 3e38F;
    for (size_t i = 0; i < m->shape[TM_T_HEAD1_B].size; i++)
        m->w[m->shape[TM_T_HEAD1_B].offset + i] = 3e38F;
    ck_assert_int_eq(st_model_reserve(sf_store, &row.id, &e), 0);
    rc = td_registry_publish(registry, m, &p, &row, sf_hardware_id("a"), true, &e);
    ck_assert_int_eq(rc, -TP_E_BAD_WEIGHTS);
    ck_assert_int_eq(files(false), 0);
    ck_assert_int_eq(answers("a", "active"), -TP_E_NO_MODEL);
}
END_TEST

START_TEST(the_row_tells_the_hash_of_the_file)
{
    int64_t id = publish("ac", "a", 1, true);
    struct st_reader *r = sf_reader();
    struct st_model row = {0};
    struct tp_buf bytes = {0};
    char path[200], hex[65];

    td_registry_path(registry, id, path, sizeof path);
    ck_assert_int_eq(td_weights_bytes(path, &bytes, NULL), 0);
    td_sha256(bytes.p, bytes.n, hex);
    ck_assert_int_eq(st_model_get(r, id, &row, NULL), 0);
    ck_assert_str_eq(row.sha256, hex);
    ck_assert_str_eq(row.features_version, "tclf-1");
    st_model_clear(&row);
    tp_buf_free(&bytes);
    st_reader_free(r);
}
END_TEST

START_TEST(active_models_are_loaded_at_start)
{
    int64_t ac = publish("ac", "a", 1, true), kb = publish("kb", "cpu", 2, true);

    reopen();
    ck_assert_int_eq(errors, 0);
    ck_assert_int_eq(td_registry_count(registry), 2);
    ck_assert_int_eq(answers("a", "active"), ac);
    ck_assert_int_eq(answers("b", "active"), kb);
}
END_TEST

START_TEST(a_damaged_active_model_is_reported_and_the_rest_starts)
{
    int64_t ac = publish("ac", "a", 1, true), kb = publish("kb", "cpu", 2, true), other = publish("ac", "b", 3, true);

    damage(ac);
    reopen();
    ck_assert_int_eq(errors, 1);
    ck_assert_int_eq(error_id, ac);
    ck_assert_int_eq(answers("a", "active"), kb);
    ck_assert_int_eq(answers("b", "active"), other);
}
END_TEST

START_TEST(files_without_a_row_are_swept_at_start)
{
    static const char *const left[] = {"77.safetensors", "78.safetensors.tmp"};
    int64_t id = publish("ac", "a", 1, true);
    char path[200];

    for (int i = 0; i < 2; i++) {
        FILE *f;

        snprintf(path, sizeof path, "%s/%s", models, left[i]);
        f = fopen(path, "w");
        ck_assert_ptr_nonnull(f);
        fclose(f);
    }
    ck_assert_int_eq(files(false), 3);
    reopen();
    ck_assert_int_eq(files(false), 1);
    ck_assert_int_eq(answers("a", "active"), id);
}
END_TEST

START_TEST(deleted_hardware_leaves_memory_and_disk)
{
    struct td_hw hw;
    char name[24];

    publish("ac", "a", 1, true);
    publish("ac", "a", 2, true);
    snprintf(name, sizeof name, "%lld", (long long)publish("ac", "a", 3, false));
    ck_assert_int_gt(answers("a", name), 0);
    publish("ac", "b", 4, true);
    ck_assert_int_eq(td_registry_hardware(registry, "a", &hw, NULL), 0);
    ck_assert_int_eq(st_hardware_delete(sf_store, "a", true, NULL), 0);
    td_registry_forget(registry, "a");
    ck_assert_int_eq(td_registry_hardware(registry, "a", &hw, NULL), -TP_E_UNKNOWN_HARDWARE);
    ck_assert_int_eq(td_registry_count(registry), 1);
    ck_assert_int_eq(files(false), 1);
    sf_hardware("a", "cpu", "cpu");
    ck_assert_int_eq(answers("a", "active"), -TP_E_NO_MODEL);
    ck_assert_int_eq(answers("a", name), -TP_E_UNKNOWN_MODEL);
}
END_TEST

START_TEST(a_peek_sees_hardware_once_it_was_asked_for_and_until_it_changes)
{
    struct td_hw hw = {0};

    ck_assert(!td_registry_hardware_peek(registry, "a", &hw));
    ck_assert_int_eq(td_registry_hardware(registry, "a", &hw, NULL), 0);
    hw = (struct td_hw){0};
    ck_assert(td_registry_hardware_peek(registry, "a", &hw));
    ck_assert_str_eq(hw.name, "a");
    ck_assert(!td_registry_hardware_peek(registry, "b", &hw));
    td_registry_hardware_changed(registry, "a");
    ck_assert(!td_registry_hardware_peek(registry, "a", &hw));
}
END_TEST

START_TEST(a_deletion_spares_the_model_of_hardware_that_is_registered_again)
{
    int64_t old = publish("ac", "a", 1, true), new;
    char name[24];

    ck_assert_int_eq(st_hardware_delete(sf_store, "a", true, NULL), 0);
    sf_hardware("a", "cpu", "cpu");
    publish("ac", "a", 2, false);
    new = publish("ac", "a", 3, true);
    td_registry_forget(registry, "a"); /* of the deletion, late */
    ck_assert_int_eq(answers("a", "active"), new);
    ck_assert_int_eq(active_in_store("a"), new);
    ck_assert_int_eq(td_registry_count(registry), 1);
    snprintf(name, sizeof name, "%lld", (long long)old);
    ck_assert_int_eq(answers("a", name), -TP_E_UNKNOWN_MODEL);
}
END_TEST

START_TEST(a_model_for_deleted_hardware_is_not_for_its_successor)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    struct tm_provenance p = {0};
    struct st_model row = {.role = "ac", .owner = "a", .state = "published"};
    struct tp_err e = {0};
    int64_t before = sf_hardware_id("a");

    ck_assert_int_eq(st_hardware_delete(sf_store, "a", true, NULL), 0);
    td_registry_forget(registry, "a");
    sf_hardware("a", "cpu", "cpu");
    ck_assert_int_eq(st_model_reserve(sf_store, &row.id, &e), 0);
    ck_assert_int_eq(td_registry_publish(registry, m, &p, &row, before, true, &e), -TP_E_UNKNOWN_HARDWARE);
    ck_assert_int_eq(files(false), 0);
    ck_assert_int_eq(answers("a", "active"), -TP_E_NO_MODEL);
    ck_assert_int_eq(active_in_store("a"), 0);
}
END_TEST

/* Stands in for the C library's: a weights file takes its name by it, in the middle of a publication. */
static void (*before_rename)(void);

int rename(const char *from, const char *to)
{
    if (before_rename != NULL)
        before_rename();
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

static void register_anew(void)
{
    before_rename = NULL;
    ck_assert_int_eq(st_hardware_delete(sf_store, "a", true, NULL), 0);
    sf_hardware("a", "cpu", "cpu");
}

START_TEST(nor_is_it_when_the_hardware_is_deleted_during_the_publication)
{
    struct tp_err e = {0};
    int64_t id;

    before_rename = register_anew;
    ck_assert_int_eq(try_publish("ac", "a", 1, true, &id, &e), -TP_E_UNKNOWN_HARDWARE);
    ck_assert(before_rename == NULL);
    ck_assert_int_eq(files(false), 0);
    ck_assert_int_eq(answers("a", "active"), -TP_E_NO_MODEL);
    ck_assert_int_eq(active_in_store("a"), 0);
}
END_TEST

START_TEST(a_holder_keeps_its_snapshot_through_swaps_and_deletion)
{
    int64_t first = publish("ac", "a", 1, true);
    struct td_snapshot *s = NULL;

    ck_assert_int_eq(td_registry_acquire(registry, "a", "cpu", "active", &s, NULL), 0);
    publish("ac", "a", 2, true);
    publish("ac", "a", 3, true);
    ck_assert_int_eq(st_hardware_delete(sf_store, "a", true, NULL), 0);
    td_registry_forget(registry, "a");
    ck_assert_int_eq(s->id, first);
    ck_assert_int_eq(s->provenance.seed, 1);
    ck_assert_int_eq(td_snapshot_same(s, s, NULL), 0);
    td_registry_release(s);
}
END_TEST

START_TEST(hardware_is_cached_until_it_changes)
{
    struct td_hw hw;
    struct st_hardware row = {.name = "a", .family = "gpu", .kind = "gpu"};
    bool created;

    ck_assert_int_eq(td_registry_hardware(registry, "a", &hw, NULL), 0);
    ck_assert_str_eq(hw.family, "cpu");
    ck_assert_int_eq(hw.feat.kind, TP_TARGET_CPU);
    row.target = (char[]){"cuda"};
    row.descriptor = (char[]){"{\"sm_count\": 108}"};
    ck_assert_int_eq(st_hardware_put(sf_store, &row, &created, NULL), 0);
    td_registry_hardware_changed(registry, "a");
    ck_assert_int_eq(td_registry_hardware(registry, "a", &hw, NULL), 0);
    ck_assert_str_eq(hw.family, "gpu");
    ck_assert_int_eq(hw.feat.kind, TP_TARGET_GPU);
    ck_assert_uint_eq(hw.feat.known, 1U << 14);
}
END_TEST

START_TEST(more_hardware_than_the_cache_holds_is_found_all_the_same)
{
    struct td_hwcache *c = NULL;
    struct td_hw hw;
    char name[16];

    ck_assert_int_eq(td_hwcache_new(sf_store, &c, NULL), 0);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "h%d", i);
        sf_hardware(name, "cpu", "cpu");
    }
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 40; i++) {
            snprintf(name, sizeof name, "h%d", i);
            ck_assert_int_eq(td_hwcache_get(c, name, &hw, NULL), 0);
            ck_assert_str_eq(hw.name, name);
        }
    }
    td_hwcache_free(c);
}
END_TEST

/* ---- readers while models are swapped ---- */
enum { READERS = 3, SWAPS = 12 };

static _Atomic int n_published;
static _Atomic bool stop;

static void *reader(void *arg)
{
    long *count = arg;

    do {
        struct td_snapshot *s = NULL;
        int n = atomic_load(&n_published), i;

        if (td_registry_acquire(registry, "a", "cpu", "active", &s, NULL) != 0)
            abort();
        /* The active one is the last whose publication is over, or one that came meanwhile. */
        for (i = 0; i <= SWAPS; i++)
            if (s->provenance.seed == (uint64_t)i)
                break;
        if (i + 1 < n || i > SWAPS || td_snapshot_same(s, s, NULL) != 0)
            abort();
        td_registry_release(s);
        (*count)++;
    } while (!atomic_load(&stop));
    return NULL;
}

START_TEST(readers_see_whole_models_in_order_while_they_are_swapped)
{
    pthread_t t[READERS];
    long count[READERS] = {0};

    publish("ac", "a", 0, true);
    atomic_store(&n_published, 1);
    for (int i = 0; i < READERS; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, reader, &count[i]), 0);
    for (int i = 1; i <= SWAPS; i++) {
        publish("ac", "a", (uint64_t)i, true);
        atomic_store(&n_published, i + 1);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++) {
        pthread_join(t[i], NULL);
        ck_assert_int_gt(count[i], 0);
    }
    ck_assert_int_eq(td_registry_count(registry), 2); /* present and previous */
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon/registry");
    TCase *t = tcase_create("registry");

    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, without_a_model_the_error_says_how_to_get_one);
    tcase_add_test(t, a_published_model_answers_and_is_active_in_the_store);
    tcase_add_test(t, a_candidate_is_stored_but_does_not_answer);
    tcase_add_test(t, the_knowledge_base_answers_for_hardware_without_a_model);
    tcase_add_test(t, a_model_can_be_asked_for_by_its_id_only_where_it_belongs);
    tcase_add_test(t, a_malformed_model_name_is_refused);
    tcase_add_test(t, models_loaded_by_id_do_not_pile_up);
    tcase_add_test(t, rollback_needs_no_file);
    tcase_add_test(t, activating_the_active_model_changes_nothing);
    tcase_add_test(t, only_models_of_the_hardware_can_be_activated);
    tcase_add_test(t, a_damaged_file_cannot_be_activated);
    tcase_add_test(t, a_publication_that_fails_leaves_no_file_and_no_row);
    tcase_add_test(t, a_model_that_predicts_no_number_is_not_published);
    tcase_add_test(t, the_row_tells_the_hash_of_the_file);
    tcase_add_test(t, active_models_are_loaded_at_start);
    tcase_add_test(t, a_damaged_active_model_is_reported_and_the_rest_starts);
    tcase_add_test(t, files_without_a_row_are_swept_at_start);
    tcase_add_test(t, deleted_hardware_leaves_memory_and_disk);
    tcase_add_test(t, a_peek_sees_hardware_once_it_was_asked_for_and_until_it_changes);
    tcase_add_test(t, a_deletion_spares_the_model_of_hardware_that_is_registered_again);
    tcase_add_test(t, a_model_for_deleted_hardware_is_not_for_its_successor);
    tcase_add_test(t, nor_is_it_when_the_hardware_is_deleted_during_the_publication);
    tcase_add_test(t, a_holder_keeps_its_snapshot_through_swaps_and_deletion);
    tcase_add_test(t, hardware_is_cached_until_it_changes);
    tcase_add_test(t, more_hardware_than_the_cache_holds_is_found_all_the_same);
    tcase_add_test(t, readers_see_whole_models_in_order_while_they_are_swapped);
    suite_add_tcase(s, t);
    return sf_main(s);
}
