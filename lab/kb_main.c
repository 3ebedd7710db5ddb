/* lab kb: starter knowledge. Trains a knowledge base from the logs of several kinds of hardware, one after another, and
 * writes it with what it was made from: sources, licences, what was left out, how good it is on tasks it has not seen.
 */
#include "ckd/adapt.h"
#include "ckd/champion.h"
#include "lab/cli.h"
#include "lab/lab.h"
#include "lab/split.h"
#include "model/mem.h"
#include "sampler/sample.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SOURCES_MAX = 16, NOT_MAX = 16 };

static const char usage[] =
    "usage: lab kb --out FILE [OPTION...] NAME:LICENCE:LOGS...\n"
    "  NAME:LICENCE:LOGS   a source, in the order of learning: its hardware, the licence of its logs, a file or "
    "folder\n"
    "  --out FILE          the knowledge base\n"
    "  --not FILE          workload keys, one a line, that are not learned; a source's programs of them tell how good\n"
    "                      the knowledge base is on new tasks. May be given again\n"
    "  --per-task N        at most N programs of each task (all)\n"
    "  --meta N            rounds of meta-learning for the initial weights of hardware that resembles nobody (1500)\n"
    "  --epochs N          of each source's training (by default those of ckd/phases.h)\n"
    "  --threads N         (all cores)\n"
    "  --seed N            (1)\n";

struct source {
    char *name, *licence, *path; /* parts of an argument */
    struct tl_corpus *corpus;
    struct tm_dataset *ds;
    uint32_t *train, *valid, *test; /* owned: programs of ds */
    size_t n_train, n_valid, n_test;
    struct tm_metrics alone; /* on test; tasks 0: it has none */
};

struct maker {
    const char *out;
    char * * not [NOT_MAX];
    size_t n_not[NOT_MAX], not_lists;
    uint32_t per_task;
    int epochs, threads;
    uint32_t meta; /* rounds; 0: the default */
    uint64_t seed;
    struct source source[SOURCES_MAX];
    uint32_t n;
    bool refused[SOURCES_MAX];
    double told; /* last progress line */
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool left_out(const struct maker *k, const char *key)
{
    for (size_t i = 0; i < k->not_lists; i++)
        if (bsearch(&key, k->not [i], k -> n_not[i], sizeof key, by_text))
            return true;
    return false;
}

/* ---- data ---- */

/* Add the programs of the tasks that are learned, or of the others. */
static int encode(const struct maker *k, struct source *s, bool learned, const uint8_t *take, uint8_t (*key)[16],
                  struct tp_record *scratch, struct tp_err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < s->corpus->n_programs && rc == 0; i++) {
        const struct tl_program *p = &s->corpus->programs[i];
        if (!take[i] || left_out(k, s->corpus->tasks[p->task].workload_key) == learned)
            continue;
        rc = tl_corpus_encode(s->corpus, i, p->min_cost, s->ds, scratch, e);
        if (rc == 0)
            memcpy(key[s->ds->n - 1], p->hash, 16);
    }
    return rc;
}

/* The split of learned tasks that the daemon makes too (ckd/champion.h), while there are no others in ds. */
static int split(struct source *s, const uint8_t (*key)[16], struct tp_err *e)
{
    bool by_record;
    const size_t n = s->ds->n ? s->ds->n : 1;
    if (!(s->train = tm_alloc(n, sizeof *s->train)) || !(s->valid = tm_alloc(n, sizeof *s->valid)))
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for %s", s->name);
    return tk_holdout_split(s->ds, key, s->train, &s->n_train, s->valid, &s->n_valid, &by_record, e);
}

static int load(const struct maker *k, struct source *s, struct tp_err *e)
{
    struct tp_record scratch;
    uint8_t *take = NULL, (*key)[16] = NULL;
    uint32_t *task = NULL;
    tp_record_init(&scratch);
    int rc = (s->corpus = tl_corpus_new()) && (s->ds = tm_dataset_new(TCLFEAT_TCLF_1))
                 ? tl_corpus_read(s->corpus, s->path, e)
                 : tp_fail(e, TP_E_NO_MEMORY, "no memory for %s", s->name);
    if (rc)
        goto out;
    const uint32_t n = s->corpus->n_programs;
    if (!(take = tm_alloc(n, 1)) || !(key = tm_alloc(n, sizeof *key)) || !(task = tm_alloc(n, sizeof *task))) {
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for %s", s->name);
        goto out;
    }
    for (uint32_t i = 0; i < n; i++) {
        task[i] = s->corpus->programs[i].task;
        memcpy(key[i], s->corpus->programs[i].hash, 16);
    }
    rc = ts_sample(task, (const uint8_t(*)[16])key, n, k->per_task ? k->per_task : UINT32_MAX, k->seed, take, NULL, e);
    if (rc == 0)
        rc = encode(k, s, true, take, key, &scratch, e);
    if (rc == 0)
        rc = split(s, (const uint8_t(*)[16])key, e);
    const uint32_t learned = s->ds->n;
    if (rc == 0)
        rc = encode(k, s, false, take, key, &scratch, e);
    if (rc == 0 && !(s->test = tm_alloc(s->ds->n - learned + 1, sizeof *s->test)))
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for %s", s->name);
    for (uint32_t i = learned; rc == 0 && i < s->ds->n; i++)
        s->test[s->n_test++] = i;
    if (rc == 0)
        fprintf(stderr, "lab kb: %s: %zu programs to learn from, %zu held out, %zu of tasks that are not learned\n",
                s->name, s->n_train, s->n_valid, s->n_test);
out:
    tp_record_free(&scratch);
    free(take);
    free(key);
    free(task);
    return rc;
}

