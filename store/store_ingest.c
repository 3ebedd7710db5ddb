/* Measurements and candidates on their way in: a batch is hashed and packed by the thread that parsed it, so that the
 * writer only runs prepared statements.
 *
 * A batch holds rows that point into one arena of bytes, and the task variants that its rows need. A variant may stand
 * there twice when many tasks alternate (the table that finds it again is direct-mapped); that costs room, not truth,
 * since the writer knows variants by digest.
 * Invariant: sums in hardware_task are written once per batch and variant, in the transaction that holds the rows.
 * Threads: st_ingest_new/add/free on the batch's owner; run() and finish() on the writer. */
#include "store/db.h"

#include "proto/target.h"

#include <endian.h>
#include <math.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIANT_SEEN = 64 /* slots that find a variant of the same batch again */ };

struct span {
    size_t at, n; /* in the arena */
};

struct variant {
    uint8_t digest[16];
    char task_id[TP_TASK_ID_LEN + 1];
    char target_kind[64];
    struct span identity, workload_key, array, version;
    bool has_version;
    /* the writer's: row ids and what this batch adds to the sums */
    int64_t id, task;
    int64_t programs, measurements, failures, best;
    double best_cost;
};

struct row {
    uint32_t variant;
    int32_t error_no;
    uint8_t hash[16];
    int64_t digest; /* of costs, error_no, timestamp as they print */
    struct span steps, costs;
    double min_cost; /* NaN: a failure */
    double all_cost, timestamp;
};

struct st_ingest {
    struct st_op op; /* first: the writer hands it back */
    char agent[ST_ID_MAX + 1];
    char hardware[ST_ID_MAX + 1];
    bool has_agent;
    int repeat;            /* > 0: a batch of candidates */
    int64_t limit;         /* of candidates that wait */
    bool pool;             /* the writer's: the hardware has candidates that measurements may close */
    struct st_moves moves; /* the same: what became of candidates */
    int64_t received;      /* unix seconds, milliseconds for candidates */
    struct row *rows;
    size_t n_rows, cap_rows;
    struct variant *variants;
    size_t n_variants, cap_variants;
    uint32_t last;               /* variant of the row before */
    uint32_t seen[VARIANT_SEEN]; /* index + 1 by first byte of the digest */
    struct tp_buf arena;
    struct tp_buf scratch;
    struct st_ingest_result result;
    void (*done)(void *arg, const struct st_ingest_result *);
    void *arg;
};

/* ---- building ---- */

struct st_ingest *st_ingest_new(const char *agent)
{
    struct st_ingest *b = calloc(1, sizeof *b);
    if (b && agent) {
        b->has_agent = true;
        snprintf(b->agent, sizeof b->agent, "%s", agent);
    }
    return b;
}

struct st_ingest *st_ingest_new_candidates(int repeat, int64_t limit)
{
    struct st_ingest *b = st_ingest_new(NULL);
    if (b) {
        b->repeat = repeat > 1 ? repeat : 1;
        b->limit = limit;
    }
    return b;
}

void st_ingest_free(struct st_ingest *b)
{
    if (!b)
        return;
    free(b->rows);
    free(b->variants);
    tp_buf_free(&b->arena);
    tp_buf_free(&b->scratch);
    free(b);
}

size_t st_ingest_size(const struct st_ingest *b)
{
    return b->n_rows;
}

/* Room for one more item; the old array stays valid on failure. */
static bool grow(void **p, size_t n, size_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    size_t want = *cap ? *cap * 2 : 16;
    void *q = want > *cap && want <= SIZE_MAX / size ? realloc(*p, want * size) : NULL;
    if (!q)
        return false;
    *p = q;
    *cap = want;
    return true;
}

static struct span keep(struct tp_buf *arena, const void *p, size_t n)
{
    struct span s = {arena->n, n};
    tp_buf_put(arena, p, n);
    return s;
}

static const char *at(const struct st_ingest *b, struct span s)
{
    return b->arena.p + s.at;
}

static void sha256(const struct tp_buf *b, size_t n, uint8_t *out)
{
    struct sha256_ctx c;
    sha256_init(&c);
    sha256_update(&c, b->n, (const uint8_t *)b->p);
    sha256_digest(&c, n, out);
}

static int no_memory(struct tp_err *e)
{
    return tp_fail(e, TP_E_NO_MEMORY, "no memory for a batch of records");
}

/* Most records follow one of the same task: a comparison is cheaper than a hash. */
static bool is_variant(const struct st_ingest *b, uint32_t i, const struct tp_record *r, const char *array, size_t n)
{
    const struct variant *v = &b->variants[i];
    return v->array.n == n && v->has_version == r->has_version && v->version.n == (r->has_version ? r->version.n : 0) &&
           memcmp(at(b, v->array), array, n) == 0 &&
           (v->version.n == 0 || memcmp(at(b, v->version), r->version.s, v->version.n) == 0);
}

