/* lab ckd: transfers, samples, splits that keep test tasks away from everyone, kept cells. */
#include "lab/ckd.h"
#include "lab_logs.h"

#include "model/mem.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

START_TEST(transfers_name_sources_and_targets)
{
    struct tl_ckd_transfer t;
    struct tp_err e;
    ck_assert_int_eq(tl_ckd_transfer_parse("v100+k80>mi50>a", &t, &e), 0);
    ck_assert_uint_eq(t.n_sources, 2);
    ck_assert_uint_eq(t.n, 4);
    ck_assert_str_eq(t.hardware[0], "v100");
    ck_assert_str_eq(t.hardware[1], "k80");
    ck_assert_str_eq(t.hardware[3], "a");
    ck_assert_str_eq(t.name, "v100+k80>mi50>a");
    static const char *const bad[] = {"", "v100", ">k80", "v100>", "a+b", "../x>y", "a>b>c>d>e>f>g>h>i"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(tl_ckd_transfer_parse(bad[i], &t, &e) == -TP_E_UNUSABLE, "%s", bad[i]);
    ck_assert_str_eq(t.name, "v100+k80>mi50>a"); /* untouched */
}
END_TEST

enum { TASKS = 12, PROGRAMS = 40 };

/* A folder with the logs of hardware a and b; both hold out task 1, a also task 0. */
static void folder(char *dir)
{
    char path[256];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    static const char *const parts[] = {"public", "public/a", "public/b", "splits"};
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, parts[i]);
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    for (int h = 0; h < 2; h++) {
        struct logs l;
        logs_begin(&l);
        for (int t = 0; t < TASKS; t++)
            for (int p = 1; p <= PROGRAMS; p++)
                logs_add(&l, t, p, 1e-3 * p, 1.1e-3 * p);
        ck_assert_int_eq(fclose(l.f), 0);
        snprintf(path, sizeof path, "%s/public/%c/log.json", dir, 'a' + h);
        ck_assert_int_eq(rename(l.path, path), 0);
        snprintf(path, sizeof path, "%s/splits/%c.test.txt", dir, 'a' + h);
        FILE *f = fopen(path, "w");
        fprintf(f, "[\"task1\", 17]\n%s", h ? "" : "[\"task0\", 16]\n");
        fclose(f);
    }
}

static void remove_folder(const char *dir)
{
    static const char *const parts[] = {"public/a/log.json",
                                        "public/b/log.json",
                                        "splits/a.test.txt",
                                        "splits/b.test.txt",
                                        "public/a",
                                        "public/b",
                                        "public",
                                        "splits",
                                        ""};
    char path[256];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, parts[i]);
        ck_assert_int_eq(remove(path), 0);
    }
}

static const char *key_of(const struct tl_ckd_hardware *h, uint32_t program)
{
    return h->corpus->tasks[h->corpus->programs[h->split.program[program]].task].workload_key;
}

START_TEST(what_one_hardware_tests_no_other_trains_on)
{
    char dir[] = "/tmp/lab-ckd-XXXXXX";
    struct tl_ckd_opts o = {.data = dir};
    struct tl_ckd_transfer t;
    struct tl_ckd_data d;
    struct tp_err e;
    folder(dir);
    ck_assert_int_eq(tl_ckd_transfer_parse("a>b", &t, &e), 0);
    ck_assert_msg(tl_ckd_data_read(&o, &t, 0, &d, &e) == 0, "%s", e.detail);
    for (int h = 0; h < 2; h++) {
        const struct tl_split *s = &d.hw[h].split;
        ck_assert_uint_eq(s->n_train, (TASKS - 2) * PROGRAMS);
        ck_assert_uint_eq(s->n_test, (h ? 1 : 2) * PROGRAMS);
        for (size_t i = 0; i < s->n_train; i++)
            ck_assert(strcmp(key_of(&d.hw[h], s->train[i]), "[\"task0\", 16]") &&
                      strcmp(key_of(&d.hw[h], s->train[i]), "[\"task1\", 17]"));
        ck_assert_int_eq(d.hw[h].kind, TP_TARGET_CPU);
    }
    const uint64_t digest = d.digest;
    tl_ckd_data_free(&d);
    /* tuning: test tasks are gone altogether, training tasks are tested */
    o.tune = 0.4;
    ck_assert_msg(tl_ckd_data_read(&o, &t, 0, &d, &e) == 0, "%s", e.detail);
    ck_assert(d.digest != digest);
    ck_assert_uint_gt(d.hw[0].split.n_test, 0);
    ck_assert_uint_eq(d.hw[0].split.n_test, d.hw[1].split.n_test);
    ck_assert_uint_eq(d.hw[0].split.n_test + d.hw[0].split.n_train, (TASKS - 2) * PROGRAMS);
    for (size_t i = 0; i < d.hw[0].split.n_test; i++)
        ck_assert(strcmp(key_of(&d.hw[0], d.hw[0].split.test[i]), "[\"task1\", 17]"));
    tl_ckd_data_free(&d);
    ck_assert_int_eq(tl_ckd_transfer_parse("a>c", &t, &e), 0);
    ck_assert_int_lt(tl_ckd_data_read(&o, &t, 0, &d, &e), 0);
    remove_folder(dir);
}
END_TEST

