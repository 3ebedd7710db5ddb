/* Finished cells of `lab ckd` on disk: one JSON object a file. */
#include "lab/ckd.h"
#include "lab/cli.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUMBERS(X)                                                                                                     \
    X(programs)                                                                                                        \
    X(seconds)                                                                                                         \
    X(bytes)                                                                                                           \
    X(gate)                                                                                                            \
    X(gate_mean)                                                                                                       \
    X(gate_lower)                                                                                                      \
    X(phi_cl)                                                                                                          \
    X(phi_kd)                                                                                                          \
    X(activated)                                                                                                       \
    X(accepted)                                                                                                        \
    X(attempts)                                                                                                        \
    X(rival)                                                                                                           \
    X(peer)                                                                                                            \
    X(from_start)
#define ARRAYS(X)                                                                                                      \
    X(pairwise)                                                                                                        \
    X(top1)                                                                                                            \
    X(top5)

static void scores_free(struct tl_ckd_scores *s)
{
    free(s->pairwise);
    free(s->top1);
    free(s->top5);
    *s = (struct tl_ckd_scores){0};
}

void tl_ckd_cell_free(struct tl_ckd_cell *c)
{
    for (int role = 0; role < TL_CKD_ROLES; role++)
        for (int h = 0; h < TL_CKD_HARDWARE; h++)
            scores_free(&c->score[role][h]);
    *c = (struct tl_ckd_cell){0};
}

static bool read_scores(const json_t *o, struct tl_ckd_scores *s)
{
    s->n = (uint32_t)json_array_size(json_object_get(o, "pairwise"));
#define X(field) s->field = tl_get_array(o, #field, s->n);
    ARRAYS(X)
#undef X
    return s->pairwise && s->top1 && s->top5;
}

int tl_ckd_cell_read(const char *path, const char *settings, struct tl_ckd_cell *c)
{
    json_t *o = access(path, R_OK) == 0 ? json_load_file(path, 0, NULL) : NULL;
    const char *made_with = json_string_value(json_object_get(o, "settings"));
    struct tl_ckd_cell new = {.done = true};
    bool ok = made_with && strcmp(made_with, settings) == 0;
#define X(field) new.field = tl_get_number(o, #field);
    NUMBERS(X)
#undef X
    const json_t *scores = json_object_get(o, "scores");
    ok = ok && json_array_size(scores) == TL_CKD_ROLES * TL_CKD_HARDWARE;
    for (size_t i = 0; ok && i < TL_CKD_ROLES * TL_CKD_HARDWARE; i++)
        ok = read_scores(json_array_get(scores, i), &new.score[i / TL_CKD_HARDWARE][i % TL_CKD_HARDWARE]);
    json_decref(o);
    if (!ok) {
        tl_ckd_cell_free(&new);
        return 0;
    }
    *c = new;
    return 1;
}

int tl_ckd_cell_write(const char *path, const char *settings, const struct tl_ckd_cell *c, struct tp_err *e)
{
    struct tp_buf b = {0};
    tp_buf_puts(&b, "{\"settings\": ");
    tp_buf_json_str(&b, settings, strlen(settings));
#define X(field) tl_put_number(&b, #field, "", c->field);
    NUMBERS(X)
#undef X
    tp_buf_puts(&b, ",\n \"scores\": [");
    for (int i = 0; i < TL_CKD_ROLES * TL_CKD_HARDWARE; i++) {
        const struct tl_ckd_scores *s = &c->score[i / TL_CKD_HARDWARE][i % TL_CKD_HARDWARE];
        tp_buf_puts(&b, i ? ",\n  {" : "\n  {");
        tl_put_array(&b, "", "pairwise", s->pairwise, s->n);
        tl_put_array(&b, ", ", "top1", s->top1, s->n);
        tl_put_array(&b, ", ", "top5", s->top5, s->n);
        tp_buf_puts(&b, "}");
    }
    tp_buf_puts(&b, "]}\n");
    int rc = tl_write_file(path, &b, e);
    tp_buf_free(&b);
    return rc;
}
