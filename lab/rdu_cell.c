/* Finished cells of `lab rdu` on disk: one JSON object a file. */
#include "lab/cli.h"
#include "lab/rdu.h"

#include "model/mem.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tl_rdu_cell_free(struct tl_rdu_cell *c)
{
    free(c->top1);
    free(c->top5);
    free(c->pairwise);
    *c = (struct tl_rdu_cell){0};
}

static double number(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

/* NULL: not there or no memory. */
static double *array(const json_t *o, const char *key, uint32_t n)
{
    const json_t *v = json_object_get(o, key);
    double *out = json_array_size(v) == n ? tm_alloc(n, sizeof *out) : NULL;
    for (uint32_t i = 0; out && i < n; i++) {
        const json_t *x = json_array_get(v, i);
        out[i] = json_is_number(x) ? json_number_value(x) : NAN;
    }
    return out;
}

int tl_rdu_cell_read(const char *path, const char *settings, struct tl_rdu_cell *c)
{
    json_t *o = access(path, R_OK) == 0 ? json_load_file(path, 0, NULL) : NULL;
    const char *made_with = json_string_value(json_object_get(o, "settings"));
    if (!made_with || strcmp(made_with, settings) != 0) {
        json_decref(o);
        return 0;
    }
    struct tl_rdu_cell new = {.n = (uint32_t)json_array_size(json_object_get(o, "pairwise")),
                              .chosen = (uint32_t)number(o, "chosen"),
                              .epochs = (uint32_t)number(o, "epochs"),
                              .steps = (uint64_t)number(o, "steps"),
                              .select_seconds = number(o, "select_seconds"),
                              .train_seconds = number(o, "train_seconds"),
                              .select_bytes = number(o, "select_bytes")};
    new.top1 = array(o, "top1", new.n);
    new.top5 = array(o, "top5", new.n);
    new.pairwise = array(o, "pairwise", new.n);
    json_decref(o);
    if (!new.top1 || !new.top5 || !new.pairwise) {
        tl_rdu_cell_free(&new);
        return 0;
    }
    *c = new;
    return 1;
}

static void put_array(struct tp_buf *b, const char *key, const double *v, uint32_t n)
{
    tp_buf_printf(b, ",\n \"%s\": [", key);
    for (uint32_t i = 0; i < n; i++) {
        tp_buf_puts(b, i ? ", " : "");
        tp_buf_json_num(b, v[i], 9); /* NaN: null */
    }
    tp_buf_puts(b, "]");
}

int tl_rdu_cell_write(const char *path, const char *settings, const struct tl_rdu_cell *c, struct tp_err *e)
{
    struct tp_buf b = {0};
    tp_buf_puts(&b, "{\"settings\": ");
    tp_buf_json_str(&b, settings, strlen(settings));
    tp_buf_printf(&b,
                  ",\n \"chosen\": %u, \"epochs\": %u, \"steps\": %llu, \"select_seconds\": %.6g, \"train_seconds\": "
                  "%.6g, \"select_bytes\": %.0f",
                  c->chosen, c->epochs, (unsigned long long)c->steps, c->select_seconds, c->train_seconds,
                  c->select_bytes);
    put_array(&b, "pairwise", c->pairwise, c->n);
    put_array(&b, "top1", c->top1, c->n);
    put_array(&b, "top5", c->top5, c->n);
    tp_buf_puts(&b, "}\n");
    int rc = tl_write_file(path, &b, e);
    tp_buf_free(&b);
    return rc;
}
