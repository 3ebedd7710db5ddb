/* A measurement agent without hardware: it takes leases as a real one does and answers from a recorded log, with
 * failures, delays and deaths on demand. Many of them are a fleet for tests and benches.
 *
 * What the contract with tcld rests on: results that got no answer are posted again, the same bytes, until there is an
 * answer; a lease that is gone is worked on no longer; what has no answer when the agent ends is given back, unless it
 * dies. */
#include "clients/replay/log.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LEASE = 100000, DIED = 3, UNKNOWN_ERROR = 8, RUN_ERROR = 4, MAX_NAME = 64 };
static const double silence_seconds = 60; /* a daemon that is gone for so long does not come back */
static const double grace_seconds = 30;   /* the same, for results and leases in hand after a signal */
static const double post_seconds = 1;     /* results do not wait for the end of a slow lease */
static const double shortest_pause = 0.05, longest_pause = 1;
static const double longest_wish = 10; /* of a daemon that asks to come later */

static volatile sig_atomic_t stop_asked;

struct agent {
    const char *url, *hardware, *name, *token;
    long max, most; /* of one lease, 0 as many as tcld gives; of all, 0 any number */
    double ttl, seconds, delay, failures, die, noise;
    unsigned long long seed;
    bool wait;
    struct tc_http *http;
    struct rp_log *log;
    struct tp_record rec;
    struct tp_buf body; /* results to post */
    char lease[MAX_NAME];
    double until, renew_at; /* monotonic; 0: never */
    double stopped;         /* when a call first saw the signal: all of them share the grace */
    bool silent;            /* the daemon was, for too long: nothing is asked any more */
    uint64_t random;
    long leases, measured, failed, unknown, accepted, duplicates, rejected, retries, idle;
};

/* The first asks to end. One that comes over a second later ends at once: timeout(1) sends two. */
static void on_signal(int sig)
{
    static double first;
    if (!stop_asked)
        first = tc_now();
    else if (tc_now() - first > 1)
        _exit(128 + sig);
    stop_asked = 1;
}

/* xorshift64*, [0,1) */
static double uniform(struct agent *a)
{
    a->random ^= a->random >> 12;
    a->random ^= a->random << 25;
    a->random ^= a->random >> 27;
    return (double)(a->random * 0x2545f4914f6cdd1dULL >> 11) * 0x1p-53;
}

/* Agents of one seed differ by their names. */
static void seed_random(struct agent *a)
{
    uint64_t h = 0xcbf29ce484222325ULL ^ a->seed;
    for (const char *p = a->name; *p; p++)
        h = (h ^ (unsigned char)*p) * 0x100000001b3ULL;
    a->random = h | 1;
    for (int i = 0; i < 8; i++)
        uniform(a);
}

static bool over(const struct agent *a)
{
    return stop_asked || (a->until > 0 && tc_now() >= a->until) || (a->most && a->measured >= a->most);
}

/* Sleeps *pause or as long as was wished, up to half as long again so that agents drift apart, and not across the
 * agent's own end; doubles *pause. */
static void wait_and_double(struct agent *a, double *pause, double wished)
{
    double seconds = fmax(*pause, fmin(wished, longest_wish)) * (1 + 0.5 * uniform(a));
    double left = a->until - tc_now();
    tc_sleep(left > 0 ? fmin(seconds, left) : seconds);
    *pause = fmin(*pause * 2, longest_pause);
}

/* ---- talking to tcld ---- */

/* Seconds that the daemon wishes us to wait; 0: none. */
static double wish_of(const struct tc_reply *r)
{
    char text[32];
    return tc_reply_header(r, "Retry-After", text, sizeof text) ? strtod(text, NULL) : 0;
}

/* A call that is made again while there is no answer, or one that asks to come later; for `grace` seconds after a
 * signal. 0 with a 2xx or `also` status. */
static int call(struct agent *a, const struct tc_request *q, long also, double grace, struct tc_reply *r,
                struct tc_err *e)
{
    double pause = shortest_pause, give_up = tc_now() + silence_seconds;
    if (a->silent)
        return tc_fail(e, "%s %s: the daemon is away", q->method, q->path);
    for (;;) {
        int rc = tc_call(a->http, q, r, e);
        if (rc == 0 && ((r->status >= 200 && r->status < 300) || r->status == also))
            return 0;
        if (rc == 0 && r->status != 429 && r->status < 500) {
            char why[400];
            tc_reply_explain(r, why, sizeof why);
            return tc_fail(e, "%s %s: %s", q->method, q->path, why);
        }
        if (stop_asked) {
            a->stopped = a->stopped > 0 ? a->stopped : tc_now();
            give_up = fmin(give_up, a->stopped + grace);
        }
        if (tc_now() >= give_up) {
            a->silent = true;
            return rc ? -1 : tc_fail(e, "%s %s: status %ld for too long", q->method, q->path, r->status);
        }
        a->retries++;
        wait_and_double(a, &pause, rc ? 0 : wish_of(r));
    }
}

