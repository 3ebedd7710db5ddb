/* Models: lists, weights files, ETags, import, activation and rollback, and what is refused.
 *
 * All tests of a case share its daemon and each uses hardware names of its own, so that they do not meet; where a case
 * needs a model, its first test trains one. No clock decides but as a generous upper bound. */
#include "tests/http/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define OCTETS "application/octet-stream"

static struct bb_text probe(void)
{
    return bb_demo(12, 1);
}

static const char *scores(const char *hw, const char *query)
{
    struct bb_text t = probe();
    struct bb_reply *r = bb_lines(t.p, t.n, "/v1/hardware/%s/predict%s", hw, query);
    bb_status(r, 200);
    return strstr(r->body, "\"scores\"");
}

static int64_t active(const char *hw)
{
    return tc_int(bb_get("/v1/hardware/%s", hw)->json, "/active_model", 0);
}

static struct bb_reply *import(const char *hw, const void *p, size_t n, const char *query)
{
    return bb_call(&(struct tc_request){.method = "POST",
                                        .path = bb_printf("/v1/hardware/%s/models%s", hw, query).p,
                                        .body = p,
                                        .n = n,
                                        .content_type = OCTETS});
}

/* Two models of hardware "owner": `older` and `newer`, the newer one in use. */
static int64_t older, newer;

static void find_models(void)
{
    struct bb_reply *r = bb_get("/v1/hardware/owner/models");
    bb_status(r, 200);
    ck_assert_uint_ge(json_array_size(tc_at(r->json, "/items")), 2);
    size_t n = json_array_size(tc_at(r->json, "/items"));
    older = tc_int(json_array_get(tc_at(r->json, "/items"), n - 1), "/id", 0);
    newer = tc_int(json_array_get(tc_at(r->json, "/items"), n - 2), "/id", 0);
}

static void activate(int64_t id)
{
    bb_status(bb_json("POST", bb_printf("{\"model\": %lld}", (long long)id).p, "/v1/hardware/owner/activate"), 200);
}

START_TEST(train_first)
{
    bb_put_hardware("owner");
    bb_put_hardware("other");
    bb_post_demo("owner", 9, 3);
    bb_post_demo("other", 9, 2);
    bb_train("owner", "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 1}");
    bb_train("owner", "{\"mode\": \"adapt\", \"epochs\": 2, \"seed\": 2, \"activate\": \"never\"}");
    bb_train("other", "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 3}");
    find_models();
    activate(newer);
}
END_TEST

/* ---- lists and single models ---- */

START_TEST(history_is_newest_first_and_marks_the_active_one)
{
    find_models();
    activate(newer);
    struct bb_reply *r = bb_get("/v1/hardware/owner/models");
    int64_t last = INT64_MAX;
    int actives = 0;
    for (size_t i = 0; i < json_array_size(tc_at(r->json, "/items")); i++) {
        const json_t *m = json_array_get(tc_at(r->json, "/items"), i);
        int64_t id = tc_int(m, "/id", 0);
        ck_assert_int_lt(id, last);
        last = id;
        actives += json_is_true(tc_at(m, "/active"));
        ck_assert_msg(json_is_true(tc_at(m, "/active")) == (id == newer), "%s", r->body);
        ck_assert_msg(json_is_array(tc_at(m, "/parents")) && json_is_object(tc_at(m, "/metrics")), "%s", r->body);
        ck_assert_str_eq(tc_str(m, "/features_version"), "tclf-1");
    }
    ck_assert_int_eq(actives, 1);
    r = bb_get("/v1/hardware/owner/models?limit=1");
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/items")), 1);
    r = bb_get("/v1/hardware/owner/models?limit=1&cursor=%s", tc_str(r->json, "/next_cursor"));
    ck_assert_int_eq(tc_int(r->json, "/items/0/id", 0), older);
}
END_TEST

