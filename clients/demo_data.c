/* The demo's logs: read a folder of Ansor logs, group records by task, keep two tasks aside, judge a ranking.
 *
 * Invariant: what is posted later are the very bytes of the files; parsing only tells tasks, costs and bad lines apart.
 */
#include "clients/demo.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TASKS = 4096, MAX_FILES = 4096, MAX_PROGRAMS = 1 << 20 };

/* Room for one more item in an array that doubles; NULL when memory is short or the limit is reached. */
static void *grow(void *p, size_t n, size_t *cap, size_t size, size_t limit)
{
    if (n < *cap)
        return p;
    size_t more = *cap ? *cap * 2 : 16;
    void *q = more <= limit ? realloc(p, more * size) : NULL;
    if (q)
        *cap = more;
    return q;
}

/* ["conv2d", 1, [7, 7]] -> name "conv2d 1,7,7", op "conv2d" */
static int name_task(struct demo_task *t, struct tp_str key)
{
    t->name = malloc((size_t)key.n + 1);
    if (!t->name)
        return -1;
    size_t n = 0, comma = 0;
    for (uint32_t i = 0; i < key.n; i++) {
        char c = key.s[i];
        if (strchr("[]\" ", c))
            continue;
        if (c == ',' && !comma++)
            c = ' ';
        t->name[n++] = c;
    }
    t->name[n] = '\0';
    t->op = strndup(t->name, strcspn(t->name, " "));
    return t->op ? 0 : -1;
}

static struct demo_task *find_task(struct demo_logs *l, const struct tp_record *r)
{
    char id[TP_TASK_ID_LEN + 1];
    tp_task_id(&r->task, id);
    for (size_t i = l->n; i-- > 0;) /* files hold runs of one task */
        if (!strcmp(l->task[i].id, id))
            return &l->task[i];
    void *p = grow(l->task, l->n, &l->cap, sizeof *l->task, MAX_TASKS);
    if (!p)
        return NULL;
    l->task = p;
    struct demo_task *t = &l->task[l->n];
    memset(t, 0, sizeof *t);
    memcpy(t->id, id, sizeof t->id);
    l->n++;
    return name_task(t, r->task.workload_key) ? NULL : t;
}

static int add_record(struct demo_logs *l, const struct tp_record *r, const char *line, size_t n)
{
    struct demo_task *t = find_task(l, r);
    void *p = t ? grow(t->cost, t->n, &t->cap, sizeof *t->cost, MAX_PROGRAMS) : NULL;
    if (!p)
        return -1;
    t->cost = p;
    bool valid = tp_record_label(r) == TP_LABEL_VALID;
    t->cost[t->n++] = valid ? tp_result_min_cost(&r->result) : (double)INFINITY;
    t->valid += valid;
    tp_buf_put(&t->lines, line, n);
    tp_buf_putc(&t->lines, '\n');
    if (!l->records++) {
        snprintf(l->target, sizeof l->target, "%.*s", (int)r->task.target.n, r->task.target.s);
        l->has_hw_params = r->task.has_hw_params;
        memcpy(l->hw_params, r->task.hw_params, sizeof l->hw_params);
    }
    return t->lines.oom ? -1 : 0;
}

static int load_file(struct demo_logs *l, const char *path, struct tp_record *r, struct tc_err *e)
{
    int rc = -1;
    long number = 0;
    struct tp_err why;
    struct tp_buf b = {0};
    if (tc_read_file(path, &b, e))
        goto out;
    for (size_t at = 0; at < b.n;) {
        const char *line = b.p + at;
        size_t n = strcspn(line, "\n");
        at += n + 1;
        number++;
        if (!n || *line == '#')
            continue;
        if (tp_record_parse(r, line, n, &why)) {
            tc_fail(e, "%s:%ld is no usable tuning record: %s", path, number, why.detail);
            goto out;
        }
        if (add_record(l, r, line, n)) {
            tc_fail(e, "out of memory, or more than %d tasks", MAX_TASKS);
            goto out;
        }
    }
    l->files++;
    rc = 0;
out:
    tp_buf_free(&b);
    return rc;
}

static int is_log(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return d->d_name[0] != '.' && n > 5 && !strcmp(d->d_name + n - 5, ".json");
}

static int by_id(const void *a, const void *b)
{
    const struct demo_task *x = a, *y = b;
    return strcmp(x->id, y->id);
}

