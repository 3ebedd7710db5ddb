/* TVM target strings -> kind and the few attributes that tell devices apart.
 *
 * The flat form is split as TVM splits it (blanks, quotes, backslashes; "-a=b", "--a=b" or "-a b"). Source: apache/tvm
 * v0.14.0 src/target/target.cc TargetInternal::FromRawString, tags: src/target/tag.cc. Text longer than a field is cut,
 * only a kind must fit, because task identities are made of it. Pure functions. */
#include "proto/target.h"
#include "proto/json.h"

#include <stdio.h>
#include <string.h>

enum { TARGET_DEPTH = 16 };

/* All tags that TVM registers below a vendor's name stand for one kind. */
static const struct {
    const char *prefix, *kind;
} tags[] = {
    {"nvidia/", "cuda"},
    {"aws/cpu/", "llvm"},
    {"raspberry-pi/", "llvm"},
    {"apple/", "metal"},
};

static const struct {
    const char *name;
    enum tp_target_kind kind;
} kinds[] = {
    {"llvm", TP_TARGET_CPU},   {"c", TP_TARGET_CPU},      {"cuda", TP_TARGET_GPU},  {"rocm", TP_TARGET_GPU},
    {"opencl", TP_TARGET_GPU}, {"vulkan", TP_TARGET_GPU}, {"metal", TP_TARGET_GPU},
};

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

const char *tp_target_kind_name(enum tp_target_kind k)
{
    switch (k) {
    case TP_TARGET_CPU:
        return "cpu";
    case TP_TARGET_GPU:
        return "gpu";
    case TP_TARGET_ACCELERATOR:
        return "accelerator";
    case TP_TARGET_ANY:
        break;
    }
    return "any";
}

static char *field(struct tp_target *t, const char *name, size_t n, size_t *cap)
{
    static const struct {
        const char *name;
        size_t at;
    } fields[] = {
        {"model", offsetof(struct tp_target, model)},   {"mcpu", offsetof(struct tp_target, mcpu)},
        {"arch", offsetof(struct tp_target, arch)},     {"mtriple", offsetof(struct tp_target, mtriple)},
        {"device", offsetof(struct tp_target, device)}, {"kind", offsetof(struct tp_target, name)},
    };
    *cap = sizeof t->model;
    for (size_t i = 0; i < COUNT(fields); i++)
        if (strlen(fields[i].name) == n && memcmp(fields[i].name, name, n) == 0)
            return (char *)t + fields[i].at;
    return NULL;
}

/* Copy what fits, cut between characters. False: it had to be cut. */
static bool put(char *dst, size_t cap, const char *s, size_t n)
{
    bool fits = n < cap;
    if (!fits)
        for (n = cap - 1; n > 0 && ((unsigned char)s[n] & 0xC0) == 0x80;)
            n--;
    memcpy(dst, s, n);
    dst[n] = '\0';
    return fits;
}

static int set_kind(struct tp_target *t, const char *s, size_t n, struct tp_err *e)
{
    if (n == 0)
        return tp_fail(e, TP_E_BAD_TASK, "the target names no kind; \"llvm -mcpu=...\" for instance does");
    if (memchr(s, '\0', n) != NULL || !put(t->name, sizeof t->name, s, n))
        return tp_fail(e, TP_E_BAD_TASK, "the target kind is longer than %zu bytes or holds a NUL", sizeof t->name - 1);
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (strcmp(kinds[i].name, t->name) == 0) {
            t->kind = kinds[i].kind;
            return 0;
        }
    t->kind = TP_TARGET_ACCELERATOR;
    if (strchr(t->name, '/') == NULL)
        return 0;
    for (size_t i = 0; i < COUNT(tags); i++)
        if (strncmp(t->name, tags[i].prefix, strlen(tags[i].prefix)) == 0)
            return set_kind(t, tags[i].kind, strlen(tags[i].kind), e);
    t->kind = TP_TARGET_ANY;
    return 0;
}