START_TEST(one_model_is_shown)
{
    find_models();
    struct bb_reply *r = bb_get("/v1/models/%lld", (long long)newer);
    bb_status(r, 200);
    ck_assert_int_eq(tc_int(r->json, "/id", 0), newer);
    ck_assert_str_eq(tc_str(r->json, "/hardware"), "owner");
    ck_assert_str_eq(tc_str(r->json, "/role"), "ac");
    bb_problem(bb_get("/v1/models/999999"), 404, "unknown-model");
    bb_problem(bb_get("/v1/models/999999/weights"), 404, "unknown-model");
}
END_TEST

START_TEST(a_detailed_list_of_hardware_holds_what_each_shows_alone_and_its_model)
{
    bb_put_hardware("zzz-untaught");
    struct bb_reply *r = bb_get("/v1/hardware?detail=true");
    bb_status(r, 200);
    size_t n = json_array_size(tc_at(r->json, "/items")), models = 0;
    ck_assert_uint_ge(n, 3);
    for (size_t i = 0; i < n; i++) {
        json_t *item = json_array_get(tc_at(r->json, "/items"), i), *model = json_object_get(item, "model");
        ck_assert_ptr_nonnull(model);
        json_incref(model);
        json_object_del(item, "model");
        ck_assert_msg(json_equal(item, bb_get("/v1/hardware/%s", tc_str(item, "/name"))->json), "%s", r->body);
        int64_t id = tc_int(item, "/active_model", 0);
        ck_assert(json_is_null(model) == (id == 0));
        if (id != 0) {
            models++;
            ck_assert(json_equal(model, bb_get("/v1/models/%lld", (long long)id)->json));
        }
        json_decref(model);
    }
    ck_assert_uint_ge(models, 2);
    const json_t *last = json_array_get(tc_at(r->json, "/items"), n - 1);
    r = bb_get("/v1/hardware?detail=true&limit=1");
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/items")), 1);
    ck_assert_ptr_nonnull(tc_at(r->json, "/items/0/counts"));
    r = bb_get("/v1/hardware?detail=true&cursor=%s", tc_str(r->json, "/next_cursor"));
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/items")), n - 1);
    ck_assert_str_eq(tc_str(json_array_get(tc_at(r->json, "/items"), n - 2), "/name"), tc_str(last, "/name"));
    bb_problem(bb_get("/v1/hardware?detail=much"), 400, "bad-parameter");
    bb_status(bb_delete("/v1/hardware/zzz-untaught"), 204);
}
END_TEST

START_TEST(family_without_a_knowledge_base_lists_nothing)
{
    struct bb_reply *r = bb_get("/v1/families/owner/models");
    bb_status(r, 200);
    ck_assert_uint_eq(json_array_size(tc_at(r->json, "/items")), 0);
}
END_TEST

/* ---- weights files ---- */

static uint64_t header_length(const char *p)
{
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | (unsigned char)p[i];
    return n;
}

static json_t *header_of(const char *p, size_t n)
{
    ck_assert_uint_gt(n, 8);
    uint64_t h = header_length(p);
    ck_assert_msg(h <= n - 8 && h % 8 == 0, "header of %llu bytes in %zu", (unsigned long long)h, n);
    json_error_t e;
    json_t *j = json_loadb(p + 8, h, 0, &e);
    ck_assert_msg(j != NULL, "header: %s", e.text);
    return j;
}

START_TEST(weights_are_a_readable_safetensors_file)
{
    find_models();
    struct bb_reply *r = bb_get("/v1/models/%lld/weights", (long long)newer);
    bb_status(r, 200);
    ck_assert_str_eq(bb_header(r, "Content-Type"), OCTETS);
    ck_assert_msg(r->n < (4 << 20), "%zu bytes", r->n);
    json_t *h = header_of(r->body, r->n);
    size_t data = r->n - 8 - header_length(r->body), used = 0, parameters = 0;
    const char *name;
    json_t *t;
    json_object_foreach(h, name, t)
    {
        if (!strcmp(name, "__metadata__")) {
            const char *key;
            json_t *v;
            json_object_foreach(t, key, v) ck_assert_msg(json_is_string(v), "%s is no string", key);
            continue;
        }
        ck_assert_str_eq(tc_str(t, "/dtype"), "F32");
        size_t from = (size_t)tc_int(t, "/data_offsets/0", -1), to = (size_t)tc_int(t, "/data_offsets/1", -1),
               elements = 1;
        for (size_t i = 0; i < json_array_size(tc_at(t, "/shape")); i++)
            elements *= (size_t)json_integer_value(json_array_get(tc_at(t, "/shape"), i));
        ck_assert_msg(to <= data && from <= to && to - from == 4 * elements, "%s", name);
        used += to - from;
        parameters += elements;
        for (size_t i = from; i < to; i += 4) {
            float v;
            memcpy(&v, r->body + 8 + header_length(r->body) + i, sizeof v);
            if (!isfinite(v))
                ck_abort_msg("%s holds %g", name, (double)v);
        }
    }
    ck_assert_uint_eq(used, data);
    ck_assert_uint_le(parameters, 94371);
    json_decref(h);
}
END_TEST

