/* Gradients of a batch on several threads, and the grouping of programs behind it. */
#include "model/shards.h"
#include "model_fixture.h"

struct setup {
    struct tm_hyper h;
    struct tm_params p;
    struct fixture_data data;
    float *w, *grad;
};

static const uint32_t programs[] = {0, 1, 2, 3, 4, 5, 6, 7, 4, 2};
static const struct tm_chunk chunks[] = {{0, 4}, {4, 4}, {8, 2}, {2, 3}, {0, 1}, {5, 4}, {1, 2}, {3, 1}, {0, 10}};
enum { CHUNKS = sizeof chunks / sizeof *chunks };

static void setup_init(struct setup *s)
{
    struct tm_shape shape[TM_TENSORS];
    s->h = tm_hyper_default(TCLFEAT_TCLF_1);
    size_t n = tm_layout(&s->h, shape);
    s->w = tm_alloc(n, sizeof *s->w);
    s->grad = tm_alloc(n, sizeof *s->grad);
    ck_assert(s->w && s->grad);
    fixture_weights(&s->h, s->w);
    fixture_data_init(&s->data, s->h.features, s->h.summary);
    ck_assert_int_eq(tm_params_init(&s->p, &s->h, s->w, NULL), 0);
}

static void setup_free(struct setup *s)
{
    tm_params_free(&s->p);
    fixture_data_free(&s->data);
    free(s->w);
    free(s->grad);
}

static int half_square(void *arg, const uint32_t *list, uint32_t n, const struct tm_tape *t, float *gs, float *gl,
                       double *loss)
{
    if (arg && list[0] == *(uint32_t *)arg)
        return -TP_E_INTERNAL;
    for (uint32_t i = 0; i < n; i++) {
        ck_assert(gs[i] == 0 && gl[i] == 0);
        gs[i] = t->s[i];
        gl[i] = t->l[i];
        *loss += 0.5 * (double)t->s[i] * (double)t->s[i] + 0.5 * (double)t->l[i] * (double)t->l[i];
    }
    return 0;
}

START_TEST(gradients_do_not_depend_on_the_number_of_threads)
{
    struct setup s;
    setup_init(&s);
    float *first = tm_alloc(s.p.n, sizeof *first);
    double loss, first_loss = 0;
    ck_assert_ptr_nonnull(first);
    for (int threads = 1; threads <= 4; threads++) {
        struct tm_shards *sh = tm_shards_new(s.p.n, threads);
        ck_assert_ptr_nonnull(sh);
        for (int again = 0; again < 3; again++) {
            ck_assert_int_eq(
                tm_shards_grad(sh, &s.p, &s.data.ds, programs, chunks, CHUNKS, half_square, NULL, s.grad, &loss), 0);
            if (threads == 1 && again == 0) {
                memcpy(first, s.grad, s.p.n * sizeof *first);
                first_loss = loss;
            }
            ck_assert_mem_eq(first, s.grad, s.p.n * sizeof *first);
            ck_assert_double_eq(loss, first_loss);
        }
        tm_shards_free(sh);
    }
    free(first);
    setup_free(&s);
}
END_TEST

START_TEST(gradients_are_the_sum_over_chunks)
{
    struct setup s;
    setup_init(&s);
    float *sum = tm_alloc(s.p.n, sizeof *sum);
    double loss, loss_sum = 0;
    struct tm_shards *sh = tm_shards_new(s.p.n, 2);
    ck_assert(sum && sh);
    for (uint32_t c = 0; c < CHUNKS; c++) {
        ck_assert_int_eq(
            tm_shards_grad(sh, &s.p, &s.data.ds, programs, chunks + c, 1, half_square, NULL, s.grad, &loss), 0);
        loss_sum += loss;
        for (size_t j = 0; j < s.p.n; j++)
            sum[j] += s.grad[j];
    }
    ck_assert_int_eq(tm_shards_grad(sh, &s.p, &s.data.ds, programs, chunks, CHUNKS, half_square, NULL, s.grad, &loss),
                     0);
    ck_assert_double_eq_tol(loss, loss_sum, 1e-9 * loss_sum);
    for (size_t j = 0; j < s.p.n; j++)
        ck_assert_float_le(fabsf(sum[j] - s.grad[j]), 1e-3f + 1e-4f * fabsf(sum[j]));
    tm_shards_free(sh);
    free(sum);
    setup_free(&s);
}
END_TEST

START_TEST(an_error_of_the_loss_comes_back)
{
    struct setup s;
    double loss;
    uint32_t bad = 4;
    setup_init(&s);
    struct tm_shards *sh = tm_shards_new(s.p.n, 2);
    ck_assert_ptr_nonnull(sh);
    ck_assert_int_eq(tm_shards_grad(sh, &s.p, &s.data.ds, programs, chunks, CHUNKS, half_square, &bad, s.grad, &loss),
                     -TP_E_INTERNAL);
    tm_shards_free(sh);
    setup_free(&s);
}
END_TEST

