/* tclf-1: the loop summary of a whole program: the final nests of its two largest stages, and totals.
 *
 * Largest = largest product of known extents; of equal ones the lower stage id is nearer the front, so that the order
 * never hangs on anything but the program. Columns: groups NEST and SUM of tclfeat_columns.def. Pure functions. */
#include "proto/saturate.h"
#include "proto/tclfeat_priv.h"

enum {
    MAX_COUNT = 127,
    MAX_VECTOR_INSIDE = 32,
    AN_UNROLL = 1,
    AN_VECTOR = 2,
    AN_PARALLEL = 3,
    AN_VTHREAD = 4,
    AN_BLOCK_X = 5, /* then threadIdx.x, and both for y and z */
    AN_THREAD_Z = 10,
    SCOPE_SHARED = 2
};
_Static_assert((int)COL(NEST, COVER) < (int)TCLF_NEST && 2 * (int)TCLF_NEST == (int)COL(SUM, UNROLL),
               "place of the nests");

static const float MAX_PADDING_SUM = 8.0f;

static int64_t known_extent(const struct tp_loop *l)
{
    return l->extent > 0 ? l->extent : 1;
}

static int64_t product(const struct tp_loop *l, int32_t n)
{
    int64_t r = 1;
    bool over = false;

    for (int32_t i = 0; i < n; i++)
        over |= __builtin_mul_overflow(r, known_extent(&l[i]), &r);
    return over ? INT64_MAX : r;
}

static const struct tp_stage_view *find_stage(const struct tp_stage_view *stages, int n, int32_t id)
{
    for (int i = 0; i < n; i++)
        if (stages[i].stage == id)
            return &stages[i];
    return NULL;
}

/* How far the unroll limit reaches from inside. Loops bound to threads or vector lanes do not count as iterations. */
static int64_t cover(const struct tp_stage_view *s, int64_t limit)
{
    int64_t done = 1;

    for (int32_t i = s->n_loops - 1; i >= 0; i--) {
        const struct tp_loop *l = &s->loops[i];
        int64_t next;

        if (l->annotation != 0 && l->annotation != AN_UNROLL)
            continue;
        next = tp_mul_sat(done, known_extent(l));
        if (next > limit)
            break;
        done = next;
    }
    return done;
}

static float lg_or_zero(int64_t product_or_zero)
{
    return product_or_zero ? lg((float)product_or_zero) : 0.0f;
}

static void nest(const struct tp_stage_view *s, const struct tp_stage_view *target, int64_t total, float *out)
{
    int64_t tile = 1, by_annotation[AN_THREAD_Z + 1] = {0}, block, thread, limit;
    int32_t n = s->n_loops;

    for (int32_t i = 0; i < n; i++) {
        const struct tp_loop *l = &s->loops[n - 1 - i];

        tile = tp_mul_sat(tile, known_extent(l));
        if (i < COUNT_OF(NEST, EXTENT))
            out[COL(NEST, EXTENT) + i] = lg((float)l->extent) / DIV(NEST, EXTENT);
        if (i % 2 == 1 && i / 2 < COUNT_OF(NEST, TILE))
            out[COL(NEST, TILE) + i / 2] = log2f((float)tile) / DIV(NEST, TILE);
        if (l->annotation > 0 && l->annotation <= AN_THREAD_Z) {
            int64_t *p = &by_annotation[l->annotation];

            if (l->annotation == AN_VECTOR && *p == 0)
                out[COL(NEST, VECTOR_INSIDE)] = (float)at_most(i, MAX_VECTOR_INSIDE) / DIV(NEST, VECTOR_INSIDE);
            *p = tp_mul_sat(*p ? *p : 1, known_extent(l));
        }
    }
    if (n < 2 * COUNT_OF(NEST, TILE)) { /* a short nest is a tile as a whole */
        const float whole = log2f((float)tile) / DIV(NEST, TILE);

        for (int32_t i = n / 2; i < COUNT_OF(NEST, TILE); i++)
            out[COL(NEST, TILE) + i] = whole;
    }

    block = thread = 0;
    for (int a = AN_BLOCK_X; a <= AN_THREAD_Z; a++)
        if (by_annotation[a]) {
            int64_t *p = (a - AN_BLOCK_X) % 2 == 0 ? &block : &thread;

            *p = tp_mul_sat(*p ? *p : 1, by_annotation[a]);
        }
    out[COL(NEST, PARALLEL)] = lg_or_zero(by_annotation[AN_PARALLEL]) / DIV(NEST, PARALLEL);
    out[COL(NEST, VECTOR)] = lg_or_zero(by_annotation[AN_VECTOR]) / DIV(NEST, VECTOR);
    out[COL(NEST, UNROLLED)] = lg_or_zero(by_annotation[AN_UNROLL]) / DIV(NEST, UNROLLED);
    out[COL(NEST, VTHREAD)] = lg_or_zero(by_annotation[AN_VTHREAD]) / DIV(NEST, VTHREAD);
    out[COL(NEST, BLOCK)] = lg_or_zero(block) / DIV(NEST, BLOCK);
    out[COL(NEST, THREAD)] = lg_or_zero(thread) / DIV(NEST, THREAD);

    if (s->attach_stage >= 0)
        out[COL(NEST, ATTACHED)] = 1.0f;
    if (target && s->attach_iter < target->n_loops)
        out[COL(NEST, ATTACH_OUTER)] = lg((float)product(target->loops, s->attach_iter + 1)) / DIV(NEST, ATTACH_OUTER);
    out[COL(NEST, TOTAL)] = lg((float)total) / DIV(NEST, TOTAL);
    out[COL(NEST, N_LOOPS)] = (float)at_most(n, MAX_COUNT) / DIV(NEST, N_LOOPS);
    /* A pragma on the consumer covers what is computed inside it. */
    limit = s->unroll >= 0 ? s->unroll : target ? target->unroll : -1;
    out[COL(NEST, COVER)] = log2f((float)cover(s, limit)) / DIV(NEST, COVER);
}

