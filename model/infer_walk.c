/* From row ids to sums: sort the sequences, walk them as a trie, advance the recurrent state once per distinct prefix.
 *
 * In sorted order the rows that a leaf shares with the leaf before it are its lcp; only the rest of it is new. A state
 * is kept for each prefix from which a later leaf branches, on a stack by depth; everything else runs through one
 * working state. What depends on the last d_conv rows alone (convolution, x_proj, delta) is computed for TM_BLOCK nodes
 * at a time, whichever leaves they belong to, then the scan runs over each unbranched stretch of nodes.
 * Not shared between prefixes: nodes whose last d_conv rows are equal. In whole calls of real searches 15-33 % of nodes
 * repeat such a window, but only 3-16 % one of the last 256, which is what the L2 cache holds; the rest would be
 * fetched from memory (1 KiB each) for about what computing them again costs. */
#include "model/infer_internal.h"
#include "model/mem.h"

/* --- sort ----------------------------------------------------------------------------------------------------------
 */

static const uint32_t *ids(const struct tm_batch *b, uint32_t program)
{
    return b->id + b->program[program].start;
}

static uint32_t common_prefix(const struct tm_batch *b, uint32_t x, uint32_t y)
{
    const uint32_t *p = ids(b, x), *q = ids(b, y);
    const uint32_t n = b->program[x].n < b->program[y].n ? b->program[x].n : b->program[y].n;
    uint32_t i = 0;
    while (i < n && p[i] == q[i])
        i++;
    return i;
}

static int compare_summaries(const struct tm_batch *b, uint32_t x, uint32_t y)
{
    const size_t n = (size_t)b->plan->h.summary;
    return n ? memcmp(b->summary + x * n, b->summary + y * n, n * sizeof *b->summary) : 0;
}

/* By sequence, a prefix before what extends it; then by summary; then by index. */
static bool before(const struct tm_batch *b, const struct tm_sort_item *x, const struct tm_sort_item *y, uint32_t skip)
{
    if (x->key != y->key)
        return x->key < y->key;
    const struct tm_program *p = &b->program[x->program], *q = &b->program[y->program];
    const uint32_t n = p->n < q->n ? p->n : q->n;
    for (uint32_t i = skip; i < n; i++)
        if (b->id[p->start + i] != b->id[q->start + i])
            return b->id[p->start + i] < b->id[q->start + i];
    if (p->n != q->n)
        return p->n < q->n;
    int c = compare_summaries(b, x->program, y->program);
    return c ? c < 0 : x->program < y->program;
}

/* Bottom-up merge sort: qsort() would allocate. */
static void sort_items(struct tm_batch *b, uint32_t skip)
{
    const size_t n = b->n_programs;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t from = 0; from < n; from += 2 * width) {
            size_t i = from, mid = from + width < n ? from + width : n, j = mid,
                   end = mid + width < n ? mid + width : n;
            for (size_t k = from; k < end; k++)
                b->item_tmp[k] =
                    i < mid && (j >= end || !before(b, &b->item[j], &b->item[i], skip)) ? b->item[i++] : b->item[j++];
        }
        struct tm_sort_item *t = b->item;
        size_t cap = b->item_cap;
        b->item = b->item_tmp;
        b->item_cap = b->item_tmp_cap;
        b->item_tmp = t;
        b->item_tmp_cap = cap;
    }
}

/* Leaves, heads and the number of distinct prefixes from the sorted items. */
static void find_leaves(struct tm_batch *b)
{
    b->n_leaves = b->n_heads = 0;
    b->n_prefixes = 0;
    for (size_t i = 0; i < b->n_programs; i++) {
        const uint32_t p = b->item[i].program, last = i ? b->item[i - 1].program : p;
        const uint32_t lcp = i && b->share ? common_prefix(b, last, p) : 0;
        const bool same = lcp == b->program[p].n && lcp == b->program[last].n;
        if (!same) {
            b->leaf[b->n_leaves++] = (struct tm_leaf){p, lcp, (uint32_t)b->n_heads};
            b->n_prefixes += b->program[p].n - lcp;
        }
        if (!same || compare_summaries(b, last, p) != 0)
            b->head[b->n_heads++] = p;
        b->program[p].head = (uint32_t)b->n_heads - 1;
    }
}

