/* Loop replay. A stage id of a record is a position that moves whenever a step inserts a stage, so nests live in slots
 * that never move and `order` maps the present stage id to its slot; an attach point names a slot, and survives
 * insertion by itself.
 *
 * A nest starts with unknown length: it grows to the largest loop id that was mentioned. SP, FSP, FFSP, FU and RE act
 * as in apache/tvm v0.14.0 src/auto_scheduler/transform_step.cc. Departures, because a record has no compute DAG:
 *  - CA and CR keep the extents (upstream forgets them until bound inference): they are the whole domain of the stage;
 *  - RF rebuilds both nests from the split loops: upstream takes them from the rewritten DAG.
 *
 * Invariant: 0 <= n <= TP_REPLAY_LOOPS for every slot; work per step is O(loops + slots), without allocation.
 * One owner, one thread. */
#include "proto/replay.h"
#include "proto/saturate.h"

#include <stdlib.h>
#include <string.h>

enum {
    NO_SLOT = -1,
    /* Slots start 9 cache lines after a multiple of 4 KiB, so that the first loops of many stages do not share cache
       sets. */
    SLOT_STRIDE = TP_REPLAY_LOOPS + 36
};

struct stage {
    struct tp_loop *loops; /* TP_REPLAY_LOOPS of them */
    int32_t n;
    int32_t id;     /* final stage id, valid after the run; -1 when it fell off the end */
    int32_t attach; /* slot */
    int32_t attach_iter;
    int32_t scope;
    bool inlined;
    int64_t unroll;
};

struct tp_replay {
    int32_t n_order, n_slots, n_attached;
    int64_t max_unroll;
    int16_t order[TP_REPLAY_STAGES]; /* stage id -> slot */
    struct stage slot[TP_REPLAY_STAGES];
    struct tp_loop tmp[TP_REPLAY_LOOPS];
    struct tp_loop *pool; /* written on demand: untouched slots cost no memory */
};

struct tp_replay *tp_replay_new(void)
{
    struct tp_replay *p = malloc(sizeof *p);

    if (!p)
        return NULL;
    p->pool = malloc((size_t)TP_REPLAY_STAGES * SLOT_STRIDE * sizeof *p->pool);
    if (!p->pool) {
        free(p);
        return NULL;
    }
    p->n_order = p->n_slots = p->n_attached = 0;
    p->max_unroll = 0;
    return p;
}

void tp_replay_free(struct tp_replay *p)
{
    if (!p)
        return;
    free(p->pool);
    free(p);
}

/* ---- arithmetic ------------------------------------------------------------------------------------------ */

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Without a branch on the extents: whether one of them is 1 is as good as random. */
static int64_t product(const struct tp_loop *l, int32_t from, int32_t to)
{
    int64_t r = 1;
    bool over = false;

    for (int32_t i = from; i < to; i++)
        over |= __builtin_mul_overflow(r, l[i].extent > 1 ? l[i].extent : 1, &r);
    return over ? INT64_MAX : r;
}

/* ---- stages ---------------------------------------------------------------------------------------------- */

static struct stage *new_slot(struct tp_replay *p)
{
    struct stage *s;

    if (p->n_slots == TP_REPLAY_STAGES)
        return NULL;
    s = &p->slot[p->n_slots];
    *s = (struct stage){.loops = p->pool + (size_t)p->n_slots * SLOT_STRIDE,
                        .id = -1,
                        .attach = NO_SLOT,
                        .attach_iter = -1,
                        .unroll = -1};
    p->n_slots++;
    return s;
}

static int16_t slot_index(const struct tp_replay *p, const struct stage *s)
{
    return (int16_t)(s - p->slot);
}

static struct stage *known(struct tp_replay *p, int32_t id)
{
    return id >= 0 && id < p->n_order && p->order[id] != NO_SLOT ? &p->slot[p->order[id]] : NULL;
}

/* The stage with this id, made when it is met for the first time. NULL beyond the limits. */
static struct stage *touch(struct tp_replay *p, int32_t id)
{
    struct stage *s = known(p, id);

    if (s || id < 0 || id >= TP_REPLAY_STAGES)
        return s;
    s = new_slot(p);
    if (!s)
        return NULL;
    while (p->n_order <= id)
        p->order[p->n_order++] = NO_SLOT;
    p->order[id] = slot_index(p, s);
    return s;
}

