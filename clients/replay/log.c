/* See the header. Entries are sorted by program hash, then by their order in the files. One owner, one thread. */
#include "clients/replay/log.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    uint8_t key[16];
    size_t order;
    size_t cost; /* index of its first cost */
    uint32_t n_costs;
    int32_t error_no;
    double all_cost;
    size_t answered; /* of the first entry of a program: how often it was asked for */
};

struct rp_log {
    struct entry *entry;
    size_t n, cap, programs;
    double *cost;
    size_t n_costs, cap_costs;
    struct tp_buf packed;
};

static bool grow(void **p, size_t need, size_t *cap, size_t size)
{
    size_t want = *cap * 2 > need ? *cap * 2 : need + 64;
    void *q = need <= *cap ? *p : realloc(*p, want * size);
    if (!q)
        return false;
    *cap = need <= *cap ? *cap : want;
    *p = q;
    return true;
}

static bool key_of(struct rp_log *l, struct tp_record *r, uint8_t key[16])
{
    l->packed.n = 0;
    tp_steps_pack(r->steps, r->n_steps, &l->packed);
    if (l->packed.oom)
        return false;
    tp_program_hash(tp_record_task_id(r), l->packed.p, l->packed.n, key);
    return true;
}

static bool add(struct rp_log *l, struct tp_record *r)
{
    struct entry x = {.order = l->n,
                      .cost = l->n_costs,
                      .n_costs = r->result.n_costs,
                      .error_no = r->result.error_no,
                      .all_cost = r->result.all_cost};
    if (!key_of(l, r, x.key) || !grow((void **)&l->entry, l->n + 1, &l->cap, sizeof x) ||
        !grow((void **)&l->cost, l->n_costs + x.n_costs, &l->cap_costs, sizeof *l->cost))
        return false;
    if (x.n_costs)
        memcpy(l->cost + l->n_costs, r->result.costs, x.n_costs * sizeof *l->cost);
    l->n_costs += x.n_costs;
    l->entry[l->n++] = x;
    return true;
}

static int by_key(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int c = memcmp(x->key, y->key, sizeof x->key);
    return c ? c : (x->order > y->order) - (x->order < y->order);
}

static int read_file(struct rp_log *l, const char *path, struct tp_record *r, struct tc_err *e)
{
    struct tp_buf text = {0};
    int rc = tc_read_file(path, &text, e);
    for (size_t at = 0; rc == 0 && at < text.n;) {
        const char *line = text.p + at, *end = memchr(line, '\n', text.n - at);
        size_t n = end ? (size_t)(end - line) : text.n - at;
        at += n + 1;
        if (tp_record_parse(r, line, n, NULL) == 0 && tp_record_label(r) != TP_LABEL_NONE && !add(l, r))
            rc = tc_fail(e, "no memory for %s", path);
    }
    tp_buf_free(&text);
    return rc;
}

struct rp_log *rp_log_new(char *const *files, int n, struct tc_err *e)
{
    struct rp_log *l = calloc(1, sizeof *l);
    struct tp_record r;
    int rc = l ? 0 : tc_fail(e, "no memory for a log");
    tp_record_init(&r);
    for (int i = 0; i < n && rc == 0; i++)
        rc = read_file(l, files[i], &r, e);
    tp_record_free(&r);
    if (rc == 0 && l->n == 0)
        rc = tc_fail(e, "no measured record in the logs (%s, ...)", n ? files[0] : "none given");
    if (rc) {
        rp_log_free(l);
        return NULL;
    }
    qsort(l->entry, l->n, sizeof *l->entry, by_key);
    for (size_t i = 0; i < l->n; i++)
        l->programs += i == 0 || memcmp(l->entry[i].key, l->entry[i - 1].key, sizeof l->entry->key) != 0;
    return l;
}

void rp_log_free(struct rp_log *l)
{
    if (!l)
        return;
    free(l->entry);
    free(l->cost);
    tp_buf_free(&l->packed);
    free(l);
}

size_t rp_log_records(const struct rp_log *l)
{
    return l->n;
}

size_t rp_log_programs(const struct rp_log *l)
{
    return l->programs;
}

bool rp_log_find(struct rp_log *l, struct tp_record *r, struct tp_result *out)
{
    uint8_t key[16];
    size_t lo = 0, hi = l->n, n = 0;
    if (!key_of(l, r, key))
        return false;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (memcmp(l->entry[mid].key, key, sizeof key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    while (lo + n < l->n && memcmp(l->entry[lo + n].key, key, sizeof key) == 0)
        n++;
    if (!n)
        return false;
    const struct entry *x = &l->entry[lo + l->entry[lo].answered++ % n];
    *out = (struct tp_result){
        .n_costs = x->n_costs, .costs = l->cost + x->cost, .error_no = x->error_no, .all_cost = x->all_cost};
    return true;
}
