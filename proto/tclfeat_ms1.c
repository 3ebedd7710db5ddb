/* tclm-1: rows and summary of MetaSchedule traces (records of MS steps).
 *
 * A trace is walked once with what its variables stand for: loops with their extents, numbers with what was decided, so
 * that a row shows values and not names. What only names or samples things makes no row. The columns are
 * tclfeat_ms_columns.def, explained in docs/metaschedule.md. Pure functions. */
#include "proto/ms.h"
#include "proto/tclfeat_priv.h"

#include <stdlib.h>
#include <zlib.h>

enum kind {
#define K(kind) KIND_##kind,
#include "proto/ms_insts.def"
#undef K
    KINDS,
    KIND_NONE = -1
};

enum {
#define X(group, name, first, count, divisor, formula)                                                                 \
    MCOL_##group##_##name = (first), MDIV_##group##_##name = (divisor), MCOUNT_##group##_##name = (count),
#include "proto/tclfeat_ms_columns.def"
#undef X
    MAX_ID = 127,
    VARS = 4096, /* variables that are followed */
    PARTS = 5,
    SHIFT = 8, /* of hardware and task rows against tclf-1 */
    COL_HW_ROW = 22,
    COL_TASK_ROW = 23,
    WIDE_SPLIT = 4, /* factors from which on a split tiles a spatial loop */

    /* where a key keeps what */
    M_KIND = 0, /* TCLF_KIND_HW, TCLF_KIND_TASK as in tclf-1, or FIRST_KIND + kind */
    M_KEY,
    M_LOOP,
    M_THREAD,
    M_SCOPE,
    M_BLOCK,
    M_EXTENT,
    M_PARTS,
    M_COUNT = M_PARTS + PARTS,
    M_INNERMOST,
    M_VALUE,
    M_VALUE_KNOWN,
    M_UNKNOWN,
    M_AFTER,
    M_TOTAL,
    M_INPUTS,
    M_END,
    FIRST_KIND = 64
};
_Static_assert((int)M_END <= (int)TCLFEAT_KEY, "key too long");
_Static_assert((int)MCOUNT_MSUM_KINDS == (int)KINDS, "columns of the kinds");
_Static_assert((int)KINDS <= (int)COL_HW_ROW, "one-hot of the kinds");
#define MCOL(group, name) ((int)MCOL_##group##_##name)
#define MDIV(group, name) ((float)MDIV_##group##_##name)

static const struct {
    const char *name;
    enum kind kind;
} instructions[] = {
#define M(name, kind) {#name, KIND_##kind},
#include "proto/ms_insts.def"
#undef M
};

static enum kind kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof instructions / sizeof *instructions; i++)
        if (strcmp(instructions[i].name, name) == 0)
            return instructions[i].kind;
    return KIND_OTHER;
}

/* ---- what variables stand for ---- */

struct var {
    enum { NOTHING, LOOP, NUMBER, LOCATION } is;
    double v; /* of a loop its extent, 0 unknown */
};

struct ms_walk {
    struct var var[VARS];
    int blocks;
    bool after;
    struct tp_ms_inst inst;
    /* for the summary */
    double wide[PARTS], narrow[PARTS], annotated[4] /* parallel, vectorize, unroll, fetch */, loops[3], threads[5];
    int count[KINDS], sides[2];
};

struct ms_walk *ms_walk_new(void)
{
    return malloc(sizeof(struct ms_walk));
}

void ms_walk_free(struct ms_walk *w)
{
    free(w);
}

/* NULL: a name that is not followed. */
static struct var *var_of(struct ms_walk *w, const struct tp_ms_arg *a)
{
    long i = a->kind == TP_MS_NAME ? strtol(a->text + 1, NULL, 10) : -1;

    return i >= 0 && i < VARS ? &w->var[i] : NULL;
}

static void set(struct ms_walk *w, int output, int is, double v)
{
    struct var *x = output < w->inst.n_out ? var_of(w, &w->inst.out[output]) : NULL;

    if (x)
        *x = (struct var){is, v};
}