static void source_free(struct source *s)
{
    tl_corpus_free(s->corpus);
    tm_dataset_free(s->ds);
    free(s->train);
    free(s->valid);
    free(s->test);
}

/* GPU and CPU never mix. */
static int kind_of(const struct maker *k, enum tp_target_kind *kind, struct tp_err *e)
{
    for (uint32_t i = 0; i < k->n; i++)
        for (uint32_t t = 0; t < k->source[i].corpus->n_tasks; t++) {
            const enum tp_target_kind own = k->source[i].corpus->tasks[t].gpu ? TP_TARGET_GPU : TP_TARGET_CPU;
            if ((i || t) && own != *kind)
                return tp_fail(e, TP_E_UNUSABLE, "%s: programs of CPUs and of GPUs are not learned together",
                               k->source[i].name);
            *kind = own;
        }
    return 0;
}

/* ---- training ---- */

static int progress(void *arg, const struct tk_progress *p)
{
    struct maker *k = arg;
    if (tl_seconds() - k->told < 10)
        return 0;
    k->told = tl_seconds();
    fprintf(stderr, "lab kb: %-8s %3.0f %%  epoch %d/%d  loss %.4f  pairwise %.4f\n", p->phase, 100 * p->fraction,
            p->epoch, p->epochs, p->loss, p->valid_pairwise);
    return 0;
}

static int after_source(void *arg, const struct tk_kb *kb, const struct tk_adapt_state *s, uint32_t done)
{
    const struct maker *k = arg;
    (void)kb;
    (void)s;
    fprintf(stderr, "lab kb: %s %s\n", k->source[done - 1].name, k->refused[done - 1] ? "refused" : "learned");
    return 0;
}

static int train(struct maker *k, enum tp_target_kind kind, struct tk_kb **kb, struct tp_err *e)
{
    struct tk_source source[SOURCES_MAX];
    struct tk_pretrain p;
    struct tk_meta_opts meta;
    tk_pretrain_defaults(&p);
    tk_meta_defaults(&meta);
    meta.rounds = k->meta ? k->meta : meta.rounds;
    p.meta = &meta;
    p.kind = kind;
    p.sources = source;
    p.n = k->n;
    p.run = (struct tk_run){.seed = k->seed, .threads = k->threads, .progress = progress, .arg = k};
    p.checkpoint = after_source;
    p.checkpoint_arg = k;
    if (k->epochs) {
        p.scratch.train.epochs = p.cl.train.epochs = p.kd.train.epochs = k->epochs;
        p.scratch.steps = p.cl.steps = p.kd.steps = 0;
    }
    for (uint32_t i = 0; i < k->n; i++) {
        const struct source *s = &k->source[i];
        source[i] = (struct tk_source){
            .name = s->name, .train = {s->ds, s->train, s->n_train}, .valid = {s->ds, s->valid, s->n_valid}};
    }
    return tk_pretrain(&p, NULL, 0, k->refused, kb, e);
}

/* ---- what it is made from ---- */

static void put_source(const struct source *s, bool refused, struct tp_buf *b)
{
    tp_buf_printf(b, "{\"hardware\": \"%s\", \"licence\": \"%s\", \"records\": %zu, \"programs\": %zu, \"tasks\": %u, ",
                  s->name, s->licence, s->corpus->records, s->n_train, s->corpus->n_tasks);
    tp_buf_printf(b, "\"learned\": %s, \"new_tasks\": %u", refused ? "false" : "true", s->alone.tasks);
    if (s->alone.tasks) {
        tl_put_number(b, "top1_mean", "", s->alone.top1_mean);
        tl_put_number(b, "pairwise", "", s->alone.pairwise);
    }
    tp_buf_putc(b, '}');
}