START_TEST(two_downloads_are_equal)
{
    find_models();
    struct bb_reply *a = bb_get("/v1/models/%lld/weights", (long long)newer),
                    *b = bb_get("/v1/models/%lld/weights", (long long)newer);
    ck_assert_msg(a->n == b->n && !memcmp(a->body, b->body, a->n), "they differ");
}
END_TEST

START_TEST(etags_answer_304)
{
    find_models();
    const char *paths[] = {bb_printf("/v1/models/%lld", (long long)newer).p,
                           bb_printf("/v1/models/%lld/weights", (long long)newer).p, "/v1/hardware/owner/models"};
    for (size_t i = 0; i < 3; i++) {
        struct bb_reply *r = bb_get("%s", paths[i]);
        const char *etag = bb_header(r, "ETag");
        ck_assert_msg(etag && *etag == '"' && strlen(etag) > 3, "%s: ETag %s", paths[i], etag ? etag : "(none)");
        const char *match[] = {bb_printf("If-None-Match: %s", etag).p, bb_printf("If-None-Match: W/%s", etag).p,
                               "If-None-Match: *", bb_printf("If-None-Match: \"other\", %s", etag).p};
        for (size_t k = 0; k < 4; k++) {
            const char *headers[] = {match[k], NULL};
            struct bb_reply *again = bb_call(&(struct tc_request){.path = paths[i], .headers = headers});
            ck_assert_msg(again->status == 304, "%s with %s: %ld", paths[i], match[k], again->status);
            ck_assert_uint_eq(again->n, 0);
            ck_assert_str_eq(bb_header(again, "ETag"), etag);
            ck_assert_uint_eq(strtoul(bb_header(again, "Content-Length"), NULL, 10), r->n);
        }
        const char *headers[] = {"If-None-Match: \"other\"", NULL};
        ck_assert_int_eq(bb_call(&(struct tc_request){.path = paths[i], .headers = headers})->status, 200);
    }
}
END_TEST

START_TEST(etag_changes_with_the_active_model)
{
    find_models();
    activate(newer);
    char *path = bb_printf("/v1/models/%lld", (long long)newer).p;
    const char *before = bb_header(bb_get("%s", path), "ETag");
    activate(older);
    ck_assert_str_ne(bb_header(bb_get("%s", path), "ETag"), before);
    const char *between = bb_header(bb_get("%s", path), "ETag");
    activate(newer); /* which is told by `activated` */
    const char *after = bb_header(bb_get("%s", path), "ETag");
    ck_assert_str_ne(after, before);
    ck_assert_str_ne(after, between);
    ck_assert_str_eq(bb_header(bb_get("%s", path), "ETag"), after);
}
END_TEST

/* ---- activation ---- */

START_TEST(activation_switches_and_rolls_back_to_the_same_bits)
{
    find_models();
    activate(older);
    const char *old_scores = scores("owner", "");
    activate(newer);
    const char *new_scores = scores("owner", "");
    ck_assert_str_ne(old_scores, new_scores);
    struct bb_reply *r =
        bb_json("POST", bb_printf("{\"model\": %lld}", (long long)older).p, "/v1/hardware/owner/activate");
    bb_status(r, 200);
    ck_assert_int_eq(tc_int(r->json, "/id", 0), older);
    ck_assert_msg(json_is_true(tc_at(r->json, "/active")), "%s", r->body);
    ck_assert_int_eq(active("owner"), older);
    ck_assert_str_eq(scores("owner", ""), old_scores);
    ck_assert_str_eq(scores("owner", bb_printf("?model=%lld", (long long)newer).p), new_scores);
    activate(newer);
    ck_assert_str_eq(scores("owner", ""), new_scores);
    activate(newer); /* what is in use already is no error */
}
END_TEST

