/* Weights files: round trip, an independent reading of the bytes, refusal of everything that is not quite right,
 * publication. */
#include "model/weights.h"

#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct tm_hyper small(enum tclfeat_set s)
{
    struct tm_hyper h = tm_hyper_default(s);
    h.embed = 8;
    h.d_model = 16;
    h.d_state = 4;
    h.dt_rank = 2;
    h.summary_width = 16;
    h.head1 = 8;
    h.head2 = 4;
    return h;
}

static const struct tm_provenance provenance = {
    .model_id = 12,
    .role = "ac",
    .owner = "xeon-8272",
    .parents = {3, 9},
    .n_parents = 2,
    .records = 4321,
    .programs = 4000,
    .tasks = 17,
    .seed = UINT64_MAX,
    .created = "2024-06-07T08:09:10Z",
    .metrics = "{\"top1_mean\": 0.9, \"note\": \"\\u00e9\"}",
    .training = "{\"gate\": {\"decision\": \"warm\"}}",
};

static struct tm_model *make(const struct tm_hyper *h, enum tclfeat_set s)
{
    struct tm_model *m = tm_model_new(s, h, 7);
    ck_assert_ptr_nonnull(m);
    m->calib_a = 1.25;
    m->calib_b = -0.1;
    m->latency_shift = 1.0 / 3.0;
    m->latency_std = 0.11;
    m->latency_tilt = 1.5;
    m->known_slope = 0.85;
    m->known_std = 0.07;
    m->known_tilt = -0.5;
    return m;
}

static struct tp_buf written(const struct tm_model *m)
{
    struct tp_buf b = {0};
    struct tp_err e;
    ck_assert_int_eq(tm_weights_write(m, &provenance, &b, &e), 0);
    return b;
}

static uint64_t header_length(const struct tp_buf *b)
{
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--)
        n = n << 8 | (unsigned char)b->p[i];
    return n;
}

/* A copy of the file with a NUL behind it, so that its header can be searched as text. */
static char *header_text(const struct tp_buf *b)
{
    return strndup(b->p + 8, header_length(b));
}

static void same_model(const struct tm_model *a, const struct tm_model *b)
{
    ck_assert_mem_eq(&a->h, &b->h, sizeof a->h);
    ck_assert_int_eq(a->features, b->features);
    ck_assert_uint_eq(a->n, b->n);
    ck_assert_mem_eq(a->w, b->w, a->n * sizeof *a->w);
    ck_assert(a->calib_a == b->calib_a && a->calib_b == b->calib_b);
    ck_assert(a->latency_shift == b->latency_shift && a->latency_std == b->latency_std);
    ck_assert(a->latency_tilt == b->latency_tilt && a->known_slope == b->known_slope);
    ck_assert(a->known_std == b->known_std && a->known_tilt == b->known_tilt);
}

START_TEST(reading_gives_back_what_was_written)
{
    for (int s = 0; s < TCLFEAT_SETS; s++) {
        struct tm_hyper h = tm_hyper_default((enum tclfeat_set)s);
        struct tm_model *m = make(&h, (enum tclfeat_set)s), *back = NULL;
        struct tp_buf b = written(m);
        struct tm_provenance p;
        struct tp_err e;
        ck_assert_msg(tm_weights_read(b.p, b.n, &back, &p, &e) == 0, "%s", e.detail);
        same_model(m, back);
        ck_assert_mem_eq(p.parents, provenance.parents, sizeof p.parents);
        ck_assert_int_eq(p.n_parents, 2);
        ck_assert(p.model_id == 12 && p.records == 4321 && p.programs == 4000 && p.tasks == 17 && p.seed == UINT64_MAX);
        ck_assert_str_eq(p.role, provenance.role);
        ck_assert_str_eq(p.owner, provenance.owner);
        ck_assert_str_eq(p.created, provenance.created);
        ck_assert_str_eq(p.metrics, provenance.metrics);
        ck_assert_str_eq(p.training, provenance.training);
        struct tp_buf again = {0};
        ck_assert_int_eq(tm_weights_write(back, &p, &again, &e), 0);
        ck_assert_uint_eq(again.n, b.n);
        ck_assert_mem_eq(again.p, b.p, b.n);
        tp_buf_free(&again);
        tp_buf_free(&b);
        tm_model_free(back);
        tm_model_free(m);
    }
}
END_TEST

