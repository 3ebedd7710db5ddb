/* build/demo: the whole life of tcld on real tuning logs in about a minute.
 *
 * Starts a daemon on a temporary state directory, asks about the programs of two tasks that it has never seen, before
 * anything was measured (the knowledge that comes with tcld was made without them), loads a folder of logs but for the
 * two, adapts, and asks again. Every number printed is computed from the daemon's replies and the logs.
 * Ctrl-C at any moment stops the daemon and removes its state. */
#include "clients/demo.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define HARDWARE "demo-host"
#define PREDICT  "/v1/hardware/" HARDWARE "/predict"

enum { PREFERRED_PORT = 8723, MAX_EPOCHS = 1000, KEPT = 2 /* tasks */ };

struct demo {
    const char *binary, *logs_dir, *batches_dir;
    bool keep_running;
    int epochs;
    double train_seconds; /* given to the daemon as max_seconds; 0: no limit */
    bool knows;           /* the family had knowledge before anything was measured */
    struct demo_rank before[KEPT], after[KEPT];
    struct demo_screen screen;
    struct demo_logs logs;
    char state[4096];
    bool have_state;
    struct tc_daemon *daemon;
    struct tc_http *http;
    double train_began;
};

static volatile sig_atomic_t stop_asked;

static void on_signal(int sig)
{
    stop_asked = sig;
}

static int check_stop(struct tc_err *e)
{
    return stop_asked ? tc_fail(e, "interrupted") : 0;
}

/* ---- the daemon ---- */

static bool port_is_free(int port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool is_free = !bind(fd, (struct sockaddr *)&a, sizeof a);
    close(fd);
    return is_free;
}

static int make_state_dir(struct demo *d, struct tc_err *e)
{
    const char *tmp = getenv("TMPDIR");
    if (snprintf(d->state, sizeof d->state - 32, "%s/tcld-demo-XXXXXX", tmp && *tmp ? tmp : "/tmp") >=
        (int)sizeof d->state - 32)
        return tc_fail(e, "TMPDIR is too long a path");
    if (!mkdtemp(d->state))
        return tc_fail(e, "cannot make a folder like %s: %s. Set TMPDIR to one that you may write to", d->state,
                       strerror(errno));
    d->have_state = true;
    return 0;
}

static int start_daemon(struct demo *d, struct tc_err *e)
{
    char data[4200], log[4200], listen[32] = "127.0.0.1:0";
    if (make_state_dir(d, e))
        return -1;
    snprintf(data, sizeof data, "%s/data", d->state);
    snprintf(log, sizeof log, "%s/tcld.log", d->state);
    if (d->keep_running && port_is_free(PREFERRED_PORT))
        snprintf(listen, sizeof listen, "127.0.0.1:%d", PREFERRED_PORT);
    double began = tc_now();
    struct tc_daemon_opts o = {
        .binary = d->binary, .state_dir = data, .log = log, .listen = listen, .detach = d->keep_running};
    if (tc_daemon_start(&o, &d->daemon, e))
        return -1;
    d->http = tc_http_new(tc_daemon_base(d->daemon), e);
    if (!d->http)
        return -1;
    tc_http_stop_on(d->http, &stop_asked);
    demo_step(&d->screen, "start", "tcld serves %s after %.0f ms (pid %d)", tc_daemon_base(d->daemon),
              (tc_now() - began) * 1e3, (int)tc_daemon_pid(d->daemon));
    return 0;
}

/* ---- the story ---- */

static int load_logs(struct demo *d, struct tc_err *e)
{
    if (demo_load(d->logs_dir, &d->logs, e) || demo_keep_aside(&d->logs, e))
        return -1;
    size_t kept = 0;
    for (size_t i = 0; i < d->logs.n; i++)
        kept += d->logs.task[i].kept_aside ? d->logs.task[i].n : 0;
    demo_step(&d->screen, "logs", "%s: %zu measured programs of %zu tasks; 2 tasks (%zu programs) are kept aside",
              d->logs_dir, d->logs.records, d->logs.n, kept);
    return 0;
}

