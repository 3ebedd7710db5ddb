/* Kept runs: one small JSON file each, DIR/<variant>.<seed>.<digest of everything it depends on>.json. */
#include "lab/ablate.h"
#include "lab/cli.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const char *const figure_name[TL_OUTCOME_N] = {
#define X(field, title, format) #field,
    TL_OUTCOME_FIGURES
#undef X
};

/* What a run is, in one line. */
static void identity(struct tp_buf *b, const char *settings, int variant)
{
    tp_buf_printf(b, "%s; %s", settings, tl_variants[variant].change);
    tp_buf_putc(b, '\0');
}

static void path_of(struct tp_buf *b, const char *dir, const struct tp_buf *id, int variant, uint64_t seed)
{
    tp_buf_printf(b, "%s/", dir);
    for (const char *s = tl_variants[variant].name; *s; s++)
        tp_buf_putc(b, isalnum((unsigned char)*s) || *s == '_' ? *s : '-');
    tp_buf_printf(b, ".%" PRIu64 ".%08lx.json", seed, crc32(0, (const Bytef *)id->p, (uInt)id->n));
    tp_buf_putc(b, '\0');
}

static double number(const json_t *j)
{
    return json_is_number(j) ? json_number_value(j) : NAN;
}

/* Into r, whose figures and tasks are complete or not there. */
static bool parse(const json_t *j, const char *id, struct tl_outcome *r)
{
    const char *text = json_string_value(json_object_get(j, "settings"));
    const json_t *tasks[TL_OUTCOME_BY_TASK];
    if (text == NULL || strcmp(text, id) != 0)
        return false;
    for (int i = 0; i < TL_OUTCOME_N; i++)
        r->figure[i] = number(json_object_get(j, figure_name[i]));
    const json_t *by_task = json_object_get(j, "by_task");
    for (int i = 0; i < TL_OUTCOME_BY_TASK; i++) {
        tasks[i] = json_object_get(by_task, figure_name[i]);
        if (json_array_size(tasks[i]) == 0 || json_array_size(tasks[i]) != json_array_size(tasks[0]))
            return false;
    }
    r->n = (uint32_t)json_array_size(tasks[0]);
    for (int i = 0; i < TL_OUTCOME_BY_TASK; i++) {
        if (!(r->by_task[i] = malloc(r->n * sizeof *r->by_task[i])))
            return false;
        for (uint32_t t = 0; t < r->n; t++)
            r->by_task[i][t] = number(json_array_get(tasks[i], t));
    }
    return true;
}

bool tl_outcome_load(const char *dir, const char *settings, int variant, uint64_t seed, struct tl_outcome *r)
{
    struct tp_buf id = {0}, path = {0};
    json_t *j = NULL;
    identity(&id, settings, variant);
    path_of(&path, dir, &id, variant, seed);
    if (!id.oom && !path.oom)
        j = json_load_file(path.p, 0, NULL);
    *r = (struct tl_outcome){0};
    bool ok = j && parse(j, id.p, r);
    if (!ok)
        tl_outcome_free(r);
    json_decref(j);
    tp_buf_free(&id);
    tp_buf_free(&path);
    return ok;
}

static void print(struct tp_buf *b, const struct tp_buf *id, const struct tl_outcome *r)
{
    tp_buf_puts(b, "{\"settings\": ");
    tp_buf_json_str(b, id->p, id->n - 1);
    for (int i = 0; i < TL_OUTCOME_N; i++) {
        tp_buf_printf(b, ", \"%s\": ", figure_name[i]);
        tp_buf_json_num(b, r->figure[i], 9);
    }
    tp_buf_puts(b, ", \"by_task\": {");
    for (int i = 0; i < TL_OUTCOME_BY_TASK; i++) {
        tp_buf_printf(b, "%s\"%s\": [", i ? ", " : "", figure_name[i]);
        for (uint32_t t = 0; t < r->n; t++) {
            tp_buf_puts(b, t ? ", " : "");
            tp_buf_json_num(b, r->by_task[i][t], 9);
        }
        tp_buf_putc(b, ']');
    }
    tp_buf_puts(b, "}}\n");
}

int tl_outcome_save(const char *dir, const char *settings, int variant, uint64_t seed, const struct tl_outcome *r,
                    struct tp_err *e)
{
    struct tp_buf id = {0}, path = {0}, text = {0};
    int rc;
    identity(&id, settings, variant);
    path_of(&path, dir, &id, variant, seed);
    if (!id.oom)
        print(&text, &id, r);
    rc = id.oom || path.oom ? tp_fail(e, TP_E_NO_MEMORY, "no memory for the text of a run")
                            : tl_write_file(path.p, &text, e);
    tp_buf_free(&id);
    tp_buf_free(&path);
    tp_buf_free(&text);
    return rc;
}
