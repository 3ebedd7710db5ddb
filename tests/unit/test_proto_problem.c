/* Reply bodies, read back with jansson. */
#include "proto/problem.h"
#include "tests/unit/proto_lines.h"

#include <jansson.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *load(struct tp_buf *b)
{
    json_error_t je;
    ck_assert(!b->oom);
    json_t *v = json_loadb(b->p, b->n, JSON_REJECT_DUPLICATES, &je);
    ck_assert_msg(v != NULL, "%s: %.*s", je.text, (int)b->n, b->p);
    b->n = 0;
    return v;
}

static const char *text(const json_t *v, const char *key)
{
    return json_string_value(json_object_get(v, key));
}

START_TEST(a_problem_has_type_title_status_and_detail)
{
    struct tp_buf b = {0};
    struct tp_err e;
    tp_fail(&e, TP_E_UNKNOWN_HARDWARE, "no hardware \"%s\"", "x\n\x01");
    tp_problem_write(&b, &e);
    json_t *v = load(&b);
    ck_assert_str_eq(text(v, "type"), "urn:tcld:problem:unknown-hardware");
    ck_assert_str_eq(text(v, "title"), "Unknown hardware");
    ck_assert_int_eq(json_integer_value(json_object_get(v, "status")), 404);
    ck_assert_str_eq(text(v, "detail"), "no hardware \"x\n\x01\"");
    ck_assert_ptr_null(json_object_get(v, "errors"));
    ck_assert_uint_eq(json_object_size(v), 4);
    json_decref(v);
    tp_buf_free(&b);
}
END_TEST

START_TEST(a_problem_with_a_place_tells_it)
{
    struct tp_buf b = {0};
    struct tp_err e;
    tp_fail_at(&e, TP_E_BAD_BODY, "/records", "not an array");
    tp_problem_write(&b, &e);
    json_t *v = load(&b), *item = json_array_get(json_object_get(v, "errors"), 0);
    ck_assert_str_eq(text(item, "pointer"), "/records");
    ck_assert_str_eq(text(item, "detail"), "not an array");
    ck_assert_ptr_null(json_object_get(item, "line"));
    json_decref(v);
    tp_fail(&e, TP_E_BAD_BODY, "x");
    e.line = 7;
    tp_problem_write(&b, &e);
    v = load(&b);
    item = json_array_get(json_object_get(v, "errors"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(item, "line")), 7);
    ck_assert_ptr_null(json_object_get(item, "pointer"));
    json_decref(v);
    tp_buf_free(&b);
}
END_TEST

START_TEST(record_errors_tell_index_line_pointer_code_and_detail)
{
    struct tp_buf b = {0};
    struct tp_errlist l = {0};
    struct tp_err e;
    tp_fail_at(&e, TP_E_BAD_STEP, "/i/1/1/7/3", "step 7: \xFF");
    e.index = 3;
    e.line = 5;
    tp_errlist_add(&l, &e);
    e.line = 0;
    tp_errlist_add(&l, &e);
    tp_write_reply_json(&b, 10, 2, 2, &l);
    json_t *v = load(&b), *errors = json_object_get(v, "errors"), *item = json_array_get(errors, 0);
    ck_assert_int_eq(json_integer_value(json_object_get(v, "accepted")), 10);
    ck_assert_int_eq(json_integer_value(json_object_get(v, "duplicates")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(v, "rejected")), 2);
    ck_assert_uint_eq(json_array_size(errors), 2);
    ck_assert_ptr_null(json_object_get(v, "errors_truncated"));
    ck_assert_int_eq(json_integer_value(json_object_get(item, "index")), 3);
    ck_assert_int_eq(json_integer_value(json_object_get(item, "line")), 5);
    ck_assert_str_eq(text(item, "pointer"), "/i/1/1/7/3");
    ck_assert_str_eq(text(item, "code"), "bad-step");
    ck_assert_str_eq(text(item, "detail"), "step 7: \xEF\xBF\xBD");
    ck_assert_uint_eq(json_object_size(item), 5);
    ck_assert_uint_eq(json_object_size(json_array_get(errors, 1)), 4);
    json_decref(v);
    tp_errlist_free(&l);
    tp_errlist_free(NULL);
    tp_buf_free(&b);
}
END_TEST