static int register_hardware(struct demo *d, struct tc_err *e)
{
    json_t *reply = NULL, *descriptor = json_object();
    if (d->logs.has_hw_params) {
        json_object_set_new(descriptor, "num_cores", json_integer(d->logs.hw_params[0]));
        json_object_set_new(descriptor, "vector_unit_bytes", json_integer(d->logs.hw_params[1]));
        json_object_set_new(descriptor, "cache_line_bytes", json_integer(d->logs.hw_params[2]));
    }
    json_t *body = json_pack("{s:s, s:o}", "target", d->logs.target, "descriptor", descriptor);
    if (!body)
        return tc_fail(e, "out of memory");
    int rc = tc_json(d->http, "PUT", "/v1/hardware/" HARDWARE, body, &reply, e);
    if (!rc) {
        const char *family = tc_str(reply, "/family");
        demo_step(&d->screen, "register", "hardware " HARDWARE ", family %s, target %s", family ? family : "?",
                  d->logs.target);
        d->knows = tc_int(reply, "/kb_model", 0) != 0;
    }
    json_decref(body);
    json_decref(reply);
    return rc;
}

static int post_logs(struct demo *d, struct tc_err *e)
{
    long accepted = 0, duplicates = 0, rejected = 0, tasks = 0;
    double began = tc_now();
    for (size_t i = 0; i < d->logs.n; i++) {
        const struct demo_task *t = &d->logs.task[i];
        json_t *reply = NULL;
        if (t->kept_aside)
            continue;
        if (check_stop(e) || tc_post_lines(d->http, "/v1/hardware/" HARDWARE "/measurements?agent=demo", t->lines.p,
                                           t->lines.n, &reply, e))
            return -1;
        accepted += tc_int(reply, "/accepted", 0);
        duplicates += tc_int(reply, "/duplicates", 0);
        rejected += tc_int(reply, "/rejected", 0);
        tasks++;
        json_decref(reply);
    }
    double took = tc_now() - began;
    demo_step(&d->screen, "post",
              "%ld measurements of %ld tasks are on disk after %.2f s (%ld duplicates, %ld rejected)", accepted, tasks,
              took, duplicates, rejected);
    return 0;
}

static int on_progress(void *arg, const json_t *job)
{
    struct demo *d = arg;
    demo_progress(&d->screen, job, tc_now() - d->train_began);
    return stop_asked;
}

/* What the daemon itself found on the tasks that it held out of the training. */
static void show_training(struct demo *d, const json_t *job)
{
    const char *decision = tc_str(job, "/result/decision");
    double top1 = tc_num(job, "/metrics/top1_mean"), pairwise = tc_num(job, "/metrics/pairwise");
    char own[128] = "";
    if (!isnan(top1) && !isnan(pairwise))
        snprintf(own, sizeof own, "; on tasks it held out itself: top-1 %.3f, %.1f %% of pairs in order", top1,
                 pairwise * 100);
    demo_step(&d->screen, d->knows ? "adapted" : "trained", "%.1f s, model %lld %s%s", tc_now() - d->train_began,
              (long long)tc_int(job, "/result/model", 0), decision ? decision : "done", own);
    if (tc_str(job, "/result/gate/reason"))
        demo_step(&d->screen, "", "gate: %s Knowledge base: %s", tc_str(job, "/result/gate/reason"),
                  tc_str(job, "/result/kb/decision"));
}

static int train(struct demo *d, struct tc_err *e)
{
    int rc = -1;
    json_t *job = NULL, *end = NULL;
    json_t *body = json_pack("{s:s, s:f, s:i, s:i, s:s}", "mode", d->knows ? "adapt" : "finetune", "max_seconds",
                             d->train_seconds, "epochs", d->epochs, "seed", 1, "activate", "auto");
    if (!body) {
        tc_fail(e, "out of memory");
        goto out;
    }
    d->train_began = tc_now();
    if (tc_json(d->http, "POST", "/v1/hardware/" HARDWARE "/retrain", body, &job, e))
        goto out;
    if (tc_job_wait(d->http, tc_int(job, "/id", 0), d->train_seconds > 0 ? d->train_seconds * 3 + 60 : 1800,
                    on_progress, d, &end, e))
        goto out;
    demo_progress_end(&d->screen);
    const char *state = tc_str(end, "/state");
    if (!state || strcmp(state, "succeeded")) {
        char *why = json_dumps(tc_at(end, "/error"), JSON_ENCODE_ANY);
        tc_fail(e, "training ended as %s: %s", state ? state : "?", why ? why : "no reason given");
        free(why);
        goto out;
    }
    show_training(d, end);
    rc = 0;
out:
    json_decref(body);
    json_decref(job);
    json_decref(end);
    return rc;
}