static int describe(struct maker *k, const struct tk_kb *kb, struct tm_provenance *p, struct tp_err *e)
{
    const struct tk_run run = {.seed = k->seed, .threads = k->threads};
    struct tp_buf b = {0};
    time_t now = time(NULL);
    struct tm tm;
    int rc = 0;
    *p = (struct tm_provenance){.seed = k->seed};
    if (gmtime_r(&now, &tm))
        strftime(p->created, sizeof p->created, "%Y-%m-%dT%H:%M:%SZ", &tm);
    tp_buf_puts(&b, "{\"made_by\": \"lab kb\", \"left_out\": \"tasks that the benchmarks and the demo hold out\", "
                    "\"sources\": [");
    for (uint32_t i = 0; i < k->n && rc == 0; i++) {
        struct source *s = &k->source[i];
        const struct tk_set test = {s->ds, s->test, s->n_test};
        if (s->n_test)
            rc = tk_measure(kb->model, &test, &run, &s->alone, e);
        p->records += (int64_t)s->corpus->records;
        p->programs += (int64_t)s->n_train;
        p->tasks += s->corpus->n_tasks;
        tp_buf_puts(&b, i ? ", " : "");
        put_source(s, k->refused[i], &b);
    }
    tp_buf_puts(&b, "]}");
    if (rc == 0 && (b.oom || b.n >= sizeof p->training))
        rc = tp_fail(e, TP_E_UNUSABLE, "the description of %u sources is too long", k->n);
    if (rc == 0) {
        memcpy(p->training, b.p, b.n);
        fprintf(stdout, "%.*s\n", (int)b.n, b.p);
    }
    tp_buf_free(&b);
    return rc;
}

/* ---- command line ---- */

static bool add_source(struct maker *k, char *text)
{
    struct source *s = &k->source[k->n];
    char *licence = strchr(text, ':'), *path = licence ? strchr(licence + 1, ':') : NULL;
    if (!path || k->n == SOURCES_MAX || strpbrk(text, "\"\\"))
        return false;
    *licence = *path = '\0';
    *s = (struct source){.name = text, .licence = licence + 1, .path = path + 1};
    k->n++;
    return true;
}

static bool take(struct maker *k, int option, char *text)
{
    double v = 0;
    switch (option) {
    case 'o':
        k->out = text;
        return true;
    case 'x':
        if (k->not_lists == NOT_MAX || tl_keys_read(text, &k->not [k->not_lists], &k -> n_not[k->not_lists]))
            return false;
        k->not_lists++;
        return true;
    case 'p':
        return tl_cli_number("kb", "per-task", text, 1, 1e9, &v) && (k->per_task = (uint32_t)v, true);
    case 'm':
        return tl_cli_number("kb", "meta", text, 1, 1e6, &v) && (k->meta = (uint32_t)v, true);
    case 'e':
        return tl_cli_number("kb", "epochs", text, 1, 10000, &v) && (k->epochs = (int)v, true);
    case 't':
        return tl_cli_number("kb", "threads", text, 1, 256, &v) && (k->threads = (int)v, true);
    case 's':
        return tl_cli_number("kb", "seed", text, 0, 9007199254740992.0, &v) && (k->seed = (uint64_t)v, true);
    default:
        return false;
    }
}

int tl_kb_main(int argc, char **argv)
{
    static const struct option options[] = {{"out", required_argument, NULL, 'o'},
                                            {"not", required_argument, NULL, 'x'},
                                            {"per-task", required_argument, NULL, 'p'},
                                            {"epochs", required_argument, NULL, 'e'},
                                            {"meta", required_argument, NULL, 'm'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct maker *k = calloc(1, sizeof *k);
    struct tm_provenance *p = calloc(1, sizeof *p);
    struct tk_kb *kb = NULL;
    struct tp_err e = {0};
    enum tp_target_kind kind = TP_TARGET_CPU;
    int rc = -1, status = 2;
    bool ok = k && p;
    if (ok) {
        k->threads = tl_cores();
        k->seed = 1;
    }
    for (int c; ok && (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'h') {
            fputs(usage, stdout);
            status = 0;
            goto out;
        }
        ok = take(k, c, optarg);
    }
    for (; ok && optind < argc; optind++)
        ok = add_source(k, argv[optind]);
    if (!ok || !k->out || k->n == 0) {
        fputs(usage, stderr);
        goto out;
    }
    rc = 0;
    for (uint32_t i = 0; i < k->n && rc == 0; i++)
        rc = load(k, &k->source[i], &e);
    if (rc == 0)
        rc = kind_of(k, &kind, &e);
    if (rc == 0)
        rc = train(k, kind, &kb, &e);
    if (rc == 0)
        rc = describe(k, kb, p, &e);
    if (rc == 0)
        rc = tk_kb_save(k->out, kb, p, &e);
    if (rc)
        fprintf(stderr, "lab kb: %s\n", e.detail);
    status = rc ? 1 : 0;
out:
    for (uint32_t i = 0; k && i < k->n; i++)
        source_free(&k->source[i]);
    for (size_t i = 0; k && i < k->not_lists; i++)
        tl_keys_free(k->not [i], k -> n_not[i]);
    tk_kb_free(kb);
    free(k);
    free(p);
    return status;
}
