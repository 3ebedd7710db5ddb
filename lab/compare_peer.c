/* Peers run in Python: the split goes out as NumPy files, scores and what they took come back.
 *
 * Results are kept under a name made of peer, seed and a digest of settings and split, so that a later run computes
 * only what changed. */
#include "lab/compare.h"

#include "lab/export.h"
#include "lab/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MISSING_PACKAGE = 77, PATH_LENGTH = 4096, WORD = 32, WORDS = 9, ANSWER = 8192 };

bool tl_peer_wants_tlp(const char *name)
{
    return strcmp(name, "tlp") == 0;
}

/* argv = what (NULL at the end), then the peer's settings that are not its own. */
static void add_changes(const char *name, const struct tl_peer_opts *o, const char *const *what, char **argv)
{
    const size_t n = strlen(name);
    for (; *what; what++)
        *argv++ = (char *)*what;
    for (int i = 0; i < o->n_set; i++)
        if (strncmp(o->set[i], name, n) == 0 && o->set[i][n] == '.')
            *argv++ = (char *)o->set[i] + n + 1;
    *argv = NULL;
}

/* Run the script with argv (NULL at the end); what it prints on descriptor `fd` goes to answer (NUL-terminated, cut to
 * room). Returns its exit status, or -1. */
static int run(char *const *argv, int fd, char *answer, size_t room)
{
    int io[2], status = 0;
    size_t n = 0;
    char extra[512] = {0};
    if (pipe(io) != 0)
        return -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(io[1], fd);
        close(io[0]);
        close(io[1]);
        execvp(argv[0], argv);
        _exit(127);
    }
    close(io[1]);
    for (ssize_t got = 1; pid > 0 && got > 0;) {
        bool full = n + 1 >= room;
        got = read(io[0], full ? extra : answer + n, full ? sizeof extra : room - 1 - n);
        n += got > 0 && !full ? (size_t)got : 0;
        if (got < 0 && errno == EINTR)
            got = 1;
    }
    answer[n] = '\0';
    close(io[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int describe(const char *name, const struct tl_peer_opts *o, int fd, char answer[ANSWER])
{
    const char *const what[] = {o->python, o->script, "describe", name, NULL};
    char *argv[WORDS + TL_PEER_SET];
    add_changes(name, o, what, argv);
    return run(argv, fd, answer, ANSWER);
}

int tl_peer_describe(struct tl_contender *m, const struct tl_peer_opts *o, struct tp_err *e)
{
    char answer[ANSWER];
    int status = describe(m->name, o, STDOUT_FILENO, answer);
    if (status == MISSING_PACKAGE) {
        describe(m->name, o, STDERR_FILENO, answer);
        answer[strcspn(answer, "\n")] = '\0';
        snprintf(m->skipped, sizeof m->skipped, "%.200s", answer);
        m->title = strdup(m->name);
        m->notes = strdup("");
        return 0;
    }
    json_t *j = status == 0 ? json_loads(answer, 0, NULL) : NULL;
    const char *title = json_string_value(json_object_get(j, "title")),
               *notes = json_string_value(json_object_get(j, "notes"));
    if (title && notes) {
        m->title = strdup(title);
        m->notes = strdup(notes);
    }
    json_decref(j);
    return m->notes ? 0 : tp_fail(e, TP_E_IO, "%s %s does not tell its settings", o->python, o->script);
}

/* What the scores depend on: settings without their texts, and the split. */
static uint64_t digest_of(const char *name, const struct tl_split *s, const struct tl_peer_opts *o)
{
    char answer[ANSWER];
    uint64_t d = tl_export_digest(s);
    json_t *j = describe(name, o, STDOUT_FILENO, answer) == 0 ? json_loads(answer, 0, NULL) : NULL;
    json_object_del(j, "title");
    json_object_del(j, "notes");
    char *text = j ? json_dumps(j, JSON_SORT_KEYS | JSON_COMPACT) : NULL;
    if (text)
        d = tl_digest(d, text, strlen(text));
    free(text);
    json_decref(j);
    return d;
}

static bool read_figures(const char *path, struct tl_contender *m, struct tl_trial *t)
{
    json_t *j = json_load_file(path, 0, NULL), *curve = json_object_get(j, "valid_pairwise");
    const size_t n = json_array_size(curve);
    t->valid_pairwise = malloc((n + 1) * sizeof *t->valid_pairwise);
    if (n == 0 || t->valid_pairwise == NULL) {
        json_decref(j);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        t->valid_pairwise[i] = json_number_value(json_array_get(curve, i));
    t->epochs = (int)n;
    t->best_epoch = (int)json_integer_value(json_object_get(j, "best_epoch"));
    t->train_seconds = json_number_value(json_object_get(j, "train_seconds"));
    t->predict_seconds = json_number_value(json_object_get(j, "predict_seconds"));
    m->parameters = json_number_value(json_object_get(j, "parameters"));
    json_decref(j);
    return true;
}

/* Scores and figures of a finished run. */
static int read_back(const char *stem, struct tl_contender *m, size_t n_test, struct tl_trial *t, double *score,
                     struct tp_err *e)
{
    char path[PATH_LENGTH + 8];
    double *v = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s.npy", stem);
    int rc = tl_npy_read(path, &v, &n, e);
    if (rc)
        return rc;
    snprintf(path, sizeof path, "%s.json", stem);
    if (n != n_test)
        rc = tp_fail(e, TP_E_UNUSABLE, "%s has %zu scores of %zu programs", stem, n, n_test);
    else if (!read_figures(path, m, t))
        rc = tp_fail(e, TP_E_IO, "%s cannot be understood", path);
    else
        memcpy(score, v, n * sizeof *v);
    free(v);
    return rc;
}

static int train(const char *stem, const char *name, const struct tl_split *s, uint64_t seed,
                 const struct tl_peer_opts *o, struct tp_err *e)
{
    char data[PATH_LENGTH], seed_text[WORD], threads[WORD], answer[2];
    snprintf(data, sizeof data, "%s/data/%s", o->dir, tl_peer_wants_tlp(name) ? "tlp" : "tclf-1");
    snprintf(seed_text, sizeof seed_text, "%" PRIu64, seed);
    snprintf(threads, sizeof threads, "%d", o->threads);
    int rc = tl_export_split(s, data, e);
    if (rc)
        return rc;
    const char *const what[] = {o->python, o->script, "run", name, data, stem, seed_text, threads, NULL};
    char *argv[WORDS + TL_PEER_SET];
    add_changes(name, o, what, argv);
    return run(argv, STDOUT_FILENO, answer, sizeof answer) == 0 ? 0 : tp_fail(e, TP_E_IO, "%s failed; see above", name);
}

int tl_peer_run(struct tl_contender *m, const struct tl_split *s, uint64_t seed, const struct tl_peer_opts *o,
                struct tl_trial *t, double *score, struct tp_err *e)
{
    char stem[PATH_LENGTH], path[PATH_LENGTH + 8];
    const char *folders[] = {"", "/cache", "/data"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s%s", o->dir, folders[i]);
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return tp_fail(e, TP_E_IO, "%s: %s", path, strerror(errno));
    }
    snprintf(stem, sizeof stem, "%s/cache/%s-%" PRIu64 "-%016" PRIx64, o->dir, m->name, seed, digest_of(m->name, s, o));
    snprintf(path, sizeof path, "%s.json", stem); /* written last */
    if (access(path, R_OK) != 0) {
        int rc = train(stem, m->name, s, seed, o, e);
        if (rc)
            return rc;
    }
    return read_back(stem, m, s->n_test, t, score, e);
}