int demo_load(const char *dir, struct demo_logs *out, struct tc_err *e)
{
    int rc = -1;
    struct dirent **name = NULL;
    struct demo_logs l = {0};
    struct tp_record r;
    tp_record_init(&r);
    int n = scandir(dir, &name, is_log, alphasort);
    if (n <= 0 || n > MAX_FILES) {
        tc_fail(e, "%s holds no tuning logs (*.json): name a folder with --logs", dir);
        goto done;
    }
    for (int i = 0; i < n; i++) {
        char path[4096];
        if (snprintf(path, sizeof path, "%s/%s", dir, name[i]->d_name) >= (int)sizeof path) {
            tc_fail(e, "the path of %s is too long", name[i]->d_name);
            goto done;
        }
        if (load_file(&l, path, &r, e))
            goto done;
    }
    if (l.n)
        qsort(l.task, l.n, sizeof *l.task, by_id);
    *out = l;
    l = (struct demo_logs){0};
    rc = 0;
done:
    for (int i = 0; i < n; i++)
        free(name[i]);
    free(name);
    tp_record_free(&r);
    demo_free(&l);
    return rc;
}

void demo_free(struct demo_logs *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->task[i].name);
        free(l->task[i].op);
        free(l->task[i].cost);
        tp_buf_free(&l->task[i].lines);
    }
    free(l->task);
    *l = (struct demo_logs){0};
}

/* The first task (by id) of the operator with the most tasks, that operator not being `not_op`. */
static struct demo_task *choose(struct demo_logs *l, const char *not_op)
{
    enum { ENOUGH = 16 }; /* programs: below that top-5 says nothing */
    struct demo_task *found = NULL;
    size_t most = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct demo_task *t = &l->task[i];
        if (t->kept_aside || t->valid < ENOUGH || (not_op && !strcmp(t->op, not_op)))
            continue;
        size_t same = 0;
        for (size_t k = 0; k < l->n; k++)
            same += !strcmp(l->task[k].op, t->op);
        if (same > most) {
            most = same;
            found = t;
        }
    }
    return found;
}

int demo_keep_aside(struct demo_logs *l, struct tc_err *e)
{
    struct demo_task *first = choose(l, NULL);
    if (first)
        first->kept_aside = true;
    struct demo_task *second = first ? choose(l, first->op) : NULL;
    if (!second && first)
        second = choose(l, NULL);
    if (!second || l->n < 4)
        return tc_fail(e, "the logs hold %zu tasks; the demo keeps two aside and wants at least two more to learn from",
                       l->n);
    second->kept_aside = true;
    return 0;
}

int demo_rank(const struct demo_task *t, const double *score, struct demo_rank *out, struct tc_err *e)
{
    double right = 0, sum = 0, best = (double)INFINITY;
    size_t pairs = 0, n = 0;
    double top_score[5], top_cost[5]; /* the five highest scores, descending */
    size_t tops = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (!isfinite(t->cost[i]))
            continue;
        if (isnan(score[i]))
            return tc_fail(e, "tcld could not use program %zu of %s", i, t->name);
        n++;
        sum += t->cost[i];
        best = fmin(best, t->cost[i]);
        size_t at = tops;
        while (at > 0 && top_score[at - 1] < score[i])
            at--;
        if (at < 5) {
            size_t keep = tops < 5 ? tops++ : 4;
            memmove(&top_score[at + 1], &top_score[at], (keep - at) * sizeof *top_score);
            memmove(&top_cost[at + 1], &top_cost[at], (keep - at) * sizeof *top_cost);
            top_score[at] = score[i];
            top_cost[at] = t->cost[i];
        }
        for (size_t k = 0; k < i; k++) {
            if (!isfinite(t->cost[k]) || t->cost[k] == t->cost[i])
                continue;
            pairs++;
            if (score[i] == score[k])
                right += 0.5;
            else
                right += (score[i] > score[k]) == (t->cost[i] < t->cost[k]);
        }
    }
    if (!n || !pairs)
        return tc_fail(e, "task %s holds no two programs to compare", t->name);
    double best5 = top_cost[0];
    for (size_t i = 1; i < tops; i++)
        best5 = fmin(best5, top_cost[i]);
    *out = (struct demo_rank){.picked = top_cost[0],
                              .random = sum / (double)n,
                              .best = best,
                              .top1 = best / top_cost[0],
                              .top5 = best / best5,
                              .pairwise = right / (double)pairs};
    return 0;
}