static int judge_task(struct demo *d, const struct demo_task *t, struct demo_rank *out, struct tc_err *e)
{
    int rc = -1;
    json_t *reply = NULL;
    double *score = calloc(t->n, sizeof *score);
    if (!score) {
        tc_fail(e, "out of memory");
        goto done;
    }
    if (tc_post_lines(d->http, PREDICT, t->lines.p, t->lines.n, &reply, e))
        goto done;
    const json_t *scores = tc_at(reply, "/scores");
    if (json_array_size(scores) != t->n) {
        tc_fail(e, "asked for %zu scores, got %zu", t->n, json_array_size(scores));
        goto done;
    }
    for (size_t i = 0; i < t->n; i++) {
        const json_t *v = json_array_get(scores, i);
        score[i] = json_is_number(v) ? json_number_value(v) : (double)NAN;
    }
    rc = demo_rank(t, score, out, e);
done:
    free(score);
    json_decref(reply);
    return rc;
}

/* Ranks the programs of the tasks kept aside and shows how well. */
static int judge(struct demo *d, const char *what, struct demo_rank rank[KEPT], struct tc_err *e)
{
    const struct demo_task *task[KEPT];
    size_t n = 0;
    for (size_t i = 0; i < d->logs.n && n < KEPT; i++) {
        if (!d->logs.task[i].kept_aside)
            continue;
        task[n] = &d->logs.task[i];
        if (check_stop(e) || judge_task(d, task[n], &rank[n], e))
            return -1;
        n++;
    }
    demo_table_head(&d->screen, what);
    for (size_t i = 0; i < n; i++)
        demo_table_row(&d->screen, task[i], &rank[i]);
    fputc('\n', d->screen.f);
    return 0;
}

static int judge_before(struct demo *d, struct tc_err *e)
{
    if (!d->knows)
        return 0;
    demo_step(&d->screen, "zero-shot", "nothing is measured yet: the knowledge base that comes with tcld answers");
    return judge(d, "task never seen, nothing measured", d->before, e);
}

static int judge_after(struct demo *d, struct tc_err *e)
{
    size_t n = 0;
    if (judge(d, "task never seen, others measured", d->after, e))
        return -1;
    for (size_t i = 0; i < d->logs.n && n < KEPT; i++) {
        const struct demo_rank *r = &d->after[n], *b = &d->before[n];
        if (!d->logs.task[i].kept_aside)
            continue;
        demo_step(&d->screen, n ? "" : "result", "%s: tcld's pick runs %.1f times as fast as a random one%s",
                  d->logs.task[i].name, r->random / r->picked,
                  r->picked == r->best ? " and is the fastest of all" : "");
        if (d->knows)
            demo_step(
                &d->screen, "",
                "  zero-shot to adapted: top-1 %.3f to %.3f, top-5 %.3f to %.3f, pairs in order %.1f %% to %.1f %%",
                b->top1, r->top1, b->top5, r->top5, b->pairwise * 100, r->pairwise * 100);
        n++;
    }
    return 0;
}

