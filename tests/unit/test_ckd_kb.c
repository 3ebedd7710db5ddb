/* Knowledge bases as files. */
#include "ckd/kb.h"
#include "ckd_toy.h"

#include <stdio.h>
#include <unistd.h>

static struct tk_kb *sample(bool start)
{
    struct tm_hyper h = tm_hyper_default(TCLFEAT_TCLF_1);
    struct tk_kb *kb = tk_kb_new(tm_model_new(TCLFEAT_TCLF_1, &h, 1), TP_TARGET_GPU);
    ck_assert_ptr_nonnull(kb);
    kb->phases = 3;
    if (start)
        ck_assert_ptr_nonnull(kb->start = tm_alloc(kb->model->n, sizeof *kb->start));
    for (int t = 0; t < TM_TENSORS; t++)
        for (size_t i = 0; i < kb->model->shape[t].size; i++) {
            const size_t at = kb->model->shape[t].offset + i;
            kb->fisher[at] = 1e-6f * (float)(at % 11);
            kb->anchor[at] += 0.5f;
            if (start)
                kb->start[at] = (float)at;
        }
    return kb;
}

static struct tp_buf written(const struct tk_kb *kb)
{
    const struct tm_provenance p = {.owner = "gpu-fleet", .records = 7};
    struct tp_buf b = {0};
    struct tp_err e;
    ck_assert_msg(tk_kb_write(kb, &p, &b, &e) == 0, "%s", e.detail);
    return b;
}

static void same(const struct tk_kb *a, const struct tk_kb *b)
{
    const size_t bytes = a->model->n * sizeof(float);
    ck_assert_int_eq(a->kind, b->kind);
    ck_assert_uint_eq(a->phases, b->phases);
    ck_assert_mem_eq(a->model->w, b->model->w, bytes);
    ck_assert_mem_eq(a->fisher, b->fisher, bytes);
    ck_assert_mem_eq(a->anchor, b->anchor, bytes);
    ck_assert(!a->start == !b->start);
    if (a->start)
        ck_assert_mem_eq(a->start, b->start, bytes);
}

START_TEST(what_is_saved_is_loaded)
{
    for (int start = 0; start < 2; start++) {
        char path[] = "/tmp/kb-XXXXXX";
        struct tk_kb *kb = sample(start), *back, *copy = tk_kb_clone(kb);
        const struct tm_provenance p = {.owner = "gpu-fleet", .records = 7};
        struct tm_provenance q;
        struct tp_err e;
        const int fd = mkstemp(path);
        ck_assert_int_ge(fd, 0);
        close(fd);
        same(kb, copy);
        ck_assert_msg(tk_kb_save(path, kb, &p, &e) == 0, "%s", e.detail);
        ck_assert_msg(tk_kb_load(path, &back, &q, &e) == 0, "%s", e.detail);
        same(kb, back);
        ck_assert_str_eq(q.role, "kb");
        ck_assert_str_eq(q.kind, "gpu");
        ck_assert_str_eq(q.owner, "gpu-fleet");
        ck_assert_int_eq(q.records, 7);
        unlink(path);
        tk_kb_free(kb);
        tk_kb_free(copy);
        tk_kb_free(back);
    }
}
END_TEST

START_TEST(any_reader_of_weights_sees_a_model)
{
    struct tk_kb *kb = sample(true);
    struct tp_buf b = written(kb);
    struct tm_model *m;
    struct tm_provenance p;
    ck_assert_int_eq(tm_weights_read(b.p, b.n, &m, &p, NULL), 0);
    ck_assert_mem_eq(m->w, kb->model->w, m->n * sizeof *m->w);
    ck_assert_str_eq(p.role, "kb");
    tm_model_free(m);
    tp_buf_free(&b);
    tk_kb_free(kb);
}
END_TEST

static void refused(const void *bytes, size_t n, enum tp_code code, const char *says)
{
    struct tk_kb *kb = NULL;
    struct tp_err e = {0};
    ck_assert_int_eq(tk_kb_read(bytes, n, &kb, NULL, &e), -(int)code);
    ck_assert_ptr_null(kb);
    ck_assert_msg(strstr(e.detail, says) != NULL, "%s", e.detail);
}

