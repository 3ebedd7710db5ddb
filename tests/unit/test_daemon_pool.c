/* The pool: order, lanes, limit, per-thread state, and that nothing accepted is lost. Tasks wait for each other by
 * semaphores, never by time. */
#include "daemon/pool.h"

#include <check.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

static struct tp_err e;
static int order[1000];
static _Atomic int n_done;
static sem_t gate, entered;

static void note(void *task, void *worker)
{
    (void)worker;
    order[atomic_fetch_add(&n_done, 1)] = *(int *)task;
}

static void block(void *task, void *worker)
{
    (void)task, (void)worker;
    sem_post(&entered);
    sem_wait(&gate);
}

static void block_on(void *task, void *worker)
{
    (void)worker;
    sem_post(&entered);
    sem_wait(task);
}

static void post(void *task, void *worker)
{
    (void)worker;
    sem_post(task);
}

static struct td_pool *make(int main, int express, size_t max)
{
    struct td_pool *p = td_pool_new(&(struct td_pool_opts){
        .name = "t", .threads = {[TD_LANE_MAIN] = main, [TD_LANE_EXPRESS] = express}, .max_queued = max});
    ck_assert_ptr_nonnull(p);
    return p;
}

static void submit(struct td_pool *p, enum td_lane lane, void (*fn)(void *, void *), void *task)
{
    ck_assert_int_eq(td_pool_submit(p, lane, fn, task, &e), 0);
}

static void setup(void)
{
    atomic_store(&n_done, 0);
    sem_init(&gate, 0, 0);
    sem_init(&entered, 0, 0);
}

START_TEST(one_thread_runs_tasks_in_order_of_arrival)
{
    struct td_pool *p = make(1, 0, 1000);
    static int v[1000];
    for (int i = 0; i < 1000; i++) {
        v[i] = i;
        ck_assert_int_eq(td_pool_submit(p, TD_LANE_MAIN, note, &v[i], &e), 0);
    }
    td_pool_free(p);
    ck_assert_int_eq(n_done, 1000);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(order[i], i);
}
END_TEST

START_TEST(a_full_queue_refuses_and_says_so)
{
    struct td_pool *p = make(1, 0, 2);
    int v = 1;
    ck_assert_int_eq(td_pool_submit(p, TD_LANE_MAIN, block, NULL, &e), 0);
    sem_wait(&entered); /* it runs, so the queue is empty */
    ck_assert_int_eq(td_pool_submit(p, TD_LANE_MAIN, note, &v, &e), 0);
    ck_assert_int_eq(td_pool_submit(p, TD_LANE_MAIN, note, &v, &e), 0);
    ck_assert_uint_eq(td_pool_queued(p, TD_LANE_MAIN), 2);
    ck_assert_int_eq(td_pool_submit(p, TD_LANE_MAIN, note, &v, &e), -TP_E_OVERLOADED);
    td_pool_limit(p, 3);
    ck_assert_int_eq(td_pool_submit(p, TD_LANE_MAIN, note, &v, &e), 0);
    td_pool_limit(p, 1);
    ck_assert_int_eq(td_pool_submit(p, TD_LANE_MAIN, note, &v, &e), -TP_E_OVERLOADED);
    sem_post(&gate);
    td_pool_free(p);
    ck_assert_int_eq(n_done, 3); /* what waited when the limit fell was run */
}
END_TEST

START_TEST(the_wait_is_what_queues_times_what_the_last_tasks_took)
{
    struct td_pool *p = make(1, 0, 10);
    int v = 1;
    ck_assert_int_eq(td_pool_wait_us(p, TD_LANE_MAIN), 0); /* nothing waits, nothing is known */
    submit(p, TD_LANE_MAIN, block, NULL);
    sem_wait(&entered);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    submit(p, TD_LANE_MAIN, block, NULL);
    sem_post(&gate); /* the first one took 20 ms at least */
    sem_wait(&entered);
    ck_assert_int_eq(td_pool_wait_us(p, TD_LANE_MAIN), 0);
    submit(p, TD_LANE_MAIN, note, &v);
    int64_t one = td_pool_wait_us(p, TD_LANE_MAIN);
    submit(p, TD_LANE_MAIN, note, &v);
    submit(p, TD_LANE_MAIN, note, &v);
    ck_assert_int_ge(one, 20000);
    ck_assert_int_ge(td_pool_wait_us(p, TD_LANE_MAIN), 3 * one);
    ck_assert_int_eq(td_pool_wait_us(p, TD_LANE_EXPRESS), td_pool_wait_us(p, TD_LANE_MAIN)); /* there is none */
    sem_post(&gate);
    td_pool_free(p);
}
END_TEST