/* The variant of r's task in this batch, added when it is new. */
static int find_variant(struct st_ingest *b, const struct tp_record *r, uint32_t *out, struct tp_err *e)
{
    struct tp_buf *t = &b->scratch;
    struct tp_target target;
    struct variant v = {.has_version = r->has_version};

    t->n = 0;
    tp_buf_putc(t, r->has_version ? '1' : '0');
    tp_buf_put(t, r->version.s, r->has_version ? r->version.n : 0);
    tp_buf_putc(t, '\0');
    size_t head = t->n;
    tp_task_emit(&r->task, t);
    if (t->oom)
        return no_memory(e);
    if (b->n_variants && is_variant(b, b->last, r, t->p + head, t->n - head)) {
        *out = b->last;
        return 0;
    }
    sha256(t, sizeof v.digest, v.digest);
    uint32_t *seen = &b->seen[v.digest[0] % VARIANT_SEEN];
    if (*seen && memcmp(b->variants[*seen - 1].digest, v.digest, sizeof v.digest) == 0) {
        *out = b->last = *seen - 1;
        return 0;
    }

    int rc = tp_target_parse(r->task.target.s, r->task.target.n, &target, e);
    if (rc < 0)
        return rc;
    memcpy(v.target_kind, target.name, sizeof v.target_kind);
    v.array = keep(&b->arena, t->p + head, t->n - head);
    v.version = keep(&b->arena, r->version.s, r->has_version ? r->version.n : 0);
    v.workload_key = keep(&b->arena, r->task.workload_key.s, r->task.workload_key.n);
    v.identity.at = b->arena.n;
    tp_task_identity(&r->task, &b->arena);
    v.identity.n = b->arena.n - v.identity.at;
    tp_task_id(&r->task, v.task_id);
    if (!v.task_id[0] || b->arena.oom || !grow((void **)&b->variants, b->n_variants, &b->cap_variants, sizeof v))
        return no_memory(e);
    b->variants[b->n_variants] = v;
    *out = b->last = (uint32_t)b->n_variants++;
    *seen = *out + 1;
    return 0;
}

/* Equal for results that print alike but for all_cost: what makes a second post of a record a duplicate. */
static int result_digest(struct st_ingest *b, const struct tp_result *result, int64_t *out, struct tp_err *e)
{
    struct tp_result r = *result;
    uint8_t d[8];
    r.all_cost = 0;
    b->scratch.n = 0;
    tp_result_emit(&r, &b->scratch);
    if (b->scratch.oom)
        return no_memory(e);
    sha256(&b->scratch, sizeof d, d);
    memcpy(out, d, sizeof d);
    *out = (int64_t)le64toh((uint64_t)*out);
    return 0;
}

static struct span keep_costs(struct tp_buf *arena, const struct tp_result *r)
{
    struct span s = {arena->n, (size_t)r->n_costs * sizeof(double)};
    for (uint32_t i = 0; i < r->n_costs; i++) {
        uint64_t bits;
        memcpy(&bits, &r->costs[i], sizeof bits);
        bits = htole64(bits);
        tp_buf_put(arena, &bits, sizeof bits);
    }
    return s;
}

int st_ingest_add(struct st_ingest *b, const struct tp_record *r, struct tp_err *e)
{
    enum tp_label label = tp_record_label(r);
    struct row row = {.error_no = r->result.error_no};
    if (label == TP_LABEL_NONE && !b->repeat)
        return tp_fail(e, TP_E_NOT_MEASURED, "the record holds no measured cost and no error");
    if (b->n_rows >= UINT32_MAX || !grow((void **)&b->rows, b->n_rows, &b->cap_rows, sizeof row))
        return no_memory(e);
    /* an error leaves bytes in the arena that no row points to; they go with the batch */
    int rc = find_variant(b, r, &row.variant, e);
    if (rc == 0 && !b->repeat)
        rc = result_digest(b, &r->result, &row.digest, e);
    if (rc < 0)
        return rc;
    row.steps.at = b->arena.n;
    tp_steps_pack(r->steps, r->n_steps, &b->arena);
    row.steps.n = b->arena.n - row.steps.at;
    if (!b->repeat)
        row.costs = keep_costs(&b->arena, &r->result);
    if (b->arena.oom)
        return no_memory(e);
    tp_program_hash(b->variants[row.variant].task_id, b->arena.p + row.steps.at, row.steps.n, row.hash);
    row.min_cost = label == TP_LABEL_VALID ? tp_result_min_cost(&r->result) : (double)NAN;
    row.all_cost = r->result.all_cost;
    row.timestamp = r->result.timestamp;
    b->rows[b->n_rows++] = row;
    return 0;
}

