/* What the engine hands out beside scores: pooled vector and input of the last layer, as the training forward has them;
 * scores stay the same to the bit. */
#include "model/infer_internal.h"
#include "tests/unit/model_fixture.h"

enum { LIST = 61 };

static struct tm_hyper h;
static struct tm_model *model;
static struct fixture_data data;
static uint32_t list[LIST]; /* with repeats */

static void setup(void)
{
    h = tm_hyper_default(TCLFEAT_TCLF_1);
    model = tm_model_new(TCLFEAT_TCLF_1, &h, 1);
    ck_assert_ptr_nonnull(model);
    fixture_weights(&h, model->w);
    fixture_data_init(&data, h.features, h.summary);
    data.ds.features = TCLFEAT_TCLF_1;
    for (uint32_t i = 0; i < LIST; i++)
        list[i] = i * 5 % 7 + (i > 40);
}

static void teardown(void)
{
    fixture_data_free(&data);
    tm_model_free(model);
}

static void run(struct tm_batch *b, const struct tm_plan *p, bool keep, double v[3][LIST])
{
    tm_batch_keep(b, keep);
    ck_assert_int_eq(tm_batch_begin(b, p), 0);
    for (int i = 0; i < LIST; i++)
        ck_assert_int_eq(tm_batch_add_dataset(b, &data.ds, list[i]), i);
    ck_assert_int_eq(tm_batch_run(b, v[0], v[1], v[2]), 0);
}

static void close_to(float got, float want)
{
    ck_assert_double_eq_tol((double)got, (double)want, 1e-5 * fmax(1.0, fabs((double)want)));
}

START_TEST(kept_vectors_are_those_of_the_training_forward)
{
    struct tm_plan *p = tm_plan_new_for(model, (enum tm_simd_set)_i);
    struct tm_batch *b = tm_batch_new();
    struct tm_tape *tape = tm_tape_new();
    struct tm_params params = {0};
    double v[3][LIST];
    if (!p) /* not a set of this CPU */
        goto out;
    ck_assert_int_eq(tm_params_init(&params, &h, model->w, NULL), 0);
    ck_assert_int_eq(tm_forward(&params, tape, &data.ds, list, LIST), 0);
    run(b, p, true, v);
    for (size_t i = 0; i < LIST; i++) {
        for (size_t j = 0; j < (size_t)h.d_model; j++)
            close_to(tm_batch_pooled(b, i)[j], tape->pooled[i * tape->ld_pooled + j]);
        for (size_t j = 0; j < (size_t)h.head2; j++)
            close_to(tm_batch_hidden(b, i)[j], tape->features[i * (size_t)h.head2 + j]);
    }
out:
    tm_params_free(&params);
    tm_tape_free(tape);
    tm_batch_free(b);
    tm_plan_free(p);
}
END_TEST

START_TEST(keeping_does_not_change_a_score)
{
    struct tm_plan *p = tm_plan_new(model);
    struct tm_batch *b = tm_batch_new();
    double plain[3][LIST], kept[3][LIST], after[3][LIST];
    ck_assert(p && b);
    run(b, p, false, plain);
    run(b, p, true, kept);
    run(b, p, false, after);
    ck_assert_mem_eq(plain, kept, sizeof plain);
    ck_assert_mem_eq(plain, after, sizeof plain);
    tm_batch_free(b);
    tm_plan_free(p);
}
END_TEST

START_TEST(a_dataset_is_embedded_as_batches_are)
{
    enum { N = 9000 }; /* several batches */
    struct tm_plan *p = tm_plan_new(model);
    struct tm_batch *b = tm_batch_new();
    double v[3][LIST], *raw = calloc(N, sizeof *raw);
    uint32_t *idx = calloc(N, sizeof *idx);
    const size_t dm = (size_t)h.d_model, h2 = (size_t)h.head2;
    float *pooled = calloc(N * dm, sizeof *pooled), *hidden = calloc(N * h2, sizeof *hidden);
    ck_assert(p && b && raw && idx && pooled && hidden);
    for (int i = 0; i < N; i++)
        idx[i] = list[i % LIST];
    ck_assert_int_eq(tm_embed_dataset(model, &data.ds, idx, N, pooled, hidden, raw), 0);
    run(b, p, true, v);
    for (size_t i = 0; i < N; i++) {
        ck_assert_mem_eq(pooled + i * dm, tm_batch_pooled(b, i % LIST), dm * sizeof *pooled);
        ck_assert_mem_eq(hidden + i * h2, tm_batch_hidden(b, i % LIST), h2 * sizeof *hidden);
        ck_assert_mem_eq(&raw[i], &v[2][i % LIST], sizeof *raw);
    }
    ck_assert_int_eq(tm_embed_dataset(model, &data.ds, idx, N, NULL, NULL, NULL), 0);
    free(raw);
    free(idx);
    free(pooled);
    free(hidden);
    tm_batch_free(b);
    tm_plan_free(p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model/infer: keep");
    TCase *c = tcase_create("keep");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, kept_vectors_are_those_of_the_training_forward, 0, TM_SIMD_SETS);
    tcase_add_test(c, keeping_does_not_change_a_score);
    tcase_add_test(c, a_dataset_is_embedded_as_batches_are);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
