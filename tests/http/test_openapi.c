/* The API description against the daemon that serves it: it names every route and no other, every example in it is
 * answered as it says, and what comes back fits the schema that is promised.
 *
 * The state that examples need (hardware with a model, a pool, a lease) is made once, with the names that stand in the
 * description. */
#include "tests/http/suite.h"

#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *method, *path;
} routes[] = {
#define R(method, path, handler, role, body, where, summary) {method, path},
#include "daemon/routes.def"
#undef R
};
enum { N_ROUTES = sizeof routes / sizeof *routes };

#define HW "xeon-8272" /* the example of {hw} */

static const json_t *description(void)
{
    struct bb_reply *r = bb_get("/openapi.json");
    bb_status(r, 200);
    ck_assert_msg(r->json != NULL, "it is no JSON");
    return r->json;
}

static char *lower(const char *s)
{
    char *p = bb_printf("%s", s).p;
    for (char *c = p; *c; c++)
        *c = (char)(*c | 0x20);
    return p;
}

/* ---- schemas: the part of JSON Schema 2020-12 that the description uses ---- */

static const json_t *root;

static const json_t *resolve(const json_t *o)
{
    const char *s = json_string_value(json_object_get(o, "$ref"));
    const json_t *at = root;

    if (!s)
        return o;
    ck_assert_msg(s[0] == '#', "%s", s);
    for (s++; *s == '/';) {
        size_t n = strcspn(++s, "/");
        at = json_object_get(at, bb_printf("%.*s", (int)n, s).p);
        ck_assert_msg(at != NULL, "nothing stands at %s", json_string_value(json_object_get(o, "$ref")));
        s += n;
    }
    return at;
}

static bool is_type(const json_t *v, const char *type)
{
    return !strcmp(type, "object")    ? json_is_object(v)
           : !strcmp(type, "array")   ? json_is_array(v)
           : !strcmp(type, "string")  ? json_is_string(v)
           : !strcmp(type, "integer") ? json_is_integer(v)
           : !strcmp(type, "number")  ? json_is_number(v)
           : !strcmp(type, "boolean") ? json_is_boolean(v)
                                      : !strcmp(type, "null") && json_is_null(v);
}

static const char *fits(const json_t *v, const json_t *s, const char *where);

static const char *fits_type(const json_t *v, const json_t *type, const char *where)
{
    const json_t *one;
    size_t i;
    bool ok = json_is_string(type) && is_type(v, json_string_value(type));

    json_array_foreach(type, i, one)
    {
        ok = ok || is_type(v, json_string_value(one));
    }
    return ok || !type ? NULL : bb_printf("%s is of another type", where).p;
}

