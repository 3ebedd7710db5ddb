/* The closed loop at work: a real daemon, 16 agents that answer from recorded logs (build/replay), a pool of more than
 * 20,000 real programs; rounds of select, lease, measure, retrain, and after each how well the active model ranks tasks
 * that nobody measures. The same with random choices beside it.
 *
 *   bench_fleet [-t TCLD] [-a REPLAY] [-l folder of logs] [-k file of held-out workload keys] [-r rounds] [-f percent
 * of the pool in a round] [-s seed] [-n programs of a task in the pool]
 *               [-e epochs of a training, 0: as the daemon chooses]
 *
 * Which programs are in the pool depends on their hashes alone. State, logs and output of agents lie under $TMPDIR. */
#include "clients/client.h"
#include "model/metrics.h"
#include "sampler/sample.h"
#include "tests/bench/bench.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AGENTS = 16, MAX_ROUNDS = 50, MAX_FILES = 64, BODY = 4000, LEAST = 20000, TEST_PER_TASK = 60, METHODS = 2 };
static const char HW[] = "/v1/hardware/fleet";
static const char *const methods[METHODS] = {"random", "rdu"}; /* random first: it is the other's peer */

static struct {
    const char *tcld, *replay, *logs, *keys;
    int rounds, per_task, epochs;
    double percent;
    long seed;
} opt = {.tcld = "build/tcld",
         .replay = "build/replay",
         .logs = "../shared/data/public/x86-24t",
         .keys = "../shared/data/splits/x86-24t.test.txt",
         .rounds = 5,
         .per_task = 100,
         .percent = 2,
         .seed = 1};

/* ---- programs ---- */

struct line {
    const char *p; /* in a text that stays */
    uint32_t n, task;
    double draw, cost; /* [0,1) from the hash; INFINITY: a failure */
};
struct task {
    char id[TP_TASK_ID_LEN + 1];
    bool test;
    uint32_t records;
};
static struct line *lines;
static struct task *tasks;
static size_t n_lines, cap_lines, n_tasks, cap_tasks;
static char target[256];

static void *room(void *p, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return p;
    *cap = *cap ? 2 * *cap : 1024;
    p = realloc(p, *cap * size);
    if (!p)
        bench_die("out of memory");
    return p;
}

static bool is_key(const char *keys, struct tp_str key)
{
    for (const char *p = keys; *p; p += strcspn(p, "\n") + (p[strcspn(p, "\n")] != '\0'))
        if (strcspn(p, "\r\n") == key.n && memcmp(p, key.s, key.n) == 0)
            return true;
    return false;
}

static uint32_t task_of(const struct tp_record *r, const char *keys)
{
    char id[TP_TASK_ID_LEN + 1];
    tp_task_id(&r->task, id);
    for (size_t i = n_tasks; i-- > 0;) /* files hold runs of one task */
        if (strcmp(tasks[i].id, id) == 0)
            return (uint32_t)i;
    tasks = room(tasks, n_tasks, &cap_tasks, sizeof *tasks);
    tasks[n_tasks] = (struct task){.test = is_key(keys, r->task.workload_key)};
    memcpy(tasks[n_tasks].id, id, sizeof id);
    snprintf(target, sizeof target, "%.*s", (int)r->task.target.n, r->task.target.s);
    return (uint32_t)n_tasks++;
}

static void read_log(const char *path, const char *keys)
{
    struct bench_text text = bench_read(path); /* stays */
    struct tp_record r;
    struct tp_buf packed = {0};
    tp_record_init(&r);
    for (const char *p = text.p, *end; *p; p = *end ? end + 1 : end) {
        struct tp_err e;
        uint8_t hash[16];
        end = p + strcspn(p, "\n");
        if (end == p || tp_record_parse(&r, p, (size_t)(end - p), &e))
            continue;
        lines = room(lines, n_lines, &cap_lines, sizeof *lines);
        const uint32_t task = task_of(&r, keys);
        packed.n = 0;
        tp_steps_pack(r.steps, r.n_steps, &packed);
        tp_program_hash(tasks[task].id, packed.p, packed.n, hash);
        const bool valid = tp_record_label(&r) == TP_LABEL_VALID;
        lines[n_lines] = (struct line){.p = p,
                                       .n = (uint32_t)(end - p),
                                       .task = task,
                                       .draw = 0x1p-64 * (double)ts_draw(1, hash),
                                       .cost = valid ? tp_result_min_cost(&r.result) : INFINITY};
        n_lines++;
        tasks[task].records++;
    }
    tp_record_free(&r);
    tp_buf_free(&packed);
}