/* Predictions per second over HTTP, with whole calls of real searches; without them with the programs kept aside. */
static int measure_speed(struct demo *d, struct tc_err *e)
{
    enum { FULL_CALL = 2048 };
    const double for_seconds = 2;
    static const char *const names[] = {"conv2d_nhwc_28.call5.json.gz", "matmul_512.call5.json.gz"};
    int rc = -1;
    struct tp_buf body[2] = {{0}, {0}};
    struct tc_reply r = {0};
    double fastest = (double)INFINITY, spent = 0;
    size_t programs = 0, calls = 0, per_call = 0, n_bodies = 0;
    for (size_t i = 0; i < 2; i++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/%s", d->batches_dir, names[i]);
        n_bodies += !tc_read_file(path, &body[n_bodies], NULL);
    }
    for (size_t i = 0; !n_bodies && i < d->logs.n; i++) {
        const struct demo_task *t = &d->logs.task[i];
        for (size_t k = 0; t->kept_aside && !n_bodies && k < FULL_CALL / t->n; k++)
            tp_buf_put(&body[0], t->lines.p, t->lines.n);
        n_bodies = body[0].n > 0;
    }
    for (double began = tc_now(); calls < 2 || tc_now() - began < for_seconds; calls++) {
        const struct tp_buf *b = &body[calls % n_bodies];
        struct tc_request q = {.path = PREDICT, .body = b->p, .n = b->n, .content_type = "application/x-ndjson"};
        if (check_stop(e) || tc_call(d->http, &q, &r, e))
            goto out;
        json_t *reply = tc_reply_json(&r, e);
        per_call = json_array_size(tc_at(reply, "/scores"));
        json_decref(reply);
        if (r.status != 200 || !per_call) {
            char why[600];
            tc_reply_explain(&r, why, sizeof why);
            tc_fail(e, "POST %s: %s", PREDICT, why);
            goto out;
        }
        programs += per_call;
        spent += r.seconds;
        fastest = fmin(fastest, r.seconds);
    }
    char rate[32], size[32];
    demo_count((double)programs / spent, rate, sizeof rate);
    demo_count((double)per_call, size, sizeof size);
    demo_step(&d->screen, "speed",
              "%s predictions/s over HTTP: calls of %s programs, one connection, %.1f ms each (best %.1f ms)", rate,
              size, spent / (double)calls * 1e3, fastest * 1e3);
    rc = 0;
out:
    tc_reply_free(&r);
    for (size_t i = 0; i < 2; i++)
        tp_buf_free(&body[i]);
    return rc;
}

/* The first programs of a task kept aside, for the curl line. */
static int write_sample(const struct demo *d, const char *path, struct tc_err *e)
{
    enum { SAMPLE = 4 };
    for (size_t i = 0; i < d->logs.n; i++) {
        const struct demo_task *t = &d->logs.task[i];
        if (!t->kept_aside)
            continue;
        size_t n = 0;
        for (int k = 0; k < SAMPLE && n < t->lines.n; k++)
            n += strcspn(t->lines.p + n, "\n") + 1;
        return tc_write_file(path, t->lines.p, n, e);
    }
    return 0;
}

static int leave_running(struct demo *d, struct tc_err *e)
{
    char sample[4200];
    const char *base = tc_daemon_base(d->daemon);
    snprintf(sample, sizeof sample, "%s/programs.json", d->state);
    if (write_sample(d, sample, e))
        return -1;
    FILE *f = d->screen.f;
    fprintf(f, "\ntcld keeps running: pid %d, %s\n", (int)tc_daemon_pid(d->daemon), base);
    fprintf(f, "  data and log  %s\n", d->state);
    fprintf(f, "  stop it       kill %d\n", (int)tc_daemon_pid(d->daemon));
    fprintf(f, "  forget it     rm -r %s\n\n", d->state);
    fprintf(f,
            "Score four programs that it has never seen, see its models, get the best known schedule of every task:\n");
    fprintf(f,
            "  curl -s -H 'Content-Type: application/x-ndjson' --data-binary @%s %s/v1/hardware/" HARDWARE "/predict\n",
            sample, base);
    fprintf(f, "  curl -s %s/v1/hardware/" HARDWARE "/models\n", base);
    fprintf(f, "  curl -s %s/v1/hardware/" HARDWARE "/best\n", base);
    return 0;
}

static int tell_story(struct demo *d, struct tc_err *e)
{
    if (load_logs(d, e) || start_daemon(d, e) || register_hardware(d, e) || judge_before(d, e) || post_logs(d, e) ||
        train(d, e) || judge_after(d, e) || measure_speed(d, e))
        return -1;
    return d->keep_running ? leave_running(d, e) : 0;
}

