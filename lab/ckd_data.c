/* Logs and splits of a transfer (lab/ckd.h). */
#include "lab/ckd.h"

#include "lab/export.h"
#include "model/mem.h"
#include "sampler/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_LENGTH = 4096 };

static bool add_hardware(struct tl_ckd_transfer *t, const char *name)
{
    if (t->n == TL_CKD_HARDWARE || !*name || strlen(name) >= TL_CKD_NAME || strchr(name, '/'))
        return false;
    memcpy(t->hardware[t->n++], name, strlen(name) + 1);
    return true;
}

int tl_ckd_transfer_parse(const char *text, struct tl_ckd_transfer *t, struct tp_err *e)
{
    struct tl_ckd_transfer new = {0};
    char parts[sizeof new.name], *save = NULL, *inner = NULL;
    bool ok = strlen(text) < sizeof parts;
    snprintf(parts, sizeof parts, "%s", text);
    snprintf(new.name, sizeof new.name, "%s", text);
    for (char *p = strtok_r(parts, ">", &save); p && ok; p = strtok_r(NULL, ">", &save)) {
        if (new.n_sources) {
            ok = add_hardware(&new, p);
            continue;
        }
        for (char *q = strtok_r(p, "+", &inner); q && ok; q = strtok_r(NULL, "+", &inner))
            ok = add_hardware(&new, q);
        new.n_sources = new.n;
    }
    if (!ok || !new.n_sources || new.n == new.n_sources || new.n - new.n_sources > TL_CKD_HOPS)
        return tp_fail(e, TP_E_UNUSABLE,
                       "transfer %.64s: SOURCE[+SOURCE...]>TARGET[>TARGET...] is accepted, at most %d names", text,
                       (int)TL_CKD_HARDWARE);
    *t = new;
    return 0;
}

/* ---- keys ---- */

struct keys {
    char **key;
    size_t n;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct keys *k)
{
    if (k->n)
        qsort(k->key, k->n, sizeof *k->key, by_text);
}

static bool has(const struct keys *k, const char *key)
{
    return k->n && bsearch(&key, k->key, k->n, sizeof *k->key, by_text);
}

static int append(struct keys *k, const char *key)
{
    char **grown = realloc(k->key, (k->n + 1) * sizeof *grown);
    if (!grown)
        return -TP_E_NO_MEMORY;
    k->key = grown;
    k->key[k->n] = strdup(key);
    return k->key[k->n] ? (k->n++, 0) : -TP_E_NO_MEMORY;
}

/* A task's place in [0, 1), the same on every hardware. */
static double place(const char *key)
{
    return (double)(tl_digest(TL_DIGEST, key, strlen(key)) >> 11) * 0x1p-53;
}

/* Tasks whose places are in [from, to), but those of `out`. */
static int add_placed(const struct tl_corpus *c, double from, double to, const struct keys *out, struct keys *placed)
{
    int rc = 0;
    for (uint32_t t = 0; t < c->n_tasks && rc == 0; t++) {
        const char *key = c->tasks[t].workload_key;
        const double at = place(key);
        if (at >= from && at < to && !has(out, key))
            rc = append(placed, key);
    }
    return rc;
}

static int read_keys(const char *data, const char *name, struct keys *k, struct tp_err *e)
{
    char path[PATH_LENGTH];
    snprintf(path, sizeof path, "%s/splits/%s.test.txt", data, name);
    return tl_keys_read(path, &k->key, &k->n) ? tp_fail(e, TP_E_IO, "no test keys for %s", name) : 0;
}

/* ---- one hardware ---- */

static int read_logs(const char *data, struct tl_ckd_hardware *h, struct tp_err *e)
{
    static const char *const folders[] = {"public", "own"};
    char path[PATH_LENGTH];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/%s/%s", data, folders[i], h->name);
        if (access(path, R_OK) == 0)
            break;
    }
    if (!(h->corpus = tl_corpus_new()))
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for logs");
    int rc = tl_corpus_read(h->corpus, path, e);
    if (rc == 0 && h->corpus->n_tasks == 0)
        rc = tp_fail(e, TP_E_NOT_ENOUGH_DATA, "no programs in the logs of %s", h->name);
    if (rc == 0)
        h->kind = h->corpus->tasks[0].gpu ? TP_TARGET_GPU : TP_TARGET_CPU;
    return rc;
}

