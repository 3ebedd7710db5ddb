/* Disks: full, read-only, failing, slow, and writes that take half of what they are given. Whatever it is, predictions
 * go on, what cannot be stored is refused with a clear answer, nothing that was acknowledged is lost, readiness tells,
 * and all is well again as soon as the disk is. */
#include "tests/fault/with.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define HW   "disk"
#define POST "/v1/hardware/" HW "/measurements"

static void predicts(void)
{
    struct bb_text one = bb_demo(8, 1);
    bb_status(bb_lines(one.p, one.n, "/v1/hardware/" HW "/predict"), 200);
}

/* Records from .. from + n - 1 are stored, each once, and those of the template before them. */
static void holds(int from, int n, size_t before)
{
    struct bb_reply *r = bb_get(POST);
    struct bb_text want = bb_records(from, n);
    ck_assert_uint_eq(bb_line_count(r->body, r->n), before + (size_t)n);
    if (n)
        ck_assert_msg(strstr(r->body, want.p) != NULL, "the records are not there as they came");
}

static size_t stored(void)
{
    struct bb_reply *r = bb_get(POST);
    return bb_line_count(r->body, r->n);
}

static struct bb_reply *post(int from, int n)
{
    struct bb_text t = bb_records(from, n);
    return bb_lines(t.p, t.n, POST);
}

/* Readiness comes back by itself: nobody writes. */
static void recovers(size_t before, int acknowledged)
{
    fault_status("/readyz", 200, 20);
    ck_assert_uint_eq(stored(), before + (size_t)acknowledged);
    bb_counts(post(500, 30), 30, 0, 0);
}

struct failure {
    const char *name;
    int write_errno, sync_errno;
    long status;
    const char *slug;
};
static const struct failure failures[] = {
    {"no space", ENOSPC, 0, 507, "disk-full"},      {"over quota", EDQUOT, 0, 503, NULL},
    {"failing writes", EIO, 0, 503, "io"},          {"failing syncs", 0, EIO, 503, "io"},
    {"no space at the sync", 0, ENOSPC, 503, NULL}, {"turned read-only", EROFS, 0, 503, NULL},
};

START_TEST(a_failing_disk_refuses_writes_and_nothing_else)
{
    const struct failure *x = &failures[_i];
    char *dir = fault_template(HW);
    struct fault_control *f = fault_new(dir);
    struct tc_daemon *d = fault_start(f, dir, NULL, false);
    size_t before = stored();
    bb_counts(post(0, 50), 50, 0, 0);
    atomic_store(&f->write_errno, x->write_errno);
    atomic_store(&f->sync_errno, x->sync_errno);
    for (int i = 0; i < 3; i++) {
        struct bb_reply *r = post(100, 50);
        if (x->slug)
            bb_problem(r, x->status, x->slug);
        else
            ck_assert_msg(r->status == 503 || r->status == 507, "%s: %ld %s", x->name, r->status, r->body);
        predicts();
    }
    bb_status(bb_get("/readyz"), 503);
    ck_assert_ptr_nonnull(strstr(bb_get("/readyz?verbose")->body, "[-] store"));
    bb_status(bb_get("/livez"), 200);
    ck_assert_ptr_nonnull(strstr(bb_get("/metrics")->body, "\ntcld_store_writable 0\n"));
    long put = bb_json("PUT", "{\"target\": \"llvm\"}", "/v1/hardware/other")->status;
    ck_assert_msg(put == 503 || put == 507, "%s: PUT %ld", x->name, put);
    holds(0, 50, before);
    fault_log_has(d, "event=store-cannot-write", 5);
    atomic_store(&f->write_errno, 0);
    atomic_store(&f->sync_errno, 0);
    recovers(before, 50);
    fault_log_has(d, "event=store-writes-again", 5);
    bb_stop(d);
    d = bb_start(dir, NULL); /* and without the shim */
    ck_assert_uint_eq(stored(), before + 80);
    bb_stop(d);
}
END_TEST

START_TEST(short_writes_are_completed)
{
    char *dir = fault_template(HW);
    struct fault_control *f = fault_new(dir);
    struct tc_daemon *d = fault_start(f, dir, NULL, false);
    size_t before = stored();
    atomic_store(&f->short_writes, 1);
    struct bb_reply *r = post(0, 200);
    bb_status(bb_get("/livez"), 200);
    predicts();
    atomic_store(&f->short_writes, 0);
    /* either it was made whole, or refused and told */
    if (r->status == 200)
        holds(0, 200, before);
    else
        ck_assert_msg(r->status == 503 || r->status == 507, "%ld %s", r->status, r->body);
    fault_status("/readyz", 200, 20);
    size_t now = stored();
    bb_counts(post(0, 200), now > before ? 0 : 200, now > before ? 200 : 0, 0);
    holds(0, 200, before);
    bb_stop(d);
}
END_TEST