START_TEST(another_hardwares_model_is_409)
{
    int64_t foreign = active("other"), before = active("owner");
    bb_problem(bb_json("POST", bb_printf("{\"model\": %lld}", (long long)foreign).p, "/v1/hardware/owner/activate"),
               409, "conflict");
    ck_assert_int_eq(active("owner"), before);
}
END_TEST

START_TEST(unusable_activations_are_refused)
{
    static const char *const bodies[] = {
        "{}", "{\"model\": \"one\"}", "{\"model\": 0}", "{\"model\": -4}", "{\"model\": 1.5}", "{\"modell\": 1}", "[]",
        ""};
    int64_t before = active("owner");
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct bb_reply *r = bb_json("POST", bodies[i], "/v1/hardware/owner/activate");
        ck_assert_msg(r->status == 400 || r->status == 422 || r->status == 404, "%s: %ld %s", bodies[i], r->status,
                      r->body);
        bb_problem(r, r->status, NULL);
    }
    bb_problem(bb_json("POST", "{\"model\": 999999}", "/v1/hardware/owner/activate"), 404, "unknown-model");
    ck_assert_int_eq(active("owner"), before);
}
END_TEST

START_TEST(family_and_kind_stay_while_models_exist)
{
    bb_problem(bb_json("PUT", "{\"target\": \"llvm\", \"family\": \"elsewhere\"}", "/v1/hardware/owner"), 409,
               "conflict");
    bb_problem(bb_json("PUT", "{\"target\": \"llvm\", \"kind\": \"gpu\", \"family\": \"owner\"}", "/v1/hardware/owner"),
               409, "conflict");
    bb_status(bb_json("PUT", "{\"target\": \"llvm -mcpu=new\", \"kind\": \"cpu\", \"family\": \"owner\"}",
                      "/v1/hardware/owner"),
              200);
}
END_TEST

/* ---- import ---- */

START_TEST(knowledge_of_another_kind_is_not_imported)
{
    struct tp_buf kb = {0};
    struct tc_err e;
    ck_assert_int_eq(tc_read_file("config/kb/gpu.safetensors", &kb, &e), 0);
    bb_put_hardware("a-cpu");
    bb_problem(import("a-cpu", kb.p, kb.n, "?activate=true"), 409, "conflict");
    bb_status(bb_json("PUT", "{\"target\": \"cuda -arch=sm_80\"}", "/v1/hardware/a-gpu"), 201);
    bb_status(import("a-gpu", kb.p, kb.n, "?activate=true"), 201);
    tp_buf_free(&kb);
    find_models(); /* a model of one hardware says its kind, too */
    struct bb_reply *w = bb_get("/v1/models/%lld/weights", (long long)newer);
    struct bb_reply *r = import("a-gpu", w->body, w->n, "");
    bb_problem(r, 409, "conflict");
    ck_assert_msg(strstr(tc_str(r->json, "/detail"), "cpu") != NULL, "%s", r->body);
}
END_TEST

START_TEST(import_waits_until_it_is_asked_for)
{
    find_models();
    bb_put_hardware("importer");
    struct bb_reply *w = bb_get("/v1/models/%lld/weights", (long long)newer);
    struct bb_reply *r = import("importer", w->body, w->n, "");
    bb_status(r, 201);
    int64_t id = tc_int(r->json, "/id", 0);
    ck_assert_int_gt(id, 0);
    ck_assert_msg(json_is_null(tc_at(bb_get("/v1/hardware/importer")->json, "/active_model")),
                  "an import came into use by itself");
    struct bb_text t = probe();
    bb_problem(bb_lines(t.p, t.n, "/v1/hardware/importer/predict"), 409, "no-model");
    const char *named = scores("importer", bb_printf("?model=%lld", (long long)id).p);
    bb_status(bb_json("POST", bb_printf("{\"model\": %lld}", (long long)id).p, "/v1/hardware/importer/activate"), 200);
    ck_assert_str_eq(scores("importer", ""), named);
    struct bb_reply *m = bb_get("/v1/models/%lld", (long long)id);
    ck_assert_str_eq(tc_str(m->json, "/hardware"), "importer");
}
END_TEST

