/* Writing weights files: one model -> bytes (files on disk: weights_file.c). Format and keys: docs/model.md "Weights
 * files".
 *
 * Invariant: whatever is written, the reader (weights.c) accepts: the checks are the same functions. Stateless; any
 * thread. */
#include "model/weights_internal.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put_pair(struct tp_buf *b, const char *key, const char *value)
{
    tp_buf_putc(b, ',');
    tp_buf_json_str(b, key, strlen(key));
    tp_buf_putc(b, ':');
    tp_buf_json_str(b, value, strlen(value));
}

/* Adds `"key":"<text>"` where the text was printed into *text, and empties it. */
static void put_text(struct tp_buf *b, const char *key, struct tp_buf *text)
{
    tp_buf_putc(text, '\0');
    if (text->oom)
        b->oom = true;
    else
        put_pair(b, key, text->p);
    text->n = 0;
}

static void put_metadata(struct tp_buf *b, const struct tm_model *m, const struct tm_provenance *p)
{
    struct tp_buf text = {0};
    tp_buf_puts(b, "{\"__metadata__\":{\"format\":\"" FORMAT_NAME "\"");
    put_pair(b, "features_version", tclfeat_version(m->features));
    tp_buf_printf(b, ",\"features_crc32\":\"%08" PRIx32 "\"", tclfeat_crc(m->features));
    char sep = '{';
#define X(field, least, most)                                                                                          \
    tp_buf_printf(&text, "%c\"%s\":%d", sep, #field, m->h.field);                                                      \
    sep = ',';
    HYPER_FIELDS(X)
#undef X
    tp_buf_putc(&text, '}');
    put_text(b, "hyper", &text);
    sep = '{';
#define X(key, field)                                                                                                  \
    tp_buf_printf(&text, "%c\"%s\":", sep, key);                                                                       \
    tp_buf_json_num(&text, m->field, 17);                                                                              \
    sep = ',';
    CALIBRATION_FIELDS(X)
    LATENCY_FIELDS(X)
#undef X
    tp_buf_putc(&text, '}');
    put_text(b, "calibration", &text);
#define X(field)                                                                                                       \
    if (p->field[0] || strcmp(#field, "training") != 0) /* the newest: files without it stay what they were */         \
        put_pair(b, #field, p->field);
    TEXT_FIELDS(X)
#undef X
#define X(field) tp_buf_printf(b, ",\"%s\":\"%" PRId64 "\"", #field, p->field);
    COUNT_FIELDS(X)
#undef X
    tp_buf_printf(b, ",\"seed\":\"%" PRIu64 "\"", p->seed);
    tp_buf_putc(&text, '[');
    for (int i = 0; i < p->n_parents; i++)
        tp_buf_printf(&text, "%s%" PRId64, i ? "," : "", p->parents[i]);
    tp_buf_putc(&text, ']');
    put_text(b, "parents", &text);
    tp_buf_putc(b, '}');
    tp_buf_free(&text);
}

/* Returns where the next set begins. */
static size_t put_tensors(struct tp_buf *b, const struct tm_shape *shape, int set, size_t at)
{
    for (int t = 0; t < TM_TENSORS; t++) {
        char name[TENSOR_NAME];
        if (shape[t].size == 0)
            continue;
        tp_buf_printf(b, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[", tm_tensor_name(set, &shape[t], name));
        for (int d = 0; d < shape[t].n_dims; d++)
            tp_buf_printf(b, "%s%d", d ? "," : "", shape[t].dim[d]);
        tp_buf_printf(b, "],\"data_offsets\":[%zu,%zu]}", at, at + 4 * shape[t].size);
        at += 4 * shape[t].size;
    }
    return at;
}

/* Values of a set, in the layout of the weights; NULL: the file does not have it. */
static const float *values_of(const struct tm_model *m, const struct tm_besides *b, int set)
{
    return set == 0 ? m->w : b ? b->of[set - 1] : NULL;
}

static char *put_values(const struct tm_model *m, const float *w, char *dst)
{
    for (int t = 0; t < TM_TENSORS; t++) {
        for (size_t i = 0; i < m->shape[t].size; i++, dst += 4) {
            uint32_t bits;
            memcpy(&bits, &w[m->shape[t].offset + i], 4);
            bits = htole32(bits);
            memcpy(dst, &bits, 4);
        }
    }
    return dst;
}

int tm_weights_write(const struct tm_model *m, const struct tm_provenance *p, struct tp_buf *out, struct tp_err *e)
{
    return tm_weights_write_beside(m, NULL, p, out, e);
}

int tm_weights_write_beside(const struct tm_model *m, const struct tm_besides *b, const struct tm_provenance *p,
                            struct tp_buf *out, struct tp_err *e)
{
    struct tp_buf head = {0};
    size_t data = 0;
    int rc = tm_hyper_check(&m->h, m->features, e);
    if (rc == 0)
        rc = tm_provenance_check(p, e);
    if (rc == 0 && !tm_calibration_ok(m))
        rc = tp_fail(e, TP_E_BAD_WEIGHTS, "calibration out of range");
    for (int set = 0; set < SETS && rc == 0; set++)
        if (values_of(m, b, set))
            rc = tm_values_check(m, values_of(m, b, set), set, e);
    if (rc)
        goto out;

    put_metadata(&head, m, p);
    for (int set = 0; set < SETS; set++)
        if (values_of(m, b, set))
            data = put_tensors(&head, m->shape, set, data);
    tp_buf_putc(&head, '}');
    while (head.n % 8 && !head.oom)
        tp_buf_putc(&head, ' ');
    size_t total = LENGTH_BYTES + head.n + data;
    char *dst = head.oom ? NULL : tp_buf_grow(out, total);
    if (!dst) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a weights file");
        goto out;
    }
    uint64_t length = htole64((uint64_t)head.n);
    memcpy(dst, &length, sizeof length);
    memcpy(dst + LENGTH_BYTES, head.p, head.n);
    dst += LENGTH_BYTES + head.n;
    for (int set = 0; set < SETS; set++)
        if (values_of(m, b, set))
            dst = put_values(m, values_of(m, b, set), dst);
    out->n += total;
out:
    tp_buf_free(&head);
    return rc;
}