START_TEST(jobs_and_imports_fail_clearly_when_there_is_no_space)
{
    char *dir = fault_template(HW);
    struct fault_control *f = fault_new(dir);
    struct tc_daemon *d = fault_start(f, dir, NULL, false);
    int64_t model = tc_int(bb_get("/v1/hardware/" HW "/models")->json, "/items/0/id", 0);
    struct bb_reply *w = bb_get("/v1/models/%lld/weights", (long long)model);
    int64_t job = bb_retrain(HW, "{\"mode\": \"finetune\", \"epochs\": 3, \"seed\": 5}");
    atomic_store(&f->write_errno, ENOSPC);
    struct bb_reply *r = bb_call(&(struct tc_request){.method = "POST",
                                                      .path = "/v1/hardware/" HW "/models",
                                                      .body = w->body,
                                                      .n = w->n,
                                                      .content_type = "application/octet-stream"});
    bb_problem(r, 507, "disk-full");
    struct bb_reply *backup = bb_call(&(struct tc_request){.method = "POST", .path = "/v1/admin/backup"});
    ck_assert_msg(backup->status == 507 || backup->status == 503, "%ld", backup->status);
    tc_sleep(3); /* the job comes to its end without a disk */
    predicts();
    atomic_store(&f->write_errno, 0);
    fault_status("/readyz", 200, 20);
    json_t *end = bb_wait(job);
    ck_assert_msg(!strcmp(tc_str(end, "/state"), "failed") || !strcmp(tc_str(end, "/state"), "succeeded"), "%s",
                  tc_str(end, "/state"));
    ck_assert_int_ge(tc_int(bb_get("/v1/hardware/" HW)->json, "/active_model", 0), model);
    predicts();
    bb_stop(d);
    bb_stop(bb_start(dir, NULL));
}
END_TEST

/* The disk has room for the model, but not for what it has taught: the model answers, and the job says both. */
START_TEST(a_lesson_that_finds_no_space_is_told_and_the_model_stays)
{
    char *dir = bb_path("lesson");
    struct fault_control *f = fault_new(dir);
    struct tc_daemon *d = fault_start(f, dir, NULL, false);
    bb_put_hardware(HW);
    bb_post_demo(HW, 0, 8);
    snprintf(f->path, sizeof f->path, "%s/models/2.", dir); /* 1 is the model */
    atomic_store(&f->write_errno, ENOSPC);
    json_t *job = bb_train(HW, "{\"mode\": \"adapt\", \"epochs\": 1, \"seed\": 1}");
    ck_assert_str_eq(tc_str(job, "/result/decision"), "activated");
    ck_assert_str_eq(tc_str(job, "/result/kb/decision"), "not-stored");
    ck_assert_ptr_nonnull(strstr(tc_str(job, "/result/kb/reason"), "It could not be stored: "));
    ck_assert(json_is_null(tc_at(job, "/result/kb/model")));
    ck_assert_int_eq(tc_int(bb_get("/v1/hardware/" HW)->json, "/active_model", 0), 1);
    ck_assert(json_is_null(tc_at(bb_get("/v1/hardware/" HW)->json, "/kb_model")));
    fault_log_has(d, "event=knowledge-not-stored", 5);
    char *left = bb_printf("%s/models/2.safetensors", dir).p;
    ck_assert_int_ne(access(left, F_OK), 0);
    ck_assert_int_ne(access(bb_printf("%s.tmp", left).p, F_OK), 0);
    predicts();
    atomic_store(&f->write_errno, 0);
    job = bb_train(HW, "{\"mode\": \"adapt\", \"epochs\": 1, \"seed\": 2}");
    if (!strcmp(tc_str(job, "/result/decision"), "activated"))
        ck_assert_str_eq(tc_str(job, "/result/kb/decision"), "founded");
    bb_stop(d);
}
END_TEST