static int make_split(const struct tl_ckd_opts *o, struct tl_ckd_hardware *h, const struct keys *out,
                      const struct keys *own, struct tp_err *e)
{
    struct tl_split_opts so;
    struct tl_split *s = &h->split;
    size_t kept = 0;
    tl_split_defaults(&so);
    so.per_task = o->per_task;
    so.valid_fraction = 0;
    int rc = tl_split_make(h->corpus, out->key, out->n, &so, s, e);
    if (rc == -TP_E_NOT_ENOUGH_DATA && o->folds)
        return tp_fail(e, TP_E_NOT_ENOUGH_DATA, "a fold has no task of %s, or all of them: take fewer folds", h->name);
    for (size_t i = 0; rc == 0 && i < s->n_test; i++)
        if (has(own, h->corpus->tasks[h->corpus->programs[s->program[s->test[i]]].task].workload_key))
            s->test[kept++] = s->test[i];
    s->n_test = kept;
    return rc == 0 && kept == 0 ? tp_fail(e, TP_E_NOT_ENOUGH_DATA, "nothing to test on %s", h->name) : rc;
}

/* ---- a transfer ---- */

int tl_ckd_data_read(const struct tl_ckd_opts *o, const struct tl_ckd_transfer *t, uint32_t fold, struct tl_ckd_data *d,
                     struct tp_err *e)
{
    struct keys own[TL_CKD_HARDWARE] = {{0}}, out = {0}, placed = {0};
    const double from = o->folds ? (double)fold / o->folds : 0, to = o->folds ? (fold + 1.0) / o->folds : o->tune;
    int rc = 0;
    *d = (struct tl_ckd_data){.transfer = t, .digest = TL_DIGEST};
    for (uint32_t i = 0; i < t->n && rc == 0; i++) {
        memcpy(d->hw[i].name, t->hardware[i], TL_CKD_NAME);
        rc = o->folds && !(o->tune > 0) ? 0 : read_keys(o->data, t->hardware[i], &own[i], e);
        for (size_t k = 0; k < own[i].n && rc == 0; k++)
            rc = append(&out, own[i].key[k]);
        rc = rc ? rc : read_logs(o->data, &d->hw[i], e);
    }
    sort(&out);
    for (uint32_t i = 0; i < t->n && rc == 0 && to > 0; i++)
        rc = add_placed(d->hw[i].corpus, from, to, &out, &placed);
    sort(&placed);
    for (size_t k = 0; k < placed.n && rc == 0; k++)
        rc = append(&out, placed.key[k]);
    sort(&out);
    for (uint32_t i = 0; i < t->n && rc == 0; i++) {
        struct tl_ckd_hardware *h = &d->hw[i];
        if ((rc = make_split(o, h, &out, to > 0 ? &placed : &own[i], e)) == 0) {
            const uint64_t digest = tl_export_digest(&h->split);
            d->digest = tl_digest(d->digest, &digest, sizeof digest);
        }
    }
    for (uint32_t i = 0; i < t->n; i++)
        tl_keys_free(own[i].key, own[i].n);
    tl_keys_free(out.key, out.n);
    tl_keys_free(placed.key, placed.n);
    if (rc)
        tl_ckd_data_free(d);
    return rc == -TP_E_NO_MEMORY ? tp_fail(e, TP_E_NO_MEMORY, "no memory for the data of %s", t->name) : rc;
}

void tl_ckd_data_free(struct tl_ckd_data *d)
{
    for (uint32_t i = 0; i < TL_CKD_HARDWARE; i++) {
        if (d->hw[i].split.d)
            tl_split_free(&d->hw[i].split);
        tl_corpus_free(d->hw[i].corpus);
    }
    *d = (struct tl_ckd_data){0};
}

int tl_ckd_sample(const struct tl_ckd_hardware *h, double budget, uint64_t seed, uint32_t *out, size_t *n,
                  struct tp_err *e)
{
    const struct tl_split *s = &h->split;
    uint32_t *task = tm_alloc(s->n_train, sizeof *task);
    uint8_t(*key)[16] = tm_alloc(s->n_train, sizeof *key), *taken = tm_alloc(s->n_train, sizeof *taken);
    int rc = task && key && taken ? 0 : tp_fail(e, TP_E_NO_MEMORY, "no memory to draw programs");
    *n = 0;
    for (size_t i = 0, j; i < s->n_train && rc == 0; i = j) {
        for (j = i; j < s->n_train && s->d->task[s->train[j]] == s->d->task[s->train[i]]; j++)
            memcpy(key[j], h->corpus->programs[s->program[s->train[j]]].hash, 16);
        const uint32_t want = (uint32_t)fmax(lround(budget * (double)(j - i)), 2);
        rc = ts_sample(task + i, (const uint8_t(*)[16])key + i, j - i, want, seed, taken + i, NULL, e);
        for (size_t k = i; k < j && rc == 0; k++)
            if (taken[k])
                out[(*n)++] = s->train[k];
    }
    free(task);
    free(key);
    free(taken);
    return rc;
}
