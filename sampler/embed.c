/* Round 0: [mean row | summary] times a matrix of normal deviates / sqrt(columns), the same one always; such a
 * projection keeps distances up to a small factor (Johnson and Lindenstrauss). */
#include "sampler/embed.h"

#include "model/mem.h"

#include <math.h>

enum { SEED = 0x7464 };

/* [columns][TS_EMBED_DIM], Box-Muller */
static float *projection(size_t columns)
{
    struct tm_rng rng;
    float *w = tm_alloc(columns * TS_EMBED_DIM, sizeof *w);
    tm_rng_seed(&rng, SEED);
    for (size_t i = 0; w && i < columns * TS_EMBED_DIM; i++) {
        const double radius = sqrt(-2.0 * log(1.0 - tm_rng_uniform(&rng))), angle = 2.0 * M_PI * tm_rng_uniform(&rng);
        w[i] = (float)(radius * cos(angle) / sqrt((double)columns));
    }
    return w;
}

static void mean_row(const struct tm_dataset *d, uint32_t program, double *mean)
{
    const size_t cols = (size_t)d->cols;
    const uint32_t from = d->start[program], to = d->start[program + 1];
    memset(mean, 0, cols * sizeof *mean);
    for (uint32_t i = from; i < to; i++)
        for (size_t j = 0; j < cols; j++)
            mean[j] += (double)d->rows[d->ids[i] * cols + j] / (double)(to - from);
}

int ts_embed_rows(const struct tm_dataset *d, const uint32_t *idx, size_t n, float *out)
{
    const size_t cols = (size_t)d->cols, summary = (size_t)d->summary_cols;
    float *w = projection(cols + summary);
    if (!w)
        return -TP_E_NO_MEMORY;
    for (size_t i = 0; i < n; i++, out += TS_EMBED_DIM) {
        double x[TCLFEAT_MAX_COLS + TCLFEAT_MAX_SUMMARY], y[TS_EMBED_DIM] = {0};
        const uint32_t program = idx ? idx[i] : (uint32_t)i;
        mean_row(d, program, x);
        for (size_t j = 0; j < summary; j++)
            x[cols + j] = (double)d->summary[program * summary + j];
        for (size_t j = 0; j < cols + summary; j++)
            for (size_t k = 0; k < TS_EMBED_DIM && x[j] != 0.0; k++)
                y[k] += x[j] * (double)w[j * TS_EMBED_DIM + k];
        for (size_t k = 0; k < TS_EMBED_DIM; k++)
            out[k] = (float)y[k];
    }
    free(w);
    return 0;
}