int tm_walk_sort(struct tm_batch *b)
{
    const size_t n = b->n_programs;
    if (tm_grow((void **)&b->item, &b->item_cap, n, sizeof *b->item) ||
        tm_grow((void **)&b->item_tmp, &b->item_tmp_cap, n, sizeof *b->item_tmp) ||
        tm_grow((void **)&b->leaf, &b->leaf_cap, n, sizeof *b->leaf) ||
        tm_grow((void **)&b->head, &b->head_cap, n, sizeof *b->head))
        return -TP_E_NO_MEMORY;
    uint32_t skip = n ? b->program[0].n : 0; /* rows that all programs share */
    for (size_t i = 1; i < n && skip; i++) {
        uint32_t lcp = common_prefix(b, 0, (uint32_t)i);
        if (lcp < skip)
            skip = lcp;
    }
    for (size_t i = 0; i < n; i++) {
        const struct tm_program *p = &b->program[i];
        uint64_t first = skip < p->n ? (uint64_t)b->id[p->start + skip] + 1 : 0;
        uint64_t second = skip + 1 < p->n ? (uint64_t)b->id[p->start + skip + 1] + 1 : 0;
        b->item[i] = (struct tm_sort_item){first << 32 | second, (uint32_t)i};
    }
    if (b->share)
        sort_items(b, skip);
    find_leaves(b);
    return 0;
}

/* --- walk ----------------------------------------------------------------------------------------------------------
 */

/* An unbranched stretch of nodes of a block. */
struct stretch {
    uint32_t from, n;   /* nodes of the block */
    const float **path; /* the d_conv - 1 rows before it, then its own */
    uint32_t in, out;   /* states */
    int32_t leaf;       /* the leaf that ends here, -1 none */
};

struct block {
    uint32_t n_nodes, n_stretches;
    struct stretch stretch[TM_BLOCK]; /* a stretch has at least one node */
    const float *row[TM_BLOCK];       /* of each node */
    const float *path[TM_BLOCK * TM_LIMIT_CONV];
};

/* A block runs when the one behind it is complete: rows are scattered over more than the L2 cache, and are fetched
 * there in step with the scan of the block before. */
struct walk {
    struct tm_batch *b;
    void (*flush)(struct tm_batch *b, size_t first, size_t n);
    size_t flushed; /* leaves handed to flush() */
    size_t ended;   /* leaves whose sums are known */
    struct block block[2], *ready, *filling;
};

static void end_leaf(struct walk *w, size_t leaf, const float *sums)
{
    struct tm_scratch *s = w->b->scratch;
    const size_t dm = (size_t)w->b->plan->h.d_model, at = leaf - w->flushed;
    memcpy(s->q + at * dm, sums, dm * sizeof *sums);
    memcpy(s->h + at * dm, sums + dm, dm * sizeof *sums);
    w->ended++;
    if (at + 1 == TM_BLOCK) {
        w->flush(w->b, w->flushed, TM_BLOCK);
        w->flushed = w->ended;
    }
}

/* Run the block that is ready; the one being filled becomes ready. */
static void run_block(struct walk *w)
{
    struct tm_batch *b = w->b;
    struct tm_scratch *s = b->scratch;
    struct block *now = w->ready;
    const struct block *next = w->filling;
    const struct tm_plan *p = b->plan;
    const struct tm_kern *k = p->kern;
    const size_t ldt = (size_t)p->x_proj.out_padded, dm = (size_t)p->h.d_model;
    for (uint32_t i = 0; i < now->n_stretches; i++) {
        const struct stretch *t = &now->stretch[i];
        k->conv(&p->mixer, t->path, t->n, s->a + t->from * dm);
    }
    k->linear(&p->x_proj, s->a, dm, s->t, ldt, now->n_nodes, 0);
    k->delta(&p->mixer, s->t, ldt, now->n_nodes, s->b);
    for (uint32_t i = 0; i < now->n_stretches; i++) {
        const struct stretch *t = &now->stretch[i];
        float *out = b->state + t->out * p->state_floats;
        k->scan(&p->mixer, b->state + t->in * p->state_floats, out, t->n, s->a + t->from * dm, s->b + t->from * dm,
                s->t + t->from * ldt, ldt, now->row + t->from, next->row + t->from);
        if (t->leaf >= 0)
            end_leaf(w, (size_t)t->leaf, out + dm * (size_t)p->h.d_state);
    }
    now->n_nodes = now->n_stretches = 0;
    w->ready = w->filling;
    w->filling = now;
}

