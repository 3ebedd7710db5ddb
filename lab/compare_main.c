/* `lab compare`: options in, every model on every seed's split, then table, JSON and plots. */
#include "lab/cli.h"
#include "lab/compare.h"
#include "lab/eval.h"
#include "lab/lab.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: lab compare --logs DIR|FILE... --test KEYFILE | --known [OPTION...]\n"
    "\n"
    "Trains and scores tcld and published models on the same splits and seeds. Writes compare.md, compare.json and\n"
    "plots. The peers are in tests/lab/peers.py; one whose Python package is missing is left out and named.\n"
    "\n"
    "  --models LIST           of tcld,tcld-tlp,tlp,mlp,xgb,xgbrank,random (all); tcld always takes part\n"
    "  --per-task N            seeded sample of N distinct programs of each training task (all)\n"
    "  --test-per-task N       at most N distinct valid programs of each test task (400)\n"
    "  --labels min|mean       what the models learn from: minimum or mean of the repeats (min)\n"
    "  --seeds N (3)  --epochs N (40)  --threads N\n"
    "  --peer-epochs N         of tlp and mlp, instead of their own\n"
    "  --peer-set NAME.KEY=NUMBER   another setting of a peer (peers.py describe NAME); may be given again\n"
    "  --peer-threads N        (--threads)\n"
    "  --quick                 20 epochs, peers 12, bf16, one seed\n"
    "  --out DIR               results; what peers did is kept there and used again (build/lab-out/compare)\n"
    "  --name TEXT             what the data is called in the table (the logs' path)\n"
    "  --python PATH (/usr/bin/python3)  --peers PATH (tests/lab/peers.py)\n"
    "  --json                  the JSON on standard output, not the table\n";

static const char *const names[TL_MODELS] = {"tcld", "tcld-tlp", "tlp", "mlp", "xgb", "xgbrank", "random"};

struct session {
    struct tl_cli cli;
    struct tl_eval_opts eval;
    struct tl_peer_opts peer;
    struct tl_compare cmp;
    char script[4096], epochs[2][32];
    int peer_epochs; /* 0: their own */
};

static bool ours(const char *name)
{
    return strncmp(name, "tcld", 4) == 0;
}

struct watch {
    struct tl_trial *t;
    const char *name;
    uint64_t seed;
    int last;
};

static int progress(void *arg, const struct tm_progress *p)
{
    struct watch *w = arg;
    if (p->epoch >= 1 && p->epoch <= w->t->epochs) /* an epoch's last call comes after its validation */
        w->t->valid_pairwise[p->epoch - 1] = p->valid_pairwise;
    if (p->epoch != w->last && (p->epoch % 5 == 0 || p->epoch == 1))
        fprintf(stderr, "  %s, seed %" PRIu64 ": epoch %2d/%d  loss %.4f\n", w->name, w->seed, p->epoch, p->epochs,
                p->loss);
    w->last = p->epoch;
    return 0;
}

