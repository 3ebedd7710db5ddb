/* Log files in memory.
 *
 * One pass over each file; a program is found again by its 128-bit hash in an open-addressed table of program numbers.
 * Consecutive lines mostly belong to one task, so the last task's text is kept and its identity is hashed once. */
#include "lab/corpus.h"

#include "model/mem.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { READ_CHUNK = 1 << 16 };

struct tl_corpus_mem {
    struct tp_record rec;
    struct tp_buf steps;     /* packed steps of all programs */
    struct tp_buf task_text; /* printed task of the present record */
    uint32_t last_task;      /* its number; valid while last_text holds the same bytes */
    struct tp_buf last_text;
    uint32_t *slots; /* program number + 1, 0 = free */
    uint32_t n_slots;
    uint32_t cap_programs, cap_tasks;
    uint32_t n_runs, n_costs;
    size_t cap_runs, cap_costs;
};

struct tl_corpus *tl_corpus_new(void)
{
    struct tl_corpus *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->mem = calloc(1, sizeof *c->mem);
    if (c->mem == NULL) {
        free(c);
        return NULL;
    }
    tp_record_init(&c->mem->rec);
    return c;
}

void tl_corpus_free(struct tl_corpus *c)
{
    if (c == NULL)
        return;
    for (uint32_t i = 0; i < c->n_tasks; i++) {
        free(c->tasks[i].workload_key);
        free(c->tasks[i].text);
    }
    free(c->tasks);
    free(c->programs);
    free(c->runs);
    free(c->costs);
    tp_record_free(&c->mem->rec);
    tp_buf_free(&c->mem->steps);
    tp_buf_free(&c->mem->task_text);
    tp_buf_free(&c->mem->last_text);
    free(c->mem->slots);
    free(c->mem);
    free(c);
}

static uint32_t slot_of(const struct tl_corpus_mem *m, const uint8_t hash[16])
{
    uint32_t h;
    memcpy(&h, hash, sizeof h);
    return h & (m->n_slots - 1);
}

static int grow_slots(struct tl_corpus *c, struct tp_err *e)
{
    struct tl_corpus_mem *m = c->mem;
    if (c->n_programs * 2u < m->n_slots)
        return 0;
    uint32_t n = m->n_slots ? m->n_slots * 2 : 1u << 14;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (slots == NULL)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for %u programs", n);
    free(m->slots);
    m->slots = slots;
    m->n_slots = n;
    for (uint32_t i = 0; i < c->n_programs; i++) {
        uint32_t s = slot_of(m, c->programs[i].hash);
        while (slots[s])
            s = (s + 1) & (n - 1);
        slots[s] = i + 1;
    }
    return 0;
}

/* Number of the record's task; a new one is appended. */
static int find_task(struct tl_corpus *c, const struct tp_record *r, uint32_t *out, struct tp_err *e)
{
    struct tl_corpus_mem *m = c->mem;
    m->task_text.n = 0;
    tp_task_emit(&r->task, &m->task_text);
    if (m->task_text.oom)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for a task");
    if (m->last_text.n == m->task_text.n && m->last_text.n &&
        memcmp(m->last_text.p, m->task_text.p, m->last_text.n) == 0) {
        *out = m->last_task;
        return 0;
    }
    char id[TP_TASK_ID_LEN + 1];
    tp_task_id(&r->task, id);
    uint32_t t = 0;
    while (t < c->n_tasks && strcmp(c->tasks[t].id, id) != 0)
        t++;
    if (t == c->n_tasks) {
        if (c->n_tasks == m->cap_tasks) {
            uint32_t cap = m->cap_tasks ? m->cap_tasks * 2 : 64;
            struct tl_task *v = realloc(c->tasks, cap * sizeof *v);
            if (v == NULL)
                return tp_fail(e, TP_E_NO_MEMORY, "no memory for %u tasks", cap);
            c->tasks = v;
            m->cap_tasks = cap;
        }
        struct tp_target target;
        int rc = tp_target_parse(r->task.target.s, r->task.target.n, &target, e);
        if (rc)
            return rc;
        struct tl_task n = {.gpu = target.kind == TP_TARGET_GPU, .text_len = m->task_text.n};
        memcpy(n.id, id, sizeof n.id);
        n.workload_key = strndup(r->task.workload_key.s, r->task.workload_key.n);
        n.text = malloc(m->task_text.n);
        if (n.workload_key == NULL || n.text == NULL) {
            free(n.workload_key);
            free(n.text);
            return tp_fail(e, TP_E_NO_MEMORY, "no memory for a task");
        }
        memcpy(n.text, m->task_text.p, m->task_text.n);
        c->tasks[c->n_tasks++] = n;
    }
    m->last_text.n = 0;
    tp_buf_put(&m->last_text, m->task_text.p, m->task_text.n);
    m->last_task = *out = t;
    return 0;
}

