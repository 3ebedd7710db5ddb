/* An adapt job on toy hardware, and what kills and resumes it. Header only. */
#ifndef TEST_CKD_JOB_H
#define TEST_CKD_JOB_H

#include "ckd_toy.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

/* A job on the second hardware with a knowledge base of the first. */
struct job {
    struct toy a, b;
    struct tk_kb *kb;
    struct tk_older older;
    struct tk_adapt adapt;
};

static inline void job_begin(struct job *j, int epochs)
{
    j->kb = toy_kb(&j->a, epochs);
    tk_adapt_defaults(&j->adapt);
    j->adapt.kind = TP_TARGET_GPU;
    j->adapt.kb = j->kb;
    j->adapt.train = j->b.train_set;
    j->adapt.valid = j->b.valid_set;
    j->older = (struct tk_older){.held_out = j->a.valid_set};
    j->adapt.older = &j->older;
    j->adapt.n_older = 1;
    j->adapt.scratch.steps = j->adapt.cl.steps = 0;
    j->adapt.scratch.train.epochs = j->adapt.cl.train.epochs = 10;
    j->adapt.kd.train.epochs = 5;
}

static inline void job_init(struct job *j, bool related)
{
    toy_init(&j->a, false, 1);
    toy_init(&j->b, !related, 2);
    job_begin(j, 10);
}

/* With the published network, as weights files hold no other. */
static inline void job_init_wide(struct job *j)
{
    toy_init_wide(&j->a, false, 1, 64, 72);
    toy_init_wide(&j->b, false, 2, 64, 72);
    job_begin(j, 3);
    j->adapt.cl.train.epochs = 2;
    j->adapt.cl.train.period = 2;
    j->adapt.scratch.train.epochs = 1;
    j->adapt.kd.train.epochs = 2;
}

static inline void job_free(struct job *j)
{
    tk_kb_free(j->kb);
    toy_free(&j->a);
    toy_free(&j->b);
}

struct saver {
    const char *dir;
    int left; /* checkpoints until the job is killed */
};

static inline int save(void *arg, const struct tk_adapt_state *s)
{
    struct saver *k = arg;
    struct tp_err e;
    ck_assert_msg(tk_adapt_save(k->dir, s, &e) == 0, "%s", e.detail);
    return --k->left == 0 ? -TP_E_INTERRUPTED : 0;
}

static inline int files_in(const char *dir, bool remove_them)
{
    DIR *d = opendir(dir);
    int n = 0;
    char path[512];
    for (struct dirent *f; (f = readdir(d));) {
        if (f->d_name[0] == '.')
            continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", dir, f->d_name);
        if (remove_them)
            unlink(path);
    }
    closedir(d);
    return n;
}

#endif
