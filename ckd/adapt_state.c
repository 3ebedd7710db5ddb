/* States of adapt jobs on disk (ckd/adapt.h): ac-N.safetensors and kb-N.safetensors, then state.json that names them.
 *
 * Invariant: state.json names whole files of its own state. N counts the states saved, so a new state never overwrites
 * a file that the old state.json names; files that nothing names any more are removed after the rename. */
#include "ckd/adapt.h"

#include "proto/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, STATE_MAX = 64 << 10 };

/* X(key, field): numbers of a state */
#define NUMBERS(X)                                                                                                     \
    X("gate_mean", verdict.concordance.mean)                                                                           \
    X("kb_gate_mean", kb_verdict.concordance.mean)                                                                     \
    X("kb_gate_lower", kb_verdict.concordance.lower)                                                                   \
    X("gate_lower", verdict.concordance.lower)                                                                         \
    X("cl_loss", cl.loss)                                                                                              \
    X("cl_phi", cl.phi)                                                                                                \
    X("cl_seconds", cl.seconds)                                                                                        \
    X("kd_loss", kd.loss)                                                                                              \
    X("kd_phi", kd.phi)                                                                                                \
    X("kd_seconds", kd.seconds)                                                                                        \
    X("over_champion", over_champion.gain)                                                                             \
    X("over_kb", over_kb.gain)                                                                                         \
    X("behind", contest.behind)                                                                                        \
    X("behind_error", contest.error)                                                                                   \
    X("lambda", lambda)                                                                                                \
    X("drop", acceptance.drop)                                                                                         \
    X("pairwise_drop", acceptance.pairwise_drop)                                                                       \
    X("balance", acceptance.balance)                                                                                   \
    X("gain", acceptance.gain)
#define COUNTS(X)                                                                                                      \
    X("gate_tasks", verdict.concordance.tasks)                                                                         \
    X("kb_gate_tasks", kb_verdict.concordance.tasks)                                                                   \
    X("kb_gate_programs", kb_verdict.concordance.programs)                                                             \
    X("gate_programs", verdict.concordance.programs)                                                                   \
    X("cl_epoch", cl.epoch)                                                                                            \
    X("cl_epochs", cl.epochs)                                                                                          \
    X("kd_epoch", kd.epoch)                                                                                            \
    X("kd_epochs", kd.epochs)                                                                                          \
    X("contest_tasks", contest.tasks)                                                                                  \
    X("source_id", source_id)                                                                                          \
    X("from_start", from_start)                                                                                        \
    X("activated", activated)                                                                                          \
    X("attempts", attempts)                                                                                            \
    X("accepted", acceptance.accepted)                                                                                 \
    X("worst", acceptance.worst)
/* X(key, field, name of a value, number of values): by name, as a state outlives the program that wrote it */
#define NAMES(X)                                                                                                       \
    X("gate", verdict.gate, tk_gate_name, TK_GATE_WARM_START + 1)                                                      \
    X("kb_gate", kb_verdict.gate, tk_gate_name, TK_GATE_WARM_START + 1)                                                \
    X("champion_decision", over_champion.decision, tk_decision_name, TK_CANDIDATE + 1)                                 \
    X("kb_decision", over_kb.decision, tk_decision_name, TK_CANDIDATE + 1)                                             \
    X("winner", contest.winner, tk_rival_name, TK_RIVAL_COUNT)                                                         \
    X("phase", phase, tk_phase_name, TK_PHASE_COUNT)
#define TEXTS(X)                                                                                                       \
    X("gate_reason", verdict.reason)                                                                                   \
    X("kb_gate_reason", kb_verdict.reason)                                                                             \
    X("source", source)                                                                                                \
    X("champion_reason", over_champion.reason)                                                                         \
    X("kb_reason", over_kb.reason)                                                                                     \
    X("acceptance_reason", acceptance.reason)
#define MEASURED(X)                                                                                                    \
    X("champion", champion_metrics)                                                                                    \
    X("kb", kb_metrics)                                                                                                \
    X("ac", ac_metrics)                                                                                                \
    X("new_kb", new_kb_metrics)

/* tm_metrics are plain numbers; these are what a report of a job needs. */
#define METRICS(X)                                                                                                     \
    X("top1", top1_mean)                                                                                               \
    X("top5", top5_mean)                                                                                               \
    X("pairwise", pairwise)                                                                                            \
    X("pairwise_10pct", pairwise_10pct)                                                                                \
    X("spearman", spearman)

