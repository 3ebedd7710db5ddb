/* Shape, initialisation and copies of the cost model, and the random generator that everything stochastic uses.
 *
 * The layout is a pure function of the hyper-parameters: tensors in the order of model/tensors.def, each rounded up to
 * TENSOR_ALIGN floats. Padding is zero after tm_model_new and stays zero in training (its gradient is zero).
 * Generator: xoshiro256** (Blackman, Vigna), seeded through splitmix64. Init: PyTorch's Linear and Conv1d, and
 * state-spaces/mamba for A_log, D and dt_proj. Thread-safety: pure functions over what they are given. */
#include "model/net.h"

#include "model/mem.h"

#include <math.h>

enum { TENSOR_ALIGN = TM_ALIGN / (int)sizeof(float) };

enum init_kind { INIT_LINEAR, INIT_ONES, INIT_A_LOG, INIT_DT_BIAS };

struct tm_hyper tm_hyper_default(enum tclfeat_set s)
{
    return (struct tm_hyper){
        .features = tclfeat_cols(s),
        .embed = 64,
        .d_model = 128,
        .d_state = 8,
        .d_conv = 4,
        .dt_rank = 8,
        .summary = tclfeat_summary_cols(s),
        .summary_width = 64,
        .head1 = 64,
        .head2 = 32,
    };
}

bool tm_hyper_published(const struct tm_hyper *h)
{
    return h->pooling == TM_POOL_SUM && h->more_blocks == 0;
}

size_t tm_layout(const struct tm_hyper *h, struct tm_shape shape[TM_TENSORS])
{
    const struct tm_shape table[TM_TENSORS] = {
#define X(ID, NAME, D0, D1, D2, INIT)                                                                                  \
    [TM_T_##ID] = {.name = (NAME), .dim = {(D0), (D1), (D2)}, .n_dims = (D2) != 1 ? 3 : (D1) != 1 ? 2 : 1},
#include "model/tensors.def"
#undef X
    };
    size_t offset = 0;
    for (int t = 0; t < TM_TENSORS; t++) {
        shape[t] = table[t];
        shape[t].size = (size_t)shape[t].dim[0] * (size_t)shape[t].dim[1] * (size_t)shape[t].dim[2];
        shape[t].offset = offset;
        offset += (shape[t].size + TENSOR_ALIGN - 1) / TENSOR_ALIGN * TENSOR_ALIGN;
    }
    return offset;
}

size_t tm_parameter_count(const struct tm_hyper *h)
{
    struct tm_shape shape[TM_TENSORS];
    size_t n = 0;
    tm_layout(h, shape);
    for (int t = 0; t < TM_TENSORS; t++)
        n += shape[t].size;
    return n;
}

bool tm_tensor_decays(enum tm_tensor t)
{
    switch (t) {
    case TM_T_EMBED0_W:
    case TM_T_EMBED1_W:
    case TM_T_IN_PROJ_W:
    case TM_T_CONV_W:
    case TM_T_X_PROJ_W:
    case TM_T_DT_PROJ_W:
    case TM_T_OUT_PROJ_W:
    case TM_T_SUMMARY0_W:
    case TM_T_SUMMARY1_W:
    case TM_T_HEAD0_W:
    case TM_T_HEAD1_W:
    case TM_T_HEAD2_W:
    case TM_T_IN_PROJ_W_2:
    case TM_T_CONV_W_2:
    case TM_T_X_PROJ_W_2:
    case TM_T_DT_PROJ_W_2:
    case TM_T_OUT_PROJ_W_2:
        return true;
    default:
        return false;
    }
}

/* softplus(dt_proj.bias) is log-uniform in [1e-3, 1e-1]: the inverse is dt + ln(1 - exp(-dt)). */
static double dt_bias(struct tm_rng *r)
{
    const double lo = 1e-3, hi = 1e-1;
    double dt = exp(log(lo) + tm_rng_uniform(r) * (log(hi) - log(lo)));
    return dt + log(-expm1(-dt));
}

static void init_tensor(const struct tm_shape *s, enum init_kind kind, int fan_in, float *w, struct tm_rng *r)
{
    double bound = fan_in > 0 ? 1.0 / sqrt(fan_in) : 0.0;
    for (size_t i = 0; i < s->size; i++) {
        switch (kind) {
        case INIT_LINEAR:
            w[i] = (float)((2.0 * tm_rng_uniform(r) - 1.0) * bound);
            break;
        case INIT_ONES:
            w[i] = 1.0f;
            break;
        case INIT_A_LOG:
            w[i] = (float)log((double)(i % (size_t)s->dim[1]) + 1.0);
            break;
        case INIT_DT_BIAS:
            w[i] = (float)dt_bias(r);
            break;
        }
    }
}

struct tm_model *tm_model_new(enum tclfeat_set s, const struct tm_hyper *h, uint64_t seed)
{
    struct tm_model *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->h = *h;
    m->features = s;
    m->n = tm_layout(h, m->shape);
    m->w = tm_alloc(m->n, sizeof *m->w);
    if (!m->w) {
        free(m);
        return NULL;
    }
    m->calib_a = m->known_slope = 1.0;

    struct tm_rng rng;
    tm_rng_seed(&rng, seed);
#define LINEAR(fan_in)                INIT_LINEAR, (fan_in)
#define ONES                          INIT_ONES, 0
#define A_LOG                         INIT_A_LOG, 0
#define DT_BIAS                       INIT_DT_BIAS, 0
#define X(ID, NAME, D0, D1, D2, INIT) init_tensor(&m->shape[TM_T_##ID], INIT, m->w + m->shape[TM_T_##ID].offset, &rng);
#include "model/tensors.def"
#undef X
#undef LINEAR
#undef ONES
#undef A_LOG
#undef DT_BIAS
    return m;
}

struct tm_model *tm_model_clone(const struct tm_model *m)
{
    struct tm_model *c = malloc(sizeof *c);
    if (!c)
        return NULL;
    *c = *m;
    c->w = tm_alloc(m->n, sizeof *c->w);
    if (!c->w) {
        free(c);
        return NULL;
    }
    memcpy(c->w, m->w, m->n * sizeof *c->w);
    return c;
}

void tm_model_free(struct tm_model *m)
{
    if (!m)
        return;
    free(m->w);
    free(m);
}

static uint64_t splitmix64(uint64_t *x)
{
    uint64_t z = (*x += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void tm_rng_seed(struct tm_rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        r->s[i] = splitmix64(&seed);
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t tm_rng_next(struct tm_rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

double tm_rng_uniform(struct tm_rng *r)
{
    return (double)(tm_rng_next(r) >> 11) * 0x1p-53;
}

/* Lemire's method: the high word of a product, rejecting the few low words that would favour small results. */
uint32_t tm_rng_below(struct tm_rng *r, uint32_t n)
{
    if (n == 0)
        return 0;
    uint32_t threshold = (0u - n) % n;
    for (;;) {
        uint64_t m = (tm_rng_next(r) >> 32) * (uint64_t)n;
        if ((uint32_t)m >= threshold)
            return (uint32_t)(m >> 32);
    }
}

void tm_rng_shuffle(struct tm_rng *r, uint32_t *v, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = tm_rng_below(r, (uint32_t)i);
        uint32_t x = v[i - 1];
        v[i - 1] = v[j];
        v[j] = x;
    }
}
