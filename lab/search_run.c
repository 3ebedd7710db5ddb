/* One seed after another: split, models, scores of all test programs; then task by task and view by view every order.
 */
#include "lab/search_run.h"

#include "lab/npy.h"
#include "lab/score.h"
#include "lab/search_model.h"
#include "model/infer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANDOM_DRAWS = 1000 };

enum { TCLD, RANDOM, BEST, TLP, FIRST_PEER /* one less without TLP */ };

void tl_search_defaults(struct tl_search_opts *o)
{
    struct tl_split_opts s;
    tl_split_defaults(&s);
    *o = (struct tl_search_opts){.test_per_task = s.test_per_task,
                                 .min_programs = s.min_programs,
                                 .seeds = 3,
                                 .round = 10,
                                 .epochs = 20,
                                 .tlp_epochs = 20,
                                 .threads = 1,
                                 .within = 0.05};
}

/* One seed. score[row]: of all test programs, owned; NULL where the row needs none. */
struct run {
    const struct tl_corpus *c;
    const struct tl_search_opts *o;
    struct tl_search_report *r;
    struct tl_split split;
    uint64_t seed;
    double *score[FIRST_PEER + TL_SEARCH_PEERS];
};

/* ---- scores ---- */

/* A model of ours, trained on a split, scores the test programs. */
static int score_own(const struct run *k, const struct tl_split *s, const struct tl_split_opts *so, int epochs,
                     double **score, struct tp_err *e)
{
    const struct tl_search_opts *o = k->o;
    const struct tl_search_train t = {.epochs = epochs,
                                      .threads = o->threads,
                                      .dir = o->models,
                                      .progress = o->progress,
                                      .progress_arg = o->progress_arg};
    struct tm_model *m = NULL;
    size_t n = s->n_test;
    if (!o->quiet)
        fprintf(stderr, "seed %llu: %s, %zu programs to train on\n", (unsigned long long)k->seed,
                tclfeat_version(s->d->features), s->n_train);
    int rc = tl_search_model(s, so, &t, &m, e);
    double *latency = malloc((n + 1) * sizeof *latency);
    *score = malloc((n + 1) * sizeof **score);
    if (rc == 0 && !(latency && *score && tm_predict_dataset(m, s->d, s->test, n, *score, latency, NULL) == 0))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu predictions", n);
    free(latency);
    tm_model_free(m);
    return rc;
}

/* TLP's rows see the same programs in the same order: only the encoding differs. */
static int score_tlp(struct run *k, struct tl_split_opts so, char *const *keys, size_t n_keys, struct tp_err *e)
{
    struct tl_split s;
    so.tlp = true;
    int rc = tl_split_make(k->c, keys, n_keys, &so, &s, e);
    if (rc)
        return rc;
    bool same = s.n_test == k->split.n_test;
    for (size_t i = 0; same && i < s.n_test; i++)
        same = s.program[s.test[i]] == k->split.program[k->split.test[i]];
    rc = same ? score_own(k, &s, &so, k->o->tlp_epochs, &k->score[TLP], e)
              : tp_fail(e, TP_E_UNUSABLE, "TLP's rows are there for other programs");
    tl_split_free(&s);
    return rc;
}

/* {seed} in the path stands for the seed. */
static int score_peer(struct run *k, uint32_t peer, double **score, struct tp_err *e)
{
    const char *path = k->o->peer[peer].path, *mark = strstr(path, "{seed}");
    struct tp_buf file = {0};
    size_t n = 0;
    if (mark)
        tp_buf_printf(&file, "%.*s%llu%s", (int)(mark - path), path, (unsigned long long)k->seed,
                      mark + strlen("{seed}"));
    else
        tp_buf_puts(&file, path);
    tp_buf_putc(&file, '\0');
    if (file.oom)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for a path");
    int rc = tl_npy_read(file.p, score, &n, e);
    if (rc == 0 && n != k->split.n_test)
        rc = tp_fail(e, TP_E_UNUSABLE, "%s has %zu scores, the split %zu test programs (--test-per-task)", file.p, n,
                     k->split.n_test);
    tp_buf_free(&file);
    return rc;
}

