/* build/apidoc: prints docs/api.md from the API description. `make docs` writes it, `make check-docs` compares. */
#include "daemon/openapi.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *doc;

static const json_t *get(const json_t *o, const char *key)
{
    return json_object_get(o, key);
}

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(get(o, key));
    return s ? s : "";
}

/* The last part of {"$ref": "#/components/schemas/Job"}, or NULL. */
static const char *ref_name(const json_t *o)
{
    const char *s = json_string_value(get(o, "$ref"));
    return s ? strrchr(s, '/') + 1 : NULL;
}

/* What a reference stands for, or o itself. */
static const json_t *resolve(const json_t *o)
{
    const char *s = json_string_value(get(o, "$ref"));
    const json_t *at = doc;
    char part[64];

    if (!s)
        return o;
    for (s++; *s == '/' && at; s += strlen(part)) {
        snprintf(part, sizeof part, "%.*s", (int)strcspn(s + 1, "/"), s + 1);
        at = get(at, part);
        s++;
    }
    return at;
}

static void print_type(const json_t *s);

/* One of several: a name, or an object by its keys. */
static void print_choice(const json_t *s)
{
    const char *key, *sep = "an object with ";
    json_t *v;

    if (ref_name(s) || (get(s, "type") && !get(s, "properties"))) {
        print_type(s);
        return;
    }
    if (get(s, "const"))
        printf("`%s`", json_string_value(get(s, "const")));
    json_object_foreach((json_t *)(uintptr_t)get(s, "properties"), key, v)
    {
        printf("%s`%s`", sep, key);
        sep = " and ";
    }
}

/* "string or null", "array of Job", "`ac`, `kb`" */
static void print_type(const json_t *s)
{
    const json_t *type = get(s, "type"), *x;
    size_t i;

    if (ref_name(s)) {
        printf("[%s](#%s)", ref_name(s), ref_name(s));
        return;
    }
    if (get(s, "enum")) {
        json_array_foreach(get(s, "enum"), i, x)
        {
            printf("%s`%s`", i ? ", " : "", json_string_value(x));
        }
        return;
    }
    if (json_is_array(type)) {
        json_array_foreach(type, i, x)
        {
            printf("%s%s", i ? " or " : "", json_string_value(x));
        }
    } else {
        printf("%s", json_is_string(type) ? json_string_value(type) : "any of");
    }
    if (get(s, "items")) {
        printf(" of ");
        print_type(get(s, "items"));
    }
    if (get(s, "anyOf")) {
        printf(": ");
        json_array_foreach(get(s, "anyOf"), i, x)
        {
            printf("%s", i == 0 ? "" : i + 1 < json_array_size(get(s, "anyOf")) ? ", " : " or ");
            print_choice(x);
        }
    }
}

static bool needed(const json_t *schema, const char *key)
{
    const json_t *x;
    size_t i;

    json_array_foreach(get(schema, "required"), i, x)
    {
        if (strcmp(json_string_value(x), key) == 0)
            return true;
    }
    return false;
}

/* more: something stands before them already */
static void print_limits(const json_t *s, bool more)
{
    static const char *const key[] = {"default", "minimum", "exclusiveMinimum", "maximum", "pattern"};

    for (size_t i = 0; i < sizeof key / sizeof *key; i++) {
        char *v = get(s, key[i]) ? json_dumps(get(s, key[i]), JSON_ENCODE_ANY) : NULL;
        if (v)
            printf("%s%s %s", more ? "; " : "", key[i], v);
        more = more || v;
        free(v);
    }
}

/* The keys of an object; of objects inside it too, as "items[].id" and "candidates.pooled". */
static void print_keys(const char *above, const json_t *s)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)get(s, "properties"), key, v)
    {
        const json_t *inner = get(v, "items") ? get(v, "items") : v;
        char path[128];

        printf("| `%s%s`%s | ", above, key, needed(s, key) ? "" : "?");
        print_type(v);
        printf(" | %s", text(v, "description"));
        print_limits(v, *text(v, "description") != '\0');
        printf(" |\n");
        snprintf(path, sizeof path, "%s%s%s.", above, key, inner == v ? "" : "[]");
        if (get(inner, "properties"))
            print_keys(path, inner);
    }
}

static void print_schema(const char *name, const json_t *s)
{
    printf("\n### %s\n\n", name);
    if (*text(s, "description"))
        printf("%s\n\n", text(s, "description"));
    if (!get(s, "properties")) {
        print_type(s);
        print_limits(s, true);
        printf("\n");
        return;
    }
    printf("| key | type | |\n|---|---|---|\n");
    print_keys("", s);
}