START_TEST(a_plain_model_is_no_knowledge_base)
{
    struct tk_kb *kb = sample(false);
    const struct tm_provenance p = {.role = "kb", .kind = "gpu"};
    struct tp_buf b = {0};
    ck_assert_int_eq(tm_weights_write(kb->model, &p, &b, NULL), 0);
    refused(b.p, b.n, TP_E_BAD_WEIGHTS, "not a knowledge base");
    tp_buf_free(&b);
    tk_kb_free(kb);
}
END_TEST

/* Replace a text of the header by one of the same length. */
static void edit(struct tp_buf *b, const char *from, const char *to)
{
    char *at = memmem(b->p, b->n, from, strlen(from));
    ck_assert_msg(at, "%s", from);
    memcpy(at, to, strlen(to));
}

START_TEST(files_that_do_not_fit_are_refused_with_a_reason)
{
    struct tk_kb *kb = sample(true);
    struct tp_buf b = written(kb);
    refused(b.p, b.n - 4, TP_E_BAD_WEIGHTS, "bytes");
    tp_buf_free(&b);
    b = written(kb);
    edit(&b, "\"fisher.norm.weight\"", "\"fishes.norm.weight\"");
    refused(b.p, b.n, TP_E_BAD_WEIGHTS, "fisher.norm.weight");
    tp_buf_free(&b);
    b = written(kb);
    edit(&b, "\"role\":\"kb\"", "\"role\":\"ac\"");
    refused(b.p, b.n, TP_E_BAD_WEIGHTS, "not a knowledge base");
    tp_buf_free(&b);
    b = written(kb);
    edit(&b, "\"kind\":\"gpu\"", "\"kind\":\"tpu\"");
    refused(b.p, b.n, TP_E_BAD_WEIGHTS, "kind");
    tp_buf_free(&b);
    b = written(kb);
    edit(&b, "\"kind\":\"gpu\"", "\"kynd\":\"gpu\"");
    refused(b.p, b.n, TP_E_BAD_WEIGHTS, "kind is missing");
    tp_buf_free(&b);
    b = written(kb);
    edit(&b, "\"features_crc32\":\"", "\"features_crc32\":\"00000000");
    refused(b.p, b.n, TP_E_FEATURES_MISMATCH, "CRC");
    tp_buf_free(&b);
    tk_kb_free(kb);
}
END_TEST

START_TEST(information_below_zero_is_refused_both_ways)
{
    struct tk_kb *kb = sample(false);
    struct tp_buf b = written(kb), none = {0};
    struct tp_err e;
    const float below = -1;
    /* the first value of fisher.embed.0.weight follows the weights */
    memcpy(b.p + b.n - 2 * 4 * tm_parameter_count(&kb->model->h), &below, 4);
    refused(b.p, b.n, TP_E_BAD_WEIGHTS, "below zero");
    kb->fisher[0] = -1;
    ck_assert_int_eq(tk_kb_write(kb, NULL, &none, &e), -TP_E_BAD_WEIGHTS);
    kb->fisher[0] = NAN;
    ck_assert_int_eq(tk_kb_write(kb, NULL, &none, &e), -TP_E_BAD_WEIGHTS);
    ck_assert_ptr_nonnull(strstr(e.detail, "fisher.embed.0.weight"));
    kb->fisher[0] = 0;
    kb->kind = TP_TARGET_ANY;
    ck_assert_int_eq(tk_kb_write(kb, NULL, &none, &e), -TP_E_BAD_WEIGHTS);
    ck_assert_uint_eq(none.n, 0);
    tp_buf_free(&b);
    tk_kb_free(kb);
}
END_TEST

START_TEST(without_a_model_there_is_no_knowledge_base)
{
    ck_assert_ptr_null(tk_kb_new(NULL, TP_TARGET_CPU));
    tk_kb_free(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ckd/kb");
    TCase *c = tcase_create("all");
    tcase_add_test(c, what_is_saved_is_loaded);
    tcase_add_test(c, any_reader_of_weights_sees_a_model);
    tcase_add_test(c, a_plain_model_is_no_knowledge_base);
    tcase_add_test(c, files_that_do_not_fit_are_refused_with_a_reason);
    tcase_add_test(c, information_below_zero_is_refused_both_ways);
    tcase_add_test(c, without_a_model_there_is_no_knowledge_base);
    suite_add_tcase(suite, c);
    return toy_main(srunner_create(suite));
}
