/* Parsing: megabytes a second from bytes to records, beside jansson and simdjson.
 *
 * usage: bench_parse [-r rounds] [file.json[.gz]...]      (default: tests/data/demo and tests/data/batches)
 *
 * tp_record_parse  one line after the other
 * ndjson, states   tp_body_next() over a whole body: lines, or {"task": ..., "states": [...]} for each run of records
 * of one task (its own size counts) jansson          json_loadb() of each line, then a walk over the same fields
 * simdjson         peer_simdjson.cc, on demand and DOM; they walk the same fields
 * All sum up what they read; the sums must agree. tcld also checks grammar, ranges and limits; the peers do not.
 * In turn on one core, in CPU time; medians. */
#include "proto/body.h"
#include "tests/bench/bench.h"

#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_ROUNDS = 100, RECORD, NDJSON, STATES, JANSSON, ON_DEMAND, DOM, PARSERS };
static const char *const names[PARSERS] = {
    [RECORD] = "tp_record_parse", [NDJSON] = "tp_body_next, NDJSON",  [STATES] = "tp_body_next, states",
    [JANSSON] = "jansson",        [ON_DEMAND] = "simdjson on demand", [DOM] = "simdjson DOM",
};

/* What was read. Integers wrap. */
struct sum {
    uint64_t ints, steps, bytes;
    double reals;
};

static struct tp_buf text;   /* all lines */
static struct tp_buf states; /* bodies of the third form, back to back */
struct body {
    size_t at, n;
};
static struct body *bodies;
static size_t n_bodies, n_records;

/* ---- tcld ---- */

static void add(struct sum *s, const struct tp_record *r)
{
    const struct tp_task *t = &r->task;
    s->bytes += t->workload_key.n + t->target.n + t->target_host.n + r->version.n;
    for (int i = 0; t->has_hw_params && i < TP_HW_PARAMS; i++)
        s->ints += (uint64_t)t->hw_params[i];
    s->ints += (uint64_t)t->layout;
    for (uint32_t i = 0; i < t->n_names; i++)
        s->bytes += t->names[i].n;
    for (uint32_t i = 0; i < r->n_steps; i++) {
        const struct tp_step *step = &r->steps[i];
        const char *grammar = tp_step_grammar((enum tp_step_kind)step->kind);
        s->bytes += strlen(tp_step_tag((enum tp_step_kind)step->kind)) + step->str.n;
        for (int k = 0, op = 0; grammar[k]; k++)
            if (grammar[k] == 'i')
                s->ints += (uint64_t)step->op[op++];
        for (uint32_t k = 0; k < step->n_list; k++)
            s->ints += (uint64_t)step->list[k];
    }
    s->steps += r->n_steps;
    if (!r->has_result)
        return;
    for (uint32_t i = 0; i < r->result.n_costs; i++)
        s->reals += r->result.costs[i];
    s->reals += r->result.error_no + r->result.all_cost + r->result.timestamp;
}

static void read_lines(struct sum *s, struct tp_record *r)
{
    for (const char *p = text.p, *last = text.p + text.n; p < last;) {
        const char *end = memchr(p, '\n', (size_t)(last - p));
        struct tp_err e;
        if (tp_record_parse(r, p, (size_t)(end - p), &e))
            bench_die("%s", e.detail);
        add(s, r);
        p = end + 1;
    }
}

static void read_body(struct sum *s, struct tp_record *r, enum tp_form form, const char *p, size_t n)
{
    struct tp_err e;
    struct tp_body *b = tp_body_open(form, p, n, &e);
    int got;
    if (!b)
        bench_die("%s", e.detail);
    while ((got = tp_body_next(b, r, &e)) == 1)
        add(s, r);
    if (got)
        bench_die("%s", e.detail);
    tp_body_close(b);
}

/* ---- jansson ---- */