START_TEST(freeing_runs_what_is_queued)
{
    struct td_pool *p = make(2, 0, 100);
    int v = 1;
    ck_assert_int_eq(td_pool_submit(p, TD_LANE_MAIN, block, NULL, &e), 0);
    ck_assert_int_eq(td_pool_submit(p, TD_LANE_MAIN, block, NULL, &e), 0);
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(td_pool_submit(p, TD_LANE_MAIN, note, &v, &e), 0);
    ck_assert_uint_eq(td_pool_done(p, TD_LANE_MAIN), 0);
    sem_post(&gate);
    sem_post(&gate);
    td_pool_free(p);
    ck_assert_int_eq(n_done, 50);
}
END_TEST

static _Atomic int made, freed;
static void *worker_new(void *arg)
{
    ck_assert_ptr_eq(arg, &made);
    if (made == 3)
        return NULL;
    int *w = malloc(sizeof *w);
    *w = atomic_fetch_add(&made, 1);
    return w;
}
static void worker_free(void *w)
{
    atomic_fetch_add(&freed, 1);
    free(w);
}
static void see_worker(void *task, void *worker)
{
    ck_assert_ptr_nonnull(worker);
    atomic_fetch_add((_Atomic int *)task, 1);
}

START_TEST(every_thread_has_its_own_state)
{
    static _Atomic int seen;
    made = freed = 0;
    struct td_pool *p = td_pool_new(&(struct td_pool_opts){.name = "t",
                                                           .threads = {1, 1},
                                                           .max_queued = 100,
                                                           .worker_new = worker_new,
                                                           .worker_free = worker_free,
                                                           .arg = &made});
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(made, 2);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(td_pool_submit(p, TD_LANE_MAIN, see_worker, &seen, &e), 0);
    td_pool_free(p);
    ck_assert_int_eq(seen, 20);
    ck_assert_int_eq(freed, 2);
}
END_TEST

START_TEST(a_pool_whose_state_cannot_be_made_is_not_made)
{
    made = freed = 0;
    ck_assert_ptr_null(td_pool_new(&(struct td_pool_opts){.name = "t",
                                                          .threads = {2, 3},
                                                          .max_queued = 100,
                                                          .worker_new = worker_new,
                                                          .worker_free = worker_free,
                                                          .arg = &made}));
    ck_assert_int_eq(freed, 3);
    td_pool_free(NULL);
}
END_TEST

static _Atomic int sum;
static void add(void *task, void *worker)
{
    (void)worker;
    atomic_fetch_add(&sum, *(int *)task);
}
static void *submit_many(void *arg)
{
    static int one = 1;
    for (int i = 0; i < 2000; i++)
        while (td_pool_submit(arg, i % 3 ? TD_LANE_EXPRESS : TD_LANE_MAIN, add, &one, NULL) != 0)
            sched_yield();
    return NULL;
}

START_TEST(many_submitters_lose_nothing)
{
    struct td_pool *p = make(2, 1, 70);
    pthread_t t[4];
    sum = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, submit_many, p);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    td_pool_free(p);
    ck_assert_int_eq(sum, 8000);
}
END_TEST

/* ---- lanes ---- */

START_TEST(a_blocked_main_lane_does_not_hold_up_the_express_lane)
{
    struct td_pool *p = make(2, 1, 100);
    sem_t done;
    sem_init(&done, 0, 0);
    for (int i = 0; i < 10; i++)
        submit(p, TD_LANE_MAIN, block, NULL);
    for (int i = 0; i < 50; i++) {
        submit(p, TD_LANE_EXPRESS, post, &done);
        sem_wait(&done);
    }
    ck_assert_uint_eq(td_pool_done(p, TD_LANE_MAIN), 0);
    for (int i = 0; i < 10; i++)
        sem_post(&gate);
    td_pool_free(p);
}
END_TEST