/* A new stage at `id`; later ones move up, the last one falls off at the limit. */
static struct stage *insert_stage(struct tp_replay *p, int32_t id)
{
    struct stage *s;

    if (id < 0 || id >= TP_REPLAY_STAGES || !(s = new_slot(p)))
        return NULL;
    while (p->n_order < id)
        p->order[p->n_order++] = NO_SLOT;
    if (p->n_order == TP_REPLAY_STAGES)
        p->n_order--;
    memmove(&p->order[id + 1], &p->order[id], (size_t)(p->n_order - id) * sizeof p->order[0]);
    p->n_order++;
    p->order[id] = slot_index(p, s);
    return s;
}

static void attach(struct tp_replay *p, struct stage *s, const struct stage *target, int32_t iter)
{
    p->n_attached += (target != NULL) - (s->attach != NO_SLOT);
    s->attach = target ? slot_index(p, target) : NO_SLOT;
    s->attach_iter = target ? iter : -1;
}

/* Loops [p0, p0 + old) of `target` became `now` loops: attach points inside go to the first new loop for a fusion and
 * to the last one for a split, as upstream's AttachMap does; those behind move along. */
static void move_attach_points(struct tp_replay *p, const struct stage *target, int32_t p0, int32_t old, int32_t now)
{
    int16_t t = slot_index(p, target);

    if (p->n_attached == 0)
        return;
    for (int32_t i = 0; i < p->n_slots; i++) {
        struct stage *s = &p->slot[i];

        if (s->attach != t || s->attach_iter < p0)
            continue;
        if (s->attach_iter >= p0 + old || old == 1)
            s->attach_iter += now - old;
        else
            s->attach_iter = p0;
    }
}

/* ---- loops ----------------------------------------------------------------------------------------------- */

/* At least n loops; new ones are unknown. */
static void grow(struct stage *s, int32_t n)
{
    for (; s->n < n; s->n++)
        s->loops[s->n] = (struct tp_loop){0, 0};
}

/* Does loop `iter` exist (grown to when needed)? No beyond the limit. */
static bool have_loop(struct stage *s, int32_t iter)
{
    if (!s || iter < 0 || iter >= TP_REPLAY_LOOPS)
        return false;
    grow(s, iter + 1);
    return true;
}

/* Make room: `old` loops at p0 become `now` loops, not written yet. Returns how many of them fit; what is pushed over
 * the limit is lost. */
static int32_t resize_at(struct stage *s, int32_t p0, int32_t old, int32_t now)
{
    int32_t tail = s->n - (p0 + old), room = TP_REPLAY_LOOPS - p0;

    if (now > room)
        now = room;
    if (tail > room - now)
        tail = room - now;
    memmove(&s->loops[p0 + now], &s->loops[p0 + old], (size_t)tail * sizeof s->loops[0]);
    s->n = p0 + now + tail;
    return now;
}

/* ---- splits ---------------------------------------------------------------------------------------------- */

/* The lengths of a split: `n` numbers of a list, then (when tail > 0) one more. */
struct lengths {
    const int32_t *list;
    int32_t n;
    int64_t tail;
};

static int64_t length_at(const struct lengths *l, int32_t i)
{
    int64_t v = i < l->n ? l->list[i] : l->tail;

    return v > 0 ? v : 1;
}

static void split(struct tp_replay *p, struct stage *s, int32_t iter, int64_t extent, const struct lengths *l,
                  bool inner_to_outer, struct tp_step_view *v)
{
    int32_t n = l->n + (l->tail > 0), fit;
    int64_t prod = 1, rest;

    if (!have_loop(s, iter))
        return;
    if (extent <= 0)
        extent = s->loops[iter].extent;
    for (int32_t i = 0; i < n; i++)
        prod = tp_mul_sat(prod, length_at(l, i));
    rest = extent ? ceil_div(extent, prod) : 0;

    fit = resize_at(s, iter, 1, n + 1);
    for (int32_t i = 0; i <= n; i++) {
        int64_t e = inner_to_outer ? (i == 0 ? rest : length_at(l, i - 1)) : (i < n ? length_at(l, i) : rest);

        if (i < fit)
            s->loops[iter + i] = (struct tp_loop){e, 0};
        if (i < TP_PARTS)
            v->parts[i] = e;
    }
    v->n_parts = n + 1 < TP_PARTS ? n + 1 : TP_PARTS;
    v->extent = extent;
    v->padded = extent ? tp_mul_sat(prod, rest) : 0;
    move_attach_points(p, s, iter, 1, n + 1);
}

