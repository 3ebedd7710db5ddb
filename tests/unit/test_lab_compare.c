/* What is said of several models: arrays for the peers, means and paired intervals over tasks and seeds, a peer that
 * cannot run, and the peers themselves where their Python packages are installed. */
#include "lab/compare.h"
#include "lab/export.h"
#include "lab/npy.h"

#include "lab_logs.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char folder[] = "/tmp/lab-compare-XXXXXX";

static void remove_tree(const char *path)
{
    DIR *d = opendir(path);
    for (struct dirent *f; d && (f = readdir(d)) != NULL;) {
        char *inside = NULL;
        if (strcmp(f->d_name, ".") == 0 || strcmp(f->d_name, "..") == 0 ||
            asprintf(&inside, "%s/%s", path, f->d_name) < 0)
            continue;
        if (unlink(inside) != 0)
            remove_tree(inside);
        free(inside);
    }
    if (d)
        closedir(d);
    rmdir(path);
}

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    remove_tree(folder);
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
}

enum { TASKS = 10, PROGRAMS = 24 };

/* Cost: the further from 12, the slower, in every task. Task 9 is tested. */
static struct tl_corpus *corpus_and_split(bool tlp, struct tl_split *s)
{
    struct logs l;
    struct tl_split_opts o;
    struct tp_err e = {0};
    char *key = logs_key(9);
    logs_begin(&l);
    for (int t = 0; t < TASKS; t++)
        for (int p = 1; p <= PROGRAMS; p++)
            logs_add(&l, t, p, 1e-3 * (1 + abs(p - 12)), 1e-3 * (1 + abs(p - 12)));
    struct tl_corpus *c = logs_read(&l);
    tl_split_defaults(&o);
    o.min_programs = 4;
    o.valid_fraction = 0.3;
    o.tlp = tlp;
    ck_assert_msg(tl_split_make(c, &key, 1, &o, s, &e) == 0, "%s", e.detail);
    free(key);
    return c;
}

START_TEST(costs_go_out_without_those_of_the_test)
{
    struct tl_split s;
    struct tl_corpus *c = corpus_and_split(false, &s);
    char path[96];
    double *cost;
    size_t n;
    ck_assert_int_eq(tl_export_split(&s, folder, NULL), 0);
    snprintf(path, sizeof path, "%s/cost.npy", folder);
    ck_assert_int_eq(tl_npy_read(path, &cost, &n, NULL), 0);
    ck_assert_uint_eq(n, s.d->n);
    for (size_t i = 0; i < s.n_test; i++)
        ck_assert(isnan(cost[s.test[i]]));
    for (size_t i = 0; i < s.n_train; i++)
        ck_assert_double_eq(cost[s.train[i]], s.d->cost[s.train[i]]);
    free(cost);
    tl_split_free(&s);
    tl_corpus_free(c);
}
END_TEST

START_TEST(a_digest_tells_splits_apart)
{
    struct tl_split a, b, other;
    struct tl_corpus *c = corpus_and_split(false, &a), *again = corpus_and_split(false, &b),
                     *tlp = corpus_and_split(true, &other);
    ck_assert_uint_eq(tl_export_digest(&a), tl_export_digest(&b));
    ck_assert_uint_ne(tl_export_digest(&a), tl_export_digest(&other));
    uint64_t whole = tl_export_digest(&a);
    a.n_train--;
    ck_assert_uint_ne(tl_export_digest(&a), whole);
    tl_split_free(&a);
    tl_split_free(&b);
    tl_split_free(&other);
    tl_corpus_free(c);
    tl_corpus_free(again);
    tl_corpus_free(tlp);
}
END_TEST

START_TEST(fnv_1a_is_the_published_one)
{
    ck_assert_uint_eq(tl_digest(TL_DIGEST, "", 0), UINT64_C(0xcbf29ce484222325));
    ck_assert_uint_eq(tl_digest(TL_DIGEST, "a", 1), UINT64_C(0xaf63dc4c8601ec8c));
    ck_assert_uint_eq(tl_digest(TL_DIGEST, "foobar", 6), UINT64_C(0x85944171f73967e8));
}
END_TEST

/* Two seeds, three tasks. The second model is lower by 0.1 everywhere, but for a task that leaves its figure undefined.
 */
