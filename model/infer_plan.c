/* A model prepared for the kernels: matrices transposed and packed in panels, A made ready, channels contiguous.
 * Immutable once made; shared by threads without locks. */
#include "model/infer_internal.h"
#include "model/mem.h"

#include <math.h>

/* Hands out pieces of the plan's memory; with mem NULL it only counts. Pieces start on cache lines. */
struct arena {
    float *mem;
    size_t n;
};

static float *take(struct arena *a, size_t n)
{
    float *p = a->mem ? a->mem + a->n : NULL;
    a->n += (n + 15) / 16 * 16;
    return p;
}

static const float *tensor(const struct tm_model *m, enum tm_tensor t)
{
    return m->w + m->shape[t].offset;
}

/* bias < 0: none. */
static void pack_linear(struct arena *arena, struct tm_linear *l, const struct tm_kern *k, const struct tm_model *m,
                        enum tm_tensor weight, int bias)
{
    const struct tm_shape *s = &m->shape[weight];
    l->out = s->dim[0];
    l->in = s->dim[1];
    const size_t size = tm_linear_size(k, l);
    float *w = take(arena, size), *b = take(arena, (size_t)l->out_padded);
    l->w = w;
    l->bias = b;
    if (!w)
        return;
    tm_linear_pack(k, l, tensor(m, weight), w);
    for (int j = 0; j < l->out_padded; j++)
        b[j] = bias >= 0 && j < l->out ? tensor(m, (enum tm_tensor)bias)[j] : 0.0f;
}

static const double inv_ln2 = 1.4426950408889634;

/* [rows][columns] -> [columns][rows], times scale */
static float *transposed(struct arena *arena, const struct tm_model *m, enum tm_tensor t, int rows, int columns,
                         double scale)
{
    float *p = take(arena, m->shape[t].size);
    for (int i = 0; p && i < rows; i++)
        for (int j = 0; j < columns; j++)
            p[j * rows + i] = (float)(scale * (double)tensor(m, t)[i * columns + j]);
    return p;
}

static const float *vector(struct arena *arena, const struct tm_model *m, enum tm_tensor t, double scale)
{
    return transposed(arena, m, t, (int)m->shape[t].size, 1, scale);
}

static void fill(struct tm_plan *p, const struct tm_model *m, struct arena *arena)
{
    const struct tm_hyper *h = &p->h;
    const struct tm_kern *k = p->kern;
    struct tm_mixer *x = &p->mixer;
    pack_linear(arena, &p->embed0, k, m, TM_T_EMBED0_W, TM_T_EMBED0_B);
    pack_linear(arena, &p->embed1, k, m, TM_T_EMBED1_W, TM_T_EMBED1_B);
    pack_linear(arena, &p->in_proj, k, m, TM_T_IN_PROJ_W, -1);
    pack_linear(arena, &p->x_proj, k, m, TM_T_X_PROJ_W, -1);
    pack_linear(arena, &p->out_proj, k, m, TM_T_OUT_PROJ_W, -1);
    if (h->summary) {
        pack_linear(arena, &p->summary0, k, m, TM_T_SUMMARY0_W, TM_T_SUMMARY0_B);
        pack_linear(arena, &p->summary1, k, m, TM_T_SUMMARY1_W, TM_T_SUMMARY1_B);
    }
    pack_linear(arena, &p->head0, k, m, TM_T_HEAD0_W, TM_T_HEAD0_B);
    pack_linear(arena, &p->head1, k, m, TM_T_HEAD1_W, TM_T_HEAD1_B);
    pack_linear(arena, &p->head2, k, m, TM_T_HEAD2_W, TM_T_HEAD2_B);
    p->norm = vector(arena, m, TM_T_NORM_W, 1.0);
    p->norm_f = vector(arena, m, TM_T_NORM_F_W, 1.0);

    x->d_inner = h->d_model;
    x->d_state = h->d_state;
    x->d_conv = h->d_conv;
    x->dt_rank = h->dt_rank;
    x->conv_w = transposed(arena, m, TM_T_CONV_W, h->d_model, h->d_conv, -inv_ln2);
    x->conv_b = vector(arena, m, TM_T_CONV_B, -inv_ln2);
    x->dt_w = transposed(arena, m, TM_T_DT_PROJ_W, h->d_model, h->dt_rank, inv_ln2);
    x->dt_b = vector(arena, m, TM_T_DT_PROJ_B, inv_ln2);
    x->d = vector(arena, m, TM_T_D, 1.0);
    float *a = transposed(arena, m, TM_T_A_LOG, h->d_model, h->d_state, 1.0);
    for (size_t i = 0; a && i < m->shape[TM_T_A_LOG].size;
         i++) /* far beyond any trained value, exp must not overflow */
        a[i] = (float)(-exp(fmin((double)a[i], 80.0)) * inv_ln2);
    x->a = a;
}

/* The scratch buffers have room for this. What a weights file may hold is narrower: tm_hyper_check(). */
static bool fits(const struct tm_hyper *h)
{
    return tm_hyper_published(h) && h->features > 0 && h->features <= TCLFEAT_MAX_COLS && h->embed <= TM_LIMIT_WIDTH &&
           h->d_model <= TM_LIMIT_WIDTH && h->d_state <= TM_LIMIT_STATE && h->d_conv <= TM_LIMIT_CONV &&
           h->dt_rank <= TM_LIMIT_RANK && h->summary <= TCLFEAT_MAX_SUMMARY && h->summary_width <= TM_LIMIT_WIDTH &&
           h->head1 <= TM_LIMIT_WIDTH && h->head2 <= TM_LIMIT_WIDTH;
}

struct tm_plan *tm_plan_new_for(const struct tm_model *m, enum tm_simd_set set)
{
    const struct tm_hyper *h = &m->h;
    struct arena arena = {0};
    struct tm_plan *p = NULL;
    const struct tm_kern *k = tm_kern(set);
    if (!k || !fits(h))
        return NULL;
    if (k->fixed_mixer && (h->d_model != 128 || h->d_state != 8 || h->d_conv != 4 || h->dt_rank != 8))
        k = &tm_kern_portable;
    p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->kern = k;
    p->h = *h;
    p->features = m->features;
    p->row_floats = 3 * (size_t)h->d_model;
    p->state_floats = tm_state_floats(h->d_model, h->d_state);
    p->calib_a = m->calib_a;
    p->calib_b = m->calib_b;
    p->latency_shift = m->latency_shift;
    fill(p, m, &arena);
    arena.mem = p->mem = tm_alloc(arena.n, sizeof *arena.mem);
    if (!p->mem) {
        free(p);
        return NULL;
    }
    arena.n = 0;
    fill(p, m, &arena);
    return p;
}

struct tm_plan *tm_plan_new(const struct tm_model *m)
{
    return tm_plan_new_for(m, tm_simd_set());
}

void tm_plan_free(struct tm_plan *p)
{
    if (!p)
        return;
    free(p->mem);
    free(p);
}
