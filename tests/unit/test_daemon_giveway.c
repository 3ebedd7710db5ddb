/* Giving way: what the kernel says of a thread afterwards, of threads it starts, and of the others. */
#include "daemon/giveway.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

struct seen {
    int nice, policy, child_nice, child_policy;
};

static int my_nice(void)
{
    errno = 0;
    return getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
}

static void *child(void *arg)
{
    struct seen *s = arg;
    s->child_nice = my_nice();
    s->child_policy = sched_getscheduler(0);
    return NULL;
}

static void *plain(void *arg)
{
    struct seen *s = arg;
    pthread_t t;
    td_give_way(3, false);
    s->nice = my_nice();
    s->policy = sched_getscheduler(0);
    ck_assert_int_eq(pthread_create(&t, NULL, child, s), 0);
    pthread_join(t, NULL);
    return NULL;
}

static void *batch(void *arg)
{
    struct seen *s = arg;
    td_give_way(100, true);
    s->nice = my_nice();
    s->policy = sched_getscheduler(0);
    return NULL;
}

static struct seen in_a_thread(void *(*fn)(void *))
{
    struct seen s = {0};
    pthread_t t;
    ck_assert_int_eq(pthread_create(&t, NULL, fn, &s), 0);
    pthread_join(t, NULL);
    return s;
}

START_TEST(a_thread_and_those_it_starts_give_way_and_nobody_else)
{
    int before = my_nice(), want = before + 3 < 19 ? before + 3 : 19;
    struct seen s = in_a_thread(plain);
    ck_assert_int_eq(s.nice, want);
    ck_assert_int_eq(s.policy, sched_getscheduler(0));
    ck_assert_int_eq(s.child_nice, want);
    ck_assert_int_eq(s.child_policy, sched_getscheduler(0));
    ck_assert_int_eq(my_nice(), before);
}
END_TEST

START_TEST(batch_work_says_so_and_niceness_ends_at_19)
{
    struct seen s = in_a_thread(batch);
    ck_assert_int_eq(s.nice, 19);
    ck_assert_int_eq(s.policy, SCHED_BATCH);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("daemon_giveway");
    TCase *c = tcase_create("all");
    tcase_add_test(c, a_thread_and_those_it_starts_give_way_and_nobody_else);
    tcase_add_test(c, batch_work_says_so_and_niceness_ends_at_19);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