START_TEST(differences_are_paired_by_task_and_seed)
{
    double a[2][3] = {{0.9, 0.5, 0.1}, {0.8, 0.6, 0.4}}, b[2][3] = {{0.8, 0.4, 0.0}, {0.7, NAN, 0.3}};
    struct tl_trial ta[2], tb[2];
    struct tl_compare c = {.seeds = 2};
    struct tl_contender ma = {.name = "a", .trial = ta}, mb = {.name = "b", .trial = tb};
    struct tl_estimate x;
    memset(ta, 0, sizeof ta);
    memset(tb, 0, sizeof tb);
    for (int k = 0; k < 2; k++) {
        ta[k].score.n = tb[k].score.n = 3;
        ta[k].score.pairwise = a[k];
        tb[k].score.pairwise = b[k];
    }
    ck_assert_int_eq(tl_compare_estimate(&c, &ma, NULL, TL_PAIRWISE, &x, NULL), 0);
    ck_assert_double_eq_tol(x.mean, 3.3 / 6, 1e-12);
    ck_assert_double_lt(x.interval.lo, x.interval.hi);
    ck_assert_int_eq(tl_compare_estimate(&c, &ma, &mb, TL_PAIRWISE, &x, NULL), 0);
    ck_assert_double_eq_tol(x.mean, 0.1, 1e-12);
    ck_assert_double_eq_tol(x.interval.lo, 0.1, 1e-12);
    ck_assert_double_eq_tol(x.interval.hi, 0.1, 1e-12);
}
END_TEST

/* A stand-in for the script: it says what is missing, as peers.py does. */
START_TEST(a_peer_whose_package_is_missing_is_named_and_skipped)
{
    char script[96];
    snprintf(script, sizeof script, "%s/peers.sh", folder);
    FILE *f = fopen(script, "w");
    fputs("echo 'python package torch is not installed' >&2\nexit 77\n", f);
    fclose(f);
    const struct tl_peer_opts o = {.python = "/bin/sh", .script = script, .dir = folder, .threads = 1};
    struct tl_contender m = {.name = "tlp"};
    ck_assert_int_eq(tl_peer_describe(&m, &o, NULL), 0);
    ck_assert_str_eq(m.skipped, "python package torch is not installed");
    free(m.title);
    free(m.notes);
}
END_TEST

START_TEST(a_script_that_is_not_there_is_an_error)
{
    const struct tl_peer_opts o = {.python = "/bin/sh", .script = "/nowhere/peers.py", .dir = folder, .threads = 1};
    struct tl_contender m = {.name = "tlp"};
    ck_assert_int_eq(tl_peer_describe(&m, &o, NULL), -TP_E_IO);
}
END_TEST

/* Each peer learns a little from nine tasks, and a second call reads what the first one did. */
static void smoke(const char *name, const char *set)
{
    const struct tl_peer_opts o = {.python = "/usr/bin/python3",
                                   .script = "tests/lab/peers.py",
                                   .dir = folder,
                                   .threads = 1,
                                   .set = {set},
                                   .n_set = 1};
    struct tl_contender m = {.name = name};
    struct tl_trial t = {0}, again = {0};
    struct tl_split s;
    struct tp_err e = {0};
    double score[PROGRAMS], cached[PROGRAMS];
    if (access(o.python, X_OK) != 0 || access(o.script, R_OK) != 0) {
        printf("skipped: no %s or no %s\n", o.python, o.script);
        return;
    }
    ck_assert_msg(tl_peer_describe(&m, &o, &e) == 0, "%s", e.detail);
    if (m.skipped[0]) {
        printf("skipped: %s: %s\n", name, m.skipped);
        goto out;
    }
    struct tl_corpus *c = corpus_and_split(tl_peer_wants_tlp(name), &s);
    ck_assert_uint_eq(s.n_test, PROGRAMS);
    ck_assert_msg(tl_peer_run(&m, &s, 1, &o, &t, score, &e) == 0, "%s", e.detail);
    ck_assert_int_eq(t.epochs, 3);
    ck_assert_double_gt(m.parameters, 0);
    for (int i = 0; i < PROGRAMS; i++)
        ck_assert(isfinite(score[i]));
    ck_assert_int_eq(tl_peer_run(&m, &s, 1, &o, &again, cached, &e), 0);
    ck_assert_mem_eq(score, cached, sizeof score);
    free(t.valid_pairwise);
    free(again.valid_pairwise);
    tl_split_free(&s);
    tl_corpus_free(c);
out:
    free(m.title);
    free(m.notes);
}

START_TEST(tlp_runs_and_is_kept)
{
    smoke("tlp", "tlp.epochs=3");
}
END_TEST

START_TEST(mlp_runs_and_is_kept)
{
    smoke("mlp", "mlp.epochs=3");
}
END_TEST

START_TEST(trees_run_and_are_kept)
{
    smoke("xgb", "xgb.epochs=3");
    smoke("xgbrank", "xgbrank.epochs=3");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lab/compare");
    TCase *c = tcase_create("all");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 300); /* PyTorch takes its time to start on a busy machine */
    tcase_add_test(c, costs_go_out_without_those_of_the_test);
    tcase_add_test(c, a_digest_tells_splits_apart);
    tcase_add_test(c, fnv_1a_is_the_published_one);
    tcase_add_test(c, differences_are_paired_by_task_and_seed);
    tcase_add_test(c, a_peer_whose_package_is_missing_is_named_and_skipped);
    tcase_add_test(c, a_script_that_is_not_there_is_an_error);
    tcase_add_test(c, tlp_runs_and_is_kept);
    tcase_add_test(c, mlp_runs_and_is_kept);
    tcase_add_test(c, trees_run_and_are_kept);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