/* tcld on one split. */
static int run_ours(struct session *s, const struct tl_split *split, struct tl_contender *m, struct tl_trial *t,
                    struct tl_ceiling *ceiling, struct tp_err *e)
{
    struct watch w = {t, m->name, s->eval.split.seed, 0};
    struct tl_eval_opts o = s->eval;
    struct tl_eval_result r;
    t->epochs = o.train.epochs;
    t->valid_pairwise = calloc((size_t)t->epochs + 1, sizeof *t->valid_pairwise);
    o.progress = progress;
    o.progress_arg = &w;
    if (t->valid_pairwise == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for %d epochs", t->epochs);
    int rc = tl_eval_split(s->cli.corpus, split, &o, &r, e);
    if (rc)
        return rc;
    t->train_seconds = r.train_cpu_seconds;
    t->predict_seconds = r.predict_seconds;
    t->score = r.score;
    m->parameters = (double)r.parameters;
    *ceiling = r.ceiling;
    for (int i = 0; i < t->epochs; i++)
        if (t->best_epoch == 0 || t->valid_pairwise[i] > t->valid_pairwise[t->best_epoch - 1])
            t->best_epoch = i + 1;
    return 0;
}

static int run_theirs(struct session *s, const struct tl_split *split, struct tl_contender *m, struct tl_trial *t,
                      struct tp_err *e)
{
    double *score = malloc((split->n_test + 1) * sizeof *score);
    struct tm_rng rng;
    int rc = score ? 0 : tp_fail(e, TP_E_NO_MEMORY, "no memory for %zu scores", split->n_test);
    if (rc == 0 && strcmp(m->name, "random") == 0) {
        tm_rng_seed(&rng, s->eval.split.seed);
        for (size_t i = 0; i < split->n_test; i++)
            score[i] = tm_rng_uniform(&rng);
    } else if (rc == 0) {
        rc = tl_peer_run(m, split, s->eval.split.seed, &s->peer, t, score, e);
    }
    if (rc == 0)
        rc = tl_score_make(s->cli.corpus, split, NULL, s->eval.split.min_programs, score, NULL, &t->score, e);
    free(score);
    return rc;
}

/* Running means over the seeds of what belongs to the data. */
static void note_split(struct tl_compare *c, const struct tl_split *p, const struct tl_score *score,
                       const struct tl_ceiling *ceiling, int seed)
{
    const double k = 1.0 / (seed + 1);
    struct tl_ceiling *m = &c->ceiling;
    if (seed == 0) {
        *m = *ceiling;
        c->random_top1 = score->by_min.random_top1_mean;
        c->random_top5 = score->by_min.random_top5_mean;
        c->test_tasks = score->n;
        c->tasks_skipped = p->tasks_skipped;
        c->train_tasks = p->train_tasks;
        c->valid_tasks = p->valid_tasks;
        c->train_programs = (uint32_t)p->n_train;
        c->valid_programs = (uint32_t)p->n_valid;
        c->test_programs = (uint32_t)p->n_test;
        return;
    }
    m->pairwise += k * (ceiling->pairwise - m->pairwise);
    m->pairwise_10pct += k * (ceiling->pairwise_10pct - m->pairwise_10pct);
    m->perfect += k * (ceiling->perfect - m->perfect);
    m->top1_mean += k * (ceiling->top1_mean - m->top1_mean);
    m->top5_mean += k * (ceiling->top5_mean - m->top5_mean);
    c->random_top1 += k * (score->by_min.random_top1_mean - c->random_top1);
    c->random_top5 += k * (score->by_min.random_top5_mean - c->random_top5);
}

static int run_seed(struct session *s, int seed, struct tp_err *e)
{
    struct tl_split split[2] = {{0}}; /* tclf-1, TLP */
    struct tl_ceiling ceiling = {0}, other;
    struct tl_split_opts o = s->eval.split;
    int rc = 0;
    s->eval.split.seed = o.seed = (uint64_t)seed + 1;
    for (int tlp = 0; tlp < 2 && rc == 0; tlp++) {
        o.tlp = tlp;
        rc = tl_split_make(s->cli.corpus, s->cli.keys, s->cli.n_keys, &o, &split[tlp], e);
    }
    for (int i = 0; i < s->cmp.n_models && rc == 0; i++) {
        struct tl_contender *m = &s->cmp.model[i];
        struct tl_trial *t = &m->trial[seed];
        bool tlp = tl_peer_wants_tlp(m->name) || strcmp(m->name, "tcld-tlp") == 0;
        if (m->skipped[0])
            continue;
        fprintf(stderr, "lab compare: seed %d, %s\n", seed + 1, m->name);
        rc = ours(m->name) ? run_ours(s, &split[tlp], m, t, i ? &other : &ceiling, e)
                           : run_theirs(s, &split[tlp], m, t, e);
        if (rc == 0 && t->score.n != s->cmp.model[0].trial[0].score.n)
            rc = tp_fail(e, TP_E_UNUSABLE, "the seeds' splits test %u and %u tasks", t->score.n,
                         s->cmp.model[0].trial[0].score.n);
    }
    if (rc == 0)
        note_split(&s->cmp, &split[0], &s->cmp.model[0].trial[seed].score, &ceiling, seed);
    tl_split_free(&split[0]);
    tl_split_free(&split[1]);
    return rc;
}

/* What tcld is, for the notes. */
static int describe_ours(struct tl_contender *m, const struct tl_eval_opts *o, struct tp_err *e)
{
    bool tlp = strcmp(m->name, "tcld-tlp") == 0;
    m->latency = true;
    int n = asprintf(&m->notes, "%s; %s loss, %d x %d programs a batch, Adam %g with a cosine over %d epochs",
                     tlp ? "the same network on TLP's rows" : "tclf-1 rows and loop summary",
                     o->train.rank == TM_RANK_PAIRWISE ? "pairwise logistic" : "LambdaRank", o->train.tasks_per_batch,
                     o->train.programs_per_task, o->train.lr, o->train.epochs);
    m->title = strdup(tlp ? "tcld on TLP's rows" : "tcld");
    return n > 0 && m->title ? 0 : tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
}

static int prepare(struct session *s, const char *list, struct tp_err *e)
{
    int rc = 0;
    for (int i = 0; i < TL_MODELS && rc == 0; i++) {
        struct tl_contender *m = &s->cmp.model[s->cmp.n_models];
        if (list && i > 0 && !tl_listed(list, names[i]))
            continue;
        *m = (struct tl_contender){.name = names[i], .trial = calloc((size_t)s->cmp.seeds, sizeof *m->trial)};
        s->cmp.n_models++;
        if (m->trial == NULL)
            rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a model");
        else if (ours(m->name))
            rc = describe_ours(m, &s->eval, e);
        else if (strcmp(m->name, "random") == 0)
            rc = (m->title = strdup("random order")) && (m->notes = strdup("")) ? 0 : -TP_E_NO_MEMORY;
        else
            rc = tl_peer_describe(m, &s->peer, e);
        if (m->skipped[0])
            fprintf(stderr, "lab compare: %s is left out: %s\n", m->name, m->skipped);
    }
    return rc;
}

/* The script: beside the working folder, else beside the binary's. */
static void find_script(struct session *s)
{
    static const char tail[] = "/../tests/lab/peers.py";
    s->peer.script = "tests/lab/peers.py";
    ssize_t n = readlink("/proc/self/exe", s->script, sizeof s->script - sizeof tail);
    if (access(s->peer.script, R_OK) == 0 || n <= 0)
        return;
    while (n > 0 && s->script[n - 1] != '/')
        n--;
    memcpy(s->script + (n ? n - 1 : 0), tail, sizeof tail);
    s->peer.script = s->script;
}

static int print_file(const char *dir, const char *name)
{
    char path[4096], block[4096];
    size_t n;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "r");
    while (f && (n = fread(block, 1, sizeof block, f)) > 0)
        fwrite(block, 1, n, stdout);
    return f ? fclose(f) : -1;
}