START_TEST(errors_beyond_the_limit_are_dropped_and_that_is_told)
{
    struct tp_buf b = {0};
    struct tp_errlist l = {0};
    struct tp_err e;
    tp_fail(&e, TP_E_BAD_JSON, "x");
    for (int i = 0; i < TP_MAX_REPORTED_ERRORS + 1; i++) {
        ck_assert(!l.truncated);
        e.index = i;
        tp_errlist_add(&l, &e);
    }
    tp_write_reply_json(&b, 0, 0, 1001, &l);
    json_t *v = load(&b);
    ck_assert_uint_eq(json_array_size(json_object_get(v, "errors")), TP_MAX_REPORTED_ERRORS);
    ck_assert(json_is_true(json_object_get(v, "errors_truncated")));
    json_decref(v);
    tp_errlist_free(&l);
    tp_buf_free(&b);
}
END_TEST

START_TEST(a_prediction_prints_every_score_and_null_for_unusable)
{
    const double scores[] = {0.123456789012, NAN, 1e-6, 1 - 1e-6}, latency[] = {0.0012345678901, NAN, 3.2, 1e-5},
                 std[] = {0.1, NAN, 0, 2};
    struct tp_predict_reply r = {.model_id = 12,
                                 .role = "ac",
                                 .hardware = "xeon-8272",
                                 .features_version = "tclf-1",
                                 .calibration = 3,
                                 .n = 4,
                                 .scores = scores,
                                 .latency_seconds = latency};
    struct tp_buf b = {0};
    for (int uncertainty = 0; uncertainty < 2; uncertainty++) {
        r.latency_std_log = uncertainty ? std : NULL;
        tp_predict_reply_json(&b, &r);
        json_t *v = load(&b), *model = json_object_get(v, "model"), *s = json_object_get(v, "scores");
        ck_assert_int_eq(json_integer_value(json_object_get(model, "id")), 12);
        ck_assert_int_eq(json_integer_value(json_object_get(model, "calibration")), 3);
        ck_assert_str_eq(text(model, "role"), "ac");
        ck_assert_str_eq(text(model, "hardware"), "xeon-8272");
        ck_assert_str_eq(text(model, "features_version"), "tclf-1");
        ck_assert_uint_eq(json_array_size(s), 4);
        ck_assert(fabs(json_number_value(json_array_get(s, 0)) - scores[0]) < 1e-10);
        ck_assert(json_is_null(json_array_get(s, 1)));
        ck_assert(json_number_value(json_array_get(s, 2)) == 1e-6);
        ck_assert(json_number_value(json_array_get(s, 3)) == 1 - 1e-6);
        ck_assert(json_is_null(json_array_get(json_object_get(v, "latency_seconds"), 1)));
        ck_assert_int_eq(json_array_size(json_object_get(v, "latency_std_log")) == 4, uncertainty);
        ck_assert_uint_eq(json_array_size(json_object_get(v, "errors")), 0);
        ck_assert(json_is_array(json_object_get(v, "errors")));
        json_decref(v);
    }
    tp_buf_free(&b);
}
END_TEST

START_TEST(the_binary_prediction_is_scores_then_latencies_as_little_endian_floats)
{
    const double scores[] = {0.5, NAN}, latency[] = {1.25, NAN};
    struct tp_predict_reply r = {.n = 2, .scores = scores, .latency_seconds = latency};
    struct tp_buf b = {0};
    tp_predict_reply_binary(&b, &r);
    ck_assert_uint_eq(b.n, 16);
    ck_assert(memcmp(b.p, "\x00\x00\x00\x3f", 4) == 0);
    ck_assert(memcmp(b.p + 8, "\x00\x00\xa0\x3f", 4) == 0);
    float f;
    memcpy(&f, b.p + 4, 4); /* a NaN is one in either byte order only on a little-endian host; there is no other here */
    ck_assert(isnan(f));
    tp_buf_free(&b);
}
END_TEST

int main(void)
{
    return RUN("proto/problem", a_problem_has_type_title_status_and_detail, a_problem_with_a_place_tells_it,
               record_errors_tell_index_line_pointer_code_and_detail,
               errors_beyond_the_limit_are_dropped_and_that_is_told,
               a_prediction_prints_every_score_and_null_for_unusable,
               the_binary_prediction_is_scores_then_latencies_as_little_endian_floats);
}