/* A rejected result is an error: the logs would answer the same again. */
static int count_posted(struct agent *a, const json_t *j, struct tc_err *e)
{
    const json_t *x;
    size_t i;
    long rejected = (long)tc_int(j, "/rejected", 0);
    a->accepted += tc_int(j, "/accepted", 0);
    a->duplicates += tc_int(j, "/duplicates", 0);
    a->rejected += rejected;
    json_array_foreach(tc_at(j, "/errors"), i, x)
    {
        fprintf(stderr, "replay: a result is rejected: %s: %s\n", tc_str(x, "/code"), tc_str(x, "/detail"));
    }
    return rejected ? tc_fail(e, "%s rejects %ld results, see above", tc_http_base(a->http), rejected) : 0;
}

static int post(struct agent *a, struct tc_err *e)
{
    char path[256];
    struct tc_reply r = {0};
    if (!a->body.n)
        return 0;
    snprintf(path, sizeof path, "/v1/hardware/%s/measurements?agent=%s", a->hardware, a->name);
    struct tc_request q = {
        .method = "POST", .path = path, .body = a->body.p, .n = a->body.n, .content_type = "application/x-ndjson"};
    int rc = call(a, &q, 0, grace_seconds, &r, e);
    json_t *j = rc ? NULL : tc_reply_json(&r, e);
    rc = j ? count_posted(a, j, e) : -1;
    a->body.n = 0;
    json_decref(j);
    tc_reply_free(&r);
    return rc;
}

/* *gone: there is no such lease any more: it ran out, or all of it is measured. No fault. */
static int lease_call(struct agent *a, const char *method, const char *what, bool *gone, struct tc_err *e)
{
    char path[256];
    struct tc_reply r = {0};
    snprintf(path, sizeof path, "/v1/leases/%s%s", a->lease, what);
    int rc = call(a, &(struct tc_request){.method = method, .path = path}, 404, grace_seconds, &r, e);
    *gone = rc == 0 && r.status == 404;
    a->renew_at = tc_now() + a->ttl / 2;
    tc_reply_free(&r);
    return rc;
}

/* *left: something is selected or on lease, so asking again makes sense. */
static int look_around(struct agent *a, bool *left, struct tc_err *e)
{
    char path[256];
    struct tc_reply r = {0};
    snprintf(path, sizeof path, "/v1/hardware/%s", a->hardware);
    int rc = call(a, &(struct tc_request){.method = "GET", .path = path}, 0, 0, &r, e);
    json_t *j = rc ? NULL : tc_reply_json(&r, e);
    *left = tc_int(j, "/counts/candidates/selected", 0) + tc_int(j, "/counts/candidates/leased", 0) > 0;
    rc = j ? rc : -1;
    json_decref(j);
    tc_reply_free(&r);
    return rc;
}

/* *out: the reply, a new reference. */
static int take_lease(struct agent *a, json_t **out, struct tc_err *e)
{
    char path[256], body[256], max[40] = "";
    struct tc_reply r = {0};
    if (a->max)
        snprintf(max, sizeof max, "\"max\": %ld, ",
                 a->most && a->most - a->measured < a->max ? a->most - a->measured : a->max);
    snprintf(path, sizeof path, "/v1/hardware/%s/leases", a->hardware);
    snprintf(body, sizeof body, "{\"agent\": \"%s\", %s\"ttl_seconds\": %g}", a->name, max, a->ttl);
    struct tc_request q = {
        .method = "POST", .path = path, .body = body, .n = strlen(body), .content_type = "application/json"};
    int rc = call(a, &q, 0, 0, &r, e);
    if (rc == 0 && !(*out = tc_reply_json(&r, e)))
        rc = -1;
    tc_reply_free(&r);
    return rc;
}

/* ---- measuring ---- */