/* The next blank-separated word of *p, without its quotes and backslashes, cut to what `word` holds. */
static size_t next_word(const char **p, const char *end, char *word, size_t cap)
{
    const char *s = *p;
    size_t n = 0;
    char quote = '\0';
    while (s < end && (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r'))
        s++;
    for (; s < end; s++) {
        char c = *s;
        if (quote == '\0' && (c == ' ' || c == '\t' || c == '\n' || c == '\r'))
            break;
        if (c == quote && quote != '\0') {
            quote = '\0';
            continue;
        }
        if (quote == '\0' && (c == '"' || c == '\'')) {
            quote = c;
            continue;
        }
        if (c == '\\' && s + 1 < end)
            c = *++s;
        if (n < cap)
            word[n++] = c;
    }
    *p = s;
    return n;
}

static int parse_flat(const char *s, size_t n, struct tp_target *t, struct tp_err *e)
{
    const char *p = s, *end = s + n;
    char word[256], name[256];
    size_t name_n = 0, cap;
    size_t w = next_word(&p, end, word, sizeof word);
    int rc = set_kind(t, word, w > 0 && word[0] == '-' ? 0 : w, e);
    if (rc != 0)
        return rc;
    while ((w = next_word(&p, end, word, sizeof word)) > 0) {
        if (word[0] != '-') { /* the value of "-name value" */
            char *f = field(t, name, name_n, &cap);
            if (f != NULL && f != t->name)
                put(f, cap, word, w);
            name_n = 0;
            continue;
        }
        size_t from = w > 1 && word[1] == '-' ? 2 : 1;
        const char *eq = memchr(word + from, '=', w - from);
        name_n = (eq != NULL ? (size_t)(eq - word) : w) - from;
        memcpy(name, word + from, name_n);
        if (eq == NULL)
            continue;
        char *f = field(t, name, name_n, &cap);
        if (f != NULL && f != t->name)
            put(f, cap, eq + 1, w - (size_t)(eq + 1 - word));
        name_n = 0;
    }
    return 0;
}

static int parse_json(const char *s, size_t n, struct tp_target *t, struct tp_err *e)
{
    struct tp_json j;
    struct tp_json_text text;
    char value[256];
    bool has_kind = false;
    int event, rc;
    tp_json_init(&j, s, n, TARGET_DEPTH);
    tp_json_next(&j, &text); /* the brace */
    while ((event = tp_json_next(&j, &text)) == TP_JSON_KEY) {
        struct tp_json_text key = text;
        char name[64];
        size_t cap, name_n = key.n <= sizeof name ? tp_json_unescape(key.s, key.n, name) : 0;
        j.p = tp_json_ws(j.p, j.end);
        if (j.p == j.end || *j.p != '"') {
            if (tp_json_skip(&j) < 0)
                break;
            continue;
        }
        if (tp_json_next(&j, &text) < 0)
            break;
        char *f = field(t, name, name_n, &cap);
        if (f == NULL || text.n > sizeof value)
            continue;
        size_t value_n = tp_json_unescape(text.s, text.n, value);
        if (f != t->name) {
            put(f, cap, value, value_n);
            continue;
        }
        rc = set_kind(t, value, value_n, e);
        if (rc != 0)
            return rc;
        has_kind = true;
    }
    if (j.code != TP_OK || tp_json_finish(&j) != 0)
        return tp_fail(e, TP_E_BAD_TASK, "the target is malformed JSON at byte %td: %s", j.p - j.begin, j.what);
    if (!has_kind)
        return tp_fail(e, TP_E_BAD_TASK, "the target has no \"kind\"; {\"kind\": \"llvm\", ...} does");
    return 0;
}

int tp_target_parse(const char *s, size_t n, struct tp_target *out, struct tp_err *e)
{
    struct tp_target t = {0};
    const char *p = tp_json_ws(s, s + n);
    bool json = p < s + n && *p == '{';
    int rc = json ? parse_json(p, n - (size_t)(p - s), &t, e) : parse_flat(s, n, &t, e);
    if (rc == 0)
        *out = t;
    return rc;
}