/* No recursion deeper than the document, whose depth jansson has bounded. */
static void walk(const json_t *j, struct sum *s, bool reals)
{
    if (json_is_array(j)) {
        for (size_t i = 0; i < json_array_size(j); i++)
            walk(json_array_get(j, i), s, reals);
    } else if (json_is_number(j)) {
        if (reals)
            s->reals += json_number_value(j);
        else
            s->ints += (uint64_t)json_integer_value(j);
    } else if (json_is_string(j)) {
        s->bytes += json_string_length(j);
    }
}

static void read_jansson(struct sum *s)
{
    for (const char *p = text.p, *last = text.p + text.n; p < last;) {
        const char *end = memchr(p, '\n', (size_t)(last - p));
        json_t *j = json_loadb(p, (size_t)(end - p), 0, NULL);
        const json_t *i = json_object_get(j, "i"), *steps = json_array_get(json_array_get(i, 1), 1);
        if (!j)
            bench_die("jansson cannot read a line");
        walk(json_array_get(i, 0), s, false);
        walk(steps, s, false);
        s->steps += json_array_size(steps);
        walk(json_object_get(j, "r"), s, true);
        walk(json_object_get(j, "v"), s, false);
        json_decref(j);
        p = end + 1;
    }
}

/* ---- input ---- */

static void close_body(void)
{
    if (n_bodies == 0)
        return;
    tp_buf_puts(&states, "]}");
    bodies[n_bodies - 1].n = states.n - bodies[n_bodies - 1].at;
}

/* The third form: a body for each run of records of one task. */
static void add_states(const char *path)
{
    size_t n;
    struct tp_record *r = bench_records(path, &n);
    struct tp_buf task = {0}, last = {0};
    for (size_t i = 0; i < n; i++) {
        task.n = 0;
        tp_task_emit(&r[i].task, &task);
        if (i == 0 || task.n != last.n || memcmp(task.p, last.p, task.n) != 0) {
            close_body();
            bodies = realloc(bodies, (n_bodies + 1) * sizeof *bodies);
            if (!bodies)
                bench_die("out of memory");
            bodies[n_bodies++].at = states.n;
            tp_buf_puts(&states, "{\"task\": ");
            tp_buf_put(&states, task.p, task.n);
            tp_buf_puts(&states, ", \"states\": [");
            last.n = 0;
            tp_buf_put(&last, task.p, task.n);
        } else {
            tp_buf_puts(&states, ", ");
        }
        tp_buf_puts(&states, "[[], ");
        tp_steps_emit(r[i].steps, r[i].n_steps, &states);
        tp_buf_putc(&states, ']');
    }
    tp_buf_free(&task);
    tp_buf_free(&last);
    bench_records_free(r);
}

static void add_file(const char *path)
{
    struct bench_text t = bench_read(path);
    for (const char *p = t.p; *p;) { /* blank lines are left out: the peers do not skip them */
        size_t n = strcspn(p, "\n");
        if (n) {
            tp_buf_put(&text, p, n);
            tp_buf_putc(&text, '\n');
            n_records++;
        }
        p += n + (p[n] != '\0');
    }
    free(t.p);
    add_states(path);
}

/* ---- measurement ---- */

static double measure(int parser, struct sum *s, struct tp_record *r, struct bench_peer *p)
{
    *s = (struct sum){0};
    if (parser >= ON_DEMAND) {
        unsigned long long ints, steps, bytes;
        double seconds;
        const char *answer = bench_peer_ask(p, parser == DOM ? "dom" : "ondemand");
        if (sscanf(answer, "%lf %llu %llu %llu %lf", &seconds, &ints, &steps, &bytes, &s->reals) != 5)
            bench_die("simdjson: %s", answer);
        s->ints = ints;
        s->steps = steps;
        s->bytes = bytes;
        return seconds;
    }
    double start = bench_thread_cpu();
    if (parser == RECORD)
        read_lines(s, r);
    else if (parser == NDJSON)
        read_body(s, r, TP_FORM_NDJSON, text.p, text.n);
    else if (parser == STATES)
        for (size_t i = 0; i < n_bodies; i++)
            read_body(s, r, TP_FORM_JSON, states.p + bodies[i].at, bodies[i].n);
    else
        read_jansson(s);
    return bench_thread_cpu() - start;
}