/* No code of the reader: the length word, the text of the header, the bytes of each tensor. */
START_TEST(the_bytes_are_safetensors)
{
    struct tm_hyper h = small(TCLFEAT_TCLF_1);
    struct tm_model *m = make(&h, TCLFEAT_TCLF_1);
    struct tp_buf b = written(m);
    uint64_t length = header_length(&b);
    ck_assert_uint_eq(length % 8, 0);
    ck_assert_uint_eq(8 + length + 4 * tm_parameter_count(&h), b.n);
    char *text = header_text(&b);
    ck_assert_int_eq(strncmp(text, "{\"__metadata__\":{", 17), 0);
    size_t at = 0;
    for (int t = 0; t < TM_TENSORS && m->shape[t].size; t++) {
        const struct tm_shape *s = &m->shape[t];
        char want[256], dims[64];
        if (s->n_dims == 1)
            snprintf(dims, sizeof dims, "%d", s->dim[0]);
        else if (s->n_dims == 2)
            snprintf(dims, sizeof dims, "%d,%d", s->dim[0], s->dim[1]);
        else
            snprintf(dims, sizeof dims, "%d,%d,%d", s->dim[0], s->dim[1], s->dim[2]);
        snprintf(want, sizeof want, "\"%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", s->name,
                 dims, at, at + 4 * s->size);
        ck_assert_msg(strstr(text, want) != NULL, "no %s", want);
        for (size_t i = 0; i < s->size; i++) {
            const unsigned char *q = (const unsigned char *)b.p + 8 + length + at + 4 * i;
            uint32_t bits = (uint32_t)q[0] | (uint32_t)q[1] << 8 | (uint32_t)q[2] << 16 | (uint32_t)q[3] << 24;
            float f;
            memcpy(&f, &bits, 4);
            ck_assert(f == m->w[s->offset + i]);
        }
        at += 4 * s->size;
    }
    free(text);
    tp_buf_free(&b);
    tm_model_free(m);
}
END_TEST

START_TEST(a_file_is_appended_behind_what_the_buffer_holds)
{
    struct tm_hyper h = small(TCLFEAT_TCLF_1);
    struct tm_model *m = make(&h, TCLFEAT_TCLF_1);
    struct tp_buf b = {0}, alone = written(m);
    tp_buf_puts(&b, "head");
    ck_assert_int_eq(tm_weights_write(m, &provenance, &b, NULL), 0);
    ck_assert_uint_eq(b.n, alone.n + 4);
    ck_assert_mem_eq(b.p + 4, alone.p, alone.n);
    tp_buf_free(&b);
    tp_buf_free(&alone);
    tm_model_free(m);
}
END_TEST

/* Replace the first `from` in the header by `to` of the same length, and expect `code`. */
static void refused(const struct tp_buf *good, const char *from, const char *to, int code)
{
    struct tm_model *m = (struct tm_model *)(uintptr_t)1; /* must stay as it is */
    struct tp_err e;
    char *text = header_text(good), *at = strstr(text, from);
    ck_assert_uint_eq(strlen(from), strlen(to));
    ck_assert_msg(at != NULL, "header has no %s", from);
    char *bytes = malloc(good->n);
    memcpy(bytes, good->p, good->n);
    memcpy(bytes + 8 + (at - text), to, strlen(to));
    int rc = tm_weights_read(bytes, good->n, &m, NULL, &e);
    ck_assert_msg(rc == -code, "%s -> %s gave %d", from, to, rc);
    ck_assert_int_eq(e.code, code);
    ck_assert_uint_ne(strlen(e.detail), 0);
    ck_assert_uint_eq((uintptr_t)m, 1);
    free(bytes);
    free(text);
}