static double mean_cost(const struct tp_result *r)
{
    double sum = 0;
    for (uint32_t i = 0; i < r->n_costs; i++)
        sum += r->costs[i];
    return sum / r->n_costs;
}

/* Append a measurement to its program's list. */
static int add_run(struct tl_corpus *c, struct tl_program *p, const struct tp_result *r, struct tp_err *e)
{
    struct tl_corpus_mem *m = c->mem;
    if (tm_grow((void **)&c->runs, &m->cap_runs, (size_t)m->n_runs + 1, sizeof *c->runs) ||
        tm_grow((void **)&c->costs, &m->cap_costs, (size_t)m->n_costs + r->n_costs, sizeof *c->costs))
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for %u measurements", m->n_runs);
    uint32_t *last = &p->first_run;
    while (*last != TL_NO_RUN)
        last = &c->runs[*last].next;
    *last = m->n_runs;
    c->runs[m->n_runs++] = (struct tl_run){.n = (uint32_t)r->n_costs, .at = m->n_costs, .next = TL_NO_RUN};
    memcpy(c->costs + m->n_costs, r->costs, r->n_costs * sizeof *r->costs);
    m->n_costs += (uint32_t)r->n_costs;
    return 0;
}

static int add_record(struct tl_corpus *c, struct tp_err *e)
{
    struct tl_corpus_mem *m = c->mem;
    const struct tp_record *r = &m->rec;
    enum tp_label label = tp_record_label(r);
    if (label == TP_LABEL_NONE)
        return tp_fail(e, TP_E_NOT_MEASURED, "the record has no measured cost");
    uint32_t t = 0;
    int rc = find_task(c, r, &t, e);
    if (rc || (rc = grow_slots(c, e)))
        return rc;
    size_t at = m->steps.n;
    tp_steps_pack(r->steps, r->n_steps, &m->steps);
    if (m->steps.oom)
        return tp_fail(e, TP_E_NO_MEMORY, "no memory for the steps");
    uint8_t hash[16];
    tp_program_hash(c->tasks[t].id, m->steps.p + at, m->steps.n - at, hash);
    uint32_t s = slot_of(m, hash);
    while (m->slots[s] && memcmp(c->programs[m->slots[s] - 1].hash, hash, 16) != 0)
        s = (s + 1) & (m->n_slots - 1);
    struct tl_program *p;
    if (m->slots[s]) { /* known: its packed steps are there already */
        m->steps.n = at;
        p = &c->programs[m->slots[s] - 1];
    } else {
        if (c->n_programs == m->cap_programs) {
            uint32_t cap = m->cap_programs ? m->cap_programs * 2 : 4096;
            struct tl_program *v = realloc(c->programs, cap * sizeof *v);
            if (v == NULL)
                return tp_fail(e, TP_E_NO_MEMORY, "no memory for %u programs", cap);
            c->programs = v;
            m->cap_programs = cap;
        }
        p = &c->programs[c->n_programs];
        *p = (struct tl_program){.task = t,
                                 .steps = at,
                                 .steps_len = (uint32_t)(m->steps.n - at),
                                 .min_cost = INFINITY,
                                 .mean_cost = INFINITY,
                                 .first_run = TL_NO_RUN};
        memcpy(p->hash, hash, 16);
        m->slots[s] = ++c->n_programs;
        c->tasks[t].programs++;
    }
    if (label == TP_LABEL_VALID) {
        if (isinf(p->min_cost))
            c->tasks[t].valid++;
        double lo = tp_result_min_cost(&r->result), mean = mean_cost(&r->result);
        p->min_cost = lo < p->min_cost ? lo : p->min_cost;
        p->mean_cost = mean < p->mean_cost ? mean : p->mean_cost;
        if ((rc = add_run(c, p, &r->result, e)))
            return rc;
    }
    c->records++;
    return 0;
}