/* ---- on the writer ---- */

static int task_row(struct st_db *db, const struct st_ingest *b, struct variant *v, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ST_SQL_W_TASK_ID);
    st_q_text(&q, v->task_id);
    int rc = st_q_first(&q, &v->task, e);
    if (rc)
        return rc < 0 ? rc : 0;
    q = st_q_begin(db, ST_SQL_W_TASK_INSERT);
    st_q_text(&q, v->task_id);
    st_q_textn(&q, at(b, v->identity), v->identity.n);
    st_q_textn(&q, at(b, v->workload_key), v->workload_key.n);
    st_q_text(&q, v->target_kind);
    rc = st_q_run(&q, e);
    v->task = sqlite3_last_insert_rowid(db->h);
    return rc;
}

static int variant_row(struct st_store *s, const struct st_ingest *b, struct variant *v, struct tp_err *e)
{
    size_t slot = (v->digest[0] | (size_t)v->digest[1] << 8) % ST_VARIANT_SLOTS;
    struct st_variant_slot *known = &s->variants[slot];
    if (known->variant && memcmp(known->digest, v->digest, sizeof v->digest) == 0) {
        v->id = known->variant;
        v->task = known->task;
        return 0;
    }
    int rc = task_row(&s->db, b, v, e);
    if (rc < 0)
        return rc;
    struct st_q q = st_q_begin(&s->db, ST_SQL_W_VARIANT_ID);
    st_q_blob(&q, v->digest, sizeof v->digest);
    rc = st_q_first(&q, &v->id, e);
    if (rc < 0)
        return rc;
    if (rc == 0) {
        q = st_q_begin(&s->db, ST_SQL_W_VARIANT_INSERT);
        st_q_blob(&q, v->digest, sizeof v->digest);
        st_q_int(&q, v->task);
        st_q_textn(&q, at(b, v->array), v->array.n);
        st_q_textn(&q, v->has_version ? at(b, v->version) : NULL, v->version.n);
        if ((rc = st_q_run(&q, e)) < 0)
            return rc;
        v->id = sqlite3_last_insert_rowid(s->db.h);
    }
    memcpy(known->digest, v->digest, sizeof known->digest);
    known->variant = v->id;
    known->task = v->task;
    return 0;
}

/* *measured: this hardware has a measurement of the program already. */
static int program_row(struct st_db *db, const struct st_ingest *b, const struct row *r, int64_t task, int64_t hw,
                       int64_t *id, bool *measured, struct tp_err *e)
{
    struct st_q q = st_q_begin(db, ST_SQL_W_PROGRAM_INSERT);
    st_q_int(&q, task);
    st_q_blob(&q, r->hash, sizeof r->hash);
    st_q_blob(&q, at(b, r->steps), r->steps.n);
    int rc = st_q_run(&q, e);
    if (rc < 0)
        return rc;
    *measured = false;
    if (sqlite3_changes64(db->h)) {
        *id = sqlite3_last_insert_rowid(db->h);
        return 0;
    }
    q = st_q_begin(db, ST_SQL_W_PROGRAM_ID);
    st_q_int(&q, task);
    st_q_blob(&q, r->hash, sizeof r->hash);
    st_q_int(&q, hw);
    rc = st_q_step(&q, e);
    if (rc > 0) {
        *id = st_col_int(&q, 0);
        *measured = st_col_int(&q, 1) != 0;
    }
    st_q_end(&q);
    if (rc == 0)
        return tp_fail(e, TP_E_INTERNAL, "a program that is stored cannot be found");
    return rc < 0 ? rc : 0;
}

static int candidate_row(struct st_db *db, struct st_ingest *b, const struct row *r, int64_t hw, struct tp_err *e)
{
    const struct variant *v = &b->variants[r->variant];
    struct st_candidate_row c = {.hardware = hw, .variant = v->id, .created = b->received, .repeat = b->repeat};
    bool accepted;
    int rc = program_row(db, b, r, v->task, hw, &c.program, &c.measured, e);
    if (rc == 0)
        rc = st_candidate_put(db, &c, &b->moves, &accepted, e);
    if (rc < 0)
        return rc;
    b->result.accepted += accepted;
    b->result.duplicates += !accepted;
    return 0;
}