/* A body as it is sent: a string is text, anything else JSON. */
static void print_example(const char *method, const char *path, const char *type, const json_t *example)
{
    const json_t *value = get(example, "value");
    char *body = json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, JSON_PRESERVE_ORDER);

    printf("\n%s:\n\n```\n$ curl -X %s -H 'Content-Type: %s' localhost:8723", text(example, "summary"), method, type);
    for (; *path; path++) {
        char name[32];
        if (*path != '{') {
            putchar(*path);
            continue;
        }
        snprintf(name, sizeof name, "%.*s", (int)strcspn(path + 1, "}"), path + 1);
        printf("%s", text(get(get(get(doc, "components"), "parameters"), name), "example"));
        path += strcspn(path, "}");
    }
    printf(" --data-binary @- <<'END'\n%s%sEND\n```\n", body, body[strlen(body) - 1] == '\n' ? "" : "\n");
    free(body);
}

static void print_parameters(const json_t *op)
{
    const json_t *p;
    size_t i;

    json_array_foreach(get(op, "parameters"), i, p)
    {
        p = resolve(p);
        printf("%s| `%s` | %s | ", i ? "" : "\n| parameter | in | type | |\n|---|---|---|---|\n", text(p, "name"),
               text(p, "in"));
        print_type(get(p, "schema"));
        printf(" | %s%s |\n", text(p, "description"),
               json_is_true(get(p, "required")) && strcmp(text(p, "in"), "query") == 0 ? "; needed" : "");
    }
}

static void print_body(const char *method, const char *path, const json_t *op)
{
    const json_t *body = get(op, "requestBody");
    const char *type, *name;
    json_t *media, *example;

    json_object_foreach((json_t *)(uintptr_t)get(body, "content"), type, media)
    {
        printf("\nBody%s: `%s`, ", json_is_true(get(body, "required")) ? "" : " (may be left out)", type);
        print_type(get(media, "schema"));
        printf("\n");
        json_object_foreach((json_t *)(uintptr_t)get(media, "examples"), name, example)
        {
            print_example(method, path, type, resolve(example));
        }
    }
}

static void print_replies(const json_t *op)
{
    const char *status, *type;
    json_t *reply, *media;

    printf("\n| status | reply | |\n|---|---|---|\n");
    json_object_foreach((json_t *)(uintptr_t)get(op, "responses"), status, reply)
    {
        const char *sep = "";
        if (strcmp(status, "default") == 0)
            continue;
        printf("| %s | ", status);
        json_object_foreach((json_t *)(uintptr_t)get(reply, "content"), type, media)
        {
            printf("%s`%s` ", sep, type);
            if (strcmp(type, "application/problem+json") != 0)
                print_type(get(media, "schema"));
            sep = ", ";
        }
        printf(" | %s |\n", text(reply, "description"));
    }
}

static void print_tag(const char *tag)
{
    const char *path, *method;
    json_t *item, *op;

    json_object_foreach((json_t *)(uintptr_t)get(doc, "paths"), path, item)
    {
        json_object_foreach(item, method, op)
        {
            char upper[16] = "";
            if (strcmp(json_string_value(json_array_get(get(op, "tags"), 0)), tag) != 0)
                continue;
            for (size_t i = 0; method[i] && i + 1 < sizeof upper; i++)
                upper[i] = (char)(method[i] & ~0x20);
            printf("\n### %s %s\n\n%s.", upper, path, text(op, "summary"));
            if (*text(op, "description"))
                printf(" %s", text(op, "description"));
            if (strcmp(text(op, "x-role"), "none") != 0)
                printf(" Role: `%s`.", text(op, "x-role"));
            printf("\n");
            print_parameters(op);
            print_body(upper, path, op);
            print_replies(op);
        }
    }
}

int main(void)
{
    struct tp_buf b = {0};
    json_error_t why;
    const json_t *tag;
    const char *name;
    json_t *schema;
    size_t i;

    td_openapi_write(&b);
    doc = json_loadb(b.p, b.n, JSON_REJECT_DUPLICATES, &why);
    tp_buf_free(&b);
    if (!doc) {
        fprintf(stderr, "apidoc: the description is not JSON: line %d: %s\n", why.line, why.text);
        return 1;
    }
    printf("# HTTP API\n\n<!-- made by `make docs` from daemon/routes.def and daemon/openapi.json -->\n\n"
           "%s\n\nThe same as OpenAPI 3.1: `GET /openapi.json`. Every example is run by the tests.\n",
           text(get(doc, "info"), "description"));
    json_array_foreach(get(doc, "tags"), i, tag)
    {
        printf("\n## %s\n\n%s\n", text(tag, "name"), text(tag, "description"));
        print_tag(text(tag, "name"));
    }
    printf("\n## Schemas\n\nKeys with a question mark may be absent; other keys may come with later versions.\n");
    json_object_foreach((json_t *)(uintptr_t)get(get(doc, "components"), "schemas"), name, schema)
    {
        print_schema(name, schema);
    }
    json_decref(doc);
    return 0;
}