/* The SP step that `src` names, if it does name an earlier one. */
static const struct tp_step *source_split(const struct tp_record *r, uint32_t self, int32_t src)
{
    return src >= 0 && (uint32_t)src < self && r->steps[src].kind == TP_STEP_SP ? &r->steps[src] : NULL;
}

static void follow_split(struct tp_replay *p, const struct tp_record *r, uint32_t self, struct stage *s,
                         const struct tp_step_view *views, struct tp_step_view *v)
{
    const struct tp_step *st = &r->steps[self], *src = source_split(r, self, st->op[2]);
    int32_t iter = st->op[1], n_split = st->op[3];
    struct lengths l;
    int64_t extent;

    if (!src || n_split < 1 || !have_loop(s, iter))
        return;
    l = (struct lengths){src->list, src->n_list < n_split - 1 ? src->n_list : n_split - 1, 1};
    for (int32_t i = l.n; i < src->n_list; i++)
        l.tail = tp_mul_sat(l.tail, src->list[i] > 0 ? src->list[i] : 1);
    extent = s->loops[iter].extent;
    if (extent == 0)
        extent = views[st->op[2]].extent;
    split(p, s, iter, extent, &l, true, v);
}

static void follow_fused_split(struct tp_replay *p, const struct tp_record *r, uint32_t self, struct stage *s,
                               struct tp_step_view *v)
{
    const struct tp_step *st = &r->steps[self];
    int32_t level = st->op[2];
    struct lengths l = {NULL, 0, 1};

    for (uint32_t i = 0; i < st->n_list; i++) {
        const struct tp_step *src = source_split(r, self, st->list[i]);

        if (!src || level < 0 || level >= src->n_list)
            return;
        l.tail = tp_mul_sat(l.tail, src->list[level] > 0 ? src->list[level] : 1);
    }
    split(p, s, st->op[1], 0, &l, st->op[3] != 0, v);
}

/* ---- other steps on loops -------------------------------------------------------------------------------- */

static void fuse(struct tp_replay *p, const struct tp_step *st, struct stage *s, struct tp_step_view *v)
{
    int32_t first = st->n_list ? st->list[0] : 0, n = st->n_list;
    int64_t extent = 1;

    v->iter = first;
    if (!s || first < 0 || first > TP_REPLAY_LOOPS - n || (n && !have_loop(s, first + n - 1)))
        return;
    for (int32_t i = first; i < first + n; i++)
        extent = s->loops[i].extent ? tp_mul_sat(extent, s->loops[i].extent) : 0;
    /* Nothing to fuse (a stage of rank zero): one more loop, outermost. */
    if (resize_at(s, first, n, 1) == 1)
        s->loops[first] = (struct tp_loop){extent, 0};
    v->extent = extent;
    move_attach_points(p, s, first, n, 1);
}

static void reorder(struct tp_replay *p, const struct tp_step *st, struct stage *s, struct tp_step_view *v)
{
    int32_t n = st->n_list < TP_REPLAY_LOOPS ? st->n_list : TP_REPLAY_LOOPS;

    if (!s)
        return;
    grow(s, n);
    for (int32_t i = 0; i < n; i++) {
        int32_t from = st->list[i];

        p->tmp[i] = from >= 0 && from < n ? s->loops[from] : (struct tp_loop){0, 0};
    }
    for (int32_t i = 0; i < n; i++) /* compilers make `rep movs` of a memcpy() here, which starts slowly */
        s->loops[i] = p->tmp[i];
    s->n = n; /* the only step that tells the length of a nest */

    for (int32_t i = 0; i < p->n_slots && p->n_attached; i++) {
        struct stage *a = &p->slot[i];

        if (a->attach != slot_index(p, s))
            continue;
        for (int32_t k = 0; k < n; k++)
            if (st->list[k] == a->attach_iter) {
                a->attach_iter = k;
                break;
            }
    }
    v->extent = n ? s->loops[0].extent : 0;
    v->n_parts = n < 4 ? n : 4;
    for (int32_t i = 0; i < v->n_parts; i++)
        v->parts[i] = s->loops[n - 1 - i].extent;
}

