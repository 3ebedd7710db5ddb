#include "lab/cli.h"

#include "lab/split.h"
#include "model/mem.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_OPTIONS = 40, PATH_LENGTH = 4096 };

bool tl_cli_number(const char *command, const char *option, const char *text, double lo, double hi, double *out)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (errno || end == text || *end || !(v >= lo && v <= hi)) {
        fprintf(stderr, "lab %s: --%s %s: a number from %g to %g is accepted\n", command, option, text, lo, hi);
        return false;
    }
    *out = v;
    return true;
}

static bool take_number(const struct tl_cli *c, const struct tl_option *o, const char *text)
{
    double v;
    if (!tl_cli_number(c->command, o->name, text, o->lo, o->hi, &v))
        return false;
    if (o->kind == TL_INT)
        *(int *)o->to = (int)v;
    else if (o->kind == TL_U32)
        *(uint32_t *)o->to = (uint32_t)v;
    else if (o->kind == TL_U64)
        *(uint64_t *)o->to = (uint64_t)v;
    else
        *(double *)o->to = v;
    return true;
}

static bool take_choice(const struct tl_cli *c, const struct tl_option *o, const char *text)
{
    bool second = strcmp(text, o->second) == 0;
    if (!second && strcmp(text, o->first) != 0) {
        fprintf(stderr, "lab %s: --%s %s: %s and %s are accepted\n", c->command, o->name, text, o->first, o->second);
        return false;
    }
    *(bool *)o->to = second;
    return true;
}

static int take(const struct tl_cli *c, const struct tl_option *o, char *text)
{
    switch (o->kind) {
    case TL_FLAG:
        *(bool *)o->to = true;
        return TL_GO_ON;
    case TL_TEXT:
        *(const char **)o->to = text;
        return TL_GO_ON;
    case TL_CHOICE:
        return take_choice(c, o, text) ? TL_GO_ON : 2;
    case TL_CALL:
    case TL_DO:
        return o->call(o->to, text);
    default:
        return take_number(c, o, text) ? TL_GO_ON : 2;
    }
}

static int read_logs(struct tl_cli *c, const char *path)
{
    struct tp_err e;
    if (tl_corpus_read(c->corpus, path, &e) == 0)
        return TL_GO_ON;
    fprintf(stderr, "lab: %s\n", e.detail);
    return 1;
}

static int logs_option(void *to, char *text)
{
    struct tl_cli *c = to;
    c->logs = c->logs ? c->logs : text;
    return read_logs(c, text);
}

static int help(void *to, char *text)
{
    (void)text;
    fputs(((struct tl_cli *)to)->usage, stdout);
    return 0;
}

static int usage(const struct tl_cli *c)
{
    fputs(c->usage, stderr);
    return 2;
}

/* getopt's table of ours; values count from 1. */
static void translate(const struct tl_option *o, int n, struct option out[MAX_OPTIONS + 1])
{
    for (int i = 0; i < n; i++) {
        bool bare = o[i].kind == TL_FLAG || o[i].kind == TL_DO;
        out[i] = (struct option){o[i].name, bare ? no_argument : required_argument, NULL, i + 1};
    }
    out[n] = (struct option){0};
}