START_TEST(predictions_equal_a_forward_pass)
{
    struct setup s;
    uint32_t list[150];
    double score[150], ln[150];
    setup_init(&s);
    for (uint32_t i = 0; i < 150; i++)
        list[i] = i * 7 % FIXTURE_PROGRAMS;
    struct tm_shards *sh = tm_shards_new(s.p.n, 3);
    struct tm_tape *t = tm_tape_new();
    ck_assert(sh && t);
    ck_assert_int_eq(tm_shards_predict(sh, &s.p, &s.data.ds, list, 150, score, ln), 0);
    ck_assert_int_eq(tm_shards_predict(sh, &s.p, &s.data.ds, list, 0, NULL, NULL), 0);
    ck_assert_int_eq(tm_forward(&s.p, t, &s.data.ds, list, 150), 0);
    for (int i = 0; i < 150; i++) {
        ck_assert_double_eq_tol(score[i], (double)t->s[i], 1e-5);
        ck_assert_double_eq_tol(ln[i], (double)t->l[i], 1e-5);
    }
    tm_tape_free(t);
    tm_shards_free(sh);
    setup_free(&s);
}
END_TEST

/* Tasks of 1, 100, 3 and 33 programs; the last one never ran. */
enum { N = 137 };
struct labels {
    struct tm_dataset ds;
    uint32_t task[N], list[N];
    double cost[N];
};

static void labels_init(struct labels *l)
{
    for (uint32_t i = 0; i < N; i++) {
        l->task[i] = i < 1 ? 0 : i < 101 ? 1 : i < 104 ? 2 : 3;
        l->cost[i] = l->task[i] == 3 || i == 50 ? INFINITY : 1e-3 * (1 + i);
        l->list[i] = N - 1 - i;
    }
    l->ds = (struct tm_dataset){.n = N, .n_tasks = 4, .task = l->task, .cost = l->cost};
}

START_TEST(groups_leave_out_what_cannot_be_ranked)
{
    struct labels l;
    struct tm_groups g = {0};
    labels_init(&l);
    ck_assert_int_eq(tm_groups_init(&g, &l.ds, l.list, N, 32, NULL), 0);
    ck_assert_uint_eq(g.n_groups, 2);
    ck_assert_uint_eq(g.n, 103);
    for (uint32_t i = 0; i < g.n; i++)
        ck_assert(l.task[g.programs[i]] == (i < 100 ? 1 : 2));
    tm_groups_free(&g);
    tm_groups_free(NULL);
}
END_TEST

START_TEST(labels_compare_with_the_best_of_the_programs_given)
{
    struct labels l;
    struct tm_groups g = {0};
    labels_init(&l);
    ck_assert_int_eq(tm_groups_init(&g, &l.ds, l.list, N, 32, NULL), 0);
    ck_assert_double_eq(g.y[1], 1);
    ck_assert_double_eq_tol(g.y[99], 2.0 / 100, 1e-15);
    ck_assert_double_eq(g.y[50], 0);
    ck_assert(isinf(g.ln_cost[50]));
    ck_assert_double_eq_tol(g.ln_cost[99], log(0.1), 1e-12);
    tm_groups_free(&g);

    const uint32_t some[] = {60, 99};
    ck_assert_int_eq(tm_groups_init(&g, &l.ds, some, 2, 32, NULL), 0);
    ck_assert_double_eq(g.y[60], 1);
    ck_assert_double_eq_tol(g.mean_ln_cost, (log(0.061) + log(0.1)) / 2, 1e-12);
    tm_groups_free(&g);
}
END_TEST

START_TEST(chunks_cover_every_program_once_and_never_mix_tasks)
{
    struct labels l;
    struct tm_groups g = {0};
    struct tm_rng r;
    labels_init(&l);
    tm_rng_seed(&r, 4);
    for (uint32_t max = 2; max <= 40; max++) {
        ck_assert_int_eq(tm_groups_init(&g, &l.ds, l.list, N, max, NULL), 0);
        for (int epoch = 0; epoch < 3; epoch++) {
            int seen[N] = {0};
            tm_groups_shuffle(&g, &r);
            for (uint32_t c = 0; c < g.n_chunks; c++) {
                const uint32_t *p = g.programs + g.chunks[c].at;
                ck_assert(g.chunks[c].n >= 2 && (g.chunks[c].n <= max || max < 3));
                for (uint32_t i = 0; i < g.chunks[c].n; i++) {
                    ck_assert_uint_eq(l.task[p[i]], l.task[p[0]]);
                    seen[p[i]]++;
                }
            }
            for (int i = 1; i < 104; i++)
                ck_assert_int_eq(seen[i], 1);
        }
        tm_groups_free(&g);
    }
}
END_TEST

START_TEST(no_rankable_task_is_not_enough_data)
{
    struct labels l;
    struct tm_groups g = {0};
    struct tp_err e;
    labels_init(&l);
    const uint32_t singles[] = {0, 1, 101}, failures[] = {110, 111, 112};
    ck_assert_int_eq(tm_groups_init(&g, &l.ds, singles, 3, 32, &e), -TP_E_NOT_ENOUGH_DATA);
    ck_assert_int_eq(tm_groups_init(&g, &l.ds, failures, 3, 32, &e), -TP_E_NOT_ENOUGH_DATA);
    ck_assert_int_eq(tm_groups_init(&g, &l.ds, NULL, 0, 32, &e), -TP_E_NOT_ENOUGH_DATA);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model/shards");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, gradients_do_not_depend_on_the_number_of_threads);
    tcase_add_test(c, gradients_are_the_sum_over_chunks);
    tcase_add_test(c, an_error_of_the_loss_comes_back);
    tcase_add_test(c, predictions_equal_a_forward_pass);
    tcase_add_test(c, groups_leave_out_what_cannot_be_ranked);
    tcase_add_test(c, labels_compare_with_the_best_of_the_programs_given);
    tcase_add_test(c, chunks_cover_every_program_once_and_never_mix_tasks);
    tcase_add_test(c, no_rankable_task_is_not_enough_data);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