static bool read_logs(void)
{
    struct dirent **names;
    int n = access(opt.keys, R_OK) == 0 ? scandir(opt.logs, &names, NULL, alphasort) : -1;
    if (n < 0)
        return false;
    struct bench_text keys = bench_read(opt.keys);
    for (int i = 0; i < n; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", opt.logs, names[i]->d_name);
        if (strstr(names[i]->d_name, ".json"))
            read_log(path, keys.p);
        free(names[i]);
    }
    free(names);
    free(keys.p);
    return n_lines > 0;
}

/* A share of the task's programs, by their draws. */
static bool drawn(const struct line *l, bool test)
{
    const struct task *t = &tasks[l->task];
    return t->test == test && l->draw * t->records < (test ? TEST_PER_TASK : opt.per_task) &&
           (!test || isfinite(l->cost));
}

/* ---- the daemon ---- */

struct loop {
    struct tc_http *http;
    struct tc_daemon *daemon;
    pid_t agent[AGENTS];
    const char *method;
    int64_t pooled;
    struct {
        double measured, pairwise, top1, select, measure, train; /* seconds */
    } round[MAX_ROUNDS + 1];
};

static json_t *ask(struct loop *l, const char *method, const char *what, json_t *body)
{
    char path[256];
    json_t *out = NULL;
    struct tc_err e;
    snprintf(path, sizeof path, "%s%s", *what == '/' && strncmp(what, "/v1", 3) == 0 ? "" : HW, what);
    if (tc_json(l->http, method, path, body, &out, &e))
        bench_die("%s", e.text);
    json_decref(body);
    return out;
}

static json_t *job(struct loop *l, const char *what, json_t *body)
{
    json_t *j = ask(l, "POST", what, body), *done = NULL;
    struct tc_err e;
    if (tc_job_wait(l->http, tc_int(j, "/id", 0), 3600, NULL, NULL, &done, &e))
        bench_die("%s", e.text);
    if (strcmp(tc_str(done, "/state"), "succeeded") != 0)
        bench_die("%s: the job ended %s: %s", what, tc_str(done, "/state"), json_dumps(done, 0));
    json_decref(j);
    return done;
}

static void start_daemon(struct loop *l, const char *dir)
{
    char state[1024];
    struct tc_err e;
    snprintf(state, sizeof state, "%s/%s", dir, l->method);
    const struct tc_daemon_opts o = {.binary = opt.tcld, .state_dir = state};
    if (tc_daemon_start(&o, &l->daemon, &e) || !(l->http = tc_http_new(tc_daemon_base(l->daemon), &e)))
        bench_die("%s", e.text);
    json_decref(ask(l, "PUT", "", json_pack("{s:s}", "target", target)));
}

static void post_pool(struct loop *l)
{
    struct tp_buf b = {0};
    char path[64];
    struct tc_err e;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/candidates", HW);
    for (size_t i = 0; i <= n_lines; i++) {
        if (i < n_lines && drawn(&lines[i], false)) {
            tp_buf_put(&b, lines[i].p, lines[i].n);
            tp_buf_putc(&b, '\n');
            n++;
        }
        if (n == BODY || (i == n_lines && n)) {
            json_t *out = NULL;
            if (tc_post_lines(l->http, path, b.p, b.n, &out, &e))
                bench_die("%s", e.text);
            l->pooled += tc_int(out, "/accepted", 0);
            json_decref(out);
            b.n = n = 0;
        }
    }
    tp_buf_free(&b);
}

