/* The writer: groups, refusals, a full disk, the end. */
#include "tests/unit/store_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static void setup(void)
{
    sf_begin();
    sf_hardware("m1", "cpu", "cpu");
}

/* ---- an op that holds the writer up until it is let go, so that what is queued behind it forms a group ---- */

static struct gate {
    struct st_op op;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool inside, open, finished;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};

static int gate_run(struct st_store *s, struct st_op *op, struct tp_err *e)
{
    (void)s;
    (void)op;
    (void)e;
    pthread_mutex_lock(&gate.lock);
    gate.inside = true;
    pthread_cond_broadcast(&gate.cond);
    while (!gate.open)
        pthread_cond_wait(&gate.cond, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
    return 0;
}

static void gate_finish(struct st_op *op)
{
    (void)op;
    pthread_mutex_lock(&gate.lock);
    gate.finished = true;
    pthread_cond_broadcast(&gate.cond);
    pthread_mutex_unlock(&gate.lock);
}

/* rows = ST_GROUP_ROWS keeps the gate in a transaction of its own. */
static void close_gate(size_t rows)
{
    gate.op = (struct st_op){.rows = rows, .run = gate_run, .finish = gate_finish};
    gate.inside = gate.open = gate.finished = false;
    ck_assert_int_eq(st_writer_push(sf_store, &gate.op, true, NULL), 0);
    pthread_mutex_lock(&gate.lock);
    while (!gate.inside)
        pthread_cond_wait(&gate.cond, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
    sf_store->group_ms = 600000; /* the writer is held; from now on only rows end a group */
}

static void open_gate(void)
{
    pthread_mutex_lock(&gate.lock);
    gate.open = true;
    pthread_cond_broadcast(&gate.cond);
    while (!gate.finished)
        pthread_cond_wait(&gate.cond, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
}

/* ---- ops of the tests' own ---- */

struct probe {
    struct st_op op;
    const char *sql;
    int refuse; /* code to return after the sql */
    int runs;
    _Atomic bool finished;
};

static int probe_run(struct st_store *s, struct st_op *op, struct tp_err *e)
{
    struct probe *p = (struct probe *)op;
    p->runs++;
    int rc = st_db_exec(&s->db, p->sql, e);
    return rc == 0 && p->refuse ? tp_fail(e, (enum tp_code)p->refuse, "refused by the test") : rc;
}

static void probe_finish(struct st_op *op)
{
    ((struct probe *)op)->finished = true;
}

static void push(struct probe *p, const char *sql, int refuse)
{
    *p = (struct probe){.op = {.rows = 1, .run = probe_run, .finish = probe_finish}, .sql = sql, .refuse = refuse};
    ck_assert_int_eq(st_writer_push(sf_store, &p->op, true, NULL), 0);
}

static int run_sql(struct st_db *db, void *arg, struct tp_err *e)
{
    return st_db_exec(db, arg, e);
}

/* Waits for everything that was queued before, too. */
static void on_writer(const char *sql)
{
    struct tp_err e;
    ck_assert_msg(st_write(sf_store, run_sql, (void *)(uintptr_t)sql, &e) == 0, "%s: %s", sql, e.detail);
}

/* ---- tests ---- */

enum { POSTERS = 16, POSTS = 12, PER_POST = 20 };

struct poster {
    pthread_t thread;
    struct st_ingest *batches[POSTS];
    size_t accepted;
};

static void *post(void *arg)
{
    struct poster *p = arg;
    for (int i = 0; i < POSTS; i++) {
        struct st_ingest_result res = {0};
        if (sf_try_submit("m1", p->batches[i], &res, NULL) == 0)
            p->accepted += res.accepted;
    }
    return NULL;
}

START_TEST(many_threads_lose_nothing)
{
    static struct poster p[POSTERS];
    for (int i = 0; i < POSTERS * POSTS; i++) {
        struct sf_line lines[PER_POST];
        for (int k = 0; k < PER_POST; k++)
            lines[k] = (struct sf_line){i % POSTERS % 4, i / POSTERS * PER_POST + k, 1e-3, i % POSTERS + 1};
        p[i % POSTERS].batches[i / POSTERS] = sf_batch(lines, PER_POST);
    }
    for (int i = 0; i < POSTERS; i++)
        ck_assert_int_eq(pthread_create(&p[i].thread, NULL, post, &p[i]), 0);
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(p[i].thread, NULL);
        ck_assert_uint_eq(p[i].accepted, POSTS * PER_POST);
    }
    ck_assert_int_eq(sf_query("SELECT count(*) FROM measurement"), POSTERS * POSTS * PER_POST);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM program"), 4 * POSTS * PER_POST);
    ck_assert_int_eq(sf_query("SELECT sum(measurements) FROM hardware_task"), POSTERS * POSTS * PER_POST);
    ck_assert_uint_eq(st_ingest_queued(sf_store), 0);
}
END_TEST

START_TEST(what_waits_shares_a_transaction_up_to_its_limit)
{
    enum { N = ST_GROUP_ROWS + 1 };
    static struct probe p[N];
    close_gate(ST_GROUP_ROWS);
    sf_store->commits = 0; /* the writer is held */
    for (int i = 0; i < N; i++)
        push(&p[i], "UPDATE meta SET value = value + 1", 0);
    open_gate();
    on_writer("SELECT 1");
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(p[i].runs, 1);
    ck_assert_int_eq(sf_store->commits, 2);
}
END_TEST

START_TEST(a_refused_write_leaves_its_neighbours_alone)
{
    struct probe a, b, c;
    struct sf_line line = {1, 1, 1e-3, 1};
    close_gate(ST_GROUP_ROWS);
    push(&a, "INSERT INTO meta VALUES ('a', 1)", 0);
    push(&b, "INSERT INTO meta VALUES ('b', 1); DELETE FROM meta WHERE key = 'a'", TP_E_CONFLICT);
    push(&c, "INSERT INTO meta VALUES ('c', 1)", 0);
    open_gate();
    on_writer("SELECT 1");
    ck_assert_int_eq(a.op.code, 0);
    ck_assert_int_eq(b.op.code, -TP_E_CONFLICT);
    ck_assert_str_eq(b.op.err.detail, "refused by the test");
    ck_assert_int_eq(c.op.code, 0);
    ck_assert_int_eq(a.runs + b.runs + c.runs, 3); /* the transaction was not lost */
    ck_assert_int_eq(sf_query("SELECT group_concat(key, '') = 'ac' FROM meta WHERE length(key) = 1"), 1);
    ck_assert(st_healthy(sf_store));
    ck_assert_uint_eq(sf_post("m1", &line, 1).accepted, 1);
}
END_TEST

START_TEST(a_lost_transaction_is_tried_again_one_by_one)
{
    struct probe a, b, c;
    close_gate(ST_GROUP_ROWS);
    push(&a, "INSERT INTO meta VALUES ('a', 1)", 0);
    push(&b, "ROLLBACK", TP_E_NO_MEMORY); /* what SQLite does by itself after some errors */
    push(&c, "INSERT INTO meta VALUES ('c', 1)", 0);
    open_gate();
    on_writer("SELECT 1");
    ck_assert_int_eq(a.op.code, 0);
    ck_assert_int_eq(b.op.code, -TP_E_NO_MEMORY);
    ck_assert_int_eq(c.op.code, 0);
    ck_assert_int_eq(a.runs, 2);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM meta WHERE key IN ('a', 'c')"), 2);
}
END_TEST

static void keep_code(void *arg, const struct st_ingest_result *result)
{
    *(int *)arg = result->code;
}

static void count_done(void *arg, const struct st_ingest_result *result)
{
    if (result->code == 0)
        ++*(int *)arg;
}

START_TEST(close_commits_what_is_queued)
{
    enum { BATCHES = 60 };
    int done = 0;
    struct tp_err e;
    close_gate(1);
    for (int i = 0; i < BATCHES; i++) {
        struct sf_line lines[] = {{1, i, 1e-3, 1}, {1, i, 1e-3, 2}};
        ck_assert_int_eq(st_ingest_submit(sf_store, "m1", sf_batch(lines, 2), count_done, &done, &e), 0);
    }
    ck_assert_uint_eq(st_ingest_queued(sf_store), 1 + 2 * BATCHES);
    open_gate();
    sf_reopen();
    ck_assert_int_eq(done, BATCHES);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM measurement"), 2 * BATCHES);
}
END_TEST

START_TEST(after_the_end_writes_are_refused_and_stay_the_callers)
{
    struct sf_line line = {1, 1, 1e-3, 1};
    struct st_ingest *b = sf_batch(&line, 1);
    int64_t id = -1;
    struct tp_err e;
    st_writer_stop(sf_store);
    ck_assert_int_eq(st_ingest_submit(sf_store, "m1", b, count_done, NULL, &e), -TP_E_DRAINING);
    ck_assert_uint_eq(st_ingest_size(b), 1);
    st_ingest_free(b);
    ck_assert_int_eq(st_model_reserve(sf_store, &id, &e), -TP_E_DRAINING);
    ck_assert_int_eq(id, -1);
}
END_TEST

START_TEST(a_full_queue_refuses_batches_but_lets_control_writes_in)
{
    struct probe p = {.op = {.rows = ST_QUEUE_ROWS, .run = probe_run, .finish = probe_finish}, .sql = "SELECT 1"};
    struct probe control;
    struct sf_line line = {1, 1, 1e-3, 1};
    struct st_ingest *b = sf_batch(&line, 1);
    struct tp_err e;
    close_gate(1);
    ck_assert_int_eq(st_writer_push(sf_store, &p.op, true, &e), 0);
    ck_assert_int_eq(st_ingest_submit(sf_store, "m1", b, count_done, NULL, &e), -TP_E_OVERLOADED);
    push(&control, "SELECT 1", 0);
    open_gate();
    on_writer("SELECT 1");
    ck_assert_int_eq(control.op.code, 0);
    ck_assert_uint_eq(sf_submit("m1", b).accepted, 1);
}
END_TEST

START_TEST(a_batch_larger_than_the_queue_is_taken_when_the_queue_is_empty)
{
    struct probe p = {.op = {.rows = ST_QUEUE_ROWS + 1, .run = probe_run, .finish = probe_finish}, .sql = "SELECT 1"};
    struct tp_err e;
    ck_assert_int_eq(st_writer_push(sf_store, &p.op, false, &e), 0);
    on_writer("SELECT 1");
    ck_assert(p.finished);
}
END_TEST

static int done_rc;

static void write_in_done(void *arg, const struct st_ingest_result *result)
{
    int64_t id;
    (void)result;
    done_rc = st_model_reserve(sf_store, &id, arg);
}

START_TEST(a_blocking_write_on_the_writer_thread_is_an_error_not_a_deadlock)
{
    struct sf_line line = {1, 1, 1e-3, 1};
    struct tp_err e;
    ck_assert_int_eq(st_ingest_submit(sf_store, "m1", sf_batch(&line, 1), write_in_done, &e, NULL), 0);
    on_writer("SELECT 1");
    ck_assert_int_eq(done_rc, -TP_E_INTERNAL);
}
END_TEST

START_TEST(a_database_locked_by_another_process_is_overload_not_loss)
{
    char path[96];
    sqlite3 *other = NULL;
    struct sf_line line = {1, 1, 1e-3, 1};
    sf_path(path, "tcld.db");
    close_gate(1);
    sqlite3_busy_timeout(sf_store->db.h, 1); /* the writer is held */
    open_gate();
    ck_assert_int_eq(sqlite3_open(path, &other), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    ck_assert_int_eq(sf_post("m1", &line, 1).code, -TP_E_OVERLOADED);
    ck_assert_int_eq(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    ck_assert_uint_eq(sf_post("m1", &line, 1).accepted, 1);
    sqlite3_close(other);
}
END_TEST

/* ---- disk full ---- */

enum { BIG = 2000 };

static struct st_ingest *batch_of(int task, int n)
{
    static struct sf_line lines[BIG];
    for (int i = 0; i < n; i++)
        lines[i] = (struct sf_line){task, i, 1e-3, 1};
    return sf_batch(lines, (size_t)n);
}

static struct st_ingest *big_batch(int task)
{
    return batch_of(task, BIG);
}

static void check_sound(int64_t measurements)
{
    ck_assert_int_eq(sf_query("SELECT count(*) FROM measurement"), measurements);
    ck_assert_int_eq(sf_query("SELECT ifnull(sum(measurements), 0) FROM hardware_task"), measurements);
    ck_assert_int_eq(sf_query("SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM pragma_foreign_key_check"), 0);
}

START_TEST(a_full_disk_fails_the_batch_whole_and_heals)
{
    on_writer("PRAGMA max_page_count = 60");
    ck_assert_int_eq(sf_submit("m1", big_batch(1)).code, -TP_E_DISK_FULL);
    ck_assert(!st_healthy(sf_store));
    check_sound(0);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM task"), 0);
    on_writer("PRAGMA max_page_count = 100000");
    /* the same new task: a row id remembered from the failed batch would break it */
    ck_assert_uint_eq(sf_submit("m1", big_batch(1)).accepted, BIG);
    ck_assert(st_healthy(sf_store));
    check_sound(BIG);
}
END_TEST

START_TEST(a_full_disk_does_not_fail_what_still_fits)
{
    struct probe small;
    struct tp_err e;
    int code = 0;
    on_writer("PRAGMA max_page_count = 1"); /* SQLite reads it as: no page more than there are */
    close_gate(ST_GROUP_ROWS);
    push(&small, "INSERT INTO meta VALUES ('small', 1)", 0);
    ck_assert_int_eq(st_ingest_submit(sf_store, "m1", batch_of(1, ST_GROUP_ROWS - 2), keep_code, &code, &e), 0);
    open_gate();
    on_writer("SELECT 1");
    ck_assert_int_eq(code, -TP_E_DISK_FULL);
    ck_assert_int_eq(small.op.code, 0);
    ck_assert_int_eq(small.runs, 2); /* they shared a transaction, which was lost */
    ck_assert(!st_healthy(sf_store));
    ck_assert_int_eq(sf_query("SELECT count(*) FROM meta WHERE key = 'small'"), 1);
    check_sound(0);
}
END_TEST

START_TEST(a_log_that_cannot_grow_is_a_full_disk_and_heals)
{
    char path[96];
    struct stat st;
    struct rlimit old, tight;
    struct sf_line line = {7, 7, 1e-3, 7};
    signal(SIGXFSZ, SIG_IGN);
    sf_post("m1", &line, 1);
    sf_path(path, "tcld.db-wal");
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = (struct rlimit){.rlim_cur = (rlim_t)st.st_size + 20000, .rlim_max = old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &tight), 0);
    ck_assert_int_eq(sf_submit("m1", big_batch(1)).code, -TP_E_DISK_FULL);
    ck_assert(!st_healthy(sf_store));
    check_sound(1);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert_uint_eq(sf_submit("m1", big_batch(1)).accepted, BIG);
    ck_assert(st_healthy(sf_store));
    sf_reopen();
    check_sound(1 + BIG);
}
END_TEST

/* ---- the log ---- */

START_TEST(the_log_is_checkpointed_and_used_again)
{
    for (int i = 0; i < 24; i++)
        ck_assert_uint_eq(sf_submit("m1", big_batch(i)).accepted, BIG);
    on_writer("SELECT 1");
    close_gate(1);
    ck_assert_int_lt(sf_store->wal_frames, 8000);
    open_gate();
    check_sound(24 * BIG);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store writer");
    TCase *t = tcase_create("writer");
    tcase_add_checked_fixture(t, setup, sf_end);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, many_threads_lose_nothing);
    tcase_add_test(t, what_waits_shares_a_transaction_up_to_its_limit);
    tcase_add_test(t, a_refused_write_leaves_its_neighbours_alone);
    tcase_add_test(t, a_lost_transaction_is_tried_again_one_by_one);
    tcase_add_test(t, close_commits_what_is_queued);
    tcase_add_test(t, after_the_end_writes_are_refused_and_stay_the_callers);
    tcase_add_test(t, a_full_queue_refuses_batches_but_lets_control_writes_in);
    tcase_add_test(t, a_batch_larger_than_the_queue_is_taken_when_the_queue_is_empty);
    tcase_add_test(t, a_blocking_write_on_the_writer_thread_is_an_error_not_a_deadlock);
    tcase_add_test(t, a_database_locked_by_another_process_is_overload_not_loss);
    tcase_add_test(t, a_full_disk_fails_the_batch_whole_and_heals);
    tcase_add_test(t, a_full_disk_does_not_fail_what_still_fits);
    tcase_add_test(t, a_log_that_cannot_grow_is_a_full_disk_and_heals);
    tcase_add_test(t, the_log_is_checkpointed_and_used_again);
    suite_add_tcase(s, t);
    return sf_main(s);
}