/* A loop's extent, a number; 0 unknown. */
static double value_of(struct ms_walk *w, const struct tp_ms_arg *a)
{
    const struct var *x = var_of(w, a);

    return a->kind == TP_MS_NUMBER ? a->number : x && x->is != NOTHING ? x->v : 0;
}

static int32_t whole(double v)
{
    return v >= INT32_MAX ? INT32_MAX : v <= 0 ? 0 : (int32_t)v;
}

/* ---- instructions ---- */

static int choice(const char *s, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(s, names[i]) == 0)
            return i;
    return n;
}

/* What getting and sampling tell about variables. */
static void learn(struct ms_walk *w)
{
    struct tp_ms_inst *in = &w->inst;

    if (strcmp(in->name, "GetLoops") == 0) {
        for (int i = 0; i < in->n_out; i++)
            set(w, i, LOOP, 0);
    } else if (strncmp(in->name, "SamplePerfectTile", 17) == 0 || strncmp(in->name, "SamplePartitionedTile", 21) == 0) {
        double total = in->n_decision > 0 ? 1 : 0;

        for (int i = 0; i < in->n_decision; i++) {
            set(w, i, NUMBER, in->decision[i]);
            total *= in->decision[i];
        }
        struct var *loop = in->n_in > 0 ? var_of(w, &in->in[0]) : NULL;
        if (loop && loop->is == LOOP && loop->v == 0)
            loop->v = total; /* perfect: the factors make up the loop */
    } else if (strcmp(in->name, "SampleCategorical") == 0) {
        /* attributes: the candidates, then their probabilities, laid flat */
        int k = in->n_decision > 0 ? (int)in->decision[0] : -1;

        if (k >= 0 && k < in->n_attr / 2 && in->attr[k].kind == TP_MS_NUMBER)
            set(w, 0, NUMBER, in->attr[k].number);
    } else if (strcmp(in->name, "SampleComputeLocation") == 0 && in->n_decision > 0) {
        set(w, 0, LOCATION, in->decision[0]);
        w->sides[in->decision[0] >= 0]++;
    }
}

static void total_and_innermost(int32_t *k, double total, double innermost)
{
    k[M_TOTAL] = float_bits((float)total);
    k[M_INNERMOST] = whole(innermost);
}

static void split(struct ms_walk *w, int32_t *k)
{
    struct tp_ms_inst *in = &w->inst;
    double part[TP_MS_ARGS], known = 1, extent = in->n_in > 0 ? value_of(w, &in->in[0]) : 0;
    int n = in->n_in - 1, open = -1, n_open = 0;

    for (int i = 0; i < n; i++) {
        part[i] = value_of(w, &in->in[i + 1]);
        if (part[i] > 0) {
            known *= part[i];
        } else {
            open = i;
            n_open++;
        }
    }
    if (n_open == 1 && extent > 0) /* None: what the others leave */
        part[open] = ceil(extent / known);
    if (n_open == 0 && extent == 0)
        extent = known;
    for (int i = 0; i < n; i++) {
        set(w, i, LOOP, part[i]);
        if (i < PARTS)
            k[M_PARTS + i] = whole(part[i]);
        if (n - 1 - i < PARTS)
            (n >= WIDE_SPLIT ? w->wide : w->narrow)[n - 1 - i] += (double)lg((float)fmax(part[i], 0));
    }
    k[M_EXTENT] = whole(extent);
    k[M_UNKNOWN] = extent <= 0;
    k[M_COUNT] = at_most(n, MAX_ID);
    total_and_innermost(k, known, n > 0 ? part[n - 1] : 0);
}

static void fuse(struct ms_walk *w, int32_t *k)
{
    double total = 1;

    for (int i = 0; i < w->inst.n_in; i++)
        total *= value_of(w, &w->inst.in[i]);
    set(w, 0, LOOP, total);
    k[M_EXTENT] = whole(total);
    k[M_UNKNOWN] = total <= 0;
    k[M_COUNT] = at_most(w->inst.n_in, MAX_ID);
    total_and_innermost(k, total, 0);
}