START_TEST(express_threads_leave_main_tasks_alone)
{
    struct td_pool *p = make(1, 3, 100);
    sem_t done;
    int v = 7;
    sem_init(&done, 0, 0);
    submit(p, TD_LANE_MAIN, block, NULL);
    sem_wait(&entered);
    submit(p, TD_LANE_MAIN, note, &v);
    for (int i = 0; i < 50; i++) {
        submit(p, TD_LANE_EXPRESS, post, &done);
        sem_wait(&done);
    }
    ck_assert_int_eq(n_done, 0);
    ck_assert_uint_eq(td_pool_queued(p, TD_LANE_MAIN), 1);
    sem_post(&gate);
    td_pool_free(p);
    ck_assert_int_eq(n_done, 1);
}
END_TEST

START_TEST(idle_main_threads_help_the_express_lane)
{
    struct td_pool *p = make(2, 1, 100);
    for (int i = 0; i < 3; i++)
        submit(p, TD_LANE_EXPRESS, block, NULL);
    for (int i = 0; i < 3; i++)
        sem_wait(&entered); /* all three run at a time */
    for (int i = 0; i < 3; i++)
        sem_post(&gate);
    td_pool_free(p);
}
END_TEST

START_TEST(main_threads_help_only_when_they_have_no_task_of_their_own)
{
    struct td_pool *p = make(1, 1, 100);
    sem_t gate_main, gate_express;
    int first = 1, second = 2;
    sem_init(&gate_main, 0, 0);
    sem_init(&gate_express, 0, 0);
    submit(p, TD_LANE_MAIN, block_on, &gate_main);
    sem_wait(&entered);
    submit(p, TD_LANE_EXPRESS, block_on, &gate_express); /* only the express thread is left for it */
    sem_wait(&entered);
    submit(p, TD_LANE_EXPRESS, note, &second);
    submit(p, TD_LANE_MAIN, note, &first);
    submit(p, TD_LANE_EXPRESS, post, &entered);
    sem_post(&gate_main);
    sem_wait(&entered); /* by the main thread, the other is blocked still */
    ck_assert_int_eq(order[0], first);
    ck_assert_int_eq(order[1], second);
    sem_post(&gate_express);
    td_pool_free(p);
}
END_TEST

START_TEST(a_full_main_lane_leaves_room_in_the_express_lane)
{
    struct td_pool *p = make(1, 1, 1);
    sem_t done;
    int v = 1;
    sem_init(&done, 0, 0);
    submit(p, TD_LANE_MAIN, block, NULL);
    sem_wait(&entered);
    submit(p, TD_LANE_MAIN, note, &v);
    ck_assert_int_eq(td_pool_submit(p, TD_LANE_MAIN, note, &v, &e), -TP_E_OVERLOADED);
    submit(p, TD_LANE_EXPRESS, post, &done);
    sem_wait(&done);
    sem_post(&gate);
    td_pool_free(p);
    ck_assert_int_eq(n_done, 1);
}
END_TEST

START_TEST(a_pool_without_an_express_lane_runs_express_tasks_in_turn)
{
    struct td_pool *p = make(1, 0, 10);
    int v[4] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++)
        submit(p, i % 2 ? TD_LANE_EXPRESS : TD_LANE_MAIN, note, &v[i]);
    td_pool_free(p);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(order[i], i);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon_pool");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 30);
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, one_thread_runs_tasks_in_order_of_arrival);
    tcase_add_test(c, a_full_queue_refuses_and_says_so);
    tcase_add_test(c, the_wait_is_what_queues_times_what_the_last_tasks_took);
    tcase_add_test(c, freeing_runs_what_is_queued);
    tcase_add_test(c, every_thread_has_its_own_state);
    tcase_add_test(c, a_pool_whose_state_cannot_be_made_is_not_made);
    tcase_add_test(c, many_submitters_lose_nothing);
    tcase_add_test(c, a_blocked_main_lane_does_not_hold_up_the_express_lane);
    tcase_add_test(c, express_threads_leave_main_tasks_alone);
    tcase_add_test(c, idle_main_threads_help_the_express_lane);
    tcase_add_test(c, main_threads_help_only_when_they_have_no_task_of_their_own);
    tcase_add_test(c, a_full_main_lane_leaves_room_in_the_express_lane);
    tcase_add_test(c, a_pool_without_an_express_lane_runs_express_tasks_in_turn);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
