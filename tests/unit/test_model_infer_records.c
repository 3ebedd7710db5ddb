/* The inference engine on Ansor records: the same bits by record and by dataset, for any order, split and repetition; a
 * record that cannot be encoded. Records: tests/golden/records.ndjson, and whole predict calls of real searches, which
 * are looked for in $TCLD_SHARED, else ../shared, data/own/batches, and skipped when absent. */
#include "model/infer_internal.h"
#include "tests/unit/model_fixture.h"
#include "tests/unit/sanitized.h"

#include <glob.h>
#include <zlib.h>

enum { MAX_RECORDS = 2048 };

static struct tp_record record[MAX_RECORDS];
static double want_score[MAX_RECORDS], want_latency[MAX_RECORDS], want_raw[MAX_RECORDS];
static double score[2 * MAX_RECORDS], latency[2 * MAX_RECORDS], raw[2 * MAX_RECORDS];

static size_t read_records(const char *path, size_t max)
{
    static char line[TP_MAX_LINE + 2];
    struct tp_err e;
    size_t n = 0;
    gzFile f = gzopen(path, "rb"); /* reads plain files as well */
    ck_assert_msg(f, "%s: run from the root of the project", path);
    while (n < max && gzgets(f, line, sizeof line)) {
        size_t len = strcspn(line, "\r\n");
        if (len == 0)
            continue;
        tp_record_init(&record[n]);
        ck_assert_msg(tp_record_parse(&record[n], line, len, &e) == 0, "%s: %s", path, e.detail);
        n++;
    }
    gzclose(f);
    return n;
}

static void free_records(size_t n)
{
    for (size_t i = 0; i < n; i++)
        tp_record_free(&record[i]);
}

static struct tm_plan *make_plan(enum tclfeat_set set)
{
    const struct tm_hyper h = tm_hyper_default(set);
    struct tm_model *m = tm_model_new(set, &h, 1);
    ck_assert_ptr_nonnull(m);
    fixture_weights(&h, m->w);
    struct tm_plan *p = tm_plan_new(m);
    ck_assert_ptr_nonnull(p);
    tm_model_free(m); /* the plan copied what it needs */
    return p;
}

static void run(struct tm_batch *b, const struct tm_plan *p, const uint32_t *pick, size_t n)
{
    struct tp_err e;
    ck_assert_int_eq(tm_batch_begin(b, p), 0);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(tm_batch_add(b, &record[pick[i]], NULL, &e) == (int)i, "record %u: %s", pick[i], e.detail);
    ck_assert_int_eq(tm_batch_run(b, score, latency, raw), 0);
}

static void same(const uint32_t *pick, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t r = pick[i];
        ck_assert(score[i] == want_score[r] && latency[i] == want_latency[r] && raw[i] == want_raw[r]);
    }
}

/* All ways of putting the n records into batches give the same bits. */
static void check_batches(const struct tm_plan *p, size_t n)
{
    static uint32_t pick[2 * MAX_RECORDS];
    struct tm_batch *b = tm_batch_new(), *fresh;
    struct tm_rng rng;
    ck_assert_ptr_nonnull(b);
    tm_rng_seed(&rng, n);
    for (uint32_t i = 0; i < n; i++)
        pick[i] = i;
    run(b, p, pick, n);
    memcpy(want_score, score, n * sizeof *score);
    memcpy(want_latency, latency, n * sizeof *latency);
    memcpy(want_raw, raw, n * sizeof *raw);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 2 * n; i++)
            pick[i] = i % (uint32_t)n;
        tm_rng_shuffle(&rng, pick, 2 * n);
        run(b, p, pick, 2 * n);
        same(pick, 2 * n);
        fresh = tm_batch_new();
        ck_assert_ptr_nonnull(fresh);
        for (size_t at = 0, k; at < n; at += k) {
            k = 1 + tm_rng_below(&rng, 100);
            k = k < n - at ? k : n - at;
            run(fresh, p, pick + at, k);
            same(pick + at, k);
        }
        tm_batch_free(fresh);
    }
    tm_batch_share(b, false);
    run(b, p, pick, n);
    same(pick, n);
    tm_batch_free(b);
}

