/* Jobs over a restart: which go on, which are over, and the folders of those that go on: DIR/<job id>, with note.json
 * and whatever the job keeps beside it.
 *
 * Invariant: a folder belongs to a job whose row says running, or it is removed at the next start. The file `given-up`
 * says that a client cancelled the job: it is not resumed even if it had no time to end. Any thread. */
#include "daemon/jobs_priv.h"

#include "daemon/log.h"
#include "model/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTE     "note.json"
#define GIVEN_UP "given-up"

static int fail_io(struct tp_err *e, const char *what)
{
    return tp_fail(e, tp_code_of_errno(errno), "the folder of a job: %s: %s", what, strerror(errno));
}

static bool folder_of(const struct td_jobs *js, int64_t id, char folder[TD_JOB_PATH])
{
    return js->dir != NULL && snprintf(folder, TD_JOB_PATH, "%s/%lld", js->dir, (long long)id) < TD_JOB_PATH - 64;
}

static bool has(const char *folder, const char *name)
{
    char path[TD_JOB_PATH + 64];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

int td_job_keep(struct td_job *j, char folder[TD_JOB_PATH], struct tp_err *e)
{
    folder[0] = '\0';
    if (j->js->dir == NULL)
        return 0;
    if (!folder_of(j->js, j->id, folder)) {
        folder[0] = '\0';
        return tp_fail(e, TP_E_IO, "the folder of a job: its path is too long");
    }
    if ((mkdir(j->js->dir, 0700) != 0 && errno != EEXIST) || (mkdir(folder, 0700) != 0 && errno != EEXIST)) {
        folder[0] = '\0';
        return fail_io(e, "mkdir");
    }
    atomic_store(&j->kept, true);
    return 0;
}

int td_job_note(const char *folder, const json_t *note, struct tp_err *e)
{
    char path[TD_JOB_PATH + 64], tmp[TD_JOB_PATH + 64], *text = json_dumps(note, JSON_INDENT(1));
    size_t n = text != NULL ? strlen(text) : 0;
    int fd = -1, rc = 0;

    if (text == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for the state of a job");
    snprintf(path, sizeof path, "%s/" NOTE, folder);
    snprintf(tmp, sizeof tmp, "%s/" NOTE ".tmp", folder);
    fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, n) != (ssize_t)n || fsync(fd) != 0)
        rc = fail_io(e, "write");
    if (fd >= 0)
        close(fd);
    if (rc == 0 && rename(tmp, path) != 0)
        rc = fail_io(e, "rename");
    free(text);
    return rc;
}

json_t *td_job_noted(const char *folder)
{
    char path[TD_JOB_PATH + 64];
    json_t *o;

    snprintf(path, sizeof path, "%s/" NOTE, folder);
    o = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(o))
        return o;
    json_decref(o);
    return NULL;
}

static void remove_folder(const char *folder)
{
    DIR *d = opendir(folder);
    struct dirent *x;

    if (d == NULL)
        return;
    while ((x = readdir(d)) != NULL)
        if (strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0)
            unlinkat(dirfd(d), x->d_name, 0);
    closedir(d);
    rmdir(folder);
}

void td_kept_remove(struct td_jobs *js, int64_t id)
{
    char folder[TD_JOB_PATH];

    if (folder_of(js, id, folder))
        remove_folder(folder);
}

void td_kept_give_up(struct td_jobs *js, int64_t id)
{
    char folder[TD_JOB_PATH], path[TD_JOB_PATH + 64];
    int fd;

    if (!folder_of(js, id, folder))
        return;
    snprintf(path, sizeof path, "%s/" GIVEN_UP, folder);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
}

/* ---- at start ---- */
struct running {
    struct td_jobs *js;
    int64_t *id;
    size_t n, cap;
};

static int note_running(void *arg, const struct st_job *row)
{
    struct running *x = arg;
    char folder[TD_JOB_PATH];

    if (strcmp(row->kind, "retrain") != 0 || !folder_of(x->js, row->id, folder) || !has(folder, NOTE) ||
        has(folder, GIVEN_UP))
        return 0;
    if (tm_grow((void **)&x->id, &x->cap, x->n + 1, sizeof *x->id) != 0)
        return -TP_E_NO_MEMORY;
    x->id[x->n++] = row->id;
    return 0;
}

