/* Weights files: what they may hold, and reading: bytes -> one model (writing: weights_write.c, files on disk:
 * weights_file.c). Format and keys: docs/model.md "Weights files".
 *
 * Invariant: whatever the writer writes, the reader accepts, and reading then writing gives the same bytes. A file from
 * outside is data from an enemy: every length is checked against the bytes that are there before anything is allocated
 * for it. Stateless; any thread. */
#include "model/weights_internal.h"

#include "model/mem.h"

#include <endian.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const prefix[SETS] = {"", "fisher.", "anchor.", "start."};

const char *tm_tensor_name(int set, const struct tm_shape *shape, char name[TENSOR_NAME])
{
    snprintf(name, TENSOR_NAME, "%s%s", prefix[set], shape->name);
    return name;
}

void tm_besides_free(struct tm_besides *b)
{
    for (int i = 0; i < TM_BESIDES; i++)
        free(b->of[i]);
    *b = (struct tm_besides){0};
}

int tm_hyper_check(const struct tm_hyper *h, enum tclfeat_set s, struct tp_err *e)
{
#define X(field, least, most)                                                                                          \
    if (h->field < (least) || h->field > (most))                                                                       \
        return tp_fail(e, TP_E_BAD_WEIGHTS, "hyper-parameter %s is %d, accepted %d to %d", #field, h->field, (least),  \
                       (most));
    HYPER_FIELDS(X)
#undef X
    if (!tm_hyper_published(h))
        return tp_fail(e, TP_E_UNUSABLE, "a network with %s is an experiment: no weights file holds it",
                       h->more_blocks ? "several blocks" : "a pooling other than the sum");
    if (h->d_model % TM_LIMIT_UNIT || h->summary_width % TM_LIMIT_UNIT)
        return tp_fail(e, TP_E_BAD_WEIGHTS, "d_model and summary_width must be multiples of %d", (int)TM_LIMIT_UNIT);
    if (h->features != tclfeat_cols(s))
        return tp_fail(e, TP_E_BAD_WEIGHTS, "features is %d, but %s has %d columns", h->features, tclfeat_version(s),
                       tclfeat_cols(s));
    if (h->summary != 0 && h->summary != tclfeat_summary_cols(s))
        return tp_fail(e, TP_E_BAD_WEIGHTS, "summary is %d, but %s has %d columns", h->summary, tclfeat_version(s),
                       tclfeat_summary_cols(s));
    size_t n = tm_parameter_count(h);
    if (n > TM_MAX_PARAMETERS)
        return tp_fail(e, TP_E_BAD_WEIGHTS, "%zu parameters, at most %d", n, (int)TM_MAX_PARAMETERS);
    return 0;
}

bool tm_calibration_ok(const struct tm_model *m)
{
#define X(key, field)                                                                                                  \
    if (!isfinite(m->field))                                                                                           \
        return false;
    CALIBRATION_FIELDS(X)
    LATENCY_FIELDS(X)
#undef X
    return m->calib_a > 0.0 && m->latency_std >= 0.0 && m->known_std >= 0.0 && m->known_slope > 0.0;
}

int tm_values_check(const struct tm_model *m, const float *w, int set, struct tp_err *e)
{
    for (int t = 0; t < TM_TENSORS; t++)
        for (size_t i = 0; i < m->shape[t].size; i++)
            if (!isfinite(w[m->shape[t].offset + i]))
                return tp_fail(e, TP_E_BAD_WEIGHTS, "tensor \"%s%s\" holds a value that is not finite", prefix[set],
                               m->shape[t].name);
    return 0;
}

/* --- provenance ------------------------------------------------------------------------------------------------- */

static bool identifier_ok(const char *s)
{
    return (!s[0] || !strchr("._-", s[0])) && !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789._-")];
}

static bool object_text_ok(const char *s)
{
    json_t *j = json_loads(s, JSON_REJECT_DUPLICATES, NULL);
    bool ok = json_is_object(j);
    json_decref(j);
    return ok;
}

