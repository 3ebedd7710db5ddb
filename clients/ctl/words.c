/* What tcld advises, in the words of who types commands: routes of HTTP and keys of JSON become commands and options.
 *
 * A text that holds none of them, or others, stays as it is. Pure. */
#include "clients/ctl/ctl.h"

#include <string.h>

/* "*": a name, which stands for "*" in `to` as well; "~": a body in braces, which is left out. The first that fits. */
static const struct {
    const char *from, *to;
} words[] = {
    {"POST at least", "import at least"},
    {" to /v1/hardware/*/measurements", " (tclctl import * FILE)"},
    {"POST /v1/hardware/*/measurements~", "tclctl import * FILE"},
    {"POST /v1/hardware/*/candidates~", "tclctl candidates add * FILE"},
    {"DELETE /v1/hardware/*/candidates?state=pooled", "tclctl candidates remove *"},
    {"POST /v1/hardware/*/selections~", "tclctl select *"},
    {"POST /v1/hardware/*/retrain~", "tclctl adapt *"},
    {"POST /v1/hardware/*/activate~", "tclctl activate * ID"},
    {"POST /v1/families/*/activate~", "tclctl activate --family * ID"},
    {"PUT /v1/hardware/*/policy~", "tclctl policy *"},
    {"PUT /v1/hardware/*~", "tclctl hardware add * --target TARGET"},
    {"GET /v1/jobs/*", "tclctl jobs show *"},
    {"as Authorization: Bearer TOKEN", "with --token-file FILE"},
    {"purge deletes them too", "--purge removes them too"},
    {"either \"budget\"", "either --budget"},
    {"or \"fraction\"", "or --fraction"},
    {"{\"fraction\": 0.1}", "--fraction 0.1"},
};

/* Behind what `from` fits at p; NULL: it does not. */
static const char *fit(const char *from, const char *p, const char **name, size_t *n)
{
    for (; *from; from++) {
        if (*from == '*') {
            *n = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789._-");
            *name = p;
            if (!*n)
                return NULL;
            p += *n;
        } else if (*from == '~') {
            const char *body = p + (*p == ' '), *end = *body == '{' ? strchr(body, '}') : NULL;
            p = end ? end + 1 : p;
        } else if (*from != *p++) {
            return NULL;
        }
    }
    return p;
}

static const char *put_word(struct tp_buf *b, const char *p)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *name = "", *next;
        size_t n = 0;
        if (!(next = fit(words[i].from, p, &name, &n)))
            continue;
        for (const char *t = words[i].to; *t; t++)
            if (*t == '*')
                tp_buf_put(b, name, n);
            else
                tp_buf_putc(b, *t);
        return next;
    }
    tp_buf_putc(b, *p);
    return p + 1;
}

const char *ctl_words(struct ctl *c, const char *text)
{
    struct tp_buf b = {0};

    while (*text)
        text = put_word(&b, text);
    const char *kept = ctl_printf(c, "%.*s", b.oom ? 0 : (int)b.n, b.p ? b.p : "");
    tp_buf_free(&b);
    return kept;
}
