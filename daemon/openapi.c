/* GET /openapi.json: routes.def printed as OpenAPI 3.1.
 *
 * The rows of routes.def stand here in their order, so what describes a route follows it. Schemas, parameters and
 * examples are the text of openapi.json, taken in by the assembler: nothing is read at run time. What every route has
 * because of its path, role or body (errors, security) is added here and stands nowhere else. */
#include "daemon/openapi.h"
#include "daemon/handlers.h"

#include "proto/err.h"

#include <stdio.h>
#include <string.h>

__asm__(".section .rodata\n"
        "td_openapi_components:\n"
        ".incbin \"daemon/openapi.json\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char td_openapi_components[];

enum kind { K_TAG, K_ROUTE, K_SAYS, K_QUERY, K_TAKES, K_GIVES, K_FAILS, K_END };

struct row {
    enum kind kind;
    const char *a, *b, *c, *d; /* as the macro has them */
    int n;                     /* status; of TAKES: may be left out; of QUERY: is needed */
    enum td_role role;
    enum td_body_kind body;
};

static const struct row rows[] = {
#define TAG(name, help) {.kind = K_TAG, .a = name, .b = help},
#define R(method, path, handler, role_, body_, where, summary)                                                         \
    {.kind = K_ROUTE,                                                                                                  \
     .a = method,                                                                                                      \
     .b = path,                                                                                                        \
     .c = #handler,                                                                                                    \
     .d = summary,                                                                                                     \
     .role = TD_ROLE_##role_,                                                                                          \
     .body = TD_BODY_##body_},
#define SAYS(text)                        {.kind = K_SAYS, .a = text},
#define QUERY(name, schema, help)         {.kind = K_QUERY, .a = name, .b = schema, .c = help},
#define NEEDS(name, schema, help)         {.kind = K_QUERY, .a = name, .b = schema, .c = help, .n = 1},
#define TAKES(type, schema, examples)     {.kind = K_TAKES, .a = type, .b = schema, .c = examples},
#define MAY_TAKE(type, schema, examples)  {.kind = K_TAKES, .a = type, .b = schema, .c = examples, .n = 1},
#define GIVES(status, type, schema, help) {.kind = K_GIVES, .a = type, .b = schema, .c = help, .n = status},
#define FAILS(slugs)                      {.kind = K_FAILS, .a = slugs},
#include "daemon/routes.def"
#undef R
    {.kind = K_END}};

static void str(struct tp_buf *b, const char *s)
{
    tp_buf_json_str(b, s, strlen(s));
}

static void member(struct tp_buf *b, const char *name, const char *value)
{
    tp_buf_printf(b, "\"%s\": ", name);
    str(b, value);
}

static void put_schema(struct tp_buf *b, const char *schema)
{
    tp_buf_printf(b, "\"schema\": {\"$ref\": \"#/components/schemas/%s\"}", schema);
}

/* What belongs to the route at r: the next row of that kind behind `after`, NULL when there is none. */
static const struct row *next_of(const struct row *r, const struct row *after, enum kind kind)
{
    for (r = after ? after + 1 : r + 1; r->kind != K_ROUTE && r->kind != K_TAG && r->kind != K_END; r++)
        if (r->kind == kind)
            return r;
    return NULL;
}

static const char *tag_of(const struct row *r)
{
    while (r > rows && r->kind != K_TAG)
        r--;
    return r->kind == K_TAG ? r->a : "";
}

/* ---- parameters ---- */

/* {id} of a job and of a model are two parameters. */
static void put_path_parameter(struct tp_buf *b, const char *path, const char *name, size_t n)
{
    const char *which = strncmp(path, "/v1/jobs/", 9) == 0 ? "job" : "model";
    bool id = n == 2 && strncmp(name, "id", 2) == 0;

    tp_buf_printf(b, "{\"$ref\": \"#/components/parameters/%.*s\"}", id ? (int)strlen(which) : (int)n,
                  id ? which : name);
}

static void put_parameters(struct tp_buf *b, const struct row *r)
{
    const char *sep = "", *brace = r->b;

    tp_buf_puts(b, ", \"parameters\": [");
    while ((brace = strchr(brace, '{')) != NULL) {
        size_t n = strcspn(++brace, "}");
        tp_buf_puts(b, sep);
        put_path_parameter(b, r->b, brace, n);
        sep = ", ";
    }
    for (const struct row *q = next_of(r, NULL, K_QUERY); q; q = next_of(r, q, K_QUERY), sep = ", ") {
        tp_buf_printf(b, "%s{", sep);
        member(b, "name", q->a);
        tp_buf_printf(b, ", \"in\": \"query\", %s", q->n ? "\"required\": true, " : "");
        member(b, "description", q->c);
        tp_buf_puts(b, ", ");
        put_schema(b, q->b);
        tp_buf_putc(b, '}');
    }
    tp_buf_putc(b, ']');
}

/* ---- bodies ---- */

static void put_examples(struct tp_buf *b, const char *names)
{
    const char *sep = "";

    if (!*names)
        return;
    tp_buf_puts(b, ", \"examples\": {");
    while (*names) {
        int n = (int)strcspn(names, " ");
        tp_buf_printf(b, "%s\"%.*s\": {\"$ref\": \"#/components/examples/%.*s\"}", sep, n, names, n, names);
        names += n;
        names += strspn(names, " ");
        sep = ", ";
    }
    tp_buf_putc(b, '}');
}

static void put_body(struct tp_buf *b, const struct row *r)
{
    const struct row *t = next_of(r, NULL, K_TAKES);
    const char *sep = "";

    if (!t)
        return;
    tp_buf_printf(b, ", \"requestBody\": {\"required\": %s, \"content\": {", t->n ? "false" : "true");
    for (; t; t = next_of(r, t, K_TAKES), sep = ", ") {
        tp_buf_puts(b, sep);
        str(b, t->a);
        tp_buf_puts(b, ": {");
        put_schema(b, t->b);
        put_examples(b, t->c);
        tp_buf_putc(b, '}');
    }
    tp_buf_puts(b, "}}");
}

/* ---- replies ---- */

static void put_replies(struct tp_buf *b, const struct row *r)
{
    for (const struct row *g = next_of(r, NULL, K_GIVES), *last = NULL; g; last = g, g = next_of(r, g, K_GIVES)) {
        bool same = last && last->n == g->n; /* another form of the same reply */

        if (!same) {
            tp_buf_printf(b, "%s\"%d\": {", last ? (last->a ? "}}, " : "}, ") : "", g->n);
            member(b, "description", *g->c ? g->c : "as asked for");
            tp_buf_puts(b, g->a ? ", \"content\": {" : "");
        } else {
            tp_buf_puts(b, ", ");
        }
        if (g->a) {
            str(b, g->a);
            tp_buf_puts(b, ": {");
            put_schema(b, g->b);
            tp_buf_putc(b, '}');
        }
        if (!next_of(r, g, K_GIVES))
            tp_buf_puts(b, g->a ? "}}, " : "}, ");
    }
}

/* Marks the errors of a list of slugs. */
static void mark(bool *wanted, const char *slugs)
{
    while (*slugs) {
        size_t n = strcspn(slugs, " ");
        for (int code = 1; code < TP_E_COUNT; code++)
            if (strncmp(tp_code_slug(code), slugs, n) == 0 && !tp_code_slug(code)[n])
                wanted[code] = true;
        slugs += n;
        slugs += strspn(slugs, " ");
    }
}

static void put_errors(struct tp_buf *b, const struct row *r)
{
    bool wanted[TP_E_COUNT] = {false};
    const struct row *f = next_of(r, NULL, K_FAILS);

    mark(wanted, f ? f->a : "");
    mark(wanted, r->role == TD_ROLE_NONE ? "" : "unauthorized forbidden");
    mark(wanted, strstr(r->b, "{hw}") ? "bad-identifier" : "");
    mark(wanted, strstr(r->b, "{hw}") && strcmp(r->a, "PUT") != 0 ? "unknown-hardware" : "");
    mark(wanted, strstr(r->b, "{family}") ? "bad-identifier" : "");
    mark(wanted, next_of(r, NULL, K_QUERY) ? "bad-parameter" : "");
    mark(wanted, r->body == TD_BODY_NONE ? "" : "bad-encoding body-too-large unsupported-media-type");
    mark(wanted, r->body == TD_BODY_JSON ? "bad-body unknown-key bad-parameter" : "");
    mark(wanted, r->body == TD_BODY_RECORDS ? "bad-body no-records overloaded" : "");
    for (int status = 400; status < 600; status++) {
        bool first = true;
        for (int code = 1; code < TP_E_COUNT; code++) {
            if (!wanted[code] || tp_code_status(code) != status)
                continue;
            if (first)
                tp_buf_printf(b, "\"%d\": {\"description\": \"", status);
            tp_buf_printf(b, "%s%s (%s)", first ? "" : "; ", tp_code_title(code), tp_code_slug(code));
            first = false;
        }
        if (!first)
            tp_buf_puts(b, "\", \"content\": {\"application/problem+json\": {\"schema\": "
                           "{\"$ref\": \"#/components/schemas/Problem\"}}}}, ");
    }
    tp_buf_puts(b, "\"default\": {\"$ref\": \"#/components/responses/Problem\"}");
}

static void put_operation(struct tp_buf *b, const struct row *r)
{
    static const char *const role[] = {"none", "predict", "measure", "operate"};
    const struct row *says = next_of(r, NULL, K_SAYS);
    char method[16] = "";

    for (size_t i = 0; r->a[i] && i + 1 < sizeof method; i++)
        method[i] = (char)(r->a[i] | 0x20);
    tp_buf_printf(b, "\"%s\": {\"operationId\": \"%s\", ", method, r->c + strlen("td_h_"));
    member(b, "summary", r->d);
    tp_buf_puts(b, ", ");
    if (says) {
        member(b, "description", says->a);
        tp_buf_puts(b, ", ");
    }
    tp_buf_puts(b, "\"tags\": [");
    str(b, tag_of(r));
    tp_buf_printf(b, "], \"x-role\": \"%s\", \"security\": [%s]", role[r->role],
                  r->role == TD_ROLE_NONE ? "" : "{\"bearer\": []}, {}");
    put_parameters(b, r);
    put_body(b, r);
    tp_buf_puts(b, ", \"responses\": {");
    put_replies(b, r);
    put_errors(b, r);
    tp_buf_puts(b, "}}");
}

static void put_paths(struct tp_buf *b)
{
    const char *sep = "";

    for (const struct row *r = rows; r->kind != K_END; r++) {
        const struct row *first = rows;

        while (first->kind != K_ROUTE || strcmp(first->b, r->kind == K_ROUTE ? r->b : "") != 0) {
            if (first == r)
                break;
            first++;
        }
        if (r->kind != K_ROUTE || first != r)
            continue; /* no route, or one whose path came before */
        tp_buf_printf(b, "%s", sep);
        str(b, r->b);
        tp_buf_puts(b, ": {");
        for (const struct row *s = r; s->kind != K_END; s++) {
            if (s->kind != K_ROUTE || strcmp(s->b, r->b) != 0)
                continue;
            tp_buf_puts(b, s == r ? "" : ", ");
            put_operation(b, s);
        }
        tp_buf_putc(b, '}');
        sep = ",\n";
    }
}

void td_openapi_write(struct tp_buf *b)
{
    const char *sep = "";

    tp_buf_puts(b, "{\"openapi\": \"3.1.0\", \"info\": {\"title\": \"tcld\", ");
    member(b, "version", TCLD_VERSION);
    tp_buf_puts(b, ", ");
    member(
        b, "description",
        "Learns how fast tensor programs run on each kind of hardware and answers which of many candidates are worth "
        "measuring. Errors are application/problem+json (RFC 9457). Request bodies may be packed with gzip or zstd. "
        "Lists are pages. Times are RFC 3339, UTC.");
    tp_buf_puts(b, "},\n\"servers\": [{\"url\": \"/\"}],\n\"tags\": [");
    for (const struct row *r = rows; r->kind != K_END; r++) {
        if (r->kind != K_TAG)
            continue;
        tp_buf_printf(b, "%s{", sep);
        member(b, "name", r->a);
        tp_buf_puts(b, ", ");
        member(b, "description", r->b);
        tp_buf_putc(b, '}');
        sep = ", ";
    }
    tp_buf_puts(b, "],\n\"paths\": {\n");
    put_paths(b);
    tp_buf_puts(b, "\n},\n\"components\": ");
    tp_buf_puts(b, td_openapi_components);
    tp_buf_puts(b, "}\n");
}

void td_h_openapi(struct td_request *r)
{
    static const char *const query[] = {NULL};
    struct tp_buf b = {0};

    if (!td_req_only_query(r, query))
        return;
    td_openapi_write(&b);
    td_reply(r, 200, "application/json", &b);
}