static void reorder(struct ms_walk *w, int32_t *k)
{
    int n = w->inst.n_in;
    double total = 1;

    for (int i = 0; i < n; i++) {
        double v = value_of(w, &w->inst.in[n - 1 - i]);

        if (i < PARTS)
            k[M_PARTS + i] = whole(v);
        if (i == 0) {
            k[M_EXTENT] = whole(v);
            k[M_UNKNOWN] = v <= 0;
        }
        total *= v > 0 ? v : 1;
    }
    k[M_COUNT] = at_most(n, MAX_ID);
    total_and_innermost(k, total, k[M_EXTENT]);
}

/* The first loop among the inputs. */
static double loop_of(struct ms_walk *w, int32_t *k)
{
    for (int i = 0; i < w->inst.n_in; i++) {
        const struct var *x = var_of(w, &w->inst.in[i]);

        if (!x || x->is != LOOP)
            continue;
        k[M_EXTENT] = whole(x->v);
        k[M_UNKNOWN] = x->v <= 0;
        return x->v;
    }
    return 0;
}

static void loop(struct ms_walk *w, int32_t *k)
{
    static const char *const names[] = {"Parallel", "Vectorize", "Unroll"};
    int i = choice(w->inst.name, names, 3);
    double v = loop_of(w, k);

    k[M_LOOP] = i;
    if (i < 3 && v > 0)
        w->loops[i] += (double)lg((float)v);
}

static void bind(struct ms_walk *w, int32_t *k)
{
    const char *thread = w->inst.n_attr > 0 ? w->inst.attr[0].text : "";
    int i = strncmp(thread, "blockIdx", 8) == 0    ? 0
            : strcmp(thread, "threadIdx.x") == 0   ? 1
            : strncmp(thread, "threadIdx", 9) == 0 ? 2
            : strncmp(thread, "vthread", 7) == 0   ? 3
                                                   : 4;
    double v = loop_of(w, k);

    k[M_THREAD] = i;
    if (v > 0)
        w->threads[i] += (double)lg((float)v);
}

static void annotate(struct ms_walk *w, int32_t *k)
{
    static const char *const names[] = {"parallel",          "vectorize",     "unroll_explicit", "unroll_implicit",
                                        "cooperative_fetch", "thread_extent", "tiling_structure"};
    static const int kept[] = {0, 1, 2, 2, 3};
    const char *key = w->inst.n_attr > 0 ? w->inst.attr[0].text : "";
    const struct tp_ms_arg *value = w->inst.n_in > 1 ? &w->inst.in[w->inst.n_in - 1] : NULL;
    const struct var *x = value ? var_of(w, value) : NULL;

    if (strncmp(key, "meta_schedule.", 14) == 0)
        key += 14;
    if (strncmp(key, "thread_extent", 13) == 0)
        key = "thread_extent";
    k[M_KEY] = choice(key, names, 7);
    loop_of(w, k);
    if (!value || (value->kind != TP_MS_NUMBER && !(x && x->is == NUMBER)))
        return;
    double v = value_of(w, value);
    k[M_VALUE] = whole(v);
    k[M_VALUE_KNOWN] = 1;
    if (k[M_KEY] < 5)
        w->annotated[kept[k[M_KEY]]] = fmax(w->annotated[kept[k[M_KEY]]], v);
}

static void scope(struct ms_walk *w, int32_t *k)
{
    static const char *const names[] = {"local", "shared", "global"};

    for (int i = w->inst.n_attr - 1; i >= 0; i--)
        if (w->inst.attr[i].kind == TP_MS_STRING && w->inst.attr[i].text[0] != '\0') {
            k[M_SCOPE] = choice(w->inst.attr[i].text, names, 3);
            return;
        }
}

static void compute_at(struct ms_walk *w, int32_t *k)
{
    const struct var *x = w->inst.n_in > 1 ? var_of(w, &w->inst.in[1]) : NULL;

    if (x && x->is == LOCATION) {
        k[M_VALUE] = whole(fmax(x->v, -2) + 2);
        k[M_VALUE_KNOWN] = 1;
    } else {
        loop_of(w, k);
    }
}

static void storage(struct ms_walk *w, int32_t *k)
{
    if (strcmp(w->inst.name, "SetScope") == 0)
        scope(w, k);
    else if (strcmp(w->inst.name, "StorageAlign") == 0 && w->inst.n_attr >= 4) {
        k[M_PARTS] = whole(w->inst.attr[2].number);
        k[M_PARTS + 1] = whole(fabs(w->inst.attr[3].number));
    }
}