START_TEST(imported_weights_predict_what_the_original_predicts)
{
    find_models();
    bb_put_hardware("twin");
    struct bb_reply *w = bb_get("/v1/models/%lld/weights", (long long)newer);
    struct bb_reply *r = import("twin", w->body, w->n, "?activate=true");
    bb_status(r, 201);
    ck_assert_int_eq(active("twin"), tc_int(r->json, "/id", 0));
    ck_assert_str_eq(scores("twin", ""), scores("owner", bb_printf("?model=%lld", (long long)newer).p));
}
END_TEST

/* ---- foreign and broken weights ---- */

static struct bb_text good; /* a weights file */

/* The file with its header text changed: `from` becomes `to`, both of equal length. */
static struct bb_text patched(const char *from, const char *to)
{
    struct bb_text t = bb_join(&good, 1);
    ck_assert_uint_eq(strlen(from), strlen(to));
    char *at = memmem(t.p + 8, header_length(t.p), from, strlen(from));
    ck_assert_msg(at != NULL, "the header has no %s: %.2000s", from, t.p + 8);
    memcpy(at, to, strlen(to));
    return t;
}

static void refused(const char *what, struct bb_text t, long status, const char *slug)
{
    struct bb_reply *r = import("owner", t.p, t.n, "?activate=true");
    ck_assert_msg(status ? r->status == status : r->status == 400 || r->status == 422, "%s: %ld %s", what, r->status,
                  r->body);
    bb_problem(r, r->status, slug);
}

START_TEST(broken_weights_are_refused)
{
    find_models();
    struct bb_reply *w = bb_get("/v1/models/%lld/weights", (long long)newer);
    good = (struct bb_text){(char *)(uintptr_t)w->body, w->n};
    size_t before = json_array_size(tc_at(bb_get("/v1/hardware/owner/models")->json, "/items"));
    int64_t in_use = active("owner");
    struct bb_text t;

    refused("empty", bb_printf("%s", ""), 0, NULL);
    refused("text", bb_printf("hello, I am a model"), 0, "bad-weights");
    t = bb_join(&good, 1);
    t.n -= 4;
    refused("four bytes short", t, 0, "bad-weights");
    t.n = 8;
    refused("only a length", t, 0, "bad-weights");
    struct bb_text more[2] = {good, bb_printf("tail")};
    refused("bytes behind the tensors", bb_join(more, 2), 0, "bad-weights");
    t = bb_join(&good, 1);
    memset(t.p, 0xff, 8);
    refused("header of 2^64 - 1 bytes", t, 0, "bad-weights");
    t = bb_join(&good, 1);
    t.p[8] = '[';
    refused("header is no object", t, 0, "bad-weights");
    t = bb_join(&good, 1);
    float nan = NAN;
    memcpy(t.p + t.n - 4, &nan, 4);
    refused("a weight is not a number", t, 0, "bad-weights");
    refused("another type", patched("\"F32\"", "\"F16\""), 0, "bad-weights");
    refused("a tensor of another name", patched("mixer.A_log", "mixer.B_log"), 0, "bad-weights");
    t = bb_join(&good, 1);
    for (size_t i = 0; i < 64; i++) /* random bytes of the right length */
        t.p[8 + i] = (char)(i * 37);
    refused("a header of noise", t, 0, "bad-weights");

    ck_assert_uint_eq(json_array_size(tc_at(bb_get("/v1/hardware/owner/models")->json, "/items")), before);
    ck_assert_int_eq(active("owner"), in_use);
}
END_TEST

