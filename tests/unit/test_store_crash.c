/* kill -9 at full load: what was acknowledged is there, what was not is there whole or not at all.
 *
 * A child posts from several threads and reports every acknowledged batch through a pipe; the parent kills it after a
 * while, opens the store itself and compares. The same directory is killed over and over, so that later rounds start
 * from a log that an earlier one left behind. Each record's timestamp is its serial number; a batch owns a block of
 * them. */
#include "tests/unit/store_fixture.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ROUNDS = 5 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { ROUNDS = 5 };
#else
enum { ROUNDS = 30 };
#endif
#else
enum { ROUNDS = 30 };
#endif

enum { THREADS = 4, BLOCK = 64, MAX_BATCHES = 1 << 16, MAX_MS = 120 };

/* Batches of all rounds, acknowledged or not. */
static bool acked[MAX_BATCHES];
static uint32_t n_batches;

static uint8_t batch_size(uint32_t batch)
{
    return (uint8_t)(1 + batch * 29 % BLOCK);
}

/* ---- the child ---- */

static int ack_fd;
static _Atomic uint32_t next_batch;

struct ack {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    uint32_t batch;
};

static void on_done(void *arg, const struct st_ingest_result *result)
{
    struct ack *a = arg;
    if (result->code || result->accepted != batch_size(a->batch))
        _exit(3);
    if (write(ack_fd, &a->batch, sizeof a->batch) != sizeof a->batch)
        _exit(4);
    pthread_mutex_lock(&a->lock);
    a->done = true;
    pthread_cond_signal(&a->cond);
    pthread_mutex_unlock(&a->lock);
}

static void *poster(void *arg)
{
    struct ack a = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    struct tp_record r;
    struct tp_err e;
    char line[1024];
    (void)arg;
    tp_record_init(&r);
    for (;;) {
        a.batch = next_batch++;
        a.done = false;
        struct st_ingest *b = st_ingest_new("crash");
        if (!b)
            _exit(5);
        for (int i = 0; i < batch_size(a.batch); i++) {
            long serial = (long)a.batch * BLOCK + i;
            struct sf_line l = {(int)(serial % 5), (int)(serial % 900000), serial % 10 ? 1e-3 : 0, serial};
            size_t n = sf_print(line, sizeof line, l);
            if (tp_record_parse(&r, line, n, &e) < 0 || st_ingest_add(b, &r, &e) < 0)
                _exit(6);
        }
        if (st_ingest_submit(sf_store, "m1", b, on_done, &a, &e) < 0)
            _exit(7);
        pthread_mutex_lock(&a.lock);
        while (!a.done)
            pthread_cond_wait(&a.cond, &a.lock);
        pthread_mutex_unlock(&a.lock);
    }
    return NULL;
}

static void child(uint32_t first)
{
    struct tp_err e;
    pthread_t t;
    next_batch = first;
    if (st_open(sf_dir, &sf_store, &e) < 0)
        _exit(8);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&t, NULL, poster, NULL))
            _exit(9);
    for (;;)
        pause();
}

/* ---- the parent ---- */

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Notes acknowledgements until the pipe's other end is gone; kills the child `ms` after its first one, or after its
 * start, when it may still be busy with the log of the one before. */
static uint32_t watch(pid_t pid, int fd, int ms, bool early)
{
    int64_t deadline = early ? now_ms() + ms / 4 : 0;
    uint32_t n = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = deadline - now_ms();
        if (deadline && left <= 0) {
            kill(pid, SIGKILL);
            deadline = INT64_MAX;
            left = 10000;
        }
        if (poll(&p, 1, deadline ? (int)(left < 10000 ? left : 10000) : 10000) <= 0)
            continue;
        uint32_t batch;
        if (read(fd, &batch, sizeof batch) != sizeof batch)
            return n;
        if (!deadline)
            deadline = now_ms() + ms;
        ck_assert_uint_lt(batch, MAX_BATCHES);
        acked[batch] = true;
        if (batch >= n_batches)
            n_batches = batch + 1;
        n++;
    }
}

static void compare(void)
{
    static uint8_t found[MAX_BATCHES];
    sqlite3_stmt *st = NULL;
    int64_t rows = 0;
    memset(found, 0, sizeof found);
    struct st_reader *r = sf_reader();
    ck_assert_int_eq(sqlite3_prepare_v2(r->db.h, "SELECT CAST(timestamp AS INTEGER) FROM measurement", -1, &st, NULL),
                     SQLITE_OK);
    for (; sqlite3_step(st) == SQLITE_ROW; rows++) {
        int64_t batch = sqlite3_column_int64(st, 0) / BLOCK;
        if (batch >= MAX_BATCHES || found[batch]++ > BLOCK)
            ck_abort_msg("a record that nobody sent");
        if (batch >= n_batches)
            n_batches = (uint32_t)batch + 1;
    }
    sqlite3_finalize(st);
    st_reader_free(r);
    uint32_t lost = 0, torn = 0;
    for (uint32_t i = 0; i < n_batches; i++) {
        lost += acked[i] && found[i] != batch_size(i);
        torn += found[i] && found[i] != batch_size(i);
    }
    ck_assert_uint_eq(lost, 0);
    ck_assert_uint_eq(torn, 0);
    ck_assert_int_eq(sf_query("SELECT sum(measurements) FROM hardware_task"), rows);
    ck_assert_int_eq(sf_query("SELECT sum(failures) FROM hardware_task"),
                     sf_query("SELECT count(*) FROM measurement WHERE min_cost IS NULL"));
    ck_assert_int_eq(sf_query("SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
    ck_assert_int_eq(sf_query("SELECT count(*) FROM pragma_foreign_key_check"), 0);
}

START_TEST(what_was_acknowledged_survives_kill_9)
{
    uint64_t seed = 20240607; /* the moments differ anyway; the seed only spreads them */
    uint32_t total = 0;
    sf_hardware("m1", "cpu", "cpu");
    for (int round = 0; round < ROUNDS; round++) {
        int fds[2];
        st_close(sf_store);
        sf_store = NULL;
        ck_assert_int_eq(pipe(fds), 0);
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            close(fds[0]);
            ack_fd = fds[1];
            child(n_batches + THREADS); /* batches of the last round may have been under way */
        }
        close(fds[1]);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        total += watch(pid, fds[0], (int)(seed >> 40) % MAX_MS, round % 5 == 4);
        close(fds[0]);
        int status = 0;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the child ended by itself: %d", status);
        struct tp_err e;
        ck_assert_msg(st_open(sf_dir, &sf_store, &e) == 0, "%s", e.detail);
        compare();
    }
    ck_assert_uint_gt(total, 0);
    printf("%d kills, %u batches acknowledged, none lost\n", ROUNDS, total);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store crash");
    TCase *t = tcase_create("crash");
    tcase_add_checked_fixture(t, sf_begin, sf_end);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, what_was_acknowledged_survives_kill_9);
    suite_add_tcase(s, t);
    return sf_main(s);
}