/* Where a loop stands in its nest. */
static void place(const struct stage *s, int32_t iter, bool with_itself, struct tp_step_view *v)
{
    v->extent = s->loops[iter].extent;
    v->outer = product(s->loops, 0, iter + with_itself);
    v->inner = product(s->loops, iter + 1, s->n);
    v->inside = s->n - iter - 1;
}

static int64_t unroll_limit(struct tp_str s)
{
    static const char name[] = "auto_unroll_max_step$";
    size_t k = sizeof name - 1;
    int64_t v = 0;

    if (s.n <= k || memcmp(s.s, name, k) != 0)
        return -1;
    for (; k < s.n && s.s[k] >= '0' && s.s[k] <= '9'; k++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, s.s[k] - '0', &v))
            return INT64_MAX;
    return v;
}

/* ---- steps on stages ------------------------------------------------------------------------------------- */

static int32_t scope_code(struct tp_str s)
{
    if (s.n == 5 && memcmp(s.s, "local", 5) == 0)
        return 1;
    if (s.n == 6 && memcmp(s.s, "shared", 6) == 0)
        return 2;
    if (s.n == 6 && memcmp(s.s, "global", 6) == 0)
        return 3;
    return 4;
}

/* Both stages come fresh out of a rewritten DAG, with whole axes that no step has named yet. Only splits tell extents,
 * and upstream assumes that none was applied before: there is nothing to carry over. */
static void cache_write(struct tp_replay *p, const struct tp_step *st, struct tp_step_view *v)
{
    struct stage *old = known(p, st->op[0]), *cache = insert_stage(p, st->op[0]);

    v->scope = scope_code(st->str);
    if (!cache)
        return;
    cache->scope = v->scope;
    if (old) {
        old->n = 0;
        old->unroll = -1;
        old->inlined = false;
    }
}

/* rfactor of loop r makes it an axis at place f of the new stage, before the reductions that remain; the original keeps
 * the axes (at least the f first loops) and reduces over the factored loop alone. */
static void rfactor(struct tp_replay *p, const struct tp_step *st, struct tp_step_view *v)
{
    int32_t iter = st->op[1], at = st->op[2], n = 0;
    struct stage *old = touch(p, st->op[0]), *made;
    struct tp_loop factor;

    if (!have_loop(old, iter))
        return;
    if (at < 0 || at > old->n)
        at = old->n;
    factor = (struct tp_loop){old->loops[iter].extent, 0};
    v->extent = factor.extent;
    made = insert_stage(p, st->op[0]);
    if (!made)
        return;
    for (int32_t i = 0; i <= old->n; i++) {
        if (i == at)
            made->loops[n++] = factor;
        if (i < old->n && i != iter)
            made->loops[n++] = (struct tp_loop){old->loops[i].extent, 0};
    }
    made->n = n;

    n = 0;
    for (int32_t i = 0; i < at; i++)
        if (i != iter)
            old->loops[n++] = (struct tp_loop){old->loops[i].extent, 0};
    old->loops[n++] = factor;
    old->n = n;
    old->unroll = -1;
    old->inlined = false;
}

/* Field by field: compilers clear a struct of this size by `rep stos`, which costs more than a short step. */
static void clear_view(struct tp_step_view *v)
{
    v->iter = v->target_stage = v->inside = v->annotation = -1;
    v->extent = v->outer = v->inner = v->moved = v->padded = 0;
    v->n_parts = v->n_loops = v->scope = 0;
    for (int i = 0; i < TP_PARTS; i++)
        v->parts[i] = 0;
    v->unroll = -1;
}

