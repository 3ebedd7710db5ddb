#include "lab/split.h"

#include "sampler/sample.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KNOWN_TEST_SHARE = 10 /* TL_BY_PROGRAM: one in so many programs is tested */ };

void tl_split_defaults(struct tl_split_opts *o)
{
    *o = (struct tl_split_opts){.test_per_task = 400, .min_programs = 32, .valid_fraction = 0.1, .seed = 1};
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct draw {
    const struct tl_program *programs;
    uint64_t seed;
};

/* Tasks together, each task's programs in the order of the draw. */
static int by_task_and_draw(const void *a, const void *b, void *arg)
{
    const struct draw *d = arg;
    const struct tl_program *x = &d->programs[*(const uint32_t *)a], *y = &d->programs[*(const uint32_t *)b];
    if (x->task != y->task)
        return x->task < y->task ? -1 : 1;
    uint64_t dx = ts_draw(d->seed, x->hash), dy = ts_draw(d->seed, y->hash);
    return dx != dy ? (dx < dy ? -1 : 1) : memcmp(x->hash, y->hash, 16);
}

struct maker {
    const struct tl_corpus *c;
    const struct tl_split_opts *o;
    struct tl_split *s;
    struct tp_record scratch;
};

/* Encode a program and append it to a list. */
static int take(struct maker *k, uint32_t program, uint32_t *list, size_t *n, struct tp_err *e)
{
    struct tm_dataset *d = k->s->d;
    const struct tl_program *p = &k->c->programs[program];
    int rc = tl_corpus_encode(k->c, program, k->o->by_mean ? p->mean_cost : p->min_cost, d, &k->scratch, e);
    if (rc)
        return rc;
    k->s->program[d->n - 1] = program;
    list[(*n)++] = d->n - 1;
    return 0;
}

/* The first `want` of a task's programs (0 = all); only valid ones for the test. */
static int take_some(struct maker *k, const uint32_t *programs, uint32_t n, uint32_t want, bool test, struct tp_err *e)
{
    uint32_t taken = 0;
    int rc = 0;
    for (uint32_t i = 0; i < n && rc == 0 && !(want && taken == want); i++) {
        if (test && !isfinite(k->c->programs[programs[i]].min_cost))
            continue;
        rc = test ? take(k, programs[i], k->s->test, &k->s->n_test, e)
                  : take(k, programs[i], k->s->train, &k->s->n_train, e);
        taken++;
    }
    return rc;
}

/* One task, whose programs stand in the order of the draw. */
static int take_task(struct maker *k, const uint32_t *programs, uint32_t n, bool held_out, struct tp_err *e)
{
    const struct tl_split_opts *o = k->o;
    const struct tl_task *t = &k->c->tasks[k->c->programs[programs[0]].task];
    if (o->holdout == TL_BY_TASK) {
        if (held_out && t->valid < o->min_programs) {
            k->s->tasks_skipped++;
            return 0;
        }
        return take_some(k, programs, n, held_out ? o->test_per_task : o->per_task, held_out, e);
    }
    uint32_t test = n / KNOWN_TEST_SHARE > o->min_programs ? n / KNOWN_TEST_SHARE : o->min_programs;
    if (t->valid < 4 * o->min_programs) {
        k->s->tasks_skipped++;
        test = 0;
    }
    int rc = take_some(k, programs, test, o->test_per_task, true, e);
    return rc ? rc : take_some(k, programs + test, n - test, o->per_task, false, e);
}

/* Move whole training tasks to the list that chooses the epoch; or one program in so many, where tests are of known
 * tasks too. */
static void hold_out(struct tl_split *s, const struct tl_split_opts *o)
{
    size_t n = s->n_train, kept = 0;
    uint32_t last = UINT32_MAX;
    bool valid = false;
    struct tm_rng rng;
    tm_rng_seed(&rng, o->seed ^ 0x5eed);
    for (size_t i = 0; i < n; i++) {
        uint32_t p = s->train[i];
        bool new_task = s->d->task[p] != last;
        last = s->d->task[p];
        if (new_task || o->holdout == TL_BY_PROGRAM)
            valid = tm_rng_uniform(&rng) < o->valid_fraction;
        if (new_task)
            *(valid && o->holdout == TL_BY_TASK ? &s->valid_tasks : &s->train_tasks) += 1;
        if (valid)
            s->valid[s->n_valid++] = p;
        else
            s->train[kept++] = p;
    }
    s->n_train = kept;
}

static int encode_all(struct maker *k, char *const *test_keys, size_t n_keys, uint32_t *order, struct tp_err *e)
{
    const struct tl_corpus *c = k->c;
    struct draw draw = {c->programs, k->o->seed};
    int rc = 0;
    for (uint32_t i = 0; i < c->n_programs; i++)
        order[i] = i;
    qsort_r(order, c->n_programs, sizeof *order, by_task_and_draw, &draw);
    for (uint32_t i = 0, j; i < c->n_programs && rc == 0; i = j) {
        const uint32_t task = c->programs[order[i]].task;
        const char *key = c->tasks[task].workload_key;
        for (j = i; j < c->n_programs && c->programs[order[j]].task == task; j++)
            ;
        if (k->o->tlp && c->tasks[task].gpu != c->tasks[0].gpu)
            return tp_fail(e, TP_E_UNUSABLE, "TLP's rows differ between CPU and GPU: give logs of one of them");
        bool held_out = n_keys && bsearch(&key, test_keys, n_keys, sizeof *test_keys, by_text) != NULL;
        rc = take_task(k, order + i, j - i, held_out, e);
    }
    return rc;
}

int tl_split_make(const struct tl_corpus *c, char *const *test_keys, size_t n_keys, const struct tl_split_opts *o,
                  struct tl_split *s, struct tp_err *e)
{
    struct maker k = {.c = c, .o = o, .s = s};
    const size_t n = (size_t)c->n_programs + 1;
    uint32_t *order = malloc(n * sizeof *order);
    enum tclfeat_set set = !o->tlp                         ? TCLFEAT_TCLF_1
                           : c->n_tasks && c->tasks[0].gpu ? TCLFEAT_TLP_GPU_1
                                                           : TCLFEAT_TLP_CPU_1;
    int rc = 0;
    *s = (struct tl_split){.d = tm_dataset_new(set),
                           .program = malloc(n * sizeof *s->program),
                           .train = malloc(n * sizeof *s->train),
                           .valid = malloc(n * sizeof *s->valid),
                           .test = malloc(n * sizeof *s->test)};
    tp_record_init(&k.scratch);
    if (!order || !s->d || !s->program || !s->train || !s->valid || !s->test)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for %u programs", c->n_programs);
    if (rc == 0)
        rc = encode_all(&k, test_keys, n_keys, order, e);
    if (rc == 0)
        hold_out(s, o);
    if (rc == 0 && (s->n_test == 0 || s->n_train == 0))
        rc = tp_fail(e, TP_E_NOT_ENOUGH_DATA,
                     "%zu programs to train on and %zu to test: the key file must name some of the logs' workload "
                     "keys, not all",
                     s->n_train, s->n_test);
    tp_record_free(&k.scratch);
    free(order);
    if (rc)
        tl_split_free(s);
    return rc;
}

void tl_split_free(struct tl_split *s)
{
    tm_dataset_free(s->d);
    free(s->program);
    free(s->train);
    free(s->valid);
    free(s->test);
    *s = (struct tl_split){0};
}

int tl_keys_read(const char *path, char ***keys, size_t *n)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0, room = 0;
    ssize_t len;
    if (f == NULL) {
        fprintf(stderr, "lab: %s: %s\n", path, strerror(errno));
        return -1;
    }
    while ((len = getline(&line, &cap, f)) >= 0) {
        while (len && strchr("\r\n", line[len - 1]))
            line[--len] = '\0';
        if (len == 0)
            continue;
        if (*n == room) {
            room = room ? 2 * room : 64;
            char **v = realloc(*keys, room * sizeof *v);
            if (v == NULL)
                break;
            *keys = v;
        }
        (*keys)[(*n)++] = strdup(line);
    }
    free(line);
    fclose(f);
    if (*n)
        qsort(*keys, *n, sizeof **keys, by_text);
    return 0;
}

void tl_keys_free(char **keys, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(keys[i]);
    free(keys);
}
