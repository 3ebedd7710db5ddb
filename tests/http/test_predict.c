/* Predict: shapes, forms, determinism, models to choose from, limits.
 *
 * All tests of a case share its daemon and each uses hardware names of its own, so that they do not meet; where a case
 * needs a model, its first test trains one. No clock decides but as a generous upper bound. */
#include "tests/http/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREDICT "/v1/hardware/known/predict"

START_TEST(train_first)
{
    bb_put_hardware("known");
    bb_put_hardware("untrained");
    bb_post_demo("known", 0, 8);
    bb_train("known", bb_slow() ? "{\"mode\": \"finetune\", \"epochs\": 2, \"seed\": 1}"
                                : "{\"mode\": \"finetune\", \"epochs\": 8, \"seed\": 1}");
}
END_TEST

/* The n first lines of a text. */
static struct bb_text head(struct bb_text t, size_t n)
{
    const char *p = t.p;
    while (n-- && *p)
        p += strcspn(p, "\n") + 1;
    return bb_printf("%.*s", (int)(p - t.p), t.p);
}

static struct bb_reply *predict(struct bb_text lines, const char *query)
{
    struct bb_reply *r = bb_lines(lines.p, lines.n, PREDICT "%s", query);
    bb_status(r, 200);
    return r;
}

static double score(const struct bb_reply *r, size_t i)
{
    const json_t *v = json_array_get(tc_at(r->json, "/scores"), i);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static double latency(const struct bb_reply *r, size_t i)
{
    const json_t *v = json_array_get(tc_at(r->json, "/latency_seconds"), i);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

START_TEST(reply_tells_model_scores_and_latencies)
{
    struct bb_text lines = bb_demo(8, 1);
    size_t n = bb_line_count(lines.p, lines.n);
    struct bb_reply *r = predict(lines, "");
    ck_assert_int_gt(tc_int(r->json, "/model/id", 0), 0);
    ck_assert_str_eq(tc_str(r->json, "/model/role"), "ac");
    ck_assert_str_eq(tc_str(r->json, "/model/hardware"), "known");
    ck_assert_str_eq(tc_str(r->json, "/model/features_version"), "tclf-1");
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/scores")), n);
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/latency_seconds")), n);
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/errors")), 0);
    ck_assert_msg(tc_at(r->json, "/latency_std_log") == NULL, "a spread nobody asked for");
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(score(r, i) >= 1e-6 && score(r, i) <= 1 - 1e-6, "score %zu is %g", i, score(r, i));
        ck_assert_msg(latency(r, i) > 1e-9 && latency(r, i) < 1e3, "latency %zu is %g s", i, latency(r, i));
    }
}
END_TEST

START_TEST(scores_are_printed_with_nine_digits)
{
    struct bb_reply *r = predict(bb_demo(8, 1), "");
    const char *p = strchr(strstr(r->body, "\"scores\""), '[') + 1;
    size_t most = 0;
    for (const char *end = strchr(p, ']'); p < end; p += strcspn(p, ",]") + 1) {
        size_t digits = 0;
        bool leading = true;
        for (const char *c = p; c < end && *c != ',' && *c != 'e'; c++) {
            if (*c >= '1' && *c <= '9')
                leading = false;
            digits += *c >= '0' && *c <= '9' && !leading;
        }
        most = digits > most ? digits : most;
    }
    ck_assert_uint_ge(most, 9);
}
END_TEST

START_TEST(the_model_has_learned)
{
    /* order of the measured programs of a task it was trained on: 0.5 is chance */
    struct bb_text lines = bb_demo(5, 1);
    struct bb_reply *r = predict(lines, "");
    size_t n = json_array_size(tc_at(r->json, "/scores")), pairs = 0, right = 0;
    double *cost = calloc(n, sizeof *cost);
    const char *p = lines.p;
    for (size_t i = 0; i < n; i++, p += strcspn(p, "\n") + 1) {
        json_t *rec = json_loads(head(bb_printf("%.*s\n", (int)strcspn(p, "\n"), p), 1).p, 0, NULL);
        cost[i] = tc_int(rec, "/r/1", 1) ? (double)INFINITY : tc_num(rec, "/r/0/0");
        json_decref(rec);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (isfinite(cost[i]) && isfinite(cost[k]) && cost[i] != cost[k]) {
                pairs++;
                right += (score(r, i) > score(r, k)) == (cost[i] < cost[k]);
            }
    free(cost);
    ck_assert_msg((double)right / (double)pairs > (bb_slow() ? 0.5 : 0.65), "%zu of %zu pairs in order", right, pairs);
}
END_TEST

/* ---- determinism ---- */

static void check_same(const struct bb_reply *a, size_t i, const struct bb_reply *b, size_t k)
{
    ck_assert_msg(score(a, i) == score(b, k), "score %.17g and %.17g", score(a, i), score(b, k));
    ck_assert_msg(latency(a, i) == latency(b, k), "latency %.17g and %.17g", latency(a, i), latency(b, k));
}

START_TEST(same_question_same_bits)
{
    struct bb_text lines = bb_file("tests/data/batches/conv2d_nhwc_28.call1.json.gz");
    struct bb_reply *a = predict(lines, ""), *b = predict(lines, "");
    ck_assert_str_eq(strstr(a->body, "\"scores\""), strstr(b->body, "\"scores\""));
}
END_TEST

START_TEST(batch_composition_changes_no_bit)
{
    struct bb_text lines = head(bb_demo(9, 1), 40);
    struct bb_reply *all = predict(lines, "");
    const char *p = lines.p;
    for (size_t i = 0; *p; i++, p += strcspn(p, "\n") + 1)
        check_same(all, i, predict(bb_printf("%.*s\n", (int)strcspn(p, "\n"), p), ""), 0);
    struct bb_text parts[2] = {bb_demo(2, 1), lines};
    struct bb_reply *mixed = predict(bb_join(parts, 2), "");
    size_t before = bb_line_count(parts[0].p, parts[0].n);
    for (size_t i = 0; i < 40; i++)
        check_same(all, i, mixed, before + i);
}
END_TEST

START_TEST(order_changes_no_bit)
{
    enum { N = 60 };
    struct bb_text lines = head(bb_demo(9, 1), N), line[N], back[N];
    const char *p = lines.p;
    for (size_t i = 0; i < N; i++, p += strcspn(p, "\n") + 1)
        line[i] = back[N - 1 - i] = bb_printf("%.*s\n", (int)strcspn(p, "\n"), p);
    struct bb_reply *a = predict(bb_join(line, N), ""), *b = predict(bb_join(back, N), "");
    for (size_t i = 0; i < N; i++)
        check_same(a, i, b, N - 1 - i);
}
END_TEST

START_TEST(results_in_records_are_ignored)
{
    struct bb_text with = bb_printf("%s\n%s\n", bb_record(1, 0.5, 1700000000).p, bb_record(2, 0.001, 1700000000).p);
    struct bb_text without = bb_printf("%s\n%s\n", bb_unmeasured(1).p, bb_unmeasured(2).p);
    struct bb_reply *a = predict(with, ""), *b = predict(without, "");
    check_same(a, 0, b, 0);
    check_same(a, 1, b, 1);
}
END_TEST

START_TEST(every_form_gives_the_same_bits)
{
    enum { N = 50 };
    struct tp_buf lines = {0}, records = {0}, states = {0};
    tp_buf_puts(&records, "{\"records\": [");
    tp_buf_puts(&states, "{\"states\": [");
    for (int i = 0; i < N; i++) {
        tp_buf_printf(&lines, "%s\n", bb_unmeasured(i).p);
        tp_buf_printf(&records, "%s%s", i ? ", " : "", bb_unmeasured(i).p);
        tp_buf_printf(&states, "%s%s", i ? ", " : "", bb_state(i).p);
    }
    tp_buf_puts(&records, "]}");
    tp_buf_puts(&states, "], \"task\": " BB_TASK "}");
    const struct {
        const struct tp_buf *body;
        const char *type;
    } forms[] = {{&lines, "application/x-ndjson"}, {&records, "application/json"}, {&states, "application/json"}};
    struct bb_reply *first = NULL;
    for (size_t f = 0; f < 3; f++)
        for (int pack = TC_IDENTITY; pack <= TC_ZSTD; pack++)
            for (int chunked = 0; chunked < 2; chunked++) {
                struct bb_reply *r = bb_call(&(struct tc_request){.path = PREDICT,
                                                                  .body = forms[f].body->p,
                                                                  .n = forms[f].body->n,
                                                                  .content_type = forms[f].type,
                                                                  .encoding = (enum tc_encoding)pack,
                                                                  .chunked = chunked});
                bb_status(r, 200);
                first = first ? first : r;
                ck_assert_uint_eq(json_array_size(tc_at(r->json, "/scores")), N);
                for (size_t i = 0; i < N; i++)
                    check_same(first, i, r, i);
            }
    tp_buf_free(&lines);
    tp_buf_free(&records);
    tp_buf_free(&states);
}
END_TEST

/* ---- unusable records ---- */

START_TEST(unusable_records_are_null_and_change_no_neighbour)
{
    struct bb_text good = bb_printf("%s\n%s\n", bb_unmeasured(1).p, bb_unmeasured(2).p);
    struct bb_text mixed = bb_printf("%s\nbroken\n%s\n{\"i\": 3}\n", bb_unmeasured(1).p, bb_unmeasured(2).p);
    struct bb_reply *a = predict(good, ""), *b = predict(mixed, "");
    ck_assert_uint_eq(json_array_size(tc_at(b->json, "/scores")), 4);
    check_same(a, 0, b, 0);
    check_same(a, 1, b, 2);
    ck_assert_msg(isnan(score(b, 1)) && isnan(score(b, 3)) && isnan(latency(b, 1)), "%s", b->body);
    ck_assert_uint_eq(json_array_size(tc_at(b->json, "/errors")), 2);
    ck_assert_int_eq(tc_int(b->json, "/errors/1/index", -1), 3);
}
END_TEST

START_TEST(all_unusable_is_still_a_reply)
{
    struct bb_reply *r = predict(bb_printf("broken\nbroken\n"), "");
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/scores")), 2);
    ck_assert_msg(isnan(score(r, 0)) && isnan(score(r, 1)), "%s", r->body);
}
END_TEST

START_TEST(targets_of_another_kind_are_refused_by_record)
{
    struct bb_reply *r =
        predict(bb_printf("{\"i\": [[\"k\", \"cuda -arch=sm_80\"], %s]}\n%s\n", bb_state(1).p, bb_unmeasured(1).p), "");
    ck_assert_str_eq(tc_str(r->json, "/errors/0/code"), "wrong-target");
    ck_assert_msg(isnan(score(r, 0)) && !isnan(score(r, 1)), "%s", r->body);
}
END_TEST

/* ---- binary replies ---- */

START_TEST(binary_reply_holds_the_same_numbers)
{
    struct bb_text lines = bb_printf("%s\nbroken\n%s\n", bb_unmeasured(1).p, bb_unmeasured(2).p);
    const char *headers[] = {"Accept: application/octet-stream", NULL};
    struct bb_reply *json = predict(lines, "");
    struct bb_reply *r = bb_call(&(struct tc_request){
        .path = PREDICT, .body = lines.p, .n = lines.n, .content_type = "application/x-ndjson", .headers = headers});
    bb_status(r, 200);
    ck_assert_str_eq(bb_header(r, "Content-Type"), "application/octet-stream");
    ck_assert_msg(bb_header(r, "X-Model-Id") && atol(bb_header(r, "X-Model-Id")) == tc_int(json->json, "/model/id", 0),
                  "X-Model-Id");
    float v[6];
    ck_assert_uint_eq(r->n, sizeof v);
    memcpy(v, r->body, sizeof v);
    for (size_t i = 0; i < 3; i++) {
        if (i == 1) {
            ck_assert_msg(isnan(v[i]) && isnan(v[3 + i]), "an unusable record is %g", (double)v[i]);
            continue;
        }
        ck_assert_msg(v[i] == (float)score(json, i), "score %.9g and %.9g", (double)v[i], score(json, i));
        ck_assert_msg(v[3 + i] == (float)latency(json, i), "latency %.9g and %.9g", (double)v[3 + i], latency(json, i));
    }
}
END_TEST

START_TEST(errors_are_problems_even_when_binary_was_wanted)
{
    const char *headers[] = {"Accept: application/octet-stream", NULL};
    bb_problem(bb_call(&(struct tc_request){.path = PREDICT,
                                            .body = "",
                                            .n = 0,
                                            .method = "POST",
                                            .content_type = "application/x-ndjson",
                                            .headers = headers}),
               400, "no-records");
}
END_TEST

START_TEST(forms_that_do_not_exist_are_406)
{
    static const char *const wanted[] = {"Accept: image/png", "Accept: text/html, text/*;q=0.5",
                                         "Accept: application/json;q=0", "Accept: */*;q=0"};
    struct bb_text t = bb_unmeasured(1);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const char *headers[] = {wanted[i], NULL};
        struct bb_reply *r = bb_call(&(struct tc_request){
            .path = PREDICT, .body = t.p, .n = t.n, .content_type = "application/x-ndjson", .headers = headers});
        ck_assert_msg(r->status == 406, "%s: %ld", wanted[i], r->status);
        bb_problem(r, 406, "not-acceptable");
    }
}
END_TEST

/* ---- which model ---- */

START_TEST(model_can_be_named)
{
    struct bb_text t = bb_unmeasured(1);
    struct bb_reply *active = predict(t, "?model=active");
    long long id = tc_int(active->json, "/model/id", 0);
    check_same(active, 0, predict(t, "?model=ac"), 0);
    check_same(active, 0, predict(t, bb_printf("?model=%lld", id).p), 0);
}
END_TEST

START_TEST(model_names_that_lead_nowhere)
{
    struct bb_text t = bb_unmeasured(1);
    bb_problem(bb_lines(t.p, t.n, PREDICT "?model=kb"), 409, "no-model");
    bb_problem(bb_lines(t.p, t.n, PREDICT "?model=999999"), 404, "unknown-model");
    static const char *const bad[] = {"best", "-1", "1x", "", "0x1", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct bb_reply *r = bb_lines(t.p, t.n, PREDICT "?model=%s", bad[i]);
        ck_assert_msg(r->status == 400 || r->status == 404, "model=%s: %ld", bad[i], r->status);
        bb_problem(r, r->status, NULL);
    }
}
END_TEST

START_TEST(no_model_says_how_to_get_one)
{
    struct bb_text t = bb_unmeasured(1);
    struct bb_reply *r = bb_lines(t.p, t.n, "/v1/hardware/untrained/predict");
    bb_problem(r, 409, "no-model");
    ck_assert_msg(strstr(tc_str(r->json, "/detail"), "retrain") != NULL, "%s", r->body);
}
END_TEST

START_TEST(uncertainty_is_told_when_asked)
{
    struct bb_text t = bb_printf("%s\nbroken\n", bb_unmeasured(1).p);
    struct bb_reply *r = predict(t, "?uncertainty=true");
    const json_t *std = tc_at(r->json, "/latency_std_log");
    ck_assert_uint_eq(json_array_size(std), 2);
    ck_assert_msg(json_number_value(json_array_get(std, 0)) > 0, "%s", r->body);
    ck_assert_msg(json_is_null(json_array_get(std, 1)), "%s", r->body);
    check_same(r, 0, predict(t, ""), 0);
    bb_problem(bb_lines(t.p, t.n, PREDICT "?uncertainty=perhaps"), 400, "bad-parameter");
    bb_problem(bb_lines(t.p, t.n, PREDICT "?uncertanty=true"), 400, "bad-parameter");
}
END_TEST

/* ---- size ---- */

static struct bb_text many(int n)
{
    struct tp_buf b = {0};
    for (int i = 0; i < n; i++)
        tp_buf_puts(&b, "{\"i\":[[\"k\",\"llvm\"],[[],[[\"CI\",1]]]]}\n");
    tp_buf_putc(&b, '\0');
    struct bb_text t = bb_printf("%s", b.p);
    tp_buf_free(&b);
    return t;
}

START_TEST(record_limit_is_413)
{
    enum { LIMIT = 16384 };
    struct bb_text t = many(LIMIT + 1);
    bb_problem(bb_lines(t.p, t.n, PREDICT), 413, "body-too-large");
    ck_assert_uint_eq(json_array_size(tc_at(predict(many(LIMIT), "")->json, "/scores")), LIMIT);
}
END_TEST

START_TEST(whole_search_calls_are_answered)
{
    static const char *const files[] = {"conv2d_nhwc_28.call1", "conv2d_nhwc_28.call5", "matmul_512.call1",
                                        "matmul_512.call5"};
    for (size_t i = 0; i < 4; i++) {
        struct bb_text t = bb_file(bb_printf("tests/data/batches/%s.json.gz", files[i]).p);
        struct bb_reply *r = predict(t, "");
        ck_assert_uint_eq(json_array_size(tc_at(r->json, "/scores")), bb_line_count(t.p, t.n));
        ck_assert_uint_eq(json_array_size(tc_at(r->json, "/errors")), 0);
    }
}
END_TEST

START_TEST(programs_of_512_steps_are_scored)
{
    struct tp_buf b = {0};
    tp_buf_puts(&b, "{\"i\": [[\"k\", \"llvm\"], [[], [");
    for (int i = 0; i < 512; i++)
        tp_buf_printf(&b, "%s[\"AN\", %d, 0, 1]", i ? ", " : "", i % 7);
    tp_buf_puts(&b, "]]]}\n");
    struct bb_reply *r = predict((struct bb_text){b.p, b.n}, "");
    tp_buf_free(&b);
    ck_assert_msg(score(r, 0) > 0, "%s", r->body);
}
END_TEST

START_TEST(metrics_count_programs)
{
    const char *sample = "tcld_predicted_programs_total{verdict=\"scored\"}";
    const char *at = strstr(bb_get("/metrics")->body, sample);
    ck_assert_msg(at != NULL, "no %s", sample);
    double before = strtod(at + strlen(sample), NULL);
    predict(bb_printf("%s\nbroken\n%s\n", bb_unmeasured(1).p, bb_unmeasured(2).p), "");
    at = strstr(bb_get("/metrics")->body, sample);
    ck_assert_double_ge(strtod(at + strlen(sample), NULL), before + 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/predict");
    TCase *tc = bb_case(s, "predict", 120);
    tcase_add_test(tc, train_first);
    tcase_add_test(tc, reply_tells_model_scores_and_latencies);
    tcase_add_test(tc, scores_are_printed_with_nine_digits);
    tcase_add_test(tc, the_model_has_learned);
    tcase_add_test(tc, same_question_same_bits);
    tcase_add_test(tc, batch_composition_changes_no_bit);
    tcase_add_test(tc, order_changes_no_bit);
    tcase_add_test(tc, results_in_records_are_ignored);
    tcase_add_test(tc, every_form_gives_the_same_bits);
    tcase_add_test(tc, unusable_records_are_null_and_change_no_neighbour);
    tcase_add_test(tc, all_unusable_is_still_a_reply);
    tcase_add_test(tc, targets_of_another_kind_are_refused_by_record);
    tcase_add_test(tc, binary_reply_holds_the_same_numbers);
    tcase_add_test(tc, errors_are_problems_even_when_binary_was_wanted);
    tcase_add_test(tc, forms_that_do_not_exist_are_406);
    tcase_add_test(tc, model_can_be_named);
    tcase_add_test(tc, model_names_that_lead_nowhere);
    tcase_add_test(tc, no_model_says_how_to_get_one);
    tcase_add_test(tc, uncertainty_is_told_when_asked);
    tcase_add_test(tc, record_limit_is_413);
    tcase_add_test(tc, whole_search_calls_are_answered);
    tcase_add_test(tc, programs_of_512_steps_are_scored);
    tcase_add_test(tc, metrics_count_programs);
    return bb_main(s);
}