static void run_step(struct tp_replay *p, const struct tp_record *r, uint32_t k, struct tp_step_view *views)
{
    const struct tp_step *st = &r->steps[k];
    struct tp_step_view *v = &views[k];
    struct stage *s = NULL, *t;

    clear_view(v);
    v->stage = st->op[0];
    if (st->kind != TP_STEP_CHR && st->kind != TP_STEP_CHW && st->kind != TP_STEP_RF)
        s = touch(p, st->op[0]);

    switch (st->kind) {
    case TP_STEP_AN:
        v->iter = st->op[1];
        v->annotation = st->op[2];
        if (have_loop(s, v->iter)) {
            s->loops[v->iter].annotation = st->op[2];
            place(s, v->iter, false, v);
        }
        break;
    case TP_STEP_FU:
        fuse(p, st, s, v);
        break;
    case TP_STEP_PR:
        v->iter = st->op[1];
        v->unroll = unroll_limit(st->str);
        if (v->unroll > p->max_unroll)
            p->max_unroll = v->unroll;
        if (s && v->unroll >= 0)
            s->unroll = v->unroll;
        if (s && v->iter >= 0 && v->iter < s->n) /* may lie beyond the nest: no reason to grow it */
            place(s, v->iter, false, v);
        break;
    case TP_STEP_RE:
        reorder(p, st, s, v);
        break;
    case TP_STEP_SP:
        v->iter = st->op[1];
        split(p, s, v->iter, st->op[2], &(struct lengths){st->list, st->n_list, 0}, st->op[3] != 0, v);
        break;
    case TP_STEP_FSP:
        v->iter = st->op[1];
        follow_split(p, r, k, s, views, v);
        break;
    case TP_STEP_FFSP:
        v->iter = st->op[1];
        follow_fused_split(p, r, k, s, v);
        break;
    case TP_STEP_SA:
        v->iter = st->op[1];
        if (have_loop(s, v->iter))
            v->extent = s->loops[v->iter].extent;
        break;
    case TP_STEP_CA:
        v->target_stage = st->op[1];
        v->iter = st->op[2];
        t = touch(p, v->target_stage);
        if (have_loop(t, v->iter))
            place(t, v->iter, true, v);
        else
            t = NULL;
        if (s) {
            s->inlined = false;
            attach(p, s, t, v->iter);
            v->moved = product(s->loops, 0, s->n);
        }
        break;
    case TP_STEP_CI:
    case TP_STEP_CR:
        if (s) {
            s->inlined = st->kind == TP_STEP_CI;
            attach(p, s, NULL, -1);
            v->moved = st->kind == TP_STEP_CR ? product(s->loops, 0, s->n) : 0;
        }
        break;
    case TP_STEP_CHR:
        v->scope = scope_code(st->str);
        v->target_stage = st->n_list ? st->list[0] : -1;
        s = st->op[0] < TP_REPLAY_STAGES ? insert_stage(p, st->op[0] + 1) : NULL;
        if (s)
            s->scope = v->scope;
        break;
    case TP_STEP_CHW:
        cache_write(p, st, v);
        s = known(p, st->op[0]);
        break;
    case TP_STEP_RF:
        v->iter = st->op[1];
        rfactor(p, st, v);
        s = known(p, st->op[0]);
        break;
    default:
        break;
    }
    v->n_loops = s ? s->n : 0;
}

void tp_replay_run(struct tp_replay *p, const struct tp_record *r, struct tp_step_view *views)
{
    p->n_order = p->n_slots = p->n_attached = 0;
    p->max_unroll = 0;
    for (uint32_t k = 0; k < r->n_steps; k++)
        run_step(p, r, k, views);
    for (int32_t i = 0; i < p->n_order; i++)
        if (p->order[i] != NO_SLOT)
            p->slot[p->order[i]].id = i;
}

int tp_replay_stages(const struct tp_replay *p, struct tp_stage_view *out, int max)
{
    int n = 0;

    for (int32_t i = 0; i < p->n_order && n < max; i++) {
        const struct stage *s;

        if (p->order[i] == NO_SLOT)
            continue;
        s = &p->slot[p->order[i]];
        if (s->n == 0 || s->inlined)
            continue;
        out[n++] = (struct tp_stage_view){.stage = i,
                                          .n_loops = s->n,
                                          .loops = s->loops,
                                          .attach_stage = s->attach == NO_SLOT ? -1 : p->slot[s->attach].id,
                                          .attach_iter = s->attach_iter,
                                          .scope = s->scope,
                                          .unroll = s->unroll};
    }
    return n;
}

int64_t tp_replay_max_unroll(const struct tp_replay *p)
{
    return p->max_unroll;
}

int tp_replay_attached(const struct tp_replay *p)
{
    return p->n_attached;
}

int tp_replay_known_stages(const struct tp_replay *p)
{
    int n = 0;

    for (int32_t i = 0; i < p->n_order; i++)
        n += p->order[i] != NO_SLOT;
    return n;
}
