/* The parallel for: every item once, on any number of threads, run after run. */
#include "model/pool.h"

#include <check.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 1000 };

struct work {
    atomic_int count[ITEMS];
    int threads;
    atomic_int bad_worker;
};

static void visit(void *arg, uint32_t item, int worker)
{
    struct work *w = arg;
    atomic_fetch_add(&w->count[item], 1);
    if (worker < 0 || worker >= w->threads)
        atomic_store(&w->bad_worker, 1);
}

START_TEST(every_item_is_done_once)
{
    static const int threads[] = {-3, 1, 2, 4, 7};
    for (size_t k = 0; k < sizeof threads / sizeof *threads; k++) {
        struct tm_pool *p = tm_pool_new(threads[k]);
        static struct work w;
        ck_assert_ptr_nonnull(p);
        memset(&w, 0, sizeof w);
        w.threads = tm_pool_threads(p);
        ck_assert(w.threads >= 1 && w.threads <= (threads[k] < 1 ? 1 : threads[k]));
        tm_pool_run(p, visit, &w, ITEMS);
        for (int i = 0; i < ITEMS; i++)
            ck_assert_int_eq(atomic_load(&w.count[i]), 1);
        ck_assert_int_eq(atomic_load(&w.bad_worker), 0);
        tm_pool_free(p);
    }
}
END_TEST

START_TEST(short_runs_follow_each_other)
{
    struct tm_pool *p = tm_pool_new(4);
    static struct work w;
    ck_assert_ptr_nonnull(p);
    w.threads = 4;
    for (int run = 1; run <= 2000; run++) {
        tm_pool_run(p, visit, &w, 3);
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(atomic_load(&w.count[i]), run);
    }
    tm_pool_run(p, visit, &w, 0);
    tm_pool_free(p);
}
END_TEST

START_TEST(freeing_an_unused_pool_or_none_is_fine)
{
    tm_pool_free(tm_pool_new(3));
    tm_pool_free(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model/pool");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, every_item_is_done_once);
    tcase_add_test(c, short_runs_follow_each_other);
    tcase_add_test(c, freeing_an_unused_pool_or_none_is_fine);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