START_TEST(refuses_a_header_that_is_not_quite_right)
{
    struct tm_hyper h = small(TCLFEAT_TCLF_1);
    struct tm_model *m = make(&h, TCLFEAT_TCLF_1);
    struct tp_buf b = written(m);
    char crc[9], other[9];
    snprintf(crc, sizeof crc, "%08x", (unsigned)tclfeat_crc(TCLFEAT_TCLF_1));
    snprintf(other, sizeof other, "%08x", (unsigned)tclfeat_crc(TCLFEAT_TCLF_1) ^ 1u);
    refused(&b, "\"tcld-1\"", "\"tcld-2\"", TP_E_BAD_WEIGHTS);
    refused(&b, "\"tclf-1\"", "\"tclf-9\"", TP_E_FEATURES_MISMATCH);
    refused(&b, crc, other, TP_E_FEATURES_MISMATCH);
    refused(&b, crc, "0x000000", TP_E_BAD_WEIGHTS);
    refused(&b, "\"tclf-1\"", "\"tlp-cp\"", TP_E_FEATURES_MISMATCH);
    refused(&b, "\"F32\"", "\"F16\"", TP_E_BAD_WEIGHTS);
    refused(&b, "\"embed.0.weight\"", "\"embed.9.weight\"", TP_E_BAD_WEIGHTS);
    refused(&b, "\"embed.0.bias\"", "\"embed.1.bias\"", TP_E_BAD_WEIGHTS); /* twice */
    refused(&b, "\"shape\":[8,64]", "\"shape\":[64,8]", TP_E_BAD_WEIGHTS);
    refused(&b, "\"data_offsets\":[0,2048]", "\"data_offsets\":[4,2052]", TP_E_BAD_WEIGHTS); /* overlap */
    refused(&b, "\"data_offsets\":[0,2048]", "\"data_offsets\":[0,2040]", TP_E_BAD_WEIGHTS);
    refused(&b, "\"data_offsets\":[0,2048]", "\"data_offsets\":[9,0000]", TP_E_BAD_WEIGHTS);
    refused(&b, "\"data_offsets\":[0,2048]", "\"data_offsets\":[-9,999]", TP_E_BAD_WEIGHTS);
    refused(&b, "\\\"embed\\\":8", "\\\"embed\\\":9", TP_E_BAD_WEIGHTS);
    refused(&b, "\\\"embed\\\":8", "\\\"embed\\\":1", TP_E_BAD_WEIGHTS);
    refused(&b, "\\\"d_state\\\":4", "\\\"d_state\\\":X", TP_E_BAD_WEIGHTS);
    refused(&b, "\\\"features\\\":64", "\\\"features\\\":63", TP_E_BAD_WEIGHTS);
    refused(&b, "\\\"a\\\":1.25", "\\\"a\\\":-1.2", TP_E_BAD_WEIGHTS);
    refused(&b, "\\\"b\\\":", "\\\"c\\\":", TP_E_BAD_WEIGHTS);
    refused(&b, "\"role\":\"ac\"", "\"role\":\"xx\"", TP_E_BAD_WEIGHTS);
    refused(&b, "\"xeon-8272\"", "\"Xeon/8272\"", TP_E_BAD_WEIGHTS);
    refused(&b, "\"records\":\"4321\"", "\"records\":\"-432\"", TP_E_BAD_WEIGHTS);
    refused(&b, "\"records\":\"4321\"", "\"records\":\"\xff\xff\xff\xff\"", TP_E_BAD_WEIGHTS);
    refused(&b, "\"records\":\"4321\"", "\"records\":  4321", TP_E_BAD_WEIGHTS);
    refused(&b, "\"[3,9]\"", "\"[3,X]\"", TP_E_BAD_WEIGHTS);
    refused(&b, "{\\\"gate\\\": {", "[\\\"gate\\\", {", TP_E_BAD_WEIGHTS); /* replies show it as it is */
    refused(&b, "\\\"warm\\\"}}", "\\\"warm\\\"}X", TP_E_BAD_WEIGHTS);
    refused(&b, "18446744073709551615", "18446744073709551616", TP_E_BAD_WEIGHTS);
    refused(&b, "__metadata__", "__metadataX_", TP_E_BAD_WEIGHTS);
    tp_buf_free(&b);
    tm_model_free(m);
}
END_TEST

