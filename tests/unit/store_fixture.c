/* See the header. The waiting is by a condition variable, never by time. */
#include "tests/unit/store_fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char sf_dir[64];
struct st_store *sf_store;

static void open_store(void)
{
    struct tp_err e = {0};
    ck_assert_msg(st_open(sf_dir, &sf_store, &e) == 0, "st_open: %s", e.detail);
}

void sf_begin(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(sf_dir, sizeof sf_dir, "%.40s/tcld-store-XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(sf_dir));
    open_store();
}

void sf_end(void)
{
    st_close(sf_store);
    sf_store = NULL;
    DIR *d = opendir(sf_dir);
    struct dirent *f;
    while (d && (f = readdir(d)))
        unlinkat(dirfd(d), f->d_name, 0);
    if (d)
        closedir(d);
    rmdir(sf_dir);
}

void sf_reopen(void)
{
    st_close(sf_store);
    open_store();
}

void sf_path(char out[96], const char *name)
{
    snprintf(out, 96, "%s/%.30s", sf_dir, name);
}

struct st_reader *sf_reader(void)
{
    struct st_reader *r = NULL;
    struct tp_err e = {0};
    ck_assert_msg(st_reader_new(sf_store, &r, &e) == 0, "st_reader_new: %s", e.detail);
    return r;
}

void sf_hardware(const char *name, const char *family, const char *kind)
{
    struct st_hardware h = {.target = (char *)"llvm", .descriptor = (char *)"{\"num_cores\": 8}"};
    struct tp_err e = {0};
    bool created = false;
    snprintf(h.name, sizeof h.name, "%s", name);
    snprintf(h.family, sizeof h.family, "%s", family);
    snprintf(h.kind, sizeof h.kind, "%s", kind);
    ck_assert_msg(st_hardware_put(sf_store, &h, &created, &e) == 0, "st_hardware_put: %s", e.detail);
}

int64_t sf_hardware_id(const char *name)
{
    struct st_reader *r = sf_reader();
    struct st_hardware h = {0};
    struct tp_err e = {0};
    ck_assert_msg(st_hardware_get(r, name, &h, &e) == 0, "%s", e.detail);
    int64_t id = h.id;
    st_hardware_clear(&h);
    st_reader_free(r);
    return id;
}

/* The program is spelled in three split factors, so that lengths vary as they do in real logs. */
size_t sf_print(char *out, size_t n, struct sf_line l)
{
    char cost[64];
    snprintf(cost, sizeof cost, l.cost > 0 ? "%.6g, %.6g" : "1e+10", l.cost, l.cost * 1.25);
    int len = snprintf(
        out, n,
        "{\"i\": [[\"[\\\"matmul\\\", %d, 64]\", \"llvm -keys=cpu -mcpu=core-avx2\", [8, 64, 64, 0, 0, 0, 0, 0], "
        "\"\", 1, []], [[], [[\"CHW\", 2, \"local\"], [\"SP\", 2, 0, 512, [%d, %d, %d], 1], [\"AN\", 3, 0, 3], "
        "[\"PR\", 2, 0, \"auto_unroll_max_step$64\"]]]], \"r\": [[%s], %d, 0.5, %ld], \"v\": \"v0.6\"}",
        l.task, 1 + l.program / 10000, 1 + l.program / 100 % 100, 1 + l.program % 100, cost, l.cost > 0 ? 0 : 2,
        l.timestamp);
    return len > 0 && (size_t)len < n ? (size_t)len : 0;
}

void sf_parse(struct tp_record *r, const char *line)
{
    struct tp_err e = {0};
    ck_assert_msg(tp_record_parse(r, line, strlen(line), &e) == 0, "%s: %s", e.detail, line);
}

/* One assertion for all: each writes to Check's own file, and thousands of them are felt. */
struct st_ingest *sf_batch(const struct sf_line *lines, size_t n)
{
    struct st_ingest *b = st_ingest_new("tester");
    struct tp_record r;
    struct tp_err e = {0};
    char line[1024];
    int rc = b ? 0 : -1;
    tp_record_init(&r);
    for (size_t i = 0; i < n && rc == 0; i++) {
        size_t len = sf_print(line, sizeof line, lines[i]);
        rc = tp_record_parse(&r, line, len, &e);
        if (rc == 0)
            rc = st_ingest_add(b, &r, &e);
    }
    tp_record_free(&r);
    ck_assert_msg(rc == 0, "a batch cannot be made: %s", e.detail);
    return b;
}

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    struct st_ingest_result result;
};

static void wake(void *arg, const struct st_ingest_result *result)
{
    struct waiter *w = arg;
    pthread_mutex_lock(&w->lock);
    w->result = *result;
    w->done = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

int sf_try_submit(const char *hardware, struct st_ingest *b, struct st_ingest_result *result, struct tp_err *e)
{
    struct waiter w = {.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    int rc = st_ingest_submit(sf_store, hardware, b, wake, &w, e);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&w.lock);
    while (!w.done)
        pthread_cond_wait(&w.cond, &w.lock);
    pthread_mutex_unlock(&w.lock);
    *result = w.result;
    return 0;
}

struct st_ingest_result sf_submit(const char *hardware, struct st_ingest *b)
{
    struct st_ingest_result result = {0};
    struct tp_err e = {0};
    ck_assert_msg(sf_try_submit(hardware, b, &result, &e) == 0, "st_ingest_submit: %s", e.detail);
    return result;
}

struct st_ingest_result sf_post(const char *hardware, const struct sf_line *lines, size_t n)
{
    return sf_submit(hardware, sf_batch(lines, n));
}

struct st_ingest_result sf_post_text(const char *hardware, const char *line)
{
    struct st_ingest *b = st_ingest_new(NULL);
    struct tp_record r;
    struct tp_err e = {0};
    ck_assert_ptr_nonnull(b);
    tp_record_init(&r);
    sf_parse(&r, line);
    ck_assert_msg(st_ingest_add(b, &r, &e) == 0, "st_ingest_add: %s", e.detail);
    tp_record_free(&r);
    return sf_submit(hardware, b);
}

static int print_record(void *arg, int64_t id, const char *task_id, const struct tp_record *rec)
{
    (void)id;
    (void)task_id;
    tp_record_emit(rec, arg);
    tp_buf_putc(arg, '\n');
    return 0;
}

void sf_export(struct tp_buf *out, const char *hardware, const char *task_id)
{
    struct st_reader *r = sf_reader();
    struct tp_err e = {0};
    int64_t last = 0;
    out->n = 0;
    int rc = st_export(r, sf_hardware_id(hardware), task_id, 0, -1, print_record, out, &last, &e);
    ck_assert_msg(rc == 0, "st_export: %s", e.detail);
    st_reader_free(r);
    tp_buf_putc(out, '\0');
    ck_assert(!out->oom);
}

int64_t sf_query(const char *sql)
{
    char path[96];
    struct st_db db = {0};
    struct tp_err e = {0};
    int64_t v = 0;
    sf_path(path, "tcld.db");
    ck_assert_msg(st_db_open(&db, path, false, &e) == 0, "%s", e.detail);
    ck_assert_msg(st_db_pragma(&db, sql, &v, &e) == 0, "%s: %s", sql, e.detail);
    st_db_close(&db);
    return v;
}

int sf_main(Suite *s)
{
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
