/* libtclfeat over real tuning logs of other people, a thin sample of each: nothing is refused, every number is finite
 * and of the size that the divisors promise, rows repeat as the inference engine counts on. Skips where the logs are
 * absent: they are looked for in $TCLD_SHARED, else ../shared, data/public. TCLD_EVERY=1 reads every record. */
#include "proto/tclfeat.h"

#include <check.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { BATCH = 200, MAX_ROWS = BATCH * 64 };
static const float MAX_VALUE = 8.0f;

static struct tclfeat_key batch[MAX_ROWS];
static size_t n_batch, rows, distinct;
static int in_batch;

static int by_key(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct tclfeat_key));
}

/* A full batch of one task: count its distinct rows. Programs of a mixed or short one do not count. */
static void end_batch(void)
{
    if (in_batch == BATCH) {
        qsort(batch, n_batch, sizeof batch[0], by_key);
        rows += n_batch;
        for (size_t i = 0; i < n_batch; i++)
            distinct += i == 0 || by_key(&batch[i - 1], &batch[i]) != 0;
    }
    n_batch = 0;
    in_batch = 0;
}

static bool sane(const float *v, int n)
{
    bool ok = true;

    for (int i = 0; i < n; i++)
        ok = ok && fabsf(v[i]) <= MAX_VALUE; /* false for NaN as well */
    return ok;
}

static void check_log(const char *path, long every, struct tclfeat_encoder *e, struct tp_record *r)
{
    static char line[TP_MAX_LINE], key[4096];
    static struct tclfeat_key keys[TCLFEAT_MAX_ROWS];
    gzFile f = gzopen(path, "r");
    struct tp_err err;

    ck_assert_ptr_nonnull(f);
    for (long k = 0; gzgets(f, line, sizeof line); k++) {
        float row[TCLFEAT_MAX_COLS], summary[TCLFEAT_MAX_SUMMARY];
        size_t len = strcspn(line, "\r\n");
        int n;

        /* whole batches now and then, not one record here and there, to see repetition */
        if (k / BATCH % every != 0)
            continue;
        ck_assert_msg(tp_record_parse(r, line, len, &err) == 0, "%s record %ld: %s", path, k, err.detail);
        n = tclfeat_encode(e, r, NULL, keys, summary, &err);
        ck_assert_msg(n == (int)r->n_steps + 2, "%s record %ld: %d rows, %s", path, k, n, err.detail);
        if (k % 5 == 0) {
            for (int i = 0; i < n; i++) {
                tclfeat_row(TCLFEAT_TCLF_1, &keys[i], row);
                ck_assert_msg(sane(row, tclfeat_cols(TCLFEAT_TCLF_1)), "%s record %ld row %d", path, k, i);
            }
            ck_assert_msg(sane(summary, TCLFEAT_MAX_SUMMARY), "%s record %ld summary", path, k);
        }
        if (in_batch == BATCH || n_batch + (size_t)n > MAX_ROWS || strlen(key) != r->task.workload_key.n ||
            memcmp(key, r->task.workload_key.s, r->task.workload_key.n) != 0)
            end_batch();
        snprintf(key, sizeof key, "%.*s", (int)r->task.workload_key.n, r->task.workload_key.s);
        memcpy(&batch[n_batch], keys, (size_t)n * sizeof keys[0]);
        n_batch += (size_t)n;
        in_batch++;
    }
    end_batch();
    gzclose(f);
}

START_TEST(real_programs_give_sane_rows_that_repeat)
{
    const char *shared = getenv("TCLD_SHARED"), *every = getenv("TCLD_EVERY");
    struct tclfeat_encoder *e = tclfeat_encoder_new(TCLFEAT_TCLF_1);
    struct tp_record r;
    char pattern[4096];
    glob_t g;

    snprintf(pattern, sizeof pattern, "%s/data/public/*/*.json.gz", shared ? shared : "../shared");
    if (glob(pattern, 0, NULL, &g) != 0) {
        printf("skipped: no logs at %s\n", pattern);
        tclfeat_encoder_free(e);
        return;
    }
    tp_record_init(&r);
    for (size_t i = 0; i < g.gl_pathc; i++)
        check_log(g.gl_pathv[i], every ? strtol(every, NULL, 10) : 20, e, &r);
    printf("distinct rows in batches of %d: %.1f %% of %zu\n", BATCH, 100.0 * (double)distinct / (double)rows, rows);
    ck_assert_uint_gt(rows, 0);
    ck_assert(distinct * 4 < rows);
    globfree(&g);
    tp_record_free(&r);
    tclfeat_encoder_free(e);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("proto/tclfeat (real logs)");
    TCase *t = tcase_create("logs");
    SRunner *sr;
    int failed;

    tcase_set_timeout(t, 600);
    tcase_add_test(t, real_programs_give_sane_rows_that_repeat);
    suite_add_tcase(s, t);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