static void answer(struct agent *a)
{
    static const double huge = 1e10;
    double cost[TP_MAX_COSTS];
    struct tp_result *res = &a->rec.result;
    bool known = rp_log_find(a->log, &a->rec, res);
    if (!known || uniform(a) < a->failures)
        *res = (struct tp_result){.n_costs = 1, .costs = &huge, .error_no = known ? RUN_ERROR : UNKNOWN_ERROR};
    for (uint32_t i = 0; a->noise > 0 && res->error_no == 0 && i < res->n_costs; i++)
        cost[i] = res->costs[i] * (1 + a->noise * (2 * uniform(a) - 1));
    if (a->noise > 0 && res->error_no == 0)
        res->costs = cost;
    res->timestamp = (double)time(NULL);
    a->rec.has_result = true;
    a->unknown += !known;
    a->failed += res->error_no != 0;
    a->measured++;
    tp_record_emit(&a->rec, &a->body);
    tp_buf_putc(&a->body, '\n');
    a->rec.has_result = false;
    *res = (struct tp_result){0};
}

static int measure(struct agent *a, const json_t *candidate, struct tc_err *e)
{
    struct tp_err why;
    char *text = json_dumps(json_object_get(candidate, "record"), JSON_COMPACT | JSON_PRESERVE_ORDER);
    int rc = text ? tp_record_parse(&a->rec, text, strlen(text), &why) : -1;
    if (rc)
        rc = tc_fail(e, "a leased record does not parse: %s", text ? why.detail : "no memory, or no record");
    if (rc == 0) {
        if (a->die > 0 && uniform(a) < a->die)
            _exit(DIED); /* without a word, as a machine does that loses power */
        if (a->delay > 0)
            tc_sleep(a->delay * (0.5 + uniform(a)));
        answer(a);
    }
    free(text);
    return rc;
}

static int work_off(struct agent *a, const json_t *lease, struct tc_err *e)
{
    const json_t *list = json_object_get(lease, "candidates"), *c;
    double posted = tc_now();
    bool gone = false;
    int rc = 0;
    size_t i;
    snprintf(a->lease, sizeof a->lease, "%s", tc_str(lease, "/lease"));
    a->renew_at = tc_now() + a->ttl / 2;
    json_array_foreach(list, i, c)
    {
        if (over(a) || gone || (rc = measure(a, c, e)))
            break;
        if (tc_now() - posted > post_seconds) {
            if ((rc = post(a, e)))
                break;
            posted = tc_now();
        }
        if (tc_now() > a->renew_at && (rc = lease_call(a, "POST", "/renew", &gone, e)))
            break;
    }
    size_t n = json_array_size(list);
    if (gone && i < n)
        fprintf(stderr, "replay: lease %s is gone; its other %zu programs are left to others\n", a->lease, n - i);
    if (post(a, rc ? NULL : e))
        rc = -1;
    if (!gone && (rc || i < n) && lease_call(a, "DELETE", "", &gone, rc ? NULL : e))
        rc = -1;
    return rc;
}

static int run(struct agent *a, struct tc_err *e)
{
    bool left = true;
    double pause = shortest_pause;
    while (left && !over(a)) {
        json_t *lease = NULL;
        int rc = take_lease(a, &lease, e);
        bool took = rc == 0 && tc_str(lease, "/lease");
        if (took) {
            a->leases++;
            pause = shortest_pause;
            rc = work_off(a, lease, e);
        } else if (rc == 0) {
            a->idle++;
            rc = a->wait ? 0 : look_around(a, &left, e);
            if (rc == 0 && left)
                wait_and_double(a, &pause, 0);
        }
        json_decref(lease);
        if (rc)
            return stop_asked && !took ? 0 : rc; /* nothing was in hand */
    }
    return 0;
}

/* ---- command line ---- */

static void usage(FILE *f)
{
    fprintf(f,
            "usage: replay --url URL --hardware NAME --agent NAME [options] --logs FILE...\n"
            "Takes leases from tcld and answers them from recorded Ansor logs.\n"
            "  --max N           candidates in one lease (as many as tcld gives)\n"
            "  --ttl S           seconds that a lease lasts; it is renewed at half of them (600)\n"
            "  --most N          end after so many measurements\n"
            "  --seconds S       end after so long\n"
            "  --wait            go on asking when nothing is selected or on lease, about once a second in the end\n"
            "  --delay S         seconds that a measurement takes, +-50 %%\n"
            "  --failures P      share of measurements that fail\n"
            "  --die P           chance per measurement to end at once, without giving anything back (status 3)\n"
            "  --noise X         costs vary by +-X of themselves\n"
            "  --seed N          of chance; agents of one seed differ by name (1)\n"
            "  --token TEXT      sent as Authorization: Bearer\n"
            "A program that the logs do not know is answered as failed (error 8). Ends when nothing is left; SIGTERM\n"
            "ends it after posting what it has and giving back its lease, for which it waits 30 s when tcld is away;\n"
            "a second signal, over a second later, ends it at once. Status 1 when tcld rejects a result.\n"
            "The last line tells what was done, as JSON.\n");
}