START_TEST(records_in_any_batch_give_the_same_bits)
{
    const size_t n = read_records("tests/golden/records.ndjson", MAX_RECORDS);
    ck_assert_uint_gt(n, 20);
    for (int s = 0; s < TCLFEAT_TCLM_1; s++) {
        struct tm_plan *p = make_plan((enum tclfeat_set)s);
        check_batches(p, n);
        tm_plan_free(p);
    }
    free_records(n);
}
END_TEST

START_TEST(searches_in_any_batch_give_the_same_bits)
{
    const char *shared = getenv("TCLD_SHARED");
    char pattern[512];
    glob_t files;
    snprintf(pattern, sizeof pattern, "%s/data/own/batches/*.json.gz", shared ? shared : "../shared");
    if (glob(pattern, 0, NULL, &files)) {
        printf("searches_in_any_batch_give_the_same_bits: skipped, no %s\n", pattern);
        return;
    }
    const size_t max = SANITIZED ? 100 : MAX_RECORDS;
    struct tm_plan *p = make_plan(TCLFEAT_TCLF_1);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        const size_t n = read_records(files.gl_pathv[i], max);
        check_batches(p, n);
        free_records(n);
    }
    tm_plan_free(p);
    globfree(&files);
}
END_TEST

START_TEST(a_record_and_its_program_in_a_dataset_give_the_same_bits)
{
    const size_t n = read_records("tests/golden/records.ndjson", MAX_RECORDS);
    struct tm_plan *p = make_plan(TCLFEAT_TCLF_1);
    struct tm_batch *b = tm_batch_new();
    struct tm_dataset *d = tm_dataset_new(TCLFEAT_TCLF_1);
    ck_assert(b && d);
    for (size_t i = 0; i < n; i++) {
        uint8_t key[16] = {(uint8_t)i};
        ck_assert_int_eq(tm_dataset_add(d, &record[i], "0123456789abcdef", key, 1.0, NULL, NULL), 1);
    }
    ck_assert_int_eq(tm_batch_begin(b, p), 0);
    for (uint32_t i = 0; i < n; i++) { /* mixed in one batch */
        ck_assert_int_eq(tm_batch_add(b, &record[i], NULL, NULL), 2 * (int)i);
        ck_assert_int_eq(tm_batch_add_dataset(b, d, i), 2 * (int)i + 1);
    }
    ck_assert_int_eq(tm_batch_run(b, score, latency, raw), 0);
    for (size_t i = 0; i < n; i++)
        ck_assert(raw[2 * i] == raw[2 * i + 1] && latency[2 * i] == latency[2 * i + 1]);
    tm_dataset_free(d);
    tm_batch_free(b);
    tm_plan_free(p);
    free_records(n);
}
END_TEST

START_TEST(a_record_that_cannot_be_encoded_leaves_the_batch_as_it_was)
{
    const size_t n = read_records("tests/golden/records.ndjson", 5);
    struct tm_plan *p = make_plan(TCLFEAT_TCLF_1);
    struct tm_batch *b = tm_batch_new();
    struct tp_err e;
    static const uint32_t pick[] = {0, 1, 3, 4};
    ck_assert_ptr_nonnull(b);
    ck_assert_uint_eq(n, 5);
    run(b, p, pick, 4);
    for (int i = 0; i < 4; i++) {
        want_score[pick[i]] = score[i];
        want_latency[pick[i]] = latency[i];
        want_raw[pick[i]] = raw[i];
    }
    record[2].task.target = (struct tp_str){"{", 1};
    ck_assert_int_eq(tm_batch_begin(b, p), 0);
    for (int i = 0; i < 5; i++) {
        const int rc = tm_batch_add(b, &record[i], NULL, &e);
        ck_assert_int_eq(rc, i == 2 ? -TP_E_BAD_TASK : i < 2 ? i : i - 1);
    }
    ck_assert_int_eq(tm_batch_run(b, score, latency, raw), 0);
    same(pick, 4);
    tm_batch_free(b);
    tm_plan_free(p);
    free_records(n);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model/infer_records");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, records_in_any_batch_give_the_same_bits);
    tcase_add_test(c, searches_in_any_batch_give_the_same_bits);
    tcase_add_test(c, a_record_and_its_program_in_a_dataset_give_the_same_bits);
    tcase_add_test(c, a_record_that_cannot_be_encoded_leaves_the_batch_as_it_was);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