void tclf1_summary(const struct tp_replay *p, const struct tp_record *r, const struct tp_step_view *views,
                   struct tp_stage_view *stages, float out[TCLF_SUMMARY])
{
    int n = tp_replay_stages(p, stages, TP_REPLAY_STAGES), largest[2] = {-1, -1};
    int64_t total[2] = {0, 0}, shared = 0;
    int caches = 0, inlined = 0;
    float padding = 0.0f;

    memset(out, 0, TCLF_SUMMARY * sizeof *out);
    for (int i = 0; i < n; i++) {
        int64_t t = product(stages[i].loops, stages[i].n_loops);

        if (stages[i].scope == SCOPE_SHARED && __builtin_add_overflow(shared, t, &shared))
            shared = INT64_MAX;
        if (t > total[0]) {
            largest[1] = largest[0];
            total[1] = total[0];
            largest[0] = i;
            total[0] = t;
        } else if (t > total[1]) {
            largest[1] = i;
            total[1] = t;
        }
    }
    for (int i = 0; i < 2 && largest[i] >= 0; i++) {
        const struct tp_stage_view *s = &stages[largest[i]];

        nest(s, s->attach_stage >= 0 ? find_stage(stages, n, s->attach_stage) : NULL, total[i], out + i * TCLF_NEST);
    }
    for (uint32_t i = 0; i < r->n_steps; i++)
        switch (r->steps[i].kind) {
        case TP_STEP_CHR:
        case TP_STEP_CHW:
        case TP_STEP_RF:
            caches++;
            break;
        case TP_STEP_CI:
            inlined++;
            break;
        case TP_STEP_SP:
            if (views[i].padded > views[i].extent && views[i].extent > 0)
                padding += log2f((float)views[i].padded / (float)views[i].extent);
            break;
        default:
            break;
        }
    out[COL(SUM, UNROLL)] = lg((float)tp_replay_max_unroll(p)) / DIV(SUM, UNROLL);
    out[COL(SUM, STAGES)] = (float)at_most(tp_replay_known_stages(p), MAX_COUNT) / DIV(SUM, STAGES);
    out[COL(SUM, ATTACHED)] = (float)at_most(tp_replay_attached(p), MAX_COUNT) / DIV(SUM, ATTACHED);
    out[COL(SUM, STEPS)] = (float)r->n_steps / DIV(SUM, STEPS);
    out[COL(SUM, SHARED)] = lg((float)shared) / DIV(SUM, SHARED);
    out[COL(SUM, CACHES)] = (float)at_most(caches, MAX_COUNT) / DIV(SUM, CACHES);
    out[COL(SUM, INLINED)] = (float)at_most(inlined, MAX_COUNT) / DIV(SUM, INLINED);
    out[COL(SUM, PADDING)] = fminf(padding, MAX_PADDING_SUM) / DIV(SUM, PADDING);
}
