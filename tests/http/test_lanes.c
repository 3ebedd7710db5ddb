/* Small predictions beside large ones: they overtake, whatever way they come, and packed bodies find their way.
 *
 * The daemon is the case's own; its first test trains a model. Nothing is timed: what must hold is which reply is there
 * when another one comes. */
#include "tests/http/suite.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HW      "lanes"
#define PREDICT "/v1/hardware/" HW "/predict"
enum { MAX_LARGE = 8 };

START_TEST(train_first)
{
    bb_put_hardware(HW);
    bb_post_demo(HW, 12, 2);
    bb_train(HW, "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 1}");
}
END_TEST

static struct bb_text programs(int n)
{
    struct bb_text *line = calloc((size_t)n, sizeof *line);
    ck_assert_ptr_nonnull(line);
    for (int i = 0; i < n; i++)
        line[i] = bb_printf("%s\n", bb_unmeasured(i).p);
    struct bb_text all = bb_join(line, (size_t)n);
    free(line);
    return all;
}

/* So much that many small requests can be answered meanwhile. */
static struct bb_text huge_body(void)
{
    return programs(bb_slow() ? 4096 : 16384);
}

/* ---- large requests that wait ---- */

static struct pollfd peer[MAX_LARGE];
static int n_peers;

static double waiting(void)
{
    static const char sample[] = "tcld_predict_queue_requests ";
    const char *at = bb_get("/metrics")->body;
    while (strncmp(at, sample, sizeof sample - 1) != 0) {
        at = strchr(at, '\n');
        ck_assert_msg(at != NULL, "no %s", sample);
        at++;
    }
    return strtod(at + sizeof sample - 1, NULL);
}