static json_t *real_or_null(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static double real_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static json_t *put_metrics(const struct tm_metrics *m)
{
    json_t *o = json_object();
    json_object_set_new(o, "tasks", json_integer(m->tasks));
    json_object_set_new(o, "programs", json_integer(m->programs));
#define X(key, field) json_object_set_new(o, key, real_or_null(m->field));
    METRICS(X)
#undef X
    return o;
}

static struct tm_metrics get_metrics(const json_t *o)
{
    struct tm_metrics m = {.tasks = (uint32_t)json_integer_value(json_object_get(o, "tasks")),
                           .programs = (uint32_t)json_integer_value(json_object_get(o, "programs"))};
    if (m.tasks == 0)
        return m;
#define X(key, field) m.field = real_of(o, key);
    METRICS(X)
#undef X
    return m;
}

static json_t *put_rivals(const struct tk_contest *c)
{
    json_t *o = json_object();
#define X(id, name) json_object_set_new(o, name, real_or_null(c->quality[TK_RIVAL_##id]));
    TK_RIVALS(X)
#undef X
    return o;
}

static void get_rivals(const json_t *o, struct tk_contest *c)
{
#define X(id, name) c->quality[TK_RIVAL_##id] = real_of(o, name);
    TK_RIVALS(X)
#undef X
}

static json_t *to_json(const struct tk_adapt_state *s, const char *ac, const char *kb)
{
    json_t *o = json_object();
    json_object_set_new(o, "ac", ac[0] ? json_string(ac) : json_null());
    json_object_set_new(o, "kb", kb[0] ? json_string(kb) : json_null());
    json_object_set_new(o, "rivals", put_rivals(&s->contest));
#define X(key, field) json_object_set_new(o, key, real_or_null(s->field));
    NUMBERS(X)
#undef X
#define X(key, field) json_object_set_new(o, key, json_integer((json_int_t)s->field));
    COUNTS(X)
#undef X
#define X(key, field, name, n) json_object_set_new(o, key, json_string(name(s->field)));
    NAMES(X)
#undef X
#define X(key, field) json_object_set_new(o, key, json_string(s->field));
    TEXTS(X)
#undef X
#define X(key, field) json_object_set_new(o, "metrics_" key, put_metrics(&s->field));
    MEASURED(X)
#undef X
    return o;
}

static int io_fail(struct tp_err *e, const char *what)
{
    return tp_fail(e, tp_code_of_errno(errno), "state of a job: %s: %s", what, strerror(errno));
}

static int path_in(char path[PATH_SIZE], const char *dir, const char *name, struct tp_err *e)
{
    return snprintf(path, PATH_SIZE, "%s/%s", dir, name) < PATH_SIZE ? 0
                                                                     : tp_fail(e, TP_E_IO, "path of a folder too long");
}

static int sync_folder(const char *dir, struct tp_err *e)
{
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int rc = fd < 0 || fsync(fd) ? io_fail(e, "fsync of the folder") : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

static int write_state(const char *dir, const char *text, struct tp_err *e)
{
    char path[PATH_SIZE], tmp[PATH_SIZE];
    const size_t n = strlen(text);
    int rc, fd;
    if ((rc = path_in(path, dir, "state.json", e)) || (rc = path_in(tmp, dir, "state.json.tmp", e)))
        return rc;
    if ((fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) < 0)
        return io_fail(e, "create");
    if (write(fd, text, n) != (ssize_t)n || fsync(fd))
        rc = io_fail(e, "write");
    if (close(fd) && rc == 0)
        rc = io_fail(e, "close");
    if (rc == 0 && rename(tmp, path))
        rc = io_fail(e, "rename");
    if (rc) {
        unlink(tmp);
        return rc;
    }
    return sync_folder(dir, e);
}

/* 1, 0 when there is none, or an error. *out: new reference. */
static int read_state(const char *dir, json_t **out, struct tp_err *e)
{
    char path[PATH_SIZE], text[STATE_MAX];
    size_t n = 0;
    ssize_t k = 0;
    int rc = path_in(path, dir, "state.json", e);
    if (rc)
        return rc;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : io_fail(e, "open");
    while (n < sizeof text && ((k = read(fd, text + n, sizeof text - n)) > 0 || (k < 0 && errno == EINTR)))
        n += k > 0 ? (size_t)k : 0;
    rc = k < 0 ? io_fail(e, "read") : 0;
    close(fd);
    if (rc)
        return rc;
    json_t *o = n < sizeof text ? json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!json_is_object(o)) {
        json_decref(o);
        return tp_fail(e, TP_E_BAD_WEIGHTS, "state.json of a job is not a JSON object");
    }
    *out = o;
    return 1;
}

/* Names of files come from a file: only the form we write is followed. */
static bool name_ok(const char *name)
{
    unsigned n;
    int end = 0;
    return name &&
           (sscanf(name, "ac-%9u.safetensors%n", &n, &end) == 1 ||
            sscanf(name, "kb-%9u.safetensors%n", &n, &end) == 1) &&
           end > 0 && name[end] == '\0';
}

static void remove_named(const char *dir, const json_t *o, const char *key, const char *but)
{
    char path[PATH_SIZE];
    const char *name = json_string_value(json_object_get(o, key));
    if (name_ok(name) && strcmp(name, but) != 0 && path_in(path, dir, name, NULL) == 0)
        unlink(path);
}

int tk_adapt_save(const char *dir, const struct tk_adapt_state *s, struct tp_err *e)
{
    char path[PATH_SIZE], ac[64] = "", kb[64] = "", *text = NULL;
    json_t *old = NULL, *new = NULL;
    unsigned n = 0;
    const char *name;
    int rc = read_state(dir, &old, e);
    if (rc < 0 && rc != -TP_E_BAD_WEIGHTS)
        return rc;
    if (old && (name = json_string_value(json_object_get(old, "ac"))) && name_ok(name))
        sscanf(name, "ac-%9u", &n);
    n++;
    rc = 0;
    if (s->ac) {
        const struct tm_provenance p = {.role = "ac"};
        snprintf(ac, sizeof ac, "ac-%u.safetensors", n);
        rc = path_in(path, dir, ac, e);
        rc = rc ? rc : tm_weights_save(path, s->ac, &p, e);
    }
    if (rc == 0 && s->new_kb) {
        snprintf(kb, sizeof kb, "kb-%u.safetensors", n);
        rc = path_in(path, dir, kb, e);
        rc = rc ? rc : tk_kb_save(path, s->new_kb, NULL, e);
    }
    if (rc == 0) {
        new = to_json(s, ac, kb);
        if (!(text = json_dumps(new, JSON_INDENT(1))))
            rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for the state of a job");
    }
    if (rc == 0 && (rc = write_state(dir, text, e)) == 0) {
        remove_named(dir, old, "ac", ac);
        remove_named(dir, old, "kb", kb);
    }
    free(text);
    json_decref(old);
    json_decref(new);
    return rc;
}

/* false: a name is not known here. */
static bool get_names(const json_t *o, struct tk_adapt_state *s)
{
    int v;
#define X(key, field, name, n)                                                                                         \
    for (v = 0; v < (int)(n) && strcmp(text_of(o, key), name((typeof(s->field))v)); v++)                               \
        continue;                                                                                                      \
    if (v == (int)(n))                                                                                                 \
        return false;                                                                                                  \
    s->field = (typeof(s->field))v;
    NAMES(X)
#undef X
    return true;
}

static int load_models(const char *dir, const json_t *o, struct tk_adapt_state *s, struct tp_err *e)
{
    char path[PATH_SIZE];
    const char *ac = json_string_value(json_object_get(o, "ac")), *kb = json_string_value(json_object_get(o, "kb"));
    int rc = 0;
    if ((ac && !name_ok(ac)) || (kb && !name_ok(kb)) || (s->phase > TK_PHASE_LEARN && !ac) ||
        (s->phase == TK_PHASE_SETTLE && !kb))
        return tp_fail(e, TP_E_BAD_WEIGHTS, "state.json of a job names no model where its phase needs one");
    if (ac && (rc = path_in(path, dir, ac, e)) == 0)
        rc = tm_weights_load(path, &s->ac, NULL, e);
    if (rc == 0 && kb && (rc = path_in(path, dir, kb, e)) == 0)
        rc = tk_kb_load(path, &s->new_kb, NULL, e);
    return rc;
}

int tk_adapt_load(const char *dir, struct tk_adapt_state *s, struct tp_err *e)
{
    struct tk_adapt_state new = {0};
    json_t *o = NULL;
    int rc = read_state(dir, &o, e);
    if (rc != 1)
        return rc;
    const bool known = get_names(o, &new);
    rc = 0;
    if (known) {
#define X(key, field) new.field = real_of(o, key);
        NUMBERS(X)
#undef X
#define X(key, field) new.field = (typeof(new.field))json_integer_value(json_object_get(o, key));
        COUNTS(X)
#undef X
#define X(key, field) snprintf(new.field, sizeof new.field, "%s", text_of(o, key));
        TEXTS(X)
#undef X
#define X(key, field) new.field = get_metrics(json_object_get(o, "metrics_" key));
        MEASURED(X)
#undef X
        new.cl.epoch = new.cl.epoch ? new.cl.epoch : new.cl.epochs; /* written before it was told: all were made */
        new.kd.epoch = new.kd.epoch ? new.kd.epoch : new.kd.epochs;
        get_rivals(json_object_get(o, "rivals"), &new.contest);
        rc = load_models(dir, o, &new, e);
    }
    json_decref(o);
    if (rc || !known) { /* the latter: the job begins again */
        tk_adapt_state_free(&new);
        return rc;
    }
    *s = new;
    return 1;
}