START_TEST(a_slow_disk_fills_the_queue_and_the_rest_is_told_when_to_come_back)
{
    char *dir = fault_template(HW);
    struct fault_control *f = fault_new(dir);
    struct tc_daemon *d = fault_start(f, dir, (const char *[]){"--ingest-queue-rows", "600", NULL}, false);
    atomic_store(&f->sync_ms, 400);
    enum { POSTS = 12 };
    struct bb_text t = bb_records(0, 300);
    struct bb_text request = bb_printf("POST " POST " HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-ndjson\r\n"
                                       "Content-Length: %zu\r\n\r\n%s",
                                       t.n, t.p);
    int fd[POSTS], ok = 0, refused = 0;
    for (int i = 0; i < POSTS; i++) {
        fd[i] = bb_connect();
        bb_send(fd[i], request.p, request.n);
    }
    for (int i = 0; i < 5; i++) { /* meanwhile */
        ck_assert_double_lt(bb_get("/livez")->seconds, 2);
        predicts();
    }
    for (int i = 0; i < POSTS; i++) {
        struct bb_text got = bb_recv(fd[i], "}", 30, NULL);
        ok += !strncmp(got.p, "HTTP/1.1 200", 12);
        if (!strncmp(got.p, "HTTP/1.1 503", 12) && strstr(got.p, "Retry-After: "))
            refused++;
        close(fd[i]);
    }
    ck_assert_int_eq(ok + refused, POSTS);
    ck_assert_int_gt(ok, 0);
    ck_assert_int_gt(refused, 0);
    ck_assert_ptr_null(strstr(bb_get("/metrics")->body, "limit=\"ingest_queue\"} 0\n"));
    atomic_store(&f->sync_ms, 0);
    bb_stop(d);
}
END_TEST

/* ---- real ones ---- */

static void fill(const char *file)
{
    int fd = open(file, O_WRONLY | O_CREAT, 0600);
    static char block[1 << 16];
    while (write(fd, block, sizeof block) > 0)
        ;
    while (write(fd, block, 512) > 0)
        ;
    close(fd);
}

START_TEST(a_full_tmpfs_is_survived)
{
    char *mnt = bb_path("tmpfs");
    ck_assert_int_eq(mkdir(mnt, 0700), 0);
    if (mount("none", mnt, "tmpfs", 0, "size=24m") != 0) {
        printf("skipped: mounting a tmpfs is not allowed here\n");
        return;
    }
    struct bb_text dir = bb_printf("%s/state", mnt);
    struct tc_err e;
    char *template = fault_template(HW);
    ck_assert_int_eq(tc_run((const char *[]){"cp", "-a", template, dir.p, NULL}, NULL, 60, NULL, NULL, &e), 0);
    struct tc_daemon *d = bb_start(dir.p, NULL);
    size_t before = stored();
    bb_counts(post(0, 50), 50, 0, 0);
    char *filler = bb_printf("%s/filler", mnt).p;
    fill(filler);
    struct bb_reply *r = NULL;
    int more = 0; /* the log may have some room left */
    for (int i = 0; i < 400; i++) {
        r = post(1000 + 100 * i, 100);
        if (r->status != 200)
            break;
        more += 100;
    }
    bb_problem(r, 507, "disk-full");
    bb_status(bb_get("/readyz"), 503);
    predicts();
    unlink(filler);
    recovers(before, 50 + more);
    bb_stop(d);
    d = bb_start(dir.p, NULL);
    ck_assert_uint_eq(stored(), before + 80 + (size_t)more);
    bb_stop(d);
    umount2(mnt, MNT_DETACH);
}
END_TEST

START_TEST(a_read_only_disk_is_refused_at_the_start)
{
    char *mnt = bb_path("readonly");
    ck_assert_int_eq(mkdir(mnt, 0700), 0);
    if (mount("none", mnt, "tmpfs", 0, "size=64m") != 0) {
        printf("skipped: mounting a tmpfs is not allowed here\n");
        return;
    }
    struct bb_text dir = bb_printf("%s/state", mnt);
    struct tc_err e;
    char *template = fault_template(HW);
    ck_assert_int_eq(tc_run((const char *[]){"cp", "-a", template, dir.p, NULL}, NULL, 60, NULL, NULL, &e), 0);
    ck_assert_int_eq(mount("none", mnt, NULL, MS_REMOUNT | MS_RDONLY, "size=64m"), 0);
    struct tp_buf err = {0};
    int status = tc_run((const char *[]){bb_binary(), "--listen", "127.0.0.1:0", "--state-dir", dir.p, NULL}, NULL, 20,
                        NULL, &err, &e);
    ck_assert_msg(status == 1 && strstr(err.p, "event=start-failed"), "%d: %s", status, err.p);
    tp_buf_free(&err);
    umount2(mnt, MNT_DETACH);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fault/disk");
    TCase *tc = bb_case_own(s, "shim", 120);
    tcase_add_loop_test(tc, a_failing_disk_refuses_writes_and_nothing_else, 0, sizeof failures / sizeof *failures);
    tcase_add_test(tc, short_writes_are_completed);
    tcase_add_test(tc, jobs_and_imports_fail_clearly_when_there_is_no_space);
    tcase_add_test(tc, a_lesson_that_finds_no_space_is_told_and_the_model_stays);
    tcase_add_test(tc, a_slow_disk_fills_the_queue_and_the_rest_is_told_when_to_come_back);
    tc = bb_case_own(s, "mounts", 120);
    tcase_add_test(tc, a_full_tmpfs_is_survived);
    tcase_add_test(tc, a_read_only_disk_is_refused_at_the_start);
    return bb_main(s);
}