START_TEST(refuses_every_truncation_and_any_extra_byte)
{
    struct tm_hyper h = small(TCLFEAT_TLP_CPU_1);
    struct tm_model *m = make(&h, TCLFEAT_TLP_CPU_1), *back = NULL;
    struct tp_buf b = written(m);
    for (size_t n = 0; n < b.n; n += n < 4096 ? 1 : 37) {
        char *cut = malloc(n ? n : 1); /* exact size: a sanitizer sees an over-read */
        memcpy(cut, b.p, n);
        ck_assert_int_eq(tm_weights_read(cut, n, &back, NULL, NULL), -TP_E_BAD_WEIGHTS);
        free(cut);
    }
    tp_buf_putc(&b, '\0');
    ck_assert_int_eq(tm_weights_read(b.p, b.n, &back, NULL, NULL), -TP_E_BAD_WEIGHTS);
    ck_assert_ptr_null(back);
    tp_buf_free(&b);
    tm_model_free(m);
}
END_TEST

/* Fixed seed: each single changed byte of the header is refused or read without harm. */
START_TEST(survives_changed_bytes)
{
    struct tm_hyper h = small(TCLFEAT_TCLF_1);
    struct tm_model *m = make(&h, TCLFEAT_TCLF_1);
    struct tp_buf b = written(m);
    struct tm_rng rng;
    tm_rng_seed(&rng, 1);
    uint64_t head = 8 + header_length(&b);
    for (int i = 0; i < 3000; i++) {
        uint32_t at = tm_rng_below(&rng, (uint32_t)head);
        char was = b.p[at];
        struct tm_model *back = NULL;
        b.p[at] = (char)tm_rng_next(&rng);
        int rc = tm_weights_read(b.p, b.n, &back, NULL, NULL);
        ck_assert(rc == 0 || rc == -TP_E_BAD_WEIGHTS || rc == -TP_E_FEATURES_MISMATCH);
        ck_assert_int_eq(rc == 0, back != NULL);
        tm_model_free(back);
        b.p[at] = was;
    }
    tp_buf_free(&b);
    tm_model_free(m);
}
END_TEST

START_TEST(refuses_lengths_that_promise_too_much)
{
    unsigned char bytes[32] = {0};
    struct tm_model *m = NULL;
    memset(bytes, 0xff, 8);
    bytes[8] = '{';
    ck_assert_int_eq(tm_weights_read(bytes, sizeof bytes, &m, NULL, NULL), -TP_E_BAD_WEIGHTS);
    ck_assert_int_eq(tm_weights_read(bytes, (size_t)TM_WEIGHTS_MAX + 1, &m, NULL, NULL), -TP_E_BAD_WEIGHTS);
    ck_assert_int_eq(tm_weights_read("", 0, &m, NULL, NULL), -TP_E_BAD_WEIGHTS);
}
END_TEST

START_TEST(values_that_are_not_finite_are_neither_written_nor_read)
{
    struct tm_hyper h = small(TCLFEAT_TCLF_1);
    struct tm_model *m = make(&h, TCLFEAT_TCLF_1), *back = NULL;
    struct tp_buf b = written(m);
    const uint32_t nan_bits = 0x7fc00000u;
    memcpy(b.p + b.n - 4, &nan_bits, 4);
    ck_assert_int_eq(tm_weights_read(b.p, b.n, &back, NULL, NULL), -TP_E_BAD_WEIGHTS);
    size_t before = b.n;
    m->w[m->shape[TM_T_D].offset] = INFINITY;
    ck_assert_int_eq(tm_weights_write(m, &provenance, &b, NULL), -TP_E_BAD_WEIGHTS);
    m->w[m->shape[TM_T_D].offset] = 1.0f;
    m->calib_a = NAN;
    ck_assert_int_eq(tm_weights_write(m, &provenance, &b, NULL), -TP_E_BAD_WEIGHTS);
    ck_assert_uint_eq(b.n, before);
    tp_buf_free(&b);
    tm_model_free(m);
}
END_TEST