static void set(struct session *s, const char *change)
{
    if (s->peer.n_set < TL_PEER_SET)
        s->peer.set[s->peer.n_set++] = change;
}

static int peer_set(void *to, char *text)
{
    set(to, text);
    return TL_GO_ON;
}

static void set_epochs(struct session *s)
{
    static const char *const of[2] = {"tlp", "mlp"};
    for (int i = 0; i < 2 && s->peer_epochs; i++) {
        snprintf(s->epochs[i], sizeof s->epochs[i], "%s.epochs=%d", of[i], s->peer_epochs);
        set(s, s->epochs[i]);
    }
}

static int quick(void *to, char *text)
{
    struct session *s = to;
    (void)text;
    s->eval.train.epochs = 20;
    s->peer_epochs = 12;
    set(s, "tlp.bf16=1");
    s->cmp.seeds = 1;
    return TL_GO_ON;
}

static int run(struct session *s, const char *models, struct tp_err *e)
{
    int rc = tl_folder(s->peer.dir, e);
    if (rc == 0)
        rc = prepare(s, models, e);
    for (int seed = 0; seed < s->cmp.seeds && rc == 0; seed++)
        rc = run_seed(s, seed, e);
    return rc ? rc : tl_compare_write(&s->cmp, s->peer.dir, e);
}

int tl_compare_main(int argc, char **argv)
{
    static struct session s = {.cli = {.command = "compare", .usage = usage}};
    const char *models = NULL;
    struct tp_err e = {0};
    tl_eval_defaults(&s.eval);
    s.eval.train.threads = tl_cores();
    s.peer = (struct tl_peer_opts){.python = "/usr/bin/python3", .dir = "build/lab-out/compare"};
    s.cmp.seeds = 3;
    find_script(&s);
    const struct tl_option options[] = {
        {.name = "known", .kind = TL_FLAG, .to = &s.cli.known},
        {.name = "labels", .kind = TL_CHOICE, .to = &s.eval.split.by_mean, .first = "min", .second = "mean"},
        {.name = "models", .kind = TL_TEXT, .to = &models},
        {.name = "out", .kind = TL_TEXT, .to = &s.peer.dir},
        {.name = "name", .kind = TL_TEXT, .to = &s.cmp.logs},
        {.name = "python", .kind = TL_TEXT, .to = &s.peer.python},
        {.name = "peers", .kind = TL_TEXT, .to = &s.peer.script},
        {.name = "peer-set", .kind = TL_CALL, .to = &s, .call = peer_set},
        {.name = "quick", .kind = TL_DO, .to = &s, .call = quick},
        TL_NUMBER("per-task", &s.eval.split.per_task, 1, 1e9),
        TL_NUMBER("test-per-task", &s.eval.split.test_per_task, 2, 1e9),
        TL_NUMBER("seeds", &s.cmp.seeds, 1, TL_SEEDS),
        TL_NUMBER("epochs", &s.eval.train.epochs, 1, 10000),
        TL_NUMBER("threads", &s.eval.train.threads, 1, 256),
        TL_NUMBER("peer-epochs", &s.peer_epochs, 1, 10000),
        TL_NUMBER("peer-threads", &s.peer.threads, 1, 256),
    };
    int rc = tl_cli_read(&s.cli, argc, argv, options, sizeof options / sizeof *options);
    if (rc != TL_GO_ON)
        goto out;
    set_epochs(&s);
    s.eval.split.holdout = s.cli.known ? TL_BY_PROGRAM : TL_BY_TASK;
    s.peer.threads = s.peer.threads ? s.peer.threads : s.eval.train.threads;
    s.cmp.logs = s.cmp.logs ? s.cmp.logs : s.cli.logs;
    s.cmp.per_task = s.eval.split.per_task;
    s.cmp.known = s.cli.known;
    s.cmp.by_mean = s.eval.split.by_mean;
    if (run(&s, models, &e)) {
        fprintf(stderr, "lab compare: %s\n", e.detail);
        rc = 1;
    } else {
        rc = print_file(s.peer.dir, s.cli.json ? "compare.json" : "compare.md") ? 1 : 0;
    }
out:
    tl_compare_free(&s.cmp);
    tl_cli_free(&s.cli);
    return rc;
}