static uint32_t first_peer(const struct tl_search_opts *o)
{
    return o->tlp_epochs ? FIRST_PEER : TLP;
}

static int score_all(struct run *k, const struct tl_split_opts *so, char *const *keys, size_t n_keys, struct tp_err *e)
{
    int rc = score_own(k, &k->split, so, k->o->epochs, &k->score[TCLD], e);
    if (rc == 0 && k->o->tlp_epochs)
        rc = score_tlp(k, *so, keys, n_keys, e);
    for (uint32_t i = 0; i < k->o->n_peers && rc == 0; i++)
        rc = score_peer(k, i, &k->score[first_peer(k->o) + i], e);
    return rc;
}

/* ---- replays ---- */

/* A task's programs as one view has them. */
struct table {
    struct tl_search_task t;
    double *seen, *judged, *score;
    uint32_t *at; /* place among the split's test programs */
    uint32_t *order;
};

static bool table_new(struct table *b, uint32_t n)
{
    *b = (struct table){.seen = malloc((n + 1) * sizeof *b->seen),
                        .judged = malloc((n + 1) * sizeof *b->judged),
                        .score = malloc((n + 1) * sizeof *b->score),
                        .at = malloc((n + 1) * sizeof *b->at),
                        .order = malloc((n + 1) * sizeof *b->order)};
    return b->seen && b->judged && b->score && b->at && b->order;
}

static void table_free(struct table *b)
{
    free(b->seen);
    free(b->judged);
    free(b->score);
    free(b->at);
    free(b->order);
}

/* Test programs from..to of the split, one task; those that the view cannot judge are left out. */
static void table_fill(struct table *b, const struct run *k, uint32_t from, uint32_t to, enum tl_search_view view)
{
    uint32_t m = 0;
    for (uint32_t i = from; i < to; i++) {
        const struct tl_program *p = &k->c->programs[k->split.program[k->split.test[i]]];
        double two[2] = {p->min_cost, p->min_cost};
        if (view == TL_SEARCH_BY_ANOTHER && !tl_two_measurements(k->c, p, true, two) &&
            !tl_two_measurements(k->c, p, false, two))
            continue;
        b->seen[m] = two[0];
        b->judged[m] = two[1];
        b->at[m++] = i;
    }
    b->t = (struct tl_search_task){.n = m, .seen = b->seen, .judged = b->judged};
    if (m)
        b->t.goal = tl_search_goal(b->seen, b->judged, m, k->o->within);
}

static int replay_row(const struct run *k, struct table *b, uint32_t row, const struct tl_search_random *random,
                      uint32_t task, struct tl_search_tally *t)
{
    const uint32_t n = b->t.n, round = k->o->round;
    for (uint32_t i = 0; i < n; i++)
        b->score[i] = row == BEST ? -b->seen[i] : k->score[row][b->at[i]];
    int rc = tl_search_order(b->score, n, row == BEST ? 0 : k->o->epsilon, k->seed * 1000003 + task, b->order);
    if (rc)
        return rc;
    uint32_t needed = tl_search_needed(&b->t, b->order);
    tl_search_add(t, task, needed, tl_search_in_rounds(needed, n, round), needed <= round, random);
    tl_search_curve(&b->t, b->order, 1, t->curve, TL_SEARCH_CURVE);
    return 0;
}