int tm_provenance_check(const struct tm_provenance *p, struct tp_err *e)
{
#define X(field)                                                                                                       \
    if (!memchr(p->field, '\0', sizeof p->field))                                                                      \
        return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata %s is not terminated", #field);
    TEXT_FIELDS(X)
#undef X
#define X(field)                                                                                                       \
    if (p->field < 0)                                                                                                  \
        return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata %s is negative", #field);
    COUNT_FIELDS(X)
#undef X
    if (p->role[0] && strcmp(p->role, "ac") != 0 && strcmp(p->role, "kb") != 0)
        return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata role is neither \"ac\" nor \"kb\"");
    if (p->kind[0] && strcmp(p->kind, "cpu") != 0 && strcmp(p->kind, "gpu") != 0)
        return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata kind is neither \"cpu\" nor \"gpu\"");
    if (!identifier_ok(p->owner))
        return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata owner is not an identifier ([a-z0-9][a-z0-9._-]{0,62})");
    if (p->created[strspn(p->created, "0123456789-:.+TZ")])
        return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata created is not an RFC 3339 time");
    if ((p->metrics[0] && !object_text_ok(p->metrics)) || (p->training[0] && !object_text_ok(p->training)))
        return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata metrics and training are texts of JSON objects");
    if (p->n_parents < 0 || p->n_parents > (int)(sizeof p->parents / sizeof p->parents[0]))
        return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata parents: %d of them, at most 8", p->n_parents);
    for (int i = 0; i < p->n_parents; i++)
        if (p->parents[i] < 0)
            return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata parents: negative id");
    return 0;
}

/* --- reader ------------------------------------------------------------------------------------------------------ */

static const char *text_of(const json_t *meta, const char *key)
{
    return json_string_value(json_object_get(meta, key));
}

/* Decimal digits only, within [0, limit]. */
static bool parse_count(const char *s, uint64_t limit, uint64_t *v)
{
    size_t n = strlen(s);
    uint64_t sum = 0;
    if (n == 0 || s[strspn(s, "0123456789")])
        return false;
    for (; *s; s++)
        if (__builtin_mul_overflow(sum, UINT64_C(10), &sum) || __builtin_add_overflow(sum, (uint64_t)(*s - '0'), &sum))
            return false;
    *v = sum;
    return sum <= limit;
}

static int read_hyper(const json_t *meta, struct tm_hyper *h, struct tp_err *e)
{
    int rc = 0;
    const char *text = text_of(meta, "hyper");
    json_t *j = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!json_is_object(j))
        rc = tp_fail(e, TP_E_BAD_WEIGHTS, "metadata hyper is missing or not the text of a JSON object");
#define X(field, least, most)                                                                                          \
    if (rc == 0) {                                                                                                     \
        const json_t *v = json_object_get(j, #field);                                                                  \
        json_int_t i = json_integer_value(v);                                                                          \
        if (!json_is_integer(v) || i < (least) || i > (most))                                                          \
            rc = tp_fail(e, TP_E_BAD_WEIGHTS, "metadata hyper: %s must be an integer from %d to %d", #field, (least),  \
                         (most));                                                                                      \
        else                                                                                                           \
            h->field = (int)i;                                                                                         \
    }
    HYPER_FIELDS(X)
#undef X
    json_decref(j);
    return rc;
}

static int read_calibration(const json_t *meta, struct tm_model *m, struct tp_err *e)
{
    const char *text = text_of(meta, "calibration");
    if (!json_object_get(meta, "calibration"))
        return 0; /* made elsewhere: the identity of tm_model_new stays */
    json_t *j = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    bool ok = json_is_object(j);
#define X(key, field)                                                                                                  \
    if (ok) {                                                                                                          \
        const json_t *v = json_object_get(j, key);                                                                     \
        ok = json_is_number(v);                                                                                        \
        m->field = json_number_value(v);                                                                               \
    }
    CALIBRATION_FIELDS(X)
#undef X
#define X(key, field)                                                                                                  \
    if (ok && json_object_get(j, key)) {                                                                               \
        ok = json_is_number(json_object_get(j, key));                                                                  \
        m->field = json_number_value(json_object_get(j, key));                                                         \
    }
    LATENCY_FIELDS(X)
#undef X
    json_decref(j);
    if (!ok || !tm_calibration_ok(m))
        return tp_fail(e, TP_E_BAD_WEIGHTS,
                       "metadata calibration must hold finite a > 0, b, latency_shift, latency_std >= 0, and may hold "
                       "latency_tilt, known_slope > 0, known_std >= 0, known_tilt");
    return 0;
}