START_TEST(a_sample_takes_its_share_of_every_task)
{
    char dir[] = "/tmp/lab-ckd-XXXXXX";
    struct tl_ckd_opts o = {.data = dir};
    struct tl_ckd_transfer t;
    struct tl_ckd_data d;
    struct tp_err e;
    uint32_t a[TASKS * PROGRAMS], b[TASKS * PROGRAMS], per_task[TASKS] = {0};
    size_t n, m;
    folder(dir);
    ck_assert_int_eq(tl_ckd_transfer_parse("a>b", &t, &e), 0);
    ck_assert_int_eq(tl_ckd_data_read(&o, &t, 0, &d, &e), 0);
    const struct tl_ckd_hardware *h = &d.hw[1];
    ck_assert_int_eq(tl_ckd_sample(h, 0.1, 1, a, &n, &e), 0);
    ck_assert_uint_eq(n, (TASKS - 2) * PROGRAMS / 10);
    for (size_t i = 0; i < n; i++)
        per_task[h->split.d->task[a[i]]]++;
    for (uint32_t i = 0; i < h->split.d->n_tasks; i++)
        ck_assert(per_task[i] == 0 || per_task[i] == PROGRAMS / 10);
    ck_assert_int_eq(tl_ckd_sample(h, 0.1, 1, b, &m, &e), 0);
    ck_assert_mem_eq(a, b, n * sizeof *a);
    ck_assert_int_eq(tl_ckd_sample(h, 0.1, 2, b, &m, &e), 0);
    ck_assert_mem_ne(a, b, n * sizeof *a);
    ck_assert_int_eq(tl_ckd_sample(h, 0.001, 1, b, &m, &e), 0);
    ck_assert_uint_eq(m, 2 * (TASKS - 2)); /* two make a pair */
    ck_assert_int_eq(tl_ckd_sample(h, 1, 1, b, &m, &e), 0);
    ck_assert_uint_eq(m, h->split.n_train);
    tl_ckd_data_free(&d);
    remove_folder(dir);
}
END_TEST