/* The form with states has no results and one task a body; its integers and strings are fewer. */
static void check(const struct sum *a, const struct sum *b, int parser)
{
    if (a->steps != b->steps || (parser != STATES && (a->ints != b->ints || a->bytes != b->bytes ||
                                                      fabs(a->reals - b->reals) > 1e-6 * fabs(a->reals))))
        bench_die("%s reads something else: %llu/%llu ints, %llu/%llu steps, %llu/%llu bytes, %g/%g", names[parser],
                  (unsigned long long)a->ints, (unsigned long long)b->ints, (unsigned long long)a->steps,
                  (unsigned long long)b->steps, (unsigned long long)a->bytes, (unsigned long long)b->bytes, a->reals,
                  b->reals);
}

static struct bench_peer *start_peer(void)
{
    const char *const argv[] = {"build/peer_simdjson", "build/bench/lines.json", NULL};
    if (access(argv[0], X_OK)) {
        printf("skipped: simdjson (no %s: libsimdjson-dev was not there)\n", argv[0]);
        return NULL;
    }
    mkdir("build/bench", 0777);
    FILE *f = fopen(argv[1], "w");
    if (!f || fwrite(text.p, 1, text.n, f) != text.n || fclose(f))
        bench_die("%s: cannot write", argv[1]);
    return bench_peer_start(argv);
}

int main(int argc, char **argv)
{
    static double seconds[PARSERS][MAX_ROUNDS];
    size_t rounds = 11;
    int at = 1;
    if (argc > 2 && strcmp(argv[1], "-r") == 0) {
        rounds = (size_t)strtoul(argv[2], NULL, 10);
        at = 3;
    }
    if (rounds < 1 || rounds > MAX_ROUNDS)
        bench_die("usage: bench_parse [-r rounds] [file...]");
    glob_t files = {0};
    if (at == argc && (glob("tests/data/demo/*.json", 0, NULL, &files) ||
                       glob("tests/data/batches/*.json.gz", GLOB_APPEND, NULL, &files)))
        bench_die("no tests/data: run from the root of the project");
    for (size_t i = 0; i < files.gl_pathc; i++)
        add_file(files.gl_pathv[i]);
    for (; at < argc; at++)
        add_file(argv[at]);
    globfree(&files);
    close_body();
    if (text.oom || states.oom)
        bench_die("out of memory");
    printf("one core (CPU %d), %zu records, %.2f MB as NDJSON, %.2f MB in %zu bodies with states\n", bench_pin(),
           n_records, 1e-6 * (double)text.n, 1e-6 * (double)states.n, n_bodies);

    struct bench_peer *p = start_peer();
    if (p)
        printf("%s\n", bench_peer_about(p));
    struct tp_record r;
    tp_record_init(&r);
    for (size_t round = 0; round < rounds; round++) {
        struct sum first, s;
        for (int k = RECORD; k < (p ? PARSERS : ON_DEMAND); k++) {
            seconds[k][round] = measure(k, k == RECORD ? &first : &s, &r, p);
            if (k != RECORD)
                check(&first, &s, k);
        }
    }
    double rate[PARSERS];
    for (int k = RECORD; k < PARSERS; k++)
        rate[k] = k >= ON_DEMAND && !p
                      ? NAN
                      : 1e-6 * (double)(k == STATES ? states.n : text.n) / bench_quantile(seconds[k], rounds, 0.5);
    for (int k = RECORD; k <= NDJSON; k++) {
        bench_result(names[k], rate[k], "MB/s", names[JANSSON], rate[JANSSON], ">= 10");
        bench_result(names[k], rate[k], "MB/s", names[ON_DEMAND], rate[ON_DEMAND], "");
        bench_result(names[k], rate[k], "MB/s", names[DOM], rate[DOM], "");
    }
    bench_result(names[STATES], rate[STATES], "MB/s", names[JANSSON], rate[JANSSON], "");
    bench_report("parse");
    bench_peer_end(p);
    tp_record_free(&r);
    tp_buf_free(&text);
    tp_buf_free(&states);
    free(bodies);
    return 0;
}