static int replay(const struct run *k, struct table *b, enum tl_search_view view, uint32_t task)
{
    struct tl_search_random random;
    uint32_t good = 0;
    int rc = 0;
    for (uint32_t i = 0; i < b->t.n; i++)
        good += b->judged[i] <= b->t.goal;
    if (view == TL_SEARCH_AS_MEASURED)
        tl_search_random_exact(b->t.n, good, k->o->round, &random);
    else
        tl_search_random_drawn(&b->t, k->o->round, RANDOM_DRAWS, k->seed ^ task, b->order, &random);
    for (uint32_t row = 0; row < k->r->n_rows && rc == 0; row++) {
        struct tl_search_tally *t = &k->r->row[row].tally[view];
        if (row == RANDOM) {
            tl_search_add(t, task, random.needed, random.in_rounds, random.first_round, &random);
            tl_search_random_curve(&b->t, 1, t->curve, TL_SEARCH_CURVE, b->order);
        } else
            rc = replay_row(k, b, row, &random, task, t);
    }
    return rc;
}

static int replay_all(const struct run *k, struct tp_err *e)
{
    const struct tl_split *s = &k->split;
    int rc = 0;
    for (uint32_t i = 0, j; i < s->n_test && rc == 0; i = j) { /* a task's programs stand together */
        struct table b;
        for (j = i; j < s->n_test && s->d->task[s->test[j]] == s->d->task[s->test[i]]; j++)
            ;
        rc = table_new(&b, j - i) ? 0 : -TP_E_NO_MEMORY;
        for (enum tl_search_view v = 0; v < TL_SEARCH_VIEWS && rc == 0; v++) {
            table_fill(&b, k, i, j, v);
            if (b.t.n >= k->o->min_programs)
                rc = replay(k, &b, v, k->c->programs[s->program[s->test[i]]].task);
        }
        table_free(&b);
    }
    return rc ? tp_fail(e, TP_E_NO_MEMORY, "no memory to replay the test tasks") : 0;
}

static int run_seed(struct run *k, char *const *keys, size_t n_keys, struct tp_err *e)
{
    const struct tl_search_opts *o = k->o;
    struct tl_split_opts so;
    tl_split_defaults(&so);
    so.per_task = o->per_task;
    so.test_per_task = o->test_per_task;
    so.min_programs = o->min_programs;
    so.seed = k->seed;
    int rc = tl_split_make(k->c, keys, n_keys, &so, &k->split, e);
    if (rc == 0)
        rc = score_all(k, &so, keys, n_keys, e);
    if (rc == 0)
        rc = replay_all(k, e);
    if (k->seed == 1) {
        k->r->train_programs = k->split.n_train + k->split.n_valid;
        k->r->test_programs = k->split.n_test;
    }
    for (uint32_t i = 0; i < k->r->n_rows; i++)
        free(k->score[i]);
    tl_split_free(&k->split);
    return rc;
}

int tl_search_run(const struct tl_corpus *c, char *const *test_keys, size_t n_keys, const struct tl_search_opts *o,
                  struct tl_search_report *r, struct tp_err *e)
{
    const char *names[FIRST_PEER + TL_SEARCH_PEERS] = {
        [TCLD] = "tcld", [RANDOM] = "random", [BEST] = "best possible", [TLP] = "this network on TLP's rows"};
    uint32_t n = first_peer(o);
    for (uint32_t i = 0; i < o->n_peers; i++)
        names[n++] = o->peer[i].name;
    *r = (struct tl_search_report){.round = o->round,
                                   .per_task = o->per_task,
                                   .test_per_task = o->test_per_task,
                                   .seeds = o->seeds,
                                   .epochs = (uint32_t)o->epochs,
                                   .tlp_epochs = (uint32_t)o->tlp_epochs,
                                   .within = o->within,
                                   .epsilon = o->epsilon};
    int rc = tl_search_report_init(r, names, n, c->n_tasks);
    if (rc)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for %u orders", n);
    for (uint32_t seed = 1; seed <= o->seeds && rc == 0; seed++) {
        struct run k = {.c = c, .o = o, .r = r, .seed = seed};
        rc = run_seed(&k, test_keys, n_keys, e);
    }
    return rc;
}