static void start_agent(struct loop *l, int number, const char *dir)
{
    char name[32], out[1024], log[1024];
    const pid_t parent = getpid();
    snprintf(name, sizeof name, "agent-%d", number);
    snprintf(out, sizeof out, "%s/%s-%s", dir, l->method, name);
    snprintf(log, sizeof log, "%s/pool.json", dir);
    if ((l->agent[number] = fork()) < 0)
        bench_die("fork: no agent");
    if (l->agent[number] > 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fd = open(out, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    if (getppid() != parent || fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        _exit(127);
    execl(opt.replay, "replay", "--url", tc_daemon_base(l->daemon), "--hardware", "fleet", "--agent", name, "--max",
          "16", "--delay", "0.01", "--logs", log, (char *)NULL);
    _exit(127);
}

static void stop(struct loop *l)
{
    tc_http_free(l->http);
    tc_daemon_stop(l->daemon, 30);
    tc_daemon_free(l->daemon);
}

/* A fleet that measures all that is selected; agents end when nothing is left. Returns the measurements stored. */
static double run_fleet(struct loop *l, const char *dir)
{
    int status;
    for (int i = 0; i < AGENTS; i++)
        start_agent(l, i, dir);
    for (int i = 0; i < AGENTS; i++)
        if (waitpid(l->agent[i], &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            bench_die("agent %d did not end well: see %s/%s-agent-%d", i, dir, l->method, i);
    json_t *j = ask(l, "GET", "", NULL);
    const double measured = tc_num(j, "/counts/measurements");
    if (tc_int(j, "/counts/candidates/selected", -1) != 0 || tc_int(j, "/counts/candidates/leased", -1) != 0)
        bench_die("the agents ended and left something");
    json_decref(j);
    return measured;
}

/* ---- quality ---- */

static void judge(struct loop *l, int round)
{
    uint32_t *task = bench_alloc(n_lines, sizeof *task);
    double *cost = bench_alloc(n_lines, sizeof *cost), *score = bench_alloc(n_lines, sizeof *score);
    struct tp_buf b = {0};
    struct tm_metrics m;
    struct tc_err e;
    char path[64];
    json_t *out = NULL;
    size_t n = 0;
    for (size_t i = 0; i < n_lines; i++)
        if (drawn(&lines[i], true)) {
            tp_buf_put(&b, lines[i].p, lines[i].n);
            tp_buf_putc(&b, '\n');
            task[n] = lines[i].task;
            cost[n++] = lines[i].cost;
        }
    snprintf(path, sizeof path, "%s/predict", HW);
    if (tc_post_lines(l->http, path, b.p, b.n, &out, &e))
        bench_die("%s", e.text);
    const json_t *scores = json_object_get(out, "scores");
    if (json_array_size(scores) != n)
        bench_die("%zu scores for %zu programs", json_array_size(scores), n);
    for (size_t i = 0; i < n; i++)
        score[i] = json_number_value(json_array_get(scores, i)); /* null, a record of no use: 0, the slowest */
    if (tm_metrics_compute(task, cost, score, NULL, n, (uint32_t)n_tasks, 10, &m))
        bench_die("out of memory");
    l->round[round].pairwise = m.pairwise;
    l->round[round].top1 = m.top1_mean;
    json_decref(out);
    tp_buf_free(&b);
    free(task);
    free(cost);
    free(score);
}

static void run_round(struct loop *l, int round, const char *dir)
{
    const int64_t budget = llround((double)l->pooled * opt.percent / 100);
    double t = bench_wall(), last = t;
    json_decref(job(
        l, "/selections",
        json_pack("{s:I, s:s, s:I}", "budget", (json_int_t)budget, "method", l->method, "seed", (json_int_t)opt.seed)));
    l->round[round].select = (t = bench_wall()) - last;
    last = t;
    l->round[round].measured = run_fleet(l, dir);
    l->round[round].measure = (t = bench_wall()) - last;
    last = t;
    json_t *body = json_pack("{s:s, s:I}", "mode", "finetune", "seed", (json_int_t)opt.seed);
    if (opt.epochs > 0)
        json_object_set_new(body, "epochs", json_integer(opt.epochs));
    json_decref(job(l, "/retrain", body));
    l->round[round].train = bench_wall() - last;
    judge(l, round);
    printf("%-6s round %d: %.0f measured, pairwise %.4f, top-1 %.4f; select %.1f s, measure %.1f s, train %.1f s\n",
           l->method, round, l->round[round].measured, l->round[round].pairwise, l->round[round].top1,
           l->round[round].select, l->round[round].measure, l->round[round].train);
    fflush(stdout);
}

static void run(struct loop *l, const char *dir)
{
    start_daemon(l, dir);
    post_pool(l);
    if (l->pooled < LEAST)
        bench_die("a pool of %lld programs: at least %d are wanted", (long long)l->pooled, LEAST);
    for (int round = 1; round <= opt.rounds; round++)
        run_round(l, round, dir);
    stop(l);
}

/* ---- results ---- */

static void report(const struct loop *random, const struct loop *rdu)
{
    char name[64];
    bench_result("pool", (double)rdu->pooled, "programs", NULL, NAN, ">= 20000");
    for (int i = 1; i <= opt.rounds; i++) {
        snprintf(name, sizeof name, "pairwise after %.0f", rdu->round[i].measured);
        bench_result(name, rdu->round[i].pairwise, "", "random", random->round[i].pairwise, ">= 1");
    }
    for (int i = 1; i <= opt.rounds; i++) {
        snprintf(name, sizeof name, "top-1 after %.0f", rdu->round[i].measured);
        bench_result(name, rdu->round[i].top1, "", "random", random->round[i].top1, "");
    }
    for (int i = 1; i <= opt.rounds; i++) {
        snprintf(name, sizeof name, "select, round %d", i);
        bench_result(name, rdu->round[i].select, "s", "random", random->round[i].select, "");
    }
    bench_report("fleet");
}

static void write_pool(const char *dir)
{
    struct tp_buf b = {0};
    struct tc_err e;
    char path[1024];
    for (size_t i = 0; i < n_lines; i++)
        if (drawn(&lines[i], false)) {
            tp_buf_put(&b, lines[i].p, lines[i].n);
            tp_buf_putc(&b, '\n');
        }
    snprintf(path, sizeof path, "%s/pool.json", dir);
    if (b.oom || tc_write_file(path, b.p, b.n, &e))
        bench_die("%s", b.oom ? "out of memory" : e.text);
    tp_buf_free(&b);
}

int main(int argc, char **argv)
{
    static struct loop loop[METHODS];
    char dir[BENCH_PATH];
    for (int c; (c = getopt(argc, argv, "t:a:l:k:r:f:s:n:e:")) != -1;)
        switch (c) {
        case 't':
            opt.tcld = optarg;
            break;
        case 'a':
            opt.replay = optarg;
            break;
        case 'l':
            opt.logs = optarg;
            break;
        case 'k':
            opt.keys = optarg;
            break;
        case 'r':
            opt.rounds = (int)strtol(optarg, NULL, 10);
            break;
        case 'f':
            opt.percent = strtod(optarg, NULL);
            break;
        case 's':
            opt.seed = strtol(optarg, NULL, 10);
            break;
        case 'n':
            opt.per_task = (int)strtol(optarg, NULL, 10);
            break;
        case 'e':
            opt.epochs = (int)strtol(optarg, NULL, 10);
            break;
        default:
            return 2;
        }
    if (opt.rounds < 1 || opt.rounds > MAX_ROUNDS || !(opt.percent > 0 && opt.percent <= 100) || opt.per_task < 1)
        bench_die("-r 1 to %d, -f above 0 to 100, -n at least 1", MAX_ROUNDS);
    if (!read_logs()) {
        printf("skipped: bench_fleet: no logs in %s, or no keys in %s\n", opt.logs, opt.keys);
        return 0;
    }
    bench_folder("bench-fleet", dir);
    write_pool(dir);
    for (int i = 0; i < METHODS; i++) {
        loop[i].method = methods[i];
        run(&loop[i], dir);
    }
    report(&loop[0], &loop[1]);
    tc_remove_tree(dir, NULL);
    return 0;
}
