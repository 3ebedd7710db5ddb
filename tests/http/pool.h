/* What the tests of candidates, selections and leases share. Header only. */
#ifndef POOL_H
#define POOL_H

#include "tests/http/suite.h"

#include <stdlib.h>
#include <string.h>

/* Lines of programs from .. from + n - 1 without a result. */
static inline struct bb_text unmeasured(int from, int n)
{
    struct bb_text part[512], nl = {(char *)"\n", 1};
    for (int i = 0; i < n; i++) {
        part[2 * i] = bb_unmeasured(from + i);
        part[2 * i + 1] = nl;
    }
    return bb_join(part, (size_t)n * 2);
}

static inline struct bb_reply *post(const char *hw, const char *what, struct bb_text t)
{
    return bb_lines(t.p, t.n, "/v1/hardware/%s/%s", hw, what);
}

static inline void pool(const char *hw, int from, int n)
{
    bb_counts(post(hw, "candidates", unmeasured(from, n)), n, 0, 0);
}

/* {pooled, selected, leased, measured, failed} of the hardware */
#define counts_are(hw, ...)                                                                                            \
    do {                                                                                                               \
        const int want_[] = {__VA_ARGS__};                                                                             \
        check_counts(__LINE__, hw, want_);                                                                             \
    } while (0)
static inline void check_counts(int line, const char *hw, const int want[5])
{
    static const char *const state[] = {"pooled", "selected", "leased", "measured", "failed"};
    struct bb_reply *r = bb_get("/v1/hardware/%s", hw);
    bb_status(r, 200);
    for (int i = 0; i < 5; i++) {
        int64_t got = tc_int(r->json, bb_printf("/counts/candidates/%s", state[i]).p, -1);
        if (got != want[i])
            bb_fail_at(__FILE__, line, "%s: %lld %s, not %d", hw, (long long)got, state[i], want[i]);
    }
}

static inline json_t *ended(const char *hw, const char *body)
{
    struct bb_reply *r = bb_json("POST", body, "/v1/hardware/%s/selections", hw);
    bb_status(r, 202);
    ck_assert_str_eq(tc_str(r->json, "/kind"), "selection");
    ck_assert_str_eq(bb_header(r, "Location"), bb_printf("/v1/jobs/%d", (int)tc_int(r->json, "/id", 0)).p);
    return bb_wait(tc_int(r->json, "/id", 0));
}

static inline const json_t *chosen(const char *hw, const char *body)
{
    json_t *j = ended(hw, body);
    ck_assert_msg(!strcmp(tc_str(j, "/state"), "succeeded"), "%s", json_dumps(j, 0));
    return json_object_get(j, "result");
}

static inline struct bb_reply *lease(const char *hw, const char *agent, int max, double ttl)
{
    struct bb_reply *r =
        bb_json("POST", bb_printf("{\"agent\": \"%s\", \"max\": %d, \"ttl_seconds\": %g}", agent, max, ttl).p,
                "/v1/hardware/%s/leases", hw);
    bb_status(r, 200);
    return r;
}

static inline size_t leased(const struct bb_reply *r)
{
    return json_array_size(json_object_get(r->json, "candidates"));
}

static inline int64_t leased_id(const struct bb_reply *r, size_t i)
{
    return tc_int(json_array_get(json_object_get(r->json, "candidates"), i), "/id", 0);
}

/* The i-th leased record with a result, as a line. */
static inline struct bb_text answer(const struct bb_reply *r, size_t i, const char *result)
{
    const json_t *rec = json_object_get(json_array_get(json_object_get(r->json, "candidates"), i), "record");
    char *inputs = json_dumps(json_object_get(rec, "i"), 0);
    struct bb_text t = bb_printf("{\"i\": %s, \"r\": %s, \"v\": \"v0.6\"}\n", inputs, result);
    free(inputs);
    return t;
}

/* The route takes JSON and at most 1 MiB of it. */
static inline void control_bodies_only(const char *path)
{
    enum { BIG = (1 << 20) + 1 };
    char *body = malloc(BIG);
    memset(body, ' ', BIG);
    struct tc_request q = {.method = "POST", .path = path, .body = body, .n = BIG, .content_type = "application/json"};
    bb_problem(bb_call(&q), 413, "body-too-large");
    q.n = 2;
    q.content_type = "application/x-ndjson";
    bb_problem(bb_call(&q), 415, "unsupported-media-type");
    free(body);
}

#endif