/* Every file in a folder, then the folder. */
static void remove_cells(const char *dir)
{
    DIR *d = opendir(dir);
    char path[512];
    ck_assert_ptr_nonnull(d);
    for (struct dirent *f; (f = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        if (f->d_name[0] != '.')
            unlink(path);
    }
    closedir(d);
    rmdir(dir);
}

/* Removes the cells of a method, as if the run had been killed before them. */
static void forget(const char *cells, const char *method)
{
    DIR *d = opendir(cells);
    for (struct dirent *f; (f = readdir(d));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", cells, f->d_name);
        json_t *o = strstr(f->d_name, ".json") ? json_load_file(path, 0, NULL) : NULL;
        const char *by = json_string_value(json_object_get(o, "settings"));
        if (by && strncmp(by, method, strlen(method)) == 0 && by[strlen(method)] == ',')
            unlink(path);
        json_decref(o);
    }
    closedir(d);
}

static void quick(struct tk_learn_opts *o)
{
    o->steps = 0;
    o->train.epochs = o->train.period = 1;
}

START_TEST(every_method_makes_its_cell_and_kept_cells_are_the_same)
{
    char dir[] = "/tmp/lab-ckd-XXXXXX", cells[] = "/tmp/lab-ckd-cells-XXXXXX";
    struct tl_ckd_opts o = {
        .data = dir,
        .budget = {0.2},
        .n_budgets = 1,
        .seeds = 1,
        .n_transfers = 1,
        .threads = 1,
        .quiet = true,
        .per_task = 20,
        .methods = "zero-shot,scratch,cold start,fine-tune,multi-task,ckd,ckd without EWC,plain, random,plain, "
                   "RDU,plain, CKD,all"};
    struct tl_ckd_results r[2];
    struct tp_buf markdown = {0}, json = {0};
    struct tp_err e;
    folder(dir);
    ck_assert_ptr_nonnull(mkdtemp(cells));
    o.cache = cells;
    ck_assert_int_eq(tl_ckd_transfer_parse("a>b>a", &o.transfer[0], &e), 0);
    tk_scratch_defaults(&o.source);
    tk_cl_defaults(&o.cl);
    tk_kd_defaults(&o.kd);
    tk_meta_defaults(&o.meta);
    o.meta.rounds = 3;
    quick(&o.source);
    quick(&o.cl);
    quick(&o.kd);
    o.scratch = o.fine = o.source;
    for (int i = 0; i < 2; i++)
        ck_assert_msg(tl_ckd_run(&o, &r[i], &e) == 0, "%s", e.detail);
    for (uint32_t hop = 0; hop < 2; hop++)
        for (int m = 0; m < TL_CKD_METHOD_COUNT; m++) {
            const struct tl_ckd_cell *a = tl_ckd_at(&r[0], 0, hop, (enum tl_ckd_method)m, 0, 0);
            const struct tl_ckd_cell *b = tl_ckd_at(&r[1], 0, hop, (enum tl_ckd_method)m, 0, 0);
            const int role = m == TL_CKD_NO_EWC ? TL_CKD_KB : TL_CKD_AC;
            const struct tl_ckd_scores *x = &a->score[role][1 + hop], *y = &b->score[role][1 + hop];
            ck_assert_msg(a->done && b->done, "%s", tl_ckd_method_name((enum tl_ckd_method)m));
            ck_assert_uint_eq(x->n, hop ? 2 : 1); /* its own test tasks */
            ck_assert_uint_eq(y->n, x->n);
            for (uint32_t k = 0; k < x->n; k++)
                ck_assert_double_eq_tol(x->pairwise[k], y->pairwise[k], 1e-8);
            ck_assert(a->seconds == 0 || fabs(a->seconds - b->seconds) < 1e-4 * a->seconds); /* not made again */
        }
    ck_assert(tl_ckd_at(&r[0], 0, 0, TL_CKD_SCRATCH, 1, 0)->done);
    /* one cell of a hop was not finished: what it shares with the others begins where it began */
    forget(cells, "ckd without EWC");
    tl_ckd_results_free(&r[1]);
    ck_assert_msg(tl_ckd_run(&o, &r[1], &e) == 0, "%s", e.detail);
    for (uint32_t hop = 0; hop < 2; hop++) {
        const struct tl_ckd_scores *x = tl_ckd_at(&r[0], 0, hop, TL_CKD_CKD, 0, 0)->score[TL_CKD_AC];
        const struct tl_ckd_scores *y = tl_ckd_at(&r[1], 0, hop, TL_CKD_CKD, 0, 0)->score[TL_CKD_AC];
        for (uint32_t k = 0; k < x[1 + hop].n; k++)
            ck_assert_double_eq_tol(x[1 + hop].pairwise[k], y[1 + hop].pairwise[k], 1e-8);
    }
    ck_assert_int_eq(tl_ckd_markdown(&r[0], &markdown), 0);
    ck_assert_int_eq(tl_ckd_json(&r[0], &json), 0);
    static const char *const parts[] = {"| 20 % | ckd |", "CKD less the others: top-5",
                                        "all less the others: pairwise"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_ptr_nonnull(memmem(markdown.p, markdown.n, parts[i], strlen(parts[i])));
    json_t *j = json_loadb(json.p, json.n, 0, NULL);
    ck_assert_uint_eq(json_array_size(json_object_get(j, "rows")), 2 * TL_CKD_METHOD_COUNT + 2);
    json_decref(j);
    tp_buf_free(&markdown);
    tp_buf_free(&json);
    for (int i = 0; i < 2; i++)
        tl_ckd_results_free(&r[i]);
    remove_cells(cells);
    remove_folder(dir);
}
END_TEST

START_TEST(folds_test_every_task_once_and_count_as_one_list)
{
    char dir[] = "/tmp/lab-ckd-XXXXXX";
    struct tl_ckd_opts o = {.data = dir,
                            .budget = {0.2},
                            .n_budgets = 1,
                            .seeds = 2,
                            .folds = 4,
                            .n_transfers = 1,
                            .threads = 1,
                            .quiet = true,
                            .per_task = 20,
                            .methods = "zero-shot,scratch"};
    struct tl_ckd_data d;
    struct tl_ckd_results r;
    struct tp_buf json = {0};
    struct tp_err e;
    uint32_t tested[TASKS] = {0}, tasks = 0;
    double pairwise = 0;
    folder(dir);
    ck_assert_int_eq(tl_ckd_transfer_parse("a>b", &o.transfer[0], &e), 0);
    for (uint32_t f = 0; f < o.folds; f++) {
        ck_assert_msg(tl_ckd_data_read(&o, &o.transfer[0], f, &d, &e) == 0, "%s", e.detail);
        const struct tl_split *a = &d.hw[0].split, *b = &d.hw[1].split;
        ck_assert_uint_eq(b->n_test / PROGRAMS + b->n_train / 20, TASKS); /* every task on one side */
        for (size_t i = 0; i < b->n_test; i += PROGRAMS)
            tested[d.hw[1].corpus->programs[b->program[b->test[i]]].task]++;
        for (size_t i = 0; i < a->n_train; i++)
            for (size_t k = 0; k < b->n_test; k += PROGRAMS)
                ck_assert_str_ne(key_of(&d.hw[0], a->train[i]), key_of(&d.hw[1], b->test[k]));
        tl_ckd_data_free(&d);
    }
    for (int t = 0; t < TASKS; t++)
        ck_assert_uint_eq(tested[t], 1);
    o.tune = 0.5; /* training tasks only */
    ck_assert_int_eq(tl_ckd_data_read(&o, &o.transfer[0], 0, &d, &e), 0);
    ck_assert_uint_eq(d.hw[1].split.n_test / PROGRAMS + d.hw[1].split.n_train / 20, TASKS - 2);
    tl_ckd_data_free(&d);
    o.tune = 0;
    tk_scratch_defaults(&o.source);
    tk_cl_defaults(&o.cl);
    tk_kd_defaults(&o.kd);
    quick(&o.source);
    o.scratch = o.fine = o.source;
    ck_assert_msg(tl_ckd_run(&o, &r, &e) == 0, "%s", e.detail);
    for (uint32_t run = 0; run < tl_ckd_runs(&o); run++) {
        const struct tl_ckd_scores *s = &tl_ckd_at(&r, 0, 0, TL_CKD_SCRATCH, 0, run)->score[TL_CKD_AC][1];
        tasks += s->n;
        for (uint32_t i = 0; i < s->n; i++)
            pairwise += s->pairwise[i];
    }
    ck_assert_uint_eq(tasks, 2 * TASKS);
    ck_assert_int_eq(tl_ckd_json(&r, &json), 0);
    json_t *j = json_loadb(json.p, json.n, 0, NULL), *row = json_array_get(json_object_get(j, "rows"), 1);
    ck_assert_str_eq(json_string_value(json_object_get(row, "method")), "scratch");
    ck_assert_double_eq_tol(json_number_value(json_object_get(row, "ac_b_pairwise")), pairwise / tasks, 1e-6);
    json_decref(j);
    tp_buf_free(&json);
    tl_ckd_results_free(&r);
    remove_folder(dir);
}
END_TEST

START_TEST(cells_are_read_back_for_the_same_settings_alone)
{
    char path[] = "/tmp/lab-ckd-cell-XXXXXX";
    struct tl_ckd_cell c = {.done = true, .programs = 5, .seconds = 1.5, .gate = TK_GATE_WARM_START, .phi_cl = NAN};
    struct tl_ckd_cell back = {0};
    struct tl_ckd_scores *s = &c.score[TL_CKD_KB][1];
    struct tp_err e;
    close(mkstemp(path));
    *s = (struct tl_ckd_scores){3, tm_alloc(3, 8), tm_alloc(3, 8), tm_alloc(3, 8)};
    s->pairwise[1] = 0.25;
    s->top1[2] = NAN;
    ck_assert_int_eq(tl_ckd_cell_write(path, "these", &c, &e), 0);
    ck_assert_int_eq(tl_ckd_cell_read(path, "others", &back), 0);
    ck_assert(!back.done);
    ck_assert_int_eq(tl_ckd_cell_read(path, "these", &back), 1);
    ck_assert(back.done && back.programs == 5 && back.gate == TK_GATE_WARM_START && isnan(back.phi_cl));
    ck_assert_uint_eq(back.score[TL_CKD_KB][1].n, 3);
    ck_assert_uint_eq(back.score[TL_CKD_AC][0].n, 0);
    ck_assert_double_eq(back.score[TL_CKD_KB][1].pairwise[1], 0.25);
    ck_assert(isnan(back.score[TL_CKD_KB][1].top1[2]));
    tl_ckd_cell_free(&back);
    unlink(path);
    ck_assert_int_eq(tl_ckd_cell_read(path, "these", &back), 0);
    tl_ckd_cell_free(&c);
}
END_TEST

START_TEST(multi_task_models_share_all_but_their_heads)
{
    char dir[] = "/tmp/lab-ckd-XXXXXX";
    struct tl_ckd_opts o = {.data = dir};
    struct tl_ckd_transfer t;
    struct tl_ckd_data d;
    struct tp_err e;
    struct tm_model *m[2];
    struct tk_learn_opts learn;
    const struct tk_run run = {.seed = 1, .threads = 1};
    folder(dir);
    ck_assert_int_eq(tl_ckd_transfer_parse("a>b", &t, &e), 0);
    ck_assert_int_eq(tl_ckd_data_read(&o, &t, 0, &d, &e), 0);
    const struct tk_set set[2] = {{d.hw[0].split.d, d.hw[0].split.train, d.hw[0].split.n_train},
                                  {d.hw[1].split.d, d.hw[1].split.train, 40}};
    tk_scratch_defaults(&learn);
    learn.train.epochs = 2;
    learn.steps = 4;
    ck_assert_msg(tl_ckd_multi_task(set, 2, &learn, &run, m, &e) == 0, "%s", e.detail);
    const size_t head = m[0]->shape[TM_T_HEAD0_W].offset;
    for (size_t i = 0; i < head; i++)
        ck_assert_float_eq_tol(m[0]->w[i], m[1]->w[i], 1e-6f);
    ck_assert_mem_ne(m[0]->w + head, m[1]->w + head, m[0]->shape[TM_T_HEAD0_W].size * sizeof(float));
    tm_model_free(m[0]);
    tm_model_free(m[1]);
    tl_ckd_data_free(&d);
    remove_folder(dir);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lab/ckd");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, transfers_name_sources_and_targets);
    tcase_add_test(c, what_one_hardware_tests_no_other_trains_on);
    tcase_add_test(c, a_sample_takes_its_share_of_every_task);
    tcase_add_test(c, every_method_makes_its_cell_and_kept_cells_are_the_same);
    tcase_add_test(c, folds_test_every_task_once_and_count_as_one_list);
    tcase_add_test(c, cells_are_read_back_for_the_same_settings_alone);
    tcase_add_test(c, multi_task_models_share_all_but_their_heads);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