START_TEST(weights_for_other_features_are_409)
{
    find_models();
    struct bb_reply *w = bb_get("/v1/models/%lld/weights", (long long)newer);
    good = (struct bb_text){(char *)(uintptr_t)w->body, w->n};
    refused("another features version", patched("\"tclf-1\"", "\"tclf-9\""), 409, "features-mismatch");
    /* the CRC of the tables stands in the metadata; its key ends in "crc" */
    json_t *h = header_of(good.p, good.n), *meta = tc_at(h, "/__metadata__");
    const char *key, *found = NULL, *value = NULL;
    json_t *v;
    json_object_foreach(meta, key, v)
    {
        if (strstr(key, "crc")) {
            found = bb_printf("%s", key).p;
            value = bb_printf("%s", json_string_value(v)).p;
        }
    }
    json_decref(h);
    ck_assert_msg(found != NULL, "no CRC in the metadata");
    char *other = bb_printf("%s", value).p;
    other[strlen(other) - 1] = other[strlen(other) - 1] == '1' ? '2' : '1';
    refused("another CRC", patched(bb_printf("\"%s\"", value).p, bb_printf("\"%s\"", other).p), 409,
            "features-mismatch");
}
END_TEST

START_TEST(weights_over_the_limit_are_413)
{
    enum { SIZE = (4 << 20) + 1 };
    char *p = calloc(1, SIZE);
    bb_problem(import("owner", p, SIZE, ""), 413, "body-too-large");
    free(p);
}
END_TEST

START_TEST(weights_of_another_media_type_are_415)
{
    bb_problem(bb_json("POST", "{}", "/v1/hardware/owner/models"), 415, "unsupported-media-type");
}
END_TEST

START_TEST(unknown_import_options_are_400)
{
    bb_problem(import("owner", "x", 1, "?activate=perhaps"), 400, "bad-parameter");
    bb_problem(import("owner", "x", 1, "?aktivate=true"), 400, "bad-parameter");
}
END_TEST

/* ---- over a restart ---- */

START_TEST(models_survive_a_restart)
{
    char *dir = bb_path("kept");
    struct tc_daemon *d = bb_start(dir, NULL);
    bb_put_hardware("kept");
    bb_post_demo("kept", 9, 2);
    bb_train("kept", "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 1}");
    bb_train("kept", "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 2, \"activate\": \"never\"}");
    const char *before = scores("kept", "");
    struct bb_reply *models = bb_get("/v1/hardware/kept/models");
    int64_t aside = tc_int(models->json, "/items/0/id", 0);
    const char *aside_scores = scores("kept", bb_printf("?model=%lld", (long long)aside).p);
    bb_stop(d);
    d = bb_start(dir, NULL);
    ck_assert_str_eq(scores("kept", ""), before);
    ck_assert_str_eq(bb_get("/v1/hardware/kept/models")->body, models->body);
    ck_assert_str_eq(scores("kept", bb_printf("?model=%lld", (long long)aside).p), aside_scores);
    bb_stop(d);
}
END_TEST

START_TEST(a_damaged_weights_file_does_not_stop_the_daemon)
{
    char *dir = bb_path("damaged");
    struct tc_daemon *d = bb_start(dir, NULL);
    bb_put_hardware("hurt");
    bb_put_hardware("well");
    bb_post_demo("hurt", 9, 2);
    bb_post_demo("well", 9, 2);
    bb_train("hurt", "{\"mode\": \"finetune\", \"epochs\": 1}");
    int64_t id = active("hurt");
    bb_train("well", "{\"mode\": \"finetune\", \"epochs\": 1}");
    const char *before = scores("well", "");
    bb_stop(d);
    char **file = bb_dir(bb_printf("%s/models", dir).p, ".safetensors");
    ck_assert_msg(file[0] && file[1], "no weights files in %s/models", dir);
    char *path = NULL;
    for (size_t i = 0; file[i]; i++)
        if (strtoll(file[i] + strcspn(file[i], "0123456789"), NULL, 10) == id)
            path = bb_printf("%s/models/%s", dir, file[i]).p;
    ck_assert_msg(path != NULL, "no file of model %lld", (long long)id);
    ck_assert_int_eq(tc_write_file(path, "garbage", 7, NULL), 0);
    d = bb_start(dir, NULL);
    ck_assert_str_eq(scores("well", ""), before);
    struct bb_text t = probe();
    struct bb_reply *r = bb_lines(t.p, t.n, "/v1/hardware/hurt/predict");
    ck_assert_msg(r->status >= 400, "%ld", r->status);
    bb_problem(r, r->status, NULL);
    bb_train("hurt", "{\"mode\": \"finetune\", \"epochs\": 1, \"seed\": 2}"); /* and the way out works */
    bb_status(bb_lines(t.p, t.n, "/v1/hardware/hurt/predict"), 200);
    bb_stop(d);
}
END_TEST