static int read_file(struct tl_corpus *c, const char *path, struct tp_err *e)
{
    int rc = 0;
    long line_no = 0;
    struct tp_buf buf = {0};
    gzFile f = gzopen(path, "rb"); /* reads plain files as they are */
    if (f == NULL)
        return tp_fail(e, TP_E_IO, "%s cannot be opened", path);
    size_t start = 0;
    bool more = true;
    while (more) {
        if (start) { /* keep only the unfinished line */
            memmove(buf.p, buf.p + start, buf.n - start);
            buf.n -= start;
            start = 0;
        }
        char *room = tp_buf_grow(&buf, READ_CHUNK);
        if (room == NULL) {
            rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to read %s", path);
            goto out;
        }
        int got = gzread(f, room, READ_CHUNK);
        if (got < 0) {
            rc = tp_fail(e, TP_E_IO, "%s: broken gzip data", path);
            goto out;
        }
        buf.n += (size_t)got;
        more = got > 0;
        if (!more && buf.n) /* a last line without newline */
            tp_buf_putc(&buf, '\n');
        char *nl;
        while (start < buf.n && (nl = memchr(buf.p + start, '\n', buf.n - start)) != NULL) {
            char *s = buf.p + start;
            size_t n = (size_t)(nl - s);
            start += n + 1;
            line_no++;
            c->lines++;
            if (n && s[n - 1] == '\r')
                n--;
            if (n == 0 || *s == '#' || *s == ' ')
                continue;
            struct tp_err bad = {0};
            int code = tp_record_parse(&c->mem->rec, s, n, &bad);
            if (code == 0)
                code = add_record(c, &bad);
            if (code == -TP_E_NO_MEMORY) {
                rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to read %s", path);
                goto out;
            }
            if (code && c->rejected++ == 0) {
                c->first_error = bad;
                c->first_error.line = line_no;
            }
        }
        if (buf.n - start > TP_MAX_LINE) {
            rc = tp_fail(e, TP_E_TOO_LONG, "%s:%ld: line over %d bytes", path, line_no + 1, TP_MAX_LINE);
            goto out;
        }
    }
out:
    gzclose(f);
    tp_buf_free(&buf);
    return rc;
}

/* How sure the lowest cost is: as the record says that holds it. */
static double noise(const struct tl_corpus *c, const struct tl_program *p)
{
    for (uint32_t r = p->first_run; r != TL_NO_RUN; r = c->runs[r].next)
        for (uint32_t i = 0; i < c->runs[r].n; i++)
            if (c->costs[c->runs[r].at + i] == p->min_cost)
                return tm_noise(c->costs + c->runs[r].at, c->runs[r].n);
    return 0;
}

static int is_log(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return (n > 5 && strcmp(d->d_name + n - 5, ".json") == 0) || (n > 8 && strcmp(d->d_name + n - 8, ".json.gz") == 0);
}

int tl_corpus_read(struct tl_corpus *c, const char *path, struct tp_err *e)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return tp_fail(e, TP_E_IO, "%s does not exist", path);
    if (!S_ISDIR(st.st_mode))
        return read_file(c, path, e);
    struct dirent **names = NULL;
    int n = scandir(path, &names, is_log, alphasort), rc = 0;
    if (n < 0)
        return tp_fail(e, TP_E_IO, "%s cannot be read", path);
    if (n == 0)
        rc = tp_fail(e, TP_E_IO, "%s holds no *.json or *.json.gz", path);
    for (int i = 0; i < n; i++) {
        char *file = NULL;
        if (rc == 0 && asprintf(&file, "%s/%s", path, names[i]->d_name) < 0)
            rc = tp_fail(e, TP_E_NO_MEMORY, "no memory to read %s", path);
        if (rc == 0)
            rc = read_file(c, file, e);
        free(file);
        free(names[i]);
    }
    free(names);
    return rc;
}

int tl_corpus_encode(const struct tl_corpus *c, uint32_t i, double cost, struct tm_dataset *d,
                     struct tp_record *scratch, struct tp_err *e)
{
    const struct tl_program *p = &c->programs[i];
    const struct tl_task *t = &c->tasks[p->task];
    int rc = tp_task_parse(scratch, t->text, t->text_len, e);
    if (rc == 0)
        rc = tp_steps_unpack(scratch, c->mem->steps.p + p->steps, p->steps_len, e);
    if (rc == 0)
        rc = tm_dataset_add(d, scratch, t->id, p->hash, cost, NULL, e);
    if (rc == 1 && cost == p->min_cost)
        tm_dataset_set_noise(d, d->n - 1, noise(c, p));
    return rc < 0 ? rc : 0;
}