static bool number(const char *name, const char *text, double lo, double hi, double *out)
{
    char *end;
    double v = strtod(text, &end);
    if (*end || end == text || !(v >= lo && v <= hi)) {
        fprintf(stderr, "replay: --%s %s: a number from %g to %g is wanted\n", name, text, lo, hi);
        return false;
    }
    *out = v;
    return true;
}

static int parse_options(struct agent *a, int argc, char **argv)
{
    static const struct option options[] = {{"url", 1, NULL, 'u'},
                                            {"hardware", 1, NULL, 'h'},
                                            {"agent", 1, NULL, 'a'},
                                            {"logs", 0, NULL, 'l'},
                                            {"max", 1, NULL, 'm'},
                                            {"ttl", 1, NULL, 't'},
                                            {"most", 1, NULL, 'M'},
                                            {"seconds", 1, NULL, 's'},
                                            {"wait", 0, NULL, 'w'},
                                            {"delay", 1, NULL, 'd'},
                                            {"failures", 1, NULL, 'f'},
                                            {"die", 1, NULL, 'D'},
                                            {"noise", 1, NULL, 'n'},
                                            {"seed", 1, NULL, 'S'},
                                            {"token", 1, NULL, 'T'},
                                            {"help", 0, NULL, '?' + 1},
                                            {0}};
    double max = 0, most = 0, seed = 1;
    int which = 0;
    bool ok = true;
    for (int c; ok && (c = getopt_long(argc, argv, "", options, &which)) != -1;) {
        const char *name = options[which].name;
        switch (c) {
        case 'u':
            a->url = optarg;
            break;
        case 'h':
            a->hardware = optarg;
            break;
        case 'a':
            a->name = optarg;
            break;
        case 'T':
            a->token = optarg;
            break;
        case 'l':
            break; /* the files are what is left */
        case 'w':
            a->wait = true;
            break;
        case 'm':
            ok = number(name, optarg, 1, MAX_LEASE, &max);
            break;
        case 't':
            ok = number(name, optarg, 1, 604800, &a->ttl);
            break;
        case 'M':
            ok = number(name, optarg, 1, 1e9, &most);
            break;
        case 's':
            ok = number(name, optarg, 0, 1e9, &a->seconds);
            break;
        case 'd':
            ok = number(name, optarg, 0, 3600, &a->delay);
            break;
        case 'f':
            ok = number(name, optarg, 0, 1, &a->failures);
            break;
        case 'D':
            ok = number(name, optarg, 0, 1, &a->die);
            break;
        case 'n':
            ok = number(name, optarg, 0, 0.9, &a->noise);
            break;
        case 'S':
            ok = number(name, optarg, 0, 0x1p53, &seed);
            break;
        case '?' + 1:
            usage(stdout);
            exit(0);
        default:
            ok = false;
        }
    }
    a->max = (long)max;
    a->most = (long)most;
    a->seed = (unsigned long long)seed;
    if (ok && a->url && a->hardware && a->name && strlen(a->name) < MAX_NAME && strlen(a->hardware) < MAX_NAME &&
        optind < argc)
        return 0;
    usage(stderr);
    return 2;
}

int main(int argc, char **argv)
{
    struct agent a = {.ttl = 600};
    struct tc_err e = {{0}};
    int rc = parse_options(&a, argc, argv);
    if (rc)
        return rc;
    struct sigaction act = {.sa_handler = on_signal}; /* no SA_RESTART: sleeps end at once */
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    signal(SIGPIPE, SIG_IGN);
    tp_record_init(&a.rec);
    seed_random(&a);
    rc = -1;
    if ((a.log = rp_log_new(argv + optind, argc - optind, &e)) && (a.http = tc_http_new(a.url, &e)) &&
        (!a.token || tc_http_token(a.http, a.token, &e) == 0)) {
        a.until = a.seconds > 0 ? tc_now() + a.seconds : 0;
        rc = run(&a, &e);
    }
    if (rc)
        fprintf(stderr, "replay: %s\n", e.text);
    printf(
        "{\"agent\": \"%s\", \"leases\": %ld, \"measured\": %ld, \"failed\": %ld, \"unknown\": %ld, \"accepted\": %ld, "
        "\"duplicates\": %ld, \"rejected\": %ld, \"retries\": %ld, \"idle\": %ld}\n",
        a.name, a.leases, a.measured, a.failed, a.unknown, a.accepted, a.duplicates, a.rejected, a.retries, a.idle);
    tc_http_free(a.http);
    rp_log_free(a.log);
    tp_record_free(&a.rec);
    tp_buf_free(&a.body);
    return rc ? 1 : 0;
}