START_TEST(the_limit_of_weights_can_be_configured)
{
    char zeros[2000] = {0};
    struct tc_daemon *d = bb_start(bb_path("small"), (const char *[]){"--limit-weights-bytes", "1999", NULL});
    bb_put_hardware("small");
    bb_problem(import("small", zeros, 2000, ""), 413, "body-too-large");
    bb_problem(import("small", zeros, 1999, ""), 422, "bad-weights");
    bb_stop(d);
}
END_TEST

START_TEST(a_limit_on_file_sizes_is_a_full_disk_and_not_the_end)
{
    struct tc_daemon *d = bb_start(bb_path("unlimited"), NULL);
    bb_put_hardware("source");
    bb_post_demo("source", 9, 1);
    int64_t id = tc_int(bb_train("source", "{\"mode\": \"finetune\", \"epochs\": 1}"), "/result/model", 0);
    struct bb_reply *w = bb_get("/v1/models/%lld/weights", (long long)id);
    bb_status(w, 200);
    bb_stop(d);

    struct rlimit limit; /* of this test's process and what it starts */
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = w->n - 20000;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    d = bb_start(bb_path("limited"), NULL);
    bb_put_hardware("there");
    bb_problem(import("there", w->body, w->n, ""), 507, "disk-full");
    bb_status(bb_get("/livez"), 200);
    bb_stop(d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/models");
    TCase *tc = bb_case(s, "models", 60);
    tcase_add_test(tc, train_first);
    tcase_add_test(tc, history_is_newest_first_and_marks_the_active_one);
    tcase_add_test(tc, one_model_is_shown);
    tcase_add_test(tc, a_detailed_list_of_hardware_holds_what_each_shows_alone_and_its_model);
    tcase_add_test(tc, family_without_a_knowledge_base_lists_nothing);
    tcase_add_test(tc, weights_are_a_readable_safetensors_file);
    tcase_add_test(tc, two_downloads_are_equal);
    tcase_add_test(tc, etags_answer_304);
    tcase_add_test(tc, etag_changes_with_the_active_model);
    tcase_add_test(tc, activation_switches_and_rolls_back_to_the_same_bits);
    tcase_add_test(tc, another_hardwares_model_is_409);
    tcase_add_test(tc, unusable_activations_are_refused);
    tcase_add_test(tc, family_and_kind_stay_while_models_exist);
    tcase_add_test(tc, knowledge_of_another_kind_is_not_imported);
    tcase_add_test(tc, import_waits_until_it_is_asked_for);
    tcase_add_test(tc, imported_weights_predict_what_the_original_predicts);
    tcase_add_test(tc, broken_weights_are_refused);
    tcase_add_test(tc, weights_for_other_features_are_409);
    tcase_add_test(tc, weights_over_the_limit_are_413);
    tcase_add_test(tc, weights_of_another_media_type_are_415);
    tcase_add_test(tc, unknown_import_options_are_400);

    tc = bb_case_own(s, "restart", 120);
    tcase_add_test(tc, models_survive_a_restart);
    tcase_add_test(tc, a_damaged_weights_file_does_not_stop_the_daemon);
    tcase_add_test(tc, the_limit_of_weights_can_be_configured);
    tcase_add_test(tc, a_limit_on_file_sizes_is_a_full_disk_and_not_the_end);
    return bb_main(s);
}