START_TEST(a_calibration_without_the_newer_numbers_is_read)
{
    struct tm_hyper h = small(TCLFEAT_TCLF_1);
    struct tm_model *m = make(&h, TCLFEAT_TCLF_1), *back = NULL;
    struct tp_buf b = written(m);
    static const char *const newer[] = {"latency_tilt", "known_slope", "known_std", "known_tilt"};
    char *text = header_text(&b);
    for (int i = 0; i < 4; i++) {
        char *at = strstr(text, newer[i]);
        ck_assert_ptr_nonnull(at);
        b.p[8 + (at - text)] = 'x'; /* a key that nobody knows */
    }
    ck_assert_int_eq(tm_weights_read(b.p, b.n, &back, NULL, NULL), 0);
    ck_assert_double_eq(back->latency_std, 0.11);
    ck_assert(back->known_slope == 1 && back->latency_tilt == 0 && back->known_std == 0 && back->known_tilt == 0);
    tm_model_free(back);
    free(text);
    tp_buf_free(&b);
    m->known_slope = 0;
    ck_assert_int_eq(tm_weights_write(m, &provenance, &b, NULL), -TP_E_BAD_WEIGHTS);
    m->known_slope = 1;
    m->known_std = -1;
    ck_assert_int_eq(tm_weights_write(m, &provenance, &b, NULL), -TP_E_BAD_WEIGHTS);
    tp_buf_free(&b);
    tm_model_free(m);
}
END_TEST

START_TEST(a_provenance_out_of_form_is_not_written)
{
    struct tm_hyper h = small(TCLFEAT_TCLF_1);
    struct tm_model *m = make(&h, TCLFEAT_TCLF_1);
    struct tp_buf b = {0};
    struct tm_provenance p = provenance;
    memset(p.owner, 'a', sizeof p.owner); /* no terminator */
    ck_assert_int_eq(tm_weights_write(m, &p, &b, NULL), -TP_E_BAD_WEIGHTS);
    p = provenance;
    p.records = -1;
    ck_assert_int_eq(tm_weights_write(m, &p, &b, NULL), -TP_E_BAD_WEIGHTS);
    p = provenance;
    memcpy(p.metrics, "[1]", 4);
    ck_assert_int_eq(tm_weights_write(m, &p, &b, NULL), -TP_E_BAD_WEIGHTS);
    p = provenance;
    p.n_parents = 9;
    ck_assert_int_eq(tm_weights_write(m, &p, &b, NULL), -TP_E_BAD_WEIGHTS);
    memset(&p, 0, sizeof p); /* nothing known is fine */
    ck_assert_int_eq(tm_weights_write(m, &p, &b, NULL), 0);
    tp_buf_free(&b);
    tm_model_free(m);
}
END_TEST

START_TEST(hyper_parameters_have_limits)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tp_err e;
    ck_assert_int_eq(tm_hyper_check(&h, TCLFEAT_TCLF_1, &e), 0);
    h.summary = 0;
    ck_assert_int_eq(tm_hyper_check(&h, TCLFEAT_TCLF_1, &e), 0);
    h.summary = 3;
    ck_assert_int_eq(tm_hyper_check(&h, TCLFEAT_TCLF_1, &e), -TP_E_BAD_WEIGHTS);
    h = tm_hyper_default(TCLFEAT_TCLF_1);
    h.head1 = 200; /* each within its limit, together over 0.36 MiB */
    ck_assert_int_eq(tm_hyper_check(&h, TCLFEAT_TCLF_1, &e), -TP_E_BAD_WEIGHTS);
    h = tm_hyper_default(TCLFEAT_TCLF_1);
    h.d_model = 120;
    ck_assert_int_eq(tm_hyper_check(&h, TCLFEAT_TCLF_1, &e), -TP_E_BAD_WEIGHTS);
    h = tm_hyper_default(TCLFEAT_TCLF_1);
    h.d_conv = 0;
    ck_assert_int_eq(tm_hyper_check(&h, TCLFEAT_TCLF_1, &e), -TP_E_BAD_WEIGHTS);
}
END_TEST