/* 1: a row was made. */
static int step(struct ms_walk *w, struct tclfeat_key *key)
{
    enum kind kind = kind_of(w->inst.name);
    int32_t *k = key->k;

    if (kind == KIND_NONE)
        learn(w);
    for (int i = 0; i < w->inst.n_out; i++)
        w->blocks += w->inst.out[i].kind == TP_MS_NAME && w->inst.out[i].text[0] == 'b';
    if (kind == KIND_NONE)
        return 0;
    memset(key, 0, sizeof *key);
    k[M_KIND] = FIRST_KIND + (int32_t)kind;
    k[M_KEY] = k[M_LOOP] = k[M_THREAD] = k[M_SCOPE] = -1;
    k[M_BLOCK] = at_most(w->blocks, MAX_ID);
    k[M_INPUTS] = at_most(w->inst.n_in, MAX_ID);
    switch (kind) {
    case KIND_SPLIT:
        split(w, k);
        break;
    case KIND_FUSE:
        fuse(w, k);
        break;
    case KIND_REORDER:
        reorder(w, k);
        break;
    case KIND_LOOP:
        loop(w, k);
        break;
    case KIND_BIND:
        bind(w, k);
        break;
    case KIND_ANNOTATE:
        annotate(w, k);
        break;
    case KIND_CACHE_READ:
    case KIND_CACHE_WRITE:
        scope(w, k);
        break;
    case KIND_COMPUTE_AT:
    case KIND_REVERSE_COMPUTE_AT:
        compute_at(w, k);
        break;
    case KIND_REDUCTION:
        loop_of(w, k);
        break;
    case KIND_STORAGE:
        storage(w, k);
        break;
    case KIND_POSTPROC:
        w->after = true;
        break;
    default:
        break;
    }
    k[M_AFTER] = w->after;
    w->count[kind]++;
    return 1;
}

static void summary_of(const struct ms_walk *w, uint32_t length, float *out)
{
    memset(out, 0, TCLF_SUMMARY * sizeof *out);
    for (int i = 0; i < PARTS; i++) {
        out[MCOL(MSUM, WIDE) + i] = (float)w->wide[i] / MDIV(MSUM, WIDE);
        out[MCOL(MSUM, NARROW) + i] = (float)w->narrow[i] / MDIV(MSUM, NARROW);
        out[MCOL(MSUM, THREADS) + i] = (float)w->threads[i] / MDIV(MSUM, THREADS);
    }
    out[MCOL(MSUM, PARALLEL)] = lg((float)w->annotated[0]) / MDIV(MSUM, PARALLEL);
    out[MCOL(MSUM, VECTORIZE)] = lg((float)w->annotated[1]) / MDIV(MSUM, VECTORIZE);
    out[MCOL(MSUM, UNROLL)] = lg((float)w->annotated[2]) / MDIV(MSUM, UNROLL);
    out[MCOL(MSUM, FETCH)] = lg((float)w->annotated[3]) / MDIV(MSUM, FETCH);
    for (int i = 0; i < 3; i++)
        out[MCOL(MSUM, LOOPS) + i] = (float)w->loops[i] / MDIV(MSUM, LOOPS);
    for (int i = 0; i < KINDS; i++)
        out[MCOL(MSUM, KINDS) + i] = (float)at_most(w->count[i], MAX_ID) / MDIV(MSUM, KINDS);
    out[MCOL(MSUM, LENGTH)] = (float)length / MDIV(MSUM, LENGTH);
    for (int i = 0; i < 2; i++)
        out[MCOL(MSUM, SIDES) + i] = (float)at_most(w->sides[i], MAX_ID) / MDIV(MSUM, SIDES);
}

int tclm1_encode(struct ms_walk *w, const struct tp_record *r, struct tclfeat_key *keys, float *summary,
                 struct tp_err *err)
{
    int rows = 0;