static int measurement_row(struct st_db *db, struct st_ingest *b, const struct row *r, int64_t hw, struct tp_err *e)
{
    struct variant *v = &b->variants[r->variant];
    int64_t program = 0;
    bool measured;
    int rc = program_row(db, b, r, v->task, hw, &program, &measured, e);
    if (rc < 0)
        return rc;
    struct st_q q = st_q_begin(db, ST_SQL_W_MEASUREMENT_INSERT);
    st_q_int(&q, hw);
    st_q_int(&q, v->task);
    st_q_int(&q, program);
    st_q_int(&q, v->id);
    st_q_int(&q, r->digest);
    st_q_real(&q, r->min_cost);
    st_q_int(&q, r->error_no);
    st_q_real(&q, r->all_cost);
    st_q_real(&q, r->timestamp);
    st_q_blob(&q, at(b, r->costs), r->costs.n);
    st_q_text(&q, b->has_agent ? b->agent : NULL);
    st_q_int(&q, b->received);
    if ((rc = st_q_run(&q, e)) < 0)
        return rc;
    bool fresh = sqlite3_changes64(db->h) > 0, failure = isnan(r->min_cost);
    if (!fresh) {
        b->result.duplicates++;
    } else {
        b->result.accepted++;
        v->measurements++;
        v->programs += !measured;
        v->failures += failure;
        if (!failure && (!v->best || r->min_cost < v->best_cost)) {
            v->best = sqlite3_last_insert_rowid(db->h);
            v->best_cost = r->min_cost;
        }
    }
    struct st_measured x = {hw, program, failure, fresh, b->has_agent ? b->agent : NULL};
    return b->pool ? st_candidate_measured(db, &x, &b->moves, e) : 0;
}

static int add_sums(struct st_db *db, const struct variant *v, int64_t hw, struct tp_err *e)
{
    if (!v->measurements)
        return 0;
    struct st_q q = st_q_begin(db, ST_SQL_W_HW_TASK_ADD);
    st_q_int(&q, hw);
    st_q_text(&q, v->task_id);
    st_q_int(&q, v->programs);
    st_q_int(&q, v->measurements);
    st_q_int(&q, v->failures);
    st_q_real(&q, v->best ? v->best_cost : (double)NAN);
    if (v->best)
        st_q_int(&q, v->best);
    return st_q_run(&q, e);
}

static int run(struct st_store *s, struct st_op *op, struct tp_err *e)
{
    struct st_ingest *b = (struct st_ingest *)op;
    int64_t hw;
    b->result = (struct st_ingest_result){0};
    b->moves = (struct st_moves){0};
    struct st_q q = st_q_begin(&s->db, ST_SQL_W_HW_ID);
    st_q_text(&q, b->hardware);
    int rc = st_q_first(&q, &hw, e);
    if (rc <= 0)
        return rc < 0 ? rc : tp_fail(e, TP_E_UNKNOWN_HARDWARE, "no hardware is registered as \"%s\"", b->hardware);
    for (size_t i = 0; i < b->n_variants; i++) {
        struct variant *v = &b->variants[i];
        v->programs = v->measurements = v->failures = v->best = 0;
        if ((rc = variant_row(s, b, v, e)) < 0)
            return rc;
    }
    if (!b->repeat && (rc = st_candidates_any(&s->db, hw, &b->pool, e)) < 0)
        return rc;
    for (size_t i = 0; i < b->n_rows; i++)
        if ((rc = (b->repeat ? candidate_row : measurement_row)(&s->db, b, &b->rows[i], hw, e)) < 0)
            return rc;
    if ((rc = st_candidates_moved(&s->db, hw, &b->moves, e)) < 0)
        return rc;
    if (b->repeat)
        return b->result.accepted ? st_candidates_limit(&s->db, hw, b->limit, e) : 0;
    for (size_t i = 0; i < b->n_variants; i++)
        if ((rc = add_sums(&s->db, &b->variants[i], hw, e)) < 0)
            return rc;
    return 0;
}

static void finish(struct st_op *op)
{
    struct st_ingest *b = (struct st_ingest *)op;
    if (op->code < 0)
        b->result = (struct st_ingest_result){.code = op->code};
    if (b->done)
        b->done(b->arg, &b->result);
    st_ingest_free(b);
}

int st_ingest_submit(struct st_store *s, const char *hardware, struct st_ingest *b,
                     void (*done)(void *arg, const struct st_ingest_result *), void *arg, struct tp_err *e)
{
    if (!st_id_valid(hardware))
        return tp_fail(e, TP_E_BAD_IDENTIFIER, "names of hardware match [a-z0-9][a-z0-9._-]{0,62}");
    memcpy(b->hardware, hardware, strlen(hardware) + 1); /* st_id_valid() bounds it */
    b->done = done;
    b->arg = arg;
    b->received = b->repeat ? st_now_ms() : st_now();
    b->op.rows = b->n_rows ? b->n_rows : 1;
    b->op.bytes = sizeof *b + b->cap_rows * sizeof *b->rows + b->cap_variants * sizeof *b->variants + b->arena.cap;
    b->op.run = run;
    b->op.finish = finish;
    return st_writer_push(s, &b->op, false, e);
}