START_TEST(experiments_are_not_written)
{
    struct tm_provenance p = {.role = "ac"};
    struct tp_buf b = {0};
    for (int k = 0; k < 3; k++) {
        struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
        h.pooling = k == 0 ? TM_POOL_MEAN : k == 1 ? TM_POOL_LAST : TM_POOL_SUM;
        h.more_blocks = k == 2;
        struct tm_model *m = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
        struct tp_err e;
        ck_assert_ptr_nonnull(m);
        ck_assert_int_eq(tm_weights_write(m, &p, &b, &e), -TP_E_UNUSABLE);
        ck_assert_ptr_nonnull(strstr(e.detail, k == 2 ? "blocks" : "pooling"));
        ck_assert_uint_eq(b.n, 0);
        tm_model_free(m);
    }
    tp_buf_free(&b);
}
END_TEST

START_TEST(saving_publishes_atomically)
{
    char dir[] = "/tmp/tm_weights.XXXXXX", path[64], tmp[72];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/m.safetensors", dir);
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    struct tm_hyper h = small(TCLFEAT_TCLF_1);
    struct tm_model *m = make(&h, TCLFEAT_TCLF_1), *back = NULL;
    struct tp_err e;
    ck_assert_int_eq(tm_weights_load(path, &back, NULL, &e), -TP_E_IO);
    ck_assert_int_eq(tm_weights_save(path, m, &provenance, &e), 0);
    ck_assert_int_eq(access(tmp, F_OK), -1);
    m->w[0] = NAN; /* a save that fails leaves the file that was there */
    ck_assert_int_eq(tm_weights_save(path, m, &provenance, &e), -TP_E_BAD_WEIGHTS);
    m->w[0] = 0.5f;
    ck_assert_int_eq(tm_weights_load(path, &back, NULL, &e), 0);
    tm_model_free(back);
    ck_assert_int_eq(tm_weights_save(path, m, &provenance, &e), 0);
    ck_assert_int_eq(tm_weights_load(path, &back, NULL, &e), 0);
    same_model(m, back);
    ck_assert_int_eq(tm_weights_load(dir, &back, NULL, &e), -TP_E_BAD_WEIGHTS); /* not a regular file */
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(dir), 0); /* nothing else was left behind */
    ck_assert_int_eq(tm_weights_save(path, m, &provenance, &e), -TP_E_IO);
    tm_model_free(back);
    tm_model_free(m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model/weights");
    TCase *c = tcase_create("all");
    tcase_add_test(c, reading_gives_back_what_was_written);
    tcase_add_test(c, the_bytes_are_safetensors);
    tcase_add_test(c, a_file_is_appended_behind_what_the_buffer_holds);
    tcase_add_test(c, refuses_a_header_that_is_not_quite_right);
    tcase_add_test(c, refuses_every_truncation_and_any_extra_byte);
    tcase_add_test(c, survives_changed_bytes);
    tcase_add_test(c, refuses_lengths_that_promise_too_much);
    tcase_add_test(c, values_that_are_not_finite_are_neither_written_nor_read);
    tcase_add_test(c, a_calibration_without_the_newer_numbers_is_read);
    tcase_add_test(c, a_provenance_out_of_form_is_not_written);
    tcase_add_test(c, hyper_parameters_have_limits);
    tcase_add_test(c, experiments_are_not_written);
    tcase_add_test(c, saving_publishes_atomically);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
