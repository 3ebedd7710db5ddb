/* Finished cells of `lab rdu` on disk: one JSON object a file. */
#include "lab/cli.h"
#include "lab/rdu.h"

#include <jansson.h>
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

int tl_rdu_cell_read(const char *path, const char *settings, struct tl_rdu_cell *c)
{
    json_t *o = access(path, R_OK) == 0 ? json_load_file(path, 0, NULL) : NULL;
    const char *made_with = json_string_value(json_object_get(o, "settings"));
    if (!made_with || strcmp(made_with, settings) != 0) {
        json_decref(o);
        return 0;
    }
    struct tl_rdu_cell new = {.n = (uint32_t)json_array_size(json_object_get(o, "pairwise")),
                              .chosen = (uint32_t)tl_get_number(o, "chosen"),
                              .epochs = (uint32_t)tl_get_number(o, "epochs"),
                              .steps = (uint64_t)tl_get_number(o, "steps"),
                              .select_seconds = tl_get_number(o, "select_seconds"),
                              .train_seconds = tl_get_number(o, "train_seconds"),
                              .select_bytes = tl_get_number(o, "select_bytes")};
    new.top1 = tl_get_array(o, "top1", new.n);
    new.top5 = tl_get_array(o, "top5", new.n);
    new.pairwise = tl_get_array(o, "pairwise", new.n);
    json_decref(o);
    if (!new.top1 || !new.top5 || !new.pairwise) {
        tl_rdu_cell_free(&new);
        return 0;
    }
    *c = new;
    return 1;
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
    tl_put_array(&b, ",\n ", "pairwise", c->pairwise, c->n);
    tl_put_array(&b, ",\n ", "top1", c->top1, c->n);
    tl_put_array(&b, ",\n ", "top5", c->top5, c->n);
    tp_buf_puts(&b, "}\n");
    int rc = tl_write_file(path, &b, e);
    tp_buf_free(&b);
    return rc;
}
