/* The cost model's shape and weights: embedding -> RMSNorm -> Mamba-1 block -> residual -> sum over rows -> RMSNorm ->
 * head, loop summary MLP beside it. Formulas: docs/model.md section 2; Mamba: arXiv 2312.00752.
 *
 * Weights are one contiguous array of fp32; tensors are views into it, in the order of model/tensors.def, [out][in]
 * row-major, each padded to a multiple of 16 floats so that every tensor starts on a cache line. Padding is zero. */
#ifndef TM_NET_H
#define TM_NET_H

#include "proto/err.h"
#include "proto/tclfeat.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the rows of a program become one vector. RMSNorm follows, so the mean differs from the sum by its epsilon alone.
 */
enum tm_pooling { TM_POOL_SUM, TM_POOL_MEAN, TM_POOL_LAST };
enum { TM_MAX_BLOCKS = 2 };

struct tm_hyper {
    int features;      /* F: columns of a row, <= 64 */
    int embed;         /* 64: width of the first embedding layer */
    int d_model;       /* 128 (d_inner = d_model: expand 1) */
    int d_state;       /* 8 */
    int d_conv;        /* 4 */
    int dt_rank;       /* 8 */
    int summary;       /* S: 72, or 0: no summary branch */
    int summary_width; /* 64 */
    int head1, head2;  /* 64, 32 */
    /* For experiments: training knows them, weights files and the engine only the published network, where both are 0
     */
    enum tm_pooling pooling;
    int more_blocks; /* mixer blocks behind the first, each with a norm and a residual: < TM_MAX_BLOCKS */
};
bool tm_hyper_published(const struct tm_hyper *h); /* one block, pooled by the sum */
struct tm_hyper tm_hyper_default(enum tclfeat_set s);
enum { TM_MAX_PARAMETERS = 94371 }; /* 0.36 MiB of fp32 */
#define TM_NORM_EPS 1e-5            /* both RMSNorms: x * w / sqrt(mean(x^2) + eps) */

/* X(ID, "name", dim0, dim1, dim2): dims are expressions over `h` (const struct tm_hyper *); 1 = no such dim. */
enum tm_tensor {
#define X(id, name, d0, d1, d2, init) TM_T_##id,
#include "model/tensors.def"
#undef X
    TM_TENSORS
};

struct tm_shape {
    const char *name; /* "mixer.in_proj.weight" */
    int n_dims;
    int dim[3];
    size_t size;   /* product of dims */
    size_t offset; /* floats from the start of the array */
};

/* Shapes and offsets for h; returns the total number of floats in the array (with padding). */
size_t tm_layout(const struct tm_hyper *h, struct tm_shape shape[TM_TENSORS]);
size_t tm_parameter_count(const struct tm_hyper *h); /* without padding: what is trained and stored */
/* Does weight decay apply? Matrices only: not to A_log, D, norms, biases. */
bool tm_tensor_decays(enum tm_tensor t);

/* Everything that a prediction needs, immutable once published. */
struct tm_model {
    struct tm_hyper h;
    enum tclfeat_set features;
    struct tm_shape shape[TM_TENSORS];
    size_t n;                /* floats in w */
    float *w;                /* owned, 64-byte aligned */
    double calib_a, calib_b; /* score = sigmoid(calib_a * s + calib_b), calib_a > 0 */
    double latency_shift;    /* added to the head's ln latency */
    /* std of ln latency at score 1/2, 0 unknown, and minus its logarithm's slope in the score: tasks without an offset,
     * tasks with one (model/latency.h) */
    double latency_std, latency_tilt;
    double known_std, known_tilt;
    double known_slope; /* of ln latency within a task that has an offset */
};

/* Freshly initialised (docs/model.md "Init"), deterministic by seed. NULL when out of memory. */
struct tm_model *tm_model_new(enum tclfeat_set s, const struct tm_hyper *h, uint64_t seed);
struct tm_model *tm_model_clone(const struct tm_model *m);
void tm_model_free(struct tm_model *m);

/* The generator used everywhere: xoshiro256**, seeded by splitmix64. */
struct tm_rng {
    uint64_t s[4];
};
void tm_rng_seed(struct tm_rng *r, uint64_t seed);
uint64_t tm_rng_next(struct tm_rng *r);
double tm_rng_uniform(struct tm_rng *r);             /* [0,1) */
uint32_t tm_rng_below(struct tm_rng *r, uint32_t n); /* unbiased, [0,n) */
void tm_rng_shuffle(struct tm_rng *r, uint32_t *v, size_t n);

#endif