static int read_parents(const char *text, struct tm_provenance *p, struct tp_err *e)
{
    const size_t most = sizeof p->parents / sizeof p->parents[0];
    json_t *j = json_loads(text, 0, NULL);
    bool ok = json_is_array(j) && json_array_size(j) <= most;
    for (size_t i = 0; ok && i < json_array_size(j); i++) {
        const json_t *v = json_array_get(j, i);
        ok = json_is_integer(v) && json_integer_value(v) >= 0;
        p->parents[i] = json_integer_value(v);
        p->n_parents = (int)i + 1;
    }
    json_decref(j);
    return ok ? 0
              : tp_fail(e, TP_E_BAD_WEIGHTS, "metadata parents must be the text of an array of at most %zu ids", most);
}

static int read_provenance(const json_t *meta, struct tm_provenance *p, struct tp_err *e)
{
    const char *s;
    uint64_t v;
    memset(p, 0, sizeof *p);
#define X(field)                                                                                                       \
    if ((s = text_of(meta, #field))) {                                                                                 \
        size_t n = strlen(s);                                                                                          \
        if (n >= sizeof p->field)                                                                                      \
            return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata %s is longer than %zu bytes", #field, sizeof p->field - 1);  \
        memcpy(p->field, s, n);                                                                                        \
    }
    TEXT_FIELDS(X)
#undef X
#define X(field)                                                                                                       \
    if ((s = text_of(meta, #field))) {                                                                                 \
        if (!parse_count(s, INT64_MAX, &v))                                                                            \
            return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata %s is not a decimal count", #field);                         \
        p->field = (int64_t)v;                                                                                         \
    }
    COUNT_FIELDS(X)
#undef X
    if ((s = text_of(meta, "seed")) && !parse_count(s, UINT64_MAX, &p->seed))
        return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata seed is not a decimal count");
    if ((s = text_of(meta, "parents"))) {
        int rc = read_parents(s, p, e);
        if (rc)
            return rc;
    }
    return tm_provenance_check(p, e);
}

static int read_metadata(json_t *meta, enum tclfeat_set *set, struct tm_hyper *h, struct tm_provenance *p,
                         struct tp_err *e)
{
    const char *key, *s;
    json_t *value;
    if (!json_is_object(meta))
        return tp_fail(e, TP_E_BAD_WEIGHTS, "header has no __metadata__ object");
    json_object_foreach(meta, key, value)
    {
        if (!json_is_string(value))
            return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata %.64s is not a string", key);
    }
    s = text_of(meta, "format");
    if (!s || strcmp(s, FORMAT_NAME) != 0)
        return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata format is not \"" FORMAT_NAME "\"");
    s = text_of(meta, "features_version");
    if (!s)
        return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata features_version is missing");
    int known = tclfeat_by_version(s);
    if (known < 0)
        return tp_fail(e, TP_E_FEATURES_MISMATCH, "features version \"%.64s\" is none of those built in", s);
    *set = (enum tclfeat_set)known;
    s = text_of(meta, "features_crc32");
    if (!s || strlen(s) != 8 || s[strspn(s, "0123456789abcdef")])
        return tp_fail(e, TP_E_BAD_WEIGHTS, "metadata features_crc32 is not 8 lower-case hex digits");
    if (strtoul(s, NULL, 16) != tclfeat_crc(*set))
        return tp_fail(e, TP_E_FEATURES_MISMATCH, "tables of %s have CRC %08" PRIx32 " here, %s in the file",
                       tclfeat_version(*set), tclfeat_crc(*set), s);
    int rc = read_hyper(meta, h, e);
    if (rc == 0)
        rc = tm_hyper_check(h, *set, e);
    if (rc == 0)
        rc = read_provenance(meta, p, e);
    return rc;
}

/* Where one tensor's bytes lie, from the start of the data. */
struct span {
    size_t begin, end;
};

static int read_span(const json_t *t, const struct tm_shape *shape, const char *name, size_t data, struct span *out,
                     struct tp_err *e)
{
    const json_t *dims = json_object_get(t, "shape"), *offsets = json_object_get(t, "data_offsets");
    const char *dtype = json_string_value(json_object_get(t, "dtype"));
    if (json_object_size(t) != 3 || !dtype || !json_is_array(dims) || !json_is_array(offsets) ||
        json_array_size(offsets) != 2)
        return tp_fail(e, TP_E_BAD_WEIGHTS, "tensor \"%s\" must have dtype, shape and data_offsets alone", name);
    if (strcmp(dtype, "F32") != 0)
        return tp_fail(e, TP_E_BAD_WEIGHTS, "tensor \"%s\": dtype is not F32", name);
    bool same = json_array_size(dims) == (size_t)shape->n_dims;
    for (size_t d = 0; same && d < (size_t)shape->n_dims; d++) {
        const json_t *v = json_array_get(dims, d);
        same = json_is_integer(v) && json_integer_value(v) == shape->dim[d];
    }
    if (!same)
        return tp_fail(e, TP_E_BAD_WEIGHTS, "tensor \"%s\": shape does not follow from the hyper-parameters", name);
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    json_int_t from = json_integer_value(begin), to = json_integer_value(end);
    if (!json_is_integer(begin) || !json_is_integer(end) || from < 0 || to < from || (uint64_t)to > data ||
        (uint64_t)(to - from) != 4 * shape->size)
        return tp_fail(e, TP_E_BAD_WEIGHTS, "tensor \"%s\": data_offsets do not span %zu bytes of the data", name,
                       4 * shape->size);
    *out = (struct span){(size_t)from, (size_t)to};
    return 0;
}

/* Every tensor of a set once. *n, *bytes: tensors and bytes read are added. */
static int read_set(const json_t *header, const struct tm_shape *shape, int set, size_t data,
                    struct span span[TM_TENSORS], size_t *n, size_t *bytes, struct tp_err *e)
{
    for (int t = 0; t < TM_TENSORS; t++) {
        char name[TENSOR_NAME];
        if (shape[t].size == 0)
            continue;
        const json_t *j = json_object_get(header, tm_tensor_name(set, &shape[t], name));
        if (!json_is_object(j))
            return tp_fail(e, TP_E_BAD_WEIGHTS, "tensor \"%s\" is missing", name);
        int rc = read_span(j, &shape[t], name, data, &span[t], e);
        if (rc)
            return rc;
        ++*n;
        *bytes += 4 * shape[t].size;
    }
    return 0;
}

/* A set stands beside the weights when the header has its first tensor. */
static bool has_set(const json_t *header, const struct tm_shape *shape, int set)
{
    char name[TENSOR_NAME];
    return set == 0 || json_object_get(header, tm_tensor_name(set, &shape[0], name)) != NULL;
}

/* Whole sets, nothing else, and together exactly the data. Sizes are right already, so it is enough that each tensor
 * begins where another ends, down to 0: no two can then overlap without leaving a hole. */
static int read_spans(const json_t *header, const struct tm_shape *shape, size_t data,
                      struct span span[SETS][TM_TENSORS], struct tp_err *e)
{
    size_t wanted = 1, sum = 0; /* 1: __metadata__ */
    for (int set = 0; set < SETS; set++) {
        int rc = has_set(header, shape, set) ? read_set(header, shape, set, data, span[set], &wanted, &sum, e) : 0;
        if (rc)
            return rc;
    }
    if (json_object_size(header) != wanted)
        return tp_fail(e, TP_E_BAD_WEIGHTS, "header holds tensors that the model does not have");
    if (sum != data)
        return tp_fail(e, TP_E_BAD_WEIGHTS, "%zu bytes of data, %zu expected", data, sum);
    size_t at = 0;
    while (at < data) {
        const struct span *s = &span[0][0], *const end = s + SETS * TM_TENSORS;
        while (s < end && !(s->end > s->begin && s->begin == at))
            s++;
        if (s == end)
            return tp_fail(e, TP_E_BAD_WEIGHTS, "tensors overlap or leave a hole at byte %zu of the data", at);
        at = s->end;
    }
    return 0;
}

static int read_values(const struct tm_model *m, int set, float *to, const unsigned char *data, const struct span *span,
                       struct tp_err *e)
{
    for (int t = 0; t < TM_TENSORS; t++) {
        float *w = to + m->shape[t].offset;
        for (size_t i = 0; i < m->shape[t].size; i++) {
            uint32_t bits;
            memcpy(&bits, data + span[t].begin + 4 * i, 4);
            bits = le32toh(bits);
            memcpy(&w[i], &bits, 4);
        }
    }
    return tm_values_check(m, to, set, e);
}

/* The weights into m, what stands beside them into b. */
static int read_sets(const json_t *header, struct tm_model *m, struct tm_besides *b, const unsigned char *data,
                     struct span span[SETS][TM_TENSORS], struct tp_err *e)
{
    int rc = read_values(m, 0, m->w, data, span[0], e);
    for (int set = 1; set < SETS && rc == 0; set++) {
        if (!has_set(header, m->shape, set))
            continue;
        if (!(b->of[set - 1] = tm_alloc(m->n, sizeof *b->of[0])))
            return tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
        rc = read_values(m, set, b->of[set - 1], data, span[set], e);
    }
    return rc;
}

int tm_weights_read(const void *bytes, size_t n, struct tm_model **m, struct tm_provenance *p, struct tp_err *e)
{
    return tm_weights_read_beside(bytes, n, m, NULL, p, e);
}

int tm_weights_read_beside(const void *bytes, size_t n, struct tm_model **m, struct tm_besides *b,
                           struct tm_provenance *p, struct tp_err *e)
{
    int rc;
    const unsigned char *file = bytes;
    json_t *header = NULL;
    struct tm_model *model = NULL;
    struct tm_provenance provenance;
    struct tm_hyper h = {0};
    enum tclfeat_set set = TCLFEAT_TCLF_1;
    struct span span[SETS][TM_TENSORS] = {{{0}}};
    struct tm_besides beside = {0};
    uint64_t length = 0;

    if (n > TM_WEIGHTS_MAX)
        return tp_fail(e, TP_E_BAD_WEIGHTS, "weights file of %zu bytes, at most %d", n, (int)TM_WEIGHTS_MAX);
    if (n >= LENGTH_BYTES) {
        memcpy(&length, file, sizeof length);
        length = le64toh(length);
    }
    if (n < LENGTH_BYTES || length > HEADER_MAX || length > n - LENGTH_BYTES || length < 2 || file[LENGTH_BYTES] != '{')
        return tp_fail(e, TP_E_BAD_WEIGHTS, "not a safetensors file, or its header exceeds %d bytes", (int)HEADER_MAX);

    json_error_t why;
    header = json_loadb((const char *)file + LENGTH_BYTES, (size_t)length, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(header)) {
        rc = tp_fail(e, TP_E_BAD_WEIGHTS, "header is not JSON: %.120s", why.text);
        goto out;
    }
    rc = read_metadata(json_object_get(header, "__metadata__"), &set, &h, &provenance, e);
    if (rc)
        goto out;
    model = tm_model_new(set, &h, 0);
    if (!model) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
        goto out;
    }
    const size_t data = n - LENGTH_BYTES - (size_t)length;
    rc = read_spans(header, model->shape, data, span, e);
    if (rc == 0)
        rc = read_sets(header, model, &beside, file + LENGTH_BYTES + length, span, e);
    if (rc == 0)
        rc = read_calibration(json_object_get(header, "__metadata__"), model, e);
    if (rc)
        goto out;
    *m = model;
    model = NULL;
    if (p)
        *p = provenance;
    if (b) {
        *b = beside;
        beside = (struct tm_besides){0};
    }
out:
    tm_besides_free(&beside);
    tm_model_free(model);
    json_decref(header);
    return rc;
}