static const char *fits_text(const json_t *v, const json_t *s, const char *where)
{
    const json_t *list = json_object_get(s, "enum"), *one;
    const char *pattern = json_string_value(json_object_get(s, "pattern")), *text = json_string_value(v);
    bool found = !list || !text;
    regex_t re;
    size_t i;

    json_array_foreach(list, i, one)
    {
        found = found || json_equal(one, v);
    }
    if (!found)
        return bb_printf("%s: \"%s\" is not in the list", where, text).p;
    if (pattern && text) {
        ck_assert_int_eq(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
        int bad = regexec(&re, text, 0, NULL, 0);
        regfree(&re);
        if (bad)
            return bb_printf("%s: \"%s\" does not match", where, text).p;
    }
    if (text && !strcmp(json_string_value(json_object_get(s, "format")) ? "date-time" : "", "date-time") &&
        (strlen(text) < 20 || text[10] != 'T' || text[strlen(text) - 1] != 'Z'))
        return bb_printf("%s: \"%s\" is no time", where, text).p;
    return NULL;
}

static const char *fits_object(const json_t *v, const json_t *s, const char *where)
{
    const json_t *property, *key;
    const char *name, *why = NULL;
    json_t *value;
    size_t i;

    json_array_foreach(json_object_get(s, "required"), i, key)
    {
        if (!json_object_get(v, json_string_value(key)))
            return bb_printf("%s/%s is missing", where, json_string_value(key)).p;
    }
    json_object_foreach((json_t *)(uintptr_t)v, name, value)
    {
        property = json_object_get(json_object_get(s, "properties"), name);
        if (!why && property)
            why = fits(value, property, bb_printf("%s/%s", where, name).p);
    }
    return why;
}

/* NULL, or where and why it does not. */
static const char *fits(const json_t *v, const json_t *s, const char *where)
{
    const json_t *lo, *hi, *any, *item;
    const char *why;
    size_t i;

    s = resolve(s);
    if ((why = fits_type(v, json_object_get(s, "type"), where)) || (why = fits_text(v, s, where)))
        return why;
    lo = json_object_get(s, "minimum");
    hi = json_object_get(s, "maximum");
    if (json_is_number(v) &&
        ((lo && json_number_value(v) < json_number_value(lo)) || (hi && json_number_value(v) > json_number_value(hi))))
        return bb_printf("%s is out of range", where).p;
    if ((any = json_object_get(s, "anyOf"))) {
        json_array_foreach(any, i, item)
        {
            if (!(why = fits(v, item, where)))
                return NULL;
        }
        return why;
    }
    json_array_foreach(v, i, item)
    {
        if (json_object_get(s, "items") &&
            (why = fits(item, json_object_get(s, "items"), bb_printf("%s/%zu", where, i).p)))
            return why;
    }
    return json_is_object(v) ? fits_object(v, s, where) : NULL;
}

/* ---- the table and the description ---- */

START_TEST(it_names_every_route_and_no_other)
{
    const json_t *paths = json_object_get(description(), "paths");
    const char *path, *method;
    json_t *item, *op;
    int n = 0;
    for (int i = 0; i < N_ROUTES; i++)
        ck_assert_msg(json_object_get(json_object_get(paths, routes[i].path), lower(routes[i].method)) != NULL,
                      "%s %s is not in the description", routes[i].method, routes[i].path);
    json_object_foreach((json_t *)(uintptr_t)paths, path, item)
    {
        json_object_foreach(item, method, op)
        {
            n++;
        }
    }
    ck_assert_int_eq(n, N_ROUTES);
}
END_TEST

static void refs_resolve(const json_t *v)
{
    const char *key;
    json_t *x;
    size_t i;
    if (json_object_get(v, "$ref"))
        resolve(v);
    json_object_foreach((json_t *)(uintptr_t)v, key, x)
    {
        refs_resolve(x);
    }
    json_array_foreach(v, i, x)
    {
        refs_resolve(x);
    }
}

START_TEST(every_reference_leads_somewhere_and_every_route_tells_its_reply)
{
    const char *path, *method, *status;
    json_t *item, *op, *reply;
    root = description();
    refs_resolve(root);
    json_object_foreach(json_object_get(root, "paths"), path, item)
    {
        json_object_foreach(item, method, op)
        {
            bool good = false;
            json_object_foreach(json_object_get(op, "responses"), status, reply)
            {
                good = good || status[0] == '2';
            }
            ck_assert_msg(good, "%s %s does not tell what it gives (GIVES in routes.def)", method, path);
            ck_assert_msg(json_array_size(json_object_get(op, "tags")) == 1, "%s %s", method, path);
        }
    }
}
END_TEST

/* ---- examples ---- */

/* What the examples are about: models, a pool with something selected. */
static void make_state(void)
{
    struct bb_text t = bb_demo(0, 4), pool = bb_file("tests/data/batches/matmul_512.call1.json.gz");
    struct bb_reply *r;
    bb_status(bb_json("PUT", "{\"target\": \"llvm\"}", "/v1/hardware/" HW), 201);
    bb_status(bb_lines(t.p, t.n, "/v1/hardware/" HW "/measurements"), 200);
    bb_train(HW, "{\"mode\": \"finetune\", \"epochs\": 1}");
    bb_status(bb_json("PUT", "{\"target\": \"llvm\"}", "/v1/hardware/" HW ".ms"), 201);
    bb_status(bb_json("POST", bb_file("tests/data/metaschedule/cpu.json.gz").p, "/v1/hardware/" HW "/measurements"),
              200);
    bb_train(HW ".ms", "{\"mode\": \"finetune\", \"epochs\": 1}");
    bb_train(HW, "{\"mode\": \"pretrain\", \"epochs\": 1, \"per_task\": 40}"); /* model 3, a knowledge base */
    bb_status(bb_lines(pool.p, pool.n, "/v1/hardware/" HW "/candidates"), 200);
    r = bb_json("POST", "{\"budget\": 20, \"method\": \"random\"}", "/v1/hardware/" HW "/selections");
    bb_wait(tc_int(r->json, "/id", 0));
}

static const char *new_lease(void)
{
    struct bb_reply *r = bb_json("POST", "{\"agent\": \"a\", \"max\": 1}", "/v1/hardware/" HW "/leases");
    ck_assert_msg(tc_str(r->json, "/lease") != NULL, "%s", r->body);
    return tc_str(r->json, "/lease");
}

/* The folder that the dashboard's page loads its files from. */
static const char *dashboard_version(void)
{
    const char *at = strstr(bb_get("/")->body, "\"web/");
    ck_assert_ptr_nonnull(at);
    at += strlen("\"web/");
    return bb_printf("%.*s", (int)strcspn(at, "/"), at).p;
}

/* The path with the description's own examples in it; but a lease is a new one each time, and the version is built in.
 */
static char *fill(const char *path, const json_t *op)
{
    char *out = bb_printf("%s", "").p;
    for (; *path; path++) {
        if (*path != '{') {
            out = bb_printf("%s%c", out, *path).p;
            continue;
        }
        const json_t *p, *example = NULL;
        const char *name = bb_printf("%.*s", (int)strcspn(path + 1, "}"), path + 1).p;
        size_t i;
        json_array_foreach(json_object_get(op, "parameters"), i, p)
        {
            p = resolve(p);
            if (!strcmp(tc_str(p, "/name"), name))
                example = json_object_get(p, "example");
        }
        ck_assert_msg(example != NULL, "{%s} has no example", name);
        char *text = json_dumps(example, JSON_ENCODE_ANY);
        const char *value = json_is_string(example) ? json_string_value(example) : text;
        value = !strcmp(name, "lease") ? new_lease() : !strcmp(name, "version") ? dashboard_version() : value;
        out = bb_printf("%s%s", out, value).p;
        free(text);
        path += strcspn(path, "}");
    }
    return out;
}

static void check_reply(const char *what, const json_t *op, const struct bb_reply *r)
{
    const json_t *reply = json_object_get(json_object_get(op, "responses"), bb_printf("%ld", r->status).p), *media;
    const char *type = bb_header(r, "Content-Type"), *why;
    ck_assert_msg(r->status >= 200 && r->status < 300 && reply, "%s: status %ld: %.400s", what, r->status, r->body);
    if (r->n == 0) {
        ck_assert_msg(!json_object_get(reply, "content"), "%s: no body", what);
        return;
    }
    ck_assert_msg(type != NULL, "%s", what);
    media = json_object_get(json_object_get(reply, "content"), bb_printf("%.*s", (int)strcspn(type, ";"), type).p);
    ck_assert_msg(media != NULL, "%s: %s is not promised", what, type);
    if (r->json && (why = fits(r->json, json_object_get(media, "schema"), "")))
        ck_abort_msg("%s: %s: %.600s", what, why, r->body);
}

static void run(const char *method, const char *path, const json_t *op, const char *type, const json_t *example)
{
    const json_t *value = json_object_get(example, "value");
    char *text = !value                  ? NULL
                 : json_is_string(value) ? strdup(json_string_value(value))
                                         : json_dumps(value, 0),
         *upper = bb_printf("%s", method).p;
    for (char *c = upper; *c; c++)
        *c = (char)(*c & ~0x20);
    struct bb_reply *r = bb_call(&(struct tc_request){.method = upper,
                                                      .path = fill(path, op),
                                                      .body = text,
                                                      .n = text ? strlen(text) : 0,
                                                      .content_type = text ? type : NULL});
    check_reply(bb_printf("%s %s (%s)", upper, path, example ? tc_str(example, "/summary") : "").p, op, r);
    free(text);
    if (r->status == 202) /* nothing of it must run on into the next */
        bb_wait(tc_int(r->json, "/id", 0));
}

START_TEST(every_example_is_answered_as_promised)
{
    const char *path, *method, *type, *name;
    json_t *item, *op, *media, *example;
    int n = 0;
    root = description();
    make_state();
    json_object_foreach(json_object_get(root, "paths"), path, item)
    {
        json_object_foreach(item, method, op)
        {
            json_object_foreach(tc_at(op, "/requestBody/content"), type, media)
            {
                json_object_foreach(json_object_get(media, "examples"), name, example)
                {
                    const json_t *x = resolve(example);
                    const json_t *value = json_object_get(x, "value");
                    const char *why = fits(value, json_object_get(media, "schema"), name);
                    ck_assert_msg(!why, "the example does not fit its own schema: %s", why);
                    run(method, path, op, type, x);
                    n++;
                }
            }
        }
    }
    ck_assert_int_ge(n, 16);
    ck_assert_uint_eq((size_t)n, json_object_size(tc_at(root, "/components/examples")));
    json_object_foreach(json_object_get(root, "paths"), path, item) /* what takes no body */
    {
        json_object_foreach(item, method, op)
        {
            if (!strcmp(method, "get") || (!strcmp(method, "delete") && strstr(path, "/leases")))
                run(method, path, op, NULL, NULL);
            if (!strcmp(method, "delete") && strstr(path, "/candidates"))
                for (int i = 0; i < 2; i++)
                    check_reply(path, op,
                                bb_delete("/v1/hardware/" HW "/candidates?state=%s", i ? "pooled" : "selected"));
        }
    }
    bb_status(bb_delete("/v1/hardware/" HW "?purge=true"), 204);
}
END_TEST

START_TEST(errors_fit_the_schema_of_problems)
{
    root = description();
    struct bb_reply *r = bb_get("/v1/hardware/none-such");
    bb_problem(r, 404, "unknown-hardware");
    ck_assert(!fits(r->json, tc_at(root, "/components/schemas/Problem"), ""));
    r = bb_json("PUT", "{\"target\": 1}", "/v1/hardware/x");
    ck_assert(!fits(r->json, tc_at(root, "/components/schemas/Problem"), ""));
    ck_assert(fits(json_object_get(r->json, "detail"), tc_at(root, "/components/schemas/Problem"), "") != NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("http/openapi");
    TCase *tc = bb_case(s, "openapi", 120);
    tcase_add_test(tc, it_names_every_route_and_no_other);
    tcase_add_test(tc, every_reference_leads_somewhere_and_every_route_tells_its_reply);
    tcase_add_test(tc, every_example_is_answered_as_promised);
    tcase_add_test(tc, errors_fit_the_schema_of_problems);
    return bb_main(s);
}