/* Stop the daemon (unless it shall stay) and remove the state. After a failure the log stays, and its place is told. */
static int clean_up(struct demo *d, bool failed)
{
    int rc = 0;
    bool stay = d->keep_running && !failed;
    if (d->daemon && !stay) {
        int status = tc_daemon_stop(d->daemon, 30);
        if (!failed && status) {
            fprintf(stderr, "demo: tcld ended with status %d instead of 0; its log: %s/tcld.log\n", status, d->state);
            rc = 1;
        } else if (!failed) {
            demo_step(&d->screen, "stop", "tcld drained and ended with status 0");
        }
    }
    if (d->have_state && !stay) {
        char log[4200];
        snprintf(log, sizeof log, "%s/tcld.log", d->state);
        if (((failed && !stop_asked) || rc) && !access(log, R_OK))
            fprintf(stderr, "demo: the daemon's log is kept: %s\n", log);
        else
            tc_remove_tree(d->state, NULL);
    }
    tc_http_free(d->http);
    tc_daemon_free(d->daemon);
    demo_free(&d->logs);
    return rc;
}

static void usage(FILE *f)
{
    fprintf(f,
            "usage: demo [--tcld FILE] [--logs DIR] [--batches DIR] [--epochs N] [--train-seconds S] [--keep-running]\n"
            "  --tcld FILE        the daemon (build/tcld)\n"
            "  --logs DIR         Ansor tuning logs of one kind of hardware, *.json (tests/data/demo)\n"
            "  --batches DIR      whole search calls for the speed figure (LOGS/../batches)\n"
            "  --epochs N         passes over the data (10, to be short; a daemon that is not told takes more)\n"
            "  --train-seconds S  upper limit of training (none; with one, the figures depend on the clock)\n"
            "  --keep-running     leave the daemon running and say how to talk to it and how to stop it\n");
}

static int parse_options(struct demo *d, int argc, char **argv)
{
    static const struct option options[] = {{"tcld", required_argument, NULL, 't'},
                                            {"logs", required_argument, NULL, 'l'},
                                            {"batches", required_argument, NULL, 'b'},
                                            {"epochs", required_argument, NULL, 'e'},
                                            {"train-seconds", required_argument, NULL, 's'},
                                            {"keep-running", no_argument, NULL, 'k'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        char *end = NULL;
        switch (c) {
        case 't':
            d->binary = optarg;
            break;
        case 'l':
            d->logs_dir = optarg;
            break;
        case 'b':
            d->batches_dir = optarg;
            break;
        case 'e': {
            long n = strtol(optarg, &end, 10);
            if (*end || n < 1 || n > MAX_EPOCHS) {
                fprintf(stderr, "demo: --epochs %s: a number from 1 to %d is wanted\n", optarg, MAX_EPOCHS);
                return 2;
            }
            d->epochs = (int)n;
            break;
        }
        case 's':
            d->train_seconds = strtod(optarg, &end);
            if (*end || !(d->train_seconds >= 1 && d->train_seconds <= 86400)) {
                fprintf(stderr, "demo: --train-seconds %s: a number from 1 to 86400 is wanted\n", optarg);
                return 2;
            }
            break;
        case 'k':
            d->keep_running = true;
            break;
        case 'h':
            usage(stdout);
            exit(0);
        default:
            usage(stderr);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "demo: \"%s\" is not expected\n", argv[optind]);
        usage(stderr);
        return 2;
    }
    return 0;
}

int main(int argc, char **argv)
{
    char batches[4096];
    struct tc_err e = {{0}};
    struct demo d = {.binary = "build/tcld", .logs_dir = "tests/data/demo", .epochs = 10};
    int rc = parse_options(&d, argc, argv);
    if (rc)
        return rc;
    if (!d.batches_dir) {
        snprintf(batches, sizeof batches, "%s/../batches", d.logs_dir);
        d.batches_dir = batches;
    }
    demo_screen_init(&d.screen, stdout);
    struct sigaction act = {.sa_handler = on_signal}; /* no SA_RESTART: sleeps end at once */
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    signal(SIGPIPE, SIG_IGN);

    bool failed = tell_story(&d, &e) != 0;
    demo_progress_end(&d.screen);
    if (failed)
        fprintf(stderr, "demo: %s\n", e.text);
    rc = clean_up(&d, failed);
    if (stop_asked)
        return 128 + stop_asked;
    return failed ? 1 : rc;
}