    memset(w, 0, sizeof *w);
    for (uint32_t i = 0; i < r->n_steps; i++) {
        int rc = tp_ms_parse(r->steps[i].str.s, r->steps[i].str.n, &w->inst, err);

        if (rc < 0)
            return rc;
        rows += step(w, &keys[rows]);
    }
    if (summary)
        summary_of(w, r->n_steps, summary);
    return rows;
}

/* ---- rows ---- */

static void one_hot(float *row, int first, int32_t i, int n)
{
    if (i >= 0 && i < n)
        row[first + i] = 1.0f;
}

void tclm1_row(const struct tclfeat_key *key, float row[TCLF_COLS])
{
    const int32_t *k = key->k;
    float other[TCLF_COLS];

    memset(row, 0, TCLF_COLS * sizeof *row);
    if (k[M_KIND] < FIRST_KIND) { /* a row of tclf-1, without its one-hot of the kind */
        tclf1_row(key, other);
        memcpy(row + 16 + SHIFT, other + 16, (TCLF_COLS - 16 - SHIFT) * sizeof *row);
        row[k[M_KIND] == TCLF_KIND_HW ? COL_HW_ROW : COL_TASK_ROW] = 1.0f;
        return;
    }
    one_hot(row, MCOL(ALL, MSKIND), k[M_KIND] - FIRST_KIND, KINDS);
    one_hot(row, MCOL(MS, KEY), k[M_KEY], MCOUNT_MS_KEY);
    one_hot(row, MCOL(MS, LOOP), k[M_LOOP], MCOUNT_MS_LOOP);
    one_hot(row, MCOL(MS, THREAD), k[M_THREAD], MCOUNT_MS_THREAD);
    one_hot(row, MCOL(MS, SCOPE), k[M_SCOPE], MCOUNT_MS_SCOPE);
    row[MCOL(MS, BLOCK)] = (float)k[M_BLOCK] / MDIV(MS, BLOCK);
    row[MCOL(MS, EXTENT)] = lg((float)k[M_EXTENT]) / MDIV(MS, EXTENT);
    for (int i = 0; i < PARTS; i++)
        row[MCOL(MS, PARTS) + i] = lg((float)k[M_PARTS + i]) / MDIV(MS, PARTS);
    row[MCOL(MS, COUNT)] = (float)k[M_COUNT] / MDIV(MS, COUNT);
    for (int i = 0; i < MCOUNT_MS_INNERMOST_DIVISIBLE; i++)
        row[MCOL(MS, INNERMOST_DIVISIBLE) + i] = k[M_INNERMOST] > 0 && k[M_INNERMOST] % (4 << i) == 0 ? 1.0f : 0.0f;
    row[MCOL(MS, INNERMOST_ONE)] = k[M_INNERMOST] == 1 ? 1.0f : 0.0f;
    row[MCOL(MS, VALUE)] = lg((float)k[M_VALUE]) / MDIV(MS, VALUE);
    row[MCOL(MS, VALUE_KNOWN)] = (float)k[M_VALUE_KNOWN];
    row[MCOL(MS, VALUE_ZERO)] = k[M_VALUE_KNOWN] && k[M_VALUE] < (k[M_KEY] < 0 ? 2 : 1) ? 1.0f : 0.0f;
    row[MCOL(MS, UNKNOWN)] = (float)k[M_UNKNOWN];
    row[MCOL(MS, AFTER)] = (float)k[M_AFTER];
    row[MCOL(MS, TOTAL)] = lg(bits_float(k[M_TOTAL])) / MDIV(MS, TOTAL);
    row[MCOL(MS, INPUTS)] = (float)k[M_INPUTS] / MDIV(MS, INPUTS);
}

uint32_t tclm1_crc(uint32_t crc)
{
    static const char text[] =
#define X(group, name, first, count, divisor, formula)                                                                 \
#group "." #name " " #first "+" #count "/" #divisor " " formula "\n"
#include "proto/tclfeat_ms_columns.def"
#undef X
#define K(kind) #kind "\n"
#include "proto/ms_insts.def"
#undef K
#define M(name, kind) #name " " #kind "\n"
#include "proto/ms_insts.def"
#undef M
        ;

    return tclf1_crc((uint32_t)crc32(crc, (const Bytef *)text, sizeof text - 1)); /* hardware and task rows */
}
