/* Kernels of selection: standardised rows, distances and products of one vector with many, the place of a minimum. The
 * order of additions is fixed by the vector width alone, so a distance does not depend on which rows are passed along,
 * and that of equal vectors is exactly 0. Compiled once per kernel set. */
#include "model/ops.h"
#include "model/vec.h"

void TM_OP(tm_near_standardise)(tm_real *restrict y, const tm_real *restrict x, const tm_real *restrict mean,
                                const tm_real *restrict scale, tm_real bound, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tm_real z = (x[i] - mean[i]) * scale[i];
        z = z > bound ? bound : z;
        z = z < -bound ? -bound : z;
        y[i] = x[i] - x[i] == 0 ? z : 0; /* finite */
    }
}

/* Four rows at a time share the loads of x and keep eight accumulators busy. */
TM_INLINE tm_vec part(tm_vec sum, tm_vec x, tm_vec y, int squares)
{
    if (!squares)
        return sum + x * y;
    x -= y;
    return sum + x * x;
}

TM_INLINE void all_rows(const tm_real *x, const tm_real *y, size_t rows, size_t cols, tm_real *out, int squares)
{
    size_t r = 0;
    for (; r + 4 <= rows; r += 4, y += 4 * cols) {
        tm_vec a = v_set(0), b = a, c = a, d = a;
        for (size_t i = 0; i < cols; i += TM_LANES) {
            const tm_vec v = v_load(x + i);
            a = part(a, v, v_load(y + i), squares);
            b = part(b, v, v_load(y + cols + i), squares);
            c = part(c, v, v_load(y + 2 * cols + i), squares);
            d = part(d, v, v_load(y + 3 * cols + i), squares);
        }
        out[r] = v_sum(a);
        out[r + 1] = v_sum(b);
        out[r + 2] = v_sum(c);
        out[r + 3] = v_sum(d);
    }
    for (; r < rows; r++, y += cols) {
        tm_vec a = v_set(0);
        for (size_t i = 0; i < cols; i += TM_LANES)
            a = part(a, v_load(x + i), v_load(y + i), squares);
        out[r] = v_sum(a);
    }
}

void TM_OP(tm_near_distances)(const tm_real *x, const tm_real *y, size_t rows, size_t cols, tm_real *out)
{
    all_rows(x, y, rows, cols, out, 1);
}

void TM_OP(tm_near_products)(const tm_real *x, const tm_real *y, size_t rows, size_t cols, tm_real *out)
{
    all_rows(x, y, rows, cols, out, 0);
}

size_t TM_OP(tm_near_argmin)(const tm_real *x, size_t n)
{
    tm_vec low = v_load(x);
    for (size_t i = TM_LANES; i < n; i += TM_LANES)
        low = v_min(v_load(x + i), low);
    tm_real best[TM_LANES] __attribute__((aligned(TM_VEC_BYTES)));
    v_store(best, low);
    for (int l = 1; l < TM_LANES; l++)
        best[0] = best[l] < best[0] ? best[l] : best[0];
    for (size_t i = 0; i < n; i++)
        if (x[i] == best[0])
            return i;
    return 0; /* NaN */
}