int tl_cli_read(struct tl_cli *c, int argc, char **argv, const struct tl_option *options, size_t n)
{
    const char *test = NULL;
    const struct tl_option common[] = {{.name = "logs", .kind = TL_CALL, .to = c, .call = logs_option},
                                       {.name = "test", .kind = TL_TEXT, .to = &test},
                                       {.name = "json", .kind = TL_FLAG, .to = &c->json},
                                       {.name = "help", .kind = TL_DO, .to = c, .call = help}};
    const size_t shared = sizeof common / sizeof *common;
    struct tl_option all[MAX_OPTIONS];
    struct option table[MAX_OPTIONS + 1];
    int opt, status;
    if (n + shared > MAX_OPTIONS || (c->corpus = tl_corpus_new()) == NULL)
        return 1;
    memcpy(all, common, sizeof common);
    memcpy(all + shared, options, n * sizeof *options);
    translate(all, (int)(n + shared), table);
    while ((opt = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (opt == '?')
            return usage(c);
        if ((status = take(c, &all[opt - 1], optarg)) != TL_GO_ON)
            return status;
    }
    if (c->own_logs)
        return test || c->logs || optind < argc ? usage(c) : TL_GO_ON;
    for (; optind < argc; optind++) /* --logs DIR FILE FILE */
        if ((status = read_logs(c, argv[optind])) != TL_GO_ON)
            return status;
    if ((test == NULL) != c->known || c->corpus->lines == 0)
        return usage(c);
    return test && tl_keys_read(test, &c->keys, &c->n_keys) ? 2 : TL_GO_ON;
}

void tl_cli_free(struct tl_cli *c)
{
    tl_keys_free(c->keys, c->n_keys);
    tl_corpus_free(c->corpus);
}

bool tl_listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = list; (at = strstr(at, name)); at++)
        if ((at == list || at[-1] == ',') && (at[n] == '\0' || at[n] == ','))
            return true;
    return false;
}

int tl_progress_lines(void *arg, const struct tm_progress *p)
{
    int *last = arg;
    if (p->epoch != *last)
        fprintf(stderr, "  epoch %2d/%d  loss %.4f  valid pairwise %.4f\n", p->epoch, p->epochs, p->loss,
                p->valid_pairwise);
    *last = p->epoch;
    return 0;
}

int tl_folder(const char *path, struct tp_err *e)
{
    char part[PATH_LENGTH];
    for (size_t i = 1; i < sizeof part; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        snprintf(part, i + 1, "%s", path);
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return tp_fail(e, TP_E_IO, "%s: %s", part, strerror(errno));
        if (path[i] == '\0')
            return 0;
    }
    return tp_fail(e, TP_E_IO, "the path of a folder has more than %d characters", PATH_LENGTH - 1);
}

int tl_write_file(const char *path, const struct tp_buf *b, struct tp_err *e)
{
    if (b->oom)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for what goes to %s", path);
    FILE *f = fopen(path, "wb");
    bool failed = f == NULL || fwrite(b->p, 1, b->n, f) != b->n;
    if (f && fclose(f))
        failed = true;
    return failed ? tp_fail(e, TP_E_IO, "%s: %s", path, strerror(errno)) : 0;
}

static int write_in(const char *dir, const char *stem, const char *suffix, const struct tp_buf *b, struct tp_err *e)
{
    char path[PATH_LENGTH];
    snprintf(path, sizeof path, "%s/%s.%s", dir, stem, suffix);
    return tl_write_file(path, b, e);
}

int tl_publish(const char *dir, const char *stem, const struct tp_buf *json, const struct tp_buf *markdown,
               bool print_json, struct tp_err *e)
{
    const struct tp_buf *b = print_json ? json : markdown;
    int rc = 0;
    if (dir && ((rc = write_in(dir, stem, "json", json, e)) || (rc = write_in(dir, stem, "md", markdown, e))))
        return rc;
    fwrite(b->p, 1, b->n, stdout);
    return 0;
}

void tl_put_number(struct tp_buf *b, const char *key, const char *suffix, double v)
{
    tp_buf_printf(b, ", \"%s%s\": ", key, suffix);
    tp_buf_json_num(b, v, 6);
}

void tl_put_array(struct tp_buf *b, const char *before, const char *key, const double *v, uint32_t n)
{
    tp_buf_printf(b, "%s\"%s\": [", before, key);
    for (uint32_t i = 0; i < n; i++) {
        tp_buf_puts(b, i ? ", " : "");
        tp_buf_json_num(b, v[i], 9); /* NaN: null */
    }
    tp_buf_puts(b, "]");
}

double tl_get_number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

double *tl_get_array(const json_t *o, const char *key, uint32_t n)
{
    const json_t *v = json_object_get(o, key);
    double *out = json_array_size(v) == n ? tm_alloc(n, sizeof *out) : NULL;
    for (uint32_t i = 0; out && i < n; i++) {
        const json_t *x = json_array_get(v, i);
        out[i] = json_is_number(x) ? json_number_value(x) : NAN;
    }
    return out;
}