/* One more request, unless it is refused. Its body is sent after the daemon has agreed to take it. */
static void send_large(struct bb_text body)
{
    struct bb_text head = bb_printf("POST " PREDICT " HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"
                                    "Content-Length: %zu\r\nExpect: 100-continue\r\n\r\n",
                                    body.n);
    int fd = bb_connect();
    bb_send(fd, head.p, head.n);
    struct bb_text r = bb_recv(fd, "\r\n\r\n", 60, NULL);
    if (strncmp(r.p, "HTTP/1.1 100", 12) != 0) {
        close(fd);
        return;
    }
    bb_send(fd, body.p, body.n);
    peer[n_peers++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void hang_up(void)
{
    while (n_peers > 0)
        close(peer[--n_peers].fd);
}

static int replies_there(void)
{
    int n = poll(peer, (nfds_t)n_peers, 0);
    ck_assert_int_ge(n, 0);
    return n;
}

static void take_replies(void)
{
    for (int i = 0; i < n_peers; i++) {
        struct bb_text r = bb_recv(peer[i].fd, "\"errors\": []}", bb_slow() ? 300 : 60, NULL);
        ck_assert_msg(strncmp(r.p, "HTTP/1.1 200", 12) == 0, "%.300s", r.p);
    }
    hang_up();
    ck_assert_double_eq(waiting(), 0);
}

static void overtakes(const char *what, const struct bb_reply *r, size_t n)
{
    int there = replies_there();
    bb_status(r, 200);
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/scores")), n);
    ck_assert_msg(there < n_peers - 1, "%s: %d of %d large requests were answered before", what, there, n_peers);
}

static struct bb_reply *packed(struct bb_text body, enum tc_encoding how)
{
    return bb_call(&(struct tc_request){
        .path = PREDICT, .body = body.p, .n = body.n, .content_type = "application/x-ndjson", .encoding = how});
}

START_TEST(small_requests_overtake_large_ones)
{
    struct bb_text one = programs(1), some = programs(60), huge = huge_body();
    int64_t model = tc_int(bb_lines(one.p, one.n, PREDICT)->json, "/model/id", 0);
    ck_assert_uint_lt(some.n, 32 * 1024);
    ck_assert_uint_gt(some.n, 16 * 1024);
    while (n_peers < (bb_slow() ? MAX_LARGE / 2 : MAX_LARGE))
        send_large(huge);
    while (waiting() < 2)
        tc_sleep(0.005);
    overtakes("one program", bb_lines(one.p, one.n, PREDICT), 1);
    overtakes("60 programs", bb_lines(some.p, some.n, PREDICT), 60);
    overtakes("a model by its id", bb_lines(one.p, one.n, PREDICT "?model=%lld", (long long)model), 1);
    overtakes("gzip", packed(one, TC_GZIP), 1);
    overtakes("zstd", packed(some, TC_ZSTD), 60);
    overtakes(
        "chunks",
        bb_call(&(struct tc_request){
            .path = PREDICT, .body = some.p, .n = some.n, .content_type = "application/x-ndjson", .chunked = true}),
        60);
    take_replies();
}
END_TEST

START_TEST(small_requests_are_taken_when_no_more_large_ones_are)
{
    struct bb_text one = programs(1), large = programs(200), huge = huge_body();
    const char *args[] = {"--predict-queue=1", "--predict-threads=1", NULL};
    struct tc_daemon *d = bb_start(bb_path("full"), args);
    bb_put_hardware(HW);
    bb_post_demo(HW, 12, 2);
    bb_train(HW, "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 1}");
    for (long status = 0; status != 503;) { /* one runs, one waits, and the next is refused */
        if (n_peers == MAX_LARGE)
            hang_up();
        send_large(huge);
        status = bb_lines(large.p, large.n, PREDICT)->status;
    }
    bb_status(bb_lines(one.p, one.n, PREDICT), 200);
    bb_status(packed(one, TC_GZIP), 200);
    hang_up();
    bb_stop(d);
}
END_TEST

/* ---- packed bodies ---- */

START_TEST(a_packed_body_gives_the_same_bits_whatever_its_size)
{
    static const int sizes[] = {1, 20, 80, 120, 1500};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct bb_text body = programs(sizes[i]);
        struct bb_reply *plain = packed(body, TC_IDENTITY), *gzip = packed(body, TC_GZIP),
                        *zstd = packed(body, TC_ZSTD);
        bb_status(plain, 200);
        ck_assert_str_eq(gzip->body, plain->body);
        ck_assert_str_eq(zstd->body, plain->body);
    }
}
END_TEST

START_TEST(errors_of_packed_bodies_are_told)
{
    struct bb_text t = bb_printf("no record\n");
    struct tp_buf bytes = {0};
    const char *gzip[] = {"Content-Encoding: gzip", NULL};
    bb_status(packed(t, TC_GZIP), 200);
    bb_problem(packed(bb_printf("\n"), TC_GZIP), 400, "no-records");
    ck_assert_int_eq(tc_encode(TC_GZIP, t.p, t.n, &bytes, NULL), 0);
    for (size_t n = 1; n < bytes.n; n += 5) {
        struct bb_reply *r = bb_call(&(struct tc_request){.path = PREDICT, .body = bytes.p, .n = n, .headers = gzip});
        bb_problem(r, 400, "bad-encoding");
    }
    tp_buf_free(&bytes);
}
END_TEST

/* The densest there is within what HTTP threads compute: their stacks are small. */
START_TEST(a_small_body_of_512_steps_is_computed_on_the_spot)
{
    struct tp_buf b = {0};
    tp_buf_puts(&b, "{\"i\":[[\"k\",\"llvm\"],[[],[");
    for (int i = 0; i < 512; i++)
        tp_buf_puts(&b, i ? ",[\"AN\",1,0,1]" : "[\"AN\",1,0,1]");
    tp_buf_puts(&b, "]]]}\n");
    ck_assert_uint_lt(b.n, 8 * 1024);
    struct bb_reply *r = bb_lines(b.p, b.n, PREDICT);
    bb_status(r, 200);
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/errors")), 0);
    tp_buf_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/lanes");
    TCase *tc = bb_case(s, "lanes", 120);
    tcase_add_test(tc, train_first);
    tcase_add_test(tc, small_requests_overtake_large_ones);
    tcase_add_test(tc, a_packed_body_gives_the_same_bits_whatever_its_size);
    tcase_add_test(tc, errors_of_packed_bodies_are_told);
    tcase_add_test(tc, a_small_body_of_512_steps_is_computed_on_the_spot);
    TCase *own = bb_case_own(s, "full queue", 120);
    tcase_add_test(own, small_requests_are_taken_when_no_more_large_ones_are);
    return bb_main(s);
}