static void sweep(const struct running *x)
{
    DIR *d = opendir(x->js->dir);
    struct dirent *entry;

    if (d == NULL)
        return;
    while ((entry = readdir(d)) != NULL) {
        int64_t id = strtoll(entry->d_name, NULL, 10);
        bool known = id <= 0;

        for (size_t i = 0; i < x->n && !known; i++)
            known = x->id[i] == id;
        if (!known)
            td_kept_remove(x->js, id);
    }
    closedir(d);
}

/* Ids of jobs that run according to the store and have a folder to go on from; folders of others are removed. *id is
 * malloc'ed. */
static int find_kept(struct td_jobs *js, struct st_reader *r, int64_t **id, size_t *n, struct tp_err *e)
{
    struct running x = {.js = js};
    int rc = st_job_list(r, "running", NULL, 0, -1, note_running, &x, e);

    if (rc == -TP_E_NO_MEMORY)
        tp_fail(e, TP_E_NO_MEMORY, "no memory for a list of jobs");
    if (rc != 0) {
        free(x.id);
        return rc;
    }
    sweep(&x);
    *id = x.id; /* newest first: one that another waited for is older */
    *n = x.n;
    for (size_t i = 0; i < x.n / 2; i++) {
        int64_t t = x.id[i];

        x.id[i] = x.id[x.n - 1 - i];
        x.id[x.n - 1 - i] = t;
    }
    return 0;
}

/* A kept job of the last run, queued again. Its hardware may be gone: then its row goes with the others. */
static int requeue(struct td_jobs *js, struct st_reader *r, int64_t id, td_job_run resume, struct tp_err *e)
{
    struct st_job row = {0};
    struct st_hardware hw = {0};
    struct td_job *j = NULL;
    int rc = st_job_get(r, id, &row, e);

    if (rc == 0)
        rc = st_hardware_get(r, row.hardware, &hw, e);
    if (rc == 0 && (j = td_job_new(js, row.kind, row.hardware, hw.family, row.params, resume)) == NULL)
        rc = tp_fail(e, TP_E_NO_MEMORY, "no memory for a job");
    if (rc == 0) {
        j->id = j->row.id = id;
        j->row.created = row.created;
        j->event = 1;
        atomic_store(&j->kept, true);
        td_job_append_locked(js, j);
        td_log(TD_INFO, "job-resumed", TD_I("job", id), TD_S("hardware", row.hardware));
    }
    st_job_clear(&row);
    st_hardware_clear(&hw);
    return rc;
}

int td_kept_take_over(struct td_jobs *js, td_job_run resume, struct tp_err *e)
{
    struct st_reader *r = NULL;
    int64_t *id = NULL;
    size_t n_kept = 0, n = 0;
    int interrupted = 0, rc = st_reader_new(js->d->store, &r, e);

    if (rc == 0 && js->dir != NULL && resume != NULL)
        rc = find_kept(js, r, &id, &n_kept, e);
    for (size_t i = 0; i < n_kept && rc == 0; i++) {
        rc = requeue(js, r, id[i], resume, e);
        if (rc == 0)
            id[n++] = id[i];
        else if (rc == -TP_E_UNKNOWN_HARDWARE || rc == -TP_E_UNKNOWN_JOB)
            rc = 0;
    }
    st_reader_free(r);
    if (rc == 0) {
        rc = st_jobs_interrupt(js->d->store, id, n, &interrupted, e);
        js->stale = rc == -TP_E_DISK_FULL || rc == -TP_E_IO; /* predictions need no disk */
    }
    free(id);
    if (js->stale)
        td_log(TD_WARNING, "jobs-not-interrupted", TD_S("error", tp_code_slug(rc)));
    if (interrupted > 0)
        td_log(TD_WARNING, "jobs-interrupted", TD_I("jobs", interrupted));
    return js->stale ? 0 : rc;
}

int td_jobs_interrupt_again(struct td_jobs *js, struct tp_err *e)
{
    int64_t *id;
    size_t n = 0;
    int rc;

    pthread_mutex_lock(&js->mu);
    id = calloc((size_t)(js->queued + js->running) + 1, sizeof *id);
    for (const struct td_job *j = js->first; j != NULL && id != NULL; j = j->next)
        id[n++] = j->id;
    pthread_mutex_unlock(&js->mu);
    rc = id != NULL ? st_jobs_interrupt(js->d->store, id, n, NULL, e)
                    : tp_fail(e, TP_E_NO_MEMORY, "no memory for a list of jobs");
    free(id);
    return rc;
}
