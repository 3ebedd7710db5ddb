/* What the sources of the inference engine share: the plan, the batch, and the steps of a run, in this order:
 *
 *   infer_plan.c  weights packed for one kernel set
 *   infer_rows.c  programs in, distinct rows out
 *   infer_walk.c  sort, trie, state: sums of q and h per distinct sequence
 *   infer.c       rows through in_proj, sums through out_proj and the head, public functions
 *
 * A plan is immutable. A batch has one owner at a time. */
#ifndef TM_INFER_INTERNAL_H
#define TM_INFER_INTERNAL_H

#include "model/infer.h"
#include "model/kern.h"
#include "model/weights.h"

enum {
    TM_BLOCK = 24, /* rows, nodes or programs that pass through the layers together: they fit the L1 cache */
    TM_FEATURES_LD = TCLFEAT_MAX_COLS,
    TM_PROJ_MAX = TM_LIMIT_RANK + 2 * TM_LIMIT_STATE
};

struct tm_plan {
    const struct tm_kern *kern;
    struct tm_hyper h;
    enum tclfeat_set features;
    struct tm_linear embed0, embed1, in_proj, x_proj, out_proj, summary0, summary1, head0, head1, head2;
    struct tm_mixer mixer;
    const float *norm, *norm_f;
    size_t row_floats; /* of a distinct row behind in_proj: 3 d_model */
    size_t state_floats;
    double calib_a, calib_b, latency_shift;
    float *mem; /* owns all of the above */
};

/* A plan for one given set, NULL when it cannot run here or memory is out; tm_plan_new() takes the chosen set. */
struct tm_plan *tm_plan_new_for(const struct tm_model *m, enum tm_simd_set set);

struct tm_program {
    size_t start;  /* of its row ids in ids[] */
    uint32_t n;    /* rows, > 0 */
    uint32_t head; /* set by the sort: which distinct program it is */
};

/* A distinct sequence of rows: a leaf of the trie (or an inner node that is also an end). In sorted order. */
struct tm_leaf {
    uint32_t program; /* any program with this sequence */
    uint32_t lcp;     /* rows shared with the leaf before it; less than its own rows */
    uint32_t head;    /* its first distinct program; those of one leaf are neighbours */
};

struct tm_row_slot {
    uint64_t hash; /* low bit: the row is one of a dataset */
    uint32_t row;
    uint32_t generation; /* other than the batch's: the slot is empty */
};

struct tm_sort_item {
    uint64_t key; /* the first two row ids that differ anywhere, + 1 */
    uint32_t program;
};

struct tm_batch {
    const struct tm_plan *plan;
    struct tclfeat_encoder *encoder[TCLFEAT_SETS];
    bool share;

    struct tm_program *program;
    float *summary; /* [programs][plan->h.summary] */
    uint32_t *id;
    size_t n_programs, n_ids, program_cap, summary_cap, id_cap;
    uint32_t longest; /* rows of the longest program */

    struct tm_row_slot *slot; /* open addressing, a power of two, at most half full */
    size_t n_slots;
    uint32_t generation;
    /* Hash constants, random per batch, so that rows from outside cannot be made to collide: a pair per 16 bytes. */
    uint64_t secret[2 * TM_FEATURES_LD * sizeof(float) / 16];
    struct tclfeat_key *key; /* [rows] what a row was made from; unused for rows of a dataset */
    float *feature;          /* [rows][TM_FEATURES_LD] */
    float *row;              /* [rows][plan->row_floats] behind in_proj, filled by the run */
    size_t n_rows, key_cap, feature_cap, row_cap;
    struct tclfeat_key *keys, *last_keys; /* of the program at hand and of the one before */
    uint32_t last_n;                      /* rows in last_keys, whose ids are the last in id[] */

    struct tm_sort_item *item, *item_tmp;
    struct tm_leaf *leaf;
    uint32_t *head; /* [heads] a program of each distinct (sequence, summary) */
    size_t n_leaves, n_heads, item_cap, item_tmp_cap, leaf_cap, head_cap;
    uint64_t n_prefixes;

    float *state; /* [longest + 2][plan->state_floats] */
    size_t state_cap;
    float *output; /* [heads][2]: s, l */
    size_t output_cap;
    bool keep;
    float *kept; /* [heads][d_model + head2], when keep is on */
    size_t kept_cap;
    struct tm_scratch *scratch;
    struct tm_batch_stats stats; /* of the last run */
};

/* Buffers of one block. The walk calls flush() in the middle of a block, so what the head uses is apart from what the
 * walk uses. */
struct tm_scratch {
    _Alignas(64) float a[TM_BLOCK * TM_LIMIT_WIDTH]; /* rows: first embedding; walk: x */
    _Alignas(64) float b[TM_BLOCK * TM_LIMIT_WIDTH]; /* rows: normed; walk: delta */
    _Alignas(64) float t[TM_BLOCK * TM_PROJ_MAX];    /* walk: tau, B, C */
    _Alignas(64) float q[TM_BLOCK * TM_LIMIT_WIDTH]; /* leaves that wait for the head: sum of q; then pooled vector */
    _Alignas(64) float h[TM_BLOCK * TM_LIMIT_WIDTH]; /* sum of h */
    _Alignas(64) float c[TM_BLOCK * TM_LIMIT_WIDTH]; /* head: layers in turn */
    _Alignas(64) float d[TM_BLOCK * TM_LIMIT_WIDTH];
    _Alignas(64) float cat[TM_BLOCK * 2 * TM_LIMIT_WIDTH]; /* head: pooled vector, summary vector */
    _Alignas(64) float zero_row[TM_LIMIT_WIDTH];           /* before the start of a sequence */
};

int tm_rows_new(struct tm_batch *b);
void tm_rows_free(struct tm_batch *b);

/* Sort programs, find leaves and heads. 0 or -TP_E_NO_MEMORY, here and below. */
int tm_walk_sort(struct tm_batch *b);
/* Walk the leaves. After each TM_BLOCK of them, and at the end, flush(b, first, n) is called: the sums of leaf first +
 * i are in scratch->q and scratch->h at i * d_model. */
int tm_walk_run(struct tm_batch *b, void (*flush)(struct tm_batch *b, size_t first, size_t n));

#endif