/* Rows from..to of a leaf, from state `in` to state `out`; leaf >= 0 when it ends at `to`. */
static void advance(struct walk *w, const uint32_t *id, uint32_t from, uint32_t to, uint32_t in, uint32_t out,
                    int32_t leaf)
{
    const struct tm_batch *b = w->b;
    const struct tm_plan *p = b->plan;
    const uint32_t before = (uint32_t)p->h.d_conv - 1;
    while (from < to) {
        struct block *f = w->filling;
        const uint32_t room = TM_BLOCK - f->n_nodes, n = to - from < room ? to - from : room;
        const float **path = f->path + f->n_nodes * (before + 1);
        f->stretch[f->n_stretches++] = (struct stretch){f->n_nodes, n, path, in, out, from + n == to ? leaf : -1};
        for (uint32_t i = 0; i < before; i++)
            *path++ = from + i < before ? b->scratch->zero_row : b->row + id[from + i - before] * p->row_floats;
        for (uint32_t i = 0; i < n; i++)
            *path++ = f->row[f->n_nodes++] = b->row + id[from + i] * p->row_floats;
        from += n;
        in = out;
        if (f->n_nodes == TM_BLOCK)
            run_block(w);
    }
}

/* Depths in (lcp, n] at which later leaves branch off this one, ascending; returns how many. */
static uint32_t branches(const struct tm_batch *b, size_t leaf, uint32_t *depth)
{
    const uint32_t own = b->leaf[leaf].lcp;
    uint32_t n = 0, least = UINT32_MAX;
    for (size_t i = leaf + 1; i < b->n_leaves; i++) {
        const uint32_t lcp = b->leaf[i].lcp;
        if (lcp <= own)
            break;
        if (lcp < least)
            depth[n++] = least = lcp;
    }
    for (uint32_t i = 0; i < n / 2; i++) {
        uint32_t t = depth[i];
        depth[i] = depth[n - 1 - i];
        depth[n - 1 - i] = t;
    }
    return n;
}

int tm_walk_run(struct tm_batch *b, void (*flush)(struct tm_batch *b, size_t first, size_t n))
{
    struct walk w = {.b = b, .flush = flush, .ready = &w.block[0], .filling = &w.block[1]};
    for (uint32_t i = 0; i < TM_BLOCK; i++)
        w.block[0].row[i] = w.block[1].row[i] = b->row;
    uint32_t depth[TCLFEAT_MAX_ROWS], kept[TCLFEAT_MAX_ROWS + 1]; /* kept[i]: depth of state i, the stack */
    uint32_t top = 0;
    /* state 0: before the first row; 1..longest: kept, at most one per depth; the last one is worked on */
    const uint32_t work = b->longest + 1;
    if (tm_grow((void **)&b->state, &b->state_cap, ((size_t)b->longest + 2) * b->plan->state_floats, sizeof *b->state))
        return -TP_E_NO_MEMORY;
    memset(b->state, 0, b->plan->state_floats * sizeof *b->state);
    kept[0] = 0;
    for (size_t i = 0; i < b->n_leaves; i++) {
        const struct tm_leaf *leaf = &b->leaf[i];
        const uint32_t *id = ids(b, leaf->program), n = b->program[leaf->program].n, n_branches = branches(b, i, depth);
        while (kept[top] > leaf->lcp)
            top--;
        uint32_t at = leaf->lcp;
        for (uint32_t j = 0; j < n_branches; j++, top++) {
            kept[top + 1] = depth[j];
            advance(&w, id, at, depth[j], top, top + 1, depth[j] == n ? (int32_t)i : -1);
            at = depth[j];
        }
        advance(&w, id, at, n, top, work, (int32_t)i);
    }
    run_block(&w);
    run_block(&w);
    if (w.ended > w.flushed)
        flush(b, w.flushed, w.ended - w.flushed);
    return 0;
}
